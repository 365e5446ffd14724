/* kernels/cpu/dataset/traversal.c - the thread of a pass, and the line of requests in front of it.
 *
 * Locking: `mu` is a leaf, but that cancellers are asked to register under it; they call back without a lock
 * of theirs.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "kernels/cpu/dataset/traversal.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/holds.h"

enum { BUDGET = 1 << 30 };

typedef enum request_state { IN_LINE, SERVED, ENDED } request_state_t;

typedef struct request request_t;
typedef struct traversal {
  weft_traversal_t base;
  weft_mutex_t mu;
  weft_cond_t changed; /* for the thread */
  int refs;            /* guarded by mu, as what follows: users and the thread */
  bool is_closed, has_thread;
  request_t *first, *last;
  /* The thread's alone. */
  weft_iterator_t *root;
  weft_tensor_t **kept; /* of a request whose step was cancelled meanwhile, for the next one */
  weft_status_t *kept_status;
  bool has_kept, kept_is_end;
} traversal_t;

struct request {
  weft_traversal_request_t spec;
  weft_traversal_fn *fn; /* NULL: an element is wanted */
  void *arg;
  traversal_t *of;
  int64_t asked_ns;
  request_state_t state; /* guarded by of->mu */
  uint64_t token;
  request_t *next;
};

/* ---- life ---- */

weft_status_t *weft_traversal_create(const weft_dataset_t *d, weft_device_t *device, weft_canceller_t *parent,
                                     weft_traversal_t **out) {
  traversal_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("an iterator");
  n->base.canceller = weft_canceller_create(parent);
  n->kept = weft_calloc((size_t)d->spec->n, sizeof *n->kept);
  n->base.places = weft_traversal_places_create();
  if (n->base.canceller == NULL || n->kept == NULL || n->base.places == NULL) {
    weft_traversal_places_destroy(n->base.places);
    weft_canceller_release(n->base.canceller);
    weft_free(n->kept);
    weft_free(n);
    return WEFT_NO_MEMORY("an iterator");
  }
  atomic_init(&n->base.refs, 1);
  n->refs = 1;
  n->base.dataset = weft_dataset_retain(d);
  n->base.device = device;
  weft_device_hold(device);
  n->base.is_deterministic = true;
  n->base.budget = BUDGET;
  weft_mutex_init(&n->mu);
  weft_cond_init(&n->changed);
  *out = &n->base;
  return NULL;
}

weft_traversal_t *weft_traversal_retain(weft_traversal_t *n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
  return n;
}

static void unref(traversal_t *n) {
  weft_mutex_lock(&n->mu);
  const bool is_last = --n->refs == 0;
  weft_mutex_unlock(&n->mu);
  if (!is_last) return;
  weft_device_t *device = n->base.device;
  weft_traversal_places_destroy(n->base.places);
  weft_element_release(n->kept, n->base.dataset->spec->n);
  weft_status_free(n->kept_status);
  weft_free(n->kept);
  weft_canceller_release(n->base.canceller);
  weft_dataset_release((weft_dataset_t *)(uintptr_t)n->base.dataset);
  weft_cond_deinit(&n->changed);
  weft_mutex_deinit(&n->mu);
  weft_free(n);
  weft_device_let_go(device);
}

void weft_traversal_release(weft_traversal_t *n) {
  if (n == NULL || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) > 1) return;
  weft_traversal_close(n);
  unref((traversal_t *)n);
}

/* ---- the time that requests take ---- */

static void note_end(request_t *r, bool is_delivered) {
  weft_device_counts_t *all = weft_device_counts(r->of->base.device);
  const int64_t ns = weft_clock_ns() - r->asked_ns;
  atomic_fetch_add_explicit(&r->of->base.waited_ns, ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&all->input_waited_ns, ns, memory_order_relaxed);
  if (!is_delivered) return;
  atomic_fetch_add_explicit(&r->of->base.delivered, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&all->input_elements, 1, memory_order_relaxed);
}

void weft_traversal_buffer(weft_traversal_t *n, int64_t bytes) {
  atomic_fetch_add(&n->buffered, bytes);
  atomic_fetch_add_explicit(&weft_device_counts(n->device)->input_ahead_bytes, bytes, memory_order_relaxed);
}

void weft_traversal_add_waits(const weft_traversal_t *n, weft_waits_t *to) {
  to->waited_ns += atomic_load_explicit(&n->waited_ns, memory_order_relaxed);
  to->delivered += atomic_load_explicit(&n->delivered, memory_order_relaxed);
  to->buffered = atomic_load_explicit(&n->buffered, memory_order_relaxed);
  to->budget = n->budget;
}

/* ---- the line ---- */

static void request_free(request_t *r) {
  weft_canceller_release(r->spec.canceller);
  weft_free(r);
}

/* Ends a request that has left the line without being served; owns `status`. */
static void refuse(request_t *r, weft_status_t *status) {
  if (r->fn != NULL) {
    r->fn(r->arg, status, NULL);
  } else {
    r->spec.done(r->spec.arg, status, NULL, false);
  }
  request_free(r);
}

static weft_status_t *closed(void) { return WEFT_ERROR(CANCELLED, "Iterator was cancelled"); }

void weft_traversal_close(weft_traversal_t *n) {
  traversal_t *mine = (traversal_t *)n;
  weft_mutex_lock(&mine->mu);
  request_t *r = mine->first;
  mine->first = mine->last = NULL;
  mine->is_closed = true;
  for (request_t *each = r; each != NULL; each = each->next) each->state = ENDED;
  weft_cond_signal(&mine->changed);
  weft_mutex_unlock(&mine->mu);
  weft_canceller_cancel(n->canceller);
  while (r != NULL) {
    request_t *next = r->next;
    (void)weft_canceller_deregister(r->spec.canceller, r->token);
    refuse(r, closed());
    r = next;
  }
}

