/* tensor/tensor_proto.c - TensorProto, by hand.
 *
 * Reading takes two walks over the fields. The first finds dtype, shape and
 * content; only then is it known which typed field counts, how wide its elements
 * are and whether the sizes agree; the second, after the allocation, fills.
 *
 * Source: the rules of TensorFlow's Tensor::FromProto and its string list coding.
 */
#include "tensor/tensor_proto.h"

#include <assert.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "tensor/pack.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor_content is little-endian; a big-endian machine must swap it"
#endif

enum {
  DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_CONTENT = 4,
  STRING_VAL = 8,
  RESOURCE_HANDLE_VAL = 14,
  VARIANT_VAL = 15,
  VARIANT_TYPE_NAME = 1,
  VARIANT_METADATA = 2,
  VARIANT_TENSORS = 3,
  VARIANT_MAX_DEPTH = 64,    /* of variants in variants */
  TENSORFLOW_MAX_DTYPE = 33, /* DT_FLOAT4_E2M1FN */
};

/* Where the values of a dtype stand when they are not in tensor_content. */
typedef struct typed_field {
  uint8_t number, wire_type;
  uint8_t width;   /* of a scalar as stored in the tensor: the low bytes of the value on the wire */
  uint8_t scalars; /* per element: 2 for complex */
} typed_field_t;

static const typed_field_t typed_fields[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = {5, WEFT_WIRE_FIXED32, 4, 1},
    [WEFT_F64] = {6, WEFT_WIRE_FIXED64, 8, 1},
    [WEFT_I32] = {7, WEFT_WIRE_VARINT, 4, 1},
    [WEFT_U8] = {7, WEFT_WIRE_VARINT, 1, 1},
    [WEFT_I16] = {7, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_I8] = {7, WEFT_WIRE_VARINT, 1, 1},
    [WEFT_C64] = {9, WEFT_WIRE_FIXED32, 4, 2},
    [WEFT_I64] = {10, WEFT_WIRE_VARINT, 8, 1},
    [WEFT_BOOL] = {11, WEFT_WIRE_VARINT, 1, 1},
    [WEFT_QINT8] = {7, WEFT_WIRE_VARINT, 1, 1},
    [WEFT_QUINT8] = {7, WEFT_WIRE_VARINT, 1, 1},
    [WEFT_QINT32] = {7, WEFT_WIRE_VARINT, 4, 1},
    [WEFT_BF16] = {13, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_QINT16] = {7, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_QUINT16] = {7, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_U16] = {7, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_C128] = {12, WEFT_WIRE_FIXED64, 8, 2},
    [WEFT_F16] = {13, WEFT_WIRE_VARINT, 2, 1},
    [WEFT_U32] = {16, WEFT_WIRE_VARINT, 4, 1},
    [WEFT_U64] = {17, WEFT_WIRE_VARINT, 8, 1},
    [WEFT_STRING] = {STRING_VAL, WEFT_WIRE_BYTES, 0, 1},
    [WEFT_RESOURCE] = {RESOURCE_HANDLE_VAL, WEFT_WIRE_BYTES, 0, 1},
    [WEFT_VARIANT] = {VARIANT_VAL, WEFT_WIRE_BYTES, 0, 1},
};

#define REFUSED "Cannot parse tensor from proto: "

static weft_status_t *malformed(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "malformed TensorProto");
}

/* ---- the head ---- */

typedef struct raw_head {
  int dtype;
  weft_shape_parts_t shape;
  weft_str_t content;
} raw_head_t;

static bool take_field(const weft_wire_field_t *f, raw_head_t *head) {
  switch (f->tag) {
    case WEFT_WIRE_TAG(DTYPE, WEFT_WIRE_VARINT): head->dtype = weft_wire_i32(f->value); return true;
    case WEFT_WIRE_TAG(TENSOR_SHAPE, WEFT_WIRE_BYTES): return weft_shape_parts_add(&head->shape, f->bytes);
    case WEFT_WIRE_TAG(TENSOR_CONTENT, WEFT_WIRE_BYTES): head->content = f->bytes; return true;
    default: return true;
  }
}

