/* client/edit.c - changing nodes that are in a graph already: for front ends that patch what they build.
 *
 * A session that has been sent a node does not see later changes of it, as in TensorFlow: nodes are to be
 * changed before the first run.
 */
#include "base/alloc.h"
#include "client/buffer.h"
#include "client/graph.h"
#include "client/status.h"
#include "graph/graph_proto.h"
#include "ops/shape_inference.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("changing a node"); }

/* ---- edges ---- */

static weft_shape_t shape_of(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index];
}

static weft_status_t *update_edge(TF_Graph *g, TF_Output new_src, TF_Input dst) WEFT_REQUIRES(g->mu) {
  const weft_output_t from = weft_client_output(new_src);
  weft_node_t *to = dst.oper->node;
  if (from.index < 0 || from.index >= from.node->num_outputs) {
    return WEFT_ERROR(
        OUT_OF_RANGE,
        "Cannot update edge. Output index [%d] is greater than the number of total outputs [%d].", from.index,
        from.node->num_outputs);
  }
  if (dst.index < 0 || dst.index >= to->num_inputs) {
    return WEFT_ERROR(OUT_OF_RANGE,
                      "Cannot update edge. Input index [%d] is greater than the number of total inputs [%d].",
                      dst.index, to->num_inputs);
  }
  const weft_output_t old = to->inputs[dst.index];
  const weft_shape_t is = shape_of(from), was = shape_of(old);
  if (!weft_shape_compatible(&is, &was)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot update edge, incompatible shapes: %s and %s.",
                      WEFT_SHAPE_TEXT(&is), WEFT_SHAPE_TEXT(&was));
  }
  int given = from.node->output_types[from.index], wanted = to->input_types[dst.index];
  if (weft_dtype_base(given) != weft_dtype_base(wanted)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot update edge, incompatible types: %s and %s.",
                      weft_dtype_name(given), weft_dtype_name(wanted));
  }
  WEFT_RETURN_IF_ERROR(weft_client_edge_add_locked(g, new_src.oper, dst.oper, from.index, dst.index));
  weft_client_edge_remove_locked(g, weft_client_operation(g, old.node), dst.oper, old.index, dst.index);
  weft_graph_set_input(to, dst.index, from);
  return NULL;
}

void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst, TF_Status *status) {
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = update_edge(graph, new_src, dst);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, s);
}

void TF_AddOperationControlInput(TF_Graph *graph, TF_Operation *op, TF_Operation *input) {
  weft_mutex_lock(&graph->mu);
  int before = op->node->num_controls;
  weft_status_t *s = weft_graph_add_control(graph->graph, input->node, op->node);
  if (s == NULL && op->node->num_controls > before) s = weft_client_edge_add_locked(graph, input, op, -1, -1);
  weft_mutex_unlock(&graph->mu);
  weft_status_free(s); /* the C API's function cannot report it */
}

void TF_RemoveAllControlInputs(TF_Graph *graph, TF_Operation *op) {
  weft_mutex_lock(&graph->mu);
  for (int i = 0; i < op->node->num_controls; i++) {
    weft_client_edge_remove_locked(graph, weft_client_operation(graph, op->node->controls[i]), op, -1, -1);
  }
  weft_graph_clear_controls(graph->graph, op->node);
  weft_mutex_unlock(&graph->mu);
}

static weft_status_t *append_input(TF_Graph *g, TF_Output new_src, TF_Operation *dst) WEFT_REQUIRES(g->mu) {
  weft_node_t *n = dst->node;
  const weft_output_t from = weft_client_output(new_src);
  bool is_while = (n->flags & WEFT_OP_FUNCTIONAL) != 0 && weft_node_attr(n, "cond") != NULL;
  if (!is_while) {
    return WEFT_ERROR(INTERNAL, "dst argument to AddWhileEdgeHack should be a While op, got: {{node %s}}",
                      n->name.data);
  }
  if (from.index < 0 || from.index >= from.node->num_outputs) {
    return WEFT_ERROR(OUT_OF_RANGE, "node '%s' has no output %d", from.node->name.data, from.index);
  }
  size_t count = (size_t)n->num_inputs + 1;
  weft_output_t *inputs = weft_arena_alloc(&g->graph->records, count * sizeof *inputs);
  int *types = weft_arena_alloc(g->graph->arena, count * sizeof *types);
  if (inputs == NULL || types == NULL) return no_memory();
  if (n->num_inputs > 0) {
    memcpy(inputs, n->inputs, (count - 1) * sizeof *inputs);
    memcpy(types, n->input_types, (count - 1) * sizeof *types);
  }
  inputs[n->num_inputs] = from;
  types[n->num_inputs] = (int)weft_dtype_base(from.node->output_types[from.index]);
  WEFT_RETURN_IF_ERROR(weft_client_edge_add_locked(g, new_src.oper, dst, from.index, n->num_inputs));
  n->inputs = inputs;
  n->input_types = types;
  n->num_inputs++;
  return NULL;
}

