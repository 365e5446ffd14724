/* kernels/cpu/fft/fft.h - one Fourier transform of one to three dimensions, by FFTW in single or double
 * precision. */
#ifndef WEFT_KERNELS_CPU_FFT_FFT_H_
#define WEFT_KERNELS_CPU_FFT_FFT_H_

#include "kernels/cpu/loops/common.h"

typedef enum weft_fft_kind { WEFT_FFT_COMPLEX, WEFT_FFT_FROM_REAL, WEFT_FFT_TO_REAL } weft_fft_kind_t;

typedef struct weft_fft_job {
  weft_fft_kind_t kind;
  bool forward;
  int rank;
  int64_t lengths[3];              /* of the transform */
  int64_t from[3], used[3], to[3]; /* dims of the input, of its first elements that are used, of the output */
  int64_t from_count, used_count, to_count; /* elements of one transform */
  const void *x;
  void *y;
  void *plan[2]; /* the second of WEFT_FFT_TO_REAL, along the last dimension */
  bool failed;   /* no memory in some thread */
} weft_fft_job_t;

/* Makes the plans (under a lock: FFTW's planner is not thread-safe). False: no memory. */
bool weft_fft_plan_f32(weft_fft_job_t *j);
bool weft_fft_plan_f64(weft_fft_job_t *j);
void weft_fft_unplan_f32(weft_fft_job_t *j);
void weft_fft_unplan_f64(weft_fft_job_t *j);
/* Transforms number begin..end of the batch. weft_range_fn; the argument is a weft_fft_job_t. Thread-safe. */
void weft_fft_run_f32(void *job, int64_t begin, int64_t end);
void weft_fft_run_f64(void *job, int64_t begin, int64_t end);

#endif /* WEFT_KERNELS_CPU_FFT_FFT_H_ */
