/* Every optimizer against lines made by TensorFlow: dense and sparse, by reference and by handle, in four
 * dtypes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resources/variable.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { COUNT = 6, MAX_VARS = 4, MAX_INPUTS = 12 };

/* As in the program that made the lines. */
static const double initial[MAX_VARS][COUNT] = {{1., -2., .5, 3., -.25, .0625},
                                                {.5, .25, .5, .1, .4, .3},
                                                {.3, .6, .2, .9, .4, 1.1},
                                                {.35, .05, .6, .15, .8, .45}};
static const double gradient[COUNT] = {.5, -1., 2., .25, -.75, 1.5};
static const int32_t rows[3] = {2, 0, 2};

static const struct {
  const char *rule, *inputs;
} layouts[] = {{"AdaMax", "vvvsssssg"},
               {"Adadelta", "vvvsssg"},
               {"Adagrad", "vvsg"},
               {"AdagradDA", "vvvgssst"},
               {"AdagradV2", "vvssg"},
               {"Adam", "vvvssssssg"},
               {"AdamWithAmsgrad", "vvvvssssssg"},
               {"AddSign", "vvssssg"},
               {"CenteredRMSProp", "vvvvssssg"},
               {"Ftrl", "vvvgssss"},
               {"FtrlV2", "vvvgsssss"},
               {"GradientDescent", "vsg"},
               {"KerasMomentum", "vvsgs"},
               {"Momentum", "vvsgs"},
               {"PowerSign", "vvssssg"},
               {"ProximalAdagrad", "vvsssg"},
               {"ProximalGradientDescent", "vsssg"},
               {"RMSProp", "vvvssssg"}};

static weft_bench_t bench;

static weft_tensor_t *make(weft_dtype_t dtype, const weft_shape_t *shape, const double *values) {
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(dtype, shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) {
    if (dtype == WEFT_F32) ((float *)t->data)[i] = (float)values[i];
    if (dtype == WEFT_F64) ((double *)t->data)[i] = values[i];
    if (dtype == WEFT_F16) ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)values[i]);
    if (dtype == WEFT_BF16) ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)values[i]);
  }
  return t;
}

static weft_variable_t *make_variable(weft_dtype_t dtype, const double *values) {
  weft_shape_t shape = weft_shape_matrix(3, 2);
  weft_tensor_t *t = make(dtype, &shape, values);
  weft_variable_t *v = NULL;
  weft_status_free(weft_variable_create(WEFT_STR("v"), dtype, &shape, &v));
  weft_variable_write(v, t);
  weft_tensor_release(t);
  return v;
}

static weft_tensor_t *make_handle(weft_variable_t *v) {
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t));
  ((weft_handle_t **)t->data)[0] =
      weft_handle_create(bench.device->name, WEFT_STR("localhost"), WEFT_STR("v"),
                         weft_str(weft_variable_type.name), 1, &v->object);
  return t;
}

static const char *layout_of(const char *op) {
  const char *rule = strstr(op, "Apply") + strlen("Apply");
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
    if (strcmp(layouts[i].rule, rule) == 0) return layouts[i].inputs;
  }
  return NULL;
}

typedef struct job {
  weft_variable_t *vars[MAX_VARS];
  weft_value_t inputs[MAX_INPUTS];
  int types[MAX_INPUTS];
  int num_vars, num_inputs;
} job_t;

static void add(job_t *j, int type, weft_tensor_t *t, weft_variable_t *ref) {
  j->types[j->num_inputs] = type;
  j->inputs[j->num_inputs++] = (weft_value_t){t, ref};
}

