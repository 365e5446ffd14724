/* master/collective_steps.h - the step ids of collective graphs, as a master gives them to its steps.
 *
 * Independent clients run one collective graph, each through its own master. Their steps must have the same
 * id, or their members would not match. The cluster's leader draws the first; every master asks it once and
 * counts on, one for each step that is over (reference strategies R2, protocol 3.5).
 */
#ifndef WEFT_MASTER_COLLECTIVE_STEPS_H_
#define WEFT_MASTER_COLLECTIVE_STEPS_H_

#include "worker/worker_client.h"

typedef struct weft_collective_steps weft_collective_steps_t; /* Thread-safe. Lives as long as its master. */

typedef struct weft_collective_steps_options {
  weft_worker_cache_t *cache; /* borrowed */
  weft_str_t task, leader;    /* copied; an empty leader is the task itself */
} weft_collective_steps_options_t;

WEFT_MUST_CHECK weft_status_t *weft_collective_steps_create(const weft_collective_steps_options_t *o,
                                                            weft_collective_steps_t **out);
void weft_collective_steps_destroy(weft_collective_steps_t *s); /* NULL is fine; no call may be under way */

/* Its cluster has other tasks, through which other clients may run steps. */
bool weft_collective_steps_has_peers(const weft_collective_steps_t *s);

/* The leader is asked again before the next step of each graph: it may have been restarted. */
void weft_collective_steps_doubt(weft_collective_steps_t *s);

typedef void weft_step_id_fn(void *arg, weft_status_t *status, int64_t step_id); /* owns status */
/* The id of the next step of graph `key` (not 0). Steps that run at once get one id. fn is called once: at
 * once, or when the leader has answered. Errors: what the leader's call says; RESOURCE_EXHAUSTED. */
void weft_collective_steps_next(weft_collective_steps_t *s, int64_t key, weft_step_id_fn *fn, void *arg);
/* The step is over; `failure` (NULL: there was none) is lent. After one the leader is asked again before the
 * next step of any graph: it may have been restarted, or other clients may be at a later step. After
 * UNAVAILABLE, which a lost task ends steps with, also those that others have not begun, only the leader's
 * word counts. */
void weft_collective_steps_retire(weft_collective_steps_t *s, int64_t key, int64_t step_id,
                                  const weft_status_t *failure);

#endif /* WEFT_MASTER_COLLECTIVE_STEPS_H_ */
