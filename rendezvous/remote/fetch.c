/* rendezvous/remote/fetch.c - requests to other tasks.
 *
 * A request is one heap object:
 *   1. weft_under_way_begin()  links it; it holds a reference to the rendezvous
 *   2. the worker's function   calls back once, on any thread
 *   3. weft_under_way_end()    unlinks it; then it is freed, and the receiver told
 * An abort cancels every linked request through the request's own canceller, a child of the receiver's.
 *
 * Locking: `mu` is a leaf; it guards the list. Cancellers are retained under it and cancelled outside.
 */
#include "base/alloc.h"
#include "rendezvous/remote/remote_impl.h"

weft_status_t *weft_remote_abort_status(weft_step_rendezvous_t *r) {
  weft_mutex_lock(&r->mu);
  const bool is_aborted = r->is_aborted;
  weft_mutex_unlock(&r->mu);
  return is_aborted ? weft_local_rendezvous_aborted(r->local) : NULL;
}

/* ---- requests ---- */

weft_status_t *weft_under_way_begin(weft_step_rendezvous_t *r, weft_canceller_t *parent,
                                    weft_under_way_t *u) {
  u->canceller = weft_canceller_create(parent);
  if (u->canceller == NULL) return WEFT_NO_MEMORY("a request to another task");
  u->r = r;
  u->prev = NULL;
  weft_mutex_lock(&r->mu);
  const bool is_aborted = r->is_aborted, begins = !is_aborted && !weft_canceller_is_cancelled(u->canceller);
  if (begins) {
    weft_rendezvous_retain(&r->base);
    u->next = r->under_way;
    if (u->next != NULL) u->next->prev = u;
    r->under_way = u;
  }
  weft_mutex_unlock(&r->mu);
  if (begins) return NULL;
  weft_canceller_release(u->canceller);
  u->canceller = NULL;
  return is_aborted ? weft_remote_abort_status(r)
                    : weft_status_mark_derived(WEFT_ERROR(CANCELLED, "RecvAsync is cancelled."));
}

void weft_under_way_end(weft_under_way_t *u) {
  weft_step_rendezvous_t *r = u->r;
  weft_mutex_lock(&r->mu);
  if (u->prev != NULL) u->prev->next = u->next;
  if (u->prev == NULL) r->under_way = u->next;
  if (u->next != NULL) u->next->prev = u->prev;
  weft_mutex_unlock(&r->mu);
  weft_canceller_release(u->canceller);
  u->canceller = NULL;
}

void weft_under_way_cancel(weft_step_rendezvous_t *r) {
  /* Nothing joins the list any more. Cancelling one may end others, so we look at the list anew each time; a
   * cancelled one may also stay a while until its call has ended. */
  for (;;) {
    weft_mutex_lock(&r->mu);
    weft_under_way_t *u = r->under_way;
    while (u != NULL && weft_canceller_is_cancelled(u->canceller)) u = u->next;
    weft_canceller_t *c = u == NULL ? NULL : weft_canceller_retain(u->canceller);
    weft_mutex_unlock(&r->mu);
    if (c == NULL) return;
    weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
}

/* ---- fetches ---- */

typedef struct remote_fetch {
  weft_under_way_t base;
  weft_recv_fn *fn;
  void *arg;
} remote_fetch_t;

static void fetched(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  remote_fetch_t *f = arg;
  weft_step_rendezvous_t *r = f->base.r;
  weft_under_way_end(&f->base);
  /* After an abort its failure is the cause; what the cancelled call says is only the echo. */
  weft_status_t *why = status == NULL ? NULL : weft_remote_abort_status(r);
  if (why != NULL) {
    weft_status_free(status);
    status = why;
  }
  weft_recv_fn *fn = f->fn;
  void *fn_arg = f->arg;
  weft_free(f);
  fn(fn_arg, status, tensor, is_dead);
  weft_rendezvous_release(&r->base);
}

void weft_remote_fetch(weft_step_rendezvous_t *r, weft_key_t key, const weft_key_parts_t *parts,
                       weft_canceller_t *canceller, weft_recv_fn *fn, void *arg) {
  remote_fetch_t *f = weft_calloc(1, sizeof *f);
  weft_status_t *s = f == NULL ? WEFT_NO_MEMORY("fetching '%.*s'", WEFT_STR_ARGS(key.text))
                               : weft_under_way_begin(r, canceller, &f->base);
  if (s != NULL) {
    weft_free(f);
    fn(arg, s, NULL, false);
    return;
  }
  f->fn = fn;
  f->arg = arg;
  weft_canceller_t *lent = weft_canceller_retain(f->base.canceller); /* f may be gone before fetch returns */
  r->source.fetch(r->source.arg, r->step_id, key, parts, lent, fetched, f);
  weft_canceller_release(lent);
}
