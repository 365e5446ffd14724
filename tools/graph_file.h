/* tools/graph_file.h - a graph file, binary or text, as the bytes of a GraphDef or MetaGraphDef. */
#ifndef WEFT_TOOLS_GRAPH_FILE_H_
#define WEFT_TOOLS_GRAPH_FILE_H_

#include "base/str.h"

/* Reads `path`; ".pbtxt" and ".txt" are text format, everything else is binary. If it holds a MetaGraphDef,
 * as tf.compat.v1.train.export_meta_graph writes it, *out_is_meta is true, and the bytes are that message's.
 * *out is owned by the caller (weft_strbuf_deinit). Errors: NOT_FOUND; INVALID_ARGUMENT with file, line and
 * column. */
WEFT_MUST_CHECK weft_status_t *weft_graph_file_read(const char *path, weft_strbuf_t *out, bool *out_is_meta);
/* Any file as it is. */
WEFT_MUST_CHECK weft_status_t *weft_file_read(const char *path, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_GRAPH_FILE_H_ */
