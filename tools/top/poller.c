/* tools/top/poller.c - a channel, a call and two sets of numbers for each task.
 *
 * Life of a call: weft_top_poller_ask() sends it, on_text() gets its answer on a thread of gRPC's, reads it
 * without a lock and puts it in the place of the numbers before.
 *
 * Locking: `mu` is a leaf. Numbers are read and freed without it.
 */
#define _GNU_SOURCE
#include "tools/top/poller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/channel.h"
#include "services/remote_metrics.h"

enum { RPC_THREADS = 2, CALL_MS = 1500 };

typedef struct polled_task {
  weft_top_poller_t *poller;
  weft_rpc_channel_t *channel; /* owned */
  char *name, *full;           /* "worker:1", "/job:worker/replica:0/task:1"; owned */
  bool is_asked;               /* a call is in flight; guarded by mu like all below */
  weft_top_state_t state;
  int64_t since_micros;
  weft_status_t *why;               /* owned; of the last call, NULL: it was answered */
  weft_top_numbers_t *before, *now; /* owned; NULL: it has not answered so often, or was not up meanwhile */
} polled_task_t;

struct weft_top_poller {
  const weft_cluster_t *cluster; /* borrowed */
  weft_rpc_client_t *rpc;
  weft_canceller_t *canceller; /* of all calls */
  int answered;                /* eventfd */
  int n;
  polled_task_t *tasks; /* n */
  weft_mutex_t mu;
  weft_cond_t idle;  /* no call is in flight */
  int num_in_flight; /* guarded by mu */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a view of a cluster"); }

static void free_numbers(weft_top_numbers_t *n) {
  if (n == NULL) return;
  weft_top_numbers_deinit(n);
  weft_free(n);
}

/* ---- answers ---- */

/* What a failure says of the task. */
static weft_top_state_t state_of(polled_task_t *t, const weft_status_t *failure, bool has_answered) {
  const weft_code_t code = weft_status_code(failure);
  if (!has_answered) return WEFT_TOP_UNREACHABLE;
  const bool is_gone = code == WEFT_UNAVAILABLE && !weft_rpc_channel_is_silent(t->channel);
  return is_gone ? WEFT_TOP_LOST : WEFT_TOP_SILENT;
}

/* The failure as a line that says what may be wrong. Consumes it. */
static weft_status_t *explain(weft_status_t *failure, weft_top_state_t state) {
  const weft_code_t code = weft_status_code(failure);
  const char *text = NULL;
  if (code == WEFT_UNIMPLEMENTED) text = "it is no Weft server, or an older one";
  if (code == WEFT_UNAVAILABLE && state == WEFT_TOP_LOST) text = "it takes no connections";
  if (code == WEFT_UNAVAILABLE && state == WEFT_TOP_UNREACHABLE)
    text = "no server listens there; is it running, and is --cluster right?";
  if (code == WEFT_DEADLINE_EXCEEDED || (code == WEFT_UNAVAILABLE && state == WEFT_TOP_SILENT))
    text = "it does not answer; is it stopped, or its host overloaded?";
  if (text == NULL) return failure;
  weft_status_t *s = weft_status_new(code, __FILE__, __LINE__, "%s", text);
  weft_status_free(failure);
  return s;
}

/* Consumes both; one is NULL. */
static void end_call(polled_task_t *t, weft_status_t *failure, weft_top_numbers_t *numbers) {
  weft_top_poller_t *p = t->poller;
  weft_top_numbers_t *unused = NULL;
  weft_mutex_lock(&p->mu);
  const weft_top_state_t state = failure == NULL ? WEFT_TOP_UP : state_of(t, failure, t->now != NULL);
  weft_mutex_unlock(&p->mu);
  if (failure != NULL) failure = explain(failure, state);
  weft_mutex_lock(&p->mu);
  weft_status_t *old = t->why;
  t->why = failure;
  if (t->state != state) t->since_micros = weft_clock_micros();
  t->state = state;
  if (failure == NULL) {
    unused = t->before;
    t->before = t->now;
    t->now = numbers;
  } else { /* rates begin anew when it is back */
    unused = t->before;
    t->before = NULL;
  }
  t->is_asked = false;
  weft_mutex_unlock(&p->mu);
  weft_status_free(old);
  free_numbers(unused);
  const uint64_t one = 1;
  weft_mutex_lock(&p->mu);
  p->num_in_flight--;
  while (write(p->answered, &one, sizeof one) < 0 && errno == EINTR) continue; /* does not block */
  if (p->num_in_flight == 0) weft_cond_broadcast(&p->idle); /* then the poller may be destroyed */
  weft_mutex_unlock(&p->mu);
}

static void on_text(void *arg, weft_status_t *status, weft_str_t text) {
  weft_top_numbers_t *numbers = status == NULL ? weft_calloc(1, sizeof *numbers) : NULL;
  if (status == NULL && numbers == NULL) status = no_memory();
  if (status == NULL) status = weft_top_numbers_read(text, weft_clock_ns(), numbers);
  if (status != NULL && numbers != NULL) {
    free_numbers(numbers);
    numbers = NULL;
  }
  end_call(arg, status, numbers);
}

void weft_top_poller_ask(weft_top_poller_t *p) {
  for (int i = 0; i < p->n; i++) {
    polled_task_t *t = &p->tasks[i];
    weft_mutex_lock(&p->mu);
    const bool sends = !t->is_asked;
    t->is_asked = true;
    p->num_in_flight += sends;
    weft_mutex_unlock(&p->mu);
    const weft_rpc_options_t o = {.timeout_ms = CALL_MS, .canceller = p->canceller};
    if (sends) weft_remote_metrics_get(t->channel, &o, on_text, t);
  }
}

int weft_top_poller_fd(const weft_top_poller_t *p) { return p->answered; }

bool weft_top_poller_is_answered(weft_top_poller_t *p) {
  uint64_t count;
  while (read(p->answered, &count, sizeof count) < 0 && errno == EINTR) continue;
  weft_mutex_lock(&p->mu);
  const bool yes = p->num_in_flight == 0;
  weft_mutex_unlock(&p->mu);
  return yes;
}

/* ---- looking ---- */

static weft_str_t copy(weft_top_view_t *v, weft_str_t text, bool *ok) {
  const weft_str_t s = weft_arena_str(&v->arena, text);
  *ok = *ok && s.data != NULL;
  return s;
}

/* How often any task has lost each: losses[i], which begin as 0. Tasks are told of in the same order by all.
 */
static void count_losses_locked(const weft_top_poller_t *p, double *losses) WEFT_REQUIRES(p->mu) {
  for (int i = 0; i < p->n; i++) {
    const weft_top_numbers_t *n = p->tasks[i].now;
    int next = 0;
    for (int k = 0; n != NULL && k < n->num_members; k++) {
      for (int j = 0; n->members[k].losses > 0 && j < p->n; j++) {
        const int at = (next + j) % p->n;
        if (!weft_str_is(n->members[k].task, p->tasks[at].full)) continue;
        if (n->members[k].losses > losses[at]) losses[at] = n->members[k].losses;
        next = at + 1;
        break;
      }
    }
  }
}

static void look_at_task_locked(weft_top_poller_t *p, int i, double losses, weft_top_view_t *v, bool *ok)
    WEFT_REQUIRES(p->mu) {
  const polled_task_t *from = &p->tasks[i];
  const weft_cluster_task_t *place = &p->cluster->tasks[i];
  const weft_top_numbers_t *n = from->now;
  weft_top_task_t *t = &v->tasks[i];
  *t =
      (weft_top_task_t){.job = copy(v, place->job, ok),
                        .name = copy(v, weft_str(from->name), ok),
                        .full = copy(v, weft_str(from->full), ok),
                        .address = copy(v, place->address, ok),
                        .state = from->state,
                        .since = (double)from->since_micros * 1e-6,
                        .why = copy(v, weft_str(from->why == NULL ? "" : weft_status_message(from->why)), ok),
                        .losses = losses,
                        .has_numbers = n != NULL};
  if (n == NULL) return;
  if (t->state == WEFT_TOP_UP && n->started > 0) t->since = n->started;
  t->running = n->running;
  t->worker_sessions = n->worker_sessions;
  t->master_sessions = n->master_sessions;
  t->resident = n->resident;
  t->num_tags = n->num_tags;
  for (int k = 0; k < n->num_tags; k++) {
    t->tags[k] = n->tags[k];
    t->tags[k].name = copy(v, n->tags[k].name, ok);
  }
  t->has_figures = t->state == WEFT_TOP_UP && from->before != NULL;
  if (t->has_figures) t->figures = weft_top_figures(from->before, n);
}

static int more_bytes_first(const void *a, const void *b) {
  const weft_top_traffic_t *x = a, *y = b;
  if (x->rate.bytes != y->rate.bytes) return x->rate.bytes < y->rate.bytes ? 1 : -1;
  const int by_from = weft_str_compare(x->from, y->from);
  return by_from != 0 ? by_from : weft_str_compare(x->to, y->to);
}

static void look_at_traffic_locked(weft_top_poller_t *p, weft_top_view_t *v, bool *ok) WEFT_REQUIRES(p->mu) {
  int most = 0;
  for (int i = 0; i < p->n; i++) most += v->tasks[i].has_figures ? p->tasks[i].now->num_links : 0;
  v->traffic = weft_arena_calloc(&v->arena, (size_t)most + 1, sizeof *v->traffic);
  *ok = *ok && v->traffic != NULL;
  for (int i = 0; *ok && i < p->n; i++) {
    const weft_top_numbers_t *n = p->tasks[i].now, *before = p->tasks[i].before;
    for (int k = 0; v->tasks[i].has_figures && k < n->num_links; k++) {
      v->traffic[v->num_traffic++] = (weft_top_traffic_t){.from = copy(v, n->links[k].from, ok),
                                                          .to = copy(v, n->links[k].to, ok),
                                                          .kind = copy(v, n->links[k].kind, ok),
                                                          .rate = weft_top_link_rate(before, n, k)};
    }
  }
  if (*ok && v->num_traffic > 1)
    qsort(v->traffic, (size_t)v->num_traffic, sizeof *v->traffic, more_bytes_first);
}

weft_status_t *weft_top_poller_look(weft_top_poller_t *p, weft_top_view_t *out) {
  bool ok = true;
  *out = (weft_top_view_t){.arena = WEFT_ARENA_INIT, .time = (double)weft_clock_micros() * 1e-6};
  out->tasks = weft_arena_calloc(&out->arena, (size_t)p->n + 1, sizeof *out->tasks);
  double *losses = weft_arena_calloc(&out->arena, (size_t)p->n + 1, sizeof *losses);
  if (out->tasks == NULL || losses == NULL) return no_memory();
  weft_mutex_lock(&p->mu);
  count_losses_locked(p, losses);
  for (int i = 0; i < p->n; i++) look_at_task_locked(p, i, losses[i], out, &ok);
  out->num_tasks = p->n;
  look_at_traffic_locked(p, out, &ok);
  weft_mutex_unlock(&p->mu);
  return ok ? NULL : no_memory();
}

/* ---- life ---- */

static weft_status_t *connect_task(weft_top_poller_t *p, int i) {
  const weft_cluster_task_t *place = &p->cluster->tasks[i];
  polled_task_t *t = &p->tasks[i];
  weft_strbuf_t name = WEFT_STRBUF_INIT, full = WEFT_STRBUF_INIT;
  t->poller = p;
  t->since_micros = weft_clock_micros();
  weft_strbuf_printf(&name, "%.*s:%d", WEFT_STR_ARGS(place->job), place->index);
  weft_strbuf_printf(&full, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(place->job), place->index);
  weft_status_t *s = weft_strbuf_finish(&name, &t->name, NULL);
  if (s == NULL) s = weft_strbuf_finish(&full, &t->full, NULL);
  if (s == NULL) s = weft_rpc_channel_create(p->rpc, place->address, &t->channel);
  weft_strbuf_deinit(&name);
  weft_strbuf_deinit(&full);
  return s;
}

weft_status_t *weft_top_poller_create(const weft_cluster_t *cluster, weft_top_poller_t **out) {
  weft_top_poller_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  weft_mutex_init(&p->mu);
  weft_cond_init(&p->idle);
  p->cluster = cluster;
  p->answered = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  p->canceller = weft_canceller_create(NULL);
  p->tasks = weft_calloc((size_t)cluster->num_tasks + 1, sizeof *p->tasks);
  weft_status_t *s = p->answered < 0 || p->canceller == NULL || p->tasks == NULL ? no_memory() : NULL;
  if (s == NULL) s = weft_rpc_client_create(RPC_THREADS, &p->rpc);
  if (s == NULL) p->n = cluster->num_tasks;
  for (int i = 0; s == NULL && i < p->n; i++) s = connect_task(p, i);
  if (s != NULL) {
    weft_top_poller_destroy(p);
    return s;
  }
  *out = p;
  return NULL;
}

void weft_top_poller_destroy(weft_top_poller_t *p) {
  if (p == NULL) return;
  if (p->canceller != NULL) weft_canceller_cancel(p->canceller);
  weft_mutex_lock(&p->mu);
  while (p->num_in_flight > 0) weft_cond_wait(&p->idle, &p->mu); /* woken by the last call's end */
  weft_mutex_unlock(&p->mu);
  for (int i = 0; i < p->n; i++) {
    polled_task_t *t = &p->tasks[i];
    weft_rpc_channel_release(t->channel);
    weft_status_free(t->why);
    free_numbers(t->before);
    free_numbers(t->now);
    weft_free(t->name);
    weft_free(t->full);
  }
  weft_rpc_client_destroy(p->rpc);
  weft_canceller_release(p->canceller);
  if (p->answered >= 0) close(p->answered);
  weft_free(p->tasks);
  weft_cond_deinit(&p->idle);
  weft_mutex_deinit(&p->mu);
  weft_free(p);
}
