/* kernels/cuda/move.c - rows of ops that only move elements: Transpose (and its conjugate), BroadcastTo,
 * Tile, Reverse, Slice, StridedSlice, its gradient and TensorStridedSliceUpdate, Pad, Concat, Split, Pack,
 * Unpack, and Snapshot, which moves none.
 *
 * Shapes, and most of what may be wrong with the arguments, are the affair of the op's shape function; here
 * is where elements go.
 */
#include "kernels/cuda/move.h"

#include "kernels/cuda/kernels.h"

WEFT_CUDA_SIZES(move_functions, move)
WEFT_CUDA_SIZES(transpose_functions, transpose)
WEFT_CUDA_SIZES(fill_functions, fill)
WEFT_CUDA_INSTANCES(conj_instances, unary_Conj, COMPLEX)

/* ---- copies ---- */

/* Elements that neighbours are joined to, of up to 16 bytes: in both tensors the last dimension is dense, and
 * everything is a multiple of the wider element. */
static size_t widen(weft_cuda_walk_t *w, size_t size, const char *from, const char *to) {
  const int last = w->rank - 1;
  if (w->rank == 0 || w->steps[0][last] != 1 || w->steps[1][last] != 1) return size;
  size_t wide = 16;
  for (; wide > size; wide /= 2) {
    const int64_t by = (int64_t)(wide / size);
    bool fits = w->dims[last] % by == 0 && (uintptr_t)from % wide == 0 && (uintptr_t)to % wide == 0;
    for (int d = 0; fits && d < last; d++) fits = w->steps[0][d] % by == 0 && w->steps[1][d] % by == 0;
    if (!fits) continue;
    w->dims[last] /= by;
    w->n /= by;
    for (int d = 0; d < last; d++) {
      w->steps[0][d] /= by;
      w->steps[1][d] /= by;
    }
    break;
  }
  return wide;
}

/* The last two dimensions change places: [batch, columns, rows] in the order of `to`. */
static bool is_transpose(const weft_cuda_walk_t *w) {
  if (w->rank < 2 || w->rank > 3) return false;
  const int rows = w->rank - 1, columns = w->rank - 2;
  const int64_t *d = w->dims, *x = w->steps[0], *y = w->steps[1];
  if (x[columns] != 1 || x[rows] != d[columns] || y[rows] != 1 || y[columns] != d[rows]) return false;
  return w->rank == 2 || (x[0] == d[1] * d[2] && y[0] == d[1] * d[2]);
}

WEFT_Failure *weft_cuda_move(WEFT_KernelContext *c, int dtype, const void *from, int64_t from_at, void *to,
                             int64_t to_at, weft_cuda_walk_t *w) {
  size_t size = weft_cuda_size(dtype);
  if (w->n == 0) return NULL;
  const char *x = (const char *)from + from_at * (int64_t)size;
  char *y = (char *)to + to_at * (int64_t)size;
  weft_cuda_walk_collapse(w, 2);
  if (w->is_flat) return weft_cuda_copy(c, y, x, (size_t)w->n * size);
  if (is_transpose(w)) {
    int64_t batch = w->rank == 3 ? w->dims[0] : 1, rows = w->dims[w->rank - 1],
            columns = w->dims[w->rank - 2];
    void *args[] = {&x, &y, &batch, &rows, &columns};
    return weft_cuda_launch_over(c, &transpose_functions[__builtin_ctz((unsigned)size)], w->n, 4, args);
  }
  size = widen(w, size, x, y);
  void *args[] = {&x, &y, w};
  return weft_cuda_launch_over(c, &move_functions[__builtin_ctz((unsigned)size)], w->n, 1, args);
}

WEFT_Failure *weft_cuda_repeat(WEFT_KernelContext *c, int dtype, const void *value, void *to, int64_t n) {
  void *args[] = {&value, &to, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(fill_functions, dtype), n, 4, args);
}

/* A walk over y, dense in it. */
static weft_cuda_walk_t walk_of(int rank, const int64_t *dims) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, rank, dims);
  weft_cuda_dense_steps(rank, dims, w.steps[1]);
  return w;
}

