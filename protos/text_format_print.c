/* protos/text_format_print.c - a message as text, by its descriptor.
 *
 * What is present follows protobuf-c's representation: plain proto3 fields are
 * present when not zero, members of a oneof when the case says so, proto2's
 * optional fields when has_x is set or the pointer is not NULL.
 */
#include "protos/text_format.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "protos/any.pb-c.h"
#include "protos/text_any.h"
#include "protos/unpack.h"

typedef struct printer {
  weft_strbuf_t *out; /* borrowed */
  int level;
} printer_t;

static weft_status_t *print_message(printer_t *p, const ProtobufCMessage *m, bool is_map_entry);

static const void *at(const ProtobufCMessage *m, unsigned offset) { return (const char *)m + offset; }

static void indent(const printer_t *p) {
  for (int i = 0; i < p->level; i++) weft_strbuf_puts(p->out, "  ");
}

/* ---- scalars ---- */

/* Digits and exponent of `value` with the least precision from `first` to `last` that reads back the same. */
static void shortest(double value, int first, int last, bool is_float, char digits[32], int *exponent) {
  char text[40];
  for (int precision = first; precision <= last; precision++) {
    snprintf(text, sizeof text, "%.*e", precision - 1, value);
    double back = strtod(text, NULL);
    if (is_float ? (float)back == (float)value : back == value) break;
  }
  int n = 0;
  const char *p = text;
  for (; *p != 'e'; p++) {
    if (*p >= '0' && *p <= '9') digits[n++] = *p;
  }
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = '\0';
  *exponent = (int)strtol(p + 1, NULL, 10);
}

/* As Python's repr(): plain from 1e-4 up to 1e16, with an exponent outside of it, always with '.' or 'e'. */
static void print_number(weft_strbuf_t *out, double value, bool is_float) {
  char digits[32];
  int exponent;
  if (isnan(value)) {
    weft_strbuf_puts(out, "nan");
    return;
  }
  if (signbit(value)) weft_strbuf_putc(out, '-');
  if (isinf(value)) {
    weft_strbuf_puts(out, "inf");
    return;
  }
  shortest(fabs(value), is_float ? 6 : 15, is_float ? 9 : 17, is_float, digits, &exponent);
  int n = (int)strlen(digits);
  if (exponent < -4 || exponent >= 16) {
    weft_strbuf_printf(out, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                       exponent < 0 ? '-' : '+', abs(exponent));
  } else if (exponent < 0) {
    weft_strbuf_printf(out, "0.%.*s%s", -exponent - 1, "0000", digits);
  } else if (n <= exponent + 1) {
    weft_strbuf_printf(out, "%s%.*s.0", digits, exponent + 1 - n, "0000000000000000");
  } else {
    weft_strbuf_printf(out, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
  }
}

static void print_quoted(weft_strbuf_t *out, weft_str_t s) {
  weft_strbuf_putc(out, '"');
  weft_strbuf_put_escaped(out, s);
  weft_strbuf_putc(out, '"');
}

static weft_str_t bytes_of(const ProtobufCFieldDescriptor *f, const void *value) {
  if (f->type == PROTOBUF_C_TYPE_STRING) return weft_str(*(const char *const *)value);
  const ProtobufCBinaryData *b = value;
  return weft_str_of((const char *)b->data, b->len);
}

static void print_enum(weft_strbuf_t *out, const ProtobufCEnumDescriptor *e, int value) {
  const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(e, value);
  if (v != NULL) {
    weft_strbuf_puts(out, v->name);
  } else {
    weft_strbuf_printf(out, "%d", value);
  }
}

static void print_scalar(weft_strbuf_t *out, const ProtobufCFieldDescriptor *f, const void *value) {
  switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: weft_strbuf_printf(out, "%ld", (long)*(const int32_t *)value); break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
      weft_strbuf_printf(out, "%lu", (unsigned long)*(const uint32_t *)value);
      break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: weft_strbuf_printf(out, "%lld", (long long)*(const int64_t *)value); break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
      weft_strbuf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)value);
      break;
    case PROTOBUF_C_TYPE_FLOAT: print_number(out, (double)*(const float *)value, true); break;
    case PROTOBUF_C_TYPE_DOUBLE: print_number(out, *(const double *)value, false); break;
    case PROTOBUF_C_TYPE_BOOL:
      weft_strbuf_puts(out, *(const protobuf_c_boolean *)value != 0 ? "true" : "false");
      break;
    case PROTOBUF_C_TYPE_ENUM: print_enum(out, f->descriptor, *(const int *)value); break;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES: print_quoted(out, bytes_of(f, value)); break;
    case PROTOBUF_C_TYPE_MESSAGE: break; /* not a scalar */
  }
}

