/* kernels/cpu/math/chain_layout.c - a chain for inputs of certain shapes: where values lie, and calls. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/math/chain_maker.h"

/* What a block of all values that a phase has at once should take: half of the first-level cache, in which
 * the loops' own tables lie, too. A block is also the least that a thread takes, so that it should not be
 * larger than what makes up for the calls of its loops. */
enum { BLOCK_BYTES = 24 << 10, LEAST_BLOCK = 256, MOST_BLOCK = 1024, BLOCK_UNIT = 64 };

/* The slots of a phase for values of one width. */
typedef struct slot_pool {
  int *free;
  int num_free, num;
  size_t size; /* bytes an element of a slot has */
} slot_pool_t;

/* A value that is broadcast to a shape, in a slot of its phase. */
typedef struct spread_value {
  int64_t value;
  int slot;
} spread_value_t;

typedef struct layout_calls {
  layout_maker_t *m;
  chain_phase_t *phase; /* the one at hand, and of that: */
  slot_pool_t pools[2]; /* of one element a unit, and of a row */
  spread_value_t *spreads;
  int num_spreads, first_spread;
} layout_calls_t;

static weft_status_t *no_memory(const layout_maker_t *m) {
  return WEFT_NO_MEMORY("a chain of %d links", m->c->chain.num_links);
}

/* ---- where values lie ---- */

static weft_status_t *keep(layout_maker_t *m, int64_t value) {
  chain_value_t *v = &m->values[value];
  size_t bytes = 0;
  v->where = IN_KEPT;
  v->kept_at = m->l->kept_bytes;
  if (!weft_mul_size((size_t)v->count, weft_dtype_size(weft_chain_type(&m->c->chain, value)), &bytes) ||
      !weft_add_size(bytes, v->kept_at + 15, &bytes))
    return no_memory(m);
  m->l->kept_bytes = bytes & ~(size_t)15;
  return NULL;
}

static weft_status_t *find_kept(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  for (int i = 0; i < c->num_outputs; i++) {
    m->values[c->outputs[i]].where = IN_OUTPUT;
    m->values[c->outputs[i]].index = i;
  }
  for (int i = 0; i < m->num_ordered; i++) {
    const int link = m->order[i];
    const bool is_whole = chain_is_fold(m, link) && m->folds[link].rows == 0;
    for (int k = 0; k < c->links[link].num_operands; k++) {
      const int64_t value = c->links[link].operands[k];
      const chain_value_t *v = &m->values[value];
      if (v->where == IN_SLOT && m->phase_of[value - c->num_inputs] != m->phase_of[link])
        WEFT_RETURN_IF_ERROR(keep(m, value));
    }
    if (is_whole && chain_result(m, link)->where == IN_SLOT)
      WEFT_RETURN_IF_ERROR(keep(m, c->num_inputs + link));
    for (int k = 0; k < c->links[link].num_operands; k++)
      m->values[c->links[link].operands[k]].last_call = link;
  }
  return NULL;
}

/* Elements that a unit of the phase has of a value that is not broadcast. */
static int64_t width_of(const layout_calls_t *a, const chain_value_t *v) {
  return v->count == a->phase->count ? 1 : a->phase->width;
}

/* The offset of a slot is its number, with its pool in the lowest bit, until the block's size is known. */
static chain_place_t slot_place(int slot, bool is_wide) {
  return (chain_place_t){(size_t)slot << 1 | is_wide, CHAIN_BASE_SLOTS, 0};
}

/* `width`: elements that each unit has of it; 0: all units read the same. */
static chain_place_t place_of(const layout_maker_t *m, int64_t value, int64_t width) {
  const weft_chain_t *c = &m->c->chain;
  const chain_value_t *v = &m->values[value];
  const uint32_t unit = (uint32_t)width * (uint32_t)weft_dtype_size(weft_chain_type(c, value));
  switch (v->where) {
    case IN_INPUT: return (chain_place_t){0, (uint32_t)(CHAIN_FIRST_BASE + v->index), unit};
    case IN_OUTPUT: return (chain_place_t){0, (uint32_t)(CHAIN_FIRST_BASE + c->num_inputs + v->index), unit};
    case IN_KEPT: return (chain_place_t){v->kept_at, CHAIN_BASE_KEPT, unit};
    case IN_SLOT: break;
  }
  return (chain_place_t){(size_t)v->index, CHAIN_BASE_SLOTS, 0}; /* of slot_place() */
}

