/* tests/collectives/remote/tasks_testing.c - tasks, and the calls between them. */
#include "tests/collectives/remote/tasks_testing.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "base/random.h"

static task_t *find(cluster_t *c, weft_str_t name) {
  for (int i = 0; i < c->n; i++) {
    if (weft_str_is(name, c->tasks[i].name)) return &c->tasks[i];
  }
  return NULL;
}

static void recv_buf(void *arg, weft_str_t task, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *fn_arg) {
  const task_t *to = find(((task_t *)arg)->cluster, task);
  if (to == NULL) { /* it has ended */
    fn(fn_arg, WEFT_ERROR(UNAVAILABLE, "no connection to %.*s", WEFT_STR_ARGS(task)), NULL);
    return;
  }
  weft_remote_transport_serve(to->transport, r, canceller, fn, fn_arg);
}
static void complete_group(void *arg, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *fn_arg) {
  weft_remote_transport_join_group(((task_t *)arg)->cluster->tasks[0].transport, r, canceller, fn, fn_arg);
}
static void complete_instance(void *arg, const weft_instance_request_t *r, weft_canceller_t *canceller,
                              weft_instance_fn *fn, void *fn_arg) {
  weft_remote_transport_join_instance(((task_t *)arg)->cluster->tasks[0].transport, r, canceller, fn, fn_arg);
}

static void (*on_post)(void);
static const weft_transport_ops_t *remote_ops; /* of all remote transports */
static weft_transport_ops_t observed_ops;

static task_t *stopped_task; /* of all clusters */

void cluster_observe_posts(void (*fn)(void)) { on_post = fn; }

/* Has the task stopped? Then the call waits for cluster_end_stopped(). */
static bool stops_at(weft_transport_t *t, weft_transfer_done_fn *done, void *arg) {
  task_t *task = stopped_task;
  if (task == NULL || task->transport != t) return false;
  weft_mutex_lock(&task->cluster->mu);
  const bool is_stopped = task->is_stopped;
  if (is_stopped) {
    task->stopped_done = done;
    task->stopped_arg = arg;
    weft_cond_broadcast(&task->cluster->changed);
  }
  weft_mutex_unlock(&task->cluster->mu);
  return is_stopped;
}

void cluster_stop_posts(task_t *t) {
  stopped_task = t;
  t->is_stopped = true;
}

void cluster_end_stopped(task_t *t, weft_status_t *status) {
  weft_mutex_lock(&t->cluster->mu);
  while (t->stopped_done == NULL)
    weft_cond_wait(&t->cluster->changed, &t->cluster->mu); /* woken by stops_at() */
  weft_mutex_unlock(&t->cluster->mu);
  stopped_task = NULL;
  t->stopped_done(t->stopped_arg, status);
}

static void observed_post(weft_transport_t *t, const weft_posting_t *p, weft_canceller_t *canceller,
                          weft_transfer_done_fn *done, void *arg) {
  on_post();
  if (!stops_at(t, done, arg)) remote_ops->post(t, p, canceller, done, arg);
}

static void lost(void *arg, weft_str_t task, const weft_status_t *why) {
  (void)task;
  (void)why;
  task_t *t = arg;
  if (t->on_lost != NULL) t->on_lost(t->on_lost_arg);
}

static void observe(weft_transport_t *t) {
  if (remote_ops == NULL) {
    remote_ops = t->ops;
    observed_ops = *t->ops;
    observed_ops.post = observed_post;
  }
  t->ops = &observed_ops;
}

void cluster_start(cluster_t *c, int i, bool only_rpc) {
  task_t *t = &c->tasks[i];
  t->cluster = c;
  snprintf(t->name, sizeof t->name, "/job:w/replica:0/task:%d", i);
  snprintf(t->device, sizeof t->device, "/job:w/replica:0/task:%d/device:CPU:0", i);
  weft_remote_transport_options_t o = {.task = weft_str(t->name),
                                       .incarnation = weft_random_id(),
                                       .pool = c->pool,
                                       .only_rpc = only_rpc,
                                       .peers = {.arg = t,
                                                 .leader = WEFT_STR("/job:w/replica:0/task:0"),
                                                 .recv_buf = recv_buf,
                                                 .complete_group = complete_group,
                                                 .complete_instance = complete_instance,
                                                 .lost = lost}};
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_transport_create(&o, &t->transport));
  if (on_post != NULL) observe(t->transport);
  CU_ASSERT_PTR_NULL_FATAL(
      weft_collectives_create(weft_str(t->name), c->pool, t->transport, &t->collectives));
}

void cluster_open(cluster_t *c, int n) {
  *c = (cluster_t){.n = n, .num_tasks = n, .size = n};
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", CLUSTER_THREADS, &c->pool));
}

void cluster_setup(cluster_t *c, int n, bool only_rpc) {
  cluster_open(c, n);
  for (int i = 0; i < n; i++) cluster_start(c, i, only_rpc);
}

void cluster_teardown(cluster_t *c) {
  for (int i = c->n; i-- > 0;) weft_collectives_destroy(c->tasks[i].collectives);
  for (int i = c->n; i-- > 0;) weft_remote_transport_stop(c->tasks[i].transport);
  for (int i = c->n; i-- > 0;) c->tasks[i].transport->ops->destroy(c->tasks[i].transport);
  weft_thread_pool_destroy(c->pool);
  weft_cond_deinit(&c->changed);
  weft_mutex_deinit(&c->mu);
}
