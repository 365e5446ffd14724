/* master/debug_watch.c - reads DebugOptions and puts Copy and debug nodes behind what they name.
 *
 * The graph's edges are listed once, before anything is added; each watched output then gets its nodes, and
 * its consumers' inputs are turned to the Copy.
 */
#include "master/debug_watch.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "protos/wire.h"

/* Fields of DebugOptions and DebugTensorWatch. */
enum {
  OPTIONS_WATCHES = 4,
  WATCH_NODE = 1,
  WATCH_SLOT = 2,
  WATCH_OPS = 3,
  WATCH_URLS = 4,
  WATCH_TOLERATES = 5,
};

typedef struct watch {
  weft_str_t node; /* "*": every node that no other watch names */
  int slot;
  const weft_str_t *ops, *urls;
  int num_ops, num_urls;
  bool tolerates_failures;
} watch_t;

typedef struct watching {
  weft_graph_t *g;
  const weft_kernel_support_t *kernels;
  weft_arena_t arena;
  weft_map_t by_tensor; /* "node:slot" -> watch_t */
  watch_t *every;       /* NULL: none */
  weft_fanout_t fanout; /* of the graph as it was */
} watching_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("watching values"); }

/* ---- reading ---- */

static weft_status_t *append(weft_arena_t *arena, const weft_str_t **list, int *n, weft_str_t text) {
  weft_str_t *more = weft_arena_calloc(arena, (size_t)*n + 1, sizeof *more);
  if (more == NULL) return no_memory();
  if (*n > 0) memcpy(more, *list, (size_t)*n * sizeof *more);
  more[*n] = text;
  *list = more;
  (*n)++;
  return NULL;
}

static weft_status_t *check_url(weft_str_t url) {
  static const char scheme[] = "file://";
  size_t n = sizeof scheme - 1;
  if (url.length >= n && memcmp(url.data, scheme, n) == 0) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "watched values are dumped to URLs of file:// alone, not to %.*s",
                    WEFT_STR_ARGS(url));
}

static weft_status_t *read_watch(weft_str_t bytes, weft_arena_t *arena, watch_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_status_t *s = NULL;
  while (s == NULL && weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(WATCH_NODE, WEFT_WIRE_BYTES): out->node = f.bytes; break;
      case WEFT_WIRE_TAG(WATCH_SLOT, WEFT_WIRE_VARINT): out->slot = weft_wire_i32(f.value); break;
      case WEFT_WIRE_TAG(WATCH_OPS, WEFT_WIRE_BYTES):
        s = append(arena, &out->ops, &out->num_ops, f.bytes);
        break;
      case WEFT_WIRE_TAG(WATCH_URLS, WEFT_WIRE_BYTES):
        s = append(arena, &out->urls, &out->num_urls, f.bytes);
        break;
      case WEFT_WIRE_TAG(WATCH_TOLERATES, WEFT_WIRE_VARINT): out->tolerates_failures = f.value != 0; break;
      default: break;
    }
  }
  if (s == NULL && r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Unparseable DebugTensorWatch proto");
  for (int i = 0; s == NULL && i < out->num_urls; i++) s = check_url(out->urls[i]);
  return s;
}

/* The text "node:slot", in the arena. */
static weft_status_t *tensor_text(weft_arena_t *arena, weft_str_t node, int slot, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%.*s:%d", WEFT_STR_ARGS(node), slot);
  *out = weft_arena_str(arena, weft_str_of(text.data, text.length));
  bool failed = text.failed || out->data == NULL;
  weft_strbuf_deinit(&text);
  return failed ? no_memory() : NULL;
}

