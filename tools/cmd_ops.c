/* tools/cmd_ops.c - `weft ops`: what is supported, where, for which types, how well verified, and what is
 * not. */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/isa.h"
#include "kernels/kernel.h"
#include "kernels/loaded/library.h"
#include "tools/command.h"
#include "tools/graph_summary.h"
#include "tools/model.h"
#include "tools/op_support.h"
#include "tools/options.h"

typedef struct ops_args {
  bool json, absent, markdown;
  const char *filter, *graph;
} ops_args_t;

static bool is_in(weft_dtype_set_t types, int d) {
  return weft_dtype_is_valid(d) && (types == 0 || (types & WEFT_DTYPE_BIT(d)) != 0);
}

/* "any", or the names of the types. */
static void print_types(weft_dtype_set_t types, weft_strbuf_t *out) {
  const weft_dtype_set_t usual = WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_STRING);
  const char *space = "";
  if (types == 0 || (types & usual) == usual) {
    weft_strbuf_puts(out, "any");
    return;
  }
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    if (!is_in(types, d)) continue;
    weft_strbuf_printf(out, "%s%s", space, weft_dtype_name(d));
    space = " ";
  }
}

static void print_devices(uint64_t devices, weft_strbuf_t *out) {
  const char *space = "";
  if (devices == 0) weft_strbuf_puts(out, "rewritten");
  for (int i = 0; i < 64; i++) {
    if ((devices >> i & 1) == 0) continue;
    weft_strbuf_printf(out, "%s%s", space, weft_kernel_table_at(i)->device_type);
    space = " ";
  }
}

static void print_verified(const weft_verified_t *v, weft_strbuf_t *out) {
  if (v == NULL) {
    weft_strbuf_putc(out, '-');
  } else if (v->suite != NULL) {
    weft_strbuf_puts(out, v->suite);
  } else {
    weft_strbuf_printf(out, "%d/%d/%d", v->values, v->gradients, v->shapes);
  }
}

/* ---- the ops that are asked for ---- */

typedef struct op_row {
  const weft_op_def_t *op;
  weft_op_support_t support;
} op_row_t;

static bool is_wanted(const ops_args_t *a, const op_row_t *row, bool is_there) {
  return row->support.is_there == is_there &&
         (a->filter == NULL || strcasestr(row->op->name.data, a->filter) != NULL);
}

static int by_reason(const void *a, const void *b) {
  const op_row_t *x = a, *y = b;
  int order = strcmp(x->support.absent, y->support.absent);
  return order != 0 ? order : weft_str_compare(x->op->name, y->op->name);
}

/* Those that are there in alphabetical order, or those that are not by reason. The caller frees *out. */
static weft_status_t *collect(const ops_args_t *a, bool is_there, op_row_t **out, int *out_n) {
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  op_row_t *rows = weft_calloc((size_t)n + 1, sizeof *rows);
  if (rows == NULL) return WEFT_NO_MEMORY("a list of ops");
  *out_n = 0;
  for (int i = 0; i < n; i++) {
    rows[*out_n] = (op_row_t){ops[i], weft_op_support(ops[i])};
    *out_n += is_wanted(a, &rows[*out_n], is_there);
  }
  if (!is_there) qsort(rows, (size_t)*out_n, sizeof *rows, by_reason);
  *out = rows;
  return NULL;
}

/* ---- as JSON ---- */

static json_t *row_json(const op_row_t *row) {
  const weft_op_support_t *s = &row->support;
  if (!s->is_there) return json_pack("{s:s, s:s}", "name", row->op->name.data, "absent", s->absent);
  json_t *devices = json_array(), *dtypes = json_array(), *verified = json_null();
  for (int i = 0; i < 64; i++) {
    if ((s->devices >> i & 1) != 0)
      json_array_append_new(devices, json_string(weft_kernel_table_at(i)->device_type));
  }
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    if (is_in(s->types, d)) json_array_append_new(dtypes, json_string(weft_dtype_name(d)));
  }
  if (s->verified != NULL && s->verified->suite != NULL) {
    verified = json_string(s->verified->suite);
  } else if (s->verified != NULL) {
    verified = json_pack("{s:i, s:i, s:i}", "values", s->verified->values, "gradients",
                         s->verified->gradients, "shapes", s->verified->shapes);
  }
  return json_pack("{s:s, s:o, s:o, s:b, s:o}", "name", row->op->name.data, "devices", devices, "dtypes",
                   dtypes, "gradient", strcmp(s->gradient, "yes") == 0, "verified", verified);
}

