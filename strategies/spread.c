/* strategies/spread.c - the spread analysis: rounds over the graph, and the plan that comes out.
 *
 * 1. Nodes that the roots need, producers first. A round asks each node's rule; a
 *    node whose inputs are not known yet (values that come round a loop) waits for
 *    the next round. Rounds end when nothing changes.
 * 2. A sum of parts that somebody needs added up is added up for all its
 *    consumers: the all-reduce is paid for, and what follows needs none then. So
 *    the rounds start again with these sums, until there are no new ones.
 * 3. Communication inside a loop would happen in every round of it. Where the value
 *    came into the loop from outside, it happens there, before (`forced`);
 *    elsewhere the graph is refused.
 */
#include "strategies/spread.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/spread_rules.h"

typedef weft_spread_value_t value_t;

typedef struct rule {
  const char *op;
  weft_spread_rule_fn *fn;
  int detail;
} rule_t;

static const rule_t rules[] = {
#define WEFT_SPREAD(op, ...) {op, __VA_ARGS__},
#include "strategies/spread_rules.def"
#undef WEFT_SPREAD
};
enum { NUM_RULES = sizeof rules / sizeof rules[0], MAX_ROUNDS = 64, MAX_NOTES = 40 };

/* What a TensorArray, a gradient of one, or a stack holds. */
typedef struct cell {
  int node, of; /* the node that made it; of a gradient: the cell of its TensorArray, and node -1 */
  weft_str_t source;
  value_t value;
} cell_t;

struct weft_spread_analysis {
  const weft_graph_t *g;
  const weft_spread_options_t *options;
  weft_spread_plan_t *plan;
  weft_arena_t arena; /* of the analysis alone */
  weft_node_t **order; /* owned; needed ones, producers first */
  int num_order;
  value_t **values;       /* by node id */
  bool **shared;          /* by node id: this part is added up for all */
  weft_spread_t *forced;  /* by node id, of Enter: how its value must be given; NONE: as it comes */
  const weft_shape_t **shapes; /* by node id: better known than in the graph; NULL: as there */
  weft_frames_t frames;
  bool has_loops, has_cells;
  cell_t *cells; /* owned; cells[0] is nobody's */
  int num_cells, capacity;
  int *asked; /* by node id: the last round in which true values were asked for */
  int round;
  bool changed, failed; /* failed: there was no memory */
};

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "analysing a graph for replicas"); }

