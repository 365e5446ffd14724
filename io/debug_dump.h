/* io/debug_dump.h - files that TensorFlow's debugger (tfdbg) reads: one event, with one tensor or one graph.
 */
#ifndef WEFT_IO_DEBUG_DUMP_H_
#define WEFT_IO_DEBUG_DUMP_H_

#include "tensor/tensor.h"

/* Which value it is. Texts are borrowed. */
typedef struct weft_debug_key {
  weft_str_t device; /* full name */
  weft_str_t node;   /* with scopes: a folder each */
  int slot;
  weft_str_t op; /* "DebugIdentity" */
} weft_debug_key_t;

/* Writes <root>/<device>/<node>_<slot>_<op>_<time in microseconds>; makes the folders. A file of that name
 * that is there already is kept: this one gets a number behind its name. Host memory only. Errors: those of
 * weft_file_writer_create, UNIMPLEMENTED (a variant that holds something), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_debug_dump_tensor(weft_str_t root, const weft_debug_key_t *key,
                                                      const weft_tensor_t *t);
/* Writes the graph that a device runs, a serialized GraphDef. Errors: as above. */
WEFT_MUST_CHECK weft_status_t *weft_debug_dump_graph(weft_str_t root, weft_str_t device, weft_str_t graph);

#endif /* WEFT_IO_DEBUG_DUMP_H_ */
