/* tools/submit/progress.c - several styles of saying the same. */
#define _GNU_SOURCE
#include "tools/submit/progress.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/submit/value.h"

enum { DEFAULT_COLUMNS = 80, REDRAW_NS = 100000000, LINES_PER_RUN = 20 };

static double seconds_since(int64_t ns) { return (double)(weft_clock_ns() - ns) * 1e-9; }
static double seconds(const weft_progress_t *p) { return seconds_since(p->started_ns); }

/* "  loss 0.5", of those from `begin` on but `but`. */
static void append_values(const weft_progress_value_t *values, int n, int but, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    if (i != but && values[i].value != NULL && weft_value_print_short(values[i].value, &text)) {
      weft_strbuf_printf(out, "%s%s %s", out->length > 0 ? "  " : "", values[i].name,
                         text.data == NULL ? "" : text.data);
    }
    weft_strbuf_deinit(&text);
  }
}

/* ---- what is known besides the values ---- */

/* Of those that have data: the last, and how far it is behind the first. */
static const weft_job_worker_t *slowest(const weft_progress_t *p, int64_t *out_lag) {
  const weft_job_worker_t *last = NULL;
  int64_t most = 0;
  for (int i = 0; i < p->num_workers; i++) {
    const weft_job_worker_t *w = &p->workers[i];
    if (!w->has_data) continue;
    if (w->steps > most) most = w->steps;
    if (last == NULL || w->steps < last->steps) last = w;
  }
  *out_lag = last == NULL ? 0 : most - last->steps;
  return last;
}

static weft_progress_figures_t figures(const weft_progress_t *p, int64_t done) {
  weft_progress_figures_t f = {.first = p->first,
                               .done = done,
                               .steps = p->steps,
                               .seconds = seconds(p),
                               .sparkline = &p->sparkline,
                               .loss = p->loss_text.data,
                               .others = p->others_text.data,
                               .saved_step = p->saved_step};
  const weft_job_worker_t *last = slowest(p, &f.lag);
  if (last != NULL) f.slowest = last->name;
  if (p->examples > 0 && f.seconds > 0) f.examples_per_second = p->examples / f.seconds;
  if (p->saved_step >= 0) f.saved_ago = seconds_since(p->saved_ns);
  return f;
}

int weft_progress_find_loss(const weft_progress_value_t *values, int n) {
  int first = -1;
  double number;
  for (int i = 0; i < n; i++) {
    if (values[i].value == NULL || !weft_value_number(values[i].value, &number)) continue;
    const char *slash = strrchr(values[i].name, '/'), *name = slash == NULL ? values[i].name : slash + 1;
    if (strcspn(name, ":") == strlen("loss") && strncmp(name, "loss", strlen("loss")) == 0) return i;
    if (first < 0) first = i;
  }
  return first;
}

/* ---- the bar ---- */

static int columns_of_terminal(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : DEFAULT_COLUMNS;
}

/* The locale that the terminal's user has; the program's own stays "C". */
static bool uses_utf8(void) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  if (locale == (locale_t)0) return false;
  const bool yes = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
  freelocale(locale);
  return yes;
}

static void draw_bar_locked(weft_progress_t *p) WEFT_REQUIRES(p->mu) {
  const weft_progress_figures_t f = figures(p, p->done);
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_progress_line(&f, columns_of_terminal(), p->is_utf8, &line);
  printf("\r\x1b[2K%s", line.data == NULL ? "" : line.data);
  fflush(stdout);
  p->is_line_open = true;
  weft_strbuf_deinit(&line);
}

/* The values as text, which stays when they are gone. */
static void look_at_values_locked(weft_progress_t *p) WEFT_REQUIRES(p->mu) {
  p->loss_text.length = p->others_text.length = 0;
  if (p->loss >= 0) append_values(&p->values[p->loss], 1, -1, &p->loss_text);
  append_values(p->values, p->num_values, p->loss, &p->others_text);
  if (p->loss_text.length == 0 && p->loss_text.data != NULL) p->loss_text.data[0] = '\0';
  if (p->others_text.length == 0 && p->others_text.data != NULL) p->others_text.data[0] = '\0';
}

