/* kernels/cuda/lstm.c - rows of LSTMBlockCell, BlockLSTM, BlockLSTMV2 and their gradients: products by
 * cuBLASLt, and a kernel of lstm.cu for each step. Errors are those of kernels/cpu/rnn/lstm.c.
 *
 * What x gives the gates is one product for all steps, and so are the gradients of x and of the weights; a
 * step has the product with h alone. Sums are kept in float; results of half are rounded where they are
 * stored, and not after each operation as on the CPU.
 *
 * Source: Hochreiter and Schmidhuber, "Long short-term memory" (1997); products for all steps at once:
 * Appleyard et al., "Optimizing performance of recurrent neural networks on GPUs" (2016).
 */
#include "kernels/cuda/lstm_args.h"

#include "device/cuda/blas.h"
#include "kernels/cuda/common.h"

enum { I = WEFT_CUDA_LSTM_I, C = WEFT_CUDA_LSTM_C, F = WEFT_CUDA_LSTM_F, O = WEFT_CUDA_LSTM_O };
#define TYPES (UINT32_C(1) << WEFT_CUDA_f16 | UINT32_C(1) << WEFT_CUDA_f32)
#define PAIR(name)                                                                \
  static weft_cuda_function_t name[] = {WEFT_CUDA_FUNCTION("weft_" #name "_f32"), \
                                        WEFT_CUDA_FUNCTION("weft_" #name "_f16")}
PAIR(lstm_step);
PAIR(lstm_step_gradient);
PAIR(lstm_sums);

typedef struct cuda_lstm_op {
  bool is_layer, is_v2;
} cuda_lstm_op_t;

typedef struct cuda_lstm_state {
  bool use_peephole;
  float forget_bias, cell_clip;
} cuda_lstm_state_t;

/* A run of a node. */
typedef struct cuda_lstm_run {
  WEFT_KernelContext *c;
  cuda_lstm_op_t op;
  int type;
  size_t size;                              /* of an element */
  int64_t time, length, batch, input, cell; /* length: the steps that are computed */
  const char *x, *cs_prev, *h_prev, *w;
  weft_cuda_lstm_t step; /* the first one */
  weft_cuda_workspace_t workspace;
} cuda_lstm_run_t;

static WEFT_Failure *lstm_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int use_peephole = 0;
  (void)param;
  cuda_lstm_state_t *state = calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a recurrent layer");
  weft_cuda_host->attr_bool(s, "use_peephole", &use_peephole);
  weft_cuda_host->attr_float(s, "forget_bias", &state->forget_bias);
  weft_cuda_host->attr_float(s, "cell_clip", &state->cell_clip);
  state->use_peephole = use_peephole != 0;
  *out = state;
  return NULL;
}

/* ---- operands ---- */

typedef struct cuda_lstm_operand {
  const char *name, *dims; /* letters: Time, Batch, Input, Cell, Rows of the weights, 4 cells; "?": any */
} cuda_lstm_operand_t;

static WEFT_Failure *check_operand(const cuda_lstm_run_t *r, const cuda_lstm_operand_t *o,
                                   const WEFT_TensorView *v) {
  static const char letters[] = "TBICR4";
  static const char *const names[] = {
      "timelen", "batch_size", "input_size", "cell_size", "input_size + cell_size", "cell_size * 4"};
  const int64_t sizes[] = {r->time, r->batch, r->input, r->cell, r->input + r->cell, 4 * r->cell};
  const int rank = (int)strlen(o->dims);
  if (v->rank != rank) return WEFT_CUDA_INVALID("%s must be rank %d but is rank %d", o->name, rank, v->rank);
  for (int d = 0; d < rank && o->dims[d] != '?'; d++) {
    const ptrdiff_t k = strchr(letters, o->dims[d]) - letters;
    if (v->dims[d] == sizes[k]) continue;
    return WEFT_CUDA_INVALID("%s.dims(%d) != %s: %lld vs. %lld", o->name, d, names[k], (long long)v->dims[d],
                             (long long)sizes[k]);
  }
  return NULL;
}

static WEFT_Failure *set_sizes(cuda_lstm_run_t *r, const WEFT_TensorView *x, const WEFT_TensorView *cs_prev) {
  const int rank = r->op.is_layer ? 3 : 2;
  if (x->rank != rank) return WEFT_CUDA_INVALID("x must be rank %d but is rank %d", rank, x->rank);
  if (cs_prev->rank != 2) return WEFT_CUDA_INVALID("cs_prev must be rank 2 but is rank %d", cs_prev->rank);
  r->time = rank == 3 ? x->dims[0] : 1;
  r->batch = x->dims[rank - 2];
  r->input = x->dims[rank - 1];
  r->cell = cs_prev->dims[1];
  if (r->cell > INT32_MAX || r->input > INT32_MAX)
    return WEFT_CUDA_INVALID("a cell of %lld is too large", (long long)r->cell);
  return NULL;
}

/* Inputs x, cs_prev, h_prev, w, wci, wcf, wco, b, the first of them at `first`. */
static WEFT_Failure *set_inputs(cuda_lstm_run_t *r, int first) {
  static const cuda_lstm_operand_t operands[] = {{"x", ""},    {"cs_prev", "BC"}, {"h_prev", "BC"},
                                                 {"w", "R4"},  {"wci", "C"},      {"wcf", "C"},
                                                 {"wco", "C"}, {"b", "4"}};
  WEFT_TensorView in[8];
  for (int i = 0; i < 8; i++) weft_cuda_host->input(r->c, first + i, &in[i]);
  WEFT_CUDA_TRY(set_sizes(r, &in[0], &in[1]));
  for (int i = 1; i < 8; i++) {
    cuda_lstm_operand_t o = operands[i];
    if (i >= 4 && i < 7 && !r->op.is_layer && r->step.use_peephole == 0)
      o.dims = "?"; /* a cell does not look */
    WEFT_CUDA_TRY(check_operand(r, &o, &in[i]));
  }
  r->type = in[0].dtype;
  r->size = weft_cuda_size(r->type);
  r->x = in[0].data;
  r->cs_prev = in[1].data;
  r->h_prev = in[2].data;
  r->w = in[3].data;
  r->step.batch = r->batch;
  r->step.cell = r->cell;
  r->step.cs_prev = r->cs_prev;
  r->step.peep[I] = in[4].data;
  r->step.peep[F] = in[5].data;
  r->step.peep[O] = in[6].data;
  r->step.b = in[7].data;
  const bool is_v2 = r->op.is_v2; /* i, f, c, o; else i, c, f, o */
  r->step.gate_at[C] = (is_v2 ? 2 : 1) * r->cell;
  r->step.gate_at[F] = (is_v2 ? 1 : 2) * r->cell;
  r->step.gate_at[O] = 3 * r->cell;
  return NULL;
}

/* Input 0 of a layer. */
static WEFT_Failure *set_length(cuda_lstm_run_t *r) {
  WEFT_TensorView v;
  weft_cuda_host->input(r->c, 0, &v);
  if (v.rank != 0) return WEFT_CUDA_INVALID("`seq_len_max_tensor` must be rank 0 but is rank %d", v.rank);
  r->length = weft_cuda_int_at(&v, 0);
  if (r->length >= 0 && r->length <= r->time) return NULL;
  return WEFT_CUDA_INVALID("seq_len_max must be between 0 and %lld but is %lld", (long long)r->time,
                           (long long)r->length);
}

static cuda_lstm_run_t begin(WEFT_KernelContext *c) {
  const cuda_lstm_op_t *op = weft_cuda_host->param(c);
  const cuda_lstm_state_t *state = weft_cuda_host->state(c);
  return (cuda_lstm_run_t){.c = c,
                           .op = *op,
                           .length = 1,
                           .step = {.use_peephole = state->use_peephole,
                                    .forget_bias = state->forget_bias,
                                    .cell_clip = state->cell_clip}};
}

/* ---- pieces ---- */

static int64_t state_count(const cuda_lstm_run_t *r) { return r->batch * r->cell; }
/* Elements `n` of the run's type. */
static size_t bytes_of(const cuda_lstm_run_t *r, int64_t n) { return (size_t)n * r->size; }
/* What begins n elements behind `at`. */
static const void *behind(const cuda_lstm_run_t *r, const void *at, int64_t n) {
  return (const char *)at + bytes_of(r, n);
}
static void *behind_in(const cuda_lstm_run_t *r, void *at, int64_t n) { return (char *)at + bytes_of(r, n); }

static WEFT_Failure *new_buffer(const cuda_lstm_run_t *r, int64_t count, void **out) {
  return count == 0 ? NULL : weft_cuda_host->scratch(r->c, bytes_of(r, count), out);
}

/* out [m, n] = a [m, k] . b [k, n]. */
static WEFT_Failure *multiply(cuda_lstm_run_t *r, int64_t m, int64_t n, int64_t k, const void *a,
                              bool transpose_a, const void *b, bool transpose_b, void *out) {
  const weft_cuda_product_t p = {.dtype = r->type,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .batch = 1,
                                 .workspace = &r->workspace};
  return weft_cuda_multiply(r->c, &p, a, b, out);
}

static WEFT_Failure *launch(const cuda_lstm_run_t *r, weft_cuda_function_t *pair, weft_cuda_lstm_t *step) {
  void *args[] = {step};
  return weft_cuda_launch_over(r->c, &pair[r->type == WEFT_CUDA_f16], state_count(r), 1, args);
}

static const void *weights_of_h(const cuda_lstm_run_t *r) { return behind(r, r->w, r->input * 4 * r->cell); }

/* ---- the layer ---- */

enum { NUM_RESULTS = 7 };

/* Moves a step's results on to those of step t. */
static weft_cuda_lstm_t at_step(const cuda_lstm_run_t *r, int64_t t) {
  weft_cuda_lstm_t s = r->step;
  void **results[NUM_RESULTS] = {&s.i, &s.cs, &s.f, &s.o, &s.ci, &s.co, &s.h};
  const int64_t n = state_count(r);
  for (int i = 0; i < NUM_RESULTS; i++) {
    if (*results[i] != NULL) *results[i] = behind_in(r, *results[i], t * n);
  }
  if (t > 0) s.cs_prev = behind(r, r->step.cs, (t - 1) * n);
  return s;
}

static WEFT_Failure *run_steps(cuda_lstm_run_t *r) {
  const int64_t columns = 4 * r->cell;
  void *from_x = NULL, *from_h = NULL;
  WEFT_CUDA_TRY(new_buffer(r, r->length * r->batch * columns, &from_x));
  WEFT_CUDA_TRY(new_buffer(r, r->batch * columns, &from_h));
  WEFT_CUDA_TRY(multiply(r, r->length * r->batch, columns, r->input, r->x, false, r->w, false, from_x));
  for (int64_t t = 0; t < r->length; t++) {
    weft_cuda_lstm_t s = at_step(r, t);
    const void *h = t == 0 ? r->h_prev : behind(r, r->step.h, (t - 1) * state_count(r));
    WEFT_CUDA_TRY(multiply(r, r->batch, columns, r->cell, h, false, weights_of_h(r), false, from_h));
    s.from_x = behind(r, from_x, t * r->batch * columns);
    s.from_h = from_h;
    WEFT_CUDA_TRY(launch(r, lstm_step, &s));
  }
  return NULL;
}

static WEFT_Failure *forward(WEFT_KernelContext *c) {
  cuda_lstm_run_t r = begin(c);
  const bool is_layer = r.op.is_layer;
  WEFT_CUDA_TRY(set_inputs(&r, is_layer ? 1 : 0));
  if (is_layer) WEFT_CUDA_TRY(set_length(&r));
  if (!is_layer && (r.batch == 0 || r.cell == 0)) {
    return WEFT_CUDA_INVALID("cs_prev_tensor is empty, has shape: (%lld,%lld).", (long long)r.batch,
                             (long long)r.cell);
  }
  void **results[NUM_RESULTS] = {&r.step.i,  &r.step.cs, &r.step.f, &r.step.o,
                                 &r.step.ci, &r.step.co, &r.step.h};
  const int64_t dims[] = {r.time, r.batch, r.cell};
  WEFT_TensorView out = {.count = 0};
  for (int i = 0; i < NUM_RESULTS; i++) {
    WEFT_CUDA_TRY(weft_cuda_host->output(c, i, is_layer ? 3 : 2, is_layer ? dims : dims + 1, &out));
    *results[i] = out.data;
    const size_t done = bytes_of(&r, r.length * state_count(&r));
    if (out.bytes > done) WEFT_CUDA_TRY(weft_cuda_fill(c, (char *)out.data + done, 0, out.bytes - done));
  }
  return out.count == 0 ? NULL : run_steps(&r);
}

/* ---- the gradient ---- */

/* Inputs i, cs, f, o, ci, co and, of a layer, h, then cs_grad and h_grad; the first of them at `first`. */
static WEFT_Failure *set_results(cuda_lstm_run_t *r, int first) {
  static const char *const names[] = {"i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"};
  weft_cuda_lstm_t *s = &r->step;
  void **results[NUM_RESULTS] = {&s->i, &s->cs, &s->f, &s->o, &s->ci, &s->co, &s->h};
  for (int i = 0; i < NUM_RESULTS + 2; i++) {
    const cuda_lstm_operand_t o = {names[i], r->op.is_layer ? "TBC" : "BC"};
    WEFT_TensorView v;
    if (i == 6 && !r->op.is_layer) continue;
    weft_cuda_host->input(r->c, first++, &v);
    WEFT_CUDA_TRY(check_operand(r, &o, &v));
    if (i < NUM_RESULTS) *results[i] = v.data;
    if (i == NUM_RESULTS) s->cs_grad = v.data;
    if (i > NUM_RESULTS) s->h_grad = v.data;
  }
  return NULL;
}

/* Output i, like input `like`. */
static WEFT_Failure *output_like(const cuda_lstm_run_t *r, int i, int like, WEFT_TensorView *out) {
  WEFT_TensorView v;
  weft_cuda_host->input(r->c, like, &v);
  return weft_cuda_host->output(r->c, i, v.rank, v.dims, out);
}

static WEFT_Failure *fill_all(const cuda_lstm_run_t *r, const WEFT_TensorView *out, int n) {
  for (int i = 0; i < n; i++) WEFT_CUDA_TRY(weft_cuda_fill(r->c, out[i].data, 0, out[i].bytes));
  return NULL;
}

/* Gradients of the bias, if there is one, and of the peepholes wci, wcf and wco. */
static WEFT_Failure *sum(const cuda_lstm_run_t *r, const void *gates, const WEFT_TensorView *peep,
                         const WEFT_TensorView *bias) {
  weft_cuda_lstm_sums_t s = {.rows = r->length * r->batch,
                             .batch = r->batch,
                             .cell = r->cell,
                             .gate_of = {I, r->op.is_v2 ? F : C, r->op.is_v2 ? C : F, O},
                             .gates = gates,
                             .cs_prev = r->cs_prev,
                             .cs = r->step.cs,
                             .b_grad = bias == NULL ? NULL : bias->data};
  enum { COLUMNS = 32 }; /* of a block, in lstm.cu */
  if (r->step.use_peephole != 0) {
    s.peep_grad[I] = peep[0].data;
    s.peep_grad[F] = peep[1].data;
    s.peep_grad[O] = peep[2].data;
  } else {
    WEFT_CUDA_TRY(fill_all(r, peep, 3));
    if (bias == NULL) return NULL;
  }
  void *args[] = {&s};
  return weft_cuda_launch_over(r->c, &lstm_sums[r->type == WEFT_CUDA_f16],
                               (4 * r->cell + COLUMNS - 1) / COLUMNS * WEFT_CUDA_BLOCK, 1, args);
}

static WEFT_Failure *cell_gradient(WEFT_KernelContext *c) {
  cuda_lstm_run_t r = begin(c);
  WEFT_TensorView before, gates, peep[3];
  WEFT_CUDA_TRY(set_inputs(&r, 0));
  WEFT_CUDA_TRY(set_results(&r, 8));
  const int64_t state[] = {r.batch, r.cell}, all[] = {r.batch, 4 * r.cell};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, state, &before));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 2, all, &gates));
  for (int i = 0; i < 3; i++) WEFT_CUDA_TRY(output_like(&r, 2 + i, 4 + i, &peep[i]));
  if (gates.count == 0) return fill_all(&r, peep, 3);
  r.step.cs_prev_grad = before.data;
  r.step.gates = gates.data;
  WEFT_CUDA_TRY(launch(&r, lstm_step_gradient, &r.step));
  return sum(&r, gates.data, peep, NULL);
}

