/* kernels/cpu/dataset/place.c - the places of a pass, and their functions.
 *
 * Locking: `mu` is held while a place's functions are made, which takes locks of their graph.
 */
#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/cpu/dataset/traversal.h"

struct weft_traversal_places {
  weft_mutex_t mu;
  weft_traversal_place_t **all; /* owned; guarded by mu, as num */
  int num;
};

weft_traversal_places_t *weft_traversal_places_create(void) {
  weft_traversal_places_t *n = weft_calloc(1, sizeof *n);
  if (n != NULL) weft_mutex_init(&n->mu);
  return n;
}

static void place_free(weft_traversal_place_t *p) {
  for (int i = 0; i < p->num_callees; i++) weft_callee_release(p->callees[i]);
  weft_dataset_release((weft_dataset_t *)(uintptr_t)p->of);
  weft_free(p);
}

void weft_traversal_places_destroy(weft_traversal_places_t *n) {
  if (n == NULL) return;
  for (int i = 0; i < n->num; i++) place_free(n->all[i]);
  weft_free(n->all);
  weft_mutex_deinit(&n->mu);
  weft_free(n);
}

static weft_status_t *place_new(const weft_traversal_place_t *like, weft_callee_t *const *callees, int n,
                                weft_traversal_place_t **out) {
  weft_traversal_place_t *p = weft_malloc(sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("a data set's functions");
  *p = *like;
  if (p->of != NULL) weft_dataset_retain(p->of);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    s = weft_callee_apart(callees[i], &p->callees[i]);
    p->num_callees += s == NULL;
  }
  if (s != NULL) {
    place_free(p);
    return s;
  }
  *out = p;
  return NULL;
}

static weft_status_t *add_place_locked(weft_traversal_places_t *n, const weft_traversal_place_t *like,
                                       weft_callee_t *const *callees, int num,
                                       const weft_traversal_place_t **out) WEFT_REQUIRES(n->mu) {
  weft_traversal_place_t *p = NULL;
  weft_traversal_place_t **grown = weft_realloc(n->all, (size_t)n->num + 1, sizeof(weft_traversal_place_t *));
  if (grown == NULL) return WEFT_NO_MEMORY("a data set's functions");
  n->all = grown;
  WEFT_RETURN_IF_ERROR(place_new(like, callees, num, &p));
  n->all[n->num++] = p;
  *out = p;
  return NULL;
}

static weft_status_t *find_place(weft_traversal_places_t *n, const weft_traversal_place_t *like,
                                 weft_callee_t *const *callees, int num, const weft_traversal_place_t **out) {
  weft_status_t *s = NULL;
  *out = NULL;
  weft_mutex_lock(&n->mu);
  for (int i = 0; *out == NULL && i < n->num; i++) {
    const weft_traversal_place_t *p = n->all[i];
    if (p->parent == like->parent && p->key == like->key && p->num_callees == num) *out = p;
  }
  if (*out == NULL) s = add_place_locked(n, like, callees, num, out);
  weft_mutex_unlock(&n->mu);
  return s;
}

weft_status_t *weft_traversal_place(weft_traversal_t *base, const weft_traversal_place_t *parent, int i,
                                    const weft_dataset_t *d, const weft_traversal_place_t **out) {
  weft_callee_t *callees[WEFT_MAX_FUNCTIONS] = {NULL};
  int num = 0;
  while (num < WEFT_MAX_FUNCTIONS && d->fns[num] != NULL) {
    callees[num] = d->fns[num]->callee;
    num++;
  }
  weft_traversal_place_t like = {
      .of = d, .key = d->origin != NULL ? (const void *)d->origin->node : (const void *)callees[0]};
  if (parent != NULL && parent->is_below_root) {
    like = (weft_traversal_place_t){
        .parent = parent, .key = (const void *)(uintptr_t)(i + 1), .is_below_root = true};
  } else if (d == base->dataset) {
    like = (weft_traversal_place_t){.key = d, .is_below_root = true};
  } else if (num == 0) {
    *out = NULL;
    return NULL;
  }
  return find_place(base->places, &like, callees, num, out);
}

weft_status_t *weft_traversal_callee(weft_traversal_t *base, weft_callee_t *callee, weft_callee_t **out) {
  const weft_traversal_place_t like = {.key = callee};
  const weft_traversal_place_t *p = NULL;
  WEFT_RETURN_IF_ERROR(find_place(base->places, &like, &callee, 1, &p));
  *out = p->callees[0];
  return NULL;
}
