/* graph/passes/remap.c - a product or convolution with a BiasAdd, and perhaps an activation, behind it
 * becomes one node, as TensorFlow's Remapper does it: of floats, on CPUs, with channels last.
 *
 * The node that is left is the last one, with its name: consumers and those that fetch it see no difference,
 * and a failure of the product names it, as in TensorFlow. The others must feed nothing else.
 */
#include "base/alloc.h"
#include "graph/passes/round.h"

typedef struct fusible {
  const char *op, *fused,
      *type_list; /* type_list: the attribute with the types of the added inputs; NULL: none */
} fusible_t;

static const fusible_t products[] = {
    {"MatMul", "_FusedMatMul", NULL},
    {"Conv2D", "_FusedConv2D", "TArgs"},
    {"DepthwiseConv2dNative", "_FusedDepthwiseConv2dNative", NULL},
};
static const char *const activations[] = {"Relu", "Relu6", "LeakyRelu"};

enum { NUM_PRODUCTS = sizeof products / sizeof products[0], NUM_ACTIVATIONS = 3, MOST_ATTRS = 24 };

typedef struct remapper {
  weft_pass_round_t *r;
  int *num_readers; /* owned; by id: edges that lead out of a node */
  const weft_op_def_t *product_ops[NUM_PRODUCTS], *activation_ops[NUM_ACTIVATIONS], *bias_op;
} remapper_t;

static weft_status_t *count_readers(remapper_t *m) {
  const weft_graph_t *g = m->r->g;
  m->num_readers = weft_calloc((size_t)g->num_nodes + 1, sizeof *m->num_readers);
  if (m->num_readers == NULL) return WEFT_NO_MEMORY("optimising a graph of %d nodes", g->num_live);
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) m->num_readers[n->inputs[i].node->id]++;
    for (int i = 0; n != NULL && i < n->num_controls; i++) m->num_readers[n->controls[i]->id]++;
  }
  return NULL;
}

static bool is_on_cpu(const weft_node_t *n) {
  static const char cpu[] = "device:CPU:";
  const weft_str_t d = n->assigned_device;
  for (size_t i = 0; i + sizeof cpu - 1 <= d.length; i++) {
    if (memcmp(d.data + i, cpu, sizeof cpu - 1) == 0) return true;
  }
  return false;
}

/* May `n` be part of a fused node? */
static bool is_part(const weft_node_t *n) {
  const weft_str_t format = weft_node_attr_string(n, "data_format");
  return n->num_controls == 0 && weft_node_attr_type(n, "T") == WEFT_F32 && weft_node_is_pure(n) &&
         is_on_cpu(n) && (format.length == 0 || weft_str_is(format, "NHWC"));
}

/* The node behind input 0 of `reader`, if that alone reads it; else NULL. */
static weft_node_t *lone_producer(const remapper_t *m, const weft_node_t *reader) {
  weft_node_t *n = reader->inputs[0].node;
  const bool is_lone = n->id < m->r->num_ids && m->num_readers[n->id] == 1 && !m->r->is_kept[n->id];
  return is_lone && is_part(n) && weft_str_eq(n->assigned_device, reader->assigned_device) ? n : NULL;
}

static int find_op(const weft_op_def_t *const *ops, int n, const weft_op_def_t *op) {
  for (int i = 0; i < n; i++) {
    if (ops[i] == op) return i;
  }
  return -1;
}

/* ---- the fused node ---- */

static bool belongs(const weft_op_def_t *op, weft_str_t name) { return weft_op_attr(op, name) != NULL; }

