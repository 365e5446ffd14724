/* strategies/strategy.c - the list of strategies, and what is the same for all of them. */
#include "strategies/strategy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/passes.h"

enum { SHOWN_CROSSINGS = 64 }; /* lines of a table that people still read */

#define WEFT_STRATEGY(name) extern const weft_strategy_t weft_##name##_strategy;
#include "strategies/strategies.def"
#undef WEFT_STRATEGY

const weft_strategy_t *const weft_strategies[] = {
#define WEFT_STRATEGY(name) &weft_##name##_strategy,
#include "strategies/strategies.def"
#undef WEFT_STRATEGY
    NULL,
};

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the result of a strategy"); }

void weft_rewrite_deinit(weft_rewrite_t *r) {
  if (r == NULL) return;
  weft_graph_destroy(r->graph);
  weft_arena_deinit(&r->arena);
  *r = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
}

/* Makes room for element n of an array that grows by doubling at powers of two. NULL without memory. */
static void *grow(weft_arena_t *arena, void *items, int n, size_t size) {
  if (n > 0 && (n & (n - 1)) != 0) return items;
  char *bigger = weft_arena_calloc(arena, n == 0 ? 1 : (size_t)n * 2, size);
  if (bigger != NULL && n > 0) memcpy(bigger, items, (size_t)n * size);
  return bigger;
}

weft_status_t *weft_rewrite_note(weft_rewrite_t *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int length = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (length < 0) return WEFT_ERROR(INTERNAL, "a note cannot be formatted");
  char *text = weft_arena_calloc(&r->arena, (size_t)length + 1, 1);
  weft_str_t *notes = grow(&r->arena, r->notes, r->num_notes, sizeof *notes);
  if (text == NULL || notes == NULL) return no_memory();
  va_start(args, fmt);
  vsnprintf(text, (size_t)length + 1, fmt, args);
  va_end(args);
  r->notes = notes;
  r->notes[r->num_notes++] = weft_str_of(text, (size_t)length);
  return NULL;
}

weft_status_t *weft_rewrite_crossing(weft_rewrite_t *r, weft_str_t from, weft_str_t to, weft_str_t what, int64_t bytes) {
  weft_crossing_t *crossings = grow(&r->arena, r->crossings, r->num_crossings, sizeof *crossings);
  weft_crossing_t c = {weft_arena_str(&r->arena, from), weft_arena_str(&r->arena, to), weft_arena_str(&r->arena, what), bytes};
  if (crossings == NULL || c.from.data == NULL || c.to.data == NULL || c.what.data == NULL) return no_memory();
  r->crossings = crossings;
  r->crossings[r->num_crossings++] = c;
  return NULL;
}

weft_status_t *weft_strategy_find(weft_str_t text, const weft_strategy_t **out, weft_str_t *options) {
  weft_str_t name = text, rest = {"", 0};
  if (!weft_str_split(text, ':', &name, &rest)) rest = weft_str("");
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    if (weft_str_is(name, weft_strategies[i]->name)) {
      *out = weft_strategies[i];
      *options = rest;
      return NULL;
    }
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    weft_strbuf_printf(&b, "%s%s", i == 0 ? "" : ", ", weft_strategies[i]->name);
  }
  weft_status_t *s = WEFT_ERROR(NOT_FOUND, "no strategy '%.*s'; there are %s", WEFT_STR_ARGS(name),
                                b.failed || b.data == NULL ? "none" : b.data);
  weft_strbuf_deinit(&b);
  return s;
}

weft_status_t *weft_strategy_apply(weft_str_t text, const weft_strategy_request_t *r, weft_rewrite_t *out) {
  const weft_strategy_t *strategy = NULL;
  weft_strategy_request_t request = *r;
  WEFT_RETURN_IF_ERROR(weft_strategy_find(text, &strategy, &request.options));
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = strategy->rewrite(strategy, &request, out);
  if (s == NULL) s = weft_status_annotate(weft_pass_infer_shapes(out->graph), "in the graph that strategy %s made", strategy->name);
  if (s != NULL) weft_rewrite_deinit(out);
  if (s == NULL) out->strategy = strategy;
  return s;
}

weft_status_t *weft_strategy_explain(const weft_rewrite_t *r, weft_strbuf_t *out) {
  return r->strategy->explain(r->strategy, r, out);
}

