/* coordinator/coordinator.c - making and ending a coordinator; scheduling, joining. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "client/status.h"
#include "client/tensor.h"
#include "coordinator/impl.h"
#include "protos/wire.h"

enum { FIELD_DEVICE_FILTERS = 4, MAX_ARGS = 4096 };

static const char ps_loss_key[] = "weft.parameter_server_lost";

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a coordinator"); }

/* ---- options ---- */

void WEFT_InitCoordinatorOptions(WEFT_CoordinatorOptions *o) {
  *o = (WEFT_CoordinatorOptions){.struct_size = sizeof *o,
                                 .worker_job = "worker",
                                 .ps_job = "ps",
                                 .queue_capacity = 262144,
                                 .worker_recovery_timeout_s = 3600,
                                 .ignore_transient_ps_reports = 3,
                                 .poll_s = 1,
                                 .watchdog_s = 300};
}

static weft_status_t *check_options(const WEFT_CoordinatorOptions *o) {
  const double longest = 1e8;
  if (o->struct_size != sizeof *o)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "the options of a coordinator were not initialised by WEFT_InitCoordinatorOptions");
  if (o->worker_job == NULL || o->ps_job == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "worker_job or ps_job is NULL");
  if (o->queue_capacity < 1) return WEFT_ERROR(INVALID_ARGUMENT, "queue_capacity is %d", o->queue_capacity);
  if (o->ignore_transient_ps_reports < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "ignore_transient_ps_reports is %d", o->ignore_transient_ps_reports);
  if (!(o->worker_recovery_timeout_s > 0 && o->worker_recovery_timeout_s <= longest))
    return WEFT_ERROR(INVALID_ARGUMENT, "worker_recovery_timeout_s is %g", o->worker_recovery_timeout_s);
  if (!(o->poll_s >= 0.01 && o->poll_s <= longest))
    return WEFT_ERROR(INVALID_ARGUMENT, "poll_s is %g", o->poll_s);
  if (!(o->watchdog_s >= 0 && o->watchdog_s <= longest))
    return WEFT_ERROR(INVALID_ARGUMENT, "watchdog_s is %g", o->watchdog_s);
  return NULL;
}

/* ---- life ---- */

/* The n-th task of a job: indices may have gaps. */
static weft_status_t *open_task(WEFT_Coordinator *c, const WEFT_Cluster *cluster, const char *job, int *index,
                                weft_co_task_t *t) {
  const char *address = NULL;
  while (address == NULL)
    address = WEFT_ClusterAddress(cluster, job, (*index)++); /* the caller counted them */
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "/job:%s/replica:0/task:%d", job, *index - 1);
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&name, &t->name, NULL));
  t->address = weft_strdup(address);
  if (t->address == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(c->rpc, weft_str(t->address), &t->channel));
  weft_rpc_channel_name_peer(t->channel, weft_str(t->name));
  return NULL;
}

/* What a worker's sessions may see: the parameter servers and itself. */
static weft_status_t *write_config(const WEFT_Coordinator *c, const char *ps_job, weft_co_worker_t *w) {
  weft_strbuf_t config = WEFT_STRBUF_INIT, job = WEFT_STRBUF_INIT;
  char *bytes = NULL;
  weft_strbuf_printf(&job, "/job:%s", ps_job);
  if (c->num_ps > 0) weft_wire_add_bytes(&config, FIELD_DEVICE_FILTERS, weft_str_of(job.data, job.length));
  weft_wire_add_bytes(&config, FIELD_DEVICE_FILTERS, weft_str(w->task.name));
  size_t length = 0;
  weft_status_t *s = job.failed ? no_memory() : weft_strbuf_finish(&config, &bytes, &length);
  if (s == NULL) w->config = weft_str_of(bytes, length);
  weft_strbuf_deinit(&job);
  weft_strbuf_deinit(&config);
  return s;
}

