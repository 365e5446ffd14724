/* jobs/plan.c - names to outputs and operations, loop by loop. */
#include "jobs/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "jobs/c_api.h"
#include "jobs/container.h"
#include "jobs/rewrite_graph.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a job's plan"); }

static weft_status_t *make_loop(weft_job_loop_t *l, int feeds, int fetches, int targets) {
  l->feeds = weft_calloc((size_t)feeds + 1, sizeof *l->feeds);
  l->fetches = weft_calloc((size_t)fetches + 1, sizeof *l->fetches);
  l->targets = weft_calloc((size_t)targets + 1, sizeof(TF_Operation *));
  l->num_feeds = feeds;
  l->num_fetches = fetches;
  l->num_targets = targets;
  return l->feeds == NULL || l->fetches == NULL || l->targets == NULL ? no_memory() : NULL;
}

static weft_status_t *make_plan(weft_job_plan_t *p, int loops, int inits) {
  *p = (weft_job_plan_t){0};
  p->loops = weft_calloc((size_t)loops + 1, sizeof *p->loops);
  p->inits = weft_calloc((size_t)inits + 1, sizeof(TF_Operation *));
  p->init_names = weft_calloc((size_t)inits + 1, sizeof(char *));
  if (p->loops == NULL || p->inits == NULL || p->init_names == NULL) return no_memory();
  p->num_loops = loops;
  p->num_inits = inits;
  return NULL;
}

void weft_job_plan_deinit(weft_job_plan_t *p) {
  for (int i = 0; i < p->num_loops; i++) {
    weft_free(p->loops[i].name);
    weft_free(p->loops[i].feeds);
    weft_free(p->loops[i].fetches);
    weft_free(p->loops[i].targets);
  }
  weft_free(p->loops);
  weft_free(p->inits);
  weft_free(p->init_names);
  *p = (weft_job_plan_t){0};
}

weft_status_t *weft_job_plan_plain(const weft_job_plan_source_t *from, weft_job_plan_t *out) {
  WEFT_RETURN_IF_ERROR(make_plan(out, 1, from->inits->n));
  weft_job_loop_t *l = &out->loops[0];
  WEFT_RETURN_IF_ERROR(make_loop(l, from->inputs->n, from->fetches->n, from->targets->n));
  for (int i = 0; i < l->num_feeds; i++) l->feeds[i] = from->inputs->names.outputs[i];
  for (int i = 0; i < l->num_fetches; i++) l->fetches[i] = from->fetches->outputs[i];
  for (int i = 0; i < l->num_targets; i++) l->targets[i] = from->targets->outputs[i].oper;
  for (int i = 0; i < out->num_inits; i++) {
    out->inits[i] = from->inits->outputs[i].oper;
    out->init_names[i] = from->inits->names[i].data;
  }
  out->graph = from->graph;
  return NULL;
}

/* ---- under a strategy ---- */

static weft_status_t *import(const weft_graph_t *from, TF_Graph *to) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_graph_export(from, false, &bytes);
  if (s == NULL && bytes.failed) s = no_memory();
  if (s == NULL) s = weft_job_c_api_import(weft_str_of(bytes.data, bytes.length), to);
  weft_strbuf_deinit(&bytes);
  return s;
}

static weft_status_t *find_loop(const weft_job_plan_source_t *s, TF_Graph *graph,
                                const weft_worker_loop_t *from, weft_job_loop_t *to) {
  if (from->feeds.n > s->inputs->n) { /* without inputs a strategy takes it that all placeholders are fed */
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %.*s is missing: the graph has a placeholder of that name",
                      s->words->input, WEFT_STR_ARGS(from->feeds.items[s->inputs->n]));
  }
  WEFT_RETURN_IF_ERROR(make_loop(to, from->feeds.n, from->fetches.n, from->targets.n));
  to->is_update = from->kind == WEFT_WORKER_LOOP_UPDATE;
  to->name = weft_strndup(from->name.data == NULL ? "" : from->name.data, from->name.length);
  if (to->name == NULL) return no_memory();
  for (int i = 0; i < from->feeds.n; i++) {
    WEFT_RETURN_IF_ERROR(
        weft_job_find_output(graph, s->words, "the strategy's feed", from->feeds.items[i], &to->feeds[i]));
  }
  for (int i = 0; i < from->fetches.n; i++) {
    WEFT_RETURN_IF_ERROR(weft_job_find_output(graph, s->words, "the strategy's fetch", from->fetches.items[i],
                                              &to->fetches[i]));
  }
  for (int i = 0; i < from->targets.n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_job_find_node(graph, "the strategy's target", from->targets.items[i], &op));
    to->targets[i] = op;
  }
  if (from->leave.length == 0) return NULL;
  TF_Operation *leave = NULL;
  WEFT_RETURN_IF_ERROR(weft_job_find_node(graph, "the strategy's node", from->leave, &leave));
  to->leave = leave;
  return NULL;
}

