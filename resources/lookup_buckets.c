/* resources/lookup_buckets.c - the buckets of a dense lookup table, in the order of TensorFlow's
 * MutableDenseHashTable: its hash, quadratic probing, doubling by the load factor. The order is seen in what
 * the table exports, and a checkpoint of one runtime is read by the other. */
#include <inttypes.h>

#include "resources/lookup_rows.h"

static uint64_t hash_element(const weft_tensor_t *keys, int64_t at) {
  switch (keys->dtype) {
    case WEFT_I32: return (uint64_t)((const int32_t *)keys->data)[at];
    case WEFT_I64: return (uint64_t)((const int64_t *)keys->data)[at];
    default: return weft_str_hash64(weft_tensor_str_at(keys, at));
  }
}

/* Of key `at`, of `width` elements. */
static uint64_t hash_key(const weft_tensor_t *keys, int64_t at, int64_t width) {
  uint64_t hash = 0;
  if (width == 1) return hash_element(keys, at);
  for (int64_t i = 0; i < width; i++) {
    hash ^= hash_element(keys, at * width + i) + UINT64_C(0x9e3779b97f4a7800) + (hash << 10) + (hash >> 4);
  }
  return hash;
}

static bool same_key(const weft_tensor_t *a, int64_t i, const weft_tensor_t *b, int64_t j, int64_t width) {
  for (int64_t k = 0; k < width; k++) {
    int64_t x = i * width + k, y = j * width + k;
    bool same = a->dtype == WEFT_I32   ? ((const int32_t *)a->data)[x] == ((const int32_t *)b->data)[y]
                : a->dtype == WEFT_I64 ? ((const int64_t *)a->data)[x] == ((const int64_t *)b->data)[y]
                                       : weft_str_eq(weft_tensor_str_at(a, x), weft_tensor_str_at(b, y));
    if (!same) return false;
  }
  return true;
}

/* ---- making buckets ---- */

static weft_status_t *allocate(weft_lookup_buckets_t *b, int64_t n, weft_tensor_t **keys,
                               weft_tensor_t **values) {
  weft_shape_t key_shape = weft_shape_matrix(n, b->key_width),
               value_shape = weft_shape_matrix(n, b->value_width);
  if (n < 4 || (n & (n - 1)) != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of buckets must be at least 4 and a power of 2, got: %" PRId64, n);
  }
  weft_tensor_t *k = NULL, *v = NULL;
  weft_status_t *s = weft_tensor_new(b->empty_key->dtype, &key_shape, NULL, &k);
  if (s == NULL) s = weft_tensor_new(b->value_dtype, &value_shape, NULL, &v);
  for (int64_t i = 0; s == NULL && i < n; i++) {
    s = weft_tensor_copy_elements(k, i * b->key_width, b->empty_key, 0, b->key_width);
  }
  if (s != NULL) {
    weft_tensor_release(k);
    weft_tensor_release(v);
    return s;
  }
  if (weft_dtype_is_plain(b->value_dtype) && v->bytes > 0) memset(v->data, 0, v->bytes);
  *keys = k;
  *values = v;
  return NULL;
}

static void set_buckets(weft_lookup_buckets_t *b, weft_tensor_t *keys, weft_tensor_t *values) {
  weft_tensor_release(b->keys);
  weft_tensor_release(b->values);
  b->keys = keys;
  b->values = values;
  b->num_buckets = keys->shape.dims[0];
}

weft_status_t *weft_lookup_buckets_init(weft_lookup_buckets_t *b, const weft_lookup_config_t *config) {
  const weft_tensor_t *empty = config->empty_key, *deleted = config->deleted_key;
  weft_tensor_t *keys = NULL, *values = NULL;
  if (!(config->max_load_factor > 0 && config->max_load_factor < 1)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "max_load_factor must be between 0 and 1, got: %g",
                      (double)config->max_load_factor);
  }
  if (config->value_shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Empty value must be a scalar or a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&config->value_shape));
  }
  if (empty->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Empty key must be a scalar or a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&empty->shape));
  }
  if (!weft_shape_eq(&empty->shape, &deleted->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Empty and deleted keys must have same shape, got shapes: %s and %s",
                      WEFT_SHAPE_TEXT(&empty->shape), WEFT_SHAPE_TEXT(&deleted->shape));
  }
  if (same_key(empty, 0, deleted, 0, empty->count))
    return WEFT_ERROR(INVALID_ARGUMENT, "Empty and deleted keys cannot be equal");
  b->empty_key = weft_tensor_retain(config->empty_key);
  b->deleted_key = weft_tensor_retain(config->deleted_key);
  b->key_width = empty->count;
  b->value_width = weft_shape_count(&config->value_shape);
  b->value_dtype = config->value_dtype;
  b->empty_hash = hash_key(empty, 0, b->key_width);
  b->deleted_hash = hash_key(deleted, 0, b->key_width);
  b->max_load_factor = config->max_load_factor;
  WEFT_RETURN_IF_ERROR(allocate(b, config->num_buckets, &keys, &values));
  set_buckets(b, keys, values);
  return NULL;
}