static weft_status_t *open_tasks(WEFT_Coordinator *c, const WEFT_Cluster *cluster,
                                 const WEFT_CoordinatorOptions *o) {
  int num_ps = WEFT_ClusterNumTasks(cluster, o->ps_job),
      num_workers = WEFT_ClusterNumTasks(cluster, o->worker_job);
  if (num_workers == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "the cluster has no tasks of job '%s'", o->worker_job);
  c->ps = weft_calloc((size_t)num_ps + 1, sizeof *c->ps);
  c->workers = weft_calloc((size_t)num_workers, sizeof *c->workers);
  if (c->ps == NULL || c->workers == NULL) return no_memory();
  for (int index = 0; c->num_ps < num_ps;) {
    c->num_ps++;
    WEFT_RETURN_IF_ERROR(open_task(c, cluster, o->ps_job, &index, &c->ps[c->num_ps - 1]));
  }
  for (int index = 0; c->num_workers < num_workers;) {
    weft_co_worker_t *w = &c->workers[c->num_workers++];
    w->coordinator = c;
    w->index = c->num_workers - 1;
    w->is_lost = true;
    WEFT_RETURN_IF_ERROR(open_task(c, cluster, o->worker_job, &index, &w->task));
    WEFT_RETURN_IF_ERROR(write_config(c, o->ps_job, w));
  }
  return NULL;
}

static weft_status_t *start_threads(WEFT_Coordinator *c) {
  for (int i = 0; i < c->num_workers; i++) {
    weft_co_worker_t *w = &c->workers[i];
    w->has_thread = pthread_create(&w->thread, NULL, weft_co_worker_main, w) == 0;
    if (!w->has_thread) return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start the thread of %s", w->task.name);
  }
  c->has_monitor = pthread_create(&c->monitor, NULL, weft_co_monitor_main, c) == 0;
  return c->has_monitor ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a coordinator's thread");
}

static weft_status_t *start(const WEFT_Cluster *cluster, const WEFT_CoordinatorOptions *o,
                            WEFT_Coordinator **out) {
  WEFT_RETURN_IF_ERROR(check_options(o));
  WEFT_Coordinator *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return no_memory();
  *out = c; /* to be deleted by the caller from here on */
  atomic_init(&c->refs, 1);
  c->queue_capacity = o->queue_capacity;
  c->max_reports = o->ignore_transient_ps_reports;
  c->effectively_once = o->effectively_once != 0;
  c->recovery_ns = (int64_t)(o->worker_recovery_timeout_s * WEFT_CO_NS_PER_S);
  c->poll_ms = (int64_t)(o->poll_s * 1e3);
  c->watchdog_ns = (int64_t)(o->watchdog_s * WEFT_CO_NS_PER_S);
  c->on_event = o->on_event;
  c->event_user = o->event_user;
  c->error_ps = -1;
  c->progress_ns = weft_clock_ns();
  /* Numbers of calls differ from those of other coordinators that the same parameter servers have seen. */
  c->next_id = (int64_t)((weft_random_id() >> 1) & ~UINT64_C(0xffffffff)) + 1;
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->work);
  weft_cond_init(&c->room);
  weft_cond_init(&c->ended);
  weft_cond_init(&c->stopped);
  c->stop = weft_canceller_create(NULL);
  if (c->stop == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_rpc_client_create(1, &c->rpc));
  WEFT_RETURN_IF_ERROR(open_tasks(c, cluster, o));
  return start_threads(c);
}

WEFT_Coordinator *WEFT_NewCoordinator(const WEFT_Cluster *cluster, const WEFT_CoordinatorOptions *options,
                                      TF_Status *status) {
  WEFT_CoordinatorOptions defaults;
  WEFT_Coordinator *c = NULL;
  WEFT_InitCoordinatorOptions(&defaults);
  if (weft_client_end(status, start(cluster, options == NULL ? &defaults : options, &c))) return c;
  WEFT_DeleteCoordinator(c);
  return NULL;
}

