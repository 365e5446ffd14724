/* tools/strategy/graph_map.c - nodes to boxes, edges to arrows. */
#include "tools/strategy/graph_map.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "device/device_name.h"
#include "graph/collective_node.h"
#include "tensor/dtype.h"

typedef struct box {
  weft_str_t device; /* without the task: "CPU:0"; "" */
  weft_str_t scope;
  int task, num_nodes, num_variables;
} box_t;
typedef struct arrow {
  int from, to;
  int64_t bytes;
  int num_tensors;
  bool is_unknown, is_control; /* some bytes are not known; nothing but control edges */
  bool is_collective;          /* what members of a group send each other, as on a ring */
} arrow_t;

typedef struct map { /* Confined. */
  weft_arena_t arena;
  const weft_graph_t *graph;
  int64_t rows;
  weft_map_t task_index, box_index, arrow_index, sent; /* key -> number + 1 as a pointer */
  weft_str_t *tasks;
  box_t *boxes;
  arrow_t *arrows;
  int num_tasks, num_boxes, num_arrows, task_capacity, box_capacity, arrow_capacity;
  int *box_of; /* by node id */
} map_t;

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a drawing"); }

/* Room for one more of `size` bytes. */
static bool grow(void *array, int n, int *capacity, size_t size) {
  void **items = array;
  if (n < *capacity) return true;
  int more = *capacity == 0 ? 16 : 2 * *capacity;
  void *larger = weft_realloc(*items, (size_t)more, size);
  if (larger == NULL) return false;
  *items = larger;
  *capacity = more;
  return true;
}

/* The number of `key`, or -1 with the key entered as number `next`. */
static weft_status_t *number_of(weft_map_t *index, weft_arena_t *arena, weft_str_t key, int next, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get(index, key);
  *out = (int)known - 1;
  if (known != 0) return NULL;
  weft_str_t own = weft_arena_str(arena, key);
  if (own.data == NULL) return no_memory();
  return weft_map_put(index, own, (void *)(uintptr_t)(next + 1), NULL);
}

/* ---- boxes ---- */

static weft_str_t device_of(const weft_node_t *n) { return n->assigned_device.length > 0 ? n->assigned_device : n->requested_device; }

static weft_status_t *task_of(map_t *m, weft_str_t device, int *out) {
  weft_str_t task = device.length == 0 ? WEFT_STR("any device") : weft_device_task_part(device);
  WEFT_RETURN_IF_ERROR(number_of(&m->task_index, &m->arena, task, m->num_tasks, out));
  if (*out >= 0) return NULL;
  if (!grow(&m->tasks, m->num_tasks, &m->task_capacity, sizeof *m->tasks)) return no_memory();
  weft_str_t own = weft_arena_str(&m->arena, task);
  if (own.data == NULL) return no_memory();
  *out = m->num_tasks++;
  m->tasks[*out] = own;
  return NULL;
}

/* The first part of the name; below a replica's or worker's own scope, the second, too. */
static weft_str_t scope_of(weft_str_t name) {
  ptrdiff_t slash = weft_str_find(name, '/');
  if (slash < 0) return name;
  bool is_copy = weft_str_starts_with(name, "replica_") || weft_str_starts_with(name, "worker_");
  if (!is_copy) return weft_str_of(name.data, (size_t)slash);
  weft_str_t rest = weft_str_of(name.data + slash + 1, name.length - (size_t)slash - 1);
  return weft_str_of(name.data, (size_t)slash + 1 + scope_of(rest).length);
}

