/* rpc/fields.c - messages by table. */
#include "rpc/fields.h"

#include "base/alloc.h"
#include "protos/wire.h"
#include "rpc/message_reader.h"
#include "rpc/tensor_message.h"
#include "tensor/tensor_proto.h"

const weft_message_type_t weft_empty_type = {"message without fields", NULL, 0};

/* A tensor may ask for more bytes than it brings (its last element repeats), within tensor_proto's limit. Of
 * one message, all of them together may not: a few hundred bytes must not cost a server its memory. Tensors
 * of more than SMALL bytes on the wire are counted when they are there, smaller ones before. */
#define MAX_FILL_PER_MESSAGE ((size_t)1 << 30)
enum { SMALL = 4096, USUAL_BYTES = 255 /* of the encoded fields that are no tensors */ };

typedef struct decoder {
  const weft_message_type_t *type;
  const weft_message_t *message;
  weft_arena_t *arena;
  size_t tensor_bytes; /* of the tensors so far */
} decoder_t;

static weft_status_t *no_memory(const weft_message_type_t *type) {
  return WEFT_NO_MEMORY("coding a %s", type->name);
}

static const weft_field_t *find_field(const weft_message_type_t *type, uint32_t number) {
  for (int i = 0; i < type->num_fields; i++) {
    if (type->fields[i].number == number) return &type->fields[i];
  }
  return NULL;
}

static uint32_t wire_type(weft_field_kind_t kind) {
  if (kind == WEFT_FIELD_I64 || kind == WEFT_FIELD_BOOL) return WEFT_WIRE_VARINT;
  return kind == WEFT_FIELD_FIXED64 ? WEFT_WIRE_FIXED64 : WEFT_WIRE_BYTES;
}

/* Room for one more item of `size` bytes in a list that doubles; NULL without memory. */
static void *grown(weft_arena_t *arena, void *items, int n, int capacity, size_t size) {
  void *bigger = weft_arena_calloc(arena, (size_t)capacity, size);
  if (bigger != NULL && n > 0) memcpy(bigger, items, (size_t)n * size);
  return bigger;
}

bool weft_texts_add(weft_texts_t *list, weft_arena_t *arena, weft_str_t text) {
  if (list->n == list->capacity) {
    if (list->capacity > INT32_MAX / 2) return false;
    int capacity = list->capacity == 0 ? 4 : list->capacity * 2;
    weft_str_t *items = grown(arena, list->items, list->n, capacity, sizeof *items);
    if (items == NULL) return false;
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->n++] = text;
  return true;
}

static bool add_i64(weft_i64s_t *list, weft_arena_t *arena, int64_t value) {
  if (list->n == list->capacity) {
    if (list->capacity > INT32_MAX / 2) return false;
    int capacity = list->capacity == 0 ? 4 : list->capacity * 2;
    int64_t *items = grown(arena, list->items, list->n, capacity, sizeof *items);
    if (items == NULL) return false;
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->n++] = value;
  return true;
}

static bool grow_tensors(weft_tensors_t *list, weft_arena_t *arena) {
  if (list->n < list->capacity) return true;
  if (list->capacity > INT32_MAX / 2) return false;
  int capacity = list->capacity == 0 ? 4 : list->capacity * 2;
  weft_str_t *names = grown(arena, list->names, list->n, capacity, sizeof *names);
  weft_tensor_t **items = grown(arena, list->items, list->n, capacity, sizeof *items);
  if (names == NULL || items == NULL) return false;
  list->names = names;
  list->items = items;
  list->capacity = capacity;
  return true;
}

static weft_status_t *decode_text(decoder_t *d, const weft_field_t *field, const weft_message_field_t *f,
                                  weft_str_t *out) {
  if (!weft_message_field_bytes(d->message, f, d->arena, out)) return no_memory(d->type);
  bool is_string = field->kind != WEFT_FIELD_BYTES && field->kind != WEFT_FIELD_MESSAGES;
  if (is_string && !weft_wire_is_utf8(*out))
    return WEFT_ERROR(INVALID_ARGUMENT, "%s.%s is not valid UTF-8", d->type->name, field->name);
  return NULL;
}

