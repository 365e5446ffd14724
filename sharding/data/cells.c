/* sharding/data/cells.c - TensorArrays, stacks and lists: how the elements are sharded. */
#include "base/alloc.h"
#include "sharding/data/analysis.h"
#include "sharding/data/flow.h"

typedef weft_data_value_t value_t;

/* ---- cells ---- */

weft_status_t *weft_data_cell_new(weft_data_ctx_t *c, int of, weft_str_t source, int *out) {
  weft_data_analysis_t *a = c->analysis;
  a->has_cells = true;
  int node = of == 0 ? c->node->id : -1;
  for (int i = 1; i < a->num_cells; i++) {
    const weft_data_cell_t *cell = &a->cells[i];
    if (cell->node == node && cell->of == of && weft_str_eq(cell->source, source)) return *out = i, NULL;
  }
  if (a->num_cells >= a->capacity) {
    int capacity = a->capacity == 0 ? 16 : 2 * a->capacity;
    weft_data_cell_t *cells = weft_calloc((size_t)capacity, sizeof *cells);
    if (cells == NULL) return WEFT_NO_MEMORY("analysing a graph for replicas");
    if (a->num_cells > 0) memcpy(cells, a->cells, (size_t)a->num_cells * sizeof *cells);
    weft_free(a->cells);
    a->cells = cells;
    a->capacity = capacity;
    if (a->num_cells == 0) a->num_cells = 1;
  }
  *out = a->num_cells++;
  a->cells[*out] = (weft_data_cell_t){node,
                                      of,
                                      source,
                                      weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE)),
                                      weft_sharding_of_kind(WEFT_SHARDING_NONE),
                                      0};
  return NULL;
}

const value_t *weft_data_cell_get(const weft_data_ctx_t *c, int cell) {
  const weft_data_analysis_t *a = c->analysis;
  return cell > 0 && cell < a->num_cells ? &a->cells[cell].value : NULL;
}

weft_status_t *weft_data_cell_put(weft_data_ctx_t *c, int cell, const value_t *v) {
  weft_data_analysis_t *a = c->analysis;
  if (cell <= 0 || cell >= a->num_cells) {
    return weft_data_refuse(
        c->node, "its TensorArray or stack comes from several places, and it cannot be told from which");
  }
  if (!weft_data_value_eq(&a->cells[cell].value, v)) {
    a->cells[cell].value = *v;
    a->changed = true;
  }
  return NULL;
}

/* ---- TensorArrays and stacks: handles. Their elements are described by a cell that all nodes with the
 * handle share ---- */

static value_t handle(int cell) {
  value_t v = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  v.cell = cell;
  return v;
}

static value_t flow(void) { return weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL)); }

/* Indices, sizes: true ones. */
static void want_numbers(weft_data_ctx_t *c, int first, int end) {
  for (int i = first; i < end; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) c->required[i] = weft_sharding_replicate(0);
  }
}

weft_status_t *weft_data_new_array(weft_data_ctx_t *c) {
  int cell;
  want_numbers(c, 0, c->node->num_inputs);
  WEFT_RETURN_IF_ERROR(weft_data_cell_new(c, 0, WEFT_STR(""), &cell));
  c->out[0] = handle(cell);
  if (c->node->num_outputs > 1) c->out[1] = flow();
  return NULL;
}

weft_status_t *weft_data_array_grad(weft_data_ctx_t *c) {
  int cell;
  WEFT_RETURN_IF_ERROR(weft_data_cell_new(c, c->in[0].cell, weft_node_attr_string(c->node, "source"), &cell));
  c->out[0] = handle(cell);
  c->out[1] = flow();
  return NULL;
}

/* An element, in the frame of one element: the axis of rows moves by `axes`. False if rows are not rows of an
 * element. */
static bool element_of(const value_t *v, int axes, value_t *out) {
  *out = *v;
  out->ints = axes == 0 ? v->ints : NULL;
  out->dims = axes == 0 ? v->dims : NULL;
  if (v->rank >= 0) out->rank = v->rank + axes;
  if (v->s.kind == WEFT_SHARDING_SHARD) out->s.dim += axes;
  if (v->whole >= 0) out->whole = v->whole + axes < 0 ? -1 : v->whole + axes;
  if (v->s.kind == WEFT_SHARDING_COUNTS && axes != 0) return false;
  return v->s.kind != WEFT_SHARDING_SHARD || out->s.dim >= 0;
}

static void put_whole(weft_data_ctx_t *c, int input, value_t *v) {
  if (v->s.kind == WEFT_SHARDING_LOCAL) return; /* a list in a list: its own elements are whole */
  c->required[input] = weft_sharding_replicate(0);
  *v = weft_data_true_value(c, v, WEFT_SHARDING_REPLICATE);
}