/* ---- Transpose, BroadcastTo, Tile, Reverse ---- */

static WEFT_Failure *transpose_to(WEFT_KernelContext *c, WEFT_TensorView *out) {
  WEFT_TensorView x, perm, y;
  int64_t steps[WEFT_CUDA_DIMS];
  bool is_seen[WEFT_CUDA_DIMS] = {false};
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &perm);
  if (perm.rank != 1) return WEFT_CUDA_INVALID("perm must be rank 1, got shape %s", WEFT_CUDA_SHAPE(&perm));
  if (perm.count != x.rank) {
    return WEFT_CUDA_INVALID("transpose expects a vector of size %d. But input(1) is a vector of size %lld",
                             x.rank, (long long)perm.count);
  }
  for (int d = 0; d < x.rank; d++) {
    const int64_t p = weft_cuda_int_at(&perm, d), at = p < 0 ? p + x.rank : p;
    if (at < 0 || at >= x.rank)
      return WEFT_CUDA_INVALID("%lld is out of range [0 .. %d)", (long long)p, x.rank);
    if (is_seen[at]) return WEFT_CUDA_INVALID("%lld is twice in perm.", (long long)p);
    is_seen[at] = true;
  }
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  weft_cuda_walk_t w = walk_of(y.rank, y.dims);
  weft_cuda_dense_steps(x.rank, x.dims, steps);
  for (int d = 0; d < x.rank; d++) {
    const int64_t p = weft_cuda_int_at(&perm, d);
    w.steps[0][d] = steps[p < 0 ? p + x.rank : p];
  }
  *out = y;
  return weft_cuda_move(c, x.dtype, x.data, 0, y.data, 0, &w);
}

static WEFT_Failure *transpose(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  return transpose_to(c, &y);
}

static WEFT_Failure *conjugate_transpose(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  WEFT_CUDA_TRY(transpose_to(c, &y));
  weft_cuda_function_t *f = weft_cuda_pick(&conj_instances, y.dtype);
  if (f == NULL) return NULL; /* real numbers */
  void *args[] = {&y.data, &y.data, &y.count};
  return weft_cuda_launch_over(c, f, y.count, 1, args);
}

static WEFT_Failure *broadcast_to(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  weft_cuda_walk_t w = walk_of(y.rank, y.dims);
  if (!weft_cuda_walk_broadcast(&w, 0, x.rank, x.dims))
    return WEFT_CUDA_INVALID("Incompatible shapes: %s vs. %s", WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&y));
  return weft_cuda_move(c, x.dtype, x.data, 0, y.data, 0, &w);
}

/* Each dimension is seen as [times, size], the first of which does not move in the source. Parts of one place
 * are left out, and dimensions that are not repeated join the size in front of them. */
static WEFT_Failure *tile(WEFT_KernelContext *c) {
  WEFT_TensorView x, times, y;
  int64_t dims[WEFT_CUDA_DIMS], steps[WEFT_CUDA_DIMS], from[WEFT_CUDA_DIMS];
  int n = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &times);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  weft_cuda_dense_steps(x.rank, x.dims, steps);
  for (int d = 0; d < x.rank; d++) {
    const int64_t pair[] = {weft_cuda_int_at(&times, d), x.dims[d]};
    for (int k = 0; k < 2; k++) {
      const int64_t step = k == 0 ? 0 : steps[d];
      if (pair[k] == 1) continue;
      if (n > 0 && from[n - 1] != 0 && from[n - 1] == pair[k] * step) {
        dims[n - 1] *= pair[k];
        from[n - 1] = step;
        continue;
      }
      if (n == WEFT_CUDA_DIMS) {
        return weft_cuda_host->failure(
            WEFT_CUDA_UNIMPLEMENTED, "Tile of more than %d dimensions that are repeated", WEFT_CUDA_DIMS / 2);
      }
      dims[n] = pair[k];
      from[n++] = step;
    }
  }
  weft_cuda_walk_t w = walk_of(n, dims);
  memcpy(w.steps[0], from, (size_t)n * sizeof *from);
  return weft_cuda_move(c, x.dtype, x.data, 0, y.data, 0, &w);
}

