/* tools/top/view_json.h - a view of a cluster for machines. docs/observing.md has the keys. */
#ifndef WEFT_TOOLS_TOP_VIEW_JSON_H_
#define WEFT_TOOLS_TOP_VIEW_JSON_H_

#include <jansson.h>

#include "tools/top/view.h"

/* What is not known is null. NULL without memory. */
json_t *weft_top_view_json(const weft_top_view_t *v, bool has_nodes);

#endif /* WEFT_TOOLS_TOP_VIEW_JSON_H_ */
