/* Clocks of workers: waiting for the slowest. */
#include "resources/kv_clock.h"

#include <stdio.h>
#include <string.h>

#include "tests/runner.h"

typedef struct waiting {
  weft_value_t output;
  bool is_done;
  weft_code_t code;
  int64_t slowest;
} waiting_t;

static void on_done(void *arg, weft_status_t *s) {
  waiting_t *w = arg;
  w->is_done = true;
  w->code = weft_status_code(s);
  if (w->output.tensor != NULL) w->slowest = *(int64_t *)w->output.tensor->data;
  weft_tensor_release(w->output.tensor);
  weft_status_free(s);
}

static void wait_on(weft_object_t *o, waiting_t *w, int64_t worker, int64_t staleness,
                    weft_canceller_t *canceller) {
  const weft_resource_call_t call = {
      .canceller = canceller, .outputs = &w->output, .done = on_done, .arg = w};
  *w = (waiting_t){.is_done = false};
  weft_clocked_wait((weft_clocked_t *)o, &call, worker, staleness, (weft_clock_timeout_t){0});
}

static void advance(weft_object_t *o, int64_t worker) {
  int64_t clock = 0;
  CU_ASSERT_PTR_NULL(weft_clocked_advance((weft_clocked_t *)o, worker, &clock));
}

static weft_object_t *fresh(int workers) {
  static const weft_str_t tasks[] = {{"/job:w/replica:0/task:0", 23}, {"/job:w/replica:0/task:1", 23}};
  weft_object_t *o = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_clock_create(workers, tasks, 2, &o));
  return o;
}

static void a_later_wait_may_end_first(void) {
  weft_object_t *o = fresh(3);
  waiting_t far, near;
  for (int i = 0; i < 4; i++) advance(o, 0);
  advance(o, 1);
  wait_on(o, &far, 0, 1, NULL);  /* until all have come to 3 */
  wait_on(o, &near, 1, 0, NULL); /* until all have come to 1 */
  CU_ASSERT_FALSE(far.is_done || near.is_done);
  advance(o, 2);
  CU_ASSERT_TRUE(near.is_done && !far.is_done);
  CU_ASSERT_EQUAL(near.slowest, 1);
  advance(o, 2);
  advance(o, 2);
  advance(o, 1);
  CU_ASSERT_FALSE(far.is_done);
  advance(o, 1);
  CU_ASSERT_TRUE(far.is_done);
  CU_ASSERT_EQUAL(far.slowest, 3);
  weft_object_release(o);
}

static void a_lost_task_delays_no_other(void) {
  weft_object_t *o = fresh(2);
  waiting_t w;
  advance(o, 0);
  wait_on(o, &w, 0, 0, NULL);
  weft_clocked_task_changed(o, weft_str("/job:w/replica:0/task:7"));
  CU_ASSERT_FALSE(w.is_done);
  weft_clocked_task_changed(o, weft_str("/job:w/replica:0/task:1"));
  CU_ASSERT_TRUE(w.is_done);
  CU_ASSERT_EQUAL(w.code, WEFT_OK);
  weft_object_release(o);
}

static void a_cancelled_wait_leaves_the_others(void) {
  weft_object_t *o = fresh(2);
  waiting_t a, b;
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  advance(o, 0);
  wait_on(o, &a, 0, 0, canceller);
  wait_on(o, &b, 0, 0, NULL);
  weft_canceller_cancel(canceller);
  CU_ASSERT_TRUE(a.is_done && !b.is_done);
  CU_ASSERT_EQUAL(a.code, WEFT_CANCELLED);
  advance(o, 1);
  CU_ASSERT_TRUE(b.is_done);
  CU_ASSERT_EQUAL(b.code, WEFT_OK);
  weft_canceller_release(canceller);
  weft_object_release(o);
}

static void a_dropped_clock_ends_its_waits(void) {
  weft_object_t *o = fresh(2);
  waiting_t w;
  advance(o, 0);
  wait_on(o, &w, 0, 0, NULL);
  weft_clocked_abandon(o);
  CU_ASSERT_TRUE(w.is_done);
  CU_ASSERT_EQUAL(w.code, WEFT_CANCELLED);
  weft_object_release(o);
}

/* ---- deadlines ---- */

typedef struct late { /* a wait that ends on the timer's thread */
  weft_value_t output;
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_over; /* guarded by mu, with what follows */
  weft_code_t code;
  char message[2000];
} late_t;

static void on_late(void *arg, weft_status_t *s) {
  late_t *l = arg;
  weft_mutex_lock(&l->mu);
  l->is_over = true;
  l->code = weft_status_code(s);
  snprintf(l->message, sizeof l->message, "%s", s == NULL ? "" : weft_status_message(s));
  weft_tensor_release(l->output.tensor);
  weft_cond_signal(&l->ended);
  weft_mutex_unlock(&l->mu);
  weft_status_free(s);
}

