#include "graph/graph_store.h"

#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

static const char two_equal[] =
    "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}}"
    "node{name:'y' op:'Neg' input:'x' attr{key:'T' value{type:DT_FLOAT}} attr{key:'_note' value{s:'kept'}}}"
    "node{name:'z' op:'Neg' input:'y' attr{key:'T' value{type:DT_FLOAT}} attr{key:'_note' value{s:'kept'}}}"
    "node{name:'h' op:'Neg' input:'i' attr{key:'T' value{type:DT_HALF}} attr{key:'_note' value{s:'kept'}}}"
    "node{name:'i' op:'Placeholder' attr{key:'dtype' value{type:DT_HALF}}}";

static void a_store_lives_as_long_as_what_keeps_it(void) {
  enum { CHAIN = 100000 }; /* a graph that was extended as often */
  weft_graph_store_t *first = NULL, *last = NULL;
  weft_test_expect(weft_graph_store_create(&first), WEFT_OK, "");
  weft_str_t text = weft_arena_str(&first->arena, WEFT_STR("a name"));
  last = weft_graph_store_retain(first);
  for (int i = 0; i < CHAIN; i++) {
    weft_graph_store_t *next = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_graph_store_create(&next));
    CU_ASSERT_PTR_NULL_FATAL(weft_graph_store_keep(next, last));
    CU_ASSERT_PTR_NULL_FATAL(weft_graph_store_keep(next, last)); /* nothing more */
    CU_ASSERT_PTR_NULL_FATAL(weft_graph_store_keep(next, next));
    CU_ASSERT_EQUAL_FATAL(next->num_kept, 1);
    weft_graph_store_release(last);
    last = next;
  }
  weft_graph_store_release(first);
  CU_ASSERT(weft_str_is(text, "a name"));
  weft_graph_store_release(last);
}

static void equal_nodes_share_their_attributes_until_one_changes(void) {
  weft_graph_t *g = weft_test_graph(two_equal);
  weft_node_t *y = weft_test_node(g, "y"), *z = weft_test_node(g, "z"), *h = weft_test_node(g, "h");
  CU_ASSERT_PTR_EQUAL(y->attrs, z->attrs);
  CU_ASSERT_PTR_EQUAL(y->input_types, z->input_types);
  CU_ASSERT_PTR_NOT_EQUAL(y->attrs, h->attrs);
  CU_ASSERT_EQUAL(h->output_types[0], WEFT_F16);
  const weft_attr_t other = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("changed")};
  weft_test_expect(weft_graph_set_attr(g, z, "_note", &other), WEFT_OK, "");
  weft_test_expect(weft_graph_set_attr(g, z, "_added", &other), WEFT_OK, "");
  CU_ASSERT(weft_str_is(weft_node_attr_string(y, "_note"), "kept"));
  CU_ASSERT_PTR_NULL(weft_node_attr(y, "_added"));
  CU_ASSERT(weft_str_is(weft_node_attr_string(z, "_note"), "changed"));
  weft_test_expect(weft_graph_clear_attr(g, z, "_note"), WEFT_OK, "");
  weft_test_expect(weft_graph_clear_attr(g, z, "_note"), WEFT_OK, "");
  CU_ASSERT_PTR_NULL(weft_node_attr(z, "_note"));
  CU_ASSERT_EQUAL(weft_node_attr_type(z, "T"), WEFT_F32);
  CU_ASSERT_EQUAL(z->num_attrs, 2);
  CU_ASSERT(weft_str_is(weft_node_attr_string(y, "_note"), "kept"));
  weft_graph_destroy(g);
}

/* Of a node with a tensor and its copy in another graph either may go first. */
static void copies_count_tensors_of_their_own(void) {
  weft_graph_t *g = weft_test_graph(
                   "node{name:'c' op:'Const' attr{key:'dtype' value{type:DT_INT32}} "
                   "attr{key:'value' value{tensor{dtype:DT_INT32 tensor_shape{} int_val:42}}}}"),
               *copy = NULL;
  weft_tensor_t *t = weft_tensor_retain(weft_node_attr(weft_test_node(g, "c"), "value")->tensor);
  weft_test_expect(weft_graph_copy(g, &copy), WEFT_OK, "");
  weft_graph_remove(copy, weft_test_node(copy, "c"));
  CU_ASSERT_PTR_EQUAL(weft_node_attr(weft_test_node(g, "c"), "value")->tensor, t);
  weft_graph_destroy(copy);
  weft_test_expect(weft_graph_copy(g, &copy), WEFT_OK, "");
  weft_graph_destroy(g);
  CU_ASSERT_PTR_EQUAL(weft_node_attr(weft_test_node(copy, "c"), "value")->tensor, t);
  const weft_attr_t other = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("changed")};
  weft_test_expect(weft_graph_set_attr(copy, weft_test_node(copy, "c"), "_note", &other), WEFT_OK, "");
  weft_graph_destroy(copy);
  CU_ASSERT_EQUAL(*(const int32_t *)t->data, 42);
  weft_tensor_release(t);
}

static void a_node_can_be_renamed(void) {
  weft_graph_t *g = weft_test_graph(two_equal);
  weft_node_t *y = weft_test_node(g, "y");
  weft_test_expect(weft_graph_rename(g, y, weft_graph_unique_name(g, WEFT_STR("x"))), WEFT_OK, "");
  CU_ASSERT_PTR_EQUAL(weft_graph_find(g, WEFT_STR("x_1")), y);
  CU_ASSERT_PTR_NULL(weft_graph_find(g, WEFT_STR("y")));
  weft_graph_destroy(g);
}

static weft_status_t *copy_twice(const weft_graph_t *g) {
  weft_graph_t *one = NULL, *two = NULL;
  const weft_attr_t note = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("changed")};
  weft_status_t *s = weft_graph_copy(g, &one);
  if (s == NULL) s = weft_graph_copy(one, &two);
  if (s == NULL) s = weft_graph_set_attr(two, weft_graph_find(two, WEFT_STR("y")), "_note", &note);
  if (s == NULL) s = weft_graph_rename(two, weft_graph_find(two, WEFT_STR("y")), WEFT_STR("w"));
  weft_graph_destroy(one);
  weft_graph_destroy(two);
  return s;
}

static void sharing_without_memory_is_an_error(void) {
  weft_graph_t *g = weft_test_graph(two_equal);
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, copy_twice(g));
  CU_ASSERT(n > 5);
  weft_graph_destroy(g);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a store lives as long as what keeps it", a_store_lives_as_long_as_what_keeps_it},
      {"equal nodes share their attributes until one changes",
       equal_nodes_share_their_attributes_until_one_changes},
      {"copies count tensors of their own", copies_count_tensors_of_their_own},
      {"a node can be renamed", a_node_can_be_renamed},
      {"sharing without memory is an error", sharing_without_memory_is_an_error},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("graph_store", tests);
}