static void stop_threads(WEFT_Coordinator *c) {
  weft_mutex_lock(&c->mu);
  c->is_stopping = true;
  weft_cond_broadcast(&c->work);
  weft_cond_broadcast(&c->room);
  weft_cond_broadcast(&c->ended);
  weft_cond_broadcast(&c->stopped);
  weft_mutex_unlock(&c->mu);
  if (c->stop != NULL) weft_canceller_cancel(c->stop);
  for (int i = 0; c->workers != NULL && i < c->num_workers; i++) {
    if (c->workers[i].has_thread) pthread_join(c->workers[i].thread, NULL);
  }
  if (c->has_monitor) pthread_join(c->monitor, NULL);
}

/* No thread of the coordinator uses closures any more. Those that the program still holds stay, without
 * sessions. */
static void leave_closures(WEFT_Coordinator *c) {
  for (;;) {
    weft_mutex_lock(&c->mu);
    WEFT_Closure *closure = c->closures;
    if (closure != NULL) {
      c->closures = closure->next;
      if (closure->next != NULL) closure->next->prev = NULL;
      closure->next = NULL;
      weft_closure_retain(closure);
    }
    weft_mutex_unlock(&c->mu);
    if (closure == NULL) return;
    weft_closure_close_sessions(closure);
    weft_closure_release(closure);
  }
}

static void disconnect(WEFT_Coordinator *c) {
  for (int i = 0; c->ps != NULL && i < c->num_ps; i++) {
    if (c->ps[i].channel != NULL) weft_rpc_channel_release(c->ps[i].channel);
    c->ps[i].channel = NULL;
  }
  for (int i = 0; c->workers != NULL && i < c->num_workers; i++) {
    weft_co_worker_t *w = &c->workers[i];
    weft_presence_stop(w->presence);
    w->presence = NULL;
    weft_master_client_release(w->master);
    weft_master_client_release(w->closer);
    w->master = w->closer = NULL;
    if (w->task.channel != NULL) weft_rpc_channel_release(w->task.channel);
    w->task.channel = NULL;
  }
  weft_rpc_client_destroy(c->rpc);
  c->rpc = NULL;
}

void WEFT_DeleteCoordinator(WEFT_Coordinator *c) {
  if (c == NULL) return;
  stop_threads(c);
  weft_co_drop_queue(c);
  leave_closures(c);
  disconnect(c);
  weft_coordinator_release(c);
}

int WEFT_CoordinatorNumWorkers(const WEFT_Coordinator *c) { return c->num_workers; }

/* ---- calls ---- */

static weft_status_t *take_arg(const WEFT_Coordinator *c, const WEFT_Arg *a, int i, weft_co_arg_t *out) {
  switch (a->kind) {
    case WEFT_ARG_TENSOR:
      if (a->tensor == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "argument %d of a call is no tensor", i);
      return weft_client_tensor_get(a->tensor, &out->tensor);
    case WEFT_ARG_PER_WORKER:
      if (a->per_worker == NULL || a->per_worker->coordinator != c)
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "argument %d of a call is no per-worker value of this coordinator", i);
      out->per_worker = a->per_worker;
      weft_mutex_lock(&out->per_worker->coordinator->mu);
      out->per_worker->refs++;
      weft_mutex_unlock(&out->per_worker->coordinator->mu);
      return NULL;
    case WEFT_ARG_REMOTE_VALUE:
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "argument %d of a call is a remote value: that is not allowed; fetch it and give the tensors", i);
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "argument %d of a call is of an unknown kind (%d)", i, (int)a->kind);
}

static weft_status_t *new_call(const WEFT_Coordinator *c, WEFT_Closure *closure, const WEFT_Arg *args,
                               int num_args, weft_co_call_t **out) {
  if (closure == NULL || closure->coordinator != c)
    return WEFT_ERROR(INVALID_ARGUMENT, "no closure of this coordinator");
  if (num_args < 0 || num_args > MAX_ARGS)
    return WEFT_ERROR(INVALID_ARGUMENT, "a call has %d arguments", num_args);
  weft_co_call_t *call = weft_calloc(1, sizeof *call + (size_t)num_args * sizeof call->args[0]);
  if (call == NULL) return no_memory();
  weft_status_t *s = NULL;
  call->num_args = num_args;
  call->closure = weft_closure_retain(closure);
  call->value = weft_remote_value_create();
  if (call->value == NULL) s = no_memory();
  for (int i = 0; s == NULL && i < num_args; i++) s = take_arg(c, &args[i], i, &call->args[i]);
  if (s == NULL)
    *out = call;
  else
    weft_co_call_free(call);
  return s;
}