static const rule_t *rule_of(weft_str_t op) {
  int low = 0, high = NUM_RULES;
  while (low < high) {
    int middle = (low + high) / 2, order = weft_str_compare(weft_str(rules[middle].op), op);
    if (order == 0) return &rules[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

const char *weft_spread_rule_op(int i) { return i >= 0 && i < NUM_RULES ? rules[i].op : NULL; }

bool weft_spread_has_rule(const weft_op_def_t *op) {
  const uint32_t by_flags = WEFT_OP_ELEMENTWISE | WEFT_OP_UPDATE | WEFT_OP_CONST | WEFT_OP_VARIABLE | WEFT_OP_PLACEHOLDER |
                            WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION |
                            WEFT_OP_LOOP_COND | WEFT_OP_NOOP | WEFT_OP_CONTROL_TRIGGER | WEFT_OP_METADATA;
  return (op->flags & by_flags) != 0 || rule_of(op->name) != NULL;
}

void *weft_spread_alloc(const weft_spread_ctx_t *c, size_t bytes) {
  void *memory = weft_arena_calloc(&c->analysis->arena, 1, bytes);
  if (memory == NULL) c->analysis->failed = true;
  return memory;
}

/* ---- cells ---- */

weft_status_t *weft_spread_cell_new(weft_spread_ctx_t *c, int of, weft_str_t source, int *out) {
  weft_spread_analysis_t *a = c->analysis;
  a->has_cells = true;
  int node = of == 0 ? c->node->id : -1;
  for (int i = 1; i < a->num_cells; i++) {
    const cell_t *cell = &a->cells[i];
    if (cell->node == node && cell->of == of && weft_str_eq(cell->source, source)) return *out = i, NULL;
  }
  if (a->num_cells >= a->capacity) {
    int capacity = a->capacity == 0 ? 16 : 2 * a->capacity;
    cell_t *cells = weft_calloc((size_t)capacity, sizeof *cells);
    if (cells == NULL) return no_memory();
    if (a->num_cells > 0) memcpy(cells, a->cells, (size_t)a->num_cells * sizeof *cells);
    weft_free(a->cells);
    a->cells = cells;
    a->capacity = capacity;
    if (a->num_cells == 0) a->num_cells = 1;
  }
  *out = a->num_cells++;
  a->cells[*out] = (cell_t){node, of, source, weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE))};
  return NULL;
}

const value_t *weft_spread_cell_get(const weft_spread_ctx_t *c, int cell) {
  const weft_spread_analysis_t *a = c->analysis;
  return cell > 0 && cell < a->num_cells ? &a->cells[cell].value : NULL;
}

weft_status_t *weft_spread_cell_put(weft_spread_ctx_t *c, int cell, const value_t *v) {
  weft_spread_analysis_t *a = c->analysis;
  if (cell <= 0 || cell >= a->num_cells) {
    return weft_spread_refuse(c->node, "it is not known which TensorArray or stack this is");
  }
  if (!weft_spread_value_eq(&a->cells[cell].value, v)) {
    a->cells[cell].value = *v;
    a->changed = true;
  }
  return NULL;
}

/* ---- notes ---- */

weft_status_t *weft_spread_note(weft_spread_analysis_t *a, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  weft_spread_plan_t *p = a->plan;
  if (p->num_notes >= MAX_NOTES) return NULL;
  weft_str_t copy = weft_arena_str(&p->arena, weft_str(text));
  if (copy.data == NULL) return no_memory();
  p->notes[p->num_notes++] = copy;
  return NULL;
}

/* ---- one node ---- */

/* A value as consumers see it: a reader's batch as rows, a part that is added up for all as what it is then. */
static value_t seen(weft_spread_analysis_t *a, weft_output_t from) {
  value_t v = a->values[from.node->id][from.index];
  if (v.is_batch) {
    int64_t factor = v.factor;
    v = weft_spread_value(weft_spread_rows(0, 0));
    v.factor = factor;
  } else if (v.s.kind == WEFT_SPREAD_PART && a->shared[from.node->id][from.index]) {
    v.s = weft_spread_same(0);
  }
  return v;
}

static bool is_batch_placeholder(const weft_spread_analysis_t *a, const weft_node_t *n) {
  const weft_spread_options_t *o = a->options;
  for (int i = 0; i < o->num_batch; i++) {
    if (o->batch[i] == n) return true;
  }
  if (o->num_batch > 0 || n->output_shapes == NULL) return false;
  return n->output_shapes[0].rank > 0 && n->output_shapes[0].dims[0] == WEFT_UNKNOWN_DIM;
}

weft_status_t *weft_spread_placeholder(weft_spread_ctx_t *c) {
  if (!is_batch_placeholder(c->analysis, c->node)) {
    if (c->node->num_inputs > 0 && c->in[0].s.kind != WEFT_SPREAD_SAME) c->wanted[0] = weft_spread_same(0);
    return NULL;
  }
  if (c->node->num_inputs > 0) c->wanted[0] = weft_spread_rows(0, 0);
  c->out[0] = weft_spread_value(weft_spread_rows(0, 0));
  c->out[0].factor = 1;
  return NULL;
}

static weft_status_t *enter(weft_spread_ctx_t *c) {
  const weft_spread_t *forced = &c->analysis->forced[c->node->id];
  weft_spread_pass(c, 0, 0);
  if (forced->kind == WEFT_SPREAD_NONE || c->in[0].s.kind == WEFT_SPREAD_EACH) return NULL;
  c->wanted[0] = *forced;
  c->run = WEFT_RUN_EACH;
  if (forced->kind == WEFT_SPREAD_SAME && forced->degree == 0) {
    c->out[0] = weft_spread_true_value(c, &c->in[0], WEFT_SPREAD_SAME);
  } else {
    c->out[0].s = *forced;
  }
  return NULL;
}

/* Something writes a variable, or might, and the op table does not say what. */
static weft_status_t *check_effects(const weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!c->in[i].is_state) continue;
    bool is_handle = n->input_types[i] >= WEFT_REF || n->input_types[i] == WEFT_RESOURCE;
    if (is_handle) {
      return weft_spread_refuse(n, "what it does to the variable '%.*s' is not known",
                                WEFT_STR_ARGS(n->inputs[i].node->name));
    }
  }
  return NULL;
}

/* Numbers of own rows go as such into few ops; for others everybody must number the rows of the whole batch. */
static bool takes_own_rows(const rule_t *rule) {
  static weft_spread_rule_fn *const takers[] = {weft_spread_pack,      weft_spread_concat,     weft_spread_expand,
                                                weft_spread_gather_nd, weft_spread_scatter_nd, weft_spread_pass_all};
  bool takes = false;
  for (size_t i = 0; rule != NULL && i < sizeof takers / sizeof takers[0]; i++) takes = takes || rule->fn == takers[i];
  return takes;
}

