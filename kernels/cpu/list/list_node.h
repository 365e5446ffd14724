/* kernels/cpu/list/list_node.h - what the kernels of tensor lists share: the list that a node gets and the
 * one that it gives, and what it says of the elements.
 *
 * A list is a value: an op that changes it gives a new one. If nothing else holds the old one it is changed
 * in place, so a loop that appends costs no copy.
 */
#ifndef WEFT_KERNELS_CPU_LIST_LIST_NODE_H_
#define WEFT_KERNELS_CPU_LIST_LIST_NODE_H_

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "resources/tensor_list.h"

/* The attributes of a node; the ops have some of them. */
typedef struct weft_list_node {
  weft_dtype_t dtype;
  weft_shape_t element_shape; /* unknown where it is an input */
  int64_t num_elements;       /* -1: any */
  bool resizes;
} weft_list_node_t;

WEFT_MUST_CHECK weft_status_t *weft_list_prepare(const weft_kernel_setup_t *setup, void **out_state);
static inline const weft_list_node_t *weft_list_node(const weft_kernel_ctx_t *c) { return c->state; }
#define WEFT_LIST_KERNEL(name, fn) \
  WEFT_KERNEL(name, "element_dtype", WEFT_SET_ALL, weft_list_prepare, fn, weft_free)
/* Of ops that need the bytes of elements: see kernels/cpu/list/list_join.h. */
#define WEFT_LIST_KERNEL_BOTH(name, fn, async)                                                     \
  {                                                                                                \
    .op = name, .type_attr = "element_dtype", .types = WEFT_SET_ALL, .prepare = weft_list_prepare, \
    .compute = fn, .compute_async = async, .destroy = weft_free                                    \
  }

/* Has the list the node's dtype? Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_list_check_dtype(const weft_kernel_ctx_t *c, const weft_tensor_list_t *l);
/* The list in input i, lent; its dtype is the node's. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_list_in(const weft_kernel_ctx_t *c, int i,
                                            const weft_tensor_list_t **out);
/* A list like that of input i which may be changed: the input's own if nothing else can see it. The caller
 * owns one reference. `take_typed`: its dtype is the node's. */
WEFT_MUST_CHECK weft_status_t *weft_list_take(weft_kernel_ctx_t *c, int i, weft_tensor_list_t **out);
WEFT_MUST_CHECK weft_status_t *weft_list_take_typed(weft_kernel_ctx_t *c, int i, weft_tensor_list_t **out);
/* Output 0 is the list, unless `s` says that it came to nothing. Consumes both; returns the failure. */
WEFT_MUST_CHECK weft_status_t *weft_list_give(weft_kernel_ctx_t *c, weft_tensor_list_t *l, weft_status_t *s);

/* The integer in input i, which the error calls `what`. */
WEFT_MUST_CHECK weft_status_t *weft_list_int(const weft_kernel_ctx_t *c, int i, const char *what,
                                             int64_t *out);
/* The element shape that a tensor holds: -1 alone is an unknown rank; a vector may hold -1 for unknown sizes.
 */
WEFT_MUST_CHECK weft_status_t *weft_list_shape(const weft_tensor_t *t, weft_shape_t *out);
/* The same with what the list says. */
WEFT_MUST_CHECK weft_status_t *weft_list_declared_shape(const weft_tensor_list_t *l,
                                                        const weft_tensor_t *given, weft_shape_t *out);
/* Adds to `shape` what `also` says of it. Errors: INVALID_ARGUMENT if they differ. */
WEFT_MUST_CHECK weft_status_t *weft_list_merge(weft_shape_t *shape, const weft_shape_t *also);
/* Adds what n elements, all or those at `indices`, which must be there, say of it. */
WEFT_MUST_CHECK weft_status_t *weft_list_merge_items(const weft_tensor_list_t *l, const int32_t *indices,
                                                     int64_t n, weft_shape_t *shape);

#endif /* WEFT_KERNELS_CPU_LIST_LIST_NODE_H_ */
