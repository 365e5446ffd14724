/* graph/function_fingerprint.h - for this folder only. */
#ifndef WEFT_GRAPH_FUNCTION_FINGERPRINT_H_
#define WEFT_GRAPH_FUNCTION_FINGERPRINT_H_

#include "base/str.h"

/* Equal for two serialized FunctionDefs that differ only in the order of map entries. */
uint64_t weft_function_fingerprint(weft_str_t function_def);

#endif /* WEFT_GRAPH_FUNCTION_FINGERPRINT_H_ */
