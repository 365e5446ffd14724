/* collectives/negotiated/response_cache.c - an array of positions, and a map from names' numbers to them. Of
 * two names that have one number only the later one is found: the other is negotiated each time. */
#include "collectives/negotiated/response_cache.h"

#include "base/alloc.h"
#include "base/hash_map.h"

typedef struct cached_response {
  bool is_used;
  uint64_t last_use;
  char *texts; /* owned: name and group */
  weft_named_request_t request;
} cached_response_t;

struct weft_response_cache {
  int capacity, num_bits;
  uint64_t uses;
  cached_response_t *slots;
  weft_map_t by_hash; /* name and process set -> position + 1 */
};

weft_status_t *weft_response_cache_create(int capacity, weft_response_cache_t **out) {
  weft_response_cache_t *c = weft_calloc(1, sizeof *c);
  if (c != NULL) c->slots = weft_calloc((size_t)capacity + 1, sizeof *c->slots);
  if (c == NULL || c->slots == NULL) {
    weft_free(c);
    return WEFT_NO_MEMORY("a cache of %d responses", capacity);
  }
  c->capacity = capacity;
  *out = c;
  return NULL;
}

void weft_response_cache_destroy(weft_response_cache_t *c) {
  if (c == NULL) return;
  for (int i = 0; i < c->capacity; i++) weft_free(c->slots[i].texts);
  weft_map_deinit(&c->by_hash);
  weft_free(c->slots);
  weft_free(c);
}

int weft_response_cache_num_bits(const weft_response_cache_t *c) { return c->num_bits; }

weft_cache_answer_t weft_response_cache_find(const weft_response_cache_t *c, const weft_named_request_t *r,
                                             int *out_position) {
  uintptr_t at = (uintptr_t)weft_map_get_u64(&c->by_hash, weft_named_hash(r));
  if (at == 0) return WEFT_CACHE_MISS;
  const cached_response_t *s = &c->slots[at - 1];
  if (s->request.process_set != r->process_set || !weft_str_eq(s->request.name, r->name))
    return WEFT_CACHE_MISS;
  *out_position = (int)at - 1;
  return weft_named_same(&s->request, r) ? WEFT_CACHE_HIT : WEFT_CACHE_OTHER;
}

const weft_named_request_t *weft_response_cache_at(weft_response_cache_t *c, int position, bool is_use) {
  if (position < 0 || position >= c->num_bits || !c->slots[position].is_used) return NULL;
  if (is_use) c->slots[position].last_use = ++c->uses;
  return &c->slots[position].request;
}

void weft_response_cache_drop(weft_response_cache_t *c, int position) {
  if (position < 0 || position >= c->num_bits || !c->slots[position].is_used) return;
  uint64_t hash = weft_named_hash(&c->slots[position].request);
  if ((uintptr_t)weft_map_get_u64(&c->by_hash, hash) == (uintptr_t)position + 1)
    weft_map_remove_u64(&c->by_hash, hash);
  weft_free(c->slots[position].texts);
  c->slots[position] = (cached_response_t){.is_used = false};
  while (c->num_bits > 0 && !c->slots[c->num_bits - 1].is_used) c->num_bits--;
}

static int free_position(weft_response_cache_t *c) {
  int oldest = 0;
  for (int i = 0; i < c->capacity; i++) {
    if (!c->slots[i].is_used) return i;
    if (c->slots[i].last_use < c->slots[oldest].last_use) oldest = i;
  }
  weft_response_cache_drop(c, oldest);
  return oldest;
}

weft_status_t *weft_response_cache_put(weft_response_cache_t *c, const weft_named_request_t *r) {
  int old = 0;
  if (c->capacity == 0) return NULL;
  if (weft_response_cache_find(c, r, &old) != WEFT_CACHE_MISS) weft_response_cache_drop(c, old);
  size_t bytes = r->name.length + r->group.length + 1;
  char *texts = weft_calloc(bytes, 1);
  if (texts == NULL) return WEFT_NO_MEMORY("caching the response of '%.*s'", WEFT_STR_ARGS(r->name));
  memcpy(texts, r->name.data, r->name.length);
  if (r->group.length > 0) memcpy(texts + r->name.length, r->group.data, r->group.length);
  int at = free_position(c);
  weft_status_t *failed =
      weft_map_put_u64(&c->by_hash, weft_named_hash(r), (void *)((uintptr_t)at + 1), NULL);
  if (failed != NULL) {
    weft_free(texts);
    return failed;
  }
  cached_response_t *s = &c->slots[at];
  *s = (cached_response_t){.is_used = true, .last_use = ++c->uses, .texts = texts, .request = *r};
  s->request.name = weft_str_of(texts, r->name.length);
  s->request.group = weft_str_of(texts + r->name.length, r->group.length);
  if (at >= c->num_bits) c->num_bits = at + 1;
  return NULL;
}
