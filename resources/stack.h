/* resources/stack.h - a stack of tensors: what a loop's forward pass keeps for its gradient. */
#ifndef WEFT_RESOURCES_STACK_H_
#define WEFT_RESOURCES_STACK_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

typedef struct weft_stack weft_stack_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_stack_type;

/* `name` is copied; max_size < 0: no limit. */
WEFT_MUST_CHECK weft_status_t *weft_stack_create(const char *name, weft_dtype_t dtype, int64_t max_size,
                                                 weft_stack_t **out);
/* `t` is retained. Errors: INVALID_ARGUMENT (another dtype, closed, max_size), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_stack_push(weft_stack_t *st, weft_tensor_t *t);
/* The caller owns *out. Errors: INVALID_ARGUMENT (closed, empty). */
WEFT_MUST_CHECK weft_status_t *weft_stack_pop(weft_stack_t *st, weft_tensor_t **out);
void weft_stack_close(weft_stack_t *st); /* drops what it holds */

#endif /* WEFT_RESOURCES_STACK_H_ */
