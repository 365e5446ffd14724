/* Which part of a graph a step needs, and how its feeds and fetches are joined to it (reference 3.4). */
#include "master/client_graph.h"

#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define CLIENT "/job:worker/replica:0/task:0/device:CPU:0"
#define NODE(name, op, inputs, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " " more " device:\"" CLIENT "\"} "
#define IN(x) "input:\"" x "\" "
#define DTYPE(d) "attr{key:\"dtype\" value{type:" d "}} "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "

/* x -> y -> z; s splits x in two; n waits for x; i is of another type */
static const char text[] = NODE("x", "Placeholder", "", DTYPE("DT_FLOAT")) NODE("y", "Neg", IN("x"), T)
    NODE("z", "Neg", IN("y"), T) NODE("axis", "Placeholder", "", DTYPE("DT_INT32"))
        NODE("s", "Split", IN("axis") IN("x"), T "attr{key:\"num_split\" value{i:2}} ")
            NODE("a", "Neg", IN("s"), T) NODE("b", "Neg", IN("s:1"), T) NODE("n", "NoOp", IN("^x"), "")
                NODE("w", "NoOp", IN("^y"), "") NODE("i", "Placeholder", "", DTYPE("DT_INT32"))
                    NODE("unused", "Neg", IN("z"), T);

static weft_device_attributes_t attributes(void) {
  return (weft_device_attributes_t){.name = WEFT_STR(CLIENT), .type = WEFT_STR("CPU"), .incarnation = 0xabc};
}

static int list(const char *const *from, weft_str_t *to) {
  int n = 0;
  for (; n < 8 && from[n] != NULL; n++) to[n] = weft_str(from[n]);
  return n;
}

typedef struct ask {
  const char *feeds[8], *fetches[8], *targets[8], *from[8], *to[8];
} ask_t;

static weft_status_t *build(const weft_graph_t *full, const ask_t *a, weft_graph_t **out) {
  weft_str_t feeds[8], fetches[8], targets[8], from[8], to[8];
  weft_signature_t s = {
      .feeds = feeds, .fetches = fetches, .targets = targets, .connections_from = from, .connections_to = to};
  s.num_feeds = list(a->feeds, feeds);
  s.num_fetches = list(a->fetches, fetches);
  s.num_targets = list(a->targets, targets);
  s.num_connections = list(a->from, from);
  (void)list(a->to, to);
  weft_session_device_t client = {.attributes = attributes()};
  *out = NULL;
  return weft_client_graph_build(full, &s, &client, NULL, out);
}

static weft_graph_t *full_graph(void) {
  weft_graph_t *full = weft_test_graph(text);
  for (int i = 0; i < full->num_nodes; i++)
    full->nodes[i]->assigned_device = weft_graph_intern(full, WEFT_STR(CLIENT));
  return full;
}

static weft_graph_t *built(const ask_t *a) {
  weft_graph_t *full = full_graph(), *g = NULL;
  weft_test_expect(build(full, a, &g), WEFT_OK, "");
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  weft_graph_destroy(full);
  return g;
}

static void refused(const ask_t *a, weft_code_t code, const char *message) {
  weft_graph_t *full = full_graph(), *g = NULL;
  weft_status_t *s = build(full, a, &g);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  weft_test_expect(s, code, "");
  CU_ASSERT_PTR_NULL(g);
  weft_graph_destroy(full);
}

static bool has(const weft_graph_t *g, const char *name) {
  return weft_graph_find(g, weft_str(name)) != NULL;
}

static void only_what_is_needed_is_kept(void) {
  weft_graph_t *g = built(&(ask_t){.fetches = {"y:0"}});
  CU_ASSERT_TRUE(has(g, "x") && has(g, "y") && has(g, "_send_y_0"));
  CU_ASSERT_EQUAL(g->num_live, 3);
  weft_graph_destroy(g);
}

static void a_feed_replaces_one_output_alone(void) {
  weft_graph_t *g = built(&(ask_t){.feeds = {"s:0"}, .fetches = {"a:0", "b:0"}});
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "a")->inputs[0].node, weft_test_node(g, "_recv_s_0"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "b")->inputs[0].node, weft_test_node(g, "s"));
  weft_graph_destroy(g);
}

static void what_is_behind_a_feed_does_not_run(void) {
  weft_graph_t *g = built(&(ask_t){.feeds = {"y:0"}, .fetches = {"z:0"}});
  CU_ASSERT_FALSE(has(g, "x") || has(g, "y"));
  weft_graph_destroy(g);
}

