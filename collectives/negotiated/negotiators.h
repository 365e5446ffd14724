/* collectives/negotiated/negotiators.h - the negotiators of a task, one per device and group, made when first
 * asked for. */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATORS_H_
#define WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATORS_H_

#include "collectives/negotiated/negotiated.h"

typedef struct weft_negotiators weft_negotiators_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_negotiators_create(weft_collectives_t *c,
                                                       weft_negotiators_t **out); /* c: borrowed */
/* Ends them all; before the collectives are destroyed. NULL is fine. */
void weft_negotiators_destroy(weft_negotiators_t *t);
/* *out is lent: the negotiator of `o`'s device and group (o->collectives is not looked at). One that has
 * ended is made anew. Errors: INVALID_ARGUMENT if it is known with another rank or size. */
WEFT_MUST_CHECK weft_status_t *weft_negotiators_get(weft_negotiators_t *t, const weft_negotiator_options_t *o,
                                                    weft_negotiator_t **out);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATORS_H_ */
