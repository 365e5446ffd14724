/* kernels/cpu/parsing/csv.c - DecodeCSV: records of fields between delimiters, as RFC 4180 has them. */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"
#include "kernels/cpu/loops/number_text.h"

typedef struct csv_plan {
  char delimiter;
  bool has_quotes;
  weft_str_t missing;     /* stands for a field without a value */
  const int64_t *columns; /* which to read, in rising order; NULL: all */
  int num_columns;
} csv_plan_t;

static weft_status_t *csv_check(const weft_attr_t *columns, int num_types, weft_str_t delimiter) {
  int n = columns == NULL ? 0 : columns->n;
  if (n > 0 && n != num_types) {
    return WEFT_ERROR(INVALID_ARGUMENT, "select_cols should match output size");
  }
  if (delimiter.length != 1) return WEFT_ERROR(INVALID_ARGUMENT, "field_delim should be only 1 char");
  for (int i = 0; i < n; i++) {
    if (i > 0 && columns->list.ints[i] <= columns->list.ints[i - 1]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "select_cols should be strictly increasing indices");
    }
    if (columns->list.ints[i] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "select_cols should be non-negative indices");
    }
  }
  return NULL;
}

static weft_status_t *csv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *columns = weft_knode_attr(setup, "select_cols");
  weft_str_t delimiter = weft_knode_string(setup, "field_delim");
  WEFT_RETURN_IF_ERROR(csv_check(columns, setup->node.num_outputs, delimiter));
  csv_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  p->delimiter = delimiter.data[0];
  p->has_quotes = weft_knode_bool(setup, "use_quote_delim");
  p->missing = weft_knode_string(setup, "na_value");
  p->num_columns = columns == NULL ? 0 : columns->n;
  if (p->num_columns > 0) p->columns = columns->list.ints;
  *out_state = p;
  return NULL;
}

typedef struct csv_run {
  const weft_kernel_ctx_t *ctx;
  const csv_plan_t *plan;
  int num_fields;
} csv_run_t;

/* ---- the fields of a record ---- */

/* Reads the field at *at into `text`, and goes behind its delimiter. */
static weft_status_t *read_plain(const csv_plan_t *p, weft_str_t record, size_t *at, weft_strbuf_t *text) {
  size_t begin = *at;
  for (; *at < record.length && record.data[*at] != p->delimiter; ++*at) {
    char c = record.data[*at];
    if ((p->has_quotes && c == '"') || c == '\n' || c == '\r') {
      return WEFT_ERROR(INVALID_ARGUMENT, "Unquoted fields cannot have quotes/CRLFs inside");
    }
  }
  weft_strbuf_append(text, weft_str_of(record.data + begin, *at - begin));
  ++*at;
  return NULL;
}

/* The same behind an opening quote: the field ends with a quote and a delimiter or the end; two quotes are
 * one. */
static weft_status_t *read_quoted(const csv_plan_t *p, weft_str_t record, size_t *at, weft_strbuf_t *text) {
  const char *s = record.data;
  while (*at + 1 < record.length && (s[*at] != '"' || s[*at + 1] != p->delimiter)) {
    if (s[*at] == '"') {
      if (s[*at + 1] != '"') {
        return WEFT_ERROR(INVALID_ARGUMENT, "Quote inside a string has to be escaped by another quote");
      }
      ++*at;
    }
    weft_strbuf_putc(text, s[(*at)++]);
  }
  if (*at >= record.length || s[*at] != '"' || (*at + 1 < record.length && s[*at + 1] != p->delimiter)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Quoted field has to end with quote followed by delim or end");
  }
  *at += 2;
  return NULL;
}

static weft_status_t *put_field(const csv_run_t *r, int f, int64_t row, weft_strbuf_t *text) {
  const weft_tensor_t *fallback = weft_in(r->ctx, 1 + f);
  weft_tensor_t *out = r->ctx->outputs[f].tensor;
  weft_str_t field = weft_str_of(text->data, text->length);
  if (text->failed) return WEFT_NO_MEMORY("reading a record");
  if (field.length == 0 || weft_str_eq(field, r->plan->missing)) {
    if (fallback->count == 1) return weft_cpu_copy(out, row, fallback, 0, 1);
    return WEFT_ERROR(INVALID_ARGUMENT, "Field %d is required but missing in record %" PRId64 "!", f, row);
  }
  if (out->dtype == WEFT_STRING) return weft_tensor_set_str(out, row, field);
  if (weft_number_from_text(field, out, row)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Field %d in record %" PRId64 " is not a valid %s: %.*s", f, row,
                    weft_dtype_name(out->dtype), WEFT_STR_ARGS(field));
}

/* One field that is read and, if it is among the columns, written. *count counts the written ones. */
static weft_status_t *take_field(const csv_run_t *r, int64_t column, int64_t row, weft_strbuf_t *text,
                                 int *count) {
  const csv_plan_t *p = r->plan;
  if (p->columns == NULL || (*count < p->num_columns && p->columns[*count] == column)) {
    if (*count < r->num_fields) WEFT_RETURN_IF_ERROR(put_field(r, *count, row, text));
    ++*count;
  }
  text->length = 0;
  return NULL;
}

static weft_status_t *read_fields(const csv_run_t *r, weft_str_t record, int64_t row, weft_strbuf_t *text,
                                  int *count) {
  const csv_plan_t *p = r->plan;
  int64_t column = 0;
  for (size_t at = 0; at < record.length;) {
    if (record.data[at] == '\n' || record.data[at] == '\r') {
      at++;
      continue;
    }
    bool is_quoted = p->has_quotes && record.data[at] == '"';
    at += is_quoted;
    WEFT_RETURN_IF_ERROR(is_quoted ? read_quoted(p, record, &at, text) : read_plain(p, record, &at, text));
    WEFT_RETURN_IF_ERROR(take_field(r, column++, row, text, count));
    if (p->columns != NULL && *count == p->num_columns) return NULL;
  }
  if (record.length == 0 || record.data[record.length - 1] != p->delimiter) return NULL;
  return take_field(r, column, row, text, count); /* an empty one behind the last delimiter */
}

static weft_status_t *read_record(void *arg, int64_t row, weft_strbuf_t *text) {
  const csv_run_t *r = arg;
  int count = 0;
  WEFT_RETURN_IF_ERROR(read_fields(r, weft_tensor_str_at(weft_in(r->ctx, 0), row), row, text, &count));
  if (count == r->num_fields) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expect %d fields but have %d in record %" PRId64, r->num_fields, count,
                    row);
}

static weft_status_t *decode_csv(weft_kernel_ctx_t *c) {
  const weft_tensor_t *records = weft_in(c, 0);
  csv_run_t r = {.ctx = c, .plan = c->state, .num_fields = c->node->num_outputs};
  for (int i = 0; i < r.num_fields; i++) {
    const weft_tensor_t *fallback = weft_in(c, 1 + i);
    if (fallback->shape.rank > 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Each record default should be at most rank 1");
    }
    if (fallback->count > 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "There should only be 1 default per field but field %d has %" PRId64, i,
                        fallback->count);
    }
  }
  for (int i = 0; i < r.num_fields; i++) {
    weft_tensor_t *out = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(c, i, (weft_dtype_t)c->node->output_types[i], &records->shape, &out));
  }
  return weft_each_row(c, records->count, 64, read_record, &r);
}

const weft_kernel_t weft_cpu_csv_kernels[] = {
    {.op = "DecodeCSV", .prepare = csv_prepare, .compute = decode_csv, .destroy = weft_free},
    {0},
};
