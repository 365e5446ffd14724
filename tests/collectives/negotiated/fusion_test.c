/* T-HVD-2: which tensors go into one buffer. */
#include "collectives/negotiated/fusion.h"

#include <stdio.h>

#include "base/str.h"
#include "tests/runner.h"

enum { MOST = 8 };

typedef struct item {
  char kind;
  int64_t bytes;
} item_t;

static bool same_kind(const void *arg, int i, int j) {
  const item_t *items = arg;
  return items[i].kind == items[j].kind;
}

/* "{0,2}{1}": the batches as text. */
static void expect(const item_t *items, int n, int64_t limit, const char *wanted) {
  int64_t bytes[MOST] = {0};
  int order[MOST];
  bool ends[MOST];
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < n; i++) bytes[i] = items[i].bytes;
  CU_ASSERT_PTR_NULL_FATAL(weft_fusion_plan(bytes, n, limit, same_kind, items, order, ends));
  for (int i = 0; i < n; i++) {
    bool begins = i == 0 || ends[i - 1];
    weft_strbuf_printf(&text, "%s%d%s", begins ? "{" : ",", order[i], ends[i] ? "}" : "");
  }
  CU_ASSERT_STRING_EQUAL(n == 0 ? "" : text.data, wanted);
  weft_strbuf_deinit(&text);
}

static void kinds_are_kept_apart_and_looked_past(void) {
  const item_t items[] = {{'f', 30}, {'h', 10}, {'f', 30}, {'f', 10}};
  expect(items, 4, 64, "{0,2}{1}{3}");
}

static void what_does_not_fit_begins_the_next(void) {
  const item_t items[] = {{'f', 40}, {'f', 30}, {'f', 20}, {'f', 4}};
  expect(items, 4, 64, "{0}{1,2,3}");
}

static void a_limit_of_nothing_leaves_each_alone(void) {
  const item_t items[] = {{'f', 1}, {'f', 1}, {'h', 1}};
  expect(items, 3, 0, "{0}{1}{2}");
}

static void looking_past_is_bounded_by_the_limit(void) {
  const item_t near[] = {{'f', 20}, {'h', 44}, {'f', 20}}, far[] = {{'f', 20}, {'h', 45}, {'f', 20}};
  expect(near, 3, 64, "{0,2}{1}");
  expect(far, 3, 64, "{0}{1}{2}");
}

static void one_that_is_too_large_goes_alone(void) {
  const item_t items[] = {{'f', 100}, {'f', 10}, {'f', 20}};
  expect(items, 3, 64, "{0}{1,2}");
}

static void empty_tensors_and_no_tensors(void) {
  const item_t items[] = {{'f', 0}, {'f', 64}, {'f', 0}};
  expect(items, 3, 64, "{0,1,2}");
  expect(items, 0, 64, "");
}

static const CU_TestInfo tests[] = {
    {"kinds are kept apart and looked past", kinds_are_kept_apart_and_looked_past},
    {"what does not fit begins the next", what_does_not_fit_begins_the_next},
    {"a limit of nothing leaves each alone", a_limit_of_nothing_leaves_each_alone},
    {"looking past is bounded by the limit", looking_past_is_bounded_by_the_limit},
    {"one that is too large goes alone", one_that_is_too_large_goes_alone},
    {"empty tensors and no tensors", empty_tensors_and_no_tensors},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("fusion", tests); }
