/* sharding/data/factors.c - what an op's factor notation (ops/factors.h) says of rows.
 *
 * Rows go along one factor: into the dimensions of all operands that have it, and out along those of the
 * results. A result that lacks it is Partial: the rows are terms of a sum or of a mean. An operand without it
 * is the same everywhere.
 *
 * Degrees follow from what an op is linear in (ops/op.h). In one input, the others being constant: degrees of
 * such inputs add up, and one of them may be Partial. In several together: these must have one degree, 0
 * where nothing better is known. In none: 0.
 */
#include "sharding/data/axis.h"
#include "sharding/rule.h"

typedef weft_data_value_t value_t;

/* A node's rule while it is asked. */
typedef struct rows {
  weft_rule_t rule;
  bool has_factors; /* the notation fits the node */
  bool is_aligned;  /* all operands are of one shape */
  bool is_confused; /* rows do not go through */
  int factor;       /* of the rows; -1: there are none */
  int64_t multiple; /* the dimension is that many times the batch; 0: not known */
} rows_t;

/* ---- the rule ---- */

/* A constant, or a vector of integers that the analysis knows; the caller owns a reference. NULL: neither. */
static weft_status_t *find_value(const weft_data_ctx_t *c, int i, weft_tensor_t **out) {
  const weft_node_t *from = c->node->inputs[i].node;
  const weft_attr_t *value = (from->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(from, "value") : NULL;
  const weft_data_ints_t *ints = c->in[i].ints;
  int type = c->node->input_types[i];
  *out = NULL;
  if (value != NULL) *out = weft_tensor_retain(value->tensor);
  bool is_known = *out == NULL && ints != NULL && !ints->is_set && ints->columns == 0 &&
                  (type == WEFT_I32 || type == WEFT_I64);
  for (int k = 0; is_known && k < ints->n; k++)
    is_known = ints->items[k].known && ints->items[k].of == WEFT_COUNT_PLAIN;
  if (!is_known) return NULL;
  weft_shape_t shape = {.rank = ints->is_scalar ? 0 : 1, .dims = {ints->n}};
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)type, &shape, NULL, out));
  for (int k = 0; k < ints->n; k++) {
    if (type == WEFT_I32)
      ((int32_t *)(*out)->data)[k] = (int32_t)ints->items[k].value;
    else
      ((int64_t *)(*out)->data)[k] = ints->items[k].value;
  }
  return NULL;
}

/* Operands of one shape: a rank that is not known is that of the others, or enough for what is known. */
static void fill_in_ranks(const weft_data_ctx_t *c, weft_shape_t *inputs, weft_shape_t *outputs) {
  int rank = -1;
  for (int i = 0; i < c->node->num_inputs && rank < 0; i++) rank = inputs[i].rank;
  for (int i = 0; i < c->node->num_outputs && rank < 0; i++) rank = outputs[i].rank;
  for (int i = 0; i < c->node->num_inputs && rank < 0; i++) {
    if (weft_data_batch_axis(c, i) >= rank) rank = weft_data_batch_axis(c, i) + 1;
  }
  weft_shape_t shape = {.rank = rank < 0 ? 0 : rank};
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = WEFT_UNKNOWN_DIM;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (inputs[i].rank < 0) inputs[i] = shape;
  }
  for (int i = 0; i < c->node->num_outputs; i++) {
    if (outputs[i].rank < 0) outputs[i] = shape;
  }
}

/* Sizes that are not known, those of rows above all, do no harm. */
static weft_status_t *make_rule(const weft_data_ctx_t *c, const weft_tensor_t **values, weft_arena_t *arena,
                                rows_t *r) {
  const weft_node_t *n = c->node;
  size_t in = (size_t)n->num_inputs + 1, out = (size_t)n->num_outputs + 1;
  weft_shape_t *shapes = weft_arena_calloc(arena, in + out, sizeof *shapes), *outputs = shapes + in;
  const char *text = NULL;
  if (shapes == NULL) return WEFT_NO_MEMORY("analysing a graph for replicas");
  for (int i = 0; i < n->num_inputs; i++) shapes[i] = *weft_data_in_shape(c, i);
  for (int i = 0; i < n->num_outputs; i++) outputs[i] = *weft_data_out_shape(c, i);
  weft_shape_ctx_t ctx = {.op = n->op,
                          .node_name = n->name,
                          .attrs = n->attrs,
                          .num_attrs = n->num_attrs,
                          .num_inputs = n->num_inputs,
                          .num_outputs = n->num_outputs,
                          .input_types = n->input_types,
                          .output_types = n->output_types,
                          .inputs = shapes,
                          .values = values,
                          .outputs = outputs};
  WEFT_RETURN_IF_ERROR(weft_rule_text(&ctx, arena, &text));
  bool repeats = strchr(text, '*') != NULL;
  r->is_aligned = weft_op_is_elementwise(n->op) &&
                  (n->num_inputs == 1 || repeats || n->op->batch == WEFT_BATCH_SAME_SHAPES);
  if (r->is_aligned) fill_in_ranks(c, shapes, outputs);
  weft_status_t *s = weft_rule_make(&ctx, text, arena, &r->rule);
  r->has_factors = s == NULL && text[0] != '\0';
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s); /* the notation does not fit: no rows go through */
  return weft_rule_make(&ctx, "", arena, &r->rule);
}