enum { X_GRAD, CS_PREV_GRAD, H_PREV_GRAD, W_GRAD, WCI_GRAD, B_GRAD = WCI_GRAD + 3, NUM_GRADS };

/* From the last step to the first: the gradients of the gates, [length, batch, 4 cell], and of the state. */
static WEFT_Failure *run_steps_back(cuda_lstm_run_t *r, void *gates, const WEFT_TensorView *grads) {
  const int64_t n = state_count(r), columns = 4 * r->cell;
  WEFT_CUDA_TRY(fill_all(r, grads + CS_PREV_GRAD, 2));
  for (int64_t t = r->length - 1; t >= 0; t--) {
    weft_cuda_lstm_t s = at_step(r, t);
    s.cs_grad = behind(r, r->step.cs_grad, t * n);
    s.h_grad = behind(r, r->step.h_grad, t * n);
    s.cs_next = s.cs_prev_grad = grads[CS_PREV_GRAD].data;
    s.h_next = grads[H_PREV_GRAD].data;
    s.gates = behind_in(r, gates, t * r->batch * columns);
    WEFT_CUDA_TRY(launch(r, lstm_step_gradient, &s));
    WEFT_CUDA_TRY(multiply(r, r->batch, r->cell, columns, s.gates, false, weights_of_h(r), true,
                           grads[H_PREV_GRAD].data));
  }
  return NULL;
}

