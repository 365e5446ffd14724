/* kernels/cpu/image/resize_bilinear.c - ResizeBilinear and its gradient. */
#include <string.h>

#include "kernels/cpu/image/resize.h"

typedef struct bilinear_job {
  weft_resize_t r;
  const void *x; /* the image; of a gradient dy */
  void *y;       /* float; of a gradient dx, float or double */
  const weft_between_t *columns;
} bilinear_job_t;

/* ---- forward ---- */

static inline float mix(float a, float b, float part) { return a + (b - a) * part; }

/* Row i of the result, out of pixels of `type`; the compiler makes a copy for each number of channels that it
 * knows. */
#define BILINEAR_ROW(type)                                                                         \
  static inline void bilinear_row_##type(const bilinear_job_t *j, int64_t i, int64_t channels) {   \
    const weft_resize_t *r = &j->r;                                                                \
    const int64_t row = r->in_w * channels;                                                        \
    const weft_between_t v = weft_resize_between(r, i % r->out_h, r->scale_h, r->in_h);            \
    const type *image = (const type *)j->x + i / r->out_h * r->in_h * row;                         \
    const type *top = image + v.lower * row, *bottom = image + v.upper * row;                      \
    float *y = (float *)j->y + i * r->out_w * channels;                                            \
    for (int64_t w = 0; w < r->out_w; w++, y += channels) {                                        \
      const int64_t left = j->columns[w].lower * channels, right = j->columns[w].upper * channels; \
      const float part = j->columns[w].part;                                                       \
      for (int64_t c = 0; c < channels; c++) {                                                     \
        const float above = mix((float)top[left + c], (float)top[right + c], part);                \
        y[c] = mix(above, mix((float)bottom[left + c], (float)bottom[right + c], part), v.part);   \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void bilinear_rows_##type(void *arg, int64_t begin, int64_t end) {                        \
    const bilinear_job_t *j = arg;                                                                 \
    for (int64_t i = begin; i < end; i++) {                                                        \
      switch (j->r.channels) {                                                                     \
        case 1: bilinear_row_##type(j, i, 1); break;                                               \
        case 3: bilinear_row_##type(j, i, 3); break;                                               \
        case 4: bilinear_row_##type(j, i, 4); break;                                               \
        default: bilinear_row_##type(j, i, j->r.channels); break;                                  \
      }                                                                                            \
    }                                                                                              \
  }
BILINEAR_ROW(float)
BILINEAR_ROW(uint8_t)

/* Three bytes to a pixel, four numbers at a time: the fourth is the next pixel's first, and is written over
 * by it. */
typedef uint8_t bytes4_t __attribute__((vector_size(4)));
typedef float floats_t __attribute__((vector_size(16)));

static inline floats_t floats_of(const uint8_t *pixel) {
  bytes4_t four;
  memcpy(&four, pixel, sizeof four);
  typedef int32_t ints_t __attribute__((vector_size(16)));
  return __builtin_convertvector(__builtin_convertvector(four, ints_t), floats_t);
}

/* Columns in front whose pixels, and the byte behind each of them, lie in the row. */
static int64_t columns_within(const bilinear_job_t *j) {
  int64_t n = j->r.out_w - 1;
  while (n > 0 && j->columns[n - 1].upper + 1 >= j->r.in_w) n--;
  return n;
}

/* One row of the result, out of two of the image. */
typedef struct rgb_row {
  const uint8_t *top, *bottom;
  float part; /* of the bottom */
  float *y;
} rgb_row_t;

/* Makes as many of the first n columns as it can, two at a time; says how many. Vectors of eight numbers pay
 * where the processor has them. */
#ifdef __AVX2__
typedef uint8_t bytes8_t __attribute__((vector_size(8)));
typedef float pair_t __attribute__((vector_size(32)));

static inline pair_t two_pixels(const uint8_t *a, const uint8_t *b) {
  typedef int32_t ints_t __attribute__((vector_size(32)));
  uint8_t both[8];
  bytes8_t eight;
  memcpy(both, a, 4);
  memcpy(both + 4, b, 4);
  memcpy(&eight, both, sizeof eight);
  return __builtin_convertvector(__builtin_convertvector(eight, ints_t), pair_t);
}

static inline int64_t pairs_of_columns(const rgb_row_t *row, const weft_between_t *columns, int64_t n) {
  const uint8_t *top = row->top, *bottom = row->bottom;
  float *y = row->y;
  int64_t w = 0;
  for (; w + 2 <= n; w += 2, y += 6) {
    const weft_between_t *a = &columns[w], *b = &columns[w + 1];
    const int64_t left_a = a->lower * 3, left_b = b->lower * 3, right_a = a->upper * 3,
                  right_b = b->upper * 3;
    const pair_t part = {a->part, a->part, a->part, a->part, b->part, b->part, b->part, b->part};
    const pair_t tl = two_pixels(top + left_a, top + left_b), tr = two_pixels(top + right_a, top + right_b);
    const pair_t bl = two_pixels(bottom + left_a, bottom + left_b),
                 br = two_pixels(bottom + right_a, bottom + right_b);
    const pair_t above = tl + (tr - tl) * part, below = bl + (br - bl) * part;
    const pair_t mixed = above + (below - above) * row->part;
    memcpy(y, &mixed, 4 * sizeof *y);
    memcpy(y + 3, (const char *)&mixed + 4 * sizeof *y, 4 * sizeof *y);
  }
  return w;
}
#else
static inline int64_t pairs_of_columns(const rgb_row_t *row, const weft_between_t *columns, int64_t n) {
  (void)row, (void)columns, (void)n;
  return 0;
}
#endif

/* Rows [begin, end) of the result. */
static void rgb_rows(void *arg, int64_t begin, int64_t end) {
  const bilinear_job_t *j = arg;
  const weft_resize_t r = j->r;
  const weft_between_t *columns = j->columns;
  const int64_t row = r.in_w * 3, within = columns_within(j);
  for (int64_t i = begin; i < end; i++) {
    const weft_between_t v = weft_resize_between(&r, i % r.out_h, r.scale_h, r.in_h);
    const uint8_t *image = (const uint8_t *)j->x + i / r.out_h * r.in_h * row;
    const uint8_t *top = image + v.lower * row, *bottom = image + v.upper * row;
    float *y = (float *)j->y + i * r.out_w * 3;
    int64_t w = pairs_of_columns(&(rgb_row_t){top, bottom, v.part, y}, columns, within);
    y += 3 * w;
    for (; w < within; w++, y += 3) {
      const int64_t left = columns[w].lower * 3, right = columns[w].upper * 3;
      const float part = columns[w].part;
      const floats_t tl = floats_of(top + left), bl = floats_of(bottom + left);
      const floats_t above = tl + (floats_of(top + right) - tl) * part;
      const floats_t below = bl + (floats_of(bottom + right) - bl) * part;
      const floats_t mixed = above + (below - above) * v.part;
      memcpy(y, &mixed, sizeof mixed);
    }
    for (; w < r.out_w; w++, y += 3) {
      const int64_t left = columns[w].lower * 3, right = columns[w].upper * 3;
      for (int c = 0; c < 3; c++) {
        y[c] = mix(mix(top[left + c], top[right + c], columns[w].part),
                   mix(bottom[left + c], bottom[right + c], columns[w].part), v.part);
      }
    }
  }
}

WEFT_ATTRS_OF(bilinear, weft_resize)
static weft_status_t *bilinear(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  bilinear_job_t j;
  weft_tensor_t *x = NULL, *y = NULL;
  weft_between_t *columns = NULL;
  WEFT_RETURN_IF_ERROR(weft_resize_plan(ctx, attrs, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.out_h, j.r.out_w, j.r.channels);
  if (j.r.out_h == j.r.in_h && j.r.out_w == j.r.in_w) {
    WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, weft_in(ctx, 0), WEFT_F32, &y));
    weft_out_set(ctx, 0, y);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  if (y->count == 0) return NULL;
  const bool is_bytes = weft_in(ctx, 0)->dtype == WEFT_U8; /* pixels, as files of pictures have them */
  if (is_bytes) x = weft_tensor_retain(weft_in(ctx, 0));
  if (!is_bytes) WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, weft_in(ctx, 0), WEFT_F32, &x));
  weft_status_t *s = weft_resize_columns(&j.r, &columns);
  if (s == NULL) {
    j.x = x->data;
    j.y = y->data;
    j.columns = columns;
    weft_resize_rows(ctx, &j.r, 4,
                     !is_bytes           ? bilinear_rows_float
                     : j.r.channels == 3 ? rgb_rows
                                         : bilinear_rows_uint8_t,
                     &j);
  }
  weft_free(columns);
  weft_tensor_release(x);
  return s;
}

