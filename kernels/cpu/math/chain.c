/* kernels/cpu/math/chain.c - _WeftChain: elementwise nodes and reductions that are computed together, block
 * by block.
 *
 * Each link runs the loop of its op's own kernel (loops/map.h, reduce.h), so that results are those of the
 * nodes one by one, bit for bit. What follows from shapes is worked out when they are first seen
 * (chain_layout.c) and kept: a step on scalars is then a row of calls.
 */
#include "kernels/cpu/math/chain.h"

#include <string.h>

#include "base/alloc.h"

/* Memory that fits the stack: that of a step on scalars. */
enum { SMALL_BYTES = 4096 };

/* ---- compiling ---- */

weft_status_t *weft_cpu_chain_init(const weft_kernel_setup_t *setup, chain_state_t *st) {
  weft_chain_t *c = &st->c.chain;
  WEFT_RETURN_IF_ERROR(weft_chain_read(&st->arena, setup->attrs, setup->num_attrs, c));
  chain_loop_t *loops = weft_arena_calloc(&st->arena, (size_t)c->num_links, sizeof *loops);
  weft_kernel_node_t *nodes = weft_arena_calloc(&st->arena, (size_t)c->num_links, sizeof *nodes);
  bool *is_axes = weft_arena_calloc(&st->arena, (size_t)c->num_inputs, sizeof *is_axes);
  if (loops == NULL || nodes == NULL || is_axes == NULL)
    return WEFT_NO_MEMORY("preparing a chain of %d links", c->num_links);
  if (c->num_inputs != setup->node.num_inputs || c->num_outputs != setup->node.num_outputs)
    return WEFT_ERROR(INVALID_ARGUMENT, "a _WeftChain has not as many inputs or outputs as its node");
  for (int i = 0; i < c->num_links; i++) {
    const weft_chain_link_t *l = &c->links[i];
    nodes[i] = setup->node;
    nodes[i].name = weft_arena_str(&st->arena, l->node);
    nodes[i].op_name = l->op->name;
    nodes[i].op = l->op;
    if (nodes[i].name.data == NULL) return WEFT_NO_MEMORY("preparing a chain of %d links", c->num_links);
    const weft_dtype_t operand =
        weft_chain_type(c, l->operands[weft_chain_main_operand(l->op, l->num_operands)]);
    if (!weft_cpu_chain_find_loop(l->op, operand, (weft_dtype_t)l->type, &loops[i]))
      return WEFT_ERROR(UNIMPLEMENTED, "the CPU has no loop for %.*s in a chain", WEFT_STR_ARGS(l->op->name));
    if (weft_chain_reduces(l->op)) is_axes[l->operands[1]] = true;
  }
  st->c.loops = loops;
  st->c.nodes = nodes;
  st->c.is_axes = is_axes;
  return NULL;
}

void weft_cpu_chain_deinit(chain_state_t *st) {
  for (int i = 0; i < CHAIN_MOST_LAYOUTS; i++)
    weft_cpu_chain_layout_destroy(atomic_load_explicit(&st->layouts[i], memory_order_relaxed));
  weft_arena_deinit(&st->arena);
}

static void chain_destroy(void *state) {
  weft_cpu_chain_deinit(state);
  weft_free(state);
}

static weft_status_t *chain_prepare(const weft_kernel_setup_t *setup, void **out) {
  chain_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing a chain");
  weft_status_t *s = weft_cpu_chain_init(setup, st);
  if (s != NULL) {
    chain_destroy(st);
    return s;
  }
  *out = st;
  return NULL;
}

/* ---- layouts ---- */

static bool has_shapes(const cpu_chain_t *c, const chain_layout_t *l, const weft_value_t *inputs) {
  const int64_t *p = l->shapes;
  for (int i = 0; i < c->chain.num_inputs; i++) {
    const weft_tensor_t *t = inputs[i].tensor;
    if (*p++ != t->shape.rank) return false;
    for (int d = 0; d < t->shape.rank; d++) {
      if (*p++ != t->shape.dims[d]) return false;
    }
    for (int64_t k = 0; c->is_axes[i] && k < t->count; k++) {
      if (*p++ != weft_cpu_int_at(t, k)) return false;
    }
  }
  return true;
}

