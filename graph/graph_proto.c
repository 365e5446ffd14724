/* graph/graph_proto.c - GraphDef in.
 *
 * Three walks over the bytes, none of which copies them:
 *   1. the top level: functions into the library, versions, the number of nodes;
 *   2. each NodeDef: name, op, device, attributes - after it, every type is known;
 *   3. each NodeDef again: inputs, which may name nodes that come later.
 * Then the cycles. All of it is linear in the bytes.
 */
#include "graph/graph_proto.h"

#include "base/alloc.h"
#include "graph/attr_cache.h"
#include "graph/attr_proto.h"
#include "graph/node_build.h"
#include "graph/versions.h"
#include "protos/wire.h"

typedef struct graph_import {
  weft_graph_t *g;
  const weft_import_options_t *o;
  weft_words_t words;
  weft_str_t *defs; /* owned; the NodeDefs' bytes, num_defs */
  int num_defs;
  int first_id;
  weft_named_attr_t *attrs; /* owned; scratch of one node */
  int attrs_capacity;
  weft_attr_cache_t cache;
  weft_str_t last_device;       /* interned */
  const weft_op_def_t *last_op; /* nodes of an op often come in a row */
  weft_function_t *last_function;
} graph_import_t;

/* What a first look at a NodeDef finds; all lent. */
typedef struct node_view {
  weft_str_t name, op, device;
  int num_data, num_controls, num_attrs;
} node_view_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the graph"); }
static weft_status_t *invalid_graph_def(void) { return WEFT_ERROR(INVALID_ARGUMENT, "Invalid GraphDef"); }

static bool is_control(weft_str_t input) { return input.length > 0 && input.data[0] == '^'; }

/* ---- 1. the top level ---- */

static weft_status_t *read_library(graph_import_t *im, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) {
      WEFT_RETURN_IF_ERROR(weft_function_add(im->g->library, f.bytes));
    } else if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) {
      WEFT_RETURN_IF_ERROR(weft_function_add_gradient(im->g->library, f.bytes));
    }
  }
  return r.failed ? invalid_graph_def() : NULL;
}

static weft_status_t *read_top_level(graph_import_t *im, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t versions = WEFT_STR("");
  int num_nodes = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) num_nodes++;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(read_library(im, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) versions = f.bytes;
    if (num_nodes > WEFT_MAX_NODES) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a GraphDef of more than %d nodes", WEFT_MAX_NODES);
    }
  }
  if (r.failed) return invalid_graph_def();
  WEFT_RETURN_IF_ERROR(weft_versions_import(im->g, versions, im->o->is_extend));
  im->defs = weft_calloc((size_t)num_nodes + 1, sizeof *im->defs);
  if (im->defs == NULL) return no_memory();
  r = weft_wire_reader(bytes);
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) im->defs[im->num_defs++] = f.bytes;
  }
  return NULL;
}

/* ---- 2. nodes ---- */

static bool view_node(weft_str_t def, node_view_t *out) {
  weft_wire_reader_t r = weft_wire_reader(def);
  weft_wire_field_t f;
  node_view_t v = {.name = WEFT_STR(""), .op = WEFT_STR(""), .device = WEFT_STR("")};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): v.name = f.bytes; break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES): v.op = f.bytes; break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES): is_control(f.bytes) ? v.num_controls++ : v.num_data++; break;
      case WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES): v.device = f.bytes; break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES): v.num_attrs++; break;
      default: break;
    }
  }
  *out = v;
  return !r.failed;
}

