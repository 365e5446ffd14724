/* device/cuda/library.h - the device library "weft_cuda", made of the device and of tables of kernels. */
#ifndef WEFT_DEVICE_CUDA_LIBRARY_H_
#define WEFT_DEVICE_CUDA_LIBRARY_H_

#include "device/cuda/module.h"
#include "weft/device.h"

/* What WEFT_OpenDeviceLibrary() answers; called once. `tables` is a list, ended by NULL, of tables of
 * kernels, each ended by a row without an op. `may_link`: WEFT_DeviceLibrary's. These and `fatbins`
 * live as long as the process. Errors:
 * RESOURCE_EXHAUSTED. */
const WEFT_DeviceLibrary *weft_cuda_library_open(const WEFT_DeviceHost *host,
                                                 const WEFT_DeviceKernel *const *tables,
                                                 const weft_cuda_fatbin_t *fatbins,
                                                 int (*may_link)(const char *op, int operand, int result),
                                                 WEFT_Failure **out_failure);

#endif /* WEFT_DEVICE_CUDA_LIBRARY_H_ */
