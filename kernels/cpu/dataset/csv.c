/* kernels/cpu/dataset/csv.c - CSVDataset: the records of files of comma-separated values, as RFC 4180 has
 * them.
 *
 * A record ends with "\n", "\r", "\r\n" or the file; a field in quotes may have any of these, and two quotes
 * for one. The first failure in a record is the record's; what follows it is read from behind the record.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/files.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/loops/number_text.h"

typedef struct csv_params {
  weft_dataset_files_t base;
  bool has_header, has_quotes;
  char delimiter;
  char *missing; /* owned: stands for a field without a value; missing_length bytes */
  size_t missing_length;
  int64_t *columns; /* owned, num_columns in rising order: those to read, or, if they are excluded, not to */
  int64_t num_columns;
  bool excludes;
  int num_fields;
  weft_tensor_t **defaults; /* owned, num_fields; without an element: the field is required */
} csv_params_t;

typedef struct csv_iterator {
  weft_file_iterator_t base;
  weft_str_t window; /* of the stream, from `at` on not yet read; taken when a record ends */
  size_t at;
  weft_strbuf_t text; /* the field, where it is not a piece of the window */
} csv_iterator_t;

/* A record that is being read. */
typedef struct csv_record {
  csv_iterator_t *it;
  const csv_params_t *p;
  weft_tensor_t **out; /* NULL: it is a header */
  int64_t column, num_matched;
  int num_fields;
  bool is_over;
  weft_status_t *failure;
} csv_record_t;

static const csv_params_t *params_of(const csv_iterator_t *c) {
  return (const csv_params_t *)c->base.base.of->params;
}

/* ---- bytes ---- */

/* Is there a byte at it->at? Where the window ends it is replaced by the one behind it. */
static bool has_byte(csv_record_t *r) {
  csv_iterator_t *it = r->it;
  if (it->at < it->window.length) return true;
  weft_byte_stream_take(it->base.stream, it->at);
  it->at = 0;
  weft_status_t *s = weft_byte_stream_peek(it->base.stream, 1, &it->window);
  if (s == NULL) return it->window.length > 0;
  it->window.length = 0;
  weft_status_free(r->failure); /* what fails to be read counts more than what was read */
  r->failure = s;
  return false;
}

static void fail(csv_record_t *r, weft_status_t *s) {
  if (r->failure == NULL) {
    r->failure = s;
  } else {
    weft_status_free(s);
  }
}

/* Behind a '\r' or '\n' that was read. */
static void end_record(csv_record_t *r, char c) {
  r->is_over = true;
  if (c == '\r' && has_byte(r) && r->it->window.data[r->it->at] == '\n') r->it->at++;
}

/* ---- fields ---- */

static weft_status_t *convert(const csv_record_t *r, weft_str_t field) {
  const int i = r->num_fields;
  const weft_dtype_t dtype = r->it->base.base.of->spec->dtypes[i];
  const bool is_missing =
      field.length == 0 || weft_str_eq(field, weft_str_of(r->p->missing, r->p->missing_length));
  if (is_missing && r->p->defaults[i]->count != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Field %d is required but missing in record!", i);
  if (dtype == WEFT_STRING && !is_missing) return weft_tensor_string(field, &r->out[i]);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &WEFT_SCALAR, NULL, &r->out[i]));
  if (is_missing) return weft_tensor_copy_elements(r->out[i], 0, r->p->defaults[i], 0, 1);
  if (weft_number_from_text(field, r->out[i], 0)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Field %d in record is not a valid %s: %.*s", i, weft_dtype_name(dtype),
                    WEFT_STR_ARGS(field));
}

/* Whether the column is one of those that are read; each is asked for once, in rising order. */
static bool is_wanted(csv_record_t *r) {
  if (r->out == NULL) return false;
  const bool is_named = r->num_matched < r->p->num_columns && r->p->columns[r->num_matched] == r->column;
  r->num_matched += is_named;
  return r->p->num_columns == 0 || is_named != r->p->excludes;
}

static void put_field(csv_record_t *r, bool is_taken, weft_str_t field) {
  if (!is_taken) return;
  if (r->it->text.failed) {
    fail(r, WEFT_NO_MEMORY("reading a field"));
  } else if (r->num_fields >= r->p->num_fields) {
    fail(r, WEFT_ERROR(INVALID_ARGUMENT, "Expect %d fields but have more in record", r->p->num_fields));
  } else if (r->failure == NULL) {
    fail(r, convert(r, field));
  }
  r->num_fields += r->num_fields < r->p->num_fields;
}

/* Adds window[from..at) to a field that goes on. */
static void keep(csv_record_t *r, size_t from) {
  weft_strbuf_append(&r->it->text, weft_str_of(r->it->window.data + from, r->it->at - from));
}

