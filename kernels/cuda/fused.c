/* kernels/cuda/fused.c - rows of the ops that TensorFlow's graph optimiser puts in the place of several
 * nodes: a convolution, a product or a batch norm, and what follows it on each of its elements. A bias and an
 * activation of a product are an epilogue of cuBLASLt where it has one (docs/decisions/0036); all else is one
 * kernel, which changes the plain op's result in place. Errors are those of kernels/cpu/nn/fused.c. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/plain.h"

WEFT_CUDA_INSTANCES(fused_instances, fused, FLOAT)

/* The param of a row. */
typedef struct cuda_fused_op {
  const weft_cuda_plain_t *plain;
  bool is_product, is_norm;
} cuda_fused_op_t;

typedef struct cuda_fused_state {
  void *inner; /* the plain op's */
  bool has_bias, has_norm, has_addend, is_channels_first;
  weft_cuda_activation_t activation;
  float epsilon, alpha;
} cuda_fused_state_t;

/* ---- what is fused ---- */

enum { MOST_OPS = 8 };

typedef struct cuda_fused_ops {
  int n; /* MOST_OPS of them are here at most */
  const char *names[MOST_OPS];
  size_t lengths[MOST_OPS];
} cuda_fused_ops_t;

static bool is_op(const cuda_fused_ops_t *ops, int i, const char *name) {
  return i < ops->n && i < MOST_OPS && ops->lengths[i] == strlen(name) &&
         memcmp(ops->names[i], name, ops->lengths[i]) == 0;
}

static WEFT_Failure *not_implemented(const cuda_fused_ops_t *ops) {
  char text[512];
  size_t at = 0;
  for (int i = 0; i < ops->n && i < MOST_OPS; i++) {
    const size_t left = sizeof text - 1 - at, n = ops->lengths[i] < left ? ops->lengths[i] : left;
    if (i > 0 && left > n) text[at++] = ',';
    memcpy(text + at, ops->names[i], n);
    at += n;
  }
  text[at] = '\0';
  return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED, "Fusion is not implemented: [%s]", text);
}

static weft_cuda_activation_t activation_of(const cuda_fused_ops_t *ops, int i, bool is_product) {
  static const char *const names[] = {
      [WEFT_CUDA_RELU] = "Relu",
      [WEFT_CUDA_RELU6] = "Relu6",
      [WEFT_CUDA_ELU] = "Elu",
      [WEFT_CUDA_LEAKY_RELU] = "LeakyRelu",
      [WEFT_CUDA_TANH] = "Tanh", /* from here on after products only */
      [WEFT_CUDA_SIGMOID] = "Sigmoid",
      [WEFT_CUDA_GELU_APPROXIMATE] = "GeluApproximate",
      [WEFT_CUDA_GELU_EXACT] = "GeluExact",
  };
  const int last = is_product ? WEFT_CUDA_GELU_EXACT : WEFT_CUDA_LEAKY_RELU;
  for (int a = WEFT_CUDA_RELU; a <= last; a++) {
    if (is_op(ops, i, names[a])) return (weft_cuda_activation_t)a;
  }
  return WEFT_CUDA_NO_ACTIVATION;
}

