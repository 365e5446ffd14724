/* kernels/cpu/math/attention.c - _WeftAttention: two products with a chain between them that works row by
 * row, as softmax does: softmax(scale * q . k' + mask) . v.
 *
 * Each part of some rows of the first product passes through the chain and the second product while it lies
 * in the second-level cache, so that the scores of all rows never lie in memory. A softmax needs the whole
 * row, and has it. Products are computed by tiles.h, of which pieces of rows have the bits of the whole, and
 * the links by the chain's own loops: so results are those of the nodes one by one, bit for bit.
 *
 * Where the shapes do not allow that, or the level has no tiles, the scores are computed as a whole, by the
 * same steps. A product may be an Einsum, as those of Keras: it is read and written where it lies if it can
 * be, and is computed by its kernel else.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/math/batch_product.h"
#include "kernels/cpu/math/chain.h"
#include "kernels/cpu/math/einsum.h"
#include "kernels/cpu/math/tiles.h"
#include "ops/einsum.h"

enum {
  PART_BYTES = 128 << 10, /* of the scores of a part: with as much again for keys and values they lie in the
                             second-level cache */
  LEAST_PART_TILES = 4,   /* tiles of rows that a part has at least: fewer use a panel of keys too rarely */
};

extern const weft_kernel_t weft_cpu_einsum_kernels[];

typedef struct attention_product {
  weft_kernel_node_t node; /* what failures are of */
  weft_gemm_op_t ops[2];   /* of a BatchMatMul */
  bool broadcasts;         /* as BatchMatMulV2 */
  weft_str_t equation;     /* of an Einsum; empty: it is none */
  void *einsum;            /* the state of its kernel */
} attention_product_t;

typedef struct attention {
  chain_state_t chain; /* in the place of input `scores` it reads the first product */
  int scores;
  attention_product_t products[2];
} attention_t;

/* A product of operands of certain shapes. */
typedef struct planned_product {
  weft_batch_product_t p;
  bool is_whole; /* an Einsum that its kernel must compute: of `p` the shape alone is set */
  int a;         /* which operand p.a is */
} planned_product_t;

static weft_status_t *plan_product(const attention_product_t *of, const weft_shape_t *a,
                                   const weft_shape_t *b, planned_product_t *out) {
  const weft_shape_t *const operands[2] = {a, b};
  bool is_one = false;
  double summed = 0;
  *out = (planned_product_t){.a = 0};
  if (of->equation.length == 0)
    return weft_batch_product_plan(of->ops[0], of->ops[1], of->broadcasts, a, b, &out->p);
  WEFT_RETURN_IF_ERROR(weft_einsum_product(of->equation, operands, &out->p, &out->a, &is_one));
  out->is_whole = !is_one;
  return is_one ? NULL : weft_einsum_result(of->equation, operands, 2, &out->p.shape, &summed);
}

/* Do the matrices of operand `which` of the product follow each other without gaps, in the batch's order? */
static bool is_dense(const weft_batch_product_t *p, int which) {
  const int64_t columns = which == 0 ? p->k : p->n, ld = which == 0 ? p->lda : p->ldc;
  int64_t step = p->m * columns;
  for (int d = p->rank - 1; d >= 0; d--) {
    if (p->dims[d] != 1 && p->steps[which][d] != step) return false;
    step *= p->dims[d];
  }
  return ld == columns;
}

/* ---- the layout ---- */

static uint32_t base_of_scores(const attention_t *a) { return (uint32_t)(CHAIN_FIRST_BASE + a->scores); }
static uint32_t base_of_output(const attention_t *a) {
  return (uint32_t)(CHAIN_FIRST_BASE + a->chain.c.chain.num_inputs);
}

static bool is_in_part(const attention_t *a, const chain_place_t *p) {
  return p->base == base_of_scores(a) || p->base == base_of_output(a);
}

/* May the last phase read scores and write its output part by part? All other values it reads as a whole. */
static bool may_stream(const attention_t *a, const chain_layout_t *l) {
  const chain_phase_t *last = &l->phases[l->num_phases - 1];
  const size_t unit = (size_t)last->width * sizeof(float); /* that a place in the part advances by */
  for (uint32_t i = 0; i < last->end_call; i++) {
    const chain_call_t *c = &l->calls[i];
    const uint32_t n = c->form == CHAIN_SPREAD ? 1 : c->is.num_operands;
    for (uint32_t k = 0; k <= n; k++) {
      const chain_place_t *at = k == n ? &c->to : &l->operands[c->first_operand + k].at;
      if (is_in_part(a, at) && (i < last->first_call || at->advance != unit)) return false;
    }
  }
  return true;
}

