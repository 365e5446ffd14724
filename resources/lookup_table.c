/* resources/lookup_table.c - the three kinds of lookup tables. */
#include "resources/lookup_table.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "resources/lookup_rows.h"

struct weft_lookup_table {
  weft_object_t object; /* first */
  weft_lookup_config_t config;
  weft_shape_t key_shape;
  atomic_bool is_initialized;    /* a static table's rows do not change any more */
  weft_mutex_t mu;               /* guards what follows, but for such rows */
  weft_lookup_rows_t rows;       /* of a static or mutable table */
  weft_lookup_buckets_t buckets; /* of a dense one */
};

const weft_resource_type_t weft_lookup_table_type = {.name = "N10tensorflow6lookup15LookupInterfaceE",
                                                     .text = "LookupInterface"};

static void destroy(weft_object_t *o) {
  weft_lookup_table_t *t = (weft_lookup_table_t *)o;
  weft_lookup_rows_deinit(&t->rows);
  weft_lookup_buckets_deinit(&t->buckets);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static weft_status_t *init_kind(weft_lookup_table_t *t) {
  const weft_lookup_config_t *config = &t->config;
  if (!weft_shape_is_known(&config->value_shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined",
                      WEFT_SHAPE_TEXT(&config->value_shape));
  }
  if (weft_shape_count(&config->value_shape) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s has too many elements",
                      WEFT_SHAPE_TEXT(&config->value_shape));
  }
  if (config->kind == WEFT_LOOKUP_DENSE) {
    WEFT_RETURN_IF_ERROR(weft_lookup_buckets_init(&t->buckets, config));
    t->key_shape = t->buckets.empty_key->shape;
    return NULL;
  }
  t->rows.width = weft_shape_count(&config->value_shape);
  return NULL;
}

weft_status_t *weft_lookup_table_create(const weft_lookup_config_t *config, weft_object_t **out) {
  weft_lookup_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("creating a lookup table");
  atomic_init(&t->object.refs, 1);
  t->object.destroy = destroy;
  t->config = *config;
  t->key_shape = WEFT_SCALAR;
  atomic_init(&t->is_initialized, config->kind != WEFT_LOOKUP_STATIC);
  weft_mutex_init(&t->mu);
  weft_status_t *s = init_kind(t);
  t->config.empty_key = t->config.deleted_key = NULL; /* the buckets have them */
  if (s != NULL) {
    weft_object_release(&t->object);
    return s;
  }
  *out = &t->object;
  return NULL;
}

const weft_lookup_config_t *weft_lookup_table_config(const weft_lookup_table_t *t) { return &t->config; }

bool weft_lookup_table_is_initialized(const weft_lookup_table_t *t) {
  return atomic_load(&t->is_initialized);
}

int64_t weft_lookup_table_size(weft_lookup_table_t *t) {
  if (!weft_lookup_table_is_initialized(t)) return 0;
  weft_mutex_lock(&t->mu);
  int64_t n = t->config.kind == WEFT_LOOKUP_DENSE ? t->buckets.num_entries : t->rows.count;
  weft_mutex_unlock(&t->mu);
  return n;
}

/* ---- shapes ---- */

static weft_status_t *check_key_shape(const weft_lookup_table_t *t, const weft_tensor_t *keys) {
  const weft_shape_t *s = &keys->shape, *key = &t->key_shape;
  bool ends_with = s->rank >= key->rank;
  for (int i = 1; ends_with && i <= key->rank; i++)
    ends_with = s->dims[s->rank - i] == key->dims[key->rank - i];
  if (ends_with) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Input key shape %s must end with the table's key shape %s",
                    WEFT_SHAPE_TEXT(s), WEFT_SHAPE_TEXT(key));
}

/* Of the values of `keys`, each key having `key_rank` dimensions, each value the shape `value`. */
static weft_status_t *shape_of_values(const weft_tensor_t *keys, int key_rank, const weft_shape_t *value,
                                      weft_shape_t *out) {
  *out = keys->shape;
  out->rank = keys->shape.rank < key_rank ? 0 : keys->shape.rank - key_rank;
  if (out->rank + value->rank > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "keys of shape %s have too many dimensions",
                      WEFT_SHAPE_TEXT(&keys->shape));
  }
  for (int i = 0; i < value->rank; i++) out->dims[out->rank++] = value->dims[i];
  return NULL;
}

