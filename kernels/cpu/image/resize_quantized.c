/* kernels/cpu/image/resize_quantized.c - QuantizedResizeBilinear: of small integers with fixed-point parts,
 * in the same range of values as its input. */
#include "kernels/cpu/image/resize.h"

/* Bits behind the point of a part: as many as fit into products of the type's numbers. */
enum { BITS_QUINT8 = 7, BITS_QINT32 = 30 };

typedef struct quantized_job {
  weft_resize_t r;
  const void *x;
  void *y;
  const weft_between_t *columns;
} quantized_job_t;

static inline int64_t fixed(float part, int bits) { return (int64_t)(part * (float)(INT64_C(1) << bits)); }

static inline int64_t mix_fixed(int64_t top_left, int64_t top_right, int64_t bottom_left,
                                int64_t bottom_right, int64_t across, int64_t down, int bits) {
  const int64_t one = INT64_C(1) << bits, top = top_left * one + (top_right - top_left) * across,
                bottom = bottom_left * one + (bottom_right - bottom_left) * across;
  return (top + (bottom - top) / one * down + one / 2) / one;
}

static inline float mix(float top_left, float top_right, float bottom_left, float bottom_right, float across,
                        float down) {
  const float top = top_left + (top_right - top_left) * across,
              bottom = bottom_left + (bottom_right - bottom_left) * across;
  return top + (bottom - top) * down;
}

/* Rows [begin, end) of all images; `value`: of the four pixels a, b, c, d around a place. */
#define QUANTIZED_ROWS(name, elem, value)                                                                \
  static void name(void *arg, int64_t begin, int64_t end) {                                              \
    const quantized_job_t *j = arg;                                                                      \
    const weft_resize_t *r = &j->r;                                                                      \
    const int64_t line = r->in_w * r->channels;                                                          \
    for (int64_t i = begin; i < end; i++) {                                                              \
      const weft_between_t v = weft_resize_between(r, i % r->out_h, r->scale_h, r->in_h);                \
      const elem *image = (const elem *)j->x + i / r->out_h * r->in_h * line;                            \
      const elem *top = image + v.lower * line, *bottom = image + v.upper * line;                        \
      elem *y = (elem *)j->y + i * r->out_w * r->channels;                                               \
      for (int64_t w = 0; w < r->out_w; w++, y += r->channels) {                                         \
        const weft_between_t *h = &j->columns[w];                                                        \
        const int64_t left = h->lower * r->channels, right = h->upper * r->channels;                     \
        for (int64_t k = 0; k < r->channels; k++) {                                                      \
          const elem a = top[left + k], b = top[right + k], c = bottom[left + k], d = bottom[right + k]; \
          y[k] = (elem)(value);                                                                          \
        }                                                                                                \
      }                                                                                                  \
    }                                                                                                    \
  }
QUANTIZED_ROWS(rows_quint8, uint8_t,
               mix_fixed(a, b, c, d, fixed(h->part, BITS_QUINT8), fixed(v.part, BITS_QUINT8), BITS_QUINT8))
/* A large qint32 is a number only by way of a float, as in TensorFlow. */
static inline int64_t wide(int32_t v) { return (int64_t)(float)v; }
QUANTIZED_ROWS(rows_qint32, int32_t,
               mix_fixed(wide(a), wide(b), wide(c), wide(d), fixed(h->part, BITS_QINT32),
                         fixed(v.part, BITS_QINT32), BITS_QINT32))
QUANTIZED_ROWS(rows_float, float, mix(a, b, c, d, h->part, v.part))

WEFT_ATTRS_OF(quantized_bilinear, weft_resize)
static weft_status_t *quantized_bilinear(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  const weft_resize_attrs_t corners = {.align_corners = attrs->align_corners};
  const weft_tensor_t *x = weft_in(ctx, 0);
  quantized_job_t j = {.x = x->data};
  weft_tensor_t *y = NULL;
  weft_between_t *columns = NULL;
  for (int i = 2; i < 4; i++) {
    if (weft_in(ctx, i)->shape.rank != 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", i == 2 ? "min" : "max");
  }
  WEFT_RETURN_IF_ERROR(weft_resize_plan(ctx, &corners, &j.r)); /* both attributes may be set here */
  j.r.half_pixels = attrs->half_pixel_centers;
  const weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.out_h, j.r.out_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  weft_cpu_out_same(ctx, 2, 1);
  weft_cpu_out_same(ctx, 3, 2);
  if (y->count == 0) return NULL;
  if (weft_shape_eq(&x->shape, &shape)) {
    memcpy(y->data, x->data, x->bytes);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_resize_columns(&j.r, &columns));
  j.y = y->data;
  j.columns = columns;
  weft_resize_rows(ctx, &j.r, 8,
                   x->dtype == WEFT_QUINT8   ? rows_quint8
                   : x->dtype == WEFT_QINT32 ? rows_qint32
                                             : rows_float,
                   &j);
  weft_free(columns);
  return NULL;
}

const weft_kernel_t weft_cpu_resize_quantized_kernels[] = {
    WEFT_KERNEL_ATTRS("QuantizedResizeBilinear", "T",
                      WEFT_DTYPE_BIT(WEFT_QUINT8) | WEFT_DTYPE_BIT(WEFT_QINT32) | WEFT_DTYPE_BIT(WEFT_F32),
                      quantized_bilinear),
    {0},
};
