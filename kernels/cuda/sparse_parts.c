/* kernels/cuda/sparse_parts.c - rows of ops whose result has elements of its sparse inputs, or sums of two:
 * SparseFillEmptyRows, SparseSlice, SparseAdd and their gradients. Which elements go where is found in the
 * host's memory, where indices lie. */
#include "kernels/cuda/index.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/segment.h"
#include "kernels/cuda/sparse_tensor.h"

WEFT_CUDA_INSTANCES(sum_instances, sparse_sum, F32_F64_I64)
WEFT_CUDA_INSTANCES(complex_sum_instances, sparse_sum, COMPLEX)

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: elements of a sparse tensor");
}

/* ---- SparseFillEmptyRows: a row, which is the first coordinate, without elements gets the default ---- */

/* The row's inputs, and where each row's elements begin among those of the result. */
typedef struct cuda_filled {
  WEFT_TensorView indices, values, shape, fallback;
  const int64_t *at;
  int64_t n, width, num_rows, total;
  int64_t *begins;
} filled_t;

static WEFT_Failure *read_filled(WEFT_KernelContext *c, filled_t *x) {
  weft_cuda_host->input(c, 0, &x->indices);
  weft_cuda_host->input(c, 1, &x->values);
  weft_cuda_host->input(c, 2, &x->shape);
  weft_cuda_host->input(c, 3, &x->fallback);
  if (x->shape.rank != 1)
    return WEFT_CUDA_INVALID("dense_shape must be a vector, saw: %s", WEFT_CUDA_SHAPE(&x->shape));
  if (x->indices.rank != 2)
    return WEFT_CUDA_INVALID("indices must be a matrix, saw: %s", WEFT_CUDA_SHAPE(&x->indices));
  if (x->values.rank != 1)
    return WEFT_CUDA_INVALID("values must be a vector, saw: %s", WEFT_CUDA_SHAPE(&x->values));
  if (x->indices.dims[0] != x->values.count) {
    return WEFT_CUDA_INVALID(
        "The length of `values` (%lld) must match the first dimension of `indices` (%lld).",
        (long long)x->values.count, (long long)x->indices.dims[0]);
  }
  if (x->fallback.rank != 0)
    return WEFT_CUDA_INVALID("default_value must be a scalar, saw: %s", WEFT_CUDA_SHAPE(&x->fallback));
  if (x->shape.count == 0) return WEFT_CUDA_INVALID("Dense shape cannot be empty.");
  x->at = x->indices.data;
  x->n = x->values.count;
  x->width = x->indices.dims[1];
  x->num_rows = weft_cuda_int_at(&x->shape, 0);
  if (x->num_rows < 0) return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)x->num_rows);
  if (x->width != x->shape.count) {
    return WEFT_CUDA_INVALID("indices have %lld columns, the dense shape %lld dimensions",
                             (long long)x->width, (long long)x->shape.count);
  }
  if (x->num_rows == 0 && x->n != 0) {
    return WEFT_CUDA_INVALID("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
                             (long long)x->n);
  }
  return NULL;
}

/* is_empty [num_rows]. */
static WEFT_Failure *count_rows(filled_t *x, uint8_t *is_empty) {
  for (int64_t i = 0; i < x->n; i++) {
    const int64_t row = x->at[i * x->width];
    if (row < 0 || row >= x->num_rows) {
      return WEFT_CUDA_INVALID("indices(%lld, 0) is invalid: %lld >= %lld", (long long)i, (long long)row,
                               (long long)x->num_rows);
    }
    x->begins[row]++;
  }
  x->total = 0;
  for (int64_t row = 0; row < x->num_rows; row++) {
    const int64_t count = x->begins[row];
    is_empty[row] = count == 0;
    x->begins[row] = x->total;
    x->total += count > 0 ? count : 1;
  }
  return NULL;
}

/* Uses `begins` up. map [n]: where each element goes. */
static void place_filled(filled_t *x, const uint8_t *is_empty, int64_t *at, int64_t *map) {
  for (int64_t row = 0; row < x->num_rows; row++) {
    if (is_empty[row] != 0) at[x->begins[row] * x->width] = row;
  }
  for (int64_t i = 0; i < x->n; i++) {
    const int64_t to = x->begins[x->at[i * x->width]]++;
    memcpy(at + to * x->width, x->at + i * x->width, (size_t)x->width * sizeof *at);
    map[i] = to;
  }
}

