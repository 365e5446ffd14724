/* SparseMatMul against the CPU's kernel. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Zeros in half of the places. */
static void thin(weft_row_case_t *c, weft_tensor_t *t) {
  for (int64_t i = 0; i < t->count; i++) {
    if (weft_row_int(c, 0, 1) == 0) continue;
    memset((char *)t->data + (size_t)i * weft_dtype_size(t->dtype), 0, weft_dtype_size(t->dtype));
  }
}

static void product(weft_row_case_t *c) {
  const bool flip_a = weft_row_int(c, 0, 1) == 1, flip_b = weft_row_int(c, 0, 1) == 1;
  const bool a_is_sparse = c->round % 2 == 1, b_is_sparse = c->round % 4 > 1;
  int64_t m = weft_row_int(c, 1, 40), n = weft_row_int(c, 1, 40), k = weft_row_int(c, 1, 50);
  if (c->round == 1) m = 100, n = 70;
  if (c->round == 4) k = 0;
  if (c->round == 5) n = 0;
  const weft_dtype_t other = weft_row_int(c, 0, 1) == 0 ? WEFT_F32 : WEFT_BF16;
  weft_shape_t a = {.rank = 2, .dims = {flip_a ? k : m, flip_a ? m : k}},
               b = {.rank = 2, .dims = {flip_b ? n : k, flip_b ? k : n}};
  if (c->round == 6) b.dims[flip_b ? 1 : 0]++;
  if (c->round == 7) a.rank = 1;
  weft_row_attr(c, "transpose_a=%s transpose_b=%s a_is_sparse=%s b_is_sparse=%s", flip_a ? "true" : "false",
                flip_b ? "true" : "false", a_is_sparse ? "true" : "false", b_is_sparse ? "true" : "false");
  weft_tensor_t *x = weft_row_add(c, c->dtype, &a, WEFT_ROW_SMALL),
                *y = weft_row_add(c, other, &b, WEFT_ROW_SMALL);
  if (c->round == 3 || c->round == 2) thin(c, x), thin(c, y);
  if (c->round == 3 && other == WEFT_F32 && y->count > 0) ((float *)y->data)[0] = INFINITY;
}

static const weft_row_op_t ops[] = {
    {"SparseMatMul", WEFT_CUDA_SET(F32_BF16), product, .tolerance = 40, .same_message = true},
};

static void as_the_cpu(void) { weft_row_check(weft_cuda_hinted_matmul_kernels, ops, 1); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_hinted_matmul_kernels, ops, 1); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("hinted products", tests);
}
