/* client/graph.c - the graph object: life, operations, consumers, shapes.
 *
 * Locking: `mu` of a graph is taken before that of a session; no callback runs with it held.
 */
#include "client/graph.h"

#include <unistd.h>

#include "base/alloc.h"
#include "client/buffer.h"
#include "client/status.h"
#include "client/tensor.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "ops/shape_inference.h"
#include "protos/wire.h"

typedef struct weft_client_set_shape set_shape_t;
struct weft_client_set_shape {
  set_shape_t *next;
  weft_output_t output;
  weft_shape_t shape;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the graph"); }

/* ---- life ---- */

TF_Graph *TF_NewGraph(void) {
  TF_Graph *g = weft_calloc(1, sizeof *g);
  if (g == NULL) return NULL;
  atomic_init(&g->refs, 1);
  weft_mutex_init(&g->mu);
  weft_status_t *s = weft_graph_create(&g->graph);
  if (s == NULL) s = weft_inference_create(g->graph, &g->inference);
  if (s == NULL) return g;
  weft_status_free(s); /* the interface has no other answer than NULL */
  weft_client_graph_release(g);
  return NULL;
}

void weft_client_graph_retain(TF_Graph *g) { atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed); }

void weft_client_graph_release(TF_Graph *g) {
  if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
  if (g->strategy_scope != NULL) g->free_strategy_scope(g->strategy_scope);
  weft_inference_destroy(g->inference);
  weft_graph_destroy(g->graph);
  weft_free(g->operations);
  weft_arena_deinit(&g->arena);
  weft_mutex_deinit(&g->mu);
  weft_free(g);
}

void TF_DeleteGraph(TF_Graph *g) { weft_client_graph_release(g); }

/* ---- operations and edges ---- */

weft_status_t *weft_client_edge_add_locked(TF_Graph *g, TF_Operation *from, TF_Operation *to, int output,
                                           int input) {
  weft_client_edge_t *e = weft_arena_alloc(&g->arena, sizeof *e);
  if (e == NULL) return no_memory();
  *e = (weft_client_edge_t){NULL, to, output, input};
  if (from->last == NULL) {
    from->first = e;
  } else {
    from->last->next = e;
  }
  from->last = e;
  return NULL;
}

void weft_client_edge_remove_locked(TF_Graph *g, TF_Operation *from, const TF_Operation *to, int output,
                                    int input) {
  (void)g; /* for the lock */
  weft_client_edge_t *before = NULL, *e = from->first;
  while (e != NULL && !(e->to == to && e->output == output && e->input == input)) {
    before = e;
    e = e->next;
  }
  if (e == NULL) return;
  if (before == NULL) {
    from->first = e->next;
  } else {
    before->next = e->next;
  }
  if (from->last == e) from->last = before;
}

static bool reserve(TF_Graph *g) {
  if (g->graph->num_nodes <= g->capacity) return true;
  int capacity = g->capacity < 64 ? 64 : g->capacity;
  while (capacity < g->graph->num_nodes) capacity += capacity / 2;
  TF_Operation **all = weft_realloc(g->operations, (size_t)capacity, sizeof *all);
  if (all == NULL) return false;
  g->operations = all;
  g->capacity = capacity;
  return true;
}

static weft_status_t *add_edges(TF_Graph *g, TF_Operation *o) WEFT_REQUIRES(g->mu) {
  for (int i = 0; i < o->node->num_inputs; i++) {
    weft_output_t from = o->node->inputs[i];
    WEFT_RETURN_IF_ERROR(weft_client_edge_add_locked(g, g->operations[from.node->id], o, from.index, i));
  }
  for (int i = 0; i < o->node->num_controls; i++) {
    WEFT_RETURN_IF_ERROR(weft_client_edge_add_locked(g, g->operations[o->node->controls[i]->id], o, -1, -1));
  }
  return NULL;
}

