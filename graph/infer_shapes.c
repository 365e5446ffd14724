/* graph/infer_shapes.c - runs the ops' shape functions over a graph.
 *
 * Beside shapes, two things travel along the edges: the shape and type of the
 * variable behind a resource handle, and the values of small integer tensors,
 * from which shapes are made. The shapes of a call's results are worked out in the body of its function.
 */
#include "base/alloc.h"
#include "graph/call_body.h"
#include "graph/node_build.h"
#include "graph/passes.h"
#include "ops/const_fold.h"

/* A body that calls itself has no end; TensorFlow's stack ends some thousand calls deep. */
enum { MAX_DEPTH = 64 };

/* What is known of a node beyond its shapes; most nodes have none. */
typedef struct extra {
  weft_tensor_t *value;        /* of output 0; retained */
  const weft_shape_t *partial; /* what is known of the elements of output 0; interned in the graph. NULL:
                                  nothing, or the value */
  weft_handle_data_t *handles; /* num_outputs, or NULL; in the arena */
} extra_t;

struct weft_inference {
  weft_graph_t *g;
  weft_arena_t arena; /* extras */
  extra_t **extras;   /* owned; by id */
  int capacity;
  int depth;     /* of calls around the graph, which is then a function's body */
  void *scratch; /* owned; the arrays of one node */
  size_t scratch_size;
};

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_NO_MEMORY("inferring shapes of node '%s'", n->name.data);
}

weft_status_t *weft_inference_create(weft_graph_t *g, weft_inference_t **out) {
  weft_inference_t *inf = weft_calloc(1, sizeof *inf);
  if (inf == NULL) return WEFT_NO_MEMORY("inferring shapes");
  inf->g = g;
  *out = inf;
  return NULL;
}

void weft_inference_destroy(weft_inference_t *inf) {
  if (inf == NULL) return;
  for (int i = 0; i < inf->capacity; i++) {
    if (inf->extras[i] != NULL) weft_tensor_release(inf->extras[i]->value);
  }
  weft_free(inf->extras);
  weft_free(inf->scratch);
  weft_arena_deinit(&inf->arena);
  weft_free(inf);
}

static const extra_t *find_extra(const weft_inference_t *inf, const weft_node_t *n) {
  return n->id < inf->capacity ? inf->extras[n->id] : NULL;
}

static weft_status_t *make_extra(weft_inference_t *inf, const weft_node_t *n, extra_t **out) {
  if (n->id >= inf->capacity) {
    int capacity = inf->g->num_nodes + inf->g->num_nodes / 2;
    extra_t **extras = weft_realloc(inf->extras, (size_t)capacity, sizeof(*extras));
    if (extras == NULL) return no_memory(n);
    memset(extras + inf->capacity, 0, (size_t)(capacity - inf->capacity) * sizeof(*extras));
    inf->extras = extras;
    inf->capacity = capacity;
  }
  if (inf->extras[n->id] == NULL) {
    inf->extras[n->id] = weft_arena_calloc(&inf->arena, 1, sizeof **inf->extras);
    if (inf->extras[n->id] == NULL) return no_memory(n);
  }
  *out = inf->extras[n->id];
  return NULL;
}

static weft_tensor_t *value_of(const weft_inference_t *inf, weft_output_t of) {
  if (of.index != 0) return NULL;
  if ((of.node->flags & WEFT_OP_CONST) != 0) {
    const weft_attr_t *value = weft_node_attr(of.node, "value");
    if (value != NULL && value->kind == WEFT_ATTR_TENSOR && !value->is_list) return value->tensor;
  }
  const extra_t *e = find_extra(inf, of.node);
  return e == NULL ? NULL : e->value;
}

const weft_tensor_t *weft_inference_value(const weft_inference_t *inf, weft_output_t of) {
  return value_of(inf, of);
}

const weft_handle_data_t *weft_inference_handle(const weft_inference_t *inf, weft_output_t of) {
  const extra_t *e = find_extra(inf, of.node);
  if (e == NULL || e->handles == NULL || of.index < 0 || of.index >= of.node->num_outputs) return NULL;
  return e->handles[of.index].dtype == 0 ? NULL : &e->handles[of.index];
}

weft_status_t *weft_inference_set_handle(weft_inference_t *inf, weft_output_t of,
                                         const weft_handle_data_t *data) {
  if (of.index < 0 || of.index >= of.node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "node '%s' has no output %d", of.node->name.data, of.index);
  }
  extra_t *e = NULL;
  WEFT_RETURN_IF_ERROR(make_extra(inf, of.node, &e));
  if (e->handles == NULL) {
    size_t n = (size_t)of.node->num_outputs;
    e->handles = weft_arena_calloc(&inf->arena, n, sizeof *e->handles);
    if (e->handles == NULL) return no_memory(of.node);
    for (size_t i = 0; i < n; i++) e->handles[i] = WEFT_NO_HANDLE_DATA;
  }
  e->handles[of.index] = *data;
  return NULL;
}

