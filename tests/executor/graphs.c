/* tests/executor/graphs.c - see graphs.h. */
#include "tests/executor/graphs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

atomic_int test_in_place, test_not_in_place, test_runs;
weft_variable_t *test_variable;

/* ---- kernels ---- */

static int32_t int_in(const weft_kernel_ctx_t *c, int i) { return *(const int32_t *)weft_in(c, i)->data; }

static weft_status_t *int_out(weft_kernel_ctx_t *c, int32_t value) {
  return weft_tensor_scalar(WEFT_I32, &value, &c->outputs[0].tensor);
}

static weft_status_t *add(weft_kernel_ctx_t *c) {
  atomic_fetch_add(&test_runs, 1);
  return int_out(c, (int32_t)((uint32_t)int_in(c, 0) + (uint32_t)int_in(c, 1)));
}

/* Slow enough that the executor finds it worth another thread. */
static weft_status_t *mul(weft_kernel_ctx_t *c) {
  int64_t end = weft_clock_ns() + 20000;
  while (weft_clock_ns() < end) {
  }
  return int_out(c, (int32_t)((uint32_t)int_in(c, 0) * (uint32_t)int_in(c, 1)));
}

static weft_status_t *less(weft_kernel_ctx_t *c) {
  bool value = int_in(c, 0) < int_in(c, 1);
  return weft_tensor_scalar(WEFT_BOOL, &value, &c->outputs[0].tensor);
}

static weft_status_t *square(weft_kernel_ctx_t *c) {
  const weft_tensor_t *before = weft_in(c, 0);
  int32_t x = int_in(c, 0);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, WEFT_I32, &WEFT_SCALAR, &t));
  atomic_fetch_add(t == before ? &test_in_place : &test_not_in_place, 1);
  *(int32_t *)t->data = (int32_t)((uint32_t)x * (uint32_t)x);
  return NULL;
}

static void *end_elsewhere(void *arg) {
  weft_kernel_ctx_t *c = arg;
  weft_status_t *s = int_out(c, -int_in(c, 0));
  c->done(c, s);
  return NULL;
}

