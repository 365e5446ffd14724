/* kernels/formulas/pixel.h - positions as indices of pixels, and what stands for a place outside of an image,
 * for C and for CUDA's C++.
 *
 * The includer has <stdint.h> and gives, before this header, WEFT_FORMULA: how a function is declared.
 */
#ifndef WEFT_KERNELS_FORMULAS_PIXEL_H_
#define WEFT_KERNELS_FORMULAS_PIXEL_H_

/* A position as an index; the lowest one for NaN and for what no index can hold. */
WEFT_FORMULA int64_t weft_pixel_index(float at) {
  return at >= -9223372036854775808.0F && at < 9223372036854775808.0F ? (int64_t)at : INT64_MIN;
}

/* n times how often `size` goes into `at`, as a float; whatever it is for places that no index can hold. */
WEFT_FORMULA float weft_whole_turns(float at, int64_t size, int64_t n, int64_t more) {
  return (float)(int64_t)((uint64_t)n * ((uint64_t)weft_pixel_index(at / (float)size) + (uint64_t)more));
}

WEFT_FORMULA float weft_reflected(float at, int64_t n) {
  if (n <= 1) return at < 0 || at > (float)(n - 1) ? 0 : at;
  if (at < 0) {
    if (at < (float)(2 * n)) at = weft_whole_turns(-at, 2 * n, 2 * n, 0) + at;
    return at < (float)-n ? at + (float)(2 * n) : -at - 1;
  }
  if (!(at > (float)(n - 1))) return at;
  at -= weft_whole_turns(at, 2 * n, 2 * n, 0);
  return at >= (float)n ? (float)(2 * n) - at - 1 : at;
}

WEFT_FORMULA float weft_wrapped(float at, int64_t n) {
  if (n <= 1) return at < 0 || at > (float)(n - 1) ? 0 : at;
  if (at < 0) return at + weft_whole_turns(-at, n - 1, n, 1);
  return at > (float)(n - 1) ? at - weft_whole_turns(at, n - 1, n, 0) : at;
}

/* What lies outside of an image of length n: [dcba|abcd|dcba], [abcd|abcd|abcd], a fixed value,
 * [aaaa|abcd|dddd]. */
enum { WEFT_FILL_REFLECT, WEFT_FILL_WRAP, WEFT_FILL_CONSTANT, WEFT_FILL_NEAREST };

/* A place along a dimension of length n, brought inside as the mode says; a constant fill leaves it outside.
 */
WEFT_FORMULA float weft_filled_place(int mode, float at, int64_t n) {
  if (mode == WEFT_FILL_CONSTANT) return at;
  if (mode == WEFT_FILL_REFLECT) at = weft_reflected(at, n);
  if (mode == WEFT_FILL_WRAP) at = weft_wrapped(at, n);
  const float lifted = at < 0 ? 0 : at, last = (float)(n - 1);
  return last < lifted ? last : lifted;
}

#endif /* WEFT_KERNELS_FORMULAS_PIXEL_H_ */
