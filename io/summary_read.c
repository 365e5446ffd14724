/* io/summary_read.c - the fields of summary.proto and histogram.proto that say what a value is. */
#include "io/summary_read.h"

#include "tensor/dtype.h"
#include "tensor/shape_proto.h"

const char *weft_summary_kind_name(weft_summary_kind_t kind) {
  static const char *const names[] = {
      [WEFT_SUMMARY_SCALAR] = "scalar", [WEFT_SUMMARY_HISTOGRAM] = "histogram",
      [WEFT_SUMMARY_IMAGE] = "image",   [WEFT_SUMMARY_AUDIO] = "audio",
      [WEFT_SUMMARY_TENSOR] = "tensor", [WEFT_SUMMARY_TEXT] = "text",
      [WEFT_SUMMARY_OTHER] = "value",
  };
  return names[kind];
}

static void read_histogram(weft_str_t bytes, weft_summary_value_t *out) {
  weft_wire_field_t f;
  out->kind = WEFT_SUMMARY_HISTOGRAM;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_FIXED64): out->min = weft_wire_double(f.value); break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_FIXED64): out->max = weft_wire_double(f.value); break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_FIXED64): out->count = weft_wire_double(f.value); break;
      default: break;
    }
  }
}

static void read_image(weft_str_t bytes, weft_summary_value_t *out) {
  weft_wire_field_t f;
  out->kind = WEFT_SUMMARY_IMAGE;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) out->height = weft_wire_i32(f.value);
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) out->width = weft_wire_i32(f.value);
  }
}

static void read_audio(weft_str_t bytes, weft_summary_value_t *out) {
  weft_wire_field_t f;
  double rate = 0, frames = 0;
  out->kind = WEFT_SUMMARY_AUDIO;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_FIXED32)) rate = (double)weft_wire_float(f.value);
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_VARINT)) frames = (double)weft_wire_i64(f.value);
  }
  out->seconds = rate > 0 ? frames / rate : 0;
}

static void read_tensor(weft_str_t bytes, weft_summary_value_t *out) {
  weft_wire_field_t f;
  out->kind = WEFT_SUMMARY_TENSOR;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) out->dtype = weft_wire_i32(f.value);
    if (f.tag == WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES)) out->text = f.bytes;
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_status_free(weft_shape_from_proto_known(f.bytes, &out->shape)); /* a scalar, if it is not known */
  }
}

/* SummaryMetadata: plugin_data (1), plugin_name (1). */
static bool is_for_texts(weft_str_t metadata) {
  weft_wire_field_t f, p;
  bool is_text = false;
  for (weft_wire_reader_t r = weft_wire_reader(metadata); weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    for (weft_wire_reader_t data = weft_wire_reader(f.bytes); weft_wire_next(&data, &p);)
      is_text = is_text || (p.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) && weft_str_is(p.bytes, "text"));
  }
  return is_text;
}

static void read_value(weft_str_t bytes, weft_summary_value_t *out) {
  weft_wire_field_t f;
  bool is_text = false;
  *out = (weft_summary_value_t){.kind = WEFT_SUMMARY_OTHER, .shape = WEFT_SCALAR};
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): out->tag = f.bytes; break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_FIXED32):
        out->kind = WEFT_SUMMARY_SCALAR;
        out->scalar = weft_wire_float(f.value);
        break;
      case WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES): read_image(f.bytes, out); break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES): read_histogram(f.bytes, out); break;
      case WEFT_WIRE_TAG(6, WEFT_WIRE_BYTES): read_audio(f.bytes, out); break;
      case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES): read_tensor(f.bytes, out); break;
      case WEFT_WIRE_TAG(9, WEFT_WIRE_BYTES): is_text = is_for_texts(f.bytes); break;
      default: break;
    }
  }
  bool is_one_string = out->kind == WEFT_SUMMARY_TENSOR && out->dtype == WEFT_STRING && out->shape.rank == 0;
  if (is_text && is_one_string) out->kind = WEFT_SUMMARY_TEXT;
}

bool weft_summary_next(weft_wire_reader_t *r, weft_summary_value_t *out) {
  weft_wire_field_t f;
  while (weft_wire_next(r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    read_value(f.bytes, out);
    return true;
  }
  return false;
}
