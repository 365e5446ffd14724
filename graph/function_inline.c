/* graph/function_inline.c - instantiates a function's body in a graph.
 *
 * Inside a FunctionDef a tensor is named "argument" or "node:output:index", where
 * `output` is a name in the op's signature; without an index the name stands for
 * all tensors of that argument or output. So nodes are made first, which settles
 * how many tensors each name stands for, and connected afterwards.
 */
#include "graph/inline.h"

#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/node_build.h"
#include "protos/wire.h"

typedef struct body_node {
  weft_str_t name; /* in the function; lent */
  weft_str_t def;  /* lent */
  weft_node_t *node;
} body_node_t;

typedef struct body {
  weft_graph_t *g;
  const weft_inline_spec_t *spec;
  weft_arena_t scratch; /* dies with the call */
  weft_map_t by_name;   /* name in the function -> body_node_t */
  weft_map_t returns;   /* name of an output -> weft_str_t: what it is in the body */
  body_node_t *nodes;
  int num_nodes;
  weft_node_t caller; /* stands for the call: its op is the signature, its attributes bind the types */
  weft_inlined_t out;
} body_t;

/* What a name in the body stands for: `count` tensors from `first` on. */
typedef struct inline_range {
  const weft_output_t *args; /* of the call, if the name is an argument's; else NULL */
  weft_node_t *node;
  int first, count;
} inline_range_t;

static weft_status_t *no_memory(const body_t *b) {
  return WEFT_NO_MEMORY("the body of function '%s'", b->spec->function->name.data);
}

static weft_status_t *malformed(const body_t *b) {
  return WEFT_ERROR(INVALID_ARGUMENT, "function '%s' cannot be parsed", b->spec->function->name.data);
}

/* ---- the call ---- */

/* Keeps of the call's attributes those that the signature declares, and adds defaults. */
static weft_status_t *bind_attrs(body_t *b) {
  const weft_op_def_t *op = &b->spec->function->signature;
  weft_named_attr_t *attrs = weft_arena_calloc(&b->scratch, (size_t)b->spec->num_attrs, sizeof *attrs);
  if (attrs == NULL) return no_memory(b);
  int n = 0;
  weft_status_t *s = NULL;
  for (int i = 0; i < b->spec->num_attrs && s == NULL; i++) {
    const weft_attr_def_t *def = weft_op_attr(op, b->spec->attrs[i].name);
    if (def == NULL) continue;
    s = weft_attr_copy(b->g->arena, &b->spec->attrs[i].value, &attrs[n].value);
    if (s == NULL) attrs[n++].name = def->name;
  }
  if (s != NULL) {
    for (int i = 0; i < n; i++) weft_attr_release_tensors(&attrs[i].value);
    return s;
  }
  b->caller.name = b->spec->prefix;
  b->caller.op = op;
  return weft_node_set_attrs(b->g, &b->caller, attrs, n, WEFT_WORDS_CLIENT);
}

static weft_status_t *check_args(body_t *b) {
  const weft_function_t *f = b->spec->function;
  WEFT_RETURN_IF_ERROR(weft_node_set_types(b->g, &b->caller, -1));
  if (b->caller.num_inputs != b->spec->num_args) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Node '%.*s': function '%s' takes %d arguments, but is called with %d",
                      WEFT_STR_ARGS(b->spec->prefix), f->name.data, b->caller.num_inputs, b->spec->num_args);
  }
  for (int i = 0; i < b->spec->num_args; i++) {
    weft_output_t arg = b->spec->args[i];
    int given = arg.node->output_types[arg.index], wanted = b->caller.input_types[i];
    if (weft_types_fit(given, wanted)) continue;
    return WEFT_ERROR(
        INVALID_ARGUMENT, "Node '%.*s': argument %d of function '%s' was passed %s, but %s is expected",
        WEFT_STR_ARGS(b->spec->prefix), i, f->name.data, weft_dtype_name(given), weft_dtype_name(wanted));
  }
  return NULL;
}

/* ---- the nodes ---- */

static weft_str_t name_of(weft_str_t node_def) {
  weft_wire_reader_t r = weft_wire_reader(node_def);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = f.bytes;
  }
  return name;
}

