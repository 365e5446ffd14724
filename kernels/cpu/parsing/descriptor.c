/* kernels/cpu/parsing/descriptor.c - see the header. */
#include "kernels/cpu/parsing/descriptor.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/kernel.h"
#include "protos/wire.h"

/* Numbers of fields in descriptor.proto. */
enum {
  SET_FILE = 1,
  FILE_PACKAGE = 2,
  FILE_MESSAGE = 4,
  FILE_ENUM = 5,
  FILE_EXTENSION = 7,
  FILE_SYNTAX = 12,
  MESSAGE_NAME = 1,
  MESSAGE_FIELD = 2,
  MESSAGE_NESTED = 3,
  MESSAGE_ENUM = 4,
  MESSAGE_EXTENSION = 6,
  ENUM_NAME = 1,
  ENUM_VALUE = 2,
  VALUE_NAME = 1,
  VALUE_NUMBER = 2,
  FIELD_NAME = 1,
  FIELD_EXTENDEE = 2,
  FIELD_NUMBER = 3,
  FIELD_LABEL = 4,
  FIELD_TYPE = 5,
  FIELD_TYPE_NAME = 6,
  FIELD_DEFAULT = 7,
  FIELD_OPTIONS = 8,
  FIELD_ONEOF = 9,
  FIELD_OPTIONAL3 = 17,
  OPTION_PACKED = 2,
  LABEL_REQUIRED = 2,
  LABEL_REPEATED = 3,
  MAX_NUMBER = (1 << 29) - 1,
  MAX_DEPTH = 64, /* of messages in messages */
};

/* ---- walking ---- */

/* The next submessage (or text) with that number; false at the end. */
static bool next_bytes(weft_wire_reader_t *r, uint32_t number, weft_str_t *out) {
  weft_wire_field_t f;
  while (weft_wire_next(r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) continue;
    *out = f.bytes;
    return true;
  }
  return false;
}

/* The last text with that number; empty if there is none. */
static weft_str_t text_in(weft_str_t bytes, uint32_t number) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_str_t text = WEFT_STR("");
  while (next_bytes(&r, number, &text)) continue;
  return text;
}

/* Takes `part` and a dot off the front of *name; true if it was there, or if the part is empty. */
static bool take_part(weft_str_t *name, weft_str_t part) {
  if (part.length == 0) return true;
  if (name->length <= part.length || memcmp(name->data, part.data, part.length) != 0) return false;
  if (name->data[part.length] != '.') return false;
  *name = weft_str_of(name->data + part.length + 1, name->length - part.length - 1);
  return true;
}

/* ---- messages and enums ---- */

/* What has the number `message_number` (messages) or `enum_number` in `bytes` and is called `name`, which may
 * lie in messages. Each step takes a part of the name, so it ends. */
static bool find_in(weft_str_t bytes, uint32_t message_number, uint32_t enum_number, weft_str_t name,
                    bool is_enum, weft_str_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  while (is_enum && next_bytes(&r, enum_number, out)) {
    if (weft_str_eq(text_in(*out, ENUM_NAME), name)) return true;
  }
  r = weft_wire_reader(bytes);
  while (next_bytes(&r, message_number, out)) {
    weft_str_t own = text_in(*out, MESSAGE_NAME), rest = name;
    if (own.length == 0) continue;
    if (!is_enum && weft_str_eq(own, name)) return true;
    if (take_part(&rest, own) && find_in(*out, MESSAGE_NESTED, MESSAGE_ENUM, rest, is_enum, out)) return true;
  }
  return false;
}

static weft_str_t without_dot(weft_str_t name) {
  return name.length > 0 && name.data[0] == '.' ? weft_str_of(name.data + 1, name.length - 1) : name;
}

/* *file: the one that it is in. */
static bool find_type(weft_str_t set, weft_str_t name, bool is_enum, weft_str_t *file, weft_str_t *out) {
  weft_wire_reader_t r = weft_wire_reader(set);
  name = without_dot(name);
  if (name.length == 0) return false;
  while (next_bytes(&r, SET_FILE, file)) {
    weft_str_t rest = name;
    if (!take_part(&rest, text_in(*file, FILE_PACKAGE))) continue;
    if (find_in(*file, FILE_MESSAGE, FILE_ENUM, rest, is_enum, out)) return true;
  }
  return false;
}

