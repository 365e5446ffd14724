/* jobs/log_nodes.c - updates of a step, and nodes beside them.
 *
 * The norm of t is Sqrt(2 L2Loss(t)), as tf.linalg.global_norm computes it; in float for types of 16 bits,
 * whose squares are too large or too small for them. A weight is read after all updates of its variable.
 */
#include "jobs/log_nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "jobs/c_api.h"
#include "jobs/reach.h"
#include "ops/op.h"
#include "protos/wire.h"

/* Fields of GraphDef, NodeDef, AttrValue, TensorProto. */
enum {
  GRAPH_NODE = 1,
  NODE_NAME = 1,
  NODE_OP = 2,
  NODE_INPUT = 3,
  NODE_DEVICE = 4,
  NODE_ATTR = 5,
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2,
  ATTR_TYPE = 6,
  ATTR_TENSOR = 8,
  TENSOR_DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_FLOATS = 5,
  TENSOR_DOUBLES = 6,
};

typedef struct noted_update {
  TF_Operation *op, *variable;
  TF_Output gradient, rate; /* oper NULL: it has none */
} noted_update_t;

typedef struct log_finder {
  TF_Graph *graph;
  weft_arena_t *arena;
  weft_strbuf_t *nodes;
  const weft_job_names_t *fed;
  weft_job_log_wishes_t *wishes;
  noted_update_t *updates; /* owned */
  int num_updates, capacity, num_parts;
  bool has_branches; /* some node of the step begins a loop or a branch */
  TF_Status *status; /* owned */
} log_finder_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the nodes of a log"); }

void weft_job_log_wishes_deinit(weft_job_log_wishes_t *l) {
  for (int i = 0; i < l->n; i++) weft_tensor_release(l->items[i].constant);
  weft_free(l->items);
  *l = (weft_job_log_wishes_t){0};
}

/* Consumes `constant`, which may be NULL. */
static weft_status_t *add_wish(log_finder_t *f, const weft_strbuf_t *tag, weft_str_t name,
                               weft_tensor_t *constant) {
  weft_job_log_wishes_t *l = f->wishes;
  if (l->n == l->capacity) {
    int capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
    weft_job_log_wish_t *more = weft_realloc(l->items, (size_t)capacity, sizeof *more);
    if (more != NULL) l->items = more;
    if (more != NULL) l->capacity = capacity;
  }
  const weft_job_log_wish_t wish = {.tag = weft_arena_str(f->arena, weft_str_of(tag->data, tag->length)),
                                    .name = weft_arena_str(f->arena, name),
                                    .constant = constant};
  if (l->n == l->capacity || tag->failed || wish.tag.data == NULL || wish.name.data == NULL) {
    weft_tensor_release(constant);
    return no_memory();
  }
  l->items[l->n++] = wish;
  return NULL;
}

/* ---- what runs at each step ---- */

static const weft_op_def_t *def_of(const TF_Operation *op) {
  return weft_op_find(weft_str(TF_OperationOpType((TF_Operation *)(uintptr_t)op)));
}

/* Nodes at their depth: how many ends of loops and conditionals (Exit, Merge) lie between them and the node
 * that the walk began at, less how many begins (Enter, Switch). The Switch and Merge of a loop are within
 * it. */
typedef struct depth_walk {
  weft_map_t seen;
  struct depth_place {
    TF_Operation *op;
    int depth;
  } * stack; /* owned */
  size_t n, capacity;
} depth_walk_t;

enum { MOST_DEPTHS = 8 }; /* nodes are that far apart in memory; deeper is taken for a branch */

static weft_status_t *push_place(depth_walk_t *w, TF_Operation *op, int depth) {
  const uint64_t key = (uint64_t)(uintptr_t)op + (uint64_t)depth;
  if (weft_map_get_u64(&w->seen, key) != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&w->seen, key, op, NULL));
  if (w->n == w->capacity) {
    size_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
    struct depth_place *more = weft_realloc(w->stack, capacity, sizeof *more);
    if (more == NULL) return no_memory();
    w->stack = more;
    w->capacity = capacity;
  }
  w->stack[w->n++] = (struct depth_place){op, depth};
  return NULL;
}

