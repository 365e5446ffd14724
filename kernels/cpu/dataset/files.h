/* kernels/cpu/dataset/files.h - data sets that read files, one after the other.
 *
 * A class has a format, which reads one element out of a file that is open; what it has in common with the
 * others is here: the names, the place, the state, what happens at the end of a file and after a failure.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_FILES_H_
#define WEFT_KERNELS_CPU_DATASET_FILES_H_

#include "io/byte_stream.h"
#include "kernels/cpu/dataset/dataset.h"

/* The first part of the params of each class that reads files. */
typedef struct weft_dataset_files {
  weft_dataset_params_t base; /* first */
  int num;
  char **names;     /* owned, '\0'-ended */
  int64_t *offsets; /* owned: where to begin in each file; NULL: at its begin */
  weft_compression_t compression;
} weft_dataset_files_t;

/* For make: the names in input i, a scalar or a vector. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_files_in(const weft_kernel_ctx_t *c, int i,
                                                     weft_dataset_files_t *out);
/* The compression in input i: "", "ZLIB" or "GZIP". Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_files_compression_in(const weft_kernel_ctx_t *c, int i,
                                                                 weft_dataset_files_t *out);
/* Input i as buffer_size, which is `min` at least; `words` is the message else. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_files_buffer_in(const weft_kernel_ctx_t *c, int i, int64_t min,
                                                            const char *words);
/* For deinit. */
void weft_dataset_files_deinit(void *params);

/* ---- iterators ---- */

/* The first part of a class's own. */
typedef struct weft_file_iterator {
  weft_iterator_t base;       /* first */
  int64_t file;               /* the one that is open, or the next */
  weft_byte_stream_t *stream; /* NULL: none is open */
} weft_file_iterator_t;

typedef struct weft_file_format {
  /* A file has been opened; after a failure it stays open unless this closes it. May be NULL. */
  weft_status_t *(*begin)(weft_file_iterator_t *f);
  /* One element, or *is_over. */
  weft_status_t *(*read)(weft_file_iterator_t *f, weft_tensor_t **out, bool *is_over);
  void (*end)(weft_file_iterator_t *f); /* before a file is closed; may be NULL */
  bool leaves_broken; /* what follows a failure to begin or to read comes from the next file */
} weft_file_format_t;

static inline const weft_dataset_files_t *weft_files_of(const weft_file_iterator_t *f) {
  return (const weft_dataset_files_t *)f->base.of->params;
}
/* As a class's functions. */
WEFT_MUST_CHECK weft_status_t *weft_files_next(weft_iterator_t *it, const weft_file_format_t *format,
                                               weft_tensor_t **out, bool *is_end);
void weft_files_close(weft_file_iterator_t *f, const weft_file_format_t *format);
WEFT_MUST_CHECK weft_status_t *weft_files_save(weft_iterator_t *it, weft_saved_t *to);
WEFT_MUST_CHECK weft_status_t *weft_files_load(weft_iterator_t *it, const weft_file_format_t *format,
                                               weft_saved_t *from);

#endif /* WEFT_KERNELS_CPU_DATASET_FILES_H_ */