static bool number_all_rows(weft_spread_ctx_t *c, const rule_t *rule) {
  bool any = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].own == 0 || takes_own_rows(rule)) continue;
    weft_spread_force_true(c, c->in[i].own - 1);
    any = true;
  }
  for (int o = 0; any && o < c->node->num_outputs; o++) c->out[o] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
  return any;
}

static weft_status_t *ask(weft_spread_ctx_t *c, value_t *in) {
  const weft_node_t *n = c->node;
  uint32_t flags = n->op->flags;
  if (number_all_rows(c, rule_of(n->op->name))) return NULL; /* next time */
  if ((flags & WEFT_OP_MERGE) != 0) return weft_spread_merge(c);
  bool is_forced = c->analysis->forced[n->id].kind != WEFT_SPREAD_NONE && (flags & WEFT_OP_ENTER) == 0;
  const rule_t *rule = rule_of(n->op->name);
  if (!is_forced && weft_spread_ints_compute(c)) return NULL;
  bool has_shape = false;
  for (int i = 0; i < n->num_inputs; i++) has_shape |= c->in[i].s.kind == WEFT_SPREAD_SHAPE;
  if (is_forced || (has_shape && rule != NULL && rule->fn == weft_spread_everywhere)) {
    for (int i = 0; i < n->num_inputs; i++) { /* all as it truly is: then the numbers are known, perhaps */
      if (c->in[i].s.kind == WEFT_SPREAD_SAME || c->in[i].s.kind == WEFT_SPREAD_EACH) continue;
      in[i] = weft_spread_true_value(c, &in[i], WEFT_SPREAD_SAME);
      c->wanted[i] = in[i].s;
    }
    if (weft_spread_ints_compute(c)) return NULL;
  }
  if (rule != NULL) {
    c->detail = rule->detail;
    return rule->fn(c);
  }
  if ((flags & WEFT_OP_CONST) != 0) return weft_spread_constant(c);
  if ((flags & WEFT_OP_PLACEHOLDER) != 0) return weft_spread_placeholder(c);
  if ((flags & WEFT_OP_VARIABLE) != 0) return weft_spread_state(c);
  if ((flags & WEFT_OP_UPDATE) != 0) return weft_spread_update(c);
  if ((flags & WEFT_OP_SWITCH) != 0) return weft_spread_switch(c);
  if ((flags & WEFT_OP_ENTER) != 0) return enter(c);
  if ((flags & (WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION)) != 0) return weft_spread_pass_all(c);
  if ((flags & WEFT_OP_LOOP_COND) != 0) {
    if (c->in[0].s.kind != WEFT_SPREAD_SAME && c->in[0].s.kind != WEFT_SPREAD_ONCE) c->wanted[0] = weft_spread_same(0);
    if (c->in[0].s.kind == WEFT_SPREAD_ONCE) weft_spread_pass(c, 0, 0);
    return NULL;
  }
  if ((flags & (WEFT_OP_NOOP | WEFT_OP_CONTROL_TRIGGER)) != 0) return NULL;
  if ((flags & WEFT_OP_METADATA) != 0) return weft_spread_metadata(c);
  WEFT_RETURN_IF_ERROR(check_effects(c));
  if ((flags & WEFT_OP_ELEMENTWISE) != 0) return weft_spread_apply_form(c, WEFT_FORM_NONLINEAR);
  return weft_spread_once(c);
}

void weft_spread_force_true(weft_spread_ctx_t *c, int id) {
  c->analysis->asked[id] = c->analysis->round;
}

/* What was asked for in the last round: before it, values were not yet what they are. */
static bool grant(weft_spread_analysis_t *a) {
  bool any = false;
  for (int i = 0; i < a->num_order; i++) {
    int id = a->order[i]->id;
    if (a->asked[id] != a->round || a->forced[id].kind != WEFT_SPREAD_NONE) continue;
    a->forced[id] = weft_spread_same(0);
    any = true;
  }
  return any;
}

