/* kernels/cuda/sparse_tensor.c - see the header. Messages are those of the CPU's kernels. */
#include "kernels/cuda/sparse_tensor.h"

WEFT_CUDA_SIZES(pick_functions, sparse_pick)

WEFT_Failure *weft_cuda_sparse_read(WEFT_KernelContext *c, int i, weft_cuda_sparse_t *out) {
  WEFT_TensorView indices, values, shape;
  weft_cuda_host->input(c, i, &indices);
  weft_cuda_host->input(c, i + 1, &values);
  weft_cuda_host->input(c, i + 2, &shape);
  if (indices.rank != 2) {
    return WEFT_CUDA_INVALID("Input indices should be a matrix but received shape %s",
                             WEFT_CUDA_SHAPE(&indices));
  }
  if (values.rank != 1) {
    return WEFT_CUDA_INVALID("Input values should be a vector but received shape %s",
                             WEFT_CUDA_SHAPE(&values));
  }
  if (shape.rank != 1)
    return WEFT_CUDA_INVALID("Input shape should be a vector but received shape %s", WEFT_CUDA_SHAPE(&shape));
  if (indices.dims[0] != values.count) {
    return WEFT_CUDA_INVALID(
        "indices and values rows (indexing dimension) must match. (indices = %lld, values = %lld)",
        (long long)indices.dims[0], (long long)values.count);
  }
  if (indices.dims[1] != shape.count) {
    return WEFT_CUDA_INVALID("Index rank (%lld) and shape rank (%lld) do not match",
                             (long long)indices.dims[1], (long long)shape.count);
  }
  if (shape.count > WEFT_CUDA_DIMS) {
    return WEFT_CUDA_INVALID("a sparse tensor has %lld dimensions, more than %d", (long long)shape.count,
                             WEFT_CUDA_DIMS);
  }
  *out = (weft_cuda_sparse_t){
      .n = values.count, .rank = (int)shape.count, .at = indices.data, .dims = shape.data, .values = values};
  return NULL;
}

bool weft_cuda_sparse_is_inside(const weft_cuda_sparse_t *x, int64_t i) {
  const int64_t *at = weft_cuda_sparse_at(x, i);
  for (int d = 0; d < x->rank; d++) {
    if (at[d] < 0 || at[d] >= x->dims[d]) return false;
  }
  return true;
}

int64_t weft_cuda_sparse_place(const weft_cuda_sparse_t *x, int64_t i) {
  int64_t place = 0;
  for (int d = 0; d < x->rank; d++) place = place * x->dims[d] + weft_cuda_sparse_at(x, i)[d];
  return place;
}

WEFT_Failure *weft_cuda_check_dims(const int64_t *dims, int rank) {
  int64_t count = 1;
  for (int d = 0; d < rank; d++) {
    if (dims[d] < 0) return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)dims[d]);
    if (__builtin_mul_overflow(count, dims[d] > 0 ? dims[d] : 1, &count))
      return WEFT_CUDA_INVALID("Shape would have more than 2**63 - 1 elements");
  }
  return NULL;
}

/* ---- order ---- */

int weft_cuda_coordinates_compare(const int64_t *a, const int64_t *b, int rank) {
  for (int d = 0; d < rank; d++) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

/* What a sort compares. */
typedef struct cuda_sparse_order {
  const weft_cuda_sparse_t *x;
  const int *dims;
  int num;
} sparse_order_t;

static bool comes_behind(const sparse_order_t *o, int64_t a, int64_t b) {
  const int64_t *of_a = weft_cuda_sparse_at(o->x, a), *of_b = weft_cuda_sparse_at(o->x, b);
  for (int k = 0; k < o->num; k++) {
    if (of_a[o->dims[k]] != of_b[o->dims[k]]) return of_a[o->dims[k]] > of_b[o->dims[k]];
  }
  return false;
}

/* Merges from[begin, middle) and from[middle, end) into `to`. */
static void merge(const sparse_order_t *o, const int64_t *from, int64_t *to, int64_t begin, int64_t middle,
                  int64_t end) {
  int64_t a = begin, b = middle;
  for (int64_t i = begin; i < end; i++) {
    const bool takes_a = a < middle && (b == end || !comes_behind(o, from[a], from[b]));
    to[i] = takes_a ? from[a++] : from[b++];
  }
}

static bool is_in_order(const sparse_order_t *o) {
  for (int64_t i = 1; i < o->x->n; i++) {
    if (comes_behind(o, i - 1, i)) return false;
  }
  return true;
}

WEFT_Failure *weft_cuda_sparse_sort(const weft_cuda_sparse_t *x, const int *dims, int num, int64_t **out) {
  const int64_t n = x->n;
  const sparse_order_t o = {x, dims, num};
  int64_t *from = calloc((size_t)n + 1, sizeof *from), *to = calloc((size_t)n + 1, sizeof *to);
  if (from == NULL || to == NULL) {
    free(from);
    free(to);
    return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: the order of %lld elements",
                                   (long long)n);
  }
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t run = is_in_order(&o) ? n : 1; run < n; run *= 2) { /* mostly they are */
    for (int64_t i = 0; i < n; i += 2 * run) {
      const int64_t middle = i + run < n ? i + run : n, end = i + 2 * run < n ? i + 2 * run : n;
      merge(&o, from, to, i, middle, end);
    }
    int64_t *other = from;
    from = to;
    to = other;
  }
  free(to);
  *out = from;
  return NULL;
}

/* ---- values ---- */

WEFT_Failure *weft_cuda_send_places(WEFT_KernelContext *c, const int64_t *from, int64_t n, void **out) {
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(n + 1) * sizeof *from, out));
  return n == 0 ? NULL : weft_cuda_copy(c, *out, from, (size_t)n * sizeof *from);
}

WEFT_Failure *weft_cuda_pick_values(WEFT_KernelContext *c, int dtype, const void *x, const int64_t *from,
                                    int64_t n, void *y) {
  void *sent = NULL, *args[] = {&x, &sent, &y, &n};
  if (n == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_send_places(c, from, n, &sent));
  return weft_cuda_launch_over(c, weft_cuda_pick_size(pick_functions, dtype), n, 1, args);
}
