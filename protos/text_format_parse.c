/* protos/text_format_parse.c - text to wire bytes, in one pass.
 *
 * No message is built: each field is written to the wire as it is read, and a
 * nested message's length is put in front when it ends. Scalars of a repeated
 * field that stand together go into one packed list, which stays open until
 * another field comes.
 */
#include "protos/text_format.h"

#include <locale.h>
#include <stdlib.h>

#include "protos/text_any.h"
#include "protos/text_token.h"
#include "protos/unpack.h"
#include "protos/wire.h"

enum { MAX_FIELDS = 256, MAX_NAME = 128, ANY_TYPE_URL = 1, ANY_VALUE = 2 };

typedef struct parser {
  weft_lexer_t x;
  weft_strbuf_t *out; /* borrowed */
  int depth;
} parser_t;

/* What one message has seen so far. */
typedef struct text_scope {
  const ProtobufCMessageDescriptor *d;
  bool is_map_entry;
  uint64_t seen[MAX_FIELDS / 64];
  const ProtobufCFieldDescriptor *packed; /* the list that is open, or NULL */
  size_t packed_mark;
} text_scope_t;

#define CHECK(expr) WEFT_RETURN_IF_ERROR(expr) /* nothing here owns anything */

static weft_status_t *expect(parser_t *p, char symbol) {
  char what[] = {'"', symbol, '"', '\0'};
  if (!weft_lexer_at(&p->x, symbol)) return weft_lexer_expected(&p->x, what);
  return weft_lexer_next(&p->x);
}

static weft_status_t *skip_one(parser_t *p, char symbol, bool *skipped) {
  *skipped = weft_lexer_at(&p->x, symbol);
  return *skipped ? weft_lexer_next(&p->x) : NULL;
}

/* ---- scalars ---- */

/* A token's text as a C string, cut to fit: names longer than MAX_NAME match nothing anyway. */
static const char *c_text(weft_str_t text, char buffer[MAX_NAME]) {
  size_t n = text.length < MAX_NAME ? text.length : MAX_NAME - 1;
  memcpy(buffer, text.data, n);
  buffer[n] = '\0';
  return buffer;
}

static bool is_word(weft_str_t text, const char *word) { /* without regard to case */
  size_t n = strlen(word);
  if (text.length != n) return false;
  for (size_t i = 0; i < n; i++) {
    if ((text.data[i] | 0x20) != word[i]) return false;
  }
  return true;
}

static weft_status_t *read_sign(parser_t *p, bool *negative) { return skip_one(p, '-', negative); }

/* Reads up to `max`, or down to -(max_negative). */
static weft_status_t *read_integer(parser_t *p, uint64_t max, uint64_t max_negative, uint64_t *out) {
  bool negative;
  if (max_negative > 0) {
    CHECK(read_sign(p, &negative));
  } else {
    negative = false;
  }
  if (p->x.kind != WEFT_TOKEN_INTEGER) return weft_lexer_expected(&p->x, "an integer");
  CHECK(weft_lexer_integer(&p->x, negative ? max_negative : max, out));
  if (negative) *out = 0 - *out;
  return weft_lexer_next(&p->x);
}

static weft_status_t *read_number(parser_t *p, double *out) {
  bool negative;
  CHECK(read_sign(p, &negative));
  weft_str_t t = p->x.text;
  if (p->x.kind == WEFT_TOKEN_INTEGER || p->x.kind == WEFT_TOKEN_FLOAT) {
    char buffer[512];
    bool leading_zero = p->x.kind == WEFT_TOKEN_INTEGER && t.length > 1 && t.data[0] == '0';
    if (leading_zero) return weft_lexer_expected(&p->x, "a decimal number");
    if (t.length >= sizeof buffer) return weft_lexer_expected(&p->x, "a shorter number");
    memcpy(buffer, t.data, t.length);
    buffer[t.length] = '\0';
    *out = strtod(buffer, NULL); /* stops before a suffix f */
  } else if (p->x.kind == WEFT_TOKEN_NAME &&
             (is_word(t, "inf") || is_word(t, "infinity") || is_word(t, "inff"))) {
    *out = __builtin_inf();
  } else if (p->x.kind == WEFT_TOKEN_NAME && (is_word(t, "nan") || is_word(t, "nanf"))) {
    *out = __builtin_nan("");
  } else {
    return weft_lexer_expected(&p->x, "a number");
  }
  if (negative) *out = -*out;
  return weft_lexer_next(&p->x);
}

