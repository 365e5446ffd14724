/* tests/client/collective_ops_test.c - each of TensorFlow's collective ops between two devices of a session:
 * of the type that the machine prefers, or two CPUs. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { ROWS = 4, COLUMNS = 2, COUNT = ROWS * COLUMNS };

/* "LATE", "GPU" or "CPU", as the device library says that is loaded. */
static const char *device_type(void) {
  const char *path = getenv("WEFT_DEVICE_PATH");
  return path == NULL ? "CPU" : strstr(path, "libweft_late") != NULL ? "LATE" : "GPU";
}

static void open_with_devices(world_t *w) {
  static const char two_cpus[] =
      "\x0a\x07\x0a\x03"
      "CPU\x10\x02"; /* ConfigProto { device_count { key: "CPU" value: 2 } } */
  world_open(w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, two_cpus, sizeof two_cpus - 1, w->s);
  ASSERT_OK(w);
  w->session = TF_NewSession(w->g, o, w->s);
  ASSERT_OK(w);
  TF_DeleteSessionOptions(o);
}

/* ---- members ---- */

static float value_of(int rank, int i) { return (float)((rank + 1) * 10 + i); }

static TF_Output input(world_t *w, int rank) {
  const int64_t dims[] = {ROWS, COLUMNS};
  float values[COUNT];
  char name[16];
  for (int i = 0; i < COUNT; i++) values[i] = value_of(rank, i);
  snprintf(name, sizeof name, "x%d", rank);
  return constant(w, w->g, name, new_floats(2, dims, values));
}

static TF_Output number(world_t *w, const char *what, int rank, int value) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", what, rank);
  return constant(w, w->g, name, new_int(value));
}

static TF_OperationDescription *begin(world_t *w, const char *op, int rank) {
  char name[64], device[32];
  snprintf(name, sizeof name, "%s_%d", op, rank);
  snprintf(device, sizeof device, "/device:%s:%d", device_type(), rank);
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_SetDevice(d, device);
  return d;
}

static TF_Output end(world_t *w, TF_OperationDescription *d) {
  TF_Operation *op = TF_FinishOperation(d, w->s);
  if (op == NULL) fprintf(stderr, "%s\n", TF_Message(w->s));
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

/* How an op says its group. */
typedef enum form { BY_ATTRIBUTES, BY_SCALARS, BY_COMMUNICATOR } form_t;

static void add_keys(TF_OperationDescription *d, world_t *w, form_t form, int rank) {
  if (form == BY_ATTRIBUTES) {
    TF_SetAttrInt(d, "group_size", 2);
    TF_SetAttrInt(d, "group_key", 7);
    TF_SetAttrInt(d, "instance_key", 1);
    return;
  }
  TF_AddInput(d, number(w, "size", rank, 2));
  TF_AddInput(d, number(w, "group", rank, 7));
  TF_AddInput(d, number(w, "instance", rank, 1));
}

static TF_Output communicator(world_t *w, int rank) {
  const TF_Output key = number(w, "key", rank, 7), own = number(w, "rank", rank, rank),
                  size = number(w, "members", rank, 2);
  TF_OperationDescription *d = begin(w, "CollectiveInitializeCommunicator", rank);
  TF_AddInput(d, key);
  TF_AddInput(d, own);
  TF_AddInput(d, size);
  return end(w, d);
}

static TF_Output assignment(world_t *w, int rank) {
  const int64_t none[] = {0, 0};
  char name[32];
  snprintf(name, sizeof name, "assignment%d", rank);
  return constant(w, w->g, name, new_ints(2, none, NULL));
}

typedef struct op_case {
  const char *op;
  form_t form;
  const char *merge, *final; /* NULL: it has none */
  const char *shape_attr;    /* not NULL: it declares its shape */
  float (*expected)(int rank, int i);
  int rows; /* of the result */
} op_case_t;

static TF_Output member(world_t *w, const op_case_t *c, int rank) {
  const int64_t offset[] = {0}, dims[] = {c->rows, COLUMNS};
  TF_Output m = {NULL, 0}, a = {NULL, 0};
  const TF_Output x = input(w, rank);
  if (c->form == BY_COMMUNICATOR) {
    m = communicator(w, rank);
    a = assignment(w, rank);
  }
  TF_OperationDescription *d = begin(w, c->op, rank);
  TF_AddInput(d, x);
  if (c->form == BY_COMMUNICATOR) {
    TF_AddInput(d, m);
    TF_AddInput(d, a);
    if (c->merge != NULL) TF_SetAttrString(d, "reduction", c->merge, strlen(c->merge));
    return end(w, d);
  }
  add_keys(d, w, c->form, rank);
  if (c->form == BY_SCALARS) TF_AddInputList(d, NULL, 0); /* ordering_token */
  if (c->merge != NULL) TF_SetAttrString(d, "merge_op", c->merge, strlen(c->merge));
  if (c->final != NULL) TF_SetAttrString(d, "final_op", c->final, strlen(c->final));
  if (c->merge != NULL && c->form == BY_ATTRIBUTES) TF_SetAttrIntList(d, "subdiv_offsets", offset, 1);
  if (c->shape_attr != NULL) TF_SetAttrShape(d, c->shape_attr, dims, 2);
  return end(w, d);
}

/* ---- what comes out ---- */

static float mean(int rank, int i) {
  (void)rank;
  return (value_of(0, i) + value_of(1, i)) / 2;
}
static float sum(int rank, int i) {
  (void)rank;
  return value_of(0, i) + value_of(1, i);
}
static float half_product(int rank, int i) {
  (void)rank;
  return value_of(0, i) * value_of(1, i) / 2;
}
static float least(int rank, int i) {
  (void)rank;
  return value_of(0, i);
}
static float greatest(int rank, int i) {
  (void)rank;
  return value_of(1, i);
}
static float gathered(int rank, int i) {
  (void)rank;
  return value_of(i / COUNT, i % COUNT);
}
static float sum_in_parts(int rank, int i) { return sum(rank, rank * COUNT / 2 + i); }
static float exchanged(int rank, int i) {
  return value_of(i / (COUNT / 2), rank * COUNT / 2 + i % (COUNT / 2));
}

static void gives(world_t *w, const char *op, const TF_Output *members, int rows,
                  float (*expected)(int rank, int i)) {
  TF_Tensor *out[2] = {NULL, NULL};
  for (int step = 0; step < 3; step++) { /* the group and what was agreed are known from the second on */
    run(w, NULL, NULL, 0, members, out, 2);
    if (TF_GetCode(w->s) != TF_OK) fprintf(stderr, "%s: %s\n", op, TF_Message(w->s));
    ASSERT_OK(w);
    for (int rank = 0; rank < 2; rank++) {
      int wrong = 0;
      CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(out[rank]), rows * COLUMNS);
      for (int i = 0; i < rows * COLUMNS; i++) wrong += float_at(out[rank], i) != expected(rank, i);
      if (wrong > 0) fprintf(stderr, "%s: rank %d has %d wrong elements\n", op, rank, wrong);
      CU_ASSERT_EQUAL(wrong, 0);
      TF_DeleteTensor(out[rank]);
    }
  }
}

