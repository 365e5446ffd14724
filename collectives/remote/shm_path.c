/* collectives/remote/shm_path.c - offers and fetches over links: announced by message, read by shared memory.
 *
 * An announced offer ends only when its receiver says that it does not read it any more, or is gone: so its
 * memory is never freed under a reader.
 */
#include "collectives/remote/remote_impl.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"

/* The system does not let us read in the peer's memory any longer: the rest of the bytes comes by a call. */
static void call_instead(weft_remote_fetch_t *f, weft_status_t *why) {
  weft_remote_t *t = f->t;
  weft_canceller_t *mine = weft_canceller_create(f->canceller);
  if (mine == NULL || !weft_host_link_refused(f->link, f->id)) {
    weft_canceller_release(mine);
    (void)weft_host_link_finished(f->link, f->id);
    weft_remote_end_fetch(f, why, false);
    return;
  }
  weft_status_free(why);
  weft_canceller_deregister(f->canceller, f->token);
  weft_canceller_release(f->canceller);
  f->canceller = mine;
  weft_status_t *s = weft_transfers_begin_call(t->transfers, f);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, true);
  } else {
    weft_remote_call(t, f, false);
  }
}

/* Every message of the peer up to its end has been handled: the peer may have departed because of another
 * failure. A task that departs itself has closed the link, and does not take the peer for lost. Consumes
 * `why`; returns the cause. */
static weft_status_t *cause_of_loss(weft_remote_t *t, weft_str_t task, const weft_host_link_t *link,
                                    weft_status_t *why) {
  if (!weft_peer_table_is_lost(t->known, task)) {
    if (weft_remote_is_departing(t)) {
      weft_status_free(why);
      return weft_remote_departure_status(t);
    }
    weft_status_t *loss = weft_transport_loss(task, why);
    (void)weft_peer_table_note_loss(t->known, task, weft_host_link_incarnation(link), loss, false);
    weft_status_free(loss);
  }
  return weft_peer_table_cause(t->known, task, why);
}

static void end_unread(void *arg) {
  weft_remote_fetch_t *f = arg;
  weft_status_t *why = f->why;
  f->why = NULL;
  weft_remote_end_fetch(f, cause_of_loss(f->t, f->from_task, f->link, why), false);
}

static void read_offer(void *arg) {
  weft_remote_fetch_t *f = arg;
  weft_remote_source_t source = {.link = f->link, .address = f->address};
  f->began_ns = f->f.consume == NULL ? weft_clock_ns() : 0;
  weft_status_t *s = weft_remote_copy(f, &source);
  if (weft_status_code(s) == WEFT_PERMISSION_DENIED) {
    call_instead(f, s);
    return;
  }
  if (s == NULL) weft_remote_note_cost(f, WEFT_WAY_NEAR);
  bool is_linked = weft_host_link_finished(f->link, f->id); /* a broken link ends the offer, too */
  if (s == NULL && !is_linked) { /* and what we read may have been something else already */
    s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s", WEFT_STR_ARGS(f->from_task));
  }
  if (weft_status_code(s) == WEFT_UNAVAILABLE) {
    weft_status_free(f->why);
    f->why = s;
    weft_host_links_settle(f->t->links, end_unread, f);
  } else {
    weft_remote_end_fetch(f, s, false);
  }
}

/* The fetch has its offer: `f` is out of the tables. Consumes f. */
static void read_announced(weft_remote_t *t, weft_remote_fetch_t *f, weft_host_link_t *link, uint64_t id,
                           uint64_t address, size_t bytes, const void *inline_data) {
  weft_status_t *s = weft_remote_check_bytes(f, bytes);
  if (s != NULL || inline_data != NULL || bytes == 0) {
    weft_remote_source_t source = {.data = inline_data == NULL ? "" : inline_data};
    if (s == NULL) s = weft_remote_copy(f, &source);
    if (id != 0) (void)weft_host_link_finished(link, id);
    weft_remote_end_fetch(f, s, false);
    return;
  }
  weft_host_link_retain(link);
  weft_host_link_release(f->link); /* of a fetch that waited: the same link */
  f->link = link;
  f->id = id;
  f->address = address;
  if (bytes < WEFT_REMOTE_POOL_BYTES || !weft_thread_pool_submit(t->pool, read_offer, f)) read_offer(f);
}

