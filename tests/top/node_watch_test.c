/* tests/top/node_watch_test.c - the slowest nodes of a step, of its statistics. */
#include "tools/top/node_watch.h"

#include "protos/wire.h"
#include "tests/runner.h"

static void put_node(weft_strbuf_t *b, const char *name, const char *label, int64_t took_ns,
                     int64_t took_us) {
  const size_t at = weft_wire_begin(b, 2);
  weft_wire_put_text(b, 1, name);
  weft_wire_put_i64(b, 5, took_us);
  weft_wire_put_text(b, 8, label);
  weft_wire_put_i64(b, 16, took_ns);
  weft_wire_end(b, at);
}

static void put_device(weft_strbuf_t *b, const char *device) {
  const size_t at = weft_wire_begin(b, 1);
  weft_wire_put_text(b, 1, device);
  put_node(b, "matmul", "matmul = MatMul(a, b)", 3000000, 3000);
  put_node(b, "matmul", "matmul = MatMul(a, b)", 1000000, 1000);   /* in a loop: once more */
  put_node(b, "of_tensorflow", "of_tensorflow = Add(a, b)", 0, 7); /* which tells no nanoseconds */
  put_node(b, "wait", "wait = _Recv()", 9000000, 9000);
  put_node(b, "RecvTensor", "[40B] [1Mb/s] edge from a to b", 8000000, 8000);
  put_node(b, "", " = Add()", 1, 1);
  weft_wire_end(b, at);
}

static void nodes_are_added_up_by_name_and_device(void) {
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_top_node_t nodes[8];
  weft_top_node_list_t l = {.arena = &arena, .nodes = nodes, .room = 8};
  put_device(&stats, "CPU:0");
  put_device(&stats, "CPU:1");
  weft_top_nodes_add(&l, weft_str_of(stats.data, stats.length));
  weft_top_nodes_add(&l, weft_str_of(stats.data, stats.length)); /* another part of the step */
  CU_ASSERT_EQUAL_FATAL(l.n, 4);
  for (int i = 0; i < 4; i++) {
    const bool is_matmul = weft_str_is(nodes[i].name, "matmul");
    CU_ASSERT_TRUE(weft_str_is(nodes[i].op, is_matmul ? "MatMul" : "Add"));
    CU_ASSERT_TRUE(weft_str_is(nodes[i].device, i < 2 ? "CPU:0" : "CPU:1"));
    CU_ASSERT_DOUBLE_EQUAL(nodes[i].seconds, is_matmul ? 0.008 : 0.000014, 1e-12);
    CU_ASSERT_EQUAL(nodes[i].runs, is_matmul ? 4 : 2);
  }
  weft_top_nodes_deinit(&l);
  weft_arena_deinit(&arena);
  weft_strbuf_deinit(&stats);
}

static void what_has_no_room_is_left_out(void) {
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_top_node_t node;
  weft_top_node_list_t l = {.arena = &arena, .nodes = &node, .room = 1};
  put_device(&stats, "CPU:0");
  weft_top_nodes_add(&l, weft_str_of(stats.data, stats.length));
  CU_ASSERT_TRUE(l.n == 1 && node.runs == 2);
  weft_top_nodes_deinit(&l);
  weft_arena_deinit(&arena);
  weft_strbuf_deinit(&stats);
}

/* Statistics that are cut anywhere are read as far as they go. */
static void bytes_that_are_cut_do_no_harm(void) {
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  put_device(&stats, "CPU:0\x1b[31m");
  for (size_t n = 0; n <= stats.length; n++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_top_node_t nodes[4];
    weft_top_node_list_t l = {.arena = &arena, .nodes = nodes, .room = 4};
    weft_top_nodes_add(&l, weft_str_of(stats.data, n));
    CU_ASSERT_TRUE(l.n <= 2);
    if (l.n > 0) CU_ASSERT_TRUE(weft_str_is(nodes[0].device, "CPU:0?[31m"));
    weft_top_nodes_deinit(&l);
    weft_arena_deinit(&arena);
  }
  weft_strbuf_deinit(&stats);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"nodes are added up by name and device", nodes_are_added_up_by_name_and_device},
      {"what has no room is left out", what_has_no_room_is_left_out},
      {"bytes that are cut do no harm", bytes_that_are_cut_do_no_harm},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("slowest nodes", tests);
}