static weft_status_t *check_values(const weft_tensor_t *keys, int key_rank, const weft_shape_t *value,
                                   const weft_tensor_t *values) {
  weft_shape_t expected;
  WEFT_RETURN_IF_ERROR(shape_of_values(keys, key_rank, value, &expected));
  if (weft_shape_eq(&values->shape, &expected)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected shape %s for value, got %s", WEFT_SHAPE_TEXT(&expected),
                    WEFT_SHAPE_TEXT(&values->shape));
}

/* A dense table takes its keys in one dimension. */
static weft_status_t *count_keys(const weft_lookup_table_t *t, const weft_tensor_t *keys, int64_t *out) {
  weft_shape_t expected = weft_shape_vector(keys->shape.rank == 0 ? 1 : keys->shape.dims[0]);
  *out = keys->count;
  if (t->config.kind != WEFT_LOOKUP_DENSE) return NULL;
  *out = expected.dims[0];
  /* Both are rows of the first dimension, so that a product would not overflow if they are equal. */
  int64_t width = t->buckets.key_width;
  bool fits =
      *out == 0 || width == 0 ? keys->count == 0 : keys->count % width == 0 && keys->count / width == *out;
  if (fits) return NULL;
  for (int i = 0; i < t->key_shape.rank; i++) expected.dims[expected.rank++] = t->key_shape.dims[i];
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected key shape %s got %s", WEFT_SHAPE_TEXT(&expected),
                    WEFT_SHAPE_TEXT(&keys->shape));
}

/* ---- operations ---- */

weft_status_t *weft_lookup_table_find_shape(const weft_lookup_table_t *t, const weft_tensor_t *keys,
                                            const weft_tensor_t *defaults, weft_shape_t *out) {
  const weft_shape_t *value = &t->config.value_shape;
  WEFT_RETURN_IF_ERROR(check_key_shape(t, keys));
  WEFT_RETURN_IF_ERROR(shape_of_values(keys, t->key_shape.rank, value, out));
  if (weft_shape_eq(&defaults->shape, value) || weft_shape_eq(&defaults->shape, out)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected shape %s or %s for default value, got %s",
                    WEFT_SHAPE_TEXT(value), WEFT_SHAPE_TEXT(out), WEFT_SHAPE_TEXT(&defaults->shape));
}

static weft_status_t *find_rows(const weft_lookup_table_t *t, const weft_tensor_t *keys,
                                const weft_tensor_t *defaults, weft_tensor_t *out) {
  const int64_t width = t->rows.width;
  const bool has_each = t->config.kind == WEFT_LOOKUP_MUTABLE && defaults->count == out->count;
  for (int64_t i = 0; i < keys->count; i++) {
    const int64_t row = weft_lookup_rows_find(&t->rows, keys, i);
    const weft_tensor_t *from = row < 0 ? defaults : t->rows.values;
    const int64_t at = row >= 0 ? row : has_each ? i : 0;
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, i * width, from, at * width, width));
  }
  return NULL;
}

weft_status_t *weft_lookup_table_find(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                      const weft_tensor_t *defaults, weft_tensor_t *out) {
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(count_keys(t, keys, &n));
  if (!weft_lookup_table_is_initialized(t)) return WEFT_ERROR(FAILED_PRECONDITION, "Table not initialized.");
  if (t->rows.width == 0 && t->config.kind != WEFT_LOOKUP_DENSE) return NULL;
  if (t->config.kind == WEFT_LOOKUP_STATIC) return find_rows(t, keys, defaults, out);
  weft_mutex_lock(&t->mu);
  weft_status_t *s = t->config.kind == WEFT_LOOKUP_DENSE
                         ? weft_lookup_buckets_find(&t->buckets, keys, n, defaults, out)
                         : find_rows(t, keys, defaults, out);
  weft_mutex_unlock(&t->mu);
  return s;
}

/* Adds rows or replaces them. The caller holds t->mu. */
static weft_status_t *put_rows(weft_lookup_table_t *t, const weft_tensor_t *keys,
                               const weft_tensor_t *values) {
  const int64_t width = t->rows.width;
  for (int64_t i = 0; i < keys->count; i++) {
    const int64_t row = weft_lookup_rows_find(&t->rows, keys, i);
    WEFT_RETURN_IF_ERROR(
        row < 0 ? weft_lookup_rows_add(&t->rows, keys, values, i)
                : weft_tensor_copy_elements(t->rows.values, row * width, values, i * width, width));
  }
  return NULL;
}

