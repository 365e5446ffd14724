/* kernels/cuda/fft.cu - what stands beside a Fourier transform. */
#include "kernels/cuda/numbers.cuh"

namespace weft {

template <class T>
WEFT_FN void scale(T *y, int64_t n, double by) {
  const T factor = (T)by;
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] *= factor;
}

}  // namespace weft

using namespace weft;

#define SCALE(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (type * y, int64_t n, double by)) { scale(y, n, by); }
SCALE(fft_scale, f32)
SCALE(fft_scale, f64)
