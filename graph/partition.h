/* graph/partition.h - partitions a placed graph by device or task and connects the parts with _Send and
 * _Recv.
 *
 * Every data edge that crosses becomes one transfer per (producer output,
 * destination part), however many consumers it has there; control edges cross
 * as an empty tensor. Loops that span parts get a control loop in each part, so
 * that receives fire once per iteration. Source: TensorFlow's graph_partition.cc
 * as restated in the reference, 3.6.
 */
#ifndef WEFT_GRAPH_PARTITION_H_
#define WEFT_GRAPH_PARTITION_H_

#include "graph/graph.h"

typedef struct weft_partition {
  weft_str_t location; /* what `locate` said; in the source graph's memory */
  weft_graph_t *graph; /* owned by the caller afterwards */
} weft_partition_t;

typedef struct weft_partition_options {
  /* The part that a node with this assigned device belongs to: its task, or the device itself. Equal texts,
   * one part. */
  weft_str_t (*locate)(weft_str_t assigned_device);
  /* Incarnation of a device by full name; 0 if unknown. */
  uint64_t (*incarnation)(void *arg, weft_str_t device);
  void *arg;
  int64_t *next_edge; /* counter for unique edge names ("edge_<n>_<node>") and node names ("<node>_S<n>") */
} weft_partition_options_t;

/* Cuts *g, all of whose nodes have an assigned_device. If they are all in one part, *g itself becomes that
 * part and *g is set to NULL; else *g stays with the caller, with control loops added. *out_parts is an array
 * to be freed with weft_free after its graphs. Errors: INVALID_ARGUMENT "A cross-device loop must have a
 * pivot predicate: <frame>", RESOURCE_EXHAUSTED. Linear in nodes and edges. */
WEFT_MUST_CHECK weft_status_t *weft_graph_partition(weft_graph_t **g, const weft_partition_options_t *o,
                                                    weft_partition_t **out_parts, int *out_num_parts);
void weft_partitions_free(weft_partition_t *parts,
                          int n); /* with the graphs that are left in them; NULL is fine */

#endif /* WEFT_GRAPH_PARTITION_H_ */