static weft_status_t *list_nodes(body_t *b) {
  weft_wire_reader_t r = weft_wire_reader(b->spec->function->def);
  weft_wire_field_t f;
  int n = 0;
  while (weft_wire_next(&r, &f)) n += f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES);
  if (r.failed) return malformed(b);
  b->nodes = weft_arena_calloc(&b->scratch, (size_t)n, sizeof *b->nodes);
  if (b->nodes == NULL) return no_memory(b);
  r = weft_wire_reader(b->spec->function->def);
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) continue;
    body_node_t *body_node = &b->nodes[b->num_nodes++];
    void *old = NULL;
    *body_node = (body_node_t){name_of(f.bytes), f.bytes, NULL};
    if (!weft_name_is_valid(body_node->name, true)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "function '%s': Illegal op name '%.*s'",
                        b->spec->function->name.data, WEFT_STR_ARGS(body_node->name));
    }
    WEFT_RETURN_IF_ERROR(weft_map_put(&b->by_name, body_node->name, body_node, &old));
    if (old != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "function '%s': Node '%.*s' is not unique",
                        b->spec->function->name.data, WEFT_STR_ARGS(body_node->name));
    }
  }
  return NULL;
}

/* "prefix/name" in the graph's arena. */
static weft_str_t prefixed(body_t *b, const char *before, weft_str_t name) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, before);
  weft_strbuf_append(&text, b->spec->prefix);
  weft_strbuf_putc(&text, '/');
  weft_strbuf_append(&text, name);
  weft_str_t out =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(b->g->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return out;
}

/* Replaces "$T" by the call's T, also inside the attributes of functions. Values lie in the graph's arena and
 * belong to this body alone, so they may be changed in place. */
static weft_status_t *bind_placeholders(body_t *b, weft_attr_t *a) {
  if (a->kind == WEFT_ATTR_PLACEHOLDER) {
    for (int i = 0; i < b->caller.num_attrs; i++) {
      if (!weft_str_eq(b->caller.attrs[i].name, a->s)) continue;
      return weft_attr_copy(b->g->arena, &b->caller.attrs[i].value, a);
    }
    return WEFT_ERROR(INVALID_ARGUMENT, "function '%s' is called without a value for attr '%.*s'",
                      b->spec->function->name.data, WEFT_STR_ARGS(a->s));
  }
  if (a->kind != WEFT_ATTR_FUNC) return NULL;
  for (int i = 0; i < (a->is_list ? a->n : 1); i++) {
    const weft_func_attr_t *func = a->is_list ? a->list.funcs[i] : a->func;
    for (int k = 0; k < func->num_attrs; k++) {
      WEFT_RETURN_IF_ERROR(bind_placeholders(b, (weft_attr_t *)&func->attrs[k].value));
    }
  }
  return NULL;
}

/* "loc:@x" inside the function means the x of this body. */
static weft_status_t *move_colocation(body_t *b, weft_attr_t *a) {
  if (a->kind != WEFT_ATTR_STRING || !a->is_list) return NULL;
  for (int i = 0; i < a->n; i++) {
    weft_str_t *group = (weft_str_t *)&a->list.strings[i];
    if (!weft_str_starts_with(*group, "loc:@")) continue;
    weft_str_t name = weft_str_of(group->data + 5, group->length - 5);
    if (weft_map_get(&b->by_name, name) == NULL) continue;
    *group = prefixed(b, "loc:@", name);
    if (group->data == NULL) return no_memory(b);
  }
  return NULL;
}

static weft_status_t *adapt_attr(body_t *b, const weft_node_t *n, weft_named_attr_t *a) {
  WEFT_RETURN_IF_ERROR(bind_placeholders(b, &a->value));
  if (weft_str_is(a->name, "_class")) return move_colocation(b, &a->value);
  bool is_frame = (n->flags & WEFT_OP_ENTER) != 0 && weft_str_is(a->name, "frame_name") &&
                  a->value.kind == WEFT_ATTR_STRING && !a->value.is_list;
  if (!is_frame) return NULL;
  a->value.s = prefixed(b, "", a->value.s);
  return a->value.s.data == NULL ? no_memory(b) : NULL;
}

static weft_status_t *read_attr(body_t *b, const weft_node_t *n, weft_str_t entry, weft_named_attr_t *out) {
  weft_str_t key, value;
  if (!weft_map_entry_read(entry, &key, &value)) return malformed(b);
  out->name = weft_graph_intern(b->g, key);
  if (out->name.data == NULL) return no_memory(b);
  WEFT_RETURN_IF_ERROR(weft_attr_from_proto(b->g->arena, value, &out->value));
  weft_status_t *s = adapt_attr(b, n, out);
  if (s != NULL) weft_attr_release_tensors(&out->value);
  return s;
}

