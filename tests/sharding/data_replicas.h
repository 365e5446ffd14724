/* tests/sharding/data_replicas.h - takes a plan of the data axis at its word: runs a graph once on one device
 * and once as copies on shares of the batch, with the communication that the plan asks for, and compares
 * every value. */
#ifndef WEFT_TESTS_STRATEGIES_SPREAD_REPLICAS_H_
#define WEFT_TESTS_STRATEGIES_SPREAD_REPLICAS_H_

#include "graph/graph.h"

enum { MAX_SHARES = 4 };

typedef struct weft_data_case {
  const char *name;             /* tests/sharding/testdata/data/<name>.pb, unless `graph` is given */
  weft_graph_t *graph;          /* owned by the caller */
  const char *const *roots;     /* what a step runs; NULL-ended */
  const char *init;             /* run once before; NULL: nothing */
  const char *const *variables; /* compared after each step; NULL-ended. Outputs of these nodes are read */
  int shares[MAX_SHARES];       /* rows of each replica; 0 ends */
  int steps;
  double tolerance; /* of values, relative to the largest of a tensor */
} weft_data_case_t;

/* Fails the test that calls it, naming each value that is not sharded as the plan says. Returns how many were
 * compared. */
int weft_data_check(const weft_data_case_t *c);
weft_graph_t *weft_data_test_graph(const char *name); /* lowered, with shapes; owned by the caller */

#endif /* WEFT_TESTS_STRATEGIES_SPREAD_REPLICAS_H_ */
