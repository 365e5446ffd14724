/* sharding/data/node.c - one node of the analysis: which rule it has, what the rule is given and
 * what comes out.
 *
 * The rule in an op's record goes before what its flags say; computing with known integers goes before
 * both.
 */
#include "sharding/data/whole.h"

typedef weft_data_value_t value_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("analysing a graph for replicas"); }

bool weft_data_has_rule(const weft_op_def_t *op) {
  const uint64_t by_flags = WEFT_OP_ELEMENTWISE | WEFT_OP_UPDATE | WEFT_OP_CONST | WEFT_OP_VARIABLE |
                            WEFT_OP_PLACEHOLDER | WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER |
                            WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION | WEFT_OP_LOOP_COND | WEFT_OP_NOOP |
                            WEFT_OP_CONTROL_TRIGGER | WEFT_OP_METADATA;
  return (op->flags & by_flags) != 0 || weft_data_rule_of(op) != NULL;
}

/* A value as consumers see it: a reader's batch as rows, a part that is added up for all as what it is then.
 * Of a part along which the whole batch lies (rows added up by their numbers) each replica gets its rows:
 * what follows is about rows again. */
static value_t seen(weft_data_analysis_t *a, weft_output_t from) {
  value_t v = a->values[from.node->id][from.index];
  bool in_loop = a->frames.frame_of != NULL && a->frames.frame_of[from.node->id] != 0;
  if (v.is_batch || (v.s.kind == WEFT_SHARDING_PARTIAL && v.whole >= 0 && !in_loop)) {
    int64_t factor = v.factor;
    v = weft_data_value(weft_sharding_shard(v.is_batch ? 0 : v.whole, 0));
    v.factor = factor;
  } else if (v.s.kind == WEFT_SHARDING_PARTIAL && a->shared[from.node->id][from.index]) {
    v.s = weft_sharding_replicate(0);
    v.is_hollow = false;
  }
  return v;
}

static weft_status_t *enter(weft_data_ctx_t *c) {
  const weft_axis_sharding_t *forced = &c->analysis->forced[c->node->id];
  if (weft_data_is_whole(c->analysis, c->node)) {
    weft_data_enter_whole(c);
    return NULL;
  }
  weft_data_pass(c, 0, 0);
  if (forced->kind == WEFT_SHARDING_NONE || c->in[0].s.kind == WEFT_SHARDING_LOCAL) return NULL;
  c->required[0] = *forced;
  c->run = WEFT_RUN_REPLICAS;
  if (forced->kind == WEFT_SHARDING_REPLICATE && forced->degree == 0) {
    c->out[0] = weft_data_true_value(c, &c->in[0], WEFT_SHARDING_REPLICATE);
  } else {
    c->out[0].s = *forced;
  }
  return NULL;
}

/* Something writes a variable, or might, and the op table does not say what. */
static weft_status_t *check_effects(const weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!c->in[i].is_state) continue;
    bool is_handle = n->input_types[i] >= WEFT_REF || n->input_types[i] == WEFT_RESOURCE;
    if (is_handle) {
      return weft_data_refuse(n, "it may write the variable '%.*s', and its effect on it is unknown",
                              WEFT_STR_ARGS(n->inputs[i].node->name));
    }
  }
  return NULL;
}

/* Few ops take numbers of the replica's own rows; for all others every replica must number the rows of the
 * whole batch.
 */
static bool takes_own_rows(weft_data_rule_fn *rule) {
  static weft_data_rule_fn *const takers[] = {weft_data_pack,      weft_data_concat,     weft_data_expand,
                                              weft_data_gather_nd, weft_data_scatter_nd, weft_data_pass_all,
                                              weft_data_gather,    weft_data_partition,  weft_data_stitch};
  bool takes = false;
  for (size_t i = 0; i < sizeof takers / sizeof takers[0]; i++) takes = takes || rule == takers[i];
  return takes;
}

