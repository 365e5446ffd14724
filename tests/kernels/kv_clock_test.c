/* The kernels of clocks. */
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

static void a_reset_clock_is_a_new_one(void) {
  static const weft_call_t calls[] = {
      {ADVANCE, "int64[]:1", "int64[]:1"},
      {ADVANCE, "int64[]:2", "int64[]:1"},
      {"WeftClockRemove", "", "int64[]:0", ""},
      {READ, "int64[3]:-1,1,1"},
      {"WeftClockReset", "", "", ""},
      {READ, "int64[3]:0,0,0"},
      {WAIT, "int64[]:0 int64[]:0", "int64[]:0"},
  };
  begin();
  weft_made_t c = weft_make(&bench, "WeftClock", "num_workers=3"),
              t = weft_make(&bench, "WeftKvTable", "num_workers=2 policy=BSP");
  RUN(c.value, calls);
  weft_expect(&bench, t.value, "WeftClockReset", "", "",
              "INVALID_ARGUMENT: the clocks of a table are set by WeftKvImport alone");
  weft_made_drop(&c);
  weft_made_drop(&t);
  end();
}

static void a_wait_is_cancelled(void) {
  begin();
  weft_made_t c = weft_make(&bench, "WeftClock", "num_workers=2");
  weft_expect(&bench, c.value, ADVANCE, "int64[]:0", "int64[]:1");
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, c.value, WAIT, "int64[]:0 int64[]:0",
              "CANCELLED: The wait for the slowest worker was cancelled");
  weft_made_drop(&c);
  end();
}

static const CU_TestInfo tests[] = {
    {"clocks count per worker", clocks_count_per_worker},
    {"a reset clock is a new one", a_reset_clock_is_a_new_one},
    {"a wait is cancelled", a_wait_is_cancelled},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_clock", tests); }