static void transfers_carry_what_workers_make_keys_of(void) {
  weft_graph_t *g = built(&(ask_t){.feeds = {"x:0"}, .fetches = {"y:0"}});
  static const char *const names[] = {"_recv_x_0", "_send_y_0"};
  for (int i = 0; i < 2; i++) {
    const weft_node_t *n = weft_test_node(g, names[i]);
    CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(n, "tensor_name"), i == 0 ? "x:0" : "y:0"));
    CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(n, "send_device"), CLIENT));
    CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(n, "recv_device"), CLIENT));
    CU_ASSERT_EQUAL(weft_node_attr_int(n, "send_device_incarnation", 0), 0xabc);
    CU_ASSERT_TRUE(weft_node_attr_bool(n, "client_terminated", false));
    CU_ASSERT_TRUE(weft_str_is(n->assigned_device, CLIENT));
  }
  CU_ASSERT_EQUAL(weft_node_attr_type(weft_test_node(g, "_recv_x_0"), "tensor_type"), WEFT_F32);
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_session_device_t client = {.attributes = attributes()};
  weft_client_key(&key, &client, WEFT_STR("x:0"));
  CU_ASSERT_STRING_EQUAL(key.data, CLIENT ";0000000000000abc;" CLIENT ";x:0;0:0");
  weft_strbuf_deinit(&key);
  weft_graph_destroy(g);
}

static void consumers_of_a_fed_placeholder_take_the_feed(void) {
  weft_graph_t *g = built(&(ask_t){.feeds = {"x:0"}, .targets = {"n"}});
  CU_ASSERT_FALSE(has(g, "x"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "n")->controls[0], weft_test_node(g, "_recv_x_0"));
  weft_graph_destroy(g);
  g = built(&(ask_t){.feeds = {"y:0"}, .targets = {"w"}}); /* any other node runs, fed or not */
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "w")->controls[0], weft_test_node(g, "y"));
  weft_graph_destroy(g);
}

static void a_fed_placeholder_that_is_a_target_runs(void) {
  weft_graph_t *g = built(&(ask_t){.feeds = {"x:0"}, .targets = {"x"}});
  CU_ASSERT_TRUE(has(g, "x")); /* and fails: as in TensorFlow */
  weft_graph_destroy(g);
}

static void one_output_can_be_fetched_twice(void) {
  weft_graph_t *g = built(&(ask_t){.fetches = {"y:0", "y:0", "y"}});
  CU_ASSERT_EQUAL(weft_test_count(g, "_Send"), 3);
  weft_graph_destroy(g);
}

static void nothing_asked_for_is_refused(void) {
  refused(&(ask_t){.feeds = {"x:0"}}, WEFT_INVALID_ARGUMENT,
          "Must specify at least one target to fetch or execute.");
}

static void names_that_are_not_there_are_not_found(void) {
  refused(&(ask_t){.fetches = {"zz:0"}}, WEFT_NOT_FOUND, "FetchOutputs node zz:0: not found");
  refused(&(ask_t){.fetches = {""}}, WEFT_NOT_FOUND, "FetchOutputs node : not found");
  refused(&(ask_t){.fetches = {"y:0"}, .feeds = {"zz:0"}}, WEFT_NOT_FOUND,
          "FeedInputs: unable to find feed output zz:0");
  refused(&(ask_t){.fetches = {"y:0"}, .feeds = {"x:-1"}}, WEFT_NOT_FOUND,
          "FeedInputs: unable to find feed output x:-1");
  refused(&(ask_t){.targets = {"n", "zz", "ww"}}, WEFT_NOT_FOUND,
          "PruneForTargets: Some target nodes not found: zz ww ");
}

static void outputs_that_are_not_there_are_invalid(void) {
  refused(&(ask_t){.fetches = {"y:7"}}, WEFT_INVALID_ARGUMENT,
          "FetchOutputs y:7: output index too large, must be < 1");
  refused(&(ask_t){.fetches = {"y:0"}, .feeds = {"x:5"}}, WEFT_INVALID_ARGUMENT,
          "FeedInputs: x:5 should have output index < 1");
  refused(&(ask_t){.fetches = {"n:0"}}, WEFT_INVALID_ARGUMENT,
          "Tried to fetch data for 'n:0', which produces no output.  To run to a node but not fetch any "
          "data, pass 'n:0' as an "
          "argument to the 'target_node_names' argument of the Session::Run API.");
  refused(&(ask_t){.fetches = {"^y"}}, WEFT_INVALID_ARGUMENT,
          "Attempt to add output -1 of y not in range [0, 1) to node with type _Send. Node: {{node y}}");
}

static void feeds_that_contradict_are_invalid(void) {
  refused(&(ask_t){.fetches = {"y:0"}, .feeds = {"x:0", "x:0"}}, WEFT_INVALID_ARGUMENT,
          "Endpoint \"x:0\" fed more than once.");
  refused(&(ask_t){.fetches = {"x:0"}, .feeds = {"x:0"}}, WEFT_INVALID_ARGUMENT,
          "x:0 is both fed and fetched.");
  refused(&(ask_t){.fetches = {"y:0"}, .feeds = {"x:0"}, .from = {"z:0"}, .to = {"x:0"}},
          WEFT_INVALID_ARGUMENT, "Endpoint \"x:0\" fed more than once.");
}

