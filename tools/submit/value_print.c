/* tools/submit/value_print.c - from tensors to text. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "io/summary_check.h"
#include "tools/submit/value.h"
#include "tools/submit/value_summary.h"

enum { MAX_SHOWN = 1000 };

/* One element, as the widest type of its kind. */
typedef struct printed_element {
  enum { OTHER, SIGNED, UNSIGNED, REAL, COMPLEX, BOOLEAN, TEXT } kind;
  int digits; /* of a real number, so that it can be read back: 9 for float */
  int64_t i;
  uint64_t u;
  double re, im;
  weft_str_t text;
} printed_element_t;

enum { HALF_DIGITS = 5, BFLOAT_DIGITS = 4 };

#define AT(type) (((const type *)t->data)[at])
static printed_element_t element_at(const weft_tensor_t *t, int64_t at) {
  switch (t->dtype) {
    case WEFT_I8: return (printed_element_t){.kind = SIGNED, .i = AT(int8_t)};
    case WEFT_I16: return (printed_element_t){.kind = SIGNED, .i = AT(int16_t)};
    case WEFT_I32: return (printed_element_t){.kind = SIGNED, .i = AT(int32_t)};
    case WEFT_I64: return (printed_element_t){.kind = SIGNED, .i = AT(int64_t)};
    case WEFT_U8: return (printed_element_t){.kind = UNSIGNED, .u = AT(uint8_t)};
    case WEFT_U16: return (printed_element_t){.kind = UNSIGNED, .u = AT(uint16_t)};
    case WEFT_U32: return (printed_element_t){.kind = UNSIGNED, .u = AT(uint32_t)};
    case WEFT_U64: return (printed_element_t){.kind = UNSIGNED, .u = AT(uint64_t)};
    case WEFT_F16:
      return (printed_element_t){.kind = REAL, .digits = HALF_DIGITS, .re = weft_f16_to_f32(AT(uint16_t))};
    case WEFT_BF16:
      return (printed_element_t){.kind = REAL, .digits = BFLOAT_DIGITS, .re = weft_bf16_to_f32(AT(uint16_t))};
    case WEFT_F32: return (printed_element_t){.kind = REAL, .digits = FLT_DECIMAL_DIG, .re = AT(float)};
    case WEFT_F64: return (printed_element_t){.kind = REAL, .digits = DBL_DECIMAL_DIG, .re = AT(double)};
    case WEFT_C64:
      return (printed_element_t){
          .kind = COMPLEX, .digits = FLT_DECIMAL_DIG, .re = AT(weft_c64_t).re, .im = AT(weft_c64_t).im};
    case WEFT_C128:
      return (printed_element_t){
          .kind = COMPLEX, .digits = DBL_DECIMAL_DIG, .re = AT(weft_c128_t).re, .im = AT(weft_c128_t).im};
    case WEFT_BOOL: return (printed_element_t){.kind = BOOLEAN, .u = AT(uint8_t)};
    case WEFT_STRING: return (printed_element_t){.kind = TEXT, .text = weft_tensor_str_at(t, at)};
    default: return (printed_element_t){.kind = OTHER};
  }
}
#undef AT

/* ---- text ---- */

/* The fewest digits, up to `digits`, that are read back as `value` in `digits`' precision. Up to a million
 * billion there is no exponent, which "%g" would show as soon as a number ends with zeros. */
static void print_real(double value, int digits, weft_strbuf_t *out) {
  enum { MAX_WITHOUT_EXPONENT = 15 };
  char text[40], exact[40];
  int n = 0;
  bool is_same = false;
  snprintf(exact, sizeof exact, "%.*g", digits, value);
  while (!is_same && n++ < digits) {
    snprintf(text, sizeof text, "%.*g", n, value);
    is_same = digits == FLT_DECIMAL_DIG ? strtof(text, NULL) == (float)value
                                        : strtod(text, NULL) == strtod(exact, NULL);
  }
  int before_point = fabs(value) >= 1 && fabs(value) < 1e15 ? (int)floor(log10(fabs(value))) + 1 : 0;
  if (is_same && n < before_point && before_point <= MAX_WITHOUT_EXPONENT)
    snprintf(text, sizeof text, "%.*g", before_point, value);
  weft_strbuf_puts(out, text);
}

static void print_text(weft_str_t s, size_t max, weft_strbuf_t *out) {
  weft_strbuf_putc(out, '"');
  for (size_t i = 0; i < s.length && i < max; i++) {
    unsigned char c = (unsigned char)s.data[i];
    if (c == '"' || c == '\\') {
      weft_strbuf_printf(out, "\\%c", c);
    } else if (c == '\n') {
      weft_strbuf_puts(out, "\\n");
    } else if (c < ' ' || c == 0x7f) {
      weft_strbuf_printf(out, "\\x%02x", c);
    } else {
      weft_strbuf_putc(out, (char)c);
    }
  }
  weft_strbuf_puts(out, s.length > max ? "...\"" : "\"");
}

