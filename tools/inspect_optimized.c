/* tools/inspect_optimized.c - what the passes make of a step's graph, node by node. */
#include "tools/inspect_optimized.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

#include "base/alloc.h"
#include "device/device.h"
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

typedef struct inspect_optimized {
  weft_arena_t arena;
  weft_map_t by_name;  /* of rows */
  inspect_row_t *rows; /* of the graph as it was, in topological order */
  int num_rows;
  bool failed; /* memory ran out */
  const weft_graph_t *after;
} inspect_optimized_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("looking at a graph"); }

static weft_status_t *list_nodes(inspect_optimized_t *t, const weft_graph_t *g) {
  weft_node_t **order = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &order));
  t->rows = weft_arena_calloc(&t->arena, (size_t)g->num_live + 1, sizeof *t->rows);
  weft_status_t *s = t->rows == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < g->num_live; i++) {
    inspect_row_t *row = &t->rows[t->num_rows++];
    *row = (inspect_row_t){.name = weft_arena_str(&t->arena, order[i]->name), .op = order[i]->op->name};
    row->last = &row->first;
    s = row->name.data == NULL ? no_memory() : weft_map_put(&t->by_name, row->name, row, NULL);
  }
  weft_free(order);
  return s;
}

static void take_note(void *arg, const char *pass, const weft_node_t *n, const char *what, weft_str_t other) {
  inspect_optimized_t *t = arg;
  inspect_row_t *row = weft_map_get(&t->by_name, n->name);
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

static weft_status_t *optimize(inspect_optimized_t *t, weft_graph_t **g, const weft_worker_loop_t *step,
                               const char *passes, const weft_evaluator_t *evaluator) {
  const int num = step->fetches.n + step->targets.n;
  weft_str_t *keep = weft_calloc((size_t)num + 1, sizeof *keep);
  if (keep == NULL) return no_memory();
  weft_optimize_options_t o = {.settings = weft_pass_defaults(),
                               .keep = keep,
                               .evaluator = evaluator,
                               .note = take_note,
                               .note_arg = t};
  for (int i = 0; i < num; i++) {
    const weft_str_t name =
        i < step->fetches.n ? step->fetches.items[i] : step->targets.items[i - step->fetches.n];
    const weft_node_t *n = node_of(*g, name);
    if (n != NULL) keep[o.num_keep++] = n->name;
  }
  weft_status_t *s = passes == NULL ? NULL : weft_pass_settings_parse(weft_str(passes), &o.settings);
  if (s == NULL) s = weft_optimize(g, &o);
  if (s == NULL && (o.settings.passes & WEFT_PASS_BIT(WEFT_PASS_FUSE)) != 0) s = fuse(t, *g);
  weft_free(keep);
  return s == NULL && t->failed ? no_memory() : s;
}

/* Constants are computed on a CPU of one thread. */
static weft_status_t *optimize_on_cpu(inspect_optimized_t *t, weft_graph_t **g,
                                      const weft_worker_loop_t *step, const char *passes) {
  weft_thread_pool_t *pool = NULL;
  weft_resource_manager_t *resources = NULL;
  weft_device_t *cpu = NULL;
  weft_status_t *s = weft_thread_pool_create("fold", 1, &pool);
  if (s == NULL) s = weft_resource_manager_create(&resources);
  if (s == NULL)
    s = weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1, pool, resources,
                               &cpu);
  const weft_evaluator_t evaluator = {weft_evaluate_node, cpu};
  if (s == NULL) s = optimize(t, g, step, passes, &evaluator);
  weft_device_destroy(cpu);
  weft_thread_pool_destroy(pool);
  weft_resource_manager_destroy(resources);
  return s;
}

/* ---- what is printed ---- */

static bool is_new(const inspect_optimized_t *t, const weft_node_t *n) {
  return n != NULL && weft_map_get(&t->by_name, n->name) == NULL;
}

static void print_node(weft_strbuf_t *out, weft_str_t name, weft_str_t op) {
  weft_strbuf_printf(out, "  %-48.*s %-24.*s", WEFT_STR_ARGS(name), WEFT_STR_ARGS(op));
}

static void print_text(const inspect_optimized_t *t, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%d nodes before, %d after\n", t->num_rows, t->after->num_live);
  for (int i = 0; i < t->num_rows; i++) {
    const inspect_row_t *row = &t->rows[i];
    const char *comma = " ";
    print_node(out, row->name, row->op);
    for (const inspect_note_t *n = row->first; n != NULL; n = n->next) {
      weft_strbuf_printf(out, "%s%s: %s", comma, n->pass, n->what);
      if (n->other.data != NULL) weft_strbuf_printf(out, " %.*s", WEFT_STR_ARGS(n->other));
      comma = "; ";
    }
    weft_strbuf_putc(out, '\n');
  }
  for (int id = 0; id < t->after->num_nodes; id++) {
    const weft_node_t *n = t->after->nodes[id];
    if (!is_new(t, n)) continue;
    print_node(out, n->name, n->op->name);
    weft_strbuf_puts(out, " is new\n");
  }
}

static json_t *text(weft_str_t s) { return json_stringn(s.data == NULL ? "" : s.data, s.length); }

static json_t *row_json(const inspect_optimized_t *t, const inspect_row_t *row) {
  const weft_node_t *after = weft_graph_find(t->after, row->name);
  json_t *notes = json_array();
  for (const inspect_note_t *n = row->first; n != NULL; n = n->next) {
    json_t *other = n->other.data == NULL ? json_null() : text(n->other);
    json_array_append_new(notes,
                          json_pack("{s:s, s:s, s:o}", "pass", n->pass, "what", n->what, "other", other));
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "name", text(row->name), "op", text(row->op), "op_after",
                   after == NULL ? json_null() : text(after->op->name), "passes", notes);
}

static void print_json(const inspect_optimized_t *t) {
  json_t *nodes = json_array(), *added = json_array();
  for (int i = 0; i < t->num_rows; i++) json_array_append_new(nodes, row_json(t, &t->rows[i]));
  for (int id = 0; id < t->after->num_nodes; id++) {
    const weft_node_t *n = t->after->nodes[id];
    if (is_new(t, n))
      json_array_append_new(added, json_pack("{s:o, s:o}", "name", text(n->name), "op", text(n->op->name)));
  }
  json_t *root = json_pack("{s:i, s:i, s:o, s:o}", "nodes_before", t->num_rows, "nodes_after",
                           t->after->num_live, "nodes", nodes, "new", added);
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
  print_text(t, &out);
  weft_status_t *s = out.failed ? no_memory() : NULL;
  if (s == NULL) fwrite(out.data, 1, out.length, stdout);
  weft_strbuf_deinit(&out);
  return s;
}

weft_status_t *weft_inspect_optimized(const weft_graph_t *g, const weft_worker_loop_t *step,
                                      const char *passes, bool json) {
  inspect_optimized_t t = {.arena = WEFT_ARENA_INIT, .by_name = WEFT_MAP_INIT};
  weft_graph_t *copy = NULL;
  weft_status_t *s = weft_graph_copy(g, &copy);
  if (s == NULL) s = make_feeds_unknown(copy, &step->feeds);
  if (s == NULL) s = list_nodes(&t, copy);
  if (s == NULL) s = optimize_on_cpu(&t, &copy, step, passes);
  t.after = copy;
  if (s == NULL) s = print(&t, json);
  weft_graph_destroy(copy);
  weft_map_deinit(&t.by_name);
  weft_arena_deinit(&t.arena);
  return s;
}
