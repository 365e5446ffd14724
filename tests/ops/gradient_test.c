/* tests/ops/gradient_test.c - every gradient function builds well-formed nodes, of the right types and
 * shapes.
 *
 * The builder here holds each new node against the op table: the op exists, takes
 * that many inputs of those types, has those attributes; its shape function runs.
 * So the gradient of an input must come out with the input's dtype and shape. That
 * the numbers are right is tested with the kernels.
 */
#include "ops/gradient.h"

#include <stdio.h>

#include "tests/ops/notation.h"
#include "tests/runner.h"

weft_status_t *weft_infer_broadcast(weft_shape_ctx_t *c); /* the shape function of ops that broadcast */
weft_status_t *weft_grad_as_part(weft_grad_ctx_t *c);     /* of ops that others are made of first */

enum { MAX_NODES = 400, MAX_OUTPUTS = 8 };

typedef struct node {
  const weft_op_def_t *op; /* NULL: an input or output of the node that is differentiated */
  weft_named_attr_t attrs[MAX_ITEMS];
  int num_attrs, num_inputs, num_outputs;
  weft_grad_value_t inputs[MAX_ITEMS];
  weft_tensor_t *value;
  int types[MAX_OUTPUTS];
  weft_shape_t shapes[MAX_OUTPUTS];
} node_t;

typedef struct fake {
  node_t nodes[MAX_NODES];
  int n;
  weft_arena_t arena;
} fake_t;

static int fake_dtype(void *self, weft_grad_value_t v) {
  (void)self;
  return (int)weft_dtype_base(((node_t *)v.node)->types[v.index]);
}

static weft_shape_t fake_shape(void *self, weft_grad_value_t v) {
  (void)self;
  return ((node_t *)v.node)->shapes[v.index];
}

static const weft_tensor_t *fake_value(void *self, weft_grad_value_t v) {
  (void)self;
  return ((node_t *)v.node)->value;
}

static weft_status_t *fake_constant(void *self, weft_tensor_t *tensor, weft_grad_value_t *out) {
  fake_t *f = self;
  if (f->n == MAX_NODES) return WEFT_ERROR(INTERNAL, "too many nodes");
  node_t *node = &f->nodes[f->n++];
  node->op = weft_op_find(WEFT_STR("Const"));
  node->value = weft_tensor_retain(tensor);
  node->num_outputs = 1;
  node->types[0] = tensor->dtype;
  node->shapes[0] = tensor->shape;
  *out = (weft_grad_value_t){node, 0};
  return NULL;
}

static const weft_attr_t *find_attr(const node_t *node, weft_str_t name) {
  for (int i = 0; i < node->num_attrs; i++) {
    if (weft_str_eq(node->attrs[i].name, name)) return &node->attrs[i].value;
  }
  return NULL;
}

/* Type attributes that were left out are those of the inputs. */
static weft_status_t *fill_attrs(node_t *node) {
  const weft_op_def_t *op = node->op;
  int at = 0;
  for (int i = 0; i < op->num_inputs; i++) {
    const weft_arg_def_t *arg = &op->inputs[i];
    const weft_attr_t *n = arg->kind == WEFT_ARG_REPEATED ? find_attr(node, arg->number_attr) : NULL;
    if (arg->kind == WEFT_ARG_REPEATED && n == NULL)
      return WEFT_ERROR(INTERNAL, "no attr '%.*s'", WEFT_STR_ARGS(arg->number_attr));
    if (arg->type_attr.length > 0 && arg->kind != WEFT_ARG_TYPE_LIST &&
        find_attr(node, arg->type_attr) == NULL) {
      if (at >= node->num_inputs) return WEFT_ERROR(INTERNAL, "too few inputs");
      weft_attr_t type = {.kind = WEFT_ATTR_TYPE, .type = fake_dtype(NULL, node->inputs[at])};
      node->attrs[node->num_attrs++] = (weft_named_attr_t){arg->type_attr, type};
    }
    at += n == NULL ? 1 : (int)n->i;
  }
  for (int i = 0; i < op->num_attrs; i++) {
    const weft_attr_def_t *def = &op->attrs[i];
    const weft_attr_t *value = find_attr(node, def->name);
    if (value != NULL) {
      WEFT_RETURN_IF_ERROR(weft_op_check_attr(op, def, value));
    } else if (def->has_default) {
      node->attrs[node->num_attrs++] = (weft_named_attr_t){def->name, def->default_value};
    } else {
      return WEFT_ERROR(INTERNAL, "attr '%.*s' is missing", WEFT_STR_ARGS(def->name));
    }
  }
  for (int i = 0; i < node->num_attrs; i++) {
    if (weft_op_attr(op, node->attrs[i].name) == NULL) {
      return WEFT_ERROR(INTERNAL, "there is no attr '%.*s'", WEFT_STR_ARGS(node->attrs[i].name));
    }
  }
  return NULL;
}

