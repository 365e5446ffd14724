/* tools/observe/observer.c - one call at a time to each task, each sent when the one before was answered.
 *
 * Life of a recording, seen from here:
 *   1. weft_observer_start   the first call to each task; when all are answered, the second (the mark)
 *   2. answered              each answer goes to the gather, and the next call is sent
 *   3. weft_observer_next    waits until the gather has a whole step, or a task has failed
 *   4. weft_observer_stop    no more calls but the last, which ends the recording; waits for all
 *
 * Locking: `mu` is a leaf: calls are sent, and statuses freed, without it. Waits are at a semaphore,
 * which handlers of signals may post, too.
 */
#define _GNU_SOURCE /* sem_clockwait, program_invocation_short_name */
#include "tools/observe/observer.h"

#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"

enum { POLL_MS = 250, CLOSE_MS = 1000 };

typedef struct task_link {
  weft_observer_t *observer;
  int index;
  int num_calls;        /* answered; guarded by mu like all below */
  bool is_open;         /* the task records */
  bool is_ending;       /* its last call was sent */
  int64_t asked_micros; /* when that was sent */
  int64_t offset, trip; /* of the clock, as of the shortest trip; trip 0: none yet */
  bool is_measured;     /* or it is being measured */
  double peak_flops, peak_bytes;
  int64_t num_dropped;
  weft_status_t *lost; /* owned */
} task_link_t;

struct weft_observer {
  weft_observer_options_t o;
  int n;
  weft_strbuf_t id;
  weft_canceller_t *canceller; /* of all calls */
  sem_t changed;               /* posted after each answer, and by interrupt */
  atomic_bool is_interrupted;
  weft_mutex_t mu;
  task_link_t *links;         /* n */
  weft_step_gather_t *gather; /* guarded by mu */
  weft_status_t *failure;     /* guarded by mu; owned: the first */
  int num_in_flight;          /* guarded by mu */
  bool is_closing;            /* guarded by mu */
};

static void answered(void *arg, weft_status_t *status, const weft_record_answer_t *a);

/* ---- waiting ---- */

/* False: the deadline has passed. */
static bool wait_until(weft_observer_t *o, int64_t deadline_ns) {
  const struct timespec until = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
  for (;;) {
    if (sem_clockwait(&o->changed, CLOCK_MONOTONIC, &until) == 0) return true;
    if (errno == ETIMEDOUT) return false;
    if (errno != EINTR) return false;
  }
}

void weft_observer_interrupt(weft_observer_t *o) {
  atomic_store(&o->is_interrupted, true);
  sem_post(&o->changed);
}

bool weft_observer_is_interrupted(const weft_observer_t *o) { return atomic_load(&o->is_interrupted); }

/* ---- calls ---- */

/* Marks the call as sent; the caller sends it after giving the lock back. */
static void prepare_locked(weft_observer_t *o, task_link_t *l, weft_record_request_t *out)
    WEFT_REQUIRES(o->mu) {
  bool is_mark = l->num_calls == 1, is_first = l->num_calls == 0;
  *out = (weft_record_request_t){
      .observer = weft_str_of(o->id.data, o->id.length),
      .is_first = is_first,
      .wait_ms = is_first || is_mark ? 0 : weft_step_gather_wait_ms(o->gather, l->index, o->o.poll_ms)};
  weft_step_gather_asked(o->gather, l->index);
  l->asked_micros = weft_clock_micros();
  o->num_in_flight++;
}

/* The same for the last call; false: it was sent before. */
static bool end_locked(weft_observer_t *o, task_link_t *l, weft_record_request_t *out) WEFT_REQUIRES(o->mu) {
  if (l->is_ending) return false;
  *out = (weft_record_request_t){.observer = weft_str_of(o->id.data, o->id.length), .is_last = true};
  l->is_ending = true;
  o->num_in_flight++;
  return true;
}

static void send_call(weft_observer_t *o, task_link_t *l, const weft_record_request_t *r) {
  weft_worker_client_t *w = weft_observed_tasks_get(o->o.tasks, l->index).worker;
  w->ops->record(w, r, o->canceller, answered, l);
}