static weft_status_t *box_of(map_t *m, const weft_node_t *n, int *out) {
  weft_str_t device = device_of(n), scope = scope_of(n->name);
  size_t task_length = device.length == 0 ? 0 : weft_device_task_part(device).length;
  weft_str_t rest = weft_str_of(device.data + task_length, device.length - task_length);
  if (weft_str_starts_with(rest, "/device:")) rest = weft_str_of(rest.data + 8, rest.length - 8);
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  int task = 0;
  weft_strbuf_printf(&key, "%.*s|%.*s", WEFT_STR_ARGS(device), WEFT_STR_ARGS(scope));
  weft_status_t *s = key.failed ? no_memory() : task_of(m, device, &task);
  if (s == NULL) s = number_of(&m->box_index, &m->arena, weft_str_of(key.data, key.length), m->num_boxes, out);
  if (s == NULL && *out < 0 && !grow(&m->boxes, m->num_boxes, &m->box_capacity, sizeof *m->boxes)) s = no_memory();
  if (s == NULL && *out < 0) {
    *out = m->num_boxes++;
    m->boxes[*out] = (box_t){.device = rest, .scope = scope, .task = task};
  }
  weft_strbuf_deinit(&key);
  if (s != NULL) return s;
  m->boxes[*out].num_nodes++;
  m->boxes[*out].num_variables += (n->flags & WEFT_OP_VARIABLE) != 0;
  return NULL;
}

/* ---- arrows ---- */

static int64_t bytes_of(const map_t *m, weft_output_t o) {
  if (o.node->output_shapes == NULL || weft_dtype_is_ref(o.node->output_types[o.index])) return -1;
  const weft_shape_t *shape = &o.node->output_shapes[o.index];
  int64_t size = (int64_t)weft_dtype_size((weft_dtype_t)o.node->output_types[o.index]), n = 1;
  if (shape->rank < 0 || size == 0) return -1;
  for (int d = 0; d < shape->rank; d++) {
    int64_t dim = shape->dims[d] < 0 && d == 0 && m->rows > 0 ? m->rows : shape->dims[d];
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n)) return -1;
  }
  return __builtin_mul_overflow(n, size, &n) ? -1 : n;
}

/* A tensor crosses once to each task, however many want it there. */
static weft_status_t *is_first(map_t *m, weft_output_t from, int to_task, bool *out) {
  char key[80];
  int known;
  snprintf(key, sizeof key, "%d:%d>%d", from.node->id, from.index, to_task);
  WEFT_RETURN_IF_ERROR(number_of(&m->sent, &m->arena, weft_str(key), 0, &known));
  *out = known < 0;
  return NULL;
}

static weft_status_t *add_arrow(map_t *m, weft_output_t from, const weft_node_t *to, bool is_control) {
  int a = m->box_of[from.node->id], b = m->box_of[to->id], at;
  if (a == b) return NULL;
  char key[64];
  snprintf(key, sizeof key, "%d>%d", a, b);
  WEFT_RETURN_IF_ERROR(number_of(&m->arrow_index, &m->arena, weft_str(key), m->num_arrows, &at));
  if (at < 0) {
    if (!grow(&m->arrows, m->num_arrows, &m->arrow_capacity, sizeof *m->arrows)) return no_memory();
    at = m->num_arrows++;
    m->arrows[at] = (arrow_t){.from = a, .to = b, .is_control = true};
  }
  arrow_t *arrow = &m->arrows[at];
  if (is_control) return NULL;
  arrow->is_control = false;
  bool counts = true;
  if (m->boxes[a].task != m->boxes[b].task) WEFT_RETURN_IF_ERROR(is_first(m, from, m->boxes[b].task, &counts));
  int64_t bytes = bytes_of(m, from);
  if (!counts) return NULL;
  arrow->num_tensors++;
  arrow->is_unknown = arrow->is_unknown || bytes < 0;
  arrow->bytes += bytes > 0 ? bytes : 0;
  return NULL;
}

/* ---- collectives: no edges of the graph, but bytes all the same ---- */

typedef struct group { /* members of one instance, in the order of nodes */
  int *boxes;
  int num, capacity;
  int64_t bytes; /* of one member's tensor; -1 unknown */
} group_t;

