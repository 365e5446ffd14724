/* tools/cmd_inspect.c - `weft inspect`: inputs, variables, ops and devices of a graph file; what a strategy
 * makes of it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "graph/passes/optimize.h"
#include "io/file.h"
#include "jobs/cluster_view.h"
#include "jobs/rewrite_graph.h"
#include "strategies/summary.h"
#include "strategies/traffic.h"
#include "tools/command.h"
#include "tools/drawing/drawing.h"
#include "tools/graph_summary.h"
#include "tools/inspect_model.h"
#include "tools/inspect_optimized.h"
#include "tools/model.h"
#include "tools/option_checks.h"
#include "tools/options.h"
#include "tools/strategy/names.h"

typedef struct inspect_args {
  bool json, dot, svg, html, all, details, optimized;
  const char *passes, *path, *tags, *signature, *strategy, *cluster, *save, *scope;
  weft_option_texts_t feeds, fetches, targets, inits;
  int64_t cpus, batch;
} inspect_args_t;

enum { MAX_CPUS = 1024 };

static void print_size(int64_t bytes) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_print_bytes(&text, bytes);
  fwrite(text.data, 1, text.length, stdout);
  weft_strbuf_deinit(&text);
}

static void print_tensors(const char *title, const weft_summary_tensor_t *t, int n) {
  enum { MAX_SHOWN = 100 };
  int64_t total = 0;
  if (n == 0) return;
  printf("%s (%d)\n", title, n);
  for (int i = 0; i < n; i++) {
    int64_t bytes = weft_summary_bytes(&t[i]);
    total += bytes > 0 ? bytes : 0;
    if (i >= MAX_SHOWN) continue;
    printf("  %-40.*s %-10s %-16s ", WEFT_STR_ARGS(t[i].name), weft_dtype_name(t[i].dtype),
           WEFT_SHAPE_TEXT(&t[i].shape));
    if (bytes >= 0) print_size(bytes);
    putchar('\n');
  }
  if (n > MAX_SHOWN) printf("  ... and %d more\n", n - MAX_SHOWN);
  if (total > 0) {
    printf("  in all ");
    print_size(total);
    putchar('\n');
  }
}

static void print_counts(const char *title, const weft_summary_count_t *c, int n, int64_t of) {
  enum { BAR = 30 };
  if (n == 0) return;
  printf("%s (%d)\n", title, n);
  for (int i = 0; i < n; i++) {
    printf("  %-40.*s %8" PRId64 " ", WEFT_STR_ARGS(c[i].name), c[i].count);
    for (int64_t k = 0; of > 0 && k < c[i].count * BAR / of; k++) putchar('#');
    putchar('\n');
  }
}

static void print_table(const char *path, const weft_graph_summary_t *s) {
  enum { MAX_OUTPUTS = 20 };
  printf("%s: %" PRId64 " nodes, %" PRId64 " functions, written by version %" PRId64 "\n", path, s->num_nodes,
         s->num_functions, s->producer);
  print_tensors("inputs", s->inputs, s->num_inputs);
  print_tensors("variables", s->variables, s->num_variables);
  if (s->num_outputs > 0) printf("outputs (%d): nodes without consumers\n", s->num_outputs);
  for (int i = 0; i < s->num_outputs && i < MAX_OUTPUTS; i++)
    printf("  %.*s\n", WEFT_STR_ARGS(s->outputs[i]));
  if (s->num_outputs > MAX_OUTPUTS) printf("  ... and %d more\n", s->num_outputs - MAX_OUTPUTS);
  print_counts("devices asked for", s->devices, s->num_devices, s->num_nodes);
  print_counts("ops", s->ops, s->num_ops, s->num_ops > 0 ? s->ops[0].count : 0);
  print_counts("ops not supported", s->unsupported, s->num_unsupported, 0);
  if (s->num_unsupported == 0 && s->num_ops > 0) printf("all ops are supported\n");
  if (s->num_ops == 0) printf("the graph is empty\n");
}

static json_t *text(weft_str_t s) { return json_stringn(s.data == NULL ? "" : s.data, s.length); }

static json_t *tensors_json(const weft_summary_tensor_t *t, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    json_t *shape = t[i].shape.rank < 0 ? json_null() : json_array();
    for (int k = 0; k < t[i].shape.rank; k++) json_array_append_new(shape, json_integer(t[i].shape.dims[k]));
    json_array_append_new(
        list, json_pack("{s:o, s:s, s:o, s:I}", "name", text(t[i].name), "dtype", weft_dtype_name(t[i].dtype),
                        "shape", shape, "bytes", (json_int_t)weft_summary_bytes(&t[i])));
  }
  return list;
}

static json_t *counts_json(const weft_summary_count_t *c, int n) {
  json_t *object = json_object();
  for (int i = 0; i < n; i++)
    json_object_setn_new(object, c[i].name.data, c[i].name.length, json_integer(c[i].count));
  return object;
}

static void print_json(const weft_graph_summary_t *s) {
  json_t *outputs = json_array();
  for (int i = 0; i < s->num_outputs; i++) json_array_append_new(outputs, text(s->outputs[i]));
  json_t *root = json_pack(
      "{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "nodes", (json_int_t)s->num_nodes, "functions",
      (json_int_t)s->num_functions, "producer", (json_int_t)s->producer, "inputs",
      tensors_json(s->inputs, s->num_inputs), "outputs", outputs, "variables",
      tensors_json(s->variables, s->num_variables), "ops", counts_json(s->ops, s->num_ops), "unsupported",
      counts_json(s->unsupported, s->num_unsupported), "devices", counts_json(s->devices, s->num_devices));
  json_dumpf(root, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(root);
}

/* ---- what a strategy makes of it ---- */

