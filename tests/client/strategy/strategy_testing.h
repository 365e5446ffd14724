/* tests/client/strategy/strategy_testing.h - small graphs with a strategy's scope, run in a session with
 * several devices. */
#ifndef WEFT_TESTS_CLIENT_STRATEGY_STRATEGY_TESTING_H_
#define WEFT_TESTS_CLIENT_STRATEGY_STRATEGY_TESTING_H_

#include "weft/strategy.h"

enum { REPLICAS = 4 };

typedef struct world {
  TF_Graph *graph;
  TF_Status *status;
  WEFT_Strategy *strategy;
  TF_Session *session; /* opened by the first run */
} world_t;

/* A mirrored strategy on CPU:0 .. CPU:n-1, with its scope open. */
void world_begin(world_t *w, int n);
/* Any other; the world owns it. */
void world_begin_with(world_t *w, WEFT_Strategy *strategy, TF_Status *status);
void world_end(world_t *w);

/* The last call's code; a failed test if it is another than expected. Clears the status. */
void expect(world_t *w, TF_Code code, const char *text, const char *file, int line);
#define EXPECT_OK(w) expect((w), TF_OK, "", __FILE__, __LINE__)
#define EXPECT(w, code, text) expect((w), (code), (text), __FILE__, __LINE__)

TF_Output constant(world_t *w, const char *name, double value); /* a double scalar */
TF_Output vector(world_t *w, const char *name, const double *values, int n);
TF_Output int_constant(world_t *w, const char *name, int64_t value);
TF_Output ids(world_t *w, const char *name, const int64_t *values, int n);
WEFT_Variable *scalar_variable(world_t *w, const char *name, WEFT_Synchronization sync,
                               WEFT_Aggregation aggregation); /* double, 0 */
void run_target(world_t *w, const TF_Operation *op);
double fetch(world_t *w, TF_Output o); /* the first element of a double or int64 tensor */
int fetch_all(world_t *w, TF_Output o, double *out, int max); /* of double; how many */

#endif /* WEFT_TESTS_CLIENT_STRATEGY_STRATEGY_TESTING_H_ */
