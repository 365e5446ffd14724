/* kernels/cpu/dataset/map.h - calls of a function for each element, many at once: for data sets that are
 * built on it.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_MAP_H_
#define WEFT_KERNELS_CPU_DATASET_MAP_H_

#include "kernels/cpu/dataset/options.h"

typedef struct weft_map_params {
  weft_dataset_params_t base;
  bool preserves_cardinality;
  int64_t num_parallel; /* calls at once; WEFT_AUTOTUNE */
  weft_order_t order;
  /* Makes an element of `args`, lent, on the calling thread; several at once. NULL: the data set's function
   * does. After a failure what is in `out` is released. */
  weft_status_t *(*apply)(const weft_iterator_t *it, weft_tensor_t *const *args, weft_tensor_t **out);
} weft_map_params_t;

extern const weft_dataset_class_t weft_parallel_map_class; /* its params: weft_map_params_t */
bool weft_is_map(const weft_dataset_t *d);                 /* of either kind */

/* Its parts, for classes whose params begin with weft_map_params_t. */
typedef struct weft_parallel_iterator {
  weft_iterator_t base;
  weft_ahead_t *ahead;
  int64_t index; /* of the call */
} weft_parallel_iterator_t;
weft_status_t *weft_parallel_begin(weft_iterator_t *it);
weft_status_t *weft_parallel_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end);
void weft_parallel_end(weft_iterator_t *it);
weft_status_t *weft_parallel_save(weft_iterator_t *it, weft_saved_t *to);
weft_status_t *weft_parallel_load(weft_iterator_t *it, weft_saved_t *from);

#endif /* WEFT_KERNELS_CPU_DATASET_MAP_H_ */
