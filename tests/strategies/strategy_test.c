/* tests/strategies/strategy_test.c - finding strategies, their options, what is said of a rewrite. */
#include "strategies/strategy.h"

#include "strategies/options.h"
#include "tests/runner.h"

static void expect(weft_status_t *s, weft_code_t code, const char *text) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), text));
  weft_status_free(s);
}

static void every_strategy_of_the_list_is_found(void) {
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    const weft_strategy_t *s = NULL;
    weft_str_t options;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "%s:4,a=b", weft_strategies[i]->name);
    CU_ASSERT_PTR_NULL_FATAL(weft_strategy_find(weft_str_of(text.data, text.length), &s, &options));
    CU_ASSERT_PTR_EQUAL(s, weft_strategies[i]);
    CU_ASSERT(weft_str_is(options, "4,a=b"));
    CU_ASSERT(s->about[0] != '\0' && strstr(s->usage, s->name) == s->usage && strchr(s->usage, '\n') != NULL);
    CU_ASSERT_PTR_NULL_FATAL(weft_strategy_find(weft_str(s->name), &s, &options));
    CU_ASSERT_EQUAL(options.length, 0);
    weft_strbuf_deinit(&text);
  }
  const weft_strategy_t *s = NULL;
  weft_str_t options;
  expect(weft_strategy_find(WEFT_STR("miror:2"), &s, &options), WEFT_NOT_FOUND, "mirrored");
  expect(weft_strategy_find(WEFT_STR(""), &s, &options), WEFT_NOT_FOUND, "no strategy ''");
}

#define TEST_OPTIONS(OPTION)                           \
  OPTION(count, COUNT, "N", "2", "how many")           \
  OPTION(size, BYTES, "BYTES", "1M", "how large")      \
  OPTION(rate, NUMBER, "X", "0.5", "how fast")         \
  OPTION(quick, BOOL, "true|false", "false", "or not") \
  OPTION(mode, CHOICE, "sync|async", "sync", "how")    \
  OPTION(names, TEXT, "A+B", "", "names")
enum { TEST_OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {TEST_OPTIONS(WEFT_OPTION_DEF)};

static void options_have_values_and_defaults(void) {
  weft_option_value_t v[NUM_OPTIONS];
  CU_ASSERT_PTR_NULL_FATAL(weft_options_parse("t", defs, NUM_OPTIONS, WEFT_STR(""), v));
  CU_ASSERT(v[OPTION_count].i == 2 && v[OPTION_size].i == 1 << 20 && v[OPTION_rate].number == 0.5 &&
            v[OPTION_quick].i == 0);
  CU_ASSERT(v[OPTION_mode].i == 0 && v[OPTION_names].text.length == 0 && !v[OPTION_count].is_given);
  CU_ASSERT_PTR_NULL_FATAL(weft_options_parse(
      "t", defs, NUM_OPTIONS, WEFT_STR("7,size=3K,rate=-1e-3,quick,mode=async,names=a+b/c:0++d"), v));
  CU_ASSERT(v[OPTION_count].i == 7 && v[OPTION_size].i == 3072 && v[OPTION_rate].number == -1e-3 &&
            v[OPTION_quick].i == 1);
  CU_ASSERT(v[OPTION_mode].i == 1 && v[OPTION_count].is_given);
  weft_str_t rest = v[OPTION_names].text, part;
  static const char *const parts[] = {"a", "b/c:0", "d"};
  for (int i = 0; i < 3; i++) CU_ASSERT(weft_options_next(&rest, &part) && weft_str_is(part, parts[i]));
  CU_ASSERT(!weft_options_next(&rest, &part));
  CU_ASSERT_PTR_NULL_FATAL(weft_options_parse("t", defs, NUM_OPTIONS, WEFT_STR("mode=sync,count=0,"), v));
  CU_ASSERT(v[OPTION_count].i == 0);
}

static void bad_options_are_named(void) {
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"count=x", "option 'count' cannot be 'x'"},
      {"count=-1", "'count'"},
      {"count=99999999999", "'count'"},
      {"size=3T", "'size'"},
      {"size=", "'size'"},
      {"size=9999999999G", "'size'"},
      {"rate=inf", "'rate'"},
      {"rate=1x", "'rate'"},
      {"rate=", "'rate'"},
      {"quick=maybe", "'quick'"},
      {"mode=fast", "sync|async"},
      {"speed=1", "no option 'speed'; there are count, size"},
      {"count=1,count=2", "given twice"},
      {"3,count=2", "given twice"},
      {"size=1,3", "no option '3'"},
      {"abc", "'count' cannot be 'abc'"},
      {"=4", "no option ''"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    weft_option_value_t v[NUM_OPTIONS];
    expect(weft_options_parse("t", defs, NUM_OPTIONS, weft_str(bad[i].text), v), WEFT_INVALID_ARGUMENT,
           bad[i].message);
  }
}