static void remove_edges(TF_Graph *g, TF_Operation *o) WEFT_REQUIRES(g->mu) {
  for (int i = 0; i < o->node->num_inputs; i++) {
    weft_output_t from = o->node->inputs[i];
    weft_client_edge_remove_locked(g, g->operations[from.node->id], o, from.index, i);
  }
  for (int i = 0; i < o->node->num_controls; i++) {
    weft_client_edge_remove_locked(g, g->operations[o->node->controls[i]->id], o, -1, -1);
  }
}

static weft_status_t *add_operations(TF_Graph *g, int first) WEFT_REQUIRES(g->mu) {
  if (!reserve(g)) return no_memory();
  for (int id = first; id < g->graph->num_nodes; id++) {
    weft_node_t *n = g->graph->nodes[id];
    TF_Operation *o = n == NULL ? NULL : weft_arena_calloc(&g->arena, 1, sizeof *o);
    if (n != NULL && o == NULL) return no_memory();
    if (o != NULL) {
      o->node = n;
      o->graph = g;
      atomic_init(&o->names, NULL);
    }
    g->operations[id] = o;
  }
  return NULL;
}

weft_status_t *weft_client_graph_sync_locked(TF_Graph *g) {
  int first = g->num_operations, end = g->graph->num_nodes;
  WEFT_RETURN_IF_ERROR(add_operations(g, first));
  weft_status_t *s = NULL;
  for (int id = first; id < end && s == NULL; id++) {
    if (g->operations[id] != NULL) s = add_edges(g, g->operations[id]);
  }
  if (s != NULL) { /* drop all edges to the nodes that are about to be removed */
    for (int id = first; id < end; id++) {
      if (g->operations[id] != NULL) remove_edges(g, g->operations[id]);
    }
    return s;
  }
  g->num_operations = end;
  atomic_store_explicit(&g->size, end, memory_order_release); /* pairs with a session's look */
  return NULL;
}

weft_status_t *weft_client_graph_relink_locked(TF_Graph *g) {
  for (int id = 0; id < g->num_operations; id++) {
    if (g->operations[id] != NULL) g->operations[id]->first = g->operations[id]->last = NULL;
  }
  for (int id = 0; id < g->num_operations; id++) {
    if (g->operations[id] != NULL) WEFT_RETURN_IF_ERROR(add_edges(g, g->operations[id]));
  }
  return NULL;
}

static weft_status_t *print_names(TF_Operation *o, const weft_str_t **out) {
  weft_arena_t *arena = &o->graph->arena;
  weft_str_t *names = weft_arena_alloc(arena, (size_t)o->node->num_outputs * sizeof *names);
  if (names == NULL) return no_memory();
  for (int i = 0; i < o->node->num_outputs; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "%.*s:%d", WEFT_STR_ARGS(o->node->name), i);
    names[i] =
        text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(text.data, text.length));
    weft_strbuf_deinit(&text);
    if (names[i].data == NULL) return no_memory();
  }
  *out = names;
  return NULL;
}

weft_str_t weft_client_tensor_name(TF_Output o) {
  const weft_str_t *names =
      atomic_load_explicit(&o.oper->names, memory_order_acquire); /* pairs with the store below */
  if (names != NULL) return names[o.index];
  weft_mutex_lock(&o.oper->graph->mu);
  names = atomic_load_explicit(&o.oper->names, memory_order_relaxed);
  if (names == NULL) {
    weft_status_t *s = print_names(o.oper, &names);
    if (s == NULL) atomic_store_explicit(&o.oper->names, names, memory_order_release);
    weft_status_free(s); /* the caller sees it as NULL */
  }
  weft_mutex_unlock(&o.oper->graph->mu);
  return names == NULL ? (weft_str_t){NULL, 0} : names[o.index];
}

TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name) {
  weft_mutex_lock(&graph->mu);
  weft_node_t *n = weft_graph_find(graph->graph, weft_str(oper_name));
  TF_Operation *o = n == NULL || n->id >= graph->num_operations ? NULL : weft_client_operation(graph, n);
  weft_mutex_unlock(&graph->mu);
  return o;
}

TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos) {
  TF_Operation *o = NULL;
  weft_mutex_lock(&graph->mu);
  while (o == NULL && *pos < (size_t)graph->num_operations) o = graph->operations[(*pos)++];
  weft_mutex_unlock(&graph->mu);
  return o;
}

