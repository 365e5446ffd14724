/* kernels/cpu/nn/fused.c - a convolution or a product, and what follows it on each of its elements: the ops
 * that graph optimisers put in the place of several nodes. The first part is the kernel of the plain op,
 * whose result the rest changes in place. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/nn/conv.h"
#include "kernels/cpu/nn/window.h"

extern const weft_kernel_t weft_cpu_conv_kernels[], weft_cpu_depthwise_kernels[], weft_cpu_matmul_kernels[],
    weft_cpu_batch_norm_kernels[], weft_cpu_binary_kernels[];

typedef enum activation {
  ACTIVATION_NONE,
  ACTIVATION_RELU,
  ACTIVATION_RELU6,
  ACTIVATION_ELU,
  ACTIVATION_LEAKY_RELU,
  ACTIVATION_TANH, /* from here on after products only */
  ACTIVATION_SIGMOID,
  ACTIVATION_GELU_APPROXIMATE,
  ACTIVATION_GELU_EXACT,
} activation_t;

static const char *const activation_names[] = {
    [ACTIVATION_RELU] = "Relu",
    [ACTIVATION_RELU6] = "Relu6",
    [ACTIVATION_ELU] = "Elu",
    [ACTIVATION_LEAKY_RELU] = "LeakyRelu",
    [ACTIVATION_TANH] = "Tanh",
    [ACTIVATION_SIGMOID] = "Sigmoid",
    [ACTIVATION_GELU_APPROXIMATE] = "GeluApproximate",
    [ACTIVATION_GELU_EXACT] = "GeluExact",
};

/* The param of a row: the plain op and its family. */
typedef struct fused_op {
  const weft_kernel_t *family;
  const char *plain;
  bool is_product;
  bool is_own; /* takes more than TensorFlow's forms: factors of channels, activations of other kernels' loops
                */
  /* The plain kernel with an epilogue; NULL: the result is walked over afterwards. */
  weft_status_t *(*then)(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder);
} fused_op_t;

typedef struct fused_state {
  const weft_kernel_t *plain;
  void *inner; /* of the plain kernel */
  bool has_bias, has_norm, has_addend, is_channels_first;
  bool is_float;    /* with channels last */
  bool has_scale;   /* the normalisation is a factor and a shift */
  bool is_epilogue; /* floats with channels last and an activation that epilogue.h has */
  activation_t activation;
  weft_map1_fn *then; /* of an epilogue: the loop of the activation; NULL: it has `activation` itself */
  bool multiplies;    /* v * then(v) */
  float epsilon, alpha;
  /* A node of a graph's Add is part of this one. It may broadcast, and fails under its own name. */
  bool has_sum_node;
  weft_kernel_node_t sum_node;
} fused_state_t;

typedef struct fused_job {
  const fused_state_t *how;
  void *y;
  const void *bias, *scale, *offset, *mean, *variance, *addend;
  int64_t channels, inner; /* elements of one channel that lie together */
} fused_job_t;

