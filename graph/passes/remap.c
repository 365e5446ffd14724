/* graph/passes/remap.c - a product or convolution and what follows it on each element of its result become
 * one node, as TensorFlow's Remapper does it: of floats, on CPUs, with channels last. On other devices that
 * is done to products with a bias and maybe an activation, of float, half or bfloat16, where the device has a
 * kernel for the fused node: it may round once instead of behind each node (docs/decisions/0036).
 *
 *   MatMul, Conv2D, DepthwiseConv2dNative
 *   -> BiasAdd, or an Add of a vector that is as long as the result has channels, and, of convolutions,
 * FusedBatchNorm with given moments, or a Mul and an Add of such vectors: one of them, or both in this order
 *   -> maybe Add of a tensor
 *   -> maybe an activation, or x * sigmoid(x)
 *
 * Before that, convolutions take along the zeros around their images (pads.c).
 *
 * The node that is left is the last one, with its name: consumers and those that fetch it see no difference,
 * and a failure of the product names it, as in TensorFlow. The others must feed nothing else. Whether the
 * tensor that is added has the result's shape is seen in the step (kernels/cpu/nn/fused.c), where one that
 * has not is added, or refused, as by the node that was there.
 */
#include "base/alloc.h"
#include "graph/passes/pads.h"

typedef struct fusible {
  const char *op, *fused, *own, /* for what TensorFlow's fused op has no form for; NULL: there is none */
      *type_list;               /* the attribute of `fused` with the types of the added inputs; NULL: none */
  bool takes_norm;
} fusible_t;

enum { MATMUL, CONV2D, DEPTHWISE };
static const fusible_t products[] = {
    [MATMUL] = {"MatMul", "_FusedMatMul", "_WeftFusedMatMul", NULL, false},
    [CONV2D] = {"Conv2D", "_FusedConv2D", "_WeftFusedConv2D", "TArgs", true},
    [DEPTHWISE] = {"DepthwiseConv2dNative", "_FusedDepthwiseConv2dNative", "_WeftFusedDepthwiseConv2dNative",
                   NULL, true},
};
static const char *const activations[] = {"Relu",    "Relu6",    "LeakyRelu", "Elu", "Selu",
                                          "Sigmoid", "Softplus", "Softsign",  "Tanh"};
static const char *const norms[] = {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"};
static const char *const sums[] = {"Add", "AddV2"};

enum {
  NUM_PRODUCTS = sizeof products / sizeof products[0],
  NUM_ACTIVATIONS = sizeof activations / sizeof activations[0],
  NUM_EVERYWHERE = 3, /* of them, on devices other than CPUs, and of TensorFlow's fused ops */
  NUM_NORMS = sizeof norms / sizeof norms[0],
  NUM_SUMS = sizeof sums / sizeof sums[0],
  NORM_ARGS = 4, /* scale, offset, mean, variance */
  MOST_ARGS = 1 + NORM_ARGS + 1,
  MOST_PARTS = 7,
  ADDED_ATTRS = 6, /* at most, to those of the product */
  MOST_ATTRS = 24
};

typedef struct remapper {
  weft_pass_round_t *r;
  int *num_readers; /* owned; by id: edges that lead out of a node; TAKEN: it is part of a fused node */
  uint8_t *is_read_beyond; /* owned; by id: an output is read that is not the first */
  const weft_op_def_t *product_ops[NUM_PRODUCTS], *activation_ops[NUM_ACTIVATIONS], *norm_ops[NUM_NORMS],
      *sum_ops[NUM_SUMS], *bias_op, *mul_op, *sigmoid_op;
} remapper_t;

enum { TAKEN = -1 };

/* What becomes one node. `parts` ends with the last one, all but that feed only the next. */
typedef struct layer {
  const fusible_t *how;
  weft_node_t *parts[MOST_PARTS];
  int num_parts;
  const weft_node_t *product, *bias, *norm, *sum, *activation; /* all but `product` may be NULL */
  bool is_swish; /* the activation is a Mul of x and sigmoid(x) */
  bool has_scale;
  weft_output_t bias_value, factor, shift, addend; /* factor, shift: of has_scale */
} layer_t;
static weft_status_t *count_readers(remapper_t *m) {
  const weft_graph_t *g = m->r->g;
  m->num_readers = weft_calloc((size_t)g->num_nodes + 1, sizeof *m->num_readers);
  m->is_read_beyond = weft_calloc((size_t)g->num_nodes + 1, sizeof *m->is_read_beyond);
  if (m->num_readers == NULL || m->is_read_beyond == NULL)
    return WEFT_NO_MEMORY("optimising a graph of %d nodes", g->num_live);
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) {
      m->num_readers[n->inputs[i].node->id]++;
      if (n->inputs[i].index > 0) m->is_read_beyond[n->inputs[i].node->id] = 1;
    }
    for (int i = 0; n != NULL && i < n->num_controls; i++) m->num_readers[n->controls[i]->id]++;
  }
  return NULL;
}

