/* strategies/explain.c - a rewrite told to people: notes, what goes where, what is sent, what it costs. */
#include <inttypes.h>

#include "base/alloc.h"
#include "strategies/strategy.h"

enum { SHOWN_CROSSINGS = 64 }; /* lines of a table that people still read */

static weft_status_t *no_memory(void) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory to explain a strategy");
}

static void print_lanes(const weft_rewrite_t *r, weft_strbuf_t *out) {
  weft_strbuf_printf(
      out, "lanes: %d%s\n", r->num_lanes,
      r->num_lanes > 1 ? (r->splits_batch ? ", sharing each batch" : ", taking batches in turn") : "");
  for (int i = 0; i < r->num_lanes && r->num_lanes > 1; i++) {
    const weft_lane_t *lane = &r->lanes[i];
    weft_strbuf_printf(out, "  %.*s%s%.*s%s\n", WEFT_STR_ARGS(lane->name),
                       lane->task.length > 0 ? " on " : "", WEFT_STR_ARGS(lane->task),
                       lane->kind == WEFT_LANE_UPDATE ? " (updates)" : "");
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
    weft_strbuf_printf(out, "  %-48.*s %6d nodes  %4d variables\n", WEFT_STR_ARGS(counts[i].device),
                       counts[i].nodes, counts[i].variables);
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
  if (r->num_crossings > SHOWN_CROSSINGS)
    weft_strbuf_printf(out, "  and %d more\n", r->num_crossings - SHOWN_CROSSINGS);
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
