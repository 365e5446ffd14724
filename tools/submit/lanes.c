/* tools/submit/lanes.c - a loop per lane.
 *
 * A lane at the gate wakes when another lane's run ends, when a pause ends, and when all is over.
 */
#include "tools/submit/lanes.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tools/c_api.h"
#include "tools/submit/run_options.h"

typedef struct lane_thread {
  weft_lanes_t *all;
  int index;     /* of the lane */
  int64_t quota; /* runs of this lane at the most */
  bool counts;   /* each run is one of the steps */
  pthread_t thread;
  bool is_started;
} lane_thread_t;

static void end(weft_lanes_t *l, weft_status_t *failure) {
  weft_mutex_lock(&l->mu);
  bool is_first = !l->is_over;
  l->is_over = true;
  if (is_first) {
    l->failure = failure;
  } else {
    weft_status_free(failure); /* an echo: the first failure closed the session */
  }
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
  if (!is_first || failure == NULL || l->plan->num_lanes == 1) return;
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(l->session, status); /* wakes the lanes that wait for this one */
  TF_DeleteStatus(status);
}

static void has_ended(weft_lanes_t *l, int lane) {
  weft_mutex_lock(&l->mu);
  l->running--;
  l->gate.lanes[lane].has_ended = true;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}

/* ---- the gate ---- */

static void pause_now_locked(weft_lanes_t *l) WEFT_REQUIRES(l->mu) {
  int64_t done = l->done, next = INT64_MAX;
  l->gate.pause_at = INT64_MIN; /* nothing starts */
  weft_mutex_unlock(&l->mu);
  weft_status_t *s = l->pause(l->arg, done, &next);
  if (s != NULL) end(l, s);
  weft_mutex_lock(&l->mu);
  l->is_pausing = false;
  l->gate.pause_at = next;
  weft_cond_broadcast(&l->changed);
}

/* Waits until the lane may start another run; false: all is over. */
static bool goes_on(weft_lanes_t *l, int lane) {
  weft_mutex_lock(&l->mu);
  while (!l->is_over && weft_watch_signal(l->watch) == 0 && !weft_gate_may_start(&l->gate, lane, l->done)) {
    if (!l->is_pausing && weft_gate_is_still(&l->gate, l->done)) {
      l->is_pausing = true;
      pause_now_locked(l);
    } else {
      weft_cond_wait(&l->changed, &l->mu);
    }
  }
  bool yes = !l->is_over && weft_watch_signal(l->watch) == 0;
  l->gate.lanes[lane].started += yes;
  l->gate.lanes[lane].is_busy = yes;
  weft_mutex_unlock(&l->mu);
  return yes;
}

/* Before the session may have to be closed. */
static void pause_last(weft_lanes_t *l) {
  int64_t next;
  weft_mutex_lock(&l->mu);
  bool is_done = l->failure == NULL && l->done >= l->steps && l->pause != NULL;
  if (is_done) l->gate.pause_at = INT64_MIN; /* so that no other lane asks for a pause */
  weft_mutex_unlock(&l->mu);
  weft_status_t *s = is_done ? l->pause(l->arg, l->steps, &next) : NULL;
  if (s == NULL) return;
  weft_mutex_lock(&l->mu);
  l->failure = weft_status_join(l->failure, s);
  weft_mutex_unlock(&l->mu);
}

static void run_is_over(weft_lanes_t *l, int lane) {
  weft_mutex_lock(&l->mu);
  l->gate.lanes[lane].is_busy = false;
  if (l->is_due != NULL && l->gate.pause_at > l->done && l->is_due(l->arg)) weft_gate_stop_soon(&l->gate, l->done, l->round);
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}

/* All updates are done. A lane that still runs a step has its last token and ends soon, or is a backup worker: the update was
 * applied without its gradient, no token will arrive, and its step is cancelled. */
static void end_others(weft_lanes_t *l) {
  enum { GRACE_MS = 1000 };
  int64_t deadline_ns = weft_clock_ns() + GRACE_MS * INT64_C(1000000);
  bool is_late = false;
  weft_mutex_lock(&l->mu);
  while (l->running > 1 && !is_late) is_late = !weft_cond_wait_until(&l->changed, &l->mu, deadline_ns);
  weft_mutex_unlock(&l->mu);
  if (!is_late) return;
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(l->session, status);
  TF_DeleteStatus(status);
}

static weft_status_t *tell(weft_lanes_t *l, const weft_run_lane_t *lane, TF_Tensor **values, bool counts) {
  weft_mutex_lock(&l->mu);
  if (counts) l->done++;
  weft_status_t *s = l->is_over ? NULL : l->ran(l->arg, lane->is_update ? NULL : values, l->done, counts);
  if (lane->is_update && !l->plan->in_step && l->done >= l->steps) l->is_over = true;
  weft_mutex_unlock(&l->mu);
  return s;
}