static inline double activated(activation_t a, double v, double alpha) {
  switch (a) {
    case ACTIVATION_NONE: return v;
    case ACTIVATION_RELU: return v < 0 ? 0 : v;
    case ACTIVATION_RELU6: return v < 0 ? 0 : v > 6 ? 6 : v;
    case ACTIVATION_ELU: return v < 0 ? expm1(v) : v;
    case ACTIVATION_LEAKY_RELU: return v < 0 ? v * alpha : v;
    case ACTIVATION_TANH: return tanh(v);
    case ACTIVATION_SIGMOID: return 1 / (1 + exp(-v));
    case ACTIVATION_GELU_APPROXIMATE:
      return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case ACTIVATION_GELU_EXACT: return 0.5 * v * (1 + erf(v * 0.70710678118654752440));
  }
  return v;
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/fused_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const fused_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM fused
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

/* ---- what is fused ---- */

static weft_status_t *not_implemented(const weft_attr_t *ops) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < ops->n; i++) {
    if (i > 0) weft_strbuf_putc(&text, ',');
    weft_strbuf_append(&text, ops->list.strings[i]);
  }
  weft_status_t *s =
      WEFT_ERROR(UNIMPLEMENTED, "Fusion is not implemented: [%.*s]", (int)text.length, text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static activation_t activation_of(weft_str_t name, bool is_product) {
  const int last = is_product ? ACTIVATION_GELU_EXACT : ACTIVATION_LEAKY_RELU;
  for (int a = ACTIVATION_RELU; a <= last; a++) {
    if (weft_str_is(name, activation_names[a])) return (activation_t)a;
  }
  return ACTIVATION_NONE;
}

/* Activations of floats that are loops of other kernels. */
static const struct {
  const char *name, *op;
  bool multiplies;
} loop_activations[] = {
    {"Elu", "Elu", false},           {"Selu", "Selu", false},         {"Sigmoid", "Sigmoid", false},
    {"Softplus", "Softplus", false}, {"Softsign", "Softsign", false}, {"Swish", "Sigmoid", true},
    {"Tanh", "Tanh", false},
};

/* True: `name` is one of them. */
static bool read_loop_activation(weft_str_t name, fused_state_t *s) {
  const weft_named_attr_t type = weft_type_attr("T", WEFT_F32);
  for (size_t i = 0; i < sizeof loop_activations / sizeof loop_activations[0]; i++) {
    if (!weft_str_is(name, loop_activations[i].name)) continue;
    const weft_kernel_t *k = weft_kernel_find("CPU", weft_str(loop_activations[i].op), &type, 1);
    if (k == NULL || k->compute != weft_map1_compute) return false;
    s->then = ((const weft_map1_t *)k->param)->fns[WEFT_F32];
    s->multiplies = loop_activations[i].multiplies;
    return s->then != NULL;
  }
  return false;
}

/* A bias, a normalisation, a sum, an activation; each may be missing, but not all, and a sum has one of the
 * first two before it. A normalisation may be a factor and a shift: Mul, BiasAdd. Both of the first two
 * together are more than TensorFlow has. */
static weft_status_t *read_fusion(const weft_kernel_setup_t *setup, fused_state_t *s) {
  const fused_op_t *op = setup->node.param;
  const weft_attr_t *ops = weft_knode_attr(setup, "fused_ops");
  const int64_t num_args = weft_knode_int(setup, "num_args");
  int i = 0, wanted = 0;
  if (ops == NULL || ops->n == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Fused %s must have at least one fused op.", op->plain);
  const weft_str_t *names = ops->list.strings;
  s->has_bias = weft_str_is(names[i], "BiasAdd");
  if (s->has_bias) i++;
  s->has_norm = !op->is_product && i < ops->n && weft_str_is(names[i], "FusedBatchNorm");
  if (s->has_norm) i++;
  s->has_scale = !op->is_product && !s->has_norm && op->is_own && i + 1 < ops->n &&
                 weft_str_is(names[i], "Mul") && weft_str_is(names[i + 1], "BiasAdd");
  if (s->has_scale) i += 2;
  s->has_addend = i < ops->n && i > 0 && weft_str_is(names[i], "Add");
  if (s->has_addend) i++;
  const bool has_loop = i < ops->n && op->is_own && s->is_float && read_loop_activation(names[i], s);
  if (i < ops->n && !has_loop) s->activation = activation_of(names[i], op->is_product);
  if (has_loop || s->activation != ACTIVATION_NONE) i++;
  if (i < ops->n || i == 0) return not_implemented(ops);
  wanted = s->has_bias + 4 * s->has_norm + 2 * s->has_scale + s->has_addend;
  if (num_args < wanted) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Fused %s must have %d extra arguments, got %" PRId64, op->plain,
                      wanted, num_args);
  }
  s->epsilon = weft_knode_float(setup, "epsilon");
  s->alpha = weft_knode_float(setup, "leakyrelu_alpha");
  return NULL;
}

/* Of _FusedBatchNormEx: an image may be added, and the only activation is Relu. */
static weft_status_t *read_norm(const weft_kernel_setup_t *setup, fused_state_t *s) {
  const weft_str_t mode = weft_knode_string(setup, "activation_mode");
  const int64_t num_side = weft_knode_int(setup, "num_side_inputs");
  if (weft_str_is(mode, "Relu")) {
    s->activation = ACTIVATION_RELU;
  } else if (!weft_str_is(mode, "Identity")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported activation mode: %.*s", WEFT_STR_ARGS(mode));
  }
  if (num_side > 1) return WEFT_ERROR(INVALID_ARGUMENT, "FusedBatchNorm accepts at most one side input");
  if (num_side == 1 && s->activation == ACTIVATION_NONE)
    return WEFT_ERROR(INVALID_ARGUMENT, "Identity activation is not supported with non-empty side input");
  s->has_addend = num_side == 1;
  return NULL;
}

