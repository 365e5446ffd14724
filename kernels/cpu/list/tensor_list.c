/* kernels/cpu/list/tensor_list.c - kernels of tensor lists: lists without elements, one element, the list as
 * a whole.
 */
#include <inttypes.h>

#include "kernels/cpu/list/list_join.h"
#include "kernels/cpu/list/list_node.h"

/* ---- making lists ---- */

static weft_status_t *list_empty(weft_kernel_ctx_t *c) {
  weft_shape_t shape;
  int64_t max = -1;
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_shape(weft_in(c, 0), &shape));
  WEFT_RETURN_IF_ERROR(weft_list_int(c, 1, "max_num_elements", &max));
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(weft_list_node(c)->dtype, &shape, max, 0, &l));
  return weft_list_give(c, l, NULL);
}

static weft_status_t *list_reserve(weft_kernel_ctx_t *c) {
  weft_shape_t shape;
  int64_t n = 0;
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_shape(weft_in(c, 0), &shape));
  WEFT_RETURN_IF_ERROR(weft_list_int(c, 1, "num_elements", &n));
  if (n < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The num_elements to reserve must be a non negative number, but got %" PRId64, n);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(weft_list_node(c)->dtype, &shape, -1, n, &l));
  return weft_list_give(c, l, NULL);
}

/* ---- one element ---- */

static weft_status_t *zeros(weft_dtype_t dtype, const weft_shape_t *shape, weft_tensor_t **out) {
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, shape, NULL, out));
  if (weft_dtype_is_plain(dtype) && (*out)->bytes > 0) memset((*out)->data, 0, (*out)->bytes);
  return NULL;
}

static weft_status_t *check_item(const weft_tensor_list_t *l, const weft_tensor_t *t, const char *what) {
  if (t->dtype != l->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid data types; list elements %s but tried to append %s",
                      weft_dtype_name(l->dtype), weft_dtype_name(t->dtype));
  }
  if (weft_shape_compatible(&l->element_shape, &t->shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: %s list shape: %s", what, WEFT_SHAPE_TEXT(&t->shape),
                    WEFT_SHAPE_TEXT(&l->element_shape));
}

static weft_status_t *push(weft_kernel_ctx_t *c, weft_tensor_list_t *l, weft_tensor_t *t) {
  weft_tensor_t *kept = NULL;
  WEFT_RETURN_IF_ERROR(
      check_item(l, t, "Tried to append a tensor with incompatible shape to a list. Op element shape"));
  if (l->max_elements >= 0 && l->count >= l->max_elements) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Tried to push item into a full list list size: %" PRId64 " max_num_elements: %" PRId64,
                      l->count, l->max_elements);
  }
  WEFT_RETURN_IF_ERROR(weft_list_keep(c, t, &kept));
  weft_status_t *s = weft_tensor_list_resize(l, l->count + 1);
  if (s == NULL) l->items[l->count - 1] = kept;
  if (s != NULL) weft_tensor_release(kept);
  return s;
}

static weft_status_t *list_push(weft_kernel_ctx_t *c) {
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_take_typed(c, 0, &l));
  return weft_list_give(c, l, push(c, l, weft_in(c, 1)));
}

/* Item i, or zeros if it was never set; *out is owned. `asks_others`: about the shape of zeros. */
static weft_status_t *item_or_zeros(const weft_tensor_list_t *l, int64_t i, const weft_tensor_t *given,
                                    bool asks_others, weft_tensor_t **out) {
  weft_shape_t shape;
  if (l->items[i] != NULL) {
    *out = weft_tensor_retain(l->items[i]);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_list_declared_shape(l, given, &shape));
  if (asks_others && !weft_shape_is_known(&shape))
    WEFT_RETURN_IF_ERROR(weft_list_merge_items(l, NULL, l->count, &shape));
  if (weft_shape_is_known(&shape)) return zeros(l->dtype, &shape, out);
  return WEFT_ERROR(
      INVALID_ARGUMENT, "Trying to read an uninitialized tensor but element_shape is not fully defined%s%s%s",
      asks_others ? ": " : ".", WEFT_SHAPE_TEXT(&shape), asks_others ? " and no list element is set." : "");
}

/* Output 0 is what is left of the list; *out, the element, is owned. */
static weft_status_t *take_last(weft_kernel_ctx_t *c, weft_tensor_t **out) {
  weft_tensor_list_t *l = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_take_typed(c, 0, &l));
  weft_status_t *s = l->count > 0 ? item_or_zeros(l, l->count - 1, weft_in(c, 1), false, &t)
                                  : WEFT_ERROR(INVALID_ARGUMENT, "Trying to pop from an empty list.");
  if (s == NULL) s = weft_tensor_list_resize(l, l->count - 1);
  s = weft_list_give(c, l, s);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

static weft_status_t *list_pop(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(take_last(c, &t));
  return weft_list_item_here(t, &c->outputs[1].tensor);
}
static void list_pop_async(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = take_last(c, &t);
  weft_list_item_give(c, t, s);
}