/* The attributes of the product that the fused op has, and what it adds. */
static weft_status_t *make_attrs(remapper_t *m, const weft_node_t *product, const weft_node_t *activation,
                                 const weft_op_def_t *fused, const fusible_t *how, weft_named_attr_t *out,
                                 int *out_n) {
  static const int types[] = {WEFT_F32};
  weft_str_t *ops = weft_arena_calloc(&m->r->arena, 2, sizeof *ops);
  int n = 0;
  if (ops == NULL) return WEFT_NO_MEMORY("node '%s'", product->name.data);
  ops[0] = WEFT_STR("BiasAdd");
  if (activation != NULL) ops[1] = activation->op->name;
  for (int i = 0; i < product->num_attrs && n < MOST_ATTRS - 4; i++) {
    const weft_str_t name = product->attrs[i].name;
    if (belongs(fused, name) || (name.length > 0 && name.data[0] == '_')) out[n++] = product->attrs[i];
  }
  out[n++] = weft_int_attr("num_args", 1);
  out[n++] = (weft_named_attr_t){
      WEFT_STR("fused_ops"),
      {.kind = WEFT_ATTR_STRING, .is_list = true, .n = activation == NULL ? 1 : 2, .list.strings = ops}};
  const weft_attr_t *alpha = activation == NULL ? NULL : weft_node_attr(activation, "alpha");
  if (alpha != NULL) out[n++] = (weft_named_attr_t){WEFT_STR("leakyrelu_alpha"), *alpha};
  if (how->type_list != NULL) {
    out[n++] = (weft_named_attr_t){weft_str(how->type_list),
                                   {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 1, .list.types = types}};
  }
  *out_n = n;
  return NULL;
}

static weft_status_t *fuse(remapper_t *m, const weft_node_t *product, const weft_node_t *bias,
                           const weft_node_t *activation, const fusible_t *how) {
  weft_node_t *last = (weft_node_t *)(uintptr_t)(activation != NULL ? activation : bias), *fused = NULL;
  weft_named_attr_t attrs[MOST_ATTRS];
  int num_attrs = 0;
  const weft_op_def_t *op = weft_op_find(weft_str(how->fused));
  WEFT_RETURN_IF_ERROR(make_attrs(m, product, activation, op, how, attrs, &num_attrs));
  const weft_output_t inputs[] = {product->inputs[0], product->inputs[1], bias->inputs[1]};
  const weft_node_spec_t spec = {.name = last->name,
                                 .op = op->name,
                                 .device = last->requested_device,
                                 .inputs = inputs,
                                 .num_inputs = 3,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  weft_graph_remove(m->r->g,
                    last); /* its memory, and what its consumers read, stay until the end of the pass */
  WEFT_RETURN_IF_ERROR(weft_graph_add(m->r->g, &spec, &fused));
  fused->assigned_device = last->assigned_device;
  m->r->merged[last->id] = fused;
  m->r->has_changed = m->r->has_replaced = true;
  weft_pass_round_note(m->r, product, "is part of", last->name);
  if (bias != last) weft_pass_round_note(m->r, bias, "is part of", last->name);
  weft_pass_round_note(m->r, last, "becomes", op->name);
  return NULL;
}

/* `n` is the last node of a pattern, or none. */
static weft_status_t *remap(remapper_t *m, weft_node_t *n) {
  const bool is_activation = find_op(m->activation_ops, NUM_ACTIVATIONS, n->op) >= 0;
  if ((!is_activation && n->op != m->bias_op) || m->r->is_kept[n->id] || !is_part(n)) return NULL;
  const weft_node_t *bias = is_activation ? lone_producer(m, n) : n;
  if (bias == NULL || bias->op != m->bias_op) return NULL;
  const weft_node_t *product = lone_producer(m, bias);
  const int which = product == NULL ? -1 : find_op(m->product_ops, NUM_PRODUCTS, product->op);
  if (which < 0) return NULL;
  return fuse(m, product, bias, is_activation ? n : NULL, &products[which]);
}

/* From the last node to the first: an activation takes its BiasAdd along before that is looked at. */
weft_status_t *weft_pass_remap(weft_pass_round_t *r) {
  remapper_t m = {.r = r, .bias_op = weft_op_find(WEFT_STR("BiasAdd"))};
  for (int i = 0; i < NUM_PRODUCTS; i++) m.product_ops[i] = weft_op_find(weft_str(products[i].op));
  for (int i = 0; i < NUM_ACTIVATIONS; i++) m.activation_ops[i] = weft_op_find(weft_str(activations[i]));
  weft_status_t *s = weft_pass_round_finish(r);
  if (s == NULL) s = count_readers(&m);
  for (int i = r->num_ordered - 1; s == NULL && i >= 0; i--) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    s = remap(&m, n);
  }
  weft_free(m.num_readers);
  return s;
}
