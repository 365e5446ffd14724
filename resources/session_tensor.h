/* resources/session_tensor.h - tensors that a session keeps between its steps, by handle: GetSessionHandle's.
 */
#ifndef WEFT_RESOURCES_SESSION_TENSOR_H_
#define WEFT_RESOURCES_SESSION_TENSOR_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

/* `session` is the session's own handle, `handle` the tensor's. All are thread-safe. */

/* `t` is retained. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_session_tensor_keep(weft_resource_manager_t *m, weft_str_t session,
                                                        weft_str_t handle, weft_tensor_t *t);
/* The caller owns *out. Errors: INVALID_ARGUMENT "The tensor with handle '..' is not in the session store."
 */
WEFT_MUST_CHECK weft_status_t *weft_session_tensor_get(weft_resource_manager_t *m, weft_str_t session,
                                                       weft_str_t handle, weft_tensor_t **out);
/* Errors: as above. */
WEFT_MUST_CHECK weft_status_t *weft_session_tensor_delete(weft_resource_manager_t *m, weft_str_t session,
                                                          weft_str_t handle);
/* Drops all tensors of a session that has ended. */
void weft_session_tensors_clear(weft_resource_manager_t *m, weft_str_t session);

#endif /* WEFT_RESOURCES_SESSION_TENSOR_H_ */
