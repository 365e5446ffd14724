/* graph/passes/arithmetic.c - computations whose result is one of their inputs, or that of a simpler op.
 *
 * All rules keep every bit, but for two kinds: quiet and signalling NaN are not told apart, and denormals
 * that a product by one would have flushed to zero stay; and Pow by 2, 1/2, -1/2 and -1 becomes Square, Sqrt,
 * Rsqrt and Reciprocal, and by 3 the product with a Square, as TensorFlow's Grappler does it (pow(-inf, 1/2)
 * is inf, sqrt(-inf) is NaN). So x + 0 is x for integers only: -0.0 + 0.0 is 0.0; x - 0.0 and x + -0.0 are x.
 *
 * A node that waits for something is left alone, so is one behind a value of another device or of a Switch.
 * The value of a variable that is read through a reference changes with it: what computes with it makes a
 * copy, which stays.
 */
#include "graph/passes/round.h"

typedef weft_status_t *rule_fn(weft_pass_round_t *r, weft_node_t *n);

/* ---- values ---- */

/* One element of each type, as its bytes; false: the type has none such. */
static bool pattern_of(weft_dtype_t type, double value, uint8_t *out) {
  union {
    uint16_t h;
    float f;
    double d;
    int64_t i;
    uint8_t bytes[8];
  } u = {.i = (int64_t)value};
  const bool is_negative = value < 0 || (value == 0 && 1 / value < 0);
  const double size = is_negative ? -value : value;
  switch (type) {
    case WEFT_F32: u.f = (float)value; break;
    case WEFT_F64: u.d = value; break;
    case WEFT_F16:
    case WEFT_BF16: {
      const uint16_t one = type == WEFT_F16 ? 0x3c00 : 0x3f80, half = type == WEFT_F16 ? 0x3800 : 0x3f00;
      u.h = size == 0 ? 0 : size == 1 ? one : size == 0.5 ? half : 0x4000; /* 2 has the same bits in both */
      u.h |= is_negative ? 0x8000 : 0;
      break;
    }
    case WEFT_BOOL:
    case WEFT_I8:
    case WEFT_U8:
    case WEFT_I16:
    case WEFT_U16:
    case WEFT_I32:
    case WEFT_U32:
    case WEFT_I64:
    case WEFT_U64:
      if (is_negative) return false;
      break; /* the low bytes come first */
    default: return false;
  }
  memcpy(out, u.bytes, sizeof u.bytes);
  return true;
}

/* Is `of` a constant all of whose elements are `value` (0, -0.0, 0.5, 1, 2 and their negatives)? */
static bool is_all(weft_output_t of, double value) {
  enum { MOST = 4096 };
  const weft_tensor_t *t = weft_pass_round_constant(of);
  uint8_t pattern[8];
  if (t == NULL || t->count == 0 || t->count > MOST || !pattern_of(t->dtype, value, pattern)) return false;
  const size_t size = weft_dtype_size(t->dtype);
  for (int64_t i = 0; i < t->count; i++) {
    if (memcmp((const char *)t->data + (size_t)i * size, pattern, size) != 0) return false;
  }
  return true;
}

static bool is_float(int type) {
  return type == WEFT_F16 || type == WEFT_BF16 || type == WEFT_F32 || type == WEFT_F64;
}

static bool is_integer(int type) {
  return type == WEFT_I8 || type == WEFT_U8 || type == WEFT_I16 || type == WEFT_U16 || type == WEFT_I32 ||
         type == WEFT_U32 || type == WEFT_I64 || type == WEFT_U64;
}

/* Has `n`, of two inputs that are broadcast, the shape of input `input` whatever that is? */
static bool has_shape_of(const weft_node_t *n, int input) {
  const weft_shape_t *x = weft_pass_round_shape(n->inputs[input]),
                     *y = weft_pass_round_shape(n->inputs[1 - input]);
  const weft_tensor_t *constant = weft_pass_round_constant(n->inputs[1 - input]);
  const weft_shape_t *out = weft_pass_round_shape((weft_output_t){(weft_node_t *)(uintptr_t)n, 0});
  if (constant != NULL) y = &constant->shape;
  if (y->rank == 0) return true;
  if (x->rank >= y->rank && weft_shape_count(y) == 1) return true;
  return weft_shape_is_known(x) && weft_shape_eq(x, out);
}