static void each_op_gives_its_result(void) {
  static const op_case_t cases[] = {
      {"CollectiveAllToAllV2", BY_SCALARS, NULL, NULL, NULL, exchanged, ROWS},
      {"CollectiveAllToAllV3", BY_COMMUNICATOR, NULL, NULL, NULL, exchanged, ROWS},
      {"CollectiveGather", BY_ATTRIBUTES, NULL, NULL, "shape", gathered, 2 * ROWS},
      {"CollectiveGatherV2", BY_SCALARS, NULL, NULL, NULL, gathered, 2 * ROWS},
      {"CollectiveReduce", BY_ATTRIBUTES, "Add", "Div", NULL, mean, ROWS},
      {"CollectiveReduce", BY_ATTRIBUTES, "Min", "Id", NULL, least, ROWS},
      {"CollectiveReduceScatterV2", BY_SCALARS, "Add", "Id", NULL, sum_in_parts, ROWS / 2},
      {"CollectiveReduceV2", BY_SCALARS, "Max", "Id", NULL, greatest, ROWS},
      {"CollectiveReduceV2", BY_SCALARS, "Mul", "Div", NULL, half_product, ROWS},
      {"CollectiveReduceV3", BY_COMMUNICATOR, "Add", NULL, NULL, sum, ROWS},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    world_t w;
    open_with_devices(&w);
    const TF_Output members[2] = {member(&w, &cases[k], 0), member(&w, &cases[k], 1)};
    gives(&w, cases[k].op, members, cases[k].rows, cases[k].expected);
    world_close(&w);
  }
}

/* ---- broadcasts: one sends, the other receives ---- */

static TF_Output sender(world_t *w, form_t form) {
  const int64_t dims[] = {ROWS, COLUMNS};
  const TF_Output x = input(w, 0);
  TF_OperationDescription *d =
      begin(w, form == BY_ATTRIBUTES ? "CollectiveBcastSend" : "CollectiveBcastSendV2", 0);
  TF_AddInput(d, x);
  add_keys(d, w, form, 0);
  if (form == BY_ATTRIBUTES) TF_SetAttrShape(d, "shape", dims, 2);
  return end(w, d);
}

