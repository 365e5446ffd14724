/* graph/passes/round.c - what the passes of one round share. */
#include "graph/passes/round.h"

#include "base/alloc.h"
#include "ops/const_fold.h"

/* ---- properties of nodes ---- */

static bool is_plain_type(int type) {
  return type != 0 && !weft_dtype_is_ref(type) && type != WEFT_RESOURCE && type != WEFT_VARIANT;
}

bool weft_node_has_effect(const weft_node_t *n) {
  const uint64_t effects = WEFT_OP_STATEFUL | WEFT_OP_UPDATE | WEFT_OP_SEND | WEFT_OP_RECV |
                           WEFT_OP_BLOCKING | WEFT_OP_EFFECT | WEFT_OP_COMMUNICATION | WEFT_OP_SAVE |
                           WEFT_OP_PLACEHOLDER | WEFT_OP_ARG | WEFT_OP_RETVAL | WEFT_OP_FUNCTIONAL |
                           WEFT_OP_CALL | WEFT_OP_GRADIENT | WEFT_OP_REMOTE_CALL | WEFT_OP_READS_FILES |
                           WEFT_OP_UNREGISTERED;
  if (n->function != NULL || n->op->collective != WEFT_OP_NO_COLLECTIVE) return true;
  if ((n->flags & (WEFT_OP_READ | WEFT_OP_VARIABLE)) != 0) return (n->flags & WEFT_OP_UPDATE) != 0;
  return (n->flags & effects) != 0;
}

bool weft_node_is_pure(const weft_node_t *n) {
  const uint64_t never = WEFT_OPS_OF_CONTROL | WEFT_OP_STATEFUL | WEFT_OP_VARIABLE | WEFT_OP_INTERNAL |
                         WEFT_OP_INITIALIZED | WEFT_OP_DEFAULT | WEFT_OP_NOOP;
  if ((n->flags & never) != 0 || weft_node_has_effect(n) || n->num_outputs == 0) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!is_plain_type(n->input_types[i]) ||
        !is_plain_type(n->inputs[i].node->output_types[n->inputs[i].index]))
      return false;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    if (!is_plain_type(n->output_types[i])) return false;
  }
  for (int i = 0; i < n->op->num_attrs; i++) {
    if (n->op->attrs[i].kind == WEFT_ATTR_FUNC) return false;
  }
  return true;
}

bool weft_node_copies_input(const weft_node_t *n) {
  return n->op->fold == weft_fold_copy && n->num_inputs == 1 && n->num_outputs == 1 && n->function == NULL &&
         n->input_types[0] == n->output_types[0];
}

weft_output_t weft_output_copied(weft_output_t of) {
  while (weft_node_copies_input(of.node)) of = of.node->inputs[0];
  return of;
}

weft_node_t *weft_output_enter(weft_output_t of) {
  of = weft_output_copied(of);
  if ((of.node->flags & WEFT_OP_ENTER) != 0)
    return weft_node_attr_bool(of.node, "is_constant", false) ? of.node : NULL;
  if ((of.node->flags & WEFT_OP_SWITCH) == 0 || of.index != 1) return NULL;
  const weft_node_t *merge = of.node->inputs[0].node;
  if ((merge->flags & WEFT_OP_MERGE) == 0 || merge->num_inputs != 2) return NULL;
  weft_node_t *enter = merge->inputs[0].node;
  const weft_node_t *next = merge->inputs[1].node;
  if ((enter->flags & WEFT_OP_ENTER) == 0 || (next->flags & WEFT_OP_NEXT_ITERATION) == 0) return NULL;
  const weft_output_t passed = weft_output_copied(next->inputs[0]);
  return passed.node == of.node && passed.index == of.index ? enter : NULL;
}

bool weft_output_may_replace(weft_output_t from, const weft_node_t *n) {
  return (from.node->flags & WEFT_OPS_OF_CONTROL) == 0 &&
         !weft_dtype_is_ref(from.node->output_types[from.index]) &&
         weft_str_eq(from.node->assigned_device, n->assigned_device) &&
         (n->assigned_device.length > 0 || weft_str_eq(from.node->requested_device, n->requested_device));
}