bool weft_descriptor_find(weft_str_t set, weft_str_t name, weft_descriptor_t *out) {
  weft_str_t file;
  *out = (weft_descriptor_t){.set = set, .name = without_dot(name)};
  if (!find_type(set, name, false, &file, &out->bytes)) return false;
  out->is_proto3 = weft_str_is(text_in(file, FILE_SYNTAX), "proto3");
  return true;
}

weft_str_t weft_descriptor_enum_values(weft_str_t set, weft_str_t type_name) {
  weft_str_t file, bytes;
  return find_type(set, type_name, true, &file, &bytes) ? bytes : WEFT_STR("");
}

bool weft_descriptor_enum_is_closed(weft_str_t set, weft_str_t type_name) {
  weft_str_t file, bytes;
  if (!find_type(set, type_name, true, &file, &bytes)) return false;
  weft_str_t syntax = text_in(file, FILE_SYNTAX);
  return syntax.length == 0 || weft_str_is(syntax, "proto2");
}

bool weft_descriptor_next_value(weft_str_t *rest, weft_descriptor_value_t *out) {
  weft_wire_reader_t r = weft_wire_reader(*rest);
  weft_str_t entry;
  if (!next_bytes(&r, ENUM_VALUE, &entry)) return false;
  *rest = weft_wire_rest(&r);
  *out = (weft_descriptor_value_t){.name = text_in(entry, VALUE_NAME)};
  weft_wire_reader_t fields = weft_wire_reader(entry);
  weft_wire_field_t f;
  while (weft_wire_next(&fields, &f)) {
    if (f.tag == WEFT_WIRE_TAG(VALUE_NUMBER, WEFT_WIRE_VARINT)) out->number = weft_wire_i32(f.value);
  }
  return true;
}

int32_t weft_descriptor_enum(weft_str_t set, weft_str_t type_name, weft_str_t value) {
  weft_str_t rest = weft_descriptor_enum_values(set, type_name);
  weft_descriptor_value_t v;
  while (weft_descriptor_next_value(&rest, &v)) {
    if (value.length == 0 || weft_str_eq(v.name, value)) return v.number;
  }
  return 0;
}

/* ---- fields ---- */

static void read_options(weft_str_t options, weft_descriptor_field_t *out) {
  weft_wire_reader_t r = weft_wire_reader(options);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(OPTION_PACKED, WEFT_WIRE_VARINT)) continue;
    out->is_packed = f.value != 0;
    out->is_unpacked = f.value == 0;
  }
}

/* A FieldDescriptorProto; false if it is none. */
static bool read_field(weft_str_t bytes, weft_descriptor_field_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (weft_descriptor_field_t){
      .name = WEFT_STR(""), .type_name = WEFT_STR(""), .default_text = WEFT_STR(""), .oneof = -1};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(FIELD_NAME, WEFT_WIRE_BYTES): out->name = f.bytes; break;
      case WEFT_WIRE_TAG(FIELD_NUMBER, WEFT_WIRE_VARINT): out->number = (uint32_t)f.value; break;
      case WEFT_WIRE_TAG(FIELD_LABEL, WEFT_WIRE_VARINT):
        out->is_repeated = f.value == LABEL_REPEATED;
        out->is_required = f.value == LABEL_REQUIRED;
        break;
      case WEFT_WIRE_TAG(FIELD_ONEOF, WEFT_WIRE_VARINT):
        out->oneof = weft_wire_i32(f.value);
        out->has_presence = true;
        break;
      case WEFT_WIRE_TAG(FIELD_OPTIONAL3, WEFT_WIRE_VARINT): out->has_presence |= f.value != 0; break;
      case WEFT_WIRE_TAG(FIELD_TYPE, WEFT_WIRE_VARINT):
        out->type = f.value < WEFT_FIELD_TYPES ? (weft_descriptor_type_t)f.value : 0;
        break;
      case WEFT_WIRE_TAG(FIELD_TYPE_NAME, WEFT_WIRE_BYTES): out->type_name = f.bytes; break;
      case WEFT_WIRE_TAG(FIELD_DEFAULT, WEFT_WIRE_BYTES):
        out->has_default = true;
        out->default_text = f.bytes;
        break;
      case WEFT_WIRE_TAG(FIELD_OPTIONS, WEFT_WIRE_BYTES): read_options(f.bytes, out); break;
      default: break;
    }
  }
  return !r.failed && out->name.length > 0 && out->type != 0 && out->number > 0 && out->number <= MAX_NUMBER;
}