static void connections_bring_one_tensor_in_place_of_another(void) {
  weft_graph_t *g = built(&(ask_t){.fetches = {"z:0"}, .targets = {"n"}, .from = {"b:0"}, .to = {"y:0"}});
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "z")->inputs[0].node, weft_test_node(g, "b"));
  CU_ASSERT_FALSE(has(g, "y"));
  weft_graph_destroy(g);
}

static void connections_that_cannot_be_are_refused(void) {
  refused(&(ask_t){.fetches = {"y:0"}, .from = {"zz:0"}, .to = {"x:0"}}, WEFT_INVALID_ARGUMENT,
          "Requested tensor connection from unknown node: \"x:0\".");
  refused(&(ask_t){.fetches = {"y:0"}, .from = {"x:0"}, .to = {"zz:0"}}, WEFT_NOT_FOUND,
          "FeedInputs: unable to find feed output zz:0");
  refused(&(ask_t){.fetches = {"y:0"}, .from = {"i:0"}, .to = {"x:0"}}, WEFT_INVALID_ARGUMENT,
          "Input 0 of node y was passed int32 from _identity_x_0:0 incompatible with expected float.");
  refused(&(ask_t){.fetches = {"z:0"}, .from = {"y:0"}, .to = {"x:0"}}, WEFT_INVALID_ARGUMENT,
          "Requested Tensor connection between nodes \"x\" and \"y\" would create a cycle.");
}

static void a_fetch_can_be_checked_against_the_feeds_so_far(void) {
  weft_graph_t *full = full_graph();
  const weft_str_t feeds[] = {WEFT_STR("x:0"), WEFT_STR("y:0")};
  const bool none[2] = {false, false}, second[2] = {false, true}, first[2] = {true, false};
  weft_test_expect(weft_client_graph_check_fetch(full, WEFT_STR("z:0"), feeds, second, 2), WEFT_OK, "");
  weft_test_expect(weft_client_graph_check_fetch(full, WEFT_STR("z:0"), feeds, none, 2),
                   WEFT_INVALID_ARGUMENT,
                   "Fetch y:0 can't be computed from the feeds that have been fed so far.");
  weft_test_expect(weft_client_graph_check_fetch(full, WEFT_STR("z:0"), feeds, first, 2),
                   WEFT_INVALID_ARGUMENT, "Fetch y:0");
  weft_test_expect(weft_client_graph_check_fetch(full, WEFT_STR("i:0"), feeds, none, 2), WEFT_OK, "");
  weft_graph_destroy(full);
}

static weft_status_t *build_and_drop(const weft_graph_t *full) {
  weft_graph_t *g = NULL;
  weft_status_t *s = build(full, &(ask_t){.feeds = {"x:0"}, .fetches = {"a:0", "y:0"}, .targets = {"n"}}, &g);
  weft_graph_destroy(g);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  weft_graph_t *full = full_graph();
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, build_and_drop(full));
  CU_ASSERT_TRUE(n > 10);
  weft_graph_destroy(full);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"only_what_is_needed_is_kept", only_what_is_needed_is_kept},
      {"a_feed_replaces_one_output_alone", a_feed_replaces_one_output_alone},
      {"what_is_behind_a_feed_does_not_run", what_is_behind_a_feed_does_not_run},
      {"transfers_carry_what_workers_make_keys_of", transfers_carry_what_workers_make_keys_of},
      {"consumers_of_a_fed_placeholder_take_the_feed", consumers_of_a_fed_placeholder_take_the_feed},
      {"a_fed_placeholder_that_is_a_target_runs", a_fed_placeholder_that_is_a_target_runs},
      {"one_output_can_be_fetched_twice", one_output_can_be_fetched_twice},
      {"nothing_asked_for_is_refused", nothing_asked_for_is_refused},
      {"names_that_are_not_there_are_not_found", names_that_are_not_there_are_not_found},
      {"outputs_that_are_not_there_are_invalid", outputs_that_are_not_there_are_invalid},
      {"feeds_that_contradict_are_invalid", feeds_that_contradict_are_invalid},
      {"connections_bring_one_tensor_in_place_of_another", connections_bring_one_tensor_in_place_of_another},
      {"connections_that_cannot_be_are_refused", connections_that_cannot_be_are_refused},
      {"a_fetch_can_be_checked_against_the_feeds_so_far", a_fetch_can_be_checked_against_the_feeds_so_far},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("client_graph", tests);
}
