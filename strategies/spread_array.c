/* strategies/spread_array.c - ops that move elements: where the axis of rows goes. */
#include "strategies/spread_rules.h"

typedef weft_spread_value_t value_t;

static bool is_rows(const weft_spread_ctx_t *c, int i) { return c->in[i].s.kind == WEFT_SPREAD_ROWS; }
static bool is_plain(const weft_spread_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_spread_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SPREAD_SAME && kind != WEFT_SPREAD_ONCE) return false;
  }
  return true;
}
static weft_status_t *fall_back(weft_spread_ctx_t *c) {
  return is_plain(c) ? weft_spread_once(c) : weft_spread_everywhere(c);
}
/* Inputs [first, end) are numbers that all replicas agree on. */
static bool want_numbers(weft_spread_ctx_t *c, int first, int end) {
  for (int i = first; i < end; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_EACH) return false;
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) c->wanted[i] = weft_spread_same(0);
  }
  return true;
}
/* Of an op linear in input 0 whose other inputs are the same everywhere: parts stay parts, degrees stay. */
static bool passes_whole(weft_spread_ctx_t *c) {
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) return false;
  }
  weft_spread_kind_t kind = c->in[0].s.kind;
  if (kind != WEFT_SPREAD_PART && !(kind == WEFT_SPREAD_SAME && c->in[0].s.degree != 0)) return false;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_spread_value(c->in[0].s);
    c->out[o].zero = c->in[0].zero;
  }
  return true;
}
/* Output o: rows of input i along another axis. */
static void give_rows(weft_spread_ctx_t *c, int i, int o, int axis) {
  c->out[o] = weft_spread_value(weft_spread_rows(axis, c->wanted[i].degree));
  c->out[o].factor = c->in[i].factor;
  c->out[o].zero = c->in[i].zero;
}
/* The axis of rows of input i, or along which it has the whole batch; -1: none. */
static int batch_axis(const weft_spread_ctx_t *c, int i) { return is_rows(c, i) ? c->in[i].s.axis : c->in[i].whole; }
/* Nothing is spread, but the whole batch may lie in it: it then lies along `axis` of the output. */
static weft_status_t *keep_whole(weft_spread_ctx_t *c, int axis) {
  weft_status_t *s = fall_back(c);
  if (s != NULL || c->in[0].whole < 0 || axis < 0) return s;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o].whole = axis;
    c->out[o].factor = c->in[0].factor;
  }
  return s;
}

/* ---- shapes ---- */

static bool counts_rows(const weft_spread_ints_t *ints, int i) {
  return ints != NULL && !ints->is_set && ints->columns == 0 && i < ints->n && ints->items[i].of == WEFT_COUNT_ROWS;
}
/* The only element that counts rows; -1: none, or more than one. */
static int counting(const weft_spread_ints_t *ints) {
  int at = -1;
  for (int i = 0; ints != NULL && !ints->is_set && i < ints->n; i++) {
    if (!counts_rows(ints, i)) continue;
    if (at >= 0) return -1;
    at = i;
  }
  return at;
}
static int64_t factor_of(const weft_spread_ints_t *ints, int i) { return ints->items[i].known ? ints->items[i].value : 0; }

/* Which axis of the new shape do rows of axis 0 become? The first, if those before it are 1. */
static int leading_axis(const weft_spread_ints_t *shape) {
  int i = 0;
  int64_t dim;
  while (i < shape->n && weft_spread_int_at(shape, i, &dim) && dim == 1) i++;
  if (i == shape->n) return -1;
  if (counts_rows(shape, i)) return i;
  return weft_spread_int_at(shape, i, &dim) && dim == -1 ? i : -1;
}

/* Rows of axis k > 0 keep their place if the dims before them do. They surely do if the dims behind are as many
 * elements as before. */
static bool same_before(const weft_spread_ctx_t *c, const weft_spread_ints_t *shape, int k) {
  const weft_shape_t *old = weft_spread_in_shape(c, 0);
  if (old->rank < 0 || k >= shape->n || !counts_rows(shape, k)) return false;
  int64_t before = 1, now = 1, dim;
  bool knows = c->in[0].factor == factor_of(shape, k) || old->rank == shape->n;
  for (int i = k + 1; i < old->rank; i++) knows = knows && old->dims[i] > 0 && !__builtin_mul_overflow(before, old->dims[i], &before);
  for (int i = k + 1; i < shape->n; i++) {
    knows = knows && weft_spread_int_at(shape, i, &dim) && dim > 0 && !__builtin_mul_overflow(now, dim, &now);
  }
  bool all_known = true;
  for (int i = 0; i < k; i++) all_known = all_known && shape->items[i].known && old->dims[i] >= 0;
  if (!all_known && !(knows && before == now)) return false;
  for (int i = 0; i < k; i++) {
    if (shape->is_set || shape->items[i].of != WEFT_COUNT_PLAIN) return false;
    bool differ = shape->items[i].known && old->dims[i] >= 0 && shape->items[i].value != old->dims[i];
    if (differ) return false;
  }
  return true;
}