static bool is_short_float(int type) { return type == WEFT_F32 || type == WEFT_F16 || type == WEFT_BF16; }

/* May `n` be part of a fused node? */
static bool is_part(const remapper_t *m, const weft_node_t *n) {
  const weft_str_t format = weft_node_attr_string(n, "data_format");
  const int type = weft_node_attr_type(n, "T");
  const bool fits = weft_pass_round_is_on_cpu(n) ? type == WEFT_F32
                                                 : is_short_float(type) && m->r->options->has_kernel != NULL;
  return fits && n->num_controls == 0 && weft_node_is_pure(n) &&
         (format.length == 0 || weft_str_is(format, "NHWC"));
}

/* The node behind input `input` of `reader`, if it has so many readers, of its first output; else NULL. */
static weft_node_t *producer_of(const remapper_t *m, const weft_node_t *reader, int input, int num_readers) {
  weft_node_t *n = reader->inputs[input].node;
  const bool is_lone = n->id < m->r->num_ids && m->num_readers[n->id] == num_readers &&
                       !m->r->is_kept[n->id] && !m->is_read_beyond[n->id];
  return is_lone && is_part(m, n) && weft_str_eq(n->assigned_device, reader->assigned_device) ? n : NULL;
}

static weft_node_t *lone_producer(const remapper_t *m, const weft_node_t *reader, int input) {
  return producer_of(m, reader, input, 1);
}

static int find_op(const weft_op_def_t *const *ops, int n, const weft_op_def_t *op) {
  for (int i = 0; i < n; i++) {
    if (ops[i] == op) return i;
  }
  return -1;
}

/* ---- finding a layer, from its last node to the product ---- */

static void push_part(layer_t *l, weft_node_t *n) { l->parts[l->num_parts++] = n; }

/* The channels of a product's result, as far as its second operand tells them; -1: it does not, or `n` is no
 * product. */
static int64_t channels_of(const remapper_t *m, const weft_node_t *n) {
  const int which = find_op(m->product_ops, NUM_PRODUCTS, n->op);
  if (which < 0) return -1;
  const weft_shape_t *f = weft_pass_round_shape(n->inputs[1]);
  switch (which) {
    case MATMUL: return f->rank == 2 ? f->dims[!weft_node_attr_bool(n, "transpose_b", false)] : -1;
    case CONV2D: return f->rank == 4 ? f->dims[3] : -1;
    case DEPTHWISE: return f->rank == 4 && f->dims[2] >= 0 && f->dims[3] == 1 ? f->dims[2] : -1;
    default: return -1;
  }
}

/* Which input of `n` is a bias; -1: none is. Of an Add, the other one is a product. */
static int bias_input(const remapper_t *m, const weft_node_t *n) {
  if (n->op == m->bias_op) return 1;
  for (int i = 0; i < 2 && find_op(m->sum_ops, NUM_SUMS, n->op) >= 0; i++) {
    const weft_node_t *product = lone_producer(m, n, 1 - i);
    const weft_shape_t *value = weft_pass_round_shape(n->inputs[i]);
    const int64_t channels = product == NULL ? -1 : channels_of(m, product);
    if (channels > 1 && value->rank == 1 && value->dims[0] == channels) return i;
  }
  return -1;
}

/* Which input of `n`, an Add or a Mul, is a vector of so many channels; -1: none is. */
static int vector_input(const weft_node_t *n, int64_t channels) {
  for (int i = 0; i < 2; i++) {
    const weft_shape_t *value = weft_pass_round_shape(n->inputs[i]);
    if (channels > 1 && value->rank == 1 && value->dims[0] == channels) return i;
  }
  return -1;
}

