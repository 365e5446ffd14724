/* tools/top/table.c - cells, as wide as the widest of their column. */
#include "tools/top/table.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "device/device_name.h"

enum { MOST_COLUMNS = 16, MOST_TRAFFIC = 50 };

/* ---- texts of numbers ---- */

void weft_top_print_place(weft_str_t name, weft_strbuf_t *out) {
  weft_device_name_t place;
  weft_status_t *s = weft_device_name_parse(name, &place);
  if (s != NULL || !place.has_job || !place.has_task) {
    weft_strbuf_append(out, name);
  } else {
    weft_strbuf_printf(out, "%.*s:%d", WEFT_STR_ARGS(place.job), place.task);
    if (place.has_type && place.has_id)
      weft_strbuf_printf(out, " %.*s:%d", WEFT_STR_ARGS(place.type), place.id);
  }
  weft_status_free(s);
}

void weft_top_print_bytes(double bytes, weft_strbuf_t *out) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1023.5) {
    weft_strbuf_printf(out, "%.0f B", bytes);
    return;
  }
  int i = 0;
  for (bytes /= 1024; bytes >= 1023.5 && i < 4; i++) bytes /= 1024;
  weft_strbuf_printf(out, "%.*f %s", bytes < 99.95 ? 1 : 0, bytes, units[i]);
}

void weft_top_print_seconds(double seconds, weft_strbuf_t *out) {
  if (seconds < 0) {
    weft_strbuf_puts(out, "-");
  } else if (seconds < 0.0009995) {
    weft_strbuf_printf(out, "%.0f us", seconds * 1e6);
  } else if (seconds < 0.9995) {
    const double ms = seconds * 1e3;
    weft_strbuf_printf(out, "%.*f ms", ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0, ms);
  } else {
    weft_strbuf_printf(out, "%.*f s", seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0, seconds);
  }
}

