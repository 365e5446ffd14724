/* strategies/draw_rows.h - the node that draws a replica's rows of what another node draws for the whole
 * batch. */
#ifndef WEFT_STRATEGIES_DRAW_ROWS_H_
#define WEFT_STRATEGIES_DRAW_ROWS_H_

#include "sharding/data/plan.h"

/* Adds a node that draws rows of what `n` draws, as the analysis says in `draw` (WEFT_DRAW_SHARD). `spec` has
 * a name, a device, controls, and n's inputs with one more behind them: int64 [3], where the rows begin in
 * the batch, how many they are, and the rows of all; the rest of it is filled in. */
WEFT_MUST_CHECK weft_status_t *weft_draw_rows_add(weft_graph_t *g, const weft_node_t *n,
                                                  const weft_data_draw_t *draw, weft_node_spec_t *spec,
                                                  weft_node_t **out);

#endif /* WEFT_STRATEGIES_DRAW_ROWS_H_ */