static json_t *names_json(const weft_names_t *names) {
  json_t *list = json_array();
  for (int i = 0; i < names->n; i++) json_array_append_new(list, text(names->items[i]));
  return list;
}

static json_t *bytes_json(int64_t bytes) { return bytes < 0 ? json_null() : json_integer(bytes); }

static json_t *flow_json(const weft_flow_t *f) {
  return json_pack("{s:I, s:f, s:I, s:i}", "bytes", (json_int_t)f->bytes, "bytes_per_row", f->row_bytes,
                   "messages", (json_int_t)f->messages, "unknown", f->num_unknown);
}

static json_t *loops_json(const weft_rewrite_t *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->num_loops; i++) {
    const weft_worker_loop_t *l = &r->loops[i];
    json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "name", text(l->name), "kind",
                                          l->kind == WEFT_WORKER_LOOP_UPDATE ? "update" : "step", "task",
                                          text(l->task), "feeds", names_json(&l->feeds), "fetches",
                                          names_json(&l->fetches), "targets", names_json(&l->targets)));
  }
  return list;
}

static json_t *crossings_json(const weft_rewrite_t *r) {
  static const char *const kinds[] = {"value", "signal", "collective"};
  json_t *list = json_array();
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:s, s:o, s:f, s:I, s:i, s:b, s:b}", "from",
                                          text(c->from), "to", text(c->to), "what", text(c->what), "kind",
                                          kinds[c->kind], "bytes", bytes_json(c->bytes), "bytes_per_row",
                                          c->row_bytes, "messages", (json_int_t)c->messages, "worker_loop",
                                          c->loop, "between_tasks", c->is_remote, "in_loop", c->is_repeated));
  }
  return list;
}

static json_t *collectives_json(const weft_rewrite_t *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->num_collectives; i++) {
    const weft_rewrite_collective_t *c = &r->collectives[i];
    json_array_append_new(
        list, json_pack("{s:s, s:o, s:i, s:o, s:f}", "kind", weft_collective_kind_name(c->op), "what",
                        text(c->what), "members", c->size, "bytes", bytes_json(c->bytes), "bytes_per_row",
                        c->row_bytes));
  }
  return list;
}