static weft_status_t *read_rule(const weft_data_ctx_t *c, weft_arena_t *arena, rows_t *r) {
  size_t n = (size_t)c->node->num_inputs;
  weft_tensor_t **values = weft_arena_calloc(arena, n + 1, sizeof(*values));
  weft_status_t *s = values == NULL ? WEFT_NO_MEMORY("analysing a graph for replicas") : NULL;
  for (size_t i = 0; i < n && s == NULL; i++) s = find_value(c, (int)i, &values[i]);
  if (s == NULL) s = make_rule(c, (const weft_tensor_t **)values, arena, r);
  for (size_t i = 0; i < n && values != NULL; i++) weft_tensor_release(values[i]);
  return s;
}

static bool divides(const weft_data_ctx_t *c, int i) {
  return i == 1 && c->node->op->batch == WEFT_BATCH_QUOTIENT;
}

/* Whole numbers that come of fractions are not linear in them. */
static bool is_linear(const weft_data_ctx_t *c, int i) {
  const weft_node_t *n = c->node;
  bool keeps_fraction =
      !weft_data_has_fraction(n->input_types[i]) || weft_data_has_fraction(n->output_types[0]);
  return i < WEFT_OP_MAX_LINEAR && (n->op->flags & WEFT_OP_LINEAR_IN(i)) != 0 && keeps_fraction;
}

static bool is_together(const rows_t *r, int i) {
  return r->rule.is_together != NULL && r->rule.is_together[i];
}

/* ---- where rows go ---- */

static int input_dim(const rows_t *r, int i) {
  return r->has_factors ? weft_factor_dim(&r->rule.factors.inputs[i], r->factor) : -1;
}

/* The factor of dimension `dim` of input i; -1: none that rows may go along. */
static int factor_at(const rows_t *r, int i, int dim) {
  const weft_factor_operand_t *in = r->has_factors ? &r->rule.factors.inputs[i] : NULL;
  if (in == NULL || in->is_sizes || dim < 0 || dim >= in->rank || in->dims[dim] < 0) return -1;
  return r->rule.factors.factors[in->dims[dim]].is_masked ? -1 : in->dims[dim];
}

static bool is_in_results(const weft_data_ctx_t *c, const rows_t *r, int factor) {
  bool is_in = false;
  for (int o = 0; o < c->node->num_outputs; o++)
    is_in = is_in || weft_factor_dim(&r->rule.factors.outputs[o], factor) >= 0;
  return is_in;
}

/* The factor of the rows: that of the first input whose rows a result has, too. */
static void find_factor(const weft_data_ctx_t *c, rows_t *r) {
  r->factor = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (!weft_data_is_shard(c, i)) continue;
    int factor = factor_at(r, i, c->in[i].s.dim);
    if (factor < 0) r->is_confused = true;
    if (factor < 0 || (r->factor >= 0 && (is_in_results(c, r, r->factor) || !is_in_results(c, r, factor))))
      continue;
    r->factor = factor;
  }
  for (int i = 0; i < c->node->num_inputs && r->factor >= 0 && r->multiple == 0; i++) {
    if (weft_data_is_shard(c, i) && factor_at(r, i, c->in[i].s.dim) == r->factor)
      r->multiple = c->in[i].factor; /* rows beside rows are as many */
  }
}

