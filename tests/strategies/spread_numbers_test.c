/* The plan of the spread analysis, taken at its word: on graphs that TensorFlow made, each value of each replica is
 * compared with the value of one device. testdata/spread/make_graphs.py says what the graphs are. */
#include "tests/runner.h"
#include "tests/strategies/spread_replicas.h"

static const char *const train[] = {"train", NULL};

static void check(const char *name, double tolerance, const int *shares) {
  weft_spread_case_t c = {.name = name, .roots = train, .init = "init", .steps = 3, .tolerance = tolerance};
  for (int i = 0; i < MAX_SHARES; i++) c.shares[i] = shares[i];
  CU_ASSERT(weft_spread_check(&c) > 0);
}
static void check_float64(const char *name) {
  static const int even[] = {4, 4, 0, 0}, uneven[] = {5, 2, 4, 0}, four[] = {1, 3, 2, 6}, one[] = {7, 0, 0, 0};
  check(name, 1e-10, even);
  check(name, 1e-10, uneven);
  check(name, 1e-10, four);
  check(name, 1e-10, one);
}
static void check_float32(const char *name) {
  static const int even[] = {4, 4, 0, 0}, uneven[] = {5, 2, 4, 0};
  check(name, 2e-4, even);
  check(name, 2e-4, uneven);
}

#define CASE64(name) \
  static void name(void) { check_float64(#name); }
#define CASE32(name) \
  static void name(void) { check_float32(#name); }
#include "tests/strategies/spread_cases.def"
#undef CASE64
#undef CASE32

static const CU_TestInfo tests[] = {
#define CASE64(name) {#name " is spread as the plan says", name},
#define CASE32(name) {#name " is spread as the plan says", name},
#include "tests/strategies/spread_cases.def"
#undef CASE64
#undef CASE32
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("spread_numbers", tests); }
