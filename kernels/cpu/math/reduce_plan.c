/* kernels/cpu/math/reduce_plan.c - how a reduction walks memory.
 *
 * If the last run of dimensions is reduced, each result is a sum over contiguous pieces. If it is kept, a row
 * of accumulators takes one row of elements after the other. A reduction with nothing kept in front is cut
 * into pieces of a fixed size, whose partial results are joined in order: so it uses all threads, and gives
 * the same bits on any number of them.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "kernels/cpu/loops/move.h"
#include "kernels/cpu/math/reduce.h"

enum {
  PIECE = 65536, /* elements a thread takes at a time */
  MOST_ACC = 16, /* bytes of an accumulator: a complex one of doubles */
  TURNED_BYTES = 16384,
  RESULTS = 256, /* of runs, at a time */
};

weft_status_t *weft_reduction_axes(const weft_tensor_t *t, int rank, bool *axes) {
  memset(axes, 0, WEFT_MAX_DIMS * sizeof *axes);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t axis = weft_cpu_int_at(t, i);
    int at = 0;
    if (!weft_cpu_wrap_axis(axis, rank, &at)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid reduction dimension (%" PRId64 " for input with %d dimension(s)", axis,
                        rank);
    }
    if (axes[at]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid reduction arguments: Axes contains duplicate dimension: %d", at);
    }
    axes[at] = true;
  }
  return NULL;
}

void weft_reduction_shape(const weft_shape_t *shape, const bool *axes, bool keep_dims, weft_shape_t *out) {
  *out = WEFT_SCALAR;
  for (int d = 0; d < shape->rank; d++) {
    if (!axes[d]) {
      out->dims[out->rank++] = shape->dims[d];
    } else if (keep_dims) {
      out->dims[out->rank++] = 1;
    }
  }
}

void weft_reduction_plan(const weft_shape_t *shape, const bool *axes, weft_reduced_dims_t *out) {
  *out = (weft_reduced_dims_t){.out_count = 1, .count = 1};
  for (int d = 0; d < shape->rank; d++) {
    int64_t dim = shape->dims[d];
    int64_t *count = axes[d] ? &out->count : &out->out_count;
    if (!weft_cpu_mul(*count, dim, count)) *count = INT64_MAX; /* the other count is 0 then: x is empty */
    if (dim == 1) continue;
    if (out->rank > 0 && out->reduced[out->rank - 1] == axes[d]) {
      out->dims[out->rank - 1] *= dim;
    } else {
      out->dims[out->rank] = dim;
      out->reduced[out->rank++] = axes[d];
    }
  }
}

/* The dimensions in front of the last, kept and reduced apart. */
typedef struct reduce_walk {
  int n;
  int64_t dims[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS], count;
} reduce_walk_t;

static int64_t walk_offset(const reduce_walk_t *w, int64_t i) {
  int64_t at = 0;
  for (int d = w->n - 1; d >= 0; d--) {
    at += i % w->dims[d] * w->strides[d];
    i /= w->dims[d];
  }
  return at;
}

typedef struct reduce_job {
  const reduce_fns_t *fns;
  reduce_walk_t kept, reduced; /* in front of the last run */
  int64_t inner;               /* length of the last run */
  bool inner_is_reduced;
  int64_t count;
  size_t elem_size;
  const char *x;
  char *y;
  int64_t piece; /* of the cut kind: rows (or elements) in a piece */
  char *partial; /* and one row of accumulators for each piece */
  int64_t total;
} reduce_job_t;

static void fold(const reduce_job_t *j, int64_t base, int64_t begin, int64_t end, void *acc) {
  const reduce_walk_t *w = &j->reduced;
  const int64_t dim = w->n > 0 ? w->dims[w->n - 1] : 1, stride = w->n > 0 ? w->strides[w->n - 1] : 0;
  for (int64_t r = begin, m = 1; r < end; r += m) {
    const char *x = j->x + (size_t)(base + walk_offset(w, r)) * j->elem_size;
    if (j->inner_is_reduced) {
      j->fns->runs(1, j->inner, x, acc);
      continue;
    }
    m = dim - r % dim < end - r ? dim - r % dim : end - r; /* rows that are `stride` apart */
    j->fns->rows(m, stride, j->inner, x, acc);
  }
}

/* Results of kept index [begin, end), each over a run of elements. Of short runs the block is turned: as
 * columns, a loop takes many results side by side. */
static void fold_runs(const reduce_job_t *j, int64_t begin, int64_t end) {
  _Alignas(64) char turned[TURNED_BYTES], acc[RESULTS * MOST_ACC];
  const int64_t run = j->inner * (int64_t)j->elem_size, fits = TURNED_BYTES / run;
  const bool is_short = j->inner < WEFT_REDUCE_WIDTH;
  const int64_t most = is_short && fits < RESULTS ? fits : RESULTS;
  for (int64_t k = begin, m = 0; k < end; k += m) {
    const char *x = j->x + (size_t)(k * run);
    m = end - k < most ? end - k : most;
    j->fns->init(m, acc);
    if (is_short) {
      const weft_sheet_t runs = {
          .rows = m, .n = j->inner, .from_row = j->inner, .from_step = 1, .to_row = 1, .to_step = m};
      weft_move_sheet(&runs, x, turned, j->elem_size);
      j->fns->rows(j->inner, m, m, turned, acc);
    } else {
      j->fns->runs(m, j->inner, x, acc);
    }
    j->fns->finish(m, acc, j->count, j->y + (size_t)k * j->elem_size);
  }
}

