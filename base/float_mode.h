/* base/float_mode.h - how a thread computes with denormal numbers.
 *
 * TensorFlow's threads take denormal operands and results for 0, and so do the threads that run kernels here:
 * the numbers are the same, and a step whose gradients vanish costs no more than another (a denormal operand
 * costs about 150 cycles).
 */
#ifndef WEFT_BASE_FLOAT_MODE_H_
#define WEFT_BASE_FLOAT_MODE_H_

#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
/* Denormals are 0 in this thread from now on. Returns what weft_float_mode_restore() takes. */
static inline uint64_t weft_float_mode_flush(void) {
  const uint32_t old = _mm_getcsr(), flush = 0x8040; /* flush to zero; denormals are zero */
  if ((old & flush) != flush) _mm_setcsr(old | flush);
  return old;
}
static inline void weft_float_mode_restore(uint64_t old) {
  if (_mm_getcsr() != (uint32_t)old) _mm_setcsr((uint32_t)old);
}
#elif defined(__aarch64__)
static inline uint64_t weft_float_mode_flush(void) {
  uint64_t old;
  __asm__ volatile("mrs %0, fpcr" : "=r"(old));
  __asm__ volatile("msr fpcr, %0" : : "r"(old | UINT64_C(1) << 24)); /* FZ */
  return old;
}
static inline void weft_float_mode_restore(uint64_t old) { __asm__ volatile("msr fpcr, %0" : : "r"(old)); }
#else
static inline uint64_t weft_float_mode_flush(void) { return 0; }
static inline void weft_float_mode_restore(uint64_t old) { (void)old; }
#endif

#endif /* WEFT_BASE_FLOAT_MODE_H_ */
