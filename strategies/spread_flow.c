/* strategies/spread_flow.c - control flow after lowering, TensorArrays, stacks and lists. */
#include "strategies/spread_rules.h"

typedef weft_spread_value_t value_t;

weft_status_t *weft_spread_pass_all(weft_spread_ctx_t *c) {
  for (int o = 0; o < c->node->num_outputs && o < c->node->num_inputs; o++) weft_spread_pass(c, o, o);
  return NULL;
}

weft_status_t *weft_spread_metadata(weft_spread_ctx_t *c) { /* of what has no known rank */
  const weft_node_t *n = c->node;
  if (c->in[0].s.kind == WEFT_SPREAD_ONCE) return weft_spread_once(c);
  if (weft_str_is(n->op->name, "Rank")) return NULL;
  return weft_spread_everywhere(c);
}

/* Both branches are taken alike by all replicas. */
weft_status_t *weft_spread_switch(weft_spread_ctx_t *c) {
  const value_t *data = &c->in[0], *pred = &c->in[1];
  bool is_once = pred->s.kind == WEFT_SPREAD_ONCE && (data->s.kind == WEFT_SPREAD_ONCE || data->s.kind == WEFT_SPREAD_SAME);
  if (is_once) {
    weft_status_t *s = weft_spread_once(c);
    for (int o = 0; s == NULL && o < c->node->num_outputs; o++) c->out[o].whole = data->whole;
    return s;
  }
  if (pred->s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
  for (int o = 0; o < c->node->num_outputs; o++) weft_spread_pass(c, 0, o);
  return NULL;
}

/* What Merge makes of `a` so far and one more input; *fits false if they do not go together. */
static value_t join(weft_spread_ctx_t *c, const value_t *a, const value_t *b, int input, bool *fits) {
  if (a->s.kind == WEFT_SPREAD_NONE) return *b;
  if (b->s.kind == WEFT_SPREAD_NONE) return *a;
  value_t v = *a;
  v.zero = a->zero && b->zero;
  v.ints = weft_spread_ints_join(c, a->ints, b->ints);
  v.is_state = a->is_state && b->is_state;
  if (a->whole != b->whole) v.whole = -1;
  if (a->factor != b->factor) v.factor = 0;
  if (a->rank != b->rank) v.rank = -1;
  if (a->dims != NULL && (b->dims == NULL || !weft_spread_ints_eq(a->dims, b->dims))) v.dims = NULL;
  weft_spread_kind_t ka = a->s.kind, kb = b->s.kind;
  if (ka == WEFT_SPREAD_EACH || kb == WEFT_SPREAD_EACH) {
    *fits = *fits && ka == kb && (a->cell == b->cell || a->cell == 0 || b->cell == 0);
    if (v.cell == 0) v.cell = b->cell;
    if (a->element == NULL || b->element == NULL) {
      v.element = a->element != NULL ? a->element : b->element;
    } else if (!weft_spread_value_eq(a->element, b->element)) {
      value_t e = join(c, a->element, b->element, -1, fits);
      value_t *copy = weft_spread_alloc(c, sizeof *copy);
      if (copy != NULL) *copy = e;
      v.element = copy != NULL ? copy : a->element;
    }
    return v;
  }
  if (weft_spread_eq(&a->s, &b->s) && (ka != WEFT_SPREAD_SHAPE || v.ints != NULL)) return v;
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
  if ((ka == WEFT_SPREAD_SAME && kb == WEFT_SPREAD_PART) || (ka == WEFT_SPREAD_PART && kb == WEFT_SPREAD_SAME)) {
    v.s = ka == WEFT_SPREAD_PART ? a->s : b->s;
    return v;
  }
  if ((ka == WEFT_SPREAD_SAME && kb == WEFT_SPREAD_ONCE) || (ka == WEFT_SPREAD_ONCE && kb == WEFT_SPREAD_SAME)) {
    v.s = weft_spread_of(WEFT_SPREAD_ONCE);
    return v;
  }
  if (ka == WEFT_SPREAD_ROWS && kb == WEFT_SPREAD_SAME && b->whole == a->s.axis) return v;
  if (kb == WEFT_SPREAD_ROWS && ka == WEFT_SPREAD_SAME && a->whole == b->s.axis) {
    v.s = b->s;
    v.whole = -1;
    return v;
  }
  if (ka != WEFT_SPREAD_EACH && kb != WEFT_SPREAD_EACH && ka != WEFT_SPREAD_ONCE && kb != WEFT_SPREAD_ONCE) {
    v = weft_spread_value(weft_spread_same(0)); /* whatever it is, all can have the true one */
    return v;
  }
  (void)input;
  *fits = false;
  return v;
}

/* How input `v` must be given so that it goes as `to`. */
static weft_spread_t as(const value_t *v, const weft_spread_t *to) {
  bool is_alike = v->s.kind == to->kind && (to->kind != WEFT_SPREAD_ROWS || v->s.axis == to->axis);
  bool is_free = v->zero && (is_alike || to->kind == WEFT_SPREAD_PART); /* zeros have every degree */
  if (v->s.kind == WEFT_SPREAD_EACH || is_free || weft_spread_eq(&v->s, to)) return v->s;
  if (v->zero && to->kind == WEFT_SPREAD_ROWS) return weft_spread_rows(to->axis, 0);
  if (to->kind == WEFT_SPREAD_PART && v->s.kind == WEFT_SPREAD_SAME) return weft_spread_same(to->degree - 1);
  return *to;
}

weft_status_t *weft_spread_merge(weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  value_t v = c->out[0];
  bool fits = true;
  for (int i = 0; i < n->num_inputs; i++) v = join(c, &v, &c->in[i], i, &fits);
  if (!fits) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    for (int i = 0; i < n->num_inputs; i++) {
      weft_strbuf_printf(&text, "%s'%.*s': ", i == 0 ? "" : ", ", WEFT_STR_ARGS(n->inputs[i].node->name));
      weft_spread_print(&c->in[i].s, &text);
    }
    weft_status_t *s = weft_spread_refuse(n, "the values that meet here are spread in ways that do not go together (%s)",
                                          text.data == NULL ? "" : text.data);
    weft_strbuf_deinit(&text);
    return s;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_NONE) c->wanted[i] = as(&c->in[i], &v.s);
  }
  c->out[0] = v;
  c->out[1] = weft_spread_value(v.s.kind == WEFT_SPREAD_ONCE ? v.s : weft_spread_same(0));
  if (v.s.kind == WEFT_SPREAD_NONE) c->out[1].s.kind = WEFT_SPREAD_NONE;
  if (v.s.kind == WEFT_SPREAD_ONCE) c->run = WEFT_RUN_ONCE;
  return NULL;
}

