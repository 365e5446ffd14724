/* kernels/cuda/random.cu - random numbers by Philox4x32-10: those of the CPU's kernels (kernels/cpu/random).
 *
 * A thread makes a group at a time: what one block of four words gives, four elements of up to 32 bits or two
 * of 64. A group of a truncated normal begins at a block of its own.
 */
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/types.h"

namespace weft {

enum { WEFT_CUDA_UNIFORM, WEFT_CUDA_NORMAL, WEFT_CUDA_TRUNCATED }; /* as in random.c */

/* As many numbers of [0, 1) as a block gives; half and bfloat16 take as many low bits as they have mantissa.
 */
WEFT_FN void uniform(const uint32_t (&x)[4], f32 *to) {
  for (int i = 0; i < 4; i++) to[i] = uniform_float(x[i]);
}
WEFT_FN void uniform(const uint32_t (&x)[4], f16 *to) {
  for (int i = 0; i < 4; i++) store(&to[i], (float)(x[i] & 0x3ffu) / 1024.0f);
}
WEFT_FN void uniform(const uint32_t (&x)[4], bf16 *to) {
  for (int i = 0; i < 4; i++) store(&to[i], (float)(x[i] & 0x7fu) / 128.0f);
}
WEFT_FN void uniform(const uint32_t (&x)[4], f64 *to) {
  for (int i = 0; i < 2; i++) to[i] = uniform_double(x[2 * i], x[2 * i + 1]);
}

template <class T>
WEFT_FN void random_floats(T *y, int64_t count, const philox_at &start, int distribution) {
  const int N = sizeof(T) == 8 ? 2 : 4;
  for (int64_t g = first_index(); g * N < count; g += index_step()) {
    uint32_t x[4];
    T numbers[N];
    comp_t<T> drawn[N];
    philox_at p = start;
    if (distribution == WEFT_CUDA_TRUNCATED) {
      skip(p, (uint64_t)g * N * 64); /* 256 words for each element */
      for (int done = 0; done < N;) {
        next_block(p, x);
        normal(x, drawn);
        for (int i = 0; i < N && done < N; i++) {
          if (fabs(drawn[i]) < 2) store(&numbers[done++], drawn[i]);
        }
      }
    } else {
      skip(p, (uint64_t)g);
      next_block(p, x);
      if (distribution == WEFT_CUDA_UNIFORM) {
        uniform(x, numbers);
      } else {
        normal(x, drawn);
        for (int i = 0; i < N; i++) store(&numbers[i], drawn[i]);
      }
    }
    for (int i = 0; i < N && g * N + i < count; i++) y[g * N + i] = numbers[i];
  }
}

/* range 0: any number of the type. */
template <class U>
WEFT_FN void random_ints(U *y, int64_t count, const philox_at &start, U low, U range) {
  const int N = sizeof(U) == 8 ? 2 : 4;
  for (int64_t g = first_index(); g * N < count; g += index_step()) {
    uint32_t x[4];
    philox_at p = start;
    skip(p, (uint64_t)g);
    next_block(p, x);
    for (int i = 0; i < N && g * N + i < count; i++) {
      const U word = N == 4 ? (U)x[i] : (U)((uint64_t)x[(2 * i + 1) % 4] << 32 | x[2 * i % 4]);
      y[g * N + i] = range == 0 ? word : low + word % range;
    }
  }
}

}  // namespace weft

using namespace weft;

#define FLOATS(f, type)                                                                             \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (type * y, int64_t count, uint64_t key, uint64_t low_counter, \
                                       uint64_t high_counter, int32_t distribution)) {              \
    random_floats(y, count, generator(key, low_counter, high_counter), distribution);               \
  }
WEFT_CUDA_FLOAT(FLOATS, random)

#define INTS(f, type)                                                                                  \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (u##type * y, int64_t count, uint64_t key, uint64_t low_counter, \
                                       uint64_t high_counter, uint64_t low, uint64_t range)) {         \
    random_ints(y, count, generator(key, low_counter, high_counter), (u##type)low, (u##type)range);    \
  }
#define ui32 u32
#define ui64 u64
WEFT_CUDA_INDEX(INTS, random)
