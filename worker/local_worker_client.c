/* worker/local_worker_client.c - the worker of this process behind the same interface as all others. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/device_name.h"
#include "worker/worker_impl.h"

typedef struct local_worker_impl {
  weft_worker_client_t base;
  weft_worker_t *worker; /* borrowed */
} local_worker_impl_t;

static weft_worker_t *worker_of(weft_worker_client_t *c) {
  return ((local_worker_impl_t *)(void *)c)->worker;
}

static void get_status(weft_worker_client_t *c, weft_canceller_t *canceller, weft_devices_fn *fn, void *arg) {
  (void)canceller; /* never waits */
  const weft_devices_t *devices = &worker_of(c)->devices;
  weft_device_list_t list = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < devices->n; i++) {
    const weft_device_t *d = devices->all[i];
    weft_device_attributes_t attributes = {.name = d->name,
                                           .type = weft_str(d->type),
                                           .description = weft_str(d->physical),
                                           .memory_limit = d->memory_limit,
                                           .numa_node = d->numa_node < 0 ? 0 : d->numa_node,
                                           .incarnation = d->incarnation};
    s = weft_device_list_add(&list, &attributes);
  }
  fn(arg, s, s == NULL ? &list : NULL);
  weft_device_list_deinit(&list);
}

/* A master that was restarted has a new incarnation: sessions of its former life will never be closed by it.
 */
static void drop_stale_locked(weft_worker_t *w, const weft_worker_session_spec_t *spec,
                              weft_worker_session_t **stale, int *num_stale, int max) WEFT_REQUIRES(w->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; *num_stale < max && weft_map_next(&w->sessions, &at, &e);) {
    weft_worker_session_t *s = e.value;
    if (s->master_incarnation == spec->master_incarnation || s->master_task.length == 0) continue;
    if (weft_str_eq(s->master_task, spec->master_task)) stale[(*num_stale)++] = s;
  }
  for (int i = 0; i < *num_stale; i++) {
    weft_map_remove(&w->sessions, stale[i]->handle);
    atomic_store(&stale[i]->is_deleted, true);
  }
}

static void tell_what_is_left(void *arg, weft_str_t handle) {
  weft_worker_t *w = arg;
  size_t resources = 0;
  for (int i = 0; i < w->devices.n; i++) resources += weft_resource_count(w->devices.all[i]->resources);
  weft_mutex_lock(&w->mu);
  size_t sessions = w->sessions.count;
  weft_mutex_unlock(&w->mu);
  weft_log(WEFT_LOG_DEBUG, "session %.*s has ended; left are %zu sessions, %zu steps and %zu resources",
           WEFT_STR_ARGS(handle), sessions, weft_step_table_count(&w->steps), resources);
}

static void create_session(weft_worker_client_t *c, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                           void *arg) {
  enum { MAX_STALE = 64 }; /* the rest goes with the next session */
  weft_worker_t *w = worker_of(c);
  weft_worker_session_t *session = NULL, *stale[MAX_STALE], *old = NULL;
  weft_session_cluster_t cluster = {NULL, NULL};
  int num_stale = 0;
  weft_status_t *s =
      w->clusters == NULL ? NULL : w->clusters->for_worker(w->clusters, spec->server_def, &cluster);
  if (s == NULL) s = weft_worker_session_create(spec, &w->devices, &cluster, &session);
  if (s == NULL) {
    void *before = NULL;
    session->losses = weft_collectives_losses(w->collectives);
    session->ended = tell_what_is_left;
    session->ended_arg = w;
    weft_mutex_lock(&w->mu);
    drop_stale_locked(w, spec, stale, &num_stale, MAX_STALE);
    s = weft_map_put(&w->sessions, session->handle, session, &before);
    weft_mutex_unlock(&w->mu);
    old = s == NULL ? before : session;
  }
  weft_worker_release_session(w, old);
  for (int i = 0; i < num_stale; i++) weft_worker_release_session(w, stale[i]);
  if (num_stale > 0) {
    weft_log(WEFT_LOG_INFO, "master %.*s was restarted: dropped %d of its sessions",
             WEFT_STR_ARGS(spec->master_task), num_stale);
  }
  fn(arg, s);
}

static void delete_session(weft_worker_client_t *c, weft_str_t handle, weft_done_fn *fn, void *arg) {
  weft_worker_t *w = worker_of(c);
  weft_mutex_lock(&w->mu);
  weft_worker_session_t *s = weft_map_remove(&w->sessions, handle);
  if (s != NULL) atomic_store(&s->is_deleted, true);
  weft_mutex_unlock(&w->mu);
  weft_worker_release_session(w, s);
  fn(arg, NULL); /* deleting twice is fine, as in TensorFlow */
}

