/* strategies/data_source.c - a walk up from a data set, through the functions that it calls.
 *
 * What is not known to be harmless is an obstacle: a stateful op that is no data set, a handle of anything
 * but a data set's own seeds and cache, a seed that is not in the graph.
 */
#include "strategies/data_source.h"

#include "base/alloc.h"
#include "base/hash_map.h"
#include "graph/function.h"
#include "protos/wire.h"

/* Field numbers of the message Options (tensorflow/core/framework/dataset_options.proto). */
enum { OPTIONS_DETERMINISTIC = 1, OPTIONS_DISTRIBUTE = 2, DISTRIBUTE_AUTO_SHARD_POLICY = 1 };

typedef struct source_walk {
  const weft_graph_t *g; /* its library has the functions */
  weft_arena_t *arena;   /* of texts */
  weft_map_t functions;  /* names of those looked at */
  weft_data_source_t *out;
} source_walk_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a look at a pipeline"); }

static weft_status_t *say(source_walk_t *w, weft_str_t *reason, const weft_node_t *n, const char *what) {
  if (reason->length > 0) return NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "'%.*s' (%.*s) %s", WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), what);
  *reason = b.failed ? WEFT_STR("") : weft_arena_str(w->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return reason->length > 0 ? NULL : no_memory();
}

static weft_status_t *say_fixed(source_walk_t *w, const weft_node_t *n, const char *what) {
  return say(w, &w->out->fixed, n, what);
}

static weft_status_t *say_varies(source_walk_t *w, const weft_node_t *n, const char *what) {
  return say(w, &w->out->varies, n, what);
}

/* ---- one node ---- */

static bool names(weft_str_t name, const char *word) {
  const size_t length = strlen(word);
  for (size_t i = 0; i + length <= name.length; i++) {
    if (memcmp(name.data + i, word, length) == 0) return true;
  }
  return false;
}

static bool is_dataset(const weft_node_t *n) {
  return n->num_outputs == 1 && n->output_types[0] == WEFT_VARIANT && names(n->op->name, "Dataset");
}

/* The input of an argument that is one tensor, behind a list of others perhaps; -1: there is none. */
static int input_named(const weft_node_t *n, const char *arg) {
  bool is_behind = false;
  for (int i = 0; i < n->op->num_inputs; i++) {
    const weft_arg_def_t *a = &n->op->inputs[i];
    if (weft_str_is(a->name, arg)) return is_behind ? n->num_inputs - (n->op->num_inputs - i) : i;
    is_behind = is_behind || a->kind == WEFT_ARG_TYPE_LIST || a->kind == WEFT_ARG_REPEATED;
  }
  return -1;
}

/* The constant that an argument is given; NULL: there is no such argument, or no constant. */
static const weft_tensor_t *constant_in(const weft_node_t *n, const char *arg) {
  const int i = input_named(n, arg);
  const weft_node_t *from = i < 0 ? NULL : n->inputs[i].node;
  const weft_attr_t *value =
      from == NULL || (from->flags & WEFT_OP_CONST) == 0 ? NULL : weft_node_attr(from, "value");
  return value != NULL && value->kind == WEFT_ATTR_TENSOR ? value->tensor : NULL;
}

static bool is_nonzero(const weft_tensor_t *t) {
  return t != NULL && t->dtype == WEFT_I64 && t->count == 1 && *(const int64_t *)t->data != 0;
}

static weft_status_t *look_at_seeds(source_walk_t *w, const weft_node_t *n) {
  if (input_named(n, "seed2") < 0) return NULL;
  if (is_nonzero(constant_in(n, "seed")) || is_nonzero(constant_in(n, "seed2"))) return NULL;
  return say_varies(w, n, "has no seed");
}

static weft_status_t *look_at_order(source_walk_t *w, const weft_node_t *n) {
  const weft_tensor_t *sloppy = constant_in(n, "sloppy");
  const bool takes_sloppy = input_named(n, "sloppy") >= 0;
  const bool is_kept =
      sloppy != NULL && sloppy->dtype == WEFT_BOOL && sloppy->count == 1 && *(const bool *)sloppy->data == 0;
  if (weft_str_is(weft_node_attr_string(n, "deterministic"), "false") ||
      weft_node_attr_bool(n, "sloppy", false) || (takes_sloppy && !is_kept))
    return say_varies(w, n, "leaves the order open");
  return NULL;
}

