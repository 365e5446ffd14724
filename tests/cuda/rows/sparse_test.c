/* SparseTensorDenseMatMul and SparseToDense, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void put_index(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I32) {
    ((int32_t *)t->data)[i] = (int32_t)v;
  } else {
    ((int64_t *)t->data)[i] = v;
  }
}
static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I64 : WEFT_I32; }

/* Elements in any order, some at one place. */
static void multiply(weft_row_case_t *c) {
  const bool adjoint_a = (c->round & 1) != 0, adjoint_b = (c->round & 2) != 0;
  const int64_t m = weft_row_int(c, c->round == 2 ? 0 : 1, 8), k = weft_row_int(c, 1, 8),
                n = c->round == 1 ? 300 : weft_row_int(c, 1, 8), num = m == 0 ? 0 : weft_row_int(c, 0, 20);
  const weft_shape_t indices = weft_shape_matrix(num, 2), values = weft_shape_vector(num + (c->round == 6));
  const int64_t dims[2] = {adjoint_a ? k : m, adjoint_a ? m : k};
  const int64_t inner = k + (c->round == 7);
  const weft_shape_t b = adjoint_b ? weft_shape_matrix(n, inner) : weft_shape_matrix(inner, n);
  weft_tensor_t *at = weft_row_add(c, index_type(c), &indices, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < 2 * num; i++) put_index(at, i, weft_row_int(c, 0, dims[i % 2] - 1));
  weft_row_add(c, c->dtype, &values, WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I64, 2, dims);
  weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
  weft_row_attr(c, "adjoint_a=%s adjoint_b=%s", adjoint_a ? "true" : "false", adjoint_b ? "true" : "false");
}

/* In order, or not and some twice; in one round an index that is not there. */
static void to_dense(weft_row_case_t *c) {
  const bool validates = c->round % 2 == 0;
  const int rank = (int)weft_row_int(c, 1, 3), vector = c->round == 3 && rank == 1;
  int64_t dims[3], count = 1, num = 0, at[64];
  for (int d = 0; d < rank; d++) count *= dims[d] = weft_row_int(c, 2, 6);
  for (int64_t i = 0; i < count && num < 60; i++) {
    if (weft_row_int(c, 0, 2) == 0) at[num++] = validates ? i : weft_row_int(c, 0, count - 1);
  }
  if (c->round == 5 && num > 1) at[num - 1] = at[0];
  const weft_shape_t shape = vector ? weft_shape_vector(num) : weft_shape_matrix(num, rank);
  weft_tensor_t *indices = weft_row_add(c, index_type(c), &shape, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < num; i++) {
    int64_t rest = at[i];
    for (int d = rank - 1; d >= 0; d--, rest /= dims[d + 1]) put_index(indices, i * rank + d, rest % dims[d]);
  }
  if (c->round == 7 && num > 0) put_index(indices, 0, dims[0]);
  weft_row_add_ints(c, index_type(c), rank, dims);
  const weft_shape_t values = weft_shape_vector(num), scalar = WEFT_SCALAR;
  weft_row_add(c, c->dtype, c->round == 4 ? &scalar : &values, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_SMALL);
  weft_row_attr(c, "validate_indices=%s", validates ? "true" : "false");
}

static const weft_row_op_t ops[] = {
    {"SparseTensorDenseMatMul", WEFT_CUDA_SET(FLOAT) | WEFT_CUDA_SET(COMPLEX), multiply, .tolerance = 10},
    {"SparseToDense", (WEFT_CUDA_SET(EVERY) & ~(UINT32_C(1) << WEFT_CUDA_i32)) | WEFT_CUDA_SET(COMPLEX),
     to_dense, .tolerance = -1},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_sparse_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_sparse_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("sparse", tests);
}
