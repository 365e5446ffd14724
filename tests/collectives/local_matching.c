/* tests/collectives/local_matching.c - joins the offers and fetches of one process. */
#include "tests/collectives/local_hub_impl.h"

#include <stdio.h>

#include "base/alloc.h"

enum { BLOCK = 256 << 10 }; /* bytes handed to consume() at once: what stays in a core's cache */

weft_local_task_t *weft_local_find_task(weft_local_hub_t *h, weft_str_t name) {
  weft_local_task_t *t = h->tasks;
  while (t != NULL && !weft_str_is(name, t->name)) t = t->next;
  return t;
}

void weft_local_release(weft_local_transfer_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(p->canceller);
  weft_free(p);
}

/* ---- ends ---- */

void weft_local_take_locked(weft_local_hub_t *h, weft_local_transfer_t *p) WEFT_REQUIRES(h->mu) {
  weft_map_remove(&p->owner->transfers, weft_str_of(p->key, p->key_length));
  if (p->prev != NULL) p->prev->next = p->next;
  if (p->prev == NULL) p->owner->first = p->next;
  if (p->next != NULL) p->next->prev = p->prev;
  p->next = p->prev = NULL;
  p->is_in_table = false;
  h->num_transfers--;
}

/* Ends a taken transfer with `why` (copied; NULL: both got what they wanted) and gives it back. */
static void end(weft_local_transfer_t *p, const weft_status_t *why) {
  if (p->has_cancel && weft_canceller_try_deregister(p->canceller, p->cancel_token)) weft_local_release(p);
  if (p->has_fetch) p->fetch_done(p->fetch_arg, why == NULL ? NULL : weft_status_clone(why));
  if (p->has_offer) p->offer_done(p->offer_arg, why == NULL ? NULL : weft_status_clone(why));
  weft_local_release(p);
}

void weft_local_deliver(weft_local_transfer_t *p) { /* taken, with both sides */
  if (p->bytes != p->fetch.bytes) {
    weft_status_t *s = WEFT_ERROR(INTERNAL, "%s: offered are %zu bytes, wanted %zu", p->key + p->key_at,
                                  p->bytes, p->fetch.bytes);
    end(p, s);
    weft_status_free(s);
    return;
  }
  if (p->fetch.to != NULL && p->bytes > 0) memcpy(p->fetch.to, p->data, p->bytes);
  for (size_t at = 0; p->fetch.consume != NULL && at < p->bytes; at += BLOCK) {
    p->fetch.consume(p->fetch.consume_arg, at, p->data + at, p->bytes - at < BLOCK ? p->bytes - at : BLOCK);
  }
  end(p, NULL);
}

void weft_local_end_all(weft_local_transfer_t *list, const weft_status_t *why) {
  while (list != NULL) {
    weft_local_transfer_t *p = list;
    list = p->next;
    p->next = NULL;
    end(p, why);
  }
}

/* ---- messages under way ---- */

/* Takes the next transfer that is due; NULL if none is. In virtual time the clock advances to it. */
static weft_local_transfer_t *take_due(weft_local_hub_t *h) {
  weft_local_transfer_t *p = NULL;
  bool is_mine = false;
  while (!is_mine) {
    weft_mutex_lock(&h->mu);
    p = weft_local_pop_due_locked(h);
    is_mine = p == NULL;
    if (p != NULL && p->is_in_table && p->is_due) {
      weft_local_take_locked(h, p);
      is_mine = true;
    }
    weft_mutex_unlock(&h->mu);
    weft_local_release(p); /* the heap's; the table's is still held if it is mine */
  }
  return p;
}

static void deliver_due(void *arg) {
  for (weft_local_transfer_t *p = take_due(arg); p != NULL; p = take_due(arg)) weft_local_deliver(p);
}

int weft_local_hub_run_some(weft_local_hub_t *h, int most) {
  int n = 0;
  for (; n < most; n++) {
    weft_local_transfer_t *p = take_due(h);
    if (p == NULL) break;
    weft_local_deliver(p);
  }
  return n;
}

int weft_local_hub_run(weft_local_hub_t *h) { return weft_local_hub_run_some(h, INT32_MAX); }

/* Real time: the timer delivers the message when it is due. */
static void set_alarm(weft_local_hub_t *h, weft_local_transfer_t *p) {
  if (h->has_virtual_time) return;
  uint64_t id = 0;
  weft_status_t *s = weft_timer_add(h->timer, p->due_ns, deliver_due, h, &id);
  weft_status_free(s); /* without memory the next alarm serves this one, too */
}

