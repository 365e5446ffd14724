/* collectives/negotiated/adasum.c - one pair. */
#include "collectives/negotiated/adasum.h"

static double get(weft_dtype_t dtype, const void *data, int64_t i) {
  switch (dtype) {
    case WEFT_F64: return ((const double *)data)[i];
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)data)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)data)[i]);
    default: return (double)((const float *)data)[i];
  }
}

static void put(weft_dtype_t dtype, void *data, int64_t i, double x) {
  switch (dtype) {
    case WEFT_F64: ((double *)data)[i] = x; break;
    case WEFT_F16: ((uint16_t *)data)[i] = weft_f32_to_f16((float)x); break;
    case WEFT_BF16: ((uint16_t *)data)[i] = weft_f32_to_bf16((float)x); break;
    default: ((float *)data)[i] = (float)x; break;
  }
}

void weft_adasum_pair(weft_dtype_t dtype, void *a, const void *b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = get(dtype, a, i), y = get(dtype, b, i);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  /* a vector of zeros says nothing about direction */
  double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa), of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  for (int64_t i = 0; i < n; i++) put(dtype, a, i, of_a * get(dtype, a, i) + of_b * get(dtype, b, i));
}
