/* kernels/cpu/rnn/lstm.c - LSTMBlockCell, BlockLSTM, BlockLSTMV2 and their gradients.
 *
 * A step is a matrix product of [x, h] with the weights of all four gates, then a loop over the elements
 * (lstm_one.tmpl.h). A cell is a layer of one step. Columns of the weights are the gates in the order i, c,
 * f, o, but i, f, c, o in version 2. Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997); the
 * forget gate's bias: Jozefowicz et al. (2015); peepholes: Gers and Schmidhuber (2000).
 */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/vector_math.h"
#include "kernels/cpu/math/gemm.h"

enum { LSTM_I, LSTM_C, LSTM_F, LSTM_O, LSTM_GATES };

/* Where a step finds what it reads and writes: [batch, input] and [batch, cell]. */
typedef struct lstm_step {
  const char *x, *cs_prev, *h_prev;
  char *i, *cs, *f, *o, *ci, *co, *h;
  /* Of the gradient. */
  const char *cs_grad, *h_grad;
  const char *cs_next, *h_next; /* what the step behind gives; NULL: nothing */
  char *cs_prev_grad;
} lstm_step_t;

typedef struct lstm_job {
  lstm_step_t step;
  weft_dtype_t dtype;
  weft_thread_pool_t *pool;
  int64_t time, batch, input, cell;
  int64_t gate_at[LSTM_GATES]; /* where the columns of a gate begin, in cells */
  bool use_peephole;
  float forget_bias, cell_clip;
  const char *w, *b, *peep[LSTM_GATES];
  char *b_grad, *peep_grad[LSTM_GATES]; /* NULL: not wanted */
  char *xh, *gates, *xh_grad;           /* [batch, input + cell], [batch, 4 * cell], like xh */
} lstm_job_t;

static float round_f16(float x) { return weft_f16_to_f32(weft_f32_to_f16(x)); }

/* e / (1 + e), which half computes without another form for large x. */
static float sigmoid_f16(float x) {
  const float e = round_f16(expf(x));
  return isinf(e) ? 1.0f : round_f16(e / round_f16(1.0f + e));
}

#define LSTM_STEM f32
#define LSTM_ELEM float
#define LSTM_LOAD(x) (x)
#define LSTM_STORE(x) (x)
#define LSTM_ROUND(x) (x)
#define LSTM_SIGMOID(x) weft_sigmoid_f32(x)
#include "kernels/cpu/rnn/lstm_one.tmpl.h"
#define LSTM_STEM f16
#define LSTM_ELEM uint16_t
#define LSTM_LOAD(x) weft_f16_to_f32(x)
#define LSTM_STORE(x) weft_f32_to_f16(x)
#define LSTM_ROUND(x) round_f16(x)
#define LSTM_SIGMOID(x) sigmoid_f16(x)
#include "kernels/cpu/rnn/lstm_one.tmpl.h"

/* ---- shapes ---- */

typedef struct lstm_operand {
  const char *name;
  const char *dims; /* letters: Time, Batch, Input, Cell, 4 cells, Rows of the weights */
} lstm_operand_t;

static int64_t size_of(const lstm_job_t *j, char letter) {
  switch (letter) {
    case 'T': return j->time;
    case 'B': return j->batch;
    case 'I': return j->input;
    case 'C': return j->cell;
    case 'R': return j->input + j->cell;
    default: return 4 * j->cell;
  }
}

/* Errors: INVALID_ARGUMENT naming the operand. */
static weft_status_t *check_operand(const lstm_job_t *j, const lstm_operand_t *o, const weft_tensor_t *t) {
  int rank = (int)strlen(o->dims);
  if (t->shape.rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be rank %d but is rank %d", o->name, rank, t->shape.rank);
  }
  for (int d = 0; d < rank; d++) {
    int64_t wanted = size_of(j, o->dims[d]);
    if (o->dims[d] == '?' || t->shape.dims[d] == wanted) continue;
    static const char *const names[] = {
        "timelen", "batch_size", "input_size", "cell_size", "input_size + cell_size", "cell_size * 4"};
    return WEFT_ERROR(INVALID_ARGUMENT, "%s.dims(%d) != %s: %" PRId64 " vs. %" PRId64, o->name, d,
                      names[strchr("TBICR4", o->dims[d]) - "TBICR4"], t->shape.dims[d], wanted);
  }
  return NULL;
}

