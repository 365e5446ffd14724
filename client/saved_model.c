/* client/saved_model.c - a session of a SavedModel: its graph, its variables restored, its tables filled. */
#include "saved_model/saved_model.h"

#include "base/alloc.h"
#include "client/buffer.h"
#include "client/config.h"
#include "client/import.h"
#include "client/session.h"
#include "client/status.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a SavedModel's session"); }

/* ---- the session's state ---- */

/* TensorFlow runs these ops as callables, for which a feed that the graph lacks is an invalid argument. */
static weft_status_t *as_callable(weft_status_t *s) {
  const char *text = weft_status_message(s);
  if (weft_status_code(s) != WEFT_NOT_FOUND || !weft_str_starts_with(weft_str(text), "FeedInputs: "))
    return s;
  weft_status_t *told = WEFT_ERROR(INVALID_ARGUMENT, "%s", text);
  weft_status_free(s);
  return told;
}

/* Runs `op`, fed with paths. */
static weft_status_t *run_op(weft_connection_t *c, const TF_Buffer *run_options, weft_str_t op,
                             const weft_model_path_t *paths, int n) {
  weft_client_step_t step;
  WEFT_RETURN_IF_ERROR(weft_client_step_init(&step, n, 0, 1));
  weft_status_t *s = NULL;
  for (int i = 0; i < n && s == NULL; i++) {
    weft_named_tensor_t *feed = &step.feeds[i];
    feed->name = paths[i].tensor;
    s = weft_tensor_string(paths[i].path, &feed->tensor);
    if (s == NULL) step.num_feeds++;
  }
  weft_client_step_target(&step, op);
  if (s == NULL) s = weft_client_step_run(&step, c, NULL, run_options, NULL, NULL);
  weft_client_step_deinit(&step);
  return as_callable(s);
}

static weft_status_t *start(weft_connection_t *c, const TF_Buffer *run_options, const weft_model_start_t *m) {
  if (m->restores) {
    WEFT_RETURN_IF_ERROR(weft_status_annotate(run_op(c, run_options, m->restore_op, m->paths, m->num_paths),
                                              "while restoring %.*s", WEFT_STR_ARGS(m->paths[0].path)));
  }
  int num_variables = m->restores ? 1 : 0;
  return m->init_op.length == 0
             ? NULL
             : run_op(c, run_options, m->init_op, m->paths + num_variables, m->num_paths - num_variables);
}

/* ---- what the caller gets ---- */

static bool is_empty(TF_Graph *g) {
  weft_mutex_lock(&g->mu);
  bool empty = g->graph->num_live == 0;
  weft_mutex_unlock(&g->mu);
  return empty;
}

static weft_status_t *import(TF_Graph *g, weft_str_t graph_def, int *out_size) {
  const TF_ImportGraphDefOptions options = {0};
  TF_ImportGraphDefResults results = {0};
  weft_mutex_lock(&g->mu);
  weft_status_t *s = g->graph->num_live > 0 ? WEFT_ERROR(INVALID_ARGUMENT, "Graph is non-empty.")
                                            : weft_client_import_locked(g, graph_def, &options, &results);
  *out_size = g->num_operations;
  weft_mutex_unlock(&g->mu);
  weft_arena_deinit(&results.arena);
  return s;
}

static weft_status_t *give_meta_graph(const weft_meta_graph_t *m, TF_Buffer *out) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  if (out == NULL) return NULL;
  weft_strbuf_append(&bytes, m->bytes);
  return weft_client_fill(out, &bytes);
}

/* A session that is ready: as in TensorFlow the graph is filled last, and stays as it is if anything fails.
 */
static weft_status_t *load(const weft_saved_model_t *model, const weft_meta_graph_t *meta,
                           const TF_SessionOptions *options, const TF_Buffer *run_options, TF_Graph *graph,
                           TF_Buffer *meta_graph_def, weft_connection_t **c, int *out_size) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_model_start_t first;
  weft_status_t *s = weft_connection_open(options, c);
  if (s == NULL) s = weft_meta_graph_check_constants(meta);
  if (s == NULL) s = weft_connection_extend(*c, meta->graph_def);
  if (s == NULL) s = weft_saved_model_start(model, meta, &arena, &first);
  if (s == NULL) s = start(*c, run_options, &first);
  weft_arena_deinit(&arena);
  if (s == NULL) s = import(graph, meta->graph_def, out_size);
  return s == NULL ? give_meta_graph(meta, meta_graph_def) : s;
}

static weft_status_t *open_and_load(const TF_SessionOptions *options, const TF_Buffer *run_options,
                                    const char *export_dir, const char *const *tags, int num_tags,
                                    TF_Graph *graph, TF_Buffer *meta_graph_def, weft_connection_t **c,
                                    int *out_size) {
  if (export_dir == NULL || num_tags < 0)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TF_LoadSessionFromSavedModel: no directory, or a negative number of tags");
  if (!is_empty(graph)) return WEFT_ERROR(INVALID_ARGUMENT, "Graph is non-empty.");
  weft_step_options_t checked;
  if (run_options != NULL)
    WEFT_RETURN_IF_ERROR(weft_client_run_options_read(weft_client_bytes(run_options), &checked));
  weft_saved_model_t *model = NULL;
  const weft_meta_graph_t *meta = NULL;
  weft_str_t *wanted = weft_calloc((size_t)num_tags + 1, sizeof *wanted);
  if (wanted == NULL) return no_memory();
  for (int i = 0; i < num_tags; i++) wanted[i] = weft_str(tags[i]);
  weft_status_t *s = weft_saved_model_open(export_dir, &model);
  if (s == NULL) s = weft_saved_model_find(model, wanted, num_tags, &meta);
  if (s == NULL) s = load(model, meta, options, run_options, graph, meta_graph_def, c, out_size);
  weft_saved_model_close(model);
  weft_free(wanted);
  return s;
}

TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options,
                                         const TF_Buffer *run_options, const char *export_dir,
                                         const char *const *tags, int tags_len, TF_Graph *graph,
                                         TF_Buffer *meta_graph_def, TF_Status *status) {
  weft_connection_t *c = NULL;
  TF_Session *session = NULL;
  int size = 0;
  weft_status_t *s = open_and_load(session_options, run_options, export_dir, tags, tags_len, graph,
                                   meta_graph_def, &c, &size);
  if (s == NULL) s = weft_client_session_new(graph, c, size, &session);
  if (s != NULL) weft_connection_destroy(c);
  weft_client_end(status, s);
  return session;
}
