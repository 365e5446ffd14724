/* kernels/cuda/matmul.c - rows of MatMul and BatchMatMul, by cuBLASLt. */
#include "base/alloc.h"
#include "device/cuda/blas.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/plain.h"

#define TYPES (WEFT_CUDA_SET(FLOAT) | WEFT_CUDA_SET(COMPLEX))
enum { MAX_RANK = 254 }; /* as TensorFlow's shapes */

/* The param of a row. */
typedef struct cuda_product {
  const char *flip_a, *flip_b; /* attributes */
  bool has_batch, broadcasts, is_adjoint;
} product_t;

static const product_t plain = {"transpose_a", "transpose_b", false, false, false};
static const product_t batch = {"adj_x", "adj_y", true, false, true};
static const product_t batch_broadcast = {"adj_x", "adj_y", true, true, true};

typedef struct cuda_product_state {
  bool transpose_a, transpose_b;
  int type; /* of the result; operands of BatchMatMulV3 that are of another one are converted */
} product_state_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *setup, const void *param, void **out_state) {
  const product_t *p = param;
  int a = 0, b = 0;
  (void)weft_cuda_host->attr_bool(setup, p->flip_a, &a);
  (void)weft_cuda_host->attr_bool(setup, p->flip_b, &b);
  const int type = weft_cuda_host->setup_output_type(setup, 0);
  if ((TYPES >> type & 1) == 0)
    return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED, "a product as type %d", type);
  product_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a product");
  *s = (product_state_t){a != 0, b != 0, type};
  *out_state = s;
  return NULL;
}

/* ---- checks, in TensorFlow's words ---- */

static WEFT_Failure *check_ranks(const product_t *p, const WEFT_TensorView *a, const WEFT_TensorView *b) {
  if (!p->broadcasts && a->rank != b->rank) {
    return WEFT_CUDA_INVALID("In[0] and In[1] has different ndims: %s vs. %s", WEFT_CUDA_SHAPE(a),
                             WEFT_CUDA_SHAPE(b));
  }
  if (!p->has_batch && a->rank != 2)
    return WEFT_CUDA_INVALID("In[0] and In[1] ndims must be == 2: %d", a->rank);
  if (a->rank < 2) return WEFT_CUDA_INVALID("In[0] ndims must be >= 2: %d", a->rank);
  if (b->rank < 2) return WEFT_CUDA_INVALID("In[1] ndims must be >= 2: %d", b->rank);
  for (int d = 0; !p->broadcasts && d < a->rank - 2; d++) {
    if (a->dims[d] == b->dims[d]) continue;
    return WEFT_CUDA_INVALID("In[0].dim(%d) and In[1].dim(%d) must be the same: %s vs %s", d, d,
                             WEFT_CUDA_SHAPE(a), WEFT_CUDA_SHAPE(b));
  }
  return NULL;
}

/* ---- batches ---- */

/* The batch dimensions, lined up at the right. */
typedef struct cuda_batches {
  int rank;
  int64_t dims[MAX_RANK + 2];                   /* and the matrices', for the output's shape */
  int64_t a_steps[MAX_RANK], b_steps[MAX_RANK]; /* in matrices; 0 where the operand repeats */
} batches_t;

/* Dimension d of the `rank` batch dimensions of v; 1 where it has none. */
static int64_t batch_dim(const WEFT_TensorView *v, int rank, int d) {
  const int own = d - (rank - (v->rank - 2));
  return own < 0 ? 1 : v->dims[own];
}

static bool line_up(const WEFT_TensorView *a, const WEFT_TensorView *b, batches_t *out) {
  out->rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
  int64_t a_step = 1, b_step = 1;
  for (int d = out->rank - 1; d >= 0; d--) {
    const int64_t of_a = batch_dim(a, out->rank, d), of_b = batch_dim(b, out->rank, d);
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    out->dims[d] = of_a == 1 ? of_b : of_a;
    out->a_steps[d] = of_a == 1 ? 0 : a_step;
    out->b_steps[d] = of_b == 1 ? 0 : b_step;
    a_step *= of_a;
    b_step *= of_b;
  }
  return true;
}

