/* strategies/copy.h - copies nodes of one graph into another under new names: how strategies multiply a
 * graph.
 *
 * A copier is one copy of (part of) a graph: a replica, a worker loop, a task. It maps
 * nodes of the source to nodes of the destination; entries may be set by hand
 * (a variable that lives elsewhere, a slice instead of a placeholder) before
 * others are copied, and then stand for the node from there on.
 */
#ifndef WEFT_STRATEGIES_COPY_H_
#define WEFT_STRATEGIES_COPY_H_

#include "graph/graph.h"

typedef struct weft_copier { /* Confined. */
  weft_arena_t arena;
  const weft_graph_t *from; /* borrowed */
  weft_graph_t *to;         /* borrowed */
  weft_str_t prefix;        /* "replica_1/"; "" keeps names; copied */
  bool drops_colocation;    /* set by the caller: copies sit where they ask to, "loc:@x" or not */
  weft_str_t device; /* requested device of copies that asked for none or any; copied. "": copies keep what
                        they asked for */
  weft_output_t **outputs; /* by source node id: what stands for each output; NULL: not copied yet */
  weft_node_t **nodes;     /* by source node id: what a control edge comes from */
  weft_node_t **copies;    /* by source node id: the copy that weft_copier_copy made; NULL: none */
} weft_copier_t;

WEFT_MUST_CHECK weft_status_t *weft_copier_init(weft_copier_t *c, const weft_graph_t *from, weft_graph_t *to,
                                                weft_str_t prefix, weft_str_t device);
void weft_copier_deinit(weft_copier_t *c);
/* From now on `with` stands for `of`. Control edges from of's node come from with's, unless something stands
 * for it. */
WEFT_MUST_CHECK weft_status_t *weft_copier_set(weft_copier_t *c, weft_output_t of, weft_output_t with);
WEFT_MUST_CHECK weft_status_t *weft_copier_set_node(weft_copier_t *c, const weft_node_t *of,
                                                    weft_node_t *with); /* all outputs, and control edges */
/* Copies one node: inputs and controls must stand already, but those that come round a loop (they are wired
 * by weft_copier_finish). frame_name, colocation ("loc:@x", to names of this copy) and shared names of
 * resources that are no variables get the prefix; a device that the node asked for gives way to the copier's.
 * A name that is taken is made unique. Errors: INTERNAL naming both nodes if an input does not stand;
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_copier_copy(weft_copier_t *c, const weft_node_t *n, weft_node_t **out);
/* The same under another name, which must be free, and on another device ("": as weft_copier_copy chooses).
 */
WEFT_MUST_CHECK weft_status_t *weft_copier_copy_as(weft_copier_t *c, const weft_node_t *n, weft_str_t name,
                                                   weft_str_t device, weft_node_t **out);
/* Wires the back edges of loops, and names in colocations the nodes that stand for the named ones; those that
 * nothing stands for are dropped. */
WEFT_MUST_CHECK weft_status_t *weft_copier_finish(weft_copier_t *c);
weft_output_t weft_copier_output(const weft_copier_t *c,
                                 weft_output_t of); /* node NULL: nothing stands for it */

/* An empty graph with the functions and versions of `from`. */
WEFT_MUST_CHECK weft_status_t *weft_copier_new_graph(const weft_graph_t *from, weft_graph_t **out);

#endif /* WEFT_STRATEGIES_COPY_H_ */
