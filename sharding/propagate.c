/* sharding/propagate.c - spreads shardings over a graph to a fixed point, then settles each node.
 *
 * A value's axis goes from open (NONE) to decided, never back, so that the rounds end: forward in topological
 * order, backward against it, until a round decides nothing.
 */
#include "sharding/propagate.h"

#include <math.h>

#include "base/alloc.h"
#include "graph/passes.h"

enum { MAX_WISHES = 16 };

typedef struct flow {
  weft_graph_t *graph;
  const weft_mesh_t *mesh;
  const weft_reshard_link_t *link;
  weft_arena_t *arena;
  weft_inference_t *inference;
  weft_node_t **order; /* num_live of the graph */
  weft_fanout_t fanout;
  weft_sharding_t *has; /* what the inputs of one node have; as many as the largest number of inputs */
  weft_sharding_plan_t plan;
  int reshardings_capacity, conflicts_capacity;
  bool has_changed;
} flow_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("propagating shardings"); }

static weft_sharded_node_t *sharded(const flow_t *f, const weft_node_t *n) { return f->plan.nodes[n->id]; }

static weft_sharding_t *value_of(const flow_t *f, weft_output_t of) {
  return &sharded(f, of.node)->values[of.index];
}

static weft_sharding_t replicated(const weft_mesh_t *mesh) {
  weft_sharding_t s = {0};
  for (int i = 0; i < mesh->num_axes; i++) s.axes[i] = weft_sharding_replicate(0);
  return s;
}

/* Open axes are Replicate. */
static weft_sharding_t closed(const weft_mesh_t *mesh, const weft_sharding_t *s) {
  weft_sharding_t out = *s;
  for (int i = 0; i < mesh->num_axes; i++) {
    if (out.axes[i].kind == WEFT_SHARDING_NONE) out.axes[i] = weft_sharding_replicate(0);
  }
  return out;
}

/* ---- nodes and their rules ---- */

static weft_status_t *make_rule(flow_t *f, const weft_shape_ctx_t *c, weft_sharded_node_t *n) {
  const char *text = NULL;
  WEFT_RETURN_IF_ERROR(weft_rule_text(c, f->arena, &text));
  if (text[0] == '\0') n->lacks = "its op has no rule for such a node";
  weft_status_t *s = weft_rule_make(c, text, f->arena, &n->rule);
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  n->lacks = weft_arena_str(f->arena, weft_str(weft_status_message(s))).data;
  weft_status_free(s);
  return n->lacks == NULL ? no_memory() : weft_rule_make(c, "", f->arena, &n->rule);
}

static weft_status_t *find_rule(flow_t *f, const weft_node_t *node, weft_sharded_node_t *n) {
  size_t num = (size_t)node->num_inputs + 1;
  weft_shape_t *shapes = weft_arena_calloc(f->arena, num, sizeof *shapes);
  weft_handle_data_t *handles = weft_arena_calloc(f->arena, num, sizeof *handles);
  const weft_tensor_t **values = weft_arena_calloc(f->arena, num, sizeof(*values));
  weft_shape_t *outputs = weft_arena_calloc(f->arena, (size_t)node->num_outputs + 1, sizeof *outputs);
  if (shapes == NULL || values == NULL || handles == NULL || outputs == NULL) return no_memory();
  for (int i = 0; i < node->num_inputs; i++) {
    weft_output_t from = node->inputs[i];
    shapes[i] = from.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : from.node->output_shapes[from.index];
    values[i] = weft_inference_value(f->inference, from);
    const weft_handle_data_t *handle = weft_inference_handle(f->inference, from);
    handles[i] = handle == NULL ? WEFT_NO_HANDLE_DATA : *handle;
  }
  for (int i = 0; i < node->num_outputs; i++) {
    outputs[i] = node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : node->output_shapes[i];
  }
  weft_shape_ctx_t c = {.op = node->op,
                        .node_name = node->name,
                        .attrs = node->attrs,
                        .num_attrs = node->num_attrs,
                        .num_inputs = node->num_inputs,
                        .num_outputs = node->num_outputs,
                        .input_types = node->input_types,
                        .output_types = node->output_types,
                        .inputs = shapes,
                        .values = values,
                        .outputs = outputs,
                        .handles = handles};
  WEFT_RETURN_IF_ERROR(make_rule(f, &c, n));
  for (int i = 0; i < node->num_outputs; i++) { /* of a handle: the variable */
    const weft_handle_data_t *handle =
        weft_inference_handle(f->inference, (weft_output_t){(weft_node_t *)node, i});
    if (handle == NULL) continue;
    n->rule.outputs[i] =
        (weft_rule_operand_t){handle->shape, weft_dtype_size(weft_dtype_base(handle->dtype))};
  }
  return NULL;
}