/* What h was before each step, [length, batch, cell]. */
static WEFT_Failure *gather_h(const cuda_lstm_run_t *r, void **out) {
  const int64_t n = state_count(r);
  WEFT_CUDA_TRY(new_buffer(r, r->length * n, out));
  WEFT_CUDA_TRY(weft_cuda_copy(r->c, *out, r->h_prev, bytes_of(r, n)));
  if (r->length == 1) return NULL;
  return weft_cuda_copy(r->c, behind_in(r, *out, n), r->step.h, bytes_of(r, (r->length - 1) * n));
}

static WEFT_Failure *run_back(cuda_lstm_run_t *r, const WEFT_TensorView *grads) {
  const int64_t rows = r->length * r->batch, columns = 4 * r->cell;
  void *gates = NULL, *h = NULL;
  WEFT_CUDA_TRY(new_buffer(r, rows * columns, &gates));
  WEFT_CUDA_TRY(run_steps_back(r, gates, grads));
  WEFT_CUDA_TRY(multiply(r, rows, r->input, columns, gates, false, r->w, true, grads[X_GRAD].data));
  const size_t done = bytes_of(r, rows * r->input), all = grads[X_GRAD].bytes;
  if (all > done) WEFT_CUDA_TRY(weft_cuda_fill(r->c, (char *)grads[X_GRAD].data + done, 0, all - done));
  WEFT_CUDA_TRY(multiply(r, r->input, columns, rows, r->x, true, gates, false, grads[W_GRAD].data));
  WEFT_CUDA_TRY(gather_h(r, &h));
  WEFT_CUDA_TRY(multiply(r, r->cell, columns, rows, h, true, gates, false,
                         behind_in(r, grads[W_GRAD].data, r->input * columns)));
  return sum(r, gates, grads + WCI_GRAD, &grads[B_GRAD]);
}

