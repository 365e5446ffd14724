/* Softmax and the cross entropies, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void logits(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 1, 4);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_SMALL : WEFT_ROW_ANY);
}

static void cross(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 2, 2), labels = x;
  if (c->round == 3) x.dims[0] = 1;
  if (c->round == 4) labels.dims[1] = 1;
  if (c->round == 5) {
    labels.rank = 1;
    labels.dims[0] = x.dims[1];
  }
  if (c->round == 7) labels.dims[0] += 2;
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, &labels, WEFT_ROW_POSITIVE);
}

static void sparse(weft_row_case_t *c) {
  const weft_shape_t x = weft_row_shape(c, 2, 2);
  int64_t labels[512] = {0};
  const int n = (int)x.dims[0] + (c->round == 7);
  for (int i = 0; i < n; i++) labels[i] = x.dims[1] > 0 ? weft_row_int(c, 0, x.dims[1] - 1) : 0;
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, n, labels);
}

static const weft_row_op_t ops[] = {
    {"LogSoftmax", WEFT_CUDA_SET(FLOAT), logits, .tolerance = 4},
    {"Softmax", WEFT_CUDA_SET(FLOAT), logits, .tolerance = 4},
    {"SoftmaxCrossEntropyWithLogits", WEFT_CUDA_SET(FLOAT), cross, .tolerance = 10},
    {"SparseSoftmaxCrossEntropyWithLogits", WEFT_CUDA_SET(FLOAT), sparse, .tolerance = 10},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_softmax_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_softmax_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("softmax", tests);
}
