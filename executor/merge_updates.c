/* executor/merge_updates.c - puts one _WeftUpdates in the place of many nodes that update variables.
 *
 * Nodes of one op with equal attributes, in one frame and on one device that computes several at once, are a
 * group. In the host's memory these are updates of small variables only, because a thread computes the
 * members one after the other: what they save is what a node costs beside its arithmetic, and large ones are
 * faster side by side. For the same reason a merged node takes SMALL_TOGETHER_BYTES at most.
 *
 * Of a group those nodes become one between which there is no path, also none that the graph does not show
 * (sources.c): nodes have as level the largest number of the group's nodes on a path to them, and those of
 * one level are merged. An edge never leads to a lower level, and out of a node of the group it leads to a
 * higher one, so that a path from a merged node leads to no node before it.
 *
 * What waited for one of the nodes then waits for all of them. A gradient is kept until all are there.
 */
#include "base/alloc.h"
#include "executor/plan.h"
#include "graph/passes.h"
#include "graph/sources.h"
#include "ops/updates.h"

enum {
  MOST_MEMBERS = 128, /* of a _WeftUpdates */
  MOST_GROUPS = 16,   /* each takes some passes over the graph: the largest ones */
  MOST_ATTRS = 8,     /* of an op whose nodes are merged */
  /* Of variables in the host's memory. One of SMALL_BYTES takes half a microsecond, ten times what its node
   * costs; those of SMALL_TOGETHER_BYTES take less than handing a node to another thread. */
  SMALL_BYTES = 16 << 10,
  SMALL_TOGETHER_BYTES = 64 << 10,
};

typedef struct update_group {
  int num_nodes;
  bool is_chosen;
} update_group_t;

typedef struct update_merger {
  const weft_plan_options_t *o;
  weft_graph_t *g;
  weft_arena_t arena; /* all below but `order` and `fanout` */
  weft_map_t group_of_key;
  int num_nodes;           /* ids before there are merged nodes */
  update_group_t **groups; /* by id, num_nodes of them; NULL: the node joins nothing */
  int *host_bytes;         /* by id: of its variables that lie in the host's memory */
  weft_node_t **merged;    /* by id: what the node has become; NULL: it is there still */
  weft_node_t **order;     /* owned; of the graph as it is */
  weft_fanout_t fanout;    /* likewise */
  int *levels;             /* by id */
} update_merger_t;

static weft_status_t *no_memory(const update_merger_t *m) {
  return WEFT_NO_MEMORY("looking for updates in a graph of %d nodes", m->num_nodes);
}

/* ---- groups ---- */

/* Nodes with equal keys are of one group. */
typedef struct update_key {
  const weft_op_def_t *op;
  const weft_device_t *device;
  int64_t frame, waits, dead;
  int64_t attrs[MOST_ATTRS]; /* the op's, which are truths and types */
} update_key_t;

static bool read_attrs(const weft_node_t *n, update_key_t *out) {
  if (n->op->num_attrs > MOST_ATTRS) return false;
  for (int i = 0; i < n->op->num_attrs; i++) {
    const weft_attr_t *a = weft_attr_find(n->attrs, n->num_attrs, n->op->attrs[i].name.data);
    if (a == NULL || a->is_list || (a->kind != WEFT_ATTR_BOOL && a->kind != WEFT_ATTR_TYPE)) return false;
    out->attrs[i] = a->kind == WEFT_ATTR_BOOL ? a->b : a->type;
  }
  return true;
}

static bool is_variable(int type) { return weft_dtype_is_ref(type) || type == WEFT_RESOURCE; }

/* Failures of a reference without a value name the node that makes it; of a merged node they name the
 * variable. */
static bool has_name_of_its_own(const weft_node_t *variable) {
  const weft_attr_t *shared = weft_node_attr(variable, "shared_name");
  return shared != NULL && shared->kind == WEFT_ATTR_STRING && shared->s.length > 0 &&
         !weft_str_eq(shared->s, variable->name);
}

