/* kernels/cpu/parsing/proto_message.c - see the header. */
#include "kernels/cpu/parsing/proto_message.h"

#include "base/alloc.h"
#include "protos/wire.h"

enum { MAX_DEPTH = 100 }; /* protobuf's recursion limit */

static weft_status_t *not_a_message(void) { return WEFT_ERROR(DATA_LOSS, "Unable to parse binary protobuf"); }

/* ---- a field as it came ---- */

static void put_raw(uint32_t number, const weft_wire_field_t *f, weft_strbuf_t *out) {
  switch (weft_wire_type(f)) {
    case WEFT_WIRE_VARINT: weft_wire_add_varint(out, number, f->value); break;
    case WEFT_WIRE_FIXED32: weft_wire_add_fixed32(out, number, (uint32_t)f->value); break;
    case WEFT_WIRE_FIXED64: weft_wire_add_fixed64(out, number, f->value); break;
    case WEFT_WIRE_BYTES: weft_wire_add_bytes(out, number, f->bytes); break;
    default:
      weft_wire_add_raw_varint(out, WEFT_WIRE_TAG(number, WEFT_WIRE_GROUP));
      weft_strbuf_append(out, f->bytes);
      weft_wire_add_raw_varint(out, WEFT_WIRE_TAG(number, WEFT_WIRE_END_GROUP));
  }
}

static bool is_text(weft_descriptor_type_t type) {
  return type == WEFT_FIELD_STRING || type == WEFT_FIELD_BYTES || type == WEFT_FIELD_MESSAGE ||
         type == WEFT_FIELD_GROUP;
}

/* Does the wire type carry values of the field? */
static bool carries(const weft_descriptor_field_t *field, const weft_wire_field_t *f) {
  uint32_t type = weft_wire_type(f);
  return type == weft_descriptor_wire_type(field->type) ||
         (field->is_repeated && !is_text(field->type) && type == WEFT_WIRE_BYTES);
}

static const weft_descriptor_field_t *find(const weft_descriptor_field_t *fields, int n, uint32_t number) {
  for (int i = 0; i < n; i++) {
    if (fields[i].number == number) return &fields[i];
  }
  return NULL;
}

/* ---- one field ---- */

typedef struct writer {
  const weft_descriptor_t *m;
  const weft_descriptor_field_t *fields; /* all of the message */
  int num_fields;
  weft_str_t bytes;
  int depth;
  weft_strbuf_t *out;
} writer_t;

static weft_status_t *normalize(const weft_descriptor_t *m, weft_str_t bytes, int depth, weft_strbuf_t *out);

/* Puts the next value of `field` into *f; other members of its oneof in front of it make *is_new true. */
static bool next_of(const writer_t *w, weft_wire_reader_t *r, const weft_descriptor_field_t *field,
                    weft_wire_field_t *f, bool *is_new) {
  while (weft_wire_next(r, f)) {
    const weft_descriptor_field_t *other = find(w->fields, w->num_fields, weft_wire_number(f));
    if (other == NULL || !carries(other, f)) continue;
    if (other == field) return true;
    if (field->oneof >= 0 && other->oneof == field->oneof) *is_new = true;
  }
  return false;
}

static weft_status_t *put_message(const writer_t *w, const weft_descriptor_field_t *field, weft_str_t bytes) {
  weft_descriptor_t of;
  weft_strbuf_t inner = WEFT_STRBUF_INIT;
  weft_wire_field_t f = {.bytes = bytes};
  if (!weft_descriptor_find(w->m->set, field->type_name, &of)) return not_a_message();
  weft_status_t *s = normalize(&of, bytes, w->depth + 1, &inner);
  if (s == NULL) {
    f.bytes = weft_str_of(inner.data, inner.length);
    f.tag = WEFT_WIRE_TAG(field->number, weft_descriptor_wire_type(field->type));
    put_raw(field->number, &f, w->out);
  }
  weft_strbuf_deinit(&inner);
  return s;
}

static weft_status_t *put_one(const writer_t *w, const weft_descriptor_field_t *field,
                              const weft_wire_field_t *f) {
  if (field->type == WEFT_FIELD_MESSAGE || field->type == WEFT_FIELD_GROUP)
    return put_message(w, field, f->bytes);
  if (field->type == WEFT_FIELD_STRING && w->m->is_proto3 && !weft_wire_is_utf8(f->bytes))
    return not_a_message();
  put_raw(field->number, f, w->out);
  return NULL;
}

/* The last value, or all messages merged, which is one behind the other. */
static weft_status_t *put_single(const writer_t *w, const weft_descriptor_field_t *field) {
  weft_wire_reader_t r = weft_wire_reader(w->bytes);
  weft_wire_field_t f, last = {0};
  weft_strbuf_t merged = WEFT_STRBUF_INIT;
  bool is_there = false, is_gone = false;
  while (next_of(w, &r, field, &f, &is_gone)) {
    if (is_gone) merged.length = 0;
    is_gone = false;
    is_there = true;
    last = f;
    if (field->type == WEFT_FIELD_MESSAGE || field->type == WEFT_FIELD_GROUP)
      weft_strbuf_append(&merged, f.bytes);
  }
  weft_status_t *s = NULL;
  bool is_message = field->type == WEFT_FIELD_MESSAGE || field->type == WEFT_FIELD_GROUP;
  bool is_zero = is_text(field->type) ? last.bytes.length == 0 : last.value == 0;
  bool is_implied = w->m->is_proto3 && !field->has_presence && !is_message && is_zero;
  if (is_message) last.bytes = weft_str_of(merged.data, merged.length);
  if (!is_there && field->is_required) {
    s = WEFT_ERROR(DATA_LOSS, "the message lacks its required field %.*s", WEFT_STR_ARGS(field->name));
  } else if (is_there && !is_gone && !is_implied) {
    s = merged.failed ? WEFT_NO_MEMORY("a message") : put_one(w, field, &last);
  }
  weft_strbuf_deinit(&merged);
  return s;
}