static WEFT_Failure *put_filled(WEFT_KernelContext *c, filled_t *x) {
  enum { INDICES, VALUES, IS_EMPTY, MAP };
  WEFT_TensorView indices, values, is_empty, map;
  void *sent = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, IS_EMPTY, 1, &x->num_rows, &is_empty));
  WEFT_CUDA_TRY(count_rows(x, is_empty.data));
  const int64_t dims[2] = {x->total, x->width};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, INDICES, 2, dims, &indices));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, VALUES, 1, &x->total, &values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, MAP, 1, &x->n, &map));
  if (indices.bytes > 0) memset(indices.data, 0, indices.bytes);
  place_filled(x, is_empty.data, indices.data, map.data);
  if (x->total == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_repeat(c, values.dtype, x->fallback.data, values.data, x->total));
  WEFT_CUDA_TRY(weft_cuda_send_places(c, map.data, x->n, &sent));
  weft_cuda_scatter_t s = {.indices = sent,
                           .num = x->n,
                           .inner = 1,
                           .dims = {x->total},
                           .depth = 1,
                           .index_bytes = sizeof(int64_t)};
  return weft_cuda_scatter(c, WEFT_CUDA_PUT, values.dtype, x->values.data, values.data, &s);
}

static WEFT_Failure *fill_empty_rows(WEFT_KernelContext *c) {
  filled_t x;
  WEFT_CUDA_TRY(read_filled(c, &x));
  x.begins = calloc((size_t)x.num_rows + 1, sizeof *x.begins);
  if (x.begins == NULL) return no_memory();
  WEFT_Failure *f = put_filled(c, &x);
  free(x.begins);
  return f;
}

/* The gradients: of the values, where they went; of the default, the sum of all the rest. */
static WEFT_Failure *put_fill_grads(WEFT_KernelContext *c, const WEFT_TensorView *map,
                                    const WEFT_TensorView *dy, weft_cuda_segment_plan_t *p, bool *is_taken) {
  const int64_t *from = map->data;
  WEFT_TensorView d_values, d_default;
  int64_t rest = 0;
  for (int64_t i = 0; i < map->count; i++) {
    if (from[i] < 0 || from[i] >= dy->count) {
      return WEFT_CUDA_INVALID("Elements in reverse index must be in [0, %lld) but got %lld",
                               (long long)dy->count, (long long)from[i]);
    }
    is_taken[from[i]] = true;
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &map->count, &d_values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 0, NULL, &d_default));
  WEFT_CUDA_TRY(weft_cuda_pick_values(c, dy->dtype, dy->data, from, map->count, d_values.data));
  for (int64_t i = 0; i < dy->count; i++) {
    if (!is_taken[i]) p->rows[rest++] = i;
  }
  p->starts[1] = rest;
  p->has_rows = true;
  return weft_cuda_segment_plan_run(c, p, WEFT_CUDA_FOLD_ADD, WEFT_CUDA_UNDIVIDED, dy->dtype, dy->data,
                                    d_default.data, 1, true);
}

static WEFT_Failure *fill_empty_rows_grad(WEFT_KernelContext *c) {
  WEFT_TensorView map, dy;
  weft_cuda_segment_plan_t p = {.num = 0};
  weft_cuda_host->input(c, 0, &map);
  weft_cuda_host->input(c, 1, &dy);
  if (map.rank != 1)
    return WEFT_CUDA_INVALID("reverse_index_map must be a vector, saw: %s", WEFT_CUDA_SHAPE(&map));
  if (dy.rank != 1) return WEFT_CUDA_INVALID("grad_values must be a vector, saw: %s", WEFT_CUDA_SHAPE(&dy));
  bool *is_taken = calloc((size_t)dy.count + 1, sizeof *is_taken);
  WEFT_Failure *f = is_taken == NULL ? no_memory() : weft_cuda_segment_plan_init(&p, 1, dy.count);
  if (f == NULL) f = put_fill_grads(c, &map, &dy, &p, is_taken);
  weft_cuda_segment_plan_deinit(&p);
  free(is_taken);
  return f;
}

