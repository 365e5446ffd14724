/* kernels/cuda/attention.c - the row of _WeftAttention: two products with a chain between them.
 *
 * Some matrices of scores, or some rows of one, at a time are multiplied, pass through the chain in place and
 * are multiplied again, while they lie in the cache of the second level: memory has room for that part only.
 * Each product is one of cuBLASLt's, summed in float and rounded to the type, and the chain is its own
 * kernel, so that results are those of the three nodes.
 *
 * Where the chain's result has another shape than the scores, or the second product has more matrices, the
 * scores are computed as a whole, by the same steps.
 */
#include "kernels/cuda/chain.h"
#include "kernels/cuda/product.h"

enum { QUERIES, KEYS, VALUES, NUM_OPERANDS };

typedef struct cuda_attention {
  weft_cuda_chain_plan_t *chain; /* owned; in the place of input `scores` it reads the first product */
  int scores, type;
  bool turns[NUM_OPERANDS]; /* the operand lies transposed */
} cuda_attention_t;

/* A run. Shapes are in elements; queries [M, D], keys [N, D], values [N, E] of each matrix. */
typedef struct cuda_attention_run {
  const cuda_attention_t *a;
  WEFT_KernelContext *c;
  WEFT_TensorView in[NUM_OPERANDS], out;
  int64_t m, n, d, e, size; /* size: bytes of an element */
  weft_cuda_shape_t scores; /* [B..., M, N] */
  weft_cuda_shape_t result; /* of the chain */
  weft_cuda_chain_t chain;  /* of all rows */
  weft_cuda_workspace_t workspace;
} cuda_attention_run_t;

/* ---- the node ---- */

static void attention_destroy(void *state) {
  cuda_attention_t *a = state;
  free(a->chain);
  free(a);
}

static WEFT_Failure *read_node(const WEFT_KernelSetup *s, cuda_attention_t *a) {
  static const char *const names[NUM_OPERANDS] = {"adj_q", "adj_k", "adj_v"};
  int64_t scores = -1;
  WEFT_CUDA_TRY(weft_cuda_chain_make(s, NUM_OPERANDS - 1, &a->chain));
  for (int i = 0; i < NUM_OPERANDS; i++) {
    int turns = 0;
    weft_cuda_host->attr_bool(s, names[i], &turns);
    a->turns[i] = turns != 0;
  }
  weft_cuda_host->attr_int(s, "scores", &scores);
  a->type = weft_cuda_host->setup_output_type(s, 0);
  const weft_cuda_chain_plan_t *p = a->chain;
  const bool is_one = scores >= 0 && scores < p->num_inputs && p->types[scores] == a->type &&
                      p->links[p->num_links - 1].type == a->type;
  if (!is_one) return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "an attention that was not asked for");
  a->scores = (int)scores;
  return NULL;
}

static WEFT_Failure *attention_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_attention_t *a = calloc(1, sizeof *a);
  if (a == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: preparing an attention");
  WEFT_Failure *f = read_node(s, a);
  if (f != NULL) {
    attention_destroy(a);
    return f;
  }
  *out = a;
  return NULL;
}

/* ---- shapes, which fit: the shape function has looked at them ---- */

static int64_t rows_of(const WEFT_TensorView *v, bool turns) { return v->dims[v->rank - (turns ? 1 : 2)]; }
static int64_t columns_of(const WEFT_TensorView *v, bool turns) { return v->dims[v->rank - (turns ? 2 : 1)]; }

static WEFT_Failure *too_large(void) {
  return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "the scores of an attention have too many elements");
}

/* Makes `to` what it and `with` are broadcast to. */
static void broadcast(weft_cuda_shape_t *to, const weft_cuda_shape_t *with) {
  weft_cuda_shape_t all = to->rank >= with->rank ? *to : *with;
  const weft_cuda_shape_t *other = to->rank >= with->rank ? with : to;
  for (int d = 0; d < other->rank; d++) {
    int64_t *own = &all.dims[all.rank - other->rank + d];
    if (*own == 1) *own = other->dims[d];
  }
  *to = all;
}

/* What has more elements or bytes than can be counted is refused. */
static bool can_be_counted(const weft_cuda_shape_t *s, int64_t size) {
  int64_t n = size;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] != 0 && __builtin_mul_overflow(n, s->dims[d], &n)) return false;
  }
  return true;
}

static WEFT_Failure *find_shapes(cuda_attention_run_t *r, const weft_cuda_batches_t *batches) {
  const weft_cuda_chain_plan_t *p = r->a->chain;
  weft_cuda_shape_t shapes[WEFT_CUDA_CHAIN_INPUTS];
  r->scores.rank = batches->rank + 2;
  memcpy(r->scores.dims, batches->dims, (size_t)batches->rank * sizeof batches->dims[0]);
  r->scores.dims[batches->rank] = r->m;
  r->scores.dims[batches->rank + 1] = r->n;
  r->result = r->scores;
  for (int i = 0; i < p->num_inputs; i++) {
    WEFT_TensorView v;
    weft_cuda_host->input(r->c, i, &v);
    shapes[i] = i == r->a->scores ? r->scores : weft_cuda_shape_of(&v);
    broadcast(&r->result, &shapes[i]);
  }
  if (!can_be_counted(&r->scores, r->size) || !can_be_counted(&r->result, r->size)) return too_large();
  weft_cuda_chain_lay_out(p, shapes, &r->result, &r->chain);
  for (int i = 0; i < p->num_inputs; i++) {
    WEFT_TensorView v;
    weft_cuda_host->input(r->c, i, &v);
    r->chain.inputs[i] = v.data;
  }
  return NULL;
}

