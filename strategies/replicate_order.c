/* strategies/replicate_order.c - reads of variables and writes of the same step, in an order that holds on
 * replicas, too.
 *
 * On one device a read without an order against an update of the step runs first, because it waits for
 * nothing. Under a strategy the update may be done on another device while replicas still read. So such reads
 * become control inputs of the update, in the graph as it was, before anything is copied.
 *
 * A value read from a reference is no copy: it shows what is written later (resources/variable.h). Where
 * variables live once, and replicas elsewhere, such values are copied where they are read. What comes after
 * an update reads anew.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/gradient_shapes.h"
#include "strategies/replication.h"

enum { LAST_FEED = 63 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the order of reads and writes"); }

typedef struct ordering {
  weft_replication_t *r;
  weft_graph_t *g;        /* r->source.graph */
  weft_node_t **order;    /* owned; of the original nodes */
  int num_order, num_old; /* num_old: ids from here on are of nodes added here */
  weft_fanout_t fanout;   /* of the same */
  weft_frames_t frames;
  int *branches;   /* by id: conditionals around it */
  uint64_t *roots; /* by id: roots of the step that need it */
  bool *in_init;   /* by id: initial targets need it */
  uint64_t *feeds; /* by id: placeholders that it needs; the last bit stands for all from the 64th on */
  int num_feeds;
  bool *follows; /* by id: follows an update of the current variable */
  weft_node_t *
      *users; /* of the current variable: consumers of its handle or reference, or of a plain read of it */
  int num_users;
} ordering_t;

static bool is_update(const weft_node_t *n) { return (n->op->flags & WEFT_OP_UPDATE) != 0; }

/* ---- facts ---- */

static int branches_of(const ordering_t *k, const weft_node_t *n) {
  int around = 0;
  for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
    const weft_node_t *p = i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs];
    if (k->branches[p->id] > around) around = k->branches[p->id];
  }
  if ((n->flags & WEFT_OP_SWITCH) != 0) return around + 1;
  if ((n->flags & (WEFT_OP_MERGE | WEFT_OP_EXIT)) != 0 && around > 0) return around - 1;
  return around;
}

static void mark_roots(ordering_t *k) {
  const weft_prepared_graph_t *p = &k->r->source;
  for (int i = 0; i < p->num_roots; i++) {
    if (p->roots[i].is_init) {
      k->in_init[p->roots[i].node->id] = true;
    } else {
      k->roots[p->roots[i].node->id] |= (uint64_t)1 << (i < 63 ? i : 63);
    }
  }
  for (int pass = 0; pass < 2; pass++) { /* the second for what comes round loops */
    for (int at = k->num_order - 1; at >= 0; at--) {
      const weft_node_t *n = k->order[at];
      for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
        const weft_node_t *p_node = i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs];
        k->roots[p_node->id] |= k->roots[n->id];
        k->in_init[p_node->id] = k->in_init[p_node->id] || k->in_init[n->id];
      }
    }
    for (int at = 0; at < k->num_order; at++) {
      const weft_node_t *n = k->order[at];
      if (weft_node_is_placeholder(n) && k->feeds[n->id] == 0) {
        k->feeds[n->id] = (uint64_t)1 << (k->num_feeds < LAST_FEED ? k->num_feeds : LAST_FEED);
        k->num_feeds++;
      }
      for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
        k->feeds[n->id] |=
            k->feeds[i < n->num_inputs ? n->inputs[i].node->id : n->controls[i - n->num_inputs]->id];
      }
      k->branches[n->id] = branches_of(k, n);
    }
  }
}