/* ---- SparseSlice ---- */

static int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* Input i: a number for each dimension. */
static WEFT_Failure *read_bound(WEFT_KernelContext *c, int i, int rank, const char *what,
                                const int64_t **out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  if (v.rank != 1) {
    return WEFT_CUDA_INVALID("Input %s should be a vector but received shape %s", what, WEFT_CUDA_SHAPE(&v));
  }
  if (v.count != rank) {
    return WEFT_CUDA_INVALID("Expected %s to be a vector of length %d but got length %lld", what, rank,
                             (long long)v.count);
  }
  *out = v.data;
  return NULL;
}

/* The part of [0, size) that a slice selects. */
static int64_t overlap(int64_t size, int64_t start, int64_t length) {
  if (start < wrap_sub(size, length)) return length;
  return start < size ? wrap_sub(size, start) : 0;
}

static bool is_selected(const weft_cuda_sparse_t *x, int64_t i, const int64_t *start, const int64_t *size) {
  for (int d = 0; d < x->rank; d++) {
    const int64_t at = weft_cuda_sparse_at(x, i)[d];
    if (at < start[d] || at >= wrap_add(start[d], size[d])) return false;
  }
  return true;
}

/* Elements pick[0..n). */
static WEFT_Failure *put_slice(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, const int64_t *start,
                               const int64_t *dims, const int64_t *pick, int64_t n) {
  const int64_t of_indices[2] = {n, x->rank}, rank = x->rank;
  WEFT_TensorView indices, values, shape;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, of_indices, &indices));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &n, &values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 2, 1, &rank, &shape));
  int64_t *at = indices.data;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t d = 0; d < rank; d++) at[i * rank + d] = weft_cuda_sparse_at(x, pick[i])[d] - start[d];
  }
  if (rank > 0) memcpy(shape.data, dims, shape.bytes);
  return weft_cuda_pick_values(c, values.dtype, x->values.data, pick, n, values.data);
}

static WEFT_Failure *slice(WEFT_KernelContext *c) {
  weft_cuda_sparse_t x;
  const int64_t *start = NULL, *size = NULL;
  int64_t dims[WEFT_CUDA_DIMS], n = 0;
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 0, &x));
  WEFT_CUDA_TRY(read_bound(c, 3, x.rank, "start", &start));
  WEFT_CUDA_TRY(read_bound(c, 4, x.rank, "size", &size));
  WEFT_CUDA_TRY(weft_cuda_check_dims(x.dims, x.rank));
  for (int d = 0; d < x.rank; d++) dims[d] = overlap(x.dims[d], start[d], size[d]);
  WEFT_CUDA_TRY(weft_cuda_check_dims(dims, x.rank));
  int64_t *pick = calloc((size_t)x.n + 1, sizeof *pick);
  if (pick == NULL) return no_memory();
  for (int64_t i = 0; i < x.n; i++) {
    if (is_selected(&x, i, start, size)) pick[n++] = i;
  }
  WEFT_Failure *f = put_slice(c, &x, start, dims, pick, n);
  free(pick);
  return f;
}

/* ---- its gradient: elements of the slice go back to where they came from, in order ---- */

