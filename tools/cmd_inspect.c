/* tools/cmd_inspect.c - `weft inspect`: inputs, variables, ops and devices of a graph file. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "tools/command.h"
#include "tools/graph_file.h"
#include "tools/graph_summary.h"
#include "tools/options.h"

typedef struct inspect_args {
  bool json, dot;
  const char *path;
} inspect_args_t;

static void print_size(int64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)bytes;
  int unit = 0;
  while (value >= 1000 && unit < 4) {
    value /= 1000;
    unit++;
  }
  printf(unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
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
    printf("  %-40.*s %-10s %-16s ", WEFT_STR_ARGS(t[i].name), weft_dtype_name(t[i].dtype), WEFT_SHAPE_TEXT(&t[i].shape));
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
  printf("%s: %" PRId64 " nodes, %" PRId64 " functions, written by version %" PRId64 "\n", path, s->num_nodes, s->num_functions, s->producer);
  print_tensors("inputs", s->inputs, s->num_inputs);
  print_tensors("variables", s->variables, s->num_variables);
  if (s->num_outputs > 0) printf("outputs (%d): nodes that nobody consumes\n", s->num_outputs);
  for (int i = 0; i < s->num_outputs && i < MAX_OUTPUTS; i++) printf("  %.*s\n", WEFT_STR_ARGS(s->outputs[i]));
  if (s->num_outputs > MAX_OUTPUTS) printf("  ... and %d more\n", s->num_outputs - MAX_OUTPUTS);
  print_counts("devices asked for", s->devices, s->num_devices, s->num_nodes);
  print_counts("ops", s->ops, s->num_ops, s->num_ops > 0 ? s->ops[0].count : 0);
  print_counts("ops not supported", s->unsupported, s->num_unsupported, 0);
  if (s->num_unsupported == 0 && s->num_ops > 0) printf("all ops are supported\n");
  if (s->num_ops == 0) printf("the graph is empty\n");
}

static json_t *text(weft_str_t s) { return json_stringn(s.data, s.length); }

static json_t *tensors_json(const weft_summary_tensor_t *t, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    json_t *shape = t[i].shape.rank < 0 ? json_null() : json_array();
    for (int k = 0; k < t[i].shape.rank; k++) json_array_append_new(shape, json_integer(t[i].shape.dims[k]));
    json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I}", "name", text(t[i].name), "dtype", weft_dtype_name(t[i].dtype), "shape",
                                          shape, "bytes", (json_int_t)weft_summary_bytes(&t[i])));
  }
  return list;
}

static json_t *counts_json(const weft_summary_count_t *c, int n) {
  json_t *object = json_object();
  for (int i = 0; i < n; i++) json_object_setn_new(object, c[i].name.data, c[i].name.length, json_integer(c[i].count));
  return object;
}

static void print_json(const weft_graph_summary_t *s) {
  json_t *outputs = json_array();
  for (int i = 0; i < s->num_outputs; i++) json_array_append_new(outputs, text(s->outputs[i]));
  json_t *root = json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "nodes", (json_int_t)s->num_nodes, "functions",
                           (json_int_t)s->num_functions, "producer", (json_int_t)s->producer, "inputs",
                           tensors_json(s->inputs, s->num_inputs), "outputs", outputs, "variables",
                           tensors_json(s->variables, s->num_variables), "ops", counts_json(s->ops, s->num_ops), "unsupported",
                           counts_json(s->unsupported, s->num_unsupported), "devices", counts_json(s->devices, s->num_devices));
  json_dumpf(root, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(root);
}

static weft_status_t *inspect(const inspect_args_t *a) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT, drawing = WEFT_STRBUF_INIT;
  weft_graph_summary_t summary = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_graph_file_read(a->path, &bytes);
  weft_str_t def = weft_str_of(bytes.data == NULL ? "" : bytes.data, bytes.length);
  if (s == NULL && a->dot) {
    s = weft_graph_dot(def, &drawing);
    if (s == NULL) fwrite(drawing.data, 1, drawing.length, stdout);
  } else if (s == NULL) {
    s = weft_graph_summarize(def, &summary);
    if (s == NULL && a->json) print_json(&summary);
    if (s == NULL && !a->json) print_table(a->path, &summary);
  }
  weft_graph_summary_deinit(&summary);
  weft_strbuf_deinit(&bytes);
  weft_strbuf_deinit(&drawing);
  return s;
}

int weft_command_inspect(int argc, char **argv) {
  inspect_args_t a = {0};
  int code;
  const weft_option_t options[] = {
      {.name = "dot", .help = "A drawing for Graphviz instead", .flag = &a.dot},
      {.name = "json", .help = "One object for machines", .flag = &a.json},
  };
  const weft_command_line_t line = {
      .command = "weft inspect",
      .about = "Says what is in a graph file: inputs, outputs, variables with sizes, ops, which of them are not supported, "
               "devices asked for.",
      .examples = "  weft inspect graph.pbtxt\n  weft inspect graph.pb --json\n  weft inspect graph.pb --dot | dot -Tsvg >graph.svg\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "GRAPH",
      .argument = &a.path,
      .argument_is_missing = "which GRAPH? give a .pb or .pbtxt file",
  };
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  if (a.json && a.dot) return weft_options_complain(&line, "give --json or --dot, not both");
  return weft_command_flush(weft_command_fail(inspect(&a)));
}
