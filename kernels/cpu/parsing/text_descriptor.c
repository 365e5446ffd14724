/* kernels/cpu/parsing/text_descriptor.c - descriptors of protobuf-c, made from serialized ones.
 *
 * Messages refer to each other, in circles too: each is made once, by name, and waits in a list until its
 * fields are filled in.
 */
#include "kernels/cpu/parsing/text_descriptor.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash_map.h"

typedef struct text_message {
  ProtobufCMessageDescriptor d; /* in front: what the map holds and fields refer to */
  weft_descriptor_t from;
  struct text_message *next; /* that waits */
} text_message_t;

typedef struct text_types {
  weft_arena_t *arena;
  weft_map_t made; /* name of a message or enum -> its descriptor */
  text_message_t *waiting;
} text_types_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("descriptors of a text format"); }

static const char *short_name(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot == NULL ? name : dot + 1;
}

/* ---- enums ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const ProtobufCEnumValueIndex *)a)->name, ((const ProtobufCEnumValueIndex *)b)->name);
}

static weft_status_t *make_enum(text_types_t *t, weft_str_t set, weft_str_t name,
                                ProtobufCEnumDescriptor **out) {
  weft_descriptor_value_t value;
  weft_str_t rest = weft_descriptor_enum_values(set, name);
  unsigned n = 0;
  for (weft_str_t count = rest; weft_descriptor_next_value(&count, &value);) n++;
  ProtobufCEnumDescriptor *e = weft_arena_calloc(t->arena, 1, sizeof *e);
  ProtobufCEnumValue *values = weft_arena_calloc(t->arena, (size_t)n + 1, sizeof *values);
  ProtobufCEnumValueIndex *index = weft_arena_calloc(t->arena, (size_t)n + 1, sizeof *index);
  weft_str_t copy = weft_arena_str(t->arena, name);
  if (e == NULL || values == NULL || index == NULL || copy.data == NULL) return no_memory();
  for (unsigned i = 0; i < n && weft_descriptor_next_value(&rest, &value); i++) {
    weft_str_t text = weft_arena_str(t->arena, value.name);
    if (text.data == NULL) return no_memory();
    values[i] = (ProtobufCEnumValue){.name = text.data, .c_name = text.data, .value = value.number};
    index[i] = (ProtobufCEnumValueIndex){.name = text.data, .index = i};
  }
  qsort(index, n, sizeof *index, by_name);
  *e = (ProtobufCEnumDescriptor){.magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
                                 .name = copy.data,
                                 .short_name = short_name(copy.data),
                                 .n_values = n,
                                 .values = values,
                                 .n_value_names = n,
                                 .values_by_name = index,
                                 .reserved1 = weft_descriptor_enum_is_closed(set, name) ? e : NULL};
  *out = e;
  return weft_map_put(&t->made, copy, e, NULL);
}

/* ---- messages ---- */

/* One without fields as yet. */
static weft_status_t *make_message(text_types_t *t, const weft_descriptor_t *from, text_message_t **out) {
  text_message_t *m = weft_arena_calloc(t->arena, 1, sizeof *m);
  weft_str_t name = weft_arena_str(t->arena, from->name);
  if (m == NULL || name.data == NULL) return no_memory();
  m->d = (ProtobufCMessageDescriptor){
      .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC, .name = name.data, .short_name = short_name(name.data)};
  m->from = *from;
  m->next = t->waiting;
  t->waiting = m;
  *out = m;
  return weft_map_put(&t->made, name, m, NULL);
}

/* What the field's type refers to, made if it is new. NULL: nothing, or nothing that the set has. */
static weft_status_t *refer(text_types_t *t, weft_str_t set, const weft_descriptor_field_t *f,
                            const void **out) {
  *out = NULL;
  if (f->type != WEFT_FIELD_MESSAGE && f->type != WEFT_FIELD_ENUM) return NULL;
  weft_descriptor_t from;
  weft_str_t name = f->type_name;
  if (name.length > 0 && name.data[0] == '.') name = weft_str_of(name.data + 1, name.length - 1);
  *out = weft_map_get(&t->made, name);
  if (*out != NULL) return NULL;
  if (f->type == WEFT_FIELD_ENUM) {
    ProtobufCEnumDescriptor *e = NULL;
    WEFT_RETURN_IF_ERROR(make_enum(t, set, name, &e));
    *out = e;
    return NULL;
  }
  text_message_t *m = NULL;
  if (!weft_descriptor_find(set, name, &from)) return NULL;
  WEFT_RETURN_IF_ERROR(make_message(t, &from, &m));
  *out = &m->d;
  return NULL;
}