static size_t size_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
  }
}

static bool is_zero(const ProtobufCFieldDescriptor *f, const void *value) {
  static const char zeros[8];
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) return *(const ProtobufCMessage *const *)value == NULL;
  if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES)
    return bytes_of(f, value).length == 0;
  return memcmp(value, zeros, size_of(f->type)) == 0;
}

static bool is_present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
  const void *value = at(m, f->offset);
  if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
    return *(const uint32_t *)at(m, f->quantifier_offset) == f->id;
  if (f->label == PROTOBUF_C_LABEL_NONE) return !is_zero(f, value);
  if (f->label == PROTOBUF_C_LABEL_REQUIRED) return true;
  if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING) {
    const void *pointer = *(const void *const *)value;
    return pointer != NULL && pointer != f->default_value;
  }
  return *(const protobuf_c_boolean *)at(m, f->quantifier_offset) != 0;
}

/* ---- fields ---- */

static weft_status_t *print_braces(printer_t *p, const ProtobufCMessage *m, bool is_map_entry) {
  weft_status_t *s = NULL;
  weft_strbuf_puts(p->out, " {\n");
  p->level++;
  if (m != NULL) s = print_message(p, m, is_map_entry);
  p->level--;
  indent(p);
  weft_strbuf_puts(p->out, "}\n");
  return s;
}

static weft_status_t *print_field(printer_t *p, const ProtobufCFieldDescriptor *f, const void *value,
                                  bool is_map_entry) {
  indent(p);
  weft_strbuf_puts(p->out, f->name);
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
    return print_braces(p, *(const ProtobufCMessage *const *)value, is_map_entry);
  }
  weft_strbuf_puts(p->out, ": ");
  print_scalar(p->out, f, value);
  weft_strbuf_putc(p->out, '\n');
  return NULL;
}

typedef struct map_item {
  const ProtobufCMessage *entry; /* borrowed */
  size_t order;                  /* as in the message: the last of equal keys counts */
} map_item_t;

static int compare_keys(const ProtobufCMessage *a, const ProtobufCMessage *b) {
  const ProtobufCFieldDescriptor *key = &a->descriptor->fields[0];
  const void *x = at(a, key->offset), *y = at(b, key->offset);
  switch (key->type) {
    case PROTOBUF_C_TYPE_STRING: return weft_str_compare(bytes_of(key, x), bytes_of(key, y));
    case PROTOBUF_C_TYPE_BOOL: return *(const protobuf_c_boolean *)x - *(const protobuf_c_boolean *)y;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: {
      uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
      return (i > j) - (i < j);
    }
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: {
      uint64_t i = *(const uint64_t *)x, j = *(const uint64_t *)y;
      return (i > j) - (i < j);
    }
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: {
      int64_t i = *(const int64_t *)x, j = *(const int64_t *)y;
      return (i > j) - (i < j);
    }
    default: {
      int32_t i = *(const int32_t *)x, j = *(const int32_t *)y;
      return (i > j) - (i < j);
    }
  }
}