static void fused_destroy(void *state) {
  fused_state_t *s = state;
  if (s == NULL) return;
  if (s->plain->destroy != NULL) s->plain->destroy(s->inner);
  weft_free(s);
}

/* WEFT_EPILOGUE_NUM_ACTIVATIONS: it is none of them. */
static weft_epilogue_activation_t epilogue_activation(activation_t a) {
  switch (a) {
    case ACTIVATION_NONE: return WEFT_EPILOGUE_PLAIN;
    case ACTIVATION_RELU: return WEFT_EPILOGUE_RELU;
    case ACTIVATION_RELU6: return WEFT_EPILOGUE_RELU6;
    case ACTIVATION_LEAKY_RELU: return WEFT_EPILOGUE_LEAKY_RELU;
    default: return WEFT_EPILOGUE_NUM_ACTIVATIONS;
  }
}

static weft_status_t *fused_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const fused_op_t *op = setup->node.param;
  const weft_attr_t *format = weft_knode_attr(setup, "data_format");
  fused_state_t s = {.plain = op->family};
  while (strcmp(s.plain->op, op->plain) != 0) s.plain++;
  s.is_channels_first = format != NULL && weft_str_starts_with(format->s, "NC");
  const bool is_norm = op->family == weft_cpu_batch_norm_kernels;
  s.is_float = !is_norm && !s.is_channels_first && weft_knode_type(setup, "T") == WEFT_F32;
  WEFT_RETURN_IF_ERROR(is_norm ? read_norm(setup, &s) : read_fusion(setup, &s));
  s.is_epilogue = s.is_float && epilogue_activation(s.activation) != WEFT_EPILOGUE_NUM_ACTIVATIONS;
  const weft_attr_t *sum = weft_knode_attr(setup, "_sum_node");
  s.has_sum_node = sum != NULL && s.has_addend;
  s.sum_node = setup->node;
  if (s.has_sum_node) s.sum_node.name = sum->s;
  weft_kernel_setup_t plain = *setup;
  plain.node.param = s.plain->param;
  plain.reads = s.plain->reads;
  WEFT_RETURN_IF_ERROR(s.plain->prepare(&plain, &s.inner));
  fused_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) {
    if (s.plain->destroy != NULL) s.plain->destroy(s.inner);
    return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  }
  *state = s;
  *out_state = state;
  return NULL;
}

/* ---- the rest, on the result ---- */

/* Input i is a vector with an element for each channel. */
static weft_status_t *channel_vector(weft_kernel_ctx_t *ctx, int i, int64_t channels, const void **out) {
  const weft_tensor_t *t = weft_in(ctx, i);
  *out = t->data;
  if (t->shape.rank == 1 && t->count == channels) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "argument %d must be a vector of %" PRId64 " elements, got %s", i,
                    channels, WEFT_SHAPE_TEXT(&t->shape));
}

/* The addend is the last input. Of a sum that may broadcast, `addend` stays NULL where the shapes differ. */
static weft_status_t *read_args(weft_kernel_ctx_t *ctx, const weft_shape_t *result, int first,
                                fused_job_t *j) {
  const fused_state_t *s = ctx->state;
  int i = first;
  if (s->has_bias) WEFT_RETURN_IF_ERROR(channel_vector(ctx, i++, j->channels, &j->bias));
  if (s->has_norm) {
    const void **parts[] = {&j->scale, &j->offset, &j->mean, &j->variance};
    for (int k = 0; k < 4; k++) WEFT_RETURN_IF_ERROR(channel_vector(ctx, i++, j->channels, parts[k]));
  }
  if (s->has_scale) {
    WEFT_RETURN_IF_ERROR(channel_vector(ctx, i++, j->channels, &j->scale));
    WEFT_RETURN_IF_ERROR(channel_vector(ctx, i++, j->channels, &j->offset));
  }
  if (!s->has_addend) return NULL;
  const weft_tensor_t *addend = weft_in(ctx, i);
  const bool is_alike = weft_shape_eq(&addend->shape, result);
  if (is_alike) j->addend = addend->data;
  if (is_alike || (s->is_epilogue && s->has_sum_node)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "argument %d must have the shape of the result, %s, got %s", i,
                    WEFT_SHAPE_TEXT(result), WEFT_SHAPE_TEXT(&addend->shape));
}