static void step_of_bar(weft_progress_t *p, int64_t done) {
  double number;
  const int64_t now_ns = weft_clock_ns();
  const bool is_due = now_ns - p->shown_ns >= REDRAW_NS || done == p->steps;
  if (is_due && p->ask != NULL) p->ask(p->ask_arg, p);
  weft_mutex_lock(&p->mu);
  p->done = done;
  if (p->loss < 0) p->loss = weft_progress_find_loss(p->values, p->num_values);
  if (p->loss >= 0 && p->values[p->loss].value != NULL &&
      weft_value_number(p->values[p->loss].value, &number))
    weft_sparkline_add(&p->sparkline, number);
  if (is_due) {
    weft_sparkline_close(&p->sparkline);
    look_at_values_locked(p);
    draw_bar_locked(p);
    p->shown_ns = now_ns;
  }
  weft_mutex_unlock(&p->mu);
}

void weft_progress_tick(weft_progress_t *p) {
  if (!p->has_mu) return;
  weft_mutex_lock(&p->mu);
  if (p->is_line_open) draw_bar_locked(p);
  weft_mutex_unlock(&p->mu);
}

/* ---- lines and JSON ---- */

static void print_line(const weft_progress_t *p, int64_t done) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_progress_print_count(done, p->steps, &text);
  append_values(p->values, p->num_values, -1, &text);
  printf("step %s  %.1f steps/s\n", text.data == NULL ? "" : text.data,
         weft_progress_rate(p->first, done, seconds(p)));
  fflush(stdout);
  weft_strbuf_deinit(&text);
}

/* Null if it is not known. */
static json_t *steps_json(const weft_progress_t *p) {
  return p->steps == WEFT_PROGRESS_UNBOUNDED ? json_null() : json_integer((json_int_t)p->steps);
}

/* Digits for all numbers of an object: a float's are enough unless there are doubles. */
static size_t precision(const weft_progress_t *p) {
  for (int i = 0; i < p->num_values; i++) {
    const weft_tensor_t *t = p->values[i].value;
    if (t != NULL && (t->dtype == WEFT_F64 || t->dtype == WEFT_C128 || t->dtype == WEFT_U64))
      return JSON_REAL_PRECISION(17);
  }
  return JSON_REAL_PRECISION(9);
}

static json_t *values_json(const weft_progress_t *p) {
  json_t *values = json_object();
  for (int i = 0; i < p->num_values; i++) {
    weft_tensor_t *value = p->values[i].value;
    json_object_set_new(values, p->values[i].name, value == NULL ? json_null() : weft_value_json(value));
  }
  return values;
}

/* The device that waits most: a step that all take part in waits for it. */
static const weft_job_device_wait_t *longest_wait(const weft_progress_t *p) {
  const weft_job_device_wait_t *most = &p->waits[0];
  for (int i = 1; i < p->num_waits; i++) {
    if (p->waits[i].share > most->share) most = &p->waits[i];
  }
  return most;
}

static json_t *waits_json(const weft_progress_t *p) {
  const weft_job_device_wait_t *most = longest_wait(p);
  json_t *devices = json_object();
  for (int i = 0; i < p->num_waits; i++) {
    const weft_job_device_wait_t *w = &p->waits[i];
    json_t *one = json_pack("{s:f, s:f, s:I, s:I, s:I}", "wait_share", w->share, "wait_ms_per_step",
                            w->ms_per_step, "elements", (json_int_t)w->delivered, "buffered_bytes",
                            (json_int_t)w->buffered, "budget_bytes", (json_int_t)w->budget);
    json_object_set_new(devices, w->device, one);
  }
  return json_pack("{s:f, s:f, s:o}", "wait_share", most->share, "wait_ms_per_step", most->ms_per_step,
                   "devices", devices);
}

/* "waited for input: 12.0 % of the time, 0.4 ms a step", and by device where there are several. */
static void print_waits(const weft_progress_t *p) {
  const weft_job_device_wait_t *most = longest_wait(p);
  printf("waited for input: %.1f %% of the time, %.3g ms a step", 100 * most->share, most->ms_per_step);
  for (int i = 0; p->num_waits > 1 && i < p->num_waits; i++) {
    printf("%s%s %.1f %%, %.3g ms", i == 0 ? " (" : "; ", p->waits[i].device, 100 * p->waits[i].share,
           p->waits[i].ms_per_step);
  }
  puts(p->num_waits > 1 ? ")" : "");
}