/* The order and the letters of inputs, as TensorFlow checks them before anything else. */
static weft_status_t *check_inputs(const graph_import_t *im, weft_str_t def, const node_view_t *v) {
  weft_wire_reader_t r = weft_wire_reader(def);
  weft_wire_field_t f;
  bool in_controls = false;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) continue;
    if (im->words == WEFT_WORDS_SERVER && !im->o->allow_internal_ops && !weft_input_is_valid(f.bytes)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Illegal op input name '%.*s'\n\t [[{{node %.*s}}]]",
                        WEFT_STR_ARGS(f.bytes), WEFT_STR_ARGS(v->name));
    }
    if (in_controls && !is_control(f.bytes) && im->words == WEFT_WORDS_CLIENT) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Node '%.*s': Control dependencies must come after regular dependencies",
                        WEFT_STR_ARGS(v->name));
    }
    if (in_controls && !is_control(f.bytes)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "All control inputs must follow all data inputs\n\t [[{{node %.*s}}]]",
                        WEFT_STR_ARGS(v->name));
    }
    in_controls = is_control(f.bytes);
  }
  return NULL;
}

static weft_status_t *check_syntax(const graph_import_t *im, weft_str_t def, const node_view_t *v) {
  bool is_valid = weft_name_is_valid(v->name, im->o->allow_internal_ops);
  if (im->words == WEFT_WORDS_CLIENT && (!is_valid || v->op.length == 0)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT, "Node '%.*s'%s", WEFT_STR_ARGS(v->name),
        is_valid ? " does not specify an operation" : ": Node name contains invalid characters");
  }
  if (!is_valid) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Illegal op name '%.*s'\n\t [[{{node %.*s}}]]",
                      WEFT_STR_ARGS(v->name), WEFT_STR_ARGS(v->name));
  }
  if (v->num_attrs > WEFT_MAX_ATTRS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s' has %d attributes; at most %d are allowed",
                      WEFT_STR_ARGS(v->name), v->num_attrs, WEFT_MAX_ATTRS);
  }
  if (v->num_data + v->num_controls == 0) return NULL;
  return check_inputs(im, def, v);
}

/* Consumes `s`, which says that the name is taken, and says it as TensorFlow does. */
static weft_status_t *not_new(const graph_import_t *im, weft_status_t *s, weft_str_t name) {
  const weft_node_t *same = weft_graph_find(im->g, name);
  weft_status_free(s);
  if (im->o->is_extend && same != NULL && same->id < im->first_id) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "GraphDef argument to Extend includes node '%.*s', which was created by a previous call to Create "
        "or Extend in this session.",
        WEFT_STR_ARGS(name));
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s' is not unique", WEFT_STR_ARGS(name));
}

/* An attribute's name lives with its op, or else once per graph. */
static weft_str_t attr_name(graph_import_t *im, const weft_op_def_t *op, weft_str_t key) {
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_str_eq(op->attrs[i].name, key)) return op->attrs[i].name;
  }
  return weft_graph_intern(im->g, key);
}

static weft_status_t *reserve_attrs(graph_import_t *im, int n) {
  if (n <= im->attrs_capacity) return NULL;
  int capacity = n < 32 ? 32 : n;
  weft_named_attr_t *attrs = weft_realloc(im->attrs, (size_t)capacity, sizeof *attrs);
  if (attrs == NULL) return no_memory();
  im->attrs = attrs;
  im->attrs_capacity = capacity;
  return NULL;
}

static weft_status_t *read_attr(graph_import_t *im, const weft_node_t *n, weft_str_t entry,
                                weft_named_attr_t *out) {
  weft_str_t key, value;
  if (!weft_map_entry_read(entry, &key, &value)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': an attribute cannot be parsed", n->name.data);
  }
  out->name = attr_name(im, n->op, key);
  if (out->name.data == NULL) return no_memory();
  return weft_attr_from_proto_or_raw(im->g->arena, value, &out->value);
}

static weft_status_t *read_attrs(graph_import_t *im, weft_node_t *n, weft_str_t def, const node_view_t *v) {
  WEFT_RETURN_IF_ERROR(reserve_attrs(im, v->num_attrs));
  weft_wire_reader_t r = weft_wire_reader(def);
  weft_wire_field_t f;
  int num_attrs = 0;
  while (num_attrs < v->num_attrs && weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) continue;
    weft_status_t *s = read_attr(im, n, f.bytes, &im->attrs[num_attrs]);
    if (s != NULL) {
      for (int i = 0; i < num_attrs; i++) weft_attr_release_tensors(&im->attrs[i].value);
      return s;
    }
    num_attrs++;
  }
  return weft_node_set_attrs(im->g, n, im->attrs, num_attrs, im->words);
}

