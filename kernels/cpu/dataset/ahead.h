/* kernels/cpu/dataset/ahead.h - elements made ahead of the one that takes them: a bounded ring and threads
 * that keep it full.
 *
 * The threads begin one element after the other, in order; an element ends on any thread, in any order. They
 * are handed out in order, or, where the order does not matter, as they end. What lies in the ring counts in
 * the traversal's budget.
 *
 * Threads that wake one another for each element would do little else. So a full ring is filled again when
 * half of it is taken, and where elements end quickly the taker waits for several of them.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_AHEAD_H_
#define WEFT_KERNELS_CPU_DATASET_AHEAD_H_

#include "kernels/cpu/dataset/dataset.h"

typedef struct weft_ahead weft_ahead_t; /* Thread-safe, but for create, save, load and destroy */

/* An element on its way. */
typedef struct weft_ahead_slot {
  weft_ahead_t *of;
  weft_tensor_t **parts; /* room for the element */
  weft_status_t *status;
  bool is_end; /* there is no such element, and none behind it */
  bool is_done;
  size_t bytes;
  bool is_called; /* go_on has begun */
  void *work;     /* of those that make it */
} weft_ahead_slot_t;

typedef struct weft_ahead_options {
  weft_iterator_t *owner; /* the iterator that hands the elements out */
  int limit;              /* elements in the ring, 1 at least */
  int max_limit;          /* it grows up to this while the taker finds it empty and the budget allows */
  int max_calls;          /* elements that go on at once; 0: as many as the ring has */
  int num_threads;        /* 0 is 1 */
  bool is_any_order;
  /* On a thread of the ahead's, one at a time, in order; may wait. Ends the slot, at once or later, with
   * weft_ahead_end; or leaves that to `go_on`: true. */
  bool (*begin)(void *arg, weft_ahead_slot_t *slot);
  /* Several at once. Ends the slot, at once or later. May be NULL. */
  void (*go_on)(void *arg, weft_ahead_slot_t *slot);
  void *arg;
} weft_ahead_options_t;

/* The threads start with the first weft_ahead_next. From now on the owner has a canceller of its own, which
 * weft_ahead_destroy cancels: open its inputs after this. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_ahead_create(const weft_ahead_options_t *o, weft_ahead_t **out);
/* Ends a slot: with a failure (owned), or with the end (nothing more is begun), or its parts are set. */
void weft_ahead_end(weft_ahead_slot_t *slot, weft_status_t *status, bool is_end);
/* As an iterator's next. */
WEFT_MUST_CHECK weft_status_t *weft_ahead_next(weft_ahead_t *a, weft_tensor_t **out, bool *is_end);
/* Cancels what is under way, waits until it has ended, and closes the owner's `input`. NULL is fine. */
void weft_ahead_destroy(weft_ahead_t *a);
/* Elements in the ring, those under way included: waits for them. No other call meanwhile but from `begin`s
 * that have started. What `begin` reads of may be saved behind it: the threads stand still until the next
 * weft_ahead_next. */
WEFT_MUST_CHECK weft_status_t *weft_ahead_save(weft_ahead_t *a, weft_saved_t *to);
WEFT_MUST_CHECK weft_status_t *weft_ahead_load(weft_ahead_t *a, weft_saved_t *from);

#endif /* WEFT_KERNELS_CPU_DATASET_AHEAD_H_ */
