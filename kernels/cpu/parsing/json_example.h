/* kernels/cpu/parsing/json_example.h - tf.Examples written as JSON. */
#ifndef WEFT_KERNELS_CPU_PARSING_JSON_EXAMPLE_H_
#define WEFT_KERNELS_CPU_PARSING_JSON_EXAMPLE_H_

#include "base/str.h"

/* Appends the serialized Example that `json` describes, field by field in the order of the text.
 * Errors: INVALID_ARGUMENT; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_example_from_json(weft_str_t json, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_PARSING_JSON_EXAMPLE_H_ */
