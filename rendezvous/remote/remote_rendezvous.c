/* rendezvous/remote/remote_rendezvous.c - a local table, what is asked for ahead, and fetches. */
#include "base/alloc.h"
#include "rendezvous/remote/remote_impl.h"

static weft_step_rendezvous_t *remote_of(weft_rendezvous_t *base) { return (weft_step_rendezvous_t *)base; }

static weft_status_t *remote_send(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t *tensor,
                                  bool is_dead) {
  return weft_rendezvous_send(remote_of(base)->local, key, tensor, is_dead);
}

static void remote_recv_async(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                              weft_recv_fn *fn, void *arg) {
  weft_step_rendezvous_t *r = remote_of(base);
  weft_key_parts_t parts;
  weft_status_t *s = NULL;
  /* A key begins with its source's device. The task part is followed by "/device:..." in a full name. */
  const bool is_ours = key.text.length > r->task_length &&
                       memcmp(key.text.data, r->task, r->task_length) == 0 &&
                       key.text.data[r->task_length] == '/';
  if (is_ours || weft_subscriptions_have(r->subscriptions, key)) {
    weft_rendezvous_recv_async(r->local, key, canceller, fn, arg);
  } else if ((s = weft_key_parse(key.text, &parts)) != NULL) {
    fn(arg, s, NULL, false);
  } else {
    weft_remote_fetch(r, key, &parts, canceller, fn, arg);
  }
}

static void remote_abort(weft_rendezvous_t *base, const weft_status_t *why) {
  weft_step_rendezvous_t *r = remote_of(base);
  weft_rendezvous_abort(r->local, why); /* first: the failure is known when a fetch asks for it */
  weft_mutex_lock(&r->mu);
  bool first = !r->is_aborted;
  r->is_aborted = true;
  weft_mutex_unlock(&r->mu);
  if (first) weft_under_way_cancel(r);
}

static void remote_destroy(weft_rendezvous_t *base) {
  weft_step_rendezvous_t *r = remote_of(base);
  weft_rendezvous_release(r->local);
  weft_subscriptions_free(r->subscriptions);
  weft_mutex_deinit(&r->mu);
  weft_free(r->task);
  weft_free(r);
}

weft_status_t *weft_remote_rendezvous_create(weft_str_t task, int64_t step_id, weft_tensor_source_t source,
                                             weft_rendezvous_t **out) {
  static const weft_rendezvous_ops_t ops = {remote_send, remote_recv_async, remote_abort, remote_destroy};
  weft_status_t *s = NULL;
  weft_step_rendezvous_t *r = weft_calloc(1, sizeof *r);
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
  r->source = source;
  weft_mutex_init(&r->mu);
  *out = &r->base;
  r = NULL;
done:
  if (r != NULL) weft_free(r->task);
  weft_free(r);
  return s;
}

weft_status_t *weft_remote_rendezvous_move(weft_rendezvous_t *base, weft_str_t task, void *fetch_arg) {
  weft_step_rendezvous_t *r = remote_of(base);
  char *copy = weft_strndup(task.data, task.length);
  if (copy == NULL) return WEFT_NO_MEMORY("moving the rendezvous of step %lld", (long long)r->step_id);
  weft_free(r->task);
  r->task = copy;
  r->task_length = task.length;
  r->source.arg = fetch_arg;
  r->is_moved = true;
  return NULL;
}

void weft_remote_rendezvous_recv_local(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                                       weft_recv_fn *fn, void *arg) {
  weft_rendezvous_recv_async(remote_of(base)->local, key, canceller, fn, arg);
}

void weft_remote_rendezvous_gather_local(weft_rendezvous_t *base, const weft_key_t *keys, int n,
                                         weft_canceller_t *canceller, weft_gather_fn *fn, void *arg) {
  weft_local_rendezvous_gather(remote_of(base)->local, keys, n, canceller, fn, arg);
}

bool weft_remote_rendezvous_renew(weft_rendezvous_t *base, int64_t step_id) {
  weft_step_rendezvous_t *r = remote_of(base);
  if (atomic_load(&r->base.refs) != 1 || r->under_way != NULL || r->is_moved || r->subscriptions != NULL)
    return false;
  if (!weft_local_rendezvous_renew(r->local, step_id)) return false;
  r->step_id = step_id;
  r->is_aborted = false;
  return true;
}

bool weft_remote_rendezvous_take(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t **out_tensor,
                                 bool *out_is_dead) {
  return weft_local_rendezvous_take(remote_of(base)->local, key, out_tensor, out_is_dead);
}

weft_status_t *weft_remote_rendezvous_aborted(weft_rendezvous_t *base) {
  return weft_local_rendezvous_aborted(remote_of(base)->local);
}

bool weft_remote_rendezvous_is_empty(weft_rendezvous_t *base) {
  return weft_local_rendezvous_is_empty(remote_of(base)->local);
}
