#include "graph/passes.h"
#include "protos/wire.h"
#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

static uint32_t parsed(const char *text) {
  weft_pass_settings_t s = weft_pass_defaults();
  weft_test_expect(weft_pass_settings_parse(weft_str(text), &s), WEFT_OK, "");
  return s.passes;
}

static void lists_say_which_passes_run(void) {
  const uint32_t fold = WEFT_PASS_BIT(WEFT_PASS_FOLD), share = WEFT_PASS_BIT(WEFT_PASS_SHARE);
  CU_ASSERT_EQUAL(parsed(""), WEFT_ALL_PASSES);
  CU_ASSERT_EQUAL(parsed("all"), WEFT_ALL_PASSES);
  CU_ASSERT_EQUAL(parsed("none"), 0);
  CU_ASSERT_EQUAL(parsed("fold,share"), fold | share);
  CU_ASSERT_EQUAL(parsed("-fold"), WEFT_ALL_PASSES & ~fold);
  CU_ASSERT_EQUAL(parsed("all,-share,-fold"), WEFT_ALL_PASSES & ~share & ~fold);
  weft_pass_settings_t s = weft_pass_defaults();
  weft_test_expect(weft_pass_settings_parse(WEFT_STR("fold,melt"), &s), WEFT_INVALID_ARGUMENT,
                   "no pass 'melt'");
}

/* What a GraphOptions says of which the rewriter's field `field` is `value`. */
static weft_pass_settings_t with_rewriter(int field, uint64_t value) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  const char *ignored = NULL;
  weft_pass_settings_t s = weft_pass_defaults();
  const size_t rewriter = weft_wire_begin(&b, 10);
  weft_wire_put_varint(&b, field, value);
  weft_wire_end(&b, rewriter);
  weft_pass_settings_read(weft_str_of(b.data, b.length), &s, &ignored);
  CU_ASSERT_PTR_NULL(ignored);
  weft_strbuf_deinit(&b);
  return s;
}

static void toggles_turn_passes_off(void) {
  CU_ASSERT_EQUAL(with_rewriter(3, 2).passes, WEFT_ALL_PASSES & ~WEFT_PASS_BIT(WEFT_PASS_FOLD));
  CU_ASSERT_EQUAL(with_rewriter(3, 1).passes, WEFT_ALL_PASSES);
  CU_ASSERT_EQUAL(with_rewriter(3, 3).passes, WEFT_ALL_PASSES); /* AGGRESSIVE */
  CU_ASSERT_EQUAL(with_rewriter(24, 2).passes, WEFT_ALL_PASSES & ~WEFT_PASS_BIT(WEFT_PASS_SHARE));
  CU_ASSERT_EQUAL(with_rewriter(2, 1).passes, WEFT_ALL_PASSES & ~WEFT_PASS_BIT(WEFT_PASS_IDENTITIES));
  CU_ASSERT_EQUAL(with_rewriter(19, 1).passes, 0);
  CU_ASSERT_EQUAL(with_rewriter(12, 1).rounds, 1);
  CU_ASSERT_EQUAL(with_rewriter(17, 50).min_nodes, 50);
  CU_ASSERT_EQUAL(with_rewriter(17, UINT64_MAX).min_nodes, 0); /* -1 */
}

static void a_low_level_turns_folding_and_sharing_off(void) {
  for (int asked = 0; asked < 2; asked++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    const char *ignored = NULL;
    weft_pass_settings_t s = weft_pass_defaults();
    const size_t optimizer = weft_wire_begin(&b, 3);
    weft_wire_put_varint(&b, 3, UINT64_MAX); /* L0 */
    if (asked) weft_wire_put_varint(&b, 2, 1);
    weft_wire_put_varint(&b, 6, 1234);
    weft_wire_end(&b, optimizer);
    weft_pass_settings_read(weft_str_of(b.data, b.length), &s, &ignored);
    CU_ASSERT_EQUAL((s.passes & WEFT_PASS_BIT(WEFT_PASS_FOLD)) != 0, asked);
    CU_ASSERT_EQUAL(s.passes & WEFT_PASS_BIT(WEFT_PASS_SHARE), 0);
    CU_ASSERT_NOT_EQUAL(s.passes & WEFT_PASS_BIT(WEFT_PASS_ARITHMETIC), 0);
    CU_ASSERT_EQUAL(s.max_folded_bytes, 1234);
    weft_strbuf_deinit(&b);
  }
}

static void what_is_written_is_read_back(void) {
  for (uint32_t passes = 0; passes <= WEFT_ALL_PASSES; passes++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    const char *ignored = NULL;
    const weft_pass_settings_t s = {passes, (int)passes % 5, 1 + (int)passes % 2, 1 + passes};
    weft_pass_settings_t back = weft_pass_defaults();
    weft_pass_settings_write(&s, &b);
    weft_pass_settings_read(weft_str_of(b.data, b.length), &back, &ignored);
    CU_ASSERT(weft_pass_settings_eq(&back, &s));
    weft_strbuf_deinit(&b);
  }
}

/* What the settings leave on a graph of a link of chains and a node that calls a function. */
static void nodes_tell_workers_what_a_session_says(void) {
#define CALLING                                                                                 \
  FED("x", "")                                                                                  \
  NODE("link", "Tanh", IN1("x"), T_F)                                                           \
  NODE("caller", "MapDefun", IN1("x"),                                                          \
       "attr{key:'Targuments' value{list{type:DT_FLOAT}}} attr{key:'Tcaptured' value{list{}}} " \
       "attr{key:'output_types' value{list{type:DT_FLOAT}}} "                                   \
       "attr{key:'output_shapes' value{list{shape{}}}} attr{key:'f' value{func{name:'f'}}}")
  const weft_pass_settings_t defaults = weft_pass_defaults();
  weft_pass_settings_t s = defaults;
  for (int off = -1; off < WEFT_NUM_PASSES; off++) {
    weft_graph_t *g = weft_test_graph(CALLING);
    s.passes = off < 0 ? WEFT_ALL_PASSES : WEFT_ALL_PASSES & ~WEFT_PASS_BIT(off);
    const int num_attrs = weft_test_node(g, "caller")->num_attrs;
    weft_test_expect(weft_pass_settings_mark(g, &s), WEFT_OK, "");
    const weft_pass_settings_t told = weft_pass_settings_of_calls(g);
    CU_ASSERT(weft_pass_settings_eq(&told, &s));
    CU_ASSERT_EQUAL(weft_test_node(g, "caller")->num_attrs, num_attrs + (off >= 0));
    CU_ASSERT_EQUAL(weft_node_attr(weft_test_node(g, "link"), WEFT_NO_CHAIN_ATTR) != NULL,
                    off == WEFT_PASS_FUSE);
    weft_graph_destroy(g);
  }
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"lists say which passes run", lists_say_which_passes_run},
      {"toggles turn passes off", toggles_turn_passes_off},
      {"a low level turns folding and sharing off", a_low_level_turns_folding_and_sharing_off},
      {"what is written is read back", what_is_written_is_read_back},
      {"nodes tell workers what a session says", nodes_tell_workers_what_a_session_says},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("settings", tests);
}
