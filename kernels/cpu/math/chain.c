/* kernels/cpu/math/chain.c - _WeftChain: elementwise nodes that feed only each other, computed block by
 * block.
 *
 * A block of the result is small enough for the first-level cache, and all links run on it before the next
 * one, each by the loop of its own kernel (loops/map.h). Inputs are read in the result's shape: a link before
 * a broadcast computes its elements as often as they are needed. A link's block lies in a slot until its last
 * consumer has run.
 */
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map.h"
#include "ops/chain.h"

enum { BLOCK = 1024, WIDEST = 16 }; /* elements; bytes of one */

typedef struct chain_step {
  const weft_map1_t *one;
  const weft_map2_t *two;
  int slot; /* of the result; unused for the last link */
} chain_step_t;

typedef struct chain_state {
  weft_chain_t chain; /* the plan's attributes */
  int num_slots;      /* the first ones are the inputs' */
  bool is_costly;
  chain_step_t steps[];
} chain_state_t;

/* ---- compiling ---- */

static const weft_kernel_t *kernel_of(const weft_chain_t *c, const weft_chain_link_t *l) {
  const weft_named_attr_t type = weft_type_attr("T", (int)weft_chain_type(c, l->operands[0]));
  return weft_kernel_find("CPU", l->op->name, &type, 1);
}

static weft_status_t *find_loop(const weft_chain_t *c, const weft_chain_link_t *l, chain_step_t *out) {
  const bool may_fail = weft_dtype_is_integer(weft_chain_type(c, l->operands[0]));
  const uint32_t checks = may_fail ? WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_CHECK_EXPONENT : 0;
  const weft_kernel_t *k = kernel_of(c, l);
  if (k != NULL && k->compute == weft_map1_compute && l->num_operands == 1) out->one = k->param;
  if (k != NULL && k->compute == weft_map2_compute && l->num_operands == 2) out->two = k->param;
  if (out->one != NULL || (out->two != NULL && (out->two->flags & checks) == 0)) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "the CPU has no loop for %.*s in a chain", WEFT_STR_ARGS(l->op->name));
}

/* The last link that reads each value. */
static void find_last_uses(const weft_chain_t *c, int *out) {
  for (int v = 0; v < c->num_inputs + c->num_links; v++) out[v] = -1;
  for (int i = 0; i < c->num_links; i++) {
    for (int k = 0; k < c->links[i].num_operands; k++) out[c->links[i].operands[k]] = i;
  }
}

/* A link may write where an operand lies that it is the last to read: the loops read before they write. */
static void give_slots(chain_state_t *st) {
  const weft_chain_t *c = &st->chain;
  int last_use[WEFT_CHAIN_MAX_VALUES], unused[WEFT_CHAIN_MAX_VALUES], num_unused = 0;
  find_last_uses(c, last_use);
  st->num_slots = c->num_inputs;
  for (int i = 0; i < c->num_links; i++) {
    st->steps[i].slot = num_unused > 0 ? unused[--num_unused] : st->num_slots++;
    for (int k = 0; k < c->links[i].num_operands; k++) {
      const int64_t from = c->links[i].operands[k];
      bool is_first = true;
      for (int j = 0; j < k; j++) is_first = is_first && c->links[i].operands[j] != from;
      if (is_first && from >= c->num_inputs && last_use[from] == i)
        unused[num_unused++] = st->steps[from - c->num_inputs].slot;
    }
  }
}

static weft_status_t *chain_prepare(const weft_kernel_setup_t *setup, void **out) {
  weft_chain_t c;
  WEFT_RETURN_IF_ERROR(weft_chain_read(setup->attrs, setup->num_attrs, &c));
  chain_state_t *st = weft_calloc(1, sizeof *st + (size_t)c.num_links * sizeof st->steps[0]);
  if (st == NULL) return WEFT_NO_MEMORY("preparing a chain of %d links", c.num_links);
  st->chain = c;
  for (int i = 0; i < c.num_links; i++) {
    weft_status_t *s = find_loop(&c, &c.links[i], &st->steps[i]);
    if (s != NULL) {
      weft_free(st);
      return s;
    }
    const uint32_t flags = st->steps[i].one != NULL ? st->steps[i].one->flags : st->steps[i].two->flags;
    st->is_costly = st->is_costly || (flags & WEFT_MAP_COSTLY) != 0;
  }
  give_slots(st);
  *out = st;
  return NULL;
}

/* ---- running ---- */

typedef struct chain_input {
  const char *data;
  size_t size; /* of an element */
  int step;    /* 1: as the result; 0: one element; -1: `broadcast` says */
  weft_broadcast_t broadcast;
} chain_input_t;

typedef struct chain_run {
  const chain_state_t *st;
  chain_input_t *inputs;
  char *out;
  size_t out_size;
  atomic_bool failed; /* no memory for blocks */
} chain_run_t;

typedef struct chain_gather {
  const chain_input_t *input;
  char *to;
  int64_t begin;
} chain_gather_t;

static void gather(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const chain_gather_t *g = arg;
  const size_t size = g->input->size;
  const char *from = g->input->data + (size_t)at[1] * size;
  char *to = g->to + (size_t)(out_at - g->begin) * size;
  if (step[1] != 0) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * size, from, size);
}