static void fill(job_t *j, const char *layout, const char *scalars, weft_dtype_t dtype, bool is_ref,
                 bool is_sparse) {
  char *at = (char *)scalars;
  for (const char *p = layout; *p != '\0'; p++) {
    if (*p == 'v') {
      weft_variable_t *v = j->vars[j->num_vars] = make_variable(dtype, initial[j->num_vars]);
      j->num_vars++;
      if (is_ref) add(j, dtype + WEFT_REF, NULL, v);
      if (!is_ref) add(j, WEFT_RESOURCE, make_handle(v), NULL);
    } else if (*p == 's') {
      double value = strtod(at, &at);
      add(j, dtype, make(dtype, &WEFT_SCALAR, &value), NULL);
    } else if (*p == 't') {
      weft_tensor_t *t = NULL;
      weft_status_free(weft_tensor_scalar(WEFT_I64, &(int64_t){5}, &t));
      add(j, WEFT_I64, t, NULL);
    } else {
      add(j, dtype, make(dtype, &(weft_shape_t){.rank = 2, .dims = {3, 2}}, gradient), NULL);
      if (!is_sparse) continue;
      weft_tensor_t *t = NULL;
      weft_status_free(weft_tensor_new(WEFT_I32, &(weft_shape_t){.rank = 1, .dims = {3}}, NULL, &t));
      memcpy(t->data, rows, sizeof rows);
      add(j, WEFT_I32, t, NULL);
    }
  }
}

static void check(const job_t *j, const char *wanted, double tolerance, const char *line) {
  char *at = (char *)wanted;
  for (int i = 0; i < j->num_vars; i++) {
    weft_tensor_t *t = weft_variable_read(j->vars[i]);
    for (int64_t k = 0; k < COUNT; k++) {
      double want = strtod(at, &at), got = weft_tensor_number(t, k, false), size = want < 0 ? -want : want;
      double off = got < want ? want - got : got - want;
      if (!(off <= tolerance * (1 + size))) {
        fprintf(stderr, "%s: variable %d[%d] is %.10g, not %.10g\n", line, i, (int)k, got, want);
        CU_FAIL("differs from TensorFlow");
      }
    }
    weft_tensor_release(t);
  }
}

static void drop(job_t *j) {
  for (int i = 0; i < j->num_inputs; i++) weft_tensor_release(j->inputs[i].tensor);
  for (int i = 0; i < j->num_vars; i++) weft_object_release(&j->vars[i]->object);
}

static void run_line(const char *op, const char *attrs, const char *scalars, const char *wanted,
                     weft_dtype_t dtype, bool is_ref) {
  static const double tolerances[] = {
      [WEFT_F32] = 1e-4, [WEFT_F64] = 1e-9, [WEFT_F16] = 3e-2, [WEFT_BF16] = 1e-1};
  char name[64];
  job_t j = {0};
  snprintf(name, sizeof name, "%s%s", is_ref ? "" : "Resource", op);
  fill(&j, layout_of(op), scalars, dtype, is_ref, strncmp(op, "Sparse", 6) == 0);
  weft_harness_t *h = NULL;
  weft_value_t out[1] = {{0}};
  weft_status_t *s = weft_harness_create(&bench, name, attrs, j.types, j.num_inputs, &h);
  if (s == NULL) s = weft_harness_run_values(h, j.inputs, out);
  if (s != NULL) fprintf(stderr, "%s: %s\n", name, weft_status_message(s));
  CU_ASSERT_PTR_NULL(s);
  if (s == NULL) check(&j, wanted, tolerances[dtype], name);
  if (s == NULL && is_ref) CU_ASSERT_PTR_EQUAL(out[0].ref, j.vars[0]);
  if (out[0].ref != NULL) weft_object_release(&out[0].ref->object);
  weft_status_free(s);
  weft_harness_destroy(h);
  drop(&j);
}

static void every_rule_computes_what_tensorflow_computes(void) {
  static const weft_dtype_t dtypes[] = {WEFT_F64, WEFT_F32, WEFT_F16, WEFT_BF16};
  char line[2048];
  int num_lines = 0;
  FILE *f = fopen("tests/kernels/testdata/optimizer.txt", "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  while (fgets(line, sizeof line, f) != NULL) {
    if (line[0] == '#') continue;
    char *fields[4] = {line};
    for (int i = 1; i < 4; i++) {
      fields[i] = strchr(fields[i - 1], '|');
      CU_ASSERT_PTR_NOT_NULL_FATAL(fields[i]);
      *fields[i]++ = '\0';
    }
    bool only_resource = strstr(fields[0], "Keras") != NULL || strstr(fields[0], "Amsgrad") != NULL;
    for (int d = 0; d < 4; d++) {
      run_line(fields[0], fields[1], fields[2], fields[3], dtypes[d], false);
      if (!only_resource) run_line(fields[0], fields[1], fields[2], fields[3], dtypes[d], true);
    }
    num_lines++;
  }
  fclose(f);
  CU_ASSERT_TRUE(num_lines > 40);
  weft_bench_deinit(&bench);
}

