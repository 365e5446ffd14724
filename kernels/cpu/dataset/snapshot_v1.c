/* kernels/cpu/dataset/snapshot_v1.c - records of snapshots of version 1, from and to bytes. */
#include "kernels/cpu/dataset/snapshot_v1.h"

#include <inttypes.h>
#include <snappy-c.h>
#include <string.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"

enum {
  RECORD_TENSOR = 1, /* fields of SnapshotRecord, SnapshotTensorMetadata, TensorMetadata */
  METADATA_TENSOR = 1,
  TENSOR_SHAPE = 2,
  TENSOR_BYTES = 3,
  MOST_OF_A_BYTE = 64 /* that Snappy makes of one: a copy of 64 bytes takes 3 */
};

/* ---- writing ---- */

static weft_status_t *put_record(weft_record_writer_t *w, const weft_strbuf_t *bytes) {
  char head[8];
  if (bytes->failed) return WEFT_NO_MEMORY("an element of a snapshot");
  for (int i = 0; i < 8; i++) head[i] = (char)((uint64_t)bytes->length >> (8 * i));
  WEFT_RETURN_IF_ERROR(weft_record_writer_put_plain(w, weft_str_of(head, sizeof head)));
  return weft_record_writer_put_plain(w, weft_str_of(bytes->data, bytes->length));
}

static weft_status_t *put_message(weft_record_writer_t *w, const weft_element_spec_t *spec,
                                  weft_tensor_t *const *element) {
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < spec->n; i++) {
    const size_t at = weft_wire_begin(&record, RECORD_TENSOR);
    s = weft_tensor_to_proto_content(element[i], &record);
    weft_wire_end(&record, at);
  }
  if (s == NULL) s = put_record(w, &record);
  weft_strbuf_deinit(&record);
  return s;
}

/* Appends the bytes of a component, and what the metadata say of it. */
static weft_status_t *put_component(const weft_tensor_t *t, weft_strbuf_t *bytes, weft_strbuf_t *metadata) {
  const size_t before = bytes->length;
  weft_status_t *s = NULL;
  if (weft_dtype_is_plain(t->dtype)) {
    weft_strbuf_append(bytes, weft_str_of(t->data, t->bytes));
  } else {
    s = weft_tensor_to_proto_content(t, bytes);
  }
  const size_t one = weft_wire_begin(metadata, METADATA_TENSOR),
               shape = weft_wire_begin(metadata, TENSOR_SHAPE);
  weft_shape_to_proto(&t->shape, metadata);
  weft_wire_end(metadata, shape);
  weft_wire_put_i64(metadata, TENSOR_BYTES, (int64_t)(bytes->length - before));
  weft_wire_end(metadata, one);
  return s;
}

static weft_status_t *put_compressed(weft_record_writer_t *w, const weft_strbuf_t *bytes) {
  size_t n = snappy_max_compressed_length(bytes->length);
  if (bytes->failed || bytes->length > UINT32_MAX) return WEFT_NO_MEMORY("an element of a snapshot");
  weft_strbuf_t packed = WEFT_STRBUF_INIT;
  char *to = weft_strbuf_reserve(&packed, n);
  weft_status_t *s = to == NULL ? WEFT_NO_MEMORY("an element of a snapshot") : NULL;
  if (s == NULL && snappy_compress(bytes->data, bytes->length, to, &n) != SNAPPY_OK)
    s = WEFT_ERROR(INTERNAL, "Failed to compress using snappy.");
  packed.length = n;
  if (s == NULL) s = put_record(w, &packed);
  weft_strbuf_deinit(&packed);
  return s;
}

static weft_status_t *put_snappy(weft_record_writer_t *w, const weft_element_spec_t *spec,
                                 weft_tensor_t *const *element) {
  weft_strbuf_t metadata = WEFT_STRBUF_INIT, bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < spec->n; i++) s = put_component(element[i], &bytes, &metadata);
  if (s == NULL) s = put_record(w, &metadata);
  if (s == NULL) s = put_compressed(w, &bytes);
  weft_strbuf_deinit(&metadata);
  weft_strbuf_deinit(&bytes);
  return s;
}

weft_status_t *weft_snapshot_v1_put(weft_record_writer_t *w, bool is_snappy, const weft_element_spec_t *spec,
                                    weft_tensor_t *const *element) {
  return is_snappy ? put_snappy(w, spec, element) : put_message(w, spec, element);
}

/* ---- reading ---- */

static weft_status_t *damaged(uint64_t offset, const char *what) {
  return WEFT_ERROR(DATA_LOSS, "%s record of a snapshot at %" PRIu64, what, offset);
}

/* Appends the next record to `out`. */
static weft_status_t *next_record(weft_byte_stream_t *s, weft_strbuf_t *out, bool *is_over) {
  const uint64_t offset = weft_byte_stream_position(s);
  weft_str_t head;
  uint64_t got = 0;
  WEFT_RETURN_IF_ERROR(weft_byte_stream_peek(s, 8, &head));
  *is_over = head.length == 0;
  if (*is_over) return NULL;
  if (head.length < 8) return damaged(offset, "truncated");
  const uint64_t n = weft_wire_load64(head.data);
  weft_byte_stream_take(s, 8);
  if (n > INT32_MAX) return damaged(offset, "damaged"); /* no message is so long */
  if (n > weft_byte_stream_rest(s)) return damaged(offset, "truncated");
  WEFT_RETURN_IF_ERROR(weft_byte_stream_read(s, n, out, &got));
  return got == n ? NULL : damaged(offset, "truncated");
}