/* ---- TensorArrays and stacks: handles. What is in them is described in a cell that all who have the handle share ---- */

static value_t handle(int cell) {
  value_t v = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
  v.cell = cell;
  return v;
}
static value_t flow(void) { return weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH)); }

static weft_status_t *want_numbers(weft_spread_ctx_t *c, int first, int end) {
  for (int i = first; i < end; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) c->wanted[i] = weft_spread_same(0);
  }
  return NULL;
}

weft_status_t *weft_spread_new_array(weft_spread_ctx_t *c) {
  int cell;
  WEFT_RETURN_IF_ERROR(want_numbers(c, 0, c->node->num_inputs));
  WEFT_RETURN_IF_ERROR(weft_spread_cell_new(c, 0, WEFT_STR(""), &cell));
  c->out[0] = handle(cell);
  if (c->node->num_outputs > 1) c->out[1] = flow();
  return NULL;
}

weft_status_t *weft_spread_array_grad(weft_spread_ctx_t *c) {
  int cell;
  WEFT_RETURN_IF_ERROR(weft_spread_cell_new(c, c->in[0].cell, weft_node_attr_string(c->node, "source"), &cell));
  c->out[0] = handle(cell);
  c->out[1] = flow();
  return NULL;
}

/* An element, in the frame of one element: the axis of rows moves by `axes`. False if rows are not rows of an element. */
static bool element_of(const value_t *v, int axes, value_t *out) {
  *out = *v;
  out->ints = axes == 0 ? v->ints : NULL;
  out->dims = axes == 0 ? v->dims : NULL;
  if (v->rank >= 0) out->rank = v->rank + axes;
  if (v->s.kind == WEFT_SPREAD_ROWS) out->s.axis += axes;
  if (v->whole >= 0) out->whole = v->whole + axes < 0 ? -1 : v->whole + axes;
  if (v->s.kind == WEFT_SPREAD_SHAPE && axes != 0) return false;
  return v->s.kind != WEFT_SPREAD_ROWS || out->s.axis >= 0;
}