/* ---- gradient ---- */

/* Images [begin, end): what each pixel was made of gets its part of the gradient. Parts are rounded to
 * float, sums are kept in `real`. */
#define BILINEAR_GRAD(real)                                                                            \
  static void bilinear_grad_##real(void *arg, int64_t begin, int64_t end) {                            \
    const bilinear_job_t *j = arg;                                                                     \
    const weft_resize_t *r = &j->r;                                                                    \
    const int64_t channels = r->channels, row = r->in_w * channels;                                    \
    for (int64_t i = begin * r->out_h; i < end * r->out_h; i++) {                                      \
      const weft_between_t v = weft_resize_between(r, i % r->out_h, r->scale_h, r->in_h);              \
      real *image = (real *)j->y + i / r->out_h * r->in_h * row;                                       \
      real *top = image + v.lower * row, *bottom = image + v.upper * row;                              \
      const float *dy = (const float *)j->x + i * r->out_w * channels, down = v.part, up = 1 - v.part; \
      for (int64_t w = 0; w < r->out_w; w++, dy += channels) {                                         \
        const int64_t left = j->columns[w].lower * channels, right = j->columns[w].upper * channels;   \
        const float after = j->columns[w].part, before = 1 - after;                                    \
        for (int64_t c = 0; c < channels; c++) {                                                       \
          top[left + c] += (real)(dy[c] * up * before);                                                \
          top[right + c] += (real)(dy[c] * up * after);                                                \
          bottom[left + c] += (real)(dy[c] * down * before);                                           \
          bottom[right + c] += (real)(dy[c] * down * after);                                           \
        }                                                                                              \
      }                                                                                                \
    }                                                                                                  \
  }