/* ---- saying what consumers read ---- */

/* Consumers of `n` read `to`, which comes out of input `input`. The other inputs of `n` are no longer read:
 * none of them may be what makes `n` dead in a branch. */
static weft_status_t *forward(weft_pass_round_t *r, weft_node_t *n, int input, weft_output_t to) {
  if (!weft_output_may_replace(to, n) || weft_pass_round_is_variable(r, to.node)) return NULL;
  for (int i = 0; i < n->num_inputs; i++) {
    if (i != input && weft_pass_round_is_conditional(r, n->inputs[i].node)) return NULL;
  }
  return weft_pass_round_forward(r, n, 0, to);
}

/* Input 0 of the node behind `of` if that is a pure node of `op` which waits for nothing; node NULL: it is
 * not. */
static weft_output_t operand_of(const weft_pass_round_t *r, weft_output_t of, const weft_op_def_t *op,
                                const weft_node_t *reader) {
  const weft_node_t *n = of.node;
  if (n->op != op || n->num_controls > 0 || !weft_node_is_pure(n) || !weft_output_may_replace(of, reader) ||
      !weft_output_may_replace(n->inputs[0], reader))
    return (weft_output_t){NULL, 0};
  for (int i = 1; i < n->num_inputs; i++) {
    if (weft_pass_round_is_conditional(r, n->inputs[i].node)) return (weft_output_t){NULL, 0};
  }
  return n->inputs[0];
}

static weft_output_t operand_named(const weft_pass_round_t *r, weft_output_t of, const char *op,
                                   const weft_node_t *reader) {
  return operand_of(r, of, weft_op_find(weft_str(op)), reader);
}

/* ---- rules ---- */

static weft_status_t *neutral_right(weft_pass_round_t *r, weft_node_t *n, double value) {
  return is_all(n->inputs[1], value) && has_shape_of(n, 0) ? forward(r, n, 0, n->inputs[0]) : NULL;
}

static weft_status_t *neutral_both(weft_pass_round_t *r, weft_node_t *n, double value) {
  if (is_all(n->inputs[0], value) && has_shape_of(n, 1)) return forward(r, n, 1, n->inputs[1]);
  return neutral_right(r, n, value);
}

static weft_status_t *rule_add(weft_pass_round_t *r, weft_node_t *n) {
  const int type = n->output_types[0];
  if (type == WEFT_STRING) return NULL;
  const weft_output_t right = operand_named(r, n->inputs[1], "Neg", n);
  const weft_output_t left = operand_named(r, n->inputs[0], "Neg", n);
  if (right.node != NULL && weft_pass_round_is_on_cpu(n))
    return weft_pass_round_become(r, n, "Sub", (weft_output_t[]){n->inputs[0], right}, 2);
  if (left.node != NULL && weft_pass_round_is_on_cpu(n))
    return weft_pass_round_become(r, n, "Sub", (weft_output_t[]){n->inputs[1], left}, 2);
  return neutral_both(r, n, is_float(type) ? -0.0 : 0.0);
}

static weft_status_t *rule_sub(weft_pass_round_t *r, weft_node_t *n) {
  const weft_output_t right = operand_named(r, n->inputs[1], "Neg", n);
  if (right.node != NULL && weft_pass_round_is_on_cpu(n))
    return weft_pass_round_become(r, n, "AddV2", (weft_output_t[]){n->inputs[0], right}, 2);
  return neutral_right(r, n, 0.0);
}

static weft_status_t *rule_mul(weft_pass_round_t *r, weft_node_t *n) { return neutral_both(r, n, 1.0); }
static weft_status_t *rule_div(weft_pass_round_t *r, weft_node_t *n) { return neutral_right(r, n, 1.0); }
static weft_status_t *rule_floor_div(weft_pass_round_t *r, weft_node_t *n) {
  return is_integer(n->output_types[0]) ? neutral_right(r, n, 1.0) : NULL;
}
static weft_status_t *rule_and(weft_pass_round_t *r, weft_node_t *n) { return neutral_both(r, n, 1.0); }
static weft_status_t *rule_or(weft_pass_round_t *r, weft_node_t *n) { return neutral_both(r, n, 0.0); }

