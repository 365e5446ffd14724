/* What loops keep: stacks, tensor arrays and their gradients, tensor lists; in TensorFlow's words. */
#include <stdio.h>

#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }
#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))

static weft_tensor_t *parse(const char *text) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_parse(&text, &t));
  return t;
}

/* Runs an op once on values; *out gets output 0. */
static void call(const char *op, const char *attrs, const weft_value_t *in, int n, weft_value_t *out) {
  int types[8];
  weft_value_t all[4] = {{0}};
  weft_harness_t *h = NULL;
  for (int i = 0; i < n; i++) types[i] = (int)in[i].tensor->dtype;
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, op, attrs, types, n, &h));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(h, in, all));
  *out = all[0];
  for (int i = 1; i < 4; i++) weft_tensor_release(all[i].tensor);
  weft_harness_destroy(h);
}

static weft_value_t make(const char *op, const char *attrs, const char *input) {
  weft_value_t in = {parse(input), NULL}, out;
  call(op, attrs, &in, 1, &out);
  weft_tensor_release(in.tensor);
  return out;
}

static void stacks_push_and_pop(void) {
  static const weft_call_t calls[] = {
      {"StackPopV2", "elem_type=float", "", "INVALID_ARGUMENT: Stack[s_0] is empty when calling Pop()."},
      {"StackPushV2", "", "float[]:1", "float[]:1"},
      {"StackPushV2", "", "float[2]:2,3", "float[2]:2,3"},
      {"StackPushV2", "", "float[]:4", "INVALID_ARGUMENT: Stack[s_0] overflowed its max_size (2)"},
      {"StackPushV2", "", "int32[]:1", "INVALID_ARGUMENT: Must have type float but got int32"},
      {"StackPopV2", "elem_type=float", "", "float[2]:2,3"},
      {"StackPopV2", "elem_type=float", "", "float[]:1"},
      {"StackCloseV2", "", "", ""},
      {"StackPopV2", "elem_type=float", "", "INVALID_ARGUMENT: Stack[s_0] has already been closed."},
  };
  begin();
  weft_value_t s = make("StackV2", "elem_type=float stack_name=s", "int32[]:2");
  RUN(s, calls);
  weft_tensor_release(s.tensor);
  end();
}

#define UNDEFINED                                                                                           \
  "Furthermore, the element shape is not fully defined: <unknown>.  It is possible you are working with a " \
  "resizeable "                                                                                             \
  "TensorArray and stop_gradients is not allowing the gradients to be written.  If you set the full "       \
  "element_shape "                                                                                          \
  "property on the forward TensorArray, the proper all-zeros tensor will be returned instead of incurring " \
  "this error."
#define READ "TensorArrayReadV3", "dtype=float"
#define WRITE "TensorArrayWriteV3", ""

static void tensor_arrays_are_written_once_and_read_once(void) {
  static const weft_call_t calls[] = {
      {"TensorArraySizeV3", "", "float[]:0", "int32[]:3"},
      {WRITE, "int32[]:-1 float[1]:1 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0: Tried to write to index -1 but array is not resizeable and size "
       "is: 3"},
      {WRITE, "int32[]:7 float[1]:1 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0: Tried to write to index 7 but array is not resizeable and size "
       "is: 3"},
      {WRITE, "int32[]:0 int32[1]:1 float[]:0",
       "INVALID_ARGUMENT: TensorArray dtype is float but Op is trying to write dtype int32."},
      {"TensorArrayReadV3", "dtype=int32", "int32[]:0 float[]:0",
       "INVALID_ARGUMENT: TensorArray dtype is float but Op requested dtype int32."},
      {READ, "int32[]:5 float[]:0", "INVALID_ARGUMENT: Tried to read from index 5 but array size is: 3"},
      {READ, "int32[]:1 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0: Could not read from TensorArray index 1.  " UNDEFINED},
      {WRITE, "int32[]:0 float[2]:1,2 float[]:0", "float[]:0"},
      {WRITE, "int32[]:0 float[2]:1,2 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0: Could not write to TensorArray index 0 because it has already "
       "been written "
       "to."},
      {READ, "int32[]:0 float[]:0", "float[2]:1,2"},
      {READ, "int32[]:0 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0: Could not read index 0 twice because it was cleared after a "
       "previous read "
       "(perhaps try setting clear_after_read = false?)."},
      {"TensorArrayScatterV3", "", "int32[3]:0,1,2 float[2,1]:1,2 float[]:0",
       "INVALID_ARGUMENT: Expected len(indices) == values.shape[0], but saw: 3 vs. 2"},
      {"TensorArrayScatterV3", "", "int32[2]:0,9 float[2,1]:1,2 float[]:0",
       "INVALID_ARGUMENT: Max scatter index must be < array size (9 vs. 3)"},
      {"TensorArrayCloseV3", "", "", ""},
      {READ, "int32[]:0 float[]:0", "INVALID_ARGUMENT: TensorArray ta_0 has already been closed."},
  };
  begin();
  weft_value_t a = make("TensorArrayV3", "dtype=float tensor_array_name=ta", "int32[]:3");
  RUN(a, calls);
  weft_tensor_release(a.tensor);
  end();
}

