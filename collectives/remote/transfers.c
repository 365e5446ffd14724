/* collectives/remote/transfers.c - the tables of transfers.
 *
 * Names of transfers are "step;to_device;key".
 *
 * Locking: `mu` is a leaf. No callback is called here.
 */
#include "collectives/remote/transfers.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "collectives/remote/ended_steps.h"

struct weft_transfers {
  weft_mutex_t mu;
  weft_cond_t idle;              /* signalled when num_busy falls to 0 */
  int num_busy;                  /* guarded by mu, as all below: fetches and calls that have not ended */
  weft_map_t held, announced;    /* offers: by name, by id */
  weft_map_t waiting, calling;   /* fetches, by name */
  weft_map_t arrivals, requests; /* by name */
  weft_map_t shares;             /* by id */
  _Atomic uint32_t changes;      /* of what a share that is looking is told; changed without mu */
  uint64_t next_id;              /* of announced offers and shares */
  weft_ended_steps_t ended;
  atomic_bool has_ended_steps; /* written under mu; read without it: false until the first one */
  int64_t last_step;           /* the last one that had a transfer */
  weft_map_t steps;            /* that had a transfer; values are the table */
};

weft_status_t *weft_transfers_create(weft_transfers_t **out) {
  weft_transfers_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("the transport of collectives");
  weft_mutex_init(&x->mu);
  weft_cond_init(&x->idle);
  *out = x;
  return NULL;
}

void weft_transfers_destroy(weft_transfers_t *x) {
  if (x == NULL) return;
  weft_ended_steps_deinit(&x->ended);
  weft_map_t *maps[] = {&x->held,     &x->announced, &x->waiting, &x->calling,
                        &x->arrivals, &x->requests,  &x->shares,  &x->steps};
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) weft_map_deinit(maps[i]);
  weft_cond_deinit(&x->idle);
  weft_mutex_deinit(&x->mu);
  weft_free(x);
}

char *weft_transfers_name(int64_t step_id, weft_str_t to_device, weft_str_t key, weft_str_t more,
                          weft_str_t *out_key, weft_str_t *out_more) {
  size_t size = 0;
  if (!weft_add_size(to_device.length, key.length, &size) || !weft_add_size(size, more.length + 32, &size))
    return NULL;
  char *name = weft_malloc(size), *p = name;
  if (name == NULL) return NULL;
  for (uint64_t id = (uint64_t)step_id; id != 0; id >>= 6) *p++ = (char)('0' + (id & 63));
  *p++ = ';';
  if (to_device.length > 0) memcpy(p, to_device.data, to_device.length);
  p += to_device.length;
  *p++ = ';';
  if (key.length > 0) memcpy(p, key.data, key.length);
  *out_key = weft_str_of(p, key.length);
  p += key.length;
  *p++ = '\0';
  if (more.length > 0) memcpy(p, more.data, more.length);
  if (out_more != NULL) *out_more = weft_str_of(p, more.length);
  return name;
}

static weft_status_t *cancelled(weft_str_t key) {
  return weft_status_mark_derived(WEFT_ERROR(CANCELLED, "fetching '%.*s' was cancelled", WEFT_STR_ARGS(key)));
}

/* Why a transfer cannot be: what ended its step or run here, or with `task`. */
static weft_status_t *ended_locked(weft_transfers_t *x, int64_t step_id, weft_str_t key, weft_str_t task)
    WEFT_REQUIRES(x->mu) {
  return weft_ended_steps_find(&x->ended, step_id, key, task);
}

static void mark_step_locked(weft_transfers_t *x, int64_t step_id) WEFT_REQUIRES(x->mu) {
  if (x->last_step == step_id || weft_map_get_u64(&x->steps, (uint64_t)step_id) != NULL) return;
  x->last_step = step_id;
  weft_status_free(weft_map_put_u64(&x->steps, (uint64_t)step_id, x,
                                    NULL)); /* without it, peers are not told that it ended */
}

/* ---- offers ---- */

