/* kernels/cpu/image/colour.c - RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrast. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"

typedef struct colour_job {
  const void *x;
  void *y;
  float by;                    /* hue to add, factor of the saturation or of the contrast */
  int64_t channels, positions; /* of an image; of contrast only */
  float low, high;             /* of the first version of contrast: results are between these */
} colour_job_t;

static int64_t channels_of(const weft_tensor_t *x) { return x->shape.dims[x->shape.rank - 1]; }

/* ---- colour spaces ---- */

#define COLOUR_ABS(v) ((v) < 0 ? -(v) : (v))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/image/colour_space_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef EACH_HALFS
#undef EACH_FLOATS
#define COLOUR_TABLE(stem) \
  { [WEFT_F16] = stem##_f16, [WEFT_BF16] = stem##_bf16, [WEFT_F32] = stem##_f32, [WEFT_F64] = stem##_f64 }
static weft_range_fn *const to_hsv_fns[WEFT_DTYPE_COUNT] = COLOUR_TABLE(to_hsv);
static weft_range_fn *const to_rgb_fns[WEFT_DTYPE_COUNT] = COLOUR_TABLE(to_rgb);

static weft_status_t *convert(weft_kernel_ctx_t *ctx, weft_range_fn *const fns[]) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL;
  if (x->shape.rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be at least 1D, got shape %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  if (channels_of(x) != 3) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "input must have 3 channels but input only has %" PRId64 " channels.", channels_of(x));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  colour_job_t j = {.x = x->data, .y = y->data};
  weft_parallel_for(ctx->device->pool, x->count / 3, WEFT_CPU_GRAIN / 8, fns[x->dtype], &j);
  return NULL;
}

static weft_status_t *to_hsv(weft_kernel_ctx_t *ctx) { return convert(ctx, to_hsv_fns); }
static weft_status_t *to_rgb(weft_kernel_ctx_t *ctx) { return convert(ctx, to_rgb_fns); }

/* ---- hue: its place on the hexagon of colours, 0 to 6, is moved on; the lowest and the highest channel
 * keep their values. Source: Smith (1978). ---- */

enum { HUES = 6 };

/* The channels by size at each sixth of the hexagon. */
static const struct {
  int high, middle, low;
} hexagon[HUES] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};

static int sixth_of(const float *p) {
  if (p[0] < p[1]) {
    if (p[2] < p[0]) return 1;
    return p[2] > p[1] ? 3 : 2;
  }
  if (p[2] < p[1]) return 0;
  return p[2] > p[0] ? 4 : 5;
}

/* `hue` in [0, 6); a NaN stays one. */
static float wrapped(float hue) {
  if (fabsf(hue) >= 16 * HUES) hue = fmodf(hue, HUES);
  while (hue < 0) hue += HUES;
  while (hue >= HUES) hue -= HUES;
  return hue;
}

static void hue_pixels(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)j->x + 3 * i;
    float *y = (float *)j->y + 3 * i, hue = 0;
    int sixth = sixth_of(x);
    const float high = x[hexagon[sixth].high], low = x[hexagon[sixth].low];
    if (high != low) {
      const float ratio = (x[hexagon[sixth].middle] - low) / (high - low);
      hue = (float)sixth + (sixth % 2 == 0 ? ratio : 1 - ratio);
    }
    hue = wrapped(hue + j->by * HUES);
    sixth = hue >= 0 && hue < HUES ? (int)hue : HUES - 1;
    float ratio = hue - (float)sixth;
    if (sixth % 2 != 0) ratio = 1 - ratio;
    y[hexagon[sixth].high] = high;
    y[hexagon[sixth].middle] = low + ratio * (high - low);
    y[hexagon[sixth].low] = low;
  }
}

/* ---- saturation ---- */

static inline float larger(float a, float b) { return a < b ? b : a; }
static inline float smaller(float a, float b) { return b < a ? b : a; }

