/* tools/top/top.c - asks, waits, shows; one thread, which waits for answers, keys and signals at once.
 *
 * Handlers of signals write their number into a pipe, which the thread reads, so every way out passes the end
 * of weft_top_run(), which gives the terminal back. (Signals cannot be blocked instead: libraries have
 * started threads that block none.)
 */
#define _GNU_SOURCE
#include "tools/top/top.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/top/node_watch.h"
#include "tools/top/poller.h"
#include "tools/top/screen.h"
#include "tools/top/view_json.h"

enum { ANSWER_MS = 1600, NODES_ONCE_MS = 4000, TEXT = 512 };
#define NS_PER_MS INT64_C(1000000)

typedef struct top {
  const weft_top_spec_t *spec;
  weft_cluster_t cluster;
  weft_top_poller_t *poller;
  weft_top_node_watch_t *watch;
  weft_top_screen_t *screen; /* NULL: none */
  int signals;               /* the pipe's end that is read */
  int ended_by;              /* a signal */
  bool is_over;
  weft_top_view_t view; /* what is shown */
  weft_top_table_options_t shown;
  bool is_paused, shows_help, reads_keys;
  int first; /* line of the table on top */
} top_t;

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

/* The pipe's other end: handlers have no argument. Set before they are installed, and never changed. */
static int signal_pipe = -1;

static void note_signal(int number) {
  const int before = errno;
  const unsigned char byte = (unsigned char)number;
  while (write(signal_pipe, &byte, 1) < 0 && errno == EINTR) continue; /* a full pipe has enough */
  errno = before;
}

static int64_t every_ns(const top_t *t) { return (int64_t)(t->spec->every * 1e9); }

/* How long answers are waited for before what is known is shown. */
static int64_t answer_timeout_ns(const top_t *t) {
  const int64_t most = ANSWER_MS * NS_PER_MS, tenths = every_ns(t) / 10 * 9;
  return tenths < most ? tenths : most;
}

/* ---- what is known ---- */

static weft_status_t *look(top_t *t, weft_top_view_t *out) {
  weft_status_t *s = weft_top_poller_look(t->poller, out);
  out->every = t->spec->every;
  out->straggler_factor = t->spec->straggler_factor;
  if (s == NULL && t->shown.shows_nodes) s = weft_top_node_watch_look(t->watch, out);
  if (s == NULL) weft_top_mark_stragglers(out);
  return s;
}

static weft_status_t *look_again(top_t *t) {
  weft_top_view_t view;
  weft_status_t *s = look(t, &view);
  weft_top_view_t *unused = s == NULL ? &t->view : &view;
  weft_top_view_deinit(unused);
  if (s == NULL) t->view = view;
  return s;
}

/* ---- waiting ---- */

static void on_signal(top_t *t, int number) {
  switch (number) {
    case SIGWINCH:
      if (t->screen != NULL) weft_top_screen_resized(t->screen);
      break;
    case SIGCONT:
      if (t->screen != NULL) weft_top_screen_redraw(t->screen);
      break;
    case SIGTSTP:
      if (t->screen != NULL) weft_top_screen_suspend(t->screen, number);
      break;
    default: t->ended_by = number; t->is_over = true;
  }
}

/* Waits for something until the time. *out_key, *out_answer: something was typed, a task has answered. */
static void wait_until(top_t *t, int64_t deadline_ns, bool *out_key, bool *out_answer) {
  struct pollfd fds[3] = {{.fd = t->signals, .events = POLLIN},
                          {.fd = weft_top_poller_fd(t->poller), .events = POLLIN},
                          {.fd = t->reads_keys ? STDIN_FILENO : -1, .events = POLLIN}};
  const int64_t left_ns = deadline_ns - weft_clock_ns();
  const struct timespec left = {(time_t)(left_ns > 0 ? left_ns / 1000000000 : 0),
                                (long)(left_ns > 0 ? left_ns % 1000000000 : 0)};
  unsigned char number;
  *out_key = *out_answer = false;
  if (ppoll(fds, 3, &left, NULL) <= 0) return;
  if ((fds[0].revents & POLLIN) != 0 && read(t->signals, &number, 1) == 1) on_signal(t, number);
  *out_answer = (fds[1].revents & POLLIN) != 0;
  *out_key = fds[2].revents != 0;
  if ((fds[2].revents & (POLLERR | POLLNVAL)) != 0) t->reads_keys = false;
}

/* Asks all tasks, and waits until all have answered, or for as long as an answer may take. */
static void ask_and_wait(top_t *t) {
  const int64_t deadline_ns = weft_clock_ns() + ANSWER_MS * NS_PER_MS;
  weft_top_poller_ask(t->poller);
  bool has_key, has_answer;
  while (!weft_top_poller_is_answered(t->poller) && !t->is_over && weft_clock_ns() < deadline_ns)
    wait_until(t, deadline_ns, &has_key, &has_answer);
}