static weft_status_t *add_node(flow_t *f, weft_node_t *node) {
  size_t in = (size_t)node->num_inputs, out = (size_t)node->num_outputs;
  weft_sharded_node_t *n = weft_arena_calloc(f->arena, 1, sizeof *n);
  weft_sharding_t *shardings = weft_arena_calloc(f->arena, in + 2 * out + 1, sizeof *shardings);
  int *indices = weft_arena_calloc(f->arena, in + out + 1, sizeof *indices);
  if (n == NULL || shardings == NULL || indices == NULL) return no_memory();
  *n = (weft_sharded_node_t){.node = node, .first_resharding = -1};
  n->required = shardings;
  n->produced = shardings + in;
  n->values = shardings + in + out;
  n->input_reshardings = indices;
  n->output_reshardings = indices + in;
  for (size_t i = 0; i < in + out; i++) indices[i] = -1;
  f->plan.nodes[node->id] = n;
  WEFT_RETURN_IF_ERROR(weft_inference_add(f->inference, node));
  return find_rule(f, node, n);
}

static weft_status_t *add_nodes(flow_t *f) {
  int most = 0;
  f->plan.nodes = weft_arena_calloc(f->arena, (size_t)f->graph->num_nodes + 1, sizeof(*f->plan.nodes));
  f->plan.num_nodes = f->graph->num_nodes;
  if (f->plan.nodes == NULL) return no_memory();
  for (int i = 0; i < f->graph->num_live; i++) {
    WEFT_RETURN_IF_ERROR(add_node(f, f->order[i]));
    if (f->order[i]->num_inputs > most) most = f->order[i]->num_inputs;
  }
  f->has = weft_arena_calloc(f->arena, (size_t)most + 1, sizeof *f->has);
  return f->has == NULL ? no_memory() : NULL;
}

static weft_status_t *plant(flow_t *f, const weft_sharding_seed_t *seed) {
  const weft_node_t *node = seed->value.node;
  const weft_sharded_node_t *n = sharded(f, node);
  if (seed->value.index < 0 || seed->value.index >= node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "seed of '%s:%d': there is no such output", node->name.data,
                      seed->value.index);
  }
  int64_t begin[WEFT_MAX_DIMS];
  weft_shape_t size;
  weft_sharding_t *value = value_of(f, seed->value), all = closed(f->mesh, &seed->sharding);
  weft_status_t *s =
      weft_mesh_block(f->mesh, &all, &n->rule.outputs[seed->value.index].shape, 0, begin, &size);
  for (int i = 0; i < f->mesh->num_axes && s == NULL; i++) {
    if (seed->sharding.axes[i].kind == WEFT_SHARDING_NONE) continue;
    if (value->axes[i].kind != WEFT_SHARDING_NONE)
      s = WEFT_ERROR(INVALID_ARGUMENT, "it has a seed already");
    else
      value->axes[i] = seed->sharding.axes[i];
  }
  return weft_status_annotate(s, "seed of '%s:%d'", node->name.data, seed->value.index);
}

/* ---- choices ---- */

static void gather_inputs(const flow_t *f, const weft_node_t *node) {
  for (int i = 0; i < node->num_inputs; i++) {
    weft_output_t from = node->inputs[i];
    bool is_known = sharded(f, from.node) != NULL; /* not yet: the back edge of a loop */
    f->has[i] = is_known ? *value_of(f, from) : (weft_sharding_t){0};
  }
}

static bool is_split(const weft_sharding_t *s, int axis) {
  return s->axes[axis].kind == WEFT_SHARDING_SHARD || s->axes[axis].kind == WEFT_SHARDING_PARTIAL;
}

