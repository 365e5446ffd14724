/* collectives/negotiated/response_cache.h - answers that were given before, by position.
 *
 * All members change their caches by the same calls in the same order, so a position
 * means the same everywhere, and one bit per position says "I am ready for that, too". Only the
 * shape's first dimension of an all-gather is each member's own.
 *
 * Source: Horovod's response cache (reference strategies 3.7).
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_RESPONSE_CACHE_H_
#define WEFT_COLLECTIVES_NEGOTIATED_RESPONSE_CACHE_H_

#include "collectives/negotiated/named.h"

typedef enum weft_cache_answer {
  WEFT_CACHE_MISS,
  WEFT_CACHE_HIT,
  WEFT_CACHE_OTHER
} weft_cache_answer_t; /* OTHER: the name, but not alike */

typedef struct weft_response_cache weft_response_cache_t; /* Confined. */

WEFT_MUST_CHECK weft_status_t *weft_response_cache_create(int capacity, weft_response_cache_t **out);
void weft_response_cache_destroy(weft_response_cache_t *c); /* NULL is fine */
/* *out_position is set unless the answer is a miss. */
weft_cache_answer_t weft_response_cache_find(const weft_response_cache_t *c, const weft_named_request_t *r,
                                             int *out_position);
/* One more than the highest position in use. */
int weft_response_cache_num_bits(const weft_response_cache_t *c);
/* What is at a position, lent until it changes; NULL if nothing. Counts as a use if `is_use`. */
const weft_named_request_t *weft_response_cache_at(weft_response_cache_t *c, int position, bool is_use);
/* Copies `r` to the lowest free position, or to that of the one that was not used for longest. A capacity of
 * 0 keeps nothing. Errors: RESOURCE_EXHAUSTED: members would no longer agree, so the caller must end. */
WEFT_MUST_CHECK weft_status_t *weft_response_cache_put(weft_response_cache_t *c,
                                                       const weft_named_request_t *r);
void weft_response_cache_drop(weft_response_cache_t *c, int position);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_RESPONSE_CACHE_H_ */