/* What the layout of a step is completed with. */
typedef struct attention_shapes {
  const attention_t *a;
  const planned_product_t *first;
  const weft_shape_t *v;
} attention_shapes_t;

/* Is the second product one of the scores that the first makes, matrix by matrix? One of few rows, or of one
 * column, gemm.h computes in other ways. */
static bool are_streamed(const attention_shapes_t *s, const chain_layout_t *l) {
  enum { LEAST_ROWS = 8 };
  const weft_batch_product_t *qk = &s->first->p;
  planned_product_t second;
  if (!WEFT_SIMD_FMA || l->num_phases == 0 || s->first->is_whole) return false;
  const chain_phase_t *last = &l->phases[l->num_phases - 1];
  weft_status_t *failure = plan_product(&s->a->products[1], &l->outputs[0].shape, s->v, &second);
  if (failure != NULL) { /* the step will say it */
    weft_status_free(failure);
    return false;
  }
  const weft_batch_product_t *sv = &second.p;
  if (second.is_whole || second.a != 0 || sv->op_a != WEFT_GEMM_PLAIN || !is_dense(qk, 2) || !is_dense(sv, 0))
    return false;
  const bool follows = weft_shape_eq(&l->outputs[0].shape, &qk->shape) && sv->count == qk->count &&
                       sv->m == qk->m && sv->k == qk->n;
  const bool has_size = qk->m >= LEAST_ROWS && qk->k > 0 && qk->n > 1 && sv->n > 1 && qk->count > 0 &&
                        weft_tiles_panels_bytes(qk->k, qk->n) > 0 &&
                        weft_tiles_panels_bytes(sv->k, sv->n) > 0;
  return follows && has_size && last->whole == NULL && qk->n % last->width == 0 && may_stream(s->a, l);
}

/* A chain_finish_fn: what is read and written part by part lies relative to the part. */
static void finish(const void *arg, chain_layout_t *l) {
  const attention_shapes_t *s = arg;
  l->is_streamed = are_streamed(s, l);
  for (int i = 0; l->is_streamed && i < l->num_calls; i++) {
    if (is_in_part(s->a, &l->calls[i].to)) l->calls[i].to.advance = 0;
  }
  for (int i = 0; l->is_streamed && i < l->num_operands; i++) {
    if (is_in_part(s->a, &l->operands[i].at)) l->operands[i].at.advance = 0;
  }
}

/* ---- part by part ---- */

typedef struct attention_run {
  const attention_t *a;
  const chain_layout_t *layout;
  planned_product_t first, second;
  const float *q, *k, *v; /* of the products' a and b; scores are the other one */
  weft_tensor_t *out;     /* lent; NULL: the kernel of the second product makes it */
  char *const *bases;     /* of the chain */
  int num_bases;
  int64_t rows;  /* of a part */
  int64_t parts; /* of a matrix that threads take */
  bool in_place; /* the chain's output may lie where the scores do */
  size_t keys_bytes, values_bytes, scores_bytes;
  atomic_bool failed;
} attention_run_t;

/* What a thread has of its own. */
typedef struct attention_room {
  char *block; /* all of it */
  float *keys, *values, *scores, *shares;
  void *scratch; /* of tiles */
  char **bases;
} attention_room_t;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static bool add_room(size_t bytes, size_t *total, size_t *out_at) {
  *out_at = *total;
  return weft_add_size(*total, bytes, total) && weft_add_size(*total, 63, total) &&
         (*total &= ~(size_t)63, true);
}

static bool open_room(const attention_run_t *r, attention_room_t *out) {
  const chain_phase_t *last = &r->layout->phases[r->layout->num_phases - 1];
  const size_t sizes[] = {r->keys_bytes,
                          r->values_bytes,
                          r->scores_bytes,
                          r->in_place ? 0 : r->scores_bytes,
                          weft_tiles_scratch(WEFT_F32, r->rows, 0),
                          (size_t)r->num_bases * sizeof(char *),
                          last->slot_bytes};
  size_t at[7], total = 0;
  for (int i = 0; i < 7; i++) {
    if (!add_room(sizes[i], &total, &at[i])) return false;
  }
  char *block = weft_aligned_alloc(64, total);
  if (block == NULL) return false;
  *out = (attention_room_t){.block = block,
                            .keys = (float *)(void *)(block + at[0]),
                            .values = (float *)(void *)(block + at[1]),
                            .scores = (float *)(void *)(block + at[2]),
                            .shares = (float *)(void *)(block + at[r->in_place ? 2 : 3]),
                            .scratch = block + at[4],
                            .bases = (char **)(void *)(block + at[5])};
  memcpy((void *)out->bases, (const void *)r->bases, sizes[5]);
  out->bases[CHAIN_BASE_SLOTS] = block + at[6];
  out->bases[base_of_scores(r->a)] = (char *)out->scores;
  out->bases[base_of_output(r->a)] = (char *)out->shares;
  return true;
}

