/* client/graph_to_function.c - a FunctionDef from nodes of a graph.
 *
 * Names: arguments are called after the nodes that stand for them, in lower case;
 * body nodes keep their names where no argument or output has taken them; an
 * output of a body node is "node:output_arg:index". Rules and wording follow
 * TensorFlow's GraphToFunctionDef.
 */
#include <ctype.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "client/function.h"
#include "client/graph.h"
#include "client/status.h"
#include "graph/graph_proto.h"
#include "protos/wire.h"

typedef struct function_build {
  TF_Graph *g;
  const char *name;
  const TF_Output *inputs, *outputs;
  const char *const *output_names;
  int num_inputs, num_outputs;
  const TF_Operation *const *body; /* num_body */
  int num_body;
  const TF_Operation *const *controls;
  const char *const *control_names;
  int num_controls;
  weft_arena_t arena;
  weft_map_t used;    /* names that are taken */
  weft_map_t names;   /* by node id + 1: its name in the function, a weft_str_t* */
  weft_map_t tensors; /* by tensor_key(): its name in the function, a weft_str_t* */
  weft_str_t *input_args, *output_args;
} function_build_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a function"); }

static uint64_t tensor_key(const weft_node_t *n, int index) {
  return ((uint64_t)n->id + 1) << 24 | (uint64_t)index;
}
static uint64_t node_key(const weft_node_t *n) { return (uint64_t)n->id + 1; }

static weft_str_t *keep(function_build_t *b, weft_str_t text) {
  weft_str_t *s = weft_arena_alloc(&b->arena, sizeof *s);
  if (s == NULL) return NULL;
  *s = weft_arena_str(&b->arena, text);
  return s->data == NULL ? NULL : s;
}

/* ---- names ---- */

/* Lower case, from the first letter on, '_' for what is no letter or digit. */
static weft_str_t *normalize(function_build_t *b, weft_str_t name) {
  size_t i = 0;
  while (i < name.length && !isalpha((unsigned char)name.data[i])) i++;
  if (i == name.length) return keep(b, WEFT_STR("unknown"));
  weft_str_t *copy = keep(b, weft_str_of(name.data + i, name.length - i));
  for (i = 0; copy != NULL && i < copy->length; i++) {
    char *c = (char *)(uintptr_t)copy->data + i;
    *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
  }
  return copy;
}

/* `name`, name_0, name_1, ...: the first that is free, which is then taken. */
static weft_status_t *uniquify(function_build_t *b, const weft_str_t *name, weft_str_t **out) {
  if (name == NULL) return no_memory();
  weft_str_t *candidate = keep(b, *name);
  for (int i = 0; candidate != NULL && weft_map_get(&b->used, *candidate) != NULL; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "%.*s_%d", WEFT_STR_ARGS(*name), i);
    candidate = text.failed ? NULL : keep(b, weft_str_of(text.data, text.length));
    weft_strbuf_deinit(&text);
  }
  if (candidate == NULL) return no_memory();
  *out = candidate;
  return weft_map_put(&b->used, *candidate, candidate, NULL);
}

static weft_status_t *reserve_output_names(function_build_t *b) {
  for (int i = 0; b->output_names != NULL && i < b->num_outputs; i++) {
    weft_str_t *name = keep(b, weft_str(b->output_names[i]));
    void *old = NULL;
    if (name == NULL) return no_memory();
    WEFT_RETURN_IF_ERROR(weft_map_put(&b->used, *name, name, &old));
    if (old != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Cannot have duplicate output names. Name '%s' appears more than once in "
                        "'output_names' array.",
                        b->output_names[i]);
    }
  }
  return NULL;
}

static weft_status_t *name_inputs(function_build_t *b) {
  b->input_args = weft_arena_calloc(&b->arena, (size_t)b->num_inputs, sizeof *b->input_args);
  if (b->input_args == NULL) return no_memory();
  for (int i = 0; i < b->num_inputs; i++) {
    weft_node_t *n = b->inputs[i].oper->node;
    weft_str_t *name = NULL;
    void *old = NULL;
    WEFT_RETURN_IF_ERROR(uniquify(b, normalize(b, n->name), &name));
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&b->names, node_key(n), name, NULL));
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&b->tensors, tensor_key(n, b->inputs[i].index), name, &old));
    if (old != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "TF_Output %s:%d appears more than once in the input list",
                        n->name.data, b->inputs[i].index);
    }
    b->input_args[i] = *name;
  }
  return NULL;
}

