/* resources/resource.c - the table of resources of a task.
 *
 * One map under one mutex: (container, type, name) is one key of bytes. Objects
 * are made, abandoned and released outside the mutex.
 *
 * Locking: `mu` is a leaf.
 */
#include "resources/resource.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

typedef struct resource_entry resource_entry_t;
struct resource_entry {
  weft_object_t *object; /* owned reference */
  const weft_resource_type_t *type;
  size_t container_length; /* the key starts with the container */
  resource_entry_t *next;  /* while being dropped */
  size_t key_length;
  char key[]; /* container '\0' type name '\0' name */
};

struct weft_resource_manager {
  char *default_container; /* owned */
  weft_timer_t *timer;     /* owned; its thread starts with the first wait */
  weft_mutex_t mu;
  weft_map_t map;        /* guarded by mu */
  weft_map_t containers; /* guarded by mu; the names (owned) of those that exist */
  atomic_uint_fast64_t generation;
  atomic_uint_fast64_t counter; /* of private names */
};

weft_str_t weft_resource_container(const weft_resource_manager_t *m, weft_str_t container) {
  if (container.length > 0) return container;
  return m == NULL ? WEFT_STR("localhost") : weft_str(m->default_container);
}

static resource_entry_t *entry_new(weft_str_t container, weft_str_t type, weft_str_t name) {
  size_t length = 0, size = 0;
  if (!weft_add_size(container.length, type.length + 2, &length)) return NULL;
  if (!weft_add_size(length, name.length, &length)) return NULL;
  if (!weft_add_size(length, sizeof(resource_entry_t) + 1, &size)) return NULL;
  resource_entry_t *e = weft_malloc(size);
  if (e == NULL) return NULL;
  *e = (resource_entry_t){.container_length = container.length, .key_length = length};
  char *at = e->key;
  memcpy(at, container.data, container.length);
  at += container.length;
  *at++ = '\0';
  memcpy(at, type.data, type.length);
  at += type.length;
  *at++ = '\0';
  if (name.length > 0) memcpy(at, name.data, name.length);
  at[name.length] = '\0';
  return e;
}

static weft_str_t entry_key(const resource_entry_t *e) { return weft_str_of(e->key, e->key_length); }

/* Lets go of what an entry holds, with no lock held. */
static void entry_drop(resource_entry_t *e) {
  if (e == NULL) return;
  if (e->object != NULL && e->type != NULL && e->type->abandon != NULL) e->type->abandon(e->object);
  weft_object_release(e->object);
  weft_free(e);
}

weft_status_t *weft_resource_manager_create(weft_resource_manager_t **out) {
  return weft_resource_manager_create_for(WEFT_STR("localhost"), out);
}

weft_status_t *weft_resource_manager_create_for(weft_str_t job, weft_resource_manager_t **out) {
  weft_resource_manager_t *m = weft_calloc(1, sizeof *m);
  weft_status_t *s = NULL;
  if (m != NULL) m->default_container = weft_strndup(job.data, job.length);
  if (m != NULL && m->default_container != NULL) s = weft_timer_create(&m->timer);
  if (m == NULL || m->timer == NULL) {
    if (m != NULL) weft_free(m->default_container);
    weft_free(m);
    weft_status_free(s);
    return WEFT_NO_MEMORY("creating a resource manager");
  }
  weft_mutex_init(&m->mu);
  atomic_init(&m->generation, 1);
  atomic_init(&m->counter, 0);
  *out = m;
  return NULL;
}

void weft_resource_manager_clear(weft_resource_manager_t *m) {
  weft_map_entry_t at;
  weft_mutex_lock(&m->mu);
  weft_map_t all = m->map;
  m->map = (weft_map_t)WEFT_MAP_INIT;
  weft_mutex_unlock(&m->mu);
  for (size_t i = 0; weft_map_next(&all, &i, &at);) entry_drop(at.value);
  weft_map_deinit(&all);
}