/* The task's clock is ahead of ours by what it says less the middle of the call: to half a trip. */
static void learn_clock_locked(task_link_t *l, int64_t clock_micros) {
  int64_t now = weft_clock_micros(), trip = now - l->asked_micros;
  if (trip < 1) trip = 1;
  if (l->num_calls < 1 || (l->trip != 0 && trip >= l->trip)) return; /* the first call has to connect */
  l->trip = trip;
  l->offset = clock_micros - (l->asked_micros + trip / 2);
}

/* A failure is the observer's, or, where it can go on without the task, the task's. */
static void fail_locked(weft_observer_t *o, task_link_t *l, weft_status_t *failure, weft_status_t **unused)
    WEFT_REQUIRES(o->mu) {
  l->is_open = false;
  if (o->o.goes_on_without_lost) {
    weft_step_gather_lose(o->gather, l->index);
    *unused = l->lost;
    l->lost = failure;
  } else if (o->failure == NULL) {
    o->failure = failure;
  } else {
    *unused = failure;
  }
}

static void answered(void *arg, weft_status_t *status, const weft_record_answer_t *a) {
  task_link_t *l = arg;
  weft_observer_t *o = l->observer;
  weft_status_t *unused = NULL;
  weft_record_request_t next;
  bool goes_on = false, ends = false;
  if (status != NULL) status = weft_observed_tasks_explain(o->o.tasks, l->index, status, l->num_calls > 0);
  weft_mutex_lock(&o->mu);
  const bool is_first = l->num_calls == 0;
  if (status == NULL && !l->is_ending) {
    learn_clock_locked(l, a->clock_micros);
    l->num_calls++;
    l->is_open = true;
    l->num_dropped = a->num_dropped;
    status = weft_step_gather_add(o->gather, l->index, a);
    goes_on = status == NULL && !o->is_closing && o->failure == NULL && !is_first;
  }
  if (status != NULL && (o->is_closing || l->is_ending)) {
    unused = status;
  } else if (status != NULL) {
    fail_locked(o, l, status, &unused);
  }
  if (goes_on) prepare_locked(o, l, &next);
  if (l->is_open && o->is_closing)
    ends = end_locked(o, l, &next); /* it was opened when close had passed it */
  weft_mutex_unlock(&o->mu);
  weft_status_free(unused);
  if (goes_on || ends) send_call(o, l, &next);
  weft_mutex_lock(&o->mu);
  o->num_in_flight--;
  sem_post(&o->changed); /* under the lock: once it is free, close may free the observer */
  weft_mutex_unlock(&o->mu);
}

/* ---- life ---- */

static void make_id(weft_strbuf_t *out) {
  char host[65] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  weft_strbuf_printf(out, "%.64s (process %ld on %s, %08" PRIx32 ")", program_invocation_short_name,
                     (long)getpid(), host, (uint32_t)weft_random_id());
  for (size_t i = 0; i < out->length; i++) {
    if (out->data[i] < ' ' || out->data[i] > '~') out->data[i] = '?';
  }
}

static void destroy(weft_observer_t *o) {
  for (int i = 0; o->links != NULL && i < o->n; i++) weft_status_free(o->links[i].lost);
  weft_free(o->links);
  weft_step_gather_destroy(o->gather);
  weft_status_free(o->failure);
  weft_canceller_release(o->canceller);
  weft_strbuf_deinit(&o->id);
  sem_destroy(&o->changed);
  weft_mutex_deinit(&o->mu);
  weft_free(o);
}

weft_status_t *weft_observer_create(const weft_observer_options_t *options, weft_observer_t **out) {
  weft_observer_t *o = weft_calloc(1, sizeof *o);
  if (o == NULL) return WEFT_NO_MEMORY("an observer");
  o->o = *options;
  if (o->o.poll_ms <= 0) o->o.poll_ms = POLL_MS;
  o->n = weft_observed_tasks_count(options->tasks);
  weft_mutex_init(&o->mu);
  (void)sem_init(&o->changed, 0, 0); /* fails for a value that is too large only */
  make_id(&o->id);
  o->canceller = weft_canceller_create(NULL);
  o->links = weft_calloc((size_t)o->n + 1, sizeof *o->links);
  weft_status_t *s = weft_step_gather_create(o->n, &o->gather);
  if (s == NULL && (o->id.failed || o->canceller == NULL || o->links == NULL))
    s = WEFT_NO_MEMORY("an observer");
  if (s != NULL) {
    destroy(o);
    return s;
  }
  for (int i = 0; i < o->n; i++) o->links[i] = (task_link_t){.observer = o, .index = i};
  *out = o;
  return NULL;
}