/* Names that are given, or else those of the nodes, each once. */
static weft_status_t *check_control_names(function_build_t *b) {
  weft_map_t seen = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < b->num_controls && s == NULL; i++) {
    weft_str_t name = b->control_names != NULL ? weft_str(b->control_names[i]) : b->controls[i]->node->name;
    void *old = NULL;
    if (name.length == 0) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Control output name must be not empty");
    } else {
      s = weft_map_put(&seen, name, b, &old);
      if (s == NULL && old != NULL) {
        s = WEFT_ERROR(INVALID_ARGUMENT, "Repeated control output name: %.*s", WEFT_STR_ARGS(name));
      }
    }
  }
  weft_map_deinit(&seen);
  return s;
}

static weft_status_t *name_outputs(function_build_t *b) {
  b->output_args = weft_arena_calloc(&b->arena, (size_t)b->num_outputs, sizeof *b->output_args);
  if (b->output_args == NULL) return no_memory();
  for (int i = 0; i < b->num_outputs; i++) {
    if (b->output_names != NULL) {
      b->output_args[i] = weft_str(b->output_names[i]);
      continue;
    }
    weft_str_t *name = NULL;
    WEFT_RETURN_IF_ERROR(uniquify(b, normalize(b, b->outputs[i].oper->node->name), &name));
    b->output_args[i] = *name;
  }
  return NULL;
}

static int arg_length(const weft_node_t *n, const weft_arg_def_t *arg) {
  if (arg->kind != WEFT_ARG_REPEATED && arg->kind != WEFT_ARG_TYPE_LIST) return 1;
  for (int i = 0; i < n->num_attrs; i++) {
    const weft_attr_t *a = &n->attrs[i].value;
    weft_str_t name = arg->kind == WEFT_ARG_REPEATED ? arg->number_attr : arg->type_attr;
    if (weft_str_eq(n->attrs[i].name, name)) return a->is_list ? a->n : (int)a->i;
  }
  return 0;
}

static weft_status_t *name_node(function_build_t *b, const weft_node_t *n) {
  weft_str_t *name = NULL;
  WEFT_RETURN_IF_ERROR(uniquify(b, &n->name, &name));
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&b->names, node_key(n), name, NULL));
  int flat = 0;
  for (int i = 0; i < n->op->num_outputs; i++) {
    int count = arg_length(n, &n->op->outputs[i]);
    for (int k = 0; k < count && flat < n->num_outputs; k++, flat++) {
      if (weft_map_get_u64(&b->tensors, tensor_key(n, flat)) != NULL) continue; /* an input of the function */
      weft_strbuf_t text = WEFT_STRBUF_INIT;
      weft_strbuf_printf(&text, "%.*s:%.*s:%d", WEFT_STR_ARGS(*name), WEFT_STR_ARGS(n->op->outputs[i].name),
                         k);
      weft_str_t *tensor = text.failed ? NULL : keep(b, weft_str_of(text.data, text.length));
      weft_strbuf_deinit(&text);
      if (tensor == NULL) return no_memory();
      WEFT_RETURN_IF_ERROR(weft_map_put_u64(&b->tensors, tensor_key(n, flat), tensor, NULL));
    }
  }
  return NULL;
}

/* ---- the message ---- */

static void write_arg(weft_strbuf_t *out, uint32_t field, weft_str_t name, int type) {
  size_t mark = weft_wire_begin(out, field);
  weft_wire_put_bytes(out, 1, name);
  weft_wire_put_i64(out, 3, (int64_t)weft_dtype_base(type));
  weft_wire_end(out, mark);
}

static weft_str_t control_name(const function_build_t *b, int i) {
  if (b->control_names != NULL) return weft_str(b->control_names[i]);
  return *(const weft_str_t *)weft_map_get_u64(&b->names, node_key(b->controls[i]->node));
}

