/* graph/order_references.c - nodes that read a reference variable run before its updates.
 *
 * A reference is read when the node that has it as an input runs. What hands a reference's buffer on, such as
 * Identity, does not read it: the nodes behind it do (references.h). Without a path between the two, a reader
 * may then see the variable before or after an update of the same step. TensorFlow has the same freedom, but
 * runs what is ready first: a loss that is fetched beside the update is the loss before it. Here control
 * edges from readers to updates make that the rule.
 *
 * All edges lead forward in one topological order, in which an update is taken only when no other node is
 * ready. So they make no cycle, and a reader that depends on an update stays behind it. The order does not
 * show waits outside the graph: an update waits only for readers that wait for nothing (sources.h) that it
 * does not wait for itself. Otherwise a received value that another task computes from the update would be
 * waited for before it.
 *
 * Readers of one variable that wait alike and are dead alike are a class. Several of them reach several
 * updates through a gate, so that the number of edges is linear in the accesses for each class. A reader in a
 * branch is dead where the branch is not taken, and an update behind it would be. Its gate is a
 * ControlTrigger, which runs when all of its inputs have come, dead or not.
 *
 * A loop is one whole in the order: its Exits come behind its other nodes. An update outside of it waits for
 * readers in it by a gate behind all of its Exits.
 */
#include "base/alloc.h"
#include "graph/references.h"
#include "graph/sources.h"
#include "graph/topology.h"

enum {
  NONE = -1,
  MAX_CLASSES = 64, /* of a variable; readers of others are not ordered */
};

typedef struct reference_access {
  weft_node_t *node; /* NULL: the readers in a loop */
  int loop;          /* its frame */
  int next;          /* of the same variable; NONE: it is the last one */
} reference_access_t;

/* Of one variable, by the id of the node that makes the reference. */
typedef struct reference_accesses {
  int first, last; /* NONE: there are none */
  int num_updates; /* that have had no edges yet */
  int last_loop;   /* the loop that was the last to be seen to read it; 0: none */
} reference_accesses_t;

/* A variable that is read in a loop. */
typedef struct loop_read {
  int variable;
  int next; /* of the same loop; NONE: it is the last one */
} loop_read_t;

typedef struct reader_loop {
  int first_read;      /* NONE: there is none */
  weft_node_t **exits; /* num_exits; those behind the first num_left are known */
  bool is_spread;      /* Exits are in several tasks */
  int num_exits, num_left;
  weft_node_t *gate; /* behind all Exits; NULL: not made yet */
} reader_loop_t;

typedef struct reader_class {
  uint32_t waits, dead;
  int frame;
  int loop;              /* 0: none; otherwise the readers are those in the loop */
  weft_node_t *gate;     /* NULL: none; waits for readers that are not in `readers` */
  weft_node_t **readers; /* num_readers; in the arena */
  int num_readers, capacity;
} reader_class_t;

typedef struct reference_orderer {
  weft_graph_t *g;
  weft_crosses_tasks_fn *crosses; /* NULL: all is in one task */
  void *arg;
  weft_arena_t arena;  /* all below but `order` */
  weft_node_t **order; /* owned */
  weft_frames_t frames;
  weft_references_t references;
  bool loops_are_whole;            /* in the order */
  reader_loop_t *loops;            /* by frame */
  reference_accesses_t *variables; /* by node id */
  reference_access_t *accesses;
  loop_read_t *reads;
  int num_accesses, accesses_capacity, num_reads, reads_capacity;
  weft_node_sources_t sources;
  reader_class_t classes[MAX_CLASSES]; /* of the variable that is looked at */
  int num_classes;
} reference_orderer_t;

static weft_status_t *no_memory(const reference_orderer_t *o) {
  return WEFT_NO_MEMORY("ordering accesses to variables in a graph of %d nodes", o->g->num_live);
}

bool weft_pass_may_order_references(const weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n != NULL && weft_node_updates_reference(n) && weft_node_attr(n, WEFT_ORDERED_ATTR) == NULL)
      return true;
  }
  return false;
}

