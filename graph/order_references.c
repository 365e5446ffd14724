/* graph/order_references.c - nodes that read a reference variable run before its updates.
 *
 * A reference is read when the node that has it as an input runs. What hands a reference's buffer on, such as
 * Identity, does not read it: the nodes behind it do. Without a path between the two, a reader may then see
 * the variable before or after an update of the same step. TensorFlow has the same freedom, but runs what is
 * ready first: a loss that is fetched beside the update is the loss before it. Here control edges from
 * readers to updates make that the rule.
 *
 * All edges lead forward in one topological order, in which an update is taken only when no other node is
 * ready. So they make no cycle, and a reader that depends on an update stays behind it. The order does not
 * show waits outside the graph: an update waits only for readers that wait for nothing (sources.h) that it
 * does not wait for itself. Otherwise a received value that another task computes from the update would be
 * waited for before it. Likewise an edge is added only where the reader is dead only if the update is.
 *
 * Readers of one variable that wait alike and are dead alike are a class. Several of them reach several
 * updates through a NoOp, so that the number of edges is linear in the accesses for each class.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "graph/sources.h"
#include "graph/topology.h"

enum {
  NONE = -1,
  MAX_CLASSES = 64, /* of a variable; readers of others are not ordered */
};

typedef struct reference_access {
  weft_node_t *node;
  int next; /* of the same variable; NONE: it is the last one */
} reference_access_t;

/* Of one variable, by the id of the node that makes the reference. */
typedef struct reference_accesses {
  int first, last; /* NONE: there are none */
  int num_updates; /* that have had no edges yet */
} reference_accesses_t;

typedef struct reader_class {
  uint32_t waits, dead;
  int frame;
  weft_node_t *gate;     /* NULL: none; waits for readers that are not in `readers` */
  weft_node_t **readers; /* num_readers; in the arena */
  int num_readers, capacity;
} reader_class_t;

typedef struct reference_orderer {
  weft_graph_t *g;
  weft_arena_t arena;  /* all below but `order` */
  weft_node_t **order; /* owned */
  int num_nodes;       /* of the order */
  int *variable_of;    /* by node id: the variable whose buffer its outputs have; NONE: no single one */
  reference_accesses_t *variables; /* by node id */
  reference_access_t *accesses;
  int num_accesses;
  weft_node_sources_t sources;
  reader_class_t classes[MAX_CLASSES]; /* of the variable that is looked at */
  int num_classes;
} reference_orderer_t;

static weft_status_t *no_memory(const reference_orderer_t *o) {
  return WEFT_NO_MEMORY("ordering accesses to variables in a graph of %d nodes", o->g->num_live);
}

static bool is_reference(weft_output_t from) {
  return weft_dtype_is_ref(from.node->output_types[from.index]);
}

/* Does the node write what a reference refers to? */
static bool updates_reference(const weft_node_t *n) {
  return (n->flags & WEFT_OP_UPDATE) != 0 && n->num_inputs > 0 && weft_dtype_is_ref(n->input_types[0]);
}

bool weft_pass_may_order_references(const weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL && updates_reference(g->nodes[i])) return true;
  }
  return false;
}

/* ---- which nodes access which variable ---- */

/* Is the node's output the buffer of its first input? (Decision 0003.) */
static bool hands_on(const weft_node_t *n) {
  return n->num_inputs > 0 && (n->flags & (WEFT_OP_IDENTITY | WEFT_OP_VIEW)) != 0;
}

/* May the value be a variable's buffer? */
static bool may_be_buffer(weft_output_t from) { return is_reference(from) || hands_on(from.node); }

/* The variable whose buffer the value is; NONE: it is no variable's. */
static int variable_behind(const reference_orderer_t *o, weft_output_t from) {
  return may_be_buffer(from) ? o->variable_of[from.node->id] : NONE;
}

/* A node without reference inputs that has a reference output is a variable. What forwards one of several
 * references stands for none of them. */