static void write_signature(const function_build_t *b, weft_str_t name, const char *description,
                            weft_strbuf_t *out) {
  bool is_stateful = false;
  for (int i = 0; i < b->num_body; i++) is_stateful |= (b->body[i]->node->flags & WEFT_OP_STATEFUL) != 0;
  size_t mark = weft_wire_begin(out, 1);
  weft_wire_put_bytes(out, 1, name);
  for (int i = 0; i < b->num_inputs; i++) {
    write_arg(out, 2, b->input_args[i], b->inputs[i].oper->node->output_types[b->inputs[i].index]);
  }
  for (int i = 0; i < b->num_outputs; i++) {
    write_arg(out, 3, b->output_args[i], b->outputs[i].oper->node->output_types[b->outputs[i].index]);
  }
  weft_wire_put_text(out, 6, description);
  weft_wire_put_bool(out, 17, is_stateful);
  for (int i = 0; i < b->num_controls; i++) weft_wire_add_bytes(out, 20, control_name(b, i));
  weft_wire_end(out, mark);
}

static weft_status_t *write_inputs(const function_build_t *b, const weft_node_t *n, weft_strbuf_t *out) {
  for (int i = 0; i < n->num_inputs; i++) {
    weft_output_t from = n->inputs[i];
    const weft_str_t *name = weft_map_get_u64(&b->tensors, tensor_key(from.node, from.index));
    if (name == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input %d, '%s:%d', of node '%s' in function '%s' is not available. You might need "
                        "to include it in inputs or include its source node in the body",
                        i, from.node->name.data, from.index, n->name.data, b->name);
    }
    weft_wire_add_bytes(out, 3, *name);
  }
  for (int i = 0; i < n->num_controls; i++) {
    const weft_str_t *name = weft_map_get_u64(&b->names, node_key(n->controls[i]));
    if (name == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "The source of control edge %s -> %s is not in the body. Encountered while creating "
                        "function '%s'",
                        n->controls[i]->name.data, n->name.data, b->name);
    }
    size_t mark = weft_wire_begin(out, 3);
    weft_strbuf_putc(out, '^');
    weft_strbuf_append(out, *name);
    weft_wire_end(out, mark);
  }
  return NULL;
}

static weft_status_t *write_attrs(const weft_node_t *n, weft_strbuf_t *out) {
  for (int i = 0; i < n->num_attrs; i++) {
    size_t mark = weft_wire_begin(out, 5);
    weft_wire_put_bytes(out, 1, n->attrs[i].name);
    size_t value = weft_wire_begin(out, 2);
    WEFT_RETURN_IF_ERROR(weft_attr_to_proto(&n->attrs[i].value, out));
    weft_wire_end(out, value);
    weft_wire_end(out, mark);
  }
  return NULL;
}

static weft_status_t *write_body(const function_build_t *b, weft_strbuf_t *out) {
  for (int i = 0; i < b->num_body; i++) {
    const weft_node_t *n = b->body[i]->node;
    size_t mark = weft_wire_begin(out, 3);
    weft_wire_put_bytes(out, 1, *(const weft_str_t *)weft_map_get_u64(&b->names, node_key(n)));
    weft_wire_put_bytes(out, 2, n->op->name);
    WEFT_RETURN_IF_ERROR(write_inputs(b, n, out));
    weft_wire_put_bytes(out, 4, n->requested_device);
    WEFT_RETURN_IF_ERROR(write_attrs(n, out));
    weft_wire_end(out, mark);
  }
  return NULL;
}

static void write_entry(weft_strbuf_t *out, uint32_t field, weft_str_t key, weft_str_t value) {
  size_t mark = weft_wire_begin(out, field);
  weft_wire_put_bytes(out, 1, key);
  weft_wire_put_bytes(out, 2, value);
  weft_wire_end(out, mark);
}

static weft_status_t *write_results(const function_build_t *b, weft_strbuf_t *out) {
  for (int i = 0; i < b->num_outputs; i++) {
    const weft_node_t *n = b->outputs[i].oper->node;
    const weft_str_t *tensor = weft_map_get_u64(&b->tensors, tensor_key(n, b->outputs[i].index));
    if (tensor == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "TF_Output %s:%d is neither in the function body nor among function inputs. "
                        "Encountered while creating function '%s'",
                        n->name.data, b->outputs[i].index, b->name);
    }
    write_entry(out, 4, b->output_args[i], *tensor);
  }
  for (int i = 0; i < b->num_controls; i++) {
    const weft_node_t *n = b->controls[i]->node;
    const weft_str_t *name = weft_map_get_u64(&b->names, node_key(n));
    if (name == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Control output '%s' is not in the body of function '%s'",
                        n->name.data, b->name);
    }
    write_entry(out, 6, control_name(b, i), *name);
  }
  return NULL;
}

