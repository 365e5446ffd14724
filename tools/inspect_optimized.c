/* tools/inspect_optimized.c - what the passes make of a step's graph, node by node. */
#include "tools/inspect_optimized.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

#include "base/alloc.h"
#include "device/device.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "graph/passes/optimize.h"
#include "kernels/evaluate.h"
#include "kernels/kernel.h"
#include "ops/chain.h"
#include "resources/resource.h"

/* One thing that a pass did to a node. */
typedef struct inspect_note {
  const char *pass, *what;
  weft_str_t other;
  struct inspect_note *next;
} inspect_note_t;

typedef struct inspect_row {
  weft_str_t name, op;
  inspect_note_t *first, **last;
} inspect_row_t;

/* The step's graph, or that of a function which a kernel calls. */
typedef struct inspect_graph {
  weft_str_t function; /* empty: it is the step's */
  weft_map_t by_name;  /* of rows */
  inspect_row_t *rows; /* of the graph as it was, in topological order */
  int num_rows;
  weft_graph_t *g; /* owned; optimised in the end */
  struct inspect_graph *next;
} inspect_graph_t;

typedef struct inspect_optimized {
  weft_arena_t arena;
  weft_pass_settings_t settings;
  const weft_evaluator_t *evaluator;
  inspect_graph_t *first, **last;
  inspect_graph_t *at_hand;
  weft_map_t functions; /* those that are listed: a serialized AttrValue -> anything */
  bool failed;          /* memory ran out */
} inspect_optimized_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("looking at a graph"); }

static weft_status_t *list_nodes(inspect_optimized_t *t, inspect_graph_t *of) {
  weft_node_t **order = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(of->g, &order));
  of->rows = weft_arena_calloc(&t->arena, (size_t)of->g->num_live + 1, sizeof *of->rows);
  weft_status_t *s = of->rows == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < of->g->num_live; i++) {
    inspect_row_t *row = &of->rows[of->num_rows++];
    *row = (inspect_row_t){.name = weft_arena_str(&t->arena, order[i]->name), .op = order[i]->op->name};
    row->last = &row->first;
    s = row->name.data == NULL ? no_memory() : weft_map_put(&of->by_name, row->name, row, NULL);
  }
  weft_free(order);
  return s;
}

/* Consumes `g`. */
static weft_status_t *add_graph(inspect_optimized_t *t, weft_graph_t *g, weft_str_t function) {
  inspect_graph_t *of = weft_arena_calloc(&t->arena, 1, sizeof *of);
  if (of == NULL) {
    weft_graph_destroy(g);
    return no_memory();
  }
  *of = (inspect_graph_t){.function = function, .by_name = WEFT_MAP_INIT, .g = g};
  *t->last = of;
  t->last = &of->next;
  return list_nodes(t, of);
}

static void take_note(void *arg, const char *pass, const weft_node_t *n, const char *what, weft_str_t other) {
  inspect_optimized_t *t = arg;
  inspect_row_t *row = weft_map_get(&t->at_hand->by_name, n->name);
  inspect_note_t *note = row == NULL ? NULL : weft_arena_calloc(&t->arena, 1, sizeof *note);
  if (row == NULL) return; /* it was made by a pass */
  if (note == NULL) {
    t->failed = true;
    return;
  }
  *note = (inspect_note_t){.pass = pass, .what = what};
  if (other.data != NULL) note->other = weft_arena_str(&t->arena, other);
  *row->last = note;
  row->last = &note->next;
}

/* ---- the step ---- */

static weft_node_t *node_of(const weft_graph_t *g, weft_str_t tensor) {
  weft_str_t name;
  int index;
  return weft_tensor_name_parse(tensor, &name, &index) ? weft_graph_find(g, name) : NULL;
}

/* What is fed may be anything: it has no shape, and is no constant. */
static weft_status_t *make_feeds_unknown(weft_graph_t *g, const weft_names_t *feeds) {
  const weft_shape_t unknown = WEFT_UNKNOWN_SHAPE;
  const weft_attr_t shape = {.kind = WEFT_ATTR_SHAPE, .shape = &unknown};
  for (int i = 0; i < feeds->n; i++) {
    weft_node_t *n = node_of(g, feeds->items[i]);
    if (n == NULL) continue;
    if ((n->flags & WEFT_OP_PLACEHOLDER) == 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "--optimized: '%s' is fed, but is no placeholder", n->name.data);
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, "shape", &shape));
  }
  return NULL;
}

