/* tools/inspect_model.c - SavedModels and meta graphs as lines and as JSON. */
#include "tools/inspect_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "io/bundle.h"
#include "io/file.h"
#include "tools/graph_summary.h"

static json_t *text(weft_str_t s) { return json_stringn(s.data == NULL ? "" : s.data, s.length); }

/* What the checkpoint has beside variables: the object graph of newer exports. */
static bool is_variable(weft_str_t name) { return !weft_str_is(name, "_CHECKPOINTABLE_OBJECT_GRAPH"); }

/* The checkpoint of a model. */
typedef struct model_variables {
  weft_bundle_reader_t *reader; /* NULL: there is none */
} model_variables_t;

static weft_status_t *open_variables(const weft_saved_model_t *m, model_variables_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_strbuf_t index = WEFT_STRBUF_INIT;
  weft_str_t prefix = weft_saved_model_variables(m, &arena);
  weft_status_t *s = prefix.data == NULL ? WEFT_NO_MEMORY("a model's variables") : NULL;
  out->reader = NULL;
  if (s == NULL) {
    weft_bundle_index_path(prefix, &index);
    if (!index.failed && weft_file_exists(index.data)) s = weft_bundle_reader_open(prefix, &out->reader);
  }
  weft_strbuf_deinit(&index);
  weft_arena_deinit(&arena);
  return s;
}

/* The next variable. False at the end. */
static bool next_variable(const model_variables_t *v, size_t *at, weft_summary_tensor_t *out) {
  weft_dtype_t dtype;
  while (v->reader != NULL && weft_bundle_reader_next(v->reader, at, &out->name)) {
    weft_status_t *s = weft_bundle_reader_lookup(v->reader, out->name, &dtype, &out->shape);
    bool is_known = s == NULL;
    weft_status_free(s);
    if (!is_known || !is_variable(out->name)) continue;
    out->dtype = dtype;
    return true;
  }
  return false;
}

/* ---- lines ---- */

static void print_tensors(const char *what, const weft_signature_tensor_t *t, int n) {
  for (int i = 0; i < n; i++) {
    printf("    %-6s %-24.*s %-8s %-14s %.*s\n", what, WEFT_STR_ARGS(t[i].key),
           t[i].dtype == 0 ? "" : weft_dtype_name(t[i].dtype), WEFT_SHAPE_TEXT(&t[i].shape),
           WEFT_STR_ARGS(t[i].tensor));
  }
}

static void print_signatures(const weft_meta_graph_t *m) {
  for (int i = 0; i < m->num_signatures; i++) {
    const weft_signature_def_t *s = &m->signatures[i];
    if (weft_str_starts_with(s->key, "__")) continue; /* the exporter's own */
    printf("  signature %.*s%s%.*s%s\n", WEFT_STR_ARGS(s->key), s->method.length == 0 ? "" : " (",
           WEFT_STR_ARGS(s->method), s->method.length == 0 ? "" : ")");
    print_tensors("input", s->inputs, s->num_inputs);
    print_tensors("output", s->outputs, s->num_outputs);
    for (int k = 0; k < s->num_ops; k++)
      printf("    %-6s %-48.*s %.*s\n", "runs", WEFT_STR_ARGS(s->ops[k].key),
             WEFT_STR_ARGS(s->ops[k].tensor));
  }
}

static weft_status_t *print_assets(const weft_meta_graph_t *m) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  const weft_asset_t *assets;
  int n = 0;
  weft_status_t *s = weft_meta_graph_assets(m, &arena, &assets, &n);
  if (s == NULL && n > 0) printf("  assets (%d)\n", n);
  for (int i = 0; s == NULL && i < n; i++)
    printf("    %-31.*s fed to %.*s\n", WEFT_STR_ARGS(assets[i].filename), WEFT_STR_ARGS(assets[i].tensor));
  weft_arena_deinit(&arena);
  return s;
}