static int find_variable(const reference_orderer_t *o, const weft_node_t *n) {
  if (hands_on(n)) return variable_behind(o, n->inputs[0]);
  int num_references = 0;
  for (int i = 0; i < n->num_inputs; i++) num_references += weft_dtype_is_ref(n->input_types[i]);
  if (num_references == 0) return n->id;
  if (!weft_dtype_is_ref(n->input_types[0]) || (num_references > 1 && !updates_reference(n))) return NONE;
  return o->variable_of[n->inputs[0].node->id];
}

static bool has_reference_output(const weft_node_t *n) {
  for (int i = 0; i < n->num_outputs; i++) {
    if (weft_dtype_is_ref(n->output_types[i])) return true;
  }
  return false;
}

static void add_access(reference_orderer_t *o, int variable, weft_node_t *n) {
  reference_accesses_t *of = &o->variables[variable];
  if (of->last != NONE && o->accesses[of->last].node == n) return; /* reads it twice */
  const int a = o->num_accesses++;
  o->accesses[a] = (reference_access_t){n, NONE};
  *(of->last == NONE ? &of->first : &o->accesses[of->last].next) = a;
  of->last = a;
  of->num_updates += updates_reference(n);
}

static weft_status_t *find_accesses(reference_orderer_t *o) {
  const size_t ids = (size_t)o->g->num_nodes + 1;
  size_t num_inputs = 0;
  bool *is_late = weft_arena_calloc(&o->arena, ids, sizeof *is_late);
  o->variable_of = weft_arena_calloc(&o->arena, ids, sizeof *o->variable_of);
  o->variables = weft_arena_calloc(&o->arena, ids, sizeof *o->variables);
  if (is_late == NULL || o->variable_of == NULL || o->variables == NULL) return no_memory(o);
  for (int id = 0; id < o->g->num_nodes; id++) {
    const weft_node_t *n = o->g->nodes[id];
    o->variable_of[id] = NONE;
    o->variables[id] = (reference_accesses_t){NONE, NONE, 0};
    is_late[id] = n != NULL && updates_reference(n);
    for (int i = 0; n != NULL && i < n->num_inputs; i++) num_inputs += may_be_buffer(n->inputs[i]);
  }
  o->accesses = weft_arena_calloc(&o->arena, num_inputs + 1, sizeof *o->accesses);
  if (o->accesses == NULL) return no_memory(o);
  WEFT_RETURN_IF_ERROR(weft_graph_order_with_late(o->g, is_late, &o->order));
  o->num_nodes = o->g->num_live;
  for (int k = 0; k < o->num_nodes; k++) {
    weft_node_t *n = o->order[k];
    const bool forwards = has_reference_output(n);
    if (forwards || hands_on(n)) o->variable_of[n->id] = find_variable(o, n);
    if (forwards && !updates_reference(n)) continue;
    for (int i = 0; i < n->num_inputs; i++) {
      const int variable = variable_behind(o, n->inputs[i]);
      if (variable != NONE) add_access(o, variable, n);
    }
  }
  return NULL;
}

/* ---- edges ---- */

/* What the reader waits for to end. A _Send itself waits for nothing. */
static uint32_t waits_of(const reference_orderer_t *o, const weft_node_t *reader) {
  if ((reader->flags & WEFT_OP_SEND) == 0) return o->sources.waits_of[reader->id];
  if (reader->num_controls > 0 || reader->num_inputs != 1) return WEFT_TOO_MANY_SOURCES;
  return o->sources.waits_of[reader->inputs[0].node->id];
}

