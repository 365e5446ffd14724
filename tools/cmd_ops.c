/* tools/cmd_ops.c - `weft ops`: what is supported, where, for which types. */
#define _GNU_SOURCE
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernel.h"
#include "tools/command.h"

typedef struct ops_args {
  bool json;
  const char *filter;
} ops_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "A list of objects: name, devices, dtypes, gradient", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  ops_args_t *a = state->input;
  switch (key) {
    case 'j': a->json = true; break;
    case ARGP_KEY_ARG:
      if (a->filter != NULL) argp_error(state, "give one NAME only");
      a->filter = arg;
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[NAME]",
    .doc = "Lists the ops that graphs may use, those with NAME in their name only if it is given.\v"
           "Examples:\n  weft ops\n  weft ops Conv\n  weft ops --json",
};

/* Ops that are rewritten before a graph runs need no kernel. */
static bool is_supported(const weft_op_def_t *op, weft_dtype_set_t *types) {
  *types = 0;
  if ((op->flags & WEFT_OP_INTERNAL) != 0) return false;
  return weft_kernel_exists("CPU", op->name, types) || (op->flags & WEFT_OP_FUNCTIONAL) != 0;
}

static bool has_gradient(const weft_op_def_t *op) { return op->gradient != NULL && op->gradient != weft_grad_none; }

static bool is_in(weft_dtype_set_t types, int d) {
  return weft_dtype_is_valid(d) && (types == 0 || (types & WEFT_DTYPE_BIT(d)) != 0);
}

static void print_json(const weft_op_def_t *const *ops, int n, const char *filter) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    weft_dtype_set_t types;
    if (!is_supported(ops[i], &types) || (filter != NULL && strcasestr(ops[i]->name.data, filter) == NULL)) continue;
    json_t *dtypes = json_array();
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
      if (is_in(types, d)) json_array_append_new(dtypes, json_string(weft_dtype_name(d)));
    }
    json_array_append_new(list, json_pack("{s:s, s:[s], s:o, s:b}", "name", ops[i]->name.data, "devices", "CPU", "dtypes",
                                          dtypes, "gradient", has_gradient(ops[i])));
  }
  json_dumpf(list, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(list);
}

static void print_table(const weft_op_def_t *const *ops, int n, const char *filter) {
  int count = 0;
  printf("%-40s %-8s %-9s %s\n", "op", "devices", "gradient", "dtypes");
  for (int i = 0; i < n; i++) {
    weft_dtype_set_t types;
    if (!is_supported(ops[i], &types) || (filter != NULL && strcasestr(ops[i]->name.data, filter) == NULL)) continue;
    count++;
    printf("%-40s %-8s %-9s", ops[i]->name.data, "CPU", has_gradient(ops[i]) ? "yes" : "-");
    bool any = types == 0 || (types & (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_STRING))) == (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_STRING));
    if (any) printf(" any");
    for (int d = 1; d < WEFT_DTYPE_COUNT && !any; d++) {
      if (is_in(types, d)) printf(" %s", weft_dtype_name(d));
    }
    putchar('\n');
  }
  printf("%d ops\n", count);
}

int weft_command_ops(int argc, char **argv) {
  ops_args_t a = {0};
  argp_err_exit_status = WEFT_EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  if (a.json) {
    print_json(ops, n, a.filter);
  } else {
    print_table(ops, n, a.filter);
  }
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : WEFT_EXIT_FAILED;
}
