/* graph/chain_regions.c - which elementwise nodes and reductions of rows become one _WeftChain.
 *
 * A chain is one node of the plan: it waits for all that its links wait for, is dead as a whole, and its
 * outputs come together. Links whose results are read outside therefore wait for the same sources, are dead
 * together and come behind the same nodes of some cost (sources.h): they are of one class. What is read only
 * by one chain may join it whatever its class: it is needed for nothing else.
 *
 * 1. Where a device computes chains of several outputs, nodes are taken in an order of execution: first all
 *    that are ready and of no class; when there are none, all that are ready of one class, and what gets
 *    ready in that class meanwhile. These are a wave. No node outside is taken between two of a wave, so that
 *    no path leads from the wave out and back, and what is joined within waves leaves the graph without
 *    cycles. Links of a wave that read one another, or wait for one another, are a region.
 * 2. From the last region to the first: one whose results are all read by one other region joins that. Paths
 *    out of it lead into the other, so that this makes no cycle, either. On devices whose chains have one
 *    output this is all.
 *
 * Source: 1 is list scheduling (Graham, "Bounds on multiprocessing timing anomalies", 1969) with classes in
 * the place of machines.
 */
#include "graph/chain_regions.h"

#include "base/alloc.h"
#include "graph/sources.h"
#include "ops/chain.h"

enum { NONE = -1 };

typedef struct region_link {
  weft_node_t *node;
  const weft_chain_limits_t *limits;
  int class;                    /* NONE: its chain has one output */
  int next;                     /* of its class's stack */
  int wave;                     /* in which it was taken */
  int parent;                   /* towards the region's first link; itself: it is that */
  int num_links;                /* of the region, of its first link */
  int first, last, next_member; /* of the region, of its first link; next_member: of each */
} region_link_t;

typedef struct region_class {
  int top;         /* of the stack of links that are ready; NONE: it is empty */
  bool is_waiting; /* in the list of classes */
  int next;
} region_class_t;

typedef struct region_finder {
  const weft_graph_t *g;
  const weft_fanout_t *fanout;
  weft_arena_t *arena;
  weft_node_t **order; /* owned */
  int *link_of;        /* by node id; NONE: it is none */
  region_link_t *links;
  int *taken; /* links in the order in which they are taken */
  int num_links, num_taken;
  bool has_waves;           /* some device computes chains of several outputs */
  region_class_t **classes; /* in the arena */
  weft_map_t by_key;        /* key -> class number + 1 */
  int num_classes, first_class, last_class;
  int *pending;        /* by node id: inputs that are not there yet */
  weft_node_t **ready; /* of no class; a stack */
  int num_ready;
} region_finder_t;

static weft_status_t *no_memory(const region_finder_t *f) {
  return WEFT_NO_MEMORY("looking for chains in a graph of %d nodes", f->g->num_live);
}

/* ---- which nodes may be links ---- */

/* A link has no attributes of its own but keep_dims: types and numbers of inputs follow from its operands,
 * and all others must be what the op has by default. */
static bool has_plain_attrs(const weft_node_t *n) {
  const bool reduces = weft_chain_reduces(n->op);
  for (int i = 0; i < n->op->num_attrs; i++) {
    const weft_attr_def_t *def = &n->op->attrs[i];
    const weft_attr_t *a = weft_attr_find(n->attrs, n->num_attrs, def->name.data);
    if (def->kind == WEFT_ATTR_TYPE && !def->is_list) continue;
    if (weft_str_is(def->name, "N") || (reduces && weft_str_is(def->name, "keep_dims"))) continue;
    if (a == NULL || !def->has_default || !weft_attr_eq(a, &def->default_value)) return false;
  }
  return true;
}

/* Are the axes of a reduction constant, and, as far as one can tell without shapes, the innermost ones? Then
 * its result follows from a row of elements, and a chain needs no other. */
