/* client/while.c - TF_NewWhile, TF_FinishWhile: a loop out of two graphs.
 *
 *   input -> Enter -> Merge -> [condition] -> LoopCond
 *                       |                        |
 *                       +------> Switch <--------+
 *             false: Exit -> output     true: [body] -> NextIteration -> Merge
 *
 * Condition and body are imported into the graph with their placeholders mapped to
 * the Merges and to the Switches' true sides. Nodes of theirs without inputs wait
 * for these, so that they belong to the loop's frame.
 */
#include "base/alloc.h"
#include "client/import.h"
#include "client/status.h"

/* The rest of what TF_WhileParams stands for. */
typedef struct weft_client_loop {
  TF_Graph *parent;                                             /* borrowed: must outlive the loop's making */
  TF_Output *inputs, *cond_inputs, *body_inputs, *body_outputs; /* n of each; owned */
} loop_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a loop"); }

static void free_loop(loop_t *l) {
  if (l == NULL) return;
  weft_free(l->inputs);
  weft_free(l->cond_inputs);
  weft_free(l->body_inputs);
  weft_free(l->body_outputs);
  weft_free(l);
}

static void free_params(const TF_WhileParams *params) {
  if (params->cond_graph != NULL) free_loop(params->cond_graph->loop);
  TF_DeleteGraph(params->cond_graph);
  TF_DeleteGraph(params->body_graph);
}

/* ---- starting ---- */

static weft_status_t *add_placeholder(TF_Graph *g, const char *stem, int i, TF_Output like, TF_Output *out)
    WEFT_REQUIRES(g->mu) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%s%d", stem, i);
  int type = (int)weft_dtype_base(like.oper->node->output_types[like.index]);
  const weft_named_attr_t attr = {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = type}};
  const weft_node_spec_t spec = {.name = weft_str_of(name.data, name.length),
                                 .op = WEFT_STR("Placeholder"),
                                 .attrs = &attr,
                                 .num_attrs = 1};
  weft_node_t *n = NULL;
  weft_status_t *s = name.failed ? no_memory() : weft_graph_add(g->graph, &spec, &n);
  weft_strbuf_deinit(&name);
  if (s == NULL) s = weft_inference_add(g->inference, n);
  if (s == NULL) s = weft_client_graph_sync_locked(g);
  if (s == NULL && like.oper->node->output_shapes != NULL) {
    s = weft_client_set_shape_locked(g, (weft_output_t){n, 0}, &like.oper->node->output_shapes[like.index]);
  }
  if (s == NULL) *out = (TF_Output){weft_client_operation(g, n), 0};
  return s;
}

static weft_status_t *add_placeholders(TF_Graph *g, const char *stem, const TF_Output *inputs, int n,
                                       TF_Output *out) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&g->mu);
  for (int i = 0; i < n && s == NULL; i++) s = add_placeholder(g, stem, i, inputs[i], &out[i]);
  weft_mutex_unlock(&g->mu);
  return s;
}