/* Sends the next call to each task that is not lost. */
static weft_status_t *ask_all(weft_observer_t *o) {
  for (int i = 0; i < o->n; i++) {
    weft_record_request_t r;
    task_link_t *l = &o->links[i];
    weft_mutex_lock(&o->mu);
    bool sends = l->lost == NULL && o->failure == NULL;
    if (sends) prepare_locked(o, l, &r);
    weft_mutex_unlock(&o->mu);
    if (sends) send_call(o, l, &r);
  }
  return NULL;
}

static bool is_answered_locked(const weft_observer_t *o) WEFT_REQUIRES(o->mu) {
  for (int i = 0; i < o->n; i++) {
    if (o->links[i].num_calls == 0 && o->links[i].lost == NULL) return false;
  }
  return true;
}

weft_status_t *weft_observer_start(weft_observer_t *o) {
  WEFT_RETURN_IF_ERROR(ask_all(o));
  for (bool done = false; !done;) {
    weft_mutex_lock(&o->mu);
    weft_status_t *failure = weft_status_clone(o->failure);
    done = is_answered_locked(o);
    weft_mutex_unlock(&o->mu);
    if (failure != NULL) return failure;
    if (weft_observer_is_interrupted(o)) return WEFT_ERROR(CANCELLED, "interrupted");
    if (!done) (void)wait_until(o, INT64_MAX);
  }
  return ask_all(o); /* from here each answer sends the next call */
}

weft_status_t *weft_observer_open(const weft_observer_options_t *options, weft_observer_t **out) {
  weft_observer_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_observer_create(options, &o));
  weft_status_t *s = weft_observer_start(o);
  if (s != NULL) {
    weft_observer_close(o);
    return s;
  }
  *out = o;
  return NULL;
}

weft_status_t *weft_observer_next(weft_observer_t *o, int64_t deadline_ns, weft_whole_step_t **out) {
  *out = NULL;
  for (bool in_time = true;;) {
    weft_mutex_lock(&o->mu);
    weft_status_t *failure = weft_status_clone(o->failure);
    if (failure == NULL) *out = weft_step_gather_next(o->gather);
    weft_mutex_unlock(&o->mu);
    if (failure != NULL || *out != NULL || !in_time || weft_observer_is_interrupted(o)) return failure;
    in_time = wait_until(o, deadline_ns);
  }
}

weft_str_t weft_observer_task(const weft_observer_t *o, int i) {
  return weft_observed_tasks_get(o->o.tasks, i).name;
}

weft_observed_state_t weft_observer_state(weft_observer_t *o, int i) {
  weft_mutex_lock(&o->mu);
  const task_link_t *l = &o->links[i];
  int64_t ahead = l->offset < 0 ? -l->offset : l->offset;
  weft_observed_state_t s = {.clock_offset_micros = ahead > l->trip ? -l->offset : 0,
                             .peak_flops = l->peak_flops,
                             .peak_bytes = l->peak_bytes,
                             .lost = l->lost};
  weft_mutex_unlock(&o->mu);
  return s;
}

weft_observer_losses_t weft_observer_losses(weft_observer_t *o) {
  weft_mutex_lock(&o->mu);
  weft_observer_losses_t l = {.steps_left_out = weft_step_gather_num_left_out(o->gather)};
  for (int i = 0; i < o->n; i++) l.records_dropped += o->links[i].num_dropped;
  weft_mutex_unlock(&o->mu);
  return l;
}

/* Waits until no call is in flight. False: the deadline has passed. */
static bool wait_for_calls(weft_observer_t *o, int64_t deadline_ns) {
  for (bool in_time = true;;) {
    weft_mutex_lock(&o->mu);
    bool is_idle = o->num_in_flight == 0;
    weft_mutex_unlock(&o->mu);
    if (is_idle || !in_time) return is_idle;
    in_time = wait_until(o, deadline_ns);
  }
}