static int take_slot(slot_pool_t *p, size_t size) {
  if (size > p->size) p->size = size;
  return p->num_free > 0 ? p->free[--p->num_free] : p->num++;
}

/* ---- operands ---- */

/* The slot with a value that has fewer elements than the phase, in the shape of its reader. */
static chain_place_t spread(layout_calls_t *a, int64_t value, const chain_value_t *reader) {
  chain_layout_t *l = a->m->l;
  const size_t size = weft_dtype_size(weft_chain_type(&a->m->c->chain, value));
  const int64_t width = width_of(a, reader);
  for (int i = 0; i < a->num_spreads; i++) {
    const weft_broadcast_t *b = &l->broadcasts[a->first_spread + i];
    if (a->spreads[i].value == value && weft_shape_eq(&b->shape, &reader->shape))
      return slot_place(a->spreads[i].slot, width > 1);
  }
  const weft_shape_t *shapes[2] = {&reader->shape, &a->m->values[value].shape};
  (void)weft_broadcast_init(&l->broadcasts[l->num_broadcasts], shapes, 2); /* the link's did */
  slot_pool_t *pool = &a->pools[width > 1];
  if (size > pool->size) pool->size = size;
  const int slot = pool->num++; /* until the end of the phase: others may read it */
  l->calls[l->num_calls++] = (chain_call_t){.to = slot_place(slot, width > 1),
                                            .first_operand = (uint32_t)l->num_operands,
                                            .width = (uint32_t)width,
                                            .form = CHAIN_SPREAD,
                                            .size = (uint16_t)size,
                                            .is.spread = (uint32_t)l->num_broadcasts++};
  l->operands[l->num_operands++] =
      (chain_operand_t){place_of(a->m, value, 0), 0, 1}; /* the walk says where */
  a->phase->cost.bytes += (double)size * (double)width;
  a->spreads[a->num_spreads++] = (spread_value_t){value, slot};
  return slot_place(slot, width > 1);
}

/* How a link's result is computed from one of its operands. May add a call that spreads it. */
static chain_operand_t find_operand(layout_calls_t *a, int link, int k, bool *out_by_rows) {
  const layout_maker_t *m = a->m;
  const int64_t value = m->c->chain.links[link].operands[k];
  const chain_value_t *from = &m->values[value], *v = chain_result(m, link);
  const uint32_t size = (uint32_t)weft_dtype_size(weft_chain_type(&m->c->chain, value));
  if (chain_is_fold(m, link)) return (chain_operand_t){place_of(m, value, a->phase->width), 0, 1};
  const int64_t width = width_of(a, v);
  if (from->count == v->count) return (chain_operand_t){place_of(m, value, width), (uint32_t)width * size, 1};
  if (from->count == 1) return (chain_operand_t){place_of(m, value, 0), 0, 0};
  if (width > 1 && weft_cpu_chain_is_per_row(from, &v->shape, a->phase->count)) {
    *out_by_rows = true;
    return (chain_operand_t){place_of(m, value, 1), size, 0};
  }
  if (width > 1 && weft_cpu_chain_is_per_column(from, &v->shape, a->phase->count)) {
    *out_by_rows = true;
    return (chain_operand_t){place_of(m, value, 0), 0, 1};
  }
  return (chain_operand_t){spread(a, value, v), (uint32_t)width * size, 1};
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
  const chain_loop_form_t form = m->forms[link];
  if (weft_dtype_size(weft_chain_type(&m->c->chain, l->operands[k])) != m->c->loops[link].size) return false;
  if (form == CHAIN_CAST || form == CHAIN_FOLD) return false;      /* operand and result do not overlap */
  return form != CHAIN_SUM || l->num_operands <= WEFT_SUM_AT_ONCE; /* else it is written too soon */
}

/* Gives back the slots of operands that no later link reads. */
static void free_operands(layout_calls_t *a, int link, bool overwritten) {
  const weft_chain_link_t *l = &a->m->c->chain.links[link];
  for (int k = 0; k < l->num_operands; k++) {
    const chain_value_t *v = &a->m->values[l->operands[k]];
    if (v->where != IN_SLOT || v->last_call != link || reads_later(l, k, l->operands[k])) continue;
    bool may = true;
    for (int j = 0; j <= k; j++)
      may = may && (l->operands[j] != l->operands[k] || may_overwrite(a->m, link, j));
    slot_pool_t *pool = &a->pools[v->index & 1];
    if (may == overwritten) pool->free[pool->num_free++] = v->index >> 1;
  }
}

/* ---- calls ---- */

