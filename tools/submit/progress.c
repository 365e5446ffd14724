/* tools/submit/progress.c - several styles of saying the same. */
#define _GNU_SOURCE
#include "tools/submit/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/submit/value.h"

enum { BAR_WIDTH = 30, MIN_BAR_WIDTH = 8, DEFAULT_COLUMNS = 80, REDRAW_NS = 100000000, LINES_PER_RUN = 20 };

static double seconds(const weft_progress_t *p) { return (double)(weft_clock_ns() - p->started_ns) * 1e-9; }
static double rate(const weft_progress_t *p, int64_t done, double time) {
  return time > 0 ? (double)(done - p->first) / time : 0;
}

static void append_values(const weft_progress_t *p, weft_strbuf_t *out) {
  for (int i = 0; i < p->num_values; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    if (p->values[i].value != NULL && weft_value_print_short(p->values[i].value, &text)) {
      weft_strbuf_printf(out, "  %s %s", p->values[i].name, text.data == NULL ? "" : text.data);
    }
    weft_strbuf_deinit(&text);
  }
}

/* "12 s", "3:20", "1:05:00" */
static void append_time(double time, weft_strbuf_t *out) {
  int64_t s = time < 1e9 ? (int64_t)(time + 0.5) : 1000000000;
  if (s < 60) {
    weft_strbuf_printf(out, "%" PRId64 " s", s);
  } else if (s < 3600) {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
  } else {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
  }
}

/* "3/10", or "3" */
static void append_count(const weft_progress_t *p, int64_t done, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%" PRId64, done);
  if (p->steps != WEFT_PROGRESS_UNBOUNDED) weft_strbuf_printf(out, "/%" PRId64, p->steps);
}

/* ---- the bar ---- */

static void append_bar(const weft_progress_t *p, int64_t done, int width, weft_strbuf_t *out) {
  int full = p->steps > 0 ? (int)((double)done / (double)p->steps * width) : width;
  weft_strbuf_putc(out, '[');
  for (int i = 0; i < width; i++) weft_strbuf_putc(out, i < full ? '#' : '.');
  weft_strbuf_puts(out, "] ");
}

typedef struct progress_parts {
  bool rate, left;
} progress_parts_t;

static void append_text(const weft_progress_t *p, int64_t done, double time, progress_parts_t with,
                        weft_strbuf_t *out) {
  double per_second = rate(p, done, time);
  append_count(p, done, out);
  if (with.rate) weft_strbuf_printf(out, "  %.1f steps/s", per_second);
  if (with.left && per_second > 0 && p->steps != WEFT_PROGRESS_UNBOUNDED) {
    weft_strbuf_puts(out, "  ");
    append_time((double)(p->steps - done) / per_second, out);
    weft_strbuf_puts(out, " left");
  }
  append_values(p, out);
}

void weft_progress_line(const weft_progress_t *p, int64_t done, double time, int columns,
                        weft_strbuf_t *out) {
  static const progress_parts_t choices[] = {{true, true}, {true, false}, {false, false}};
  int room = columns - 1, left = -1; /* the last column stays free: some terminals wrap there */
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (size_t i = 0; i < sizeof choices / sizeof choices[0] && left < 0; i++) {
    text.length = 0;
    append_text(p, done, time, choices[i], &text);
    left = room - (int)text.length;
  }
  left -= 3; /* brackets and a space */
  if (left >= MIN_BAR_WIDTH) append_bar(p, done, left < BAR_WIDTH ? left : BAR_WIDTH, out);
  if (text.data != NULL) weft_strbuf_append(out, weft_str_of(text.data, text.length));
  if (room > 0 && out->length > (size_t)room) {
    out->length = (size_t)room;
    out->data[room] = '\0';
  }
  weft_strbuf_deinit(&text);
}

static int columns_of_terminal(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : DEFAULT_COLUMNS;
}

static void draw_bar(weft_progress_t *p, int64_t done) {
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_progress_line(p, done, seconds(p), columns_of_terminal(), &line);
  printf("\r\x1b[2K%s", line.data == NULL ? "" : line.data);
  fflush(stdout);
  p->is_line_open = true;
  p->shown_ns = weft_clock_ns();
  weft_strbuf_deinit(&line);
}

