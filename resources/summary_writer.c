/* resources/summary_writer.c - event files: TFRecord files of Events. */
#include "resources/summary_writer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/file.h"
#include "io/record_writer.h"
#include "protos/wire.h"

enum { EVENT_TIME = 1, EVENT_STEP = 2, SOURCE_WRITER = 1, MICROS = 1000000 };

struct weft_summary_writer {
  weft_object_t object;
  char *path; /* owned */
  int64_t max_queue, flush_millis;
  weft_mutex_t mu;
  weft_strbuf_t queue; /* guarded by mu, with all that follows: records */
  int64_t num_queued, last_flush_ns;
};

const weft_resource_type_t weft_summary_writer_type = {.name = "N10tensorflow22SummaryWriterInterfaceE",
                                                       .text = "SummaryWriterInterface"};

void weft_event_begin(weft_strbuf_t *event, int64_t step) {
  weft_wire_put_double(event, EVENT_TIME, (double)weft_clock_micros() / MICROS);
  weft_wire_put_i64(event, EVENT_STEP, step);
}

/* ---- the file ---- */

static weft_status_t *flush_locked(weft_summary_writer_t *w) WEFT_REQUIRES(w->mu) {
  if (w->num_queued == 0) return NULL;
  if (!weft_file_exists(w->path)) {
    return WEFT_ERROR(UNKNOWN, "The events file %s has disappeared.; Could not flush events file.", w->path);
  }
  WEFT_RETURN_IF_ERROR(weft_file_append(w->path, w->queue.data, w->queue.length));
  w->queue.length = 0;
  w->num_queued = 0;
  w->last_flush_ns = weft_clock_ns();
  return weft_file_sync(w->path);
}

weft_status_t *weft_summary_writer_flush(weft_summary_writer_t *w) {
  weft_mutex_lock(&w->mu);
  weft_status_t *s = flush_locked(w);
  weft_mutex_unlock(&w->mu);
  return s;
}

weft_status_t *weft_summary_writer_add(weft_summary_writer_t *w, weft_str_t event) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&w->mu);
  size_t begin = w->queue.length;
  weft_record_put(&w->queue, event);
  if (w->queue.failed) {
    w->queue.length = begin;
    w->queue.failed = false;
    s = WEFT_NO_MEMORY("an event of %zu bytes", event.length);
  } else {
    w->num_queued++;
    int64_t waited_micros = (weft_clock_ns() - w->last_flush_ns) / 1000;
    bool is_late = w->flush_millis >= 0 && waited_micros > w->flush_millis * 1000;
    if (w->num_queued > w->max_queue || is_late) s = flush_locked(w);
  }
  weft_mutex_unlock(&w->mu);
  return s;
}

/* The first record. */
static weft_status_t *write_version(const char *path) {
  weft_strbuf_t event = WEFT_STRBUF_INIT, record = WEFT_STRBUF_INIT;
  weft_wire_put_double(&event, EVENT_TIME, (double)weft_clock_micros() / MICROS);
  weft_wire_put_text(&event, WEFT_EVENT_FILE_VERSION, "brain.Event:2");
  size_t source = weft_wire_begin(&event, WEFT_EVENT_SOURCE);
  weft_wire_put_text(&event, SOURCE_WRITER, "tensorflow.core.util.events_writer");
  weft_wire_end(&event, source);
  weft_record_put(&record, weft_str_of(event.data, event.length));
  weft_status_t *s = event.failed || record.failed ? WEFT_NO_MEMORY("an event file")
                                                   : weft_file_append(path, record.data, record.length);
  weft_strbuf_deinit(&event);
  weft_strbuf_deinit(&record);
  return s;
}

static weft_status_t *make_path(weft_str_t directory, weft_str_t suffix, char **out) {
  static atomic_int counter;
  char host[256] = "";
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  weft_strbuf_printf(&b, "%.*s%sevents.out.tfevents.%010" PRId64 ".%s.%ld.%d%.*s", WEFT_STR_ARGS(directory),
                     directory.length == 0 || weft_str_ends_with(directory, "/") ? "" : "/",
                     weft_clock_micros() / MICROS, host, (long)getpid(), atomic_fetch_add(&counter, 1),
                     WEFT_STR_ARGS(suffix));
  size_t length = 0;
  return weft_strbuf_finish(&b, out, &length);
}

/* ---- life ---- */

static void writer_destroy(weft_object_t *o) {
  weft_summary_writer_t *w = (weft_summary_writer_t *)o;
  weft_status_free(weft_summary_writer_flush(w)); /* there is no caller to tell */
  weft_strbuf_deinit(&w->queue);
  weft_mutex_deinit(&w->mu);
  weft_free(w->path);
  weft_free(w);
}

weft_status_t *weft_summary_writer_create(weft_str_t directory, weft_str_t suffix, int64_t max_queue,
                                          int64_t flush_millis, weft_object_t **out) {
  char *dir = weft_strndup(directory.data, directory.length), *path = NULL;
  weft_status_t *s = dir == NULL ? WEFT_NO_MEMORY("a summary writer") : NULL;
  if (s == NULL && directory.length > 0) s = weft_file_make_dirs(dir);
  if (s == NULL) s = make_path(directory, suffix, &path);
  if (s == NULL) s = write_version(path);
  weft_summary_writer_t *w = s == NULL ? weft_calloc(1, sizeof *w) : NULL;
  weft_free(dir);
  if (w == NULL) {
    weft_free(path);
    return s != NULL ? s : WEFT_NO_MEMORY("a summary writer");
  }
  atomic_init(&w->object.refs, 1);
  w->object.destroy = writer_destroy;
  w->path = path;
  w->max_queue = max_queue;
  w->flush_millis = flush_millis;
  w->last_flush_ns = weft_clock_ns();
  weft_mutex_init(&w->mu);
  *out = &w->object;
  return NULL;
}
