/* strategies/summary.c - adds up crossings by place and collectives by kind. */
#include "strategies/summary.h"

#include <stdlib.h>

#include "base/hash_map.h"
#include "strategies/traffic.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a summary"); }

/* ---- words ---- */

void weft_print_bytes(weft_strbuf_t *out, int64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1000 && unit < 4; unit++) value /= 1000;
  weft_strbuf_printf(out, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
}

void weft_print_flow(weft_strbuf_t *out, const weft_flow_t *f) {
  bool has_rows = f->row_bytes > 0, is_unknown = f->num_unknown > 0;
  if (f->bytes > 0 || (!has_rows && !is_unknown)) weft_print_bytes(out, f->bytes);
  if (has_rows) {
    if (f->bytes > 0) weft_strbuf_puts(out, " + ");
    int64_t tenths = (int64_t)(f->row_bytes * 10 + 0.5);
    if (tenths < 10000 && tenths % 10 != 0) {
      weft_strbuf_printf(out, "%.1f B", (double)tenths / 10);
    } else {
      weft_print_bytes(out, (tenths + 5) / 10);
    }
    weft_strbuf_puts(out, " a row");
  }
  if (is_unknown) weft_strbuf_puts(out, f->bytes > 0 || has_rows ? " + ?" : "?");
}

void weft_print_place(weft_strbuf_t *out, weft_str_t name) {
  weft_str_t job, rest, task, device;
  bool is_full = weft_str_starts_with(name, "/job:") &&
                 weft_str_split(weft_str_of(name.data + 5, name.length - 5), '/', &job, &rest) &&
                 weft_str_starts_with(rest, "replica:0/task:");
  if (!is_full) {
    weft_strbuf_append(out, name);
    return;
  }
  rest = weft_str_of(rest.data + 15, rest.length - 15);
  if (!weft_str_split(rest, '/', &task, &device)) {
    task = rest;
    device = weft_str_of("", 0);
  }
  bool is_local = weft_str_is(job, "localhost");
  if (!is_local) weft_strbuf_printf(out, "%.*s:%.*s", WEFT_STR_ARGS(job), WEFT_STR_ARGS(task));
  if (weft_str_starts_with(device, "device:")) device = weft_str_of(device.data + 7, device.length - 7);
  if (device.length > 0) weft_strbuf_printf(out, "%s%.*s", is_local ? "" : " ", WEFT_STR_ARGS(device));
  if (is_local && device.length == 0) weft_strbuf_puts(out, "this process");
}

const char *weft_collective_kind_name(weft_str_t op) {
  static const char *const names[] = {
      [WEFT_OP_NO_COLLECTIVE] = "collective",      [WEFT_OP_ALL_REDUCE] = "all-reduce",
      [WEFT_OP_REDUCE_SCATTER] = "reduce-scatter", [WEFT_OP_ALL_GATHER] = "all-gather",
      [WEFT_OP_BROADCAST_SEND] = "broadcast",      [WEFT_OP_BROADCAST_RECV] = "broadcast",
      [WEFT_OP_ALL_TO_ALL] = "all-to-all",         [WEFT_OP_WHOLE_REDUCE] = "reduction",
      [WEFT_OP_WHOLE_BROADCAST] = "broadcast"};
  const weft_op_def_t *def = weft_op_find(op);
  return names[def == NULL ? WEFT_OP_NO_COLLECTIVE : def->collective];
}

/* ---- sums ---- */

static void add_flow(weft_flow_t *f, int64_t bytes, double row_bytes, int64_t messages) {
  f->bytes += bytes > 0 ? bytes : 0;
  f->num_unknown += bytes < 0;
  f->row_bytes += row_bytes;
  f->messages += messages;
}

static weft_str_t name_of(const weft_summary_t *s, weft_str_t device) {
  if (device.length == 0) return WEFT_STR("any device");
  return s->is_by_task ? weft_traffic_task(device) : device;
}

static weft_status_t *place_of(weft_map_t *index, weft_summary_t *s, weft_str_t device,
                               weft_summary_place_t **out) {
  weft_str_t name = name_of(s, device);
  *out = weft_map_get(index, name);
  if (*out != NULL) return NULL;
  *out = &s->places[s->num_places++];
  **out = (weft_summary_place_t){.name = name};
  return weft_map_put(index, name, *out, NULL);
}

static bool has_several_tasks(const weft_rewrite_t *r) {
  weft_str_t first = {NULL, 0};
  for (int i = 0; i < r->num_crossings; i++) {
    if (r->crossings[i].is_remote) return true;
  }
  for (int id = 0; id < r->graph->num_nodes; id++) {
    const weft_node_t *n = r->graph->nodes[id];
    if (n == NULL || n->requested_device.length == 0) continue;
    weft_str_t task = weft_traffic_task(n->requested_device);
    if (first.data != NULL && !weft_str_eq(first, task)) return true;
    first = task;
  }
  return false;
}