weft_status_t *weft_pass_settle_references(weft_graph_t *g) {
  static const weft_attr_t is_set = {.kind = WEFT_ATTR_BOOL, .b = true};
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n != NULL && weft_node_updates_reference(n))
      WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_ORDERED_ATTR, &is_set));
  }
  return NULL;
}

static bool is_apart(const reference_orderer_t *o, const weft_node_t *from, const weft_node_t *to) {
  return o->crosses != NULL && o->crosses(o->arg, from, to);
}

/* ---- the order ---- */

/* Updates come late; those in a loop before those outside of it, which may wait for the loop. */
static weft_status_t *find_order(reference_orderer_t *o) {
  unsigned char *lateness = weft_arena_calloc(&o->arena, (size_t)o->g->num_nodes + 1, 1);
  if (lateness == NULL) return no_memory(o);
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(o->g, &o->arena, &o->frames));
  for (int id = 0; id < o->g->num_nodes; id++) {
    const weft_node_t *n = o->g->nodes[id];
    if (n != NULL && weft_node_updates_reference(n)) lateness[id] = o->frames.frame_of[id] == 0 ? 2 : 1;
  }
  const weft_order_wishes_t wishes = {.lateness = lateness, .frames = &o->frames};
  return weft_graph_order_as_wished(o->g, &wishes, &o->order, &o->loops_are_whole);
}

/* ---- which nodes access which variable ---- */

/* Makes room for one more in an array in the arena. */
static void *with_room(reference_orderer_t *o, void *array, int n, int *capacity, size_t size) {
  if (n < *capacity) return array;
  const int wanted = *capacity == 0 ? 64 : 2 * *capacity;
  void *grown = weft_arena_calloc(&o->arena, (size_t)wanted, size);
  if (grown == NULL) return NULL;
  if (n > 0) memcpy(grown, array, (size_t)n * size);
  *capacity = wanted;
  return grown;
}

static weft_status_t *append_access(reference_orderer_t *o, int variable, weft_node_t *n, int loop) {
  reference_accesses_t *of = &o->variables[variable];
  reference_access_t *grown =
      with_room(o, o->accesses, o->num_accesses, &o->accesses_capacity, sizeof *o->accesses);
  if (grown == NULL) return no_memory(o);
  o->accesses = grown;
  const int a = o->num_accesses++;
  o->accesses[a] = (reference_access_t){n, loop, NONE};
  *(of->last == NONE ? &of->first : &o->accesses[of->last].next) = a;
  of->last = a;
  return NULL;
}

static weft_status_t *append_loop_read(reference_orderer_t *o, int variable, int loop) {
  reference_accesses_t *of = &o->variables[variable];
  if (loop == 0 || of->last_loop == loop) return NULL;
  of->last_loop = loop;
  loop_read_t *grown = with_room(o, o->reads, o->num_reads, &o->reads_capacity, sizeof *o->reads);
  if (grown == NULL) return no_memory(o);
  o->reads = grown;
  o->reads[o->num_reads] = (loop_read_t){variable, o->loops[loop].first_read};
  o->loops[loop].first_read = o->num_reads++;
  return NULL;
}

static weft_status_t *add_access(reference_orderer_t *o, int variable, weft_node_t *n) {
  reference_accesses_t *of = &o->variables[variable];
  if (of->last != NONE && o->accesses[of->last].node == n) return NULL; /* reads it twice */
  if (is_apart(o, n, o->g->nodes[variable])) return NULL;
  WEFT_RETURN_IF_ERROR(append_access(o, variable, n, 0));
  if (weft_node_updates_reference(n)) {
    of->num_updates++;
    return NULL;
  }
  return append_loop_read(o, variable, o->frames.frame_of[n->id]);
}

static weft_status_t *add_accesses(reference_orderer_t *o, weft_node_t *n) {
  if (weft_node_forwards_reference(n)) return NULL;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_buffer_set_t behind = weft_references_behind(&o->references, n->inputs[i]);
    for (int k = 0; k < behind.n; k++) WEFT_RETURN_IF_ERROR(add_access(o, behind.variables[k], n));
  }
  return NULL;
}