static void print_json(const op_row_t *rows, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, row_json(&rows[i]));
  json_dumpf(list, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(list);
}

/* ---- for people ---- */

static void print_row(const op_row_t *row, bool is_markdown) {
  weft_strbuf_t devices = WEFT_STRBUF_INIT, types = WEFT_STRBUF_INIT, verified = WEFT_STRBUF_INIT;
  print_devices(row->support.devices, &devices);
  print_types(row->support.types, &types);
  print_verified(row->support.verified, &verified);
  if (!devices.failed && !types.failed && !verified.failed) {
    const char *name = row->op->name.data, *gradient = row->support.gradient;
    if (is_markdown) {
      printf("| %s | %s | %s | %s | %s |\n", name, devices.data, gradient, verified.data, types.data);
    } else {
      printf("%-40s %-9s %-9s %-12s %s\n", name, devices.data, gradient, verified.data, types.data);
    }
  }
  weft_strbuf_deinit(&devices);
  weft_strbuf_deinit(&types);
  weft_strbuf_deinit(&verified);
}

static void print_there(const op_row_t *rows, int n) {
  printf("%-40s %-9s %-9s %-12s %s\n", "op", "devices", "gradient", "verified", "dtypes");
  for (int i = 0; i < n; i++) print_row(&rows[i], false);
  printf("%d ops; verified: random cases whose values / gradients / inferred shapes are TensorFlow's\n", n);
  printf("the CPU's kernels are those for %s\n", weft_isa_name(weft_isa()));
}

static void print_absent(const op_row_t *rows, int n) {
  for (int i = 0; i < n; i++) printf("%-40s %s\n", rows[i].op->name.data, rows[i].support.absent);
  printf("%d ops are not there\n", n);
}

/* A paragraph for each reason. */
static void print_reasons(const op_row_t *rows, int n) {
  for (int i = 0, end; i < n; i = end) {
    const char *reason = rows[i].support.absent;
    for (end = i; end < n && strcmp(rows[end].support.absent, reason) == 0;) end++;
    printf("\n**%s** (%d):\n", reason, end - i);
    for (int k = i; k < end; k++) printf("%s%s", rows[k].op->name.data, k + 1 < end ? ", " : "\n");
  }
}

/* All of docs/ops.md. */
static void print_markdown(const op_row_t *there, int num_there, const op_row_t *absent, int num_absent) {
  printf(
      "# Ops\n\n"
      "Made by `weft ops --markdown`; `weft ops` prints the same, `weft ops --missing GRAPH` says what a "
      "graph lacks.\n\n"
      "%d ops are there. Verified: of how many random cases the values (or the error), the gradients and the "
      "inferred\n"
      "shapes are TensorFlow's (`tests/conformance/test_properties.py`), or which conformance test states "
      "what the op does.\n"
      "Gradient: yes, none (declared not differentiable), or - (asking for one is an error).\n\n"
      "| op | devices | gradient | verified | dtypes |\n| --- | --- | --- | --- | --- |\n",
      num_there);
  for (int i = 0; i < num_there; i++) print_row(&there[i], true);
  printf(
      "\n## Not there, and why\n\n%d ops that TensorFlow registers have no kernel here. A graph may hold "
      "them; a step that "
      "needs one fails.\n",
      num_absent);
  print_reasons(absent, num_absent);
}

