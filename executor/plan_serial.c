/* executor/plan_serial.c - finds the frames that may run serially (serial.h), loops and the top level, and
 * the order of their nodes.
 *
 * A frame may be run serially if nothing in it waits, sends or enqueues, if the frames inside it may be, if
 * it has a program (plan_program.c), and if all its Enters may be waited for before it begins. Its Enters
 * become one node of the parent's frame, the gate: the first Enter stands for all, and what feeds another one
 * lowers the gate's word. The loop's results leave by its Exits, which thereby follow the gate. Where that
 * makes a circle, as when an Enter is fed by an Exit of the same frame, the frames inside the parent are
 * scheduled. So are all frames of a plan with a loop whose variables end one by one: what such a loop leaves
 * is neither live nor dead, and would keep gates waiting.
 *
 * The order within a frame is depth first, so that values are used soon after they are made. Cost: linear in
 * nodes and edges.
 */
#include "base/alloc.h"
#include "executor/serial.h"

enum {
  MAX_DEPTH = 32, /* of loops within loops: each takes a call on the stack */
  SCHEDULED = MAX_DEPTH + 1,
  MAX_TOP_NODES = 1 << 16, /* a step of more nodes is not short, and a program takes memory */
};

typedef struct serial_finder {
  weft_exec_plan_t *p;
  uint32_t *stand_in;    /* by node: the gate of an Enter, else the node itself */
  uint32_t *waits;       /* by node: inputs from nodes of its frame that have no place in the order yet */
  uint32_t *ready;       /* a stack of nodes */
  uint32_t *order;       /* of the frame that is being sorted */
  bool *is_entered;      /* by node: a Merge that an Enter feeds */
  uint32_t *enters;      /* all Enters, by the frame that they enter */
  uint32_t *first_enter; /* by frame, and one more */
  uint8_t *inside;       /* by frame: how deep the loops inside it are, or SCHEDULED */
  bool *has_frames;      /* by frame: are there frames in it? */
  bool *has_circle;      /* by frame: do the frames in it make a circle? */
  bool is_unruly;        /* some frame may leave a value that is neither live nor dead */
} serial_finder_t;

/* ---- what a frame must be like ---- */

static bool feeds_merges_only(const weft_exec_plan_t *p, uint32_t node) {
  const plan_node_t *n = &p->nodes[node];
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) {
    if (!(p->edges[e].to & TO_MERGE)) return false;
  }
  return n->first_control == n[1].first_control;
}

static bool feeds_a_merge(const weft_exec_plan_t *p, uint32_t node) {
  const plan_node_t *n = &p->nodes[node];
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) {
    if (p->edges[e].to & TO_MERGE) return true;
  }
  return false;
}

/* A constant Enter's value is there in each iteration, another's in the first one, for a Merge. */
static bool is_plain_enter(serial_finder_t *f, uint32_t node) {
  const weft_exec_plan_t *p = f->p;
  const plan_node_t *n = &p->nodes[node];
  if (n->kind != NODE_FORWARD || (n->flags & NODE_REF_INPUT)) return false;
  if (n->flags & NODE_CONST_ENTER) return !feeds_a_merge(p, node);
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) f->is_entered[p->edges[e].to & ~TO_MERGE] = true;
  return feeds_merges_only(p, node);
}

/* What goes on to the next iteration is for a Merge of it and an Enter. */
static bool is_plain_next(const serial_finder_t *f, uint32_t node) {
  const weft_exec_plan_t *p = f->p;
  const plan_node_t *n = &p->nodes[node];
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) {
    const uint32_t to = p->edges[e].to & ~TO_MERGE;
    if (!f->is_entered[to] || p->nodes[to].num_inputs != 2) return false;
  }
  return feeds_merges_only(p, node);
}

/* At the top level clients' receives and sends do not wait, where the run has the values at hand. */
static bool never_waits(const plan_node_t *n) {
  if (n->flags & NODE_CLIENT) return true;
  const bool is_kind = n->kind == NODE_NOOP || n->kind == NODE_CONST || n->kind == NODE_FORWARD ||
                       n->kind == NODE_MERGE || n->kind == NODE_SYNC;
  return is_kind && (n->flags & (NODE_COMMUNICATION | NODE_RUNS_DEAD)) == 0;
}

static bool has_plain_crossings(serial_finder_t *f, int frame) {
  const weft_exec_plan_t *p = f->p;
  const plan_frame_t *of = &p->frames[frame];
  for (uint32_t k = f->first_enter[frame]; k < f->first_enter[frame + 1]; k++) {
    if (!is_plain_enter(f, f->enters[k])) return false;
  }
  for (uint32_t i = of->first_node; i < of->first_node + of->num_nodes; i++) {
    if ((p->nodes[i].flags & NODE_NEXT_ITERATION) && !is_plain_next(f, i)) return false;
  }
  return true;
}

/* What nodes of a frame there are. */
typedef struct node_kinds {
  bool waits, communicates;
} node_kinds_t;

