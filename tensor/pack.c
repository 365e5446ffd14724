/* tensor/pack.c - variants that are some tensors. */
#include "tensor/pack.h"

#include "base/alloc.h"

static void pack_destroy(weft_variant_t *v) {
  weft_pack_t *p = (weft_pack_t *)v;
  for (int i = 0; i < p->count; i++) weft_tensor_release(p->items[i]);
  weft_free(p);
}

enum { CSR_VALUES = 4, CSR_ITEMS = 5 };

/* TensorFlow's struct of a bool, that the parts have been checked, and the dtype of the values. */
static void csr_metadata(const weft_pack_t *p, weft_strbuf_t *out) {
  int32_t dtype = p->count == CSR_ITEMS ? (int32_t)p->items[CSR_VALUES]->dtype : 0;
  weft_strbuf_append(out, weft_str_of("\1\0\0", 4));
  weft_strbuf_append(out, weft_str_of((const char *)&dtype, sizeof dtype));
}

const weft_pack_type_t weft_boxed_type = {{"tensorflow::Tensor", pack_destroy}, NULL};
const weft_pack_type_t weft_ragged_type = {{"RaggedTensorVariant", pack_destroy}, NULL};
const weft_pack_type_t weft_csr_type = {{"tensorflow::CSRSparseMatrix", pack_destroy}, csr_metadata};

static const weft_pack_type_t *const types[] = {&weft_boxed_type, &weft_ragged_type, &weft_csr_type};
enum { NUM_TYPES = sizeof types / sizeof types[0] };

weft_status_t *weft_pack_create(const weft_pack_type_t *type, int count, weft_pack_t **out) {
  weft_pack_t *p = weft_calloc(1, sizeof *p + (size_t)count * sizeof p->items[0]);
  if (p == NULL) return WEFT_NO_MEMORY("a variant of %d tensors", count);
  atomic_init(&p->variant.refs, 1);
  p->variant.type = &type->variant;
  p->count = count;
  *out = p;
  return NULL;
}

weft_status_t *weft_pack_of(const weft_pack_type_t *type, weft_tensor_t *const *items, int count,
                            weft_pack_t **out) {
  WEFT_RETURN_IF_ERROR(weft_pack_create(type, count, out));
  for (int i = 0; i < count; i++) (*out)->items[i] = weft_tensor_retain(items[i]);
  return NULL;
}

const weft_pack_t *weft_pack_in(const weft_variant_t *v, const weft_pack_type_t *type) {
  return v != NULL && v->type == &type->variant ? (const weft_pack_t *)v : NULL;
}

const weft_pack_type_t *weft_pack_type_named(weft_str_t name) {
  for (int i = 0; i < NUM_TYPES; i++) {
    if (weft_str_is(name, types[i]->variant.name)) return types[i];
  }
  return NULL;
}

const weft_pack_type_t *weft_pack_type_of(const weft_variant_t *v) {
  return v != NULL && v->type->destroy == pack_destroy ? (const weft_pack_type_t *)v->type : NULL;
}

weft_status_t *weft_pack_scalar(weft_pack_t *p, weft_tensor_t **out) {
  weft_status_t *s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, out);
  if (s != NULL) {
    weft_variant_release(&p->variant);
    return s;
  }
  ((weft_variant_t **)(*out)->data)[0] = &p->variant;
  return NULL;
}
