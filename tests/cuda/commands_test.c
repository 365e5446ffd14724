/* tests/cuda/commands_test.c - what the executor records on the CUDA device and replays.
 *
 * Each session runs many steps on the emulated device, and beside it one on the CPU; each step gives the same
 * on both, whatever changed since the step that was recorded: values, shapes, numbers in the host's memory,
 * addresses, predicates.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/both.h"
#include "tests/cuda/fake/fake.h"

static const TF_Output none = {NULL, 0};
static const char GPU[] = "/device:GPU:0", CPU[] = "/device:CPU:0";
enum { WIDTH = 6, MAX_FEEDS = 3, MAX_FETCHES = 4 };

/* ---- what the driver has done ---- */

static void *driver_function(const char *name) {
  void *driver = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

/* -1: the driver is a real one, which does not say. */
static long launches(void) {
  weft_fake_cuda_calls_fn *calls;
  *(void **)&calls = driver_function(WEFT_FAKE_CUDA_CALLS);
  return calls == NULL ? -1 : calls("cuGraphLaunch");
}
static bool has_launched(long before, long num) { return before < 0 || launches() - before >= num; }

static weft_fake_cuda_live_t live(void) {
  weft_fake_cuda_live_t out = {0};
  weft_fake_cuda_live_fn *find;
  *(void **)&find = driver_function(WEFT_FAKE_CUDA_LIVE);
  if (find != NULL) find(&out);
  return out;
}

/* ---- graphs ---- */

static TF_Output node(world_t *w, const char *device, const char *op, const char *name, TF_Output x,
                      TF_Output y) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, x);
  if (y.oper != NULL) TF_AddInput(d, y);
  if (strcmp(op, "Sum") == 0) TF_SetAttrBool(d, "keep_dims", 1);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Output weights(world_t *w, const char *name, int seed) {
  const int64_t dims[] = {WIDTH, WIDTH};
  return constant(w, w->g, name, weft_both_values(TF_FLOAT, 2, dims, seed));
}

/* Some layers of [n, WIDTH]: products and nodes of other kinds, with a value that is used twice. */
static TF_Output layers(world_t *w, const char *device, const char *prefix, TF_Output x, int n) {
  for (int i = 0; i < n; i++) {
    char name[6][32];
    static const char *const ops[] = {"w", "product", "softmax", "sum", "tanh", "mul"};
    for (int k = 0; k < 6; k++) snprintf(name[k], sizeof name[k], "%s%s%d", prefix, ops[k], i);
    const TF_Output product = node(w, device, "MatMul", name[1], x, weights(w, name[0], i + 1)),
                    softmax = node(w, device, "Softmax", name[2], product, none),
                    tanh = node(w, device, "Tanh", name[4], product, none),
                    sum = node(w, device, "AddV2", name[3], softmax, tanh);
    x = node(w, device, "Mul", name[5], sum, softmax);
  }
  return x;
}

/* What a test runs: a graph, and what a step of it is fed. */
typedef struct side {
  world_t w;
  TF_Output feeds[MAX_FEEDS], fetches[MAX_FETCHES];
  TF_Operation *init, *update; /* run before the first step, and after each; NULL: nothing */
  int num_feeds, num_fetches;
} side_t;
typedef void build_fn(side_t *s, const char *device);

static void open_side(side_t *s, build_fn *build, const char *device) {
  memset(s, 0, sizeof *s);
  world_open(&s->w);
  build(s, device);
  if (s->init == NULL) return;
  run_target(&s->w, s->init);
  ASSERT_OK(&s->w);
}

typedef struct pair {
  side_t here, there;
} pair_t;

static void open_pair(pair_t *p, build_fn *build) {
  open_side(&p->here, build, GPU);
  open_side(&p->there, build, CPU);
}
static void close_pair(pair_t *p) {
  world_close(&p->here.w);
  world_close(&p->there.w);
}

/* How many elements differ. */
static int difference(const TF_Tensor *a, const TF_Tensor *b) {
  if (TF_NumDims(a) != TF_NumDims(b) || TF_TensorByteSize(a) != TF_TensorByteSize(b)) return -1;
  int wrong = 0;
  for (int64_t i = 0; i < TF_TensorElementCount(a); i++)
    wrong += !(fabsf(float_at(a, (int)i) - float_at(b, (int)i)) <= 1e-4f * (1 + fabsf(float_at(b, (int)i))));
  return wrong;
}

