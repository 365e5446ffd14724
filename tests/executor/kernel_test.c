/* What the executor builds on: the kernels' registry, a step's container, the helpers of compute functions.
 */
#include "kernels/kernel.h"

#include "tests/runner.h"

static weft_named_attr_t type(const char *name, int dtype) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_TYPE, .type = dtype}};
}

static void kernels_are_found_by_op_and_type(void) {
  weft_named_attr_t t = type("T", WEFT_F32), odd = type("T", WEFT_STRING);
  const weft_kernel_t *identity = weft_kernel_find("CPU", WEFT_STR("Identity"), &t, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(identity);
  CU_ASSERT_STRING_EQUAL(identity->op, "Identity");
  CU_ASSERT_PTR_NOT_NULL(weft_kernel_find("CPU", WEFT_STR("NoOp"), NULL, 0));
  CU_ASSERT_PTR_NULL(weft_kernel_find("CPU", WEFT_STR("Identity"), NULL, 0));
  CU_ASSERT_PTR_NULL(weft_kernel_find("CPU", WEFT_STR("Tanh"), &odd, 1));
  CU_ASSERT_PTR_NULL(weft_kernel_find("CPU", WEFT_STR("NoSuchOp"), &t, 1));
  CU_ASSERT_PTR_NULL(weft_kernel_find("CPU", WEFT_STR(""), &t, 1));
  CU_ASSERT_PTR_NULL(weft_kernel_find("TPU", WEFT_STR("Identity"), &t, 1));
}

static void the_registry_knows_what_exists(void) {
  weft_dtype_set_t types = 1;
  CU_ASSERT_TRUE(weft_kernel_exists("CPU", WEFT_STR("NoOp"), &types));
  CU_ASSERT_EQUAL(types, 0);
  CU_ASSERT_TRUE(weft_kernel_exists("CPU", WEFT_STR("Tanh"), &types));
  CU_ASSERT_TRUE((types & WEFT_DTYPE_BIT(WEFT_F32)) != 0 && (types & WEFT_DTYPE_BIT(WEFT_STRING)) == 0);
  CU_ASSERT_FALSE(weft_kernel_exists("CPU", WEFT_STR("NoSuchOp"), &types));
  CU_ASSERT_FALSE(weft_kernel_exists("TPU", WEFT_STR("NoOp"), &types));
}

/* Each kernel of the table is one that look-up by some node could find: its op is in the op table and has the
 * attributes that the kernel is constrained by. */
static void every_kernel_is_for_an_op_that_exists(void) {
  const weft_kernel_table_t *table = weft_cpu_kernels();
  int n = 0;
  for (int f = 0; table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = table->families[f]; k->op != NULL; k++, n++) {
      const weft_op_def_t *op = weft_op_find(weft_str(k->op));
      CU_ASSERT_PTR_NOT_NULL(op);
      if (op == NULL) continue;
      if (k->type_attr != NULL) CU_ASSERT_PTR_NOT_NULL(weft_op_attr(op, weft_str(k->type_attr)));
      if (k->type_attr2 != NULL) CU_ASSERT_PTR_NOT_NULL(weft_op_attr(op, weft_str(k->type_attr2)));
      CU_ASSERT_TRUE((k->compute != NULL) != (k->compute_async != NULL));
    }
  }
  CU_ASSERT_TRUE(n > 20);
}

typedef struct thing {
  weft_object_t object;
  int *destroyed;
} thing_t;

static void destroy_thing(weft_object_t *o) {
  ++*((thing_t *)o)->destroyed;
  weft_free(o);
}

static weft_object_t *thing_new(int *destroyed) {
  thing_t *t = weft_calloc(1, sizeof *t);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  atomic_init(&t->object.refs, 1);
  t->object.destroy = destroy_thing;
  t->destroyed = destroyed;
  return &t->object;
}