static json_t *places_json(const weft_summary_t *s) {
  json_t *list = json_array();
  for (int i = 0; i < s->num_places; i++) {
    const weft_summary_place_t *p = &s->places[i];
    json_array_append_new(
        list, json_pack("{s:o, s:i, s:i, s:I, s:o, s:o}", "name", text(p->name), "nodes", p->num_nodes,
                        "variables", p->num_variables, "variable_bytes", (json_int_t)p->variable_bytes, "in",
                        flow_json(&p->in), "out", flow_json(&p->out)));
  }
  return list;
}

/* {"dense/MatMul:0": "Shard(0)", ...}. */
static json_t *shardings_json(const weft_rewrite_t *r) {
  json_t *all = json_object();
  for (int i = 0; i < r->num_shardings; i++) {
    weft_strbuf_t s = WEFT_STRBUF_INIT;
    weft_axis_sharding_print(&r->shardings[i].data, &s);
    if (!s.failed) json_object_set_new(all, r->shardings[i].value.data, text(weft_str_of(s.data, s.length)));
    weft_strbuf_deinit(&s);
  }
  return all;
}

static weft_status_t *print_rewrite_json(const weft_rewrite_t *r) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_summary_t sum;
  weft_status_t *s = weft_rewrite_summarize(r, &arena, &sum);
  if (s == NULL) {
    json_t *notes = json_array();
    for (int i = 0; i < r->num_notes; i++) json_array_append_new(notes, text(r->notes[i]));
    json_t *root =
        json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "strategy", r->strategy->name, "nodes",
                  (json_int_t)r->graph->num_live, "inits", names_json(&r->inits), "worker_loops",
                  loops_json(r), "replicas", names_json(&r->replicas), "batch", names_json(&r->shared),
                  "collectives", collectives_json(r), "crossings", crossings_json(r));
    json_object_set_new(root, "variables",
                        json_pack("{s:i, s:I, s:b}", "count", sum.num_variables, "bytes",
                                  (json_int_t)sum.variable_bytes, "copied", sum.is_copied));
    json_object_set_new(root, sum.is_by_task ? "tasks" : "devices", places_json(&sum));
    json_object_set_new(root, "sent", flow_json(&sum.all));
    json_object_set_new(root, "shardings", shardings_json(r));
    json_object_set_new(root, "notes", notes);
    json_object_set_new(root, "cost",
                        json_pack("{s:f, s:I, s:f, s:I, s:I, s:i}", "seconds", r->cost.seconds, "bytes",
                                  (json_int_t)r->cost.bytes, "bytes_per_row", r->cost.row_bytes, "messages",
                                  (json_int_t)r->cost.messages, "bytes_per_replica",
                                  (json_int_t)r->cost.bytes_per_replica, "unknown", r->cost.num_unknown));
    json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(root);
  }
  weft_arena_deinit(&arena);
  return s;
}

static bool is_drawn(const inspect_args_t *a) { return a->dot || a->svg || a->html; }
static bool shows_step(const inspect_args_t *a) { return is_drawn(a) || a->optimized; }

/* What stands in a drawing's title. */
static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static weft_status_t *draw(const inspect_args_t *a, const weft_rewrite_t *r, weft_strbuf_t *out) {
  weft_drawing_t *d = NULL;
  weft_strbuf_t what = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&what, file_name(a->path));
  if (a->strategy != NULL) weft_strbuf_printf(&what, " under %s", a->strategy);
  weft_status_t *s = what.failed ? WEFT_NO_MEMORY("a title") : weft_drawing_create(r, what.data, a->all, &d);
  if (s == NULL && a->dot) s = weft_drawing_dot(d, a->scope, out);
  if (s == NULL && a->svg) s = weft_drawing_svg(d, a->scope, out);
  if (s == NULL && a->html) s = weft_drawing_html(d, out);
  weft_drawing_destroy(d);
  weft_strbuf_deinit(&what);
  return s;
}

