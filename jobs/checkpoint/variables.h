/* jobs/checkpoint/variables.h - the variables of a single-device graph, and what a checkpoint calls them.
 *
 * A checkpoint calls a variable as TensorFlow's Saver does:
 *   - as the SaveV2 nodes of the graph and of the functions that it calls call it, if there are any that save
 * it;
 *   - a part of a partitioned variable ("table/part_1"; a slot of it: "table/part_1/Adam") is a slice of the
 * tensor "table" ("table/Adam");
 *   - any other one by its node's name.
 * All variables of the graph are saved, those of metrics included: a GraphDef does not tell local ones from
 * others.
 */
#ifndef WEFT_JOBS_CHECKPOINT_VARIABLES_H_
#define WEFT_JOBS_CHECKPOINT_VARIABLES_H_

#include "graph/graph.h"
#include "io/tensor_slice.h"

typedef struct weft_saved_variable {
  const weft_node_t *node; /* lent by the graph */
  weft_str_t tensor;       /* what a checkpoint calls it */
  weft_dtype_t dtype;
  weft_shape_t shape; /* may not be known */
  bool is_part;       /* a slice of `tensor`, whose shape is `full`, beginning at `start` */
  weft_shape_t full;
  int64_t start[WEFT_MAX_DIMS];
  bool is_needed; /* the step reads or writes it */
} weft_saved_variable_t;

typedef struct weft_saved_variables { /* Thread-compatible. */
  weft_arena_t arena;
  weft_saved_variable_t *items; /* in the order of the graph's nodes */
  int n;
  weft_map_t by_node; /* nodes' names to items; several handles of one variable to the same */
  weft_tensor_t
      *object_graph; /* the constant that a saver of objects (tf.train.Checkpoint, SavedModel) stores
                        beside them, by which it finds variables; owned; NULL: there is none */
} weft_saved_variables_t;

/* `step`: the names of nodes and tensors that the step runs and fetches; unknown ones are passed over. The
 * graph outlives *out, which the caller deinits in any case. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_saved_variables_find(const weft_graph_t *g, const weft_str_t *step,
                                                         int num_step, weft_saved_variables_t *out);
void weft_saved_variables_deinit(weft_saved_variables_t *v);
/* By the name of a node that holds it; NULL: there is none. */
weft_saved_variable_t *weft_saved_variables_get(const weft_saved_variables_t *v, weft_str_t node);

/* Where rows [first_row, first_row + shape's rows) of the variable lie in its tensor. `shape` is known. */
void weft_saved_variable_place(const weft_saved_variable_t *v, int64_t first_row, const weft_shape_t *shape,
                               weft_tensor_slice_t *out);

#define WEFT_OBJECT_GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH" /* what it is called in a checkpoint */

/* ---- for the files of this folder ---- */

/* All variables, each under its node's name; the caller deinits *v in any case. */
WEFT_MUST_CHECK weft_status_t *weft_saved_variables_collect(const weft_graph_t *g, weft_saved_variables_t *v);
/* The variable that an output is, straight or through reads of it; NULL: none. */
weft_saved_variable_t *weft_saved_variable_behind(const weft_saved_variables_t *v, weft_output_t of);
/* Names the parts of partitioned variables that no SaveV2 node has named (partitions.c). */
WEFT_MUST_CHECK weft_status_t *weft_saved_variables_name_parts(const weft_graph_t *g,
                                                               weft_saved_variables_t *v);

#endif /* WEFT_JOBS_CHECKPOINT_VARIABLES_H_ */