/* As a worker does it that runs the whole step on its CPU. */
static const weft_chain_limits_t *limits_of_cpu(void *arg, const weft_node_t *n) {
  static const weft_chain_limits_t limits = {INT_MAX, INT_MAX, INT_MAX};
  (void)arg;
  const int operand = n->input_types[weft_chain_main_operand(n->op, n->num_inputs)];
  return weft_kernel_may_link("CPU", n->op->name.data, operand, n->output_types[0]) ? &limits : NULL;
}

static bool may_attend_on_cpu(void *arg, const weft_node_t *n) {
  (void)arg;
  return n->output_types[0] == WEFT_F32;
}

static void note_parts(inspect_optimized_t *t, const weft_node_t *n, const char *attr) {
  const weft_attr_t *parts = weft_node_attr(n, attr);
  for (int i = 0; parts != NULL && i < parts->n; i++) {
    const weft_node_t part = {.name = parts->list.strings[i]};
    take_note(t, weft_pass_name(WEFT_PASS_FUSE), &part, "is computed in", n->name);
  }
}

static weft_status_t *fuse(inspect_optimized_t *t, weft_graph_t *g) {
  WEFT_RETURN_IF_ERROR(weft_pass_fuse_chains(g, limits_of_cpu, NULL));
  WEFT_RETURN_IF_ERROR(weft_pass_fuse_attention(g, may_attend_on_cpu, NULL));
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    const bool is_attention = n != NULL && weft_str_is(n->op->name, "_WeftAttention");
    if (is_attention) note_parts(t, n, "products");
    if (is_attention || (n != NULL && weft_str_is(n->op->name, "_WeftChain"))) note_parts(t, n, "nodes");
  }
  return NULL;
}

static weft_status_t *optimize(inspect_optimized_t *t, inspect_graph_t *of, weft_optimize_options_t *o) {
  o->settings = t->settings;
  o->evaluator = t->evaluator;
  o->note = take_note;
  o->note_arg = t;
  t->at_hand = of;
  WEFT_RETURN_IF_ERROR(weft_optimize(&of->g, o));
  return (t->settings.passes & WEFT_PASS_BIT(WEFT_PASS_FUSE)) != 0 ? fuse(t, of->g) : NULL;
}

/* A fetch is a node that reads what is fetched, as the _Send of a session: the node itself may be replaced.
 */
static weft_status_t *add_fetch(weft_graph_t *g, weft_str_t tensor, int index) {
  weft_str_t name;
  weft_output_t from = {NULL, 0};
  weft_node_t *end = NULL;
  if (weft_tensor_name_parse(tensor, &name, &from.index)) from.node = weft_graph_find(g, name);
  if (from.node == NULL || from.index >= from.node->num_outputs) return NULL;
  const weft_named_attr_t attrs[] = {
      weft_int_attr("index", index),
      weft_type_attr("T", (int)weft_dtype_base(from.node->output_types[from.index]))};
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(g, WEFT_STR("fetch")),
                                 .op = WEFT_STR("_Retval"),
                                 .inputs = &from,
                                 .num_inputs = 1,
                                 .attrs = attrs,
                                 .num_attrs = 2};
  return spec.name.data == NULL ? no_memory() : weft_graph_add(g, &spec, &end);
}

static void remove_fetches(const inspect_graph_t *of) {
  for (int id = 0; id < of->g->num_nodes; id++) {
    weft_node_t *n = of->g->nodes[id];
    const bool is_end = n != NULL && (n->flags & WEFT_OP_RETVAL) != 0;
    if (is_end && weft_map_get(&of->by_name, n->name) == NULL) weft_graph_remove(of->g, n);
  }
}

static weft_status_t *optimize_step(inspect_optimized_t *t, inspect_graph_t *of,
                                    const weft_worker_loop_t *step) {
  weft_str_t *keep = weft_calloc((size_t)step->targets.n + 1, sizeof *keep);
  weft_status_t *s = keep == NULL ? no_memory() : NULL;
  weft_optimize_options_t o = {.keep = keep};
  for (int i = 0; s == NULL && i < step->fetches.n; i++) s = add_fetch(of->g, step->fetches.items[i], i);
  for (int i = 0; s == NULL && i < step->targets.n; i++) {
    const weft_node_t *n = node_of(of->g, step->targets.items[i]);
    if (n != NULL) keep[o.num_keep++] = n->name;
  }
  if (s == NULL) s = optimize(t, of, &o);
  if (s == NULL) remove_fetches(of);
  weft_free(keep);
  return s;
}