/* ---- one node ---- */

/* One block for all arrays of a context; only ever grows. */
static void *take(char **at, size_t n, size_t size) {
  void *p = *at;
  *at += (n * size + 15) & ~(size_t)15;
  return p;
}

static bool prepare(weft_inference_t *inf, const weft_node_t *n, weft_shape_ctx_t *c) {
  size_t in = (size_t)n->num_inputs, out = (size_t)n->num_outputs;
  size_t need = (in * 2 + out) * sizeof(weft_shape_t) + (in + out) * sizeof(weft_handle_data_t) +
                in * sizeof(void *) + 128;
  if (need > inf->scratch_size) {
    void *scratch = weft_realloc(inf->scratch, need * 2, 1);
    if (scratch == NULL) return false;
    inf->scratch = scratch;
    inf->scratch_size = need * 2;
  }
  char *at = inf->scratch;
  weft_shape_t *inputs = take(&at, in, sizeof *inputs), *partials = take(&at, in, sizeof *partials);
  c->outputs = take(&at, out, sizeof *c->outputs);
  weft_handle_data_t *handles = take(&at, in, sizeof *handles);
  c->out_handles = take(&at, out, sizeof *c->out_handles);
  const weft_tensor_t **values = take(&at, in, sizeof(*values));
  for (int i = 0; i < n->num_inputs; i++) {
    weft_output_t from = n->inputs[i];
    const extra_t *e = find_extra(inf, from.node);
    inputs[i] = from.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : from.node->output_shapes[from.index];
    values[i] = weft_inference_value(inf, from);
    bool has_partial = e != NULL && e->partial != NULL && from.index == 0;
    partials[i] = has_partial ? *e->partial : WEFT_UNKNOWN_SHAPE;
    handles[i] = e != NULL && e->handles != NULL ? e->handles[from.index] : WEFT_NO_HANDLE_DATA;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    c->outputs[i] = WEFT_UNKNOWN_SHAPE;
    c->out_handles[i] = WEFT_NO_HANDLE_DATA;
  }
  c->inputs = inputs;
  c->values = values;
  c->partials = partials;
  c->handles = handles;
  return true;
}

static weft_status_t *blame(weft_status_t *s, const weft_node_t *n, const weft_shape_ctx_t *c) {
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s for '", weft_status_message(s));
  weft_node_print(n, &text);
  weft_strbuf_puts(&text, "' with input shapes: ");
  for (int i = 0; i < n->num_inputs && i < 100; i++) {
    const weft_shape_t *shape = &c->inputs[i];
    weft_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", shape->rank < 0 ? "?" : WEFT_SHAPE_TEXT(shape));
  }
  weft_strbuf_putc(&text, '.');
  weft_status_t *full = text.failed ? weft_status_clone(s)
                                    : weft_status_from_wire((int)weft_status_code(s), text.data, text.length);
  weft_strbuf_deinit(&text);
  weft_status_free(s);
  return full;
}

static weft_status_t *keep_shapes(weft_inference_t *inf, weft_node_t *n, const weft_shape_ctx_t *c) {
  if (n->num_outputs == 1) {
    n->output_shapes = weft_graph_intern_shape(inf->g, &c->outputs[0]);
    return n->output_shapes == NULL ? no_memory(n) : NULL;
  }
  weft_shape_t *shapes = weft_arena_alloc(inf->g->arena, (size_t)n->num_outputs * sizeof *shapes);
  if (shapes == NULL) return no_memory(n);
  memcpy(shapes, c->outputs, (size_t)n->num_outputs * sizeof *shapes);
  n->output_shapes = shapes;
  return NULL;
}

static weft_status_t *keep_handles(weft_inference_t *inf, const weft_node_t *n, const weft_shape_ctx_t *c) {
  bool has_handles = false;
  for (int i = 0; i < n->num_outputs; i++) {
    weft_dtype_t dtype = weft_dtype_base(n->output_types[i]);
    has_handles |= dtype == WEFT_RESOURCE || (dtype == WEFT_VARIANT && c->out_handles[i].dtype != 0);
  }
  if (!has_handles) return NULL;
  extra_t *e = NULL;
  WEFT_RETURN_IF_ERROR(make_extra(inf, n, &e));
  e->handles = weft_arena_alloc(&inf->arena, (size_t)n->num_outputs * sizeof *e->handles);
  if (e->handles == NULL) return no_memory(n);
  memcpy(e->handles, c->out_handles, (size_t)n->num_outputs * sizeof *e->handles);
  return NULL;
}

/* The size of a TensorArray that keeps the one it was made with; NULL: not known. */
static weft_tensor_t *array_size(const weft_inference_t *inf, const weft_node_t *n) {
  if (n->op->batch != WEFT_BATCH_ARRAY_SIZE) return NULL;
  const weft_node_t *array = n->inputs[0].node;
  bool is_fixed = !weft_node_attr_bool(array, "dynamic_size", true); /* true: it is no array's node */
  return is_fixed ? value_of(inf, array->inputs[0]) : NULL;
}

