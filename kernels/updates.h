/* kernels/updates.h - the members of a _WeftUpdates (ops/updates.h), as a kernel of theirs sees them. */
#ifndef WEFT_KERNELS_UPDATES_H_
#define WEFT_KERNELS_UPDATES_H_

#include "kernels/kernel.h"
#include "ops/updates.h"

/* The node that member `m` was, for `kernel`. `joint` is the _WeftUpdates, whose types and device the member
 * lends; its names are those that `u` has. */
void weft_updates_member_node(const weft_kernel_node_t *joint, const weft_updates_t *u,
                              const weft_kernel_t *kernel, int m, weft_kernel_node_t *out);
/* What `kernel` prepares, once for all members: their attributes `attrs`, u->op->num_attrs of them, are
 * equal. Errors: those of the kernel. */
WEFT_MUST_CHECK weft_status_t *weft_updates_members_prepare(const weft_kernel_setup_t *joint,
                                                            const weft_updates_t *u,
                                                            const weft_kernel_t *kernel,
                                                            const weft_named_attr_t *attrs, void **out_state);

#endif /* WEFT_KERNELS_UPDATES_H_ */
