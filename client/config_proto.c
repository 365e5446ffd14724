/* client/config_proto.c - ConfigProto and RunOptions, as far as a client looks into them. */
#include "client/config.h"
#include "client/session_options.h"
#include "client/status.h"

#include "base/alloc.h"
#include "device/device_name.h"
#include "protos/config.pb-c.h"
#include "protos/unpack.h"
#include "protos/wire.h"

enum {
  FIELD_DEVICE_COUNT = 1,
  FIELD_INTRA_OP_THREADS = 2,
  FIELD_DEVICE_FILTERS = 4,
  FIELD_INTER_OP_THREADS = 5,
  FIELD_USE_PER_SESSION_THREADS = 9,
  FIELD_GPU_OPTIONS = 6,
  FIELD_OPERATION_TIMEOUT = 11,
  FIELD_SESSION_THREAD_POOL = 12,
  FIELD_CLUSTER_DEF = 14,
  FIELD_EXPERIMENTAL = 16,
  FIELD_COLLECTIVE_GROUP_LEADER = 1, /* in that */
  MAX_THREADS = 4096,
};

enum {
  FIELD_TRACE_LEVEL = 1,
  FIELD_TIMEOUT = 2,
  FIELD_OUTPUT_PARTITION_GRAPHS = 5,
  FIELD_DEBUG_OPTIONS = 6,
  FIELD_RUN_EXPERIMENTAL = 8,
  FIELD_COLLECTIVE_GRAPH_KEY = 1, /* in that */
};

void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len, TF_Status *status) {
  weft_str_t bytes = weft_str_of(proto, proto_len);
  weft_status_t *s = weft_proto_check(&tensorflow__config_proto__descriptor, bytes);
  if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT) {
    weft_status_free(s);
    s = WEFT_ERROR(INVALID_ARGUMENT, "Unparseable ConfigProto");
  }
  char *copy = s == NULL ? weft_malloc(proto_len) : NULL;
  if (s == NULL && copy == NULL) s = WEFT_NO_MEMORY("a ConfigProto");
  if (!weft_client_end(status, s)) return;
  if (proto_len > 0) memcpy(copy, proto, proto_len);
  weft_free(options->config);
  options->config = copy;
  options->config_bytes = proto_len;
}

static bool is_for_servers(uint32_t field) {
  return field == FIELD_DEVICE_FILTERS || field == FIELD_USE_PER_SESSION_THREADS ||
         field == FIELD_SESSION_THREAD_POOL || field == FIELD_CLUSTER_DEF;
}

/* An entry of device_count: map<string, int32>. */
static void read_device_count(weft_str_t entry, weft_client_config_t *out) {
  weft_str_t type = WEFT_STR("");
  int count = 0;
  weft_wire_reader_t r = weft_wire_reader(entry);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) type = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) count = weft_wire_i32(f.value);
  }
  if (weft_str_is(type, WEFT_HOST_DEVICE_TYPE)) out->num_cpus = count;
  if (weft_str_is(type, "GPU")) {
    out->accelerators.is_limited = true;
    out->accelerators.max_devices = count < 0 ? 0 : count;
  }
}

static void read_experimental(weft_str_t bytes, weft_client_config_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(FIELD_COLLECTIVE_GROUP_LEADER, WEFT_WIRE_BYTES))
      out->collective_leader = f.bytes;
  }
}

weft_status_t *weft_client_config_check(const weft_client_config_t *c) {
  return c->num_cpus > 0 ? NULL : WEFT_ERROR(NOT_FOUND, "No CPU devices are available in this process");
}

weft_status_t *weft_client_config_read(weft_str_t bytes, weft_client_config_t *out, weft_strbuf_t *local) {
  *out = (weft_client_config_t){.num_cpus = 1};
  int64_t threads = 0;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t gpu_options = WEFT_STR("");
  for (const uint8_t *begin = r.p; weft_wire_next(&r, &f); begin = r.p) {
    uint32_t field = weft_wire_number(&f);
    bool is_varint = weft_wire_type(&f) == WEFT_WIRE_VARINT;
    bool is_threads = field == FIELD_INTRA_OP_THREADS || field == FIELD_INTER_OP_THREADS;
    if (is_varint && is_threads && weft_wire_i64(f.value) > threads) threads = weft_wire_i64(f.value);
    if (is_varint && field == FIELD_OPERATION_TIMEOUT) out->timeout_ms = weft_wire_i64(f.value);
    if (f.tag == WEFT_WIRE_TAG(FIELD_DEVICE_COUNT, WEFT_WIRE_BYTES)) read_device_count(f.bytes, out);
    if (f.tag == WEFT_WIRE_TAG(FIELD_GPU_OPTIONS, WEFT_WIRE_BYTES)) gpu_options = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(FIELD_EXPERIMENTAL, WEFT_WIRE_BYTES)) read_experimental(f.bytes, out);
    if (local != NULL && !is_for_servers(field)) {
      weft_strbuf_append(local, weft_str_of((const char *)begin, (size_t)(r.p - begin)));
    }
  }
  if (r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Unparseable ConfigProto");
  if (local != NULL && local->failed) return WEFT_NO_MEMORY("a ConfigProto");
  out->num_threads = threads > MAX_THREADS ? MAX_THREADS : (int)threads;
  return weft_gpu_options_read(gpu_options, &out->accelerators);
}

static void read_run_experimental(weft_str_t bytes, weft_step_options_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(FIELD_COLLECTIVE_GRAPH_KEY, WEFT_WIRE_VARINT))
      out->collective_graph_key = weft_wire_i64(f.value);
  }
}

weft_status_t *weft_client_run_options_read(weft_str_t bytes, weft_step_options_t *out) {
  *out = (weft_step_options_t){0};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(FIELD_TRACE_LEVEL, WEFT_WIRE_VARINT):
        out->trace_level = weft_wire_i32(f.value);
        break;
      case WEFT_WIRE_TAG(FIELD_TIMEOUT, WEFT_WIRE_VARINT): out->timeout_ms = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(FIELD_OUTPUT_PARTITION_GRAPHS, WEFT_WIRE_VARINT):
        out->output_partition_graphs = f.value != 0;
        break;
      case WEFT_WIRE_TAG(FIELD_DEBUG_OPTIONS, WEFT_WIRE_BYTES): out->debug_options = f.bytes; break;
      case WEFT_WIRE_TAG(FIELD_RUN_EXPERIMENTAL, WEFT_WIRE_BYTES): read_run_experimental(f.bytes, out); break;
      default: break;
    }
  }
  return r.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Unparseable RunOptions proto") : NULL;
}
