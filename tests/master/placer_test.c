/* Placement: what a session's nodes get for devices, and how the impossible is refused (reference 3.3). */
#include "master/placer.h"

#include <stdio.h>

#include "device/device.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define PS "/job:ps/replica:0/task:0/device:CPU:0"
#define W0 "/job:worker/replica:0/task:0/device:CPU:0"
#define W1 "/job:worker/replica:0/task:1/device:CPU:0"
#define GPU "/job:worker/replica:0/task:1/device:GPU:0"
#define FLOAT " attr{key:\"T\" value{type:DT_FLOAT}} "
#define X "node{name:\"x\" op:\"Placeholder\" attr{key:\"dtype\" value{type:DT_FLOAT}}} "
#define IDENTITY(name, input, device, more) \
  "node{name:\"" name "\" op:\"Identity\" input:\"" input "\" device:\"" device "\"" FLOAT more "} "
#define VARIABLE(name, device)                                \
  "node{name:\"" name "\" op:\"VariableV2\" device:\"" device \
  "\" attr{key:\"dtype\" value{type:DT_FLOAT}} attr{key:\"shape\" value{shape{}}}} "
#define HANDLE(name, device)                                   \
  "node{name:\"" name "\" op:\"VarHandleOp\" device:\"" device \
  "\" attr{key:\"dtype\" value{type:DT_FLOAT}} attr{key:\"shape\" value{shape{}}}} "
#define CONST(name, device)                              \
  "node{name:\"" name "\" op:\"Const\" device:\"" device \
  "\" attr{key:\"dtype\" value{type:DT_FLOAT}} "         \
  "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:1}}}} "
#define NEAR(group) "attr{key:\"_class\" value{list{s:\"loc:@" group "\"}}}"
#define ASSIGN(name, ref, value, device)                                                                   \
  "node{name:\"" name "\" op:\"Assign\" input:\"" ref "\" input:\"" value "\" device:\"" device "\"" FLOAT \
  "} "

static uint32_t cpu_only(const weft_node_t *n) {
  if (weft_str_starts_with(n->name, "nowhere")) return 0;
  if (weft_str_starts_with(n->name, "either"))
    return 1 | UINT32_C(1) << weft_device_driver_index(WEFT_STR("GPU"));
  return 1;
}
static const weft_kernel_support_t kernels = {cpu_only, NULL};

/* The master is /job:worker/task:0; one GPU, elsewhere, for what "either" can run on. */
static void devices(weft_device_set_t *set, bool has_gpu) {
  static const char *const names[] = {W1, W0, PS, GPU};
  *set = (weft_device_set_t){.list = {.arena = WEFT_ARENA_INIT}};
  for (int i = 0; i < 3 + has_gpu; i++) {
    weft_device_list_t list = {.arena = WEFT_ARENA_INIT};
    weft_device_attributes_t d = {.name = weft_str(names[i]),
                                  .type = i == 3 ? WEFT_STR("GPU") : WEFT_STR("CPU"),
                                  .description = WEFT_STR(""),
                                  .incarnation = (uint64_t)i + 1};
    weft_test_expect(weft_device_list_add(&list, &d), WEFT_OK, "");
    weft_test_expect(weft_device_set_add(set, weft_device_task_part(d.name), &list), WEFT_OK, "");
    weft_device_list_deinit(&list);
  }
  weft_test_expect(weft_device_set_finish(set, WEFT_STR("/job:worker/replica:0/task:0")), WEFT_OK, "");
}

typedef struct place {
  weft_graph_t *g;
  weft_status_t *s;
} place_t;

static place_t place_with(const char *text, bool soft, bool has_gpu) {
  weft_device_set_t set;
  devices(&set, has_gpu);
  place_t p = {.g = weft_test_graph(text)};
  weft_placer_options_t o = {.devices = &set, .kernels = &kernels, .allow_soft_placement = soft};
  p.s = weft_place(p.g, &o);
  weft_device_set_deinit(&set);
  return p;
}

static void refused(const char *text, bool soft, const char *message) {
  place_t p = place_with(text, soft, false);
  weft_test_expect(p.s, WEFT_INVALID_ARGUMENT, message);
  weft_graph_destroy(p.g);
}

static void sits(const place_t *p, const char *name, const char *device) {
  weft_str_t got = weft_test_node(p->g, name)->assigned_device;
  CU_ASSERT_TRUE(weft_str_is(got, device));
  if (!weft_str_is(got, device))
    fprintf(stderr, "\n    %s: on %.*s, not on %s\n", name, WEFT_STR_ARGS(got), device);
}

