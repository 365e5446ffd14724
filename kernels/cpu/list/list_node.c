/* kernels/cpu/list/list_node.c - see the header. */
#include "kernels/cpu/list/list_node.h"

#include <inttypes.h>

weft_status_t *weft_list_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_list_node_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  const weft_attr_t *shape = weft_knode_attr(setup, "element_shape");
  *st = (weft_list_node_t){
      .dtype = (weft_dtype_t)weft_knode_type(setup, "element_dtype"),
      .element_shape = shape == NULL || shape->kind != WEFT_ATTR_SHAPE ? WEFT_UNKNOWN_SHAPE : *shape->shape,
      .num_elements = weft_knode_int_or(setup, "num_elements", -1),
      .resizes = weft_knode_bool_or(setup, "resize_if_index_out_of_bounds", false),
  };
  *out_state = st;
  return NULL;
}

weft_status_t *weft_list_check_dtype(const weft_kernel_ctx_t *c, const weft_tensor_list_t *l) {
  weft_dtype_t dtype = weft_list_node(c)->dtype;
  if (l->dtype == dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid data types; op elements %s but list elements %s",
                    weft_dtype_name(dtype), weft_dtype_name(l->dtype));
}

weft_status_t *weft_list_in(const weft_kernel_ctx_t *c, int i, const weft_tensor_list_t **out) {
  WEFT_RETURN_IF_ERROR(weft_tensor_list_of(weft_in(c, i), out));
  return weft_list_check_dtype(c, *out);
}

weft_status_t *weft_list_take(weft_kernel_ctx_t *c, int i, weft_tensor_list_t **out) {
  weft_tensor_t *t = weft_in(c, i);
  const weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_list_of(t, &l));
  weft_variant_t *v = ((weft_variant_t **)t->data)[0];
  if (weft_tensor_is_exclusive(t) && atomic_load_explicit(&v->refs, memory_order_acquire) == 1) {
    ((weft_variant_t **)t->data)[0] = NULL;
    *out = (weft_tensor_list_t *)v;
    return NULL;
  }
  return weft_tensor_list_copy(l, out);
}

weft_status_t *weft_list_take_typed(weft_kernel_ctx_t *c, int i, weft_tensor_list_t **out) {
  const weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_in(c, i, &l));
  return weft_list_take(c, i, out);
}

weft_status_t *weft_list_give(weft_kernel_ctx_t *c, weft_tensor_list_t *l, weft_status_t *s) {
  weft_tensor_t *t = NULL;
  if (s == NULL) s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_variant_release(&l->variant);
    return s;
  }
  ((weft_variant_t **)t->data)[0] = &l->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

weft_status_t *weft_list_int(const weft_kernel_ctx_t *c, int i, const char *what, int64_t *out) {
  int n = 0;
  WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, i), what, 1, out, &n));
  return n == 1 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", what);
}

weft_status_t *weft_list_shape(const weft_tensor_t *t, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS];
  int n = 0;
  WEFT_RETURN_IF_ERROR(weft_read_ints(t, "element_shape", WEFT_MAX_DIMS, dims, &n));
  if (t->shape.rank == 0) {
    if (dims[0] != -1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
    }
    *out = WEFT_UNKNOWN_SHAPE;
    return NULL;
  }
  *out = (weft_shape_t){.rank = n};
  for (int d = 0; d < n; d++) {
    if (dims[d] < -1) return WEFT_ERROR(INVALID_ARGUMENT, "element_shape[%d] is %" PRId64, d, dims[d]);
    out->dims[d] = dims[d] < 0 ? WEFT_UNKNOWN_DIM : dims[d];
  }
  return NULL;
}

weft_status_t *weft_list_merge(weft_shape_t *shape, const weft_shape_t *also) {
  if (weft_shape_refine(shape, also)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "PartialTensorShape: Incompatible shapes during merge: %s vs. %s",
                    WEFT_SHAPE_TEXT(shape), WEFT_SHAPE_TEXT(also));
}

weft_status_t *weft_list_declared_shape(const weft_tensor_list_t *l, const weft_tensor_t *given,
                                        weft_shape_t *out) {
  WEFT_RETURN_IF_ERROR(weft_list_shape(given, out));
  return weft_list_merge(out, &l->element_shape);
}

weft_status_t *weft_list_merge_items(const weft_tensor_list_t *l, const int32_t *indices, int64_t n,
                                     weft_shape_t *shape) {
  for (int64_t i = 0; i < n; i++) {
    const weft_tensor_t *t = l->items[indices == NULL ? i : indices[i]];
    if (t != NULL) WEFT_RETURN_IF_ERROR(weft_list_merge(shape, &t->shape));
  }
  return NULL;
}
