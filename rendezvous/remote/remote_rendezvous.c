/* rendezvous/remote/remote_rendezvous.c - a local table, and fetches from other tasks.
 *
 * A fetch is one heap object:
 *   1. recv_async() makes it, links it and starts it; it holds a reference to the rendezvous
 *   2. the worker's function calls fetched() once, on any thread
 *   3. fetched() unlinks and frees it and tells the receiver
 * An abort cancels every linked fetch through the fetch's own canceller, a child
 * of the receiver's.
 *
 * Locking: `mu` is a leaf; it guards the list. Cancellers are retained under it
 * and cancelled outside.
 */
#include "rendezvous/remote/remote_rendezvous.h"

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct remote remote_t;

typedef struct remote_fetch {
  struct remote_fetch *prev, *next; /* guarded by mu */
  remote_t *r;                      /* retained */
  weft_canceller_t *canceller;      /* owned */
  weft_recv_fn *fn;
  void *arg;
} remote_fetch_t;

struct remote {
  weft_rendezvous_t base;
  weft_rendezvous_t *local; /* owned */
  char *task;               /* owned */
  size_t task_length;
  bool is_moved; /* to a session's cluster */
  int64_t step_id;
  weft_fetch_remote_fn *fetch;
  void *fetch_arg; /* borrowed */
  weft_mutex_t mu;
  bool is_aborted;         /* guarded by mu: set before the local table is */
  remote_fetch_t *fetches; /* guarded by mu */
};

static weft_status_t *remote_send(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t *tensor,
                                  bool is_dead) {
  return weft_rendezvous_send(((remote_t *)base)->local, key, tensor, is_dead);
}

/* What it was aborted with, or NULL. */
static weft_status_t *abort_status(remote_t *r) {
  weft_mutex_lock(&r->mu);
  const bool is_aborted = r->is_aborted;
  weft_mutex_unlock(&r->mu);
  return is_aborted ? weft_local_rendezvous_aborted(r->local) : NULL;
}

static void fetched(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  remote_fetch_t *f = arg;
  remote_t *r = f->r;
  weft_mutex_lock(&r->mu);
  if (f->prev != NULL) f->prev->next = f->next;
  if (f->prev == NULL) r->fetches = f->next;
  if (f->next != NULL) f->next->prev = f->prev;
  weft_mutex_unlock(&r->mu);
  /* After an abort its failure is the cause; what the cancelled call says is only the echo. */
  weft_status_t *why = status == NULL ? NULL : abort_status(r);
  if (why != NULL) {
    weft_status_free(status);
    status = why;
  }
  weft_recv_fn *fn = f->fn;
  void *fn_arg = f->arg;
  weft_canceller_release(f->canceller);
  weft_free(f);
  fn(fn_arg, status, tensor, is_dead);
  weft_rendezvous_release(&r->base);
}

static void fetch_remote(remote_t *r, weft_key_t key, const weft_key_parts_t *parts,
                         weft_canceller_t *canceller, weft_recv_fn *fn, void *arg) {
  remote_fetch_t *f = weft_calloc(1, sizeof *f);
  if (f != NULL) f->canceller = weft_canceller_create(canceller);
  if (f == NULL || f->canceller == NULL) {
    weft_free(f);
    fn(arg, WEFT_NO_MEMORY("fetching '%.*s'", WEFT_STR_ARGS(key.text)), NULL, false);
    return;
  }
  f->r = r;
  f->fn = fn;
  f->arg = arg;
  weft_mutex_lock(&r->mu);
  bool aborted = r->is_aborted;
  if (!aborted) {
    weft_rendezvous_retain(&r->base);
    f->next = r->fetches;
    if (f->next != NULL) f->next->prev = f;
    r->fetches = f;
  }
  weft_mutex_unlock(&r->mu);
  weft_status_t *why = NULL;
  if (aborted) {
    why = abort_status(r);
  } else if (!weft_canceller_is_cancelled(f->canceller)) {
    weft_canceller_t *lent = weft_canceller_retain(f->canceller); /* f may be gone before fetch returns */
    r->fetch(r->fetch_arg, r->step_id, key, parts, lent, fetched, f);
    weft_canceller_release(lent);
    return;
  } else {
    fetched(f, weft_status_mark_derived(WEFT_ERROR(CANCELLED, "RecvAsync is cancelled.")), NULL, false);
    return;
  }
  weft_canceller_release(f->canceller);
  weft_free(f);
  fn(arg, why, NULL, false);
}

