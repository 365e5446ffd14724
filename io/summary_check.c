/* io/summary_check.c - a table of the fields that can be wrong inside, and a walk over the bytes by it.
 *
 * Source: summary.proto, histogram.proto, tensor.proto, tensor_shape.proto, resource_handle.proto. Plain
 * numbers and byte strings cannot be wrong once the wire format is right, so they are not listed.
 */
#include "io/summary_check.h"

#include "protos/wire.h"

enum { MAX_DEPTH = 100 }; /* protobuf's own limit */

typedef enum kind { END, TEXT, PACKED_VARINT, PACKED_32, PACKED_64, MESSAGE } kind_t;

typedef struct field {
  uint32_t number;
  kind_t kind;
  const struct field *fields; /* of a MESSAGE */
} field_t;

static const field_t dim[] = {{2, TEXT, NULL}, {0}};
static const field_t shape[] = {{2, MESSAGE, dim}, {0}};
static const field_t dtype_and_shape[] = {{2, MESSAGE, shape}, {0}};
static const field_t resource[] = {
    {1, TEXT, NULL}, {2, TEXT, NULL}, {3, TEXT, NULL}, {5, TEXT, NULL}, {6, MESSAGE, dtype_and_shape}, {0}};
static const field_t tensor[14];
static const field_t variant[] = {{1, TEXT, NULL}, {3, MESSAGE, tensor}, {0}};
static const field_t tensor[14] = {{2, MESSAGE, shape},       {5, PACKED_32, NULL},
                                   {6, PACKED_64, NULL},      {7, PACKED_VARINT, NULL},
                                   {9, PACKED_32, NULL},      {10, PACKED_VARINT, NULL},
                                   {11, PACKED_VARINT, NULL}, {12, PACKED_64, NULL},
                                   {13, PACKED_VARINT, NULL}, {14, MESSAGE, resource},
                                   {15, MESSAGE, variant},    {16, PACKED_VARINT, NULL},
                                   {17, PACKED_VARINT, NULL}, {0}};
static const field_t histogram[] = {{6, PACKED_64, NULL}, {7, PACKED_64, NULL}, {0}};
static const field_t image[] = {{0}};
static const field_t audio[] = {{5, TEXT, NULL}, {0}};
static const field_t plugin[] = {{1, TEXT, NULL}, {0}};
static const field_t metadata[] = {{1, MESSAGE, plugin}, {2, TEXT, NULL}, {3, TEXT, NULL}, {0}};
static const field_t value[] = {
    {1, TEXT, NULL}, {4, MESSAGE, image},  {5, MESSAGE, histogram}, {6, MESSAGE, audio},
    {7, TEXT, NULL}, {8, MESSAGE, tensor}, {9, MESSAGE, metadata},  {0}};
static const field_t summary[] = {{1, MESSAGE, value}, {0}};

static bool is_packed(const weft_wire_field_t *f, uint32_t type) {
  weft_wire_values_t v = weft_wire_values(f, type);
  for (uint64_t x; weft_wire_next_value(&v, &x);) continue;
  return !v.failed;
}

/* Reads fields up to the first that is wrong; returns how many bytes are right. */
static size_t walk(weft_str_t bytes, const field_t *fields, int depth) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  size_t good = 0;
  if (depth > MAX_DEPTH) return 0;
  while (weft_wire_next(&r, &f)) {
    const field_t *known = fields;
    while (known->kind != END && known->number != weft_wire_number(&f)) known++;
    bool is_right = true;
    if (known->kind != END && weft_wire_type(&f) == WEFT_WIRE_BYTES) {
      switch (known->kind) {
        case END: break;
        case TEXT: is_right = weft_wire_is_utf8(f.bytes); break;
        case PACKED_VARINT: is_right = is_packed(&f, WEFT_WIRE_VARINT); break;
        case PACKED_32: is_right = is_packed(&f, WEFT_WIRE_FIXED32); break;
        case PACKED_64: is_right = is_packed(&f, WEFT_WIRE_FIXED64); break;
        case MESSAGE:
          is_right = depth < MAX_DEPTH && walk(f.bytes, known->fields, depth + 1) == f.bytes.length;
          break;
      }
    }
    if (!is_right) break;
    good = bytes.length - weft_wire_rest(&r).length;
  }
  return good;
}

bool weft_summary_is_valid(weft_str_t bytes) { return walk(bytes, summary, 0) == bytes.length; }

/* A tag, and one of simple_value, image, histo, audio, tensor, or the bytes of the oldest format. */
static bool has_content(weft_str_t value_bytes) {
  weft_wire_field_t f;
  bool has_tag = false, has_value = false;
  for (weft_wire_reader_t r = weft_wire_reader(value_bytes); weft_wire_next(&r, &f);) {
    uint32_t number = weft_wire_number(&f);
    if (number == 0 || number > 9) return false;
    has_tag = has_tag || f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES);
    has_value = has_value || (number >= 2 && number <= 8 && number != 7);
  }
  return has_tag && has_value;
}

bool weft_summary_has_values(weft_str_t bytes) {
  weft_wire_field_t f;
  if (bytes.length == 0 || !weft_summary_is_valid(bytes)) return false;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) || !has_content(f.bytes)) return false;
  }
  return true;
}

weft_str_t weft_summary_metadata_prefix(weft_str_t bytes) {
  return weft_str_of(bytes.data, walk(bytes, metadata, 0));
}