static weft_status_t *push_inputs(depth_walk_t *w, TF_Operation *op, int depth) {
  const int n = TF_OperationNumControlInputs(op);
  TF_Operation **controls = weft_calloc((size_t)n + 1, sizeof *controls);
  weft_status_t *s = controls == NULL ? no_memory() : NULL;
  if (s == NULL) TF_OperationGetControlInputs(op, controls, n);
  for (int i = 0; s == NULL && i < n; i++) s = push_place(w, controls[i], depth);
  for (int i = 0; s == NULL && i < TF_OperationNumInputs(op); i++)
    s = push_place(w, TF_OperationInput((TF_Input){op, i}).oper, depth);
  weft_free(controls);
  return s;
}

/* Has one of its inputs a flag of these? */
static bool takes(TF_Operation *op, uint64_t flags) {
  for (int i = 0; i < TF_OperationNumInputs(op); i++) {
    const weft_op_def_t *def = def_of(TF_OperationInput((TF_Input){op, i}).oper);
    if (def != NULL && (def->flags & flags) != 0) return true;
  }
  return false;
}

/* Is it outside of all loops and branches, so that it runs once in each step? Nodes that were seen before
 * are. */
static weft_status_t *runs_always(depth_walk_t *w, TF_Operation *op, bool *out) {
  weft_status_t *s = push_place(w, op, 0);
  *out = true;
  while (s == NULL && w->n > 0 && *out) {
    const struct depth_place at = w->stack[--w->n];
    const weft_op_def_t *def = def_of(at.op);
    const uint64_t flags = def == NULL ? 0 : def->flags;
    const bool is_loop_s = takes(at.op, WEFT_OP_NEXT_ITERATION | WEFT_OP_LOOP_COND);
    int depth = at.depth;
    if ((flags & WEFT_OP_EXIT) != 0 || ((flags & WEFT_OP_MERGE) != 0 && !is_loop_s)) depth++;
    if ((flags & WEFT_OP_ENTER) != 0 || ((flags & WEFT_OP_SWITCH) != 0 && !is_loop_s)) depth--;
    *out = depth >= 0 && depth < MOST_DEPTHS;
    if (*out) s = push_inputs(w, at.op, depth);
  }
  return s;
}

static void end_walk(depth_walk_t *w) {
  weft_free(w->stack);
  weft_map_deinit(&w->seen);
  *w = (depth_walk_t){.seen = WEFT_MAP_INIT};
}

/* What a branch or a loop updates is not there to be fetched in each step. */
static weft_status_t *drop_conditional(log_finder_t *f) {
  depth_walk_t w = {.seen = WEFT_MAP_INIT};
  weft_status_t *s = NULL;
  int kept = 0;
  for (int i = 0; s == NULL && f->has_branches && i < f->num_updates; i++) {
    bool always = false;
    s = runs_always(&w, f->updates[i].op, &always);
    if (always) f->updates[kept++] = f->updates[i];
    if (!always) end_walk(&w);
  }
  if (f->has_branches) f->num_updates = kept;
  end_walk(&w);
  return s;
}

/* ---- updates ---- */

static int input_called(const weft_op_def_t *def, const char *name) {
  for (int i = 0; i < def->num_inputs; i++) {
    if (weft_str_is(def->inputs[i].name, name)) return i;
  }
  return -1;
}

static TF_Output input_of(TF_Operation *op, int i) {
  return i < 0 ? (TF_Output){NULL, 0} : TF_OperationInput((TF_Input){op, i});
}

