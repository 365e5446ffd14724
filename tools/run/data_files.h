/* tools/run/data_files.h - what files of data there are, and what is in them: TFRecords of Examples, or CSV.
 */
#ifndef WEFT_TOOLS_RUN_DATA_FILES_H_
#define WEFT_TOOLS_RUN_DATA_FILES_H_

#include "base/arena.h"
#include "io/match_files.h"
#include "tools/options.h"

/* A feature of the Examples, or a column. */
typedef struct weft_data_field {
  weft_str_t name;
  int dtype; /* of a feature: WEFT_F32, WEFT_I64 or WEFT_STRING, 0: it was empty; of a column: 0 */
} weft_data_field_t;

typedef struct weft_data_files { /* Immutable once open. */
  weft_arena_t arena;
  weft_path_list_t files; /* in the order in which they are read */
  bool is_csv;
  char delimiter;            /* of CSV */
  const char *compression;   /* "", "GZIP", "ZLIB"; static */
  weft_data_field_t *fields; /* of the first Example, sorted by name; columns in their order, by the header */
  int num_fields;
} weft_data_files_t;

/* `paths` are files, patterns ("train-*.tfrecord"), or folders, of which all files are read that do not begin
 * with
 * '.' or '_'. Files are CSV if their names end with .csv or .tsv, perhaps with .gz behind; else TFRecords.
 * The caller closes *out in any case. Errors: NOT_FOUND (nothing is there), INVALID_ARGUMENT (files of both
 * kinds; no Example, no header), DATA_LOSS, those of the files; all name the file. */
WEFT_MUST_CHECK weft_status_t *weft_data_files_open(const weft_option_texts_t *paths, weft_data_files_t *out);
void weft_data_files_close(weft_data_files_t *d);
/* The field of this name; -1: there is none. */
int weft_data_files_find(const weft_data_files_t *d, weft_str_t name);
/* Appends "a, b, c". */
void weft_data_files_print_fields(const weft_data_files_t *d, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_RUN_DATA_FILES_H_ */
