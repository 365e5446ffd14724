/* kernels/cpu/image/glimpse.c - ExtractGlimpse: windows of images around given places; noise where a window
 * reaches beyond its image. */
#include <inttypes.h>

#include "kernels/cpu/image/resize.h"
#include "kernels/cpu/random/random_fill.h"

typedef enum noise { NOISE_UNIFORM, NOISE_GAUSSIAN, NOISE_ZERO } noise_t;

typedef struct glimpse_state {
  bool is_first_version, is_normalized, is_centred;
  noise_t noise;
} glimpse_state_t;

/* One dimension of a window: where it begins in the image, how much of it lies inside, and where in the
 * window that is. */
typedef struct overlap {
  int64_t from, count, to;
  bool is_partial;
} overlap_t;

static weft_status_t *read_noise(const weft_kernel_setup_t *setup, noise_t *out) {
  const weft_str_t noise = weft_knode_string(setup, "noise");
  const bool is_uniform = weft_knode_bool(setup, "uniform_noise");
  *out = NOISE_UNIFORM;
  if (weft_str_is(noise, "uniform")) return NULL;
  if (noise.length > 0 && is_uniform) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The uniform_noise and noise could not be specified at the same time");
  }
  if (noise.length == 0 && is_uniform) return NULL;
  *out = weft_str_is(noise, "zero") ? NOISE_ZERO : NOISE_GAUSSIAN;
  if (noise.length == 0 || *out == NOISE_ZERO || weft_str_is(noise, "gaussian")) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "The noise could only be uniform, gaussian, or zero, got %.*s",
                    WEFT_STR_ARGS(noise));
}

static weft_status_t *glimpse_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const bool *is_first_version = setup->node.param;
  glimpse_state_t s = {.is_first_version = *is_first_version,
                       .is_normalized = weft_knode_bool(setup, "normalized"),
                       .is_centred = weft_knode_bool(setup, "centered")};
  WEFT_RETURN_IF_ERROR(read_noise(setup, &s.noise));
  glimpse_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = s;
  *out_state = state;
  return NULL;
}

/* Where a window of length `out` begins along a dimension of length `in`. */
static float begin_of(const glimpse_state_t *s, float at, int64_t in, int64_t out) {
  if (!s->is_first_version && !s->is_normalized) return s->is_centred ? at + (float)in / 2.0F : at;
  if (s->is_normalized) at *= (float)in;
  if (s->is_centred) {
    at /= 2.0F;
    at += (float)in / 2.0F;
  }
  return s->is_first_version || s->is_centred ? at - (float)out / 2.0F : at;
}

static overlap_t overlap_of(float begin, int64_t in, int64_t out) {
  const int64_t at = weft_pixel_index(begin);
  overlap_t o = {.from = at, .count = out};
  if (at < 0) {
    o.count = out + at > 0 ? out + at : 0;
    o = (overlap_t){.from = 0, .count = o.count, .to = out - o.count, .is_partial = true};
  } else if (at >= in || out >= in - at) {
    o.count = at >= in ? 0 : in - at;
    o.is_partial = true;
  }
  if (o.count > in) o.count = in;
  return o;
}

/* ---- noise ---- */

typedef struct glimpse_job {
  const float *x;            /* one image */
  float *y;                  /* its window */
  int64_t in, out, channels; /* pixels of the image and of the window */
  weft_philox_words_t *words;
} glimpse_job_t;

/* Between the lowest and the highest value of all channels. */
static void uniform_noise(const glimpse_job_t *j) {
  const int64_t n = j->in * j->channels;
  float low = n > 0 ? j->x[0] : 0, high = low;
  for (int64_t i = 1; i < n; i++) {
    if (j->x[i] < low) low = j->x[i];
    if (j->x[i] > high) high = j->x[i];
  }
  for (int64_t i = 0; i < j->out * j->channels; i++)
    j->y[i] = low + weft_philox_float(weft_philox_word(j->words)) * (high - low);
}

