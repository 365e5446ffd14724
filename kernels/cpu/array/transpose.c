/* kernels/cpu/array/transpose.c - axes permuted, reversed, repeated: Transpose, ConjugateTranspose,
 * ReverseV2, Reverse, BroadcastTo, Tile, Roll, ReverseSequence. */
#include <inttypes.h>

#include "kernels/cpu/loops/move.h"

static weft_status_t *read_permutation(const weft_tensor_t *perm, int rank, int *out) {
  if (perm->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "perm must be rank 1, got shape %s", WEFT_SHAPE_TEXT(&perm->shape));
  }
  if (perm->count != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "transpose expects a vector of size %d. But input(1) is a vector of size %" PRId64,
                      rank, perm->count);
  }
  bool seen[WEFT_MAX_DIMS] = {false};
  for (int d = 0; d < rank; d++) {
    int64_t p = weft_cpu_int_at(perm, d), at = p < 0 ? p + rank : p;
    if (at < 0 || at >= rank)
      return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " is out of range [0 .. %d)", p, rank);
    seen[at] = true;
    out[d] = (int)at;
  }
  for (int d = 0; d < rank; d++) {
    if (seen[d]) continue;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    for (int i = 0; i < rank; i++)
      weft_strbuf_printf(&text, "%s%" PRId64, i > 0 ? "," : "", weft_cpu_int_at(perm, i));
    weft_status_t *s =
        WEFT_ERROR(INVALID_ARGUMENT, "%d is missing from {%s}.", d, text.data == NULL ? "" : text.data);
    weft_strbuf_deinit(&text);
    return s;
  }
  return NULL;
}

static void conjugate(weft_tensor_t *t) {
  for (int64_t i = 0; t->dtype == WEFT_C64 && i < t->count; i++) {
    ((weft_c64_t *)t->data)[i].im = -((weft_c64_t *)t->data)[i].im;
  }
  for (int64_t i = 0; t->dtype == WEFT_C128 && i < t->count; i++) {
    ((weft_c128_t *)t->data)[i].im = -((weft_c128_t *)t->data)[i].im;
  }
}

static weft_status_t *transpose(weft_kernel_ctx_t *ctx, bool conj) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  int rank = x->shape.rank, perm[WEFT_MAX_DIMS];
  WEFT_RETURN_IF_ERROR(read_permutation(weft_in(ctx, 1), rank, perm));
  weft_shape_t shape = {.rank = rank};
  bool moves = false; /* the dimensions that are not 1 change their order */
  for (int d = 0, last = -1; d < rank; d++) {
    shape.dims[d] = x->shape.dims[perm[d]];
    if (shape.dims[d] == 1) continue;
    moves |= perm[d] < last;
    last = perm[d];
  }
  conj = conj && weft_dtype_is_complex(x->dtype);
  if (!moves && !conj) return weft_cpu_out_view(ctx, 0, 0, &shape);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  weft_move_t m = {.rank = rank};
  int64_t strides[WEFT_MAX_DIMS];
  weft_strides_of(&x->shape, strides);
  weft_strides_of(&shape, m.to_strides);
  for (int d = 0; d < rank; d++) {
    m.dims[d] = shape.dims[d];
    m.from_strides[d] = strides[perm[d]];
  }
  WEFT_RETURN_IF_ERROR(weft_move_run(&m, ctx->device->pool, x, y));
  if (conj) conjugate(y);
  return NULL;
}

static weft_status_t *transpose_compute(weft_kernel_ctx_t *ctx) { return transpose(ctx, false); }
static weft_status_t *conjugate_transpose_compute(weft_kernel_ctx_t *ctx) { return transpose(ctx, true); }

static weft_status_t *reverse(weft_kernel_ctx_t *ctx, const bool *axes) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  if (x->count == 0) return NULL;
  weft_move_t m = {.rank = x->shape.rank};
  weft_strides_of(&x->shape, m.to_strides);
  for (int d = 0; d < x->shape.rank; d++) {
    m.dims[d] = x->shape.dims[d];
    m.from_strides[d] = axes[d] ? -m.to_strides[d] : m.to_strides[d];
    if (axes[d]) m.from_base += (x->shape.dims[d] - 1) * m.to_strides[d];
  }
  return weft_move_run(&m, ctx->device->pool, x, y);
}

