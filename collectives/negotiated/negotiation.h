/* collectives/negotiated/negotiation.h - the requests of all members: the part of a controller that is the
 * same on all of them.
 *
 * Every member sees all requests of a cycle, in the order of ranks, and so computes the same responses
 * without a further message. (Horovod gathers at rank 0 and broadcasts the responses; with all lists
 * everywhere there is no second message.) A name is answered when all members of its process set have asked
 * for it, or have joined. Their requests must agree; if not, the answer is an error on all of them.
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATION_H_
#define WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATION_H_

#include "collectives/negotiated/named.h"

typedef struct weft_process_set { /* borrowed arrays */
  const int *ranks;               /* ascending */
  int n;
} weft_process_set_t;
/* A rank's place in a set; -1: it is no member. Set 0 is all `size` ranks and not in `sets`. */
int weft_process_set_index(const weft_process_set_t *sets, int num_sets, int size, int set, int rank);
int weft_process_set_size(const weft_process_set_t *sets, int num_sets, int size,
                          int set); /* 0: no such set */

typedef struct weft_named_response {
  weft_named_request_t request; /* texts live until the next call of weft_negotiation_forget */
  weft_status_t *error;         /* owned by the negotiation; NULL: carry it out */
  bool from_cache;
} weft_named_response_t;

typedef struct weft_negotiation weft_negotiation_t; /* Confined. */

WEFT_MUST_CHECK weft_status_t *weft_negotiation_create(int size, int rank, const weft_process_set_t *sets,
                                                       int num_sets, weft_negotiation_t **out);
void weft_negotiation_destroy(weft_negotiation_t *n); /* NULL is fine */
/* The requests of `rank`, encoded one after the other. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_negotiation_take(weft_negotiation_t *n, int rank, weft_str_t requests,
                                                     int64_t now_ns);
/* A name that all have in their caches: answered as if all had asked alike. */
WEFT_MUST_CHECK weft_status_t *weft_negotiation_take_cached(weft_negotiation_t *n,
                                                            const weft_named_request_t *r);
/* What can be answered now, in one order everywhere: cached ones first, then by when their first request
 * came. Of a group: all or none. Lent until weft_negotiation_forget. */
WEFT_MUST_CHECK weft_status_t *weft_negotiation_answer(weft_negotiation_t *n,
                                                       const weft_named_response_t **out, int *out_n);
/* The answers have been carried out. */
void weft_negotiation_forget(weft_negotiation_t *n);

bool weft_negotiation_has_joined(const weft_negotiation_t *n, int rank);

/* Calls fn for each name that some have asked for since before `since_ns` and others have not. */
typedef void weft_missing_fn(void *arg, weft_str_t name, const int *missing, int num_missing,
                             int64_t first_ns);
void weft_negotiation_each_late(weft_negotiation_t *n, int64_t since_ns, weft_missing_fn *fn, void *arg);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATION_H_ */
