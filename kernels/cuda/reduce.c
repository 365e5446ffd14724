/* kernels/cuda/reduce.c - rows of reductions, BiasAddGrad, L2Loss, ArgMax and ArgMin. */
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_REDUCE(name, set) WEFT_CUDA_INSTANCES(name##_instances, name, set)
#include "kernels/cuda/reduce.def"
#undef WEFT_CUDA_REDUCE
WEFT_CUDA_INSTANCES(complex_EuclideanNorm_instances, EuclideanNorm, COMPLEX)
WEFT_CUDA_INSTANCES(complex_Mean_instances, Mean, COMPLEX)
WEFT_CUDA_INSTANCES(complex_Prod_instances, Prod, COMPLEX)
WEFT_CUDA_INSTANCES(complex_Sum_instances, Sum, COMPLEX)

enum { WARP = 32, MAX_RESULT = 16 }; /* bytes of what is joined, at most */

/* ---- the plan ---- */

/* Kept and reduced dimensions apart; neighbours of one kind that memory has as one are joined. */
static weft_cuda_reduction_t plan(int rank, const int64_t *dims, const bool *is_reduced) {
  weft_cuda_reduction_t r = {.num_kept = 1, .num_reduced = 1};
  int64_t step = weft_cuda_product(dims, 0, rank);
  int last = -1; /* the kind of the dimension before */
  for (int d = 0; d < rank; d++) {
    if (dims[d] > 0) step /= dims[d];
    *(is_reduced[d] ? &r.num_reduced : &r.num_kept) *= dims[d];
    if (dims[d] == 1) continue;
    int32_t *n = is_reduced[d] ? &r.reduced_rank : &r.kept_rank;
    int64_t *to_dims = is_reduced[d] ? r.reduced_dims : r.kept_dims;
    int64_t *to_steps = is_reduced[d] ? r.reduced_steps : r.kept_steps;
    if (last == (int)is_reduced[d]) {
      to_dims[*n - 1] *= dims[d];
    } else {
      to_dims[(*n)++] = dims[d];
    }
    to_steps[*n - 1] = step;
    last = (int)is_reduced[d];
  }
  r.by_column = last == 0;
  return r;
}

/* Which threads share an output. By column a warp takes neighbouring outputs, if there are so many. */
static void share(weft_cuda_reduction_t *r) {
  int32_t sharers = 1;
  if (r->by_column && r->num_kept >= WARP) {
    const int32_t most = WEFT_CUDA_BLOCK / WARP;
    while (sharers < most && sharers < r->num_reduced) sharers *= 2;
  } else {
    while (sharers < WEFT_CUDA_BLOCK && sharers < r->num_reduced) sharers *= 2;
  }
  r->sharers = sharers;
}

typedef struct cuda_reduction_job {
  weft_cuda_function_t *f;
  const void *x;
  void *y;
  int64_t count;
  int32_t out_bytes;
} reduce_job_t;

static int64_t cut(int64_t n, int64_t by) { return (n + by - 1) / by; }

static WEFT_Failure *launch(WEFT_KernelContext *c, const reduce_job_t *j, weft_cuda_reduction_t *r,
                            int64_t num_parts, const void *x, const void *from_parts, void *parts, void *y) {
  const int64_t per_block = WEFT_CUDA_BLOCK / r->sharers, most = (int64_t)weft_cuda_num_processors(c) * 16;
  const int64_t blocks = cut(r->num_kept, per_block);
  const weft_cuda_geometry_t g = {
      {(unsigned)(blocks < most ? blocks : most), (unsigned)num_parts, 1}, {WEFT_CUDA_BLOCK, 1, 1}, 0};
  int64_t count = j->count;
  int32_t out_bytes = j->out_bytes;
  void *args[] = {&x, &from_parts, &parts, &y, r, &count, &out_bytes};
  return weft_cuda_launch(c, j->f, &g, args);
}

static WEFT_Failure *reduce(WEFT_KernelContext *c, const reduce_job_t *j, weft_cuda_reduction_t *r) {
  enum { WORTH = 16 }; /* elements of a thread that pay for another launch */
  if (r->num_kept == 0) return NULL;
  share(r);
  const int64_t blocks = cut(r->num_kept, WEFT_CUDA_BLOCK / r->sharers);
  const int64_t wanted = (int64_t)weft_cuda_num_processors(c) * 4 / blocks;
  int64_t num_parts = r->num_reduced / ((int64_t)r->sharers * WORTH);
  if (num_parts > wanted) num_parts = wanted;
  if (num_parts <= 1 || j->x == NULL) {
    r->part = r->num_reduced;
    /* of no elements: from the results of no parts */
    return launch(c, j, r, 1, j->x, NULL, NULL, j->y);
  }
  r->part = cut(r->num_reduced, num_parts);
  num_parts = cut(r->num_reduced, r->part);
  void *parts = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(num_parts * r->num_kept) * MAX_RESULT, &parts));
  WEFT_CUDA_TRY(launch(c, j, r, num_parts, j->x, NULL, parts, NULL));
  const int64_t dims[2] = {num_parts, r->num_kept};
  const bool is_reduced[2] = {true, false};
  weft_cuda_reduction_t joined = plan(2, dims, is_reduced);
  joined.part = num_parts;
  share(&joined);
  return launch(c, j, &joined, 1, NULL, parts, NULL, j->y);
}

