/* kernels/cpu/tile/depth.c - see the header. */
#include "kernels/cpu/tile/depth.h"

#include "kernels/cpu/tile/vector.h"

enum {
  DEPTH_PIXELS = 6,       /* that are computed at once, for two vectors of channels */
  DEPTH_MOST_VECTORS = 4, /* of channels, for one pixel */
  DEPTH_SUMS = 2 * DEPTH_PIXELS,
  DEPTH_TAPS = 5, /* that are summed at once */
};

#define ELEM float
#define SUFFIX _f32
#include "kernels/cpu/tile/depth_one.tmpl.h"
#define ELEM double
#define SUFFIX _f64
#include "kernels/cpu/tile/depth_one.tmpl.h"

void weft_depth_run(weft_dtype_t dtype, const weft_depth_t *t, int64_t n, void *y) {
  if (dtype == WEFT_F32) {
    depth_run_f32(t, n, y);
  } else {
    depth_run_f64(t, n, y);
  }
}

void weft_depth_sum(weft_dtype_t dtype, const weft_depth_sum_t *t, int64_t n, void *df) {
  if (dtype == WEFT_F32) {
    depth_sum_f32(t, n, df);
  } else {
    depth_sum_f64(t, n, df);
  }
}