/* A slot below 0 asks for no value. Of two watches of one output the second counts. */
static weft_status_t *add_watch(watching_t *w, weft_str_t bytes) {
  watch_t *watch = weft_arena_calloc(&w->arena, 1, sizeof *watch);
  weft_str_t tensor;
  if (watch == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(read_watch(bytes, &w->arena, watch));
  if (watch->slot < 0 || watch->num_ops == 0) return NULL;
  if (weft_str_is(watch->node, "*")) {
    w->every = watch;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(tensor_text(&w->arena, watch->node, watch->slot, &tensor));
  weft_map_remove(&w->by_tensor, tensor);
  return weft_map_put(&w->by_tensor, tensor, watch, NULL);
}

static weft_status_t *read_options(watching_t *w, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(OPTIONS_WATCHES, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(add_watch(w, f.bytes));
  }
  return r.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Unparseable DebugOptions proto") : NULL;
}

/* ---- debug ops: "Name" or "Name(attribute=value;attribute=value)" ---- */

enum { MAX_OWN_ATTRS = 8, FIXED_ATTRS = 3 };

static weft_status_t *bad_op(weft_str_t text) {
  return WEFT_ERROR(FAILED_PRECONDITION, "Malformed attributes in debug op name \"%.*s\"",
                    WEFT_STR_ARGS(text));
}

static weft_str_t trimmed(weft_str_t s) {
  while (s.length > 0 && s.data[0] == ' ') s = weft_str_of(s.data + 1, s.length - 1);
  while (s.length > 0 && s.data[s.length - 1] == ' ') s.length--;
  return s;
}

static bool read_float(weft_str_t value, float *out) {
  char text[64], *end = text;
  if (value.length == 0 || value.length >= sizeof text) return false;
  memcpy(text, value.data, value.length);
  text[value.length] = '\0';
  *out = strtof(text, &end);
  return *end == '\0';
}

static weft_status_t *read_value(const weft_attr_def_t *def, weft_str_t text, weft_str_t value,
                                 weft_attr_t *out) {
  *out = (weft_attr_t){.kind = def->kind};
  switch (def->kind) {
    case WEFT_ATTR_STRING: out->s = value; return NULL;
    case WEFT_ATTR_INT: return weft_str_to_i64(value, &out->i) ? NULL : bad_op(text);
    case WEFT_ATTR_FLOAT: return read_float(value, &out->f) ? NULL : bad_op(text);
    case WEFT_ATTR_BOOL:
      out->b = weft_str_is(value, "1") || weft_str_is(value, "true") || weft_str_is(value, "True");
      return out->b || weft_str_is(value, "0") || weft_str_is(value, "false") || weft_str_is(value, "False")
                 ? NULL
                 : bad_op(text);
    default: return bad_op(text);
  }
}

static weft_str_t cut_at(weft_str_t *rest, char mark, bool *found) {
  const char *at = rest->length == 0 ? NULL : memchr(rest->data, mark, rest->length);
  *found = at != NULL;
  size_t n = at == NULL ? rest->length : (size_t)(at - rest->data);
  weft_str_t part = weft_str_of(rest->data, n);
  size_t used = n + (at == NULL ? 0 : 1);
  *rest = weft_str_of(rest->data + used, rest->length - used);
  return part;
}

/* *name: of the op; attrs: its own attributes, *n of them. */
static weft_status_t *read_debug_op(weft_str_t text, weft_str_t *name, weft_named_attr_t *attrs, int *n) {
  weft_str_t rest = text;
  bool has_attrs = false, more = false, has_value = false;
  *name = cut_at(&rest, '(', &has_attrs);
  *n = 0;
  const weft_op_def_t *op = weft_op_find(*name);
  if (op == NULL || weft_op_attr(op, WEFT_STR("debug_urls")) == NULL) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "Failed to create node definition for debug op %.*s: there is no such op",
                      WEFT_STR_ARGS(*name));
  }
  if (!has_attrs) return NULL;
  if (rest.length == 0 || rest.data[rest.length - 1] != ')') return bad_op(text);
  rest.length--;
  for (more = true; more;) {
    weft_str_t pair = cut_at(&rest, ';', &more);
    weft_str_t key = trimmed(cut_at(&pair, '=', &has_value)), value = trimmed(pair);
    const weft_attr_def_t *def = weft_op_attr(op, key);
    if (!has_value || *n == MAX_OWN_ATTRS) return bad_op(text);
    if (def == NULL || def->is_list) {
      return WEFT_ERROR(FAILED_PRECONDITION, "debug op \"%.*s\" has no attribute \"%.*s\"",
                        WEFT_STR_ARGS(*name), WEFT_STR_ARGS(key));
    }
    attrs[*n].name = key;
    WEFT_RETURN_IF_ERROR(read_value(def, text, value, &attrs[(*n)++].value));
  }
  return NULL;
}

/* ---- adding nodes ---- */

/* `name` is consumed. The node is on the device of `beside`. */
static weft_status_t *add_node(watching_t *w, weft_node_spec_t *spec, weft_strbuf_t *name,
                               const weft_node_t *beside, weft_node_t **out) {
  spec->name = weft_str_of(name->data, name->length);
  spec->device = beside->requested_device;
  weft_status_t *s = name->failed ? no_memory() : weft_graph_add(w->g, spec, out);
  weft_strbuf_deinit(name);
  if (s == NULL) (*out)->assigned_device = beside->assigned_device;
  return s;
}

static weft_attr_t texts_attr(const weft_str_t *texts, int n) {
  weft_attr_t a = {.kind = WEFT_ATTR_STRING, .is_list = true, .n = n};
  a.list.strings = texts;
  return a;
}

