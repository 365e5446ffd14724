/* Multinomial and StatelessMultinomial: the classes that the CPU's kernels draw. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Logits that are small, or any numbers and so none at all; many classes of one row; shapes that are refused.
 * The CPU's kernel draws small batches in one piece. */
static void add_logits(weft_row_case_t *c) {
  const int64_t rows = c->round == 1   ? 1
                       : c->round == 2 ? 0
                                       : weft_row_int(c, 1, 5),
                classes = c->round == 1   ? 5000
                          : c->round == 6 ? 0
                                          : weft_row_int(c, 1, 40);
  int64_t samples = c->round == 7 ? -1 : c->round == 3 ? 0 : weft_row_int(c, 1, 21);
  const weft_shape_t s = c->round == 5 ? weft_shape_vector(classes) : weft_shape_matrix(rows, classes);
  weft_row_add(c, c->dtype, &s, c->round == 4 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, -1, &samples);
  weft_row_attr(c, "output_dtype=%s", c->round % 2 == 0 ? "int32" : "int64");
}
static void stream(weft_row_case_t *c) {
  add_logits(c);
  weft_row_attr(c, "seed=%d seed2=%d", (int)weft_row_int(c, 1, 1000000), (int)weft_row_int(c, -9, 9));
}
static void seed(weft_row_case_t *c) {
  const int64_t seeds[2] = {weft_row_int(c, -1000000, 1000000), weft_row_int(c, 0, 9)};
  add_logits(c);
  weft_row_add_ints(c, c->round % 3 == 0 ? WEFT_I32 : WEFT_I64, 2, seeds);
}

static const weft_row_op_t ops[] = {
    {"Multinomial", WEFT_CUDA_SET(FLOAT), stream, .same_message = true},
    {"StatelessMultinomial", WEFT_CUDA_SET(FLOAT), seed, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_multinomial_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_multinomial_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("multinomial", tests);
}