static void tensor_arrays_split_and_join(void) {
  static const weft_call_t calls[] = {
      {"TensorArraySplitV3", "", "float[3]:1,2,3 int64[2]:1,1 float[]:0",
       "INVALID_ARGUMENT: Expected sum of lengths to be equal to values.shape[0], but sum of lengths is 2 "
       "and value's "
       "shape is: [3]"},
      {"TensorArraySplitV3", "", "float[3]:1,2,3 int64[3]:1,0,2 float[]:0", "float[]:0"},
      {"TensorArrayConcatV3", "dtype=float", "float[]:0", "float[3]:1,2,3 int64[3]:1,0,2"},
  };
  static const weft_call_t rows[] = {
      {"TensorArrayScatterV3", "", "int32[3]:2,1,0 float[3,2]:1,2,3,4,5,6 float[]:0", "float[]:0"},
      {"TensorArrayGatherV3", "dtype=float", "int32[2]:0,2 float[]:0", "float[2,2]:5,6,1,2"},
  };
  begin();
  weft_value_t a = make("TensorArrayV3", "dtype=float", "int32[]:3");
  weft_value_t b = make("TensorArrayV3", "dtype=float clear_after_read=false", "int32[]:3");
  RUN(a, calls);
  RUN(b, rows);
  weft_tensor_release(a.tensor);
  weft_tensor_release(b.tensor);
  end();
}

static void a_gradients_array_adds_up(void) {
  static const weft_call_t calls[] = {
      {READ, "int32[]:1 float[]:0",
       "float[2]:0,0"}, /* never written: zeros in the shape of the forward element */
      {WRITE, "int32[]:0 float[2]:1,1 float[]:0", "float[]:0"},
      {WRITE, "int32[]:0 float[2]:5,1 float[]:0", "float[]:0"},
      {WRITE, "int32[]:0 float[1]:5 float[]:0",
       "INVALID_ARGUMENT: TensorArray ta_0@g: Could not aggregate to TensorArray index 0 because the "
       "existing shape is "
       "[2] but the new input shape is [1]."},
      {READ, "int32[]:0 float[]:0", "float[2]:6,2"},
  };
  begin();
  weft_value_t a = make("TensorArrayV3", "dtype=float tensor_array_name=ta", "int32[]:3");
  weft_expect(&bench, a, WRITE, "int32[]:0 float[2]:1,2 float[]:0", "float[]:0");
  weft_expect(&bench, a, WRITE, "int32[]:1 float[2]:1,2 float[]:0", "float[]:0");
  weft_value_t in[2] = {a, {parse("float[]:0"), NULL}}, g, again;
  call("TensorArrayGradV3", "source=g", in, 2, &g);
  call("TensorArrayGradV3", "source=g", in, 2, &again);
  CU_ASSERT_PTR_EQUAL(((weft_handle_t **)g.tensor->data)[0]->object,
                      ((weft_handle_t **)again.tensor->data)[0]->object);
  RUN(g, calls);
  weft_tensor_release(in[1].tensor);
  weft_tensor_release(g.tensor);
  weft_tensor_release(again.tensor);
  weft_tensor_release(a.tensor);
  end();
}

/* ---- lists ---- */

static weft_value_t list(const char *op, const char *attrs, const char *first, const char *second) {
  weft_value_t in[2] = {{parse(first), NULL}, {parse(second), NULL}}, out;
  call(op, attrs, in, 2, &out);
  weft_tensor_release(in[0].tensor);
  weft_tensor_release(in[1].tensor);
  return out;
}

