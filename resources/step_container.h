/* resources/step_container.h - what one step keeps by name: stacks, tensor arrays. Destroyed with the step.
 */
#ifndef WEFT_RESOURCES_STEP_CONTAINER_H_
#define WEFT_RESOURCES_STEP_CONTAINER_H_

#include "base/status.h"
#include "base/str.h"
#include "tensor/handle.h"

typedef struct weft_step_container weft_step_container_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_step_container_create(weft_step_container_t **out);
void weft_step_container_destroy(weft_step_container_t *c); /* NULL is fine; releases what it holds */
/* Keeps `o` (retained) under `name` for the step. Errors: ALREADY_EXISTS. */
WEFT_MUST_CHECK weft_status_t *weft_step_container_add(weft_step_container_t *c, weft_str_t name,
                                                       weft_object_t *o);
/* A number that it gave to no other resource of this step, on whatever device of the task that is. */
uint64_t weft_step_container_number(weft_step_container_t *c);
weft_object_t *weft_step_container_find(weft_step_container_t *c, weft_str_t name); /* retained, or NULL */
bool weft_step_container_is_new(weft_step_container_t *c);                          /* was it never used? */
bool weft_step_container_remove(weft_step_container_t *c, weft_str_t name);         /* false: there is none */

#endif /* WEFT_RESOURCES_STEP_CONTAINER_H_ */
