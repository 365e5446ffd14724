/* kernels/cpu/io/file.c - files as a graph sees them: whole. */
#include "io/file.h"
#include "base/alloc.h"
#include "io/match_files.h"
#include "kernels/kernel.h"

static weft_status_t *scalar_path(const weft_kernel_ctx_t *c, int i, char **out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input filename tensor must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  weft_str_t s = weft_tensor_str_at(t, 0);
  if (s.length > 0 && memchr(s.data, '\0', s.length) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a file's name holds a zero byte");
  }
  *out = weft_strndup(s.data == NULL ? "" : s.data, s.length);
  return *out == NULL ? WEFT_NO_MEMORY("naming a file") : NULL;
}

static weft_status_t *read_file(weft_kernel_ctx_t *c) {
  char *path = NULL, *bytes = NULL;
  size_t n = 0;
  WEFT_RETURN_IF_ERROR(scalar_path(c, 0, &path));
  weft_status_t *s = weft_file_read_all(path, &bytes, &n);
  if (s == NULL) s = weft_tensor_string(weft_str_of(bytes, n), &c->outputs[0].tensor);
  weft_free(bytes);
  weft_free(path);
  return s;
}

static weft_status_t *write_file(weft_kernel_ctx_t *c) {
  char *path = NULL, *dir = NULL;
  weft_file_writer_t *w = NULL;
  const weft_tensor_t *contents = weft_in(c, 1);
  if (contents->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Contents tensor must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&contents->shape));
  }
  WEFT_RETURN_IF_ERROR(scalar_path(c, 0, &path));
  weft_str_t name = weft_file_dirname(weft_str(path)), text = weft_tensor_str_at(contents, 0);
  weft_status_t *s = NULL;
  if (name.length > 0) {
    dir = weft_strndup(name.data, name.length);
    s = dir == NULL ? WEFT_NO_MEMORY("writing %s", path) : weft_file_make_dirs(dir);
  }
  if (s == NULL) s = weft_file_writer_create(path, &w);
  if (s == NULL) {
    s = weft_file_writer_append(w, text.data, text.length);
    if (s == NULL) {
      s = weft_file_writer_finish(w);
    } else {
      weft_file_writer_abandon(w);
    }
  }
  weft_free(dir);
  weft_free(path);
  return s;
}

/* ---- MatchingFiles: the files that match any of the patterns, sorted ---- */

static weft_status_t *matching_files(weft_kernel_ctx_t *c) {
  const weft_tensor_t *patterns = weft_in(c, 0);
  if (patterns->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input patterns tensor must be scalar or vector, but had shape: %s",
                      WEFT_SHAPE_TEXT(&patterns->shape));
  }
  weft_path_list_t found = {0};
  weft_tensor_t *out = NULL;
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < patterns->count; i++) {
    s = weft_match_files(weft_tensor_str_at(patterns, i), &found);
  }
  if (s == NULL) {
    weft_shape_t shape = weft_shape_vector((int64_t)found.n);
    weft_path_list_sort(&found);
    s = weft_out_new(c, 0, WEFT_STRING, &shape, &out);
  }
  for (size_t i = 0; s == NULL && i < found.n; i++) {
    s = weft_tensor_set_str(out, (int64_t)i, weft_str(found.paths[i]));
  }
  weft_path_list_deinit(&found);
  return s;
}

const weft_kernel_t weft_cpu_file_kernels[] = {
    {.op = "MatchingFiles", .compute = matching_files},
    {.op = "ReadFile", .compute = read_file},
    {.op = "WriteFile", .compute = write_file},
    {0},
};