static WEFT_Failure *reverse(WEFT_KernelContext *c, const bool *axes) {
  WEFT_TensorView x, y;
  int64_t from_at = 0;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (x.count == 0) return NULL;
  weft_cuda_walk_t w = walk_of(x.rank, x.dims);
  weft_cuda_dense_steps(x.rank, x.dims, w.steps[0]);
  for (int d = 0; d < x.rank; d++) {
    if (!axes[d]) continue;
    from_at += (x.dims[d] - 1) * w.steps[0][d];
    w.steps[0][d] = -w.steps[0][d];
  }
  return weft_cuda_move(c, x.dtype, x.data, from_at, y.data, 0, &w);
}

static WEFT_Failure *reverse_v2(WEFT_KernelContext *c) {
  WEFT_TensorView x, list;
  bool axes[WEFT_CUDA_DIMS] = {false};
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &list);
  if (list.rank != 1) return WEFT_CUDA_INVALID("'axis' must be 1-dimension, not %d", list.rank);
  if (x.rank == 0 || x.count == 0) return weft_cuda_host->output_is_input(c, 0, 0, x.rank, x.dims);
  for (int64_t i = 0; i < list.count; i++) {
    const int64_t axis = weft_cuda_int_at(&list, i), at = axis < 0 ? axis + x.rank : axis;
    if (at < 0 || at >= x.rank) {
      return WEFT_CUDA_INVALID("'axis'[%lld] = %lld is out of valid range [0, %d", (long long)i,
                               (long long)axis, x.rank - 1);
    }
    if (axes[at]) return WEFT_CUDA_INVALID("axis %lld specified more than once.", (long long)at);
    axes[at] = true;
  }
  return reverse(c, axes);
}

/* The older op: a truth value for each dimension. */
static WEFT_Failure *reverse_v1(WEFT_KernelContext *c) {
  WEFT_TensorView x, list;
  bool axes[WEFT_CUDA_DIMS] = {false};
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &list);
  if (x.rank > 0 && x.dims[0] == 0) return WEFT_CUDA_INVALID("Invalid input first dimension. Found 0.");
  if (list.rank == 1 && x.rank == 0) return weft_cuda_host->output_is_input(c, 0, 0, x.rank, x.dims);
  if (list.rank != 1 || list.count != x.rank) {
    return WEFT_CUDA_INVALID(
        "'dims' must have the same number of values as 'input' has dimensions. 'input' has %d'dims' has %lld "
        "values",
        x.rank, (long long)list.count);
  }
  for (int d = 0; d < x.rank; d++) axes[d] = ((const uint8_t *)list.data)[d] != 0;
  return reverse(c, axes);
}

/* ---- Slice, StridedSlice ---- */

static WEFT_Failure *slice(WEFT_KernelContext *c) {
  WEFT_TensorView x, begin, size, y;
  int64_t from_at = 0, dims[WEFT_CUDA_DIMS];
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &begin);
  weft_cuda_host->input(c, 2, &size);
  if (begin.rank != 1 || size.rank != 1 || begin.count != x.rank || size.count != x.rank) {
    return WEFT_CUDA_INVALID(
        "Expected begin and size arguments to be 1-D tensors of size %d, but got shapes %s and %s instead.",
        x.rank, WEFT_CUDA_SHAPE(&begin), WEFT_CUDA_SHAPE(&size));
  }
  for (int d = 0; d < x.rank; d++) {
    const int64_t dim = x.dims[d], b = weft_cuda_int_at(&begin, d);
    dims[d] = weft_cuda_int_at(&size, d);
    if (b < 0 || b > dim) {
      return WEFT_CUDA_INVALID("Expected begin[%d] in [0, %lld], but got %lld", d, (long long)dim,
                               (long long)b);
    }
    if (dims[d] == -1) dims[d] = dim - b;
    if (dims[d] < 0 || dims[d] > dim - b) {
      return WEFT_CUDA_INVALID("Expected size[%d] in [0, %lld], but got %lld", d, (long long)(dim - b),
                               (long long)dims[d]);
    }
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, dims, &y));
  weft_cuda_walk_t w = walk_of(y.rank, y.dims);
  weft_cuda_dense_steps(x.rank, x.dims, w.steps[0]);
  for (int d = 0; d < x.rank; d++) from_at += weft_cuda_int_at(&begin, d) * w.steps[0][d];
  return weft_cuda_move(c, x.dtype, x.data, from_at, y.data, 0, &w);
}

