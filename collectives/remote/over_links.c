/* collectives/remote/over_links.c - fetches and offers that meet by a link's messages.
 *
 * An offer that was told ends only when its receiver says that it does not read it any more, or is
 * gone: so its memory is never freed under a reader.
 */
#include "collectives/remote/transport_impl.h"

#include "base/alloc.h"
#include "base/clock.h"

/* We may not read in the peer's memory any longer: the rest of the bytes comes by a call. */
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
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_remote_ended_locked(t, f->step_id, f->key, f->from_task);
  if (s == NULL) s = weft_remote_keep_locked(&t->calls, f);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, true);
  } else {
    weft_remote_call_for(t, f, false);
  }
}

/* All that the peer has said before its memory was gone is known now: it may have left because of another. */
static void end_unread(void *arg) {
  weft_remote_fetch_t *f = arg;
  weft_remote_t *t = f->t;
  weft_status_t *why = f->why;
  f->why = NULL;
  if (!weft_remote_is_lost(t, f->from_task)) {
    weft_status_t *loss = weft_transport_loss(f->from_task, why);
    weft_remote_note_loss(t, f->from_task, loss, false);
    weft_status_free(loss);
  }
  weft_remote_end_fetch(f, weft_remote_cause(t, f->from_task, why), false);
}

