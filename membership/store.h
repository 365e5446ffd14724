/* membership/store.h - keys and values, and requests that wait for them; on the task that hosts the
 * coordination service.
 *
 * A get waits until its key is there. A barrier waits until as many callers have arrived as it is for. Each
 * wait ends once: with what it waited for, with its deadline, with its canceller, or with the store's stop.
 * Knows no network.
 *
 * Sources: the operations are those of PyTorch's TCPStore (reference strategies 3.5); barriers are PS-Lite's
 * (3.2).
 */
#ifndef WEFT_MEMBERSHIP_STORE_H_
#define WEFT_MEMBERSHIP_STORE_H_

#include "base/timer.h"
#include "membership/membership.h"

/* Of one value and of all. A set beyond them is RESOURCE_EXHAUSTED. */
enum {
  WEFT_STORE_MAX_KEY = 4096,
  WEFT_STORE_MAX_VALUE = 64 << 20,
  WEFT_STORE_MAX_BYTES = 256 << 20,
  WEFT_STORE_MAX_WAITS = 1 << 20
};

typedef enum weft_store_op {
  WEFT_STORE_SET,
  WEFT_STORE_GET,
  WEFT_STORE_ADD,
  WEFT_STORE_COMPARE_SET,
  WEFT_STORE_DELETE,
  WEFT_STORE_BARRIER,
} weft_store_op_t;
enum { WEFT_STORE_NUM_OPS = WEFT_STORE_BARRIER + 1 };

/* One operation, as membership.h describes them. Everything is borrowed until the call returns. */
typedef struct weft_store_request {
  weft_store_op_t op;
  weft_str_t key;      /* of a barrier: its name */
  weft_str_t value;    /* set, and the desired one of compare-set */
  weft_str_t expected; /* compare-set */
  int64_t delta;       /* add */
  int64_t timeout_ms;  /* get, barrier */
  int64_t size;        /* barrier */
} weft_store_request_t;

typedef struct weft_store weft_store_t; /* Thread-safe. */

/* `timer` is borrowed: waits with a deadline use it. */
WEFT_MUST_CHECK weft_status_t *weft_store_create(weft_timer_t *timer, weft_store_t **out);
void weft_store_stop(weft_store_t *s);    /* every wait ends with CANCELLED, later ones at once */
void weft_store_destroy(weft_store_t *s); /* stops first; NULL is fine */

/* Calls fn(arg) once: on this thread before it returns, or later on the thread that ends the wait, with
 * none of our locks held. Errors: INVALID_ARGUMENT (a key that is empty or too long, a value that is no
 * number for add, a barrier of another size), NOT_FOUND, DEADLINE_EXCEEDED naming the key, CANCELLED,
 * RESOURCE_EXHAUSTED. */
void weft_store_ask(weft_store_t *s, const weft_store_request_t *r, weft_canceller_t *canceller,
                    weft_value_fn *fn, void *arg);

#endif /* WEFT_MEMBERSHIP_STORE_H_ */