/* The rank of output 0, where shape inference lacks it: inside loops, mostly. */
static int likely_rank(const weft_spread_ctx_t *c) {
  static const struct {
    weft_spread_rule_fn *fn;
    int input; /* of the same rank */
  } alike[] = {{weft_spread_transpose, 0}, {weft_spread_pad, 0},     {weft_spread_slice, 0},
               {weft_spread_tile, 0},      {weft_spread_reverse, 0}, {weft_spread_reverse_sequence, 0},
               {weft_spread_add_bias, 0},  {weft_spread_cumulate, 0}, {weft_spread_look_on, 0}};
  const weft_node_t *n = c->node;
  const rule_t *rule = rule_of(n->op->name);
  if (rule == NULL) return -1;
  for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++) {
    if (rule->fn == alike[i].fn && n->num_inputs > 0) return weft_spread_in_shape(c, alike[i].input)->rank;
  }
  if (rule->fn == weft_spread_strided_slice && c->in[1].ints != NULL && !c->in[1].ints->is_set) {
    uint64_t specs = ((uint64_t)1 << (c->in[1].ints->n & 31)) - 1, dots = (uint64_t)weft_node_attr_int(n, "ellipsis_mask", 0);
    uint64_t added = (uint64_t)weft_node_attr_int(n, "new_axis_mask", 0) & specs & ~dots;
    uint64_t dropped = (uint64_t)weft_node_attr_int(n, "shrink_axis_mask", 0) & specs & ~dots & ~added;
    int rank = weft_spread_in_shape(c, 0)->rank;
    return rank < 0 ? -1 : rank + __builtin_popcountll(added) - __builtin_popcountll(dropped);
  }
  if (rule->fn == weft_spread_one_hot) {
    int rank = weft_spread_in_shape(c, 0)->rank;
    return rank < 0 ? -1 : rank + 1;
  }
  if (rule->fn == weft_spread_matmul) return 2;
  if (rule->fn == weft_spread_concat) return weft_spread_in_shape(c, rule->detail == 1 ? 1 : 0)->rank;
  if (rule->fn == weft_spread_split) return weft_spread_in_shape(c, rule->detail)->rank;
  if (rule->fn == weft_spread_select) return weft_spread_in_shape(c, 1)->rank;
  if (rule->fn == weft_spread_reduce && weft_node_attr_bool(n, "keep_dims", false)) return weft_spread_in_shape(c, 0)->rank;
  if (rule->fn == weft_spread_broadcast && c->in[1].ints != NULL && !c->in[1].ints->is_set) return c->in[1].ints->n;
  if (rule->fn == weft_spread_fill && c->in[0].ints != NULL && !c->in[0].ints->is_set) return c->in[0].ints->n;
  return -1;
}

static weft_status_t *visit(weft_spread_analysis_t *a, const weft_node_t *n) {
  value_t *in = weft_arena_calloc(&a->arena, (size_t)n->num_inputs + 1, sizeof *in);
  value_t *out = weft_arena_calloc(&a->arena, (size_t)n->num_outputs + 1, sizeof *out);
  if (in == NULL || out == NULL) return no_memory();
  bool is_merge = (n->op->flags & WEFT_OP_MERGE) != 0;
  weft_spread_t *wanted = a->plan->wanted[n->id];
  for (int i = 0; i < n->num_inputs; i++) {
    in[i] = seen(a, n->inputs[i]);
    if (in[i].s.kind == WEFT_SPREAD_NONE && !is_merge) return NULL; /* next round */
    wanted[i] = in[i].s;
  }
  for (int o = 0; o < n->num_outputs; o++) {
    out[o] = is_merge ? a->values[n->id][o] : weft_spread_value(weft_spread_same(0));
  }
  weft_spread_ctx_t c = {a, n, in, wanted, out, WEFT_RUN_EACH, false, 0, 0};
  WEFT_RETURN_IF_ERROR(ask(&c, in));
  if (a->failed) return no_memory();
  a->plan->run[n->id] = c.run;
  a->plan->own_seed[n->id] = c.own_seed;
  a->plan->squeezed[n->id] = c.squeezed;
  for (int o = 0; o < n->num_outputs; o++) {
    int rank = weft_spread_shape_of(a, n, o)->rank;
    if (rank < 0 && out[o].rank < 0) rank = likely_rank(&c);
    if (rank >= 0 && out[o].s.kind != WEFT_SPREAD_NONE) out[o].rank = rank;
    if (weft_spread_value_eq(&out[o], &a->values[n->id][o])) continue;
    a->values[n->id][o] = out[o];
    a->changed = true;
  }
  return NULL;
}

/* ---- rounds ---- */

static void forget(weft_spread_analysis_t *a) {
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int o = 0; o < n->num_outputs; o++) a->values[n->id][o] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
  }
  for (int i = 1; i < a->num_cells; i++) a->cells[i].value = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
}

static weft_status_t *settle(weft_spread_analysis_t *a) {
  forget(a);
  a->changed = true;
  for (int round = 0; a->changed; round++) {
    if (round == MAX_ROUNDS) {
      return weft_spread_refuse(a->order[a->num_order - 1], "the analysis of its loops does not come to an end");
    }
    a->changed = false;
    a->round++;
    for (int i = 0; i < a->num_order; i++) WEFT_RETURN_IF_ERROR(visit(a, a->order[i]));
    if (!a->has_loops && !a->has_cells) break;
  }
  return NULL;
}

