/* strategies/spread_value.c - spreads as values: equality, text, what communication makes of them. */
#include "strategies/spread_rules.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

bool weft_spread_eq(const weft_spread_t *a, const weft_spread_t *b) {
  return a->kind == b->kind && a->degree == b->degree && a->rows == b->rows && a->count == b->count &&
         (a->kind != WEFT_SPREAD_ROWS || a->axis == b->axis);
}

void weft_spread_print(const weft_spread_t *s, weft_strbuf_t *out) {
  switch (s->kind) {
    case WEFT_SPREAD_NONE: weft_strbuf_puts(out, "never computed"); return;
    case WEFT_SPREAD_SAME: weft_strbuf_puts(out, "the same on every replica"); break;
    case WEFT_SPREAD_ROWS:
      weft_strbuf_printf(out, "each replica's rows of the batch, along dimension %d", s->axis);
      break;
    case WEFT_SPREAD_PART:
      weft_strbuf_puts(out, "a sum over the batch of which each replica has its part");
      break;
    case WEFT_SPREAD_ONCE: weft_strbuf_puts(out, "computed on the first replica alone"); return;
    case WEFT_SPREAD_SHAPE: weft_strbuf_puts(out, "a shape that counts each replica's rows"); return;
    case WEFT_SPREAD_EACH: weft_strbuf_puts(out, "a list, a state or a count of each replica's own"); return;
  }
  if (s->degree != 0) weft_strbuf_printf(out, " (degree %d)", s->degree);
}

weft_spread_value_t weft_spread_value(weft_spread_t s) {
  return (weft_spread_value_t){.s = s, .whole = -1, .rank = -1};
}

bool weft_spread_value_eq(const weft_spread_value_t *a, const weft_spread_value_t *b) {
  if (a == b) return true;
  if (!weft_spread_eq(&a->s, &b->s) || a->whole != b->whole || a->factor != b->factor || a->rank != b->rank ||
      a->zero != b->zero || a->is_batch != b->is_batch || a->is_state != b->is_state || a->own != b->own ||
      a->lacking != b->lacking || a->pick != b->pick || a->is_hollow != b->is_hollow || a->cell != b->cell ||
      a->takes_whole != b->takes_whole) {
    return false;
  }
  if ((a->element == NULL) != (b->element == NULL) || (a->ints == NULL) != (b->ints == NULL)) return false;
  if (a->element != NULL && !weft_spread_value_eq(a->element, b->element)) return false;
  if ((a->dims == NULL) != (b->dims == NULL)) return false;
  if (a->dims != NULL && !weft_spread_ints_eq(a->dims, b->dims)) return false;
  return a->ints == NULL || weft_spread_ints_eq(a->ints, b->ints);
}

int weft_spread_list_dims(uint32_t bits, int64_t *dims) {
  int n = 0;
  for (int d = 0; d < WEFT_SPREAD_DIMS; d++) {
    if ((bits >> d & 1) != 0) dims[n++] = d;
  }
  return n;
}

/* Counts of one's own rows become counts of all rows. */
static const weft_spread_ints_t *true_ints(const weft_spread_ctx_t *c, const weft_spread_ints_t *ints) {
  if (ints == NULL || ints->is_set) return ints;
  size_t bytes = sizeof *ints + (size_t)ints->n * sizeof ints->items[0];
  weft_spread_ints_t *copy = weft_spread_alloc(c, bytes);
  if (copy == NULL) return NULL; /* less is known then */
  memcpy(copy, ints, bytes);
  for (int i = 0; i < copy->n; i++) {
    if (copy->items[i].of == WEFT_COUNT_ROWS) copy->items[i].of = WEFT_COUNT_ALL;
  }
  return copy;
}

weft_spread_value_t weft_spread_true_value(weft_spread_ctx_t *c, const weft_spread_value_t *v,
                                           weft_spread_kind_t kind) {
  weft_spread_value_t t = *v;
  if (v->s.kind == WEFT_SPREAD_ROWS) t.whole = v->pick == 0 ? v->s.axis : -1;
  t.pick = 0;
  t.is_hollow = false;
  t.lacking = 0;
  if (v->s.kind == WEFT_SPREAD_SHAPE) t.ints = true_ints(c, v->ints);
  t.s = weft_spread_of(kind);
  t.is_batch = false;
  return t;
}