static void a_container_keeps_things_for_the_step(void) {
  weft_step_container_t *c = NULL;
  int destroyed = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_step_container_create(&c));
  weft_object_t *a = thing_new(&destroyed), *b = thing_new(&destroyed);
  CU_ASSERT_PTR_NULL(weft_step_container_add(c, WEFT_STR("a"), a));
  CU_ASSERT_PTR_NULL(weft_step_container_add(c, WEFT_STR("b"), b));
  weft_status_t *s = weft_step_container_add(c, WEFT_STR("a"), b);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_status_free(s);
  weft_object_release(a);
  weft_object_release(b);
  weft_object_t *found = weft_step_container_find(c, WEFT_STR("a"));
  CU_ASSERT_PTR_EQUAL(found, a);
  weft_object_release(found);
  CU_ASSERT_PTR_NULL(weft_step_container_find(c, WEFT_STR("x")));
  weft_step_container_remove(c, WEFT_STR("a"));
  weft_step_container_remove(c, WEFT_STR("x"));
  CU_ASSERT_EQUAL(destroyed, 1);
  CU_ASSERT_PTR_NULL(weft_step_container_find(c, WEFT_STR("a")));
  weft_step_container_destroy(c);
  CU_ASSERT_EQUAL(destroyed, 2);
}

static weft_status_t *make_and_fill(weft_object_t *o) {
  weft_step_container_t *c = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_container_create(&c));
  weft_status_t *s = weft_step_container_add(c, WEFT_STR("a"), o);
  weft_step_container_destroy(c);
  return s;
}

static void every_failing_allocation_is_reported(void) {
  int destroyed = 0;
  weft_object_t *o = thing_new(&destroyed);
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_and_fill(o));
  CU_ASSERT_EQUAL(n, 4);
  weft_object_release(o);
  CU_ASSERT_EQUAL(destroyed, 1);
}

static void forwarding_takes_only_what_nobody_else_sees(void) {
  weft_shape_t shape = weft_shape_vector(4), square = weft_shape_matrix(2, 2), longer = weft_shape_vector(5);
  for (int shared = 0; shared < 2; shared++) {
    weft_value_t in = {0}, out[3] = {{0}};
    weft_kernel_ctx_t c = {.inputs = &in, .outputs = out};
    weft_tensor_t *t = NULL, *got = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
    in.tensor = t;
    if (shared) weft_tensor_retain(t);
    const void *data = t->data;
    CU_ASSERT_PTR_NULL(weft_out_forward(&c, 0, 0, WEFT_F32, &longer, &got)); /* does not fit */
    CU_ASSERT_PTR_NOT_EQUAL(got->data, data);
    CU_ASSERT_PTR_NULL(weft_out_forward(&c, 0, 1, WEFT_I32, &shape, &got)); /* another type */
    CU_ASSERT_PTR_NOT_EQUAL(got->data, data);
    CU_ASSERT_PTR_NULL(weft_out_forward(&c, 0, 2, WEFT_F32, &square, &got));
    CU_ASSERT_EQUAL(got->data == data, !shared);
    CU_ASSERT_TRUE(weft_shape_eq(&got->shape, &square));
    CU_ASSERT_EQUAL(in.tensor == NULL, !shared);
    for (int i = 0; i < 3; i++) weft_tensor_release(out[i].tensor);
    weft_tensor_release(in.tensor);
    if (shared) weft_tensor_release(t);
  }
}

static void ints_are_read_from_both_types(void) {
  int64_t values[4];
  int n = 0;
  int32_t small = -3;
  int64_t large = (int64_t)1 << 40;
  float wrong = 1;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I32, &small, &t));
  CU_ASSERT_PTR_NULL(weft_read_ints(t, "axis", 4, values, &n));
  CU_ASSERT_TRUE(n == 1 && values[0] == -3);
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I64, &large, &t));
  CU_ASSERT_PTR_NULL(weft_read_ints(t, "axis", 4, values, &n));
  CU_ASSERT_TRUE(n == 1 && values[0] == large);
  weft_status_t *s = weft_read_ints(t, "axis", 0, values, &n);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &wrong, &t));
  s = weft_read_ints(t, "axis", 4, values, &n);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_tensor_release(t);
}

static const CU_TestInfo tests[] = {
    {"kernels are found by op and type", kernels_are_found_by_op_and_type},
    {"the registry knows what exists", the_registry_knows_what_exists},
    {"every kernel is for an op that exists", every_kernel_is_for_an_op_that_exists},
    {"a container keeps things for the step", a_container_keeps_things_for_the_step},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"forwarding takes only what nobody else sees", forwarding_takes_only_what_nobody_else_sees},
    {"ints are read from both types", ints_are_read_from_both_types},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kernel", tests); }