/* The whole field: what was kept, and window[from..at). */
static weft_str_t joined(csv_record_t *r, size_t from) {
  if (r->it->text.length == 0) return weft_str_of(r->it->window.data + from, r->it->at - from);
  keep(r, from);
  return weft_str_of(r->it->text.data, r->it->text.length);
}

static void read_plain(csv_record_t *r, bool is_taken) {
  csv_iterator_t *it = r->it;
  const csv_params_t *p = r->p;
  size_t from = it->at;
  for (;;) {
    char c = '\0';
    for (; it->at < it->window.length; it->at++) {
      c = it->window.data[it->at];
      if (c == p->delimiter || c == '\n' || c == '\r') break;
      if (c == '"' && p->has_quotes)
        fail(r, WEFT_ERROR(INVALID_ARGUMENT, "Unquoted fields cannot have quotes inside"));
    }
    if (it->at < it->window.length) {
      put_field(r, is_taken, joined(r, from));
      it->at++;
      if (c != p->delimiter) end_record(r, c);
      return;
    }
    keep(r, from);
    from = 0;
    r->is_over = !has_byte(r);
    if (r->is_over) {
      put_field(r, is_taken, weft_str_of(it->text.data, it->text.length));
      return;
    }
  }
}

/* Behind a quote within the field, which is at its end if a delimiter or the record's end follows: true. */
static bool ends_quoted(csv_record_t *r, bool *is_taken) {
  csv_iterator_t *it = r->it;
  r->is_over = !has_byte(r);
  if (r->is_over) {
    put_field(r, *is_taken, weft_str_of(it->text.data, it->text.length));
    return true;
  }
  const char c = it->window.data[it->at++];
  if (c == r->p->delimiter || c == '\n' || c == '\r') {
    put_field(r, *is_taken, weft_str_of(it->text.data, it->text.length));
    if (c != r->p->delimiter) end_record(r, c);
    return true;
  }
  if (c == '"') {
    weft_strbuf_putc(&it->text, c);
  } else {
    *is_taken = false;
    fail(r, WEFT_ERROR(INVALID_ARGUMENT, "Quote inside a string has to be escaped by another quote"));
  }
  return false;
}

static void read_quoted(csv_record_t *r, bool is_taken) {
  csv_iterator_t *it = r->it;
  it->at++; /* the quote */
  while (has_byte(r)) {
    const size_t from = it->at;
    const char *quote = memchr(it->window.data + from, '"', it->window.length - from);
    it->at = quote == NULL ? it->window.length : (size_t)(quote - it->window.data);
    keep(r, from);
    if (quote == NULL) continue;
    it->at++;
    if (ends_quoted(r, &is_taken)) return;
  }
  r->is_over = true;
  fail(r, WEFT_ERROR(INVALID_ARGUMENT, "Reached end of file without closing quoted field in record"));
}

/* ---- records ---- */

static void read_fields(csv_record_t *r) {
  csv_iterator_t *it = r->it;
  for (; !r->is_over; r->column++) {
    const bool is_taken = is_wanted(r);
    it->text.length = 0;
    if (!has_byte(r)) {
      r->is_over = true;
      put_field(r, is_taken, WEFT_STR(""));
    } else if (r->p->has_quotes && it->window.data[it->at] == '"') {
      read_quoted(r, is_taken);
    } else {
      read_plain(r, is_taken);
    }
  }
}

/* *is_end: the file has no more. */
static weft_status_t *read_record(csv_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  csv_record_t r = {.it = it, .p = params_of(it), .out = out};
  it->at = 0;
  it->window.length = 0;
  *is_end = !has_byte(&r);
  if (!*is_end) read_fields(&r);
  weft_byte_stream_take(it->base.stream, it->at);
  if (r.failure != NULL) *is_end = false;
  if (r.failure != NULL || *is_end || out == NULL || r.num_fields == r.p->num_fields) return r.failure;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expect %d fields but have %d in record", r.p->num_fields,
                    r.num_fields);
}

static weft_status_t *begin_file(weft_file_iterator_t *f) {
  bool is_end = false;
  if (!params_of((csv_iterator_t *)f)->has_header) return NULL;
  weft_status_t *s = read_record((csv_iterator_t *)f, NULL, &is_end);
  if (s == NULL && !is_end) return NULL;
  weft_status_free(s);
  return WEFT_ERROR(INVALID_ARGUMENT, "Can't read header of file %s", weft_files_of(f)->names[f->file]);
}

static weft_status_t *read_one(weft_file_iterator_t *f, weft_tensor_t **out, bool *is_over) {
  return read_record((csv_iterator_t *)f, out, is_over);
}

