/* Bucketize, Bincount, DenseBincount and HistogramFixedWidth, against the CPU's kernels. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void put_int(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I32) {
    ((int32_t *)t->data)[i] = (int32_t)v;
  } else {
    ((int64_t *)t->data)[i] = v;
  }
}

/* Values of which some are above the bins; weights, none or too many of them; one value below 0. */
static void count(weft_row_case_t *c, weft_dtype_t index, int max_rank) {
  const weft_shape_t s = weft_row_shape(c, c->round < 3 ? 1 : 0, max_rank),
                     none = weft_shape_vector(c->round == 6 ? 5 : 0);
  int64_t size = c->round == 3 ? 0 : c->round == 7 ? -1 : weft_row_int(c, 1, 20);
  weft_tensor_t *values = weft_row_add(c, index, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < values->count; i++) put_int(values, i, weft_row_int(c, 0, 22));
  if (c->round == 5 && values->count > 0) put_int(values, weft_row_int(c, 0, values->count - 1), -1);
  weft_row_add_ints(c, index, -1, &size);
  weft_row_add(c, c->dtype, c->round % 2 == 0 ? &none : &s, WEFT_ROW_SMALL);
}
static void bincount(weft_row_case_t *c) { count(c, WEFT_I32, 3); }
static void dense(weft_row_case_t *c) {
  count(c, c->round % 3 == 0 ? WEFT_I64 : WEFT_I32, c->round == 4 ? 3 : 2);
  weft_row_attr(c, "binary_output=%s", c->round % 4 < 2 ? "true" : "false");
}

/* Values in the range and outside of it, infinite ones and, in one round, NaN; ranges that are none. */
static void histogram(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3), pair = weft_shape_vector(c->round == 7 ? 3 : 2);
  const bool is_float = weft_dtype_is_floating(c->dtype);
  weft_tensor_t *x = weft_row_add(c, c->dtype, &s, c->round == 4 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  weft_tensor_t *range = weft_row_add(c, c->dtype, &pair, WEFT_ROW_SMALL);
  int64_t num = c->round == 6 ? 0 : weft_row_int(c, 1, 30);
  for (int64_t i = 0; i < pair.dims[0]; i++) {
    const int64_t v = c->round == 5 ? 1 : i == 0 ? -3 : 5;
    if (c->dtype == WEFT_F32) ((float *)range->data)[i] = (float)v / 4;
    if (c->dtype == WEFT_F64) ((double *)range->data)[i] = (double)v / 4;
    if (!is_float) put_int(range, i, v);
  }
  if (c->round == 3 && c->dtype == WEFT_F32 && x->count > 0) ((float *)x->data)[0] = INFINITY;
  if (c->round == 3 && c->dtype == WEFT_I64) ((int64_t *)range->data)[0] = INT64_MIN;
  weft_row_add_ints(c, WEFT_I32, -1, &num);
  weft_row_attr(c, "dtype=%s", c->round % 2 == 0 ? "int32" : "int64");
}

/* Boundaries, some of them equal; elements on them, and NaN; in one round none. */
static void bucketize(weft_row_case_t *c) {
  static const char *const bounds[] = {"[0.5]",   "[-1,0,0,0.25,1,1.5]", "[-4,-2,0,2,4]", "[]",
                                       "[0,1,3]", "[-1e30,0.1,1e30]",    "[0,2]",         "[3]"};
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  weft_row_attr(c, "boundaries=%s", bounds[c->round]);
}

#define TYPES (WEFT_CUDA_SET(F32_F64) | WEFT_CUDA_SET(INDEX))
/* A sum of weights comes in any order. */
static const weft_row_op_t ops[] = {
    {"Bincount", TYPES, bincount, .tolerance = 100, .same_message = true},
    {"Bucketize", TYPES, bucketize, .tolerance = -1, .same_message = true},
    {"DenseBincount", TYPES, dense, .tolerance = 100, .same_message = true},
    {"HistogramFixedWidth", TYPES, histogram, .tolerance = -1, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_bins_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_bins_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("bins", tests);
}