/* The last dimensions that both operands walk in the same way, densely or not at all, are one run of
 * products: returns where they begin. */
static int run_begin(const batches_t *b) {
  int d = b->rank;
  int64_t dense = 1;
  bool a_repeats = true, b_repeats = true, is_first = true;
  for (; d > 0; d--) {
    if (b->dims[d - 1] == 1) continue;
    const bool a_same = b->a_steps[d - 1] == 0, b_same = b->b_steps[d - 1] == 0;
    if (!is_first && (a_same != a_repeats || b_same != b_repeats)) break;
    if ((!a_same && b->a_steps[d - 1] != dense) || (!b_same && b->b_steps[d - 1] != dense)) break;
    a_repeats = a_same, b_repeats = b_same, is_first = false;
    dense *= b->dims[d - 1];
  }
  return d;
}

/* Where the operands' matrices of run i of dimensions [0, end) are. */
static void place(const batches_t *b, int end, int64_t i, int64_t *out_a, int64_t *out_b) {
  *out_a = *out_b = 0;
  for (int d = end - 1; d >= 0; d--) {
    const int64_t at = i % b->dims[d];
    i /= b->dims[d];
    *out_a += at * b->a_steps[d];
    *out_b += at * b->b_steps[d];
  }
}

static WEFT_Failure *run_all(WEFT_KernelContext *c, const batches_t *b, weft_cuda_product_t *p, const char *x,
                             const char *y, char *out) {
  const int end = run_begin(b);
  const int64_t num_runs = weft_cuda_product(b->dims, 0, end);
  const int64_t size = (int64_t)weft_cuda_size(p->dtype);
  p->batch = weft_cuda_product(b->dims, end, b->rank);
  p->same_a = p->same_b = p->batch > 1;
  for (int d = end; d < b->rank; d++) {
    if (b->a_steps[d] != 0) p->same_a = false;
    if (b->b_steps[d] != 0) p->same_b = false;
  }
  const int64_t a_bytes = p->m * p->k * size, b_bytes = p->k * p->n * size,
                out_bytes = p->batch * p->m * p->n * size;
  if (p->same_b && !p->same_a && !p->transpose_a) { /* one tall product */
    p->m *= p->batch;
    p->batch = 1;
    p->same_b = false;
  }
  for (int64_t i = 0; i < num_runs; i++) {
    int64_t a_at, b_at;
    place(b, end, i, &a_at, &b_at);
    WEFT_CUDA_TRY(weft_cuda_multiply(c, p, x + a_at * a_bytes, y + b_at * b_bytes, out + i * out_bytes));
  }
  return NULL;
}

/* An operand in the type of the result. */
static WEFT_Failure *take(WEFT_KernelContext *c, int type, const WEFT_TensorView *v, const void **out) {
  void *made = NULL;
  *out = v->data;
  if (v->dtype == type || v->count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)v->count * weft_cuda_size(type), &made));
  *out = made;
  return weft_cuda_convert(c, v->dtype, v->data, type, made, v->count);
}

/* What follows, as an epilogue of a product with n columns; false: none is like that. */
static bool epilogue_of(WEFT_KernelContext *c, int64_t n, int bias_input, weft_cuda_activation_t activation,
                        weft_cuda_epilogue_t *out) {
  *out = (weft_cuda_epilogue_t){.bias = NULL};
  switch (activation) {
    case WEFT_CUDA_NO_ACTIVATION: out->kind = WEFT_CUDA_EPILOGUE_IDENTITY; break;
    case WEFT_CUDA_RELU: out->kind = WEFT_CUDA_EPILOGUE_RELU; break;
    case WEFT_CUDA_GELU_APPROXIMATE: out->kind = WEFT_CUDA_EPILOGUE_GELU; break;
    default: return false;
  }
  if (bias_input < 0) return activation != WEFT_CUDA_NO_ACTIVATION;
  WEFT_TensorView bias;
  weft_cuda_host->input(c, bias_input, &bias);
  out->bias = bias.data;
  return bias.rank == 1 && bias.count == n;
}