static weft_status_t *reshape(weft_spread_ctx_t *c) {
  const value_t *x = &c->in[0];
  const weft_spread_ints_t *shape = c->in[1].ints;
  bool knows = shape != NULL && !shape->is_set && !shape->is_scalar && c->in[1].s.kind != WEFT_SPREAD_ONCE;
  if (x->s.kind == WEFT_SPREAD_EACH) return fall_back(c);
  if (is_rows(c, 0) && knows) {
    const weft_shape_t *old = weft_spread_in_shape(c, 0);
    int to = -1;
    if (x->s.axis == 0) {
      to = leading_axis(shape);
    } else {
      int ones = 0; /* dims of 1 before the rows are no dims */
      while (old->rank > ones && ones < x->s.axis && old->dims[ones] == 1) ones++;
      if (ones == x->s.axis) to = leading_axis(shape);
      if (to < 0 && same_before(c, shape, x->s.axis)) to = x->s.axis;
    }
    if (to >= 0) {
      give_rows(c, 0, 0, to);
      if (counts_rows(shape, to)) c->out[0].factor = factor_of(shape, to);
      if (!counts_rows(shape, to)) { /* -1: what is left over */
        int64_t in = 1, out = 1;
        bool known = old->rank >= 0 && x->factor > 0;
        for (int i = 0; known && i < old->rank; i++) {
          if (i != x->s.axis) known = old->dims[i] > 0 && !__builtin_mul_overflow(in, old->dims[i], &in);
        }
        for (int i = 0; known && i < shape->n; i++) {
          int64_t dim;
          if (i != to) known = weft_spread_int_at(shape, i, &dim) && dim > 0 && !__builtin_mul_overflow(out, dim, &out);
        }
        known = known && !__builtin_mul_overflow(in, x->factor, &in) && in % out == 0;
        c->out[0].factor = known ? in / out : 0;
      }
      return NULL;
    }
    int64_t fixed;
    bool is_fixed = x->s.axis == 0 && weft_spread_int_at(shape, 0, &fixed) && fixed > 1 && c->in[1].s.kind == WEFT_SPREAD_SAME;
    for (int i = 0; i < shape->n; i++) is_fixed = is_fixed && (shape->items[i].of == WEFT_COUNT_PLAIN);
    if (is_fixed) {
      return weft_spread_refuse(c->node,
                                "its shape fixes the number of rows at %lld, of which each replica has only some; "
                                "use -1, or the shape of the batch",
                                (long long)fixed);
    }
  }
  if (x->s.kind == WEFT_SPREAD_PART && c->in[1].s.kind == WEFT_SPREAD_SAME) {
    (void)passes_whole(c);
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SPREAD_SHAPE && x->s.kind == WEFT_SPREAD_SAME && x->whole == 0 && knows &&
      leading_axis(shape) >= 0) { /* rows of what everybody has */
    int to = leading_axis(shape);
    c->wanted[0] = weft_spread_rows(0, 0);
    c->out[0] = weft_spread_value(weft_spread_rows(to, 0));
    c->out[0].factor = factor_of(shape, to);
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SPREAD_SAME && passes_whole(c)) return NULL;
  weft_status_t *s = fall_back(c);
  if (s == NULL && knows) { /* where the whole batch is now */
    for (int i = 0; i < shape->n; i++) {
      bool counts = shape->items[i].of != WEFT_COUNT_PLAIN;
      if (counts || (i == 0 && batch_axis(c, 0) == 0 && leading_axis(shape) == 0)) {
        c->out[0].whole = i;
        c->out[0].factor = counts ? factor_of(shape, i) : 0;
        break;
      }
    }
  }
  return s;
}

weft_status_t *weft_spread_reshape(weft_spread_ctx_t *c) {
  weft_status_t *s = reshape(c);
  const weft_spread_ints_t *shape = c->in[1].ints;
  if (s == NULL && shape != NULL && !shape->is_set && !shape->is_scalar) {
    c->out[0].dims = shape;
    c->out[0].rank = shape->n;
  }
  return s;
}

weft_status_t *weft_spread_expand(weft_spread_ctx_t *c) {
  int64_t at;
  int rank = weft_spread_in_shape(c, 0)->rank, axis = batch_axis(c, 0);
  if (passes_whole(c)) return NULL;
  bool knows = weft_spread_int_at(c->in[1].ints, 0, &at) && (rank >= 0 || at >= 0);
  if (c->in[0].own != 0) { /* a column of numbers */
    bool is_column = knows && rank == 1 && (at == 1 || at == -1);
    if (!is_column) weft_spread_force_true(c, c->in[0].own - 1);
    c->out[0] = weft_spread_value(weft_spread_of(is_column ? WEFT_SPREAD_EACH : WEFT_SPREAD_NONE));
    c->out[0].own = is_column ? c->in[0].own : 0;
    c->out[0].rank = is_column ? 2 : -1;
    return NULL;
  }
  if (knows && at < 0) at += rank + 1;
  int to = at <= axis ? axis + 1 : axis;
  if (is_rows(c, 0) && knows) {
    give_rows(c, 0, 0, to);
    return NULL;
  }
  return keep_whole(c, knows ? to : -1);
}

