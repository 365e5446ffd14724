/* graph/copy_references.c - values of reference variables that another task reads beside an update.
 *
 * What another task needs of a variable is read out of its buffer when that task asks for it, which may be
 * after the step has updated the variable. Of a variable that is read before an update of the step (docs/
 * decisions/0041) the other task gets a copy then, for which the update waits as for other readers. No copy
 * is needed where each update waits for the reader, as in training: then it waits for the value's arrival.
 * And a reader that waits for an update is to see that.
 *
 * A loop whose Exits are in other tasks than the variable is such a reader, too: an update could wait for its
 * reads only by messages. It gets a copy where it begins, unless the update waits for all of its Exits.
 *
 * Which updates a node waits for, and which wait for it, are bits of words; there is a walk forward and one
 * back for each 64 updates. A loop is one whole in the order (topology.h): an Exit waits for all of its loop.
 */
#include "base/alloc.h"
#include "graph/references.h"
#include "graph/topology.h"

enum { AT_ONCE = 64 }; /* updates */

/* A value that crosses to another task, or enters a loop that does, as one input of one node. */
typedef struct crossing_read {
  weft_node_t *to;
  int loop; /* its frame; 0: none */
  int input;
  int variable; /* that the value may be the buffer of; a value of several ones is there several times */
  bool is_behind, is_beside;
} crossing_read_t;

typedef struct crossing_update {
  const weft_node_t *node;
  int variable;
} crossing_update_t;

typedef struct crossing_loop {
  const weft_node_t *exit; /* one of them; NULL: there is none */
  bool is_spread;          /* they are in several tasks */
} crossing_loop_t;

typedef struct reference_copier {
  weft_graph_t *g;
  weft_crosses_tasks_fn *crosses;
  void *arg;
  weft_arena_t arena;  /* all below but `order` */
  weft_node_t **order; /* owned */
  weft_frames_t frames;
  weft_references_t references;
  crossing_loop_t *loops; /* by frame */
  crossing_read_t *reads;
  crossing_update_t *updates; /* of variables with such reads */
  int num_reads, num_updates;
  int num_ids;                 /* before there are copies */
  bool *is_read;               /* by node id: a variable with such reads */
  uint64_t *update_bit;        /* by node id: of the updates at hand */
  uint64_t *updates_of;        /* by node id: those of a variable */
  uint64_t *behind, *ahead;    /* by node id: updates that the node waits for, that wait for it */
  uint64_t *in_loop, *at_exit; /* by frame: the same of its nodes, of any of its Exits */
  uint64_t *at_all_exits;      /* ... and of all */
} reference_copier_t;

static weft_status_t *no_memory(const reference_copier_t *c) {
  return WEFT_NO_MEMORY("copying values of variables in a graph of %d nodes", c->g->num_live);
}

/* ---- what crosses ---- */

static weft_status_t *find_loops(reference_copier_t *c) {
  c->loops = weft_arena_calloc(&c->arena, (size_t)c->frames.num_frames, sizeof *c->loops);
  if (c->loops == NULL) return no_memory(c);
  for (int k = 0; k < c->g->num_live; k++) {
    const weft_node_t *n = c->order[k];
    crossing_loop_t *l = &c->loops[c->frames.frame_of[n->id]];
    if ((n->flags & WEFT_OP_EXIT) == 0) continue;
    if (l->exit == NULL) l->exit = n;
    l->is_spread = l->is_spread || c->crosses(c->arg, l->exit, n);
  }
  return NULL;
}

/* The loop that `n` enters with what is made by `from`, if it ends in other tasks; 0: there is none. */
static int loop_apart(const reference_copier_t *c, const weft_node_t *from, const weft_node_t *n) {
  const int loop = (n->flags & WEFT_OP_ENTER) != 0 ? c->frames.frame_of[n->id] : 0;
  const crossing_loop_t *l = &c->loops[loop];
  const bool is_apart = l->exit != NULL && (l->is_spread || c->crosses(c->arg, from, l->exit));
  return is_apart ? loop : 0;
}

static void add_reads(reference_copier_t *c, weft_node_t *n, int input, bool is_counted) {
  const weft_buffer_set_t behind = weft_references_behind(&c->references, n->inputs[input]);
  const weft_node_t *from = n->inputs[input].node;
  if (behind.n == 0) return;
  const bool crosses = c->crosses(c->arg, from, n);
  const int loop = crosses ? 0 : loop_apart(c, from, n);
  if (!crosses && loop == 0) return;
  for (int i = 0; i < behind.n; i++) {
    if (is_counted)
      c->reads[c->num_reads] = (crossing_read_t){n, loop, input, behind.variables[i], false, false};
    c->is_read[behind.variables[i]] = true;
    c->num_reads++;
  }
}

