/* kernels/cpu/dataset/ahead.c - the ring, its threads and the one that takes.
 *
 * Locking: `mu` guards the ring and the slots' results; it is a leaf.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "kernels/cpu/dataset/ahead.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"

enum {
  QUICK_NS = 200000,    /* the taker waits for what ends within about this time, not only for the first */
  STALLED_NS = 1000000, /* and no longer than this for more than the first */
  SHORT_NS = 20000,     /* where elements end within this time of one another a thread takes several */
  MAX_TAKEN = 8,
  MAX_THREADS = 64,
};

struct weft_ahead {
  weft_ahead_options_t o;
  const weft_element_spec_t *spec;
  weft_canceller_t *canceller; /* the owner's, while this lives */
  uint64_t token;
  weft_mutex_t mu;
  weft_cond_t has_room, has_result; /* for the threads; for the taker */
  weft_ahead_slot_t **slots; /* max_limit of them; guarded by mu, as what follows. Used: from 0 to count */
  int count, limit, num_open, num_calls, num_done; /* open: not done; calls: those of them that go on */
  int num_idle;                                    /* threads that wait for room */
  int wanted;                                      /* slots that the taker waits for; 0: it does not wait */
  int64_t last_end_ns, gap_ns;                     /* when a slot ended last, and how far apart that is */
  bool is_full;                                    /* until half of it is taken */
  bool is_stopping, is_cancelled, is_at_end, is_paused, is_beginning;
  int num_threads;
  pthread_t threads[MAX_THREADS];
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
  if (a->o.num_threads < 1) a->o.num_threads = 1;
  if (a->o.num_threads > MAX_THREADS) a->o.num_threads = MAX_THREADS;
  if (a->o.max_calls < 1) a->o.max_calls = a->o.max_limit;
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
  const bool is_registered = weft_canceller_register(a->canceller, cancelled, a, &a->token);
  a->is_cancelled = !is_registered;
  if (!is_registered && !weft_canceller_is_cancelled(a->canceller)) {
    weft_cond_deinit(&a->has_room);
    weft_cond_deinit(&a->has_result);
    weft_mutex_deinit(&a->mu);
    destroy_unstarted(a);
    return WEFT_NO_MEMORY("elements made ahead");
  }
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
  weft_mutex_unlock(&a->mu);
  for (int i = 0; i < a->num_threads; i++)
    (void)pthread_join(a->threads[i], NULL); /* a thread starts the next */
  weft_mutex_lock(&a->mu);
  a->wanted = 1;
  for (int i = 0; i < a->count; i++) {
    while (!a->slots[i]->is_done) weft_cond_wait(&a->has_result, &a->mu);
    weft_traversal_buffer(a->o.owner->traversal, -(int64_t)a->slots[i]->bytes);
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

/* The index of the slot whose turn it is, or -1: it has not ended. The end's turn comes last. */
static int ready(const weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (!a->o.is_any_order) return a->count > 0 && a->slots[0]->is_done ? 0 : -1;
  for (int i = 0; i < a->count; i++) {
    if (a->slots[i]->is_done && (!a->slots[i]->is_end || a->count == 1)) return i;
  }
  return -1;
}

static bool has_room(const weft_ahead_t *a) {
  const weft_traversal_t *n = a->o.owner->traversal;
  return !a->is_paused && !a->is_at_end && !a->is_full &&
         (a->count == 0 || atomic_load(&n->buffered) <= n->budget);
}

static void note_end(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  const int64_t now = weft_clock_ns();
  const int64_t gap = a->last_end_ns != 0 ? now - a->last_end_ns : QUICK_NS;
  a->gap_ns += ((gap < QUICK_NS ? gap : QUICK_NS) - a->gap_ns) / 8;
  a->last_end_ns = now;
}

static void wake_taker(weft_ahead_t *a, bool is_last) WEFT_REQUIRES(&a->mu) {
  const bool is_enough = a->num_done >= a->wanted || is_last || a->num_open == 0 || a->is_paused;
  if (a->wanted > 0 && is_enough && (a->is_paused || a->is_stopping || ready(a) >= 0))
    weft_cond_broadcast(&a->has_result);
}

void weft_ahead_end(weft_ahead_slot_t *slot, weft_status_t *status, bool is_end) {
  weft_ahead_t *a = slot->of;
  const size_t bytes = status == NULL && !is_end ? weft_element_bytes(slot->parts, a->spec->n) : 0;
  weft_traversal_buffer(a->o.owner->traversal, (int64_t)bytes);
  weft_mutex_lock(&a->mu);
  slot->bytes = bytes;
  slot->status = status;
  slot->is_end = is_end;
  slot->is_done = true;
  a->num_open--;
  a->num_done++;
  if (slot->is_called && a->num_calls-- == a->o.max_calls && a->num_idle > 0)
    weft_cond_broadcast(&a->has_room);
  if (is_end) a->is_at_end = true;
  note_end(a);
  wake_taker(a, is_end || status != NULL);
  weft_mutex_unlock(&a->mu);
}

/* NULL: there is no memory. */
static weft_ahead_slot_t *take_slot(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  weft_ahead_slot_t *slot = slot_new(a);
  if (slot == NULL) { /* the taker finds nothing on its way, and says so */
    a->is_cancelled = true;
    weft_cond_broadcast(&a->has_result);
    return NULL;
  }
  a->slots[a->count++] = slot;
  a->num_open++;
  a->is_full = a->count >= a->limit;
  return slot;
}

/* Begins elements, one at least, when it is this thread's turn and there is room. Returns how many go on; -1:
 * the ahead is stopping, or was cancelled. */
static int begin_some(weft_ahead_t *a, weft_ahead_slot_t **taken) WEFT_REQUIRES(&a->mu) {
  a->num_idle++;
  while (!a->is_stopping && !a->is_cancelled && (a->is_beginning || !has_room(a)))
    weft_cond_wait(&a->has_room, &a->mu);
  a->num_idle--;
  const int most = a->gap_ns < SHORT_NS && a->last_end_ns != 0 ? MAX_TAKEN : 1;
  int n = 0;
  a->is_beginning = true;
  for (int i = 0; i < most && has_room(a) && !a->is_stopping && !a->is_cancelled; i++) {
    weft_ahead_slot_t *slot = take_slot(a);
    if (slot == NULL) break;
    weft_mutex_unlock(&a->mu);
    const bool goes_on = a->o.begin(a->o.arg, slot);
    weft_mutex_lock(&a->mu);
    if (goes_on) taken[n++] = slot;
  }
  a->is_beginning = false;
  if (a->is_paused) weft_cond_broadcast(&a->has_result);
  return n == 0 && (a->is_stopping || a->is_cancelled) ? -1 : n;
}

static void *make_all(void *arg);

/* Without a second thread the first one makes all. */
static void let_another(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (a->is_stopping || !has_room(a)) return;
  if (a->num_idle > 0) {
    weft_cond_signal(&a->has_room);
  } else if (a->num_threads < a->o.num_threads) {
    a->num_threads += pthread_create(&a->threads[a->num_threads], NULL, make_all, a) == 0;
  }
}

static void go_on(weft_ahead_t *a, weft_ahead_slot_t *slot) WEFT_REQUIRES(&a->mu) {
  a->num_idle++;
  while (a->num_calls >= a->o.max_calls) weft_cond_wait(&a->has_room, &a->mu);
  a->num_idle--;
  a->num_calls++;
  slot->is_called = true;
  weft_mutex_unlock(&a->mu);
  a->o.go_on(a->o.arg, slot);
  weft_mutex_lock(&a->mu);
}

static void *make_all(void *arg) {
  weft_ahead_t *a = arg;
  weft_ahead_slot_t *taken[MAX_TAKEN];
  pthread_setname_np(pthread_self(), "weft-ahead");
  if (a->o.num_threads > 1) weft_parallel_for_alone();
  weft_mutex_lock(&a->mu);
  for (int n; (n = begin_some(a, taken)) >= 0;) {
    if (n > 0) let_another(a);
    for (int i = 0; i < n; i++) go_on(a, taken[i]);
  }
  weft_mutex_unlock(&a->mu);
  return NULL;
}

/* ---- taking ---- */

static weft_status_t *start(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (a->is_paused) {
    a->is_paused = false;
    weft_cond_broadcast(&a->has_room);
  }
  if (a->num_threads > 0) return NULL;
  if (pthread_create(&a->threads[0], NULL, make_all, a) != 0)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread to make elements ahead");
  a->num_threads = 1;
  return NULL;
}

/* All that may be under way is, and the taker waits: more would have helped. */
static void grow(weft_ahead_t *a) WEFT_REQUIRES(&a->mu) {
  if (a->count < a->limit || a->limit >= a->o.max_limit) return;
  a->limit++;
  a->is_full = false;
  weft_cond_signal(&a->has_room);
}

/* Waits for several slots at first, where they end quickly. */
static void wait_for_some(weft_ahead_t *a, bool is_first) WEFT_REQUIRES(&a->mu) {
  const int64_t some = QUICK_NS / (a->gap_ns + 1), half = a->limit / 2;
  a->wanted = !is_first || some < 1 ? 1 : (int)(some < half ? some : half);
  if (a->wanted > 1) {
    (void)weft_cond_wait_until(&a->has_result, &a->mu, weft_clock_ns() + STALLED_NS);
  } else {
    a->wanted = 1;
    weft_cond_wait(&a->has_result, &a->mu);
  }
  a->wanted = 0;
}

static weft_status_t *wait_for_slot(weft_ahead_t *a, weft_ahead_slot_t **out) WEFT_REQUIRES(&a->mu) {
  int i;
  WEFT_RETURN_IF_ERROR(start(a));
  for (bool is_first = true; (i = ready(a)) < 0; is_first = false) {
    if (a->is_cancelled) return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    grow(a);
    wait_for_some(a, is_first);
  }
  *out = a->slots[i];
  memmove(a->slots + i, a->slots + i + 1, (size_t)(a->count - i - 1) * sizeof *a->slots);
  a->count--;
  a->num_done--;
  if (a->count <= a->limit / 2) a->is_full = false;
  if (a->num_idle > 0 && !a->is_beginning && has_room(a)) weft_cond_signal(&a->has_room);
  return NULL;
}

weft_status_t *weft_ahead_next(weft_ahead_t *a, weft_tensor_t **out, bool *is_end) {
  weft_ahead_slot_t *slot = NULL;
  weft_mutex_lock(&a->mu);
  weft_status_t *s = wait_for_slot(a, &slot);
  weft_mutex_unlock(&a->mu);
  if (s != NULL) return s;
  weft_traversal_buffer(a->o.owner->traversal, -(int64_t)slot->bytes);
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
  a->wanted = 1;
  while (!is_quiet(a) && !a->is_cancelled) weft_cond_wait(&a->has_result, &a->mu);
  a->wanted = 0;
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
  weft_traversal_buffer(a->o.owner->traversal, (int64_t)slot->bytes);
  weft_mutex_lock(&a->mu);
  a->slots[a->count++] = slot;
  a->num_done++;
  a->is_full = a->count >= a->limit;
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