static place_t placed(const char *text, bool soft, bool has_gpu) {
  place_t p = place_with(text, soft, has_gpu);
  weft_test_expect(p.s, WEFT_OK, "");
  p.s = NULL;
  return p;
}

static void partial_names_are_completed(void) {
  place_t p = placed(X IDENTITY("a", "x", "/job:worker/task:1", "") IDENTITY("b", "x", "/job:ps", "")
                         IDENTITY("c", "x", "/task:1", "") IDENTITY("d", "x", "/job:worker", "")
                             IDENTITY("e", "x", "", "") IDENTITY("f", "x", "/cpu:0", "")
                                 IDENTITY("g", "x", "/job:ps/device:CPU:*", "")
                                     IDENTITY("h", "x", "/task:1/job:worker", ""),
                     false, false);
  sits(&p, "a", W1);
  sits(&p, "b", PS);
  sits(&p, "c", W1);
  sits(&p, "d", W0);
  sits(&p, "e", W0);
  sits(&p, "f", W0);
  sits(&p, "g", PS);
  sits(&p, "h", W1);
  weft_graph_destroy(p.g);
}

static void equal_devices_share_one_text(void) {
  place_t p = placed(X IDENTITY("a", "x", "/job:ps", "") IDENTITY("b", "x", "/job:worker/task:1", "")
                         IDENTITY("c", "x", "/job:ps", ""),
                     false, false);
  CU_ASSERT_PTR_EQUAL(weft_test_node(p.g, "a")->assigned_device.data,
                      weft_test_node(p.g, "c")->assigned_device.data);
  weft_graph_destroy(p.g);
}

static void faster_devices_are_preferred(void) {
  place_t p = placed(X IDENTITY("either", "x", "", "") IDENTITY("either_ps", "x", "/job:ps", "")
                         IDENTITY("plain", "x", "", ""),
                     false, true);
  sits(&p, "either", GPU);
  sits(&p, "either_ps", PS);
  sits(&p, "plain", W0);
  weft_graph_destroy(p.g);
}

static void unknown_devices_are_refused_with_a_list_of_those_that_are(void) {
  static const char *const names[] = {"/job:absent", "/job:worker/task:7", "/job:ps/task:0/device:TPU:0",
                                      "/device:CPU:9"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char text[1024], message[1024];
    snprintf(text, sizeof text, X IDENTITY("sq", "x", "%s", ""), names[i]);
    snprintf(message, sizeof message,
             "Cannot assign a device for operation sq: {{node sq}} was explicitly assigned to %s but "
             "available devices are [ " PS ", " W0 ", " W1
             " ]. Make sure the device specification refers to a valid device.\n\t [[sq]]",
             names[i]);
    refused(text, false, message);
  }
  refused(X IDENTITY("sq", "x", "/job:ps/device:GPU:0", ""), false,
          "valid device. The requested device appears to be a GPU, but CUDA is not enabled.\n\t [[sq]]");
}

static void soft_placement_gives_up_type_and_id_but_never_the_task(void) {
  place_t p = placed(X IDENTITY("a", "x", "/job:ps/device:GPU:0", "") IDENTITY("b", "x", "/device:CPU:9", "")
                         IDENTITY("c", "x", "/job:worker/task:1/device:TPU:3", "")
                             VARIABLE("v", "/job:ps/device:GPU:0") ASSIGN("w", "v", "x", ""),
                     true, false);
  sits(&p, "a", PS);
  sits(&p, "b", W0);
  sits(&p, "c", W1);
  sits(&p, "v", PS);
  sits(&p, "w", PS);
  weft_graph_destroy(p.g);
  refused(X IDENTITY("a", "x", "/job:absent", ""), true, "was explicitly assigned to /job:absent but");
  refused(X IDENTITY("a", "x", "/job:worker/task:7", ""), true,
          "was explicitly assigned to /job:worker/task:7 but");
}

static void names_that_are_none_are_refused(void) {
  refused(X IDENTITY("i", "x", "nonsense", ""), false,
          "Malformed device specification 'nonsense' in node: {name:'i'");
  refused(X IDENTITY("i", "x", "/job:worker/foo", ""), true, "\n\t [[i]]");
}

static void colocated_nodes_sit_together(void) {
  place_t p = placed(
      X IDENTITY("a", "x", "/job:ps", "") IDENTITY("b", "x", "", NEAR("a")) IDENTITY("c", "x", "", NEAR("b"))
          IDENTITY("d", "x", "/job:worker/task:1", NEAR("absent")) IDENTITY("e", "x", "", NEAR("absent")),
      false, false);
  sits(&p, "b", PS);
  sits(&p, "c", PS);
  sits(&p, "e", W1); /* a group whose node does not exist */
  weft_graph_destroy(p.g);
}

