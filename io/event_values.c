/* io/event_values.c - values with the marks of the plugins that show them. */
#include "io/event_values.h"

#include <math.h>
#include <stdlib.h>

#include "io/event_file.h"
#include "protos/wire.h"
#include "tensor/dtype.h"

/* Fields of Summary and its parts. */
enum {
  SUMMARY_VALUE = 1,
  VALUE_TAG = 1,
  VALUE_SIMPLE = 2,
  VALUE_TENSOR = 8,
  VALUE_METADATA = 9,
  METADATA_PLUGIN = 1,
  METADATA_DESCRIPTION = 3,
  PLUGIN_NAME = 1,
  PLUGIN_CONTENT = 2,
  TENSOR_DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_STRINGS = 8,
  SHAPE_DIM = 2,
};
/* Of RunMetadata and of TaggedRunMetadata. */
enum { RUN_FUNCTION_GRAPHS = 4, FUNCTION_GRAPH = 2, TAGGED_TAG = 1, TAGGED_METADATA = 2 };
/* Of HParamsPluginData and its parts; of google.protobuf.Value; of a map's entry. */
enum {
  HPARAMS_START = 3,
  HPARAMS_END = 4,
  START_HPARAMS = 1,
  START_SECONDS = 5,
  END_STATUS = 1,
  END_SECONDS = 2,
  STATUS_SUCCESS = 1,
  STATUS_FAILURE = 2,
  ANY_NUMBER = 2,
  ANY_TEXT = 3,
  ANY_BOOL = 4,
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2,
};

/* ---- values ---- */

static size_t begin_value(weft_strbuf_t *b, weft_str_t tag) {
  size_t value = weft_wire_begin(b, SUMMARY_VALUE);
  weft_wire_put_bytes(b, VALUE_TAG, tag);
  return value;
}

void weft_event_put_scalar(weft_strbuf_t *b, weft_str_t tag, float value, const char *description) {
  size_t mark = begin_value(b, tag);
  weft_wire_add_fixed32(b, VALUE_SIMPLE,
                        (uint32_t)weft_wire_float_bits(value)); /* 0, too: it says which it is */
  if (description != NULL) {
    size_t metadata = weft_wire_begin(b, VALUE_METADATA);
    weft_wire_put_text(b, METADATA_DESCRIPTION, description);
    weft_wire_end(b, metadata);
  }
  weft_wire_end(b, mark);
}

static void put_metadata(weft_strbuf_t *b, const char *plugin, weft_str_t content) {
  size_t metadata = weft_wire_begin(b, VALUE_METADATA);
  size_t data = weft_wire_begin(b, METADATA_PLUGIN);
  weft_wire_put_text(b, PLUGIN_NAME, plugin);
  weft_wire_put_bytes(b, PLUGIN_CONTENT, content);
  weft_wire_end(b, data);
  weft_wire_end(b, metadata);
}

/* A tensor that is a scalar string, up to its one element, which the caller appends. */
static size_t begin_string_tensor(weft_strbuf_t *b) {
  size_t tensor = weft_wire_begin(b, VALUE_TENSOR);
  weft_wire_put_i64(b, TENSOR_DTYPE, WEFT_STRING);
  weft_wire_add_bytes(b, TENSOR_SHAPE, weft_str_of("", 0));
  return tensor;
}

void weft_event_put_text(weft_strbuf_t *b, weft_str_t tag, weft_str_t text) {
  size_t value = begin_value(b, tag);
  put_metadata(b, "text", weft_str_of("", 0));
  size_t tensor = begin_string_tensor(b);
  weft_wire_add_bytes(b, TENSOR_STRINGS, text);
  weft_wire_end(b, tensor);
  weft_wire_end(b, value);
}

/* ---- graphs and statistics ---- */