/* Elements that a loop reads as rows are put as rows: what all have whole is cut before it. For a loop that
 * runs whole they are put whole. */
static void put_as_forced(weft_data_ctx_t *c, const weft_axis_sharding_t *forced, int input, int axes,
                          value_t *v) {
  if (forced->kind == WEFT_SHARDING_REPLICATE) {
    put_whole(c, input, v);
    return;
  }
  bool is_whole = v->s.kind == WEFT_SHARDING_REPLICATE || v->s.kind == WEFT_SHARDING_PARTIAL ||
                  v->s.kind == WEFT_SHARDING_SINGLE;
  if (forced->kind != WEFT_SHARDING_SHARD || !is_whole || v->zero) return;
  v->s = c->required[input] = weft_sharding_shard(forced->dim - axes, forced->degree);
  v->whole = -1;
  v->ints = v->dims = NULL;
}

/* Puts input `value` (stacked elements if axes is -1) into the cell of input 0. */
static weft_status_t *put(weft_data_ctx_t *c, int value, int axes) {
  value_t v = c->in[value], e;
  int cell = c->in[0].cell;
  if (cell > 0 && cell < c->analysis->num_cells)
    put_as_forced(c, &c->analysis->cells[cell].forced, value, axes, &v);
  if (v.s.kind == WEFT_SHARDING_SINGLE) {
    c->required[value] = weft_sharding_replicate(0);
    v = weft_data_true_value(c, &v, WEFT_SHARDING_REPLICATE);
  }
  if (!element_of(&v, axes, &e)) {
    c->required[value] = weft_sharding_replicate(0);
    v = weft_data_value(weft_sharding_replicate(0));
    (void)element_of(&v, axes, &e);
  }
  const value_t *before = weft_data_cell_get(c, c->in[0].cell);
  if (before != NULL && before->s.kind != WEFT_SHARDING_NONE) {
    bool fits = true;
    value_t both = weft_data_join(c, before, &e, &fits);
    if (!fits)
      return weft_data_refuse(
          c->node,
          "one of its elements is sharded by rows of the batch and another is replicated; use two arrays");
    weft_axis_sharding_t to = weft_data_as(&e, &both.s);
    bool is_alike = weft_axis_sharding_eq(&to, &e.s);
    if (to.kind == WEFT_SHARDING_SHARD) to.dim -= axes;
    if (!is_alike) c->required[value] = to;
    e = both;
  }
  return weft_data_cell_put(c, c->in[0].cell, &e);
}

static weft_status_t *get(weft_data_ctx_t *c, int output, int axes) {
  const value_t *e = weft_data_cell_get(c, c->in[0].cell);
  if (e == NULL || e->s.kind == WEFT_SHARDING_NONE) {
    c->out[output] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
    return NULL;
  }
  if (!element_of(e, axes, &c->out[output]))
    return weft_data_refuse(
        c->node,
        "it stacks shapes that count rows of the batch; take the shape of the stacked value instead");
  return NULL;
}

weft_status_t *weft_data_array_write(weft_data_ctx_t *c) { /* handle, index, value, flow */
  want_numbers(c, 1, 2);
  c->out[0] = flow();
  return put(c, 2, 0);
}

weft_status_t *weft_data_array_scatter(weft_data_ctx_t *c) { /* handle, indices, value, flow */
  want_numbers(c, 1, 2);
  c->out[0] = flow();
  return put(c, 2, -1);
}

weft_status_t *weft_data_array_read(weft_data_ctx_t *c) { /* handle, index, flow */
  want_numbers(c, 1, 2);
  return get(c, 0, 0);
}

weft_status_t *weft_data_array_gather(weft_data_ctx_t *c) { /* handle, indices, flow */
  want_numbers(c, 1, 2);
  return get(c, 0, 1);
}

weft_status_t *weft_data_array_size(weft_data_ctx_t *c) {
  for (int o = 0; o < c->node->num_outputs; o++) c->out[o] = weft_data_value(weft_sharding_replicate(0));
  return NULL;
}

weft_status_t *weft_data_new_stack(weft_data_ctx_t *c) { return weft_data_new_array(c); }
weft_status_t *weft_data_push(weft_data_ctx_t *c) { /* handle, element -> the element */
  WEFT_RETURN_IF_ERROR(put(c, 1, 0));
  c->out[0] = c->in[1];
  c->out[0].s = c->required[1];
  return NULL;
}

weft_status_t *weft_data_pop(weft_data_ctx_t *c) { return get(c, 0, 0); }

/* ---- lists: values. The description of the elements goes with them ---- */

