/* TopKV2 on rows too long for a table of golden lines: whole sorts, parts of them, several threads. And TopK,
 * whose kernels TensorFlow registers for an attribute that the op lacks, so that it runs nowhere else. */
#include "tests/kernels/script.h"

enum { ROWS = 9, COLUMNS = 20011, VALUES = 500 }; /* few values: most are tied */

static weft_bench_t bench;

static weft_tensor_t *make_input(int64_t rows, int64_t columns) {
  weft_shape_t shape = weft_shape_matrix(rows, columns);
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  uint32_t x = 12345;
  for (int64_t i = 0; i < t->count; i++) {
    x = x * 1664525u + 1013904223u;
    ((float *)t->data)[i] = (float)(x >> 8) / 16777216.0f * VALUES;
    ((float *)t->data)[i] = (float)(int)((float *)t->data)[i];
  }
  return t;
}

static weft_tensor_t *make_k(int32_t k) {
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(WEFT_I32, &WEFT_SCALAR, NULL, &t));
  *(int32_t *)t->data = k;
  return t;
}

/* outputs: values and indices. */
static void run(weft_tensor_t *x, int32_t k, const char *attrs, weft_tensor_t **outputs) {
  weft_tensor_t *inputs[] = {x, make_k(k)};
  int n = 0;
  weft_status_t *s = weft_run_op(&bench, "TopKV2", attrs, inputs, 2, outputs, 2, &n);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_tensor_release(inputs[1]);
}

static void drop(weft_tensor_t **outputs) {
  weft_tensor_release(outputs[0]);
  weft_tensor_release(outputs[1]);
}

/* Each row falls, ties in the order of their indices, and every value is where its index says. */
static bool is_ranked(const weft_tensor_t *x, weft_tensor_t *const *outputs, int64_t k) {
  const float *values = outputs[0]->data;
  const int32_t *indices = outputs[1]->data;
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t i = r * k; i < (r + 1) * k; i++) {
      if (values[i] != ((const float *)x->data)[r * COLUMNS + indices[i]]) return false;
      if (i == r * k) continue;
      if (values[i - 1] < values[i] || (values[i - 1] == values[i] && indices[i - 1] >= indices[i]))
        return false;
    }
  }
  return true;
}

static void a_whole_row_is_sorted_and_ties_keep_their_order(void) {
  weft_tensor_t *x = make_input(ROWS, COLUMNS), *all[2] = {NULL};
  run(x, COLUMNS, "", all);
  CU_ASSERT_EQUAL(all[0]->count, ROWS * COLUMNS);
  CU_ASSERT_TRUE(is_ranked(x, all, COLUMNS)); /* no index twice: ranked means strictly ordered */
  drop(all);
  weft_tensor_release(x);
}

static void the_best_are_the_head_of_the_whole_order(void) {
  weft_tensor_t *x = make_input(ROWS, COLUMNS), *all[2] = {NULL};
  run(x, COLUMNS, "", all);
  static const int32_t some[] = {1, 2, 3, 100, COLUMNS - 1};
  for (size_t q = 0; q < sizeof some / sizeof some[0]; q++) {
    weft_tensor_t *part[2] = {NULL};
    run(x, some[q], "", part);
    bool same = true;
    for (int64_t r = 0; r < ROWS; r++) {
      const int32_t *want = (const int32_t *)all[1]->data + r * COLUMNS,
                    *got = (const int32_t *)part[1]->data + r * some[q];
      same = same && memcmp(want, got, (size_t)some[q] * sizeof *got) == 0;
    }
    CU_ASSERT_TRUE(same);
    drop(part);
  }
  drop(all);
  weft_tensor_release(x);
}

static void k_may_be_an_attribute(void) {
  weft_tensor_t *x = make_input(ROWS, COLUMNS), *want[2] = {NULL}, *got[2] = {NULL};
  int n = 0;
  run(x, 7, "", want);
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&bench, "TopK", "k=7", &x, 1, got, 2, &n));
  CU_ASSERT_EQUAL(got[1]->dtype, WEFT_I32);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_TRUE(weft_shape_eq(&got[i]->shape, &want[i]->shape));
    CU_ASSERT_EQUAL(memcmp(got[i]->data, want[i]->data, want[i]->bytes), 0);
  }
  drop(want);
  drop(got);
  char more[24];
  snprintf(more, sizeof more, "k=%d", COLUMNS + 1);
  weft_status_t *s = weft_run_op(&bench, "TopK", more, &x, 1, got, 2, &n);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_tensor_release(x);
}

static void unsorted_results_are_the_same_set(void) {
  weft_tensor_t *x = make_input(ROWS, COLUMNS), *sorted[2] = {NULL}, *loose[2] = {NULL};
  enum { K = 257 };
  run(x, K, "", sorted);
  run(x, K, "sorted=false", loose);
  static bool is_wanted[ROWS][COLUMNS];
  int found = 0;
  for (int i = 0; i < ROWS * K; i++) is_wanted[i / K][((const int32_t *)sorted[1]->data)[i]] = true;
  for (int i = 0; i < ROWS * K; i++) {
    bool *wanted = &is_wanted[i / K][((const int32_t *)loose[1]->data)[i]];
    if (*wanted) found++;
    *wanted = false;
  }
  CU_ASSERT_EQUAL(found, ROWS * K);
  drop(sorted);
  drop(loose);
  weft_tensor_release(x);
}

static weft_status_t *run_small(int32_t k) {
  weft_tensor_t *inputs[] = {NULL, NULL}, *outputs[2] = {NULL};
  static const float row[4] = {3, 1, 4, 1};
  weft_shape_t shape = weft_shape_vector(4);
  int n = 0;
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, NULL, &inputs[0]);
  if (s == NULL) s = weft_tensor_new(WEFT_I32, &WEFT_SCALAR, NULL, &inputs[1]);
  if (s == NULL) {
    memcpy(inputs[0]->data, row, sizeof row);
    *(int32_t *)inputs[1]->data = k;
    s = weft_run_op(&bench, "TopKV2", "", inputs, 2, outputs, 2, &n);
  }
  drop(outputs);
  drop(inputs);
  return s;
}

static void every_failed_allocation_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_small(2));
  CU_ASSERT_TRUE(n > 0);
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_small(4));
  CU_ASSERT_TRUE(n > 0);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"a whole row is sorted and ties keep their order", a_whole_row_is_sorted_and_ties_keep_their_order},
      {"the best are the head of the whole order", the_best_are_the_head_of_the_whole_order},
      {"k may be an attribute", k_may_be_an_attribute},
      {"unsorted results are the same set", unsorted_results_are_the_same_set},
      {"every failed allocation is reported", every_failed_allocation_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("top_k", tests, &bench);
}