static weft_status_t *reverse_v2_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *list = weft_in(ctx, 1);
  bool axes[WEFT_MAX_DIMS] = {false};
  if (list->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'axis' must be 1-dimension, not %d", list->shape.rank);
  }
  if (x->shape.rank == 0 || x->count == 0) { /* whatever the axes are */
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  for (int64_t i = 0; i < list->count; i++) {
    int64_t axis = weft_cpu_int_at(list, i);
    int at = 0;
    if (!weft_cpu_wrap_axis(axis, x->shape.rank, &at)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'axis'[%" PRId64 "] = %" PRId64 " is out of valid range [0, %d", i,
                        axis, x->shape.rank - 1);
    }
    if (axes[at]) return WEFT_ERROR(INVALID_ARGUMENT, "axis %d specified more than once.", at);
    axes[at] = true;
  }
  return reverse(ctx, axes);
}

static weft_status_t *reverse_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *dims = weft_in(ctx, 1);
  bool axes[WEFT_MAX_DIMS] = {false};
  if (x->shape.rank > 0 && x->shape.dims[0] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid input first dimension. Found 0.");
  if (dims->shape.rank == 1 && x->shape.rank == 0) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  if (dims->shape.rank != 1 || dims->count != x->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "'dims' must have the same number of values as 'input' has dimensions. 'input' has "
                      "%d'dims' has %" PRId64 " values",
                      x->shape.rank, dims->count);
  }
  for (int d = 0; d < x->shape.rank; d++) axes[d] = ((const uint8_t *)dims->data)[d] != 0;
  return reverse(ctx, axes);
}

static weft_status_t *broadcast_to_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_shape_t shape;
  if (weft_in(ctx, 1)->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be a vector of {int32,int64}, got shape %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 1)->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 1), "shape", &shape));
  if (x->shape.rank > shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Rank of input (%d) must be no greater than rank of output shape (%d).", x->shape.rank,
                      shape.rank);
  }
  if (weft_shape_eq(&shape, &x->shape)) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  int lead = shape.rank - x->shape.rank;
  int64_t strides[WEFT_MAX_DIMS];
  weft_strides_of(&x->shape, strides);
  weft_move_t m = {.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++) {
    int64_t mine = d < lead ? 1 : x->shape.dims[d - lead];
    if (mine != 1 && mine != shape.dims[d]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&x->shape),
                        WEFT_SHAPE_TEXT(&shape));
    }
    m.dims[d] = shape.dims[d];
    m.from_strides[d] = mine == 1 ? 0 : strides[d - lead];
  }
  weft_strides_of(&shape, m.to_strides);
  return weft_move_run(&m, ctx->device->pool, x, y);
}

enum { TILE_PARTS = 2 * WEFT_MAX_DIMS };

/* The parts of the axes of a tile: dimensions and the steps of both sides. */
typedef struct tile_parts {
  int n;
  int64_t dims[TILE_PARTS], from[TILE_PARTS], to[TILE_PARTS];
} tile_parts_t;

/* A part of one place is none, and one that goes on as the part before it does is the same part. */
static void add_part(tile_parts_t *p, int64_t dim, int64_t from, int64_t to) {
  if (dim == 1) return;
  const int last = p->n - 1;
  if (p->n > 0 && p->from[last] == dim * from && p->to[last] == dim * to) {
    p->dims[last] *= dim;
    p->from[last] = from;
    p->to[last] = to;
    return;
  }
  p->dims[p->n] = dim;
  p->from[p->n] = from;
  p->to[p->n++] = to;
}