/* With its last Exit a loop has read all that it reads. */
static weft_status_t *add_exit(reference_orderer_t *o, weft_node_t *exit) {
  const int loop = o->frames.frame_of[exit->id], parent = o->frames.parent[loop];
  reader_loop_t *l = &o->loops[loop];
  if (l->exits == NULL) l->exits = weft_arena_calloc(&o->arena, (size_t)l->num_exits, sizeof(weft_node_t *));
  if (l->exits == NULL) return no_memory(o);
  l->exits[--l->num_left] = exit;
  l->is_spread = l->is_spread || is_apart(o, exit, l->exits[l->num_exits - 1]);
  for (int r = l->num_left > 0 ? NONE : l->first_read; r != NONE; r = o->reads[r].next) {
    if (!l->is_spread && !is_apart(o, exit, o->g->nodes[o->reads[r].variable]))
      WEFT_RETURN_IF_ERROR(append_access(o, o->reads[r].variable, NULL, loop));
    WEFT_RETURN_IF_ERROR(append_loop_read(o, o->reads[r].variable, parent));
  }
  return NULL;
}

static weft_status_t *find_accesses(reference_orderer_t *o) {
  o->variables = weft_arena_calloc(&o->arena, (size_t)o->g->num_nodes + 1, sizeof *o->variables);
  o->loops = weft_arena_calloc(&o->arena, (size_t)o->frames.num_frames, sizeof *o->loops);
  if (o->variables == NULL || o->loops == NULL) return no_memory(o);
  for (int f = 0; f < o->frames.num_frames; f++) o->loops[f].first_read = NONE;
  for (int id = 0; id < o->g->num_nodes; id++) {
    const weft_node_t *n = o->g->nodes[id];
    o->variables[id] = (reference_accesses_t){NONE, NONE, 0, 0};
    if (n != NULL && (n->flags & WEFT_OP_EXIT) != 0) o->loops[o->frames.frame_of[id]].num_exits++;
  }
  for (int f = 0; f < o->frames.num_frames; f++) o->loops[f].num_left = o->loops[f].num_exits;
  for (int k = 0; k < o->g->num_live; k++) {
    WEFT_RETURN_IF_ERROR(add_accesses(o, o->order[k]));
    if (o->loops_are_whole && (o->order[k]->flags & WEFT_OP_EXIT) != 0)
      WEFT_RETURN_IF_ERROR(add_exit(o, o->order[k]));
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

/* The class of such readers; NULL: they are in none. */
static reader_class_t *find_class(reference_orderer_t *o, uint32_t waits, uint32_t dead, int frame,
                                  int loop) {
  int k = 0;
  if (waits == WEFT_TOO_MANY_SOURCES || dead == WEFT_TOO_MANY_SOURCES) return NULL;
  while (k < o->num_classes && (o->classes[k].waits != waits || o->classes[k].dead != dead ||
                                o->classes[k].frame != frame || o->classes[k].loop != loop)) {
    k++;
  }
  if (k == MAX_CLASSES) return NULL;
  if (k == o->num_classes) {
    o->classes[k] = (reader_class_t){.waits = waits, .dead = dead, .frame = frame, .loop = loop};
    o->num_classes++;
  }
  return &o->classes[k];
}

static weft_status_t *add_reader(reference_orderer_t *o, const reference_access_t *a) {
  if (a->node == NULL) { /* its gate is never dead */
    (void)find_class(o, o->sources.loops_wait[a->loop], 0, o->frames.parent[a->loop], a->loop);
    return NULL;
  }
  reader_class_t *c = find_class(o, waits_of(o, a->node), o->sources.dead_of[a->node->id],
                                 o->frames.frame_of[a->node->id], 0);
  if (c == NULL) return NULL;
  weft_node_t **grown = with_room(o, c->readers, c->num_readers, &c->capacity, sizeof(weft_node_t *));
  if (grown == NULL) return no_memory(o);
  c->readers = grown;
  c->readers[c->num_readers++] = a->node;
  return NULL;
}

/* A node behind all of `nodes`, for the update to wait for. One behind nodes that may be dead is not dead. */
static weft_status_t *make_gate(reference_orderer_t *o, weft_node_t *const *nodes, int n, bool may_be_dead,
                                const weft_node_t *update, weft_node_t **out) {
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(o->g, update->name),
                                 .op = may_be_dead ? WEFT_STR("ControlTrigger") : WEFT_STR("NoOp"),
                                 .device = update->requested_device,
                                 .controls = nodes,
                                 .num_controls = n};
  if (spec.name.data == NULL) return no_memory(o);
  WEFT_RETURN_IF_ERROR(weft_graph_add(o->g, &spec, out));
  (*out)->assigned_device = update->assigned_device;
  return NULL;
}

/* Puts a gate behind all readers of the class. */
static weft_status_t *close_class(reference_orderer_t *o, reader_class_t *c, const weft_node_t *update) {
  reader_loop_t *l = &o->loops[c->loop];
  if (c->loop != 0) {
    if (l->gate == NULL) WEFT_RETURN_IF_ERROR(make_gate(o, l->exits, l->num_exits, true, update, &l->gate));
    c->gate = l->gate;
    return NULL;
  }
  weft_node_t *gate = NULL;
  WEFT_RETURN_IF_ERROR(make_gate(o, c->readers, c->num_readers, c->dead != 0, update, &gate));
  if (c->gate != NULL) WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->gate, gate));
  c->gate = gate;
  c->num_readers = 0;
  return NULL;
}

