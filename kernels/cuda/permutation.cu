/* kernels/cuda/permutation.cu - the inverse of a permutation, and the first element that keeps it from being
 * one.
 *
 * Of elements with the same value the one in front is in its place; all others are wrong, as those that are
 * out of range. So what is reported is what a walk from the first to the last element would find.
 */
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/numbers.cuh"

using namespace weft;

/* y[v], which is n or more at first: the first element with the value v. */
WEFT_CUDA_KERNEL(weft_permutation_place, (const int64_t *x, int64_t n, unsigned long long *y)) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    if (x[i] >= 0 && x[i] < n) atomicMin(&y[x[i]], (unsigned long long)i);
  }
}

/* wrong[0], which is n or more at first: the first element that is not in its place. */
WEFT_CUDA_KERNEL(weft_permutation_check,
                 (const int64_t *x, int64_t n, const unsigned long long *y, unsigned long long *wrong)) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    if (x[i] < 0 || x[i] >= n || y[x[i]] != (unsigned long long)i)
      atomicMin(&wrong[0], (unsigned long long)i);
  }
}

/* wrong[1]: its value. One thread. */
WEFT_CUDA_KERNEL(weft_permutation_blame, (const int64_t *x, int64_t n, unsigned long long *wrong)) {
  if (first_index() == 0 && wrong[0] < (unsigned long long)n) wrong[1] = (unsigned long long)x[wrong[0]];
}
