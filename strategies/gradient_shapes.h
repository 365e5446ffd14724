/* strategies/gradient_shapes.h - the gradient of a variable has the variable's shape. */
#ifndef WEFT_STRATEGIES_GRADIENT_SHAPES_H_
#define WEFT_STRATEGIES_GRADIENT_SHAPES_H_

#include "graph/graph.h"

/* Gives the dense gradients that updates of variables take, and what these are made of element by element,
 * the shapes of the variables where inference knew less (an accumulator that leaves a loop, a reshape to a
 * shape that is computed). An update fails in the step if its gradient has another shape, so a step that
 * succeeds has these. Shapes of `g` are inferred. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_infer_gradient_shapes(weft_graph_t *g);

#endif /* WEFT_STRATEGIES_GRADIENT_SHAPES_H_ */