static void rest_until(top_t *t, int64_t until_ns) {
  bool has_key, has_answer;
  while (!t->is_over && weft_clock_ns() < until_ns) {
    wait_until(t, until_ns, &has_key, &has_answer);
    if (has_answer) (void)weft_top_poller_is_answered(t->poller); /* a late one; seen in the next round */
  }
}

/* ---- as text and JSON ---- */

static weft_status_t *print(top_t *t) {
  weft_top_table_t table;
  if (t->spec->is_json) {
    json_t *o = weft_top_view_json(&t->view, t->shown.shows_nodes);
    const int failed = o == NULL ? -1 : json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(o);
    putchar('\n');
    fflush(stdout);
    return failed == 0 ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "a view of the cluster could not be written");
  }
  weft_top_table_make(&t->view, &t->shown, &table);
  for (int i = 0; i < table.n; i++) puts(table.lines[i].text.data);
  const bool has_failed = table.has_failed;
  weft_top_table_deinit(&table);
  return has_failed ? WEFT_NO_MEMORY("a view of the cluster") : NULL;
}

static weft_status_t *check_any_answer(const top_t *t) {
  for (int i = 0; i < t->view.num_tasks; i++) {
    if (t->view.tasks[i].has_numbers) return NULL;
  }
  return WEFT_ERROR(UNAVAILABLE, "no task of the cluster answers; the first, %.*s at %.*s: %.*s",
                    WEFT_STR_ARGS(t->view.tasks[0].name), WEFT_STR_ARGS(t->view.tasks[0].address),
                    WEFT_STR_ARGS(t->view.tasks[0].why));
}

/* Rates need two rounds. */
static weft_status_t *print_views(top_t *t) {
  int64_t next_ns = weft_clock_ns();
  ask_and_wait(t);
  if (t->shown.shows_nodes && t->spec->is_once)
    weft_top_node_watch_wait(t->watch, weft_clock_deadline_ns(NODES_ONCE_MS), t->signals);
  while (!t->is_over) {
    next_ns += every_ns(t);
    if (next_ns < weft_clock_ns()) next_ns = weft_clock_ns() + every_ns(t);
    rest_until(t, next_ns);
    if (t->is_over) return NULL;
    ask_and_wait(t);
    if (t->is_over) return NULL;
    WEFT_RETURN_IF_ERROR(look_again(t));
    if (t->spec->is_once) WEFT_RETURN_IF_ERROR(check_any_answer(t));
    WEFT_RETURN_IF_ERROR(print(t));
    if (t->spec->is_once || ferror(stdout) != 0) return NULL;
  }
  return NULL;
}

/* ---- on a terminal ---- */

static const char *const help_lines[] = {
    "q  quit          s  sort by task, steps, time, cpu, memory    p  pause          ?  this page",
    "m  memory by tag       b  bytes between tasks       n  slowest nodes (records a step now and then)",
    "arrows, page up, page down, home  scroll",
    "",
    "STATE     up, silent (does not answer), lost (was up), unreachable (has not answered yet); SINCE when",
    "STEPS/S   runs of the task's part of a step that ended well; TIME, P50, P99: how long runs took",
    "RUN, SESS steps in progress, sessions that have graphs on the task",
    "INPUT     of the time of its steps that they waited for their input",
    "CPU       100 % is one processor; RESIDENT is the process's memory, MEMORY and PEAK that of tensors",
    "NOTE      slow: the mean time of a step is over the median of its job by more than the factor of",
    "          --straggler; rare: so is the median rate over its own",
};

static weft_status_t *draw(top_t *t) {
  weft_top_table_t table;
  char footer[TEXT];
  weft_top_table_make(&t->view, &t->shown, &table);
  if (t->shows_help && table.n > 1) {
    table.n = 1;
    for (size_t i = 0; i < sizeof help_lines / sizeof help_lines[0] && table.n < table.room; i++)
      table.lines[table.n++] = (weft_top_line_t){weft_str(help_lines[i]), WEFT_TOP_PLAIN};
  }
  snprintf(footer, sizeof footer, "%s q quit  s sort: %s  p pause  m memory  b bytes  n nodes  ? help",
           t->is_paused ? " PAUSED " : "", weft_top_order_names[t->shown.order]);
  weft_top_screen_draw(t->screen, &table, footer, &t->first);
  const bool has_failed = table.has_failed;
  weft_top_table_deinit(&table);
  return has_failed ? WEFT_NO_MEMORY("a view of the cluster") : NULL;
}