/* Sizes of the layer from x ([time,] batch, input) and the state before ([batch, cell]). */
static weft_status_t *set_sizes(lstm_job_t *j, const weft_tensor_t *x, const weft_tensor_t *cs_prev,
                                int x_rank) {
  if (x->shape.rank != x_rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "x must be rank %d but is rank %d", x_rank, x->shape.rank);
  }
  if (cs_prev->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "cs_prev must be rank 2 but is rank %d", cs_prev->shape.rank);
  }
  j->time = x_rank == 3 ? x->shape.dims[0] : 1;
  j->batch = x->shape.dims[x_rank - 2];
  j->input = x->shape.dims[x_rank - 1];
  j->cell = cs_prev->shape.dims[1];
  if (j->cell > INT32_MAX || j->input > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "a cell of %" PRId64 " is too large", j->cell);
  return NULL;
}

/* ---- buffers ---- */

static weft_status_t *new_buffer(const lstm_job_t *j, int64_t columns, char **out) {
  int64_t n = 0;
  if (weft_cpu_mul(j->batch, columns, &n) && weft_cpu_mul(n, (int64_t)weft_dtype_size(j->dtype), &n))
    *out = weft_calloc((size_t)n + 1, 1);
  return *out == NULL ? WEFT_NO_MEMORY("gates of %" PRId64 " cells", j->cell) : NULL;
}

static weft_status_t *new_buffers(lstm_job_t *j, bool is_gradient) {
  WEFT_RETURN_IF_ERROR(new_buffer(j, j->input + j->cell, &j->xh));
  WEFT_RETURN_IF_ERROR(new_buffer(j, 4 * j->cell, &j->gates));
  return is_gradient ? new_buffer(j, j->input + j->cell, &j->xh_grad) : NULL;
}

static void free_buffers(lstm_job_t *j) {
  weft_free(j->xh);
  weft_free(j->gates);
  weft_free(j->xh_grad);
}

/* Copies between [x, h] side by side and two tensors. */
static void join_xh(const lstm_job_t *j) {
  size_t size = weft_dtype_size(j->dtype), x = (size_t)j->input * size, h = (size_t)j->cell * size;
  for (int64_t r = 0; r < j->batch; r++) {
    memcpy(j->xh + (size_t)r * (x + h), j->step.x + (size_t)r * x, x);
    memcpy(j->xh + (size_t)r * (x + h) + x, j->step.h_prev + (size_t)r * h, h);
  }
}

static void part_xh(const lstm_job_t *j, char *x_grad, char *h_grad) {
  size_t size = weft_dtype_size(j->dtype), x = (size_t)j->input * size, h = (size_t)j->cell * size;
  for (int64_t r = 0; r < j->batch; r++) {
    memcpy(x_grad + (size_t)r * x, j->xh_grad + (size_t)r * (x + h), x);
    memcpy(h_grad + (size_t)r * h, j->xh_grad + (size_t)r * (x + h) + x, h);
  }
}

static void run(const lstm_job_t *j, weft_range_fn *f32, weft_range_fn *f16, int64_t total, int64_t cost) {
  weft_parallel_for(j->pool, total, WEFT_CPU_GRAIN / 32 / (cost + 1) + 1, j->dtype == WEFT_F32 ? f32 : f16,
                    (void *)(uintptr_t)j);
}

/* ---- products ---- */

typedef struct half_product {
  int64_t columns, depth, step_a, step_a_row, step_b, step_b_column;
  const uint16_t *a, *b;
  uint16_t *c;
  bool accumulate;
} half_product_t;

