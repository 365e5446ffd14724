/* worker/worker_client.c - functions common to all backends of worker clients. */
#include "worker/worker_client.h"

#include "base/alloc.h"
#include "worker/session_cluster.h"

weft_worker_client_t *weft_worker_client_retain(weft_worker_client_t *w) {
  if (w != NULL) atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  return w;
}

void weft_worker_client_release(weft_worker_client_t *w) {
  if (w != NULL && atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) w->ops->destroy(w);
}

void weft_device_list_deinit(weft_device_list_t *l) {
  weft_arena_deinit(&l->arena);
  weft_free(l->devices);
  *l = (weft_device_list_t){.arena = WEFT_ARENA_INIT};
}

weft_status_t *weft_device_list_add(weft_device_list_t *l, const weft_device_attributes_t *d) {
  weft_device_attributes_t copy = *d;
  copy.name = weft_arena_str(&l->arena, d->name);
  copy.type = weft_arena_str(&l->arena, d->type);
  copy.description = weft_arena_str(&l->arena, d->description);
  weft_device_attributes_t *devices = weft_realloc(l->devices, (size_t)l->n + 1, sizeof *devices);
  if (devices != NULL) l->devices = devices;
  if (devices == NULL || copy.name.data == NULL || copy.type.data == NULL || copy.description.data == NULL) {
    return WEFT_NO_MEMORY("a list of devices");
  }
  l->devices[l->n++] = copy;
  return NULL;
}

void weft_session_cluster_deinit(weft_session_cluster_t *c) {
  if (c->cache != NULL) c->cache->destroy(c->cache);
  weft_free(c->task);
  *c = (weft_session_cluster_t){NULL, NULL};
}