weft_status_t *weft_spread_squeeze(weft_spread_ctx_t *c) {
  const weft_attr_t *dims = weft_node_attr(c->node, "squeeze_dims");
  const weft_shape_t *shape = weft_spread_in_shape(c, 0);
  if (passes_whole(c)) return NULL;
  int axis = batch_axis(c, 0), to = axis, n = dims == NULL ? 0 : dims->n;
  bool knows = true;
  for (int i = 0; i < n; i++) {
    int64_t at = dims->list.ints[i];
    if (at < 0 && shape->rank < 0) knows = false;
    if (at < 0) at += shape->rank;
    to -= at < axis;
  }
  if (n == 0) { /* all dims of 1: those before the rows must be known */
    knows = shape->rank >= 0;
    for (int i = 0; knows && i < axis; i++) {
      knows = shape->dims[i] >= 0;
      to -= shape->dims[i] == 1;
    }
  }
  if (is_rows(c, 0) && knows) {
    for (int i = 0; n == 0 && i < shape->rank; i++) {
      if (i != axis && shape->dims[i] == 1) c->squeezed |= (uint32_t)1 << i;
    }
    give_rows(c, 0, 0, to);
    return NULL;
  }
  return keep_whole(c, knows ? to : -1);
}

weft_status_t *weft_spread_transpose(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *perm = c->in[1].ints;
  if (passes_whole(c)) return NULL;
  int axis = batch_axis(c, 0), to = -1;
  for (int i = 0; perm != NULL && !perm->is_set && i < perm->n && axis >= 0; i++) {
    int64_t from;
    if (!weft_spread_int_at(perm, i, &from)) {
      to = -1;
      break;
    }
    if (from == axis) to = i;
  }
  if (is_rows(c, 0) && to >= 0) {
    give_rows(c, 0, 0, to);
    return NULL;
  }
  return keep_whole(c, to);
}

/* ---- joining and cutting ---- */

/* Inputs [first, end), joined along `axis` (stacked: a new one). */
static weft_status_t *join(weft_spread_ctx_t *c, int first, int end, int64_t axis, bool stacks, bool knows) {
  int lead = -1, rank = -1, degree = 0, num_parts = 0, num_same = 0;
  bool all_zero = true;
  for (int i = first; i < end; i++) {
    all_zero = all_zero && c->in[i].zero;
    if (weft_spread_in_shape(c, i)->rank >= 0) rank = weft_spread_in_shape(c, i)->rank;
    if (is_rows(c, i) && (lead < 0 || (c->in[lead].zero && !c->in[i].zero))) lead = i;
    num_parts += c->in[i].s.kind == WEFT_SPREAD_PART;
    num_same += c->in[i].s.kind == WEFT_SPREAD_SAME;
  }
  if (rank < 0 && axis < 0) knows = false;
  if (axis < 0) axis += rank + (stacks ? 1 : 0);
  if (lead < 0 && num_parts > 0 && num_parts + num_same == end - first) {
    bool fits = true; /* equal degrees; the same everywhere counts as a part of a degree more */
    for (int i = first; i < end; i++) {
      if (c->in[i].s.kind == WEFT_SPREAD_PART) degree = c->in[i].s.degree;
    }
    for (int i = first; i < end; i++) {
      if (c->in[i].zero) continue;
      int want = c->in[i].s.kind == WEFT_SPREAD_PART ? degree : degree - 1;
      fits = fits && (c->in[i].s.degree == want || weft_spread_has_fraction(c->node->input_types[i]));
      c->wanted[i].degree = want;
    }
    if (fits) {
      c->out[0] = weft_spread_value(weft_spread_part(degree));
      c->out[0].zero = all_zero;
      return NULL;
    }
  }
  if (lead < 0 || !knows) {
    weft_status_t *s = fall_back(c);
    for (int i = first; s == NULL && i < end; i++) {
      int whole = batch_axis(c, i);
      if (whole >= 0 && knows && (stacks || whole != axis)) c->out[0].whole = stacks && axis <= whole ? whole + 1 : whole;
    }
    return s;
  }
  int rows = c->in[lead].s.axis;
  if (!stacks && rows == axis) { /* batches one behind the other: not rows of anything */
    weft_status_t *s = weft_spread_everywhere(c);
    if (s == NULL) c->out[0].whole = rows;
    return s;
  }
  degree = c->in[lead].s.degree;
  for (int i = first; i < end; i++) {
    if (is_rows(c, i) ? c->in[i].s.degree != degree && !c->in[i].zero : !c->in[i].zero) degree = 0;
  }
  for (int i = first; i < end; i++) {
    const weft_shape_t *shape = weft_spread_in_shape(c, i);
    if (is_rows(c, i)) {
      if (c->in[i].s.axis != rows) return weft_spread_everywhere(c);
      if (!c->in[i].zero) c->wanted[i].degree = degree;
      continue;
    }
    bool has_rows = c->in[i].whole == rows || (shape->rank > rows && shape->dims[rows] > 1);
    bool fits = c->in[i].s.kind == WEFT_SPREAD_SAME || c->in[i].s.kind == WEFT_SPREAD_ONCE;
    if (!has_rows || !fits) return weft_spread_everywhere(c);
    c->wanted[i] = weft_spread_rows(rows, 0);
  }
  c->out[0] = weft_spread_value(weft_spread_rows(stacks && axis <= rows ? rows + 1 : rows, degree));
  c->out[0].factor = c->in[lead].factor;
  c->out[0].zero = all_zero;
  return NULL;
}

