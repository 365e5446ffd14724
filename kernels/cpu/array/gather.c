/* kernels/cpu/array/gather.c - rows picked by index: Gather, GatherV2, GatherNd.
 *
 * An index out of range is an error that names its position; nothing wraps and nothing is clamped.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/indices.h"

/* A piece is asked for so many pieces before it is copied: pieces lie anywhere. */
enum { AHEAD = 4 };

/* The usual small pieces without a call. */
static inline void copy_plain(char *to, const char *from, size_t bytes) {
  switch (bytes) {
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    case 16: memcpy(to, from, 16); break;
    case 32: memcpy(to, from, 32); break;
    case 64: memcpy(to, from, 64); break;
    case 128: memcpy(to, from, 128); break;
    default: memcpy(to, from, bytes); break;
  }
}

/* out[b, o, i, :] = params[b, o, indices[b, i], :] */
typedef struct gather_job {
  const weft_tensor_t *params, *indices;
  weft_tensor_t *out;
  int64_t outer, n, size, inner; /* o, i, the gathered dimension, the elements of a piece */
  atomic_int_fast64_t bad;       /* position of a bad index; -1: none */
  weft_status_t *_Atomic status;
} gather_job_t;

/* Pieces [begin, end) in the order of the result. */
static void gather_range(void *arg, int64_t begin, int64_t end) {
  gather_job_t *j = arg;
  size_t elem = weft_dtype_size(j->params->dtype), bytes = (size_t)j->inner * elem;
  bool plain = weft_dtype_is_plain(j->params->dtype);
  const char *from = j->params->data;
  char *to = j->out->data;
  int64_t i = begin % j->n - 1, rest = begin / j->n;
  for (int64_t p = begin; p < end; p++) {
    if (++i == j->n) {
      i = 0;
      rest++;
    }
    const int64_t batch = j->outer == 1 ? rest : rest / j->outer;
    int64_t index = weft_index_at(j->indices, batch * j->n + i);
    if (i + AHEAD < j->n) { /* whatever the index is: a prefetch does not fail */
      const uint64_t next =
          (uint64_t)rest * (uint64_t)j->size + (uint64_t)weft_index_at(j->indices, batch * j->n + i + AHEAD);
      __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)(next * bytes)));
    }
    if (index < 0 || index >= j->size) {
      atomic_store(&j->bad, batch * j->n + i);
      return;
    }
    int64_t at = rest * j->size + index;
    if (plain) {
      copy_plain(to + (size_t)p * bytes, from + (size_t)at * bytes, bytes);
      continue;
    }
    weft_status_t *s = weft_cpu_copy(j->out, p * j->inner, j->params, at * j->inner, j->inner), *none = NULL;
    if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
  }
}

static weft_status_t *gather(weft_kernel_ctx_t *ctx, int axis, int batch_dims) {
  weft_tensor_t *params = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *out = NULL;
  const weft_shape_t *ps = &params->shape, *is = &indices->shape;
  weft_shape_t shape = WEFT_SCALAR;
  if (ps->rank - 1 + is->rank - batch_dims > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "gather: the result has too many dimensions");
  }
  for (int d = 0; d < axis; d++) shape.dims[shape.rank++] = ps->dims[d];
  for (int d = batch_dims; d < is->rank; d++) shape.dims[shape.rank++] = is->dims[d];
  for (int d = axis + 1; d < ps->rank; d++) shape.dims[shape.rank++] = ps->dims[d];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, params->dtype, &shape, &out));
  if (out->count == 0) return NULL;
  gather_job_t j = {.params = params,
                    .indices = indices,
                    .out = out,
                    .outer = weft_cpu_product(ps, batch_dims, axis),
                    .n = weft_cpu_product(is, batch_dims, is->rank),
                    .size = ps->dims[axis],
                    .inner = weft_cpu_product(ps, axis + 1, ps->rank)};
  atomic_init(&j.bad, -1);
  const double slice = (double)j.inner * (double)weft_dtype_size(params->dtype);
  const weft_unit_cost_t unit = {.bytes = 64 + 2 * slice, .cycles = 8}; /* a line that is not in the cache */
  weft_parallel_for_cost(ctx->device->pool, out->count / j.inner, unit, gather_range, &j);
  if (atomic_load(&j.bad) >= 0) {
    weft_status_free(atomic_load(&j.status));
    int64_t at = atomic_load(&j.bad);
    char text[WEFT_INDEX_TEXT];
    return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %" PRId64 " is not in [0, %" PRId64 ")",
                      weft_index_print(is, is->rank, at, text), weft_cpu_int_at(indices, at), j.size);
  }
  return atomic_load(&j.status);
}