static TF_Output receiver(world_t *w, form_t form) {
  const int64_t dims[] = {ROWS, COLUMNS}, two[] = {2};
  const int32_t shape[] = {ROWS, COLUMNS};
  TF_OperationDescription *d =
      begin(w, form == BY_ATTRIBUTES ? "CollectiveBcastRecv" : "CollectiveBcastRecvV2", 1);
  add_keys(d, w, form, 1);
  TF_SetAttrType(d, "T", TF_FLOAT);
  if (form == BY_ATTRIBUTES) {
    TF_SetAttrShape(d, "shape", dims, 2);
  } else {
    TF_AddInput(d, constant(w, w->g, "shape", new_ints(1, two, shape)));
  }
  return end(w, d);
}

static void broadcasts_arrive(void) {
  for (form_t form = BY_ATTRIBUTES; form <= BY_SCALARS; form++) {
    world_t w;
    open_with_devices(&w);
    const TF_Output members[2] = {sender(&w, form), receiver(&w, form)};
    gives(&w, "broadcast", members, ROWS, least);
    world_close(&w);
  }
}

/* ---- TensorFlow's ops of NCCL ---- */

static TF_Output on_device(world_t *w, const char *name, int device, TF_Output x) {
  char text[32];
  TF_OperationDescription *d = TF_NewOperation(w->g, "Identity", name);
  snprintf(text, sizeof text, "/device:%s:%d", device_type(), device);
  TF_SetDevice(d, text);
  TF_AddInput(d, x);
  return end(w, d);
}

/* The input of a rank, on its device. */
static TF_Output own_input(world_t *w, int rank) {
  char name[16];
  snprintf(name, sizeof name, "own%d", rank);
  return on_device(w, name, rank, input(w, rank));
}

static TF_Output all_reduce(world_t *w, const char *reduction, int rank, int device, TF_Output x) {
  TF_OperationDescription *d = begin(w, "NcclAllReduce", rank);
  char text[32];
  snprintf(text, sizeof text, "/device:%s:%d", device_type(), device);
  TF_SetDevice(d, text);
  TF_AddInput(d, x);
  TF_SetAttrString(d, "reduction", reduction, strlen(reduction));
  TF_SetAttrString(d, "shared_name", "c0", 2);
  TF_SetAttrInt(d, "num_devices", 2);
  return end(w, d);
}

static float product(int rank, int i) {
  (void)rank;
  return value_of(0, i) * value_of(1, i);
}

static const struct {
  const char *name;
  float (*expected)(int rank, int i);
} reductions[] = {{"sum", sum}, {"prod", product}, {"min", least}, {"max", greatest}};
enum { NUM_REDUCTIONS = 4 };

static void members_find_each_other_by_name(void) {
  for (int k = 0; k < NUM_REDUCTIONS; k++) {
    world_t w;
    open_with_devices(&w);
    const TF_Output members[2] = {all_reduce(&w, reductions[k].name, 0, 0, input(&w, 0)),
                                  all_reduce(&w, reductions[k].name, 1, 1, input(&w, 1))};
    gives(&w, "NcclAllReduce", members, ROWS, reductions[k].expected);
    world_close(&w);
  }
}

/* As where a graph for two GPUs is placed on one CPU. */
static void members_may_be_on_one_device(void) {
  world_t w;
  open_with_devices(&w);
  const TF_Output members[2] = {all_reduce(&w, "sum", 0, 1, input(&w, 0)),
                                all_reduce(&w, "sum", 1, 1, input(&w, 1))};
  gives(&w, "NcclAllReduce", members, ROWS, sum);
  world_close(&w);
}

/* int32, which lies in the host's memory. */
static void integers_are_reduced(void) {
  world_t w;
  TF_Tensor *out[2] = {NULL, NULL};
  open_with_devices(&w);
  const TF_Output members[2] = {all_reduce(&w, "max", 0, 0, number(&w, "n", 0, 7)),
                                all_reduce(&w, "max", 1, 1, number(&w, "n", 1, 9))};
  run(&w, NULL, NULL, 0, members, out, 2);
  ASSERT_OK(&w);
  for (int rank = 0; rank < 2; rank++) {
    CU_ASSERT_EQUAL(int_at(out[rank], 0), 9);
    TF_DeleteTensor(out[rank]);
  }
  world_close(&w);
}

