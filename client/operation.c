/* client/operation.c - building a node: inputs as the op's signature wants them, then the node itself.
 *
 * What is wrong is collected and told at the end, in the words of TensorFlow's
 * NodeBuilder and NodeDefBuilder, because most calls have no status.
 */
#include "client/operation.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "client/status.h"
#include "graph/function.h"

/* ---- errors and growing arrays ---- */

static void add_line(weft_strbuf_t *b, const char *fmt, va_list args) {
  char text[1024];
  int n = vsnprintf(text, sizeof text, fmt, args);
  if (b->length > 0) weft_strbuf_putc(b, '\n');
  weft_strbuf_append(b, weft_str_of(text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1));
}

void weft_client_desc_error(TF_OperationDescription *d, const char *fmt, ...) {
  if (d == NULL) return;
  va_list args;
  va_start(args, fmt);
  add_line(&d->errors, fmt, args);
  va_end(args);
  d->num_errors++;
}

static void WEFT_PRINTF(2, 3) reference_error(TF_OperationDescription *d, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  add_line(&d->reference_errors, fmt, args);
  va_end(args);
}

/* Room for one more; NULL without memory, which the description remembers. */
static void *grow(TF_OperationDescription *d, void *array, int n, int *capacity, size_t size) {
  if (n < *capacity) return array;
  int wanted = *capacity == 0 ? 8 : *capacity * 2;
  void *more = weft_realloc(array, (size_t)wanted, size);
  if (more == NULL) {
    d->is_out_of_memory = true;
    return NULL;
  }
  *capacity = wanted;
  return more;
}

/* ---- life ---- */

/* The name behind the prefix of what is being built. */
static weft_str_t name_for(TF_OperationDescription *d, weft_str_t prefix, const char *name) {
  if (prefix.length == 0) return weft_arena_str(&d->arena, weft_str(name));
  weft_strbuf_t full = WEFT_STRBUF_INIT;
  weft_strbuf_append(&full, prefix);
  weft_strbuf_puts(&full, name);
  weft_str_t own =
      full.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&d->arena, weft_str_of(full.data, full.length));
  weft_strbuf_deinit(&full);
  return own;
}

static TF_OperationDescription *create(TF_Graph *graph, const char *op_type, const char *oper_name) {
  TF_OperationDescription *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return NULL;
  d->graph = graph;
  d->type = weft_arena_str(&d->arena, weft_str(op_type));
  d->name = name_for(d, graph->name_prefix, oper_name);
  d->device =
      graph->default_device.length == 0 ? WEFT_STR("") : weft_arena_str(&d->arena, graph->default_device);
  d->is_out_of_memory = d->type.data == NULL || d->name.data == NULL || d->device.data == NULL;
  d->op = weft_op_find(weft_str(op_type));
  return d;
}

static void find_function(TF_OperationDescription *d) WEFT_REQUIRES(d->graph->mu) {
  const weft_function_t *f = d->op != NULL ? NULL : weft_function_find(d->graph->graph->library, d->type);
  if (f != NULL) d->op = &f->signature;
  if (d->op == NULL) {
    weft_status_t *s = weft_client_unknown_op(d->type.data);
    weft_client_desc_error(d, "%s", weft_status_message(s));
    weft_status_free(s);
  }
}

TF_OperationDescription *TF_NewOperationLocked(TF_Graph *graph, const char *op_type, const char *oper_name)
    WEFT_TSA(no_thread_safety_analysis) {
  TF_OperationDescription *d = create(graph, op_type, oper_name);
  if (d != NULL) find_function(d);
  return d;
}

TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type, const char *oper_name) {
  weft_mutex_lock(&graph->mu);
  TF_OperationDescription *d = TF_NewOperationLocked(graph, op_type, oper_name);
  weft_mutex_unlock(&graph->mu);
  return d;
}

static void destroy(TF_OperationDescription *d) {
  for (int i = 0; i < d->num_attrs; i++) weft_attr_release_tensors(&d->attrs[i].value);
  weft_free(d->attrs);
  weft_free(d->inputs);
  weft_free(d->controls);
  weft_free(d->colocations);
  weft_strbuf_deinit(&d->errors);
  weft_strbuf_deinit(&d->reference_errors);
  weft_arena_deinit(&d->arena);
  weft_free(d);
}

