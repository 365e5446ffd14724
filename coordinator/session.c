/* coordinator/session.c - a worker's sessions: one per closure, at the worker's own master. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/random.h"
#include "coordinator/impl.h"

/* Calls of a direct client end before they return, so what they bring lives on the stack. */
typedef struct made {
  weft_status_t *status;
  char *session;
} made_t;
typedef struct ran {
  weft_status_t *status;
  weft_tensor_t **outputs; /* num_outputs */
  int num_outputs;
} ran_t;

static void got_session(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  made_t *m = arg;
  (void)version;
  m->status = status;
  if (status == NULL) m->session = weft_strndup(session.data, session.length);
}

static void got_fetches(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  ran_t *r = arg;
  r->status = status;
  for (int i = 0; status == NULL && i < r->num_outputs && i < result->num_fetches; i++)
    r->outputs[i] = result->fetches[i];
}

void weft_co_session_drop(weft_co_worker_t *w, WEFT_Closure *closure) {
  weft_co_part_t *p = &closure->parts[w->index];
  weft_free(p->session);
  p->session = NULL;
}

static weft_status_t *need_session(weft_co_worker_t *w, WEFT_Closure *closure, weft_canceller_t *canceller) {
  weft_co_part_t *p = &closure->parts[w->index];
  WEFT_RETURN_IF_ERROR(weft_closure_build(closure, w->index));
  if (p->session != NULL && p->generation == w->generation) return NULL;
  weft_co_session_drop(w, closure);
  made_t made = {NULL, NULL};
  const weft_create_session_t r = {.graph_def = p->graph.graph_def,
                                   .config = w->config,
                                   .target = WEFT_STR(""),
                                   .client = weft_presence_id(w->presence)};
  w->master->ops->create_session(w->master, &r, canceller, got_session, &made);
  if (made.status == NULL && made.session == NULL)
    made.status = WEFT_NO_MEMORY("a session of %s", w->task.name);
  if (made.status == NULL) {
    p->session = made.session;
    p->generation = w->generation;
  }
  return made.status;
}

static weft_status_t *fill_feeds(const weft_co_graph_t *g, weft_tensor_t *const *feeds, int num_feeds,
                                 int64_t id, weft_named_tensor_t *out, weft_tensor_t **id_tensor, int *n) {
  if (num_feeds != g->num_inputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a closure has %d inputs and was given %d tensors", g->num_inputs,
                      num_feeds);
  }
  for (int i = 0; i < num_feeds; i++) out[i] = (weft_named_tensor_t){g->inputs[i], feeds[i]};
  *n = num_feeds;
  if (g->id.data == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I64, &id, id_tensor));
  out[(*n)++] = (weft_named_tensor_t){g->id, *id_tensor};
  return NULL;
}

weft_status_t *weft_co_session_run(weft_co_worker_t *w, WEFT_Closure *closure, weft_tensor_t *const *feeds,
                                   int num_feeds, int64_t id, weft_canceller_t *canceller,
                                   weft_tensor_t ***out, int *num_out) {
  const weft_co_graph_t *g = &closure->parts[w->index].graph;
  weft_tensor_t *id_tensor = NULL;
  weft_named_tensor_t *named = NULL;
  ran_t ran = {0};
  int num_named = 0;
  weft_status_t *s = need_session(w, closure, canceller);
  if (s != NULL) return s;
  named = weft_calloc((size_t)num_feeds + 1, sizeof *named);
  ran.outputs = weft_calloc((size_t)g->num_outputs + 1, sizeof *ran.outputs);
  ran.num_outputs = g->num_outputs;
  if (named == NULL || ran.outputs == NULL) s = WEFT_NO_MEMORY("a call");
  if (s == NULL) s = fill_feeds(g, feeds, num_feeds, id, named, &id_tensor, &num_named);
  if (s == NULL) {
    const weft_run_step_t r = {.session = weft_str(closure->parts[w->index].session),
                               .feeds = named,
                               .num_feeds = num_named,
                               .fetches = g->outputs,
                               .num_fetches = g->num_outputs,
                               .targets = g->targets,
                               .num_targets = g->num_targets,
                               .request_id = (int64_t)weft_random_id()};
    w->master->ops->run_step(w->master, &r, canceller, got_fetches, &ran);
    s = ran.status;
  }
  weft_tensor_release(id_tensor);
  weft_free(named);
  if (s != NULL) {
    weft_free(ran.outputs);
    return s;
  }
  *out = ran.outputs;
  *num_out = ran.num_outputs;
  return NULL;
}
