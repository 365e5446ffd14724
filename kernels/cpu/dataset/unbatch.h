/* kernels/cpu/dataset/unbatch.h - batches of other sizes: for auto-sharding, which replaces one kind by the
 * other. */
#ifndef WEFT_KERNELS_CPU_DATASET_UNBATCH_H_
#define WEFT_KERNELS_CPU_DATASET_UNBATCH_H_

#include "kernels/cpu/dataset/dataset.h"

typedef struct weft_rebatch_params {
  weft_dataset_params_t base;
  int64_t *sizes; /* num_sizes; of the parts class: one, the number of parts. Owned */
  int64_t num_sizes;
  bool drops_remainder;
} weft_rebatch_params_t;

extern const weft_dataset_class_t weft_rebatch_class; /* RebatchDatasetV2: batches of these sizes, by turns */
extern const weft_dataset_class_t weft_rebatch_parts_class; /* RebatchDataset: each batch in so many parts */

/* The same input as `d`, a RebatchDatasetV2, with each batch in so many equal parts. */
WEFT_MUST_CHECK weft_status_t *weft_rebatch_parts_create(const weft_dataset_t *d, int64_t num_parts,
                                                         weft_dataset_t **out);
/* The rows of d's batches in batches of these sizes, by turns. */
WEFT_MUST_CHECK weft_status_t *weft_rebatch_create(weft_dataset_t *d, const int64_t *sizes, int64_t num_sizes,
                                                   weft_dataset_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_UNBATCH_H_ */
