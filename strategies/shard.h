/* strategies/shard.h - how many shards a variable has, and which rows each shard holds.
 *
 * A variable is partitioned along its first dimension by the rule "div": the first (rows mod n) shards have
 * one row more than the others. Scalars are never partitioned, and no shard is empty. The results equal those
 * of TensorFlow's sharded_variable.py (FixedShardsPartitioner, MinSizePartitioner, MaxSizePartitioner).
 */
#ifndef WEFT_STRATEGIES_SHARD_H_
#define WEFT_STRATEGIES_SHARD_H_

#include "tensor/dtype.h"
#include "tensor/shape.h"

typedef enum weft_partitioner_kind {
  WEFT_PARTITION_NONE,
  WEFT_PARTITION_FIXED,    /* `shards` parts */
  WEFT_PARTITION_MIN_SIZE, /* as many as can be with at least `bytes` in each, up to `shards` */
  WEFT_PARTITION_MAX_SIZE, /* as few as can be with at most `bytes` in each; up to `shards`, 0: no limit */
} weft_partitioner_kind_t;

typedef struct weft_partitioner {
  weft_partitioner_kind_t kind;
  int64_t shards, bytes;
} weft_partitioner_t;

/* "fixed:3", "min_size:262144", "min_size:262144:2", "max_size:65536", "max_size:65536:4", "" and "none".
 * Bytes may end with K, M or G. MinSize without a limit takes `default_shards` (0: 1). Errors:
 * INVALID_ARGUMENT with the text. */
WEFT_MUST_CHECK weft_status_t *weft_partitioner_parse(weft_str_t text, int default_shards,
                                                      weft_partitioner_t *out);
/* The number of shards, 1 or more; 1 where the shape is not fully known. */
int64_t weft_partitioner_count(const weft_partitioner_t *p, const weft_shape_t *shape, weft_dtype_t dtype);
/* The rows [*out_begin, *out_begin + *out_rows) of part i of n. n is not more than rows. */
void weft_shard_rows(int64_t rows, int64_t n, int64_t i, int64_t *out_begin, int64_t *out_rows);

#endif /* WEFT_STRATEGIES_SHARD_H_ */