/* The bytes of a variable behind `from`; -1: that is not known, or it is not a small one. */
static int small_bytes_of(weft_output_t from) {
  const weft_node_t *n = from.node;
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  if ((n->flags & WEFT_OP_VARIABLE) == 0 || shape == NULL || shape->kind != WEFT_ATTR_SHAPE || shape->is_list)
    return -1;
  const int output = n->output_types[from.index];
  if (weft_dtype_is_ref(output) && has_name_of_its_own(n)) return -1;
  const int64_t count = weft_shape_count(shape->shape);
  const int type = weft_dtype_base(weft_node_attr_type(n, "dtype"));
  const size_t size = weft_dtype_is_valid(type) ? weft_dtype_size(type) : 0;
  if (count < 0 || size == 0 || (uint64_t)count > SMALL_BYTES / size) return -1;
  return (int)((size_t)count * size);
}

/* Are all variables of the node small? */
static bool updates_small(const weft_node_t *n, int *out_bytes) {
  *out_bytes = 0;
  for (int i = 0; i < n->num_inputs && is_variable(n->input_types[i]); i++) {
    const int bytes = small_bytes_of(n->inputs[i]);
    if (bytes < 0) return false;
    *out_bytes += bytes;
  }
  return true;
}

/* Does the node's device compute several like it at once? */
static bool joins(const weft_plan_options_t *o, const weft_node_t *n, weft_device_t **out, int *out_bytes) {
  *out_bytes = 0;
  if ((n->flags & WEFT_OP_UPDATE) == 0 || (n->flags & WEFT_OP_BLOCKING) != 0 || n->function != NULL)
    return false;
  if (weft_node_attr_bool(n, WEFT_APART_ATTR, false)) return false;
  weft_status_t *s = weft_plan_find_device(o, n, out);
  if (s != NULL) {
    weft_status_free(s); /* adding the node will say it */
    return false;
  }
  if ((*out)->space == NULL && (o->only_schedules || !updates_small(n, out_bytes))) return false;
  const weft_kernel_t *k = weft_plan_find_kernel(o, n, *out);
  return k != NULL && k->joins;
}

/* May the node be merged with others? Then *out says with which. */
static bool may_merge(const update_merger_t *m, const weft_node_t *n, const weft_node_sources_t *sources,
                      update_key_t *out) {
  weft_device_t *d = NULL;
  if (!joins(m->o, n, &d, &m->host_bytes[n->id])) return false;
  memset(out, 0, sizeof *out);
  out->op = n->op;
  out->device = d;
  out->frame = sources->frames.frame_of[n->id];
  out->waits = sources->waits_of[n->id];
  out->dead = sources->dead_of[n->id];
  return out->waits != WEFT_TOO_MANY_SOURCES && out->dead != WEFT_TOO_MANY_SOURCES && read_attrs(n, out);
}

static weft_status_t *find_groups(update_merger_t *m) {
  weft_node_sources_t sources;
  weft_arena_t arena = WEFT_ARENA_INIT;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(m->g, &m->order));
  weft_status_t *s = weft_pass_find_sources(m->g, m->order, false, NULL, NULL, &arena, &sources);
  for (int i = 0; s == NULL && i < m->g->num_live; i++) {
    update_key_t key;
    if (!may_merge(m, m->order[i], &sources, &key)) continue;
    update_group_t *group = weft_map_get(&m->group_of_key, weft_str_of((const char *)&key, sizeof key));
    if (group == NULL) {
      update_key_t *kept = weft_arena_calloc(&m->arena, 1, sizeof *kept);
      group = weft_arena_calloc(&m->arena, 1, sizeof *group);
      if (kept == NULL || group == NULL) {
        s = no_memory(m);
        break;
      }
      *kept = key;
      s = weft_map_put(&m->group_of_key, weft_str_of((const char *)kept, sizeof *kept), group, NULL);
    }
    group->num_nodes++;
    m->groups[m->order[i]->id] = group;
  }
  weft_arena_deinit(&arena);
  return s;
}