static TF_Output reduction_on(world_t *w, const char *reduction, int device, const TF_Output *x, int n) {
  TF_OperationDescription *d = begin(w, "NcclReduce", device);
  TF_AddInputList(d, x, n);
  TF_SetAttrString(d, "reduction", reduction, strlen(reduction));
  return end(w, d);
}

static TF_Output broadcast_from(world_t *w, int device, TF_Output x) {
  const int64_t dims[] = {ROWS, COLUMNS};
  TF_OperationDescription *d = begin(w, "NcclBroadcast", device);
  TF_AddInput(d, x);
  TF_SetAttrShape(d, "shape", dims, 2);
  return end(w, d);
}

static void a_reduction_is_replaced(void) {
  for (int k = 0; k < NUM_REDUCTIONS; k++) {
    world_t w;
    open_with_devices(&w);
    const TF_Output inputs[2] = {own_input(&w, 0), own_input(&w, 1)};
    const TF_Output reduced = reduction_on(&w, reductions[k].name, k % 2, inputs, 2);
    const TF_Output members[2] = {on_device(&w, "a", 0, reduced), on_device(&w, "b", 1, reduced)};
    gives(&w, "NcclReduce", members, ROWS, reductions[k].expected);
    world_close(&w);
  }
}

static void a_broadcast_is_replaced(void) {
  world_t w;
  open_with_devices(&w);
  const TF_Output x = broadcast_from(&w, 1, own_input(&w, 1));
  const TF_Output members[2] = {on_device(&w, "a", 0, x), on_device(&w, "b", 1, x)};
  gives(&w, "NcclBroadcast", members, ROWS, greatest);
  const TF_Output itself[2] = {x, x}; /* on its own device alone, and fetched */
  gives(&w, "NcclBroadcast", itself, ROWS, greatest);
  world_close(&w);
}

/* A node that is replaced feeds another one, in either order of their making. */
static void a_reduction_is_broadcast(void) {
  world_t w;
  open_with_devices(&w);
  const TF_Output inputs[2] = {own_input(&w, 0), own_input(&w, 1)};
  const TF_Output x = broadcast_from(&w, 0, reduction_on(&w, "sum", 0, inputs, 2));
  const TF_Output members[2] = {on_device(&w, "a", 0, x), on_device(&w, "b", 1, x)};
  gives(&w, "NcclReduce and NcclBroadcast", members, ROWS, sum);
  world_close(&w);
}

static void what_cannot_be_is_refused(void) {
  TF_Tensor *out[2] = {NULL, NULL};
  world_t w;
  open_with_devices(&w);
  const TF_Output other = own_input(&w, 1);
  const TF_Output reduced[2] = {reduction_on(&w, "sum", 0, &other, 1), other};
  run(&w, NULL, NULL, 0, reduced, out, 2);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "No input tensor uses the same device as the NcclReduce op");
  world_close(&w);
  open_with_devices(&w);
  const int64_t dims[] = {3};
  const float three[] = {1, 2, 3};
  const TF_Output members[2] = {
      all_reduce(&w, "sum", 0, 0, input(&w, 0)),
      all_reduce(&w, "sum", 1, 1, constant(&w, w.g, "three", new_floats(1, dims, three)))};
  run(&w, NULL, NULL, 0, members, out, 2);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "its members disagree");
  world_close(&w);
}

/* A step that fails ends members that wait for others, and the next step is not harmed. */
static void a_step_that_fails_ends_members(void) {
  TF_Tensor *out[2] = {NULL, NULL};
  world_t w;
  open_with_devices(&w);
  const TF_Output first = all_reduce(&w, "sum", 0, 0, input(&w, 0));
  const TF_Output second = all_reduce(&w, "sum", 1, 1, input(&w, 1));
  const TF_Output fails[2] = {first,
                              unary(&w, w.g, "Identity", "value", placeholder(&w, w.g, "not_fed", TF_FLOAT))};
  for (int i = 0; i < 3; i++) {
    run(&w, NULL, NULL, 0, fails, out, 2);
    ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "not_fed");
    const TF_Output members[2] = {first, second};
    gives(&w, "NcclAllReduce", members, ROWS, sum);
  }
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"each op gives its result", each_op_gives_its_result},
    {"broadcasts arrive", broadcasts_arrive},
    {"members find each other by name", members_find_each_other_by_name},
    {"members may be on one device", members_may_be_on_one_device},
    {"integers are reduced", integers_are_reduced},
    {"a reduction is replaced", a_reduction_is_replaced},
    {"a broadcast is replaced", a_broadcast_is_replaced},
    {"a reduction is broadcast", a_reduction_is_broadcast},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"a step that fails ends members", a_step_that_fails_ends_members},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/collective ops", tests); }
