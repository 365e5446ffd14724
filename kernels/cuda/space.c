/* kernels/cuda/space.c - rows of Roll, and of the ops that move blocks of space to the batch or the depth,
 * and back. Each is a few copies between layouts. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

static const bool yes = true, no = false;
static bool param_of(const WEFT_KernelContext *c) { return *(const bool *)weft_cuda_host->param(c); }

/* ---- Roll ---- */

static WEFT_Failure *read_shifts(WEFT_KernelContext *c, const WEFT_TensorView *x, int64_t *by) {
  WEFT_TensorView shift, axis;
  weft_cuda_host->input(c, 1, &shift);
  weft_cuda_host->input(c, 2, &axis);
  if (x->rank < 1) return WEFT_CUDA_INVALID("input must be 1-D or higher");
  if (shift.rank > 1)
    return WEFT_CUDA_INVALID("shift must be a scalar or a 1-D vector. Found: %s", WEFT_CUDA_SHAPE(&shift));
  if (axis.rank > 1)
    return WEFT_CUDA_INVALID("axis must be a scalar or a 1-D vector. Found: %s", WEFT_CUDA_SHAPE(&axis));
  if (!weft_cuda_same_shape(&shift, &axis))
    return WEFT_CUDA_INVALID("shift and axis must have the same size");
  for (int64_t i = 0; i < axis.count; i++) {
    const int64_t given = weft_cuda_int_at(&axis, i), at = given < 0 ? given + x->rank : given;
    if (at < 0 || at >= x->rank) return WEFT_CUDA_INVALID("axis %lld is out of range", (long long)given);
    const int64_t dim = x->dims[at] > 0 ? x->dims[at] : 1;
    by[at] = (by[at] + (weft_cuda_int_at(&shift, i) % dim + dim) % dim) % dim;
  }
  return NULL;
}

static WEFT_Failure *roll(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  int64_t by[WEFT_CUDA_DIMS] = {0}, steps[WEFT_CUDA_DIMS];
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(read_shifts(c, &x, by));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (x.count == 0) return NULL;
  weft_cuda_dense_steps(x.rank, x.dims, steps);
  for (int box = 0; box < 1 << x.rank; box++) { /* bit d: the part of axis d that wraps to the front */
    int64_t dims[WEFT_CUDA_DIMS], from_at = 0, to_at = 0;
    bool is_empty = false;
    for (int d = 0; d < x.rank; d++) {
      const bool wraps = (box >> d & 1) != 0;
      dims[d] = wraps ? by[d] : x.dims[d] - by[d];
      from_at += wraps ? (x.dims[d] - by[d]) * steps[d] : 0;
      to_at += wraps ? 0 : by[d] * steps[d];
      is_empty = is_empty || dims[d] == 0;
    }
    if (is_empty) continue;
    weft_cuda_walk_t w;
    weft_cuda_walk_init(&w, x.rank, dims);
    for (int d = 0; d < x.rank; d++) w.steps[0][d] = w.steps[1][d] = steps[d];
    WEFT_CUDA_TRY(weft_cuda_move(c, x.dtype, x.data, from_at, y.data, to_at, &w));
  }
  return NULL;
}

/* ---- depth: [n, h * b, w * b, c] and [n, h, w, b, b, c] ---- */

/* The state of these ops, and of the first versions of those below. */
typedef struct cuda_space_attrs {
  int64_t block;
  bool is_first, is_other; /* channels first; a format that is none of the two */
} space_attrs_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const char *format = NULL;
  size_t length = 0;
  (void)param;
  space_attrs_t *a = calloc(1, sizeof *a);
  if (a == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: blocks of space");
  weft_cuda_host->attr_int(s, "block_size", &a->block);
  if (weft_cuda_host->attr_string(s, "data_format", &format, &length) != 0) {
    a->is_first = length == 4 && memcmp(format, "NCHW", 4) == 0;
    a->is_other = !a->is_first && !(length == 4 && memcmp(format, "NHWC", 4) == 0);
  }
  *out = a;
  return NULL;
}