/* Sets *policy where the options say one. */
static weft_status_t *look_at_options(source_walk_t *w, const weft_node_t *n, bool *has_policy,
                                      int64_t *policy) {
  weft_wire_reader_t r = weft_wire_reader(weft_node_attr_string(n, "serialized_options"));
  bool is_deterministic = true;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(OPTIONS_DETERMINISTIC, WEFT_WIRE_VARINT)) is_deterministic = f.value != 0;
    if (f.tag != WEFT_WIRE_TAG(OPTIONS_DISTRIBUTE, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t inner = weft_wire_reader(f.bytes);
    for (weft_wire_field_t p; weft_wire_next(&inner, &p);) {
      if (p.tag != WEFT_WIRE_TAG(DISTRIBUTE_AUTO_SHARD_POLICY, WEFT_WIRE_VARINT)) continue;
      *policy = weft_wire_i64(p.value);
      *has_policy = true;
    }
  }
  return is_deterministic ? NULL : say_varies(w, n, "leaves the order open");
}

static bool writes_files(const weft_node_t *n) {
  const weft_tensor_t *file = constant_in(n, "filename");
  if (names(n->op->name, "SaveDataset") || names(n->op->name, "Snapshot")) return true;
  return names(n->op->name, "CacheDataset") && (file == NULL || file->dtype != WEFT_STRING ||
                                                file->count != 1 || weft_tensor_str_at(file, 0).length > 0);
}

/* A data set's own seeds and cache: copied with it. */
static bool is_own(const weft_node_t *n) {
  return names(n->op->name, "SeedGenerator") || names(n->op->name, "MemoryCache");
}

static bool takes_handle(const weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_output_t from = n->inputs[i];
    const int type = from.node->output_types[from.index];
    if ((type == WEFT_RESOURCE || weft_dtype_is_ref(type)) && !is_own(from.node)) return true;
  }
  return false;
}

static weft_status_t *look_at_function(source_walk_t *w, const weft_node_t *n, const weft_func_attr_t *f);

static weft_status_t *look_at_functions(source_walk_t *w, const weft_node_t *n) {
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n->num_attrs; i++) {
    const weft_attr_t *a = &n->attrs[i].value;
    if (a->kind != WEFT_ATTR_FUNC) continue;
    if (!a->is_list) s = look_at_function(w, n, a->func);
    for (int k = 0; s == NULL && a->is_list && k < a->n; k++) s = look_at_function(w, n, a->list.funcs[k]);
  }
  return s;
}

static weft_status_t *look_at(source_walk_t *w, const weft_node_t *n) {
  bool has_policy = false;
  int64_t policy = 0;
  WEFT_RETURN_IF_ERROR(look_at_seeds(w, n));
  WEFT_RETURN_IF_ERROR(look_at_order(w, n));
  WEFT_RETURN_IF_ERROR(look_at_functions(w, n));
  if (weft_str_is(n->op->name, "OptionsDataset"))
    WEFT_RETURN_IF_ERROR(look_at_options(w, n, &has_policy, &policy));
  if (takes_handle(n)) return say_fixed(w, n, "uses something that is in one place");
  if (writes_files(n)) return say_fixed(w, n, "writes files");
  if (is_dataset(n) || is_own(n) || (n->flags & (WEFT_OP_STATEFUL | WEFT_OP_EFFECT)) == 0) return NULL;
  if ((n->flags & (WEFT_OP_PLACEHOLDER | WEFT_OP_ARG | WEFT_OP_RETVAL | WEFT_OP_NOOP)) != 0) return NULL;
  if (weft_str_is(n->op->name, "Assert")) return NULL;
  if (weft_node_attr(n, "seed") != NULL) return say_varies(w, n, "draws random numbers in a function");
  return say_fixed(w, n, "has a state of its own");
}

/* ---- graphs ---- */