/* Numbers of rows, 0, 1, ...: each replica may number its own, as long as they only choose among its own. */
weft_status_t *weft_spread_range(weft_spread_ctx_t *c) {
  int64_t start, by;
  const weft_spread_ints_t *limit = c->in[1].ints;
  bool numbers_rows = c->in[1].s.kind == WEFT_SPREAD_SHAPE && limit != NULL && counts_rows(limit, 0) &&
                      factor_of(limit, 0) == 1 && weft_spread_int_at(c->in[0].ints, 0, &start) && start == 0 &&
                      weft_spread_int_at(c->in[2].ints, 0, &by) && by == 1;
  if (numbers_rows) {
    c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
    c->out[0].own = c->node->id + 1;
    c->out[0].rank = 1;
    return NULL;
  }
  weft_status_t *s = fall_back(c);
  bool counts_all = limit != NULL && !limit->is_set && limit->n == 1 && limit->items[0].of != WEFT_COUNT_PLAIN &&
                    weft_spread_int_at(c->in[0].ints, 0, &start) && start == 0;
  if (s == NULL && counts_all) {
    c->out[0].whole = 0;
    c->out[0].factor = factor_of(limit, 0);
  }
  return s;
}

/* Joins numbers of own rows, in front, with other columns of indices; false if these are none. */
static bool join_own(weft_spread_ctx_t *c, int first, int end, int64_t axis, int rank) {
  int own = 0;
  for (int i = first; i < end; i++) {
    if (own == 0) own = c->in[i].own;
  }
  if (own == 0) return false;
  bool fits = c->in[first].own != 0 && (axis == 1 || axis == -1) && rank == 2;
  for (int i = first; i < end; i++) {
    bool is_column = c->in[i].own != 0 || (is_rows(c, i) && c->in[i].s.axis == 0);
    fits = fits && is_column;
  }
  if (fits) {
    c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
    c->out[0].own = own;
    c->out[0].rank = 2;
    return true;
  }
  for (int i = first; i < end; i++) {
    if (c->in[i].own != 0) weft_spread_force_true(c, c->in[i].own - 1);
  }
  c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
  return true;
}

weft_status_t *weft_spread_concat(weft_spread_ctx_t *c) { /* detail 1: the axis comes first */
  int axis_input = c->detail == 1 ? 0 : c->node->num_inputs - 1, first = c->detail == 1 ? 1 : 0;
  int64_t axis = 0;
  bool knows = weft_spread_int_at(c->in[axis_input].ints, 0, &axis);
  bool is_own = join_own(c, first, first + c->node->num_inputs - 1, axis, weft_spread_in_shape(c, first)->rank);
  if (is_own) return NULL;
  return join(c, first, first + c->node->num_inputs - 1, axis, false, knows && want_numbers(c, axis_input, axis_input + 1));
}

weft_status_t *weft_spread_pack(weft_spread_ctx_t *c) {
  int rank = weft_spread_in_shape(c, 0)->rank;
  if (join_own(c, 0, c->node->num_inputs, weft_node_attr_int(c->node, "axis", 0), rank < 0 ? -1 : rank + 1)) return NULL;
  return join(c, 0, c->node->num_inputs, weft_node_attr_int(c->node, "axis", 0), true, true);
}

