/* jobs/checkpoint/state_proto.c - CheckpointState as text. */
#include "base/alloc.h"
#include "io/file.h"
#include "jobs/checkpoint/state.h"
#include "protos/checkpoint_state.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a list of checkpoints"); }

static void print_path(weft_str_t directory, weft_str_t name, weft_strbuf_t *out) {
  weft_strbuf_append(out, directory);
  if (directory.length > 0 && directory.data[directory.length - 1] != '/') weft_strbuf_putc(out, '/');
  weft_strbuf_append(out, name);
}

void weft_checkpoint_state_deinit(weft_checkpoint_state_t *state) {
  weft_arena_deinit(&state->arena);
  *state = (weft_checkpoint_state_t){.arena = WEFT_ARENA_INIT};
}

static weft_status_t *add(weft_checkpoint_state_t *state, weft_str_t directory, const char *path) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  print_path(path[0] == '/' ? WEFT_STR("") : directory, weft_str(path), &b);
  weft_str_t text =
      b.failed ? weft_str_of(NULL, 0) : weft_arena_str(&state->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (text.data == NULL) return no_memory();
  state->paths[state->n++] = text;
  return NULL;
}

/* The latest comes last, whatever the order of the list. */
static weft_status_t *take(weft_checkpoint_state_t *state, weft_str_t directory,
                           const Tensorflow__CheckpointState *m) {
  const char *latest = m->model_checkpoint_path == NULL ? "" : m->model_checkpoint_path;
  state->paths = weft_arena_calloc(&state->arena, m->n_all_model_checkpoint_paths + 1, sizeof *state->paths);
  if (state->paths == NULL) return no_memory();
  for (size_t i = 0; i < m->n_all_model_checkpoint_paths; i++) {
    const char *path = m->all_model_checkpoint_paths[i];
    if (path[0] != '\0' && strcmp(path, latest) != 0) WEFT_RETURN_IF_ERROR(add(state, directory, path));
  }
  return latest[0] == '\0' ? NULL : add(state, directory, latest);
}

weft_status_t *weft_checkpoint_state_read(weft_str_t directory, weft_checkpoint_state_t *out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 0;
  ProtobufCMessage *m = NULL;
  *out = (weft_checkpoint_state_t){.arena = WEFT_ARENA_INIT};
  print_path(directory, WEFT_STR("checkpoint"), &path);
  if (path.failed) return no_memory();
  weft_status_t *s = NULL;
  if (weft_file_exists(path.data)) {
    s = weft_file_read_all(path.data, &text, &length);
    if (s == NULL)
      s = weft_text_parse(&tensorflow__checkpoint_state__descriptor, weft_str_of(text, length), path.data,
                          &m);
    if (s == NULL) s = take(out, directory, (const Tensorflow__CheckpointState *)m);
  }
  weft_proto_free(m);
  weft_free(text);
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *write_file(weft_str_t directory, const weft_strbuf_t *text) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_file_writer_t *file = NULL;
  print_path(directory, WEFT_STR("checkpoint"), &path);
  weft_status_t *s = path.failed ? no_memory() : weft_file_writer_create(path.data, &file);
  if (s == NULL) s = weft_file_writer_append(file, text->data, text->length);
  if (s == NULL) {
    s = weft_file_writer_commit(file);
  } else {
    weft_file_writer_abandon(file);
  }
  weft_strbuf_deinit(&path);
  return s;
}

weft_status_t *weft_checkpoint_state_write(weft_str_t directory, const weft_str_t *names, int n) {
  Tensorflow__CheckpointState m = TENSORFLOW__CHECKPOINT_STATE__INIT;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  char **paths = weft_calloc((size_t)n + 1, sizeof *paths);
  weft_status_t *s = paths == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    paths[i] = weft_strndup(names[i].data, names[i].length);
    if (paths[i] == NULL) s = no_memory();
  }
  if (s == NULL && n > 0) {
    m.model_checkpoint_path = paths[n - 1];
    m.all_model_checkpoint_paths = paths;
    m.n_all_model_checkpoint_paths = (size_t)n;
    s = weft_text_print(&m.base, &text);
  }
  if (s == NULL && n > 0) s = write_file(directory, &text);
  for (int i = 0; paths != NULL && i < n; i++) weft_free(paths[i]);
  weft_free(paths);
  weft_strbuf_deinit(&text);
  return s;
}
