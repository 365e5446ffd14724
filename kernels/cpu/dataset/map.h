/* kernels/cpu/dataset/map.h - calls of a function for each element, many at once: for data sets that are
 * built on it. */
#ifndef WEFT_KERNELS_CPU_DATASET_MAP_H_
#define WEFT_KERNELS_CPU_DATASET_MAP_H_

#include "kernels/cpu/dataset/options.h"

typedef struct weft_map_params {
  weft_dataset_params_t base;
  bool preserves_cardinality;
  int64_t num_parallel; /* calls at once; WEFT_AUTOTUNE */
  weft_order_t order;
} weft_map_params_t;

extern const weft_dataset_class_t weft_parallel_map_class; /* its params: weft_map_params_t */

#endif /* WEFT_KERNELS_CPU_DATASET_MAP_H_ */