static weft_tiles_t tiles_of(const weft_batch_product_t *p, int64_t rows, const float *a, const float *b,
                             const float *panels, float *c) {
  const bool turns_a = p->op_a != WEFT_GEMM_PLAIN && p->m > 1;
  return (weft_tiles_t){.dtype = WEFT_F32,
                        .turns_a = turns_a,
                        .turns_b = p->op_b != WEFT_GEMM_PLAIN,
                        .dots = p->op_b != WEFT_GEMM_PLAIN && !turns_a ? weft_tiles_dots(p->m, p->k) : 0,
                        .m = rows,
                        .n = p->n,
                        .k = p->k,
                        .lda = p->lda,
                        .ldb = p->ldb,
                        .ldc = p->ldc,
                        .a = a,
                        .b = b,
                        .panels = panels,
                        .c = c};
}

/* Rows [row, row + rows) of matrix i. */
static void run_part(const attention_run_t *r, const attention_room_t *room, int64_t i, int64_t row,
                     int64_t rows, const int64_t first[3], const int64_t second[3]) {
  const weft_batch_product_t *qk = &r->first.p, *sv = &r->second.p;
  const float *q = r->q + first[0] + (qk->op_a == WEFT_GEMM_PLAIN ? row * qk->lda : row);
  const weft_tiles_t scores = tiles_of(qk, rows, q, r->k + first[1], room->keys, room->scores);
  weft_tiles_run(&scores, 0, rows, 0, qk->n, room->scratch);
  const chain_phase_t *p = &r->layout->phases[r->layout->num_phases - 1];
  const int64_t unit_row = qk->n / p->width; /* units of a row of scores */
  for (int64_t u = 0, n = rows * unit_row; u < n; u += p->block) {
    room->bases[base_of_scores(r->a)] = (char *)(room->scores + u * p->width);
    room->bases[base_of_output(r->a)] = (char *)(room->shares + u * p->width);
    weft_cpu_chain_run_block(r->layout, p, room->bases, (i * qk->m + row) * unit_row + u,
                             least(p->block, n - u));
  }
  float *to = (float *)r->out->data + second[2] + row * sv->ldc;
  const weft_tiles_t out = tiles_of(sv, rows, room->shares, r->v + second[1], room->values, to);
  weft_tiles_run(&out, 0, rows, 0, sv->n, room->scratch);
}

/* Units are matrices, or parts of them. */
static void run_units(void *arg, int64_t begin, int64_t end) {
  attention_run_t *r = arg;
  const weft_batch_product_t *qk = &r->first.p, *sv = &r->second.p;
  attention_room_t room;
  int64_t packed = -1;
  if (!open_room(r, &room)) {
    atomic_store_explicit(&r->failed, true, memory_order_relaxed);
    return;
  }
  const int64_t num_parts = (qk->m - 1) / r->rows + 1, each = (num_parts - 1) / r->parts + 1;
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t i = unit / r->parts, from = unit % r->parts * each;
    int64_t first[3], second[3];
    weft_batch_product_place(qk, i, first);
    weft_batch_product_place(sv, i, second);
    if (packed != i) {
      const weft_tiles_t keys = tiles_of(qk, qk->m, NULL, r->k + first[1], NULL, NULL),
                         values = tiles_of(sv, sv->m, NULL, r->v + second[1], NULL, NULL);
      weft_tiles_pack(&keys, 0, keys.n, room.keys);
      weft_tiles_pack(&values, 0, values.n, room.values);
      packed = i;
    }
    for (int64_t p = from; p < least(from + each, num_parts); p++)
      run_part(r, &room, i, p * r->rows, least(r->rows, qk->m - p * r->rows), first, second);
  }
  weft_free(room.block);
}

