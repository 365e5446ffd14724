/* Variables of both kinds, and their scatters, in TensorFlow's words. */
#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))
#define NO_CONTAINER "Container localhost does not exist. (Could not find resource: localhost/x)"
#define MISSING "Resource localhost/x/N10tensorflow3VarE does not exist."
#define UNREADABLE(why)                                                                                     \
  "FAILED_PRECONDITION: Could not find variable x. This could mean that the variable has been deleted. In " \
  "TF1, it can "                                                                                            \
  "also mean the variable is uninitialized. Debug info: container=localhost, status error message=" why

static void a_handles_variable_behaves_as_in_tensorflow(void) {
  static const weft_call_t calls[] = {
      {"ReadVariableOp", "dtype=float", "", UNREADABLE(NO_CONTAINER)},
      {"DisableCopyOnRead", "", "", UNREADABLE(NO_CONTAINER)},
      {"VarIsInitializedOp", "", "", "bool[]:0"},
      {"AssignAddVariableOp", "dtype=float", "float[]:1", "NOT_FOUND: " NO_CONTAINER},
      {"VariableShape", "out_type=int32", "", "NOT_FOUND: " NO_CONTAINER},
      {"ResourceGather", "dtype=float", "int32[1]:0", "NOT_FOUND: " NO_CONTAINER},
      {"DestroyResourceOp", "ignore_lookup_error=false", "",
       "NOT_FOUND: Container localhost does not exist."},
      {"DestroyResourceOp", "ignore_lookup_error=true", "", ""},
      {"AssignVariableOp", "dtype=float", "float[2]:1,2", ""},
      {"VarIsInitializedOp", "", "", "bool[]:1"},
      {"AssignVariableOp", "dtype=int32", "int32[1]:1",
       "INVALID_ARGUMENT: Trying to assign variable with wrong dtype. Expected float got int32"},
      {"AssignVariableOp", "dtype=float validate_shape=true", "float[3]:1,2,5",
       "INVALID_ARGUMENT: Trying to assign to variable with tensor with wrong shape. Expected [2] got [3]"},
      {"ReadVariableOp", "dtype=int32", "",
       "INVALID_ARGUMENT: Trying to read variable with wrong dtype. Expected int32 got float"},
      {"AssignAddVariableOp", "dtype=float", "float[3]:1,2,3",
       "INVALID_ARGUMENT: Cannot update variable with shape [2] using a Tensor with shape [3], shapes must "
       "be equal."},
      {"AssignAddVariableOp", "dtype=float", "float[2]:10,20", ""},
      {"AssignSubVariableOp", "dtype=float", "float[2]:1,1", ""},
      {"ReadVariableOp", "dtype=float", "", "float[2]:10,21"},
      {"VariableShape", "out_type=int64", "", "int64[1]:2"},
      {"ResourceScatterAdd", "dtype=float", "int32[1]:5 float[1]:1",
       "INVALID_ARGUMENT: indices[0] = 5 is not in [0, 2)"},
      {"ResourceScatterAdd", "dtype=float", "int32[2,1]:0,-1 float[2,1]:1,2",
       "INVALID_ARGUMENT: indices[1,0] = -1 is not in [0, 2)"}, /* row 0 is written */
      {"ReadVariableOp", "dtype=float", "", "float[2]:11,21"},
      {"ResourceScatterAdd", "dtype=float", "int32[2]:0,1 float[3]:1,2,3",
       "INVALID_ARGUMENT: The shape of indices ([2]) must be a prefix of the shape of updates ([3])"},
      {"ResourceScatterAdd", "dtype=float", "int64[3]:0,1,0 float[3]:1,2,4", ""},
      {"ResourceScatterAdd", "dtype=float", "int32[2]:0,1 float[]:7", ""},
      {"ReadVariableOp", "dtype=float", "", "float[2]:23,30"},
      {"ResourceScatterMul", "dtype=float", "int32[1]:1 float[1]:0.5", ""},
      {"ResourceScatterMax", "dtype=float", "int32[1]:0 float[1]:100", ""},
      {"ResourceScatterNdUpdate", "", "int32[2,1]:0,7 float[2]:1,2",
       "INVALID_ARGUMENT: indices[1] = [7] does not index into shape [2]"},
      {"ResourceScatterNdUpdate", "", "int32[3,1]:-1,1,7 float[3]:1,2,3", /* row 1 is written */
       "INVALID_ARGUMENT: indices[2] = [7] does not index into shape [2]"},
      {"ResourceScatterNdAdd", "", "int32[2,1]:0,1 float[3]:1,2,4",
       "INVALID_ARGUMENT: Dimensions [0,1) of indices[shape=[2,1]] = 2 must match dimensions [0,1) of "
       "updates[shape=[3]] = 3"},
      {"ResourceScatterNdAdd", "", "int32[2,1]:1,1 float[2]:1,2", ""},
      {"ResourceGather", "dtype=float", "int32[3]:1,0,1", "float[3]:5,1,5"},
      {"ResourceGather", "dtype=float", "int32[2]:0,4", "INVALID_ARGUMENT: indices[1] = 4 is not in [0, 2)"},
      {"ResourceGatherNd", "dtype=float", "int32[2,1]:0,4",
       "INVALID_ARGUMENT: indices[1] = [4] does not index into param shape [2], node name: n"},
      {"DestroyResourceOp", "ignore_lookup_error=false", "", ""},
      {"VarIsInitializedOp", "", "", "bool[]:0"},
      {"ReadVariableOp", "dtype=float", "", UNREADABLE(MISSING)}, /* the container stays */
      {"AssignAddVariableOp", "dtype=float", "float[]:1", "NOT_FOUND: " MISSING},
      {"DestroyResourceOp", "ignore_lookup_error=false", "",
       "NOT_FOUND: Resource localhost/x/<unknown> does not exist."},
      {"AssignVariableOp", "dtype=float", "float[]:3", ""},
      {"ReadVariableOp", "dtype=float", "", "float[]:3"},
  };
  begin();
  weft_made_t v = weft_make(&bench, "VarHandleOp", "dtype=float shape=? shared_name=x");
  RUN(v.value, calls);
  weft_made_drop(&v);
  end();
}

