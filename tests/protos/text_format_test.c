#include "protos/text_format.h"

#include <locale.h>
#include <stdio.h>

#include "protos/config.pb-c.h"
#include "protos/full_type.pb-c.h"
#include "protos/graph.pb-c.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/saved_model.pb-c.h"
#include "protos/unpack.h"
#include "tests/runner.h"

#define GRAPH &tensorflow__graph_def__descriptor
#define ATTR &tensorflow__attr_value__descriptor

static weft_str_t view(const weft_strbuf_t *b) { return weft_str_of(b->data, b->length); }

/* The file tests/protos/testdata/<name>; the caller deinits it. */
static weft_strbuf_t read_file(const char *name) {
  char path[256];
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  snprintf(path, sizeof path, "tests/protos/testdata/%s", name);
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(&b, weft_str_of(block, n));
  fclose(f);
  return b;
}

/* The text of what `text` means, or the error's message. */
static const char *again(const ProtobufCMessageDescriptor *d, const char *text, char out[512]) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT, printed = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_to_binary(d, weft_str(text), "t", &bytes);
  if (s == NULL) s = weft_text_from_binary(d, view(&bytes), &printed);
  snprintf(out, 512, "%.*s", s == NULL ? (int)printed.length : (int)strlen(weft_status_message(s)),
           s == NULL ? (printed.data == NULL ? "" : printed.data) : weft_status_message(s));
  if (s != NULL) CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_strbuf_deinit(&bytes);
  weft_strbuf_deinit(&printed);
  return out;
}
#define AGAIN(d, text, expected)                            \
  do {                                                      \
    char out_[512];                                         \
    CU_ASSERT_STRING_EQUAL(again(d, text, out_), expected); \
  } while (0)

static const struct fixture {
  const char *name;
  const ProtobufCMessageDescriptor *d;
} fixtures[] = {
    {"train_graph", &tensorflow__graph_def__descriptor},
    {"function_graph", &tensorflow__graph_def__descriptor},
    {"config", &tensorflow__config_proto__descriptor},
    {"saved_model", &tensorflow__saved_model__descriptor},
    {"run_metadata", &tensorflow__run_metadata__descriptor},
    {"any", &tensorflow__meta_graph_def__descriptor},
};
enum { NUM_FIXTURES = sizeof fixtures / sizeof fixtures[0] };

static void real_files_print_as_tensorflow_prints_them(void) {
  for (int i = 0; i < NUM_FIXTURES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.pb", fixtures[i].name);
    weft_strbuf_t binary = read_file(name), printed = WEFT_STRBUF_INIT;
    snprintf(name, sizeof name, "%s.pbtxt", fixtures[i].name);
    weft_strbuf_t text = read_file(name);
    CU_ASSERT_PTR_NULL(weft_text_from_binary(fixtures[i].d, view(&binary), &printed));
    CU_ASSERT(text.length > 100 && weft_str_eq(view(&text), view(&printed)));
    weft_strbuf_deinit(&binary);
    weft_strbuf_deinit(&text);
    weft_strbuf_deinit(&printed);
  }
}

static void real_files_read_back_to_what_they_were(void) {
  for (int i = 0; i < NUM_FIXTURES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.pbtxt", fixtures[i].name);
    weft_strbuf_t text = read_file(name), printed = WEFT_STRBUF_INIT;
    ProtobufCMessage *m = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_text_parse(fixtures[i].d, view(&text), name, &m));
    CU_ASSERT_PTR_NULL(weft_text_print(m, &printed));
    CU_ASSERT(weft_str_eq(view(&text), view(&printed)));
    weft_proto_free(m);
    weft_strbuf_deinit(&text);
    weft_strbuf_deinit(&printed);
  }
}

static void what_people_write_is_understood(void) {
  AGAIN(GRAPH, "# nothing but a comment", "");
  AGAIN(GRAPH, "version:3", "version: 3\n");
  AGAIN(GRAPH, "versions { producer: 0x10 min_consumer: 010 }",
        "versions {\n  producer: 16\n  min_consumer: 8\n}\n");
  AGAIN(GRAPH, "versions: < producer: - 5; bad_consumers: [1, 2], bad_consumers: 3 >",
        "versions {\n  producer: -5\n  bad_consumers: 1\n  bad_consumers: 2\n  bad_consumers: 3\n}\n");
  AGAIN(GRAPH, "node: [{name: 'a'}, <name: \"b\" 'c' \"d\" # more\n  'e'>]",
        "node {\n  name: \"a\"\n}\nnode {\n  name: \"bcde\"\n}\n");
  AGAIN(GRAPH, "node { input: [] } node { input: ['x'] }", "node {\n}\nnode {\n  input: \"x\"\n}\n");
}