/* `binder` may be NULL. */
static weft_status_t *run_plain(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder) {
  const fused_state_t *s = ctx->state;
  const fused_op_t *op = ctx->node->param;
  weft_kernel_node_t node = *ctx->node;
  weft_kernel_ctx_t inner = *ctx;
  node.param = s->plain->param;
  inner.node = &node;
  inner.state = s->inner;
  return binder != NULL ? op->then(&inner, binder) : s->plain->compute(&inner);
}

/* ---- as an epilogue ---- */

typedef struct fused_end {
  weft_epilogue_binder_t binder; /* first */
  weft_kernel_ctx_t *ctx;        /* of the fused node */
  float *factor;                 /* owned; of the normalisation, or a mean of zeros */
  bool sums_apart;               /* the sum and the activation are left to sum_apart() */
} fused_end_t;

static weft_status_t *bind(weft_epilogue_binder_t *binder, const weft_shape_t *result, weft_epilogue_t *out) {
  fused_end_t *end = (fused_end_t *)binder;
  const fused_state_t *s = end->ctx->state;
  fused_job_t j = {.channels = result->dims[result->rank - 1]};
  WEFT_RETURN_IF_ERROR(read_args(end->ctx, result, 2, &j));
  *out = (weft_epilogue_t){.channels = j.channels,
                           .bias = j.bias,
                           .mean = j.mean,
                           .shift = j.offset,
                           .addend = j.addend,
                           .activation = epilogue_activation(s->activation),
                           .alpha = s->alpha,
                           .then = s->then,
                           .multiplies = s->multiplies};
  binder->addend = j.addend != NULL ? end->ctx->node->num_inputs - 1 : -1;
  end->sums_apart = s->has_addend && j.addend == NULL;
  if (end->sums_apart) {
    out->activation = WEFT_EPILOGUE_PLAIN;
    out->then = NULL;
  }
  if ((!s->has_norm && !s->has_scale) || j.channels == 0) return NULL;
  size_t bytes = 0;
  end->factor = weft_mul_size((size_t)j.channels, sizeof(float), &bytes) ? weft_malloc(bytes) : NULL;
  if (end->factor == NULL) return WEFT_NO_MEMORY("a normalisation");
  if (s->has_scale) { /* v - 0 is v, bit by bit */
    memset(end->factor, 0, bytes);
    out->mean = end->factor;
    out->factor = j.scale;
    return NULL;
  }
  const float *scale = j.scale, *variance = j.variance;
  for (int64_t c = 0; c < j.channels; c++) end->factor[c] = scale[c] / sqrtf(variance[c] + s->epsilon);
  out->factor = end->factor;
  return NULL;
}

/* Output 0 becomes its sum with the last input, of another shape, and the activation of that: as Add would.
 */
static weft_status_t *sum_apart(weft_kernel_ctx_t *ctx) {
  fused_state_t *s = ctx->state;
  const weft_kernel_t *adder = weft_cpu_binary_kernels;
  while (strcmp(adder->op, "AddV2") != 0) adder++;
  weft_kernel_node_t node = s->sum_node;
  weft_value_t inputs[2] = {{.tensor = ctx->outputs[0].tensor},
                            {.tensor = weft_tensor_retain(weft_in(ctx, ctx->node->num_inputs - 1))}},
               output = {NULL, NULL};
  node.num_inputs = 2;
  node.param = adder->param;
  weft_kernel_ctx_t inner = *ctx;
  inner.node = &node;
  inner.inputs = inputs;
  inner.outputs = &output;
  ctx->outputs[0].tensor = NULL;
  weft_status_t *status = adder->compute(&inner);
  for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i].tensor);
  if (status != NULL) {
    weft_tensor_release(output.tensor);
    ctx->failed = &s->sum_node;
    return status;
  }
  weft_tensor_t *y = output.tensor;
  const weft_epilogue_t e = {.channels = y->shape.dims[y->shape.rank - 1],
                             .activation = epilogue_activation(s->activation),
                             .alpha = s->alpha,
                             .then = s->then,
                             .multiplies = s->multiplies};
  if (y->count > 0) weft_epilogue_run(ctx->device->pool, &e, y->data, y->count / e.channels);
  weft_out_set(ctx, 0, y);
  return NULL;
}

