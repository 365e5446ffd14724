/* RandomGamma and its stateless forms: the samples of the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* The alphas of a round: above 1, below 1, 1 exactly, any number that is none. */
static void add_alpha(weft_row_case_t *c, const weft_shape_t *shape) {
  weft_tensor_t *t = weft_row_add(c, c->dtype, shape, WEFT_ROW_POSITIVE);
  for (int64_t i = 0; i < t->count; i++) {
    const double v = c->round == 1 ? 1 : c->round == 3 ? -3 : 0.01 * (double)weft_row_int(c, 1, 400);
    if (t->dtype == WEFT_F64) {
      ((double *)t->data)[i] = v;
    } else if (t->dtype == WEFT_F32) {
      ((float *)t->data)[i] = (float)v;
    } else {
      ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v);
    }
  }
}

/* The samples' shape; in all but RandomGamma that of the parameters is its end. */
static weft_shape_t add_shape(weft_row_case_t *c, bool is_whole) {
  const weft_shape_t alpha = weft_row_shape(c, 0, 2);
  weft_shape_t all = {.rank = c->round % 3};
  for (int d = 0; d < all.rank; d++) all.dims[d] = weft_row_int(c, 1, 5);
  for (int d = 0; is_whole && d < alpha.rank; d++) all.dims[all.rank++] = alpha.dims[d];
  if (is_whole && c->round == 7 && alpha.rank > 0) all.dims[all.rank - 1]++;
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, all.rank, all.dims);
  return alpha;
}

static void stream(weft_row_case_t *c) {
  const weft_shape_t alpha = add_shape(c, false);
  add_alpha(c, &alpha);
  weft_row_attr(c, "seed=%d seed2=%d", (int)weft_row_int(c, 1, 1000000), (int)weft_row_int(c, -9, 9));
}

static void seed(weft_row_case_t *c) {
  const int64_t seeds[2] = {weft_row_int(c, -1000000, 1000000), weft_row_int(c, 0, 9)};
  const weft_shape_t alpha = add_shape(c, true);
  weft_row_add_ints(c, c->round % 3 == 0 ? WEFT_I32 : WEFT_I64, 2, seeds);
  add_alpha(c, &alpha);
}

static void key(weft_row_case_t *c) {
  const int64_t k = weft_row_int(c, 0, INT32_MAX), alg = c->round % 2 == 0 ? 1 : 3;
  const int64_t counter[2] = {weft_row_int(c, 0, INT32_MAX) * 7, weft_row_int(c, 0, INT32_MAX)};
  const weft_shape_t alpha = add_shape(c, c->round != 6); /* V3 appends nothing */
  weft_row_add_ints(c, WEFT_U64, 1, &k);
  weft_row_add_ints(c, WEFT_U64, 2, counter);
  weft_row_add_ints(c, WEFT_I32, -1, &alg);
  add_alpha(c, &alpha);
}

/* Logarithms and powers are each library's own. */
static const weft_row_op_t ops[] = {
    {"RandomGamma", WEFT_CUDA_SET(F32_F64_F16), stream, .tolerance = 10},
    {"StatelessRandomGammaV2", WEFT_CUDA_SET(F32_F64_F16), seed, .tolerance = 10},
    {"StatelessRandomGammaV3", WEFT_CUDA_SET(F32_F64_F16), key, .tolerance = 10},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_gamma_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_gamma_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("gamma", tests);
}
