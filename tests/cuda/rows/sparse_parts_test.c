/* SparseFillEmptyRows, SparseSlice, SparseAdd and their gradients, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/sparse_case.h"

#define NUMBERS (WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX))
#define PLAIN ((WEFT_CUDA_SET(EVERY) & ~(UINT32_C(1) << WEFT_CUDA_i32)) | WEFT_CUDA_SET(COMPLEX))
#define SUMS (WEFT_CUDA_SET(F32_F64_I64) | WEFT_CUDA_SET(COMPLEX))

static int make_dims(weft_row_case_t *c, int64_t *dims) {
  const int rank = (int)weft_row_int(c, 1, 3);
  for (int d = 0; d < rank; d++)
    dims[d] = c->round == 2 && d == 0 ? 0 : weft_row_int(c, 1, rank == 1 ? 300 : 12);
  return rank;
}

/* ---- SparseFillEmptyRows ---- */

static void fill(weft_row_case_t *c) {
  int64_t dims[3];
  const int rank = make_dims(c, dims);
  const weft_shape_t scalar = WEFT_SCALAR;
  weft_row_add_sparse(c, rank, dims, c->round == 1 ? 1 : 5,
                      c->round % 2 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_SMALL);
  if (c->round == 6 && c->inputs[0]->count > 0) ((int64_t *)c->inputs[0]->data)[0] = dims[0];
  if (c->round == 7) ((int64_t *)c->inputs[2]->data)[0] = -1;
}

/* Some gradients of the result are of no element; one place may be that of two. */
static void fill_grad(weft_row_case_t *c) {
  int64_t from[60], n = 0;
  const int64_t count = c->round == 2 ? 0 : weft_row_int(c, 1, 60);
  for (int64_t i = 0; i < count; i++) {
    if (weft_row_int(c, 0, 1) == 0) from[n++] = c->round == 3 ? weft_row_int(c, 0, count - 1) : i;
  }
  if (c->round == 6 && n > 0) from[n - 1] = count;
  const weft_shape_t s = weft_shape_vector(count), matrix = weft_shape_matrix(count, 1);
  weft_row_add_ints(c, WEFT_I64, (int)n, from);
  weft_row_add(c, c->dtype, c->round == 7 ? &matrix : &s, WEFT_ROW_SMALL);
}

/* ---- SparseSlice ---- */

static void slice(weft_row_case_t *c) {
  int64_t dims[3], start[3], size[3];
  const int rank = make_dims(c, dims);
  weft_row_add_sparse(c, rank, dims, 2, c->round % 2 == 0 ? WEFT_ROW_SORTED : WEFT_ROW_MIXED, WEFT_ROW_ANY);
  for (int d = 0; d < rank; d++) {
    start[d] = weft_row_int(c, 0, dims[d]);
    size[d] = weft_row_int(c, 0, dims[d] + 2);
  }
  weft_row_add_ints(c, WEFT_I64, c->round == 6 ? rank - 1 : rank, start);
  weft_row_add_ints(c, WEFT_I64, c->round == 7 ? -1 : rank, size);
}

/* The indices of the slice are some of the tensor's, but for what lies before it; in one round they are
 * others. */
static void slice_grad(weft_row_case_t *c) {
  int64_t dims[3], start[3];
  const int rank = make_dims(c, dims);
  for (int d = 0; d < rank; d++) start[d] = weft_row_int(c, 0, 2);
  const weft_shape_t none = weft_shape_vector(0);
  weft_tensor_t *dy = weft_row_add(c, c->dtype, &none, WEFT_ROW_SMALL);
  const weft_tensor_t *in = weft_row_add_indices(c, rank, dims, 2, WEFT_ROW_SORTED);
  weft_row_add_ints(c, WEFT_I64, c->round == 7 ? -1 : rank, start);
  const int64_t n = in->shape.dims[0], num = c->round == 3 ? n : n / 2;
  const weft_shape_t shape = weft_shape_matrix(num, rank), vector = weft_shape_vector(num + (c->round == 6));
  weft_tensor_t *of = weft_row_add(c, WEFT_I64, &shape, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < num; i++) {
    const int64_t from = num == n ? i : 2 * i;
    for (int d = 0; d < rank; d++)
      ((int64_t *)of->data)[i * rank + d] = ((const int64_t *)in->data)[from * rank + d] - start[d];
  }
  if (c->round == 5 && num > 0) ((int64_t *)of->data)[0]--;
  weft_tensor_release(dy);
  weft_tensor_t *last = c->inputs[c->num_inputs - 1];
  dy = weft_row_add(c, c->dtype, &vector, WEFT_ROW_SMALL);
  c->num_inputs--;
  c->inputs[0] = dy;
  c->inputs[c->num_inputs - 1] = last;
}

/* ---- SparseAdd ---- */

static void add(weft_row_case_t *c) {
  int64_t dims[3];
  const int rank = make_dims(c, dims);
  const weft_row_order_t order = c->round == 3 ? WEFT_ROW_MIXED : WEFT_ROW_SORTED;
  weft_row_add_sparse(c, rank, dims, 2, order, WEFT_ROW_SMALL);
  weft_row_add_sparse(c, rank, dims, 3, order, WEFT_ROW_SMALL);
  if (c->round == 6) ((int64_t *)c->inputs[5]->data)[0]++;
  const weft_shape_t scalar = WEFT_SCALAR, vector = weft_shape_vector(1);
  const weft_dtype_t real = c->dtype == WEFT_I64                            ? WEFT_I64
                            : c->dtype == WEFT_F64 || c->dtype == WEFT_C128 ? WEFT_F64
                                                                            : WEFT_F32;
  weft_tensor_t *threshold = weft_row_add(c, real, c->round == 7 ? &vector : &scalar, WEFT_ROW_POSITIVE);
  if (c->round % 2 == 0) memset(threshold->data, 0, threshold->bytes);
}

static void add_grad(weft_row_case_t *c) {
  int64_t dims[3];
  const int rank = make_dims(c, dims);
  const weft_shape_t none = weft_shape_vector(0);
  weft_tensor_release(weft_row_add(c, c->dtype, &none, WEFT_ROW_SMALL));
  (void)weft_row_add_indices(c, rank, dims, 2, WEFT_ROW_SORTED);
  (void)weft_row_add_indices(c, rank, dims, 3, WEFT_ROW_SORTED);
  const weft_tensor_t *sum = weft_row_add_indices(c, rank, dims, c->round % 2 == 0 ? 1 : 2, WEFT_ROW_SORTED);
  const weft_shape_t s = weft_shape_vector(sum->shape.dims[0] + (c->round == 7));
  c->inputs[0] = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  c->num_inputs--;
}

static const weft_row_op_t ops[] = {
    {"SparseAdd", SUMS, add, .same_message = true},
    {"SparseAddGrad", SUMS, add_grad, .tolerance = -1, .same_message = true},
    {"SparseFillEmptyRows", PLAIN, fill, .tolerance = -1, .same_message = true},
    {"SparseFillEmptyRowsGrad", NUMBERS, fill_grad, .tolerance = 20, .same_message = true},
    {"SparseSlice", PLAIN, slice, .tolerance = -1, .same_message = true},
    {"SparseSliceGrad", NUMBERS, slice_grad, .tolerance = -1, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_sparse_parts_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_sparse_parts_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("parts of sparse tensors", tests);
}
