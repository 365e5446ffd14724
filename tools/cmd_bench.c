/* tools/cmd_bench.c - `weft bench`: every benchmark against its bar. */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "benchmarks/bench.h"
#include "benchmarks/floors.h"
#include "benchmarks/step_layers.h"
#include "tools/command.h"
#include "tools/options.h"

typedef struct bench_args {
  bool json, quick, trace;
  int64_t nodes;
  const char *filter;
} bench_args_t;

static void print_result(const weft_benchmark_t *b, const weft_bench_result_t *r) {
  const weft_floor_t *floor = weft_bench_floor(b->floor);
  const char *sign = b->lower_is_better ? "<=" : ">=", *ok = r->is_ok ? "ok" : "MISS";
  char of[48] = "";
  if (floor != NULL) snprintf(of, sizeof of, "%.3g x %s", r->ratio, floor->name);
  printf("%10.4g %-6s  %-24s %s %-6.4g %-4s %s\n", r->value, b->unit, of, sign, b->bar, ok, b->text);
}

static void add_result(json_t *entry, const weft_benchmark_t *b, const weft_bench_result_t *r) {
  const weft_floor_t *floor = weft_bench_floor(b->floor);
  json_object_set_new(entry, "value", json_real(r->value));
  if (floor == NULL) return;
  json_object_set_new(entry, "ratio", json_real(r->ratio));
  json_object_set_new(entry, "floor", json_string(floor->name));
  json_object_set_new(entry, "floor_ns", json_real(r->floor_ns));
}

/* One line, told as it is known, because the whole takes a minute. */
static bool run_one(const weft_benchmark_t *b, const weft_bench_options_t *o, json_t *list) {
  weft_bench_result_t r = {.value = 0};
  if (list == NULL) {
    printf("%-20s ", b->name);
    fflush(stdout);
  }
  weft_status_t *s = weft_bench_measure(b, o, &r);
  bool ok = s == NULL && r.is_ok;
  if (list != NULL) {
    json_t *entry =
        json_pack("{s:s, s:s, s:f, s:b}", "name", b->name, "unit", b->unit, "bar", b->bar, "ok", ok);
    if (s == NULL) {
      add_result(entry, b, &r);
    } else {
      json_object_set_new(entry, "value", json_null());
      json_object_set_new(entry, "error", json_string(weft_status_message(s)));
    }
    json_array_append_new(list, entry);
  } else if (s != NULL) {
    printf("failed: %s\n", weft_status_message(s));
  } else {
    print_result(b, &r);
  }
  weft_status_free(s);
  return ok;
}

/* A floor has no bar; what it could fail is to be measured. */
static bool run_floor(const weft_floor_t *f, const weft_bench_options_t *o, json_t *list) {
  double ns = 0;
  weft_status_t *s = f->run(o, &ns);
  bool ok = s == NULL;
  if (list != NULL) {
    json_t *entry = json_pack("{s:s, s:s, s:n, s:b}", "name", f->name, "unit", "ns", "bar", "ok", ok);
    json_object_set_new(entry, "value", ok ? json_real(ns) : json_null());
    if (!ok) json_object_set_new(entry, "error", json_string(weft_status_message(s)));
    json_array_append_new(list, entry);
  } else if (!ok) {
    printf("%-20s failed: %s\n", f->name, weft_status_message(s));
  } else {
    printf("%-20s %10.4g %-6s  %-24s %-14s %s\n", f->name, ns, "ns", "floor", "", f->text);
  }
  weft_status_free(s);
  return ok;
}

/* ---- where a step's time goes ---- */

typedef struct step_share {
  int depth; /* it is a part of the last one before it that is less deep */
  const char *name, *text;
  double ns;
} step_share_t;

static bool trace_step(const weft_bench_options_t *o, bool is_json) {
  weft_step_layers_t l;
  weft_status_t *s = weft_bench_step_layers(o, &l);
  if (s != NULL) {
    fprintf(stderr, "weft bench --trace: %s\n", weft_status_message(s));
    weft_status_free(s);
    return false;
  }
  const step_share_t shares[] = {
      {0, "session", "TF_SessionRun: y = -x of a scalar that is fed, y fetched", l.session_ns},
      {1, "c_api", "tensors and names of the C API, and the way to the master", l.session_ns - l.master_ns},
      {1, "master", "finds the signature's plan, gives and takes tensors, ends the step",
       l.master_ns - l.worker_ns},
      {1, "worker", "finds the graph, makes the step's rendezvous and records", l.worker_ns - l.executor_ns},
      {1, "executor", "a plan of five nodes with their kernels", l.executor_ns},
      {0, "rpc", "RunStep over gRPC to another process", l.rpc_ns},
      {1, "grpc", "an empty call of gRPC's core", l.grpc_ns},
      {1, "step", "the step itself: master, worker, executor", l.master_ns},
      {1, "messages", "requests and answers, written and read, and the rest",
       l.rpc_ns - l.grpc_ns - l.master_ns},
  };
  json_t *list = json_array();
  double whole = 1;
  if (!is_json) printf("%-14s %10s %6s  %s\n", "layer", "ns", "share", "what");
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    const step_share_t *k = &shares[i];
    if (k->depth == 0) whole = k->ns;
    json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:b}", "name", k->name, "ns", k->ns, "share",
                                          k->ns / whole, "is_part", k->depth > 0));
    if (!is_json)
      printf("%*s%-*s %10.0f %5.0f%%  %s\n", 2 * k->depth, "", 14 - 2 * k->depth, k->name, k->ns,
             100 * k->ns / whole, k->text);
  }
  if (is_json) {
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
  }
  json_decref(list);
  return true;
}

