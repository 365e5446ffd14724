/* tools/graph_summary.h - what is in a graph file, found without building the graph, so that also files with
 * unknown ops can be looked at. */
#ifndef WEFT_TOOLS_GRAPH_SUMMARY_H_
#define WEFT_TOOLS_GRAPH_SUMMARY_H_

#include "base/arena.h"
#include "base/hash_map.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

typedef struct weft_summary_tensor {
  weft_str_t name;
  int dtype; /* 0: not said */
  weft_shape_t shape;
} weft_summary_tensor_t;

typedef struct weft_summary_count {
  weft_str_t name;
  int64_t count;
} weft_summary_count_t;

/* Everything is in `arena`. Lists are in the order of the file, counts sorted by count, then name. */
typedef struct weft_graph_summary {
  weft_arena_t arena;
  int64_t num_nodes, num_functions, producer;
  weft_summary_tensor_t *inputs, *variables;
  weft_str_t *outputs; /* nodes without consumers; targets like "train" among them */
  weft_summary_count_t *ops, *unsupported, *devices;
  int num_inputs, num_variables, num_outputs, num_ops, num_unsupported, num_devices;
} weft_graph_summary_t;

/* Errors: INVALID_ARGUMENT if the bytes are no GraphDef. */
WEFT_MUST_CHECK weft_status_t *weft_graph_summarize(weft_str_t graph_def, weft_graph_summary_t *out);
void weft_graph_summary_deinit(weft_graph_summary_t *s);
int64_t weft_summary_bytes(const weft_summary_tensor_t *t); /* -1 if the shape is not known */

#endif /* WEFT_TOOLS_GRAPH_SUMMARY_H_ */