WEFT_Failure *weft_cuda_sum(WEFT_KernelContext *c, int dtype, const void *x, int rank, const int64_t *dims,
                            const bool *is_reduced, void *y) {
  weft_cuda_reduction_t r = plan(rank, dims, is_reduced);
  const reduce_job_t j = {weft_cuda_pick(&Sum_instances, dtype), x, y, r.num_reduced, 0};
  return reduce(c, &j, &r);
}

/* ---- over axes ---- */

/* The state: not NULL if reduced dimensions stay as 1. */
static WEFT_Failure *axes_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char keeps = 1;
  int keep_dims = 0;
  (void)param;
  weft_cuda_host->attr_bool(s, "keep_dims", &keep_dims);
  *out = keep_dims != 0 ? (void *)(uintptr_t)&keeps : NULL;
  return NULL;
}

static WEFT_Failure *read_axes(const WEFT_TensorView *axes, int rank, bool *out) {
  memset(out, 0, WEFT_CUDA_DIMS * sizeof *out);
  for (int64_t i = 0; i < axes->count; i++) {
    const int64_t axis = weft_cuda_int_at(axes, i), at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
      return WEFT_CUDA_INVALID("Invalid reduction dimension (%lld for input with %d dimension(s)",
                               (long long)axis, rank);
    }
    if (out[at]) {
      return WEFT_CUDA_INVALID("Invalid reduction arguments: Axes contains duplicate dimension: %d", (int)at);
    }
    out[at] = true;
  }
  return NULL;
}

static WEFT_Failure *axes_of(WEFT_KernelContext *c, bool one_is_itself) {
  WEFT_TensorView x, axes, y;
  bool is_reduced[WEFT_CUDA_DIMS];
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &axes);
  WEFT_CUDA_TRY(read_axes(&axes, x.rank, is_reduced));
  for (int d = 0; d < x.rank; d++) {
    if (!is_reduced[d] || weft_cuda_host->state(c) != NULL) dims[rank++] = is_reduced[d] ? 1 : x.dims[d];
  }
  weft_cuda_reduction_t r = plan(x.rank, x.dims, is_reduced);
  if (r.num_reduced == 1 && one_is_itself) return weft_cuda_host->output_is_input(c, 0, 0, rank, dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  const reduce_job_t j = {weft_cuda_pick(weft_cuda_host->param(c), x.dtype), x.data, y.data, r.num_reduced,
                          0};
  return reduce(c, &j, &r);
}

static WEFT_Failure *axes_compute(WEFT_KernelContext *c) { return axes_of(c, true); }
static WEFT_Failure *norm_compute(WEFT_KernelContext *c) { return axes_of(c, false); } /* of -1 it is 1 */

static WEFT_Failure *l2_loss_compute(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  const bool is_reduced[1] = {true};
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 0, NULL, &y));
  weft_cuda_reduction_t r = plan(1, &x.count, is_reduced);
  const reduce_job_t j = {weft_cuda_pick(&L2Loss_instances, x.dtype), x.data, y.data, x.count, 0};
  return reduce(c, &j, &r);
}

/* ---- BiasAddGrad: over all dimensions but the channels ---- */

