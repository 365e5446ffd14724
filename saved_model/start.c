/* saved_model/start.c - what runs before a model is used: restore, init, and what both are fed. */
#include "io/file.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/unpack.h"
#include "protos/wire.h"
#include "saved_model/saved_model.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a SavedModel's start"); }

/* ---- assets ---- */

/* An AssetFileDef in a google.protobuf.Any. */
static weft_status_t *read_any(weft_arena_t *arena, weft_str_t any, weft_asset_t *out) {
  static const char suffix[] = "/tensorflow.AssetFileDef";
  weft_wire_reader_t r = weft_wire_reader(any);
  weft_wire_field_t f;
  weft_str_t url = WEFT_STR(""), value = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) url = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) value = f.bytes;
  }
  if (!weft_str_ends_with(url, suffix)) {
    return WEFT_ERROR(FAILED_PRECONDITION, "Expected Any type_url for: tensorflow.AssetFileDef. Got: %.*s.",
                      WEFT_STR_ARGS(url));
  }
  weft_status_t *s = weft_proto_check(&tensorflow__asset_file_def__descriptor, value);
  if (s != NULL) {
    weft_status_t *told = WEFT_ERROR(FAILED_PRECONDITION, "Failed to unpack an asset of %s: %s",
                                     "saved_model_assets", weft_status_message(s));
    weft_status_free(s);
    return told;
  }
  return weft_asset_read(arena, value, out);
}

weft_status_t *weft_meta_graph_assets(const weft_meta_graph_t *m, weft_arena_t *arena,
                                      const weft_asset_t **out, int *out_n) {
  const weft_collection_t *c = weft_meta_graph_collection(m, "saved_model_assets");
  *out = m->assets;
  *out_n = m->num_assets;
  if (m->num_assets > 0 || c == NULL || strcmp(c->kind, "any_list") != 0) return NULL;
  weft_asset_t *all = weft_arena_calloc(arena, (size_t)c->n + 1, sizeof *all);
  if (all == NULL) return no_memory();
  for (int64_t i = 0; i < c->n; i++) WEFT_RETURN_IF_ERROR(read_any(arena, c->items[i], &all[i]));
  *out = all;
  *out_n = (int)c->n;
  return NULL;
}

/* A model names files of its own only. */
static bool leads_outside(weft_str_t filename) {
  weft_str_t part, rest = filename;
  while (weft_str_split(rest, '/', &part, &rest)) {
    if (weft_str_is(part, "..")) return true;
  }
  return weft_str_is(rest, "..");
}

static weft_status_t *asset_path(const weft_saved_model_t *m, weft_str_t filename, weft_arena_t *arena,
                                 weft_str_t *out) {
  if (leads_outside(filename) || memchr(filename.data, '\0', filename.length) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "asset '%.*s' of SavedModel %s is outside of its assets folder",
                      WEFT_STR_ARGS(filename), m->directory);
  }
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_str_t directory = weft_str(m->directory);
  weft_strbuf_append(&path, directory);
  if (directory.length > 0 && !weft_str_ends_with(directory, "/")) weft_strbuf_putc(&path, '/');
  weft_strbuf_puts(&path, "assets");
  if (filename.length == 0 || filename.data[0] != '/') weft_strbuf_putc(&path, '/');
  weft_strbuf_append(&path, filename);
  *out = path.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(path.data, path.length));
  weft_strbuf_deinit(&path);
  return out->data == NULL ? no_memory() : NULL;
}

/* ---- ops ---- */

static const weft_signature_tensor_t *find_output(const weft_signature_tensor_t *all, int n, weft_str_t key) {
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(all[i].key, key)) return &all[i];
  }
  return NULL;
}

weft_status_t *weft_meta_graph_init_op(const weft_meta_graph_t *m, const char *whose, weft_str_t *out) {
  const weft_str_t key = WEFT_STR("__saved_model_init_op");
  const weft_signature_def_t *signature = weft_meta_graph_signature(m, key);
  *out = WEFT_STR("");
  if (signature == NULL) return NULL;
  const weft_signature_tensor_t *t = find_output(signature->ops, signature->num_ops, key);
  if (t == NULL) t = find_output(signature->outputs, signature->num_outputs, key);
  if (t == NULL)
    return WEFT_ERROR(FAILED_PRECONDITION, "Could not find output %s in the signature of SavedModel %s",
                      key.data, whose);
  *out = t->tensor;
  return NULL;
}

/* The signature of newer exports, else the collection of older ones. */
static weft_status_t *find_init_op(const weft_saved_model_t *m, const weft_meta_graph_t *graph,
                                   weft_str_t *out) {
  WEFT_RETURN_IF_ERROR(weft_meta_graph_init_op(graph, m->directory, out));
  if (out->length > 0) return NULL;
  const weft_collection_t *c = weft_meta_graph_collection(graph, "saved_model_main_op");
  if (c == NULL) c = weft_meta_graph_collection(graph, "legacy_init_op");
  if (c == NULL) return NULL;
  if (strcmp(c->kind, "node_list") != 0 || c->n != 1)
    return WEFT_ERROR(FAILED_PRECONDITION, "Expected exactly one main op in : %s", m->directory);
  *out = c->items[0];
  return NULL;
}

static bool has_variables(weft_str_t prefix) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_strbuf_append(&path, prefix);
  weft_strbuf_puts(&path, ".index");
  bool is_there = !path.failed && weft_file_exists(path.data);
  weft_strbuf_deinit(&path);
  return is_there;
}

weft_status_t *weft_saved_model_start(const weft_saved_model_t *m, const weft_meta_graph_t *graph,
                                      weft_arena_t *arena, weft_model_start_t *out) {
  const weft_asset_t *assets;
  int num_assets = 0;
  *out = (weft_model_start_t){.restore_op = graph->restore_op, .init_op = WEFT_STR("")};
  WEFT_RETURN_IF_ERROR(weft_meta_graph_assets(graph, arena, &assets, &num_assets));
  weft_str_t prefix = weft_saved_model_variables(m, arena);
  out->paths = weft_arena_calloc(arena, (size_t)num_assets + 1, sizeof *out->paths);
  if (prefix.data == NULL || out->paths == NULL) return no_memory();
  out->restores = graph->has_saver && has_variables(prefix);
  if (out->restores) out->paths[out->num_paths++] = (weft_model_path_t){graph->filename_tensor, prefix};
  for (int i = 0; i < num_assets; i++) {
    weft_model_path_t *p = &out->paths[out->num_paths++];
    p->tensor = assets[i].tensor;
    WEFT_RETURN_IF_ERROR(asset_path(m, assets[i].filename, arena, &p->path));
  }
  return find_init_op(m, graph, &out->init_op);
}
