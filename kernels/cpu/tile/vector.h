/* kernels/cpu/tile/vector.h - what loops over registers are written with. */
#ifndef WEFT_KERNELS_CPU_TILE_VECTOR_H_
#define WEFT_KERNELS_CPU_TILE_VECTOR_H_

/* Bytes of a vector; registers of that size. */
#if defined(__AVX512F__)
#define WEFT_TILE_BYTES 64
#define WEFT_TILE_REGISTERS 32
#elif defined(__AVX__)
#define WEFT_TILE_BYTES 32
#define WEFT_TILE_REGISTERS 16
#elif defined(__aarch64__)
#define WEFT_TILE_BYTES 16
#define WEFT_TILE_REGISTERS 32
#else
#define WEFT_TILE_BYTES 16
#define WEFT_TILE_REGISTERS 16
#endif

/* Before a loop over registers: all of its rounds are written out, so that no index is left. */
#if defined(__clang__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif
/* Of a function whose arguments are constants where it is called. */
#define WEFT_SPECIALISED static inline __attribute__((always_inline))

/* The vector `v` is rounded here: a product is not made one operation with the sum that follows. */
#if defined(__x86_64__)
#define WEFT_ROUNDED(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__)
#define WEFT_ROUNDED(v) __asm__("" : "+w"(v))
#else
#define WEFT_ROUNDED(v) __asm__("" : "+m"(v))
#endif

#endif /* WEFT_KERNELS_CPU_TILE_VECTOR_H_ */
