/* tools/cmd_bench.c - `weft bench`: every benchmark against its bar. */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "benchmarks/bench.h"
#include "tools/command.h"
#include "tools/options.h"

typedef struct bench_args {
  bool json, quick;
  const char *filter;
} bench_args_t;

/* One line, told as it is known, because the whole takes a minute. */
static bool run_one(const weft_benchmark_t *b, const weft_bench_options_t *o, json_t *list) {
  double value = 0;
  if (list == NULL) {
    printf("%-20s ", b->name);
    fflush(stdout);
  }
  weft_status_t *s = b->run(o, &value);
  bool ok = s == NULL && weft_bench_ok(b, value);
  if (list != NULL) {
    json_t *entry =
        json_pack("{s:s, s:s, s:f, s:b}", "name", b->name, "unit", b->unit, "bar", b->bar, "ok", ok);
    json_object_set_new(entry, "value", s == NULL ? json_real(value) : json_null());
    if (s != NULL) json_object_set_new(entry, "error", json_string(weft_status_message(s)));
    json_array_append_new(list, entry);
  } else if (s != NULL) {
    printf("failed: %s\n", weft_status_message(s));
  } else {
    printf("%12.4g %-6s %s %-10.4g %-4s %s\n", value, b->unit, b->lower_is_better ? "<=" : ">=", b->bar,
           ok ? "ok" : "MISS", b->text);
  }
  weft_status_free(s);
  return ok;
}

static bool is_chosen(const weft_benchmark_t *b, const char *filter) {
  return filter == NULL || strstr(b->name, filter) != NULL;
}

/* Is every bar reached? */
static bool run_all(const bench_args_t *a, const weft_bench_options_t *o) {
  int n = 0;
  bool all_ok = true;
  const weft_benchmark_t *benches = weft_bench_list(&n);
  json_t *list = a->json ? json_array() : NULL;
  if (list == NULL)
    printf("%-20s %12s %-6s %-13s %-4s %s\n", "benchmark", "value", "unit", "bar", "", "what");
  for (int i = 0; i < n; i++) {
    if (is_chosen(&benches[i], a->filter)) all_ok = run_one(&benches[i], o, list) && all_ok;
  }
  if (list != NULL) {
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(list);
  }
  return all_ok;
}

static bool is_any_chosen(const char *filter) {
  int n = 0;
  const weft_benchmark_t *benches = weft_bench_list(&n);
  for (int i = 0; i < n; i++) {
    if (is_chosen(&benches[i], filter)) return true;
  }
  return false;
}

/* By spaces, for completion. */
static void list_names(weft_strbuf_t *out) {
  int n = 0;
  const weft_benchmark_t *benches = weft_bench_list(&n);
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "%s%s", i > 0 ? " " : "", benches[i].name);
}

int weft_command_bench(int argc, char **argv) {
  bench_args_t a = {0};
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  int code;
  const weft_option_t options[] = {
      {"json", NULL, "A list of objects: name, value, unit, bar, ok", .flag = &a.json},
      {"quick", NULL, "Fewer repetitions: to see that it works, not to report", .flag = &a.quick},
  };
  list_names(&names);
  const weft_command_line_t line = {
      .command = "weft bench",
      .about = "Measures this machine against the bars. With NAME only what has NAME in its name.",
      .more = "Exit code 0 only if every bar is reached.\n",
      .examples = "  weft bench\n  weft bench dispatch\n  weft bench --json\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "NAME",
      .argument = &a.filter,
      .argument_words = names.data,
  };
  const bool is_read = weft_options_read(&line, argc, argv, &code);
  weft_strbuf_deinit(&names);
  if (!is_read) return code;
  if (!is_any_chosen(a.filter)) {
    return weft_options_complain(&line, "no benchmark has '%s' in its name; `weft bench` runs them all",
                                 a.filter);
  }
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length < 0 ? 0 : length] = '\0';
  weft_bench_options_t o = {.weft_path = length < 0 ? NULL : self, .is_quick = a.quick};
  return weft_command_flush(run_all(&a, &o) ? 0 : WEFT_EXIT_FAILED);
}