static weft_status_t *read_attrs(body_t *b, const body_node_t *from, weft_node_t *n) {
  weft_wire_reader_t r = weft_wire_reader(from->def);
  weft_wire_field_t f;
  int num_attrs = 0, count = 0;
  while (weft_wire_next(&r, &f)) count += f.tag == WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES);
  if (r.failed || count > WEFT_MAX_ATTRS) return malformed(b);
  weft_named_attr_t *attrs = weft_arena_calloc(&b->scratch, (size_t)count, sizeof *attrs);
  if (attrs == NULL) return no_memory(b);
  r = weft_wire_reader(from->def);
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) continue;
    weft_status_t *s = read_attr(b, n, f.bytes, &attrs[num_attrs]);
    if (s != NULL) {
      for (int i = 0; i < num_attrs; i++) weft_attr_release_tensors(&attrs[i].value);
      return s;
    }
    num_attrs++;
  }
  return weft_node_set_attrs(b->g, n, attrs, num_attrs, WEFT_WORDS_CLIENT);
}

static weft_status_t *make_node(body_t *b, body_node_t *from) {
  weft_wire_reader_t r = weft_wire_reader(from->def);
  weft_wire_field_t f;
  weft_str_t op_name = WEFT_STR(""), device = WEFT_STR("");
  int num_data = 0; /* inputs as they are written: one may stand for several tensors */
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) op_name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) num_data += f.bytes.length > 0 && f.bytes.data[0] != '^';
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) device = f.bytes;
  }
  const weft_op_def_t *op = NULL;
  weft_function_t *function = NULL;
  WEFT_RETURN_IF_ERROR(weft_node_resolve_any_op(b->g, op_name, &op, &function));
  weft_str_t name = prefixed(b, "", from->name);
  if (name.data != NULL && weft_graph_find(b->g, name) != NULL) name = weft_graph_unique_name(b->g, name);
  device = weft_device_merge(b->g, device, b->spec->device);
  if (name.data == NULL || device.data == NULL) return no_memory(b);
  WEFT_RETURN_IF_ERROR(weft_graph_enter(b->g, name, &from->node));
  weft_node_t *n = from->node;
  n->op = op;
  n->function = function;
  n->flags = op->flags;
  n->requested_device = device;
  n->assigned_device = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(read_attrs(b, from, n));
  return weft_node_set_types(b->g, n, (n->flags & WEFT_OP_UNREGISTERED) != 0 ? num_data : -1);
}

/* ---- the edges ---- */

static bool find_argument(const body_t *b, weft_str_t name, inline_range_t *out) {
  int first = 0;
  const weft_op_def_t *op = b->caller.op;
  for (int i = 0; i < op->num_inputs; i++) {
    int count = weft_node_arg_count(&b->caller, &op->inputs[i]);
    if (weft_str_eq(op->inputs[i].name, name)) {
      *out = (inline_range_t){b->spec->args, NULL, first, count};
      return true;
    }
    first += count;
  }
  return false;
}

static bool find_output(weft_node_t *n, weft_str_t output, inline_range_t *out) {
  int first = 0;
  if ((n->flags & WEFT_OP_UNREGISTERED) != 0) { /* what the name stands for is not known: an output more */
    *out = (inline_range_t){NULL, n, n->num_outputs, 1};
    return true;
  }
  for (int i = 0; i < n->op->num_outputs; i++) {
    int count = weft_node_arg_count(n, &n->op->outputs[i]);
    if (weft_str_eq(n->op->outputs[i].name, output)) {
      *out = (inline_range_t){NULL, n, first, count};
      return true;
    }
    first += count;
  }
  return false;
}

/* "arg", "arg:index", "node:output", "node:output:index". */
static bool resolve(const body_t *b, weft_str_t text, inline_range_t *out) {
  weft_str_t head = text, rest = WEFT_STR(""), output, index = WEFT_STR("");
  bool has_rest = weft_str_split(text, ':', &head, &rest);
  if (find_argument(b, head, out)) {
    index = rest;
  } else {
    const body_node_t *from = weft_map_get(&b->by_name, head);
    if (from == NULL || !has_rest) return false;
    if (!weft_str_split(rest, ':', &output, &index)) output = rest;
    if (!find_output(from->node, output, out)) return false;
    if ((from->node->flags & WEFT_OP_UNREGISTERED) != 0) return true;
  }
  if (index.length == 0) return true;
  int64_t i = 0;
  if (!weft_str_to_i64(index, &i) || i < 0 || i >= out->count) return false;
  out->first += (int)i;
  out->count = 1;
  return true;
}