/* A description that there was no memory for is NULL, and so is everything done to it. */

void TF_SetDevice(TF_OperationDescription *desc, const char *device) {
  if (desc == NULL) return;
  desc->device = weft_arena_str(&desc->arena, weft_str(device));
  if (desc->device.data == NULL) desc->is_out_of_memory = true;
}

/* ---- attributes ---- */

void weft_client_set_attr(TF_OperationDescription *d, weft_str_t name, const weft_attr_t *value) {
  if (d == NULL) return;
  const weft_attr_t *known = NULL;
  for (int i = 0; i < d->num_attrs && known == NULL; i++) {
    if (weft_str_eq(d->attrs[i].name, name)) known = &d->attrs[i].value;
  }
  if (known != NULL) {
    if (weft_attr_eq(known, value)) return;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_attr_print(known, &text);
    weft_strbuf_puts(&text, " vs. ");
    weft_attr_print(value, &text);
    weft_client_desc_error(d, "Inconsistent values for attr '%.*s' %s", WEFT_STR_ARGS(name),
                           text.failed ? "" : text.data);
    weft_strbuf_deinit(&text);
    return;
  }
  weft_named_attr_t *attrs = grow(d, d->attrs, d->num_attrs, &d->attrs_capacity, sizeof *attrs);
  if (attrs == NULL) return;
  d->attrs = attrs;
  weft_named_attr_t *a = &attrs[d->num_attrs];
  a->name = weft_arena_str(&d->arena, name);
  weft_status_t *s = a->name.data == NULL ? WEFT_NO_MEMORY("attribute") : NULL;
  if (s == NULL) s = weft_attr_copy(&d->arena, value, &a->value);
  if (s == NULL) {
    d->num_attrs++;
  } else {
    d->is_out_of_memory = true;
  }
  weft_status_free(s); /* remembered */
}

static void add_colocation(TF_OperationDescription *d, weft_str_t group) {
  int at = 0;
  while (at < d->num_colocations && weft_str_compare(d->colocations[at], group) < 0) at++;
  if (at < d->num_colocations && weft_str_eq(d->colocations[at], group)) return;
  weft_str_t *all = grow(d, d->colocations, d->num_colocations, &d->colocations_capacity, sizeof *all);
  if (all == NULL) return;
  d->colocations = all;
  weft_str_t copy = weft_arena_str(&d->arena, group);
  if (copy.data == NULL) {
    d->is_out_of_memory = true;
    return;
  }
  memmove(all + at + 1, all + at, (size_t)(d->num_colocations - at) * sizeof *all);
  all[at] = copy;
  d->num_colocations++;
}

void weft_client_set_colocations(TF_OperationDescription *d, const weft_str_t *groups, int n) {
  if (d == NULL) return;
  d->num_colocations = 0;
  for (int i = 0; i < n; i++) add_colocation(d, groups[i]);
}

void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op) {
  if (desc == NULL) return;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "loc:@%s", op->node->name.data);
  if (text.failed) {
    desc->is_out_of_memory = true;
  } else {
    add_colocation(desc, weft_str_of(text.data, text.length));
  }
  weft_strbuf_deinit(&text);
}

/* ---- inputs ---- */

static bool check_reference(TF_OperationDescription *d, TF_Output o) {
  if (o.oper == NULL) {
    reference_error(d, "Attempt to add nullptr Node to node with type %.200s", d->type.data);
    return false;
  }
  const weft_node_t *n = o.oper->node;
  if (o.index >= 0 && o.index < n->num_outputs) return true;
  reference_error(d,
                  "Attempt to add output %d of %.200s not in range [0, %d) to node with type %.200s. Node: "
                  "{{node %.200s}}",
                  o.index, n->name.data, n->num_outputs, d->type.data, n->name.data);
  return false;
}

static bool push_input(TF_OperationDescription *d, TF_Output o) {
  weft_output_t *all = grow(d, d->inputs, d->num_inputs, &d->inputs_capacity, sizeof *all);
  if (all == NULL) return false;
  d->inputs = all;
  all[d->num_inputs++] = weft_client_output(o);
  return true;
}