/* Parts that somebody wants added up. */
static bool share_sums(weft_spread_analysis_t *a) {
  bool any = false;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int k = 0; k < n->num_inputs; k++) {
      weft_output_t from = n->inputs[k];
      const value_t *v = &a->values[from.node->id][from.index];
      bool *shared = &a->shared[from.node->id][from.index];
      if (v->s.kind != WEFT_SPREAD_PART || *shared) continue;
      if (a->plan->wanted[n->id][k].kind == WEFT_SPREAD_SAME) *shared = any = true;
    }
  }
  return any;
}

/* Asks that `from`, a value inside a loop, be given as `to`; *found false if it is made inside. */
static void force(weft_spread_analysis_t *a, weft_output_t from, const weft_spread_t *to, bool *found, bool *any) {
  weft_node_t *n = from.node;
  uint32_t flags = n->op->flags;
  if ((flags & WEFT_OP_ENTER) != 0) {
    weft_spread_t *forced = &a->forced[n->id];
    if (weft_spread_eq(forced, to)) {
      *any |= !weft_spread_eq(&a->values[n->id][0].s, to); /* asked for just now, by another */
      return;
    }
    *forced = forced->kind == WEFT_SPREAD_NONE ? *to : weft_spread_same(0);
    *any = true;
    return;
  }
  bool passes = (flags & (WEFT_OP_SWITCH | WEFT_OP_NEXT_ITERATION | WEFT_OP_MERGE)) != 0 ||
                weft_str_is(n->op->name, "Identity");
  if (!passes) *found = false;
  if (!passes || n->mark == 1) return;
  n->mark = 1;
  int num_values = (flags & WEFT_OP_MERGE) != 0 ? n->num_inputs : 1;
  for (int i = 0; i < num_values; i++) force(a, n->inputs[i], to, found, any);
}

static weft_status_t *move_out_of_loops(weft_spread_analysis_t *a, bool *any) {
  *any = false;
  for (int i = 0; a->has_loops && i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    int frame = a->frames.frame_of[n->id];
    if ((n->op->flags & WEFT_OP_ENTER) != 0) frame = a->frames.parent[frame];
    for (int k = 0; frame != 0 && k < n->num_inputs; k++) {
      weft_output_t from = n->inputs[k];
      const value_t *v = &a->values[from.node->id][from.index];
      const weft_spread_t *to = &a->plan->wanted[n->id][k];
      if (weft_spread_eq(&v->s, to) || to->kind == WEFT_SPREAD_ONCE || v->zero) continue;
      bool found = true, is_new = false;
      for (int j = 0; j < a->num_order; j++) a->order[j]->mark = 0;
      force(a, from, to, &found, &is_new);
      *any |= is_new;
      if (!found || !is_new) {
        weft_strbuf_t text = WEFT_STRBUF_INIT;
        weft_spread_print(&v->s, &text);
        weft_status_t *s = weft_spread_refuse(
            n, "its input '%.*s' (%s) is needed whole in every round of a loop, and replicas do not talk there",
            WEFT_STR_ARGS(from.node->name), text.failed || text.data == NULL ? "?" : text.data);
        weft_strbuf_deinit(&text);
        return s;
      }
    }
  }
  return NULL;
}

static weft_status_t *run_rounds(weft_spread_analysis_t *a) {
  for (int pass = 0; pass < MAX_ROUNDS; pass++) {
    bool moved;
    WEFT_RETURN_IF_ERROR(settle(a));
    for (int i = 0; i < a->options->num_roots; i++) { /* fetched: then as it truly is */
      const weft_node_t *n = a->options->roots[i];
      for (int o = 0; o < n->num_outputs; o++) {
        int own = a->values[n->id][o].own;
        if (own != 0) a->asked[own - 1] = a->round;
      }
    }
    if (grant(a)) continue;
    WEFT_RETURN_IF_ERROR(move_out_of_loops(a, &moved));
    bool shared = share_sums(a);
    if (!shared && !moved) return NULL;
  }
  return weft_spread_refuse(a->order[a->num_order - 1], "the analysis does not come to an end");
}

/* ---- start and end ---- */

static bool is_needed(const weft_spread_analysis_t *a, const weft_node_t *n) { return a->values[n->id] != NULL; }

