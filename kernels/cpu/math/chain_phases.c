/* kernels/cpu/math/chain_phases.c - the shapes of a chain's values, and which links run in one walk over
 * their elements.
 *
 * Links are taken as by list scheduling (Graham, "Bounds on multiprocessing timing anomalies", 1969): while
 * any are left, the ready one with the fewest elements begins a phase, which takes all that get ready in it
 * and fit. So what is broadcast comes first, and values of equally many elements are together as far as they
 * can.
 */
#include "kernels/cpu/loops/map_shape.h"
#include "kernels/cpu/math/chain_maker.h"
#include "ops/bias.h"

/* Elements of the longest row that a block may have: some values of so many lie in the second-level cache. */
enum { MOST_ROW = 16384 };

static weft_status_t *no_memory(const layout_maker_t *m) {
  return WEFT_NO_MEMORY("a chain of %d links", m->c->chain.num_links);
}

/* ---- shapes ---- */

static weft_status_t *shape_of_sum(const layout_maker_t *m, int i, weft_shape_t *out) {
  const weft_chain_link_t *l = &m->c->chain.links[i];
  *out = m->values[l->operands[0]].shape;
  for (int k = 1; k < l->num_operands; k++) {
    const weft_shape_t *other = &m->values[l->operands[k]].shape;
    if (!weft_shape_eq(out, other)) return weft_shapes_mismatch(&m->c->nodes[i], out, k, other);
  }
  return NULL;
}

static weft_status_t *shape_of_choice(const layout_maker_t *m, int i, weft_shape_t *out) {
  const int64_t *o = m->c->chain.links[i].operands;
  const weft_shape_t *shapes[3] = {&m->values[o[0]].shape, &m->values[o[1]].shape, &m->values[o[2]].shape};
  weft_broadcast_t b;
  if (!weft_broadcast_init(&b, shapes, 3)) return weft_choose_mismatch(shapes[0], shapes[1], shapes[2]);
  *out = b.shape;
  return NULL;
}

/* A fold along no dimension but those of 1 is a copy, as the kernel gives its operand itself. */
static weft_status_t *shape_of_fold(layout_maker_t *m, int i, const weft_tensor_t *axes, weft_shape_t *out) {
  const weft_chain_link_t *l = &m->c->chain.links[i];
  const weft_shape_t *x = &m->values[l->operands[0]].shape;
  bool flags[WEFT_MAX_DIMS];
  WEFT_RETURN_IF_ERROR(weft_reduction_axes(axes, x->rank, flags));
  weft_reduction_shape(x, flags, l->keeps_dims, out);
  chain_fold_t *f = &m->folds[i];
  weft_reduction_plan(x, flags, &f->dims);
  const bool is_innermost = f->dims.rank > 0 && f->dims.rank <= 2 && f->dims.reduced[f->dims.rank - 1];
  if (is_innermost && f->dims.count > 0 && f->dims.count <= MOST_ROW) f->rows = f->dims.out_count;
  if (f->dims.count == 1) m->forms[i] = CHAIN_COPY;
  return NULL;
}

static weft_status_t *shape_of_rows(layout_maker_t *m, int i, weft_shape_t *out) {
  const weft_shape_t *x = &m->values[m->c->chain.links[i].operands[0]].shape;
  if (x->rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "logits must have >= 1 dimension, got %s", WEFT_SHAPE_TEXT(x));
  *out = *x;
  if (weft_shape_count(x) > 0) m->folds[i].rows = weft_shape_count(x) / x->dims[x->rank - 1];
  return NULL;
}

static weft_status_t *shape_of_link(layout_maker_t *m, const weft_tensor_t *const *inputs, int i,
                                    weft_shape_t *out) {
  const int64_t *o = m->c->chain.links[i].operands;
  const chain_loop_t *loop = &m->c->loops[i];
  weft_broadcast_t b;
  switch (loop->form) {
    case CHAIN_TWO:
      if (loop->adds_bias)
        WEFT_RETURN_IF_ERROR(weft_bias_check(&m->values[o[0]].shape, &m->values[o[1]].shape, false));
      WEFT_RETURN_IF_ERROR(weft_map2_broadcast(&m->c->nodes[i], loop->flags, &m->values[o[0]].shape,
                                               &m->values[o[1]].shape, &b));
      *out = b.shape;
      return NULL;
    case CHAIN_CHOICE: return shape_of_choice(m, i, out);
    case CHAIN_SUM: return shape_of_sum(m, i, out);
    case CHAIN_FOLD: return shape_of_fold(m, i, inputs[o[1]], out);
    case CHAIN_ROWS: return shape_of_rows(m, i, out);
    case CHAIN_ONE:
    case CHAIN_CAST:
    case CHAIN_COPY:
    case CHAIN_SPREAD: break;
  }
  *out = m->values[o[0]].shape;
  return NULL;
}

