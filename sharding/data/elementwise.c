/* sharding/data/elementwise.c - elementwise ops: broadcasting of rows, sums of parts, degrees.
 *
 * An op is linear in some inputs (form_t). Parts may pass through it
 * there; elsewhere they are added up first. Degrees follow the formula: they add up
 * in products, must be equal in sums, and must be 0 where nothing is known.
 */
#include "sharding/data/rules.h"

typedef weft_data_value_t value_t;

/* How an op treats sums of parts and factors. */
typedef enum form {
  FORM_NONLINEAR,
  FORM_LINEAR,   /* in input `linear`, anything in the others */
  FORM_SUM,      /* all inputs added, with signs */
  FORM_PRODUCT,  /* linear in inputs 0 and 1 */
  FORM_QUOTIENT, /* linear in input 0, divided by input 1 */
  FORM_CHOICE,   /* input 0 chooses between 1 and 2 */
  FORM_SHAPE,    /* only the shape of input 0 matters: ZerosLike */
} form_t;

static form_t form_of(const weft_op_def_t *op, int *out_linear) {
  const uint64_t in0 = WEFT_OP_LINEAR_IN(0), in1 = WEFT_OP_LINEAR_IN(1);
  *out_linear = 0;
  if (op->batch == WEFT_BATCH_ZEROS_LIKE || op->batch == WEFT_BATCH_ONES_LIKE) return FORM_SHAPE;
  if (op->batch == WEFT_BATCH_QUOTIENT) return FORM_QUOTIENT;
  if (op->linear_together != 0) return (op->linear_together & 1) != 0 ? FORM_SUM : FORM_CHOICE;
  if ((op->flags & (in0 | in1)) == (in0 | in1)) return FORM_PRODUCT;
  for (int i = 0; i < WEFT_OP_MAX_LINEAR; i++) {
    if ((op->flags & WEFT_OP_LINEAR_IN(i)) == 0) continue;
    *out_linear = i;
    return FORM_LINEAR;
  }
  return FORM_NONLINEAR;
}

/* What the rule knows of its inputs taken together. */
typedef struct terms {
  int axis, rank; /* of the rows, and rank, of the output; axis -1: no rows */
  int64_t factor;
  bool has_part, has_once, has_each, is_confused, is_rank_known; /* confused: cannot be aligned */
} terms_t;

/* The degree of input i as it will be given. */
static int degree(const weft_data_ctx_t *c, int i) {
  return c->required[i].kind == WEFT_SHARDING_COUNTS ? -1 : c->required[i].degree;
}

/* A scalar count of rows is a factor of degree -1; other shapes are required as they truly are. */
static void settle_shapes(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_COUNTS) continue;
    bool is_factor =
        c->in[i].ints != NULL && c->in[i].ints->is_scalar && weft_data_has_fraction(c->node->input_types[i]);
    if (!is_factor) c->required[i] = weft_sharding_replicate(0);
  }
}

/* Finds the axis of rows in the output, and wants other inputs so that they go with it. */
static terms_t align(weft_data_ctx_t *c, bool broadcasts) {
  terms_t t = {.axis = -1, .rank = 0};
  const weft_node_t *n = c->node;
  t.is_rank_known = true;
  for (int i = 0; i < n->num_inputs; i++) {
    int rank = weft_data_in_shape(c, i)->rank;
    t.is_rank_known = t.is_rank_known && rank >= 0;
    if (rank > t.rank) t.rank = rank;
    t.has_part |= c->in[i].s.kind == WEFT_SHARDING_PARTIAL;
    t.has_once |= c->in[i].s.kind == WEFT_SHARDING_SINGLE;
    t.has_each |= c->in[i].s.kind == WEFT_SHARDING_LOCAL;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_SHARD) continue;
    int rank = weft_data_in_shape(c, i)->rank;
    if (!t.is_rank_known && n->num_inputs > 1 && broadcasts) t.is_confused = true;
    int axis =
        n->num_inputs == 1 || rank < 0 || !broadcasts ? c->in[i].s.dim : c->in[i].s.dim + t.rank - rank;
    if (t.axis < 0) {
      t.axis = axis;
      t.factor = c->in[i].factor;
    } else if (axis != t.axis) {
      int at = broadcasts ? t.axis - (t.rank - rank) : t.axis;
      const weft_shape_t *shape = weft_data_in_shape(c, i);
      bool fits = at < 0 || (at < shape->rank && shape->dims[at] == 1);
      c->required[i] = weft_sharding_replicate(0); /* rows against rows: this side is needed whole */
      if (!fits) t.is_confused = true;
    } else if (t.factor == 0) { /* rows beside rows are as many */
      t.factor = c->in[i].factor;
    }
  }
  if (t.axis < 0) return t;
  for (int i = 0; i < n->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind == WEFT_SHARDING_SHARD || kind == WEFT_SHARDING_COUNTS || kind == WEFT_SHARDING_LOCAL) continue;
    const weft_shape_t *shape = weft_data_in_shape(c, i);
    int at = broadcasts ? t.axis - (t.rank - shape->rank) : t.axis;
    if (kind == WEFT_SHARDING_SINGLE || kind == WEFT_SHARDING_PARTIAL)
      c->required[i] = weft_sharding_replicate(0);
    if (!broadcasts && kind != WEFT_SHARDING_PARTIAL) { /* as long as the rows, then */
      c->required[i] = weft_sharding_shard(t.axis, 0);
      continue;
    }
    if (shape->rank < 0) {
      t.is_confused = true;
    } else if (at >= 0 && shape->dims[at] != 1) {
      bool is_whole = c->in[i].whole == at || shape->dims[at] > 1;
      if (is_whole && kind != WEFT_SHARDING_PARTIAL) {
        c->required[i] = weft_sharding_shard(at, 0);
      } else {
        t.is_confused = true; /* 1, or the whole batch: not known here */
      }
    }
  }
  return t;
}