/* Input i is the shape of elements, whose rows lie along `own` (-1: they are whole): it counts a replica's
 * own rows there, and nowhere else. */
static void want_shape(weft_data_ctx_t *c, int i, int own) {
  const weft_axis_sharding_t *shape = &c->in[i].s;
  uint64_t bit = own >= 0 && own < 64 ? (uint64_t)1 << own : 0;
  bool counts_others = shape->kind == WEFT_SHARDING_COUNTS && (shape->rows & ~bit) != 0;
  if (counts_others || shape->kind == WEFT_SHARDING_SINGLE) c->required[i] = weft_sharding_replicate(0);
}

static int rows_of(const value_t *element) {
  return element->s.kind == WEFT_SHARDING_SHARD ? element->s.dim : -1;
}

weft_status_t *weft_data_new_list(weft_data_ctx_t *c) {
  bool takes_whole = c->analysis->forced[c->node->id].kind == WEFT_SHARDING_REPLICATE;
  if (takes_whole || c->in[0].s.kind == WEFT_SHARDING_SINGLE) want_shape(c, 0, -1);
  want_numbers(
      c, 1, c->node->num_inputs); /* how many there are: as many as loops have rounds, which all have alike */
  c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  c->out[0].takes_whole = takes_whole;
  return NULL;
}

/* What is put into a list goes as the elements that are in it: these cannot be changed any more. */
static weft_status_t *go_as_list(weft_data_ctx_t *c, const value_t *in_list, int input, int axes,
                                 value_t *e) {
  bool fits = true;
  value_t both = weft_data_join(c, in_list, e, &fits);
  bool stays = in_list->zero || weft_axis_sharding_eq(&both.s, &in_list->s);
  if (!stays && in_list->s.kind == WEFT_SHARDING_REPLICATE &&
      in_list->s.degree == 0) { /* as it truly is, then */
    value_t v = weft_data_true_value(c, &c->in[input], WEFT_SHARDING_REPLICATE);
    c->required[input] = v.s;
    (void)element_of(&v, axes, e);
    both = weft_data_join(c, in_list, e, &fits);
    stays = weft_axis_sharding_eq(&both.s, &in_list->s);
  }
  bool is_whole = in_list->s.kind == WEFT_SHARDING_PARTIAL || in_list->s.kind == WEFT_SHARDING_REPLICATE;
  if ((!fits || !stays) && is_whole && e->s.kind == WEFT_SHARDING_SHARD &&
      weft_data_force_list(c, e->s.dim)) {
    *e = *in_list; /* next time it holds rows */
    return NULL;
  }
  if (!fits || !stays)
    return weft_data_refuse(
        c->node,
        "one of its elements is sharded by rows of the batch and another is replicated; use two arrays");
  weft_axis_sharding_t to = weft_data_as(e, &both.s);
  bool is_alike = weft_axis_sharding_eq(&to, &e->s);
  if (to.kind == WEFT_SHARDING_SHARD) to.dim -= axes;
  if (!is_alike) c->required[input] = to;
  *e = both;
  return NULL;
}

static weft_status_t *list_with(weft_data_ctx_t *c, const value_t *list, int input, int axes) {
  value_t v = c->in[input], e;
  bool takes_whole =
      list != NULL ? list->takes_whole : c->analysis->forced[c->node->id].kind == WEFT_SHARDING_REPLICATE;
  if (list == NULL) put_as_forced(c, &c->analysis->forced[c->node->id], input, axes, &v);
  if (list != NULL && takes_whole) put_whole(c, input, &v);
  if (v.s.kind == WEFT_SHARDING_SINGLE || !element_of(&v, axes, &e)) {
    c->required[input] = weft_sharding_replicate(0);
    v = weft_data_value(weft_sharding_replicate(0));
    (void)element_of(&v, axes, &e);
  }
  if (list != NULL && list->element != NULL)
    WEFT_RETURN_IF_ERROR(go_as_list(c, list->element, input, axes, &e));
  value_t *copy = weft_data_alloc(c, sizeof *copy);
  if (copy == NULL) return WEFT_NO_MEMORY("analysing a list");
  *copy = e;
  c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  c->out[0].element = copy;
  c->out[0].takes_whole = takes_whole;
  return NULL;
}

weft_status_t *weft_data_list_put(weft_data_ctx_t *c) {
  int value = c->node->op->batch == WEFT_BATCH_LIST_SET ? 2 : 1;
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (i != value && c->in[i].s.kind != WEFT_SHARDING_COUNTS) want_numbers(c, i, i + 1);
  }
  return list_with(c, &c->in[0], value, 0);
}

