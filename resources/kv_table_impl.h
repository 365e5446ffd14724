/* resources/kv_table_impl.h - the inside of a table, for the files that make it up. */
#ifndef WEFT_RESOURCES_KV_TABLE_IMPL_H_
#define WEFT_RESOURCES_KV_TABLE_IMPL_H_

#include "resources/kv_rows.h"

enum { WEFT_KV_WINDOW_WORDS = WEFT_KV_WINDOW / 64 };

/* A push that waits for its clock to end. */
typedef struct weft_kv_pending {
  struct weft_kv_pending *next; /* in the order in which they came */
  int64_t worker, clock;
  weft_tensor_t *keys, *values; /* retained */
} weft_kv_pending_t;

/* Which of a worker's requests were seen: the highest, and a bit for each of the WEFT_KV_WINDOW up to it. */
typedef struct weft_kv_window {
  int64_t worker, high;
  uint64_t bits[WEFT_KV_WINDOW_WORDS]; /* bit i % WEFT_KV_WINDOW: id i was seen */
} weft_kv_window_t;

struct weft_kv_table {
  weft_clocked_t clocked; /* first; its room's mutex guards what follows */
  weft_kv_config_t config;
  weft_kv_rows_t rows;
  int64_t clock; /* of the table: clocks below have been applied */
  weft_kv_pending_t *first_pending, **end_pending;
  int64_t num_pending;
  weft_map_t windows;     /* worker -> weft_kv_window_t, owned */
  weft_status_t *failure; /* a clock could not be applied: what all get from then on */
};

/* Is the table's result independent of the order in which pushes come? */
static inline bool weft_kv_gathers(const weft_kv_config_t *c) {
  return c->policy == WEFT_KV_BSP || c->policy == WEFT_KV_K_OF_W ||
         (c->policy == WEFT_KV_SSP && c->staleness == 0);
}

/* kv_gather.c; with the lock held. Applies each clock that has ended. */
void weft_kv_gather_locked(weft_kv_table_t *t);
void weft_kv_pending_free(weft_kv_pending_t *p);

/* kv_window.c; with the lock held. The worker's window, made if need be; NULL without memory. */
weft_kv_window_t *weft_kv_window_of(weft_map_t *windows, int64_t worker);
bool weft_kv_window_has_seen(const weft_kv_window_t *w, int64_t id);
void weft_kv_window_see(weft_kv_window_t *w, int64_t id);
void weft_kv_windows_deinit(weft_map_t *windows);

#endif /* WEFT_RESOURCES_KV_TABLE_IMPL_H_ */