/* ---- functions ---- */

/* Lists the function, if it is not there yet. */
static weft_status_t *add_function(inspect_optimized_t *t, const weft_graph_t *caller,
                                   const weft_func_attr_t *func) {
  const weft_attr_t value = {.kind = WEFT_ATTR_FUNC, .func = func};
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_graph_t *g = NULL;
  if (weft_function_find(caller->library, func->name) == NULL) return NULL; /* its step will say so */
  weft_status_t *s = weft_attr_to_proto(&value, &key);
  if (s == NULL && key.failed) s = no_memory();
  if (s == NULL && weft_map_get(&t->functions, weft_str_of(key.data, key.length)) == NULL) {
    const weft_str_t kept = weft_arena_str(&t->arena, weft_str_of(key.data, key.length));
    const weft_str_t name = weft_arena_str(&t->arena, func->name);
    s = kept.data == NULL || name.data == NULL ? no_memory() : weft_map_put(&t->functions, kept, t, NULL);
    if (s == NULL) s = weft_function_graph(caller->library, func, &g);
    if (s == NULL) s = add_graph(t, g, name);
  }
  weft_strbuf_deinit(&key);
  return s;
}

/* Those that kernels call: what calls functions otherwise was lowered. */
static weft_status_t *add_functions(inspect_optimized_t *t, const weft_graph_t *g) {
  weft_status_t *s = NULL;
  for (int id = 0; s == NULL && id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && n->function == NULL && i < n->num_attrs && s == NULL; i++) {
      const weft_attr_t *a = &n->attrs[i].value;
      if (a->kind != WEFT_ATTR_FUNC) continue;
      if (!a->is_list) s = add_function(t, g, a->func);
      for (int k = 0; a->is_list && k < a->n && s == NULL; k++) s = add_function(t, g, a->list.funcs[k]);
    }
  }
  return s;
}

static weft_status_t *optimize_all(inspect_optimized_t *t, const weft_worker_loop_t *step) {
  weft_status_t *s = optimize_step(t, t->first, step);
  for (inspect_graph_t *of = t->first; s == NULL && of != NULL; of = of->next) {
    weft_optimize_options_t o = {.keeps_ends = true};
    if (of != t->first) s = optimize(t, of, &o);
    if (s == NULL) s = add_functions(t, of->g);
  }
  return s == NULL && t->failed ? no_memory() : s;
}

/* Constants are computed on a CPU of one thread. */
static weft_status_t *optimize_on_cpu(inspect_optimized_t *t, const weft_worker_loop_t *step) {
  weft_thread_pool_t *pool = NULL;
  weft_resource_manager_t *resources = NULL;
  weft_device_t *cpu = NULL;
  weft_status_t *s = weft_thread_pool_create("fold", 1, &pool);
  if (s == NULL) s = weft_resource_manager_create(&resources);
  if (s == NULL)
    s = weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1, pool, resources,
                               &cpu);
  const weft_evaluator_t evaluator = {weft_evaluate_node, cpu};
  t->evaluator = &evaluator;
  if (s == NULL) s = optimize_all(t, step);
  weft_device_destroy(cpu);
  weft_thread_pool_destroy(pool);
  weft_resource_manager_destroy(resources);
  return s;
}

/* ---- what is printed ---- */

static bool is_new(const inspect_graph_t *of, const weft_node_t *n) {
  return n != NULL && weft_map_get(&of->by_name, n->name) == NULL;
}

static void print_node(weft_strbuf_t *out, weft_str_t name, weft_str_t op) {
  weft_strbuf_printf(out, "  %-48.*s %-24.*s", WEFT_STR_ARGS(name), WEFT_STR_ARGS(op));
}