/* A bias or a normalisation, then a sum, then an activation; each may be missing, but not all. */
static WEFT_Failure *read_fusion(const WEFT_KernelSetup *setup, const cuda_fused_op_t *op,
                                 cuda_fused_state_t *s) {
  cuda_fused_ops_t ops = {.n = 0};
  int64_t num_args = 0;
  int i = 0;
  ops.n = weft_cuda_host->attr_strings(setup, "fused_ops", ops.names, ops.lengths, MOST_OPS);
  weft_cuda_host->attr_int(setup, "num_args", &num_args);
  if (ops.n <= 0) return WEFT_CUDA_INVALID("Fused %s must have at least one fused op.", op->plain->name);
  s->has_bias = is_op(&ops, i, "BiasAdd");
  s->has_norm = !op->is_product && is_op(&ops, i, "FusedBatchNorm");
  if (s->has_bias || s->has_norm) i++;
  s->has_addend = i > 0 && is_op(&ops, i, "Add");
  if (s->has_addend) i++;
  s->activation = activation_of(&ops, i, op->is_product);
  if (s->activation != WEFT_CUDA_NO_ACTIVATION) i++;
  if (i < ops.n || i == 0) return not_implemented(&ops);
  const int wanted = (s->has_bias ? 1 : s->has_norm ? 4 : 0) + s->has_addend;
  if (num_args < wanted) {
    return WEFT_CUDA_INVALID("Fused %s must have %d extra arguments, got %lld", op->plain->name, wanted,
                             (long long)num_args);
  }
  weft_cuda_host->attr_float(setup, "epsilon", &s->epsilon);
  weft_cuda_host->attr_float(setup, "leakyrelu_alpha", &s->alpha);
  return NULL;
}

/* Of _FusedBatchNormEx: an image may be added, and the only activation is Relu. */
static WEFT_Failure *read_norm(const WEFT_KernelSetup *setup, cuda_fused_state_t *s) {
  const char *mode = "";
  size_t length = 0;
  int64_t num_side = 0;
  weft_cuda_host->attr_string(setup, "activation_mode", &mode, &length);
  weft_cuda_host->attr_int(setup, "num_side_inputs", &num_side);
  if (length == 4 && memcmp(mode, "Relu", 4) == 0) {
    s->activation = WEFT_CUDA_RELU;
  } else if (length != 8 || memcmp(mode, "Identity", 8) != 0) {
    return WEFT_CUDA_INVALID("Unsupported activation mode: %.*s", (int)length, mode);
  }
  if (num_side > 1) return WEFT_CUDA_INVALID("FusedBatchNorm accepts at most one side input");
  if (num_side == 1 && s->activation == WEFT_CUDA_NO_ACTIVATION)
    return WEFT_CUDA_INVALID("Identity activation is not supported with non-empty side input");
  s->has_addend = num_side == 1;
  return NULL;
}

/* A state has its op in front of it: destroy() gets nothing else. */
typedef struct cuda_fused_node {
  const cuda_fused_op_t *op;
  cuda_fused_state_t s;
} cuda_fused_node_t;

static void destroy(void *state) {
  cuda_fused_node_t *n = state;
  if (n == NULL) return;
  if (n->s.inner != NULL) n->op->plain->destroy(n->s.inner);
  free(n);
}

