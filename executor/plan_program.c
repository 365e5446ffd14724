/* executor/plan_program.c - makes the program of a frame (serial.h), if it has one.
 *
 * The first walk over the nodes, producers first, finds the guard of each, and for each input which step, in
 * the end, makes its value: what only passes values on is followed back. The second one gathers the inputs of
 * the steps by what makes them: these are the routes. Both are linear.
 *
 * A Merge ends a branch if its inputs are all sides of one predicate, once each; it runs under the guard that
 * the branch is in. All other nodes run under the innermost guard of their inputs, which must lie within each
 * other. So no more is dead at run time than the guards say. A ControlTrigger is never dead: it runs under
 * guard 0, whatever it waits for. In a loop what it waits for may be of the body, and what waits for it must
 * then be of the body, too: the rest runs before.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "executor/serial.h"

enum { MAX_GUARD_DEPTH = 64 }; /* of branches within branches */

typedef struct program_guard {
  uint32_t parent, depth;
  uint32_t side, num_sides;
  uint32_t pred, pred_output; /* what makes the predicate: a maker */
  uint32_t next_of_pred;      /* 0: none */
} program_guard_t;

/* What comes before a node, in some way. */
enum {
  SEES_VARIABLE = 1, /* a Merge */
  SEES_BODY = 2,     /* a node of the body, by a ControlTrigger: the node may be live where that is dead */
};

/* Makers of values are numbered: the frame's nodes, its Enters, the Exits of frames inside; behind them each
 * variable, as the body sees it. */
typedef struct input {
  uint32_t maker, output;
  uint32_t guard; /* when it is live */
} input_t;

typedef struct program_maker {
  const program_source_t *from;
  weft_exec_plan_t *p;
  const plan_frame_t *f;
  serial_program_t *out;
  uint32_t num_makers, first_enter, first_exit, first_variable;
  uint32_t *runs_under;  /* by node of the frame: its guard, of a Merge that of its control inputs */
  uint8_t *sees;         /* by node of the frame: SEES_ bits */
  uint32_t *variable_of; /* by node of the frame: of its Merge, its NextIteration and its Switch, + 1 */
  uint32_t *exit_makers; /* by place in the order: of a gate the first of its frame's Exits */
  input_t *inputs;       /* by slot of the frame */
  program_guard_t *guards;
  uint32_t num_guards, guards_capacity;
  uint32_t *guard_of_pred; /* by maker: the first one, or 0 */
  uint32_t in_body;        /* the guard of the body; 0: not known yet. Behind the loop: one less */
  uint32_t *first_route;   /* by maker, and one more */
  bool is_top;             /* the frame is the top level: all of it is body, under guard 0 */
  bool is_refused, is_unruly;
} program_maker_t;

static void refuse_as_unruly(program_maker_t *m) { m->is_refused = m->is_unruly = true; }

/* ---- guards ---- */

static bool is_within(const program_maker_t *m, uint32_t guard, uint32_t outer) {
  while (m->guards[guard].depth > m->guards[outer].depth) guard = m->guards[guard].parent;
  return guard == outer;
}

static uint32_t innermost(program_maker_t *m, uint32_t a, uint32_t b) {
  if (is_within(m, a, b)) return a;
  if (!is_within(m, b, a)) refuse_as_unruly(m);
  return b;
}

/* Room for `n` more. */
static bool grow_guards(program_maker_t *m, uint32_t n) {
  if (m->guards_capacity - m->num_guards >= n) return true;
  const uint32_t capacity = 2 * m->guards_capacity + n + 16;
  program_guard_t *grown = weft_realloc(m->guards, capacity, sizeof *grown);
  if (grown == NULL) return false;
  m->guards = grown;
  m->guards_capacity = capacity;
  return true;
}

