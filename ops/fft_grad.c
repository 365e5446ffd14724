/* ops/fft_grad.c - gradients of Fourier transforms: the transform back, without or with its scale. */
#include "ops/grad.h"

static value_t mul(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Mul", a, b); }
static value_t add(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "AddV2", a, b); }
static value_t int_of(weft_grad_t *g, int64_t v) { return weft_grad_int_scalar(g, WEFT_I32, v); }

/* Elements begin to end of a vector, or the one at begin; end 0: all of them behind. */
static value_t part(weft_grad_t *g, value_t x, int begin, int end, bool one) {
  weft_named_attr_t attrs[] = {weft_int_attr("end_mask", end == 0), weft_int_attr("shrink_axis_mask", one)};
  return weft_grad_node(
      g, "StridedSlice",
      (value_t[]){x, weft_grad_int32s(g, (int32_t[]){begin}, 1), weft_grad_int32s(g, (int32_t[]){end}, 1),
                  weft_grad_int32s(g, (int32_t[]){1}, 1)},
      4, attrs, 2);
}

/* Along the last dimension: x[..., begin:end]. */
static value_t columns(weft_grad_t *g, value_t x, int begin, int end) {
  weft_named_attr_t attrs[] = {weft_int_attr("ellipsis_mask", 1),
                               weft_int_attr("end_mask", end == 0 ? 2 : 0)};
  return weft_grad_node(
      g, "StridedSlice",
      (value_t[]){x, weft_grad_int32s(g, (int32_t[]){0, begin}, 2),
                  weft_grad_int32s(g, (int32_t[]){0, end}, 2), weft_grad_int32s(g, (int32_t[]){1, 1}, 2)},
      4, attrs, 2);
}

/* The number of elements that a transform of x takes, as `dtype`. */
static value_t size_of(weft_grad_t *g, value_t x, int rank, int dtype) {
  value_t dims = part(g, weft_grad_shape_node(g, x, WEFT_I32), -rank, 0, false);
  return weft_grad_cast(g, weft_grad_reduce(g, "Prod", dims, weft_grad_int32s(g, (int32_t[]){0}, 1), false),
                        dtype);
}

static int real_of(int dtype) { return dtype == WEFT_C64 || dtype == WEFT_F32 ? WEFT_F32 : WEFT_F64; }

/* ---- complex ---- */

static weft_status_t *forward(weft_grad_ctx_t *c, const char *back, int rank) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t dy = c->dy[0];
  c->dx[0] = mul(g, weft_grad_op1(g, back, dy), size_of(g, dy, rank, weft_grad_dtype(g, dy)));
  return g->s;
}
weft_status_t *weft_grad_fft(weft_grad_ctx_t *c) { return forward(c, "IFFT", 1); }
weft_status_t *weft_grad_fft2d(weft_grad_ctx_t *c) { return forward(c, "IFFT2D", 2); }
weft_status_t *weft_grad_fft3d(weft_grad_ctx_t *c) { return forward(c, "IFFT3D", 3); }

static weft_status_t *inverse(weft_grad_ctx_t *c, const char *back, int rank) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t dy = c->dy[0];
  int dtype = weft_grad_dtype(g, dy);
  value_t scale = weft_grad_op1(g, "Reciprocal", size_of(g, dy, rank, real_of(dtype)));
  c->dx[0] = mul(g, weft_grad_op1(g, back, dy), weft_grad_cast(g, scale, dtype));
  return g->s;
}
weft_status_t *weft_grad_ifft(weft_grad_ctx_t *c) { return inverse(c, "FFT", 1); }
weft_status_t *weft_grad_ifft2d(weft_grad_ctx_t *c) { return inverse(c, "FFT2D", 2); }
weft_status_t *weft_grad_ifft3d(weft_grad_ctx_t *c) { return inverse(c, "FFT3D", 3); }

/* ---- real: half of the result is not there, because it is the conjugate of the other half ---- */

static value_t is_odd(weft_grad_t *g, value_t lengths) {
  return weft_grad_op2(g, "FloorMod", part(g, lengths, -1, 0, true), int_of(g, 2));
}

