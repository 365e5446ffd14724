/* tests/fuzz/data_files_fuzz.c - the first record, or the first line, of files that are given as data, and
 * the pipeline that is made of what they say. The first byte chooses the kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/record_writer.h"
#include "tests/fuzz/fuzz.h"
#include "tools/run/data_graph.h"

/* A record of {"n": int64 [7], "t": bytes ["a"]}, without its frame. */
const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00"
                    "\n\x1b\n\x0c\n\x01n\x12\x07\x1a\x05\n\x03\x07\x08\x09\n\x0b\n\x01t\x12\x06\n\x04\n\x02"
                    "ab"),
    WEFT_FUZZ_BYTES("\x01"
                    "\"n\",t,other name\n1,2,3\n"),
    WEFT_FUZZ_BYTES("\x02"
                    "n\tt\r\n"),
    WEFT_FUZZ_END,
};

static const char *const names[] = {"fuzz.tfrecord", "fuzz.csv", "fuzz.tsv"};
static char path[512];

static void write_file(int kind, const uint8_t *data, size_t size) {
  const char *dir = getenv("TEST_TMPDIR");
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  (void)snprintf(path, sizeof path, "%s/%s", dir == NULL ? "/tmp" : dir, names[kind]);
  if (kind == 0) { /* the frame is fuzzed by record_fuzz */
    weft_record_put(&record, weft_str_of((const char *)data, size));
    data = (const uint8_t *)record.data;
    size = record.length;
  }
  FILE *f = fopen(path, "we");
  weft_fuzz_check(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0, "no file");
  weft_strbuf_deinit(&record);
}

/* An entry that wants the first fields. */
static void attach(const weft_data_files_t *d) {
  weft_signature_tensor_t inputs[] = {
      {WEFT_STR("x"), WEFT_STR("x:0"), WEFT_F32, weft_shape_vector(WEFT_UNKNOWN_DIM)},
      {WEFT_STR("y"), WEFT_STR("y:0"), WEFT_STRING, weft_shape_vector(WEFT_UNKNOWN_DIM)}};
  const weft_signature_def_t signature = {
      .key = WEFT_STR("train"), .inputs = inputs, .num_inputs = d->num_fields < 2 ? 1 : 2};
  const weft_data_graph_options_t o = {.option = "--data", .batch = 2, .epochs = 1, .is_shuffled = true};
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_str_t init;
  for (int i = 0; i < signature.num_inputs; i++) inputs[i].key = d->fields[i].name;
  weft_status_free(weft_data_graph_attach(d, &signature, &o, WEFT_STR(""), &graph, &arena, &init));
  weft_strbuf_deinit(&graph);
  weft_arena_deinit(&arena);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  if (size == 0) return;
  const char *paths[] = {path};
  const weft_option_texts_t texts = {paths, 1};
  weft_data_files_t d;
  write_file(data[0] % 3, data + 1, size - 1);
  weft_status_t *s = weft_data_files_open(&texts, &d);
  weft_fuzz_check(s != NULL || d.num_fields > 0, "files without fields");
  if (s == NULL) attach(&d);
  weft_status_free(s);
  weft_data_files_close(&d);
}
