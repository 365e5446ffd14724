/* tools/model.c - files and folders to graphs, with names that people know. */
#define _GNU_SOURCE /* realpath */
#include "tools/model.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "tools/graph_file.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a model"); }
static weft_str_t text_of(const weft_strbuf_t *b) {
  return weft_str_of(b->data == NULL ? "" : b->data, b->length);
}

/* ---- opening ---- */

enum { MAX_TAGS = 64 };

static weft_status_t *find_tags(weft_model_t *m, const char *tags) {
  weft_str_t list[MAX_TAGS], rest = weft_str(tags);
  int n = 0;
  if (tags == NULL && m->folder->num_graphs == 1) {
    m->meta = &m->folder->graphs[0];
    return NULL;
  }
  if (tags == NULL) rest = WEFT_STR("serve");
  while (rest.length > 0 && n < MAX_TAGS) {
    weft_str_t tag = rest, tail = WEFT_STR("");
    weft_str_split(rest, ',', &tag, &tail);
    list[n++] = tag;
    rest = tail;
  }
  return weft_saved_model_find(m->folder, list, n, &m->meta);
}

/* Its files are named by their whole paths: servers have other working directories. */
static weft_status_t *open_folder(const char *path, const char *tags, weft_model_t *m) {
  char *whole = realpath(path, NULL);
  weft_status_t *s = weft_saved_model_open(whole == NULL ? path : whole, &m->folder);
  free(whole);
  if (s != NULL) return s;
  WEFT_RETURN_IF_ERROR(find_tags(m, tags));
  m->graph_def = m->meta->graph_def;
  return weft_saved_model_start(m->folder, m->meta, &m->arena, &m->start);
}

static weft_status_t *open_file(const char *path, const char *tags, weft_model_t *m) {
  bool is_meta = false;
  if (tags != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "--tags %s: %s is a file; the folder of a SavedModel has tags", tags,
                      path);
  WEFT_RETURN_IF_ERROR(weft_graph_file_read(path, &m->file, &is_meta));
  m->graph_def = text_of(&m->file);
  if (!is_meta) return NULL;
  WEFT_RETURN_IF_ERROR(weft_meta_graph_read(text_of(&m->file), &m->own));
  m->meta = &m->own;
  m->graph_def = m->own.graph_def;
  return weft_meta_graph_init_op(m->meta, path, &m->start.init_op);
}

weft_status_t *weft_model_open(const char *path, const char *tags, weft_model_t *out) {
  struct stat info;
  *out = (weft_model_t){.arena = WEFT_ARENA_INIT,
                        .file = WEFT_STRBUF_INIT,
                        .bound = WEFT_STRBUF_INIT,
                        .no_output = WEFT_STR(""),
                        .own = {.arena = WEFT_ARENA_INIT},
                        .start = {.restore_op = WEFT_STR(""), .init_op = WEFT_STR("")}};
  bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  return is_folder ? open_folder(path, tags, out) : open_file(path, tags, out);
}

void weft_model_close(weft_model_t *m) {
  weft_saved_model_close(m->folder);
  weft_meta_graph_deinit(&m->own);
  weft_strbuf_deinit(&m->file);
  weft_strbuf_deinit(&m->bound);
  weft_arena_deinit(&m->arena);
}

weft_status_t *weft_model_bound_graph(weft_model_t *m, weft_str_t *out) {
  if (m->start.num_paths == 0) {
    *out = m->graph_def;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_model_bind(m->graph_def, m->start.paths, m->start.num_paths, &m->bound));
  *out = text_of(&m->bound);
  return NULL;
}

/* ---- names ---- */

/* Signatures that start with "__" are the exporter's own. */
static bool is_internal(const weft_signature_def_t *s) { return weft_str_starts_with(s->key, "__"); }

weft_status_t *weft_model_choose(weft_model_t *m, const char *signature) {
  if (m->meta == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "--signature %s: a graph file has none; give the folder of a SavedModel", signature);
  m->signature = weft_meta_graph_signature(m->meta, weft_str(signature));
  if (m->signature != NULL) return NULL;
  weft_strbuf_t there = WEFT_STRBUF_INIT;
  for (int i = 0; i < m->meta->num_signatures; i++) {
    if (is_internal(&m->meta->signatures[i])) continue;
    if (there.length > 0) weft_strbuf_puts(&there, ", ");
    weft_strbuf_append(&there, m->meta->signatures[i].key);
  }
  weft_status_t *s = there.failed ? no_memory()
                                  : WEFT_ERROR(NOT_FOUND, "--signature %s: the model has %s%s", signature,
                                               there.length == 0 ? "no signatures" : "the signatures ",
                                               there.length == 0 ? "" : there.data);
  weft_strbuf_deinit(&there);
  return s;
}

void weft_model_choose_default(weft_model_t *m) {
  if (m->meta != NULL) m->signature = weft_meta_graph_signature(m->meta, WEFT_STR("train"));
}

static const weft_signature_tensor_t *find(const weft_signature_tensor_t *all, int n, weft_str_t name) {
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(all[i].key, name)) return &all[i];
  }
  return NULL;
}

const weft_signature_tensor_t *weft_model_input(const weft_model_t *m, weft_str_t name) {
  return m->signature == NULL ? NULL : find(m->signature->inputs, m->signature->num_inputs, name);
}

const weft_signature_tensor_t *weft_model_output(const weft_model_t *m, weft_str_t name) {
  return m->signature == NULL ? NULL : find(m->signature->outputs, m->signature->num_outputs, name);
}

void weft_model_print_names(const weft_signature_tensor_t *tensors, int n, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) {
    if (i > 0) weft_strbuf_puts(out, ", ");
    weft_strbuf_append(out, tensors[i].key);
  }
}