/* Inputs: gradients, indices of the sparse tensor, start, indices of the slice. */
static WEFT_Failure *check_slice_grad(const WEFT_TensorView *in) {
  if (in[1].rank != 2 || in[3].rank != 2) {
    return WEFT_CUDA_INVALID("Input indices should be matrices but received shapes: %s and %s",
                             WEFT_CUDA_SHAPE(&in[1]), WEFT_CUDA_SHAPE(&in[3]));
  }
  if (in[0].rank != 1) {
    return WEFT_CUDA_INVALID("Input backprop_val_grad should be a vector but received shape: %s",
                             WEFT_CUDA_SHAPE(&in[0]));
  }
  if (in[1].dims[1] != in[3].dims[1]) {
    return WEFT_CUDA_INVALID("The input and output should have the same ndims: got: %lld and %lld",
                             (long long)in[1].dims[1], (long long)in[3].dims[1]);
  }
  if (in[3].dims[0] > in[1].dims[0]) {
    return WEFT_CUDA_INVALID(
        "# rows of output_indices should be not greater than of input_indices, got %lld and %lld",
        (long long)in[3].dims[0], (long long)in[1].dims[0]);
  }
  if (in[0].count != in[3].dims[0]) {
    return WEFT_CUDA_INVALID(
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got %lld "
        "and "
        "%lld",
        (long long)in[0].count, (long long)in[3].dims[0]);
  }
  if (in[2].rank != 1) {
    return WEFT_CUDA_INVALID("Input start should be a vector but received shape %s", WEFT_CUDA_SHAPE(&in[2]));
  }
  if (in[2].count != in[1].dims[1]) {
    return WEFT_CUDA_INVALID("Expected start to be a vector of length %lld but got length %lld",
                             (long long)in[1].dims[1], (long long)in[2].count);
  }
  return NULL;
}

/* pick [rows of the sparse tensor]: which gradient each gets, or -1. */
static WEFT_Failure *match_slice(const WEFT_TensorView *in, int64_t *pick) {
  const int64_t *at = in[1].data, *start = in[2].data, *of = in[3].data;
  const int64_t n = in[1].dims[0], rank = in[1].dims[1];
  int64_t k = 0;
  for (int64_t i = 0; i < n; i++) {
    bool is_same = k < in[0].count;
    for (int64_t d = 0; is_same && d < rank; d++)
      is_same = at[i * rank + d] == wrap_add(of[k * rank + d], start[d]);
    pick[i] = is_same ? k++ : -1;
  }
  if (k == in[0].count) return NULL;
  return weft_cuda_host->failure(
      WEFT_CUDA_INTERNAL,
      "Elements of backprop_val_grad aren't all propagated. Num elements:%lld, used: "
      "%lld",
      (long long)in[0].count, (long long)k);
}

static WEFT_Failure *slice_grad(WEFT_KernelContext *c) {
  WEFT_TensorView in[4], y;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_slice_grad(in));
  const int64_t n = in[1].dims[0];
  int64_t *pick = calloc((size_t)n + 1, sizeof *pick);
  if (pick == NULL) return no_memory();
  WEFT_Failure *f = match_slice(in, pick);
  if (f == NULL) f = weft_cuda_host->output(c, 0, 1, &n, &y);
  if (f == NULL) f = weft_cuda_pick_values(c, y.dtype, in[0].data, pick, n, y.data);
  free(pick);
  return f;
}

/* ---- SparseAdd: sums below the threshold are dropped, which is known when the device has added ---- */

/* One element of the sum: elements of a and b, or -1 for one that is not there. */
typedef struct cuda_sparse_pair {
  int64_t a, b;
} pair_t;

/* What compute() leaves to finish(), in memory that the device writes. */
typedef struct cuda_sparse_sums {
  int64_t n;
  void *values; /* of the pairs, in the device's memory */
  pair_t pairs[];
} sums_t;
/* Behind the pairs: whether each is kept. */
static uint8_t *kept_of(sums_t *s) { return (uint8_t *)&s->pairs[s->n]; }

static WEFT_Failure *read_two(WEFT_KernelContext *c, weft_cuda_sparse_t *a, weft_cuda_sparse_t *b) {
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 0, a));
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 3, b));
  if (a->rank != b->rank)
    return WEFT_CUDA_INVALID("Operands do not have the same ranks; got %d and %d", a->rank, b->rank);
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d] == b->dims[d]) continue;
    return WEFT_CUDA_INVALID("Operands' shapes do not match: got %lld and %lld for dimension %d",
                             (long long)a->dims[d], (long long)b->dims[d], d);
  }
  return NULL;
}

/* Both are walked at once as if they were in order; what is not gives what such a walk gives, as in
 * TensorFlow. pairs NULL: only counts. */
