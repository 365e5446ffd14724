/* saved_model/saved_model.h - a folder with a model: saved_model.pb (or .pbtxt), variables/, assets/.
 *
 * A model holds meta graphs, one per set of tags. Before one is used, its saver's restore op runs, fed with
 * the path of the variables, and then its init op, which fills tables; both are fed with the paths of the
 * assets:
 *
 *   weft_saved_model_t *model;
 *   weft_saved_model_open("/models/mnist/1", &model);
 *   weft_saved_model_find(model, tags, 1, &meta);
 *   weft_saved_model_start(model, meta, &arena, &start);   // what to feed and to run
 *   weft_saved_model_close(model);
 */
#ifndef WEFT_SAVED_MODEL_SAVED_MODEL_H_
#define WEFT_SAVED_MODEL_SAVED_MODEL_H_

#include "saved_model/meta_graph.h"

typedef struct weft_saved_model { /* Immutable. */
  char *directory, *bytes;        /* owned */
  weft_meta_graph_t *graphs;      /* owned */
  int num_graphs;
} weft_saved_model_t;

/* Errors, in TensorFlow's codes: NOT_FOUND (neither saved_model.pb nor saved_model.pbtxt is there),
 * OUT_OF_RANGE (it is cut off), DATA_LOSS (it is no SavedModel, or larger than 2 GiB), those of the file. */
WEFT_MUST_CHECK weft_status_t *weft_saved_model_open(const char *directory, weft_saved_model_t **out);
void weft_saved_model_close(weft_saved_model_t *m); /* NULL is fine */
/* Is there a saved_model.pb or .pbtxt in it? */
bool weft_saved_model_is_at(const char *directory);

/* The first meta graph whose tags are these, as a set. Lent. Errors: NOT_FOUND, with the tags that there are.
 */
WEFT_MUST_CHECK weft_status_t *weft_saved_model_find(const weft_saved_model_t *m, const weft_str_t *tags,
                                                     int num_tags, const weft_meta_graph_t **out);

/* A string that is fed before the model is used. */
typedef struct weft_model_path {
  weft_str_t tensor, path;
} weft_model_path_t;

typedef struct weft_model_start {
  weft_str_t restore_op, init_op; /* "": there is none */
  bool restores;            /* the model has variables, which restore_op reads; paths[0] is for it alone */
  weft_model_path_t *paths; /* in the arena: "variables/variables" if it restores, then the assets */
  int num_paths;
} weft_model_start_t;
/* Errors: FAILED_PRECONDITION (an asset of another type; several init ops; an init signature without output);
 * INVALID_ARGUMENT (an asset outside of the assets folder). */
WEFT_MUST_CHECK weft_status_t *weft_saved_model_start(const weft_saved_model_t *m,
                                                      const weft_meta_graph_t *graph, weft_arena_t *arena,
                                                      weft_model_start_t *out);
/* Appends the GraphDef with the nodes of `paths` as constants: what feeding them would do. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_model_bind(weft_str_t graph_def, const weft_model_path_t *paths, int n,
                                               weft_strbuf_t *out);
/* The prefix of its variables' checkpoint: "<directory>/variables/variables"; data NULL without memory. */
weft_str_t weft_saved_model_variables(const weft_saved_model_t *m, weft_arena_t *arena);
/* All assets, of the message or of the collection saved_model_assets. Errors: as weft_saved_model_start. */
WEFT_MUST_CHECK weft_status_t *weft_meta_graph_assets(const weft_meta_graph_t *m, weft_arena_t *arena,
                                                      const weft_asset_t **out, int *out_n);

#endif /* WEFT_SAVED_MODEL_SAVED_MODEL_H_ */
