/* resources/accumulator.h - gathers gradients of several workers until there are enough.
 *
 * An accumulator has a step of its own. A gradient from before that step is
 * dropped without a word; any other is added. Taking waits until enough are
 * there, gets their mean (or sum), and moves the accumulator to its next step.
 *
 * A sparse one holds rows by index, in the order in which it merged them: rows
 * that both sides have are added, which finds them only if indices ascend.
 * Each row's mean is over the gradients that had that row.
 */
#ifndef WEFT_RESOURCES_ACCUMULATOR_H_
#define WEFT_RESOURCES_ACCUMULATOR_H_

#include "resources/wait_room.h"

typedef struct weft_accumulator_config {
  weft_dtype_t dtype;
  weft_shape_t shape; /* may be partly unknown */
  bool is_sum;        /* not the mean */
  bool is_sparse;
} weft_accumulator_config_t;

typedef struct weft_accumulator weft_accumulator_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_accumulator_type;

WEFT_MUST_CHECK weft_status_t *weft_accumulator_create(const char *name,
                                                       const weft_accumulator_config_t *config,
                                                       weft_object_t **out);
const weft_accumulator_config_t *weft_accumulator_config(const weft_accumulator_t *a);
int64_t weft_accumulator_count(weft_accumulator_t *a);
void weft_accumulator_set_step(weft_accumulator_t *a, int64_t step);
/* Errors: INVALID_ARGUMENT if the shape does not fit. */
WEFT_MUST_CHECK weft_status_t *weft_accumulator_apply(weft_accumulator_t *a, int64_t local_step,
                                                      weft_tensor_t *gradient);
/* `shape` is the gradient's, checked if `has_known_shape`. */
WEFT_MUST_CHECK weft_status_t *weft_accumulator_apply_sparse(weft_accumulator_t *a, int64_t local_step,
                                                             weft_tensor_t *indices, weft_tensor_t *values,
                                                             const weft_tensor_t *shape,
                                                             bool has_known_shape);
/* Ends the call, at once or later; outputs: the mean, or indices, values and shape of a sparse one. */
void weft_accumulator_take(weft_accumulator_t *a, const weft_resource_call_t *call, int64_t num_required);

#endif /* WEFT_RESOURCES_ACCUMULATOR_H_ */