static void count(weft_local_hub_t *h, const weft_local_transfer_t *p, int sent) {
  for (int i = 0; i < sent; i++) {
    weft_link_counters_add(h->counters, weft_str(p->owner->name), weft_str(p->fetcher->name),
                           p->fetch.is_control ? WEFT_TRAFFIC_CONTROL : WEFT_TRAFFIC_COLLECTIVE, p->bytes);
  }
}

bool weft_local_start_locked(weft_local_hub_t *h, weft_local_transfer_t *p) {
  int sent = 0;
  const bool departs = weft_local_depart_locked(h, p, &sent);
  if (departs && p->is_due) set_alarm(h, p);
  count(h, p, sent);
  return departs;
}

static weft_local_transfer_t *transfer_new(weft_local_hub_t *h, int64_t step_id, weft_str_t key) {
  char step[24];
  const int n = snprintf(step, sizeof step, "%lld;", (long long)step_id);
  weft_local_transfer_t *p = weft_calloc(1, sizeof *p + (size_t)n + key.length + 1);
  if (p == NULL) return NULL;
  atomic_init(&p->refs, 1);
  p->hub = h;
  p->step_id = step_id;
  p->key = (char *)(p + 1);
  p->key_at = (size_t)n;
  p->key_length = (size_t)n + key.length;
  memcpy(p->key, step, (size_t)n);
  memcpy(p->key + n, key.data, key.length);
  return p;
}

bool weft_local_is_of_run(const weft_local_transfer_t *p, int64_t step_id, weft_str_t run) {
  const size_t n = p->key_length - p->key_at;
  return p->step_id == step_id && n > run.length && p->key[p->key_at + run.length] == '/' &&
         memcmp(p->key + p->key_at, run.data, run.length) == 0;
}

/* Why nothing can be done under this key at this task; lent under the lock. */
static const weft_status_t *obstacle(const weft_local_task_t *t, const weft_local_transfer_t *p) {
  if (t->lost != NULL) return t->lost;
  for (const weft_local_failed_run_t *f = t->failed; f != NULL; f = f->next) {
    if (weft_local_is_of_run(p, f->step_id, weft_str_of(f->run, f->run_length))) return f->why;
  }
  for (int i = 0; i < WEFT_LOCAL_STEPS_KEPT; i++) {
    if (t->ended[i].why != NULL && t->ended[i].step_id == p->step_id) return t->ended[i].why;
  }
  return NULL;
}

static void move_offer(weft_local_transfer_t *to, const weft_local_transfer_t *from) {
  to->has_offer = true;
  to->data = from->data;
  to->bytes = from->bytes;
  to->offer_done = from->offer_done;
  to->offer_arg = from->offer_arg;
  to->offer_to = from->offer_to;
}

static void move_fetch(weft_local_transfer_t *to, weft_local_transfer_t *from) {
  to->has_fetch = true;
  to->fetcher = from->fetcher;
  to->fetch = from->fetch;
  to->fetch_done = from->fetch_done;
  to->fetch_arg = from->fetch_arg;
  to->canceller = from->canceller;
  from->canceller = NULL;
}

/* Ends the fetch of a transfer with CANCELLED; an offer stays until the run fails
 * (weft_transport_ops_t.fail). */
static void end_fetch(weft_local_transfer_t *p) {
  weft_local_hub_t *h = p->hub;
  weft_mutex_lock(&h->mu);
  const bool is_mine = p->is_in_table && p->has_fetch, goes = is_mine && !p->has_offer;
  weft_transfer_done_fn *done = p->fetch_done;
  void *done_arg = p->fetch_arg;
  if (goes) weft_local_take_locked(h, p);
  if (is_mine) p->has_fetch = p->is_due = p->is_held = false;
  p->was_fetched = true;
  weft_mutex_unlock(&h->mu);
  if (is_mine) done(done_arg, WEFT_ERROR(CANCELLED, "fetching %s was cancelled", p->key + p->key_at));
  if (goes) weft_local_release(p); /* the table's */
}

static void on_cancel(void *arg) {
  end_fetch(arg);
  weft_local_release(arg);
}