static bool number_all_rows(weft_data_ctx_t *c, weft_data_rule_fn *rule) {
  bool any = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].own == 0 || takes_own_rows(rule)) continue;
    weft_data_force_true(c, c->in[i].own - 1);
    any = true;
  }
  for (int o = 0; any && o < c->node->num_outputs; o++)
    c->out[o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  return any;
}

static weft_status_t *ask(weft_data_ctx_t *c) {
  value_t *in = (value_t *)c->in; /* of the visit, which made it */
  const weft_node_t *n = c->node;
  uint64_t flags = n->op->flags;
  weft_data_rule_fn *rule = weft_data_rule_of(n->op);
  if (number_all_rows(c, rule)) return NULL; /* next time */
  if ((flags & WEFT_OP_MERGE) != 0) return weft_data_merge(c);
  bool is_forced = c->analysis->forced[n->id].kind != WEFT_SHARDING_NONE && (flags & WEFT_OP_ENTER) == 0 &&
                   !weft_data_makes_list(n);
  if (!is_forced && weft_data_ints_compute(c)) return NULL;
  bool has_shape = false;
  for (int i = 0; i < n->num_inputs; i++) has_shape |= c->in[i].s.kind == WEFT_SHARDING_COUNTS;
  if (is_forced || (has_shape && rule == weft_data_replicate_all)) {
    for (int i = 0; i < n->num_inputs; i++) { /* all as it truly is: then the numbers are known, perhaps */
      if (c->in[i].s.kind == WEFT_SHARDING_REPLICATE || c->in[i].s.kind == WEFT_SHARDING_LOCAL) continue;
      in[i] = weft_data_true_value(c, &in[i], WEFT_SHARDING_REPLICATE);
      c->required[i] = in[i].s;
    }
    if (weft_data_ints_compute(c)) return NULL;
  }
  if (rule != NULL) return rule(c);
  if ((flags & WEFT_OP_CONST) != 0) return weft_data_constant(c);
  if ((flags & WEFT_OP_PLACEHOLDER) != 0) return weft_data_placeholder(c);
  if ((flags & WEFT_OP_VARIABLE) != 0) return weft_data_state(c);
  if ((flags & WEFT_OP_UPDATE) != 0) return weft_data_update(c);
  if ((flags & WEFT_OP_SWITCH) != 0) return weft_data_switch(c);
  if ((flags & WEFT_OP_ENTER) != 0) return enter(c);
  if ((flags & (WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION)) != 0) return weft_data_pass_all(c);
  if ((flags & WEFT_OP_LOOP_COND) != 0) {
    if (c->in[0].s.kind != WEFT_SHARDING_REPLICATE && c->in[0].s.kind != WEFT_SHARDING_SINGLE)
      c->required[0] = weft_sharding_replicate(0);
    if (c->in[0].s.kind == WEFT_SHARDING_SINGLE) weft_data_pass(c, 0, 0);
    return NULL;
  }
  if ((flags & (WEFT_OP_NOOP | WEFT_OP_CONTROL_TRIGGER)) != 0) return NULL;
  if ((flags & WEFT_OP_METADATA) != 0) return weft_data_metadata(c);
  WEFT_RETURN_IF_ERROR(check_effects(c));
  if ((flags & WEFT_OP_ELEMENTWISE) != 0) return weft_data_elementwise(c);
  return weft_data_single(c);
}

/* May input i, of which a replica without rows has another number than others, be used as it is? */
static bool may_lack(const weft_data_ctx_t *c, int i) {
  const weft_node_t *n = c->node;
  bool divides = i == 1 && n->op->batch == WEFT_BATCH_QUOTIENT;
  if (n->num_outputs == 0 || c->required[i].kind != c->in[i].s.kind) return false;
  for (int o = 0; o < n->num_outputs; o++) {
    const value_t *out = &c->out[o];
    bool is_passed = out->lacking == c->in[i].lacking,
         is_rows = out->s.kind == WEFT_SHARDING_SHARD && (n->op->flags & WEFT_OP_ELEMENTWISE) != 0;
    bool is_weighed = divides && out->s.kind == WEFT_SHARDING_PARTIAL; /* by no rows */
    if (!is_passed && !is_rows && !is_weighed) return false;
  }
  return true;
}

