/* client/debug_string.c - graphs and functions as text, configurations as messages. */
#include <stdlib.h>

#include "client/buffer.h"
#include "client/function.h"
#include "client/graph.h"
#include "protos/function.pb-c.h"
#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "protos/wire.h"
#include "tensorflow/c/c_api_experimental.h"

/* The text of a message, for free(). */
static char *text_of(const ProtobufCMessageDescriptor *type, weft_str_t bytes, size_t *len) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_from_binary(type, bytes, &text);
  char *copy = s == NULL && !text.failed ? malloc(text.length + 1) : NULL;
  if (copy != NULL) {
    if (text.length > 0) memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
  }
  *len = copy == NULL ? 0 : text.length;
  weft_status_free(s); /* the interface has no other answer than NULL */
  weft_strbuf_deinit(&text);
  return copy;
}

const char *TF_GraphDebugString(TF_Graph *graph, size_t *len) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = weft_client_export_locked(graph, 0, &bytes);
  weft_mutex_unlock(&graph->mu);
  const char *text = s != NULL
                         ? NULL
                         : text_of(&tensorflow__graph_def__descriptor,
                                   weft_str_of(bytes.data == NULL ? "" : bytes.data, bytes.length), len);
  if (text == NULL) *len = 0;
  weft_status_free(s);
  weft_strbuf_deinit(&bytes);
  return text;
}

char *TF_FunctionDebugString(TF_Function *func, size_t *len) {
  return text_of(&tensorflow__function_def__descriptor, weft_str_of(func->def, func->def_bytes), len);
}

static TF_Buffer *buffer_of(weft_strbuf_t *bytes) {
  TF_Buffer *b = NULL;
  weft_status_free(weft_client_new_buffer(bytes, &b));
  return b;
}

/* ConfigProto: device_count {CPU: n}, gpu_options.allow_growth,
 * graph_options.optimizer_options.global_jit_level. */
TF_Buffer *TF_CreateConfig(unsigned char enable_xla_compilation, unsigned char gpu_memory_allow_growth,
                           unsigned int num_cpu_devices) {
  enum { ON_1 = 1, OFF = -1 };
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  size_t entry = weft_wire_begin(&out, 1);
  weft_wire_put_text(&out, 1, "CPU");
  weft_wire_put_i64(&out, 2, num_cpu_devices);
  weft_wire_end(&out, entry);
  size_t gpu = weft_wire_begin(&out, 6);
  weft_wire_put_bool(&out, 4, gpu_memory_allow_growth != 0);
  weft_wire_end(&out, gpu);
  size_t graph = weft_wire_begin(&out, 10), optimizer = weft_wire_begin(&out, 3);
  weft_wire_put_i64(&out, 5, enable_xla_compilation != 0 ? ON_1 : OFF);
  weft_wire_end(&out, optimizer);
  weft_wire_end(&out, graph);
  return buffer_of(&out);
}

/* RunOptions: trace_level. */
TF_Buffer *TF_CreateRunOptions(unsigned char enable_full_trace) {
  enum { FULL_TRACE = 3 };
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_wire_put_i64(&out, 1, enable_full_trace != 0 ? FULL_TRACE : 0);
  return buffer_of(&out);
}
