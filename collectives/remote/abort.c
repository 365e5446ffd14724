/* collectives/remote/abort.c - ends many transfers at once: those of a step, of a run, with a task, or over a
 * link. */
#include "base/alloc.h"
#include "collectives/remote/remote_impl.h"

static void finish_all(weft_transfer_list_t *x, const weft_transfer_filter_t *w, const weft_status_t *why) {
  for (weft_remote_offer_t *o = x->offers, *next; o != NULL; o = next) {
    next = o->next;
    weft_remote_end_offer(o, weft_status_clone(why));
  }
  for (weft_remote_fetch_t *f = x->fetches, *next; f != NULL; f = next) {
    next = f->next;
    weft_remote_end_fetch(f, weft_status_clone(why), false);
  }
  for (weft_remote_request_t *a = x->requests, *next; a != NULL; a = next) {
    next = a->next;
    weft_remote_refuse(a, weft_status_clone(why), false);
  }
  for (weft_remote_arrival_t *c = x->arrivals, *next; c != NULL; c = next) {
    next = c->next;
    weft_remote_end_arrival(c, true);
  }
  for (weft_remote_share_t *s = x->shares, *next; s != NULL; s = next) {
    next = s->next;
    if (weft_transfer_filter_is_peers_step(w)) {
      weft_remote_go_on(s, false);
    } else {
      weft_remote_end_share(s, weft_status_clone(why), false);
    }
  }
}

void weft_remote_abort(weft_remote_t *t, const weft_transfer_filter_t *w, const weft_status_t *why) {
  weft_transfer_list_t taken = {.offers = NULL};
  weft_transfers_take(t->transfers, w, why, &taken);
  finish_all(&taken, w, why);
  /* Calls one after the other: each is cancelled with the cause that it shall report. */
  for (bool again = true; again;) {
    weft_canceller_t *c = weft_transfers_take_call(t->transfers, w, why);
    again = c != NULL;
    if (again) weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
}

void weft_remote_fail_here(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  char *copy = weft_strndup(run.data, run.length), *kept = weft_strndup(run.data, run.length);
  weft_status_t *cause = weft_status_clone(why);
  if (copy != NULL && !weft_transfers_has_ended(t->transfers, step_id, run)) {
    if (weft_status_code(why) == WEFT_UNAVAILABLE) weft_peer_table_note_failure(t->known, run, why);
    if (kept != NULL) {
      weft_transfers_add_ended(t->transfers, step_id, kept, NULL, cause);
      kept = NULL;
      cause = NULL;
    }
    weft_transfer_filter_t w = {.has_step = true, .step_id = step_id, .run = copy};
    weft_remote_abort(t, &w, why);
  }
  weft_status_free(cause);
  weft_free(kept);
  weft_free(copy);
}
