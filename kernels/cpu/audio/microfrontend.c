/* kernels/cpu/audio/microfrontend.c - AudioMicrofrontend: features of sound for small recognisers, in
 * integers, as TensorFlow Lite's microfrontend library computes them, bit by bit:
 *
 *   window -> transform -> energies -> mel bands -> square roots -> noise taken away -> gain -> logarithms
 *
 * Noise and gain follow a band from frame to frame.
 */
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/audio/fixed_fft.h"
#include "kernels/cpu/loops/common.h"

enum {
  WINDOW_BITS = 12,
  WEIGHT_BITS = 12,
  NOISE_BITS = 14,
  SNR_BITS = 12,    /* of the ratio of signal and noise, in the gain */
  GAIN_BITS = 6,    /* of what the gain makes of it */
  GAIN_PIECES = 32, /* of the gain's curve: one for each power of two */
  LOG_BITS = 16,
  SEGMENT_BITS = 7, /* segments of the logarithm's curve */
  LN_2 = 45426,     /* times 2^16 */
};

/* The attributes: the state of a node. */
typedef struct microfrontend {
  int64_t sample_rate, window_size, window_step, num_channels, smoothing_bits, gain_bits, scale_shift;
  int64_t left_context, right_context, frame_stride, out_scale;
  float upper_band_limit, lower_band_limit, even_smoothing, odd_smoothing, min_signal_remaining;
  float pcan_strength, pcan_offset;
  bool enable_pcan, enable_log, zero_padding;
} microfrontend_t;

/* Some frequencies of a band: they belong to it by their weights, and to the next one by what is left. */
typedef struct mel_band {
  int64_t first, n;
} mel_band_t;

typedef struct frontend {
  const microfrontend_t *a;
  int64_t size, step, length;   /* samples of a window, to the next one, and of its transform */
  int64_t channels, spectrum;   /* spectrum: frequencies */
  int correction;               /* log2 of what the transform and the weights have divided by */
  uint32_t smoothing[2], floor; /* of even and odd bands; the least that is left of a signal */
  uint16_t log_curve[(1 << SEGMENT_BITS) + 1];
  int16_t gain_curve[GAIN_PIECES + 1][4]; /* of x in [2^(i-1), 2^i): value, slope, bend; [0], [1]: x = 0, 1 */
  weft_fixed_fft_t fft;
  int16_t *window;              /* owned, as what follows; size */
  int16_t *input;               /* length */
  weft_fixed_complex_t *output; /* spectrum */
  mel_band_t *bands;            /* channels + 1 */
  int16_t *weights, *unweights; /* spectrum */
  float *centres;               /* channels + 1: mels */
  uint32_t *signal, *noise;     /* channels */
} frontend_t;

static int bits_of(uint64_t n) { return n == 0 ? 0 : 64 - __builtin_clzll(n); }

/* ---- tables ---- */

static void frontend_free(frontend_t *f) {
  if (f == NULL) return;
  weft_fixed_fft_deinit(&f->fft);
  weft_free(f->window);
  weft_free(f->input);
  weft_free(f->output);
  weft_free(f->bands);
  weft_free(f->weights);
  weft_free(f->unweights);
  weft_free(f->centres);
  weft_free(f->signal);
  weft_free(f->noise);
  weft_free(f);
}

static weft_status_t *allocate(frontend_t *f) {
  const size_t channels = (size_t)f->channels + 1, spectrum = (size_t)f->spectrum;
  WEFT_RETURN_IF_ERROR(weft_fixed_fft_init(&f->fft, f->length));
  f->window = weft_calloc((size_t)f->size, sizeof *f->window);
  f->input = weft_calloc((size_t)f->length, sizeof *f->input);
  f->output = weft_calloc(spectrum, sizeof *f->output);
  f->bands = weft_calloc(channels, sizeof *f->bands);
  f->weights = weft_calloc(spectrum, sizeof *f->weights);
  f->unweights = weft_calloc(spectrum, sizeof *f->unweights);
  f->centres = weft_calloc(channels, sizeof *f->centres);
  f->signal = weft_calloc(channels, sizeof *f->signal);
  f->noise = weft_calloc(channels, sizeof *f->noise);
  const bool is_there = f->window != NULL && f->input != NULL && f->output != NULL && f->bands != NULL &&
                        f->weights != NULL && f->unweights != NULL && f->centres != NULL &&
                        f->signal != NULL && f->noise != NULL;
  return is_there ? NULL : WEFT_NO_MEMORY("features of sound");
}

