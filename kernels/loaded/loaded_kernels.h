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

/* The table of devices of `type`, with the rows of `library`, of which only the members about kernels are
 * read. What the rows point to and `type` must live as long as the table; the rows themselves are copied.
 * *out is owned. Errors: INVALID_ARGUMENT for a row that cannot be used, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_kernels_create(const char *type, const WEFT_DeviceLibrary *library,
                                                          weft_kernel_table_t **out);
void weft_loaded_kernels_destroy(weft_kernel_table_t *t); /* of one that was not registered. NULL is fine */

#endif /* WEFT_KERNELS_LOADED_LOADED_KERNELS_H_ */
