/* resources/reader_work.c - the kinds of readers: how each reads a file. */
#include "resources/reader_work.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/file.h"

/* ---- records ---- */

void weft_reader_records_deinit(weft_reader_records_t *r) {
  weft_strbuf_deinit(&r->keys);
  weft_strbuf_deinit(&r->values);
  weft_free(r->ends);
}

/* What was appended to keys and values is a record. */
static weft_status_t *add_record(weft_reader_records_t *r) {
  if (r->n == r->capacity) {
    int64_t capacity = r->capacity == 0 ? 16 : r->capacity * 2;
    size_t(*more)[2] = weft_realloc(r->ends, (size_t)capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("reading %" PRId64 " records", r->n);
    r->ends = more;
    r->capacity = capacity;
  }
  if (r->keys.failed || r->values.failed) return WEFT_NO_MEMORY("reading %" PRId64 " records", r->n);
  r->ends[r->n][0] = r->keys.length;
  r->ends[r->n][1] = r->values.length;
  r->n++;
  return NULL;
}

/* ---- the file ---- */

weft_status_t *weft_reader_work_set_name(weft_reader_work_t *w, weft_str_t name) {
  char *copy = weft_strndup(name.data, name.length);
  if (copy == NULL) return WEFT_NO_MEMORY("reading the file '%.*s'", WEFT_STR_ARGS(name));
  weft_free(w->name);
  w->name = copy;
  w->name_length = name.length;
  return NULL;
}

void weft_reader_work_close(weft_reader_work_t *w) {
  weft_byte_stream_close(w->stream);
  w->stream = NULL;
  weft_lmdb_close(w->database);
  w->database = NULL;
  weft_status_free(w->failure);
  w->failure = NULL;
  weft_record_reader_deinit(&w->records);
}

void weft_reader_work_deinit(weft_reader_work_t *w) {
  weft_reader_work_close(w);
  weft_free(w->name);
  weft_strbuf_deinit(&w->ahead);
}

static weft_str_t name_of(const weft_reader_work_t *w) { return weft_str_of(w->name, w->name_length); }

static weft_status_t *skip_header(weft_reader_work_t *w) {
  uint64_t header = (uint64_t)w->config->header_bytes, got = 0;
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_byte_stream_skip(w->stream, header, &got);
  if (s == NULL && got < header) s = WEFT_ERROR(OUT_OF_RANGE, "reached end of file");
  bool is_end = false;
  for (; s == NULL && !is_end && w->number < w->config->header_lines; w->number++) {
    line.length = 0;
    s = weft_byte_stream_line(w->stream, &line, &is_end);
    if (is_end) break;
  }
  weft_strbuf_deinit(&line);
  return s;
}

weft_status_t *weft_reader_work_start(weft_reader_work_t *w) {
  weft_reader_kind_t kind = w->config->kind;
  weft_reader_work_close(w);
  w->number = 0;
  w->ahead.length = 0;
  if (kind == WEFT_READER_IDENTITY || kind == WEFT_READER_WHOLE_FILE) return NULL;
  if (kind == WEFT_READER_LMDB) return weft_lmdb_open(w->name, &w->database);
  bool has_header = w->config->header_bytes > 0 || w->config->header_lines > 0;
  weft_status_t *s = weft_byte_stream_open(w->name, w->config->compression, &w->stream);
  if (weft_status_code(s) == WEFT_FAILED_PRECONDITION && !has_header) {
    w->failure = s;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(s);
  w->records = (weft_record_reader_t){.stream = w->stream};
  return skip_header(w);
}

/* ---- the next record ---- */

static weft_status_t *put_numbered(weft_reader_work_t *w, uint64_t number, weft_reader_records_t *out) {
  weft_strbuf_append(&out->keys, name_of(w));
  weft_strbuf_printf(&out->keys, ":%" PRIu64, number);
  return add_record(out);
}

static weft_status_t *next_name(weft_reader_work_t *w, weft_reader_records_t *out) {
  weft_strbuf_append(&out->keys, name_of(w));
  weft_strbuf_append(&out->values, name_of(w));
  return add_record(out);
}

static weft_status_t *next_file(weft_reader_work_t *w, weft_reader_records_t *out) {
  char *bytes = NULL;
  size_t length = 0;
  WEFT_RETURN_IF_ERROR(weft_file_read_all(w->name, &bytes, &length));
  weft_strbuf_append(&out->keys, name_of(w));
  weft_strbuf_append(&out->values, weft_str_of(bytes, length));
  weft_free(bytes);
  return add_record(out);
}

static weft_status_t *next_line(weft_reader_work_t *w, weft_reader_records_t *out, bool *is_end) {
  WEFT_RETURN_IF_ERROR(weft_byte_stream_line(w->stream, &out->values, is_end));
  w->number++;
  return *is_end ? NULL : put_numbered(w, (uint64_t)w->number, out);
}

static weft_status_t *next_tfrecord(weft_reader_work_t *w, weft_reader_records_t *out, bool *is_end) {
  uint64_t offset = w->records.offset;
  WEFT_RETURN_IF_ERROR(weft_record_reader_next(&w->records, &out->values, is_end));
  return *is_end ? NULL : put_numbered(w, offset, out);
}

static weft_status_t *next_entry(weft_reader_work_t *w, weft_reader_records_t *out, bool *is_end) {
  weft_str_t key, value;
  WEFT_RETURN_IF_ERROR(weft_lmdb_next(w->database, &key, &value, is_end));
  if (*is_end) return NULL;
  weft_strbuf_append(&out->keys, key);
  weft_strbuf_append(&out->values, value);
  return add_record(out);
}

/* `ahead` holds a record and the footer's bytes, so that no record is made of the footer: a compressed file
 * does not tell where it ends. From one record to the next it moves on by a hop. */
static weft_status_t *next_fixed(weft_reader_work_t *w, weft_reader_records_t *out, bool *is_end) {
  const weft_reader_config_t *config = w->config;
  uint64_t hop = (uint64_t)config->hop_bytes, got = 0;
  uint64_t need = (uint64_t)config->record_bytes + (uint64_t)config->footer_bytes;
  if (w->number > 0 && hop > 0 && hop <= w->ahead.length) {
    memmove(w->ahead.data, w->ahead.data + hop, w->ahead.length - hop);
    w->ahead.length -= hop;
  } else if (w->number > 0 && hop > 0) {
    uint64_t skip = hop - w->ahead.length;
    w->ahead.length = 0;
    WEFT_RETURN_IF_ERROR(weft_byte_stream_skip(w->stream, skip, &got));
    *is_end = got < skip;
    if (*is_end) return NULL;
  }
  if (w->ahead.length < need) {
    uint64_t missing = need - w->ahead.length;
    WEFT_RETURN_IF_ERROR(weft_byte_stream_read(w->stream, missing, &w->ahead, &got));
    *is_end = got < missing;
    if (*is_end) return NULL;
  }
  weft_strbuf_append(&out->values, weft_str_of(w->ahead.data, (size_t)config->record_bytes));
  return put_numbered(w, (uint64_t)w->number++, out);
}

weft_status_t *weft_reader_work_next(weft_reader_work_t *w, weft_reader_records_t *out, bool *is_end) {
  *is_end = false;
  if (w->failure != NULL) return weft_status_clone(w->failure);
  switch (w->config->kind) {
    case WEFT_READER_FIXED_LENGTH: return next_fixed(w, out, is_end);
    case WEFT_READER_LMDB: return next_entry(w, out, is_end);
    case WEFT_READER_TEXT_LINE: return next_line(w, out, is_end);
    case WEFT_READER_TFRECORD: return next_tfrecord(w, out, is_end);
    case WEFT_READER_WHOLE_FILE:
      WEFT_RETURN_IF_ERROR(next_file(w, out));
      *is_end = true;
      return NULL;
    case WEFT_READER_IDENTITY: break;
  }
  WEFT_RETURN_IF_ERROR(next_name(w, out));
  *is_end = true;
  return NULL;
}