static int compare_items(const void *a, const void *b) {
  const map_item_t *x = a, *y = b;
  int c = compare_keys(x->entry, y->entry);
  return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static weft_status_t *print_map(printer_t *p, const ProtobufCFieldDescriptor *f,
                                const ProtobufCMessage *const *entries, size_t n) {
  weft_status_t *s = NULL;
  map_item_t *items = weft_calloc(n, sizeof *items);
  if (items == NULL) return WEFT_NO_MEMORY("sorting the map '%s'", f->name);
  for (size_t i = 0; i < n; i++) items[i] = (map_item_t){entries[i], i};
  qsort(items, n, sizeof *items, compare_items);
  for (size_t i = 0; i < n && s == NULL; i++) {
    if (i + 1 < n && compare_keys(items[i].entry, items[i + 1].entry) == 0) continue;
    s = print_field(p, f, &items[i].entry, true);
  }
  weft_free(items);
  return s;
}

static weft_status_t *print_repeated(printer_t *p, const ProtobufCFieldDescriptor *f,
                                     const ProtobufCMessage *m) {
  size_t n = *(const size_t *)at(m, f->quantifier_offset), size = size_of(f->type);
  const char *values = *(const char *const *)at(m, f->offset);
  if (n == 0) return NULL;
  if (weft_proto_is_map_field(f))
    return print_map(p, f, *(const ProtobufCMessage *const *const *)at(m, f->offset), n);
  for (size_t i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(print_field(p, f, values + i * size, false));
  return NULL;
}

/* An Any whose type we know is shown as that message. *done is false if it cannot be. */
static weft_status_t *print_any(printer_t *p, const ProtobufCMessage *m, bool *done) {
  const Google__Protobuf__Any *any = (const Google__Protobuf__Any *)m;
  weft_str_t url = weft_str(any->type_url);
  const ProtobufCMessageDescriptor *d = weft_text_any_type(url);
  ProtobufCMessage *inner = NULL;
  *done = false;
  if (d == NULL) return NULL;
  weft_status_t *s = weft_proto_unpack(d, weft_str_of((const char *)any->value.data, any->value.len), &inner);
  if (weft_status_code(s) == WEFT_INVALID_ARGUMENT) { /* then it is shown as the bytes that it is */
    weft_status_free(s);
    return NULL;
  }
  if (s != NULL) return s;
  indent(p);
  weft_strbuf_printf(p->out, "[%s]", any->type_url);
  s = print_braces(p, inner, false);
  weft_proto_free(inner);
  *done = true;
  return s;
}

static weft_status_t *print_message(printer_t *p, const ProtobufCMessage *m, bool is_map_entry) {
  const ProtobufCMessageDescriptor *d = m->descriptor;
  if (weft_text_is_any(d)) {
    bool done;
    WEFT_RETURN_IF_ERROR(print_any(p, m, &done));
    if (done) return NULL;
  }
  for (unsigned i = 0; i < d->n_fields && !p->out->failed; i++) {
    const ProtobufCFieldDescriptor *f = &d->fields[i];
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
      WEFT_RETURN_IF_ERROR(print_repeated(p, f, m));
    } else if (is_present(m, f) || (is_map_entry && f->type == PROTOBUF_C_TYPE_MESSAGE)) {
      WEFT_RETURN_IF_ERROR(print_field(p, f, at(m, f->offset), false));
    }
  }
  return NULL;
}

weft_status_t *weft_text_print(const ProtobufCMessage *m, weft_strbuf_t *out) {
  printer_t p = {.out = out};
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers with '.', whatever the program set */
  locale_t before = c == (locale_t)0 ? (locale_t)0 : uselocale(c);
  weft_status_t *s = print_message(&p, m, false);
  if (s == NULL && out->failed) s = WEFT_NO_MEMORY("printing a %s", m->descriptor->name);
  if (c != (locale_t)0) {
    uselocale(before);
    freelocale(c);
  }
  return s;
}

weft_status_t *weft_text_from_binary(const ProtobufCMessageDescriptor *d, weft_str_t bytes,
                                     weft_strbuf_t *out) {
  ProtobufCMessage *m = NULL;
  weft_status_t *s = weft_proto_unpack(d, bytes, &m);
  if (s == NULL) s = weft_text_print(m, out);
  weft_proto_free(m);
  return s;
}