/* The largest that was not chosen yet; NULL: there is none of two nodes. */
static update_group_t *choose_group(const update_merger_t *m) {
  update_group_t *largest = NULL;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&m->group_of_key, &at, &e);) {
    update_group_t *g = e.value;
    if (!g->is_chosen && g->num_nodes > (largest == NULL ? 1 : largest->num_nodes)) largest = g;
  }
  if (largest != NULL) largest->is_chosen = true;
  return largest;
}

static bool is_of(const update_merger_t *m, const weft_node_t *n, const update_group_t *group) {
  return n->id < m->num_nodes && m->groups[n->id] == group;
}

/* ---- several nodes become one ---- */

/* Consumers of the nodes take the outputs of what these have become, and wait for that. */
static weft_status_t *hand_over_controls(update_merger_t *m, weft_node_t *to) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  const int n = to->num_controls;
  weft_status_t *s = NULL;
  weft_node_t **from = weft_arena_calloc(&arena, (size_t)n + 1, sizeof(weft_node_t *));
  if (from == NULL) return no_memory(m);
  memcpy(from, to->controls, (size_t)n * sizeof(weft_node_t *));
  weft_graph_clear_controls(m->g, to);
  for (int i = 0; i < n && s == NULL; i++) {
    weft_node_t *is_now = from[i]->id < m->num_nodes ? m->merged[from[i]->id] : NULL;
    s = weft_graph_add_control(m->g, is_now != NULL ? is_now : from[i], to);
  }
  weft_arena_deinit(&arena);
  return s;
}

static weft_status_t *hand_over(update_merger_t *m, weft_node_t *const *nodes, int n) {
  for (int i = 0, output = 0; i < n; output += nodes[i++]->num_outputs) {
    const int id = nodes[i]->id;
    for (int e = m->fanout.begin[id]; e < m->fanout.begin[id + 1]; e++) {
      const weft_fanout_edge_t *edge = &m->fanout.edges[e];
      int at = -1;
      if (edge->output >= 0) {
        weft_graph_set_input(edge->to, edge->input, (weft_output_t){m->merged[id], output + edge->output});
        continue;
      }
      WEFT_RETURN_IF_ERROR(weft_graph_find_control(m->g, edge->to, nodes[i], &at));
      if (at >= 0) WEFT_RETURN_IF_ERROR(hand_over_controls(m, edge->to));
    }
  }
  return NULL;
}

/* What the merged node takes and gives; all arrays in the arena. */
typedef struct update_parts {
  weft_output_t *inputs;
  int *types, *results; /* of attributes, which have no references; see set_types() */
  weft_str_t *names;
  weft_named_attr_t *attrs;
} update_parts_t;

static weft_status_t *describe(update_merger_t *m, weft_node_t *const *nodes, int n, update_parts_t *p) {
  const weft_updates_t u = {
      .op = nodes[0]->op, .n = n, .num_inputs = nodes[0]->num_inputs, .num_outputs = nodes[0]->num_outputs};
  const size_t in = (size_t)n * (size_t)u.num_inputs, out = (size_t)n * (size_t)u.num_outputs;
  p->inputs = weft_arena_calloc(&m->arena, in, sizeof *p->inputs);
  p->types = weft_arena_calloc(&m->arena, in, sizeof *p->types);
  p->results = weft_arena_calloc(&m->arena, out + 1, sizeof *p->results);
  p->names = weft_arena_calloc(&m->arena, (size_t)n, sizeof *p->names);
  p->attrs = weft_arena_calloc(&m->arena, WEFT_UPDATES_NUM_ATTRS + MOST_ATTRS, sizeof *p->attrs);
  if (p->inputs == NULL || p->types == NULL || p->results == NULL || p->names == NULL || p->attrs == NULL)
    return no_memory(m);
  for (int i = 0; i < n; i++) {
    p->names[i] = nodes[i]->name;
    for (int k = 0; k < u.num_inputs; k++) {
      p->inputs[i * u.num_inputs + k] = nodes[i]->inputs[k];
      p->types[i * u.num_inputs + k] = weft_dtype_base(nodes[i]->input_types[k]);
    }
    for (int k = 0; k < u.num_outputs; k++)
      p->results[i * u.num_outputs + k] = weft_dtype_base(nodes[i]->output_types[k]);
  }
  weft_updates_t named = u;
  named.nodes = p->names;
  return weft_updates_attrs(&m->arena, &named, p->types, p->results, nodes[0]->attrs, nodes[0]->num_attrs,
                            p->attrs);
}

