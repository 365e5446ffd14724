/* kernels/cuda/hinted_matmul.cu - SparseMatMul: a product of dense matrices of float or bfloat16, summed in
 * float in the order of k, in tiles that a block keeps in shared memory.
 *
 * Zeros of the operand that is said to have many give nothing, also where they meet an infinity or a NaN.
 */
#include "kernels/cuda/hinted_matmul_args.h"
#include "kernels/cuda/numbers.cuh"

namespace weft {

template <class A, class B>
WEFT_FN void hinted(const A *a, const B *b, float *out, const weft_cuda_hinted_t &p) {
  const int TILE = WEFT_CUDA_HINTED_TILE;
  WEFT_CUDA_SHARED(float, left, TILE *TILE);
  WEFT_CUDA_SHARED(float, right, TILE *TILE);
  const int64_t rows = (p.m + TILE - 1) / TILE, columns = (p.n + TILE - 1) / TILE;
  const int r = (int)threadIdx.x / TILE, c = (int)threadIdx.x % TILE;
  for (int64_t tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
    const int64_t i = tile / columns * TILE + r, j = tile % columns * TILE + c;
    float sum = 0;
    for (int64_t first = 0; first < p.k; first += TILE) {
      const int64_t of_a = first + c, of_b = first + r;
      left[threadIdx.x] = i < p.m && of_a < p.k ? (float)load(a[i * p.a_row + of_a * p.a_column]) : 0;
      right[threadIdx.x] = j < p.n && of_b < p.k ? (float)load(b[of_b * p.b_row + j * p.b_column]) : 0;
      __syncthreads();
      const int64_t end = p.k - first < TILE ? p.k - first : TILE;
      for (int64_t k = 0; k < end; k++) {
        const float x = left[r * TILE + k], y = right[k * TILE + c];
        const bool is_skipped = (p.skips_a != 0 && x == 0) || (p.skips_b != 0 && y == 0);
        if (!is_skipped) sum += x * y;
      }
      __syncthreads();
    }
    if (i < p.m && j < p.n) out[i * p.n + j] = sum;
  }
}

}  // namespace weft

#define HINTED(ta, tb)                                                                               \
  WEFT_CUDA_BLOCK_KERNEL(weft_hinted_##ta##_##tb,                                                    \
                         (const weft::ta *a, const weft::tb *b, float *out, weft_cuda_hinted_t p)) { \
    weft::hinted(a, b, out, p);                                                                      \
  }
HINTED(f32, f32)
HINTED(f32, bf16)
HINTED(bf16, f32)
HINTED(bf16, bf16)
