/* device/cuda/launch.h - what a kernel's compute() enqueues on its device.
 *
 * All of it goes on the context's compute queue, in the order of the calls, and none of it waits or
 * allocates. A kernel of the device is named by a weft_cuda_function_t, which stands beside the rows as a
 * constant table; it is looked up in the library's modules at its first launch on a device.
 */
#ifndef WEFT_DEVICE_CUDA_LAUNCH_H_
#define WEFT_DEVICE_CUDA_LAUNCH_H_

#include <stddef.h>

#include "weft/device.h"

enum { WEFT_CUDA_MAX_DEVICES = 16 }; /* physical ones that a process uses */

/* A kernel of the device, by the name that its source has. Thread-safe. */
typedef struct weft_cuda_function {
  const char *name;
  void *slots[WEFT_CUDA_MAX_DEVICES]; /* module.c's, atomic: the driver's function for each physical device */
} weft_cuda_function_t;
#define WEFT_CUDA_FUNCTION(kernel_name) \
  { .name = (kernel_name) }

typedef struct weft_cuda_geometry {
  unsigned grid[3], block[3]; /* none is 0: a kernel that has nothing to do is not launched */
  unsigned shared_bytes;      /* dynamic; above 48 KiB the function is given leave for it first */
} weft_cuda_geometry_t;

/* Enqueues a kernel. `args` are pointers to the values of its parameters, as cuLaunchKernel's; they are
 * copied before it returns. Errors: INTERNAL and UNAVAILABLE, of the driver; NOT_FOUND where no module has
 * the kernel. */
WEFT_Failure *weft_cuda_launch(WEFT_KernelContext *c, weft_cuda_function_t *f, const weft_cuda_geometry_t *g,
                               void **args);

/* Enqueues writing `bytes` bytes of the value `byte`. */
WEFT_Failure *weft_cuda_fill(WEFT_KernelContext *c, void *to, int byte, size_t bytes);

/* Enqueues a copy to the device's memory. `from` is memory of the device, or of the host: those bytes are
 * copied before it returns, so they should be few. */
WEFT_Failure *weft_cuda_copy(WEFT_KernelContext *c, void *to, const void *from, size_t bytes);

/* Enqueues a copy from the device's memory to that of the context's host_scratch(). */
WEFT_Failure *weft_cuda_read(WEFT_KernelContext *c, void *to, const void *from, size_t bytes);

/* Multiprocessors of the device, for the sizes of grids. */
int weft_cuda_num_processors(WEFT_KernelContext *c);

/* Bytes of the cache that all multiprocessors share (the second level). */
size_t weft_cuda_cache_bytes(WEFT_KernelContext *c);

/* What Weft gave to the library when it opened it. Set once, before anything else is called. */
extern const WEFT_DeviceHost *weft_cuda_host;

#endif /* WEFT_DEVICE_CUDA_LAUNCH_H_ */
