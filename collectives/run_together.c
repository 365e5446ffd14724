/* collectives/run_together.c - a collective whose members are all of this task, at their places: the last one
 * to come begins it for all of them.
 *
 * A run that waits in the meeting has work outstanding, which the one that takes it away ends: so it and its
 * tensors stay until then, whatever happens to it meanwhile.
 */
#include "base/alloc.h"
#include "collectives/run.h"

bool weft_coll_run_is_for_places(const weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  const weft_collective_kind_t k = call->kind;
  if (call->algorithm != WEFT_ALGORITHM_AUTO || r->group->size == 1) return false;
  return k == WEFT_ALL_REDUCE || k == WEFT_REDUCE || k == WEFT_REDUCE_SCATTER || k == WEFT_ALL_GATHER ||
         k == WEFT_BROADCAST || (k == WEFT_ALL_TO_ALL && call->splits == NULL);
}

/* Is it of a kind that places do at once, as they like, and are all members of this task? */
static bool may_be_together(const weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  if (call->place == NULL || call->place->ops->run_together == NULL ||
      (r->group->size > 1 && !weft_coll_run_is_for_places(r)))
    return false;
  for (int i = 0; i < r->group->size; i++) {
    if (!weft_str_eq(r->group->members[i].task, r->group->members[r->rank].task)) return false;
  }
  return true;
}

/* The root of a broadcast has its output; what is reduced may take its input's place. A reduction gives all
 * ranks a result, which all but the root then drop. */
weft_status_t *weft_coll_run_make_output_there(weft_coll_run_t *r, const weft_coll_layout_t *l) {
  weft_collective_place_t *p = r->call.place;
  weft_tensor_t *in = r->placed_input;
  if (r->group->size == 1 || (r->call.kind == WEFT_BROADCAST && r->rank == r->source)) {
    r->output = weft_tensor_retain(in);
    return NULL;
  }
  if ((r->call.kind == WEFT_ALL_REDUCE || r->call.kind == WEFT_REDUCE) && r->takes_placed_input &&
      in->bytes > 0)
    return weft_tensor_view(in, in->dtype, &in->shape, &r->output);
  return p->ops->new_output(p, r->call.dtype, &l->out_shape, &r->output);
}

/* In elements; NULL for kinds without. The caller frees it. */
weft_status_t *weft_coll_run_element_bounds(const weft_coll_run_t *r, const weft_coll_layout_t *l,
                                            int64_t **out) {
  const size_t *bytes = r->call.kind == WEFT_REDUCE_SCATTER ? l->in_bounds
                        : r->call.kind == WEFT_ALL_GATHER   ? l->out_bounds
                                                            : NULL;
  *out = NULL;
  if (bytes == NULL) return NULL;
  const size_t n = (size_t)r->group->size + 1;
  *out = weft_calloc(n, sizeof **out);
  if (*out == NULL) return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  for (size_t i = 0; i < n; i++) (*out)[i] = (int64_t)(bytes[i] / r->element);
  return NULL;
}

/* Begins it for all: runs[] by rank. */
static weft_status_t *begin_all(weft_coll_run_t *r, weft_coll_run_t *const *runs) {
  const int n = r->group->size;
  weft_coll_layout_t l;
  int64_t *bounds = NULL;
  weft_collective_place_t **places = weft_calloc((size_t)n, sizeof *places);
  weft_tensor_t **tensors = weft_calloc(2 * (size_t)n, sizeof *tensors);
  weft_status_t *s = weft_coll_run_lay_out(r, &l);
  if (s == NULL) s = weft_coll_run_element_bounds(r, &l, &bounds);
  if (s == NULL && (places == NULL || tensors == NULL))
    s = WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  for (int i = 0; s == NULL && i < n; i++) {
    places[i] = runs[i]->call.place;
    tensors[i] = runs[i]->placed_input;
    tensors[n + i] = runs[i]->output;
  }
  if (s == NULL) {
    const weft_collective_together_t t = {.call = &r->call,
                                          .source = r->source,
                                          .bounds = bounds,
                                          .n = n,
                                          .num_own = n,
                                          .places = places,
                                          .inputs = tensors,
                                          .outputs = tensors + n};
    s = r->call.place->ops->run_together(&t);
  }
  weft_free(places);
  weft_free(tensors);
  weft_free(bounds);
  weft_coll_layout_deinit(&l);
  return s;
}

/* They are not done at once, or it gets none: what was made for that goes. */
static void part(weft_coll_run_t *r) {
  weft_tensor_release(r->output);
  r->output = NULL;
}

void weft_coll_run_end_there(weft_coll_run_t *r, bool is_done) {
  r->is_together = is_done;
  if (!is_done || (r->call.kind == WEFT_REDUCE && r->rank != r->source)) part(r);
}

static void end_all(weft_coll_run_t *const *runs, int n, weft_status_t *s) {
  const bool goes_on = weft_status_code(s) == WEFT_UNIMPLEMENTED;
  for (int i = 0; i < n && (s == NULL || goes_on); i++) weft_coll_run_end_there(runs[i], s == NULL);
  for (int i = 0; i < n; i++) weft_coll_run_end(runs[i], goes_on ? NULL : weft_status_clone(s));
  weft_status_free(s);
}

void weft_coll_run_left(void *run, weft_status_t *why) { weft_coll_run_end(run, why); }

weft_status_t *weft_coll_run_together(weft_coll_run_t *r) {
  char text[WEFT_KEY_TEXT];
  void **members = NULL;
  if (!may_be_together(r)) return NULL;
  weft_coll_layout_t l;
  weft_status_t *s = weft_coll_run_lay_out(r, &l);
  if (s == NULL) s = weft_coll_run_make_output_there(r, &l);
  weft_coll_layout_deinit(&l);
  if (s != NULL) return s;
  if (r->group->size == 1) {
    r->is_together = true;
    return NULL;
  }
  weft_coll_run_begin(r); /* ended by the one that takes it out of the meeting */
  s = weft_meetings_come(r->meetings, r->call.step_id, weft_coll_run_key(r, text, "t", 0, 0, 0, 0),
                         r->group->size, r->rank, r, &members);
  if (s != NULL) {
    weft_coll_run_end(r, s);
    return NULL;
  }
  if (members == NULL) return NULL;
  weft_coll_run_t **runs = (weft_coll_run_t **)(void *)members;
  end_all(runs, r->group->size, begin_all(r, runs));
  weft_free(members);
  return NULL;
}