static void put_number(const writer_t *w, uint32_t number, uint32_t type, uint64_t v, bool is_packed) {
  weft_wire_field_t f = {.tag = WEFT_WIRE_TAG(number, type), .value = v};
  uint8_t *to;
  if (!is_packed) {
    put_raw(number, &f, w->out);
  } else if ((to = weft_wire_room(w->out, WEFT_WIRE_MAX_VARINT)) != NULL) {
    weft_wire_advance(w->out, type == WEFT_WIRE_VARINT    ? weft_wire_store_varint(to, v)
                              : type == WEFT_WIRE_FIXED32 ? weft_wire_store32(to, (uint32_t)v)
                                                          : weft_wire_store64(to, v));
  }
}

static weft_status_t *put_repeated(const writer_t *w, const weft_descriptor_field_t *field) {
  weft_wire_reader_t r = weft_wire_reader(w->bytes);
  weft_wire_field_t f;
  bool is_packed = field->is_packed || (w->m->is_proto3 && !field->is_unpacked), is_gone = false;
  uint32_t type = weft_descriptor_wire_type(field->type);
  size_t mark = 0;
  int64_t n = 0;
  while (next_of(w, &r, field, &f, &is_gone)) {
    uint64_t v;
    if (is_text(field->type)) {
      WEFT_RETURN_IF_ERROR(put_one(w, field, &f));
      continue;
    }
    weft_wire_values_t values = weft_wire_values(&f, type);
    while (weft_wire_next_value(&values, &v)) {
      if (n++ == 0 && is_packed) mark = weft_wire_begin(w->out, field->number);
      put_number(w, field->number, type, v, is_packed);
    }
    if (values.failed) return not_a_message();
  }
  if (n > 0 && is_packed) weft_wire_end(w->out, mark);
  return NULL;
}

/* ---- a message ---- */

static void put_unknown(const writer_t *w) {
  weft_wire_reader_t r = weft_wire_reader(w->bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    const weft_descriptor_field_t *field = find(w->fields, w->num_fields, weft_wire_number(&f));
    if (field == NULL || !carries(field, &f)) put_raw(weft_wire_number(&f), &f, w->out);
  }
}

static weft_status_t *normalize(const weft_descriptor_t *m, weft_str_t bytes, int depth, weft_strbuf_t *out) {
  writer_t w = {.m = m, .bytes = bytes, .depth = depth, .out = out};
  weft_descriptor_field_t *fields = NULL;
  if (depth > MAX_DEPTH || !weft_wire_is_message(bytes)) return not_a_message();
  WEFT_RETURN_IF_ERROR(weft_descriptor_fields(m, &fields, &w.num_fields));
  w.fields = fields;
  weft_status_t *s = NULL;
  for (int i = 0; i < w.num_fields && s == NULL; i++)
    s = fields[i].is_repeated ? put_repeated(&w, &fields[i]) : put_single(&w, &fields[i]);
  if (s == NULL) put_unknown(&w);
  weft_free(fields);
  if (s == NULL && out->failed) s = WEFT_NO_MEMORY("a message");
  return s;
}

weft_status_t *weft_proto_normalize(const weft_descriptor_t *m, weft_str_t bytes, weft_strbuf_t *out) {
  return normalize(m, bytes, 0, out);
}

/* ---- escapes ---- */

static int octal(weft_str_t text, size_t *i) {
  int v = 0;
  for (int k = 0; k < 3 && *i < text.length && text.data[*i] >= '0' && text.data[*i] <= '7'; k++)
    v = v * 8 + (text.data[(*i)++] - '0');
  return v;
}

static int hex(weft_str_t text, size_t *i) {
  static const char digits[] = "0123456789abcdef";
  int v = 0;
  for (int k = 0; k < 2 && *i < text.length; k++, (*i)++) {
    char c = text.data[*i] >= 'A' && text.data[*i] <= 'F' ? (char)(text.data[*i] + 32) : text.data[*i];
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    if (at == NULL) break;
    v = v * 16 + (int)(at - digits);
  }
  return v;
}

void weft_proto_unescape(weft_str_t text, weft_strbuf_t *out) {
  static const char names[] = "abfnrtv", meanings[] = "\a\b\f\n\r\t\v";
  for (size_t i = 0; i < text.length;) {
    char c = text.data[i++];
    if (c != '\\' || i == text.length) {
      weft_strbuf_putc(out, c);
    } else if (text.data[i] >= '0' && text.data[i] <= '7') {
      weft_strbuf_putc(out, (char)octal(text, &i));
    } else if (text.data[i] == 'x' || text.data[i] == 'X') {
      i++;
      weft_strbuf_putc(out, (char)hex(text, &i));
    } else {
      const char *at = text.data[i] == '\0' ? NULL : strchr(names, text.data[i]);
      weft_strbuf_putc(out, at == NULL ? text.data[i] : meanings[at - names]);
      i++;
    }
  }
}