/* Is `n` a shift of a factor times a product, or times one with a bias? Then *n is what the factor is of. */
static bool read_scale(const remapper_t *m, weft_node_t **n, layer_t *l) {
  weft_node_t *sum = *n;
  if (sum == NULL || find_op(m->sum_ops, NUM_SUMS, sum->op) < 0 || !weft_pass_round_is_on_cpu(sum))
    return false;
  for (int i = 0; i < 2; i++) {
    weft_node_t *scaled = lone_producer(m, sum, i);
    if (scaled == NULL || scaled->op != m->mul_op) continue;
    for (int k = 0; k < 2; k++) {
      weft_node_t *inner = lone_producer(m, scaled, k);
      const int value = inner == NULL ? -1 : bias_input(m, inner);
      const weft_node_t *product = value < 0 ? inner : lone_producer(m, inner, 1 - value);
      const int64_t channels = product == NULL ? -1 : channels_of(m, product);
      if (vector_input(sum, channels) != 1 - i || vector_input(scaled, channels) != 1 - k) continue;
      l->has_scale = true;
      l->factor = scaled->inputs[1 - k];
      l->shift = sum->inputs[1 - i];
      push_part(l, sum);
      push_part(l, scaled);
      *n = inner;
      return true;
    }
  }
  return false;
}

/* Ends in `n` what a layer begins with: a product with a bias, a normalisation, or both? */
static bool read_begin(const remapper_t *m, weft_node_t *n, layer_t *l) {
  if (n != NULL && find_op(m->norm_ops, NUM_NORMS, n->op) >= 0 &&
      !weft_node_attr_bool(n, "is_training", true)) {
    l->norm = n;
    push_part(l, n);
    n = lone_producer(m, n, 0);
  } else {
    (void)read_scale(m, &n, l);
  }
  const int value = n == NULL ? -1 : bias_input(m, n);
  if (value >= 0) {
    l->bias = n;
    l->bias_value = n->inputs[value];
    push_part(l, n);
    n = lone_producer(m, n, 1 - value);
  }
  const int which = n == NULL ? -1 : find_op(m->product_ops, NUM_PRODUCTS, n->op);
  if (which < 0 || (l->bias == NULL && l->norm == NULL && !l->has_scale)) return false;
  l->how = &products[which];
  l->product = n;
  push_part(l, n);
  return (l->norm == NULL && !l->has_scale) || l->how->takes_norm;
}

/* The same for the sum of that and another tensor. */
static bool read_sum(const remapper_t *m, weft_node_t *n, layer_t *l) {
  if (find_op(m->sum_ops, NUM_SUMS, n->op) < 0) return read_begin(m, n, l);
  const layer_t before = *l;
  for (int i = 0; i < 2; i++) {
    *l = before;
    l->sum = n;
    l->addend = n->inputs[1 - i];
    push_part(l, n);
    if (read_begin(m, lone_producer(m, n, i), l)) return true;
  }
  *l = before;
  return read_begin(m, n, l);
}

/* Is `last` x * sigmoid(x) of a layer x? */
static bool read_swish(const remapper_t *m, weft_node_t *last, layer_t *l) {
  for (int i = 0; i < 2 && last->op == m->mul_op && weft_pass_round_is_on_cpu(last); i++) {
    weft_node_t *sigmoid = lone_producer(m, last, 1 - i), *x = producer_of(m, last, i, 2);
    if (sigmoid == NULL || sigmoid->op != m->sigmoid_op || x == NULL || sigmoid->inputs[0].node != x ||
        sigmoid->inputs[0].index != 0 || sigmoid->num_controls > 0)
      continue;
    *l = (layer_t){.activation = last, .is_swish = true};
    push_part(l, last);
    push_part(l, sigmoid);
    return read_sum(m, x, l);
  }
  return false;
}

