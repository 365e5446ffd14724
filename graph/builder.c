/* graph/builder.c - weft_graph_add: a node from a spec, its type attributes worked out from its inputs.
 *
 * An op's flat inputs are assigned to its args. All args but one say how many
 * tensors they take (a fixed number, or an attribute that is given); the one
 * that does not takes what is left.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "graph/node_build.h"

typedef struct node_build {
  weft_graph_t *g;
  const weft_node_spec_t *spec;
  weft_node_t *n;
  weft_named_attr_t *attrs; /* owned; given ones (copied), then inferred ones */
  int num_attrs;
} node_build_t;

static weft_status_t *no_memory(const node_build_t *b) {
  return WEFT_NO_MEMORY("node '%.*s'", WEFT_STR_ARGS(b->spec->name));
}

static weft_attr_t *find(node_build_t *b, weft_str_t name) {
  for (int i = b->num_attrs - 1; i >= 0; i--) {
    if (weft_str_eq(b->attrs[i].name, name)) return &b->attrs[i].value;
  }
  return NULL;
}

static void infer(node_build_t *b, weft_str_t name, weft_attr_t value) {
  b->attrs[b->num_attrs++] = (weft_named_attr_t){name, value};
}

static weft_status_t *while_building(node_build_t *b, weft_status_t *s) {
  weft_strbuf_t op = WEFT_STRBUF_INIT;
  weft_op_print(b->n->op, &op);
  if (!op.failed) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "%s while building NodeDef '%s' using %s", weft_status_message(s),
                       b->n->name.data, op.data);
    if (!text.failed) {
      weft_status_t *full = weft_status_from_wire((int)weft_status_code(s), text.data, text.length);
      weft_status_free(s);
      s = full;
    }
    weft_strbuf_deinit(&text);
  }
  weft_strbuf_deinit(&op);
  return s;
}

/* ---- how many inputs each arg takes ---- */

/* -1 if nothing says how many. */
static int64_t count_of(node_build_t *b, const weft_arg_def_t *arg) {
  if (arg->kind != WEFT_ARG_REPEATED && arg->kind != WEFT_ARG_TYPE_LIST) return 1;
  const weft_attr_t *a = find(b, arg->kind == WEFT_ARG_REPEATED ? arg->number_attr : arg->type_attr);
  if (a == NULL) return -1;
  if (arg->kind == WEFT_ARG_TYPE_LIST) return a->is_list ? a->n : 0;
  return a->kind == WEFT_ATTR_INT && !a->is_list && a->i >= 0 && a->i <= INT32_MAX ? a->i : 0;
}

static int64_t count_open_arg(node_build_t *b) {
  int64_t rest = b->spec->num_inputs;
  int num_open = 0;
  const weft_arg_def_t *open = NULL;
  for (int i = 0; i < b->n->op->num_inputs; i++) {
    const weft_arg_def_t *arg = &b->n->op->inputs[i];
    int64_t n = count_of(b, arg);
    if (n >= 0) {
      rest -= n;
    } else if (open == NULL || arg->kind != WEFT_ARG_REPEATED ||
               !weft_str_eq(arg->number_attr, open->number_attr)) {
      open = arg;
      num_open += open->kind == WEFT_ARG_TYPE_LIST ? 1000 : 1;
    } else {
      num_open++; /* another arg of the same number: they share what is left */
    }
  }
  if (open == NULL || rest < 0) return 0;
  if (open->kind == WEFT_ARG_TYPE_LIST) return rest;
  return num_open > 0 && num_open < 1000 ? rest / num_open : 0;
}

/* ---- types from inputs ---- */

static weft_status_t *infer_type(node_build_t *b, const weft_arg_def_t *arg, weft_str_t attr, int given) {
  const weft_attr_t *known = find(b, attr);
  int base = (int)weft_dtype_base(given);
  if (known == NULL) {
    infer(b, attr, (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = base});
    return NULL;
  }
  if (known->kind != WEFT_ATTR_TYPE || known->is_list || known->type == base) return NULL;
  (void)arg;
  return while_building(
      b, WEFT_ERROR(INVALID_ARGUMENT, "Inconsistent values for attr '%.*s' %s vs. %s", WEFT_STR_ARGS(attr),
                    weft_dtype_enum_name(known->type), weft_dtype_enum_name(base)));
}

static weft_status_t *infer_list(node_build_t *b, const weft_arg_def_t *arg, int first, int n) {
  if (find(b, arg->type_attr) != NULL) return NULL;
  int *types = weft_arena_calloc(b->g->arena, (size_t)n, sizeof *types);
  if (types == NULL) return no_memory(b);
  for (int i = 0; i < n; i++) {
    const weft_output_t *in = &b->spec->inputs[first + i];
    types[i] = (int)weft_dtype_base(in->node->output_types[in->index]);
  }
  infer(b, arg->type_attr,
        (weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n, .list.types = types});
  return NULL;
}

static weft_status_t *check_fixed(node_build_t *b, const weft_arg_def_t *arg, int given) {
  int wanted = arg->is_ref ? arg->dtype + WEFT_REF : arg->dtype;
  if (weft_types_fit(given, wanted)) return NULL;
  return while_building(
      b, WEFT_ERROR(INVALID_ARGUMENT, "Input '%.*s' passed %s expected %s", WEFT_STR_ARGS(arg->name),
                    weft_dtype_name(given), weft_dtype_name(wanted)));
}

