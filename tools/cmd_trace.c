/* tools/cmd_trace.c - `weft trace`: steps of a standing cluster on a time line. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "jobs/trace.h"
#include "tools/command.h"
#include "tools/observe/watch.h"

static const char more[] =
    "The jobs on the cluster go on as they are, whichever client started them; steps are slower while they "
    "are\n"
    "recorded. Steps are taken whole: those that begin after the recording of every task was opened. With N "
    "steps\n"
    "they are the first N that end, on whichever worker. The file is Chrome's trace format: open it in\n"
    "ui.perfetto.dev or chrome://tracing. See docs/observing.md.\n";

static const char examples[] =
    "  weft trace --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222\" --steps 10 --out "
    "trace.json\n"
    "  weft trace --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222\" --steps 1 --out "
    "step.json --json\n";

typedef struct trace_args {
  weft_watch_args_t watch;
  const char *out;
  bool json;
  weft_job_trace_t *trace;
} trace_args_t;

static weft_status_t *add_step(void *arg, weft_observer_t *o, const weft_whole_step_t *step, int64_t number) {
  trace_args_t *a = arg;
  for (int i = 0; i < step->n; i++) {
    const weft_recorded_part_t *part = &step->parts[i];
    const weft_step_record_t *r = &part->record;
    const weft_trace_part_t p = {.task = weft_observer_task(o, part->task),
                                 .step_id = step->step_id,
                                 .number = number,
                                 .start_micros = r->start_micros,
                                 .end_micros = r->end_micros,
                                 .offset_micros = weft_observer_state(o, part->task).clock_offset_micros,
                                 .session = r->session,
                                 .graph = r->graph,
                                 .failure = r->code == WEFT_OK      ? weft_str("")
                                            : r->message.length > 0 ? r->message
                                                                    : weft_str(weft_code_name(r->code)),
                                 .step_stats = r->step_stats};
    WEFT_RETURN_IF_ERROR(weft_job_trace_add_part(a->trace, &p));
  }
  return NULL;
}

static int tell_json(const trace_args_t *a, const weft_watch_result_t *r, weft_trace_counts_t c,
                     int num_tasks) {
  json_t *root = json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:f, s:I, s:I}", "file", a->out, "steps",
                           (json_int_t)r->num_steps, "tasks", num_tasks, "nodes", (json_int_t)c.num_spans,
                           "transfers", (json_int_t)c.num_arrows, "bytes", (json_int_t)c.moved_bytes,
                           "seconds", r->seconds, "steps_left_out", (json_int_t)r->losses.steps_left_out,
                           "records_dropped", (json_int_t)r->losses.records_dropped);
  if (root == NULL) return weft_command_fail(WEFT_ERROR(INVALID_ARGUMENT, "--out is not UTF-8: no --json"));
  (void)json_dumpf(root, stdout, JSON_COMPACT); /* failures to write show at the flush */
  putchar('\n');
  json_decref(root);
  return 0;
}

static int write_trace(void *arg, weft_observed_tasks_t *tasks, weft_observer_t *o,
                       const weft_watch_result_t *r) {
  trace_args_t *a = arg;
  (void)o;
  weft_status_t *s = weft_job_trace_write(a->trace, "--out", a->out);
  if (s != NULL) return weft_command_fail(s);
  const weft_trace_counts_t c = weft_job_trace_counts(a->trace);
  const int n = weft_observed_tasks_count(tasks);
  int code = 0;
  if (a->json) {
    code = tell_json(a, r, c, n);
  } else {
    printf("%s: %" PRId64 " step%s of %d task%s, %" PRId64 " nodes, %" PRId64
           " transfers between tasks; open it in ui.perfetto.dev\n",
           a->out, r->num_steps, r->num_steps == 1 ? "" : "s", n, n == 1 ? "" : "s", c.num_spans,
           c.num_arrows);
    if (r->losses.records_dropped > 0)
      printf("steps were left out: %" PRId64 " of their parts had no room\n", r->losses.records_dropped);
  }
  return weft_command_flush(code);
}

/* Before the steps run: afterwards they would be lost. */
static weft_status_t *check_out(const char *path) {
  return weft_status_prefix(weft_file_check_writable(path), "--out ");
}

int weft_command_trace(int argc, char **argv) {
  trace_args_t a = {.out = "trace.json"};
  weft_option_t options[WEFT_WATCH_OPTIONS + 2];
  weft_watch_options(&a.watch, options);
  options[WEFT_WATCH_OPTIONS] = (weft_option_t){"out", "FILE", "Where to write (default: trace.json)",
                                                .text = &a.out, .kind = WEFT_VALUE_FILE};
  options[WEFT_WATCH_OPTIONS + 1] =
      (weft_option_t){"json", NULL, "Say what was written as one JSON object", .flag = &a.json};
  const weft_command_line_t line = {
      .command = "weft trace",
      .about = "Records steps of a standing cluster, on all tasks, into one file for Perfetto.",
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
  const char *complaint = weft_watch_complaint(&a.watch);
  if (complaint != NULL) return weft_options_complain(&line, "%s", complaint);
  weft_status_t *s = check_out(a.out);
  if (s == NULL) s = weft_job_trace_create(&a.trace);
  if (s != NULL) return weft_command_fail(s);
  const weft_step_watch_t watch = {.args = &a.watch, .fn = add_step, .ended = write_trace, .arg = &a};
  code = weft_watch_run(&watch);
  weft_job_trace_destroy(a.trace);
  return code;
}