/* Rows [begin, end) of a product of halves, each product and each sum rounded. */
static void half_rows(void *arg, int64_t begin, int64_t end) {
  const half_product_t *p = arg;
  for (int64_t r = begin; r < end; r++) {
    for (int64_t c = 0; c < p->columns; c++) {
      const uint16_t *a = p->a + r * p->step_a_row, *b = p->b + c * p->step_b_column;
      uint16_t *to = p->c + r * p->columns + c;
      float sum = 0;
      for (int64_t k = 0; k < p->depth; k++)
        sum =
            round_f16(sum + round_f16(weft_f16_to_f32(a[k * p->step_a]) * weft_f16_to_f32(b[k * p->step_b])));
      *to = weft_f32_to_f16(p->accumulate ? weft_f16_to_f32(*to) + sum : sum);
    }
  }
}

/* c[m,n] = a[m,k] . b[k,n], or added to c; a and b may be stored the other way round. TensorFlow keeps the
 * sums of halves in half here, other than in its MatMul. */
static weft_status_t *lstm_product(const lstm_job_t *j, int64_t m, int64_t n, int64_t k, const char *a,
                                   bool a_turned, const char *b, bool b_turned, char *c, bool accumulate) {
  if (j->dtype == WEFT_F32) {
    return weft_gemm(j->pool, j->dtype, a_turned ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN,
                     b_turned ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN, m, n, k, a, a_turned ? m : k, b,
                     b_turned ? k : n, c, n, accumulate);
  }
  half_product_t p = {.columns = n,
                      .depth = k,
                      .step_a = a_turned ? m : 1,
                      .step_a_row = a_turned ? 1 : k,
                      .step_b = b_turned ? 1 : n,
                      .step_b_column = b_turned ? k : 1,
                      .a = (const uint16_t *)(const void *)a,
                      .b = (const uint16_t *)(const void *)b,
                      .c = (uint16_t *)(void *)c,
                      .accumulate = accumulate};
  weft_parallel_for(j->pool, m, WEFT_CPU_GRAIN / (n * k + 1) + 1, half_rows, &p);
  return NULL;
}

static weft_status_t *forward_step(lstm_job_t *j) {
  join_xh(j);
  WEFT_RETURN_IF_ERROR(
      lstm_product(j, j->batch, 4 * j->cell, j->input + j->cell, j->xh, false, j->w, false, j->gates, false));
  run(j, f32_forward, f16_forward, j->batch, j->cell);
  return NULL;
}

/* ---- the ops ---- */

typedef struct lstm_op {
  bool is_layer, is_v2;
} lstm_op_t;

WEFT_ATTRS_STRUCT(lstm, (BOOL, use_peephole))

typedef struct lstm_state {
  bool use_peephole;
  float forget_bias, cell_clip;
} lstm_state_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  lstm_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  s->use_peephole = weft_knode_bool(setup, "use_peephole");
  s->cell_clip = weft_knode_float(setup, "cell_clip");
  const weft_attr_t *bias = weft_knode_attr(setup, "forget_bias");
  s->forget_bias = bias == NULL ? 0.0f : bias->f;
  *out_state = s;
  return NULL;
}

static void set_gates(lstm_job_t *j, bool is_v2) {
  j->gate_at[LSTM_I] = 0;
  j->gate_at[LSTM_C] = is_v2 ? 2 : 1;
  j->gate_at[LSTM_F] = is_v2 ? 1 : 2;
  j->gate_at[LSTM_O] = 3;
}

/* Inputs x, cs_prev, h_prev, w, wci, wcf, wco, b, the first of them at `first`. A cell looks at the
 * peepholes' lengths only if it uses them. */