static void only_loc_entries_of_a_list_colocate(void) {
  place_t p = placed(X IDENTITY("a", "x", "/job:ps", "")
                         IDENTITY("b", "x", "", "attr{key:\"_class\" value{list{s:\"other:a\"}}}")
                             IDENTITY("c", "x", "", "attr{key:\"_class\" value{s:\"loc:@a\"}}"),
                     false, false);
  sits(&p, "b", W0);
  sits(&p, "c", W0);
  weft_graph_destroy(p.g);
}

static void colocation_that_cannot_be_is_refused_or_skipped(void) {
  const char *jobs = X IDENTITY("a", "x", "/job:ps", "") IDENTITY("b", "x", "/job:worker", NEAR("a"));
  refused(jobs, false,
          "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot merge devices with "
          "incompatible "
          "jobs: '/job:worker' and '/job:ps'\n\t [[{{node b}}]]");
  place_t p = placed(jobs, true, false);
  sits(&p, "a", PS);
  sits(&p, "b", W0);
  weft_graph_destroy(p.g);
  refused(X IDENTITY("a", "x", "/device:GPU:0", "") IDENTITY("b", "x", "/device:CPU:0", NEAR("a")), false,
          "incompatible types: '/device:CPU:0' and '/device:GPU:0'");
  refused(X IDENTITY("a", "x", "/job:ps", NEAR("zz")) IDENTITY("b", "x", "/job:worker", NEAR("zz")), false,
          "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}");
  refused(VARIABLE("v", "/job:ps") VARIABLE("w", "/job:worker/task:1")
              X IDENTITY("i", "x", "", "attr{key:\"_class\" value{list{s:\"loc:@v\" s:\"loc:@w\"}}}"),
          false,
          "Cannot colocate nodes {{colocation_node i}} and {{colocation_node w}}: Cannot merge devices with "
          "incompatible jobs: "
          "'/job:ps' and '/job:worker/task:1'\n\t [[{{node i}}]]");
}

static void reference_edges_keep_variables_and_updates_together(void) {
  place_t p = placed(
      VARIABLE("v", "/job:ps") HANDLE("h", "/job:worker/task:1") X ASSIGN("a", "v", "x", "")
          ASSIGN("b", "v", "x", "/job:worker/task:1") /* the variable's wish wins */
      "node{name:\"c\" op:\"AssignVariableOp\" input:\"h\" input:\"x\" attr{key:\"dtype\" "
      "value{type:DT_FLOAT}}} "
      "node{name:\"d\" op:\"ReadVariableOp\" input:\"h\" attr{key:\"dtype\" value{type:DT_FLOAT}}} " IDENTITY(
          "read", "v", "", ""),
      false, false);
  sits(&p, "a", PS);
  sits(&p, "b", PS);
  sits(&p, "c", W1);
  sits(&p, "d", W1);
  sits(&p, "read", W0); /* Identity takes a value, not a reference */
  weft_graph_destroy(p.g);
}

static void two_variables_apart_cannot_go_into_one_op(void) {
  const char *text = VARIABLE("v", "/job:ps") VARIABLE("w", "/job:worker/task:1")
      "node{name:\"k\" op:\"Placeholder\" attr{key:\"dtype\" value{type:DT_INT32}}} "
      "node{name:\"i\" op:\"RefSelect\" input:\"k\" input:\"v\" input:\"w\" attr{key:\"N\" value{i:2}}" FLOAT "} ";
  refused(text, false,
          "Cannot place the graph because a reference or resource edge connects colocation groups with "
          "incompatible resource "
          "devices: /job:worker/task:1 vs /job:ps. The edge src node is name='w' (op='VariableV2'), and the "
          "dst node is "
          "name='i' (op='RefSelect').");
  refused(text, true, "incompatible resource devices");
}

static void generators_follow_their_only_consumer(void) {
  place_t p = placed(
      CONST("near", "") IDENTITY("a", "near", "/job:ps", "") CONST("both", "")
          IDENTITY("b", "both", "/job:ps", "") IDENTITY("c", "both", "/job:worker/task:1", "")
              CONST("pinned", "/job:worker/task:1") IDENTITY("d", "pinned", "/job:ps", "") CONST("alone", "")
                  CONST("control",
                        "") "node{name:\"n\" op:\"NoOp\" input:\"^control\" device:\"/job:worker/task:1\"} ",
      false, false);
  sits(&p, "near", PS);
  sits(&p, "both", W0);
  sits(&p, "pinned", W1);
  sits(&p, "alone", W0);
  sits(&p, "control", W1);
  weft_graph_destroy(p.g);
}