/* The guard of the first side of a predicate, within `parent`; 0: refused, or no memory. */
static uint32_t sides_of(program_maker_t *m, uint32_t parent, const input_t *pred, uint32_t num_sides) {
  for (uint32_t g = m->guard_of_pred[pred->maker]; g != 0; g = m->guards[g].next_of_pred) {
    const program_guard_t *known = &m->guards[g];
    if (known->parent == parent && known->pred_output == pred->output && known->num_sides == num_sides)
      return g;
  }
  const uint32_t first = m->num_guards;
  if (m->guards[parent].depth >= MAX_GUARD_DEPTH || first + num_sides > m->f->num_nodes ||
      !grow_guards(m, num_sides)) {
    m->is_refused = true;
    return 0;
  }
  for (uint32_t i = 0; i < num_sides; i++) {
    m->guards[first + i] = (program_guard_t){.parent = parent,
                                             .depth = m->guards[parent].depth + 1,
                                             .side = i,
                                             .num_sides = num_sides,
                                             .pred = pred->maker,
                                             .pred_output = pred->output};
  }
  m->guards[first].next_of_pred = m->guard_of_pred[pred->maker];
  m->guard_of_pred[pred->maker] = first;
  m->num_guards += num_sides;
  return first;
}

/* ---- the first walk ---- */

static uint64_t op_flags(const program_maker_t *m, uint32_t node) {
  return m->p->setups[node].node.op->flags;
}

static input_t *input_of(const program_maker_t *m, uint32_t node, uint32_t i) {
  return &m->inputs[m->p->nodes[node].first_slot - m->f->first_slot + i];
}

static uint32_t own(const program_maker_t *m, uint32_t node) { return node - m->f->first_node; }

/* Is the guard the body's, or one within it? */
static bool is_in_body(const program_maker_t *m, uint32_t guard) {
  return m->in_body != 0 && is_within(m, guard, m->in_body);
}

/* Tells consumers of `node` of its outputs, which `made` makes, the first one under `guard`; with several
 * `sides` the next one under the next guard. `runs_under`: its own. `sees`: SEES_ bits. */
static void tell(program_maker_t *m, uint32_t node, const input_t *made, bool has_sides, uint32_t runs_under,
                 uint8_t sees) {
  const weft_exec_plan_t *p = m->p;
  const plan_node_t *n = &p->nodes[node];
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) {
    const uint32_t to = own(m, p->edges[e].to & ~TO_MERGE), output = p->edges[e].output;
    input_t *in = &m->inputs[p->edges[e].slot - m->f->first_slot];
    *in = *made;
    in->output = made->output + output;
    if (has_sides) in->guard = made->guard + output;
    m->sees[to] |= sees;
    if (p->edges[e].to & TO_MERGE) {
      m->sees[to] |= SEES_VARIABLE;
    } else {
      m->runs_under[to] = innermost(m, m->runs_under[to], in->guard);
    }
  }
  for (uint32_t c = n->first_control; c < n[1].first_control; c++) {
    const uint32_t consumer = p->controls[c] & ~TO_MERGE, to = own(m, consumer);
    m->sees[to] |= sees;
    if (!(p->nodes[consumer].flags & NODE_TRIGGER)) {
      m->runs_under[to] = innermost(m, m->runs_under[to], runs_under);
    } else if (is_in_body(m, runs_under)) {
      m->sees[to] |= SEES_BODY;
    }
  }
}

static void tell_all(program_maker_t *m, uint32_t node) {
  const uint32_t i = own(m, node), guard = m->runs_under[i];
  const input_t made = {.maker = i, .guard = guard};
  tell(m, node, &made, false, guard, m->sees[i]);
}

static bool has_no_controls(const program_maker_t *m, uint32_t node, uint32_t num_inputs) {
  const plan_node_t *n = &m->p->nodes[node];
  return m->p->words[node] == num_inputs && n->first_control == n[1].first_control;
}

