/* kernels/cpu/tile/tile.c - see the header. */
#include "kernels/cpu/tile/tile.h"

#define ELEM float
#define SUFFIX _f32
#define HAS_EPILOGUE 1
#include "kernels/cpu/tile/tile_one.tmpl.h"
#define ELEM double
#define SUFFIX _f64
#define HAS_EPILOGUE 0
#include "kernels/cpu/tile/tile_one.tmpl.h"

void weft_tile_run(weft_dtype_t dtype, const weft_tile_t *t, int64_t m, int64_t n, void *c) {
  if (dtype == WEFT_F32) {
    tile_run_f32(t, m, n, c);
  } else {
    tile_run_f64(t, m, n, c);
  }
}