static weft_status_t *make_layout(const chain_state_t *st, const weft_value_t *inputs, chain_layout_t **out,
                                  int *out_failed) {
  const int n = st->c.chain.num_inputs;
  const weft_tensor_t **tensors = weft_calloc((size_t)n, sizeof(const weft_tensor_t *));
  if (tensors == NULL) return WEFT_NO_MEMORY("a chain of %d inputs", n);
  for (int i = 0; i < n; i++) tensors[i] = inputs[i].tensor;
  weft_status_t *s = weft_cpu_chain_layout_create(&st->c, tensors, out, out_failed);
  weft_free((void *)tensors);
  return s;
}

/* False: there is no room for it. */
static bool keep_layout(chain_state_t *st, chain_layout_t *l) {
  for (int i = 0; i < CHAIN_MOST_LAYOUTS; i++) {
    chain_layout_t *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&st->layouts[i], &none, l, memory_order_acq_rel,
                                                memory_order_relaxed))
      return true;
  }
  return false;
}

weft_status_t *weft_cpu_chain_find_layout(chain_state_t *st, const weft_value_t *inputs,
                                          chain_finish_fn *finish, const void *arg,
                                          const chain_layout_t **out, bool *out_is_kept, int *out_failed) {
  chain_layout_t *mine = NULL;
  *out_failed = -1;
  *out_is_kept = true;
  for (int i = 0; i < CHAIN_MOST_LAYOUTS; i++) {
    const chain_layout_t *l = atomic_load_explicit(&st->layouts[i], memory_order_acquire);
    if (l == NULL) break;
    if (!has_shapes(&st->c, l, inputs)) continue;
    *out = l;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(make_layout(st, inputs, &mine, out_failed));
  if (finish != NULL) finish(arg, mine);
  *out_is_kept = keep_layout(st, mine);
  *out = mine;
  return NULL;
}

/* ---- running ---- */

typedef struct chain_run {
  const chain_layout_t *layout;
  const chain_phase_t *phase;
  char *const *bases;
  int num_bases;
  atomic_bool failed; /* no memory for slots */
} chain_run_t;

static void repeat(void *to, const void *from, size_t size, int64_t n) {
  switch (size) {
    case 1: memset(to, *(const uint8_t *)from, (size_t)n); break;
    case 2:
      for (int64_t i = 0; i < n; i++) ((uint16_t *)to)[i] = *(const uint16_t *)from;
      break;
    case 4:
      for (int64_t i = 0; i < n; i++) ((uint32_t *)to)[i] = *(const uint32_t *)from;
      break;
    case 8:
      for (int64_t i = 0; i < n; i++) ((uint64_t *)to)[i] = *(const uint64_t *)from;
      break;
    default:
      for (int64_t i = 0; i < n; i++) memcpy((char *)to + (size_t)i * size, from, size);
      break;
  }
}

typedef struct chain_spread {
  const char *from;
  char *to;
  size_t size;
  int64_t begin;
} chain_spread_t;

static void spread(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const chain_spread_t *s = arg;
  const char *from = s->from + (size_t)at[1] * s->size;
  char *to = s->to + (size_t)(out_at - s->begin) * s->size;
  if (step[1] != 0) {
    memcpy(to, from, (size_t)n * s->size);
  } else {
    repeat(to, from, s->size, n);
  }
}

static inline char *place(char *const *bases, const chain_place_t *p, int64_t begin) {
  return bases[p->base] + p->offset + (size_t)begin * p->advance;
}

static void sum(const chain_call_t *c, const chain_operand_t *o, char *const *bases, int64_t begin, int64_t n,
                char *to) {
  const void *x[WEFT_SUM_AT_ONCE] = {place(bases, &o[0].at, begin)};
  uint32_t i = 1;
  do {
    int k = 1;
    for (; i < c->is.num_operands && k < WEFT_SUM_AT_ONCE; i++, k++) x[k] = place(bases, &o[i].at, begin);
    c->fn.sum(n, k, x, to);
    x[0] = to;
  } while (i < c->is.num_operands);
}

/* A call of the loop for each of `rows` rows. */
static void run_by_rows(const chain_call_t *c, const chain_operand_t *o, char *const *bases, int64_t begin,
                        int64_t rows, char *to) {
  const char *x = place(bases, &o[0].at, begin), *y = place(bases, &o[1].at, begin), *z = NULL;
  const size_t row = (size_t)c->width * c->size;
  if (c->form == CHAIN_TWO) {
    for (; rows > 0; rows--, x += o[0].row, y += o[1].row, to += row)
      c->fn.two(c->width, x, o[0].step, y, o[1].step, to);
    return;
  }
  z = place(bases, &o[2].at, begin);
  for (; rows > 0; rows--, x += o[0].row, y += o[1].row, z += o[2].row, to += row)
    c->fn.choose(c->width, (const uint8_t *)x, o[0].step, y, o[1].step, z, o[2].step, to);
}

static void run_call(const chain_layout_t *l, const chain_call_t *c, char *const *bases, int64_t begin,
                     int64_t units) {
  const chain_operand_t *o = l->operands + c->first_operand;
  const int64_t n = units * c->width;
  char *to = place(bases, &c->to, begin);
  const char *x = place(bases, &o[0].at, begin);
  switch ((chain_loop_form_t)c->form) {
    case CHAIN_ONE:
    case CHAIN_CAST: c->fn.one(n, x, to); break;
    case CHAIN_TWO: c->fn.two(n, x, o[0].step, place(bases, &o[1].at, begin), o[1].step, to); break;
    case CHAIN_CHOICE:
      c->fn.choose(n, (const uint8_t *)x, o[0].step, place(bases, &o[1].at, begin), o[1].step,
                   place(bases, &o[2].at, begin), o[2].step, to);
      break;
    case CHAIN_SUM: sum(c, o, bases, begin, n, to); break;
    case CHAIN_FOLD: weft_reduction_rows(c->fn.fold, c->size, units, c->width, x, to); break;
    case CHAIN_ROWS: c->fn.rows(units, c->width, x, to); break;
    case CHAIN_COPY: memmove(to, x, (size_t)n * c->size); break;
    case CHAIN_SPREAD: {
      chain_spread_t s = {x, to, c->size, begin * c->width};
      weft_broadcast_walk(&l->broadcasts[c->is.spread], s.begin, s.begin + n, spread, &s);
      break;
    }
  }
}

void weft_cpu_chain_run_block(const chain_layout_t *l, const chain_phase_t *p, char *const *bases,
                              int64_t begin, int64_t units) {
  for (const chain_call_t *c = l->calls + p->first_call, *end = l->calls + p->end_call; c < end; c++) {
    if (c->by_rows) {
      run_by_rows(c, l->operands + c->first_operand, bases, begin, units, place(bases, &c->to, begin));
    } else {
      run_call(l, c, bases, begin, units);
    }
  }
}

static weft_status_t *run_whole(const chain_layout_t *l, const chain_phase_t *p, weft_thread_pool_t *pool,
                                char *const *bases) {
  const chain_call_t *c = &l->calls[p->first_call];
  return weft_reduction_run(p->whole, pool, c->fn.fold, c->size,
                            place(bases, &l->operands[c->first_operand].at, 0), place(bases, &c->to, 0));
}

/* Blocks [begin, end) of the phase. Slots are this call's own; all other bases are shared. */
static void run_range(void *arg, int64_t begin, int64_t end) {
  chain_run_t *r = arg;
  const chain_phase_t *p = r->phase;
  const size_t bases_bytes = (size_t)r->num_bases * sizeof(char *);
  _Alignas(64) char small[SMALL_BYTES];
  const size_t slots_at = (bases_bytes + 63) & ~(size_t)63, bytes = slots_at + p->slot_bytes;
  char *block = bytes <= sizeof small ? small : weft_aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (block == NULL) {
    atomic_store_explicit(&r->failed, true, memory_order_relaxed);
    return;
  }
  char **bases = (char **)(void *)block;
  memcpy((void *)bases, (const void *)r->bases, bases_bytes);
  bases[CHAIN_BASE_SLOTS] = block + slots_at;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i * p->block, left = p->count - at;
    weft_cpu_chain_run_block(r->layout, p, bases, at, left < p->block ? left : p->block);
  }
  if (block != small) weft_free(block);
}

