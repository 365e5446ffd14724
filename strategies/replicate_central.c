/* strategies/replicate_central.c - variables that live once: their devices, and the nodes that are computed
 * there.
 *
 * A node exists once if it is an update, a variable, or a plain read of one. So does what only such nodes
 * take, as long as it needs no rows and no parts of its own: a learning rate, the sum of gradients, a clip by
 * the global norm. It is computed beside a variable that it is for, from true values: replicas send their
 * parts there, and nothing comes back to be sent again.
 *
 * Where: backwards, a node goes to the device that takes most bytes of it; then forwards, to the device that
 * has most of the bytes that it takes and gives (a norm of a gradient goes where the gradient is applied).
 */
#include "base/alloc.h"
#include "strategies/replication.h"

enum {
  UNKNOWN_BYTES = 1024,
  CONTROL_FLOW = WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION | WEFT_OP_LOOP_COND
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the places of nodes"); }

static bool is_central(const weft_replication_t *r) { return r->o->variables == WEFT_VARIABLES_CENTRAL; }

/* ---- variables ---- */

weft_status_t *weft_replication_find_homes(weft_replication_t *r, const weft_strategy_request_t *request) {
  weft_placed_graph_t l;
  if (!is_central(r)) return NULL;
  r->homes = weft_arena_calloc(&r->arena, (size_t)r->source.graph->num_nodes + 1, sizeof *r->homes);
  if (r->homes == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_placed_graph_init(r->source.graph, request, &l));
  weft_status_t *s = weft_placed_graph_place(&l, r->o->num_variable_devices, r->o->placement);
  for (int v = 0; v < l.num_variables && s == NULL; v++) {
    r->homes[l.variables[v].node->id] = r->o->variable_devices[l.variables[v].server];
  }
  weft_placed_graph_deinit(&l);
  return s;
}

static bool is_lookup(const weft_node_t *n) { return (n->flags & (WEFT_OP_LOOKUP | WEFT_OP_LOOKUP_ND)) != 0; }

/* The variable that n uses by handle, or reads, or looks up rows of; NULL: none. */
static const weft_node_t *variable_at(const weft_replication_t *r, const weft_node_t *n) {
  const weft_node_facts_t *f = weft_replication_facts(r, n);
  if (f->variable != NULL) return f->variable;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_output_t from = n->inputs[i];
    const weft_node_t *variable = weft_replication_facts(r, from.node)->variable;
    if (variable == NULL || !weft_carries_variable(from.node, from.index)) continue;
    bool takes_it = weft_dtype_is_ref(n->input_types[i]) || n->input_types[i] == WEFT_RESOURCE;
    if (takes_it || f->read != NULL || is_lookup(n) || (n->flags & WEFT_OP_METADATA) != 0) return variable;
  }
  if (f->read != NULL) return f->read;
  return is_lookup(n) ? weft_replication_facts(r, n->inputs[0].node)->read : NULL;
}

weft_str_t weft_replication_device_of(const weft_replication_t *r, const weft_node_t *n) {
  const weft_node_facts_t *f = weft_replication_facts(r, n);
  if (f->device.length > 0) return f->device;
  if (is_central(r)) {
    const weft_node_t *variable = variable_at(r, n);
    if (variable != NULL) return r->homes[variable->id];
  }
  return weft_node_is_placeholder(n) ? weft_replication_host(r) : weft_str("");
}

/* ---- once, by itself ---- */

/* Does n read a variable and no value that is local to replicas? */
static bool is_central_read(const weft_replication_t *r, const weft_node_t *n) {
  bool touches = false;
  if (!is_central(r) || weft_replication_facts(r, n)->frame != 0) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_facts_t *from = weft_replication_facts(r, n->inputs[i].node);
    bool carries = from->variable != NULL && weft_carries_variable(n->inputs[i].node, n->inputs[i].index);
    if (!carries && (!from->is_single || !weft_is_true_sharding(weft_replication_sharding(r, n->inputs[i]))))
      return false;
    touches = touches || carries || (from->read != NULL && weft_replication_facts(r, n)->read != NULL);
  }
  return touches;
}