/* What is known of it: the rate of examples, the time left, each worker's steps, the slowest, the last save.
 */
static void add_figures(const weft_progress_t *p, int64_t done, json_t *o) {
  const weft_progress_figures_t f = figures(p, done);
  const double left = weft_progress_seconds_left(&f);
  if (f.examples_per_second > 0)
    json_object_set_new(o, "examples_per_second", json_real(f.examples_per_second));
  if (left >= 0) json_object_set_new(o, "seconds_left", json_real(left));
  if (p->num_workers > 0) {
    json_t *workers = json_object();
    for (int i = 0; i < p->num_workers; i++)
      json_object_set_new(workers, p->workers[i].name, json_integer((json_int_t)p->workers[i].steps));
    json_object_set_new(o, "workers", workers);
  }
  if (f.slowest != NULL)
    json_object_set_new(o, "lag", json_pack("{s:s, s:I}", "worker", f.slowest, "steps", (json_int_t)f.lag));
  if (f.saved_step >= 0)
    json_object_set_new(
        o, "last_save",
        json_pack("{s:I, s:f}", "step", (json_int_t)f.saved_step, "seconds_ago", f.saved_ago));
}

static void print_json(const weft_progress_t *p, int64_t done, bool is_end, const weft_status_t *failure) {
  double time = seconds(p);
  json_t *o = json_pack("{s:I, s:o, s:f, s:f}", "step", (json_int_t)done, "steps", steps_json(p), "seconds",
                        time, "steps_per_second", weft_progress_rate(p->first, done, time));
  add_figures(p, done, o);
  json_t *values = values_json(p);
  json_object_set_new(o, "fetches", values);
  json_object_set_new(o, "done", json_boolean(is_end));
  if (is_end && p->num_waits > 0) json_object_set_new(o, "input", waits_json(p));
  if (failure != NULL) {
    json_object_set_new(o, "error", json_string(weft_status_message(failure)));
    json_object_set_new(o, "code", json_string(weft_code_name(weft_status_code(failure))));
  }
  json_dumpf(o, stdout, JSON_COMPACT | precision(p));
  putchar('\n');
  fflush(stdout);
  json_decref(o);
}

static void print_results(const weft_progress_t *p) {
  for (int i = 0; i < p->num_values; i++) {
    if (p->values[i].value == NULL) continue;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_value_print(p->values[i].value, &text);
    printf("%s = %s\n", p->values[i].name, text.data == NULL ? "" : text.data);
    weft_strbuf_deinit(&text);
  }
}

static void print_results_json(const weft_progress_t *p) {
  json_t *values = values_json(p);
  json_dumpf(values, stdout, JSON_COMPACT | precision(p));
  putchar('\n');
  json_decref(values);
}

/* ---- the run ---- */

static bool is_silent(const weft_progress_t *p) { return p->style >= WEFT_PROGRESS_VALUES; }

void weft_progress_start(weft_progress_t *p, weft_progress_style_t style, int64_t first, int64_t steps,
                         const weft_progress_value_t *values, int n) {
  weft_progress_deinit(p);
  *p = (weft_progress_t){.style = style,
                         .first = first,
                         .done = first,
                         .steps = steps,
                         .started_ns = weft_clock_ns(),
                         .values = values,
                         .num_values = n,
                         .ask = p->ask,
                         .ask_arg = p->ask_arg,
                         .saved_step = -1,
                         .loss = -1,
                         .is_utf8 = style == WEFT_PROGRESS_BAR && uses_utf8()};
  weft_mutex_init(&p->mu);
  p->has_mu = true;
  p->every = style != WEFT_PROGRESS_JSON && steps > LINES_PER_RUN ? steps / LINES_PER_RUN : 1;
  if (style != WEFT_PROGRESS_BAR || steps <= first) return;
  weft_mutex_lock(&p->mu);
  draw_bar_locked(p); /* the first step may take long */
  weft_mutex_unlock(&p->mu);
}

void weft_progress_deinit(weft_progress_t *p) {
  if (!p->has_mu) return;
  weft_mutex_deinit(&p->mu);
  weft_strbuf_deinit(&p->loss_text);
  weft_strbuf_deinit(&p->others_text);
  p->has_mu = false;
}

