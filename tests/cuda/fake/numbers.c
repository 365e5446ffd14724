/* tests/cuda/fake/numbers.c - see the header. */
#include "tests/cuda/fake/numbers.h"

#include <string.h>

size_t fake_size(fake_number_t type) { return type == FAKE_F64 ? 8 : type == FAKE_F32 ? 4 : 2; }

static float from_half(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  float f;
  uint32_t bits =
      exponent == 31 ? sign | 0x7f800000 | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * (float)fraction / 16777216.0f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* To the nearest, ties to even. */
static uint16_t to_half(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more are infinite */
  if (rest < 0x38800000) {                                  /* subnormal: whole multiples of 2^-24 */
    float magnitude;
    memcpy(&magnitude, &rest, sizeof magnitude);
    const float scaled = magnitude * 16777216.0f;
    uint32_t whole = (uint32_t)scaled;
    const float left = scaled - (float)whole;
    if (left > 0.5f || (left == 0.5f && (whole & 1) != 0)) whole++;
    return (uint16_t)(sign | whole);
  }
  const uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
  return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

double fake_load(fake_number_t type, const char *p, int64_t i) {
  if (type == FAKE_F64) return ((const double *)(const void *)p)[i];
  if (type == FAKE_F32) return ((const float *)(const void *)p)[i];
  const uint16_t h = ((const uint16_t *)(const void *)p)[i];
  if (type == FAKE_F16) return from_half(h);
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

void fake_store(fake_number_t type, char *p, int64_t i, double value) {
  if (type == FAKE_F64) {
    ((double *)(void *)p)[i] = value;
  } else if (type == FAKE_F32) {
    ((float *)(void *)p)[i] = (float)value;
  } else if (type == FAKE_F16) {
    ((uint16_t *)(void *)p)[i] = to_half((float)value);
  } else {
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    ((uint16_t *)(void *)p)[i] = (uint16_t)(bits >> 16);
  }
}
