/* strategies/draw_rows.h - the node that draws a replica's rows of what another node draws for the whole
 * batch. */
#ifndef WEFT_STRATEGIES_DRAW_ROWS_H_
#define WEFT_STRATEGIES_DRAW_ROWS_H_

#include "strategies/spread.h"

/* Adds a node that draws rows of what `n` draws, as the analysis says in `draw` (WEFT_DRAW_ROWS). `spec` has
 * a name, a device, controls, and n's inputs with one more behind them: int64 [3], where the rows begin in
 * the batch, how many they are, and the rows of all; the rest of it is filled in. */
WEFT_MUST_CHECK weft_status_t *weft_draw_rows_add(weft_graph_t *g, const weft_node_t *n,
                                                  const weft_spread_draw_t *draw, weft_node_spec_t *spec,
                                                  weft_node_t **out);
/* Does a node draw from a stream of numbers that goes on from run to run? Is the seed of its stream given? */
bool weft_draws_from_stream(const weft_node_t *n);
bool weft_has_seed(const weft_node_t *n);

#endif /* WEFT_STRATEGIES_DRAW_ROWS_H_ */