static weft_status_t *add_member(map_t *m, weft_map_t *groups, const weft_node_t *n) {
  weft_collective_keys_t keys;
  char text[64];
  if (n == NULL || !weft_node_collective_keys(n, &keys) || n->num_outputs == 0) return NULL;
  snprintf(text, sizeof text, "%" PRId64 "/%" PRId64, keys.group_key, keys.instance_key);
  group_t *g = weft_map_get(groups, weft_str(text));
  if (g == NULL) {
    weft_str_t own = weft_arena_str(&m->arena, weft_str(text));
    g = weft_arena_calloc(&m->arena, 1, sizeof *g);
    if (g == NULL || own.data == NULL) return no_memory();
    g->bytes = bytes_of(m, (weft_output_t){(weft_node_t *)(uintptr_t)n, 0});
    WEFT_RETURN_IF_ERROR(weft_map_put(groups, own, g, NULL));
  }
  if (!grow(&g->boxes, g->num, &g->capacity, sizeof *g->boxes)) return no_memory();
  g->boxes[g->num++] = m->box_of[n->id];
  return NULL;
}

/* Each member sends 2 (N - 1) / N of its tensor to the next. */
static weft_status_t *add_ring(map_t *m, const group_t *g) {
  for (int i = 0; g->num > 1 && i < g->num; i++) {
    int from = g->boxes[i], to = g->boxes[(i + 1) % g->num], at;
    char key[64];
    if (from == to) continue;
    snprintf(key, sizeof key, "%d=>%d", from, to);
    WEFT_RETURN_IF_ERROR(number_of(&m->arrow_index, &m->arena, weft_str(key), m->num_arrows, &at));
    if (at < 0) {
      if (!grow(&m->arrows, m->num_arrows, &m->arrow_capacity, sizeof *m->arrows)) return no_memory();
      at = m->num_arrows++;
      m->arrows[at] = (arrow_t){.from = from, .to = to, .is_collective = true};
    }
    m->arrows[at].num_tensors++;
    m->arrows[at].is_unknown = m->arrows[at].is_unknown || g->bytes < 0;
    m->arrows[at].bytes += g->bytes < 0 ? 0 : 2 * (g->num - 1) * g->bytes / g->num;
  }
  return NULL;
}

static weft_status_t *add_collectives(map_t *m) {
  weft_map_t groups = WEFT_MAP_INIT;
  weft_map_entry_t e;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < m->graph->num_nodes; i++) s = add_member(m, &groups, m->graph->nodes[i]);
  for (size_t at = 0; s == NULL && weft_map_next(&groups, &at, &e);) s = add_ring(m, e.value);
  for (size_t at = 0; weft_map_next(&groups, &at, &e);) weft_free(((group_t *)e.value)->boxes);
  weft_map_deinit(&groups);
  return s;
}

static weft_status_t *read_graph(map_t *m) {
  const weft_graph_t *g = m->graph;
  m->box_of = weft_calloc((size_t)g->num_nodes + 1, sizeof *m->box_of);
  if (m->box_of == NULL) return no_memory();
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL) WEFT_RETURN_IF_ERROR(box_of(m, g->nodes[i], &m->box_of[i]));
  }
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    for (int k = 0; n != NULL && k < n->num_inputs; k++) WEFT_RETURN_IF_ERROR(add_arrow(m, n->inputs[k], n, false));
    for (int k = 0; n != NULL && k < n->num_controls; k++) {
      WEFT_RETURN_IF_ERROR(add_arrow(m, (weft_output_t){n->controls[k], -1}, n, true));
    }
  }
  return add_collectives(m);
}

/* ---- text ---- */

static void put_quotable(weft_strbuf_t *out, weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '"' || s.data[i] == '\\') weft_strbuf_putc(out, '\\');
    weft_strbuf_putc(out, s.data[i]);
  }
}