void weft_resource_manager_destroy(weft_resource_manager_t *m) {
  if (m == NULL) return;
  weft_map_entry_t at;
  weft_resource_manager_clear(m);
  weft_map_deinit(&m->map);
  for (size_t i = 0; weft_map_next(&m->containers, &i, &at);) weft_free(at.value);
  weft_map_deinit(&m->containers);
  weft_timer_destroy(m->timer);
  weft_free(m->default_container);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

static weft_object_t *find(weft_resource_manager_t *m, weft_str_t key) {
  weft_mutex_lock(&m->mu);
  resource_entry_t *e = weft_map_get(&m->map, key);
  weft_object_t *o = e == NULL ? NULL : weft_object_retain(e->object);
  weft_mutex_unlock(&m->mu);
  return o;
}

static weft_status_t *no_memory(weft_str_t name) {
  return WEFT_NO_MEMORY("looking up resource %.*s", WEFT_STR_ARGS(name));
}

/* ---- containers ---- */

static bool has_container(weft_resource_manager_t *m, weft_str_t container) {
  weft_mutex_lock(&m->mu);
  bool has = weft_map_get(&m->containers, container) != NULL;
  weft_mutex_unlock(&m->mu);
  return has;
}

weft_status_t *weft_resource_missing(weft_resource_manager_t *m, weft_str_t container, weft_str_t name,
                                     weft_str_t type_name) {
  container = weft_resource_container(m, container);
  if (!has_container(m, container)) {
    return WEFT_ERROR(NOT_FOUND, "Container %.*s does not exist. (Could not find resource: %.*s/%.*s)",
                      WEFT_STR_ARGS(container), WEFT_STR_ARGS(container), WEFT_STR_ARGS(name));
  }
  return WEFT_ERROR(NOT_FOUND, "Resource %.*s/%.*s/%.*s does not exist.", WEFT_STR_ARGS(container),
                    WEFT_STR_ARGS(name), WEFT_STR_ARGS(type_name));
}

weft_status_t *weft_resource_nothing_to_delete(weft_resource_manager_t *m, weft_str_t container,
                                               weft_str_t name) {
  container = weft_resource_container(m, container);
  if (has_container(m, container)) return weft_resource_missing(m, container, name, WEFT_STR("<unknown>"));
  return WEFT_ERROR(NOT_FOUND, "Container %.*s does not exist.", WEFT_STR_ARGS(container));
}

weft_status_t *weft_resource_add_container(weft_resource_manager_t *m, weft_str_t container) {
  container = weft_resource_container(m, container);
  if (has_container(m, container)) return NULL;
  char *name = weft_strndup(container.data, container.length);
  if (name == NULL) return no_memory(container);
  weft_status_t *s = NULL;
  weft_mutex_lock(&m->mu);
  if (weft_map_get(&m->containers, container) == NULL) { /* another thread may have been faster */
    s = weft_map_put(&m->containers, weft_str_of(name, container.length), name, NULL);
    if (s == NULL) name = NULL; /* the map has it now */
  }
  weft_mutex_unlock(&m->mu);
  weft_free(name);
  return s;
}

/* ---- resources ---- */

weft_status_t *weft_resource_lookup(weft_resource_manager_t *m, weft_str_t container, weft_str_t name,
                                    const weft_resource_type_t *type, weft_object_t **out) {
  container = weft_resource_container(m, container);
  resource_entry_t *key = entry_new(container, weft_str(type->name), name);
  if (key == NULL) return no_memory(name);
  weft_object_t *o = find(m, entry_key(key));
  weft_free(key);
  if (o == NULL) return weft_resource_missing(m, container, name, weft_str(type->name));
  *out = o;
  return NULL;
}

weft_status_t *weft_resource_lookup_or_create(weft_resource_manager_t *m, weft_str_t container,
                                              weft_str_t name, const weft_resource_type_t *type,
                                              weft_resource_create_fn *create, void *arg,
                                              weft_object_t **out) {
  container = weft_resource_container(m, container);
  weft_status_t *s = NULL;
  weft_object_t *made = NULL, *found = NULL;
  resource_entry_t *mine = entry_new(container, weft_str(type->name), name);
  if (mine == NULL) {
    s = no_memory(name);
    goto done;
  }
  found = find(m, entry_key(mine));
  if (found == NULL) {
    s = create(arg, &made);
    if (s == NULL && !type->is_late) s = weft_resource_add_container(m, container);
    if (s != NULL) goto done;
    mine->type = type;
    weft_mutex_lock(&m->mu);
    resource_entry_t *other =
        weft_map_get(&m->map, entry_key(mine)); /* another thread may have been faster */
    if (other != NULL) {
      found = weft_object_retain(other->object);
    } else {
      s = weft_map_put(&m->map, entry_key(mine), mine, NULL);
      if (s == NULL) {
        mine->object = weft_object_retain(made);
        found = made;
        made = NULL;
        mine = NULL; /* the map has it now */
      }
    }
    weft_mutex_unlock(&m->mu);
    if (s != NULL) goto done;
  }
  *out = found;
done:
  weft_object_release(made);
  weft_free(mine);
  return s;
}

weft_status_t *weft_resource_delete_by_type_name(weft_resource_manager_t *m, weft_str_t container,
                                                 weft_str_t name, weft_str_t type_name) {
  container = weft_resource_container(m, container);
  resource_entry_t *key = entry_new(container, type_name, name);
  if (key == NULL) return no_memory(name);
  weft_mutex_lock(&m->mu);
  resource_entry_t *e = weft_map_remove(&m->map, entry_key(key));
  if (e != NULL) atomic_fetch_add_explicit(&m->generation, 1, memory_order_release);
  weft_mutex_unlock(&m->mu);
  weft_status_t *s = NULL;
  if (e == NULL) s = weft_resource_nothing_to_delete(m, container, name);
  entry_drop(e);
  weft_free(key);
  return s;
}

weft_status_t *weft_resource_delete(weft_resource_manager_t *m, weft_str_t container, weft_str_t name,
                                    const weft_resource_type_t *type) {
  return weft_resource_delete_by_type_name(m, container, name, weft_str(type->name));
}

void weft_resource_clear(weft_resource_manager_t *m, weft_str_t container) {
  container = weft_resource_container(m, container);
  resource_entry_t *dropped = NULL;
  weft_mutex_lock(&m->mu);
  weft_map_entry_t at;
  for (size_t i = 0; weft_map_next(&m->map, &i, &at);) {
    resource_entry_t *e = at.value;
    if (!weft_str_eq(weft_str_of(e->key, e->container_length), container)) continue;
    e->next = dropped;
    dropped = e;
  }
  for (resource_entry_t *e = dropped; e != NULL; e = e->next) weft_map_remove(&m->map, entry_key(e));
  char *name = weft_map_remove(&m->containers, container);
  atomic_fetch_add_explicit(&m->generation, 1, memory_order_release);
  weft_mutex_unlock(&m->mu);
  weft_free(name);
  while (dropped != NULL) {
    resource_entry_t *next = dropped->next;
    entry_drop(dropped);
    dropped = next;
  }
}

size_t weft_resource_count(weft_resource_manager_t *m) {
  weft_mutex_lock(&m->mu);
  size_t n = m->map.count;
  weft_mutex_unlock(&m->mu);
  return n;
}

/* Those that want to know, at most `max` of them, retained. Returns how many there are. */
static size_t list_task_watchers(weft_resource_manager_t *m, weft_object_t **objects,
                                 const weft_resource_type_t **types, size_t max) {
  size_t n = 0;
  weft_mutex_lock(&m->mu);
  weft_map_entry_t at;
  for (size_t i = 0; weft_map_next(&m->map, &i, &at);) {
    resource_entry_t *e = at.value;
    if (e->object == NULL || e->type == NULL || e->type->task_lost == NULL) continue;
    if (n < max) {
      objects[n] = weft_object_retain(e->object);
      types[n] = e->type;
    }
    n++;
  }
  weft_mutex_unlock(&m->mu);
  return n;
}

void weft_resource_task_lost(weft_resource_manager_t *m, weft_str_t task) {
  size_t max = 2 * list_task_watchers(m, NULL, NULL, 0) +
               16; /* some may be made meanwhile: those begin without the task's loss */
  weft_object_t **objects = weft_calloc(max, sizeof(weft_object_t *));
  const weft_resource_type_t **types = weft_calloc(max, sizeof(weft_resource_type_t *));
  size_t n = objects == NULL || types == NULL ? 0 : list_task_watchers(m, objects, types, max);
  for (size_t i = 0; i < n && i < max; i++) {
    types[i]->task_lost(objects[i], task);
    weft_object_release(objects[i]);
  }
  weft_free(objects);
  weft_free(types);
}

weft_timer_t *weft_resource_timer(weft_resource_manager_t *m) { return m->timer; }

uint64_t weft_resource_generation(const weft_resource_manager_t *m) {
  return atomic_load_explicit(&m->generation, memory_order_acquire);
}

void weft_resource_private_name(weft_resource_manager_t *m, weft_str_t node, weft_strbuf_t *out) {
  uint64_t n = atomic_fetch_add_explicit(&m->counter, 1, memory_order_relaxed);
  weft_strbuf_printf(out, "_%" PRIu64 "_%.*s", n, WEFT_STR_ARGS(node));
}