static void strings_take_every_escape(void) {
  AGAIN(ATTR, "s: \"\\a\\b\\f\\n\\r\\t\\v\\?\\'\\\"\\\\\"",
        "s: \"\\007\\010\\014\\n\\r\\t\\013?\\'\\\"\\\\\"\n");
  AGAIN(ATTR, "s: \"\\1\\12\\123\\1234\\x4\\x41\\x414\"", "s: \"\\001\\nSS4\\004AA4\"\n");
  AGAIN(ATTR, "s: \"\\u00e9\\U0001F600\\ud83d\\ude00\"",
        "s: \"\\303\\251\\360\\237\\230\\200\\360\\237\\230\\200\"\n");
  AGAIN(ATTR, "s: \"\\377\\0\"", "s: \"\\377\\000\"\n");
  AGAIN(ATTR, "s: \"\\400\"", "t:1:5: Invalid escape sequence in string literal.");
  AGAIN(ATTR, "s: \"a\\q\"", "t:1:6: Invalid escape sequence in string literal.");
  AGAIN(ATTR, "s: \"\\ud83d\"", "t:1:5: Invalid escape sequence in string literal.");
  AGAIN(ATTR, "s: \"\\u12\"", "t:1:5: Invalid escape sequence in string literal.");
  AGAIN(ATTR, "placeholder: \"\\377\"", "t:1:14: Field \"placeholder\" contains invalid UTF-8.");
}

static void numbers_take_every_spelling(void) {
  AGAIN(ATTR, "f: 1.f", "f: 1.0\n");
  AGAIN(ATTR, "f: 1e3F", "f: 1000.0\n");
  AGAIN(ATTR, "f: .5", "f: 0.5\n");
  AGAIN(ATTR, "f: 3", "f: 3.0\n");
  AGAIN(ATTR, "f: -inf", "f: -inf\n");
  AGAIN(ATTR, "f: Infinity", "f: inf\n");
  AGAIN(ATTR, "f: NaN", "f: nan\n");
  AGAIN(ATTR, "f: 1e99", "f: inf\n");
  AGAIN(ATTR, "f: 0.1", "f: 0.1\n");
  AGAIN(ATTR, "f: 16777217", "f: 16777216.0\n");
  AGAIN(ATTR, "f: 0x10", "t:1:4: Expected a decimal number, found \"0x10\".");
  AGAIN(ATTR, "i: -9223372036854775808", "i: -9223372036854775808\n");
  AGAIN(ATTR, "i: 9223372036854775808", "t:1:4: Integer out of range (9223372036854775808).");
  AGAIN(ATTR, "i: 089", "t:1:4: Expected an octal number after a leading \"0\", found \"089\".");
  AGAIN(ATTR, "b: t", "b: true\n");
  AGAIN(ATTR, "b: False", "b: false\n");
  AGAIN(ATTR, "b: 1", "b: true\n");
  AGAIN(ATTR, "b: 2", "t:1:4: Integer out of range (2).");
  AGAIN(ATTR, "b: yes", "t:1:4: Expected \"true\" or \"false\", found \"yes\".");
  AGAIN(ATTR, "type: DT_FLOAT", "type: DT_FLOAT\n");
  AGAIN(ATTR, "type: 3", "type: DT_INT32\n");
  AGAIN(ATTR, "type: 99", "type: 99\n");
  AGAIN(ATTR, "list { f: [1, 1e10, 1e16, 1e-4, 1e-5, 3.4e38] }",
        "list {\n  f: 1.0\n  f: 10000000000.0\n  f: 1e+16\n  f: 0.0001\n  f: 1e-05\n  f: 3.4e+38\n}\n");
}