bool weft_descriptor_find_field(const weft_descriptor_t *m, weft_str_t name, weft_descriptor_field_t *out) {
  weft_wire_reader_t r = weft_wire_reader(m->bytes);
  weft_str_t field;
  while (next_bytes(&r, MESSAGE_FIELD, &field)) {
    if (read_field(field, out) && weft_str_eq(out->name, name)) return true;
  }
  return false;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = ((const weft_descriptor_field_t *)a)->number, y = ((const weft_descriptor_field_t *)b)->number;
  return (x > y) - (x < y);
}

weft_status_t *weft_descriptor_fields(const weft_descriptor_t *m, weft_descriptor_field_t **out, int *out_n) {
  weft_wire_reader_t r = weft_wire_reader(m->bytes);
  weft_str_t field;
  size_t n = 0, k = 0;
  while (next_bytes(&r, MESSAGE_FIELD, &field)) n++;
  weft_descriptor_field_t *fields = weft_calloc(n + 1, sizeof *fields);
  if (fields == NULL) return WEFT_NO_MEMORY("%zu fields of a message", n);
  r = weft_wire_reader(m->bytes);
  while (k < n && next_bytes(&r, MESSAGE_FIELD, &field)) k += read_field(field, &fields[k]);
  if (k > 0) qsort(fields, k, sizeof *fields, by_number);
  *out = fields;
  *out_n = (int)k;
  return NULL;
}

/* Extensions of `m` among those with that number in `bytes`, whose names begin where `name` is left. */
static bool extension_in(const weft_descriptor_t *m, weft_str_t bytes, uint32_t extension_number,
                         uint32_t message_number, weft_str_t name, weft_descriptor_field_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_str_t part;
  while (next_bytes(&r, extension_number, &part)) {
    if (read_field(part, out) && weft_str_eq(out->name, name) &&
        weft_str_eq(without_dot(text_in(part, FIELD_EXTENDEE)), m->name))
      return true;
  }
  r = weft_wire_reader(bytes);
  while (next_bytes(&r, message_number, &part)) {
    weft_str_t own = text_in(part, MESSAGE_NAME), rest = name;
    if (own.length > 0 && take_part(&rest, own) &&
        extension_in(m, part, MESSAGE_EXTENSION, MESSAGE_NESTED, rest, out))
      return true;
  }
  return false;
}

bool weft_descriptor_find_extension(const weft_descriptor_t *m, weft_str_t full_name,
                                    weft_descriptor_field_t *out) {
  weft_wire_reader_t r = weft_wire_reader(m->set);
  weft_str_t file;
  while (next_bytes(&r, SET_FILE, &file)) {
    weft_str_t rest = full_name;
    if (take_part(&rest, text_in(file, FILE_PACKAGE)) &&
        extension_in(m, file, FILE_EXTENSION, FILE_MESSAGE, rest, out))
      return true;
  }
  return false;
}

/* ---- the whole set ---- */