static weft_status_t *keep_value(weft_inference_t *inf, const weft_node_t *n, const weft_shape_ctx_t *c) {
  weft_tensor_t *value = NULL;
  weft_shape_t partial = WEFT_UNKNOWN_SHAPE;
  extra_t *e = NULL;
  weft_tensor_t *size = array_size(inf, n);
  if (size != NULL) {
    value = weft_tensor_retain(size);
  } else {
    WEFT_RETURN_IF_ERROR(weft_const_fold(c, &value, &partial));
  }
  if (value == NULL && partial.rank < 0) return NULL;
  weft_status_t *s = make_extra(inf, n, &e);
  const weft_shape_t *interned =
      s == NULL && value == NULL ? weft_graph_intern_shape(inf->g, &partial) : NULL;
  if (s == NULL && value == NULL && interned == NULL) s = no_memory(n);
  if (s != NULL) {
    weft_tensor_release(value);
    return s;
  }
  weft_tensor_release(e->value);
  e->value = value;
  e->partial = interned;
  return NULL;
}

/* Infers the shapes in a body, from those of its arguments. */
static weft_status_t *infer_body(weft_inference_t *inf, const weft_call_body_t *body,
                                 const weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_inputs; i++) {
    if (c->handles[i].dtype != 0)
      WEFT_RETURN_IF_ERROR(weft_inference_set_handle(inf, body->args[i], &c->handles[i]));
  }
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(body->graph, &order);
  for (int i = 0; s == NULL && i < body->graph->num_live; i++) {
    bool is_argument = order[i]->id < c->num_inputs;
    if (!is_argument) s = weft_inference_add(inf, order[i]);
  }
  weft_free(order);
  return s;
}

static void take_results(const weft_inference_t *inf, const weft_inlined_t *inlined, weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs && i < inlined->num_results; i++) {
    weft_output_t result = inlined->results[i];
    if (result.node->output_shapes != NULL) c->outputs[i] = result.node->output_shapes[result.index];
    const weft_handle_data_t *handle = weft_inference_handle(inf, result);
    if (handle != NULL) c->out_handles[i] = *handle;
  }
}

/* Shapes through a call: those of its inputs go into the function's body, those of the body's results come
 * out. Values of constants do not pass into a body. Source: the behaviour of TensorFlow's
 * ShapeRefiner::InferShapesForFunction. */
static weft_status_t *infer_call(const weft_inference_t *inf, const weft_node_t *n, weft_shape_ctx_t *c) {
  if (inf->depth >= MAX_DEPTH) return NULL;
  weft_call_body_t *body = NULL;
  WEFT_RETURN_IF_ERROR(weft_call_body_create(inf->g, n, c, &body));
  if (body == NULL) return NULL;
  weft_inference_t *inner = NULL;
  weft_status_t *s = weft_inference_create(body->graph, &inner);
  if (s == NULL) {
    inner->depth = inf->depth + 1;
    s = infer_body(inner, body, c);
  }
  if (s == NULL) take_results(inner, &body->inlined, c);
  weft_inference_destroy(inner);
  weft_call_body_destroy(body);
  return s;
}

weft_status_t *weft_inference_add(weft_inference_t *inf, weft_node_t *n) {
  if (n->num_outputs == 0 && n->num_inputs == 0) return NULL;
  weft_shape_ctx_t c = {.op = n->op,
                        .node_name = n->name,
                        .attrs = n->attrs,
                        .num_attrs = n->num_attrs,
                        .num_inputs = n->num_inputs,
                        .num_outputs = n->num_outputs,
                        .input_types = n->input_types,
                        .output_types = n->output_types};
  if (!prepare(inf, n, &c)) return no_memory(n);
  if (n->function != NULL || (n->flags & WEFT_OP_CALL) != 0) {
    WEFT_RETURN_IF_ERROR(infer_call(inf, n, &c));
  } else if (n->op->infer_shapes != NULL) {
    weft_status_t *s = n->op->infer_shapes(&c);
    if (s != NULL) return blame(s, n, &c);
  }
  if (n->num_outputs == 0) return NULL;
  WEFT_RETURN_IF_ERROR(keep_shapes(inf, n, &c));
  WEFT_RETURN_IF_ERROR(keep_handles(inf, n, &c));
  return keep_value(inf, n, &c);
}

weft_status_t *weft_pass_infer_shapes(weft_graph_t *g) {
  weft_inference_t *inf = NULL;
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  if (s == NULL) s = weft_inference_create(g, &inf);
  for (int i = 0; i < g->num_live && s == NULL; i++) s = weft_inference_add(inf, order[i]);
  weft_inference_destroy(inf);
  weft_free(order);
  return s;
}
