/* strategies/explain.c - a rewrite as text: a summary, and on request every value that is sent. */
#include <inttypes.h>

#include "strategies/strategy.h"
#include "strategies/summary.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("explaining a strategy"); }

enum { LABEL = 13, SHOWN_PLACES = 16, SHOWN_FEEDS = 8, SHOWN_SHARDINGS = 8 };

static void label(weft_strbuf_t *out, const char *text) { weft_strbuf_printf(out, "%-*s", LABEL, text); }

static void put_seconds(weft_strbuf_t *out, double s) {
  if (s < 1e-3) {
    weft_strbuf_printf(out, "%.0f us", s * 1e6);
  } else if (s < 1) {
    weft_strbuf_printf(out, "%.2f ms", s * 1e3);
  } else {
    weft_strbuf_printf(out, "%.2f s", s);
  }
}

/* ---- the summary ---- */

static void print_heading(const weft_rewrite_t *r, const weft_summary_t *s, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s: ", r->strategy->name);
  if (r->replicas.n > 0) {
    weft_strbuf_printf(out, "%d replica%s, ", r->replicas.n, r->replicas.n == 1 ? "" : "s");
    weft_print_place(out, r->replicas.items[0]);
    if (r->replicas.n > 1) weft_strbuf_puts(out, r->replicas.n == 2 ? " and " : " to ");
    if (r->replicas.n > 1) weft_print_place(out, r->replicas.items[r->replicas.n - 1]);
  } else {
    weft_strbuf_printf(out, "%d worker%s", s->num_steps, s->num_steps == 1 ? "" : "s");
  }
  weft_strbuf_putc(out, '\n');
}

static void print_variables(const weft_summary_t *s, weft_strbuf_t *out) {
  int holders = 0;
  for (int i = 0; i < s->num_places; i++) holders += s->places[i].num_variables > 0;
  label(out, "variables");
  if (s->num_variables == 0) {
    weft_strbuf_puts(out, "none\n");
    return;
  }
  weft_strbuf_printf(out, "%d, ", s->num_variables);
  weft_print_bytes(out, s->variable_bytes);
  if (s->is_copied) {
    weft_strbuf_puts(out, ", a copy on each replica");
  } else if (holders > 0 && holders <= 4) {
    const char *between = ", on ";
    for (int i = 0; i < s->num_places; i++) {
      if (s->places[i].num_variables == 0) continue;
      weft_strbuf_puts(out, between);
      weft_print_place(out, s->places[i].name);
      between = " and ";
    }
  } else if (holders > 0) {
    weft_strbuf_printf(out, ", on %d %s", holders, s->is_by_task ? "tasks" : "devices");
  }
  weft_strbuf_putc(out, '\n');
}

/* The feeds that are split by rows, and the rows of each replica. */
static void print_batch(const weft_rewrite_t *r, const weft_summary_t *s, weft_strbuf_t *out) {
  const weft_names_t *feeds =
      r->shared.n > 0 || r->replicas.n > 0 || r->num_loops == 0 ? &r->shared : &r->loops[0].feeds;
  label(out, "batch");
  if (feeds->n == 0) weft_strbuf_puts(out, "nothing that is fed has rows");
  for (int i = 0; i < feeds->n && i < SHOWN_FEEDS; i++) {
    weft_strbuf_printf(out, "%s%.*s", i == 0 ? "" : ", ", WEFT_STR_ARGS(feeds->items[i]));
  }
  if (feeds->n > SHOWN_FEEDS) weft_strbuf_printf(out, " and %d more", feeds->n - SHOWN_FEEDS);
  if (feeds->n > 0 && r->replicas.n > 0) {
    weft_strbuf_printf(out, ": each replica takes 1/%d of the rows", r->replicas.n);
  } else if (feeds->n > 0 && s->num_steps > 1) {
    weft_strbuf_puts(out, ": each worker is fed batches of its own");
  }
  weft_strbuf_putc(out, '\n');
}

/* Do both read the same? Of Counts, which elements count rows is not shown. */
static bool are_alike(const weft_axis_sharding_t *a, const weft_axis_sharding_t *b) {
  return weft_axis_sharding_eq(a, b) || (a->kind == WEFT_SHARDING_COUNTS && b->kind == WEFT_SHARDING_COUNTS);
}