static weft_cuda_product_t first_product(cuda_attention_run_t *r) {
  return (weft_cuda_product_t){.dtype = r->a->type,
                               .m = r->m,
                               .n = r->n,
                               .k = r->d,
                               .transpose_a = r->a->turns[QUERIES],
                               .transpose_b = r->a->turns[KEYS],
                               .workspace = &r->workspace};
}

static weft_cuda_product_t second_product(cuda_attention_run_t *r, int64_t rows, int64_t columns) {
  return (weft_cuda_product_t){.dtype = r->a->type,
                               .m = rows,
                               .n = r->e,
                               .k = columns,
                               .transpose_b = r->a->turns[VALUES],
                               .workspace = &r->workspace};
}

/* ---- part by part ---- */

/* Rows [row, row + rows) of `count` matrices, which are those from number `matrix` on of the scores and lie
 * from at[] on among those of the operands. All rows where there are several matrices. */
typedef struct attention_part {
  int64_t matrix, count, row, rows;
  int64_t at[WEFT_CUDA_PRODUCT_OPERANDS];
  bool repeats[NUM_OPERANDS]; /* the operand has one matrix for all */
} attention_part_t;

static const char *matrix_of(const cuda_attention_run_t *r, const attention_part_t *part, int operand) {
  const int64_t elements = operand == QUERIES ? r->m * r->d : operand == KEYS ? r->n * r->d : r->n * r->e;
  return (const char *)r->in[operand].data + part->at[operand] * elements * r->size;
}

static WEFT_Failure *run_part(cuda_attention_run_t *r, const attention_part_t *part, void *scores) {
  const bool turns_q = r->a->turns[QUERIES], is_batch = part->count > 1;
  weft_cuda_product_t qk = first_product(r), sv = second_product(r, part->rows, r->n);
  qk.m = part->rows;
  qk.batch = sv.batch = part->count;
  qk.a_row = turns_q ? r->m : r->d; /* of the whole matrix, of which this may be some rows */
  qk.same_a = is_batch && part->repeats[QUERIES];
  qk.same_b = is_batch && part->repeats[KEYS];
  sv.same_b = is_batch && part->repeats[VALUES];
  const char *q = matrix_of(r, part, QUERIES) + part->row * (turns_q ? 1 : r->d) * r->size;
  WEFT_CUDA_TRY(weft_cuda_multiply(r->c, &qk, q, matrix_of(r, part, KEYS), scores));
  weft_cuda_chain_t chain = r->chain;
  const int64_t row = part->matrix * r->m + part->row, rows = part->count * part->rows,
                units = r->a->chain->has_rows ? 1 : r->n; /* of a row */
  chain.first = row * units;
  chain.n = rows * units;
  chain.starts[r->a->scores] = -row * r->n;
  chain.inputs[r->a->scores] = chain.out = scores;
  if (r->n > 0) WEFT_CUDA_TRY(weft_cuda_chain_launch(r->c, r->a->chain, &chain));
  char *out = (char *)r->out.data + row * r->e * r->size;
  return weft_cuda_multiply(r->c, &sv, scores, matrix_of(r, part, VALUES), out);
}

/* How many matrices a part has, or how many rows of one. */
static void choose_part(const cuda_attention_run_t *r, int64_t matrices, int64_t *out_count,
                        int64_t *out_rows) {
  enum {
    LEAST_ROWS = 16, /* fewer use too little of keys and values that are read */
    TILE_ROWS = 128  /* that a block of cuBLASLt computes */
  };
  const int64_t room = (int64_t)weft_cuda_cache_bytes(r->c) / 2, /* the rest: operands and results */
      row = r->n * r->size, all = r->m * row;
  *out_count = 1;
  *out_rows = r->m;
  if (all <= room) {
    const int64_t fit = all == 0 ? matrices : room / all;
    *out_count = fit < matrices ? fit : matrices;
    return;
  }
  int64_t rows = room / row;
  if (rows < LEAST_ROWS) rows = LEAST_ROWS;
  if (rows > TILE_ROWS) rows -= rows % TILE_ROWS;
  if (rows < r->m) *out_rows = rows;
}

