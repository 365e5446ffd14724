/* kernels/cpu/array/unique.c - Unique, UniqueWithCounts, their V2 forms along an axis, and ListDiff.
 *
 * Single numbers go into a table of their own (key_table.h). Rows of several, texts and complex numbers go
 * into a hash table of row numbers, open addressing, at most half full. Values compare as numbers: 0 and -0
 * are one value, a NaN equals nothing.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/array/key_table.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/indices.h"
#include "kernels/cpu/loops/move.h"

/* ---- rows of `width` elements ---- */

typedef struct unique_rows {
  const weft_tensor_t *t;
  int64_t n, width;
} unique_rows_t;

static bool is_float_like(weft_dtype_t d) { return weft_dtype_is_floating(d) || weft_dtype_is_complex(d); }

static weft_c128_t number_at(const weft_tensor_t *t, int64_t i) {
  weft_c128_t v;
  weft_cpu_cast_loop(t->dtype, WEFT_C128)(1, (const char *)t->data + (size_t)i * weft_dtype_size(t->dtype),
                                          &v);
  return v;
}

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

static uint64_t row_hash(const unique_rows_t *r, int64_t row) {
  uint64_t h = 0x8445D61A4E774912u;
  size_t size = weft_dtype_size(r->t->dtype);
  for (int64_t i = row * r->width; i < (row + 1) * r->width; i++) {
    if (r->t->dtype == WEFT_STRING) {
      h = mix(h, weft_str_hash(weft_tensor_str_at(r->t, i)));
    } else if (is_float_like(r->t->dtype)) {
      weft_c128_t v = number_at(r->t, i);
      uint64_t bits[2];
      v.re += 0.0; /* -0 becomes 0 */
      v.im += 0.0;
      memcpy(bits, &v, sizeof bits);
      h = mix(mix(h, bits[0]), bits[1]);
    } else {
      uint64_t bits = 0;
      memcpy(&bits, (const char *)r->t->data + (size_t)i * size, size);
      h = mix(h, bits);
    }
  }
  return h;
}

static bool row_eq(const unique_rows_t *a, int64_t i, const unique_rows_t *b, int64_t k) {
  size_t size = weft_dtype_size(a->t->dtype), bytes = (size_t)a->width * size;
  if (bytes == 0) return true;
  if (a->t->dtype != WEFT_STRING && !is_float_like(a->t->dtype)) {
    return memcmp((const char *)a->t->data + (size_t)i * bytes, (const char *)b->t->data + (size_t)k * bytes,
                  bytes) == 0;
  }
  for (int64_t e = 0; e < a->width; e++) {
    int64_t p = i * a->width + e, q = k * b->width + e;
    if (a->t->dtype == WEFT_STRING) {
      if (!weft_str_eq(weft_tensor_str_at(a->t, p), weft_tensor_str_at(b->t, q))) return false;
    } else {
      weft_c128_t x = number_at(a->t, p), y = number_at(b->t, q);
      if (!(x.re == y.re && x.im == y.im)) return false;
    }
  }
  return true;
}

/* ---- the table ---- */

typedef struct table {
  const unique_rows_t *rows;
  int64_t *slots; /* owned: a row, or -1 */
  uint64_t mask;
} table_t;

static weft_status_t *table_init(table_t *t, const unique_rows_t *rows) {
  uint64_t size = 16;
  while (size < 2 * (uint64_t)rows->n) size *= 2;
  *t = (table_t){rows, weft_calloc(size, sizeof *t->slots), size - 1};
  if (t->slots == NULL) return WEFT_NO_MEMORY("a table of %" PRIu64 " values", size);
  memset(t->slots, 0xff, size * sizeof *t->slots);
  return NULL;
}

/* The slot that holds a row equal to row i of `rows`, or an empty one. */
static int64_t *table_slot(const table_t *t, const unique_rows_t *rows, int64_t i) {
  for (uint64_t at = row_hash(rows, i);; at++) {
    int64_t *slot = &t->slots[at & t->mask];
    if (*slot < 0 || row_eq(t->rows, *slot, rows, i)) return slot;
  }
}

/* ---- Unique ---- */

static void put_int(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I64) {
    ((int64_t *)t->data)[i] = v;
  } else {
    ((int32_t *)t->data)[i] = (int32_t)v;
  }
}