/* Gives input i degree d, as far as that means anything. */
static void require_degree(weft_data_ctx_t *c, int i, int d) {
  if (c->in[i].zero || c->required[i].kind == WEFT_SHARDING_LOCAL) return;
  if (c->required[i].kind == WEFT_SHARDING_COUNTS) {
    if (d != -1) c->required[i] = weft_sharding_replicate(d);
    return;
  }
  c->required[i].degree = d;
}

/* Terms of a sum, inputs [first, end): one degree for all. Parts stay parts; what every replica has whole
 * counts as a part of a degree more. Returns the sharding of the sum. */
static weft_axis_sharding_t sum(weft_data_ctx_t *c, const terms_t *t, int first, int end) {
  bool fraction = weft_data_has_fraction(c->node->input_types[end - 1]);
  int lead = -1;
  for (int i = first; i < end; i++) { /* the one that need not be scaled: a part, or rows, not zeros */
    weft_sharding_kind_t kind = c->required[i].kind;
    if (c->in[i].zero) continue;
    bool leads =
        (t->axis >= 0 && kind == WEFT_SHARDING_SHARD) || (t->axis < 0 && kind == WEFT_SHARDING_PARTIAL);
    if (leads && (lead < 0 || (c->required[lead].kind != kind))) lead = i;
    if (lead < 0) lead = i;
  }
  if (lead < 0) { /* zeros all: the first that is more than the same everywhere */
    for (int i = end; i-- > first;) {
      if (lead < 0 || c->required[i].kind != WEFT_SHARDING_REPLICATE) lead = i;
    }
  }
  weft_axis_sharding_t s = c->required[lead];
  if (t->axis >= 0) {
    int d = c->in[lead].s.kind == WEFT_SHARDING_PARTIAL ? 0 : degree(c, lead);
    for (int i = first; i < end; i++) { /* what was added up just now has degree 0: all have */
      if (c->in[i].s.kind == WEFT_SHARDING_PARTIAL || c->in[i].s.kind == WEFT_SHARDING_SINGLE) d = 0;
      if (c->in[i].s.kind == WEFT_SHARDING_SHARD && c->required[i].kind == WEFT_SHARDING_REPLICATE) d = 0;
      if (c->in[i].s.kind == WEFT_SHARDING_REPLICATE && c->required[i].kind == WEFT_SHARDING_SHARD &&
          !c->in[i].zero)
        d = 0;
    }
    for (int i = first; i < end; i++) require_degree(c, i, d);
    return weft_sharding_shard(t->axis, d);
  }
  if (s.kind != WEFT_SHARDING_PARTIAL) {
    int d = degree(c, lead);
    for (int i = first; i < end; i++) {
      if (!c->in[i].zero && degree(c, i) != d) d = 0;
    }
    for (int i = first; i < end; i++) require_degree(c, i, d);
    return weft_sharding_replicate(d);
  }
  bool is_easy = true; /* no scaling of what cannot be scaled */
  for (int i = first; i < end; i++) {
    if (c->in[i].zero) continue;
    bool is_part = c->required[i].kind == WEFT_SHARDING_PARTIAL;
    if (degree(c, i) != (is_part ? s.degree : s.degree - 1) && !fraction) is_easy = false;
  }
  for (int i = first; i < end; i++) {
    if (!is_easy) {
      c->required[i] = weft_sharding_replicate(0);
    } else {
      require_degree(c, i, c->required[i].kind == WEFT_SHARDING_PARTIAL ? s.degree : s.degree - 1);
    }
  }
  return is_easy ? s : weft_sharding_replicate(0);
}

