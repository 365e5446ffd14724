/* graph/graph_proto.h - GraphDef, NodeDef and FunctionDef in and out.
 *
 * The binary form is decoded directly (protos/wire.h): a million nodes pass
 * through here. Text goes through protos/text_format first.
 */
#ifndef WEFT_GRAPH_GRAPH_PROTO_H_
#define WEFT_GRAPH_GRAPH_PROTO_H_

#include "graph/graph.h"

typedef struct weft_import_options {
  bool allow_internal_ops; /* nodes whose name or op starts with '_': for graphs from a master, not from a
                              client */
  bool allow_existing;     /* inputs may name nodes that are already in the graph (extend) */
  bool is_extend;          /* the graph's producer stays; functions may be sent again if identical */
  bool is_client_api;      /* word failures as TensorFlow's C API does, not as its servers do */
} weft_import_options_t;

/* Adds all nodes and functions of a serialized GraphDef to `g`, filling in attribute defaults, and validates
 * them: names, ops, attribute types, input counts and dtypes, dangling inputs, duplicate names, cycles
 * outside loops, versions. Nodes may come in any order. On failure `g` is unusable: destroy it. Errors:
 * INVALID_ARGUMENT naming the node; NOT_FOUND / UNIMPLEMENTED listing EVERY op that is not known at once. */
WEFT_MUST_CHECK weft_status_t *weft_graph_import(weft_graph_t *g, weft_str_t graph_def,
                                                 const weft_import_options_t *o);
/* Serializes the graph as GraphDef: nodes in id order, attributes sorted by name, functions, versions.
 * `strip_defaults` leaves out attributes equal to the op's default. device = assigned if placed, else
 * requested. */
WEFT_MUST_CHECK weft_status_t *weft_graph_export(const weft_graph_t *g, bool strip_defaults,
                                                 weft_strbuf_t *out);
WEFT_MUST_CHECK weft_status_t *weft_node_export(const weft_node_t *n, weft_strbuf_t *out); /* one NodeDef */
/* One AttrValue, both ways; *out lives in `arena` (tensors are owned by it: release with
 * weft_attr_release_tensors). */
WEFT_MUST_CHECK weft_status_t *weft_attr_from_proto(weft_arena_t *arena, weft_str_t bytes, weft_attr_t *out);
WEFT_MUST_CHECK weft_status_t *weft_attr_to_proto(const weft_attr_t *a, weft_strbuf_t *out);
/* Appends an entry of a map<string, AttrValue> as field `number`: 5 in a NodeDef. */
WEFT_MUST_CHECK weft_status_t *weft_attr_map_to_proto(uint32_t number, weft_str_t name,
                                                      const weft_attr_t *value, weft_strbuf_t *out);
/* An op of the table as a serialized OpDef. */
WEFT_MUST_CHECK weft_status_t *weft_op_def_to_proto(const weft_op_def_t *op, weft_strbuf_t *out);

#endif /* WEFT_GRAPH_GRAPH_PROTO_H_ */
