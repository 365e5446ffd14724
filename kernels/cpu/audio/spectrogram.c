/* kernels/cpu/audio/spectrogram.c - how loud each frequency is in each window of time. */
#include <math.h>

#include "kernels/cpu/fft/fft.h"
#include "kernels/cpu/loops/common.h"

WEFT_ATTRS(spectrogram, (INT, window_size), (INT, stride), (BOOL, magnitude_squared))
static weft_status_t *spectrogram_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  enum { MOST = 1 << 30 }; /* the transform's length, a power of two, must be an int */
  int64_t window = weft_knode_int(setup, "window_size"), stride = weft_knode_int(setup, "stride");
  if (window <= 1 || window > MOST) {
    return WEFT_ERROR(INVALID_ARGUMENT, "window_size must be > 1, got %lld", (long long)window);
  }
  if (stride <= 0 || stride > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "stride must be > 0, got %lld", (long long)stride);
  }
  return weft_attrs_prepare(setup, out_state);
}

typedef struct spectrum {
  int64_t window, width;   /* samples; frequencies */
  weft_fft_plans_t *plans; /* owned: a reference */
  weft_fft_job_t job;
  double *memory; /* owned: the next three. The first two are aligned as transforms like it */
  double *samples, *transform, *weights;
} spectrum_t;

static weft_status_t *spectrum_init(spectrum_t *s, int64_t window, int64_t length) {
  const double pi = 3.14159265358979323846;
  int64_t width = length / 2 + 1;
  s->window = window;
  s->width = width;
  s->memory = weft_calloc((size_t)(window + length + 2 * width), sizeof *s->memory);
  if (s->memory == NULL) return WEFT_NO_MEMORY("a spectrogram");
  s->samples = s->memory;
  s->transform = s->samples + length;
  s->weights = s->transform + 2 * width;
  for (int64_t i = 0; i < window; i++) { /* Hann's window, periodic */
    s->weights[i] = 0.5 - 0.5 * cos(2 * pi * (double)i / (double)window);
  }
  const weft_fft_plans_t like = {.kind = WEFT_FFT_FROM_REAL, .forward = true, .rank = 1, .lengths = {length}};
  s->plans = weft_fft_plans_new(&like);
  s->job = (weft_fft_job_t){.plans = s->plans,
                            .from = {length},
                            .used = {length},
                            .to = {width},
                            .from_count = length,
                            .used_count = length,
                            .to_count = width,
                            .x = s->samples,
                            .y = s->transform};
  return s->plans != NULL ? NULL : WEFT_NO_MEMORY("a spectrogram");
}

static void spectrum_deinit(spectrum_t *s) {
  weft_fft_plans_release(s->plans);
  weft_free(s->memory);
}

/* One window: samples from `in`, `step` apart. */
static bool spectrum_run(spectrum_t *s, const float *in, int64_t step, bool is_squared, float *out) {
  for (int64_t i = 0; i < s->window; i++) s->samples[i] = (double)in[i * step] * s->weights[i];
  weft_fft_run_f64(&s->job, 0, 1);
  for (int64_t i = 0; i < s->width; i++) {
    double re = s->transform[2 * i], im = s->transform[2 * i + 1];
    float power = (float)(re * re + im * im);
    out[i] = is_squared ? power : sqrtf(power);
  }
  return !atomic_load(&s->job.failed);
}

static weft_status_t *spectrogram(weft_kernel_ctx_t *c, const spectrogram_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  int64_t window = attrs->window_size, length = 1;
  if (in->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 2-dimensional%s", WEFT_SHAPE_TEXT(&in->shape));
  }
  while (length < window) length *= 2;
  int64_t samples = in->shape.dims[0], channels = in->shape.dims[1], width = length / 2 + 1;
  int64_t height = samples < window ? 0 : 1 + (samples - window) / attrs->stride;
  weft_shape_t shape = {.rank = 3, .dims = {channels, height, width}};
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &shape, &out));
  if (out->count == 0) return NULL;
  spectrum_t spectrum = {.memory = NULL};
  weft_status_t *s = spectrum_init(&spectrum, window, length);
  for (int64_t i = 0; s == NULL && i < channels * height; i++) {
    const float *from = (const float *)in->data + i / height + i % height * attrs->stride * channels;
    if (!spectrum_run(&spectrum, from, channels, attrs->magnitude_squared, (float *)out->data + i * width)) {
      s = WEFT_NO_MEMORY("a spectrogram");
    }
  }
  spectrum_deinit(&spectrum);
  return s;
}

const weft_kernel_t weft_cpu_spectrogram_kernels[] = {
    {.op = "AudioSpectrogram", WEFT_COMPUTE_CHECKED(spectrogram, spectrogram_prepare)},
    {0},
};