void weft_reduction_rows(const reduce_fns_t *fns, size_t elem_size, int64_t rows, int64_t n, const void *x,
                         void *y) {
  const reduce_job_t j = {.fns = fns, .inner = n, .count = n, .elem_size = elem_size, .x = x, .y = y};
  fold_runs(&j, 0, rows);
}

/* Results of kept index [begin, end). `acc` is scratch for one row of accumulators. */
static void fold_kept(const reduce_job_t *j, int64_t begin, int64_t end, void *acc) {
  if (j->inner_is_reduced && j->reduced.n == 0 && j->inner > 0) {
    fold_runs(j, begin, end);
    return;
  }
  int64_t width = j->inner_is_reduced ? 1 : j->inner;
  for (int64_t k = begin; k < end; k++) {
    j->fns->init(width, acc);
    fold(j, walk_offset(&j->kept, k), 0, j->reduced.count, acc);
    j->fns->finish(width, acc, j->count, j->y + (size_t)(k * width) * j->elem_size);
  }
}

static void kept_range(void *arg, int64_t begin, int64_t end) {
  const reduce_job_t *j = arg;
  double small[64];
  size_t bytes = (size_t)(j->inner_is_reduced ? 1 : j->inner) * j->fns->acc_size;
  if (bytes <= sizeof small) {
    fold_kept(j, begin, end, small);
    return;
  }
  void *acc = weft_malloc(bytes);
  if (acc != NULL) {
    fold_kept(j, begin, end, acc);
  } else { /* as many accumulators as fit on the stack at a time */
    reduce_job_t part = *j;
    int64_t step = (int64_t)(sizeof small / j->fns->acc_size);
    for (int64_t k = begin; k < end; k++) {
      int64_t base = walk_offset(&j->kept, k);
      for (int64_t at = 0; at < j->inner; at += step) {
        part.inner = j->inner - at < step ? j->inner - at : step;
        j->fns->init(part.inner, small);
        fold(&part, base + at, 0, j->reduced.count, small);
        j->fns->finish(part.inner, small, j->count, j->y + (size_t)(k * j->inner + at) * j->elem_size);
      }
    }
  }
  weft_free(acc);
}

static void piece_range(void *arg, int64_t begin, int64_t end) {
  const reduce_job_t *j = arg;
  int64_t width = j->inner_is_reduced ? 1 : j->inner;
  for (int64_t p = begin; p < end; p++) {
    char *acc = j->partial + (size_t)(p * width) * j->fns->acc_size;
    j->fns->init(width, acc);
    int64_t from = p * j->piece, to = from + j->piece < j->total ? from + j->piece : j->total;
    if (j->inner_is_reduced) {
      j->fns->runs(1, to - from, j->x + (size_t)from * j->elem_size, acc);
    } else {
      fold(j, 0, from, to, acc);
    }
  }
}

/* Nothing kept in front of a large reduction. */
static weft_status_t *run_cut(reduce_job_t *j, weft_thread_pool_t *pool) {
  int64_t width = j->inner_is_reduced ? 1 : j->inner;
  j->total = j->inner_is_reduced ? j->inner : j->reduced.count;
  j->piece = j->inner_is_reduced ? PIECE : (PIECE + width - 1) / width;
  if (j->total / j->piece > 256)
    j->piece = (j->total + 255) / 256; /* bounds the memory for partial results */
  int64_t pieces = (j->total + j->piece - 1) / j->piece;
  size_t bytes = 0;
  if (!weft_mul_size((size_t)(pieces * width), j->fns->acc_size, &bytes) ||
      (j->partial = weft_malloc(bytes)) == NULL) {
    return WEFT_NO_MEMORY("reducing");
  }
  weft_parallel_for(pool, pieces, 1, piece_range, j);
  size_t row = (size_t)width * j->fns->acc_size;
  for (int64_t p = 1; p < pieces; p++) j->fns->join(width, j->partial + (size_t)p * row, j->partial);
  j->fns->finish(width, j->partial, j->count, j->y);
  weft_free(j->partial);
  return NULL;
}

weft_status_t *weft_reduction_run(const weft_reduced_dims_t *r, weft_thread_pool_t *pool,
                                  const reduce_fns_t *fns, size_t elem_size, const void *x, void *y) {
  if (r->out_count == 0) return NULL;
  reduce_job_t j = {.fns = fns, .inner = 1, .count = r->count, .elem_size = elem_size, .x = x, .y = y};
  j.kept.count = j.reduced.count = 1;
  int outer = r->rank - 1;
  if (r->rank > 0) {
    j.inner = r->dims[outer];
    j.inner_is_reduced = r->reduced[outer];
  }
  int64_t strides[WEFT_MAX_DIMS], stride = j.inner;
  for (int d = outer - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= r->dims[d];
  }
  for (int d = 0; d < outer; d++) {
    reduce_walk_t *w = r->reduced[d] ? &j.reduced : &j.kept;
    w->dims[w->n] = r->dims[d];
    w->strides[w->n++] = strides[d];
    w->count *= r->dims[d];
  }
  if (r->rank == 0) j.inner_is_reduced = true;
  int64_t work = j.inner * j.reduced.count;
  if (j.kept.count == 1 && work >= WEFT_REDUCE_PIECES) return run_cut(&j, pool);
  const weft_unit_cost_t result = {.bytes = (double)work * (double)elem_size, .cycles = (double)work};
  weft_parallel_for_cost(pool, j.kept.count, result, kept_range, &j);
  return NULL;
}