static void read_offer(void *arg) {
  weft_remote_fetch_t *f = arg;
  weft_remote_source_t source = {.link = f->link, .address = f->address};
  f->began_ns = f->f.consume == NULL ? weft_clock_ns() : 0;
  weft_status_t *s = weft_remote_move(f, &source);
  if (weft_status_code(s) == WEFT_PERMISSION_DENIED) {
    call_instead(f, s);
    return;
  }
  if (s == NULL) weft_remote_learn(f, WEFT_WAY_NEAR);
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

/* The fetch has met its offer: `f` is out of the tables. Takes over what is told. */
static void read_told(weft_remote_t *t, weft_remote_fetch_t *f, weft_host_link_t *link, uint64_t id,
                      uint64_t address, size_t bytes, const void *inline_data) {
  weft_status_t *s = weft_remote_check_bytes(f, bytes);
  if (s != NULL || inline_data != NULL || bytes == 0) {
    weft_remote_source_t source = {.data = inline_data == NULL ? "" : inline_data};
    if (s == NULL) s = weft_remote_move(f, &source);
    if (id != 0) (void)weft_host_link_finished(link, id);
    weft_remote_end_fetch(f, s, false);
    return;
  }
  weft_host_link_retain(link);
  weft_host_link_release(f->link); /* of a fetch that waited: the same one */
  f->link = link;
  f->id = id;
  f->address = address;
  if (bytes < WEFT_REMOTE_POOL_BYTES || !weft_thread_pool_submit(t->pool, read_offer, f)) read_offer(f);
}

void weft_remote_offered(void *arg, weft_host_link_t *link, const weft_host_offer_t *o) {
  weft_remote_t *t = arg;
  weft_str_t key = {NULL, 0};
  char *name = weft_remote_name(o->step_id, o->to_device, o->key, WEFT_STR(""), &key, NULL);
  weft_remote_come_t *c =
      name == NULL ? NULL : weft_malloc(sizeof *c + (o->inline_data == NULL ? 0 : o->bytes));
  if (c == NULL) { /* the fetch waits until its step or its timeout ends it */
    weft_free(name);
    if (o->id != 0) (void)weft_host_link_finished(link, o->id);
    return;
  }
  *c = (weft_remote_come_t){.name = name,
                            .key = key,
                            .step_id = o->step_id,
                            .link = weft_host_link_retain(link),
                            .id = o->id,
                            .address = o->address,
                            .bytes = o->bytes,
                            .is_inline = o->inline_data != NULL};
  if (c->is_inline && o->bytes > 0) memcpy(c->data, o->inline_data, o->bytes);
  weft_mutex_lock(&t->mu);
  weft_status_t *why = weft_remote_ended_locked(t, o->step_id, key, WEFT_STR(""));
  weft_remote_fetch_t *f = why == NULL ? weft_map_remove(&t->wants, weft_str(name)) : NULL;
  if (f != NULL) f->is_waiting = false;
  bool keep = why == NULL && f == NULL && weft_map_get(&t->come, weft_str(name)) == NULL;
  if (keep) {
    weft_status_t *s = weft_map_put(&t->come, weft_str(name), c, NULL);
    keep = s == NULL;
    weft_status_free(s);
  }
  weft_mutex_unlock(&t->mu);
  if (f != NULL) {
    read_told(t, f, link, o->id, o->address, o->bytes, o->inline_data);
  } else if (!keep && o->id != 0) {
    (void)weft_host_link_finished(link, o->id);
  }
  weft_status_free(why);
  if (keep) return;
  weft_host_link_release(c->link);
  weft_free(c->name);
  weft_free(c);
}

/* One of ours that was told over this link; it is the caller's. *why: what ended it meanwhile. NULL if there
 * is none. */
static weft_remote_offer_t *take_told(weft_remote_t *t, const weft_host_link_t *link, uint64_t id,
                                      weft_status_t **why) {
  weft_mutex_lock(&t->mu);
  weft_remote_offer_t *o = weft_map_get_u64(&t->told, id);
  if (o != NULL && o->link == link) {
    weft_map_remove_u64(&t->told, id);
  } else {
    o = NULL;
  }
  *why = o == NULL ? NULL : weft_remote_ended_locked(t, o->step_id, o->key, WEFT_STR(""));
  weft_mutex_unlock(&t->mu);
  return o;
}

void weft_remote_finished(void *arg, weft_host_link_t *link, uint64_t id) {
  weft_status_t *why = NULL;
  weft_remote_offer_t *o = take_told(arg, link, id, &why);
  if (o != NULL) weft_remote_end_offer(o, why);
}

void weft_remote_refused(void *arg, weft_host_link_t *link, uint64_t id) {
  weft_status_t *why = NULL;
  weft_remote_offer_t *o = take_told(arg, link, id, &why);
  if (why != NULL) {
    weft_remote_end_offer(o, why);
  } else if (o != NULL) {
    weft_remote_hold(arg, o);
  }
}

void weft_remote_met(void *arg, double seconds) {
  weft_remote_t *t = arg;
  weft_link_costs_note(&t->costs, WEFT_WAY_NEAR, 0, seconds);
}

void weft_remote_free_come(weft_remote_come_t *c, bool tell) {
  if (tell && c->id != 0) (void)weft_host_link_finished(c->link, c->id);
  weft_host_link_release(c->link);
  weft_free(c->name);
  weft_free(c);
}

static void cancel_want(void *arg) {
  weft_remote_fetch_t *f = arg; /* lives: whoever ends it waits for us */
  weft_remote_t *t = f->t;
  weft_mutex_lock(&t->mu);
  f->is_cancelled = true;
  bool is_ours = f->is_waiting;
  if (is_ours) weft_map_remove(&t->wants, weft_str(f->name));
  f->is_waiting = false;
  weft_mutex_unlock(&t->mu);
  if (is_ours) weft_remote_end_fetch(f, weft_remote_cancelled(f->key), true);
}

/* Over a link: what has come is there already, or will be told. */
void weft_remote_want(weft_remote_t *t, weft_remote_fetch_t *f, weft_host_link_t *link) {
  bool is_registered = weft_canceller_register(f->canceller, cancel_want, f, &f->token);
  weft_remote_come_t *c = NULL;
  weft_mutex_lock(&t->mu);
  weft_status_t *s = !is_registered || f->is_cancelled ? weft_remote_cancelled(f->key) : NULL;
  if (s == NULL) c = weft_map_remove(&t->come, weft_str(f->name));
  if (s == NULL && c == NULL) s = weft_remote_ended_locked(t, f->step_id, f->key, f->from_task);
  if (s == NULL && c == NULL) {
    f->link = link;
    s = weft_remote_keep_locked(&t->wants, f);
    f->is_waiting = s == NULL;
    if (s != NULL) f->link = NULL;
  }
  bool waits = s == NULL && c == NULL;
  weft_host_link_retain(link); /* f is not ours any more once it waits */
  weft_mutex_unlock(&t->mu);
  if (waits && !weft_host_link_is_linked(link))
    weft_remote_broken(t, link); /* it broke before we waited: nobody else would say so */
  weft_host_link_release(link);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, !is_registered);
    weft_host_link_release(link);
  } else if (c != NULL) {
    read_told(t, f, c->link, c->id, c->address, c->bytes, c->is_inline ? c->data : NULL);
    weft_remote_free_come(c, false);
    weft_host_link_release(link);
  }
}
