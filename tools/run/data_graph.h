/* tools/run/data_graph.h - files of data as a pipeline in the graph that feeds an entry.
 *
 * The inputs of an entry are placeholders. Each gives way to a node of its name that takes its value from an
 * iterator: files, shuffled records, batches, parsed Examples or columns, as many epochs as are wanted, read
 * ahead. Strategies, checkpoints and traces then treat it as a data set that the graph has itself.
 */
#ifndef WEFT_TOOLS_RUN_DATA_GRAPH_H_
#define WEFT_TOOLS_RUN_DATA_GRAPH_H_

#include "saved_model/meta_graph.h"
#include "tools/run/data_files.h"

typedef struct weft_data_graph_options {
  const char *option; /* "--data", for messages */
  int64_t batch, epochs;
  bool is_shuffled; /* anew in each epoch, within a window of records */
  uint64_t seed;
  const weft_option_texts_t
      *columns; /* "INPUT=FIELD" or "INPUT=FIELD+FIELD": of other names than the input */
} weft_data_graph_options_t;

enum { WEFT_SHUFFLE_WINDOW = 10000 };

/* Appends the GraphDef with the pipeline. *out_init: the op that begins it, in the arena. Errors:
 * INVALID_ARGUMENT naming the input and the fields that there are (it has none of its name; it wants another
 * type or shape), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_data_graph_attach(const weft_data_files_t *d,
                                                      const weft_signature_def_t *signature,
                                                      const weft_data_graph_options_t *o,
                                                      weft_str_t graph_def, weft_strbuf_t *out,
                                                      weft_arena_t *arena, weft_str_t *out_init);

#endif /* WEFT_TOOLS_RUN_DATA_GRAPH_H_ */
