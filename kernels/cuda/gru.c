/* kernels/cuda/gru.c - rows of GRUBlockCell and its gradient: two products by cuBLASLt each, and kernels of
 * gru.cu before, between and behind them. Errors are those of kernels/cpu/rnn/gru.c.
 *
 * Source: Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014).
 */
#include "kernels/cuda/gru_args.h"

#include "device/cuda/blas.h"
#include "kernels/cuda/common.h"

static weft_cuda_function_t join_function = WEFT_CUDA_FUNCTION("weft_gru_join"),
                            gates_function = WEFT_CUDA_FUNCTION("weft_gru_gates"),
                            state_function = WEFT_CUDA_FUNCTION("weft_gru_state"),
                            candidate_gradient = WEFT_CUDA_FUNCTION("weft_gru_candidate_gradient"),
                            reset_gradient = WEFT_CUDA_FUNCTION("weft_gru_reset_gradient"),
                            input_gradient = WEFT_CUDA_FUNCTION("weft_gru_input_gradient");

/* ---- operands ---- */

enum { X, H_PREV, W_RU, W_C, B_RU, B_C, R, U, C, D_H, NUM_OPERANDS, NUM_FORWARD = R };

typedef struct cuda_gru_operand {
  const char *name, *dims; /* letters: Batch, Input, Cell, Rows of the weights, 2 cells */
} gru_operand_t;

static const gru_operand_t operands[NUM_OPERANDS] = {
    [X] = {"x", "BI"},      [H_PREV] = {"h_prev", "BC"}, [W_RU] = {"w_ru", "R2"}, [W_C] = {"w_c", "RC"},
    [B_RU] = {"b_ru", "2"}, [B_C] = {"b_c", "C"},        [R] = {"r", "BC"},       [U] = {"u", "BC"},
    [C] = {"c", "BC"},      [D_H] = {"d_h", "BC"}};

static WEFT_Failure *check_operand(const weft_cuda_gru_t *g, const gru_operand_t *o,
                                   const WEFT_TensorView *v) {
  static const char letters[] = "BICR2";
  static const char *const names[] = {"batch_size", "input_size", "cell_size", "input_size + cell_size",
                                      "cell_size * 2"};
  const int64_t sizes[] = {g->batch, g->input, g->cell, g->input + g->cell, 2 * g->cell};
  const int rank = (int)strlen(o->dims);
  if (v->rank != rank) return WEFT_CUDA_INVALID("Rank of %s must be %d, got %d", o->name, rank, v->rank);
  for (int d = 0; d < rank; d++) {
    const ptrdiff_t k = strchr(letters, o->dims[d]) - letters;
    if (v->dims[d] == sizes[k]) continue;
    return WEFT_CUDA_INVALID("%s.dims(%d) != %s: %lld vs. %lld", o->name, d, names[k], (long long)v->dims[d],
                             (long long)sizes[k]);
  }
  return NULL;
}

/* Sizes and operands of the first n inputs. */
static WEFT_Failure *set_inputs(WEFT_KernelContext *c, int n, weft_cuda_gru_t *g, WEFT_TensorView *in) {
  for (int i = 0; i < n; i++) weft_cuda_host->input(c, i, &in[i]);
  if (in[X].rank == 2) {
    g->batch = in[X].dims[0];
    g->input = in[X].dims[1];
  }
  if (in[H_PREV].rank == 2) g->cell = in[H_PREV].dims[1];
  for (int i = 0; i < n; i++) WEFT_CUDA_TRY(check_operand(g, &operands[i], &in[i]));
  g->x = in[X].data;
  g->h_prev = in[H_PREV].data;
  g->b_ru = in[B_RU].data;
  g->b_c = in[B_C].data;
  return NULL;
}

/* ---- results and scratch memory ---- */

static WEFT_Failure *new_output(WEFT_KernelContext *c, int i, const weft_cuda_gru_t *g, int64_t columns,
                                float **out) {
  const int64_t dims[] = {g->batch, columns};
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, i, 2, dims, &y));
  *out = y.data;
  return NULL;
}

/* [batch, columns]: not more than twice what lies in memory, so that the product does not overflow. */
static WEFT_Failure *new_buffer(WEFT_KernelContext *c, const weft_cuda_gru_t *g, int64_t columns,
                                float **out) {
  void *made = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(g->batch * columns) * sizeof(float), &made));
  *out = made;
  return NULL;
}

static WEFT_Failure *launch(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t n, weft_cuda_gru_t *g) {
  void *args[] = {g};
  return weft_cuda_launch_over(c, f, n, 1, args);
}