/* Runs a step on both. The values are deleted. */
static void step(pair_t *p, TF_Tensor *const *values) {
  TF_Tensor *here[MAX_FETCHES] = {NULL}, *there[MAX_FETCHES] = {NULL};
  const int n = p->here.num_fetches;
  run(&p->here.w, p->here.feeds, values, p->here.num_feeds, p->here.fetches, here, n);
  ASSERT_OK(&p->here.w);
  run(&p->there.w, p->there.feeds, values, p->there.num_feeds, p->there.fetches, there, n);
  ASSERT_OK(&p->there.w);
  for (int i = 0; i < n; i++) {
    CU_ASSERT_EQUAL(difference(here[i], there[i]), 0);
    TF_DeleteTensor(here[i]);
    TF_DeleteTensor(there[i]);
  }
  for (int i = 0; i < p->here.num_feeds; i++) TF_DeleteTensor(values[i]);
  if (p->here.update == NULL) return;
  run_target(&p->here.w, p->here.update);
  run_target(&p->there.w, p->there.update);
  ASSERT_OK(&p->here.w);
}

static TF_Tensor *rows(int n, int seed) {
  const int64_t dims[] = {n, WIDTH};
  return weft_both_values(TF_FLOAT, 2, dims, seed);
}

static void fetch(side_t *s, TF_Output y) { s->fetches[s->num_fetches++] = y; }
static TF_Output feed(side_t *s, const char *name, TF_DataType type) {
  return s->feeds[s->num_feeds++] = placeholder(&s->w, s->w.g, name, type);
}

/* ---- tests ---- */

static void build_plain(side_t *s, const char *device) {
  const TF_Output x = feed(s, "x", TF_FLOAT), y = layers(&s->w, device, "a", x, 3);
  fetch(s, y);
  fetch(s, layers(&s->w, device, "b", y, 2));
}

