/* io/event_file.c - a queue of records, and the file behind it.
 *
 * Locking: `mu` keeps records whole and in order; the file is written under it, so that a caller whose flush
 * returns knows that its events are there.
 */
#define _GNU_SOURCE
#include "io/event_file.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/file.h"
#include "io/record_writer.h"
#include "protos/wire.h"

enum { EVENT_TIME = 1, EVENT_STEP = 2, SOURCE_WRITER = 1, MICROS = 1000000 };
enum { MAX_QUEUED_BYTES = 16 << 20 }; /* images and graphs do not wait until there are many */

struct weft_event_file {
  char *path; /* owned */
  int64_t max_queue, flush_millis;
  weft_mutex_t mu;
  weft_strbuf_t queue; /* guarded by mu, with all that follows: records */
  int64_t num_queued, last_flush_ns;
  int64_t bytes; /* of the file; what is behind them is part of a write that failed */
};

void weft_event_begin(weft_strbuf_t *event, int64_t step) {
  weft_wire_put_double(event, EVENT_TIME, (double)weft_clock_micros() / MICROS);
  weft_wire_put_i64(event, EVENT_STEP, step);
}

/* ---- the file ---- */

static weft_status_t *flush_locked(weft_event_file_t *f) WEFT_REQUIRES(f->mu) {
  if (f->num_queued == 0) return NULL;
  if (!weft_file_exists(f->path)) {
    return WEFT_ERROR(UNKNOWN, "The events file %s has disappeared.; Could not flush events file.", f->path);
  }
  weft_status_t *s = weft_file_append(f->path, f->queue.data, f->queue.length);
  if (s != NULL) {
    int ignored = truncate(weft_file_on_disk(f->path), (off_t)f->bytes); /* else the cause is told */
    (void)ignored;
    return s;
  }
  f->bytes += (int64_t)f->queue.length;
  f->queue.length = 0;
  f->num_queued = 0;
  f->last_flush_ns = weft_clock_ns();
  return weft_file_sync(f->path);
}

weft_status_t *weft_event_file_flush(weft_event_file_t *f) {
  weft_mutex_lock(&f->mu);
  weft_status_t *s = flush_locked(f);
  weft_mutex_unlock(&f->mu);
  return s;
}

static bool is_due_locked(const weft_event_file_t *f) WEFT_REQUIRES(f->mu) {
  int64_t waited_micros = (weft_clock_ns() - f->last_flush_ns) / 1000;
  return f->num_queued > f->max_queue || f->queue.length > MAX_QUEUED_BYTES ||
         (f->flush_millis >= 0 && waited_micros > f->flush_millis * 1000);
}

weft_status_t *weft_event_file_add(weft_event_file_t *f, weft_str_t event) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&f->mu);
  size_t begin = f->queue.length;
  weft_record_put(&f->queue, event);
  if (f->queue.failed) {
    f->queue.length = begin;
    f->queue.failed = false;
    s = WEFT_NO_MEMORY("an event of %zu bytes", event.length);
  } else {
    f->num_queued++;
    if (is_due_locked(f)) s = flush_locked(f);
  }
  weft_mutex_unlock(&f->mu);
  return s;
}

/* The first record. */
static weft_status_t *write_version(weft_event_file_t *f) {
  weft_strbuf_t event = WEFT_STRBUF_INIT, record = WEFT_STRBUF_INIT;
  weft_event_begin(&event, 0);
  weft_wire_put_text(&event, WEFT_EVENT_FILE_VERSION, "brain.Event:2");
  size_t source = weft_wire_begin(&event, WEFT_EVENT_SOURCE);
  weft_wire_put_text(&event, SOURCE_WRITER, "tensorflow.core.util.events_writer");
  weft_wire_end(&event, source);
  weft_record_put(&record, weft_str_of(event.data, event.length));
  weft_status_t *s = event.failed || record.failed ? WEFT_NO_MEMORY("an event file")
                                                   : weft_file_append(f->path, record.data, record.length);
  f->bytes = (int64_t)record.length;
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

static void destroy(weft_event_file_t *f) {
  weft_strbuf_deinit(&f->queue);
  weft_mutex_deinit(&f->mu);
  weft_free(f->path);
  weft_free(f);
}

weft_status_t *weft_event_file_create(weft_str_t directory, weft_str_t suffix, int64_t max_queue,
                                      int64_t flush_millis, weft_event_file_t **out) {
  weft_event_file_t *f = weft_calloc(1, sizeof *f);
  char *dir = weft_strndup(directory.data, directory.length);
  if (f != NULL) weft_mutex_init(&f->mu);
  weft_status_t *s = f == NULL || dir == NULL ? WEFT_NO_MEMORY("an event file") : NULL;
  if (s == NULL && directory.length > 0) s = weft_file_make_dirs(dir);
  if (s == NULL) s = make_path(directory, suffix, &f->path);
  if (s == NULL) s = write_version(f);
  weft_free(dir);
  if (s == NULL) {
    f->max_queue = max_queue;
    f->flush_millis = flush_millis;
    f->last_flush_ns = weft_clock_ns();
    *out = f;
  } else if (f != NULL) {
    destroy(f);
  }
  return s;
}

const char *weft_event_file_path(const weft_event_file_t *f) { return f->path; }

weft_status_t *weft_event_file_close(weft_event_file_t *f) {
  if (f == NULL) return NULL;
  weft_status_t *s = weft_event_file_flush(f);
  destroy(f);
  return s;
}