static WEFT_Failure *bias_grad_compute(WEFT_KernelContext *c) {
  WEFT_TensorView dy, db;
  bool is_reduced[WEFT_CUDA_DIMS];
  weft_cuda_host->input(c, 0, &dy);
  if (dy.rank < 2) return WEFT_CUDA_INVALID("Input tensor must be at least 2D: %s", WEFT_CUDA_SHAPE(&dy));
  const int channels = weft_cuda_host->state(c) != NULL ? 1 : dy.rank - 1;
  for (int d = 0; d < dy.rank; d++) is_reduced[d] = d != channels;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &dy.dims[channels], &db));
  weft_cuda_reduction_t r = plan(dy.rank, dy.dims, is_reduced);
  const reduce_job_t j = {weft_cuda_pick(&Sum_instances, dy.dtype), dy.data, db.data, r.num_reduced, 0};
  return reduce(c, &j, &r);
}

/* ---- ArgMax, ArgMin ---- */

static WEFT_Failure *arg_compute(WEFT_KernelContext *c) {
  WEFT_TensorView x, dimension, y;
  bool is_reduced[WEFT_CUDA_DIMS] = {false};
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &dimension);
  if (dimension.count != 1) {
    return WEFT_CUDA_INVALID("dim must be a scalar, but received tensor of shape: %s",
                             WEFT_CUDA_SHAPE(&dimension));
  }
  int64_t axis = dimension.dtype == WEFT_CUDA_i16 ? ((const int16_t *)dimension.data)[0]
                                                  : weft_cuda_int_at(&dimension, 0);
  const int64_t at = axis < 0 ? axis + x.rank : axis;
  if (at < 0 || at >= x.rank) {
    return WEFT_CUDA_INVALID("Expected dimension in the range [%d, %d), but got %lld", -x.rank, x.rank,
                             (long long)axis);
  }
  if (x.dims[at] == 0) {
    return WEFT_CUDA_INVALID("Reduction axis %lld is empty in shape %s", (long long)axis,
                             WEFT_CUDA_SHAPE(&x));
  }
  is_reduced[at] = true;
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  for (int d = 0; d < x.rank; d++) {
    if (d != at) dims[rank++] = x.dims[d];
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  weft_cuda_reduction_t r = plan(x.rank, x.dims, is_reduced);
  const reduce_job_t j = {weft_cuda_pick(weft_cuda_host->param(c), x.dtype), x.data, y.data, r.num_reduced,
                          (int32_t)weft_cuda_size(y.dtype)};
  return reduce(c, &j, &r);
}

enum { SECOND = 2 };
#define ROW(op_, attr, set, fn)                                                                         \
  {                                                                                                     \
    .op = #op_, .type_attr = attr, .types = WEFT_CUDA_SET(set), .prepare = axes_prepare, .compute = fn, \
    .param = &op_##_instances, .host_inputs = SECOND                                                    \
  }
#define COMPLEX_ROW(op_, fn)                                                                               \
  {                                                                                                        \
    .op = #op_, .type_attr = "T", .types = WEFT_CUDA_SET(COMPLEX), .prepare = axes_prepare, .compute = fn, \
    .param = &complex_##op_##_instances, .host_inputs = SECOND                                             \
  }
#define ARG_ROW(op_)                                                                           \
  {                                                                                            \
    .op = #op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT_INDEX), .compute = arg_compute, \
    .param = &op_##_instances, .host_inputs = SECOND                                           \
  }
const WEFT_DeviceKernel weft_cuda_reduce_kernels[] = {
    ROW(All, NULL, BOOL, axes_compute),
    ROW(Any, NULL, BOOL, axes_compute),
    ARG_ROW(ArgMax),
    ARG_ROW(ArgMin),
    {.op = "BiasAddGrad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64),
     .prepare = weft_cuda_prepare_channels,
     .compute = bias_grad_compute},
    ROW(EuclideanNorm, "T", FLOAT, norm_compute),
    COMPLEX_ROW(EuclideanNorm, norm_compute),
    {.op = "L2Loss", .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .compute = l2_loss_compute},
    ROW(Max, "T", FLOAT_I64, axes_compute),
    ROW(Mean, "T", FLOAT, axes_compute),
    COMPLEX_ROW(Mean, axes_compute),
    ROW(Min, "T", FLOAT_I64, axes_compute),
    ROW(Prod, "T", FLOAT_I64, axes_compute),
    COMPLEX_ROW(Prod, axes_compute),
    ROW(Sum, "T", FLOAT_I64, axes_compute),
    COMPLEX_ROW(Sum, axes_compute),
    {0},
};
