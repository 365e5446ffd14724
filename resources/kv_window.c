/* resources/kv_window.c - which requests of a worker were seen: a sliding window of bits, as IPsec's
 * against replays (RFC 4303, section 3.4.3). */
#include "base/alloc.h"
#include "resources/kv_table_impl.h"

weft_kv_window_t *weft_kv_window_of(weft_map_t *windows, int64_t worker) {
  weft_kv_window_t *w = weft_map_get_u64(windows, (uint64_t)worker);
  if (w != NULL) return w;
  w = weft_calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->worker = worker;
  weft_status_t *s = weft_map_put_u64(windows, (uint64_t)worker, w, NULL);
  if (s == NULL) return w;
  weft_status_free(s);
  weft_free(w);
  return NULL;
}

static uint64_t bit_of(int64_t id) { return (uint64_t)1 << (id % 64); }
static size_t word_of(int64_t id) { return (size_t)(id / 64 % WEFT_KV_WINDOW_WORDS); }

bool weft_kv_window_has_seen(const weft_kv_window_t *w, int64_t id) {
  if (id > w->high) return false;
  return w->high - id >= WEFT_KV_WINDOW || (w->bits[word_of(id)] & bit_of(id)) != 0;
}

void weft_kv_window_see(weft_kv_window_t *w, int64_t id) {
  if (id > w->high) {
    int64_t from = id - w->high >= WEFT_KV_WINDOW ? id - WEFT_KV_WINDOW + 1 : w->high + 1;
    for (int64_t i = from; i <= id; i++) w->bits[word_of(i)] &= ~bit_of(i);
    w->high = id;
  }
  w->bits[word_of(id)] |= bit_of(id);
}

void weft_kv_windows_deinit(weft_map_t *windows) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(windows, &at, &e);) weft_free(e.value);
  weft_map_deinit(windows);
}
