/* kernels/cpu/sampler/range_sampler.c - see the header. */
#include "kernels/cpu/sampler/range_sampler.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"

/* ---- uniform integers: words that would favour small numbers are drawn again ---- */

static uint32_t uniform32(weft_philox_words_t *w, uint32_t n) {
  if ((n & (n - 1)) == 0) return weft_philox_word(w) & (n - 1);
  const uint32_t refused = UINT32_MAX % n + 1;
  uint32_t x = weft_philox_word(w);
  while (x < refused) x = weft_philox_word(w);
  return x % n;
}

/* ---- learned: value k has weight 1 + how often it was seen ---- */

weft_status_t *weft_range_sampler_init_learned(weft_range_sampler_t *s) {
  s->seen = weft_calloc((size_t)s->range + 1, sizeof *s->seen);
  if (s->seen == NULL) return WEFT_NO_MEMORY("weights of %" PRId64 " classes", s->range);
  s->total = s->range;
  return NULL;
}

/* What values below k were seen. */
static int64_t seen_below(const weft_range_sampler_t *s, int64_t k) {
  int64_t sum = 0;
  for (; k > 0; k &= k - 1) sum += s->seen[k];
  return sum;
}

/* The value whose weight covers place `at` of the total. */
static int64_t covering(const weft_range_sampler_t *s, int64_t at) {
  int64_t step = 1, k = 0;
  while (step <= s->range / 2) step *= 2;
  for (; step > 0; step /= 2) {
    if (k + step > s->range || step + s->seen[k + step] > at) continue;
    k += step;
    at -= step + s->seen[k];
  }
  return k;
}

void weft_range_sampler_learn(weft_range_sampler_t *s, const int64_t *values, int64_t n) {
  if (s->kind != WEFT_SAMPLE_LEARNED) return;
  for (int64_t i = 0; i < n && s->total < INT32_MAX; i++, s->total++) {
    for (int64_t k = values[i] + 1; k <= s->range; k += k & -k) s->seen[k]++;
  }
}

/* ---- fixed ---- */

weft_status_t *weft_range_sampler_weigh(weft_range_sampler_t *s, float *weights) {
  const int64_t n = s->range;
  double *share = weft_calloc((size_t)n, sizeof *share), sum = 0;
  /* Classes below their share from the front, those above from the back: stacks. */
  int32_t *stacks = weft_calloc((size_t)n, sizeof *stacks);
  s->weights = weights;
  s->aliases = weft_calloc((size_t)n, sizeof *s->aliases);
  if (share == NULL || stacks == NULL || s->aliases == NULL) {
    weft_free(share);
    weft_free(stacks);
    return WEFT_NO_MEMORY("weights of %" PRId64 " classes", n);
  }
  int64_t low = 0, high = n;
  for (int64_t i = 0; i < n; i++) sum += (double)weights[i];
  for (int64_t i = 0; i < n; i++) {
    share[i] = (double)(weights[i] * (float)n) / sum;
    stacks[share[i] < 1.0 ? low++ : --high] = (int32_t)i;
  }
  while (low > 0 && high < n) {
    const int32_t l = stacks[--low], h = stacks[high++];
    s->aliases[l].other = h;
    share[h] -= 1.0 - share[l];
    stacks[share[h] < 1.0 ? low++ : --high] = h;
  }
  for (int64_t i = 0; i < n; i++) s->aliases[i].chance = (float)share[i];
  /* What is left over is rounding. */
  for (int64_t i = 0; i < n; i++) {
    if (i < low || i >= high) s->aliases[stacks[i]] = (weft_alias_t){1.0f, stacks[i]};
  }
  weft_free(share);
  weft_free(stacks);
  return NULL;
}

/* ---- all kinds ---- */

void weft_range_sampler_deinit(weft_range_sampler_t *s) {
  weft_free(s->seen);
  weft_free(s->weights);
  weft_free(s->aliases);
}

int64_t weft_range_sampler_draw(const weft_range_sampler_t *s, weft_philox_words_t *words) {
  switch (s->kind) {
    case WEFT_SAMPLE_ALL: break;
    case WEFT_SAMPLE_UNIFORM: return (int64_t)weft_philox_uniform64(words, (uint64_t)s->range);
    case WEFT_SAMPLE_LOG_UNIFORM: {
      const uint32_t high = weft_philox_word(words), low = weft_philox_word(words);
      const double x = exp(weft_philox_double(high, low) * log1p((double)s->range));
      return x < 0x1p63 ? ((int64_t)x - 1) % s->range : s->range - 1;
    }
    case WEFT_SAMPLE_LEARNED: return covering(s, uniform32(words, (uint32_t)s->total));
    case WEFT_SAMPLE_FIXED: {
      const float x = weft_philox_float(weft_philox_word(words));
      const uint32_t k = uniform32(words, (uint32_t)s->range);
      return x < s->aliases[k].chance ? (int64_t)k : s->aliases[k].other;
    }
  }
  return 0;
}

float weft_range_sampler_probability(const weft_range_sampler_t *s, int64_t value) {
  switch (s->kind) {
    case WEFT_SAMPLE_ALL: break;
    case WEFT_SAMPLE_UNIFORM: return (float)(1.0 / (double)s->range);
    case WEFT_SAMPLE_LOG_UNIFORM:
      return (float)(log(((double)value + 2.0) / ((double)value + 1.0)) / log1p((double)s->range));
    case WEFT_SAMPLE_LEARNED:
      return (float)(1 + seen_below(s, value + 1) - seen_below(s, value)) / (float)s->total;
    case WEFT_SAMPLE_FIXED: return value < 0 || value >= s->range ? 0.0f : s->weights[value] / s->weight;
  }
  return 1.0f;
}

int64_t weft_range_sampler_distinct(const weft_range_sampler_t *s) {
  if (s->kind != WEFT_SAMPLE_FIXED) return s->range;
  int64_t n = 0;
  for (int64_t i = 0; i < s->range; i++) n += s->weights[i] != 0.0f;
  return n;
}
