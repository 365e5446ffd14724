/* resources/kv_snapshot.c - a table as five tensors, and back.
 *
 *   keys    [n] int64, ascending            lens   [n] int64: how many values each has
 *   values  flat, key after key             slots  flat: what the rule keeps beside the values, likewise
 *   state   int64: version, the table's clock, the number of workers, their clocks (-1: removed), then per
 *           worker whose requests were seen: its number, the highest id, WEFT_KV_WINDOW bits
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "resources/kv_table_impl.h"

enum { VERSION = 1, HEAD = 3, PER_WINDOW = 2 + WEFT_KV_WINDOW_WORDS };

/* ---- out ---- */

static int by_key(const void *a, const void *b) {
  const weft_kv_row_t *const *x = a, *const *y = b;
  return ((*x)->key > (*y)->key) - ((*x)->key < (*y)->key);
}

static weft_status_t *new_vector(weft_dtype_t dtype, int64_t n, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(n);
  return weft_tensor_new(dtype, &shape, NULL, out);
}

static weft_status_t *export_rows(const weft_kv_table_t *t, weft_kv_row_t **sorted, weft_tensor_t *out[5]) {
  int64_t n = t->rows.count, total = 0;
  for (int64_t i = 0; i < n; i++) total += sorted[i]->count;
  WEFT_RETURN_IF_ERROR(new_vector(WEFT_I64, n, &out[0]));
  WEFT_RETURN_IF_ERROR(new_vector(t->config.dtype, total, &out[1]));
  WEFT_RETURN_IF_ERROR(new_vector(WEFT_I64, n, &out[2]));
  WEFT_RETURN_IF_ERROR(new_vector(t->config.dtype, total * t->rows.num_slots, &out[3]));
  char *values = out[1]->data, *slots = out[3]->data;
  for (int64_t i = 0; i < n; i++) {
    size_t bytes = (size_t)sorted[i]->count * t->rows.element, more = bytes * (size_t)t->rows.num_slots;
    ((int64_t *)out[0]->data)[i] = sorted[i]->key;
    ((int64_t *)out[2]->data)[i] = sorted[i]->count;
    if (bytes > 0) memcpy(values, sorted[i]->data, bytes);
    if (more > 0) memcpy(slots, (const char *)sorted[i]->data + bytes, more);
    values += bytes;
    slots += more;
  }
  return NULL;
}

static weft_status_t *export_state(const weft_kv_table_t *t, weft_tensor_t **out) {
  int64_t workers = t->clocked.num_workers, windows = (int64_t)t->windows.count;
  WEFT_RETURN_IF_ERROR(new_vector(WEFT_I64, HEAD + workers + windows * PER_WINDOW, out));
  int64_t *to = (*out)->data;
  *to++ = VERSION;
  *to++ = t->clock;
  *to++ = workers;
  for (int64_t i = 0; i < workers; i++)
    *to++ = t->clocked.workers[i].is_removed ? -1 : t->clocked.workers[i].clock;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->windows, &at, &e);) {
    const weft_kv_window_t *w = e.value;
    *to++ = w->worker;
    *to++ = w->high;
    memcpy(to, w->bits, sizeof w->bits);
    to += WEFT_KV_WINDOW_WORDS;
  }
  return NULL;
}

weft_status_t *weft_kv_table_export(weft_kv_table_t *t, weft_tensor_t *out[5]) {
  weft_tensor_t *made[5] = {NULL};
  weft_mutex_lock(&t->clocked.room.mu);
  weft_status_t *s = weft_status_clone(t->failure);
  weft_kv_row_t **sorted = weft_calloc((size_t)t->rows.count + 1, sizeof(weft_kv_row_t *));
  if (s == NULL && sorted == NULL) s = WEFT_NO_MEMORY("exporting %" PRId64 " keys", t->rows.count);
  if (s == NULL && t->rows.count > 0) {
    memcpy(sorted, t->rows.rows, (size_t)t->rows.count * sizeof(weft_kv_row_t *));
    qsort(sorted, (size_t)t->rows.count, sizeof(weft_kv_row_t *), by_key);
  }
  if (s == NULL) s = export_rows(t, sorted, made);
  if (s == NULL) s = export_state(t, &made[4]);
  weft_mutex_unlock(&t->clocked.room.mu);
  weft_free(sorted);
  for (int i = 0; i < 5; i++) {
    if (s == NULL) out[i] = made[i];
    if (s != NULL) weft_tensor_release(made[i]);
  }
  return s;
}

/* ---- in ---- */

static weft_status_t *malformed(const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "what a table was exported as: %s", why);
}