/* Whether input i, which is not rows, can go with them: as it is, or by its own. */
static bool goes_with_rows(weft_data_ctx_t *c, const rows_t *r, int i) {
  const weft_shape_t *shape = weft_data_in_shape(c, i);
  weft_sharding_kind_t kind = c->in[i].s.kind;
  int at = input_dim(r, i);
  if (at >= 0 && r->rule.factors.inputs[i].is_sizes) {
    c->required[i] = c->in[i].s;
    return weft_data_counts_rows(c->in[i].ints, at);
  }
  if (kind == WEFT_SHARDING_SINGLE || kind == WEFT_SHARDING_PARTIAL)
    c->required[i] = weft_sharding_replicate(0);
  if (at < 0 || kind == WEFT_SHARDING_COUNTS) return true;
  bool is_kept = is_in_results(c, r, r->factor), is_one = shape->rank > at && shape->dims[at] == 1;
  bool broadcasts = r->factor >= WEFT_FACTORS_ELLIPSIS && !r->is_aligned;
  bool is_as_long = (r->is_aligned || r->rule.is_together != NULL) && !broadcasts;
  if (is_as_long && (kind != WEFT_SHARDING_PARTIAL || !r->is_aligned)) {
    c->required[i] = weft_sharding_shard(at, 0);
    return true;
  }
  if (is_one && is_kept) return true;
  bool is_whole = c->in[i].whole == at || (shape->rank > at && shape->dims[at] > 1);
  if (!is_whole || kind == WEFT_SHARDING_PARTIAL) return false; /* 1, or the whole batch: not known here */
  c->required[i] = weft_sharding_shard(at, 0);
  return true;
}

/* Rows along another factor than that of the node's: the input is needed whole. */
static bool goes_whole(weft_data_ctx_t *c, const rows_t *r, int i) {
  const weft_shape_t *shape = weft_data_in_shape(c, i);
  int at = input_dim(r, i);
  c->required[i] = weft_sharding_replicate(0);
  return at < 0 || (shape->rank > at && shape->dims[at] == 1);
}

/* A scalar count of rows is a factor of degree -1; other counts are required as they truly are. */
static void settle_counts(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_COUNTS) continue;
    bool is_factor =
        c->in[i].ints != NULL && c->in[i].ints->is_scalar && weft_data_has_fraction(c->node->input_types[i]);
    if (!is_factor) c->required[i] = weft_sharding_replicate(0);
  }
}

/* May a result that lacks the rows be had of terms? */
static bool adds_up(const weft_data_ctx_t *c, const rows_t *r) {
  const weft_factors_t *f = &r->rule.factors;
  bool is_sum = f->reduction == WEFT_FACTOR_SUM || f->reduction == WEFT_FACTOR_MEAN;
  for (int o = 0; o < c->node->num_outputs; o++) {
    if (weft_factor_dim(&f->outputs[o], r->factor) < 0 && !f->outputs[o].is_same && !is_sum) return false;
  }
  return true;
}

static void align(weft_data_ctx_t *c, rows_t *r) {
  settle_counts(c);
  find_factor(c, r);
  if (r->factor < 0 || r->is_confused) return;
  r->is_confused = !adds_up(c, r);
  for (int i = 0; i < c->node->num_inputs && !r->is_confused; i++) {
    bool is_rows = weft_data_is_shard(c, i);
    if (is_rows && factor_at(r, i, c->in[i].s.dim) == r->factor) continue;
    r->is_confused = !(is_rows ? goes_whole(c, r, i) : goes_with_rows(c, r, i));
  }
}

/* ---- degrees ---- */

/* The degree of input i as it will be given. */
static int degree(const weft_data_ctx_t *c, int i) {
  return c->required[i].kind == WEFT_SHARDING_COUNTS ? -1 : c->required[i].degree;
}

/* Gives input i degree d, as far as that means anything. */
static void require_degree(weft_data_ctx_t *c, int i, int d) {
  weft_sharding_kind_t kind = c->required[i].kind;
  if (c->in[i].zero || kind == WEFT_SHARDING_LOCAL) return;
  if (kind != WEFT_SHARDING_COUNTS) {
    c->required[i].degree = d;
  } else if (d != -1) {
    c->required[i] = weft_sharding_replicate(d);
  }
}

/* Added up, and of degree 0; an operand of sizes stays a count. */
static void require_true(weft_data_ctx_t *c, const rows_t *r, int i) {
  if (c->required[i].kind == WEFT_SHARDING_PARTIAL) c->required[i] = weft_sharding_replicate(0);
  if (!r->has_factors || !r->rule.factors.inputs[i].is_sizes) require_degree(c, i, 0);
}

/* The operand of a product that stays a part; -1: none. Of a chain of contractions, that which is computed
 * last. */