/* Has the node something to follow along the axis? Otherwise all of it stays open. */
static bool has_wish(const flow_t *f, const weft_sharded_node_t *n, int axis) {
  if (n->lacks != NULL || (n->node->flags & WEFT_OP_METADATA) != 0) return false;
  for (int i = 0; i < n->node->num_inputs; i++) {
    if (is_split(&f->has[i], axis)) return true;
  }
  for (int i = 0; i < n->node->num_outputs; i++) {
    if (is_split(&n->values[i], axis)) return true;
  }
  return false;
}

/* The cheapest choice of the node, and what it asks and makes: n's inputs, then its outputs; on the heap. */
static weft_status_t *choose(const flow_t *f, const weft_sharded_node_t *n, int axis, weft_rule_pick_t *pick,
                             weft_axis_sharding_t **out) {
  weft_rule_use_t use = {f->mesh, f->link, f->has, n->values, n->choices};
  size_t num = (size_t)n->node->num_inputs + (size_t)n->node->num_outputs;
  WEFT_RETURN_IF_ERROR(weft_rule_choose(&n->rule, &use, axis, pick));
  *out = weft_calloc(num + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  weft_rule_apply(&n->rule, pick->choice, *out, *out + n->node->num_inputs);
  return NULL;
}

/* Along one axis: what the cheapest choice makes of the outputs that `was` has open. */
static weft_status_t *guess_outputs(flow_t *f, weft_sharded_node_t *n, const weft_sharding_t *was, int axis) {
  bool is_open = false;
  weft_rule_pick_t pick;
  weft_axis_sharding_t *shardings = NULL;
  for (int i = 0; i < n->node->num_outputs; i++) {
    n->values[i].axes[axis] = was[i].axes[axis];
    is_open = is_open || was[i].axes[axis].kind == WEFT_SHARDING_NONE;
  }
  if (!is_open || !has_wish(f, n, axis)) return NULL;
  WEFT_RETURN_IF_ERROR(choose(f, n, axis, &pick, &shardings));
  for (int i = 0; i < n->node->num_outputs; i++) {
    if (was[i].axes[axis].kind != WEFT_SHARDING_NONE) continue;
    n->values[i].axes[axis] = shardings[n->node->num_inputs + i];
    f->has_changed = true;
  }
  weft_free(shardings);
  return NULL;
}

/* Twice, because what an output costs along one axis depends on how the others split it. */
static weft_status_t *spread_forward(flow_t *f, weft_sharded_node_t *n) {
  size_t num = (size_t)n->node->num_outputs;
  if (num == 0) return NULL;
  weft_sharding_t *was = weft_calloc(num, sizeof *was);
  if (was == NULL) return no_memory();
  memcpy(was, n->values, num * sizeof *was);
  gather_inputs(f, n->node);
  weft_status_t *s = NULL;
  for (int i = 0; i < 2 * f->mesh->num_axes && s == NULL; i++) {
    s = guess_outputs(f, n, was, i % f->mesh->num_axes);
  }
  weft_free(was);
  return s;
}

/* What consumers of one open value ask of it along an axis. */
typedef struct wishes {
  weft_axis_sharding_t of[MAX_WISHES]; /* Shards; more consumers than that are not asked */
  int n;
} wishes_t;

static bool can_have(const flow_t *f, const weft_rule_operand_t *of, const weft_sharding_t *s) {
  int64_t begin[WEFT_MAX_DIMS];
  weft_shape_t size;
  weft_status_t *why = weft_mesh_block(f->mesh, s, &of->shape, 0, begin, &size);
  weft_status_free(why);
  return why == NULL;
}

static weft_status_t *ask_consumers(const flow_t *f, const weft_sharded_node_t *n, int output, int axis,
                                    wishes_t *out) {
  for (int e = f->fanout.begin[n->node->id]; e < f->fanout.begin[n->node->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &f->fanout.edges[e];
    if (edge->output != output || out->n == MAX_WISHES) continue;
    const weft_sharded_node_t *consumer = sharded(f, edge->to);
    weft_rule_pick_t pick;
    weft_axis_sharding_t *shardings = NULL;
    gather_inputs(f, edge->to);
    if (!has_wish(f, consumer, axis)) continue;
    WEFT_RETURN_IF_ERROR(choose(f, consumer, axis, &pick, &shardings));
    if (shardings[edge->input].kind == WEFT_SHARDING_SHARD) out->of[out->n++] = shardings[edge->input];
    weft_free(shardings);
  }
  return NULL;
}

/* The wish that is the cheapest for all consumers; NONE: the value can have none of them. */
static weft_status_t *weigh(const flow_t *f, const weft_sharded_node_t *n, int output, int axis,
                            const wishes_t *wishes, weft_axis_sharding_t *out) {
  const weft_rule_operand_t *of = &n->rule.outputs[output];
  double least = INFINITY;
  for (int i = 0; i < wishes->n; i++) {
    weft_sharding_t from = closed(f->mesh, &n->values[output]), to = from;
    double seconds = 0;
    from.axes[axis] = wishes->of[i];
    if (!can_have(f, of, &from)) continue;
    for (int k = 0; k < wishes->n; k++) {
      weft_arena_t arena = WEFT_ARENA_INIT;
      weft_reshard_plan_t plan = {.num_steps = 0};
      to.axes[axis] = wishes->of[k];
      weft_status_t *s = NULL;
      if (can_have(f, of, &to)) {
        s = weft_reshard_plan(f->mesh, &from, &to, &of->shape, of->element_bytes, f->link, &arena, &plan);
      }
      weft_arena_deinit(&arena);
      if (s != NULL) return s;
      seconds += plan.cost.seconds;
    }
    if (seconds >= least) continue;
    least = seconds;
    *out = wishes->of[i];
  }
  return NULL;
}

static weft_status_t *spread_backward(flow_t *f, weft_sharded_node_t *n) {
  for (int output = 0; output < n->node->num_outputs; output++) {
    for (int axis = 0; axis < f->mesh->num_axes; axis++) {
      weft_axis_sharding_t *value = &n->values[output].axes[axis];
      wishes_t wishes = {.n = 0};
      if (value->kind != WEFT_SHARDING_NONE) continue;
      WEFT_RETURN_IF_ERROR(ask_consumers(f, n, output, axis, &wishes));
      WEFT_RETURN_IF_ERROR(weigh(f, n, output, axis, &wishes, value));
      if (value->kind != WEFT_SHARDING_NONE) f->has_changed = true;
    }
  }
  return NULL;
}

static weft_status_t *spread(flow_t *f) {
  do {
    f->has_changed = false;
    for (int i = 0; i < f->graph->num_live; i++) {
      WEFT_RETURN_IF_ERROR(spread_forward(f, sharded(f, f->order[i])));
    }
    for (int i = f->graph->num_live; i-- > 0;) {
      WEFT_RETURN_IF_ERROR(spread_backward(f, sharded(f, f->order[i])));
    }
  } while (f->has_changed);
  for (int i = 0; i < f->graph->num_live; i++) {
    weft_sharded_node_t *n = sharded(f, f->order[i]);
    for (int k = 0; k < n->node->num_outputs; k++) n->values[k] = closed(f->mesh, &n->values[k]);
  }
  return NULL;
}

/* ---- settling ---- */

static bool eq(const weft_mesh_t *mesh, const weft_sharding_t *a, const weft_sharding_t *b) {
  for (int i = 0; i < mesh->num_axes; i++) {
    if (!weft_axis_sharding_eq(&a->axes[i], &b->axes[i])) return false;
  }
  return true;
}

/* Makes room for one more element. */
static bool grow(flow_t *f, void **elements, int n, int *capacity, size_t size) {
  if (n < *capacity) return true;
  int more = *capacity * 2 + 16;
  void *to = weft_arena_calloc(f->arena, (size_t)more, size);
  if (to == NULL) return false;
  if (n > 0) memcpy(to, *elements, (size_t)n * size);
  *elements = to;
  *capacity = more;
  return true;
}

/* *out: the resharding of the value, which may be there already; -1 if the two are equal. */
static weft_status_t *reshard(flow_t *f, weft_output_t value, const weft_sharding_t *from,
                              const weft_sharding_t *to, int *out) {
  weft_sharded_node_t *n = sharded(f, value.node);
  const weft_rule_operand_t *of = &n->rule.outputs[value.index];
  *out = -1;
  if (eq(f->mesh, from, to)) return NULL;
  for (int i = n->first_resharding; i >= 0; i = f->plan.reshardings[i].next) {
    const weft_resharding_t *r = &f->plan.reshardings[i];
    if (r->value.index != value.index || !eq(f->mesh, &r->from, from) || !eq(f->mesh, &r->to, to)) continue;
    *out = i;
    return NULL;
  }
  int at = f->plan.num_reshardings;
  void *elements = f->plan.reshardings;
  if (!grow(f, &elements, at, &f->reshardings_capacity, sizeof *f->plan.reshardings)) return no_memory();
  f->plan.reshardings = elements;
  weft_resharding_t r = {.value = value, .from = *from, .to = *to, .next = n->first_resharding};
  weft_status_t *s =
      weft_reshard_plan(f->mesh, from, to, &of->shape, of->element_bytes, f->link, f->arena, &r.plan);
  if (s != NULL) return weft_status_annotate(s, "resharding '%s:%d'", value.node->name.data, value.index);
  f->plan.cost.seconds += r.plan.cost.seconds;
  f->plan.cost.wire_bytes += r.plan.cost.wire_bytes;
  f->plan.reshardings[at] = r;
  f->plan.num_reshardings++;
  *out = n->first_resharding = at;
  return NULL;
}

static weft_status_t *report(flow_t *f, const weft_sharded_node_t *n, int axis, const weft_rule_pick_t *pick,
                             const weft_axis_sharding_t *required) {
  for (int i = 0; i < n->node->num_inputs; i++) {
    const weft_axis_sharding_t *has = &f->has[i].axes[axis];
    if (has->kind != WEFT_SHARDING_SHARD || weft_axis_sharding_eq(has, &required[i])) continue;
    int at = f->plan.num_conflicts;
    void *elements = f->plan.conflicts;
    if (!grow(f, &elements, at, &f->conflicts_capacity, sizeof *f->plan.conflicts)) return no_memory();
    f->plan.conflicts = elements;
    f->plan.conflicts[f->plan.num_conflicts++] =
        (weft_sharding_conflict_t){n->node, i, axis, *has, required[i], pick->seconds, pick->second_seconds};
  }
  return NULL;
}

/* Does the node take input i as it is? */
static bool takes_any(const weft_sharded_node_t *n, int i) {
  bool is_handle = weft_dtype_base(n->node->input_types[i]) == WEFT_RESOURCE;
  return (n->node->flags & WEFT_OP_METADATA) != 0 || (n->lacks != NULL && is_handle);
}

static weft_status_t *settle_axis(flow_t *f, weft_sharded_node_t *n, int axis) {
  weft_rule_pick_t pick;
  weft_axis_sharding_t *shardings = NULL;
  WEFT_RETURN_IF_ERROR(choose(f, n, axis, &pick, &shardings));
  n->choices[axis] = pick.choice;
  for (int i = 0; i < n->node->num_inputs; i++) {
    if (takes_any(n, i)) shardings[i] = f->has[i].axes[axis];
    n->required[i].axes[axis] = shardings[i];
  }
  for (int i = 0; i < n->node->num_outputs; i++) {
    n->produced[i].axes[axis] = shardings[n->node->num_inputs + i];
  }
  weft_status_t *s = report(f, n, axis, &pick, shardings);
  weft_free(shardings);
  return s;
}

static weft_status_t *settle(flow_t *f, weft_sharded_node_t *n) {
  bool is_source = n->node->num_inputs == 0; /* it gives what is asked of it */
  gather_inputs(f, n->node);
  for (int i = 0; i < n->node->num_inputs; i++) f->has[i] = closed(f->mesh, &f->has[i]);
  for (int axis = 0; axis < f->mesh->num_axes && !is_source; axis++) {
    WEFT_RETURN_IF_ERROR(settle_axis(f, n, axis));
  }
  for (int i = 0; i < n->node->num_outputs && is_source; i++) n->produced[i] = n->values[i];
  for (int i = 0; i < n->node->num_outputs; i++) {
    weft_output_t value = {(weft_node_t *)n->node, i};
    WEFT_RETURN_IF_ERROR(reshard(f, value, &n->produced[i], &n->values[i], &n->output_reshardings[i]));
  }
  for (int i = 0; i < n->node->num_inputs; i++) {
    WEFT_RETURN_IF_ERROR(
        reshard(f, n->node->inputs[i], &f->has[i], &n->required[i], &n->input_reshardings[i]));
  }
  return NULL;
}

weft_status_t *weft_sharding_propagate(weft_graph_t *graph, const weft_mesh_t *mesh,
                                       const weft_sharding_seed_t *seeds, int num_seeds,
                                       const weft_reshard_link_t *link, weft_arena_t *arena,
                                       weft_sharding_plan_t *out) {
  flow_t f = {.graph = graph, .mesh = mesh, .link = link, .arena = arena, .plan = {.mesh = *mesh}};
  weft_status_t *s = weft_mesh_validate(mesh);
  if (s == NULL) s = weft_graph_topological_order(graph, &f.order);
  if (s == NULL) s = weft_fanout_build(graph, &f.fanout);
  if (s == NULL) s = weft_inference_create(graph, &f.inference);
  if (s == NULL) s = add_nodes(&f);
  for (int i = 0; i < num_seeds && s == NULL; i++) s = plant(&f, &seeds[i]);
  if (s == NULL) s = spread(&f);
  for (int i = 0; i < graph->num_live && s == NULL; i++) s = settle(&f, sharded(&f, f.order[i]));
  weft_inference_destroy(f.inference);
  weft_fanout_deinit(&f.fanout);
  weft_free(f.order);
  if (s == NULL) *out = f.plan;
  return s;
}

/* ---- text ---- */

void weft_sharding_print(const weft_mesh_t *mesh, const weft_sharding_t *sharding, weft_strbuf_t *out) {
  bool is_first = true;
  for (int i = 0; i < mesh->num_axes; i++) {
    if (sharding->axes[i].kind == WEFT_SHARDING_REPLICATE) continue;
    weft_strbuf_printf(out, "%s%s: ", is_first ? "" : ", ", mesh->axes[i].name);
    weft_axis_sharding_print(&sharding->axes[i], out);
    is_first = false;
  }
  if (is_first) weft_strbuf_puts(out, "Replicate");
}

static void print_resharding(const weft_sharding_plan_t *plan, const weft_resharding_t *r,
                             weft_strbuf_t *out) {
  weft_strbuf_printf(out, "reshard %s:%d:", r->value.node->name.data, r->value.index);
  for (int i = 0; i < r->plan.num_steps; i++) {
    weft_strbuf_puts(out, i > 0 ? "; " : " ");
    weft_reshard_print(&plan->mesh, &r->plan.steps[i], out);
  }
  weft_strbuf_printf(out, " (%.3g bytes)\n", r->plan.cost.wire_bytes);
}

void weft_sharding_plan_print(const weft_sharding_plan_t *plan, weft_strbuf_t *out) {
  weft_sharding_t whole = replicated(&plan->mesh);
  for (int i = 0; i < plan->num_nodes; i++) {
    const weft_sharded_node_t *n = plan->nodes[i];
    for (int k = 0; n != NULL && k < n->node->num_outputs; k++) {
      if (eq(&plan->mesh, &n->values[k], &whole)) continue;
      weft_strbuf_printf(out, "%s:%d: ", n->node->name.data, k);
      weft_sharding_print(&plan->mesh, &n->values[k], out);
      weft_strbuf_putc(out, '\n');
    }
  }
  for (int i = 0; i < plan->num_reshardings; i++) print_resharding(plan, &plan->reshardings[i], out);
  for (int i = 0; i < plan->num_conflicts; i++) {
    const weft_sharding_conflict_t *c = &plan->conflicts[i];
    weft_strbuf_printf(out, "conflict at %s, input %d, along %s: ", c->node->name.data, c->input,
                       plan->mesh.axes[c->axis].name);
    weft_axis_sharding_print(&c->has, out);
    weft_strbuf_puts(out, " -> ");
    weft_axis_sharding_print(&c->required, out);
    weft_strbuf_printf(out, ": %.3g s; the next best choice %.3g s\n", c->seconds, c->second_seconds);
  }
  weft_strbuf_printf(out, "all: %.3g bytes, %.3g s\n", plan->cost.wire_bytes, plan->cost.seconds);
}
