/* services/run_options.c - RunOptions, both ways. */
#include "services/run_options.h"

#include "services/messages.h"

weft_status_t *weft_run_options_from_bytes(weft_str_t bytes, weft_arena_t *arena, weft_step_options_t *out) {
  weft_run_options_msg_t fields = {.trace_level = 0};
  weft_run_options_experimental_msg_t experimental = {0};
  *out = (weft_step_options_t){.trace_level = 0};
  if (bytes.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_run_options_type, bytes, arena, &fields));
  if (fields.experimental.length > 0) {
    WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_run_options_experimental_type, fields.experimental,
                                                  arena, &experimental));
  }
  *out = (weft_step_options_t){(int)(int32_t)fields.trace_level, fields.timeout_in_ms,
                               fields.output_partition_graphs, experimental.collective_graph_key,
                               fields.debug_options};
  return NULL;
}

void weft_run_options_to_bytes(const weft_step_options_t *o, weft_strbuf_t *out) {
  weft_run_options_experimental_msg_t experimental = {o->collective_graph_key};
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  if (o->collective_graph_key != 0)
    weft_fields_encode_bytes(&weft_run_options_experimental_type, &experimental, &bytes);
  weft_run_options_msg_t fields = {o->trace_level, o->timeout_ms, o->output_partition_graphs,
                                   o->debug_options, weft_str_of(bytes.data, bytes.length)};
  weft_fields_encode_bytes(&weft_run_options_type, &fields, out);
  if (bytes.failed) out->failed = true;
  weft_strbuf_deinit(&bytes);
}