/* A reader that holds the value from before the update must not see it change. */
static void a_reader_keeps_the_old_value(void) {
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  job_t j = {0};
  fill(&j, "vsg", "0.1", WEFT_F32, false, false);
  weft_tensor_t *before = weft_variable_read(j.vars[0]);
  weft_harness_t *h = NULL;
  CU_ASSERT_PTR_NULL_FATAL(
      weft_harness_create(&bench, "ResourceApplyGradientDescent", "", j.types, j.num_inputs, &h));
  CU_ASSERT_PTR_NULL(weft_harness_run_values(h, j.inputs, NULL));
  CU_ASSERT_DOUBLE_EQUAL(weft_tensor_number(before, 0, false), 1.0, 0);
  weft_tensor_t *after = weft_variable_read(j.vars[0]);
  CU_ASSERT_DOUBLE_EQUAL(weft_tensor_number(after, 0, false), 0.95, 1e-6);
  void *bytes = after->data;
  weft_tensor_release(before);
  weft_tensor_release(after);
  CU_ASSERT_PTR_NULL(weft_harness_run_values(h, j.inputs, NULL)); /* now alone: in place */
  after = weft_variable_read(j.vars[0]);
  CU_ASSERT_PTR_EQUAL(after->data, bytes);
  weft_tensor_release(after);
  weft_harness_destroy(h);
  drop(&j);
  weft_bench_deinit(&bench);
}

/* Changes one input of a good call and expects the message. */
static void expect_error(const char *op, const char *layout, int input, weft_tensor_t *bad,
                         const char *message) {
  job_t j = {0};
  fill(&j, layout, "0.1 0.1 0.1 0.1", WEFT_F32, false, strstr(op, "Sparse") != NULL);
  weft_tensor_release(j.inputs[input].tensor);
  j.inputs[input].tensor = bad;
  weft_harness_t *h = NULL;
  weft_status_t *s = weft_harness_create(&bench, op, "", j.types, j.num_inputs, &h);
  if (s == NULL) s = weft_harness_run_values(h, j.inputs, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  weft_status_free(s);
  weft_harness_destroy(h);
  drop(&j);
}

static weft_tensor_t *parse(const char *text) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_parse(&text, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static void bad_inputs_are_refused_in_tensorflows_words(void) {
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  expect_error("ResourceApplyGradientDescent", "vsg", 1, parse("float[1]:1"), "alpha is not a scalar: [1]");
  expect_error("ResourceApplyGradientDescent", "vsg", 2, parse("float[2]:1,2"),
               "var and delta do not have the same shape[3,2] [2]");
  expect_error("ResourceSparseApplyMomentum", "vvsgs", 4, parse("int32[3]:0,7,1"),
               "Index 7 at offset 1 in indices is out of range");
  expect_error("ResourceSparseApplyMomentum", "vvsgs", 4, parse("int32[3]:0,1,-1"),
               "Index -1 at offset 2 in indices is out of range");
  expect_error("ResourceSparseApplyMomentum", "vvsgs", 4, parse("int32[1,3]:0,1,2"),
               "indices must be one-dimensional");
  expect_error("ResourceSparseApplyMomentum", "vvsgs", 4, parse("int32[2]:0,1"),
               "grad must be the same size as indices in the first dimension.");
  weft_bench_deinit(&bench);
}

static const CU_TestInfo tests[] = {
    {"every rule computes what TensorFlow computes", every_rule_computes_what_tensorflow_computes},
    {"a reader keeps the old value", a_reader_keeps_the_old_value},
    {"bad inputs are refused in TensorFlow's words", bad_inputs_are_refused_in_tensorflows_words},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("optimizer", tests); }