static weft_status_t *save(const inspect_args_t *a, const weft_graph_t *g) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_file_writer_t *file = NULL;
  weft_status_t *s = weft_graph_export(g, true, &bytes);
  if (s == NULL) s = weft_file_writer_create(a->save, &file);
  if (s == NULL) s = weft_file_writer_append(file, bytes.data, bytes.length);
  if (s == NULL) {
    s = weft_file_writer_finish(file);
    file = NULL;
  }
  weft_file_writer_abandon(file);
  weft_strbuf_deinit(&bytes);
  return s == NULL ? NULL : weft_status_annotate(s, "--save %s", a->save);
}

static weft_status_t *show_rewrite(const inspect_args_t *a, const weft_rewrite_t *r) {
  weft_strbuf_t shown = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (a->save != NULL) s = save(a, r->graph);
  if (s == NULL && a->json) {
    s = print_rewrite_json(r);
  } else if (s == NULL) {
    s = is_drawn(a) ? draw(a, r, &shown) : weft_strategy_explain(r, &shown);
    if (s == NULL && a->details) s = weft_strategy_print_details(r, &shown);
    if (s == NULL) fwrite(shown.data, 1, shown.length, stdout);
  }
  weft_strbuf_deinit(&shown);
  return s;
}

/* A graph with unknown ops cannot be rewritten: names all of them, where the import named the first. */
static weft_status_t *name_unknown_ops(weft_str_t def, weft_status_t *s) {
  weft_graph_summary_t summary = {.arena = WEFT_ARENA_INIT};
  if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_status_t *looked = weft_graph_summarize(def, &summary);
  if (looked == NULL && summary.num_unsupported > 0) {
    weft_status_free(s);
    const bool is_one = summary.num_unsupported == 1;
    s = WEFT_ERROR(NOT_FOUND, "%d op%s of the graph %s not supported: %.*s%s", summary.num_unsupported,
                   is_one ? "" : "s", is_one ? "is" : "are", WEFT_STR_ARGS(summary.unsupported[0].name),
                   is_one ? "" : " and others; without --strategy all are listed");
  }
  weft_status_free(looked);
  weft_graph_summary_deinit(&summary);
  return s;
}

/* Names that fill a list one after the other. */
typedef struct inspect_names {
  weft_str_t *items; /* room for all */
  int n;
} inspect_names_t;

/* The texts up to their first '=' (as of `weft submit --feed NAME=VALUE`). What the signature knows gets the
 * graph's name; without texts, all that it knows is taken if `takes_all`. */
static weft_names_t names_of(inspect_names_t *to, const weft_option_texts_t *texts,
                             const weft_signature_tensor_t *known, int num_known, bool takes_all) {
  weft_names_t names = {to->items + to->n, 0};
  weft_str_t rest;
  for (int i = 0; i < texts->n; i++) {
    weft_str_t text = weft_str(texts->items[i]), *name = &to->items[to->n++];
    if (!weft_str_split(text, '=', name, &rest)) *name = text;
    for (int k = 0; k < num_known; k++) {
      if (weft_str_eq(known[k].key, *name)) *name = known[k].tensor;
    }
  }
  for (int i = 0; takes_all && i < num_known; i++) to->items[to->n++] = known[i].tensor;
  names.n = (int)(to->items + to->n - names.items);
  return names;
}

/* What a strategy is asked for: what the command line says; else all of the signature, and what the model
 * starts with. */
static void fill_request(const inspect_args_t *a, const weft_model_t *model, inspect_names_t *to,
                         weft_strategy_request_t *out) {
  static const weft_signature_def_t none;
  const weft_signature_def_t *s = model->signature == NULL ? &none : model->signature;
  bool has_results = a->fetches.n + a->targets.n > 0;
  out->feeds = names_of(to, &a->feeds, s->inputs, s->num_inputs, a->feeds.n == 0);
  out->fetches = names_of(to, &a->fetches, s->outputs, s->num_outputs, !has_results);
  out->targets = names_of(to, &a->targets, s->ops, s->num_ops, true);
  int first = to->n;
  if (model->start.restores) to->items[to->n++] = model->start.restore_op;
  if (model->start.init_op.length > 0) to->items[to->n++] = model->start.init_op;
  names_of(to, &a->inits, NULL, 0, false);
  out->inits = (weft_names_t){to->items + first, to->n - first};
}

