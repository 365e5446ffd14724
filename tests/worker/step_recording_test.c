/* tests/worker/step_recording_test.c - recordings: what observers are told, bounds, and every way to end. */
#include "worker/step_recording.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "tests/runner.h"

/* ---- answers, copied ---- */

enum { MAX_SEEN = 256 };
typedef struct seen {
  weft_mutex_t mu;
  weft_cond_t changed;
  int answers; /* guarded by mu, like the rest */
  weft_code_t code;
  int num_records, num_ended, num_partial, num_running;
  int64_t records[MAX_SEEN], calls[MAX_SEEN], ended[MAX_SEEN], partial[MAX_SEEN], running[MAX_SEEN];
  char stats[64], message[64];
  int64_t num_dropped;
  bool has_more;
} seen_t;

static void seen_init(seen_t *s) {
  memset(s, 0, sizeof *s);
  weft_mutex_init(&s->mu);
  weft_cond_init(&s->changed);
}
static void seen_deinit(seen_t *s) {
  weft_cond_deinit(&s->changed);
  weft_mutex_deinit(&s->mu);
}

static void copy_ids(const int64_t *from, int n, int64_t *to, int *total) {
  for (int i = 0; i < n && *total < MAX_SEEN; i++) to[(*total)++] = from[i];
}

static void on_answer(void *arg, weft_status_t *status, const weft_record_answer_t *a) {
  seen_t *s = arg;
  weft_mutex_lock(&s->mu);
  s->code = weft_status_code(status);
  weft_status_free(status);
  for (int i = 0; a != NULL && i < a->num_records && s->num_records < MAX_SEEN; i++) {
    const weft_step_record_t *r = &a->records[i];
    s->records[s->num_records] = r->step_id;
    s->calls[s->num_records++] = r->calls;
    snprintf(s->stats, sizeof s->stats, "%.*s", WEFT_STR_ARGS(r->step_stats));
    snprintf(s->message, sizeof s->message, "%.*s", WEFT_STR_ARGS(r->message));
  }
  if (a != NULL) {
    copy_ids(a->ended_steps, a->num_ended_steps, s->ended, &s->num_ended);
    copy_ids(a->partial_steps, a->num_partial_steps, s->partial, &s->num_partial);
    s->num_running = 0;
    copy_ids(a->running_steps, a->num_running_steps, s->running, &s->num_running);
    s->num_dropped = a->num_dropped;
    s->has_more = a->has_more;
  }
  s->answers++;
  weft_cond_broadcast(&s->changed);
  weft_mutex_unlock(&s->mu);
}

/* Waits until there were `n` answers in all. */
static void wait_for(seen_t *s, int n) {
  int64_t deadline = weft_clock_ns() + 20000000000;
  weft_mutex_lock(&s->mu);
  while (s->answers < n && weft_cond_wait_until(&s->changed, &s->mu, deadline)) {
  }
  CU_ASSERT_EQUAL(s->answers, n);
  weft_mutex_unlock(&s->mu);
}

static void ask_with(weft_step_recordings_t *r, const weft_record_request_t *q, seen_t *s) {
  int before = s->answers;
  weft_step_recordings_ask(r, q, NULL, on_answer, s);
  wait_for(s, before + 1);
}

static void open_recording(weft_step_recordings_t *r, const char *id, seen_t *s) {
  ask_with(r, &(weft_record_request_t){.observer = weft_str(id), .is_first = true}, s);
}
static void take(weft_step_recordings_t *r, const char *id, seen_t *s) {
  ask_with(r, &(weft_record_request_t){.observer = weft_str(id)}, s);
}
static void end_recording(weft_step_recordings_t *r, const char *id, seen_t *s) {
  ask_with(r, &(weft_record_request_t){.observer = weft_str(id), .is_last = true}, s);
}

static weft_step_recordings_t *fresh_with(const weft_recording_options_t *o) {
  weft_step_recordings_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_step_recordings_create(o, &r));
  return r;
}
static weft_step_recordings_t *fresh(void) { return fresh_with(&(weft_recording_options_t){.arg = NULL}); }

