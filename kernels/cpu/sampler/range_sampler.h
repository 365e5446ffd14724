/* kernels/cpu/sampler/range_sampler.h - distributions of the integers in [0, range).
 *
 * Which words a draw takes from the generator is TensorFlow's, so that its numbers are.
 */
#ifndef WEFT_KERNELS_CPU_SAMPLER_RANGE_SAMPLER_H_
#define WEFT_KERNELS_CPU_SAMPLER_RANGE_SAMPLER_H_

#include "kernels/cpu/random/philox.h"

typedef enum weft_sampler_kind {
  WEFT_SAMPLE_ALL,         /* each once, in order */
  WEFT_SAMPLE_UNIFORM,     /* all equally likely */
  WEFT_SAMPLE_LOG_UNIFORM, /* k with log((k + 2) / (k + 1)) / log(range + 1): Zipf's law */
  WEFT_SAMPLE_LEARNED,     /* as often as weft_range_sampler_learn() has seen them, and once more */
  WEFT_SAMPLE_FIXED,       /* by weights */
} weft_sampler_kind_t;

/* Of Walker's alias method (1977): bucket k is k with this chance, else `other`. */
typedef struct weft_alias {
  float chance;
  int32_t other;
} weft_alias_t;

/* Thread-compatible. Zero it; then set kind and range, and weights by weft_range_sampler_weigh(). */
typedef struct weft_range_sampler {
  weft_sampler_kind_t kind;
  int64_t range;
  int32_t *seen;         /* LEARNED: a tree of sums of what was seen (Fenwick 1994), range + 1 elements */
  int64_t total;         /* LEARNED: range + all that was seen */
  float *weights;        /* FIXED */
  float weight;          /* FIXED: their sum */
  weft_alias_t *aliases; /* FIXED: range of them */
} weft_range_sampler_t;

/* LEARNED: makes room. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_range_sampler_init_learned(weft_range_sampler_t *s);
/* FIXED: `weights`, of which there are `range`, become the sampler's. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_range_sampler_weigh(weft_range_sampler_t *s, float *weights);
void weft_range_sampler_deinit(weft_range_sampler_t *s);

int64_t weft_range_sampler_draw(const weft_range_sampler_t *s, weft_philox_words_t *words);
float weft_range_sampler_probability(const weft_range_sampler_t *s, int64_t value);
/* LEARNED: sees n values within the range, as far as the total stays within 32 bits; others learn nothing. */
void weft_range_sampler_learn(weft_range_sampler_t *s, const int64_t *values, int64_t n);
/* How many values can be drawn at all. */
int64_t weft_range_sampler_distinct(const weft_range_sampler_t *s);

#endif /* WEFT_KERNELS_CPU_SAMPLER_RANGE_SAMPLER_H_ */
