/* collectives/remote/step_sequence.h - the step ids of collective graphs, as their leader gives them out.
 *
 * Clients that run one collective graph independently of each other must run it under one step id. The leader
 * keeps, per graph, the id of the next step; a client that has run it retires it, and the next one is one
 * more.
 *
 * Source: TensorFlow's RpcCollectiveExecutorMgr, as restated in the reference, 3.5.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_STEP_SEQUENCE_H_
#define WEFT_COLLECTIVES_REMOTE_STEP_SEQUENCE_H_

#include <stdint.h>

#include "base/status.h"

typedef struct weft_step_sequence weft_step_sequence_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_step_sequence_create(weft_step_sequence_t **out);
void weft_step_sequence_destroy(weft_step_sequence_t *s); /* NULL is fine */
/* The next ids of the graphs `keys`; random below 2^56 for new ones. Errors: RESOURCE_EXHAUSTED, also for
 * more than a million graphs. */
WEFT_MUST_CHECK weft_status_t *weft_step_sequence_get(weft_step_sequence_t *s, const int64_t *keys, int n,
                                                      int64_t *out);
/* The step is over. If it was another than the next one, clients and leader disagree: the graph starts again
 * at a random id. */
void weft_step_sequence_retire(weft_step_sequence_t *s, int64_t key, int64_t step_id);

/* Clients that have lost a member of their group begin anew, and may have counted differently until then: all
 * graphs start again at random ids. */
void weft_step_sequence_restart(weft_step_sequence_t *s);

#endif /* WEFT_COLLECTIVES_REMOTE_STEP_SEQUENCE_H_ */