static bool reduces_rows(const weft_node_t *n) {
  const weft_node_t *axes = n->inputs[1].node;
  const weft_attr_t *value = (axes->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(axes, "value") : NULL;
  if (value == NULL || value->kind != WEFT_ATTR_TENSOR || value->is_list) return false;
  const weft_tensor_t *t = value->tensor;
  if (t->dtype != weft_dtype_base(n->input_types[1])) return false;
  int64_t least = 0, most = 0;
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t axis = t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    least = i == 0 || axis < least ? axis : least;
    most = i == 0 || axis > most ? axis : most;
  }
  const bool is_last = least < 0 ? most == -1 : least > 0; /* 0 is the outermost one */
  return t->count > 0 && t->count <= WEFT_MAX_DIMS && is_last && most - least == t->count - 1;
}

static bool may_be_link(const weft_node_t *n) {
  const uint64_t never = WEFT_OP_STATEFUL | WEFT_OP_BLOCKING | WEFT_OP_UPDATE | WEFT_OP_EFFECT;
  if (n->function != NULL || !weft_chain_may_link(n->op) || (n->flags & never) != 0) return false;
  if (n->num_outputs != 1 || n->num_inputs < 1 || weft_dtype_is_ref(n->output_types[0])) return false;
  for (int i = 0; i < n->num_inputs; i++) { /* a reference is read when the node runs */
    const weft_output_t from = n->inputs[i];
    if (weft_dtype_is_ref(n->input_types[i]) || weft_dtype_is_ref(from.node->output_types[from.index]))
      return false;
  }
  if (weft_chain_reduces(n->op) && !reduces_rows(n)) return false;
  return has_plain_attrs(n) && weft_node_attr(n, WEFT_NO_CHAIN_ATTR) == NULL;
}

bool weft_pass_may_fuse_chains(const weft_graph_t *g, weft_chain_limits_fn *limits, void *arg) {
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n == NULL || !may_be_link(n)) continue;
    if (weft_chain_is_by_rows(n->op) && limits(arg, n) != NULL) return true; /* weft_pass_fuse_attention */
    for (int k = 0; k < n->num_inputs; k++) {
      const weft_node_t *from = n->inputs[k].node;
      if (may_be_link(from) && limits(arg, n) != NULL && limits(arg, from) != NULL) return true;
    }
  }
  return false;
}

static weft_status_t *find_links(region_finder_t *f, weft_chain_limits_fn *limits, void *arg) {
  const weft_graph_t *g = f->g;
  f->link_of = weft_arena_calloc(f->arena, (size_t)g->num_nodes + 1, sizeof *f->link_of);
  f->links = weft_arena_calloc(f->arena, (size_t)g->num_live + 1, sizeof *f->links);
  f->taken = weft_arena_calloc(f->arena, (size_t)g->num_live + 1, sizeof *f->taken);
  if (f->link_of == NULL || f->links == NULL || f->taken == NULL) return no_memory(f);
  for (int i = 0; i < g->num_nodes; i++) f->link_of[i] = NONE;
  for (int i = 0; i < g->num_live; i++) {
    weft_node_t *n = f->order[i];
    const weft_chain_limits_t *of = may_be_link(n) ? limits(arg, n) : NULL;
    if (of == NULL || n->num_inputs > of->inputs) continue;
    const int l = f->num_links++;
    f->link_of[n->id] = l;
    f->links[l] = (region_link_t){.node = n,
                                  .limits = of,
                                  .class = NONE,
                                  .parent = l,
                                  .num_links = 1,
                                  .first = l,
                                  .last = l,
                                  .next_member = NONE};
    f->has_waves |= of->outputs > 1;
  }
  return NULL;
}

/* ---- classes ---- */

static bool is_free(void *arg, const weft_node_t *n) {
  const region_finder_t *f = arg;
  return f->link_of[n->id] != NONE || (n->flags & (WEFT_OP_CHEAP | WEFT_OP_ARG)) != 0 ||
         weft_node_attr_bool(n, "client_terminated", false);
}

