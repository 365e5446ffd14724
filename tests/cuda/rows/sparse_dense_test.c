/* Ops of a sparse and a dense tensor, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/sparse_case.h"

/* The dense tensor is broadcast in most rounds. Some do not fit, and one has an index that is outside. */
static void cwise(weft_row_case_t *c, weft_row_values_t dense) {
  int64_t dims[6];
  const int rank = c->round == 5 ? 6 : (int)weft_row_int(c, 1, 4);
  for (int d = 0; d < rank; d++) dims[d] = c->round == 2 && d == 0 ? 0 : weft_row_int(c, 2, rank > 4 ? 2 : 6);
  weft_row_add_sparse(c, rank, dims, 3, c->round % 2 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED, WEFT_ROW_SMALL);
  weft_shape_t s = {.rank = (int)weft_row_int(c, 0, rank)};
  for (int d = 0; d < s.rank; d++) {
    s.dims[d] = dims[rank - s.rank + d];
    if (c->round % 3 == 1 && weft_row_int(c, 0, 1) == 0 && s.dims[d] > 1) s.dims[d] = 1;
  }
  if (c->round == 6 && s.rank > 0) s.dims[0]++;
  weft_row_add(c, c->dtype, &s, dense);
  if (c->round == 7 && c->inputs[0]->count > 0) ((int64_t *)c->inputs[0]->data)[0] = dims[0];
}
static void any(weft_row_case_t *c) { cwise(c, WEFT_ROW_SMALL); }
/* Zeros in one round. */
static void divide(weft_row_case_t *c) {
  cwise(c, WEFT_ROW_POSITIVE);
  weft_tensor_t *dense = c->inputs[3];
  if (c->round == 3 && dense->bytes > 0) memset(dense->data, 0, dense->bytes);
}

static void add(weft_row_case_t *c) {
  int64_t dims[4];
  const int rank = (int)weft_row_int(c, 1, 4);
  const weft_dtype_t index = c->round % 2 == 0 ? WEFT_I64 : WEFT_I32;
  for (int d = 0; d < rank; d++)
    dims[d] = c->round == 2 && d == 0 ? 0 : weft_row_int(c, 1, rank == 1 ? 500 : 6);
  weft_row_add_sparse(c, rank, dims, 3, c->round % 3 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED, WEFT_ROW_SMALL);
  if (c->round == 7 && c->inputs[0]->count > 0) ((int64_t *)c->inputs[0]->data)[0] = -1;
  for (int i = 0; index == WEFT_I32 && i <= 2; i += 2) { /* the same numbers, narrow */
    weft_tensor_t *wide = c->inputs[i], *narrow = NULL;
    weft_status_t *s = weft_tensor_new(WEFT_I32, &wide->shape, NULL, &narrow);
    CU_ASSERT_PTR_NULL_FATAL(s);
    for (int64_t k = 0; k < wide->count; k++)
      ((int32_t *)narrow->data)[k] = (int32_t)((const int64_t *)wide->data)[k];
    weft_tensor_release(wide);
    c->inputs[i] = narrow;
  }
  weft_shape_t s = {.rank = rank};
  for (int d = 0; d < rank; d++) s.dims[d] = dims[d];
  if (c->round == 5) s.dims[0]++;
  if (c->round == 6) s.dims[s.rank++] = 1;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static const weft_row_op_t ops[] = {
    {"SparseDenseCwiseAdd", WEFT_CUDA_SET(REAL), any, .same_message = true},
    {"SparseDenseCwiseDiv", WEFT_CUDA_SET(REAL), divide, .same_message = true},
    {"SparseDenseCwiseMul", WEFT_CUDA_SET(REAL), any, .same_message = true},
    {"SparseTensorDenseAdd", WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX), add, .tolerance = 20,
     .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_sparse_dense_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_sparse_dense_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("sparse and dense", tests);
}
