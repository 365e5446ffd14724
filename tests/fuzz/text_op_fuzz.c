/* tests/fuzz/text_op_fuzz.c - texts from outside: CSV, numbers, Unicode in several encodings. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/op_fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("1,2.5,\"a \"\"b\"\", c\",7"),
    WEFT_FUZZ_BYTES("-12,NA,,\"\"\r\n"),
    WEFT_FUZZ_BYTES(" 0x1.8p3 "),
    WEFT_FUZZ_BYTES("-1e-400"),
    WEFT_FUZZ_BYTES("stra\xc3\x9f"
                    "e \xe6\x97\xa5\xf0\x9f\x98\x80\xff"),
    WEFT_FUZZ_BYTES("\xd8\x3d\xde\x00\x00\x41"),
    WEFT_FUZZ_END,
};

static const weft_fuzz_op_t ops[] = {
    {"DecodeCSV", "OUT_TYPE=[int32,float,string,int64]", "$ int32[1]:0 float[1]:0 string[1]:'' int64[1]:1"},
    {"DecodeCSV", "OUT_TYPE=[string,double] use_quote_delim=false na_value=NA select_cols=[1,3]",
     "$ string[1]:'' double[1]:0"},
    {"StringToNumber", "out_type=float", "$"},
    {"StringToNumber", "out_type=double", "$"},
    {"StringToNumber", "out_type=int32", "$"},
    {"StringToNumber", "out_type=int64", "$"},
    {"UnicodeDecodeWithOffsets", "input_encoding='UTF-8' errors=replace", "$"},
    {"UnicodeDecodeWithOffsets", "input_encoding='UTF-16-BE' errors=ignore", "$"},
    {"UnicodeDecodeWithOffsets", "input_encoding='SHIFT_JIS' errors=strict", "$"},
    {"UnicodeTranscode", "input_encoding='UTF-8' output_encoding='UTF-16-BE' replace_control_characters=true",
     "$"},
    {"UnicodeTranscode", "input_encoding='UTF-32-BE' output_encoding='UTF-8'", "$"},
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_fuzz_ops(ops, sizeof ops / sizeof ops[0], data, size);
}
