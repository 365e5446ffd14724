/* kernels/cpu/dataset/as_graph.c - writes data sets as GraphDefs. Source: TensorFlow's AsGraphDef, whose
 * names of nodes, "<op>/_<number>", and of the result, "dataset", are kept. */
#include "kernels/cpu/dataset/as_graph.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/random.h"
#include "protos/wire.h"
#include "resources/lookup_table.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"

/* Fields of GraphDef, NodeDef, AttrValue. */
enum {
  GRAPH_NODE = 1,
  GRAPH_LIBRARY = 2,
  GRAPH_VERSIONS = 4,
  NODE_NAME = 1,
  NODE_OP = 2,
  NODE_INPUT = 3,
  NODE_ATTR = 5,
  VALUE_INT = 3,
  VALUE_BOOL = 5,
  VALUE_TYPE = 6,
  VALUE_SHAPE = 7,
  VALUE_TENSOR = 8
};

typedef struct graph_writer {
  weft_arena_t arena;    /* of names */
  weft_map_t names;      /* data sets and tensors that are written already -> weft_str_t* */
  weft_map_t functions;  /* those that are in `library` */
  weft_strbuf_t *nodes;  /* the GraphDef */
  weft_strbuf_t library; /* FunctionDefLibrary */
  int num_nodes;
} graph_writer_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("writing a data set as a graph"); }

/* The op of a NodeDef without name. */
static weft_str_t op_of(weft_str_t def) {
  weft_wire_reader_t in = weft_wire_reader(def);
  weft_wire_field_t f;
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) return f.bytes;
  }
  return WEFT_STR("");
}

/* "<prefix>/_<number>", in the arena; data NULL without memory. */
static weft_str_t new_name(graph_writer_t *w, weft_str_t prefix) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%.*s/_%d", WEFT_STR_ARGS(prefix), w->num_nodes++);
  const weft_str_t name =
      text.failed ? weft_str_of(NULL, 0) : weft_arena_str(&w->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return name;
}

/* The node `name` stands for `what` from now on. */
static weft_status_t *keep_name(graph_writer_t *w, const void *what, weft_str_t name) {
  weft_str_t *kept = weft_arena_calloc(&w->arena, 1, sizeof *kept);
  if (kept == NULL) return no_memory();
  *kept = name;
  return weft_map_put_u64(&w->names, (uint64_t)(uintptr_t)what, kept, NULL);
}

/* ---- nodes ---- */

static size_t begin_node(graph_writer_t *w, weft_str_t name, const char *op) {
  const size_t node = weft_wire_begin(w->nodes, GRAPH_NODE);
  weft_wire_put_bytes(w->nodes, NODE_NAME, name);
  weft_wire_put_text(w->nodes, NODE_OP, op);
  return node;
}

static void write_number(graph_writer_t *w, const char *attr, uint32_t field, uint64_t value) {
  const size_t entry = weft_wire_begin(w->nodes, NODE_ATTR);
  weft_wire_put_text(w->nodes, 1, attr);
  const size_t mark = weft_wire_begin(w->nodes, 2);
  weft_wire_add_varint(w->nodes, field, value);
  weft_wire_end(w->nodes, mark);
  weft_wire_end(w->nodes, entry);
}

static void write_type(graph_writer_t *w, const char *attr, weft_dtype_t dtype) {
  write_number(w, attr, VALUE_TYPE, (uint64_t)dtype);
}

static weft_status_t *write_const(graph_writer_t *w, const weft_tensor_t *t, weft_str_t *out) {
  *out = new_name(w, WEFT_STR("Const"));
  if (out->data == NULL) return no_memory();
  const size_t node = begin_node(w, *out, "Const");
  write_type(w, "dtype", t->dtype);
  const size_t entry = weft_wire_begin(w->nodes, NODE_ATTR);
  weft_wire_put_text(w->nodes, 1, "value");
  const size_t value = weft_wire_begin(w->nodes, 2);
  const size_t tensor = weft_wire_begin(w->nodes, VALUE_TENSOR);
  weft_status_t *s = weft_tensor_to_proto(t, w->nodes);
  weft_wire_end(w->nodes, tensor);
  weft_wire_end(w->nodes, value);
  weft_wire_end(w->nodes, entry);
  weft_wire_end(w->nodes, node);
  return s;
}

/* ---- tables ---- */

