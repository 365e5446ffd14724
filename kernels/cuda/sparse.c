/* kernels/cuda/sparse.c - rows of SparseTensorDenseMatMul and SparseToDense.
 *
 * The indices of a product lie in the device's memory, where they cannot be refused: see sparse.cu. Those of
 * SparseToDense lie in the host's, where they are checked.
 */
#include "kernels/cuda/sparse_args.h"

#include "kernels/cuda/cast.h"
#include "kernels/cuda/index_args.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

WEFT_CUDA_INSTANCES(multiply_instances, sparse_multiply, FLOAT)
WEFT_CUDA_INSTANCES(complex_multiply_instances, sparse_multiply, COMPLEX)
WEFT_CUDA_SIZES(put_functions, scatter_put)

/* ---- SparseTensorDenseMatMul ---- */

typedef struct cuda_sparse_state {
  int adjoint_a, adjoint_b;
} sparse_state_t;

static WEFT_Failure *multiply_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  sparse_state_t *state = calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a sparse product");
  (void)weft_cuda_host->attr_bool(s, "adjoint_a", &state->adjoint_a);
  (void)weft_cuda_host->attr_bool(s, "adjoint_b", &state->adjoint_b);
  *out = state;
  return NULL;
}

/* Indices, values, shape and the dense matrix. */
static WEFT_Failure *check_shapes(const WEFT_TensorView *in) {
  if (in[3].rank != 2) return WEFT_CUDA_INVALID("Tensor 'b' is not a matrix");
  if (in[2].rank != 1) return WEFT_CUDA_INVALID("Tensor 'a_shape' is not a vector");
  if (in[2].count != 2) return WEFT_CUDA_INVALID("Tensor 'a_shape' must have 2 elements");
  if (in[1].rank != 1) return WEFT_CUDA_INVALID("Tensor 'a_values' is not a vector");
  if (in[0].rank != 2) return WEFT_CUDA_INVALID("Tensor 'a_indices' is not a matrix");
  if (in[0].dims[0] != in[1].count)
    return WEFT_CUDA_INVALID("Number of rows of a_indices does not match number of entries in a_values");
  if (in[0].dims[1] != in[2].count)
    return WEFT_CUDA_INVALID("Number of columns of a_indices does not match number of entries in a_shape");
  return NULL;
}

static WEFT_Failure *plan(WEFT_KernelContext *c, const WEFT_TensorView *in, weft_cuda_sparse_product_t *p) {
  const sparse_state_t *s = weft_cuda_host->state(c);
  const int64_t rows = weft_cuda_int_at(&in[2], 0), columns = weft_cuda_int_at(&in[2], 1);
  const bool flip_a = s->adjoint_a != 0, flip_b = s->adjoint_b != 0;
  const int64_t inner = in[3].dims[flip_b ? 1 : 0];
  *p = (weft_cuda_sparse_product_t){.m = flip_a ? columns : rows,
                                    .k = flip_a ? rows : columns,
                                    .n = in[3].dims[flip_b ? 0 : 1],
                                    .adjoint_a = s->adjoint_a,
                                    .adjoint_b = s->adjoint_b,
                                    .index_bytes = (int32_t)weft_cuda_size(in[0].dtype)};
  if (inner != p->k) {
    return WEFT_CUDA_INVALID(
        "Cannot multiply A and B because inner dimension does not match: %lld vs. %lld.  Did you forget a "
        "transpose?  Dimensions of A: [%lld, %lld).  Dimensions of B: %s",
        (long long)p->k, (long long)inner, (long long)rows, (long long)columns, WEFT_CUDA_SHAPE(&in[3]));
  }
  if (p->m < 0) return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)p->m);
  return NULL;
}

/* Products of half and bfloat16 are added in float. */
static WEFT_Failure *multiply(WEFT_KernelContext *c) {
  weft_cuda_sparse_product_t p;
  WEFT_TensorView in[4], out;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_shapes(in));
  WEFT_CUDA_TRY(plan(c, in, &p));
  const int64_t dims[2] = {p.m, p.n};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &out));
  if (out.count == 0) return NULL;
  const bool is_half = out.dtype == WEFT_CUDA_f16 || out.dtype == WEFT_CUDA_bf16;
  const size_t bytes = is_half ? (size_t)out.count * sizeof(float) : out.bytes;
  void *sums = out.data;
  if (is_half) WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &sums));
  WEFT_CUDA_TRY(weft_cuda_fill(c, sums, 0, bytes));
  int64_t n = in[3].count == 0 ? 0 : in[1].count * p.n;
  void *args[] = {&in[0].data, &in[1].data, &in[3].data, &sums, &p, &n};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), out.dtype), n, 1, args));
  return is_half ? weft_cuda_convert(c, WEFT_CUDA_f32, sums, out.dtype, out.data, out.count) : NULL;
}