static void metadata_follows_its_input(void) {
  place_t p = placed(
      X IDENTITY("a", "x", "/job:ps",
                 "") "node{name:\"shape\" op:\"Shape\" input:\"a\"" FLOAT
                     "} "
                     "node{name:\"there\" op:\"Shape\" input:\"a\" device:\"/job:worker/task:1\"" FLOAT "} ",
      false, false);
  sits(&p, "shape", PS);
  sits(&p, "there", W1);
  weft_graph_destroy(p.g);
}

static void ops_without_a_kernel_get_no_place(void) {
  place_t p =
      placed(X IDENTITY("nowhere1", "x", "", NEAR("x")) IDENTITY("y", "nowhere1", "", NEAR("nowhere1")), true,
             false);
  sits(&p, "nowhere1", "");
  CU_ASSERT_TRUE(weft_graph_find(p.g, WEFT_STR("y"))->assigned_device.length > 0);
  weft_graph_destroy(p.g);
}

static void stateful_nodes_stay_when_the_graph_is_placed_again(void) {
  weft_device_set_t set;
  devices(&set, false);
  weft_graph_t *g =
      weft_test_graph(VARIABLE("v", "") X ASSIGN("a", "v", "x", "") IDENTITY("free", "x", "", ""));
  weft_placer_options_t o = {.devices = &set, .kernels = &kernels};
  weft_test_node(g, "v")->assigned_device =
      weft_graph_intern(g, WEFT_STR(W1)); /* as an earlier placement had it */
  weft_test_node(g, "free")->assigned_device = weft_graph_intern(g, WEFT_STR(W1));
  weft_test_expect(weft_place(g, &o), WEFT_OK, "");
  place_t p = {.g = g};
  sits(&p, "v", W1);
  sits(&p, "a", W1);
  sits(&p, "free", W0);
  weft_graph_destroy(g);
  weft_device_set_deinit(&set);
}

static weft_status_t *place_again(weft_graph_t *g, const weft_device_set_t *set) {
  weft_placer_options_t o = {.devices = set, .kernels = &kernels};
  return weft_place(g, &o);
}

static void no_allocation_failure_is_lost(void) {
  weft_device_set_t set;
  devices(&set, false);
  weft_graph_t *g = weft_test_graph(VARIABLE("v", "/job:ps") X ASSIGN("a", "v", "x", "")
                                        IDENTITY("b", "x", "/job:worker", NEAR("zz")));
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, place_again(g, &set));
  CU_ASSERT_TRUE(n > 2);
  weft_graph_destroy(g);
  weft_device_set_deinit(&set);
}

/* Only its place in the list of drivers matters here: no such device is made. */
static const weft_device_driver_t gpu_driver = {.type = "GPU"};

int main(void) {
  weft_status_t *s = weft_device_register(&gpu_driver);
  if (s != NULL) return 2;
  static const CU_TestInfo tests[] = {
      {"partial_names_are_completed", partial_names_are_completed},
      {"equal_devices_share_one_text", equal_devices_share_one_text},
      {"faster_devices_are_preferred", faster_devices_are_preferred},
      {"unknown_devices_are_refused_with_a_list_of_those_that_are",
       unknown_devices_are_refused_with_a_list_of_those_that_are},
      {"soft_placement_gives_up_type_and_id_but_never_the_task",
       soft_placement_gives_up_type_and_id_but_never_the_task},
      {"names_that_are_none_are_refused", names_that_are_none_are_refused},
      {"colocated_nodes_sit_together", colocated_nodes_sit_together},
      {"only_loc_entries_of_a_list_colocate", only_loc_entries_of_a_list_colocate},
      {"colocation_that_cannot_be_is_refused_or_skipped", colocation_that_cannot_be_is_refused_or_skipped},
      {"reference_edges_keep_variables_and_updates_together",
       reference_edges_keep_variables_and_updates_together},
      {"two_variables_apart_cannot_go_into_one_op", two_variables_apart_cannot_go_into_one_op},
      {"generators_follow_their_only_consumer", generators_follow_their_only_consumer},
      {"metadata_follows_its_input", metadata_follows_its_input},
      {"ops_without_a_kernel_get_no_place", ops_without_a_kernel_get_no_place},
      {"stateful_nodes_stay_when_the_graph_is_placed_again",
       stateful_nodes_stay_when_the_graph_is_placed_again},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("placer", tests);
}
