/* kernels/cpu/dataset/ahead.c - the ring, its thread and the one that takes.
 *
 * Locking: `mu` guards the ring and the slots' results; it is a leaf.
 */
#include "kernels/cpu/dataset/ahead.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"

struct weft_ahead {
  weft_ahead_options_t o;
  const weft_element_spec_t *spec;
  weft_canceller_t *canceller; /* the owner's, while this lives */
  uint64_t token;
  weft_mutex_t mu;
  weft_cond_t has_room, has_result; /* for the thread; for the taker */
  weft_ahead_slot_t **slots; /* max_limit of them; guarded by mu, as what follows. Used: from 0 to count */
  int count, limit;
  bool has_thread, is_stopping, is_cancelled, is_at_end, is_paused, is_beginning;
  pthread_t thread;
};

static void cancelled(void *arg) {
  weft_ahead_t *a = arg;
  weft_mutex_lock(&a->mu);
  a->is_cancelled = true;
  weft_cond_broadcast(&a->has_room);
  weft_cond_broadcast(&a->has_result);
  weft_mutex_unlock(&a->mu);
}

static void slot_free(weft_ahead_t *a, weft_ahead_slot_t *slot) {
  if (slot == NULL) return;
  weft_element_release(slot->parts, a->spec->n);
  weft_status_free(slot->status);
  weft_free(slot);
}

static weft_ahead_slot_t *slot_new(weft_ahead_t *a) {
  weft_ahead_slot_t *slot = weft_calloc(1, sizeof *slot + (size_t)a->spec->n * sizeof *slot->parts);
  if (slot == NULL) return NULL;
  slot->of = a;
  slot->parts = (weft_tensor_t **)(void *)(slot + 1);
  return slot;
}

static void destroy_unstarted(weft_ahead_t *a) {
  weft_canceller_release(a->canceller);
  weft_free(a->slots);
  weft_free(a);
}

weft_status_t *weft_ahead_create(const weft_ahead_options_t *o, weft_ahead_t **out) {
  weft_ahead_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return WEFT_NO_MEMORY("elements made ahead");
  a->o = *o;
  if (a->o.max_limit < a->o.limit) a->o.max_limit = a->o.limit;
  a->limit = a->o.limit;
  a->spec = o->owner->of->spec;
  a->canceller = weft_canceller_create(o->owner->canceller);
  a->slots = weft_calloc((size_t)a->o.max_limit, sizeof *a->slots);
  if (a->canceller == NULL || a->slots == NULL) {
    destroy_unstarted(a);
    return WEFT_NO_MEMORY("elements made ahead");
  }
  weft_mutex_init(&a->mu);
  weft_cond_init(&a->has_room);
  weft_cond_init(&a->has_result);
  a->is_cancelled = !weft_canceller_register(a->canceller, cancelled, a, &a->token);
  o->owner->canceller = a->canceller;
  *out = a;
  return NULL;
}

void weft_ahead_destroy(weft_ahead_t *a) {
  if (a == NULL) return;
  weft_canceller_cancel(a->canceller);
  weft_mutex_lock(&a->mu);
  a->is_stopping = true;
  weft_cond_broadcast(&a->has_room);
  const bool has_thread = a->has_thread;
  weft_mutex_unlock(&a->mu);
  if (has_thread) (void)pthread_join(a->thread, NULL);
  weft_mutex_lock(&a->mu);
  for (int i = 0; i < a->count; i++) {
    while (!a->slots[i]->is_done) weft_cond_wait(&a->has_result, &a->mu);
    atomic_fetch_sub(&a->o.owner->traversal->buffered, (long long)a->slots[i]->bytes);
    slot_free(a, a->slots[i]);
  }
  weft_mutex_unlock(&a->mu);
  weft_iterator_close(a->o.owner->input); /* it has the canceller, too */
  a->o.owner->input = NULL;
  (void)weft_canceller_deregister(a->canceller, a->token);
  weft_cond_deinit(&a->has_room);
  weft_cond_deinit(&a->has_result);
  weft_mutex_deinit(&a->mu);
  destroy_unstarted(a);
}

/* ---- making ---- */

void weft_ahead_end(weft_ahead_slot_t *slot, weft_status_t *status, bool is_end) {
  weft_ahead_t *a = slot->of;
  const size_t bytes = status == NULL && !is_end ? weft_element_bytes(slot->parts, a->spec->n) : 0;
  atomic_fetch_add(&a->o.owner->traversal->buffered, (long long)bytes);
  weft_mutex_lock(&a->mu);
  slot->bytes = bytes;
  slot->status = status;
  slot->is_end = is_end;
  slot->is_done = true;
  if (is_end) a->is_at_end = true;
  weft_cond_broadcast(&a->has_result);
  weft_mutex_unlock(&a->mu);
}

static bool has_room(const weft_ahead_t *a) {
  const weft_traversal_t *n = a->o.owner->traversal;
  return !a->is_paused && !a->is_at_end && a->count < a->limit &&
         (a->count == 0 || atomic_load(&n->buffered) <= n->budget);
}

/* NULL: the ahead is stopping, or was cancelled. */
static weft_ahead_slot_t *next_slot(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  while (!a->is_stopping && !a->is_cancelled && !has_room(a)) weft_cond_wait(&a->has_room, &a->mu);
  if (a->is_stopping || a->is_cancelled) return NULL;
  weft_ahead_slot_t *slot = slot_new(a);
  if (slot == NULL) { /* the taker finds nothing on its way, and says so */
    a->is_cancelled = true;
    weft_cond_broadcast(&a->has_result);
    return NULL;
  }
  a->slots[a->count++] = slot;
  return slot;
}