weft_status_t *weft_strategy_probe_by_trial(const weft_strategy_t *self, const weft_strategy_request_t *r,
                                            weft_cost_t *out) {
  weft_rewrite_t trial = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = self->rewrite(self, r, &trial);
  if (s == NULL) *out = trial.cost;
  weft_rewrite_deinit(&trial);
  return s;
}

static void print_lanes(const weft_rewrite_t *r, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "lanes: %d%s\n", r->num_lanes,
                     r->num_lanes > 1 ? (r->splits_batch ? ", sharing each batch" : ", taking batches in turn") : "");
  for (int i = 0; i < r->num_lanes && r->num_lanes > 1; i++) {
    const weft_lane_t *lane = &r->lanes[i];
    weft_strbuf_printf(out, "  %.*s%s%.*s%s\n", WEFT_STR_ARGS(lane->name), lane->task.length > 0 ? " on " : "",
                       WEFT_STR_ARGS(lane->task), lane->kind == WEFT_LANE_UPDATE ? " (updates)" : "");
  }
}

typedef struct device_count {
  weft_str_t device;
  int nodes, variables;
} device_count_t;

/* What goes where: nodes and variables by the device that they ask for. */
static weft_status_t *print_devices(const weft_graph_t *g, weft_strbuf_t *out) {
  weft_map_t by_device = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  int n = 0;
  device_count_t *counts = weft_calloc((size_t)g->num_nodes + 1, sizeof *counts);
  if (counts == NULL) s = no_memory();
  for (int id = 0; id < g->num_nodes && s == NULL; id++) {
    const weft_node_t *node = g->nodes[id];
    if (node == NULL) continue;
    weft_str_t device = node->requested_device.length == 0 ? WEFT_STR("(anywhere)") : node->requested_device;
    device_count_t *count = weft_map_get(&by_device, device);
    if (count == NULL) {
      count = &counts[n++];
      count->device = device;
      s = weft_map_put(&by_device, device, count, NULL);
    }
    count->nodes++;
    if ((node->flags & WEFT_OP_VARIABLE) != 0) count->variables++;
  }
  if (s == NULL) weft_strbuf_puts(out, "devices:\n");
  for (int i = 0; i < n && s == NULL; i++) {
    weft_strbuf_printf(out, "  %-48.*s %6d nodes  %4d variables\n", WEFT_STR_ARGS(counts[i].device), counts[i].nodes,
                       counts[i].variables);
  }
  weft_map_deinit(&by_device);
  weft_free(counts);
  return s;
}

static void print_crossings(const weft_rewrite_t *r, weft_strbuf_t *out) {
  int64_t total = 0;
  bool is_exact = true;
  if (r->num_crossings == 0) return;
  weft_strbuf_puts(out, "sent in each step:\n");
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    is_exact = is_exact && c->bytes >= 0;
    if (c->bytes > 0) total += c->bytes;
    if (i >= SHOWN_CROSSINGS) continue;
    weft_strbuf_printf(out, "  %.*s -> %.*s: ", WEFT_STR_ARGS(c->from), WEFT_STR_ARGS(c->to));
    if (c->bytes < 0) {
      weft_strbuf_puts(out, "unknown size");
    } else {
      weft_strbuf_printf(out, "%" PRId64 " bytes", c->bytes);
    }
    weft_strbuf_printf(out, ", %.*s\n", WEFT_STR_ARGS(c->what));
  }
  if (r->num_crossings > SHOWN_CROSSINGS) weft_strbuf_printf(out, "  and %d more\n", r->num_crossings - SHOWN_CROSSINGS);
  weft_strbuf_printf(out, "  together %s%" PRId64 " bytes\n", is_exact ? "" : "at least ", total);
}

weft_status_t *weft_strategy_explain_rewrite(const weft_strategy_t *self, const weft_rewrite_t *r,
                                             weft_strbuf_t *out) {
  (void)self; /* all of them have notes, devices, crossings and a cost */
  for (int i = 0; i < r->num_notes; i++) weft_strbuf_printf(out, "%.*s\n", WEFT_STR_ARGS(r->notes[i]));
  print_lanes(r, out);
  WEFT_RETURN_IF_ERROR(print_devices(r->graph, out));
  print_crossings(r, out);
  weft_strbuf_printf(out,
                     "cost of a step: %.6f s of communication, %" PRId64 " bytes in %" PRId64
                     " messages; %" PRId64 " bytes of variables on each replica\n",
                     r->cost.seconds, r->cost.bytes, r->cost.messages, r->cost.bytes_per_replica);
  return out->failed ? no_memory() : NULL;
}
