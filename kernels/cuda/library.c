/* kernels/cuda/library.c - libweft_cuda.so: the CUDA device with the kernels of all families. */
#include "device/cuda/library.h"
#include "kernels/cuda/chain.h"

/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define WEFT_CUDA_ROWS(family) extern const WEFT_DeviceKernel weft_cuda_##family##_kernels[];
#define WEFT_CUDA_FATBIN(family) extern const unsigned char weft_cuda_fatbin_##family[];
#include "kernels/cuda/families.def"
#include "kernels/cuda/libraries.def"
#undef WEFT_CUDA_ROWS
#undef WEFT_CUDA_FATBIN
/* NOLINTEND(bugprone-macro-parentheses) */

static const WEFT_DeviceKernel *const tables[] = {
#define WEFT_CUDA_ROWS(family) weft_cuda_##family##_kernels,
#define WEFT_CUDA_FATBIN(family)
#include "kernels/cuda/families.def"
#include "kernels/cuda/libraries.def"
#undef WEFT_CUDA_ROWS
#undef WEFT_CUDA_FATBIN
    NULL};

static const weft_cuda_fatbin_t fatbins[] = {
#define WEFT_CUDA_ROWS(family)
#define WEFT_CUDA_FATBIN(family) {#family, weft_cuda_fatbin_##family},
#include "kernels/cuda/families.def"
#undef WEFT_CUDA_ROWS
#undef WEFT_CUDA_FATBIN
    {NULL, NULL}};

WEFT_OpenDeviceLibraryFn WEFT_OpenDeviceLibrary;
__attribute__((visibility("default"))) const WEFT_DeviceLibrary *WEFT_OpenDeviceLibrary(
    const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  return weft_cuda_library_open(host, tables, fatbins, weft_cuda_may_link, out_failure);
}