static void neg(weft_kernel_ctx_t *c) {
  pthread_t t;
  if (pthread_create(&t, NULL, end_elsewhere, c) != 0) {
    c->done(c, WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread"));
  } else {
    pthread_detach(t);
  }
}

static weft_status_t *abs_or_fail(weft_kernel_ctx_t *c) {
  if (int_in(c, 0) < 0) return WEFT_ERROR(INVALID_ARGUMENT, "negative");
  return int_out(c, int_in(c, 0));
}

static weft_status_t *unavailable(weft_kernel_ctx_t *c) {
  (void)c;
  return WEFT_ERROR(UNAVAILABLE, "away");
}

static weft_status_t *nothing(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static weft_status_t *wrong_type(weft_kernel_ctx_t *c) {
  bool value = true;
  return weft_tensor_scalar(WEFT_BOOL, &value, &c->outputs[0].tensor);
}

static weft_status_t *variable(weft_kernel_ctx_t *c) {
  weft_object_retain(&test_variable->object);
  c->outputs[0].ref = test_variable;
  return NULL;
}

static const weft_kernel_t kernels[] = {
    {.op = "Add", .compute = add},
    {.op = "Less", .compute = less},
    {.op = "Mul", .compute = mul},
    {.op = "Square", .compute = square},
    {.op = "Neg", .compute_async = neg},
    {.op = "Abs", .compute = abs_or_fail},
    {.op = "Sign", .compute = unavailable},
    {.op = "Maximum", .compute = nothing},
    {.op = "VariableV2", .compute = variable},
    {.op = "Minimum", .compute = wrong_type},
    {0},
};
static const weft_kernel_t *const families[] = {kernels, NULL};
static const weft_kernel_table_t table = {.device_type = "CPU", .families = families};

/* ---- nodes ---- */

static void must(weft_status_t *s) {
  if (s == NULL) return;
  fprintf(stderr, "test graph: %s\n", weft_status_message(s));
  exit(2);
}

static weft_node_t *add_node(harness_t *h, const char *op, const char *name, int n,
                             const weft_output_t *inputs, const weft_named_attr_t *attrs, int num_attrs) {
  weft_node_t *node = NULL;
  weft_node_spec_t spec = {.name = weft_str(name),
                           .op = weft_str(op),
                           .inputs = inputs,
                           .num_inputs = n,
                           .attrs = attrs,
                           .num_attrs = num_attrs};
  must(weft_graph_add(h->g, &spec, &node));
  return node;
}

#define TYPE(attr, t)                                       \
  {                                                         \
    WEFT_STR(attr), { .kind = WEFT_ATTR_TYPE, .type = (t) } \
  }
#define INT(attr, v)                                    \
  {                                                     \
    WEFT_STR(attr), { .kind = WEFT_ATTR_INT, .i = (v) } \
  }
#define STRING(attr, v)                                            \
  {                                                                \
    WEFT_STR(attr), { .kind = WEFT_ATTR_STRING, .s = weft_str(v) } \
  }

static weft_node_t *add_scalar(harness_t *h, const char *name, weft_dtype_t dtype, const void *value) {
  weft_tensor_t *t = NULL;
  must(weft_tensor_scalar(dtype, value, &t));
  weft_named_attr_t attrs[] = {TYPE("dtype", dtype),
                               {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}}};
  weft_node_t *n = add_node(h, "Const", name, 0, NULL, attrs, 2);
  weft_tensor_release(t);
  return n;
}

weft_node_t *add_const(harness_t *h, const char *name, int32_t value) {
  return add_scalar(h, name, WEFT_I32, &value);
}
weft_node_t *add_bool(harness_t *h, const char *name, bool value) {
  return add_scalar(h, name, WEFT_BOOL, &value);
}

weft_node_t *add_vector(harness_t *h, const char *name) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(1);
  must(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  *(int32_t *)t->data = 1;
  weft_named_attr_t attrs[] = {TYPE("dtype", WEFT_I32),
                               {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}}};
  weft_node_t *n = add_node(h, "Const", name, 0, NULL, attrs, 2);
  weft_tensor_release(t);
  return n;
}

weft_node_t *add_op(harness_t *h, const char *op, const char *name, int n, const weft_output_t *inputs) {
  return add_node(h, op, name, n, inputs, NULL, 0);
}

weft_node_t *add_enter(harness_t *h, const char *name, weft_output_t in, const char *frame, bool is_constant,
                       int parallel) {
  weft_named_attr_t attrs[] = {STRING("frame_name", frame),
                               INT("parallel_iterations", parallel),
                               {WEFT_STR("is_constant"), {.kind = WEFT_ATTR_BOOL, .b = is_constant}}};
  return add_node(h, "Enter", name, 1, &in, attrs, 3);
}

weft_node_t *add_merge(harness_t *h, const char *name, weft_output_t a, weft_output_t b) {
  weft_named_attr_t attrs[] = {INT("N", 2)};
  return add_node(h, "Merge", name, 2, (weft_output_t[]){a, b}, attrs, 1);
}

weft_node_t *add_variable(harness_t *h, const char *name) {
  weft_shape_t scalar = WEFT_SCALAR;
  weft_named_attr_t attrs[] = {TYPE("dtype", WEFT_I32),
                               {WEFT_STR("shape"), {.kind = WEFT_ATTR_SHAPE, .shape = &scalar}}};
  return add_node(h, "VariableV2", name, 0, NULL, attrs, 2);
}

#define DEVICE "/job:localhost/replica:0/task:0/device:CPU:0"

weft_node_t *add_send(harness_t *h, const char *name, const char *key, weft_output_t in) {
  weft_named_attr_t attrs[] = {STRING("tensor_name", key), STRING("send_device", DEVICE),
                               INT("send_device_incarnation", 1), STRING("recv_device", DEVICE)};
  return add_node(h, "_Send", name, 1, &in, attrs, 4);
}

