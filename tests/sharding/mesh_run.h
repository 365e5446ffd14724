/* tests/sharding/mesh_run.h - a small graph, computed on one device, and on a mesh as a plan says.
 *
 * A graph is a table of nodes, each after its inputs, "a b:1 ^c". Of a Placeholder and of a Const `inputs` is
 * the tensor as tests/sharding/parts.h reads it: random numbers, or a constant.
 */
#ifndef WEFT_TESTS_SHARDING_MESH_RUN_H_
#define WEFT_TESTS_SHARDING_MESH_RUN_H_

#include "sharding/propagate.h"

typedef struct weft_mesh_node {
  const char *name, *op, *attrs, *inputs;
} weft_mesh_node_t;

typedef struct weft_mesh_run weft_mesh_run_t; /* Confined. */

/* Builds the graph and computes it on one device. */
WEFT_MUST_CHECK weft_status_t *weft_mesh_run_create(const weft_mesh_node_t *nodes, int num_nodes,
                                                    weft_mesh_run_t **out);
void weft_mesh_run_destroy(weft_mesh_run_t *run); /* NULL is fine */
weft_graph_t *weft_mesh_run_graph(weft_mesh_run_t *run);
weft_output_t weft_mesh_run_value(weft_mesh_run_t *run,
                                  const char *name); /* its output 0; aborts if absent */

/* Computes each node on every device of the plan's mesh, from parts as the plan says, with collectives
 * between arrays of tensors, and puts each value together. *out: how many are not what the one device
 * computed. */
WEFT_MUST_CHECK weft_status_t *weft_mesh_run_compute(weft_mesh_run_t *run, const weft_sharding_plan_t *plan,
                                                     int *out);

#endif /* WEFT_TESTS_SHARDING_MESH_RUN_H_ */