/* One side arrives at `owner`'s table, as a transfer of its own. */
static void arrive(weft_local_hub_t *h, weft_local_task_t *owner, weft_local_task_t *self,
                   weft_local_transfer_t *mine, weft_canceller_t *canceller) {
  weft_status_t *failed = NULL;
  weft_local_transfer_t *served = NULL, *left = NULL, *waits = NULL;
  int sent = 0;
  bool departs = false;
  mine->canceller = mine->has_fetch ? weft_canceller_retain(canceller) : NULL;
  weft_mutex_lock(&h->mu);
  mine->owner = owner;
  const weft_status_t *why = obstacle(owner, mine);
  if (why == NULL) why = obstacle(self, mine);
  if (why == NULL && mine->has_offer && mine->offer_to != NULL) why = mine->offer_to->lost;
  weft_local_transfer_t *there =
      why == NULL ? weft_map_get(&owner->transfers, weft_str_of(mine->key, mine->key_length)) : NULL;
  const bool is_twice =
      there != NULL && (mine->has_offer ? there->has_offer : there->has_fetch || there->was_fetched);
  if (why != NULL) failed = weft_status_clone(why);
  if (is_twice)
    failed = WEFT_ERROR(INTERNAL, "%s is %s twice", mine->key + mine->key_at,
                        mine->has_offer ? "offered" : "fetched");
  if (failed == NULL && !weft_local_reserve_locked(h))
    failed = WEFT_ERROR(RESOURCE_EXHAUSTED, "a transfer of %s", mine->key + mine->key_at);
  if (failed == NULL && there == NULL) {
    failed = weft_map_put(&owner->transfers, weft_str_of(mine->key, mine->key_length), mine, NULL);
    if (failed == NULL) {
      mine->next = owner->first;
      if (owner->first != NULL) owner->first->prev = mine;
      owner->first = mine;
      mine->is_in_table = true;
      h->num_transfers++;
      waits = mine;
    }
  } else if (failed == NULL) {
    if (mine->has_offer) move_offer(there, mine);
    if (mine->has_fetch) move_fetch(there, mine);
    left = mine;
    departs = weft_local_depart_locked(h, there, &sent);
    if (!departs) weft_local_take_locked(h, there);
    served = there;
  }
  /* A fetch that must wait can be cancelled from now on; the callback finds it in the table. */
  weft_local_transfer_t *watched = waits != NULL && waits->has_fetch                     ? waits
                                   : departs && served->has_fetch && !served->has_cancel ? served
                                                                                         : NULL;
  bool is_cancelled = false;
  if (watched != NULL && watched->canceller != NULL) {
    atomic_fetch_add(&watched->refs, 1);
    watched->has_cancel =
        weft_canceller_register(watched->canceller, on_cancel, watched, &watched->cancel_token);
    is_cancelled =
        !watched->has_cancel; /* or without memory: it cannot wait; its reference is given back below */
  }
  if (departs && !is_cancelled && served->is_due) set_alarm(h, served);
  weft_local_transfer_t *to_count = served != NULL && !is_cancelled ? served : NULL;
  if (to_count != NULL) count(h, to_count, sent);
  weft_mutex_unlock(&h->mu);
  if (is_cancelled) {
    end_fetch(watched);
    weft_local_release(watched);
  } else if (served != NULL && !departs) {
    weft_local_deliver(served);
  }
  if (failed != NULL) end(mine, failed);
  weft_status_free(failed);
  weft_local_release(left);
}

static void no_memory(weft_transfer_done_fn *done, void *arg, weft_str_t key) {
  done(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "a transfer of %.*s", WEFT_STR_ARGS(key)));
}

void weft_local_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task,
                      weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                      weft_transfer_done_fn *done, void *arg) {
  (void)to_device; /* is in the key */
  (void)is_kept;   /* all offers are */
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  weft_local_transfer_t *p = transfer_new(h, step_id, key);
  if (p == NULL) {
    no_memory(done, arg, key);
    return;
  }
  weft_mutex_lock(&h->mu);
  p->offer_to = weft_local_find_task(h, to_task);
  weft_mutex_unlock(&h->mu);
  p->has_offer = true;
  p->data = data;
  p->bytes = bytes;
  p->offer_done = done;
  p->offer_arg = arg;
  arrive(h, t->task, t->task, p, NULL);
}

void weft_local_fetch(weft_transport_t *base, const weft_fetch_t *f, weft_canceller_t *canceller,
                      weft_transfer_done_fn *done, void *arg) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  weft_mutex_lock(&h->mu);
  weft_local_task_t *from = weft_local_find_task(h, f->from_task);
  weft_mutex_unlock(&h->mu);
  if (from == NULL) {
    done(arg, WEFT_ERROR(UNAVAILABLE, "task %.*s is not here", WEFT_STR_ARGS(f->from_task)));
    return;
  }
  weft_local_transfer_t *p = transfer_new(h, f->step_id, f->key);
  if (p == NULL) {
    no_memory(done, arg, f->key);
    return;
  }
  p->has_fetch = true;
  p->fetcher = t->task;
  p->fetch = *f;
  p->fetch_done = done;
  p->fetch_arg = arg;
  arrive(h, from, t->task, p, canceller);
}
