/* tensor/shape_proto.c - field numbers of TensorShapeProto and ResourceHandleProto.
 *
 * Writing is done twice, once for the size and once for the bytes, so that a
 * nested message's length is known before its bytes are written.
 */
#include "tensor/shape_proto.h"

#include "protos/wire.h"

enum { SHAPE_DIM = 2, SHAPE_UNKNOWN_RANK = 3, DIM_SIZE = 1 };
enum {
  HANDLE_DEVICE = 1,
  HANDLE_CONTAINER,
  HANDLE_NAME,
  HANDLE_HASH_CODE,
  HANDLE_TYPE_NAME,
  HANDLE_DTYPES_AND_SHAPES
};
enum { DTYPE_AND_SHAPE_DTYPE = 1, DTYPE_AND_SHAPE_SHAPE = 2 };
enum { TENSORFLOW_MAX_DIMS = 254 };

static bool dim_size(weft_str_t bytes, int64_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(DIM_SIZE, WEFT_WIRE_VARINT)) *out = weft_wire_i64(f.value);
  }
  return !r.failed;
}

bool weft_shape_parts_add(weft_shape_parts_t *parts, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(SHAPE_DIM, WEFT_WIRE_BYTES)) {
      int64_t size;
      if (!dim_size(f.bytes, &size)) return false;
      if (parts->shape.rank < WEFT_MAX_DIMS) parts->shape.dims[parts->shape.rank] = size;
      if (parts->shape.rank <= TENSORFLOW_MAX_DIMS) parts->shape.rank++;
    } else if (f.tag == WEFT_WIRE_TAG(SHAPE_UNKNOWN_RANK, WEFT_WIRE_VARINT)) {
      parts->unknown_rank = f.value != 0;
    }
  }
  return !r.failed;
}

weft_status_t *weft_shape_parts_finish(const weft_shape_parts_t *parts, bool may_be_unknown,
                                       weft_shape_t *out) {
  weft_shape_t s = parts->shape;
  if (may_be_unknown && parts->unknown_rank) {
    if (s.rank > 0) return WEFT_ERROR(INVALID_ARGUMENT, "An unknown shape must not have any dimensions set.");
    *out = WEFT_UNKNOWN_SHAPE;
    return NULL;
  }
  if (s.rank > WEFT_MAX_DIMS) {
    bool too_many_for_all = s.rank > TENSORFLOW_MAX_DIMS;
    s.rank = WEFT_MAX_DIMS;
    if (too_many_for_all)
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s... has too many dimensions", WEFT_SHAPE_TEXT(&s));
    return WEFT_ERROR(UNIMPLEMENTED, "Shape %s... has %d dimensions; at most %d are supported",
                      WEFT_SHAPE_TEXT(&s), parts->shape.rank, WEFT_MAX_DIMS);
  }
  int64_t count = 1;
  for (int i = 0; i < s.rank; i++) {
    if (s.dims[i] < (may_be_unknown ? -1 : 0)) {
      if (!may_be_unknown)
        return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined", WEFT_SHAPE_TEXT(&s));
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Shape %s has dimensions with values below -1 (where -1 means unknown): %lld",
                        WEFT_SHAPE_TEXT(&s), (long long)s.dims[i]);
    }
    if (s.dims[i] == WEFT_UNKNOWN_DIM) {
      count = -1; /* from here on the product is unknown, and cannot be too large */
    } else if (count >= 0 && __builtin_mul_overflow(count, s.dims[i], &count)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is too large (more than 2**63 - 1 entries)",
                        WEFT_SHAPE_TEXT(&s));
    }
  }
  *out = s;
  return NULL;
}

static weft_status_t *from_proto(weft_str_t bytes, bool may_be_unknown, weft_shape_t *out) {
  weft_shape_parts_t parts = {.shape = WEFT_SCALAR};
  if (!weft_shape_parts_add(&parts, bytes)) return WEFT_ERROR(INVALID_ARGUMENT, "Malformed TensorShapeProto");
  return weft_shape_parts_finish(&parts, may_be_unknown, out);
}

weft_status_t *weft_shape_from_proto(weft_str_t bytes, weft_shape_t *out) {
  return from_proto(bytes, true, out);
}
weft_status_t *weft_shape_from_proto_known(weft_str_t bytes, weft_shape_t *out) {
  return from_proto(bytes, false, out);
}

static size_t dim_bytes(int64_t dim) { return dim == 0 ? 0 : weft_wire_size_varint(DIM_SIZE, (uint64_t)dim); }

size_t weft_shape_proto_size(const weft_shape_t *s) {
  size_t size = 0;
  if (s->rank < 0) return weft_wire_size_varint(SHAPE_UNKNOWN_RANK, 1);
  for (int i = 0; i < s->rank; i++) size += weft_wire_size_bytes(SHAPE_DIM, dim_bytes(s->dims[i]));
  return size;
}

void weft_shape_to_proto(const weft_shape_t *s, weft_strbuf_t *out) {
  if (s->rank < 0) weft_wire_add_varint(out, SHAPE_UNKNOWN_RANK, 1);
  for (int i = 0; i < s->rank; i++) {
    weft_wire_add_header(out, SHAPE_DIM, dim_bytes(s->dims[i]));
    weft_wire_put_i64(out, DIM_SIZE, s->dims[i]);
  }
}

/* ---- handles ---- */