/* Cuts along an axis: value, and all outputs alike. */
static weft_status_t *cut(weft_spread_ctx_t *c, int value, bool knows, int64_t at, bool drops) {
  int rank = weft_spread_in_shape(c, value)->rank, axis = batch_axis(c, value);
  weft_spread_kind_t kind = c->in[value].s.kind;
  if (at < 0 && rank < 0) knows = false;
  if (at < 0) at += rank;
  if (kind == WEFT_SPREAD_PART || (kind == WEFT_SPREAD_SAME && c->in[value].s.degree != 0)) {
    for (int o = 0; o < c->node->num_outputs; o++) c->out[o] = weft_spread_value(c->in[value].s);
    return NULL;
  }
  int to = drops && at < axis ? axis - 1 : axis;
  if (is_rows(c, value) && knows && at != axis) {
    for (int o = 0; o < c->node->num_outputs; o++) give_rows(c, value, o, to);
    return NULL;
  }
  weft_status_t *s = fall_back(c);
  for (int o = 0; s == NULL && o < c->node->num_outputs; o++) {
    if (axis >= 0 && knows && at != axis) c->out[o].whole = to;
  }
  return s;
}

weft_status_t *weft_spread_split(weft_spread_ctx_t *c) { /* detail: which input is the value */
  int value = c->detail, axis = value == 1 ? 0 : 2;
  int64_t at = 0;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (i != value && !want_numbers(c, i, i + 1)) return fall_back(c);
  }
  bool knows = weft_spread_int_at(c->in[axis].ints, 0, &at);
  return cut(c, value, knows, at, false);
}

weft_status_t *weft_spread_unpack(weft_spread_ctx_t *c) {
  return cut(c, 0, true, weft_node_attr_int(c->node, "axis", 0), true);
}

/* ---- slices ---- */

weft_status_t *weft_spread_slice(weft_spread_ctx_t *c) {
  int axis = batch_axis(c, 0);
  int64_t begin, size;
  if (passes_whole(c)) return NULL;
  bool takes_all = axis >= 0 && weft_spread_int_at(c->in[1].ints, axis, &begin) && begin == 0;
  bool to_end = takes_all && weft_spread_int_at(c->in[2].ints, axis, &size) && size == -1;
  bool counted = takes_all && counts_rows(c->in[2].ints, axis) && factor_of(c->in[2].ints, axis) == c->in[0].factor &&
                 c->in[0].factor > 0;
  if (is_rows(c, 0) && (to_end || counted)) {
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    give_rows(c, 0, 0, axis);
    return NULL;
  }
  return keep_whole(c, to_end ? axis : -1);
}

/* What a strided slice does to one axis of its input. */
typedef struct strided {
  bool takes_all; /* this axis, from begin to end by ones */
  int to;         /* where it is then */
} strided_t;

static bool mask_bit(const weft_node_t *n, const char *name, int i) {
  return ((uint64_t)weft_node_attr_int(n, name, 0) >> i & 1) != 0;
}

/* `first` is the input with begin; end and strides follow it. */
static bool follow_axis(const weft_spread_ctx_t *c, int first, int rank, int axis, strided_t *out) {
  const weft_node_t *n = c->node;
  const weft_spread_ints_t *begin = c->in[first].ints, *end = c->in[first + 1].ints, *by = c->in[first + 2].ints;
  if (begin == NULL || end == NULL || by == NULL || begin->is_set || end->is_set || by->is_set) return false;
  int at = 0, to = 0, num_new = 0, specs = begin->n;
  for (int i = 0; i < specs; i++) num_new += mask_bit(n, "new_axis_mask", i) && !mask_bit(n, "ellipsis_mask", i);
  *out = (strided_t){true, 0};
  for (int i = 0; i < specs; i++) {
    if (mask_bit(n, "ellipsis_mask", i)) {
      if (rank < 0) return false;
      int skipped = rank - (specs - num_new - 1);
      if (axis < at + skipped) {
        out->to = to + axis - at;
        return true;
      }
      at += skipped;
      to += skipped;
      continue;
    }
    if (mask_bit(n, "new_axis_mask", i)) {
      to++;
      continue;
    }
    bool shrinks = mask_bit(n, "shrink_axis_mask", i);
    if (at == axis) {
      int64_t b = 0, s = 0, e = 0;
      bool from_start = mask_bit(n, "begin_mask", i) || (weft_spread_int_at(begin, i, &b) && b == 0);
      bool to_end = mask_bit(n, "end_mask", i) || (counts_rows(end, i) && factor_of(end, i) == c->in[first == 0 ? 0 : first - 1].factor &&
                                                  c->in[first == 0 ? 0 : first - 1].factor > 0) ||
                    (weft_spread_int_at(end, i, &e) && e == INT32_MAX);
      out->takes_all = !shrinks && from_start && to_end && weft_spread_int_at(by, i, &s) && s == 1;
      out->to = to;
      return true;
    }
    at++;
    to += !shrinks;
  }
  out->to = to + axis - at;
  return true;
}