static weft_status_t *check_head(const raw_head_t *raw, weft_tensor_head_t *out) {
  if (raw->dtype > 0 && raw->dtype <= TENSORFLOW_MAX_DTYPE && !weft_dtype_is_valid(raw->dtype)) {
    return WEFT_ERROR(UNIMPLEMENTED, REFUSED "tensors of DataType %d are not supported", raw->dtype);
  }
  if (!weft_dtype_is_valid(raw->dtype) || weft_dtype_is_ref(raw->dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "%d (%s) is not the type of a value", raw->dtype,
                      weft_dtype_enum_name(raw->dtype));
  }
  weft_tensor_head_t head = {.dtype = (weft_dtype_t)raw->dtype, .content = raw->content};
  WEFT_RETURN_IF_ERROR(weft_status_prefix(weft_shape_parts_finish(&raw->shape, false, &head.shape), REFUSED));
  head.count = weft_shape_count(&head.shape);
  size_t bytes;
  if (!weft_mul_size((size_t)head.count, weft_dtype_size(head.dtype), &bytes) || bytes > PTRDIFF_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "a tensor of type %s and shape %s is too large",
                      weft_dtype_name(head.dtype), WEFT_SHAPE_TEXT(&head.shape));
  }
  *out = head;
  return NULL;
}

weft_status_t *weft_tensor_proto_read_head(weft_str_t bytes, weft_tensor_head_t *out) {
  raw_head_t raw = {.shape = {.shape = WEFT_SCALAR}};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (!take_field(&f, &raw)) return malformed();
  }
  if (r.failed) return malformed();
  return check_head(&raw, out);
}

bool weft_tensor_proto_peek(weft_str_t prefix, size_t total, weft_tensor_head_t *out, size_t *payload_at) {
  raw_head_t raw = {.shape = {.shape = WEFT_SCALAR}};
  weft_wire_reader_t r = weft_wire_reader(prefix);
  weft_wire_field_t f;
  for (;;) {
    uint64_t tag, length;
    const uint8_t *p = weft_wire_get_varint(r.p, r.end, &tag);
    if (p == NULL) return false;
    if (tag == WEFT_WIRE_TAG(TENSOR_CONTENT, WEFT_WIRE_BYTES)) {
      p = weft_wire_get_varint(p, r.end, &length);
      if (p == NULL) return false;
      size_t at = (size_t)(p - (const uint8_t *)prefix.data);
      weft_tensor_head_t head;
      if (total < at || length == 0 || length != total - at) return false;
      weft_status_t *s = check_head(&raw, &head);
      bool ok = s == NULL && weft_dtype_is_plain(head.dtype) &&
                (uint64_t)head.count * weft_dtype_size(head.dtype) == length;
      weft_status_free(s);
      if (!ok) return false;
      *out = head;
      *payload_at = at;
      return true;
    }
    if (!weft_wire_next(&r, &f) || !take_field(&f, &raw)) return false;
  }
}

/* ---- plain values ---- */

static void store(uint8_t *to, uint64_t value, const typed_field_t *field, bool is_bool) {
  if (is_bool) value = value != 0;
  memcpy(to, &value, field->width); /* little-endian: the low bytes */
}

/* Copies the scalars of one occurrence until `to` is full. */
static bool take_scalars(const weft_wire_field_t *f, const typed_field_t *field, bool is_bool, uint8_t *to,
                         size_t want, size_t *got) {
  uint64_t value;
  if (weft_wire_type(f) == WEFT_WIRE_BYTES && field->wire_type != WEFT_WIRE_VARINT) {
    size_t n = f->bytes.length / field->width; /* fixed width: as wide on the wire as in the tensor */
    if (f->bytes.length % field->width != 0) return false;
    if (n > want - *got) n = want - *got;
    if (n > 0) memcpy(to + *got * field->width, f->bytes.data, n * field->width);
    *got += n;
    return true;
  }
  weft_wire_values_t v = weft_wire_values(f, field->wire_type);
  while (weft_wire_next_value(&v, &value)) {
    if (*got < want) store(to + (*got)++ * field->width, value, field, is_bool);
  }
  return !v.failed;
}

