/* resources/tensor_list.c - the elements of a list. */
#include "resources/tensor_list.h"

#include <inttypes.h>

#include "base/alloc.h"

static void list_destroy(weft_variant_t *v) {
  weft_tensor_list_t *l = (weft_tensor_list_t *)v;
  for (int64_t i = 0; i < l->count; i++) weft_tensor_release(l->items[i]);
  weft_free(l->items);
  weft_free(l);
}

const weft_variant_type_t weft_tensor_list_type = {"tensorflow::TensorList", list_destroy};

static weft_status_t *no_memory(int64_t n) {
  return WEFT_NO_MEMORY("a tensor list of %" PRId64 " elements", n);
}

weft_status_t *weft_tensor_list_create(weft_dtype_t dtype, const weft_shape_t *element_shape,
                                       int64_t max_elements, int64_t count, weft_tensor_list_t **out) {
  weft_tensor_list_t *l = weft_calloc(1, sizeof *l);
  weft_tensor_t **items = weft_calloc((size_t)count + 1, sizeof *items);
  if (l == NULL || items == NULL) {
    weft_free(l);
    weft_free(items);
    return no_memory(count);
  }
  atomic_init(&l->variant.refs, 1);
  l->variant.type = &weft_tensor_list_type;
  l->dtype = dtype;
  l->element_shape = *element_shape;
  l->max_elements = max_elements;
  l->count = count;
  l->capacity = count + 1;
  l->items = items;
  *out = l;
  return NULL;
}

weft_status_t *weft_tensor_list_of(const weft_tensor_t *t, const weft_tensor_list_t **out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input list must be a scalar saw: %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  const weft_variant_t *v = t->dtype == WEFT_VARIANT ? ((weft_variant_t *const *)t->data)[0] : NULL;
  if (v == NULL || v->type != &weft_tensor_list_type) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input handle is not a list. Saw: '%s'",
                      v == NULL ? "nothing" : v->type->name);
  }
  *out = (const weft_tensor_list_t *)v;
  return NULL;
}

weft_status_t *weft_tensor_list_resize(weft_tensor_list_t *l, int64_t count) {
  if (count > l->capacity) {
    int64_t capacity = count > l->capacity * 2 ? count : l->capacity * 2;
    weft_tensor_t **more = weft_realloc(l->items, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory(count);
    l->items = more;
    l->capacity = capacity;
  }
  for (int64_t i = l->count; i < count; i++) l->items[i] = NULL;
  for (int64_t i = count; i < l->count; i++) weft_tensor_release(l->items[i]);
  l->count = count;
  return NULL;
}

weft_status_t *weft_tensor_list_copy(const weft_tensor_list_t *from, weft_tensor_list_t **out) {
  WEFT_RETURN_IF_ERROR(
      weft_tensor_list_create(from->dtype, &from->element_shape, from->max_elements, from->count, out));
  for (int64_t i = 0; i < from->count; i++) (*out)->items[i] = weft_tensor_retain(from->items[i]);
  return NULL;
}
