/* resources/kv_rows.h - the rows of a table: where they lie, what they begin with, what a rule does to
 * them. */
#ifndef WEFT_RESOURCES_KV_ROWS_H_
#define WEFT_RESOURCES_KV_ROWS_H_

#include "resources/kv_table.h"

/* One row. Rows of equal length have their values and slots in `data` for good; others get new memory with a
 * new length. */
typedef struct weft_kv_row {
  int64_t key, count; /* elements of the values */
  void *data;         /* values, then the rule's slots */
} weft_kv_row_t;

typedef struct weft_kv_rows { /* Confined: the table's lock. */
  weft_kv_config_t config;
  size_t element;       /* bytes */
  int num_slots;        /* rows of the same length that the rule keeps beside the values */
  weft_map_t by_key;    /* -> weft_kv_row_t */
  weft_kv_row_t **rows; /* all; owned, with their data */
  int64_t count, capacity;
} weft_kv_rows_t;

void weft_kv_rows_init(weft_kv_rows_t *r, const weft_kv_config_t *config);
void weft_kv_rows_deinit(weft_kv_rows_t *r);
weft_kv_row_t *weft_kv_rows_find(const weft_kv_rows_t *r, int64_t key); /* NULL if there is none */
/* Finds or makes the row of `key` with its initial values and `count` elements. Errors: RESOURCE_EXHAUSTED;
 * INVALID_ARGUMENT (a row of another length, but for a rule that assigns: then it gets the new one). */
WEFT_MUST_CHECK weft_status_t *weft_kv_rows_make(weft_kv_rows_t *r, int64_t key, int64_t count,
                                                 weft_kv_row_t **out);
/* What a pull of a key without a row gets. */
void weft_kv_rows_initial(const weft_kv_rows_t *r, int64_t key, int64_t count, void *out);
/* The rule, with `from` of row->count elements. */
void weft_kv_rows_apply(const weft_kv_rows_t *r, weft_kv_row_t *row, const void *from);
/* `to` += `from`; then, with a count above 1, `to` /= count. */
void weft_kv_rows_add(const weft_kv_rows_t *r, void *to, const void *from, int64_t n);
void weft_kv_rows_divide(const weft_kv_rows_t *r, void *to, int64_t n, int64_t by);

#endif /* WEFT_RESOURCES_KV_ROWS_H_ */
