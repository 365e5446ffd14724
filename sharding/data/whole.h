/* sharding/data/whole.h - loops that run whole on every replica, for the files that drive the analysis.
 */
#ifndef WEFT_SHARDING_DATA_WHOLE_H_
#define WEFT_SHARDING_DATA_WHOLE_H_

#include "sharding/data/analysis.h"

/* Is `n` in a loop that runs whole on every replica? */
bool weft_data_is_whole(const weft_data_analysis_t *a, const weft_node_t *n);
/* Makes the loop of `n`, with all loops around it, such a one. *made is false if `n` is in no loop, or that
 * was done before. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_data_make_whole(weft_data_analysis_t *a, const weft_node_t *n,
                                                    bool *made);
/* Asks that the elements of the list `from` be put whole, wherever it was made; a->later tells whether that
 * is new. Nodes are marked: all marks are cleared before. */
void weft_data_make_whole_list(weft_data_analysis_t *a, weft_output_t from);
/* The rule of Enter there. */
void weft_data_enter_whole(weft_data_ctx_t *c);
/* After the rule of any other node there: what it takes and gives is whole. */
void weft_data_settle_whole(weft_data_ctx_t *c);

#endif /* WEFT_SHARDING_DATA_WHOLE_H_ */
