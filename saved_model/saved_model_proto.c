/* saved_model/saved_model_proto.c - the file of a SavedModel, binary or text, and the meta graph that is
 * asked for. */
#include "base/alloc.h"
#include "io/file.h"
#include "protos/saved_model.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "protos/wire.h"
#include "saved_model/saved_model.h"

static const ProtobufCMessageDescriptor *const type = &tensorflow__saved_model__descriptor;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a SavedModel"); }

/* "<directory>/<name>", as TensorFlow joins them. */
static bool join(const char *directory, const char *name, weft_strbuf_t *out) {
  weft_strbuf_puts(out, directory);
  if (out->length > 0 && out->data[out->length - 1] != '/') weft_strbuf_putc(out, '/');
  weft_strbuf_puts(out, name);
  return !out->failed;
}

/* ---- the file ---- */

static weft_status_t *no_model(const char *path, const char *kind, weft_status_t *why) {
  weft_status_t *s =
      WEFT_ERROR(DATA_LOSS, "Can't parse %s as %s proto: %s", path, kind, weft_status_message(why));
  weft_status_free(why);
  return s;
}

static weft_status_t *read_whole(const char *path, char **out, size_t *out_length) {
  weft_file_reader_t f;
  WEFT_RETURN_IF_ERROR(weft_file_open(path, &f));
  bool is_too_large = f.size > INT32_MAX;
  weft_file_close(&f);
  if (is_too_large)
    return WEFT_ERROR(DATA_LOSS, "Can't parse %s as binary proto: it has more than 2 GiB", path);
  return weft_file_read_all(path, out, out_length);
}

/* Does what is wrong lie where the file ends? TensorFlow's reader, which looks ahead, then says OUT_OF_RANGE.
 */
static bool is_cut_off(weft_str_t bytes) {
  enum { LOOKAHEAD = 16 };
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  uint64_t tag = 0;
  while (weft_wire_next(&r, &f)) continue;
  if (!r.failed) return false;
  bool has_tag = weft_wire_get_varint(r.p, r.end, &tag) != NULL;
  return r.end - r.p <= LOOKAHEAD || (has_tag && (tag & 7) == WEFT_WIRE_BYTES && tag >> 3 != 0);
}

static weft_status_t *read_binary(const char *path, char **out, size_t *out_length) {
  WEFT_RETURN_IF_ERROR(read_whole(path, out, out_length));
  weft_str_t bytes = weft_str_of(*out, *out_length);
  weft_status_t *s = weft_proto_check(type, bytes);
  if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT && is_cut_off(bytes)) {
    weft_status_free(s);
    return WEFT_ERROR(OUT_OF_RANGE, "Read less bytes than requested: %s is cut off after %zu bytes", path,
                      *out_length);
  }
  return s == NULL || weft_status_code(s) != WEFT_INVALID_ARGUMENT ? s : no_model(path, "binary", s);
}

static weft_status_t *read_text(const char *path, char **out, size_t *out_length) {
  char *text = NULL;
  size_t length = 0;
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = read_whole(path, &text, &length);
  if (s == NULL) {
    s = weft_text_to_binary(type, weft_str_of(text, length), path, &bytes);
    if (s == NULL)
      s = weft_proto_check(type, weft_str_of(bytes.data == NULL ? "" : bytes.data, bytes.length));
    if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT) s = no_model(path, "text", s);
  }
  weft_free(text);
  if (s == NULL) s = weft_strbuf_finish(&bytes, out, out_length);
  weft_strbuf_deinit(&bytes);
  return s;
}

/* The file that is there: 0: the binary one, 1: the text, -1: none. */
static int find_file(const char *directory, weft_strbuf_t *out_path) {
  static const char *const names[] = {"saved_model.pb", "saved_model.pbtxt"};
  for (int i = 0; i < 2; i++) {
    out_path->length = 0;
    if (join(directory, names[i], out_path) && weft_file_exists(out_path->data)) return i;
  }
  return -1;
}

bool weft_saved_model_is_at(const char *directory) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  bool is_there = find_file(directory, &path) >= 0;
  weft_strbuf_deinit(&path);
  return is_there;
}