typedef struct cuda_slice_masks {
  int64_t begin, end, ellipsis, new_axis, shrink;
} cuda_slice_masks_t;

static WEFT_Failure *masks_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_slice_masks_t *m = calloc(1, sizeof *m);
  if (m == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a slice");
  weft_cuda_host->attr_int(s, "begin_mask", &m->begin);
  weft_cuda_host->attr_int(s, "end_mask", &m->end);
  weft_cuda_host->attr_int(s, "ellipsis_mask", &m->ellipsis);
  weft_cuda_host->attr_int(s, "new_axis_mask", &m->new_axis);
  weft_cuda_host->attr_int(s, "shrink_axis_mask", &m->shrink);
  *out = m;
  return NULL;
}

static bool bit(int64_t mask, int64_t i) { return ((mask >> i) & 1) != 0; }
static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Of each dimension of a tensor: where the slice begins, its step and how many it takes; and how many
 * dimensions the result has. */
typedef struct cuda_slice {
  int64_t begin[WEFT_CUDA_DIMS], step[WEFT_CUDA_DIMS], size[WEFT_CUDA_DIMS];
  weft_cuda_shape_t result;
} cuda_slice_t;

static void take(cuda_slice_t *s, int d, int64_t dim, int64_t begin, int64_t end, int64_t step,
                 bool begin_is_open, bool end_is_open) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  const int64_t from =
      begin_is_open ? (step > 0 ? 0 : dim - 1) : clamp(begin < 0 ? begin + dim : begin, low, high);
  const int64_t to = end_is_open ? (step > 0 ? dim : -1) : clamp(end < 0 ? end + dim : end, low, high);
  const uint64_t length = (uint64_t)(step > 0 ? to - from : from - to);
  const uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  s->begin[d] = from;
  s->step[d] = step;
  s->size[d] = (int64_t)length <= 0 ? 0 : (int64_t)((length + by - 1) / by);
}

/* Input `first` and the two after it are begin, end and strides, which the op's shape function has found to
 * be right. */
static cuda_slice_t decode(WEFT_KernelContext *c, int rank, const int64_t *dims, int first) {
  const cuda_slice_masks_t *m = weft_cuda_host->state(c);
  cuda_slice_t s = {.result = {.rank = 0}};
  WEFT_TensorView begin, end, strides;
  weft_cuda_host->input(c, first, &begin);
  weft_cuda_host->input(c, first + 1, &end);
  weft_cuda_host->input(c, first + 2, &strides);
  const int64_t n = begin.count;
  bool has_ellipsis = false;
  int64_t new_after = 0;
  for (int64_t i = 0; i < n; i++) {
    new_after += has_ellipsis && bit(m->new_axis, i);
    has_ellipsis = has_ellipsis || bit(m->ellipsis, i);
  }
  int at = 0;
  for (int64_t i = 0; i <= n; i++) {
    if (i == n ? !has_ellipsis : bit(m->ellipsis, i)) { /* all dimensions that no later entry names */
      const int64_t stop = rank - (i == n ? 0 : n - i - 1 - new_after);
      for (; at < stop && at < rank; at++) {
        take(&s, at, dims[at], 0, 0, 1, true, true);
        s.result.dims[s.result.rank++] = s.size[at];
      }
    } else if (i < n && bit(m->new_axis, i)) {
      s.result.dims[s.result.rank++] = 1;
    } else if (i < n && at < rank) {
      const int64_t b = weft_cuda_int_at(&begin, i);
      if (bit(m->shrink, i)) {
        s.begin[at] = b < 0 ? b + dims[at] : b;
        s.step[at] = 1;
        s.size[at] = 1;
      } else {
        take(&s, at, dims[at], b, weft_cuda_int_at(&end, i), weft_cuda_int_at(&strides, i), bit(m->begin, i),
             bit(m->end, i));
        s.result.dims[s.result.rank++] = s.size[at];
      }
      at++;
    }
  }
  return s;
}

