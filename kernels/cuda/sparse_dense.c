/* kernels/cuda/sparse_dense.c - rows of ops of a sparse and a dense tensor: SparseDenseCwiseAdd, -Mul, -Div
 * and SparseTensorDenseAdd. Indices and shapes lie in the host's memory. */
#include "kernels/cuda/index.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sparse_tensor.h"

WEFT_CUDA_INSTANCES(cwise_instances, sparse_cwise, REAL)

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: places of sparse elements");
}

/* ---- SparseDenseCwiseAdd, -Mul, -Div: the result has the sparse tensor's places ---- */

static WEFT_Failure *check_cwise(const weft_cuda_sparse_t *x, const WEFT_TensorView *dense) {
  enum { MAX_RANK = 5 }; /* TensorFlow's */
  const WEFT_TensorView shape = {.rank = x->rank, .dims = x->dims};
  WEFT_CUDA_TRY(weft_cuda_check_dims(x->dims, x->rank));
  bool fits = dense->rank <= x->rank;
  for (int d = 0; fits && d < dense->rank; d++) {
    const int64_t of_dense = dense->dims[d], of_sparse = x->dims[x->rank - dense->rank + d];
    fits = of_dense == of_sparse || (of_dense == 1 && of_sparse > 1);
  }
  if (!fits) {
    return WEFT_CUDA_INVALID(
        "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: %s vs. %s",
        WEFT_CUDA_SHAPE(&shape), WEFT_CUDA_SHAPE(dense));
  }
  if (x->rank < 1 || x->rank > MAX_RANK) {
    return WEFT_CUDA_INVALID(
        "Only tensors with ranks between 1 and %d are currently supported.  Tensor rank: %d", (int)MAX_RANK,
        x->rank);
  }
  for (int64_t i = 0; i < x->n; i++) {
    if (weft_cuda_sparse_is_inside(x, i)) continue;
    return WEFT_CUDA_INVALID("Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape");
  }
  return NULL;
}

/* Which element of the dense tensor, which is broadcast, lies at the place of element i. */
static int64_t dense_place(const weft_cuda_sparse_t *x, const WEFT_TensorView *dense, int64_t i) {
  const int64_t *at = weft_cuda_sparse_at(x, i) + (x->rank - dense->rank);
  int64_t place = 0;
  for (int d = 0; d < dense->rank; d++) place = place * dense->dims[d] + (dense->dims[d] == 1 ? 0 : at[d]);
  return place;
}

static WEFT_Failure *send_dense_places(WEFT_KernelContext *c, const weft_cuda_sparse_t *x,
                                       const WEFT_TensorView *dense, void **out) {
  int64_t *places = calloc((size_t)x->n, sizeof *places);
  if (places == NULL) return no_memory();
  for (int64_t i = 0; i < x->n; i++) places[i] = dense_place(x, dense, i);
  WEFT_Failure *f = weft_cuda_send_places(c, places, x->n, out);
  free(places);
  return f;
}

/* The param of a row: WEFT_CUDA_FOLD_... */
static WEFT_Failure *cwise(WEFT_KernelContext *c) {
  int32_t how = *(const int *)weft_cuda_host->param(c);
  weft_cuda_sparse_t x;
  WEFT_TensorView dense, y;
  void *places = NULL, *note = NULL;
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 0, &x));
  weft_cuda_host->input(c, 3, &dense);
  WEFT_CUDA_TRY(check_cwise(&x, &dense));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &x.n, &y));
  if (x.n == 0) return NULL;
  WEFT_CUDA_TRY(send_dense_places(c, &x, &dense, &places));
  if (how == WEFT_CUDA_FOLD_DIV) WEFT_CUDA_TRY(weft_cuda_note_new(c, &note));
  void *args[] = {&x.values.data, &dense.data, &places, &y.data, &x.n, &how, &note};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&cwise_instances, y.dtype), x.n, 1, args));
  return note == NULL ? NULL : weft_cuda_note_send(c, note);
}
static WEFT_Failure *divide_finish(WEFT_KernelContext *c) {
  bool has_zero = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &has_zero));
  if (!has_zero) return NULL;
  return WEFT_CUDA_INVALID(
      "SparseDenseCwiseDiv cannot divide by zero, but input dense tensor contains zero ");
}