static void lists_are_checked(void) {
  static const weft_call_t calls[] = {
      {"TensorListGetItem", "element_dtype=float", "int32[]:5 int32[]:-1",
       "INVALID_ARGUMENT: Trying to access element 5 in a list with 3 elements."},
      {"TensorListGetItem", "element_dtype=float", "int32[]:1 int32[]:-1",
       "INVALID_ARGUMENT: Trying to read an uninitialized tensor but element_shape is not fully defined: "
       "<unknown> and "
       "no list element is set."},
      {"TensorListGetItem", "element_dtype=float", "int32[]:1 int32[1]:2", "float[2]:0,0"},
      {"TensorListSetItem", "element_dtype=float", "int32[]:9 float[]:1",
       "INVALID_ARGUMENT: Trying to modify element 9 in a list with 3 elements."},
      {"TensorListStack", "element_dtype=float num_elements=2", "int32[]:-1",
       "INVALID_ARGUMENT: Operation expected a list with 2 elements but got a list with 3 elements."},
      {"TensorListStack", "element_dtype=float", "int32[]:-1",
       "INVALID_ARGUMENT: Tried to stack list which only contains uninitialized tensors and has a "
       "non-fully-defined "
       "element_shape: <unknown>"},
      {"TensorListGather", "element_dtype=float", "int32[1]:7 int32[1]:1",
       "INVALID_ARGUMENT: Trying to gather element 7 in a list with 3 elements."},
      {"TensorListLength", "", "", "int32[]:3"},
  };
  static const weft_call_t empty[] = {
      {"TensorListPopBack", "element_dtype=float", "int32[]:-1",
       "INVALID_ARGUMENT: Trying to pop from an empty list."},
      {"TensorListPushBack", "element_dtype=float", "float[3]:1,2,3",
       "INVALID_ARGUMENT: Tried to append a tensor with incompatible shape to a list. Op element shape: [3] "
       "list shape: "
       "[2]"},
      {"TensorListElementShape", "shape_type=int32", "", "int32[1]:2"},
  };
  static const weft_call_t full[] = {
      {"TensorListPushBack", "element_dtype=float", "float[3]:1,2,3",
       "INVALID_ARGUMENT: Tried to push item into a full list list size: 0 max_num_elements: 0"},
      {"TensorListStack", "element_dtype=float", "int32[]:-1",
       "INVALID_ARGUMENT: Tried to stack elements of an empty list with non-fully-defined element_shape: "
       "<unknown>"},
  };
  begin();
  weft_value_t a = list("TensorListReserve", "element_dtype=float", "int32[]:-1", "int32[]:3");
  weft_value_t b = list("EmptyTensorList", "element_dtype=float", "int32[1]:2", "int32[]:-1");
  weft_value_t c = list("EmptyTensorList", "element_dtype=float", "int32[]:-1", "int32[]:0");
  RUN(a, calls);
  RUN(b, empty);
  RUN(c, full);
  weft_tensor_release(a.tensor);
  weft_tensor_release(b.tensor);
  weft_tensor_release(c.tensor);
  end();
}

static weft_value_t push(weft_value_t l, const char *item) {
  weft_value_t in[2] = {l, {parse(item), NULL}}, out;
  call("TensorListPushBack", "element_dtype=float", in, 2, &out);
  weft_tensor_release(in[1].tensor);
  return out;
}

static void a_list_is_a_value(void) {
  begin();
  weft_value_t a = list("EmptyTensorList", "element_dtype=float", "int32[]:-1", "int32[]:-1");
  weft_value_t b = push(a, "float[2]:1,2"), c = push(b, "float[2]:3,4"), other = push(b, "float[2]:5,6");
  weft_expect(&bench, a, "TensorListLength", "", "", "int32[]:0");
  weft_expect(&bench, b, "TensorListStack", "element_dtype=float", "int32[]:-1", "float[1,2]:1,2");
  weft_expect(&bench, c, "TensorListStack", "element_dtype=float", "int32[]:-1", "float[2,2]:1,2,3,4");
  weft_expect(&bench, other, "TensorListGather", "element_dtype=float", "int32[2]:1,0 int32[]:-1",
              "float[2,2]:5,6,1,2");
  weft_expect(&bench, c, "TensorListConcatV2", "element_dtype=float shape_type=int32",
              "int32[]:-1 int64[0]:", "float[4]:1,2,3,4 int64[2]:2,2");
  weft_tensor_release(a.tensor);
  weft_tensor_release(b.tensor);
  weft_tensor_release(c.tensor);
  weft_tensor_release(other.tensor);
  end();
}

static weft_status_t *try_add(weft_value_t a, weft_value_t b, weft_value_t *out) {
  int types[] = {WEFT_VARIANT, WEFT_VARIANT};
  weft_value_t in[2] = {a, b};
  weft_harness_t *h = NULL;
  weft_status_t *s = weft_harness_create(&bench, "AddN", "N=2", types, 2, &h);
  if (s == NULL) s = weft_harness_run_values(h, in, out);
  weft_harness_destroy(h);
  return s;
}

static void refuses_to_add(weft_value_t a, weft_value_t b, const char *why) {
  weft_value_t sum = {NULL, NULL};
  weft_status_t *s = try_add(a, b, &sum);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), why);
  weft_status_free(s);
}

