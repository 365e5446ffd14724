/* resources/lookup_rows.c - entries that a hash finds. */
#include "resources/lookup_rows.h"

#include <inttypes.h>

#include "base/alloc.h"

enum { SLOT_EMPTY = 0, SLOT_REMOVED = -1, MIN_SLOTS = 16 };

void weft_lookup_rows_deinit(weft_lookup_rows_t *r) {
  weft_tensor_release(r->keys);
  weft_tensor_release(r->values);
  weft_free(r->slots);
  *r = (weft_lookup_rows_t){.width = r->width};
}

/* Of any integer; the finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t hash_number(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t hash_key(const weft_tensor_t *keys, int64_t at) {
  switch (keys->dtype) {
    case WEFT_I32: return hash_number((uint64_t)((const int32_t *)keys->data)[at]);
    case WEFT_I64: return hash_number((uint64_t)((const int64_t *)keys->data)[at]);
    default: return weft_str_hash(weft_tensor_str_at(keys, at));
  }
}

static bool same_key(const weft_tensor_t *a, int64_t i, const weft_tensor_t *b, int64_t j) {
  switch (a->dtype) {
    case WEFT_I32: return ((const int32_t *)a->data)[i] == ((const int32_t *)b->data)[j];
    case WEFT_I64: return ((const int64_t *)a->data)[i] == ((const int64_t *)b->data)[j];
    default: return weft_str_eq(weft_tensor_str_at(a, i), weft_tensor_str_at(b, j));
  }
}

/* The slot of the row that has the key, or -1. */
static int64_t find_slot(const weft_lookup_rows_t *r, const weft_tensor_t *keys, int64_t at) {
  if (r->count == 0) return -1;
  const uint64_t mask = (uint64_t)r->num_slots - 1;
  for (uint64_t i = hash_key(keys, at) & mask; r->slots[i] != SLOT_EMPTY; i = (i + 1) & mask) {
    if (r->slots[i] != SLOT_REMOVED && same_key(r->keys, r->slots[i] - 1, keys, at)) return (int64_t)i;
  }
  return -1;
}

int64_t weft_lookup_rows_find(const weft_lookup_rows_t *r, const weft_tensor_t *keys, int64_t at) {
  const int64_t slot = find_slot(r, keys, at);
  return slot < 0 ? -1 : r->slots[slot] - 1;
}

static void enter(weft_lookup_rows_t *r, int64_t row) {
  const uint64_t mask = (uint64_t)r->num_slots - 1;
  uint64_t i = hash_key(r->keys, row) & mask;
  while (r->slots[i] != SLOT_EMPTY) i = (i + 1) & mask;
  r->slots[i] = row + 1;
  r->num_used++;
}

/* Slots for `count` rows, at most half of them in use. */
static weft_status_t *make_slots(weft_lookup_rows_t *r, int64_t count) {
  int64_t n = MIN_SLOTS;
  while (n / 2 < count) n *= 2; /* `count` rows of keys have been allocated */
  int64_t *slots = weft_calloc((size_t)n, sizeof *slots);
  if (slots == NULL) return WEFT_NO_MEMORY("a lookup table of %" PRId64 " entries", count);
  weft_free(r->slots);
  r->slots = slots;
  r->num_slots = n;
  r->num_used = 0;
  for (int64_t row = 0; row < r->count; row++) enter(r, row);
  return NULL;
}

/* `*t` gets `room` rows of `width` elements and keeps the first `count`. */
static weft_status_t *grow(weft_tensor_t **t, weft_dtype_t dtype, int64_t room, int64_t width,
                           int64_t count) {
  weft_shape_t shape = weft_shape_matrix(room, width);
  weft_tensor_t *bigger = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, NULL, &bigger));
  weft_status_t *s = count == 0 ? NULL : weft_tensor_copy_elements(bigger, 0, *t, 0, count * width);
  if (s != NULL) {
    weft_tensor_release(bigger);
    return s;
  }
  weft_tensor_release(*t);
  *t = bigger;
  return NULL;
}

weft_status_t *weft_lookup_rows_reserve(weft_lookup_rows_t *r, weft_dtype_t key_dtype,
                                        weft_dtype_t value_dtype, int64_t count) {
  if (count > r->room) {
    WEFT_RETURN_IF_ERROR(grow(&r->keys, key_dtype, count, 1, r->count));
    WEFT_RETURN_IF_ERROR(grow(&r->values, value_dtype, count, r->width, r->count));
    r->room = count;
  }
  return r->num_slots / 2 >= count ? NULL : make_slots(r, count);
}

weft_status_t *weft_lookup_rows_add(weft_lookup_rows_t *r, const weft_tensor_t *keys,
                                    const weft_tensor_t *values, int64_t at) {
  if (r->count == r->room) {
    const int64_t room = r->room < MIN_SLOTS ? MIN_SLOTS : r->room > INT64_MAX / 2 ? INT64_MAX : 2 * r->room;
    WEFT_RETURN_IF_ERROR(weft_lookup_rows_reserve(r, keys->dtype, values->dtype, room));
  }
  if (r->num_used + 1 > r->num_slots / 4 * 3) WEFT_RETURN_IF_ERROR(make_slots(r, r->count + 1));
  const int64_t row = r->count;
  WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(r->keys, row, keys, at, 1));
  WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(r->values, row * r->width, values, at * r->width, r->width));
  r->count++;
  enter(r, row);
  return NULL;
}

/* The last row takes the place of the one that goes. */
weft_status_t *weft_lookup_rows_remove(weft_lookup_rows_t *r, const weft_tensor_t *keys, int64_t at) {
  const int64_t slot = find_slot(r, keys, at), last = r->count - 1;
  if (slot < 0) return NULL;
  const int64_t row = r->slots[slot] - 1, slot_of_last = find_slot(r, r->keys, last);
  if (row != last) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(r->keys, row, r->keys, last, 1));
    WEFT_RETURN_IF_ERROR(
        weft_tensor_copy_elements(r->values, row * r->width, r->values, last * r->width, r->width));
    r->slots[slot_of_last] = row + 1;
  }
  r->slots[slot] = SLOT_REMOVED;
  r->count--;
  return NULL;
}
