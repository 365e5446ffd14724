/* sharding/data/axis.h - where the rows of a value lie, and what rules say of it again and again; for
 * this folder only. */
#ifndef WEFT_SHARDING_DATA_AXIS_H_
#define WEFT_SHARDING_DATA_AXIS_H_

#include "sharding/data/rules.h"

/* ---- inputs ---- */

static inline bool weft_data_is_shard(const weft_data_ctx_t *c, int i) {
  return c->in[i].s.kind == WEFT_SHARDING_SHARD;
}
static inline bool weft_data_is_partial(const weft_data_ctx_t *c, int i) {
  return c->in[i].s.kind == WEFT_SHARDING_PARTIAL;
}
/* Is every input the same everywhere? */
bool weft_data_all_same(const weft_data_ctx_t *c);
/* The same everywhere, or on replica 0 alone? */
bool weft_data_all_plain(const weft_data_ctx_t *c);
/* The axis of rows of input i, or along which it has the whole batch; -1: none. */
int weft_data_batch_axis(const weft_data_ctx_t *c, int i);
/* Inputs [first, end) are numbers that all replicas agree on. False if they cannot be. */
bool weft_data_require_numbers(weft_data_ctx_t *c, int first, int end);

/* ---- outputs ---- */

/* Of plain inputs once; of others the true ones, everywhere. */
weft_status_t *weft_data_fall_back(weft_data_ctx_t *c);
/* Of an op linear in input 0 whose other inputs are the same everywhere: parts stay parts, degrees stay.
 * False if it is neither. */
bool weft_data_passes_whole(weft_data_ctx_t *c);
/* Output o: rows of input i along another axis. */
void weft_data_give_shard(weft_data_ctx_t *c, int i, int o, int axis);
/* Nothing is sharded, but the whole batch may lie in input 0: it then lies along `axis` of the outputs; -1:
 * nowhere. */
weft_status_t *weft_data_keep_whole(weft_data_ctx_t *c, int axis);

/* ---- shapes ---- */

/* Does element i count rows? */
bool weft_data_counts_rows(const weft_data_ints_t *ints, int i);
/* The only element that does; -1: none, or more than one. */
int weft_data_counting(const weft_data_ints_t *ints);
/* So many rows per row of the batch; 0: not known. */
int64_t weft_data_factor_of(const weft_data_ints_t *ints, int i);

#endif /* WEFT_SHARDING_DATA_AXIS_H_ */