static void a_reference_variable_behaves_as_in_tensorflow(void) {
  static const weft_call_t calls[] = {
      {"IsVariableInitialized", "", "", "bool[]:0"},
      {"AssignAdd", "", "float[2]:1,2", "FAILED_PRECONDITION: Attempting to use uninitialized value n"},
      {"Assign", "", "float[3]:1,2,3",
       "INVALID_ARGUMENT: Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]"},
      {"Assign", "", "float[2]:1,2", ""},
      {"IsVariableInitialized", "", "", "bool[]:1"},
      {"AssignAdd", "", "float[3]:1,2,3", "INVALID_ARGUMENT: Parameters and update must be the same size"},
      {"AssignSub", "", "float[2]:1,2", ""},
      {"ScatterAdd", "", "int32[1]:9 float[1]:1", "INVALID_ARGUMENT: indices[0] = 9 is not in [0, 2)"},
      {"ScatterSub", "", "int32[2]:1,1 float[2]:1,2", ""},
      {"ScatterNdUpdate", "", "int32[1,1]:9 float[1]:1",
       "INVALID_ARGUMENT: indices[0] = [9] does not index into shape [2]"},
      {"StridedSliceAssign", "", "int32[1]:0 int32[1]:1 int32[1]:1 float[1]:42", ""},
      {"Assign", "validate_shape=false", "float[3]:1,2,3", ""},
      {"WeftForgetVariable", "", "", ""},
      {"IsVariableInitialized", "", "", "bool[]:0"},
      {"AssignAdd", "", "float[2]:1,2", "FAILED_PRECONDITION: Attempting to use uninitialized value n"},
      {"WeftForgetVariable", "", "", ""},
      {"Assign", "validate_shape=false", "float[3]:3,4,5", ""},
      {"IsVariableInitialized", "", "", "bool[]:1"},
  };
  begin();
  weft_made_t v = weft_make(&bench, "VariableV2", "dtype=float shape=[2]");
  RUN(v.value, calls);
  weft_tensor_t *t = weft_variable_read(v.value.ref);
  CU_ASSERT_EQUAL(t->count, 3);
  weft_tensor_release(t);
  weft_made_drop(&v);
  end();
}

