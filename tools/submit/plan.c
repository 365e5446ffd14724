/* tools/submit/plan.c - names to outputs and operations, lane by lane. */
#include "tools/submit/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "tools/c_api.h"
#include "tools/strategy/cluster_view.h"
#include "tools/strategy/container.h"
#include "tools/strategy/rewrite_file.h"
#include "tools/submit/names.h"

enum { MAX_LOCAL_CPUS = 1 << 10 };

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a job's plan"); }

static weft_status_t *make_lane(weft_run_lane_t *l, int feeds, int fetches, int targets) {
  l->feeds = weft_calloc((size_t)feeds + 1, sizeof *l->feeds);
  l->fetches = weft_calloc((size_t)fetches + 1, sizeof *l->fetches);
  l->targets = weft_calloc((size_t)targets + 1, sizeof(TF_Operation *));
  l->num_feeds = feeds;
  l->num_fetches = fetches;
  l->num_targets = targets;
  return l->feeds == NULL || l->fetches == NULL || l->targets == NULL ? no_memory() : NULL;
}

static weft_status_t *make_plan(weft_run_plan_t *p, int lanes, int inits) {
  *p = (weft_run_plan_t){0};
  p->lanes = weft_calloc((size_t)lanes + 1, sizeof *p->lanes);
  p->inits = weft_calloc((size_t)inits + 1, sizeof(TF_Operation *));
  p->init_names = weft_calloc((size_t)inits + 1, sizeof(char *));
  if (p->lanes == NULL || p->inits == NULL || p->init_names == NULL) return no_memory();
  p->num_lanes = lanes;
  p->num_inits = inits;
  return NULL;
}

void weft_run_plan_deinit(weft_run_plan_t *p) {
  for (int i = 0; i < p->num_lanes; i++) {
    weft_free(p->lanes[i].feeds);
    weft_free(p->lanes[i].fetches);
    weft_free(p->lanes[i].targets);
  }
  weft_free(p->lanes);
  weft_free(p->inits);
  weft_free(p->init_names);
  *p = (weft_run_plan_t){0};
}

weft_status_t *weft_run_plan_plain(const weft_job_spec_t *spec, const weft_plan_source_t *from, weft_run_plan_t *out) {
  WEFT_RETURN_IF_ERROR(make_plan(out, 1, from->num_inits));
  weft_run_lane_t *l = &out->lanes[0];
  WEFT_RETURN_IF_ERROR(make_lane(l, from->num_feeds, from->num_fetches, from->num_targets));
  for (int i = 0; i < l->num_feeds; i++) l->feeds[i] = from->feeds[i];
  for (int i = 0; i < l->num_fetches; i++) l->fetches[i] = from->fetches[i];
  for (int i = 0; i < l->num_targets; i++) l->targets[i] = from->targets[i];
  for (int i = 0; i < out->num_inits; i++) {
    out->inits[i] = from->inits[i];
    out->init_names[i] = spec->inits.items[i];
  }
  out->graph = from->graph;
  return NULL;
}

/* ---- under a strategy ---- */

static weft_status_t *ask_for_devices(const char *master, weft_view_t *view) {
  if (master == NULL) return weft_view_local(view, MAX_LOCAL_CPUS);
  TF_Status *status = TF_NewStatus();
  TF_Graph *nothing = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, master);
  TF_Session *session = TF_NewSession(nothing, options, status);
  weft_status_t *s = weft_c_api_status(status);
  TF_DeviceList *devices = s == NULL ? TF_SessionListDevices(session, status) : NULL;
  if (s == NULL) s = weft_c_api_status(status);
  for (int i = 0; s == NULL && i < TF_DeviceListCount(devices); i++) {
    s = weft_view_add_device(view, weft_str(TF_DeviceListName(devices, i, status)));
  }
  TF_DeleteDeviceList(devices);
  if (session != NULL) TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(nothing);
  TF_DeleteStatus(status);
  return s;
}

static weft_status_t *import(const weft_graph_t *from, TF_Graph *to) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_graph_export(from, false, &bytes);
  if (s == NULL) {
    TF_Status *status = TF_NewStatus();
    TF_Buffer *buffer = TF_NewBufferFromString(bytes.data == NULL ? "" : bytes.data, bytes.length);
    TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(to, buffer, options, status);
    s = weft_c_api_status(status);
    TF_DeleteImportGraphDefOptions(options);
    TF_DeleteBuffer(buffer);
    TF_DeleteStatus(status);
  }
  weft_strbuf_deinit(&bytes);
  return s;
}

