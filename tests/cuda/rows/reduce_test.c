/* Reductions over any axes, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Round 1 has a long dimension, round 3 many elements and few results: they are cut in parts. */
static weft_shape_t shape(weft_row_case_t *c, int min_rank, int max_rank) {
  weft_shape_t s = weft_row_shape(c, min_rank, max_rank);
  if (c->round == 3) {
    s.rank = 3;
    s.dims[0] = 3;
    s.dims[1] = 9000;
    s.dims[2] = 2;
  }
  return s;
}

static void over_axes(weft_row_case_t *c, weft_row_values_t values) {
  const weft_shape_t s = shape(c, 0, 6);
  int64_t axes[WEFT_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < s.rank; d++) {
    if (c->round == 3 ? d == 1 : c->round == 4 || weft_row_int(c, 0, 1) == 0)
      axes[n++] = weft_row_int(c, 0, 1) == 0 ? d : d - s.rank;
  }
  if (c->round == 7) axes[n++] = s.rank; /* there is no such dimension */
  weft_row_add(c, c->dtype, &s, values);
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, n, axes);
  weft_row_attr(c, "keep_dims=%s", c->round % 3 == 0 ? "true" : "false");
}
static void any(weft_row_case_t *c) { over_axes(c, WEFT_ROW_ANY); }
static void small(weft_row_case_t *c) { over_axes(c, c->round == 5 ? WEFT_ROW_ANY : WEFT_ROW_SMALL); }
static void near_one(weft_row_case_t *c) { /* a product of many stays a number */
  over_axes(c, WEFT_ROW_POSITIVE);
  for (int64_t i = 0; i < c->inputs[0]->count; i++) {
    weft_tensor_t *t = c->inputs[0];
    const double v = weft_row_int(c, 0, 1) == 0 ? 1.25 : 0.8;
    if (t->dtype == WEFT_F32) ((float *)t->data)[i] = (float)v;
    if (t->dtype == WEFT_F64) ((double *)t->data)[i] = v;
    if (t->dtype == WEFT_C64) ((weft_c64_t *)t->data)[i] = (weft_c64_t){.6f, (float)(v - .25)};
    if (t->dtype == WEFT_C128) ((weft_c128_t *)t->data)[i] = (weft_c128_t){.6, v - .25};
    if (t->dtype == WEFT_F16) ((uint16_t *)t->data)[i] = 0x3c00;
    if (t->dtype == WEFT_BF16) ((uint16_t *)t->data)[i] = 0x3f80;
  }
}

static void all_of_it(weft_row_case_t *c) {
  const weft_shape_t s = shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static void bias(weft_row_case_t *c) {
  const bool is_first = c->round % 2 == 1;
  const weft_shape_t s = c->round == 7 ? weft_shape_vector(4) : shape(c, 2, 5);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_attr(c, "data_format=%s", is_first ? "NCHW" : "NHWC");
}

static void where(weft_row_case_t *c) {
  const weft_shape_t s = shape(c, 1, 5);
  const int64_t axis = c->round == 7 ? s.rank : weft_row_int(c, -s.rank, s.rank - 1);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, WEFT_I32, -1, &axis);
  weft_row_attr(c, "output_type=%s", c->round % 2 == 0 ? "int64" : "int32");
}

static const weft_row_op_t ops[] = {
    {"All", WEFT_CUDA_SET(BOOL), any},
    {"Any", WEFT_CUDA_SET(BOOL), any},
    {"ArgMax", WEFT_CUDA_SET(FLOAT_INDEX), where},
    {"ArgMin", WEFT_CUDA_SET(FLOAT_INDEX), where},
    {"BiasAddGrad", WEFT_CUDA_SET(FLOAT_I64), bias, .tolerance = 10},
    {"EuclideanNorm", WEFT_CUDA_SET(FLOAT), small, .tolerance = 10},
    {"EuclideanNorm", WEFT_CUDA_SET(COMPLEX), small, .tolerance = 10},
    {"L2Loss", WEFT_CUDA_SET(FLOAT), all_of_it, .tolerance = 10},
    {"Max", WEFT_CUDA_SET(FLOAT_I64), any},
    {"Mean", WEFT_CUDA_SET(FLOAT), small, .tolerance = 10},
    {"Mean", WEFT_CUDA_SET(COMPLEX), small, .tolerance = 10},
    {"Min", WEFT_CUDA_SET(FLOAT_I64), any},
    {"Prod", WEFT_CUDA_SET(FLOAT_I64), near_one, .tolerance = 100},
    {"Prod", WEFT_CUDA_SET(COMPLEX), near_one, .tolerance = 100},
    {"Sum", WEFT_CUDA_SET(FLOAT_I64), small, .tolerance = 10},
    {"Sum", WEFT_CUDA_SET(COMPLEX), small, .tolerance = 10},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_reduce_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_reduce_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("reduce", tests);
}
