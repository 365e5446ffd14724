/* kernels/cpu/dataset/sequence.h - classes that auto-sharding looks for, and the data set that it puts in. */
#ifndef WEFT_KERNELS_CPU_DATASET_SEQUENCE_H_
#define WEFT_KERNELS_CPU_DATASET_SEQUENCE_H_

#include "kernels/cpu/dataset/dataset.h"

extern const weft_dataset_class_t weft_concatenate_class, weft_zip_class, weft_shuffle_class,
    weft_options_class, weft_prefetch_class, weft_assert_cardinality_class;

/* Every num_shards-th element of `d`, from `index` on; `needs_one`: fewer elements than shards are an error.
 */
WEFT_MUST_CHECK weft_status_t *weft_shard_create(weft_dataset_t *d, int64_t num_shards, int64_t index,
                                                 bool needs_one, weft_dataset_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_SEQUENCE_H_ */
