/* kernels/cpu/dataset/files.c - what data sets that read files have in common. */
#include "kernels/cpu/dataset/files.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- which files ---- */

weft_status_t *weft_dataset_files_in(const weft_kernel_ctx_t *c, int i, weft_dataset_files_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank > 1) return WEFT_ERROR(INVALID_ARGUMENT, "`filenames` must be a scalar or a vector.");
  if (t->count > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "too many files");
  out->names = weft_calloc((size_t)t->count + 1, sizeof *out->names);
  if (out->names == NULL) return WEFT_NO_MEMORY("the names of %lld files", (long long)t->count);
  for (; out->num < t->count; out->num++) {
    const weft_str_t name = weft_tensor_str_at(t, out->num);
    out->names[out->num] = weft_strndup(name.data, name.length);
    if (out->names[out->num] == NULL) return WEFT_NO_MEMORY("the names of files");
  }
  return NULL;
}

weft_status_t *weft_dataset_files_compression_in(const weft_kernel_ctx_t *c, int i,
                                                 weft_dataset_files_t *out) {
  weft_str_t name;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, i, "compression_type", &name));
  if (weft_compression_find(name, &out->compression) && out->compression != WEFT_COMPRESSION_SNAPPY)
    return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported compression_type: %.*s.", WEFT_STR_ARGS(name));
}

weft_status_t *weft_dataset_files_buffer_in(const weft_kernel_ctx_t *c, int i, int64_t min,
                                            const char *words) {
  int64_t size;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, i, "buffer_size", &size));
  return size >= min ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "%s", words);
}

void weft_dataset_files_deinit(void *params) {
  weft_dataset_files_t *p = params;
  for (int i = 0; i < p->num; i++) weft_free(p->names[i]);
  weft_free(p->names);
  weft_free(p->offsets);
}

/* ---- one file after the other ---- */

void weft_files_close(weft_file_iterator_t *f, const weft_file_format_t *format) {
  if (f->stream == NULL) return;
  if (format->end != NULL) format->end(f);
  weft_byte_stream_close(f->stream);
  f->stream = NULL;
}

static void move_on(weft_file_iterator_t *f, const weft_file_format_t *format) {
  weft_files_close(f, format);
  f->file++;
}

/* A directory can be opened, as it were, and fails to be read. */
static weft_status_t *open_file(weft_file_iterator_t *f, const weft_file_format_t *format) {
  const weft_dataset_files_t *p = weft_files_of(f);
  weft_status_t *s = weft_byte_stream_open(p->names[f->file], p->compression, &f->stream);
  if (weft_status_code(s) == WEFT_FAILED_PRECONDITION && format->leaves_broken) f->file++;
  WEFT_RETURN_IF_ERROR(s);
  if (format->begin != NULL) s = format->begin(f);
  if (s != NULL && format->leaves_broken) move_on(f, format);
  return s;
}

weft_status_t *weft_files_next(weft_iterator_t *it, const weft_file_format_t *format, weft_tensor_t **out,
                               bool *is_end) {
  weft_file_iterator_t *f = (weft_file_iterator_t *)it;
  const weft_dataset_files_t *p = weft_files_of(f);
  for (;;) {
    if (f->stream != NULL) {
      bool is_over = false;
      weft_status_t *s = format->read(f, out, &is_over);
      if (s == NULL && !is_over) return NULL;
      if (s != NULL) s = weft_status_annotate(s, "in %s", p->names[f->file]);
      if (s == NULL || format->leaves_broken) move_on(f, format);
      if (s != NULL) return s;
    }
    *is_end = f->file >= p->num;
    if (*is_end) return NULL;
    WEFT_RETURN_IF_ERROR(open_file(f, format));
  }
}

/* ---- state ---- */

weft_status_t *weft_files_save(weft_iterator_t *it, weft_saved_t *to) {
  const weft_file_iterator_t *f = (const weft_file_iterator_t *)it;
  weft_saved_put_int(to, f->file);
  weft_saved_put_int(to, f->stream != NULL ? (int64_t)weft_byte_stream_position(f->stream) : -1);
  return NULL;
}

weft_status_t *weft_files_load(weft_iterator_t *it, const weft_file_format_t *format, weft_saved_t *from) {
  weft_file_iterator_t *f = (weft_file_iterator_t *)it;
  int64_t position = -1;
  uint64_t got = 0;
  weft_files_close(f, format);
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, weft_files_of(f)->num, &f->file));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, -1, INT64_MAX, &position));
  if (position < 0) return NULL;
  if (f->file == weft_files_of(f)->num) return weft_saved_broken("it reads of no file");
  WEFT_RETURN_IF_ERROR(open_file(f, format));
  const uint64_t at = weft_byte_stream_position(f->stream);
  const uint64_t n = (uint64_t)position > at ? (uint64_t)position - at : 0;
  WEFT_RETURN_IF_ERROR(weft_byte_stream_skip(f->stream, n, &got));
  if (got == n) return NULL;
  return WEFT_ERROR(OUT_OF_RANGE, "%s ends before byte %lld, where it was read",
                    weft_files_of(f)->names[f->file], (long long)position);
}
