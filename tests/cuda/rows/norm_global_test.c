/* The first form of batch normalisation and its gradient, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* An image and its channels; no images, no channels, one vector too short, and no image at all. */
static weft_shape_t add_image(weft_row_case_t *c, int num_vectors) {
  weft_shape_t s = {.rank = c->round == 7 ? 3 : 4};
  for (int d = 0; d < 4; d++) s.dims[d] = weft_row_int(c, 1, 5);
  if (c->round == 1) s.dims[1] = 60;
  if (c->round == 2) s.dims[0] = 0;
  if (c->round == 3) s.dims[3] = 0;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  for (int i = 0; i < num_vectors; i++) {
    const weft_shape_t vector = weft_shape_vector(s.dims[3] + (c->round == 6 && i == num_vectors - 1));
    weft_row_add(c, c->dtype, &vector, i == 1 ? WEFT_ROW_POSITIVE : WEFT_ROW_SMALL);
  }
  weft_row_attr(c, "variance_epsilon=0.001 scale_after_normalization=%s",
                c->round % 2 == 0 ? "true" : "false");
  return s;
}
static void norm(weft_row_case_t *c) { (void)add_image(c, 4); }
static void norm_grad(weft_row_case_t *c) {
  weft_shape_t s = add_image(c, 3);
  if (c->round == 5) s.dims[1]++;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static const weft_row_op_t ops[] = {
    {"BatchNormWithGlobalNormalization", WEFT_CUDA_SET(F32_F64_F16), norm, .tolerance = 4,
     .same_message = true},
    {"BatchNormWithGlobalNormalizationGrad", WEFT_CUDA_SET(F32_F64_F16), norm_grad, .tolerance = 40,
     .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_norm_global_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_norm_global_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("global batch norm", tests);
}
