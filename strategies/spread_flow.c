/* strategies/spread_flow.c - control flow after lowering: values that take one of several ways, and meet. */
#include "strategies/spread_flow.h"

#include "strategies/spread_whole.h"

typedef weft_spread_value_t value_t;

weft_status_t *weft_spread_pass_all(weft_spread_ctx_t *c) {
  for (int o = 0; o < c->node->num_outputs && o < c->node->num_inputs; o++) weft_spread_pass(c, o, o);
  return NULL;
}

weft_status_t *weft_spread_metadata(weft_spread_ctx_t *c) { /* of what has no known rank */
  const weft_node_t *n = c->node;
  if (c->in[0].s.kind == WEFT_SPREAD_ONCE) return weft_spread_once(c);
  if (weft_str_is(n->op->name, "Rank")) return NULL;
  if (c->in[0].s.kind == WEFT_SPREAD_EACH) return weft_spread_own(c);
  return weft_spread_everywhere(c);
}

/* Both branches are taken alike by all replicas. */
weft_status_t *weft_spread_switch(weft_spread_ctx_t *c) {
  const value_t *data = &c->in[0], *pred = &c->in[1];
  bool is_once = pred->s.kind == WEFT_SPREAD_ONCE &&
                 (data->s.kind == WEFT_SPREAD_ONCE || data->s.kind == WEFT_SPREAD_SAME);
  if (is_once) {
    weft_status_t *s = weft_spread_once(c);
    for (int o = 0; s == NULL && o < c->node->num_outputs; o++) c->out[o].whole = data->whole;
    return s;
  }
  if (pred->s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
  for (int o = 0; o < c->node->num_outputs; o++) weft_spread_pass(c, 0, o);
  return NULL;
}

/* A thing of each replica's own of which nothing else is known: the flow of a TensorArray, local statistics.
 */
static bool is_plain_own(const value_t *v) {
  return v->s.kind == WEFT_SPREAD_EACH && v->cell == 0 && v->element == NULL;
}

/* The true value that all have: the zero with which the sum of a TensorArray's flows begins. */
static bool is_true_same(const value_t *v) {
  return v->s.kind == WEFT_SPREAD_SAME && (v->s.degree == 0 || v->zero);
}

/* Handles, and lists with what is known of their elements: `v` is a's so far. */
static value_t meet_each(weft_spread_ctx_t *c, const value_t *a, const value_t *b, value_t v, bool *fits) {
  *fits = *fits && a->s.kind == b->s.kind && (a->cell == b->cell || a->cell == 0 || b->cell == 0);
  if (v.cell == 0) v.cell = b->cell;
  if (a->element == NULL || b->element == NULL) {
    v.element = a->element != NULL ? a->element : b->element;
  } else if (!weft_spread_value_eq(a->element, b->element)) {
    value_t e = weft_spread_meet(c, a->element, b->element, fits);
    const value_t *both[2] = {a->element, b->element};
    for (int i = 0; i < 2; i++) { /* elements of a list cannot be changed any more */
      *fits = *fits && (both[i]->zero || weft_spread_eq(&both[i]->s, &e.s));
    }
    value_t *copy = weft_spread_alloc(c, sizeof *copy);
    if (copy != NULL) *copy = e;
    v.element = copy != NULL ? copy : a->element;
  }
  return v;
}

/* Two ways to be spread that differ, neither of them EACH. `v` is all the rest. */
static value_t meet_spreads(const value_t *a, const value_t *b, value_t v, bool *fits) {
  weft_spread_kind_t ka = a->s.kind, kb = b->s.kind;
  if (a->zero && ka == WEFT_SPREAD_SAME && kb != WEFT_SPREAD_SHAPE) {
    value_t w = *b;
    w.zero = v.zero;
    return w;
  }
  if (b->zero && kb == WEFT_SPREAD_SAME && ka != WEFT_SPREAD_SHAPE) return v;
  if (ka == kb && a->s.degree != b->s.degree && (ka != WEFT_SPREAD_ROWS || a->s.axis == b->s.axis)) {
    if (a->zero) v.s.degree = b->s.degree;
    return v; /* the other is scaled, unless it is zeros */
  }
  if ((ka == WEFT_SPREAD_SAME && kb == WEFT_SPREAD_PART) ||
      (ka == WEFT_SPREAD_PART && kb == WEFT_SPREAD_SAME)) {
    v.s = ka == WEFT_SPREAD_PART ? a->s : b->s;
    return v;
  }
  if ((ka == WEFT_SPREAD_SAME && kb == WEFT_SPREAD_ONCE) ||
      (ka == WEFT_SPREAD_ONCE && kb == WEFT_SPREAD_SAME)) {
    v.s = weft_spread_of(WEFT_SPREAD_ONCE);
    return v;
  }
  if (ka == WEFT_SPREAD_ROWS && kb == WEFT_SPREAD_SAME && b->whole == a->s.axis) return v;
  if (kb == WEFT_SPREAD_ROWS && ka == WEFT_SPREAD_SAME && a->whole == b->s.axis) {
    v.s = b->s;
    v.whole = -1;
    return v;
  }
  *fits = *fits && ka != WEFT_SPREAD_ONCE && kb != WEFT_SPREAD_ONCE;
  /* whatever it is, all can have the true one */
  return ka != WEFT_SPREAD_ONCE && kb != WEFT_SPREAD_ONCE ? weft_spread_value(weft_spread_same(0)) : v;
}

value_t weft_spread_meet(weft_spread_ctx_t *c, const value_t *a, const value_t *b, bool *fits) {
  if (a->s.kind == WEFT_SPREAD_NONE) return *b;
  if (b->s.kind == WEFT_SPREAD_NONE) return *a;
  value_t v = *a;
  v.zero = a->zero && b->zero;
  v.ints = weft_spread_ints_join(c, a->ints, b->ints);
  v.is_state = a->is_state && b->is_state;
  v.takes_whole = a->takes_whole || b->takes_whole;
  if (a->whole != b->whole) v.whole = -1;
  if (a->factor != b->factor) v.factor = 0;
  if (a->rank != b->rank) v.rank = -1;
  if (a->dims != NULL && (b->dims == NULL || !weft_spread_ints_eq(a->dims, b->dims))) v.dims = NULL;
  if ((is_plain_own(a) && is_true_same(b)) || (is_true_same(a) && is_plain_own(b))) {
    return weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
  }
  if (a->s.kind == WEFT_SPREAD_EACH || b->s.kind == WEFT_SPREAD_EACH) return meet_each(c, a, b, v, fits);
  if (weft_spread_eq(&a->s, &b->s) && (a->s.kind != WEFT_SPREAD_SHAPE || v.ints != NULL)) return v;
  return meet_spreads(a, b, v, fits);
}

weft_spread_t weft_spread_as(const value_t *v, const weft_spread_t *to) {
  bool is_alike = v->s.kind == to->kind && (to->kind != WEFT_SPREAD_ROWS || v->s.axis == to->axis);
  bool is_free = v->zero && (is_alike || to->kind == WEFT_SPREAD_PART); /* zeros have every degree */
  if (v->s.kind == WEFT_SPREAD_EACH || to->kind == WEFT_SPREAD_EACH || is_free || weft_spread_eq(&v->s, to))
    return v->s;
  if (v->zero && to->kind == WEFT_SPREAD_ROWS) return weft_spread_rows(to->axis, 0);
  if (to->kind == WEFT_SPREAD_PART && v->s.kind == WEFT_SPREAD_SAME) return weft_spread_same(to->degree - 1);
  return *to;
}

/* Branches put different things into one optional or list: then whole ones, which are of one kind. */
static bool ask_for_whole_elements(weft_spread_ctx_t *c) {
  weft_spread_analysis_t *a = c->analysis;
  if (c->node->input_types[0] != WEFT_VARIANT) return false;
  for (int i = 0; i < a->num_order; i++) a->order[i]->mark = 0;
  bool before = a->later;
  a->later = false;
  for (int i = 0; i < c->node->num_inputs; i++) weft_spread_make_whole_list(a, c->node->inputs[i]);
  bool is_new = a->later;
  a->later = before || is_new;
  return is_new;
}

weft_status_t *weft_spread_merge(weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  value_t v = c->out[0];
  bool fits = true;
  for (int i = 0; i < n->num_inputs; i++) v = weft_spread_meet(c, &v, &c->in[i], &fits);
  if (!fits && ask_for_whole_elements(c)) return NULL;
  if (!fits) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    for (int i = 0; i < n->num_inputs; i++) {
      weft_strbuf_printf(&text, "%s'%.*s': ", i == 0 ? "" : ", ", WEFT_STR_ARGS(n->inputs[i].node->name));
      weft_spread_print(&c->in[i].s, &text);
    }
    weft_status_t *s = weft_spread_refuse(n,
                                          "its inputs come from different branches, and replicas do not have "
                                          "the same of them (%s); make both of one kind, with "
                                          "tf.identity of the whole value in one of them",
                                          text.data == NULL ? "" : text.data);
    weft_strbuf_deinit(&text);
    return s;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_NONE) c->wanted[i] = weft_spread_as(&c->in[i], &v.s);
  }
  c->out[0] = v;
  c->out[1] = weft_spread_value(v.s.kind == WEFT_SPREAD_ONCE ? v.s : weft_spread_same(0));
  if (v.s.kind == WEFT_SPREAD_NONE) c->out[1].s.kind = WEFT_SPREAD_NONE;
  if (v.s.kind == WEFT_SPREAD_ONCE) c->run = WEFT_RUN_ONCE;
  return NULL;
}