static weft_status_t *find_reads(reference_copier_t *c) {
  for (int pass = 0; pass < 2; pass++) {
    const size_t n = (size_t)c->num_reads;
    if (pass == 1 && n == 0) return NULL;
    if (pass == 1 && (c->reads = weft_arena_calloc(&c->arena, n, sizeof *c->reads)) == NULL)
      return no_memory(c);
    c->num_reads = 0;
    for (int k = 0; k < c->g->num_live; k++) {
      for (int i = 0; i < c->order[k]->num_inputs; i++) add_reads(c, c->order[k], i, pass == 1);
    }
  }
  return NULL;
}

static weft_status_t *find_updates(reference_copier_t *c) {
  for (int k = 0, pass = 0; pass < 2; k = 0, pass++) {
    if (pass == 1) c->updates = weft_arena_calloc(&c->arena, (size_t)c->num_updates + 1, sizeof *c->updates);
    if (pass == 1 && c->updates == NULL) return no_memory(c);
    c->num_updates = 0;
    for (; k < c->g->num_live; k++) {
      const weft_node_t *n = c->order[k];
      if (!weft_node_updates_reference(n)) continue;
      const weft_buffer_set_t of = weft_references_behind(&c->references, n->inputs[0]);
      for (int i = 0; i < of.n; i++) {
        if (!c->is_read[of.variables[i]]) continue;
        if (pass == 1) c->updates[c->num_updates] = (crossing_update_t){n, of.variables[i]};
        c->num_updates++;
      }
    }
  }
  return NULL;
}

/* ---- which updates are before and behind ---- */

static bool is_exit(const weft_node_t *n) { return (n->flags & WEFT_OP_EXIT) != 0; }

/* The frame of the node's value. */
static int frame_of_value(const reference_copier_t *c, const weft_node_t *n) {
  const int frame = c->frames.frame_of[n->id];
  return is_exit(n) ? c->frames.parent[frame] : frame;
}

static uint64_t given_on(const reference_copier_t *c, const weft_node_t *n) {
  return c->behind[n->id] | c->update_bit[n->id];
}

static void walk_forward(reference_copier_t *c, const weft_node_t *n) {
  uint64_t behind = is_exit(n) ? c->in_loop[c->frames.frame_of[n->id]] : 0;
  for (int i = 0; i < n->num_inputs; i++) behind |= given_on(c, n->inputs[i].node); /* not yet there: 0 */
  for (int i = 0; i < n->num_controls; i++) behind |= given_on(c, n->controls[i]);
  c->behind[n->id] = behind;
  c->in_loop[frame_of_value(c, n)] |= behind | c->update_bit[n->id];
}

static void walk_back(reference_copier_t *c, const weft_node_t *n) {
  const int frame = frame_of_value(c, n);
  if (frame != 0) c->ahead[n->id] |= c->at_exit[frame];
  const uint64_t ahead = c->ahead[n->id] | c->update_bit[n->id];
  if (is_exit(n)) {
    c->at_exit[c->frames.frame_of[n->id]] |= ahead;
    c->at_all_exits[c->frames.frame_of[n->id]] &= ahead;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if ((n->inputs[i].node->flags & WEFT_OP_NEXT_ITERATION) == 0) c->ahead[n->inputs[i].node->id] |= ahead;
  }
  for (int i = 0; i < n->num_controls; i++) c->ahead[n->controls[i]->id] |= ahead;
}

static weft_status_t *make_room(reference_copier_t *c) {
  const size_t ids = (size_t)c->g->num_nodes + 1, frames = (size_t)c->frames.num_frames;
  c->update_bit = weft_arena_calloc(&c->arena, ids, sizeof *c->update_bit);
  c->updates_of = weft_arena_calloc(&c->arena, ids, sizeof *c->updates_of);
  c->behind = weft_arena_calloc(&c->arena, ids, sizeof *c->behind);
  c->ahead = weft_arena_calloc(&c->arena, ids, sizeof *c->ahead);
  c->in_loop = weft_arena_calloc(&c->arena, frames, sizeof *c->in_loop);
  c->at_exit = weft_arena_calloc(&c->arena, frames, sizeof *c->at_exit);
  c->at_all_exits = weft_arena_calloc(&c->arena, frames, sizeof *c->at_all_exits);
  const bool ok = c->update_bit != NULL && c->updates_of != NULL && c->behind != NULL && c->ahead != NULL &&
                  c->in_loop != NULL && c->at_exit != NULL && c->at_all_exits != NULL;
  return ok ? NULL : no_memory(c);
}

