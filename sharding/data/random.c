/* sharding/data/random.c - random numbers: every replica gets those of one device.
 *
 *   numbers for rows             each replica draws its rows of the sequence that one device would draw, and
 *                                moves its stream on as if it had drawn all (WeftRandomRows): no
 *                                communication
 *   numbers that all share       drawn once and sent; inside a loop, where replicas do not talk, each
 *                                replica draws them from a stream of its own with the same seeds
 *   shuffles, and ops of which   once, on gathered inputs; consumers take rows of the result
 *   no part can be drawn alone
 *
 * Without any seed there is no sequence to keep: replicas draw rows of streams of their own.
 */
#include "sharding/data/analysis.h"

bool weft_draws_from_stream(const weft_node_t *n) {
  return (n->op->flags & WEFT_OP_STATEFUL) != 0 && weft_op_attr(n->op, WEFT_STR("seed2")) != NULL;
}

bool weft_has_seed(const weft_node_t *n) {
  return weft_node_attr_int(n, "seed", 0) != 0 || weft_node_attr_int(n, "seed2", 0) != 0;
}

typedef weft_data_value_t value_t;
typedef weft_data_ints_t ints_t;

static bool is_stateful(const weft_data_ctx_t *c) { return (c->node->op->flags & WEFT_OP_STATEFUL) != 0; }

static bool has_each(const weft_data_ctx_t *c) {
  bool any = false;
  for (int i = 0; i < c->node->num_inputs; i++) any = any || c->in[i].s.kind == WEFT_SHARDING_LOCAL;
  return any;
}

/* All numbers of the batch, on every replica or on one; the rows lie along `axis` (-1: there are none). */
static weft_status_t *draw_whole(weft_data_ctx_t *c, int axis, int64_t factor) {
  weft_status_t *s = NULL;
  if (!is_stateful(c)) {
    s = weft_data_replicate_all(c);
  } else if (weft_data_in_loop(c)) {
    c->draw.kind = WEFT_DRAW_REPLICATED;
    s = weft_data_replicate_all(c);
  } else {
    s = weft_data_single(c);
  }
  if (s != NULL) return s;
  c->out[0].whole = axis;
  c->out[0].factor = factor;
  return NULL;
}

/* A part of the numbers on every replica. With `is_whole` input 0 says the shape for the whole batch. */
static void draw_rows(weft_data_ctx_t *c, int axis, int64_t factor, bool is_whole) {
  for (int i = 1; i < c->node->num_inputs; i++) { /* bounds, seeds, how many */
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE || c->in[i].s.degree != 0)
      c->required[i] = weft_sharding_replicate(0);
  }
  c->draw = (weft_data_draw_t){.kind = WEFT_DRAW_SHARD, .dim = axis, .factor = is_whole ? 0 : factor};
  c->out[0] = weft_data_value(weft_sharding_shard(axis, 0));
  c->out[0].factor = factor;
}

static int first_axis_of_rows(const ints_t *shape, int *num) {
  int axis = -1;
  *num = 0;
  for (int i = 0; i < shape->n; i++) {
    if (shape->items[i].of == WEFT_COUNT_PLAIN) continue;
    if (axis < 0) axis = i;
    ++*num;
  }
  return axis;
}

static weft_status_t *draw_shape(weft_data_ctx_t *c, const ints_t *shape) {
  int num_axes = 0, axis = first_axis_of_rows(shape, &num_axes);
  if (axis < 0) return draw_whole(c, -1, 0);
  weft_sharding_kind_t kind = c->in[0].s.kind;
  const weft_data_int_t *item = &shape->items[axis];
  int64_t factor = item->known && item->value > 0 ? item->value : 0;
  bool has_rows = c->node->op->batch == WEFT_BATCH_RANDOM_ROWS && num_axes == 1 && !has_each(c) &&
                  (kind == WEFT_SHARDING_COUNTS || kind == WEFT_SHARDING_REPLICATE);
  if (!has_rows || (item->known && item->value <= 0)) return draw_whole(c, axis, factor);
  if (factor == 0 && kind == WEFT_SHARDING_COUNTS) c->required[0] = weft_sharding_replicate(0);
  draw_rows(c, axis, factor, factor == 0);
  return NULL;
}

weft_status_t *weft_data_random(weft_data_ctx_t *c) {
  const ints_t *shape = c->in[0].ints;
  bool is_known =
      shape != NULL && !shape->is_scalar && !shape->is_set && shape->columns == 0 && shape->pick == 0;
  if (!is_known) return draw_whole(c, -1, 0);
  weft_status_t *s = draw_shape(c, shape);
  c->out[0].rank = shape->n; /* inside loops the graph may not know */
  c->out[0].dims = shape;
  return s;
}

/* Multinomial: draws for each row. */
weft_status_t *weft_data_random_choice(weft_data_ctx_t *c) {
  const value_t *x = &c->in[0];
  bool is_rows = x->s.kind == WEFT_SHARDING_SHARD && x->s.dim == 0;
  if (!is_rows || x->factor <= 0 || has_each(c)) {
    return draw_whole(c, is_rows || x->whole == 0 ? 0 : -1, x->factor);
  }
  c->required[0].degree = 0;
  draw_rows(c, 0, x->factor, false);
  return NULL;
}

weft_status_t *weft_data_shuffle(weft_data_ctx_t *c) {
  const value_t *x = &c->in[0];
  return draw_whole(c, x->s.kind == WEFT_SHARDING_SHARD ? x->s.dim : x->whole, x->factor);
}

/* ---- what people are told ---- */

weft_status_t *weft_data_note_draws(weft_data_analysis_t *a) {
  int exact = 0, unseeded = 0;
  const weft_node_t *first = NULL;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    if (a->plan->draws[n->id].kind != WEFT_DRAW_SHARD) continue;
    if (!weft_draws_from_stream(n) || weft_has_seed(n)) {
      exact++;
      continue;
    }
    if (unseeded++ == 0) first = n;
  }
  if (exact > 0) {
    WEFT_RETURN_IF_ERROR(weft_data_note(
        a, "random numbers for rows (%d op%s): each replica draws its rows of the sequence of one device",
        exact, exact == 1 ? "" : "s"));
  }
  if (unseeded == 0) return NULL;
  return weft_data_note(a,
                        "random numbers without a seed for rows (%d op%s, '%.*s' first): each replica "
                        "draws a sequence of its own",
                        unseeded, unseeded == 1 ? "" : "s", WEFT_STR_ARGS(first->name));
}