static weft_status_t *need(weft_spread_analysis_t *a, weft_node_t **stack, int *depth, weft_node_t *n) {
  if (is_needed(a, n)) return NULL;
  weft_spread_plan_t *p = a->plan;
  size_t outputs = (size_t)n->num_outputs + 1;
  a->values[n->id] = weft_arena_calloc(&a->arena, outputs, sizeof(value_t));
  a->shared[n->id] = weft_arena_calloc(&a->arena, outputs, sizeof(bool));
  p->outputs[n->id] = weft_arena_calloc(&p->arena, outputs, sizeof(weft_spread_t));
  p->wanted[n->id] = weft_arena_calloc(&p->arena, (size_t)n->num_inputs + 1, sizeof(weft_spread_t));
  if (a->values[n->id] == NULL || a->shared[n->id] == NULL || p->outputs[n->id] == NULL || p->wanted[n->id] == NULL) {
    return no_memory();
  }
  stack[(*depth)++] = n;
  return NULL;
}

static weft_status_t *find_needed(weft_spread_analysis_t *a) {
  const weft_graph_t *g = a->g;
  int depth = 0;
  weft_node_t **stack = weft_arena_alloc(&a->arena, ((size_t)g->num_nodes + 1) * sizeof *stack);
  if (stack == NULL) return no_memory();
  for (int i = 0; i < a->options->num_roots; i++) {
    WEFT_RETURN_IF_ERROR(need(a, stack, &depth, g->nodes[a->options->roots[i]->id]));
  }
  while (depth > 0) {
    const weft_node_t *n = stack[--depth];
    a->has_loops |= (n->op->flags & WEFT_OP_ENTER) != 0;
    for (int i = 0; i < n->num_inputs; i++) WEFT_RETURN_IF_ERROR(need(a, stack, &depth, n->inputs[i].node));
    for (int i = 0; i < n->num_controls; i++) WEFT_RETURN_IF_ERROR(need(a, stack, &depth, n->controls[i]));
  }
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &a->order));
  for (int i = 0; i < g->num_live; i++) {
    if (is_needed(a, a->order[i])) a->order[a->num_order++] = a->order[i];
  }
  return NULL;
}

const weft_shape_t *weft_spread_shape_of(const weft_spread_analysis_t *a, const weft_node_t *n, int output) {
  static const weft_shape_t unknown = {.rank = WEFT_UNKNOWN_DIM};
  if (a->shapes[n->id] != NULL) return &a->shapes[n->id][output];
  return n->output_shapes == NULL ? &unknown : &n->output_shapes[output];
}

/* With this many rows in the batch, shape inference says more: Squeeze of [?, 1] has one dimension then. */
enum { EXAMPLE_ROWS = 1000003 };

/* What the queue behind a handle says of component k of its elements; NULL: nothing. */
static const weft_shape_t *component_shape(const weft_node_t *reader, int k) {
  const weft_node_t *queue = reader->inputs[0].node;
  while (weft_str_is(queue->op->name, "Identity") || weft_str_is(queue->op->name, "RefIdentity")) {
    queue = queue->inputs[0].node;
  }
  const weft_attr_t *shapes = weft_node_attr(queue, "shapes");
  return shapes != NULL && shapes->is_list && k < shapes->n ? &shapes->list.shapes[k] : NULL;
}

/* A placeholder in the place of output `o` of a reader of batches. */
static weft_status_t *read_example(weft_graph_t *copy, weft_node_t *reader, int o) {
  const weft_shape_t *element = component_shape(reader, o);
  if (element == NULL || element->rank < 0 || element->rank >= WEFT_MAX_DIMS) return NULL;
  weft_shape_t shape = {.rank = element->rank + 1, .dims = {EXAMPLE_ROWS}};
  for (int d = 0; d < element->rank; d++) shape.dims[d + 1] = element->dims[d];
  const weft_named_attr_t attrs[2] = {
      {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = reader->output_types[o]}},
      {WEFT_STR("shape"), {.kind = WEFT_ATTR_SHAPE, .shape = &shape}}};
  weft_node_spec_t spec = {.name = weft_graph_unique_name(copy, WEFT_STR("example")),
                           .op = WEFT_STR("Placeholder"),
                           .attrs = attrs,
                           .num_attrs = 2};
  weft_node_t *batch;
  if (spec.name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_add(copy, &spec, &batch));
  for (int id = 0; id < copy->num_nodes; id++) {
    weft_node_t *n = copy->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) {
      if (n->inputs[i].node == reader && n->inputs[i].index == o) weft_graph_set_input(n, i, (weft_output_t){batch, 0});
    }
  }
  return NULL;
}