/* Updates [first, first + n); those of a variable that are not among them are looked at with others. */
static void look_at_updates(reference_copier_t *c, int first, int n) {
  const size_t ids = (size_t)c->g->num_nodes, frames = (size_t)c->frames.num_frames;
  memset(c->update_bit, 0, ids * sizeof *c->update_bit);
  memset(c->behind, 0, ids * sizeof *c->behind);
  memset(c->ahead, 0, ids * sizeof *c->ahead);
  memset(c->in_loop, 0, frames * sizeof *c->in_loop);
  memset(c->at_exit, 0, frames * sizeof *c->at_exit);
  memset(c->at_all_exits, 0xff, frames * sizeof *c->at_all_exits);
  memset(c->updates_of, 0, ids * sizeof *c->updates_of);
  for (int i = 0; i < n; i++) {
    const crossing_update_t *u = &c->updates[first + i];
    c->update_bit[u->node->id] |= UINT64_C(1) << i;
    c->updates_of[u->variable] |= UINT64_C(1) << i;
  }
  for (int k = 0; k < c->g->num_live; k++) walk_forward(c, c->order[k]);
  for (int k = c->g->num_live - 1; k >= 0; k--) walk_back(c, c->order[k]);
  for (int r = 0; r < c->num_reads; r++) {
    crossing_read_t *read = &c->reads[r];
    const uint64_t all = c->updates_of[read->variable];
    read->is_behind |= (c->behind[read->to->id] & all) != 0;
    const uint64_t ahead =
        read->loop != 0 ? c->at_all_exits[read->loop] : c->ahead[read->to->id] | c->update_bit[read->to->id];
    read->is_beside |= (all & ~ahead) != 0;
  }
}

/* ---- copies ---- */

static weft_status_t *make_copy(reference_copier_t *c, weft_output_t of, weft_node_t **out) {
  const weft_attr_t type = {.kind = WEFT_ATTR_TYPE, .type = weft_dtype_base(of.node->output_types[of.index])};
  const weft_named_attr_t attr = {WEFT_STR("T"), type};
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(c->g, of.node->name),
                                 .op = WEFT_STR("DeepCopy"),
                                 .device = of.node->requested_device,
                                 .inputs = &of,
                                 .num_inputs = 1,
                                 .attrs = &attr,
                                 .num_attrs = 1};
  if (spec.name.data == NULL) return no_memory(c);
  WEFT_RETURN_IF_ERROR(weft_graph_add(c->g, &spec, out));
  (*out)->assigned_device = of.node->assigned_device;
  return NULL;
}

static weft_status_t *copy_reads(reference_copier_t *c) {
  const weft_references_t *refs = &c->references;
  size_t num_outputs = 1;
  for (int k = 0; k < c->g->num_live; k++) num_outputs += (size_t)c->order[k]->num_outputs;
  weft_node_t **copies = weft_arena_calloc(&c->arena, num_outputs, sizeof(weft_node_t *)); /* by output */
  if (copies == NULL) return no_memory(c);
  for (int r = 0; r < c->num_reads; r++) {
    const crossing_read_t *read = &c->reads[r];
    const weft_output_t from = read->to->inputs[read->input];
    if (read->is_behind || !read->is_beside || from.node->id >= c->num_ids) continue; /* copied already */
    weft_node_t **copy = &copies[refs->first_output[from.node->id] + from.index];
    if (*copy == NULL) WEFT_RETURN_IF_ERROR(make_copy(c, from, copy));
    weft_graph_set_input(read->to, read->input, (weft_output_t){*copy, 0});
  }
  return NULL;
}

static weft_status_t *copy_all(reference_copier_t *c) {
  const weft_order_wishes_t wishes = {.frames = &c->frames};
  bool loops_are_whole = false; /* loops that wait for each other are followed as far as the order shows */
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(c->g, &c->arena, &c->frames));
  WEFT_RETURN_IF_ERROR(weft_graph_order_as_wished(c->g, &wishes, &c->order, &loops_are_whole));
  WEFT_RETURN_IF_ERROR(weft_pass_find_references(c->g, c->order, &c->arena, &c->references));
  c->num_ids = c->g->num_nodes;
  c->is_read = weft_arena_calloc(&c->arena, (size_t)c->num_ids + 1, sizeof *c->is_read);
  if (c->is_read == NULL) return no_memory(c);
  WEFT_RETURN_IF_ERROR(find_loops(c));
  WEFT_RETURN_IF_ERROR(find_reads(c));
  WEFT_RETURN_IF_ERROR(find_updates(c));
  if (c->num_reads == 0 || c->num_updates == 0) return NULL;
  WEFT_RETURN_IF_ERROR(make_room(c));
  for (int first = 0; first < c->num_updates; first += AT_ONCE) {
    const int left = c->num_updates - first;
    look_at_updates(c, first, left < AT_ONCE ? left : AT_ONCE);
  }
  return copy_reads(c);
}

weft_status_t *weft_pass_copy_references(weft_graph_t *g, weft_crosses_tasks_fn *crosses, void *arg) {
  if (!weft_pass_may_order_references(g)) return NULL;
  reference_copier_t c = {.g = g, .crosses = crosses, .arg = arg, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = copy_all(&c);
  weft_free(c.order);
  weft_arena_deinit(&c.arena);
  return s;
}