/* ---- shapes ---- */

weft_status_t *weft_client_graph_infer(weft_graph_t *g, weft_inference_t *inference, int first_id) {
  bool is_ordered = true;
  for (int id = first_id; id < g->num_nodes && is_ordered; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs && is_ordered; i++)
      is_ordered = n->inputs[i].node->id < id;
  }
  weft_node_t **order = NULL;
  weft_status_t *s = is_ordered ? NULL : weft_graph_topological_order(g, &order);
  int n = is_ordered ? g->num_nodes - first_id : g->num_live;
  for (int i = 0; i < n && s == NULL; i++) {
    weft_node_t *node = is_ordered ? g->nodes[first_id + i] : order[i];
    if (node != NULL && node->id >= first_id) s = weft_inference_add(inference, node);
  }
  weft_free(order);
  return s;
}

static weft_status_t *merge_shape(TF_Graph *g, weft_output_t o, const weft_shape_t *shape) {
  weft_shape_t old = o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index],
               merged;
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&old, shape, &merged));
  weft_shape_t *all = weft_arena_calloc(&g->arena, (size_t)o.node->num_outputs, sizeof *all);
  if (all == NULL) return no_memory();
  for (int i = 0; i < o.node->num_outputs; i++) {
    all[i] = o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[i];
  }
  all[o.index] = merged;
  o.node->output_shapes = all;
  return NULL;
}

weft_status_t *weft_client_set_shape_locked(TF_Graph *g, weft_output_t o, const weft_shape_t *shape) {
  if (o.index < 0 || o.index >= o.node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "output_port '%d' is out of range, node '%s' has %d outputs", o.index,
                      o.node->name.data, o.node->num_outputs);
  }
  WEFT_RETURN_IF_ERROR(merge_shape(g, o, shape));
  set_shape_t *kept = weft_arena_alloc(&g->arena, sizeof *kept);
  if (kept == NULL) return no_memory();
  *kept = (set_shape_t){g->set_shapes, o, *shape};
  g->set_shapes = kept;
  return NULL;
}

void weft_client_reset_shapes_locked(TF_Graph *g) {
  for (set_shape_t *k = g->set_shapes; k != NULL; k = k->next)
    weft_status_free(merge_shape(g, k->output, &k->shape));
}

static weft_status_t *check_output(const TF_Graph *g, TF_Output output) {
  if (output.oper == NULL || output.oper->graph != g) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node %s was not found in the graph",
                      output.oper == NULL ? "(null)" : output.oper->node->name.data);
  }
  if (output.index >= 0 && output.index < output.oper->node->num_outputs) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "output_port '%d' is out of range, node '%s' has %d outputs",
                    output.index, output.oper->node->name.data, output.oper->node->num_outputs);
}

void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims, const int num_dims,
                            TF_Status *status) {
  weft_shape_t shape;
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = check_output(graph, output);
  if (s == NULL) s = weft_client_shape(dims, num_dims, &shape);
  if (s == NULL) s = weft_client_set_shape_locked(graph, weft_client_output(output), &shape);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, s);
}

static weft_status_t *get_shape(TF_Graph *graph, TF_Output output, weft_shape_t *out) {
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = check_output(graph, output);
  if (s == NULL) {
    const weft_shape_t *all = output.oper->node->output_shapes;
    *out = all == NULL ? WEFT_UNKNOWN_SHAPE : all[output.index];
  }
  weft_mutex_unlock(&graph->mu);
  return s;
}

int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status) {
  weft_shape_t shape = WEFT_UNKNOWN_SHAPE;
  weft_client_end(status, get_shape(graph, output, &shape));
  return shape.rank;
}

void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims, int num_dims,
                            TF_Status *status) {
  weft_shape_t shape = WEFT_UNKNOWN_SHAPE;
  weft_status_t *s = get_shape(graph, output, &shape);
  if (s == NULL && shape.rank >= 0 && shape.rank != num_dims) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected rank is %d but actual rank is %d", num_dims, shape.rank);
  }
  if (!weft_client_end(status, s)) return;
  for (int i = 0; i < shape.rank; i++) dims[i] = shape.dims[i];
}

