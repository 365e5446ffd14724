/* tests/device/reference_test.c - variables behind references on a device with a memory of its own.
 *
 * Each graph runs with its variables on LATE:0 and on CPU:0; the numbers must be the same. A graph names its
 * device, so it is refused where the device has no kernel.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/device/late/late.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

#define CPU "/device:CPU:0"
#define LATE "/device:LATE:0"
#define VERSION "versions{producer:1882} "
#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define TYPE(attr, d) "attr{key:\"" attr "\" value{type:" d "}} "
#define INT(attr, i) "attr{key:\"" attr "\" value{i:" i "}} "
#define T TYPE("T", "DT_FLOAT")
#define DTYPE TYPE("dtype", "DT_FLOAT")
#define FLOAT(name, value)    \
  NODE(name, "Const", "", "", \
       DTYPE "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:" value "}}} ")
#define INT32(name, value)                                                                             \
  NODE(name, "Const", "", "",                                                                          \
       TYPE("dtype",                                                                                   \
            "DT_INT32") "attr{key:\"value\" value{tensor{dtype:DT_INT32 tensor_shape{} int_val:" value \
                        "}}} ")
#define WORD(name, text) \
  NODE(name, "Const", "", "",                                                                             \
       TYPE("dtype", "DT_STRING") "attr{key:\"value\" value{tensor{dtype:DT_STRING tensor_shape{dim{size:1}} " \
                                  "string_val:\"" text "\"}}} ")
#define PLACEHOLDER(name, type) NODE(name, "Placeholder", "", "", TYPE("dtype", type))
/* A variable of 1000 numbers, and its initialiser "<name>_init", which makes them `value`. */
#define VARIABLE(name, value, D)                                                             \
  NODE(name, "VariableV2", "", D, DTYPE "attr{key:\"shape\" value{shape{dim{size:1000}}}} ") \
  FLOAT(name "_value", value)                                                                \
  NODE(name "_fill", "Fill", IN("dims") IN(name "_value"), D, T)                             \
  NODE(name "_init", "Assign", IN(name) IN(name "_fill"), D, T)
#define DIMS \
  NODE("dims", "Const", "", "", \
       TYPE("dtype", "DT_INT32") "attr{key:\"value\" value{tensor{dtype:DT_INT32 tensor_shape{dim{size:1}} int_val:1000}}} ")
#define READ(name, ref) NODE(name, "Identity", IN(ref), "", T)

static void late_devices(uint64_t seed) {
  weft_late_configure(&(weft_late_options_t){.num_devices = 1, .max_delay_us = 300, .seed = seed});
}

/* Runs the initialisers, then `run` so often; *out: the last value of its fetch. */
static void train(const char *graph, const char *const *inits, const weft_test_run_t *run, int steps,
                  double *out) {
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s = weft_test_opened(weft_test_cluster_master(c, 1), graph);
  for (int i = 0; inits[i] != NULL; i++) weft_test_target(&s, inits[i]);
  for (int i = 0; i < steps; i++) weft_test_expect(weft_test_run(&s, run, out), WEFT_OK, "");
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_cluster_destroy(c);
}

/* ---- updates ---- */

/* Each update is given the reference that the one before it passes on; the gradient reads the variable. */
#define UPDATES(D)                                                                                        \
  VERSION DIMS VARIABLE("v", "1", D) VARIABLE("slot", "0", D) VARIABLE("m", "0", D) VARIABLE("n", "0", D) \
      FLOAT("rate", "0.1") FLOAT("tenth", "0.9") FLOAT("tiny", "0.001") READ("now", "v")                  \
          NODE("g", "Mul", IN("now") IN("rate"), D, T)                                                    \
              NODE("momentum", "ApplyMomentum", IN("v") IN("slot") IN("rate") IN("g") IN("tenth"), D, T)  \
                  NODE("more", "AssignAdd", IN("momentum") IN("g"), D, T)                                 \
                      NODE("less", "AssignSub", IN("more") IN("slot"), D, T)                              \
                          NODE("descent", "ApplyGradientDescent", IN("less") IN("rate") IN("g"), D, T)    \
                              NODE("adam", "ApplyAdam",                                                   \
                                   IN("descent") IN("m") IN("n") IN("tenth") IN("tenth") IN("rate")       \
                                       IN("tenth") IN("tenth") IN("tiny") IN("g"),                        \
                                   D, T) READ("read", "adam")