static weft_status_t *check_removed(const graph_import_t *im, const weft_op_def_t *op) {
  if (op->removed_in == 0 || im->g->producer < op->removed_in) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED,
                    "Op %s is not available in GraphDef version %d. It has been removed in version %d. %s.",
                    op->name.data, im->g->producer, op->removed_in, op->removed_why);
}

static weft_status_t *check_constant(const weft_node_t *n) {
  if ((n->flags & WEFT_OP_CONST) == 0) return NULL;
  const weft_attr_t *value = weft_node_attr(n, "value");
  int dtype = weft_node_attr_type(n, "dtype");
  if (value == NULL || value->kind != WEFT_ATTR_TENSOR || value->is_list ||
      (int)value->tensor->dtype == dtype)
    return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch between value (%s) and dtype (%s)",
                    weft_dtype_name(value->tensor->dtype), weft_dtype_name(dtype));
}

/* TensorFlow's servers look at a node's attributes when a step needs it: until then, one that is not valid is
 * as one that is not registered. Its C API refuses it. */
static weft_status_t *complete_node(graph_import_t *im, weft_node_t *n, weft_str_t def,
                                    const node_view_t *v) {
  bool is_known = false;
  WEFT_RETURN_IF_ERROR(weft_attr_cache_find(&im->cache, n, def, v->num_data, &is_known));
  if (is_known) return weft_node_reserve_inputs(im->g, n);
  weft_status_t *s = read_attrs(im, n, def, v);
  if (s == NULL) s = check_removed(im, n->op);
  if (s == NULL && im->words == WEFT_WORDS_SERVER) s = check_constant(n);
  weft_code_t code = weft_status_code(s);
  bool is_invalid = code == WEFT_INVALID_ARGUMENT || code == WEFT_UNIMPLEMENTED;
  if (is_invalid && im->words == WEFT_WORDS_SERVER) {
    bool has_attrs = n->num_attrs > 0;
    WEFT_RETURN_IF_ERROR(weft_function_library_set_aside(im->g->library, n->op->name, s, &n->op));
    n->function = NULL;
    n->flags = n->op->flags;
    s = has_attrs ? NULL : read_attrs(im, n, def, v); /* as they came, for export */
  }
  if (s == NULL) s = weft_node_set_types(im->g, n, v->num_data);
  if (s == NULL && (n->flags & WEFT_OP_UNREGISTERED) == 0) s = weft_attr_cache_keep(&im->cache, n);
  return s;
}

static weft_status_t *set_device(graph_import_t *im, weft_node_t *n, weft_str_t device) {
  if (im->last_device.data == NULL || !weft_str_eq(device, im->last_device)) {
    im->last_device = weft_graph_intern(im->g, device);
    if (im->last_device.data == NULL) return no_memory();
  }
  n->requested_device = im->last_device;
  return NULL;
}

static weft_status_t *read_node(graph_import_t *im, weft_str_t def) {
  node_view_t v;
  if (!view_node(def, &v)) {
    return v.name.length == 0 ? invalid_graph_def()
                              : WEFT_ERROR(INVALID_ARGUMENT, "Invalid GraphDef: node '%.*s' cannot be parsed",
                                           WEFT_STR_ARGS(v.name));
  }
  WEFT_RETURN_IF_ERROR(check_syntax(im, def, &v));
  if (im->last_op == NULL || !weft_str_eq(im->last_op->name, v.op)) {
    WEFT_RETURN_IF_ERROR(weft_node_resolve_any_op(im->g, v.op, &im->last_op, &im->last_function));
  }
  weft_str_t name = weft_arena_str(im->g->arena, v.name);
  if (name.data == NULL) return no_memory();
  weft_node_t *n = NULL;
  weft_status_t *s = weft_graph_enter(im->g, name, &n);
  if (s != NULL) return weft_status_code(s) == WEFT_INVALID_ARGUMENT ? not_new(im, s, v.name) : s;
  n->op = im->last_op;
  n->function = im->last_function;
  n->flags = n->op->flags;
  n->assigned_device = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(set_device(im, n, v.device));
  WEFT_RETURN_IF_ERROR(complete_node(im, n, def, &v));
  if (v.num_controls > 0) {
    WEFT_RETURN_IF_ERROR(weft_node_reserve_controls(im->g, n, v.num_controls));
  }
  return NULL;
}

