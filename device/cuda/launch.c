/* device/cuda/launch.c - kernels, fills and copies on the compute queue of a context. */
#include "device/cuda/launch.h"

#include "device/cuda/copies.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"

enum { SHARED_WITHOUT_LEAVE = 48 << 10 }; /* bytes; CUDA C++ Programming Guide, "Shared Memory" of 8.x */

static weft_cuda_device_t *device_of(WEFT_KernelContext *c) { return weft_cuda_host->device(c); }

WEFT_Failure *weft_cuda_launch_on(weft_cuda_device_t *d, const char *what, weft_cuda_function_t *f,
                                  const weft_cuda_geometry_t *g, void **args) {
  weft_cuda_queue_t *q = d->queues[WEFT_QUEUE_COMPUTE];
  WEFT_Failure *failure = weft_cuda_queue_begin(q, f->name);
  if (failure != NULL) return failure;
  CUfunction function;
  failure = weft_cuda_modules_find(d->physical->modules, f, &function);
  if (failure != NULL) return failure;
  weft_cuda_queue_note(q, what);
  CUresult r = CUDA_SUCCESS;
  if (g->shared_bytes > SHARED_WITHOUT_LEAVE) {
    r = weft_cuda_driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            (int)g->shared_bytes);
  }
  if (r == CUDA_SUCCESS) {
    r = weft_cuda_driver.cuLaunchKernel(function, g->grid[0], g->grid[1], g->grid[2], g->block[0],
                                        g->block[1], g->block[2], g->shared_bytes, weft_cuda_queue_stream(q),
                                        args, NULL);
  }
  return weft_cuda_queue_check(q, r, f->name);
}

WEFT_Failure *weft_cuda_launch(WEFT_KernelContext *c, weft_cuda_function_t *f, const weft_cuda_geometry_t *g,
                               void **args) {
  return weft_cuda_launch_on(device_of(c), weft_cuda_host->node_name(c), f, g, args);
}

WEFT_Failure *weft_cuda_fill(WEFT_KernelContext *c, void *to, int byte, size_t bytes) {
  if (bytes == 0) return NULL;
  weft_cuda_queue_t *q = device_of(c)->queues[WEFT_QUEUE_COMPUTE];
  WEFT_Failure *failure = weft_cuda_queue_begin(q, "a fill");
  if (failure != NULL) return failure;
  const CUresult r = weft_cuda_driver.cuMemsetD8Async((CUdeviceptr)(uintptr_t)to, (unsigned char)byte, bytes,
                                                      weft_cuda_queue_stream(q));
  return weft_cuda_queue_check(q, r, "a fill");
}

WEFT_Failure *weft_cuda_copy(WEFT_KernelContext *c, void *to, const void *from, size_t bytes) {
  const weft_cuda_device_t *d = device_of(c);
  weft_cuda_queue_t *q = d->queues[WEFT_QUEUE_COMPUTE];
  if (!weft_cuda_arena_has(d->arena, from)) return weft_cuda_copy_in_now(q, from, to, bytes);
  return weft_cuda_copy_across(q, d->physical->context, from, d->physical->context, to, bytes);
}

WEFT_Failure *weft_cuda_read(WEFT_KernelContext *c, void *to, const void *from, size_t bytes) {
  if (bytes == 0) return NULL;
  weft_cuda_queue_t *q = device_of(c)->queues[WEFT_QUEUE_COMPUTE];
  WEFT_Failure *failure = weft_cuda_queue_begin(q, "a copy to the host");
  if (failure != NULL) return failure;
  const CUresult r = weft_cuda_driver.cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                    bytes, weft_cuda_queue_stream(q));
  return weft_cuda_queue_check(q, r, "a copy to the host");
}

size_t weft_cuda_cache_bytes(WEFT_KernelContext *c) { return (size_t)device_of(c)->physical->cache_bytes; }
int weft_cuda_num_processors(WEFT_KernelContext *c) { return device_of(c)->physical->num_processors; }