/* Fills [from, bytes) with copies of the `size` bytes before `from`, doubling what it copies. */
static void repeat_last(uint8_t *data, size_t from, size_t size, size_t bytes) {
  const uint8_t *unit = data + from - size;
  for (size_t have = size; from < bytes;) {
    size_t n = have < bytes - from ? have : bytes - from;
    memcpy(data + from, unit, n);
    from += n;
    have += n;
  }
}

static weft_status_t *fill_plain(weft_str_t bytes, weft_tensor_t *t) {
  const typed_field_t *field = &typed_fields[t->dtype];
  size_t want = (size_t)t->count * field->scalars, got = 0, size = weft_dtype_size(t->dtype);
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != field->number) continue;
    if (!take_scalars(&f, field, t->dtype == WEFT_BOOL, t->data, want, &got)) return malformed();
  }
  size_t from = got / field->scalars * size;
  if (from == 0) {
    memset(t->data, 0, t->bytes);
  } else {
    repeat_last(t->data, from, size, t->bytes);
  }
  return NULL;
}

/* ---- strings, handles, variants ---- */

static weft_status_t *set_handle(weft_tensor_t *t, int64_t i, weft_str_t bytes) {
  weft_handle_t **slot = (weft_handle_t **)t->data + i;
  weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_status_prefix(weft_handle_from_proto(bytes, &h), REFUSED));
  weft_handle_release(*slot);
  *slot = h;
  return NULL;
}

/* Variants in variants that this thread is reading or writing: a message may not take the stack away. */
static _Thread_local int depth;

static weft_status_t *too_deep(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "variants are nested more than %d deep",
                    (int)VARIANT_MAX_DEPTH);
}

/* The tensors of a pack, of which there are `count` in the message. */
static weft_status_t *read_items(weft_str_t bytes, weft_pack_t *p) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int n = 0;
  while (n < p->count && weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(VARIANT_TENSORS, WEFT_WIRE_BYTES))
      WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(f.bytes, &p->items[n++]));
  }
  return NULL;
}

/* A variant without a type is empty; of those that are no packs we cannot know what to make. */
static weft_status_t *set_variant(weft_tensor_t *t, int64_t i, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t type_name = {NULL, 0};
  weft_pack_t *p = NULL;
  int count = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(VARIANT_TYPE_NAME, WEFT_WIRE_BYTES)) type_name = f.bytes;
    count += f.tag == WEFT_WIRE_TAG(VARIANT_TENSORS, WEFT_WIRE_BYTES);
  }
  if (r.failed) return malformed();
  if (type_name.length == 0) return NULL;
  const weft_pack_type_t *type = weft_pack_type_named(type_name);
  if (type == NULL)
    return WEFT_ERROR(UNIMPLEMENTED, REFUSED "variants of type '%.*s' cannot travel",
                      WEFT_STR_ARGS(type_name));
  if (depth == VARIANT_MAX_DEPTH) return too_deep();
  WEFT_RETURN_IF_ERROR(weft_pack_create(type, count, &p));
  depth++;
  weft_status_t *s = read_items(bytes, p);
  depth--;
  if (s != NULL) {
    weft_variant_release(&p->variant);
    return s;
  }
  weft_variant_t **slot = (weft_variant_t **)t->data + i;
  weft_variant_release(*slot);
  *slot = &p->variant;
  return NULL;
}

static weft_status_t *set_element(weft_tensor_t *t, int64_t i, weft_str_t bytes) {
  if (t->dtype == WEFT_STRING) return weft_tensor_set_str(t, i, bytes);
  if (t->dtype == WEFT_RESOURCE) return set_handle(t, i, bytes);
  return set_variant(t, i, bytes);
}

