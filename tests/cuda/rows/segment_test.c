/* Folds of segments, their gradients, and stitched rows, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I32 : WEFT_I64; }

static void put(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)v;
  if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = v;
}

/* A vector of n ids that increase by at most `step`, not beyond `most`; in round 7 they do not. */
static void add_ids(weft_row_case_t *c, int64_t n, int64_t step, int64_t most) {
  const weft_shape_t s = weft_shape_vector(n);
  weft_tensor_t *t = weft_row_add(c, index_type(c), &s, WEFT_ROW_SMALL);
  int64_t id = weft_row_int(c, 0, step);
  for (int64_t i = 0; i < n; i++) {
    put(t, i, id < most ? id : most);
    if (weft_row_int(c, 0, 2) == 0) id += weft_row_int(c, 0, step);
  }
  if (c->round == 7 && n > 0) put(t, n - 1, -1);
}

static void add_indices(weft_row_case_t *c, int64_t n, int64_t size) {
  const weft_shape_t s = weft_shape_vector(n);
  weft_tensor_t *t = weft_row_add(c, index_type(c), &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < n; i++) put(t, i, size > 0 ? weft_row_int(c, 0, size - 1) : 0);
  if (c->round == 6 && n > 0) put(t, n / 2, size);
}

/* A rank of at least 1. Sums of 16 bits are kept short: the CPU's are rounded at each step. */
static weft_shape_t data_shape(weft_row_case_t *c) {
  const bool is_half = c->dtype == WEFT_F16 || c->dtype == WEFT_BF16;
  weft_shape_t x = weft_row_shape(c, 1, 3);
  if (c->round == 3) x = weft_shape_matrix(is_half ? 40 : 700, 3); /* long segments */
  if (c->round == 1 && is_half) x = weft_shape_matrix(9, 40);
  return x;
}
static int64_t step_of(const weft_row_case_t *c) { return c->round == 3 ? 0 : 2; }

static void sorted(weft_row_case_t *c) {
  const weft_shape_t x = data_shape(c);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  add_ids(c, x.dims[0] + (c->round == 5), step_of(c), 1000);
}
static void product(weft_row_case_t *c) {
  weft_shape_t x = data_shape(c);
  if (x.dims[0] > 40) x.dims[0] = 40;
  weft_row_add(c, c->dtype, &x, WEFT_ROW_POSITIVE);
  add_ids(c, x.dims[0], step_of(c), 1000);
}

static int64_t picked(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 1, 3);
  if (x.dims[0] == 0) x.dims[0] = 1;
  const int64_t n = c->round == 3 ? 600 : weft_row_int(c, 0, 12);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  add_indices(c, n, x.dims[0]);
  return n;
}
static void sparse(weft_row_case_t *c) {
  const int64_t n = picked(c);
  add_ids(c, n + (c->round == 5), step_of(c), 1000);
}
static void sparse_sized(weft_row_case_t *c) {
  const int64_t n = picked(c), num = weft_row_int(c, 2, 9);
  add_ids(c, n, step_of(c), c->round == 4 ? num : num - 1);
  weft_row_add_ints(c, WEFT_I32, -1, &num);
}
static void sparse_grad(weft_row_case_t *c) {
  weft_shape_t dy = weft_row_shape(c, 1, 3);
  if (dy.dims[0] < 4) dy.dims[0] = 4;
  const int64_t n = weft_row_int(c, 0, 14), size = c->round == 5 ? 0 : weft_row_int(c, 1, 9);
  weft_row_add(c, c->dtype, &dy, WEFT_ROW_SMALL);
  add_indices(c, n, size);
  add_ids(c, n, 2, dy.dims[0] - 1);
  weft_row_add_ints(c, WEFT_I32, -1, &size);
}

static void stitch(weft_row_case_t *c) {
  const int n = (int)weft_row_int(c, 1, 3);
  const weft_shape_t inner = weft_row_shape(c, 0, 2);
  weft_shape_t ids[3];
  for (int i = 0; i < n; i++) {
    ids[i] = weft_row_shape(c, 0, 1);
    if (ids[i].rank > 0 && ids[i].dims[0] > 50) ids[i].dims[0] = 50;
    weft_tensor_t *t = weft_row_add(c, WEFT_I32, &ids[i], WEFT_ROW_SMALL);
    for (int64_t k = 0; k < t->count; k++) put(t, k, weft_row_int(c, 0, 12));
    if (c->round == 7 && t->count > 0) put(t, 0, -1);
  }
  for (int i = 0; i < n; i++) {
    weft_shape_t s = ids[i];
    for (int d = 0; d < inner.rank; d++) s.dims[s.rank++] = inner.dims[d];
    if (c->round == 6 && i == n - 1) s.dims[s.rank++] = 2;
    weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  }
  weft_row_attr(c, "N=%d", n);
}

#define REAL WEFT_CUDA_SET(FLOAT_INDEX)
#define FLOAT WEFT_CUDA_SET(FLOAT)
#define SPARSE(op, types)                                                      \
  {"SparseSegment" op, types, sparse, .tolerance = 20},                        \
      {"SparseSegment" op "Grad", FLOAT, sparse_grad, .tolerance = 10},        \
      {"SparseSegment" op "GradV2", FLOAT, sparse_grad, .tolerance = 10}, {    \
    "SparseSegment" op "WithNumSegments", types, sparse_sized, .tolerance = 20 \
  }
static const weft_row_op_t segments[] = {
    {"SegmentMax", REAL, sorted, .tolerance = -1},
    {"SegmentMean", REAL | WEFT_CUDA_SET(COMPLEX), sorted, .tolerance = 20},
    {"SegmentMin", REAL, sorted, .tolerance = -1},
    {"SegmentProd", REAL, product, .tolerance = 20},
    {"SegmentSum", REAL | WEFT_CUDA_SET(COMPLEX), sorted, .tolerance = 20},
    SPARSE("Mean", FLOAT),
    SPARSE("SqrtN", FLOAT),
    SPARSE("Sum", REAL),
};

#define PLAIN \
  ((WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128)) & ~WEFT_DTYPE_BIT(WEFT_I32))
static const weft_row_op_t stitches[] = {
    {"DynamicStitch", PLAIN, stitch, .tolerance = -1},
    {"ParallelDynamicStitch", PLAIN, stitch, .tolerance = -1},
};

#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))
static void as_the_cpu(void) {
  weft_row_check(weft_cuda_segment_kernels, segments, NUM(segments));
  weft_row_check(weft_cuda_stitch_kernels, stitches, NUM(stitches));
}
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_segment_kernels, segments, NUM(segments));
  weft_row_check_covered(weft_cuda_stitch_kernels, stitches, NUM(stitches));
  CU_ASSERT_TRUE(weft_row_was_launched("weft_segment_blocks_f32"));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("segments", tests);
}
