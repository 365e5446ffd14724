/* kernels/cpu/audio/mfcc.c - spectra to mel-frequency cepstral coefficients.
 *
 * Frequencies are brought together in triangles that are of equal width on the mel scale; of the logarithms
 * of their sums the cosine transform is taken. Numbers and order of operations are TensorFlow's.
 */
#include <math.h>

#include "kernels/cpu/loops/common.h"

WEFT_ATTRS(mfcc, (FLOAT, upper_frequency_limit), (FLOAT, lower_frequency_limit),
           (INT, filterbank_channel_count), (INT, dct_coefficient_count))

typedef struct mel {
  int64_t length;         /* of a spectrum */
  int64_t bands, wanted;  /* triangles; coefficients */
  int64_t first, last;    /* frequencies that count */
  double *memory;         /* owned: the next four */
  double *centres;        /* bands + 1 */
  double *weights, *sums; /* length: of a frequency in its band, the rest belongs to the next; bands */
  double *cosines;        /* wanted * bands */
  int64_t *band;          /* owned; length: of a frequency, -1: in front of the first */
} mel_t;

static double to_mel(double frequency) { return 1127.0 * log1p(frequency / 700.0); }

static weft_status_t *check(const mfcc_attrs_t *a, int64_t length, int32_t rate) {
  int64_t bands = a->filterbank_channel_count, wanted = a->dct_coefficient_count;
  bool is_good = bands >= 1 && bands < INT32_MAX && wanted >= 1 && wanted <= bands && rate > 0 &&
                 length >= 2 && length <= INT32_MAX && !(a->lower_frequency_limit < 0) &&
                 !(a->upper_frequency_limit <= a->lower_frequency_limit);
  if (is_good) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Mfcc initialization failed for channel count %lld and sample rate %d",
                    (long long)length, rate);
}

static weft_status_t *mel_allocate(mel_t *m) {
  int64_t cosines = 0;
  if (!weft_cpu_mul(m->wanted, m->bands, &cosines) || cosines > INT64_MAX / 16) {
    return WEFT_NO_MEMORY("%lld coefficients", (long long)m->wanted);
  }
  m->memory = weft_calloc((size_t)(m->bands + 1 + m->length + m->bands + cosines), sizeof *m->memory);
  m->band = weft_calloc((size_t)m->length, sizeof *m->band);
  if (m->memory == NULL || m->band == NULL) return WEFT_NO_MEMORY("cepstral coefficients");
  m->centres = m->memory;
  m->weights = m->centres + m->bands + 1;
  m->sums = m->weights + m->length;
  m->cosines = m->sums + m->bands;
  return NULL;
}

/* Where the triangles are, and how much of each frequency is in which. */
static void mel_place(mel_t *m, double low, double high, double step) {
  double mel_low = to_mel(low), spacing = (to_mel(high) - mel_low) / (double)(m->bands + 1);
  double last = high / step;
  int64_t band = 0;
  for (int64_t i = 0; i <= m->bands; i++) m->centres[i] = mel_low + spacing * (double)(i + 1);
  m->last = last < (double)m->length ? (int64_t)last : m->length;
  m->first = low / step < (double)m->length ? (int64_t)(1.5 + low / step) : m->length + 1;
  for (int64_t i = m->first; i <= m->last && i < m->length; i++) {
    double mel = to_mel((double)i * step);
    while (band < m->bands && m->centres[band] < mel) band++;
    m->band[i] = band - 1;
    double from = band == 0 ? mel_low : m->centres[band - 1];
    m->weights[i] = (m->centres[band] - mel) / (m->centres[band] - from);
  }
}

static void mel_cosines(mel_t *m) {
  const double pi = 3.14159265358979323846;
  double norm = sqrt(2.0 / (double)m->bands), step = pi / (double)m->bands;
  for (int64_t i = 0; i < m->wanted; i++) {
    for (int64_t j = 0; j < m->bands; j++) {
      m->cosines[i * m->bands + j] = norm * cos((double)i * step * ((double)j + 0.5));
    }
  }
}

/* One spectrum. One that is shorter than the highest frequency wanted gives zeros. */
static void mel_run(const mel_t *m, const float *in, float *out) {
  const double least = 1e-12;
  if (m->last >= m->length) {
    memset(out, 0, (size_t)m->wanted * sizeof *out);
    return;
  }
  memset(m->sums, 0, (size_t)m->bands * sizeof *m->sums);
  for (int64_t i = m->first; i <= m->last; i++) {
    double value = sqrt((double)in[i]), weighted = value * m->weights[i];
    int64_t band = m->band[i];
    if (band >= 0) m->sums[band] += weighted;
    if (band + 1 < m->bands) m->sums[band + 1] += value - weighted;
  }
  for (int64_t j = 0; j < m->bands; j++) m->sums[j] = log(m->sums[j] < least ? least : m->sums[j]);
  for (int64_t i = 0; i < m->wanted; i++) {
    double sum = 0;
    for (int64_t j = 0; j < m->bands; j++) sum += m->cosines[i * m->bands + j] * m->sums[j];
    out[i] = (float)sum;
  }
}

static weft_status_t *mfcc(weft_kernel_ctx_t *c, const mfcc_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0), *rate = weft_in(c, 1);
  weft_tensor_t *out = NULL;
  if (in->shape.rank != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "spectrogram must be 3-dimensional%s", WEFT_SHAPE_TEXT(&in->shape));
  }
  if (rate->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input sample_rate should be a scalar tensor, got %s instead.",
                      WEFT_SHAPE_TEXT(&rate->shape));
  }
  int64_t length = in->shape.dims[2], spectra = in->shape.dims[0] * in->shape.dims[1];
  int32_t per_second = *(const int32_t *)rate->data;
  weft_shape_t shape = in->shape;
  shape.dims[2] = attrs->dct_coefficient_count;
  WEFT_RETURN_IF_ERROR(check(attrs, length, per_second));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &shape, &out));
  if (out->count == 0) return NULL;
  mel_t m = {
      .length = length, .bands = attrs->filterbank_channel_count, .wanted = attrs->dct_coefficient_count};
  weft_status_t *s = mel_allocate(&m);
  if (s == NULL) {
    double step = 0.5 * per_second / (double)(length - 1); /* Hz from one frequency to the next */
    mel_place(&m, (double)attrs->lower_frequency_limit, (double)attrs->upper_frequency_limit, step);
    mel_cosines(&m);
    for (int64_t i = 0; i < spectra; i++) {
      mel_run(&m, (const float *)in->data + i * length, (float *)out->data + i * m.wanted);
    }
  }
  weft_free(m.memory);
  weft_free(m.band);
  return s;
}

const weft_kernel_t weft_cpu_mfcc_kernels[] = {
    {.op = "Mfcc", WEFT_COMPUTE(mfcc)},
    {0},
};
