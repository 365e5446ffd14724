/* tests/kernels/formula_test.c - gradients that are formulas in the op table, against differences of the op
 * itself.
 *
 * The builder here computes each node at once with its kernel, in double. Every op with a formula is tested
 * without new test code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/gradient.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { N = 7, MAX_VALUES = 64 };

typedef struct computed {
  weft_bench_t bench;
  weft_tensor_t *values[MAX_VALUES]; /* owned */
  int num_values;
} computed_t;

static weft_status_t *keep(computed_t *c, weft_tensor_t *t, weft_grad_value_t *out) {
  if (c->num_values == MAX_VALUES) {
    weft_tensor_release(t);
    return WEFT_ERROR(INTERNAL, "too many nodes");
  }
  c->values[c->num_values++] = t;
  *out = (weft_grad_value_t){t, 0};
  return NULL;
}

static weft_status_t *add(void *self, const char *op, const weft_grad_value_t *inputs, int n,
                          const weft_named_attr_t *attrs, int num_attrs, weft_grad_value_t *out) {
  computed_t *c = self;
  weft_tensor_t *in[4], *result = NULL;
  char text[128] = "";
  int num = 0;
  for (int i = 0; i < n && i < 4; i++) in[i] = inputs[i].node;
  for (int i = 0; i < num_attrs; i++) {
    if (attrs[i].value.kind != WEFT_ATTR_TYPE) return WEFT_ERROR(INTERNAL, "an attribute that is no type");
    size_t at = strlen(text);
    snprintf(text + at, sizeof text - at, "%.*s=%s ", WEFT_STR_ARGS(attrs[i].name),
             weft_dtype_name(attrs[i].value.type));
  }
  WEFT_RETURN_IF_ERROR(weft_run_op(&c->bench, op, text[0] == '\0' ? NULL : text, in, n, &result, 1, &num));
  return keep(c, result, out);
}

static weft_status_t *constant(void *self, weft_tensor_t *tensor, weft_grad_value_t *out) {
  return keep(self, weft_tensor_retain(tensor), out);
}
static int dtype_of(void *self, weft_grad_value_t v) {
  (void)self;
  return (int)((weft_tensor_t *)v.node)->dtype;
}
static weft_shape_t shape_of(void *self, weft_grad_value_t v) {
  (void)self;
  return ((weft_tensor_t *)v.node)->shape;
}
static const weft_tensor_t *value_of(void *self, weft_grad_value_t v) {
  (void)self;
  return v.node;
}
static const weft_grad_builder_ops_t computing = {
    .add = add, .constant = constant, .dtype = dtype_of, .shape = shape_of, .value = value_of};

/* Numbers from `low` on, in a range of 0.8. */
static weft_tensor_t *numbers(double low, int seed) {
  weft_shape_t shape = weft_shape_vector(N);
  weft_tensor_t *t = NULL;
  if (weft_tensor_new(WEFT_F64, &shape, NULL, &t) != NULL) abort();
  for (int i = 0; i < N; i++) ((double *)t->data)[i] = low + 0.8 * ((i * 5 + seed * 3) % N + 0.37) / N;
  return t;
}

static weft_tensor_t *run(computed_t *c, const weft_op_def_t *op, weft_tensor_t *const *in) {
  weft_tensor_t *out = NULL;
  int num = 0;
  weft_status_t *s = weft_run_op(&c->bench, op->name.data, NULL, in, op->num_inputs, &out, 1, &num);
  weft_status_free(s);
  return out;
}

/* The derivative of each element's output by input i, from both sides. */
static bool agrees(computed_t *c, const weft_op_def_t *op, weft_tensor_t **in, int i,
                   const weft_tensor_t *got) {
  const double step = 1e-6;
  weft_tensor_t *whole = in[i], *moved[2] = {NULL, NULL}, *out[2] = {NULL, NULL};
  bool ok = true;
  for (int k = 0; k < 2; k++) {
    if (weft_tensor_copy(whole, &moved[k]) != NULL) abort();
    for (int e = 0; e < N; e++) ((double *)moved[k]->data)[e] += k == 0 ? -step : step;
    in[i] = moved[k];
    out[k] = run(c, op, in);
  }
  in[i] = whole;
  for (int e = 0; ok && e < N; e++) {
    double want = (weft_tensor_number(out[1], e, false) - weft_tensor_number(out[0], e, false)) / (2 * step);
    ok = fabs(weft_tensor_number(got, e, false) - want) <= 1e-6 * (1 + fabs(want)) * 10;
    if (!ok)
      fprintf(stderr, "%s, input %d: %g instead of %g\n", op->name.data, i, weft_tensor_number(got, e, false),
              want);
  }
  for (int k = 0; k < 2; k++) {
    weft_tensor_release(moved[k]);
    weft_tensor_release(out[k]);
  }
  return ok;
}

static bool is_real(const weft_tensor_t *t) {
  for (int e = 0; t != NULL && e < N; e++) {
    if (!isfinite(weft_tensor_number(t, e, false))) return false;
  }
  return t != NULL;
}