static bool message_is_sound(weft_str_t bytes, int depth) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_descriptor_field_t field;
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(MESSAGE_FIELD, WEFT_WIRE_BYTES):
      case WEFT_WIRE_TAG(MESSAGE_EXTENSION, WEFT_WIRE_BYTES):
        if (!read_field(f.bytes, &field)) return false;
        break;
      case WEFT_WIRE_TAG(MESSAGE_NESTED, WEFT_WIRE_BYTES):
        if (depth == MAX_DEPTH || !message_is_sound(f.bytes, depth + 1)) return false;
        break;
      case WEFT_WIRE_TAG(MESSAGE_ENUM, WEFT_WIRE_BYTES):
        if (!weft_wire_is_message(f.bytes)) return false;
        break;
      default: break;
    }
  }
  return !r.failed && text_in(bytes, MESSAGE_NAME).length > 0;
}

static bool file_is_sound(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(FILE_MESSAGE, WEFT_WIRE_BYTES) && !message_is_sound(f.bytes, 0)) return false;
    if (f.tag == WEFT_WIRE_TAG(FILE_ENUM, WEFT_WIRE_BYTES) && !weft_wire_is_message(f.bytes)) return false;
  }
  return !r.failed;
}

weft_status_t *weft_descriptors_check(weft_str_t set) {
  weft_wire_reader_t r = weft_wire_reader(set);
  weft_str_t file;
  while (next_bytes(&r, SET_FILE, &file)) {
    if (!file_is_sound(file)) return WEFT_ERROR(INVALID_ARGUMENT, "Failed to load FileDescriptorProto");
  }
  return r.failed ? WEFT_ERROR(INVALID_ARGUMENT, "not a serialized FileDescriptorSet") : NULL;
}

/* ---- types ---- */

#define B(dtype) WEFT_DTYPE_BIT(WEFT_##dtype)
static const struct {
  uint8_t wire_type;
  weft_dtype_set_t dtypes;
} types[WEFT_FIELD_TYPES] = {
    [WEFT_FIELD_DOUBLE] = {WEFT_WIRE_FIXED64, B(F64)},
    [WEFT_FIELD_FLOAT] = {WEFT_WIRE_FIXED32, B(F32) | B(F64)},
    [WEFT_FIELD_INT64] = {WEFT_WIRE_VARINT, B(I64)},
    [WEFT_FIELD_UINT64] = {WEFT_WIRE_VARINT, B(U64)},
    [WEFT_FIELD_INT32] = {WEFT_WIRE_VARINT, B(I32) | B(I64)},
    [WEFT_FIELD_FIXED64] = {WEFT_WIRE_FIXED64, B(U64)},
    [WEFT_FIELD_FIXED32] = {WEFT_WIRE_FIXED32, B(U32) | B(U64)},
    [WEFT_FIELD_BOOL] = {WEFT_WIRE_VARINT, B(BOOL)},
    [WEFT_FIELD_STRING] = {WEFT_WIRE_BYTES, B(STRING)},
    [WEFT_FIELD_GROUP] = {WEFT_WIRE_GROUP, B(STRING)},
    [WEFT_FIELD_MESSAGE] = {WEFT_WIRE_BYTES, B(STRING)},
    [WEFT_FIELD_BYTES] = {WEFT_WIRE_BYTES, B(STRING)},
    [WEFT_FIELD_UINT32] = {WEFT_WIRE_VARINT, B(U32) | B(U64)},
    [WEFT_FIELD_ENUM] = {WEFT_WIRE_VARINT, B(I32)},
    [WEFT_FIELD_SFIXED32] = {WEFT_WIRE_FIXED32, B(I32) | B(I64)},
    [WEFT_FIELD_SFIXED64] = {WEFT_WIRE_FIXED64, B(I64)},
    [WEFT_FIELD_SINT32] = {WEFT_WIRE_VARINT, B(I32) | B(I64)},
    [WEFT_FIELD_SINT64] = {WEFT_WIRE_VARINT, B(I64)},
};

uint32_t weft_descriptor_wire_type(weft_descriptor_type_t type) { return types[type].wire_type; }

bool weft_descriptor_fits(weft_descriptor_type_t type, int dtype) {
  return dtype > 0 && dtype < WEFT_DTYPE_COUNT && (types[type].dtypes & WEFT_DTYPE_BIT(dtype)) != 0;
}
