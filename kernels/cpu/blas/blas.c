/* kernels/cpu/blas/blas.c - see the header. */
#include "kernels/cpu/blas/blas.h"

#include <cblas.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS's own choice of kernels (driver/others/dynamic.c). Weak: another build of it may not have them. */
void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));

/* OpenBLAS knows processors by their model number, and takes kernels for SSE3 for a model that is younger
   than itself. Instructions that the processor has are the better evidence. */
static void choose_blas_kernels(void) {
#if defined(__x86_64__)
  const char *better = NULL;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    better = "SkylakeX";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    better = "Haswell";
  }
  if (better == NULL || gotoblas_dynamic_quit == NULL || gotoblas_dynamic_init == NULL) return;
  if (strcmp(openblas_get_corename(), "Prescott") != 0 || setenv("OPENBLAS_CORETYPE", better, 0) != 0) return;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
#endif
}

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static void blas_init(void) {
  choose_blas_kernels();
  openblas_set_num_threads(1);
}

void weft_blas_init(void) { (void)pthread_once(&blas_once, blas_init); }