static weft_status_t *find_class(region_finder_t *f, const weft_node_sources_t *sources, region_link_t *l) {
  const int id = l->node->id;
  struct {
    const char *device;
    uint64_t frame;
    uint32_t waits, dead, costs, unused;
  } key = {l->node->assigned_device.data, (uint64_t)sources->frames.frame_of[id],
           sources->waits_of[id],         sources->dead_of[id],
           sources->costs_of[id],         0};
  if (l->limits->outputs <= 1 || key.waits == WEFT_TOO_MANY_SOURCES || key.dead == WEFT_TOO_MANY_SOURCES ||
      key.costs == WEFT_TOO_MANY_SOURCES)
    return NULL;
  const uintptr_t known = (uintptr_t)weft_map_get(&f->by_key, weft_str_of((const char *)&key, sizeof key));
  if (known != 0) {
    l->class = (int)known - 1;
    return NULL;
  }
  char *kept = weft_arena_calloc(f->arena, 1, sizeof key);
  region_class_t *class = weft_arena_calloc(f->arena, 1, sizeof *class);
  if (kept == NULL || class == NULL) return no_memory(f);
  memcpy(kept, &key, sizeof key);
  *class = (region_class_t){.top = NONE, .next = NONE};
  l->class = f->num_classes;
  f->classes[f->num_classes++] = class;
  return weft_map_put(&f->by_key, weft_str_of(kept, sizeof key), (void *)((uintptr_t)l->class + 1), NULL);
}

static weft_status_t *find_classes(region_finder_t *f) {
  weft_node_sources_t sources;
  weft_arena_t arena = WEFT_ARENA_INIT;
  f->classes = weft_arena_calloc(f->arena, (size_t)f->num_links + 1, sizeof(region_class_t *));
  if (f->classes == NULL) return no_memory(f);
  weft_status_t *s = weft_pass_find_sources(f->g, f->order, false, is_free, f, &arena, &sources);
  for (int i = 0; s == NULL && i < f->num_links; i++) s = find_class(f, &sources, &f->links[i]);
  weft_arena_deinit(&arena);
  return s;
}

/* ---- regions ---- */

static int region_of(region_finder_t *f, int link) {
  while (f->links[link].parent != link) {
    f->links[link].parent = f->links[f->links[link].parent].parent;
    link = f->links[link].parent;
  }
  return link;
}

/* Region `from` becomes part of region `to`; its links come first. */
static void join(region_finder_t *f, int from, int to) {
  f->links[from].parent = to;
  f->links[to].num_links += f->links[from].num_links;
  f->links[f->links[from].last].next_member = f->links[to].first;
  f->links[to].first = f->links[from].first;
}

/* ---- waves ---- */

static void push_class(region_finder_t *f, int class) {
  region_class_t *c = f->classes[class];
  if (c->is_waiting) return;
  c->is_waiting = true;
  c->next = NONE;
  if (f->first_class == NONE) {
    f->first_class = class;
  } else {
    f->classes[f->last_class]->next = class;
  }
  f->last_class = class;
}

static void get_ready(region_finder_t *f, weft_node_t *n) {
  const int l = f->link_of[n->id];
  if (l == NONE || f->links[l].class == NONE) {
    f->ready[f->num_ready++] = n;
    return;
  }
  region_class_t *c = f->classes[f->links[l].class];
  f->links[l].next = c->top;
  c->top = l;
  push_class(f, f->links[l].class);
}

static bool is_back_edge(const weft_node_t *from) { return (from->flags & WEFT_OP_NEXT_ITERATION) != 0; }

static void release_consumers(region_finder_t *f, const weft_node_t *n) {
  if (is_back_edge(n)) return;
  for (int e = f->fanout->begin[n->id]; e < f->fanout->begin[n->id + 1]; e++) {
    weft_node_t *to = f->fanout->edges[e].to;
    if (--f->pending[to->id] == 0) get_ready(f, to);
  }
}