typedef struct handle_fields {
  weft_str_t texts[HANDLE_DTYPES_AND_SHAPES + 1]; /* by field number */
  uint64_t hash_code;
  int dtype;
  weft_shape_t shape;
  bool has_dtype_and_shape;
} handle_fields_t;

static weft_status_t *malformed_handle(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Malformed ResourceHandleProto");
}

static weft_status_t *read_dtype_and_shape(weft_str_t bytes, handle_fields_t *out) {
  weft_shape_parts_t parts = {.shape = WEFT_SCALAR};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(DTYPE_AND_SHAPE_DTYPE, WEFT_WIRE_VARINT)) {
      out->dtype = weft_wire_i32(f.value);
    } else if (f.tag == WEFT_WIRE_TAG(DTYPE_AND_SHAPE_SHAPE, WEFT_WIRE_BYTES)) {
      if (!weft_shape_parts_add(&parts, f.bytes)) return malformed_handle();
    }
  }
  if (r.failed) return malformed_handle();
  out->has_dtype_and_shape = true;
  return weft_status_prefix(weft_shape_parts_finish(&parts, true, &out->shape),
                            "Malformed ResourceHandleProto: ");
}

weft_status_t *weft_handle_from_proto(weft_str_t bytes, weft_handle_t **out) {
  handle_fields_t h = {.dtype = WEFT_DTYPE_INVALID, .shape = WEFT_UNKNOWN_SHAPE};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(HANDLE_DEVICE, WEFT_WIRE_BYTES):
      case WEFT_WIRE_TAG(HANDLE_CONTAINER, WEFT_WIRE_BYTES):
      case WEFT_WIRE_TAG(HANDLE_NAME, WEFT_WIRE_BYTES):
      case WEFT_WIRE_TAG(HANDLE_TYPE_NAME, WEFT_WIRE_BYTES): h.texts[weft_wire_number(&f)] = f.bytes; break;
      case WEFT_WIRE_TAG(HANDLE_HASH_CODE, WEFT_WIRE_VARINT): h.hash_code = f.value; break;
      case WEFT_WIRE_TAG(HANDLE_DTYPES_AND_SHAPES, WEFT_WIRE_BYTES):
        if (!h.has_dtype_and_shape) WEFT_RETURN_IF_ERROR(read_dtype_and_shape(f.bytes, &h));
        break;
      default: break;
    }
  }
  if (r.failed) return malformed_handle();
  weft_handle_t *handle =
      weft_handle_create(h.texts[HANDLE_DEVICE], h.texts[HANDLE_CONTAINER], h.texts[HANDLE_NAME],
                         h.texts[HANDLE_TYPE_NAME], h.hash_code, NULL);
  if (handle == NULL) {
    return WEFT_NO_MEMORY("a handle of '%.*s'", WEFT_STR_ARGS(h.texts[HANDLE_NAME]));
  }
  bool is_value_type = weft_dtype_is_valid(h.dtype) && !weft_dtype_is_ref(h.dtype);
  handle->dtype = is_value_type ? (weft_dtype_t)h.dtype : WEFT_DTYPE_INVALID;
  handle->shape = h.shape;
  *out = handle;
  return NULL;
}

static size_t text_bytes(uint32_t number, weft_str_t text) {
  return text.length == 0 ? 0 : weft_wire_size_bytes(number, text.length);
}

static size_t dtype_and_shape_bytes(const weft_handle_t *h) {
  return weft_wire_size_varint(DTYPE_AND_SHAPE_DTYPE, h->dtype) +
         weft_wire_size_bytes(DTYPE_AND_SHAPE_SHAPE, weft_shape_proto_size(&h->shape));
}

size_t weft_handle_proto_size(const weft_handle_t *h) {
  if (h == NULL) return 0;
  size_t size = text_bytes(HANDLE_DEVICE, h->device) + text_bytes(HANDLE_CONTAINER, h->container) +
                text_bytes(HANDLE_NAME, h->name) + text_bytes(HANDLE_TYPE_NAME, h->type_name);
  if (h->hash_code != 0) size += weft_wire_size_varint(HANDLE_HASH_CODE, h->hash_code);
  if (h->dtype != WEFT_DTYPE_INVALID) {
    size += weft_wire_size_bytes(HANDLE_DTYPES_AND_SHAPES, dtype_and_shape_bytes(h));
  }
  return size;
}

void weft_handle_to_proto(const weft_handle_t *h, weft_strbuf_t *out) {
  if (h == NULL) return;
  weft_wire_put_bytes(out, HANDLE_DEVICE, h->device);
  weft_wire_put_bytes(out, HANDLE_CONTAINER, h->container);
  weft_wire_put_bytes(out, HANDLE_NAME, h->name);
  weft_wire_put_varint(out, HANDLE_HASH_CODE, h->hash_code);
  weft_wire_put_bytes(out, HANDLE_TYPE_NAME, h->type_name);
  if (h->dtype == WEFT_DTYPE_INVALID) return;
  weft_wire_add_header(out, HANDLE_DTYPES_AND_SHAPES, dtype_and_shape_bytes(h));
  weft_wire_add_varint(out, DTYPE_AND_SHAPE_DTYPE, h->dtype);
  weft_wire_add_header(out, DTYPE_AND_SHAPE_SHAPE, weft_shape_proto_size(&h->shape));
  weft_shape_to_proto(&h->shape, out);
}