weft_status_t *weft_data_list_from(weft_data_ctx_t *c) { /* tensor, shape of elements */
  WEFT_RETURN_IF_ERROR(list_with(c, NULL, 0, -1));
  want_shape(c, 1, rows_of(c->out[0].element));
  return NULL;
}

/* Of the list in input 0; the last input is the shape of elements. */
static weft_status_t *list_element(weft_data_ctx_t *c, int output, int axes) {
  const value_t *e = c->in[0].element;
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SINGLE) c->required[i] = weft_sharding_replicate(0);
  }
  if (c->node->num_inputs > 1 && e != NULL) want_shape(c, c->node->num_inputs - 1, rows_of(e));
  if (e == NULL) {
    c->out[output] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  } else if (!element_of(e, axes, &c->out[output])) {
    return weft_data_refuse(
        c->node,
        "it stacks shapes that count rows of the batch; take the shape of the stacked value instead");
  }
  return NULL;
}

weft_status_t *weft_data_list_get(weft_data_ctx_t *c) { /* PopBack gives the list, too */
  int element = c->node->op->batch == WEFT_BATCH_LIST_POP ? 1 : 0;
  if (element == 1) weft_data_pass(c, 0, 0);
  return list_element(c, element, 0);
}

weft_status_t *weft_data_list_gather(weft_data_ctx_t *c) { /* list, indices, shape of elements */
  want_numbers(c, 1, 2);
  return list_element(c, 0, 1);
}

weft_status_t *weft_data_list_scatter(weft_data_ctx_t *c) { /* elements, indices, ...; maybe behind a list */
  int value = c->node->op->batch == WEFT_BATCH_LIST_SCATTER_INTO ? 1 : 0;
  want_numbers(c, value + 1, value + 2);
  bool has_shape = value + 2 < c->node->num_inputs;
  if (has_shape) want_numbers(c, value + 3, c->node->num_inputs);
  WEFT_RETURN_IF_ERROR(list_with(c, value == 1 ? &c->in[0] : NULL, value, -1));
  if (has_shape) want_shape(c, value + 2, rows_of(c->out[0].element));
  return NULL;
}

weft_status_t *weft_data_list_stack(weft_data_ctx_t *c) { return list_element(c, 0, 1); }
weft_status_t *weft_data_list_same(weft_data_ctx_t *c) {
  want_numbers(c, 1, c->node->num_inputs);
  weft_data_pass(c, 0, 0);
  return NULL;
}

/* ---- optionals: lists of one element or none ---- */

weft_status_t *weft_data_optional_from(weft_data_ctx_t *c) {
  if (c->node->num_inputs != 1)
    return weft_data_refuse(c->node, "optionals of more than one component are not supported");
  return list_with(c, NULL, 0, 0);
}

weft_status_t *weft_data_optional_get(weft_data_ctx_t *c) {
  if (c->node->num_outputs != 1)
    return weft_data_refuse(c->node, "optionals of more than one component are not supported");
  return list_element(c, 0, 0);
}

/* ---- zeros and sums of lists ---- */

static weft_status_t *give_list(weft_data_ctx_t *c, const value_t *element) {
  c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  if (element == NULL) return NULL;
  value_t *copy = weft_data_alloc(c, sizeof *copy);
  if (copy == NULL) return WEFT_NO_MEMORY("analysing a list");
  *copy = *element;
  c->out[0].element = copy;
  return NULL;
}

weft_status_t *weft_data_list_zeros(weft_data_ctx_t *c) {
  if (c->in[0].element == NULL) return give_list(c, NULL);
  value_t e = *c->in[0].element;
  e.ints = NULL;
  e.zero = true;
  return give_list(c, &e);
}

/* Element by element, as they are: elements of a list are not scaled any more. */
weft_status_t *weft_data_list_sum(weft_data_ctx_t *c) {
  value_t sum = {0};
  bool any = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    const value_t *e = c->in[i].element;
    if (c->in[i].s.kind != WEFT_SHARDING_LOCAL) {
      return weft_data_refuse(c->node,
                              "it adds up lists, and '%.*s' is not a list that is local to each replica",
                              WEFT_STR_ARGS(c->node->inputs[i].node->name));
    }
    if (e == NULL) continue;
    bool fits = true;
    value_t both = any ? weft_data_join(c, &sum, e, &fits) : *e;
    fits = fits && (!any || sum.zero || weft_axis_sharding_eq(&both.s, &sum.s)) &&
           (e->zero || weft_axis_sharding_eq(&both.s, &e->s));
    if (!fits)
      return weft_data_refuse(c->node, "the elements of the lists that it adds up have different shardings");
    both.ints = NULL;
    sum = both;
    any = true;
  }
  return give_list(c, any ? &sum : NULL);
}