static void other_values_give_their_own_results(void) {
  pair_t p;
  open_pair(&p, build_plain);
  const long before = launches();
  for (int i = 0; i < 12; i++) step(&p, (TF_Tensor *[]){rows(5, i)});
  CU_ASSERT(has_launched(before, 12)); /* two recordings, replayed from the third step on */
  CU_ASSERT(live().graphs >= 2);
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

static void other_shapes_give_their_own_results(void) {
  pair_t p;
  open_pair(&p, build_plain);
  const long before = launches();
  for (int i = 0; i < 40; i++) step(&p, (TF_Tensor *[]){rows(1 + i % 3, i)});
  CU_ASSERT(has_launched(before, 40));
  for (int i = 0; i < 30; i++) step(&p, (TF_Tensor *[]){rows(1 + i * 7 % 10, i)}); /* more than are kept */
  step(&p, (TF_Tensor *[]){rows(0, 0)});
  step(&p, (TF_Tensor *[]){rows(0, 0)});
  step(&p, (TF_Tensor *[]){rows(0, 0)});
  step(&p, (TF_Tensor *[]){rows(0, 0)});
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

/* The axis and the shape are read when the nodes enqueue. */
static void build_numbers(side_t *s, const char *device) {
  const TF_Output x = feed(s, "x", TF_FLOAT), axis = feed(s, "axis", TF_INT32),
                  shape = feed(s, "shape", TF_INT32);
  const TF_Output y = layers(&s->w, device, "a", x, 1), sum = node(&s->w, device, "Sum", "sum_of", y, axis);
  const TF_Output all = node(&s->w, device, "AddV2", "all", y, sum);
  const TF_Output shaped = node(&s->w, device, "Reshape", "shaped", all, shape);
  fetch(s, node(&s->w, device, "Softmax", "of_shaped", shaped, none));
  fetch(s, shaped);
}

static void numbers_in_the_hosts_memory_are_compared(void) {
  static const int32_t shapes[][2] = {{WIDTH, WIDTH}, {4, 9}, {9, 4}, {36, 1}};
  const int64_t two[] = {2};
  pair_t p;
  open_pair(&p, build_numbers);
  const long before = launches();
  for (int i = 0; i < 48; i++) {
    const int32_t *shape = shapes[i < 16 ? 0 : i % 4];
    step(&p, (TF_Tensor *[]){rows(WIDTH, i), new_int(i < 16 ? i / 8 : i / 2 % 2), new_ints(1, two, shape)});
  }
  CU_ASSERT(has_launched(before, 1));
  close_pair(&p);
}

/* The rows of a segment are read on the host, and go to the device as bytes of the recording. */
static void build_segments(side_t *s, const char *device) {
  static const int32_t rows_of[] = {0, 0, 1, 3, 3, 3};
  const int64_t six[] = {6};
  world_t *w = &s->w;
  const TF_Output x = feed(s, "x", TF_FLOAT), ids = feed(s, "ids", TF_INT32);
  const TF_Output y = layers(w, device, "a", x, 1),
                  sums = node(w, device, "SegmentSum", "sums", y,
                              constant(w, w->g, "rows", new_ints(1, six, rows_of))),
                  more = node(w, device, "SegmentSum", "more", layers(w, device, "b", sums, 1), ids);
  fetch(s, layers(w, device, "c", more, 1));
}

static void numbers_that_go_to_the_device_stay_with_the_recording(void) {
  static const int32_t of[][4] = {{0, 1, 2, 3}, {0, 0, 0, 1}, {0, 0, 2, 2}};
  const int64_t four[] = {4};
  pair_t p;
  open_pair(&p, build_segments);
  for (int i = 0; i < 40; i++)
    step(&p, (TF_Tensor *[]){rows(6, i), new_ints(1, four, of[i < 8 ? 0 : i % 3])});
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

/* Layers on both sides of a predicate; one of them is dead. */
static TF_Output conditional(side_t *s, const char *device, const char *prefix, TF_Output x,
                             TF_Output which) {
  char name[3][16];
  static const char *const parts[] = {"switch", "no", "yes"};
  for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%s%s", prefix, parts[i]);
  TF_Operation *o = node(&s->w, device, "Switch", name[0], x, which).oper;
  const TF_Output no = layers(&s->w, device, name[1], (TF_Output){o, 0}, 1),
                  yes = layers(&s->w, device, name[2], (TF_Output){o, 1}, 2);
  snprintf(name[0], sizeof name[0], "%smerge", prefix);
  TF_OperationDescription *d = TF_NewOperation(s->w.g, "Merge", name[0]);
  TF_AddInputList(d, (TF_Output[]){no, yes}, 2);
  TF_SetDevice(d, device);
  o = TF_FinishOperation(d, s->w.s);
  ASSERT_OK(&s->w);
  return (TF_Output){o, 0};
}

/* The second one is asked behind the first one's end, as in its gradient. */
static void build_switched(side_t *s, const char *device) {
  const TF_Output x = feed(s, "x", TF_FLOAT), which = feed(s, "which", TF_BOOL);
  const TF_Output first = conditional(s, device, "f", layers(&s->w, device, "a", x, 1), which);
  const TF_Output second = conditional(s, device, "s", layers(&s->w, device, "b", first, 1), which);
  fetch(s, layers(&s->w, device, "c", second, 1));
}

static void sides_of_a_predicate_stay_apart(void) {
  pair_t p;
  open_pair(&p, build_switched);
  const long before = launches();
  for (int i = 0; i < 24; i++) {
    TF_Tensor *which = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
    *(unsigned char *)TF_TensorData(which) = i % 3 == 0 || i > 16;
    step(&p, (TF_Tensor *[]){rows(4, i), which});
  }
  CU_ASSERT(has_launched(before, 1));
  close_pair(&p);
}

static TF_Output variable(side_t *s, const char *device, TF_DataType type) {
  TF_OperationDescription *d = TF_NewOperation(s->w.g, "VarHandleOp", "v");
  const int64_t dims[] = {WIDTH, WIDTH};
  TF_SetAttrType(d, "dtype", type);
  TF_SetAttrShape(d, "shape", dims, 2);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, s->w.s);
  ASSERT_OK(&s->w);
  return (TF_Output){o, 0};
}

static TF_Output read_variable(side_t *s, const char *device, const char *name, TF_Output v) {
  TF_OperationDescription *d = TF_NewOperation(s->w.g, "ReadVariableOp", name);
  TF_AddInput(d, v);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, s->w.s);
  ASSERT_OK(&s->w);
  return (TF_Output){o, 0};
}

/* A variable that is read by a buffer and changed by what that makes. */
static void build_trained(side_t *s, const char *device) {
  world_t *w = &s->w;
  const TF_Output x = feed(s, "x", TF_FLOAT), v = variable(s, device, TF_FLOAT),
                  value = read_variable(s, device, "value", v);
  const TF_Output y = node(w, device, "MatMul", "y", x, value), z = layers(w, device, "a", y, 2);
  TF_OperationDescription *d = TF_NewOperation(w->g, "MatMul", "gradient");
  TF_AddInput(d, x);
  TF_AddInput(d, z);
  TF_SetAttrBool(d, "transpose_a", 1);
  TF_SetDevice(d, device);
  TF_Operation *gradient = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  s->init = node(w, device, "AssignVariableOp", "init", v, weights(w, "first", 9)).oper;
  TF_Operation *sub = node(w, device, "AssignSubVariableOp", "sub", v, (TF_Output){gradient, 0}).oper;
  d = TF_NewOperation(w->g, "Identity", "loss");
  TF_AddInput(d, z);
  TF_AddControlInput(d, sub);
  TF_SetDevice(d, device);
  fetch(s, (TF_Output){TF_FinishOperation(d, w->s), 0});
  ASSERT_OK(w);
}

static void a_variable_is_read_and_changed(void) {
  pair_t p;
  open_pair(&p, build_trained);
  const long before = launches();
  for (int i = 0; i < 20; i++) step(&p, (TF_Tensor *[]){rows(7, i)});
  CU_ASSERT(has_launched(before, 15));
  close_pair(&p);
}

/* A variable of TensorFlow 1: a buffer takes its value by reference. */
static void build_reference(side_t *s, const char *device) {
  world_t *w = &s->w;
  const int64_t dims[] = {WIDTH, WIDTH};
  const TF_Output x = feed(s, "x", TF_FLOAT);
  TF_OperationDescription *d = TF_NewOperation(w->g, "VariableV2", "v");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", dims, 2);
  TF_SetDevice(d, device);
  const TF_Output v = {TF_FinishOperation(d, w->s), 0};
  ASSERT_OK(w);
  const TF_Output y = layers(w, device, "a", node(w, device, "MatMul", "y", x, v), 1);
  s->init = node(w, device, "Assign", "init", v, weights(w, "first", 9)).oper;
  s->update = node(w, device, "AssignAdd", "update", v, weights(w, "more", 4)).oper;
  fetch(s, y);
}

static void a_reference_gives_the_value_of_now(void) {
  pair_t p;
  open_pair(&p, build_reference);
  const long before = launches();
  for (int i = 0; i < 10; i++) step(&p, (TF_Tensor *[]){rows(7, i)});
  CU_ASSERT(has_launched(before, 7));
  close_pair(&p);
}

/* A variable keeps the output of the last step, which the next one reads. */
static void build_kept(side_t *s, const char *device) {
  world_t *w = &s->w;
  const TF_Output x = feed(s, "x", TF_FLOAT), v = variable(s, device, TF_FLOAT),
                  value = read_variable(s, device, "value", v);
  const TF_Output y = layers(w, device, "a", node(w, device, "MatMul", "y", x, value), 1);
  s->init = node(w, device, "AssignVariableOp", "init", v, weights(w, "first", 9)).oper;
  TF_Operation *keeps = node(w, device, "AssignVariableOp", "keeps", v, y).oper;
  TF_OperationDescription *d = TF_NewOperation(w->g, "Identity", "result");
  TF_AddInput(d, y);
  TF_AddControlInput(d, keeps);
  TF_SetDevice(d, device);
  fetch(s, (TF_Output){TF_FinishOperation(d, w->s), 0});
  ASSERT_OK(w);
}

static void an_output_that_is_kept_stays_as_it_is(void) {
  pair_t p;
  open_pair(&p, build_kept);
  for (int i = 0; i < 30; i++) step(&p, (TF_Tensor *[]){rows(WIDTH, i)});
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

/* A loop whose body is recorded. */
static void build_loop(side_t *s, const char *device) {
  world_t *w = &s->w;
  const TF_Output x = feed(s, "x", TF_FLOAT), n = feed(s, "n", TF_INT32),
                  zero = constant(w, w->g, "zero", new_int(0));
  TF_Output in[] = {zero, x, n};
  TF_WhileParams params = TF_NewWhile(w->g, in, 3, w->s);
  ASSERT_OK(w);
  world_t cond = {.g = params.cond_graph, .s = w->s}, body = {.g = params.body_graph, .s = w->s};
  params.cond_output = binary(&cond, cond.g, "Less", "less", params.cond_inputs[0], params.cond_inputs[2]);
  params.body_outputs[0] = binary(&body, body.g, "AddV2", "next", params.body_inputs[0],
                                  constant(&body, body.g, "one", new_int(1)));
  params.body_outputs[1] = layers(&body, device, "a", params.body_inputs[1], 1);
  params.body_outputs[2] = params.body_inputs[2];
  params.name = "loop";
  TF_Output out[3];
  TF_FinishWhile(&params, w->s, out);
  ASSERT_OK(w);
  fetch(s, layers(w, device, "b", out[1], 1));
}

static void iterations_of_a_loop_are_replayed(void) {
  pair_t p;
  open_pair(&p, build_loop);
  const long before = launches();
  for (int i = 0; i < 10; i++) step(&p, (TF_Tensor *[]){rows(3, i), new_int(i % 6)});
  CU_ASSERT(has_launched(before, 1));
  close_pair(&p);
}

/* An iteration reads what the last one made, so that two recordings take turns. */
static void a_long_loop_is_replayed_at_each_iteration(void) {
  enum { NUM = 60 };
  pair_t p;
  open_pair(&p, build_loop);
  for (int i = 0; i < 3; i++) step(&p, (TF_Tensor *[]){rows(3, i), new_int(NUM)});
  const long before = launches();
  for (int i = 0; i < 3; i++) step(&p, (TF_Tensor *[]){rows(3, 5 + i), new_int(NUM)});
  CU_ASSERT(has_launched(before, 3 * NUM));
  CU_ASSERT(live().graphs <= 4); /* two of the body, one or two of what follows the loop */
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

/* The values of a variable lie in two recordings by turns. */
static void an_output_that_the_next_step_reads_is_replayed(void) {
  pair_t p;
  open_pair(&p, build_kept);
  for (int i = 0; i < 10; i++) step(&p, (TF_Tensor *[]){rows(WIDTH, i)});
  const long before = launches();
  for (int i = 0; i < 20; i++) step(&p, (TF_Tensor *[]){rows(WIDTH, i)});
  CU_ASSERT(has_launched(before, 20));
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

typedef struct runner {
  side_t *side;
  TF_Tensor *in[8], *want[8]; /* by what is fed */
  int first, wrong;
} runner_t;

static void *run_often(void *arg) {
  runner_t *r = arg;
  TF_Status *status = TF_NewStatus();
  for (int i = 0; i < 40; i++) {
    TF_Tensor *out[2] = {NULL};
    const int k = (r->first + i) % 4;
    TF_SessionRun(r->side->w.session, NULL, r->side->feeds, &r->in[k], 1, r->side->fetches, out, 2, NULL, 0,
                  NULL, status);
    r->wrong += TF_GetCode(status) != TF_OK || difference(out[0], r->want[2 * k]) != 0 ||
                difference(out[1], r->want[2 * k + 1]) != 0;
    TF_DeleteTensor(out[0]);
    TF_DeleteTensor(out[1]);
  }
  TF_DeleteStatus(status);
  return NULL;
}

static void steps_at_once_do_not_mix(void) {
  pair_t p;
  open_pair(&p, build_plain);
  runner_t runners[4];
  pthread_t threads[4];
  TF_Tensor *in[4], *want[8];
  step(&p, (TF_Tensor *[]){rows(5, 0)});
  for (int k = 0; k < 4; k++) {
    in[k] = rows(5 + k / 2, k);
    run(&p.there.w, p.there.feeds, &in[k], 1, p.there.fetches, &want[2 * k], 2);
  }
  for (int t = 0; t < 4; t++) {
    runners[t] = (runner_t){.side = &p.here, .first = t};
    memcpy(runners[t].in, in, sizeof in);
    memcpy(runners[t].want, want, sizeof want);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, run_often, &runners[t]), 0);
  }
  for (int t = 0; t < 4; t++) {
    pthread_join(threads[t], NULL);
    CU_ASSERT_EQUAL(runners[t].wrong, 0);
  }
  for (int k = 0; k < 4; k++) TF_DeleteTensor(in[k]);
  for (int k = 0; k < 8; k++) TF_DeleteTensor(want[k]);
  close_pair(&p);
  CU_ASSERT_EQUAL(live().graphs, 0);
}

/* In a process of its own, because the driver reads its options once. `works`: recordings are replayed. */
static void child(const char *options, const char *graphs, bool works) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    pair_t p;
    const unsigned failures = CU_get_number_of_failures();
    setenv("WEFT_FAKE_CUDA", options, 1);
    setenv("WEFT_CUDA_GRAPHS", graphs, 1);
    open_pair(&p, build_plain);
    for (int i = 0; i < 8; i++) step(&p, (TF_Tensor *[]){rows(5, i)});
    const bool launched = launches() > 0;
    close_pair(&p);
    const weft_fake_cuda_live_t left = live();
    const bool ok =
        launched == works && left.graphs == 0 && left.faults == 0 && CU_get_number_of_failures() == failures;
    if (!ok) printf("%s: launches %d, graphs %d, %s\n", options, launched, left.graphs, left.fault);
    fflush(stdout);
    _exit(ok ? 0 : 1);
  }
  int status = 1;
  CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
  CU_ASSERT_EQUAL(status, 0);
}