static weft_status_t *infer(fake_t *f, node_t *node) {
  int *in = NULL, *out = NULL, num_in = 0, num_out = 0;
  weft_shape_t inputs[MAX_ITEMS];
  const weft_tensor_t *values[MAX_ITEMS];
  WEFT_RETURN_IF_ERROR(weft_op_arg_types(&f->arena, node->op->inputs, node->op->num_inputs, node->attrs,
                                         node->num_attrs, &in, &num_in));
  WEFT_RETURN_IF_ERROR(weft_op_arg_types(&f->arena, node->op->outputs, node->op->num_outputs, node->attrs,
                                         node->num_attrs, &out, &num_out));
  if (num_in != node->num_inputs)
    return WEFT_ERROR(INTERNAL, "%d inputs instead of %d", node->num_inputs, num_in);
  if (num_out > MAX_OUTPUTS) return WEFT_ERROR(INTERNAL, "too many outputs");
  for (int i = 0; i < num_in; i++) {
    inputs[i] = fake_shape(NULL, node->inputs[i]);
    values[i] = fake_value(NULL, node->inputs[i]);
    if (fake_dtype(NULL, node->inputs[i]) != (int)weft_dtype_base(in[i])) {
      return WEFT_ERROR(INTERNAL, "input %d is %s instead of %s", i,
                        weft_dtype_name(fake_dtype(NULL, node->inputs[i])), weft_dtype_name(in[i]));
    }
  }
  node->num_outputs = num_out;
  for (int i = 0; i < num_out; i++) {
    node->types[i] = out[i];
    node->shapes[i] = WEFT_UNKNOWN_SHAPE;
  }
  weft_shape_ctx_t ctx = {.op = node->op,
                          .attrs = node->attrs,
                          .num_attrs = node->num_attrs,
                          .num_inputs = num_in,
                          .num_outputs = num_out,
                          .input_types = in,
                          .output_types = out,
                          .inputs = inputs,
                          .values = values,
                          .outputs = node->shapes};
  return node->op->infer_shapes == NULL ? NULL : node->op->infer_shapes(&ctx);
}

static weft_status_t *fake_add(void *self, const char *op, const weft_grad_value_t *inputs, int num_inputs,
                               const weft_named_attr_t *attrs, int num_attrs, weft_grad_value_t *out) {
  fake_t *f = self;
  if (f->n == MAX_NODES) return WEFT_ERROR(INTERNAL, "too many nodes");
  node_t *node = &f->nodes[f->n++];
  node->op = weft_op_find(weft_str(op));
  if (node->op == NULL) return WEFT_ERROR(INTERNAL, "there is no op '%s'", op);
  for (int i = 0; i < num_inputs; i++) {
    if (inputs[i].node == NULL) return WEFT_ERROR(INTERNAL, "%s: input %d is none", op, i);
    node->inputs[i] = inputs[i];
  }
  node->num_inputs = num_inputs;
  for (int i = 0; i < num_attrs; i++) node->attrs[node->num_attrs++] = attrs[i];
  *out = (weft_grad_value_t){node, 0};
  weft_status_t *s = fill_attrs(node);
  return weft_status_annotate(s != NULL ? s : infer(f, node), "in %s", op);
}

static const weft_grad_builder_ops_t fake_ops = {.add = fake_add,
                                                 .constant = fake_constant,
                                                 .dtype = fake_dtype,
                                                 .shape = fake_shape,
                                                 .value = fake_value};

static void fake_deinit(fake_t *f) {
  for (int i = 0; i < f->n; i++) weft_tensor_release(f->nodes[i].value);
  weft_arena_deinit(&f->arena);
}