static void *make_all(void *arg) {
  weft_ahead_t *a = arg;
  weft_mutex_lock(&a->mu);
  for (weft_ahead_slot_t *slot; (slot = next_slot(a)) != NULL;) {
    a->is_beginning = true;
    weft_mutex_unlock(&a->mu);
    a->o.begin(a->o.arg, slot);
    weft_mutex_lock(&a->mu);
    a->is_beginning = false;
    if (a->is_paused) weft_cond_broadcast(&a->has_result);
  }
  weft_mutex_unlock(&a->mu);
  return NULL;
}

/* ---- taking ---- */

/* The index of the slot whose turn it is, or -1: it has not ended. The end's turn comes last. */
static int ready(const weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (!a->o.is_any_order) return a->count > 0 && a->slots[0]->is_done ? 0 : -1;
  for (int i = 0; i < a->count; i++) {
    if (a->slots[i]->is_done && (!a->slots[i]->is_end || a->count == 1)) return i;
  }
  return -1;
}

static weft_status_t *start(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (a->is_paused) {
    a->is_paused = false;
    weft_cond_signal(&a->has_room);
  }
  if (a->has_thread) return NULL;
  if (pthread_create(&a->thread, NULL, make_all, a) != 0)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread to make elements ahead");
  a->has_thread = true;
  return NULL;
}

/* All that may be under way is, and the taker waits: more would have helped. */
static void grow(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (a->count < a->limit || a->limit >= a->o.max_limit) return;
  a->limit++;
  weft_cond_signal(&a->has_room);
}

static weft_status_t *wait_for_slot(weft_ahead_t *a, weft_ahead_slot_t **out) WEFT_REQUIRES(&a->mu) {
  int i;
  WEFT_RETURN_IF_ERROR(start(a));
  while ((i = ready(a)) < 0) {
    if (a->is_cancelled) return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    grow(a);
    weft_cond_wait(&a->has_result, &a->mu);
  }
  *out = a->slots[i];
  memmove(a->slots + i, a->slots + i + 1, (size_t)(a->count - i - 1) * sizeof *a->slots);
  a->count--;
  weft_cond_signal(&a->has_room);
  return NULL;
}

weft_status_t *weft_ahead_next(weft_ahead_t *a, weft_tensor_t **out, bool *is_end) {
  weft_ahead_slot_t *slot = NULL;
  weft_mutex_lock(&a->mu);
  weft_status_t *s = wait_for_slot(a, &slot);
  weft_mutex_unlock(&a->mu);
  if (s != NULL) return s;
  atomic_fetch_sub(&a->o.owner->traversal->buffered, (long long)slot->bytes);
  s = slot->status;
  slot->status = NULL;
  *is_end = slot->is_end;
  for (int i = 0; s == NULL && !slot->is_end && i < a->spec->n; i++) {
    out[i] = slot->parts[i];
    slot->parts[i] = NULL;
  }
  slot_free(a, slot);
  return s;
}

/* ---- state ---- */

static bool is_quiet(const weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  for (int i = 0; i < a->count; i++) {
    if (!a->slots[i]->is_done) return false;
  }
  return !a->is_beginning;
}

static weft_status_t *save_slot(const weft_ahead_t *a, const weft_ahead_slot_t *slot, weft_saved_t *to) {
  weft_saved_put_int(to, slot->is_end);
  weft_saved_put_status(to, slot->status);
  if (slot->is_end || slot->status != NULL) return NULL;
  return weft_saved_put_element(to, slot->parts, a->spec->n);
}

weft_status_t *weft_ahead_save(weft_ahead_t *a, weft_saved_t *to) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&a->mu);
  a->is_paused = true;
  while (!is_quiet(a) && !a->is_cancelled) weft_cond_wait(&a->has_result, &a->mu);
  if (a->is_cancelled) s = WEFT_ERROR(CANCELLED, "Iterator was cancelled");
  weft_saved_put_int(to, a->is_at_end);
  weft_saved_put_int(to, a->count);
  for (int i = 0; s == NULL && i < a->count; i++) s = save_slot(a, a->slots[i], to);
  weft_mutex_unlock(&a->mu);
  return s;
}

static weft_status_t *load_slot(weft_ahead_t *a, weft_saved_t *from) {
  int64_t is_end;
  weft_ahead_slot_t *slot = slot_new(a);
  if (slot == NULL) return WEFT_NO_MEMORY("elements made ahead");
  weft_status_t *s = weft_saved_get_int_in(from, 0, 1, &is_end);
  if (s == NULL) s = weft_saved_get_status(from, &slot->status);
  if (s == NULL && is_end == 0 && slot->status == NULL)
    s = weft_saved_get_element(from, a->spec, slot->parts);
  if (s != NULL) {
    slot_free(a, slot);
    return s;
  }
  slot->is_end = is_end != 0;
  slot->is_done = true;
  if (!slot->is_end && slot->status == NULL) slot->bytes = weft_element_bytes(slot->parts, a->spec->n);
  atomic_fetch_add(&a->o.owner->traversal->buffered, (long long)slot->bytes);
  weft_mutex_lock(&a->mu);
  a->slots[a->count++] = slot;
  weft_mutex_unlock(&a->mu);
  return NULL;
}

weft_status_t *weft_ahead_load(weft_ahead_t *a, weft_saved_t *from) {
  int64_t is_at_end, count;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_at_end));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, a->o.max_limit, &count));
  for (int64_t i = 0; i < count; i++) WEFT_RETURN_IF_ERROR(load_slot(a, from));
  weft_mutex_lock(&a->mu);
  a->is_at_end = is_at_end != 0;
  weft_mutex_unlock(&a->mu);
  return NULL;
}
