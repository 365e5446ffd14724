/* kernels/cpu/string/split.c - strings into parts, as the values of a sparse matrix. */
#include "kernels/cpu/loops/common.h"

/* The parts of all strings; each is lent by its string. */
typedef struct split_parts {
  weft_str_t *parts; /* owned */
  int64_t n, capacity;
  int64_t *ends; /* owned; of the parts of each string */
  int64_t widest;
} split_parts_t;

static weft_status_t *add(split_parts_t *p, weft_str_t part) {
  if (p->n == p->capacity) {
    int64_t more = p->capacity == 0 ? 64 : p->capacity * 2;
    void *grown = weft_realloc(p->parts, (size_t)more, sizeof *p->parts);
    if (grown == NULL) return WEFT_NO_MEMORY("the parts of strings");
    p->parts = grown;
    p->capacity = more;
  }
  p->parts[p->n++] = part;
  return NULL;
}

static weft_str_t behind(weft_str_t s, size_t n) { return weft_str_of(s.data + n, s.length - n); }

/* ---- by a set of single bytes ---- */

static weft_status_t *split_by_any(weft_str_t s, weft_str_t delimiters, bool skip_empty, split_parts_t *out) {
  size_t begin = 0;
  if (s.length == 0) return NULL;
  for (size_t i = 0; i <= s.length; i++) {
    bool is_end = i == s.length || memchr(delimiters.data, s.data[i], delimiters.length) != NULL;
    if (!is_end) continue;
    if (i > begin || !skip_empty) WEFT_RETURN_IF_ERROR(add(out, weft_str_of(s.data + begin, i - begin)));
    begin = i + 1;
  }
  return NULL;
}

static weft_status_t *split_bytes(weft_str_t s, split_parts_t *out) {
  for (size_t i = 0; i < s.length; i++) WEFT_RETURN_IF_ERROR(add(out, weft_str_of(s.data + i, 1)));
  return NULL;
}

/* ---- by one text, or by blanks, as Python's str.split has it ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static weft_str_t without_leading_blanks(weft_str_t s) {
  size_t n = 0;
  while (n < s.length && is_blank(s.data[n])) n++;
  return behind(s, n);
}

static weft_status_t *split_by_blanks(weft_str_t s, int64_t most, split_parts_t *out) {
  s = without_leading_blanks(s);
  for (int64_t count = 1; s.length > 0; count++) {
    size_t n = 0;
    while (n < s.length && !is_blank(s.data[n])) n++;
    WEFT_RETURN_IF_ERROR(add(out, weft_str_of(s.data, n)));
    s = without_leading_blanks(behind(s, n));
    if (count == most) return add(out, s);
  }
  return NULL;
}

/* Where `part` begins in `s`; s.length if it does not. */
static size_t find(weft_str_t s, weft_str_t part) {
  for (size_t at = 0; at + part.length <= s.length; at++) {
    const char *first = memchr(s.data + at, part.data[0], s.length - part.length - at + 1);
    if (first == NULL) break;
    at = (size_t)(first - s.data);
    if (memcmp(first, part.data, part.length) == 0) return at;
  }
  return s.length;
}

static weft_status_t *split_by_text(weft_str_t s, weft_str_t separator, int64_t most, split_parts_t *out) {
  for (int64_t count = 1; most <= 0 || count <= most; count++) {
    size_t n = find(s, separator);
    if (n == s.length) break;
    WEFT_RETURN_IF_ERROR(add(out, weft_str_of(s.data, n)));
    s = behind(s, n + separator.length);
  }
  return add(out, s);
}

/* ---- the kernels ---- */

typedef struct split_rule {
  weft_str_t separator;
  bool is_set, skip_empty; /* StringSplit */
  int64_t most;            /* StringSplitV2: splits of one string; below 0: any number */
} split_rule_t;

static weft_status_t *split_one(const split_rule_t *r, weft_str_t s, split_parts_t *out) {
  if (r->is_set && r->separator.length == 0) return split_bytes(s, out);
  if (r->is_set) return split_by_any(s, r->separator, r->skip_empty, out);
  if (r->most == 0) return add(out, s);
  return r->separator.length == 0 ? split_by_blanks(s, r->most, out)
                                  : split_by_text(s, r->separator, r->most, out);
}

static weft_status_t *put_parts(weft_kernel_ctx_t *c, const split_parts_t *p, int64_t rows) {
  weft_shape_t indices_shape = weft_shape_matrix(p->n, 2), values_shape = weft_shape_vector(p->n),
               sizes_shape = weft_shape_vector(2);
  weft_tensor_t *indices = NULL, *values = NULL, *sizes = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_I64, &indices_shape, &indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_STRING, &values_shape, &values));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 2, WEFT_I64, &sizes_shape, &sizes));
  int64_t *at = indices->data, k = 0;
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t first = k; k < p->ends[row]; k++) {
      at[2 * k] = row;
      at[2 * k + 1] = k - first;
      WEFT_RETURN_IF_ERROR(weft_tensor_set_str(values, k, p->parts[k]));
    }
  }
  ((int64_t *)sizes->data)[0] = rows;
  ((int64_t *)sizes->data)[1] = p->widest;
  return NULL;
}

static weft_status_t *split_all(weft_kernel_ctx_t *c, const split_rule_t *rule, split_parts_t *p) {
  const weft_tensor_t *in = weft_in(c, 0);
  p->ends = weft_calloc((size_t)in->count + 1, sizeof *p->ends);
  if (p->ends == NULL) return WEFT_NO_MEMORY("the parts of strings");
  for (int64_t i = 0; i < in->count; i++) {
    int64_t before = p->n;
    WEFT_RETURN_IF_ERROR(split_one(rule, weft_tensor_str_at(in, i), p));
    p->ends[i] = p->n;
    if (p->n - before > p->widest) p->widest = p->n - before;
  }
  return put_parts(c, p, in->count);
}

static weft_status_t *run_split(weft_kernel_ctx_t *c, const char *what, split_rule_t *rule) {
  const weft_tensor_t *in = weft_in(c, 0), *separator = weft_in(c, 1);
  split_parts_t parts = {0};
  if (in->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be a vector, got shape: %s", WEFT_SHAPE_TEXT(&in->shape));
  }
  if (separator->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, got shape: %s", what,
                      WEFT_SHAPE_TEXT(&separator->shape));
  }
  rule->separator = weft_tensor_str_at(separator, 0);
  weft_status_t *s = split_all(c, rule, &parts);
  weft_free(parts.parts);
  weft_free(parts.ends);
  return s;
}

WEFT_ATTRS(string_split, (BOOL, skip_empty))
static weft_status_t *string_split(weft_kernel_ctx_t *c, const string_split_attrs_t *attrs) {
  return run_split(c, "delimiter", &(split_rule_t){.is_set = true, .skip_empty = attrs->skip_empty});
}

WEFT_ATTRS(string_split_v2, (INT, maxsplit))
static weft_status_t *string_split_v2(weft_kernel_ctx_t *c, const string_split_v2_attrs_t *attrs) {
  return run_split(c, "sep", &(split_rule_t){.most = attrs->maxsplit});
}

const weft_kernel_t weft_cpu_string_split_kernels[] = {
    {.op = "StringSplit", WEFT_COMPUTE(string_split)},
    {.op = "StringSplitV2", WEFT_COMPUTE(string_split_v2)},
    {0},
};