/* 1, -1, 1, ... : as many as x's last dimension has. */
static value_t alternating(weft_grad_t *g, value_t x, int dtype) {
  value_t n = part(g, weft_grad_shape_node(g, x, WEFT_I32), -1, 0, true);
  value_t odd =
      weft_grad_op2(g, "FloorMod", weft_grad_op3(g, "Range", int_of(g, 0), n, int_of(g, 1)), int_of(g, 2));
  return weft_grad_cast(g, weft_grad_op2(g, "Sub", int_of(g, 1), mul(g, int_of(g, 2), odd)), dtype);
}

/* A column y [..., n, 1], transformed back along n without the scale. */
static value_t column_back(weft_grad_t *g, value_t y, value_t x) {
  value_t shape = weft_grad_shape_node(g, y, WEFT_I32);
  value_t rows = part(g, weft_grad_shape_node(g, x, WEFT_I32), 0, -1, false); /* an error if x was cropped */
  value_t flat = weft_grad_op2(g, "Reshape", y, rows);
  value_t n =
      weft_grad_cast(g, part(g, weft_grad_shape_node(g, x, WEFT_I32), -2, -1, true), weft_grad_dtype(g, y));
  return weft_grad_op2(g, "Reshape", mul(g, weft_grad_op1(g, "IFFT", flat), n), shape);
}

/* What the real transform back leaves out: the first column, and the last one of an even length, once more.
 */
static weft_status_t *from_real(weft_grad_ctx_t *c, const char *back, int rank) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], dy = c->dy[0], lengths = c->inputs[1];
  int wide = weft_grad_dtype(g, dy), real = weft_grad_dtype(g, x);
  value_t first = columns(g, dy, 0, 1), last = columns(g, dy, -1, 0);
  value_t even = weft_grad_cast(g, weft_grad_op2(g, "Sub", int_of(g, 1), is_odd(g, lengths)), wide);
  if (rank == 2) {
    first = column_back(g, first, x);
    last = column_back(g, last, x);
  }
  value_t extra = add(g, first, mul(g, mul(g, even, last), alternating(g, x, wide)));
  weft_named_attr_t out = weft_type_attr("Tout", real), type = weft_type_attr("Treal", real);
  value_t inverted = weft_grad_node(g, back, (value_t[]){dy, lengths}, 2, &type, 1);
  value_t sum =
      add(g, mul(g, inverted, size_of(g, x, rank, real)), weft_grad_node(g, "Real", &extra, 1, &out, 1));
  c->dx[0] = mul(g, weft_grad_scalar(g, real, 0.5), sum);
  return g->s;
}
weft_status_t *weft_grad_rfft(weft_grad_ctx_t *c) { return from_real(c, "IRFFT", 1); }
weft_status_t *weft_grad_rfft2d(weft_grad_ctx_t *c) { return from_real(c, "IRFFT2D", 2); }

/* All but the first column, and the last one of an even length, count twice. */
static weft_status_t *to_real(weft_grad_ctx_t *c, const char *back, int rank) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], dy = c->dy[0], lengths = c->inputs[1], odd = is_odd(g, lengths);
  int wide = weft_grad_dtype(g, x), real = weft_grad_dtype(g, dy);
  value_t n = part(g, weft_grad_shape_node(g, x, WEFT_I32), -1, 0, false), one = weft_grad_scalar(g, real, 1);
  value_t twice = add(g, weft_grad_op2(g, "Sub", n, int_of(g, 2)), odd),
          once = weft_grad_op2(g, "Sub", weft_grad_int32s(g, (int32_t[]){1}, 1), odd);
  value_t mask = weft_grad_concat(
      g,
      (value_t[]){weft_grad_expand(g, one, 0), weft_grad_op2(g, "Fill", twice, weft_grad_scalar(g, real, 2)),
                  weft_grad_op2(g, "Fill", once, one)},
      3, 0);
  weft_named_attr_t type = weft_type_attr("Tcomplex", wide);
  value_t transformed = weft_grad_node(g, back, (value_t[]){dy, lengths}, 2, &type, 1);
  value_t scale = mul(g, weft_grad_op1(g, "Reciprocal", size_of(g, dy, rank, real)), mask);
  c->dx[0] = mul(g, transformed, weft_grad_cast(g, scale, wide));
  return g->s;
}
weft_status_t *weft_grad_irfft(weft_grad_ctx_t *c) { return to_real(c, "RFFT", 1); }
weft_status_t *weft_grad_irfft2d(weft_grad_ctx_t *c) { return to_real(c, "RFFT2D", 2); }
