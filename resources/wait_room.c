/* resources/wait_room.c - lines of waiters.
 *
 * A waiter in line belongs to the room. The thread that takes it out of line under `mu`
 * owns it and finishes it; no other touches it from then on, but for a
 * callback of the canceller or the timer that is about to find it gone: so a waiter is
 * deregistered from both, which waits for such a callback, before it is finished.
 *
 * A room lives as long as its object; every waiter holds a reference to that,
 * and gives it back last.
 *
 * Locking: `mu` is a leaf.
 */
#include "resources/wait_room.h"

#include "base/alloc.h"

void weft_wait_room_init(weft_wait_room_t *r) {
  *r = (weft_wait_room_t){0};
  weft_mutex_init(&r->mu);
}

void weft_wait_room_deinit(weft_wait_room_t *r) { weft_mutex_deinit(&r->mu); }

static void append_locked(weft_wait_room_t *r, weft_room_waiter_t *w) WEFT_REQUIRES(r->mu) {
  weft_wait_line_t *line = &r->lines[w->line];
  w->prev = line->last;
  w->next = NULL;
  if (line->last != NULL) line->last->next = w;
  if (line->last == NULL) line->first = w;
  line->last = w;
  w->is_in_line = true;
}

static void unlink_locked(weft_wait_room_t *r, weft_room_waiter_t *w) WEFT_REQUIRES(r->mu) {
  weft_wait_line_t *line = &r->lines[w->line];
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) line->first = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  if (w->next == NULL) line->last = w->prev;
  w->prev = w->next = NULL;
  w->is_in_line = false;
}

/* Tries until no waiter gets further; those that are done come into a list, in order. */
static weft_room_waiter_t *flush_locked(weft_wait_room_t *r) WEFT_REQUIRES(r->mu) {
  weft_room_waiter_t *done = NULL, **tail = &done;
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (int i = 0; i < 2; i++) {
      weft_room_waiter_t *w = r->lines[i].first, *next;
      for (; w != NULL; w = next) {
        next = w->next;
        weft_wait_result_t result = w->attempt(w);
        if (result != WEFT_WAIT_STUCK) has_changed = true;
        if (result != WEFT_WAIT_DONE && !r->in_any_order) break;
        if (result != WEFT_WAIT_DONE) continue;
        unlink_locked(r, w);
        *tail = w;
        tail = &w->next;
      }
    }
  }
  return done;
}

/* Not with a lock held. */
static void deregister(weft_room_waiter_t *w) {
  if (w->is_timed) (void)weft_timer_remove(w->timer, w->timer_id);
  if (w->is_registered) weft_canceller_deregister(w->call.canceller, w->token);
  w->is_timed = w->is_registered = false;
}

static void finish(weft_room_waiter_t *w) {
  weft_object_t *owner = w->owner;
  deregister(w);
  w->finish(w);
  weft_object_release(owner);
}

static void finish_all(weft_room_waiter_t *w) {
  while (w != NULL) {
    weft_room_waiter_t *next = w->next;
    w->next = NULL;
    finish(w);
    w = next;
  }
}

void weft_wait_flush(weft_wait_room_t *r) {
  weft_mutex_lock(&r->mu);
  weft_room_waiter_t *done = flush_locked(r);
  weft_mutex_unlock(&r->mu);
  finish_all(done);
}

static void leave(weft_room_waiter_t *w, bool is_late) {
  weft_wait_room_t *r = w->room;
  weft_mutex_lock(&r->mu);
  bool is_mine = w->is_in_line;
  if (is_mine) {
    unlink_locked(r, w);
    w->is_late = is_late;
    w->is_cancelled = !is_late;
    if (is_late) w->expired(w);
    if (is_late) w->is_timed = false; /* it is this callback, which cannot wait for itself */
    if (!is_late) w->is_registered = false;
  } else {
    w->was_late_early = w->was_late_early || is_late;
    w->was_cancelled_early = w->was_cancelled_early || !is_late;
  }
  weft_mutex_unlock(&r->mu);
  if (!is_mine) return;
  weft_object_t *owner = weft_object_retain(w->owner); /* of the room, which the flush needs */
  finish(w);
  weft_wait_flush(r); /* those behind it may be served now */
  weft_object_release(owner);
}

/* The canceller's callback, and the timer's. */
static void on_cancel(void *arg) { leave(arg, false); }
static void on_deadline(void *arg) { leave(arg, true); }

/* Without memory for an entry of the timer the wait has no deadline: it can still be cancelled. */
static void start_timer(weft_room_waiter_t *w) {
  if (w->timer == NULL) return;
  weft_status_t *s = weft_timer_add(w->timer, w->deadline_ns, on_deadline, w, &w->timer_id);
  w->is_timed = s == NULL;
  weft_status_free(s);
}

void weft_wait(weft_wait_room_t *r, weft_room_waiter_t *w) {
  weft_room_waiter_t *done = NULL;
  weft_canceller_t *canceller = w->call.canceller;
  weft_object_t *owner =
      weft_object_retain(w->owner); /* a finished waiter may hold the last reference otherwise */
  w->room = r;
  w->is_registered = canceller != NULL;
  if (canceller != NULL && !weft_canceller_register(canceller, on_cancel, w, &w->token)) {
    w->is_registered = false;
    w->is_cancelled = weft_canceller_is_cancelled(canceller);
    w->is_starved = !w->is_cancelled;
    finish(w);
    weft_object_release(owner);
    return;
  }
  start_timer(w);
  weft_mutex_lock(&r->mu);
  if (w->was_cancelled_early || w->was_late_early) {
    w->is_cancelled = w->was_cancelled_early;
    w->is_late = !w->is_cancelled;
    if (w->is_late) w->expired(w);
    done = w;
  } else {
    append_locked(r, w);
    done = flush_locked(r);
  }
  weft_mutex_unlock(&r->mu);
  finish_all(done);
  weft_object_release(owner);
}

weft_status_t *weft_wait_failure(const weft_room_waiter_t *w) {
  if (w->is_cancelled) return WEFT_ERROR(CANCELLED, "%s", w->cancelled);
  return w->is_starved ? WEFT_NO_MEMORY("waiting for a resource") : NULL;
}

void weft_wait_cancel_line(weft_wait_room_t *r, int line) {
  weft_mutex_lock(&r->mu);
  weft_room_waiter_t *all = r->lines[line].first;
  r->lines[line] = (weft_wait_line_t){NULL, NULL};
  for (weft_room_waiter_t *w = all; w != NULL; w = w->next) {
    w->prev = NULL;
    w->is_in_line = false;
    w->is_cancelled = true;
  }
  weft_mutex_unlock(&r->mu);
  finish_all(all);
  weft_wait_flush(r);
}