static weft_status_t *fill_elements(weft_str_t bytes, weft_tensor_t *t) {
  uint32_t tag = WEFT_WIRE_TAG(typed_fields[t->dtype].number, WEFT_WIRE_BYTES);
  int64_t got = 0;
  weft_str_t last = {NULL, 0};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (got < t->count && weft_wire_next(&r, &f)) {
    if (f.tag != tag) continue;
    last = f.bytes;
    WEFT_RETURN_IF_ERROR(set_element(t, got++, last));
  }
  if (t->dtype != WEFT_STRING || last.length == 0) return NULL; /* new elements are empty */
  size_t fill;
  if (last.length > WEFT_TSTRING_SMALL_MAX &&
      (!weft_mul_size((size_t)(t->count - got), last.length, &fill) || fill > WEFT_TENSOR_PROTO_MAX_FILL)) {
    return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "shape %s would repeat a string of %zu bytes too often",
                      WEFT_SHAPE_TEXT(&t->shape), last.length);
  }
  for (; got < t->count; got++) WEFT_RETURN_IF_ERROR(weft_tensor_set_str(t, got, last));
  return NULL;
}

/* tensor_content of strings: all lengths as varints, then all bytes; the sum must come out exactly. */
static weft_status_t *check_list_content(const weft_tensor_head_t *head, const uint8_t **out_first) {
  const uint8_t *p = (const uint8_t *)head->content.data, *end = p + head->content.length;
  uint64_t length, sum = 0;
  for (int64_t i = 0; i < head->count; i++) {
    p = weft_wire_get_varint(p, end, &length);
    if (p == NULL || length > UINT32_MAX) goto bad;
    sum += length; /* at most 2^32 for each byte of content: no overflow */
  }
  if (sum != (uint64_t)(end - p)) goto bad;
  *out_first = p;
  return NULL;
bad:
  return WEFT_ERROR(INVALID_ARGUMENT,
                    REFUSED "%zu bytes of tensor_content do not hold %s elements of shape %s",
                    head->content.length, weft_dtype_name(head->dtype), WEFT_SHAPE_TEXT(&head->shape));
}

static weft_status_t *fill_from_list(weft_str_t content, const uint8_t *element, weft_tensor_t *t) {
  const uint8_t *p = (const uint8_t *)content.data, *end = p + content.length;
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t length = 0;
    p = weft_wire_get_varint(p, end, &length);
    assert(p != NULL); /* check_list_content has walked here */
    WEFT_RETURN_IF_ERROR(set_element(t, i, weft_str_of((const char *)element, (size_t)length)));
    element += length;
  }
  return NULL;
}

/* ---- decoding ---- */

/* How many elements the typed field brings. */
static size_t count_given(weft_str_t bytes, const typed_field_t *field) {
  size_t n = 0;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != field->number) continue;
    if (field->wire_type == WEFT_WIRE_BYTES) {
      n += weft_wire_type(&f) == WEFT_WIRE_BYTES;
      continue;
    }
    weft_wire_values_t v = weft_wire_values(&f, field->wire_type);
    n += weft_wire_count_values(&v);
  }
  return n / field->scalars;
}

/* Refuses, before anything is allocated, what the message cannot fill. */
static weft_status_t *check_size(weft_str_t bytes, const weft_tensor_head_t *head) {
  size_t size = weft_dtype_size(head->dtype), need = (size_t)head->count * size;
  if (head->content.length > 0 && weft_dtype_is_plain(head->dtype)) {
    if (head->content.length == need) return NULL;
    return WEFT_ERROR(
        INVALID_ARGUMENT, REFUSED "%zu bytes of tensor_content for type %s and shape %s, which needs %zu",
        head->content.length, weft_dtype_name(head->dtype), WEFT_SHAPE_TEXT(&head->shape), need);
  }
  if (head->content.length > 0 || need <= WEFT_TENSOR_PROTO_MAX_FILL) return NULL;
  size_t given = count_given(bytes, &typed_fields[head->dtype]);
  if (given >= (size_t)head->count || need - given * size <= WEFT_TENSOR_PROTO_MAX_FILL) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    REFUSED
                    "type %s and shape %s need %zu bytes, but only %zu elements are given; at most %zu bytes "
                    "are filled by repetition",
                    weft_dtype_name(head->dtype), WEFT_SHAPE_TEXT(&head->shape), need, given,
                    WEFT_TENSOR_PROTO_MAX_FILL);
}