/* Does the chain's last phase write over the scores where it may? */
static bool may_overwrite_scores(const attention_t *a, const chain_layout_t *l) {
  const chain_output_t *o = &l->outputs[0];
  for (int i = 0; i < o->num_candidates; i++) {
    if (o->candidates[i] == a->scores) return true;
  }
  return false;
}

static void run_streamed(attention_run_t *r, weft_thread_pool_t *pool) {
  const weft_batch_product_t *qk = &r->first.p, *sv = &r->second.p;
  const int64_t tile = weft_tiles_rows(), fits = PART_BYTES / (int64_t)sizeof(float) / qk->n / tile,
                tiles = fits < LEAST_PART_TILES ? LEAST_PART_TILES : fits;
  r->rows = least(tiles * tile, qk->m);
  r->scores_bytes = (size_t)(r->rows * qk->n) * sizeof(float);
  const int64_t num_parts = (qk->m - 1) / r->rows + 1,
                wanted = pool == NULL ? 1 : 2 * weft_thread_pool_size(pool);
  r->parts = qk->count >= wanted ? 1 : least((wanted - 1) / qk->count + 1, num_parts);
  const double row = (double)qk->n * ((double)qk->k + (double)sv->n) * 0.04 + (double)qk->n * 8;
  const int64_t rows = qk->m / r->parts;
  const weft_unit_cost_t cost = {.cycles = row * (double)rows};
  weft_parallel_for_cost(pool, qk->count * r->parts, cost, run_units, r);
}

/* ---- as a whole ---- */

/* The product of x and y. `*out` is NULL, or has the result's shape. */
static weft_status_t *multiply(weft_kernel_ctx_t *ctx, const attention_product_t *of,
                               const planned_product_t *how, weft_tensor_t *x, weft_tensor_t *y,
                               weft_tensor_t **out) {
  weft_thread_pool_t *pool = ctx->device->pool;
  if (of->equation.length == 0) {
    if (*out == NULL)
      WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &how->p.shape, weft_out_allocator(ctx, true), out));
    return weft_batch_product_run(&how->p, pool, WEFT_F32, x->data, y->data, (*out)->data);
  }
  weft_kernel_node_t node = of->node;
  weft_value_t inputs[2] = {{.tensor = x}, {.tensor = y}}, output = {NULL, NULL};
  node.num_inputs = 2;
  node.param = weft_cpu_einsum_kernels[0].param;
  weft_kernel_ctx_t inner = *ctx;
  inner.node = &node;
  inner.state = of->einsum;
  inner.inputs = inputs;
  inner.outputs = &output;
  weft_status_t *s = weft_cpu_einsum_kernels[0].compute(&inner);
  if (s == NULL) {
    *out = output.tensor;
  } else {
    weft_tensor_release(output.tensor);
  }
  return s;
}

static weft_status_t *run_whole(attention_run_t *r, weft_kernel_ctx_t *ctx, char **bases,
                                weft_tensor_t **scores, weft_tensor_t *shares) {
  const attention_t *a = r->a;
  const int n = a->chain.c.chain.num_inputs;
  ctx->failed = &a->products[0].node;
  WEFT_RETURN_IF_ERROR(
      multiply(ctx, &a->products[0], &r->first, weft_in(ctx, a->scores), weft_in(ctx, n - 2), scores));
  bases[base_of_scores(a)] = (*scores)->data;
  bases[base_of_output(a)] = shares->data;
  ctx->failed = &a->products[1].node;
  WEFT_RETURN_IF_ERROR(
      weft_cpu_chain_run(r->layout, ctx->device->pool, bases, r->num_bases, 0, r->layout->num_phases));
  weft_tensor_t *out = r->out;
  WEFT_RETURN_IF_ERROR(multiply(ctx, &a->products[1], &r->second, shares, weft_in(ctx, n - 1), &out));
  weft_out_set(ctx, 0, out);
  return NULL;
}

static weft_status_t *compute_whole(attention_run_t *r, weft_kernel_ctx_t *ctx, char **bases) {
  weft_tensor_t *scores = NULL, *shares = NULL;
  weft_status_t *s =
      weft_tensor_new(WEFT_F32, &r->layout->outputs[0].shape, weft_out_allocator(ctx, true), &shares);
  if (s == NULL) s = run_whole(r, ctx, bases, &scores, shares);
  weft_tensor_release(scores);
  weft_tensor_release(shares);
  return s;
}

/* ---- a step ---- */