/* Gives the placeholders of `copy` that many rows and infers again. */
static weft_status_t *infer_example(const weft_spread_analysis_t *a, weft_graph_t *copy) {
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    weft_node_t *mine = weft_graph_find(copy, n->name);
    if (mine == NULL || (n->op->flags & WEFT_OP_PLACEHOLDER) == 0 || !is_batch_placeholder(a, n)) continue;
    if (n->output_shapes == NULL || n->output_shapes[0].rank < 1 || n->output_shapes[0].dims[0] >= 0) continue;
    weft_shape_t shape = n->output_shapes[0];
    shape.dims[0] = EXAMPLE_ROWS;
    weft_attr_t attr = {.kind = WEFT_ATTR_SHAPE, .shape = &shape};
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(copy, mine, "shape", &attr));
  }
  for (int i = 0; i < a->num_order; i++) {
    const rule_t *rule = rule_of(a->order[i]->op->name);
    weft_node_t *mine = weft_graph_find(copy, a->order[i]->name);
    if (rule == NULL || rule->fn != weft_spread_batch_reader || mine == NULL) continue;
    for (int o = 0; o < mine->num_outputs; o++) WEFT_RETURN_IF_ERROR(read_example(copy, mine, o));
  }
  return weft_pass_infer_shapes(copy);
}

/* Ranks that the graph's own shapes lack. Of dims only those that are 1 are believed. */
static weft_status_t *improve_shapes(weft_spread_analysis_t *a) {
  bool is_lacking = false;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int o = 0; o < n->num_outputs; o++) {
      is_lacking |= n->output_shapes != NULL && n->output_shapes[o].rank < 0 && n->output_types[o] != WEFT_RESOURCE;
    }
  }
  if (!is_lacking) return NULL;
  weft_graph_t *copy;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(a->g, &copy));
  weft_status_t *s = infer_example(a, copy);
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) {
    weft_graph_destroy(copy);
    return s;
  }
  bool is_known = s == NULL; /* shapes that do not fit so many rows are none of our business here */
  weft_status_free(s);
  s = NULL;
  for (int i = 0; is_known && s == NULL && i < a->num_order; i++) {
    const weft_node_t *n = a->order[i], *mine = weft_graph_find(copy, n->name);
    if (mine == NULL || mine->output_shapes == NULL || n->num_outputs == 0 || n->output_shapes == NULL) continue;
    weft_shape_t *shapes = weft_arena_calloc(&a->arena, (size_t)n->num_outputs, sizeof *shapes);
    if (shapes == NULL) s = no_memory();
    for (int o = 0; s == NULL && o < n->num_outputs; o++) {
      shapes[o] = n->output_shapes[o];
      if (shapes[o].rank >= 0 || mine->output_shapes[o].rank < 0) continue;
      shapes[o] = mine->output_shapes[o];
      for (int d = 0; d < shapes[o].rank; d++) {
        if (shapes[o].dims[d] != 1) shapes[o].dims[d] = WEFT_UNKNOWN_DIM;
      }
    }
    a->shapes[n->id] = shapes;
  }
  weft_graph_destroy(copy);
  return s;
}

static weft_status_t *start(weft_spread_analysis_t *a) {
  weft_spread_plan_t *p = a->plan;
  size_t n = (size_t)a->g->num_nodes + 1;
  p->run = weft_arena_calloc(&p->arena, n, sizeof *p->run);
  p->outputs = weft_arena_calloc(&p->arena, n, sizeof *p->outputs);
  p->wanted = weft_arena_calloc(&p->arena, n, sizeof *p->wanted);
  p->own_seed = weft_arena_calloc(&p->arena, n, sizeof *p->own_seed);
  p->squeezed = weft_arena_calloc(&p->arena, n, sizeof *p->squeezed);
  p->notes = weft_arena_calloc(&p->arena, MAX_NOTES, sizeof *p->notes);
  a->values = weft_arena_calloc(&a->arena, n, sizeof *a->values);
  a->shared = weft_arena_calloc(&a->arena, n, sizeof *a->shared);
  a->forced = weft_arena_calloc(&a->arena, n, sizeof *a->forced);
  a->asked = weft_arena_calloc(&a->arena, n, sizeof *a->asked);
  a->shapes = weft_arena_calloc(&a->arena, n, sizeof *a->shapes);
  bool is_there = p->run != NULL && p->outputs != NULL && p->wanted != NULL && p->own_seed != NULL &&
                  p->squeezed != NULL && p->notes != NULL && a->values != NULL && a->shared != NULL && a->forced != NULL &&
                  a->asked != NULL && a->shapes != NULL;
  if (!is_there) return no_memory();
  WEFT_RETURN_IF_ERROR(find_needed(a));
  WEFT_RETURN_IF_ERROR(improve_shapes(a));
  return a->has_loops ? weft_pass_find_frames(a->g, &a->arena, &a->frames) : NULL;
}

