/* kernels/cuda/coordinates.c - rows of SparseReorder and SparseReshape. Shapes lie in the host's memory;
 * coordinates are not checked. */
#include "kernels/cuda/coordinates_args.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sort.h"

static weft_cuda_function_t place_function = WEFT_CUDA_FUNCTION("weft_coordinates_place"),
                            reshape_function = WEFT_CUDA_FUNCTION("weft_coordinates_reshape");
WEFT_CUDA_SIZES(gather_functions, gather)

/* ---- SparseReorder ---- */

/* Indices, values and the shape. */
static WEFT_Failure *check_reorder(const WEFT_TensorView *in) {
  int64_t total = 1;
  if (in[0].rank != 2) {
    return WEFT_CUDA_INVALID("Input indices should be a matrix but received shape %s",
                             WEFT_CUDA_SHAPE(&in[0]));
  }
  if (in[1].rank != 1) {
    return WEFT_CUDA_INVALID("Input values should be a vector but received shape %s",
                             WEFT_CUDA_SHAPE(&in[1]));
  }
  if (in[2].rank != 1) {
    return WEFT_CUDA_INVALID("Input shape should be a vector but received shape %s", WEFT_CUDA_SHAPE(&in[2]));
  }
  if (in[0].dims[0] != in[1].count) {
    return WEFT_CUDA_INVALID(
        "indices and values rows (indexing dimension) must match. (indices = %lld, values = %lld)",
        (long long)in[0].dims[0], (long long)in[1].count);
  }
  if (in[0].dims[1] != in[2].count) {
    return WEFT_CUDA_INVALID("Index rank (%lld) and shape rank (%lld) do not match", (long long)in[0].dims[1],
                             (long long)in[2].count);
  }
  if (in[2].count > WEFT_CUDA_DIMS) {
    return WEFT_CUDA_INVALID("a sparse tensor has %lld dimensions, more than %d", (long long)in[2].count,
                             WEFT_CUDA_DIMS);
  }
  for (int64_t d = 0; d < in[2].count; d++) {
    const int32_t dim = (int32_t)weft_cuda_int_at(&in[2], d); /* TensorFlow looks at 32 bits of it */
    if (dim < 0) return WEFT_CUDA_INVALID("Dimension %d must be >= 0", (int)dim);
    if (__builtin_mul_overflow(total, dim, &total))
      return WEFT_CUDA_INVALID("Shape would have more than 2**63 - 1 elements");
  }
  return NULL;
}

/* Rows order[0], order[1], ... of x, of `inner` elements each. */
static WEFT_Failure *pick_rows(WEFT_KernelContext *c, const WEFT_TensorView *x, const void *order, int64_t n,
                               int64_t inner, const WEFT_TensorView *y) {
  int32_t index_bytes = sizeof(int64_t);
  int64_t outer = 1, count = y->count;
  const void *from = x->data;
  void *to = y->data;
  void *args[] = {&from, &order, &index_bytes, &to, &outer, &n, &n, &inner, &count};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(gather_functions, x->dtype), count, 1, args);
}

static WEFT_Failure *reorder(WEFT_KernelContext *c) {
  WEFT_TensorView in[3], indices, values;
  void *places = NULL, *order = NULL;
  for (int i = 0; i < 3; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_reorder(in));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, in[0].dims, &indices));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, in[1].dims, &values));
  weft_cuda_coordinates_t s = {.n = in[1].count, .from_rank = (int32_t)in[2].count};
  if (s.n == 0) return NULL;
  for (int d = 0; d < s.from_rank; d++) s.from[d] = weft_cuda_int_at(&in[2], d);
  const size_t bytes = (size_t)weft_cuda_sort_room(s.n) * sizeof(int64_t);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &places));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &order));
  void *args[] = {&in[0].data, &places, &s};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &place_function, s.n, 1, args));
  WEFT_CUDA_TRY(weft_cuda_sort(c, places, order, s.n));
  WEFT_CUDA_TRY(pick_rows(c, &in[0], order, s.n, s.from_rank, &indices));
  return pick_rows(c, &in[1], order, s.n, 1, &values);
}

/* ---- SparseReshape ---- */

/* Reads a shape into `dims`; *out_count: the product of its dimensions. One of them may be -1 if out_unknown
 * is given: *out_unknown says which (it is -1 before), and it counts as 1. Overflow is an error even beside a
 * dimension of 0. */
