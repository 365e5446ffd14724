/* saved_model/bind_proto.c - a graph whose paths are constants, so that it needs no feeds before it runs. */
#include "protos/wire.h"
#include "saved_model/saved_model.h"
#include "tensor/dtype.h"

/* A path is the value of a node: of its output 0, which "node" and "node:0" name. */
static weft_str_t node_of(weft_str_t tensor) {
  if (weft_str_ends_with(tensor, ":0")) tensor.length -= 2;
  return tensor;
}

/* AttrValue.type in an entry of NodeDef.attr. */
static void put_dtype(weft_strbuf_t *out) {
  size_t entry = weft_wire_begin(out, 5);
  weft_wire_put_text(out, 1, "dtype");
  size_t value = weft_wire_begin(out, 2);
  weft_wire_put_i64(out, 6, WEFT_STRING);
  weft_wire_end(out, value);
  weft_wire_end(out, entry);
}

/* AttrValue.tensor: a scalar. */
static void put_value(weft_str_t text, weft_strbuf_t *out) {
  size_t entry = weft_wire_begin(out, 5);
  weft_wire_put_text(out, 1, "value");
  size_t value = weft_wire_begin(out, 2), tensor = weft_wire_begin(out, 8);
  weft_wire_put_i64(out, 1, WEFT_STRING);
  weft_wire_end(out, weft_wire_begin(out, 2)); /* a shape without dimensions */
  weft_wire_add_bytes(out, 8, text);
  weft_wire_end(out, tensor);
  weft_wire_end(out, value);
  weft_wire_end(out, entry);
}

static void put_constant(weft_str_t name, weft_str_t device, weft_str_t text, weft_strbuf_t *out) {
  size_t node = weft_wire_begin(out, 1);
  weft_wire_put_bytes(out, 1, name);
  weft_wire_put_text(out, 2, "Const");
  weft_wire_put_bytes(out, 4, device);
  put_dtype(out);
  put_value(text, out);
  weft_wire_end(out, node);
}

weft_status_t *weft_model_bind(weft_str_t graph_def, const weft_model_path_t *paths, int n,
                               weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(graph_def), node;
  weft_wire_field_t f, field;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES) {
      if (weft_wire_type(&f) == WEFT_WIRE_VARINT) weft_wire_add_varint(out, weft_wire_number(&f), f.value);
      continue;
    }
    weft_str_t name = WEFT_STR(""), device = WEFT_STR("");
    int at = n;
    if (weft_wire_number(&f) == 1) {
      for (node = weft_wire_reader(f.bytes); weft_wire_next(&node, &field);) {
        if (field.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = field.bytes;
        if (field.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) device = field.bytes;
      }
      for (at = 0; at < n && !weft_str_eq(node_of(paths[at].tensor), name);) at++;
    }
    if (at < n) {
      put_constant(name, device, paths[at].path, out);
    } else {
      weft_wire_add_bytes(out, weft_wire_number(&f), f.bytes);
    }
  }
  return out->failed ? WEFT_NO_MEMORY("a model's graph") : NULL;
}
