/* device/cuda/library.c - puts the device and the tables of kernels together. */
#include "device/cuda/library.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "device/cuda/device.h"
#include "device/cuda/launch.h"

/* All tables as one. NULL: no memory. */
static WEFT_DeviceKernel *join(const WEFT_DeviceKernel *const *tables) {
  size_t num = 0, at = 0;
  for (int t = 0; tables[t] != NULL; t++) {
    for (const WEFT_DeviceKernel *k = tables[t]; k->op != NULL; k++) num++;
  }
  WEFT_DeviceKernel *all = weft_calloc(num + 1, sizeof *all);
  for (int t = 0; all != NULL && tables[t] != NULL; t++) {
    for (const WEFT_DeviceKernel *k = tables[t]; k->op != NULL; k++) all[at++] = *k;
  }
  return all;
}

/* The type of device, which records unless WEFT_CUDA_GRAPHS is 0. */
static const WEFT_DeviceType *device_type(void) {
  static WEFT_DeviceType type;
  const char *graphs = getenv("WEFT_CUDA_GRAPHS");
  if (graphs == NULL || strcmp(graphs, "0") != 0) return &weft_cuda_device_type;
  type = weft_cuda_device_type;
  type.capture_begin = NULL;
  type.capture_end = NULL;
  type.replay = NULL;
  type.graph_destroy = NULL;
  return &type;
}

const WEFT_DeviceLibrary *weft_cuda_library_open(const WEFT_DeviceHost *host,
                                                 const WEFT_DeviceKernel *const *tables,
                                                 const weft_cuda_fatbin_t *fatbins,
                                                 int (*may_link)(const char *op, int operand, int result),
                                                 WEFT_Failure **out_failure) {
  static WEFT_DeviceLibrary library = {
      .size = sizeof library,
      .major = WEFT_DEVICE_MAJOR,
      .minor = WEFT_DEVICE_MINOR,
      .name = "weft_cuda",
      .version = "1.0",
      .kernel_size = sizeof(WEFT_DeviceKernel),
  };
  weft_cuda_host = host;
  weft_cuda_fatbins = fatbins;
  library.device = device_type();
  library.may_link = may_link;
  library.kernels = join(tables); /* lives as long as the process */
  if (library.kernels != NULL) return &library;
  *out_failure = host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: the table of kernels");
  return NULL;
}
