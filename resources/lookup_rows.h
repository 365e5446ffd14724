/* resources/lookup_rows.h - the entries of a lookup table: rows that a hash finds, or buckets.
 *
 * Only for the lookup table; Confined: its lock guards them.
 */
#ifndef WEFT_RESOURCES_LOOKUP_ROWS_H_
#define WEFT_RESOURCES_LOOKUP_ROWS_H_

#include "resources/lookup_table.h"

/* ---- rows in no order, found by open addressing with linear probing ---- */

typedef struct weft_lookup_rows {
  weft_tensor_t *keys;   /* [room] */
  weft_tensor_t *values; /* [room, width] */
  int64_t count, room, width;
  int64_t *slots;              /* a row's number + 1; 0: empty; -1: removed */
  int64_t num_slots, num_used; /* a power of two, or 0; slots that are not empty */
} weft_lookup_rows_t;

void weft_lookup_rows_deinit(weft_lookup_rows_t *r);
/* The row of key `at` of `keys`, or -1. */
int64_t weft_lookup_rows_find(const weft_lookup_rows_t *r, const weft_tensor_t *keys, int64_t at);
/* Makes a row of key and value `at`; the key is not there yet. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_rows_add(weft_lookup_rows_t *r, const weft_tensor_t *keys,
                                                    const weft_tensor_t *values, int64_t at);
WEFT_MUST_CHECK weft_status_t *weft_lookup_rows_remove(weft_lookup_rows_t *r, const weft_tensor_t *keys,
                                                       int64_t at);
/* Room for `count` rows in all. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_rows_reserve(weft_lookup_rows_t *r, weft_dtype_t key_dtype,
                                                        weft_dtype_t value_dtype, int64_t count);

/* ---- buckets of a dense table, found by quadratic probing ---- */

typedef struct weft_lookup_buckets {
  weft_tensor_t *keys, *values; /* [num_buckets, width] each; owned */
  weft_tensor_t *empty_key, *deleted_key;
  uint64_t empty_hash, deleted_hash;
  weft_dtype_t value_dtype;
  int64_t num_buckets, num_entries, key_width, value_width;
  float max_load_factor;
} weft_lookup_buckets_t;

/* Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED; the caller deinits *b in any case. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_buckets_init(weft_lookup_buckets_t *b,
                                                        const weft_lookup_config_t *config);
void weft_lookup_buckets_deinit(weft_lookup_buckets_t *b);
/* Each takes `n` keys, of key_width elements. Errors: INVALID_ARGUMENT (the empty or deleted key), INTERNAL
 * (no bucket left), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_buckets_find(const weft_lookup_buckets_t *b,
                                                        const weft_tensor_t *keys, int64_t n,
                                                        const weft_tensor_t *defaults, weft_tensor_t *out);
WEFT_MUST_CHECK weft_status_t *weft_lookup_buckets_insert(weft_lookup_buckets_t *b, const weft_tensor_t *keys,
                                                          const weft_tensor_t *values, int64_t n);
WEFT_MUST_CHECK weft_status_t *weft_lookup_buckets_remove(weft_lookup_buckets_t *b, const weft_tensor_t *keys,
                                                          int64_t n);
/* `keys` and `values` become the buckets, by copy. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_buckets_import(weft_lookup_buckets_t *b, const weft_tensor_t *keys,
                                                          const weft_tensor_t *values);

#endif /* WEFT_RESOURCES_LOOKUP_ROWS_H_ */
