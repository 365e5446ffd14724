/* Rolls, and blocks of space in the batch or the depth, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN (WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))

static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I32 : WEFT_I64; }

static void roll(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 1, 4);
  int64_t shift[4], axis[4];
  const int n = (int)weft_row_int(c, 0, 3);
  for (int i = 0; i < n; i++) {
    shift[i] = weft_row_int(c, -9, 9);
    axis[i] = weft_row_int(c, -s.rank, s.rank - 1);
  }
  if (c->round == 7 && n > 0) axis[0] = s.rank;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), n, shift);
  weft_row_add_ints(c, index_type(c), c->round == 6 ? n + 1 - 2 * (n == 3) : n, axis);
}

static void depth(weft_row_case_t *c, bool to_depth) {
  const bool is_first = c->round % 3 == 1;
  const int64_t b = weft_row_int(c, 2, 3), by = to_depth ? b : 1;
  const int64_t h = weft_row_int(c, 1, 3) * by, w = weft_row_int(c, 1, 3) * by + (c->round == 7 && to_depth),
                channels = weft_row_int(c, 1, 5) * (to_depth ? 1 : b * b) + (c->round == 7 && !to_depth);
  weft_shape_t s = {.rank = c->round == 5 ? 3 : 4, .dims = {weft_row_int(c, 0, 2)}};
  s.dims[is_first ? 1 : 3] = channels;
  s.dims[is_first ? 2 : 1] = h;
  s.dims[is_first ? 3 : 2] = w;
  weft_row_attr(c, "block_size=%d data_format=%s", (int)b, is_first ? "NCHW" : "NHWC");
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}
static void space_to_depth(weft_row_case_t *c) { depth(c, true); }
static void depth_to_space(weft_row_case_t *c) { depth(c, false); }

/* With `square` the block is an attribute, of images; else an input. */
static void batch(weft_row_case_t *c, bool to_batch, bool square) {
  const int m = square ? 2 : (int)weft_row_int(c, 1, 3);
  int64_t block[3], pads[6], blocks = 1;
  weft_shape_t s = {.rank = square ? 4 : 1 + m + (int)weft_row_int(c, 0, 2)}, shape = weft_shape_matrix(m, 2);
  const int64_t b = weft_row_int(c, 2, 3);
  for (int d = 0; d < s.rank; d++) s.dims[d] = weft_row_int(c, 1, 4);
  for (int d = 0; d < m; d++) {
    block[d] = square ? b : weft_row_int(c, 1, 3);
    blocks *= block[d];
    pads[2 * d] = weft_row_int(c, 0, to_batch ? 4 : 1);
    pads[2 * d + 1] = 0;
    if (to_batch) {
      while ((s.dims[1 + d] + pads[2 * d] + pads[2 * d + 1]) % block[d] != 0) pads[2 * d + 1]++;
    } else if (s.dims[1 + d] * block[d] > 1) {
      pads[2 * d + 1] = weft_row_int(c, 0, 1);
    }
  }
  if (!to_batch) s.dims[0] *= blocks;
  if (c->round == 7) pads[0] += to_batch ? 1 : 99;
  if (c->round == 6) s.dims[0] += 1;
  if (c->round == 5) pads[1] = -1;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  if (square) weft_row_attr(c, "block_size=%d", (int)b);
  if (!square) weft_row_add_ints(c, index_type(c), m, block);
  weft_tensor_t *t = weft_row_add(c, index_type(c), &shape, WEFT_ROW_SMALL);
  for (int i = 0; i < 2 * m; i++) {
    if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)pads[i];
    if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = pads[i];
  }
}
static void to_batch(weft_row_case_t *c) { batch(c, true, false); }
static void from_batch(weft_row_case_t *c) { batch(c, false, false); }
static void square_to_batch(weft_row_case_t *c) { batch(c, true, true); }
static void square_from_batch(weft_row_case_t *c) { batch(c, false, true); }

static const weft_row_op_t ops[] = {
    {"BatchToSpace", PLAIN, square_from_batch, .tolerance = -1},
    {"BatchToSpaceND", PLAIN, from_batch, .tolerance = -1},
    {"DepthToSpace", PLAIN, depth_to_space, .tolerance = -1},
    {"Roll", PLAIN, roll, .tolerance = -1},
    {"SpaceToBatch", PLAIN, square_to_batch, .tolerance = -1},
    {"SpaceToBatchND", PLAIN, to_batch, .tolerance = -1},
    {"SpaceToDepth", PLAIN, space_to_depth, .tolerance = -1},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_space_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_space_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("space", tests);
}
