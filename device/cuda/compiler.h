/* device/cuda/compiler.h - kernels whose source is known only at run time: NVRTC, and a cache on disk.
 *
 * NVRTC is opened when it is first asked for: WEFT_NVRTC, or the toolkit's libnvrtc. What it makes is kept in
 * WEFT_CACHE_DIR ("": nowhere), else in weft/ of XDG_CACHE_HOME or of ~/.cache: a file for each source,
 * architecture and version of NVRTC, with the source in it. A file that is damaged is made anew.
 */
#ifndef WEFT_DEVICE_CUDA_COMPILER_H_
#define WEFT_DEVICE_CUDA_COMPILER_H_

#include <stdbool.h>

#include "device/cuda/launch.h"

/* A file that sources may include. Constant; a list ends with one that has no name. */
typedef struct weft_cuda_header {
  const char *name; /* as in #include "name" */
  const char *text;
} weft_cuda_header_t;

/* Is there a compiler? Opens it at the first call. Thread-safe. */
bool weft_cuda_can_compile(void);

/* Sees to it that the device has the kernel f->name, which `source` defines. Takes tenths of a second where
 * neither the device nor the cache has it. Thread-safe. Errors: UNAVAILABLE: no NVRTC; INTERNAL with what it
 * says of the source; the driver's. */
WEFT_Failure *weft_cuda_compile(void *device, weft_cuda_function_t *f, const char *source,
                                const weft_cuda_header_t *headers);

#endif /* WEFT_DEVICE_CUDA_COMPILER_H_ */
