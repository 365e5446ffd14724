/* resources/variable.h - a value that ops change: behind VariableV2 (as a reference) and VarHandleOp (as a
 * handle).
 *
 * Behind a handle, `value` is an immutable tensor under `mu`. Readers retain it:
 * they never see half an update. A writer changes the bytes in place if it alone
 * holds them (weft_tensor_is_exclusive), else it replaces the tensor: copy on write.
 *
 * Behind a reference the buffer is the variable (`is_shared`): writers change its
 * bytes under readers, as in TensorFlow, where graphs rely on it: an Identity of a
 * reference that runs first still shows what a later Assign of the step has
 * written. Strings are always replaced, never written in place.
 */
#ifndef WEFT_RESOURCES_VARIABLE_H_
#define WEFT_RESOURCES_VARIABLE_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "resources/resource.h"
#include "tensor/memory_accounts.h"

typedef struct weft_variable { /* Thread-safe through mu. */
  weft_object_t object;        /* first: a variable is a resource */
  weft_mutex_t mu;             /* taken in address order where an op needs several */
  weft_dtype_t dtype;   /* a handle's variable takes the dtype of its first value: then guarded by mu */
  weft_shape_t shape;   /* declared; may be partly unknown */
  weft_str_t name;      /* owned, for messages */
  weft_tensor_t *value; /* guarded by mu; NULL: not initialised */
  weft_memory_accounts_t
      *accounts;         /* retained; where copies are counted; NULL: where the value is, if at all */
  weft_memory_tag_t tag; /* guarded by mu; PARAM or OPT_STATE */
  bool is_shared;      /* behind references; constant after creation. Then it alone owns the bytes of value */
  atomic_bool is_gone; /* deleted from its manager: a holder of an old handle must look it up again */
} weft_variable_t;
static inline bool weft_variable_is_gone(weft_variable_t *v) {
  return atomic_load_explicit(&v->is_gone, memory_order_acquire); /* with abandon() in variable.c */
}

extern const weft_resource_type_t weft_variable_type;        /* behind a VarHandleOp */
extern const weft_resource_type_t weft_legacy_variable_type; /* behind a VariableV2: another name space */

WEFT_MUST_CHECK weft_status_t *weft_variable_create(weft_str_t name, weft_dtype_t dtype,
                                                    const weft_shape_t *shape, weft_variable_t **out);
/* Its values are counted in these accounts of its device as `tag`. Before others know the variable. */
void weft_variable_count(weft_variable_t *v, weft_memory_accounts_t *accounts, weft_memory_tag_t tag);
/* The account for a new value; lent; NULL: none. */
weft_allocator_t *weft_variable_account_locked(weft_variable_t *v) WEFT_REQUIRES(v->mu);
/* An optimizer has updated it as a slot of another variable: its value is counted as that from now on. */
void weft_variable_is_slot_locked(weft_variable_t *v) WEFT_REQUIRES(v->mu);
/* The current value, retained; NULL if not initialised. */
weft_tensor_t *weft_variable_read(weft_variable_t *v);
/* Replaces the value; `value` is retained; NULL: the variable is not initialised any more. */
void weft_variable_write(weft_variable_t *v, weft_tensor_t *value);
/* The Assign of a reference: writes into the buffer if sizes agree, else takes `value` if nothing else can
 * reach its bytes, else a copy. */
WEFT_MUST_CHECK weft_status_t *weft_variable_assign_shared(weft_variable_t *v, weft_tensor_t *value);
/* Makes v->value writable in place (copies it if others hold it). Errors: FAILED_PRECONDITION "Attempting to
 * use uninitialized value <name>", RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_variable_make_writable_locked(weft_variable_t *v) WEFT_REQUIRES(v->mu);

/* "Attempting to use uninitialized value <name>". */
WEFT_MUST_CHECK weft_status_t *weft_variable_uninitialized(const weft_variable_t *v);
/* Takes the mutexes of n variables in address order, each once; some may be the same. n <= 8. */
void weft_variables_lock(weft_variable_t *const *v, int n);
void weft_variables_unlock(weft_variable_t *const *v, int n);
/* The same for any number of variables that all differ, in ascending order of their addresses. */
void weft_variables_lock_sorted(weft_variable_t *const *v, int n);
void weft_variables_unlock_sorted(weft_variable_t *const *v, int n);
/* weft_variable_make_writable_locked for all of them; the caller holds their mutexes. */
WEFT_MUST_CHECK weft_status_t *weft_variables_make_writable_locked(weft_variable_t *const *v, int n);

/* What travels on an edge. All zero: dead, or nothing. */
typedef struct weft_value {
  weft_tensor_t *tensor; /* a value; one reference */
  weft_variable_t *ref;  /* a reference edge; one reference. Then `tensor` is NULL, except in a kernel's input
                            that is not a reference: there the executor has read it already */
} weft_value_t;

#endif /* WEFT_RESOURCES_VARIABLE_H_ */