static void walk_merge(program_maker_t *m, uint32_t node) {
  const plan_node_t *n = &m->p->nodes[node];
  const uint32_t i = own(m, node);
  if (n->flags & NODE_REF_INPUT) m->is_refused = true;
  if (m->variable_of[i] != 0) {
    m->is_refused =
        m->is_refused || m->runs_under[i] != 0 || m->p->words[node] != 1 || (n->flags & NODE_INDEX_USED);
    tell_all(m, node);
    return;
  }
  const program_guard_t *first = &m->guards[input_of(m, node, 0)->guard];
  uint32_t seen = 0;
  bool ends_branch = first->num_sides == n->num_inputs && n->num_inputs < 32;
  for (uint32_t k = 0; ends_branch && k < n->num_inputs; k++) {
    const program_guard_t *g = &m->guards[input_of(m, node, k)->guard];
    ends_branch = g->parent == first->parent && g->pred == first->pred &&
                  g->pred_output == first->pred_output && g->num_sides == first->num_sides &&
                  (seen >> g->side & 1) == 0;
    seen |= UINT32_C(1) << g->side;
  }
  if (!ends_branch || !is_within(m, first->parent, m->runs_under[i])) {
    refuse_as_unruly(m);
    return;
  }
  m->runs_under[i] = first->parent;
  tell_all(m, node);
}

static void walk_switch(program_maker_t *m, uint32_t node) {
  const plan_node_t *n = &m->p->nodes[node];
  const uint32_t i = own(m, node);
  const input_t *data = input_of(m, node, 0), *pred = input_of(m, node, 1);
  const bool is_steered = pred->maker == own(m, m->out->cond) && m->out->cond != 0;
  const uint32_t first = sides_of(m, m->runs_under[i], pred, n->num_outputs);
  if (first == 0) return;
  if (is_steered) {
    const uint32_t variable = data->maker < m->f->num_nodes ? m->variable_of[data->maker] : 0;
    if (variable == 0 || m->runs_under[i] != 0 || n->num_outputs != 2 || !has_no_controls(m, node, 2)) {
      m->is_refused = true;
      return;
    }
    m->in_body = first + 1;
    m->variable_of[i] = variable;
    m->out->a_switch = node;
  }
  const input_t made = {.maker = i, .guard = first};
  tell(m, node, &made, true, m->runs_under[i], m->sees[i] | SEES_VARIABLE);
}

/* A frame inside: its variables are live together, and nothing else of it lives longer. */
static void walk_gate(program_maker_t *m, uint32_t place, uint32_t gate) {
  const plan_frame_t *inner = &m->p->frames[m->p->nodes[gate].aux];
  const uint32_t i = own(m, gate);
  bool is_known = false;
  uint32_t guard = 0;
  for (int k = 0; k < inner->num_enters; k++) {
    const uint32_t enter = own(m, inner->enters[k]);
    m->sees[i] |= m->sees[enter];
    if (m->p->nodes[inner->enters[k]].flags & NODE_CONST_ENTER) continue;
    if (is_known && m->runs_under[enter] != guard) refuse_as_unruly(m);
    guard = m->runs_under[enter];
    is_known = true;
  }
  for (int k = 0; k < inner->num_enters; k++) {
    if (!is_within(m, guard, m->runs_under[own(m, inner->enters[k])])) refuse_as_unruly(m);
  }
  if (m->is_unruly) return;
  if (!(m->sees[i] & SEES_VARIABLE) && !m->is_top) m->is_refused = true;
  m->runs_under[i] = guard;
  for (uint32_t x = 0; x < inner->num_exits; x++) {
    const input_t made = {.maker = m->exit_makers[place] + x, .guard = guard};
    tell(m, inner->exits[x], &made, false, guard, m->sees[i] | SEES_VARIABLE);
  }
}

static void walk_forward(program_maker_t *m, uint32_t node) {
  const plan_node_t *n = &m->p->nodes[node];
  const uint32_t i = own(m, node), guard = m->runs_under[i];
  const input_t *in = input_of(m, node, 0);
  if (n->flags & NODE_REF_INPUT) { /* what a reference refers to is read when its turn comes */
    if (n->flags & NODE_CROSSES) {
      m->is_refused = true;
    } else {
      tell_all(m, node);
    }
  } else if (n->flags & NODE_NEXT_ITERATION) {
    if (m->in_body == 0 || guard != m->in_body) refuse_as_unruly(m);
  } else if (n->flags & NODE_EXIT) {
    const bool is_variable = in->maker < m->f->num_nodes && m->variable_of[in->maker] != 0;
    if (m->in_body == 0 || guard != m->in_body - 1 || !is_variable || m->p->words[node] != 1)
      refuse_as_unruly(m);
  } else {
    const input_t made = {.maker = in->maker, .output = in->output, .guard = guard};
    tell(m, node, &made, false, guard, m->sees[i]);
  }
}