static void end_run_with(weft_step_recordings_t *r, weft_run_recording_t *run, weft_str_t stats) {
  const weft_step_record_t record = {.end_micros = 2,
                                     .code = WEFT_OK,
                                     .message = WEFT_STR(""),
                                     .session = WEFT_STR("s"),
                                     .graph = WEFT_STR("g"),
                                     .step_stats = stats};
  weft_run_recording_end(r, run, &record);
}
static void run_step(weft_step_recordings_t *r, int64_t id) {
  weft_run_recording_t *run = weft_run_recording_begin(r, id);
  CU_ASSERT_PTR_NOT_NULL_FATAL(run);
  end_run_with(r, run, WEFT_STR("stats"));
}

/* ---- what is told ---- */

static void runs_are_recorded_only_while_a_recording_is_open(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  CU_ASSERT_PTR_NULL(weft_run_recording_begin(r, 1));
  open_recording(r, "a", &s);
  CU_ASSERT_EQUAL(weft_step_recordings_count(r), 1);
  run_step(r, 7);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 1);
  CU_ASSERT_EQUAL(s.records[0], 7);
  CU_ASSERT_STRING_EQUAL(s.stats, "stats");
  end_recording(r, "a", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_OK);
  CU_ASSERT_EQUAL(weft_step_recordings_count(r), 0);
  CU_ASSERT_PTR_NULL(weft_run_recording_begin(r, 8));
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void a_record_says_how_many_calls_came_before_its_run(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  weft_run_recording_t *early = weft_run_recording_begin(r, 1);
  take(r, "a", &s);
  weft_run_recording_t *late = weft_run_recording_begin(r, 2);
  end_run_with(r, late, WEFT_STR(""));
  end_run_with(r, early, WEFT_STR(""));
  take(r, "a", &s);
  CU_ASSERT_EQUAL_FATAL(s.num_records, 2);
  CU_ASSERT_EQUAL(s.records[0], 2);
  CU_ASSERT_EQUAL(s.calls[0], 2);
  CU_ASSERT_EQUAL(s.records[1], 1);
  CU_ASSERT_EQUAL(s.calls[1], 1);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void a_step_ends_when_its_master_says_so_and_no_run_goes_on(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  run_step(r, 1);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_ended, 0);
  weft_step_recordings_end_step(r, 1);
  take(r, "a", &s);
  CU_ASSERT_EQUAL_FATAL(s.num_ended, 1);
  CU_ASSERT_EQUAL(s.ended[0], 1);
  /* A run that still goes on: its record comes first. */
  weft_run_recording_t *run = weft_run_recording_begin(r, 2);
  weft_step_recordings_end_step(r, 2);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_ended, 1);
  CU_ASSERT_EQUAL_FATAL(s.num_running, 1);
  CU_ASSERT_EQUAL(s.running[0], 2);
  end_run_with(r, run, WEFT_STR(""));
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 2);
  CU_ASSERT_EQUAL_FATAL(s.num_ended, 2);
  CU_ASSERT_EQUAL(s.ended[1], 2);
  CU_ASSERT_EQUAL(s.num_running, 0);
  /* Of a step without recorded runs nothing is told. */
  weft_step_recordings_end_step(r, 3);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_ended, 2);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void list_three_steps(void *arg, weft_strbuf_t *out) {
  (void)arg;
  const int64_t ids[] = {11, 12, 13};
  weft_strbuf_append(out, weft_str_of((const char *)ids, sizeof ids));
}

