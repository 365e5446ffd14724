/* kernels/cpu/lookup/vocabulary.c - reading vocabularies, as TensorFlow's InitializeTableFromTextFile. */
#include "kernels/cpu/lookup/vocabulary.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/file.h"
#include "kernels/cpu/loops/number_text.h"

static bool is_whole(weft_dtype_t dtype) { return dtype == WEFT_I32 || dtype == WEFT_I64; }

weft_status_t *weft_vocabulary_check(const weft_vocabulary_format_t *format,
                                     const weft_lookup_config_t *table) {
  const weft_dtype_t key = table->key_dtype, value = table->value_dtype;
  if (format->key_index == WEFT_VOCABULARY_LINE_NUMBER && key != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Key index for line number requires table key dtype of int64, got %s",
                      weft_dtype_name(key));
  }
  if (format->key_index == WEFT_VOCABULARY_WHOLE_LINE && !is_whole(key) && key != WEFT_STRING) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Key index for whole line requires string or integer table key, got %s",
                      weft_dtype_name(key));
  }
  if (format->value_index == WEFT_VOCABULARY_LINE_NUMBER && value != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Value index for line number requires table value dtype of int64, got %s",
                      weft_dtype_name(value));
  }
  if (format->value_index == WEFT_VOCABULARY_WHOLE_LINE && !is_whole(value) && value != WEFT_STRING) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Value index for whole line requires table value dtype of integer or string, got %s",
                      weft_dtype_name(value));
  }
  return NULL;
}

/* ---- lines ---- */

/* Puts the next line into v->line; false: there is none. A carriage return is no part of a line, wherever it
 * stands; text behind the last line's end is a line if it is not empty. */
static bool read_line(weft_vocabulary_t *v) {
  size_t end = 0;
  v->line.length = 0;
  while (end < v->rest.length && v->rest.data[end] != '\n') {
    const char *from = v->rest.data + end, *stop = from;
    while (end < v->rest.length && *stop != '\n' && *stop != '\r') stop++, end++;
    weft_strbuf_append(&v->line, weft_str_of(from, (size_t)(stop - from)));
    while (end < v->rest.length && v->rest.data[end] == '\r') end++;
  }
  const bool has_end = end < v->rest.length;
  end += has_end;
  v->rest = weft_str_of(v->rest.data + end, v->rest.length - end);
  return has_end || v->line.length > 0;
}

static int64_t count_lines(weft_str_t text) {
  int64_t n = 0;
  bool is_empty = true;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] == '\n') {
      n++;
      is_empty = true;
    } else if (text.data[i] != '\r') {
      is_empty = false;
    }
  }
  return n + !is_empty;
}

/* Field `index` of the line, and how many there are up to it; the last is as long as the line. */
static int64_t find_field(weft_str_t line, char delimiter, int64_t index, weft_str_t *out) {
  weft_str_t rest = line;
  int64_t n = 1;
  while (weft_str_split(rest, delimiter, out, &rest)) {
    if (n > index) return n;
    n++;
  }
  *out = rest;
  return n;
}

/* ---- entries ---- */

static weft_status_t *set_element(weft_vocabulary_t *v, int64_t index, weft_tensor_t *t) {
  weft_str_t text = weft_str_of(v->line.data, v->line.length);
  if (index == WEFT_VOCABULARY_LINE_NUMBER) {
    *(int64_t *)t->data = (int64_t)((uint64_t)v->next_line + (uint64_t)v->format.offset);
    return NULL;
  }
  if (index >= 0) find_field(text, v->format.delimiter, index, &text);
  if (t->dtype == WEFT_STRING) return weft_tensor_set_str(t, 0, text);
  if (t->dtype != WEFT_F32 && t->dtype != WEFT_F64 && !is_whole(t->dtype))
    return WEFT_ERROR(INVALID_ARGUMENT, "Data type %s not supported.", weft_dtype_name(t->dtype));
  const char *nul = text.length == 0 ? NULL : memchr(text.data, '\0', text.length);
  if (nul != NULL) text.length = (size_t)(nul - text.data); /* TensorFlow reads a C string */
  if (!weft_number_from_text(text, t, 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Field %.*s in line %" PRId64 " is not a valid %s.",
                      WEFT_STR_ARGS(text), v->next_line, weft_dtype_name(t->dtype));
  }
  if (t->dtype == WEFT_I32) {
    int32_t *number = t->data;
    *number = (int32_t)((uint32_t)*number + (uint32_t)v->format.offset);
  }
  return NULL;
}