static weft_status_t *list_ops(const ops_args_t *a) {
  op_row_t *rows = NULL, *others = NULL;
  int n = 0, num_others = 0;
  weft_status_t *s = collect(a, !a->absent, &rows, &n);
  if (s == NULL && a->markdown) s = collect(a, a->absent, &others, &num_others);
  if (s == NULL && n == 0) {
    s = WEFT_ERROR(NOT_FOUND, "no %s op has '%s' in its name; `weft ops` lists them all",
                   a->absent ? "missing" : "supported", a->filter);
  } else if (s == NULL && a->markdown) {
    print_markdown(rows, n, others, num_others);
  } else if (s == NULL && a->json) {
    print_json(rows, n);
  } else if (s == NULL) {
    (a->absent ? print_absent : print_there)(rows, n);
  }
  weft_free(rows);
  weft_free(others);
  return s;
}

/* ---- of a graph ---- */

static const char *reason_of(weft_str_t name) {
  const weft_op_def_t *op = weft_op_find(name);
  return op == NULL ? "TensorFlow registers no such op" : weft_op_support(op).absent;
}

/* Returns the exit code: 0 if nothing is missing, 1 else. */
static int print_missing(const weft_graph_summary_t *s, const ops_args_t *a) {
  json_t *list = json_array();
  for (int i = 0; i < s->num_unsupported; i++) {
    const weft_summary_count_t *c = &s->unsupported[i];
    if (a->json) {
      json_array_append_new(list, json_pack("{s:s%, s:I, s:s}", "name", c->name.data, c->name.length, "nodes",
                                            (json_int_t)c->count, "absent", reason_of(c->name)));
    } else {
      printf("%-40.*s %6lld %s\n", WEFT_STR_ARGS(c->name), (long long)c->count, reason_of(c->name));
    }
  }
  if (a->json) {
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
  } else if (s->num_unsupported == 0) {
    printf("all ops are supported\n");
  } else {
    printf("%d ops are not supported: a step that needs a node of them fails, others run\n",
           s->num_unsupported);
  }
  json_decref(list);
  return s->num_unsupported == 0 ? 0 : 1;
}

static weft_status_t *find_missing(const ops_args_t *a, int *code) {
  weft_model_t model;
  weft_graph_summary_t summary = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_model_open(a->graph, NULL, &model);
  if (s == NULL) s = weft_graph_summarize(model.graph_def, &summary);
  if (s == NULL) *code = print_missing(&summary, a);
  weft_graph_summary_deinit(&summary);
  weft_model_close(&model);
  return s;
}

int weft_command_ops(int argc, char **argv) {
  ops_args_t a = {0};
  int code = 0;
  const weft_option_t options[] = {
      {"missing", "GRAPH",
       "Which ops of this graph file or SavedModel have no kernel, and why; the exit code is 1 if there are "
       "any",
       .text = &a.graph, .kind = WEFT_VALUE_FILE},
      {"absent", NULL, "The ops of TensorFlow that have no kernel, and why", .flag = &a.absent},
      {"json", NULL, "A list of objects: name, devices, dtypes, gradient, verified; or name, nodes, absent",
       .flag = &a.json},
      {"markdown", NULL, "docs/ops.md", .flag = &a.markdown},
  };
  const weft_command_line_t line = {
      .command = "weft ops",
      .about =
          "Lists the ops that graphs may use: on which devices, whether they can be differentiated, in how "
          "many "
          "random cases they agree with TensorFlow, and for which dtypes. Devices are the CPU and those of "
          "the device libraries that are found. "
          "With NAME only those with NAME in their name.",
      .examples =
          "  weft ops\n  weft ops conv\n  weft ops --json\n  weft ops --missing model.pb\n"
          "  weft ops --absent Xla\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "NAME",
      .argument = &a.filter,
  };
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  if (a.graph != NULL && (a.absent || a.markdown || a.filter != NULL))
    return weft_options_complain(&line, "--missing GRAPH goes with --json, or alone");
  if (a.json && a.markdown) return weft_options_complain(&line, "give one of --json and --markdown");
  if (!a.markdown) weft_device_libraries_load(); /* docs/ops.md is of this machine's CPU alone */
  weft_status_t *s = a.graph != NULL ? find_missing(&a, &code) : list_ops(&a);
  return s != NULL ? weft_command_fail(s) : weft_command_flush(code);
}