/* ---- SparseToDense ---- */

/* The state: not NULL if indices are in order and none is twice. */
static WEFT_Failure *dense_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char validates = 1;
  int validate = 1;
  (void)param;
  (void)weft_cuda_host->attr_bool(s, "validate_indices", &validate);
  *out = validate != 0 ? (void *)(uintptr_t)&validates : NULL;
  return NULL;
}

/* Where an element goes. */
typedef struct cuda_sparse_place {
  int64_t at, number;
} sparse_place_t;

static WEFT_Failure *check_dense(const WEFT_TensorView *in, int64_t n, int64_t rank) {
  if (in[0].rank > 2) {
    return WEFT_CUDA_INVALID("sparse_indices should be a scalar, vector, or matrix, got shape %s",
                             WEFT_CUDA_SHAPE(&in[0]));
  }
  if (in[1].rank != 1)
    return WEFT_CUDA_INVALID("output_shape must be rank 1, got shape %s", WEFT_CUDA_SHAPE(&in[1]));
  if (in[1].count != rank) {
    return WEFT_CUDA_INVALID("output_shape has incorrect number of elements: %lld should be: %lld",
                             (long long)in[1].count, (long long)rank);
  }
  if (in[2].rank != 0 && !(in[2].rank == 1 && in[2].count == n)) {
    return WEFT_CUDA_INVALID("sparse_values has incorrect shape %s, should be [] or [%lld]",
                             WEFT_CUDA_SHAPE(&in[2]), (long long)n);
  }
  if (in[3].rank != 0) return WEFT_CUDA_INVALID("default_value should be a scalar.");
  if (rank > WEFT_CUDA_DIMS) {
    return WEFT_CUDA_INVALID("output_shape has %lld dimensions, more than %d", (long long)rank,
                             WEFT_CUDA_DIMS);
  }
  for (int64_t d = 0; d < rank; d++) {
    if (weft_cuda_int_at(&in[1], d) < 0)
      return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)weft_cuda_int_at(&in[1], d));
  }
  return NULL;
}

/* Element i is outside the shape, or does not lie behind the one before it. */
static WEFT_Failure *bad_row(const WEFT_TensorView *indices, int64_t i, int64_t rank, const int64_t *dims,
                             const char *what, bool with_shape) {
  weft_cuda_shape_t row = {.rank = (int)rank};
  for (int64_t d = 0; d < rank; d++) row.dims[d] = weft_cuda_int_at(indices, i * rank + d);
  const WEFT_TensorView at = {.rank = row.rank, .dims = row.dims}, shape = {.rank = row.rank, .dims = dims};
  return WEFT_CUDA_INVALID("indices[%lld] = %s %s%s", (long long)i, WEFT_CUDA_SHAPE(&at), what,
                           with_shape ? WEFT_CUDA_SHAPE(&shape) : "");
}

/* *is_sorted: the places ascend, and none is there twice. */
static WEFT_Failure *find_places(const WEFT_TensorView *indices, int64_t n, int64_t rank, const int64_t *dims,
                                 bool must_ascend, sparse_place_t *places, bool *is_sorted) {
  int64_t last = -1;
  *is_sorted = true;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int64_t d = 0; d < rank; d++) {
      const int64_t k = weft_cuda_int_at(indices, i * rank + d);
      if (k < 0 || k >= dims[d]) {
        if (must_ascend) return bad_row(indices, i, rank, dims, "is out of bounds: need 0 <= index < ", true);
        const WEFT_TensorView shape = {.rank = (int)rank, .dims = dims};
        return WEFT_CUDA_INVALID("Indices are not valid (out of bounds).  Shape: %s",
                                 WEFT_CUDA_SHAPE(&shape));
      }
      at = at * dims[d] + k;
    }
    if (must_ascend && at == last) return bad_row(indices, i, rank, dims, "is repeated", false);
    if (must_ascend && at < last) {
      return bad_row(indices, i, rank, dims,
                     "is out of order. Many sparse ops require sorted indices.\n"
                     "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                     false);
    }
    *is_sorted = *is_sorted && at > last;
    last = at;
    places[i] = (sparse_place_t){at, i};
  }
  return NULL;
}