static weft_status_t *add_update(log_finder_t *f, noted_update_t update) {
  if (f->num_updates == f->capacity) {
    int capacity = f->capacity == 0 ? 16 : 2 * f->capacity;
    noted_update_t *more = weft_realloc(f->updates, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory();
    f->updates = more;
    f->capacity = capacity;
  }
  f->updates[f->num_updates++] = update;
  return NULL;
}

/* Most nodes have none, for which asking for its value would make an error. */
static bool has_attr(TF_Operation *op, const char *name, TF_Status *status) {
  char own[32];
  const int length = (int)strlen(name);
  for (int i = TF_OperationGetNumAttrs(op) - 1; i >= 0; i--) {
    if (TF_OperationGetAttrNameLength(op, i) != length || length > (int)sizeof own) continue;
    TF_OperationGetAttrName(op, i, own, status);
    if (memcmp(own, name, (size_t)length) == 0) return true;
  }
  return false;
}

/* The attribute's text, '\0'-ended, in the arena; NULL: the node has none. */
static weft_status_t *text_attr(log_finder_t *f, TF_Operation *op, const char *name, char **out) {
  *out = NULL;
  if (!has_attr(op, name, f->status)) return NULL;
  const TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, name, f->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(f->status));
  if (m.is_list || m.type != TF_ATTR_STRING) return NULL;
  char *text = weft_arena_calloc(f->arena, (size_t)m.total_size + 1, 1);
  if (text == NULL) return no_memory();
  TF_OperationGetAttrString(op, name, text, (size_t)m.total_size, f->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(f->status));
  *out = text;
  return NULL;
}

/* A node that says itself what an optimizer applies to which variable. */
static weft_status_t *note_marked(log_finder_t *f, TF_Operation *op) {
  char *text = NULL;
  WEFT_RETURN_IF_ERROR(text_attr(f, op, "_weft_rate_of", &text));
  TF_Operation *variable = text == NULL ? NULL : TF_GraphOperationByName(f->graph, text);
  if (variable != NULL)
    WEFT_RETURN_IF_ERROR(add_update(f, (noted_update_t){.op = op, .variable = variable, .rate = {op, 0}}));
  WEFT_RETURN_IF_ERROR(text_attr(f, op, "_weft_gradient_of", &text));
  for (int i = 0; text != NULL && i < TF_OperationNumOutputs(op); i++) {
    char *comma = strchr(text, ',');
    if (comma != NULL) *comma = '\0';
    variable = TF_GraphOperationByName(f->graph, text);
    if (variable != NULL)
      WEFT_RETURN_IF_ERROR(
          add_update(f, (noted_update_t){.op = op, .variable = variable, .gradient = {op, i}}));
    text = comma == NULL ? NULL : comma + 1;
  }
  return NULL;
}

/* An update by an optimizer has a gradient, which is not what is assigned ("value", "updates"). */
static weft_status_t *note_update(void *arg, TF_Operation *op, bool *out_stops) {
  log_finder_t *f = arg;
  const weft_op_def_t *def = def_of(op);
  (void)out_stops;
  WEFT_RETURN_IF_ERROR(note_marked(f, op));
  f->has_branches = f->has_branches || (def != NULL && (def->flags & (WEFT_OP_ENTER | WEFT_OP_SWITCH)) != 0);
  if (def == NULL || (def->flags & WEFT_OP_UPDATE) == 0 || TF_OperationNumInputs(op) != def->num_inputs)
    return NULL;
  const TF_Output target = input_of(op, 0);
  const weft_op_def_t *target_def = def_of(target.oper);
  if (target_def == NULL || (target_def->flags & WEFT_OP_VARIABLE) == 0) return NULL;
  int gradient = input_called(def, "grad"), rate = input_called(def, "lr");
  if (gradient < 0) gradient = input_called(def, "delta"); /* ApplyGradientDescent, whose rate is alpha */
  if (rate < 0) rate = input_called(def, "alpha");
  return add_update(f, (noted_update_t){.op = op,
                                        .variable = target.oper,
                                        .gradient = input_of(op, gradient),
                                        .rate = gradient < 0 ? input_of(op, -1) : input_of(op, rate)});
}

/* ---- nodes ---- */