static bool is_chosen(const char *name, const char *filter) {
  return filter == NULL || strstr(name, filter) != NULL;
}

/* Is every bar reached? Floors alone come first; benchmarks measure theirs once more. */
static bool run_all(const bench_args_t *a, const weft_bench_options_t *o) {
  int n = 0, num_floors = 0;
  bool all_ok = true;
  const weft_benchmark_t *benches = weft_bench_list(&n);
  const weft_floor_t *floors = weft_bench_floors(&num_floors);
  json_t *list = a->json ? json_array() : NULL;
  if (list == NULL)
    printf("%-20s %10s %-6s  %-24s %-14s %s\n", "benchmark", "value", "unit", "ratio", "bar", "what");
  for (int i = 0; i < num_floors; i++) {
    if (is_chosen(floors[i].name, a->filter)) all_ok = run_floor(&floors[i], o, list) && all_ok;
  }
  for (int i = 0; i < n; i++) {
    if (is_chosen(benches[i].name, a->filter)) all_ok = run_one(&benches[i], o, list) && all_ok;
  }
  if (list != NULL) {
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(list);
  }
  return all_ok;
}

/* By spaces, for completion. */
static void list_names(weft_strbuf_t *out) {
  int n = 0, num_floors = 0;
  const weft_benchmark_t *benches = weft_bench_list(&n);
  const weft_floor_t *floors = weft_bench_floors(&num_floors);
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "%s%s", i > 0 ? " " : "", benches[i].name);
  for (int i = 0; i < num_floors; i++) weft_strbuf_printf(out, " %s", floors[i].name);
}

int weft_command_bench(int argc, char **argv) {
  bench_args_t a = {0};
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  int code;
  const weft_option_t options[] = {
      {"json", NULL, "A list of objects: name, value, unit, bar, ok, and for a time floor, floor_ns, ratio",
       .flag = &a.json},
      {"quick", NULL, "Fewer repetitions: to see that it works, not to report", .flag = &a.quick},
      {"trace", NULL, "Where the time of a step of one small op goes, layer by layer", .flag = &a.trace},
      {"nodes", "N", "The nodes of million_nodes (default: 1000000)", .number = &a.nodes, .min = 10000,
       .max = 50000000},
  };
  list_names(&names);
  const weft_command_line_t line = {
      .command = "weft bench",
      .about = "Measures Weft against its bars on this machine. With NAME only what has NAME in its name.",
      .more =
          "A time has its bar as a ratio to a floor, what this machine needs for the elementary thing "
          "beneath:\n"
          "a load, a copy, an empty call of gRPC. The floor is measured before and after, in the same run.\n"
          "Exit code 0 only if every bar is reached.\n",
      .examples =
          "  weft bench\n  weft bench dispatch\n  weft bench grpc_call   # a floor alone\n  weft bench "
          "--json\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "NAME",
      .argument = &a.filter,
      .argument_words = names.data,
  };
  const bool is_read = weft_options_read(&line, argc, argv, &code);
  const bool is_any = is_read && a.filter != NULL && strstr(names.data, a.filter) != NULL;
  weft_strbuf_deinit(&names);
  if (!is_read) return code;
  if (a.filter != NULL && !is_any) {
    return weft_options_complain(&line, "no benchmark has '%s' in its name; `weft bench` runs them all",
                                 a.filter);
  }
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length < 0 ? 0 : length] = '\0';
  weft_bench_options_t o = {
      .weft_path = length < 0 ? NULL : self, .is_quick = a.quick, .num_nodes = (int)a.nodes};
  if (a.trace) return weft_command_flush(trace_step(&o, a.json) ? 0 : WEFT_EXIT_FAILED);
  return weft_command_flush(run_all(&a, &o) ? 0 : WEFT_EXIT_FAILED);
}
