/* graph/fuse_chains.c - puts one _WeftChain in the place of each region of elementwise nodes and
 * reductions (chain_regions.h). */
#include "base/alloc.h"
#include "graph/chain_regions.h"
#include "ops/chain.h"

typedef struct fuser {
  weft_graph_t *g;
  weft_arena_t arena;
  weft_fanout_t fanout;
  weft_chain_regions_t regions;
  int num_nodes;         /* ids before there are chains */
  int *value_of;         /* by node id: its result's number among the links of its chain */
  weft_node_t **chains;  /* by region, as far as there are */
  weft_output_t *inputs; /* of the chain at hand */
  int num_inputs;
  weft_map_t input_numbers; /* output -> number + 1, of the chain at hand */
} fuser_t;

static weft_status_t *no_memory(const fuser_t *f) {
  return WEFT_NO_MEMORY("fusing elementwise nodes of a graph of %d nodes", f->g->num_live);
}

static int region_of(const fuser_t *f, const weft_node_t *n) {
  return n->id < f->num_nodes ? f->regions.region_of[n->id] : -1;
}

/* ---- what a chain says ---- */

static uint64_t output_key(weft_output_t of) {
  return (uint64_t)(uint32_t)of.node->id << 32 | (uint32_t)of.index;
}

static weft_status_t *add_input(fuser_t *f, weft_output_t of, int type, int *types) {
  if (weft_map_get_u64(&f->input_numbers, output_key(of)) != NULL) return NULL;
  types[f->num_inputs] = type;
  f->inputs[f->num_inputs++] = of;
  return weft_map_put_u64(&f->input_numbers, output_key(of), (void *)(uintptr_t)f->num_inputs, NULL);
}

static weft_status_t *find_inputs(fuser_t *f, int r, weft_node_t *const *nodes, int n, weft_chain_t *c) {
  size_t most = 0;
  for (int l = 0; l < n; l++) most += (size_t)nodes[l]->num_inputs;
  int *types = weft_arena_calloc(&f->arena, most, sizeof *types);
  f->inputs = weft_arena_calloc(&f->arena, most, sizeof *f->inputs);
  if (types == NULL || f->inputs == NULL) return no_memory(f);
  f->num_inputs = 0;
  weft_map_deinit(&f->input_numbers);
  f->input_numbers = (weft_map_t)WEFT_MAP_INIT;
  for (int l = 0; l < n; l++) {
    f->value_of[nodes[l]->id] = l;
    for (int i = 0; i < nodes[l]->num_inputs; i++) {
      if (region_of(f, nodes[l]->inputs[i].node) == r) continue;
      WEFT_RETURN_IF_ERROR(add_input(f, nodes[l]->inputs[i], nodes[l]->input_types[i], types));
    }
  }
  c->num_inputs = f->num_inputs;
  c->input_types = types;
  return NULL;
}

static bool is_read_outside(const fuser_t *f, const weft_node_t *n, int r) {
  for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &f->fanout.edges[e];
    if (edge->output >= 0 && region_of(f, edge->to) != r) return true;
  }
  return false;
}

static weft_status_t *find_outputs(fuser_t *f, int r, weft_node_t *const *nodes, int n, weft_chain_t *c) {
  int64_t *outputs = weft_arena_calloc(&f->arena, (size_t)n, sizeof *outputs);
  if (outputs == NULL) return no_memory(f);
  for (int l = 0; l < n; l++) {
    if (is_read_outside(f, nodes[l], r)) outputs[c->num_outputs++] = c->num_inputs + l;
  }
  if (c->num_outputs == 0) outputs[c->num_outputs++] = c->num_inputs + n - 1; /* it is run for its own sake */
  c->outputs = outputs;
  return NULL;
}

static weft_status_t *describe(fuser_t *f, int r, weft_chain_t *c) {
  weft_node_t *const *nodes = &f->regions.nodes[f->regions.begin[r]];
  const int n = f->regions.begin[r + 1] - f->regions.begin[r];
  *c = (weft_chain_t){.num_links = n};
  WEFT_RETURN_IF_ERROR(find_inputs(f, r, nodes, n, c));
  WEFT_RETURN_IF_ERROR(find_outputs(f, r, nodes, n, c));
  weft_chain_link_t *links = weft_arena_calloc(&f->arena, (size_t)n, sizeof *links);
  if (links == NULL) return no_memory(f);
  for (int l = 0; l < n; l++) {
    const weft_node_t *node = nodes[l];
    int64_t *operands = weft_arena_calloc(&f->arena, (size_t)node->num_inputs, sizeof *operands);
    if (operands == NULL) return no_memory(f);
    for (int i = 0; i < node->num_inputs; i++) {
      const weft_output_t of = node->inputs[i];
      operands[i] = region_of(f, of.node) == r
                        ? c->num_inputs + f->value_of[of.node->id]
                        : (int64_t)(uintptr_t)weft_map_get_u64(&f->input_numbers, output_key(of)) - 1;
    }
    links[l] = (weft_chain_link_t){.op = node->op,
                                   .node = node->name,
                                   .type = node->output_types[0],
                                   .keeps_dims = weft_node_attr_bool(node, "keep_dims", false),
                                   .num_operands = node->num_inputs,
                                   .operands = operands};
  }
  c->links = links;
  return NULL;
}