static void print_graph(const inspect_graph_t *of, weft_strbuf_t *out) {
  if (of->function.length > 0) weft_strbuf_printf(out, "function %.*s: ", WEFT_STR_ARGS(of->function));
  weft_strbuf_printf(out, "%d nodes before, %d after\n", of->num_rows, of->g->num_live);
  for (int i = 0; i < of->num_rows; i++) {
    const inspect_row_t *row = &of->rows[i];
    const char *comma = " ";
    print_node(out, row->name, row->op);
    for (const inspect_note_t *n = row->first; n != NULL; n = n->next) {
      weft_strbuf_printf(out, "%s%s: %s", comma, n->pass, n->what);
      if (n->other.data != NULL) weft_strbuf_printf(out, " %.*s", WEFT_STR_ARGS(n->other));
      comma = "; ";
    }
    weft_strbuf_putc(out, '\n');
  }
  for (int id = 0; id < of->g->num_nodes; id++) {
    const weft_node_t *n = of->g->nodes[id];
    if (!is_new(of, n)) continue;
    print_node(out, n->name, n->op->name);
    weft_strbuf_puts(out, " is new\n");
  }
}

static json_t *text(weft_str_t s) { return json_stringn(s.data == NULL ? "" : s.data, s.length); }

static json_t *row_json(const inspect_graph_t *of, const inspect_row_t *row) {
  const weft_node_t *after = weft_graph_find(of->g, row->name);
  json_t *notes = json_array();
  for (const inspect_note_t *n = row->first; n != NULL; n = n->next) {
    json_t *other = n->other.data == NULL ? json_null() : text(n->other);
    json_array_append_new(notes,
                          json_pack("{s:s, s:s, s:o}", "pass", n->pass, "what", n->what, "other", other));
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "name", text(row->name), "op", text(row->op), "op_after",
                   after == NULL ? json_null() : text(after->op->name), "passes", notes);
}

static json_t *graph_json(const inspect_graph_t *of) {
  json_t *nodes = json_array(), *added = json_array();
  for (int i = 0; i < of->num_rows; i++) json_array_append_new(nodes, row_json(of, &of->rows[i]));
  for (int id = 0; id < of->g->num_nodes; id++) {
    const weft_node_t *n = of->g->nodes[id];
    if (is_new(of, n))
      json_array_append_new(added, json_pack("{s:o, s:o}", "name", text(n->name), "op", text(n->op->name)));
  }
  return json_pack("{s:i, s:i, s:o, s:o}", "nodes_before", of->num_rows, "nodes_after", of->g->num_live,
                   "nodes", nodes, "new", added);
}

static void print_json(const inspect_optimized_t *t) {
  json_t *root = graph_json(t->first), *functions = json_array();
  for (const inspect_graph_t *of = t->first->next; of != NULL; of = of->next) {
    json_t *function = graph_json(of);
    json_object_set_new(function, "name", text(of->function));
    json_array_append_new(functions, function);
  }
  json_object_set_new(root, "functions", functions);
  json_dumpf(root, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(root);
}

static weft_status_t *print(const inspect_optimized_t *t, bool json) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  if (json) {
    print_json(t);
    return NULL;
  }
  for (const inspect_graph_t *of = t->first; of != NULL; of = of->next) print_graph(of, &out);
  weft_status_t *s = out.failed ? no_memory() : NULL;
  if (s == NULL) fwrite(out.data, 1, out.length, stdout);
  weft_strbuf_deinit(&out);
  return s;
}

weft_status_t *weft_inspect_optimized(const weft_graph_t *g, const weft_worker_loop_t *step,
                                      const char *passes, bool json) {
  inspect_optimized_t t = {
      .arena = WEFT_ARENA_INIT, .settings = weft_pass_defaults(), .functions = WEFT_MAP_INIT};
  weft_graph_t *copy = NULL;
  t.last = &t.first;
  weft_status_t *s = passes == NULL ? NULL : weft_pass_settings_parse(weft_str(passes), &t.settings);
  if (s == NULL) s = weft_graph_copy(g, &copy);
  if (s == NULL) {
    s = add_graph(&t, copy, (weft_str_t){NULL, 0});
    if (s == NULL) s = make_feeds_unknown(copy, &step->feeds);
  }
  if (s == NULL) s = optimize_on_cpu(&t, step);
  if (s == NULL) s = print(&t, json);
  for (inspect_graph_t *of = t.first; of != NULL; of = of->next) {
    weft_graph_destroy(of->g);
    weft_map_deinit(&of->by_name);
  }
  weft_map_deinit(&t.functions);
  weft_arena_deinit(&t.arena);
  return s;
}
