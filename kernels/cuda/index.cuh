/* kernels/cuda/index.cuh - indices of several types. */
#ifndef WEFT_KERNELS_CUDA_INDEX_CUH_
#define WEFT_KERNELS_CUDA_INDEX_CUH_

#include "kernels/cuda/kernel.cuh"

namespace weft {

WEFT_FN int64_t index_at(const void *indices, int bytes, int64_t i) {
  return bytes == 8   ? ((const int64_t *)indices)[i]
         : bytes == 4 ? ((const int32_t *)indices)[i]
                      : (int64_t)((const uint8_t *)indices)[i];
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_INDEX_CUH_ */
