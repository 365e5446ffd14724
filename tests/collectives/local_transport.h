/* tests/collectives/local_transport.h - tasks of one process that reach each other through memory.
 *
 * A hub joins any number of tasks and leads their groups. A fetch finds its offer in the hub and takes the
 * bytes where they lie, on the thread of the side that arrives second.
 *
 * For tests the hub has a link model: per pair of tasks a latency, a rate, a share of
 * messages that are lost and sent again, and a partition. A task sends one message at a time
 * and receives one at a time. The model's time is either real, or virtual: then nothing moves
 * but in weft_local_hub_run(), which jumps from event to event on the caller's thread, so
 * that times come out the same on every machine. Tasks can be killed and return.
 *
 * Source: reference strategies 1.1 R7, 7.3.
 */
#ifndef WEFT_TESTS_COLLECTIVES_LOCAL_TRANSPORT_H_
#define WEFT_TESTS_COLLECTIVES_LOCAL_TRANSPORT_H_

#include "collectives/link_counters.h"
#include "collectives/transport.h"

typedef struct weft_local_hub weft_local_hub_t; /* Thread-safe. */

typedef struct weft_link_model {
  double alpha_us, bytes_per_s; /* a message of n bytes takes alpha + n/rate; rate 0: no time for bytes */
  double drop_percent; /* each is sent again after 4 alpha, until it comes through; counted each time */
  bool is_partitioned; /* messages wait until the link is whole again */
} weft_link_model_t;

WEFT_MUST_CHECK weft_status_t *weft_local_hub_create(bool has_virtual_time, weft_local_hub_t **out);
void weft_local_hub_destroy(weft_local_hub_t *h); /* after its transports. NULL is fine */

/* A task joins (again, with another incarnation, after it was killed). `host`: equal texts share memory. The
 * transport is destroyed by its owner with weft_transport_destroy(), after the collectives on it. */
WEFT_MUST_CHECK weft_status_t *weft_local_transport_create(weft_local_hub_t *h, weft_str_t task,
                                                           weft_str_t host, uint64_t incarnation,
                                                           weft_transport_t **out);
void weft_transport_destroy(weft_transport_t *t); /* NULL is fine */

/* From `from` to `to` (empty: every task). Later calls win. Messages held by a partition go on when it ends.
 */
WEFT_MUST_CHECK weft_status_t *weft_local_hub_set_link(weft_local_hub_t *h, weft_str_t from, weft_str_t to,
                                                       weft_link_model_t m);
/* The task is lost: no message is sent by it or reaches it any more; transfers with it end with UNAVAILABLE
 * naming it, on both sides. */
void weft_local_hub_kill(weft_local_hub_t *h, weft_str_t task);
/* Virtual time: delivers messages, in order of time, until none is under way; returns how many. */
int weft_local_hub_run(weft_local_hub_t *h);
/* As above, at most `most`. */
int weft_local_hub_run_some(weft_local_hub_t *h, int most);
double weft_local_hub_seconds(weft_local_hub_t *h); /* of virtual time */
/* How many offers and fetches wait: 0 when nothing is left behind. */
int weft_local_hub_num_waiting(weft_local_hub_t *h);
weft_link_counters_t *weft_local_hub_counters(weft_local_hub_t *h); /* lent */

#endif /* WEFT_TESTS_COLLECTIVES_LOCAL_TRANSPORT_H_ */