/* Begins as TensorFlow's master does, then says what is wrong. `name` may be empty. Consumes `s`. */
static weft_status_t *bad_tensor(const decoder_t *d, const weft_field_t *field, int index, weft_str_t name,
                                 weft_status_t *s) {
  if (name.length > 200) name.length = 200;
  weft_status_t *named = weft_status_new(
      weft_status_code(s), __FILE__, __LINE__, "Invalid TensorProto for %s value %d: %s (in %s, name '%.*s')",
      field->name, index, weft_status_message(s), d->type->name, WEFT_STR_ARGS(name));
  weft_status_free(s);
  return named;
}

/* Counts `bytes` more; they may not be more than the message brings and the limit. */
static weft_status_t *count_bytes(decoder_t *d, size_t bytes) {
  if (!weft_add_size(d->tensor_bytes, bytes, &d->tensor_bytes)) d->tensor_bytes = SIZE_MAX;
  if (d->tensor_bytes <= weft_message_bytes(d->message) + MAX_FILL_PER_MESSAGE) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "the tensors together take %zu bytes, but the message has only %zu",
                    d->tensor_bytes, weft_message_bytes(d->message));
}

/* The bytes that a small tensor asks for; 0 if it is malformed, which decoding will find. */
static weft_status_t *count_small(decoder_t *d, const weft_message_field_t *f) {
  char bytes[SMALL];
  weft_tensor_head_t head;
  weft_message_field_copy(d->message, f, 0, bytes, f->length);
  weft_status_t *s = weft_tensor_proto_read_head(weft_str_of(bytes, f->length), &head);
  size_t need = 0;
  bool ok = s == NULL && weft_mul_size((size_t)head.count, weft_dtype_size(head.dtype), &need);
  weft_status_free(s);
  return count_bytes(d, ok ? need : 0);
}

static weft_status_t *decode_tensor(decoder_t *d, const weft_field_t *field, int index, weft_str_t name,
                                    const weft_message_field_t *f, weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = f->length <= SMALL ? count_small(d, f) : NULL;
  if (s == NULL) s = weft_tensor_from_field(d->message, f, &t);
  if (s == NULL && f->length > SMALL) s = count_bytes(d, t->bytes);
  if (s != NULL) {
    weft_tensor_release(t);
    return bad_tensor(d, field, index, name, s);
  }
  weft_tensor_release(*out); /* the last occurrence counts */
  *out = t;
  return NULL;
}

/* NamedTensorProto: the name, 1, and the tensor, 2. */
static weft_status_t *decode_named_tensor(decoder_t *d, const weft_field_t *field,
                                          const weft_message_field_t *f, weft_tensors_t *list) {
  weft_message_reader_t r = weft_message_field_reader(d->message, f);
  weft_message_field_t part, tensor = {.length = 0};
  while (weft_message_reader_next(&r, &part)) {
    if (part.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) {
      WEFT_RETURN_IF_ERROR(decode_text(d, field, &part, &list->names[list->n]));
    } else if (part.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) {
      tensor = part;
    }
  }
  if (r.failed)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s.%s[%d] is not a NamedTensorProto", d->type->name, field->name,
                      list->n);
  WEFT_RETURN_IF_ERROR(
      decode_tensor(d, field, list->n, list->names[list->n], &tensor, &list->items[list->n]));
  list->n++;
  return NULL;
}

/* One number, or many that are packed. */
static weft_status_t *decode_i64s(decoder_t *d, const weft_field_t *field, const weft_message_field_t *f,
                                  weft_i64s_t *out) {
  if ((f->tag & 7) == WEFT_WIRE_VARINT)
    return add_i64(out, d->arena, (int64_t)f->value) ? NULL : no_memory(d->type);
  weft_str_t bytes;
  if (!weft_message_field_bytes(d->message, f, d->arena, &bytes)) return no_memory(d->type);
  const uint8_t *p = (const uint8_t *)bytes.data, *end = p == NULL ? p : p + bytes.length;
  while (p != end) {
    uint64_t value;
    p = weft_wire_get_varint(p, end, &value);
    if (p == NULL)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s.%s is not a packed list of numbers", d->type->name,
                        field->name);
    if (!add_i64(out, d->arena, (int64_t)value)) return no_memory(d->type);
  }
  return NULL;
}

