/* collectives/remote/rpc_path.c - fetches by RecvBuf, or from this task itself, and answers to those of other
 * tasks. */
#include "collectives/remote/remote_impl.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

static void on_cancel(void *arg) {
  weft_remote_request_t *r = arg; /* lives: the thread that ends it waits for this callback */
  if (weft_transfers_cancel_request(r->t->transfers, r))
    weft_remote_refuse(r, weft_remote_cancelled(r->key), true);
}

/* A request to a task that departs because of a failure ends with that failure: a status, or NULL. */
static weft_status_t *departure_cause(weft_remote_t *t) {
  weft_str_t failed = {NULL, 0};
  return weft_remote_is_departing(t) ? weft_peer_table_departure_cause(t->known, &failed) : NULL;
}

void weft_remote_transport_serve(weft_transport_t *base, const weft_buf_request_t *r,
                                 weft_canceller_t *canceller, weft_buf_fn *fn, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  if (r->src_incarnation != 0 && r->src_incarnation != t->incarnation) {
    fn(arg,
       weft_status_mark_restarted(WEFT_ERROR(FAILED_PRECONDITION,
                                             "RecvBuf expects a different device incarnation: %" PRIu64
                                             " vs. %" PRIu64
                                             ". Your worker job (\"%s\") was probably restarted. Check your "
                                             "worker job for the reason why it was restarted.",
                                             r->src_incarnation, t->incarnation, t->task)),
       NULL);
    return;
  }
  if (weft_remote_receive_abort(t, r)) {
    weft_buf_t nothing = {.data = ""};
    fn(arg, NULL, &nothing);
    return;
  }
  weft_remote_request_t *q = weft_calloc(1, sizeof *q);
  if (q != NULL)
    q->name = weft_transfers_name(r->step_id, r->dst_device, r->key, WEFT_STR(""), &q->key, NULL);
  if (q == NULL || q->name == NULL) {
    weft_free(q);
    fn(arg, weft_remote_no_memory(r->key), NULL);
    return;
  }
  q->t = t;
  q->step_id = r->step_id;
  q->fn = fn;
  q->arg = arg;
  q->canceller = weft_canceller_retain(canceller);
  if (!weft_canceller_register(canceller, on_cancel, q, &q->token)) {
    weft_remote_refuse(q, weft_remote_cancelled(q->key), true);
    return;
  }
  weft_remote_offer_t *o = NULL;
  weft_status_t *s = departure_cause(t);
  if (s == NULL) s = weft_transfers_request(t->transfers, q, &o);
  if (s != NULL) {
    weft_remote_refuse(q, s, false);
  } else if (o != NULL) {
    weft_remote_answer(q, o);
  }
}

typedef struct local_copy {
  weft_remote_fetch_t *fetch;
  const void *data;
  void (*release)(void *arg);
  void *release_arg;
} local_copy_t;

static void copy_local(void *arg) {
  local_copy_t *l = arg;
  weft_remote_fetch_t *f = l->fetch;
  weft_remote_source_t source = {.data = l->data == NULL ? "" : l->data};
  weft_status_t *s = weft_remote_copy(f, &source);
  l->release(l->release_arg);
  weft_free(l);
  weft_remote_end_fetch(f, s, false);
}

static void called(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  weft_remote_fetch_t *f = arg;
  weft_remote_t *t = f->t;
  weft_status_t *why = weft_transfers_end_call(t->transfers, f);
  if (why != NULL && status != NULL) { /* the cause, not its echo */
    weft_status_free(status);
    status = why;
    why = NULL;
  }
  weft_status_free(why);
  if (weft_status_code(status) == WEFT_UNAVAILABLE)
    status = weft_peer_table_cause(t->known, f->from_task, status);
  if (status == NULL) status = weft_remote_check_bytes(f, buf->bytes);
  if (status == NULL && buf->data != NULL && buf->bytes >= WEFT_REMOTE_POOL_BYTES && buf->release != NULL) {
    local_copy_t *l = weft_calloc(1, sizeof *l);
    if (l != NULL) {
      *l = (local_copy_t){f, buf->data, buf->release, buf->release_arg};
      if (!weft_thread_pool_submit(t->pool, copy_local, l)) copy_local(l);
      return;
    }
  }
  weft_remote_source_t source = {.data = buf == NULL ? NULL : buf->data, .buf = buf};
  if (status == NULL) status = weft_remote_copy(f, &source);
  if (status == NULL) weft_remote_note_cost(f, WEFT_WAY_FAR);
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  weft_remote_end_fetch(f, status, true); /* nothing is registered at a call's canceller */
}

void weft_remote_call(weft_remote_t *t, weft_remote_fetch_t *f, bool is_own) {
  weft_buf_request_t r = {
      .step_id = f->step_id,
      .request_id = (int64_t)weft_random_id(),
      .key = f->key,
      .src_device = f->from_device,
      .dst_device = f->to_device,
      .bytes = (int64_t)f->f.bytes,
      .src_incarnation = is_own ? 0 : weft_peer_table_incarnation_of(t->known, f->from_task)};
  weft_canceller_t *lent = weft_canceller_retain(f->canceller); /* f may be gone before the call returns */
  f->began_ns = is_own ? 0 : weft_clock_ns();
  if (is_own) {
    weft_remote_transport_serve(&t->base, &r, lent, called, f);
  } else {
    t->peers.recv_buf(t->peers.arg, f->from_task, &r, lent, called, f);
  }
  weft_canceller_release(lent);
}
