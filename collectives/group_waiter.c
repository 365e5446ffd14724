/* collectives/group_waiter.c - lists of waiters, their cancellers and timeouts, and their answers. */
#include "collectives/group_waiter.h"

#include "base/alloc.h"
#include "base/clock.h"

static weft_group_waiter_t *waiter_new(void *arg) {
  weft_group_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  atomic_init(&w->refs, 1);
  w->arg = arg;
  return w;
}

/* Copies *text in place; false without memory. */
static bool keep(weft_group_waiter_t *w, weft_str_t *text) {
  *text = weft_arena_str(&w->texts, *text);
  return text->data != NULL;
}

weft_group_waiter_t *weft_group_waiter_for_group(const weft_group_request_t *r, weft_group_fn *fn,
                                                 void *arg) {
  weft_group_waiter_t *w = waiter_new(arg);
  if (w == NULL) return NULL;
  w->group = *r;
  w->group_fn = fn;
  if (keep(w, &w->group.device) && keep(w, &w->group.device_type)) return w;
  weft_group_waiter_release(w);
  return NULL;
}

weft_group_waiter_t *weft_group_waiter_for_instance(const weft_instance_request_t *r, weft_instance_fn *fn,
                                                    void *arg) {
  weft_group_waiter_t *w = waiter_new(arg);
  if (w == NULL) return NULL;
  w->is_instance = true;
  w->instance = *r;
  w->instance_fn = fn;
  if (keep(w, &w->instance.device) && keep(w, &w->instance.name)) return w;
  weft_group_waiter_release(w);
  return NULL;
}

void weft_group_waiter_release(weft_group_waiter_t *w) {
  if (w == NULL || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(w->canceller);
  weft_arena_deinit(&w->texts);
  weft_free(w);
}

static void give_up(weft_group_waiter_t *w, bool is_timeout) {
  w->gave_up(w, is_timeout);
  weft_group_waiter_release(w);
}

static void on_cancel(void *arg) { give_up(arg, false); }
static void on_timeout(void *arg) { give_up(arg, true); }

bool weft_group_waiter_is_late(const weft_group_waiter_t *w) {
  return w->in != NULL && (w->has_expired || weft_canceller_is_cancelled(w->canceller));
}

void weft_group_waiter_repeat(weft_group_waiter_t *w) {
  w->gave_up(w, !weft_canceller_is_cancelled(w->canceller));
}

weft_status_t *weft_group_waiter_watch(weft_group_waiter_t *w, weft_timer_t *timer,
                                       weft_canceller_t *canceller, int64_t timeout_ms,
                                       weft_group_gave_up_fn *gave_up) {
  w->gave_up = gave_up;
  w->canceller = weft_canceller_retain(canceller);
  if (canceller != NULL) {
    atomic_fetch_add(&w->refs, 1);
    w->has_cancel = weft_canceller_register(canceller, on_cancel, w, &w->cancel_token);
    if (!w->has_cancel) {
      weft_group_waiter_release(w);
      return weft_canceller_is_cancelled(canceller)
                 ? WEFT_ERROR(CANCELLED, "cancelled before the collective began")
                 : WEFT_NO_MEMORY("waiting for a collective");
    }
  }
  if (timeout_ms <= 0) return NULL;
  atomic_fetch_add(&w->refs, 1);
  weft_status_t *s = weft_timer_add(timer, weft_clock_deadline_ns(timeout_ms), on_timeout, w, &w->timer_id);
  w->has_timer = s == NULL;
  if (!w->has_timer) weft_group_waiter_release(w);
  return s;
}

void weft_group_waiter_put(weft_group_waiters_t *list, weft_group_waiter_t *w) {
  w->in = list;
  w->next = NULL;
  w->prev = list->last;
  if (list->last != NULL) list->last->next = w;
  if (list->last == NULL) list->first = w;
  list->last = w;
}

static void unlink_from(weft_group_waiters_t *list, weft_group_waiter_t *w) {
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) list->first = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  if (w->next == NULL) list->last = w->prev;
  w->next = w->prev = NULL;
}

void weft_group_waiter_take(weft_group_waiter_t *w) {
  unlink_from(w->in, w);
  w->in = NULL;
}

void weft_group_waiter_take_all(weft_group_waiters_t *from, weft_group_waiters_t *to) {
  while (from->first != NULL) {
    weft_group_waiter_t *w = from->first;
    unlink_from(from, w);
    weft_group_waiter_put(to, w);
    w->in = NULL;
  }
}

void weft_group_waiter_answer(weft_group_waiter_t *w, weft_timer_t *timer, const weft_status_t *why,
                              weft_group_t *group, int source) {
  if (w->has_cancel && weft_canceller_try_deregister(w->canceller, w->cancel_token))
    weft_group_waiter_release(w);
  if (w->has_timer && weft_timer_remove(timer, w->timer_id)) weft_group_waiter_release(w);
  weft_status_t *s = why == NULL ? NULL : weft_status_clone(why);
  if (w->is_instance) w->instance_fn(w->arg, s, why == NULL ? source : -1);
  if (!w->is_instance) w->group_fn(w->arg, s, why == NULL ? weft_group_retain(group) : NULL);
  weft_group_waiter_release(w);
}

void weft_group_waiter_answer_all(weft_group_waiters_t *list, weft_timer_t *timer, const weft_status_t *why,
                                  weft_group_t *group, int source) {
  while (list->first != NULL) {
    weft_group_waiter_t *w = list->first;
    unlink_from(list, w);
    weft_group_waiter_answer(w, timer, why, group, source);
  }
}
