/* kernels/cpu/list/tensor_map.c - the kernels of maps of tensors. */
#include "resources/tensor_map.h"

#include "kernels/attrs.h"
#include "kernels/cpu/loops/common.h"

/* Sets output 0; consumes `m`, on failure, too. */
static weft_status_t *give(weft_kernel_ctx_t *c, weft_tensor_map_t *m) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_variant_release(&m->variant);
    return s;
  }
  ((weft_variant_t **)t->data)[0] = &m->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

/* A map like that of input 0 which may be changed: the input's own if nothing else can see it. */
static weft_status_t *take(weft_kernel_ctx_t *c, weft_tensor_map_t **out) {
  weft_tensor_t *t = weft_in(c, 0);
  const weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_of(t, &m));
  weft_variant_t *v = ((weft_variant_t **)t->data)[0];
  if (weft_tensor_is_exclusive(t) && atomic_load_explicit(&v->refs, memory_order_acquire) == 1) {
    ((weft_variant_t **)t->data)[0] = NULL;
    *out = (weft_tensor_map_t *)v;
    return NULL;
  }
  return weft_tensor_map_copy(m, out);
}

static weft_status_t *map_make(weft_kernel_ctx_t *c) {
  weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_create(&m));
  return give(c, m);
}

static weft_status_t *map_size(weft_kernel_ctx_t *c) {
  const weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_of(weft_in(c, 0), &m));
  const int32_t n = (int32_t)m->count;
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *map_has(weft_kernel_ctx_t *c) {
  const weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_of(weft_in(c, 0), &m));
  const uint8_t has = weft_tensor_map_find(m, weft_in(c, 1)) >= 0;
  return weft_tensor_scalar(WEFT_BOOL, &has, &c->outputs[0].tensor);
}

static weft_status_t *map_insert(weft_kernel_ctx_t *c) {
  weft_tensor_map_t *m = NULL;
  WEFT_RETURN_IF_ERROR(take(c, &m));
  weft_status_t *s = weft_tensor_map_put(m, weft_in(c, 1), weft_in(c, 2));
  if (s == NULL) return give(c, m);
  weft_variant_release(&m->variant);
  return s;
}

/* Where the key of input 1 is. Errors: INVALID_ARGUMENT: nowhere. */
static weft_status_t *find(weft_kernel_ctx_t *c, const char *what, const weft_tensor_map_t **out,
                           int64_t *out_at) {
  const weft_tensor_t *key = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(weft_tensor_map_of(weft_in(c, 0), out));
  *out_at = weft_tensor_map_find(*out, key);
  if (*out_at >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Trying to %s. Could not find the key, a tensor of %s and shape %s, in the map.", what,
                    weft_dtype_name(key->dtype), WEFT_SHAPE_TEXT(&key->shape));
}

static weft_status_t *map_lookup(weft_kernel_ctx_t *c) {
  const weft_tensor_map_t *m = NULL;
  int64_t at = 0;
  WEFT_RETURN_IF_ERROR(find(c, "lookup non-existent key", &m, &at));
  weft_tensor_t *value = m->entries[at].value;
  if ((int)value->dtype != (int)weft_dtype_base(c->node->output_types[0])) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the value of the key is of %s, not %s",
                      weft_dtype_name(value->dtype), weft_dtype_name(c->node->output_types[0]));
  }
  weft_out_set(c, 0, weft_tensor_retain(value));
  return NULL;
}

static weft_status_t *map_erase(weft_kernel_ctx_t *c) {
  const weft_tensor_map_t *m = NULL;
  weft_tensor_map_t *taken = NULL;
  int64_t at = 0;
  WEFT_RETURN_IF_ERROR(find(c, "erase non-existent item", &m, &at));
  WEFT_RETURN_IF_ERROR(take(c, &taken));
  weft_tensor_map_erase(taken, at); /* a copy has its entries at the same places */
  return give(c, taken);
}

WEFT_ATTRS(map_keys, (TYPE, key_dtype))
static weft_status_t *map_keys(weft_kernel_ctx_t *c, const map_keys_attrs_t *attrs) {
  const weft_tensor_map_t *m = NULL;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_map_of(weft_in(c, 0), &m));
  if (m->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "TensorMapStackKeys cannot be called on empty map.");
  const weft_tensor_t *first = m->entries[0].key;
  weft_shape_t shape = first->shape;
  for (int64_t i = 0; i < m->count; i++) {
    if ((int)m->entries[i].key->dtype != attrs->key_dtype)
      return WEFT_ERROR(INVALID_ARGUMENT, "Key does not match requested dtype.");
    if (!weft_shape_eq(&m->entries[i].key->shape, &first->shape))
      return WEFT_ERROR(INVALID_ARGUMENT, "Keys must all have the same shape.");
  }
  if (shape.rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "the keys have too many dimensions");
  memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
  shape.dims[0] = m->count;
  shape.rank++;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, first->dtype, &shape, &out));
  for (int64_t i = 0; i < m->count; i++) {
    WEFT_RETURN_IF_ERROR(
        weft_tensor_copy_elements(out, i * first->count, m->entries[i].key, 0, first->count));
  }
  return NULL;
}

const weft_kernel_t weft_cpu_tensor_map_kernels[] = {
    {.op = "EmptyTensorMap", .compute = map_make},        {.op = "TensorMapErase", .compute = map_erase},
    {.op = "TensorMapHasKey", .compute = map_has},        {.op = "TensorMapInsert", .compute = map_insert},
    {.op = "TensorMapLookup", .compute = map_lookup},     {.op = "TensorMapSize", .compute = map_size},
    {.op = "TensorMapStackKeys", WEFT_COMPUTE(map_keys)}, {0},
};