static void make_window(frontend_t *f) {
  const float turn = (float)(3.14159265358979323846 * 2.0 / (float)f->size);
  for (int64_t i = 0; i < f->size; i++) {
    const float value = (float)(0.5 - 0.5 * cos(turn * ((double)i + 0.5)));
    f->window[i] = (int16_t)floor(value * (1 << WINDOW_BITS) + 0.5);
  }
}

static float to_mel(float hz) { return (float)(1127.0 * log1p(hz / 700.0)); }

static weft_status_t *not_possible(void) { return WEFT_ERROR(INTERNAL, "failed to populate frontend state"); }

/* Which frequencies are in which band, and by how much. */
static weft_status_t *make_bands(frontend_t *f) {
  const float low = to_mel(f->a->lower_band_limit), high = to_mel(f->a->upper_band_limit);
  const float hz = (float)(0.5 * (double)f->a->sample_rate / ((float)f->spectrum - 1));
  const float spacing = (high - low) / (float)(f->channels + 1);
  const double start = 1.5 + f->a->lower_band_limit / hz; /* without the constant part */
  if (!(start < (double)f->spectrum)) return not_possible();
  int64_t at = (int64_t)start;
  for (int64_t c = 0; c <= f->channels; c++) {
    f->centres[c] = low + spacing * (float)(c + 1);
    const float centre = f->centres[c], before = c == 0 ? low : f->centres[c - 1];
    f->bands[c].first = at;
    for (; at < f->spectrum && to_mel((float)at * hz) <= centre; at++) {
      const float weight = (centre - to_mel((float)at * hz)) / (centre - before);
      f->weights[at] = (int16_t)floor(weight * (1 << WEIGHT_BITS) + 0.5);
      f->unweights[at] = (int16_t)floor((1.0 - weight) * (1 << WEIGHT_BITS) + 0.5);
    }
    f->bands[c].n = at - f->bands[c].first;
    if (at >= f->spectrum) return not_possible();
  }
  return NULL;
}

/* The gain for a noise of x. */
static int16_t gain_of(const frontend_t *f, int input_bits, uint32_t x) {
  const float noise = (float)x / (float)(UINT32_C(1) << input_bits);
  const float gain =
      (float)(UINT32_C(1) << f->a->gain_bits) * powf(noise + f->a->pcan_offset, -f->a->pcan_strength);
  if (gain > INT16_MAX) return INT16_MAX;
  return gain >= 0 ? (int16_t)floorf(gain + 0.5f) : 0;
}

static void make_gain(frontend_t *f) {
  const int bits = (int)f->a->smoothing_bits - f->correction;
  f->gain_curve[0][0] = gain_of(f, bits, 0);
  f->gain_curve[1][0] = gain_of(f, bits, 1);
  for (int i = 2; i <= GAIN_PIECES; i++) {
    const uint32_t x = UINT32_C(1) << (i - 1), end = i == GAIN_PIECES ? x + (x - 1) : 2 * x;
    const int16_t value = gain_of(f, bits, x), middle = gain_of(f, bits, x + (x >> 1)),
                  last = gain_of(f, bits, end);
    const int32_t slope = 4 * (middle - value) - (last - value), bend = (last - value) - slope;
    f->gain_curve[i][0] = value;
    f->gain_curve[i][1] = (int16_t)slope;
    f->gain_curve[i][2] = (int16_t)bend;
  }
}

/* How far log2(1 + x) is above x. */
static void make_log(frontend_t *f) {
  const int n = 1 << SEGMENT_BITS;
  for (int i = 0; i <= n; i++) {
    const double x = (double)i / n;
    f->log_curve[i] = (uint16_t)lround((log2(1 + x) - x) * (1 << LOG_BITS));
  }
}

/* ---- a frame ---- */