static void run_block(const chain_run_t *r, int64_t begin, int64_t n, char *slots) {
  const weft_chain_t *c = &r->st->chain;
  const char *values[WEFT_CHAIN_MAX_VALUES];
  int step[WEFT_CHAIN_MAX_VALUES];
  for (int i = 0; i < c->num_inputs; i++) {
    const chain_input_t *in = &r->inputs[i];
    step[i] = in->step != 0;
    values[i] = in->step > 0 ? in->data + (size_t)begin * in->size : in->data;
    if (in->step >= 0) continue;
    chain_gather_t g = {in, slots + (size_t)i * BLOCK * WIDEST, begin};
    weft_broadcast_walk(&in->broadcast, begin, begin + n, gather, &g);
    values[i] = g.to;
  }
  for (int i = 0; i < c->num_links; i++) {
    const chain_step_t *s = &r->st->steps[i];
    const int64_t *from = c->links[i].operands;
    const bool is_last = i == c->num_links - 1;
    char *to = is_last ? r->out + (size_t)begin * r->out_size : slots + (size_t)s->slot * BLOCK * WIDEST;
    const weft_dtype_t type = weft_cpu_stored_as(weft_chain_type(c, from[0]));
    const bool steps = step[from[0]] != 0 || (s->two != NULL && step[from[1]] != 0);
    const int64_t count = steps ? n : 1; /* of scalars the result is one, too */
    if (s->two != NULL) {
      s->two->fns[type](count, values[from[0]], step[from[0]], values[from[1]], step[from[1]], to);
    } else {
      s->one->fns[type](count, values[from[0]], to);
    }
    values[c->num_inputs + i] = to;
    step[c->num_inputs + i] = steps;
  }
}

static void run_range(void *arg, int64_t begin, int64_t end) {
  chain_run_t *r = arg;
  char *slots = weft_malloc((size_t)r->st->num_slots * BLOCK * WIDEST);
  if (slots == NULL) {
    atomic_store(&r->failed, true);
    return;
  }
  for (int64_t at = begin; at < end; at += BLOCK)
    run_block(r, at, end - at < BLOCK ? end - at : BLOCK, slots);
  weft_free(slots);
}

static weft_status_t *read_inputs(const weft_kernel_ctx_t *ctx, const weft_shape_t *result,
                                  chain_input_t *inputs) {
  for (int i = 0; i < ctx->node->num_inputs; i++) {
    const weft_tensor_t *t = weft_in(ctx, i);
    const weft_shape_t *shapes[2] = {result, &t->shape};
    inputs[i] = (chain_input_t){.data = t->data, .size = weft_dtype_size(t->dtype), .step = -1};
    if (weft_shape_eq(&t->shape, result)) inputs[i].step = 1;
    if (t->count == 1) inputs[i].step = 0;
    if (inputs[i].step < 0 && !weft_broadcast_init(&inputs[i].broadcast, shapes, 2))
      return WEFT_ERROR(INTERNAL, "input %d of a chain has not the result's shape", i);
  }
  return NULL;
}

/* The result may lie in an input that is read exactly where it is written. */
static weft_status_t *make_output(weft_kernel_ctx_t *ctx, const weft_shape_t *shape, weft_tensor_t **out) {
  const weft_dtype_t type = weft_dtype_base(ctx->node->output_types[0]);
  for (int i = 0; i < ctx->node->num_inputs; i++) {
    const weft_tensor_t *t = weft_in(ctx, i);
    if (t->dtype == type && weft_shape_eq(&t->shape, shape) && weft_tensor_is_exclusive(t))
      return weft_out_forward(ctx, i, 0, type, shape, out);
  }
  return weft_out_new(ctx, 0, type, shape, out);
}

static weft_status_t *chain_compute(weft_kernel_ctx_t *ctx) {
  const chain_state_t *st = ctx->state;
  const weft_chain_t *c = &st->chain;
  weft_shape_t shapes[WEFT_CHAIN_MAX_VALUES];
  chain_input_t inputs[WEFT_CHAIN_MAX_INPUTS];
  weft_tensor_t *out = NULL;
  for (int i = 0; i < c->num_inputs; i++) shapes[i] = weft_in(ctx, i)->shape;
  WEFT_RETURN_IF_ERROR(weft_chain_infer(c, shapes));
  const weft_shape_t *result = &shapes[c->num_inputs + c->num_links - 1];
  WEFT_RETURN_IF_ERROR(read_inputs(ctx, result, inputs));
  WEFT_RETURN_IF_ERROR(make_output(ctx, result, &out));
  if (out->count == 0) return NULL;
  chain_run_t r = {.st = st, .inputs = inputs, .out = out->data, .out_size = weft_dtype_size(out->dtype)};
  atomic_init(&r.failed, false);
  weft_unit_cost_t element = weft_cpu_element(r.out_size, st->is_costly);
  for (int i = 0; i < c->num_inputs; i++) element.bytes += (double)inputs[i].size;
  element.cycles += c->num_links; /* the values between them are in the first-level cache */
  weft_parallel_for_cost(ctx->device->pool, out->count, element, run_range, &r);
  return atomic_load(&r.failed) ? WEFT_NO_MEMORY("the blocks of a chain of %d links", c->num_links) : NULL;
}

const weft_kernel_t weft_cpu_chain_kernels[] = {
    {.op = "_WeftChain", .prepare = chain_prepare, .compute = chain_compute, .destroy = weft_free},
    {0},
};