/* ---- SparseTensorDenseAdd ---- */

static WEFT_Failure *check_dense_add(const WEFT_TensorView *in) {
  if (in[0].rank != 2 || in[1].rank != 1 || in[2].rank != 1) {
    return WEFT_CUDA_INVALID(
        "Input a_indices should be a matrix, a_values and a_shape vectors; received shapes: %s, %s, %s",
        WEFT_CUDA_SHAPE(&in[0]), WEFT_CUDA_SHAPE(&in[1]), WEFT_CUDA_SHAPE(&in[2]));
  }
  if (in[1].count != in[0].dims[0]) {
    return WEFT_CUDA_INVALID("Dimensions %lld and %lld are not compatible", (long long)in[0].dims[0],
                             (long long)in[1].count);
  }
  if (in[2].count != in[0].dims[1] || in[2].count != in[3].rank) {
    return WEFT_CUDA_INVALID("Two operands have different ranks; received: %lld and %d",
                             (long long)in[2].count, in[3].rank);
  }
  for (int d = 0; d < in[3].rank; d++) {
    const int64_t size = weft_cuda_int_at(&in[2], d);
    if (size == in[3].dims[d]) continue;
    return WEFT_CUDA_INVALID(
        "Dimension %d does not equal (no broadcasting is supported): sparse side %lld vs dense side %lld", d,
        (long long)size, (long long)in[3].dims[d]);
  }
  return NULL;
}

static WEFT_Failure *find_places(const WEFT_TensorView *in, int64_t *places) {
  const int rank = in[3].rank;
  for (int64_t i = 0; i < in[1].count; i++) {
    int64_t place = 0;
    for (int d = 0; d < rank; d++) {
      const int64_t at = weft_cuda_int_at(&in[0], i * rank + d);
      if (at < 0 || at >= in[3].dims[d])
        return WEFT_CUDA_INVALID("Sparse tensor index %lld is out of bounds.", (long long)i);
      place = place * in[3].dims[d] + at;
    }
    places[i] = place;
  }
  return NULL;
}

static WEFT_Failure *dense_add(WEFT_KernelContext *c) {
  WEFT_TensorView in[4], y;
  void *sent = NULL;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_dense_add(in));
  const int64_t n = in[1].count;
  int64_t *places = calloc((size_t)n + 1, sizeof *places);
  if (places == NULL) return no_memory();
  WEFT_Failure *f = find_places(in, places);
  if (f == NULL) f = weft_cuda_send_places(c, places, n, &sent);
  free(places);
  if (f != NULL) return f;
  const void *from = in[3].data;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 3, 0, &y));
  if (y.count == 0) return NULL;
  if (y.data != from) WEFT_CUDA_TRY(weft_cuda_copy(c, y.data, from, y.bytes));
  weft_cuda_scatter_t s = {
      .indices = sent, .num = n, .inner = 1, .dims = {y.count}, .depth = 1, .index_bytes = sizeof(int64_t)};
  return weft_cuda_scatter(c, WEFT_CUDA_FOLD_ADD, y.dtype, in[1].data, y.data, &s);
}

enum { FIRST = 1, THIRD = 4 };
static const int is_add = WEFT_CUDA_FOLD_ADD, is_mul = WEFT_CUDA_FOLD_MUL, is_div = WEFT_CUDA_FOLD_DIV;
#define CWISE(op_, how, finish_)                                                                    \
  {                                                                                                 \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(REAL), .compute = cwise, .finish = finish_, \
    .param = &how, .host_inputs = FIRST | THIRD                                                     \
  }
const WEFT_DeviceKernel weft_cuda_sparse_dense_kernels[] = {
    CWISE("SparseDenseCwiseAdd", is_add, NULL),
    CWISE("SparseDenseCwiseDiv", is_div, divide_finish),
    CWISE("SparseDenseCwiseMul", is_mul, NULL),
    {.op = "SparseTensorDenseAdd",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX),
     .compute = dense_add,
     .host_inputs = FIRST | THIRD},
    {.op = NULL},
};