weft_status_t *weft_transfers_begin_offer(weft_transfers_t *x, const weft_remote_offer_t *o,
                                          bool *out_is_requested) {
  weft_mutex_lock(&x->mu);
  mark_step_locked(x, o->step_id);
  weft_status_t *s = ended_locked(x, o->step_id, o->key, WEFT_STR(""));
  *out_is_requested = weft_map_get(&x->requests, weft_str(o->name)) != NULL;
  weft_mutex_unlock(&x->mu);
  return s;
}

weft_status_t *weft_transfers_hold(weft_transfers_t *x, weft_remote_offer_t *o,
                                   weft_remote_request_t **out_request) {
  weft_mutex_lock(&x->mu);
  weft_status_t *s = ended_locked(x, o->step_id, o->key, WEFT_STR(""));
  weft_remote_request_t *r = s == NULL ? weft_map_remove(&x->requests, weft_str(o->name)) : NULL;
  if (r != NULL) {
    r->is_waiting = false;
  } else if (s == NULL && weft_map_get(&x->held, weft_str(o->name)) != NULL) {
    s = WEFT_ERROR(INTERNAL, "'%.*s' is offered twice", WEFT_STR_ARGS(o->key));
  } else if (s == NULL) {
    s = weft_map_put(&x->held, weft_str(o->name), o, NULL);
  }
  weft_mutex_unlock(&x->mu);
  *out_request = r;
  return s;
}

weft_status_t *weft_transfers_announce(weft_transfers_t *x, weft_remote_offer_t *o, uint64_t *out_id) {
  weft_mutex_lock(&x->mu);
  *out_id = o->id = ++x->next_id;
  weft_status_t *s = weft_map_put_u64(&x->announced, o->id, o, NULL);
  weft_mutex_unlock(&x->mu);
  return s;
}

weft_remote_offer_t *weft_transfers_take_announced(weft_transfers_t *x, const weft_host_link_t *link,
                                                   uint64_t id, weft_status_t **out_why) {
  weft_mutex_lock(&x->mu);
  weft_remote_offer_t *o = weft_map_get_u64(&x->announced, id);
  if (o != NULL && (link == NULL || o->link == link)) {
    weft_map_remove_u64(&x->announced, id);
  } else {
    o = NULL;
  }
  *out_why = o == NULL ? NULL : ended_locked(x, o->step_id, o->key, WEFT_STR(""));
  weft_mutex_unlock(&x->mu);
  return o;
}

/* ---- fetches ---- */

void weft_transfers_begin(weft_transfers_t *x, int64_t step_id) {
  weft_mutex_lock(&x->mu);
  x->num_busy++;
  mark_step_locked(x, step_id);
  weft_mutex_unlock(&x->mu);
}

void weft_transfers_end(weft_transfers_t *x) {
  weft_mutex_lock(&x->mu);
  if (--x->num_busy == 0) weft_cond_broadcast(&x->idle);
  weft_mutex_unlock(&x->mu);
}

void weft_transfers_wait_idle(weft_transfers_t *x) {
  weft_mutex_lock(&x->mu);
  while (x->num_busy > 0) weft_cond_wait(&x->idle, &x->mu); /* woken by weft_transfers_end() */
  weft_mutex_unlock(&x->mu);
}

weft_status_t *weft_transfers_check(weft_transfers_t *x, const weft_remote_fetch_t *f) {
  weft_mutex_lock(&x->mu);
  weft_status_t *s = ended_locked(x, f->step_id, f->key, WEFT_STR(""));
  weft_mutex_unlock(&x->mu);
  return s;
}

static weft_status_t *keep_fetch(weft_map_t *map, weft_remote_fetch_t *f) {
  if (weft_map_get(map, weft_str(f->name)) != NULL)
    return WEFT_ERROR(INTERNAL, "'%.*s' is fetched twice", WEFT_STR_ARGS(f->key));
  return weft_map_put(map, weft_str(f->name), f, NULL);
}

