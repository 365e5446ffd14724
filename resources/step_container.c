/* resources/step_container.c - what one step keeps by name: stacks, tensor arrays.
 *
 * Locking: `mu` is a leaf. Entries are made before it is taken; objects are
 * released after it is given back.
 */
#include "resources/step_container.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

typedef struct container_entry {
  weft_object_t *object; /* retained */
  char *name;            /* owned; the map's key */
} container_entry_t;

struct weft_step_container {
  weft_mutex_t mu;
  weft_map_t by_name;           /* guarded by mu; container_entry_t */
  atomic_uint_fast64_t numbers; /* relaxed: only their being different counts */
};

weft_status_t *weft_step_container_create(weft_step_container_t **out) {
  weft_step_container_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a step's resources");
  weft_mutex_init(&c->mu);
  atomic_init(&c->numbers, 0);
  *out = c;
  return NULL;
}

static void entry_free(container_entry_t *e) {
  if (e == NULL) return;
  weft_object_release(e->object);
  weft_free(e->name);
  weft_free(e);
}

void weft_step_container_destroy(weft_step_container_t *c) {
  if (c == NULL) return;
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&c->by_name, &at, &each);) entry_free(each.value);
  weft_map_deinit(&c->by_name);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

weft_status_t *weft_step_container_add(weft_step_container_t *c, weft_str_t name, weft_object_t *o) {
  weft_status_t *s = NULL;
  container_entry_t *e = weft_calloc(1, sizeof *e);
  if (e != NULL) e->name = weft_strndup(name.data, name.length);
  if (e == NULL || e->name == NULL) {
    entry_free(e);
    return WEFT_NO_MEMORY("keeping '%.*s' for the step", WEFT_STR_ARGS(name));
  }
  e->object = weft_object_retain(o);
  weft_mutex_lock(&c->mu);
  bool taken = weft_map_get(&c->by_name, name) != NULL;
  if (!taken) s = weft_map_put(&c->by_name, weft_str_of(e->name, name.length), e, NULL);
  weft_mutex_unlock(&c->mu);
  if (taken) s = WEFT_ERROR(ALREADY_EXISTS, "Resource %.*s already exists in this step", WEFT_STR_ARGS(name));
  if (s != NULL) entry_free(e);
  return s;
}

bool weft_step_container_is_new(weft_step_container_t *c) {
  weft_mutex_lock(&c->mu);
  const bool is_empty = c->by_name.count == 0;
  weft_mutex_unlock(&c->mu);
  return is_empty && atomic_load_explicit(&c->numbers, memory_order_relaxed) == 0;
}

uint64_t weft_step_container_number(weft_step_container_t *c) {
  return atomic_fetch_add_explicit(&c->numbers, 1, memory_order_relaxed);
}

weft_object_t *weft_step_container_find(weft_step_container_t *c, weft_str_t name) {
  weft_mutex_lock(&c->mu);
  container_entry_t *e = weft_map_get(&c->by_name, name);
  weft_object_t *o = e == NULL ? NULL : weft_object_retain(e->object);
  weft_mutex_unlock(&c->mu);
  return o;
}

bool weft_step_container_remove(weft_step_container_t *c, weft_str_t name) {
  weft_mutex_lock(&c->mu);
  container_entry_t *e = weft_map_remove(&c->by_name, name);
  weft_mutex_unlock(&c->mu);
  bool is_there = e != NULL;
  entry_free(e);
  return is_there;
}
