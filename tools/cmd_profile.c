/* tools/cmd_profile.c - `weft profile`: which ops of a cluster's steps cost most, and what bounds them. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/command.h"
#include "tools/observe/profile.h"
#include "tools/observe/watch.h"

static const char more[] =
    "Times are those of nodes, which run beside each other on several threads: their sum may be more than "
    "the\n"
    "time of the steps, and shares are of that sum. Bytes are those of the tensors that a node reads and "
    "makes;\n"
    "operations are counted by their shapes, as TensorFlow's profiler does, and `-` where they are not "
    "counted.\n"
    "The peaks of each task's machine are measured when it is first asked, which disturbs it for some 0.2 s. "
    "What\n"
    "bounds a node is the peak that it comes closer to, or neither if it reaches less than a tenth of both. "
    "See\n"
    "docs/observing.md.\n";

static const char examples[] =
    "  weft profile --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222\" --steps 20\n"
    "  weft profile --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222\" --by node --top 50\n"
    "  weft profile --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222\" --json "
    ">costs.json\n";

typedef struct profile_args {
  weft_watch_args_t watch;
  const char *by;
  int64_t top;
  bool json;
  weft_profile_t *profile;
} profile_args_t;

static weft_status_t *add_step(void *arg, weft_observer_t *o, const weft_whole_step_t *step, int64_t number) {
  profile_args_t *a = arg;
  (void)o;
  (void)number;
  for (int i = 0; i < step->n; i++)
    WEFT_RETURN_IF_ERROR(weft_profile_add(a->profile, step->parts[i].record.step_stats));
  return NULL;
}

/* ---- what a row is on ---- */

/* The peaks of the machine that has the device; zeros if no task has. */
static weft_observed_state_t machine_of(weft_observed_tasks_t *tasks, weft_observer_t *o, weft_str_t device) {
  for (int i = 0; i < weft_observed_tasks_count(tasks); i++) {
    const weft_str_t task = weft_observed_tasks_get(tasks, i).name;
    bool has = device.length > task.length && memcmp(device.data, task.data, task.length) == 0 &&
               device.data[task.length] == '/';
    if (has) return weft_observer_state(o, i);
  }
  return (weft_observed_state_t){.lost = NULL};
}

static weft_profile_rates_t rates_of(const weft_profile_row_t *row, weft_observed_tasks_t *tasks,
                                     weft_observer_t *o) {
  const weft_observed_state_t machine = machine_of(tasks, o, row->device);
  return weft_profile_row_rates(row, machine.peak_flops, machine.peak_bytes);
}

static int64_t total_ns(const weft_profile_row_t *const *rows, int n) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) sum = sum > INT64_MAX - rows[i]->time_ns ? INT64_MAX : sum + rows[i]->time_ns;
  return sum;
}

/* ---- the table ---- */

/* The text behind `prefix` up to the next '/', out of *rest. False: it does not begin so. */
static bool take_part(weft_str_t *rest, const char *prefix, weft_str_t *out) {
  const size_t n = strlen(prefix);
  if (!weft_str_starts_with(*rest, prefix)) return false;
  *out = weft_str_of(rest->data + n, rest->length - n);
  ptrdiff_t end = weft_str_find(*out, '/');
  if (end >= 0) out->length = (size_t)end;
  *rest = weft_str_of(out->data + out->length, rest->length - n - out->length);
  return true;
}

/* "/job:worker/replica:0/task:1/device:CPU:0": "worker:1 CPU:0". Other names stay. */
static void short_device(weft_str_t device, char *out, size_t size) {
  weft_str_t rest = device, job, replica, task, type;
  bool ok = take_part(&rest, "/job:", &job) && take_part(&rest, "/replica:", &replica) &&
            take_part(&rest, "/task:", &task) && take_part(&rest, "/device:", &type) && rest.length == 0;
  if (ok) {
    snprintf(out, size, "%.*s:%.*s %.*s", WEFT_STR_ARGS(job), WEFT_STR_ARGS(task), WEFT_STR_ARGS(type));
  } else {
    snprintf(out, size, "%.*s", WEFT_STR_ARGS(device));
  }
}

