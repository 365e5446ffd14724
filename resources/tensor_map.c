/* resources/tensor_map.c - the entries of a map of tensors. */
#include "resources/tensor_map.h"

#include <inttypes.h>

#include "base/alloc.h"

static void map_destroy(weft_variant_t *v) {
  weft_tensor_map_t *m = (weft_tensor_map_t *)v;
  for (int64_t i = 0; i < m->count; i++) {
    weft_tensor_release(m->entries[i].key);
    weft_tensor_release(m->entries[i].value);
  }
  weft_free(m->entries);
  weft_free(m);
}

const weft_variant_type_t weft_tensor_map_type = {"tensorflow::TensorMap", map_destroy};

static weft_status_t *create(int64_t capacity, weft_tensor_map_t **out) {
  weft_tensor_map_t *m = weft_calloc(1, sizeof *m);
  weft_tensor_map_entry_t *entries = weft_calloc((size_t)capacity, sizeof *entries);
  if (m == NULL || entries == NULL) {
    weft_free(m);
    weft_free(entries);
    return WEFT_NO_MEMORY("a tensor map of %" PRId64 " entries", capacity);
  }
  atomic_init(&m->variant.refs, 1);
  m->variant.type = &weft_tensor_map_type;
  m->capacity = capacity;
  m->entries = entries;
  *out = m;
  return NULL;
}

weft_status_t *weft_tensor_map_create(weft_tensor_map_t **out) { return create(4, out); }

weft_status_t *weft_tensor_map_copy(const weft_tensor_map_t *from, weft_tensor_map_t **out) {
  WEFT_RETURN_IF_ERROR(create(from->count + 4, out));
  for (int64_t i = 0; i < from->count; i++) {
    (*out)->entries[i] = from->entries[i];
    weft_tensor_retain(from->entries[i].key);
    weft_tensor_retain(from->entries[i].value);
  }
  (*out)->count = from->count;
  return NULL;
}

weft_status_t *weft_tensor_map_of(const weft_tensor_t *t, const weft_tensor_map_t **out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input map must be a scalar. Saw: %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  const weft_variant_t *v = t->dtype == WEFT_VARIANT ? ((weft_variant_t *const *)t->data)[0] : NULL;
  if (v == NULL || v->type != &weft_tensor_map_type) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input handle is not a map. Saw: '%s'",
                      v == NULL ? "nothing" : v->type->name);
  }
  *out = (const weft_tensor_map_t *)v;
  return NULL;
}

static uint64_t hash_of(const weft_tensor_t *key) {
  uint64_t hash = (uint64_t)key->dtype;
  if (weft_dtype_is_plain(key->dtype)) return hash ^ weft_str_hash(weft_str_of(key->data, key->bytes));
  for (int64_t i = 0; key->dtype == WEFT_STRING && i < key->count; i++)
    hash = hash * 31 + weft_str_hash(weft_tensor_str_at(key, i));
  return hash;
}

static bool same_key(const weft_tensor_t *a, const weft_tensor_t *b) {
  if (a->dtype != b->dtype || !weft_shape_eq(&a->shape, &b->shape)) return false;
  if (weft_dtype_is_plain(a->dtype)) return a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0;
  if (a->dtype != WEFT_STRING) return false; /* no handle or variant is the same as another */
  for (int64_t i = 0; i < a->count; i++) {
    if (!weft_str_eq(weft_tensor_str_at(a, i), weft_tensor_str_at(b, i))) return false;
  }
  return true;
}

int64_t weft_tensor_map_find(const weft_tensor_map_t *m, const weft_tensor_t *key) {
  const uint64_t hash = hash_of(key);
  for (int64_t i = 0; i < m->count; i++) {
    if (m->entries[i].hash == hash && same_key(m->entries[i].key, key)) return i;
  }
  return -1;
}

weft_status_t *weft_tensor_map_put(weft_tensor_map_t *m, weft_tensor_t *key, weft_tensor_t *value) {
  const int64_t at = weft_tensor_map_find(m, key);
  if (at >= 0) {
    weft_tensor_retain(value);
    weft_tensor_release(m->entries[at].value);
    m->entries[at].value = value;
    return NULL;
  }
  if (m->count == m->capacity) {
    weft_tensor_map_entry_t *more = weft_realloc(m->entries, (size_t)m->capacity * 2, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("a tensor map of %" PRId64 " entries", m->count + 1);
    m->entries = more;
    m->capacity *= 2;
  }
  m->entries[m->count++] =
      (weft_tensor_map_entry_t){hash_of(key), weft_tensor_retain(key), weft_tensor_retain(value)};
  return NULL;
}

void weft_tensor_map_erase(weft_tensor_map_t *m, int64_t at) {
  weft_tensor_release(m->entries[at].key);
  weft_tensor_release(m->entries[at].value);
  m->entries[at] = m->entries[--m->count];
}
