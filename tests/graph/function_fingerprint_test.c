#include "graph/function_fingerprint.h"

#include "protos/wire.h"
#include "tests/runner.h"

/* map<string, AttrValue> entry {name: text}. */
static void put_attr(weft_strbuf_t *b, uint32_t field, const char *name, const char *text) {
  size_t entry = weft_wire_begin(b, field);
  weft_wire_put_text(b, 1, name);
  size_t value = weft_wire_begin(b, 2);
  weft_wire_put_text(b, 2, text);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

/* arg_attr[index] = {first, second}. */
static void put_arg(weft_strbuf_t *b, uint64_t index, const char *first, const char *second) {
  size_t entry = weft_wire_begin(b, 7);
  weft_wire_add_varint(b, 1, index);
  size_t attrs = weft_wire_begin(b, 2);
  put_attr(b, 1, first, first);
  put_attr(b, 1, second, second);
  weft_wire_end(b, attrs);
  weft_wire_end(b, entry);
}

static uint64_t fingerprint(weft_strbuf_t *b) {
  uint64_t f = weft_function_fingerprint(weft_str_of(b->data, b->length));
  weft_strbuf_deinit(b);
  return f;
}

static void the_order_of_attributes_does_not_matter(void) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  put_attr(&a, 5, "x", "1");
  put_attr(&a, 5, "y", "2");
  put_attr(&b, 5, "y", "2");
  put_attr(&b, 5, "x", "1");
  CU_ASSERT_EQUAL(fingerprint(&a), fingerprint(&b));
}

static void the_order_inside_attributes_of_arguments_does_not_matter(void) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  put_arg(&a, 0, "_output_shapes", "_user_specified_name");
  put_arg(&a, 1, "u", "v");
  put_arg(&b, 1, "v", "u");
  put_arg(&b, 0, "_user_specified_name", "_output_shapes");
  CU_ASSERT_EQUAL(fingerprint(&a), fingerprint(&b));
}

static void another_value_or_argument_is_another_function(void) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT, c = WEFT_STRBUF_INIT;
  put_arg(&a, 0, "u", "v");
  put_arg(&b, 0, "u", "w");
  put_arg(&c, 1, "u", "v");
  uint64_t first = fingerprint(&a);
  CU_ASSERT_NOT_EQUAL(first, fingerprint(&b));
  CU_ASSERT_NOT_EQUAL(first, fingerprint(&c));
}

static const CU_TestInfo tests[] = {
    {"the order of attributes does not matter", the_order_of_attributes_does_not_matter},
    {"the order inside attributes of arguments does not matter",
     the_order_inside_attributes_of_arguments_does_not_matter},
    {"another value or argument is another function", another_value_or_argument_is_another_function},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("function_fingerprint", tests); }
