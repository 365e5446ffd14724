/* io/event_file.h - files of events, which TensorBoard reads.
 *
 * Events wait in memory. The file gets them when there are many, when the last time is long enough ago, when
 * the caller asks for it, and when the file is closed. The name of a file holds the time, the host, the
 * process and a number, so that no two writers share one. Its records are framed as io/record_writer.h does.
 *
 * Format: event.proto; events_writer.cc of TensorFlow for the name and the first record.
 */
#ifndef WEFT_IO_EVENT_FILE_H_
#define WEFT_IO_EVENT_FILE_H_

#include "base/str.h"

typedef struct weft_event_file weft_event_file_t; /* Thread-safe. */

/* Makes `directory` and, in it, a file whose name ends in `suffix`, with the first event, which says the
 * format's version. When more than `max_queue` events wait, or an event is added `flush_millis` (below 0:
 * any time) after the last time, all are written. Errors: those of files, which name the file. */
WEFT_MUST_CHECK weft_status_t *weft_event_file_create(weft_str_t directory, weft_str_t suffix,
                                                      int64_t max_queue, int64_t flush_millis,
                                                      weft_event_file_t **out);
const char *weft_event_file_path(const weft_event_file_t *f); /* lent until it is closed */
/* Adds a serialised Event (copied). Errors: those of flush, if it is time for that; RESOURCE_EXHAUSTED, and
 * the event is not added. */
WEFT_MUST_CHECK weft_status_t *weft_event_file_add(weft_event_file_t *f, weft_str_t event);
/* All events are in the file, and on the disk. Errors: those of files; UNKNOWN: the file has been removed.
 * Events that could not be written wait for the next time. */
WEFT_MUST_CHECK weft_status_t *weft_event_file_flush(weft_event_file_t *f);
/* Flushes. Consumes `f`; NULL is fine. Errors: those of flush; what waited is lost then. */
WEFT_MUST_CHECK weft_status_t *weft_event_file_close(weft_event_file_t *f);

/* An Event of now, up to its content: the caller appends one of the fields. */
void weft_event_begin(weft_strbuf_t *event, int64_t step);
enum {
  WEFT_EVENT_FILE_VERSION = 3,
  WEFT_EVENT_GRAPH = 4,
  WEFT_EVENT_SUMMARY = 5,
  WEFT_EVENT_SESSION_LOG = 7,
  WEFT_EVENT_RUN_METADATA = 8,
  WEFT_EVENT_SOURCE = 10
};

#endif /* WEFT_IO_EVENT_FILE_H_ */