/* The shapes of placeholders and what their "_..." attributes say stay with the argument. */
static weft_status_t *write_arg_attrs(const function_build_t *b, weft_strbuf_t *out) {
  for (int i = 0; i < b->num_inputs; i++) {
    const weft_node_t *n = b->inputs[i].oper->node;
    weft_strbuf_t attrs = WEFT_STRBUF_INIT;
    weft_status_t *s = NULL;
    for (int k = 0; k < n->num_attrs && s == NULL; k++) {
      weft_str_t name = n->attrs[k].name;
      weft_attr_t value = n->attrs[k].value;
      bool is_shape = weft_str_is(name, "shape") && value.kind == WEFT_ATTR_SHAPE && !value.is_list &&
                      weft_dtype_base(n->output_types[b->inputs[i].index]) != WEFT_RESOURCE;
      if (is_shape) {
        name = WEFT_STR("_output_shapes");
        value = (weft_attr_t){
            .kind = WEFT_ATTR_SHAPE, .is_list = true, .n = 1, .list.shapes = n->attrs[k].value.shape};
      } else if (name.length == 0 || name.data[0] != '_') {
        continue;
      }
      size_t entry = weft_wire_begin(&attrs, 1);
      weft_wire_put_bytes(&attrs, 1, name);
      size_t mark = weft_wire_begin(&attrs, 2);
      s = weft_attr_to_proto(&value, &attrs);
      weft_wire_end(&attrs, mark);
      weft_wire_end(&attrs, entry);
    }
    if (s == NULL && attrs.length > 0) {
      size_t entry = weft_wire_begin(out, 7);
      weft_wire_put_varint(out, 1, (uint64_t)i);
      weft_wire_add_bytes(out, 2, weft_str_of(attrs.data, attrs.length));
      weft_wire_end(out, entry);
    }
    if (attrs.failed) out->failed = true;
    weft_strbuf_deinit(&attrs);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *write_function(function_build_t *b, weft_str_t name, const char *description,
                                     weft_strbuf_t *out) {
  write_signature(b, name, description, out);
  WEFT_RETURN_IF_ERROR(write_body(b, out));
  WEFT_RETURN_IF_ERROR(write_results(b, out));
  WEFT_RETURN_IF_ERROR(write_arg_attrs(b, out));
  return out->failed ? no_memory() : NULL;
}

/* ---- what belongs to the function ---- */

static weft_status_t *check_tensors(const function_build_t *b, const TF_Output *all, int n, bool is_input) {
  const char *what = is_input ? "Input" : "Output";
  for (int i = 0; i < n; i++) {
    TF_Output o = all[i];
    if (o.oper == NULL || o.oper->graph != b->g) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s %d of function '%s' is not a tensor of its graph", what, i,
                        b->name);
    }
    const weft_node_t *node = o.oper->node;
    if (o.index < 0 || o.index >= node->num_outputs) {
      return WEFT_ERROR(OUT_OF_RANGE,
                        "Node '%s' (type: '%.*s', num of outputs: %d) does not have output %d\n"
                        "\tEncountered while processing %s %d %s function '%s'",
                        node->name.data, WEFT_STR_ARGS(node->op->name), node->num_outputs, o.index,
                        is_input ? "input" : "output", i, is_input ? "into" : "from", b->name);
    }
    if (weft_dtype_is_ref(o.oper->node->output_types[o.index])) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%s %d of node '%s' has a reference type %s which is not supported in functions "
                        "created with TF_GraphToFunction. Encountered while creating function '%s'",
                        what, o.index, o.oper->node->name.data,
                        weft_dtype_name(o.oper->node->output_types[o.index]), b->name);
    }
  }
  return NULL;
}