static void register_graph(weft_worker_client_t *c, weft_str_t handle, weft_graph_t *graph, bool keeps_graph,
                           weft_text_fn *fn, void *arg) {
  weft_worker_session_t *session = NULL;
  weft_status_t *s = weft_worker_find_session(worker_of(c), handle, &session);
  weft_str_t graph_handle = {NULL, 0};
  if (s == NULL) {
    s = weft_worker_session_register(session, graph, keeps_graph, &graph_handle);
  } else {
    weft_graph_destroy(graph);
  }
  fn(arg, s, graph_handle);
  weft_worker_release_session(worker_of(c), session);
}

static void deregister_graph(weft_worker_client_t *c, weft_str_t handle, weft_str_t graph_handle,
                             weft_done_fn *fn, void *arg) {
  weft_worker_session_t *session = NULL;
  weft_status_t *s = weft_worker_find_session(worker_of(c), handle, &session);
  if (s == NULL) s = weft_worker_session_deregister(session, graph_handle);
  weft_worker_release_session(worker_of(c), session);
  fn(arg, s);
}

static void run_graph(weft_worker_client_t *c, const weft_run_graph_t *run, weft_canceller_t *canceller,
                      weft_run_graph_fn *fn, void *arg) {
  weft_worker_run_graph(worker_of(c), run, canceller, fn, arg);
}

static void cleanup_graph(weft_worker_client_t *c, int64_t step_id, weft_done_fn *fn, void *arg) {
  weft_step_table_cleanup(&worker_of(c)->steps, step_id);
  weft_collectives_end_step(worker_of(c)->collectives, step_id, NULL);
  weft_step_recordings_end_step(worker_of(c)->recordings, step_id);
  fn(arg, NULL);
}

static void cleanup_all(weft_worker_client_t *c, const weft_str_t *containers, int n, weft_done_fn *fn,
                        void *arg) {
  const weft_devices_t *devices = &worker_of(c)->devices;
  for (int d = 0; d < devices->n; d++) {
    weft_resource_manager_t *m = devices->all[d]->resources;
    if (n == 0) weft_resource_clear(m, WEFT_STR(""));
    for (int i = 0; i < n; i++) weft_resource_clear(m, containers[i]);
  }
  fn(arg, NULL);
}

/* ---- receiving, for a peer ---- */

typedef struct peer_receive {
  weft_worker_t *worker;
  weft_worker_step_t *step;
  union {
    weft_recv_fn *recv;
    weft_gather_fn *gather;
  } fn;
  void *arg;
} peer_receive_t;

static void peer_done(peer_receive_t *p) {
  weft_step_table_peer_done(&p->worker->steps, p->step);
  weft_worker_step_release(p->step);
  weft_free(p);
}

static void peer_received(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  peer_receive_t *p = arg;
  p->fn.recv(p->arg, status, tensor, is_dead);
  peer_done(p);
}

static void peer_gathered(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  peer_receive_t *p = arg;
  p->fn.gather(p->arg, status, items, n);
  peer_done(p);
}

static weft_str_t local_part(weft_str_t device) {
  size_t task = weft_device_task_part(device).length;
  return weft_str_of(device.data + task, device.length - task);
}

/* Was the key made for a device of this task, as it is since its last start? `known` (may be NULL) is a key
 * that was. */
static weft_status_t *check_source(weft_worker_t *w, weft_str_t key, const weft_key_parts_t *known,
                                   weft_key_parts_t *out) {
  weft_key_parts_t parts;
  WEFT_RETURN_IF_ERROR(known == NULL ? weft_key_parse(key, &parts) : weft_key_parse_next(key, known, &parts));
  *out = parts;
  if (known != NULL && parts.src_incarnation == known->src_incarnation &&
      weft_str_eq(parts.src_device, known->src_device))
    return NULL;
  const weft_device_t *source = weft_devices_find(&w->devices, parts.src_device);
  if (source == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s unknown device.", WEFT_STR_ARGS(local_part(parts.src_device)));
  }
  if (parts.src_incarnation != source->incarnation) {
    return weft_status_mark_restarted(
        WEFT_ERROR(ABORTED,
                   "RecvTensor expects a different device incarnation: %" PRIu64 " vs. %" PRIu64
                   ". Your worker job (\"%.*s\") was probably restarted. Check your worker job for the "
                   "reason why it was restarted.",
                   parts.src_incarnation, source->incarnation, WEFT_STR_ARGS(w->task)));
  }
  return NULL;
}

static weft_status_t *begin_receive(weft_worker_t *w, int64_t step_id, weft_str_t key, void *arg,
                                    peer_receive_t **out) {
  weft_worker_step_t *step = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_table_get(&w->steps, step_id, &step));
  peer_receive_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) {
    weft_worker_step_release(step);
    return WEFT_NO_MEMORY("receiving %.*s", WEFT_STR_ARGS(key));
  }
  *p = (peer_receive_t){.worker = w, .step = step, .arg = arg};
  atomic_fetch_add(&step->waiting_peers, 1);
  *out = p;
  return NULL;
}