static WEFT_Failure *layer_gradient(WEFT_KernelContext *c) {
  cuda_lstm_run_t r = begin(c);
  WEFT_TensorView grads[NUM_GRADS];
  WEFT_CUDA_TRY(set_inputs(&r, 1));
  WEFT_CUDA_TRY(set_results(&r, 9));
  WEFT_CUDA_TRY(set_length(&r));
  for (int i = 0; i < NUM_GRADS; i++) WEFT_CUDA_TRY(output_like(&r, i, 1 + i, &grads[i]));
  if (r.length == 0 || state_count(&r) == 0) return fill_all(&r, grads, NUM_GRADS);
  return run_back(&r, grads);
}

static const cuda_lstm_op_t cell = {false, false}, layer = {true, false}, layer_v2 = {true, true};
#define LSTM(name, fn, op_, host)                                                                          \
  {                                                                                                        \
    .op = name, .type_attr = "T", .types = TYPES, .prepare = lstm_prepare, .compute = fn, .destroy = free, \
    .param = &op_, .host_inputs = host                                                                     \
  }
extern const WEFT_DeviceKernel weft_cuda_lstm_kernels[];
const WEFT_DeviceKernel weft_cuda_lstm_kernels[] = {
    LSTM("BlockLSTM", forward, layer, 1),
    LSTM("BlockLSTMGrad", layer_gradient, layer, 1),
    LSTM("BlockLSTMGradV2", layer_gradient, layer_v2, 1),
    LSTM("BlockLSTMV2", forward, layer_v2, 1),
    LSTM("LSTMBlockCell", forward, cell, 0),
    LSTM("LSTMBlockCellGrad", cell_gradient, cell, 0),
    {0},
};