weft_status_t *weft_lookup_table_insert(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                        const weft_tensor_t *values) {
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(check_key_shape(t, keys));
  WEFT_RETURN_IF_ERROR(check_values(keys, t->key_shape.rank, &t->config.value_shape, values));
  if (t->config.kind == WEFT_LOOKUP_STATIC) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Insert not supported by InitializableLookupTable implementations: the table is filled "
                      "once, by its initializer");
  }
  WEFT_RETURN_IF_ERROR(count_keys(t, keys, &n));
  weft_mutex_lock(&t->mu);
  weft_status_t *s = t->config.kind == WEFT_LOOKUP_DENSE
                         ? weft_lookup_buckets_insert(&t->buckets, keys, values, n)
                         : put_rows(t, keys, values);
  weft_mutex_unlock(&t->mu);
  return s;
}

weft_status_t *weft_lookup_table_remove(weft_lookup_table_t *t, const weft_tensor_t *keys) {
  int64_t n = 0;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(check_key_shape(t, keys));
  if (t->config.kind == WEFT_LOOKUP_STATIC) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Remove not supported by InitializableLookupTable implementations: the table is filled "
                      "once, by its initializer");
  }
  WEFT_RETURN_IF_ERROR(count_keys(t, keys, &n));
  weft_mutex_lock(&t->mu);
  if (t->config.kind == WEFT_LOOKUP_DENSE) {
    s = weft_lookup_buckets_remove(&t->buckets, keys, n);
  } else {
    for (int64_t i = 0; s == NULL && i < n; i++) s = weft_lookup_rows_remove(&t->rows, keys, i);
  }
  weft_mutex_unlock(&t->mu);
  return s;
}

/* ---- all entries ---- */

static weft_status_t *export_rows(const weft_lookup_table_t *t, weft_tensor_t *keys, weft_tensor_t *values) {
  if (t->rows.count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(keys, 0, t->rows.keys, 0, keys->count));
  return weft_tensor_copy_elements(values, 0, t->rows.values, 0, values->count);
}

/* The caller holds t->mu. */
static weft_status_t *export_entries(const weft_lookup_table_t *t, weft_tensor_t **out_keys,
                                     weft_tensor_t **out_values) {
  if (t->config.kind == WEFT_LOOKUP_DENSE) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy(t->buckets.keys, out_keys));
    return weft_tensor_copy(t->buckets.values, out_values);
  }
  weft_shape_t keys = weft_shape_vector(t->rows.count), values = keys;
  for (int i = 0; i < t->config.value_shape.rank; i++)
    values.dims[values.rank++] = t->config.value_shape.dims[i];
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->config.key_dtype, &keys, NULL, out_keys));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->config.value_dtype, &values, NULL, out_values));
  return export_rows(t, *out_keys, *out_values);
}

weft_status_t *weft_lookup_table_export(weft_lookup_table_t *t, weft_tensor_t **out_keys,
                                        weft_tensor_t **out_values) {
  weft_tensor_t *keys = NULL, *values = NULL;
  if (!weft_lookup_table_is_initialized(t)) return WEFT_ERROR(ABORTED, "HashTable is not initialized.");
  weft_mutex_lock(&t->mu);
  weft_status_t *s = export_entries(t, &keys, &values);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_tensor_release(keys);
    weft_tensor_release(values);
    return s;
  }
  *out_keys = keys;
  *out_values = values;
  return NULL;
}

static weft_status_t *import_dense(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                   const weft_tensor_t *values) {
  weft_shape_t value =
      t->config.value_shape; /* buckets have vectors, of one element where they are scalars */
  if (value.rank == 0) value = weft_shape_vector(1);
  WEFT_RETURN_IF_ERROR(check_values(keys, 1, &value, values));
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_lookup_buckets_import(&t->buckets, keys, values);
  weft_mutex_unlock(&t->mu);
  return s;
}

static weft_status_t *import_static(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                    const weft_tensor_t *values) {
  weft_lookup_source_t source = {.keys = keys, .values = values, .total = keys->count};
  if (keys->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "keys and values cannot be empty tensors.");
  return weft_lookup_table_initialize(t, &source);
}

