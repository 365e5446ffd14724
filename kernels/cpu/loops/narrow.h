/* kernels/cpu/loops/narrow.h - half and bfloat16 as blocks of float.
 *
 * Loops over such numbers convert a block, which stays in the first-level cache, run the loop of float, and
 * convert the result: so they take the processor's own conversions (simd.h) and the vectors of float, and
 * there is one loop for the three types. The conversions are those of tensor/half.h, bit for bit, except
 * that a signalling NaN may come out quiet.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_NARROW_H_
#define WEFT_KERNELS_CPU_LOOPS_NARROW_H_

#include <stdint.h>

/* Numbers in a block. */
enum { WEFT_NARROW_BLOCK = 512 };

static inline int64_t weft_narrow_block(int64_t n) { return n < WEFT_NARROW_BLOCK ? n : WEFT_NARROW_BLOCK; }

/* y[i] = x[i]. x and y do not overlap. Thread-safe. */
void weft_widen_f16(int64_t n, const uint16_t *x, float *y);
void weft_widen_bf16(int64_t n, const uint16_t *x, float *y);
/* The same to the nearest, ties to even. */
void weft_narrow_f16(int64_t n, const float *x, uint16_t *y);
void weft_narrow_bf16(int64_t n, const float *x, uint16_t *y);

#endif /* WEFT_KERNELS_CPU_LOOPS_NARROW_H_ */