static bool is_single_itself(const weft_replication_t *r, const weft_node_t *n) {
  switch (r->plan.run[n->id]) {
    case WEFT_RUN_NOT:
    case WEFT_RUN_SINGLE: return true;
    case WEFT_RUN_REPLICAS: return weft_node_is_placeholder(n) || is_central_read(r, n);
    case WEFT_RUN_UPDATE:
    case WEFT_RUN_STATE: return is_central(r);
  }
  return false;
}

/* ---- nodes with consumers that exist once only ---- */

typedef struct placing {
  weft_replication_t *r;
  weft_fanout_t fanout;
  int *place;     /* by id: 1 + the index of a variable's device; 0: any device */
  bool *is_moved; /* by id: chosen here */
  int64_t *bytes; /* by place */
} placing_t;

static int64_t bytes_of(weft_output_t o) {
  int64_t bytes = weft_static_bytes_of(o);
  return bytes < 0 ? UNKNOWN_BYTES : bytes;
}

static int64_t output_bytes(const weft_node_t *n) {
  int64_t sum = 0;
  for (int o = 0; o < n->num_outputs; o++) sum += bytes_of((weft_output_t){(weft_node_t *)n, o});
  return sum;
}

static int number_of(const weft_replication_t *r, weft_str_t device) {
  for (int i = 0; i < r->o->num_variable_devices; i++) {
    if (weft_str_eq(r->o->variable_devices[i], device)) return i + 1;
  }
  return 0;
}

/* Inputs and outputs are equal on all replicas and it has no effect: it may be computed once, on any device.
 */
static bool is_movable(const weft_replication_t *r, const weft_node_t *n) {
  const weft_node_facts_t *f = weft_replication_facts(r, n);
  bool draws = weft_node_attr(n, "seed") != NULL && r->plan.run[n->id] == WEFT_RUN_SINGLE;
  if ((n->flags & WEFT_OP_STATEFUL) != 0 && !draws) return false;
  if (f->frame != 0 || (n->flags & CONTROL_FLOW) != 0 || weft_node_is_placeholder(n) || n->num_outputs == 0)
    return false;
  for (int o = 0; o < n->num_outputs; o++) {
    if (!weft_is_true_sharding(&r->plan.outputs[n->id][o]) || weft_carries_variable(n, o)) return false;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_output_t from = n->inputs[i];
    if (!weft_is_true_sharding(&r->plan.required[n->id][i]) || weft_carries_variable(from.node, from.index))
      return false;
  }
  return true;
}

/* Do all its consumers exist once? */
static bool is_for_single(const placing_t *p, const weft_node_t *n) {
  bool is_taken = false;
  for (int e = p->fanout.begin[n->id]; e < p->fanout.begin[n->id + 1]; e++) {
    const weft_node_facts_t *to = weft_replication_facts(p->r, p->fanout.edges[e].to);
    if (!to->is_single || to->frame != 0) return false;
    is_taken = is_taken || p->fanout.edges[e].output >= 0;
  }
  return is_taken;
}

static int most(const placing_t *p, int otherwise) {
  int best = otherwise;
  for (int i = 1; i <= p->r->o->num_variable_devices; i++) {
    if (p->bytes[i] > 0 && (best == 0 || p->bytes[i] > p->bytes[best])) best = i;
  }
  return best;
}

static void clear(placing_t *p) {
  memset(p->bytes, 0, ((size_t)p->r->o->num_variable_devices + 1) * sizeof *p->bytes);
}

