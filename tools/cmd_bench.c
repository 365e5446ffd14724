/* tools/cmd_bench.c - `weft bench`: every benchmark against its bar. */
#define _GNU_SOURCE
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "tools/command.h"

typedef struct bench_args {
  bool json, quick;
  const char *filter;
} bench_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "A list of objects: name, value, unit, bar, ok", 0},
    {"quick", 'q', NULL, 0, "Fewer repetitions: to see that it works, not to report", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  bench_args_t *a = state->input;
  switch (key) {
    case 'j': a->json = true; break;
    case 'q': a->quick = true; break;
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
    .doc = "Measures this machine against the bars; those with NAME in their name only if it is given.\v"
           "Exit code 0 only if every bar is reached.\n\nExamples:\n  weft bench\n  weft bench dispatch\n  weft bench --json",
};

/* One line, told as it is known, because the whole takes a minute. */
static bool run_one(const weft_bench_t *b, const weft_bench_options_t *o, json_t *list) {
  double value = 0;
  if (list == NULL) {
    printf("%-20s ", b->name);
    fflush(stdout);
  }
  weft_status_t *s = b->run(o, &value);
  bool ok = s == NULL && weft_bench_ok(b, value);
  if (list != NULL) {
    json_t *entry = json_pack("{s:s, s:s, s:f, s:b}", "name", b->name, "unit", b->unit, "bar", b->bar, "ok", ok);
    json_object_set_new(entry, "value", s == NULL ? json_real(value) : json_null());
    if (s != NULL) json_object_set_new(entry, "error", json_string(weft_status_message(s)));
    json_array_append_new(list, entry);
  } else if (s != NULL) {
    printf("failed: %s\n", weft_status_message(s));
  } else {
    printf("%12.4g %-6s %s %-10.4g %-4s %s\n", value, b->unit, b->lower_is_better ? "<=" : ">=", b->bar, ok ? "ok" : "MISS", b->text);
  }
  weft_status_free(s);
  return ok;
}

int weft_command_bench(int argc, char **argv) {
  bench_args_t a = {0};
  argp_err_exit_status = WEFT_EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length < 0 ? 0 : length] = '\0';
  weft_bench_options_t o = {.weft_path = length < 0 ? NULL : self, .is_quick = a.quick};
  int n = 0, ran = 0;
  bool all_ok = true;
  const weft_bench_t *benches = weft_bench_list(&n);
  json_t *list = a.json ? json_array() : NULL;
  if (list == NULL) printf("%-20s %12s %-6s %-13s %-4s %s\n", "benchmark", "value", "unit", "bar", "", "what");
  for (int i = 0; i < n; i++) {
    if (a.filter != NULL && strstr(benches[i].name, a.filter) == NULL) continue;
    all_ok = run_one(&benches[i], &o, list) && all_ok;
    ran++;
  }
  if (list != NULL) {
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(list);
  }
  if (ran == 0) {
    fprintf(stderr, "weft: no benchmark has '%s' in its name; `weft bench` runs them all\n", a.filter);
    return WEFT_EXIT_USAGE;
  }
  return all_ok ? 0 : WEFT_EXIT_FAILED;
}
