/* sharding/data/flow.h - values that come from several places; for this folder only. */
#ifndef WEFT_SHARDING_DATA_FLOW_H_
#define WEFT_SHARDING_DATA_FLOW_H_

#include "sharding/data/rules.h"

/* What `a` so far and one more value are together; *fits false if they do not go together. */
weft_data_value_t weft_data_join(weft_data_ctx_t *c, const weft_data_value_t *a, const weft_data_value_t *b,
                                 bool *fits);
/* How `v` must be given so that it goes as `to`. */
weft_axis_sharding_t weft_data_as(const weft_data_value_t *v, const weft_axis_sharding_t *to);

#endif /* WEFT_SHARDING_DATA_FLOW_H_ */
