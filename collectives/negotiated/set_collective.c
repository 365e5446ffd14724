/* collectives/negotiated/set_collective.c - one collective over the members of a process set, and its result.
 */
#include "collectives/negotiated/controller.h"

#define STEP_ID ((INT64_C(1) << 60) + 7) /* no step of a graph has such an id */

int weft_negotiator_index(const weft_negotiator_t *n, int set) {
  return weft_process_set_index(n->o.sets, n->o.num_sets, n->o.size, set, n->o.rank);
}

/* The result of one collective, for which the negotiator's thread waits. */
typedef struct set_result {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done; /* guarded by mu */
  weft_status_t *status;
  weft_tensor_t *output;
} set_result_t;

static void on_done(void *arg, weft_status_t *status, weft_tensor_t *output) {
  set_result_t *w = arg;
  weft_mutex_lock(&w->mu);
  w->status = status;
  w->output = output;
  w->is_done = true;
  weft_cond_signal(&w->ended);
  weft_mutex_unlock(&w->mu);
}

weft_status_t *weft_negotiator_run(weft_negotiator_t *n, int set, weft_collective_t *call,
                                   weft_tensor_t **out) {
  set_result_t w = {.is_done = false};
  call->device = n->o.device;
  call->step_id = STEP_ID;
  call->group_key = n->o.group_key + set;
  call->group_size = weft_process_set_size(n->o.sets, n->o.num_sets, n->o.size, set);
  call->rank = weft_negotiator_index(n, set);
  weft_mutex_init(&w.mu);
  weft_cond_init(&w.ended);
  weft_collectives_run(n->o.collectives, call, n->canceller, on_done, &w);
  weft_mutex_lock(&w.mu);
  while (!w.is_done) weft_cond_wait(&w.ended, &w.mu); /* woken by on_done: the collective can be cancelled */
  weft_mutex_unlock(&w.mu);
  weft_cond_deinit(&w.ended);
  weft_mutex_deinit(&w.mu);
  if (w.status == NULL) {
    *out = w.output;
    return NULL;
  }
  weft_tensor_release(w.output);
  return w.status;
}