static int find_part(const weft_data_ctx_t *c) {
  bool is_elementwise = weft_op_is_elementwise(c->node->op);
  int part = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    bool is_part = c->required[i].kind == WEFT_SHARDING_PARTIAL && is_linear(c, i);
    if (is_part && (part < 0 || !is_elementwise)) part = i;
  }
  return part;
}

/* Of a product or quotient: from one part or from rows, with degrees added up. What is the same on all
 * replicas is worked out of the true counts instead: 0.7 times a replica's own rows, scaled to those of all,
 * is not always 0.7 times all rows, which tells where it is rounded down to a number of rows. Degrees that
 * cancel would be 0 / 0 without rows. */
static weft_axis_sharding_t product(weft_data_ctx_t *c, const rows_t *r) {
  int part = find_part(c), total = 0;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (!is_linear(c, i) && !divides(c, i))
      require_true(c, r, i);
    else if (c->required[i].kind == WEFT_SHARDING_PARTIAL && i != part)
      c->required[i] = weft_sharding_replicate(0);
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (is_linear(c, i)) total += degree(c, i);
    if (divides(c, i)) total -= degree(c, i);
  }
  if (r->factor >= 0) return weft_sharding_shard(0, total);
  if (part >= 0) return weft_sharding_partial(total);
  if (total != 0 && weft_data_in_loop(c))
    return weft_sharding_replicate(total); /* nothing is exchanged there */
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (degree(c, i) != 0) require_degree(c, i, 0);
  }
  return weft_sharding_replicate(0);
}

/* The term of a sum that need not be scaled: rows if there are any, else a part, not zeros. */
static int find_lead(const weft_data_ctx_t *c, const rows_t *r) {
  weft_sharding_kind_t best = r->factor >= 0 ? WEFT_SHARDING_SHARD : WEFT_SHARDING_PARTIAL;
  int lead = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].zero || !is_together(r, i)) continue;
    if (lead < 0 || (c->required[i].kind == best && c->required[lead].kind != best)) lead = i;
  }
  if (lead >= 0) return lead;
  for (int i = c->node->num_inputs;
       i-- > 0;) { /* zeros all: the first that is more than the same everywhere */
    if (is_together(r, i) && (lead < 0 || c->required[i].kind != WEFT_SHARDING_REPLICATE)) lead = i;
  }
  return lead;
}

/* What was added up, gathered or cut just now has degree 0: all terms have it then. */
static int degree_of_rows(const weft_data_ctx_t *c, const rows_t *r, int lead) {
  int d = degree(c, lead);
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t has = c->in[i].s.kind;
    bool is_new =
        has == WEFT_SHARDING_PARTIAL || has == WEFT_SHARDING_SINGLE ||
        (has == WEFT_SHARDING_SHARD && c->required[i].kind == WEFT_SHARDING_REPLICATE) ||
        (has == WEFT_SHARDING_REPLICATE && c->required[i].kind == WEFT_SHARDING_SHARD && !c->in[i].zero);
    if (is_new && is_together(r, i)) d = 0;
  }
  return d;
}

/* Parts stay parts; what every replica has whole counts as a part of a degree more. What the first replica
 * has goes to all, which scale it. */
static weft_axis_sharding_t sum_parts(weft_data_ctx_t *c, const rows_t *r, int d) {
  bool is_easy = true; /* nothing is scaled that cannot be */
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (is_together(r, i) && c->required[i].kind == WEFT_SHARDING_SINGLE)
      c->required[i] = weft_sharding_replicate(0);
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (!is_together(r, i) || c->in[i].zero) continue;
    int has = c->required[i].kind == WEFT_SHARDING_PARTIAL ? d : d - 1;
    is_easy = is_easy && (degree(c, i) == has || weft_data_has_fraction(c->node->input_types[i]));
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (!is_together(r, i)) continue;
    if (is_easy)
      require_degree(c, i, c->required[i].kind == WEFT_SHARDING_PARTIAL ? d : d - 1);
    else
      c->required[i] = weft_sharding_replicate(0);
  }
  return is_easy ? weft_sharding_partial(d) : weft_sharding_replicate(0);
}

/* Terms of a sum, or what a choice is among: one degree for all. */
static weft_axis_sharding_t sum(weft_data_ctx_t *c, const rows_t *r) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (!is_together(r, i)) require_true(c, r, i);
  }
  int lead = find_lead(c, r), d = degree(c, lead);
  if (r->factor < 0 && c->required[lead].kind == WEFT_SHARDING_PARTIAL) return sum_parts(c, r, d);
  if (r->factor >= 0) d = degree_of_rows(c, r, lead);
  for (int i = 0; i < c->node->num_inputs && r->factor < 0; i++) {
    if (is_together(r, i) && !c->in[i].zero && degree(c, i) != d) d = 0;
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (is_together(r, i)) require_degree(c, i, d);
  }
  return r->factor >= 0 ? weft_sharding_shard(0, d) : weft_sharding_replicate(d);
}

