/* resources/debug_events.c - names, events and the ring of the last traces. */
#include "resources/debug_events.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/file.h"
#include "io/record_writer.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

/* Fields of DebugEvent and its parts. */
enum {
  EVENT_WALL_TIME = 1,
  EVENT_METADATA = 3,
  EVENT_TRACE = 10,
  METADATA_TENSORFLOW_VERSION = 1,
  METADATA_FILE_VERSION = 2,
  METADATA_RUN = 3,
  TRACE_CONTEXT = 1,
  TRACE_OP = 2,
  TRACE_SLOT = 3,
  TRACE_MODE = 4,
  TRACE_TENSOR = 5,
  TRACE_DEVICE = 6,
};
enum { MICROS = 1000000 };

struct weft_debug_events {
  weft_object_t object;
  char *path;             /* owned; of the traces */
  int64_t buffer;         /* how many traces wait; 0: none */
  weft_mutex_t mu;        /* also keeps records of the file whole */
  weft_strbuf_t *ring;    /* owned; `buffer` records, of which the oldest is at `next` once all are there */
  int64_t next, num_kept; /* guarded by mu, as the ring is */
};

static const weft_resource_type_t debug_events_type = {.name = "weft_debug_events", .text = "DebugEvents"};

static void begin_event(weft_strbuf_t *event) {
  weft_wire_put_double(event, EVENT_WALL_TIME, (double)weft_clock_micros() / MICROS);
}

/* ---- files ---- */

static weft_status_t *append_record(const char *path, const weft_strbuf_t *event) {
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_record_put(&record, weft_str_of(event->data, event->length));
  weft_status_t *s = event->failed || record.failed ? WEFT_NO_MEMORY("a debugger's event")
                                                    : weft_file_append(path, record.data, record.length);
  weft_strbuf_deinit(&record);
  return s;
}

/* What makes the folder a set of files that the reader takes. */
static weft_status_t *write_metadata(const char *path, weft_str_t run) {
  weft_strbuf_t event = WEFT_STRBUF_INIT;
  begin_event(&event);
  size_t metadata = weft_wire_begin(&event, EVENT_METADATA);
  weft_wire_put_text(&event, METADATA_TENSORFLOW_VERSION, "2.19.1"); /* of these formats */
  weft_wire_put_text(&event, METADATA_FILE_VERSION, "debug.Event:1");
  weft_wire_put_bytes(&event, METADATA_RUN, run);
  weft_wire_end(&event, metadata);
  weft_status_t *s = append_record(path, &event);
  weft_strbuf_deinit(&event);
  return s;
}

/* Makes the file <prefix>.<suffix>, empty but for metadata; its path goes to *out_path unless that is NULL.
 */
static weft_status_t *make_file(weft_str_t prefix, const char *suffix, const weft_str_t *metadata_of,
                                char **out_path) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  char *path = NULL;
  size_t length = 0;
  weft_strbuf_printf(&b, "%.*s.%s", WEFT_STR_ARGS(prefix), suffix);
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&b, &path, &length));
  weft_status_t *s = metadata_of == NULL ? weft_file_append(path, "", 0) : write_metadata(path, *metadata_of);
  if (s == NULL && out_path != NULL) {
    *out_path = path;
  } else {
    weft_free(path);
  }
  return s;
}

static weft_status_t *make_set(weft_str_t prefix, weft_str_t run, char **out_traces) {
  static const char *const empty[] = {"source_files", "stack_frames", "graphs", "execution"};
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
    WEFT_RETURN_IF_ERROR(make_file(prefix, empty[i], NULL, NULL));
  WEFT_RETURN_IF_ERROR(make_file(prefix, "graph_execution_traces", NULL, out_traces));
  weft_status_t *s = make_file(prefix, "metadata", &run, NULL); /* last: a reader looks for it first */
  if (s != NULL) {
    weft_free(*out_traces);
    *out_traces = NULL;
  }
  return s;
}

static weft_status_t *make_files(weft_str_t folder, weft_str_t run, char **out_traces) {
  char host[256] = "";
  char *dir = weft_strndup(folder.data, folder.length);
  weft_strbuf_t prefix = WEFT_STRBUF_INIT;
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  weft_strbuf_printf(&prefix, "%.*s%stfdbg_events.%010" PRId64 ".%s.%ld", WEFT_STR_ARGS(folder),
                     weft_str_ends_with(folder, "/") ? "" : "/", weft_clock_micros() / MICROS, host,
                     (long)getpid());
  weft_status_t *s = dir == NULL || prefix.failed ? WEFT_NO_MEMORY("a debugger's files") : NULL;
  if (s == NULL) s = weft_file_make_dirs(dir);
  if (s == NULL) s = make_set(weft_str_of(prefix.data, prefix.length), run, out_traces);
  weft_strbuf_deinit(&prefix);
  weft_free(dir);
  return s;
}