static bool read_layer(const remapper_t *m, weft_node_t *last, layer_t *l) {
  if (!is_part(m, last) || m->r->is_kept[last->id] || m->is_read_beyond[last->id]) return false;
  if (read_swish(m, last, l)) return true;
  *l = (layer_t){.how = NULL};
  const int which = find_op(m->activation_ops, NUM_ACTIVATIONS, last->op);
  if (which < 0) return read_sum(m, last, l);
  if (which >= NUM_EVERYWHERE && !weft_pass_round_is_on_cpu(last)) return false;
  l->activation = last;
  push_part(l, last);
  weft_node_t *before = lone_producer(m, last, 0);
  return before != NULL && read_sum(m, before, l);
}

/* May the layer be one node where it is? */
static bool is_fusible(const remapper_t *m, const layer_t *l, const weft_op_def_t *op,
                       const weft_named_attr_t *attrs, int num_attrs) {
  if (weft_pass_round_is_on_cpu(l->product)) return true;
  const weft_node_t fused = {
      .op = op, .attrs = attrs, .num_attrs = num_attrs, .assigned_device = l->product->assigned_device};
  return l->how == &products[MATMUL] && l->bias != NULL && l->norm == NULL && l->sum == NULL &&
         m->r->options->has_kernel(m->r->options->has_kernel_arg, &fused);
}

/* ---- the fused node ---- */

static bool belongs(const weft_op_def_t *op, weft_str_t name) { return weft_op_attr(op, name) != NULL; }

static weft_named_attr_t list_attr(const char *name, weft_attr_t list) {
  list.is_list = true;
  return (weft_named_attr_t){weft_str(name), list};
}

/* The attributes of the product that the fused op has, and what it adds. The lists lie in the round's arena.
 */
static weft_status_t *make_attrs(remapper_t *m, const layer_t *l, const weft_op_def_t *fused, int num_args,
                                 weft_named_attr_t *out, int *out_n) {
  weft_str_t *ops = weft_arena_calloc(&m->r->arena, MOST_PARTS, sizeof *ops);
  int *types = weft_arena_calloc(&m->r->arena, MOST_ARGS, sizeof *types);
  int n = 0, num_ops = 0;
  if (ops == NULL || types == NULL) return WEFT_NO_MEMORY("node '%s'", l->product->name.data);
  for (int i = 0; i < num_args; i++) types[i] = WEFT_F32;
  if (l->bias != NULL) ops[num_ops++] = WEFT_STR("BiasAdd");
  if (l->norm != NULL) ops[num_ops++] = WEFT_STR("FusedBatchNorm");
  if (l->has_scale) {
    ops[num_ops++] = WEFT_STR("Mul");
    ops[num_ops++] = WEFT_STR("BiasAdd");
  }
  if (l->sum != NULL) ops[num_ops++] = WEFT_STR("Add");
  if (l->activation != NULL) ops[num_ops++] = l->is_swish ? WEFT_STR("Swish") : l->activation->op->name;
  for (int i = 0; i < l->product->num_attrs && n < MOST_ATTRS - ADDED_ATTRS; i++) {
    const weft_str_t name = l->product->attrs[i].name;
    if (belongs(fused, name) || (name.length > 0 && name.data[0] == '_')) out[n++] = l->product->attrs[i];
  }
  out[n++] = weft_int_attr("num_args", num_args);
  out[n++] =
      list_attr("fused_ops", (weft_attr_t){.kind = WEFT_ATTR_STRING, .n = num_ops, .list.strings = ops});
  if (l->how->type_list != NULL && belongs(fused, weft_str(l->how->type_list)))
    out[n++] = list_attr(l->how->type_list,
                         (weft_attr_t){.kind = WEFT_ATTR_TYPE, .n = num_args, .list.types = types});
  const weft_attr_t *alpha = l->activation == NULL ? NULL : weft_node_attr(l->activation, "alpha");
  if (alpha != NULL) out[n++] = (weft_named_attr_t){WEFT_STR("leakyrelu_alpha"), *alpha};
  if (l->norm != NULL)
    out[n++] = (weft_named_attr_t){WEFT_STR("epsilon"), *weft_node_attr(l->norm, "epsilon")};
  if (l->sum != NULL) {
    out[n++] = (weft_named_attr_t){WEFT_STR("_sum_node"), {.kind = WEFT_ATTR_STRING, .s = l->sum->name}};
  }
  *out_n = n;
  return NULL;
}