weft_status_t *weft_cpu_chain_run(const chain_layout_t *l, weft_thread_pool_t *pool, char *const *bases,
                                  int num_bases, int begin, int end) {
  chain_run_t r = {.layout = l, .bases = bases, .num_bases = num_bases};
  atomic_init(&r.failed, false);
  for (int i = begin; i < end; i++) {
    r.phase = &l->phases[i];
    if (r.phase->whole != NULL) {
      WEFT_RETURN_IF_ERROR(run_whole(l, r.phase, pool, bases));
      continue;
    }
    const int64_t num_blocks = (r.phase->count - 1) / r.phase->block + 1;
    if (r.phase->is_serial) {
      run_range(&r, 0, num_blocks);
    } else {
      weft_parallel_for_cost(pool, num_blocks, r.phase->cost, run_range, &r);
    }
  }
  return atomic_load_explicit(&r.failed, memory_order_relaxed) ? WEFT_NO_MEMORY("the blocks of a chain")
                                                               : NULL;
}

/* An output in new memory, or in that of an input that nothing else holds. */
static weft_status_t *make_output(weft_kernel_ctx_t *ctx, int i, const chain_output_t *o,
                                  weft_tensor_t **out) {
  for (int k = 0; k < o->num_candidates; k++) {
    const int in = o->candidates[k];
    const weft_tensor_t *t = weft_in(ctx, in);
    if (t != NULL && ctx->inputs[in].ref == NULL && weft_tensor_is_exclusive(t))
      return weft_out_forward(ctx, in, i, o->type, &o->shape, out);
  }
  return weft_out_new(ctx, i, o->type, &o->shape, out);
}