/* ---- the step ---- */

/* out [batch, columns] = xh · w [input + cell, columns]. */
static WEFT_Failure *multiply(WEFT_KernelContext *c, const weft_cuda_gru_t *g, int64_t columns, const void *w,
                              float *out) {
  const weft_cuda_product_t p = {
      .dtype = WEFT_CUDA_f32, .m = g->batch, .n = columns, .k = g->input + g->cell, .batch = 1};
  return weft_cuda_multiply(c, &p, g->xh, w, out);
}

static WEFT_Failure *forward(WEFT_KernelContext *c) {
  weft_cuda_gru_t g = {.batch = 0};
  WEFT_TensorView in[NUM_FORWARD];
  WEFT_CUDA_TRY(set_inputs(c, NUM_FORWARD, &g, in));
  float **results[] = {&g.r, &g.u, &g.c, &g.h};
  for (int i = 0; i < 4; i++) WEFT_CUDA_TRY(new_output(c, i, &g, g.cell, results[i]));
  const int64_t n = g.batch * g.cell;
  if (n == 0) return NULL;
  WEFT_CUDA_TRY(new_buffer(c, &g, g.input + g.cell, &g.xh));
  WEFT_CUDA_TRY(new_buffer(c, &g, 2 * g.cell, &g.ru));
  WEFT_CUDA_TRY(launch(c, &join_function, g.batch * (g.input + g.cell), &g));
  WEFT_CUDA_TRY(multiply(c, &g, 2 * g.cell, in[W_RU].data, g.ru));
  WEFT_CUDA_TRY(launch(c, &gates_function, n, &g));
  WEFT_CUDA_TRY(multiply(c, &g, g.cell, in[W_C].data, g.c));
  return launch(c, &state_function, n, &g);
}

/* ---- the gradient ---- */

/* out [batch, input + cell] = d [batch, columns] · transposed w. */
static WEFT_Failure *multiply_back(WEFT_KernelContext *c, const weft_cuda_gru_t *g, int64_t columns,
                                   const float *d, const void *w, float *out) {
  const weft_cuda_product_t p = {.dtype = WEFT_CUDA_f32,
                                 .m = g->batch,
                                 .n = g->input + g->cell,
                                 .k = columns,
                                 .transpose_b = true,
                                 .batch = 1};
  return weft_cuda_multiply(c, &p, d, w, out);
}

static WEFT_Failure *backward(WEFT_KernelContext *c) {
  weft_cuda_gru_t g = {.batch = 0};
  WEFT_TensorView in[NUM_OPERANDS];
  WEFT_CUDA_TRY(set_inputs(c, NUM_OPERANDS, &g, in));
  g.r = in[R].data;
  g.u = in[U].data;
  g.c = in[C].data;
  g.d_h = in[D_H].data;
  const int64_t columns[] = {g.input, g.cell, g.cell, 2 * g.cell}, rows = g.input + g.cell;
  float **results[] = {&g.d_x, &g.d_h_prev, &g.d_c_bar, &g.d_ru_bar};
  for (int i = 0; i < 4; i++) WEFT_CUDA_TRY(new_output(c, i, &g, columns[i], results[i]));
  if (g.batch == 0 || rows == 0) return NULL;
  WEFT_CUDA_TRY(new_buffer(c, &g, rows, &g.xh));
  WEFT_CUDA_TRY(new_buffer(c, &g, rows, &g.xh2));
  WEFT_CUDA_TRY(launch(c, &candidate_gradient, g.batch * g.cell, &g));
  WEFT_CUDA_TRY(multiply_back(c, &g, g.cell, g.d_c_bar, in[W_C].data, g.xh2));
  WEFT_CUDA_TRY(launch(c, &reset_gradient, g.batch * g.cell, &g));
  WEFT_CUDA_TRY(multiply_back(c, &g, 2 * g.cell, g.d_ru_bar, in[W_RU].data, g.xh));
  return launch(c, &input_gradient, g.batch * rows, &g);
}

#define GRU(name, fn) \
  { .op = name, .type_attr = "T", .types = UINT32_C(1) << WEFT_CUDA_f32, .compute = fn }
extern const WEFT_DeviceKernel weft_cuda_gru_kernels[];
const WEFT_DeviceKernel weft_cuda_gru_kernels[] = {
    GRU("GRUBlockCell", forward),
    GRU("GRUBlockCellGrad", backward),
    {0},
};