static void saturation_pixels(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)j->x + 3 * i, r = x[0], g = x[1], b = x[2];
    float *y = (float *)j->y + 3 * i;
    const float high = larger(r, larger(g, b)), range = high - smaller(r, smaller(g, b));
    const float norm = 1 / (6 * range), saturation = high > 0 ? range / high : 0;
    float hue;
    if (r == high) {
      hue = norm * (g - b);
    } else if (g == high) {
      hue = (float)((double)(norm * (b - r)) + 2.0 / 6.0);
    } else {
      hue = (float)((double)(norm * (r - g)) + 4.0 / 6.0);
    }
    if (range <= 0) hue = 0;
    if (hue < 0) hue += 1;
    const float chroma = smaller(1, larger(0, saturation * j->by)) * high, base = high - chroma;
    const float six = hue * HUES;
    const int sixth = six > -1 && six < HUES ? (int)six : HUES;
    const float even = six <= 0 ? six + 2 : fmodf(six, 2), middle = chroma * (1 - fabsf(even - 1));
    for (int c = 0; c < 3; c++) y[c] = base;
    if (sixth == HUES) continue;
    y[hexagon[sixth].high] = chroma + base;
    y[hexagon[sixth].middle] = middle + base;
  }
}

/* ---- contrast: the distance of each channel from its mean is scaled ---- */

enum { MEANS = 384 }; /* a multiple of 3 channels */

/* y[k] = the sum of channel k over all positions. Halves are added up until one position is left: sums are
 * as short as can be, and rounded as in TensorFlow. y, as large as x, is overwritten. */
static void fold(const float *x, float *y, int64_t positions, int64_t channels) {
  const float *from = x;
  do {
    const int64_t right = positions / 2, left = positions - right;
    for (int64_t k = 0; k < right * channels; k++) y[k] = from[k] + from[left * channels + k];
    if (left > right && from != y)
      memcpy(y + right * channels, from + right * channels, (size_t)channels * sizeof *y);
    positions = left;
    from = y;
  } while (positions > 1);
}

/* y = the distances of x from the means, times `by`, above the means, for `positions` positions. The means
 * lie repeated in `means`, `width` of them: so many elements are computed at once. */
static void scale_distances(const float *x, const float *means, int64_t width, int64_t size, float by,
                            float *y) {
  for (int64_t at = 0; at < size; at += width) {
    const int64_t n = size - at < width ? size - at : width;
    for (int64_t k = 0; k < n; k++) y[at + k] = means[k] + (x[at + k] - means[k]) * by;
  }
}

static void contrast_images(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  const int64_t channels = j->channels, size = j->positions * channels;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)j->x + i * size;
    float *y = (float *)j->y + i * size;
    fold(x, y, j->positions, channels);
    for (int64_t c = 0; c < channels; c++) y[c] *= 1.0f / (float)j->positions;
    float means[MEANS];
    if (channels <= MEANS) {
      const int64_t width = MEANS / channels * channels;
      for (int64_t k = 0; k < width; k++) means[k] = k < channels ? y[k] : means[k - channels];
      scale_distances(x, means, width, size, j->by, y);
    } else { /* the means themselves last */
      scale_distances(x + channels, y, channels, size - channels, j->by, y + channels);
      scale_distances(x, y, channels, channels, j->by, y);
    }
  }
}

/* The first version: means are sums of all positions in their order, and results are bounded. */
static void bounded_contrast_images(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  const int64_t channels = j->channels, size = j->positions * channels;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)j->x + i * size;
    float *y = (float *)j->y + i * size;
    for (int64_t c = 0; c < channels; c++) {
      float sum = 0;
      for (int64_t k = c; k < size; k += channels) sum += x[k];
      const float mean = sum / (float)j->positions;
      for (int64_t k = c; k < size; k += channels)
        y[k] = larger(smaller((x[k] - mean) * j->by + mean, j->high), j->low);
    }
  }
}

