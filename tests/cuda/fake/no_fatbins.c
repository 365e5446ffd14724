/* tests/cuda/fake/no_fatbins.c - in place of the compiled kernels, which the fake driver does not look into.
 */
#define WEFT_CUDA_ROWS(family)
#define WEFT_CUDA_FATBIN(family)                          \
  extern const unsigned char weft_cuda_fatbin_##family[]; \
  const unsigned char weft_cuda_fatbin_##family[8] = {0};
#include "kernels/cuda/families.def"