static weft_status_t *check_inputs(const TF_Graph *g, const TF_Output *inputs, int n) {
  if (n <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
  for (int i = 0; i < n; i++) {
    const TF_Operation *o = inputs[i].oper;
    if (o != NULL && o->graph == g && inputs[i].index >= 0 && inputs[i].index < o->node->num_outputs)
      continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Loop input %d is not a tensor of the graph", i);
  }
  return NULL;
}

static loop_t *new_loop(TF_Graph *g, const TF_Output *inputs, size_t n) {
  loop_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return NULL;
  l->parent = g;
  l->inputs = weft_calloc(n, sizeof *l->inputs);
  l->cond_inputs = weft_calloc(n, sizeof *l->cond_inputs);
  l->body_inputs = weft_calloc(n, sizeof *l->body_inputs);
  l->body_outputs = weft_calloc(n, sizeof *l->body_outputs);
  if (l->inputs == NULL || l->cond_inputs == NULL || l->body_inputs == NULL || l->body_outputs == NULL) {
    free_loop(l);
    return NULL;
  }
  memcpy(l->inputs, inputs, n * sizeof *inputs);
  for (size_t i = 0; i < n; i++) l->body_outputs[i] = (TF_Output){NULL, -1};
  return l;
}

TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs, TF_Status *status) {
  const TF_WhileParams none = {0};
  TF_Graph *cond = NULL, *body = NULL;
  loop_t *l = NULL;
  weft_status_t *s = check_inputs(g, inputs, ninputs);
  if (s == NULL) {
    l = new_loop(g, inputs, (size_t)ninputs);
    cond = TF_NewGraph();
    body = TF_NewGraph();
    if (l == NULL || cond == NULL || body == NULL) s = no_memory();
  }
  if (s == NULL) s = add_placeholders(cond, "cond_input", inputs, ninputs, l->cond_inputs);
  if (s == NULL) s = add_placeholders(body, "body_input", inputs, ninputs, l->body_inputs);
  if (!weft_client_end(status, s)) {
    free_loop(l);
    TF_DeleteGraph(cond);
    TF_DeleteGraph(body);
    return none;
  }
  cond->loop = l;
  const TF_WhileParams params = {.ninputs = ninputs,
                                 .cond_graph = cond,
                                 .cond_inputs = l->cond_inputs,
                                 .cond_output = {NULL, -1},
                                 .body_graph = body,
                                 .body_inputs = l->body_inputs,
                                 .body_outputs = l->body_outputs};
  return params;
}

void TF_AbortWhile(const TF_WhileParams *params) { free_params(params); }

/* ---- finishing ---- */

typedef struct while_build {
  TF_Graph *g;
  const TF_WhileParams *params;
  const TF_Output *inputs;
  weft_arena_t arena;
  weft_node_t **enters, **merges, **switches; /* ninputs of each */
  weft_node_t *loop_cond;
  TF_Output *results;
} while_build_t;

static weft_status_t *add(while_build_t *b, const char *op, const weft_output_t *inputs, int n,
                          const weft_named_attr_t *attrs, int num_attrs, weft_node_t **out)
    WEFT_REQUIRES(b->g->mu) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s", b->params->name, op);
  weft_str_t name = text.failed ? (weft_str_t){NULL, 0}
                                : weft_graph_unique_name(b->g->graph, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (name.data == NULL) return no_memory();
  const weft_node_spec_t spec = {.name = name,
                                 .op = weft_str(op),
                                 .inputs = inputs,
                                 .num_inputs = n,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  return weft_graph_add(b->g->graph, &spec, out);
}

static weft_status_t *add_inferred(while_build_t *b, const char *op, const weft_output_t *inputs, int n,
                                   weft_node_t **out) WEFT_REQUIRES(b->g->mu) {
  WEFT_RETURN_IF_ERROR(add(b, op, inputs, n, NULL, 0, out));
  return weft_inference_add(b->g->inference, *out);
}

/* A Merge's second input is the NextIteration that does not exist yet: the Enter stands in for it. The
 * Merges' shapes are inferred before the Enters', so that nothing is said of variables that may change their
 * shapes. */
static weft_status_t *add_entries(while_build_t *b) WEFT_REQUIRES(b->g->mu) {
  const weft_named_attr_t frame = {WEFT_STR("frame_name"),
                                   {.kind = WEFT_ATTR_STRING, .s = weft_str(b->params->name)}};
  int n = b->params->ninputs;
  for (int i = 0; i < n; i++) {
    const weft_output_t input = weft_client_output(b->inputs[i]);
    WEFT_RETURN_IF_ERROR(add(b, "Enter", &input, 1, &frame, 1, &b->enters[i]));
  }
  for (int i = 0; i < n; i++) {
    const weft_output_t twice[2] = {{b->enters[i], 0}, {b->enters[i], 0}};
    WEFT_RETURN_IF_ERROR(add_inferred(b, "Merge", twice, 2, &b->merges[i]));
  }
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_inference_add(b->g->inference, b->enters[i]));
  return NULL;
}