static void put_places(weft_tensor_t *t, int64_t begin, int64_t n, const int64_t *places) {
  if (t->dtype == WEFT_I64) {
    memcpy((int64_t *)t->data + begin, places, (size_t)n * sizeof *places);
  } else {
    for (int64_t i = 0; i < n; i++) ((int32_t *)t->data)[begin + i] = (int32_t)places[i];
  }
}

/* find_unique() of single numbers. */
static weft_status_t *find_numbers(const weft_tensor_t *x, int64_t *first, weft_tensor_t *which,
                                   int64_t *out_n) {
  weft_key_table_t table;
  int64_t places[WEFT_KEY_BLOCK], num = 0;
  bool has_room = true;
  weft_key_table_init(&table, x->dtype, x->count);
  for (int64_t i = 0, n = 0; i < x->count && has_room; i += n) {
    n = x->count - i < WEFT_KEY_BLOCK ? x->count - i : WEFT_KEY_BLOCK;
    has_room = weft_key_table_add(&table, x, i, n, places);
    for (int64_t k = 0; k < n && num < table.n; k++) {
      if (places[k] == num) first[num++] = i + k;
    }
    put_places(which, i, n, places);
  }
  weft_key_table_deinit(&table);
  *out_n = num;
  return has_room ? NULL : WEFT_NO_MEMORY("a table of %" PRId64 " values", num);
}

/* `first` lists the rows that are new, in order; `which` gives each row's place in that list. */
static weft_status_t *find_unique(const unique_rows_t *rows, int64_t *first, weft_tensor_t *which,
                                  int64_t *out_n) {
  table_t table;
  if (rows->width == 1 && weft_has_keys(rows->t->dtype)) return find_numbers(rows->t, first, which, out_n);
  WEFT_RETURN_IF_ERROR(table_init(&table, rows));
  int64_t n = 0;
  for (int64_t i = 0; i < rows->n; i++) {
    int64_t *slot = table_slot(&table, rows, i);
    if (*slot < 0) {
      *slot = i;
      put_int(which, i, n);
      first[n++] = i;
    } else {
      put_int(which, i, weft_cpu_int_at(which, *slot));
    }
  }
  weft_free(table.slots);
  *out_n = n;
  return NULL;
}

/* Rows `first` of `rows`, one behind the other. */
static weft_status_t *pick(const unique_rows_t *rows, const int64_t *first, int64_t n, weft_tensor_t *y) {
  const int64_t width = rows->width;
  const void *x = rows->t->data;
#define PICK(type) \
  for (int64_t i = 0; i < n; i++) ((type *)y->data)[i] = ((const type *)x)[first[i]]
  switch (width == 1 && weft_dtype_is_plain(y->dtype) ? weft_dtype_size(y->dtype) : 0) {
    case 4: PICK(uint32_t); return NULL;
    case 8: PICK(uint64_t); return NULL;
    default: break;
  }
#undef PICK
  for (int64_t i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, i * width, rows->t, first[i] * width, width));
  }
  return NULL;
}

static void count_values(const weft_tensor_t *which, weft_tensor_t *counts) {
  weft_cpu_zero(counts);
  for (int64_t i = 0; i < which->count; i++) {
    const int64_t at = weft_index_at(which, i);
    if (counts->dtype == WEFT_I64) {
      ((int64_t *)counts->data)[at]++;
    } else {
      ((int32_t *)counts->data)[at]++;
    }
  }
}

/* [.., axis, ..] to [axis, ..] or back. */
static weft_status_t *swap_axis(weft_kernel_ctx_t *ctx, const weft_tensor_t *x, int axis, bool back,
                                weft_tensor_t *y) {
  weft_move_t m = {.rank = 3};
  const weft_tensor_t *full = back ? y : x;
  int64_t outer = weft_cpu_product(&full->shape, 0, axis), n = full->shape.dims[axis];
  int64_t inner = weft_cpu_product(&full->shape, axis + 1, full->shape.rank);
  int64_t plain[3] = {n * inner, inner, 1}, swapped[3] = {inner, outer * inner, 1};
  m.dims[0] = outer;
  m.dims[1] = n;
  m.dims[2] = inner;
  memcpy(m.from_strides, back ? swapped : plain, sizeof plain);
  memcpy(m.to_strides, back ? plain : swapped, sizeof plain);
  return weft_move_run(&m, ctx->device->pool, x, y);
}

