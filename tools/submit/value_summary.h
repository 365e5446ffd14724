/* tools/submit/value_summary.h - a string that is a Summary, for people and for machines. */
#ifndef WEFT_TOOLS_SUBMIT_VALUE_SUMMARY_H_
#define WEFT_TOOLS_SUBMIT_VALUE_SUMMARY_H_

#include <jansson.h>

#include "base/str.h"

/* `bytes` are such that weft_summary_has_values holds. Appends "weights: histogram of 100 values, -1 to 2;
 * picture/image/0: image of 28 x 28"; at most so many values, of so many bytes each, as fit on a screen. */
void weft_value_print_summary(weft_str_t bytes, weft_strbuf_t *out);
/* In a few letters: "histogram of 100 values", or "summary of 3 values". */
void weft_value_print_summary_short(weft_str_t bytes, weft_strbuf_t *out);
/* {"summary": [{"tag": "weights", "kind": "histogram", "count": 100, "min": -1, "max": 2}, ...]}; NULL
 * without memory. */
json_t *weft_value_summary_json(weft_str_t bytes);

#endif /* WEFT_TOOLS_SUBMIT_VALUE_SUMMARY_H_ */
