/* ops/image_grad.c - gradients of image ops. */
#include "ops/grad.h"

#define IMAGE                              \
  weft_grad_t g_ = {c, NULL}, *g = &g_;    \
  value_t x = c->inputs[0], dy = c->dy[0]; \
  (void)x;                                 \
  (void)dy

/* ---- resizing ---- */

/* An image of another type than these has no gradient. */
static bool is_float(weft_grad_t *g, value_t x, weft_dtype_set_t also) {
  const int dtype = weft_grad_dtype(g, x);
  return g->s == NULL &&
         ((WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) | also) & WEFT_DTYPE_BIT(dtype)) != 0;
}

static value_t resize_grad(weft_grad_t *g, const char *op, value_t dy, value_t of) {
  weft_named_attr_t attrs[] = {weft_grad_same(g, "align_corners"), weft_grad_same(g, "half_pixel_centers")};
  return weft_grad_node(g, op, (value_t[]){dy, of}, 2, attrs, 2);
}

weft_status_t *weft_grad_resize_bilinear(weft_grad_ctx_t *c) {
  IMAGE;
  if (is_float(g, x, WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_BF16)))
    c->dx[0] = resize_grad(g, "ResizeBilinearGrad", dy, x);
  return g->s;
}

weft_status_t *weft_grad_resize_bicubic(weft_grad_ctx_t *c) {
  IMAGE;
  if (is_float(g, x, 0)) c->dx[0] = resize_grad(g, "ResizeBicubicGrad", dy, x);
  return g->s;
}

/* Height and width of images. */
static value_t size_of(weft_grad_t *g, value_t x) {
  const weft_shape_t s = weft_grad_shape_of(g, x);
  if (s.rank == 4 && s.dims[1] >= 0 && s.dims[1] <= INT32_MAX && s.dims[2] >= 0 && s.dims[2] <= INT32_MAX)
    return weft_grad_int32s(g, (int32_t[]){(int32_t)s.dims[1], (int32_t)s.dims[2]}, 2);
  return weft_grad_node(
      g, "StridedSlice",
      (value_t[]){weft_grad_shape_node(g, x, WEFT_I32), weft_grad_int32s(g, (int32_t[]){1}, 1),
                  weft_grad_int32s(g, (int32_t[]){3}, 1), weft_grad_int32s(g, (int32_t[]){1}, 1)},
      4, NULL, 0);
}

weft_status_t *weft_grad_resize_nearest(weft_grad_ctx_t *c) {
  IMAGE;
  c->dx[0] = resize_grad(g, "ResizeNearestNeighborGrad", dy, size_of(g, x));
  return g->s;
}

/* ---- RGB to HSV: Smith, "Color gamut transform pairs" (1978), differentiated piece by piece. Which channel
 * is the highest and which the lowest is 1 or 0 for each pixel; of equal channels the first one is the
 * highest and the last one the lowest. A quotient by 0 is 0. ---- */

enum { RED, GREEN, BLUE, COLOURS };

typedef struct hsv {
  weft_grad_t *g;
  value_t x[COLOURS];                  /* the channels */
  value_t high[COLOURS], low[COLOURS]; /* 1 where it is the highest, the lowest */
  value_t positive[COLOURS];           /* 1 where it is above 0 */
} hsv_t;

static value_t add(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "AddV2", a, b); }
static value_t sub(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Sub", a, b); }
static value_t mul(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Mul", a, b); }
static value_t mul3(weft_grad_t *g, value_t a, value_t b, value_t d) { return mul(g, mul(g, a, b), d); }
static value_t neg(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "Neg", a); }
static value_t square(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "Square", a); }
static value_t reciprocal(weft_grad_t *g, value_t a) {
  return weft_grad_op2(g, "DivNoNan", weft_grad_scalar(g, weft_grad_dtype(g, a), 1), a);
}

/* 1 where a op b and p op2 q hold. */
static value_t both(weft_grad_t *g, const char *op, value_t a, value_t b, const char *op2, value_t p,
                    value_t q) {
  value_t is = weft_grad_op2(g, "LogicalAnd", weft_grad_op2(g, op, a, b), weft_grad_op2(g, op2, p, q));
  return weft_grad_cast(g, is, weft_grad_dtype(g, a));
}