static weft_status_t *look(ordering_t *k) {
  size_t n = (size_t)k->g->num_nodes + 1;
  weft_arena_t *arena = &k->r->arena;
  k->branches = weft_arena_calloc(arena, n, sizeof *k->branches);
  k->roots = weft_arena_calloc(arena, n, sizeof *k->roots);
  k->in_init = weft_arena_calloc(arena, n, sizeof *k->in_init);
  k->feeds = weft_arena_calloc(arena, n, sizeof *k->feeds);
  k->follows = weft_arena_calloc(arena, n, sizeof *k->follows);
  k->users = weft_arena_calloc(arena, n, sizeof(*k->users));
  if (k->branches == NULL || k->roots == NULL || k->in_init == NULL || k->feeds == NULL ||
      k->follows == NULL || k->users == NULL) {
    return no_memory();
  }
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(k->g, arena, &k->frames));
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(k->g, &k->order));
  k->num_order = k->g->num_live;
  k->num_old = k->g->num_nodes;
  WEFT_RETURN_IF_ERROR(weft_fanout_build(k->g, &k->fanout));
  mark_roots(k);
  return NULL;
}

/* ---- one variable ---- */

static bool is_user(const ordering_t *k, const weft_node_t *n) {
  for (int i = 0; i < k->num_users; i++) {
    if (k->users[i] == n) return true;
  }
  return false;
}

/* Is it a plain read of the reference: an Identity of it, outside of loops? */
static bool is_read_of(const weft_node_t *n, const weft_node_t *variable) {
  return (n->flags & WEFT_OP_IDENTITY) != 0 && !weft_dtype_is_ref(n->output_types[0]) &&
         n->inputs[0].node == variable;
}

/* Does n come after an update of the variable? */
static bool follows(const ordering_t *k, const weft_node_t *n) {
  if (n->id < k->num_old) return k->follows[n->id];
  for (int i = 0; i < n->num_inputs + n->num_controls; i++) { /* a read, or a copy of one */
    if (follows(k, i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs])) return true;
  }
  return false;
}

static void find_users(ordering_t *k, weft_node_t *from) {
  for (int e = k->fanout.begin[from->id]; e < k->fanout.begin[from->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &k->fanout.edges[e];
    if (edge->output < 0 || !weft_carries_variable(from, edge->output) || is_user(k, edge->to)) continue;
    k->users[k->num_users++] = edge->to;
    bool hands_on = edge->to->num_outputs > 0 && weft_carries_variable(edge->to, 0) && !is_update(edge->to);
    if (hands_on) find_users(k, edge->to);
  }
}

/* Marks all nodes that follow an update of the variable, by edges of the graph and by those added here. */
static void mark_followers(ordering_t *k) {
  memset(k->follows, 0, (size_t)k->num_old * sizeof *k->follows);
  for (int i = 0; i < k->num_users; i++) {
    if (is_update(k->users[i]) && !k->in_init[k->users[i]->id]) k->follows[k->users[i]->id] = true;
  }
  for (bool changed = true;
       changed;) { /* repeated where an added control edge goes against the old order, or round a loop */
    changed = false;
    for (int at = 0; at < k->num_order; at++) {
      const weft_node_t *n = k->order[at];
      bool is_late = k->follows[n->id];
      for (int i = 0; i < n->num_inputs + n->num_controls && !is_late; i++) {
        is_late = follows(k, i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs]);
      }
      changed = changed || is_late != k->follows[n->id];
      k->follows[n->id] = is_late;
    }
  }
}

/* Is all that `read` needs fed in each step that does the update? */
static bool is_fed_with(const ordering_t *k, const weft_node_t *update, const weft_node_t *read) {
  const uint64_t needed = k->feeds[read->id], others = (uint64_t)1 << LAST_FEED;
  if ((needed & (~k->feeds[update->id] | others)) == 0) return true;
  return (k->roots[update->id] & ~k->roots[read->id]) == 0;
}

/* May the update wait for the read? Not if the read may be dead, or needs a placeholder that a step with the
 * update alone does not feed. */
static bool may_wait(const ordering_t *k, const weft_node_t *update, const weft_node_t *read) {
  if (is_update(read) || k->follows[read->id] || k->branches[read->id] > 0) return false;
  if (k->frames.frame_of[read->id] != 0 || k->frames.frame_of[update->id] != 0 || k->roots[read->id] == 0)
    return false;
  return is_fed_with(k, update, read);
}

static bool has_control(const weft_node_t *n, const weft_node_t *from) {
  for (int i = 0; i < n->num_controls; i++) {
    if (n->controls[i] == from) return true;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (n->inputs[i].node == from) return true;
  }
  return false;
}

