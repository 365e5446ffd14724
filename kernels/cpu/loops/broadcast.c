/* kernels/cpu/loops/broadcast.c - see the header. */
#include "kernels/cpu/loops/broadcast.h"

#include "kernels/cpu/loops/cost.h"

static int64_t dim_of(const weft_shape_t *s, int rank, int d) {
  int at = d - (rank - s->rank);
  return at < 0 ? 1 : s->dims[at];
}

static bool result_shape(const weft_shape_t *const *shapes, int n, weft_shape_t *out) {
  int rank = 0;
  for (int k = 0; k < n; k++) rank = shapes[k]->rank > rank ? shapes[k]->rank : rank;
  *out = (weft_shape_t){.rank = rank};
  for (int d = 0; d < rank; d++) {
    int64_t dim = 1;
    for (int k = 0; k < n; k++) {
      int64_t mine = dim_of(shapes[k], rank, d);
      if (mine == 1 || mine == dim) continue;
      if (dim != 1) return false;
      dim = mine;
    }
    out->dims[d] = dim;
  }
  return weft_shape_count(out) >= 0;
}

/* Two equal shapes, by far the most usual case: one run. */
static bool init_same(weft_broadcast_t *b, const weft_shape_t *shape) {
  b->count = weft_shape_count(shape);
  if (b->count < 0) return false;
  b->shape = *shape;
  b->num_operands = 2;
  b->rank = 1;
  b->dims[0] = b->count;
  b->strides[0][0] = b->strides[1][0] = b->count > 1;
  return true;
}

bool weft_broadcast_init(weft_broadcast_t *b, const weft_shape_t *const *shapes, int n) {
  if (n == 2 && weft_shape_eq(shapes[0], shapes[1])) return init_same(b, shapes[0]);
  if (!result_shape(shapes, n, &b->shape)) return false;
  b->count = weft_shape_count(&b->shape);
  b->num_operands = n;
  int rank = b->shape.rank, kept = 0;
  int64_t running[WEFT_BROADCAST_MAX] = {1, 1, 1};
  /* From the last dimension to the first; merged dims are collected backwards. */
  for (int d = rank - 1; d >= 0; d--) {
    int64_t dim = b->shape.dims[d];
    int64_t stride[WEFT_BROADCAST_MAX] = {0};
    for (int k = 0; k < n; k++) {
      int64_t mine = dim_of(shapes[k], rank, d);
      stride[k] = mine == 1 ? 0 : running[k];
      running[k] *= mine;
    }
    if (dim == 1) continue;
    bool merges = kept > 0;
    for (int k = 0; merges && k < n; k++) {
      int64_t inner = b->strides[k][kept - 1];
      merges = stride[k] == inner * b->dims[kept - 1];
    }
    if (merges) {
      b->dims[kept - 1] *= dim;
      continue;
    }
    b->dims[kept] = dim;
    for (int k = 0; k < n; k++) b->strides[k][kept] = stride[k];
    kept++;
  }
  if (kept == 0) { /* all ones: a single element */
    b->dims[0] = 1;
    for (int k = 0; k < n; k++) b->strides[k][0] = 0;
    kept = 1;
  }
  b->rank = kept;
  for (int i = 0, j = kept - 1; i < j; i++, j--) {
    int64_t t = b->dims[i];
    b->dims[i] = b->dims[j];
    b->dims[j] = t;
    for (int k = 0; k < n; k++) {
      t = b->strides[k][i];
      b->strides[k][i] = b->strides[k][j];
      b->strides[k][j] = t;
    }
  }
  return true;
}

void weft_broadcast_walk(const weft_broadcast_t *b, int64_t begin, int64_t end, weft_broadcast_fn *fn,
                         void *arg) {
  if (begin >= end) return;
  int last = b->rank - 1, n = b->num_operands;
  int64_t inner = b->dims[last], index[WEFT_MAX_DIMS], at[WEFT_BROADCAST_MAX] = {0};
  int step[WEFT_BROADCAST_MAX] = {0};
  int64_t rest = begin;
  for (int d = last; d >= 0; d--) {
    index[d] = rest % b->dims[d];
    rest /= b->dims[d];
    for (int k = 0; k < n; k++) at[k] += index[d] * b->strides[k][d];
  }
  for (int k = 0; k < n; k++) step[k] = b->strides[k][last] != 0;
  for (int64_t out_at = begin;;) {
    int64_t run = inner - index[last];
    if (run > end - out_at) run = end - out_at;
    fn(arg, run, out_at, at, step);
    out_at += run;
    if (out_at >= end) return;
    for (int k = 0; k < n; k++) at[k] -= index[last] * b->strides[k][last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
      for (int k = 0; k < n; k++) at[k] += b->strides[k][d];
      if (++index[d] < b->dims[d]) break;
      index[d] = 0;
      for (int k = 0; k < n; k++) at[k] -= b->dims[d] * b->strides[k][d];
    }
  }
}

typedef struct broadcast_job {
  const weft_broadcast_t *b;
  weft_broadcast_fn *fn;
  void *arg;
} broadcast_job_t;

static void run_range(void *arg, int64_t begin, int64_t end) {
  broadcast_job_t *j = arg;
  weft_broadcast_walk(j->b, begin, end, j->fn, j->arg);
}

void weft_broadcast_run(const weft_broadcast_t *b, weft_thread_pool_t *pool, int64_t grain,
                        weft_broadcast_fn *fn, void *arg) {
  if (b->count <= grain) {
    weft_broadcast_walk(b, 0, b->count, fn, arg);
    return;
  }
  broadcast_job_t j = {b, fn, arg};
  weft_parallel_for(pool, b->count, grain, run_range, &j);
}

void weft_broadcast_run_cost(const weft_broadcast_t *b, weft_thread_pool_t *pool, weft_unit_cost_t element,
                             weft_broadcast_fn *fn, void *arg) {
  broadcast_job_t j = {b, fn, arg};
  weft_parallel_for_cost(pool, b->count, element, run_range, &j);
}
