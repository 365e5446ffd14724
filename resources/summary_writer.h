/* resources/summary_writer.h - the resource of the ops that write event files (io/event_file.h). */
#ifndef WEFT_RESOURCES_SUMMARY_WRITER_H_
#define WEFT_RESOURCES_SUMMARY_WRITER_H_

#include "io/event_file.h"
#include "resources/resource.h"

typedef struct weft_summary_writer { /* Thread-safe. */
  weft_object_t object;
  weft_event_file_t *file; /* owned; flushed and closed with the object */
} weft_summary_writer_t;
extern const weft_resource_type_t weft_summary_writer_type;

/* weft_event_file_create as a resource. */
WEFT_MUST_CHECK weft_status_t *weft_summary_writer_create(weft_str_t directory, weft_str_t suffix,
                                                          int64_t max_queue, int64_t flush_millis,
                                                          weft_object_t **out);

#endif /* WEFT_RESOURCES_SUMMARY_WRITER_H_ */