static void walk_node(program_maker_t *m, uint32_t place) {
  const uint32_t node = m->from->order[place], i = own(m, node);
  const plan_node_t *n = &m->p->nodes[node];
  const uint64_t flags = op_flags(m, node);
  /* What comes from no variable would run even where the loop is dead. */
  const bool is_aimless =
      !m->is_top && n->kind == NODE_SYNC && !(m->sees[i] & SEES_VARIABLE) && (flags & WEFT_OP_LOOP_COND) == 0;
  if (is_aimless) m->is_refused = true;
  if (n->flags & NODE_ENTER) {
    walk_gate(m, place, node);
  } else if (n->kind == NODE_MERGE) {
    walk_merge(m, node);
  } else if (n->kind == NODE_FORWARD) {
    walk_forward(m, node);
  } else if (n->kind == NODE_SYNC && (flags & WEFT_OP_SWITCH)) {
    walk_switch(m, node);
  } else if (!m->is_top && n->kind == NODE_SYNC && (flags & WEFT_OP_LOOP_COND)) {
    m->is_refused =
        m->is_refused || m->out->cond != 0 || m->runs_under[i] != 0 || !has_no_controls(m, node, 1);
    if (n->flags & NODE_REF_INPUT) m->is_refused = true;
    m->out->cond = node;
    tell_all(m, node);
  } else {
    tell_all(m, node);
  }
  /* Behind the loop there are only Exits. */
  if (m->in_body != 0 && !(n->flags & NODE_EXIT) && is_within(m, m->runs_under[i], m->in_body - 1))
    m->is_refused = true;
  if ((m->sees[i] & SEES_BODY) && !(n->flags & NODE_TRIGGER) && !is_in_body(m, m->runs_under[i]))
    m->is_refused = true;
}

/* Which variable a NextIteration, its Merge and its Enter are of. */
static void find_variables(program_maker_t *m) {
  const weft_exec_plan_t *p = m->p;
  for (uint32_t v = 0; v < m->f->num_next && !m->is_refused; v++) {
    const plan_node_t *next = &p->nodes[m->f->nexts[v]];
    const bool has_one = next[1].first_edge - next->first_edge == 1;
    uint32_t *of = has_one ? &m->variable_of[own(m, p->edges[next->first_edge].to & ~TO_MERGE)] : NULL;
    m->is_refused = !has_one || *of != 0;
    if (has_one) *of = v + 1;
    m->variable_of[own(m, m->f->nexts[v])] = v + 1;
  }
  uint32_t num_entered = 0;
  for (int k = 0; k < m->f->num_enters && !m->is_refused; k++) {
    const plan_node_t *n = &p->nodes[m->f->enters[k]];
    if (n->flags & NODE_CONST_ENTER) continue;
    const bool has_one = n[1].first_edge - n->first_edge == 1;
    const uint32_t variable = has_one ? m->variable_of[own(m, p->edges[n->first_edge].to & ~TO_MERGE)] : 0;
    m->is_refused = variable == 0;
    m->out->variable_of_enter[k] = variable - 1;
    num_entered++;
  }
  if (num_entered != m->f->num_next) m->is_refused = true;
}

static void walk(program_maker_t *m) {
  m->guards[0] = (program_guard_t){.parent = 0};
  m->num_guards = 1;
  find_variables(m);
  if (m->is_refused) m->is_unruly = true;
  for (int k = 0; k < m->f->num_enters && !m->is_unruly; k++) {
    const input_t made = {.maker = m->first_enter + (uint32_t)k};
    tell(m, m->f->enters[k], &made, false, 0, 0);
  }
  for (uint32_t i = 0; i < m->from->num_units && !m->is_unruly; i++) walk_node(m, i);
  if (!m->is_top && (m->out->cond == 0 || m->in_body == 0)) m->is_refused = true;
}