/* Imports one of the two graphs; results[i] is where outputs[i] is now. */
static weft_status_t *import_part(while_build_t *b, const char *infix, weft_str_t graph_def,
                                  const TF_Output *placeholders, weft_node_t *const *sources,
                                  int source_index, const TF_Output *outputs, int num_outputs,
                                  TF_Output *results) WEFT_REQUIRES(b->g->mu) {
  int n = b->params->ninputs;
  weft_client_mapping_t *mappings = weft_arena_calloc(&b->arena, (size_t)n, sizeof *mappings);
  weft_client_key_t *keys = weft_arena_calloc(&b->arena, (size_t)num_outputs, sizeof *keys);
  weft_strbuf_t prefix = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&prefix, "%s/%s", b->params->name, infix);
  if (mappings == NULL || keys == NULL || prefix.failed) {
    weft_strbuf_deinit(&prefix);
    return no_memory();
  }
  for (int i = 0; i < n; i++) {
    TF_Output to = {weft_client_operation(b->g, sources[i]), source_index};
    mappings[i] = (weft_client_mapping_t){{placeholders[i].oper->node->name, 0}, to};
  }
  for (int i = 0; i < num_outputs; i++)
    keys[i] = (weft_client_key_t){outputs[i].oper->node->name, outputs[i].index};
  TF_Operation *control = mappings[0].to.oper;
  const TF_ImportGraphDefOptions options = {.prefix = weft_str_of(prefix.data, prefix.length),
                                            .device = WEFT_STR(""),
                                            .skip_mapped_placeholders = true,
                                            .mappings = {mappings, n, n},
                                            .controls = {&control, 1, 1},
                                            .return_outputs = {keys, num_outputs, num_outputs}};
  TF_ImportGraphDefResults r = {.num_outputs = 0};
  weft_status_t *s = weft_client_import_locked(b->g, graph_def, &options, &r);
  for (int i = 0; i < r.num_outputs && s == NULL; i++) results[i] = r.outputs[i];
  weft_arena_deinit(&r.arena);
  weft_strbuf_deinit(&prefix);
  return s;
}

static weft_status_t *add_next(while_build_t *b, int i, TF_Output body_output) WEFT_REQUIRES(b->g->mu) {
  weft_node_t *next = NULL;
  const weft_output_t value = weft_client_output(body_output);
  int is = value.node->output_types[value.index], wanted = b->merges[i]->output_types[0];
  if (weft_dtype_base(is) != weft_dtype_base(wanted)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "body_outputs[%d] is of type %s, but the loop's input %d of type %s",
                      i, weft_dtype_name(is), i, weft_dtype_name(wanted));
  }
  WEFT_RETURN_IF_ERROR(add_inferred(b, "NextIteration", &value, 1, &next));
  WEFT_RETURN_IF_ERROR(weft_client_graph_sync_locked(b->g));
  TF_Operation *merge = weft_client_operation(b->g, b->merges[i]),
               *enter = weft_client_operation(b->g, b->enters[i]);
  WEFT_RETURN_IF_ERROR(weft_client_edge_add_locked(b->g, weft_client_operation(b->g, next), merge, 0, 1));
  weft_graph_set_input(b->merges[i], 1, (weft_output_t){next, 0});
  weft_client_edge_remove_locked(b->g, enter, merge, 0, 1);
  return NULL;
}

static weft_status_t *close_loop(while_build_t *b, const TF_Output *body_outputs) WEFT_REQUIRES(b->g->mu) {
  for (int i = 0; i < b->params->ninputs; i++) WEFT_RETURN_IF_ERROR(add_next(b, i, body_outputs[i]));
  for (int i = 0; i < b->params->ninputs; i++) {
    weft_node_t *leave = NULL;
    const weft_output_t out = {b->switches[i], 0};
    WEFT_RETURN_IF_ERROR(add_inferred(b, "Exit", &out, 1, &leave));
    WEFT_RETURN_IF_ERROR(weft_client_graph_sync_locked(b->g));
    b->results[i] = (TF_Output){weft_client_operation(b->g, leave), 0};
  }
  return NULL;
}