/* Into f->input, shifted to the left as far as no number overflows; returns by how much. */
static int apply_window(frontend_t *f, const int16_t *samples) {
  int16_t most = 0;
  for (int64_t i = 0; i < f->size; i++) {
    const int16_t value = (int16_t)((samples[i] * f->window[i]) >> WINDOW_BITS);
    const int16_t size = value < 0 ? (int16_t)-value : value;
    f->input[i] = value;
    if (size > most) most = size;
  }
  const int shift = 15 - bits_of((uint64_t)most);
  for (int64_t i = 0; i < f->size; i++) f->input[i] = (int16_t)((uint32_t)(uint16_t)f->input[i] << shift);
  return shift;
}

/* The square root, by its bits from above; below 2^32 as TensorFlow's of 32 bits, which rounds otherwise. */
static uint32_t square_root(uint64_t x) {
  const uint64_t most = x >> 32 == 0 ? 0xFFFF : 0xFFFFFFFF;
  uint64_t root = 0;
  for (uint64_t bit = x == 0 ? 0 : UINT64_C(1) << ((bits_of(x) - 1) & ~1); bit != 0; bit >>= 2) {
    const bool is_set = x >= root + bit;
    if (is_set) x -= root + bit;
    root = (root >> 1) + (is_set ? bit : 0);
  }
  return (uint32_t)(x > root && root != most ? root + 1 : root);
}

/* An energy that is 2^31 is taken for a negative number, as in TensorFlow. */
static uint64_t energy(weft_fixed_complex_t x) {
  const uint32_t square = (uint32_t)(x.re * x.re) + (uint32_t)(x.im * x.im);
  return (uint64_t)(int64_t)(int32_t)square;
}

static void sum_bands(frontend_t *f, int shift) {
  uint64_t sum = 0;
  for (int64_t c = 0; c <= f->channels; c++) {
    uint64_t rest = 0;
    for (int64_t i = f->bands[c].first; i < f->bands[c].first + f->bands[c].n; i++) {
      sum += (uint64_t)f->weights[i] * energy(f->output[i]);
      rest += (uint64_t)f->unweights[i] * energy(f->output[i]);
    }
    if (c > 0) f->signal[c - 1] = square_root(sum) >> shift;
    sum = rest;
  }
}

static uint32_t without_noise(frontend_t *f, int64_t c) {
  const uint32_t signal = f->signal[c], smoothing = f->smoothing[c & 1];
  const uint32_t scaled = signal << f->a->smoothing_bits;
  uint32_t noise = (uint32_t)(((uint64_t)scaled * smoothing +
                               (uint64_t)f->noise[c] * ((UINT32_C(1) << NOISE_BITS) - smoothing)) >>
                              NOISE_BITS);
  f->noise[c] = noise;
  if (noise > scaled) noise = scaled;
  const uint32_t least = (uint32_t)(((uint64_t)signal * f->floor) >> NOISE_BITS);
  const uint32_t left = (scaled - noise) >> f->a->smoothing_bits;
  return left > least ? left : least;
}

static uint32_t gain(const frontend_t *f, uint32_t noise) {
  const int i = bits_of(noise);
  const int16_t *piece = f->gain_curve[i];
  if (noise < 2) return (uint32_t)(int32_t)piece[0];
  if (noise == 2) return (uint32_t)(int32_t)f->gain_curve[2][0];
  const int32_t part = (int32_t)((i < 11 ? noise << (11 - i) : noise >> (i - 11)) & 0x3FF);
  int32_t result = (piece[2] * part) >> 5;
  result += (int32_t)((uint32_t)(int32_t)piece[1] << 5);
  result = (int32_t)((uint32_t)result * (uint32_t)part);
  result = (int32_t)((uint32_t)result + (1 << 14)) >> 15;
  return (uint32_t)(int32_t)(int16_t)(result + piece[0]);
}

static uint32_t with_gain(const frontend_t *f, int64_t c, uint32_t signal) {
  const int shift = (int)f->a->gain_bits - f->correction - SNR_BITS;
  const uint32_t ratio = (uint32_t)(((uint64_t)signal * gain(f, f->noise[c])) >> shift);
  if (ratio < 2 << SNR_BITS) return (ratio * ratio) >> (2 + 2 * SNR_BITS - GAIN_BITS);
  return (ratio >> (SNR_BITS - GAIN_BITS)) - (1 << GAIN_BITS);
}

