/* resources/lookup_table.h - tables that look values up by key: vocabularies and counters.
 *
 * Three kinds share one type, as in TensorFlow. A static table gets its entries once and is read without a
 * lock afterwards. A mutable one changes at any time. A dense one does, too, and keeps its entries in an
 * array of buckets, which is also what it exports: its keys may be vectors, and two of them, the empty key
 * and the deleted key, mark buckets.
 */
#ifndef WEFT_RESOURCES_LOOKUP_TABLE_H_
#define WEFT_RESOURCES_LOOKUP_TABLE_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

typedef enum weft_lookup_kind {
  WEFT_LOOKUP_STATIC,
  WEFT_LOOKUP_MUTABLE,
  WEFT_LOOKUP_DENSE
} weft_lookup_kind_t;

typedef struct weft_lookup_config {
  weft_lookup_kind_t kind;
  weft_dtype_t key_dtype; /* WEFT_I32, WEFT_I64 or WEFT_STRING */
  weft_dtype_t value_dtype;
  weft_shape_t value_shape; /* of one value: a scalar or a vector */
  /* Of a dense table: */
  int64_t num_buckets; /* to begin with */
  float max_load_factor;
  weft_tensor_t *empty_key, *deleted_key; /* lent to weft_lookup_table_create, which retains them */
} weft_lookup_config_t;

typedef struct weft_lookup_table weft_lookup_table_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_lookup_table_type;

/* Errors: INVALID_ARGUMENT in TensorFlow's words (a key or value of another rank, bad numbers of a dense
 * table), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_create(const weft_lookup_config_t *config,
                                                        weft_object_t **out);
const weft_lookup_config_t *weft_lookup_table_config(const weft_lookup_table_t *t);
/* Entries; 0 before a static table is initialised. */
int64_t weft_lookup_table_size(weft_lookup_table_t *t);

/* In what follows keys and values have the dtypes of the table: the caller has checked that. */

/* The shape of what weft_lookup_table_find() gives. Errors: INVALID_ARGUMENT unless `defaults` is one value,
 * or one for each key. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_find_shape(const weft_lookup_table_t *t,
                                                            const weft_tensor_t *keys,
                                                            const weft_tensor_t *defaults, weft_shape_t *out);
/* Fills `out`, of that shape: the values of `keys`, and for keys that are not there the default. Only a
 * mutable table takes the default of the same place; the others take the first. Errors: FAILED_PRECONDITION
 * (not initialised), INVALID_ARGUMENT (the empty or deleted key). */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_find(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                                      const weft_tensor_t *defaults, weft_tensor_t *out);
/* Adds or replaces. Errors: INVALID_ARGUMENT (shapes; the empty or deleted key, the entries in front of which
 * are in the table then), UNIMPLEMENTED (static), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_insert(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                                        const weft_tensor_t *values);
/* Errors: as weft_lookup_table_insert(). A key that is not there is none. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_remove(weft_lookup_table_t *t, const weft_tensor_t *keys);
/* All entries: in no order, or a dense table's buckets. The caller owns both. Errors: ABORTED (not
 * initialised), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_export(weft_lookup_table_t *t, weft_tensor_t **out_keys,
                                                        weft_tensor_t **out_values);
/* Replaces everything by what weft_lookup_table_export() gave; initialises a static table. Errors: as
 * weft_lookup_table_insert() and weft_lookup_table_initialize(). */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_import(weft_lookup_table_t *t, const weft_tensor_t *keys,
                                                        const weft_tensor_t *values);

/* Where the entries of a static table come from, a batch at a time. The first is there from the beginning. */
typedef struct weft_lookup_source weft_lookup_source_t;
struct weft_lookup_source {
  const weft_tensor_t *keys, *values;              /* of one shape; lent until next(); NULL at the end */
  int64_t total;                                   /* entries in all batches */
  weft_status_t *(*next)(weft_lookup_source_t *s); /* NULL: there is but one batch */
};
/* Errors: FAILED_PRECONDITION: a key has two values, or the table was initialised with another number of
 * entries; those of the source. The table is not initialised then, but keeps what it got, as TensorFlow's
 * does. */
WEFT_MUST_CHECK weft_status_t *weft_lookup_table_initialize(weft_lookup_table_t *t, weft_lookup_source_t *s);
bool weft_lookup_table_is_initialized(const weft_lookup_table_t *t); /* always, unless it is static */

#endif /* WEFT_RESOURCES_LOOKUP_TABLE_H_ */
