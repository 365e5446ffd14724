/* kernels/cpu/fft/fft.h - one Fourier transform of one to three dimensions, by FFTW in single or double
 * precision. */
#ifndef WEFT_KERNELS_CPU_FFT_FFT_H_
#define WEFT_KERNELS_CPU_FFT_FFT_H_

#include "kernels/cpu/loops/common.h"

typedef enum weft_fft_kind { WEFT_FFT_COMPLEX, WEFT_FFT_FROM_REAL, WEFT_FFT_TO_REAL } weft_fft_kind_t;

/* FFTW's plans of a transform. Thread-safe once made: a plan is executed by any number of threads.
 * Refcounted. */
typedef struct weft_fft_plans {
  atomic_int refs;
  bool is_single; /* precision */
  weft_fft_kind_t kind;
  bool forward;
  int rank;
  int64_t lengths[3]; /* of the transform */
  void *plan[2];      /* the second of WEFT_FFT_TO_REAL, along the last dimension */
} weft_fft_plans_t;

enum { WEFT_FFT_ALIGNMENT = 64 /* bytes; of arrays that plans are made for */ };

typedef struct weft_fft_job {
  const weft_fft_plans_t *plans;   /* borrowed */
  int64_t from[3], used[3], to[3]; /* dims of the input, of its first elements that are used, of the output */
  int64_t from_count, used_count, to_count; /* elements of one transform */
  const void *x;
  void *y;
  atomic_bool failed; /* no memory in some thread */
} weft_fft_job_t;

/* Elements of the last dimension that a transform reads and writes. */
int64_t weft_fft_used(weft_fft_kind_t kind, int64_t length);
int64_t weft_fft_made(weft_fft_kind_t kind, int64_t length);
/* Plans of what the first fields of `like` say; the caller owns a reference. NULL: no memory. Takes some
 * microseconds, of a length that the process has not met a millisecond. Thread-safe. */
weft_fft_plans_t *weft_fft_plans_new(const weft_fft_plans_t *like);
/* Gives a reference back; NULL: nothing. Thread-safe. */
void weft_fft_plans_release(weft_fft_plans_t *p);
/* Transforms number begin..end of the batch. weft_range_fn; the argument is a weft_fft_job_t. Thread-safe. */
void weft_fft_run_f32(void *job, int64_t begin, int64_t end);
void weft_fft_run_f64(void *job, int64_t begin, int64_t end);

#endif /* WEFT_KERNELS_CPU_FFT_FFT_H_ */
