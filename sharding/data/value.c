/* sharding/data/value.c - values as the analysis knows them: equality, what communication makes of them. */
#include "sharding/data/rules.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

bool weft_data_value_eq(const weft_data_value_t *a, const weft_data_value_t *b) {
  if (a == b) return true;
  if (!weft_axis_sharding_eq(&a->s, &b->s) || a->whole != b->whole || a->factor != b->factor ||
      a->rank != b->rank || a->zero != b->zero || a->is_batch != b->is_batch || a->is_state != b->is_state ||
      a->own != b->own || a->lacking != b->lacking || a->pick != b->pick || a->is_hollow != b->is_hollow ||
      a->cell != b->cell || a->takes_whole != b->takes_whole) {
    return false;
  }
  if ((a->element == NULL) != (b->element == NULL) || (a->ints == NULL) != (b->ints == NULL)) return false;
  if (a->element != NULL && !weft_data_value_eq(a->element, b->element)) return false;
  if ((a->dims == NULL) != (b->dims == NULL)) return false;
  if (a->dims != NULL && !weft_data_ints_eq(a->dims, b->dims)) return false;
  return a->ints == NULL || weft_data_ints_eq(a->ints, b->ints);
}

int weft_data_list_dims(uint32_t bits, int64_t *dims) {
  int n = 0;
  for (int d = 0; d < WEFT_DATA_DIMS; d++) {
    if ((bits >> d & 1) != 0) dims[n++] = d;
  }
  return n;
}

/* Counts of one's own rows become counts of all rows. */
static const weft_data_ints_t *true_ints(const weft_data_ctx_t *c, const weft_data_ints_t *ints) {
  if (ints == NULL || ints->is_set) return ints;
  size_t bytes = sizeof *ints + (size_t)ints->n * sizeof ints->items[0];
  weft_data_ints_t *copy = weft_data_alloc(c, bytes);
  if (copy == NULL) return NULL; /* less is known then */
  memcpy(copy, ints, bytes);
  for (int i = 0; i < copy->n; i++) {
    if (copy->items[i].of == WEFT_COUNT_ROWS) copy->items[i].of = WEFT_COUNT_ALL;
  }
  return copy;
}

weft_data_value_t weft_data_true_value(weft_data_ctx_t *c, const weft_data_value_t *v,
                                       weft_sharding_kind_t kind) {
  weft_data_value_t t = *v;
  if (v->s.kind == WEFT_SHARDING_SHARD) t.whole = v->pick == 0 ? v->s.dim : -1;
  t.pick = 0;
  t.is_hollow = false;
  t.lacking = 0;
  if (v->s.kind == WEFT_SHARDING_COUNTS) t.ints = true_ints(c, v->ints);
  t.s = weft_sharding_of_kind(kind);
  t.is_batch = false;
  return t;
}

weft_status_t *weft_data_refuse(const weft_node_t *n, const char *why, ...) {
  char reason[512];
  va_list args;
  va_start(args, why);
  (void)vsnprintf(reason, sizeof reason, why, args);
  va_end(args);
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' (%.*s) cannot be split over replicas: %s",
                                WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), reason);
  return s;
}

const weft_shape_t *weft_data_in_shape(const weft_data_ctx_t *c, int input) {
#define OF_RANK(n)                                        \
  {                                                       \
    .rank = n, .dims = { -1, -1, -1, -1, -1, -1, -1, -1 } \
  }
  static const weft_shape_t ranks[] = {OF_RANK(0), OF_RANK(1), OF_RANK(2), OF_RANK(3), OF_RANK(4),
                                       OF_RANK(5), OF_RANK(6), OF_RANK(7), OF_RANK(8)};
#undef OF_RANK
  weft_output_t from = c->node->inputs[input];
  const weft_shape_t *shape = weft_data_shape_of(c->analysis, from.node, from.index);
  const weft_data_ints_t *dims = c->in[input].dims;
  if (shape->rank < 0 && dims != NULL && dims->n <= WEFT_MAX_DIMS) {
    weft_shape_t *known = weft_data_alloc(c, sizeof *known);
    if (known != NULL) known->rank = dims->n;
    for (int i = 0; known != NULL && i < dims->n; i++) {
      if (!weft_data_int_at(dims, i, &known->dims[i])) known->dims[i] = WEFT_UNKNOWN_DIM;
    }
    if (known != NULL) return known;
  }
  int rank = c->in[input].rank;
  bool is_better = shape->rank < 0 && rank >= 0 && rank < (int)(sizeof ranks / sizeof ranks[0]);
  return is_better ? &ranks[rank] : shape;
}

const weft_shape_t *weft_data_out_shape(const weft_data_ctx_t *c, int output) {
  return weft_data_shape_of(c->analysis, c->node, output);
}

bool weft_data_has_fraction(int dtype) {
  switch (dtype % WEFT_REF) {
    case WEFT_F32:
    case WEFT_F64:
    case WEFT_F16:
    case WEFT_BF16:
    case WEFT_C64:
    case WEFT_C128: return true;
    default: return false;
  }
}

bool weft_data_require_true(weft_data_ctx_t *c) {
  bool is_once = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) return false;
    is_once |= c->in[i].s.kind == WEFT_SHARDING_SINGLE;
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    c->required[i] = weft_sharding_of_kind(is_once ? WEFT_SHARDING_SINGLE : WEFT_SHARDING_REPLICATE);
  }
  if (is_once) c->run = WEFT_RUN_SINGLE;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] =
        weft_data_value(weft_sharding_of_kind(is_once ? WEFT_SHARDING_SINGLE : WEFT_SHARDING_REPLICATE));
  }
  return true;
}

static weft_status_t *refuse_own_things(const weft_data_ctx_t *c) {
  return weft_data_refuse(c->node,
                          "one of its inputs is local to each replica (a list, a state or a count), and the "
                          "op's effect on such a value is unknown");
}

weft_status_t *weft_data_replicate_all(weft_data_ctx_t *c) {
  return weft_data_require_true(c) ? NULL : refuse_own_things(c);
}

weft_status_t *weft_data_single(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  bool is_same = (n->flags & WEFT_OP_STATEFUL) == 0 && (n->op->flags & WEFT_OP_STATEFUL) == 0;
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) return refuse_own_things(c);
    is_same = is_same && c->in[i].s.kind == WEFT_SHARDING_REPLICATE;
  }
  weft_sharding_kind_t kind = is_same ? WEFT_SHARDING_REPLICATE : WEFT_SHARDING_SINGLE;
  for (int i = 0; i < n->num_inputs; i++) c->required[i] = weft_sharding_of_kind(kind);
  for (int o = 0; o < n->num_outputs; o++) c->out[o] = weft_data_value(weft_sharding_of_kind(kind));
  c->run = is_same ? WEFT_RUN_REPLICAS : WEFT_RUN_SINGLE;
  return NULL;
}

void weft_data_pass(weft_data_ctx_t *c, int i, int o) {
  c->out[o] = c->in[i];
  if (c->in[i].s.kind == WEFT_SHARDING_SINGLE) c->run = WEFT_RUN_SINGLE;
}

weft_status_t *weft_data_own(
    weft_data_ctx_t *c) { /* the shape of a list's elements, of which little is known */
  for (int o = 0; o < c->node->num_outputs; o++)
    c->out[o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  return NULL;
}