static void steps_that_run_already_are_partial(void) {
  weft_step_recordings_t *r = fresh_with(&(weft_recording_options_t){.running_steps = list_three_steps});
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  CU_ASSERT_EQUAL_FATAL(s.num_partial, 3);
  CU_ASSERT_EQUAL(s.partial[2], 13);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_partial, 3);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void observers_do_not_disturb_each_other(void) {
  weft_step_recordings_t *r = fresh();
  seen_t a, b;
  seen_init(&a);
  seen_init(&b);
  open_recording(r, "a", &a);
  run_step(r, 1);
  weft_run_recording_t *run = weft_run_recording_begin(r, 2); /* b did not see its begin */
  open_recording(r, "b", &b);
  end_run_with(r, run, WEFT_STR(""));
  run_step(r, 3);
  take(r, "a", &a);
  CU_ASSERT_EQUAL(a.num_records, 3);
  end_recording(r, "a", &a);
  take(r, "b", &b);
  CU_ASSERT_EQUAL_FATAL(b.num_records, 1);
  CU_ASSERT_EQUAL(b.records[0], 3);
  weft_step_recordings_destroy(r);
  seen_deinit(&a);
  seen_deinit(&b);
}

static void a_call_waits_for_a_record(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  const weft_record_request_t q = {.observer = WEFT_STR("a"), .wait_ms = 1000000};
  weft_step_recordings_ask(r, &q, NULL, on_answer, &s);
  run_step(r, 5);
  wait_for(&s, 2);
  CU_ASSERT_EQUAL_FATAL(s.num_records, 1);
  CU_ASSERT_EQUAL(s.records[0], 5);
  /* Nothing comes: it ends by itself, after a second at most. */
  weft_step_recordings_ask(r, &q, NULL, on_answer, &s);
  wait_for(&s, 3);
  CU_ASSERT_EQUAL(s.code, WEFT_OK);
  CU_ASSERT_EQUAL(s.num_records, 1);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static weft_status_t *ask_and_end(weft_step_recordings_t *r, weft_canceller_t *c, seen_t *s) {
  const int before = s->answers;
  const weft_record_request_t q = {.observer = WEFT_STR("a"), .wait_ms = 1000000};
  weft_step_recordings_ask(r, &q, c, on_answer, s);
  weft_mutex_lock(&s->mu);
  const bool has_failed = s->answers > before;
  weft_mutex_unlock(&s->mu);
  if (!has_failed) return NULL;
  return weft_status_from_wire((int)s->code, "", 0);
}

static void without_memory_a_call_is_not_cancelled(void) {
  weft_step_recordings_t *r = fresh();
  weft_canceller_t *c = weft_canceller_create(NULL);
  seen_t s;
  int n = 0;
  seen_init(&s);
  open_recording(r, "a", &s);
  WEFT_FAIL_EACH_ALLOCATION(n, status, ask_and_end(r, c, &s));
  CU_ASSERT_EQUAL(n, 2);
  weft_canceller_cancel(c);
  wait_for(&s, n + 2);
  CU_ASSERT_EQUAL(s.code, WEFT_CANCELLED);
  weft_step_recordings_destroy(r);
  weft_canceller_release(c);
  seen_deinit(&s);
}

static void a_failed_run_says_why(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  const weft_step_record_t record = {.code = WEFT_CANCELLED, .message = WEFT_STR("it was cancelled")};
  weft_run_recording_end(r, weft_run_recording_begin(r, 1), &record);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 1);
  CU_ASSERT_STRING_EQUAL(s.message, "it was cancelled");
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

/* ---- bounds ---- */

static void what_does_not_fit_is_dropped_and_counted(void) {
  weft_step_recordings_t *r = fresh_with(&(weft_recording_options_t){.max_bytes = 20000});
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  char stats[8000] = "";
  for (int64_t id = 1; id <= 5; id++)
    end_run_with(r, weft_run_recording_begin(r, id), weft_str_of(stats, sizeof stats));
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 2);
  CU_ASSERT_EQUAL(s.num_dropped, 3);
  CU_ASSERT_EQUAL_FATAL(s.num_partial, 3); /* which steps are not whole by it */
  CU_ASSERT_EQUAL(s.partial[0], 3);
  CU_ASSERT_EQUAL(s.partial[2], 5);
  take(r, "a", &s); /* an answer's records are given back before the next answer */
  run_step(r, 6);   /* there is room again */
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 3);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void a_shared_record_counts_once(void) {
  weft_step_recordings_t *r = fresh_with(&(weft_recording_options_t){.max_bytes = 10000});
  seen_t a, b;
  seen_init(&a);
  seen_init(&b);
  char stats[8000] = "";
  open_recording(r, "a", &a);
  open_recording(r, "b", &b);
  end_run_with(r, weft_run_recording_begin(r, 1), weft_str_of(stats, sizeof stats));
  take(r, "a", &a);
  CU_ASSERT_EQUAL(a.num_records, 1);
  end_run_with(r, weft_run_recording_begin(r, 2), weft_str_of(stats, sizeof stats)); /* b still holds 1 */
  take(r, "b", &b);
  CU_ASSERT_EQUAL(b.num_records, 1);
  CU_ASSERT_EQUAL(b.num_dropped, 1);
  take(r, "b", &b); /* an answer's records are given back before the next answer */
  end_run_with(r, weft_run_recording_begin(r, 3), weft_str_of(stats, sizeof stats));
  take(r, "a", &a);
  take(r, "b", &b);
  CU_ASSERT_EQUAL(a.num_records, 2);
  CU_ASSERT_EQUAL(b.num_records, 2);
  weft_step_recordings_destroy(r);
  seen_deinit(&a);
  seen_deinit(&b);
}