static uint32_t logarithm(const frontend_t *f, uint32_t x) {
  const int power = bits_of(x) - 1;
  int32_t part = (int32_t)(x - (UINT32_C(1) << power));
  part = power < LOG_BITS ? (int32_t)((uint32_t)part << (LOG_BITS - power)) : part >> (power - LOG_BITS);
  const int32_t segment = part >> (LOG_BITS - SEGMENT_BITS), start = segment << (LOG_BITS - SEGMENT_BITS);
  const int32_t above = f->log_curve[segment], next = f->log_curve[segment + 1];
  const uint32_t fraction = (uint32_t)(part + above + (((next - above) * (part - start)) >> LOG_BITS));
  const uint32_t log2 = ((uint32_t)power << LOG_BITS) + fraction, half = 1 << (LOG_BITS - 1);
  const uint32_t natural = (uint32_t)(((uint64_t)LN_2 * log2 + half) >> LOG_BITS);
  return ((natural << f->a->scale_shift) + half) >> LOG_BITS;
}

static uint16_t scaled(const frontend_t *f, uint32_t x) {
  if (f->a->enable_log) {
    x = f->correction < 0 ? x >> -f->correction : x << f->correction;
    x = x > 1 ? logarithm(f, x) : 0;
  }
  return (uint16_t)(x < UINT16_MAX ? x : UINT16_MAX);
}

static void frame(frontend_t *f, const int16_t *samples, uint16_t *out) {
  const int shift = apply_window(f, samples);
  weft_fixed_fft_real(&f->fft, f->input, f->output);
  sum_bands(f, shift);
  for (int64_t c = 0; c < f->channels; c++) {
    uint32_t signal = without_noise(f, c);
    if (f->a->enable_pcan) signal = with_gain(f, c, signal);
    out[c] = scaled(f, signal);
  }
}

/* ---- the op ---- */

static bool is_share(float x) { return x >= 0 && x * (1 << NOISE_BITS) <= UINT16_MAX; }

/* What TensorFlow takes, and computes without a number that it cannot hold. */
static weft_status_t *check(const microfrontend_t *a, const weft_shape_t *audio) {
  if (audio->rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "audio is not a vector");
  const bool is_window = a->sample_rate > 0 && a->sample_rate <= INT32_MAX && a->window_step > 0 &&
                         a->window_step <= a->window_size && a->window_size <= INT32_MAX / a->sample_rate;
  const bool is_shape = a->num_channels > 0 && a->num_channels < INT16_MAX && a->left_context >= 0 &&
                        a->right_context >= 0 && a->left_context < INT32_MAX / 2 &&
                        a->right_context < INT32_MAX / 2 && a->frame_stride > 0 && a->out_scale != 0;
  const bool is_range = a->lower_band_limit >= 0 && a->upper_band_limit > a->lower_band_limit;
  const bool is_noise = a->smoothing_bits >= 0 && a->smoothing_bits < 32 && is_share(a->even_smoothing) &&
                        is_share(a->odd_smoothing) && is_share(a->min_signal_remaining) &&
                        a->scale_shift >= 0 && a->scale_shift < 32;
  if (is_window && is_shape && is_range && is_noise) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "AudioMicrofrontend has %s that is out of range",
                    !is_window  ? "a sample rate, window size or step"
                    : !is_shape ? "a number of channels or frames, a stride or a scale"
                    : !is_range ? "a band limit"
                                : "a smoothing");
}

static weft_status_t *check_gain(const frontend_t *f) {
  const int bits = (int)f->a->smoothing_bits - f->correction;
  const int64_t shift = f->a->gain_bits - f->correction - SNR_BITS;
  if (!f->a->enable_pcan) return NULL;
  if (f->a->gain_bits < 0 || f->a->gain_bits > 31 || shift < 0 || shift > 63 || bits < 0 || bits > 31)
    return WEFT_ERROR(INVALID_ARGUMENT, "AudioMicrofrontend has gain_bits that are out of range");
  return NULL;
}