/* Consumes `s`. True if it was OK. */
static bool report(TF_Status *status, weft_status_t *s, int error_ps) {
  bool ok = weft_client_end(status, s);
  char number[16];
  if (ok || error_ps < 0) return ok;
  snprintf(number, sizeof number, "%d", error_ps);
  TF_SetPayload(status, ps_loss_key, number);
  return false;
}

WEFT_RemoteValue *WEFT_Schedule(WEFT_Coordinator *c, WEFT_Closure *closure, const WEFT_Arg *args,
                                int num_args, TF_Status *status) {
  weft_co_call_t *call = NULL;
  WEFT_RemoteValue *value = NULL;
  int error_ps = -1;
  weft_status_t *s = new_call(c, closure, args, num_args, &call);
  if (s == NULL) {
    value = call->value;
    atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
    s = weft_co_put(c, call, &error_ps);
    if (s != NULL) weft_co_call_free(call);
  }
  if (report(status, s, error_ps)) return value;
  weft_remote_value_release(value);
  return NULL;
}

static weft_status_t *join(WEFT_Coordinator *c, double timeout_s, int *error_ps) {
  bool is_bounded = timeout_s >= 0 && timeout_s < 1e8, in_time = true;
  int64_t deadline = is_bounded ? weft_clock_ns() + (int64_t)(timeout_s * WEFT_CO_NS_PER_S) : 0;
  weft_mutex_lock(&c->mu);
  c->num_joining++;
  /* Woken by leave_flight_locked() and weft_co_fail(), and at the end. */
  while (in_time && !c->is_stopping && c->error == NULL && (c->num_queued > 0 || c->num_inflight > 0)) {
    if (is_bounded)
      in_time = weft_cond_wait_until(&c->ended, &c->mu, deadline);
    else
      weft_cond_wait(&c->ended, &c->mu);
  }
  bool is_over = c->num_queued == 0 && c->num_inflight == 0;
  weft_status_t *s = weft_co_take_error_locked(c, error_ps);
  c->num_joining--;
  weft_cond_broadcast(&c->room);
  bool is_stopping = c->is_stopping;
  weft_mutex_unlock(&c->mu);
  if (s != NULL || is_over) return s;
  if (is_stopping) return WEFT_ERROR(CANCELLED, "the coordinator has ended");
  return WEFT_ERROR(DEADLINE_EXCEEDED, "calls have not ended within %g s", timeout_s);
}

void WEFT_Join(WEFT_Coordinator *c, double timeout_s, TF_Status *status) {
  int error_ps = -1;
  weft_status_t *s = join(c, timeout_s, &error_ps);
  report(status, s, error_ps);
}

int WEFT_Done(WEFT_Coordinator *c, TF_Status *status) {
  int error_ps = -1;
  weft_mutex_lock(&c->mu);
  weft_status_t *s = weft_co_take_error_locked(c, &error_ps);
  bool is_done = c->num_queued == 0 && c->num_inflight == 0;
  weft_mutex_unlock(&c->mu);
  return report(status, s, error_ps) && is_done;
}

/* ---- the loss of a parameter server ---- */

static void find_loss(const char *key, const char *value, void *capture) {
  int64_t number;
  if (strcmp(key, ps_loss_key) == 0 && weft_str_to_i64(weft_str(value), &number))
    *(int *)capture = (int)number;
}

int WEFT_CoordinatorErrorIsParameterServerLoss(const TF_Status *status, int *task) {
  int number = -1;
  TF_ForEachPayload(status, find_loss, &number);
  if (task != NULL) *task = number;
  return number >= 0;
}
