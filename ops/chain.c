/* ops/chain.c - the description of a chain as attributes, and its shapes. */
#include "ops/chain.h"

#include "ops/bias.h"
#include "ops/infer.h"

/* ---- which ops may be links ---- */

bool weft_chain_reduces(const weft_op_def_t *op) {
  return op->infer_shapes == weft_infer_reduce && op->num_inputs == 2 && op->num_outputs == 1;
}

bool weft_chain_is_by_rows(const weft_op_def_t *op) { return op->infer_shapes == weft_infer_softmax; }

bool weft_chain_adds_bias(const weft_op_def_t *op) { return op->infer_shapes == weft_infer_bias_add; }

bool weft_chain_may_link(const weft_op_def_t *op) {
  return weft_op_is_elementwise(op) || weft_chain_reduces(op) || weft_chain_is_by_rows(op) ||
         weft_chain_adds_bias(op);
}

/* ---- attributes ---- */

static weft_status_t *no_chain(const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "the attributes of a _WeftChain describe none: %s", why);
}

static const weft_attr_t *list(const weft_named_attr_t *attrs, int num_attrs, const char *name,
                               weft_attr_kind_t kind) {
  static const weft_attr_t empty = {.kind = WEFT_ATTR_NONE, .is_list = true};
  const weft_attr_t *a = weft_attr_find(attrs, num_attrs, name);
  return a != NULL && a->is_list && a->kind == kind ? a : &empty;
}

/* The type that the attribute has by the operands before `end`; 0: they say nothing of it. */
static int type_by_operands(const weft_chain_t *c, const weft_chain_link_t *l, weft_str_t type_attr,
                            int num_repeated) {
  for (int arg = 0, at = 0; arg < l->op->num_inputs; arg++) {
    const weft_arg_def_t *def = &l->op->inputs[arg];
    if (weft_str_eq(def->type_attr, type_attr) && at < l->num_operands)
      return weft_chain_type(c, l->operands[at]);
    at += def->kind == WEFT_ARG_REPEATED ? num_repeated : 1;
  }
  return 0;
}

/* Are the operands and the result of the types that the op's signature asks for? */
static bool has_types(const weft_chain_t *c, const weft_chain_link_t *l) {
  const weft_op_def_t *op = l->op;
  const int num_repeated = l->num_operands - (op->num_inputs - 1); /* of an argument that is repeated */
  int at = 0;
  if (op->num_outputs != 1 || op->num_inputs < 1 || num_repeated < 1) return false;
  for (int arg = 0; arg < op->num_inputs; arg++) {
    const weft_arg_def_t *def = &op->inputs[arg];
    if (def->kind == WEFT_ARG_TYPE_LIST || def->is_ref) return false;
    const int type =
        def->type_attr.length == 0 ? def->dtype : type_by_operands(c, l, def->type_attr, num_repeated);
    const int n = def->kind == WEFT_ARG_REPEATED ? num_repeated : 1;
    if (n > l->num_operands - at) return false;
    for (int i = 0; i < n; i++) {
      if ((int)weft_chain_type(c, l->operands[at++]) != type) return false;
    }
  }
  const weft_arg_def_t *result = &op->outputs[0];
  if (result->kind != WEFT_ARG_FIXED && result->kind != WEFT_ARG_ATTR) return false;
  const int type = result->kind == WEFT_ARG_FIXED ? result->dtype
                                                  : type_by_operands(c, l, result->type_attr, num_repeated);
  return at == l->num_operands && weft_dtype_is_valid(l->type) && !weft_dtype_is_ref(l->type) &&
         (type == 0 || type == l->type);
}