static WEFT_Failure *prepare(const WEFT_KernelSetup *setup, const void *param, void **out) {
  const cuda_fused_op_t *op = param;
  const char *format = NULL;
  size_t length = 0;
  cuda_fused_node_t *n = calloc(1, sizeof *n);
  if (n == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a fused op");
  n->op = op;
  n->s.is_channels_first = weft_cuda_host->attr_string(setup, "data_format", &format, &length) != 0 &&
                           length > 1 && memcmp(format, "NC", 2) == 0;
  WEFT_Failure *f = op->is_norm ? read_norm(setup, &n->s) : read_fusion(setup, op, &n->s);
  if (f == NULL) f = op->plain->prepare(setup, op->plain->param, &n->s.inner);
  if (f != NULL) {
    destroy(n);
    return f;
  }
  *out = n;
  return NULL;
}

/* ---- a run ---- */

/* Input i is a vector with an element for each channel. */
static WEFT_Failure *channel_vector(WEFT_KernelContext *c, int i, int64_t channels, const void **out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  *out = v.data;
  if (v.rank == 1 && v.count == channels) return NULL;
  return WEFT_CUDA_INVALID("argument %d must be a vector of %lld elements, got %s", i, (long long)channels,
                           WEFT_CUDA_SHAPE(&v));
}

static WEFT_Failure *read_args(WEFT_KernelContext *c, const cuda_fused_state_t *s, const WEFT_TensorView *y,
                               int first, weft_cuda_fused_t *j) {
  int i = first;
  if (s->has_bias) WEFT_CUDA_TRY(channel_vector(c, i++, j->channels, &j->bias));
  if (s->has_norm) {
    const void **parts[] = {&j->scale, &j->offset, &j->mean, &j->variance};
    for (int k = 0; k < 4; k++) WEFT_CUDA_TRY(channel_vector(c, i++, j->channels, parts[k]));
  }
  if (!s->has_addend) return NULL;
  WEFT_TensorView addend;
  weft_cuda_host->input(c, i, &addend);
  j->addend = addend.data;
  if (weft_cuda_same_shape(&addend, y)) return NULL;
  return WEFT_CUDA_INVALID("argument %d must have the shape of the result, %s, got %s", i, WEFT_CUDA_SHAPE(y),
                           WEFT_CUDA_SHAPE(&addend));
}

/* *out_done: what follows is done, too. */
static WEFT_Failure *compute_plain(WEFT_KernelContext *c, const cuda_fused_node_t *n, WEFT_TensorView *y,
                                   bool *out_done) {
  const weft_cuda_plain_t *plain = n->op->plain;
  *out_done = false;
  if (plain->compute_finished == NULL || n->s.has_norm || n->s.has_addend)
    return plain->compute(c, plain->param, n->s.inner, y);
  return plain->compute_finished(c, plain->param, n->s.inner, n->s.has_bias ? 2 : -1, n->s.activation, y,
                                 out_done);
}

static WEFT_Failure *compute(WEFT_KernelContext *c) {
  const cuda_fused_node_t *n = weft_cuda_host->state(c);
  const cuda_fused_state_t *s = &n->s;
  WEFT_TensorView y;
  bool is_done = false;
  WEFT_CUDA_TRY(compute_plain(c, n, &y, &is_done));
  if (y.count == 0 || is_done) return NULL;
  const int at = s->is_channels_first ? 1 : y.rank - 1;
  weft_cuda_fused_t j = {.n = y.count,
                         .channels = y.dims[at],
                         .inner = weft_cuda_product(y.dims, at + 1, y.rank),
                         .y = y.data,
                         .epsilon = s->epsilon,
                         .alpha = s->alpha,
                         .activation = (int32_t)s->activation};
  WEFT_CUDA_TRY(read_args(c, s, &y, n->op->is_norm ? 5 : 2, &j));
  if (!s->has_bias && !s->has_norm && !s->has_addend && s->activation == WEFT_CUDA_NO_ACTIVATION) return NULL;
  void *args[] = {&j};
  return weft_cuda_launch_over(c, weft_cuda_pick(&fused_instances, y.dtype), j.n,
                               (int64_t)(16 / weft_cuda_size(y.dtype)), args);
}

static const cuda_fused_op_t batch_norm = {&weft_cuda_plain_batch_norm, false, true},
                             conv2d = {&weft_cuda_plain_conv2d, false, false},
                             conv3d = {&weft_cuda_plain_conv3d, false, false},
                             depthwise = {&weft_cuda_plain_depthwise, false, false},
                             matmul = {&weft_cuda_plain_matmul, true, false};

#define ROW(op_, types_, param_)                                                          \
  {                                                                                       \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare, .compute = compute, \
    .destroy = destroy, .param = &param_                                                  \
  }
extern const WEFT_DeviceKernel weft_cuda_fused_kernels[];
const WEFT_DeviceKernel weft_cuda_fused_kernels[] = {
    ROW("_FusedBatchNormEx", WEFT_CUDA_SET(F32_HALFS), batch_norm),
    ROW("_FusedConv2D", WEFT_CUDA_SET(FLOAT) & ~(UINT32_C(1) << WEFT_CUDA_bf16), conv2d),
    ROW("_FusedConv3D", WEFT_CUDA_SET(F32_HALFS), conv3d),
    ROW("_FusedDepthwiseConv2dNative", WEFT_CUDA_SET(FLOAT), depthwise),
    ROW("_FusedMatMul", WEFT_CUDA_SET(F32_HALFS), matmul),
    {0},
};