/* False: the gradient is wrong. *checked counts inputs. */
static bool check(const weft_op_def_t *op, int *checked) {
  computed_t c = {.num_values = 0};
  weft_tensor_t *in[2] = {NULL, NULL}, *out = NULL, *dy = NULL;
  bool ok = weft_bench_init(&c.bench) == NULL;
  for (int low = 0; low < 2 && !is_real(out); low++) { /* some are defined from 1 on only */
    weft_tensor_release(out);
    for (int i = 0; i < op->num_inputs; i++) {
      weft_tensor_release(in[i]);
      in[i] = numbers(low + 0.1, i);
    }
    out = run(&c, op, in);
  }
  if (is_real(out)) {
    weft_grad_value_t inputs[2] = {{in[0], 0}, {in[1], 0}}, output = {out, 0}, given,
                      dx[2] = {{NULL, 0}, {NULL, 0}};
    if (weft_tensor_copy(out, &dy) != NULL) abort();
    for (int e = 0; e < N; e++) ((double *)dy->data)[e] = 1;
    given = (weft_grad_value_t){dy, 0};
    weft_grad_ctx_t g = {.ops = &computing,
                         .self = &c,
                         .op = op,
                         .node_name = WEFT_STR("n"),
                         .num_inputs = op->num_inputs,
                         .num_outputs = 1,
                         .inputs = inputs,
                         .outputs = &output,
                         .dy = &given,
                         .dx = dx};
    weft_status_t *s = op->gradient(&g);
    if (s != NULL) fprintf(stderr, "%s: %s\n", op->name.data, weft_status_message(s));
    ok = ok && s == NULL;
    weft_status_free(s);
    for (int i = 0; ok && i < op->num_inputs; i++) {
      ok = dx[i].node != NULL && agrees(&c, op, in, i, dx[i].node);
      ++*checked;
    }
  }
  for (int i = 0; i < c.num_values; i++) weft_tensor_release(c.values[i]);
  for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
  weft_tensor_release(out);
  weft_tensor_release(dy);
  weft_bench_deinit(&c.bench);
  return ok;
}

static void formulas_are_the_derivatives(void) {
  int n = 0, wrong = 0, ops = 0, checked = 0;
  const weft_op_def_t *const *list = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    const weft_attr_def_t *type = weft_op_attr(list[i], WEFT_STR("T"));
    bool has_double = type != NULL && (type->allowed_types & WEFT_DTYPE_BIT(WEFT_F64)) != 0;
    if (list[i]->formula == NULL || !has_double || list[i]->num_inputs > 2) continue;
    int before = checked;
    wrong += !check(list[i], &checked);
    ops++;
    if (checked == before) fprintf(stderr, "%s: no numbers to check it with\n", list[i]->name.data);
    CU_ASSERT_TRUE(checked > before);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_TRUE(ops >= 40);
}

/* An op made up of a record of another and a formula. */
static weft_status_t *differentiate(const char *name, const char *formula, double *out) {
  computed_t c = {.num_values = 0};
  weft_op_def_t op = *weft_op_find(weft_str(name));
  op.formula = formula;
  weft_status_t *s = weft_bench_init(&c.bench);
  weft_tensor_t *x = numbers(0.1, 0);
  weft_grad_value_t in = {x, 0}, dx = {NULL, 0};
  weft_grad_ctx_t g = {.ops = &computing,
                       .self = &c,
                       .op = &op,
                       .node_name = WEFT_STR("n"),
                       .num_inputs = 1,
                       .num_outputs = 1,
                       .inputs = &in,
                       .outputs = &in,
                       .dy = &in,
                       .dx = &dx};
  if (s == NULL) s = op.gradient(&g);
  if (s == NULL) *out = weft_tensor_number(dx.node, 0, false);
  for (int i = 0; i < c.num_values; i++) weft_tensor_release(c.values[i]);
  weft_tensor_release(x);
  weft_bench_deinit(&c.bench);
  return s;
}

static void a_formula_reads_as_in_c(void) {
  weft_tensor_t *t = numbers(0.1, 0);
  const double x = *(double *)t->data;
  weft_tensor_release(t);
  const struct {
    const char *formula;
    double want;
  } cases[] = {{"x", x},
               {"-x", -x},
               {"2 + 3 * x", 2 + 3 * x},
               {"(2 + 3) * x", 5 * x},
               {"x - 1 - 2", x - 3},
               {"x / 2 / 2", x / 4},
               {"-2 * x", -2 * x},
               {"- -x", x},
               {"Maximum(x, 4) - Square(conj(x))", 4 - x * x}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double got = NAN;
    weft_status_t *s = differentiate("Erf", cases[i].formula, &got);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_DOUBLE_EQUAL(got, cases[i].want, 1e-12);
    weft_status_free(s);
  }
}

static void what_is_no_formula_is_refused(void) {
  static const char *const wrong[] = {
      "",
      "x +",
      "z",
      "Square(x",
      "x x",
      "x; x",
      "(x",
      "Square(x, x, x, x)",
      "NoSuchOp(x)",
      "AnOpWithANameThatIsLongerThanAnyOpHas(x)",
      "((((((((((((((((((((((((((((((((((((((((x))))))))))))))))))))))))))))))))))))))))"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    double got = NAN;
    weft_status_t *s = differentiate("Erf", wrong[i], &got);
    CU_ASSERT_PTR_NOT_NULL(s);
    weft_status_free(s);
  }
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"formulas are the derivatives", formulas_are_the_derivatives},
      {"a formula reads as in C", a_formula_reads_as_in_c},
      {"what is no formula is refused", what_is_no_formula_is_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("formulas", tests);
}