static int gather_inputs(const layer_t *l, weft_output_t *out) {
  int n = 0;
  out[n++] = l->product->inputs[0];
  out[n++] = l->product->inputs[1];
  if (l->bias != NULL) out[n++] = l->bias_value;
  for (int i = 1; l->norm != NULL && i <= NORM_ARGS; i++) out[n++] = l->norm->inputs[i];
  if (l->has_scale) {
    out[n++] = l->factor;
    out[n++] = l->shift;
  }
  if (l->sum != NULL) out[n++] = l->addend;
  return n;
}

/* Whether TensorFlow's fused op has no form for it. */
static bool is_own(const remapper_t *m, const layer_t *l) {
  const weft_attr_t *padding = weft_node_attr(l->product, "padding");
  const bool is_explicit = padding != NULL && weft_str_is(padding->s, "EXPLICIT");
  return l->how->own != NULL &&
         (l->has_scale || l->is_swish || (l->how == &products[DEPTHWISE] && is_explicit) ||
          (l->activation != NULL &&
           find_op(m->activation_ops, NUM_ACTIVATIONS, l->activation->op) >= NUM_EVERYWHERE));
}

static weft_status_t *fuse(remapper_t *m, const layer_t *l) {
  weft_node_t *last = l->parts[0], *fused = NULL;
  weft_output_t inputs[2 + MOST_ARGS];
  weft_named_attr_t attrs[MOST_ATTRS];
  int num_attrs = 0;
  const int num_inputs = gather_inputs(l, inputs);
  const weft_op_def_t *op = weft_op_find(weft_str(is_own(m, l) ? l->how->own : l->how->fused));
  WEFT_RETURN_IF_ERROR(make_attrs(m, l, op, num_inputs - 2, attrs, &num_attrs));
  if (!is_fusible(m, l, op, attrs, num_attrs)) return NULL;
  const weft_node_spec_t spec = {.name = last->name,
                                 .op = op->name,
                                 .device = last->requested_device,
                                 .inputs = inputs,
                                 .num_inputs = num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  weft_graph_remove(m->r->g,
                    last); /* its memory, and what its consumers read, stay until the end of the pass */
  WEFT_RETURN_IF_ERROR(weft_graph_add(m->r->g, &spec, &fused));
  fused->assigned_device = last->assigned_device;
  m->r->merged[last->id] = fused;
  m->r->has_changed = m->r->has_replaced = true;
  for (int i = l->num_parts - 1; i > 0; i--) {
    m->num_readers[l->parts[i]->id] = TAKEN;
    weft_pass_round_note(m->r, l->parts[i], "is part of", last->name);
  }
  weft_pass_round_note(m->r, last, "becomes", op->name);
  return NULL;
}

static void find_ops(const char *const *names, int n, const weft_op_def_t **out) {
  for (int i = 0; i < n; i++) out[i] = weft_op_find(weft_str(names[i]));
}

/* From the last node to the first: a layer is found by its last node before its parts are looked at. */
weft_status_t *weft_pass_remap(weft_pass_round_t *r) {
  remapper_t m = {.r = r,
                  .bias_op = weft_op_find(WEFT_STR("BiasAdd")),
                  .mul_op = weft_op_find(WEFT_STR("Mul")),
                  .sigmoid_op = weft_op_find(WEFT_STR("Sigmoid"))};
  for (int i = 0; i < NUM_PRODUCTS; i++) m.product_ops[i] = weft_op_find(weft_str(products[i].op));
  find_ops(activations, NUM_ACTIVATIONS, m.activation_ops);
  find_ops(norms, NUM_NORMS, m.norm_ops);
  find_ops(sums, NUM_SUMS, m.sum_ops);
  weft_status_t *s = weft_pass_round_finish(r);
  if (s == NULL) s = weft_pass_round_infer(r);
  if (s == NULL) s = weft_pass_fold_pads(r);
  if (s == NULL) s = count_readers(&m);
  for (int i = r->num_ordered - 1; s == NULL && i >= 0; i--) {
    weft_node_t *n = r->order[i];
    layer_t l = {.how = NULL};
    if (!weft_pass_round_has(r, n) || m.num_readers[n->id] == TAKEN) continue;
    if (read_layer(&m, n, &l)) s = fuse(&m, &l);
  }
  weft_free(m.num_readers);
  weft_free(m.is_read_beyond);
  return s;
}
