/* base/hash_map.c - open addressing with tombstones; grows at three quarters full. */
#include "base/hash_map.h"

#include "base/alloc.h"

enum { EMPTY = 0, REMOVED = 1, FIRST_HASH = 2 };

static uint64_t hash_of(weft_str_t key) {
  uint64_t h;
  if (key.data != NULL) {
    h = weft_str_hash(key);
  } else {
    h = (uint64_t)key.length * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  return h < FIRST_HASH ? h + FIRST_HASH : h;
}

static bool same(const weft_map_entry_t *e, weft_str_t key, uint64_t hash) {
  if (e->hash != hash || (e->key.data == NULL) != (key.data == NULL)) return false;
  return key.data == NULL ? e->key.length == key.length : weft_str_eq(e->key, key);
}

static weft_map_entry_t *find(const weft_map_t *m, weft_str_t key, uint64_t hash) {
  if (m->capacity == 0) return NULL;
  for (size_t i = hash & (m->capacity - 1);; i = (i + 1) & (m->capacity - 1)) {
    if (m->slots[i].hash == EMPTY) return NULL;
    if (same(&m->slots[i], key, hash)) return &m->slots[i];
  }
}

/* Room for `count` entries at half full, without the removed ones. */
static bool rehash(weft_map_t *m, size_t count) {
  size_t capacity = m->capacity < 16 ? 16 : m->capacity;
  while (count >= capacity / 2) {
    if (capacity > SIZE_MAX / 2) return false;
    capacity *= 2;
  }
  weft_map_entry_t *slots = weft_calloc(capacity, sizeof *slots);
  if (slots == NULL) return false;
  for (size_t i = 0; i < m->capacity; i++) {
    if (m->slots[i].hash < FIRST_HASH) continue;
    size_t at = m->slots[i].hash & (capacity - 1);
    while (slots[at].hash != EMPTY) at = (at + 1) & (capacity - 1);
    slots[at] = m->slots[i];
  }
  weft_free(m->slots);
  m->slots = slots;
  m->capacity = capacity;
  m->used = m->count;
  return true;
}

static weft_status_t *put(weft_map_t *m, weft_str_t key, void *value, void **old) {
  uint64_t hash = hash_of(key);
  weft_map_entry_t *e = find(m, key, hash);
  if (old != NULL) *old = e == NULL ? NULL : e->value;
  if (e != NULL) {
    e->key = key; /* the old key may die with the old value */
    e->value = value;
    return NULL;
  }
  if ((m->used + 1) * 4 > m->capacity * 3 && !rehash(m, m->count)) {
    return WEFT_NO_MEMORY("a map of %zu entries", m->count + 1);
  }
  size_t i = hash & (m->capacity - 1);
  while (m->slots[i].hash >= FIRST_HASH) i = (i + 1) & (m->capacity - 1);
  if (m->slots[i].hash == EMPTY) m->used++;
  m->slots[i] = (weft_map_entry_t){key, hash, value};
  m->count++;
  return NULL;
}

static void *take(weft_map_t *m, weft_str_t key) {
  weft_map_entry_t *e = find(m, key, hash_of(key));
  if (e == NULL) return NULL;
  void *value = e->value;
  *e = (weft_map_entry_t){.hash = REMOVED};
  m->count--;
  return value;
}

static void *get(const weft_map_t *m, weft_str_t key) {
  weft_map_entry_t *e = find(m, key, hash_of(key));
  return e == NULL ? NULL : e->value;
}

/* An empty text key must not look like a number key. */
static weft_str_t text_key(weft_str_t key) { return key.data == NULL ? WEFT_STR("") : key; }
static weft_str_t number_key(uint64_t key) { return (weft_str_t){NULL, (size_t)key}; }

void weft_map_deinit(weft_map_t *m) {
  weft_free(m->slots);
  *m = (weft_map_t)WEFT_MAP_INIT;
}

weft_status_t *weft_map_reserve(weft_map_t *m, size_t count) {
  size_t most = m->capacity / 4 * 3;
  if (count <= most && m->used - m->count <= most - count) return NULL;
  return rehash(m, count) ? NULL : WEFT_NO_MEMORY("a map of %zu entries", count);
}

void *weft_map_get(const weft_map_t *m, weft_str_t key) { return get(m, text_key(key)); }
void *weft_map_get_u64(const weft_map_t *m, uint64_t key) { return get(m, number_key(key)); }

weft_status_t *weft_map_put(weft_map_t *m, weft_str_t key, void *value, void **old) {
  return put(m, text_key(key), value, old);
}

weft_status_t *weft_map_put_u64(weft_map_t *m, uint64_t key, void *value, void **old) {
  return put(m, number_key(key), value, old);
}

void *weft_map_remove(weft_map_t *m, weft_str_t key) { return take(m, text_key(key)); }
void *weft_map_remove_u64(weft_map_t *m, uint64_t key) { return take(m, number_key(key)); }

bool weft_map_next(const weft_map_t *m, size_t *at, weft_map_entry_t *out) {
  for (; *at < m->capacity; (*at)++) {
    if (m->slots[*at].hash < FIRST_HASH) continue;
    *out = m->slots[(*at)++];
    return true;
  }
  return false;
}
