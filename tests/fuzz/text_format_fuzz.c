/* tests/fuzz/text_format_fuzz.c - .pbtxt graphs, and binary ones that are to be printed. */
#include "protos/text_format.h"

#include "protos/graph.pb-c.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/unpack.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("node { name: 'a' op: \"Const\" attr { key: 'dtype' value { type: DT_FLOAT } } }"),
    WEFT_FUZZ_BYTES("node: [<name: 'a';>, {input: ['x', \"y\" 'z']},] versions { producer: 0x10 "
                    "bad_consumers: [1, -2] }"),
    WEFT_FUZZ_BYTES("node { attr { key: '\\001\\x41\\u00e9\\U0001F600' value { list { f: [1.5f, -inf, nan, "
                    "1e-40] } } } } # c"),
    WEFT_FUZZ_BYTES(
        "library { function { signature { name: 'f' } ret { key: 'a' value: 'b' } arg_attr { key: 1 } } }"),
    WEFT_FUZZ_BYTES("node { experimental_type { args { args { args { type_id: TFT_PRODUCT s: 'x' } } } } }"),
    WEFT_FUZZ_BYTES(
        "collection_def { key: 'x' value { any_list { value { [type.googleapis.com/tensorflow.AssetFileDef] {"
        " filename: 'f' } } } } }"),
    WEFT_FUZZ_FILE("tests/protos/testdata/function_graph.pbtxt"),
    WEFT_FUZZ_FILE("tests/protos/testdata/function_graph.pb"),
    WEFT_FUZZ_FILE("tests/protos/testdata/any.pb"),
    WEFT_FUZZ_END,
};

/* What was printed can be read, and prints the same again. */
static void check_text(const ProtobufCMessageDescriptor *d, weft_str_t bytes) {
  weft_strbuf_t text = WEFT_STRBUF_INIT, binary = WEFT_STRBUF_INIT, again = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_from_binary(d, bytes, &text);
  if (s == NULL) {
    s = weft_text_to_binary(d, weft_str_of(text.data, text.length), "printed", &binary);
    weft_fuzz_check(s == NULL, weft_status_message(s));
    s = weft_text_from_binary(d, weft_str_of(binary.data, binary.length), &again);
    weft_fuzz_check(
        s == NULL && weft_str_eq(weft_str_of(text.data, text.length), weft_str_of(again.data, again.length)),
        "a text changes when it is read and printed");
  }
  weft_status_free(s);
  weft_strbuf_deinit(&text);
  weft_strbuf_deinit(&binary);
  weft_strbuf_deinit(&again);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  static const ProtobufCMessageDescriptor *const types[] = {&tensorflow__graph_def__descriptor,
                                                            &tensorflow__meta_graph_def__descriptor};
  weft_str_t input = weft_str_of((const char *)data, size);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    weft_strbuf_t binary = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_text_to_binary(types[i], input, "fuzz", &binary);
    if (s == NULL) check_text(types[i], weft_str_of(binary.data, binary.length));
    weft_status_free(s);
    weft_strbuf_deinit(&binary);
    check_text(types[i], input);
  }
}
