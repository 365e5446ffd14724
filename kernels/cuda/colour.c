/* kernels/cuda/colour.c - rows of RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrast and
 * AdjustContrastv2. */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/kernels.h"

enum { FAILED_PRECONDITION = 9 };

WEFT_CUDA_INSTANCES(hsv_instances, to_hsv, FLOAT)
WEFT_CUDA_INSTANCES(rgb_instances, to_rgb, FLOAT)

static int64_t channels_of(const WEFT_TensorView *x) { return x->dims[x->rank - 1]; }

static WEFT_Failure *convert(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 1) return WEFT_CUDA_INVALID("input must be at least 1D, got shape %s", WEFT_CUDA_SHAPE(&x));
  if (channels_of(&x) != 3) {
    return weft_cuda_host->failure(FAILED_PRECONDITION,
                                   "input must have 3 channels but input only has %lld channels.",
                                   (long long)channels_of(&x));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  int64_t pixels = x.count / 3;
  void *args[] = {&x.data, &y.data, &pixels};
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), x.dtype), pixels, 1, args);
}

/* ---- hue and saturation ---- */

typedef struct cuda_adjustment {
  const char *what; /* the name of the second argument */
  weft_cuda_function_t *f;
} adjustment_t;
static weft_cuda_function_t hue_function = WEFT_CUDA_FUNCTION("weft_adjust_hue"),
                            saturation_function = WEFT_CUDA_FUNCTION("weft_adjust_saturation");

static WEFT_Failure *adjust(WEFT_KernelContext *c) {
  const adjustment_t *a = weft_cuda_host->param(c);
  WEFT_TensorView x, by, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &by);
  if (x.rank < 3) return WEFT_CUDA_INVALID("input must be at least 3-D, got shape%s", WEFT_CUDA_SHAPE(&x));
  if (by.rank != 0) return WEFT_CUDA_INVALID("%s must be scalar: %s", a->what, WEFT_CUDA_SHAPE(&by));
  if (channels_of(&x) != 3) {
    return WEFT_CUDA_INVALID("input must have 3 channels but instead has %lld channels.",
                             (long long)channels_of(&x));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  int64_t pixels = x.count / 3;
  void *args[] = {&x.data, &by.data, &y.data, &pixels};
  return weft_cuda_launch_over(c, a->f, pixels, 1, args);
}

/* ---- contrast ---- */

static weft_cuda_function_t means_function = WEFT_CUDA_FUNCTION("weft_contrast_means"),
                            contrast_function = WEFT_CUDA_FUNCTION("weft_contrast");

static WEFT_Failure *find_means(WEFT_KernelContext *c, const float *x, int64_t positions, int64_t channels,
                                int64_t images, void **means) {
  int64_t num = images * channels;
  const int64_t most = (int64_t)weft_cuda_num_processors(c) * 16;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)num * sizeof(float), means));
  const weft_cuda_geometry_t g = {{(unsigned)(num < most ? num : most), 1, 1}, {WEFT_CUDA_BLOCK, 1, 1}, 0};
  void *args[] = {&x, means, &num, &positions, &channels};
  return weft_cuda_launch(c, &means_function, &g, args);
}

/* The first version has bounds, too. */
static WEFT_Failure *contrast(WEFT_KernelContext *c) {
  static const char *const names[] = {"contrast_factor", "min_value", "max_value"};
  const int num = weft_cuda_host->num_inputs(c);
  const void *values[3] = {NULL};
  WEFT_TensorView x, v, y;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 3) return WEFT_CUDA_INVALID("input must be at least 3-D, got shape%s", WEFT_CUDA_SHAPE(&x));
  for (int i = 1; i < num; i++) {
    weft_cuda_host->input(c, i, &v);
    if (v.rank != 0) return WEFT_CUDA_INVALID("%s must be scalar: %s", names[i - 1], WEFT_CUDA_SHAPE(&v));
    values[i - 1] = v.data;
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (y.count == 0) return NULL;
  int64_t channels = channels_of(&x), positions = x.dims[x.rank - 3] * x.dims[x.rank - 2];
  int64_t size = channels * positions, n = y.count;
  void *from = x.data, *means = NULL;
  if (x.dtype != WEFT_CUDA_f32) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n * sizeof(float), &from));
    WEFT_CUDA_TRY(weft_cuda_convert(c, x.dtype, x.data, WEFT_CUDA_f32, from, n));
  }
  WEFT_CUDA_TRY(find_means(c, from, positions, channels, n / size, &means));
  void *args[] = {&from, &means, &values[0], &values[1], &values[2], &y.data, &size, &channels, &n};
  return weft_cuda_launch_over(c, &contrast_function, n, 1, args);
}

#define BIT(type) (UINT32_C(1) << WEFT_CUDA_##type)
#define ADJUST(op_, what_, function)                                                                    \
  {                                                                                                     \
    .op = op_, .type_attr = "T", .types = BIT(f32), .compute = adjust, .param = &(const adjustment_t) { \
      what_, &function                                                                                  \
    }                                                                                                   \
  }
const WEFT_DeviceKernel weft_cuda_colour_kernels[] = {
    {.op = "AdjustContrast",
     .type_attr = "T",
     .types = BIT(u8) | BIT(i8) | BIT(i16) | BIT(i32) | BIT(f32) | BIT(f64),
     .compute = contrast},
    {.op = "AdjustContrastv2", .type_attr = "T", .types = BIT(f32), .compute = contrast},
    ADJUST("AdjustHue", "delta", hue_function),
    ADJUST("AdjustSaturation", "scale", saturation_function),
    {.op = "HSVToRGB",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .compute = convert,
     .param = &rgb_instances},
    {.op = "RGBToHSV",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .compute = convert,
     .param = &hsv_instances},
    {0},
};