static weft_status_t *infer_attrs(node_build_t *b) {
  const weft_op_def_t *op = b->n->op;
  int64_t open_count = count_open_arg(b);
  int at = 0;
  for (int i = 0; i < op->num_inputs; i++) {
    const weft_arg_def_t *arg = &op->inputs[i];
    int64_t n = count_of(b, arg);
    if (n < 0) n = open_count;
    if (n > b->spec->num_inputs - at) return NULL; /* too few: reported when the types are known */
    if (arg->kind == WEFT_ARG_TYPE_LIST) {
      WEFT_RETURN_IF_ERROR(infer_list(b, arg, at, (int)n));
    }
    if (arg->kind == WEFT_ARG_REPEATED && find(b, arg->number_attr) == NULL) {
      infer(b, arg->number_attr, (weft_attr_t){.kind = WEFT_ATTR_INT, .i = n});
    }
    for (int k = 0; k < n && arg->kind != WEFT_ARG_TYPE_LIST; k++) {
      const weft_output_t *in = &b->spec->inputs[at + k];
      int given = in->node->output_types[in->index];
      WEFT_RETURN_IF_ERROR(arg->type_attr.length > 0 ? infer_type(b, arg, arg->type_attr, given)
                                                     : check_fixed(b, arg, given));
    }
    at += (int)n;
  }
  return NULL;
}

/* ---- the node ---- */

static weft_status_t *copy_given_attrs(node_build_t *b) {
  const weft_op_def_t *op = b->n->op;
  size_t most = (size_t)b->spec->num_attrs + (size_t)(op->num_inputs * 2);
  b->attrs = weft_calloc(most + 1, sizeof *b->attrs);
  if (b->attrs == NULL) return no_memory(b);
  for (int i = 0; i < b->spec->num_attrs; i++) {
    const weft_named_attr_t *given = &b->spec->attrs[i];
    const weft_attr_def_t *def = weft_op_attr(op, given->name);
    weft_str_t name = def != NULL ? def->name : weft_graph_intern(b->g, given->name);
    if (name.data == NULL) return no_memory(b);
    WEFT_RETURN_IF_ERROR(weft_attr_copy(b->g->arena, &given->value, &b->attrs[b->num_attrs].value));
    b->attrs[b->num_attrs++].name = name;
  }
  return NULL;
}

static weft_status_t *check_spec(const node_build_t *b) {
  const weft_node_spec_t *spec = b->spec;
  if (!weft_name_is_valid(spec->name, true)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s': Node name contains invalid characters",
                      WEFT_STR_ARGS(spec->name));
  }
  if (weft_graph_find(b->g, spec->name) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate node name in graph: '%.*s'", WEFT_STR_ARGS(spec->name));
  }
  for (int i = 0; i < spec->num_inputs; i++) {
    const weft_node_t *from = spec->inputs[i].node;
    int index = spec->inputs[i].index;
    if (from == NULL)
      return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s': input %d is missing", WEFT_STR_ARGS(spec->name), i);
    if (index >= 0 && index < from->num_outputs) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Node '%.*s': Connecting to invalid output %d of source node %s which has %d outputs.",
                      WEFT_STR_ARGS(spec->name), index, from->name.data, from->num_outputs);
  }
  return NULL;
}

static weft_status_t *add_controls(node_build_t *b) {
  for (int i = 0; i < b->spec->num_controls; i++) {
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(b->g, b->spec->controls[i], b->n));
  }
  return NULL;
}

static weft_status_t *enter(node_build_t *b) {
  const weft_node_spec_t *spec = b->spec;
  const weft_op_def_t *op = NULL;
  weft_function_t *function = NULL;
  weft_node_resolve_op(b->g, spec->op, &op, &function);
  if (op == NULL) {
    return WEFT_ERROR(
        NOT_FOUND,
        "Op type not registered '%.*s' while building NodeDef '%.*s'. Make sure the Op and Kernel "
        "are registered in the binary running in this process.",
        WEFT_STR_ARGS(spec->op), WEFT_STR_ARGS(spec->name));
  }
  weft_str_t name = weft_arena_str(b->g->arena, spec->name), device = weft_graph_intern(b->g, spec->device);
  if (name.data == NULL || device.data == NULL) return no_memory(b);
  WEFT_RETURN_IF_ERROR(weft_graph_enter(b->g, name, &b->n));
  b->n->op = op;
  b->n->function = function;
  b->n->flags = op->flags;
  b->n->requested_device = device;
  b->n->assigned_device = WEFT_STR("");
  return NULL;
}

static weft_status_t *complete(node_build_t *b) {
  WEFT_RETURN_IF_ERROR(copy_given_attrs(b));
  WEFT_RETURN_IF_ERROR(infer_attrs(b));
  int num_attrs = b->num_attrs;
  b->num_attrs = 0; /* the next call takes them, also when it fails */
  WEFT_RETURN_IF_ERROR(weft_node_set_attrs(b->g, b->n, b->attrs, num_attrs, WEFT_WORDS_CLIENT));
  WEFT_RETURN_IF_ERROR(weft_node_set_types(b->g, b->n, b->spec->num_inputs));
  for (int i = 0; i < b->spec->num_inputs; i++)
    WEFT_RETURN_IF_ERROR(weft_node_connect(b->g, b->n, i, b->spec->inputs[i]));
  return add_controls(b);
}

weft_status_t *weft_graph_add(weft_graph_t *g, const weft_node_spec_t *spec, weft_node_t **out) {
  node_build_t b = {.g = g, .spec = spec};
  weft_status_t *s = check_spec(&b);
  if (s == NULL) s = enter(&b);
  if (s == NULL) s = complete(&b);
  for (int i = 0; i < b.num_attrs; i++) weft_attr_release_tensors(&b.attrs[i].value);
  weft_free(b.attrs);
  if (s != NULL && b.n != NULL) weft_graph_remove(g, b.n);
  if (s == NULL) *out = b.n;
  return s;
}
