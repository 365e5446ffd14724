/* kernels/state.h - what kernels of resources share: names, handles, look-ups, waiting.
 *
 * A node that makes a resource has a name for it: its shared_name, else its own
 * name (variables), else a private one, and then it dies with the node.
 */
#ifndef WEFT_KERNELS_STATE_H_
#define WEFT_KERNELS_STATE_H_

#include "kernels/kernel.h"
#include "resources/wait_room.h"

/* ---- names ---- */

typedef struct weft_state_name {
  char *container, *name; /* owned */
  bool is_private;        /* no other node can name it */
} weft_state_name_t;

/* From the attributes container and shared_name. `node_name_is_default`: as for variables.
 * Errors: INVALID_ARGUMENT (characters that a name may not have), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_state_name_init(weft_state_name_t *n, const weft_kernel_setup_t *setup,
                                                    bool node_name_is_default);
void weft_state_name_deinit(weft_state_name_t *n);

/* ---- handles ---- */

/* A scalar resource tensor with one handle to `o` (may be NULL). */
WEFT_MUST_CHECK weft_status_t *weft_state_handle(const weft_device_t *d, const char *container,
                                                 const char *name, const weft_resource_type_t *type,
                                                 weft_object_t *o, weft_dtype_t dtype,
                                                 const weft_shape_t *shape, weft_tensor_t **out);
/* The handle in input i, lent. Errors: INVALID_ARGUMENT if there is none, or it is of another device. */
WEFT_MUST_CHECK weft_status_t *weft_state_in_handle(weft_kernel_ctx_t *c, int i, const weft_handle_t **out);
/* INVALID_ARGUMENT: a handle to something of another type than `type`. */
WEFT_MUST_CHECK weft_status_t *weft_state_wrong_type(const weft_handle_t *h,
                                                     const weft_resource_type_t *type);
/* The object of `type` behind input i: a handle, or a reference to the strings (container, name); retained.
 * Errors: INVALID_ARGUMENT (wrong device or type), NOT_FOUND. */
WEFT_MUST_CHECK weft_status_t *weft_state_in(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                                             weft_object_t **out);
/* The variable behind input i: a reference, or a handle to one that has a value; retained.
 * Errors: as above; NOT_FOUND for a handle's variable without a value, FAILED_PRECONDITION for a reference's.
 */
WEFT_MUST_CHECK weft_status_t *weft_state_in_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out);
/* The same, but a variable without a value is fine, and a handle's variable is made if it is missing. */
WEFT_MUST_CHECK weft_status_t *weft_state_in_new_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out);
/* NOT_FOUND: weft_resource_missing() of a handle's variable. */
WEFT_MUST_CHECK weft_status_t *weft_state_no_variable(const weft_kernel_ctx_t *c, const weft_handle_t *h);

/* The execution as a call to a resource, which ends with c->done. */
weft_resource_call_t weft_state_call(weft_kernel_ctx_t *c);

/* ---- a node's own resource: queues, accumulators, barriers ---- */

/* State of a node that makes a resource once and hands out its handle ever after. Thread-safe. */
typedef struct weft_state_owner weft_state_owner_t;
/* `type` is static; create(arg) makes the object; check(arg, o) refuses one that another node made
 * differently. Either is called at the first weft_state_owner_output. `arg` is borrowed and lives as long as
 * the owner. */
typedef weft_status_t *weft_state_check_fn(void *arg, weft_object_t *o);
/* create gets the resource's name through weft_state_owner_name(). */
WEFT_MUST_CHECK weft_status_t *weft_state_owner_create(const weft_kernel_setup_t *setup,
                                                       const weft_resource_type_t *type,
                                                       weft_resource_create_fn *create,
                                                       weft_state_check_fn *check, void *arg,
                                                       weft_state_owner_t **out);
/* A private resource goes with its owner. NULL is fine. */
void weft_state_owner_destroy(weft_state_owner_t *w);
const char *weft_state_owner_name(const weft_state_owner_t *w);
/* Sets output 0: a handle, or a reference to (container, name), as the node's output type says. */
WEFT_MUST_CHECK weft_status_t *weft_state_owner_output(weft_state_owner_t *w, weft_kernel_ctx_t *c);

#endif /* WEFT_KERNELS_STATE_H_ */
