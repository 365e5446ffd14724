/* resources/lock.h - a lock that one step at a time holds: MutexV2's. Steps wait for it without a thread. */
#ifndef WEFT_RESOURCES_LOCK_H_
#define WEFT_RESOURCES_LOCK_H_

#include "resources/resource.h"
#include "resources/wait_room.h"
#include "tensor/tensor.h"

typedef struct weft_lock weft_lock_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_lock_type;
/* The element of a scalar variant tensor that holds the lock: it is given back with the last reference. */
extern const weft_variant_type_t weft_lock_hold_type;

WEFT_MUST_CHECK weft_status_t *weft_lock_create(weft_object_t **out);
/* Ends its call, at once or later, with such a tensor. Errors (through the call): CANCELLED,
 * RESOURCE_EXHAUSTED. */
void weft_lock_acquire(weft_lock_t *l, const weft_resource_call_t *call);

#endif /* WEFT_RESOURCES_LOCK_H_ */