/* Says whether anybody takes rows of this reader's batch. */
static weft_status_t *find_batches(weft_spread_analysis_t *a) {
  weft_spread_plan_t *p = a->plan;
  size_t n = 0, feeds = 0;
  for (int i = 0; i < a->num_order; i++) {
    for (int o = 0; o < a->order[i]->num_outputs; o++) n += a->values[a->order[i]->id][o].is_batch;
    feeds += is_batch_placeholder(a, a->order[i]) && rule_of(a->order[i]->op->name) != NULL;
    n += (a->order[i]->op->flags & WEFT_OP_PLACEHOLDER) != 0;
  }
  p->batches = weft_arena_calloc(&p->arena, n + feeds + 1, sizeof *p->batches);
  p->batch_feeds = weft_arena_calloc(&p->arena, n + feeds + 1, sizeof *p->batch_feeds);
  if (p->batches == NULL || p->batch_feeds == NULL) return no_memory();
  for (int i = 0; i < a->num_order; i++) {
    weft_node_t *node = a->order[i];
    bool is_placeholder = (node->op->flags & WEFT_OP_PLACEHOLDER) != 0 ||
                          weft_str_is(node->op->name, "PlaceholderWithDefault");
    if (is_placeholder && is_batch_placeholder(a, node)) {
      p->batch_feeds[p->num_batch_feeds++] = node;
      p->batches[p->num_batches++] = (weft_output_t){node, 0};
    }
    for (int o = 0; o < node->num_outputs; o++) {
      if (a->values[node->id][o].is_batch) p->batches[p->num_batches++] = (weft_output_t){node, o};
    }
  }
  if (p->num_batches > 0 || a->options->may_lack_batch) return NULL;
  const weft_node_t *culprit = a->num_order > 0 ? a->order[a->num_order - 1] : NULL;
  for (int i = 0; i < a->num_order; i++) {
    if ((a->order[i]->op->flags & WEFT_OP_PLACEHOLDER) != 0) culprit = a->order[i];
  }
  if (culprit == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "Nothing is to be run: no batch to share out over replicas");
  return weft_spread_refuse(culprit,
                            "no input has a batch dimension; declare the first dimension of what is fed as unknown, "
                            "or name the placeholders to be split: batch=x+y");
}

static weft_status_t *finish(weft_spread_analysis_t *a) {
  weft_spread_plan_t *p = a->plan;
  p->graph = a->g;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    bool takes_spread = false;
    for (int o = 0; o < n->num_outputs; o++) {
      p->outputs[n->id][o] = a->values[n->id][o].s;
      if (a->values[n->id][o].s.kind == WEFT_SPREAD_NONE) {
        return weft_spread_refuse(n, "it cannot be told how its output %d is spread: nothing is ever put there", o);
      }
    }
    for (int k = 0; k < n->num_inputs; k++) {
      weft_spread_kind_t kind = a->values[n->inputs[k].node->id][n->inputs[k].index].s.kind;
      takes_spread |= kind == WEFT_SPREAD_ROWS || kind == WEFT_SPREAD_PART;
    }
    if (p->run[n->id] == WEFT_RUN_ONCE && takes_spread) {
      WEFT_RETURN_IF_ERROR(weft_spread_note(a, "'%.*s' (%.*s) runs on replica 0 alone, on what all replicas have",
                                            WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name)));
    }
    if (weft_str_starts_with(n->op->name, "FusedBatchNorm") && p->run[n->id] == WEFT_RUN_EACH &&
        weft_node_attr_bool(n, "is_training", true) && !weft_str_starts_with(n->op->name, "FusedBatchNormGrad")) {
      WEFT_RETURN_IF_ERROR(weft_spread_note(
          a, "'%.*s' normalises with the statistics of each replica's own rows", WEFT_STR_ARGS(n->name)));
    }
  }
  return NULL;
}

weft_status_t *weft_spread_analyse(const weft_graph_t *g, const weft_spread_options_t *o, weft_spread_plan_t *out) {
  weft_spread_plan_t plan = {.arena = WEFT_ARENA_INIT};
  weft_spread_analysis_t a = {.g = g, .options = o, .plan = &plan, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = start(&a);
  if (s == NULL && a.num_order > 0) s = run_rounds(&a);
  if (s == NULL) s = find_batches(&a);
  if (s == NULL) s = finish(&a);
  weft_free(a.order);
  weft_free(a.cells);
  weft_arena_deinit(&a.arena);
  if (s != NULL) {
    weft_spread_plan_deinit(&plan);
  } else {
    *out = plan;
  }
  return s;
}

void weft_spread_plan_deinit(weft_spread_plan_t *p) {
  weft_arena_deinit(&p->arena);
  *p = (weft_spread_plan_t){.arena = WEFT_ARENA_INIT};
}