static void lists_add_up_and_have_zeros(void) {
  begin();
  weft_value_t none = list("EmptyTensorList", "element_dtype=float", "int32[]:-1", "int32[]:-1");
  weft_value_t one = push(none, "float[2]:1,2"), two = push(one, "float[2]:3,4"), sum, zeros, other;
  weft_value_t longer = push(none, "float[3]:1,2,3");
  weft_value_t ints = list("EmptyTensorList", "element_dtype=int32", "int32[]:-1", "int32[]:-1");
  weft_value_t free = list("TensorListReserve", "element_dtype=float", "int32[]:-1", "int32[]:2");
  CU_ASSERT_PTR_NULL_FATAL(try_add(two, two, &sum));
  weft_expect(&bench, sum, "TensorListStack", "element_dtype=float", "int32[]:-1", "float[2,2]:2,4,6,8");
  weft_expect(&bench, two, "TensorListStack", "element_dtype=float", "int32[]:-1",
              "float[2,2]:1,2,3,4"); /* as it was */
  call("ZerosLike", "", &two, 1, &zeros);
  weft_expect(&bench, zeros, "TensorListStack", "element_dtype=float", "int32[]:-1", "float[2,2]:0,0,0,0");
  CU_ASSERT_PTR_NULL_FATAL(try_add(free, two, &other)); /* what was never set adds nothing */
  weft_expect(&bench, other, "TensorListStack", "element_dtype=float", "int32[]:-1", "float[2,2]:1,2,3,4");
  refuses_to_add(one, two,
                 "Trying to add two lists of tensors with different lengths. One is 1 and the other is 2");
  refuses_to_add(
      one, longer,
      "Trying to add two tensors with incompatible element shapes. One is [2] and the other is [3]");
  refuses_to_add(
      none, ints,
      "Trying to add two lists of tensors of different dtypes. One is float and the other is int32");
  weft_value_t all[] = {none, one, two, sum, zeros, other, longer, ints, free};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) weft_tensor_release(all[i].tensor);
  end();
}

/* A step's replicas on two devices of one task: each has a loop that is named as the other's. */
static void devices_of_one_task_keep_things_of_one_name_apart(void) {
  static const struct {
    const char *op, *attrs, *size;
  } makers[] = {{"TensorArrayV3", "dtype=float tensor_array_name=same", "int32[]:3"},
                {"StackV2", "elem_type=float stack_name=same", "int32[]:3"}};
  for (size_t k = 0; k < sizeof makers / sizeof makers[0]; k++) {
    weft_bench_t other;
    begin();
    CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&other));
    weft_step_container_destroy(other.container);
    other.container = bench.container;
    weft_value_t a = make(makers[k].op, makers[k].attrs, makers[k].size);
    weft_bench_t first = bench;
    bench = other;
    weft_value_t b =
        make(makers[k].op, makers[k].attrs, makers[k].size); /* by its name it would be there already */
    bench = first;
    weft_tensor_release(a.tensor);
    weft_tensor_release(b.tensor);
    other.container = NULL;
    weft_bench_deinit(&other);
    end();
  }
}

/* It has one reference: the same list comes out. */
static void a_list_held_alone_is_changed_in_place(void) {
  begin();
  weft_value_t a = list("EmptyTensorList", "element_dtype=float", "int32[]:-1", "int32[]:-1");
  int types[] = {WEFT_VARIANT, WEFT_F32};
  weft_harness_t *h = NULL;
  CU_ASSERT_PTR_NULL_FATAL(
      weft_harness_create(&bench, "TensorListPushBack", "element_dtype=float", types, 2, &h));
  weft_variant_t *before = ((weft_variant_t **)a.tensor->data)[0];
  weft_tensor_t *in[2] = {a.tensor, parse("float[]:1")}, *out = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_owned(h, in, &out));
  CU_ASSERT_PTR_EQUAL(((weft_variant_t **)out->data)[0], before);
  weft_tensor_release(out);
  weft_harness_destroy(h);
  end();
}

static const CU_TestInfo tests[] = {
    {"stacks push and pop", stacks_push_and_pop},
    {"tensor arrays are written once and read once", tensor_arrays_are_written_once_and_read_once},
    {"tensor arrays split and join", tensor_arrays_split_and_join},
    {"a gradient's array adds up", a_gradients_array_adds_up},
    {"lists add up and have zeros", lists_add_up_and_have_zeros},
    {"devices of one task keep things of one name apart", devices_of_one_task_keep_things_of_one_name_apart},
    {"lists are checked", lists_are_checked},
    {"a list is a value", a_list_is_a_value},
    {"a list held alone is changed in place", a_list_held_alone_is_changed_in_place},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("loop", tests); }