/* The node of one debug op behind `copy`; *out NULL: it could not be, which the watch tolerates. */
static weft_status_t *add_debug_node(watching_t *w, const watch_t *watch, int number, weft_str_t tensor,
                                     weft_node_t *copy, weft_node_t **out) {
  weft_named_attr_t attrs[MAX_OWN_ATTRS + FIXED_ATTRS];
  weft_str_t name;
  int n = 0;
  weft_output_t input = {copy, 0};
  *out = NULL;
  weft_status_t *s = read_debug_op(watch->ops[number], &name, attrs, &n);
  attrs[n++] = weft_text_attr("tensor_name", tensor);
  attrs[n++] = weft_text_attr("device_name", copy->assigned_device);
  attrs[n++] = (weft_named_attr_t){WEFT_STR("debug_urls"), texts_attr(watch->urls, watch->num_urls)};
  weft_node_spec_t spec = {.op = name, .inputs = &input, .num_inputs = 1, .attrs = attrs, .num_attrs = n};
  if (s == NULL) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "__dbg_%.*s_%d_%.*s", WEFT_STR_ARGS(tensor), number, WEFT_STR_ARGS(name));
    s = add_node(w, &spec, &text, copy, out);
  }
  if (s == NULL && w->kernels != NULL && w->kernels->types(*out) == 0) {
    weft_graph_remove(w->g, *out);
    *out = NULL;
    s = WEFT_ERROR(FAILED_PRECONDITION,
                   "Failed to find kernel definition for debug op %.*s on watched tensor %.*s",
                   WEFT_STR_ARGS(name), WEFT_STR_ARGS(tensor));
  }
  if (s == NULL || !watch->tolerates_failures || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s);
  return NULL;
}

static weft_status_t *add_copy(watching_t *w, weft_output_t from, weft_str_t tensor, weft_node_t **out) {
  weft_named_attr_t name = weft_text_attr("tensor_name", tensor);
  weft_node_spec_t spec = {
      .op = WEFT_STR("Copy"), .inputs = &from, .num_inputs = 1, .attrs = &name, .num_attrs = 1};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "__copy_%.*s_%d", WEFT_STR_ARGS(from.node->name), from.index);
  return add_node(w, &spec, &text, from.node, out);
}

/* `control` runs before every consumer of the output, but not behind an Enter. */
static weft_status_t *order(watching_t *w, weft_output_t from, weft_node_t *control) {
  if ((from.node->flags & WEFT_OP_ENTER) != 0) return NULL; /* a Merge would wait for it in every round */
  for (int i = w->fanout.begin[from.node->id]; i < w->fanout.begin[from.node->id + 1]; i++) {
    const weft_fanout_edge_t *e = &w->fanout.edges[i];
    if (e->output == from.index) WEFT_RETURN_IF_ERROR(weft_graph_add_control(w->g, control, e->to));
  }
  return NULL;
}

static weft_status_t *watch_output(watching_t *w, weft_output_t from) {
  weft_str_t tensor;
  weft_node_t *copy = NULL, *debug = NULL;
  bool is_consumed = false;
  for (int i = w->fanout.begin[from.node->id]; i < w->fanout.begin[from.node->id + 1]; i++) {
    is_consumed = is_consumed || w->fanout.edges[i].output == from.index;
  }
  if (!is_consumed) return NULL;
  WEFT_RETURN_IF_ERROR(tensor_text(&w->arena, from.node->name, from.index, &tensor));
  const watch_t *watch = weft_map_get(&w->by_tensor, tensor);
  if (watch == NULL) watch = w->every;
  if (watch == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(add_copy(w, from, tensor, &copy));
  for (int i = w->fanout.begin[from.node->id]; i < w->fanout.begin[from.node->id + 1]; i++) {
    const weft_fanout_edge_t *e = &w->fanout.edges[i];
    if (e->output != from.index || weft_dtype_is_ref(e->to->input_types[e->input])) continue;
    weft_graph_set_input(e->to, e->input, (weft_output_t){copy, 0});
  }
  for (int i = 0; i < watch->num_ops; i++) {
    WEFT_RETURN_IF_ERROR(add_debug_node(w, watch, i, tensor, copy, &debug));
    if (debug != NULL) WEFT_RETURN_IF_ERROR(order(w, from, debug));
  }
  return NULL;
}

weft_status_t *weft_debug_watch_insert(weft_graph_t *g, weft_str_t debug_options,
                                       const weft_kernel_support_t *kernels) {
  if (debug_options.length == 0) return NULL;
  watching_t w = {.g = g, .kernels = kernels, .arena = WEFT_ARENA_INIT, .by_tensor = WEFT_MAP_INIT};
  weft_status_t *s = read_options(&w, debug_options);
  bool watches = w.every != NULL || w.by_tensor.count > 0;
  if (s == NULL && watches) s = weft_fanout_build(g, &w.fanout);
  int num_nodes = watches && s == NULL ? g->num_nodes : 0;
  for (int id = 0; s == NULL && id < num_nodes; id++) {
    weft_node_t *n = g->nodes[id];
    if (n != NULL && (n->flags & WEFT_OP_NEXT_ITERATION) != 0) continue; /* a loop's first round has none */
    for (int i = 0; s == NULL && n != NULL && i < n->num_outputs; i++)
      s = watch_output(&w, (weft_output_t){n, i});
  }
  weft_fanout_deinit(&w.fanout);
  weft_map_deinit(&w.by_tensor);
  weft_arena_deinit(&w.arena);
  return s;
}