weft_node_t *add_recv(harness_t *h, const char *name, const char *key) {
  weft_named_attr_t attrs[] = {STRING("tensor_name", key), STRING("send_device", DEVICE),
                               INT("send_device_incarnation", 1), STRING("recv_device", DEVICE),
                               TYPE("tensor_type", WEFT_I32)};
  return add_node(h, "_Recv", name, 0, NULL, attrs, 5);
}

weft_node_t *add_arg(harness_t *h, const char *name, int index) {
  weft_named_attr_t attrs[] = {INT("index", index), TYPE("T", WEFT_I32)};
  return add_node(h, "_Arg", name, 0, NULL, attrs, 2);
}

void add_control(harness_t *h, weft_node_t *from, weft_node_t *to) {
  must(weft_graph_add_control(h->g, from, to));
}

int add_fetch(harness_t *h, weft_output_t o) {
  char name[32];
  snprintf(name, sizeof name, "result_%d", h->num_results);
  weft_named_attr_t attrs[] = {INT("index", h->num_results)};
  add_node(h, "_Retval", name, 1, &o, attrs, 1);
  return h->num_results++;
}

/* ---- running ---- */

void harness_init(harness_t *h, int num_threads) {
  *h = (harness_t){.step_id = 1};
  atomic_store(&test_in_place, 0);
  atomic_store(&test_not_in_place, 0);
  atomic_store(&test_runs, 0);
  must(weft_graph_create(&h->g));
  if (num_threads > 0) must(weft_thread_pool_create("test", num_threads, &h->pool));
  test_devices_init(&h->devices, h->pool, NULL);
  h->device = h->devices.all[0];
  must(weft_variable_create(WEFT_STR("v"), WEFT_I32, &WEFT_SCALAR, &test_variable));
}

static void drop_results(harness_t *h) {
  for (int i = 0; i < MAX_RESULTS; i++) {
    weft_tensor_release(h->results[i]);
    h->results[i] = NULL;
  }
  weft_rendezvous_release(h->rendezvous);
  weft_canceller_release(h->canceller);
  h->rendezvous = NULL;
  h->canceller = NULL;
}

void harness_deinit(harness_t *h) {
  drop_results(h);
  for (int i = 0; i < MAX_RESULTS; i++) weft_tensor_release(h->args[i]);
  weft_plan_release(h->plan);
  weft_graph_destroy(h->g);
  weft_thread_pool_destroy(h->pool);
  test_devices_deinit(&h->devices);
  weft_object_release(&test_variable->object);
  test_variable = NULL;
}

weft_status_t *harness_compile(harness_t *h) {
  if (h->plan != NULL) return NULL;
  test_devices_place(&h->devices, h->g, &table);
  weft_plan_options_t options = {.device = h->device,
                                 .devices = h->devices.all,
                                 .num_devices = h->devices.n,
                                 .session = WEFT_STR("test"),
                                 .kernels = &table,
                                 .only_schedules = h->only_schedules};
  return weft_plan_create(h->g, &options, &h->plan);
}

weft_run_options_t harness_options(harness_t *h) {
  drop_results(h);
  must(weft_local_rendezvous_create(0, &h->rendezvous));
  h->canceller = weft_canceller_create(NULL);
  return (weft_run_options_t){
      .step = {.id = h->step_id++,
               .rendezvous = h->rendezvous,
               .canceller = h->canceller,
               .args = h->args,
               .num_args = MAX_RESULTS,
               .results = h->results,
               .num_results = MAX_RESULTS},
      .run_inline = true,
  };
}

weft_status_t *harness_run(harness_t *h) {
  WEFT_RETURN_IF_ERROR(harness_compile(h));
  weft_run_options_t options = harness_options(h);
  return weft_plan_run_sync(h->plan, &options);
}

int32_t result(const harness_t *h, int i) {
  return h->results[i] == NULL ? INT32_MIN : *(const int32_t *)h->results[i]->data;
}
