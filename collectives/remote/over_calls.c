/* collectives/remote/over_calls.c - fetches by RecvBuf, or from this task itself, and answers to those of
 * others. */
#include "collectives/remote/transport_impl.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

static void release_offer(void *arg) { weft_remote_end_offer(arg, NULL); }

void weft_remote_give(weft_remote_asked_t *a, weft_remote_offer_t *o) {
  weft_canceller_deregister(a->canceller, a->token);
  weft_canceller_release(a->canceller);
  weft_buf_t buf = {.bytes = o->bytes, .data = o->data, .release = release_offer, .release_arg = o};
  a->fn(a->arg, NULL, &buf);
  weft_free(a->name);
  weft_free(a);
}

void weft_remote_refuse(weft_remote_asked_t *a, weft_status_t *status, bool is_in_cancel) {
  if (!is_in_cancel) weft_canceller_deregister(a->canceller, a->token);
  weft_canceller_release(a->canceller);
  a->fn(a->arg, status, NULL);
  weft_free(a->name);
  weft_free(a);
}

static void cancel_asked(void *arg) {
  weft_remote_asked_t *a = arg; /* lives: whoever ends it waits for us */
  weft_remote_t *t = a->t;
  weft_mutex_lock(&t->mu);
  a->is_cancelled = true;
  bool is_ours = a->is_waiting;
  if (is_ours) weft_map_remove(&t->asked, weft_str(a->name));
  a->is_waiting = false;
  weft_mutex_unlock(&t->mu);
  if (is_ours) weft_remote_refuse(a, weft_remote_cancelled(a->key), true);
}

/* Who asks a task that leaves because of a failure hears of that: a status, or NULL. */
static weft_status_t *why_not(weft_remote_t *t) {
  weft_str_t dead = {NULL, 0};
  weft_mutex_lock(&t->mu);
  bool is_leaving = t->is_stopping;
  weft_mutex_unlock(&t->mu);
  return is_leaving ? weft_remote_why_we_leave(t, &dead) : NULL;
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
  if (weft_remote_take_news(t, r)) {
    weft_buf_t nothing = {.data = ""};
    fn(arg, NULL, &nothing);
    return;
  }
  weft_remote_asked_t *a = weft_calloc(1, sizeof *a);
  if (a != NULL) a->name = weft_remote_name(r->step_id, r->dst_device, r->key, WEFT_STR(""), &a->key, NULL);
  if (a == NULL || a->name == NULL) {
    weft_free(a);
    fn(arg, weft_remote_no_memory(r->key), NULL);
    return;
  }
  a->t = t;
  a->step_id = r->step_id;
  a->fn = fn;
  a->arg = arg;
  a->canceller = weft_canceller_retain(canceller);
  if (!weft_canceller_register(canceller, cancel_asked, a, &a->token)) {
    weft_remote_refuse(a, weft_remote_cancelled(a->key), true);
    return;
  }
  weft_status_t *gone = why_not(t);
  if (gone != NULL) {
    weft_remote_refuse(a, gone, false);
    return;
  }
  weft_mutex_lock(&t->mu);
  weft_status_t *s = a->is_cancelled ? weft_remote_cancelled(r->key)
                                     : weft_remote_ended_locked(t, r->step_id, r->key, WEFT_STR(""));
  weft_remote_offer_t *o = s == NULL ? weft_map_remove(&t->offers, weft_str(a->name)) : NULL;
  if (s == NULL && o == NULL) {
    if (weft_map_get(&t->asked, weft_str(a->name)) != NULL) {
      s = WEFT_ERROR(INTERNAL, "'%.*s' is asked for twice", WEFT_STR_ARGS(r->key));
    } else {
      s = weft_map_put(&t->asked, weft_str(a->name), a, NULL);
    }
    a->is_waiting = s == NULL;
  }
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_remote_refuse(a, s, false);
  } else if (o != NULL) {
    weft_remote_give(a, o);
  }
}

typedef struct local_read {
  weft_remote_fetch_t *fetch;
  const void *data;
  void (*release)(void *arg);
  void *release_arg;
} local_read_t;

static void read_local(void *arg) {
  local_read_t *l = arg;
  weft_remote_fetch_t *f = l->fetch;
  weft_remote_source_t source = {.data = l->data == NULL ? "" : l->data};
  weft_status_t *s = weft_remote_move(f, &source);
  l->release(l->release_arg);
  weft_free(l);
  weft_remote_end_fetch(f, s, false);
}

static void called(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  weft_remote_fetch_t *f = arg;
  weft_remote_t *t = f->t;
  weft_mutex_lock(&t->mu);
  if (weft_map_get(&t->calls, weft_str(f->name)) == f) weft_map_remove(&t->calls, weft_str(f->name));
  weft_status_t *why = f->why;
  f->why = NULL;
  weft_mutex_unlock(&t->mu);
  if (why != NULL && status != NULL) { /* the cause, not its echo */
    weft_status_free(status);
    status = why;
    why = NULL;
  }
  weft_status_free(why);
  if (weft_status_code(status) == WEFT_UNAVAILABLE) status = weft_remote_cause(t, f->from_task, status);
  if (status == NULL) status = weft_remote_check_bytes(f, buf->bytes);
  if (status == NULL && buf->data != NULL && buf->bytes >= WEFT_REMOTE_POOL_BYTES && buf->release != NULL) {
    local_read_t *l = weft_calloc(1, sizeof *l);
    if (l != NULL) {
      *l = (local_read_t){f, buf->data, buf->release, buf->release_arg};
      if (!weft_thread_pool_submit(t->pool, read_local, l)) read_local(l);
      return;
    }
  }
  weft_remote_source_t source = {.data = buf == NULL ? NULL : buf->data, .buf = buf};
  if (status == NULL) status = weft_remote_move(f, &source);
  if (status == NULL) weft_remote_learn(f, WEFT_WAY_FAR);
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  weft_remote_end_fetch(f, status, true); /* nothing is registered at a call's canceller */
}

void weft_remote_call_for(weft_remote_t *t, weft_remote_fetch_t *f, bool is_own) {
  weft_buf_request_t r = {.step_id = f->step_id,
                          .request_id = (int64_t)weft_random_id(),
                          .key = f->key,
                          .src_device = f->from_device,
                          .dst_device = f->to_device,
                          .bytes = (int64_t)f->f.bytes,
                          .src_incarnation = is_own ? 0 : weft_remote_incarnation_of(t, f->from_task)};
  weft_canceller_t *lent = weft_canceller_retain(f->canceller); /* f may be gone before the call returns */
  f->began_ns = is_own ? 0 : weft_clock_ns();
  if (is_own) {
    weft_remote_transport_serve(&t->base, &r, lent, called, f);
  } else {
    t->peers.recv_buf(t->peers.arg, f->from_task, &r, lent, called, f);
  }
  weft_canceller_release(lent);
}
