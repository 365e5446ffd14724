/* graph/control_loop.h - lets a loop run in a part that holds only some of its nodes.
 *
 * A receive inside a loop must fire once per iteration, also in a part that has
 * no Enter, Merge and Switch of that loop. So each such part gets a small loop
 * of its own, Enter -> Merge -> Switch -> NextIteration, driven by the loop's
 * condition, and its Merge triggers the receives. Internal to partition.c.
 */
#ifndef WEFT_GRAPH_CONTROL_LOOP_H_
#define WEFT_GRAPH_CONTROL_LOOP_H_

#include "graph/passes.h"

typedef struct weft_control_loops {
  weft_graph_t *g;
  weft_frames_t frames;
  weft_node_t **enter_of; /* by frame: one of the Enters, for its attributes; NULL for the root */
  weft_node_t **merges;   /* by part * num_frames + frame: the Merge of the loop; NULL: none yet */
  weft_arena_t arena;
  int num_parts;
  bool has_loops;
} weft_control_loops_t;

/* Finds the frames; moves Switch and Exit to their data input's device, Enter and NextIteration to their
 * first consumer's, so that fewer edges of a loop cross. */
WEFT_MUST_CHECK weft_status_t *weft_control_loops_init(weft_control_loops_t *c, weft_graph_t *g);
void weft_control_loops_deinit(weft_control_loops_t *c);
/* The frame in which values on the edges out of `n` live; 0: no loop. */
int weft_control_loops_value_frame(const weft_control_loops_t *c, const weft_node_t *n);
/* Makes sure that part `part` has a control loop for `frame` and those around it; its nodes get `device`. */
WEFT_MUST_CHECK weft_status_t *weft_control_loops_need(weft_control_loops_t *c, int part, int frame,
                                                       weft_str_t device);

#endif /* WEFT_GRAPH_CONTROL_LOOP_H_ */