/* The arg that the next input is for; NULL after too many, or if the op is not known. */
static const weft_arg_def_t *next_arg(TF_OperationDescription *d) {
  if (d->op == NULL) return NULL;
  if (d->num_args >= d->op->num_inputs) {
    weft_client_desc_error(d, "More Input() calls than the %d input_args", d->op->num_inputs);
    return NULL;
  }
  return &d->op->inputs[d->num_args++];
}

static int type_of(TF_Output o) { return o.oper->node->output_types[o.index]; }

static void check_type(TF_OperationDescription *d, const weft_arg_def_t *arg, int given, int base) {
  int wanted = arg->is_ref && !weft_dtype_is_ref(base) ? base + WEFT_REF : base;
  bool fits = weft_dtype_base(given) == weft_dtype_base(wanted) &&
              (!weft_dtype_is_ref(wanted) || weft_dtype_is_ref(given));
  if (fits) return;
  weft_client_desc_error(d, "Input '%.*s' passed %s expected %s", WEFT_STR_ARGS(arg->name),
                         weft_dtype_name(given), weft_dtype_name(wanted));
}

static void set_type(TF_OperationDescription *d, weft_str_t attr, int type) {
  weft_client_set_attr(d, attr, &(weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = (int)weft_dtype_base(type)});
}

void TF_AddInput(TF_OperationDescription *desc, TF_Output input) {
  if (desc == NULL || !check_reference(desc, input)) return;
  const weft_arg_def_t *arg = next_arg(desc);
  if (arg == NULL || !push_input(desc, input)) return;
  int type = type_of(input);
  if (arg->kind == WEFT_ARG_REPEATED || arg->kind == WEFT_ARG_TYPE_LIST) {
    weft_client_desc_error(desc, "Single tensor passed to '%.*s', expected list", WEFT_STR_ARGS(arg->name));
  } else if (arg->kind == WEFT_ARG_FIXED) {
    check_type(desc, arg, type, arg->dtype);
  } else {
    if (arg->is_ref && !weft_dtype_is_ref(type)) {
      weft_client_desc_error(desc, "Input '%.*s' passed %s expected ref type", WEFT_STR_ARGS(arg->name),
                             weft_dtype_name(type));
    }
    set_type(desc, arg->type_attr, type);
  }
}

static void add_type_list(TF_OperationDescription *d, const weft_arg_def_t *arg, const TF_Output *inputs,
                          int n) {
  int *types = weft_arena_alloc(&d->arena, (size_t)n * sizeof *types);
  if (types == NULL) {
    d->is_out_of_memory = true;
    return;
  }
  for (int i = 0; i < n; i++) types[i] = (int)weft_dtype_base(type_of(inputs[i]));
  weft_client_set_attr(d, arg->type_attr,
                       &(weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n, .list.types = types});
}

void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs, int num_inputs) {
  if (desc == NULL) return;
  for (int i = 0; i < num_inputs; i++) {
    if (!check_reference(desc, inputs[i])) return;
  }
  const weft_arg_def_t *arg = next_arg(desc);
  if (arg == NULL) return;
  for (int i = 0; i < num_inputs; i++) {
    if (!push_input(desc, inputs[i])) return;
  }
  if (arg->kind == WEFT_ARG_TYPE_LIST) {
    add_type_list(desc, arg, inputs, num_inputs);
  } else if (arg->kind == WEFT_ARG_REPEATED) {
    weft_client_set_attr(desc, arg->number_attr, &(weft_attr_t){.kind = WEFT_ATTR_INT, .i = num_inputs});
    if (arg->type_attr.length > 0 && num_inputs > 0) set_type(desc, arg->type_attr, type_of(inputs[0]));
    int base =
        arg->type_attr.length > 0 && num_inputs > 0 ? (int)weft_dtype_base(type_of(inputs[0])) : arg->dtype;
    for (int i = 0; i < num_inputs; i++) check_type(desc, arg, type_of(inputs[i]), base);
  } else {
    weft_client_desc_error(desc, "List provided to input '%.*s' when single Tensor expected",
                           WEFT_STR_ARGS(arg->name));
  }
}

