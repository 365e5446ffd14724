/* kernels/cpu/rnn/gru.c - GRUBlockCell and its gradient.
 *
 * r, u = sigmoid([x, h] w_ru + b_ru); c = tanh([x, r h] w_c + b_c); the new state is u h + (1 - u) c.
 * Source: Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014).
 */
#include <inttypes.h>

#include "kernels/cpu/loops/vector_math.h"
#include "kernels/cpu/math/gemm.h"

typedef struct gru {
  weft_thread_pool_t *pool;
  int64_t batch, input, cell;
  const float *x, *h_prev, *w_ru, *w_c, *b_ru, *b_c;
  float *r, *u, *c, *h; /* results; of the gradient: operands, all but h */
  const float *d_h;
  float *d_x, *d_h_prev, *d_c_bar, *d_ru_bar;
  float *xh, *ru, *xh2; /* [batch, input + cell], [batch, 2 * cell], like xh */
} gru_t;

typedef struct gru_operand {
  const char *name, *dims; /* letters: Batch, Input, Cell, Rows of the weights, 2 cells */
} gru_operand_t;

static const gru_operand_t operands[] = {{"x", "BI"},   {"h_prev", "BC"}, {"w_ru", "R2"}, {"w_c", "RC"},
                                         {"b_ru", "2"}, {"b_c", "C"},     {"r", "BC"},    {"u", "BC"},
                                         {"c", "BC"},   {"d_h", "BC"}};

static weft_status_t *check_operand(const gru_t *g, const gru_operand_t *o, const weft_tensor_t *t) {
  static const char letters[] = "BICR2";
  static const char *const names[] = {"batch_size", "input_size", "cell_size", "input_size + cell_size",
                                      "cell_size * 2"};
  const int64_t sizes[] = {g->batch, g->input, g->cell, g->input + g->cell, 2 * g->cell};
  const int rank = (int)strlen(o->dims);
  if (t->shape.rank != rank)
    return WEFT_ERROR(INVALID_ARGUMENT, "Rank of %s must be %d, got %d", o->name, rank, t->shape.rank);
  for (int d = 0; d < rank; d++) {
    const ptrdiff_t k = strchr(letters, o->dims[d]) - letters;
    if (t->shape.dims[d] == sizes[k]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s.dims(%d) != %s: %" PRId64 " vs. %" PRId64, o->name, d, names[k],
                      t->shape.dims[d], sizes[k]);
  }
  return NULL;
}

static weft_status_t *set_inputs(weft_kernel_ctx_t *ctx, gru_t *g) {
  const weft_tensor_t *x = weft_in(ctx, 0), *h = weft_in(ctx, 1);
  const int n = ctx->node->num_inputs;
  if (x->shape.rank == 2) {
    g->batch = x->shape.dims[0];
    g->input = x->shape.dims[1];
  }
  if (h->shape.rank == 2) g->cell = h->shape.dims[1];
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(check_operand(g, &operands[i], weft_in(ctx, i)));
  const float **lent[] = {&g->x, &g->h_prev, &g->w_ru, &g->w_c, &g->b_ru, &g->b_c};
  for (int i = 0; i < 6; i++) *lent[i] = weft_in(ctx, i)->data;
  g->pool = ctx->device->pool;
  return NULL;
}

static weft_status_t *new_buffer(const gru_t *g, int64_t columns, float **out) {
  int64_t n = 0;
  if (weft_cpu_mul(g->batch, columns, &n)) *out = weft_calloc((size_t)n + 1, sizeof **out);
  return *out == NULL ? WEFT_NO_MEMORY("gates of %" PRId64 " cells", g->cell) : NULL;
}

static weft_status_t *new_buffers(gru_t *g) {
  WEFT_RETURN_IF_ERROR(new_buffer(g, g->input + g->cell, &g->xh));
  WEFT_RETURN_IF_ERROR(new_buffer(g, g->input + g->cell, &g->xh2));
  return new_buffer(g, 2 * g->cell, &g->ru);
}

static void free_buffers(gru_t *g) {
  weft_free(g->xh);
  weft_free(g->xh2);
  weft_free(g->ru);
}

static void join_xh(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t b = begin; b < end; b++) {
    float *to = g->xh + b * (g->input + g->cell);
    memcpy(to, g->x + b * g->input, (size_t)g->input * sizeof *to);
    memcpy(to + g->input, g->h_prev + b * g->cell, (size_t)g->cell * sizeof *to);
  }
}

/* r and u from their products, and [x, r h] from [x, h]. */
static void gates(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t b = begin; b < end; b++) {
    const float *ru = g->ru + b * 2 * g->cell;
    float *xh = g->xh + b * (g->input + g->cell) + g->input;
    for (int64_t k = 0; k < g->cell; k++) {
      const int64_t at = b * g->cell + k;
      g->r[at] = weft_sigmoid_f32(ru[k] + g->b_ru[k]);
      g->u[at] = weft_sigmoid_f32(ru[g->cell + k] + g->b_ru[g->cell + k]);
      xh[k] = g->h_prev[at] * g->r[at];
    }
  }
}

static void state(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t at = begin * g->cell; at < end * g->cell; at++) {
    g->c[at] = weft_tanh_f32(g->c[at] + g->b_c[at % g->cell]);
    g->h[at] = g->u[at] * (g->h_prev[at] - g->c[at]) + g->c[at];
  }
}

