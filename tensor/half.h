/* tensor/half.h - half and bfloat16 to float and back, round to nearest even.
 *
 * Inline and without branches, so that loops over them are vectorised.
 */
#ifndef WEFT_TENSOR_HALF_H_
#define WEFT_TENSOR_HALF_H_

#include <stdint.h>

static inline float weft_bits_to_float(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } v = {bits};
  return v.value;
}
static inline uint32_t weft_float_to_bits(float value) {
  union {
    float value;
    uint32_t bits;
  } v = {value};
  return v.bits;
}

static inline float weft_f16_to_f32(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  const float small = (float)(int32_t)rest * 5.9604644775390625e-8f; /* 2^-24: exact for subnormals */
  const uint32_t normal = (rest << 13) + 0x38000000u, special = (rest << 13) | 0x7f800000u;
  const uint32_t bits = rest < 0x0400u ? weft_float_to_bits(small) : rest < 0x7c00u ? normal : special;
  return weft_bits_to_float(bits | sign);
}

static inline uint16_t weft_f32_to_f16(float f) {
  const uint32_t u = weft_float_to_bits(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  const uint32_t normal = (rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  /* Adding 0.5 puts the lowest bit of a subnormal half at the lowest bit of the float: the adder rounds. */
  const uint32_t small = weft_float_to_bits(weft_bits_to_float(rest) + 0.5f) - 0x3f000000u;
  const uint32_t huge = rest > 0x7f800000u ? 0x7e00u : 0x7c00u; /* NaN; infinity */
  return (uint16_t)(sign | (rest >= 0x47800000u ? huge : rest < 0x38800000u ? small : normal));
}

static inline float weft_bf16_to_f32(uint16_t b) { return weft_bits_to_float((uint32_t)b << 16); }

static inline uint16_t weft_f32_to_bf16(float f) {
  const uint32_t u = weft_float_to_bits(f), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = ((u >> 16) & 0x8000u) | 0x7fc0u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

#endif /* WEFT_TENSOR_HALF_H_ */