/* Joins the link's region with that of something it waits for, if that is of the same wave. */
static void join_with(region_finder_t *f, int link, const weft_node_t *waits_for) {
  const int from = f->link_of[waits_for->id];
  if (from == NONE || f->links[from].wave != f->links[link].wave || f->links[link].class == NONE) return;
  const int region = region_of(f, from), mine = region_of(f, link);
  if (region != mine) join(f, region, mine);
}

static void take(region_finder_t *f, int link, int wave) {
  region_link_t *l = &f->links[link];
  l->wave = wave;
  f->taken[f->num_taken++] = link;
  for (int i = 0; i < l->node->num_inputs; i++) join_with(f, link, l->node->inputs[i].node);
  for (int i = 0; i < l->node->num_controls; i++) join_with(f, link, l->node->controls[i]);
  release_consumers(f, l->node);
}

static void take_ready(region_finder_t *f, int wave) {
  while (f->num_ready > 0) {
    weft_node_t *n = f->ready[--f->num_ready];
    if (f->link_of[n->id] != NONE) {
      take(f, f->link_of[n->id], wave);
    } else {
      release_consumers(f, n);
    }
  }
}

/* A wave of the class that waits longest. */
static void take_class(region_finder_t *f, int wave) {
  const int number = f->first_class;
  region_class_t *c = f->classes[number];
  f->first_class = c->next;
  int room = f->links[c->top].limits->links;
  for (; c->top != NONE && room > 0; room--) {
    const int link = c->top;
    c->top = f->links[link].next;
    take(f, link, wave);
  }
  c->is_waiting = false;
  if (c->top != NONE) push_class(f, number);
}

/* Waves have numbers from 1 on, those of a class even ones. */
static weft_status_t *take_all(region_finder_t *f) {
  const weft_graph_t *g = f->g;
  f->pending = weft_arena_calloc(f->arena, (size_t)g->num_nodes + 1, sizeof *f->pending);
  f->ready = weft_arena_calloc(f->arena, (size_t)g->num_live + 1, sizeof(weft_node_t *));
  if (f->pending == NULL || f->ready == NULL) return no_memory(f);
  for (int i = 0; i < g->num_live; i++) {
    const weft_node_t *n = f->order[i];
    for (int k = 0; k < n->num_inputs; k++) f->pending[n->id] += !is_back_edge(n->inputs[k].node);
    for (int k = 0; k < n->num_controls; k++) f->pending[n->id] += !is_back_edge(n->controls[k]);
  }
  f->first_class = NONE;
  for (int i = 0; i < g->num_live; i++) {
    if (f->pending[f->order[i]->id] == 0) get_ready(f, f->order[i]);
  }
  take_ready(f, 1);
  for (int wave = 2; f->first_class != NONE; wave += 2) {
    take_class(f, wave);
    take_ready(f, wave + 1);
  }
  return NULL;
}

/* ---- regions that only one other reads ---- */

/* Are there at most `most` values that the two regions read from outside? */
static bool has_few_inputs(region_finder_t *f, int a, int b, int most) {
  weft_output_t inputs[64];
  int n = 0;
  const int regions[2] = {a, b};
  if (most > 64) return true;
  for (int r = 0; r < 2; r++) {
    for (int l = f->links[regions[r]].first;; l = f->links[l].next_member) {
      const weft_node_t *node = f->links[l].node;
      for (int i = 0; i < node->num_inputs; i++) {
        const weft_output_t from = node->inputs[i];
        const int link = f->link_of[from.node->id], in = link == NONE ? NONE : region_of(f, link);
        int k = 0;
        if (in == a || in == b) continue;
        while (k < n && (inputs[k].node != from.node || inputs[k].index != from.index)) k++;
        if (k < n) continue;
        if (n == most) return false;
        inputs[n++] = from;
      }
      if (l == f->links[regions[r]].last) break;
    }
  }
  return true;
}