static weft_output_t pick(const inline_range_t *r, int i) {
  return r->args != NULL ? r->args[r->first + i] : (weft_output_t){r->node, r->first + i};
}

static weft_status_t *unknown_name(const body_t *b, const char *where, weft_str_t name) {
  return WEFT_ERROR(INVALID_ARGUMENT, "function '%s': %s: input '%.*s' is not found",
                    b->spec->function->name.data, where, WEFT_STR_ARGS(name));
}

static weft_status_t *connect_control(body_t *b, weft_node_t *n, weft_str_t name) {
  const body_node_t *from = weft_map_get(&b->by_name, name);
  inline_range_t r;
  if (from != NULL) return weft_graph_add_control(b->g, from->node, n);
  if (!find_argument(b, name, &r)) return unknown_name(b, n->name.data, name);
  for (int i = 0; i < r.count; i++) WEFT_RETURN_IF_ERROR(weft_graph_add_control(b->g, pick(&r, i).node, n));
  return NULL;
}

static weft_status_t *connect(body_t *b, const body_node_t *to) {
  weft_wire_reader_t reader = weft_wire_reader(to->def);
  weft_wire_field_t f;
  weft_node_t *n = to->node;
  int num_data = 0;
  while (weft_wire_next(&reader, &f)) {
    if (f.tag != WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) continue;
    inline_range_t r;
    if (f.bytes.length > 0 && f.bytes.data[0] == '^') {
      WEFT_RETURN_IF_ERROR(connect_control(b, n, weft_str_of(f.bytes.data + 1, f.bytes.length - 1)));
      continue;
    }
    if (!resolve(b, f.bytes, &r)) return unknown_name(b, n->name.data, f.bytes);
    if ((n->flags & WEFT_OP_UNREGISTERED) != 0) r.count = r.count > 0 ? 1 : 0;
    if (r.count > n->num_inputs - num_data) num_data = n->num_inputs + 1;
    for (int i = 0; i < r.count && num_data < n->num_inputs; i++) {
      WEFT_RETURN_IF_ERROR(weft_node_connect(b->g, n, num_data++, pick(&r, i)));
    }
  }
  if (num_data != n->num_inputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "function '%s': Node '%s' has %s than the %d inputs of its op '%s'",
                      b->spec->function->name.data, n->name.data, num_data > n->num_inputs ? "more" : "fewer",
                      n->num_inputs, n->op->name.data);
  }
  if (b->spec->gate != NULL && n->num_inputs + n->num_controls == 0) {
    return weft_graph_add_control(b->g, b->spec->gate, n);
  }
  return NULL;
}

/* ---- the results ---- */

/* Of equal keys the last counts. */
static weft_status_t *list_returns(body_t *b) {
  weft_wire_reader_t r = weft_wire_reader(b->spec->function->def);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) continue;
    weft_str_t key, *value = weft_arena_alloc(&b->scratch, sizeof *value);
    if (value == NULL) return no_memory(b);
    if (!weft_map_entry_read(f.bytes, &key, value)) return malformed(b);
    WEFT_RETURN_IF_ERROR(weft_map_put(&b->returns, key, value, NULL));
  }
  return NULL;
}

static weft_status_t *find_results(body_t *b) {
  const weft_op_def_t *op = b->caller.op;
  int total = b->caller.num_outputs;
  b->out.results = weft_arena_calloc(b->g->arena, (size_t)total, sizeof *b->out.results);
  if (b->out.results == NULL) return no_memory(b);
  for (int i = 0; i < op->num_outputs; i++) {
    int wanted = weft_node_arg_count(&b->caller, &op->outputs[i]);
    const weft_str_t *text = weft_map_get(&b->returns, op->outputs[i].name);
    inline_range_t r;
    if (text == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "function '%s' does not say what it returns as '%s'",
                        b->spec->function->name.data, op->outputs[i].name.data);
    }
    if (!resolve(b, *text, &r) || r.count != wanted) return unknown_name(b, "its result", *text);
    for (int k = 0; k < r.count; k++) {
      weft_output_t result = pick(&r, k);
      int given = result.node->output_types[result.index], type = b->caller.output_types[b->out.num_results];
      if (!weft_types_fit(given, type)) {
        return WEFT_ERROR(INVALID_ARGUMENT, "function '%s' returns %s as '%s', but %s is declared",
                          b->spec->function->name.data, weft_dtype_name(given), op->outputs[i].name.data,
                          weft_dtype_name(type));
      }
      b->out.results[b->out.num_results++] = result;
    }
  }
  return NULL;
}

