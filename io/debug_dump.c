/* io/debug_dump.c - the debugger's names of files, and its events. */
#include "io/debug_dump.h"

#include <inttypes.h>
#include <time.h>

#include "base/alloc.h"
#include "io/file.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

/* Fields of Event, Summary and their parts. */
enum {
  EVENT_WALL_TIME = 1,
  EVENT_GRAPH_DEF = 4,
  EVENT_SUMMARY = 5,
  SUMMARY_VALUE = 1,
  VALUE_TAG = 1,
  VALUE_NODE_NAME = 7,
  VALUE_TENSOR = 8,
  VALUE_METADATA = 9,
  METADATA_PLUGIN_DATA = 1,
  PLUGIN_NAME = 1,
  PLUGIN_CONTENT = 2,
};

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* "/job:a/task:0" -> "<root>/_tfdbg_device_,job_a,task_0/" */
static void put_folder(weft_str_t root, weft_str_t device, weft_strbuf_t *out) {
  weft_strbuf_append(out, root);
  weft_strbuf_puts(out, "/_tfdbg_device_");
  for (size_t i = 0; i < device.length; i++) {
    char c = device.data[i];
    weft_strbuf_putc(out, c == ':' ? '_' : c == '/' ? ',' : c);
  }
  weft_strbuf_putc(out, '/');
}

static weft_status_t *make_folder(const char *path) {
  weft_str_t dir = weft_file_dirname(weft_str(path));
  char *text = weft_strndup(dir.data, dir.length);
  if (text == NULL) return WEFT_NO_MEMORY("dumping to %s", path);
  weft_status_t *s = weft_file_make_dirs(text);
  weft_free(text);
  return s;
}

/* `path` gets "-1", "-2" ... behind it until no file has the name. */
static weft_status_t *write_event(weft_strbuf_t *path, const weft_strbuf_t *event) {
  if (path->failed || event->failed) return WEFT_NO_MEMORY("dumping a value");
  size_t length = path->length;
  for (int i = 1; weft_file_exists(path->data); i++) {
    path->length = length;
    weft_strbuf_printf(path, "-%d", i);
    if (path->failed) return WEFT_NO_MEMORY("dumping a value");
  }
  weft_file_writer_t *w = NULL;
  WEFT_RETURN_IF_ERROR(make_folder(path->data));
  WEFT_RETURN_IF_ERROR(weft_file_writer_create(path->data, &w));
  weft_status_t *s = weft_file_writer_append(w, event->data, event->length);
  if (s == NULL) return weft_file_writer_finish(w);
  weft_file_writer_abandon(w);
  return s;
}

/* What the debugger wants to know beside the value, as the JSON of its message DebuggerEventMetadata. */
static void put_metadata(const weft_debug_key_t *key, weft_strbuf_t *b) {
  weft_strbuf_t json = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&json, "{\"device\":\"%.*s\",\"outputSlot\":%d,\"numChunks\":1,\"chunkIndex\":0}",
                     WEFT_STR_ARGS(key->device), key->slot);
  size_t metadata = weft_wire_begin(b, VALUE_METADATA);
  size_t plugin = weft_wire_begin(b, METADATA_PLUGIN_DATA);
  weft_wire_put_text(b, PLUGIN_NAME, "debugger");
  weft_wire_put_bytes(b, PLUGIN_CONTENT, weft_str_of(json.data, json.length));
  weft_wire_end(b, plugin);
  weft_wire_end(b, metadata);
  b->failed = b->failed || json.failed;
  weft_strbuf_deinit(&json);
}

static weft_status_t *put_event(const weft_debug_key_t *key, const weft_tensor_t *t, uint64_t time,
                                weft_strbuf_t *b) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_wire_put_double(b, EVENT_WALL_TIME, (double)time);
  size_t summary = weft_wire_begin(b, EVENT_SUMMARY);
  size_t value = weft_wire_begin(b, SUMMARY_VALUE);
  weft_wire_put_bytes(b, VALUE_TAG, key->node);
  weft_strbuf_printf(&name, "%.*s:%d:%.*s", WEFT_STR_ARGS(key->node), key->slot, WEFT_STR_ARGS(key->op));
  weft_wire_put_bytes(b, VALUE_NODE_NAME, weft_str_of(name.data, name.length));
  b->failed = b->failed || name.failed;
  weft_strbuf_deinit(&name);
  size_t tensor = weft_wire_begin(b, VALUE_TENSOR);
  WEFT_RETURN_IF_ERROR(weft_tensor_to_proto(t, b));
  weft_wire_end(b, tensor);
  put_metadata(key, b);
  weft_wire_end(b, value);
  weft_wire_end(b, summary);
  return NULL;
}

weft_status_t *weft_debug_dump_tensor(weft_str_t root, const weft_debug_key_t *key, const weft_tensor_t *t) {
  weft_strbuf_t path = WEFT_STRBUF_INIT, event = WEFT_STRBUF_INIT;
  uint64_t time = now_us();
  put_folder(root, key->device, &path);
  weft_strbuf_printf(&path, "%.*s_%d_%.*s_%" PRIu64, WEFT_STR_ARGS(key->node), key->slot,
                     WEFT_STR_ARGS(key->op), time);
  weft_status_t *s = put_event(key, t, time, &event);
  if (s == NULL) s = write_event(&path, &event);
  weft_strbuf_deinit(&path);
  weft_strbuf_deinit(&event);
  return s;
}

weft_status_t *weft_debug_dump_graph(weft_str_t root, weft_str_t device, weft_str_t graph) {
  weft_strbuf_t path = WEFT_STRBUF_INIT, event = WEFT_STRBUF_INIT;
  uint64_t time = now_us();
  put_folder(root, device, &path);
  weft_strbuf_printf(&path, "_tfdbg_graph_hash%" PRIu64 "_%" PRIu64, weft_str_hash64(graph), time);
  weft_wire_put_double(&event, EVENT_WALL_TIME, (double)time);
  weft_wire_put_bytes(&event, EVENT_GRAPH_DEF, graph);
  weft_status_t *s = write_event(&path, &event);
  weft_strbuf_deinit(&path);
  weft_strbuf_deinit(&event);
  return s;
}
