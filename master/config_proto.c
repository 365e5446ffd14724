/* master/config_proto.c - ConfigProto, read in place. Field numbers: reference 2.4. */
#include "base/log.h"
#include "master/config.h"
#include "protos/wire.h"

enum {
  FIELD_DEVICE_FILTERS = 4,
  FIELD_ALLOW_SOFT_PLACEMENT = 7,
  FIELD_LOG_DEVICE_PLACEMENT = 8,
  FIELD_USE_PER_SESSION_THREADS = 9,
  FIELD_GRAPH_OPTIONS = 10,
  FIELD_OPERATION_TIMEOUT = 11,
  FIELD_SESSION_THREAD_POOL = 12,
  FIELD_CLUSTER_DEF = 14,
  FIELD_ISOLATE = 15,
  FIELD_EXPERIMENTAL = 16,
  EXPERIMENTAL_SHARE_STATE = 8,
  MAX_FILTERS = 4096
};

static weft_status_t *add_filter(weft_arena_t *arena, weft_str_t text, weft_device_name_t *filters, int *n) {
  if (*n == MAX_FILTERS)
    return WEFT_ERROR(INVALID_ARGUMENT, "ConfigProto has over %d device_filters", MAX_FILTERS);
  weft_str_t copy = weft_arena_str(arena, text);
  if (copy.data == NULL) return WEFT_NO_MEMORY("a session's configuration");
  weft_status_t *s = weft_device_name_parse(copy, &filters[*n]);
  if (s != NULL) return weft_status_annotate(s, "in ConfigProto.device_filters");
  (*n)++;
  return NULL;
}

static void read_experimental(weft_str_t bytes, weft_session_config_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(EXPERIMENTAL_SHARE_STATE, WEFT_WIRE_VARINT))
      out->share_state_in_cluster = f.value != 0;
  }
}

static void read_graph_options(weft_str_t bytes, weft_session_config_t *out) {
  const char *ignored = NULL;
  weft_pass_settings_read(bytes, &out->passes, &ignored);
  if (ignored != NULL)
    weft_log(WEFT_LOG_WARNING, "RewriterConfig.%s: ignored, the runtime has passes of its own", ignored);
}

static int count_filters(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int n = 0;
  while (n < MAX_FILTERS && weft_wire_next(&r, &f)) n += weft_wire_number(&f) == FIELD_DEVICE_FILTERS;
  return n;
}

weft_status_t *weft_session_config_read(weft_arena_t *arena, weft_str_t bytes,
                                        const weft_pass_settings_t *passes, weft_session_config_t *out) {
  *out = (weft_session_config_t){.passes = *passes};
  if (!weft_wire_is_message(bytes))
    return WEFT_ERROR(INVALID_ARGUMENT, "CreateSession: config is not a ConfigProto");
  weft_device_name_t *filters = weft_arena_calloc(arena, (size_t)count_filters(bytes) + 1, sizeof *filters);
  if (filters == NULL) return WEFT_NO_MEMORY("a session's configuration");
  out->device_filters = filters;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    bool is_bytes = weft_wire_type(&f) == WEFT_WIRE_BYTES;
    bool is_varint = weft_wire_type(&f) == WEFT_WIRE_VARINT;
    switch (weft_wire_number(&f)) {
      case FIELD_DEVICE_FILTERS:
        if (is_bytes) WEFT_RETURN_IF_ERROR(add_filter(arena, f.bytes, filters, &out->num_device_filters));
        break;
      case FIELD_ALLOW_SOFT_PLACEMENT:
        if (is_varint) out->allow_soft_placement = f.value != 0;
        break;
      case FIELD_LOG_DEVICE_PLACEMENT:
        if (is_varint) out->log_device_placement = f.value != 0;
        break;
      case FIELD_USE_PER_SESSION_THREADS:
        if (is_varint && f.value != 0) {
          return WEFT_ERROR(INVALID_ARGUMENT,
                            "Distributed session does not support session thread pool options.");
        }
        break;
      case FIELD_SESSION_THREAD_POOL:
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Distributed session does not support session thread pool options.");
      case FIELD_GRAPH_OPTIONS:
        if (is_bytes) read_graph_options(f.bytes, out);
        break;
      case FIELD_OPERATION_TIMEOUT:
        if (is_varint) out->operation_timeout_ms = weft_wire_i64(f.value);
        break;
      case FIELD_CLUSTER_DEF:
        if (is_bytes) out->cluster_def = weft_arena_str(arena, f.bytes);
        if (is_bytes && out->cluster_def.data == NULL) {
          return WEFT_NO_MEMORY("a session's configuration");
        }
        break;
      case FIELD_ISOLATE:
        if (is_varint) out->isolate_session_state = f.value != 0;
        break;
      case FIELD_EXPERIMENTAL:
        if (is_bytes) read_experimental(f.bytes, out);
        break;
      default: break;
    }
  }
  return NULL;
}
