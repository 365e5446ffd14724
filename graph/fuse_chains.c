/* graph/fuse_chains.c - puts one _WeftChain in the place of elementwise nodes that feed only each other.
 *
 * Nodes are taken from the last to the first. A node joins the region of its consumers if all of them are in
 * one, so that only the region's last node is seen outside, and a path from a region back into it would have
 * been a cycle before.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "ops/chain.h"

typedef struct region {
  weft_node_t *links[WEFT_CHAIN_MAX_LINKS]; /* from the last to the first */
  int n;
} region_t;

typedef struct fuser {
  weft_graph_t *g;
  weft_may_link_fn *may_link;
  void *arg;
  weft_arena_t arena;
  weft_fanout_t fanout;
  weft_node_t **order; /* owned; num_live of them */
  int num_nodes, num_live;
  region_t **region_of; /* owned; by id */
} fuser_t;

/* ---- which nodes may be links ---- */

/* A link has no attributes of its own: types and numbers of inputs follow from its operands, and all others
 * must be what the op has by default. */
static bool has_plain_attrs(const weft_node_t *n) {
  for (int i = 0; i < n->op->num_attrs; i++) {
    const weft_attr_def_t *def = &n->op->attrs[i];
    const weft_attr_t *a = weft_attr_find(n->attrs, n->num_attrs, def->name.data);
    if (def->kind == WEFT_ATTR_TYPE && !def->is_list) continue;
    if (weft_str_is(def->name, "N")) continue;
    if (a == NULL || !def->has_default || !weft_attr_eq(a, &def->default_value)) return false;
  }
  return true;
}

static bool is_link(const fuser_t *f, const weft_node_t *n) {
  const uint64_t never = WEFT_OP_STATEFUL | WEFT_OP_BLOCKING | WEFT_OP_UPDATE | WEFT_OP_EFFECT;
  if (n->function != NULL || !weft_op_is_elementwise(n->op) || (n->flags & never) != 0) return false;
  if (n->num_outputs != 1 || n->num_inputs < 1 || n->num_inputs > WEFT_CHAIN_MAX_INPUTS) return false;
  if (weft_dtype_is_ref(n->output_types[0])) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if (weft_dtype_is_ref(n->input_types[i])) return false;
  }
  return has_plain_attrs(n) && f->may_link(f->arg, n);
}

/* ---- regions ---- */

static bool has(const region_t *r, const weft_node_t *n) {
  for (int i = 0; i < r->n; i++) {
    if (r->links[i] == n) return true;
  }
  return false;
}

/* The number of an output among the inputs of a chain, appended if it is new; -1: there are too many. */
static int input_of(weft_output_t *inputs, int *n, weft_output_t of) {
  for (int i = 0; i < *n; i++) {
    if (inputs[i].node == of.node && inputs[i].index == of.index) return i;
  }
  if (*n == WEFT_CHAIN_MAX_INPUTS) return -1;
  inputs[*n] = of;
  return (*n)++;
}

/* Would the region with `n` have few enough inputs? */
static bool has_room(const region_t *r, const weft_node_t *n) {
  weft_output_t inputs[WEFT_CHAIN_MAX_INPUTS];
  int num = 0;
  if (r->n == WEFT_CHAIN_MAX_LINKS) return false;
  for (int l = 0; l <= r->n; l++) {
    const weft_node_t *link = l < r->n ? r->links[l] : n;
    for (int i = 0; i < link->num_inputs; i++) {
      const weft_output_t from = link->inputs[i];
      if (from.node != n && !has(r, from.node) && input_of(inputs, &num, from) < 0) return false;
    }
  }
  return true;
}

/* The region that all consumers of `n` are in, or NULL. */
static region_t *region_of_consumers(const fuser_t *f, const weft_node_t *n) {
  region_t *r = NULL;
  for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &f->fanout.edges[e];
    region_t *of = f->region_of[edge->to->id];
    if (edge->output < 0 || of == NULL || (r != NULL && of != r)) return NULL;
    r = of;
  }
  return r;
}

static weft_status_t *find_regions(fuser_t *f) {
  for (int i = f->num_live - 1; i >= 0; i--) {
    weft_node_t *n = f->order[i];
    if (!is_link(f, n)) continue;
    region_t *r = region_of_consumers(f, n);
    if (r == NULL || !weft_str_eq(r->links[0]->assigned_device, n->assigned_device) || !has_room(r, n)) {
      r = weft_arena_calloc(&f->arena, 1, sizeof *r);
      if (r == NULL) return WEFT_NO_MEMORY("looking for chains in a graph of %d nodes", f->num_live);
    }
    r->links[r->n++] = n;
    f->region_of[n->id] = r;
  }
  return NULL;
}

/* ---- a region becomes a node ---- */

static int place_of(const region_t *r, const weft_node_t *n) { /* among the links of the chain; -1: none */
  for (int i = 0; i < r->n; i++) {
    if (r->links[i] == n) return r->n - 1 - i;
  }
  return -1;
}

