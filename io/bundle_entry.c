/* io/bundle_entry.c - what is written about a tensor in a bundle's index, and under which key. */
#include <inttypes.h>

#include "io/bundle.h"
#include "protos/wire.h"

/* Field numbers of tensor_bundle.proto, tensor_shape.proto and tensor_slice.proto. */
enum {
  HEADER_SHARDS = 1, HEADER_ENDIANNESS = 2, HEADER_VERSION = 3, VERSION_PRODUCER = 1,
  ENTRY_DTYPE = 1, ENTRY_SHAPE = 2, ENTRY_SHARD = 3, ENTRY_OFFSET = 4, ENTRY_SIZE = 5, ENTRY_CRC = 6, ENTRY_SLICES = 7,
  SHAPE_DIM = 2, DIM_SIZE = 1,
  SLICE_EXTENT = 1, EXTENT_START = 1, EXTENT_LENGTH = 2,
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
  if (r.failed || shards < 0 || shards > 99999) return WEFT_ERROR(DATA_LOSS, "the header of a checkpoint is damaged");
  if (is_big_endian) return WEFT_ERROR(UNIMPLEMENTED, "the checkpoint was written on a big-endian machine");
  *out_num_shards = shards;
  return NULL;
}

/* ---- entries ---- */

void weft_bundle_entry_put(const weft_bundle_entry_t *e, weft_strbuf_t *out) {
  weft_wire_put_i64(out, ENTRY_DTYPE, e->dtype);
  size_t mark = weft_wire_begin(out, ENTRY_SHAPE);
  for (int i = 0; i < e->shape.rank; i++) {
    size_t dim = weft_wire_begin(out, SHAPE_DIM);
    weft_wire_put_i64(out, DIM_SIZE, e->shape.dims[i]);
    weft_wire_end(out, dim);
  }
  weft_wire_end(out, mark);
  weft_wire_put_i64(out, ENTRY_SHARD, e->shard);
  weft_wire_put_i64(out, ENTRY_OFFSET, e->offset);
  weft_wire_put_i64(out, ENTRY_SIZE, e->size);
  if (e->crc != 0) weft_wire_add_fixed32(out, ENTRY_CRC, e->crc);
  weft_strbuf_append(out, weft_str_of(e->slices.data, e->slices.length));
}

static bool get_shape(weft_str_t bytes, weft_shape_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f, g;
  int64_t dims[WEFT_MAX_DIMS];
  int rank = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(SHAPE_DIM, WEFT_WIRE_BYTES)) continue;
    if (rank == WEFT_MAX_DIMS) return false;
    int64_t size = 0;
    weft_wire_reader_t d = weft_wire_reader(f.bytes);
    while (weft_wire_next(&d, &g)) {
      if (g.tag == WEFT_WIRE_TAG(DIM_SIZE, WEFT_WIRE_VARINT)) size = weft_wire_i64(g.value);
    }
    if (d.failed) return false;
    dims[rank++] = size;
  }
  if (r.failed) return false;
  weft_status_t *s = weft_shape_make(dims, rank, out);
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
      case WEFT_WIRE_TAG(ENTRY_DTYPE, WEFT_WIRE_VARINT): e.dtype = (weft_dtype_t)weft_wire_i32(f.value); break;
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

void weft_bundle_slice_put(const weft_bundle_slice_t *slice, weft_strbuf_t *out) {
  size_t mark = weft_wire_begin(out, ENTRY_SLICES);
  for (int i = 0; i < slice->rank; i++) {
    size_t extent = weft_wire_begin(out, SLICE_EXTENT);
    if (!slice->is_full[i]) {
      weft_wire_put_i64(out, EXTENT_START, slice->start[i]);
      weft_wire_add_varint(out, EXTENT_LENGTH, (uint64_t)slice->length[i]);
    }
    weft_wire_end(out, extent);
  }
  weft_wire_end(out, mark);
}

static bool get_slice(weft_str_t bytes, const weft_shape_t *full, weft_bundle_slice_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f, g;
  *out = (weft_bundle_slice_t){0};
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(SLICE_EXTENT, WEFT_WIRE_BYTES)) continue;
    int i = out->rank++;
    if (i >= full->rank) return false;
    out->is_full[i] = true;
    out->length[i] = full->dims[i];
    weft_wire_reader_t e = weft_wire_reader(f.bytes);
    while (weft_wire_next(&e, &g)) {
      if (g.tag == WEFT_WIRE_TAG(EXTENT_START, WEFT_WIRE_VARINT)) out->start[i] = weft_wire_i64(g.value);
      if (g.tag != WEFT_WIRE_TAG(EXTENT_LENGTH, WEFT_WIRE_VARINT)) continue;
      out->length[i] = weft_wire_i64(g.value);
      out->is_full[i] = false;
    }
    bool fits = out->start[i] >= 0 && out->length[i] >= 0 && out->start[i] <= full->dims[i] &&
                out->length[i] <= full->dims[i] - out->start[i];
    if (e.failed || !fits) return false;
  }
  return !r.failed && out->rank == full->rank;
}

bool weft_bundle_slice_next(weft_str_t *rest, const weft_shape_t *full, weft_bundle_slice_t *out) {
  weft_wire_reader_t r = weft_wire_reader(*rest);
  weft_wire_field_t f;
  if (!weft_wire_next(&r, &f)) return false;
  *rest = weft_wire_rest(&r);
  return get_slice(f.bytes, full, out);
}