static weft_status_t *read_link(const weft_chain_t *c, int i, weft_chain_link_t *l,
                                const weft_attr_t *operands, int64_t arity, int *at) {
  if (l->op == NULL || !weft_chain_may_link(l->op)) return no_chain("an op that may be no link");
  if (arity < 1 || arity > operands->n - *at) return no_chain("too few operands");
  l->num_operands = (int)arity;
  l->operands = operands->list.ints + *at;
  *at += l->num_operands;
  for (int k = 0; k < l->num_operands; k++) {
    if (l->operands[k] < 0 || l->operands[k] >= c->num_inputs + i)
      return no_chain("an operand that is not there yet");
  }
  if (weft_chain_reduces(l->op) && l->num_operands == 2 && l->operands[1] >= c->num_inputs)
    return no_chain("axes that the chain computes");
  return has_types(c, l) ? NULL : no_chain("operands or results of other types than an op has");
}

weft_status_t *weft_chain_read(weft_arena_t *arena, const weft_named_attr_t *attrs, int num_attrs,
                               weft_chain_t *out) {
  const weft_attr_t *types = list(attrs, num_attrs, "T", WEFT_ATTR_TYPE),
                    *ops = list(attrs, num_attrs, "ops", WEFT_ATTR_STRING),
                    *nodes = list(attrs, num_attrs, "nodes", WEFT_ATTR_STRING),
                    *results = list(attrs, num_attrs, "types", WEFT_ATTR_TYPE),
                    *arities = list(attrs, num_attrs, "arities", WEFT_ATTR_INT),
                    *keep_dims = list(attrs, num_attrs, "keep_dims", WEFT_ATTR_BOOL),
                    *operands = list(attrs, num_attrs, "operands", WEFT_ATTR_INT),
                    *outputs = list(attrs, num_attrs, "outputs", WEFT_ATTR_INT);
  int at = 0;
  if (types->n < 1) return no_chain("the number of inputs");
  if (ops->n < 1) return no_chain("the number of links");
  if (outputs->n < 1) return no_chain("the number of outputs");
  if (nodes->n != ops->n || results->n != ops->n || keep_dims->n != ops->n || arities->n != ops->n)
    return no_chain("lists of different lengths");
  weft_chain_link_t *links = weft_arena_calloc(arena, (size_t)ops->n, sizeof *links);
  if (links == NULL) return WEFT_NO_MEMORY("a chain of %d links", ops->n);
  *out = (weft_chain_t){.num_inputs = types->n,
                        .num_links = ops->n,
                        .num_outputs = outputs->n,
                        .input_types = types->list.types,
                        .links = links,
                        .outputs = outputs->list.ints};
  for (int i = 0; i < ops->n; i++) {
    links[i] = (weft_chain_link_t){.op = weft_op_find(ops->list.strings[i]),
                                   .node = nodes->list.strings[i],
                                   .type = results->list.types[i],
                                   .keeps_dims = keep_dims->list.bools[i]};
    WEFT_RETURN_IF_ERROR(read_link(out, i, &links[i], operands, arities->list.ints[i], &at));
  }
  const weft_attr_t *output_types = list(attrs, num_attrs, "Tout", WEFT_ATTR_TYPE);
  if (output_types->n != outputs->n) return no_chain("lists of different lengths");
  for (int i = 0; i < outputs->n; i++) {
    const int64_t value = out->outputs[i];
    if (value < out->num_inputs || value >= weft_chain_num_values(out))
      return no_chain("an output that is no link's");
    if (i > 0 && value <= out->outputs[i - 1]) return no_chain("outputs that do not ascend");
    if (output_types->list.types[i] != (int)weft_chain_type(out, value))
      return no_chain("an output of another type than its link");
  }
  return at == operands->n ? NULL : no_chain("too many operands");
}

static weft_named_attr_t list_attr(const char *name, weft_attr_kind_t kind, int n) {
  return (weft_named_attr_t){weft_str(name), {.kind = kind, .is_list = true, .n = n}};
}

