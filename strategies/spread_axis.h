/* strategies/spread_axis.h - where the rows of a value lie, and what rules say of it again and again; for
 * this folder only. */
#ifndef WEFT_STRATEGIES_SPREAD_AXIS_H_
#define WEFT_STRATEGIES_SPREAD_AXIS_H_

#include "strategies/spread_rules.h"

/* ---- inputs ---- */

static inline bool weft_spread_is_rows(const weft_spread_ctx_t *c, int i) {
  return c->in[i].s.kind == WEFT_SPREAD_ROWS;
}
static inline bool weft_spread_is_part(const weft_spread_ctx_t *c, int i) {
  return c->in[i].s.kind == WEFT_SPREAD_PART;
}
/* Is every input the same everywhere? */
bool weft_spread_all_same(const weft_spread_ctx_t *c);
/* The same everywhere, or on replica 0 alone? */
bool weft_spread_all_plain(const weft_spread_ctx_t *c);
/* The axis of rows of input i, or along which it has the whole batch; -1: none. */
int weft_spread_batch_axis(const weft_spread_ctx_t *c, int i);
/* Inputs [first, end) are numbers that all replicas agree on. False if they cannot be. */
bool weft_spread_want_numbers(weft_spread_ctx_t *c, int first, int end);

/* ---- outputs ---- */

/* Of plain inputs once; of others the true ones, everywhere. */
weft_status_t *weft_spread_fall_back(weft_spread_ctx_t *c);
/* Of an op linear in input 0 whose other inputs are the same everywhere: parts stay parts, degrees stay.
 * False if it is neither. */
bool weft_spread_passes_whole(weft_spread_ctx_t *c);
/* Output o: rows of input i along another axis. */
void weft_spread_give_rows(weft_spread_ctx_t *c, int i, int o, int axis);
/* Nothing is spread, but the whole batch may lie in input 0: it then lies along `axis` of the outputs; -1:
 * nowhere. */
weft_status_t *weft_spread_keep_whole(weft_spread_ctx_t *c, int axis);

/* ---- shapes ---- */

/* Does element i count rows? */
bool weft_spread_counts_rows(const weft_spread_ints_t *ints, int i);
/* The only element that does; -1: none, or more than one. */
int weft_spread_counting(const weft_spread_ints_t *ints);
/* So many rows per row of the batch; 0: not known. */
int64_t weft_spread_factor_of(const weft_spread_ints_t *ints, int i);

#endif /* WEFT_STRATEGIES_SPREAD_AXIS_H_ */
