/* client/import_options.c - the calls around importing: options in, results out. */
#include "base/alloc.h"
#include "client/buffer.h"
#include "client/import.h"
#include "client/status.h"

TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void) {
  TF_ImportGraphDefOptions *o = weft_calloc(1, sizeof *o);
  if (o == NULL) return NULL;
  o->prefix = o->device = WEFT_STR("");
  return o;
}

void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts) {
  if (opts == NULL) return;
  weft_free(opts->mappings.items);
  weft_free(opts->controls.items);
  weft_free(opts->return_outputs.items);
  weft_free(opts->return_nodes.items);
  weft_arena_deinit(&opts->arena);
  weft_free(opts);
}

/* Where the next item of `size` bytes goes; NULL without memory, which the options remember. */
static void *push(TF_ImportGraphDefOptions *o, weft_client_list_t *l, size_t size) {
  if (l->n == l->capacity) {
    int capacity = l->capacity == 0 ? 8 : l->capacity * 2;
    void *items = weft_realloc(l->items, (size_t)capacity, size);
    if (items == NULL) {
      o->is_out_of_memory = true;
      return NULL;
    }
    l->items = items;
    l->capacity = capacity;
  }
  return (char *)l->items + (size_t)l->n++ * size;
}

static weft_str_t copy(TF_ImportGraphDefOptions *o, const char *text) {
  weft_str_t s = weft_arena_str(&o->arena, weft_str(text));
  if (s.data == NULL) o->is_out_of_memory = true;
  return s.data == NULL ? WEFT_STR("") : s;
}

void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts, const char *prefix) {
  opts->prefix = copy(opts, prefix);
}

void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts, const char *device) {
  opts->device = copy(opts, device);
}

void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts, unsigned char uniquify_names) {
  opts->uniquify_names = uniquify_names != 0;
}

void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                               unsigned char uniquify_prefix) {
  opts->uniquify_prefix = uniquify_prefix != 0;
}

static void map(TF_ImportGraphDefOptions *o, const char *name, int index, TF_Output to) {
  weft_str_t from = copy(o, name);
  weft_client_mapping_t *all = o->mappings.items;
  for (int i = 0; i < o->mappings.n; i++) { /* the last word counts */
    if (all[i].from.index != index || !weft_str_eq(all[i].from.name, from)) continue;
    all[i].to = to;
    return;
  }
  weft_client_mapping_t *m = push(o, &o->mappings, sizeof *m);
  if (m != NULL) *m = (weft_client_mapping_t){{from, index}, to};
}

void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts, const char *src_name,
                                             int src_index, TF_Output dst) {
  map(opts, src_name, src_index, dst);
}

void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts, const char *src_name,
                                                    TF_Operation *dst) {
  map(opts, src_name, -1, (TF_Output){dst, -1});
}

void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts, TF_Operation *oper) {
  TF_Operation **o = push(opts, &opts->controls, sizeof(*o));
  if (o != NULL) *o = oper;
}

void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts, const char *oper_name,
                                             int index) {
  weft_client_key_t *k = push(opts, &opts->return_outputs, sizeof *k);
  if (k != NULL) *k = (weft_client_key_t){copy(opts, oper_name), index};
}

int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts) {
  return opts->return_outputs.n;
}

void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts, const char *oper_name) {
  weft_str_t *name = push(opts, &opts->return_nodes, sizeof *name);
  if (name != NULL) *name = copy(opts, oper_name);
}

int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts) {
  return opts->return_nodes.n;
}

/* ---- results ---- */

void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results, int *num_outputs,
                                           TF_Output **outputs) {
  *num_outputs = results->num_outputs;
  *outputs = results->outputs;
}

void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                              TF_Operation ***opers) {
  *num_opers = results->num_operations;
  *opers = results->operations;
}

void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
                                                        int *num_missing_unused_input_mappings,
                                                        const char ***src_names, int **src_indexes) {
  *num_missing_unused_input_mappings = results->num_missing;
  *src_names = results->missing_names;
  *src_indexes = results->missing_indexes;
}

void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results) {
  if (results == NULL) return;
  weft_arena_deinit(&results->arena);
  weft_free(results);
}

/* ---- importing ---- */

TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResults(TF_Graph *graph, const TF_Buffer *graph_def,
                                                            const TF_ImportGraphDefOptions *options,
                                                            TF_Status *status) {
  TF_ImportGraphDefResults *r = weft_calloc(1, sizeof *r);
  weft_status_t *s = r == NULL ? WEFT_NO_MEMORY("importing a graph") : NULL;
  if (s == NULL) {
    weft_mutex_lock(&graph->mu);
    s = weft_client_import_locked(graph, weft_client_bytes(graph_def), options, r);
    weft_mutex_unlock(&graph->mu);
  }
  if (weft_client_end(status, s)) return r;
  TF_DeleteImportGraphDefResults(r);
  return NULL;
}

void TF_GraphImportGraphDefWithReturnOutputs(TF_Graph *graph, const TF_Buffer *graph_def,
                                             const TF_ImportGraphDefOptions *options,
                                             TF_Output *return_outputs, int num_return_outputs,
                                             TF_Status *status) {
  if (num_return_outputs != options->return_outputs.n) {
    weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT, "Expected 'num_return_outputs' to be %d, got %d",
                                       options->return_outputs.n, num_return_outputs));
    return;
  }
  if (num_return_outputs > 0 && return_outputs == NULL) {
    weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT, "'return_outputs' must be preallocated to length %d",
                                       num_return_outputs));
    return;
  }
  TF_ImportGraphDefResults *r = TF_GraphImportGraphDefWithResults(graph, graph_def, options, status);
  for (int i = 0; r != NULL && i < r->num_outputs; i++) return_outputs[i] = r->outputs[i];
  TF_DeleteImportGraphDefResults(r);
}

void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                            const TF_ImportGraphDefOptions *options, TF_Status *status) {
  TF_DeleteImportGraphDefResults(TF_GraphImportGraphDefWithResults(graph, graph_def, options, status));
}
