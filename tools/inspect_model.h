/* tools/inspect_model.h - what `weft inspect` says of a SavedModel or a meta graph: tags, signatures, assets,
 * variables. */
#ifndef WEFT_TOOLS_INSPECT_MODEL_H_
#define WEFT_TOOLS_INSPECT_MODEL_H_

#include "saved_model/saved_model.h"

/* All that is in the folder, to standard output: lines, or one JSON object. Errors: those of the checkpoint.
 */
WEFT_MUST_CHECK weft_status_t *weft_inspect_saved_model(const weft_saved_model_t *m, bool json);
/* The meta graph of a file, without its nodes. */
WEFT_MUST_CHECK weft_status_t *weft_inspect_meta_graph(const char *path, const weft_meta_graph_t *m,
                                                       bool json);

#endif /* WEFT_TOOLS_INSPECT_MODEL_H_ */