/* Without a list: all nodes but those that stand for the inputs. */
static weft_status_t *choose_body(function_build_t *b, int num_opers, const TF_Operation *const *opers)
    WEFT_REQUIRES(b->g->mu) {
  if (num_opers >= 0) {
    b->body = opers;
    b->num_body = num_opers;
    return NULL;
  }
  const TF_Operation **all = weft_arena_calloc(&b->arena, (size_t)b->g->num_operations, sizeof(*all));
  if (all == NULL) return no_memory();
  for (int i = 0; i < b->num_inputs; i++) {
    const weft_node_t *n = b->inputs[i].oper->node;
    if (n->num_outputs != 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "When `num_opers` is set to -1, nodes referenced in `inputs` must have a single "
                        "output. Node %s has %d outputs. Encountered while creating function '%s'",
                        n->name.data, n->num_outputs, b->name);
    }
  }
  for (int id = 0; id < b->g->num_operations; id++) {
    const TF_Operation *o = b->g->operations[id];
    if (o != NULL && weft_map_get_u64(&b->names, node_key(o->node)) == NULL) all[b->num_body++] = o;
  }
  b->body = all;
  return NULL;
}

static weft_status_t *build(function_build_t *b, bool append_hash, int num_opers,
                            const TF_Operation *const *opers, const char *description, weft_strbuf_t *out)
    WEFT_REQUIRES(b->g->mu) {
  WEFT_RETURN_IF_ERROR(check_tensors(b, b->inputs, b->num_inputs, true));
  WEFT_RETURN_IF_ERROR(check_tensors(b, b->outputs, b->num_outputs, false));
  WEFT_RETURN_IF_ERROR(reserve_output_names(b));
  WEFT_RETURN_IF_ERROR(
      name_outputs(b)); /* first, so that a result keeps the name that an argument has, too */
  WEFT_RETURN_IF_ERROR(name_inputs(b));
  WEFT_RETURN_IF_ERROR(choose_body(b, num_opers, opers));
  for (int i = 0; i < b->num_body; i++) WEFT_RETURN_IF_ERROR(name_node(b, b->body[i]->node));
  WEFT_RETURN_IF_ERROR(check_control_names(b));
  for (int i = 0; i < b->num_controls; i++) {
    if (weft_map_get_u64(&b->names, node_key(b->controls[i]->node)) != NULL) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Control output '%s' is not in the body of function '%s'",
                      b->controls[i]->node->name.data, b->name);
  }
  WEFT_RETURN_IF_ERROR(write_function(b, weft_str(b->name), description, out));
  if (!append_hash) return NULL;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%s_%" PRIx64, b->name, weft_str_hash(weft_str_of(out->data, out->length)));
  weft_status_t *s = name.failed ? no_memory() : NULL;
  out->length = 0;
  if (s == NULL) s = write_function(b, weft_str_of(name.data, name.length), description, out);
  weft_strbuf_deinit(&name);
  return s;
}

TF_Function *TF_GraphToFunctionWithControlOutputs(
    const TF_Graph *fn_body, const char *fn_name, unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation *const *opers, int ninputs, const TF_Output *inputs, int noutputs,
    const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status) {
  (void)opts; /* the type has no fields */
  function_build_t b = {.g = (TF_Graph *)(uintptr_t)fn_body,
                        .name = fn_name,
                        .inputs = inputs,
                        .outputs = outputs,
                        .output_names = output_names,
                        .num_inputs = ninputs,
                        .num_outputs = noutputs,
                        .controls = control_outputs,
                        .control_names = control_output_names,
                        .num_controls = ncontrol_outputs};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  TF_Function *f = NULL;
  weft_mutex_lock(&b.g->mu);
  weft_status_t *s = build(&b, append_hash_to_fn_name != 0, num_opers, opers, description, &text);
  weft_mutex_unlock(&b.g->mu);
  if (s == NULL) s = weft_client_function_new(&text, &f);
  weft_strbuf_deinit(&text);
  weft_map_deinit(&b.used);
  weft_map_deinit(&b.names);
  weft_map_deinit(&b.tensors);
  weft_arena_deinit(&b.arena);
  return weft_client_end(status, s) ? f : NULL;
}

TF_Function *TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                                unsigned char append_hash_to_fn_name, int num_opers,
                                const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
                                int noutputs, const TF_Output *outputs, const char *const *output_names,
                                const TF_FunctionOptions *opts, const char *description, TF_Status *status) {
  return TF_GraphToFunctionWithControlOutputs(fn_body, fn_name, append_hash_to_fn_name, num_opers, opers,
                                              ninputs, inputs, noutputs, outputs, output_names, 0, NULL, NULL,
                                              opts, description, status);
}