static weft_status_t *gather_compute(weft_kernel_ctx_t *ctx) {
  if (weft_in(ctx, 0)->shape.rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least 1 dimensional");
  return gather(ctx, 0, 0);
}

WEFT_ATTRS(gather_v2_compute, (INT, batch_dims))
static weft_status_t *gather_v2_compute(weft_kernel_ctx_t *ctx, const gather_v2_compute_attrs_t *attrs) {
  const weft_tensor_t *params = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *axis_tensor = weft_in(ctx, 2);
  int rank = params->shape.rank, axis = 0;
  if (rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least 1 dimensional");
  if (axis_tensor->count != 1) return WEFT_ERROR(INVALID_ARGUMENT, "axis must be scalar");
  int64_t given = weft_cpu_int_at(axis_tensor, 0), batch = attrs->batch_dims;
  if (!weft_cpu_wrap_axis(given, rank, &axis)) {
    uint64_t least = given < 0 ? 0 - (uint64_t)given : (uint64_t)given + 1;
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRIu64 " but is rank %d", least,
                      rank);
  }
  int irank = indices->shape.rank;
  if (batch < -irank || batch > irank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected batch_dims in the range [%d, %d], but got %" PRId64, -irank,
                      irank, batch);
  }
  if (batch < 0) batch += irank;
  if (batch >= rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_dims (%" PRId64 ") must be less than rank(params) (%d).",
                      batch, rank);
  }
  if (axis < batch) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_dims (%" PRId64 ") must be less than or equal to axis (%d).",
                      batch, axis);
  }
  for (int d = 0; d < (int)batch; d++) {
    if (params->shape.dims[d] == indices->shape.dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "params.shape[%d]: %" PRId64 " should be equal to indices.shape[%d]: %" PRId64, d,
                      params->shape.dims[d], d, indices->shape.dims[d]);
  }
  return gather(ctx, axis, (int)batch);
}

typedef struct nd_job {
  const weft_tensor_t *params, *indices;
  weft_tensor_t *out;
  int64_t depth, inner; /* of a row of indices, of what it names */
  bool ignores;
  atomic_int_fast64_t
      bad; /* the last row of indices that names nothing, as TensorFlow's error says; -1: none */
  weft_status_t *status; /* of what is not plain, and so of one thread */
} nd_job_t;

enum { FEW_PIECES = 8 }; /* of more bytes than a few lines: the processor goes on by itself within one */

/* Pieces of `bytes` each from the n positions of `at` (in pieces) to `to`; zeros where it is -1. */
static inline __attribute__((always_inline)) void copy_pieces(const char *from, const int64_t *at, int64_t n,
                                                              const size_t bytes, char *to) {
  for (int64_t i = 0; i < n; i++, to += bytes) {
    if (at[i] < 0) {
      memset(to, 0, bytes);
    } else {
      memcpy(to, from + (size_t)at[i] * bytes, bytes);
    }
  }
}

static void gather_pieces(const char *from, const int64_t *at, int64_t n, size_t bytes, char *to) {
  for (int64_t i = 0; bytes > 8 && i < n; i++) { /* whatever is there: a prefetch does not fail */
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)((size_t)at[i] * bytes)));
  }
  switch (bytes) { /* the usual small pieces without a call */
    case 1: copy_pieces(from, at, n, 1, to); break;
    case 2: copy_pieces(from, at, n, 2, to); break;
    case 4: copy_pieces(from, at, n, 4, to); break;
    case 8: copy_pieces(from, at, n, 8, to); break;
    case 16: copy_pieces(from, at, n, 16, to); break;
    case 32: copy_pieces(from, at, n, 32, to); break;
    case 64: copy_pieces(from, at, n, 64, to); break;
    case 128: copy_pieces(from, at, n, 128, to); break;
    default: copy_pieces(from, at, n, bytes, to); break;
  }
}