void weft_event_put_graph(weft_strbuf_t *b, weft_str_t tag, weft_str_t graph_def, weft_str_t statistics) {
  bool has_statistics = statistics.length > 0;
  size_t value = begin_value(b, tag);
  put_metadata(b, has_statistics ? "graph_run_metadata" : "graph_run_metadata_graph", WEFT_STR("1"));
  size_t tensor = begin_string_tensor(b);
  size_t metadata = weft_wire_begin(b, TENSOR_STRINGS);
  weft_strbuf_append(b, statistics);
  size_t functions = weft_wire_begin(b, RUN_FUNCTION_GRAPHS);
  weft_wire_add_bytes(b, FUNCTION_GRAPH, graph_def);
  weft_wire_end(b, functions);
  weft_wire_end(b, metadata);
  weft_wire_end(b, tensor);
  weft_wire_end(b, value);
}

void weft_event_put_run_metadata(weft_strbuf_t *b, weft_str_t tag, weft_str_t statistics) {
  size_t tagged = weft_wire_begin(b, WEFT_EVENT_RUN_METADATA);
  weft_wire_put_bytes(b, TAGGED_TAG, tag);
  weft_wire_add_bytes(b, TAGGED_METADATA, statistics);
  weft_wire_end(b, tagged);
}

/* ---- hyperparameters ---- */

/* A value whose content is all in its metadata: a tensor of no elements stands for it. */
static void put_session(weft_strbuf_t *b, const char *tag, const weft_strbuf_t *content) {
  size_t value = begin_value(b, weft_str(tag));
  put_metadata(b, "hparams", weft_str_of(content->data, content->length));
  size_t tensor = weft_wire_begin(b, VALUE_TENSOR);
  weft_wire_put_i64(b, TENSOR_DTYPE, WEFT_F32);
  size_t shape = weft_wire_begin(b, TENSOR_SHAPE);
  weft_wire_add_bytes(b, SHAPE_DIM, weft_str_of("", 0)); /* of size 0 */
  weft_wire_end(b, shape);
  weft_wire_end(b, tensor);
  weft_wire_end(b, value);
  b->failed = b->failed || content->failed;
}

/* All of `text` as a finite number. */
static bool read_number(weft_str_t text, double *out) {
  char copy[64], *end = NULL;
  if (text.length == 0 || text.length >= sizeof copy) return false;
  memcpy(copy, text.data, text.length);
  copy[text.length] = '\0';
  if (strspn(copy, "+-.0123456789eE") != text.length) return false;
  *out = strtod(copy, &end);
  return end == copy + text.length && isfinite(*out);
}

static void put_hparam(weft_strbuf_t *b, const weft_event_hparam_t *h) {
  double number = 0;
  bool is_true = weft_str_is(h->value, "true");
  size_t entry = weft_wire_begin(b, START_HPARAMS);
  weft_wire_put_bytes(b, ENTRY_KEY, h->name);
  size_t value = weft_wire_begin(b, ENTRY_VALUE);
  if (is_true || weft_str_is(h->value, "false")) {
    weft_wire_add_varint(b, ANY_BOOL, is_true);
  } else if (read_number(h->value, &number)) {
    weft_wire_add_fixed64(b, ANY_NUMBER, weft_wire_double_bits(number));
  } else {
    weft_wire_add_bytes(b, ANY_TEXT, h->value);
  }
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

void weft_event_put_session_start(weft_strbuf_t *b, const weft_event_hparam_t *hparams, int n,
                                  double start_seconds) {
  weft_strbuf_t content = WEFT_STRBUF_INIT;
  size_t start = weft_wire_begin(&content, HPARAMS_START);
  for (int i = 0; i < n; i++) put_hparam(&content, &hparams[i]);
  weft_wire_put_double(&content, START_SECONDS, start_seconds);
  weft_wire_end(&content, start);
  put_session(b, "_hparams_/session_start_info", &content);
  weft_strbuf_deinit(&content);
}

void weft_event_put_session_end(weft_strbuf_t *b, bool is_success, double end_seconds) {
  weft_strbuf_t content = WEFT_STRBUF_INIT;
  size_t end = weft_wire_begin(&content, HPARAMS_END);
  weft_wire_put_i64(&content, END_STATUS, is_success ? STATUS_SUCCESS : STATUS_FAILURE);
  weft_wire_put_double(&content, END_SECONDS, end_seconds);
  weft_wire_end(&content, end);
  put_session(b, "_hparams_/session_end_info", &content);
  weft_strbuf_deinit(&content);
}