static int64_t bytes_of_variable(const weft_node_t *n) {
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  int64_t count = shape != NULL && shape->shape != NULL ? weft_shape_count(shape->shape) : -1;
  return count < 0 ? 0 : count * (int64_t)weft_dtype_size(weft_node_attr_type(n, "dtype"));
}

static weft_status_t *count_nodes(const weft_rewrite_t *r, weft_map_t *index, weft_summary_t *s) {
  for (int id = 0; id < r->graph->num_nodes; id++) {
    const weft_node_t *n = r->graph->nodes[id];
    weft_summary_place_t *place;
    if (n == NULL) continue;
    WEFT_RETURN_IF_ERROR(place_of(index, s, n->requested_device, &place));
    place->num_nodes++;
    if ((n->flags & WEFT_OP_VARIABLE) == 0) continue;
    place->num_variables++;
    place->variable_bytes += bytes_of_variable(n);
    s->num_variables++;
    s->variable_bytes += bytes_of_variable(n);
  }
  return NULL;
}

/* Is there an equal number of variables on each replica's device, and none elsewhere? Copies of other workers
 * are in their own graphs. */
static void find_copies(const weft_rewrite_t *r, weft_summary_t *s) {
  int here = 0;
  s->is_copied = r->replicas.n > 0;
  for (int i = 0; i < r->replicas.n; i++) {
    int n = 0;
    bool is_here = false;
    for (int id = 0; id < r->graph->num_nodes; id++) {
      const weft_node_t *node = r->graph->nodes[id];
      if (node == NULL || !weft_str_eq(node->requested_device, r->replicas.items[i])) continue;
      is_here = true;
      n += (node->flags & WEFT_OP_VARIABLE) != 0;
    }
    here += is_here;
    if (is_here && n * here > s->num_variables) s->is_copied = false;
    if (is_here && n == 0 && s->num_variables > 0) s->is_copied = false;
  }
  s->is_copied = s->is_copied && here > 0 && s->num_variables % here == 0;
  if (!s->is_copied) return;
  s->num_variables /= here;
  s->variable_bytes /= here;
}

static weft_status_t *count_crossings(const weft_rewrite_t *r, weft_map_t *index, weft_summary_t *s) {
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    weft_summary_place_t *from, *to;
    WEFT_RETURN_IF_ERROR(place_of(index, s, c->from, &from));
    WEFT_RETURN_IF_ERROR(place_of(index, s, c->to, &to));
    if (from == to) continue;
    s->num_repeated += c->is_repeated;
    add_flow(&from->out, c->bytes, c->row_bytes, c->messages);
    add_flow(&to->in, c->bytes, c->row_bytes, c->messages);
    add_flow(&s->all, c->bytes, c->row_bytes, c->messages);
  }
  return NULL;
}

static void count_collectives(const weft_rewrite_t *r, weft_summary_t *s) {
  for (int i = 0; i < r->num_collectives; i++) {
    const weft_rewrite_collective_t *c = &r->collectives[i];
    const char *name = weft_collective_kind_name(c->op);
    int k = 0;
    while (k < s->num_kinds && strcmp(weft_collective_kind_name(s->kinds[k].op), name) != 0) k++;
    if (k == s->num_kinds) s->kinds[s->num_kinds++] = (weft_collective_kind_sum_t){.op = c->op};
    s->kinds[k].count++;
    add_flow(&s->kinds[k].values, c->bytes, c->row_bytes, 0);
  }
}

static int by_name(const void *a, const void *b) {
  return weft_str_compare(((const weft_summary_place_t *)a)->name, ((const weft_summary_place_t *)b)->name);
}

weft_status_t *weft_rewrite_summarize(const weft_rewrite_t *r, weft_arena_t *arena, weft_summary_t *out) {
  weft_map_t index = WEFT_MAP_INIT;
  *out = (weft_summary_t){.is_by_task = has_several_tasks(r)};
  size_t most = 1; /* places */
  const weft_node_t *last = NULL;
  for (int id = 0; id < r->graph->num_nodes; id++) {
    const weft_node_t *n = r->graph->nodes[id];
    if (n != NULL && (last == NULL || n->requested_device.data != last->requested_device.data)) most++;
    if (n != NULL) last = n;
  }
  most += 2 * (size_t)r->num_crossings;
  out->places = weft_arena_calloc(arena, most, sizeof *out->places);
  out->kinds = weft_arena_calloc(arena, (size_t)r->num_collectives + 1, sizeof *out->kinds);
  if (out->places == NULL || out->kinds == NULL) return no_memory();
  weft_status_t *s = count_nodes(r, &index, out);
  if (s == NULL) s = count_crossings(r, &index, out);
  if (out->num_places > 1) qsort(out->places, (size_t)out->num_places, sizeof *out->places, by_name);
  if (s == NULL) find_copies(r, out);
  if (s == NULL) count_collectives(r, out);
  for (int i = 0; i < r->num_loops; i++) {
    out->num_steps += r->loops[i].kind == WEFT_WORKER_LOOP_STEP;
    out->num_updates += r->loops[i].kind == WEFT_WORKER_LOOP_UPDATE;
  }
  weft_map_deinit(&index);
  return s;
}
