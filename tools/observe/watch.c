/* tools/observe/watch.c - opens, takes steps until there are enough, ends.
 *
 * A signal's handler can only reach what is static: `interrupted` is the observer that waits, and the signal
 * that came. One command runs in a process.
 */
#define _GNU_SOURCE
#include "tools/observe/watch.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/command.h"
#include "tools/option_checks.h"

enum {
  DEFAULT_STEPS = 10,
  MAX_STEPS = 1000000,
  DEFAULT_TIMEOUT_S = 30,
  MAX_TIMEOUT_S = 86400,
  REDRAW_MS = 200
};

static _Atomic(weft_observer_t *) waiting;
static atomic_int signal_number;

static void on_signal(int number) {
  weft_observer_t *o = atomic_load(&waiting);
  if (atomic_exchange(&signal_number, number) != 0) _exit(128 + number); /* the second one */
  if (o != NULL) weft_observer_interrupt(o);
}

/* From now on signals interrupt `o`; NULL: they are only noted. */
static void catch_signals(weft_observer_t *o) {
  static const int watched[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal};
  atomic_store(&waiting, o);
  for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) sigaction(watched[i], &action, NULL);
  if (o != NULL && atomic_load(&signal_number) != 0) weft_observer_interrupt(o);
}

void weft_watch_options(weft_watch_args_t *a, weft_option_t out[WEFT_WATCH_OPTIONS]) {
  a->steps = DEFAULT_STEPS;
  a->timeout_s = DEFAULT_TIMEOUT_S;
  const weft_option_t options[WEFT_WATCH_OPTIONS] = {
      {"cluster", "SPEC", "All tasks: \"ps=HOST:PORT;worker=HOST:PORT,HOST:PORT\" (default: TF_CONFIG)",
       .text = &a->cluster, .check = weft_check_cluster},
      {"steps", "N", "How many steps (default: 10)", .number = &a->steps, .min = 1, .max = MAX_STEPS},
      {"timeout", "SECONDS", "How long to wait for the next step to end (default: 30)",
       .number = &a->timeout_s, .min = 1, .max = MAX_TIMEOUT_S},
  };
  for (int i = 0; i < WEFT_WATCH_OPTIONS; i++) out[i] = options[i];
}

const weft_help_item_t weft_watch_exit_codes[] = {
    {"128+N", "Signal N ended it (130 is Ctrl-C); no recording is left on the cluster"},
};
const int weft_watch_num_exit_codes = sizeof weft_watch_exit_codes / sizeof weft_watch_exit_codes[0];

const weft_help_item_t weft_watch_environment[] = {
    {"TF_CONFIG", "The cluster, in TensorFlow's JSON, if --cluster is not given"},
};
const int weft_watch_num_environment = sizeof weft_watch_environment / sizeof weft_watch_environment[0];

const char *weft_watch_complaint(const weft_watch_args_t *a) {
  if (a->cluster != NULL || getenv("TF_CONFIG") != NULL) return NULL;
  return "which cluster? give --cluster, as `weft server` has it, or set TF_CONFIG";
}

static weft_status_t *read_cluster(const weft_watch_args_t *a, weft_cluster_t *out) {
  const char *config = getenv("TF_CONFIG");
  weft_str_t job;
  int task = 0;
  if (a->cluster != NULL) return weft_cluster_parse(weft_str(a->cluster), out);
  return weft_cluster_from_tf_config(weft_str(config == NULL ? "" : config), out, &job, &task);
}

/* ---- a line while it waits, on a terminal ---- */

typedef struct watch_line {
  bool is_shown;
  int64_t began_ns, drawn_ns;
} watch_line_t;

static void draw(watch_line_t *l, const weft_watch_args_t *a, int64_t num_steps, bool is_open) {
  int64_t now = weft_clock_ns();
  if (!l->is_shown || (l->drawn_ns != 0 && now - l->drawn_ns < REDRAW_MS * INT64_C(1000000))) return;
  l->drawn_ns = now;
  fprintf(stderr, "\r\x1b[2K%s: %" PRId64 " of %" PRId64 " steps, %.1f s",
          is_open ? "recording" : "connecting", num_steps, a->steps, (double)(now - l->began_ns) * 1e-9);
  fflush(stderr);
}

static void erase(watch_line_t *l) {
  if (l->is_shown && l->drawn_ns != 0) fprintf(stderr, "\r\x1b[2K");
  l->drawn_ns = 0;
}

/* ---- the steps ---- */