static weft_status_t *inspect_strategy(const inspect_args_t *a, const weft_model_t *model, weft_str_t def) {
  enum { MOST_STARTS = 2 };
  weft_job_view_t view;
  weft_rewrite_t rewrite = {.arena = WEFT_ARENA_INIT};
  int n = a->feeds.n + a->fetches.n + a->targets.n + a->inits.n + MOST_STARTS;
  if (model->signature != NULL)
    n += model->signature->num_inputs + model->signature->num_outputs + model->signature->num_ops;
  inspect_names_t names = {weft_calloc((size_t)n, sizeof *names.items), 0};
  if (names.items == NULL) return WEFT_NO_MEMORY("names");
  weft_strategy_request_t request = {.cluster = &view.cluster};
  fill_request(a, model, &names, &request);
  weft_job_view_init(&view);
  weft_status_t *s = a->cluster == NULL ? weft_job_view_local(&view, MAX_CPUS)
                                        : weft_job_view_parse(&view, weft_str(a->cluster), (int)a->cpus);
  if (s == NULL) {
    s = a->strategy == NULL ? weft_job_keep(def, &request, a->all, &rewrite)
                            : weft_job_rewrite(def, a->strategy, &request, false, &rewrite);
  }
  if (s != NULL) s = name_unknown_ops(def, s);
  if (s == NULL && a->optimized) {
    for (int i = 0; s == NULL && i < rewrite.num_loops; i++)
      s = weft_inspect_optimized(rewrite.graph, &rewrite.loops[i], a->passes, a->json);
    goto done;
  }
  if (s == NULL) s = weft_rewrite_measure(&rewrite, &view.cluster, a->batch > 0 ? a->batch : WEFT_ROWS_ANY);
  if (a->strategy == NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT) { /* shapes that do not fit */
    weft_status_free(s);
    s = weft_rewrite_measure(&rewrite, &view.cluster, WEFT_ROWS_UNKNOWN);
  }
  if (s == NULL) s = show_rewrite(a, &rewrite);
done:
  weft_rewrite_deinit(&rewrite);
  weft_job_view_deinit(&view);
  weft_free(names.items);
  return s;
}

/* ---- the graph as it is ---- */

static weft_status_t *inspect_file(const inspect_args_t *a, weft_str_t def) {
  weft_graph_summary_t summary = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_graph_summarize(def, &summary);
  if (s == NULL && a->json) print_json(&summary);
  if (s == NULL && !a->json) print_table(a->path, &summary);
  weft_graph_summary_deinit(&summary);
  return s;
}

/* What a step is, where the command line does not say: that of a training file; of a drawn SavedModel the
 * signature that serves, or the first. */
static void choose_default(const inspect_args_t *a, weft_model_t *model) {
  weft_model_choose_default(model);
  if (model->signature != NULL || model->meta == NULL || !shows_step(a) || a->fetches.n > 0 || a->all) return;
  const weft_meta_graph_t *m = model->meta;
  model->signature = weft_meta_graph_signature(m, WEFT_STR("serving_default"));
  for (int i = 0; i < m->num_signatures && model->signature == NULL; i++) {
    if (!weft_str_starts_with(m->signatures[i].key, "__")) model->signature = &m->signatures[i];
  }
}

static weft_status_t *inspect_graph(const inspect_args_t *a) {
  weft_model_t model;
  weft_status_t *s = weft_model_open(a->path, a->tags, &model);
  if (s == NULL && a->signature != NULL) s = weft_model_choose(&model, a->signature);
  if (s == NULL && a->signature == NULL && a->targets.n + a->inits.n == 0) choose_default(a, &model);
  if (s == NULL && (a->strategy != NULL || shows_step(a))) {
    weft_str_t def;
    s = weft_model_bound_graph(&model, &def);
    if (s == NULL) s = inspect_strategy(a, &model, def);
  } else if (s == NULL && model.folder == NULL && model.meta != NULL) {
    s = weft_inspect_meta_graph(a->path, model.meta, a->json);
  } else if (s == NULL) {
    s = inspect_file(a, model.graph_def);
  }
  weft_model_close(&model);
  return s;
}

