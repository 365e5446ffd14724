/* kernels/cpu/fft/transform.c - see fft.h.
 *
 * FFTW's planner is not thread-safe: `planner` is held while it makes or destroys plans, and while nothing
 * else is. */
#include <fftw3.h>

#include "base/mutex.h"
#include "kernels/cpu/fft/fft.h"

static weft_mutex_t planner = WEFT_MUTEX_INITIALIZER;

int64_t weft_fft_used(weft_fft_kind_t kind, int64_t length) {
  return kind == WEFT_FFT_TO_REAL ? length / 2 + 1 : length;
}
int64_t weft_fft_made(weft_fft_kind_t kind, int64_t length) {
  return kind == WEFT_FFT_FROM_REAL && length != 0 ? length / 2 + 1 : length;
}

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

weft_fft_plans_t *weft_fft_plans_new(const weft_fft_plans_t *like) {
  weft_fft_plans_t *p = weft_malloc(sizeof *p);
  if (p == NULL) return NULL;
  *p = *like;
  p->plan[0] = p->plan[1] = NULL;
  atomic_init(&p->refs, 1);
  if (p->is_single ? make_plans_f32(p) : make_plans_f64(p)) return p;
  weft_fft_plans_release(p);
  return NULL;
}

void weft_fft_plans_release(weft_fft_plans_t *p) {
  if (p == NULL || atomic_fetch_sub(&p->refs, 1) != 1) return;
  weft_mutex_lock(&planner);
  for (int i = 0; i < 2; i++) {
    if (p->plan[i] == NULL) continue;
    if (p->is_single) {
      fftwf_destroy_plan((fftwf_plan)p->plan[i]);
    } else {
      fftw_destroy_plan((fftw_plan)p->plan[i]);
    }
  }
  weft_mutex_unlock(&planner);
  weft_free(p);
}
