/* worker/collectives.c - the collectives of a worker: their transport, and how it reaches the other tasks. */
#include "base/alloc.h"
#include "device/device_name.h"
#include "worker/worker_impl.h"

/* The client of `task`; retained. Fails `*s` if the cluster has no such task. */
static weft_worker_client_t *find(weft_worker_t *w, weft_str_t task, weft_status_t **s) {
  weft_worker_client_t *peer = w->cache == NULL ? NULL : w->cache->find(w->cache, task);
  if (peer == NULL) *s = WEFT_ERROR(INVALID_ARGUMENT, "No worker known as %.*s", WEFT_STR_ARGS(task));
  return peer;
}

static void recv_buf(void *arg, weft_str_t task, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *fn_arg) {
  weft_status_t *s = NULL;
  weft_worker_client_t *peer = find(arg, task, &s);
  if (s != NULL) {
    fn(fn_arg, s, NULL);
  } else {
    peer->ops->recv_buf(peer, r, canceller, fn, fn_arg);
  }
  weft_worker_client_release(peer);
}

static void complete_group(void *arg, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *fn_arg) {
  weft_worker_t *w = arg;
  weft_status_t *s = NULL;
  weft_worker_client_t *leader = NULL;
  if (weft_str_eq(w->leader, w->task)) {
    weft_remote_transport_join_group(w->transport, r, canceller, fn, fn_arg);
    return;
  }
  leader = find(w, w->leader, &s);
  if (s != NULL) {
    fn(fn_arg, s, NULL);
  } else {
    leader->ops->complete_group(leader, r, canceller, fn, fn_arg);
  }
  weft_worker_client_release(leader);
}

static void complete_instance(void *arg, const weft_instance_request_t *r, weft_canceller_t *canceller,
                              weft_instance_fn *fn, void *fn_arg) {
  weft_worker_t *w = arg;
  weft_status_t *s = NULL;
  weft_worker_client_t *leader = NULL;
  if (weft_str_eq(w->leader, w->task)) {
    weft_remote_transport_join_instance(w->transport, r, canceller, fn, fn_arg);
    return;
  }
  leader = find(w, w->leader, &s);
  if (s != NULL) {
    fn(fn_arg, s, -1);
  } else {
    leader->ops->complete_instance(leader, r, canceller, fn, fn_arg);
  }
  weft_worker_client_release(leader);
}

static const weft_str_t *tasks(void *arg, int *out_n) {
  const weft_worker_t *w = arg;
  *out_n = 0;
  return w->cache == NULL ? NULL : w->cache->tasks(w->cache, out_n);
}

void weft_worker_lose_member(weft_worker_t *w, weft_str_t task, const weft_status_t *why) {
  const int64_t before = weft_collectives_losses(w->collectives);
  weft_collectives_lost_task(w->collectives, task, why);
  if (weft_collectives_losses(w->collectives) != before) weft_step_sequence_restart(w->sequence);
}

/* A link broke, which no link does before the collectives are there. */
static void lost(void *arg, weft_str_t task, const weft_status_t *why) {
  weft_worker_t *w = arg;
  if (w->collectives != NULL) weft_worker_lose_member(w, task, why);
}

/* As TensorFlow's strategies choose it: the chief, else the first worker; else the first task of all. */
static weft_str_t first_leader(const weft_worker_t *w) {
  int n = 0;
  const weft_str_t *tasks = w->cache == NULL ? NULL : w->cache->tasks(w->cache, &n);
  weft_str_t found = n == 0 ? w->task : tasks[0];
  for (int i = n - 1; i >= 0; i--) {
    if (weft_str_starts_with(tasks[i], "/job:worker/")) found = tasks[i];
  }
  for (int i = n - 1; i >= 0; i--) {
    if (weft_str_starts_with(tasks[i], "/job:chief/")) found = tasks[i];
  }
  return found;
}

static weft_str_t find_leader(const weft_worker_t *w, weft_str_t wanted) {
  int n = 0;
  const weft_str_t *tasks = w->cache == NULL ? NULL : w->cache->tasks(w->cache, &n);
  weft_device_name_t a, b;
  weft_status_t *s = wanted.length == 0 ? NULL : weft_device_name_parse(wanted, &a);
  bool is_named = wanted.length > 0 && s == NULL;
  weft_status_free(s); /* "worker" and the like: not a task's name */
  for (int i = 0; i < n && is_named; i++) {
    s = weft_device_name_parse(tasks[i], &b);
    bool is_it = s == NULL && weft_str_eq(a.job, b.job) && a.task == b.task;
    weft_status_free(s);
    if (is_it) return tasks[i];
  }
  return first_leader(w);
}

weft_status_t *weft_worker_create_collectives(weft_worker_t *w, weft_str_t leader, bool only_rpc) {
  w->leader = find_leader(w, leader);
  weft_remote_transport_options_t o = {.task = w->task,
                                       .incarnation = w->devices.all[0]->incarnation,
                                       .pool = w->pool,
                                       .only_rpc = only_rpc,
                                       .peers = {.arg = w,
                                                 .leader = w->leader,
                                                 .recv_buf = recv_buf,
                                                 .complete_group = complete_group,
                                                 .complete_instance = complete_instance,
                                                 .tasks = tasks,
                                                 .lost = lost}};
  WEFT_RETURN_IF_ERROR(weft_remote_transport_create(&o, &w->transport));
  return weft_collectives_create(w->task, w->pool, w->transport, &w->collectives);
}

weft_collectives_t *weft_worker_collectives(weft_worker_t *w) { return w->collectives; }
weft_link_counters_t *weft_worker_counters(weft_worker_t *w) {
  return weft_remote_transport_counters(w->transport);
}
