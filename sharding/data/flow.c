/* sharding/data/flow.c - control flow after lowering: values that take one of several ways, and meet. */
#include "sharding/data/flow.h"

#include "sharding/data/whole.h"

typedef weft_data_value_t value_t;

weft_status_t *weft_data_pass_all(weft_data_ctx_t *c) {
  for (int o = 0; o < c->node->num_outputs && o < c->node->num_inputs; o++) weft_data_pass(c, o, o);
  return NULL;
}

weft_status_t *weft_data_metadata(weft_data_ctx_t *c) { /* of what has no known rank */
  const weft_node_t *n = c->node;
  if (c->in[0].s.kind == WEFT_SHARDING_SINGLE) return weft_data_single(c);
  if (weft_str_is(n->op->name, "Rank")) return NULL;
  if (c->in[0].s.kind == WEFT_SHARDING_LOCAL) return weft_data_own(c);
  return weft_data_replicate_all(c);
}

/* Both branches are taken alike by all replicas. */
weft_status_t *weft_data_switch(weft_data_ctx_t *c) {
  const value_t *data = &c->in[0], *pred = &c->in[1];
  bool is_once = pred->s.kind == WEFT_SHARDING_SINGLE &&
                 (data->s.kind == WEFT_SHARDING_SINGLE || data->s.kind == WEFT_SHARDING_REPLICATE);
  if (is_once) {
    weft_status_t *s = weft_data_single(c);
    for (int o = 0; s == NULL && o < c->node->num_outputs; o++) c->out[o].whole = data->whole;
    return s;
  }
  if (pred->s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
  for (int o = 0; o < c->node->num_outputs; o++) weft_data_pass(c, 0, o);
  return NULL;
}

/* A thing of each replica's own of which nothing else is known: the flow of a TensorArray, local statistics.
 */
static bool is_plain_own(const value_t *v) {
  return v->s.kind == WEFT_SHARDING_LOCAL && v->cell == 0 && v->element == NULL;
}

/* The true value that all have: the zero with which the sum of a TensorArray's flows begins. */
static bool is_true_same(const value_t *v) {
  return v->s.kind == WEFT_SHARDING_REPLICATE && (v->s.degree == 0 || v->zero);
}

/* Handles, and lists with what is known of their elements: `v` is a's so far. */
static value_t meet_each(weft_data_ctx_t *c, const value_t *a, const value_t *b, value_t v, bool *fits) {
  *fits = *fits && a->s.kind == b->s.kind && (a->cell == b->cell || a->cell == 0 || b->cell == 0);
  if (v.cell == 0) v.cell = b->cell;
  if (a->element == NULL || b->element == NULL) {
    v.element = a->element != NULL ? a->element : b->element;
  } else if (!weft_data_value_eq(a->element, b->element)) {
    value_t e = weft_data_join(c, a->element, b->element, fits);
    const value_t *both[2] = {a->element, b->element};
    for (int i = 0; i < 2; i++) { /* elements of a list cannot be changed any more */
      *fits = *fits && (both[i]->zero || weft_axis_sharding_eq(&both[i]->s, &e.s));
    }
    value_t *copy = weft_data_alloc(c, sizeof *copy);
    if (copy != NULL) *copy = e;
    v.element = copy != NULL ? copy : a->element;
  }
  return v;
}

/* Two shardings that differ, neither of them LOCAL. `v` is all the rest. */
static value_t join_shardings(const value_t *a, const value_t *b, value_t v, bool *fits) {
  weft_sharding_kind_t ka = a->s.kind, kb = b->s.kind;
  if (a->zero && ka == WEFT_SHARDING_REPLICATE && kb != WEFT_SHARDING_COUNTS) {
    value_t w = *b;
    w.zero = v.zero;
    return w;
  }
  if (b->zero && kb == WEFT_SHARDING_REPLICATE && ka != WEFT_SHARDING_COUNTS) return v;
  if (ka == kb && a->s.degree != b->s.degree && (ka != WEFT_SHARDING_SHARD || a->s.dim == b->s.dim)) {
    if (a->zero) v.s.degree = b->s.degree;
    return v; /* the other is scaled, unless it is zeros */
  }
  if ((ka == WEFT_SHARDING_REPLICATE && kb == WEFT_SHARDING_PARTIAL) ||
      (ka == WEFT_SHARDING_PARTIAL && kb == WEFT_SHARDING_REPLICATE)) {
    v.s = ka == WEFT_SHARDING_PARTIAL ? a->s : b->s;
    return v;
  }
  if ((ka == WEFT_SHARDING_REPLICATE && kb == WEFT_SHARDING_SINGLE) ||
      (ka == WEFT_SHARDING_SINGLE && kb == WEFT_SHARDING_REPLICATE)) {
    v.s = weft_sharding_of_kind(WEFT_SHARDING_SINGLE);
    return v;
  }
  if (ka == WEFT_SHARDING_SHARD && kb == WEFT_SHARDING_REPLICATE && b->whole == a->s.dim) return v;
  if (kb == WEFT_SHARDING_SHARD && ka == WEFT_SHARDING_REPLICATE && a->whole == b->s.dim) {
    v.s = b->s;
    v.whole = -1;
    return v;
  }
  *fits = *fits && ka != WEFT_SHARDING_SINGLE && kb != WEFT_SHARDING_SINGLE;
  /* whatever it is, all can have the true one */
  return ka != WEFT_SHARDING_SINGLE && kb != WEFT_SHARDING_SINGLE
             ? weft_data_value(weft_sharding_replicate(0))
             : v;
}

value_t weft_data_join(weft_data_ctx_t *c, const value_t *a, const value_t *b, bool *fits) {
  if (a->s.kind == WEFT_SHARDING_NONE) return *b;
  if (b->s.kind == WEFT_SHARDING_NONE) return *a;
  value_t v = *a;
  v.zero = a->zero && b->zero;
  v.ints = weft_data_ints_join(c, a->ints, b->ints);
  v.is_state = a->is_state && b->is_state;
  v.takes_whole = a->takes_whole || b->takes_whole;
  if (a->whole != b->whole) v.whole = -1;
  if (a->factor != b->factor) v.factor = 0;
  if (a->rank != b->rank) v.rank = -1;
  if (a->dims != NULL && (b->dims == NULL || !weft_data_ints_eq(a->dims, b->dims))) v.dims = NULL;
  if ((is_plain_own(a) && is_true_same(b)) || (is_true_same(a) && is_plain_own(b))) {
    return weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  }
  if (a->s.kind == WEFT_SHARDING_LOCAL || b->s.kind == WEFT_SHARDING_LOCAL)
    return meet_each(c, a, b, v, fits);
  if (weft_axis_sharding_eq(&a->s, &b->s) && (a->s.kind != WEFT_SHARDING_COUNTS || v.ints != NULL)) return v;
  return join_shardings(a, b, v, fits);
}

weft_axis_sharding_t weft_data_as(const value_t *v, const weft_axis_sharding_t *to) {
  bool is_alike = v->s.kind == to->kind && (to->kind != WEFT_SHARDING_SHARD || v->s.dim == to->dim);
  bool is_free = v->zero && (is_alike || to->kind == WEFT_SHARDING_PARTIAL); /* zeros have every degree */
  if (v->s.kind == WEFT_SHARDING_LOCAL || to->kind == WEFT_SHARDING_LOCAL || is_free ||
      weft_axis_sharding_eq(&v->s, to))
    return v->s;
  if (v->zero && to->kind == WEFT_SHARDING_SHARD) return weft_sharding_shard(to->dim, 0);
  if (to->kind == WEFT_SHARDING_PARTIAL && v->s.kind == WEFT_SHARDING_REPLICATE)
    return weft_sharding_replicate(to->degree - 1);
  return *to;
}

/* Branches put different things into one optional or list: then whole ones, which are of one kind. */
static bool ask_for_whole_elements(weft_data_ctx_t *c) {
  weft_data_analysis_t *a = c->analysis;
  if (c->node->input_types[0] != WEFT_VARIANT) return false;
  for (int i = 0; i < a->num_order; i++) a->order[i]->mark = 0;
  bool before = a->later;
  a->later = false;
  for (int i = 0; i < c->node->num_inputs; i++) weft_data_make_whole_list(a, c->node->inputs[i]);
  bool is_new = a->later;
  a->later = before || is_new;
  return is_new;
}

weft_status_t *weft_data_merge(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  value_t v = c->out[0];
  bool fits = true;
  for (int i = 0; i < n->num_inputs; i++) v = weft_data_join(c, &v, &c->in[i], &fits);
  if (!fits && ask_for_whole_elements(c)) return NULL;
  if (!fits) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    for (int i = 0; i < n->num_inputs; i++) {
      weft_strbuf_printf(&text, "%s'%.*s': ", i == 0 ? "" : ", ", WEFT_STR_ARGS(n->inputs[i].node->name));
      weft_axis_sharding_print(&c->in[i].s, &text);
    }
    weft_status_t *s = weft_data_refuse(
        n,
        "its inputs come from different branches and have different shardings (%s); give both the same, with "
        "tf.identity of the whole value in one of them",
        text.data == NULL ? "" : text.data);
    weft_strbuf_deinit(&text);
    return s;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_NONE) c->required[i] = weft_data_as(&c->in[i], &v.s);
  }
  c->out[0] = v;
  c->out[1] = weft_data_value(v.s.kind == WEFT_SHARDING_SINGLE ? v.s : weft_sharding_replicate(0));
  if (v.s.kind == WEFT_SHARDING_NONE) c->out[1].s.kind = WEFT_SHARDING_NONE;
  if (v.s.kind == WEFT_SHARDING_SINGLE) c->run = WEFT_RUN_SINGLE;
  return NULL;
}