static weft_status_t *print_graph(const weft_meta_graph_t *m) {
  weft_graph_summary_t g;
  WEFT_RETURN_IF_ERROR(weft_graph_summarize(m->graph_def, &g));
  printf("graph {");
  for (int i = 0; i < m->num_tags; i++) printf(" %.*s", WEFT_STR_ARGS(m->tags[i]));
  printf(" }: %" PRId64 " nodes, %" PRId64 " functions, written by TensorFlow %.*s\n", g.num_nodes,
         g.num_functions, WEFT_STR_ARGS(m->tensorflow_version));
  print_signatures(m);
  weft_status_t *s = print_assets(m);
  if (s == NULL && m->num_collections > 0) printf("  collections (%d)\n", m->num_collections);
  for (int i = 0; s == NULL && i < m->num_collections; i++)
    printf("    %-31.*s %" PRId64 " (%s)\n", WEFT_STR_ARGS(m->collections[i].key), m->collections[i].n,
           m->collections[i].kind);
  if (s == NULL && m->restore_op.length > 0)
    printf("  saver: restores by %.*s, its file name is %.*s\n", WEFT_STR_ARGS(m->restore_op),
           WEFT_STR_ARGS(m->filename_tensor));
  if (s == NULL && g.num_unsupported > 0) printf("  ops not supported (%d)\n", g.num_unsupported);
  for (int i = 0; s == NULL && i < g.num_unsupported; i++)
    printf("    %-31.*s %8" PRId64 "\n", WEFT_STR_ARGS(g.unsupported[i].name), g.unsupported[i].count);
  if (s == NULL && g.num_unsupported == 0) printf("  all ops are supported\n");
  weft_graph_summary_deinit(&g);
  return s;
}

static weft_status_t *print_variables(const weft_saved_model_t *m) {
  model_variables_t v;
  weft_summary_tensor_t t;
  WEFT_RETURN_IF_ERROR(open_variables(m, &v));
  int n = 0;
  int64_t total = 0;
  for (size_t at = 0; next_variable(&v, &at, &t); n++)
    total += weft_summary_bytes(&t) < 0 ? 0 : weft_summary_bytes(&t);
  printf("variables in the checkpoint (%d), %" PRId64 " bytes\n", n, total);
  for (size_t at = 0; next_variable(&v, &at, &t);)
    printf("  %-48.*s %-8s %s\n", WEFT_STR_ARGS(t.name), weft_dtype_name(t.dtype), WEFT_SHAPE_TEXT(&t.shape));
  weft_bundle_reader_close(v.reader);
  return NULL;
}

/* ---- JSON ---- */

static json_t *shape_json(const weft_shape_t *shape) {
  if (shape->rank < 0) return json_null();
  json_t *dims = json_array();
  for (int d = 0; d < shape->rank; d++) json_array_append_new(dims, json_integer(shape->dims[d]));
  return dims;
}

static json_t *tensors_json(const weft_signature_tensor_t *t, int n) {
  json_t *all = json_object();
  for (int i = 0; i < n; i++) {
    json_object_setn_new(
        all, t[i].key.data, t[i].key.length,
        json_pack("{s:o, s:s, s:o}", "tensor", text(t[i].tensor), "dtype",
                  t[i].dtype == 0 ? "" : weft_dtype_name(t[i].dtype), "shape", shape_json(&t[i].shape)));
  }
  return all;
}

static json_t *signatures_json(const weft_meta_graph_t *m) {
  json_t *all = json_object();
  for (int i = 0; i < m->num_signatures; i++) {
    const weft_signature_def_t *s = &m->signatures[i];
    json_t *ops = json_object();
    for (int k = 0; k < s->num_ops; k++)
      json_object_setn_new(ops, s->ops[k].key.data, s->ops[k].key.length, text(s->ops[k].tensor));
    json_object_setn_new(all, s->key.data, s->key.length,
                         json_pack("{s:o, s:o, s:o, s:o}", "method", text(s->method), "inputs",
                                   tensors_json(s->inputs, s->num_inputs), "outputs",
                                   tensors_json(s->outputs, s->num_outputs), "ops", ops));
  }
  return all;
}

