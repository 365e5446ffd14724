/* tools/submit/value_parse.c - from text to tensors. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/submit/value.h"

/* ---- one element ---- */

/* A number at the start of `text`, which ends with '\0'; *end behind it. */
static bool read_real(const char *text, const char **end, double *out) {
  char *stop = NULL;
  errno = 0;
  *out = strtod(text, &stop);
  *end = stop;
  bool is_overflow = errno == ERANGE && fabs(*out) > 1;
  return stop != text && !is_overflow;
}

/* "1", "-2.5e3", "3j", "1+2j", "nan-1j" */
static bool read_complex(const char *text, weft_c128_t *out) {
  const char *end = NULL;
  double first = 0, second = 0;
  *out = (weft_c128_t){0, 0};
  if (!read_real(text, &end, &first)) return false;
  bool is_imaginary = (*end == 'j' || *end == 'i') && end[1] == '\0';
  if (is_imaginary) out->im = first;
  if (!is_imaginary) out->re = first;
  if (*end == '\0' || is_imaginary) return true;
  if (*end != '+' && *end != '-') return false;
  if (!read_real(end, &end, &second)) return false;
  out->im = second;
  return (*end == 'j' || *end == 'i') && end[1] == '\0';
}

static bool read_bool(weft_str_t text, uint8_t *out) {
  bool is_true = weft_str_is(text, "true") || weft_str_is(text, "True") || weft_str_is(text, "1");
  bool is_false = weft_str_is(text, "false") || weft_str_is(text, "False") || weft_str_is(text, "0");
  *out = is_true;
  return is_true || is_false;
}

/* The range of integers up to 63 bits; false for other types. */
static bool range_of(int dtype, int64_t *min, int64_t *max) {
  if (!weft_dtype_is_integer(dtype) || dtype == WEFT_U64) return false;
  int bits = 8 * (int)weft_dtype_size(dtype);
  bool is_unsigned = dtype == WEFT_U8 || dtype == WEFT_U16 || dtype == WEFT_U32;
  *max = is_unsigned ? (INT64_C(1) << bits) - 1 : (int64_t)(UINT64_MAX >> (65 - bits));
  *min = is_unsigned ? 0 : -*max - 1;
  return true;
}

static bool put_integer(weft_tensor_t *t, int64_t at, weft_str_t text, int64_t min, int64_t max) {
  int64_t i = 0;
  if (!weft_str_to_i64(text, &i) || i < min || i > max) return false;
  size_t size = weft_dtype_size(t->dtype);
  memcpy((char *)t->data + (size_t)at * size, &i, size); /* the low bytes come first, as everywhere here */
  return true;
}

static bool put_number(weft_tensor_t *t, int64_t at, const char *text) {
  weft_str_t whole = weft_str(*text == '+' ? text + 1 : text);
  const char *end = NULL;
  int64_t min, max;
  double real = 0;
  weft_c128_t z = {0, 0};
  if (range_of(t->dtype, &min, &max)) return put_integer(t, at, whole, min, max);
  if (t->dtype == WEFT_U64) return weft_str_to_u64(whole, (uint64_t *)t->data + at);
  if (t->dtype == WEFT_BOOL) return read_bool(whole, (uint8_t *)t->data + at);
  if (!(weft_dtype_is_complex(t->dtype) ? read_complex(text, &z)
                                        : read_real(text, &end, &real) && *end == '\0'))
    return false;
  switch (t->dtype) {
    case WEFT_F16: ((uint16_t *)t->data)[at] = weft_f32_to_f16((float)real); return true;
    case WEFT_BF16: ((uint16_t *)t->data)[at] = weft_f32_to_bf16((float)real); return true;
    case WEFT_F32: ((float *)t->data)[at] = (float)real; return true;
    case WEFT_F64: ((double *)t->data)[at] = real; return true;
    case WEFT_C64: ((weft_c64_t *)t->data)[at] = (weft_c64_t){(float)z.re, (float)z.im}; return true;
    case WEFT_C128: ((weft_c128_t *)t->data)[at] = z; return true;
    default: return false;
  }
}

static weft_status_t *put(weft_tensor_t *t, int64_t at, const char *text) {
  if (t->dtype == WEFT_STRING) return weft_tensor_set_str(t, at, weft_str(text));
  if (put_number(t, at, text)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "'%s' is not a %s", text, weft_dtype_name(t->dtype));
}

/* ---- lists ---- */

/* The shape that the first element of each list says. */
static weft_status_t *shape_of(const json_t *list, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS];
  int rank = 0;
  while (json_is_array(list)) {
    if (rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "the lists are nested too deep");
    dims[rank++] = (int64_t)json_array_size(list);
    list = json_array_get(list, 0);
  }
  return weft_shape_make(dims, rank, out);
}

static weft_status_t *put_json(weft_tensor_t *t, int64_t at, const json_t *value) {
  if (json_is_string(value))
    return put(t, at, json_string_value(value)); /* "nan": JSON has no other way to write it */
  bool is_word = json_is_boolean(value) || json_is_number(value);
  if (!is_word)
    return WEFT_ERROR(INVALID_ARGUMENT, "the list holds what is not a %s", weft_dtype_name(t->dtype));
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  if (text == NULL) return WEFT_NO_MEMORY("a list");
  weft_status_t *s = put(t, at, text);
  free(text);
  return s;
}

static weft_status_t *put_list(weft_tensor_t *t, int d, const json_t *value, int64_t *at) {
  if (d == t->shape.rank) return put_json(t, (*at)++, value);
  if (!json_is_array(value) || (int64_t)json_array_size(value) != t->shape.dims[d]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the lists differ in length");
  }
  for (size_t i = 0; i < json_array_size(value); i++)
    WEFT_RETURN_IF_ERROR(put_list(t, d + 1, json_array_get(value, i), at));
  return NULL;
}

static weft_status_t *parse_list(weft_str_t text, int dtype, weft_tensor_t **out) {
  json_error_t error;
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  int64_t at = 0;
  json_t *list = json_loadb(text.data, text.length, 0, &error);
  if (list == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "not a list: column %d: %s", error.column, error.text);
  weft_status_t *s = shape_of(list, &shape);
  if (s == NULL) s = weft_tensor_new((weft_dtype_t)dtype, &shape, NULL, &t);
  if (s == NULL) s = put_list(t, 0, list, &at);
  json_decref(list);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}

weft_status_t *weft_value_parse(weft_str_t text, int dtype, const weft_shape_t *shape, weft_tensor_t **out) {
  bool is_array = shape != NULL && shape->rank > 0;
  if (text.length > 0 && text.data[0] == '[' && (dtype != WEFT_STRING || is_array))
    return parse_list(text, dtype, out);
  weft_shape_t of_one = {.rank = is_array ? shape->rank : 0};
  for (int d = 0; d < of_one.rank; d++) of_one.dims[d] = 1;
  weft_tensor_t *t = NULL;
  char *whole = weft_strndup(text.data, text.length);
  if (whole == NULL) return WEFT_NO_MEMORY("a value");
  weft_status_t *s = weft_tensor_new((weft_dtype_t)dtype, &of_one, NULL, &t);
  if (s == NULL) s = put(t, 0, whole);
  weft_free(whole);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}