/* ---- the ring ---- */

static void keep(weft_debug_events_t *e, weft_strbuf_t *event) WEFT_REQUIRES(e->mu) {
  weft_strbuf_deinit(&e->ring[e->next]);
  e->ring[e->next] = *event;
  *event = (weft_strbuf_t)WEFT_STRBUF_INIT;
  e->next = (e->next + 1) % e->buffer;
  if (e->num_kept < e->buffer) e->num_kept++;
}

static void events_destroy(weft_object_t *o) {
  weft_debug_events_t *e = (weft_debug_events_t *)o;
  int64_t first = e->num_kept < e->buffer ? 0 : e->next;
  bool is_whole = e->path != NULL;
  for (int64_t i = 0; i < e->num_kept; i++) {
    weft_strbuf_t *event = &e->ring[(first + i) % e->buffer];
    weft_status_t *s = is_whole ? append_record(e->path, event) : NULL;
    is_whole = is_whole && s == NULL; /* there is no caller to tell */
    weft_status_free(s);
    weft_strbuf_deinit(event);
  }
  weft_free(e->ring);
  weft_mutex_deinit(&e->mu);
  weft_free(e->path);
  weft_free(e);
}

/* ---- life ---- */

typedef struct debug_set {
  weft_str_t folder, run;
  int64_t buffer;
} debug_set_t;

/* Strings of 1,000,000 traces take 24 MB: what a graph may ask for at most. */
enum { MAX_BUFFER = 1000000 };

static weft_status_t *make_events(void *arg, weft_object_t **out) {
  const debug_set_t *set = arg;
  weft_debug_events_t *e = weft_calloc(1, sizeof *e);
  if (e == NULL) return WEFT_NO_MEMORY("a debugger's files");
  atomic_init(&e->object.refs, 1);
  e->object.destroy = events_destroy;
  weft_mutex_init(&e->mu);
  e->buffer = set->buffer < 0 ? 0 : set->buffer > MAX_BUFFER ? MAX_BUFFER : set->buffer;
  e->ring = weft_calloc((size_t)e->buffer + 1, sizeof *e->ring);
  weft_status_t *s =
      e->ring == NULL ? WEFT_NO_MEMORY("a debugger's files") : make_files(set->folder, set->run, &e->path);
  if (s == NULL) {
    *out = &e->object;
  } else {
    events_destroy(&e->object);
  }
  return s;
}

weft_status_t *weft_debug_events_open(weft_resource_manager_t *m, weft_str_t folder, weft_str_t run,
                                      int64_t buffer, weft_debug_events_t **out) {
  debug_set_t set = {.folder = folder, .run = run, .buffer = buffer};
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_resource_lookup_or_create(m, WEFT_STR("_debug_events"), folder,
                                                      &debug_events_type, make_events, &set, &o));
  *out = (weft_debug_events_t *)o;
  return NULL;
}

void weft_debug_events_release(weft_debug_events_t *e) {
  if (e != NULL) weft_object_release(&e->object);
}

static weft_status_t *put_trace(const weft_debug_trace_t *trace, const weft_tensor_t *value,
                                weft_strbuf_t *event) {
  begin_event(event);
  size_t begin = weft_wire_begin(event, EVENT_TRACE);
  weft_wire_put_bytes(event, TRACE_CONTEXT, trace->context);
  if (trace->op.length > 0) weft_wire_put_bytes(event, TRACE_OP, trace->op);
  if (trace->slot > 0) weft_wire_put_i64(event, TRACE_SLOT, trace->slot);
  if (trace->mode > 0) weft_wire_put_i64(event, TRACE_MODE, trace->mode);
  size_t tensor = weft_wire_begin(event, TRACE_TENSOR);
  WEFT_RETURN_IF_ERROR(weft_tensor_to_proto(value, event));
  weft_wire_end(event, tensor);
  weft_wire_put_bytes(event, TRACE_DEVICE, trace->device);
  weft_wire_end(event, begin);
  return event->failed ? WEFT_NO_MEMORY("a debugger's event") : NULL;
}

weft_status_t *weft_debug_events_add(weft_debug_events_t *e, const weft_debug_trace_t *trace,
                                     const weft_tensor_t *value) {
  weft_strbuf_t event = WEFT_STRBUF_INIT;
  weft_status_t *s = put_trace(trace, value, &event);
  if (s == NULL) {
    weft_mutex_lock(&e->mu);
    if (e->buffer > 0) {
      keep(e, &event);
    } else {
      s = append_record(e->path, &event);
    }
    weft_mutex_unlock(&e->mu);
  }
  weft_strbuf_deinit(&event);
  return s;
}