static weft_status_t *find_item(weft_kernel_ctx_t *c, weft_tensor_t **out) {
  const weft_tensor_list_t *l = NULL;
  int64_t i = 0;
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 0, &l));
  WEFT_RETURN_IF_ERROR(weft_list_int(c, 1, "index", &i));
  if (i < 0 || i >= l->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to access element %" PRId64 " in a list with %" PRId64 " elements.", i,
                      l->count);
  }
  return item_or_zeros(l, i, weft_in(c, 2), true, out);
}

static weft_status_t *list_get(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(find_item(c, &t));
  return weft_list_item_here(t, &c->outputs[0].tensor);
}
static void list_get_async(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = find_item(c, &t);
  weft_list_item_give(c, t, s);
}

static weft_status_t *put(weft_kernel_ctx_t *c, weft_tensor_list_t *l, int64_t i, weft_tensor_t *t,
                          bool may_grow) {
  weft_tensor_t *kept = NULL;
  if (i >= l->count && i >= 0 && may_grow) WEFT_RETURN_IF_ERROR(weft_tensor_list_resize(l, i + 1));
  if (i < 0 || i >= l->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to modify element %" PRId64 " in a list with %" PRId64 " elements.", i,
                      l->count);
  }
  WEFT_RETURN_IF_ERROR(
      check_item(l, t, "Tried to set a tensor with incompatible shape at a list index. Item element shape"));
  WEFT_RETURN_IF_ERROR(weft_list_keep(c, t, &kept));
  weft_tensor_release(l->items[i]);
  l->items[i] = kept;
  return NULL;
}

static weft_status_t *list_set(weft_kernel_ctx_t *c) {
  weft_tensor_list_t *l = NULL;
  int64_t i = 0;
  WEFT_RETURN_IF_ERROR(weft_list_int(c, 1, "index", &i));
  WEFT_RETURN_IF_ERROR(weft_list_take_typed(c, 0, &l));
  return weft_list_give(c, l, put(c, l, i, weft_in(c, 2), weft_list_node(c)->resizes));
}

/* ---- the list as a whole ---- */

static weft_status_t *list_length(weft_kernel_ctx_t *c) {
  const weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_list_of(weft_in(c, 0), &l));
  int32_t n = (int32_t)l->count;
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *list_element_shape(weft_kernel_ctx_t *c) {
  const weft_tensor_list_t *l = NULL;
  weft_tensor_t *out = NULL;
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  WEFT_RETURN_IF_ERROR(weft_tensor_list_of(weft_in(c, 0), &l));
  int rank = l->element_shape.rank;
  weft_shape_t shape = rank < 0 ? WEFT_SCALAR : weft_shape_vector(rank);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  for (int d = 0; d < (rank < 0 ? 1 : rank); d++) {
    int64_t dim = rank < 0 ? -1 : l->element_shape.dims[d];
    if (dtype == WEFT_I32) ((int32_t *)out->data)[d] = (int32_t)dim;
    if (dtype == WEFT_I64) ((int64_t *)out->data)[d] = dim;
  }
  return NULL;
}

static weft_status_t *list_resize(weft_kernel_ctx_t *c) {
  weft_tensor_list_t *l = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_list_int(c, 1, "size", &n));
  if (n < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorListSlice expects size to be non-negative. Got: %" PRId64, n);
  }
  WEFT_RETURN_IF_ERROR(weft_list_take(c, 0, &l));
  return weft_list_give(c, l, weft_tensor_list_resize(l, n));
}

static weft_status_t *list_concat_lists(weft_kernel_ctx_t *c) {
  weft_tensor_list_t *l = NULL;
  const weft_tensor_list_t *b = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 1, &b));
  WEFT_RETURN_IF_ERROR(weft_list_take_typed(c, 0, &l));
  int64_t n = l->count;
  weft_status_t *s = NULL;
  if (!weft_shape_eq(&l->element_shape, &b->element_shape)) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "The lists' element shapes are not identical: %s and %s",
                   WEFT_SHAPE_TEXT(&l->element_shape), WEFT_SHAPE_TEXT(&b->element_shape));
  }
  if (s == NULL) s = weft_tensor_list_resize(l, n + b->count);
  for (int64_t i = 0; s == NULL && i < b->count; i++) l->items[n + i] = weft_tensor_retain(b->items[i]);
  return weft_list_give(c, l, s);
}

const weft_kernel_t weft_cpu_tensor_list_kernels[] = {
    WEFT_LIST_KERNEL("EmptyTensorList", list_empty),
    WEFT_LIST_KERNEL("TensorListConcatLists", list_concat_lists),
    {.op = "TensorListElementShape", .compute = list_element_shape},
    WEFT_LIST_KERNEL_BOTH("TensorListGetItem", list_get, list_get_async),
    {.op = "TensorListLength", .compute = list_length},
    WEFT_LIST_KERNEL_BOTH("TensorListPopBack", list_pop, list_pop_async),
    WEFT_LIST_KERNEL("TensorListPushBack", list_push),
    WEFT_LIST_KERNEL("TensorListReserve", list_reserve),
    {.op = "TensorListResize", .compute = list_resize},
    WEFT_LIST_KERNEL("TensorListSetItem", list_set),
    {0},
};