/* All inputs but `keep` (-1: none) added up and of degree 0. */
static void require_true(weft_data_ctx_t *c, int keep) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (i == keep) continue;
    if (c->required[i].kind == WEFT_SHARDING_PARTIAL) c->required[i] = weft_sharding_replicate(0);
    require_degree(c, i, 0);
  }
}

/* Of a product or quotient: the sharding from one part or from rows, with degrees added up. */
static weft_axis_sharding_t product(weft_data_ctx_t *c, const terms_t *t, bool is_quotient) {
  int part = -1, total = 0;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->required[i].kind == WEFT_SHARDING_PARTIAL && part < 0 && !(is_quotient && i == 1)) {
      part = i;
    } else if (c->required[i].kind == WEFT_SHARDING_PARTIAL) {
      c->required[i] = weft_sharding_replicate(0);
    }
  }
  for (int i = 0; i < c->node->num_inputs; i++) total += is_quotient && i == 1 ? -degree(c, i) : degree(c, i);
  if (t->axis >= 0) return weft_sharding_shard(t->axis, total);
  if (part >= 0) return weft_sharding_partial(total);
  for (int i = 0; i < c->node->num_inputs && total == 0;
       i++) { /* degrees that cancel: 0 / 0 on a replica without rows */
    if (degree(c, i) != 0) require_degree(c, i, 0);
  }
  return weft_sharding_replicate(total);
}

/* Linear in input k only. */
static weft_axis_sharding_t linear_in(weft_data_ctx_t *c, const terms_t *t, int k) {
  require_true(c, k);
  int d = c->required[k].kind == WEFT_SHARDING_COUNTS ? -1 : c->required[k].degree;
  if (t->axis >= 0) return weft_sharding_shard(t->axis, d);
  return c->required[k].kind == WEFT_SHARDING_PARTIAL ? weft_sharding_partial(d) : weft_sharding_replicate(d);
}

/* Does every input lack a part or rows, so that replica 0 alone may go on? */
static bool goes_on_alone(const weft_data_ctx_t *c, const terms_t *t) {
  if (!t->has_once || t->has_part || t->axis >= 0) return false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_COUNTS) return false;
  }
  return true;
}

/* Where the whole batch lies in the output, if an input has it. */
static void find_whole(weft_data_ctx_t *c, value_t *out, int rank) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    int mine = weft_data_in_shape(c, i)->rank;
    bool is_whole = c->in[i].s.kind == WEFT_SHARDING_SHARD || c->in[i].whole >= 0;
    if (!is_whole || mine < 0 || (rank < 0 && c->node->num_inputs > 1)) continue;
    int at = c->in[i].s.kind == WEFT_SHARDING_SHARD ? c->in[i].s.dim : c->in[i].whole;
    out->whole = c->node->num_inputs == 1 ? at : at + rank - mine;
    out->factor = c->in[i].factor;
    return;
  }
}

/* Zeros stay zeros: a loop that begins with them takes the degree of what it adds to them. */
static bool is_zero(const weft_data_ctx_t *c, form_t form, int linear) {
  const value_t *in = c->in;
  bool all = true, any = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    all = all && in[i].zero;
    any = any || in[i].zero;
  }
  switch (form) {
    case FORM_SUM: return all;
    case FORM_PRODUCT: return any;
    case FORM_LINEAR: return in[linear].zero;
    case FORM_QUOTIENT: return in[0].zero;
    case FORM_CHOICE: return in[1].zero && in[2].zero;
    default: return false;
  }
}