static weft_status_t *unique(weft_kernel_ctx_t *ctx, int axis) {
  weft_tensor_t *x = weft_in(ctx, 0), *turned = NULL, *picked = NULL, *y = NULL, *idx = NULL, *counts = NULL;
  int64_t size = x->shape.dims[axis], n = 0;
  unique_rows_t rows = {x, size, size > 0 ? x->count / size : 0};
  int64_t *first = weft_malloc((size_t)size * sizeof *first);
  weft_status_t *s = first == NULL ? WEFT_NO_MEMORY("Unique") : NULL;
  if (s == NULL && axis > 0) {
    s = weft_tensor_new(x->dtype, &x->shape, NULL, &turned);
    if (s == NULL) s = swap_axis(ctx, x, axis, false, turned);
    rows.t = turned;
  }
  const weft_shape_t flat = weft_shape_vector(size);
  if (s == NULL) s = weft_out_new(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), &flat, &idx);
  if (s == NULL) s = find_unique(&rows, first, idx, &n);
  weft_shape_t shape = x->shape;
  const weft_shape_t per_value = weft_shape_vector(n);
  shape.dims[axis] = n;
  if (s == NULL) s = weft_out_new(ctx, 0, x->dtype, &shape, &y);
  if (s == NULL && axis > 0) s = weft_tensor_new(x->dtype, &shape, NULL, &picked);
  if (s == NULL) s = pick(&rows, first, n, axis > 0 ? picked : y);
  if (s == NULL && axis > 0) s = swap_axis(ctx, picked, axis, true, y);
  if (s == NULL && ctx->node->num_outputs > 2) {
    s = weft_out_new(ctx, 2, weft_dtype_base(ctx->node->output_types[2]), &per_value, &counts);
    if (s == NULL) count_values(idx, counts);
  }
  weft_free(first);
  weft_tensor_release(turned);
  weft_tensor_release(picked);
  return s;
}

static weft_status_t *unique_compute(weft_kernel_ctx_t *ctx) {
  if (weft_in(ctx, 0)->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "unique expects a 1D vector.");
  return unique(ctx, 0);
}

static weft_status_t *unique_v2_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *axes = weft_in(ctx, 1);
  if (axes->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "axis expects a 1D vector.");
  if (axes->count > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "axis does not support input tensors larger than 1 elements");
  }
  if (axes->count == 0) return unique_compute(ctx);
  int at = 0;
  int64_t axis = weft_cpu_int_at(axes, 0);
  if (!weft_cpu_wrap_axis(axis, x->shape.rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "axis has to be between [0, %d)", x->shape.rank);
  }
  return unique(ctx, at);
}

/* ---- ListDiff: what is in x and not in y, in order, with duplicates ---- */

/* `kept` lists the elements of x that y does not have; how many. */
static weft_status_t *keep_numbers(const weft_tensor_t *x, const weft_tensor_t *y, int64_t *kept,
                                   int64_t *out_n) {
  weft_key_table_t table;
  int64_t places[WEFT_KEY_BLOCK], num = 0;
  bool found[WEFT_KEY_BLOCK], has_room = true;
  weft_key_table_init(&table, y->dtype, y->count);
  for (int64_t i = 0, n = 0; i < y->count && has_room; i += n) {
    n = y->count - i < WEFT_KEY_BLOCK ? y->count - i : WEFT_KEY_BLOCK;
    has_room = weft_key_table_add(&table, y, i, n, places);
  }
  for (int64_t i = 0, n = 0; i < x->count && has_room; i += n) {
    n = x->count - i < WEFT_KEY_BLOCK ? x->count - i : WEFT_KEY_BLOCK;
    weft_key_table_find(&table, x, i, n, found);
    for (int64_t k = 0; k < n; k++) {
      kept[num] = i + k;
      num += !found[k];
    }
  }
  weft_key_table_deinit(&table);
  *out_n = num;
  return has_room ? NULL : WEFT_NO_MEMORY("a table of %" PRId64 " values", y->count);
}

static weft_status_t *keep_others(const weft_tensor_t *x, const weft_tensor_t *y, int64_t *kept,
                                  int64_t *out_n) {
  unique_rows_t xs = {x, x->count, 1}, ys = {y, y->count, 1};
  table_t table;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(table_init(&table, &ys));
  for (int64_t i = 0; i < y->count; i++) {
    int64_t *slot = table_slot(&table, &ys, i);
    if (*slot < 0) *slot = i;
  }
  for (int64_t i = 0; i < x->count; i++) {
    if (*table_slot(&table, &xs, i) < 0) kept[n++] = i;
  }
  weft_free(table.slots);
  *out_n = n;
  return NULL;
}

