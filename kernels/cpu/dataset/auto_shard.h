/* kernels/cpu/dataset/auto_shard.h - a worker's own part of a data set. */
#ifndef WEFT_KERNELS_CPU_DATASET_AUTO_SHARD_H_
#define WEFT_KERNELS_CPU_DATASET_AUTO_SHARD_H_

#include "kernels/cpu/dataset/dataset.h"

/* Part `index` of `num_workers`, by one of Weft's own policies (attribute auto_shard_policy of
 * AutoShardDataset, _weft_policy of OneShotIterator): -2, whole batches or files as the options of the data
 * set say; -3, parts of the batches for workers that share each step, as the options say; -4, the same, but
 * never by files. Errors: NOT_FOUND: it is to be cut by files, and has none. */
WEFT_MUST_CHECK weft_status_t *weft_auto_shard(weft_dataset_t *d, int64_t policy, int64_t num_workers,
                                               int64_t index, weft_dataset_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_AUTO_SHARD_H_ */