/* A move takes WEFT_MAX_DIMS parts. The outer ones beyond that are counted here. */
static weft_status_t *run_parts(const tile_parts_t *p, weft_thread_pool_t *pool, const weft_tensor_t *x,
                                weft_tensor_t *y) {
  const int outer = p->n > WEFT_MAX_DIMS ? p->n - WEFT_MAX_DIMS : 0;
  weft_move_t m = {.rank = p->n - outer};
  for (int d = 0; d < m.rank; d++) {
    m.dims[d] = p->dims[outer + d];
    m.from_strides[d] = p->from[outer + d];
    m.to_strides[d] = p->to[outer + d];
  }
  int64_t at[TILE_PARTS] = {0};
  for (int d = 0; d >= 0;) {
    WEFT_RETURN_IF_ERROR(weft_move_run(&m, pool, x, y));
    for (d = outer - 1; d >= 0; d--) { /* the next place of the outer parts */
      m.from_base += p->from[d];
      m.to_base += p->to[d];
      if (++at[d] < p->dims[d]) break;
      m.from_base -= p->from[d] * p->dims[d];
      m.to_base -= p->to[d] * p->dims[d];
      at[d] = 0;
    }
  }
  return NULL;
}

/* Tile: each axis is seen as [times, dim], the first of which does not move in the source. */
static weft_status_t *tile_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *times = weft_in(ctx, 1), *y = NULL;
  int rank = x->shape.rank;
  if (times->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected multiples to be 1-D, but got shape %s",
                      WEFT_SHAPE_TEXT(&times->shape));
  }
  if (times->count != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected multiples argument to be a vector of length %d but got length %" PRId64, rank,
                      times->count);
  }
  weft_shape_t shape = {.rank = rank};
  bool is_same = true;
  for (int d = 0; d < rank; d++) {
    int64_t n = weft_cpu_int_at(times, d);
    if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected multiples[%d] >= 0, but got %" PRId64, d, n);
    if (!weft_cpu_mul(x->shape.dims[d], n, &shape.dims[d])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Tile: dimension %d is too large", d);
    }
    is_same &= n == 1;
  }
  if (is_same) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  int64_t from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
  weft_strides_of(&x->shape, from);
  weft_strides_of(&shape, to);
  tile_parts_t p = {.n = 0};
  for (int d = 0; d < rank; d++) {
    add_part(&p, weft_cpu_int_at(times, d), 0, to[d] * x->shape.dims[d]);
    add_part(&p, x->shape.dims[d], from[d], to[d]);
  }
  return run_parts(&p, ctx->device->pool, x, y);
}

/* Roll: each axis falls into two boxes; an n-fold roll into up to 2^n of them. Several shifts of one axis add
 * up. */
static weft_status_t *roll_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *shift = weft_in(ctx, 1), *axis = weft_in(ctx, 2), *y = NULL;
  int rank = x->shape.rank;
  if (rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "input must be 1-D or higher");
  if (shift->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shift must be a scalar or a 1-D vector. Found: %s",
                      WEFT_SHAPE_TEXT(&shift->shape));
  }
  if (axis->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "axis must be a scalar or a 1-D vector. Found: %s",
                      WEFT_SHAPE_TEXT(&axis->shape));
  }
  if (!weft_shape_eq(&shift->shape, &axis->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shift and axis must have the same size");
  }
  int64_t by[WEFT_MAX_DIMS] = {0};
  for (int64_t i = 0; i < axis->count; i++) {
    int at = 0;
    if (!weft_cpu_wrap_axis(weft_cpu_int_at(axis, i), rank, &at)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "axis %" PRId64 " is out of range", weft_cpu_int_at(axis, i));
    }
    int64_t dim = x->shape.dims[at] > 0 ? x->shape.dims[at] : 1;
    by[at] = (by[at] + (weft_cpu_int_at(shift, i) % dim + dim) % dim) % dim;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  if (x->count == 0) return NULL;
  int64_t strides[WEFT_MAX_DIMS];
  weft_strides_of(&x->shape, strides);
  for (int box = 0; box < 1 << rank; box++) { /* bit d: the part of axis d that wraps to the front */
    weft_move_t m = {.rank = rank};
    bool empty = false;
    for (int d = 0; d < rank; d++) {
      bool wraps = (box >> d & 1) != 0;
      m.dims[d] = wraps ? by[d] : x->shape.dims[d] - by[d];
      m.from_strides[d] = m.to_strides[d] = strides[d];
      m.from_base += wraps ? (x->shape.dims[d] - by[d]) * strides[d] : 0;
      m.to_base += wraps ? 0 : by[d] * strides[d];
      empty |= m.dims[d] == 0;
    }
    if (!empty) WEFT_RETURN_IF_ERROR(weft_move_run(&m, ctx->device->pool, x, y));
  }
  return NULL;
}