static void channels(weft_grad_t *g, value_t x, value_t *out) {
  weft_named_attr_t attrs[] = {weft_int_attr("num", COLOURS), weft_int_attr("axis", -1)};
  value_t parts = weft_grad_node(g, "Unpack", &x, 1, attrs, 2);
  for (int k = 0; k < COLOURS; k++) out[k] = weft_grad_output(parts, k);
}

static hsv_t hsv_of(weft_grad_t *g, value_t x) {
  hsv_t h = {.g = g};
  channels(g, x, h.x);
  const value_t r = h.x[RED], gr = h.x[GREEN], b = h.x[BLUE];
  h.high[RED] = both(g, "GreaterEqual", r, b, "GreaterEqual", r, gr);
  h.high[GREEN] = both(g, "Greater", gr, r, "GreaterEqual", gr, b);
  h.high[BLUE] = both(g, "Greater", b, r, "Greater", b, gr);
  h.low[RED] = both(g, "Less", r, b, "Less", r, gr);
  h.low[GREEN] = both(g, "LessEqual", gr, r, "Less", gr, b);
  h.low[BLUE] = both(g, "LessEqual", b, r, "LessEqual", b, gr);
  const int dtype = weft_grad_dtype(g, x);
  value_t zero = weft_grad_scalar(g, dtype, 0);
  for (int k = 0; k < COLOURS; k++)
    h.positive[k] = weft_grad_cast(g, weft_grad_op2(g, "Greater", h.x[k], zero), dtype);
  return h;
}

/* The saturation, 1 - lowest / highest, by channel k. */
static value_t saturation_by(const hsv_t *h, int k) {
  weft_grad_t *g = h->g;
  const int n = (k + 1) % COLOURS, p = (k + 2) % COLOURS;
  value_t lowest = add(g, mul(g, h->low[n], h->x[n]), mul(g, h->low[p], h->x[p]));
  value_t highest = add(g, mul(g, h->high[n], h->x[n]), mul(g, h->high[p], h->x[p]));
  value_t as_high = mul3(g, h->high[k], lowest, reciprocal(g, square(g, h->x[k])));
  value_t as_low = mul(g, neg(g, h->low[k]), reciprocal(g, highest));
  return mul(g, h->positive[k], add(g, as_high, as_low));
}

/* The hue, in degrees, by channel k where channel m is the highest and k is the lowest or the one between. */
static value_t hue_below(const hsv_t *h, int k, int m) {
  weft_grad_t *g = h->g;
  const int n = (k + 1) % COLOURS, p = (k + 2) % COLOURS, other = COLOURS - k - m;
  value_t is_high = mul(g, h->positive[m], h->high[m]);
  value_t as_low = mul(g, mul3(g, is_high, h->low[k], sub(g, h->x[p], h->x[n])),
                       reciprocal(g, square(g, sub(g, h->x[m], h->x[k]))));
  value_t between = mul3(g, is_high, h->low[other], reciprocal(g, sub(g, h->x[m], h->x[other])));
  return m == p ? add(g, as_low, between) : sub(g, as_low, between);
}

static value_t hue_by(const hsv_t *h, int k, value_t saturation, value_t value) {
  weft_grad_t *g = h->g;
  const int n = (k + 1) % COLOURS, p = (k + 2) % COLOURS;
  value_t as_high = mul3(g, mul(g, h->positive[k], neg(g, h->high[k])), sub(g, h->x[n], h->x[p]),
                         mul(g, reciprocal(g, square(g, saturation)), reciprocal(g, square(g, value))));
  value_t sum = add(g, add(g, as_high, hue_below(h, k, n)), hue_below(h, k, p));
  return mul(g, sum, weft_grad_scalar(g, weft_grad_dtype(g, value), 1.0 / 6));
}

weft_status_t *weft_grad_rgb_to_hsv(weft_grad_ctx_t *c) {
  IMAGE;
  value_t y[COLOURS], up[COLOURS], parts[COLOURS];
  const hsv_t h = hsv_of(g, x);
  channels(g, c->outputs[0], y);
  channels(g, dy, up);
  for (int k = 0; k < COLOURS; k++) {
    value_t value = mul(g, up[2], h.high[k]), saturation = mul(g, up[1], saturation_by(&h, k)),
            hue = mul(g, up[0], hue_by(&h, k, y[1], y[2]));
    parts[k] = add(g, add(g, value, saturation), hue);
  }
  weft_named_attr_t attrs[] = {weft_int_attr("N", COLOURS), weft_int_attr("axis", -1)};
  c->dx[0] = weft_grad_node(g, "Pack", parts, COLOURS, attrs, 2);
  return g->s;
}

