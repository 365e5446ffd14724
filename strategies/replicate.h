/* strategies/replicate.h - one training graph on several replicas, with each batch split between them.
 *
 * The engine behind the synchronous strategies. Every replica gets a copy of the
 * graph on its own device, fed with rows [i*B/N, (i+1)*B/N) of each batch (floor;
 * some replicas have no rows where B < N). The analysis of sharding/data gives the sharding of each value;
 * where a consumer requires another sharding, the engine inserts communication or a local scale.
 *
 * Names: copies on replica 0 keep their names, those on replica i > 0 are
 * "replica_i/name", variables "name/replica_i". A name of the request whose copy on
 * replica 0 is not the true value, or is not all of the work, goes to a node that is: the sum over replicas,
 * all rows in order, the work of all; the copy is "replica_0/name" then.
 *
 * With one client per worker each worker feeds rows of its own, and fetches those rows back; sums, means and
 * variables are those of all workers together. All workers must run the same steps. Initial values are those
 * of the first replica of all, whatever the others' graphs compute.
 *
 * Step errors: batches with different numbers of rows are INVALID_ARGUMENT naming both.
 */
#ifndef WEFT_STRATEGIES_REPLICATE_H_
#define WEFT_STRATEGIES_REPLICATE_H_

#include "strategies/buckets.h"
#include "strategies/placed_graph.h"
#include "strategies/rewrite.h"

typedef enum weft_variable_policy {
  WEFT_VARIABLES_MIRRORED, /* a copy per replica, all equal at all times */
  WEFT_VARIABLES_CENTRAL,  /* one, on one of variable_devices; replicas read it there, updates happen there */
} weft_variable_policy_t;

typedef enum weft_sum_policy {
  WEFT_SUM_BY_COLLECTIVES, /* values needed by all replicas are all-reduced; a value that one node needs is
                              sent to it */
  WEFT_SUM_ON_ONE,         /* sent to replica 0, added there, sent back */
} weft_sum_policy_t;

typedef enum weft_input_policy {                     /* of iterators that the step reads */
                                 WEFT_INPUT_AUTO,    /* each task reads its rows of each batch where these are
                                                        the same as on one    device, and its own files where the
                                                        options of the data set say FILE */
                                 WEFT_INPUT_SHARDED, /* each task reads its part as the options of the data
                                                        set say */
                                 WEFT_INPUT_SPLIT,   /* one device reads for all */
} weft_input_policy_t;

typedef struct weft_replicate_options {
  const char *strategy;          /* for messages */
  const weft_str_t *devices;     /* by replica: full names where the cluster is known */
  int num_replicas;              /* 1 or more */
  const weft_str_t *all_devices; /* with one client per worker: of the replicas of all workers; `devices` are
                                    this worker's */
  int num_all_devices,
      first_replica; /* 0: one client drives all replicas; where this worker's replicas begin among all */
  weft_variable_policy_t variables;
  const weft_str_t
      *variable_devices; /* of CENTRAL: a variable and its slots live on one of these, as `placement` says */
  int num_variable_devices;
  weft_placement_t placement;
  bool caches;     /* of CENTRAL: reads of a variable that wait for nothing are one read */
  weft_str_t host; /* where batches are fed and split, and fetched values joined; "": on the first replica's
                      device */
  weft_sum_policy_t sum;
  weft_bucket_rule_t fusion;
  weft_bucket_limits_t limits;
  bool is_ordered;        /* a bucket waits for the one before it */
  weft_str_t hint;        /* communication_hint of collectives; "auto" */
  double timeout_seconds; /* of collectives; 0: none */
  int accumulate; /* gradients are added up over so many steps, then reduced and applied; 0, 1: at once */
  bool local_batch_norm; /* fused batch normalisation uses the statistics of each replica's rows, as
                            TensorFlow's strategies do */
  weft_input_policy_t input;
  weft_names_t batch;  /* exactly these feeds are batches; none: found by shape */
  const double *ready; /* by value, in the order of weft_rewrite_t.reductions: when it was ready; below 0: not
                          seen. NULL: estimated */
  int num_ready;
} weft_replicate_options_t;

/* Fills graph, inits, the one worker loop, replicas, what collectives are for and notes of *out (zeroed by
 * the caller; to be given to weft_rewrite_deinit, also on failure). Errors: INVALID_ARGUMENT naming the node
 * and why it cannot be rewritten, or the name that the graph lacks (NOT_FOUND). */
WEFT_MUST_CHECK weft_status_t *weft_replicate(const weft_strategy_request_t *r,
                                              const weft_replicate_options_t *o, weft_rewrite_t *out);

#endif /* WEFT_STRATEGIES_REPLICATE_H_ */