static weft_status_t *look_at_function(source_walk_t *w, const weft_node_t *n, const weft_func_attr_t *f) {
  weft_graph_t *g = NULL;
  if (weft_map_get(&w->functions, f->name) != NULL) return NULL;
  const weft_str_t name = weft_arena_str(w->arena, f->name);
  if (name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_map_put(&w->functions, name, w, NULL));
  weft_status_t *s = weft_function_graph(w->g->library, f, &g);
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  if (s != NULL) { /* the step will say what is wrong with it */
    weft_status_free(s);
    return say_fixed(w, n, "calls a function that cannot be read");
  }
  for (int id = 0; s == NULL && id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) s = look_at(w, g->nodes[id]);
  }
  weft_graph_destroy(g);
  return s;
}

/* All that `from` is made of. */
static weft_status_t *look_up(source_walk_t *w, const weft_graph_t *g, weft_node_t *from) {
  size_t n = 0;
  bool *seen = weft_calloc((size_t)g->num_nodes + 1, sizeof *seen);
  weft_node_t **stack = weft_calloc((size_t)g->num_nodes + 1, sizeof(*stack));
  weft_status_t *s = seen == NULL || stack == NULL ? no_memory() : NULL;
  if (s == NULL) {
    stack[n++] = from;
    seen[from->id] = true;
  }
  while (s == NULL && n > 0) {
    const weft_node_t *at = stack[--n];
    s = look_at(w, at);
    for (int i = 0; i < at->num_inputs + at->num_controls; i++) {
      weft_node_t *p = i < at->num_inputs ? at->inputs[i].node : at->controls[i - at->num_inputs];
      if (seen[p->id]) continue;
      seen[p->id] = true;
      stack[n++] = p;
    }
  }
  weft_free(seen);
  weft_free(stack);
  return s;
}

/* Down from the outermost data set: the first word counts. */
static weft_status_t *find_policy(source_walk_t *w, const weft_graph_t *g, weft_output_t of) {
  const weft_node_t *n = of.node;
  for (int i = 0; i < g->num_nodes && n->num_inputs > 0; i++, n = n->inputs[0].node) { /* it may be a loop */
    bool has_policy = false;
    if (weft_str_is(n->op->name, "OptionsDataset"))
      WEFT_RETURN_IF_ERROR(look_at_options(w, n, &has_policy, &w->out->policy));
    if (has_policy) return NULL;
  }
  return NULL;
}

static weft_status_t *walk(source_walk_t *w, const weft_graph_t *g, weft_output_t of) {
  WEFT_RETURN_IF_ERROR(find_policy(w, g, of));
  return look_up(w, g, of.node);
}

weft_status_t *weft_data_source_of_dataset(const weft_graph_t *g, weft_output_t of, weft_arena_t *arena,
                                           weft_data_source_t *out) {
  source_walk_t w = {.g = g, .arena = arena, .functions = WEFT_MAP_INIT, .out = out};
  *out = (weft_data_source_t){.policy = WEFT_SHARD_AUTO, .fixed = WEFT_STR(""), .varies = WEFT_STR("")};
  weft_status_t *s = walk(&w, g, of);
  weft_map_deinit(&w.functions);
  return s;
}

weft_status_t *weft_data_source_of_function(const weft_graph_t *g, const weft_func_attr_t *function,
                                            weft_arena_t *arena, weft_data_source_t *out) {
  source_walk_t w = {.g = g, .arena = arena, .functions = WEFT_MAP_INIT, .out = out};
  weft_graph_t *body = NULL;
  *out = (weft_data_source_t){.policy = WEFT_SHARD_AUTO, .fixed = WEFT_STR(""), .varies = WEFT_STR("")};
  WEFT_RETURN_IF_ERROR(weft_function_graph(g->library, function, &body));
  weft_status_t *s = NULL;
  for (int id = 0; s == NULL && id < body->num_nodes; id++) {
    weft_node_t *n = body->nodes[id];
    if (n != NULL && (n->flags & WEFT_OP_RETVAL) != 0) s = walk(&w, body, n->inputs[0]);
  }
  weft_graph_destroy(body);
  weft_map_deinit(&w.functions);
  return s;
}