/* The slice of a tensor of these dimensions as tensor k of the walk; the other one is dense. */
static int64_t slice_walk(const cuda_slice_t *s, int rank, const int64_t *dims, int k, weft_cuda_walk_t *w) {
  int64_t steps[WEFT_CUDA_DIMS], at = 0;
  weft_cuda_walk_init(w, rank, s->size);
  weft_cuda_dense_steps(rank, s->size, w->steps[1 - k]);
  weft_cuda_dense_steps(rank, dims, steps);
  for (int d = 0; d < rank; d++) {
    w->steps[k][d] = s->size[d] > 1 ? s->step[d] * steps[d] : steps[d]; /* of one element it may overflow */
    at += s->begin[d] * steps[d];
  }
  return at;
}

static WEFT_Failure *strided_slice(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_walk_t w;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0) return NULL;
  const cuda_slice_t s = decode(c, x.rank, x.dims, 1);
  const int64_t from_at = slice_walk(&s, x.rank, x.dims, 0, &w);
  return weft_cuda_move(c, x.dtype, x.data, from_at, y.data, 0, &w);
}

static WEFT_Failure *strided_slice_grad(WEFT_KernelContext *c) {
  WEFT_TensorView dy, dx;
  weft_cuda_walk_t w;
  weft_cuda_host->input(c, 4, &dy);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &dx));
  const cuda_slice_t s = decode(c, dx.rank, dx.dims, 1);
  const WEFT_TensorView wanted = {.rank = s.result.rank, .dims = s.result.dims};
  if (!weft_cuda_same_shape(&wanted, &dy)) {
    return WEFT_CUDA_INVALID("shape of dy was %s instead of %s", WEFT_CUDA_SHAPE(&dy),
                             WEFT_CUDA_SHAPE(&wanted));
  }
  if (dx.bytes > 0) WEFT_CUDA_TRY(weft_cuda_fill(c, dx.data, 0, dx.bytes));
  if (dy.count == 0) return NULL;
  const int64_t to_at = slice_walk(&s, dx.rank, dx.dims, 1, &w);
  return weft_cuda_move(c, dy.dtype, dy.data, 0, dx.data, to_at, &w);
}

/* ---- TensorStridedSliceUpdate ---- */

/* What the shape functions of the other slices check, in TensorFlow's words: entry i of the three, for
 * dimension `at`. */
static WEFT_Failure *check_entry(const cuda_slice_masks_t *m, int64_t i, int at, int64_t dim, int64_t begin,
                                 int64_t step) {
  if (step == 0) return WEFT_CUDA_INVALID("strides[%d] must be non-zero", at);
  if (!bit(m->shrink, i)) return NULL;
  if (step < 0) return WEFT_CUDA_INVALID("only stride 1 allowed on non-range indexing.");
  const int64_t from = begin < 0 ? begin + dim : begin;
  if (from >= 0 && from < dim) return NULL;
  return WEFT_CUDA_INVALID("slice index %lld of dimension %d out of bounds.", (long long)from, at);
}

