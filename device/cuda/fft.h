/* device/cuda/fft.h - Fourier transforms, by cuFFT.
 *
 * The library is opened at the first transform: WEFT_CUFFT names it, else it is libcufft.so.12 or .11, of the
 * loader's path or of /usr/local/cuda. The plan for a transform of given sizes is kept for each card.
 */
#ifndef WEFT_DEVICE_CUDA_FFT_H_
#define WEFT_DEVICE_CUDA_FFT_H_

#include <stdbool.h>
#include <stdint.h>

#include "weft/device.h"

typedef enum weft_cuda_fft_kind {
  WEFT_CUDA_FFT_FORWARD,   /* complex to complex */
  WEFT_CUDA_FFT_BACKWARD,  /* the same, not divided by the number of elements */
  WEFT_CUDA_FFT_FROM_REAL, /* real to complex, whose last dimension is n / 2 + 1 */
  WEFT_CUDA_FFT_TO_REAL    /* the way back, not divided; the input is written over */
} weft_cuda_fft_kind_t;

/* `batch` transforms over `rank` dimensions `n`, one behind the other, all dense. */
typedef struct weft_cuda_fft {
  weft_cuda_fft_kind_t kind;
  bool is_double;
  int rank;     /* 1, 2 or 3 */
  int64_t n[3]; /* rank of them, of the real numbers; none is 0 */
  int64_t batch;
} weft_cuda_fft_t;

/* Enqueues it on the context's compute queue. Errors: UNAVAILABLE where there is no cuFFT; UNIMPLEMENTED for
 * sizes that it cannot transform; RESOURCE_EXHAUSTED, also for more than 4096 different transforms; INTERNAL,
 * the library's. Thread-safe. */
WEFT_Failure *weft_cuda_fft(WEFT_KernelContext *c, const weft_cuda_fft_t *p, void *x, void *y);

#endif /* WEFT_DEVICE_CUDA_FFT_H_ */
