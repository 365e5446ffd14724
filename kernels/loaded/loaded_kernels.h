/* kernels/loaded/loaded_kernels.h - the kernels of a device library (include/weft/device.h) as a table.
 *
 * A table holds, in this order: the library's rows; the CPU's own rows that read no element in the device's
 * memory (generic.def); the families of kernels/host/.
 */
#ifndef WEFT_KERNELS_LOADED_LOADED_KERNELS_H_
#define WEFT_KERNELS_LOADED_LOADED_KERNELS_H_

#include "kernels/kernel.h"
#include "weft/device.h"

/* What libraries get. Constant. */
extern const WEFT_DeviceHost weft_device_host;

/* The table of devices of `type`. `rows`, ended by one without an op, and `type` must live as long as the
 * table; NULL: there are none. `int32_on_device`: as in WEFT_DeviceLibrary. *out is owned. Errors:
 * INVALID_ARGUMENT for a row that cannot be used, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_kernels_create(const char *type, const WEFT_DeviceKernel *rows,
                                                          bool int32_on_device, weft_kernel_table_t **out);
void weft_loaded_kernels_destroy(weft_kernel_table_t *t); /* of one that was not registered. NULL is fine */

#endif /* WEFT_KERNELS_LOADED_LOADED_KERNELS_H_ */
