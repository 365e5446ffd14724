/* tools/run/data_files.c - paths, the first record, the first line. */
#define _GNU_SOURCE /* realpath */
#include "tools/run/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/record_reader.h"
#include "protos/wire.h"
#include "tensor/dtype.h"

enum { MAX_FIELDS = 65536, MAX_RECORD = 1 << 30 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("files of data"); }

/* ---- paths ---- */

static weft_status_t *add_pattern(weft_path_list_t *files, const char *pattern) {
  const size_t before = files->n;
  WEFT_RETURN_IF_ERROR(weft_match_files(weft_str(pattern), files));
  if (files->n == before) return WEFT_ERROR(NOT_FOUND, "--data %s: there is no such file", pattern);
  return NULL;
}

/* The files of a folder; marks such as _SUCCESS and .crc files are none. */
static weft_status_t *add_folder(weft_path_list_t *files, const char *path) {
  DIR *folder = opendir(path);
  if (folder == NULL) return WEFT_ERROR(NOT_FOUND, "--data %s: %s", path, strerror(errno));
  weft_status_t *s = NULL;
  const size_t before = files->n;
  for (struct dirent *e; s == NULL && (e = readdir(folder)) != NULL;) {
    struct stat info;
    weft_strbuf_t whole = WEFT_STRBUF_INIT;
    if (e->d_name[0] == '.' || e->d_name[0] == '_') continue;
    weft_strbuf_printf(&whole, "%s/%s", path, e->d_name);
    if (whole.failed) s = no_memory();
    if (s == NULL && stat(whole.data, &info) == 0 && S_ISREG(info.st_mode))
      s = add_pattern(files, whole.data);
    weft_strbuf_deinit(&whole);
  }
  closedir(folder);
  if (s == NULL && files->n == before) s = WEFT_ERROR(NOT_FOUND, "--data %s: the folder has no files", path);
  return s;
}

static weft_status_t *find_files(const weft_option_texts_t *paths, weft_path_list_t *files) {
  for (int i = 0; i < paths->n; i++) {
    struct stat info;
    const bool is_folder = stat(paths->items[i], &info) == 0 && S_ISDIR(info.st_mode);
    WEFT_RETURN_IF_ERROR(is_folder ? add_folder(files, paths->items[i])
                                   : add_pattern(files, paths->items[i]));
  }
  weft_path_list_sort(files);
  return NULL;
}

/* Servers have other working directories. */
static weft_status_t *make_whole(weft_path_list_t *files) {
  for (size_t i = 0; i < files->n; i++) {
    char *whole = realpath(files->paths[i], NULL),
         *copy = whole == NULL ? NULL : weft_strndup(whole, strlen(whole));
    free(whole);
    if (copy == NULL) return WEFT_ERROR(NOT_FOUND, "--data %s: %s", files->paths[i], strerror(errno));
    weft_free(files->paths[i]);
    files->paths[i] = copy;
  }
  return NULL;
}

/* ---- kinds ---- */

/* 't' and ',' of CSV; 0 of others. */
static char delimiter_of(weft_str_t path) {
  if (weft_str_ends_with(path, ".gz")) path.length -= 3;
  if (weft_str_ends_with(path, ".csv")) return ',';
  return weft_str_ends_with(path, ".tsv") ? '\t' : '\0';
}

static weft_status_t *find_kind(weft_data_files_t *d) {
  const weft_str_t first = weft_str(d->files.paths[0]);
  const bool is_gzip = weft_str_ends_with(first, ".gz") || weft_str_ends_with(first, ".gzip");
  d->delimiter = delimiter_of(first);
  d->is_csv = d->delimiter != '\0';
  d->compression = is_gzip ? "GZIP" : "";
  for (size_t i = 1; i < d->files.n; i++) {
    const weft_str_t other = weft_str(d->files.paths[i]);
    if (delimiter_of(other) == d->delimiter &&
        (weft_str_ends_with(other, ".gz") || weft_str_ends_with(other, ".gzip")) == is_gzip)
      continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "--data: %s and %s are files of different kinds", d->files.paths[0],
                      d->files.paths[i]);
  }
  return NULL;
}

