/* kernels/host/host_kernels.h - kernels that are the same on every device, because they look at no element.
 *
 * Each table ends with {0}. A device's list of families names those it wants.
 */
#ifndef WEFT_KERNELS_HOST_HOST_KERNELS_H_
#define WEFT_KERNELS_HOST_HOST_KERNELS_H_

#include "kernels/kernel.h"

extern const weft_kernel_t weft_control_flow_kernels[]; /* control_flow.c */
extern const weft_kernel_t weft_graph_kernels[];        /* graph.c */
extern const weft_kernel_t weft_sendrecv_kernels[];     /* sendrecv.c */
extern const weft_kernel_t weft_args_kernels[];         /* args.c */
extern const weft_kernel_t weft_memory_copy_kernels[];  /* memory_copy.c */

#endif /* WEFT_KERNELS_HOST_HOST_KERNELS_H_ */