static weft_status_t *run(while_build_t *b, weft_str_t cond, weft_str_t body) WEFT_REQUIRES(b->g->mu) {
  int n = b->params->ninputs;
  b->enters = weft_arena_calloc(&b->arena, (size_t)n, sizeof(*b->enters));
  b->merges = weft_arena_calloc(&b->arena, (size_t)n, sizeof(*b->merges));
  b->switches = weft_arena_calloc(&b->arena, (size_t)n, sizeof(*b->switches));
  b->results = weft_arena_calloc(&b->arena, (size_t)n, sizeof *b->results);
  TF_Output *body_outputs = weft_arena_calloc(&b->arena, (size_t)n, sizeof *body_outputs),
            cond_output = {NULL, 0};
  if (b->enters == NULL || b->merges == NULL || b->switches == NULL || b->results == NULL ||
      body_outputs == NULL) {
    return no_memory();
  }
  WEFT_RETURN_IF_ERROR(add_entries(b));
  WEFT_RETURN_IF_ERROR(weft_client_graph_sync_locked(b->g));
  WEFT_RETURN_IF_ERROR(import_part(b, "cond", cond, b->params->cond_inputs, b->merges, 0,
                                   &b->params->cond_output, 1, &cond_output));
  const weft_output_t condition = weft_client_output(cond_output);
  if (weft_dtype_base(condition.node->output_types[condition.index]) != WEFT_BOOL) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "BuildWhileLoop: 'cond' argument must return a boolean output, got %s",
                      weft_dtype_name(condition.node->output_types[condition.index]));
  }
  WEFT_RETURN_IF_ERROR(add_inferred(b, "LoopCond", &condition, 1, &b->loop_cond));
  for (int i = 0; i < n; i++) {
    const weft_output_t in[2] = {{b->merges[i], 0}, {b->loop_cond, 0}};
    WEFT_RETURN_IF_ERROR(add_inferred(b, "Switch", in, 2, &b->switches[i]));
  }
  WEFT_RETURN_IF_ERROR(weft_client_graph_sync_locked(b->g));
  WEFT_RETURN_IF_ERROR(import_part(b, "body", body, b->params->body_inputs, b->switches, 1,
                                   b->params->body_outputs, n, body_outputs));
  return close_loop(b, body_outputs);
}

static weft_status_t *check_params(const TF_WhileParams *p) {
  if (p->cond_graph == NULL || p->body_graph == NULL || p->cond_graph->loop == NULL ||
      p->cond_inputs == NULL || p->body_inputs == NULL || p->body_outputs == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TF_WhileParams is not what TF_NewWhile returned");
  }
  if (p->cond_output.oper == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "TF_WhileParams `cond_output` field isn't set");
  for (int i = 0; i < p->ninputs; i++) {
    if (p->body_outputs[i].oper == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "TF_WhileParams `body_outputs[%d]` field isn't set", i);
    }
  }
  return p->name == NULL ? WEFT_ERROR(INVALID_ARGUMENT, "TF_WhileParams `name` field is null") : NULL;
}

static weft_status_t *export(TF_Graph *g, weft_strbuf_t *out) {
  weft_mutex_lock(&g->mu);
  weft_status_t *s = weft_client_export_locked(g, 0, out);
  weft_mutex_unlock(&g->mu);
  return s;
}

void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status, TF_Output *outputs) {
  weft_strbuf_t cond = WEFT_STRBUF_INIT, body = WEFT_STRBUF_INIT;
  weft_status_t *s = check_params(params);
  if (s == NULL) s = export(params->cond_graph, &cond);
  if (s == NULL) s = export(params->body_graph, &body);
  if (s == NULL) {
    const loop_t *l = params->cond_graph->loop;
    TF_Graph *g = l->parent;
    while_build_t b = {.g = g, .params = params, .inputs = l->inputs};
    weft_mutex_lock(&b.g->mu);
    s = run(&b, weft_str_of(cond.data, cond.length), weft_str_of(body.data, body.length));
    weft_status_t *synced = weft_client_graph_sync_locked(b.g);
    weft_mutex_unlock(&b.g->mu);
    s = weft_status_join(s, synced);
    if (s == NULL) memcpy(outputs, b.results, (size_t)params->ninputs * sizeof *outputs);
    weft_arena_deinit(&b.arena);
  }
  weft_strbuf_deinit(&cond);
  weft_strbuf_deinit(&body);
  free_params(params);
  weft_client_end(status, s);
}
