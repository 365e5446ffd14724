/* Clocks of workers: who waits for whom. */
#include "kernels/cpu/kv_clock_object.h"
#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))
#define ADVANCE "WeftClockAdvance", ""
#define WAIT "WeftClockWait", ""
#define READ "WeftClockRead", "", ""

static void clocks_count_per_worker(void) {
  static const weft_call_t calls[] = {
      {READ, "int64[3]:0,0,0"},
      {ADVANCE, "int64[]:1", "int64[]:1"},
      {ADVANCE, "int64[]:1", "int64[]:2"},
      {READ, "int64[3]:0,2,0"},
      {WAIT, "int64[]:1 int64[]:2", "int64[]:0"},
      {WAIT, "int64[]:0 int64[]:0", "int64[]:0"},
      {"WeftClockRemove", "", "int64[]:0", ""},
      {"WeftClockRemove", "", "int64[]:2", ""},
      {READ, "int64[3]:-1,2,-1"},
      {WAIT, "int64[]:1 int64[]:0", "int64[]:2"},
      {"WeftClockJoin", "", "int64[]:2", "int64[]:2"},
      {ADVANCE, "int64[]:0", "int64[]:3"}, /* back where the slowest is, then on */
      {READ, "int64[3]:3,2,2"},
      {ADVANCE, "int64[]:3", "INVALID_ARGUMENT: worker 3 is not one of the 3 workers of the clock"},
      {WAIT, "int64[]:-1 int64[]:0", "INVALID_ARGUMENT: worker -1 is not one of the 3 workers of the clock"},
      {WAIT, "int64[]:1 int64[]:-1", "INVALID_ARGUMENT: staleness must be at least 0, but is -1"},
      {ADVANCE, "int64[1]:1", "INVALID_ARGUMENT: worker must be a scalar, but has shape [1]"},
  };
  begin();
  weft_made_t c = weft_make(&bench, "WeftClock", "num_workers=3");
  RUN(c.value, calls);
  weft_made_drop(&c);
  end();
}

static void a_wait_is_cancelled(void) {
  begin();
  weft_made_t c = weft_make(&bench, "WeftClock", "num_workers=2");
  weft_expect(&bench, c.value, ADVANCE, "int64[]:0", "int64[]:1");
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, c.value, WAIT, "int64[]:0 int64[]:0", "CANCELLED: The wait for the slowest worker was cancelled");
  weft_made_drop(&c);
  end();
}

/* ---- on the object ---- */

typedef struct waiting {
  weft_kernel_ctx_t ctx;
  weft_value_t output;
  weft_step_t step;
  bool is_done;
  weft_code_t code;
  int64_t slowest;
} waiting_t;

static void on_done(weft_kernel_ctx_t *ctx, weft_status_t *s) {
  waiting_t *w = (waiting_t *)(void *)ctx;
  w->is_done = true;
  w->code = weft_status_code(s);
  if (w->output.tensor != NULL) w->slowest = *(int64_t *)w->output.tensor->data;
  weft_tensor_release(w->output.tensor);
  weft_status_free(s);
}

static void wait_on(weft_object_t *o, waiting_t *w, int64_t worker, int64_t staleness, weft_canceller_t *canceller) {
  *w = (waiting_t){.step = {.canceller = canceller}};
  w->ctx.outputs = &w->output;
  w->ctx.step = &w->step;
  w->ctx.done = on_done;
  weft_clocked_wait((weft_clocked_t *)o, &w->ctx, worker, staleness);
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

static void who_came_later_may_go_first(void) {
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

static void a_lost_task_holds_nobody_up(void) {
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
    {"clocks count per worker", clocks_count_per_worker},
    {"a wait is cancelled", a_wait_is_cancelled},
    {"who came later may go first", who_came_later_may_go_first},
    {"a lost task holds nobody up", a_lost_task_holds_nobody_up},
    {"a cancelled wait leaves the others", a_cancelled_wait_leaves_the_others},
    {"a dropped clock ends its waits", a_dropped_clock_ends_its_waits},
    {"every failed allocation is reported", every_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_clock", tests); }