static weft_status_t *check_columns(weft_vocabulary_t *v) {
  const weft_vocabulary_format_t *f = &v->format;
  const int64_t last = f->key_index > f->value_index ? f->key_index : f->value_index;
  weft_str_t line = weft_str_of(v->line.data, v->line.length), field;
  if (last < 0) return NULL;
  const int64_t n = find_field(line, f->delimiter, last, &field);
  if (n > last) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Invalid number of columns in %s line %" PRId64 " (%.*s) : expected at least %" PRId64
                    " got %" PRId64,
                    v->name, v->next_line, WEFT_STR_ARGS(line), last + 1, n);
}

/* Reads an entry, or sees that there is none left. */
static weft_status_t *next(weft_lookup_source_t *source) {
  weft_vocabulary_t *v = (weft_vocabulary_t *)source;
  const int64_t size = v->format.size;
  source->keys = source->values = NULL;
  if (!read_line(v)) {
    if (size == -1 || v->next_line == size) return NULL;
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid vocab_size in %s: expected %" PRId64 " but got %" PRId64,
                      v->name, size, v->next_line);
  }
  if (v->line.failed) return WEFT_NO_MEMORY("a line of %s", v->name);
  if (size != -1 && v->next_line >= size) return NULL;
  if (v->line.length == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid content in %s: empty line found at position %zu.", v->name,
                      v->length - v->rest.length);
  }
  WEFT_RETURN_IF_ERROR(check_columns(v));
  WEFT_RETURN_IF_ERROR(set_element(v, v->format.key_index, v->key));
  WEFT_RETURN_IF_ERROR(set_element(v, v->format.value_index, v->value));
  v->next_line++;
  source->keys = v->key;
  source->values = v->value;
  return NULL;
}

weft_status_t *weft_vocabulary_init(weft_vocabulary_t *v, const char *name, weft_str_t text,
                                    const weft_vocabulary_format_t *format, weft_dtype_t key_dtype,
                                    weft_dtype_t value_dtype) {
  *v = (weft_vocabulary_t){.format = *format, .name = name, .rest = text, .length = text.length};
  v->source.next = next;
  v->source.total = format->size == -1 ? count_lines(text) : format->size;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(key_dtype, &WEFT_SCALAR, NULL, &v->key));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(value_dtype, &WEFT_SCALAR, NULL, &v->value));
  WEFT_RETURN_IF_ERROR(next(&v->source));
  if (v->source.keys == NULL) return WEFT_ERROR(OUT_OF_RANGE, "%s has no entries to read", name);
  return NULL;
}

void weft_vocabulary_deinit(weft_vocabulary_t *v) {
  weft_tensor_release(v->key);
  weft_tensor_release(v->value);
  weft_strbuf_deinit(&v->line);
}

/* ---- a file ---- */

weft_status_t *weft_vocabulary_load(weft_lookup_table_t *t, weft_str_t path,
                                    const weft_vocabulary_format_t *format) {
  const weft_lookup_config_t *config = weft_lookup_table_config(t);
  weft_vocabulary_t v = {0};
  char *name = NULL, *text = NULL;
  size_t length = 0;
  WEFT_RETURN_IF_ERROR(weft_vocabulary_check(format, config));
  name = weft_strndup(path.data, path.length);
  if (name == NULL) return WEFT_NO_MEMORY("a path of %zu bytes", path.length);
  weft_status_t *s = weft_file_read_all(name, &text, &length);
  if (s == NULL) {
    s = weft_vocabulary_init(&v, name, weft_str_of(text, length), format, config->key_dtype,
                             config->value_dtype);
  }
  if (s == NULL) s = weft_lookup_table_initialize(t, &v.source);
  if (s != NULL && weft_status_code(s) == WEFT_FAILED_PRECONDITION && weft_lookup_table_is_initialized(t)) {
    weft_status_free(s); /* another node has filled it */
    s = NULL;
  }
  weft_vocabulary_deinit(&v);
  weft_free(text);
  weft_free(name);
  return s;
}