/* With the mean and the deviation of each channel, within its bounds. */
static void gaussian_noise(const glimpse_job_t *j) {
  for (int64_t c = 0; c < j->channels; c++) {
    const float *x = j->x + c;
    float low = j->in > 0 ? x[0] : 0, high = low, sum = 0, squares = 0, pair[2] = {0, 0};
    for (int64_t i = 0; i < j->in; i++) {
      const float v = x[i * j->channels];
      if (v < low) low = v;
      if (v > high) high = v;
      sum += v;
    }
    const float count = j->in > 0 ? (float)j->in : 1, mean = sum / count;
    for (int64_t i = 0; i < j->in; i++) {
      const float v = x[i * j->channels] - mean;
      squares += v * v;
    }
    const float sigma = sqrtf(squares / count);
    for (int64_t i = 0; i < j->out; i++) {
      if (i % 2 == 0) {
        const uint32_t first = weft_philox_word(j->words);
        weft_random_normal_pair(first, weft_philox_word(j->words), pair);
      }
      const float v = mean + pair[i % 2] * sigma;
      j->y[i * j->channels + c] = v < low ? low : v > high ? high : v;
    }
  }
}

static void fill_noise(noise_t noise, const glimpse_job_t *j) {
  switch (noise) {
    case NOISE_UNIFORM: uniform_noise(j); break;
    case NOISE_GAUSSIAN: gaussian_noise(j); break;
    case NOISE_ZERO: memset(j->y, 0, (size_t)(j->out * j->channels) * sizeof *j->y); break;
  }
}

/* ---- windows ---- */

static weft_status_t *check_glimpse(const weft_tensor_t *x, const weft_tensor_t *size,
                                    const weft_tensor_t *offsets) {
  const weft_shape_t *o = &offsets->shape;
  if (x->shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input must be 4-dimensional (batch_size, height, width, depth), got shape %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  if (size->shape.rank != 1 || size->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "size must be a vector of size 2 (height, width), got shape %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  if (o->rank != 2 || o->dims[0] != x->shape.dims[0] || o->dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "offsets must be a matrix of [batch, 2 (y, x)], got shape %s",
                      WEFT_SHAPE_TEXT(o));
  }
  return NULL;
}

static void cut(const glimpse_job_t *j, const overlap_t *rows, const overlap_t *columns, int64_t in_w,
                int64_t out_w) {
  for (int64_t h = 0; h < rows->count && columns->count > 0; h++) {
    memcpy(j->y + ((rows->to + h) * out_w + columns->to) * j->channels,
           j->x + ((rows->from + h) * in_w + columns->from) * j->channels,
           (size_t)(columns->count * j->channels) * sizeof *j->y);
  }
}

static weft_status_t *glimpse(weft_kernel_ctx_t *ctx) {
  const glimpse_state_t *s = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *offsets = weft_in(ctx, 2);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(check_glimpse(x, weft_in(ctx, 1), offsets));
  const int32_t *size = weft_in(ctx, 1)->data;
  const int64_t *dims = x->shape.dims;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_shape_make((int64_t[]){dims[0], size[0], size[1], dims[3]}, 4, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  if (y->count == 0) return NULL;
  weft_philox_words_t words = weft_philox_words(weft_philox_seeded(0, 0));
  for (int64_t i = 0; i < dims[0]; i++) {
    const float *at = (const float *)offsets->data + 2 * i;
    const overlap_t rows = overlap_of(begin_of(s, at[0], dims[1], size[0]), dims[1], size[0]),
                    columns = overlap_of(begin_of(s, at[1], dims[2], size[1]), dims[2], size[1]);
    glimpse_job_t j = {
        .in = dims[1] * dims[2], .out = (int64_t)size[0] * size[1], .channels = dims[3], .words = &words};
    j.x = (const float *)x->data + i * j.in * j.channels;
    j.y = (float *)y->data + i * j.out * j.channels;
    if (rows.is_partial || columns.is_partial) fill_noise(s->noise, &j);
    cut(&j, &rows, &columns, dims[2], size[1]);
  }
  return NULL;
}

#define GLIMPSE(op_, is_first_version)                                               \
  {                                                                                  \
    .op = op_, .prepare = glimpse_prepare, .compute = glimpse, .destroy = weft_free, \
    .param = &(const bool) {                                                         \
      is_first_version                                                               \
    }                                                                                \
  }
const weft_kernel_t weft_cpu_glimpse_kernels[] = {
    GLIMPSE("ExtractGlimpse", true),
    GLIMPSE("ExtractGlimpseV2", false),
    {0},
};
