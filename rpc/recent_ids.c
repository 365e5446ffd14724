/* rpc/recent_ids.c - a ring of ids, and an open-addressed set of those in the ring.
 *
 * The set has at least twice as many slots as the ring; an id leaves it when the
 * ring overwrites it, and the ones behind it in its run move up, so there are no
 * tombstones. Both grow with use up to the window: an idle server keeps nothing.
 *
 * Locking: `mu` guards everything. Growing allocates under it, seldom.
 */
#include "rpc/recent_ids.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum { FIRST_CAPACITY = 256 };

struct weft_recent_ids {
  weft_mutex_t mu;
  int window;
  int capacity;    /* of the ring; 0 until the first id */
  int count, next; /* ids in the ring; where the next goes */
  int64_t *ring;
  uint64_t mask;  /* slots - 1 */
  int64_t *slots; /* 0: free */
};

weft_status_t *weft_recent_ids_create(int window, weft_recent_ids_t **out) {
  weft_recent_ids_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("request ids");
  weft_mutex_init(&r->mu);
  r->window = window;
  *out = r;
  return NULL;
}

void weft_recent_ids_destroy(weft_recent_ids_t *r) {
  if (r == NULL) return;
  weft_free(r->ring);
  weft_free(r->slots);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

static uint64_t home(const weft_recent_ids_t *r, int64_t id) {
  uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15u; /* ids are random, but a client may count */
  return (h ^ h >> 32) & r->mask;
}

static uint64_t find(const weft_recent_ids_t *r, int64_t id) {
  uint64_t i = home(r, id);
  while (r->slots[i] != 0 && r->slots[i] != id) i = (i + 1) & r->mask;
  return i;
}

static void erase(weft_recent_ids_t *r, int64_t id) {
  uint64_t hole = find(r, id);
  for (uint64_t i = (hole + 1) & r->mask; r->slots[i] != 0; i = (i + 1) & r->mask) {
    uint64_t distance = (i - home(r, r->slots[i])) & r->mask;
    if (distance >= ((i - hole) & r->mask)) {
      r->slots[hole] = r->slots[i];
      hole = i;
    }
  }
  r->slots[hole] = 0;
}

/* False without memory; everything is then as before. */
static bool grow(weft_recent_ids_t *r) {
  int capacity = r->capacity == 0 ? FIRST_CAPACITY : r->capacity * 4;
  if (capacity > r->window) capacity = r->window;
  uint64_t slots = 2;
  while (slots < (uint64_t)capacity * 2) slots *= 2;
  int64_t *ring = weft_calloc((size_t)capacity, sizeof *ring), *set = weft_calloc(slots, sizeof *set);
  if (ring == NULL || set == NULL) {
    weft_free(ring);
    weft_free(set);
    return false;
  }
  if (r->count > 0)
    memcpy(ring, r->ring, (size_t)r->count * sizeof *ring); /* it never wrapped before it is full */
  weft_free(r->ring);
  weft_free(r->slots);
  r->ring = ring;
  r->slots = set;
  r->mask = slots - 1;
  r->capacity = capacity;
  r->next = r->count;
  for (int i = 0; i < r->count; i++) r->slots[find(r, ring[i])] = ring[i];
  return true;
}

weft_status_t *weft_recent_ids_add(weft_recent_ids_t *r, int64_t id, const char *method) {
  if (id == 0) return NULL;
  weft_mutex_lock(&r->mu);
  bool has_room = r->count < r->capacity || r->capacity == r->window || grow(r);
  bool is_new = has_room && r->slots[find(r, id)] == 0;
  if (is_new) {
    if (r->count == r->capacity) {
      erase(r, r->ring[r->next]);
    } else {
      r->count++;
    }
    r->ring[r->next] = id;
    r->next = (r->next + 1) % r->capacity;
    r->slots[find(r, id)] = id;
  }
  weft_mutex_unlock(&r->mu);
  if (!has_room) return WEFT_NO_MEMORY("the id of a %s request", method);
  if (is_new) return NULL;
  return WEFT_ERROR(ABORTED, "The same %s request was received twice. request_id: %" PRId64, method, id);
}

bool weft_recent_ids_is_refusal(const weft_status_t *s) {
  return weft_status_code(s) == WEFT_ABORTED &&
         strstr(weft_status_message(s), " request was received twice.") != NULL;
}