static int64_t walk(const weft_cuda_sparse_t *a, const weft_cuda_sparse_t *b, pair_t *pairs) {
  int64_t i = 0, k = 0, n = 0;
  while (i < a->n || k < b->n) {
    const int order = i == a->n   ? 1
                      : k == b->n ? -1
                                  : weft_cuda_coordinates_compare(weft_cuda_sparse_at(a, i),
                                                                  weft_cuda_sparse_at(b, k), a->rank);
    const pair_t p = {order <= 0 ? i++ : -1, order >= 0 ? k++ : -1};
    if (pairs != NULL) pairs[n] = p;
    n++;
  }
  return n;
}

static WEFT_Failure *add(WEFT_KernelContext *c) {
  weft_cuda_sparse_t a, b;
  WEFT_TensorView threshold;
  void *told = NULL, *sent = NULL, *kept = NULL;
  WEFT_CUDA_TRY(read_two(c, &a, &b));
  weft_cuda_host->input(c, 6, &threshold);
  if (threshold.rank != 0) {
    return WEFT_CUDA_INVALID("The magnitude threshold must be a scalar: got shape %s",
                             WEFT_CUDA_SHAPE(&threshold));
  }
  const int dtype = a.values.dtype, of_threshold = threshold.dtype;
  if ((dtype == WEFT_CUDA_i64) != (of_threshold != WEFT_CUDA_f32 && of_threshold != WEFT_CUDA_f64))
    return WEFT_CUDA_INVALID("The magnitude threshold has not the kind of the values");
  if (a.rank == 0) return WEFT_CUDA_INVALID("Tensors must not be empty");
  int64_t n = walk(&a, &b, NULL);
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(sums_t) + (size_t)n * (sizeof(pair_t) + 1), &told));
  sums_t *s = told;
  s->n = n;
  (void)walk(&a, &b, s->pairs);
  if (n == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_send_places(c, (const int64_t *)s->pairs, 2 * n, &sent));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n, &kept));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n * weft_cuda_size(dtype), &s->values));
  double least = 0;
  int64_t least_int = 0;
  if (of_threshold == WEFT_CUDA_f32) least = (double)*(const float *)threshold.data;
  if (of_threshold == WEFT_CUDA_f64) least = *(const double *)threshold.data;
  if (dtype == WEFT_CUDA_i64) least_int = weft_cuda_int_at(&threshold, 0);
  void *args[] = {&a.values.data, &b.values.data, &sent, &s->values, &kept, &n, &least, &least_int};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), dtype), n, 1, args));
  return weft_cuda_read(c, kept_of(s), kept, (size_t)n);
}

/* The elements of the pairs pick[0..n). */
static WEFT_Failure *put_sum(WEFT_KernelContext *c, const sums_t *s, const int64_t *pick, int64_t n) {
  weft_cuda_sparse_t a, b;
  WEFT_TensorView indices, values, of;
  WEFT_CUDA_TRY(read_two(c, &a, &b));
  const int64_t dims[2] = {n, a.rank}, rank = a.rank;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &indices));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &n, &values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 2, 1, &rank, &of));
  memcpy(of.data, a.dims, of.bytes);
  int64_t *at = indices.data;
  for (int64_t i = 0; i < n; i++) {
    const pair_t p = s->pairs[pick[i]];
    memcpy(at + i * rank, p.a >= 0 ? weft_cuda_sparse_at(&a, p.a) : weft_cuda_sparse_at(&b, p.b),
           (size_t)rank * sizeof *at);
  }
  return weft_cuda_pick_values(c, values.dtype, s->values, pick, n, values.data);
}

static WEFT_Failure *add_finish(WEFT_KernelContext *c) {
  void *told = NULL;
  int64_t n = 0;
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, 0, &told));
  sums_t *s = told;
  int64_t *pick = calloc((size_t)s->n + 1, sizeof *pick);
  if (pick == NULL) return no_memory();
  for (int64_t i = 0; i < s->n; i++) {
    if (kept_of(s)[i] != 0) pick[n++] = i;
  }
  WEFT_Failure *f = put_sum(c, s, pick, n);
  free(pick);
  return f;
}

/* ---- its gradient: an element gets that of the sum it went into, or 0 ---- */