/* The same op twice gives what there was before. */
static weft_status_t *rule_involution(weft_pass_round_t *r, weft_node_t *n) {
  const weft_output_t x = operand_of(r, n->inputs[0], n->op, n);
  return x.node != NULL ? forward(r, n, 0, x) : NULL;
}

/* x^3 as the product of x and its square, which is a new node. */
static weft_status_t *become_cube(weft_pass_round_t *r, weft_node_t *n) {
  const weft_output_t x = n->inputs[0];
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/square", n->name.data);
  const weft_str_t name =
      text.failed ? (weft_str_t){NULL, 0} : weft_graph_unique_name(r->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (name.data == NULL) return WEFT_NO_MEMORY("node '%s'", n->name.data);
  const weft_named_attr_t type = weft_type_attr("T", n->output_types[0]);
  const weft_node_spec_t spec = {.name = name,
                                 .op = WEFT_STR("Square"),
                                 .device = n->requested_device,
                                 .inputs = &x,
                                 .num_inputs = 1,
                                 .attrs = &type,
                                 .num_attrs = 1};
  weft_node_t *square = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(r->g, &spec, &square));
  square->assigned_device = n->assigned_device;
  return weft_pass_round_become(r, n, "Mul", (weft_output_t[]){x, {square, 0}}, 2);
}

static weft_status_t *rule_pow(weft_pass_round_t *r, weft_node_t *n) {
  static const struct {
    double exponent;
    const char *op;
  } simpler[] = {{2, "Square"}, {0.5, "Sqrt"}, {-0.5, "Rsqrt"}, {-1, "Reciprocal"}};
  if (!is_float(n->output_types[0]) || !has_shape_of(n, 0)) return NULL;
  if (is_all(n->inputs[1], 1)) return forward(r, n, 0, n->inputs[0]);
  for (size_t i = 0; i < sizeof simpler / sizeof simpler[0]; i++) {
    if (is_all(n->inputs[1], simpler[i].exponent) && weft_pass_round_is_on_cpu(n))
      return weft_pass_round_become(r, n, simpler[i].op, &n->inputs[0], 1);
  }
  const bool is_cube = is_all(n->inputs[1], 3) && weft_pass_round_is_on_cpu(n);
  return is_cube && !weft_pass_round_is_variable(r, n->inputs[0].node) ? become_cube(r, n) : NULL;
}

static weft_status_t *rule_add_n(weft_pass_round_t *r, weft_node_t *n) {
  return n->num_inputs == 1 ? forward(r, n, 0, n->inputs[0]) : NULL;
}

/* A reduction over no axes. */
static weft_status_t *rule_reduce(weft_pass_round_t *r, weft_node_t *n) {
  const weft_tensor_t *axes = weft_pass_round_constant(n->inputs[1]);
  return axes != NULL && axes->count == 0 ? forward(r, n, 0, n->inputs[0]) : NULL;
}

/* ---- layouts ---- */

/* Also where the value has another rank than the permutation: then the transposition fails. */
static bool has_rank(weft_output_t of, int rank) { return weft_pass_round_shape(of)->rank == rank; }

static weft_status_t *rule_transpose(weft_pass_round_t *r, weft_node_t *n) {
  int outer[WEFT_MAX_DIMS], inner[WEFT_MAX_DIMS];
  const int rank = weft_pass_round_permutation(n->inputs[1], outer);
  int i = 0;
  if (rank < 0 || !has_rank(n->inputs[0], rank)) return NULL;
  while (i < rank && outer[i] == i) i++;
  if (i == rank) return forward(r, n, 0, n->inputs[0]);
  const weft_output_t x = operand_of(r, n->inputs[0], n->op, n);
  if (x.node == NULL || weft_pass_round_permutation(n->inputs[0].node->inputs[1], inner) != rank) return NULL;
  for (i = 0; i < rank; i++) {
    if (inner[outer[i]] != i) return NULL;
  }
  return forward(r, n, 0, x);
}