/* A plain read of a reference sees later writes, so its consumers also go before the update. */
static weft_status_t *order_consumers(ordering_t *k, weft_node_t *read, weft_node_t *update) {
  for (int e = k->fanout.begin[read->id]; e < k->fanout.begin[read->id + 1]; e++) {
    weft_node_t *n = k->fanout.edges[e].to;
    if (k->fanout.edges[e].output < 0 || k->in_init[n->id] || !may_wait(k, update, n) ||
        has_control(update, n))
      continue;
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(k->g, n, update));
  }
  return NULL;
}

static weft_status_t *order_updates(ordering_t *k) {
  for (int u = 0; u < k->num_users; u++) {
    weft_node_t *update = k->users[u];
    if (!is_update(update) || k->in_init[update->id] || k->roots[update->id] == 0) continue;
    for (int i = 0; i < k->num_users; i++) {
      weft_node_t *read = k->users[i];
      bool is_value = read->num_outputs > 0 && !weft_carries_variable(read, 0) && !k->in_init[read->id];
      if (!is_value) continue;
      bool is_alias = weft_dtype_is_ref(read->inputs[0].node->output_types[read->inputs[0].index]) &&
                      (read->flags & WEFT_OP_IDENTITY) != 0;
      if (is_alias) WEFT_RETURN_IF_ERROR(order_consumers(k, read, update));
      if (!may_wait(k, update, read) || has_control(update, read)) continue;
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(k->g, read, update));
    }
  }
  return NULL;
}

/* ---- references ---- */

static weft_status_t *add(ordering_t *k, const char *op, weft_str_t like, const char *suffix,
                          weft_output_t from, weft_node_t *const *controls, int num_controls,
                          weft_node_t **out) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, like);
  weft_strbuf_puts(&b, suffix);
  weft_named_attr_t type = weft_type_attr("T", weft_base_type_of(from));
  weft_node_spec_t spec = {.op = weft_str(op),
                           .inputs = &from,
                           .num_inputs = 1,
                           .attrs = &type,
                           .num_attrs = 1,
                           .controls = controls,
                           .num_controls = num_controls};
  weft_status_t *s = b.failed ? no_memory() : NULL;
  if (s == NULL) spec.name = weft_graph_unique_name(k->g, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (s != NULL) return s;
  if (spec.name.data == NULL) return no_memory();
  return weft_graph_add(k->g, &spec, out);
}

/* Nodes that must run on the variable's device: lookups, shapes, other reads, and consumers of the reference
 * itself. */
static bool reads_in_place(const weft_node_t *n, int input) {
  const uint64_t reads =
      WEFT_OP_LOOKUP | WEFT_OP_LOOKUP_ND | WEFT_OP_READ | WEFT_OP_INITIALIZED | WEFT_OP_COPY;
  if (weft_dtype_is_ref(n->input_types[input]) || (n->flags & WEFT_OP_METADATA) != 0) return true;
  return input == 0 && (n->flags & reads) != 0;
}

/* Updates that `read` goes before wait for the copy of it, too; all of the step, if `read` was made here. */
static weft_status_t *order_copy(ordering_t *k, const weft_node_t *read, weft_node_t *copy) {
  for (int u = 0; u < k->num_users; u++) {
    weft_node_t *update = k->users[u];
    if (!is_update(update) || k->in_init[update->id] || k->roots[update->id] == 0 ||
        k->frames.frame_of[update->id] != 0)
      continue;
    bool waits = read->id >= k->num_old || has_control(update, read);
    if (waits) WEFT_RETURN_IF_ERROR(weft_graph_add_control(k->g, copy, update));
  }
  return NULL;
}

/* A copy of what `variable` holds: *copy, made of the plain read `read` (NULL: of one made here) if it is not
 * there yet. */
