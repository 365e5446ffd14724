/* tools/submit/value_summary.c - what is in a Summary, in words. */
#include "tools/submit/value_summary.h"

#include <math.h>

#include "io/summary_read.h"
#include "tensor/dtype.h"

enum { MAX_SHOWN = 20, MAX_TEXT = 200 };

/* Text in one line; the terminal shows what it can. */
static void put_text(weft_str_t s, weft_strbuf_t *out) {
  for (size_t i = 0; i < s.length && i < MAX_TEXT; i++) {
    unsigned char c = (unsigned char)s.data[i];
    weft_strbuf_putc(out, c < ' ' || c == 0x7f ? ' ' : (char)c);
  }
  if (s.length > MAX_TEXT) weft_strbuf_puts(out, "...");
}

static void put_kind(const weft_summary_value_t *v, weft_strbuf_t *out) {
  switch (v->kind) {
    case WEFT_SUMMARY_SCALAR: weft_strbuf_printf(out, "%.9g", (double)v->scalar); break;
    case WEFT_SUMMARY_HISTOGRAM:
      weft_strbuf_printf(out, "histogram of %.0f value%s", v->count, v->count == 1 ? "" : "s");
      break;
    case WEFT_SUMMARY_IMAGE: weft_strbuf_printf(out, "image of %d x %d", v->width, v->height); break;
    case WEFT_SUMMARY_AUDIO: weft_strbuf_printf(out, "audio of %.3g s", v->seconds); break;
    case WEFT_SUMMARY_TENSOR:
      weft_strbuf_printf(out, "%s of shape %s", weft_dtype_name((weft_dtype_t)v->dtype),
                         WEFT_SHAPE_TEXT(&v->shape));
      break;
    case WEFT_SUMMARY_TEXT:
      weft_strbuf_puts(out, "text \"");
      put_text(v->text, out);
      weft_strbuf_putc(out, '"');
      break;
    case WEFT_SUMMARY_OTHER: weft_strbuf_puts(out, "a value of an old format"); break;
  }
}

static int count_values(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_summary_value_t v;
  int n = 0;
  while (weft_summary_next(&r, &v)) n++;
  return n;
}

void weft_value_print_summary(weft_str_t bytes, weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_summary_value_t v;
  int n = 0;
  while (n < MAX_SHOWN && weft_summary_next(&r, &v)) {
    if (n++ > 0) weft_strbuf_puts(out, "; ");
    put_text(v.tag, out);
    weft_strbuf_puts(out, ": ");
    put_kind(&v, out);
    if (v.kind == WEFT_SUMMARY_HISTOGRAM && v.count > 0)
      weft_strbuf_printf(out, ", %.6g to %.6g", v.min, v.max);
  }
  int more = count_values(bytes) - n;
  if (more > 0) weft_strbuf_printf(out, "; and %d more", more);
}

void weft_value_print_summary_short(weft_str_t bytes, weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_summary_value_t v;
  int n = count_values(bytes);
  if (n == 1 && weft_summary_next(&r, &v) && v.kind != WEFT_SUMMARY_TEXT) {
    put_kind(&v, out);
  } else {
    weft_strbuf_printf(out, "summary of %d value%s", n, n == 1 ? "" : "s");
  }
}

/* ---- JSON ---- */

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *shape_json(const weft_shape_t *shape) {
  json_t *dims = json_array();
  for (int i = 0; i < shape->rank; i++) json_array_append_new(dims, json_integer(shape->dims[i]));
  return dims;
}

static json_t *value_json(const weft_summary_value_t *v) {
  json_t *o = json_pack("{s:s%, s:s}", "tag", v->tag.data == NULL ? "" : v->tag.data, v->tag.length, "kind",
                        weft_summary_kind_name(v->kind));
  switch (v->kind) {
    case WEFT_SUMMARY_SCALAR: json_object_set_new(o, "value", number((double)v->scalar)); break;
    case WEFT_SUMMARY_HISTOGRAM:
      json_object_set_new(o, "count", number(v->count));
      json_object_set_new(o, "min", number(v->min));
      json_object_set_new(o, "max", number(v->max));
      break;
    case WEFT_SUMMARY_IMAGE:
      json_object_set_new(o, "width", json_integer(v->width));
      json_object_set_new(o, "height", json_integer(v->height));
      break;
    case WEFT_SUMMARY_AUDIO: json_object_set_new(o, "seconds", number(v->seconds)); break;
    case WEFT_SUMMARY_TENSOR:
      json_object_set_new(o, "dtype", json_string(weft_dtype_name((weft_dtype_t)v->dtype)));
      json_object_set_new(o, "shape", shape_json(&v->shape));
      break;
    case WEFT_SUMMARY_TEXT: json_object_set_new(o, "text", json_stringn(v->text.data, v->text.length)); break;
    case WEFT_SUMMARY_OTHER: break;
  }
  return o;
}

json_t *weft_value_summary_json(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_summary_value_t v;
  json_t *values = json_array();
  while (weft_summary_next(&r, &v)) json_array_append_new(values, value_json(&v));
  return json_pack("{s:o}", "summary", values);
}