static size_t begin_node(log_finder_t *f, const char *name, const char *op, const char *device) {
  size_t node = weft_wire_begin(f->nodes, GRAPH_NODE);
  weft_wire_put_text(f->nodes, NODE_NAME, name);
  weft_wire_put_text(f->nodes, NODE_OP, op);
  weft_wire_put_text(f->nodes, NODE_DEVICE, device);
  return node;
}

static void put_type(log_finder_t *f, const char *key, int type) {
  size_t entry = weft_wire_begin(f->nodes, NODE_ATTR);
  weft_wire_put_text(f->nodes, ENTRY_KEY, key);
  size_t value = weft_wire_begin(f->nodes, ENTRY_VALUE);
  weft_wire_put_i64(f->nodes, ATTR_TYPE, type);
  weft_wire_end(f->nodes, value);
  weft_wire_end(f->nodes, entry);
}

/* value: a scalar 2. */
static void put_two(log_finder_t *f, int type) {
  weft_strbuf_t *b = f->nodes;
  size_t entry = weft_wire_begin(b, NODE_ATTR);
  weft_wire_put_text(b, ENTRY_KEY, "value");
  size_t value = weft_wire_begin(b, ENTRY_VALUE);
  size_t tensor = weft_wire_begin(b, ATTR_TENSOR);
  weft_wire_put_i64(b, TENSOR_DTYPE, type);
  weft_wire_add_bytes(b, TENSOR_SHAPE, weft_str_of("", 0));
  if (type == TF_DOUBLE) weft_wire_put_double(b, TENSOR_DOUBLES, 2);
  if (type == TF_FLOAT) weft_wire_put_float(b, TENSOR_FLOATS, 2);
  weft_wire_end(b, tensor);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

typedef struct part_name {
  char text[48];
} part_name_t;

static part_name_t name_part(log_finder_t *f) {
  part_name_t name;
  snprintf(name.text, sizeof name.text, "weft_log/parts/%d", f->num_parts++);
  return name;
}

/* A node of one or two inputs and the attribute T; its name is a part's unless one is given. */
static part_name_t put_op(log_finder_t *f, const char *op, const char *name, const char *a, const char *b,
                          int type, const char *device) {
  part_name_t part = name_part(f);
  size_t node = begin_node(f, name == NULL ? part.text : name, op, device);
  weft_wire_put_text(f->nodes, NODE_INPUT, a);
  weft_wire_put_text(f->nodes, NODE_INPUT, b);
  put_type(f, "T", type);
  weft_wire_end(f->nodes, node);
  return part;
}

/* ---- learning rates ---- */

/* A constant needs no fetch. *out stays NULL for others. */
static weft_status_t *read_constant(log_finder_t *f, TF_Output from, weft_tensor_t **out) {
  TF_Tensor *value = NULL;
  weft_tensor_t *look = NULL;
  const weft_op_def_t *def = def_of(from.oper);
  if (def == NULL || (def->flags & WEFT_OP_CONST) == 0) return NULL;
  TF_OperationGetAttrTensor(from.oper, "value", &value, f->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(f->status));
  weft_status_t *s = weft_job_c_api_look_at(value, &look);
  if (s == NULL && look->shape.rank == 0 && look->dtype != WEFT_STRING)
    s = weft_tensor_scalar(look->dtype, look->data, out);
  weft_tensor_release(look);
  TF_DeleteTensor(value);
  return s;
}

static bool is_fed(const log_finder_t *f, TF_Output output) {
  for (int i = 0; i < f->fed->n; i++) {
    if (f->fed->outputs[i].oper == output.oper && f->fed->outputs[i].index == output.index) return true;
  }
  return false;
}

/* What is fed cannot be fetched, but a copy can. */
static void put_copy(log_finder_t *f, TF_Output from, weft_strbuf_t *name) {
  part_name_t copy = put_op(f, "Identity", NULL, name->data, NULL, (int)TF_OperationOutputType(from),
                            TF_OperationDevice(from.oper));
  name->length = 0;
  weft_strbuf_puts(name, copy.text);
}

static weft_status_t *wish_rate(log_finder_t *f, const noted_update_t *u, bool is_only) {
  weft_strbuf_t tag = WEFT_STRBUF_INIT, name = WEFT_STRBUF_INIT;
  weft_tensor_t *constant = NULL;
  weft_strbuf_puts(&tag, "learning_rate");
  if (!is_only) weft_strbuf_printf(&tag, "/%s", TF_OperationName(u->variable));
  weft_status_t *s = read_constant(f, u->rate, &constant);
  if (s == NULL && constant == NULL)
    weft_strbuf_printf(&name, "%s:%d", TF_OperationName(u->rate.oper), u->rate.index);
  if (s == NULL && constant == NULL && !name.failed && is_fed(f, u->rate)) put_copy(f, u->rate, &name);
  if (s == NULL && name.failed) s = no_memory();
  if (s == NULL) {
    s = add_wish(f, &tag, weft_str_of(name.data == NULL ? "" : name.data, name.length), constant);
  } else {
    weft_tensor_release(constant);
  }
  weft_strbuf_deinit(&tag);
  weft_strbuf_deinit(&name);
  return s;
}

/* One that all updates share is told once. */
static weft_status_t *wish_rates(log_finder_t *f) {
  const noted_update_t *first = NULL;
  bool is_only = true;
  for (int i = 0; i < f->num_updates; i++) {
    const noted_update_t *u = &f->updates[i];
    if (u->rate.oper == NULL) continue;
    if (first == NULL) first = u;
    is_only = is_only && u->rate.oper == first->rate.oper && u->rate.index == first->rate.index;
  }
  if (first == NULL) return NULL;
  if (is_only) return wish_rate(f, first, true);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < f->num_updates; i++)
    if (f->updates[i].rate.oper != NULL) s = wish_rate(f, &f->updates[i], false);
  return s;
}