static void a_long_queue_comes_in_several_answers(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  size_t size = (size_t)3 << 20;
  char *stats = weft_calloc(1, size);
  CU_ASSERT_PTR_NOT_NULL_FATAL(stats);
  open_recording(r, "a", &s);
  for (int64_t id = 1; id <= 5; id++)
    end_run_with(r, weft_run_recording_begin(r, id), weft_str_of(stats, size));
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 2);
  CU_ASSERT_TRUE(s.has_more);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 4);
  CU_ASSERT_TRUE(s.has_more);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 5);
  CU_ASSERT_FALSE(s.has_more);
  weft_free(stats);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void bad_calls_are_refused(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  char long_id[WEFT_MAX_OBSERVER_ID + 2];
  memset(long_id, 'x', sizeof long_id - 1);
  long_id[sizeof long_id - 1] = '\0';
  const char *const bad[] = {"", "a\nb", "\xc3\xa4", long_id};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    open_recording(r, bad[i], &s);
    CU_ASSERT_EQUAL(s.code, WEFT_INVALID_ARGUMENT);
  }
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_NOT_FOUND);
  end_recording(r, "a", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_NOT_FOUND);
  open_recording(r, "a", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_OK);
  open_recording(r, "a", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_ALREADY_EXISTS);
  for (int i = 1; i < WEFT_MAX_OBSERVERS; i++) {
    char id[16];
    snprintf(id, sizeof id, "o%d", i);
    open_recording(r, id, &s);
    CU_ASSERT_EQUAL(s.code, WEFT_OK);
  }
  open_recording(r, "one too many", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_RESOURCE_EXHAUSTED);
  end_recording(r, "a", &s);
  open_recording(r, "one too many", &s);
  CU_ASSERT_EQUAL(s.code, WEFT_OK);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

/* ---- ends ---- */

static void a_second_call_is_refused_and_the_last_ends_the_first(void) {
  weft_step_recordings_t *r = fresh();
  seen_t first, s;
  seen_init(&first);
  seen_init(&s);
  open_recording(r, "a", &s);
  const weft_record_request_t q = {.observer = WEFT_STR("a"), .wait_ms = 1000};
  weft_step_recordings_ask(r, &q, NULL, on_answer, &first);
  take(r, "a", &s);
  CU_ASSERT_TRUE(s.code == WEFT_FAILED_PRECONDITION || first.answers == 1); /* a slow machine: it has ended */
  if (first.answers == 0) {
    end_recording(r, "a", &s);
    wait_for(&first, 1);
    CU_ASSERT_EQUAL(first.code, WEFT_CANCELLED);
  }
  weft_step_recordings_destroy(r);
  seen_deinit(&first);
  seen_deinit(&s);
}

