/* resources/summary_writer.c - an event file that is counted, as resources are. */
#include "resources/summary_writer.h"

#include "base/alloc.h"

const weft_resource_type_t weft_summary_writer_type = {.name = "N10tensorflow22SummaryWriterInterfaceE",
                                                       .text = "SummaryWriterInterface"};

static void writer_destroy(weft_object_t *o) {
  weft_summary_writer_t *w = (weft_summary_writer_t *)o;
  weft_status_free(weft_event_file_close(w->file)); /* there is no caller to tell */
  weft_free(w);
}

weft_status_t *weft_summary_writer_create(weft_str_t directory, weft_str_t suffix, int64_t max_queue,
                                          int64_t flush_millis, weft_object_t **out) {
  weft_summary_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("a summary writer");
  atomic_init(&w->object.refs, 1);
  w->object.destroy = writer_destroy;
  weft_status_t *s = weft_event_file_create(directory, suffix, max_queue, flush_millis, &w->file);
  if (s == NULL) *out = &w->object;
  if (s != NULL) weft_free(w);
  return s;
}