static void what_cannot_be_recorded_runs_node_by_node(void) {
  if (strstr(getenv("WEFT_CUDA_DRIVER"), "emulated") == NULL)
    return; /* a real driver fails only when it does */
  child("late_us=20", "1", true);
  child("late_us=20", "0", false);
  child("late_us=20,fail=cuStreamBeginCapture_v2@*:801", "1", false);
  child("late_us=20,fail=cuStreamBeginCapture_v2@1:801", "1", true); /* of two buffers */
  child("late_us=20,fail=cuStreamEndCapture@*:901", "1", false);
  child("late_us=20,fail=cuGraphInstantiateWithFlags@*:2", "1", false);
  child("late_us=20,fail=cuGraphInstantiateWithFlags@2:801", "1", true);
}

/* What only the executor makes is no op of a client's graph. */
static void a_command_buffer_of_a_client_is_refused(void) {
  const char *const devices[] = {GPU, CPU};
  for (int i = 0; i < 2; i++) {
    world_t w;
    world_open(&w);
    const TF_Output x = constant(&w, w.g, "x", new_float(1));
    TF_OperationDescription *d = TF_NewOperation(w.g, "_WeftCommands", "y");
    TF_AddInputList(d, &x, 1);
    TF_SetAttrTypeList(d, "Tout", (TF_DataType[]){TF_FLOAT}, 1);
    TF_SetDevice(d, devices[i]);
    const TF_Output y = {TF_FinishOperation(d, w.s), 0};
    if (TF_GetCode(w.s) == TF_OK) CU_ASSERT_PTR_NULL(run1(&w, none, NULL, y));
    ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "_WeftCommands");
    world_close(&w);
  }
}

static const CU_TestInfo tests[] = {
    {"what cannot be recorded runs node by node", what_cannot_be_recorded_runs_node_by_node},
    {"other values give their own results", other_values_give_their_own_results},
    {"other shapes give their own results", other_shapes_give_their_own_results},
    {"numbers in the host's memory are compared", numbers_in_the_hosts_memory_are_compared},
    {"numbers that go to the device stay with the recording",
     numbers_that_go_to_the_device_stay_with_the_recording},
    {"sides of a predicate stay apart", sides_of_a_predicate_stay_apart},
    {"a variable is read and changed", a_variable_is_read_and_changed},
    {"a reference gives the value of now", a_reference_gives_the_value_of_now},
    {"an output that is kept stays as it is", an_output_that_is_kept_stays_as_it_is},
    {"iterations of a loop are replayed", iterations_of_a_loop_are_replayed},
    {"a long loop is replayed at each iteration", a_long_loop_is_replayed_at_each_iteration},
    {"an output that the next step reads is replayed", an_output_that_the_next_step_reads_is_replayed},
    {"steps at once do not mix", steps_at_once_do_not_mix},
    {"a command buffer of a client is refused", a_command_buffer_of_a_client_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA command buffers", tests);
}