static weft_status_t *find_loops(const weft_job_plan_source_t *from, const weft_rewrite_t *r, TF_Graph *graph,
                                 weft_job_plan_t *out) {
  WEFT_RETURN_IF_ERROR(make_plan(out, r->num_loops, r->inits.n));
  out->graph = graph;
  out->in_step = r->in_step;
  out->loops_wait = r->loops_wait;
  out->is_follower = r->is_follower;
  out->round_steps = r->round_steps;
  out->num_local_cpus = from->is_local ? r->num_local_cpus : 0;
  out->collective_graph_key = r->collective_graph_key;
  if (from->container != NULL && r->collective_graph_key != 0) { /* clients of two jobs do not meet */
    out->collective_graph_key =
        (int64_t)(((uint64_t)r->collective_graph_key ^ weft_str_hash64(weft_str(from->container))) >> 2) + 1;
  }
  for (int i = 0; i < r->inits.n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_job_find_node(graph, from->words->init, r->inits.items[i], &op));
    out->inits[i] = op;
    out->init_names[i] = TF_OperationName(op);
  }
  for (int i = 0; i < r->num_loops; i++)
    WEFT_RETURN_IF_ERROR(find_loop(from, graph, &r->loops[i], &out->loops[i]));
  return NULL;
}

static weft_names_t names_of(const weft_job_names_t *l) { return (weft_names_t){l->names, l->n}; }

weft_status_t *weft_job_plan_rewritten(const weft_job_plan_source_t *from, const weft_cluster_view_t *cluster,
                                       TF_Graph *graph, weft_job_plan_t *out) {
  const weft_job_inputs_t *inputs = from->inputs;
  weft_rewrite_t rewrite = {.arena = WEFT_ARENA_INIT};
  *out = (weft_job_plan_t){0};
  weft_str_t *batches = weft_calloc((size_t)inputs->n + 1, sizeof *batches);
  if (batches == NULL) return no_memory();
  weft_strategy_request_t request = {.cluster = cluster,
                                     .feeds = names_of(&inputs->names),
                                     .fetches = names_of(from->fetches),
                                     .targets = names_of(from->targets),
                                     .inits = names_of(from->inits),
                                     .is_one_session = true,
                                     .agreement = from->agreement};
  for (int i = 0; i < inputs->n; i++) {
    if (weft_job_input_is_batch(inputs, i)) batches[request.batches.n++] = inputs->names.names[i];
  }
  request.batches.items = batches;
  weft_status_t *s =
      weft_job_rewrite(from->graph_def, from->strategy, &request, from->marks_variables, &rewrite);
  if (s != NULL) s = weft_status_annotate(s, "with %s %s", from->words->strategy, from->strategy);
  if (s == NULL && from->container != NULL)
    s = weft_job_container_set(rewrite.graph, from->words->container, weft_str(from->container));
  if (s == NULL) s = import(rewrite.graph, graph);
  if (s == NULL) s = find_loops(from, &rewrite, graph, out);
  for (int i = 0; i < cluster->num_tasks; i++) out->is_soft |= cluster->tasks[i].num_accelerators > 0;
  weft_rewrite_deinit(&rewrite);
  weft_free(batches);
  return s;
}

int weft_job_num_sharing(const weft_job_plan_t *p) {
  if (p->in_step || p->num_loops == 0) return 1;
  for (int i = 0; i < p->num_loops; i++) {
    if (p->loops[i].is_update) return 1;
  }
  return p->num_loops;
}
