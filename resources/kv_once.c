/* resources/kv_once.c - which ids are done, and which are under way.
 *
 * Locking: room.mu is a leaf but for allocation.
 */
#include "resources/kv_once.h"

#include <inttypes.h>

#include "base/alloc.h"

/* What the map holds for an id; the addresses matter, not what is there. */
static char claimed_mark, done_mark;

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_once_t *)o)->room, 0); }

const weft_resource_type_t weft_once_type = {.name = "N4weft4OnceE", .text = "Once", .abandon = cancel_waits};

static void destroy(weft_object_t *object) {
  weft_once_t *o = (weft_once_t *)object;
  weft_map_deinit(&o->ids);
  weft_free(o->done);
  weft_wait_room_deinit(&o->room);
  weft_free(o);
}

weft_status_t *weft_once_create(int64_t window, weft_object_t **out) {
  weft_once_t *o = weft_calloc(1, sizeof *o);
  if (o != NULL)
    o->done = weft_calloc((size_t)window, sizeof o->done[0]); /* pages that are not used yet cost nothing */
  if (o == NULL || o->done == NULL) {
    weft_free(o);
    return WEFT_NO_MEMORY("making a guard of %" PRId64 " ids", window);
  }
  atomic_init(&o->object.refs, 1);
  o->object.destroy = destroy;
  o->window = window;
  weft_wait_room_init(&o->room);
  o->room.in_any_order = true;
  *out = &o->object;
  return NULL;
}

weft_once_state_t weft_once_state_locked(const weft_once_t *o, int64_t id) {
  const void *mark = weft_map_get_u64(&o->ids, (uint64_t)id);
  return mark == NULL ? WEFT_ONCE_NEW : mark == &done_mark ? WEFT_ONCE_DONE : WEFT_ONCE_CLAIMED;
}

weft_status_t *weft_once_claim_locked(weft_once_t *o, int64_t id) {
  return weft_map_put_u64(&o->ids, (uint64_t)id, &claimed_mark, NULL);
}

void weft_once_finish_locked(weft_once_t *o, int64_t id, bool is_done) {
  if (!is_done) {
    weft_map_remove_u64(&o->ids, (uint64_t)id);
    return;
  }
  /* Replacing a value needs no memory. */
  weft_status_free(weft_map_put_u64(&o->ids, (uint64_t)id, &done_mark, NULL));
  if (o->num_done == o->window) {
    weft_map_remove_u64(&o->ids, o->done[o->first]);
    o->done[o->first] = (uint64_t)id;
    o->first = (o->first + 1) % o->window;
  } else {
    o->done[(o->first + o->num_done++) % o->window] = (uint64_t)id;
  }
}