weft_status_t *weft_transfers_begin_call(weft_transfers_t *x, weft_remote_fetch_t *f) {
  weft_mutex_lock(&x->mu);
  weft_status_t *s = ended_locked(x, f->step_id, f->key, f->from_task);
  if (s == NULL) s = keep_fetch(&x->calling, f);
  weft_mutex_unlock(&x->mu);
  return s;
}

weft_status_t *weft_transfers_end_call(weft_transfers_t *x, weft_remote_fetch_t *f) {
  weft_mutex_lock(&x->mu);
  if (weft_map_get(&x->calling, weft_str(f->name)) == f) weft_map_remove(&x->calling, weft_str(f->name));
  weft_status_t *why = f->why;
  f->why = NULL;
  weft_mutex_unlock(&x->mu);
  return why;
}

weft_status_t *weft_transfers_wait(weft_transfers_t *x, weft_remote_fetch_t *f, weft_host_link_t *link,
                                   weft_remote_arrival_t **out_arrival) {
  weft_remote_arrival_t *a = NULL;
  weft_mutex_lock(&x->mu);
  weft_status_t *s = f->is_cancelled ? cancelled(f->key) : NULL;
  if (s == NULL) a = weft_map_remove(&x->arrivals, weft_str(f->name));
  if (s == NULL && a == NULL) s = ended_locked(x, f->step_id, f->key, f->from_task);
  if (s == NULL && a == NULL) {
    s = keep_fetch(&x->waiting, f);
    f->is_waiting = s == NULL;
    if (s == NULL) f->link = link;
  }
  weft_mutex_unlock(&x->mu);
  *out_arrival = a;
  return s;
}

bool weft_transfers_cancel_wait(weft_transfers_t *x, weft_remote_fetch_t *f) {
  weft_mutex_lock(&x->mu);
  f->is_cancelled = true;
  bool is_ours = f->is_waiting;
  if (is_ours) weft_map_remove(&x->waiting, weft_str(f->name));
  f->is_waiting = false;
  weft_mutex_unlock(&x->mu);
  return is_ours;
}

bool weft_transfers_arrive(weft_transfers_t *x, weft_remote_arrival_t *a, weft_remote_fetch_t **out_fetch) {
  weft_mutex_lock(&x->mu);
  weft_status_t *why = ended_locked(x, a->step_id, a->key, WEFT_STR(""));
  weft_remote_fetch_t *f = why == NULL ? weft_map_remove(&x->waiting, weft_str(a->name)) : NULL;
  if (f != NULL) f->is_waiting = false;
  bool keeps = why == NULL && f == NULL && weft_map_get(&x->arrivals, weft_str(a->name)) == NULL;
  if (keeps) {
    weft_status_t *s = weft_map_put(&x->arrivals, weft_str(a->name), a, NULL);
    keeps = s == NULL;
    weft_status_free(s);
  }
  weft_mutex_unlock(&x->mu);
  weft_status_free(why);
  *out_fetch = f;
  return keeps;
}

/* ---- requests ---- */

weft_status_t *weft_transfers_request(weft_transfers_t *x, weft_remote_request_t *r,
                                      weft_remote_offer_t **out_offer) {
  weft_mutex_lock(&x->mu);
  weft_status_t *s = r->is_cancelled ? cancelled(r->key) : ended_locked(x, r->step_id, r->key, WEFT_STR(""));
  weft_remote_offer_t *o = s == NULL ? weft_map_remove(&x->held, weft_str(r->name)) : NULL;
  if (s == NULL && o == NULL) {
    if (weft_map_get(&x->requests, weft_str(r->name)) != NULL) {
      s = WEFT_ERROR(INTERNAL, "'%.*s' is asked for twice", WEFT_STR_ARGS(r->key));
    } else {
      s = weft_map_put(&x->requests, weft_str(r->name), r, NULL);
    }
    r->is_waiting = s == NULL;
  }
  weft_mutex_unlock(&x->mu);
  *out_offer = o;
  return s;
}

