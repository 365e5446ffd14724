/* kernels/cpu/array/space.c - blocks of space moved to the batch or to the depth, and back. */
#include <inttypes.h>

#include "kernels/cpu/loops/move.h"

enum { MAX_BLOCK_DIMS = 4 };

/* [batch, s1..sM, rest] with paddings, and [batch * prod(block), s1/b1.., rest]. One copy does it: the padded
 * side is never made. Each block position is one box of the big tensor. */
typedef struct plan {
  int m; /* block dimensions */
  int64_t block[MAX_BLOCK_DIMS], pads[MAX_BLOCK_DIMS][2];
  int64_t batch, rest; /* of the big tensor: its batch, and the elements behind the block dimensions */
  int64_t big[MAX_BLOCK_DIMS], small[MAX_BLOCK_DIMS];
} plan_t;

/* The sizes of blocks: input 1, or twice `size` where that is not 0. */
static weft_status_t *read_block(weft_kernel_ctx_t *ctx, int64_t size, plan_t *p) {
  const weft_tensor_t *x = weft_in(ctx, 0), *block = weft_in(ctx, 1);
  if (size != 0) {
    p->m = 2;
    p->block[0] = p->block[1] = size;
    if (x->shape.rank == 4) return NULL;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input rank should be 4 instead of %d", x->shape.rank);
  }
  if (block->shape.rank != 1 || block->count < 1 || block->count > MAX_BLOCK_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "block rank should be between 1 and %d, got %" PRId64,
                      (int)MAX_BLOCK_DIMS, block->count);
  }
  p->m = (int)block->count;
  for (int d = 0; d < p->m; d++) p->block[d] = weft_cpu_int_at(block, d);
  if (x->shape.rank >= 1 + p->m) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "input rank should be >= %d instead of %d", 1 + p->m, x->shape.rank);
}

static weft_status_t *read_plan(weft_kernel_ctx_t *ctx, bool to_batch, int64_t size, plan_t *p,
                                weft_shape_t *out_shape) {
  const weft_tensor_t *x = weft_in(ctx, 0), *pads = weft_in(ctx, ctx->node->num_inputs - 1);
  WEFT_RETURN_IF_ERROR(read_block(ctx, size, p));
  const char *name = to_batch ? "paddings" : "crops";
  if (pads->shape.rank != 2 || pads->shape.dims[0] != p->m || pads->shape.dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s should have shape [%d, 2] instead of %s", name, p->m,
                      WEFT_SHAPE_TEXT(&pads->shape));
  }
  int64_t blocks = 1;
  *out_shape = x->shape;
  for (int d = 0; d < p->m; d++) {
    int64_t b = p->block[d], in = x->shape.dims[1 + d], total = 0;
    p->pads[d][0] = weft_cpu_int_at(pads, 2 * d);
    p->pads[d][1] = weft_cpu_int_at(pads, 2 * d + 1);
    if (b < 1) return WEFT_ERROR(INVALID_ARGUMENT, "block_shape[%d]=%" PRId64 " must be positive", d, b);
    if (p->pads[d][0] < 0 || p->pads[d][1] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s must be non-negative", to_batch ? "Paddings" : "Crops");
    }
    bool fits = weft_cpu_mul(blocks, b, &blocks);
    if (to_batch) {
      fits = fits && !__builtin_add_overflow(in, p->pads[d][0], &total) &&
             !__builtin_add_overflow(total, p->pads[d][1], &total);
      if (fits && total % b != 0) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "padded_shape[%d]=%" PRId64 " is not divisible by block_shape[%d]=%" PRId64, d,
                          total, d, b);
      }
      p->big[d] = in;
      p->small[d] = total / b;
      out_shape->dims[1 + d] = p->small[d];
    } else {
      fits = fits && weft_cpu_mul(in, b, &total);
      if (fits && (__builtin_sub_overflow(total, p->pads[d][0], &total) ||
                   __builtin_sub_overflow(total, p->pads[d][1], &total) || total < 0)) {
        return WEFT_ERROR(INVALID_ARGUMENT, "cropped_shape[%d]=%" PRId64 " must be non-negative", d, total);
      }
      p->small[d] = in;
      p->big[d] = total;
      out_shape->dims[1 + d] = total;
    }
    if (!fits) return WEFT_ERROR(INVALID_ARGUMENT, "block_shape is too large");
  }
  int64_t batch = x->shape.dims[0];
  if (to_batch) {
    p->batch = batch;
    if (!weft_cpu_mul(batch, blocks, &out_shape->dims[0]))
      return WEFT_ERROR(INVALID_ARGUMENT, "block_shape is too large");
  } else {
    if (batch % blocks != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input batch dimension (%" PRId64
                        ") is not divisible by product of block sizes (%" PRId64 ")",
                        batch, blocks);
    }
    p->batch = out_shape->dims[0] = batch / blocks;
  }
  p->rest = weft_cpu_product(&x->shape, 1 + p->m, x->shape.rank);
  return NULL;
}

