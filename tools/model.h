/* tools/model.h - what commands are given to run or to look at: a graph file, a meta graph file, or a folder
 * with a SavedModel.
 *
 * With a signature, people name inputs and outputs as it does ("x"), not as the graph does
 * ("serving_default_x:0").
 */
#ifndef WEFT_TOOLS_MODEL_H_
#define WEFT_TOOLS_MODEL_H_

#include "saved_model/saved_model.h"

typedef struct weft_model { /* Immutable once open. */
  weft_arena_t arena;
  weft_strbuf_t file, bound;             /* a file's bytes; the graph that runs, its paths filled in */
  weft_saved_model_t *folder;            /* owned; NULL: a file */
  weft_meta_graph_t own;                 /* of a file */
  const weft_meta_graph_t *meta;         /* NULL: a graph file */
  weft_str_t graph_def;                  /* as it is stored */
  weft_model_start_t start;              /* what runs before it is used; ops "" if there is none */
  const weft_signature_def_t *signature; /* NULL: names are the graph's */
  weft_str_t no_output; /* which is fetched, and therefore no signature was chosen; empty: none is */
} weft_model_t;

/* `tags`: "serve,gpu"; NULL: the folder's only meta graph, or the one with the tag serve. The caller closes
 * *out in any case. Errors: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, ..., naming the file and what there is
 * instead. */
WEFT_MUST_CHECK weft_status_t *weft_model_open(const char *path, const char *tags, weft_model_t *out);
/* Names are those of this signature from now on. Errors: NOT_FOUND with the signatures that there are. */
WEFT_MUST_CHECK weft_status_t *weft_model_choose(weft_model_t *m, const char *signature);
/* The same with the signature "train", if there is one: what a training file is for. */
void weft_model_choose_default(weft_model_t *m);
/* The graph that runs after `start`'s ops: paths are constants in it. */
WEFT_MUST_CHECK weft_status_t *weft_model_bound_graph(weft_model_t *m, weft_str_t *out);
void weft_model_close(weft_model_t *m);

/* An input or output of the signature by its name there; NULL: it has none of that name. */
const weft_signature_tensor_t *weft_model_input(const weft_model_t *m, weft_str_t name);
const weft_signature_tensor_t *weft_model_output(const weft_model_t *m, weft_str_t name);
/* Appends "x, y". */
void weft_model_print_names(const weft_signature_tensor_t *tensors, int n, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_MODEL_H_ */