/* ---- the round ---- */

bool weft_pass_round_is_conditional(const weft_pass_round_t *r, const weft_node_t *n) {
  return n->id < r->num_ids ? r->is_conditional[n->id] != 0 : n->num_controls > 0;
}

bool weft_pass_round_is_variable(const weft_pass_round_t *r, const weft_node_t *n) {
  return n->id < r->num_ids && r->is_variable[n->id] != 0;
}

/* Is output 0 of `n`, or any other, perhaps the buffer of a variable that a reference leads to? */
static bool may_be_variable(const weft_pass_round_t *r, const weft_node_t *n) {
  const uint64_t passes_on = WEFT_OPS_OF_CONTROL | WEFT_OP_VIEW | WEFT_OP_IDENTITY | WEFT_OP_BUNDLE |
                             WEFT_OP_READ | WEFT_OP_DEFAULT | WEFT_OP_EFFECT;
  for (int i = 0; i < n->num_outputs; i++) {
    if (weft_dtype_is_ref(n->output_types[i])) return true;
  }
  if ((n->flags & passes_on) == 0 && !weft_node_copies_input(n)) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if (r->is_variable[n->inputs[i].node->id]) return true;
  }
  return false;
}

static void find_properties(weft_pass_round_t *r) {
  for (int i = 0; i < r->num_ordered; i++) {
    const weft_node_t *n = r->order[i];
    bool is = (n->flags & WEFT_OPS_OF_CONTROL) != 0;
    for (int k = 0; !is && k < n->num_inputs; k++) is = r->is_conditional[n->inputs[k].node->id] != 0;
    for (int k = 0; !is && k < n->num_controls; k++) is = r->is_conditional[n->controls[k]->id] != 0;
    r->is_conditional[n->id] = is;
    r->is_variable[n->id] = may_be_variable(r, n);
  }
}

static weft_status_t *no_memory(const weft_graph_t *g) {
  return WEFT_NO_MEMORY("optimising a graph of %d nodes", g->num_live);
}

/* By id: is it a node that nothing reads or waits for? `out` is zero. */
static void find_ends(const weft_graph_t *g, uint8_t *out) {
  for (int id = 0; id < g->num_nodes; id++) out[id] = g->nodes[id] != NULL;
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) out[n->inputs[i].node->id] = false;
    for (int i = 0; n != NULL && i < n->num_controls; i++) out[n->controls[i]->id] = false;
  }
}

weft_status_t *weft_pass_round_init(weft_pass_round_t *r, weft_graph_t *g, const weft_optimize_options_t *o) {
  *r = (weft_pass_round_t){.g = g, .options = o, .arena = WEFT_ARENA_INIT, .num_ids = g->num_nodes};
  const size_t n = (size_t)g->num_nodes + 1;
  r->forwards = weft_calloc(n, sizeof *r->forwards);
  r->merged = weft_calloc(n, sizeof *r->merged);
  r->is_kept = weft_calloc(n, sizeof *r->is_kept);
  r->is_conditional = weft_calloc(n, sizeof *r->is_conditional);
  r->is_variable = weft_calloc(n, sizeof *r->is_variable);
  if (r->forwards == NULL || r->merged == NULL || r->is_kept == NULL || r->is_conditional == NULL ||
      r->is_variable == NULL)
    return no_memory(g);
  if (o->keeps_ends) find_ends(g, r->is_kept);
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL && weft_node_has_effect(g->nodes[id])) r->is_kept[id] = true;
  }
  for (int i = 0; i < o->num_keep; i++) {
    const weft_node_t *kept = weft_graph_find(g, o->keep[i]);
    if (kept != NULL) r->is_kept[kept->id] = true;
  }
  r->num_ordered = g->num_live;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &r->order));
  find_properties(r);
  return NULL;
}

void weft_pass_round_deinit(weft_pass_round_t *r) {
  weft_inference_destroy(r->inference);
  weft_free(r->order);
  weft_free(r->forwards);
  weft_free(r->merged);
  weft_free(r->is_kept);
  weft_free(r->is_conditional);
  weft_free(r->is_variable);
  weft_arena_deinit(&r->arena);
}

