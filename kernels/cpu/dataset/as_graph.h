/* kernels/cpu/dataset/as_graph.h - a data set as the graph that makes it.
 *
 * A data set that a node has made remembers the node and what that was given (weft_dataset_origin_t). So a
 * graph is written from it at any time: data sets become the nodes that have made them, other tensors become
 * constants, and the functions of the nodes with all that they may call become the library.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_AS_GRAPH_H_
#define WEFT_KERNELS_CPU_DATASET_AS_GRAPH_H_

#include "kernels/cpu/dataset/dataset.h"

/* Appends a serialized GraphDef, whose node "dataset", a _Retval, stands for `d`. Equal data sets of one
 * graph give equal bytes. Errors: UNIMPLEMENTED (no node has made a data set, or a tensor of what only this
 * process knows went into it), INVALID_ARGUMENT (two functions of one name), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_as_graph(const weft_dataset_t *d, weft_strbuf_t *out);

/* FAILED_PRECONDITION "<op> is stateful.", or "... depends on ...": elements of the graph's data set depend
 * on state that the graph does not have: on that of a function's node, or of a resource. Source: TensorFlow's
 * CheckExternalState. */
WEFT_MUST_CHECK weft_status_t *weft_graph_check_external_state(weft_str_t graph_def);
/* The same of the functions of `d` alone, without its inputs. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_check_external_state(const weft_dataset_t *d);

/* What an op's attribute external_state_policy says is done about it. Weft does not warn. */
typedef enum weft_state_policy { WEFT_STATE_WARN, WEFT_STATE_IGNORE, WEFT_STATE_FAIL } weft_state_policy_t;

/* A number for what a data set computes: the same for graphs that differ in the names of nodes and functions
 * alone, in other sessions and processes, too. Errors: those of weft_dataset_as_graph(). */
WEFT_MUST_CHECK weft_status_t *weft_dataset_fingerprint(const weft_dataset_t *d, uint64_t *out);
/* The same of what the last _Retval of a graph computes; false: it is no graph, or has none. */
bool weft_graph_fingerprint(weft_str_t graph_def, uint64_t *out);

#endif /* WEFT_KERNELS_CPU_DATASET_AS_GRAPH_H_ */