/* A SavedModel as a whole; one of its graphs if that is asked for. */
static weft_status_t *inspect(const inspect_args_t *a) {
  bool is_graph = a->tags != NULL || a->strategy != NULL || shows_step(a);
  if (is_graph || !weft_saved_model_is_at(a->path)) return inspect_graph(a);
  weft_saved_model_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_model_open(a->path, &m));
  weft_status_t *s = weft_inspect_saved_model(m, a->json);
  weft_saved_model_close(m);
  return s;
}

/* The strategies, for help. */
static void list_strategies(weft_strbuf_t *out) {
  weft_strbuf_puts(out, "Strategies:\n");
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    weft_strbuf_printf(out, "\n  %s: %s\n", weft_strategies[i]->name, weft_strategies[i]->about);
    weft_str_t line, rest = weft_str(weft_strategies[i]->usage);
    while (weft_str_split(rest, '\n', &line, &rest))
      weft_strbuf_printf(out, "    %.*s\n", WEFT_STR_ARGS(line));
    if (rest.length > 0) weft_strbuf_printf(out, "    %.*s\n", WEFT_STR_ARGS(rest));
  }
}

static void list_passes(weft_strbuf_t *out) {
  weft_strbuf_puts(out, "\nPasses of graph optimisation, in their order:\n\n");
  for (int i = 0; i < WEFT_NUM_PASSES; i++)
    weft_strbuf_printf(out, "  %s: %s\n", weft_pass_name(i), weft_pass_what(i));
}

static int complain(const weft_command_line_t *line, const inspect_args_t *a) {
  if (a->json + a->dot + a->svg + a->html > 1)
    return weft_options_complain(line, "give one of --json, --dot, --svg and --html");
  if (a->scope != NULL && !a->dot && !a->svg)
    return weft_options_complain(line, "--scope goes with --dot or --svg");
  if (a->all && !is_drawn(a)) return weft_options_complain(line, "--all goes with --dot, --svg or --html");
  bool has_names = a->feeds.n + a->fetches.n + a->targets.n + a->inits.n > 0;
  if (a->strategy == NULL && (a->cluster != NULL || a->save != NULL || a->details))
    return weft_options_complain(line, "--cluster, --save and --details go with --strategy");
  if (a->strategy == NULL && !shows_step(a) && (a->signature != NULL || has_names))
    return weft_options_complain(
        line, "--signature and names of nodes go with --strategy, --optimized or a drawing");
  if (a->optimized && (is_drawn(a) || a->details || a->save != NULL))
    return weft_options_complain(line, "--optimized goes with --json, or alone");
  if (a->passes != NULL && !a->optimized)
    return weft_options_complain(line, "--passes goes with --optimized");
  return 0;
}

static const char ABOUT[] =
    "Says what is in a graph file: inputs, outputs, variables with sizes, ops, which of them are not "
    "supported, "
    "devices asked for; what is in a SavedModel (its folder) or a meta graph: tags, signatures, assets, "
    "variables; "
    "or what a strategy makes of it. Draws what a step runs.";
static const char EXAMPLES[] =
    "  weft inspect graph.pbtxt\n  weft inspect model_dir\n  weft inspect graph.pb --json\n"
    "  weft inspect model.pb --svg >model.svg\n"
    "  weft inspect graph.pb --optimized --target train --fetch loss\n"
    "  weft inspect graph.pb --html --target train --fetch loss >graph.html\n"
    "  weft inspect graph.pb --strategy mirrored:4 --target train --fetch loss\n"
    "  weft inspect model_dir --strategy mirrored:4 --signature train\n"
    "  weft inspect graph.pb --strategy parameter_server:mode=sync --cluster ps=1,worker=2 --svg >map.svg\n";

