/* tools/cmd_top.c - `weft top`: a standing cluster, live. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/option_checks.h"
#include "tools/options.h"
#include "tools/top/top.h"

static const char more[] =
    "On a terminal it is drawn anew each second, until q is typed; ? tells the keys and the columns. A task "
    "that "
    "does\n"
    "not answer is shown as such within three seconds, and holds none of the others. The numbers are those "
    "of\n"
    "docs/metrics.md, by each task's own port; docs/observing.md has the rest. Nothing in the jobs "
    "changes.\n";

static const char examples[] =
    "  weft top --cluster \"worker=127.0.0.1:2221,127.0.0.1:2222;ps=127.0.0.1:2220\"\n"
    "  weft top --once --nodes --cluster \"worker=127.0.0.1:2221\"\n"
    "  weft top --once --json --cluster \"worker=127.0.0.1:2221\"\n";

static const weft_help_item_t exit_codes[] = {
    {"128+N", "Signal N ended it (130 is Ctrl-C)"},
};

/* A number of seconds, perhaps with an s. */
static bool read_number(const char *text, bool has_unit, double least, double most, double *out) {
  const char *end = NULL;
  double n = 0;
  if (!weft_option_decimal(text, &n, &end)) return false;
  if (has_unit && *end == 's') end++;
  *out = n;
  return *end == '\0' && n >= least && n <= most;
}

static bool read_order(const char *text, weft_top_order_t *out) {
  for (int i = 0; i < WEFT_TOP_NUM_ORDERS; i++) {
    if (strcmp(text, weft_top_order_names[i]) != 0) continue;
    *out = (weft_top_order_t)i;
    return true;
  }
  return false;
}

static int run(weft_top_spec_t *spec, const char *every, const char *factor, const char *order,
               const weft_command_line_t *line) {
  if (spec->cluster == NULL)
    return weft_options_complain(line,
                                 "which cluster? give --cluster \"worker=HOST:PORT,HOST:PORT;ps=HOST:PORT\"");
  if (!read_number(every, true, 0.1, 3600, &spec->every))
    return weft_options_complain(line, "--every %s: give seconds, 0.1 to 3600", every);
  if (!read_number(factor, false, 1, 1e6, &spec->straggler_factor))
    return weft_options_complain(line, "--straggler %s: give a factor, 1 or more (1.5)", factor);
  if (!read_order(order, &spec->order))
    return weft_options_complain(line, "--sort %s: give task, steps, time, cpu or memory", order);
  if (!spec->is_once && !spec->is_json && !isatty(STDOUT_FILENO))
    return weft_options_complain(line, "standard output is no terminal: give --once or --json");
  int signal_number = 0;
  int code = weft_command_flush(weft_command_fail(weft_top_run(spec, &signal_number)));
  return code == 0 && signal_number != 0 ? 128 + signal_number : code;
}

int weft_command_top(int argc, char **argv) {
  static weft_top_spec_t spec; /* options point into it */
  static const char *every, *factor, *order;
  spec = (weft_top_spec_t){.cluster = NULL};
  every = "1";
  factor = "1.5";
  order = "task";
  const weft_option_t options[] = {
      {"cluster", "SPEC", "The cluster to watch: \"worker=HOST:PORT,HOST:PORT;ps=HOST:PORT\"",
       .text = &spec.cluster, .check = weft_check_cluster},
      {"every", "TIME", "How often it is looked at, in seconds: 5, 0.5s (default 1)", .text = &every},
      {"once", NULL, "Print one table, as text, and end", .flag = &spec.is_once},
      {"json", NULL, "Print a JSON object each time, or once with --once; docs/observing.md lists the keys",
       .flag = &spec.is_json},
      {"nodes", NULL, "Show the slowest nodes, too: records a step now and then", .flag = &spec.shows_nodes},
      {"sort", "WORD", "Sort tasks by task, steps, time, cpu or memory (default task)", .text = &order,
       .words = "task steps time cpu memory"},
      {"straggler", "FACTOR", "Mark tasks that are off the median of their job by more (default 1.5)",
       .text = &factor},
  };
  const weft_command_line_t line = {
      .command = "weft top",
      .about =
          "Shows the tasks of a standing cluster, live: steps, times, memory, bytes between tasks, "
          "stragglers.",
      .more = more,
      .examples = examples,
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .exit_codes = exit_codes,
      .num_exit_codes = sizeof exit_codes / sizeof exit_codes[0],
  };
  int code;
  if (weft_options_read(&line, argc, argv, &code)) code = run(&spec, every, factor, order, &line);
  return code;
}
