/* tools/strategy/names.c - the names of the strategies, for completion. */
#include "tools/strategy/names.h"

#include "strategies/strategy.h"

void weft_strategy_names(weft_strbuf_t *out) {
  for (int i = 0; weft_strategies[i] != NULL; i++)
    weft_strbuf_printf(out, "%s%s", i > 0 ? " " : "", weft_strategies[i]->name);
}