weft_status_t *weft_spread_refuse(const weft_node_t *n, const char *why, ...) {
  char reason[512];
  va_list args;
  va_start(args, why);
  (void)vsnprintf(reason, sizeof reason, why, args);
  va_end(args);
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' (%.*s) cannot be shared out over replicas: %s",
                                WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), reason);
  return s;
}

const weft_shape_t *weft_spread_in_shape(const weft_spread_ctx_t *c, int input) {
#define OF_RANK(n)                                        \
  {                                                       \
    .rank = n, .dims = { -1, -1, -1, -1, -1, -1, -1, -1 } \
  }
  static const weft_shape_t ranks[] = {OF_RANK(0), OF_RANK(1), OF_RANK(2), OF_RANK(3), OF_RANK(4),
                                       OF_RANK(5), OF_RANK(6), OF_RANK(7), OF_RANK(8)};
#undef OF_RANK
  weft_output_t from = c->node->inputs[input];
  const weft_shape_t *shape = weft_spread_shape_of(c->analysis, from.node, from.index);
  const weft_spread_ints_t *dims = c->in[input].dims;
  if (shape->rank < 0 && dims != NULL && dims->n <= WEFT_MAX_DIMS) {
    weft_shape_t *known = weft_spread_alloc(c, sizeof *known);
    if (known != NULL) known->rank = dims->n;
    for (int i = 0; known != NULL && i < dims->n; i++) {
      if (!weft_spread_int_at(dims, i, &known->dims[i])) known->dims[i] = WEFT_UNKNOWN_DIM;
    }
    if (known != NULL) return known;
  }
  int rank = c->in[input].rank;
  bool is_better = shape->rank < 0 && rank >= 0 && rank < (int)(sizeof ranks / sizeof ranks[0]);
  return is_better ? &ranks[rank] : shape;
}

const weft_shape_t *weft_spread_out_shape(const weft_spread_ctx_t *c, int output) {
  return weft_spread_shape_of(c->analysis, c->node, output);
}

bool weft_spread_has_fraction(int dtype) {
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

bool weft_spread_want_true(weft_spread_ctx_t *c) {
  bool is_once = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_EACH) return false;
    is_once |= c->in[i].s.kind == WEFT_SPREAD_ONCE;
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    c->wanted[i] = weft_spread_of(is_once ? WEFT_SPREAD_ONCE : WEFT_SPREAD_SAME);
  }
  if (is_once) c->run = WEFT_RUN_ONCE;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_spread_value(weft_spread_of(is_once ? WEFT_SPREAD_ONCE : WEFT_SPREAD_SAME));
  }
  return true;
}

static weft_status_t *refuse_own_things(const weft_spread_ctx_t *c) {
  return weft_spread_refuse(c->node,
                            "one of its inputs is a list, a state or a count of each replica's own, and the "
                            "op's effect on such a value is not known");
}

weft_status_t *weft_spread_everywhere(weft_spread_ctx_t *c) {
  return weft_spread_want_true(c) ? NULL : refuse_own_things(c);
}

weft_status_t *weft_spread_once(weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  bool is_same = (n->flags & WEFT_OP_STATEFUL) == 0 && (n->op->flags & WEFT_OP_STATEFUL) == 0;
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_EACH) return refuse_own_things(c);
    is_same = is_same && c->in[i].s.kind == WEFT_SPREAD_SAME;
  }
  weft_spread_kind_t kind = is_same ? WEFT_SPREAD_SAME : WEFT_SPREAD_ONCE;
  for (int i = 0; i < n->num_inputs; i++) c->wanted[i] = weft_spread_of(kind);
  for (int o = 0; o < n->num_outputs; o++) c->out[o] = weft_spread_value(weft_spread_of(kind));
  c->run = is_same ? WEFT_RUN_EACH : WEFT_RUN_ONCE;
  return NULL;
}

void weft_spread_pass(weft_spread_ctx_t *c, int i, int o) {
  c->out[o] = c->in[i];
  if (c->in[i].s.kind == WEFT_SPREAD_ONCE) c->run = WEFT_RUN_ONCE;
}