/* The table behind a captured handle, retained; NULL: it is a handle to something else, or to nothing. */
static weft_lookup_table_t *table_in(const weft_dataset_t *of, const weft_tensor_t *t) {
  const weft_handle_t *h =
      t->dtype == WEFT_RESOURCE && t->count == 1 ? ((weft_handle_t *const *)t->data)[0] : NULL;
  weft_object_t *o = NULL;
  if (h == NULL || !weft_str_is(h->type_name, weft_lookup_table_type.name)) return NULL;
  if (h->object != NULL) return (weft_lookup_table_t *)weft_object_retain(h->object);
  weft_status_free(
      weft_resource_lookup(of->device->resources, h->container, h->name, &weft_lookup_table_type, &o));
  return (weft_lookup_table_t *)o;
}

/* A table of the same kind. Its name is its own in all processes, since the node's name is the resource's. */
static weft_status_t *write_empty_table(graph_writer_t *w, const weft_lookup_config_t *config,
                                        weft_str_t *out) {
  const bool is_static = config->kind == WEFT_LOOKUP_STATIC;
  weft_strbuf_t prefix = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&prefix, "%sFromGraphDef/%016" PRIx64, is_static ? "HashTable" : "MutableHashTable",
                     weft_random_id());
  *out = prefix.failed ? weft_str_of(NULL, 0) : new_name(w, weft_str_of(prefix.data, prefix.length));
  weft_strbuf_deinit(&prefix);
  if (out->data == NULL) return no_memory();
  const bool is_vector = config->value_shape.rank > 0;
  const size_t node = begin_node(w, *out,
                                 is_static   ? "HashTableV2"
                                 : is_vector ? "MutableHashTableOfTensorsV2"
                                             : "MutableHashTableV2");
  write_type(w, "key_dtype", config->key_dtype);
  write_type(w, "value_dtype", config->value_dtype);
  write_number(w, "use_node_name_sharing", VALUE_BOOL, 1);
  if (is_vector) {
    const size_t entry = weft_wire_begin(w->nodes, NODE_ATTR);
    weft_wire_put_text(w->nodes, 1, "value_shape");
    const size_t value = weft_wire_begin(w->nodes, 2);
    const size_t shape = weft_wire_begin(w->nodes, VALUE_SHAPE);
    weft_shape_to_proto(&config->value_shape, w->nodes);
    weft_wire_end(w->nodes, shape);
    weft_wire_end(w->nodes, value);
    weft_wire_end(w->nodes, entry);
  }
  weft_wire_end(w->nodes, node);
  return NULL;
}

/* *out: the table, behind the node that fills it. */
static weft_status_t *write_filled_table(graph_writer_t *w, const weft_lookup_config_t *config,
                                         const weft_tensor_t *keys, const weft_tensor_t *values,
                                         weft_str_t *out) {
  const bool is_static = config->kind == WEFT_LOOKUP_STATIC;
  weft_str_t table, inputs[2];
  WEFT_RETURN_IF_ERROR(write_empty_table(w, config, &table));
  WEFT_RETURN_IF_ERROR(write_const(w, keys, &inputs[0]));
  WEFT_RETURN_IF_ERROR(write_const(w, values, &inputs[1]));
  const weft_str_t fill = new_name(w, WEFT_STR("Fill"));
  *out = new_name(w, WEFT_STR("Identity"));
  if (fill.data == NULL || out->data == NULL) return no_memory();
  size_t node = begin_node(w, fill, is_static ? "InitializeTableV2" : "LookupTableImportV2");
  weft_wire_put_bytes(w->nodes, NODE_INPUT, table);
  for (int i = 0; i < 2; i++) weft_wire_put_bytes(w->nodes, NODE_INPUT, inputs[i]);
  write_type(w, is_static ? "Tkey" : "Tin", config->key_dtype);
  write_type(w, is_static ? "Tval" : "Tout", config->value_dtype);
  weft_wire_end(w->nodes, node);
  node = begin_node(w, *out, "Identity");
  weft_wire_put_bytes(w->nodes, NODE_INPUT, table);
  weft_wire_add_header(w->nodes, NODE_INPUT, fill.length + 1);
  weft_strbuf_putc(w->nodes, '^');
  weft_strbuf_append(w->nodes, fill);
  write_type(w, "T", WEFT_RESOURCE);
  weft_wire_end(w->nodes, node);
  return NULL;
}

/* A table with its entries, since it is nowhere else; as TensorFlow writes all but dense ones. */
static weft_status_t *write_table(graph_writer_t *w, weft_lookup_table_t *table, weft_str_t *out) {
  const weft_lookup_config_t *config = weft_lookup_table_config(table);
  weft_tensor_t *keys = NULL, *values = NULL;
  if (weft_lookup_table_size(table) == 0) return write_empty_table(w, config, out);
  WEFT_RETURN_IF_ERROR(weft_lookup_table_export(table, &keys, &values));
  weft_status_t *s = write_filled_table(w, config, keys, values, out);
  weft_tensor_release(keys);
  weft_tensor_release(values);
  return s;
}