static WEFT_Failure *check_slice(WEFT_KernelContext *c, int rank, const int64_t *dims, int first) {
  const cuda_slice_masks_t *m = weft_cuda_host->state(c);
  WEFT_TensorView begin, end, strides;
  int64_t ellipsis = -1, new_after = 0, num_new = 0, num_shrunk = 0;
  int at = 0;
  weft_cuda_host->input(c, first, &begin);
  weft_cuda_host->input(c, first + 1, &end);
  weft_cuda_host->input(c, first + 2, &strides);
  const int64_t n = begin.count;
  if (begin.rank != 1 || end.rank != 1 || strides.rank != 1 || n != end.count || n != strides.count ||
      n >= 32) {
    return WEFT_CUDA_INVALID(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes %s, %s, and %s "
        "instead.",
        WEFT_CUDA_SHAPE(&begin), WEFT_CUDA_SHAPE(&end), WEFT_CUDA_SHAPE(&strides));
  }
  for (int64_t i = 0; i < n; i++) {
    if (bit(m->ellipsis, i) && ellipsis >= 0)
      return WEFT_CUDA_INVALID("Multiple ellipses in slice spec not allowed");
    if (bit(m->ellipsis, i)) {
      ellipsis = i;
    } else if (bit(m->new_axis, i)) {
      num_new++;
      new_after += ellipsis >= 0;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    if (i == ellipsis) { /* all dimensions that no later entry names */
      const int stop = rank - (int)(n - i - 1 - new_after);
      if (stop > at) at = stop;
    } else if (!bit(m->new_axis, i)) {
      if (at == rank) {
        return WEFT_CUDA_INVALID("Index out of range using input dim %d; input has only %d dims", at, rank);
      }
      WEFT_CUDA_TRY(
          check_entry(m, i, at, dims[at], weft_cuda_int_at(&begin, i), weft_cuda_int_at(&strides, i)));
      num_shrunk += bit(m->shrink, i);
      at++;
    }
  }
  return rank + num_new - num_shrunk > WEFT_CUDA_DIMS ? WEFT_CUDA_INVALID("StridedSlice: too many dimensions")
                                                      : NULL;
}

static WEFT_Failure *strided_slice_update(WEFT_KernelContext *c) {
  WEFT_TensorView x, value, y;
  weft_cuda_walk_t w, whole;
  int64_t steps[WEFT_CUDA_DIMS], dims[WEFT_CUDA_DIMS];
  void *spread = NULL;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 4, &value);
  const int rank = x.rank;
  for (int d = 0; d < rank; d++) dims[d] = x.dims[d];
  WEFT_CUDA_TRY(check_slice(c, rank, dims, 1));
  const cuda_slice_t s = decode(c, rank, dims, 1);
  const int64_t count = weft_cuda_product(s.size, 0, rank);
  weft_cuda_walk_init(&whole, s.result.rank, s.result.dims);
  const bool fits = weft_cuda_walk_broadcast(&whole, 0, value.rank, value.dims);
  if (count > 0 && !fits) {
    const WEFT_TensorView wanted = {.rank = s.result.rank, .dims = s.result.dims};
    return WEFT_CUDA_INVALID("Cannot broadcast input shape %s into final shape %s", WEFT_CUDA_SHAPE(&value),
                             WEFT_CUDA_SHAPE(&wanted));
  }
  const void *from = x.data;
  WEFT_CUDA_TRY(weft_cuda_host->output_forwarded(c, 0, 0, rank, dims, &y));
  if (y.count > 0 && y.data != from) WEFT_CUDA_TRY(weft_cuda_copy(c, y.data, from, y.bytes));
  if (count == 0) return NULL;
  const void *values = value.data;
  if (value.count != count) { /* it repeats */
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)count * weft_cuda_size(value.dtype), &spread));
    weft_cuda_dense_steps(s.result.rank, s.result.dims, steps);
    memcpy(whole.steps[1], steps, sizeof steps);
    WEFT_CUDA_TRY(weft_cuda_move(c, value.dtype, value.data, 0, spread, 0, &whole));
    values = spread;
  }
  const int64_t to_at = slice_walk(&s, rank, dims, 1, &w);
  return weft_cuda_move(c, value.dtype, values, 0, y.data, to_at, &w);
}

/* ---- Pad ---- */

static WEFT_Failure *pad(WEFT_KernelContext *c) {
  WEFT_TensorView x, paddings, value, y;
  int64_t to_at = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &paddings);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0) return NULL;
  if (weft_cuda_host->num_inputs(c) == 3) {
    weft_cuda_host->input(c, 2, &value);
    if (value.rank != 0)
      return WEFT_CUDA_INVALID("constant_values must be a scalar. Found: %s", WEFT_CUDA_SHAPE(&value));
    WEFT_CUDA_TRY(weft_cuda_repeat(c, y.dtype, value.data, y.data, y.count));
  } else {
    WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  }
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, x.rank, x.dims);
  weft_cuda_dense_steps(x.rank, x.dims, w.steps[0]);
  weft_cuda_dense_steps(y.rank, y.dims, w.steps[1]);
  for (int d = 0; d < x.rank; d++) to_at += weft_cuda_int_at(&paddings, 2 * d) * w.steps[1][d];
  return weft_cuda_move(c, x.dtype, x.data, 0, y.data, to_at, &w);
}