void TF_AddWhileInputHack(TF_Graph *graph, TF_Output new_src, TF_Operation *dst, TF_Status *status) {
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = append_input(graph, new_src, dst);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, s);
}

/* ---- attributes ---- */

void TF_SetAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name, TF_Buffer *attr_value_proto,
                TF_Status *status) {
  weft_attr_t value = {.kind = WEFT_ATTR_NONE};
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = weft_attr_from_proto(&graph->arena, weft_client_bytes(attr_value_proto), &value);
  if (s == NULL) s = weft_graph_set_attr(graph->graph, op->node, attr_name, &value);
  weft_attr_release_tensors(&value);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, s);
}

void TF_ClearAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name, TF_Status *status) {
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = weft_graph_clear_attr(graph->graph, op->node, attr_name);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, s);
}

void TF_SetRequestedDevice(TF_Graph *graph, TF_Operation *op, const char *device) {
  weft_mutex_lock(&graph->mu);
  weft_str_t text = weft_graph_intern(graph->graph, weft_str(device));
  if (text.data != NULL) op->node->requested_device = text;
  weft_mutex_unlock(&graph->mu);
}

/* Full types refine dtypes for TensorFlow's own compiler; nothing here depends on them. */
void TF_SetFullType(TF_Graph *graph, TF_Operation *op, const TF_Buffer *full_type_proto) {
  (void)graph;
  (void)op;
  (void)full_type_proto;
}

/* Every op of the table that has outputs of a certain shape has a shape function: nothing to require. */
void TF_SetRequireShapeInferenceFns(TF_Graph *graph, bool require) {
  (void)graph;
  (void)require;
}

/* ---- handles ---- */

static void put_shape_and_type(weft_strbuf_t *text, const weft_shape_t *shape, int type) {
  size_t mark = weft_wire_begin(text, 2), in_shape = weft_wire_begin(text, 1);
  weft_shape_to_proto(shape, text);
  weft_wire_end(text, in_shape);
  weft_wire_put_i64(text, 2, type);
  weft_wire_add_bytes(text, 4, WEFT_STR("")); /* a full type, not set */
  weft_wire_end(text, mark);
}

/* HandleData: of a table the keys come first. */
TF_Buffer *TF_GetHandleShapeAndType(TF_Graph *graph, TF_Output output) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  TF_Buffer *buffer = NULL;
  weft_mutex_lock(&graph->mu);
  const weft_handle_data_t *data = weft_inference_handle(graph->inference, weft_client_output(output));
  if (data != NULL) {
    weft_wire_put_bool(&text, 1, true);
    if (data->key_dtype != 0) put_shape_and_type(&text, &data->keys, data->key_dtype);
    put_shape_and_type(&text, &data->shape, data->dtype);
  }
  weft_mutex_unlock(&graph->mu);
  weft_status_free(weft_client_new_buffer(&text, &buffer)); /* the interface has no other answer than NULL */
  return buffer;
}

static weft_status_t *read_handle(weft_str_t bytes, bool *is_set, weft_handle_data_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes), inner;
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) *is_set = f.value != 0;
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    out->keys = out->shape;
    out->key_dtype = out->dtype;
    for (inner = weft_wire_reader(f.bytes); weft_wire_next(&inner, &f);) {
      if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES))
        WEFT_RETURN_IF_ERROR(weft_shape_from_proto(f.bytes, &out->shape));
      if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) out->dtype = weft_wire_i32(f.value);
    }
    r.failed |= inner.failed;
  }
  return r.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Couldn't deserialize HandleData proto") : NULL;
}

void TF_SetHandleShapeAndType(TF_Graph *graph, TF_Output output, const void *proto, size_t proto_len,
                              TF_Status *status) {
  weft_handle_data_t data = WEFT_NO_HANDLE_DATA;
  bool is_set = false;
  weft_status_t *s = read_handle(weft_str_of(proto, proto_len), &is_set, &data);
  if (s == NULL && is_set) {
    weft_mutex_lock(&graph->mu);
    s = weft_inference_set_handle(graph->inference, weft_client_output(output), &data);
    weft_mutex_unlock(&graph->mu);
  }
  weft_client_end(status, s);
}