static void on_letter(top_t *t, char letter) {
  switch (letter) {
    case 'q':
    case 'Q': t->is_over = true; break;
    case 's': t->shown.order = (weft_top_order_t)((t->shown.order + 1) % WEFT_TOP_NUM_ORDERS); break;
    case 'p':
    case ' ': t->is_paused = !t->is_paused; break;
    case 'm': t->shown.shows_memory = !t->shown.shows_memory; break;
    case 'b': t->shown.shows_traffic = !t->shown.shows_traffic; break;
    case 'n':
      t->shown.shows_nodes = !t->shown.shows_nodes;
      weft_top_node_watch_show(t->watch, t->shown.shows_nodes);
      break;
    case '?':
    case 'h': t->shows_help = !t->shows_help; break;
    default: break;
  }
}

static void read_keys(top_t *t) {
  char letter = 0;
  for (;;) {
    switch (weft_top_screen_key(t->screen, &letter)) {
      case WEFT_TOP_KEY_NONE: return;
      case WEFT_TOP_KEY_UP: t->first--; break;
      case WEFT_TOP_KEY_DOWN: t->first++; break;
      case WEFT_TOP_KEY_PAGE_UP: t->first -= weft_top_screen_page(t->screen); break;
      case WEFT_TOP_KEY_PAGE_DOWN: t->first += weft_top_screen_page(t->screen); break;
      case WEFT_TOP_KEY_HOME: t->first = 0; break;
      case WEFT_TOP_KEY_CHAR: on_letter(t, letter); break;
      default: break;
    }
  }
}

/* A round: ask; show once all have answered, or that timeout has passed; wait for the time of the next. */
static weft_status_t *watch_round(top_t *t, int64_t end_ns) {
  const int64_t shown_ns = weft_clock_ns() + answer_timeout_ns(t);
  bool is_shown = false;
  weft_top_poller_ask(t->poller);
  while (!t->is_over && weft_clock_ns() < end_ns) {
    bool has_key, has_answer;
    wait_until(t, is_shown || end_ns < shown_ns ? end_ns : shown_ns, &has_key, &has_answer);
    const bool is_answered = has_answer && weft_top_poller_is_answered(t->poller);
    if (!is_shown && (is_answered || weft_clock_ns() >= shown_ns)) {
      is_shown = true;
      if (!t->is_paused) WEFT_RETURN_IF_ERROR(look_again(t));
    }
    if (has_key) read_keys(t);
    if (!t->is_over) WEFT_RETURN_IF_ERROR(draw(t));
  }
  return NULL;
}

static weft_status_t *watch(top_t *t) {
  WEFT_RETURN_IF_ERROR(weft_top_screen_open(&t->screen));
  t->reads_keys = true;
  WEFT_RETURN_IF_ERROR(look_again(t));
  WEFT_RETURN_IF_ERROR(draw(t));
  int64_t next_ns = weft_clock_ns();
  while (!t->is_over) {
    next_ns += every_ns(t);
    if (next_ns < weft_clock_ns()) next_ns = weft_clock_ns() + every_ns(t);
    WEFT_RETURN_IF_ERROR(watch_round(t, next_ns));
  }
  return NULL;
}

/* ---- life ---- */

static weft_status_t *start(top_t *t) {
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no pipe for signals");
  t->signals = ends[0];
  signal_pipe = ends[1];
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
    const bool is_of_screen = watched[i] == SIGTSTP || watched[i] == SIGCONT || watched[i] == SIGWINCH;
    if (!is_of_screen || (!t->spec->is_once && !t->spec->is_json)) sigaction(watched[i], &action, NULL);
  }
  WEFT_RETURN_IF_ERROR(weft_cluster_parse(weft_str(t->spec->cluster), &t->cluster));
  WEFT_RETURN_IF_ERROR(weft_top_poller_create(&t->cluster, &t->poller));
  WEFT_RETURN_IF_ERROR(weft_top_node_watch_create(&t->cluster, &t->watch));
  weft_top_node_watch_show(t->watch, t->shown.shows_nodes);
  return NULL;
}

weft_status_t *weft_top_run(const weft_top_spec_t *spec, int *out_signal) {
  top_t t = {.spec = spec,
             .cluster = {.arena = WEFT_ARENA_INIT},
             .signals = -1,
             .view = {.arena = WEFT_ARENA_INIT},
             .shown = {.order = spec->order,
                       .shows_memory = true,
                       .shows_traffic = true,
                       .shows_nodes = spec->shows_nodes}};
  weft_status_t *s = start(&t);
  if (s == NULL) s = spec->is_once || spec->is_json ? print_views(&t) : watch(&t);
  weft_top_screen_close(t.screen);
  weft_top_node_watch_destroy(t.watch);
  weft_top_poller_destroy(t.poller);
  weft_top_view_deinit(&t.view);
  weft_cluster_deinit(&t.cluster);
  if (t.signals >= 0) close(t.signals); /* the other end stays for handlers; the process ends soon */
  *out_signal = t.ended_by;
  return s;
}
