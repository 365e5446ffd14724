/* tests/strategies/buckets_test.c - T-DDP-2, T-HVD-2 and the packing rule of T-MIR-2, on the reference's
 * vectors. */
#include "strategies/buckets.h"

#include "tests/runner.h"

enum { F32, F16, MAX_ITEMS = 8 };
#define MiB(x) ((int64_t)((x)*1048576))

typedef struct vector {
  weft_bucket_rule_t rule;
  weft_bucket_limits_t limits;
  weft_bucket_item_t items[MAX_ITEMS];
  int n;
  int bucket_of[MAX_ITEMS];
} vector_t;

static const vector_t vectors[] = {
    /* DDP: {0,1}{2,3}{4,5}{6} */
    {WEFT_BUCKETS_DDP,
     {MiB(1), MiB(25)},
     {{MiB(.5), 0}, {MiB(.6), 0}, {MiB(10), 0}, {MiB(20), 0}, {MiB(3), 0}, {MiB(30), 0}, {MiB(1), 0}},
     7,
     {0, 0, 1, 1, 2, 2, 3}},
    /* DDP with two types: {0}{1,3}{2,4} */
    {WEFT_BUCKETS_DDP,
     {MiB(1), MiB(25)},
     {{MiB(1.2), F32}, {MiB(.4), F16}, {MiB(24), F32}, {MiB(.7), F16}, {MiB(2), F32}},
     5,
     {0, 1, 2, 1, 2}},
    /* Horovod: {A,C}{B}{D} */
    {WEFT_BUCKETS_HOROVOD, {0, 64}, {{30, F32}, {10, F16}, {30, F32}, {10, F32}}, 4, {0, 1, 0, 2}},
    {WEFT_BUCKETS_HOROVOD, {0, 64}, {{40, 0}, {30, 0}, {20, 0}, {4, 0}}, 4, {0, 1, 1, 1}},
    {WEFT_BUCKETS_HOROVOD, {0, 0}, {{40, 0}, {30, 0}, {20, 0}}, 3, {0, 1, 2}},
    {WEFT_BUCKETS_HOROVOD,
     {0, 64},
     {{100, 0}, {30, 0}, {20, 0}},
     3,
     {0, 1, 1}}, /* one larger value goes alone */
    /* TensorFlow: a pack closes once it holds more than the limit; 0 is one pack */
    {WEFT_BUCKETS_PACK, {0, 10}, {{4, 0}, {6, 0}, {1, 0}, {20, 0}, {3, 0}}, 5, {0, 0, 0, 1, 2}},
    {WEFT_BUCKETS_PACK, {0, 0}, {{4, 0}, {6, 0}, {1, 0}}, 3, {0, 0, 0}},
    {WEFT_BUCKETS_NONE, {0, 0}, {{4, 0}, {6, 0}}, 2, {0, 1}},
    /* unknown sizes go alone and close nothing */
    {WEFT_BUCKETS_DDP, {10, 10}, {{4, 0}, {-1, 0}, {6, 0}, {5, 0}}, 4, {0, 1, 0, 2}},
    {WEFT_BUCKETS_HOROVOD, {0, 64}, {{-1, 0}, {6, 0}, {-1, 0}, {5, 0}}, 4, {0, 1, 2, 1}},
    {WEFT_BUCKETS_PACK, {0, 64}, {{6, 0}, {-1, 0}, {5, 0}}, 3, {0, 1, 0}},
};

static void rules_cut_as_their_systems_do(void) {
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    const vector_t *v = &vectors[i];
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_buckets_t b;
    CU_ASSERT_PTR_NULL_FATAL(weft_buckets_form(v->rule, v->limits, v->items, v->n, &arena, &b));
    int seen = 0;
    for (int k = 0; k < v->n; k++) CU_ASSERT_EQUAL(b.bucket_of[k], v->bucket_of[k]);
    for (int k = 0; k < b.num_buckets; k++) {
      for (int m = 0; m < b.num_items[k]; m++) CU_ASSERT_EQUAL(b.bucket_of[b.items[k][m]], k);
      seen += b.num_items[k];
    }
    CU_ASSERT_EQUAL(seen, v->n);
    weft_arena_deinit(&arena);
  }
}

static void no_items_are_no_buckets(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_buckets_t b;
  CU_ASSERT_PTR_NULL_FATAL(
      weft_buckets_form(WEFT_BUCKETS_DDP, (weft_bucket_limits_t){1, 1}, NULL, 0, &arena, &b));
  CU_ASSERT_EQUAL(b.num_buckets, 0);
  weft_arena_deinit(&arena);
}

static void sizes_do_not_overflow(void) {
  weft_bucket_item_t items[3] = {{INT64_MAX, 0}, {INT64_MAX, 0}, {1, 0}};
  for (int rule = WEFT_BUCKETS_DDP; rule <= WEFT_BUCKETS_NONE; rule++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_buckets_t b;
    CU_ASSERT_PTR_NULL_FATAL(weft_buckets_form(
        (weft_bucket_rule_t)rule, (weft_bucket_limits_t){INT64_MAX, INT64_MAX}, items, 3, &arena, &b));
    CU_ASSERT(b.num_buckets >= 1 && b.num_buckets <= 3);
    weft_arena_deinit(&arena);
  }
}

static void order_follows_what_was_measured(void) {
  const double ready[5] = {3, 1, -1, 2, 1};
  int order[5];
  CU_ASSERT_PTR_NULL_FATAL(weft_buckets_order_by_time(ready, 5, order));
  CU_ASSERT(order[0] == 1 && order[1] == 4 && order[2] == 3 && order[3] == 0 && order[4] == 2);
}

static weft_status_t *form_once(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_buckets_t b;
  int order[2];
  const double ready[2] = {1, 0};
  weft_status_t *s =
      weft_buckets_form(WEFT_BUCKETS_DDP, vectors[0].limits, vectors[0].items, vectors[0].n, &arena, &b);
  if (s == NULL) s = weft_buckets_order_by_time(ready, 2, order);
  weft_arena_deinit(&arena);
  return s;
}

static void running_out_of_memory_is_reported(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, form_once());
  CU_ASSERT(n > 0);
}

static const CU_TestInfo tests[] = {
    {"rules cut as their systems do", rules_cut_as_their_systems_do},
    {"no items are no buckets", no_items_are_no_buckets},
    {"sizes do not overflow", sizes_do_not_overflow},
    {"order follows what was measured", order_follows_what_was_measured},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/buckets", tests); }