weft_status_t *weft_lookup_table_import(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                        const weft_tensor_t *values) {
  WEFT_RETURN_IF_ERROR(check_key_shape(t, keys));
  if (t->config.kind == WEFT_LOOKUP_DENSE) return import_dense(t, keys, values);
  WEFT_RETURN_IF_ERROR(check_values(keys, 0, &t->config.value_shape, values));
  if (t->config.kind == WEFT_LOOKUP_STATIC) return import_static(t, keys, values);
  weft_mutex_lock(&t->mu);
  weft_lookup_rows_deinit(&t->rows);
  weft_status_t *s = put_rows(t, keys, values);
  weft_mutex_unlock(&t->mu);
  return s;
}

/* ---- initialising a static table ---- */

static bool same_value(const weft_tensor_t *a, int64_t i, const weft_tensor_t *b, int64_t j) {
  switch (a->dtype) {
    case WEFT_STRING: return weft_str_eq(weft_tensor_str_at(a, i), weft_tensor_str_at(b, j));
    case WEFT_F32:
      return ((const float *)a->data)[i] == ((const float *)b->data)[j]; /* NaN is no value twice */
    case WEFT_F64: return ((const double *)a->data)[i] == ((const double *)b->data)[j];
    default: break;
  }
  const size_t size = weft_dtype_size(a->dtype);
  return memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)j * size, size) ==
         0;
}

static void print_element(const weft_tensor_t *t, int64_t i, weft_strbuf_t *out) {
  switch (t->dtype) {
    case WEFT_STRING: weft_strbuf_append(out, weft_tensor_str_at(t, i)); break;
    case WEFT_F32: weft_strbuf_printf(out, "%g", (double)((const float *)t->data)[i]); break;
    case WEFT_F64: weft_strbuf_printf(out, "%g", ((const double *)t->data)[i]); break;
    case WEFT_I32: weft_strbuf_printf(out, "%" PRId32, ((const int32_t *)t->data)[i]); break;
    case WEFT_I64: weft_strbuf_printf(out, "%" PRId64, ((const int64_t *)t->data)[i]); break;
    default: weft_strbuf_printf(out, "%d", ((const uint8_t *)t->data)[i]); break;
  }
}

static weft_status_t *two_values(const weft_lookup_table_t *t, int64_t row, const weft_tensor_t *values,
                                 int64_t i) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "HashTable has different value for same key. Key ");
  print_element(t->rows.keys, row, &text);
  weft_strbuf_puts(&text, " has ");
  print_element(t->rows.values, row, &text);
  weft_strbuf_puts(&text, " and trying to add value ");
  print_element(values, i, &text);
  weft_status_t *s = WEFT_ERROR(FAILED_PRECONDITION, "%s", text.failed ? "a key has two values" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *add_entries(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                  const weft_tensor_t *values) {
  for (int64_t i = 0; i < keys->count; i++) {
    const int64_t row = weft_lookup_rows_find(&t->rows, keys, i);
    if (row < 0) {
      WEFT_RETURN_IF_ERROR(weft_lookup_rows_add(&t->rows, keys, values, i));
    } else if (!same_value(t->rows.values, row, values, i)) {
      return two_values(t, row, values, i);
    }
  }
  return NULL;
}

/* The caller holds t->mu. */
static weft_status_t *fill(weft_lookup_table_t *t, weft_lookup_source_t *source) {
  if (weft_lookup_table_is_initialized(t)) {
    if (source->total == t->rows.count) return NULL; /* taken for the same entries */
    return WEFT_ERROR(FAILED_PRECONDITION, "Table was already initialized with different data.");
  }
  while (source->keys != NULL) {
    WEFT_RETURN_IF_ERROR(add_entries(t, source->keys, source->values));
    if (source->next == NULL) break;
    WEFT_RETURN_IF_ERROR(source->next(source));
  }
  atomic_store(&t->is_initialized, true);
  return NULL;
}

weft_status_t *weft_lookup_table_initialize(weft_lookup_table_t *t, weft_lookup_source_t *source) {
  weft_mutex_lock(&t->mu);
  weft_status_t *s = fill(t, source);
  weft_mutex_unlock(&t->mu);
  return s;
}