static weft_status_t *compute_with(attention_run_t *r, weft_kernel_ctx_t *ctx, char **bases, char *kept) {
  const chain_layout_t *l = r->layout;
  bases[CHAIN_BASE_SLOTS] = NULL;
  bases[CHAIN_BASE_KEPT] = kept;
  for (int i = 0; i < r->a->chain.c.chain.num_inputs; i++)
    bases[CHAIN_FIRST_BASE + i] = weft_in(ctx, i)->data;
  if (!l->is_streamed) return compute_whole(r, ctx, bases);
  r->bases = bases;
  r->keys_bytes = weft_tiles_panels_bytes(r->first.p.k, r->first.p.n);
  r->values_bytes = weft_tiles_panels_bytes(r->second.p.k, r->second.p.n);
  r->in_place = may_overwrite_scores(r->a, l);
  WEFT_RETURN_IF_ERROR(weft_cpu_chain_run(l, ctx->device->pool, bases, r->num_bases, 0, l->num_phases - 1));
  run_streamed(r, ctx->device->pool);
  return atomic_load_explicit(&r->failed, memory_order_relaxed) ? WEFT_NO_MEMORY("parts of an attention")
                                                                : NULL;
}

static const float *operand(const weft_kernel_ctx_t *ctx, int input) { return weft_in(ctx, input)->data; }

static weft_status_t *compute_laid_out(attention_run_t *r, weft_kernel_ctx_t *ctx) {
  const attention_t *a = r->a;
  const int n = a->chain.c.chain.num_inputs;
  ctx->failed = &a->products[1].node;
  WEFT_RETURN_IF_ERROR(
      plan_product(&a->products[1], &r->layout->outputs[0].shape, &weft_in(ctx, n - 1)->shape, &r->second));
  if (r->layout->is_streamed || a->products[1].equation.length == 0)
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &r->second.p.shape, &r->out));
  r->q = operand(ctx, r->first.a == 0 ? a->scores : n - 2);
  r->k = operand(ctx, r->first.a == 0 ? n - 2 : a->scores);
  r->v = operand(ctx, n - 1);
  r->num_bases = CHAIN_FIRST_BASE + n + 1;
  const size_t bases_bytes = ((size_t)r->num_bases * sizeof(char *) + 63) & ~(size_t)63;
  size_t bytes = 0;
  if (!weft_add_size(bases_bytes, r->layout->kept_bytes + 63, &bytes)) return WEFT_NO_MEMORY("an attention");
  char *block = weft_aligned_alloc(64, bytes & ~(size_t)63);
  if (block == NULL) return WEFT_NO_MEMORY("an attention");
  weft_status_t *s = compute_with(r, ctx, (char **)(void *)block, block + bases_bytes);
  weft_free(block);
  return s;
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  enum { FEW_INPUTS = 16 };
  attention_t *a = ctx->state;
  const int n = a->chain.c.chain.num_inputs;
  attention_run_t r = {.a = a};
  atomic_init(&r.failed, false);
  const weft_shape_t *q = &weft_in(ctx, a->scores)->shape, *k = &weft_in(ctx, n - 2)->shape;
  ctx->failed = &a->products[0].node;
  WEFT_RETURN_IF_ERROR(plan_product(&a->products[0], q, k, &r.first));
  /* The chain's inputs: in the place of q stands a tensor of which only the shape is read. */
  weft_value_t few[FEW_INPUTS], *inputs = n <= FEW_INPUTS ? few : weft_calloc((size_t)n, sizeof *inputs);
  if (inputs == NULL) return WEFT_NO_MEMORY("an attention of %d inputs", n);
  memcpy(inputs, ctx->inputs, (size_t)n * sizeof *inputs);
  weft_tensor_t scores = {.dtype = WEFT_F32, .shape = r.first.p.shape};
  inputs[a->scores].tensor = &scores;
  const attention_shapes_t shapes = {a, &r.first, &weft_in(ctx, n - 1)->shape};
  bool is_kept = true;
  int failed = -1;
  weft_status_t *s =
      weft_cpu_chain_find_layout(&a->chain, inputs, finish, &shapes, &r.layout, &is_kept, &failed);
  if (inputs != few) weft_free(inputs);
  if (failed >= 0) ctx->failed = &a->chain.c.nodes[failed];
  if (s != NULL) return s;
  s = compute_laid_out(&r, ctx);
  if (!is_kept) weft_cpu_chain_layout_destroy((chain_layout_t *)r.layout);
  return s;
}

/* ---- compiling ---- */

