/* kernels/cpu/dataset/external_state.c - does a data set depend on state that its graph does not have? */
#include "kernels/cpu/dataset/as_graph.h"
#include "protos/wire.h"

/* TensorFlow lets the functions of a snapshot depend on what they like: they say in which order it is read.
 */
static const char SNAPSHOT[] = "SnapshotDatasetV2";

static bool ends_with(weft_str_t s, const char *end) {
  const weft_str_t e = weft_str(end);
  return s.length >= e.length && weft_str_eq(weft_str_of(s.data + s.length - e.length, e.length), e);
}

/* Ops that are declared stateful for other reasons than state. Source: TensorFlow's allow-list, 2.19. */
static bool is_allowed(const weft_op_def_t *op) {
  static const char *const names[] = {"Assert", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2",
                                      "Print",  "PrintV2",           "Timestamp"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (weft_str_eq(op->name, weft_str(names[i]))) return true;
  }
  return op->num_outputs == 1 && op->outputs[0].kind == WEFT_ARG_FIXED &&
         op->outputs[0].dtype == WEFT_VARIANT &&
         (ends_with(op->name, "Dataset") || ends_with(op->name, "DatasetV2"));
}

/* The functions that If and While call are in the library, and are looked at there. */
static weft_status_t *check_node(weft_str_t node) {
  weft_wire_reader_t in = weft_wire_reader(node);
  weft_wire_field_t f;
  while (weft_wire_next(&in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    const weft_op_def_t *op = weft_op_find(f.bytes);
    if (op == NULL || (op->flags & WEFT_OP_STATEFUL) == 0 || is_allowed(op)) continue;
    if (weft_str_eq(op->name, WEFT_STR("If")) || weft_str_eq(op->name, WEFT_STR("While"))) continue;
    return WEFT_ERROR(FAILED_PRECONDITION, "%.*s is stateful.", WEFT_STR_ARGS(op->name));
  }
  return NULL;
}

/* OpDef: is_stateful = 17. */
static bool is_stateful(weft_str_t signature) {
  weft_wire_reader_t in = weft_wire_reader(signature);
  weft_wire_field_t f;
  bool is = false;
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(17, WEFT_WIRE_VARINT)) is = f.value != 0;
  }
  return is;
}

/* The bytes of the last field `number` of a message; "" without one. */
static weft_str_t bytes_of(weft_str_t message, uint32_t number) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_wire_field_t f;
  weft_str_t found = WEFT_STR("");
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) found = f.bytes;
  }
  return found;
}

/* Whether `node` is a SnapshotDatasetV2 that has `function` as reader_func or shard_func: op = 2, attr = 5;
 * AttrValue: func = 10; NameAttrList: name = 1. */
static bool is_of_snapshot(weft_str_t node, weft_str_t function) {
  weft_wire_reader_t in = weft_wire_reader(node);
  weft_wire_field_t f;
  if (!weft_str_is(bytes_of(node, 2), SNAPSHOT)) return false;
  while (weft_wire_next(&in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) continue;
    if (weft_str_eq(bytes_of(bytes_of(bytes_of(f.bytes, 2), 10), 1), function)) return true;
  }
  return false;
}

static bool is_free(weft_str_t graph_def, weft_str_t function) {
  const weft_str_t name = bytes_of(bytes_of(function, 1), 1);
  weft_wire_reader_t in = weft_wire_reader(graph_def);
  weft_wire_field_t f;
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) && is_of_snapshot(f.bytes, name)) return true;
  }
  return false;
}

/* FunctionDef: signature = 1, node_def = 3. */
static weft_status_t *check_function(weft_str_t function) {
  weft_wire_reader_t in = weft_wire_reader(function);
  weft_wire_field_t f;
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) && !is_stateful(f.bytes)) return NULL;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(check_node(f.bytes));
  }
  return NULL;
}

weft_status_t *weft_dataset_check_external_state(const weft_dataset_t *d) {
  const weft_dataset_origin_t *o = d->origin;
  if (o != NULL && weft_str_is(bytes_of(weft_str_of(o->node->def.data, o->node->def.length), 2), SNAPSHOT))
    return NULL;
  weft_map_t written = WEFT_MAP_INIT;
  weft_strbuf_t library = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && d->fns[i] != NULL && s == NULL; i++)
    s = weft_callee_write(d->fns[i]->callee, &written, &library);
  if (s == NULL && library.failed) s = WEFT_NO_MEMORY("looking for state in a data set");
  weft_wire_reader_t in = weft_wire_reader(weft_str_of(library.data, library.length));
  weft_wire_field_t f;
  while (s == NULL && weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) s = check_function(f.bytes);
  }
  weft_strbuf_deinit(&library);
  weft_map_deinit(&written);
  return s;
}

weft_status_t *weft_graph_check_external_state(weft_str_t graph_def) {
  weft_wire_reader_t in = weft_wire_reader(graph_def);
  weft_wire_field_t f, each;
  while (weft_wire_next(&in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t library = weft_wire_reader(f.bytes);
    while (weft_wire_next(&library, &each)) {
      if (each.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
      weft_status_t *s = check_function(each.bytes);
      if (s != NULL && !is_free(graph_def, each.bytes)) return s;
      weft_status_free(s);
    }
  }
  return NULL;
}
