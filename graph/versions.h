/* graph/versions.h - which graphs we may read; for this folder only. */
#ifndef WEFT_GRAPH_VERSIONS_H_
#define WEFT_GRAPH_VERSIONS_H_

#include "graph/graph.h"

enum { WEFT_GRAPH_DEF_MIN_PRODUCER = 0 };

/* Checks a serialized VersionDef ("" is all zero) and takes it into `g`; on extension it must have the same
 * producer. Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_versions_import(weft_graph_t *g, weft_str_t bytes, bool is_extend);
void weft_versions_export(const weft_graph_t *g, weft_strbuf_t *out);

#endif /* WEFT_GRAPH_VERSIONS_H_ */
