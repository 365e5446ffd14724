/* kernels/cpu/loops/simd.h - vectors of the width of the level that is compiled, and what the compiler has
 * no operator for. The only header of the tree that names instructions of a processor.
 *
 * A vector is a type of gcc's and clang's vector extension: + - * / and [] work on it. weft_simd_fma rounds
 * once where the level has such an instruction (WEFT_SIMD_FMA), and twice elsewhere.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_SIMD_H_
#define WEFT_KERNELS_CPU_LOOPS_SIMD_H_

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define WEFT_SIMD 16
#elif defined(__AVX2__)
#define WEFT_SIMD 8
#else
#define WEFT_SIMD 4
#endif
#if defined(__FMA__) || defined(__aarch64__)
#define WEFT_SIMD_FMA 1
#else
#define WEFT_SIMD_FMA 0
#endif

typedef float weft_simd_t __attribute__((vector_size(WEFT_SIMD * 4)));
/* The same in memory, at the address of any float. */
typedef float weft_simd_at_t __attribute__((vector_size(WEFT_SIMD * 4), aligned(4), may_alias));

static inline weft_simd_t weft_simd_load(const float *p) { return *(const weft_simd_at_t *)(const void *)p; }
static inline void weft_simd_store(float *p, weft_simd_t v) { *(weft_simd_at_t *)(void *)p = v; }

/* All elements x. */
static inline weft_simd_t weft_simd_splat(float x) { return x - (weft_simd_t){0}; }

/* a * b + c */
static inline weft_simd_t weft_simd_fma(weft_simd_t a, weft_simd_t b, weft_simd_t c) {
#if defined(__AVX512F__)
  return (weft_simd_t)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (weft_simd_t)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (weft_simd_t)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

/* Words of 32 bits, each in the lower half of one of 64. */
typedef uint64_t weft_simd_words_t __attribute__((vector_size(WEFT_SIMD * 4)));

/* The products of the lower halves, whatever the upper ones hold. */
static inline weft_simd_words_t weft_simd_mul_words(weft_simd_words_t a, weft_simd_words_t b) {
#if defined(__AVX512F__)
  return (weft_simd_words_t)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (weft_simd_words_t)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return (weft_simd_words_t)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

#endif /* WEFT_KERNELS_CPU_LOOPS_SIMD_H_ */