static weft_status_t *decode_field(decoder_t *d, const weft_field_t *field, const weft_message_field_t *f,
                                   void *member) {
  weft_str_t text;
  switch (field->kind) {
    case WEFT_FIELD_TEXT:
    case WEFT_FIELD_BYTES: return decode_text(d, field, f, member);
    case WEFT_FIELD_I64: *(int64_t *)member = (int64_t)f->value; return NULL;
    case WEFT_FIELD_I64S: return decode_i64s(d, field, f, member);
    case WEFT_FIELD_FIXED64: *(uint64_t *)member = f->value; return NULL;
    case WEFT_FIELD_BOOL: *(bool *)member = f->value != 0; return NULL;
    case WEFT_FIELD_TEXTS:
    case WEFT_FIELD_MESSAGES:
      WEFT_RETURN_IF_ERROR(decode_text(d, field, f, &text));
      return weft_texts_add(member, d->arena, text) ? NULL : no_memory(d->type);
    case WEFT_FIELD_TENSOR: return decode_tensor(d, field, 0, WEFT_STR(""), f, member);
    case WEFT_FIELD_TENSORS:
    case WEFT_FIELD_NAMED_TENSORS: break;
  }
  weft_tensors_t *list = member;
  if (!grow_tensors(list, d->arena)) return no_memory(d->type);
  if (field->kind == WEFT_FIELD_NAMED_TENSORS) return decode_named_tensor(d, field, f, list);
  WEFT_RETURN_IF_ERROR(decode_tensor(d, field, list->n, WEFT_STR(""), f, &list->items[list->n]));
  list->n++;
  return NULL;
}

weft_status_t *weft_fields_decode(const weft_message_type_t *type, const weft_message_t *m,
                                  weft_arena_t *arena, void *out) {
  decoder_t d = {type, m, arena, 0};
  weft_message_reader_t r = weft_message_reader(m);
  weft_message_field_t f;
  weft_status_t *s = NULL;
  while (weft_message_reader_next(&r, &f)) {
    const weft_field_t *field = find_field(type, f.tag >> 3);
    bool is_plain = field != NULL && field->kind == WEFT_FIELD_I64S && (f.tag & 7) == WEFT_WIRE_VARINT;
    if (field == NULL || ((f.tag & 7) != wire_type(field->kind) && !is_plain)) continue;
    /* After a bad field still the numbers: one of them says where the failure is to go. */
    if (s != NULL && (f.tag & 7) != WEFT_WIRE_VARINT) continue;
    s = weft_status_join(s, decode_field(&d, field, &f, (char *)out + field->offset));
  }
  if (!r.failed || s != NULL) return s;
  return WEFT_ERROR(INVALID_ARGUMENT, "the bytes are not a %s: malformed from byte %zu of %zu on", type->name,
                    r.next.at, weft_message_bytes(m));
}

weft_status_t *weft_fields_decode_bytes(const weft_message_type_t *type, weft_str_t bytes,
                                        weft_arena_t *arena, void *out) {
  weft_message_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_message_create(&m));
  weft_status_t *s = weft_message_share(m, bytes.data, bytes.length, NULL, NULL);
  if (s == NULL) s = weft_fields_decode(type, m, arena, out);
  weft_message_destroy(m);
  return s;
}

void weft_fields_release(const weft_message_type_t *type, void *decoded) {
  for (int i = 0; i < type->num_fields; i++) {
    void *member = (char *)decoded + type->fields[i].offset;
    if (type->fields[i].kind == WEFT_FIELD_TENSOR) {
      weft_tensor_release(*(weft_tensor_t **)member);
      *(weft_tensor_t **)member = NULL;
    } else if (type->fields[i].kind == WEFT_FIELD_TENSORS ||
               type->fields[i].kind == WEFT_FIELD_NAMED_TENSORS) {
      weft_tensors_t *list = member;
      for (int k = 0; k < list->n; k++) weft_tensor_release(list->items[k]);
      list->n = 0;
    }
  }
}