static void zeros_stay_in_a_oneof_and_go_elsewhere(void) {
  AGAIN(ATTR, "i: 0", "i: 0\n");
  AGAIN(ATTR, "s: \"\"", "s: \"\"\n");
  AGAIN(ATTR, "list {}", "list {\n}\n");
  AGAIN(GRAPH, "version: 0 node { name: '' }", "node {\n}\n");
}

static void maps_are_sorted_and_the_last_of_equal_keys_counts(void) {
  AGAIN(GRAPH,
        "node { attr { key: 'b' value { i: 1 } } attr { key: 'a' value { b: true } } attr { key: 'b' } }",
        "node {\n  attr {\n    key: \"a\"\n    value {\n      b: true\n    }\n  }\n"
        "  attr {\n    key: \"b\"\n    value {\n    }\n  }\n}\n");
  AGAIN(&tensorflow__job_def__descriptor,
        "tasks { key: 10 value: 'x' } tasks { key: -2 value: 'y' } tasks { value: 'z' }",
        "tasks {\n  key: -2\n  value: \"y\"\n}\ntasks {\n  value: \"z\"\n}\ntasks {\n  key: 10\n  value: "
        "\"x\"\n}\n");
}

static void errors_say_where_and_what(void) {
  AGAIN(GRAPH, "node {\n  nam: 'x'\n}",
        "t:2:3: Message type \"tensorflow.NodeDef\" has no field named \"nam\".");
  AGAIN(GRAPH, "node {\n  name: 'x'\n  name: 'y'\n}",
        "t:3:3: Non-repeated field \"name\" is specified multiple times.");
  AGAIN(GRAPH, "library {} library {}",
        "t:1:12: Non-repeated field \"library\" is specified multiple times.");
  AGAIN(ATTR, "i: 1\ns: 'q'",
        "t:2:1: Field \"s\" is specified along with field \"i\", another member of the same oneof.");
  AGAIN(ATTR, "type: DT_FLOATY",
        "t:1:7: Unknown enumeration value of \"DT_FLOATY\" for field \"type\" of type tensorflow.DataType.");
  AGAIN(GRAPH, "node { name 'x' }", "t:1:13: Expected \":\", found 'x'.");
  AGAIN(GRAPH, "node { name: x }", "t:1:14: Expected a string, found \"x\".");
  AGAIN(GRAPH, "node 5", "t:1:6: Expected \"{\", found \"5\".");
  AGAIN(GRAPH, "node {", "t:1:7: Expected a field name, found the end of the text.");
  AGAIN(GRAPH, "node { >", "t:1:8: Expected a field name, found \">\".");
  AGAIN(GRAPH, "}", "t:1:1: Expected a field name, found \"}\".");
  AGAIN(GRAPH, "node { name: 'x", "t:1:14: Unexpected end of string.");
  AGAIN(GRAPH, "node { name: 'x\n' }", "t:1:14: String literals cannot cross line boundaries.");
  AGAIN(GRAPH, "version: 3x", "t:1:10: Need space between number and identifier.");
  AGAIN(GRAPH, "version: 1.5", "t:1:10: Expected an integer, found \"1.5\".");
  AGAIN(GRAPH, "version: [1]", "t:1:10: Expected an integer, found \"[\".");
  AGAIN(GRAPH, "versions { bad_consumers: [1,] }", "t:1:30: Expected an integer, found \"]\".");
  AGAIN(GRAPH, "\xef", "t:1:1: Unexpected byte \\xef outside of a string.");
  AGAIN(GRAPH, "[foo.bar] { }", "t:1:1: Expected a field name, found \"[\".");
}

static void nesting_has_a_limit(void) {
  weft_strbuf_t text = WEFT_STRBUF_INIT, bytes = WEFT_STRBUF_INIT;
  for (int i = 0; i < 100000; i++) weft_strbuf_puts(&text, "args{");
  weft_status_t *s = weft_text_to_binary(&tensorflow__full_type_def__descriptor, view(&text), "deep", &bytes);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "too deep"));
  weft_status_free(s);
  weft_strbuf_deinit(&text);
  weft_strbuf_deinit(&bytes);
}