/* Only the shape matters: a value of the same shape, whatever the input is worth. */
static weft_status_t *like(weft_data_ctx_t *c) {
  value_t v = c->in[0];
  if (v.s.kind == WEFT_SHARDING_PARTIAL || v.s.kind == WEFT_SHARDING_COUNTS) v.s = weft_sharding_replicate(0);
  v.s.degree = 0;
  v.ints = NULL;
  v.is_state = false;
  v.zero = c->node->op->batch == WEFT_BATCH_ZEROS_LIKE;
  c->out[0] = v;
  if (v.s.kind == WEFT_SHARDING_SINGLE) c->run = WEFT_RUN_SINGLE;
  return NULL;
}

/* Linear in its only input, without losing fractions: as it comes. */
static bool passes_on(const weft_data_ctx_t *c, form_t form) {
  const weft_node_t *n = c->node;
  return n->num_inputs == 1 && (form == FORM_LINEAR || form == FORM_SUM) &&
         c->in[0].s.kind != WEFT_SHARDING_COUNTS &&
         weft_data_has_fraction(n->input_types[0]) == weft_data_has_fraction(n->output_types[0]);
}

static weft_status_t *local_inputs(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_PARTIAL) c->required[i] = weft_sharding_replicate(0);
  }
  for (int o = 0; o < c->node->num_outputs; o++)
    c->out[o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  return NULL;
}

static weft_axis_sharding_t nonlinear(weft_data_ctx_t *c, const terms_t *t) {
  require_true(c, -1);
  return t->axis >= 0 ? weft_sharding_shard(t->axis, 0) : weft_sharding_replicate(0);
}

/* What comes out, inputs being required accordingly. */
static weft_axis_sharding_t sharding_of(weft_data_ctx_t *c, const terms_t *t, form_t form, int linear) {
  const weft_node_t *n = c->node;
  switch (form) {
    case FORM_LINEAR: /* a cast may lose the fraction */
      return n->num_inputs == 1 && weft_data_has_fraction(n->input_types[0]) ? nonlinear(c, t)
                                                                             : linear_in(c, t, linear);
    case FORM_SUM: return sum(c, t, 0, n->num_inputs);
    case FORM_PRODUCT: return product(c, t, false);
    case FORM_QUOTIENT: return product(c, t, true);
    case FORM_CHOICE:
      if (c->required[0].kind == WEFT_SHARDING_PARTIAL) c->required[0] = weft_sharding_replicate(0);
      return sum(c, t, 1, 3);
    default: return nonlinear(c, t);
  }
}

weft_status_t *weft_data_elementwise(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int linear;
  form_t form = form_of(n->op, &linear);
  bool is_list =
      n->num_inputs > 0 && n->input_types[0] == WEFT_VARIANT && c->in[0].s.kind == WEFT_SHARDING_LOCAL;
  if (is_list && form == FORM_SUM) return weft_data_list_sum(c);
  if (is_list && form == FORM_SHAPE) return weft_data_list_zeros(c);
  if (is_list) return weft_data_refuse(n, "its effect on the elements of a list is unknown");
  if (form == FORM_SHAPE) return like(c);
  if (passes_on(c, form)) {
    weft_data_pass(c, 0, 0);
    c->out[0].ints = NULL;
    c->out[0].is_state = false;
    return NULL;
  }
  settle_shapes(c);
  bool variadic =
      n->op->num_inputs > 0 && n->op->inputs[0].kind == WEFT_ARG_REPEATED; /* AddN: equal shapes */
  terms_t t = align(c, !variadic && n->op->batch != WEFT_BATCH_SAME_SHAPES);
  if (t.has_each) return local_inputs(c);
  if (t.is_confused || goes_on_alone(c, &t)) {
    WEFT_RETURN_IF_ERROR(weft_data_replicate_all(c));
    find_whole(c, &c->out[0], t.rank);
    return NULL;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->required[i].kind == WEFT_SHARDING_SINGLE) c->required[i] = weft_sharding_replicate(0);
  }
  value_t out = weft_data_value(sharding_of(c, &t, form, linear));
  if (out.s.degree != 0 && !weft_data_has_fraction(n->output_types[0])) { /* whole numbers are not scaled */
    return weft_data_replicate_all(c);
  }
  out.factor = t.axis >= 0 ? t.factor : 0;
  if (t.is_rank_known || (t.axis >= 0 && t.rank > t.axis)) out.rank = t.rank;
  out.zero = is_zero(c, form, linear);
  if (out.s.kind == WEFT_SHARDING_REPLICATE) find_whole(c, &out, t.rank);
  for (int o = 0; o < n->num_outputs; o++) c->out[o] = out;
  return NULL;
}