weft_status_t *weft_spread_strided_slice(weft_spread_ctx_t *c) {
  strided_t s = {false, 0};
  int axis = batch_axis(c, 0);
  if (passes_whole(c)) return NULL;
  bool follows = axis >= 0 && follow_axis(c, 1, weft_spread_in_shape(c, 0)->rank, axis, &s) && s.takes_all;
  if (is_rows(c, 0) && follows) {
    for (int i = 1; i < 4; i++) {
      if (c->in[i].s.kind == WEFT_SPREAD_ONCE) c->wanted[i] = weft_spread_same(0);
    }
    give_rows(c, 0, 0, s.to);
    return NULL;
  }
  return keep_whole(c, follows ? s.to : -1);
}

weft_status_t *weft_spread_strided_slice_grad(weft_spread_ctx_t *c) { /* shape, begin, end, strides, dy */
  const weft_spread_ints_t *shape = c->in[0].ints;
  strided_t s = {false, 0};
  int axis = counting(shape);
  if (c->in[4].s.kind == WEFT_SPREAD_PART && c->in[0].s.kind == WEFT_SPREAD_SAME) {
    if (!want_numbers(c, 1, 4)) return fall_back(c);
    c->out[0] = weft_spread_value(c->in[4].s);
    return NULL;
  }
  bool follows = axis >= 0 && is_rows(c, 4) && follow_axis(c, 1, shape->n, axis, &s) && s.takes_all && s.to == c->in[4].s.axis;
  if (!follows) return fall_back(c);
  give_rows(c, 4, 0, axis);
  return NULL;
}

weft_status_t *weft_spread_pad(weft_spread_ctx_t *c) { /* detail 1: with zeros */
  int axis = batch_axis(c, 0);
  const weft_attr_t *a = c->node->inputs[1].node->op->flags & WEFT_OP_CONST
                             ? weft_node_attr(c->node->inputs[1].node, "value")
                             : NULL;
  const weft_tensor_t *t = a == NULL ? NULL : a->tensor;
  if (c->detail == 1 && passes_whole(c)) return NULL;
  bool unpadded = false;
  if (axis >= 0 && t != NULL && t->shape.rank == 2 && t->shape.dims[1] == 2 && axis < t->shape.dims[0]) {
    unpadded = t->dtype == WEFT_I32
                   ? ((const int32_t *)t->data)[2 * axis] == 0 && ((const int32_t *)t->data)[2 * axis + 1] == 0
                   : t->dtype == WEFT_I64 && ((const int64_t *)t->data)[2 * axis] == 0 &&
                         ((const int64_t *)t->data)[2 * axis + 1] == 0;
  }
  if (is_rows(c, 0) && unpadded) {
    if (c->detail != 1) c->wanted[0].degree = 0;
    if (c->node->num_inputs > 2 && c->in[2].s.kind != WEFT_SPREAD_SAME) c->wanted[2] = weft_spread_same(0);
    give_rows(c, 0, 0, axis);
    return NULL;
  }
  return keep_whole(c, unpadded ? axis : -1);
}

/* ---- making more of it ---- */

