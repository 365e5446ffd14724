/* tests/tools/graph_summary_test.c - what is found in a graph file, also in functions and for unknown ops. */
#include "tools/graph_summary.h"

#include "tests/runner.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"
#include "tools/graph_file.h"

#define FUNCTION                                                                                            \
  "library { function { signature { name: \"twice\" input_arg { name: \"x\" type: DT_FLOAT } output_arg { " \
  "name: \"y\" type: DT_FLOAT } } "                                                                         \
  "node_def { name: \"sum\" op: \"AddV2\" input: \"x\" input: \"x\" device: \"/job:w\" } "                  \
  "node_def { name: \"odd\" op: \"NoSuchOp\" input: \"sum:z:0\" input: \"^sum\" } ret { key: \"y\" value: " \
  "\"sum:z:0\" } } }\n"

static const char text[] = COUNTER NODE("call", "twice", "input: \"value:0\"")
    NODE("a \\\"quoted\\\" name", "NoOp", "device: \"/job:w\"") FUNCTION "versions { producer: 27 }";

static weft_strbuf_t read_graph(void) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  bool is_meta = true;
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_file_read(write_text("summary.pbtxt", text), &bytes, &is_meta));
  CU_ASSERT_FALSE(is_meta);
  return bytes;
}

static int64_t count_of(const weft_summary_count_t *c, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (weft_str_is(c[i].name, name)) return c[i].count;
  }
  return 0;
}

static void inputs_variables_outputs_ops_and_devices_are_found(void) {
  weft_strbuf_t bytes = read_graph();
  weft_graph_summary_t s;
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_summarize(weft_str_of(bytes.data, bytes.length), &s));
  CU_ASSERT_EQUAL(s.num_nodes, 8);
  CU_ASSERT_EQUAL(s.num_functions, 1);
  CU_ASSERT_EQUAL(s.producer, 27);
  CU_ASSERT_EQUAL_FATAL(s.num_inputs, 1);
  CU_ASSERT_TRUE(weft_str_is(s.inputs[0].name, "by") && s.inputs[0].dtype == WEFT_F32 &&
                 weft_summary_bytes(&s.inputs[0]) == -1);
  CU_ASSERT_EQUAL_FATAL(s.num_variables, 1);
  CU_ASSERT_TRUE(weft_str_is(s.variables[0].name, "v") && weft_summary_bytes(&s.variables[0]) == 4);
  CU_ASSERT_EQUAL_FATAL(s.num_outputs, 3);
  CU_ASSERT_TRUE(weft_str_is(s.outputs[0], "init") && weft_str_is(s.outputs[1], "call"));
  CU_ASSERT_EQUAL(count_of(s.ops, s.num_ops, "AddV2"), 1);
  CU_ASSERT_EQUAL(count_of(s.devices, s.num_devices, "/job:w"), 2);
  CU_ASSERT_EQUAL(s.num_unsupported, 1); /* a function's name is an op like any other */
  CU_ASSERT_EQUAL(count_of(s.unsupported, s.num_unsupported, "NoSuchOp"), 1);
  weft_graph_summary_deinit(&s);
  weft_strbuf_deinit(&bytes);
}

static void what_is_no_graph_is_refused(void) {
  weft_graph_summary_t s;
  weft_status_t *status = weft_graph_summarize(WEFT_STR("\xff\xff\xff"), &s);
  CU_ASSERT_EQUAL(weft_status_code(status), WEFT_INVALID_ARGUMENT);
  weft_status_free(status);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"inputs, variables, outputs, ops and devices are found",
       inputs_variables_outputs_ops_and_devices_are_found},
      {"what is no graph is refused", what_is_no_graph_is_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("graph summary", tests);
}
