/* device/cuda/module.h - the compiled kernels that are embedded in the library, on one device. */
#ifndef WEFT_DEVICE_CUDA_MODULE_H_
#define WEFT_DEVICE_CUDA_MODULE_H_

#include <cuda.h>

#include "device/cuda/launch.h"

/* A family's kernels as nvcc -fatbin writes them. Constant. A list ends with one that has no name. */
typedef struct weft_cuda_fatbin {
  const char *family;
  const unsigned char *bytes;
} weft_cuda_fatbin_t;

/* What every device loads. Set once, by library.c. */
extern const weft_cuda_fatbin_t *weft_cuda_fatbins;

typedef struct weft_cuda_modules weft_cuda_modules_t; /* Thread-safe. */

/* `slot` is the device's place in weft_cuda_function_t. NULL: no memory. Nothing is loaded yet. */
weft_cuda_modules_t *weft_cuda_modules_create(int slot);
/* Unloads them. Their context is current. NULL is fine. */
void weft_cuda_modules_destroy(weft_cuda_modules_t *m);

/* The driver's function. The first call loads all modules into the current context. Errors: NOT_FOUND, the
 * driver's. */
WEFT_Failure *weft_cuda_modules_find(weft_cuda_modules_t *m, weft_cuda_function_t *f, CUfunction *out);

/* Loads the kernels of `image`, a cubin or PTX, which may go afterwards, into the current context; `what` is
 * for messages. Errors: RESOURCE_EXHAUSTED, the driver's. */
WEFT_Failure *weft_cuda_modules_add(weft_cuda_modules_t *m, const char *what, const void *image);

#endif /* WEFT_DEVICE_CUDA_MODULE_H_ */