/* What is no data set: a constant, or a table. */
static weft_status_t *write_tensor(graph_writer_t *w, const weft_dataset_t *of, const weft_tensor_t *t,
                                   weft_str_t *out) {
  weft_lookup_table_t *table = table_in(of, t);
  if (table == NULL) return write_const(w, t, out);
  const bool is_dense = weft_lookup_table_config(table)->kind == WEFT_LOOKUP_DENSE;
  weft_status_t *s = is_dense ? write_const(w, t, out) : write_table(w, table, out);
  weft_object_release((weft_object_t *)table);
  return s;
}

/* ---- data sets ---- */

static weft_status_t *write_dataset(graph_writer_t *w, const weft_dataset_t *d, weft_str_t *out);

static const weft_dataset_t *dataset_in(const weft_tensor_t *t) {
  if (t->dtype != WEFT_VARIANT || t->shape.rank != 0) return NULL;
  const weft_variant_t *v = *(weft_variant_t **)t->data;
  return v != NULL && v->type == &weft_dataset_type ? (const weft_dataset_t *)v : NULL;
}

static weft_status_t *write_input(graph_writer_t *w, const weft_dataset_t *of, const weft_tensor_t *t,
                                  weft_str_t *out) {
  const weft_dataset_t *d = dataset_in(t);
  const void *what = d != NULL ? (const void *)d : t;
  const weft_str_t *there = weft_map_get_u64(&w->names, (uint64_t)(uintptr_t)what);
  if (there != NULL) {
    *out = *there;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(d != NULL ? write_dataset(w, d, out) : write_tensor(w, of, t, out));
  return keep_name(w, what, *out);
}

/* Inputs come first. */
static weft_status_t *write_dataset(graph_writer_t *w, const weft_dataset_t *d, weft_str_t *out) {
  const weft_dataset_origin_t *o = d->origin;
  if (o == NULL)
    return WEFT_ERROR(UNIMPLEMENTED, "%sDatasetOp::Dataset does not support serialization.", d->class->name);
  const weft_str_t def = weft_str_of(o->node->def.data, o->node->def.length);
  weft_str_t *inputs = weft_arena_calloc(&w->arena, (size_t)o->num_inputs + 1, sizeof *inputs);
  if (inputs == NULL) return no_memory();
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && d->fns[i] != NULL; i++)
    WEFT_RETURN_IF_ERROR(weft_callee_write(d->fns[i]->callee, &w->functions, &w->library));
  for (int i = 0; i < o->num_inputs; i++) WEFT_RETURN_IF_ERROR(write_input(w, d, o->inputs[i], &inputs[i]));
  *out = new_name(w, op_of(def));
  if (out->data == NULL) return no_memory();
  const size_t node = weft_wire_begin(w->nodes, GRAPH_NODE);
  weft_wire_put_bytes(w->nodes, NODE_NAME, *out);
  for (int i = 0; i < o->num_inputs; i++) weft_wire_put_bytes(w->nodes, NODE_INPUT, inputs[i]);
  weft_strbuf_append(w->nodes, def);
  weft_wire_end(w->nodes, node);
  return NULL;
}

static void write_result(graph_writer_t *w, weft_str_t input) {
  const size_t node = begin_node(w, WEFT_STR("dataset"), "_Retval");
  weft_wire_put_bytes(w->nodes, NODE_INPUT, input);
  write_type(w, "T", WEFT_VARIANT);
  write_number(w, "index", VALUE_INT, 0);
  weft_wire_end(w->nodes, node);
}

static void write_versions(weft_strbuf_t *out) {
  const size_t mark = weft_wire_begin(out, GRAPH_VERSIONS);
  weft_wire_put_varint(out, 1, WEFT_GRAPH_DEF_VERSION);
  weft_wire_end(out, mark);
}

weft_status_t *weft_dataset_as_graph(const weft_dataset_t *d, weft_strbuf_t *out) {
  graph_writer_t w = {.nodes = out};
  weft_str_t name = WEFT_STR("");
  weft_status_t *s = write_dataset(&w, d, &name);
  if (s == NULL) {
    write_result(&w, name);
    weft_wire_put_bytes(out, GRAPH_LIBRARY, weft_str_of(w.library.data, w.library.length));
    write_versions(out);
    if (w.library.failed || out->failed) s = no_memory();
  }
  weft_strbuf_deinit(&w.library);
  weft_map_deinit(&w.names);
  weft_map_deinit(&w.functions);
  weft_arena_deinit(&w.arena);
  return s;
}