static weft_status_t *read_file(const char *directory, char **out, size_t *out_length) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  int which = find_file(directory, &path);
  if (path.failed) {
    s = no_memory();
  } else if (which < 0) {
    s = WEFT_ERROR(
        NOT_FOUND,
        "Could not find SavedModel .pb or .pbtxt at supplied export directory path: %s. Check that "
        "the directory exists and that you have the right permissions for accessing it.",
        directory);
  } else {
    s = which == 0 ? read_binary(path.data, out, out_length) : read_text(path.data, out, out_length);
  }
  weft_strbuf_deinit(&path);
  return s;
}

/* ---- the model ---- */

static weft_status_t *read_graphs(weft_saved_model_t *m, weft_str_t bytes) {
  enum { META_GRAPH = WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) };
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  size_t n = 0;
  while (weft_wire_next(&r, &f)) n += f.tag == META_GRAPH;
  m->graphs = weft_calloc(n + 1, sizeof *m->graphs);
  if (m->graphs == NULL) return no_memory();
  for (r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == META_GRAPH) WEFT_RETURN_IF_ERROR(weft_meta_graph_read(f.bytes, &m->graphs[m->num_graphs++]));
  }
  return NULL;
}

weft_status_t *weft_saved_model_open(const char *directory, weft_saved_model_t **out) {
  size_t length = 0;
  weft_saved_model_t *m = weft_calloc(1, sizeof *m);
  if (m != NULL) m->directory = weft_strdup(directory);
  weft_status_t *s = m == NULL || m->directory == NULL ? no_memory() : NULL;
  if (s == NULL) s = read_file(directory, &m->bytes, &length);
  if (s == NULL) s = read_graphs(m, weft_str_of(m->bytes, length));
  if (s == NULL) {
    *out = m;
    return NULL;
  }
  weft_saved_model_close(m);
  return s;
}

void weft_saved_model_close(weft_saved_model_t *m) {
  if (m == NULL) return;
  for (int i = 0; i < m->num_graphs; i++) weft_meta_graph_deinit(&m->graphs[i]);
  weft_free(m->graphs);
  weft_free(m->bytes);
  weft_free(m->directory);
  weft_free(m);
}

/* ---- tags ---- */

static bool has_all(const weft_str_t *all, int n, const weft_str_t *of, int num_of) {
  for (int i = 0; i < num_of; i++) {
    bool found = false;
    for (int k = 0; k < n && !found; k++) found = weft_str_eq(all[k], of[i]);
    if (!found) return false;
  }
  return true;
}

static void print_tags(const weft_str_t *tags, int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "{ ");
  for (int i = 0; i < n; i++) {
    weft_strbuf_append(out, tags[i]);
    weft_strbuf_putc(out, ' ');
  }
  if (n == 0) weft_strbuf_putc(out, ' ');
  weft_strbuf_puts(out, "}");
}

weft_status_t *weft_saved_model_find(const weft_saved_model_t *m, const weft_str_t *tags, int num_tags,
                                     const weft_meta_graph_t **out) {
  for (int i = 0; i < m->num_graphs; i++) {
    const weft_meta_graph_t *g = &m->graphs[i];
    if (!has_all(g->tags, g->num_tags, tags, num_tags) || !has_all(tags, num_tags, g->tags, g->num_tags))
      continue;
    *out = g;
    return NULL;
  }
  weft_strbuf_t wanted = WEFT_STRBUF_INIT, there = WEFT_STRBUF_INIT;
  print_tags(tags, num_tags, &wanted);
  for (int i = 0; i < m->num_graphs; i++) {
    weft_strbuf_puts(&there, i == 0 ? " " : ", ");
    print_tags(m->graphs[i].tags, m->graphs[i].num_tags, &there);
  }
  weft_status_t *s =
      wanted.failed || there.failed
          ? no_memory()
          : WEFT_ERROR(NOT_FOUND,
                       "Could not find meta graph def matching supplied tags: %s. The SavedModel %s has%s; "
                       "`weft inspect` shows what is in it",
                       wanted.data, m->directory, m->num_graphs == 0 ? " none" : there.data);
  weft_strbuf_deinit(&wanted);
  weft_strbuf_deinit(&there);
  return s;
}

weft_str_t weft_saved_model_variables(const weft_saved_model_t *m, weft_arena_t *arena) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  bool ok = join(m->directory, "variables/variables", &path);
  weft_str_t kept = ok ? weft_arena_str(arena, weft_str_of(path.data, path.length)) : (weft_str_t){NULL, 0};
  weft_strbuf_deinit(&path);
  return kept;
}
