/* tests/fuzz/record_op_fuzz.c - records from outside: compressed, raw, tensors, examples with lists of
 * features, messages, serialized sparse tensors. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/op_fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    /* "abcabcabcabc" as gzip, as zlib */
    WEFT_FUZZ_BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xffKLJN\x84!\x00"
                    "4*nZ\x0c\x00\x00\x00"),
    WEFT_FUZZ_BYTES("x\x9cKLJN\x84!\x00\x1d\xe0\x04\x99"),
    /* TensorProtos: int64[2], string[2] */
    WEFT_FUZZ_BYTES("\x08\x09\x12\x04\x12\x02\x08\x02\x22\x10\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"
                    "\x00\x00\x00\x00"),
    WEFT_FUZZ_BYTES("\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01"
                    "a\x42\x02"
                    "bc"),
    /* a variant that holds a tensor */
    WEFT_FUZZ_BYTES(
        "\x08\x15\x12\x00\x7a\x1e\x0a\x12tensorflow::Tensor\x1a\x08\x08\x03\x12\x00\x3a\x02\x05\x06"),
    /* SequenceExample: context a = [1]; feature list b = [[1.0, 2.0]] */
    WEFT_FUZZ_BYTES("\x0a\x0c\x0a\x0a\x0a\x01"
                    "a\x12\x05\x1a\x03\x0a\x01\x01\x12\x17\x0a\x15\x0a\x01"
                    "b\x12\x10\x0a\x0e\x12\x0c"
                    "\x0a\x0a\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00"),
    WEFT_FUZZ_END,
};

static const weft_fuzz_op_t ops[] = {
    {"DecodeCompressed", "compression_type=GZIP", "$"},
    {"DecodeCompressed", "compression_type=ZLIB", "$"},
    {"DecodeRaw", "out_type=int32 little_endian=false", "$"},
    {"DecodeRaw", "out_type=bool", "$"},
    {"DecodePaddedRaw", "out_type=int16", "$ int32[]:8"},
    {"ParseTensor", "out_type=int64", "$"},
    {"ParseTensor", "out_type=string", "$"},
    {"ParseTensor", "out_type=variant", "$"},
    {"ParseSequenceExampleV2",
     "Ncontext_sparse=1 context_sparse_types=[int64] Nfeature_list_sparse=1 "
     "feature_list_sparse_types=[string] "
     "Nfeature_list_dense=1 feature_list_dense_types=[float] feature_list_dense_shapes=[[2]] "
     "feature_list_ragged_value_types=[int64] feature_list_ragged_split_types=[int32]",
     "$ string[0]: string[1]:'a' string[0]: string[0]: string[1]:'c' string[1]:'b' string[1]:'d' bool[1]:1"},
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_fuzz_ops(ops, sizeof ops / sizeof ops[0], data, size);
}
