/* tools/submit/names.h - nodes and outputs of a graph by the names that people type. */
#ifndef WEFT_TOOLS_SUBMIT_NAMES_H_
#define WEFT_TOOLS_SUBMIT_NAMES_H_

#include <tensorflow/c/c_api.h>

#include "base/str.h"

/* Both: `option` ("--fetch") is for the message. Errors: NOT_FOUND naming it, and what may have been meant. */
WEFT_MUST_CHECK weft_status_t *weft_find_node(TF_Graph *graph, const char *option, weft_str_t name, TF_Operation **out);
/* "name" or "name:k". */
WEFT_MUST_CHECK weft_status_t *weft_find_output(TF_Graph *graph, const char *option, weft_str_t name, TF_Output *out);

#endif /* WEFT_TOOLS_SUBMIT_NAMES_H_ */