static void count_consumers(placing_t *p, const weft_node_t *n) {
  for (int e = p->fanout.begin[n->id]; e < p->fanout.begin[n->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &p->fanout.edges[e];
    if (edge->output >= 0)
      p->bytes[p->place[edge->to->id]] += 1 + bytes_of((weft_output_t){(weft_node_t *)n, edge->output});
  }
}

/* The device on which a Partial value is reduced: that of the consumer that requires all of it. */
static int place_of_value(const placing_t *p, weft_output_t of) {
  if (weft_replication_facts(p->r, of.node)->is_single) return p->place[of.node->id];
  int best = 0;
  int64_t most_bytes = -1;
  for (int e = p->fanout.begin[of.node->id]; e < p->fanout.begin[of.node->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &p->fanout.edges[e];
    if (edge->output != of.index || !weft_replication_facts(p->r, edge->to)->is_single) continue;
    int64_t bytes = p->r->plan.run[edge->to->id] == WEFT_RUN_UPDATE ? INT64_MAX : output_bytes(edge->to);
    if (bytes <= most_bytes || p->place[edge->to->id] == 0) continue;
    most_bytes = bytes;
    best = p->place[edge->to->id];
  }
  return best;
}

static void move_backwards(placing_t *p) {
  weft_replication_t *r = p->r;
  for (int at = r->source.graph->num_live - 1; at >= 0; at--) {
    const weft_node_t *n = r->order[at];
    weft_node_facts_t *f = weft_replication_facts(r, n);
    if (f->is_single) p->place[n->id] = number_of(r, weft_replication_device_of(r, n));
    bool may_move =
        r->plan.run[n->id] == WEFT_RUN_SINGLE || (!f->is_single && r->plan.run[n->id] == WEFT_RUN_REPLICAS);
    if (!may_move || !is_movable(r, n) || !is_for_single(p, n)) continue;
    f->is_single = p->is_moved[n->id] = true;
    clear(p);
    count_consumers(p, n);
    p->place[n->id] = most(p, 0);
  }
}

static void settle_forwards(placing_t *p) {
  weft_replication_t *r = p->r;
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    if (!p->is_moved[n->id]) continue;
    clear(p);
    count_consumers(p, n);
    for (int i = 0; i < n->num_inputs; i++) {
      if ((n->inputs[i].node->flags & WEFT_OP_CONST) != 0) continue;
      p->bytes[place_of_value(p, n->inputs[i])] += bytes_of(n->inputs[i]);
    }
    p->place[n->id] = most(p, p->place[n->id]);
    if (p->place[n->id] > 0)
      weft_replication_facts(r, n)->device = r->o->variable_devices[p->place[n->id] - 1];
  }
}

/* A NoOp that only follows nodes that exist once need not be copied to each replica. */
static void find_single_waits(weft_replication_t *r) {
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    weft_node_facts_t *f = weft_replication_facts(r, n);
    bool is_single = (n->flags & WEFT_OP_NOOP) != 0 && n->num_controls > 0 && f->frame == 0;
    for (int i = 0; i < n->num_controls && is_single; i++)
      is_single = weft_replication_facts(r, n->controls[i])->is_single;
    if (!is_single || f->is_single) continue;
    f->is_single = true;
    f->device = weft_replication_host(r);
  }
}

static weft_status_t *move_to_variables(weft_replication_t *r) {
  placing_t p = {.r = r};
  size_t n = (size_t)r->source.graph->num_nodes + 1;
  p.place = weft_arena_calloc(&r->arena, n, sizeof *p.place);
  p.is_moved = weft_arena_calloc(&r->arena, n, sizeof *p.is_moved);
  p.bytes = weft_arena_calloc(&r->arena, (size_t)r->o->num_variable_devices + 1, sizeof *p.bytes);
  if (p.place == NULL || p.is_moved == NULL || p.bytes == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_fanout_build(r->source.graph, &p.fanout));
  move_backwards(&p);
  settle_forwards(&p);
  weft_fanout_deinit(&p.fanout);
  find_single_waits(r);
  return NULL;
}

weft_status_t *weft_replication_find_single(weft_replication_t *r) {
  int num_live = r->source.graph->num_live;
  for (int at = 0; at < num_live; at++) {
    weft_replication_facts(r, r->order[at])->is_single = is_single_itself(r, r->order[at]);
  }
  if (is_central(r)) WEFT_RETURN_IF_ERROR(move_to_variables(r));
  for (int at = 0; at < num_live && r->total == 1; at++)
    weft_replication_facts(r, r->order[at])->is_single = true;
  return NULL;
}