static void on_offered(void *arg, weft_host_link_t *link, const weft_host_offer_t *o) {
  weft_remote_t *t = arg;
  weft_str_t key = {NULL, 0};
  char *name = weft_transfers_name(o->step_id, o->to_device, o->key, WEFT_STR(""), &key, NULL);
  weft_remote_arrival_t *a =
      name == NULL ? NULL : weft_malloc(sizeof *a + (o->inline_data == NULL ? 0 : o->bytes));
  if (a == NULL) { /* the fetch waits until its step or its timeout ends it */
    weft_free(name);
    if (o->id != 0) (void)weft_host_link_finished(link, o->id);
    return;
  }
  *a = (weft_remote_arrival_t){.name = name,
                               .key = key,
                               .step_id = o->step_id,
                               .link = weft_host_link_retain(link),
                               .from_task = weft_host_link_task(link),
                               .incarnation = weft_host_link_incarnation(link),
                               .id = o->id,
                               .address = o->address,
                               .bytes = o->bytes,
                               .is_inline = o->inline_data != NULL};
  if (a->is_inline && o->bytes > 0) memcpy(a->data, o->inline_data, o->bytes);
  weft_remote_fetch_t *f = NULL;
  if (weft_transfers_arrive(t->transfers, a, &f)) return;
  if (f != NULL) read_announced(t, f, link, o->id, o->address, o->bytes, o->inline_data);
  weft_remote_end_arrival(a, f == NULL);
}

static void on_finished(void *arg, weft_host_link_t *link, uint64_t id) {
  weft_remote_t *t = arg;
  weft_status_t *why = NULL;
  weft_remote_offer_t *o = weft_transfers_take_announced(t->transfers, link, id, &why);
  if (o != NULL) weft_remote_end_offer(o, why);
}

static void on_refused(void *arg, weft_host_link_t *link, uint64_t id) {
  weft_remote_t *t = arg;
  weft_status_t *why = NULL;
  weft_remote_offer_t *o = weft_transfers_take_announced(t->transfers, link, id, &why);
  if (why != NULL) {
    weft_remote_end_offer(o, why);
  } else if (o != NULL) {
    weft_remote_hold(t, o);
  }
}

static void on_linked(void *arg, double seconds) {
  weft_remote_t *t = arg;
  weft_link_costs_note(&t->costs, WEFT_WAY_NEAR, 0, seconds);
}

static void on_ended(void *arg, weft_host_link_t *link, int64_t step_id, weft_str_t run, weft_status_t *why) {
  weft_remote_t *t = arg;
  weft_str_t task = weft_host_link_task(link);
  if (why == NULL) why = WEFT_ERROR(ABORTED, "%.*s ended step %" PRId64, WEFT_STR_ARGS(task), step_id);
  if (run.length > 0) {
    weft_remote_fail_here(t, step_id, run, why);
  } else {
    char *copy = weft_strndup(task.data, task.length);
    if (copy != NULL) weft_transfers_add_ended(t->transfers, step_id, NULL, copy, weft_status_clone(why));
    weft_transfer_filter_t w = {.has_step = true, .step_id = step_id, .link = link, .keep_inline = true};
    weft_remote_abort(t, &w, why);
  }
  weft_status_free(why);
}

/* A task is lost: ends what it still takes part in, and tells the worker. A link may break after the task has
 * returned as another process: then what is known to be with the new one goes on, and the worker has nothing
 * to hear. */
static void lose(weft_remote_t *t, weft_str_t task, const weft_host_link_t *link, const weft_status_t *why,
                 bool is_departure) {
  const uint64_t incarnation = link == NULL ? 0 : weft_host_link_incarnation(link);
  const bool is_news = weft_peer_table_note_loss(t->known, task, incarnation, why, is_departure);
  weft_transfer_filter_t by_link = {.link = link, .with_announced = true},
                         by_task = {.task = task, .incarnation = incarnation};
  if (link != NULL) weft_remote_abort(t, &by_link, why);
  weft_remote_abort(t, &by_task, why);
  if (is_news && t->peers.lost != NULL) t->peers.lost(t->peers.arg, task, why);
}

/* This task departs, and has closed the link itself: the peer is not lost. */
static void end_with_link(weft_remote_t *t, const weft_host_link_t *link) {
  weft_transfer_filter_t by_link = {.link = link, .with_announced = true};
  weft_status_t *why = weft_remote_departure_status(t);
  weft_remote_abort(t, &by_link, why);
  weft_status_free(why);
}

static void on_broken(void *arg, weft_host_link_t *link) {
  weft_remote_t *t = arg;
  if (weft_remote_is_departing(t)) {
    end_with_link(t, link);
    return;
  }
  weft_str_t task = weft_host_link_task(link), failed = {NULL, 0};
  const weft_status_t *told = NULL;
  bool is_departure = weft_host_link_has_left(link, &failed, &told);
  /* A task that departs after a loss names the failed task: that is the cause, perhaps not known here yet. */
  weft_host_link_t *other = failed.length == 0 ? NULL : weft_host_links_find(t->links, failed);
  bool is_news = told != NULL && failed.length > 0 && other == NULL && !weft_str_is(failed, t->task) &&
                 !weft_peer_table_is_lost(t->known, failed);
  weft_host_link_release(other);
  if (is_news) lose(t, failed, NULL, told, false);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s: the task failed or was stopped",
                                  WEFT_STR_ARGS(task));
  if (told != NULL) {
    weft_status_free(why);
    why = weft_status_clone(told);
  }
  if (is_departure) why = weft_peer_table_cause(t->known, task, why);
  lose(t, task, link, why, is_departure);
  weft_status_free(why);
}

