/* kernels/cuda/matmul.c - rows of MatMul and BatchMatMul, by cuBLASLt. */
#include "base/alloc.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/product.h"

#define TYPES (WEFT_CUDA_SET(FLOAT) | WEFT_CUDA_SET(COMPLEX))

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
  WEFT_TensorView operands[2];
  weft_cuda_host->input(c, 0, &operands[0]);
  weft_cuda_host->input(c, 1, &operands[1]);
  const WEFT_TensorView a = operands[0], b = operands[1];
  WEFT_CUDA_TRY(check_ranks(param, &a, &b));
  const int64_t *ad = &a.dims[a.rank - 2], *bd = &b.dims[b.rank - 2];
  weft_cuda_product_t p = {.dtype = s->type,
                           .m = ad[s->transpose_a],
                           .k = ad[!s->transpose_a],
                           .n = bd[!s->transpose_b],
                           .transpose_a = s->transpose_a,
                           .transpose_b = s->transpose_b,
                           .is_adjoint = ((const product_t *)weft_cuda_host->param(c))->is_adjoint};
  weft_cuda_batches_t batches;
  if (!weft_cuda_batches_line_up(operands, 2, &batches)) {
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
  return weft_cuda_multiply_batches(c, &batches, &p, x, y, out->data);
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
