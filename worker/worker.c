/* worker/worker.c - the life of a worker, and its sessions. */
#include "worker/worker_impl.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/device_name.h"

/* A receive from another task: asks that task's worker. */
static void fetch_remote(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                         weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg) {
  weft_worker_cache_t *cache = arg;
  weft_str_t task = weft_device_task_part(parts->src_device);
  weft_worker_client_t *peer = cache == NULL ? NULL : cache->find(cache, task);
  if (peer == NULL) {
    fn(fn_arg, WEFT_ERROR(INVALID_ARGUMENT, "No worker known as %.*s", WEFT_STR_ARGS(task)), NULL, false);
    return;
  }
  peer->ops->recv_tensor(peer, step_id, key, canceller, fn, fn_arg);
  weft_worker_client_release(peer);
}

/* The same for the tensors that a step wants of one task. */
static void gather_remote(void *arg, int64_t step_id, weft_str_t task, const weft_key_t *keys, int n,
                          weft_canceller_t *canceller, weft_gather_fn *fn, void *fn_arg) {
  weft_worker_cache_t *cache = arg;
  weft_worker_client_t *peer = cache == NULL ? NULL : cache->find(cache, task);
  if (peer == NULL) {
    fn(fn_arg, WEFT_ERROR(INVALID_ARGUMENT, "No worker known as %.*s", WEFT_STR_ARGS(task)), NULL, 0);
  } else if (peer->ops->recv_tensors == NULL) {
    fn(fn_arg, WEFT_ERROR(UNIMPLEMENTED, "%.*s sends tensors one by one", WEFT_STR_ARGS(task)), NULL, 0);
  } else {
    peer->ops->recv_tensors(peer, step_id, keys, n, canceller, fn, fn_arg);
  }
  weft_worker_client_release(peer);
}

static void list_running_steps(void *arg, weft_strbuf_t *out) {
  weft_step_table_list_run(&((weft_worker_t *)arg)->steps, out);
}

static weft_status_t *create_parts(weft_worker_t *w, const weft_worker_options_t *o) {
  const weft_tensor_source_t source = {fetch_remote, gather_remote, w->cache};
  weft_step_table_init(&w->steps, w->task, source);
  int num_threads = o->num_threads, num_cpus = o->num_cpus;
  if (num_threads <= 0) num_threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (num_threads < 1) num_threads = 1;
  WEFT_RETURN_IF_ERROR(weft_thread_pool_create("weft-compute", num_threads, &w->pool));
  WEFT_RETURN_IF_ERROR(
      weft_devices_create(w->task, num_cpus < 1 ? 1 : num_cpus, o->accelerators, w->pool, &w->devices));
  WEFT_RETURN_IF_ERROR(weft_transfer_log_create(&w->transfers));
  WEFT_RETURN_IF_ERROR(weft_step_sequence_create(&w->sequence));
  const weft_recording_options_t recordings = {.running_steps = list_running_steps, .arg = w};
  WEFT_RETURN_IF_ERROR(weft_step_recordings_create(&recordings, &w->recordings));
  weft_worker_session_spec_t legacy = {.session = WEFT_STR(""), .master_task = WEFT_STR("")};
  WEFT_RETURN_IF_ERROR(weft_worker_create_collectives(w, o->collective_leader, o->collectives_only_rpc));
  WEFT_RETURN_IF_ERROR(weft_negotiators_create(w->collectives, &w->negotiators));
  weft_session_cluster_t own = {NULL, NULL};
  WEFT_RETURN_IF_ERROR(weft_worker_session_create(&legacy, &w->devices, &own, &w->legacy));
  w->legacy->losses = INT64_MAX; /* as old as the task: of all clients, and never too old */
  return NULL;
}

weft_status_t *weft_worker_create(const weft_worker_options_t *o, weft_worker_t **out) {
  weft_worker_t *w = weft_calloc(1, sizeof *w);
  char *task = weft_strndup(o->task.data, o->task.length);
  if (w == NULL || task == NULL) {
    weft_free(w);
    weft_free(task);
    return WEFT_NO_MEMORY("a worker");
  }
  weft_mutex_init(&w->mu);
  weft_peaks_init(&w->peaks);
  weft_cond_init(&w->idle);
  w->cache = o->cache;
  w->clusters = o->clusters;
  w->task = weft_str(task);
  w->started_micros = weft_clock_micros();
  weft_status_t *s = create_parts(w, o);
  if (s != NULL) {
    weft_worker_destroy(w);
    return s;
  }
  *out = w;
  return NULL;
}

void weft_worker_stop(weft_worker_t *w) {
  weft_mutex_lock(&w->mu);
  w->stopped = true;
  weft_mutex_unlock(&w->mu);
  weft_step_table_stop(&w->steps);
  if (w->recordings != NULL) weft_step_recordings_stop(w->recordings);
  if (w->transport != NULL) weft_remote_transport_stop(w->transport);
}

static void wait_until_idle(weft_worker_t *w) {
  weft_mutex_lock(&w->mu);
  while (w->runs > 0) weft_cond_wait(&w->idle, &w->mu); /* woken by weft_worker_end_run */
  weft_mutex_unlock(&w->mu);
}

