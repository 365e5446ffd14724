/* kernels/cuda/sparse_reduce.c - rows of SparseReduceSum, SparseReduceMax, their forms with sparse results,
 * and SparseSoftmax. Elements of one result are neighbours in the order that the host finds. */
#include "kernels/cuda/index.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/segment.h"
#include "kernels/cuda/sparse_tensor.h"

WEFT_CUDA_INSTANCES(softmax_instances, sparse_softmax, F32_F64_F16)

/* The param of a row. */
typedef struct cuda_sparse_fold {
  int how;
  bool is_sparse;
} sparse_fold_t;

/* ---- groups ---- */

/* Elements that agree in the first num_kept of `dims`. */
typedef struct cuda_sparse_groups {
  bool is_kept[WEFT_CUDA_DIMS];
  int dims[WEFT_CUDA_DIMS], num_kept; /* those that are kept, then the others */
  weft_cuda_segment_plan_t plan;
} groups_t;

static bool agree(const weft_cuda_sparse_t *x, const groups_t *g, int64_t a, int64_t b) {
  for (int k = 0; k < g->num_kept; k++) {
    if (weft_cuda_sparse_at(x, a)[g->dims[k]] != weft_cuda_sparse_at(x, b)[g->dims[k]]) return false;
  }
  return true;
}

/* The dims of `is_kept`; the plan is the caller's, also of a failure. */
static WEFT_Failure *find_groups(const weft_cuda_sparse_t *x, groups_t *g) {
  int64_t *order = NULL, num = 0;
  int n = 0;
  g->num_kept = 0;
  for (int d = 0; d < x->rank; d++) {
    if (g->is_kept[d]) g->dims[g->num_kept++] = d;
  }
  n = g->num_kept;
  for (int d = 0; d < x->rank; d++) {
    if (!g->is_kept[d]) g->dims[n++] = d;
  }
  WEFT_CUDA_TRY(weft_cuda_sparse_sort(x, g->dims, n, &order));
  for (int64_t i = 0; i < x->n; i++) num += i == 0 || !agree(x, g, order[i - 1], order[i]);
  WEFT_Failure *f = weft_cuda_segment_plan_init(&g->plan, num, x->n);
  if (f == NULL) {
    weft_cuda_segment_plan_t *p = &g->plan;
    int64_t at = -1;
    p->has_rows = true;
    for (int64_t i = 0; i < x->n; i++) {
      if (i == 0 || !agree(x, g, order[i - 1], order[i])) p->starts[++at] = i;
      p->rows[i] = order[i];
    }
    p->starts[num] = x->n;
  }
  free(order);
  return f;
}

/* The coordinates of group i. */
static const int64_t *group_at(const weft_cuda_sparse_t *x, const groups_t *g, int64_t i) {
  return weft_cuda_sparse_at(x, g->plan.rows[g->plan.starts[i]]);
}

/* ---- sums and maxima ---- */

static WEFT_Failure *read_axes(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, groups_t *g) {
  WEFT_TensorView axes;
  weft_cuda_host->input(c, 3, &axes);
  for (int d = 0; d < x->rank; d++) g->is_kept[d] = true;
  for (int64_t i = 0; i < axes.count; i++) {
    const int64_t axis = weft_cuda_int_at(&axes, i), at = axis < 0 ? axis + x->rank : axis;
    if (at < 0 || at >= x->rank) {
      return WEFT_CUDA_INVALID("Invalid reduction dimension %lld, for input with %d dimensions.",
                               (long long)axis, x->rank);
    }
    g->is_kept[at] = false;
  }
  return NULL;
}

static WEFT_Failure *fold(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, const groups_t *g, void *y) {
  const sparse_fold_t *op = weft_cuda_host->param(c);
  return weft_cuda_segment_plan_run(c, &g->plan, op->how, WEFT_CUDA_UNDIVIDED, x->values.dtype,
                                    x->values.data, y, 1, false);
}

/* The place of each group among `count` elements. */
static WEFT_Failure *find_places(const weft_cuda_sparse_t *x, const groups_t *g, int64_t count,
                                 int64_t *out) {
  for (int64_t i = 0; i < g->plan.num; i++) {
    uint64_t at = 0;
    for (int k = 0; k < g->num_kept; k++)
      at = at * (uint64_t)x->dims[g->dims[k]] + (uint64_t)group_at(x, g, i)[g->dims[k]];
    if (at >= (uint64_t)count) {
      return weft_cuda_host->failure(WEFT_CUDA_INTERNAL,
                                     "Obtained a write index of %lld which is outside of bounds of [0, %lld)",
                                     (long long)at, (long long)count);
    }
    out[i] = (int64_t)at;
  }
  return NULL;
}

static WEFT_Failure *put_dense(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, const groups_t *g,
                               const weft_cuda_shape_t *shape) {
  const int64_t num = g->plan.num;
  WEFT_TensorView y;
  void *folded = NULL, *sent = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, shape->rank, shape->dims, &y));
  if (y.count > 0) WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  if (num == 0) return NULL;
  int64_t *places = calloc((size_t)num, sizeof *places);
  if (places == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a sparse sum");
  WEFT_Failure *f = find_places(x, g, y.count, places);
  if (f == NULL) f = weft_cuda_send_places(c, places, num, &sent);
  free(places);
  if (f != NULL) return f;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)num * weft_cuda_size(y.dtype), &folded));
  WEFT_CUDA_TRY(fold(c, x, g, folded));
  weft_cuda_scatter_t s = {
      .indices = sent, .num = num, .inner = 1, .dims = {y.count}, .depth = 1, .index_bytes = sizeof(int64_t)};
  return weft_cuda_scatter(c, WEFT_CUDA_PUT, y.dtype, folded, y.data, &s);
}

