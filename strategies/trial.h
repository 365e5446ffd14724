/* strategies/trial.h - what follows every rewrite, and the cost of a strategy by a rewrite that is thrown
 * away. */
#ifndef WEFT_STRATEGIES_TRIAL_H_
#define WEFT_STRATEGIES_TRIAL_H_

#include "strategies/strategy.h"

/* Shapes of the rewritten graph, and what is sent. Errors: those of shape inference, which names the
 * strategy. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_finish(const weft_strategy_t *strategy,
                                                    const weft_strategy_request_t *r, weft_rewrite_t *out);

#endif /* WEFT_STRATEGIES_TRIAL_H_ */