static weft_status_t *set_inputs(weft_kernel_ctx_t *ctx, lstm_job_t *j, int first, bool is_layer) {
  static const lstm_operand_t operands[] = {{"x", "TBI"}, {"cs_prev", "BC"}, {"h_prev", "BC"}, {"w", "R4"},
                                            {"wci", "C"}, {"wcf", "C"},      {"wco", "C"},     {"b", "4"}};
  weft_tensor_t *in[8];
  for (int i = 0; i < 8; i++) in[i] = weft_in(ctx, first + i);
  j->dtype = in[0]->dtype;
  j->pool = ctx->device->pool;
  WEFT_RETURN_IF_ERROR(set_sizes(j, in[0], in[1], is_layer ? 3 : 2));
  for (int i = 1; i < 8; i++) {
    lstm_operand_t o = operands[i];
    if (i >= 4 && i < 7 && !is_layer && !j->use_peephole) o.dims = "?";
    WEFT_RETURN_IF_ERROR(check_operand(j, &o, in[i]));
  }
  j->step = (lstm_step_t){.x = in[0]->data, .cs_prev = in[1]->data, .h_prev = in[2]->data};
  j->w = in[3]->data;
  j->peep[LSTM_I] = in[4]->data;
  j->peep[LSTM_F] = in[5]->data;
  j->peep[LSTM_O] = in[6]->data;
  j->b = in[7]->data;
  return NULL;
}

static weft_status_t *sequence_length(const lstm_job_t *j, const weft_tensor_t *t, int64_t *out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`seq_len_max_tensor` must be rank 0 but is rank %d", t->shape.rank);
  }
  *out = *(const int64_t *)t->data;
  if (*out >= 0 && *out <= j->time) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "seq_len_max must be between 0 and %" PRId64 " but is %" PRId64,
                    j->time, *out);
}

static weft_status_t *forward(weft_kernel_ctx_t *ctx) {
  const lstm_op_t *op = ctx->node->param;
  const lstm_state_t *state = ctx->state;
  lstm_job_t j = {
      .use_peephole = state->use_peephole, .forget_bias = state->forget_bias, .cell_clip = state->cell_clip};
  weft_tensor_t *out[7];
  int64_t length = 1;
  set_gates(&j, op->is_v2);
  WEFT_RETURN_IF_ERROR(set_inputs(ctx, &j, op->is_layer ? 1 : 0, op->is_layer));
  if (op->is_layer) WEFT_RETURN_IF_ERROR(sequence_length(&j, weft_in(ctx, 0), &length));
  if (!op->is_layer && (j.batch == 0 || j.cell == 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "cs_prev_tensor is empty, has shape: (%" PRId64 ",%" PRId64 ").",
                      j.batch, j.cell);
  }
  weft_shape_t shape = weft_shape_matrix(j.batch, j.cell);
  if (op->is_layer) shape = (weft_shape_t){.rank = 3, .dims = {j.time, j.batch, j.cell}};
  for (int i = 0; i < 7; i++) {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, j.dtype, &shape, &out[i]));
    if (length < j.time) weft_cpu_zero(out[i]);
  }
  if (out[0]->count == 0) return NULL;
  weft_status_t *s = new_buffers(&j, false);
  size_t step = (size_t)(j.batch * j.cell) * weft_dtype_size(j.dtype),
         x_step = (size_t)(j.batch * j.input) * weft_dtype_size(j.dtype);
  for (int64_t t = 0; s == NULL && t < length; t++) {
    char **results[] = {&j.step.i, &j.step.cs, &j.step.f, &j.step.o, &j.step.ci, &j.step.co, &j.step.h};
    for (int i = 0; i < 7; i++) *results[i] = (char *)out[i]->data + (size_t)t * step;
    s = forward_step(&j);
    j.step.x += x_step;
    j.step.cs_prev = j.step.cs;
    j.step.h_prev = j.step.h;
  }
  free_buffers(&j);
  return s;
}

