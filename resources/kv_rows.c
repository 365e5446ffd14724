/* resources/kv_rows.c - rows by key. */
#include "resources/kv_rows.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "tensor/update.h"

void weft_kv_rows_init(weft_kv_rows_t *r, const weft_kv_config_t *config) {
  *r = (weft_kv_rows_t){.config = *config, .element = weft_dtype_size(config->dtype)};
  r->num_slots = config->rule == WEFT_KV_MOMENTUM || config->rule == WEFT_KV_ADAGRAD ? 1 : 0;
}

static void row_free(weft_kv_row_t *row) {
  if (row == NULL) return;
  weft_free(row->data);
  weft_free(row);
}

void weft_kv_rows_deinit(weft_kv_rows_t *r) {
  for (int64_t i = 0; i < r->count; i++) row_free(r->rows[i]);
  weft_free(r->rows);
  weft_map_deinit(&r->by_key);
  r->rows = NULL;
  r->count = r->capacity = 0;
}

weft_kv_row_t *weft_kv_rows_find(const weft_kv_rows_t *r, int64_t key) {
  return weft_map_get_u64(&r->by_key, (uint64_t)key);
}

/* ---- initial values ---- */

/* Steele et al., "Fast Splittable Pseudorandom Number Generators" (2014): the finalizer of SplitMix64. */
static uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/* In [0, 1), from the seed, the key and a number. */
static double uniform(const weft_kv_config_t *c, int64_t key, uint64_t i) {
  return (double)(mix(mix(mix((uint64_t)c->seed) ^ (uint64_t)key) + i) >> 11) * 0x1p-53;
}

static double initial(const weft_kv_config_t *c, int64_t key, int64_t i) {
  switch (c->init) {
    case WEFT_KV_UNIFORM: return c->init_value * (2 * uniform(c, key, (uint64_t)i) - 1);
    case WEFT_KV_NORMAL: { /* Box and Muller (1958) */
      double u = 1 - uniform(c, key, 2 * (uint64_t)i), v = uniform(c, key, 2 * (uint64_t)i + 1);
      return c->init_value * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    }
    default: return c->init_value;
  }
}

void weft_kv_rows_initial(const weft_kv_rows_t *r, int64_t key, int64_t count, void *out) {
  for (int64_t i = 0; i < count; i++) {
    double x = initial(&r->config, key, i);
    switch (r->config.dtype) {
      case WEFT_F32: ((float *)out)[i] = (float)x; break;
      case WEFT_F64: ((double *)out)[i] = x; break;
      case WEFT_I32: ((int32_t *)out)[i] = (int32_t)x; break;
      default: ((int64_t *)out)[i] = (int64_t)x; break;
    }
  }
}

/* ---- making rows ---- */

static weft_status_t *full(const weft_kv_rows_t *r, int64_t key) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no room for key %" PRId64 " beside %" PRId64 " others", key,
                    r->count);
}

static weft_status_t *set_length(weft_kv_rows_t *r, weft_kv_row_t *row, int64_t count) {
  size_t values = 0, bytes = 0;
  bool ok = weft_mul_size((size_t)count, r->element, &values) &&
            weft_mul_size(values, 1 + (size_t)r->num_slots, &bytes);
  void *data = ok ? weft_calloc(1, bytes + 1) : NULL;
  if (data == NULL) return full(r, row->key);
  weft_kv_rows_initial(r, row->key, count, data);
  weft_free(row->data);
  row->data = data;
  row->count = count;
  return NULL;
}

static weft_status_t *grow(weft_kv_rows_t *r, int64_t key) {
  if (r->config.max_rows > 0 && r->count >= r->config.max_rows) return full(r, key);
  if (r->count < r->capacity) return NULL;
  int64_t capacity = r->capacity == 0 ? 64 : r->capacity * 2;
  weft_kv_row_t **bigger = weft_realloc(r->rows, (size_t)capacity, sizeof(weft_kv_row_t *));
  if (bigger == NULL) return full(r, key);
  r->rows = bigger;
  r->capacity = capacity;
  return NULL;
}

weft_status_t *weft_kv_rows_make(weft_kv_rows_t *r, int64_t key, int64_t count, weft_kv_row_t **out) {
  weft_kv_row_t *row = weft_kv_rows_find(r, key);
  if (row != NULL) {
    *out = row;
    if (row->count == count) return NULL;
    if (r->config.rule == WEFT_KV_ASSIGN) return set_length(r, row, count);
    return WEFT_ERROR(INVALID_ARGUMENT, "key %" PRId64 " has %" PRId64 " values, not %" PRId64, key,
                      row->count, count);
  }
  WEFT_RETURN_IF_ERROR(grow(r, key));
  row = weft_calloc(1, sizeof *row);
  if (row == NULL) return full(r, key);
  row->key = key;
  weft_status_t *s = set_length(r, row, count);
  if (s == NULL) s = weft_map_put_u64(&r->by_key, (uint64_t)key, row, NULL);
  if (s != NULL) {
    row_free(row);
    return s;
  }
  r->rows[r->count++] = row;
  *out = row;
  return NULL;
}

/* ---- rules ---- */

#define T float
#define KV_NAME apply_f32
#include "resources/kv_rule.tmpl.h"
#define T double
#define KV_NAME apply_f64
#include "resources/kv_rule.tmpl.h"

void weft_kv_rows_add(const weft_kv_rows_t *r, void *to, const void *from, int64_t n) {
  if (n > 0) weft_update_find(WEFT_UPDATE_ADD, r->config.dtype)(to, from, n, false);
}

void weft_kv_rows_divide(const weft_kv_rows_t *r, void *to, int64_t n, int64_t by) {
  if (by <= 1) return;
  for (int64_t i = 0; i < n; i++) {
    switch (r->config.dtype) {
      case WEFT_F32: ((float *)to)[i] /= (float)by; break;
      case WEFT_F64: ((double *)to)[i] /= (double)by; break;
      case WEFT_I32: ((int32_t *)to)[i] = (int32_t)(((int32_t *)to)[i] / by); break;
      default: ((int64_t *)to)[i] /= by; break;
    }
  }
}

void weft_kv_rows_apply(const weft_kv_rows_t *r, weft_kv_row_t *row, const void *from) {
  const weft_kv_config_t *c = &r->config;
  if (row->count == 0) return;
  if (c->dtype == WEFT_F32) {
    apply_f32(c, row->data, from, row->count);
  } else if (c->dtype == WEFT_F64) {
    apply_f64(c, row->data, from, row->count);
  } else if (c->rule == WEFT_KV_ASSIGN) {
    memcpy(row->data, from, (size_t)row->count * r->element);
  } else {
    weft_kv_rows_add(r, row->data, from, row->count);
  }
}
