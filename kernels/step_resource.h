/* kernels/step_resource.h - what lives for one step: stacks and tensor arrays. A handle holds the object
 * itself; by its name in the step's container it is found from old-style references and as a gradient's
 * source. */
#ifndef WEFT_KERNELS_STEP_RESOURCE_H_
#define WEFT_KERNELS_STEP_RESOURCE_H_

#include "kernels/state.h"

/* "<base>_<n>", with a number that no other resource of the step has; the base is the node's name if it is
 * "". The caller frees *out. */
WEFT_MUST_CHECK weft_status_t *weft_step_resource_name(weft_kernel_ctx_t *c, weft_str_t base, char **out);

/* Puts `o` into the step's container under `name` and sets output 0: a handle, or a reference to two strings.
 */
WEFT_MUST_CHECK weft_status_t *weft_step_resource_output(weft_kernel_ctx_t *c,
                                                         const weft_resource_type_t *type, const char *name,
                                                         weft_object_t *o);
/* Output 0 alone, for an object that is in the container already. */
WEFT_MUST_CHECK weft_status_t *weft_step_resource_handle(weft_kernel_ctx_t *c,
                                                         const weft_resource_type_t *type, const char *name,
                                                         weft_object_t *o);
/* The object behind input i; retained. Errors: NOT_FOUND, INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_step_resource_in(weft_kernel_ctx_t *c, int i,
                                                     const weft_resource_type_t *type, weft_object_t **out);
/* By name; retained, or NULL. */
weft_object_t *weft_step_resource_find(weft_kernel_ctx_t *c, const weft_resource_type_t *type,
                                       const char *name);

#endif /* WEFT_KERNELS_STEP_RESOURCE_H_ */