static weft_status_t *make(frontend_t *f, const microfrontend_t *a) {
  f->a = a;
  f->size = a->window_size * a->sample_rate / 1000;
  f->step = a->window_step * a->sample_rate / 1000;
  if (f->size < 1 || f->step < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "AudioMicrofrontend has windows without samples");
  for (f->length = 1; f->length < f->size;) f->length *= 2;
  if (f->length < 2) return not_possible();
  f->channels = a->num_channels;
  f->spectrum = f->length / 2 + 1;
  f->correction = bits_of((uint64_t)f->length) - 1 - WEIGHT_BITS / 2;
  f->smoothing[0] = (uint16_t)(a->even_smoothing * (1 << NOISE_BITS));
  f->smoothing[1] = (uint16_t)(a->odd_smoothing * (1 << NOISE_BITS));
  f->floor = (uint16_t)(a->min_signal_remaining * (1 << NOISE_BITS));
  WEFT_RETURN_IF_ERROR(check_gain(f));
  WEFT_RETURN_IF_ERROR(allocate(f));
  make_window(f);
  WEFT_RETURN_IF_ERROR(make_bands(f));
  if (a->enable_pcan) make_gain(f);
  make_log(f);
  return NULL;
}

/* Frame `i` of the n, or what stands for it where there is none, to output row by row. */
static void put(const frontend_t *f, const uint16_t *frames, int64_t n, int64_t i, weft_tensor_t *out,
                int64_t at) {
  const bool is_zero = f->a->zero_padding && (i < 0 || i >= n);
  const uint16_t *from = frames + (i < 0 ? 0 : i >= n ? n - 1 : i) * f->channels;
  for (int64_t c = 0; c < f->channels; c++) {
    const uint16_t value = is_zero ? 0 : from[c];
    if (out->dtype == WEFT_F32)
      ((float *)out->data)[at + c] = is_zero ? 0 : (float)value / (float)f->a->out_scale;
    if (out->dtype == WEFT_U16) ((uint16_t *)out->data)[at + c] = (uint16_t)(value / f->a->out_scale);
  }
}

static weft_status_t *run(frontend_t *f, weft_kernel_ctx_t *c, const weft_tensor_t *audio) {
  const microfrontend_t *a = f->a;
  const int64_t samples = audio->count, n = samples < f->size ? 0 : (samples - f->size) / f->step + 1;
  const int64_t rows = n == 0 ? 0 : (n - 1) / a->frame_stride + 1,
                stack = 1 + a->left_context + a->right_context;
  int64_t columns = 0;
  if (!weft_cpu_mul(f->channels, stack, &columns)) return WEFT_NO_MEMORY("features of sound");
  const weft_shape_t shape = weft_shape_matrix(rows, columns);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, weft_dtype_base(c->node->output_types[0]), &shape, &out));
  uint16_t *frames = weft_calloc((size_t)(n * f->channels) + 1, sizeof *frames);
  if (frames == NULL) return WEFT_NO_MEMORY("features of sound");
  for (int64_t i = 0; i < n; i++)
    frame(f, (const int16_t *)audio->data + i * f->step, frames + i * f->channels);
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t k = 0; k < stack; k++) {
      const int64_t i = row * a->frame_stride + k - a->left_context;
      put(f, frames, n, i, out, row * columns + k * f->channels);
    }
  }
  weft_free(frames);
  return NULL;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  microfrontend_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
#define INT(name) st->name = weft_knode_int(setup, #name)
#define FLOAT(name) st->name = weft_knode_float(setup, #name)
#define BOOL(name) st->name = weft_knode_bool(setup, #name)
  INT(sample_rate), INT(window_size), INT(window_step), INT(num_channels), INT(smoothing_bits);
  INT(gain_bits), INT(scale_shift), INT(left_context), INT(right_context), INT(frame_stride), INT(out_scale);
  FLOAT(upper_band_limit), FLOAT(lower_band_limit), FLOAT(even_smoothing), FLOAT(odd_smoothing);
  FLOAT(min_signal_remaining), FLOAT(pcan_strength), FLOAT(pcan_offset);
  BOOL(enable_pcan), BOOL(enable_log), BOOL(zero_padding);
#undef INT
#undef FLOAT
#undef BOOL
  *out_state = st;
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *c) {
  const weft_tensor_t *audio = weft_in(c, 0);
  WEFT_RETURN_IF_ERROR(check(c->state, &audio->shape));
  frontend_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return WEFT_NO_MEMORY("features of sound");
  weft_status_t *s = make(f, c->state);
  if (s == NULL) s = run(f, c, audio);
  frontend_free(f);
  return s;
}

const weft_kernel_t weft_cpu_microfrontend_kernels[] = {
    {.op = "AudioMicrofrontend", .prepare = prepare, .compute = compute, .destroy = weft_free},
    {0},
};