/* What a layout is found by. */
static weft_status_t *note_inputs(const layout_maker_t *m, const weft_tensor_t *const *inputs) {
  const cpu_chain_t *c = m->c;
  size_t words = 0;
  for (int i = 0; i < c->chain.num_inputs; i++) {
    const size_t axes = c->is_axes[i] && inputs[i]->count <= WEFT_MAX_DIMS ? (size_t)inputs[i]->count : 0;
    words += 1 + (size_t)inputs[i]->shape.rank + axes;
  }
  int64_t *p = m->l->shapes = weft_arena_calloc(&m->l->arena, words, sizeof *m->l->shapes);
  if (p == NULL) return no_memory(m);
  for (int i = 0; i < c->chain.num_inputs; i++) {
    const weft_tensor_t *t = inputs[i];
    *p++ = t->shape.rank;
    for (int d = 0; d < t->shape.rank; d++) *p++ = t->shape.dims[d];
    if (!c->is_axes[i] || t->count > WEFT_MAX_DIMS) continue; /* so many axes are refused */
    for (int64_t k = 0; k < t->count; k++) *p++ = weft_cpu_int_at(t, k);
  }
  return NULL;
}

weft_status_t *weft_cpu_chain_find_shapes(layout_maker_t *m, const weft_tensor_t *const *inputs,
                                          int *out_failed) {
  const weft_chain_t *c = &m->c->chain;
  m->values = weft_arena_calloc(&m->arena, (size_t)weft_chain_num_values(c), sizeof *m->values);
  m->forms = weft_arena_calloc(&m->arena, (size_t)c->num_links, sizeof *m->forms);
  m->folds = weft_arena_calloc(&m->arena, (size_t)c->num_links, sizeof *m->folds);
  if (m->values == NULL || m->forms == NULL || m->folds == NULL) return no_memory(m);
  WEFT_RETURN_IF_ERROR(note_inputs(m, inputs));
  for (int i = 0; i < c->num_inputs; i++) {
    m->values[i] = (chain_value_t){.shape = inputs[i]->shape,
                                   .count = weft_shape_count(&inputs[i]->shape),
                                   .where = IN_INPUT,
                                   .index = i,
                                   .last_call = NONE};
  }
  for (int i = 0; i < c->num_links; i++) {
    chain_value_t *v = &m->values[c->num_inputs + i];
    *v = (chain_value_t){.where = IN_SLOT, .index = NONE, .last_call = NONE};
    m->forms[i] = m->c->loops[i].form;
    weft_status_t *s = shape_of_link(m, inputs, i, &v->shape);
    if (s != NULL) {
      *out_failed = i;
      return s;
    }
    v->count = weft_shape_count(&v->shape);
  }
  return NULL;
}

/* ---- rows ---- */

/* Compares the dimensions of `v` with those of `shape`, which are rows up to a dimension and elements of a
 * row behind it: v has those of one part, and 1 in the other. */
static bool spans(const chain_value_t *v, const weft_shape_t *shape, int64_t rows, bool spans_rows) {
  int64_t left = rows;
  int d = 0;
  for (; d < shape->rank && left > 1; d++) left /= shape->dims[d]; /* rows make up whole dimensions */
  const int skipped = shape->rank - v->shape.rank;
  for (int k = 0; k < shape->rank; k++) {
    const int64_t dim = k < skipped ? 1 : v->shape.dims[k - skipped];
    if (dim != ((k < d) == spans_rows ? shape->dims[k] : 1)) return false;
  }
  return skipped >= 0;
}

bool weft_cpu_chain_is_per_row(const chain_value_t *v, const weft_shape_t *shape, int64_t rows) {
  return v->count == rows && spans(v, shape, rows, true);
}

bool weft_cpu_chain_is_per_column(const chain_value_t *v, const weft_shape_t *shape, int64_t rows) {
  return v->count == weft_shape_count(shape) / rows && spans(v, shape, rows, false);
}