static weft_status_t *check(const weft_kv_table_t *t, weft_tensor_t *const in[5]) {
  for (int i = 0; i < 5; i++) {
    bool is_values = i == 1 || i == 3;
    if (in[i]->shape.rank != 1) return malformed("it must be vectors");
    if (in[i]->dtype != (is_values ? t->config.dtype : WEFT_I64))
      return malformed("it is of another dtype than the table");
  }
  if (in[0]->count != in[2]->count) return malformed("keys and lens differ in number");
  int64_t total = 0;
  for (int64_t i = 0; i < in[2]->count; i++) {
    int64_t n = ((const int64_t *)in[2]->data)[i];
    if (n < 0 || n > in[1]->count - total) return malformed("the lens do not fit the values");
    if (t->config.width > 0 && n != t->config.width)
      return malformed("the rows have another width than the table");
    if (i > 0 && ((const int64_t *)in[0]->data)[i] <= ((const int64_t *)in[0]->data)[i - 1]) {
      return malformed("the keys do not ascend");
    }
    total += n;
  }
  if (total != in[1]->count) return malformed("the lens do not fit the values");
  if (in[3]->count != total * t->rows.num_slots) return malformed("the slots are of another rule");
  const int64_t *state = in[4]->data;
  int64_t workers = t->clocked.num_workers, rest = in[4]->count - HEAD - workers;
  if (in[4]->count < HEAD || state[0] != VERSION) return malformed("its state is of another version");
  if (state[2] != workers || rest < 0 || rest % PER_WINDOW != 0)
    return malformed("its state is of other workers");
  return NULL;
}

static weft_status_t *import_rows(weft_kv_rows_t *rows, weft_tensor_t *const in[5]) {
  const char *values = in[1]->data, *slots = in[3]->data;
  for (int64_t i = 0; i < in[0]->count; i++) {
    weft_kv_row_t *row = NULL;
    int64_t n = ((const int64_t *)in[2]->data)[i];
    size_t bytes = (size_t)n * rows->element, more = bytes * (size_t)rows->num_slots;
    WEFT_RETURN_IF_ERROR(weft_kv_rows_make(rows, ((const int64_t *)in[0]->data)[i], n, &row));
    if (bytes > 0) memcpy(row->data, values, bytes);
    if (more > 0) memcpy((char *)row->data + bytes, slots, more);
    values += bytes;
    slots += more;
  }
  return NULL;
}

static weft_status_t *import_windows(weft_map_t *windows, const weft_tensor_t *state, int64_t at) {
  for (const int64_t *from = (const int64_t *)state->data + at,
                     *end = (const int64_t *)state->data + state->count;
       from < end; from += PER_WINDOW) {
    weft_kv_window_t *w = weft_kv_window_of(windows, from[0]);
    if (w == NULL) return WEFT_NO_MEMORY("importing the requests of worker %" PRId64, from[0]);
    w->high = from[1];
    memcpy(w->bits, from + 2, sizeof w->bits);
  }
  return NULL;
}

static void import_clocks(weft_kv_table_t *t, const int64_t *state) {
  t->clock = state[1];
  for (int i = 0; i < t->clocked.num_workers; i++) {
    t->clocked.workers[i].is_removed = state[HEAD + i] < 0;
    if (state[HEAD + i] >= 0) t->clocked.workers[i].clock = state[HEAD + i];
  }
  while (t->first_pending != NULL) {
    weft_kv_pending_t *p = t->first_pending;
    t->first_pending = p->next;
    weft_kv_pending_free(p);
  }
  t->end_pending = &t->first_pending;
  t->num_pending = 0;
}

weft_status_t *weft_kv_table_import(weft_kv_table_t *t, weft_tensor_t *const in[5]) {
  WEFT_RETURN_IF_ERROR(check(t, in));
  weft_kv_rows_t rows;
  weft_map_t windows = WEFT_MAP_INIT;
  weft_kv_rows_init(&rows, &t->config);
  weft_status_t *s = import_rows(&rows, in);
  if (s == NULL) s = import_windows(&windows, in[4], HEAD + t->clocked.num_workers);
  if (s == NULL) {
    weft_mutex_lock(&t->clocked.room.mu);
    weft_kv_rows_t old_rows = t->rows;
    weft_map_t old_windows = t->windows;
    weft_status_t *failure = t->failure;
    t->rows = rows;
    t->windows = windows;
    t->failure = NULL;
    import_clocks(t, in[4]->data);
    weft_mutex_unlock(&t->clocked.room.mu);
    rows = old_rows;
    windows = old_windows;
    weft_status_free(failure);
    weft_wait_flush(&t->clocked.room);
  }
  weft_kv_rows_deinit(&rows);
  weft_kv_windows_deinit(&windows);
  return s;
}