/* Zeros stay zeros: a loop that begins with them takes the degree of what it adds to them. */
static bool is_zero(const weft_data_ctx_t *c, const rows_t *r) {
  bool any = false, all = r->rule.is_together != NULL;
  for (int i = 0; i < c->node->num_inputs; i++) {
    any = any || (is_linear(c, i) && c->in[i].zero);
    all = all && (!is_together(r, i) || c->in[i].zero);
  }
  return r->rule.is_together != NULL ? all : any;
}

/* ---- results ---- */

/* Where the whole batch lies in result `o`, if an input has it. */
static void find_whole(weft_data_ctx_t *c, const rows_t *r, int o) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    int at = weft_data_batch_axis(c, i), factor = factor_at(r, i, at), to = -1;
    if (at < 0) continue;
    if (factor >= 0) to = weft_factor_dim(&r->rule.factors.outputs[o], factor);
    if (to < 0 && i == 0 && weft_op_keeps_shape(c->node->op)) to = at;
    if (to < 0) continue;
    c->out[o].whole = to;
    c->out[o].factor = c->in[i].factor;
    return;
  }
}

static weft_status_t *give_up(weft_data_ctx_t *c, const rows_t *r) {
  WEFT_RETURN_IF_ERROR(weft_data_fall_back(c));
  for (int o = 0; o < c->node->num_outputs; o++) find_whole(c, r, o);
  return NULL;
}

/* `s`: of a result that has the factor of the rows, if there are any. */
static void give_result(weft_data_ctx_t *c, const rows_t *r, int o, weft_axis_sharding_t s) {
  const weft_factor_operand_t *out = r->has_factors ? &r->rule.factors.outputs[o] : NULL;
  bool is_mean = r->has_factors && r->rule.factors.reduction == WEFT_FACTOR_MEAN;
  if (r->factor >= 0) {
    int at = weft_factor_dim(out, r->factor);
    s.dim = at;
    if (at < 0) s = out->is_same ? weft_sharding_replicate(0) : weft_sharding_partial(s.degree + is_mean);
  }
  c->out[o] = weft_data_value(s);
  c->out[o].zero = is_zero(c, r);
  if (s.kind == WEFT_SHARDING_SHARD) c->out[o].factor = r->multiple;
  if (s.kind == WEFT_SHARDING_REPLICATE) find_whole(c, r, o);
  if (out != NULL && out->rank > 0) c->out[o].rank = out->rank;
}

/* Is there nothing but what replica 0 has, and what all have? A contraction runs everywhere all the same:
 * what follows on one with weights is the model. */
static bool goes_on_alone(const weft_data_ctx_t *c) {
  const uint64_t product = WEFT_OP_LINEAR_IN(0) | WEFT_OP_LINEAR_IN(1);
  bool has_single = false;
  if ((c->node->op->flags & product) == product && !weft_op_is_elementwise(c->node->op)) return false;
  for (int i = 0; i < c->node->num_inputs; i++)
    has_single = has_single || c->in[i].s.kind == WEFT_SHARDING_SINGLE;
  return has_single && weft_data_all_plain(c);
}

static weft_status_t *ask(weft_data_ctx_t *c, rows_t *r) {
  const weft_node_t *n = c->node;
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) return give_up(c, r);
  }
  align(c, r);
  if (r->is_confused || goes_on_alone(c)) return give_up(c, r);
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->required[i].kind == WEFT_SHARDING_SINGLE) c->required[i] = weft_sharding_replicate(0);
  }
  weft_axis_sharding_t s = r->rule.is_together != NULL ? sum(c, r) : product(c, r);
  for (int o = 0; o < n->num_outputs; o++) {
    give_result(c, r, o, s);
    if (c->out[o].s.degree != 0 && !weft_data_has_fraction(n->output_types[o]))
      return give_up(c, r); /* whole numbers are not scaled */
  }
  return NULL;
}

weft_status_t *weft_data_by_factors(weft_data_ctx_t *c) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  rows_t r = {.factor = -1};
  weft_status_t *s = read_rule(c, &arena, &r);
  if (s == NULL) s = ask(c, &r);
  weft_arena_deinit(&arena);
  return s;
}