static weft_status_t *take_message(weft_str_t message, weft_dtype_t dtype, uint64_t offset,
                                   weft_tensor_t **out) {
  WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(message, out));
  return (*out)->dtype == dtype ? NULL : damaged(offset, "another type in the");
}

static weft_status_t *read_message(weft_str_t record, uint64_t offset, const weft_element_spec_t *spec,
                                   weft_tensor_t **out) {
  weft_wire_reader_t r = weft_wire_reader(record);
  int n = 0;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(RECORD_TENSOR, WEFT_WIRE_BYTES)) continue;
    if (n == spec->n) return damaged(offset, "damaged");
    WEFT_RETURN_IF_ERROR(take_message(f.bytes, spec->dtypes[n], offset, &out[n]));
    n++;
  }
  return n == spec->n && !r.failed ? NULL : damaged(offset, "damaged");
}

/* A component of `bytes`, of which it takes what the metadata say. */
static weft_status_t *take_component(weft_str_t metadata, weft_str_t *bytes, weft_dtype_t dtype,
                                     uint64_t offset, weft_tensor_t **out) {
  weft_wire_reader_t r = weft_wire_reader(metadata);
  weft_str_t proto = WEFT_STR("");
  weft_shape_t shape;
  uint64_t n = 0;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(TENSOR_SHAPE, WEFT_WIRE_BYTES)) proto = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(TENSOR_BYTES, WEFT_WIRE_VARINT)) n = f.value;
  }
  if (r.failed || n > bytes->length) return damaged(offset, "damaged");
  const weft_str_t mine = weft_str_of(bytes->data, (size_t)n);
  *bytes = weft_str_of(bytes->data + n, bytes->length - (size_t)n);
  if (!weft_dtype_is_plain(dtype)) return take_message(mine, dtype, offset, out);
  WEFT_RETURN_IF_ERROR(weft_shape_from_proto_known(proto, &shape));
  const int64_t count = weft_shape_count(&shape), size = (int64_t)weft_dtype_size(dtype);
  if (count < 0 || count != (int64_t)n / size || (int64_t)n % size != 0) return damaged(offset, "damaged");
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, NULL, out));
  if (n > 0) memcpy((*out)->data, mine.data, (size_t)n);
  return NULL;
}

static weft_status_t *take_components(weft_str_t metadata, weft_str_t bytes, uint64_t offset,
                                      const weft_element_spec_t *spec, weft_tensor_t **out) {
  weft_wire_reader_t r = weft_wire_reader(metadata);
  int n = 0;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(METADATA_TENSOR, WEFT_WIRE_BYTES)) continue;
    if (n == spec->n) return damaged(offset, "damaged");
    WEFT_RETURN_IF_ERROR(take_component(f.bytes, &bytes, spec->dtypes[n], offset, &out[n]));
    n++;
  }
  return n == spec->n && bytes.length == 0 && !r.failed ? NULL : damaged(offset, "damaged");
}

static weft_status_t *unpack(weft_str_t packed, uint64_t offset, weft_strbuf_t *out) {
  size_t n = 0;
  if (snappy_uncompressed_length(packed.data, packed.length, &n) != SNAPPY_OK ||
      n / MOST_OF_A_BYTE > packed.length)
    return damaged(offset, "damaged");
  char *to = weft_strbuf_reserve(out, n);
  if (to == NULL) return WEFT_NO_MEMORY("an element of a snapshot");
  if (snappy_uncompress(packed.data, packed.length, to, &n) != SNAPPY_OK) return damaged(offset, "damaged");
  out->length = n;
  return NULL;
}

static weft_status_t *read_snappy(weft_byte_stream_t *s, weft_str_t metadata, uint64_t offset,
                                  const weft_element_spec_t *spec, weft_tensor_t **out) {
  weft_strbuf_t packed = WEFT_STRBUF_INIT, bytes = WEFT_STRBUF_INIT;
  bool is_over = false;
  weft_status_t *status = next_record(s, &packed, &is_over);
  if (status == NULL && is_over) status = damaged(offset, "truncated");
  if (status == NULL) status = unpack(weft_str_of(packed.data, packed.length), offset, &bytes);
  if (status == NULL)
    status = take_components(metadata, weft_str_of(bytes.data, bytes.length), offset, spec, out);
  weft_strbuf_deinit(&packed);
  weft_strbuf_deinit(&bytes);
  return status;
}

weft_status_t *weft_snapshot_v1_next(weft_byte_stream_t *s, bool is_snappy, const weft_element_spec_t *spec,
                                     weft_tensor_t **out, bool *is_over) {
  const uint64_t offset = weft_byte_stream_position(s);
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_status_t *status = next_record(s, &record, is_over);
  const weft_str_t bytes = weft_str_of(record.data, record.length);
  if (status == NULL && !*is_over)
    status = is_snappy ? read_snappy(s, bytes, offset, spec, out) : read_message(bytes, offset, spec, out);
  weft_strbuf_deinit(&record);
  return status;
}