static WEFT_Failure *run_parts(cuda_attention_run_t *r, const weft_cuda_batches_t *b) {
  const int end = weft_cuda_batches_run(b);
  const int64_t num_runs = weft_cuda_product(b->dims, 0, end),
                matrices = weft_cuda_product(b->dims, end, b->rank);
  int64_t count = 1, rows = 1;
  void *scores = NULL;
  choose_part(r, matrices, &count, &rows);
  if (rows * r->n > 0)
    WEFT_CUDA_TRY(weft_cuda_host->scratch(r->c, (size_t)(count * rows * r->n * r->size), &scores));
  attention_part_t run = {.count = 0};
  for (int k = 0; k < NUM_OPERANDS; k++) run.repeats[k] = weft_cuda_batches_repeat(b, end, k);
  for (int64_t i = 0; i < num_runs; i++) {
    weft_cuda_batches_place(b, end, i, run.at);
    for (int64_t first = 0; first < matrices; first += count) {
      attention_part_t part = run;
      part.matrix = i * matrices + first;
      part.count = matrices - first < count ? matrices - first : count;
      for (int k = 0; k < NUM_OPERANDS; k++) part.at[k] += run.repeats[k] ? 0 : first;
      for (part.row = 0; part.row < r->m; part.row += rows) {
        part.rows = r->m - part.row < rows ? r->m - part.row : rows;
        WEFT_CUDA_TRY(run_part(r, &part, scores));
      }
    }
  }
  return NULL;
}

/* ---- as a whole ---- */

/* Memory for a tensor of that shape. */
static WEFT_Failure *make_room(const cuda_attention_run_t *r, const weft_cuda_shape_t *s, void **out) {
  const int64_t count = weft_cuda_product(s->dims, 0, s->rank);
  return count == 0 ? NULL : weft_cuda_host->scratch(r->c, (size_t)(count * r->size), out);
}

static WEFT_Failure *run_whole(cuda_attention_run_t *r, const weft_cuda_batches_t *batches) {
  void *scores = NULL, *shares = NULL;
  weft_cuda_batches_t second;
  weft_cuda_product_t qk = first_product(r);
  WEFT_CUDA_TRY(make_room(r, &r->scores, &scores));
  WEFT_CUDA_TRY(make_room(r, &r->result, &shares));
  if (scores != NULL)
    WEFT_CUDA_TRY(
        weft_cuda_multiply_batches(r->c, batches, &qk, r->in[QUERIES].data, r->in[KEYS].data, scores));
  r->chain.inputs[r->a->scores] = scores;
  r->chain.out = shares;
  if (shares != NULL) WEFT_CUDA_TRY(weft_cuda_chain_launch(r->c, r->a->chain, &r->chain));
  const WEFT_TensorView both[2] = {{.rank = r->result.rank, .dims = r->result.dims}, r->in[VALUES]};
  weft_cuda_product_t sv =
      second_product(r, r->result.dims[r->result.rank - 2], r->result.dims[r->result.rank - 1]);
  if (!weft_cuda_batches_line_up(both, 2, &second)) return too_large();
  return weft_cuda_multiply_batches(r->c, &second, &sv, shares, r->in[VALUES].data, r->out.data);
}

/* ---- a run ---- */

static bool same_dims(const int64_t *a, const int64_t *b, int n) {
  return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static WEFT_Failure *attention_compute(WEFT_KernelContext *c) {
  const cuda_attention_t *a = weft_cuda_host->state(c);
  cuda_attention_run_t r = {.a = a, .c = c, .size = (int64_t)weft_cuda_size(a->type)};
  const int inputs[NUM_OPERANDS] = {a->scores, a->chain->num_inputs, a->chain->num_inputs + 1};
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &r.out));
  if (r.out.count == 0) return NULL;
  for (int k = 0; k < NUM_OPERANDS; k++) weft_cuda_host->input(c, inputs[k], &r.in[k]);
  r.m = rows_of(&r.in[QUERIES], a->turns[QUERIES]);
  r.d = columns_of(&r.in[QUERIES], a->turns[QUERIES]);
  r.n = columns_of(&r.in[KEYS], a->turns[KEYS]);
  r.e = columns_of(&r.in[VALUES], a->turns[VALUES]);
  weft_cuda_batches_t of_scores, all;
  if (!weft_cuda_batches_line_up(r.in, 2, &of_scores)) return too_large();
  WEFT_CUDA_TRY(find_shapes(&r, &of_scores));
  const bool in_parts = r.result.rank == r.scores.rank &&
                        same_dims(r.result.dims, r.scores.dims, r.scores.rank) &&
                        weft_cuda_batches_line_up(r.in, NUM_OPERANDS, &all) && all.rank == of_scores.rank &&
                        same_dims(all.dims, of_scores.dims, all.rank);
  return in_parts ? run_parts(&r, &all) : run_whole(&r, &of_scores);
}

extern const WEFT_DeviceKernel weft_cuda_attention_kernels[];
const WEFT_DeviceKernel weft_cuda_attention_kernels[] = {
    {.op = "_WeftAttention",
     .type_attr = "Tproducts",
     .types = WEFT_CUDA_SET(FLOAT),
     .prepare = attention_prepare,
     .compute = attention_compute,
     .destroy = attention_destroy},
    {0},
};
