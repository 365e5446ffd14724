/* base/cancellation.c - a list of callbacks under a leaf lock.
 *
 * Locking: `mu` is a leaf and never held while a callback runs. `running` names
 * the token whose callback runs now, so that deregister can wait for it.
 */
#include "base/cancellation.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum { BUCKETS = 64 }; /* steps register one waiter per blocked op; a hash keeps deregistration short */

struct weft_canceller {
  atomic_int refs;
  atomic_bool cancelled;
  weft_canceller_t *parent; /* retained */
  weft_cancel_waiter_t in_parent;
  bool is_linked; /* to the parent */
  weft_mutex_t mu;
  weft_cond_t idle;                       /* signalled when `running` returns to 0 */
  weft_cancel_waiter_t *buckets[BUCKETS]; /* guarded by mu */
  size_t count;                           /* guarded by mu; of waiters */
  uint64_t next_token;                    /* guarded by mu */
  uint64_t running;                       /* guarded by mu; 0: none */
  pthread_t runner;                       /* guarded by mu; the thread that runs it */
};

static void waiter_free(weft_cancel_waiter_t *w) {
  if (w != NULL && w->is_allocated) weft_free(w);
}

/* The parent holds no reference: a child that is just dying (which waits for us in
 * its deregister) must not be brought back to life. */
static void cancel_child(void *arg) {
  weft_canceller_t *c = arg;
  int refs = atomic_load(&c->refs);
  while (refs > 0 && !atomic_compare_exchange_weak(&c->refs, &refs, refs + 1)) {
  }
  if (refs == 0) return;
  weft_canceller_cancel(c);
  weft_canceller_release(c);
}

weft_canceller_t *weft_canceller_create(weft_canceller_t *parent) {
  weft_canceller_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  atomic_init(&c->refs, 1);
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->idle);
  c->next_token = 1;
  if (parent == NULL) return c;
  c->parent = weft_canceller_retain(parent);
  c->is_linked = weft_canceller_register_in(parent, &c->in_parent, cancel_child, c);
  if (!c->is_linked) atomic_store(&c->cancelled, true);
  return c;
}

weft_canceller_t *weft_canceller_retain(weft_canceller_t *c) {
  if (c != NULL) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

void weft_canceller_release(weft_canceller_t *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  if (c->parent != NULL) {
    if (c->is_linked) weft_canceller_deregister(c->parent, c->in_parent.token);
    weft_canceller_release(c->parent);
  }
  for (int i = 0; i < BUCKETS && c->count > 0; i++) {
    while (c->buckets[i] != NULL) {
      weft_cancel_waiter_t *w = c->buckets[i];
      c->count--;
      c->buckets[i] = w->next;
      waiter_free(w);
    }
  }
  weft_cond_deinit(&c->idle);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

bool weft_canceller_is_cancelled(const weft_canceller_t *c) {
  return c != NULL && atomic_load_explicit(&c->cancelled, memory_order_acquire);
}

bool weft_canceller_is_new(const weft_canceller_t *c) {
  return atomic_load(&c->refs) == 1 && !weft_canceller_is_cancelled(c) && c->count == 0 && c->parent == NULL;
}

static void unlink_locked(weft_canceller_t *c, weft_cancel_waiter_t *w) WEFT_REQUIRES(c->mu) {
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) c->buckets[w->token % BUCKETS] = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  c->count--;
}

void weft_canceller_cancel(weft_canceller_t *c) {
  weft_canceller_retain(c); /* a callback may drop the last reference */
  weft_mutex_lock(&c->mu);
  if (atomic_load(&c->cancelled)) {
    weft_mutex_unlock(&c->mu);
    weft_canceller_release(c);
    return;
  }
  atomic_store(&c->cancelled, true);
  c->runner = pthread_self();
  for (int i = 0; i < BUCKETS; i++) {
    while (c->buckets[i] != NULL) {
      weft_cancel_waiter_t *w = c->buckets[i];
      weft_cancel_fn *fn = w->fn;
      void *arg = w->arg;
      unlink_locked(c, w);
      c->running = w->token;
      waiter_free(w);
      weft_mutex_unlock(&c->mu);
      fn(arg); /* which may free a waiter that is the caller's */
      weft_mutex_lock(&c->mu);
      c->running = 0;
      weft_cond_broadcast(&c->idle);
    }
  }
  weft_mutex_unlock(&c->mu);
  weft_canceller_release(c);
}

/* Token 0: it is cancelled already. Otherwise `w` may be called and gone when this returns. */
static uint64_t enter(weft_canceller_t *c, weft_cancel_waiter_t *w) {
  uint64_t token = 0;
  weft_mutex_lock(&c->mu);
  if (!atomic_load(&c->cancelled)) {
    w->token = token = c->next_token++;
    weft_cancel_waiter_t **head = &c->buckets[w->token % BUCKETS];
    w->next = *head;
    if (*head != NULL) (*head)->prev = w;
    *head = w;
    c->count++;
  }
  weft_mutex_unlock(&c->mu);
  return token;
}

bool weft_canceller_register(weft_canceller_t *c, weft_cancel_fn *fn, void *arg, uint64_t *out_token) {
  if (c == NULL) {
    *out_token = 0;
    return true;
  }
  weft_cancel_waiter_t *w = weft_malloc(sizeof *w);
  if (w == NULL) return false;
  *w = (weft_cancel_waiter_t){.fn = fn, .arg = arg, .is_allocated = true};
  const uint64_t token = enter(c, w);
  if (token != 0) *out_token = token;
  if (token == 0) weft_free(w);
  return token != 0;
}

bool weft_canceller_register_in(weft_canceller_t *c, weft_cancel_waiter_t *w, weft_cancel_fn *fn, void *arg) {
  *w = (weft_cancel_waiter_t){.fn = fn, .arg = arg};
  return c == NULL || enter(c, w) != 0;
}

static bool deregister(weft_canceller_t *c, uint64_t token, bool wait) {
  if (c == NULL) return true;
  weft_mutex_lock(&c->mu);
  weft_cancel_waiter_t *w = c->buckets[token % BUCKETS];
  while (w != NULL && w->token != token) w = w->next;
  if (w != NULL) unlink_locked(c, w);
  while (wait && w == NULL && c->running == token && token != 0 &&
         !pthread_equal(c->runner, pthread_self())) {
    weft_cond_wait(&c->idle, &c->mu); /* woken by weft_canceller_cancel */
  }
  weft_mutex_unlock(&c->mu);
  const bool found = w != NULL;
  waiter_free(w);
  return found;
}

bool weft_canceller_deregister(weft_canceller_t *c, uint64_t token) { return deregister(c, token, true); }
bool weft_canceller_try_deregister(weft_canceller_t *c, uint64_t token) {
  return deregister(c, token, false);
}