/* "1.23 M": with the power of a thousand that leaves one to three digits before the point. */
static void short_number(double x, char *out, size_t size) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (x >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
    x /= 1000;
    unit++;
  }
  snprintf(out, size,
           x < 9.995 && unit > 0   ? "%.2f %s"
           : x < 99.95 && unit > 0 ? "%.1f %s"
                                   : "%.0f %s",
           x, units[unit]);
  size_t n = strlen(out);
  if (n > 0 && out[n - 1] == ' ') out[n - 1] = '\0';
}

static void short_share(double share, char *out, size_t size) {
  if (share < 0) {
    snprintf(out, size, "-");
  } else {
    snprintf(out, size, "%.*f%%", share < 0.0995 ? 1 : 0, 100 * share);
  }
}

enum { CELL = 192 };
typedef struct profile_line {
  char share[CELL], time[CELL], count[CELL], what[CELL], device[CELL], bytes[CELL], flops[CELL],
      flops_rate[CELL], flops_share[CELL], bytes_rate[CELL], bytes_share[CELL];
  const char *bound;
} profile_line_t;

static void make_line(const weft_profile_row_t *r, const weft_profile_rates_t *rates, int64_t steps,
                      int64_t all_ns, profile_line_t *out) {
  const double per_step = 1.0 / (double)steps;
  short_share(all_ns > 0 ? (double)r->time_ns / (double)all_ns : 0, out->share, CELL);
  snprintf(out->time, CELL, "%.3f", (double)r->time_ns * 1e-6 * per_step);
  snprintf(out->count, CELL, "%.*f", r->count % steps == 0 ? 0 : 1, (double)r->count * per_step);
  if (r->name.length > 0) {
    snprintf(out->what, CELL, "%.*s (%.*s)", WEFT_STR_ARGS(r->name), WEFT_STR_ARGS(r->op));
  } else {
    snprintf(out->what, CELL, "%.*s", WEFT_STR_ARGS(r->op));
  }
  short_device(r->device, out->device, CELL);
  short_number(((double)r->input_bytes + (double)r->output_bytes) * per_step, out->bytes, CELL);
  if (r->moves_bytes) {
    short_number(rates->bytes, out->bytes_rate, CELL);
  } else {
    snprintf(out->bytes_rate, CELL, "-");
  }
  short_share(rates->share_bytes, out->bytes_share, CELL);
  if (r->num_flops > 0) {
    short_number((double)r->flops * per_step, out->flops, CELL);
    short_number(rates->flops, out->flops_rate, CELL);
  } else {
    snprintf(out->flops, CELL, "-");
    snprintf(out->flops_rate, CELL, "-");
  }
  short_share(rates->share_flops, out->flops_share, CELL);
  out->bound = weft_bound_name(rates->bound);
}

static void print_line(const profile_line_t *l, int what_width, int device_width) {
  printf("%6s %10s %7s  %-*s  %-*s %8s %8s %8s %6s %8s %6s  %s\n", l->share, l->time, l->count, what_width,
         l->what, device_width, l->device, l->bytes, l->flops, l->flops_rate, l->flops_share, l->bytes_rate,
         l->bytes_share, l->bound);
}

static void print_head(weft_observed_tasks_t *tasks, weft_observer_t *o, const weft_watch_result_t *r) {
  const int n = weft_observed_tasks_count(tasks);
  printf("%" PRId64 " step%s on %d task%s, %.1f s\n", r->num_steps, r->num_steps == 1 ? "" : "s", n,
         n == 1 ? "" : "s", r->seconds);
  for (int i = 0; i < n; i++) {
    const weft_observed_state_t s = weft_observer_state(o, i);
    char flops[CELL], bytes[CELL];
    short_number(s.peak_flops, flops, CELL);
    short_number(s.peak_bytes, bytes, CELL);
    printf("  %.*s reaches %s%sFLOP/s, %s%sB/s\n", WEFT_STR_ARGS(weft_observer_task(o, i)), flops,
           strchr(flops, ' ') != NULL ? "" : " ", bytes, strchr(bytes, ' ') != NULL ? "" : " ");
  }
  if (r->losses.records_dropped > 0)
    printf("  steps were left out: %" PRId64 " of their parts had no room\n", r->losses.records_dropped);
}