/* Operands of a fold are its first input alone. */
static int num_operands_of(const layout_maker_t *m, int link) {
  return chain_is_fold(m, link) || m->forms[link] == CHAIN_COPY ? 1 : m->c->chain.links[link].num_operands;
}

static void add_call(layout_calls_t *a, int link) {
  const layout_maker_t *m = a->m;
  chain_layout_t *to = m->l;
  const chain_loop_t *loop = &m->c->loops[link];
  const bool is_fold = chain_is_fold(m, link);
  const int n = num_operands_of(m, link);
  chain_value_t *v = &m->values[m->c->chain.num_inputs + link];
  const int64_t width = width_of(a, v), walked = is_fold ? a->phase->width : width;
  chain_call_t call = {.fn = loop->fn,
                       .width = (uint32_t)walked,
                       .form = (uint16_t)m->forms[link],
                       .size = (uint16_t)loop->size,
                       .is.num_operands = (uint32_t)n};
  chain_operand_t first[3] = {{.step = 0}}; /* what has more than three is not broadcast */
  for (int k = 0; k < n && k < 3; k++) first[k] = find_operand(a, link, k, &call.by_rows);
  call.first_operand = (uint32_t)to->num_operands;
  for (int k = 0; k < n; k++)
    to->operands[to->num_operands++] = k < 3 ? first[k] : find_operand(a, link, k, &call.by_rows);
  free_operands(a, link, true);
  if (v->where == IN_SLOT) {
    slot_pool_t *pool = &a->pools[width > 1];
    const int slot = take_slot(pool, loop->size);
    v->index = slot << 1 | (width > 1);
    if (v->last_call == NONE) pool->free[pool->num_free++] = slot; /* nothing reads it */
  }
  free_operands(a, link, false);
  call.to = place_of(m, m->c->chain.num_inputs + link, width);
  to->calls[to->num_calls++] = call;
  a->phase->cost.cycles += ((loop->flags & WEFT_MAP_COSTLY) != 0 ? 16 : 0.5) * (double)walked;
  if (v->where != IN_SLOT) a->phase->cost.bytes += (double)loop->size * (double)width;
}

/* Bytes of inputs that a unit reads. */
static size_t bytes_of_inputs(const layout_calls_t *a, uint32_t begin, uint32_t end) {
  const weft_chain_t *c = &a->m->c->chain;
  size_t bytes = 0;
  for (uint32_t i = begin; i < end; i++) {
    const int link = a->m->order[i];
    const weft_chain_link_t *l = &c->links[link];
    for (int k = 0; k < num_operands_of(a->m, link); k++) {
      const chain_value_t *v = &a->m->values[l->operands[k]];
      if (l->operands[k] < c->num_inputs && v->last_call == link && !reads_later(l, k, l->operands[k]) &&
          v->count == a->phase->count * a->phase->width)
        bytes += weft_dtype_size(weft_chain_type(c, l->operands[k])) * (size_t)a->phase->width;
    }
  }
  return bytes;
}

/* Units of a block whose values take `each` bytes a unit. */
static int64_t block_of(const chain_phase_t *p, size_t each) {
  const int64_t fits = each == 0 ? MOST_BLOCK : (int64_t)(BLOCK_BYTES / each);
  if (p->width > 1) {
    const int64_t least = (LEAST_BLOCK - 1) / p->width + 1;
    return fits < least ? least : fits;
  }
  const int64_t block = fits & ~(int64_t)(BLOCK_UNIT - 1);
  return block < LEAST_BLOCK ? LEAST_BLOCK : block > MOST_BLOCK ? MOST_BLOCK : block;
}

/* Slots get their offsets: those of single elements first, then those of rows. */
static void lay_out_slots(const layout_calls_t *a) {
  chain_phase_t *p = a->phase;
  const size_t width = (size_t)p->width, streams = (size_t)p->cost.bytes;
  p->block = block_of(p, streams + (size_t)a->pools[0].num * a->pools[0].size +
                             (size_t)a->pools[1].num * a->pools[1].size * width);
  const size_t units = (size_t)(p->count < p->block ? p->count : p->block);
  const size_t bytes[2] = {(units * a->pools[0].size + 63) & ~(size_t)63,
                           (units * width * a->pools[1].size + 63) & ~(size_t)63};
  const size_t begins[2] = {0, (size_t)a->pools[0].num * bytes[0]};
  p->slot_bytes = begins[1] + (size_t)a->pools[1].num * bytes[1];
  for (uint32_t i = p->first_call; i < p->end_call; i++) {
    chain_call_t *call = &a->m->l->calls[i];
    const uint32_t n = call->form == CHAIN_SPREAD ? 1 : call->is.num_operands;
    for (uint32_t k = 0; k <= n; k++) {
      chain_place_t *at = k == n ? &call->to : &a->m->l->operands[call->first_operand + k].at;
      const size_t slot = at->offset;
      if (at->base == CHAIN_BASE_SLOTS) at->offset = begins[slot & 1] + (slot >> 1) * bytes[slot & 1];
    }
  }
}

