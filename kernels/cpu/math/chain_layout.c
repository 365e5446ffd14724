/* kernels/cpu/math/chain_layout.c - a chain for inputs of certain shapes: phases, slots, calls. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map_shape.h"
#include "kernels/cpu/math/chain.h"

/* What a block of all values that a phase has at once should take: half of the first-level cache, in which
 * the loops' own tables lie, too. A block is also the least that a thread takes, so that it should not be
 * larger than what makes up for the calls of its loops. */
enum { BLOCK_BYTES = 24 << 10, LEAST_BLOCK = 256, MOST_BLOCK = 1024, BLOCK_UNIT = 64 };

/* An index that there is not. */
enum { NONE = -1 };

typedef enum lies_in { IN_INPUT, IN_OUTPUT, IN_KEPT, IN_SLOT } lies_in_t;

/* A value, while the layout is made. */
typedef struct chain_value {
  weft_shape_t shape;
  int64_t count;
  lies_in_t where;
  int index;      /* which input, output or slot */
  size_t kept_at; /* IN_KEPT */
  int last_call;  /* of those that read it in its own phase, as far as calls are counted; NONE */
} chain_value_t;

typedef struct layout_maker {
  const cpu_chain_t *c;
  chain_layout_t *l;
  weft_arena_t arena; /* of what only making it takes */
  chain_value_t *values;
  int *order; /* num_ordered links, by phase: those of no elements are not among them */
  int num_ordered;
  int64_t *counts;
  /* of the phase at hand: */
  int *free_slots;
  int num_free, num_slots;
  int *spread_values, *spread_slots; /* what is spread, and to which slot; by place among the phase's */
  int num_spreads, first_spread;
  size_t slot_size; /* bytes an element of a slot has */
} layout_maker_t;

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

static weft_status_t *shape_of_link(const layout_maker_t *m, int i, weft_shape_t *out) {
  const int64_t *o = m->c->chain.links[i].operands;
  const chain_loop_t *loop = &m->c->loops[i];
  weft_broadcast_t b;
  switch (loop->form) {
    case CHAIN_TWO:
      WEFT_RETURN_IF_ERROR(weft_map2_broadcast(&m->c->nodes[i], loop->flags, &m->values[o[0]].shape,
                                               &m->values[o[1]].shape, &b));
      *out = b.shape;
      return NULL;
    case CHAIN_CHOICE: return shape_of_choice(m, i, out);
    case CHAIN_SUM: return shape_of_sum(m, i, out);
    case CHAIN_ONE:
    case CHAIN_CAST:
    case CHAIN_SPREAD: break;
  }
  *out = m->values[o[0]].shape;
  return NULL;
}

static weft_status_t *find_shapes(layout_maker_t *m, const weft_shape_t *const *inputs, int *out_failed) {
  const weft_chain_t *c = &m->c->chain;
  size_t words = 0;
  for (int i = 0; i < c->num_inputs; i++) words += 1 + (size_t)inputs[i]->rank;
  m->values = weft_arena_calloc(&m->arena, (size_t)weft_chain_num_values(c), sizeof *m->values);
  m->l->shapes = weft_arena_calloc(&m->l->arena, words, sizeof *m->l->shapes);
  if (m->values == NULL || m->l->shapes == NULL) return no_memory(m);
  int64_t *p = m->l->shapes;
  for (int i = 0; i < c->num_inputs; i++) {
    m->values[i] = (chain_value_t){
        .shape = *inputs[i], .count = weft_shape_count(inputs[i]), .where = IN_INPUT, .index = i};
    *p++ = inputs[i]->rank;
    for (int d = 0; d < inputs[i]->rank; d++) *p++ = inputs[i]->dims[d];
  }
  for (int i = 0; i < c->num_links; i++) {
    chain_value_t *v = &m->values[c->num_inputs + i];
    *v = (chain_value_t){.where = IN_SLOT, .index = NONE};
    weft_status_t *s = shape_of_link(m, i, &v->shape);
    if (s != NULL) {
      *out_failed = i;
      return s;
    }
    v->count = weft_shape_count(&v->shape);
  }
  for (int v = 0; v < weft_chain_num_values(c); v++) m->values[v].last_call = NONE;
  return NULL;
}

/* ---- phases ---- */

