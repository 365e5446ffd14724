/* strategies/spread_flow.h - values that come from several places; for this folder only. */
#ifndef WEFT_STRATEGIES_SPREAD_FLOW_H_
#define WEFT_STRATEGIES_SPREAD_FLOW_H_

#include "strategies/spread_rules.h"

/* What `a` so far and one more value are together; *fits false if they do not go together. */
weft_spread_value_t weft_spread_meet(weft_spread_ctx_t *c, const weft_spread_value_t *a,
                                     const weft_spread_value_t *b, bool *fits);
/* How `v` must be given so that it goes as `to`. */
weft_spread_t weft_spread_as(const weft_spread_value_t *v, const weft_spread_t *to);

#endif /* WEFT_STRATEGIES_SPREAD_FLOW_H_ */
