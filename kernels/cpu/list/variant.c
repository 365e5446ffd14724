/* kernels/cpu/list/variant.c - arithmetic on what variants hold, and the kernels that need it: ZerosLike and
 * AddN.
 *
 * A list or an optional is immutable, so sums and zeros are new ones; elements
 * that nothing is added to are shared.
 */
#include "kernels/cpu/list/variant.h"

#include "kernels/cpu/list/list_join.h"
#include "kernels/cpu/loops/common.h"
#include "resources/optional.h"
#include "resources/tensor_list.h"
#include "resources/tensor_map.h"
#include "tensor/pack.h"
#include "tensor/update.h"

/* ---- lists: elements that are not initialised stay so, and add nothing; the new ones have no limit ---- */

static weft_status_t *list_zeros(const weft_variant_t *x, weft_variant_t **out) {
  const weft_tensor_list_t *from = (const weft_tensor_list_t *)x;
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(from->dtype, &from->element_shape, -1, from->count, &l));
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < from->count; i++) {
    if (from->items[i] != NULL) s = weft_zeros_like(from->items[i], &l->items[i]);
  }
  *out = &l->variant;
  return s;
}

/* What weft_add_alike() wants of its operands. */
static weft_status_t *check_alike(const weft_tensor_t *a, const weft_tensor_t *b) {
  if (a->dtype != b->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to add two tensors of different dtypes. One is %s and the other is %s",
                      weft_dtype_name(a->dtype), weft_dtype_name(b->dtype));
  }
  if (weft_shape_eq(&a->shape, &b->shape)) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Trying to add two tensors with incompatible element shapes. One is %s and the other is %s",
      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
}

weft_status_t *weft_add_lists(const weft_tensor_list_t *a, const weft_tensor_list_t *b,
                              const weft_element_add_t *add, weft_tensor_list_t **out) {
  if (a->dtype != b->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to add two lists of tensors of different dtypes. One is %s and the other is %s",
                      weft_dtype_name(a->dtype), weft_dtype_name(b->dtype));
  }
  weft_shape_t shape = a->element_shape;
  if (!weft_shape_refine(&shape, &b->element_shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Trying to add two lists of tensors with incompatible element shapes. One is %s and the other is %s",
        WEFT_SHAPE_TEXT(&a->element_shape), WEFT_SHAPE_TEXT(&b->element_shape));
  }
  if (a->count != b->count) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Trying to add two lists of tensors with different lengths. One is %lld and the other is %lld",
        (long long)a->count, (long long)b->count);
  }
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(a->dtype, &shape, -1, a->count, &l));
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < a->count; i++) {
    if (a->items[i] == NULL || b->items[i] == NULL) {
      l->items[i] = weft_tensor_retain(a->items[i] != NULL ? a->items[i] : b->items[i]);
    } else {
      s = check_alike(a->items[i], b->items[i]);
      if (s == NULL) s = add->add(add->arg, a->items[i], b->items[i], &l->items[i]);
    }
  }
  *out = l;
  return s;
}

static weft_status_t *add_here(void *arg, const weft_tensor_t *x, const weft_tensor_t *y,
                               weft_tensor_t **out) {
  (void)arg;
  return weft_add_alike(x, y, out);
}

static weft_status_t *list_add(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out) {
  const weft_element_add_t add = {add_here, NULL};
  weft_tensor_list_t *l = NULL;
  weft_status_t *s = weft_add_lists((const weft_tensor_list_t *)x, (const weft_tensor_list_t *)y, &add, &l);
  if (l != NULL) *out = &l->variant;
  return s;
}

/* ---- optionals ---- */

static weft_status_t *optional_zeros(const weft_variant_t *x, weft_variant_t **out) {
  const weft_optional_t *from = (const weft_optional_t *)x;
  weft_optional_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_optional_create(from->count, &o));
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < from->count; i++) s = weft_zeros_like(from->items[i], &o->items[i]);
  *out = &o->variant;
  return s;
}

static weft_status_t *optional_add(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out) {
  const weft_optional_t *a = (const weft_optional_t *)x, *b = (const weft_optional_t *)y;
  if ((a->count == 0) != (b->count == 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot add optionals because one has a value and the other doesn't.");
  }
  if (a->count != b->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot add optionals because they have different numbers of components (%d vs. %d).",
                      a->count, b->count);
  }
  weft_optional_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_optional_create(a->count, &o));
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < a->count; i++) s = weft_add_alike(a->items[i], b->items[i], &o->items[i]);
  *out = &o->variant;
  return s;
}

/* ---- ragged tensors: values are added, row splits stay ---- */