/* Inputs i, cs, f, o, ci, co and, of a layer, h; the first of them at `first`. */
static weft_status_t *set_results(weft_kernel_ctx_t *ctx, lstm_job_t *j, int first, bool is_layer) {
  static const char *const names[] = {"i", "cs", "f", "o", "ci", "co", "h"};
  char **results[] = {&j->step.i, &j->step.cs, &j->step.f, &j->step.o, &j->step.ci, &j->step.co, &j->step.h};
  for (int i = 0; i < (is_layer ? 7 : 6); i++) {
    const lstm_operand_t o = {names[i], is_layer ? "TBC" : "BC"};
    WEFT_RETURN_IF_ERROR(check_operand(j, &o, weft_in(ctx, first + i)));
    *results[i] = weft_in(ctx, first + i)->data;
  }
  first += is_layer ? 7 : 6;
  const lstm_operand_t cs_grad = {"cs_grad", is_layer ? "TBC" : "BC"},
                       h_grad = {"h_grad", is_layer ? "TBC" : "BC"};
  WEFT_RETURN_IF_ERROR(check_operand(j, &cs_grad, weft_in(ctx, first)));
  WEFT_RETURN_IF_ERROR(check_operand(j, &h_grad, weft_in(ctx, first + 1)));
  j->step.cs_grad = weft_in(ctx, first)->data;
  j->step.h_grad = weft_in(ctx, first + 1)->data;
  return NULL;
}

/* Outputs from `first` on like inputs from `like` on, all zero. */
static weft_status_t *zeros_like(weft_kernel_ctx_t *ctx, int first, int like, int n, weft_tensor_t **out) {
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *x = weft_in(ctx, like + i);
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, first + i, x->dtype, &x->shape, &out[i]));
    weft_cpu_zero(out[i]);
  }
  return NULL;
}

WEFT_ATTRS_OF(cell_gradient, lstm)
static weft_status_t *cell_gradient(weft_kernel_ctx_t *ctx, const lstm_attrs_t *attrs) {
  lstm_job_t j = {.use_peephole = attrs->use_peephole};
  weft_tensor_t *cs_prev_grad = NULL, *gates = NULL, *peep[3];
  set_gates(&j, false);
  WEFT_RETURN_IF_ERROR(set_inputs(ctx, &j, 0, false));
  WEFT_RETURN_IF_ERROR(set_results(ctx, &j, 8, false));
  weft_shape_t state = weft_shape_matrix(j.batch, j.cell), all = weft_shape_matrix(j.batch, 4 * j.cell);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, j.dtype, &state, &cs_prev_grad));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, j.dtype, &all, &gates));
  WEFT_RETURN_IF_ERROR(zeros_like(ctx, 2, 4, 3, peep));
  if (gates->count == 0) return NULL;
  j.gates = gates->data;
  j.step.cs_prev_grad = cs_prev_grad->data;
  j.peep_grad[LSTM_I] = peep[0]->data;
  j.peep_grad[LSTM_F] = peep[1]->data;
  j.peep_grad[LSTM_O] = peep[2]->data;
  run(&j, f32_backward, f16_backward, j.batch, j.cell);
  if (j.use_peephole) run(&j, f32_weights, f16_weights, j.cell, j.batch);
  return NULL;
}

/* Where a tensor of [time, batch, ...] has step t. */
static char *at_step(const char *first, int64_t t, size_t step) {
  return (char *)(uintptr_t)first + (size_t)t * step;
}

/* Step t of a layer, whose own tensors begin at `all`; results of the step behind are in `grads`: x_grad,
 * cs_prev_grad, h_prev_grad, w_grad. */
