/* kernels/cuda/philox.cuh - Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), as
 * the CPU's kernels have it (kernels/cpu/random): blocks of four words by counter and key. */
#ifndef WEFT_KERNELS_CUDA_PHILOX_CUH_
#define WEFT_KERNELS_CUDA_PHILOX_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

struct philox_at {
  uint32_t counter[4], key[2];
};

WEFT_FN void skip(philox_at &p, uint64_t n) {
  const uint32_t low = (uint32_t)n;
  uint32_t high = (uint32_t)(n >> 32);
  p.counter[0] += low;
  if (p.counter[0] < low) high++;
  p.counter[1] += high;
  if (p.counter[1] < high && ++p.counter[2] == 0) ++p.counter[3];
}

WEFT_FN void next_block(philox_at &p, uint32_t (&out)[4]) {
  uint32_t c0 = p.counter[0], c1 = p.counter[1], c2 = p.counter[2], c3 = p.counter[3];
  uint32_t k0 = p.key[0], k1 = p.key[1];
  WEFT_UNROLL
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)b;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
  skip(p, 1);
}

WEFT_FN philox_at generator(uint64_t key, uint64_t low, uint64_t high) {
  return philox_at{{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)},
                   {(uint32_t)key, (uint32_t)(key >> 32)}};
}

WEFT_FN float uniform_float(uint32_t word) { return float_of(127u << 23 | (word & 0x7fffffu)) - 1.0f; }
WEFT_FN double uniform_double(uint32_t high, uint32_t low) {
  return double_of((uint64_t)1023 << 52 | (uint64_t)(high & 0xfffffu) << 32 | low) - 1.0;
}

/* Normally distributed numbers (Box and Muller 1958). */
const double two_pi = 2.0 * 3.14159265358979323846;
WEFT_FN void normal(const uint32_t (&x)[4], float (&to)[4]) {
  for (int i = 0; i < 4; i += 2) {
    const float u = uniform_float(x[i]), radius = sqrtf(-2.0f * logf(u < 1.0e-7f ? 1.0e-7f : u));
    const float angle = (float)(two_pi * (double)uniform_float(x[i + 1]));
    to[i] = sinf(angle) * radius;
    to[i + 1] = cosf(angle) * radius;
  }
}
WEFT_FN void normal(const uint32_t (&x)[4], double (&to)[2]) {
  const double u = uniform_double(x[0], x[1]), radius = sqrt(-2.0 * log(u < 1.0e-7 ? 1.0e-7 : u));
  const double angle = two_pi * uniform_double(x[2], x[3]);
  to[0] = sin(angle) * radius;
  to[1] = cos(angle) * radius;
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_PHILOX_CUH_ */
