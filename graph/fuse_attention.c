/* graph/fuse_attention.c - puts one _WeftAttention in the place of two products and the chain between them.
 *
 * Only the second product's result is read outside, and each of the others by the next alone: so the node is
 * dead where that product is, nothing waits for it that did not wait before, and no cycle comes about.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "ops/chain.h"

static const char *const products[] = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"};

typedef struct attender {
  weft_graph_t *g;
  weft_fanout_t fanout;
  weft_arena_t arena;
  weft_may_attend_fn *may;
  void *arg;
  int num_nodes; /* ids before there are new nodes */
} attender_t;

typedef struct attention_parts {
  weft_node_t *first, *chain, *second;
  weft_chain_t c;
  int scores; /* the input of the chain that is the first product */
} attention_parts_t;

static bool is_product(const weft_node_t *n) {
  bool is_one = false;
  for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
    is_one = is_one || weft_str_is(n->op->name, products[i]);
  return is_one && n->function == NULL && n->num_inputs == 2 && n->input_types[0] == n->output_types[0] &&
         n->input_types[1] == n->output_types[0];
}

/* The node behind input `input` of `reader`, if that alone reads it, by its first output and on its device.
 */
static weft_node_t *lone_producer(const attender_t *a, const weft_node_t *reader, int input) {
  weft_node_t *n = reader->inputs[input].node;
  const bool is_lone = n->id < a->num_nodes && a->fanout.begin[n->id + 1] - a->fanout.begin[n->id] == 1 &&
                       reader->inputs[input].index == 0 && n->num_outputs == 1;
  return is_lone && weft_str_eq(n->assigned_device, reader->assigned_device) ? n : NULL;
}

/* The chain that the node is, or would be by itself; false: it is none. */
static weft_status_t *read_chain(attender_t *a, const weft_node_t *n, weft_chain_t *out, bool *out_is_chain) {
  static const int64_t operand[] = {0}, output[] = {1};
  *out_is_chain = weft_str_is(n->op->name, "_WeftChain");
  if (*out_is_chain) return weft_chain_read(&a->arena, n->attrs, n->num_attrs, out);
  if (!weft_chain_is_by_rows(n->op) || n->function != NULL || weft_node_attr(n, WEFT_NO_CHAIN_ATTR) != NULL)
    return NULL;
  weft_chain_link_t *link = weft_arena_calloc(&a->arena, 1, sizeof *link);
  if (link == NULL) return WEFT_NO_MEMORY("node '%s'", n->name.data);
  *link = (weft_chain_link_t){
      .op = n->op, .node = n->name, .type = n->output_types[0], .num_operands = 1, .operands = operand};
  *out = (weft_chain_t){.num_inputs = 1,
                        .num_links = 1,
                        .num_outputs = 1,
                        .input_types = n->input_types,
                        .links = link,
                        .outputs = output};
  *out_is_chain = true;
  return NULL;
}

/* Looks for the other two from the second product on. */
static weft_status_t *find_parts(attender_t *a, weft_node_t *second, attention_parts_t *out,
                                 bool *out_found) {
  *out_found = false;
  *out = (attention_parts_t){.second = second};
  if (!is_product(second) || second->id >= a->num_nodes || weft_node_attr_bool(second, "adj_x", false))
    return NULL;
  out->chain = lone_producer(a, second, 0);
  if (out->chain == NULL || out->chain->output_types[0] != second->output_types[0]) return NULL;
  bool is_chain = false;
  WEFT_RETURN_IF_ERROR(read_chain(a, out->chain, &out->c, &is_chain));
  for (int i = 0; is_chain && i < out->chain->num_inputs && !*out_found; i++) {
    out->first = lone_producer(a, out->chain, i);
    out->scores = i;
    *out_found = out->first != NULL && is_product(out->first) &&
                 out->first->output_types[0] == second->output_types[0];
  }
  *out_found =
      *out_found && a->may(a->arg, out->first) && a->may(a->arg, out->chain) && a->may(a->arg, second);
  return NULL;
}

/* The chain with two more inputs, which no link reads: all other values have higher numbers. */
static weft_status_t *widen(attender_t *a, weft_chain_t *c, int type) {
  const int n = c->num_inputs;
  int *types = weft_arena_calloc(&a->arena, (size_t)n + 2, sizeof *types);
  weft_chain_link_t *links = weft_arena_calloc(&a->arena, (size_t)c->num_links, sizeof *links);
  int64_t *output = weft_arena_calloc(&a->arena, 1, sizeof *output);
  if (types == NULL || links == NULL || output == NULL)
    return WEFT_NO_MEMORY("a chain of %d links", c->num_links);
  for (int i = 0; i < n; i++) types[i] = c->input_types[i];
  types[n] = types[n + 1] = type;
  for (int i = 0; i < c->num_links; i++) {
    links[i] = c->links[i];
    int64_t *operands = weft_arena_calloc(&a->arena, (size_t)links[i].num_operands, sizeof *operands);
    if (operands == NULL) return WEFT_NO_MEMORY("a chain of %d links", c->num_links);
    for (int k = 0; k < links[i].num_operands; k++)
      operands[k] = c->links[i].operands[k] + (c->links[i].operands[k] < n ? 0 : 2);
    links[i].operands = operands;
  }
  *output = c->outputs[0] + 2;
  c->num_inputs = n + 2;
  c->input_types = types;
  c->links = links;
  c->outputs = output;
  return NULL;
}

enum { NUM_OWN_ATTRS = 8, NUM_ATTRS = WEFT_CHAIN_NUM_ATTRS + NUM_OWN_ATTRS };