void weft_lookup_buckets_deinit(weft_lookup_buckets_t *b) {
  weft_tensor_release(b->keys);
  weft_tensor_release(b->values);
  weft_tensor_release(b->empty_key);
  weft_tensor_release(b->deleted_key);
  *b = (weft_lookup_buckets_t){0};
}

/* ---- probing ---- */

static bool is_empty(const weft_lookup_buckets_t *b, int64_t bucket) {
  return same_key(b->keys, bucket, b->empty_key, 0, b->key_width);
}
static bool is_deleted(const weft_lookup_buckets_t *b, int64_t bucket) {
  return same_key(b->keys, bucket, b->deleted_key, 0, b->key_width);
}

static weft_status_t *check_key(const weft_lookup_buckets_t *b, const weft_tensor_t *keys, int64_t at,
                                uint64_t hash) {
  if (hash == b->empty_hash && same_key(keys, at, b->empty_key, 0, b->key_width))
    return WEFT_ERROR(INVALID_ARGUMENT, "Using the empty_key as a table key is not allowed");
  if (hash == b->deleted_hash && same_key(keys, at, b->deleted_key, 0, b->key_width))
    return WEFT_ERROR(INVALID_ARGUMENT, "Using the deleted_key as a table key is not allowed");
  return NULL;
}

/* The bucket of the key, or the first one on its way that is free: an empty one or, `may_reuse`, one whose
 * key was removed. -1: neither. */
static int64_t probe(const weft_lookup_buckets_t *b, const weft_tensor_t *keys, int64_t at, uint64_t hash,
                     bool may_reuse, bool *out_has_key) {
  const uint64_t mask = (uint64_t)b->num_buckets - 1; /* imported buckets may be any number of them */
  int64_t bucket = (int64_t)(hash & mask);
  for (int64_t probes = 0; probes < b->num_buckets;
       bucket = (int64_t)(((uint64_t)bucket + (uint64_t)probes) & mask)) {
    *out_has_key = same_key(b->keys, bucket, keys, at, b->key_width);
    if (*out_has_key || is_empty(b, bucket) || (may_reuse && is_deleted(b, bucket))) return bucket;
    probes++;
  }
  return -1;
}

/* The bucket of key i, or where it would go. */
static weft_status_t *find_bucket(const weft_lookup_buckets_t *b, const weft_tensor_t *keys, int64_t i,
                                  int64_t *out_bucket, bool *out_has_key) {
  const uint64_t hash = hash_key(keys, i, b->key_width);
  WEFT_RETURN_IF_ERROR(check_key(b, keys, i, hash));
  *out_bucket = probe(b, keys, i, hash, false, out_has_key);
  return *out_bucket >= 0 ? NULL : WEFT_ERROR(INTERNAL, "the buckets of a dense lookup table are all in use");
}

weft_status_t *weft_lookup_buckets_find(const weft_lookup_buckets_t *b, const weft_tensor_t *keys, int64_t n,
                                        const weft_tensor_t *defaults, weft_tensor_t *out) {
  const int64_t width = b->value_width;
  for (int64_t i = 0; i < n; i++) {
    bool has_key = false;
    int64_t bucket = 0;
    WEFT_RETURN_IF_ERROR(find_bucket(b, keys, i, &bucket, &has_key));
    WEFT_RETURN_IF_ERROR(has_key ? weft_tensor_copy_elements(out, i * width, b->values, bucket * width, width)
                                 : weft_tensor_copy_elements(out, i * width, defaults, 0, width));
  }
  return NULL;
}

