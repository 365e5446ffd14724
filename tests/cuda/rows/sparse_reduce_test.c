/* SparseReduceSum, SparseReduceMax and SparseSoftmax, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/sparse_case.h"

/* Sorted or not, with some dimensions that go; of one round all, of one none; a wrong one; no elements. */
static void reduce(weft_row_case_t *c) {
  int64_t dims[4], axes[4];
  const int rank = (int)weft_row_int(c, 1, 4);
  int num = c->round == 3 ? 0 : c->round == 4 ? rank : (int)weft_row_int(c, 1, rank);
  for (int d = 0; d < rank; d++)
    dims[d] = c->round == 2 && d == 0 ? 0 : weft_row_int(c, 1, rank == 1 ? 900 : 9);
  weft_row_add_sparse(c, rank, dims, c->round == 1 ? 1 : 3,
                      c->round % 2 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED, WEFT_ROW_SMALL);
  for (int k = 0; k < num; k++) {
    axes[k] = c->round == 4 ? k : weft_row_int(c, -rank, rank - 1);
    if (c->round == 6) axes[k] = rank;
  }
  if (c->round == 7 && num > 0) num = -1; /* a scalar */
  weft_row_add_ints(c, WEFT_I32, num, axes);
  weft_row_attr(c, "keep_dims=%s", c->round % 3 == 0 ? "true" : "false");
}

static void softmax(weft_row_case_t *c) {
  int64_t dims[4];
  const int rank = c->round == 7 ? 1 : (int)weft_row_int(c, 2, 4);
  for (int d = 0; d < rank; d++) dims[d] = c->round == 2 && d == 0 ? 0 : weft_row_int(c, 1, 7);
  if (c->round == 1) dims[rank - 1] = 300;
  weft_row_add_sparse(c, rank, dims, c->round == 1 ? 1 : 2,
                      c->round % 2 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED,
                      c->round == 4 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  if (c->round == 6) { /* a shape that is none */
    int64_t *shape = c->inputs[2]->data;
    shape[0] = -1;
  }
}

#define NUMBERS (WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX))
static const weft_row_op_t ops[] = {
    {"SparseReduceMax", WEFT_CUDA_SET(FLOAT_I64), reduce, .tolerance = -1, .same_message = true},
    {"SparseReduceMaxSparse", WEFT_CUDA_SET(FLOAT_I64), reduce, .tolerance = -1, .same_message = true},
    {"SparseReduceSum", NUMBERS, reduce, .tolerance = 20, .same_message = true},
    {"SparseReduceSumSparse", NUMBERS, reduce, .tolerance = 20, .same_message = true},
    {"SparseSoftmax", WEFT_CUDA_SET(F32_F64_F16), softmax, .tolerance = 4, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_sparse_reduce_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_sparse_reduce_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("sparse reductions", tests);
}