/* ---- lines and JSON ---- */

static void print_line(const weft_progress_t *p, int64_t done) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  append_count(p, done, &text);
  append_values(p, &text);
  printf("step %s  %.1f steps/s\n", text.data == NULL ? "" : text.data, rate(p, done, seconds(p)));
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

static void print_json(const weft_progress_t *p, int64_t done, bool is_end, const weft_status_t *failure) {
  double time = seconds(p);
  json_t *o = json_pack("{s:I, s:o, s:f, s:f}", "step", (json_int_t)done, "steps", steps_json(p), "seconds",
                        time, "steps_per_second", rate(p, done, time));
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
  *p = (weft_progress_t){.style = style,
                         .first = first,
                         .steps = steps,
                         .started_ns = weft_clock_ns(),
                         .values = values,
                         .num_values = n};
  p->every = style != WEFT_PROGRESS_JSON && steps > LINES_PER_RUN ? steps / LINES_PER_RUN : 1;
  if (style == WEFT_PROGRESS_BAR && steps > first) draw_bar(p, first); /* the first step may take long */
}

void weft_progress_tell(weft_progress_t *p, int64_t done, const char *key, const char *value, const char *fmt,
                        ...) {
  if (is_silent(p)) return;
  if (p->style == WEFT_PROGRESS_JSON) {
    json_t *o = json_pack("{s:I, s:o, s:s?}", "step", (json_int_t)done, "steps", steps_json(p), key, value);
    json_dumpf(o, stdout, JSON_COMPACT);
    json_decref(o);
  } else {
    va_list args;
    if (p->is_line_open) fputs("\r\x1b[2K", stdout);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
  }
  putchar('\n');
  if (p->is_line_open) draw_bar(p, done);
  fflush(stdout);
}

void weft_progress_tell_values(weft_progress_t *p, int64_t done, const char *key,
                               const weft_progress_value_t *values, int n) {
  const weft_progress_t told = {.values = values, .num_values = n};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (is_silent(p)) return;
  if (p->style == WEFT_PROGRESS_JSON) {
    json_t *o = json_pack("{s:I, s:o, s:o}", "step", (json_int_t)done, "steps", steps_json(p), key,
                          values_json(&told));
    json_dumpf(o, stdout, JSON_COMPACT | precision(&told));
    putchar('\n');
    json_decref(o);
  } else {
    append_values(&told, &text);
    if (p->is_line_open) fputs("\r\x1b[2K", stdout);
    printf("%s at step %" PRId64 ":%s\n", key, done, text.data == NULL ? "" : text.data);
    if (p->is_line_open) draw_bar(p, done);
  }
  fflush(stdout);
  weft_strbuf_deinit(&text);
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
    if (weft_clock_ns() - p->shown_ns >= REDRAW_NS || done == p->steps) draw_bar(p, done);
  } else if (is_shown(p, done)) {
    if (p->style == WEFT_PROGRESS_JSON) {
      print_json(p, done, false, NULL);
    } else {
      print_line(p, done);
    }
  }
}

void weft_progress_end(weft_progress_t *p, int64_t done, const weft_status_t *failure) {
  if (p->is_line_open) putchar('\n');
  p->is_line_open = false;
  if (p->style == WEFT_PROGRESS_JSON) {
    print_json(p, done, true, failure);
  } else if (is_silent(p)) {
    if (failure == NULL && p->style == WEFT_PROGRESS_VALUES) print_results(p);
    if (failure == NULL && p->style == WEFT_PROGRESS_VALUES_JSON) print_results_json(p);
  } else if (failure == NULL) {
    double time = seconds(p);
    int64_t n = done - p->first;
    if (p->steps > 0)
      printf("%" PRId64 " step%s in %.2f s, %.1f steps/s\n", n, n == 1 ? "" : "s", time, rate(p, done, time));
    if (p->num_waits > 0) print_waits(p);
    print_results(p);
  }
  fflush(stdout);
}