/* ---- 3. inputs ---- */

static weft_status_t *unknown_input(const weft_node_t *n, weft_str_t input) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': Unknown input node '%.*s'", n->name.data,
                    WEFT_STR_ARGS(input));
}

static weft_node_t *find_producer(const graph_import_t *im, weft_str_t name) {
  weft_node_t *from = weft_graph_find(im->g, name);
  return from != NULL && from->id < im->first_id && !im->o->allow_existing ? NULL : from;
}

static weft_status_t *read_input(graph_import_t *im, weft_node_t *n, weft_str_t input, int *num_data) {
  weft_output_t from = {NULL, 0};
  weft_str_t name = WEFT_STR("");
  if (is_control(input)) {
    from.node = find_producer(im, weft_str_of(input.data + 1, input.length - 1));
    if (from.node == NULL) return unknown_input(n, input);
    if (from.node->mark != n->id + 1) { /* not yet a control input of this node */
      from.node->mark = n->id + 1;
      n->controls[n->num_controls++] = from.node;
    }
    return NULL;
  }
  if (weft_tensor_name_parse(input, &name, &from.index)) from.node = find_producer(im, name);
  if (from.node == NULL) return unknown_input(n, input);
  return weft_node_connect(im->g, n, (*num_data)++, from);
}

static weft_status_t *read_inputs(graph_import_t *im, weft_node_t *n, weft_str_t def) {
  weft_wire_reader_t r = weft_wire_reader(def);
  weft_wire_field_t f;
  int num_data = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES))
      WEFT_RETURN_IF_ERROR(read_input(im, n, f.bytes, &num_data));
  }
  return NULL;
}

/* ---- all of it ---- */

static weft_status_t *check_cycles(const weft_graph_t *g) {
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  weft_free(order);
  return s;
}

static weft_status_t *run(graph_import_t *im, weft_str_t graph_def) {
  WEFT_RETURN_IF_ERROR(read_top_level(im, graph_def));
  WEFT_RETURN_IF_ERROR(weft_graph_reserve(im->g, im->num_defs));
  for (int i = 0; i < im->num_defs; i++) WEFT_RETURN_IF_ERROR(read_node(im, im->defs[i]));
  for (int id = 0; id < im->g->num_nodes; id++) {
    if (im->g->nodes[id] != NULL) im->g->nodes[id]->mark = 0;
  }
  for (int i = 0; i < im->num_defs; i++) {
    weft_node_t *n = im->g->nodes[im->first_id + i];
    if (n->num_inputs > 0 || n->controls != NULL) WEFT_RETURN_IF_ERROR(read_inputs(im, n, im->defs[i]));
  }
  return check_cycles(im->g);
}

weft_status_t *weft_graph_import(weft_graph_t *g, weft_str_t graph_def, const weft_import_options_t *o) {
  graph_import_t im = {.g = g, .o = o, .first_id = g->num_nodes, .cache = WEFT_ATTR_CACHE_INIT};
  im.words = o->is_client_api ? WEFT_WORDS_CLIENT : WEFT_WORDS_SERVER;
  weft_status_t *s = run(&im, graph_def);
  weft_free(im.defs);
  weft_free(im.attrs);
  weft_attr_cache_deinit(&im.cache);
  return s;
}