static int print_table(const profile_args_t *a, weft_observed_tasks_t *tasks, weft_observer_t *o,
                       const weft_watch_result_t *result) {
  int n = 0, what_width = 4, device_width = 6;
  const weft_profile_row_t *const *rows = weft_profile_rows(a->profile, &n);
  const int64_t all_ns = total_ns(rows, n);
  const int shown = n < a->top ? n : (int)a->top;
  profile_line_t *lines = weft_calloc((size_t)shown + 1, sizeof *lines);
  if (lines == NULL) return weft_command_fail(WEFT_NO_MEMORY("a table"));
  for (int i = 0; i < shown; i++) {
    const weft_profile_rates_t rates = rates_of(rows[i], tasks, o);
    make_line(rows[i], &rates, result->num_steps, all_ns, &lines[i]);
    if ((int)strlen(lines[i].what) > what_width) what_width = (int)strlen(lines[i].what);
    if ((int)strlen(lines[i].device) > device_width) device_width = (int)strlen(lines[i].device);
  }
  print_head(tasks, o, result);
  printf("\n%6s %10s %7s  %-*s  %-*s %8s %8s %8s %6s %8s %6s  %s\n", "share", "ms/step", "/step", what_width,
         a->by[0] == 'n' ? "node" : "op", device_width, "device", "B/step", "FLOP", "FLOP/s", "peak", "B/s",
         "peak", "bound by");
  for (int i = 0; i < shown; i++) print_line(&lines[i], what_width, device_width);
  if (shown < n) {
    int64_t rest_ns = all_ns - total_ns(rows, shown);
    char share[CELL];
    short_share(all_ns > 0 ? (double)rest_ns / (double)all_ns : 0, share, CELL);
    printf("%6s %10.3f %7s  %d more: --top shows them\n", share,
           (double)rest_ns * 1e-6 / (double)result->num_steps, "", n - shown);
  }
  weft_free(lines);
  return 0;
}

/* ---- as JSON ---- */

static json_t *text(weft_str_t s) {
  json_t *j = json_stringn(s.data == NULL ? "" : s.data, s.length);
  return j != NULL ? j : json_string("(not UTF-8)");
}

static json_t *share(double x) { return x < 0 ? json_null() : json_real(x); }

static json_t *row_json(const weft_profile_row_t *r, const weft_profile_rates_t *rates, int64_t all_ns) {
  json_t *j =
      json_pack("{s:o, s:o, s:I, s:I, s:I, s:f, s:I, s:I}", "device", text(r->device), "op", text(r->op),
                "count", (json_int_t)r->count, "time_ns", (json_int_t)r->time_ns, "longest_ns",
                (json_int_t)r->longest_ns, "share", all_ns > 0 ? (double)r->time_ns / (double)all_ns : 0.0,
                "input_bytes", (json_int_t)r->input_bytes, "output_bytes", (json_int_t)r->output_bytes);
  if (r->name.length > 0) json_object_set_new(j, "node", text(r->name));
  json_object_set_new(j, "flops", r->num_flops > 0 ? json_integer(r->flops) : json_null());
  json_object_set_new(j, "counted", json_integer(r->num_flops));
  json_object_set_new(j, "flops_per_second", r->num_flops > 0 ? json_real(rates->flops) : json_null());
  json_object_set_new(j, "bytes_per_second", r->moves_bytes ? json_real(rates->bytes) : json_null());
  json_object_set_new(j, "peak_flops_share", share(rates->share_flops));
  json_object_set_new(j, "peak_bytes_share", share(rates->share_bytes));
  json_object_set_new(j, "bound", json_string(weft_bound_name(rates->bound)));
  return j;
}