/* ---- norms ---- */

/* The norm of the tensor `of` as the node `name`. */
static void put_norm(log_finder_t *f, const char *name, const char *of, int type, const char *device) {
  part_name_t wide = name_part(f), two = name_part(f);
  int computed = type == TF_DOUBLE ? TF_DOUBLE : TF_FLOAT;
  if (computed != type) {
    size_t cast = begin_node(f, wide.text, "Cast", device);
    weft_wire_put_text(f->nodes, NODE_INPUT, of);
    put_type(f, "SrcT", type);
    put_type(f, "DstT", computed);
    weft_wire_end(f->nodes, cast);
    of = wide.text;
  }
  size_t constant = begin_node(f, two.text, "Const", device);
  put_type(f, "dtype", computed);
  put_two(f, computed);
  weft_wire_end(f->nodes, constant);
  part_name_t half = put_op(f, "L2Loss", NULL, of, NULL, computed, device);
  part_name_t square = put_op(f, "Mul", NULL, half.text, two.text, computed, device);
  put_op(f, "Sqrt", name, square.text, NULL, computed, device);
}

static bool has_norm(int type) {
  return type == TF_FLOAT || type == TF_DOUBLE || type == TF_HALF || type == TF_BFLOAT16;
}

/* Adds a wish for the node "weft_log/<kind>/<variable>", and the nodes that make it of `of`. */
static weft_status_t *wish_norm(log_finder_t *f, const char *kind, const TF_Operation *variable,
                                const char *of, int type, const char *device) {
  weft_strbuf_t tag = WEFT_STRBUF_INIT, name = WEFT_STRBUF_INIT;
  const char *variable_name = TF_OperationName((TF_Operation *)(uintptr_t)variable);
  weft_strbuf_printf(&tag, "%s/%s", kind, variable_name);
  weft_strbuf_printf(&name, "weft_log/%s/%s", kind, variable_name);
  weft_status_t *s = name.failed ? no_memory() : NULL;
  if (s == NULL) put_norm(f, name.data, of, type, device);
  if (s == NULL) s = add_wish(f, &tag, weft_str_of(name.data, name.length), NULL);
  weft_strbuf_deinit(&tag);
  weft_strbuf_deinit(&name);
  return s;
}

