/* client/strategy/trace_once.c - a replica's function is called once, and its nodes are copied for the other
 * replicas.
 *
 * Between two merge calls lies a segment of new nodes. When a merge call comes (and
 * at the end) the segment is copied for every other replica, so that each has
 * arguments to merge; the merge's results become the copies' inputs from there on.
 * What a copy reads is: a copy, if there is one; the replica's own component, for a
 * variable's handle; its own part of an argument or a result; else the same node.
 */
#include "base/alloc.h"
#include "client/strategy/run.h"

typedef struct once {
  weft_replica_run_t run; /* first: contexts find us by it */
  WEFT_ReplicaContext context;
  weft_arena_t arena;
  int begin;           /* of the segment: the first node id */
  weft_map_t *outputs; /* by replica: (node id << 32 | index) -> weft_output_t * */
  weft_map_t *nodes;   /* by replica: node id -> weft_node_t * */
} once_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the replicas of a function"); }

static uint64_t key_of(weft_output_t o) { return (uint64_t)o.node->id << 32 | (uint32_t)o.index; }

static weft_status_t *stands_for(once_t *t, int replica, weft_output_t of, weft_output_t with) {
  weft_output_t *own = weft_arena_calloc(&t->arena, 1, sizeof *own);
  if (own == NULL) return no_memory();
  *own = with;
  return weft_map_put_u64(&t->outputs[replica], key_of(of), own, NULL);
}

static weft_output_t mapped(const once_t *t, int replica, weft_output_t o) {
  const weft_output_t *with = weft_map_get_u64(&t->outputs[replica], key_of(o));
  if (with != NULL) return *with;
  weft_node_t *copy = weft_map_get_u64(&t->nodes[replica], (uint64_t)o.node->id);
  return copy == NULL ? o : (weft_output_t){copy, o.index};
}

static weft_status_t *map_variables(once_t *t) {
  for (const WEFT_Variable *v = t->run.scope->variables; v != NULL; v = v->next) {
    for (int i = 1; i < v->num_components && v->kind != WEFT_VARIABLE_PARTS; i++) {
      weft_output_t of = weft_client_output(v->components[0].handle);
      WEFT_RETURN_IF_ERROR(stands_for(t, i, of, weft_client_output(v->components[i].handle)));
    }
  }
  return NULL;
}

/* ---- copying ---- */

static bool names_a_frame_or_queue(const weft_named_attr_t *a) {
  return a->value.kind == WEFT_ATTR_STRING && !a->value.is_list && a->value.s.length > 0 &&
         (weft_str_is(a->name, "frame_name") || weft_str_is(a->name, "shared_name"));
}

/* What two replicas must not share gets the replica's name: frames of loops, names of resources. */
static weft_status_t *copy_attrs(once_t *t, const weft_node_t *n, int replica, weft_named_attr_t **out) {
  *out = weft_arena_calloc(&t->arena, (size_t)n->num_attrs + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  for (int i = 0; i < n->num_attrs; i++) {
    (*out)[i] = n->attrs[i];
    if (!names_a_frame_or_queue(&n->attrs[i])) continue;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "replica_%d/%.*s", replica, WEFT_STR_ARGS(n->attrs[i].value.s));
    (*out)[i].value.s =
        text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&t->arena, weft_str_of(text.data, text.length));
    weft_strbuf_deinit(&text);
    if ((*out)[i].value.s.data == NULL) return no_memory();
  }
  return NULL;
}

