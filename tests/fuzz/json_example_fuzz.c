/* tests/fuzz/json_example_fuzz.c - Examples written as JSON, as DecodeJSONExample reads them. What comes out
 * must be a message. */
#include "kernels/cpu/parsing/json_example.h"
#include "protos/wire.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("{\"features\":{\"feature\":{\"b\":{\"int64List\":{\"value\":[1,\"2\",-3,1e3]}},"
                    "\"a\":{\"floatList\":{\"value\":[1.5,\"NaN\",-2]}}}}}"),
    WEFT_FUZZ_BYTES(
        "{'features':{feature:{\"s\\u00e9\\ud83d\\ude00\":{bytes_list:{value:[\"YWJj\",\"_-8=\",null,]}}}}}"),
    WEFT_FUZZ_BYTES(
        "{\"features\":{\"feature\":{\"a\":null,\"b\":{\"int64List\":{\"value\":5}}}},\"features\":null}"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_example_from_json(weft_str_of((const char *)data, size), &out);
  if (s == NULL) weft_fuzz_check(weft_wire_is_message(weft_str_of(out.data, out.length)), "not a message");
  weft_status_free(s);
  weft_strbuf_deinit(&out);
}