/* ---- pieces of images ---- */

/* Of the image if it has floats; of the boxes in any case, as of bilinear sampling. */
weft_status_t *weft_grad_crop_and_resize(weft_grad_ctx_t *c) {
  IMAGE;
  value_t boxes = c->inputs[1], owners = c->inputs[2];
  if (is_float(g, x, WEFT_DTYPE_BIT(WEFT_F16))) {
    weft_named_attr_t attrs[] = {weft_type_attr("T", weft_grad_dtype(g, x)), weft_grad_same(g, "method")};
    c->dx[0] =
        weft_grad_node(g, "CropAndResizeGradImage",
                       (value_t[]){dy, boxes, owners, weft_grad_shape_node(g, x, WEFT_I32)}, 4, attrs, 2);
  }
  c->dx[1] = weft_grad_node(g, "CropAndResizeGradBoxes", (value_t[]){dy, x, boxes, owners}, 4, NULL, 0);
  return g->s;
}

weft_status_t *weft_grad_scale_and_translate(weft_grad_ctx_t *c) {
  IMAGE;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "kernel_type"), weft_grad_same(g, "antialias")};
  c->dx[0] =
      weft_grad_node(g, "ScaleAndTranslateGrad", (value_t[]){dy, x, c->inputs[2], c->inputs[3]}, 4, attrs, 2);
  return g->s;
}

/* The eight numbers of each transform with a 1 as matrices, inverted, divided by the last element. */
static value_t inverse_transforms(weft_grad_t *g, value_t transforms) {
  weft_named_attr_t row_attrs[] = {weft_int_attr("begin_mask", 1), weft_int_attr("end_mask", 1)};
  value_t rows = weft_grad_gather0(g, weft_grad_shape_node(g, transforms, WEFT_I32),
                                   weft_grad_int32s(g, (int32_t[]){0}, 1));
  value_t one = weft_grad_int32s(g, (int32_t[]){1}, 1),
          ones = weft_grad_op2(g, "Fill", weft_grad_concat(g, (value_t[]){rows, one}, 2, 0),
                               weft_grad_scalar(g, WEFT_F32, 1));
  value_t nine = weft_grad_concat(g, (value_t[]){transforms, ones}, 2, 1);
  value_t matrices = weft_grad_op2(g, "Reshape", nine, weft_grad_int32s(g, (int32_t[]){-1, 3, 3}, 3));
  value_t flat = weft_grad_op2(g, "Reshape", weft_grad_op1(g, "MatrixInverse", matrices),
                               weft_grad_int32s(g, (int32_t[]){-1, 9}, 2));
  value_t last = weft_grad_node(
      g, "StridedSlice",
      (value_t[]){flat, weft_grad_int32s(g, (int32_t[]){0, 8}, 2), weft_grad_int32s(g, (int32_t[]){0, 9}, 2),
                  weft_grad_int32s(g, (int32_t[]){1, 1}, 2)},
      4, row_attrs, 2);
  return weft_grad_node(
      g, "StridedSlice",
      (value_t[]){weft_grad_op2(g, "RealDiv", flat, last), weft_grad_int32s(g, (int32_t[]){0, 0}, 2),
                  weft_grad_int32s(g, (int32_t[]){0, 8}, 2), weft_grad_int32s(g, (int32_t[]){1, 1}, 2)},
      4, row_attrs, 2);
}

/* The gradient transformed back. */
weft_status_t *weft_grad_projective(weft_grad_ctx_t *c) {
  IMAGE;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "interpolation"), weft_grad_same(g, "fill_mode")};
  value_t inputs[4] = {dy, inverse_transforms(g, c->inputs[1]), size_of(g, x)};
  if (c->num_inputs > 3) inputs[3] = weft_grad_scalar(g, WEFT_F32, 0); /* what is not there has no gradient */
  c->dx[0] =
      weft_grad_node(g, c->num_inputs > 3 ? "ImageProjectiveTransformV3" : "ImageProjectiveTransformV2",
                     inputs, c->num_inputs, attrs, 2);
  return g->s;
}
