/* kernels/cpu/random/philox.h - Philox4x32-10, the counter-based generator behind every random op.
 *
 * A generator is a key and a 128-bit counter, a plain value: copy it, skip ahead in O(1), and the same block
 * always gives the same four words. So any thread can make any part of an output. Source: Salmon et al.,
 * "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), section 3.3.
 */
#ifndef WEFT_KERNELS_CPU_RANDOM_PHILOX_H_
#define WEFT_KERNELS_CPU_RANDOM_PHILOX_H_

#include <stdint.h>

#include "base/mutex.h"
#include "kernels/kernel.h"

/* Thread-compatible. */
typedef struct weft_philox {
  uint32_t counter[4]; /* lowest word first */
  uint32_t key[2];
} weft_philox_t;

/* Moves on by n blocks of four words. As in TensorFlow, a carry into an upper half of
 * n that is all ones gets lost. */
static inline void weft_philox_skip(weft_philox_t *p, uint64_t n) {
  uint32_t low = (uint32_t)n, high = (uint32_t)(n >> 32);
  p->counter[0] += low;
  if (p->counter[0] < low) high++;
  p->counter[1] += high;
  if (p->counter[1] < high && ++p->counter[2] == 0) ++p->counter[3];
}

/* The next block. */
static inline void weft_philox_next(weft_philox_t *p, uint32_t out[4]) {
  uint32_t c0 = p->counter[0], c1 = p->counter[1], c2 = p->counter[2], c3 = p->counter[3];
  uint32_t k0 = p->key[0], k1 = p->key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)b;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
  weft_philox_skip(p, 1);
}

/* One word after the other. Starts with words_of(generator). */
typedef struct weft_philox_words {
  weft_philox_t generator;
  uint32_t words[4];
  int used;
} weft_philox_words_t;

static inline weft_philox_words_t weft_philox_words(weft_philox_t generator) {
  return (weft_philox_words_t){.generator = generator, .used = 4};
}
static inline uint32_t weft_philox_word(weft_philox_words_t *w) {
  if (w->used == 4) {
    weft_philox_next(&w->generator, w->words);
    w->used = 0;
  }
  return w->words[w->used++];
}

/* Two words as one of 64 bits. */
static inline uint64_t weft_philox_word64(weft_philox_words_t *w) {
  const uint64_t low = weft_philox_word(w);
  return low | (uint64_t)weft_philox_word(w) << 32;
}
/* Uniform integer below n, which is at least 1: words that would favour small numbers are drawn again. */
static inline uint64_t weft_philox_uniform64(weft_philox_words_t *w, uint64_t n) {
  if ((n & (n - 1)) == 0) return weft_philox_word64(w) & (n - 1);
  const uint64_t refused = UINT64_MAX % n + 1;
  uint64_t x = weft_philox_word64(w);
  while (x < refused) x = weft_philox_word64(w);
  return x % n;
}

/* Words to numbers in [0, 1): as many mantissa bits as the type has. */
static inline float weft_philox_float(uint32_t word) {
  union {
    uint32_t bits;
    float value;
  } u = {.bits = 127u << 23 | (word & 0x7fffffu)};
  return u.value - 1.0f;
}
static inline double weft_philox_double(uint32_t high, uint32_t low) {
  union {
    uint64_t bits;
    double value;
  } u = {.bits = (uint64_t)1023 << 52 | (uint64_t)(high & 0xfffffu) << 32 | low};
  return u.value - 1.0;
}

/* The generator of a stateful op for its attributes `seed`, `seed2`; both 0: a random one. */
weft_philox_t weft_philox_seeded(int64_t seed, int64_t seed2);
/* The generator of a stateless op: the seeds are scrambled, so that neither needs to be strong. */
weft_philox_t weft_philox_scrambled(uint64_t seed0, uint64_t seed1);

/* ---- the state of a stateful node: a stream that goes on from run to run. Thread-safe. ---- */
typedef struct weft_random_stream {
  weft_mutex_t mu;
  weft_philox_t next; /* guarded by mu */
} weft_random_stream_t;

/* prepare and destroy of a node with attributes `seed` and `seed2`. */
WEFT_MUST_CHECK weft_status_t *weft_random_stream_prepare(const weft_kernel_setup_t *setup, void **out_state);
void weft_random_stream_destroy(void *state); /* NULL is fine */
extern const weft_kernel_keeping_t weft_random_stream_keeping;
/* The row of an op with such a state. */
#define WEFT_STREAM_KERNEL(op_, attr_, types_, compute_)                                               \
  {                                                                                                    \
    .op = op_, .type_attr = attr_, .types = types_, .prepare = weft_random_stream_prepare,             \
    .compute = compute_, .destroy = weft_random_stream_destroy, .keeping = &weft_random_stream_keeping \
  }
/* Takes `blocks` blocks out of the stream: they are the caller's alone. */
weft_philox_t weft_random_stream_take(weft_random_stream_t *s, uint64_t blocks);

/* ---- work cut into pieces ---- */

/* How TensorFlow cuts `total` units of `cost` cycles each among `num_threads` threads: pieces of the returned
 * size, the last one perhaps shorter. Ops whose numbers depend on where a piece begins need to cut in the
 * same places. */
int64_t weft_random_piece(int64_t total, double cost, int num_threads);

#endif /* WEFT_KERNELS_CPU_RANDOM_PHILOX_H_ */