weft_status_t *weft_chain_attrs(weft_arena_t *arena, const weft_chain_t *c, weft_named_attr_t *out) {
  const size_t n = (size_t)c->num_links;
  size_t num_operands = 0;
  for (int i = 0; i < c->num_links; i++) num_operands += (size_t)c->links[i].num_operands;
  weft_str_t *ops = weft_arena_calloc(arena, n, sizeof *ops),
             *nodes = weft_arena_calloc(arena, n, sizeof *nodes);
  int *types = weft_arena_calloc(arena, n, sizeof *types),
      *output_types = weft_arena_calloc(arena, (size_t)c->num_outputs, sizeof *output_types);
  bool *keep_dims = weft_arena_calloc(arena, n, sizeof *keep_dims);
  int64_t *arities = weft_arena_calloc(arena, n, sizeof *arities),
          *operands = weft_arena_calloc(arena, num_operands, sizeof *operands);
  if (ops == NULL || nodes == NULL || types == NULL || output_types == NULL || keep_dims == NULL ||
      arities == NULL || operands == NULL)
    return WEFT_NO_MEMORY("describing a chain of %d links", c->num_links);
  num_operands = 0;
  for (int i = 0; i < c->num_links; i++) {
    const weft_chain_link_t *l = &c->links[i];
    ops[i] = l->op->name;
    nodes[i] = l->node;
    types[i] = l->type;
    keep_dims[i] = l->keeps_dims;
    arities[i] = l->num_operands;
    for (int k = 0; k < l->num_operands; k++) operands[num_operands++] = l->operands[k];
  }
  for (int i = 0; i < c->num_outputs; i++) output_types[i] = (int)weft_chain_type(c, c->outputs[i]);
  out[0] = list_attr("T", WEFT_ATTR_TYPE, c->num_inputs);
  out[0].value.list.types = c->input_types;
  out[1] = list_attr("Tout", WEFT_ATTR_TYPE, c->num_outputs);
  out[1].value.list.types = output_types;
  out[2] = list_attr("ops", WEFT_ATTR_STRING, c->num_links);
  out[2].value.list.strings = ops;
  out[3] = list_attr("nodes", WEFT_ATTR_STRING, c->num_links);
  out[3].value.list.strings = nodes;
  out[4] = list_attr("types", WEFT_ATTR_TYPE, c->num_links);
  out[4].value.list.types = types;
  out[5] = list_attr("arities", WEFT_ATTR_INT, c->num_links);
  out[5].value.list.ints = arities;
  out[6] = list_attr("operands", WEFT_ATTR_INT, (int)num_operands);
  out[6].value.list.ints = operands;
  out[7] = list_attr("outputs", WEFT_ATTR_INT, c->num_outputs);
  out[7].value.list.ints = c->outputs;
  out[8] = list_attr("keep_dims", WEFT_ATTR_BOOL, c->num_links);
  out[8].value.list.bools = keep_dims;
  return NULL;
}

/* ---- its shapes ---- */

/* What the kernels of the ops say, while a step runs, of shapes that do not fit. */
static weft_status_t *in_kernels_words(const weft_chain_link_t *l, const weft_shape_t *operands,
                                       weft_status_t *s) {
  if (s == NULL || l->num_operands != 2 || weft_chain_reduces(l->op)) return s;
  weft_status_free(s);
  if (weft_chain_adds_bias(l->op)) return weft_bias_check(&operands[0], &operands[1], false);
  if (l->op->infer_shapes == weft_infer_broadcast) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&operands[0]),
                      WEFT_SHAPE_TEXT(&operands[1]));
  }
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Inputs to operation %.*s of type %.*s must have the same size and shape.  Input 0: %s != "
      "input 1: %s",
      WEFT_STR_ARGS(l->node), WEFT_STR_ARGS(l->op->name), WEFT_SHAPE_TEXT(&operands[0]),
      WEFT_SHAPE_TEXT(&operands[1]));
}

