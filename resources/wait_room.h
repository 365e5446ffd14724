/* resources/wait_room.h - where steps wait for a queue, an accumulator, a barrier.
 *
 * No thread waits: a waiter is an object that tries again whenever the object has
 * changed. A room has two lines (producers, consumers); only the
 * first of a line is tried, so a line is first come, first served (but see in_any_order). A waiter's
 * life:
 *
 *   made -> weft_wait() -> in line -> attempt says DONE  -> finish()
 *                |             |---- the step is cancelled -> finish() with CANCELLED
 *                |             `---- its deadline passes ---> finish() with is_late
 *                |---- the step is cancelled already ------> finish() with CANCELLED
 *                `---- there is no memory to wait ---------> finish() with RESOURCE_EXHAUSTED
 */
#ifndef WEFT_RESOURCES_WAIT_ROOM_H_
#define WEFT_RESOURCES_WAIT_ROOM_H_

#include "base/cancellation.h"
#include "base/timer.h"
#include "resources/variable.h"

/* An operation on a resource that may have to wait, as its caller sees it. */
typedef struct weft_resource_call {
  weft_canceller_t *canceller; /* ends the wait; NULL: it cannot be cancelled. Outlives it */
  weft_allocator_t *allocator; /* of outputs that are made for it; NULL: the heap */
  weft_value_t *outputs;       /* all zero; set before a successful end, and then the caller's */
  /* Called once, with none of our locks held, on any thread; owns `status`. */
  void (*done)(void *arg, weft_status_t *status);
  void *arg;
} weft_resource_call_t;
static inline void weft_resource_call_end(const weft_resource_call_t *c, weft_status_t *status) {
  c->done(c->arg, status);
}

typedef enum weft_wait_result { WEFT_WAIT_STUCK, WEFT_WAIT_PROGRESS, WEFT_WAIT_DONE } weft_wait_result_t;

typedef struct weft_room_waiter weft_room_waiter_t;
typedef struct weft_wait_line {
  weft_room_waiter_t *first, *last;
} weft_wait_line_t;

/* Part of the object that is waited for. Thread-safe. */
typedef struct weft_wait_room {
  weft_mutex_t mu;           /* the object's own lock, too; a leaf */
  weft_wait_line_t lines[2]; /* guarded by mu */
  bool in_any_order; /* every waiter in a line is tried, not only the first: waits that do not take from each
                        other. Set before use */
} weft_wait_room_t;

/* The first part of a bigger struct; made with weft_calloc. */
struct weft_room_waiter {
  weft_resource_call_t call; /* what waits */
  weft_object_t *owner;      /* one reference to the object of the room */
  int line;
  const char *cancelled; /* the message if the step is cancelled; static */
  bool is_cancelled;     /* the wait ended so; see weft_wait_failure() */
  bool is_starved;       /* it did not begin, without memory; the same */
  bool is_late;          /* for finish: the deadline has passed; expired() has been called */
  weft_timer_t *timer;   /* NULL: no deadline. Borrowed; outlives the wait */
  int64_t deadline_ns;   /* of weft_clock_ns(), with a timer */
  /* With a timer: the deadline has passed. The caller holds room->mu, the waiter has left its line. Keeps
   * what the error needs of the object's state as of now. */
  void (*expired)(weft_room_waiter_t *w);
  /* One try. The caller holds room->mu. It must not fail: an error is an outcome, kept in the bigger struct.
   */
  weft_wait_result_t (*attempt)(weft_room_waiter_t *w);
  /* Called once, with no lock held, on any thread: sets outputs or takes weft_wait_failure(), ends the call,
   * frees w (not owner). */
  void (*finish)(weft_room_waiter_t *w);
  /* The room's own. */
  weft_wait_room_t *room;
  weft_room_waiter_t *prev, *next;
  uint64_t token, timer_id;
  bool is_registered, is_timed, is_in_line, was_cancelled_early, was_late_early;
};

void weft_wait_room_init(weft_wait_room_t *r);
void weft_wait_room_deinit(weft_wait_room_t *r);
/* Joins the line w->line and tries the waiters. `w` is consumed. */
void weft_wait(weft_wait_room_t *r, weft_room_waiter_t *w);
/* For finish: CANCELLED with the waiter's message, or RESOURCE_EXHAUSTED; NULL: it was served, or is late. */
weft_status_t *weft_wait_failure(const weft_room_waiter_t *w);
/* Tries the waiters; after a change of the object under r->mu. */
void weft_wait_flush(weft_wait_room_t *r);
/* Every waiter in the line ends as cancelled, with its own message. The other line is tried then. */
void weft_wait_cancel_line(weft_wait_room_t *r, int line);

#endif /* WEFT_RESOURCES_WAIT_ROOM_H_ */