static weft_status_t *keep_dims_of_whole(chain_layout_t *l, chain_phase_t *p) {
  weft_reduced_dims_t *dims = weft_arena_calloc(&l->arena, 1, sizeof *dims);
  if (dims == NULL) return WEFT_NO_MEMORY("a chain that folds a tensor");
  *dims = *p->whole;
  p->whole = dims;
  return NULL;
}

static weft_status_t *add_phase(layout_calls_t *a, uint32_t begin) {
  chain_phase_t *p = a->phase;
  const uint32_t end = p->end_call;
  a->num_spreads = 0;
  a->first_spread = a->m->l->num_broadcasts;
  for (int i = 0; i < 2; i++) a->pools[i] = (slot_pool_t){.free = a->pools[i].free};
  p->first_call = (uint32_t)a->m->l->num_calls;
  p->cost.bytes = (double)bytes_of_inputs(a, begin, end);
  for (uint32_t i = begin; i < end; i++) add_call(a, a->m->order[i]);
  p->end_call = (uint32_t)a->m->l->num_calls;
  if (p->whole != NULL) return keep_dims_of_whole(a->m->l, p);
  lay_out_slots(a);
  p->cost.bytes *= (double)p->block;
  p->cost.cycles *= (double)p->block;
  p->is_serial = weft_loop_plan((p->count - 1) / p->block + 1, p->cost).max_threads == 1;
  return NULL;
}

static weft_status_t *add_phases(layout_maker_t *m) {
  const weft_chain_t *c = &m->c->chain;
  chain_layout_t *l = m->l;
  size_t operands = 0, spreads = 0;
  for (int i = 0; i < c->num_links; i++) {
    operands += (size_t)c->links[i].num_operands;
    for (int k = 0; k < c->links[i].num_operands; k++) {
      const int64_t count = m->values[c->links[i].operands[k]].count;
      spreads += count > 1 && count != chain_result(m, i)->count;
    }
  }
  const size_t links = (size_t)c->num_links;
  layout_calls_t a = {.m = m};
  l->calls = weft_arena_calloc(&l->arena, links + spreads, sizeof *l->calls);
  l->operands = weft_arena_calloc(&l->arena, operands + spreads, sizeof *l->operands);
  l->broadcasts = weft_arena_calloc(&l->arena, spreads + 1, sizeof *l->broadcasts);
  a.spreads = weft_arena_calloc(&m->arena, spreads + 1, sizeof *a.spreads);
  for (int i = 0; i < 2; i++) a.pools[i].free = weft_arena_calloc(&m->arena, links + operands, sizeof(int));
  if (l->calls == NULL || l->operands == NULL || l->broadcasts == NULL || a.spreads == NULL ||
      a.pools[0].free == NULL || a.pools[1].free == NULL)
    return no_memory(m);
  uint32_t begin = 0;
  for (int p = 0; p < l->num_phases; p++) {
    const uint32_t end = l->phases[p].end_call;
    a.phase = &l->phases[p];
    WEFT_RETURN_IF_ERROR(add_phase(&a, begin));
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
  if (from->last_call == NONE) return false; /* nothing with elements reads it: leave it alone */
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
      const bool is_folded = weft_chain_reduces(c->links[i].op) && k == 0;
      if (v < c->num_inputs && !is_folded && m->values[v].count != chain_result(m, i)->count) out[v] = true;
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

weft_status_t *weft_cpu_chain_layout_create(const cpu_chain_t *c, const weft_tensor_t *const *inputs,
                                            chain_layout_t **out, int *out_failed) {
  *out_failed = -1;
  chain_layout_t *l = weft_calloc(1, sizeof *l);
  layout_maker_t m = {.c = c, .l = l, .arena = WEFT_ARENA_INIT};
  if (l == NULL) return no_memory(&m);
  weft_status_t *s = weft_cpu_chain_find_shapes(&m, inputs, out_failed);
  if (s == NULL) s = weft_cpu_chain_find_phases(&m);
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