/* ---- Concat, Pack, Split, Unpack: a tensor is [outer, axis, inner], a piece `outer` runs of it ---- */

typedef struct cuda_pieces {
  int64_t outer, axis, inner; /* of the whole */
} cuda_pieces_t;

static cuda_pieces_t pieces_of(const WEFT_TensorView *whole, int at) {
  return (cuda_pieces_t){weft_cuda_product(whole->dims, 0, at), whole->dims[at],
                         weft_cuda_product(whole->dims, at + 1, whole->rank)};
}

/* Copies the piece of `size` along the axis, from `pos` on: into the whole, or out of it. */
static WEFT_Failure *copy_piece(WEFT_KernelContext *c, const cuda_pieces_t *p, int64_t pos, int64_t size,
                                bool is_out, int dtype, const void *from, void *to) {
  const int64_t dims[2] = {p->outer, size * p->inner}, steps[2] = {p->axis * p->inner, size * p->inner};
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, 2, dims);
  w.steps[0][0] = steps[is_out ? 0 : 1];
  w.steps[1][0] = steps[is_out ? 1 : 0];
  w.steps[0][1] = w.steps[1][1] = 1;
  return weft_cuda_move(c, dtype, from, is_out ? pos * p->inner : 0, to, is_out ? 0 : pos * p->inner, &w);
}

static WEFT_Failure *concat_inputs(WEFT_KernelContext *c, int first, int n, int axis_input) {
  WEFT_TensorView axis, x, y;
  weft_cuda_host->input(c, axis_input, &axis);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0) return NULL;
  const int64_t given = weft_cuda_int_at(&axis, 0);
  const int at = (int)(given < 0 ? given + y.rank : given);
  const cuda_pieces_t p = pieces_of(&y, at);
  for (int64_t i = 0, pos = 0; i < n; i++) {
    weft_cuda_host->input(c, first + (int)i, &x);
    WEFT_CUDA_TRY(copy_piece(c, &p, pos, x.dims[at], false, y.dtype, x.data, y.data));
    pos += x.dims[at];
  }
  return NULL;
}

static WEFT_Failure *concat(WEFT_KernelContext *c) {
  return concat_inputs(c, 1, weft_cuda_host->num_inputs(c) - 1, 0);
}

static WEFT_Failure *concat_v2(WEFT_KernelContext *c) {
  const int n = weft_cuda_host->num_inputs(c) - 1;
  return concat_inputs(c, 0, n, n);
}

static WEFT_Failure *axis_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t axis = 0;
  (void)param;
  weft_cuda_host->attr_int(s, "axis", &axis);
  *out = (void *)(intptr_t)axis;
  return NULL;
}

static WEFT_Failure *pack(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  const int n = weft_cuda_host->num_inputs(c);
  const int64_t axis = (intptr_t)weft_cuda_host->state(c);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  const cuda_pieces_t p = pieces_of(&y, (int)(axis < 0 ? axis + y.rank : axis));
  for (int i = 0; i < n; i++) {
    weft_cuda_host->input(c, i, &x);
    WEFT_CUDA_TRY(copy_piece(c, &p, i, 1, false, y.dtype, x.data, y.data));
  }
  return NULL;
}

static WEFT_Failure *unpack(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  const int n = weft_cuda_host->num_outputs(c);
  const int64_t axis = (intptr_t)weft_cuda_host->state(c);
  weft_cuda_host->input(c, 0, &x);
  const int at = (int)(axis < 0 ? axis + x.rank : axis);
  for (int i = 0; i < n; i++) {
    WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, i, &y));
    const cuda_pieces_t p = pieces_of(&x, at);
    WEFT_CUDA_TRY(copy_piece(c, &p, i, 1, true, x.dtype, x.data, y.data));
  }
  return NULL;
}