static node_kinds_t kinds_in(const weft_exec_plan_t *p, const plan_frame_t *frame) {
  node_kinds_t kinds = {false, false};
  for (uint32_t i = frame->first_node; i < frame->first_node + frame->num_nodes; i++) {
    kinds.waits = kinds.waits || !never_waits(&p->nodes[i]);
    kinds.communicates = kinds.communicates || (p->nodes[i].flags & NODE_RUNS_DEAD) != 0;
  }
  return kinds;
}

/* ---- the order within a frame, with the frames inside it as one node each ---- */

/* Calls `fn` with each consumer, in the frame, of `node` or of the frame behind its gate. */
static void for_each_consumer(const serial_finder_t *f, uint32_t node,
                              void (*fn)(const serial_finder_t *f, uint32_t to, uint32_t *num_ready),
                              uint32_t *num_ready) {
  const weft_exec_plan_t *p = f->p;
  const plan_node_t *n = &p->nodes[node];
  if (n->flags & NODE_ENTER) {
    const plan_frame_t *entered = &p->frames[n->aux];
    for (uint32_t i = 0; i < entered->num_exits; i++) {
      const plan_node_t *x = &p->nodes[entered->exits[i]];
      for (uint32_t e = x->first_edge; e < x[1].first_edge; e++) fn(f, p->edges[e].to, num_ready);
      for (uint32_t c = x->first_control; c < x[1].first_control; c++) fn(f, p->controls[c], num_ready);
    }
  } else if ((n->flags & (NODE_EXIT | NODE_NEXT_ITERATION)) == 0) {
    for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) fn(f, p->edges[e].to, num_ready);
    for (uint32_t c = n->first_control; c < n[1].first_control; c++) fn(f, p->controls[c], num_ready);
  }
}

static void add_wait(const serial_finder_t *f, uint32_t to, uint32_t *num_ready) {
  (void)num_ready;
  f->waits[f->stand_in[to & ~TO_MERGE]]++;
}

static void end_wait(const serial_finder_t *f, uint32_t to, uint32_t *num_ready) {
  const uint32_t node = f->stand_in[to & ~TO_MERGE];
  if (--f->waits[node] == 0) f->ready[(*num_ready)++] = node;
}

/* Fills f->order; returns how many nodes have a place in it. Fewer than there are: a circle. */
static uint32_t sort(const serial_finder_t *f, const plan_frame_t *frame, uint32_t *out_num_units) {
  const uint32_t end = frame->first_node + frame->num_nodes;
  uint32_t n = 0, num_ready = 0;
  *out_num_units = 0;
  for (uint32_t i = frame->first_node; i < end; i++) {
    if (f->stand_in[i] == i) for_each_consumer(f, i, add_wait, NULL);
  }
  for (uint32_t i = end; i-- > frame->first_node;) {
    if (f->stand_in[i] != i) continue;
    ++*out_num_units;
    if (f->waits[i] == 0) f->ready[num_ready++] = i;
  }
  while (num_ready > 0) {
    const uint32_t node = f->ready[--num_ready];
    f->order[n++] = node;
    for_each_consumer(f, node, end_wait, &num_ready);
  }
  return n;
}

/* ---- the result ---- */

static weft_status_t *keep_order(const serial_finder_t *f, plan_frame_t *frame, uint32_t num_nodes) {
  frame->order = weft_arena_calloc(&f->p->arena, (size_t)num_nodes + 1, sizeof *frame->order);
  if (frame->order == NULL) return WEFT_NO_MEMORY("compiling frame '%.*s'", WEFT_STR_ARGS(frame->name));
  memcpy(frame->order, f->order, num_nodes * sizeof *f->order);
  frame->num_order = num_nodes;
  return NULL;
}

static void make_gate(weft_exec_plan_t *p, plan_frame_t *frame) {
  plan_frame_t *parent = &p->frames[frame->parent];
  plan_node_t *gate = &p->nodes[frame->enters[0]];
  gate->kind = NODE_LOOP;
  gate->flags |= NODE_COSTLY | NODE_RUNS_DEAD;
  frame->task = parent->num_tasks++;
  frame->cost = p->num_costs++;
  for (int i = 1; i < frame->num_enters; i++) p->words[frame->enters[0]] += p->words[frame->enters[i]];
}

static void lead_to_gates(const serial_finder_t *f) {
  const weft_exec_plan_t *p = f->p;
  for (uint32_t e = 0; e < p->nodes[p->num_nodes].first_edge; e++) {
    const uint32_t to = p->edges[e].to & ~TO_MERGE;
    if (f->stand_in[to] != to && p->frames[p->nodes[to].aux].program != NULL)
      p->edges[e].to = f->stand_in[to];
  }
  for (uint32_t c = 0; c < p->nodes[p->num_nodes].first_control; c++) {
    const uint32_t to = p->controls[c] & ~TO_MERGE;
    if (f->stand_in[to] != to && p->frames[p->nodes[to].aux].program != NULL)
      p->controls[c] = f->stand_in[to];
  }
}

/* ---- finding ---- */

