/* tests/strategies/servers.h - servers in this process, and clients that train on them. */
#ifndef WEFT_TESTS_STRATEGIES_SERVERS_H_
#define WEFT_TESTS_STRATEGIES_SERVERS_H_

#include <pthread.h>

#include "tests/strategies/training.h"

enum { MOST_WORKERS = 3, MOST_TASKS = 5 };

typedef struct shape { /* of a cluster */
  int workers, cpus;   /* CPU devices of each */
  int servers;         /* tasks of job ps */
} shape_t;

typedef struct worker { /* A task and its client, if it has one. Confined. */
  TF_Server *server;
  TF_Status *status;
  job_t job;
  pthread_t thread;
  const char *key; /* RunOptions {experimental {collective_graph_key}}: the same for steps that go together */
  step_t step;
  float rate; /* of learning, instead of the graph's own; 0: that */
} worker_t;

extern const char *const task_names[MOST_TASKS]; /* of MOST_WORKERS workers, then of servers */

/* `workers` has MOST_TASKS entries: tasks of job worker, then those of job ps. A failure of any function here
 * fails the test. */
void serve_all(worker_t *workers, shape_t shape);
void dismiss_all(worker_t *workers, shape_t shape);

/* A session at the task's server with the rewritten graph. */
void open_client(worker_t *w, shape_t shape, const char *graph, const char *strategy);
void close_client(worker_t *w);
/* A step of the first n clients at once: their `step`, with their `key`. */
void run_all(worker_t *workers, int n);
void expect_all(worker_t *workers, int n); /* that it went well */
extern const char init_key[], train_key[];
/* Target init; with init_key if there are several clients. */
void initialise(worker_t *workers, int clients);
/* Every copy of every variable of the source, on all workers: the same bits, and as many copies as there are
 * devices. */
void compare_all(worker_t *workers, int clients, shape_t shape);
TF_Tensor *rows_of(const TF_Tensor *t, int64_t begin, int64_t end); /* a copy */

#endif /* WEFT_TESTS_STRATEGIES_SERVERS_H_ */