/* Inputs: gradients of the sum, indices of a, of b and of the sum. */
static WEFT_Failure *check_add_grad(const WEFT_TensorView *in) {
  if (in[1].rank != 2 || in[2].rank != 2 || in[3].rank != 2) {
    return WEFT_CUDA_INVALID(
        "a_indices, b_indices and sum_indices should be matrices but received shapes: %s, %s, %s",
        WEFT_CUDA_SHAPE(&in[1]), WEFT_CUDA_SHAPE(&in[2]), WEFT_CUDA_SHAPE(&in[3]));
  }
  if (in[0].rank != 1 || in[0].count != in[3].dims[0]) {
    return WEFT_CUDA_INVALID(
        "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got shapes %s "
        "and %s",
        WEFT_CUDA_SHAPE(&in[0]), WEFT_CUDA_SHAPE(&in[3]));
  }
  if (in[1].dims[1] != in[2].dims[1] || in[1].dims[1] != in[3].dims[1]) {
    return WEFT_CUDA_INVALID(
        "The densified operands should have the same ndims; for A, B, Sum got: %lld, %lld, %lld",
        (long long)in[1].dims[1], (long long)in[2].dims[1], (long long)in[3].dims[1]);
  }
  return in[1].dims[1] > INT32_MAX ? WEFT_CUDA_INVALID("too many dimensions") : NULL;
}

/* Output o: the gradients of the elements at `indices`. */
static WEFT_Failure *spread(WEFT_KernelContext *c, int o, const WEFT_TensorView *indices,
                            const WEFT_TensorView *sum, const WEFT_TensorView *dy) {
  const int rank = (int)indices->dims[1];
  const int64_t n = indices->dims[0], *at = indices->data, *of = sum->data;
  int64_t i = 0;
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, o, 1, &n, &y));
  int64_t *pick = calloc((size_t)n + 1, sizeof *pick);
  if (pick == NULL) return no_memory();
  for (int64_t k = 0; i < n && k < sum->dims[0];) {
    const int order = weft_cuda_coordinates_compare(at + i * rank, of + k * rank, rank);
    if (order <= 0) pick[i++] = order == 0 ? k : -1; /* -1: dropped from the sum */
    if (order >= 0) k++;
  }
  while (i < n) pick[i++] = -1;
  WEFT_Failure *f = weft_cuda_pick_values(c, y.dtype, dy->data, pick, n, y.data);
  free(pick);
  return f;
}

static WEFT_Failure *add_grad(WEFT_KernelContext *c) {
  WEFT_TensorView in[4];
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_add_grad(in));
  WEFT_CUDA_TRY(spread(c, 0, &in[1], &in[3], &in[0]));
  return spread(c, 1, &in[2], &in[3], &in[0]);
}

enum { FIRST = 1, SECOND = 2, THIRD = 4, FOURTH = 8, FIFTH = 16, SIXTH = 32, SEVENTH = 64 };
#define ADD(set, sums)                                                                                       \
  {                                                                                                          \
    .op = "SparseAdd", .type_attr = "T", .types = WEFT_CUDA_SET(set), .compute = add, .finish = add_finish,  \
    .param = &(sums), .host_outputs = FIRST | THIRD, .host_inputs = FIRST | THIRD | FOURTH | SIXTH | SEVENTH \
  }
const WEFT_DeviceKernel weft_cuda_sparse_parts_kernels[] = {
    ADD(F32_F64_I64, sum_instances),
    ADD(COMPLEX, complex_sum_instances),
    {.op = "SparseAddGrad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_F64_I64) | WEFT_CUDA_SET(COMPLEX),
     .compute = add_grad,
     .host_inputs = SECOND | THIRD | FOURTH},
    {.op = "SparseFillEmptyRows",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .compute = fill_empty_rows,
     .host_inputs = FIRST | THIRD,
     .host_outputs = FIRST | THIRD | FOURTH},
    {.op = "SparseFillEmptyRowsGrad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX),
     .compute = fill_empty_rows_grad,
     .host_inputs = FIRST},
    {.op = "SparseSlice",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .compute = slice,
     .host_inputs = FIRST | THIRD | FOURTH | FIFTH,
     .host_outputs = FIRST | THIRD},
    {.op = "SparseSliceGrad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX),
     .compute = slice_grad,
     .host_inputs = SECOND | THIRD | FOURTH},
    {.op = NULL},
};
