/* tensor/handle.c - reference counts of what is not a number. */
#include "tensor/handle.h"

#include "base/alloc.h"

weft_object_t *weft_object_retain(weft_object_t *o) {
  if (o != NULL) atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  return o;
}

void weft_object_release(weft_object_t *o) {
  if (o != NULL && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1) o->destroy(o);
}

/* Header and texts are one block. */
weft_handle_t *weft_handle_create(weft_str_t device, weft_str_t container, weft_str_t name,
                                  weft_str_t type_name, uint64_t hash_code, weft_object_t *object) {
  weft_str_t texts[4] = {device, container, name, type_name};
  size_t size = sizeof(weft_handle_t);
  for (int i = 0; i < 4; i++) {
    if (!weft_add_size(size, texts[i].length, &size)) return NULL;
  }
  weft_handle_t *h = weft_calloc(1, size);
  if (h == NULL) return NULL;
  atomic_init(&h->refs, 1);
  weft_str_t *fields[4] = {&h->device, &h->container, &h->name, &h->type_name};
  char *at = (char *)(h + 1);
  for (int i = 0; i < 4; i++) {
    if (texts[i].length > 0) memcpy(at, texts[i].data, texts[i].length);
    *fields[i] = weft_str_of(at, texts[i].length);
    at += texts[i].length;
  }
  h->hash_code = hash_code;
  h->shape = WEFT_UNKNOWN_SHAPE;
  h->object = weft_object_retain(object);
  return h;
}

weft_handle_t *weft_handle_retain(weft_handle_t *h) {
  if (h != NULL) atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
  return h;
}

void weft_handle_release(weft_handle_t *h) {
  if (h == NULL || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  weft_object_release(h->object);
  weft_free(h);
}

weft_variant_t *weft_variant_retain(weft_variant_t *v) {
  if (v != NULL) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

/* Destroying a variant releases those that it holds: within this many on the stack of a thread the next is
 * put off until the outermost is done. */
enum { MAX_DESTROYED = 32 };
static _Thread_local int num_destroyed;       /* on this thread's stack */
static _Thread_local weft_variant_t *put_off; /* a list; empty when none is on the stack */

void weft_variant_release(weft_variant_t *v) {
  if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  if (num_destroyed >= MAX_DESTROYED) {
    v->next_dead = put_off;
    put_off = v;
    return;
  }
  num_destroyed++;
  v->type->destroy(v);
  while (num_destroyed == 1 && put_off != NULL) {
    weft_variant_t *next = put_off;
    put_off = next->next_dead;
    next->type->destroy(next);
  }
  num_destroyed--;
}
