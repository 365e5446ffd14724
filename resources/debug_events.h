/* resources/debug_events.h - the files of TensorFlow's second debugger (tfdbg2): what the values of a graph's
 * instrumented outputs were.
 *
 * A set of six files whose names share a prefix with the time, the host and the process, so that the tasks of
 * a cluster can write into one folder; the debugger's reader joins the sets of one run. The client writes
 * sources, stacks and graphs into a set of its own; a task writes traces of values, and its other files stay
 * empty. Source: tensorflow/core/protobuf/debug_event.proto and the behaviour of DebugEventsWriter.
 */
#ifndef WEFT_RESOURCES_DEBUG_EVENTS_H_
#define WEFT_RESOURCES_DEBUG_EVENTS_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

typedef struct weft_debug_events weft_debug_events_t; /* Thread-safe. A weft_object_t in front. */

/* Which value a trace is of; texts are borrowed. */
typedef struct weft_debug_trace {
  weft_str_t context; /* of the graph, as the client numbered it */
  weft_str_t op;      /* may be empty */
  weft_str_t device;
  int64_t slot; /* below 1: not told */
  int64_t mode; /* TensorDebugMode; below 1: not told */
} weft_debug_trace_t;

/* The set of files of a folder, made with it on the first call; *out is retained. With `buffer` above 0 the
 * last so many traces are kept and written when the set is released, which is when the task ends; else each
 * is written at once. Run and buffer are those of the first call. Errors: those of files. */
WEFT_MUST_CHECK weft_status_t *weft_debug_events_open(weft_resource_manager_t *m, weft_str_t folder,
                                                      weft_str_t run, int64_t buffer,
                                                      weft_debug_events_t **out);
void weft_debug_events_release(weft_debug_events_t *e);

/* Adds a trace with a value in host memory. Errors: those of files, UNIMPLEMENTED (a variant that holds
 * something), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_debug_events_add(weft_debug_events_t *e, const weft_debug_trace_t *trace,
                                                     const weft_tensor_t *value);

#endif /* WEFT_RESOURCES_DEBUG_EVENTS_H_ */