static void remote_recv_async(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                              weft_recv_fn *fn, void *arg) {
  remote_t *r = (remote_t *)base;
  weft_key_parts_t parts;
  weft_status_t *s = NULL;
  /* A key begins with its source's device. The task part is followed by "/device:..." in a full name. */
  const bool is_ours = key.text.length > r->task_length &&
                       memcmp(key.text.data, r->task, r->task_length) == 0 &&
                       key.text.data[r->task_length] == '/';
  if (is_ours) {
    weft_rendezvous_recv_async(r->local, key, canceller, fn, arg);
  } else if ((s = weft_key_parse(key.text, &parts)) != NULL) {
    fn(arg, s, NULL, false);
  } else {
    fetch_remote(r, key, &parts, canceller, fn, arg);
  }
}

static void remote_abort(weft_rendezvous_t *base, const weft_status_t *why) {
  remote_t *r = (remote_t *)base;
  weft_rendezvous_abort(r->local, why); /* first: the failure is known when a fetch asks for it */
  weft_mutex_lock(&r->mu);
  bool first = !r->is_aborted;
  r->is_aborted = true;
  weft_mutex_unlock(&r->mu);
  if (!first) return;
  /* Nothing joins the list any more. Cancelling one may end others, so we look at the list anew each time; a
   * cancelled one may also stay a while until its call has ended. */
  for (;;) {
    weft_mutex_lock(&r->mu);
    remote_fetch_t *f = r->fetches;
    while (f != NULL && weft_canceller_is_cancelled(f->canceller)) f = f->next;
    weft_canceller_t *c = f == NULL ? NULL : weft_canceller_retain(f->canceller);
    weft_mutex_unlock(&r->mu);
    if (c == NULL) return;
    weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
}

static void remote_destroy(weft_rendezvous_t *base) {
  remote_t *r = (remote_t *)base;
  weft_rendezvous_release(r->local);
  weft_mutex_deinit(&r->mu);
  weft_free(r->task);
  weft_free(r);
}

weft_status_t *weft_remote_rendezvous_create(weft_str_t task, int64_t step_id, weft_fetch_remote_fn *fetch,
                                             void *fetch_arg, weft_rendezvous_t **out) {
  static const weft_rendezvous_ops_t ops = {remote_send, remote_recv_async, remote_abort, remote_destroy};
  weft_status_t *s = NULL;
  remote_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->task = weft_strndup(task.data, task.length);
  if (r == NULL || r->task == NULL) {
    s = WEFT_NO_MEMORY("creating the rendezvous of step %lld", (long long)step_id);
    goto done;
  }
  s = weft_local_rendezvous_create(step_id, &r->local);
  if (s != NULL) goto done;
  r->base.ops = &ops;
  atomic_init(&r->base.refs, 1);
  r->task_length = task.length;
  r->step_id = step_id;
  r->fetch = fetch;
  r->fetch_arg = fetch_arg;
  weft_mutex_init(&r->mu);
  *out = &r->base;
  r = NULL;
done:
  if (r != NULL) weft_free(r->task);
  weft_free(r);
  return s;
}

weft_status_t *weft_remote_rendezvous_move(weft_rendezvous_t *base, weft_str_t task, void *fetch_arg) {
  remote_t *r = (remote_t *)base;
  char *copy = weft_strndup(task.data, task.length);
  if (copy == NULL) return WEFT_NO_MEMORY("moving the rendezvous of step %lld", (long long)r->step_id);
  weft_free(r->task);
  r->task = copy;
  r->task_length = task.length;
  r->fetch_arg = fetch_arg;
  r->is_moved = true;
  return NULL;
}

void weft_remote_rendezvous_recv_local(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                                       weft_recv_fn *fn, void *arg) {
  weft_rendezvous_recv_async(((remote_t *)base)->local, key, canceller, fn, arg);
}

bool weft_remote_rendezvous_renew(weft_rendezvous_t *r, int64_t step_id) {
  remote_t *mine = (remote_t *)r;
  if (atomic_load(&mine->base.refs) != 1 || mine->fetches != NULL || mine->is_moved) return false;
  if (!weft_local_rendezvous_renew(mine->local, step_id)) return false;
  mine->step_id = step_id;
  mine->is_aborted = false;
  return true;
}

bool weft_remote_rendezvous_take(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t **out_tensor,
                                 bool *out_is_dead) {
  return weft_local_rendezvous_take(((remote_t *)base)->local, key, out_tensor, out_is_dead);
}

weft_status_t *weft_remote_rendezvous_aborted(weft_rendezvous_t *base) {
  return weft_local_rendezvous_aborted(((remote_t *)base)->local);
}