/* A view of the shape that its input has; a Reshape of a view is one of what is viewed. */
static weft_status_t *rule_view(weft_pass_round_t *r, weft_node_t *n) {
  const weft_shape_t *before = weft_pass_round_shape(n->inputs[0]);
  const weft_shape_t *after = weft_pass_round_shape((weft_output_t){n, 0});
  if (n->num_inputs > 1 && weft_pass_round_constant(n->inputs[1]) == NULL) return NULL; /* it may not fit */
  if (weft_shape_is_known(before) && weft_shape_eq(before, after)) return forward(r, n, 0, n->inputs[0]);
  const weft_node_t *inner = n->inputs[0].node;
  const bool is_known = weft_shape_is_known(before) && weft_shape_is_known(after);
  if (n->op != weft_op_find(WEFT_STR("Reshape")) || (inner->flags & WEFT_OP_VIEW) == 0 || !is_known)
    return NULL;
  const weft_output_t x = operand_of(r, n->inputs[0], inner->op, n);
  if (x.node == NULL || !weft_shape_is_known(weft_pass_round_shape(x))) return NULL;
  weft_graph_set_input(n, 0, x);
  r->has_changed = true;
  weft_pass_round_note(r, n, "reads", x.node->name);
  return NULL;
}

static weft_status_t *rule_bitcast(weft_pass_round_t *r, weft_node_t *n) {
  if (n->input_types[0] == n->output_types[0]) return forward(r, n, 0, n->inputs[0]);
  const weft_output_t x = operand_of(r, n->inputs[0], n->op, n);
  if (x.node == NULL || x.node->output_types[x.index] != n->output_types[0]) return NULL;
  if (weft_dtype_size((weft_dtype_t)n->input_types[0]) != weft_dtype_size((weft_dtype_t)n->output_types[0]))
    return NULL;
  return forward(r, n, 0, x);
}

static const struct {
  const char *op;
  rule_fn *rule;
} rules[] = {
    {"Add", rule_add},
    {"AddN", rule_add_n},
    {"AddV2", rule_add},
    {"All", rule_reduce},
    {"Any", rule_reduce},
    {"Bitcast", rule_bitcast},
    {"Conj", rule_involution},
    {"Div", rule_div},
    {"FloorDiv", rule_floor_div},
    {"Invert", rule_involution},
    {"LogicalAnd", rule_and},
    {"LogicalNot", rule_involution},
    {"LogicalOr", rule_or},
    {"Max", rule_reduce},
    {"Mean", rule_reduce},
    {"Min", rule_reduce},
    {"Mul", rule_mul},
    {"Neg", rule_involution},
    {"Pow", rule_pow},
    {"Prod", rule_reduce},
    {"RealDiv", rule_div},
    {"Sub", rule_sub},
    {"Sum", rule_reduce},
    {"Transpose", rule_transpose},
    {"TruncateDiv", rule_floor_div},
};
enum { NUM_RULES = sizeof rules / sizeof rules[0] };

static rule_fn *find_rule(const weft_op_def_t *const *ops, const weft_op_def_t *op, uint64_t flags) {
  if ((flags & WEFT_OP_VIEW) != 0) return rule_view;
  for (int i = 0; i < NUM_RULES; i++) {
    if (ops[i] == op) return rules[i].rule;
  }
  return NULL;
}

weft_status_t *weft_pass_arithmetic(weft_pass_round_t *r) {
  const weft_op_def_t *ops[NUM_RULES];
  for (int i = 0; i < NUM_RULES; i++) ops[i] = weft_op_find(weft_str(rules[i].op));
  WEFT_RETURN_IF_ERROR(weft_pass_round_infer(r));
  for (int i = 0; i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    WEFT_RETURN_IF_ERROR(weft_pass_round_visit(r, n));
    if (n->num_controls > 0 || n->num_outputs != 1) continue;
    rule_fn *rule = find_rule(ops, n->op, n->flags);
    if (rule != NULL && weft_node_is_pure(n)) WEFT_RETURN_IF_ERROR(rule(r, n));
  }
  return NULL;
}
