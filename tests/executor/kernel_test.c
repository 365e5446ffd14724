/* What the executor builds on: the kernels' registry, a step's container, the helpers of compute functions.
 */
#include "kernels/kernel.h"

#include <stdio.h>

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

static weft_status_t *nothing(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static void a_device_type_brings_its_kernels(void) {
  static const weft_kernel_t rows[] = {
      {.op = "NoOp", .compute = nothing},
      {.op = "Erf", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32), .compute = nothing},
      {0}};
  static const weft_kernel_t *const families[] = {rows, NULL};
  static const weft_kernel_table_t table = {.device_type = "TEST", .families = families};
  weft_named_attr_t f32 = type("T", WEFT_F32), f64 = type("T", WEFT_F64);
  int before = 0, after = 0;
  while (weft_kernel_table_at(before) != NULL) before++;
  CU_ASSERT_PTR_NULL_FATAL(weft_kernel_table_register(&table));
  while (weft_kernel_table_at(after) != NULL) after++;
  CU_ASSERT_EQUAL(after, before + 1);
  CU_ASSERT_PTR_EQUAL(weft_kernel_table_at(before), &table);
  CU_ASSERT_PTR_EQUAL(weft_kernel_find("TEST", WEFT_STR("NoOp"), NULL, 0), &rows[0]);
  CU_ASSERT_PTR_EQUAL(weft_kernel_find("TEST", WEFT_STR("Erf"), &f32, 1), &rows[1]);
  CU_ASSERT_PTR_NULL(weft_kernel_find("TEST", WEFT_STR("Erf"), &f64, 1));
  CU_ASSERT_PTR_NOT_NULL(weft_kernel_find("CPU", WEFT_STR("Erf"), &f64, 1));
  weft_status_t *s = weft_kernel_table_register(&table);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_status_free(s);
}

static void a_table_may_have_any_number_of_kernels(void) {
  enum { MANY = 20000 };
  static weft_kernel_t rows[MANY + 1];
  static char names[MANY][16];
  static const weft_kernel_t *const families[] = {rows, NULL};
  static const weft_kernel_table_t table = {.device_type = "MANY", .families = families};
  int found = 0;
  for (int i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof names[i], "Op%d", i);
    rows[i] = (weft_kernel_t){.op = names[i], .compute = nothing};
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_kernel_table_register(&table));
  for (int i = 0; i < MANY; i++) found += weft_kernel_find("MANY", weft_str(names[i]), NULL, 0) == &rows[i];
  CU_ASSERT_EQUAL(found, MANY);
}

static void a_table_is_registered_or_not(void) {
  static const weft_kernel_t rows[] = {{.op = "NoOp", .compute = nothing}, {0}};
  static const weft_kernel_t *const families[] = {rows, NULL};
  static const weft_kernel_table_t table = {.device_type = "FAILING", .families = families};
  int n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, weft_kernel_table_register(&table));
  CU_ASSERT_PTR_NOT_NULL(weft_kernel_find("FAILING", WEFT_STR("NoOp"), NULL, 0));
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
  CU_ASSERT(weft_step_container_remove(c, WEFT_STR("a")));
  CU_ASSERT_FALSE(weft_step_container_remove(c, WEFT_STR("x")));
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

static void forwarding_takes_only_what_has_no_other_reference(void) {
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
    {"a device type brings its kernels", a_device_type_brings_its_kernels},
    {"a table may have any number of kernels", a_table_may_have_any_number_of_kernels},
    {"a table is registered or not", a_table_is_registered_or_not},
    {"a container keeps things for the step", a_container_keeps_things_for_the_step},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"forwarding takes only what has no other reference", forwarding_takes_only_what_has_no_other_reference},
    {"ints are read from both types", ints_are_read_from_both_types},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kernel", tests); }