/* Puts input `value` (stacked elements if axes is -1) into the cell of input 0. */
static weft_status_t *put(weft_spread_ctx_t *c, int value, int axes) {
  value_t v = c->in[value], e;
  if (v.s.kind == WEFT_SPREAD_ONCE) {
    c->wanted[value] = weft_spread_same(0);
    v = weft_spread_true_value(c, &v, WEFT_SPREAD_SAME);
  }
  if (!element_of(&v, axes, &e)) {
    c->wanted[value] = weft_spread_same(0);
    v = weft_spread_value(weft_spread_same(0));
    (void)element_of(&v, axes, &e);
  }
  const value_t *before = weft_spread_cell_get(c, c->in[0].cell);
  if (before != NULL && before->s.kind != WEFT_SPREAD_NONE) {
    bool fits = true;
    value_t both = join(c, before, &e, value, &fits);
    if (!fits) return weft_spread_refuse(c->node, "what is put here is not spread as what was put before");
    weft_spread_t to = as(&e, &both.s);
    bool is_alike = weft_spread_eq(&to, &e.s);
    if (to.kind == WEFT_SPREAD_ROWS) to.axis -= axes;
    if (!is_alike) c->wanted[value] = to;
    e = both;
  }
  return weft_spread_cell_put(c, c->in[0].cell, &e);
}

static weft_status_t *get(weft_spread_ctx_t *c, int output, int axes) {
  const value_t *e = weft_spread_cell_get(c, c->in[0].cell);
  if (e == NULL || e->s.kind == WEFT_SPREAD_NONE) {
    c->out[output] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
    return NULL;
  }
  if (!element_of(e, axes, &c->out[output])) return weft_spread_refuse(c->node, "shapes are stacked here");
  return NULL;
}

weft_status_t *weft_spread_array_write(weft_spread_ctx_t *c) { /* handle, index, value, flow */
  WEFT_RETURN_IF_ERROR(want_numbers(c, 1, 2));
  c->out[0] = flow();
  return put(c, 2, 0);
}
weft_status_t *weft_spread_array_scatter(weft_spread_ctx_t *c) { /* handle, indices, value, flow */
  WEFT_RETURN_IF_ERROR(want_numbers(c, 1, 2));
  c->out[0] = flow();
  return put(c, 2, -1);
}
weft_status_t *weft_spread_array_read(weft_spread_ctx_t *c) { /* handle, index, flow */
  WEFT_RETURN_IF_ERROR(want_numbers(c, 1, 2));
  return get(c, 0, 0);
}
weft_status_t *weft_spread_array_gather(weft_spread_ctx_t *c) { /* handle, indices, flow */
  WEFT_RETURN_IF_ERROR(want_numbers(c, 1, 2));
  return get(c, 0, 1);
}
weft_status_t *weft_spread_array_size(weft_spread_ctx_t *c) {
  for (int o = 0; o < c->node->num_outputs; o++) c->out[o] = weft_spread_value(weft_spread_same(0));
  return NULL;
}