void weft_progress_saved(weft_progress_t *p, int64_t step) {
  if (!p->has_mu) return;
  weft_mutex_lock(&p->mu);
  p->saved_step = step;
  p->saved_ns = weft_clock_ns();
  weft_mutex_unlock(&p->mu);
}

/* Writes a line that takes the place of the bar, which comes back below it. Consumes `line`. */
static void put_line(weft_progress_t *p, int64_t done, weft_strbuf_t *line) {
  const char *text = line->data == NULL ? "" : line->data;
  if (p->has_mu) {
    weft_mutex_lock(&p->mu);
    if (p->is_line_open) fputs("\r\x1b[2K", stdout);
    puts(text);
    p->done = done;
    if (p->is_line_open) draw_bar_locked(p);
    weft_mutex_unlock(&p->mu);
  } else {
    puts(text);
  }
  fflush(stdout);
  weft_strbuf_deinit(line);
}

/* Consumes `o`. */
static void put_object(json_t *o, size_t flags) {
  json_dumpf(o, stdout, JSON_COMPACT | flags);
  json_decref(o);
  putchar('\n');
  fflush(stdout);
}

void weft_progress_tell(weft_progress_t *p, int64_t done, const char *key, const char *value, const char *fmt,
                        ...) {
  if (is_silent(p)) return;
  if (p->style == WEFT_PROGRESS_JSON) {
    put_object(json_pack("{s:I, s:o, s:s?}", "step", (json_int_t)done, "steps", steps_json(p), key, value),
               0);
    return;
  }
  char text[4096];
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  weft_strbuf_puts(&line, text);
  put_line(p, done, &line);
}

void weft_progress_tell_values(weft_progress_t *p, int64_t done, const char *key,
                               const weft_progress_value_t *values, int n) {
  const weft_progress_t told = {.values = values, .num_values = n};
  if (is_silent(p)) return;
  if (p->style == WEFT_PROGRESS_JSON) {
    put_object(json_pack("{s:I, s:o, s:o}", "step", (json_int_t)done, "steps", steps_json(p), key,
                         values_json(&told)),
               precision(&told));
    return;
  }
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&line, "%s at step %" PRId64 ":", key, done);
  append_values(values, n, -1, &line);
  put_line(p, p->done, &line);
}

static bool is_shown(const weft_progress_t *p, int64_t done) {
  int64_t every = p->every;
  if (p->steps == WEFT_PROGRESS_UNBOUNDED && p->style != WEFT_PROGRESS_JSON) {
    for (every = 1; every <= done / 10; every *= 10) continue;
  }
  return done % every == 0 || done == p->steps;
}

void weft_progress_step(weft_progress_t *p, int64_t done) {
  if (is_silent(p)) return;
  if (p->style == WEFT_PROGRESS_BAR) {
    step_of_bar(p, done);
  } else if (is_shown(p, done)) {
    if (p->ask != NULL) p->ask(p->ask_arg, p);
    if (p->style == WEFT_PROGRESS_JSON) {
      print_json(p, done, false, NULL);
    } else {
      print_line(p, done);
    }
  }
}

/* The bar as it was last, on a line of its own. */
static void close_bar(weft_progress_t *p) {
  if (!p->has_mu) return;
  weft_mutex_lock(&p->mu);
  if (p->is_line_open) putchar('\n');
  p->is_line_open = false;
  weft_mutex_unlock(&p->mu);
}

void weft_progress_end(weft_progress_t *p, int64_t done, const weft_status_t *failure) {
  close_bar(p);
  if (p->style == WEFT_PROGRESS_JSON && p->ask != NULL) p->ask(p->ask_arg, p);
  if (p->style == WEFT_PROGRESS_JSON) {
    print_json(p, done, true, failure);
  } else if (is_silent(p)) {
    if (failure == NULL && p->style == WEFT_PROGRESS_VALUES) print_results(p);
    if (failure == NULL && p->style == WEFT_PROGRESS_VALUES_JSON) print_results_json(p);
  } else if (failure == NULL) {
    double time = seconds(p);
    int64_t n = done - p->first;
    if (p->steps > 0)
      printf("%" PRId64 " step%s in %.2f s, %.1f steps/s\n", n, n == 1 ? "" : "s", time,
             weft_progress_rate(p->first, done, time));
    if (p->num_waits > 0) print_waits(p);
    print_results(p);
  }
  fflush(stdout);
}
