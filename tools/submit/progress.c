/* tools/submit/progress.c - three styles of saying the same. */
#include "tools/submit/progress.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"

enum { BAR_WIDTH = 30, REDRAW_NS = 100000000, LINES_PER_RUN = 20 };

static double seconds(const weft_progress_t *p) { return (double)(weft_clock_ns() - p->started_ns) * 1e-9; }

static double rate(const weft_progress_t *p, int64_t done) {
  double t = seconds(p);
  return t > 0 ? (double)done / t : 0;
}

static void print_values(const weft_progress_t *p) {
  for (int i = 0; i < p->num_values; i++) {
    if (p->values[i].is_known) printf("  %s %.5g", p->values[i].name, p->values[i].value);
  }
}

static void draw_bar(const weft_progress_t *p, int64_t done) {
  int full = (int)(done * BAR_WIDTH / p->steps);
  double per_second = rate(p, done);
  printf("\r\x1b[2K[");
  for (int i = 0; i < BAR_WIDTH; i++) putchar(i < full ? '#' : '.');
  printf("] %" PRId64 "/%" PRId64 "  %.1f steps/s", done, p->steps, per_second);
  if (per_second > 0) printf("  %.0f s left", (double)(p->steps - done) / per_second);
  print_values(p);
  fflush(stdout);
}

static void print_json(const weft_progress_t *p, int64_t done, bool is_end) {
  json_t *o = json_pack("{s:I, s:I, s:f, s:f}", "step", (json_int_t)done, "steps", (json_int_t)p->steps, "seconds", seconds(p),
                        "steps_per_second", rate(p, done));
  json_t *values = json_object();
  for (int i = 0; i < p->num_values; i++) {
    bool is_finite = p->values[i].is_known && isfinite(p->values[i].value);
    json_object_set_new(values, p->values[i].name, is_finite ? json_real(p->values[i].value) : json_null());
  }
  json_object_set_new(o, "fetches", values);
  json_object_set_new(o, "done", json_boolean(is_end));
  json_dumpf(o, stdout, JSON_COMPACT);
  putchar('\n');
  fflush(stdout);
  json_decref(o);
}

void weft_progress_start(weft_progress_t *p, weft_progress_style_t style, int64_t steps, const weft_progress_value_t *values, int n) {
  *p = (weft_progress_t){.style = style, .steps = steps, .started_ns = weft_clock_ns(), .values = values, .num_values = n};
  p->every = steps > LINES_PER_RUN ? steps / LINES_PER_RUN : 1;
}

void weft_progress_step(weft_progress_t *p, int64_t done) {
  if (p->style == WEFT_PROGRESS_BAR) {
    int64_t now = weft_clock_ns();
    if (now - p->last_ns < REDRAW_NS && done < p->steps) return;
    p->last_ns = now;
    draw_bar(p, done);
    return;
  }
  if (done % p->every != 0 && done != p->steps) return;
  if (p->style == WEFT_PROGRESS_JSON) {
    print_json(p, done, false);
    return;
  }
  printf("step %" PRId64 "/%" PRId64, done, p->steps);
  print_values(p);
  printf("  %.1f steps/s\n", rate(p, done));
  fflush(stdout);
}

void weft_progress_end(weft_progress_t *p, int64_t done) {
  if (p->style == WEFT_PROGRESS_JSON) {
    print_json(p, done, true);
    return;
  }
  if (p->style == WEFT_PROGRESS_BAR) putchar('\n');
  printf("%" PRId64 " steps in %.2f s, %.1f steps/s\n", done, seconds(p), rate(p, done));
  fflush(stdout);
}