/* A node that stands for input or output k of the differentiated node, or for a gradient of it. */
static weft_grad_value_t stand_in(fake_t *f, int type, weft_shape_t shape, const weft_tensor_t *value) {
  node_t *node = &f->nodes[f->n++];
  node->num_outputs = 1;
  node->types[0] = type;
  node->shapes[0] = shape;
  node->value = weft_tensor_retain((weft_tensor_t *)(uintptr_t)value);
  return (weft_grad_value_t){node, 0};
}

/* Everything about one case; the caller deinits. Gradients flow into outputs of floating and complex
 * type, and into variants. */
typedef struct run {
  fixture_t fixture;
  fake_t fake;
  weft_grad_value_t inputs[MAX_ITEMS], outputs[MAX_ITEMS], dy[MAX_ITEMS], dx[MAX_ITEMS];
  int first_new; /* node that the gradient function added first */
} run_t;

static bool is_smooth(int type) { return weft_dtype_is_floating(type) || weft_dtype_is_complex(type); }

static weft_status_t *differentiate(run_t *r, const char *op_name, const char *attrs, const char *inputs) {
  const weft_op_def_t *op = weft_op_find(weft_str(op_name));
  fixture_t *f = &r->fixture;
  if (op == NULL || op->gradient == NULL) return WEFT_ERROR(INTERNAL, "no gradient of '%s'", op_name);
  WEFT_RETURN_IF_ERROR(setup(f, op, weft_str(attrs), weft_str(inputs)));
  WEFT_RETURN_IF_ERROR(op->infer_shapes(&f->ctx));
  for (int i = 0; i < f->ctx.num_inputs; i++) {
    r->inputs[i] = stand_in(&r->fake, f->ctx.input_types[i], f->inputs[i], f->values[i]);
  }
  weft_grad_value_t whole = stand_in(&r->fake, 0, WEFT_SCALAR, NULL);
  ((node_t *)whole.node)->num_outputs = f->ctx.num_outputs;
  for (int i = 0; i < f->ctx.num_outputs; i++) {
    ((node_t *)whole.node)->types[i] = f->ctx.output_types[i];
    ((node_t *)whole.node)->shapes[i] = f->outputs[i];
    r->outputs[i] = (weft_grad_value_t){whole.node, i};
    if ((is_smooth(f->ctx.output_types[i]) || f->ctx.output_types[i] == WEFT_VARIANT) && i < 2) {
      r->dy[i] = stand_in(&r->fake, f->ctx.output_types[i], f->outputs[i], NULL);
    }
  }
  r->first_new = r->fake.n;
  weft_grad_ctx_t c = {.ops = &fake_ops,
                       .self = &r->fake,
                       .op = op,
                       .node_name = WEFT_STR("n"),
                       .scope = WEFT_STR("gradients"),
                       .attrs = f->attrs,
                       .num_attrs = f->num_attrs,
                       .num_inputs = f->ctx.num_inputs,
                       .num_outputs = f->ctx.num_outputs,
                       .inputs = r->inputs,
                       .outputs = r->outputs,
                       .dy = r->dy,
                       .dx = r->dx};
  return op->gradient(&c);
}

static void run_deinit(run_t *r) {
  teardown(&r->fixture);
  fake_deinit(&r->fake);
  free(r);
}

typedef struct gradient_case {
  const char *op, *attrs, *inputs, *dx; /* dx: per input '1' a gradient, '0' none */
} gradient_case_t;

#define F "T=float"
static const gradient_case_t cases[] = {
#include "tests/ops/gradient_cases.def"
};

static bool check(const gradient_case_t *k) {
  run_t *r = calloc(1, sizeof *r);
  weft_status_t *s = differentiate(r, k->op, k->attrs, k->inputs);
  for (int i = 0; s == NULL && i < r->fixture.ctx.num_inputs; i++) {
    bool wanted = k->dx[i] == '1';
    node_t *d = r->dx[i].node;
    if ((d != NULL) != wanted) {
      s = WEFT_ERROR(INTERNAL, "input %d: %s gradient", i, wanted ? "no" : "a");
    } else if (d == NULL || r->fixture.ctx.input_types[i] == WEFT_RESOURCE) {
      continue; /* a handle's gradient is the variable's */
    } else if (fake_dtype(NULL, r->dx[i]) != fake_dtype(NULL, r->inputs[i])) {
      s = WEFT_ERROR(INTERNAL, "input %d: its gradient is %s", i,
                     weft_dtype_name(fake_dtype(NULL, r->dx[i])));
    } else if (!weft_shape_compatible(&d->shapes[r->dx[i].index], &r->fixture.inputs[i])) {
      s = WEFT_ERROR(INTERNAL, "input %d: its gradient has shape %s", i,
                     WEFT_SHAPE_TEXT(&d->shapes[r->dx[i].index]));
    }
  }
  bool is_good = s == NULL;
  if (!is_good) fprintf(stderr, "%s|%s|%s: %s\n", k->op, k->attrs, k->inputs, weft_status_message(s));
  weft_status_free(s);
  run_deinit(r);
  return is_good;
}