/* The merged node takes and gives references where the nodes did. */
static weft_status_t *set_types(update_merger_t *m, weft_node_t *const *nodes, int n, weft_node_t *merged) {
  const int num_inputs = nodes[0]->num_inputs, num_outputs = nodes[0]->num_outputs;
  int *inputs = weft_arena_calloc(m->g->arena, (size_t)merged->num_inputs, sizeof *inputs),
      *outputs = weft_arena_calloc(m->g->arena, (size_t)merged->num_outputs + 1, sizeof *outputs);
  if (inputs == NULL || outputs == NULL) return no_memory(m);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < num_inputs; k++) inputs[i * num_inputs + k] = nodes[i]->input_types[k];
    for (int k = 0; k < num_outputs; k++) outputs[i * num_outputs + k] = nodes[i]->output_types[k];
  }
  merged->input_types = inputs;
  merged->output_types = outputs;
  return NULL;
}

static weft_status_t *merge(update_merger_t *m, weft_node_t *const *nodes, int n) {
  update_parts_t p;
  weft_node_t *merged = NULL;
  const weft_node_t *first = nodes[0];
  WEFT_RETURN_IF_ERROR(describe(m, nodes, n, &p));
  for (int i = 0; i < n; i++) weft_graph_remove(m->g, nodes[i]); /* their memory stays */
  const weft_node_spec_t spec = {.name = first->name,
                                 .op = WEFT_STR("_WeftUpdates"),
                                 .device = first->requested_device,
                                 .inputs = p.inputs,
                                 .num_inputs = n * first->num_inputs,
                                 .attrs = p.attrs,
                                 .num_attrs = WEFT_UPDATES_NUM_ATTRS + first->op->num_attrs};
  WEFT_RETURN_IF_ERROR(weft_graph_add(m->g, &spec, &merged));
  WEFT_RETURN_IF_ERROR(set_types(m, nodes, n, merged));
  merged->assigned_device = first->assigned_device;
  for (int i = 0; i < n; i++) {
    m->merged[nodes[i]->id] = merged;
    for (int k = 0; k < nodes[i]->num_controls; k++)
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(m->g, nodes[i]->controls[k], merged));
  }
  return hand_over(m, nodes, n);
}

/* ---- a group ---- */

static void raise_to(const update_merger_t *m, const weft_node_t *from, const update_group_t *group,
                     int *level) {
  const int behind = m->levels[from->id] + is_of(m, from, group);
  if (behind > *level) *level = behind;
}

/* Returns the highest level of the group's nodes. */
static int find_levels(const update_merger_t *m, const update_group_t *group) {
  int highest = 0;
  for (int i = 0; i < m->g->num_live; i++) {
    const weft_node_t *n = m->order[i];
    int *level = &m->levels[n->id];
    *level = 0;
    for (int k = 0; k < n->num_inputs; k++) {
      const weft_node_t *from = n->inputs[k].node;
      if ((from->flags & WEFT_OP_NEXT_ITERATION) == 0) raise_to(m, from, group, level); /* else: before */
    }
    for (int k = 0; k < n->num_controls; k++) raise_to(m, n->controls[k], group, level);
    if (is_of(m, n, group) && *level > highest) highest = *level;
  }
  return highest;
}