static weft_status_t *make_copy(ordering_t *k, weft_node_t *variable, weft_node_t *read, weft_node_t **copy) {
  if (*copy != NULL) return NULL;
  if (read == NULL)
    WEFT_RETURN_IF_ERROR(
        add(k, "Identity", variable->name, "/value", (weft_output_t){variable, 0}, NULL, 0, &read));
  WEFT_RETURN_IF_ERROR(add(k, "DeepCopy", read->name, "/copy", (weft_output_t){read, 0}, NULL, 0, copy));
  return order_copy(k, read, *copy);
}

/* What comes after an update reads after all that it waits for. */
static weft_status_t *read_late(ordering_t *k, weft_node_t *variable, const weft_node_t *read,
                                const weft_node_t *n, weft_node_t **copy) {
  weft_node_t **after = weft_arena_calloc(&k->r->arena, (size_t)(n->num_inputs + n->num_controls) + 1,
                                          sizeof(*after)),
              *value = NULL;
  int num_after = 0;
  if (after == NULL) return no_memory();
  for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
    weft_node_t *p = i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs];
    if (p != variable && p != read) after[num_after++] = p;
  }
  WEFT_RETURN_IF_ERROR(
      add(k, "Identity", n->name, "/read", (weft_output_t){variable, 0}, after, num_after, &value));
  return add(k, "DeepCopy", value->name, "/copy", (weft_output_t){value, 0}, NULL, 0, copy);
}

/* Consumers of `from`, the variable or a plain read of it, get copies of the value. */
static weft_status_t *copy_for_consumers(ordering_t *k, weft_node_t *variable, weft_node_t *from) {
  weft_node_t *read = from == variable ? NULL : from, *shared = NULL;
  for (int e = k->fanout.begin[from->id]; e < k->fanout.begin[from->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &k->fanout.edges[e];
    weft_node_t *n = edge->to, *copy = NULL;
    if (edge->output < 0 || k->roots[n->id] == 0 || reads_in_place(n, edge->input)) continue;
    bool is_late =
        k->follows[n->id] && (read == NULL || !k->follows[read->id]) && k->frames.frame_of[n->id] == 0;
    if (is_late) {
      WEFT_RETURN_IF_ERROR(read_late(k, variable, read, n, &copy));
    } else {
      WEFT_RETURN_IF_ERROR(make_copy(k, variable, read, &shared));
      copy = shared;
    }
    weft_graph_set_input(n, edge->input, (weft_output_t){copy, 0});
  }
  return NULL;
}

static weft_status_t *copy_reads(ordering_t *k, weft_node_t *variable) {
  WEFT_RETURN_IF_ERROR(copy_for_consumers(k, variable, variable));
  for (int e = k->fanout.begin[variable->id]; e < k->fanout.begin[variable->id + 1]; e++) {
    weft_node_t *n = k->fanout.edges[e].to;
    if (k->fanout.edges[e].output >= 0 && is_read_of(n, variable))
      WEFT_RETURN_IF_ERROR(copy_for_consumers(k, variable, n));
  }
  return NULL;
}

/* ---- all variables ---- */

static weft_status_t *order_all(ordering_t *k) {
  bool copies = k->r->o->variables == WEFT_VARIABLES_CENTRAL;
  for (int at = 0; at < k->num_order; at++) {
    weft_node_t *n = k->order[at];
    if ((n->flags & WEFT_OP_VARIABLE) == 0) continue;
    k->num_users = 0;
    find_users(k, n);
    mark_followers(k);
    WEFT_RETURN_IF_ERROR(order_updates(k));
    if (copies && weft_dtype_is_ref(n->output_types[0])) WEFT_RETURN_IF_ERROR(copy_reads(k, n));
  }
  return NULL;
}

weft_status_t *weft_replication_order_reads(weft_replication_t *r) {
  ordering_t k = {.r = r, .g = r->source.graph};
  if (r->total == 1) return NULL;
  weft_status_t *s = look(&k);
  if (s == NULL) s = order_all(&k);
  if (k.fanout.begin != NULL) weft_fanout_deinit(&k.fanout);
  weft_free(k.order);
  if (s != NULL || k.g->num_nodes == k.num_old) return s;
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(k.g));
  return weft_infer_gradient_shapes(k.g);
}
