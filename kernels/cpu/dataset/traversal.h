/* kernels/cpu/dataset/traversal.h - a pass through a data set with a thread of its own.
 *
 * The thread starts with the first request, serves one request after the other, and closes the iterators when
 * the traversal has been closed. Steps do not wait: they leave a request, which ends on that thread.
 *
 *   weft_traversal_next -> in line -> on the thread: an element -> done
 *          |                  |             `- its step is cancelled meanwhile: done at once; the element is
 * kept |                  |                for the next request |                  `- its step is cancelled:
 * done at once, it leaves the line
 *          `- the traversal is closed: done with CANCELLED
 */
#ifndef WEFT_KERNELS_CPU_DATASET_TRAVERSAL_H_
#define WEFT_KERNELS_CPU_DATASET_TRAVERSAL_H_

#include "kernels/cpu/dataset/dataset.h"

typedef struct weft_traversal_places weft_traversal_places_t; /* Thread-safe */

/* Thread-safe. Counted. What iterators of it may read is constant, but the budget. */
struct weft_traversal {
  atomic_int refs;
  const weft_dataset_t *dataset;   /* the root; retained */
  weft_device_t *device;           /* held: it lives as long as the traversal */
  weft_canceller_t *canceller;     /* cancelled when the traversal is closed */
  weft_traversal_places_t *places; /* owned */
  bool is_deterministic;           /* what data sets do that leave the order to the options */
  atomic_llong buffered;           /* bytes that stages have made ahead (ahead.h) */
  atomic_llong waited_ns;          /* in requests that have ended, from the request to its end */
  atomic_llong delivered;          /* elements */
  int64_t budget;                  /* of them: above it no stage makes more than one element ahead */
};

/* `parent` (may be NULL) cancels it, too. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_traversal_create(const weft_dataset_t *d, weft_device_t *device,
                                                     weft_canceller_t *parent, weft_traversal_t **out);
weft_traversal_t *weft_traversal_retain(weft_traversal_t *n);
void weft_traversal_release(weft_traversal_t *n); /* NULL is fine. The last one closes it */
/* Requests that wait, and waits within iterators, end with CANCELLED; later ones, too. Does not wait. */
void weft_traversal_close(weft_traversal_t *n);

/* How long steps have waited for elements, and what they got. */
typedef struct weft_waits {
  int64_t waited_ns, delivered; /* time in requests, summed where several wait at once; elements */
  int64_t buffered, budget;     /* bytes made ahead now; how many there may be */
} weft_waits_t;
/* Adds the pass's waits to *to, and sets the others. */
void weft_traversal_add_waits(const weft_traversal_t *n, weft_waits_t *to);

/* Where a pass goes through a data set. Random numbers that its functions draw begin anew with each pass and
 * at each place, and go on where the pass comes again: below the root a place is a way down the inputs, as
 * TensorFlow's rewrite of a data set gives each use a node of its own; of data sets that are elements, or
 * inputs of those, it is the node that has made them. */
struct weft_traversal_place {
  const weft_traversal_place_t *parent; /* NULL: it has none */
  const void *key;                      /* among the places with that parent */
  const weft_dataset_t *of; /* retained, so that its key stays; NULL: what has the key stays anyhow */
  bool is_below_root;
  int num_callees;
  weft_callee_t *callees[WEFT_MAX_FUNCTIONS]; /* owned */
};
/* Of input i (below the root), or of a data set (parent NULL) that is the root or an element. NULL for one
 * without functions that is not below the root. Lent by the traversal. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_traversal_place(weft_traversal_t *n, const weft_traversal_place_t *parent,
                                                    int i, const weft_dataset_t *d,
                                                    const weft_traversal_place_t **out);
/* The same for one function beside the data sets. */
WEFT_MUST_CHECK weft_status_t *weft_traversal_callee(weft_traversal_t *n, weft_callee_t *callee,
                                                     weft_callee_t **out);

/* place.c: for traversals. Create returns NULL without memory; no iterator may be open when they are
 * destroyed.
 */
weft_traversal_places_t *weft_traversal_places_create(void);
void weft_traversal_places_destroy(weft_traversal_places_t *n); /* NULL is fine */

/* So many bytes more have been made ahead; fewer if negative. */
void weft_traversal_buffer(weft_traversal_t *n, int64_t bytes);

/* A request for an element. Constant until done. */
typedef struct weft_traversal_request {
  weft_canceller_t *canceller; /* of the step that waits; NULL: none */
  /* Called once, on any thread, with no lock held; owns `status`, and takes out of `parts` (spec->n) what it
   * wants; the others are released. After a failure or the end `parts` is NULL. */
  void (*done)(void *arg, weft_status_t *status, weft_tensor_t **parts, bool is_end);
  void *arg;
} weft_traversal_request_t;
void weft_traversal_next(weft_traversal_t *n, const weft_traversal_request_t *request);

/* Runs fn(arg, status, root) on the thread, behind the requests before it. `root` is NULL after a failure,
 * which fn then owns: CANCELLED, or that of opening the iterator. fn may wait as iterators do. */
typedef void weft_traversal_fn(void *arg, weft_status_t *status, weft_iterator_t *root);
void weft_traversal_do(weft_traversal_t *n, weft_traversal_fn *fn, void *arg);

#endif /* WEFT_KERNELS_CPU_DATASET_TRAVERSAL_H_ */
