/* graph/lower_body.c - the parts from which calls, conditionals and loops are lowered. */
#include "base/alloc.h"
#include "graph/lower.h"
#include "graph/node_build.h"

void weft_lower_put_name(const weft_lowering_t *l, const weft_node_t *site, weft_strbuf_t *out) {
  if (l->scope.length > 0 && site->id < l->first_new_id)
    weft_strbuf_printf(out, "%.*s/", WEFT_STR_ARGS(l->scope));
  weft_strbuf_append(out, site->name);
}

weft_status_t *weft_lower_add(weft_lowering_t *l, const weft_node_t *site, const char *name, const char *op,
                              const weft_node_t *near, const weft_output_t *inputs, int num_inputs,
                              weft_node_t *const *controls, int num_controls, const weft_named_attr_t *attrs,
                              int num_attrs, weft_node_t **out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  /* TensorFlow numbers such nodes likewise, so that no name that a client makes later is taken. */
  weft_lower_put_name(l, site, &text);
  weft_strbuf_printf(&text, "/%s/_%d", name, l->g->num_nodes);
  weft_str_t unique = {NULL, 0};
  if (!text.failed) unique = weft_graph_unique_name(l->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (unique.data == NULL) return WEFT_NO_MEMORY("lowering node '%s'", site->name.data);
  const weft_node_spec_t spec = {.name = unique,
                                 .op = weft_str(op),
                                 .device = near != NULL ? near->requested_device : site->requested_device,
                                 .inputs = inputs,
                                 .num_inputs = num_inputs,
                                 .controls = controls,
                                 .num_controls = num_controls,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  return weft_graph_add(l->g, &spec, out);
}

weft_status_t *weft_lower_add1(weft_lowering_t *l, const weft_node_t *site, const char *name, const char *op,
                               weft_output_t input, weft_node_t *control, weft_node_t **out) {
  return weft_lower_add(l, site, name, op, input.node, &input, 1, &control, control != NULL, NULL, 0, out);
}

weft_status_t *weft_lower_add_noop(weft_lowering_t *l, const weft_node_t *site, const char *name,
                                   weft_node_t *const *controls, int num_controls, weft_node_t **out) {
  return weft_lower_add(l, site, name, "NoOp", NULL, NULL, 0, controls, num_controls, NULL, 0, out);
}

weft_status_t *weft_lower_to_bool(weft_lowering_t *l, const weft_node_t *site, weft_output_t value,
                                  weft_output_t *out) {
  *out = value;
  if (weft_dtype_base(value.node->output_types[value.index]) == WEFT_BOOL) return NULL;
  weft_node_t *truth = NULL;
  WEFT_RETURN_IF_ERROR(
      weft_lower_add(l, site, "to_bool", "ToBool", value.node, &value, 1, NULL, 0, NULL, 0, &truth));
  *out = (weft_output_t){truth, 0};
  return NULL;
}

weft_status_t *weft_lower_func_attr(const weft_node_t *n, const char *name, const weft_func_attr_t **out) {
  const weft_attr_t *a = weft_node_attr(n, name);
  if (a == NULL || a->kind != WEFT_ATTR_FUNC || a->is_list) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s' has no function in attr '%s'", n->name.data, name);
  }
  *out = a->func;
  return NULL;
}

/* ---- bodies ---- */

static weft_status_t *reserve(weft_lowering_t *l) {
  if (l->g->num_nodes <= l->capacity) return NULL;
  int capacity = l->g->num_nodes + l->g->num_nodes / 2;
  const weft_call_chain_t **chains = weft_realloc(l->chains, (size_t)capacity, sizeof(*chains));
  if (chains != NULL) l->chains = chains;
  weft_node_t **done = weft_realloc(l->done, (size_t)capacity, sizeof(*done));
  if (done != NULL) l->done = done;
  if (chains == NULL || done == NULL) return WEFT_NO_MEMORY("lowering %d nodes", l->g->num_nodes);
  memset(chains + l->capacity, 0, (size_t)(capacity - l->capacity) * sizeof(*chains));
  memset(done + l->capacity, 0, (size_t)(capacity - l->capacity) * sizeof(*done));
  l->capacity = capacity;
  return NULL;
}

/* The chain for nodes of `f` called at `site`. */
static weft_status_t *extend_chain(weft_lowering_t *l, const weft_node_t *site, const weft_function_t *f,
                                   const weft_call_chain_t **out) {
  const weft_call_chain_t *outer = site->id < l->capacity ? l->chains[site->id] : NULL;
  int depth = 0;
  for (const weft_call_chain_t *c = outer; c != NULL; c = c->outer) {
    if (c->function == f) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Node '%s': function '%s' calls itself; recursive functions are not supported",
                        site->name.data, f->name.data);
    }
    depth++;
  }
  if (depth >= WEFT_LOWER_DEPTH) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Function '%s' is called within %d functions; they can be nested %d deep (at node '%.100s...')",
        f->name.data, depth, WEFT_LOWER_DEPTH, site->name.data);
  }
  weft_call_chain_t *chain = weft_arena_alloc(l->g->arena, sizeof *chain);
  if (chain == NULL) return WEFT_NO_MEMORY("lowering node '%s'", site->name.data);
  *chain = (weft_call_chain_t){f, outer};
  *out = chain;
  return NULL;
}

/* Results appear only after the effects; one that is the caller's own argument, only where the body is alive.
 */