/* Sorts the group's nodes by level, in the graph's order within one; begin[l] .. begin[l + 1]. */
static void sort_by_level(const update_merger_t *m, const update_group_t *group, int highest, int *begin,
                          weft_node_t **sorted) {
  for (int i = 0; i < m->g->num_live; i++) {
    if (is_of(m, m->order[i], group)) begin[m->levels[m->order[i]->id] + 2]++;
  }
  for (int l = 2; l <= highest + 2; l++) begin[l] += begin[l - 1];
  for (int i = 0; i < m->g->num_live; i++) {
    if (is_of(m, m->order[i], group)) sorted[begin[m->levels[m->order[i]->id] + 1]++] = m->order[i];
  }
}

/* How many of the first of n nodes become one; at least one. */
static int count_together(const update_merger_t *m, weft_node_t *const *nodes, int n) {
  int count = 1, bytes = m->host_bytes[nodes[0]->id];
  while (count < n && count < MOST_MEMBERS) {
    bytes += m->host_bytes[nodes[count]->id];
    if (bytes > SMALL_TOGETHER_BYTES) break;
    count++;
  }
  return count;
}

static weft_status_t *merge_group(update_merger_t *m, const update_group_t *group) {
  m->levels = weft_arena_calloc(&m->arena, (size_t)m->g->num_nodes + 1, sizeof *m->levels);
  weft_node_t **sorted = weft_arena_calloc(&m->arena, (size_t)group->num_nodes, sizeof(weft_node_t *));
  if (m->levels == NULL || sorted == NULL) return no_memory(m);
  const int highest = find_levels(m, group);
  int *begin = weft_arena_calloc(&m->arena, (size_t)highest + 3, sizeof *begin);
  if (begin == NULL) return no_memory(m);
  sort_by_level(m, group, highest, begin, sorted);
  for (int l = 0; l <= highest; l++) {
    for (int at = begin[l], n; at < begin[l + 1]; at += n) {
      n = count_together(m, &sorted[at], begin[l + 1] - at);
      if (n > 1) WEFT_RETURN_IF_ERROR(merge(m, &sorted[at], n));
    }
  }
  return NULL;
}

static weft_status_t *merge_all(update_merger_t *m) {
  const size_t ids = (size_t)m->num_nodes + 1;
  m->groups = weft_arena_calloc(&m->arena, ids, sizeof(update_group_t *));
  m->merged = weft_arena_calloc(&m->arena, ids, sizeof(weft_node_t *));
  m->host_bytes = weft_arena_calloc(&m->arena, ids, sizeof *m->host_bytes);
  if (m->groups == NULL || m->merged == NULL || m->host_bytes == NULL) return no_memory(m);
  WEFT_RETURN_IF_ERROR(find_groups(m));
  for (int i = 0; i < MOST_GROUPS; i++) {
    const update_group_t *group = choose_group(m);
    if (group == NULL) break;
    if (i > 0) { /* the graph has changed */
      weft_free(m->order);
      m->order = NULL;
      WEFT_RETURN_IF_ERROR(weft_graph_topological_order(m->g, &m->order));
    }
    weft_fanout_deinit(&m->fanout);
    m->fanout = (weft_fanout_t){.begin = NULL};
    WEFT_RETURN_IF_ERROR(weft_fanout_build(m->g, &m->fanout));
    WEFT_RETURN_IF_ERROR(merge_group(m, group));
  }
  return NULL;
}

bool weft_plan_may_merge_updates(const weft_plan_options_t *o, const weft_graph_t *g) {
  int n = 0;
  for (int i = 0; i < g->num_nodes && n < 2; i++) {
    weft_device_t *d = NULL;
    int bytes = 0;
    n += g->nodes[i] != NULL && joins(o, g->nodes[i], &d, &bytes);
  }
  return n > 1;
}

weft_status_t *weft_plan_merge_updates(const weft_plan_options_t *o, weft_graph_t *g) {
  if (!weft_plan_may_merge_updates(o, g)) return NULL;
  update_merger_t m = {.o = o, .g = g, .arena = WEFT_ARENA_INIT, .num_nodes = g->num_nodes};
  weft_status_t *s = merge_all(&m);
  weft_fanout_deinit(&m.fanout);
  weft_map_deinit(&m.group_of_key);
  weft_free(m.order);
  weft_arena_deinit(&m.arena);
  return s;
}