static weft_status_t *find_lane(TF_Graph *graph, const weft_lane_t *from, weft_run_lane_t *to) {
  WEFT_RETURN_IF_ERROR(make_lane(to, from->feeds.n, from->fetches.n, from->targets.n));
  to->is_update = from->kind == WEFT_LANE_UPDATE;
  for (int i = 0; i < from->feeds.n; i++) WEFT_RETURN_IF_ERROR(weft_find_output(graph, "the strategy's feed", from->feeds.items[i], &to->feeds[i]));
  for (int i = 0; i < from->fetches.n; i++) WEFT_RETURN_IF_ERROR(weft_find_output(graph, "the strategy's fetch", from->fetches.items[i], &to->fetches[i]));
  for (int i = 0; i < from->targets.n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_find_node(graph, "the strategy's target", from->targets.items[i], &op));
    to->targets[i] = op;
  }
  return NULL;
}

static weft_status_t *find_lanes(const weft_job_spec_t *spec, const weft_rewrite_t *r, TF_Graph *graph, weft_run_plan_t *out) {
  WEFT_RETURN_IF_ERROR(make_plan(out, r->num_lanes, r->inits.n));
  out->graph = graph;
  out->in_step = r->in_step;
  out->lanes_wait = r->lanes_wait;
  out->is_follower = r->is_follower;
  out->round_steps = r->round_steps;
  out->num_local_cpus = spec->master == NULL ? r->num_local_cpus : 0;
  out->collective_graph_key = r->collective_graph_key;
  if (spec->container != NULL && r->collective_graph_key != 0) { /* clients of two jobs do not meet */
    out->collective_graph_key = (int64_t)(((uint64_t)r->collective_graph_key ^ weft_str_hash64(weft_str(spec->container))) >> 2) + 1;
  }
  for (int i = 0; i < r->inits.n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_find_node(graph, "--init", r->inits.items[i], &op));
    out->inits[i] = op;
    out->init_names[i] = TF_OperationName(op);
  }
  for (int i = 0; i < r->num_lanes; i++) WEFT_RETURN_IF_ERROR(find_lane(graph, &r->lanes[i], &out->lanes[i]));
  return NULL;
}

weft_status_t *weft_run_plan_rewritten(const weft_job_spec_t *spec, const weft_feeds_t *feeds, weft_str_t graph_def,
                                       uint64_t agreement, weft_run_plan_t *out, TF_Graph **out_graph) {
  bool *is_batch = weft_calloc((size_t)feeds->n + 1, sizeof *is_batch);
  if (is_batch == NULL) return no_memory();
  for (int i = 0; i < feeds->n; i++) is_batch[i] = weft_feed_is_cut(feeds, &feeds->feeds[i]);
  weft_view_t view;
  weft_rewrite_t rewrite = {.arena = WEFT_ARENA_INIT};
  weft_run_names_t names = {.feeds = &spec->feeds, .is_batch = is_batch, .fetches = &spec->fetches, .more_fetches = &spec->saves,
                            .targets = &spec->targets, .inits = &spec->inits, .marks_variables = weft_saving_is_used(&spec->saving),
                            .is_one_session = true, .agreement = agreement};
  *out = (weft_run_plan_t){0};
  *out_graph = TF_NewGraph();
  weft_view_init(&view);
  weft_status_t *s = ask_for_devices(spec->master, &view);
  if (s == NULL) s = weft_rewrite_graph_def(graph_def, spec->strategy, &view.cluster, &names, &rewrite);
  if (s != NULL) s = weft_status_annotate(s, "with --strategy %s", spec->strategy);
  if (s == NULL && spec->container != NULL) s = weft_container_set(rewrite.graph, weft_str(spec->container));
  if (s == NULL) s = import(rewrite.graph, *out_graph);
  if (s == NULL) s = find_lanes(spec, &rewrite, *out_graph, out);
  weft_rewrite_deinit(&rewrite);
  weft_view_deinit(&view);
  weft_free(is_batch);
  return s;
}