static weft_status_t *ragged_zeros(const weft_variant_t *x, weft_variant_t **out) {
  const weft_pack_t *from = (const weft_pack_t *)x;
  weft_pack_t *p = NULL;
  WEFT_RETURN_IF_ERROR(weft_pack_create(&weft_ragged_type, from->count, &p));
  *out = &p->variant;
  for (int i = 0; i + 1 < from->count; i++) p->items[i] = weft_tensor_retain(from->items[i]);
  return from->count == 0 ? NULL : weft_zeros_like(from->items[from->count - 1], &p->items[from->count - 1]);
}

static bool same_elements(const weft_tensor_t *a, const weft_tensor_t *b) {
  return a->dtype == b->dtype && weft_shape_eq(&a->shape, &b->shape) &&
         (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static weft_status_t *ragged_add(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out) {
  const weft_pack_t *a = (const weft_pack_t *)x, *b = (const weft_pack_t *)y;
  weft_pack_t *p = NULL;
  if (a->count != b->count || a->count == 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Can't add RaggedTensorVariants of different ragged rank. One is %d and the other is %d",
        a->count - 1, b->count - 1);
  }
  for (int i = 0; i + 1 < a->count; i++) {
    if (!weft_dtype_is_plain((int)a->items[i]->dtype) || !same_elements(a->items[i], b->items[i]))
      return WEFT_ERROR(INVALID_ARGUMENT, "Can't add RaggedTensorVariants with different row_splits.");
  }
  WEFT_RETURN_IF_ERROR(weft_pack_create(&weft_ragged_type, a->count, &p));
  *out = &p->variant;
  for (int i = 0; i + 1 < a->count; i++) p->items[i] = weft_tensor_retain(a->items[i]);
  return weft_add_alike(a->items[a->count - 1], b->items[a->count - 1], &p->items[a->count - 1]);
}

/* ---- maps: zeros are no entries, a sum has the keys of both ---- */

static weft_status_t *map_zeros(const weft_variant_t *x, weft_variant_t **out) {
  weft_tensor_map_t *m = NULL;
  (void)x;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_create(&m));
  *out = &m->variant;
  return NULL;
}

static weft_status_t *map_add(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out) {
  const weft_tensor_map_t *b = (const weft_tensor_map_t *)y;
  weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_copy((const weft_tensor_map_t *)x, &m));
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < b->count; i++) {
    const int64_t at = weft_tensor_map_find(m, b->entries[i].key);
    weft_tensor_t *sum = NULL;
    if (at < 0) {
      s = weft_tensor_map_put(m, b->entries[i].key, b->entries[i].value);
      continue;
    }
    s = weft_add_alike(b->entries[i].value, m->entries[at].value, &sum);
    if (s != NULL) break;
    weft_tensor_release(m->entries[at].value);
    m->entries[at].value = sum;
  }
  *out = &m->variant;
  return s;
}

/* ---- any variant. *out is set as soon as there is something to release ---- */

static const struct {
  const weft_variant_type_t *type;
  weft_status_t *(*zeros)(const weft_variant_t *x, weft_variant_t **out);
  weft_status_t *(*add)(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out);
} variant_ops[] = {{&weft_tensor_list_type, list_zeros, list_add},
                   {&weft_optional_type, optional_zeros, optional_add},
                   {&weft_ragged_type.variant, ragged_zeros, ragged_add},
                   {&weft_tensor_map_type, map_zeros, map_add}};
enum { NUM_VARIANT_OPS = sizeof variant_ops / sizeof variant_ops[0] };

static const char *name_of(const weft_variant_t *v) { return v == NULL ? "" : v->type->name; }

/* Of lists in lists: zeros and sums go into them on the stack. */
enum { MAX_DEPTH = 1000 };
static _Thread_local int depth;

static weft_status_t *too_deep(void) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "lists and optionals are nested more than %d deep, too deep for zeros and sums of them",
                    (int)MAX_DEPTH);
}

static weft_status_t *variant_zeros(const weft_variant_t *x, weft_variant_t **out) {
  for (int i = 0; i < NUM_VARIANT_OPS; i++) {
    if (x == NULL || x->type != variant_ops[i].type) continue;
    if (depth == MAX_DEPTH) return too_deep();
    depth++;
    weft_status_t *s = variant_ops[i].zeros(x, out);
    depth--;
    return s;
  }
  return WEFT_ERROR(
      INTERNAL,
      "No unary variant unary_op function found for op ZEROS_LIKE Variant type_name: %s for device type: CPU",
      name_of(x));
}

