/* protos/unpack.c - looks at a message's bytes before protobuf-c does. */
#include "protos/unpack.h"

#include "base/alloc.h"
#include "protos/wire.h"

static void *allocate(void *unused, size_t size) {
  (void)unused;
  return weft_malloc(size);
}

static void release(void *unused, void *p) {
  (void)unused;
  weft_free(p);
}

static ProtobufCAllocator allocator = {.alloc = allocate, .free = release};

static weft_status_t *malformed(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f) {
  if (f == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "malformed message %s", d->name);
  return WEFT_ERROR(INVALID_ARGUMENT, "malformed field '%s' of message %s", f->name, d->name);
}

/* How one value of the type travels. */
static uint32_t wire_type(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WEFT_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WEFT_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WEFT_WIRE_BYTES;
    default: return WEFT_WIRE_VARINT;
  }
}

static weft_status_t *check(const ProtobufCMessageDescriptor *d, weft_str_t bytes, int depth);

static weft_status_t *check_field(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f,
                                  const weft_wire_field_t *field, int depth) {
  uint32_t type = wire_type(f->type), got = weft_wire_type(field);
  if (got != type) { /* a packed list, or nothing that protobuf-c would take */
    if (got != WEFT_WIRE_BYTES || f->label != PROTOBUF_C_LABEL_REPEATED) return malformed(d, f);
    weft_wire_values_t v = weft_wire_values(field, type);
    uint64_t value;
    while (weft_wire_next_value(&v, &value)) continue;
    return v.failed ? malformed(d, f) : NULL;
  }
  if (f->type == PROTOBUF_C_TYPE_STRING && !weft_wire_is_utf8(field->bytes)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "field '%s' of message %s is not UTF-8", f->name, d->name);
  }
  return f->type == PROTOBUF_C_TYPE_MESSAGE ? check(f->descriptor, field->bytes, depth + 1) : NULL;
}

static weft_status_t *check(const ProtobufCMessageDescriptor *d, weft_str_t bytes, int depth) {
  if (depth > WEFT_PROTO_MAX_DEPTH) {
    return WEFT_ERROR(INVALID_ARGUMENT, "message %s is nested more than %d deep", d->name,
                      WEFT_PROTO_MAX_DEPTH);
  }
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t field;
  while (weft_wire_next(&r, &field)) {
    if (weft_wire_type(&field) == WEFT_WIRE_GROUP) return malformed(d, NULL); /* protobuf-c knows no groups */
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, weft_wire_number(&field));
    if (f != NULL) WEFT_RETURN_IF_ERROR(check_field(d, f, &field, depth));
  }
  return r.failed ? malformed(d, NULL) : NULL;
}

weft_status_t *weft_proto_check(const ProtobufCMessageDescriptor *d, weft_str_t bytes) {
  return check(d, bytes, 1);
}

weft_status_t *weft_proto_unpack(const ProtobufCMessageDescriptor *d, weft_str_t bytes,
                                 ProtobufCMessage **out) {
  WEFT_RETURN_IF_ERROR(weft_proto_check(d, bytes));
  static const uint8_t nothing[1];
  const uint8_t *data = bytes.length == 0 ? nothing : (const uint8_t *)bytes.data;
  ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, bytes.length, data);
  if (m == NULL) return WEFT_NO_MEMORY("unpacking a message %s", d->name);
  *out = m;
  return NULL;
}

void weft_proto_free(ProtobufCMessage *m) { protobuf_c_message_free_unpacked(m, &allocator); }

weft_status_t *weft_proto_pack(const ProtobufCMessage *m, weft_strbuf_t *out) {
  size_t size = protobuf_c_message_get_packed_size(m);
  uint8_t *to = (uint8_t *)weft_strbuf_reserve(out, size);
  if (to == NULL) return WEFT_NO_MEMORY("packing a message %s", m->descriptor->name);
  protobuf_c_message_pack(m, to);
  weft_wire_advance(out, to + size);
  return NULL;
}

/* The compiler names the entry of field "some_name" SomeNameEntry, with fields key = 1 and value = 2. */
bool weft_proto_is_map_field(const ProtobufCFieldDescriptor *f) {
  if (f->type != PROTOBUF_C_TYPE_MESSAGE || f->label != PROTOBUF_C_LABEL_REPEATED) return false;
  const ProtobufCMessageDescriptor *d = f->descriptor;
  if (d->n_fields != 2 || d->fields[0].id != 1 || d->fields[1].id != 2) return false;
  if (strcmp(d->fields[0].name, "key") != 0 || strcmp(d->fields[1].name, "value") != 0) return false;
  const char *entry = d->short_name;
  bool upper = true;
  for (const char *p = f->name; *p != '\0'; p++) {
    if (*p == '_') {
      upper = true;
      continue;
    }
    char c = upper && *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
    if (*entry++ != c) return false;
    upper = false;
  }
  return strcmp(entry, "Entry") == 0;
}