/* Pieces from the n positions of `at` to rows from `to` on. */
static void gather_elements(nd_job_t *j, const int64_t *at, int64_t n, int64_t to) {
  for (int64_t i = 0; i < n && j->status == NULL; i++) {
    if (at[i] >= 0)
      j->status = weft_cpu_copy(j->out, (to + i) * j->inner, j->params, at[i] * j->inner, j->inner);
  }
}

/* Rows [begin, end) of indices. One that names nothing gives zeros, or is the error. */
static void nd_range(void *arg, int64_t begin, int64_t end) {
  nd_job_t *j = arg;
  const size_t bytes = (size_t)j->inner * weft_dtype_size(j->out->dtype);
  const bool is_plain = weft_dtype_is_plain(j->out->dtype);
  const int64_t block = bytes > 256 ? FEW_PIECES : WEFT_INDEX_BLOCK;
  int64_t at[WEFT_INDEX_BLOCK];
  for (int64_t i = begin, n = 0; i < end; i += n) {
    n = end - i < block ? end - i : block;
    const int64_t bad = weft_index_positions(j->indices, i, n, j->depth, &j->params->shape, at);
    if (is_plain) {
      gather_pieces(j->params->data, at, n, bytes, (char *)j->out->data + (size_t)i * bytes);
    } else {
      gather_elements(j, at, n, i); /* on one thread */
    }
    if (bad < 0 || j->ignores) continue;
    int_fast64_t last = atomic_load(&j->bad);
    while (bad > last && !atomic_compare_exchange_weak(&j->bad, &last, bad)) {
    }
  }
}

WEFT_ATTRS_OF(gather_nd_compute, weft_bad_indices)
static weft_status_t *gather_nd_compute(weft_kernel_ctx_t *ctx, const weft_bad_indices_attrs_t *attrs) {
  weft_tensor_t *params = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *out = NULL;
  const weft_shape_t *ps = &params->shape, *is = &indices->shape;
  if (ps->rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least a vector");
  if (is->rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "indices must be at least a vector");
  int64_t depth = is->dims[is->rank - 1];
  if (depth > ps->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "index innermost dimension length must be <= params rank; saw: %" PRId64 " vs. %d",
                      depth, ps->rank);
  }
  weft_shape_t shape = WEFT_SCALAR;
  if (is->rank - 1 + ps->rank - (int)depth > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "GatherNd: the result has too many dimensions");
  }
  for (int d = 0; d < is->rank - 1; d++) shape.dims[shape.rank++] = is->dims[d];
  for (int d = (int)depth; d < ps->rank; d++) shape.dims[shape.rank++] = ps->dims[d];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, params->dtype, &shape, &out));
  int64_t n = weft_cpu_product(is, 0, is->rank - 1), inner = weft_cpu_product(ps, (int)depth, ps->rank);
  if (n > 0 && params->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Requested more than 0 entries, but params is empty.  Params shape: %s",
                      WEFT_SHAPE_TEXT(ps));
  }
  nd_job_t j = {.params = params,
                .indices = indices,
                .out = out,
                .depth = depth,
                .inner = inner,
                .ignores = weft_ignores_bad_indices(attrs)};
  atomic_init(&j.bad, -1);
  if (weft_dtype_is_plain(params->dtype)) {
    const double slice = (double)inner * (double)weft_dtype_size(params->dtype);
    const weft_unit_cost_t row = {.bytes = 64 + 2 * slice, .cycles = 8 + 2 * (double)depth};
    weft_parallel_for_cost(ctx->device->pool, n, row, nd_range, &j);
  } else {
    nd_range(&j, 0, n);
  }
  const int64_t bad = atomic_load(&j.bad);
  if (bad < 0 || j.status != NULL) return j.status;
  char where[WEFT_INDEX_TEXT], what[WEFT_INDEX_TEXT];
  return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %s does not index into param shape %s, node name: %s",
                    weft_index_print(is, is->rank - 1, bad, where),
                    weft_index_values(indices, bad, depth, what), WEFT_SHAPE_TEXT(ps), ctx->node->name.data);
}

const weft_kernel_t weft_cpu_gather_kernels[] = {
    WEFT_KERNEL("Gather", NULL, 0, NULL, gather_compute, NULL),
    WEFT_KERNEL_ATTRS("GatherNd", NULL, 0, gather_nd_compute),
    WEFT_KERNEL_ATTRS("GatherV2", NULL, 0, gather_v2_compute),
    {0},
};
