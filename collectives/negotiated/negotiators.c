/* collectives/negotiated/negotiators.c - a short list. `mu` is held while one is made, which waits for no
 * other member. */
#include "collectives/negotiated/negotiators.h"

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct listed_negotiator {
  struct listed_negotiator *next;
  char *device; /* owned */
  int64_t group_key;
  int rank, size;
  weft_negotiator_t *negotiator;
} listed_negotiator_t;

struct weft_negotiators {
  weft_collectives_t *collectives;
  weft_mutex_t mu;
  listed_negotiator_t *list; /* guarded by mu */
};

weft_status_t *weft_negotiators_create(weft_collectives_t *c, weft_negotiators_t **out) {
  weft_negotiators_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("negotiators");
  weft_mutex_init(&t->mu);
  t->collectives = c;
  *out = t;
  return NULL;
}

static void entry_free(listed_negotiator_t *e) {
  if (e == NULL) return;
  weft_negotiator_destroy(e->negotiator);
  weft_free(e->device);
  weft_free(e);
}

void weft_negotiators_destroy(weft_negotiators_t *t) {
  if (t == NULL) return;
  for (listed_negotiator_t *next; t->list != NULL; t->list = next) {
    next = t->list->next;
    entry_free(t->list);
  }
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static weft_status_t *add_locked(weft_negotiators_t *t, const weft_negotiator_options_t *o,
                                 listed_negotiator_t **out) WEFT_REQUIRES(t->mu) {
  listed_negotiator_t *e = weft_calloc(1, sizeof *e);
  if (e == NULL) return WEFT_NO_MEMORY("a negotiator");
  weft_negotiator_options_t mine = *o;
  mine.collectives = t->collectives;
  e->group_key = o->group_key;
  e->rank = o->rank;
  e->size = o->size;
  e->device = weft_strndup(o->device.data, o->device.length);
  weft_status_t *s =
      e->device == NULL ? WEFT_NO_MEMORY("a negotiator") : weft_negotiator_create(&mine, &e->negotiator);
  if (s != NULL) {
    entry_free(e);
    return s;
  }
  e->next = t->list;
  t->list = e;
  *out = e;
  return NULL;
}

weft_status_t *weft_negotiators_get(weft_negotiators_t *t, const weft_negotiator_options_t *o,
                                    weft_negotiator_t **out) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&t->mu);
  listed_negotiator_t *e = t->list;
  while (e != NULL && (e->group_key != o->group_key || !weft_str_is(o->device, e->device) ||
                       weft_negotiator_is_over(e->negotiator)))
    e = e->next;
  if (e == NULL) {
    s = add_locked(t, o, &e);
  } else if (e->rank != o->rank || e->size != o->size) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s requests rank %d of %d in group %lld, but is rank %d of %d there",
                   e->device, o->rank, o->size, (long long)o->group_key, e->rank, e->size);
  }
  if (s == NULL) *out = e->negotiator;
  weft_mutex_unlock(&t->mu);
  return s;
}