static void any_is_shown_as_what_it_holds(void) {
  const ProtobufCMessageDescriptor *d = &tensorflow__collection_def__any_list__descriptor;
  AGAIN(d, "value { [type.googleapis.com/tensorflow.AssetFileDef] { filename: 'f' } }",
        "value {\n  [type.googleapis.com/tensorflow.AssetFileDef] {\n    filename: \"f\"\n  }\n}\n");
  AGAIN(d, "value { type_url: 'x/y.Z' value: '\\001' }",
        "value {\n  type_url: \"x/y.Z\"\n  value: \"\\001\"\n}\n");
  AGAIN(d, "value { [type.googleapis.com/no.Such] {} }",
        "t:1:9: Unknown type \"type.googleapis.com/no.Such\" in google.protobuf.Any.");
}

static void lists_of_scalars_are_packed(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL(weft_text_to_binary(&tensorflow__attr_value__list_value__descriptor,
                                         WEFT_STR("i: 1 i: [2, 3] i: 300"), NULL, &b));
  CU_ASSERT(weft_str_eq(view(&b), weft_str_of("\x1a\x05\x01\x02\x03\xac\x02", 7)));
  weft_strbuf_deinit(&b);
}

static weft_status_t *there_and_back(void) {
  static const char text[] =
      "node { name: 'a' attr { key: 'k' value { list { i: [1, 2] s: 'x' } } } attr { key: 'j' } } versions { "
      "producer: 1 }";
  weft_strbuf_t printed = WEFT_STRBUF_INIT;
  ProtobufCMessage *m = NULL;
  weft_status_t *s = weft_text_parse(GRAPH, weft_str(text), NULL, &m);
  if (s == NULL) s = weft_text_print(m, &printed);
  weft_proto_free(m);
  weft_strbuf_deinit(&printed);
  return s;
}

static void failed_allocations_are_reported(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, there_and_back());
  CU_ASSERT(n > 5);
}

static void messages_are_looked_at_before_they_are_unpacked(void) {
  ProtobufCMessage *m = NULL;
  weft_status_t *s =
      weft_proto_unpack(GRAPH, weft_str_of("\x0a\x03\x0a\x01\xff", 5), &m); /* a name of byte 255 */
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "field 'name' of message tensorflow.NodeDef is not UTF-8");
  weft_status_free(s);
  s = weft_proto_unpack(GRAPH, weft_str_of("\x0a\x03\x0a\x05x", 5), &m);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "malformed message tensorflow.NodeDef");
  weft_status_free(s);
  weft_strbuf_t deep = WEFT_STRBUF_INIT; /* a message that nests 101 deep, built from the inside */
  for (int i = 0; i < WEFT_PROTO_MAX_DEPTH; i++) {
    weft_strbuf_t outer = WEFT_STRBUF_INIT;
    weft_strbuf_putc(&outer, 0x12);
    for (size_t n = deep.length; true; n >>= 7) {
      weft_strbuf_putc(&outer, (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)));
      if (n <= 0x7f) break;
    }
    weft_strbuf_append(&outer, view(&deep));
    weft_strbuf_deinit(&deep);
    deep = outer;
  }
  s = weft_proto_unpack(&tensorflow__full_type_def__descriptor, view(&deep), &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_strbuf_deinit(&deep);
  CU_ASSERT_PTR_NULL(weft_proto_unpack(GRAPH, weft_str_of(NULL, 0), &m));
  weft_proto_free(m);
}

static const CU_TestInfo tests[] = {
    {"real files print as TensorFlow prints them", real_files_print_as_tensorflow_prints_them},
    {"real files read back to what they were", real_files_read_back_to_what_they_were},
    {"what people write is understood", what_people_write_is_understood},
    {"strings take every escape", strings_take_every_escape},
    {"numbers take every spelling", numbers_take_every_spelling},
    {"zeros stay in a oneof and go elsewhere", zeros_stay_in_a_oneof_and_go_elsewhere},
    {"maps are sorted and the last of equal keys counts", maps_are_sorted_and_the_last_of_equal_keys_counts},
    {"errors say where and what", errors_say_where_and_what},
    {"nesting has a limit", nesting_has_a_limit},
    {"Any is shown as what it holds", any_is_shown_as_what_it_holds},
    {"lists of scalars are packed", lists_of_scalars_are_packed},
    {"failed allocations are reported", failed_allocations_are_reported},
    {"messages are looked at before they are unpacked", messages_are_looked_at_before_they_are_unpacked},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("text_format", tests); }