static weft_status_t *list_diff_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *out = NULL, *idx = NULL;
  if (x->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "x should be a 1D vector.");
  if (y->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "y should be a 1D vector.");
  int64_t n = 0, *kept = weft_malloc((size_t)x->count * sizeof *kept);
  weft_status_t *s = kept == NULL ? WEFT_NO_MEMORY("the places of %" PRId64 " values", x->count) : NULL;
  if (s == NULL) s = weft_has_keys(x->dtype) ? keep_numbers(x, y, kept, &n) : keep_others(x, y, kept, &n);
  weft_shape_t shape = weft_shape_vector(n);
  if (s == NULL) s = weft_out_new(ctx, 0, x->dtype, &shape, &out);
  if (s == NULL) s = weft_out_new(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), &shape, &idx);
  const size_t size = weft_dtype_size(x->dtype);
  for (int64_t i = 0; s == NULL && i < n; i++) {
    put_int(idx, i, kept[i]);
    if (size == 4 && weft_dtype_is_plain(x->dtype)) {
      memcpy((char *)out->data + i * 4, (const char *)x->data + kept[i] * 4, 4);
    } else {
      s = weft_cpu_copy(out, i, x, kept[i], 1);
    }
  }
  weft_free(kept);
  return s;
}

/* ---- Where: the coordinates of what is not zero ---- */

enum { WHERE_BLOCK = 2048 };

/* Which of n elements from `begin` on are not zero, as bytes of 0 and 1; how many. */
static int64_t find_set(const weft_tensor_t *t, int64_t begin, int64_t n, uint8_t *out) {
  const weft_dtype_t stored = weft_cpu_stored_as(t->dtype);
  const char *x = (const char *)t->data + (size_t)begin * weft_dtype_size(stored);
  int64_t num = 0;
  if (weft_dtype_is_complex(stored)) {
    for (int64_t i = 0; i < n; i++) {
      const weft_c128_t v = number_at(t, begin + i);
      out[i] = v.re != 0 || v.im != 0;
    }
  } else {
    weft_cpu_cast_loop(stored, WEFT_BOOL)(n, x, out);
  }
  for (int64_t i = 0; i < n; i++) num += out[i];
  return num;
}

/* Writes the coordinates of each of n elements of a row, and goes on to the next place where it is set:
 * without a branch that depends on the values. One behind them is set, or the last one is. */
static inline __attribute__((always_inline)) int64_t *put_run(const uint8_t *is_set, int64_t n,
                                                              const int64_t *index, const int rank,
                                                              int64_t *to) {
  const int64_t first = index[rank - 1];
  for (int64_t i = 0; i < n; i++) {
    for (int d = 0; d < rank - 1; d++) to[d] = index[d];
    to[rank - 1] = first + i;
    to += is_set[i] * rank;
  }
  return to;
}

static void advance(const weft_shape_t *shape, int64_t *index, int64_t n) {
  int d = shape->rank - 1;
  index[d] += n;
  for (; d > 0 && index[d] >= shape->dims[d]; d--) {
    index[d - 1] += index[d] / shape->dims[d];
    index[d] %= shape->dims[d];
  }
}

/* The coordinates of those of n elements that are set; `index`: of the first, and then of the next one. */
static int64_t *put_coordinates(const uint8_t *is_set, int64_t n, const weft_shape_t *shape, int64_t *index,
                                int64_t *to) {
  const int last = shape->rank - 1;
  int64_t used = n; /* nothing is written behind the last one: that place is another thread's */
  while (used > 0 && is_set[used - 1] == 0) used--;
  for (int64_t i = 0, run = 0; i < used; i += run) {
    run = shape->dims[last] - index[last] < used - i ? shape->dims[last] - index[last] : used - i;
    switch (shape->rank) {
      case 1: to = put_run(is_set + i, run, index, 1, to); break;
      case 2: to = put_run(is_set + i, run, index, 2, to); break;
      case 3: to = put_run(is_set + i, run, index, 3, to); break;
      case 4: to = put_run(is_set + i, run, index, 4, to); break;
      default: to = put_run(is_set + i, run, index, shape->rank, to); break;
    }
    advance(shape, index, run);
  }
  advance(shape, index, n - used);
  return to;
}

/* Pieces of WHERE_PIECE elements are counted side by side, and then write their coordinates side by side,
 * each behind those of the pieces before it. */