static weft_status_t *put_behind(reference_orderer_t *o, reader_class_t *c, bool is_last_update,
                                 weft_node_t *update) {
  const weft_node_sources_t *s = &o->sources;
  if (o->frames.frame_of[update->id] != c->frame ||
      !weft_sources_include(s, s->waits_of[update->id], c->waits)) {
    return NULL;
  }
  const bool is_open = c->num_readers > 0 || (c->loop != 0 && c->gate == NULL);
  const bool is_shared = !is_last_update && c->num_readers + (c->gate != NULL) > 1;
  const bool may_be_dead = !weft_sources_include(s, s->dead_of[update->id], c->dead);
  if (is_open && (is_shared || may_be_dead || c->loop != 0)) WEFT_RETURN_IF_ERROR(close_class(o, c, update));
  if (c->gate != NULL) WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->gate, update));
  for (int i = 0; i < c->num_readers; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(o->g, c->readers[i], update));
  return NULL;
}

static weft_status_t *order_accesses(reference_orderer_t *o, reference_accesses_t *of) {
  o->num_classes = 0;
  for (int a = of->first; a != NONE && of->num_updates > 0; a = o->accesses[a].next) {
    weft_node_t *n = o->accesses[a].node;
    if (n == NULL || !weft_node_updates_reference(n)) {
      WEFT_RETURN_IF_ERROR(add_reader(o, &o->accesses[a]));
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
  WEFT_RETURN_IF_ERROR(find_order(o));
  WEFT_RETURN_IF_ERROR(weft_pass_find_references(o->g, o->order, &o->arena, &o->references));
  WEFT_RETURN_IF_ERROR(find_accesses(o));
  WEFT_RETURN_IF_ERROR(
      weft_pass_find_sources(o->g, o->order, o->loops_are_whole, NULL, NULL, &o->arena, &o->sources));
  for (int id = 0; id < num_ids; id++) WEFT_RETURN_IF_ERROR(order_accesses(o, &o->variables[id]));
  return NULL;
}

weft_status_t *weft_pass_order_references(weft_graph_t *g, weft_crosses_tasks_fn *crosses, void *arg) {
  if (!weft_pass_may_order_references(g)) return NULL;
  reference_orderer_t o = {.g = g, .crosses = crosses, .arg = arg, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = order_all(&o);
  weft_free(o.order);
  weft_arena_deinit(&o.arena);
  return s;
}