/* x repeated to a shape or by multiples of which one element counts rows. */
weft_status_t *weft_spread_tile(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *by = c->in[1].ints;
  int axis = batch_axis(c, 0), at = counting(by);
  int64_t times;
  if (passes_whole(c)) return NULL;
  if (is_rows(c, 0)) {
    bool once = weft_spread_int_at(by, axis, &times) && times == 1;
    if (!once) return weft_spread_everywhere(c);
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    give_rows(c, 0, 0, axis);
    return NULL;
  }
  const weft_shape_t *shape = weft_spread_in_shape(c, 0);
  bool grows = c->in[1].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[0].s.kind != WEFT_SPREAD_EACH &&
               c->in[0].whole < 0 && shape->rank > at && shape->dims[at] > 0;
  if (!grows) return keep_whole(c, weft_spread_int_at(by, axis, &times) && times == 1 ? axis : -1);
  if (c->in[0].s.kind != WEFT_SPREAD_SAME) c->wanted[0] = weft_spread_same(0);
  c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[0].degree));
  if (__builtin_mul_overflow(factor_of(by, at), shape->dims[at], &c->out[0].factor)) c->out[0].factor = 0;
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_spread_broadcast(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *to = c->in[1].ints;
  const weft_shape_t *shape = weft_spread_in_shape(c, 0);
  int at = counting(to);
  if (passes_whole(c)) return NULL;
  bool counts = c->in[1].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[0].s.kind != WEFT_SPREAD_EACH;
  if (counts && shape->rank < 0 && is_rows(c, 0)) counts = false;
  int mine = counts ? at - (to->n - shape->rank) : -1;
  if (counts && is_rows(c, 0)) {
    if (mine != c->in[0].s.axis) return weft_spread_everywhere(c);
    give_rows(c, 0, 0, at);
    c->out[0].factor = factor_of(to, at);
    return NULL;
  }
  if (is_rows(c, 0)) { /* to a shape that is not known to go with the rows */
    return weft_spread_everywhere(c);
  }
  bool grows = counts && (shape->rank >= 0 && (mine < 0 || shape->dims[mine] == 1));
  bool is_whole = counts && !grows && mine >= 0 && (c->in[0].whole == mine || shape->dims[mine] > 1);
  if (!grows && !is_whole) return fall_back(c);
  if (is_whole) {
    if (c->in[0].s.kind == WEFT_SPREAD_PART) return weft_spread_everywhere(c);
    c->wanted[0] = weft_spread_rows(mine, 0);
  } else if (c->in[0].s.kind != WEFT_SPREAD_SAME) {
    c->wanted[0] = weft_spread_same(0);
  }
  c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[0].degree));
  c->out[0].factor = factor_of(to, at);
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_spread_fill(weft_spread_ctx_t *c) { /* dims, value */
  const weft_spread_ints_t *to = c->in[0].ints;
  int at = counting(to);
  if (c->in[0].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[1].s.kind != WEFT_SPREAD_EACH) {
    bool as_it_is = c->in[1].s.kind == WEFT_SPREAD_SAME;
    if (!as_it_is) c->wanted[1] = weft_spread_same(0);
    c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[1].degree));
    c->out[0].factor = factor_of(to, at);
    c->out[0].zero = c->in[1].zero;
    return NULL;
  }
  if (c->in[0].s.kind == WEFT_SPREAD_SAME && c->in[1].s.kind == WEFT_SPREAD_PART) {
    c->out[0] = weft_spread_value(c->in[1].s);
    return NULL;
  }
  int d = c->in[0].s.kind == WEFT_SPREAD_SAME && c->in[1].s.kind == WEFT_SPREAD_SAME ? c->in[1].s.degree : 0;
  weft_status_t *s = fall_back(c);
  if (s != NULL || c->out[0].s.kind != WEFT_SPREAD_SAME) return s;
  c->wanted[1].degree = d;
  c->out[0].s.degree = d;
  c->out[0].zero = c->in[1].zero;
  for (int i = 0; to != NULL && !to->is_set && i < to->n; i++) {
    if (to->items[i].of == WEFT_COUNT_PLAIN) continue;
    c->out[0].whole = i;
    c->out[0].factor = factor_of(to, i);
  }
  return NULL;
}

/* ---- rows by index ---- */