static void destroy(void *state) {
  attention_t *a = state;
  for (int i = 0; i < 2; i++) {
    if (a->products[i].einsum != NULL) weft_cpu_einsum_kernels[0].destroy(a->products[i].einsum);
  }
  weft_cpu_chain_deinit(&a->chain);
  weft_free(a);
}

static const weft_attr_t *list(const weft_kernel_setup_t *setup, const char *name, weft_attr_kind_t kind,
                               int n) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  return a != NULL && a->is_list && a->kind == kind && a->n == n ? a : NULL;
}

/* An Einsum's kernel reads no attribute but the equation. */
static weft_status_t *prepare_einsum(const weft_kernel_setup_t *setup, attention_product_t *p) {
  const weft_named_attr_t equation = {WEFT_STR("equation"), {.kind = WEFT_ATTR_STRING, .s = p->equation}};
  weft_kernel_setup_t inner = *setup;
  inner.node = p->node;
  inner.node.num_inputs = 2;
  inner.attrs = &equation;
  inner.num_attrs = 1;
  return weft_cpu_einsum_kernels[0].prepare(&inner, &p->einsum);
}

static weft_status_t *init_product(const weft_kernel_setup_t *setup, attention_t *a, int i) {
  const weft_attr_t *nodes = list(setup, "products", WEFT_ATTR_STRING, 2),
                    *ops = list(setup, "product_ops", WEFT_ATTR_STRING, 2),
                    *equations = list(setup, "equations", WEFT_ATTR_STRING, 2);
  if (nodes == NULL || ops == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "the attributes of a _WeftAttention describe none");
  const weft_op_def_t *op = weft_op_find(ops->list.strings[i]);
  const bool is_einsum = weft_str_is(ops->list.strings[i], "Einsum");
  const weft_str_t name = weft_arena_str(&a->chain.arena, nodes->list.strings[i]);
  if (op == NULL || (is_einsum && (equations == NULL || equations->list.strings[i].length == 0)))
    return WEFT_ERROR(INVALID_ARGUMENT, "a _WeftAttention of an op that there is not");
  if (name.data == NULL) return WEFT_NO_MEMORY("preparing an attention");
  attention_product_t *p = &a->products[i];
  p->node = setup->node;
  p->node.name = name;
  p->node.op = op;
  p->node.op_name = op->name;
  p->broadcasts = !weft_str_is(op->name, "BatchMatMul");
  for (int k = 0; k < 2; k++) {
    const bool turns = k == 0 ? i == 0 && weft_knode_bool(setup, "adj_q")
                              : weft_knode_bool(setup, i == 0 ? "adj_k" : "adj_v");
    p->ops[k] = turns ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN;
  }
  if (!is_einsum) return NULL;
  p->equation = weft_arena_str(&a->chain.arena, equations->list.strings[i]);
  return p->equation.data == NULL ? WEFT_NO_MEMORY("preparing an attention") : prepare_einsum(setup, p);
}

static weft_status_t *init(const weft_kernel_setup_t *setup, attention_t *a) {
  WEFT_RETURN_IF_ERROR(weft_cpu_chain_init(setup, &a->chain));
  const weft_chain_t *c = &a->chain.c.chain;
  const int64_t scores = weft_knode_int(setup, "scores");
  const int n = c->num_inputs;
  const bool has_types = n >= 3 && scores >= 0 && scores < n - 2 && c->input_types[scores] == WEFT_F32 &&
                         c->input_types[n - 2] == WEFT_F32 && c->input_types[n - 1] == WEFT_F32 &&
                         c->num_outputs == 1 && weft_chain_type(c, c->outputs[0]) == WEFT_F32;
  if (!has_types) return WEFT_ERROR(INVALID_ARGUMENT, "the attributes of a _WeftAttention describe none");
  a->scores = (int)scores;
  WEFT_RETURN_IF_ERROR(init_product(setup, a, 0));
  return init_product(setup, a, 1);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  attention_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return WEFT_NO_MEMORY("preparing an attention");
  weft_status_t *s = init(setup, a);
  if (s != NULL) {
    destroy(a);
    return s;
  }
  *out = a;
  return NULL;
}

const weft_kernel_t weft_cpu_attention_kernels[] = {
    {.op = "_WeftAttention",
     .type_attr = "Tproducts",
     .types = WEFT_DTYPE_BIT(WEFT_F32),
     .prepare = prepare,
     .compute = compute,
     .destroy = destroy},
    {0},
};