static void updates_give_the_numbers_of_the_cpu(void) {
  static const char *const inits[] = {"v_init", "slot_init", "m_init", "n_init", NULL};
  const weft_test_run_t run = {.fetches = {"read:0"}};
  double cpu = 0, late = 0;
  train(UPDATES(CPU), inits, &run, 20, &cpu);
  for (uint64_t seed = 0; seed < 5; seed++) {
    late_devices(seed);
    train(UPDATES(LATE), inits, &run, 20, &late);
    CU_ASSERT_EQUAL(late, cpu);
  }
  CU_ASSERT_NOT_EQUAL(cpu, 1);
}

#define WRONG(D)                                                                                    \
  VERSION DIMS VARIABLE("v", "1", D) PLACEHOLDER("x", "DT_FLOAT")                                   \
      NODE("more", "AssignAdd", IN("v") IN("x"), D, T) NODE("set", "Assign", IN("v") IN("x"), D, T) \
          READ("read", "v")

/* What is wrong with arguments is found before any work is enqueued: the device goes on. */
static void wrong_shapes_are_refused_and_the_device_goes_on(void) {
  late_devices(1);
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s = weft_test_opened(weft_test_cluster_master(c, 1), WRONG(LATE));
  const weft_test_run_t run = {.feeds = {"x:0"}, .values = {2}, .fetches = {"more:0"}},
                        set = {.feeds = {"x:0"}, .values = {2}, .fetches = {"set:0"}};
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_FAILED_PRECONDITION, "uninitialized value v");
  weft_test_target(&s, "v_init");
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_INVALID_ARGUMENT, "{{node more}}");
  weft_test_expect(weft_test_run(&s, &set, NULL), WEFT_INVALID_ARGUMENT, "shapes of both tensors to match");
  CU_ASSERT_EQUAL(weft_test_fetch(&s, "read:0"), 1);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_cluster_destroy(c);
}

/* ---- control flow ---- */

#define BRANCHES(D)                                                                                      \
  VERSION DIMS VARIABLE("v", "1", D) PLACEHOLDER("up", "DT_FLOAT") FLOAT("zero", "0") FLOAT("rate", "3") \
      NODE("is_up", "Less", IN("zero") IN("up"), "", T) NODE("now", "Identity", IN("v"), "", T)          \
          NODE("g", "Mul", IN("now") IN("rate"), D, T)                                                   \
              NODE("switch", "RefSwitch", IN("v") IN("is_up"), D, T)                                     \
                  NODE("more", "AssignAdd", IN("switch:1") IN("g"), D, T)                                \
                      NODE("less", "AssignSub", IN("switch:0") IN("g"), D, T)                            \
                          NODE("merge", "RefMerge", IN("less") IN("more"), D, T INT("N", "2"))           \
                              NODE("after", "AssignAdd", IN("merge") IN("g"), D, T) READ("read", "after")

static void a_branch_updates_the_variable_that_it_is_given(void) {
  static const char *const inits[] = {"v_init", NULL};
  weft_test_run_t run = {.feeds = {"up:0"}, .values = {1}, .fetches = {"read:0"}};
  for (uint64_t seed = 0; seed < 5; seed++) {
    double up = 0, down = 0;
    late_devices(seed);
    run.values[0] = 1;
    train(BRANCHES(LATE), inits, &run, 3, &up);
    run.values[0] = -1;
    train(BRANCHES(LATE), inits, &run, 3, &down);
    CU_ASSERT_EQUAL(up, 343);
    CU_ASSERT_EQUAL(down, 1);
  }
}

