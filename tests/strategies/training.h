/* tests/strategies/training.h - training graphs, rewritten and run in this process, beside the graph on one
 * device. */
#ifndef WEFT_TESTS_STRATEGIES_TRAINING_H_
#define WEFT_TESTS_STRATEGIES_TRAINING_H_

#include "strategies/strategy.h"
#include "tensorflow/c/c_api.h"
#include "tests/runner.h"

enum { MAX_NAMES = 12 };

/* What is done with a graph: lists of names that end with NULL. */
typedef struct use {
  const char *graph;    /* file of testdata without ".pb" */
  const char *strategy; /* NULL: as it is, on one device */
  const char *feeds[MAX_NAMES], *fetches[MAX_NAMES], *targets[MAX_NAMES], *inits[MAX_NAMES];
  void (*edit)(weft_graph_t *g); /* of job_start: changes the graph first; NULL: nothing */
} use_t;

typedef struct job {    /* Confined. */
  weft_graph_t *source; /* owned */
  weft_rewrite_t rewrite;
  TF_Graph *graph;
  TF_Session *session;
  TF_Status *status;
} job_t;

/* tests/strategies/testdata/<name>.pb; a failure fails the test. */
weft_graph_t *read_graph(const char *name);
/* Rewrites only. The caller owns the status, and *out in case of success. */
weft_status_t *rewrite_for(const weft_graph_t *g, const use_t *u, weft_rewrite_t *out);

/* Rewrites, opens a session with as many CPU devices as are needed and runs the initial targets. A failure
 * fails the test. */
job_t *job_start(const use_t *u);
void job_end(job_t *j);
/* The session's graph from a GraphDef; for graphs that no strategy made, too. `num_cpus` 0: one. */
void job_open(job_t *j, const weft_graph_t *g, int num_cpus);

/* One step: names "x" and tensors (borrowed), fetches (owned by the caller), targets. Lists end with NULL.
 * The status is the job's. */
typedef struct step {
  const char *feeds[MAX_NAMES];
  TF_Tensor *values[MAX_NAMES];
  const char *fetches[MAX_NAMES];
  TF_Tensor *results[MAX_NAMES]; /* out */
  const char *targets[MAX_NAMES];
  const char *options; /* RunOptions, without a zero byte; NULL: none */
} step_t;
void job_step(job_t *j, step_t *s);
void step_end(step_t *s);             /* deletes values and results */
double number_of(const TF_Tensor *t); /* the first element */
/* A variable's value by the name of its node; fails the test if it cannot be read. Variables of either kind.
 */
TF_Tensor *job_read(job_t *j, const char *variable);
int count_nodes(const weft_graph_t *g, const char *op);

/* Numbers from a fixed generator. */
TF_Tensor *random_floats(uint64_t *state, TF_DataType type, int64_t rows,
                         int64_t columns); /* in [-1, 1); columns 0: a vector */
TF_Tensor *random_ints(uint64_t *state, int64_t rows, int below);

/* ---- training beside one device ---- */

/* Feeds x and y, fetches loss, logits and summaries, target train, initial targets init and
 * saver/restore_all. */
use_t use_of(const char *graph, const char *strategy);

typedef struct run {
  const char *graph, *strategy;
  TF_DataType type;                             /* of x; ints for TF_INT32 */
  int columns, classes, steps, rows, last_rows; /* every fourth batch has last_rows */
  double tolerance;
} run_t;

step_t next_step(const run_t *k, uint64_t *state, int i); /* the i-th batch; fetches loss and logits */
/* Every "name/replica_i" holds the same bytes as "name". */
void compare_copies(job_t *j);
/* The same batches on one device and under the strategy: losses and logits agree, copies are equal, steps are
 * counted. */
void train_beside_one_device(const run_t *k);

#endif /* WEFT_TESTS_STRATEGIES_TRAINING_H_ */