void weft_top_print_age(double seconds, weft_strbuf_t *out) {
  const int64_t s = !(seconds > 0) ? 0 : seconds < 1e12 ? (int64_t)(seconds + 0.5) : INT64_C(1000000000000);
  if (s < 60) {
    weft_strbuf_printf(out, "%" PRId64 " s", s);
  } else if (s < 3600) {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
  } else if (s < 86400) {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
  } else {
    weft_strbuf_printf(out, "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
  }
}

static void put_number(double value, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%.*f", value < 99.95 ? 1 : 0, value);
}

/* ---- cells ---- */

typedef struct table_cell {
  weft_str_t text;
} table_cell_t;

/* A section: rows of cells, the first of which are titles. */
typedef struct table_grid {
  weft_top_table_t *t;
  table_cell_t *cells; /* rows * columns */
  weft_top_style_t *styles;
  int columns, rows, room;
  const char *const *titles;
  unsigned is_left; /* bit i: column i is text; numbers are at the right */
  weft_strbuf_t cell;
} table_grid_t;

static void grid_begin(table_grid_t *g, weft_top_table_t *t, const char *const *titles, int columns,
                       unsigned is_left, int most_rows) {
  *g = (table_grid_t){
      .t = t, .columns = columns, .titles = titles, .is_left = is_left, .cell = WEFT_STRBUF_INIT};
  g->room = most_rows + 1;
  g->cells = weft_arena_calloc(&t->arena, (size_t)g->room * (size_t)columns, sizeof *g->cells);
  g->styles = weft_arena_calloc(&t->arena, (size_t)g->room, sizeof *g->styles);
  if (g->cells == NULL || g->styles == NULL) {
    t->has_failed = true;
    g->room = 0;
    return;
  }
  for (int i = 0; i < columns; i++) g->cells[i].text = weft_str(titles[i]);
  g->styles[0] = WEFT_TOP_TITLE;
  g->rows = 1;
}

/* The text that was built becomes a cell of the last row. */
static void end_cell(table_grid_t *g, int column) {
  weft_top_table_t *t = g->t;
  if (g->rows <= g->room && g->rows > 0)
    g->cells[(g->rows - 1) * g->columns + column].text =
        weft_arena_str(&t->arena, weft_str_of(g->cell.data, g->cell.length));
  t->has_failed = t->has_failed || g->cell.failed;
  g->cell.length = 0;
}

/* False: there is no room, which there is for as many rows as were asked for. */
static bool next_row(table_grid_t *g, weft_top_style_t style) {
  if (g->rows == g->room) return false;
  g->styles[g->rows++] = style;
  return true;
}

static void add_line(weft_top_table_t *t, weft_str_t text, weft_top_style_t style) {
  if (t->n == t->room) {
    const int room = t->room == 0 ? 64 : 2 * t->room;
    weft_top_line_t *lines = weft_arena_calloc(&t->arena, (size_t)room, sizeof *lines);
    if (lines == NULL) {
      t->has_failed = true;
      return;
    }
    if (t->n > 0) memcpy(lines, t->lines, (size_t)t->n * sizeof *lines);
    t->lines = lines;
    t->room = room;
  }
  const weft_str_t copy = weft_arena_str(&t->arena, text);
  t->has_failed = t->has_failed || copy.data == NULL;
  if (copy.data != NULL) t->lines[t->n++] = (weft_top_line_t){copy, style};
}

static void grid_end(table_grid_t *g) {
  size_t widths[MOST_COLUMNS] = {0};
  for (int i = 0; i < g->rows * g->columns; i++) {
    if (g->cells[i].text.length > widths[i % g->columns]) widths[i % g->columns] = g->cells[i].text.length;
  }
  for (int row = 0; row < g->rows; row++) {
    g->cell.length = 0;
    for (int i = 0; i < g->columns; i++) {
      const weft_str_t text = g->cells[row * g->columns + i].text;
      const int space = (int)(widths[i] - text.length);
      const bool is_left = (g->is_left >> i & 1) != 0, is_last = i == g->columns - 1;
      if (i > 0) weft_strbuf_puts(&g->cell, "  ");
      if (!is_left) weft_strbuf_printf(&g->cell, "%*s", space, "");
      weft_strbuf_append(&g->cell, text);
      if (is_left && !is_last) weft_strbuf_printf(&g->cell, "%*s", space, "");
    }
    while (g->cell.length > 0 && g->cell.data[g->cell.length - 1] == ' ') g->cell.length--;
    add_line(g->t, weft_str_of(g->cell.data, g->cell.length), g->styles[row]);
  }
  weft_strbuf_deinit(&g->cell);
}

/* ---- sections ---- */

static void put_note(const weft_top_task_t *t, weft_strbuf_t *out) {
  const char *between = "";
  if (t->state != WEFT_TOP_UP) {
    weft_strbuf_append(out, t->why);
    between = t->why.length > 0 ? "; " : "";
  }
  if (t->lag == WEFT_TOP_SLOW) {
    weft_strbuf_printf(out, "%sslow: %.1f times the median time", between, t->lag_by);
    between = "; ";
  } else if (t->lag == WEFT_TOP_RARE) {
    if (isinf(t->lag_by)) {
      weft_strbuf_printf(out, "%srare: no step, where others ran", between);
    } else {
      weft_strbuf_printf(out, "%srare: 1/%.1f of the median rate", between, t->lag_by);
    }
    between = "; ";
  }
  if (t->has_figures && t->figures.failures_per_second > 0) {
    weft_strbuf_puts(out, between);
    put_number(t->figures.failures_per_second, out);
    weft_strbuf_puts(out, " failures/s");
    between = "; ";
  }
  if (t->losses > 0) weft_strbuf_printf(out, "%slost %.0f times", between, t->losses);
}

static void put_figures(table_grid_t *g, const weft_top_task_t *t) {
  enum { STEPS = 3, TIME, P50, P99, RUN, SESSIONS, INPUT, CPU, RESIDENT, MEMORY, PEAK };
  const weft_top_figures_t *f = &t->figures;
  for (int i = STEPS; i <= PEAK; i++) {
    const bool is_known = i == RUN || i == SESSIONS || i >= RESIDENT ? t->has_numbers : t->has_figures;
    const bool is_there = t->state == WEFT_TOP_UP || (t->state == WEFT_TOP_SILENT && i >= RESIDENT);
    if (!is_known || !is_there) continue;
    switch (i) {
      case STEPS: put_number(f->steps_per_second, &g->cell); break;
      case TIME: weft_top_print_seconds(f->mean_seconds, &g->cell); break;
      case P50: weft_top_print_seconds(f->p50_seconds, &g->cell); break;
      case P99: weft_top_print_seconds(f->p99_seconds, &g->cell); break;
      case RUN: weft_strbuf_printf(&g->cell, "%.0f", t->running); break;
      case SESSIONS: weft_strbuf_printf(&g->cell, "%.0f", t->worker_sessions); break;
      case INPUT: weft_strbuf_printf(&g->cell, "%.0f %%", 100 * f->wait_share); break;
      case CPU: weft_strbuf_printf(&g->cell, "%.0f %%", 100 * f->cpus); break;
      case RESIDENT: weft_top_print_bytes(t->resident, &g->cell); break;
      case MEMORY: weft_top_print_bytes(weft_top_memory(t, false), &g->cell); break;
      default: weft_top_print_bytes(weft_top_memory(t, true), &g->cell); break;
    }
    end_cell(g, i);
  }
}

static void add_tasks(weft_top_table_t *t, const weft_top_view_t *v, const int *order) {
  static const char *const titles[] = {"TASK", "STATE", "SINCE", "STEPS/S",  "TIME",   "P50",  "P99", "RUN",
                                       "SESS", "INPUT", "CPU",   "RESIDENT", "MEMORY", "PEAK", "NOTE"};
  enum { COLUMNS = sizeof titles / sizeof titles[0] };
  table_grid_t g;
  grid_begin(&g, t, titles, COLUMNS, 1U << 0 | 1U << 1 | 1U << (COLUMNS - 1), v->num_tasks);
  for (int i = 0; i < v->num_tasks; i++) {
    const weft_top_task_t *task = &v->tasks[order[i]];
    const bool is_well = task->state == WEFT_TOP_UP || task->state == WEFT_TOP_ASKED;
    if (!next_row(&g, !is_well                       ? WEFT_TOP_TROUBLE
                      : task->lag != WEFT_TOP_NO_LAG ? WEFT_TOP_WARNING
                                                     : WEFT_TOP_PLAIN))
      break;
    weft_strbuf_append(&g.cell, task->name);
    end_cell(&g, 0);
    weft_strbuf_puts(&g.cell, weft_top_state_name(task->state));
    end_cell(&g, 1);
    weft_top_print_age(v->time - task->since, &g.cell);
    end_cell(&g, 2);
    put_figures(&g, task);
    put_note(task, &g.cell);
    end_cell(&g, COLUMNS - 1);
  }
  grid_end(&g);
}

/* A column for each tag that some task has told; "3.0 KiB of 1.2 MiB": now, and at most. */
static void add_memory(weft_top_table_t *t, const weft_top_view_t *v, const int *order) {
  const char *titles[1 + WEFT_TOP_TAGS] = {"MEMORY"};
  int n = 1;
  table_grid_t g;
  const weft_top_task_t *most = NULL;
  for (int i = 0; i < v->num_tasks; i++) {
    if (v->tasks[i].has_numbers && (most == NULL || v->tasks[i].num_tags > most->num_tags))
      most = &v->tasks[i];
  }
  for (int k = 0; most != NULL && k < most->num_tags; k++) titles[n++] = most->tags[k].name.data;
  grid_begin(&g, t, titles, n, 1, v->num_tasks);
  for (int i = 0; i < v->num_tasks; i++) {
    const weft_top_task_t *task = &v->tasks[order[i]];
    const bool is_there = task->state == WEFT_TOP_UP || task->state == WEFT_TOP_SILENT;
    if (!task->has_numbers || !is_there || !next_row(&g, WEFT_TOP_PLAIN)) continue;
    weft_strbuf_append(&g.cell, task->name);
    end_cell(&g, 0);
    for (int k = 0; k < task->num_tags && k + 1 < n; k++) {
      weft_top_print_bytes(task->tags[k].now, &g.cell);
      weft_strbuf_puts(&g.cell, " of ");
      weft_top_print_bytes(task->tags[k].peak, &g.cell);
      end_cell(&g, k + 1);
    }
  }
  grid_end(&g);
}

static void add_traffic(weft_top_table_t *t, const weft_top_view_t *v) {
  static const char *const titles[] = {"FROM", "TO", "CLASS", "BYTES/S", "MESSAGES/S"};
  table_grid_t g;
  grid_begin(&g, t, titles, 5, 1U << 0 | 1U << 1 | 1U << 2, MOST_TRAFFIC);
  for (int i = 0; i < v->num_traffic; i++) {
    const weft_top_traffic_t *l = &v->traffic[i];
    if (!(l->rate.messages > 0) || !next_row(&g, WEFT_TOP_PLAIN)) continue;
    weft_top_print_place(l->from, &g.cell);
    end_cell(&g, 0);
    weft_top_print_place(l->to, &g.cell);
    end_cell(&g, 1);
    weft_strbuf_append(&g.cell, l->kind);
    end_cell(&g, 2);
    weft_top_print_bytes(l->rate.bytes, &g.cell);
    end_cell(&g, 3);
    put_number(l->rate.messages, &g.cell);
    end_cell(&g, 4);
  }
  grid_end(&g);
}

static void add_nodes(weft_top_table_t *t, const weft_top_view_t *v) {
  static const char *const titles[] = {"TIME", "SHARE", "RUNS", "WHERE", "OP", "NODE"};
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  table_grid_t g;
  if (v->has_nodes) {
    weft_strbuf_printf(&line, "Slowest nodes of step %" PRId64 ", which took ", v->step_id);
    weft_top_print_seconds(v->step_seconds, &line);
    weft_strbuf_puts(&line, " and ended ");
    weft_top_print_age(v->time - v->nodes_time, &line);
    weft_strbuf_puts(&line, " ago:");
  } else {
    weft_strbuf_printf(
        &line, "Slowest nodes: %.*s",
        WEFT_STR_ARGS(v->nodes_trouble.length > 0 ? v->nodes_trouble : WEFT_STR("no step yet")));
  }
  add_line(t, weft_str_of(line.data, line.length), WEFT_TOP_TITLE);
  t->has_failed = t->has_failed || line.failed;
  weft_strbuf_deinit(&line);
  if (!v->has_nodes) return;
  grid_begin(&g, t, titles, 6, 1U << 3 | 1U << 4 | 1U << 5, v->num_nodes);
  for (int i = 0; i < v->num_nodes; i++) {
    const weft_top_node_t *n = &v->nodes[i];
    if (!next_row(&g, WEFT_TOP_PLAIN)) break;
    weft_top_print_seconds(n->seconds, &g.cell);
    end_cell(&g, 0);
    weft_strbuf_printf(&g.cell, "%.0f %%", 100 * n->share);
    end_cell(&g, 1);
    weft_strbuf_printf(&g.cell, "%d", n->runs);
    end_cell(&g, 2);
    weft_top_print_place(n->device, &g.cell);
    end_cell(&g, 3);
    weft_strbuf_append(&g.cell, n->op);
    end_cell(&g, 4);
    weft_strbuf_append(&g.cell, n->name);
    end_cell(&g, 5);
  }
  grid_end(&g);
}

/* "3 tasks: 2 up, 1 lost   240 steps/s   every 1 s   12:00:00" */
static void add_summary(weft_top_table_t *t, const weft_top_view_t *v) {
  int counts[WEFT_TOP_UNREACHABLE + 1] = {0};
  const char *between = ":";
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  for (int i = 0; i < v->num_tasks; i++) counts[v->tasks[i].state]++;
  weft_strbuf_printf(&line, "%d task%s", v->num_tasks, v->num_tasks == 1 ? "" : "s");
  for (int s = 0; s <= WEFT_TOP_UNREACHABLE; s++) {
    if (counts[s] == 0) continue;
    weft_strbuf_printf(&line, "%s %d %s", between, counts[s], weft_top_state_name((weft_top_state_t)s));
    between = ",";
  }
  char clock[16] = "";
  const time_t seconds = (time_t)v->time;
  struct tm local;
  if (localtime_r(&seconds, &local) != NULL) strftime(clock, sizeof clock, "%H:%M:%S", &local);
  weft_strbuf_printf(&line, "   every %g s   %s", v->every, clock);
  add_line(t, weft_str_of(line.data, line.length), WEFT_TOP_PLAIN);
  t->has_failed = t->has_failed || line.failed;
  weft_strbuf_deinit(&line);
}

void weft_top_table_make(const weft_top_view_t *v, const weft_top_table_options_t *o, weft_top_table_t *out) {
  *out = (weft_top_table_t){.arena = WEFT_ARENA_INIT};
  int *order = weft_arena_calloc(&out->arena, (size_t)v->num_tasks + 1, sizeof *order);
  if (order == NULL) {
    out->has_failed = true;
    return;
  }
  weft_top_sort(v, o->order, order);
  add_summary(out, v);
  add_line(out, WEFT_STR(""), WEFT_TOP_PLAIN);
  add_tasks(out, v, order);
  if (o->shows_memory) {
    add_line(out, WEFT_STR(""), WEFT_TOP_PLAIN);
    add_memory(out, v, order);
  }
  if (o->shows_traffic) {
    add_line(out, WEFT_STR(""), WEFT_TOP_PLAIN);
    add_traffic(out, v);
  }
  if (!o->shows_nodes) return;
  add_line(out, WEFT_STR(""), WEFT_TOP_PLAIN);
  add_nodes(out, v);
}

void weft_top_table_deinit(weft_top_table_t *t) {
  weft_arena_deinit(&t->arena);
  *t = (weft_top_table_t){.arena = WEFT_ARENA_INIT};
}
