/* kernels/cpu/audio/fixed_fft.h - the Fourier transform of real 16-bit numbers in 16-bit arithmetic. */
#ifndef WEFT_KERNELS_CPU_AUDIO_FIXED_FFT_H_
#define WEFT_KERNELS_CPU_AUDIO_FIXED_FFT_H_

#include "base/status.h"

#include <stdint.h>

typedef struct weft_fixed_complex {
  int16_t re, im;
} weft_fixed_complex_t;

typedef struct weft_fixed_fft {
  int64_t half;                /* of the transform's length */
  weft_fixed_complex_t *turns; /* owned, and the next two are in it; half: roots of one of order `half` */
  weft_fixed_complex_t *half_turns; /* half / 2: those that take the two halves of the input apart */
  weft_fixed_complex_t *work;       /* half */
} weft_fixed_fft_t;

/* `length`: a power of two, >= 2. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_fixed_fft_init(weft_fixed_fft_t *t, int64_t length);
void weft_fixed_fft_deinit(weft_fixed_fft_t *t);
/* out: length / 2 + 1 numbers, the transform divided by the length; every step rounds as Kiss FFT 131 with
 * FIXED_POINT 16 does. */
void weft_fixed_fft_real(weft_fixed_fft_t *t, const int16_t *in, weft_fixed_complex_t *out);

#endif /* WEFT_KERNELS_CPU_AUDIO_FIXED_FFT_H_ */
