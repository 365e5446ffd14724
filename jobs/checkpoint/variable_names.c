/* jobs/checkpoint/variable_names.c - which variables a step needs, and what the savers of the graph call
 * them. */
#include "base/alloc.h"
#include "graph/passes.h"
#include "jobs/checkpoint/variables.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the variables of a graph"); }

/* ---- which the step needs ---- */

static weft_status_t *mark_needed(const weft_graph_t *g, const weft_str_t *step, int num_step,
                                  weft_saved_variables_t *v) {
  const weft_node_t **stack = weft_calloc((size_t)g->num_nodes + (size_t)num_step + 1, sizeof(*stack));
  bool *seen = weft_calloc((size_t)g->num_nodes + 1, sizeof *seen);
  int n = 0;
  weft_status_t *s = stack == NULL || seen == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < num_step; i++) {
    weft_str_t name;
    int index;
    const weft_node_t *at = weft_tensor_name_parse(step[i], &name, &index) ? weft_graph_find(g, name) : NULL;
    if (at == NULL || seen[at->id]) continue;
    seen[at->id] = true;
    stack[n++] = at;
  }
  while (s == NULL && n > 0) {
    const weft_node_t *at = stack[--n];
    weft_saved_variable_t *variable = weft_saved_variables_get(v, at->name);
    if (variable != NULL) variable->is_needed = true;
    for (int i = 0; i < at->num_inputs + at->num_controls; i++) {
      const weft_node_t *from = i < at->num_inputs ? at->inputs[i].node : at->controls[i - at->num_inputs];
      if (from == NULL || seen[from->id]) continue;
      seen[from->id] = true;
      stack[n++] = from;
    }
  }
  weft_free(stack);
  weft_free(seen);
  return s;
}

/* ---- what savers call them ---- */

static const weft_tensor_t *texts_of(const weft_node_t *n, int input) {
  const weft_node_t *from = n->inputs[input].node;
  const weft_attr_t *value =
      from == NULL || (from->flags & WEFT_OP_CONST) == 0 ? NULL : weft_node_attr(from, "value");
  bool is_text = value != NULL && value->kind == WEFT_ATTR_TENSOR && value->tensor->dtype == WEFT_STRING;
  return is_text ? value->tensor : NULL;
}

/* The variable becomes what a saver has of it. Of several savers the one counts that uses the variable's own
 * name, else the first. */
static weft_status_t *take_name(weft_saved_variables_t *v, weft_saved_variable_t *item, bool is_named,
                                weft_str_t tensor, weft_str_t spec) {
  weft_tensor_slice_t slice;
  weft_shape_t full, shape;
  if (is_named && !weft_str_eq(tensor, item->node->name)) return NULL;
  if (spec.length > 0) {
    weft_status_t *s = weft_tensor_slice_parse(spec, &full, &slice, &shape);
    bool fits = s == NULL && weft_shape_eq(&shape, &item->shape);
    weft_status_free(s);
    if (!fits) return NULL; /* the saver itself would fail */
    item->is_part = true;
    item->full = full;
    for (int d = 0; d < full.rank; d++) item->start[d] = slice.is_full[d] ? 0 : slice.start[d];
  } else {
    item->is_part = false;
  }
  item->tensor = weft_arena_str(&v->arena, tensor);
  return item->tensor.data == NULL ? no_memory() : NULL;
}

enum { SAVE_NAMES = 1, SAVE_SLICES = 2, SAVE_FIRST = 3 }; /* inputs of SaveV2 */

/* What a saver stores beside variables. */
static void keep_object_graph(weft_saved_variables_t *v, weft_str_t tensor, const weft_node_t *from) {
  while (from != NULL && (from->flags & WEFT_OP_READ) != 0) from = from->inputs[0].node;
  const weft_attr_t *value =
      from == NULL || (from->flags & WEFT_OP_CONST) == 0 ? NULL : weft_node_attr(from, "value");
  bool is_it = weft_str_is(tensor, WEFT_OBJECT_GRAPH) && value != NULL && value->kind == WEFT_ATTR_TENSOR;
  if (is_it && v->object_graph == NULL) v->object_graph = weft_tensor_retain(value->tensor);
}

static weft_status_t *name_by_nodes(const weft_graph_t *g, weft_saved_variables_t *v, bool *is_named) {
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n == NULL || (n->flags & WEFT_OP_SAVE) == 0 || n->num_inputs < SAVE_FIRST) continue;
    const weft_tensor_t *names = texts_of(n, SAVE_NAMES), *slices = texts_of(n, SAVE_SLICES);
    int count = n->num_inputs - SAVE_FIRST;
    if (names == NULL || slices == NULL || names->count != count || slices->count != count) continue;
    for (int k = 0; k < count; k++) {
      weft_saved_variable_t *item = weft_saved_variable_behind(v, n->inputs[SAVE_FIRST + k]);
      if (item == NULL) keep_object_graph(v, weft_tensor_str_at(names, k), n->inputs[SAVE_FIRST + k].node);
      if (item == NULL) continue;
      WEFT_RETURN_IF_ERROR(take_name(v, item, is_named[item - v->items], weft_tensor_str_at(names, k),
                                     weft_tensor_str_at(slices, k)));
      is_named[item - v->items] = true;
    }
  }
  return NULL;
}

static bool has_calls(const weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL && (g->nodes[i]->flags & WEFT_OP_CALL) != 0) return true;
  }
  return false;
}

/* Savers of newer graphs are functions: their nodes are those of a graph in which the calls are replaced. */
static weft_status_t *name_by_savers(const weft_graph_t *g, weft_saved_variables_t *v, bool *is_named) {
  if (!has_calls(g)) return name_by_nodes(g, v, is_named);
  weft_graph_t *flat = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(g, &flat));
  weft_status_t *s = weft_pass_lower_functions(flat, 0);
  bool is_flat = s == NULL, is_fatal = weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED;
  if (!is_fatal) {
    weft_status_free(s); /* functions that do not unfold are told when a step needs them */
    s = name_by_nodes(is_flat ? flat : g, v, is_named);
  }
  weft_graph_destroy(flat);
  return s;
}

/* Savers may disagree, so that two variables have one name: then each is called by its node's. */
static weft_status_t *part_namesakes(weft_saved_variables_t *v) {
  weft_map_t owners = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < v->n; i++) {
    weft_saved_variable_t *item = &v->items[i], *other = weft_map_get(&owners, item->tensor);
    if (other == NULL) {
      s = weft_map_put(&owners, item->tensor, item, NULL);
    } else if (!item->is_part || !other->is_part) {
      weft_saved_variable_t *loser = weft_str_eq(item->tensor, item->node->name) ? other : item;
      loser->tensor = loser->node->name;
      loser->is_part = false;
    }
  }
  weft_map_deinit(&owners);
  return s;
}

weft_status_t *weft_saved_variables_find(const weft_graph_t *g, const weft_str_t *step, int num_step,
                                         weft_saved_variables_t *out) {
  WEFT_RETURN_IF_ERROR(weft_saved_variables_collect(g, out));
  WEFT_RETURN_IF_ERROR(mark_needed(g, step, num_step, out));
  WEFT_RETURN_IF_ERROR(weft_saved_variables_name_parts(g, out));
  bool *is_named = weft_calloc((size_t)out->n + 1, sizeof *is_named);
  weft_status_t *s = is_named == NULL ? no_memory() : name_by_savers(g, out, is_named);
  weft_free(is_named);
  return s == NULL ? part_namesakes(out) : s;
}