static weft_status_t *decode(weft_str_t bytes, const weft_tensor_head_t *head, weft_tensor_t **out) {
  weft_status_t *s = NULL;
  weft_tensor_t *t = NULL;
  const uint8_t *first = NULL;
  bool from_list = head->count > 0 && head->content.length > 0 && !weft_dtype_is_plain(head->dtype);
  if (from_list) {
    s = check_list_content(head, &first);
    if (s != NULL) goto done;
  }
  s = weft_tensor_new(head->dtype, &head->shape, NULL, &t);
  if (s != NULL) goto done;
  if (from_list) {
    s = fill_from_list(head->content, first, t);
  } else if (t->count == 0) {
    s = NULL; /* an empty tensor has nothing to fill, whatever the message brings */
  } else if (!weft_dtype_is_plain(t->dtype)) {
    s = fill_elements(bytes, t);
  } else if (head->content.length > 0) {
    memcpy(t->data, head->content.data, t->bytes);
  } else {
    s = fill_plain(bytes, t);
  }
  if (s != NULL) goto done;
  *out = t;
  t = NULL;
done:
  weft_tensor_release(t);
  return s;
}

weft_status_t *weft_tensor_from_proto_shared(weft_str_t bytes, weft_dealloc_fn *dealloc, void *arg,
                                             bool *out_shared, weft_tensor_t **out) {
  weft_tensor_head_t head;
  WEFT_RETURN_IF_ERROR(weft_tensor_proto_read_head(bytes, &head));
  if (head.count > 0) WEFT_RETURN_IF_ERROR(check_size(bytes, &head));
  size_t size = weft_dtype_size(head.dtype), alignment = weft_dtype_is_complex(head.dtype) ? size / 2 : size;
  bool share = dealloc != NULL && head.count > 0 && weft_dtype_is_plain(head.dtype) &&
               head.content.length >= WEFT_TENSOR_PROTO_MIN_SHARE &&
               (uintptr_t)head.content.data % alignment == 0;
  if (share) {
    WEFT_RETURN_IF_ERROR(weft_tensor_wrap(head.dtype, &head.shape, (void *)(uintptr_t)head.content.data,
                                          head.content.length, dealloc, arg, out));
  } else {
    WEFT_RETURN_IF_ERROR(decode(bytes, &head, out));
  }
  *out_shared = share;
  return NULL;
}

weft_status_t *weft_tensor_from_proto(weft_str_t bytes, weft_tensor_t **out) {
  bool shared;
  return weft_tensor_from_proto_shared(bytes, NULL, NULL, &shared, out);
}

weft_status_t *weft_tensor_from_proto_values(weft_str_t bytes, weft_dtype_t dtype, const weft_shape_t *shape,
                                             weft_tensor_t **out) {
  weft_tensor_head_t head = {.dtype = dtype, .shape = *shape, .count = weft_shape_count(shape)};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) continue;
  if (r.failed) return malformed();
  size_t given = count_given(bytes, &typed_fields[dtype]);
  if (head.count < 0 || given < (size_t)head.count) {
    return WEFT_ERROR(INVALID_ARGUMENT, REFUSED "%zu elements are given for shape %s", given,
                      WEFT_SHAPE_TEXT(shape));
  }
  return decode(bytes, &head, out);
}

/* ---- encoding ---- */

static weft_handle_t *const *handles_of(const weft_tensor_t *t) { return t->data; }
static weft_variant_t *const *variants_of(const weft_tensor_t *t) { return t->data; }