static bool is_first_alike(const weft_rewrite_t *r, int i) {
  for (int k = 0; k < i; k++) {
    if (are_alike(&r->shardings[k].data, &r->shardings[i].data)) return false;
  }
  return true;
}

/* How many values have each sharding, in the order in which these first come. */
static void print_shardings(const weft_rewrite_t *r, weft_strbuf_t *out) {
  int num_shown = 0;
  if (r->num_shardings == 0) return;
  label(out, "shardings");
  for (int i = 0; i < r->num_shardings; i++) {
    const weft_axis_sharding_t *s = &r->shardings[i].data;
    int n = 0;
    if (num_shown == SHOWN_SHARDINGS || !is_first_alike(r, i)) continue;
    for (int k = i; k < r->num_shardings; k++) n += are_alike(s, &r->shardings[k].data);
    weft_strbuf_printf(out, "%s%d ", num_shown++ == 0 ? "" : "; ", n);
    weft_axis_sharding_print(s, out);
  }
  weft_strbuf_puts(out, num_shown == SHOWN_SHARDINGS ? "; and others\n" : "; others Replicate\n");
}

static void print_collectives(const weft_summary_t *s, weft_strbuf_t *out) {
  label(out, "collectives");
  if (s->num_kinds == 0) weft_strbuf_puts(out, "none");
  for (int i = 0; i < s->num_kinds; i++) {
    const weft_collective_kind_sum_t *k = &s->kinds[i];
    weft_strbuf_printf(out, "%s%d %s%s of ", i == 0 ? "" : ", ", k->count, weft_collective_kind_name(k->op),
                       k->count == 1 ? "" : "s");
    weft_print_flow(out, &k->values);
    if (k->count > 1) weft_strbuf_puts(out, " together");
  }
  weft_strbuf_putc(out, '\n');
}

static void pad(weft_strbuf_t *out, size_t start, size_t width) {
  while (out->length < start + width && !out->failed) weft_strbuf_putc(out, ' ');
}

static void print_places(const weft_summary_t *s, weft_strbuf_t *out) {
  enum { NAME = 16, FLOW = 28, VARIABLES = 19 };
  label(out, s->is_by_task ? "tasks" : "devices");
  size_t start = out->length;
  pad(out, start, NAME);
  weft_strbuf_puts(out, "in");
  pad(out, start, NAME + FLOW);
  weft_strbuf_puts(out, "out");
  pad(out, start, NAME + 2 * FLOW);
  weft_strbuf_puts(out, "variables            nodes\n");
  for (int i = 0; i < s->num_places && i < SHOWN_PLACES; i++) {
    const weft_summary_place_t *p = &s->places[i];
    label(out, "");
    start = out->length;
    weft_print_place(out, p->name);
    pad(out, start, NAME);
    weft_print_flow(out, &p->in);
    pad(out, start, NAME + FLOW);
    weft_print_flow(out, &p->out);
    pad(out, start, NAME + 2 * FLOW);
    size_t at = out->length;
    weft_strbuf_printf(out, "%d", p->num_variables);
    if (p->variable_bytes > 0) weft_strbuf_puts(out, ", ");
    if (p->variable_bytes > 0) weft_print_bytes(out, p->variable_bytes);
    pad(out, at, VARIABLES);
    weft_strbuf_printf(out, "%6d\n", p->num_nodes);
  }
  if (s->num_places > SHOWN_PLACES)
    weft_strbuf_printf(out, "%*sand %d more\n", LABEL, "", s->num_places - SHOWN_PLACES);
}

static void print_sum(const weft_rewrite_t *r, const weft_summary_t *s, weft_strbuf_t *out) {
  label(out, "sent");
  weft_print_flow(out, &s->all);
  weft_strbuf_printf(out, " in %" PRId64 " message%s between %s%s\n", s->all.messages,
                     s->all.messages == 1 ? "" : "s", s->is_by_task ? "tasks" : "devices",
                     s->num_steps > 1 ? ", for a step of each worker" : "");
  label(out, "predicted");
  put_seconds(out, r->cost.seconds);
  weft_strbuf_printf(out, " of communication in a step%s\n",
                     s->all.row_bytes > 0 ? ", plus the size of rows (--batch N counts them)" : "");
}