/* Lists the Enters of each frame, and makes the first one the stand-in of the others. */
static bool list_enters(serial_finder_t *f) {
  weft_exec_plan_t *p = f->p;
  uint32_t *end = weft_calloc((size_t)p->num_frames, sizeof *end);
  if (end == NULL) return false;
  for (int k = 0; k < p->num_frames; k++) {
    end[k] = f->first_enter[k];
    f->first_enter[k + 1] = end[k] + (uint32_t)p->frames[k].num_enters;
    p->frames[k].enters = f->enters + end[k];
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    f->stand_in[i] = i;
    if ((p->nodes[i].flags & NODE_ENTER) == 0) continue;
    const uint32_t frame = p->nodes[i].aux;
    f->enters[end[frame]++] = i;
    f->stand_in[i] = f->enters[f->first_enter[frame]];
  }
  weft_free(end);
  return true;
}

/* Decides about frame `i`, behind the frames in it; about these, where they make a circle. */
static weft_status_t *decide(serial_finder_t *f, int i) {
  plan_frame_t *frame = &f->p->frames[i];
  const node_kinds_t kinds = kinds_in(f->p, frame);
  uint32_t num_units = 0;
  const bool is_short = i > 0 || (!kinds.waits && frame->num_nodes <= MAX_TOP_NODES);
  if (is_short || f->has_frames[i]) f->has_circle[i] = sort(f, frame, &num_units) < num_units;
  if (!is_short) return NULL;
  if (!has_plain_crossings(f, i)) {
    f->is_unruly = true;
  } else if ((!kinds.communicates || i == 0) && !f->has_circle[i]) {
    const program_source_t from = {.p = f->p,
                                   .frame = frame,
                                   .order = f->order,
                                   .num_units = num_units,
                                   .is_wanted = !kinds.waits && f->inside[i] < MAX_DEPTH};
    bool is_unruly = false;
    WEFT_RETURN_IF_ERROR(weft_serial_program_make(&from, &frame->program, &is_unruly));
    f->is_unruly = f->is_unruly || is_unruly;
  }
  if (frame->program != NULL) WEFT_RETURN_IF_ERROR(keep_order(f, frame, num_units));
  if (i == 0) return NULL;
  const uint8_t depth = frame->program != NULL ? (uint8_t)(f->inside[i] + 1) : SCHEDULED;
  if (depth > f->inside[frame->parent]) f->inside[frame->parent] = depth;
  f->has_frames[frame->parent] = true;
  return NULL;
}

static weft_status_t *find(serial_finder_t *f) {
  weft_exec_plan_t *p = f->p;
  const size_t nodes = (size_t)p->num_nodes + 1, frames = (size_t)p->num_frames + 1;
  f->stand_in = weft_calloc(nodes, sizeof *f->stand_in);
  f->waits = weft_calloc(nodes, sizeof *f->waits);
  f->ready = weft_calloc(nodes, sizeof *f->ready);
  f->order = weft_calloc(nodes, sizeof *f->order);
  f->is_entered = weft_calloc(nodes, sizeof *f->is_entered);
  size_t num_enters = 0;
  for (int i = 0; i < p->num_frames; i++) num_enters += (size_t)p->frames[i].num_enters;
  f->enters = weft_arena_calloc(&p->arena, num_enters + 1, sizeof *f->enters);
  f->first_enter = weft_calloc(frames, sizeof *f->first_enter);
  f->inside = weft_calloc(frames, sizeof *f->inside);
  f->has_frames = weft_calloc(frames, sizeof *f->has_frames);
  f->has_circle = weft_calloc(frames, sizeof *f->has_circle);
  if (f->stand_in == NULL || f->waits == NULL || f->ready == NULL || f->order == NULL ||
      f->is_entered == NULL || f->enters == NULL || f->first_enter == NULL || f->inside == NULL ||
      f->has_frames == NULL || f->has_circle == NULL || !list_enters(f)) {
    return WEFT_NO_MEMORY("compiling frames");
  }
  for (int i = p->num_frames - 1; i >= 0; i--) WEFT_RETURN_IF_ERROR(decide(f, i)); /* parents come first */
  for (int i = 1; i < p->num_frames; i++) {
    if (f->is_unruly || f->has_circle[p->frames[i].parent]) p->frames[i].program = NULL;
    if (p->frames[i].program != NULL) make_gate(p, &p->frames[i]);
  }
  if (f->is_unruly) p->frames[0].program = NULL;
  if (p->has_frames) lead_to_gates(f);
  return NULL;
}

weft_status_t *weft_plan_find_serial(weft_exec_plan_t *p) {
  serial_finder_t f = {.p = p};
  const bool is_short = p->frames[0].num_nodes <= MAX_TOP_NODES && !kinds_in(p, &p->frames[0]).waits;
  weft_status_t *s = p->has_frames || is_short ? find(&f) : NULL;
  weft_free(f.stand_in);
  weft_free(f.waits);
  weft_free(f.ready);
  weft_free(f.order);
  weft_free(f.is_entered);
  weft_free(f.first_enter);
  weft_free(f.inside);
  weft_free(f.has_frames);
  weft_free(f.has_circle);
  return s;
}