/* Bytes of a variant's message; of one that cannot travel, or lies too deep, 0. */
static size_t variant_size(const weft_variant_t *v) {
  const weft_pack_type_t *type = weft_pack_type_of(v);
  if (type == NULL || depth == VARIANT_MAX_DEPTH) return 0;
  const weft_pack_t *p = (const weft_pack_t *)v;
  size_t size = weft_wire_size_bytes(VARIANT_TYPE_NAME, strlen(type->variant.name));
  if (type->metadata != NULL) size += weft_wire_size_bytes(VARIANT_METADATA, WEFT_PACK_METADATA);
  depth++;
  for (int i = 0; i < p->count; i++)
    size += weft_wire_size_bytes(VARIANT_TENSORS, weft_tensor_proto_size(p->items[i]));
  depth--;
  return size;
}

static weft_status_t *put_variant(const weft_variant_t *v, weft_strbuf_t *out) {
  const weft_pack_type_t *type = weft_pack_type_of(v);
  if (v == NULL) return NULL;
  if (type == NULL) return WEFT_ERROR(UNIMPLEMENTED, "variants of type '%s' cannot travel", v->type->name);
  if (depth == VARIANT_MAX_DEPTH) return too_deep();
  const weft_pack_t *p = (const weft_pack_t *)v;
  weft_wire_add_bytes(out, VARIANT_TYPE_NAME, weft_str(type->variant.name));
  if (type->metadata != NULL) {
    weft_wire_add_header(out, VARIANT_METADATA, WEFT_PACK_METADATA);
    type->metadata(p, out);
  }
  weft_status_t *s = NULL;
  depth++;
  for (int i = 0; i < p->count && s == NULL; i++) {
    weft_wire_add_header(out, VARIANT_TENSORS, weft_tensor_proto_size(p->items[i]));
    s = weft_tensor_to_proto(p->items[i], out);
  }
  depth--;
  return s;
}

weft_status_t *weft_tensor_variant_to_proto(const weft_tensor_t *t, int64_t i, weft_strbuf_t *out) {
  return put_variant(variants_of(t)[i], out);
}

weft_status_t *weft_tensor_variant_from_proto(weft_tensor_t *t, int64_t i, weft_str_t bytes) {
  return set_variant(t, i, bytes);
}

/* Bytes of element `i` in its typed field. */
static size_t element_size(const weft_tensor_t *t, int64_t i) {
  if (t->dtype == WEFT_STRING) return weft_tensor_str_at(t, i).length;
  if (t->dtype == WEFT_VARIANT) return variant_size(variants_of(t)[i]);
  return weft_handle_proto_size(handles_of(t)[i]);
}

size_t weft_tensor_proto_size(const weft_tensor_t *t) {
  size_t size = weft_wire_size_varint(DTYPE, t->dtype) +
                weft_wire_size_bytes(TENSOR_SHAPE, weft_shape_proto_size(&t->shape));
  if (weft_dtype_is_plain(t->dtype)) {
    return t->bytes == 0 ? size : size + weft_wire_size_bytes(TENSOR_CONTENT, t->bytes);
  }
  for (int64_t i = 0; i < t->count; i++) {
    size += weft_wire_size_bytes(typed_fields[t->dtype].number, element_size(t, i));
  }
  return size;
}

static void put_head(const weft_tensor_t *t, weft_strbuf_t *out) {
  weft_wire_add_varint(out, DTYPE, t->dtype);
  weft_wire_add_header(out, TENSOR_SHAPE, weft_shape_proto_size(&t->shape));
  weft_shape_to_proto(&t->shape, out);
}

void weft_tensor_proto_header(const weft_tensor_t *t, weft_strbuf_t *out) {
  assert(weft_dtype_is_plain(t->dtype));
  put_head(t, out);
  if (t->bytes > 0) weft_wire_add_header(out, TENSOR_CONTENT, t->bytes);
}