/* Asks for true numbers where those of a replica without rows will not do. */
static void ask_for_lacking(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  for (int i = 0; i < n->num_inputs; i++) {
    int lacking = c->analysis->values[n->inputs[i].node->id][n->inputs[i].index].lacking;
    if (lacking == 0) continue;
    if (weft_str_is(n->op->name, "Cast") && c->in[0].lacking != 0) c->out[0].lacking = lacking;
    if (c->in[i].lacking == 0 || !may_lack(c, i)) weft_data_force_true(c, lacking - 1);
  }
}

/* A part divided by what may be 0 is infinite where one device has that; 0 / 0 without rows. */
static bool divides_parts(const weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  if (n->op->batch != WEFT_BATCH_QUOTIENT || n->num_inputs != 2) return false;
  return c->required[0].kind == WEFT_SHARDING_PARTIAL && (n->inputs[1].node->flags & WEFT_OP_CONST) == 0;
}

weft_status_t *weft_data_visit(weft_data_analysis_t *a, const weft_node_t *n) {
  value_t *in = a->scratch, *out = in + n->num_inputs + 1;
  memset(in, 0, (size_t)(n->num_inputs + n->num_outputs + 2) * sizeof *in);
  bool is_merge = (n->op->flags & WEFT_OP_MERGE) != 0;
  weft_axis_sharding_t *required = a->plan->required[n->id];
  for (int i = 0; i < n->num_inputs; i++) {
    in[i] = seen(a, n->inputs[i]);
    if (in[i].s.kind == WEFT_SHARDING_NONE && !is_merge) return NULL; /* next round */
    required[i] = in[i].s;
  }
  for (int o = 0; o < n->num_outputs; o++) {
    out[o] = is_merge ? a->values[n->id][o] : weft_data_value(weft_sharding_replicate(0));
  }
  weft_data_ctx_t c = {
      .analysis = a, .node = n, .in = in, .required = required, .out = out, .run = WEFT_RUN_REPLICAS};
  bool has_picks = false;
  for (int i = 0; i < n->num_inputs; i++) has_picks = has_picks || weft_data_pick_in(&in[i]) != 0;
  WEFT_RETURN_IF_ERROR(has_picks ? weft_data_with_picks(&c, in, ask) : ask(&c));
  if (weft_data_is_whole(a, n) && (n->op->flags & WEFT_OP_ENTER) == 0) weft_data_settle_whole(&c);
  if (a->failed) return no_memory();
  ask_for_lacking(&c);
  a->plan->run[n->id] = c.run;
  a->plan->draws[n->id] = c.draw;
  a->plan->named[n->id] = c.named;
  a->plan->prints_once[n->id] = c.prints_once;
  bool is_hollow = divides_parts(&c);
  for (int i = 0; i < n->num_inputs; i++)
    is_hollow = is_hollow || (in[i].is_hollow && required[i].kind == in[i].s.kind);
  for (int o = 0; o < n->num_outputs; o++) {
    int rank = weft_data_shape_of(a, n, o)->rank;
    out[o].is_hollow = out[o].s.kind != WEFT_SHARDING_SINGLE && (is_hollow || out[o].s.degree > 0);
    if (rank < 0 && out[o].rank < 0) rank = weft_data_likely_rank(&c);
    if (rank >= 0 && out[o].s.kind != WEFT_SHARDING_NONE) out[o].rank = rank;
    if (weft_data_value_eq(&out[o], &a->values[n->id][o])) continue;
    a->values[n->id][o] = out[o];
    a->changed = true;
  }
  return NULL;
}