static void recv_tensor(weft_worker_client_t *c, int64_t step_id, weft_key_t key, weft_canceller_t *canceller,
                        weft_recv_fn *fn, void *arg) {
  weft_worker_t *w = worker_of(c);
  weft_key_parts_t parts;
  peer_receive_t *p = NULL;
  weft_status_t *s = check_source(w, key.text, NULL, &parts);
  if (s == NULL) s = begin_receive(w, step_id, key.text, arg, &p);
  if (s != NULL) {
    fn(arg, s, NULL, false);
    return;
  }
  p->fn.recv = fn;
  weft_remote_rendezvous_recv_local(p->step->rendezvous, key, canceller, peer_received, p);
}

static void recv_tensors(weft_worker_client_t *c, int64_t step_id, const weft_key_t *keys, int n,
                         weft_canceller_t *canceller, weft_gather_fn *fn, void *arg) {
  weft_worker_t *w = worker_of(c);
  weft_key_parts_t parts[2]; /* of the last key, and of this one */
  peer_receive_t *p = NULL;
  weft_status_t *s = n < 1 ? WEFT_ERROR(INVALID_ARGUMENT, "a receive of no tensors") : NULL;
  for (int i = 0; s == NULL && i < n; i++)
    s = check_source(w, keys[i].text, i == 0 ? NULL : &parts[(i - 1) & 1], &parts[i & 1]);
  if (s == NULL) s = begin_receive(w, step_id, keys[0].text, arg, &p);
  if (s != NULL) {
    fn(arg, s, NULL, 0);
    return;
  }
  p->fn.gather = fn;
  weft_remote_rendezvous_gather_local(p->step->rendezvous, keys, n, canceller, peer_gathered, p);
}

static void recv_buf(weft_worker_client_t *c, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *arg) {
  weft_remote_transport_serve(worker_of(c)->transport, r, canceller, fn, arg);
}

static void complete_group(weft_worker_client_t *c, const weft_group_request_t *r,
                           weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  weft_remote_transport_join_group(worker_of(c)->transport, r, canceller, fn, arg);
}

static void complete_instance(weft_worker_client_t *c, const weft_instance_request_t *r,
                              weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_remote_transport_join_instance(worker_of(c)->transport, r, canceller, fn, arg);
}

static void get_step_sequence(weft_worker_client_t *c, const int64_t *graph_keys, int n, weft_step_ids_fn *fn,
                              void *arg) {
  int64_t *ids = weft_calloc((size_t)n + 1, sizeof *ids);
  weft_status_t *s = ids == NULL ? WEFT_NO_MEMORY("%d step ids", n) : NULL;
  if (s == NULL) s = weft_step_sequence_get(worker_of(c)->sequence, graph_keys, n, ids);
  fn(arg, s, ids);
  weft_free(ids);
}

static void retire_step(weft_worker_client_t *c, int64_t graph_key, int64_t step_id) {
  weft_step_sequence_retire(worker_of(c)->sequence, graph_key, step_id);
}

static void logging(weft_worker_client_t *c, weft_str_t request, weft_text_fn *fn, void *arg) {
  weft_strbuf_t answer = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_transfer_log_answer(worker_of(c)->transfers, request, &answer);
  fn(arg, s, weft_str_of(answer.data, answer.length));
  weft_strbuf_deinit(&answer);
}

static void record(weft_worker_client_t *c, const weft_record_request_t *r, weft_canceller_t *canceller,
                   weft_record_fn *fn, void *arg) {
  weft_worker_record(worker_of(c), r, canceller, fn, arg);
}

static void destroy(weft_worker_client_t *c) {
  weft_free((void *)(uintptr_t)c->task.data);
  weft_free(c);
}

static const weft_worker_client_ops_t ops = {
    .get_status = get_status,
    .create_session = create_session,
    .delete_session = delete_session,
    .register_graph = register_graph,
    .deregister_graph = deregister_graph,
    .run_graph = run_graph,
    .cleanup_graph = cleanup_graph,
    .cleanup_all = cleanup_all,
    .recv_tensor = recv_tensor,
    .recv_tensors = recv_tensors,
    .logging = logging,
    .recv_buf = recv_buf,
    .complete_group = complete_group,
    .complete_instance = complete_instance,
    .get_step_sequence = get_step_sequence,
    .retire_step = retire_step,
    .record = record,
    .destroy = destroy,
};

weft_status_t *weft_local_worker_client_create(weft_worker_t *w, weft_worker_client_t **out) {
  return weft_local_worker_client_create_as(w, weft_worker_task(w), out);
}

weft_status_t *weft_local_worker_client_create_as(weft_worker_t *w, weft_str_t task,
                                                  weft_worker_client_t **out) {
  local_worker_impl_t *c = weft_calloc(1, sizeof *c);
  char *name = weft_strndup(task.data, task.length);
  if (c == NULL || name == NULL) {
    weft_free(c);
    weft_free(name);
    return WEFT_NO_MEMORY("a worker client");
  }
  c->base.ops = &ops;
  c->base.task = weft_str_of(name, task.length);
  c->worker = w;
  atomic_init(&c->base.refs, 1);
  *out = &c->base;
  return NULL;
}