/* ---- keys: bytes whose order is that of what they stand for ---- */

/* Zero bytes and 0xff are followed by the other one; 00 01 ends the text. */
static void put_text(weft_str_t s, weft_strbuf_t *out) {
  for (size_t i = 0; i < s.length; i++) {
    weft_strbuf_putc(out, s.data[i]);
    if (s.data[i] == '\0') weft_strbuf_putc(out, '\xff');
    if (s.data[i] == '\xff') weft_strbuf_putc(out, '\0');
  }
  weft_strbuf_append(out, WEFT_STR("\0\1"));
}

/* The number of bytes, then the bytes, largest first. */
static void put_unsigned(uint64_t value, weft_strbuf_t *out) {
  int n = 0;
  while (n < 8 && value >> (8 * n) != 0) n++;
  weft_strbuf_putc(out, (char)n);
  while (n-- > 0) weft_strbuf_putc(out, (char)(value >> (8 * n)));
}

/* As few bytes as hold the number; as many leading bits as there are bytes are turned. */
static void put_signed(int64_t value, weft_strbuf_t *out) {
  uint64_t size = (uint64_t)(value < 0 ? ~value : value);
  int bits = 0;
  while (bits < 64 && size >> bits != 0) bits++;
  int n = bits / 7 + 1;
  uint8_t bytes[10];
  for (int i = 0; i < 10; i++) bytes[9 - i] = (uint8_t)(i < 8 ? (uint64_t)value >> (8 * i) : value < 0 ? 0xff : 0);
  unsigned mask = (0xffffu << (16 - n)) & 0xffffu;
  uint8_t *first = bytes + 10 - n;
  first[0] ^= (uint8_t)(mask >> 8);
  if (n > 1) first[1] ^= (uint8_t)mask;
  weft_strbuf_append(out, weft_str_of((const char *)first, (size_t)n));
}

void weft_bundle_slice_key(weft_str_t name, const weft_bundle_slice_t *slice, weft_strbuf_t *out) {
  put_unsigned(0, out);
  put_text(name, out);
  put_unsigned((uint64_t)slice->rank, out);
  for (int i = 0; i < slice->rank; i++) {
    put_signed(slice->is_full[i] ? 0 : slice->start[i], out);
    put_signed(slice->is_full[i] ? -1 : slice->length[i], out);
  }
}

/* ---- "10 20 0,5:-" ---- */

static weft_status_t *bad_spec(weft_str_t text, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s in shape_and_slice string: '%.*s'", why, WEFT_STR_ARGS(text));
}

static weft_status_t *parse_extents(weft_str_t text, weft_str_t rest, const weft_shape_t *full, weft_bundle_slice_t *out) {
  *out = (weft_bundle_slice_t){0};
  bool has_more = rest.length > 0 || full->rank > 0;
  while (has_more) {
    weft_str_t part = rest, tail = WEFT_STR(""), start, length;
    has_more = weft_str_split(rest, ':', &part, &tail);
    rest = tail;
    int i = out->rank++;
    if (i >= full->rank) return bad_spec(text, "more extents than dimensions");
    if (weft_str_is(part, "-")) {
      out->is_full[i] = true;
      out->length[i] = full->dims[i];
      continue;
    }
    if (!weft_str_split(part, ',', &start, &length) || !weft_str_to_i64(start, &out->start[i]) ||
        !weft_str_to_i64(length, &out->length[i]) || out->start[i] < 0 || out->length[i] <= 0) {
      return bad_spec(text, "Expected a pair of numbers or '-'");
    }
    if (out->start[i] > full->dims[i] || out->length[i] > full->dims[i] - out->start[i]) {
      return bad_spec(text, "a slice outside the tensor");
    }
  }
  return out->rank == full->rank ? NULL : bad_spec(text, "fewer extents than dimensions");
}

weft_status_t *weft_bundle_slice_parse(weft_str_t text, weft_shape_t *out_full, weft_bundle_slice_t *out_slice,
                                weft_shape_t *out_shape) {
  weft_str_t rest = text, word, tail;
  int64_t dims[WEFT_MAX_DIMS];
  int rank = 0;
  while (weft_str_split(rest, ' ', &word, &tail)) {
    if (rank == WEFT_MAX_DIMS || !weft_str_to_i64(word, &dims[rank]) || dims[rank] < 0) {
      return bad_spec(text, "Non numerical dimension");
    }
    rank++;
    rest = tail;
  }
  if (rank == 0) return bad_spec(text, "Need least two elements");
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, out_full));
  WEFT_RETURN_IF_ERROR(parse_extents(text, rest, out_full, out_slice));
  return weft_shape_make(out_slice->length, rank, out_shape);
}

/* ---- names of files ---- */

void weft_bundle_data_path(weft_str_t prefix, int64_t shard, int64_t num_shards, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%.*s.data-%05" PRId64 "-of-%05" PRId64, WEFT_STR_ARGS(prefix), shard, num_shards);
}

void weft_bundle_index_path(weft_str_t prefix, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%.*s.index", WEFT_STR_ARGS(prefix));
}
