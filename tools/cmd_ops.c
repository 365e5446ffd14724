/* tools/cmd_ops.c - `weft ops`: what is supported, where, for which types. */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"
#include "tools/command.h"
#include "tools/options.h"

typedef struct ops_args {
  bool json;
  const char *filter;
} ops_args_t;

/* Ops that are rewritten before a graph runs need no kernel. */
static bool is_supported(const weft_op_def_t *op, weft_dtype_set_t *types) {
  *types = 0;
  if ((op->flags & WEFT_OP_INTERNAL) != 0) return false;
  return weft_kernel_exists("CPU", op->name, types) || (op->flags & WEFT_OP_FUNCTIONAL) != 0;
}

static bool has_gradient(const weft_op_def_t *op) {
  return op->gradient != NULL && op->gradient != weft_grad_none;
}

static bool is_in(weft_dtype_set_t types, int d) {
  return weft_dtype_is_valid(d) && (types == 0 || (types & WEFT_DTYPE_BIT(d)) != 0);
}

static int print_json(const weft_op_def_t *const *ops, int n, const char *filter) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    weft_dtype_set_t types;
    if (!is_supported(ops[i], &types) || (filter != NULL && strcasestr(ops[i]->name.data, filter) == NULL))
      continue;
    json_t *dtypes = json_array();
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
      if (is_in(types, d)) json_array_append_new(dtypes, json_string(weft_dtype_name(d)));
    }
    json_array_append_new(list, json_pack("{s:s, s:[s], s:o, s:b}", "name", ops[i]->name.data, "devices",
                                          "CPU", "dtypes", dtypes, "gradient", has_gradient(ops[i])));
  }
  int count = (int)json_array_size(list);
  json_dumpf(list, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(list);
  return count;
}

static int print_table(const weft_op_def_t *const *ops, int n, const char *filter) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    weft_dtype_set_t types;
    if (!is_supported(ops[i], &types) || (filter != NULL && strcasestr(ops[i]->name.data, filter) == NULL))
      continue;
    if (count++ == 0) printf("%-40s %-8s %-9s %s\n", "op", "devices", "gradient", "dtypes");
    printf("%-40s %-8s %-9s", ops[i]->name.data, "CPU", has_gradient(ops[i]) ? "yes" : "-");
    bool any = types == 0 || (types & (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_STRING))) ==
                                 (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_STRING));
    if (any) printf(" any");
    for (int d = 1; d < WEFT_DTYPE_COUNT && !any; d++) {
      if (is_in(types, d)) printf(" %s", weft_dtype_name(d));
    }
    putchar('\n');
  }
  if (count > 0) printf("%d ops\n", count);
  return count;
}

int weft_command_ops(int argc, char **argv) {
  ops_args_t a = {0};
  int n = 0, code;
  const weft_option_t options[] = {
      {"json", NULL, "A list of objects: name, devices, dtypes, gradient", .flag = &a.json},
  };
  const weft_command_line_t line = {
      .command = "weft ops",
      .about =
          "Lists the ops that graphs may use: on which devices, for which dtypes, and whether they can be "
          "differentiated. "
          "With NAME only those with NAME in their name.",
      .examples = "  weft ops\n  weft ops conv\n  weft ops --json\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "NAME",
      .argument = &a.filter,
  };
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  int count = a.json ? print_json(ops, n, a.filter) : print_table(ops, n, a.filter);
  if (count == 0) {
    return weft_command_fail(
        WEFT_ERROR(NOT_FOUND, "no supported op has '%s' in its name; `weft ops` lists them all", a.filter));
  }
  return weft_command_flush(0);
}