static WEFT_Failure *put_sparse(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, const groups_t *g,
                                const weft_cuda_shape_t *shape) {
  const int64_t num = g->plan.num, dims[2] = {num, shape->rank}, rank = shape->rank;
  WEFT_TensorView indices, values, of;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &indices));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &num, &values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 2, 1, &rank, &of));
  int64_t *at = indices.data;
  if (indices.bytes > 0) memset(at, 0, indices.bytes);
  if (rank > 0) memcpy(of.data, shape->dims, of.bytes);
  for (int64_t i = 0; i < num; i++) {
    for (int k = 0; k < g->num_kept; k++)
      at[i * rank + (shape->rank == x->rank ? g->dims[k] : k)] = group_at(x, g, i)[g->dims[k]];
  }
  return fold(c, x, g, values.data);
}

/* The state: not NULL if dimensions of one stay. */
static WEFT_Failure *reduce_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char keeps = 1;
  int keep_dims = 0;
  (void)param;
  (void)weft_cuda_host->attr_bool(s, "keep_dims", &keep_dims);
  *out = keep_dims != 0 ? (void *)(uintptr_t)&keeps : NULL;
  return NULL;
}

static WEFT_Failure *reduce(WEFT_KernelContext *c) {
  const sparse_fold_t *op = weft_cuda_host->param(c);
  const bool keeps = weft_cuda_host->state(c) != NULL;
  weft_cuda_sparse_t x;
  WEFT_TensorView axes;
  groups_t g = {.num_kept = 0};
  weft_cuda_shape_t shape = {.rank = 0};
  weft_cuda_host->input(c, 3, &axes);
  if (axes.rank > 1) {
    return WEFT_CUDA_INVALID("Expected reduction_axes to be a scalar or a vector; got shape: %s",
                             WEFT_CUDA_SHAPE(&axes));
  }
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 0, &x));
  WEFT_CUDA_TRY(read_axes(c, &x, &g));
  WEFT_CUDA_TRY(weft_cuda_check_dims(x.dims, x.rank));
  for (int d = 0; d < x.rank; d++) {
    if (g.is_kept[d] || keeps) shape.dims[shape.rank++] = g.is_kept[d] ? x.dims[d] : 1;
  }
  WEFT_Failure *f = find_groups(&x, &g);
  if (f == NULL) f = (op->is_sparse ? put_sparse : put_dense)(c, &x, &g, &shape);
  weft_cuda_segment_plan_deinit(&g.plan);
  return f;
}

/* ---- softmax over the last dimension; the results are in sorted order, wherever the elements were ---- */

static WEFT_Failure *run_softmax(WEFT_KernelContext *c, const weft_cuda_sparse_t *x, const groups_t *g) {
  const weft_cuda_segment_plan_t *p = &g->plan;
  WEFT_TensorView y;
  void *starts = NULL, *order = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &x->n, &y));
  if (x->n == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_send_places(c, p->starts, p->num + 1, &starts));
  WEFT_CUDA_TRY(weft_cuda_send_places(c, p->rows, p->n, &order));
  const void *values = x->values.data;
  int64_t num = p->num;
  int32_t sharers = weft_cuda_sharers(p->n / num);
  void *args[] = {&values, &y.data, &starts, &order, &num, &sharers};
  return weft_cuda_launch_over(c, weft_cuda_pick(&softmax_instances, y.dtype), num * sharers, 1, args);
}

static WEFT_Failure *softmax(WEFT_KernelContext *c) {
  weft_cuda_sparse_t x;
  groups_t g = {.num_kept = 0};
  WEFT_CUDA_TRY(weft_cuda_sparse_read(c, 0, &x));
  if (x.rank < 2) return WEFT_CUDA_INVALID("Input should have rank >= 2, but received rank %d", x.rank);
  WEFT_CUDA_TRY(weft_cuda_check_dims(x.dims, x.rank));
  for (int d = 0; d < x.rank - 1; d++) g.is_kept[d] = true;
  WEFT_Failure *f = find_groups(&x, &g);
  if (f == NULL) f = run_softmax(c, &x, &g);
  weft_cuda_segment_plan_deinit(&g.plan);
  return f;
}

enum { FIRST = 1, THIRD = 4, FOURTH = 8 };
#define REDUCE(op_, types_, how, is_sparse)                                                     \
  {                                                                                             \
    .op = op_, .type_attr = "T", .types = types_, .prepare = reduce_prepare, .compute = reduce, \
    .host_inputs = FIRST | THIRD | FOURTH, .host_outputs = (is_sparse) ? FIRST | THIRD : 0,     \
    .param = &(const sparse_fold_t) {                                                           \
      WEFT_CUDA_FOLD_##how, is_sparse                                                           \
    }                                                                                           \
  }
#define NUMBERS (WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX))
const WEFT_DeviceKernel weft_cuda_sparse_reduce_kernels[] = {
    REDUCE("SparseReduceMax", WEFT_CUDA_SET(FLOAT_I64), MAX, false),
    REDUCE("SparseReduceMaxSparse", WEFT_CUDA_SET(FLOAT_I64), MAX, true),
    REDUCE("SparseReduceSum", NUMBERS, ADD, false),
    REDUCE("SparseReduceSumSparse", NUMBERS, ADD, true),
    {.op = "SparseSoftmax",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_F64_F16),
     .compute = softmax,
     .host_inputs = FIRST | THIRD},
    {.op = NULL},
};