static weft_status_t *copy_node(once_t *t, const weft_node_t *n, int replica) {
  weft_graph_t *g = t->run.graph->graph;
  const WEFT_Strategy *strategy = t->run.strategy;
  weft_output_t *inputs = weft_arena_calloc(&t->arena, (size_t)n->num_inputs + 1, sizeof *inputs);
  weft_node_t **controls = weft_arena_calloc(&t->arena, (size_t)n->num_controls + 1, sizeof(weft_node_t *)),
              *copy = NULL;
  weft_named_attr_t *attrs;
  if (inputs == NULL || controls == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(copy_attrs(t, n, replica, &attrs));
  for (int i = 0; i < n->num_inputs; i++) {
    bool is_back_edge = n->inputs[i].node->id >= n->id;
    inputs[i] =
        mapped(t, replica, is_back_edge ? n->inputs[0] : n->inputs[i]); /* back edges are set at the end */
  }
  for (int i = 0; i < n->num_controls; i++) {
    weft_node_t *of = weft_map_get_u64(&t->nodes[replica], (uint64_t)n->controls[i]->id);
    controls[i] = of == NULL ? n->controls[i] : of;
  }
  bool is_own_device = weft_str_eq(n->requested_device, strategy->devices[0]);
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "replica_%d/%.*s", replica, WEFT_STR_ARGS(n->name));
  weft_str_t unique =
      name.failed ? (weft_str_t){NULL, 0} : weft_graph_unique_name(g, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  if (unique.data == NULL) return no_memory();
  weft_node_spec_t spec = {.name = unique,
                           .op = n->op->name,
                           .device = is_own_device ? strategy->devices[replica] : n->requested_device,
                           .inputs = inputs,
                           .num_inputs = n->num_inputs,
                           .controls = controls,
                           .num_controls = n->num_controls,
                           .attrs = attrs,
                           .num_attrs = n->num_attrs};
  WEFT_RETURN_IF_ERROR(weft_graph_add(g, &spec, &copy));
  return weft_map_put_u64(&t->nodes[replica], (uint64_t)n->id, copy, NULL);
}

static void set_back_edges(once_t *t, const weft_node_t *n, int replica) {
  weft_node_t *copy = weft_map_get_u64(&t->nodes[replica], (uint64_t)n->id);
  for (int i = 0; i < n->num_inputs; i++) {
    if (n->inputs[i].node->id >= n->id) weft_graph_set_input(copy, i, mapped(t, replica, n->inputs[i]));
  }
}

static bool is_in_segment(const once_t *t, const weft_node_t *n) {
  return n != NULL && weft_map_get_u64(&t->run.scope->shared, (uint64_t)n->id + 1) == NULL;
}

static weft_status_t *copy_nodes(once_t *t, const weft_graph_t *g, int end) {
  for (int replica = 1; replica < t->run.strategy->num_replicas; replica++) {
    for (int id = t->begin; id < end; id++) {
      if (is_in_segment(t, g->nodes[id])) WEFT_RETURN_IF_ERROR(copy_node(t, g->nodes[id], replica));
    }
    for (int id = t->begin; id < end; id++) {
      if (is_in_segment(t, g->nodes[id])) set_back_edges(t, g->nodes[id], replica);
    }
  }
  return NULL;
}

/* Copies what the function has added since the segment began. */
static weft_status_t *end_segment(once_t *t) {
  weft_adding_t b;
  weft_status_t *s = map_variables(t);
  if (s != NULL) return s;
  weft_adding_begin(&b, t->run.graph, WEFT_STR(""));
  s = copy_nodes(t, t->run.graph->graph, b.first_id);
  weft_status_t *ended = weft_adding_end(&b);
  if (s == NULL) return ended;
  weft_status_free(ended);
  return s;
}

static void begin_segment(once_t *t) {
  weft_mutex_lock(&t->run.graph->mu);
  t->begin = t->run.graph->graph->num_nodes;
  weft_mutex_unlock(&t->run.graph->mu);
}

/* A name of its own for each replica's tensor, so that two of replica 0 that are one node stay apart; out[0]
 * is replica 0's. */
static weft_status_t *name_apart(once_t *t, const TF_Output *tensors, TF_Output *out) {
  weft_adding_t b;
  int n = t->run.strategy->num_replicas;
  weft_output_t *made = weft_arena_calloc(&t->arena, (size_t)n, sizeof *made);
  if (made == NULL) return no_memory();
  weft_adding_begin(&b, t->run.graph, WEFT_STR(""));
  for (int i = 0; i < n; i++) {
    b.e.device = t->run.strategy->devices[i];
    made[i] = weft_emit1(&b.e, "Identity", weft_client_output(tensors[i]), "replica_%d/value", i);
  }
  WEFT_RETURN_IF_ERROR(weft_adding_end(&b));
  for (int i = 1; i < n; i++) WEFT_RETURN_IF_ERROR(stands_for(t, i, made[0], made[i]));
  *out = weft_adding_output(&b, made[0]);
  return NULL;
}

/* ---- the parts of a run ---- */

static TF_Output tensor_of(const once_t *t, int replica, TF_Output o) WEFT_TSA(no_thread_safety_analysis) {
  weft_output_t with = replica == 0 ? weft_client_output(o) : mapped(t, replica, weft_client_output(o));
  return (TF_Output){weft_client_operation(t->run.graph, with.node), with.index};
}

static weft_status_t *merge(WEFT_ReplicaContext *c, weft_merge_fn *fn, void *user, const TF_Output *args,
                            int num_args, TF_Output *results, int num_results, TF_Operation **out_op) {
  once_t *t = (once_t *)c->run;
  int n = t->run.strategy->num_replicas;
  TF_Output *in = weft_arena_calloc(&t->arena, (size_t)num_args * (size_t)n + 1, sizeof *in);
  TF_Output *out = weft_arena_calloc(&t->arena, (size_t)num_results * (size_t)n + 1, sizeof *out);
  if (in == NULL || out == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(end_segment(t));
  for (int k = 0; k < num_args; k++) {
    for (int i = 0; i < n; i++) in[k * n + i] = tensor_of(t, i, args[k]);
  }
  weft_status_t *s = weft_call_merge(&t->run, fn, user, in, num_args, out, num_results, out_op);
  for (int k = 0; s == NULL && k < num_results; k++) s = name_apart(t, &out[k * n], &results[k]);
  begin_segment(t);
  return s;
}

static weft_status_t *make_args(once_t *t, WEFT_Value **args) {
  int n = t->run.strategy->num_replicas;
  TF_Output *all = weft_arena_calloc(&t->arena, (size_t)n, sizeof *all), own;
  if (all == NULL) return no_memory();
  for (int k = 0; k < t->run.num_args; k++) {
    const WEFT_Value *v = t->run.args[k];
    for (int i = 0; i < n; i++) all[i] = weft_value_of(v, i);
    own = all[0];
    if (v->n > 1) WEFT_RETURN_IF_ERROR(name_apart(t, all, &own));
    WEFT_RETURN_IF_ERROR(weft_value_new(&own, 1, false, &args[k]));
  }
  return NULL;
}

static weft_status_t *make_results(once_t *t, WEFT_Value *const *given) {
  int n = t->run.strategy->num_replicas;
  TF_Output *all = weft_arena_calloc(&t->arena, (size_t)n, sizeof *all);
  if (all == NULL) return no_memory();
  for (int k = 0; k < t->run.num_results; k++) {
    if (given[k] == NULL) continue;
    for (int i = 0; i < n; i++) all[i] = tensor_of(t, i, weft_value_of(given[k], 0));
    WEFT_RETURN_IF_ERROR(weft_value_new(all, n, false, &t->run.results[k]));
  }
  return NULL;
}

static weft_status_t *trace(once_t *t, WEFT_Value **args, WEFT_Value **given) {
  WEFT_RETURN_IF_ERROR(make_args(t, args));
  begin_segment(t);
  TF_Status *status = TF_NewStatus();
  weft_scope_go(t->run.graph, t->run.scope, weft_replica_place(&t->run, &t->context, &t->arena));
  t->run.fn(&t->context, args, t->run.num_args, given, t->run.num_results, t->run.user, status);
  weft_scope_go(t->run.graph, t->run.scope, weft_cross_place());
  weft_status_t *s = weft_status_taken(status);
  TF_DeleteStatus(status);
  if (s == NULL && t->context.asked_for_id) {
    s = WEFT_ERROR(
        FAILED_PRECONDITION,
        "a function that is traced once cannot depend on which replica it is: use WEFT_TRACE_EACH");
  }
  if (s == NULL) s = end_segment(t);
  return s == NULL ? make_results(t, given) : s;
}

weft_status_t *weft_trace_once(weft_replica_run_t *r) {
  once_t t = {.run = *r};
  int n = r->strategy->num_replicas;
  t.run.merge = merge;
  t.run.is_traced_once = true;
  t.context.run = &t.run;
  t.outputs = weft_arena_calloc(&t.arena, (size_t)n, sizeof *t.outputs);
  t.nodes = weft_arena_calloc(&t.arena, (size_t)n, sizeof *t.nodes);
  WEFT_Value **args = weft_arena_calloc(&t.arena, (size_t)r->num_args + 1, sizeof *args);
  WEFT_Value **given = weft_arena_calloc(&t.arena, (size_t)r->num_results + 1, sizeof *given);
  bool ok = t.outputs != NULL && t.nodes != NULL && args != NULL && given != NULL;
  weft_status_t *s = ok ? trace(&t, args, given) : no_memory();
  for (int k = 0; args != NULL && k < r->num_args; k++) WEFT_DeleteValue(args[k]);
  for (int k = 0; given != NULL && k < r->num_results; k++) WEFT_DeleteValue(given[k]);
  for (int i = 0; ok && i < n; i++) {
    weft_map_deinit(&t.outputs[i]);
    weft_map_deinit(&t.nodes[i]);
  }
  r->scope->place.replica_run = NULL;
  weft_arena_deinit(&t.arena);
  return s;
}