BILINEAR_GRAD(float)
BILINEAR_GRAD(double)

WEFT_ATTRS_OF(bilinear_grad, weft_resize)
static weft_status_t *bilinear_grad(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  const weft_dtype_t dtype = weft_in(ctx, 1)->dtype, sum = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  bilinear_job_t j;
  weft_tensor_t *dx = NULL, *rounded = NULL;
  weft_between_t *columns = NULL;
  WEFT_RETURN_IF_ERROR(weft_resize_grad_plan(ctx, attrs, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.in_h, j.r.in_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, sum, &shape, &dx));
  weft_cpu_zero(dx);
  WEFT_RETURN_IF_ERROR(weft_resize_columns(&j.r, &columns));
  j.x = weft_in(ctx, 0)->data;
  j.y = dx->data;
  j.columns = columns;
  if (dx->count > 0)
    weft_resize_images(ctx, &j.r, 8, sum == WEFT_F64 ? bilinear_grad_double : bilinear_grad_float, &j);
  weft_free(columns);
  if (dtype == sum) return NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, dx, dtype, &rounded));
  weft_tensor_release(dx);
  weft_out_set(ctx, 0, rounded);
  return NULL;
}

const weft_kernel_t weft_cpu_resize_bilinear_kernels[] = {
    WEFT_KERNEL_ATTRS("ResizeBilinear", "T",
                      WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
                      bilinear),
    WEFT_KERNEL_ATTRS("ResizeBilinearGrad", "T", WEFT_SET_FLOATS, bilinear_grad),
    {0},
};