static weft_status_t *encode_named_tensor(const weft_field_t *field, weft_str_t name, const weft_tensor_t *t,
                                          weft_strbuf_t *text, weft_message_t *m) {
  size_t bytes = weft_wire_size_bytes(1, name.length) + weft_wire_size_bytes(2, weft_tensor_proto_size(t));
  weft_wire_add_header(text, field->number, bytes);
  weft_wire_add_bytes(text, 1, name);
  return weft_tensor_to_field(t, 2, text, m);
}

/* `m` is needed for tensors only. */
static weft_status_t *encode_field(const weft_field_t *field, const void *member, weft_strbuf_t *text,
                                   weft_message_t *m) {
  const weft_texts_t *texts = member;
  const weft_tensors_t *tensors = member;
  const weft_i64s_t *numbers = member;
  weft_strbuf_t packed = WEFT_STRBUF_INIT;
  switch (field->kind) {
    case WEFT_FIELD_TEXT:
    case WEFT_FIELD_BYTES: weft_wire_put_bytes(text, field->number, *(const weft_str_t *)member); return NULL;
    case WEFT_FIELD_I64: weft_wire_put_i64(text, field->number, *(const int64_t *)member); return NULL;
    case WEFT_FIELD_I64S:
      for (int i = 0; i < numbers->n; i++) weft_wire_add_raw_varint(&packed, (uint64_t)numbers->items[i]);
      weft_wire_put_bytes(text, field->number, weft_str_of(packed.data, packed.length));
      if (packed.failed) text->failed = true;
      weft_strbuf_deinit(&packed);
      return NULL;
    case WEFT_FIELD_FIXED64:
      if (*(const uint64_t *)member != 0)
        weft_wire_add_fixed64(text, field->number, *(const uint64_t *)member);
      return NULL;
    case WEFT_FIELD_BOOL: weft_wire_put_bool(text, field->number, *(const bool *)member); return NULL;
    case WEFT_FIELD_TEXTS:
    case WEFT_FIELD_MESSAGES:
      for (int i = 0; i < texts->n; i++) weft_wire_add_bytes(text, field->number, texts->items[i]);
      return NULL;
    case WEFT_FIELD_TENSOR:
      if (*(weft_tensor_t *const *)member == NULL) return NULL;
      return weft_tensor_to_field(*(weft_tensor_t *const *)member, field->number, text, m);
    case WEFT_FIELD_TENSORS:
      for (int i = 0; i < tensors->n; i++)
        WEFT_RETURN_IF_ERROR(weft_tensor_to_field(tensors->items[i], field->number, text, m));
      return NULL;
    case WEFT_FIELD_NAMED_TENSORS:
      for (int i = 0; i < tensors->n; i++)
        WEFT_RETURN_IF_ERROR(encode_named_tensor(field, tensors->names[i], tensors->items[i], text, m));
      return NULL;
  }
  return NULL;
}

weft_status_t *weft_fields_encode(const weft_message_type_t *type, const void *in, weft_message_t **out) {
  weft_message_t *m = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_message_create(&m);
  if (type->num_fields > 0) (void)weft_strbuf_reserve(&text, USUAL_BYTES); /* what fails is seen at the end */
  for (int i = 0; i < type->num_fields && s == NULL; i++)
    s = encode_field(&type->fields[i], (const char *)in + type->fields[i].offset, &text, m);
  if (s == NULL && (text.length > 0 || text.failed)) s = weft_message_take(m, &text);
  weft_strbuf_deinit(&text);
  if (s == NULL) {
    *out = m;
  } else {
    weft_message_destroy(m);
  }
  return s;
}

void weft_fields_encode_bytes(const weft_message_type_t *type, const void *in, weft_strbuf_t *text) {
  for (int i = 0; i < type->num_fields; i++) {
    weft_status_t *s = encode_field(&type->fields[i], (const char *)in + type->fields[i].offset, text, NULL);
    if (s != NULL) text->failed = true; /* cannot be: only tensors fail */
    weft_status_free(s);
  }
}

bool weft_texts_add_message(weft_texts_t *list, weft_arena_t *arena, const weft_message_type_t *type,
                            const void *message) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_fields_encode_bytes(type, message, &text);
  weft_str_t copy = weft_arena_str(arena, weft_str_of(text.data, text.length));
  bool ok = !text.failed && copy.data != NULL && weft_texts_add(list, arena, copy);
  weft_strbuf_deinit(&text);
  return ok;
}