bool weft_transfers_cancel_request(weft_transfers_t *x, weft_remote_request_t *r) {
  weft_mutex_lock(&x->mu);
  r->is_cancelled = true;
  bool is_ours = r->is_waiting;
  if (is_ours) weft_map_remove(&x->requests, weft_str(r->name));
  r->is_waiting = false;
  weft_mutex_unlock(&x->mu);
  return is_ours;
}

/* ---- shares ---- */

weft_status_t *weft_transfers_enter_share(weft_transfers_t *x, weft_remote_share_t *s) {
  weft_mutex_lock(&x->mu);
  weft_status_t *why = ended_locked(x, s->p.step_id, weft_str(s->key), WEFT_STR(""));
  s->id = ++x->next_id;
  if (why == NULL) why = weft_map_put_u64(&x->shares, s->id, s, NULL);
  weft_mutex_unlock(&x->mu);
  return why;
}

/* Why it cannot go on, here or at one of its peers: a copy, or NULL. */
static weft_status_t *share_ended_locked(weft_transfers_t *x, const weft_remote_share_t *s,
                                         weft_post_state_t awaited) WEFT_REQUIRES(x->mu) {
  weft_status_t *why = ended_locked(x, s->p.step_id, weft_str(s->key), WEFT_STR(""));
  for (int i = 0; i < s->p.group->size && why == NULL; i++) {
    if (!weft_post_has_reached(s->post, i, awaited))
      why = ended_locked(x, s->p.step_id, weft_str(s->key), s->p.group->members[i].task);
  }
  return why;
}

/* True: nothing has woken it or is to end it. */
static bool may_sleep_locked(weft_transfers_t *x, weft_remote_share_t *s, weft_post_state_t awaited,
                             weft_status_t **out_why) WEFT_REQUIRES(x->mu) {
  *out_why = s->is_cancelled ? cancelled(s->p.run) : s->why;
  s->why = *out_why == s->why ? NULL : s->why;
  if (*out_why == NULL && atomic_load_explicit(&x->has_ended_steps, memory_order_relaxed))
    *out_why = share_ended_locked(x, s, awaited);
  const bool may_sleep = *out_why == NULL && !s->is_woken;
  s->is_woken = false;
  return may_sleep;
}

bool weft_transfers_park_share(weft_transfers_t *x, weft_remote_share_t *s, weft_post_state_t awaited,
                               weft_status_t **out_why) {
  weft_mutex_lock(&x->mu);
  s->is_parked = may_sleep_locked(x, s, awaited, out_why);
  const bool is_parked = s->is_parked;
  weft_mutex_unlock(&x->mu);
  return is_parked;
}

bool weft_transfers_watch_share(weft_transfers_t *x, weft_remote_share_t *s, weft_post_state_t awaited,
                                weft_watched_word_t *out_word, weft_status_t **out_why) {
  weft_mutex_lock(&x->mu);
  *out_word = weft_word_watch(&x->changes); /* changed behind the lock under which a share is told */
  const bool may_sleep = may_sleep_locked(x, s, awaited, out_why);
  weft_mutex_unlock(&x->mu);
  return may_sleep;
}

/* A share that was looking, perhaps asleep, was told something. */
static void wake_looking(weft_transfers_t *x) {
  atomic_fetch_add(&x->changes, 1);
  weft_word_wake(&x->changes);
}

weft_remote_share_t *weft_transfers_wake_share(weft_transfers_t *x, uint64_t id) {
  weft_mutex_lock(&x->mu);
  weft_remote_share_t *s = weft_map_get_u64(&x->shares, id);
  const bool is_ours = s != NULL && s->is_parked;
  if (is_ours) s->is_parked = false;
  if (s != NULL && !is_ours) s->is_woken = true;
  weft_mutex_unlock(&x->mu);
  if (s != NULL && !is_ours) wake_looking(x);
  return is_ours ? s : NULL;
}

bool weft_transfers_cancel_share(weft_transfers_t *x, weft_remote_share_t *s) {
  weft_mutex_lock(&x->mu);
  s->is_cancelled = true;
  const bool is_ours = s->is_parked;
  s->is_parked = false;
  weft_mutex_unlock(&x->mu);
  if (!is_ours) wake_looking(x);
  return is_ours;
}

