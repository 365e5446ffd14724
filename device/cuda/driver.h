/* device/cuda/driver.h - NVIDIA's driver, opened at run time, and its errors as failures.
 *
 * Nothing of CUDA is linked: libcuda.so.1 comes with the driver of the machine, and a machine without one
 * loses the device and nothing else. WEFT_CUDA_DRIVER names another library to open in its place.
 */
#ifndef WEFT_DEVICE_CUDA_DRIVER_H_
#define WEFT_DEVICE_CUDA_DRIVER_H_

#include <cuda.h>
#include <stdbool.h>

#include "base/status.h"
#include "weft/device.h"

/* The driver's functions, under its own names: weft_cuda_driver.cuMemAlloc(...). All NULL until
 * weft_cuda_driver_open() has succeeded, and constant from then on. */
typedef struct weft_cuda_driver {
#define WEFT_CUDA_CALL(name) __typeof__(name) *name;
#include "device/cuda/driver.def"
#undef WEFT_CUDA_CALL
} weft_cuda_driver_t;
extern weft_cuda_driver_t weft_cuda_driver;

/* Opens and initialises the driver; after the first call gives the same answer. Thread-safe. Errors:
 * UNAVAILABLE, with what is missing and what to do. */
WEFT_MUST_CHECK WEFT_Failure *weft_cuda_driver_open(void);

/* A failure of a call: "CUDA error: <what>: CUDA_ERROR_NAME: text". RESOURCE_EXHAUSTED for memory,
 * UNAVAILABLE where the device or its driver is gone, else INTERNAL. NULL if r is CUDA_SUCCESS. */
WEFT_MUST_CHECK WEFT_Failure *weft_cuda_failure(CUresult r, const char *what, ...) WEFT_PRINTF(2, 3);
const char *weft_cuda_error_name(CUresult r); /* "CUDA_ERROR_INVALID_VALUE"; static */
const char *weft_cuda_error_text(CUresult r);
/* Is the context lost with it, so that no later call in it can succeed? */
bool weft_cuda_is_fatal(CUresult r);

#endif /* WEFT_DEVICE_CUDA_DRIVER_H_ */