static weft_status_t *make_attrs(attender_t *a, attention_parts_t *p, weft_named_attr_t *out) {
  weft_str_t *names = weft_arena_calloc(&a->arena, 6, sizeof *names);
  if (names == NULL) return WEFT_NO_MEMORY("node '%s'", p->second->name.data);
  names[0] = p->first->name;
  names[1] = p->second->name;
  names[2] = p->first->op->name;
  names[3] = p->second->op->name;
  names[4] = weft_node_attr_string(p->first, "equation"); /* empty: it is no Einsum */
  names[5] = weft_node_attr_string(p->second, "equation");
  const int type = p->second->output_types[0];
  WEFT_RETURN_IF_ERROR(widen(a, &p->c, type));
  WEFT_RETURN_IF_ERROR(weft_chain_attrs(&a->arena, &p->c, out));
  out += WEFT_CHAIN_NUM_ATTRS;
  const weft_attr_t texts = {.kind = WEFT_ATTR_STRING, .is_list = true, .n = 2};
  out[0] = weft_int_attr("scores", p->scores);
  out[1] = (weft_named_attr_t){WEFT_STR("products"), texts};
  out[1].value.list.strings = names;
  out[2] = (weft_named_attr_t){WEFT_STR("product_ops"), texts};
  out[2].value.list.strings = names + 2;
  out[3] = weft_type_attr("Tproducts", type);
  out[4] = weft_bool_attr("adj_q", weft_node_attr_bool(p->first, "adj_x", false));
  out[5] = weft_bool_attr("adj_k", weft_node_attr_bool(p->first, "adj_y", false));
  out[6] = weft_bool_attr("adj_v", weft_node_attr_bool(p->second, "adj_y", false));
  out[7] = (weft_named_attr_t){WEFT_STR("equations"), texts};
  out[7].value.list.strings = names + 4;
  return NULL;
}

static weft_status_t *add_controls(attender_t *a, const weft_node_t *from, weft_node_t *to) {
  for (int k = 0; k < from->num_controls; k++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(a->g, from->controls[k], to));
  return NULL;
}

/* What read the second product, or waited for it, has the new node. */
static weft_status_t *hand_over(attender_t *a, const weft_node_t *second, weft_node_t *n) {
  for (int e = a->fanout.begin[second->id]; e < a->fanout.begin[second->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &a->fanout.edges[e];
    if (edge->output >= 0) {
      weft_graph_set_input(edge->to, edge->input, (weft_output_t){n, 0});
      continue;
    }
    int at = -1;
    WEFT_RETURN_IF_ERROR(weft_graph_find_control(a->g, edge->to, second, &at));
    if (at >= 0) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(a->g, edge->to, at, n));
  }
  return NULL;
}

static weft_status_t *replace(attender_t *a, attention_parts_t *p) {
  weft_named_attr_t attrs[NUM_ATTRS];
  weft_node_t *n = NULL, *second = p->second;
  const int num = p->chain->num_inputs;
  weft_output_t *inputs = weft_arena_calloc(&a->arena, (size_t)num + 2, sizeof *inputs);
  if (inputs == NULL) return WEFT_NO_MEMORY("node '%s'", second->name.data);
  for (int i = 0; i < num; i++) inputs[i] = p->chain->inputs[i];
  inputs[p->scores] = p->first->inputs[0];
  inputs[num] = p->first->inputs[1];
  inputs[num + 1] = second->inputs[1];
  WEFT_RETURN_IF_ERROR(make_attrs(a, p, attrs));
  weft_graph_remove(a->g, p->first); /* their memory stays */
  weft_graph_remove(a->g, p->chain);
  weft_graph_remove(a->g, second);
  const weft_node_spec_t spec = {.name = second->name,
                                 .op = WEFT_STR("_WeftAttention"),
                                 .device = second->requested_device,
                                 .inputs = inputs,
                                 .num_inputs = num + 2,
                                 .attrs = attrs,
                                 .num_attrs = NUM_ATTRS};
  WEFT_RETURN_IF_ERROR(weft_graph_add(a->g, &spec, &n));
  n->assigned_device = second->assigned_device;
  WEFT_RETURN_IF_ERROR(add_controls(a, p->first, n));
  WEFT_RETURN_IF_ERROR(add_controls(a, p->chain, n));
  WEFT_RETURN_IF_ERROR(add_controls(a, second, n));
  return hand_over(a, second, n);
}

static weft_status_t *fuse(attender_t *a, weft_node_t *const *order, int n) {
  WEFT_RETURN_IF_ERROR(weft_fanout_build(a->g, &a->fanout));
  for (int i = 0; i < n; i++) {
    attention_parts_t p;
    bool found = false;
    WEFT_RETURN_IF_ERROR(find_parts(a, order[i], &p, &found));
    if (found) WEFT_RETURN_IF_ERROR(replace(a, &p));
  }
  return NULL;
}

/* Producers first: what one node hands over is there when the next one is looked at. */
weft_status_t *weft_pass_fuse_attention(weft_graph_t *g, weft_may_attend_fn *may, void *arg) {
  attender_t a = {.g = g, .arena = WEFT_ARENA_INIT, .may = may, .arg = arg, .num_nodes = g->num_nodes};
  weft_node_t **order = NULL;
  bool has_product = false;
  for (int i = 0; i < g->num_nodes && !has_product; i++)
    has_product = g->nodes[i] != NULL && is_product(g->nodes[i]);
  if (!has_product) return NULL;
  const int n = g->num_live;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  if (s == NULL) s = fuse(&a, order, n);
  weft_free(order);
  weft_fanout_deinit(&a.fanout);
  weft_arena_deinit(&a.arena);
  return s;
}
