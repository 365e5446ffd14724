/* collectives/run_places.c - a call whose tensors lie in a device's memory, by way of the host: stages before
 * and after data moves. */
#include "collectives/run.h"

static void on_brought(void *arg, weft_status_t *s, weft_tensor_t *t) {
  weft_coll_run_t *r = arg;
  if (s == NULL) {
    weft_tensor_release(r->call.input);
    r->call.input = t;
  }
  weft_coll_run_end(r, s);
}

weft_status_t *weft_coll_run_bring_input(weft_coll_run_t *r) {
  weft_collective_place_t *p = r->call.place;
  if (p == NULL || r->is_together || r->placed_input == NULL) return NULL;
  weft_coll_run_begin(r);
  p->ops->to_host(p, r->placed_input, on_brought, r);
  return NULL;
}

static void on_returned(void *arg, weft_status_t *s, weft_tensor_t *t) {
  weft_coll_run_t *r = arg;
  if (s == NULL) {
    weft_tensor_release(r->output);
    r->output = t;
  }
  weft_coll_run_end(r, s);
}

weft_status_t *weft_coll_run_return_output(weft_coll_run_t *r) {
  weft_collective_place_t *p = r->call.place;
  if (p == NULL || r->is_together || r->output == NULL) return NULL;
  if (r->call.kind == WEFT_BROADCAST && r->rank == r->source) { /* it has not changed */
    weft_tensor_release(r->output);
    r->output = weft_tensor_retain(r->placed_input);
    return NULL;
  }
  weft_coll_run_begin(r);
  p->ops->from_host(p, r->output, on_returned, r);
  return NULL;
}