static WEFT_Failure *run_finished(WEFT_KernelContext *c, const void *param, const void *state, int bias_input,
                                  weft_cuda_activation_t activation, WEFT_TensorView *out, bool *out_done) {
  const product_state_t *s = state;
  weft_cuda_epilogue_t epilogue;
  *out_done = false;
  WEFT_TensorView a, b;
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, 1, &b);
  WEFT_CUDA_TRY(check_ranks(param, &a, &b));
  const int64_t *ad = &a.dims[a.rank - 2], *bd = &b.dims[b.rank - 2];
  weft_cuda_product_t p = {.dtype = s->type,
                           .m = ad[s->transpose_a],
                           .k = ad[!s->transpose_a],
                           .n = bd[!s->transpose_b],
                           .transpose_a = s->transpose_a,
                           .transpose_b = s->transpose_b,
                           .is_adjoint = ((const product_t *)weft_cuda_host->param(c))->is_adjoint};
  batches_t batches;
  if (a.rank > MAX_RANK || b.rank > MAX_RANK || !line_up(&a, &b, &batches)) {
    return WEFT_CUDA_INVALID("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                             WEFT_CUDA_SHAPE(&a), WEFT_CUDA_SHAPE(&b));
  }
  if (bd[s->transpose_b] != p.k) {
    return WEFT_CUDA_INVALID("Matrix size-incompatible: In[0]: %s, In[1]: %s", WEFT_CUDA_SHAPE(&a),
                             WEFT_CUDA_SHAPE(&b));
  }
  batches.dims[batches.rank] = p.m;
  batches.dims[batches.rank + 1] = p.n;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, batches.rank + 2, batches.dims, out));
  if (out->count == 0) return NULL;
  const void *x = NULL, *y = NULL;
  WEFT_CUDA_TRY(take(c, s->type, &a, &x));
  WEFT_CUDA_TRY(take(c, s->type, &b, &y));
  if (batches.rank == 0 && epilogue_of(c, p.n, bias_input, activation, &epilogue)) {
    p.batch = 1;
    return weft_cuda_multiply_finished(c, &p, &epilogue, x, y, out->data, out_done);
  }
  return run_all(c, &batches, &p, x, y, out->data);
}

static WEFT_Failure *run(WEFT_KernelContext *c, const void *param, const void *state, WEFT_TensorView *out) {
  bool is_done = false;
  return run_finished(c, param, state, -1, WEFT_CUDA_NO_ACTIVATION, out, &is_done);
}

static WEFT_Failure *compute(WEFT_KernelContext *c) {
  WEFT_TensorView out;
  return run(c, weft_cuda_host->param(c), weft_cuda_host->state(c), &out);
}

const weft_cuda_plain_t weft_cuda_plain_matmul = {"MatMul", &plain, prepare, run, weft_free, run_finished};

#define PRODUCT(name, attr, product)                                                       \
  {                                                                                        \
    .op = name, .type_attr = attr, .types = TYPES, .prepare = prepare, .compute = compute, \
    .destroy = weft_free, .param = product                                                 \
  }
extern const WEFT_DeviceKernel weft_cuda_matmul_kernels[];
const WEFT_DeviceKernel weft_cuda_matmul_kernels[] = {
    PRODUCT("BatchMatMul", "T", &batch),
    PRODUCT("BatchMatMulV2", "T", &batch_broadcast),
    {.op = "BatchMatMulV3",
     .type_attr = "Ta",
     .types = WEFT_CUDA_SET(FLOAT),
     .type_attr2 = "Tb",
     .types2 = WEFT_CUDA_SET(FLOAT),
     .prepare = prepare,
     .compute = compute,
     .destroy = weft_free,
     .param = &batch_broadcast},
    PRODUCT("MatMul", "T", &plain),
    {0},
};
