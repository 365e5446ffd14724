/* kernels/cpu/math/kept.h - what a kernel has made of an input that stays the same from step to step, such as
 * a filter laid out in panels.
 *
 * The first step that sees a tensor takes a reference to it, the second one makes a copy in the kernel's own
 * layout, and all further ones use that. While the reference is held the tensor's bytes cannot change: a
 * resource variable whose value is held by others is given a new tensor by its next update. So the same
 * tensor is the same value. Use it only for inputs of which that is true: constants and values of resource
 * variables (the attribute _steady_inputs, graph/passes/steady.c), not what is fed or lies behind a
 * reference.
 *
 * An update that finds its variable's tensor held copies it. So after each replaced tensor, 2, 4, 8, ... up
 * to 1,024 steps do not look at all: a variable that is trained is copied about every thousandth step.
 */
#ifndef WEFT_KERNELS_CPU_MATH_KEPT_H_
#define WEFT_KERNELS_CPU_MATH_KEPT_H_

#include "kernels/kernel.h"

typedef struct weft_kept weft_kept_t; /* Thread-safe. One input of one node. */

/* A copy that a step uses. Refcounted. */
typedef struct weft_kept_copy {
  atomic_int refs;
  void *data; /* owned; from weft_aligned_alloc */
} weft_kept_copy_t;

/* Is input i of the node a constant or the value of a resource variable? */
bool weft_kept_may_keep(const weft_kernel_setup_t *setup, int i);
/* Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_kept_create(weft_kept_t **out);
void weft_kept_destroy(weft_kept_t *k); /* NULL is fine */

/* The copy of `t` that was made for `key`, retained; NULL: there is none. *out_is_wanted: then the caller
 * should make one and offer it. `key`: whatever the layout depends on beside the tensor. */
weft_kept_copy_t *weft_kept_find(weft_kept_t *k, weft_tensor_t *t, int64_t key, bool *out_is_wanted);
void weft_kept_copy_release(weft_kept_copy_t *copy);
/* `data`, from weft_aligned_alloc, is the copy of `t` for `key`. Consumes data, which is kept if `t` is still
 * what was seen last. */
void weft_kept_offer(weft_kept_t *k, const weft_tensor_t *t, int64_t key, void *data);

#endif /* WEFT_KERNELS_CPU_MATH_KEPT_H_ */