static ProtobufCType type_of(const weft_descriptor_field_t *f, bool is_proto3) {
  switch (f->type) {
    case WEFT_FIELD_DOUBLE: return PROTOBUF_C_TYPE_DOUBLE;
    case WEFT_FIELD_FLOAT: return PROTOBUF_C_TYPE_FLOAT;
    case WEFT_FIELD_INT64: return PROTOBUF_C_TYPE_INT64;
    case WEFT_FIELD_UINT64: return PROTOBUF_C_TYPE_UINT64;
    case WEFT_FIELD_INT32: return PROTOBUF_C_TYPE_INT32;
    case WEFT_FIELD_FIXED64: return PROTOBUF_C_TYPE_FIXED64;
    case WEFT_FIELD_FIXED32: return PROTOBUF_C_TYPE_FIXED32;
    case WEFT_FIELD_BOOL: return PROTOBUF_C_TYPE_BOOL;
    case WEFT_FIELD_STRING: return is_proto3 ? PROTOBUF_C_TYPE_STRING : PROTOBUF_C_TYPE_BYTES; /* any bytes */
    case WEFT_FIELD_BYTES: return PROTOBUF_C_TYPE_BYTES;
    case WEFT_FIELD_UINT32: return PROTOBUF_C_TYPE_UINT32;
    case WEFT_FIELD_ENUM: return PROTOBUF_C_TYPE_ENUM;
    case WEFT_FIELD_SFIXED32: return PROTOBUF_C_TYPE_SFIXED32;
    case WEFT_FIELD_SFIXED64: return PROTOBUF_C_TYPE_SFIXED64;
    case WEFT_FIELD_SINT32: return PROTOBUF_C_TYPE_SINT32;
    case WEFT_FIELD_SINT64: return PROTOBUF_C_TYPE_SINT64;
    default: return PROTOBUF_C_TYPE_MESSAGE;
  }
}

static ProtobufCLabel label_of(const weft_descriptor_field_t *f, bool is_proto3) {
  if (f->is_repeated) return PROTOBUF_C_LABEL_REPEATED;
  if (f->is_required) return PROTOBUF_C_LABEL_REQUIRED;
  return !is_proto3 || f->has_presence ? PROTOBUF_C_LABEL_OPTIONAL : PROTOBUF_C_LABEL_NONE;
}

static int by_field_name(const void *a, const void *b) {
  return strcmp((*(const ProtobufCFieldDescriptor *const *)a)->name,
                (*(const ProtobufCFieldDescriptor *const *)b)->name);
}

static weft_status_t *sort_names(weft_arena_t *arena, ProtobufCMessageDescriptor *d) {
  const ProtobufCFieldDescriptor **sorted =
      weft_arena_calloc(arena, (size_t)d->n_fields + 1, sizeof(*sorted));
  unsigned *index = weft_arena_calloc(arena, (size_t)d->n_fields + 1, sizeof *index);
  if (sorted == NULL || index == NULL) return no_memory();
  for (unsigned i = 0; i < d->n_fields; i++) sorted[i] = &d->fields[i];
  qsort(sorted, d->n_fields, sizeof(*sorted), by_field_name);
  for (unsigned i = 0; i < d->n_fields; i++) index[i] = (unsigned)(sorted[i] - d->fields);
  d->fields_sorted_by_name = index;
  return NULL;
}

static weft_status_t *put_fields(text_types_t *t, text_message_t *m, const weft_descriptor_field_t *from,
                                 int n) {
  ProtobufCFieldDescriptor *fields = weft_arena_calloc(t->arena, (size_t)n + 1, sizeof *fields);
  if (fields == NULL) return no_memory();
  unsigned used = 0;
  for (int i = 0; i < n; i++) {
    const void *refers_to = NULL;
    WEFT_RETURN_IF_ERROR(refer(t, m->from.set, &from[i], &refers_to));
    const bool needs_type = from[i].type == WEFT_FIELD_MESSAGE || from[i].type == WEFT_FIELD_ENUM;
    if (from[i].type == WEFT_FIELD_GROUP || (needs_type && refers_to == NULL)) continue;
    weft_str_t name = weft_arena_str(t->arena, from[i].name);
    if (name.data == NULL) return no_memory();
    fields[used++] = (ProtobufCFieldDescriptor){
        .name = name.data,
        .id = from[i].number,
        .label = label_of(&from[i], m->from.is_proto3),
        .type = type_of(&from[i], m->from.is_proto3),
        .quantifier_offset = (unsigned)(from[i].oneof + 1), /* by which members of a oneof know each other */
        .descriptor = refers_to,
        .flags = from[i].oneof >= 0 ? PROTOBUF_C_FIELD_FLAG_ONEOF : 0};
  }
  m->d.fields = fields;
  m->d.n_fields = used;
  return sort_names(t->arena, &m->d);
}

static weft_status_t *fill(text_types_t *t) {
  while (t->waiting != NULL) {
    text_message_t *m = t->waiting;
    weft_descriptor_field_t *fields = NULL;
    int n = 0;
    t->waiting = m->next;
    WEFT_RETURN_IF_ERROR(weft_descriptor_fields(&m->from, &fields, &n));
    weft_status_t *s = put_fields(t, m, fields, n);
    weft_free(fields);
    if (s != NULL) return s;
  }
  return NULL;
}

weft_status_t *weft_text_descriptor_make(const weft_descriptor_t *m, weft_arena_t *arena,
                                         const ProtobufCMessageDescriptor **out) {
  text_types_t t = {.arena = arena};
  text_message_t *root = NULL;
  weft_status_t *s = make_message(&t, m, &root);
  if (s == NULL) s = fill(&t);
  weft_map_deinit(&t.made);
  if (s == NULL) *out = &root->d;
  return s;
}