/* ---- the second walk: routes ---- */

static bool is_of_body(const program_maker_t *m, uint32_t node) {
  return is_within(m, m->runs_under[own(m, node)], m->in_body);
}

static bool is_step(const program_maker_t *m, uint32_t node) {
  const plan_node_t *n = &m->p->nodes[node];
  if (n->kind == NODE_MERGE) return m->variable_of[own(m, node)] == 0;
  if (n->flags & (NODE_ENTER | NODE_CLIENT)) return true;
  if (n->flags & NODE_LASTS) return false;
  if (n->kind == NODE_FORWARD) return (n->flags & NODE_REF_INPUT) != 0;
  return n->kind == NODE_SYNC && m->variable_of[own(m, node)] == 0 && (m->is_top || node != m->out->cond);
}

/* By what maker the route to an input of a node is found: of a variable there are two rows. */
static uint32_t row_of(program_maker_t *m, const input_t *in, bool to_body) {
  const uint32_t variable = in->maker < m->f->num_nodes ? m->variable_of[in->maker] : 0;
  if (variable == 0) return in->maker;
  return to_body ? m->first_variable + variable - 1 : in->maker;
}

/* Calls fn with each input that is a route's end. */
static void for_each_end(program_maker_t *m,
                         void (*fn)(program_maker_t *m, uint32_t node, uint32_t input, uint32_t row)) {
  for (uint32_t i = 0; i < m->from->num_units; i++) {
    const uint32_t node = m->from->order[i];
    const plan_node_t *n = &m->p->nodes[node];
    if (n->flags & NODE_ENTER) {
      const plan_frame_t *inner = &m->p->frames[n->aux];
      for (int k = 0; k < inner->num_enters; k++)
        fn(m, inner->enters[k], 0, row_of(m, input_of(m, inner->enters[k], 0), is_of_body(m, node)));
    } else if (is_step(m, node) || (n->flags & NODE_NEXT_ITERATION) || (!m->is_top && node == m->out->cond)) {
      for (uint32_t k = 0; k < n->num_inputs; k++)
        fn(m, node, k, row_of(m, input_of(m, node, k), is_of_body(m, node)));
    }
  }
}

static void count_route(program_maker_t *m, uint32_t node, uint32_t input, uint32_t row) {
  if (!m->is_top && input_of(m, node, input)->maker == own(m, m->out->cond))
    m->is_refused = true; /* it is for Switches */
  m->first_route[row + 1]++;
}

/* Rows are filled from their ends, which thereby become their beginnings. */
static void add_route(program_maker_t *m, uint32_t node, uint32_t input, uint32_t row) {
  const input_t *in = input_of(m, node, input);
  const uint32_t slot = m->p->nodes[node].first_slot + input, place = slot - m->f->first_slot;
  m->out->routes[--m->first_route[row + 1]] = (serial_route_t){slot, in->output};
  m->out->merge_guards[place] = in->guard == m->in_body ? 0 : in->guard;
  if (in->maker >= m->first_enter && in->maker < m->first_exit) m->out->lasting[place] = true;
  if (in->maker >= m->f->num_nodes) return;
  const plan_node_t *maker = &m->p->nodes[m->f->first_node + in->maker];
  if (maker->kind == NODE_CONST || (maker->flags & NODE_LASTS)) m->out->lasting[place] = true;
}