weft_status_t *weft_spread_new_stack(weft_spread_ctx_t *c) { return weft_spread_new_array(c); }
weft_status_t *weft_spread_push(weft_spread_ctx_t *c) { /* handle, element -> the element */
  WEFT_RETURN_IF_ERROR(put(c, 1, 0));
  c->out[0] = c->in[1];
  c->out[0].s = c->wanted[1];
  return NULL;
}
weft_status_t *weft_spread_pop(weft_spread_ctx_t *c) { return get(c, 0, 0); }

/* ---- lists: values. The description of the elements goes with them ---- */

weft_status_t *weft_spread_new_list(weft_spread_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) { /* the shape of elements: of one's own */
    if (c->in[i].s.kind == WEFT_SPREAD_ONCE) c->wanted[i] = weft_spread_same(0);
  }
  c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
  return NULL;
}

static weft_status_t *list_with(weft_spread_ctx_t *c, const value_t *list, int input, int axes) {
  value_t v = c->in[input], e;
  if (v.s.kind == WEFT_SPREAD_ONCE || !element_of(&v, axes, &e)) {
    c->wanted[input] = weft_spread_same(0);
    v = weft_spread_value(weft_spread_same(0));
    (void)element_of(&v, axes, &e);
  }
  if (list != NULL && list->element != NULL) {
    bool fits = true;
    value_t both = join(c, list->element, &e, input, &fits);
    if (!fits) return weft_spread_refuse(c->node, "what is put here is not spread as what was put before");
    weft_spread_t to = as(&e, &both.s);
    bool is_alike = weft_spread_eq(&to, &e.s);
    if (to.kind == WEFT_SPREAD_ROWS) to.axis -= axes;
    if (!is_alike) c->wanted[input] = to;
    e = both;
  }
  value_t *copy = weft_spread_alloc(c, sizeof *copy);
  if (copy == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "analysing a list");
  *copy = e;
  c->out[0] = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
  c->out[0].element = copy;
  return NULL;
}

weft_status_t *weft_spread_list_put(weft_spread_ctx_t *c) { /* detail: the input that is put */
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (i != c->detail && c->in[i].s.kind != WEFT_SPREAD_SHAPE) WEFT_RETURN_IF_ERROR(want_numbers(c, i, i + 1));
  }
  return list_with(c, &c->in[0], c->detail, 0);
}
weft_status_t *weft_spread_list_from(weft_spread_ctx_t *c) { return list_with(c, NULL, 0, -1); }

static weft_status_t *list_element(weft_spread_ctx_t *c, int output, int axes) {
  const value_t *e = c->in[0].element;
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_ONCE) c->wanted[i] = weft_spread_same(0);
  }
  if (e == NULL) {
    c->out[output] = weft_spread_value(weft_spread_of(WEFT_SPREAD_NONE));
  } else if (!element_of(e, axes, &c->out[output])) {
    return weft_spread_refuse(c->node, "shapes are stacked here");
  }
  return NULL;
}
weft_status_t *weft_spread_list_get(weft_spread_ctx_t *c) { /* detail 1: PopBack, which gives the list, too */
  if (c->detail == 1) weft_spread_pass(c, 0, 0);
  return list_element(c, c->detail, 0);
}
weft_status_t *weft_spread_list_stack(weft_spread_ctx_t *c) { return list_element(c, 0, 1); }
weft_status_t *weft_spread_list_same(weft_spread_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(want_numbers(c, 1, c->node->num_inputs));
  weft_spread_pass(c, 0, 0);
  return NULL;
}

weft_status_t *weft_spread_own(weft_spread_ctx_t *c) { /* the shape of a list's elements, of which little is known */
  for (int o = 0; o < c->node->num_outputs; o++) c->out[o] = weft_spread_value(weft_spread_of(WEFT_SPREAD_EACH));
  return NULL;
}
