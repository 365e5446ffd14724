/* strategies/data_source.h - may a pipeline of the graph be read on several workers?
 *
 * A copy on each worker gives the elements of one device if nothing in the pipeline has state elsewhere and
 * nothing leaves their order open. Both are read off the nodes and the functions that they name.
 */
#ifndef WEFT_STRATEGIES_DATA_SOURCE_H_
#define WEFT_STRATEGIES_DATA_SOURCE_H_

#include "graph/graph.h"

/* TensorFlow's AutoShardPolicy. */
enum { WEFT_SHARD_OFF = -1, WEFT_SHARD_AUTO, WEFT_SHARD_FILE, WEFT_SHARD_DATA, WEFT_SHARD_HINT };

typedef struct weft_data_source { /* Texts are in the arena that the caller gave. */
  int64_t policy;                 /* as the options of the outermost data set that has any say; else AUTO */
  weft_str_t fixed;               /* why it can be read in one place only; "": nothing says so */
  weft_str_t varies; /* why another pass may give other elements, or another order; "": nothing says so */
} weft_data_source_t;

/* Looks at the data set in `of`, and at all that it is made of. */
WEFT_MUST_CHECK weft_status_t *weft_data_source_of_dataset(const weft_graph_t *g, weft_output_t of,
                                                           weft_arena_t *arena, weft_data_source_t *out);
/* The same for the one that a function makes. */
WEFT_MUST_CHECK weft_status_t *weft_data_source_of_function(const weft_graph_t *g,
                                                            const weft_func_attr_t *function,
                                                            weft_arena_t *arena, weft_data_source_t *out);

#endif /* WEFT_STRATEGIES_DATA_SOURCE_H_ */