static WEFT_Failure *read_dims(const WEFT_TensorView *v, int64_t *dims, int64_t *out_count,
                               int *out_unknown) {
  int64_t product = 1;
  bool is_empty = false;
  if (v->count > WEFT_CUDA_DIMS)
    return WEFT_CUDA_INVALID("a shape has %lld dimensions, more than %d", (long long)v->count,
                             WEFT_CUDA_DIMS);
  for (int d = 0; d < (int)v->count; d++) {
    dims[d] = weft_cuda_int_at(v, d);
    if (dims[d] == -1 && out_unknown != NULL) {
      if (*out_unknown >= 0) {
        return WEFT_CUDA_INVALID("only one output dimension may be -1, not both %d and %d", *out_unknown, d);
      }
      *out_unknown = d;
      dims[d] = 1;
    }
    if (dims[d] < 0 && out_unknown != NULL)
      return WEFT_CUDA_INVALID("size %d must be non-negative, not %lld", d, (long long)dims[d]);
    if (dims[d] < 0) return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)dims[d]);
    is_empty = is_empty || dims[d] == 0;
    if (__builtin_mul_overflow(product, dims[d] > 0 ? dims[d] : 1, &product))
      return WEFT_CUDA_INVALID("Shape would have more than 2**63 - 1 elements");
  }
  *out_count = is_empty ? 0 : product;
  return NULL;
}

/* The wanted shape, with the -1 in it replaced by what the others leave of `size`. */
static WEFT_Failure *read_target(const WEFT_TensorView *wanted, int64_t size, int64_t *dims) {
  int64_t product = 1;
  int unknown = -1;
  WEFT_CUDA_TRY(read_dims(wanted, dims, &product, &unknown));
  if (unknown >= 0) {
    if (product <= 0) {
      return WEFT_CUDA_INVALID(
          "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes "
          "are non-zero");
    }
    if (size % product != 0) {
      return WEFT_CUDA_INVALID(
          "Input to reshape is a SparseTensor with %lld dense values, but the requested shape requires a "
          "multiple of %lld.",
          (long long)size, (long long)product);
    }
    dims[unknown] = size / product;
    product = size;
  }
  if (product == size) return NULL;
  return WEFT_CUDA_INVALID(
      "Input to reshape is a tensor with %lld dense values, but the requested shape has %lld.",
      (long long)size, (long long)product);
}

/* Indices, their shape and the wanted one. */
static WEFT_Failure *plan_reshape(const WEFT_TensorView *in, weft_cuda_coordinates_t *s) {
  int64_t size = 0;
  if (in[0].rank != 2) {
    return WEFT_CUDA_INVALID("Input indices should be a matrix but received shape %s",
                             WEFT_CUDA_SHAPE(&in[0]));
  }
  if (in[1].rank != 1) {
    return WEFT_CUDA_INVALID("Input shape should be a vector but received shape %s", WEFT_CUDA_SHAPE(&in[1]));
  }
  if (in[2].rank != 1) {
    return WEFT_CUDA_INVALID("Target shape should be a vector but received shape %s",
                             WEFT_CUDA_SHAPE(&in[2]));
  }
  if (in[0].dims[1] != in[1].count)
    return WEFT_CUDA_INVALID("Input tensor rank must match input shape length.");
  *s = (weft_cuda_coordinates_t){
      .n = in[0].dims[0], .from_rank = (int32_t)in[1].count, .to_rank = (int32_t)in[2].count};
  WEFT_CUDA_TRY(read_dims(&in[1], s->from, &size, NULL));
  WEFT_CUDA_TRY(read_target(&in[2], size, s->to));
  if (s->n == 0 || size > 0) return NULL;
  const WEFT_TensorView from = {.rank = s->from_rank, .dims = s->from},
                        to = {.rank = s->to_rank, .dims = s->to};
  return WEFT_CUDA_INVALID(
      "Input tensor has %lld non zero elements but input shape (%s) or output shape (%s) is empty",
      (long long)s->n, WEFT_CUDA_SHAPE(&from), WEFT_CUDA_SHAPE(&to));
}

static WEFT_Failure *reshape(WEFT_KernelContext *c) {
  WEFT_TensorView in[3], indices, shape;
  weft_cuda_coordinates_t s;
  for (int i = 0; i < 3; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(plan_reshape(in, &s));
  const int64_t rank = s.to_rank, dims[2] = {s.n, rank};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &rank, &shape));
  if (rank > 0) memcpy(shape.data, s.to, (size_t)rank * sizeof *s.to);
  if (s.from_rank == s.to_rank && memcmp(s.from, s.to, sizeof s.from) == 0)
    return weft_cuda_host->output_is_input(c, 0, 0, 2, in[0].dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &indices));
  if (indices.count == 0) return NULL;
  void *args[] = {&in[0].data, &indices.data, &s};
  return weft_cuda_launch_over(c, &reshape_function, s.n, 1, args);
}

enum { SECOND = 2, THIRD = 4 };
const WEFT_DeviceKernel weft_cuda_coordinates_kernels[] = {
    {.op = "SparseReorder",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .compute = reorder,
     .host_inputs = THIRD},
    {.op = "SparseReshape", .compute = reshape, .host_inputs = SECOND | THIRD, .host_outputs = SECOND},
    {.op = NULL},
};