void weft_transfers_leave_share(weft_transfers_t *x, weft_remote_share_t *s) {
  weft_mutex_lock(&x->mu);
  weft_map_remove_u64(&x->shares, s->id);
  weft_mutex_unlock(&x->mu);
}

/* ---- many at once ---- */

/* What a transfer is with. */
typedef struct transfer_peer {
  weft_str_t task;
  uint64_t incarnation; /* 0: not known */
  const weft_host_link_t *link;
} transfer_peer_t;

static bool is_with(const weft_transfer_filter_t *w, const transfer_peer_t *p) {
  if (w->link != NULL) return p->link == w->link;
  if (w->task.length == 0) return true;
  return weft_str_eq(p->task, w->task) &&
         (w->incarnation == 0 || p->incarnation == 0 || p->incarnation == w->incarnation);
}

static bool is_of_step(const weft_transfer_filter_t *w, int64_t step_id, weft_str_t key) {
  return !w->has_step || (step_id == w->step_id && weft_ended_steps_is_in_run(key, w->run));
}

static bool offer_matches(const weft_transfer_filter_t *w, const weft_remote_offer_t *o, bool is_announced) {
  const transfer_peer_t to = {o->to_task, o->incarnation, is_announced ? o->link : NULL};
  return is_of_step(w, o->step_id, o->key) && is_with(w, &to);
}

static bool fetch_matches(const weft_transfer_filter_t *w, const weft_remote_fetch_t *f) {
  const transfer_peer_t from = {f->from_task, f->incarnation, f->link};
  return is_of_step(w, f->step_id, f->key) && is_with(w, &from);
}

static bool arrival_matches(const weft_transfer_filter_t *w, const weft_remote_arrival_t *a) {
  const transfer_peer_t from = {a->from_task, a->incarnation, a->link};
  return is_of_step(w, a->step_id, a->key) && is_with(w, &from);
}

static void take_offers_locked(weft_transfers_t *x, const weft_transfer_filter_t *w,
                               weft_transfer_list_t *out) WEFT_REQUIRES(x->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&x->held, &at, &e);) {
    weft_remote_offer_t *o = e.value;
    if (!offer_matches(w, o, false)) continue;
    weft_map_remove(&x->held, weft_str(o->name));
    o->next = out->offers;
    out->offers = o;
  }
  for (size_t at = 0; w->with_announced && weft_map_next(&x->announced, &at, &e);) {
    weft_remote_offer_t *o = e.value;
    if (!offer_matches(w, o, true)) continue;
    weft_map_remove_u64(&x->announced, o->id);
    o->next = out->offers;
    out->offers = o;
  }
}

static void take_others_locked(weft_transfers_t *x, const weft_transfer_filter_t *w,
                               weft_transfer_list_t *out) WEFT_REQUIRES(x->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&x->waiting, &at, &e);) {
    weft_remote_fetch_t *f = e.value;
    if (!fetch_matches(w, f)) continue;
    weft_map_remove(&x->waiting, weft_str(f->name));
    f->is_waiting = false;
    f->next = out->fetches;
    out->fetches = f;
  }
  for (size_t at = 0; weft_map_next(&x->arrivals, &at, &e);) {
    weft_remote_arrival_t *a = e.value;
    if (w->keep_inline && a->is_inline) continue;
    if (!arrival_matches(w, a)) continue;
    weft_map_remove(&x->arrivals, weft_str(a->name));
    a->next = out->arrivals;
    out->arrivals = a;
  }
  for (size_t at = 0; w->task.length == 0 && w->link == NULL && weft_map_next(&x->requests, &at, &e);) {
    weft_remote_request_t *r = e.value;
    if (!is_of_step(w, r->step_id, r->key)) continue;
    weft_map_remove(&x->requests, weft_str(r->name));
    r->is_waiting = false;
    r->next = out->requests;
    out->requests = r;
  }
}