/* ---- phases ---- */

/* The phase at hand. */
typedef struct phase_maker {
  layout_maker_t *m;
  int number;
  int64_t elements, rows; /* rows 0: no link reads rows yet */
} phase_maker_t;

/* Elements that a link goes through. */
static int64_t elements_of(const layout_maker_t *m, int link) {
  return chain_is_fold(m, link) ? m->values[m->c->chain.links[link].operands[0]].count
                                : chain_result(m, link)->count;
}

/* The phase that makes the value; NONE: it is an input, or has no elements. `out_left`: no phase does yet. */
static int producer_of(const layout_maker_t *m, int64_t value, bool *out_left) {
  const int link = (int)value - m->c->chain.num_inputs;
  *out_left = link >= 0 && m->values[value].count > 0 && m->phase_of[link] == NONE;
  return link < 0 ? NONE : m->phase_of[link];
}

static bool is_ready(const layout_maker_t *m, int link) {
  const weft_chain_link_t *l = &m->c->chain.links[link];
  bool is_left = m->phase_of[link] != NONE || chain_result(m, link)->count == 0;
  for (int k = 0; k < l->num_operands && !is_left; k++) (void)producer_of(m, l->operands[k], &is_left);
  return !is_left;
}

/* May a link that is ready run in the phase? What it reads of the phase itself is then there. */
static bool fits(const phase_maker_t *p, int link) {
  const layout_maker_t *m = p->m;
  const weft_chain_link_t *l = &m->c->chain.links[link];
  const chain_value_t *v = chain_result(m, link);
  const bool is_of_rows = p->rows > 0 && v->count == p->rows;
  if (elements_of(m, link) != p->elements && !is_of_rows) return false;
  if (chain_reads_rows(m, link)) {
    const int64_t rows = m->folds[link].rows;
    return rows > 0 && elements_of(m, link) == p->elements && (p->rows == 0 || p->rows == rows);
  }
  for (int k = 0; k < l->num_operands; k++) {
    const chain_value_t *from = &m->values[l->operands[k]];
    bool is_left = false;
    if (producer_of(m, l->operands[k], &is_left) != p->number || from->count == v->count) continue;
    if (!weft_cpu_chain_is_per_row(from, &v->shape, p->rows)) return false;
  }
  return true;
}

/* Takes all links for a phase that begins with `first`. */
static void fill(phase_maker_t *p, int first) {
  layout_maker_t *m = p->m;
  const bool is_whole = chain_reads_rows(m, first) && m->folds[first].rows == 0;
  p->elements = elements_of(m, first);
  p->rows = 0;
  for (int i = first; i < m->c->chain.num_links; i++) {
    if (i != first && (is_whole || !is_ready(m, i) || !fits(p, i))) continue;
    m->phase_of[i] = p->number;
    m->order[m->num_ordered++] = i;
    if (chain_reads_rows(m, i)) p->rows = m->folds[i].rows;
  }
  chain_phase_t *phase = &m->l->phases[p->number];
  const int64_t units = is_whole ? 1 : p->rows > 0 ? p->rows : p->elements;
  *phase = (chain_phase_t){
      .count = units, .width = is_whole ? 1 : p->elements / units, .end_call = (uint32_t)m->num_ordered};
  if (is_whole) phase->whole = &m->folds[first].dims; /* until there are calls */
}

weft_status_t *weft_cpu_chain_find_phases(layout_maker_t *m) {
  const int n = m->c->chain.num_links;
  m->phase_of = weft_arena_calloc(&m->arena, (size_t)n, sizeof *m->phase_of);
  m->order = weft_arena_calloc(&m->arena, (size_t)n, sizeof *m->order);
  m->l->phases = weft_arena_calloc(&m->l->arena, (size_t)n, sizeof *m->l->phases);
  if (m->phase_of == NULL || m->order == NULL || m->l->phases == NULL) return no_memory(m);
  for (int i = 0; i < n; i++) m->phase_of[i] = NONE;
  for (;; m->l->num_phases++) {
    int first = NONE;
    for (int i = 0; i < n; i++) {
      if (is_ready(m, i) && (first == NONE || elements_of(m, i) < elements_of(m, first))) first = i;
    }
    if (first == NONE) return NULL;
    phase_maker_t p = {.m = m, .number = m->l->num_phases};
    fill(&p, first);
  }
}