static WEFT_Failure *depth(WEFT_KernelContext *c) {
  enum { RANK = 6 };
  const space_attrs_t *a = weft_cuda_host->state(c);
  const bool to_depth = param_of(c);
  const int64_t b = a->block;
  const int space = a->is_first ? 2 : 1, channel = a->is_first ? 1 : 3;
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank != 4) return WEFT_CUDA_INVALID("Input rank should be: 4 instead of: %d", x.rank);
  if (b < 2 || b > INT32_MAX)
    return WEFT_CUDA_INVALID("Block size should be > 1, but was: %lld", (long long)b);
  if (a->is_other) return WEFT_CUDA_INVALID("Only NHWC and NCHW are supported");
  const int64_t h = x.dims[space], w = x.dims[space + 1], channels = x.dims[channel];
  if (to_depth && (h % b != 0 || w % b != 0)) {
    return WEFT_CUDA_INVALID("Image width %lld and height %lld should be divisible by block_size: %lld",
                             (long long)w, (long long)h, (long long)b);
  }
  if (!to_depth && channels % (b * b) != 0) {
    return WEFT_CUDA_INVALID("Input depth dimension %lld should be divisible by: %lld", (long long)channels,
                             (long long)(b * b));
  }
  int64_t dims[4] = {x.dims[0]}, wide[4], deep[4];
  dims[space] = to_depth ? h / b : h * b;
  dims[space + 1] = to_depth ? w / b : w * b;
  dims[channel] = to_depth ? channels * b * b : channels / (b * b);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  if (y.count == 0) return NULL;
  const int64_t *deep_dims = to_depth ? dims : x.dims, few = to_depth ? channels : dims[channel];
  weft_cuda_dense_steps(4, to_depth ? x.dims : dims, wide);
  weft_cuda_dense_steps(4, deep_dims, deep);
  const int64_t all[RANK] = {dims[0], deep_dims[space], deep_dims[space + 1], b, b, few};
  const int64_t of_wide[RANK] = {wide[0],     wide[space] * b, wide[space + 1] * b,
                                 wide[space], wide[space + 1], wide[channel]},
                of_deep[RANK] = {
                    deep[0],      deep[space], deep[space + 1], deep[channel] * b * few, deep[channel] * few,
                    deep[channel]};
  weft_cuda_walk_t walk;
  weft_cuda_walk_init(&walk, RANK, all);
  for (int d = 0; d < RANK; d++) {
    walk.steps[0][d] = to_depth ? of_wide[d] : of_deep[d];
    walk.steps[1][d] = to_depth ? of_deep[d] : of_wide[d];
  }
  return weft_cuda_move(c, x.dtype, x.data, 0, y.data, 0, &walk);
}

/* ---- batch: [batch, s1.., rest] with paddings, and [batch * blocks, s1 / b1.., rest] ---- */

enum { MAX_BLOCK = 4 };
typedef struct cuda_blocks {
  int m; /* block dimensions */
  int64_t block[MAX_BLOCK], pads[MAX_BLOCK][2];
  int64_t batch, rest; /* of the big tensor: its batch, and the elements behind the block dimensions */
  int64_t big[MAX_BLOCK], small[MAX_BLOCK];
} blocks_t;

static WEFT_Failure *read_block(WEFT_KernelContext *c, const WEFT_TensorView *x, blocks_t *p) {
  const space_attrs_t *a = weft_cuda_host->state(c);
  WEFT_TensorView block;
  if (a != NULL) {
    p->m = 2;
    p->block[0] = p->block[1] = a->block;
    return x->rank == 4 ? NULL : WEFT_CUDA_INVALID("Input rank should be 4 instead of %d", x->rank);
  }
  weft_cuda_host->input(c, 1, &block);
  if (block.rank != 1 || block.count < 1 || block.count > MAX_BLOCK) {
    return WEFT_CUDA_INVALID("block rank should be between 1 and %d, got %lld", (int)MAX_BLOCK,
                             (long long)block.count);
  }
  p->m = (int)block.count;
  for (int d = 0; d < p->m; d++) p->block[d] = weft_cuda_int_at(&block, d);
  if (x->rank >= 1 + p->m) return NULL;
  return WEFT_CUDA_INVALID("input rank should be >= %d instead of %d", 1 + p->m, x->rank);
}

/* What is too large for memory is too large here: sums and products stay far from 2^63. */
static WEFT_Failure *check_dim(bool to_batch, const blocks_t *p, int d, int64_t in, int64_t *blocks) {
  const int64_t most = INT64_C(1) << 30;
  const int64_t b = p->block[d], before = p->pads[d][0], behind = p->pads[d][1];
  if (b < 1) return WEFT_CUDA_INVALID("block_shape[%d]=%lld must be positive", d, (long long)b);
  if (before < 0 || behind < 0)
    return WEFT_CUDA_INVALID("%s must be non-negative", to_batch ? "Paddings" : "Crops");
  if (b > most || before > most * most || behind > most * most || in > most * most || *blocks > most)
    return WEFT_CUDA_INVALID("block_shape is too large");
  *blocks *= b;
  return NULL;
}

