/* io/bundle_entry.c - what is written about a tensor in a bundle's index, and under which key. */
#include <inttypes.h>

#include "io/bundle.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"

/* Field numbers of tensor_bundle.proto. */
enum {
  HEADER_SHARDS = 1,
  HEADER_ENDIANNESS = 2,
  HEADER_VERSION = 3,
  VERSION_PRODUCER = 1,
  ENTRY_DTYPE = 1,
  ENTRY_SHAPE = 2,
  ENTRY_SHARD = 3,
  ENTRY_OFFSET = 4,
  ENTRY_SIZE = 5,
  ENTRY_CRC = 6,
  ENTRY_SLICES = 7,
};

/* ---- header ---- */

void weft_bundle_header_put(int64_t num_shards, weft_strbuf_t *out) {
  weft_wire_put_i64(out, HEADER_SHARDS, num_shards);
  size_t mark = weft_wire_begin(out, HEADER_VERSION);
  weft_wire_put_i64(out, VERSION_PRODUCER, 1);
  weft_wire_end(out, mark);
}

weft_status_t *weft_bundle_header_get(weft_str_t bytes, int64_t *out_num_shards) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int64_t shards = 0;
  bool is_big_endian = false;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(HEADER_SHARDS, WEFT_WIRE_VARINT)) shards = weft_wire_i32(f.value);
    if (f.tag == WEFT_WIRE_TAG(HEADER_ENDIANNESS, WEFT_WIRE_VARINT)) is_big_endian = f.value != 0;
  }
  if (r.failed || shards < 0 || shards > 99999)
    return WEFT_ERROR(DATA_LOSS, "the header of a checkpoint is damaged");
  if (is_big_endian) return WEFT_ERROR(UNIMPLEMENTED, "the checkpoint was written on a big-endian machine");
  *out_num_shards = shards;
  return NULL;
}

/* ---- entries ---- */

void weft_bundle_entry_put(const weft_bundle_entry_t *e, weft_strbuf_t *out) {
  weft_wire_put_i64(out, ENTRY_DTYPE, e->dtype);
  weft_wire_add_header(out, ENTRY_SHAPE, weft_shape_proto_size(&e->shape));
  weft_shape_to_proto(&e->shape, out);
  weft_wire_put_i64(out, ENTRY_SHARD, e->shard);
  weft_wire_put_i64(out, ENTRY_OFFSET, e->offset);
  weft_wire_put_i64(out, ENTRY_SIZE, e->size);
  if (e->crc != 0) weft_wire_add_fixed32(out, ENTRY_CRC, e->crc);
  weft_strbuf_append(out, weft_str_of(e->slices.data, e->slices.length));
}

static bool get_shape(weft_str_t bytes, weft_shape_t *out) {
  weft_status_t *s = weft_shape_from_proto_known(bytes, out);
  bool ok = s == NULL;
  weft_status_free(s);
  return ok;
}

weft_status_t *weft_bundle_entry_get(weft_str_t name, weft_str_t bytes, weft_bundle_entry_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_bundle_entry_t e = {0};
  bool ok = true;
  while (ok && weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(ENTRY_DTYPE, WEFT_WIRE_VARINT):
        e.dtype = (weft_dtype_t)weft_wire_i32(f.value);
        break;
      case WEFT_WIRE_TAG(ENTRY_SHAPE, WEFT_WIRE_BYTES): ok = get_shape(f.bytes, &e.shape); break;
      case WEFT_WIRE_TAG(ENTRY_SHARD, WEFT_WIRE_VARINT): e.shard = weft_wire_i32(f.value); break;
      case WEFT_WIRE_TAG(ENTRY_OFFSET, WEFT_WIRE_VARINT): e.offset = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(ENTRY_SIZE, WEFT_WIRE_VARINT): e.size = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(ENTRY_CRC, WEFT_WIRE_FIXED32): e.crc = (uint32_t)f.value; break;
      case WEFT_WIRE_TAG(ENTRY_SLICES, WEFT_WIRE_BYTES):
        weft_wire_add_bytes(&e.slices, ENTRY_SLICES, f.bytes);
        e.num_slices++;
        break;
      default: break;
    }
  }
  ok = ok && !r.failed && !e.slices.failed && e.offset >= 0 && e.size >= 0 && e.shard >= 0 &&
       weft_dtype_is_valid(e.dtype) && !weft_dtype_is_ref(e.dtype);
  if (!ok) {
    weft_strbuf_deinit(&e.slices);
    return WEFT_ERROR(DATA_LOSS, "the checkpoint's entry for %.*s is damaged", WEFT_STR_ARGS(name));
  }
  *out = e;
  return NULL;
}

/* ---- slices ---- */

void weft_bundle_slice_put(const weft_tensor_slice_t *slice, weft_strbuf_t *out) {
  weft_tensor_slice_put(slice, ENTRY_SLICES, out);
}

bool weft_bundle_slice_next(weft_str_t *rest, const weft_shape_t *full, weft_tensor_slice_t *out) {
  weft_wire_reader_t r = weft_wire_reader(*rest);
  weft_wire_field_t f;
  if (!weft_wire_next(&r, &f)) return false;
  *rest = weft_wire_rest(&r);
  return weft_tensor_slice_get(f.bytes, full, out);
}

/* ---- names of files ---- */

void weft_bundle_data_path(weft_str_t prefix, int64_t shard, int64_t num_shards, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%.*s.data-%05" PRId64 "-of-%05" PRId64, WEFT_STR_ARGS(prefix), shard, num_shards);
}

void weft_bundle_index_path(weft_str_t prefix, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%.*s.index", WEFT_STR_ARGS(prefix));
}