static weft_status_t *variant_add(const weft_variant_t *x, const weft_variant_t *y, weft_variant_t **out) {
  for (int i = 0; i < NUM_VARIANT_OPS; i++) {
    if (x == NULL || y == NULL || x->type != variant_ops[i].type || y->type != variant_ops[i].type) continue;
    if (depth == MAX_DEPTH) return too_deep();
    depth++;
    weft_status_t *s = variant_ops[i].add(x, y, out);
    depth--;
    return s;
  }
  return WEFT_ERROR(
      INTERNAL,
      "No variant binary_op function found for op ADD Variant type_name: '%s' and '%s' for device type: CPU",
      name_of(x), name_of(y));
}

/* ---- tensors ---- */

weft_status_t *weft_zeros_like(const weft_tensor_t *x, weft_tensor_t **out) {
  weft_tensor_t *y = NULL;
  weft_status_t *s = NULL;
  if (x->dtype == WEFT_RESOURCE)
    return WEFT_ERROR(UNIMPLEMENTED, "ZerosLike of %s", weft_dtype_name(x->dtype));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(x->dtype, &x->shape, NULL, &y));
  if (x->dtype != WEFT_VARIANT) weft_cpu_zero(y);
  for (int64_t i = 0; x->dtype == WEFT_VARIANT && s == NULL && i < x->count; i++) {
    s = variant_zeros(((weft_variant_t *const *)x->data)[i], &((weft_variant_t **)y->data)[i]);
  }
  if (s != NULL) {
    weft_tensor_release(y);
    return s;
  }
  *out = y;
  return NULL;
}

static weft_status_t *add_numbers(const weft_tensor_t *a, const weft_tensor_t *b, weft_tensor_t **out) {
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, a->dtype);
  if (add == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Trying to add unsupported dtype %d", (int)a->dtype);
  }
  weft_tensor_t *x = NULL, *y = NULL; /* of lists that a device made, copies in the host's memory */
  weft_status_t *s = weft_list_item_here(weft_tensor_retain((weft_tensor_t *)(uintptr_t)a), &x);
  if (s == NULL) s = weft_list_item_here(weft_tensor_retain((weft_tensor_t *)(uintptr_t)b), &y);
  if (s == NULL) s = weft_tensor_copy(x, out);
  if (s == NULL && y->count > 0) add((*out)->data, y->data, y->count, false);
  weft_tensor_release(x);
  weft_tensor_release(y);
  return s;
}

static weft_status_t *add_variants(const weft_tensor_t *a, const weft_tensor_t *b, weft_tensor_t **out) {
  weft_tensor_t *sum = NULL;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &a->shape, NULL, &sum));
  for (int64_t i = 0; s == NULL && i < a->count; i++) {
    s = variant_add(((weft_variant_t *const *)a->data)[i], ((weft_variant_t *const *)b->data)[i],
                    &((weft_variant_t **)sum->data)[i]);
  }
  if (s != NULL) {
    weft_tensor_release(sum);
    return s;
  }
  *out = sum;
  return NULL;
}

weft_status_t *weft_add_alike(const weft_tensor_t *a, const weft_tensor_t *b, weft_tensor_t **out) {
  WEFT_RETURN_IF_ERROR(check_alike(a, b));
  return a->dtype == WEFT_VARIANT ? add_variants(a, b, out) : add_numbers(a, b, out);
}

/* ---- kernels ---- */

static weft_status_t *zeros_like_compute(weft_kernel_ctx_t *c) {
  return weft_zeros_like(weft_in(c, 0), &c->outputs[0].tensor);
}

weft_status_t *weft_add_n_variants(weft_kernel_ctx_t *c) {
  weft_tensor_t *sum = weft_tensor_retain(weft_in(c, 0));
  weft_status_t *s = NULL;
  for (int i = 1; s == NULL && i < c->node->num_inputs; i++) {
    weft_tensor_t *next = NULL;
    s = weft_add_alike(sum, weft_in(c, i), &next);
    if (s != NULL) break;
    weft_tensor_release(sum);
    sum = next;
  }
  if (s != NULL) {
    weft_tensor_release(sum);
    return s;
  }
  weft_out_set(c, 0, sum);
  return NULL;
}

const weft_kernel_t weft_cpu_variant_kernels[] = {
    WEFT_KERNEL("AddN", "T", WEFT_DTYPE_BIT(WEFT_VARIANT), NULL, weft_add_n_variants, NULL),
    WEFT_KERNEL("ZerosLike", "T", WEFT_DTYPE_BIT(WEFT_VARIANT), NULL, zeros_like_compute, NULL),
    {0},
};