static weft_status_t *put_elements(const weft_tensor_t *t, weft_strbuf_t *out) {
  uint32_t number = typed_fields[t->dtype].number;
  for (int64_t i = 0; i < t->count && !out->failed; i++) {
    weft_wire_add_header(out, number, element_size(t, i));
    if (t->dtype == WEFT_STRING) weft_strbuf_append(out, weft_tensor_str_at(t, i));
    if (t->dtype == WEFT_RESOURCE) weft_handle_to_proto(handles_of(t)[i], out);
    if (t->dtype == WEFT_VARIANT) WEFT_RETURN_IF_ERROR(put_variant(variants_of(t)[i], out));
  }
  return NULL;
}

weft_status_t *weft_tensor_to_proto(const weft_tensor_t *t, weft_strbuf_t *out) {
  if (weft_dtype_is_plain(t->dtype)) {
    weft_tensor_proto_header(t, out);
    weft_strbuf_append(out, weft_str_of(t->data, t->bytes));
  } else {
    put_head(t, out);
    WEFT_RETURN_IF_ERROR(put_elements(t, out));
  }
  if (out->failed) return WEFT_NO_MEMORY("encoding a tensor of shape %s", WEFT_SHAPE_TEXT(&t->shape));
  return NULL;
}

weft_status_t *weft_tensor_to_proto_content(const weft_tensor_t *t, weft_strbuf_t *out) {
  size_t length = 0;
  if (t->dtype != WEFT_STRING || t->count == 0) return weft_tensor_to_proto(t, out);
  for (int64_t i = 0; i < t->count; i++) {
    size_t of_text = weft_tensor_str_at(t, i).length;
    length += weft_wire_varint_size(of_text) + of_text;
  }
  put_head(t, out);
  weft_wire_add_header(out, TENSOR_CONTENT, length);
  for (int64_t i = 0; i < t->count; i++) weft_wire_add_raw_varint(out, weft_tensor_str_at(t, i).length);
  for (int64_t i = 0; i < t->count; i++) weft_strbuf_append(out, weft_tensor_str_at(t, i));
  return out->failed ? WEFT_NO_MEMORY("encoding a tensor of shape %s", WEFT_SHAPE_TEXT(&t->shape)) : NULL;
}

/* ---- encoding values alone ---- */

static int64_t int_at(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_I8:
    case WEFT_QINT8: return ((const int8_t *)t->data)[i];
    case WEFT_U8:
    case WEFT_QUINT8:
    case WEFT_BOOL: return ((const uint8_t *)t->data)[i];
    case WEFT_I16:
    case WEFT_QINT16: return ((const int16_t *)t->data)[i];
    case WEFT_I32:
    case WEFT_QINT32: return ((const int32_t *)t->data)[i];
    case WEFT_U32: return ((const uint32_t *)t->data)[i];
    case WEFT_I64:
    case WEFT_U64: return ((const int64_t *)t->data)[i];
    default: return ((const uint16_t *)t->data)[i];
  }
}

weft_status_t *weft_tensor_to_proto_values(const weft_tensor_t *t, weft_strbuf_t *out) {
  const typed_field_t *field = &typed_fields[t->dtype];
  if (field->wire_type == WEFT_WIRE_BYTES) {
    WEFT_RETURN_IF_ERROR(put_elements(t, out));
  } else if (t->count > 0 && field->wire_type != WEFT_WIRE_VARINT) {
    weft_wire_add_bytes(out, field->number,
                        weft_str_of(t->data, t->bytes)); /* as wide on the wire as in memory */
  } else if (t->count > 0) {
    size_t length = 0;
    for (int64_t i = 0; i < t->count; i++) length += weft_wire_varint_size((uint64_t)int_at(t, i));
    weft_wire_add_header(out, field->number, length);
    uint8_t *to = weft_wire_room(out, length);
    for (int64_t i = 0; to != NULL && i < t->count; i++)
      to = weft_wire_store_varint(to, (uint64_t)int_at(t, i));
    if (to != NULL) weft_wire_advance(out, to);
  }
  return out->failed ? WEFT_NO_MEMORY("encoding a tensor of shape %s", WEFT_SHAPE_TEXT(&t->shape)) : NULL;
}