static weft_status_t *say_things(weft_rewrite_t *r, weft_strbuf_t *text) {
  *r = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  r->cost = (weft_cost_t){.seconds = 0.25, .bytes = 30, .messages = 2, .bytes_per_replica = 8};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&r->graph));
  for (int i = 0; i < 5; i++) WEFT_RETURN_IF_ERROR(weft_rewrite_note(r, "note %d of %s", i, "five"));
  for (int i = 0; i < 3; i++) {
    WEFT_RETURN_IF_ERROR(
        weft_rewrite_crossing(r, WEFT_STR("a"), WEFT_STR("b"), WEFT_STR("gradients"), i == 2 ? -1 : 10 + i));
  }
  const weft_named_attr_t dtype = {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
  const weft_node_spec_t spec = {
      .name = WEFT_STR("x"), .op = WEFT_STR("Placeholder"), .attrs = &dtype, .num_attrs = 1};
  weft_node_t *x = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(r->graph, &spec, &x));
  for (int i = 0; i < 3; i++) {
    weft_axis_sharding_t s = i < 2 ? weft_sharding_shard(0, 0) : weft_sharding_partial(1);
    WEFT_RETURN_IF_ERROR(weft_rewrite_sharding(r, (weft_output_t){x, i}, &s));
  }
  r->strategy = weft_strategies[0];
  return weft_strategy_explain(r, text);
}

static void explanations_hold_notes_and_crossings(void) {
  weft_rewrite_t r;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(say_things(&r, &text));
  weft_strbuf_putc(&text, '\0');
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "note 4 of five\n"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "21 B + ? in 3 messages"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "250.00 ms"));
  CU_ASSERT_PTR_NOT_NULL(
      strstr(text.data, "shardings    2 Shard(0); 1 Partial(sum), degree 1; others Replicate\n"));
  CU_ASSERT_PTR_NULL(strstr(text.data, "gradients"));
  text.length--;
  CU_ASSERT_PTR_NULL_FATAL(weft_strategy_print_details(&r, &text));
  weft_strbuf_putc(&text, '\0');
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "a -> b: 11 B, gradients"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "a -> b: ?, gradients"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "x:2: Partial(sum), degree 1\n"));
  weft_strbuf_deinit(&text);
  weft_rewrite_deinit(&r);
  weft_rewrite_deinit(NULL);
}

static weft_status_t *say_and_forget(void) {
  weft_rewrite_t r;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = say_things(&r, &text);
  weft_strbuf_deinit(&text);
  weft_rewrite_deinit(&r);
  return s;
}

static void running_out_of_memory_is_reported(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, say_and_forget());
  CU_ASSERT(n > 0);
}

static const CU_TestInfo tests[] = {
    {"every strategy of the list is found", every_strategy_of_the_list_is_found},
    {"options have values and defaults", options_have_values_and_defaults},
    {"bad options are named", bad_options_are_named},
    {"explanations hold notes and crossings", explanations_hold_notes_and_crossings},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/strategy", tests); }