static weft_status_t *read_bool(parser_t *p, uint64_t *out) {
  weft_str_t t = p->x.text;
  if (p->x.kind == WEFT_TOKEN_INTEGER) return read_integer(p, 1, 0, out);
  if (p->x.kind != WEFT_TOKEN_NAME) return weft_lexer_expected(&p->x, "\"true\" or \"false\"");
  if (weft_str_is(t, "true") || weft_str_is(t, "True") || weft_str_is(t, "t")) {
    *out = 1;
  } else if (weft_str_is(t, "false") || weft_str_is(t, "False") || weft_str_is(t, "f")) {
    *out = 0;
  } else {
    return weft_lexer_expected(&p->x, "\"true\" or \"false\"");
  }
  return weft_lexer_next(&p->x);
}

static bool enum_takes(const ProtobufCEnumDescriptor *e, uint64_t number) {
  bool found = e->reserved1 == NULL;
  for (unsigned i = 0; i < e->n_values && !found; i++) found = e->values[i].value == (int32_t)number;
  return found;
}

static weft_status_t *read_enum(parser_t *p, const ProtobufCFieldDescriptor *f, uint64_t *out) {
  const ProtobufCEnumDescriptor *e = f->descriptor;
  char name[MAX_NAME];
  if (p->x.kind != WEFT_TOKEN_NAME) {
    if (p->x.kind != WEFT_TOKEN_INTEGER && !weft_lexer_at(&p->x, '-')) {
      return weft_lexer_expected(&p->x, "an enum's name or number");
    }
    WEFT_RETURN_IF_ERROR(read_integer(p, INT32_MAX, (uint64_t)INT32_MAX + 1, out));
    if (enum_takes(e, *out)) return NULL;
    return weft_lexer_error(&p->x, "Unknown enumeration value of \"%d\" for field \"%s\" of type %s.",
                            (int)(int32_t)*out, f->name, e->name);
  }
  const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(e, c_text(p->x.text, name));
  if (v == NULL) {
    return weft_lexer_error(&p->x, "Unknown enumeration value of \"%s\" for field \"%s\" of type %s.", name,
                            f->name, e->name);
  }
  *out = (uint64_t)(int64_t)v->value;
  return weft_lexer_next(&p->x);
}

/* The bits of one number as they travel. */
static weft_status_t *read_scalar(parser_t *p, const ProtobufCFieldDescriptor *f, uint64_t *out) {
  double number = 0;
  switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SFIXED32: return read_integer(p, INT32_MAX, (uint64_t)INT32_MAX + 1, out);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return read_integer(p, UINT32_MAX, 0, out);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64: return read_integer(p, INT64_MAX, (uint64_t)INT64_MAX + 1, out);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return read_integer(p, UINT64_MAX, 0, out);
    case PROTOBUF_C_TYPE_SINT32:
      CHECK(read_integer(p, INT32_MAX, (uint64_t)INT32_MAX + 1, out));
      *out = (uint32_t)(*out << 1) ^ (0 - ((uint32_t)*out >> 31));
      *out = (uint32_t)*out;
      return NULL;
    case PROTOBUF_C_TYPE_SINT64:
      CHECK(read_integer(p, INT64_MAX, (uint64_t)INT64_MAX + 1, out));
      *out = (*out << 1) ^ (0 - (*out >> 63));
      return NULL;
    case PROTOBUF_C_TYPE_BOOL: return read_bool(p, out);
    case PROTOBUF_C_TYPE_ENUM: return read_enum(p, f, out);
    case PROTOBUF_C_TYPE_FLOAT:
      CHECK(read_number(p, &number));
      *out = weft_wire_float_bits((float)number);
      return NULL;
    case PROTOBUF_C_TYPE_DOUBLE:
      CHECK(read_number(p, &number));
      *out = weft_wire_double_bits(number);
      return NULL;
    default: return WEFT_ERROR(INTERNAL, "field '%s' is not a number", f->name);
  }
}