/* The one region that reads all of region `r`, of which nothing else is read; NONE: there is none. */
static int only_reader(region_finder_t *f, int r) {
  int reader = NONE;
  for (int l = f->links[r].first;; l = f->links[l].next_member) {
    const int id = f->links[l].node->id;
    for (int e = f->fanout->begin[id]; e < f->fanout->begin[id + 1]; e++) {
      const weft_fanout_edge_t *edge = &f->fanout->edges[e];
      const int to = f->link_of[edge->to->id], in = to == NONE ? NONE : region_of(f, to);
      if (in == r) continue;
      if (edge->output < 0 || in == NONE || (reader != NONE && in != reader)) return NONE;
      reader = in;
    }
    if (l == f->links[r].last) return reader;
  }
}

static void join_readers(region_finder_t *f) {
  for (int i = f->num_taken - 1; i >= 0; i--) {
    const int r = f->taken[i];
    if (f->links[r].parent != r) continue;
    const int reader = only_reader(f, r);
    if (reader == NONE) continue;
    const region_link_t *from = &f->links[r], *to = &f->links[reader];
    if (from->limits != to->limits || from->num_links > to->limits->links - to->num_links ||
        !weft_str_eq(from->node->assigned_device, to->node->assigned_device) ||
        !has_few_inputs(f, r, reader, to->limits->inputs))
      continue;
    join(f, r, reader);
  }
}

/* ---- the result ---- */

/* Regions are numbered in the order in which their own waves were taken, and lists are in order, too. */
static weft_status_t *list_regions(region_finder_t *f, weft_chain_regions_t *out) {
  int *number = weft_arena_calloc(f->arena, (size_t)f->num_links + 1, sizeof *number); /* + 1; by link */
  out->begin = weft_arena_calloc(f->arena, (size_t)f->num_links + 2, sizeof *out->begin);
  out->nodes = weft_arena_calloc(f->arena, (size_t)f->num_links + 1, sizeof(weft_node_t *));
  out->region_of = weft_arena_calloc(f->arena, (size_t)f->g->num_nodes + 1, sizeof *out->region_of);
  if (number == NULL || out->begin == NULL || out->nodes == NULL || out->region_of == NULL)
    return no_memory(f);
  for (int i = 0; i < f->g->num_nodes; i++) out->region_of[i] = NONE;
  for (int i = 0; i < f->num_taken; i++) {
    const int r = f->taken[i];
    if (f->links[r].parent != r || f->links[r].num_links < 2) continue;
    number[r] = ++out->num_regions;
    out->begin[out->num_regions + 1] = f->links[r].num_links;
  }
  for (int r = 0; r < out->num_regions; r++) out->begin[r + 2] += out->begin[r + 1];
  for (int i = 0; i < f->num_taken; i++) {
    const int r = number[region_of(f, f->taken[i])] - 1;
    if (r < 0) continue;
    weft_node_t *n = f->links[f->taken[i]].node;
    out->region_of[n->id] = r;
    out->nodes[out->begin[r + 1]++] = n;
  }
  return NULL;
}

static weft_status_t *find(region_finder_t *f, weft_chain_limits_fn *limits, void *arg,
                           weft_chain_regions_t *out) {
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(f->g, &f->order));
  WEFT_RETURN_IF_ERROR(find_links(f, limits, arg));
  if (f->num_links < 2) return NULL;
  if (f->has_waves) WEFT_RETURN_IF_ERROR(find_classes(f));
  WEFT_RETURN_IF_ERROR(take_all(f));
  join_readers(f);
  return list_regions(f, out);
}

weft_status_t *weft_chain_regions_find(const weft_graph_t *g, const weft_fanout_t *fanout,
                                       weft_chain_limits_fn *limits, void *arg, weft_arena_t *arena,
                                       weft_chain_regions_t *out) {
  region_finder_t f = {.g = g, .fanout = fanout, .arena = arena};
  *out = (weft_chain_regions_t){.num_regions = 0};
  weft_status_t *s = find(&f, limits, arg, out);
  weft_map_deinit(&f.by_key);
  weft_free(f.order);
  return s;
}