static void run(gru_t *g, weft_range_fn *fn) {
  weft_parallel_for(g->pool, g->batch, WEFT_CPU_GRAIN / 32 / (g->cell + 1) + 1, fn, g);
}

static weft_status_t *forward_in_buffers(gru_t *g) {
  const int64_t rows = g->input + g->cell;
  run(g, join_xh);
  WEFT_RETURN_IF_ERROR(weft_gemm(g->pool, WEFT_F32, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, g->batch, 2 * g->cell,
                                 rows, g->xh, rows, g->w_ru, 2 * g->cell, g->ru, 2 * g->cell, false));
  run(g, gates);
  WEFT_RETURN_IF_ERROR(weft_gemm(g->pool, WEFT_F32, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, g->batch, g->cell, rows,
                                 g->xh, rows, g->w_c, g->cell, g->c, g->cell, false));
  run(g, state);
  return NULL;
}

static weft_status_t *forward(weft_kernel_ctx_t *ctx) {
  gru_t g = {0};
  WEFT_RETURN_IF_ERROR(set_inputs(ctx, &g));
  weft_shape_t shape = weft_shape_matrix(g.batch, g.cell);
  float **results[] = {&g.r, &g.u, &g.c, &g.h};
  for (int i = 0; i < 4; i++) {
    weft_tensor_t *y = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, WEFT_F32, &shape, &y));
    *results[i] = y->data;
  }
  if (g.batch == 0 || g.cell == 0) return NULL;
  weft_status_t *s = new_buffers(&g);
  if (s == NULL) s = forward_in_buffers(&g);
  free_buffers(&g);
  return s;
}

/* ---- the gradient ---- */

static void candidate_gradient(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t at = begin * g->cell; at < end * g->cell; at++) {
    const float d_h = g->d_h[at], u = g->u[at], c = g->c[at];
    g->d_c_bar[at] = (d_h * (1.0f - u)) * (1.0f - c * c);
    g->d_ru_bar[at / g->cell * 2 * g->cell + g->cell + at % g->cell] =
        d_h * (g->h_prev[at] - c) * u * (1.0f - u);
  }
}

/* xh2 holds what comes through c. */
static void reset_gradient(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t at = begin * g->cell; at < end * g->cell; at++) {
    const int64_t b = at / g->cell, k = at % g->cell;
    const float d_hr = g->xh2[b * (g->input + g->cell) + g->input + k], r = g->r[at];
    g->d_ru_bar[b * 2 * g->cell + k] = (d_hr * g->h_prev[at] * r) * (1.0f - r);
  }
}

/* xh holds what comes through r and u. */
static void input_gradient(void *arg, int64_t begin, int64_t end) {
  const gru_t *g = arg;
  for (int64_t b = begin; b < end; b++) {
    const float *gates_part = g->xh + b * (g->input + g->cell), *c_part = g->xh2 + b * (g->input + g->cell);
    for (int64_t k = 0; k < g->input; k++) g->d_x[b * g->input + k] = gates_part[k] + c_part[k];
    for (int64_t k = 0; k < g->cell; k++) {
      const int64_t at = b * g->cell + k;
      g->d_h_prev[at] = gates_part[g->input + k] + c_part[g->input + k] * g->r[at] + g->d_h[at] * g->u[at];
    }
  }
}

static weft_status_t *backward_in_buffers(gru_t *g) {
  const int64_t rows = g->input + g->cell;
  run(g, candidate_gradient);
  WEFT_RETURN_IF_ERROR(weft_gemm(g->pool, WEFT_F32, WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, g->batch, rows,
                                 g->cell, g->d_c_bar, g->cell, g->w_c, g->cell, g->xh2, rows, false));
  run(g, reset_gradient);
  WEFT_RETURN_IF_ERROR(weft_gemm(g->pool, WEFT_F32, WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, g->batch, rows,
                                 2 * g->cell, g->d_ru_bar, 2 * g->cell, g->w_ru, 2 * g->cell, g->xh, rows,
                                 false));
  run(g, input_gradient);
  return NULL;
}

static weft_status_t *backward(weft_kernel_ctx_t *ctx) {
  gru_t g = {0};
  WEFT_RETURN_IF_ERROR(set_inputs(ctx, &g));
  g.r = weft_in(ctx, 6)->data;
  g.u = weft_in(ctx, 7)->data;
  g.c = weft_in(ctx, 8)->data;
  g.d_h = weft_in(ctx, 9)->data;
  const int64_t columns[] = {g.input, g.cell, g.cell, 2 * g.cell};
  float **results[] = {&g.d_x, &g.d_h_prev, &g.d_c_bar, &g.d_ru_bar};
  for (int i = 0; i < 4; i++) {
    weft_tensor_t *y = NULL;
    weft_shape_t shape = weft_shape_matrix(g.batch, columns[i]);
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, WEFT_F32, &shape, &y));
    *results[i] = y->data;
  }
  weft_status_t *s = new_buffers(&g);
  if (s == NULL && g.batch > 0) s = backward_in_buffers(&g);
  free_buffers(&g);
  return s;
}

#define GRU(op_, fn) WEFT_KERNEL(op_, "T", WEFT_DTYPE_BIT(WEFT_F32), NULL, fn, NULL)
const weft_kernel_t weft_cpu_gru_kernels[] = {
    GRU("GRUBlockCell", forward),
    GRU("GRUBlockCellGrad", backward),
    {0},
};