/* ---- export ---- */

void weft_client_note_functions_locked(TF_Graph *g) {
  enum { FIRST_WITH_FUNCTIONS = 12 }; /* as TensorFlow's graph.cc has it */
  bool has_any = g->graph->library->by_name.count > 0;
  if (has_any && g->graph->min_consumer < FIRST_WITH_FUNCTIONS) g->graph->min_consumer = FIRST_WITH_FUNCTIONS;
}

static void write_library(const weft_function_library_t *l, weft_strbuf_t *out) {
  if (l->by_name.count + l->gradients.count == 0) return;
  weft_map_entry_t e;
  size_t mark = weft_wire_begin(out, 2);
  for (size_t at = 0; weft_map_next(&l->by_name, &at, &e);) {
    weft_wire_add_bytes(out, 1, ((const weft_function_t *)e.value)->def);
  }
  for (size_t at = 0; weft_map_next(&l->gradients, &at, &e);)
    weft_wire_add_bytes(out, 2, *(const weft_str_t *)e.value);
  weft_wire_end(out, mark);
}

static void write_versions(const weft_graph_t *g, weft_strbuf_t *out) {
  weft_wire_put_i64(out, 1, g->producer);
  weft_wire_put_i64(out, 2, g->min_consumer);
  for (int i = 0; i < g->num_bad_consumers; i++)
    weft_wire_add_varint(out, 3, (uint64_t)(int64_t)g->bad_consumers[i]);
}

weft_status_t *weft_client_export_locked(TF_Graph *g, int first_id, weft_strbuf_t *out) {
  for (int id = first_id; id < g->graph->num_nodes; id++) {
    if (g->graph->nodes[id] == NULL) continue;
    size_t mark = weft_wire_begin(out, 1);
    weft_status_t *s = weft_node_export(g->graph->nodes[id], out);
    weft_wire_end(out, mark);
    if (s != NULL) return s;
  }
  write_library(g->graph->library, out);
  size_t mark = weft_wire_begin(out, 4);
  write_versions(g->graph, out);
  weft_wire_end(out, mark);
  return out->failed ? no_memory() : NULL;
}

void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_mutex_lock(&graph->mu);
  weft_status_t *s = weft_graph_export(graph->graph, false, &text);
  weft_mutex_unlock(&graph->mu);
  if (s == NULL) s = weft_client_fill(output_graph_def, &text);
  weft_strbuf_deinit(&text);
  weft_client_end(status, s);
}

void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_mutex_lock(&graph->mu);
  write_versions(graph->graph, &text);
  weft_mutex_unlock(&graph->mu);
  weft_client_end(status, weft_client_fill(output_version_def, &text));
}

static weft_status_t *find_signature(weft_str_t function_def, weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(function_def);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    out->length = 0;
    weft_strbuf_append(out, f.bytes);
  }
  return out->failed ? no_memory() : NULL;
}

weft_status_t *weft_client_unknown_op(const char *name) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  return WEFT_ERROR(NOT_FOUND,
                    "Op type not registered '%s' in binary running on %s. Make sure the Op and Kernel are "
                    "registered in the binary running in this process. Note that if you are loading a saved "
                    "graph which used "
                    "ops from tf.contrib (e.g. `tf.contrib.resampler`), accessing should be done before "
                    "importing the graph, "
                    "as contrib ops are lazily registered when the module is first accessed.",
                    name, host);
}

void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  const weft_op_def_t *op = weft_op_find(weft_str(op_name));
  weft_mutex_lock(&graph->mu);
  const weft_function_t *f = weft_function_find(graph->graph->library, weft_str(op_name));
  if (op != NULL) {
    s = weft_op_def_to_proto(op, &text);
  } else if (f != NULL) {
    s = find_signature(f->def, &text);
  } else {
    s = weft_client_unknown_op(op_name);
  }
  weft_mutex_unlock(&graph->mu);
  if (s == NULL) s = weft_client_fill(output_op_def, &text);
  weft_strbuf_deinit(&text);
  weft_client_end(status, s);
}