static uint32_t wire_type(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WEFT_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WEFT_WIRE_FIXED64;
    default: return WEFT_WIRE_VARINT;
  }
}

/* ---- fields ---- */

static void close_packed(parser_t *p, text_scope_t *scope) {
  if (scope->packed != NULL) weft_wire_end(p->out, scope->packed_mark);
  scope->packed = NULL;
}

/* proto3 leaves out zeros, but where presence counts they are written. */
static bool keeps_zero(const text_scope_t *scope, const ProtobufCFieldDescriptor *f) {
  return f->label != PROTOBUF_C_LABEL_NONE || (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 ||
         scope->is_map_entry;
}

static weft_status_t *parse_scalar(parser_t *p, text_scope_t *scope, const ProtobufCFieldDescriptor *f) {
  uint64_t value = 0;
  uint32_t type = wire_type(f->type);
  CHECK(read_scalar(p, f, &value));
  if ((f->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0) {
    if (scope->packed != f) {
      close_packed(p, scope);
      scope->packed_mark = weft_wire_begin(p->out, f->id);
      scope->packed = f;
    }
    uint8_t *to = weft_wire_room(p->out, WEFT_WIRE_MAX_VARINT);
    if (to == NULL) return NULL; /* weft_text_to_binary() looks at the builder */
    weft_wire_advance(p->out, type == WEFT_WIRE_FIXED32   ? weft_wire_store32(to, (uint32_t)value)
                              : type == WEFT_WIRE_FIXED64 ? weft_wire_store64(to, value)
                                                          : weft_wire_store_varint(to, value));
    return NULL;
  }
  close_packed(p, scope);
  if (value == 0 && !keeps_zero(scope, f)) return NULL;
  if (type == WEFT_WIRE_FIXED32) {
    weft_wire_add_fixed32(p->out, f->id, (uint32_t)value);
  } else if (type == WEFT_WIRE_FIXED64) {
    weft_wire_add_fixed64(p->out, f->id, value);
  } else {
    weft_wire_add_varint(p->out, f->id, value);
  }
  return NULL;
}

static weft_status_t *parse_string(parser_t *p, const text_scope_t *scope,
                                   const ProtobufCFieldDescriptor *f) {
  if (p->x.kind != WEFT_TOKEN_STRING) return weft_lexer_expected(&p->x, "a string");
  weft_lexer_t first = p->x;
  size_t before = p->out->length, mark = weft_wire_begin(p->out, f->id);
  do {
    CHECK(weft_lexer_unescape(&p->x, p->out));
    CHECK(weft_lexer_next(&p->x));
  } while (p->x.kind == WEFT_TOKEN_STRING);
  if (p->out->failed) return NULL;
  weft_str_t text = weft_str_of(p->out->data + mark, p->out->length - mark);
  if (f->type == PROTOBUF_C_TYPE_STRING && !weft_wire_is_utf8(text)) {
    return weft_lexer_error(&first, "Field \"%s\" contains invalid UTF-8.", f->name);
  }
  if (text.length == 0 && !keeps_zero(scope, f)) {
    p->out->length = before; /* as if it had not been there */
  } else {
    weft_wire_end(p->out, mark);
  }
  return NULL;
}

static weft_status_t *parse_fields(parser_t *p, const ProtobufCMessageDescriptor *d, bool is_map_entry,
                                   char closing);

/* { ... } or < ... >, already inside the field's length. */
static weft_status_t *parse_braces(parser_t *p, const ProtobufCMessageDescriptor *d, bool is_map_entry) {
  char closing = weft_lexer_at(&p->x, '<') ? '>' : '}';
  if (closing == '}' && !weft_lexer_at(&p->x, '{')) return weft_lexer_expected(&p->x, "\"{\"");
  if (++p->depth > WEFT_PROTO_MAX_DEPTH) {
    return weft_lexer_error(&p->x, "Message is too deep, the parser exceeded the nesting limit of %d.",
                            WEFT_PROTO_MAX_DEPTH);
  }
  CHECK(weft_lexer_next(&p->x));
  CHECK(parse_fields(p, d, is_map_entry, closing));
  CHECK(weft_lexer_next(&p->x));
  p->depth--;
  return NULL;
}

static weft_status_t *parse_message(parser_t *p, const ProtobufCFieldDescriptor *f) {
  size_t mark = weft_wire_begin(p->out, f->id);
  CHECK(parse_braces(p, f->descriptor, weft_proto_is_map_field(f)));
  weft_wire_end(p->out, mark);
  return NULL;
}

static weft_status_t *parse_value(parser_t *p, text_scope_t *scope, const ProtobufCFieldDescriptor *f) {
  if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING ||
      f->type == PROTOBUF_C_TYPE_BYTES) {
    close_packed(p, scope);
    return f->type == PROTOBUF_C_TYPE_MESSAGE ? parse_message(p, f) : parse_string(p, scope, f);
  }
  return parse_scalar(p, scope, f);
}

static weft_status_t *parse_list(parser_t *p, text_scope_t *scope, const ProtobufCFieldDescriptor *f) {
  bool more;
  CHECK(expect(p, '['));
  CHECK(skip_one(p, ']', &more));
  if (more) return NULL; /* empty */
  do {
    CHECK(parse_value(p, scope, f));
    CHECK(skip_one(p, ',', &more));
  } while (more);
  return expect(p, ']');
}

/* A singular field may come once, and only one of a oneof. */
static weft_status_t *note_seen(parser_t *p, text_scope_t *scope, const ProtobufCFieldDescriptor *f) {
  size_t index = (size_t)(f - scope->d->fields);
  if (f->label == PROTOBUF_C_LABEL_REPEATED) return NULL;
  if (scope->seen[index / 64] >> (index % 64) & 1) {
    return weft_lexer_error(&p->x, "Non-repeated field \"%s\" is specified multiple times.", f->name);
  }
  for (unsigned i = 0; (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && i < scope->d->n_fields; i++) {
    const ProtobufCFieldDescriptor *other = &scope->d->fields[i];
    bool same_oneof =
        (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && other->quantifier_offset == f->quantifier_offset;
    if (same_oneof && (scope->seen[i / 64] >> (i % 64) & 1) != 0) {
      return weft_lexer_error(
          &p->x, "Field \"%s\" is specified along with field \"%s\", another member of the same oneof.",
          f->name, other->name);
    }
  }
  scope->seen[index / 64] |= (uint64_t)1 << (index % 64);
  return NULL;
}

/* [type.googleapis.com/some.Message] { ... } inside of an Any: its URL, and the message as bytes. */
static weft_status_t *parse_any(parser_t *p) {
  char url[2 * MAX_NAME];
  size_t n = 0;
  weft_lexer_t first = p->x;
  bool colon;
  CHECK(expect(p, '['));
  while (p->x.kind != WEFT_TOKEN_END && !weft_lexer_at(&p->x, ']')) {
    bool fits = p->x.kind != WEFT_TOKEN_STRING && n + p->x.text.length < sizeof url;
    if (!fits) return weft_lexer_expected(&p->x, "\"]\"");
    memcpy(url + n, p->x.text.data, p->x.text.length);
    n += p->x.text.length;
    CHECK(weft_lexer_next(&p->x));
  }
  CHECK(expect(p, ']'));
  CHECK(skip_one(p, ':', &colon));
  const ProtobufCMessageDescriptor *d = weft_text_any_type(weft_str_of(url, n));
  if (d == NULL)
    return weft_lexer_error(&first, "Unknown type \"%.*s\" in google.protobuf.Any.", (int)n, url);
  weft_wire_add_bytes(p->out, ANY_TYPE_URL, weft_str_of(url, n));
  size_t mark = weft_wire_begin(p->out, ANY_VALUE);
  CHECK(parse_braces(p, d, false));
  weft_wire_end(p->out, mark);
  return NULL;
}

static weft_status_t *parse_field(parser_t *p, text_scope_t *scope) {
  char name[MAX_NAME];
  bool colon;
  if (weft_lexer_at(&p->x, '[') && weft_text_is_any(scope->d)) return parse_any(p);
  if (p->x.kind != WEFT_TOKEN_NAME) return weft_lexer_expected(&p->x, "a field name");
  const ProtobufCFieldDescriptor *f = NULL;
  if (p->x.text.length < MAX_NAME) {
    f = protobuf_c_message_descriptor_get_field_by_name(scope->d, c_text(p->x.text, name));
  }
  if (f == NULL) {
    return weft_lexer_error(&p->x, "Message type \"%s\" has no field named \"%s\".", scope->d->name,
                            c_text(p->x.text, name));
  }
  CHECK(note_seen(p, scope, f));
  CHECK(weft_lexer_next(&p->x));
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
    CHECK(skip_one(p, ':', &colon)); /* may be left out */
  } else {
    CHECK(expect(p, ':'));
  }
  if (f->label == PROTOBUF_C_LABEL_REPEATED && weft_lexer_at(&p->x, '[')) return parse_list(p, scope, f);
  return parse_value(p, scope, f);
}

/* Fields up to `closing` ('\0': the end of the text), which stays the current token. */
static weft_status_t *parse_fields(parser_t *p, const ProtobufCMessageDescriptor *d, bool is_map_entry,
                                   char closing) {
  text_scope_t scope = {.d = d, .is_map_entry = is_map_entry};
  bool separator;
  if (d->n_fields > MAX_FIELDS) return WEFT_ERROR(INTERNAL, "message %s has too many fields", d->name);
  while (closing == '\0' ? p->x.kind != WEFT_TOKEN_END : !weft_lexer_at(&p->x, closing)) {
    CHECK(parse_field(p, &scope));
    if (p->out->failed) break;
    CHECK(skip_one(p, ';', &separator));
    if (!separator) CHECK(skip_one(p, ',', &separator));
  }
  close_packed(p, &scope);
  return NULL;
}

weft_status_t *weft_text_to_binary(const ProtobufCMessageDescriptor *d, weft_str_t text,
                                   const char *file_name, weft_strbuf_t *out) {
  parser_t p = {.out = out};
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* strtod must see '.', whatever the program set */
  locale_t before = c == (locale_t)0 ? (locale_t)0 : uselocale(c);
  weft_status_t *s = weft_lexer_init(&p.x, text, file_name);
  if (s == NULL) s = parse_fields(&p, d, false, '\0');
  if (s == NULL && out->failed) s = WEFT_NO_MEMORY("reading %s", p.x.file_name);
  if (c != (locale_t)0) {
    uselocale(before);
    freelocale(c);
  }
  return s;
}

weft_status_t *weft_text_parse(const ProtobufCMessageDescriptor *d, weft_str_t text, const char *file_name,
                               ProtobufCMessage **out) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_to_binary(d, text, file_name, &bytes);
  if (s == NULL) s = weft_proto_unpack(d, weft_str_of(bytes.data, bytes.length), out);
  weft_strbuf_deinit(&bytes);
  return s;
}
