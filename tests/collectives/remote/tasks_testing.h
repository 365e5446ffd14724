/* tests/collectives/remote/tasks_testing.h - tasks on one host, all in this process, whose collectives meet
 * through their remote transports: calls between them are calls of functions. */
#ifndef WEFT_TESTS_COLLECTIVES_REMOTE_TASKS_TESTING_H_
#define WEFT_TESTS_COLLECTIVES_REMOTE_TASKS_TESTING_H_

#include "base/mutex.h"
#include "collectives/remote/remote_transport.h"

enum { MAX_TASKS = 5, CLUSTER_THREADS = 2 /* of the pool */ };

typedef struct remote_cluster cluster_t;
typedef struct remote_task {
  cluster_t *cluster;
  char name[64], device[96]; /* its CPU:0 */
  weft_transport_t *transport;
  weft_collectives_t *collectives;
  bool is_stopped;                     /* guarded by the cluster's mu, as below: posts nothing */
  weft_transfer_done_fn *stopped_done; /* of the call that it has stopped in */
  void *stopped_arg;
  /* Called on the thread of its links when a linked task is lost, if not NULL. */
  void (*on_lost)(void *arg);
  void *on_lost_arg;
} task_t;
struct remote_cluster {
  int n;         /* tasks that are there; task 0 leads */
  int num_tasks; /* at the beginning */
  int size;      /* of the group: rank r is of task r % num_tasks. At first one for each task */
  task_t tasks[MAX_TASKS];
  weft_thread_pool_t *pool;
  weft_mutex_t mu; /* of the test */
  weft_cond_t changed;
};

/* A failure fails the test. `only_rpc`: the tasks have no links. */
void cluster_setup(cluster_t *c, int n, bool only_rpc);
/* Without tasks; then each of them. */
void cluster_open(cluster_t *c, int n);
void cluster_start(cluster_t *c, int i, bool only_rpc);
void cluster_teardown(cluster_t *c); /* of the tasks that are there */
/* From now on the tasks that start call `fn` on the thread that is about to post. */
void cluster_observe_posts(void (*fn)(void));
/* This task posts nothing from now on, as if its process were stopped. cluster_end_stopped() ends the call
 * that it has stopped in, with `status`. */
void cluster_stop_posts(task_t *t);
void cluster_end_stopped(task_t *t, weft_status_t *status);

#endif /* WEFT_TESTS_COLLECTIVES_REMOTE_TASKS_TESTING_H_ */