void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input) {
  if (desc == NULL) return;
  if (input == NULL) {
    reference_error(desc, "Attempt to add nullptr Node to node with type %.200s", desc->type.data);
    return;
  }
  weft_node_t **all = grow(desc, desc->controls, desc->num_controls, &desc->controls_capacity, sizeof(*all));
  if (all == NULL) return;
  desc->controls = all;
  all[desc->num_controls++] = input->node;
}

/* ---- the node ---- */

static weft_status_t *build_error(TF_OperationDescription *d) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (d->num_errors > 1) {
    weft_strbuf_printf(&text, "%d errors while building NodeDef '%s'", d->num_errors, d->name.data);
  } else {
    weft_strbuf_printf(&text, "%s while building NodeDef '%s'", d->errors.data, d->name.data);
  }
  if (d->op != NULL) {
    weft_strbuf_puts(&text, " using ");
    weft_op_print(d->op, &text);
  }
  if (d->num_errors > 1) weft_strbuf_printf(&text, ":\n%s", d->errors.data);
  weft_status_t *s = text.failed || d->errors.failed
                         ? WEFT_NO_MEMORY("building node '%s'", d->name.data)
                         : weft_status_from_wire(WEFT_INVALID_ARGUMENT, text.data, text.length);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *check(TF_OperationDescription *d) {
  if (d->is_out_of_memory) return WEFT_NO_MEMORY("a new operation");
  if (d->reference_errors.length > 0)
    return weft_status_from_wire(WEFT_INVALID_ARGUMENT, d->reference_errors.data, d->reference_errors.length);
  if (d->op != NULL && d->num_args < d->op->num_inputs) {
    weft_client_desc_error(d, "%d inputs specified of %d inputs in Op", d->num_args, d->op->num_inputs);
  }
  return d->num_errors > 0 ? build_error(d) : NULL;
}

static weft_status_t *add(TF_Graph *g, TF_OperationDescription *d, weft_node_t **out) WEFT_REQUIRES(g->mu) {
  if (!d->is_out_of_memory && weft_graph_find(g->graph, d->name) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate node name in graph: '%s'", d->name.data);
  }
  if (d->num_colocations > 0) {
    weft_client_set_attr(d, WEFT_STR("_class"),
                         &(weft_attr_t){.kind = WEFT_ATTR_STRING,
                                        .is_list = true,
                                        .n = d->num_colocations,
                                        .list.strings = d->colocations});
  }
  WEFT_RETURN_IF_ERROR(check(d));
  const weft_node_spec_t spec = {.name = d->name,
                                 .op = d->type,
                                 .device = d->device,
                                 .inputs = d->inputs,
                                 .num_inputs = d->num_inputs,
                                 .controls = d->controls,
                                 .num_controls = d->num_controls,
                                 .attrs = d->attrs,
                                 .num_attrs = d->num_attrs};
  weft_node_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(g->graph, &spec, &n));
  weft_status_t *s = weft_inference_add(g->inference, n);
  if (s == NULL) s = weft_client_graph_sync_locked(g);
  if (s != NULL) {
    weft_graph_remove(g->graph, n);
    return s;
  }
  *out = n;
  return NULL;
}

static weft_status_t *no_description(void) { return WEFT_NO_MEMORY("a new operation"); }

TF_Operation *TF_FinishOperationLocked(TF_OperationDescription *desc, TF_Status *status)
    WEFT_TSA(no_thread_safety_analysis) {
  weft_node_t *n = NULL;
  if (desc == NULL) {
    weft_client_end(status, no_description());
    return NULL;
  }
  TF_Graph *g = desc->graph;
  weft_status_t *s = add(g, desc, &n);
  destroy(desc);
  return weft_client_end(status, s) ? weft_client_operation(g, n) : NULL;
}

TF_Operation *TF_FinishOperation(TF_OperationDescription *desc, TF_Status *status) {
  if (desc == NULL) return TF_FinishOperationLocked(NULL, status);
  TF_Graph *g = desc->graph;
  weft_mutex_lock(&g->mu);
  TF_Operation *o = TF_FinishOperationLocked(desc, status);
  weft_mutex_unlock(&g->mu);
  return o;
}
