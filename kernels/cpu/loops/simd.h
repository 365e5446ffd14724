/* kernels/cpu/loops/simd.h - vectors of the width of the level that is compiled, and what the compiler has
 * no operator for. The only header of the tree that names instructions of a processor.
 *
 * A vector is a type of gcc's and clang's vector extension: + - * / and [] work on it. weft_simd_fma rounds
 * once where the level has such an instruction (WEFT_SIMD_FMA), and twice elsewhere.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_SIMD_H_
#define WEFT_KERNELS_CPU_LOOPS_SIMD_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* Doubles: vectors of at most 32 bytes, because a conversion to one of 64 takes some processors longer than
 * two. gcc makes two conversions and a shuffle of one. */
enum { WEFT_SIMD_WIDE = WEFT_SIMD < 8 ? 2 : 4 };
typedef double weft_simd_wide_t __attribute__((vector_size(WEFT_SIMD < 8 ? 16 : 32)));

/* WEFT_SIMD_WIDE floats from p on. */
static inline weft_simd_wide_t weft_simd_load_wide(const float *p) {
#if defined(__AVX2__)
  return (weft_simd_wide_t)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  return (weft_simd_wide_t){(double)p[0], (double)p[1]};
#endif
}

/* The first n of them, fewer than WEFT_SIMD_WIDE, and zeros. */
static inline weft_simd_wide_t weft_simd_load_wide_part(const float *p, int64_t n) {
  weft_simd_wide_t part = {0};
  for (int64_t i = 0; i < n; i++) part[i] = (double)p[i];
  return part;
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

/* ---- half (tensor/half.h), WEFT_SIMD numbers at a time, where the level has instructions for it ---- */

#if defined(__F16C__) || defined(__aarch64__)
#define WEFT_SIMD_F16 1

static inline weft_simd_t weft_simd_load_f16(const uint16_t *p) {
#if defined(__AVX512F__)
  return (weft_simd_t)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif defined(__F16C__)
  return (weft_simd_t)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
  return (weft_simd_t)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#endif
}

/* To nearest even. Of a NaN only the sign is kept, as in weft_f32_to_f16: the other bits are 0x7e00. */
static inline void weft_simd_store_f16(uint16_t *p, weft_simd_t v) {
#if defined(__AVX512F__)
  const __m256i h = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
  const __m256i nan = _mm256_and_si256(h, _mm256_set1_epi16((short)0xfe00));
  _mm256_storeu_si256((__m256i *)(void *)p, _mm256_mask_blend_epi16(is_nan, h, nan));
#elif defined(__F16C__)
  const __m128i h = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q));
  const __m128i narrow = _mm_packs_epi32(_mm256_castsi256_si128(is_nan), _mm256_extracti128_si256(is_nan, 1));
  _mm_storeu_si128((__m128i *)(void *)p, _mm_andnot_si128(_mm_and_si128(narrow, _mm_set1_epi16(0x1ff)), h));
#else
  const uint16x4_t h = vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v));
  const uint16x4_t is_number = vmovn_u32(vceqq_f32((float32x4_t)v, (float32x4_t)v));
  vst1_u16(p, vand_u16(h, vorr_u16(is_number, vdup_n_u16(0xfe00))));
#endif
}
#else
#define WEFT_SIMD_F16 0
#endif

/* ---- products of bfloat16 by instruction: a word of 4 bytes holds two of them, the first in its lower half
 */

#if defined(__AVX512F__)
#define WEFT_SIMD_PAIRS 1
/* On functions that call weft_simd_dot_pairs: the level does not have the instruction. */
#define WEFT_SIMD_PAIRS_TARGET __attribute__((target("avx512bf16")))

/* Does this processor have it? */
static inline bool weft_simd_has_pairs(void) { return __builtin_cpu_supports("avx512bf16"); }

/* All words that at p. */
static inline weft_simd_t weft_simd_splat_word(const float *p) {
  int word;
  memcpy(&word, p, sizeof word);
  return (weft_simd_t)_mm512_set1_epi32(word);
}

/* c plus the products of the two numbers of each word, which are rounded with the sum; subnormal numbers
 * count as zeros. */
WEFT_SIMD_PAIRS_TARGET static inline weft_simd_t weft_simd_dot_pairs(weft_simd_t a, weft_simd_t b,
                                                                     weft_simd_t c) {
  return (weft_simd_t)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}

/* Stores a and b, rounded to nearest even, as 2 * WEFT_SIMD bfloat16. False if one is a NaN or subnormal,
 * which the instruction does not round as tensor/half.h does: then what is stored is not to be used. */
WEFT_SIMD_PAIRS_TARGET static inline bool weft_simd_store_bf16(uint16_t *p, weft_simd_t a, weft_simd_t b) {
  const __m512i one =
      _mm512_set1_epi32(1); /* doubled without its sign, a subnormal number is at most 0xfffffe */
  const __m512i rest_a = _mm512_sub_epi32(_mm512_slli_epi32((__m512i)a, 1), one),
                rest_b = _mm512_sub_epi32(_mm512_slli_epi32((__m512i)b, 1), one);
  const __mmask16 is_subnormal =
      _mm512_cmplt_epu32_mask(_mm512_min_epu32(rest_a, rest_b), _mm512_set1_epi32(0x00ffffff));
  _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
  return _mm512_kortestz(is_subnormal, _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q)) != 0;
}
#else
#define WEFT_SIMD_PAIRS 0
#endif

#endif /* WEFT_KERNELS_CPU_LOOPS_SIMD_H_ */
