/* sharding/data/analysis.h - an analysis under way; for the files that drive it. Rules see rules.h
 * alone. */
#ifndef WEFT_SHARDING_DATA_ANALYSIS_H_
#define WEFT_SHARDING_DATA_ANALYSIS_H_

#include "graph/passes.h"
#include "sharding/data/rules.h"

/* What a TensorArray, a gradient of one, or a stack holds. */
typedef struct cell {
  int node, of; /* the node that made it; of a gradient: the cell of its TensorArray, and node -1 */
  weft_str_t source;
  weft_data_value_t value;
  weft_axis_sharding_t forced; /* how elements must be put: a loop reads them so; NONE: as they come */
  int forced_in;               /* the round in which that was asked for */
} weft_data_cell_t;

/* Rows partitioned by number: part `part` of `num_parts` by the numbers in `by`. */
typedef struct weft_data_pick weft_data_pick_t;
struct weft_data_pick {
  weft_data_pick_t *next;
  weft_output_t by;
  int part, num_parts, number;
};

enum { WEFT_DATA_NOTES = 40 }; /* at most; what follows is left out */

struct weft_data_analysis { /* Confined. */
  const weft_graph_t *g;
  const weft_data_options_t *options;
  weft_data_plan_t *plan;
  weft_arena_t arena;  /* of the analysis alone */
  weft_node_t **order; /* owned; needed ones, producers first */
  int num_order;
  weft_data_value_t **values;   /* by node id */
  bool **shared;                /* by node id: this part is added up for all */
  weft_axis_sharding_t *forced; /* by node id, of Enter and makers of lists: how the value, or the elements,
                            must be given; NONE: as it comes */
  const weft_shape_t **shapes;  /* by node id: better known than in the graph; NULL: as there */
  weft_frames_t frames;
  bool *is_whole; /* by outermost frame: runs whole on every replica; NULL: none does */
  bool has_loops, has_cells;
  weft_data_cell_t *cells; /* owned; cells[0] is unused */
  int num_cells, capacity;
  weft_data_pick_t *picks; /* the latest first */
  int *forced_in; /* by node id: the round in which `forced` was asked for, of TensorListFromTensor */
  int *asked;     /* by node id: the last round in which true values were asked for */
  int round;
  weft_data_value_t *scratch; /* of one visit: as many as the node with most inputs and outputs needs */
  int num_scratch;
  bool again;           /* a rule has asked for something: another pass, at once */
  bool later;           /* the same, after this round: others may ask in it, too */
  bool changed, failed; /* failed: there was no memory */
};

/* ---- node.c ---- */

/* Asks the rule of one node; a->changed tells whether anything is new. Waits (does nothing) while an input is
 * not known. */
WEFT_MUST_CHECK weft_status_t *weft_data_visit(weft_data_analysis_t *a, const weft_node_t *n);
bool weft_data_is_batch_placeholder(const weft_data_analysis_t *a, const weft_node_t *n);

/* ---- force.c ---- */

/* Asks that `from`, a value inside a loop, be given as `to`; *found false if it is made inside. *any: that is
 * new. */
void weft_data_force(weft_data_analysis_t *a, weft_output_t from, const weft_axis_sharding_t *to, bool *found,
                     bool *any);
/* May its value have come into the loop from outside? */
bool weft_data_comes_through(const weft_node_t *n);
/* Does it take one element out of a TensorArray or a list? Does it make a list, of nothing or of tensors? */
bool weft_data_is_element(const weft_node_t *n);
bool weft_data_makes_list(const weft_node_t *n);

/* ---- random.c ---- */
/* Adds the notes about random numbers for rows. */
WEFT_MUST_CHECK weft_status_t *weft_data_note_draws(weft_data_analysis_t *a);

/* ---- shapes.c ---- */

/* Ranks that the graph's own shapes lack. Of dims only those that are 1 are believed. */
WEFT_MUST_CHECK weft_status_t *weft_data_improve_shapes(weft_data_analysis_t *a);
/* The rank of output 0, where shape inference lacks it: inside loops, mostly. -1: not known. */
int weft_data_likely_rank(const weft_data_ctx_t *c);

#endif /* WEFT_SHARDING_DATA_ANALYSIS_H_ */