/* `digits` 0: as many as are needed. */
static void print_element(const printed_element_t *e, int digits, size_t max_text, weft_strbuf_t *out) {
  switch (e->kind) {
    case SIGNED: weft_strbuf_printf(out, "%" PRId64, e->i); break;
    case UNSIGNED: weft_strbuf_printf(out, "%" PRIu64, e->u); break;
    case BOOLEAN: weft_strbuf_puts(out, e->u != 0 ? "true" : "false"); break;
    case TEXT:
      if (!weft_summary_has_values(e->text)) {
        print_text(e->text, max_text, out);
      } else if (digits > 0) {
        weft_value_print_summary_short(e->text, out);
      } else {
        weft_value_print_summary(e->text, out);
      }
      break;
    case REAL:
    case COMPLEX:
      if (digits > 0) {
        weft_strbuf_printf(out, "%.*g", digits, e->re);
      } else {
        print_real(e->re, e->digits, out);
      }
      if (e->kind == REAL) break;
      if (!signbit(e->im)) weft_strbuf_putc(out, '+');
      if (digits > 0) {
        weft_strbuf_printf(out, "%.*g", digits, e->im);
      } else {
        print_real(e->im, e->digits, out);
      }
      weft_strbuf_putc(out, 'j');
      break;
    default: break;
  }
}

static bool is_shown(const weft_tensor_t *t) {
  return t->count <= MAX_SHOWN && (t->count == 0 || element_at(t, 0).kind != OTHER);
}

/* Elements from *at on, as the list of dimension `d`. */
static void print_list(const weft_tensor_t *t, int d, int64_t *at, weft_strbuf_t *out) {
  enum { MAX_TEXT = 1000 };
  if (d == t->shape.rank) {
    printed_element_t e = element_at(t, (*at)++);
    print_element(&e, 0, MAX_TEXT, out);
    return;
  }
  weft_strbuf_putc(out, '[');
  for (int64_t i = 0; i < t->shape.dims[d] && t->count > 0; i++) {
    if (i > 0) weft_strbuf_puts(out, ", ");
    print_list(t, d + 1, at, out);
  }
  weft_strbuf_putc(out, ']');
}

void weft_value_print(const weft_tensor_t *t, weft_strbuf_t *out) {
  int64_t at = 0;
  if (is_shown(t) && t->count > 0) {
    print_list(t, 0, &at, out);
  } else {
    weft_strbuf_printf(out, "%s of shape %s", weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape));
  }
}

bool weft_value_print_short(const weft_tensor_t *t, weft_strbuf_t *out) {
  enum { DIGITS = 5, MAX_TEXT = 20 };
  if (t->count != 1) return false;
  printed_element_t e = element_at(t, 0);
  if (e.kind == OTHER) return false;
  print_element(&e, DIGITS, MAX_TEXT, out);
  return true;
}

bool weft_value_number(const weft_tensor_t *t, double *out) {
  if (t->count != 1) return false;
  const printed_element_t e = element_at(t, 0);
  switch (e.kind) {
    case SIGNED: *out = (double)e.i; return true;
    case BOOLEAN:
    case UNSIGNED: *out = (double)e.u; return true;
    case REAL: *out = e.re; return true;
    default: return false;
  }
}

/* ---- JSON ---- */

static json_t *real(double value, int digits) {
  char text[40];
  if (!isfinite(value)) return json_null();
  snprintf(text, sizeof text, "%.*g", digits, value);
  return json_real(strtod(text, NULL));
}

/* Text need not be UTF-8, JSON must be. */
static json_t *text_json(weft_str_t s) {
  json_t *text = json_stringn(s.data == NULL ? "" : s.data, s.length);
  if (text != NULL) return text;
  weft_strbuf_t escaped = WEFT_STRBUF_INIT;
  for (size_t i = 0; i < s.length; i++) {
    unsigned char c = (unsigned char)s.data[i];
    weft_strbuf_printf(&escaped, c < ' ' || c >= 0x7f ? "\\x%02x" : "%c", c);
  }
  text = escaped.failed ? NULL : json_stringn(escaped.data, escaped.length);
  weft_strbuf_deinit(&escaped);
  return text;
}

static json_t *element_json(const printed_element_t *e) {
  switch (e->kind) {
    case SIGNED: return json_integer(e->i);
    case UNSIGNED: return e->u <= INT64_MAX ? json_integer((json_int_t)e->u) : json_real((double)e->u);
    case BOOLEAN: return json_boolean(e->u != 0);
    case TEXT:
      return weft_summary_has_values(e->text) ? weft_value_summary_json(e->text) : text_json(e->text);
    case REAL: return real(e->re, e->digits);
    case COMPLEX: return json_pack("[o, o]", real(e->re, e->digits), real(e->im, e->digits));
    default: return json_null();
  }
}

static json_t *list_json(const weft_tensor_t *t, int d, int64_t *at) {
  if (d == t->shape.rank) {
    printed_element_t e = element_at(t, (*at)++);
    return element_json(&e);
  }
  json_t *list = json_array();
  for (int64_t i = 0; i < t->shape.dims[d] && t->count > 0; i++)
    json_array_append_new(list, list_json(t, d + 1, at));
  return list;
}

json_t *weft_value_json(const weft_tensor_t *t) {
  int64_t at = 0;
  if (is_shown(t)) return list_json(t, 0, &at);
  json_t *shape = json_array();
  for (int i = 0; i < t->shape.rank; i++) json_array_append_new(shape, json_integer(t->shape.dims[i]));
  return json_pack("{s:s, s:o}", "dtype", weft_dtype_name(t->dtype), "shape", shape);
}
