/* benchmarks/gpu_card.h - what a card can do without Weft: the floors of benchmarks/gpu_main.c. */
#ifndef WEFT_BENCHMARKS_GPU_CARD_H_
#define WEFT_BENCHMARKS_GPU_CARD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first card, by NVIDIA's driver and cuBLASLt: the files that WEFT_CUDA_DRIVER and WEFT_CUBLASLT name, or
 * else the machine's. Confined to the thread that opened it. */
typedef struct weft_gpu_card weft_gpu_card_t;

/* NULL: it cannot be used, and *out_why says why; constant. */
weft_gpu_card_t *weft_gpu_card_open(const char **out_why);
void weft_gpu_card_close(weft_gpu_card_t *c); /* NULL is fine */

/* Bytes of its memory that nothing has taken. */
size_t weft_gpu_card_free_bytes(weft_gpu_card_t *c);

/* Seconds of a copy of so many bytes within its memory: the least of `times`. Below 0: it failed. */
double weft_gpu_card_copy(weft_gpu_card_t *c, size_t bytes, int times);

/* Seconds of a product of two matrices [n, n] by the algorithm that cuBLASLt proposes first: of bfloat16
 * summed in float, or of float in TF32. The least of `times`. Below 0: it failed. */
double weft_gpu_card_product(weft_gpu_card_t *c, int64_t n, bool is_bfloat16, int times);

#endif /* WEFT_BENCHMARKS_GPU_CARD_H_ */