static weft_status_t *run_session(weft_lanes_t *l, const weft_run_lane_t *lane, const weft_hand_t *hand, TF_Tensor **values,
                                  bool is_traced) {
  int n = lane->num_feeds;
  TF_Output *outputs = weft_calloc((size_t)n + 1, sizeof *outputs);
  TF_Tensor **tensors = weft_calloc((size_t)n + 1, sizeof(TF_Tensor *));
  weft_status_t *s = outputs == NULL || tensors == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a step") : NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    outputs[i] = lane->feeds[i];
    tensors[i] = hand->tensors[i];
  }
  if (s == NULL) {
    TF_Status *status = TF_NewStatus();
    TF_Buffer *options = weft_run_options(is_traced, l->plan->collective_graph_key), *metadata = is_traced ? TF_NewBuffer() : NULL;
    TF_SessionRun(l->session, options, outputs, tensors, n, lane->fetches, values, lane->num_fetches, lane->targets, lane->num_targets,
                  metadata, status);
    weft_watch_progress(l->watch);
    s = weft_c_api_status(status);
    if (s == NULL && is_traced) s = weft_trace_add(l->trace, weft_str_of(metadata->data, metadata->length));
    if (options != NULL) TF_DeleteBuffer(options);
    if (metadata != NULL) TF_DeleteBuffer(metadata);
    TF_DeleteStatus(status);
  }
  weft_free(outputs);
  weft_free(tensors);
  return s;
}

static weft_status_t *run_once(lane_thread_t *t, bool is_traced) {
  weft_lanes_t *l = t->all;
  const weft_run_lane_t *lane = &l->plan->lanes[t->index];
  weft_hand_t *hand = NULL;
  weft_status_t *s = lane->num_feeds == 0 ? NULL : weft_dealer_next(l->dealer, &hand);
  TF_Tensor **values = weft_calloc((size_t)lane->num_fetches + 1, sizeof(TF_Tensor *));
  if (s == NULL && values == NULL) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for values");
  if (s == NULL) s = run_session(l, lane, hand, values, is_traced);
  if (s == NULL) s = tell(l, lane, values, t->counts);
  for (int i = 0; values != NULL && i < lane->num_fetches; i++) TF_DeleteTensor(values[i]);
  weft_free(values);
  weft_hand_free(hand);
  return s;
}

static void *run_lane(void *arg) {
  lane_thread_t *t = arg;
  weft_lanes_t *l = t->all;
  for (int64_t k = 0; k < t->quota && goes_on(l, t->index); k++) {
    weft_status_t *s = run_once(t, l->trace != NULL && k == t->quota - 1);
    run_is_over(l, t->index);
    if (s == NULL) continue;
    end(l, s);
    break;
  }
  if (l->plan->lanes[t->index].is_update && !l->plan->in_step) {
    pause_last(l);
    end_others(l);
  }
  has_ended(l, t->index);
  return NULL;
}

weft_status_t *weft_lanes_run(weft_lanes_t *l, int64_t *out_done) {
  int n = l->plan->num_lanes, step_lanes = 0, number = 0;
  int64_t steps = l->steps - l->first;
  bool has_update = false;
  lane_thread_t *threads = weft_calloc((size_t)n + 1, sizeof *threads);
  *out_done = l->done = l->first;
  weft_status_t *failure = threads == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for %d lanes", n) : NULL;
  if (failure == NULL) failure = weft_gate_init(&l->gate, l->plan, l->first);
  if (failure != NULL) {
    weft_gate_deinit(&l->gate);
    weft_free(threads);
    return failure;
  }
  if (l->pause != NULL) l->gate.pause_at = l->pause_at;
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->changed);
  for (int i = 0; i < n; i++) {
    has_update = has_update || l->plan->lanes[i].is_update;
    step_lanes += !l->plan->lanes[i].is_update;
  }
  for (int i = 0; i < n; i++) {
    bool is_update = l->plan->lanes[i].is_update;
    int64_t share = step_lanes == 0 ? 0 : steps / step_lanes + (number < steps % step_lanes);
    threads[i] = (lane_thread_t){.all = l, .index = i, .quota = has_update ? steps : share, .counts = is_update || !has_update};
    number += !is_update;
  }
  l->running = n;
  for (int i = 1; i < n; i++) {
    threads[i].is_started = pthread_create(&threads[i].thread, NULL, run_lane, &threads[i]) == 0;
    if (threads[i].is_started) continue;
    end(l, WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for lane %d", i));
    has_ended(l, i);
  }
  run_lane(&threads[0]);
  for (int i = 1; i < n; i++) {
    if (threads[i].is_started) pthread_join(threads[i].thread, NULL);
  }
  weft_free(threads);
  weft_gate_deinit(&l->gate);
  weft_cond_deinit(&l->changed);
  weft_mutex_deinit(&l->mu);
  *out_done = l->done;
  return l->failure;
}