static weft_status_t *wish_gradient_norm(log_finder_t *f, const noted_update_t *u) {
  int type = (int)TF_OperationOutputType(u->gradient);
  weft_strbuf_t of = WEFT_STRBUF_INIT;
  if (!has_norm(type)) return NULL;
  weft_strbuf_printf(&of, "%s:%d", TF_OperationName(u->gradient.oper), u->gradient.index);
  weft_status_t *s = of.failed ? no_memory()
                               : wish_norm(f, "gradient_norm", u->variable, of.data, type,
                                           TF_OperationDevice(u->gradient.oper));
  weft_strbuf_deinit(&of);
  return s;
}

/* The variable's value behind all its updates. */
static part_name_t put_read(log_finder_t *f, TF_Operation *variable, int type) {
  part_name_t read = name_part(f);
  bool is_ref = TF_OperationOutputType((TF_Output){variable, 0}) != TF_RESOURCE;
  size_t node =
      begin_node(f, read.text, is_ref ? "Identity" : "ReadVariableOp", TF_OperationDevice(variable));
  weft_wire_put_text(f->nodes, NODE_INPUT, TF_OperationName(variable));
  for (int i = 0; i < f->num_updates; i++) {
    if (f->updates[i].variable != variable) continue;
    weft_strbuf_t control = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&control, "^%s", TF_OperationName(f->updates[i].op));
    weft_wire_put_bytes(f->nodes, NODE_INPUT, weft_str_of(control.data, control.length));
    f->nodes->failed = f->nodes->failed || control.failed;
    weft_strbuf_deinit(&control);
  }
  put_type(f, is_ref ? "T" : "dtype", type);
  weft_wire_end(f->nodes, node);
  return read;
}

static weft_status_t *wish_weight_norm(log_finder_t *f, TF_Operation *variable) {
  TF_DataType type = TF_FLOAT;
  TF_OperationGetAttrType(variable, "dtype", &type, f->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(f->status));
  if (!has_norm((int)type)) return NULL;
  part_name_t read = put_read(f, variable, (int)type);
  return wish_norm(f, "weight_norm", variable, read.text, (int)type, TF_OperationDevice(variable));
}

/* Of each variable that an optimizer updates, once; of a second gradient of it there is no norm. */
static weft_status_t *wish_norms(log_finder_t *f) {
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < f->num_updates; i++) {
    const noted_update_t *u = &f->updates[i];
    bool is_first = u->gradient.oper != NULL;
    for (int k = 0; k < i; k++)
      is_first = is_first && (f->updates[k].variable != u->variable || f->updates[k].gradient.oper == NULL);
    if (!is_first) continue;
    s = wish_gradient_norm(f, u);
    if (s == NULL) s = wish_weight_norm(f, u->variable);
  }
  return s;
}

weft_status_t *weft_job_log_wishes_find(TF_Graph *graph, const TF_Operation *const *roots, int num_roots,
                                        const weft_job_names_t *fed, bool with_norms, weft_arena_t *arena,
                                        weft_strbuf_t *nodes, weft_job_log_wishes_t *out) {
  *out = (weft_job_log_wishes_t){0};
  log_finder_t f = {
      .graph = graph, .arena = arena, .nodes = nodes, .fed = fed, .wishes = out, .status = TF_NewStatus()};
  weft_status_t *s = f.status == NULL ? no_memory() : NULL;
  if (s == NULL) s = weft_job_visit(roots, num_roots, note_update, &f);
  if (s == NULL) s = drop_conditional(&f);
  if (s == NULL) s = wish_rates(&f);
  if (s == NULL && with_norms) s = wish_norms(&f);
  if (s == NULL && nodes->failed) s = no_memory();
  weft_free(f.updates);
  TF_DeleteStatus(f.status);
  return s;
}