static json_t *tasks_json(weft_observed_tasks_t *tasks, weft_observer_t *o) {
  json_t *all = json_array();
  for (int i = 0; i < weft_observed_tasks_count(tasks); i++) {
    const weft_observed_state_t s = weft_observer_state(o, i);
    json_array_append_new(all, json_pack("{s:o, s:f, s:f, s:I}", "task", text(weft_observer_task(o, i)),
                                         "peak_flops", s.peak_flops, "peak_bytes", s.peak_bytes,
                                         "clock_offset_us", (json_int_t)s.clock_offset_micros));
  }
  return all;
}

static int print_json(const profile_args_t *a, weft_observed_tasks_t *tasks, weft_observer_t *o,
                      const weft_watch_result_t *result) {
  int n = 0;
  const weft_profile_row_t *const *rows = weft_profile_rows(a->profile, &n);
  const int64_t all_ns = total_ns(rows, n);
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    const weft_profile_rates_t rates = rates_of(rows[i], tasks, o);
    json_array_append_new(list, row_json(rows[i], &rates, all_ns));
  }
  json_t *root =
      json_pack("{s:I, s:f, s:s, s:I, s:I, s:I, s:o, s:o}", "steps", (json_int_t)result->num_steps, "seconds",
                result->seconds, "by", a->by, "time_ns", (json_int_t)all_ns, "steps_left_out",
                (json_int_t)result->losses.steps_left_out, "records_dropped",
                (json_int_t)result->losses.records_dropped, "tasks", tasks_json(tasks, o), "rows", list);
  if (root == NULL) return weft_command_fail(WEFT_NO_MEMORY("a profile"));
  (void)json_dumpf(root, stdout, JSON_COMPACT); /* failures to write show at the flush */
  putchar('\n');
  json_decref(root);
  return 0;
}

static int show(void *arg, weft_observed_tasks_t *tasks, weft_observer_t *o,
                const weft_watch_result_t *result) {
  const profile_args_t *a = arg;
  return weft_command_flush((a->json ? print_json : print_table)(a, tasks, o, result));
}

int weft_command_profile(int argc, char **argv) {
  enum { DEFAULT_TOP = 20, MAX_TOP = 1000000 };
  profile_args_t a = {.by = "op", .top = DEFAULT_TOP};
  weft_option_t options[WEFT_WATCH_OPTIONS + 3];
  weft_watch_options(&a.watch, options);
  options[WEFT_WATCH_OPTIONS] =
      (weft_option_t){"by", "WHAT", "What a line of the table is: op (default) or node, of each device",
                      .text = &a.by, .words = "op node"};
  options[WEFT_WATCH_OPTIONS + 1] = (weft_option_t){
      "top", "N", "How many lines the table has (default: 20)", .number = &a.top, .min = 1, .max = MAX_TOP};
  options[WEFT_WATCH_OPTIONS + 2] =
      (weft_option_t){"json", NULL, "Say all of it as one JSON object", .flag = &a.json};
  const weft_command_line_t line = {
      .command = "weft profile",
      .about =
          "Says which ops of a standing cluster's steps cost most, and how close they come to the machine's "
          "peaks.",
      .more = more,
      .examples = examples,
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .exit_codes = weft_watch_exit_codes,
      .num_exit_codes = weft_watch_num_exit_codes,
      .environment = weft_watch_environment,
      .num_environment = weft_watch_num_environment,
  };
  int code;
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  bool by_node = strcmp(a.by, "node") == 0;
  if (!by_node && strcmp(a.by, "op") != 0)
    return weft_options_complain(&line, "--by %s: give op or node", a.by);
  const char *complaint = weft_watch_complaint(&a.watch);
  if (complaint != NULL) return weft_options_complain(&line, "%s", complaint);
  weft_status_t *s = weft_profile_create(by_node ? WEFT_PROFILE_BY_NODE : WEFT_PROFILE_BY_OP, &a.profile);
  if (s != NULL) return weft_command_fail(s);
  const weft_step_watch_t watch = {
      .args = &a.watch, .measures_peaks = true, .fn = add_step, .ended = show, .arg = &a};
  code = weft_watch_run(&watch);
  weft_profile_destroy(a.profile);
  return code;
}