enum { WHERE_PIECE = 32 * WHERE_BLOCK };

typedef struct where_job {
  const weft_tensor_t *x;
  int64_t *ends; /* of each piece: how many are set in it, and later where its coordinates end */
  int64_t *to;
} where_job_t;

static int64_t piece_end(const where_job_t *j, int64_t piece) {
  const int64_t begin = piece * WHERE_PIECE;
  return j->x->count - begin < WHERE_PIECE ? j->x->count : begin + WHERE_PIECE;
}

static void count_range(void *arg, int64_t begin, int64_t end) {
  where_job_t *j = arg;
  uint8_t is_set[WHERE_BLOCK];
  for (int64_t p = begin; p < end; p++) {
    const int64_t limit = piece_end(j, p);
    int64_t n = 0;
    for (int64_t i = p * WHERE_PIECE; i < limit; i += WHERE_BLOCK) {
      n += find_set(j->x, i, limit - i < WHERE_BLOCK ? limit - i : WHERE_BLOCK, is_set);
    }
    j->ends[p] = n;
  }
}

static void put_range(void *arg, int64_t begin, int64_t end) {
  where_job_t *j = arg;
  const weft_shape_t *shape = &j->x->shape;
  uint8_t is_set[WHERE_BLOCK];
  for (int64_t p = begin; p < end; p++) {
    int64_t index[WEFT_MAX_DIMS] = {0}, rest = p * WHERE_PIECE;
    for (int d = shape->rank - 1; d >= 0; d--) {
      index[d] = rest % shape->dims[d];
      rest /= shape->dims[d];
    }
    int64_t *to = j->to + (p > 0 ? j->ends[p - 1] : 0) * shape->rank;
    const int64_t *last = j->to + j->ends[p] * shape->rank, limit = piece_end(j, p);
    for (int64_t i = p * WHERE_PIECE; i < limit && to < last; i += WHERE_BLOCK) {
      const int64_t here = limit - i < WHERE_BLOCK ? limit - i : WHERE_BLOCK;
      (void)find_set(j->x, i, here, is_set);
      to = put_coordinates(is_set, here, shape, index, to);
    }
  }
}

static weft_status_t *where_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  const int rank = x->shape.rank;
  if (rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "WhereOp : Unhandled input dimensions: 0");
  const int64_t pieces = x->count / WHERE_PIECE + (x->count % WHERE_PIECE != 0);
  where_job_t j = {.x = x, .ends = weft_calloc((size_t)pieces, sizeof *j.ends)};
  if (j.ends == NULL) return WEFT_NO_MEMORY("Where");
  weft_parallel_for(ctx->device->pool, pieces, 1, count_range, &j);
  for (int64_t p = 1; p < pieces; p++) j.ends[p] += j.ends[p - 1];
  const weft_shape_t shape = weft_shape_matrix(pieces > 0 ? j.ends[pieces - 1] : 0, rank);
  weft_status_t *s = weft_out_new(ctx, 0, WEFT_I64, &shape, &y);
  if (s == NULL) {
    j.to = y->data;
    weft_parallel_for(ctx->device->pool, pieces, 1, put_range, &j);
  }
  weft_free(j.ends);
  return s;
}

#define COMPARABLE (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_STRING))
#define COUNTABLE                                                                                            \
  (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_QINT8) | WEFT_DTYPE_BIT(WEFT_QUINT8) | \
   WEFT_DTYPE_BIT(WEFT_QINT16) | WEFT_DTYPE_BIT(WEFT_QUINT16) | WEFT_DTYPE_BIT(WEFT_QINT32))
const weft_kernel_t weft_cpu_unique_kernels[] = {
    WEFT_KERNEL("ListDiff", "T", COMPARABLE, NULL, list_diff_compute, NULL),
    WEFT_KERNEL("Unique", "T", COMPARABLE, NULL, unique_compute, NULL),
    WEFT_KERNEL("UniqueV2", "T", COMPARABLE, NULL, unique_v2_compute, NULL),
    WEFT_KERNEL("UniqueWithCounts", "T", COMPARABLE, NULL, unique_compute, NULL),
    WEFT_KERNEL("UniqueWithCountsV2", "T", COMPARABLE, NULL, unique_v2_compute, NULL),
    WEFT_KERNEL("Where", "T", COUNTABLE, NULL, where_compute, NULL),
    {0},
};