/* A variable behind a reference may be given a value of another shape than it was made for. */
static bool has_reference(const weft_node_t *n) {
  for (int i = 0; i < n->num_outputs; i++) {
    if (weft_dtype_is_ref(n->output_types[i])) return true;
  }
  return false;
}

weft_status_t *weft_pass_round_infer(weft_pass_round_t *r) {
  if (r->inference != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_inference_create(r->g, &r->inference));
  for (int id = 0; id < r->g->num_nodes; id++) {
    if (r->g->nodes[id] != NULL) r->g->nodes[id]->output_shapes = NULL;
  }
  for (int i = 0; i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    weft_status_t *s = weft_inference_add(r->inference, n);
    if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
    if (s != NULL || has_reference(n)) n->output_shapes = NULL;
    weft_status_free(s);
  }
  return NULL;
}

const weft_shape_t *weft_pass_round_shape(weft_output_t of) {
  static const weft_shape_t unknown = {.rank = WEFT_UNKNOWN_DIM};
  return of.node->output_shapes == NULL ? &unknown : &of.node->output_shapes[of.index];
}

weft_tensor_t *weft_pass_round_constant(weft_output_t of) {
  const weft_attr_t *value =
      (of.node->flags & WEFT_OP_CONST) != 0 && of.index == 0 ? weft_node_attr(of.node, "value") : NULL;
  return value != NULL && value->kind == WEFT_ATTR_TENSOR && !value->is_list ? value->tensor : NULL;
}

int weft_pass_round_permutation(weft_output_t of, int *out) {
  const weft_tensor_t *t = weft_pass_round_constant(of);
  unsigned seen = 0;
  if (t == NULL || t->shape.rank != 1 || t->count > WEFT_MAX_DIMS) return -1;
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) return -1;
  for (int i = 0; i < t->count; i++) {
    const int64_t p = t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    if (p < 0 || p >= t->count || (seen >> p & 1) != 0) return -1;
    seen |= 1u << p;
    out[i] = (int)p;
  }
  return (int)t->count;
}

bool weft_pass_round_is_on_cpu(const weft_node_t *n) {
  static const char cpu[] = "device:CPU:";
  const weft_str_t d = n->assigned_device;
  for (size_t i = 0; i + sizeof cpu - 1 <= d.length; i++) {
    if (memcmp(d.data + i, cpu, sizeof cpu - 1) == 0) return true;
  }
  return d.length == 0;
}

/* ---- what takes the place of what ---- */

weft_output_t weft_pass_round_resolve(const weft_pass_round_t *r, weft_output_t of) {
  while (of.node->id < r->num_ids) {
    const int id = of.node->id;
    if (r->merged[id] != NULL) {
      of.node = r->merged[id];
    } else if (r->forwards[id] != NULL && r->forwards[id][of.index].node != NULL) {
      of = r->forwards[id][of.index];
    } else {
      break;
    }
  }
  return of;
}

static const weft_node_t *merged_into(const weft_pass_round_t *r, const weft_node_t *n) {
  while (n->id < r->num_ids && r->merged[n->id] != NULL) n = r->merged[n->id];
  return n;
}

static weft_status_t *visit_controls(weft_pass_round_t *r, weft_node_t *n) {
  int i = 0;
  while (i < n->num_controls && merged_into(r, n->controls[i]) == n->controls[i]) i++;
  if (i == n->num_controls) return NULL;
  const int num = n->num_controls;
  weft_node_t **old = weft_calloc((size_t)num, sizeof *old);
  if (old == NULL) return no_memory(r->g);
  memcpy(old, n->controls, (size_t)num * sizeof *old);
  weft_graph_clear_controls(r->g, n);
  weft_status_t *s = NULL;
  for (i = 0; s == NULL && i < num; i++)
    s = weft_graph_add_control(r->g, (weft_node_t *)(uintptr_t)merged_into(r, old[i]), n);
  weft_free(old);
  return s;
}