/* ---- a region becomes a node ---- */

/* What waits for a link waits for its chain. Of chains that are not there yet nothing is asked: they come
 * behind. */
static weft_node_t *is_now(const fuser_t *f, weft_node_t *n) {
  const int r = region_of(f, n);
  return r >= 0 && f->chains[r] != NULL ? f->chains[r] : n;
}

/* Consumers outside get the chain's outputs. */
static void hand_over(fuser_t *f, int r, const weft_chain_t *c, weft_node_t *chain) {
  for (int o = 0; o < c->num_outputs; o++) {
    const weft_node_t *n = f->regions.nodes[f->regions.begin[r] + (int)c->outputs[o] - c->num_inputs];
    for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
      const weft_fanout_edge_t *edge = &f->fanout.edges[e];
      if (edge->output >= 0 && region_of(f, edge->to) != r)
        weft_graph_set_input(edge->to, edge->input, (weft_output_t){chain, o});
    }
  }
}

/* The chain has its last link's name. */
static weft_status_t *replace(fuser_t *f, int r) {
  weft_chain_t c;
  weft_named_attr_t attrs[WEFT_CHAIN_NUM_ATTRS];
  weft_node_t **nodes = &f->regions.nodes[f->regions.begin[r]], *chain = NULL;
  const int n = f->regions.begin[r + 1] - f->regions.begin[r];
  const weft_node_t *last = nodes[n - 1];
  WEFT_RETURN_IF_ERROR(describe(f, r, &c));
  WEFT_RETURN_IF_ERROR(weft_chain_attrs(&f->arena, &c, attrs));
  for (int i = 0; i < n; i++) weft_graph_remove(f->g, nodes[i]); /* their memory stays */
  const weft_node_spec_t spec = {.name = last->name,
                                 .op = WEFT_STR("_WeftChain"),
                                 .device = last->requested_device,
                                 .inputs = f->inputs,
                                 .num_inputs = c.num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = WEFT_CHAIN_NUM_ATTRS};
  WEFT_RETURN_IF_ERROR(weft_graph_add(f->g, &spec, &chain));
  chain->assigned_device = last->assigned_device;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < nodes[i]->num_controls; k++) {
      weft_node_t *from = nodes[i]->controls[k];
      if (region_of(f, from) != r) WEFT_RETURN_IF_ERROR(weft_graph_add_control(f->g, is_now(f, from), chain));
    }
  }
  f->chains[r] = chain;
  hand_over(f, r, &c, chain);
  return NULL;
}

/* Nodes that waited for links wait for chains, for each once. */
static weft_status_t *hand_over_controls(fuser_t *f, weft_node_t *n) {
  bool has_links = false;
  for (int i = 0; i < n->num_controls; i++) has_links |= is_now(f, n->controls[i]) != n->controls[i];
  if (!has_links) return NULL;
  const int num = n->num_controls;
  weft_node_t **from = weft_arena_calloc(&f->arena, (size_t)num, sizeof(weft_node_t *));
  if (from == NULL) return no_memory(f);
  memcpy(from, n->controls, (size_t)num * sizeof(weft_node_t *));
  weft_graph_clear_controls(f->g, n);
  for (int i = 0; i < num; i++) WEFT_RETURN_IF_ERROR(weft_graph_add_control(f->g, is_now(f, from[i]), n));
  return NULL;
}

static weft_status_t *fuse(fuser_t *f, weft_chain_limits_fn *limits, void *arg) {
  WEFT_RETURN_IF_ERROR(weft_fanout_build(f->g, &f->fanout));
  WEFT_RETURN_IF_ERROR(weft_chain_regions_find(f->g, &f->fanout, limits, arg, &f->arena, &f->regions));
  if (f->regions.num_regions == 0) return NULL;
  f->value_of = weft_arena_calloc(&f->arena, (size_t)f->num_nodes + 1, sizeof *f->value_of);
  f->chains = weft_arena_calloc(&f->arena, (size_t)f->regions.num_regions, sizeof(weft_node_t *));
  if (f->value_of == NULL || f->chains == NULL) return no_memory(f);
  for (int r = 0; r < f->regions.num_regions; r++) WEFT_RETURN_IF_ERROR(replace(f, r));
  for (int id = 0; id < f->num_nodes; id++) {
    if (f->g->nodes[id] != NULL) WEFT_RETURN_IF_ERROR(hand_over_controls(f, f->g->nodes[id]));
  }
  return NULL;
}

weft_status_t *weft_pass_fuse_chains(weft_graph_t *g, weft_chain_limits_fn *limits, void *arg) {
  fuser_t f = {.g = g, .arena = WEFT_ARENA_INIT, .num_nodes = g->num_nodes};
  weft_status_t *s = fuse(&f, limits, arg);
  weft_fanout_deinit(&f.fanout);
  weft_map_deinit(&f.input_numbers);
  weft_arena_deinit(&f.arena);
  return s;
}
