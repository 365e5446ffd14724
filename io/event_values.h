/* io/event_values.h - what TensorBoard's pages show, as values of a Summary, which an event has as its field
 * WEFT_EVENT_SUMMARY:
 *
 *   weft_event_begin(&b, step);
 *   size_t summary = weft_wire_begin(&b, WEFT_EVENT_SUMMARY);
 *   weft_event_put_scalar(&b, WEFT_STR("loss"), 0.25f, NULL);
 *   weft_wire_end(&b, summary);
 *
 * All append to `b`; out of memory sets b->failed. Texts must be UTF-8 (weft_wire_is_utf8).
 *
 * Source: summary.proto, event.proto; hparams/plugin_data.proto and the graph plugin's metadata.py of
 * TensorBoard.
 */
#ifndef WEFT_IO_EVENT_VALUES_H_
#define WEFT_IO_EVENT_VALUES_H_

#include "base/str.h"

/* `description`: Markdown, shown beside the chart of a tag whose first value has it; NULL: none. */
void weft_event_put_scalar(weft_strbuf_t *b, weft_str_t tag, float value, const char *description);
/* A text; Markdown. */
void weft_event_put_text(weft_strbuf_t *b, weft_str_t tag, weft_str_t text);

/* A graph beside that of WEFT_EVENT_GRAPH, which the graph page has under `tag`: a serialized GraphDef.
 * `statistics`: a serialized RunMetadata of a step of that graph, for times and memory on its nodes; length
 * 0: none. */
void weft_event_put_graph(weft_strbuf_t *b, weft_str_t tag, weft_str_t graph_def, weft_str_t statistics);
/* Not a value but the field WEFT_EVENT_RUN_METADATA of an event: the statistics of a step of the graph that
 * is the run's own, under `tag`. */
void weft_event_put_run_metadata(weft_strbuf_t *b, weft_str_t tag, weft_str_t statistics);

/* A hyperparameter is a number if it reads as one, true or false, or a text. */
typedef struct weft_event_hparam {
  weft_str_t name, value;
} weft_event_hparam_t;
/* The beginning of a session: a row of the table of hyperparameters. `start_seconds` since 1970. */
void weft_event_put_session_start(weft_strbuf_t *b, const weft_event_hparam_t *hparams, int n,
                                  double start_seconds);
void weft_event_put_session_end(weft_strbuf_t *b, bool is_success, double end_seconds);

#endif /* WEFT_IO_EVENT_VALUES_H_ */
