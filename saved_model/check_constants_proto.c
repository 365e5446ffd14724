/* saved_model/check_constants_proto.c - TensorFlow's own look at a model's constants, before it makes a
 * session. */
#include "protos/wire.h"
#include "saved_model/meta_graph.h"
#include "tensor/shape_proto.h"

static weft_str_t last_of(weft_str_t bytes, uint32_t number) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t found = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) found = f.bytes;
  }
  return found;
}

/* Could a tensor of this AttrValue be made? One without a tensor could. */
static bool is_possible(weft_str_t value) {
  weft_str_t shape_bytes = last_of(last_of(value, 8), 2);
  weft_shape_t shape;
  weft_status_t *s = weft_shape_from_proto(shape_bytes, &shape);
  bool is_shape = s == NULL;
  weft_status_free(s);
  return is_shape && weft_shape_count(&shape) >= 0;
}

static weft_status_t *check_node(weft_str_t node) {
  weft_wire_reader_t r = weft_wire_reader(node);
  weft_wire_field_t f;
  weft_str_t name = last_of(node, 1), op = last_of(node, 2), value = WEFT_STR("");
  bool has_value = false;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES) || !weft_str_is(last_of(f.bytes, 1), "value")) continue;
    value = last_of(f.bytes, 2);
    has_value = true;
  }
  if (has_value && !is_possible(value)) {
    return WEFT_ERROR(
        FAILED_PRECONDITION,
        "Saved model contains node \"%.*s\" (op \"%.*s\") which initializes from a tensor whose "
        "shape has no number of elements",
        WEFT_STR_ARGS(name), WEFT_STR_ARGS(op));
  }
  if (!has_value && weft_str_is(op, "Const")) {
    return WEFT_ERROR(
        FAILED_PRECONDITION,
        "Saved model contains node \"%.*s\" which is a constant tensor but no value has been provided",
        WEFT_STR_ARGS(name));
  }
  return NULL;
}

static weft_status_t *check_nodes(weft_str_t bytes, uint32_t number) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(check_node(f.bytes));
  }
  return NULL;
}

weft_status_t *weft_meta_graph_check_constants(const weft_meta_graph_t *m) {
  WEFT_RETURN_IF_ERROR(check_nodes(m->graph_def, 1));
  weft_wire_reader_t graph = weft_wire_reader(m->graph_def), library;
  weft_wire_field_t f;
  while (weft_wire_next(&graph, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    for (library = weft_wire_reader(f.bytes); weft_wire_next(&library, &f);) {
      if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(check_nodes(f.bytes, 3));
    }
  }
  return NULL;
}