static weft_status_t *add_reader(reference_orderer_t *o, weft_node_t *n) {
  const uint32_t waits = waits_of(o, n), dead = o->sources.dead_of[n->id];
  const int frame = o->sources.frames.frame_of[n->id];
  int k = 0;
  while (k < o->num_classes &&
         (o->classes[k].waits != waits || o->classes[k].dead != dead || o->classes[k].frame != frame)) {
    k++;
  }
  if (k == MAX_CLASSES || waits == WEFT_TOO_MANY_SOURCES || dead == WEFT_TOO_MANY_SOURCES) return NULL;
  reader_class_t *c = &o->classes[k];
  if (k == o->num_classes) {
    *c = (reader_class_t){.waits = waits, .dead = dead, .frame = frame};
    o->num_classes++;
  }
  if (c->num_readers == c->capacity) {
    const int capacity = c->capacity == 0 ? 8 : 2 * c->capacity;
    weft_node_t **grown = weft_arena_calloc(&o->arena, (size_t)capacity, sizeof(weft_node_t *));
    if (grown == NULL) return no_memory(o);
    if (c->num_readers > 0) memcpy(grown, c->readers, (size_t)c->num_readers * sizeof(weft_node_t *));
    c->readers = grown;
    c->capacity = capacity;
  }
  c->readers[c->num_readers++] = n;
  return NULL;
}

/* Puts a NoOp behind all readers of the class. */
static weft_status_t *make_gate(reference_orderer_t *o, reader_class_t *c, const weft_node_t *update) {
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(o->g, update->name),
                                 .op = WEFT_STR("NoOp"),
                                 .device = update->requested_device,
                                 .controls = c->readers,
                                 .num_controls = c->num_readers};
  weft_node_t *gate = NULL;
  if (spec.name.data == NULL) return no_memory(o);
  WEFT_RETURN_IF_ERROR(weft_graph_add(o->g, &spec, &gate));
  gate->assigned_device = update->assigned_device;
  if (c->gate != NULL) WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->gate, gate));
  c->gate = gate;
  c->num_readers = 0;
  return NULL;
}

static weft_status_t *put_behind(reference_orderer_t *o, reader_class_t *c, bool is_last_update,
                                 weft_node_t *update) {
  const weft_node_sources_t *s = &o->sources;
  if (s->frames.frame_of[update->id] != c->frame ||
      !weft_sources_include(s, s->waits_of[update->id], c->waits) ||
      !weft_sources_include(s, s->dead_of[update->id], c->dead)) {
    return NULL;
  }
  if (!is_last_update && c->num_readers + (c->gate != NULL) > 1 && c->num_readers > 0)
    WEFT_RETURN_IF_ERROR(make_gate(o, c, update));
  if (c->gate != NULL) WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->gate, update));
  for (int i = 0; i < c->num_readers; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->readers[i], update));
  return NULL;
}

static weft_status_t *order_accesses(reference_orderer_t *o, reference_accesses_t *of) {
  o->num_classes = 0;
  for (int a = of->first; a != NONE && of->num_updates > 0; a = o->accesses[a].next) {
    weft_node_t *n = o->accesses[a].node;
    if (!updates_reference(n)) {
      WEFT_RETURN_IF_ERROR(add_reader(o, n));
      continue;
    }
    of->num_updates--;
    for (int k = 0; k < o->num_classes; k++)
      WEFT_RETURN_IF_ERROR(put_behind(o, &o->classes[k], of->num_updates == 0, n));
  }
  return NULL;
}

static weft_status_t *order_all(reference_orderer_t *o) {
  const int num_ids = o->g->num_nodes;
  WEFT_RETURN_IF_ERROR(find_accesses(o));
  WEFT_RETURN_IF_ERROR(weft_pass_find_sources(o->g, o->order, NULL, NULL, &o->arena, &o->sources));
  for (int id = 0; id < num_ids; id++) WEFT_RETURN_IF_ERROR(order_accesses(o, &o->variables[id]));
  return NULL;
}

weft_status_t *weft_pass_order_references(weft_graph_t *g) {
  if (!weft_pass_may_order_references(g)) return NULL;
  reference_orderer_t o = {.g = g, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = order_all(&o);
  weft_free(o.order);
  weft_arena_deinit(&o.arena);
  return s;
}
