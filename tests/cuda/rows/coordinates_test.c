/* SparseReorder and SparseReshape, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* n places in the shape, in any order, some of them twice. */
static void add_indices(weft_row_case_t *c, int64_t n, int rank, const int64_t *dims) {
  const weft_shape_t s = weft_shape_matrix(n, rank);
  weft_tensor_t *t = weft_row_add(c, WEFT_I64, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < n * rank; i++) ((int64_t *)t->data)[i] = weft_row_int(c, 0, dims[i % rank] - 1);
}

/* Some lie in one block of the sort, some in several. */
static void reorder(weft_row_case_t *c) {
  const int rank = (int)weft_row_int(c, 1, 4);
  const int64_t n = c->round == 2   ? 0
                    : c->round == 1 ? 3000
                    : c->round == 3 ? 512
                    : c->round == 4 ? 513
                                    : weft_row_int(c, 1, 40);
  const weft_shape_t values = weft_shape_vector(n + (c->round == 6));
  int64_t dims[4];
  for (int d = 0; d < rank; d++) dims[d] = weft_row_int(c, 1, c->round == 1 ? 30 : 6);
  add_indices(c, n, rank, dims);
  weft_row_add(c, c->dtype, &values, WEFT_ROW_ANY);
  if (c->round == 7) dims[0] = -1;
  weft_row_add_ints(c, WEFT_I64, rank, dims);
}

/* The same shape, one with an unknown dimension, and those that do not fit. */
static void reshape(weft_row_case_t *c) {
  int64_t dims[3] = {weft_row_int(c, 1, 6), 4, 3}, to[4] = {2, dims[0], -1, 3};
  const int64_t n = c->round == 1 ? 1000 : c->round == 2 ? 0 : weft_row_int(c, 1, 20);
  add_indices(c, n, 3, dims);
  if (c->round == 3) to[2] = 2;
  if (c->round == 4) to[0] = 5;
  if (c->round == 5) to[1] = -1;
  if (c->round == 6) dims[1] = to[0] = to[2] = 0;
  weft_row_add_ints(c, WEFT_I64, 3, dims);
  weft_row_add_ints(c, WEFT_I64, c->round == 7 ? 3 : 4, c->round == 7 ? dims : to);
}

#define TYPES \
  ((WEFT_CUDA_SET(EVERY) & ~WEFT_DTYPE_BIT(WEFT_I32)) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
static const weft_row_op_t ops[] = {
    {"SparseReorder", TYPES, reorder, .tolerance = -1, .same_message = true},
    {"SparseReshape", WEFT_DTYPE_BIT(WEFT_I64), reshape, .tolerance = -1, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_coordinates_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_coordinates_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("coordinates", tests);
}
