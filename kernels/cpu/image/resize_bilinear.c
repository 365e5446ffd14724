/* kernels/cpu/image/resize_bilinear.c - ResizeBilinear and its gradient. */
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
typedef float floats_t __attribute__((vector_size(16)));
typedef int32_t ints_t __attribute__((vector_size(16)));
typedef int16_t shorts_t __attribute__((vector_size(16)));
typedef int8_t bytes_t __attribute__((vector_size(16)));

static inline floats_t floats_of(const uint8_t *pixel) {
  int32_t four;
  memcpy(&four, pixel, sizeof four);
  const bytes_t bytes = (bytes_t)(ints_t){four}, none = {0};
  const shorts_t shorts =
      (shorts_t)__builtin_shufflevector(bytes, none, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return __builtin_convertvector(
      (ints_t)__builtin_shufflevector(shorts, (shorts_t)none, 0, 8, 1, 9, 2, 10, 3, 11), floats_t);
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

static inline int64_t no_columns(const rgb_row_t *row, const weft_between_t *columns, int64_t n) {
  (void)row, (void)columns, (void)n;
  return 0;
}

/* Rows [begin, end) of the result. `first_columns` and `floats_of` are what differs between processors: the
 * former makes as many of n columns as it can, and says how many. */
#define RGB_ROWS(rows, first_columns, floats_of)                                         \
  rows(void *arg, int64_t begin, int64_t end) {                                          \
    const bilinear_job_t *j = arg;                                                       \
    const weft_resize_t r = j->r;                                                        \
    const weft_between_t *columns = j->columns;                                          \
    const int64_t row = r.in_w * 3, within = columns_within(j);                          \
    for (int64_t i = begin; i < end; i++) {                                              \
      const weft_between_t v = weft_resize_between(&r, i % r.out_h, r.scale_h, r.in_h);  \
      const uint8_t *image = (const uint8_t *)j->x + i / r.out_h * r.in_h * row;         \
      const uint8_t *top = image + v.lower * row, *bottom = image + v.upper * row;       \
      float *y = (float *)j->y + i * r.out_w * 3;                                        \
      int64_t w = first_columns(&(rgb_row_t){top, bottom, v.part, y}, columns, within);  \
      y += 3 * w;                                                                        \
      for (; w < within; w++, y += 3) {                                                  \
        const int64_t left = columns[w].lower * 3, right = columns[w].upper * 3;         \
        const float part = columns[w].part;                                              \
        const floats_t tl = floats_of(top + left), bl = floats_of(bottom + left);        \
        const floats_t above = tl + (floats_of(top + right) - tl) * part;                \
        const floats_t below = bl + (floats_of(bottom + right) - bl) * part;             \
        const floats_t mixed = above + (below - above) * v.part;                         \
        memcpy(y, &mixed, sizeof mixed);                                                 \
      }                                                                                  \
      for (; w < r.out_w; w++, y += 3) {                                                 \
        const int64_t left = columns[w].lower * 3, right = columns[w].upper * 3;         \
        for (int c = 0; c < 3; c++) {                                                    \
          y[c] = mix(mix(top[left + c], top[right + c], columns[w].part),                \
                     mix(bottom[left + c], bottom[right + c], columns[w].part), v.part); \
        }                                                                                \
      }                                                                                  \
    }                                                                                    \
  }
static void RGB_ROWS(rgb_rows, no_columns, floats_of)
#if defined(__x86_64__)
/* One instruction in the place of three. Products and sums stay apart, as TensorFlow rounds them. */
#define AVX2 __attribute__((target("avx2,no-fma")))
    AVX2 static inline floats_t floats_of_avx2(const uint8_t *pixel) {
  int32_t four;
  memcpy(&four, pixel, sizeof four);
  return __builtin_convertvector((ints_t)_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)), floats_t);
}

/* Four bytes at `a` and at `b` as numbers. */
AVX2 static inline __m256 two_pixels(const uint8_t *a, const uint8_t *b) {
  int32_t of_a, of_b;
  memcpy(&of_a, a, sizeof of_a);
  memcpy(&of_b, b, sizeof of_b);
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_insert_epi32(_mm_cvtsi32_si128(of_a), of_b, 1)));
}

/* Two columns at a time. */
AVX2 static inline int64_t pairs_of_columns(const rgb_row_t *row, const weft_between_t *columns, int64_t n) {
  const uint8_t *top = row->top, *bottom = row->bottom;
  const __m256 down = _mm256_set1_ps(row->part);
  float *y = row->y;
  int64_t w = 0;
  for (; w + 2 <= n; w += 2, y += 6) {
    const weft_between_t *a = &columns[w], *b = &columns[w + 1];
    const int64_t left_a = a->lower * 3, left_b = b->lower * 3, right_a = a->upper * 3,
                  right_b = b->upper * 3;
    const __m256 part = _mm256_insertf128_ps(_mm256_set1_ps(a->part), _mm_set1_ps(b->part), 1);
    const __m256 tl = two_pixels(top + left_a, top + left_b), tr = two_pixels(top + right_a, top + right_b);
    const __m256 bl = two_pixels(bottom + left_a, bottom + left_b),
                 br = two_pixels(bottom + right_a, bottom + right_b);
    const __m256 above = tl + (tr - tl) * part, below = bl + (br - bl) * part;
    const __m256 mixed = above + (below - above) * down;
    _mm_storeu_ps(y, _mm256_castps256_ps128(mixed));
    _mm_storeu_ps(y + 3, _mm256_extractf128_ps(mixed, 1));
  }
  return w;
}
AVX2 static void RGB_ROWS(rgb_rows_avx2, pairs_of_columns, floats_of_avx2)

    static weft_range_fn *best_rgb_rows(void) {
  return __builtin_cpu_supports("avx2") ? rgb_rows_avx2 : rgb_rows;
}
#else
    static weft_range_fn *best_rgb_rows(void) {
  return rgb_rows;
}
#endif

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
                     : j.r.channels == 3 ? best_rgb_rows()
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
