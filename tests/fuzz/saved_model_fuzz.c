/* tests/fuzz/saved_model_fuzz.c - SavedModels, binary and text: their signatures, collections, assets, init
 * ops. */
#include "saved_model/saved_model.h"

#include "protos/saved_model.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "protos/wire.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x12\x0a\x0a\x02\x22\x00\x12\x04\x0a\x02\x0a\x00"),
    WEFT_FUZZ_BYTES("\x12\xff\xff\xff\xff\x0f"),
    WEFT_FUZZ_BYTES("meta_graphs { meta_info_def { tags: 'serve' } graph_def { node { name: 'c' op: 'Const' "
                    "attr { key: 'value' "
                    "value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } } } } } } "
                    "saver_def { filename_tensor_name: 'f:0' restore_op_name: 'r' } }"),
    WEFT_FUZZ_BYTES(
        "meta_graphs { signature_def { key: 's' value { inputs { key: 'x' value { name: 'x:0' dtype: "
        "DT_FLOAT "
        "tensor_shape { dim { size: -1 } } } } outputs { key: 'y' value { coo_sparse { values_tensor_name: "
        "'v:0' } "
        "} } outputs { key: 'z' value { composite_tensor { components { name: 'a:0' } components { "
        "composite_tensor { components { name: 'b' } } } } } } method_name: 'm' } } }"),
    WEFT_FUZZ_BYTES(
        "meta_graphs { asset_file_def { tensor_info { name: 'a:0' } filename: '../x' } collection_def { key: "
        "'saved_model_main_op' value { node_list { value: 'init' } } } }"),
    WEFT_FUZZ_BYTES(
        "meta_graphs { collection_def { key: 'saved_model_assets' value { any_list { value { "
        "[type.googleapis.com/tensorflow.AssetFileDef] { filename: 'f' } } } } } collection_def { key: 'n' "
        "value { "
        "int64_list { value: [1, 300] } } } collection_def { key: 'f' value { float_list { value: 1 } } } "
        "signature_def { key: '__saved_model_init_op' value { outputs { key: '__saved_model_init_op' value { "
        "name: "
        "'init' } } } } }"),
    WEFT_FUZZ_END,
};

static void look_at(const weft_signature_def_t *s) {
  size_t n = s->key.length + s->method.length;
  for (int i = 0; i < s->num_inputs; i++) n += s->inputs[i].key.length + s->inputs[i].tensor.length;
  for (int i = 0; i < s->num_outputs; i++) n += s->outputs[i].key.length + s->outputs[i].tensor.length;
  weft_fuzz_check(n < (size_t)1 << 30, "a signature is larger than its file");
}

static void read_graph(weft_str_t bytes) {
  static char directory[] = "/nowhere";
  const weft_saved_model_t model = {.directory = directory};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_meta_graph_t m;
  weft_model_start_t start;
  weft_status_t *s = weft_meta_graph_read(bytes, &m);
  for (int i = 0; s == NULL && i < m.num_signatures; i++) look_at(&m.signatures[i]);
  weft_status_free(s);
  weft_status_free(weft_meta_graph_check_constants(&m));
  s = weft_saved_model_start(&model, &m, &arena, &start);
  weft_fuzz_check(s != NULL || start.num_paths >= 0, "a start with less than no files");
  weft_status_free(s);
  weft_meta_graph_deinit(&m);
  weft_arena_deinit(&arena);
}

static void read_model(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_status_t *s = weft_proto_check(&tensorflow__saved_model__descriptor, bytes);
  while (s == NULL && weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) read_graph(f.bytes);
  }
  weft_status_free(s);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_str_t input = weft_str_of((const char *)data, size);
  weft_strbuf_t binary = WEFT_STRBUF_INIT;
  read_model(input);
  weft_status_t *s = weft_text_to_binary(&tensorflow__saved_model__descriptor, input, "fuzz", &binary);
  if (s == NULL && binary.length > 0) read_model(weft_str_of(binary.data, binary.length));
  weft_status_free(s);
  weft_strbuf_deinit(&binary);
}
