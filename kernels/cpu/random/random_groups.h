/* kernels/cpu/random/random_groups.h - what a block of four words gives in each type: four numbers of up to
 * 32 bits, or two of 64. Numbers of 16 bits are kept in floats. */
#ifndef WEFT_KERNELS_CPU_RANDOM_RANDOM_GROUPS_H_
#define WEFT_KERNELS_CPU_RANDOM_RANDOM_GROUPS_H_

#include "kernels/cpu/random/random_fill.h"
#include "tensor/half.h"

/* The nearest half. */
static inline float weft_random_round_f16(float x) { return weft_f16_to_f32(weft_f32_to_f16(x)); }

/* Uniform in [0, 1). */
static inline void weft_random_uniform_f16(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i++) out[i] = (float)(words[i] & 0x3ffu) / 1024.0f;
}
static inline void weft_random_uniform_f32(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i++) out[i] = weft_philox_float(words[i]);
}
static inline void weft_random_uniform_f64(const uint32_t words[4], double out[2]) {
  for (int i = 0; i < 2; i++) out[i] = weft_philox_double(words[2 * i], words[2 * i + 1]);
}

/* Normal, of mean 0 and deviation 1. */
static inline void weft_random_normal_f32(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i += 2) weft_random_normal_pair(words[i], words[i + 1], out + i);
}
static inline void weft_random_normal_f16(const uint32_t words[4], float out[4]) {
  weft_random_normal_f32(words, out);
  for (int i = 0; i < 4; i++) out[i] = weft_random_round_f16(out[i]);
}

/* Uniform doubles one by one: a group from its last to its first. Starts zeroed but for the generator. */
typedef struct weft_random_uniforms {
  weft_philox_t generator;
  double group[2];
  int left;
} weft_random_uniforms_t;

static inline double weft_random_uniform_next(weft_random_uniforms_t *u) {
  if (u->left == 0) {
    uint32_t words[4];
    weft_philox_next(&u->generator, words);
    weft_random_uniform_f64(words, u->group);
    u->left = 2;
  }
  return u->group[--u->left];
}

#endif /* WEFT_KERNELS_CPU_RANDOM_RANDOM_GROUPS_H_ */