static void counting_stops_at_the_limit(void) {
  static const weft_call_t calls[] = {
      {"Assign", "", "int64[]:0", ""},
      {"CountUpTo", "limit=2", "", "int64[]:0"},
      {"CountUpTo", "limit=2", "", "int64[]:1"},
      {"CountUpTo", "limit=2", "", "OUT_OF_RANGE: Reached limit of 2"},
  };
  begin();
  weft_made_t v = weft_make(&bench, "VariableV2", "dtype=int64 shape=[]");
  RUN(v.value, calls);
  weft_made_drop(&v);
  end();
}

static weft_object_t *object_of(const weft_made_t *m) {
  return ((weft_handle_t **)m->value.tensor->data)[0]->object;
}

static void nodes_of_one_name_share_a_variable(void) {
  begin();
  weft_made_t a = weft_make(&bench, "VarHandleOp", "dtype=float shape=? shared_name=x");
  weft_made_t b = weft_make(&bench, "VarHandleOp", "dtype=float shape=? shared_name=x");
  weft_made_t other = weft_make(&bench, "VarHandleOp", "dtype=float shape=? shared_name=x container=c");
  CU_ASSERT_PTR_EQUAL(object_of(&a), object_of(&b));
  CU_ASSERT_PTR_NOT_EQUAL(object_of(&a), object_of(&other));
  weft_made_drop(&a);
  weft_made_drop(&b);
  weft_made_drop(&other);
  end();
}

static void clearing_the_container_forgets_values(void) {
  begin();
  weft_made_t v = weft_make(&bench, "VarHandleOp", "dtype=float shape=? shared_name=x");
  weft_made_t r = weft_make(&bench, "VariableV2", "dtype=float shape=[] shared_name=x");
  weft_expect(&bench, v.value, "AssignVariableOp", "dtype=float", "float[]:3", "");
  weft_expect(&bench, r.value, "Assign", "", "float[]:3", "");
  weft_resource_clear(bench.resources, WEFT_STR(""));
  weft_expect(&bench, v.value, "VarIsInitializedOp", "", "", "bool[]:0");
  weft_expect(&bench, v.value, "VariableShape", "out_type=int32", "", "NOT_FOUND: " NO_CONTAINER);
  weft_expect(&bench, r.value, "IsVariableInitialized", "", "", "bool[]:0");
  weft_value_t again = {0};
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(v.node, NULL, &again)); /* the same node makes it anew */
  weft_expect(&bench, again, "AssignVariableOp", "dtype=float", "float[]:4", "");
  weft_expect(&bench, v.value, "ReadVariableOp", "dtype=float", "",
              "float[]:4"); /* the old handle finds it by name */
  weft_tensor_release(again.tensor);
  weft_made_drop(&v);
  weft_made_drop(&r);
  end();
}

static void a_handle_of_another_device_is_refused(void) {
  begin();
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t));
  ((weft_handle_t **)t->data)[0] =
      weft_handle_create(WEFT_STR("/job:ps/replica:0/task:0/device:CPU:0"), WEFT_STR("localhost"),
                         WEFT_STR("x"), weft_str(weft_variable_type.name), 1, NULL);
  weft_expect(
      &bench, (weft_value_t){t, NULL}, "ReadVariableOp", "dtype=float", "",
      "INVALID_ARGUMENT: Trying to access resource x located in device /job:ps/replica:0/task:0/device:CPU:0 "
      "from device /job:localhost/replica:0/task:0/device:CPU:0");
  weft_tensor_release(t);
  end();
}

static const CU_TestInfo tests[] = {
    {"a handle's variable behaves as in TensorFlow", a_handles_variable_behaves_as_in_tensorflow},
    {"a reference variable behaves as in TensorFlow", a_reference_variable_behaves_as_in_tensorflow},
    {"counting stops at the limit", counting_stops_at_the_limit},
    {"nodes of one name share a variable", nodes_of_one_name_share_a_variable},
    {"clearing the container forgets values", clearing_the_container_forgets_values},
    {"a handle of another device is refused", a_handle_of_another_device_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("variable", tests); }
