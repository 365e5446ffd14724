/* kernels/cpu/fft/transform.c - see fft.h. */
#include <fftw3.h>
#include <pthread.h>

#include "kernels/cpu/fft/fft.h"

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

#define REAL float
#define FFTW(name) fftwf_##name
#define FN(name) name##_f32
#include "kernels/cpu/fft/fft_one.tmpl.h"
#undef REAL
#undef FFTW
#undef FN
#define REAL double
#define FFTW(name) fftw_##name
#define FN(name) name##_f64
#include "kernels/cpu/fft/fft_one.tmpl.h"