weft_status_t *weft_spread_gather(weft_spread_ctx_t *c) { /* detail 0: axis 0; 1: the axis is input 2; 2: a variable's rows */
  const weft_node_t *n = c->node;
  int batch_dims = (int)weft_node_attr_int(n, "batch_dims", 0);
  int64_t axis = 0;
  int params_rank = weft_spread_in_shape(c, 0)->rank, indices_rank = weft_spread_in_shape(c, 1)->rank;
  bool knows = c->detail != 1 || weft_spread_int_at(c->in[2].ints, 0, &axis);
  if (axis < 0 && params_rank < 0) knows = false;
  if (axis < 0) axis += params_rank;
  if (c->detail == 1 && !want_numbers(c, 2, 3)) return fall_back(c);
  if (c->in[0].s.kind == WEFT_SPREAD_ONCE && c->in[0].is_state) return weft_spread_once(c);
  if (batch_dims != 0) {
    bool fits = is_rows(c, 0) && is_rows(c, 1) && c->in[0].s.axis == c->in[1].s.axis && c->in[0].s.axis < batch_dims;
    if (!fits) return fall_back(c);
    give_rows(c, 0, 0, c->in[0].s.axis);
    return NULL;
  }
  if (is_rows(c, 1) && knows) { /* everybody looks up rows of his own */
    if (c->in[0].s.kind != WEFT_SPREAD_SAME) c->wanted[0] = weft_spread_same(0);
    c->out[0] = weft_spread_value(weft_spread_rows((int)axis + c->in[1].s.axis, c->in[0].is_state ? 0 : c->wanted[0].degree));
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (is_rows(c, 0) && knows && c->in[0].s.axis != axis && indices_rank >= 0) {
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    int at = c->in[0].s.axis;
    give_rows(c, 0, 0, at < axis ? at : at - 1 + indices_rank);
    return NULL;
  }
  if (c->in[0].is_state) { /* what the variable holds, looked up at the true indices */
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    c->out[0].whole = c->in[1].whole;
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SPREAD_SAME && passes_whole(c)) return NULL;
  weft_status_t *s = fall_back(c);
  if (s == NULL && c->in[1].whole >= 0 && knows) {
    c->out[0].whole = (int)axis + c->in[1].whole;
    c->out[0].factor = c->in[1].factor;
  }
  return s;
}

weft_status_t *weft_spread_gather_nd(weft_spread_ctx_t *c) {
  if (c->in[1].own != 0) { /* each of his own rows */
    bool fits = is_rows(c, 0) && c->in[0].s.axis == 0 && c->in[0].factor == 1 && c->in[1].rank == 2;
    if (fits) {
      give_rows(c, 0, 0, 0);
    } else {
      weft_spread_force_true(c, c->in[1].own - 1);
      c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
    }
    return NULL;
  }
  int rank = weft_spread_in_shape(c, 1)->rank;
  if (is_rows(c, 1) && rank > 0 && c->in[1].s.axis < rank - 1) {
    if (!c->in[0].is_state && c->in[0].s.kind != WEFT_SPREAD_SAME) c->wanted[0] = weft_spread_same(0);
    c->out[0] = weft_spread_value(weft_spread_rows(c->in[1].s.axis, c->in[0].is_state ? 0 : c->wanted[0].degree));
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (c->in[0].is_state) {
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    return NULL;
  }
  return fall_back(c);
}

/* indices, updates, shape: added up where they meet. */
weft_status_t *weft_spread_scatter_nd(weft_spread_ctx_t *c) {
  if (c->in[0].own != 0) {
    bool mine = is_rows(c, 1) && c->in[1].s.axis == 0 && counting(c->in[2].ints) == 0 && factor_of(c->in[2].ints, 0) == 1 &&
                c->in[0].rank == 2;
    if (mine) {
      give_rows(c, 1, 0, 0);
    } else {
      weft_spread_force_true(c, c->in[0].own - 1);
      c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
    }
    return NULL;
  }
  bool fits = is_rows(c, 0) && is_rows(c, 1) && c->in[0].s.axis == 0 && c->in[1].s.axis == 0 &&
              c->in[2].s.kind == WEFT_SPREAD_SAME;
  if (!fits) return fall_back(c);
  c->out[0] = weft_spread_value(weft_spread_part(c->in[1].s.degree));
  return NULL;
}

weft_status_t *weft_spread_one_hot(weft_spread_ctx_t *c) { /* indices, depth, on, off */
  int axis = (int)weft_node_attr_int(c->node, "axis", -1);
  int whole = batch_axis(c, 0), to = axis >= 0 && axis <= whole ? whole + 1 : whole;
  if (!is_rows(c, 0) || !want_numbers(c, 1, 4)) return keep_whole(c, to);
  for (int i = 1; i < 4; i++) c->wanted[i].degree = 0;
  give_rows(c, 0, 0, to);
  return NULL;
}

weft_status_t *weft_spread_select(weft_spread_ctx_t *c) {
  int rank = weft_spread_in_shape(c, 0)->rank, data_rank = weft_spread_in_shape(c, 1)->rank;
  /* The condition of old may be a vector that chooses whole rows: then rows of axis 0 meet rows of axis 0. */
  if (rank == 1 && data_rank > 1 && c->in[0].s.kind == WEFT_SPREAD_SAME && c->in[0].whole == 0 && is_rows(c, 1)) {
    c->wanted[0] = weft_spread_rows(0, 0);
  }
  if (rank == 1 && data_rank > 1 && c->wanted[0].kind == WEFT_SPREAD_ROWS) {
    bool fits = is_rows(c, 1) && is_rows(c, 2) && c->in[1].s.axis == 0 && c->in[2].s.axis == 0;
    if (!fits) return fall_back(c);
    int d = c->in[1].s.degree;
    if (c->in[1].zero) d = c->in[2].s.degree;
    for (int i = 1; i < 3; i++) {
      if (!c->in[i].zero) c->wanted[i].degree = d;
    }
    c->out[0] = weft_spread_value(weft_spread_rows(0, d));
    c->out[0].factor = c->in[1].factor;
    c->out[0].zero = c->in[1].zero && c->in[2].zero;
    return NULL;
  }
  if (rank == 1 && data_rank > 1 && !is_plain(c)) return fall_back(c);
  return weft_spread_apply_form(c, WEFT_FORM_CHOICE);
}

/* ---- turning round ---- */

weft_status_t *weft_spread_reverse(weft_spread_ctx_t *c) { /* detail: the input with the axes */
  int rank = weft_spread_in_shape(c, 0)->rank, axis = batch_axis(c, 0);
  uint32_t in, maybe;
  if (passes_whole(c)) return NULL;
  bool fits = axis >= 0 && rank >= 0 && weft_spread_axes(c->in[c->detail].ints, rank, &in, &maybe) && (maybe >> axis & 1) == 0;
  if (!is_rows(c, 0) || !fits || !want_numbers(c, 1, c->node->num_inputs)) return keep_whole(c, fits ? axis : -1);
  give_rows(c, 0, 0, axis);
  return NULL;
}

weft_status_t *weft_spread_reverse_sequence(weft_spread_ctx_t *c) {
  int batch = (int)weft_node_attr_int(c->node, "batch_dim", 0);
  bool fits = is_rows(c, 0) && is_rows(c, 1) && c->in[0].s.axis == batch && c->in[1].s.axis == 0;
  if (!fits) return fall_back(c);
  give_rows(c, 0, 0, batch);
  return NULL;
}