static void put_bytes(weft_strbuf_t *out, const arrow_t *a) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)a->bytes;
  int unit = 0;
  for (; value >= 1000 && unit < 4; unit++) value /= 1000;
  if (a->bytes > 0 || !a->is_unknown) weft_strbuf_printf(out, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  if (a->is_unknown) weft_strbuf_puts(out, a->bytes > 0 ? " + ?" : "?");
}

static void put_box(weft_strbuf_t *out, int number, const box_t *b) {
  weft_strbuf_printf(out, "    b%d [label=\"", number);
  put_quotable(out, b->scope);
  if (b->num_nodes > 1) weft_strbuf_printf(out, "\\n%d nodes", b->num_nodes);
  if (b->num_variables > 0) weft_strbuf_printf(out, ", %d variable%s", b->num_variables, b->num_variables == 1 ? "" : "s");
  if (b->device.length > 0) weft_strbuf_printf(out, "\\n%.*s", WEFT_STR_ARGS(b->device));
  weft_strbuf_printf(out, "\"%s];\n", b->num_variables > 0 ? ", style=filled, fillcolor=\"#fdf0d0\"" : "");
}

static void put_arrow(weft_strbuf_t *out, const map_t *m, const arrow_t *a) {
  bool crosses = m->boxes[a->from].task != m->boxes[a->to].task;
  weft_strbuf_printf(out, "  b%d -> b%d [", a->from, a->to);
  if (a->is_collective) {
    weft_strbuf_puts(out, "penwidth=2, color=\"#3050b0\", fontcolor=\"#3050b0\", constraint=false, label=\"");
    put_bytes(out, a);
    weft_strbuf_puts(out, "\"");
  } else if (a->is_control) {
    weft_strbuf_puts(out, "style=dashed, color=gray60");
  } else if (crosses && a->num_tensors == 0) { /* all of it is there already, for another box */
    weft_strbuf_puts(out, "penwidth=2, color=\"#b03030\", style=dotted");
  } else if (crosses) {
    weft_strbuf_puts(out, "penwidth=2, color=\"#b03030\", fontcolor=\"#b03030\", label=\"");
    put_bytes(out, a);
    weft_strbuf_puts(out, "\"");
  } else {
    weft_strbuf_puts(out, "color=gray40");
  }
  weft_strbuf_puts(out, "];\n");
}

static void put_drawing(const map_t *m, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "digraph weft {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n"
                        "  edge [fontname=\"sans-serif\", fontsize=9];\n");
  for (int t = 0; t < m->num_tasks; t++) {
    weft_strbuf_printf(out, "  subgraph cluster_%d {\n    style=rounded; label=\"", t);
    put_quotable(out, m->tasks[t]);
    weft_strbuf_puts(out, "\";\n");
    for (int b = 0; b < m->num_boxes; b++) {
      if (m->boxes[b].task == t) put_box(out, b, &m->boxes[b]);
    }
    weft_strbuf_puts(out, "  }\n");
  }
  for (int i = 0; i < m->num_arrows; i++) put_arrow(out, m, &m->arrows[i]);
  weft_strbuf_puts(out, "}\n");
}

weft_status_t *weft_graph_map(const weft_graph_t *g, int64_t rows, weft_strbuf_t *out) {
  map_t m = {.arena = WEFT_ARENA_INIT, .graph = g, .rows = rows};
  m.task_index = m.box_index = m.arrow_index = m.sent = (weft_map_t)WEFT_MAP_INIT;
  weft_status_t *s = read_graph(&m);
  if (s == NULL) put_drawing(&m, out);
  weft_map_deinit(&m.task_index);
  weft_map_deinit(&m.box_index);
  weft_map_deinit(&m.arrow_index);
  weft_map_deinit(&m.sent);
  weft_free(m.tasks);
  weft_free(m.boxes);
  weft_free(m.arrows);
  weft_free(m.box_of);
  weft_arena_deinit(&m.arena);
  return s == NULL && out->failed ? no_memory() : s;
}