static weft_status_t *infer_link(const weft_chain_t *c, weft_arena_t *arena,
                                 const weft_tensor_t *const *inputs, int i, weft_shape_t *shapes) {
  const weft_chain_link_t *l = &c->links[i];
  weft_shape_t *operands = weft_arena_calloc(arena, (size_t)l->num_operands, sizeof *operands);
  int *input_types = weft_arena_calloc(arena, (size_t)l->num_operands, sizeof *input_types);
  const weft_tensor_t **values =
      weft_arena_calloc(arena, (size_t)l->num_operands, sizeof(const weft_tensor_t *));
  weft_named_attr_t attrs[8];
  int num_attrs = 0;
  if (operands == NULL || input_types == NULL || values == NULL)
    return WEFT_NO_MEMORY("a chain of %d links", c->num_links);
  for (int k = 0; k < l->num_operands; k++) {
    operands[k] = shapes[l->operands[k]];
    if (inputs != NULL && l->operands[k] < c->num_inputs) values[k] = inputs[l->operands[k]];
    input_types[k] = (int)weft_chain_type(c, l->operands[k]);
  }
  for (int a = 0; a < l->op->num_attrs && num_attrs < 8; a++) {
    if (weft_str_is(l->op->attrs[a].name, "keep_dims")) {
      attrs[num_attrs++] = weft_bool_attr("keep_dims", l->keeps_dims);
    } else if (l->op->attrs[a].has_default) {
      attrs[num_attrs++] = (weft_named_attr_t){l->op->attrs[a].name, l->op->attrs[a].default_value};
    }
  }
  weft_shape_ctx_t x = {.op = l->op,
                        .node_name = l->node,
                        .attrs = attrs,
                        .num_attrs = num_attrs,
                        .num_inputs = l->num_operands,
                        .num_outputs = 1,
                        .input_types = input_types,
                        .output_types = &l->type,
                        .inputs = operands,
                        .values = values,
                        .outputs = &shapes[c->num_inputs + i]};
  shapes[c->num_inputs + i] = WEFT_UNKNOWN_SHAPE;
  return in_kernels_words(l, operands, l->op->infer_shapes == NULL ? NULL : l->op->infer_shapes(&x));
}

weft_status_t *weft_chain_infer_links(const weft_chain_t *c, weft_arena_t *arena,
                                      const weft_tensor_t *const *inputs, weft_shape_t *shapes,
                                      int *out_failed) {
  weft_status_t *s = NULL;
  for (int i = 0; i < c->num_links && s == NULL; i++) {
    *out_failed = i;
    s = infer_link(c, arena, inputs, i, shapes);
  }
  return s;
}

weft_status_t *weft_chain_infer(const weft_chain_t *c, weft_arena_t *arena,
                                const weft_tensor_t *const *inputs, weft_shape_t *shapes) {
  int failed = 0;
  weft_status_t *s = weft_chain_infer_links(c, arena, inputs, shapes, &failed);
  const bool has_name = failed == c->num_links - 1; /* the last link's, which is the node's */
  return s == NULL || has_name ? s : weft_infer_at_node(s, c->links[failed].node);
}

static weft_status_t *infer_chain(weft_shape_ctx_t *c, weft_arena_t *arena) {
  weft_chain_t chain;
  WEFT_RETURN_IF_ERROR(weft_chain_read(arena, c->attrs, c->num_attrs, &chain));
  if (chain.num_inputs != c->num_inputs) return no_chain("the number of inputs");
  if (chain.num_outputs != c->num_outputs) return no_chain("the number of outputs");
  weft_shape_t *values = weft_arena_calloc(arena, (size_t)weft_chain_num_values(&chain), sizeof *values);
  if (values == NULL) return WEFT_NO_MEMORY("a chain of %d links", chain.num_links);
  for (int i = 0; i < chain.num_inputs; i++) values[i] = c->inputs[i];
  WEFT_RETURN_IF_ERROR(weft_chain_infer(&chain, arena, c->values, values));
  for (int i = 0; i < chain.num_outputs; i++) c->outputs[i] = values[chain.outputs[i]];
  return NULL;
}

weft_status_t *weft_infer_chain(weft_shape_ctx_t *c) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *s = infer_chain(c, &arena);
  weft_arena_deinit(&arena);
  return s;
}