static weft_status_t *open_file(const weft_data_files_t *d, size_t file, weft_byte_stream_t **out) {
  weft_compression_t compression = WEFT_COMPRESSION_NONE;
  (void)weft_compression_find(weft_str(d->compression), &compression);
  return weft_byte_stream_open(d->files.paths[file], compression, out);
}

static weft_status_t *add_field(weft_data_files_t *d, int *capacity, weft_str_t name, int dtype) {
  if (d->num_fields == MAX_FIELDS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s has more than %d fields", d->files.paths[0], MAX_FIELDS);
  if (d->num_fields == *capacity) {
    *capacity = *capacity == 0 ? 16 : 2 * *capacity;
    weft_data_field_t *more = weft_arena_calloc(&d->arena, (size_t)*capacity, sizeof *more);
    if (more == NULL) return no_memory();
    if (d->num_fields > 0) memcpy(more, d->fields, (size_t)d->num_fields * sizeof *more);
    d->fields = more;
  }
  name = weft_arena_str(&d->arena, name);
  if (name.data == NULL) return no_memory();
  d->fields[d->num_fields++] = (weft_data_field_t){name, dtype};
  return NULL;
}

/* ---- Examples ---- */

/* Feature: bytes_list = 1, float_list = 2, int64_list = 3. */
static int dtype_of(weft_str_t feature) {
  static const int kinds[] = {0, WEFT_STRING, WEFT_F32, WEFT_I64};
  weft_wire_reader_t r = weft_wire_reader(feature);
  weft_wire_field_t f;
  int found = 0;
  while (weft_wire_next(&r, &f)) {
    const uint32_t number = weft_wire_number(&f);
    if (weft_wire_type(&f) == WEFT_WIRE_BYTES && number >= 1 && number <= 3) found = kinds[number];
  }
  return found;
}

static int by_name(const void *a, const void *b) {
  return weft_str_compare(((const weft_data_field_t *)a)->name, ((const weft_data_field_t *)b)->name);
}

/* Example: features = 1; Features: feature = 1; an entry: key = 1, value = 2. */
static weft_status_t *read_example(weft_data_files_t *d, weft_str_t record) {
  weft_wire_reader_t example = weft_wire_reader(record);
  weft_wire_field_t f, entry, part;
  int capacity = 0;
  while (weft_wire_next(&example, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t features = weft_wire_reader(f.bytes);
    while (weft_wire_next(&features, &entry)) {
      if (entry.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
      weft_str_t key = WEFT_STR(""), value = WEFT_STR("");
      weft_wire_reader_t pair = weft_wire_reader(entry.bytes);
      while (weft_wire_next(&pair, &part)) {
        if (part.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) key = part.bytes;
        if (part.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) value = part.bytes;
      }
      WEFT_RETURN_IF_ERROR(add_field(d, &capacity, key, dtype_of(value)));
    }
  }
  if (example.failed || d->num_fields == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "--data: the first record of %s is no Example with features",
                      d->files.paths[0]);
  qsort(d->fields, (size_t)d->num_fields, sizeof *d->fields, by_name);
  return NULL;
}

static weft_status_t *read_records(weft_data_files_t *d, weft_byte_stream_t *stream) {
  weft_record_reader_t reader = {.stream = stream};
  weft_str_t record;
  bool is_end = false;
  weft_status_t *s = weft_record_reader_lend(&reader, &record, &is_end);
  if (s == NULL && is_end) s = WEFT_ERROR(INVALID_ARGUMENT, "--data: %s has no records", d->files.paths[0]);
  if (s == NULL) s = read_example(d, record);
  weft_record_reader_deinit(&reader);
  return s;
}

/* ---- CSV ---- */

/* A name without the quotes around it. */
static weft_str_t unquoted(weft_str_t s) {
  if (s.length >= 2 && s.data[0] == '"' && s.data[s.length - 1] == '"')
    s = weft_str_of(s.data + 1, s.length - 2);
  return s;
}

/* Without the mark of UTF-8 that Excel begins files with. */
static weft_str_t without_mark(weft_str_t line) {
  static const char mark[] = "\xef\xbb\xbf";
  if (!weft_str_starts_with(line, mark)) return line;
  return weft_str_of(line.data + sizeof mark - 1, line.length - (sizeof mark - 1));
}

static weft_status_t *read_header(weft_data_files_t *d, weft_byte_stream_t *stream) {
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  bool is_end = false;
  int capacity = 0;
  weft_status_t *s = weft_byte_stream_line(stream, &line, &is_end);
  const bool is_marked_quote = weft_str_starts_with(weft_str_of(line.data, line.length), "\xef\xbb\xbf\"");
  if (s == NULL && is_marked_quote)
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "--data: %s has a byte order mark before a name in quotes; save it as UTF-8 "
                   "without the mark",
                   d->files.paths[0]);
  if (s == NULL && (is_end || line.length == 0))
    s = WEFT_ERROR(INVALID_ARGUMENT, "--data: %s has no first line with the names of its columns",
                   d->files.paths[0]);
  weft_str_t rest = without_mark(weft_str_of(line.data, line.length)), name, tail;
  for (bool more = s == NULL; s == NULL && more;) {
    more = weft_str_split(rest, d->delimiter, &name, &tail);
    s = add_field(d, &capacity, unquoted(more ? name : rest), 0);
    rest = tail;
  }
  weft_strbuf_deinit(&line);
  return s;
}

/* Is there a line that is not empty? */
static weft_status_t *has_row(weft_byte_stream_t *stream, bool *out) {
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  *out = false;
  for (bool is_end = false; s == NULL && !is_end && !*out;) {
    s = weft_byte_stream_line(stream, &line, &is_end);
    *out = s == NULL && !is_end && line.length > 0;
  }
  weft_strbuf_deinit(&line);
  return s;
}

/* Below the first line, in one of the files. `first` is behind that line of the first one. */
static weft_status_t *check_rows(const weft_data_files_t *d, weft_byte_stream_t *first) {
  bool is_there = false;
  WEFT_RETURN_IF_ERROR(has_row(first, &is_there));
  for (size_t i = 1; i < d->files.n && !is_there; i++) {
    weft_byte_stream_t *stream = NULL;
    weft_strbuf_t header = WEFT_STRBUF_INIT;
    bool is_end = false;
    WEFT_RETURN_IF_ERROR(open_file(d, i, &stream));
    weft_status_t *s = weft_byte_stream_line(stream, &header, &is_end);
    if (s == NULL && !is_end) s = has_row(stream, &is_there);
    weft_strbuf_deinit(&header);
    weft_byte_stream_close(stream);
    WEFT_RETURN_IF_ERROR(s);
  }
  if (is_there) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "--data: %s has no rows below its first line%s", d->files.paths[0],
                    d->files.n > 1 ? ", and the other files have none" : "");
}

/* ---- all ---- */

weft_status_t *weft_data_files_open(const weft_option_texts_t *paths, weft_data_files_t *out) {
  *out = (weft_data_files_t){.arena = WEFT_ARENA_INIT, .compression = ""};
  WEFT_RETURN_IF_ERROR(find_files(paths, &out->files));
  WEFT_RETURN_IF_ERROR(make_whole(&out->files));
  WEFT_RETURN_IF_ERROR(find_kind(out));
  weft_byte_stream_t *stream = NULL;
  WEFT_RETURN_IF_ERROR(open_file(out, 0, &stream));
  weft_status_t *s = out->is_csv ? read_header(out, stream) : read_records(out, stream);
  if (s == NULL && out->is_csv) s = check_rows(out, stream);
  weft_byte_stream_close(stream);
  return s == NULL ? NULL : weft_status_annotate(s, "in %s", out->files.paths[0]);
}

void weft_data_files_close(weft_data_files_t *d) {
  weft_path_list_deinit(&d->files);
  weft_arena_deinit(&d->arena);
}

int weft_data_files_find(const weft_data_files_t *d, weft_str_t name) {
  for (int i = 0; i < d->num_fields; i++) {
    if (weft_str_eq(d->fields[i].name, name)) return i;
  }
  return -1;
}

void weft_data_files_print_fields(const weft_data_files_t *d, weft_strbuf_t *out) {
  enum { MOST = 20 };
  for (int i = 0; i < d->num_fields && i < MOST; i++)
    weft_strbuf_printf(out, "%s%.*s", i > 0 ? ", " : "", WEFT_STR_ARGS(d->fields[i].name));
  if (d->num_fields > MOST) weft_strbuf_printf(out, " and %d more", d->num_fields - MOST);
}