static const weft_file_format_t format = {.begin = begin_file, .read = read_one};

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  return weft_files_next(it, &format, out, is_end);
}

static void end(weft_iterator_t *it) {
  csv_iterator_t *c = (csv_iterator_t *)it;
  weft_files_close(&c->base, &format);
  weft_strbuf_deinit(&c->text);
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_files_load(it, &format, from);
}

static const weft_dataset_class_t class = {.name = "CSV",
                                           .iterator_size = sizeof(csv_iterator_t),
                                           .next = next,
                                           .end = end,
                                           .save = weft_files_save,
                                           .load = load,
                                           .cardinality = weft_cardinality_unknown};

/* ---- making ---- */

static void deinit(void *params) {
  csv_params_t *p = params;
  for (int i = 0; p->defaults != NULL && i < p->num_fields; i++) weft_tensor_release(p->defaults[i]);
  weft_free(p->defaults);
  weft_free(p->columns);
  weft_free(p->missing);
  weft_dataset_files_deinit(p);
}

static weft_status_t *defaults_in(const weft_kernel_ctx_t *c, int at, int n, csv_params_t *p) {
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = weft_in(c, at + i);
    if (t->shape.rank > 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Each record default should be at most rank 1");
    if (t->count > 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "There should only be 1 default per field but field %d has %" PRId64, i, t->count);
    }
  }
  p->defaults = weft_calloc((size_t)n, sizeof *p->defaults);
  if (p->defaults == NULL) return WEFT_NO_MEMORY("the defaults of records");
  p->num_fields = n;
  for (int i = 0; i < n; i++) p->defaults[i] = weft_tensor_retain(weft_in(c, at + i));
  return NULL;
}

static weft_status_t *columns_in(const weft_kernel_ctx_t *c, int i, const char *name, csv_params_t *p) {
  const weft_tensor_t *t = weft_in(c, i);
  const int64_t *columns = t->data;
  if (t->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "`%s` must be a vector.", name);
  for (int64_t k = 1; k < t->count; k++) {
    if (columns[k - 1] >= columns[k])
      return WEFT_ERROR(INVALID_ARGUMENT, "%s should be strictly increasing indices", name);
  }
  if (t->count > 0 && columns[0] < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s should be non-negative indices", name);
  if (t->count == 0) return NULL;
  if (p->num_columns > 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Either select_cols or exclude_cols should be empty");
  p->columns = weft_calloc((size_t)t->count, sizeof *p->columns);
  if (p->columns == NULL) return WEFT_NO_MEMORY("the columns of records");
  memcpy(p->columns, columns, t->bytes);
  p->num_columns = t->count;
  return NULL;
}

/* filenames, compression_type, buffer_size, header, field_delim, use_quote_delim, na_value, select_cols,
 * record_defaults, and exclude_cols in the second version. */
static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  csv_params_t *p = params;
  const int n = d->spec->n;
  weft_str_t delimiter, missing;
  WEFT_RETURN_IF_ERROR(weft_dataset_files_in(c, at, &p->base));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_compression_in(c, at + 1, &p->base));
  WEFT_RETURN_IF_ERROR(defaults_in(c, at + 8, n, p));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_buffer_in(c, at + 2, 1, "buffer_size should be positive"));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 3, "header", &p->has_header));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at + 4, "field_delim", &delimiter));
  if (delimiter.length != 1) return WEFT_ERROR(INVALID_ARGUMENT, "field_delim should be only 1 char");
  p->delimiter = delimiter.data[0];
  WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 5, "use_quote_delim", &p->has_quotes));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at + 6, "na_value", &missing));
  p->missing = weft_strndup(missing.data, missing.length);
  p->missing_length = missing.length;
  if (p->missing == NULL) return WEFT_NO_MEMORY("a data set of records");
  WEFT_RETURN_IF_ERROR(columns_in(c, at + 7, "select_cols", p));
  if (p->num_columns > 0 && p->num_columns != n)
    return WEFT_ERROR(INVALID_ARGUMENT, "select_cols should match output size");
  const int64_t num_selected = p->num_columns;
  if (at + 8 + n < c->node->num_inputs) WEFT_RETURN_IF_ERROR(columns_in(c, at + 8 + n, "exclude_cols", p));
  p->excludes = num_selected == 0 && p->num_columns > 0;
  return NULL;
}

static const weft_dataset_op_t op = {
    .class = &class, .params_size = sizeof(csv_params_t), .make = make, .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_csv_kernels[] = {
    WEFT_DATASET_ROW("CSVDataset", op),
    WEFT_DATASET_ROW("CSVDatasetV2", op),
    WEFT_DATASET_ROW("ExperimentalCSVDataset", op),
    {0},
};