static int in_order(const void *x, const void *y) {
  const sparse_place_t *a = x, *b = y;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

/* The place of each element; -1 where a later one has it, too. */
static WEFT_Failure *send_places(WEFT_KernelContext *c, sparse_place_t *places, int64_t n, bool is_sorted,
                                 void **out) {
  int64_t *to = calloc((size_t)n, sizeof *to);
  if (to == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: SparseToDense");
  if (!is_sorted) qsort(places, (size_t)n, sizeof *places, in_order);
  for (int64_t i = 0; i < n; i++) {
    const bool is_last = i == n - 1 || places[i + 1].at != places[i].at;
    to[places[i].number] = is_last ? places[i].at : -1;
  }
  WEFT_Failure *f = weft_cuda_host->scratch(c, (size_t)n * sizeof *to, out);
  if (f == NULL) f = weft_cuda_copy(c, *out, to, (size_t)n * sizeof *to);
  free(to);
  return f;
}

static WEFT_Failure *put(WEFT_KernelContext *c, const WEFT_TensorView *values, const void *sent, int64_t n,
                         const WEFT_TensorView *y) {
  weft_cuda_scatter_t s = {
      .indices = sent, .num = n, .inner = 1, .dims = {y->count}, .depth = 1, .index_bytes = sizeof(int64_t)};
  void *from = values->data, *to = y->data;
  if (values->rank == 0 && n > 1) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n * weft_cuda_size(y->dtype), &from));
    WEFT_CUDA_TRY(weft_cuda_repeat(c, y->dtype, values->data, from, n));
  }
  void *args[] = {&from, &to, &s};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(put_functions, y->dtype), n, 1, args);
}

static WEFT_Failure *make_dense(WEFT_KernelContext *c, const WEFT_TensorView *in, int64_t n, int64_t rank,
                                sparse_place_t *places) {
  int64_t dims[WEFT_CUDA_DIMS];
  WEFT_TensorView y;
  bool is_sorted = true;
  void *sent = NULL;
  for (int64_t d = 0; d < rank; d++) dims[d] = weft_cuda_int_at(&in[1], d);
  WEFT_CUDA_TRY(find_places(&in[0], n, rank, dims, weft_cuda_host->state(c) != NULL, places, &is_sorted));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, (int)rank, dims, &y));
  WEFT_CUDA_TRY(weft_cuda_repeat(c, y.dtype, in[3].data, y.data, y.count));
  if (n == 0) return NULL;
  WEFT_CUDA_TRY(send_places(c, places, n, is_sorted, &sent));
  return put(c, &in[2], sent, n, &y);
}

static WEFT_Failure *to_dense(WEFT_KernelContext *c) {
  WEFT_TensorView in[4];
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  const int64_t n = in[0].rank > 0 ? in[0].dims[0] : 1, rank = in[0].rank > 1 ? in[0].dims[1] : 1;
  WEFT_CUDA_TRY(check_dense(in, n, rank));
  sparse_place_t *places = calloc((size_t)n + 1, sizeof *places);
  if (places == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: SparseToDense");
  WEFT_Failure *f = make_dense(c, in, n, rank, places);
  free(places);
  return f;
}

enum { FIRST = 1, SECOND = 2, THIRD = 4 };
#define MULTIPLY(set, instances)                                                            \
  {                                                                                         \
    .op = "SparseTensorDenseMatMul", .type_attr = "T", .types = WEFT_CUDA_SET(set),         \
    .prepare = multiply_prepare, .compute = multiply, .destroy = free, .param = &instances, \
    .host_inputs = THIRD                                                                    \
  }
const WEFT_DeviceKernel weft_cuda_sparse_kernels[] = {
    MULTIPLY(FLOAT, multiply_instances),
    MULTIPLY(COMPLEX, complex_multiply_instances),
    {.op = "SparseToDense",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .prepare = dense_prepare,
     .compute = to_dense,
     .host_inputs = FIRST | SECOND},
    {0},
};