static weft_status_t *backward_step(lstm_job_t *j, const lstm_step_t *all, int64_t t,
                                    weft_tensor_t *const *grads) {
  const int64_t rows = j->input + j->cell, columns = 4 * j->cell;
  const size_t size = weft_dtype_size(j->dtype), step = (size_t)(j->batch * j->cell) * size,
               x_step = (size_t)(j->batch * j->input) * size;
  j->step = (lstm_step_t){.x = at_step(all->x, t, x_step),
                          .cs_prev = t == 0 ? all->cs_prev : at_step(all->cs, t - 1, step),
                          .h_prev = t == 0 ? all->h_prev : at_step(all->h, t - 1, step),
                          .i = at_step(all->i, t, step),
                          .cs = at_step(all->cs, t, step),
                          .f = at_step(all->f, t, step),
                          .o = at_step(all->o, t, step),
                          .ci = at_step(all->ci, t, step),
                          .co = at_step(all->co, t, step),
                          .cs_grad = at_step(all->cs_grad, t, step),
                          .h_grad = at_step(all->h_grad, t, step),
                          .cs_next = grads[1]->data,
                          .h_next = grads[2]->data,
                          .cs_prev_grad = grads[1]->data};
  run(j, f32_backward, f16_backward, j->batch, j->cell);
  WEFT_RETURN_IF_ERROR(
      lstm_product(j, j->batch, rows, columns, j->gates, false, j->w, true, j->xh_grad, false));
  join_xh(j);
  part_xh(j, at_step(grads[0]->data, t, x_step), grads[2]->data);
  WEFT_RETURN_IF_ERROR(
      lstm_product(j, rows, columns, j->batch, j->xh, true, j->gates, false, grads[3]->data, true));
  run(j, f32_weights, f16_weights, j->cell, j->batch);
  return NULL;
}

WEFT_ATTRS_OF(layer_gradient, lstm)
static weft_status_t *layer_gradient(weft_kernel_ctx_t *ctx, const lstm_attrs_t *attrs) {
  const lstm_op_t *op = ctx->node->param;
  lstm_job_t j = {.use_peephole = attrs->use_peephole};
  weft_tensor_t *grads[8];
  int64_t length = 0;
  set_gates(&j, op->is_v2);
  WEFT_RETURN_IF_ERROR(set_inputs(ctx, &j, 1, true));
  WEFT_RETURN_IF_ERROR(set_results(ctx, &j, 9, true));
  WEFT_RETURN_IF_ERROR(sequence_length(&j, weft_in(ctx, 0), &length));
  WEFT_RETURN_IF_ERROR(zeros_like(ctx, 0, 1, 8, grads));
  if (j.batch == 0 || j.cell == 0) return NULL;
  j.peep_grad[LSTM_I] = grads[4]->data;
  j.peep_grad[LSTM_F] = grads[5]->data;
  j.peep_grad[LSTM_O] = grads[6]->data;
  j.b_grad = grads[7]->data;
  const lstm_step_t all = j.step;
  weft_status_t *s = new_buffers(&j, true);
  for (int64_t t = length - 1; s == NULL && t >= 0; t--) s = backward_step(&j, &all, t, grads);
  free_buffers(&j);
  return s;
}

#define LSTM_TYPES (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32))
#define LSTM_PARAM(layer, v2) \
  .param = &(const lstm_op_t) { layer, v2 }
#define LSTM_FORWARD(op_, layer, v2)                                                          \
  {                                                                                           \
    .op = op_, .type_attr = "T", .types = LSTM_TYPES, .prepare = prepare, .compute = forward, \
    .destroy = weft_free, LSTM_PARAM(layer, v2)                                               \
  }
#define LSTM_BACKWARD(op_, fn, layer, v2) \
  { .op = op_, .type_attr = "T", .types = LSTM_TYPES, WEFT_COMPUTE(fn), LSTM_PARAM(layer, v2) }

const weft_kernel_t weft_cpu_lstm_kernels[] = {
    LSTM_FORWARD("BlockLSTM", true, false),
    LSTM_BACKWARD("BlockLSTMGrad", layer_gradient, true, false),
    LSTM_BACKWARD("BlockLSTMGradV2", layer_gradient, true, true),
    LSTM_FORWARD("BlockLSTMV2", true, true),
    LSTM_FORWARD("LSTMBlockCell", false, false),
    LSTM_BACKWARD("LSTMBlockCellGrad", cell_gradient, false, false),
    {0},
};