/* Split: the axis is input 0, the tensor 1; SplitV: the tensor is input 0, the axis 2. */
static WEFT_Failure *cut(WEFT_KernelContext *c, int tensor, int axis_input) {
  WEFT_TensorView x, axis, y;
  const int n = weft_cuda_host->num_outputs(c);
  weft_cuda_host->input(c, tensor, &x);
  weft_cuda_host->input(c, axis_input, &axis);
  for (int64_t i = 0, pos = 0; i < n; i++) {
    WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, (int)i, &y));
    const int64_t given = weft_cuda_int_at(&axis, 0);
    const int at = (int)(given < 0 ? given + x.rank : given);
    const cuda_pieces_t p = pieces_of(&x, at);
    WEFT_CUDA_TRY(copy_piece(c, &p, pos, y.dims[at], true, x.dtype, x.data, y.data));
    pos += y.dims[at];
  }
  return NULL;
}
static WEFT_Failure *split(WEFT_KernelContext *c) { return cut(c, 1, 0); }
static WEFT_Failure *split_v(WEFT_KernelContext *c) { return cut(c, 0, 2); }

static WEFT_Failure *same(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  weft_cuda_host->input(c, 0, &x);
  return weft_cuda_host->output_is_input(c, 0, 0, x.rank, x.dims);
}

enum { FIRST = 1, SECOND = 2, THIRD = 4, FOURTH = 8 };
#define ROW(op_, types_, fn, host) \
  { .op = op_, .type_attr = "T", .types = types_, .compute = fn, .host_inputs = host }
#define STATE_ROW(op_, types_, fn, prepare_, destroy_, host)                                               \
  {                                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare_, .compute = fn, .destroy = destroy_, \
    .host_inputs = host                                                                                    \
  }
const WEFT_DeviceKernel weft_cuda_move_kernels[] = {
    ROW("BroadcastTo", WEFT_CUDA_PLAIN, broadcast_to, SECOND),
    ROW("Concat", WEFT_CUDA_PLAIN_BUT_I32, concat, FIRST),
    {.op = "ConcatV2",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .compute = concat_v2,
     .last_input_on_host = 1},
    ROW("ConjugateTranspose", WEFT_CUDA_PLAIN, conjugate_transpose, SECOND),
    STATE_ROW("Pack", WEFT_CUDA_PLAIN_BUT_I32, pack, axis_prepare, NULL, 0),
    ROW("Pad", WEFT_CUDA_PLAIN_BUT_I32, pad, SECOND),
    ROW("PadV2", WEFT_CUDA_PLAIN, pad, SECOND),
    ROW("Reverse", WEFT_CUDA_PLAIN_BUT_I32, reverse_v1, SECOND),
    ROW("ReverseV2", WEFT_CUDA_PLAIN_BUT_I32, reverse_v2, SECOND),
    ROW("Slice", WEFT_CUDA_PLAIN_BUT_I32, slice, SECOND | THIRD),
    ROW("Snapshot", WEFT_CUDA_PLAIN_BUT_I32, same, 0),
    ROW("Split", WEFT_CUDA_PLAIN_BUT_I32, split, FIRST),
    ROW("SplitV", WEFT_CUDA_PLAIN, split_v, SECOND | THIRD),
    STATE_ROW("StridedSlice", WEFT_CUDA_PLAIN_BUT_I32, strided_slice, masks_prepare, free,
              SECOND | THIRD | FOURTH),
    STATE_ROW("StridedSliceGrad", WEFT_CUDA_PLAIN, strided_slice_grad, masks_prepare, free,
              FIRST | SECOND | THIRD | FOURTH),
    STATE_ROW("TensorStridedSliceUpdate", WEFT_CUDA_PLAIN, strided_slice_update, masks_prepare, free,
              SECOND | THIRD | FOURTH),
    ROW("Tile", WEFT_CUDA_PLAIN_BUT_I32, tile, SECOND),
    ROW("Transpose", WEFT_CUDA_PLAIN, transpose, SECOND),
    STATE_ROW("Unpack", WEFT_CUDA_PLAIN_BUT_I32, unpack, axis_prepare, NULL, 0),
    {0},
};
