/* kernels/cpu/image/resize_bicubic.c - ResizeBicubic and its gradient.
 *
 * Source: Keys, "Cubic convolution interpolation for digital image processing" (1981). As in TensorFlow,
 * places between two pixels are rounded to 1/1024; centred pixels use a = -1/2 and leave out what lies
 * outside of the image, others a = -3/4 and repeat the pixels at its border.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"

enum { CUBIC_TAPS = 4, CUBIC_STEPS = 1024 };

/* The pixels along one dimension that a result is made of. */
typedef struct taps {
  int64_t at[CUBIC_TAPS];
  float weight[CUBIC_TAPS];
} taps_t;

typedef struct bicubic_job {
  weft_resize_t r;
  const float *x; /* the image; of a gradient dy */
  void *y;        /* float; of a gradient dx, float or double */
  const taps_t *columns;
} bicubic_job_t;

/* The weight of a pixel `step`/1024 away, and that of the one behind it. */
static float near_weight(double a, int64_t step) {
  const float x = (float)((double)step / CUBIC_STEPS);
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}
static float far_weight(double a, int64_t step) {
  const float x = (float)((double)step / CUBIC_STEPS) + 1;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

static taps_t taps_of(const weft_resize_t *r, int64_t i, float scale, int64_t size) {
  const double a = r->half_pixels ? -0.5 : -0.75;
  const float at = weft_resize_at(r, i, scale);
  const int64_t below = (int64_t)floorf(at), step = lrintf((at - (float)below) * CUBIC_STEPS);
  taps_t t = {.weight = {far_weight(a, step), near_weight(a, step), near_weight(a, CUBIC_STEPS - step),
                         far_weight(a, CUBIC_STEPS - step)}};
  for (int k = 0; k < CUBIC_TAPS; k++) {
    t.at[k] = weft_resize_bound(below - 1 + k, size);
    if (r->half_pixels && t.at[k] != below - 1 + k) t.weight[k] = 0;
  }
  if (r->half_pixels) {
    const float sum = t.weight[0] + t.weight[1] + t.weight[2] + t.weight[3];
    if (fabsf(sum) >= 1000 * FLT_MIN) {
      const float by = 1 / sum;
      for (int k = 0; k < CUBIC_TAPS; k++) t.weight[k] *= by;
    }
  }
  return t;
}

static weft_status_t *find_columns(const weft_resize_t *r, taps_t **out) {
  *out = weft_malloc((size_t)r->out_w * sizeof **out);
  if (*out == NULL) return WEFT_NO_MEMORY("positions of %" PRId64 " columns", r->out_w);
  for (int64_t i = 0; i < r->out_w; i++) {
    (*out)[i] = taps_of(r, i, r->scale_w, r->in_w);
    for (int k = 0; k < CUBIC_TAPS; k++) (*out)[i].at[k] *= r->channels;
  }
  return NULL;
}

/* ---- forward ---- */

static inline float weighed(const float *w, float a, float b, float c, float d) {
  return a * w[0] + b * w[1] + c * w[2] + d * w[3];
}

static void bicubic_rows(void *arg, int64_t begin, int64_t end) {
  const bicubic_job_t *j = arg;
  const weft_resize_t *r = &j->r;
  const int64_t channels = r->channels, row = r->in_w * channels;
  for (int64_t i = begin; i < end; i++) {
    const taps_t v = taps_of(r, i % r->out_h, r->scale_h, r->in_h);
    const float *image = j->x + i / r->out_h * r->in_h * row, *p[CUBIC_TAPS];
    float *y = (float *)j->y + i * r->out_w * channels;
    for (int k = 0; k < CUBIC_TAPS; k++) p[k] = image + v.at[k] * row;
    for (int64_t w = 0; w < r->out_w; w++, y += channels) {
      const taps_t *h = &j->columns[w];
      for (int64_t c = 0; c < channels; c++) {
        float column[CUBIC_TAPS];
        for (int k = 0; k < CUBIC_TAPS; k++) {
          const int64_t at = h->at[k] + c;
          column[k] = weighed(v.weight, p[0][at], p[1][at], p[2][at], p[3][at]);
        }
        y[c] = weighed(h->weight, column[0], column[1], column[2], column[3]);
      }
    }
  }
}

WEFT_ATTRS_OF(bicubic, weft_resize)
static weft_status_t *bicubic(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  bicubic_job_t j;
  weft_tensor_t *x = NULL, *y = NULL;
  taps_t *columns = NULL;
  WEFT_RETURN_IF_ERROR(weft_resize_plan(ctx, attrs, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.out_h, j.r.out_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, weft_in(ctx, 0), WEFT_F32, &x));
  weft_status_t *s = find_columns(&j.r, &columns);
  if (s == NULL) {
    j.x = x->data;
    j.y = y->data;
    j.columns = columns;
    weft_resize_rows(ctx, &j.r, 20, bicubic_rows, &j);
  }
  weft_free(columns);
  weft_tensor_release(x);
  return s;
}

/* ---- gradient ---- */

/* Images [begin, end): each of the 16 pixels gets its part of the gradient. */
#define BICUBIC_GRAD(real)                                                                               \
  static void bicubic_grad_##real(void *arg, int64_t begin, int64_t end) {                               \
    const bicubic_job_t *j = arg;                                                                        \
    const weft_resize_t *r = &j->r;                                                                      \
    const int64_t channels = r->channels, row = r->in_w * channels;                                      \
    for (int64_t i = begin * r->out_h; i < end * r->out_h; i++) {                                        \
      const taps_t v = taps_of(r, i % r->out_h, r->scale_h, r->in_h);                                    \
      real *image = (real *)j->y + i / r->out_h * r->in_h * row;                                         \
      const float *dy = j->x + i * r->out_w * channels;                                                  \
      for (int64_t w = 0; w < r->out_w; w++, dy += channels) {                                           \
        const taps_t *h = &j->columns[w];                                                                \
        for (int64_t c = 0; c < channels; c++) {                                                         \
          for (int k = 0; k < CUBIC_TAPS * CUBIC_TAPS; k++) {                                            \
            const int up = k / CUBIC_TAPS, across = k % CUBIC_TAPS;                                      \
            image[v.at[up] * row + h->at[across] + c] += (real)dy[c] * v.weight[up] * h->weight[across]; \
          }                                                                                              \
        }                                                                                                \
      }                                                                                                  \
    }                                                                                                    \
  }
BICUBIC_GRAD(float)
BICUBIC_GRAD(double)

WEFT_ATTRS_OF(bicubic_grad, weft_resize)
static weft_status_t *bicubic_grad(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  const weft_dtype_t dtype = weft_in(ctx, 1)->dtype;
  bicubic_job_t j;
  weft_tensor_t *dx = NULL;
  taps_t *columns = NULL;
  WEFT_RETURN_IF_ERROR(weft_resize_grad_plan(ctx, attrs, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.in_h, j.r.in_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &dx));
  weft_cpu_zero(dx);
  if (dx->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(find_columns(&j.r, &columns));
  j.x = weft_in(ctx, 0)->data;
  j.y = dx->data;
  j.columns = columns;
  weft_resize_images(ctx, &j.r, 32, dtype == WEFT_F64 ? bicubic_grad_double : bicubic_grad_float, &j);
  weft_free(columns);
  return NULL;
}

const weft_kernel_t weft_cpu_resize_bicubic_kernels[] = {
    WEFT_KERNEL_ATTRS("ResizeBicubic", "T",
                      WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
                      bicubic),
    WEFT_KERNEL_ATTRS("ResizeBicubicGrad", "T", WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                      bicubic_grad),
    {0},
};