static weft_status_t *run(const chain_state_t *st, const chain_layout_t *l, weft_kernel_ctx_t *ctx,
                          char **bases, char *kept) {
  const weft_chain_t *c = &st->c.chain;
  char **to = bases + CHAIN_FIRST_BASE;
  bases[CHAIN_BASE_SLOTS] = NULL;
  bases[CHAIN_BASE_KEPT] = kept;
  for (int i = 0; i < c->num_inputs; i++)
    *to++ = weft_in(ctx, i)->data; /* stays valid when it is taken over */
  for (int i = 0; i < c->num_outputs; i++) {
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(make_output(ctx, i, &l->outputs[i], &t));
    *to++ = t->data;
  }
  return weft_cpu_chain_run(l, ctx->device->pool, bases, (int)(to - bases), 0, l->num_phases);
}

static weft_status_t *run_layout(const chain_state_t *st, const chain_layout_t *l, weft_kernel_ctx_t *ctx) {
  const size_t num_bases =
      CHAIN_FIRST_BASE + (size_t)st->c.chain.num_inputs + (size_t)st->c.chain.num_outputs;
  const size_t kept_at = (num_bases * sizeof(char *) + 63) & ~(size_t)63;
  _Alignas(64) char small[SMALL_BYTES];
  size_t bytes = 0;
  if (!weft_add_size(kept_at, l->kept_bytes, &bytes)) return WEFT_NO_MEMORY("the values of a chain");
  char *block = bytes <= sizeof small ? small : weft_aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (block == NULL) return WEFT_NO_MEMORY("the values of a chain");
  weft_status_t *s = run(st, l, ctx, (char **)(void *)block, block + kept_at);
  if (block != small) weft_free(block);
  return s;
}

static weft_status_t *chain_compute(weft_kernel_ctx_t *ctx) {
  chain_state_t *st = ctx->state;
  const chain_layout_t *l = NULL;
  bool is_kept = true;
  int failed = -1;
  weft_status_t *s = weft_cpu_chain_find_layout(st, ctx->inputs, NULL, NULL, &l, &is_kept, &failed);
  if (failed >= 0) ctx->failed = &st->c.nodes[failed];
  if (s != NULL) return s;
  s = run_layout(st, l, ctx);
  if (!is_kept) weft_cpu_chain_layout_destroy((chain_layout_t *)l);
  return s;
}

const weft_kernel_t weft_cpu_chain_kernels[] = {
    {.op = "_WeftChain", .prepare = chain_prepare, .compute = chain_compute, .destroy = chain_destroy},
    {0},
};
