/* tools/graph_file.h - a graph file, binary or text, as the bytes of a GraphDef. */
#ifndef WEFT_TOOLS_GRAPH_FILE_H_
#define WEFT_TOOLS_GRAPH_FILE_H_

#include "base/str.h"

/* Reads `path`; ".pbtxt" and ".txt" are text format, everything else is binary. *out is owned by the caller
 * (weft_strbuf_deinit). Errors: NOT_FOUND; INVALID_ARGUMENT with file, line and column. */
WEFT_MUST_CHECK weft_status_t *weft_graph_file_read(const char *path, weft_strbuf_t *out);
/* Any file as it is. */
WEFT_MUST_CHECK weft_status_t *weft_file_read(const char *path, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_GRAPH_FILE_H_ */