#define FRAME "attr{key:\"frame_name\" value{s:\"rounds\"}} "
/* Ten rounds of v += v_of_the_round_before; the reference goes round. */
#define ROUNDS(D)                                                                                         \
  VERSION DIMS VARIABLE("v", "1", D) INT32("zero", "0") INT32("one", "1") INT32("ten", "10")              \
      NODE("i_enter", "Enter", IN("zero"), "", TYPE("T", "DT_INT32") FRAME)                               \
          NODE("i", "Merge", IN("i_enter") IN("i_next"), "", TYPE("T", "DT_INT32") INT("N", "2")) NODE(   \
              "ten_enter", "Enter", IN("ten"), "",                                                        \
              TYPE("T", "DT_INT32") FRAME "attr{key:\"is_constant\" value{b:true}} ")                     \
              NODE("one_enter", "Enter", IN("one"), "",                                                   \
                   TYPE("T", "DT_INT32") FRAME "attr{key:\"is_constant\" value{b:true}} ")                \
                  NODE("goes_on", "Less", IN("i") IN("ten_enter"), "", TYPE("T", "DT_INT32")) NODE(       \
                      "cond", "LoopCond", IN("goes_on"), "", "")                                          \
                      NODE("i_switch", "Switch", IN("i") IN("cond"), "", TYPE("T", "DT_INT32")) NODE(     \
                          "i_more", "AddV2", IN("i_switch:1") IN("one_enter"), "", TYPE("T", "DT_INT32")) \
                          NODE("i_next", "NextIteration", IN("i_more"), "", TYPE("T", "DT_INT32"))        \
                              NODE("v_enter", "RefEnter", IN("v"), D, T FRAME) NODE(                      \
                                  "v_merge", "RefMerge", IN("v_enter") IN("v_next"), D, T INT("N", "2"))  \
                                  NODE("v_switch", "RefSwitch", IN("v_merge") IN("cond"), D, T)           \
                                      NODE("now", "Identity", IN("v_switch:1"), D, T)                     \
                                          NODE("v_more", "AssignAdd", IN("v_switch:1") IN("now"), D, T)   \
                                              NODE("v_next", "RefNextIteration", IN("v_more"), D, T)      \
                                                  NODE("v_exit", "RefExit", IN("v_switch:0"), D, T)       \
                                                      READ("read", "v_exit")

static void a_reference_goes_round_in_a_loop(void) {
  static const char *const inits[] = {"v_init", NULL};
  const weft_test_run_t run = {.fetches = {"read:0"}};
  for (uint64_t seed = 0; seed < 5; seed++) {
    double late = 0;
    late_devices(seed);
    train(ROUNDS(LATE), inits, &run, 2, &late);
    CU_ASSERT_EQUAL(late, 1024.0 * 1024.0);
  }
}

/* ---- saving ---- */

#define SAVING(D)                                                                                           \
  VERSION DIMS VARIABLE("v", "5", D) PLACEHOLDER("file", "DT_STRING") WORD("names", "v") WORD("slices", "") \
      NODE("save", "SaveV2", IN("file") IN("names") IN("slices") IN("v"), "",                               \
           "attr{key:\"dtypes\" value{list{type:DT_FLOAT}}} ")                                              \
          NODE("saved", "RestoreV2", IN("file") IN("names") IN("slices"), "",                               \
               "attr{key:\"dtypes\" value{list{type:DT_FLOAT}}} ")                                          \
              NODE("restore", "Assign", IN("v") IN("saved"), D, T)                                          \
                  NODE("double", "AssignAdd", IN("v") IN("v"), D, T) READ("read", "v")                      \
                      NODE("restored", "Identity", IN("restore"), "", T)

