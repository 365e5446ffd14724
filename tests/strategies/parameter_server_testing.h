/* tests/strategies/parameter_server_testing.h - models to train, and clusters in this process that train
 * them. */
#ifndef WEFT_TESTS_STRATEGIES_PARAMETER_SERVER_TESTING_H_
#define WEFT_TESTS_STRATEGIES_PARAMETER_SERVER_TESTING_H_

#include "strategies/strategy.h"
#include "tests/master/local_cluster.h"

enum { WEFT_PS_MAX_LOOPS = 8 };

typedef enum weft_ps_optimizer { WEFT_PS_SGD, WEFT_PS_MOMENTUM, WEFT_PS_ADAM } weft_ps_optimizer_t;
typedef struct weft_ps_model {
  weft_dtype_t dtype; /* F32 or F64 */
  bool resources;     /* variables by handle */
  weft_ps_optimizer_t optimizer;
  int inputs, hidden, classes; /* hidden 0: linear, squared loss on one output */
  int rows, width; /* rows > 0: an embedding of so many rows, looked up by int64 "ids" [B], is the input */
  double rate;
  double clip; /* > 0: gradients are clipped by their global norm */
  bool sums;   /* the loss is a sum over rows, not their mean */
} weft_ps_model_t;

/* A training graph: feeds "x" [B, inputs] (or "ids" [B]) and "y" [B, classes]; "loss", "train", "init";
 * "global_step" is counted by "train". Variables w0, b0, w1, b1, ..., emb. With "save" and "restore", which
 * use the file name "path". */
weft_graph_t *weft_ps_model_graph(const weft_ps_model_t *m);

/* A cluster that runs a rewritten graph: task 0.. are servers, then workers. */
typedef struct weft_ps_cluster {
  weft_test_cluster_t *cluster;
  weft_task_devices_t tasks[8];
  weft_cluster_view_t view;
  int num_ps, num_workers;
  weft_rewrite_t r;
  weft_test_session_t sessions[WEFT_PS_MAX_LOOPS + 1]; /* by worker loop */
} weft_ps_cluster_t;

/* Tasks without anything that runs: for rewrites alone. */
void weft_ps_view(weft_ps_cluster_t *c, int num_ps, int num_workers);
weft_status_t *weft_ps_rewrite(weft_ps_cluster_t *c, const weft_graph_t *g, const char *options,
                               const char *const *feeds, const char *const *fetches);
/* Rewrites "train" with fetch "loss", starts the cluster, opens a session per worker loop, runs the inits.
 * Options NULL: the graph as it is, on the first task. */
void weft_ps_start(weft_ps_cluster_t *c, const weft_graph_t *g, const char *options, int num_ps,
                   int num_workers);
void weft_ps_stop(weft_ps_cluster_t *c);

/* A batch: rows [begin, begin+rows) of a fixed table of numbers that a generator makes. */
typedef struct weft_ps_batch {
  weft_tensor_t *x, *y; /* owned */
} weft_ps_batch_t;
weft_ps_batch_t weft_ps_batch(const weft_ps_model_t *m, int64_t begin, int64_t rows);
void weft_ps_batch_drop(weft_ps_batch_t *b);

/* Runs worker loop i once with a batch (NULL: an update loop); gives the loss. */
weft_status_t *weft_ps_step(weft_ps_cluster_t *c, int loop, const weft_ps_batch_t *batch, double *loss);
/* A whole value, through worker loop 0's session; owned by the caller. A failure fails the test. */
weft_tensor_t *weft_ps_value(weft_ps_cluster_t *c, const char *fetch);
double weft_ps_distance(const weft_tensor_t *a, const weft_tensor_t *b); /* greatest difference of elements */

#endif /* WEFT_TESTS_STRATEGIES_PARAMETER_SERVER_TESTING_H_ */
