/* kernels/cpu/quantize/pool.c - QuantizedAvgPool and QuantizedMaxPool: on the integers, the range stays. */
#include "base/thread_pool.h"
#include "kernels/cpu/nn/window.h"
#include "kernels/cpu/quantize/quantize.h"

typedef struct pool_run {
  const weft_tensor_t *x;
  weft_tensor_t *y;
  weft_window_t h, w;
  int64_t channels;
  bool is_max;
} pool_run_t;

/* Of one channel, over the cells from x that the window has within the image. */
static int32_t pooled(const pool_run_t *r, int64_t image, int64_t h0, int64_t w0, int64_t channel) {
  int64_t sum = 0, cells = 0;
  int32_t most = (int32_t)weft_quant_lowest(r->x->dtype);
  for (int64_t h = h0 < 0 ? 0 : h0; h < h0 + r->h.k && h < r->h.in; h++) {
    for (int64_t w = w0 < 0 ? 0 : w0; w < w0 + r->w.k && w < r->w.in; w++) {
      const int32_t v = weft_quant_at(r->x, ((image * r->h.in + h) * r->w.in + w) * r->channels + channel);
      sum += v;
      cells++;
      most = v > most ? v : most;
    }
  }
  return r->is_max ? most : cells > 0 ? (int32_t)(sum / cells) : 0;
}

/* Pixels of the result. */
static void pool_pixels(void *arg, int64_t begin, int64_t end) {
  const pool_run_t *r = arg;
  for (int64_t p = begin; p < end; p++) {
    const int64_t w = p % r->w.out, h = p / r->w.out % r->h.out, image = p / r->w.out / r->h.out;
    const int64_t h0 = h * r->h.stride - r->h.before, w0 = w * r->w.stride - r->w.before;
    for (int64_t k = 0; k < r->channels; k++) {
      weft_quant_set(r->y, p * r->channels + k, pooled(r, image, h0, w0, k));
    }
  }
}

static weft_status_t *pool(weft_kernel_ctx_t *c, bool is_max) {
  const weft_window_attrs_t *a = c->state;
  pool_run_t r = {.x = weft_in(c, 0), .is_max = is_max};
  weft_window_t windows[WEFT_SPACE];
  weft_range_t range;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 1, &range));
  if (r.x->shape.rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in must be 4-dimensional");
  if (a->ksize_channel != 1) {
    return WEFT_ERROR(UNIMPLEMENTED, "Non-spatial pooling is not yet supported. Volunteers? :)");
  }
  WEFT_RETURN_IF_ERROR(weft_windows_plan(a, &r.x->shape, a->ksize, windows));
  r.h = windows[1];
  r.w = windows[2];
  r.channels = r.x->shape.dims[3];
  const weft_shape_t shape = {.rank = 4, .dims = {r.x->shape.dims[0], r.h.out, r.w.out, r.channels}};
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, r.x->dtype, &shape, &r.y));
  if (r.y->count > 0) {
    const int64_t work = r.channels * (r.h.k < r.h.in ? r.h.k : r.h.in) * (r.w.k < r.w.in ? r.w.k : r.w.in);
    weft_parallel_for(c->device->pool, r.y->count / r.channels, WEFT_CPU_GRAIN / (work + 1) + 1, pool_pixels,
                      &r);
  }
  return weft_range_output(c, 1, range);
}

static weft_status_t *max_pool(weft_kernel_ctx_t *c) { return pool(c, true); }
static weft_status_t *avg_pool(weft_kernel_ctx_t *c) { return pool(c, false); }

#define BYTES (WEFT_DTYPE_BIT(WEFT_QINT8) | WEFT_DTYPE_BIT(WEFT_QUINT8))
const weft_kernel_t weft_cpu_quantize_pool_kernels[] = {
    WEFT_KERNEL("QuantizedAvgPool", "T", BYTES, weft_pool_prepare, avg_pool, weft_free),
    WEFT_KERNEL("QuantizedMaxPool", "T", BYTES, weft_pool_prepare, max_pool, weft_free),
    {0},
};