static void a_call_that_breaks_ends_its_recording(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  weft_canceller_t *c = weft_canceller_create(NULL);
  const weft_record_request_t q = {.observer = WEFT_STR("a"), .wait_ms = 1000};
  weft_step_recordings_ask(r, &q, c, on_answer, &s);
  weft_canceller_cancel(c);
  wait_for(&s, 2);
  CU_ASSERT_EQUAL(s.code, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(weft_step_recordings_count(r), 0);
  /* Cancelled before it is asked. */
  open_recording(r, "b", &s);
  weft_step_recordings_ask(r, &(weft_record_request_t){.observer = WEFT_STR("b"), .wait_ms = 1000}, c,
                           on_answer, &s);
  wait_for(&s, 4);
  CU_ASSERT_EQUAL(s.code, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(weft_step_recordings_count(r), 0);
  weft_canceller_release(c);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

static void a_recording_that_is_not_asked_for_ends(void) {
  weft_step_recordings_t *r = fresh_with(&(weft_recording_options_t){.silence_ms = 20});
  seen_t a, b;
  seen_init(&a);
  seen_init(&b);
  open_recording(r, "gone", &a);
  weft_run_recording_t *run = weft_run_recording_begin(r, 1);
  open_recording(r, "other", &b);
  while (weft_step_recordings_count(r) > 0) { /* each call of `other` waits for 20 ms at least */
    const weft_record_request_t q = {.observer = WEFT_STR("other"), .wait_ms = 20};
    ask_with(r, &q, &b);
    if (b.code != WEFT_OK || weft_step_recordings_count(r) <= 1) break;
  }
  take(r, "gone", &a);
  CU_ASSERT_EQUAL(a.code, WEFT_NOT_FOUND);
  CU_ASSERT_FALSE(weft_run_recording_is_wanted(r, run));
  end_run_with(r, run, WEFT_STR(""));
  weft_step_recordings_destroy(r);
  seen_deinit(&a);
  seen_deinit(&b);
}

static void the_workers_end_ends_all(void) {
  weft_step_recordings_t *r = fresh();
  seen_t a, b;
  seen_init(&a);
  seen_init(&b);
  open_recording(r, "a", &a);
  open_recording(r, "b", &b);
  run_step(r, 1);
  take(r, "a", &a);
  weft_step_recordings_ask(r, &(weft_record_request_t){.observer = WEFT_STR("a"), .wait_ms = 1000}, NULL,
                           on_answer, &a);
  weft_step_recordings_stop(r);
  wait_for(&a, 3);
  CU_ASSERT_TRUE(a.code == WEFT_UNAVAILABLE || a.code == WEFT_OK); /* OK: it had ended just before */
  take(r, "b", &b);
  CU_ASSERT_EQUAL(b.code, WEFT_UNAVAILABLE);
  open_recording(r, "c", &b);
  CU_ASSERT_EQUAL(b.code, WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NULL(weft_run_recording_begin(r, 2));
  weft_step_recordings_destroy(r);
  seen_deinit(&a);
  seen_deinit(&b);
}

static void a_run_outlives_the_recordings_it_knew(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  weft_run_recording_t *run = weft_run_recording_begin(r, 1);
  end_recording(r, "a", &s);
  open_recording(r, "a", &s); /* the same id, but another recording */
  CU_ASSERT_FALSE(weft_run_recording_is_wanted(r, run));
  end_run_with(r, run, WEFT_STR(""));
  weft_step_recordings_end_step(r, 1);
  take(r, "a", &s);
  CU_ASSERT_EQUAL(s.num_records, 0);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

/* ---- memory ---- */

/* RESOURCE_EXHAUSTED in the answer, or by the end of the recording, is a failure that was told. */
static weft_status_t *record_one(void) {
  weft_step_recordings_t *r = NULL;
  seen_t s;
  WEFT_RETURN_IF_ERROR(weft_step_recordings_create(&(weft_recording_options_t){.arg = NULL}, &r));
  seen_init(&s);
  weft_code_t code = WEFT_OK;
  open_recording(r, "a", &s);
  code = s.code;
  if (code == WEFT_OK) {
    weft_run_recording_t *run = weft_run_recording_begin(r, 1);
    if (run != NULL) end_run_with(r, run, WEFT_STR("stats"));
    weft_step_recordings_end_step(r, 1);
    take(r, "a", &s);
    code = s.code;
    bool told = s.num_records == 1 && s.num_ended == 1;
    if (code == WEFT_OK && !told && s.num_partial > 0) code = WEFT_RESOURCE_EXHAUSTED;
    CU_ASSERT_TRUE(code != WEFT_OK || told);
  }
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
  return code == WEFT_OK ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "told as %d", (int)code);
}

static void without_memory_the_observer_is_told(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, record_one());
  CU_ASSERT_TRUE(n > 5);
}

/* ---- threads ---- */

enum { RUNNERS = 4, STEPS_EACH = 50 };
typedef struct runner_arg {
  weft_step_recordings_t *recordings;
  int first;
} runner_arg_t;

static void *run_steps(void *arg) {
  runner_arg_t *a = arg;
  for (int i = 0; i < STEPS_EACH; i++) {
    int64_t id = a->first + i;
    weft_run_recording_t *run = weft_run_recording_begin(a->recordings, id);
    if (run != NULL) end_run_with(a->recordings, run, WEFT_STR("stats"));
    weft_step_recordings_end_step(a->recordings, id);
  }
  return NULL;
}

static void every_step_of_many_threads_is_told_once(void) {
  weft_step_recordings_t *r = fresh();
  seen_t s;
  seen_init(&s);
  open_recording(r, "a", &s);
  pthread_t threads[RUNNERS];
  runner_arg_t args[RUNNERS];
  for (int i = 0; i < RUNNERS; i++) {
    args[i] = (runner_arg_t){r, 1 + i * STEPS_EACH};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run_steps, &args[i]), 0);
  }
  while (s.num_ended < RUNNERS * STEPS_EACH && s.code == WEFT_OK && s.answers < 5000)
    ask_with(r, &(weft_record_request_t){.observer = WEFT_STR("a"), .wait_ms = 100}, &s);
  for (int i = 0; i < RUNNERS; i++) pthread_join(threads[i], NULL);
  CU_ASSERT_EQUAL(s.num_records, RUNNERS * STEPS_EACH);
  CU_ASSERT_EQUAL(s.num_ended, RUNNERS * STEPS_EACH);
  int64_t sum = 0;
  for (int i = 0; i < s.num_records; i++) sum += s.records[i];
  CU_ASSERT_EQUAL(sum, (int64_t)RUNNERS * STEPS_EACH * (RUNNERS * STEPS_EACH + 1) / 2);
  weft_step_recordings_destroy(r);
  seen_deinit(&s);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"runs are recorded only while a recording is open", runs_are_recorded_only_while_a_recording_is_open},
      {"a record says how many calls came before its run", a_record_says_how_many_calls_came_before_its_run},
      {"a step ends when its master says so and no run goes on",
       a_step_ends_when_its_master_says_so_and_no_run_goes_on},
      {"steps that run already are partial", steps_that_run_already_are_partial},
      {"observers do not disturb each other", observers_do_not_disturb_each_other},
      {"a call waits for a record", a_call_waits_for_a_record},
      {"without memory a call is not cancelled", without_memory_a_call_is_not_cancelled},
      {"a failed run says why", a_failed_run_says_why},
      {"what does not fit is dropped and counted", what_does_not_fit_is_dropped_and_counted},
      {"a shared record counts once", a_shared_record_counts_once},
      {"a long queue comes in several answers", a_long_queue_comes_in_several_answers},
      {"bad calls are refused", bad_calls_are_refused},
      {"a second call is refused and the last ends the first",
       a_second_call_is_refused_and_the_last_ends_the_first},
      {"a call that breaks ends its recording", a_call_that_breaks_ends_its_recording},
      {"a recording that is not asked for ends", a_recording_that_is_not_asked_for_ends},
      {"the worker's end ends all", the_workers_end_ends_all},
      {"a run outlives the recordings it knew", a_run_outlives_the_recordings_it_knew},
      {"without memory the observer is told", without_memory_the_observer_is_told},
      {"every step of many threads is told once", every_step_of_many_threads_is_told_once},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("step_recording", tests);
}
