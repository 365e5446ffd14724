/* graph/const_fold.h - values of small integer formulas, as far as shapes are made from them; for this folder
 * only. */
#ifndef WEFT_GRAPH_CONST_FOLD_H_
#define WEFT_GRAPH_CONST_FOLD_H_

#include "graph/graph.h"

/* Is it worth trying? Cheap. */
bool weft_const_fold_may(const weft_node_t *n);
/* The value of output 0 given the values and shapes of the inputs. partials[i]: what is known of the elements
 * of an integer vector whose value is not known as a whole (WEFT_UNKNOWN_DIM: that one is not; an unknown
 * shape: nothing). *out is owned by the caller, or NULL where the value is not known, too large, or not of an
 * op that is folded; then *out_partial says what is known of its elements. Errors: RESOURCE_EXHAUSTED only.
 */
WEFT_MUST_CHECK weft_status_t *weft_const_fold(const weft_node_t *n, const weft_tensor_t *const *values,
                                               const weft_shape_t *partials, const weft_shape_t *shapes,
                                               weft_tensor_t **out, weft_shape_t *out_partial);

#endif /* WEFT_GRAPH_CONST_FOLD_H_ */
