/* resources/summary_writer.h - a writer of event files, which TensorBoard reads.
 *
 * Events wait in a queue; the file gets them when the queue is full, when the last time is long enough ago,
 * when the caller says so, and when the writer goes. One file is one series of events: its name holds the
 * time, the host, the process and a number, so that no two writers share one.
 */
#ifndef WEFT_RESOURCES_SUMMARY_WRITER_H_
#define WEFT_RESOURCES_SUMMARY_WRITER_H_

#include "base/str.h"
#include "resources/resource.h"

typedef struct weft_summary_writer weft_summary_writer_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_summary_writer_type;

/* Makes `directory` and, in it, a file whose name ends in `suffix`, with the first event, which says the
 * format's version. More than `max_queue` events, or `flush_millis` (below 0: any time) since the last time,
 * are written at once. Errors: those of files. */
WEFT_MUST_CHECK weft_status_t *weft_summary_writer_create(weft_str_t directory, weft_str_t suffix,
                                                          int64_t max_queue, int64_t flush_millis,
                                                          weft_object_t **out);
/* Adds a serialised Event. Errors: those of flush, if it is time for that; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_summary_writer_add(weft_summary_writer_t *w, weft_str_t event);
/* All events are in the file, and on the disk. Errors: those of files; UNKNOWN: the file has been removed. */
WEFT_MUST_CHECK weft_status_t *weft_summary_writer_flush(weft_summary_writer_t *w);

/* An Event of now, up to its content: the caller appends one of the fields. `step` as in the ops. */
void weft_event_begin(weft_strbuf_t *event, int64_t step);
enum { WEFT_EVENT_FILE_VERSION = 3, WEFT_EVENT_GRAPH = 4, WEFT_EVENT_SUMMARY = 5, WEFT_EVENT_SOURCE = 10 };

#endif /* WEFT_RESOURCES_SUMMARY_WRITER_H_ */