const weft_host_link_ops_t weft_remote_link_ops = {.offered = on_offered,
                                                   .finished = on_finished,
                                                   .refused = on_refused,
                                                   .linked = on_linked,
                                                   .woken = weft_remote_on_woken,
                                                   .ended = on_ended,
                                                   .broken = on_broken};

/* The peer was lost before there was a link to break: ends what waits for it by now, and the link. */
static void notice_loss(weft_remote_t *t, weft_host_link_t *link) {
  weft_status_t *loss =
      weft_peer_table_loss_of(t->known, weft_host_link_task(link), weft_host_link_incarnation(link));
  if (loss == NULL) return;
  const weft_transfer_filter_t by_link = {.link = link};
  weft_remote_abort(t, &by_link, loss);
  weft_host_link_break(link); /* `broken` follows, and ends offers whose receiver may be reading */
  weft_status_free(loss);
}

void weft_remote_notice_end(weft_remote_t *t, weft_host_link_t *link) {
  if (link == NULL) return;
  notice_loss(t, link);
  if (!weft_host_link_is_linked(link)) on_broken(t, link);
}

static void on_cancel(void *arg) {
  weft_remote_fetch_t *f = arg; /* lives: the thread that ends it waits for this callback */
  if (weft_transfers_cancel_wait(f->t->transfers, f))
    weft_remote_end_fetch(f, weft_remote_cancelled(f->key), true);
}

void weft_remote_wait(weft_remote_t *t, weft_remote_fetch_t *f, weft_host_link_t *link) {
  bool is_registered = weft_canceller_register(f->canceller, on_cancel, f, &f->token);
  weft_remote_arrival_t *a = NULL;
  weft_host_link_retain(link); /* f may be gone once it waits */
  weft_status_t *s =
      is_registered ? weft_transfers_wait(t->transfers, f, link, &a) : weft_remote_cancelled(f->key);
  bool waits = s == NULL && a == NULL;
  if (waits) weft_remote_notice_end(t, link);
  weft_host_link_release(link);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, !is_registered);
    weft_host_link_release(link);
  } else if (a != NULL) {
    read_announced(t, f, a->link, a->id, a->address, a->bytes, a->is_inline ? a->data : NULL);
    weft_remote_end_arrival(a, false);
    weft_host_link_release(link);
  }
}

static void end_unannounced(void *arg) {
  weft_remote_offer_t *o = arg;
  weft_status_t *why = o->why;
  o->why = NULL;
  weft_remote_end_offer(o, cause_of_loss(o->t, o->to_task, o->link, why));
}

void weft_remote_announce(weft_remote_t *t, weft_remote_offer_t *o, weft_str_t key, weft_str_t to_device,
                          bool is_kept) {
  weft_host_link_t *link = weft_host_link_retain(o->link);
  bool is_inline = o->bytes <= WEFT_HOST_LINK_INLINE, is_sent = is_inline && !is_kept, is_broken = false;
  weft_host_offer_t message = {.step_id = o->step_id,
                               .key = key,
                               .to_device = to_device,
                               .bytes = o->bytes,
                               .address = (uint64_t)(uintptr_t)o->data};
  if (is_inline) message.inline_data = o->bytes == 0 ? "" : o->data;
  weft_status_t *s = is_sent ? NULL : weft_transfers_announce(t->transfers, o, &message.id);
  if (s == NULL && !weft_host_link_offer(link, &message)) {
    s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s", WEFT_STR_ARGS(weft_host_link_task(link)));
    is_broken = true;
    weft_status_t *ended = NULL;
    if (!is_sent) /* NULL: the end of the link was noticed before */
      o = weft_transfers_take_announced(t->transfers, NULL, message.id, &ended);
    weft_status_free(ended);
  }
  if (o != NULL && is_broken) {
    o->why = s;
    s = NULL;
    weft_host_links_settle(t->links, end_unannounced, o);
  } else if (o != NULL && (is_sent || s != NULL)) {
    weft_remote_end_offer(o, s);
    s = NULL;
  }
  if (!is_broken) notice_loss(t, link);
  weft_status_free(s);
  weft_host_link_release(link);
}