static void what_is_saved_on_one_device_is_restored_on_another(void) {
  const char *folder = getenv("TEST_TMPDIR");
  char path[512];
  snprintf(path, sizeof path, "%s/saved", folder == NULL ? "/tmp" : folder);
  weft_tensor_t *file = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_string(weft_str(path), &file));
  late_devices(1);
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t late = weft_test_opened(weft_test_cluster_master(c, 1), SAVING(LATE)),
                      cpu = weft_test_opened(weft_test_cluster_master(c, 1), SAVING(CPU));
  const weft_test_run_t save = {.feeds = {"file:0"}, .tensors = {file}, .targets = {"save"}},
                        restore = {.feeds = {"file:0"}, .tensors = {file}, .fetches = {"restored:0"}};
  double value = 0;
  weft_test_target(&late, "v_init");
  weft_test_target(&late, "double");
  weft_test_expect(weft_test_run(&late, &save, NULL), WEFT_OK, "");
  weft_test_target(&late, "double");
  CU_ASSERT_EQUAL(weft_test_fetch(&late, "read:0"), 20);
  weft_test_expect(weft_test_run(&cpu, &restore, &value), WEFT_OK, "");
  CU_ASSERT_EQUAL(value, 10);
  weft_test_expect(weft_test_run(&late, &restore, &value), WEFT_OK, "");
  CU_ASSERT_EQUAL(value, 10);
  weft_test_expect(weft_test_close(&late), WEFT_OK, "");
  weft_test_expect(weft_test_close(&cpu), WEFT_OK, "");
  weft_test_cluster_destroy(c);
  weft_tensor_release(file);
}

/* ---- an input that lies in the host's memory by its place ---- */

/* The axis, the last of as many inputs as the node has, is computed on the device. */
#define JOINED(D)                                                                                    \
  VERSION DIMS FLOAT("one", "1") FLOAT("two", "2") PLACEHOLDER("x", "DT_INT32") INT32("nought", "0") \
      NODE("a", "Fill", IN("dims") IN("one"), D, T) NODE("b", "Fill", IN("dims") IN("two"), D, T)    \
          NODE("axis", "Sub", IN("x") IN("x"), D, TYPE("T", "DT_INT32"))                             \
              NODE("ab", "ConcatV2", IN("a") IN("b") IN("b") IN("axis"), D, T INT("N", "3"))         \
                  NODE("ba", "ConcatV2", IN("b") IN("a") IN("b") IN("axis"), D, T INT("N", "3"))     \
                      NODE("difference", "Sub", IN("ab") IN("ba"), D, T)                             \
                          NODE("square", "Square", IN("difference"), D, T)                           \
                              NODE("sum", "Sum", IN("square") IN("nought"), D, T)

static void the_last_input_lies_in_the_hosts_memory(void) {
  weft_tensor_t *x = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &WEFT_SCALAR, NULL, &x));
  *(int32_t *)x->data = 5;
  const weft_test_run_t run = {.feeds = {"x:0"}, .tensors = {x}, .fetches = {"sum:0"}};
  late_devices(1);
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s = weft_test_opened(weft_test_cluster_master(c, 1), JOINED(LATE));
  for (int i = 0; i < 20; i++) {
    double sum = 0;
    weft_test_expect(weft_test_run(&s, &run, &sum), WEFT_OK, "");
    CU_ASSERT_EQUAL(sum, 2000);
  }
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_cluster_destroy(c);
  weft_tensor_release(x);
}

static const CU_TestInfo tests[] = {
    {"updates give the numbers of the CPU", updates_give_the_numbers_of_the_cpu},
    {"wrong shapes are refused and the device goes on", wrong_shapes_are_refused_and_the_device_goes_on},
    {"a branch updates the variable that it is given", a_branch_updates_the_variable_that_it_is_given},
    {"a reference goes round in a loop", a_reference_goes_round_in_a_loop},
    {"what is saved on one device is restored on another",
     what_is_saved_on_one_device_is_restored_on_another},
    {"the last input lies in the host's memory", the_last_input_lies_in_the_hosts_memory},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/references", tests); }