static void begin_late(late_t *l, weft_object_t *o, int64_t worker, weft_timer_t *timer, double seconds,
                       weft_canceller_t *canceller) {
  const weft_resource_call_t call = {
      .canceller = canceller, .outputs = &l->output, .done = on_late, .arg = l};
  *l = (late_t){.is_over = false};
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->ended);
  weft_clocked_wait((weft_clocked_t *)o, &call, worker, 0, (weft_clock_timeout_t){timer, seconds});
}

static void end_late(late_t *l) {
  weft_mutex_lock(&l->mu);
  while (!l->is_over) weft_cond_wait(&l->ended, &l->mu); /* woken by on_late() */
  weft_mutex_unlock(&l->mu);
  weft_cond_deinit(&l->ended);
  weft_mutex_deinit(&l->mu);
}

static void a_wait_that_is_too_long_names_the_workers(void) {
  weft_timer_t *timer = NULL;
  late_t l;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  weft_object_t *o = fresh(3);
  advance(o, 0);
  advance(o, 0);
  advance(o, 2);
  begin_late(&l, o, 0, timer, 0.01, NULL);
  end_late(&l);
  CU_ASSERT_EQUAL(l.code, WEFT_DEADLINE_EXCEEDED);
  CU_ASSERT_STRING_EQUAL(
      l.message,
      "worker 0 has waited 0.01 s for worker 1 (/job:w/replica:0/task:1, at clock 0), worker 2 (at clock 1) "
      "to come to clock 2");
  for (int i = 0; i < 2; i++) advance(o, 1); /* the clock goes on as if nothing had been */
  advance(o, 2);
  begin_late(&l, o, 0, timer, 1000, NULL);
  end_late(&l);
  CU_ASSERT_EQUAL(l.code, WEFT_OK);
  weft_object_release(o);
  weft_timer_destroy(timer);
}

static void ten_workers_are_named_at_the_most(void) {
  weft_timer_t *timer = NULL;
  late_t l;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  weft_object_t *o = fresh(1000);
  advance(o, 0);
  begin_late(&l, o, 0, timer, 0.001, NULL);
  end_late(&l);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.message, "worker 10 (at clock 0) and 989 more to come to clock 1"));
  CU_ASSERT_PTR_NULL(strstr(l.message, "worker 11 "));
  weft_object_release(o);
  weft_timer_destroy(timer);
}

/* Whichever of deadline, cancel, advance and drop comes first: one answer, and no use after free (address
 * sanitizer). */
static void a_deadline_beside_all_other_ends(void) {
  enum { ROUNDS = 400 };
  weft_timer_t *timer = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  for (int i = 0; i < ROUNDS; i++) {
    late_t l;
    weft_object_t *o = fresh(2);
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    advance(o, 0);
    begin_late(&l, o, 0, timer, (double)(i % 20) * 1e-5 + 1e-9, canceller);
    if (i % 4 == 1) weft_canceller_cancel(canceller);
    if (i % 4 == 2) advance(o, 1);
    if (i % 4 == 3) weft_clocked_abandon(o);
    end_late(&l);
    bool is_cancelled = l.code == WEFT_CANCELLED && i % 2 == 1, is_done = l.code == WEFT_OK && i % 4 == 2;
    CU_ASSERT_TRUE(l.code == WEFT_DEADLINE_EXCEEDED || is_cancelled || is_done);
    weft_object_release(o);
    weft_canceller_release(canceller);
  }
  weft_timer_destroy(timer);
}

static weft_status_t *make_and_drop(void) {
  static const weft_str_t task = {"/job:w/replica:0/task:0", 23};
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_clock_create(3, &task, 1, &o));
  weft_object_release(o);
  return NULL;
}

static void every_failed_allocation_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_and_drop());
  CU_ASSERT_TRUE(n > 0);
}

static const CU_TestInfo tests[] = {
    {"a later wait may end first", a_later_wait_may_end_first},
    {"a lost task delays no other", a_lost_task_delays_no_other},
    {"a cancelled wait leaves the others", a_cancelled_wait_leaves_the_others},
    {"a dropped clock ends its waits", a_dropped_clock_ends_its_waits},
    {"a wait that is too long names the workers", a_wait_that_is_too_long_names_the_workers},
    {"ten workers are named at the most", ten_workers_are_named_at_the_most},
    {"a deadline beside all other ends", a_deadline_beside_all_other_ends},
    {"every failed allocation is reported", every_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_clock", tests); }