/* Names in control_ret, and whatever has effects of its own. A variable or a placeholder alone has none. */
static weft_status_t *find_must_run(body_t *b) {
  b->out.must_run = weft_arena_calloc(b->g->arena, (size_t)b->num_nodes, sizeof(*b->out.must_run));
  if (b->out.must_run == NULL) return no_memory(b);
  for (int i = 0; i < b->num_nodes; i++) b->nodes[i].node->mark = 0;
  weft_wire_reader_t r = weft_wire_reader(b->spec->function->def);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    weft_str_t key, value;
    if (f.tag != WEFT_WIRE_TAG(6, WEFT_WIRE_BYTES)) continue;
    if (!weft_map_entry_read(f.bytes, &key, &value)) return malformed(b);
    const body_node_t *node = weft_map_get(&b->by_name, value);
    if (node == NULL) return unknown_name(b, "its control result", value);
    node->node->mark = 1;
  }
  for (int i = 0; i < b->num_nodes; i++) {
    weft_node_t *n = b->nodes[i].node;
    bool has_effect =
        (n->flags & WEFT_OP_STATEFUL) != 0 && (n->flags & (WEFT_OP_VARIABLE | WEFT_OP_PLACEHOLDER)) == 0;
    if (n->mark != 0 || has_effect) b->out.must_run[b->out.num_must_run++] = n;
  }
  return NULL;
}

static weft_status_t *list_body(body_t *b) {
  b->out.body = weft_arena_calloc(b->g->arena, (size_t)b->num_nodes, sizeof(*b->out.body));
  if (b->out.body == NULL) return no_memory(b);
  for (int i = 0; i < b->num_nodes; i++) b->out.body[b->out.num_body++] = b->nodes[i].node;
  return NULL;
}

/* Each name of the body has the caller's in front: before that is written, is there room? */
static weft_status_t *take_name_bytes(body_t *b) {
  size_t *left = b->spec->name_bytes, bytes = 0;
  if (left == NULL) return NULL;
  if (!weft_mul_size(b->spec->prefix.length, (size_t)b->num_nodes, &bytes) || bytes > *left) {
    return WEFT_ERROR(
        RESOURCE_EXHAUSTED,
        "unfolding function '%s' needs too much memory for names: %d nodes, each of whose names begins "
        "with the %zu bytes of '%.100s...'",
        b->spec->function->name.data, b->num_nodes, b->spec->prefix.length, b->spec->prefix.data);
  }
  *left -= bytes;
  return NULL;
}

static weft_status_t *run(body_t *b) {
  WEFT_RETURN_IF_ERROR(bind_attrs(b));
  WEFT_RETURN_IF_ERROR(check_args(b));
  WEFT_RETURN_IF_ERROR(list_nodes(b));
  WEFT_RETURN_IF_ERROR(take_name_bytes(b));
  for (int i = 0; i < b->num_nodes; i++) WEFT_RETURN_IF_ERROR(make_node(b, &b->nodes[i]));
  for (int i = 0; i < b->num_nodes; i++) WEFT_RETURN_IF_ERROR(connect(b, &b->nodes[i]));
  WEFT_RETURN_IF_ERROR(list_returns(b));
  WEFT_RETURN_IF_ERROR(find_results(b));
  WEFT_RETURN_IF_ERROR(find_must_run(b));
  return list_body(b);
}

weft_status_t *weft_inline(weft_graph_t *g, const weft_inline_spec_t *spec, weft_inlined_t *out) {
  body_t b = {.g = g, .spec = spec};
  weft_status_t *s = run(&b);
  if (s == NULL) *out = b.out;
  weft_attrs_release_tensors(b.caller.attrs, b.caller.num_attrs);
  weft_map_deinit(&b.by_name);
  weft_map_deinit(&b.returns);
  weft_arena_deinit(&b.scratch);
  return s;
}