weft_status_t *weft_pass_round_visit(weft_pass_round_t *r, weft_node_t *n) {
  if (!r->has_replaced) return NULL; /* the usual case of a large graph, whose memory need not be walked */
  for (int i = 0; i < n->num_inputs; i++) n->inputs[i] = weft_pass_round_resolve(r, n->inputs[i]);
  return visit_controls(r, n);
}

weft_status_t *weft_pass_round_finish(weft_pass_round_t *r) {
  if (!r->has_replaced) return NULL;
  for (int id = 0; id < r->g->num_nodes; id++) {
    if (r->g->nodes[id] != NULL) WEFT_RETURN_IF_ERROR(weft_pass_round_visit(r, r->g->nodes[id]));
  }
  return NULL;
}

weft_status_t *weft_pass_round_forward(weft_pass_round_t *r, weft_node_t *n, int output, weft_output_t to) {
  if (r->forwards[n->id] == NULL) {
    r->forwards[n->id] = weft_arena_calloc(&r->arena, (size_t)n->num_outputs, sizeof **r->forwards);
    if (r->forwards[n->id] == NULL) return no_memory(r->g);
  }
  r->forwards[n->id][output] = to;
  r->has_changed = r->has_replaced = true;
  weft_pass_round_note(r, n, "is read as", to.node->name);
  return NULL;
}

void weft_pass_round_merge(weft_pass_round_t *r, weft_node_t *n, weft_node_t *to) {
  r->merged[n->id] = to;
  r->has_changed = r->has_replaced = true;
  weft_pass_round_note(r, n, "is the same as", to->name);
}

/* ---- nodes that become others ---- */

weft_status_t *weft_pass_round_become_constant(weft_pass_round_t *r, weft_node_t *n, weft_tensor_t *value) {
  weft_named_attr_t *attrs = weft_arena_calloc(r->g->arena, 2, sizeof *attrs);
  if (attrs == NULL) return no_memory(r->g);
  weft_node_drop_attrs(n);
  attrs[0] = weft_type_attr("dtype", value->dtype);
  attrs[1] =
      (weft_named_attr_t){WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = weft_tensor_retain(value)}};
  n->attrs = attrs;
  n->num_attrs = 2;
  n->op = weft_op_find(WEFT_STR("Const"));
  n->flags = n->op->flags;
  n->inputs = NULL;
  n->num_inputs = 0;
  r->has_changed = true;
  weft_pass_round_note(r, n, "is a constant", (weft_str_t){NULL, 0});
  return NULL;
}

weft_status_t *weft_pass_round_become(weft_pass_round_t *r, weft_node_t *n, const char *op,
                                      const weft_output_t *inputs, int num_inputs) {
  const int type = weft_node_attr_type(n, "T");
  const weft_op_def_t *def = weft_op_find(weft_str(op));
  weft_named_attr_t *attrs = weft_arena_calloc(r->g->arena, 1, sizeof *attrs);
  weft_output_t *copy = weft_arena_calloc(&r->g->records, (size_t)num_inputs, sizeof *copy);
  int *types = weft_arena_calloc(r->g->arena, (size_t)num_inputs, sizeof *types);
  if (attrs == NULL || copy == NULL || types == NULL) return no_memory(r->g);
  attrs[0] = weft_type_attr("T", type);
  for (int i = 0; i < num_inputs; i++) {
    copy[i] = inputs[i];
    types[i] = type;
  }
  weft_node_drop_attrs(n);
  n->attrs = attrs;
  n->num_attrs = 1;
  n->op = def;
  n->flags = def->flags;
  n->inputs = copy;
  n->input_types = types;
  n->num_inputs = num_inputs;
  r->has_changed = true;
  weft_pass_round_note(r, n, "becomes", def->name);
  return NULL;
}

void weft_pass_round_note(weft_pass_round_t *r, const weft_node_t *n, const char *what, weft_str_t other) {
  if (r->options->note != NULL) r->options->note(r->options->note_arg, r->pass, n, what, other);
}