static int by_output(const void *a, const void *b) {
  const serial_route_t *x = a, *y = b;
  if (x->output != y->output) return x->output < y->output ? -1 : 1;
  return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static route_range_t range_of(const program_maker_t *m, uint32_t maker) {
  return (route_range_t){m->first_route[maker + 1], m->first_route[maker + 2]};
}

static void add_step(program_maker_t *m, uint32_t node) {
  const uint32_t i = own(m, node);
  const plan_node_t *n = &m->p->nodes[node];
  serial_step_t *step = &m->out->steps[m->out->num_steps++];
  const uint32_t guard = m->runs_under[i];
  *step = (serial_step_t){.node = node, .guard = guard == m->in_body ? 0 : guard, .routes = range_of(m, i)};
  if (n->kind == NODE_SYNC && (op_flags(m, node) & WEFT_OP_SWITCH))
    step->sides = sides_of(m, guard, input_of(m, node, 1), n->num_outputs);
}

static void add_steps(program_maker_t *m, bool of_body) {
  for (uint32_t i = 0; i < m->from->num_units; i++) {
    const uint32_t node = m->from->order[i];
    const plan_node_t *n = &m->p->nodes[node];
    if (!is_step(m, node) || is_of_body(m, node) != of_body) continue;
    add_step(m, node);
    if ((n->flags & NODE_ENTER) == 0) continue;
    const plan_frame_t *inner = &m->p->frames[n->aux];
    for (uint32_t x = 0; x < inner->num_exits; x++)
      inner->program->exit_routes[x] = range_of(m, m->exit_makers[i] + x);
  }
  if (!of_body) m->out->num_cond = m->out->num_steps;
}

static void add_handles(program_maker_t *m) {
  for (uint32_t i = 0; i < m->from->num_units; i++) {
    const uint32_t node = m->from->order[i];
    if (m->p->nodes[node].flags & NODE_LASTS)
      m->out->handles[m->out->num_handles++] =
          (serial_step_t){.node = node, .routes = range_of(m, own(m, node))};
  }
}

static void add_constants(program_maker_t *m) {
  for (uint32_t i = 0; i < m->from->num_units; i++) {
    const plan_node_t *n = &m->p->nodes[m->from->order[i]];
    if (n->kind != NODE_CONST) continue;
    m->out->constants[m->out->num_constants++] =
        (serial_constant_t){.index = n->extra, .routes = range_of(m, own(m, m->from->order[i]))};
  }
  for (int k = 0; k < m->f->num_enters; k++) {
    const plan_node_t *n = &m->p->nodes[m->f->enters[k]];
    if (n->flags & NODE_CONST_ENTER)
      m->out->constants[m->out->num_constants++] = (serial_constant_t){
          .index = n->extra, .is_invariant = true, .routes = range_of(m, m->first_enter + (uint32_t)k)};
  }
}

static void add_variables(program_maker_t *m) {
  for (uint32_t v = 0; v < m->f->num_next; v++) {
    const uint32_t next = m->f->nexts[v];
    const uint32_t merge = own(m, m->p->edges[m->p->nodes[next].first_edge].to & ~TO_MERGE);
    m->out->variables[v] = (serial_variable_t){.next_slot = m->p->nodes[next].first_slot,
                                               .to_cond = range_of(m, merge),
                                               .to_body = range_of(m, m->first_variable + v)};
  }
  for (uint32_t x = 0; x < m->f->num_exits; x++)
    m->out->variable_of_exit[x] = m->variable_of[input_of(m, m->f->exits[x], 0)->maker] - 1;
}

static void *take(weft_arena_t *arena, size_t n, size_t size) {
  return weft_arena_calloc(arena, n + 1, size);
}

static weft_status_t *no_memory(const plan_frame_t *f) {
  return WEFT_NO_MEMORY("compiling frame '%.*s'", WEFT_STR_ARGS(f->name));
}

static weft_status_t *write_program(program_maker_t *m) {
  serial_program_t *out = m->out;
  weft_arena_t *arena = &m->p->arena;
  for_each_end(m, count_route);
  if (m->is_refused) return NULL;
  for (uint32_t i = 0; i + 1 < m->num_makers + 2; i++) m->first_route[i + 1] += m->first_route[i];
  const uint32_t num_routes = m->first_route[m->num_makers];
  out->routes = take(arena, num_routes, sizeof *out->routes);
  out->steps = take(arena, m->from->num_units, sizeof *out->steps);
  out->handles = take(arena, m->from->num_units, sizeof *out->handles);
  out->constants = take(arena, (size_t)m->from->num_units + (size_t)m->f->num_enters, sizeof *out->constants);
  out->variables = take(arena, m->f->num_next, sizeof *out->variables);
  out->variable_of_exit = take(arena, m->f->num_exits, sizeof *out->variable_of_exit);
  out->exit_routes = take(arena, m->f->num_exits, sizeof *out->exit_routes);
  out->lasting = take(arena, m->f->num_slots, sizeof *out->lasting);
  out->merge_guards = take(arena, m->f->num_slots, sizeof *out->merge_guards);
  if (out->routes == NULL || out->steps == NULL || out->handles == NULL || out->constants == NULL ||
      out->variables == NULL || out->variable_of_exit == NULL || out->exit_routes == NULL ||
      out->lasting == NULL || out->merge_guards == NULL) {
    return no_memory(m->f);
  }
  for_each_end(m, add_route);
  for (uint32_t i = 0; i < m->num_makers; i++) {
    const route_range_t r = range_of(m, i);
    if (r.end - r.begin > 1) qsort(&out->routes[r.begin], r.end - r.begin, sizeof *out->routes, by_output);
  }
  add_steps(m, false);
  add_steps(m, true);
  add_handles(m);
  add_constants(m);
  add_variables(m);
  out->num_guards = m->num_guards;
  return NULL;
}

/* ---- all of it ---- */

/* Numbers the makers; exit_makers must be there. */
static void number_makers(program_maker_t *m) {
  m->first_enter = m->f->num_nodes;
  m->first_exit = m->num_makers = m->first_enter + (uint32_t)m->f->num_enters;
  for (uint32_t i = 0; i < m->from->num_units; i++) {
    const plan_node_t *n = &m->p->nodes[m->from->order[i]];
    if ((n->flags & NODE_ENTER) == 0) continue;
    m->exit_makers[i] = m->num_makers;
    m->num_makers += m->p->frames[n->aux].num_exits;
  }
  m->first_variable = m->num_makers;
  m->num_makers += m->f->num_next;
}

static weft_status_t *make(program_maker_t *m) {
  const size_t nodes = (size_t)m->f->num_nodes + 1;
  m->exit_makers = weft_calloc((size_t)m->from->num_units + 1, sizeof *m->exit_makers);
  if (m->exit_makers == NULL) return no_memory(m->f);
  number_makers(m);
  m->runs_under = weft_calloc(nodes, sizeof *m->runs_under);
  m->sees = weft_calloc(nodes, sizeof *m->sees);
  m->variable_of = weft_calloc(nodes, sizeof *m->variable_of);
  m->inputs = weft_calloc((size_t)m->f->num_slots + 1, sizeof *m->inputs);
  m->guard_of_pred = weft_calloc((size_t)m->num_makers + 1, sizeof *m->guard_of_pred);
  m->first_route = weft_calloc((size_t)m->num_makers + 2, sizeof *m->first_route);
  m->out->variable_of_enter = take(&m->p->arena, (size_t)m->f->num_enters, sizeof *m->out->variable_of_enter);
  if (m->runs_under == NULL || m->sees == NULL || m->variable_of == NULL || m->inputs == NULL ||
      m->guard_of_pred == NULL || m->first_route == NULL || m->out->variable_of_enter == NULL ||
      !grow_guards(m, 1)) {
    return no_memory(m->f);
  }
  walk(m);
  return m->is_refused || !m->from->is_wanted ? NULL : write_program(m);
}

weft_status_t *weft_serial_program_make(const program_source_t *from, serial_program_t **out,
                                        bool *is_unruly) {
  program_maker_t m = {
      .from = from, .p = from->p, .f = from->frame, .is_top = from->frame == &from->p->frames[0]};
  *out = NULL;
  m.out = weft_arena_calloc(&from->p->arena, 1, sizeof *m.out);
  weft_status_t *s = m.out == NULL ? no_memory(from->frame) : make(&m);
  weft_free(m.exit_makers);
  weft_free(m.runs_under);
  weft_free(m.sees);
  weft_free(m.variable_of);
  weft_free(m.inputs);
  weft_free(m.guard_of_pred);
  weft_free(m.first_route);
  weft_free(m.guards);
  if (s == NULL && !m.is_refused && from->is_wanted) *out = m.out;
  *is_unruly = m.is_unruly;
  return s;
}