static int by_count(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static int phase_of(const layout_maker_t *m, int64_t count) { /* among the counts */
  int low = 0, high = m->l->num_phases - 1;
  while (low < high) {
    const int mid = low + (high - low) / 2;
    if (m->counts[mid] < count) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static const chain_value_t *result_of(const layout_maker_t *m, int link) {
  return &m->values[m->c->chain.num_inputs + link];
}

/* Sorts the links by the number of elements of their results; those of none have nothing to do. */
static weft_status_t *find_phases(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  chain_layout_t *l = m->l;
  int num = 0, num_links = 0;
  m->counts = weft_arena_calloc(&m->arena, (size_t)c->num_links, sizeof *m->counts);
  m->order = weft_arena_calloc(&m->arena, (size_t)c->num_links, sizeof *m->order);
  if (m->counts == NULL || m->order == NULL) return no_memory(m);
  for (int i = 0; i < c->num_links; i++) {
    if (result_of(m, i)->count > 0) m->counts[num_links++] = result_of(m, i)->count;
  }
  qsort(m->counts, (size_t)num_links, sizeof *m->counts, by_count);
  for (int i = 0; i < num_links; i++) {
    if (i == 0 || m->counts[i] != m->counts[num - 1]) m->counts[num++] = m->counts[i];
  }
  l->num_phases = num;
  m->num_ordered = num_links;
  l->phases = weft_arena_calloc(&l->arena, (size_t)num + 1, sizeof *l->phases);
  int *next = weft_arena_calloc(&m->arena, (size_t)num + 1, sizeof *next);
  if (l->phases == NULL || next == NULL) return no_memory(m);
  for (int p = 0; p < num; p++) l->phases[p].count = m->counts[p];
  for (int i = 0; i < c->num_links; i++) {
    if (result_of(m, i)->count > 0) next[phase_of(m, result_of(m, i)->count) + 1]++;
  }
  for (int p = 0; p < num; p++) {
    next[p + 1] += next[p];
    l->phases[p].end_call = (uint32_t)next[p + 1]; /* the end of its links, until there are calls */
  }
  for (int i = 0; i < c->num_links; i++) {
    if (result_of(m, i)->count > 0) m->order[next[phase_of(m, result_of(m, i)->count)]++] = i;
  }
  return NULL;
}

/* ---- where values lie ---- */

static weft_status_t *find_kept(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  for (int i = 0; i < c->num_outputs; i++) {
    m->values[c->outputs[i]].where = IN_OUTPUT;
    m->values[c->outputs[i]].index = i;
  }
  for (int i = 0; i < c->num_links; i++) {
    const int64_t count = result_of(m, i)->count;
    for (int k = 0; k < c->links[i].num_operands; k++) {
      chain_value_t *v = &m->values[c->links[i].operands[k]];
      size_t bytes = 0;
      if (count == 0 || v->where != IN_SLOT || v->count == count) continue;
      v->where = IN_KEPT;
      v->kept_at = m->l->kept_bytes;
      if (!weft_mul_size((size_t)v->count, weft_dtype_size(weft_chain_type(c, c->links[i].operands[k])),
                         &bytes) ||
          !weft_add_size(bytes, v->kept_at + 15, &bytes))
        return no_memory(m);
      m->l->kept_bytes = bytes & ~(size_t)15;
    }
  }
  return NULL;
}

static int take_slot(layout_maker_t *m) {
  return m->num_free > 0 ? m->free_slots[--m->num_free] : m->num_slots++;
}

/* The offset of a slot is its number until the block's size is known. */
static chain_place_t place_of(const layout_maker_t *m, int64_t value) {
  const weft_chain_t *c = &m->c->chain;
  const chain_value_t *v = &m->values[value];
  const uint32_t size = v->count == 1 ? 0 : (uint32_t)weft_dtype_size(weft_chain_type(c, value));
  switch (v->where) {
    case IN_INPUT: return (chain_place_t){0, (uint32_t)(CHAIN_FIRST_BASE + v->index), size};
    case IN_OUTPUT: return (chain_place_t){0, (uint32_t)(CHAIN_FIRST_BASE + c->num_inputs + v->index), size};
    case IN_KEPT: return (chain_place_t){v->kept_at, CHAIN_BASE_KEPT, size};
    case IN_SLOT: break;
  }
  return (chain_place_t){(size_t)v->index, CHAIN_BASE_SLOTS, 0};
}

/* ---- calls ---- */

static void note_slot_size(layout_maker_t *m, size_t size) {
  if (size > m->slot_size) m->slot_size = size;
}

/* The slot with a value that has fewer elements than the phase, in the shape of its reader. */
static int spread(layout_maker_t *m, chain_phase_t *p, int64_t value, const weft_shape_t *shape) {
  const weft_chain_t *c = &m->c->chain;
  chain_layout_t *l = m->l;
  const size_t size = weft_dtype_size(weft_chain_type(c, value));
  for (int i = 0; i < m->num_spreads; i++) {
    const weft_broadcast_t *b = &l->broadcasts[m->first_spread + i];
    if (m->spread_values[i] == value && weft_shape_eq(&b->shape, shape)) return m->spread_slots[i];
  }
  const weft_shape_t *shapes[2] = {shape, &m->values[value].shape};
  (void)weft_broadcast_init(&l->broadcasts[l->num_broadcasts], shapes, 2); /* the link's did */
  chain_call_t *call = &l->calls[l->num_calls++];
  const int slot = m->num_slots++; /* until the end of the phase: others may read it */
  chain_place_t from = place_of(m, value);
  from.advance = 0; /* the walk says where */
  *call = (chain_call_t){.to = {(size_t)slot, CHAIN_BASE_SLOTS, 0},
                         .first_operand = (uint32_t)l->num_operands,
                         .form = CHAIN_SPREAD,
                         .size = (uint16_t)size,
                         .is.spread = (uint32_t)l->num_broadcasts++};
  l->operands[l->num_operands++] = (chain_operand_t){from, 1};
  note_slot_size(m, size);
  p->cost.bytes += (double)size;
  m->spread_values[m->num_spreads] = (int)value;
  m->spread_slots[m->num_spreads++] = slot;
  return slot;
}

static bool reads_later(const weft_chain_link_t *l, int operand, int64_t value) {
  for (int k = operand + 1; k < l->num_operands; k++) {
    if (l->operands[k] == value) return true;
  }
  return false;
}

/* May the result be written where operand k lies? The loops read an element before they write it. */
static bool may_overwrite(const layout_maker_t *m, int link, int k) {
  const weft_chain_link_t *l = &m->c->chain.links[link];
  const chain_loop_t *loop = &m->c->loops[link];
  if (weft_dtype_size(weft_chain_type(&m->c->chain, l->operands[k])) != loop->size) return false;
  if (loop->form == CHAIN_CAST) return false; /* its operand and result do not overlap */
  return loop->form != CHAIN_SUM || l->num_operands <= WEFT_SUM_AT_ONCE; /* else it is written too soon */
}

/* Gives back the slots of operands that no later link reads. */
static void free_operands(layout_maker_t *m, int link, bool overwritten) {
  const weft_chain_link_t *l = &m->c->chain.links[link];
  for (int k = 0; k < l->num_operands; k++) {
    const chain_value_t *v = &m->values[l->operands[k]];
    if (v->where != IN_SLOT || v->last_call != link || reads_later(l, k, l->operands[k])) continue;
    bool may = true;
    for (int j = 0; j <= k; j++) may = may && (l->operands[j] != l->operands[k] || may_overwrite(m, link, j));
    if (may == overwritten) m->free_slots[m->num_free++] = v->index;
  }
}

static void add_call(layout_maker_t *m, chain_phase_t *p, int link) {
  const weft_chain_link_t *l = &m->c->chain.links[link];
  const chain_loop_t *loop = &m->c->loops[link];
  chain_layout_t *to = m->l;
  chain_value_t *v = &m->values[m->c->chain.num_inputs + link];
  int slots[3] = {NONE, NONE, NONE}; /* of operands that are spread: no sum has any */
  for (int k = 0; k < l->num_operands && k < 3; k++) {
    const chain_value_t *from = &m->values[l->operands[k]];
    if (from->count != v->count && from->count != 1) slots[k] = spread(m, p, l->operands[k], &v->shape);
  }
  chain_call_t *call = &to->calls[to->num_calls++];
  *call = (chain_call_t){.fn = loop->fn,
                         .first_operand = (uint32_t)to->num_operands,
                         .form = (uint16_t)loop->form,
                         .size = (uint16_t)loop->size,
                         .is.num_operands = (uint32_t)l->num_operands};
  for (int k = 0; k < l->num_operands; k++) {
    const chain_value_t *from = &m->values[l->operands[k]];
    chain_operand_t *o = &to->operands[to->num_operands++];
    *o = (chain_operand_t){place_of(m, l->operands[k]), from->count == v->count};
    if (k < 3 && slots[k] != NONE) *o = (chain_operand_t){{(size_t)slots[k], CHAIN_BASE_SLOTS, 0}, 1};
  }
  free_operands(m, link, true);
  if (v->where == IN_SLOT) {
    v->index = take_slot(m);
    note_slot_size(m, loop->size);
    if (v->last_call == NONE) m->free_slots[m->num_free++] = v->index; /* nothing reads it */
  }
  free_operands(m, link, false);
  call->to = place_of(m, m->c->chain.num_inputs + link);
  p->cost.cycles += (loop->flags & WEFT_MAP_COSTLY) != 0 ? 16 : 0.5;
  if (v->where != IN_SLOT) p->cost.bytes += (double)loop->size;
}

/* The link that reads a value last, of its own phase. */
static void find_last_calls(layout_maker_t *m, uint32_t begin, uint32_t end) {
  const weft_chain_t *c = &m->c->chain;
  for (uint32_t i = begin; i < end; i++) {
    const weft_chain_link_t *l = &c->links[m->order[i]];
    for (int k = 0; k < l->num_operands; k++) {
      chain_value_t *v = &m->values[l->operands[k]];
      if (v->count == result_of(m, m->order[i])->count) v->last_call = m->order[i];
    }
  }
}

/* Inputs that are read from beginning to end. */
static size_t bytes_of_inputs(const layout_maker_t *m, uint32_t begin, uint32_t end) {
  const weft_chain_t *c = &m->c->chain;
  size_t bytes = 0;
  for (uint32_t i = begin; i < end; i++) {
    const weft_chain_link_t *l = &c->links[m->order[i]];
    for (int k = 0; k < l->num_operands; k++) {
      const chain_value_t *v = &m->values[l->operands[k]];
      if (l->operands[k] < c->num_inputs && v->last_call == m->order[i] && !reads_later(l, k, l->operands[k]))
        bytes += weft_dtype_size(weft_chain_type(c, l->operands[k]));
    }
  }
  return bytes;
}

/* Slots get their offsets. */
static void lay_out_slots(const layout_maker_t *m, chain_phase_t *p) {
  const size_t streams = (size_t)p->cost.bytes, each = streams + (size_t)m->num_slots * m->slot_size;
  int64_t block = each == 0 ? MOST_BLOCK : (int64_t)(BLOCK_BYTES / each) & ~(int64_t)(BLOCK_UNIT - 1);
  if (block < LEAST_BLOCK) block = LEAST_BLOCK;
  if (block > MOST_BLOCK) block = MOST_BLOCK;
  p->block = block;
  const size_t elements = (size_t)(p->count < block ? p->count : block);
  const size_t slot_bytes = (elements * m->slot_size + 15) & ~(size_t)15;
  p->slot_bytes = slot_bytes * (size_t)m->num_slots;
  for (uint32_t i = p->first_call; i < p->end_call; i++) {
    chain_call_t *call = &m->l->calls[i];
    const uint32_t n = call->form == CHAIN_SPREAD ? 1 : call->is.num_operands;
    if (call->to.base == CHAIN_BASE_SLOTS) call->to.offset *= slot_bytes;
    for (uint32_t k = 0; k < n; k++) {
      chain_place_t *at = &m->l->operands[call->first_operand + k].at;
      if (at->base == CHAIN_BASE_SLOTS) at->offset *= slot_bytes;
    }
  }
}

static void add_phase(layout_maker_t *m, chain_phase_t *p, uint32_t begin, uint32_t end) {
  m->num_free = m->num_slots = m->num_spreads = 0;
  m->first_spread = m->l->num_broadcasts;
  m->slot_size = 0;
  p->first_call = (uint32_t)m->l->num_calls;
  find_last_calls(m, begin, end);
  p->cost.bytes = (double)bytes_of_inputs(m, begin, end);
  for (uint32_t i = begin; i < end; i++) add_call(m, p, m->order[i]);
  p->end_call = (uint32_t)m->l->num_calls;
  lay_out_slots(m, p);
  p->cost.bytes *= (double)p->block;
  p->cost.cycles *= (double)p->block;
  p->is_serial = weft_loop_plan((p->count - 1) / p->block + 1, p->cost).max_threads == 1;
}

static weft_status_t *add_phases(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  chain_layout_t *l = m->l;
  size_t operands = 0, spreads = 0;
  for (int i = 0; i < c->num_links; i++) {
    operands += (size_t)c->links[i].num_operands;
    for (int k = 0; k < c->links[i].num_operands; k++) {
      const int64_t count = m->values[c->links[i].operands[k]].count;
      spreads += count > 1 && count != result_of(m, i)->count;
    }
  }
  const size_t links = (size_t)c->num_links;
  l->calls = weft_arena_calloc(&l->arena, links + spreads, sizeof *l->calls);
  l->operands = weft_arena_calloc(&l->arena, operands + spreads, sizeof *l->operands);
  l->broadcasts = weft_arena_calloc(&l->arena, spreads + 1, sizeof *l->broadcasts);
  m->free_slots = weft_arena_calloc(&m->arena, links + operands, sizeof *m->free_slots);
  m->spread_values = weft_arena_calloc(&m->arena, spreads + 1, sizeof *m->spread_values);
  m->spread_slots = weft_arena_calloc(&m->arena, spreads + 1, sizeof *m->spread_slots);
  if (l->calls == NULL || l->operands == NULL || l->broadcasts == NULL || m->free_slots == NULL ||
      m->spread_values == NULL || m->spread_slots == NULL)
    return no_memory(m);
  for (int p = 0, begin = 0; p < l->num_phases; p++) {
    const int end = (int)l->phases[p].end_call;
    add_phase(m, &l->phases[p], (uint32_t)begin, (uint32_t)end);
    begin = end;
  }
  return NULL;
}

/* ---- outputs ---- */

/* May output value `o`, of link `link`, take over the memory of input `in`? */
static bool may_take(const layout_maker_t *m, int64_t o, int link, const int *rank, int in) {
  const weft_chain_t *c = &m->c->chain;
  const chain_value_t *from = &m->values[in], *to = &m->values[o];
  if (from->count != to->count || weft_chain_type(c, in) != weft_chain_type(c, o)) return false;
  if (from->last_call == NONE) return false; /* read by smaller phases or none: leave it alone */
  if (from->last_call != link) return rank[from->last_call] < rank[link];
  const weft_chain_link_t *l = &c->links[link];
  for (int k = 0; k < l->num_operands; k++) {
    if (l->operands[k] == in && !may_overwrite(m, link, k)) return false;
  }
  return true;
}

/* An input that is read in a later phase than its own, as what is broadcast, stays as it is. */
static void find_broadcast_inputs(const layout_maker_t *m, bool *out) {
  const weft_chain_t *c = &m->c->chain;
  for (int i = 0; i < c->num_links; i++) {
    for (int k = 0; k < c->links[i].num_operands; k++) {
      const int64_t v = c->links[i].operands[k];
      if (v < c->num_inputs && m->values[v].count != result_of(m, i)->count) out[v] = true;
    }
  }
}

static weft_status_t *find_outputs(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  enum { MOST_TRIED = 64 }; /* inputs, for an output */
  bool *is_broadcast = weft_arena_calloc(&m->arena, (size_t)c->num_inputs, sizeof *is_broadcast);
  int *rank = weft_arena_calloc(&m->arena, (size_t)c->num_links, sizeof *rank);
  m->l->outputs = weft_arena_calloc(&m->l->arena, (size_t)c->num_outputs, sizeof *m->l->outputs);
  if (is_broadcast == NULL || rank == NULL || m->l->outputs == NULL) return no_memory(m);
  find_broadcast_inputs(m, is_broadcast);
  for (int i = 0; i < m->num_ordered; i++) rank[m->order[i]] = i;
  for (int i = 0; i < c->num_outputs; i++) {
    const int64_t value = c->outputs[i];
    chain_output_t *o = &m->l->outputs[i];
    *o = (chain_output_t){.type = weft_chain_type(c, value), .shape = m->values[value].shape};
    if (m->values[value].count == 0) continue;
    for (int in = 0; in < c->num_inputs && in < MOST_TRIED; in++) {
      if (o->num_candidates == CHAIN_MAX_CANDIDATES) break;
      if (!is_broadcast[in] && may_take(m, value, (int)value - c->num_inputs, rank, in))
        o->candidates[o->num_candidates++] = in;
    }
  }
  return NULL;
}

/* ---- all of it ---- */

weft_status_t *weft_cpu_chain_layout_create(const cpu_chain_t *c, const weft_shape_t *const *inputs,
                                            chain_layout_t **out, int *out_failed) {
  *out_failed = -1;
  chain_layout_t *l = weft_calloc(1, sizeof *l);
  layout_maker_t m = {.c = c, .l = l, .arena = WEFT_ARENA_INIT};
  if (l == NULL) return no_memory(&m);
  weft_status_t *s = find_shapes(&m, inputs, out_failed);
  if (s == NULL) s = find_phases(&m);
  if (s == NULL) s = find_kept(&m);
  if (s == NULL) s = add_phases(&m);
  if (s == NULL) s = find_outputs(&m);
  weft_arena_deinit(&m.arena);
  if (s != NULL) {
    weft_cpu_chain_layout_destroy(l);
    return s;
  }
  *out = l;
  return NULL;
}

void weft_cpu_chain_layout_destroy(chain_layout_t *l) {
  if (l == NULL) return;
  weft_arena_deinit(&l->arena);
  weft_free(l);
}