static weft_status_t *describe(fuser_t *f, const region_t *r, weft_chain_t *c, weft_output_t *inputs) {
  int *types = weft_arena_calloc(&f->arena, WEFT_CHAIN_MAX_INPUTS, sizeof *types);
  if (types == NULL) return WEFT_NO_MEMORY("a chain of %d links", r->n);
  *c = (weft_chain_t){.num_links = r->n, .input_types = types};
  for (int l = 0; l < r->n; l++) {
    const weft_node_t *n = r->links[r->n - 1 - l];
    for (int i = 0; i < n->num_inputs; i++) {
      if (place_of(r, n->inputs[i].node) < 0)
        types[input_of(inputs, &c->num_inputs, n->inputs[i])] = n->input_types[i];
    }
  }
  for (int l = 0; l < r->n; l++) {
    const weft_node_t *n = r->links[r->n - 1 - l];
    int64_t *operands = weft_arena_calloc(&f->arena, (size_t)n->num_inputs, sizeof *operands);
    if (operands == NULL) return WEFT_NO_MEMORY("a chain of %d links", r->n);
    for (int i = 0; i < n->num_inputs; i++) {
      const int place = place_of(r, n->inputs[i].node);
      operands[i] = place >= 0 ? c->num_inputs + place : input_of(inputs, &c->num_inputs, n->inputs[i]);
    }
    c->links[l] = (weft_chain_link_t){.op = n->op,
                                      .node = n->name,
                                      .type = n->output_types[0],
                                      .num_operands = n->num_inputs,
                                      .operands = operands};
  }
  return NULL;
}

/* Consumers of the last link get the chain's output. */
static weft_status_t *hand_over(fuser_t *f, weft_node_t *last, weft_node_t *chain) {
  for (int e = f->fanout.begin[last->id]; e < f->fanout.begin[last->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &f->fanout.edges[e];
    int at = -1;
    if (edge->output >= 0) {
      weft_graph_set_input(edge->to, edge->input, (weft_output_t){chain, 0});
      continue;
    }
    WEFT_RETURN_IF_ERROR(weft_graph_find_control(f->g, edge->to, last, &at));
    if (at >= 0) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(f->g, edge->to, at, chain));
  }
  return NULL;
}

static weft_status_t *replace(fuser_t *f, const region_t *r) {
  weft_chain_t c;
  weft_output_t inputs[WEFT_CHAIN_MAX_INPUTS];
  weft_named_attr_t attrs[WEFT_CHAIN_NUM_ATTRS];
  weft_node_t *last = r->links[0], *chain = NULL;
  WEFT_RETURN_IF_ERROR(describe(f, r, &c, inputs));
  WEFT_RETURN_IF_ERROR(weft_chain_attrs(&f->arena, &c, attrs));
  for (int i = 0; i < r->n; i++) weft_graph_remove(f->g, r->links[i]); /* their memory stays */
  const weft_node_spec_t spec = {.name = last->name,
                                 .op = WEFT_STR("_WeftChain"),
                                 .device = last->requested_device,
                                 .inputs = inputs,
                                 .num_inputs = c.num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = WEFT_CHAIN_NUM_ATTRS};
  WEFT_RETURN_IF_ERROR(weft_graph_add(f->g, &spec, &chain));
  chain->assigned_device = last->assigned_device;
  for (int i = 0; i < r->n; i++) {
    for (int k = 0; k < r->links[i]->num_controls; k++)
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(f->g, r->links[i]->controls[k], chain));
  }
  return hand_over(f, last, chain);
}

static weft_status_t *fuse(fuser_t *f) {
  f->region_of = weft_calloc((size_t)f->num_nodes + 1, sizeof *f->region_of);
  if (f->region_of == NULL) return WEFT_NO_MEMORY("looking for chains in a graph of %d nodes", f->num_live);
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(f->g, &f->order));
  WEFT_RETURN_IF_ERROR(weft_fanout_build(f->g, &f->fanout));
  WEFT_RETURN_IF_ERROR(find_regions(f));
  /* From the first to the last: the inputs of a region may be the last links of earlier ones. */
  for (int i = 0; i < f->num_live; i++) {
    const region_t *r = f->region_of[f->order[i]->id];
    if (r != NULL && r->n > 1 && r->links[0] == f->order[i]) WEFT_RETURN_IF_ERROR(replace(f, r));
  }
  return NULL;
}

weft_status_t *weft_pass_fuse_chains(weft_graph_t *g, weft_may_link_fn *may_link, void *arg) {
  fuser_t f = {.g = g,
               .may_link = may_link,
               .arg = arg,
               .arena = WEFT_ARENA_INIT,
               .num_nodes = g->num_nodes,
               .num_live = g->num_live};
  weft_status_t *s = fuse(&f);
  weft_fanout_deinit(&f.fanout);
  weft_free(f.order);
  weft_free(f.region_of);
  weft_arena_deinit(&f.arena);
  return s;
}