static WEFT_Failure *read_blocks(WEFT_KernelContext *c, bool to_batch, const WEFT_TensorView *x, blocks_t *p,
                                 int64_t *dims) {
  WEFT_TensorView pads;
  int64_t blocks = 1;
  weft_cuda_host->input(c, weft_cuda_host->num_inputs(c) - 1, &pads);
  WEFT_CUDA_TRY(read_block(c, x, p));
  if (pads.rank != 2 || pads.dims[0] != p->m || pads.dims[1] != 2) {
    return WEFT_CUDA_INVALID("%s should have shape [%d, 2] instead of %s", to_batch ? "paddings" : "crops",
                             p->m, WEFT_CUDA_SHAPE(&pads));
  }
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  for (int d = 0; d < p->m; d++) {
    const int64_t in = x->dims[1 + d], b = p->block[d];
    for (int i = 0; i < 2; i++) p->pads[d][i] = weft_cuda_int_at(&pads, 2 * d + i);
    WEFT_CUDA_TRY(check_dim(to_batch, p, d, in, &blocks));
    const int64_t around = p->pads[d][0] + p->pads[d][1];
    if (to_batch && (in + around) % b != 0) {
      return WEFT_CUDA_INVALID("padded_shape[%d]=%lld is not divisible by block_shape[%d]=%lld", d,
                               (long long)(in + around), d, (long long)b);
    }
    if (!to_batch && in > INT64_MAX / b) return WEFT_CUDA_INVALID("block_shape is too large");
    if (!to_batch && in * b < around) {
      return WEFT_CUDA_INVALID("cropped_shape[%d]=%lld must be non-negative", d,
                               (long long)(in * b - around));
    }
    p->big[d] = to_batch ? in : in * b - around;
    p->small[d] = to_batch ? (in + around) / b : in;
    dims[1 + d] = to_batch ? p->small[d] : p->big[d];
  }
  if (to_batch && x->dims[0] > INT64_MAX / blocks) return WEFT_CUDA_INVALID("block_shape is too large");
  if (!to_batch && x->dims[0] % blocks != 0) {
    return WEFT_CUDA_INVALID("Input batch dimension (%lld) is not divisible by product of block sizes (%lld)",
                             (long long)x->dims[0], (long long)blocks);
  }
  p->batch = to_batch ? x->dims[0] : x->dims[0] / blocks;
  dims[0] = to_batch ? x->dims[0] * blocks : p->batch;
  p->rest = weft_cuda_product(x->dims, 1 + p->m, x->rank);
  return NULL;
}

/* Copies the cells of block position k: a box of the big tensor, in steps of the block. */
static WEFT_Failure *move_position(WEFT_KernelContext *c, const blocks_t *p, bool to_batch, int64_t k,
                                   const WEFT_TensorView *x, void *to) {
  const int big = to_batch ? 0 : 1, small = 1 - big, rank = p->m + 2;
  int64_t dims[MAX_BLOCK + 2] = {p->batch}, at[2] = {0}, steps[2][MAX_BLOCK + 2] = {{0}};
  int64_t of_big = p->rest, of_small = p->rest, rest = k;
  dims[rank - 1] = p->rest;
  steps[0][rank - 1] = steps[1][rank - 1] = 1;
  for (int d = p->m - 1; d >= 0; d--) {
    const int64_t b = p->block[d];
    int64_t phase = rest % b - p->pads[d][0], first = 0;
    rest /= b;
    if (phase < 0) { /* the first cells of this phase are padding */
      first = (-phase + b - 1) / b;
      phase += first * b;
    }
    int64_t cells = phase < p->big[d] ? (p->big[d] - phase + b - 1) / b : 0;
    if (cells > p->small[d] - first) cells = p->small[d] - first;
    dims[1 + d] = cells < 0 ? 0 : cells;
    steps[big][1 + d] = of_big * b;
    steps[small][1 + d] = of_small;
    at[big] += phase * of_big;
    at[small] += first * of_small;
    of_big *= p->big[d];
    of_small *= p->small[d];
  }
  steps[big][0] = of_big;
  steps[small][0] = of_small;
  at[small] += k * p->batch * of_small;
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, rank, dims);
  for (int i = 0; i < 2; i++) memcpy(w.steps[i], steps[i], sizeof steps[i]);
  return weft_cuda_move(c, x->dtype, x->data, at[0], to, at[1], &w);
}

static WEFT_Failure *batch(WEFT_KernelContext *c) {
  const bool to_batch = param_of(c);
  WEFT_TensorView x, y;
  blocks_t p = {.m = 0};
  int64_t dims[WEFT_CUDA_DIMS], blocks = 1;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(read_blocks(c, to_batch, &x, &p, dims));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, dims, &y));
  if (y.count == 0) return NULL;
  if (to_batch) WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes)); /* the padding */
  for (int d = 0; d < p.m; d++) blocks *= p.block[d];
  for (int64_t k = 0; k < blocks; k++) WEFT_CUDA_TRY(move_position(c, &p, to_batch, k, &x, y.data));
  return NULL;
}

enum { SECOND = 2, THIRD = 4 };
#define SPACE(op_, fn, prepare_, destroy_, to, host)                                           \
  {                                                                                            \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_PLAIN, .prepare = prepare_, .compute = fn, \
    .destroy = destroy_, .param = &to, .host_inputs = host                                     \
  }
const WEFT_DeviceKernel weft_cuda_space_kernels[] = {
    SPACE("BatchToSpace", batch, prepare, free, no, SECOND),
    SPACE("BatchToSpaceND", batch, NULL, NULL, no, SECOND | THIRD),
    SPACE("DepthToSpace", depth, prepare, free, no, 0),
    {.op = "Roll",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN,
     .compute = roll,
     .host_inputs = SECOND | THIRD},
    SPACE("SpaceToBatch", batch, prepare, free, yes, SECOND),
    SPACE("SpaceToBatchND", batch, NULL, NULL, yes, SECOND | THIRD),
    SPACE("SpaceToDepth", depth, prepare, free, yes, 0),
    {0},
};
