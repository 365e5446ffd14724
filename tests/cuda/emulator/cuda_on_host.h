/* tests/cuda/emulator/cuda_on_host.h - CUDA's names for a kernel's source that is compiled for the host.
 * Comes before the source. */
#ifndef WEFT_TESTS_CUDA_EMULATOR_CUDA_ON_HOST_H_
#define WEFT_TESTS_CUDA_EMULATOR_CUDA_ON_HOST_H_

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <new>
#include <tuple>
#include <type_traits>

extern "C" {
#include "tensor/half.h"
}
#include "tests/cuda/emulator/emulator.h"

#define WEFT_CUDA_ON_HOST
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((unused))
#define __launch_bounds__(n)
#define __restrict__ __restrict

namespace weft {

struct emulated_dim3 {
  unsigned x, y, z;
};

/* The thread that runs now. */
struct emulated_thread {
  emulated_dim3 thread, block, block_size, grid;
};
extern __thread emulated_thread emulated_now;

void emulated_register(weft_emulated_kernel_t *kernel);
void emulated_syncthreads();
/* The value of thread `from` of the calling thread's warp. All threads of the warp that have not ended call
 * it.
 */
void emulated_shuffle(void *value, size_t bytes, int from);
int emulated_place();
/* Memory of the block, the same for all its threads that name the same site. It is filled with 0xcd when a
 * block begins. */
void *emulated_shared(const void *site, size_t bytes);

static inline float emulated_half_to_float(uint16_t v) { return weft_f16_to_f32(v); }
static inline float emulated_bfloat16_to_float(uint16_t v) { return weft_bf16_to_f32(v); }
static inline uint16_t emulated_float_to_half(float v) { return weft_f32_to_f16(v); }
static inline uint16_t emulated_float_to_bfloat16(float v) { return weft_f32_to_bf16(v); }
static inline uint32_t emulated_bits_of(float v) { return weft_float_to_bits(v); }
static inline float emulated_float_of(uint32_t v) { return weft_bits_to_float(v); }
static inline uint64_t emulated_bits_of_double(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}
static inline double emulated_double_of(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

struct emulated_visitor {
  void *(*to_host)(void *);
  template <class P>
  void operator()(P *&p) const {
    p = (P *)to_host((void *)(uintptr_t)p);
  }
};

/* A kernel's function as an entry of the list. */
template <auto F>
struct emulated;
template <class... A, void (*F)(A...)>
struct emulated<F> {
  typedef std::tuple<A...> closure_t;

  template <class T>
  static void visit(T &v, void *(*to_host)(void *)) {
    if constexpr (std::is_pointer<T>::value) {
      emulated_visitor{to_host}(v);
    } else if constexpr (std::is_class<T>::value) {
      weft_visit_pointers(v, emulated_visitor{to_host});
    }
  }
  template <size_t... I>
  static closure_t copy(void **args, std::index_sequence<I...>) {
    return closure_t(*(A *)args[I]...);
  }
  static void *capture(void **args, void *(*to_host)(void *)) {
    void *memory = malloc(sizeof(closure_t));
    if (memory == nullptr) return nullptr;
    closure_t *c = new (memory) closure_t(copy(args, std::index_sequence_for<A...>()));
    std::apply([&](A &...a) { (visit(a, to_host), ...); }, *c);
    return c;
  }
  static void *copy_closure(const void *closure) {
    void *memory = malloc(sizeof(closure_t));
    return memory == nullptr ? nullptr : new (memory) closure_t(*(const closure_t *)closure);
  }
  static void run(void *closure) { std::apply(F, *(closure_t *)closure); }

  struct entry {
    weft_emulated_kernel_t kernel;
    entry(const char *name, bool waits)
        : kernel{name, (int)sizeof...(A), waits, capture, copy_closure, run, nullptr} {
      emulated_register(&kernel);
    }
  };
};

}  // namespace weft

#define threadIdx (weft::emulated_now.thread)
#define blockIdx (weft::emulated_now.block)
#define blockDim (weft::emulated_now.block_size)
#define gridDim (weft::emulated_now.grid)

#define WEFT_CUDA_EMULATED(name, parameters, waits)                                          \
  static void name parameters;                                                               \
  static weft::emulated<name>::entry name##_entry(#name, waits); /* NOLINT: before main() */ \
  static void name parameters
#define WEFT_CUDA_KERNEL(name, parameters) WEFT_CUDA_EMULATED(name, parameters, false)
#define WEFT_CUDA_BLOCK_KERNEL(name, parameters) WEFT_CUDA_EMULATED(name, parameters, true)
#define WEFT_CUDA_SHARED(type, name, count) \
  static const char name##_site = 0;        \
  type *const name = (type *)weft::emulated_shared(&name##_site, sizeof(type) * (count))

static inline void __syncthreads() { weft::emulated_syncthreads(); }
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int mask) {
  weft::emulated_shuffle(&value, sizeof value, weft::emulated_place() ^ mask);
  return value;
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, int by) {
  weft::emulated_shuffle(&value, sizeof value, weft::emulated_place() + by);
  return value;
}
/* Blocks and threads of a launch run one after the other, and no two launches of a device at once. */
template <class T>
static inline T atomicAdd(T *to, T value) {
  const T old = *to;
  *to = old + value;
  return old;
}
template <class T>
static inline T atomicCAS(T *to, T wanted, T value) {
  const T old = *to;
  if (old == wanted) *to = value;
  return old;
}
template <class T>
static inline T atomicMin(T *to, T value) {
  const T old = *to;
  if (value < old) *to = value;
  return old;
}
template <class T>
static inline T atomicMax(T *to, T value) {
  const T old = *to;
  if (value > old) *to = value;
  return old;
}
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

#endif /* WEFT_TESTS_CUDA_EMULATOR_CUDA_ON_HOST_H_ */
