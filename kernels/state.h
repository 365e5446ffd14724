/* kernels/state.h - what kernels of resources share: names, handles, look-ups, waiting.
 *
 * A node that makes a resource has a name for it: its shared_name, else its own
 * name (variables, and nodes that say use_node_name_sharing), else a private one,
 * and then it dies with the node.
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
/* The same for a VarHandleOp, which takes any container and shared_name, as in TensorFlow; without the latter
 * it has the node's name. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_state_name_of_handle(weft_state_name_t *n,
                                                         const weft_kernel_setup_t *setup);
void weft_state_name_deinit(weft_state_name_t *n);

/* ---- handles ---- */

/* The shared_name of a VarHandleOp that makes a new variable in each run: TensorFlow's
 * ResourceHandle::ANONYMOUS_NAME. */
#define WEFT_ANONYMOUS_VARIABLE "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

/* A scalar resource tensor with one handle to `o` (may be NULL). */
WEFT_MUST_CHECK weft_status_t *weft_state_handle(const weft_device_t *d, const char *container,
                                                 const char *name, const weft_resource_type_t *type,
                                                 weft_object_t *o, weft_dtype_t dtype,
                                                 const weft_shape_t *shape, weft_tensor_t **out);
/* An old-style handle: a reference to the strings (container, name). */
WEFT_MUST_CHECK weft_status_t *weft_state_reference(const char *container, const char *name,
                                                    weft_variable_t **out);
/* The handle in input i, lent. Errors: INVALID_ARGUMENT if there is none, or it is of another device. */
WEFT_MUST_CHECK weft_status_t *weft_state_in_handle(weft_kernel_ctx_t *c, int i, const weft_handle_t **out);
/* INVALID_ARGUMENT: a handle to something of another type than `type`. */
WEFT_MUST_CHECK weft_status_t *weft_state_wrong_type(const weft_handle_t *h,
                                                     const weft_resource_type_t *type);
/* The object of `type` behind input i: a handle, or a reference to the strings (container, name); retained.
 * Errors: INVALID_ARGUMENT (wrong device or type), NOT_FOUND. */
WEFT_MUST_CHECK weft_status_t *weft_state_in(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                                             weft_object_t **out);
/* The same of a handle to what may be gone, or be of another task: then *out is NULL, which is no error.
 * Errors: INVALID_ARGUMENT (no handle, wrong type). */
WEFT_MUST_CHECK weft_status_t *weft_state_in_if_there(weft_kernel_ctx_t *c, int i,
                                                      const weft_resource_type_t *type, weft_object_t **out);
/* The variable behind input i: a reference, or a handle to one that has a value; retained.
 * Errors: as above; NOT_FOUND for a handle's variable without a value, FAILED_PRECONDITION for a reference's.
 */
WEFT_MUST_CHECK weft_status_t *weft_state_in_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out);
/* The same for callers that look at the value themselves, under the variable's mutex: it may have none. */
WEFT_MUST_CHECK weft_status_t *weft_state_in_any_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out);
/* The same, but a variable without a value is fine, and a handle's variable is made if it is missing. */
WEFT_MUST_CHECK weft_status_t *weft_state_in_new_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out);
/* NOT_FOUND: weft_resource_missing() of a handle's variable. */
WEFT_MUST_CHECK weft_status_t *weft_state_no_variable(const weft_kernel_ctx_t *c, const weft_handle_t *h);

/* The execution as a call to a resource, which ends with c->done. */
weft_resource_call_t weft_state_call(weft_kernel_ctx_t *c);

/* ---- a node's own resource: queues, accumulators, barriers ---- */

/* How a node makes a resource: the param of its row. The node makes it once and hands out its handle, or a
 * reference to (container, name), as its output type says, ever after. A private resource goes with the node.
 */
typedef struct weft_state_maker {
  const weft_resource_type_t *type;
  size_t config_size;
  /* Fills `config`, all zero, from the attributes; once per plan. `config` is deinitialised also on failure.
   */
  weft_status_t *(*read)(const weft_kernel_setup_t *setup, void *config);
  /* At the first execution, `c`: makes the object `name`, unless another node has made it; check refuses one
   * that is not as `config` says (NULL: any will do). */
  weft_status_t *(*create)(weft_kernel_ctx_t *c, const char *name, const void *config, weft_object_t **out);
  weft_status_t *(*check)(const char *name, const void *config, weft_object_t *o);
  void (*deinit)(void *config); /* NULL: nothing to free */
} weft_state_maker_t;

WEFT_MUST_CHECK weft_status_t *weft_state_maker_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_state_maker_compute(weft_kernel_ctx_t *c);
void weft_state_maker_destroy(void *state); /* NULL is fine */
/* Of the row: all but op, types and param, which points to a weft_state_maker_t. */
#define WEFT_STATE_MAKER                                                    \
  .prepare = weft_state_maker_prepare, .compute = weft_state_maker_compute, \
  .destroy = weft_state_maker_destroy

#endif /* WEFT_KERNELS_STATE_H_ */
