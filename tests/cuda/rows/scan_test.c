/* Running sums and products, and the largest elements, against the CPU's kernels. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void scan_values(weft_row_case_t *c, weft_row_values_t values) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  if (c->round == 1) s = weft_shape_matrix(2, 700);
  if (c->round == 4) s = (weft_shape_t){.rank = 3, .dims = {2, 300, 3}};
  const int64_t at = c->round == 1 || c->round == 4 ? 1 : weft_row_int(c, 0, s.rank - 1),
                axis = c->round % 2 == 0 ? at : at - s.rank, wrong = s.rank;
  weft_row_add(c, c->dtype, &s, values);
  weft_row_add_ints(c, c->round % 3 == 0 ? WEFT_I32 : WEFT_I64, -1, c->round == 7 ? &wrong : &axis);
  weft_row_attr(c, "exclusive=%s reverse=%s", weft_row_int(c, 0, 1) == 0 ? "true" : "false",
                weft_row_int(c, 0, 1) == 0 ? "true" : "false");
}
static void scan(weft_row_case_t *c) { scan_values(c, WEFT_ROW_SMALL); }
/* Infinities, but no NaN: which of those stay depends on the order. */
static void scan_any(weft_row_case_t *c) {
  scan_values(c, WEFT_ROW_ANY);
  weft_tensor_t *x = c->inputs[0];
  for (int64_t i = 0; i < x->count; i++) {
    if (x->dtype == WEFT_F32 && isnan(((float *)x->data)[i])) ((float *)x->data)[i] = -INFINITY;
    if (x->dtype == WEFT_F64 && isnan(((double *)x->data)[i])) ((double *)x->data)[i] = -INFINITY;
    uint16_t *half = x->dtype == WEFT_F16 || x->dtype == WEFT_BF16 ? &((uint16_t *)x->data)[i] : NULL;
    if (half != NULL && (*half & 0x7fff) > (x->dtype == WEFT_F16 ? 0x7c00 : 0x7f80)) *half = 0;
  }
}
/* Factors near 1, so that a long product stays in the type. */
static void product(weft_row_case_t *c) {
  scan(c);
  weft_tensor_t *x = c->inputs[0];
  for (int64_t i = 0; i < x->count; i++) {
    const float v = 1 + (float)weft_row_int(c, -4, 4) / 1024;
    if (x->dtype == WEFT_F32) ((float *)x->data)[i] = v;
    if (x->dtype == WEFT_F64) ((double *)x->data)[i] = (double)v;
    if (x->dtype == WEFT_F16) ((uint16_t *)x->data)[i] = weft_f32_to_f16(v);
    if (x->dtype == WEFT_BF16) ((uint16_t *)x->data)[i] = weft_f32_to_bf16(v);
  }
}

/* Integers, so that there are equals. */
static weft_shape_t add_row(weft_row_case_t *c) {
  weft_shape_t s =
      weft_shape_matrix(weft_row_int(c, 0, 3), weft_row_int(c, 1, 40)); /* few: blocks wait often */
  if (c->round == 1) s = weft_shape_matrix(2, 600);
  if (c->round == 3) s = weft_shape_vector(5);
  weft_tensor_t *t = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t v = weft_row_int(c, -50, 50);
    if (t->dtype == WEFT_F32) ((float *)t->data)[i] = (float)v;
    if (t->dtype == WEFT_F64) ((double *)t->data)[i] = (double)v;
    if (t->dtype == WEFT_F16) ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v);
    if (t->dtype == WEFT_BF16) ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)v);
    if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = v;
  }
  return s;
}
static int64_t some_k(weft_row_case_t *c, const weft_shape_t *s) {
  const int64_t n = s->dims[s->rank - 1];
  return c->round == 7 ? n + 1 : weft_row_int(c, 0, n < 9 ? n : 9);
}
static void top_k(weft_row_case_t *c) {
  const weft_shape_t s = add_row(c);
  weft_row_attr(c, "k=%d", (int)some_k(c, &s));
}
static void top_k_v2(weft_row_case_t *c) {
  const weft_shape_t s = add_row(c);
  const int64_t k = some_k(c, &s);
  weft_row_add_ints(c, WEFT_I32, -1, &k);
}

static void predictions(weft_row_case_t *c) {
  const int64_t rows = weft_row_int(c, 1, 9), n = c->round == 1 ? 500 : weft_row_int(c, 1, 12);
  const weft_shape_t s = weft_shape_matrix(rows, n);
  int64_t targets[9];
  weft_row_add(c, WEFT_F32, &s, c->round == 2 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  for (int64_t i = 0; i < rows; i++) targets[i] = weft_row_int(c, -1, n);
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, (int)rows - (c->round == 7 && rows > 1),
                    targets);
}
static void in_top_k(weft_row_case_t *c) {
  predictions(c);
  weft_row_attr(c, "k=%d", (int)weft_row_int(c, 0, 6));
}
static void in_top_k_v2(weft_row_case_t *c) {
  predictions(c);
  const int64_t k = weft_row_int(c, 0, 6);
  weft_row_add_ints(c, c->inputs[1]->dtype, -1, &k);
}

/* Of few values, so that many are equal, and of many; a place that is none. */
static void nth(weft_row_case_t *c) {
  const int64_t n = c->round == 2   ? 0
                    : c->round == 1 ? 700
                                    : weft_row_int(c, 1, 40),
                last = n > 0 ? n - 1 : 0;
  weft_shape_t s = {.rank = (int)weft_row_int(c, 0, 2)};
  for (int d = 0; d < s.rank; d++) s.dims[d] = weft_row_int(c, 1, 3);
  if (c->round != 6) s.dims[s.rank++] = n;
  int64_t which = c->round == 0 ? 0 : c->round == 3 ? last : c->round == 7 ? n : weft_row_int(c, 0, last);
  if (c->round == 5) which = -1;
  weft_row_add(c, c->dtype, &s, c->round == 4 ? WEFT_ROW_NONZERO : WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, -1, &which);
  weft_row_attr(c, "reverse=%s", c->round % 2 == 0 ? "true" : "false");
}
static void approx(weft_row_case_t *c) {
  const weft_shape_t s = add_row(c);
  weft_row_attr(c, "k=%d reduction_dimension=%d", (int)some_k(c, &s), c->round == 6 ? 0 : -1);
}

static const weft_row_op_t ops[] = {
    {"ApproxTopK", WEFT_CUDA_SET(F32_HALFS), approx},
    {"Cumprod", WEFT_CUDA_SET(FLOAT_I64), product, .tolerance = 20},
    {"Cumsum", WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX), scan, .tolerance = 200},
    {"CumulativeLogsumexp", WEFT_CUDA_SET(FLOAT), scan_any, .tolerance = 20},
    {"InTopK", WEFT_DTYPE_BIT(WEFT_F32), in_top_k},
    {"InTopKV2", WEFT_DTYPE_BIT(WEFT_F32), in_top_k_v2},
    {"NthElement", WEFT_CUDA_SET(REAL), nth, .tolerance = -1, .same_message = true},
    {"TopK", WEFT_CUDA_SET(FLOAT_I64), top_k},
    {"TopKV2", WEFT_CUDA_SET(FLOAT_I64), top_k_v2},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_scan_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_scan_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("scan", tests);
}
