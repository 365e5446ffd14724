/* collectives/link_counters.c - a list of rows under one leaf lock, the latest used first.
 *
 * A task talks to few others, and mostly to the one that it talked to last: a list
 * that moves what was found to its front is enough.
 */
#include "collectives/link_counters.h"

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct link_row {
  struct link_row *next;
  weft_str_t src, dst; /* owned: one block behind the row */
  weft_link_count_t counts[WEFT_TRAFFIC_COUNT];
} link_row_t;

struct weft_link_counters {
  weft_mutex_t mu;
  link_row_t *rows; /* owned; guarded by mu */
};

const char *weft_traffic_name(weft_traffic_t c) {
  static const char *const names[WEFT_TRAFFIC_COUNT] = {
      [WEFT_TRAFFIC_CONTROL] = "control",
      [WEFT_TRAFFIC_TENSOR] = "tensor",
      [WEFT_TRAFFIC_COLLECTIVE] = "collective",
      [WEFT_TRAFFIC_KV] = "kv",
  };
  return (unsigned)c < WEFT_TRAFFIC_COUNT ? names[c] : "";
}

weft_status_t *weft_link_counters_create(weft_link_counters_t **out) {
  weft_link_counters_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("counters of links");
  weft_mutex_init(&c->mu);
  *out = c;
  return NULL;
}

void weft_link_counters_destroy(weft_link_counters_t *c) {
  if (c == NULL) return;
  while (c->rows != NULL) {
    link_row_t *r = c->rows;
    c->rows = r->next;
    weft_free(r);
  }
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

/* The row of (src, dst), moved to the front; NULL if there is none. */
static link_row_t *find_locked(weft_link_counters_t *c, weft_str_t src, weft_str_t dst) WEFT_REQUIRES(c->mu) {
  for (link_row_t **at = &c->rows; *at != NULL; at = &(*at)->next) {
    link_row_t *r = *at;
    if (!weft_str_eq(r->dst, dst) || !weft_str_eq(r->src, src)) continue;
    *at = r->next;
    r->next = c->rows;
    c->rows = r;
    return r;
  }
  return NULL;
}

static link_row_t *row_new(weft_str_t src, weft_str_t dst) {
  size_t names = 0, bytes = 0;
  if (!weft_add_size(src.length, dst.length, &names) || !weft_add_size(names, sizeof(link_row_t), &bytes))
    return NULL;
  link_row_t *r = weft_calloc(1, bytes);
  if (r == NULL) return NULL;
  char *text = (char *)(r + 1);
  if (src.length > 0) memcpy(text, src.data, src.length);
  if (dst.length > 0) memcpy(text + src.length, dst.data, dst.length);
  r->src = weft_str_of(text, src.length);
  r->dst = weft_str_of(text + src.length, dst.length);
  return r;
}

void weft_link_counters_add(weft_link_counters_t *c, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                            size_t bytes) {
  if (c == NULL) return;
  link_row_t *spare = NULL;
  for (int round = 0; round < 2; round++) { /* the second time with a row to add */
    weft_mutex_lock(&c->mu);
    link_row_t *r = find_locked(c, src, dst);
    if (r == NULL && spare != NULL) {
      r = spare;
      spare = NULL;
      r->next = c->rows;
      c->rows = r;
    }
    if (r != NULL) {
      r->counts[traffic].messages++;
      r->counts[traffic].bytes += (int64_t)bytes;
    }
    weft_mutex_unlock(&c->mu);
    if (r != NULL || round == 1) break;
    spare = row_new(src, dst);
    if (spare == NULL) break;
  }
  weft_free(spare);
}

void weft_link_counters_reset(weft_link_counters_t *c) {
  weft_mutex_lock(&c->mu);
  for (link_row_t *r = c->rows; r != NULL; r = r->next) memset(r->counts, 0, sizeof r->counts);
  weft_mutex_unlock(&c->mu);
}

weft_link_count_t weft_link_counters_sum(weft_link_counters_t *c, weft_str_t src, weft_str_t dst,
                                         weft_traffic_t traffic) {
  weft_link_count_t sum = {0, 0};
  weft_mutex_lock(&c->mu);
  for (const link_row_t *r = c->rows; r != NULL; r = r->next) {
    if (src.length > 0 && !weft_str_eq(r->src, src)) continue;
    if (dst.length > 0 && !weft_str_eq(r->dst, dst)) continue;
    sum.messages += r->counts[traffic].messages;
    sum.bytes += r->counts[traffic].bytes;
  }
  weft_mutex_unlock(&c->mu);
  return sum;
}

void weft_link_counters_each(weft_link_counters_t *c, weft_link_count_fn *fn, void *arg) {
  weft_mutex_lock(&c->mu);
  for (const link_row_t *r = c->rows; r != NULL; r = r->next) {
    for (int i = 0; i < WEFT_TRAFFIC_COUNT; i++) {
      if (r->counts[i].messages > 0) fn(arg, r->src, r->dst, (weft_traffic_t)i, r->counts[i]);
    }
  }
  weft_mutex_unlock(&c->mu);
}