/* The next step, or NULL: in time there was none, or a signal came. */
static weft_status_t *next_step(weft_observer_t *o, const weft_watch_args_t *a, watch_line_t *l,
                                int64_t num_steps, weft_whole_step_t **out) {
  int64_t deadline = weft_clock_deadline_ns(a->timeout_s * 1000);
  *out = NULL;
  do {
    draw(l, a, num_steps, true);
    int64_t until = weft_clock_deadline_ns(l->is_shown ? REDRAW_MS : a->timeout_s * 1000);
    WEFT_RETURN_IF_ERROR(weft_observer_next(o, until < deadline ? until : deadline, out));
  } while (*out == NULL && !weft_observer_is_interrupted(o) && weft_clock_ns() < deadline);
  return NULL;
}

static weft_status_t *take_steps(const weft_step_watch_t *w, weft_observer_t *o, watch_line_t *l,
                                 weft_watch_result_t *r) {
  draw(l, w->args, 0, false);
  WEFT_RETURN_IF_ERROR(weft_observer_start(o));
  int64_t began_ns = weft_clock_ns();
  weft_status_t *s = NULL;
  while (s == NULL && r->num_steps < w->args->steps) {
    weft_whole_step_t *step = NULL;
    s = next_step(o, w->args, l, r->num_steps, &step);
    if (step == NULL) break;
    s = w->fn(w->arg, o, step, ++r->num_steps);
    weft_whole_step_free(step);
    r->seconds = (double)(weft_clock_ns() - began_ns) * 1e-9;
  }
  r->losses = weft_observer_losses(o);
  return s;
}

/* What to say of too few steps; NULL: there are enough. */
static weft_status_t *too_few(const weft_step_watch_t *w, const weft_watch_result_t *r) {
  const weft_watch_args_t *a = w->args;
  if (r->num_steps >= a->steps) return NULL;
  if (r->num_steps > 0)
    return WEFT_ERROR(DEADLINE_EXCEEDED,
                      "only %" PRId64 " of %" PRId64 " steps came: no other ended within %" PRId64
                      " s (--timeout)",
                      r->num_steps, a->steps, a->timeout_s);
  if (r->losses.records_dropped > 0)
    return WEFT_ERROR(RESOURCE_EXHAUSTED,
                      "no step could be recorded whole: %" PRId64
                      " parts of steps were dropped, "
                      "as they need more memory than a recording has",
                      r->losses.records_dropped);
  return WEFT_ERROR(DEADLINE_EXCEEDED,
                    "no step ended on this cluster within %" PRId64
                    " s: does a job run? --timeout waits longer",
                    a->timeout_s);
}

static int finish(const weft_step_watch_t *w, weft_observed_tasks_t *tasks, weft_observer_t *o,
                  weft_status_t *s, const weft_watch_result_t *r) {
  int number = atomic_load(&signal_number);
  if (number != 0) {
    weft_status_free(s);
    fprintf(stderr, "weft: interrupted after %" PRId64 " of %" PRId64 " steps\n", r->num_steps,
            w->args->steps);
    return 128 + number;
  }
  if (s != NULL) return weft_command_fail(s);
  s = too_few(w, r);
  int code = r->num_steps > 0 ? w->ended(w->arg, tasks, o, r) : 0;
  return s != NULL ? weft_command_fail(s) : code;
}

int weft_watch_run(const weft_step_watch_t *w) {
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_observed_tasks_t *tasks = NULL;
  weft_observer_t *o = NULL;
  weft_watch_result_t r = {.num_steps = 0};
  watch_line_t line = {.is_shown = isatty(STDERR_FILENO) == 1, .began_ns = weft_clock_ns()};
  weft_status_t *s = read_cluster(w->args, &cluster);
  if (s == NULL) s = weft_observed_tasks_connect(&cluster, &tasks);
  const weft_observer_options_t options = {.tasks = tasks};
  if (s == NULL) s = weft_observer_create(&options, &o);
  if (s == NULL) {
    catch_signals(o);
    s = take_steps(w, o, &line, &r);
    weft_observer_stop(o);
    if (s == NULL && w->measures_peaks && r.num_steps > 0) weft_observer_measure(o);
    catch_signals(NULL);
  }
  erase(&line);
  int code = o == NULL ? weft_command_fail(s) : finish(w, tasks, o, s, &r);
  weft_observer_close(o);
  weft_observed_tasks_disconnect(tasks);
  weft_cluster_deinit(&cluster);
  return code;
}
