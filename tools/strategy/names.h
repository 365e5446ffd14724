/* tools/strategy/names.h - the names of the strategies, for completion. */
#ifndef WEFT_TOOLS_STRATEGY_NAMES_H_
#define WEFT_TOOLS_STRATEGY_NAMES_H_

#include "base/str.h"

/* Appends them, separated by spaces. */
void weft_strategy_names(weft_strbuf_t *out);

#endif /* WEFT_TOOLS_STRATEGY_NAMES_H_ */