static weft_status_t *check_contrast(weft_kernel_ctx_t *ctx) {
  static const char *const names[] = {"contrast_factor", "min_value", "max_value"};
  const weft_shape_t *x = &weft_in(ctx, 0)->shape;
  if (x->rank < 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be at least 3-D, got shape%s", WEFT_SHAPE_TEXT(x));
  for (int i = 1; i < ctx->node->num_inputs; i++) {
    const weft_shape_t *s = &weft_in(ctx, i)->shape;
    if (s->rank != 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s must be scalar: %s", names[i - 1], WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

static weft_status_t *contrast(weft_kernel_ctx_t *ctx) {
  const bool is_bounded = ctx->node->num_inputs > 2;
  weft_tensor_t *x = NULL, *y = NULL;
  WEFT_RETURN_IF_ERROR(check_contrast(ctx));
  const weft_shape_t s = weft_in(ctx, 0)->shape;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &s, &y));
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_image_floats(ctx, 0, &x));
  colour_job_t j = {.x = x->data,
                    .y = y->data,
                    .by = *(const float *)weft_in(ctx, 1)->data,
                    .channels = s.dims[s.rank - 1],
                    .positions = s.dims[s.rank - 3] * s.dims[s.rank - 2]};
  if (is_bounded) {
    j.low = *(const float *)weft_in(ctx, 2)->data;
    j.high = *(const float *)weft_in(ctx, 3)->data;
  }
  const int64_t size = j.positions * j.channels;
  weft_parallel_for(ctx->device->pool, y->count / size, WEFT_CPU_GRAIN / size + 1,
                    is_bounded ? bounded_contrast_images : contrast_images, &j);
  weft_tensor_release(x);
  return NULL;
}

/* ---- the ops on pixels of three channels ---- */

static weft_status_t *adjust(weft_kernel_ctx_t *ctx, const char *what, weft_range_fn *fn) {
  const weft_tensor_t *x = weft_in(ctx, 0), *by = weft_in(ctx, 1);
  weft_tensor_t *y = NULL;
  if (x->shape.rank < 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be at least 3-D, got shape%s",
                      WEFT_SHAPE_TEXT(&x->shape));
  if (by->shape.rank != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be scalar: %s", what, WEFT_SHAPE_TEXT(&by->shape));
  if (channels_of(x) != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must have 3 channels but instead has %" PRId64 " channels.",
                      channels_of(x));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &x->shape, &y));
  colour_job_t j = {.x = x->data, .y = y->data, .by = *(const float *)by->data};
  weft_parallel_for(ctx->device->pool, x->count / 3, WEFT_CPU_GRAIN / 16, fn, &j);
  return NULL;
}

static weft_status_t *hue(weft_kernel_ctx_t *ctx) { return adjust(ctx, "delta", hue_pixels); }
static weft_status_t *saturation(weft_kernel_ctx_t *ctx) { return adjust(ctx, "scale", saturation_pixels); }

const weft_kernel_t weft_cpu_colour_kernels[] = {
    WEFT_KERNEL("AdjustContrast", "T",
                WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_I8) | WEFT_DTYPE_BIT(WEFT_I16) |
                    WEFT_DTYPE_BIT(WEFT_I32) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                NULL, contrast, NULL),
    WEFT_KERNEL("AdjustContrastv2", "T", WEFT_DTYPE_BIT(WEFT_F32), NULL, contrast, NULL),
    WEFT_KERNEL("AdjustHue", "T", WEFT_DTYPE_BIT(WEFT_F32), NULL, hue, NULL),
    WEFT_KERNEL("AdjustSaturation", "T", WEFT_DTYPE_BIT(WEFT_F32), NULL, saturation, NULL),
    WEFT_KERNEL("HSVToRGB", "T", WEFT_SET_FLOATS, NULL, to_rgb, NULL),
    WEFT_KERNEL("RGBToHSV", "T", WEFT_SET_FLOATS, NULL, to_hsv, NULL),
    {0},
};