int weft_command_inspect(int argc, char **argv) {
  inspect_args_t a = {.cpus = 1};
  weft_strbuf_t more = WEFT_STRBUF_INIT, strategies = WEFT_STRBUF_INIT;
  int code = 0;
  weft_strategy_names(&strategies);
  const weft_option_t options[] = {
      {"dot", NULL, "The drawing of --svg in Graphviz's language, for it to lay out", .flag = &a.dot},
      {"svg", NULL,
       "Draw what a step runs: its layers, in reading order, at most 1600 x 1000 pixels; with --strategy: by "
       "task, with the bytes that cross",
       .flag = &a.svg},
      {"html", NULL, "The same as a page to open level by level, down to single nodes; it needs no network",
       .flag = &a.html},
      {"scope", "PREFIX", "Draw the inside of one scope", .text = &a.scope},
      {"all", NULL, "Draw all nodes of the file: initialisers, savers and what other steps run, too",
       .flag = &a.all},
      {"json", NULL, "One object for machines", .flag = &a.json},
      {"optimized", NULL, "Say of every node of a step what optimisation makes of it, and by which pass",
       .flag = &a.optimized},
      {"passes", "LIST", "With --optimized: the passes, as of `weft submit --passes`", .text = &a.passes,
       .check = weft_check_passes},
      {"tags", "TAG,TAG", "Of a SavedModel, the nodes of the graph with these tags instead", .text = &a.tags},
      {"details", NULL, "With --strategy: also every collective, and every value that is sent",
       .flag = &a.details},
      {"strategy", "NAME:OPTIONS",
       "Explain the graph that this strategy makes: placement, communication, cost per step",
       .text = &a.strategy, .words = strategies.data, .check = weft_check_strategy},
      {"signature", "NAME",
       "Of a SavedModel: its inputs are fed, its outputs fetched, unless others are named",
       .text = &a.signature},
      {"cluster", "JOB=TASKS,...",
       "The cluster it is for, as ps=1,worker=2 or with addresses (default: one process)", .text = &a.cluster,
       .check = weft_check_sizes},
      {"cpus", "N", "CPU devices of each of its tasks (default 1)", .number = &a.cpus, .min = 1,
       .max = MAX_CPUS},
      {"batch", "N", "Rows of a batch, for what depends on them (default: bytes per row)", .number = &a.batch,
       .min = 1, .max = INT64_MAX},
      {"feed", "NAME", "Is fed at each step (default: all placeholders). May be repeated", .texts = &a.feeds},
      {"fetch", "NAME", "Is fetched. May be repeated", .texts = &a.fetches},
      {"target", "NODE", "Is run at each step (default: all nodes without consumers). May be repeated",
       .texts = &a.targets},
      {"init", "NODE", "Is run before. May be repeated", .texts = &a.inits},
      {"save", "FILE.pb", "Write the rewritten graph", .text = &a.save, .kind = WEFT_VALUE_FILE},
  };
  list_strategies(&more);
  list_passes(&more);
  const weft_command_line_t line = {
      .command = "weft inspect",
      .about = ABOUT,
      .more = more.data,
      .examples = EXAMPLES,
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "GRAPH",
      .argument = &a.path,
      .argument_is_missing = "which GRAPH? give a .pb or .pbtxt file, or the folder of a SavedModel",
      .argument_kind = WEFT_VALUE_FILE,
  };
  if (weft_options_read(&line, argc, argv, &code)) {
    code = complain(&line, &a);
    if (code == 0) code = weft_command_flush(weft_command_fail(inspect(&a)));
  }
  weft_texts_deinit(&a.feeds);
  weft_texts_deinit(&a.fetches);
  weft_texts_deinit(&a.targets);
  weft_texts_deinit(&a.inits);
  weft_strbuf_deinit(&more);
  weft_strbuf_deinit(&strategies);
  return code;
}
