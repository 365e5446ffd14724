/* ops/audio.c - shapes of sound: WAV files, spectrograms. */
#include "ops/infer.h"

/* A dim that an attribute gives: unknown if it is -1. */
static weft_status_t *wanted(const weft_shape_ctx_t *c, const char *name, const char *what, int64_t *out) {
  *out = weft_infer_int(c, name);
  if (*out >= WEFT_UNKNOWN_DIM && *out <= INT32_MAX) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be non-negative, got %lld", what, (long long)*out);
}

weft_status_t *weft_infer_decode_wav(weft_shape_ctx_t *c) {
  int64_t channels = 0, samples = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  WEFT_RETURN_IF_ERROR(wanted(c, "desired_channels", "channels", &channels));
  WEFT_RETURN_IF_ERROR(wanted(c, "desired_samples", "samples", &samples));
  c->outputs[0] = weft_shape_matrix(samples, channels);
  c->outputs[1] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_encode_wav(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  c->outputs[0] = WEFT_SCALAR;
  return NULL;
}

/* Samples and channels to channels, windows and frequencies. */
weft_status_t *weft_infer_spectrogram(weft_shape_ctx_t *c) {
  weft_shape_t x;
  int64_t window = weft_infer_int(c, "window_size"), stride = weft_infer_int(c, "stride"), length = 1;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &x));
  if (window <= 1 || window > 1 << 30) {
    return WEFT_ERROR(INVALID_ARGUMENT, "window_size must be > 1, got %lld", (long long)window);
  }
  if (stride <= 0 || stride > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "stride must be > 0, got %lld", (long long)stride);
  }
  while (length < window) length *= 2;
  int64_t samples = x.dims[0], height = WEFT_UNKNOWN_DIM;
  if (samples != WEFT_UNKNOWN_DIM) height = samples < window ? 0 : 1 + (samples - window) / stride;
  c->outputs[0] = (weft_shape_t){.rank = 3, .dims = {x.dims[1], height, 1 + length / 2}};
  return NULL;
}

weft_status_t *weft_infer_mfcc(weft_shape_ctx_t *c) {
  weft_shape_t x;
  int64_t coefficients = weft_infer_int(c, "dct_coefficient_count");
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 3, &x));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  if (coefficients < WEFT_UNKNOWN_DIM || coefficients > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %lld must be >= 0", (long long)coefficients);
  }
  x.dims[2] = coefficients;
  c->outputs[0] = x;
  return NULL;
}

/* A row for each frame, as TensorFlow counts them: a window has whole milliseconds of samples, and sound of
 * unknown length is too short for one. */
weft_status_t *weft_infer_audio_microfrontend(weft_shape_ctx_t *c) {
  weft_shape_t audio;
  const int64_t rate = weft_infer_int(c, "sample_rate") / 1000, stride = weft_infer_int(c, "frame_stride"),
                channels = weft_infer_int(c, "num_channels"), left = weft_infer_int(c, "left_context"),
                right = weft_infer_int(c, "right_context");
  int64_t size = 0, step = 0, columns = 0, stack = 1, rows = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &audio));
  if (__builtin_mul_overflow(weft_infer_int(c, "window_size"), rate, &size) ||
      __builtin_mul_overflow(weft_infer_int(c, "window_step"), rate, &step) ||
      __builtin_add_overflow(left, stack, &stack) || __builtin_add_overflow(right, stack, &stack) ||
      channels < 0 || stack < 0 || __builtin_mul_overflow(channels, stack, &columns)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a window, a number of channels or a context is out of range");
  }
  const int64_t samples = weft_infer_dim(&audio, 0);
  if (samples >= size) {
    if (step <= 0 || stride <= 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Divisor must be positive but is %lld",
                        (long long)(step <= 0 ? step : stride));
    }
    rows = samples == WEFT_UNKNOWN_DIM ? samples : (samples - size) / step / stride + 1;
  }
  c->outputs[0] = weft_shape_matrix(rows, columns);
  return NULL;
}