static void print_notes(const weft_rewrite_t *r, const weft_summary_t *s, weft_strbuf_t *out) {
  for (int i = 0; i < r->num_notes; i++) {
    label(out, i == 0 ? "notes" : "");
    weft_strbuf_printf(out, "%.*s\n", WEFT_STR_ARGS(r->notes[i]));
  }
  if (s->all.num_unknown > 0) {
    label(out, r->num_notes == 0 ? "notes" : "");
    weft_strbuf_printf(out, "%d value%s (?) %s of a size that is known only at run time\n",
                       s->all.num_unknown, s->all.num_unknown == 1 ? "" : "s",
                       s->all.num_unknown == 1 ? "is" : "are");
  }
  if (s->num_repeated > 0) {
    label(out, r->num_notes == 0 && s->all.num_unknown == 0 ? "notes" : "");
    weft_strbuf_printf(out, "%d value%s inside a loop: sent in each iteration, counted once\n",
                       s->num_repeated, s->num_repeated == 1 ? " is" : "s are");
  }
}

weft_status_t *weft_strategy_explain_rewrite(const weft_strategy_t *self, const weft_rewrite_t *r,
                                             weft_strbuf_t *out) {
  (void)self; /* all of them have places, crossings, notes and a cost */
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_summary_t summary;
  weft_status_t *s = weft_rewrite_summarize(r, &arena, &summary);
  if (s == NULL) {
    print_heading(r, &summary, out);
    print_variables(&summary, out);
    print_batch(r, &summary, out);
    print_shardings(r, out);
    print_collectives(&summary, out);
    print_places(&summary, out);
    print_sum(r, &summary, out);
    print_notes(r, &summary, out);
    if (out->failed) s = no_memory();
  }
  weft_arena_deinit(&arena);
  return s;
}

/* ---- details ---- */

static void print_loops(const weft_rewrite_t *r, weft_strbuf_t *out) {
  for (int i = 0; i < r->num_loops && r->num_loops > 1; i++) {
    const weft_worker_loop_t *loop = &r->loops[i];
    label(out, i == 0 ? "worker loops" : "");
    weft_strbuf_append(out, loop->name);
    if (loop->task.length > 0) weft_strbuf_printf(out, " on %.*s", WEFT_STR_ARGS(loop->task));
    weft_strbuf_printf(out, "%s\n", loop->kind == WEFT_WORKER_LOOP_UPDATE ? ", which updates" : "");
  }
}

weft_status_t *weft_strategy_print_details(const weft_rewrite_t *r, weft_strbuf_t *out) {
  print_loops(r, out);
  for (int i = 0; i < r->num_shardings; i++) {
    weft_strbuf_printf(out, "%.*s: ", WEFT_STR_ARGS(r->shardings[i].value));
    weft_axis_sharding_print(&r->shardings[i].data, out);
    weft_strbuf_putc(out, '\n');
  }
  for (int i = 0; i < r->num_collectives; i++) {
    const weft_rewrite_collective_t *c = &r->collectives[i];
    const weft_flow_t value = {c->bytes > 0 ? c->bytes : 0, c->row_bytes, 0, c->bytes < 0};
    weft_strbuf_printf(out, "%s of %d: ", weft_collective_kind_name(c->op), c->size);
    weft_print_flow(out, &value);
    weft_strbuf_printf(out, ", %.*s\n", WEFT_STR_ARGS(c->what));
  }
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    const weft_flow_t flow = {c->bytes > 0 ? c->bytes : 0, c->row_bytes, 0, c->bytes < 0};
    if (c->kind == WEFT_CROSSING_COLLECTIVE) continue;
    weft_print_place(out, c->from);
    weft_strbuf_puts(out, " -> ");
    weft_print_place(out, c->to);
    weft_strbuf_puts(out, ": ");
    if (c->kind == WEFT_CROSSING_SIGNAL) {
      weft_strbuf_puts(out, "when done");
    } else {
      weft_print_flow(out, &flow);
    }
    weft_strbuf_printf(out, ", %.*s%s\n", WEFT_STR_ARGS(c->what), c->is_repeated ? " (in a loop)" : "");
  }
  return out->failed ? no_memory() : NULL;
}