static weft_status_t *run_plan(weft_kernel_ctx_t *ctx, const plan_t *p, bool to_batch, const weft_tensor_t *x,
                               weft_tensor_t *y) {
  int64_t big_strides[MAX_BLOCK_DIMS], small_strides[MAX_BLOCK_DIMS], big = p->rest, small = p->rest,
                                                                      blocks = 1;
  for (int d = p->m - 1; d >= 0; d--) {
    big_strides[d] = big;
    small_strides[d] = small;
    big *= p->big[d];
    small *= p->small[d];
    blocks *= p->block[d];
  }
  for (int64_t k = 0; k < blocks; k++) {
    weft_move_t m = {.rank = p->m + 2};
    int64_t *bs = to_batch ? m.from_strides : m.to_strides, *ss = to_batch ? m.to_strides : m.from_strides;
    int64_t *bb = to_batch ? &m.from_base : &m.to_base, *sb = to_batch ? &m.to_base : &m.from_base;
    m.dims[0] = p->batch;
    bs[0] = big;
    ss[0] = small;
    *sb = k * p->batch * small;
    int64_t rest = k;
    for (int d = p->m - 1; d >= 0; d--) {
      int64_t b = p->block[d], phase = rest % b - p->pads[d][0], first = 0;
      rest /= b;
      if (phase < 0) { /* the first cells of this phase are padding */
        first = (-phase + b - 1) / b;
        phase += first * b;
      }
      int64_t cells = phase < p->big[d] ? (p->big[d] - phase + b - 1) / b : 0;
      if (cells > p->small[d] - first) cells = p->small[d] - first;
      m.dims[1 + d] = cells < 0 ? 0 : cells;
      bs[1 + d] = big_strides[d] * b;
      ss[1 + d] = small_strides[d];
      *bb += phase * big_strides[d];
      *sb += first * small_strides[d];
    }
    m.dims[p->m + 1] = p->rest;
    bs[p->m + 1] = ss[p->m + 1] = 1;
    WEFT_RETURN_IF_ERROR(weft_move_run(&m, ctx->device->pool, x, y));
  }
  return NULL;
}

static bool has_padding(const plan_t *p) {
  bool has = false;
  for (int d = 0; d < p->m; d++) has |= p->pads[d][0] + p->pads[d][1] > 0;
  return has;
}

static weft_status_t *space_batch(weft_kernel_ctx_t *ctx, bool to_batch, int64_t size) {
  plan_t p = {0};
  weft_shape_t shape;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(read_plan(ctx, to_batch, size, &p, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_in(ctx, 0)->dtype, &shape, &y));
  if (to_batch && has_padding(&p)) weft_cpu_zero(y);
  if (y->count == 0) return NULL;
  return run_plan(ctx, &p, to_batch, weft_in(ctx, 0), y);
}

static weft_status_t *space_to_batch_compute(weft_kernel_ctx_t *ctx) { return space_batch(ctx, true, 0); }
static weft_status_t *batch_to_space_compute(weft_kernel_ctx_t *ctx) { return space_batch(ctx, false, 0); }

