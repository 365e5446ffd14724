/* collectives/remote/transfer_end.c - how an offer, a fetch, a request and an arrival end. */
#include "base/alloc.h"
#include "collectives/remote/remote_impl.h"

weft_status_t *weft_remote_cancelled(weft_str_t key) {
  return weft_status_mark_derived(WEFT_ERROR(CANCELLED, "fetching '%.*s' was cancelled", WEFT_STR_ARGS(key)));
}

void weft_remote_end_offer(weft_remote_offer_t *o, weft_status_t *status) {
  weft_transfer_done_fn *done = o->done;
  void *arg = o->arg;
  weft_host_link_release(o->link);
  weft_free(o->name);
  weft_free(o);
  done(arg, status);
}

void weft_remote_end_fetch(weft_remote_fetch_t *f, weft_status_t *status, bool is_in_cancel) {
  weft_remote_t *t = f->t;
  if (!is_in_cancel) weft_canceller_deregister(f->canceller, f->token);
  weft_canceller_release(f->canceller);
  if (status == NULL) {
    weft_link_counters_add(t->counters, f->from_task, weft_str(t->task),
                           f->f.is_control ? WEFT_TRAFFIC_CONTROL : WEFT_TRAFFIC_COLLECTIVE, f->f.bytes);
  }
  weft_transfer_done_fn *done = f->done;
  void *arg = f->arg;
  weft_host_link_release(f->link);
  weft_status_free(f->why);
  weft_free(f->name);
  weft_free(f);
  done(arg, status);
  weft_transfers_end(t->transfers);
}

static void release_offer(void *arg) { weft_remote_end_offer(arg, NULL); }

void weft_remote_answer(weft_remote_request_t *r, weft_remote_offer_t *o) {
  weft_canceller_deregister(r->canceller, r->token);
  weft_canceller_release(r->canceller);
  weft_buf_t buf = {.bytes = o->bytes, .data = o->data, .release = release_offer, .release_arg = o};
  r->fn(r->arg, NULL, &buf);
  weft_free(r->name);
  weft_free(r);
}

void weft_remote_refuse(weft_remote_request_t *r, weft_status_t *status, bool is_in_cancel) {
  if (!is_in_cancel) weft_canceller_deregister(r->canceller, r->token);
  weft_canceller_release(r->canceller);
  r->fn(r->arg, status, NULL);
  weft_free(r->name);
  weft_free(r);
}

void weft_remote_end_arrival(weft_remote_arrival_t *a, bool tells_owner) {
  if (tells_owner && a->id != 0) (void)weft_host_link_finished(a->link, a->id);
  weft_host_link_release(a->link);
  weft_free(a->name);
  weft_free(a);
}

void weft_remote_hold(weft_remote_t *t, weft_remote_offer_t *o) {
  weft_remote_request_t *r = NULL;
  weft_status_t *s = weft_transfers_hold(t->transfers, o, &r);
  if (s != NULL) {
    weft_remote_end_offer(o, s);
  } else if (r != NULL) {
    weft_remote_answer(r, o);
  }
}