static weft_status_t *gate_results(weft_lowering_t *l, const weft_node_t *site, int first_id,
                                   weft_node_t *gate, weft_body_t *body) {
  for (int i = 0; i < body->num_results; i++) {
    weft_output_t *r = &body->results[i];
    weft_node_t *control = body->effects != NULL ? body->effects : gate;
    if (body->effects == NULL && (gate == NULL || r->node->id >= first_id)) continue;
    weft_node_t *identity = NULL;
    WEFT_RETURN_IF_ERROR(weft_lower_add1(l, site, "output", "Identity", *r, control, &identity));
    *r = (weft_output_t){identity, 0};
  }
  return NULL;
}

static weft_status_t *add_done(weft_lowering_t *l, const weft_node_t *site, weft_node_t *gate,
                               weft_body_t *body) {
  weft_node_t **controls = weft_calloc((size_t)body->num_results + 2, sizeof(*controls));
  if (controls == NULL) return WEFT_NO_MEMORY("lowering node '%s'", site->name.data);
  int n = 0;
  for (int i = 0; i < body->num_results; i++) controls[n++] = body->results[i].node;
  if (body->effects != NULL) controls[n++] = body->effects;
  if (gate != NULL) controls[n++] = gate;
  weft_status_t *s = weft_lower_add_noop(l, site, "done", controls, n, &body->done);
  weft_free(controls);
  return s;
}

weft_status_t *weft_lower_body(weft_lowering_t *l, const weft_node_t *site, const weft_func_attr_t *func,
                               const char *infix, const weft_output_t *args, int num_args, weft_node_t *gate,
                               weft_body_t *out) {
  weft_graph_t *g = l->g;
  weft_inline_spec_t spec = {.function = weft_function_find(g->library, func->name),
                             .attrs = func->attrs,
                             .num_attrs = func->num_attrs,
                             .device = site->requested_device,
                             .args = args,
                             .num_args = num_args,
                             .gate = gate,
                             .name_bytes = &l->name_bytes};
  if (spec.function == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': Failed to find function \"%s\" in function library",
                      site->name.data, func->name.data);
  }
  const weft_call_chain_t *chain = NULL;
  WEFT_RETURN_IF_ERROR(extend_chain(l, site, spec.function, &chain));
  weft_strbuf_t prefix = WEFT_STRBUF_INIT;
  weft_lower_put_name(l, site, &prefix);
  if (infix[0] != '\0') weft_strbuf_printf(&prefix, "/%s", infix);
  weft_inlined_t inlined;
  int first_id = g->num_nodes;
  spec.prefix = weft_str_of(prefix.data, prefix.length);
  weft_status_t *s =
      prefix.failed ? WEFT_NO_MEMORY("lowering node '%s'", site->name.data) : weft_inline(g, &spec, &inlined);
  weft_strbuf_deinit(&prefix);
  if (s != NULL) return s;
  if (g->num_nodes - l->first_new_id > WEFT_LOWER_NODES) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "Node '%s': calls of functions unfold to more than %d nodes",
                      site->name.data, WEFT_LOWER_NODES);
  }
  WEFT_RETURN_IF_ERROR(reserve(l));
  for (int i = 0; i < inlined.num_body; i++) l->chains[inlined.body[i]->id] = chain;
  weft_body_t body = {.results = inlined.results, .num_results = inlined.num_results};
  if (inlined.num_must_run > 0) {
    WEFT_RETURN_IF_ERROR(
        weft_lower_add_noop(l, site, "effects", inlined.must_run, inlined.num_must_run, &body.effects));
  }
  WEFT_RETURN_IF_ERROR(gate_results(l, site, first_id, gate, &body));
  WEFT_RETURN_IF_ERROR(add_done(l, site, gate, &body));
  *out = body;
  return NULL;
}

/* ---- the name that stays ---- */

static weft_status_t *become(weft_lowering_t *l, weft_node_t *n, const char *op, const weft_output_t *inputs,
                             int num_inputs) {
  weft_node_drop_attrs(n);
  n->op = weft_op_find(weft_str(op));
  if (n->op == NULL) return WEFT_ERROR(INTERNAL, "there is no op '%s'", op);
  n->function = NULL;
  n->flags = n->op->flags;
  weft_graph_clear_controls(l->g, n);
  weft_named_attr_t types = {
      WEFT_STR("T"),
      {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = num_inputs, .list.types = n->output_types}};
  WEFT_RETURN_IF_ERROR(weft_node_set_attrs(l->g, n, &types, num_inputs > 0, WEFT_WORDS_CLIENT));
  WEFT_RETURN_IF_ERROR(weft_node_set_types(l->g, n, num_inputs));
  for (int i = 0; i < num_inputs; i++) WEFT_RETURN_IF_ERROR(weft_node_connect(l->g, n, i, inputs[i]));
  return NULL;
}

weft_status_t *weft_lower_finish(weft_lowering_t *l, weft_node_t *n, const weft_output_t *results,
                                 int num_results, weft_node_t *done) {
  if (num_results != n->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Node '%s': its function returns %d results, but the op '%s' has %d outputs",
                      n->name.data, num_results, n->op->name.data, n->num_outputs);
  }
  for (int i = 0; i < num_results; i++) {
    int given = results[i].node->output_types[results[i].index];
    if (weft_types_fit(given, n->output_types[i])) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Node '%s': result %d of its function is of type %s, but %s is expected", n->name.data,
                      i, weft_dtype_name(given), weft_dtype_name(n->output_types[i]));
  }
  WEFT_RETURN_IF_ERROR(reserve(l));
  WEFT_RETURN_IF_ERROR(become(l, n, num_results > 0 ? "IdentityN" : "NoOp", results, num_results));
  l->done[n->id] = done;
  return weft_graph_add_control(l->g, done, n);
}
