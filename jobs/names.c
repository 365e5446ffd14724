/* jobs/names.c - looks names up, and for a wrong one the closest that there is. */
#include "jobs/names.h"

#include "base/alloc.h"
#include "base/similar.h"

void weft_job_names_deinit(weft_job_names_t *l) {
  weft_free(l->names);
  weft_free(l->outputs);
  *l = (weft_job_names_t){0};
}

weft_status_t *weft_job_names_add(weft_job_names_t *l, weft_arena_t *arena, weft_str_t name,
                                  TF_Output output) {
  weft_str_t copy = weft_arena_str(arena, name);
  if (l->n == l->capacity && copy.data != NULL) {
    int capacity = l->capacity == 0 ? 8 : 2 * l->capacity;
    weft_str_t *names = weft_realloc(l->names, (size_t)capacity, sizeof *names);
    if (names != NULL) l->names = names;
    TF_Output *outputs = names == NULL ? NULL : weft_realloc(l->outputs, (size_t)capacity, sizeof *outputs);
    if (outputs != NULL) l->outputs = outputs;
    if (outputs != NULL) l->capacity = capacity;
  }
  if (l->n == l->capacity || copy.data == NULL) return WEFT_NO_MEMORY("a name");
  l->names[l->n] = copy;
  l->outputs[l->n++] = output;
  return NULL;
}

static weft_status_t *not_found(TF_Graph *graph, const char *option, weft_str_t name) {
  weft_similar_t similar;
  weft_similar_init(&similar, name);
  size_t at = 0;
  for (TF_Operation *op = TF_GraphNextOperation(graph, &at); op != NULL;
       op = TF_GraphNextOperation(graph, &at)) {
    weft_similar_offer(&similar, weft_str(TF_OperationName(op)));
  }
  if (similar.best.data != NULL) {
    return WEFT_ERROR(NOT_FOUND, "%s %.*s: the graph has no such node; did you mean '%.*s'?", option,
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(similar.best));
  }
  return WEFT_ERROR(NOT_FOUND, "%s %.*s: the graph has no such node; `weft inspect` lists inputs and outputs",
                    option, WEFT_STR_ARGS(name));
}

static weft_status_t *look_up(TF_Graph *graph, weft_str_t name, TF_Operation **out) {
  char *text = weft_strndup(name.data, name.length);
  if (text == NULL) return WEFT_NO_MEMORY("a name");
  *out = TF_GraphOperationByName(graph, text);
  weft_free(text);
  return NULL;
}

weft_status_t *weft_job_find_node(TF_Graph *graph, const char *option, weft_str_t name, TF_Operation **out) {
  WEFT_RETURN_IF_ERROR(look_up(graph, name, out));
  if (*out != NULL) return NULL;
  TF_Operation *op = NULL;
  const ptrdiff_t colon = weft_str_rfind(name, ':');
  const weft_str_t node = weft_str_of(name.data, colon < 0 ? 0 : (size_t)colon);
  if (colon > 0) WEFT_RETURN_IF_ERROR(look_up(graph, node, &op));
  if (op == NULL) return not_found(graph, option, name);
  return WEFT_ERROR(NOT_FOUND, "%s %.*s: a node is wanted, not an output; give '%.*s'", option,
                    WEFT_STR_ARGS(name), WEFT_STR_ARGS(node));
}

/* "name", or "name:k" with a number. */
static bool split_output(weft_str_t name, weft_str_t *out_node, int64_t *out_index) {
  const ptrdiff_t colon = weft_str_rfind(name, ':');
  *out_node = colon < 0 ? name : weft_str_of(name.data, (size_t)colon);
  *out_index = 0;
  if (colon < 0) return name.length > 0;
  const weft_str_t index = weft_str_of(name.data + colon + 1, name.length - (size_t)colon - 1);
  return colon > 0 && weft_str_to_i64(index, out_index);
}

bool weft_job_is_output_name(weft_str_t name) {
  weft_str_t node;
  int64_t index;
  return split_output(name, &node, &index);
}

weft_status_t *weft_job_find_output(TF_Graph *graph, const weft_job_words_t *words, const char *option,
                                    weft_str_t name, TF_Output *out) {
  weft_str_t node;
  int64_t index;
  TF_Operation *op = NULL;
  if (!split_output(name, &node, &index))
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %.*s: give NODE or NODE:OUTPUT", option, WEFT_STR_ARGS(name));
  WEFT_RETURN_IF_ERROR(weft_job_find_node(graph, option, node, &op));
  int n = TF_OperationNumOutputs(op);
  if (n == 0)
    return WEFT_ERROR(NOT_FOUND, "%s %.*s: the node has no outputs; run it with %s", option,
                      WEFT_STR_ARGS(name), words->target);
  if (index < 0 || index >= n) {
    return WEFT_ERROR(NOT_FOUND, "%s %.*s: the node's outputs are %.*s:0 to %.*s:%d", option,
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(node), WEFT_STR_ARGS(node), n - 1);
  }
  *out = (TF_Output){op, (int)index};
  return NULL;
}
