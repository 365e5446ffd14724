/* sharding/data/factors.c - ops whose factor notation says how they treat rows (ops/factors.h).
 *
 * Rows go along one factor: into the dimensions of all operands that have it, and out along those of
 * the results. An operand without it is the same everywhere. What a record says beside that, in .batch,
 * goes before.
 */
#include "ops/shape_inference.h"
#include "sharding/data/axis.h"
#include "sharding/rule.h"

/* The node's factors while its rule is asked. */
typedef struct rows {
  weft_factors_t f;
  bool has_factors;
  int factor; /* of the rows; -1: there are none */
  int linear; /* the first input that may have a degree, and be a part if nothing else is rows; -1: none */
} rows_t;

static bool is_linear(const weft_data_ctx_t *c, int i) {
  return i < WEFT_OP_MAX_LINEAR && (c->node->op->flags & WEFT_OP_LINEAR_IN(i)) != 0;
}

static int first_linear(const weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (is_linear(c, i)) return i;
  }
  return -1;
}

static const weft_tensor_t *constant(const weft_node_t *n) {
  const weft_attr_t *value = (n->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(n, "value") : NULL;
  return value == NULL ? NULL : value->tensor;
}

/* Sizes that are not known, those of rows above all, do no harm. */
static weft_status_t *read_factors(const weft_data_ctx_t *c, weft_arena_t *arena, rows_t *r) {
  const weft_node_t *n = c->node;
  size_t in = (size_t)n->num_inputs + 1, out = (size_t)n->num_outputs + 1;
  weft_shape_t *shapes = weft_arena_calloc(arena, in + out, sizeof *shapes), *outputs = shapes + in;
  const weft_tensor_t **values = weft_arena_calloc(arena, in, sizeof(*values));
  const char *text = NULL;
  if (shapes == NULL || values == NULL) return WEFT_NO_MEMORY("analysing a graph for replicas");
  for (int i = 0; i < n->num_inputs; i++) {
    shapes[i] = *weft_data_in_shape(c, i);
    values[i] = constant(n->inputs[i].node);
  }
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
  weft_factor_shapes_t of = {shapes, outputs, n->num_inputs, n->num_outputs, .broadcasts = true};
  WEFT_RETURN_IF_ERROR(weft_rule_text(&ctx, arena, &text));
  if (text[0] == '\0') return NULL;
  weft_status_t *s = weft_factors_make(text, &of, arena, &r->f);
  r->has_factors = s == NULL;
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s); /* the notation does not fit: no rows go through */
  return NULL;
}

/* Along which dimension of output `o` go rows of dimension `axis` of input `i`? -1: along none. */
static int output_axis(const rows_t *r, int i, int axis, int o) {
  const weft_factor_operand_t *in = &r->f.inputs[i];
  bool has_factor = r->has_factors && !in->is_sizes && axis < in->rank && in->dims[axis] >= 0;
  return has_factor ? weft_factor_dim(&r->f.outputs[o], in->dims[axis]) : -1;
}

static weft_status_t *give_up(weft_data_ctx_t *c, const rows_t *r) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SHARDING_REPLICATE && kind != WEFT_SHARDING_SINGLE) return weft_data_replicate_all(c);
  }
  weft_status_t *s = weft_data_single(c);
  for (int i = c->node->num_inputs; s == NULL && i-- > 0;) {
    for (int o = 0; o < c->node->num_outputs && c->in[i].whole >= 0; o++) {
      int axis = output_axis(r, i, c->in[i].whole, o);
      if (axis >= 0) c->out[o].whole = axis;
    }
  }
  return s;
}

/* Finds the factor of the rows. False if they lie along what has none, or another, or is in no result. */
static bool find_rows(const weft_data_ctx_t *c, rows_t *r) {
  r->factor = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_SHARD) continue;
    for (int o = 0; o < c->node->num_outputs; o++) {
      if (output_axis(r, i, c->in[i].s.dim, o) < 0) return false;
    }
    int factor = c->node->num_outputs == 0 ? -1 : r->f.inputs[i].dims[c->in[i].s.dim];
    if (factor < 0 || r->f.factors[factor].is_masked || (r->factor >= 0 && r->factor != factor)) return false;
    r->factor = factor;
  }
  return true;
}

/* A part goes through what is linear in it, if all else is the same everywhere. */
static weft_status_t *pass_part(weft_data_ctx_t *c, const rows_t *r) {
  int d = c->in[r->linear].s.degree;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (i == r->linear) continue;
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) return give_up(c, r);
    if (is_linear(c, i))
      d += c->in[i].s.degree;
    else
      c->required[i].degree = 0;
  }
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_data_value(weft_sharding_partial(d));
    c->out[o].zero = c->in[r->linear].zero;
  }
  return NULL;
}

/* An input that is not rows goes as it truly is, or, if it has as many, by its rows. False if it cannot. */
static bool take_other(weft_data_ctx_t *c, const rows_t *r, int i, int *degree) {
  const weft_shape_t *shape = weft_data_in_shape(c, i);
  int axis = weft_factor_dim(&r->f.inputs[i], r->factor);
  if (r->f.inputs[i].is_sizes && axis >= 0) return weft_data_counts_rows(c->in[i].ints, axis);
  if (axis < 0 && i != r->linear && is_linear(c, i)) { /* a factor that all replicas have: a filter */
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) c->required[i] = weft_sharding_replicate(0);
    *degree += c->required[i].degree;
    return true;
  }
  c->required[i] = weft_sharding_replicate(0);
  if (axis < 0 || (shape->rank > axis && shape->dims[axis] == 1)) return true;
  bool is_whole = c->in[i].whole == axis || (shape->rank > axis && shape->dims[axis] > 1);
  if (!is_whole || c->in[i].s.kind == WEFT_SHARDING_PARTIAL) return false;
  c->required[i] = weft_sharding_shard(axis, 0);
  return true;
}

static weft_status_t *ask(weft_data_ctx_t *c, rows_t *r) {
  const weft_node_t *n = c->node;
  int d = 0;
  int64_t factor = 0;
  if (!find_rows(c, r)) return give_up(c, r);
  if (r->factor < 0) {
    bool is_part = r->linear >= 0 && c->in[r->linear].s.kind == WEFT_SHARDING_PARTIAL;
    return is_part ? pass_part(c, r) : give_up(c, r);
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) return give_up(c, r);
    if (c->in[i].s.kind == WEFT_SHARDING_SHARD) {
      if (i != r->linear)
        c->required[i].degree = 0;
      else
        d += c->in[i].s.degree;
      if (factor == 0) factor = c->in[i].factor;
    } else if (!take_other(c, r, i, &d)) {
      return give_up(c, r);
    }
  }
  for (int o = 0; o < n->num_outputs; o++) {
    c->out[o] = weft_data_value(weft_sharding_shard(weft_factor_dim(&r->f.outputs[o], r->factor), d));
    c->out[o].factor = factor;
    c->out[o].zero = r->linear >= 0 && c->in[r->linear].zero;
  }
  return NULL;
}

weft_status_t *weft_data_by_factors(weft_data_ctx_t *c) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  rows_t r = {.factor = -1, .linear = first_linear(c)};
  weft_status_t *s = read_factors(c, &arena, &r);
  if (s == NULL) s = ask(c, &r);
  weft_arena_deinit(&arena);
  return s;
}