/* ReverseSequence: for each index of batch_dim, the first lengths[i] entries of seq_dim are reversed. */
WEFT_ATTRS(reverse_sequence_compute, (INT, batch_dim), (INT, seq_dim))
static weft_status_t *reverse_sequence_compute(weft_kernel_ctx_t *ctx,
                                               const reverse_sequence_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *lengths = weft_in(ctx, 1), *y = NULL;
  int rank = x->shape.rank, batch = 0, seq = 0;
  if (lengths->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "seq_lens input must be 1-dim, not %d", lengths->shape.rank);
  if (!weft_cpu_wrap_axis(attrs->batch_dim, rank, &batch)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid batch_dim %" PRId64, attrs->batch_dim);
  }
  if (!weft_cpu_wrap_axis(attrs->seq_dim, rank, &seq))
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid seq_dim %" PRId64, attrs->seq_dim);
  if (batch == seq) return WEFT_ERROR(INVALID_ARGUMENT, "batch_dim == seq_dim == %d", seq);
  if (lengths->count != x->shape.dims[batch]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Length of seq_lengths != input.dims(%d), (%" PRId64 " vs. %" PRId64 ")", batch,
                      lengths->count, x->shape.dims[batch]);
  }
  for (int64_t i = 0; i < lengths->count; i++) {
    int64_t n = weft_cpu_int_at(lengths, i);
    if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "seq_lens(%" PRId64 ") < 0", i);
    if (n > x->shape.dims[seq]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "seq_lens(%" PRId64 ") > input.dims(%d)", i, seq);
    }
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  if (x->count == 0) return NULL;
  weft_move_t whole = {.rank = rank};
  weft_strides_of(&x->shape, whole.from_strides);
  weft_strides_of(&x->shape, whole.to_strides);
  memcpy(whole.dims, x->shape.dims, (size_t)rank * sizeof whole.dims[0]);
  for (int64_t i = 0; i < lengths->count; i++) {
    int64_t n = weft_cpu_int_at(lengths, i), stride = whole.to_strides[seq];
    weft_move_t m = whole;
    m.dims[batch] = 1;
    m.from_base = m.to_base = i * whole.to_strides[batch];
    if (n < x->shape.dims[seq]) { /* what stays */
      weft_move_t rest = m;
      rest.dims[seq] -= n;
      rest.from_base = rest.to_base += n * stride;
      WEFT_RETURN_IF_ERROR(weft_move_run(&rest, ctx->device->pool, x, y));
    }
    if (n == 0) continue;
    m.dims[seq] = n;
    m.from_strides[seq] = -stride;
    m.from_base += (n - 1) * stride;
    WEFT_RETURN_IF_ERROR(weft_move_run(&m, ctx->device->pool, x, y));
  }
  return NULL;
}

const weft_kernel_t weft_cpu_transpose_kernels[] = {
    WEFT_KERNEL("BroadcastTo", NULL, 0, NULL, broadcast_to_compute, NULL),
    WEFT_KERNEL("ConjugateTranspose", NULL, 0, NULL, conjugate_transpose_compute, NULL),
    WEFT_KERNEL("Reverse", NULL, 0, NULL, reverse_compute, NULL),
    WEFT_KERNEL_ATTRS("ReverseSequence", NULL, 0, reverse_sequence_compute),
    WEFT_KERNEL("ReverseV2", NULL, 0, NULL, reverse_v2_compute, NULL),
    WEFT_KERNEL("Roll", NULL, 0, NULL, roll_compute, NULL),
    WEFT_KERNEL("Tile", NULL, 0, NULL, tile_compute, NULL),
    WEFT_KERNEL("Transpose", NULL, 0, NULL, transpose_compute, NULL),
    {0},
};