/* `is_rebuild`: buckets of the empty and the deleted key are left out. */
static weft_status_t *add(weft_lookup_buckets_t *b, const weft_tensor_t *keys, const weft_tensor_t *values,
                          int64_t n, bool is_rebuild) {
  for (int64_t i = 0; i < n; i++) {
    bool has_key = false;
    const uint64_t hash = hash_key(keys, i, b->key_width);
    weft_status_t *s = check_key(b, keys, i, hash);
    if (s != NULL && is_rebuild) {
      weft_status_free(s);
      continue;
    }
    if (s != NULL) return s;
    const int64_t bucket = probe(b, keys, i, hash, true, &has_key);
    if (bucket < 0) return WEFT_ERROR(INTERNAL, "the buckets of a dense lookup table are all in use");
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(b->values, bucket * b->value_width, values,
                                                   i * b->value_width, b->value_width));
    if (has_key) continue;
    WEFT_RETURN_IF_ERROR(
        weft_tensor_copy_elements(b->keys, bucket * b->key_width, keys, i * b->key_width, b->key_width));
    b->num_entries++;
  }
  return NULL;
}

/* TensorFlow compares in float. */
static bool is_full(const weft_lookup_buckets_t *b, int64_t entries, int64_t buckets) {
  return (float)entries > (float)buckets * b->max_load_factor;
}

static weft_status_t *rebuild(weft_lookup_buckets_t *b, int64_t num_buckets) {
  weft_tensor_t *keys = NULL, *values = NULL;
  WEFT_RETURN_IF_ERROR(allocate(b, num_buckets, &keys, &values));
  weft_tensor_t *old_keys = weft_tensor_retain(b->keys), *old_values = weft_tensor_retain(b->values);
  const int64_t n = b->num_buckets;
  set_buckets(b, keys, values);
  b->num_entries = 0;
  weft_status_t *s = add(b, old_keys, old_values, n, true);
  weft_tensor_release(old_keys);
  weft_tensor_release(old_values);
  return s;
}

weft_status_t *weft_lookup_buckets_insert(weft_lookup_buckets_t *b, const weft_tensor_t *keys,
                                          const weft_tensor_t *values, int64_t n) {
  const int64_t entries = b->num_entries + n; /* as if all keys were new */
  if (is_full(b, entries, b->num_buckets)) {
    int64_t buckets = b->num_buckets;
    do {
      if (buckets <= 0 || buckets > INT64_MAX / 2)
        return WEFT_NO_MEMORY("a table of %" PRId64 " keys", entries);
      buckets *= 2;
    } while (is_full(b, entries, buckets));
    WEFT_RETURN_IF_ERROR(rebuild(b, buckets));
  }
  return add(b, keys, values, n, false);
}

weft_status_t *weft_lookup_buckets_remove(weft_lookup_buckets_t *b, const weft_tensor_t *keys, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    bool has_key = false;
    int64_t bucket = 0;
    WEFT_RETURN_IF_ERROR(find_bucket(b, keys, i, &bucket, &has_key));
    if (!has_key) continue;
    WEFT_RETURN_IF_ERROR(
        weft_tensor_copy_elements(b->keys, bucket * b->key_width, b->deleted_key, 0, b->key_width));
    b->num_entries--;
  }
  return NULL;
}

weft_status_t *weft_lookup_buckets_import(weft_lookup_buckets_t *b, const weft_tensor_t *keys,
                                          const weft_tensor_t *values) {
  weft_tensor_t *k = NULL, *v = NULL;
  if (keys->shape.rank != 2 || values->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the buckets of a table must be matrices, not %s and %s",
                      WEFT_SHAPE_TEXT(&keys->shape), WEFT_SHAPE_TEXT(&values->shape));
  }
  if (keys->shape.dims[1] != b->key_width) {
    return WEFT_ERROR(INVALID_ARGUMENT, "keys of %" PRId64 " elements, not %s, are expected", b->key_width,
                      WEFT_SHAPE_TEXT(&keys->shape));
  }
  weft_status_t *s = weft_tensor_copy(keys, &k);
  if (s == NULL) s = weft_tensor_copy(values, &v);
  if (s != NULL) {
    weft_tensor_release(k);
    return s;
  }
  set_buckets(b, k, v);
  b->num_entries = 0;
  for (int64_t i = 0; i < b->num_buckets; i++) b->num_entries += !is_empty(b, i) && !is_deleted(b, i);
  return NULL;
}