void weft_worker_destroy(weft_worker_t *w) {
  if (w == NULL) return;
  weft_worker_stop(w);
  wait_until_idle(w); /* the steps are cancelled */
  weft_negotiators_destroy(w->negotiators);
  weft_collectives_destroy(w->collectives);
  if (w->transport != NULL) w->transport->ops->destroy(w->transport);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&w->sessions, &at, &e);) weft_worker_release_session(w, e.value);
  weft_map_deinit(&w->sessions);
  weft_worker_release_session(w, w->legacy);
  wait_until_idle(w);
  weft_devices_deinit(&w->devices);
  weft_thread_pool_destroy(
      w->pool); /* behind the devices: pipelines that end with these call functions on it */
  weft_step_recordings_destroy(w->recordings);
  weft_peaks_deinit(&w->peaks);
  weft_transfer_log_destroy(w->transfers);
  weft_step_sequence_destroy(w->sequence);
  weft_step_table_deinit(&w->steps);
  weft_cond_deinit(&w->idle);
  weft_mutex_deinit(&w->mu);
  weft_free((void *)(uintptr_t)w->task.data);
  weft_free(w);
}

weft_str_t weft_worker_task(const weft_worker_t *w) { return w->task; }
weft_device_t *weft_worker_device(weft_worker_t *w) { return w->devices.all[0]; }
const weft_devices_t *weft_worker_devices(const weft_worker_t *w) { return &w->devices; }
weft_str_t weft_worker_leader(const weft_worker_t *w) { return w->leader; }
weft_transfer_log_t *weft_worker_transfers(weft_worker_t *w) { return w->transfers; }

/* ---- the end of a session ---- */

typedef struct session_end {
  weft_worker_t *worker;
  weft_worker_session_t *session;
} session_end_t;

/* Counts as a run, so that the worker's end waits for it. */
static void *end_session(void *arg) {
  session_end_t end = *(session_end_t *)arg;
  weft_free(arg);
  weft_worker_session_free(end.session);
  weft_worker_end_run(end.worker);
  return NULL;
}

static bool starts_to_end(weft_worker_t *w, weft_worker_session_t *s) {
  pthread_t thread;
  session_end_t *end = weft_malloc(sizeof *end);
  if (end == NULL) return false;
  *end = (session_end_t){w, s};
  if (pthread_create(&thread, NULL, end_session, end) != 0) {
    weft_free(end);
    return false;
  }
  pthread_detach(thread);
  return true;
}

void weft_worker_release_session(weft_worker_t *w, weft_worker_session_t *s) {
  if (s == NULL || !weft_worker_session_unref(s)) return;
  if (s->own_devices.n == 0) {
    weft_worker_session_free(s);
    return;
  }
  weft_worker_also_run(w);
  if (starts_to_end(w, s)) return;
  weft_worker_session_free(s); /* better here than never */
  weft_worker_end_run(w);
}

bool weft_worker_begin_run(weft_worker_t *w) {
  weft_mutex_lock(&w->mu);
  bool ok = !w->stopped;
  if (ok) w->runs++;
  weft_mutex_unlock(&w->mu);
  return ok;
}

void weft_worker_also_run(weft_worker_t *w) {
  weft_mutex_lock(&w->mu);
  w->runs++;
  weft_mutex_unlock(&w->mu);
}

void weft_worker_end_run(weft_worker_t *w) {
  weft_mutex_lock(&w->mu);
  if (--w->runs == 0) weft_cond_broadcast(&w->idle);
  weft_mutex_unlock(&w->mu);
}

weft_status_t *weft_worker_blame_stop(weft_worker_t *w, weft_status_t *s) {
  weft_code_t code = weft_status_code(s);
  bool is_echo = weft_status_is_derived(s) || code == WEFT_CANCELLED || code == WEFT_ABORTED;
  weft_mutex_lock(&w->mu);
  bool stopped = w->stopped;
  weft_mutex_unlock(&w->mu);
  if (s == NULL || !is_echo || !stopped) return s;
  weft_status_free(s);
  return WEFT_ERROR(UNAVAILABLE, "The task %.*s was shut down", WEFT_STR_ARGS(w->task));
}

weft_status_t *weft_worker_find_session(weft_worker_t *w, weft_str_t handle, weft_worker_session_t **out) {
  if (handle.length == 0) {
    *out = weft_worker_session_retain(w->legacy);
    return NULL;
  }
  weft_mutex_lock(&w->mu);
  weft_worker_session_t *s = weft_worker_session_retain(weft_map_get(&w->sessions, handle));
  weft_mutex_unlock(&w->mu);
  if (s == NULL) {
    char since[WEFT_CLOCK_TEXT];
    weft_clock_print(w->started_micros, since);
    return weft_status_mark_restarted(WEFT_ERROR(ABORTED,
                                                 "Session handle is not found: %.*s. Possibly this worker "
                                                 "(\"%.*s\") just restarted. It has run since %s.",
                                                 WEFT_STR_ARGS(handle), WEFT_STR_ARGS(w->task), since));
  }
  *out = s;
  return NULL;
}