static void gradients_are_well_formed(void) {
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (!check(&cases[i])) wrong++;
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Ops whose gradient is a formula need no lines: shapes that are equal and, where two inputs broadcast,
 * others. */
static void formulas_are_well_formed(void) {
  int n = 0, wrong = 0, checked = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    const weft_attr_def_t *type = weft_op_attr(ops[i], WEFT_STR("T"));
    if (ops[i]->formula == NULL) continue;
    bool is_complex = type != NULL && (type->allowed_types & WEFT_DTYPE_BIT(WEFT_C64)) != 0;
    bool is_real = type != NULL && (type->allowed_types & WEFT_DTYPE_BIT(WEFT_F32)) != 0;
    for (int k = 0; k < 2; k++) {
      const char *attrs = k == 0 ? "T=float" : "T=complex64", *name = ops[i]->name.data;
      if (k == 0 ? !is_real : !is_complex) continue;
      bool is_one = ops[i]->num_inputs == 1;
      wrong += !check(&(gradient_case_t){name, attrs, is_one ? "[2,3]" : "[2,3];[2,3]", is_one ? "1" : "11"});
      if (ops[i]->infer_shapes == weft_infer_broadcast)
        wrong += !check(&(gradient_case_t){name, attrs, "[2,3];[3]", "11"});
      checked++;
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_TRUE(checked > 60);
}

static void every_gradient_has_a_case(void) {
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    bool is_tested = ops[i]->gradient == NULL || ops[i]->gradient == weft_grad_none ||
                     ops[i]->gradient == weft_grad_as_part || ops[i]->formula != NULL;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
      is_tested = is_tested || weft_str_is(ops[i]->name, cases[k].op);
    if (!is_tested && !weft_str_is(ops[i]->name, "PreventGradient")) {
      fprintf(stderr, "no case for the gradient of %.*s\n", WEFT_STR_ARGS(ops[i]->name));
      CU_FAIL("a gradient without a case");
    }
  }
}

static void a_prevented_gradient_says_why(void) {
  run_t *r = calloc(1, sizeof *r);
  weft_status_t *s = differentiate(r, "PreventGradient", "T=float;message=it is not defined", "[2]");
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "it is not defined"));
  weft_status_free(s);
  run_deinit(r);
}

static void equal_shapes_need_no_summing(void) {
  run_t *r = calloc(1, sizeof *r);
  CU_ASSERT_PTR_NULL(differentiate(r, "AddV2", F, "[2,3];[2,3]"));
  CU_ASSERT_EQUAL(r->fake.n, r->first_new);
  CU_ASSERT_PTR_EQUAL(r->dx[0].node, r->dy[0].node);
  CU_ASSERT_PTR_EQUAL(r->dx[1].node, r->dy[0].node);
  run_deinit(r);
}

static void the_first_failure_ends_a_formula(void) {
  run_t *r = calloc(1, sizeof *r);
  r->fake.n = MAX_NODES - 6; /* room for the stand-ins and one node more */
  weft_status_t *s = differentiate(r, "Softmax", F, "[2,3]");
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "too many nodes"));
  weft_status_free(s);
  run_deinit(r);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"gradients are well formed", gradients_are_well_formed},
      {"formulas are well formed", formulas_are_well_formed},
      {"every gradient has a case", every_gradient_has_a_case},
      {"a prevented gradient says why", a_prevented_gradient_says_why},
      {"equal shapes need no summing", equal_shapes_need_no_summing},
      {"the first failure ends a formula", the_first_failure_ends_a_formula},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("gradient", tests);
}
