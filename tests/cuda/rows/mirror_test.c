/* Mirror padding, its gradient, and sequences of which a part is reversed, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN (WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))

static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I32 : WEFT_I64; }

static void put(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)v;
  if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = v;
}

/* A tensor, or the gradient of its padded form, and paddings, some of them none. */
static void pad(weft_row_case_t *c, bool is_grad) {
  weft_shape_t inner = weft_row_shape(c, 0, 4), outer = inner, two = weft_shape_matrix(inner.rank, 2);
  const bool reflects = c->round % 3 != 0;
  int64_t pads[8];
  for (int d = 0; d < inner.rank; d++) {
    const int64_t most = inner.dims[d] - reflects < 0 ? 0 : inner.dims[d] - reflects;
    for (int k = 0; k < 2; k++)
      pads[2 * d + k] = weft_row_int(c, 0, 2) == 0 ? 0 : weft_row_int(c, 0, most < 5 ? most : 5);
    if (c->round == 7 && d == 0) pads[0] = inner.dims[0] + 3;
    if (c->round == 6 && d == 0) pads[1] = -1;
    outer.dims[d] += pads[2 * d] + pads[2 * d + 1];
  }
  weft_row_attr(c, "mode=%s", reflects ? "REFLECT" : "SYMMETRIC");
  weft_row_add(c, c->dtype, is_grad ? &outer : &inner, is_grad ? WEFT_ROW_POSITIVE : WEFT_ROW_ANY);
  if (c->round == 5) two.dims[0]++;
  weft_tensor_t *t = weft_row_add(c, index_type(c), &two, WEFT_ROW_SMALL);
  for (int i = 0; i < 2 * inner.rank; i++) put(t, i, pads[i]);
}
static void mirror_pad(weft_row_case_t *c) { pad(c, false); }
static void mirror_grad(weft_row_case_t *c) { pad(c, true); }

static void sequence(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 2, 4);
  const int batch = (int)weft_row_int(c, 0, s.rank - 1);
  const int seq = c->round == 7 ? batch : (batch + 1 + (int)weft_row_int(c, 0, s.rank - 2)) % s.rank;
  const weft_shape_t n = weft_shape_vector(s.dims[batch] + (c->round == 6));
  weft_row_attr(c, "batch_dim=%d seq_dim=%d", batch, seq);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_tensor_t *t = weft_row_add(c, index_type(c), &n, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++)
    put(t, i, weft_row_int(c, c->round == 5 ? -1 : 0, s.dims[seq] + (c->round == 4)));
}

static const weft_row_op_t ops[] = {
    {"MirrorPad", PLAIN, mirror_pad, .tolerance = -1},
    {"MirrorPadGrad", WEFT_CUDA_SET(FLOAT_I64), mirror_grad, .tolerance = 8},
    {"ReverseSequence", PLAIN, sequence, .tolerance = -1},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_mirror_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_mirror_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("mirror", tests);
}