/* The first versions: square blocks of images. */
WEFT_ATTRS(square, (INT, block_size))
static weft_status_t *square(weft_kernel_ctx_t *ctx, const square_attrs_t *attrs) {
  return space_batch(ctx, *(const bool *)ctx->node->param, attrs->block_size);
}

/* ---- depth: [n, h*b, w*b, c] and [n, h, w, b, b, c] ---- */

WEFT_ATTRS(depth, (INT, block_size), (STRING, data_format))
static weft_status_t *depth(weft_kernel_ctx_t *ctx, const depth_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  bool to_depth = *(const bool *)ctx->node->param;
  int64_t b = attrs->block_size;
  if (x->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input rank should be: 4 instead of: %d", x->shape.rank);
  if (b < 2 || b > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "Block size should be > 1, but was: %" PRId64, b);
  bool nchw = weft_str_is(attrs->data_format, "NCHW");
  if (!nchw && !weft_str_is(attrs->data_format, "NHWC"))
    return WEFT_ERROR(INVALID_ARGUMENT, "Only NHWC and NCHW are supported");
  int hd = nchw ? 2 : 1, cd = nchw ? 1 : 3;
  int64_t n = x->shape.dims[0], h = x->shape.dims[hd], w = x->shape.dims[hd + 1], c = x->shape.dims[cd];
  if (to_depth ? h % b != 0 || w % b != 0 : c % (b * b) != 0) {
    if (to_depth) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Image width %" PRId64 " and height %" PRId64
                        " should be divisible by block_size: %" PRId64,
                        w, h, b);
    }
    return WEFT_ERROR(INVALID_ARGUMENT, "Input depth dimension %" PRId64 " should be divisible by: %" PRId64,
                      c, b * b);
  }
  /* h, w, c: of the deep side. */
  int64_t dh = to_depth ? h / b : h, dw = to_depth ? w / b : w, sc = to_depth ? c : c / (b * b);
  weft_shape_t shape = {.rank = 4, .dims = {n}};
  shape.dims[hd] = to_depth ? dh : h * b;
  shape.dims[hd + 1] = to_depth ? dw : w * b;
  if (to_depth && !weft_cpu_mul(c, b * b, &shape.dims[cd]))
    return WEFT_ERROR(INVALID_ARGUMENT, "block_size is too large");
  if (!to_depth) shape.dims[cd] = sc;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  int64_t wide[4], deep[4]; /* strides as stored */
  weft_strides_of(to_depth ? &x->shape : &shape, wide);
  weft_strides_of(to_depth ? &shape : &x->shape, deep);
  weft_move_t m = {.rank = 6, .dims = {n, dh, dw, b, b, sc}};
  int64_t ws[6] = {wide[0], wide[hd] * b, wide[hd + 1] * b, wide[hd], wide[hd + 1], wide[cd]};
  int64_t ds[6] = {deep[0], deep[hd], deep[hd + 1], deep[cd] * b * sc, deep[cd] * sc, deep[cd]};
  memcpy(m.from_strides, to_depth ? ws : ds, sizeof ws);
  memcpy(m.to_strides, to_depth ? ds : ws, sizeof ws);
  return weft_move_run(&m, ctx->device->pool, x, y);
}

const weft_kernel_t weft_cpu_space_kernels[] = {
    {.op = "BatchToSpace", WEFT_COMPUTE(square), .param = &(const bool){false}},
    WEFT_KERNEL("BatchToSpaceND", NULL, 0, NULL, batch_to_space_compute, NULL),
    {.op = "DepthToSpace", WEFT_COMPUTE(depth), .param = &(const bool){false}},
    {.op = "SpaceToBatch", WEFT_COMPUTE(square), .param = &(const bool){true}},
    WEFT_KERNEL("SpaceToBatchND", NULL, 0, NULL, space_to_batch_compute, NULL),
    {.op = "SpaceToDepth", WEFT_COMPUTE(depth), .param = &(const bool){true}},
    {0},
};