void weft_observer_stop(weft_observer_t *o) {
  weft_mutex_lock(&o->mu);
  o->is_closing = true;
  weft_mutex_unlock(&o->mu);
  for (int i = 0; i < o->n; i++) {
    task_link_t *l = &o->links[i];
    weft_record_request_t last;
    weft_mutex_lock(&o->mu);
    bool sends = l->is_open && end_locked(o, l, &last);
    weft_mutex_unlock(&o->mu);
    if (sends) send_call(o, l, &last);
  }
  if (!wait_for_calls(o, weft_clock_deadline_ns(CLOSE_MS))) {
    weft_canceller_cancel(o->canceller); /* a task that hangs; its recording ends by itself */
    (void)wait_for_calls(o, INT64_MAX);
  }
}

/* ---- peaks ---- */

static weft_str_t host_of(const weft_observer_t *o, int i) {
  const weft_str_t address = weft_observed_tasks_get(o->o.tasks, i).address;
  ptrdiff_t colon = weft_str_rfind(address, ':');
  return weft_str_of(address.data, colon < 0 ? address.length : (size_t)colon);
}

/* Measured beside each other, tasks of one host would each find a part of its peaks. */
static bool has_turn_locked(const weft_observer_t *o, const bool *is_busy, int i) WEFT_REQUIRES(o->mu) {
  if (o->links[i].is_measured || o->links[i].lost != NULL) return false;
  for (int k = 0; k < o->n; k++) {
    if (is_busy[k] && weft_str_eq(host_of(o, k), host_of(o, i))) return false;
  }
  return true;
}

typedef struct peaks_question {
  weft_observer_t *observer;
  int index;
  bool *is_busy; /* guarded by mu; of the task */
} peaks_question_t;

static void measured(void *arg, weft_status_t *status, const weft_record_answer_t *a) {
  peaks_question_t *q = arg;
  weft_observer_t *o = q->observer;
  weft_status_free(status); /* they stay unknown */
  weft_mutex_lock(&o->mu);
  if (a != NULL) {
    o->links[q->index].peak_flops = a->peak_flops;
    o->links[q->index].peak_bytes = a->peak_bytes;
  }
  *q->is_busy = false;
  o->num_in_flight--;
  sem_post(&o->changed);
  weft_mutex_unlock(&o->mu);
}

/* Asks the next task of each host that has none in work. */
static void ask_for_peaks(weft_observer_t *o, peaks_question_t *questions, bool *is_busy) {
  for (int i = 0; i < o->n; i++) {
    weft_mutex_lock(&o->mu);
    bool asks = has_turn_locked(o, is_busy, i);
    if (asks) {
      o->links[i].is_measured = is_busy[i] = true;
      o->num_in_flight++;
    }
    weft_mutex_unlock(&o->mu);
    if (!asks) continue;
    const weft_record_request_t r = {.observer = weft_str_of(o->id.data, o->id.length),
                                     .measures_peaks = true};
    weft_worker_client_t *w = weft_observed_tasks_get(o->o.tasks, i).worker;
    questions[i] = (peaks_question_t){o, i, &is_busy[i]};
    w->ops->record(w, &r, o->canceller, measured, &questions[i]);
  }
}

/* All tasks that are there were asked, and have answered. */
static bool all_are_measured(weft_observer_t *o) {
  weft_mutex_lock(&o->mu);
  bool all = o->num_in_flight == 0;
  for (int i = 0; i < o->n; i++) all = all && (o->links[i].is_measured || o->links[i].lost != NULL);
  weft_mutex_unlock(&o->mu);
  return all;
}

void weft_observer_measure(weft_observer_t *o) {
  peaks_question_t *questions = weft_calloc((size_t)o->n + 1, sizeof *questions);
  bool *is_busy = weft_calloc((size_t)o->n + 1, sizeof *is_busy);
  bool has_room = questions != NULL && is_busy != NULL;
  while (has_room && !all_are_measured(o) && !weft_observer_is_interrupted(o)) {
    ask_for_peaks(o, questions, is_busy);
    (void)wait_until(o, INT64_MAX); /* for an answer; one is under way, or came meanwhile */
  }
  if (weft_observer_is_interrupted(o)) weft_canceller_cancel(o->canceller);
  (void)wait_for_calls(o, INT64_MAX);
  weft_free(questions);
  weft_free(is_busy);
}

void weft_observer_close(weft_observer_t *o) {
  if (o == NULL) return;
  weft_observer_stop(o);
  destroy(o);
}