static weft_status_t *assets_json(const weft_meta_graph_t *m, json_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  const weft_asset_t *assets;
  int n = 0;
  weft_status_t *s = weft_meta_graph_assets(m, &arena, &assets, &n);
  for (int i = 0; s == NULL && i < n; i++)
    json_array_append_new(
        out, json_pack("{s:o, s:o}", "filename", text(assets[i].filename), "tensor", text(assets[i].tensor)));
  weft_arena_deinit(&arena);
  return s;
}

static weft_status_t *graph_json(const weft_meta_graph_t *m, json_t **out) {
  weft_graph_summary_t g;
  json_t *tags = json_array(), *assets = json_array(), *collections = json_object(),
         *unsupported = json_object();
  weft_status_t *s = weft_graph_summarize(m->graph_def, &g);
  for (int i = 0; i < m->num_tags; i++) json_array_append_new(tags, text(m->tags[i]));
  for (int i = 0; i < m->num_collections; i++)
    json_object_setn_new(
        collections, m->collections[i].key.data, m->collections[i].key.length,
        json_pack("{s:s, s:I}", "kind", m->collections[i].kind, "size", (json_int_t)m->collections[i].n));
  for (int i = 0; s == NULL && i < g.num_unsupported; i++)
    json_object_setn_new(unsupported, g.unsupported[i].name.data, g.unsupported[i].name.length,
                         json_integer(g.unsupported[i].count));
  *out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "tags", tags, "signatures", signatures_json(m),
                   "assets", assets, "collections", collections, "unsupported", unsupported, "tensorflow",
                   text(m->tensorflow_version), "nodes", (json_int_t)(s == NULL ? g.num_nodes : 0),
                   "functions", (json_int_t)(s == NULL ? g.num_functions : 0));
  if (s == NULL) weft_graph_summary_deinit(&g);
  return s == NULL ? assets_json(m, assets) : s;
}

static weft_status_t *variables_json(const weft_saved_model_t *m, json_t *out) {
  model_variables_t v;
  weft_summary_tensor_t t;
  WEFT_RETURN_IF_ERROR(open_variables(m, &v));
  for (size_t at = 0; next_variable(&v, &at, &t);)
    json_array_append_new(out, json_pack("{s:o, s:s, s:o}", "name", text(t.name), "dtype",
                                         weft_dtype_name(t.dtype), "shape", shape_json(&t.shape)));
  weft_bundle_reader_close(v.reader);
  return NULL;
}

static weft_status_t *print_json(const weft_saved_model_t *m) {
  json_t *graphs = json_array(), *variables = json_array();
  json_t *root = json_pack("{s:s, s:o, s:o}", "path", m->directory, "graphs", graphs, "variables", variables);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < m->num_graphs; i++) {
    json_t *graph = NULL;
    s = graph_json(&m->graphs[i], &graph);
    json_array_append_new(graphs, graph);
  }
  if (s == NULL) s = variables_json(m, variables);
  if (s == NULL) {
    json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
  }
  json_decref(root);
  return s;
}

/* ---- both ---- */

weft_status_t *weft_inspect_saved_model(const weft_saved_model_t *m, bool json) {
  if (json) return print_json(m);
  printf("%s: a SavedModel with %d graph%s\n", m->directory, m->num_graphs, m->num_graphs == 1 ? "" : "s");
  for (int i = 0; i < m->num_graphs; i++) WEFT_RETURN_IF_ERROR(print_graph(&m->graphs[i]));
  return print_variables(m);
}

weft_status_t *weft_inspect_meta_graph(const char *path, const weft_meta_graph_t *m, bool json) {
  if (!json) {
    printf("%s: a meta graph\n", path);
    return print_graph(m);
  }
  json_t *graph = NULL;
  weft_status_t *s = graph_json(m, &graph);
  if (s == NULL) {
    json_dumpf(graph, stdout, JSON_INDENT(1));
    putchar('\n');
  }
  json_decref(graph);
  return s;
}