static void leave_line(traversal_t *n, request_t *r) {
  request_t **at = &n->first, *before = NULL;
  while (*at != r) {
    before = *at;
    at = &before->next;
  }
  *at = r->next;
  if (n->last == r) n->last = before;
}

/* The step of a request is cancelled. */
static void step_cancelled(void *arg) {
  request_t *r = arg;
  traversal_t *n = r->of;
  weft_mutex_lock(&n->mu);
  const request_state_t was = r->state;
  if (was == IN_LINE) leave_line(n, r);
  r->state = ENDED;
  weft_mutex_unlock(&n->mu);
  if (was == ENDED) return;
  note_end(r, false);
  weft_status_t *s = WEFT_ERROR(CANCELLED, "Step was cancelled while it waited for an iterator");
  if (was == IN_LINE) {
    refuse(r, s);
  } else { /* the thread frees it */
    r->spec.done(r->spec.arg, s, NULL, false);
  }
}

static void *serve_all(void *arg);

static weft_status_t *start_thread(traversal_t *n) WEFT_REQUIRES(&n->mu) {
  pthread_t thread;
  if (n->has_thread) return NULL;
  if (pthread_create(&thread, NULL, serve_all, n) != 0)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for an iterator");
  (void)pthread_detach(thread);
  n->has_thread = true;
  n->refs++;
  return NULL;
}

static void enqueue(request_t *r) {
  traversal_t *n = r->of;
  weft_mutex_lock(&n->mu);
  weft_status_t *s = n->is_closed ? closed() : start_thread(n);
  if (s == NULL && !weft_canceller_register(r->spec.canceller, step_cancelled, r, &r->token))
    s = weft_canceller_is_cancelled(r->spec.canceller)
            ? WEFT_ERROR(CANCELLED, "Step was cancelled before it reached an iterator")
            : WEFT_NO_MEMORY("an element of an iterator");
  if (s == NULL) {
    if (n->last != NULL) n->last->next = r;
    if (n->first == NULL) n->first = r;
    n->last = r;
    weft_cond_signal(&n->changed);
  }
  weft_mutex_unlock(&n->mu);
  if (s != NULL) refuse(r, s);
}

void weft_traversal_next(weft_traversal_t *n, const weft_traversal_request_t *request) {
  request_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) {
    request->done(request->arg, WEFT_NO_MEMORY("a request for an element"), NULL, false);
    return;
  }
  r->spec = *request;
  r->spec.canceller =
      request->canceller != NULL ? weft_canceller_retain(request->canceller) : NULL; /* outlives its step */
  r->of = (traversal_t *)n;
  r->asked_ns = weft_clock_ns();
  enqueue(r);
}

void weft_traversal_do(weft_traversal_t *n, weft_traversal_fn *fn, void *arg) {
  request_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) {
    fn(arg, WEFT_NO_MEMORY("a request to an iterator"), NULL);
    return;
  }
  r->fn = fn;
  r->arg = arg;
  r->of = (traversal_t *)n;
  enqueue(r);
}

/* ---- the thread ---- */

static weft_status_t *need_root(traversal_t *n) {
  return n->root != NULL ? NULL : weft_iterator_open(n->base.dataset, &n->base, NULL, &n->root);
}

/* An element, an end or a failure into `kept`. */
static void make_one(traversal_t *n) {
  if (n->has_kept) return;
  n->has_kept = true;
  n->kept_is_end = false;
  n->kept_status = need_root(n);
  if (n->kept_status == NULL) n->kept_status = weft_iterator_next(n->root, n->kept, &n->kept_is_end);
}

static void serve_next(traversal_t *n, request_t *r) {
  make_one(n);
  weft_mutex_lock(&n->mu);
  const bool is_wanted = r->state != ENDED;
  r->state = ENDED;
  weft_mutex_unlock(&n->mu);
  (void)weft_canceller_deregister(r->spec.canceller, r->token);
  if (is_wanted) {
    weft_status_t *s = n->kept_status;
    n->kept_status = NULL;
    n->has_kept = false;
    note_end(r, s == NULL && !n->kept_is_end);
    r->spec.done(r->spec.arg, s, s != NULL || n->kept_is_end ? NULL : n->kept, s == NULL && n->kept_is_end);
    weft_element_release(n->kept, n->base.dataset->spec->n);
  }
  request_free(r);
}

static void serve(traversal_t *n, request_t *r) {
  if (r->fn == NULL) {
    serve_next(n, r);
    return;
  }
  weft_status_t *s = need_root(n);
  r->fn(r->arg, s, s == NULL ? n->root : NULL);
  request_free(r);
}

static void *serve_all(void *arg) {
  traversal_t *n = arg;
  pthread_setname_np(pthread_self(), "weft-pass");
  weft_mutex_lock(&n->mu);
  for (;;) {
    while (n->first == NULL && !n->is_closed) weft_cond_wait(&n->changed, &n->mu);
    request_t *r = n->first;
    if (r == NULL) break;
    n->first = r->next;
    if (n->first == NULL) n->last = NULL;
    r->state = SERVED;
    weft_mutex_unlock(&n->mu);
    serve(n, r);
    weft_mutex_lock(&n->mu);
  }
  weft_mutex_unlock(&n->mu);
  weft_iterator_close(n->root);
  unref(n);
  return NULL;
}