static bool share_matches(const weft_transfer_filter_t *w, const weft_remote_share_t *s) {
  bool found = false;
  for (int i = 0; i < s->p.group->size && !found; i++) {
    const weft_group_member_t *m = &s->p.group->members[i];
    found = is_with(w, &(transfer_peer_t){m->task, m->incarnation, s->links[i]});
  }
  return found && is_of_step(w, s->p.step_id, weft_str(s->key));
}

/* True: one that was looking was told. */
static bool take_shares_locked(weft_transfers_t *x, const weft_transfer_filter_t *w, const weft_status_t *why,
                               weft_transfer_list_t *out) WEFT_REQUIRES(x->mu) {
  bool has_told = false;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&x->shares, &at, &e);) {
    weft_remote_share_t *s = e.value;
    if (!share_matches(w, s)) continue;
    if (s->is_parked) {
      s->is_parked = false;
      s->next = out->shares;
      out->shares = s;
      continue;
    }
    has_told = true;
    if (weft_transfer_filter_is_peers_step(w)) {
      s->is_woken = true;
    } else if (s->why == NULL) {
      s->why = weft_status_clone(why);
    }
  }
  return has_told;
}

void weft_transfers_take(weft_transfers_t *x, const weft_transfer_filter_t *w, const weft_status_t *why,
                         weft_transfer_list_t *out) {
  weft_mutex_lock(&x->mu);
  take_offers_locked(x, w, out);
  take_others_locked(x, w, out);
  const bool has_told = take_shares_locked(x, w, why, out);
  weft_mutex_unlock(&x->mu);
  if (has_told) wake_looking(x);
}

weft_canceller_t *weft_transfers_take_call(weft_transfers_t *x, const weft_transfer_filter_t *w,
                                           const weft_status_t *why) {
  weft_status_t *mine = weft_status_clone(why);
  weft_canceller_t *c = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&x->mu);
  for (size_t at = 0; w->link == NULL && c == NULL && weft_map_next(&x->calling, &at, &e);) {
    weft_remote_fetch_t *f = e.value;
    if (f->why != NULL || !fetch_matches(w, f)) continue;
    f->why = mine;
    mine = NULL;
    c = weft_canceller_retain(f->canceller);
  }
  weft_mutex_unlock(&x->mu);
  weft_status_free(mine);
  return c;
}

void weft_transfers_add_ended(weft_transfers_t *x, int64_t step_id, char *run, char *task,
                              weft_status_t *why) {
  weft_mutex_lock(&x->mu);
  atomic_store_explicit(&x->has_ended_steps, true, memory_order_relaxed);
  weft_ended_step_t old = weft_ended_steps_add(&x->ended, (weft_ended_step_t){step_id, run, task, why});
  weft_mutex_unlock(&x->mu);
  weft_ended_step_deinit(&old);
}

void weft_transfers_begin_step(weft_transfers_t *x, int64_t step_id) {
  if (!atomic_load_explicit(&x->has_ended_steps, memory_order_relaxed)) return;
  weft_mutex_lock(&x->mu);
  weft_ended_steps_begin(&x->ended, step_id);
  weft_mutex_unlock(&x->mu);
}

bool weft_transfers_has_ended(weft_transfers_t *x, int64_t step_id, weft_str_t run) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&key, "%.*s/", WEFT_STR_ARGS(run));
  weft_mutex_lock(&x->mu);
  weft_status_t *why =
      ended_locked(x, step_id, weft_str_of(key.data, key.failed ? 0 : key.length), WEFT_STR(""));
  weft_mutex_unlock(&x->mu);
  weft_strbuf_deinit(&key);
  weft_status_free(why);
  return why != NULL;
}

bool weft_transfers_end_step(weft_transfers_t *x, int64_t step_id) {
  weft_mutex_lock(&x->mu);
  bool is_known = weft_map_remove_u64(&x->steps, (uint64_t)step_id) != NULL;
  if (x->last_step == step_id) x->last_step = 0;
  weft_mutex_unlock(&x->mu);
  return is_known;
}
