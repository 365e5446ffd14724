/* tools/top/view.c - comparing the tasks of a cluster with each other. */
#include "tools/top/view.h"

#include <math.h>

const char *weft_top_state_name(weft_top_state_t s) {
  static const char *const names[] = {[WEFT_TOP_ASKED] = "asked",
                                      [WEFT_TOP_UP] = "up",
                                      [WEFT_TOP_SILENT] = "silent",
                                      [WEFT_TOP_LOST] = "lost",
                                      [WEFT_TOP_UNREACHABLE] = "unreachable"};
  return names[s];
}

void weft_top_view_deinit(weft_top_view_t *v) {
  weft_arena_deinit(&v->arena);
  *v = (weft_top_view_t){.arena = WEFT_ARENA_INIT};
}

double weft_top_memory(const weft_top_task_t *t, bool is_peak) {
  double all = 0;
  for (int i = 0; i < t->num_tags; i++) all += is_peak ? t->tags[i].peak : t->tags[i].now;
  return all;
}

/* ---- stragglers ---- */

enum { FEWEST_STEPS = 4 };

static bool is_compared(const weft_top_task_t *t) {
  return t->state == WEFT_TOP_UP && t->has_figures && t->worker_sessions > 0;
}

typedef double figure_fn(const weft_top_task_t *t); /* negative: there is none */
static double time_of(const weft_top_task_t *t) { return t->figures.mean_seconds; }
static double late_of(const weft_top_task_t *t) { return t->figures.p99_seconds; }
static double rate_of(const weft_top_task_t *t) { return t->figures.steps_per_second; }

/* How many of the job's tasks have a figure; those that are less than `limit`, and those that are not more.
 */
typedef struct ranks {
  int all, less, not_more;
} ranks_t;

static ranks_t rank(const weft_top_view_t *v, weft_str_t job, figure_fn *figure, double limit) {
  ranks_t r = {0, 0, 0};
  for (int i = 0; i < v->num_tasks; i++) {
    const weft_top_task_t *t = &v->tasks[i];
    const double x = figure(t);
    if (!is_compared(t) || !weft_str_eq(t->job, job) || x < 0) continue;
    r.all++;
    r.less += x < limit;
    r.not_more += x <= limit;
  }
  return r;
}

/* The median of a job, of an even number the lower of the middle; -1: fewer than two. */
static double median(const weft_top_view_t *v, weft_str_t job, figure_fn *figure) {
  for (int i = 0; i < v->num_tasks; i++) {
    const weft_top_task_t *t = &v->tasks[i];
    const double x = figure(t);
    if (!is_compared(t) || !weft_str_eq(t->job, job) || x < 0) continue;
    const ranks_t r = rank(v, job, figure, x);
    const int at = (r.all - 1) / 2;
    if (r.all < 2) return -1;
    if (r.less <= at && at < r.not_more) return x;
  }
  return -1;
}

static double most_steps(const weft_top_view_t *v, weft_str_t job) {
  double most = 0;
  for (int i = 0; i < v->num_tasks; i++) {
    const weft_top_task_t *t = &v->tasks[i];
    if (is_compared(t) && weft_str_eq(t->job, job) && t->figures.steps > most) most = t->figures.steps;
  }
  return most;
}

/* What the tasks of a job are compared with. */
typedef struct medians {
  weft_str_t job;
  bool is_known;
  double time, late, rate, most_steps;
} medians_t;

static void judge(weft_top_task_t *t, const medians_t *m, double factor) {
  const weft_top_figures_t *f = &t->figures;
  const double time = m->time, late = m->late, rate = m->rate;
  const bool has_rate = rate > 0 && rate * f->seconds >= FEWEST_STEPS && f->steps_per_second * factor < rate;
  if (f->steps == 0 && m->most_steps >= FEWEST_STEPS) {
    t->lag = WEFT_TOP_RARE;
    t->lag_by = INFINITY;
  } else if (time > 0 && f->mean_seconds > time * factor && f->p99_seconds > late * factor) {
    t->lag = WEFT_TOP_SLOW;
    t->lag_by = f->mean_seconds / time;
  } else if (has_rate) {
    t->lag = WEFT_TOP_RARE;
    t->lag_by = rate / f->steps_per_second;
  }
}

void weft_top_mark_stragglers(weft_top_view_t *v) {
  medians_t m = {.is_known = false};
  for (int i = 0; i < v->num_tasks; i++) {
    weft_top_task_t *t = &v->tasks[i];
    t->lag = WEFT_TOP_NO_LAG;
    t->lag_by = 0;
    if (!is_compared(t)) continue;
    if (!m.is_known || !weft_str_eq(m.job, t->job)) /* a cluster has the tasks of a job side by side */
      m = (medians_t){.job = t->job,
                      .is_known = true,
                      .time = median(v, t->job, time_of),
                      .late = median(v, t->job, late_of),
                      .rate = median(v, t->job, rate_of),
                      .most_steps = most_steps(v, t->job)};
    judge(t, &m, v->straggler_factor);
  }
}

/* ---- order ---- */

const char *const weft_top_order_names[WEFT_TOP_NUM_ORDERS] = {
    [WEFT_TOP_BY_TASK] = "task", [WEFT_TOP_BY_STEPS] = "steps",   [WEFT_TOP_BY_TIME] = "time",
    [WEFT_TOP_BY_CPU] = "cpu",   [WEFT_TOP_BY_MEMORY] = "memory",
};

static double key_of(const weft_top_task_t *t, weft_top_order_t by) {
  switch (by) {
    case WEFT_TOP_BY_STEPS: return t->has_figures ? t->figures.steps_per_second : -1;
    case WEFT_TOP_BY_TIME: return t->has_figures ? t->figures.mean_seconds : -1;
    case WEFT_TOP_BY_CPU: return t->has_figures ? t->figures.cpus : -1;
    case WEFT_TOP_BY_MEMORY: return t->has_numbers ? weft_top_memory(t, false) : -1;
    default: return 0;
  }
}

/* Stable: by insertion, a cluster has few tasks. */
void weft_top_sort(const weft_top_view_t *v, weft_top_order_t by, int *out) {
  for (int i = 0; i < v->num_tasks; i++) {
    int at = i;
    while (at > 0 && key_of(&v->tasks[out[at - 1]], by) < key_of(&v->tasks[i], by)) {
      out[at] = out[at - 1];
      at--;
    }
    out[at] = i;
  }
}
