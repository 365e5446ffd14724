/* collectives/link_counters.h - messages and bytes by (source task, destination task, class).
 *
 * Every transport counts what it sends; tests and reports read and reset. A link that
 * never carried anything has no row.
 *
 * Source: reference strategies 1.1 R7.
 */
#ifndef WEFT_COLLECTIVES_LINK_COUNTERS_H_
#define WEFT_COLLECTIVES_LINK_COUNTERS_H_

#include "base/str.h"

typedef enum weft_traffic {
  WEFT_TRAFFIC_CONTROL,    /* requests and answers without payload, row counts */
  WEFT_TRAFFIC_TENSOR,     /* rendezvous */
  WEFT_TRAFFIC_COLLECTIVE, /* fields of collectives */
  WEFT_TRAFFIC_KV,         /* tables */
  WEFT_TRAFFIC_COUNT,
} weft_traffic_t;
const char *weft_traffic_name(weft_traffic_t c); /* "control", "tensor", "collective", "kv" */

typedef struct weft_link_count {
  int64_t messages, bytes; /* payload only */
} weft_link_count_t;

typedef struct weft_link_counters weft_link_counters_t; /* Thread-safe. */
WEFT_MUST_CHECK weft_status_t *weft_link_counters_create(weft_link_counters_t **out);
void weft_link_counters_destroy(weft_link_counters_t *c); /* NULL is fine */
/* One more message. Names are copied the first time; without memory for a new row the message is not counted.
 * NULL c: nothing. */
void weft_link_counters_add(weft_link_counters_t *c, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                            size_t bytes);
void weft_link_counters_reset(weft_link_counters_t *c);
/* The sum over links from src to dst; an empty name is anyone. */
weft_link_count_t weft_link_counters_sum(weft_link_counters_t *c, weft_str_t src, weft_str_t dst,
                                         weft_traffic_t traffic);
/* Calls fn for each row that counted something; names are lent for the call. fn must not call back. */
typedef void weft_link_count_fn(void *arg, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                                weft_link_count_t count);
void weft_link_counters_each(weft_link_counters_t *c, weft_link_count_fn *fn, void *arg);

#endif /* WEFT_COLLECTIVES_LINK_COUNTERS_H_ */