static weft_status_t *run_epilogue(weft_kernel_ctx_t *ctx, fused_end_t *end) {
  const fused_op_t *op = ctx->node->param;
  if (op->then != NULL) return run_plain(ctx, &end->binder);
  WEFT_RETURN_IF_ERROR(run_plain(ctx, NULL));
  weft_tensor_t *y = ctx->outputs[0].tensor;
  weft_epilogue_t e;
  WEFT_RETURN_IF_ERROR(bind(&end->binder, &y->shape, &e));
  if (y->count > 0) weft_epilogue_run(ctx->device->pool, &e, y->data, y->count / e.channels);
  return NULL;
}

static weft_status_t *fused_epilogue(weft_kernel_ctx_t *ctx) {
  fused_end_t end = {.binder = {bind}, .ctx = ctx};
  weft_status_t *s = run_epilogue(ctx, &end);
  weft_free(end.factor);
  return s == NULL && end.sums_apart ? sum_apart(ctx) : s;
}

static weft_status_t *fused(weft_kernel_ctx_t *ctx) {
  const fused_state_t *s = ctx->state;
  const fused_op_t *op = ctx->node->param;
  if (s->is_epilogue) return fused_epilogue(ctx);
  WEFT_RETURN_IF_ERROR(run_plain(ctx, NULL));
  weft_tensor_t *y = ctx->outputs[0].tensor;
  if (y->count == 0) return NULL;
  const int at = s->is_channels_first ? 1 : y->shape.rank - 1;
  fused_job_t j = {.how = s,
                   .y = y->data,
                   .channels = y->shape.dims[at],
                   .inner = weft_cpu_product(&y->shape, at + 1, y->shape.rank)};
  WEFT_RETURN_IF_ERROR(read_args(ctx, &y->shape, op->family == weft_cpu_batch_norm_kernels ? 5 : 2, &j));
  const int64_t rows = y->count / j.inner;
  weft_parallel_for(ctx->device->pool, rows, WEFT_CPU_GRAIN / 8 / j.inner + 1, fused_fns[y->dtype], &j);
  return NULL;
}

#define FUSED(op_, types_, family_, plain_, is_product_, is_own_, then_)                      \
  {                                                                                           \
    .op = op_, .type_attr = "T", .types = types_, .prepare = fused_prepare, .compute = fused, \
    .destroy = fused_destroy, .param = &(const fused_op_t) {                                  \
      family_, plain_, is_product_, is_own_, then_                                            \
    }                                                                                         \
  }
#define F16_BF16_F32 (WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_F64))
const weft_kernel_t weft_cpu_fused_kernels[] = {
    FUSED("_FusedBatchNormEx", F16_BF16_F32, weft_cpu_batch_norm_kernels, "FusedBatchNormV3", false, false,
          NULL),
    FUSED("_FusedConv2D", WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_BF16), weft_cpu_conv_kernels, "Conv2D",
          false, false, weft_conv2d_then),
    FUSED("_FusedConv3D", F16_BF16_F32, weft_cpu_conv_kernels, "Conv3D", false, false, NULL),
    FUSED("_FusedDepthwiseConv2dNative", WEFT_SET_FLOATS, weft_cpu_depthwise_kernels, "DepthwiseConv2dNative",
          false, false, weft_depthwise_then),
    FUSED("_FusedMatMul", F16_BF16_F32, weft_cpu_matmul_kernels, "MatMul", true, false, NULL),
    FUSED("_WeftFusedConv2D", WEFT_DTYPE_BIT(WEFT_F32), weft_cpu_conv_kernels, "Conv2D", false, true,
          weft_conv2d_then),
    FUSED("_WeftFusedDepthwiseConv2dNative", WEFT_DTYPE_BIT(WEFT_F32), weft_cpu_depthwise_kernels,
          "DepthwiseConv2dNative", false, true, weft_depthwise_then),
    FUSED("_WeftFusedMatMul", WEFT_DTYPE_BIT(WEFT_F32), weft_cpu_matmul_kernels, "MatMul", true, true, NULL),
    {0},
};
