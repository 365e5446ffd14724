/* strategies/replicate_measure.c - what is sent in a step, and what that costs.
 *
 * An output that is wanted on another device crosses once per device, however many
 * take it there. A collective over N ranks moves 2(N-1)/N of its bytes out of each rank (ring: reference 3.1).
 */
#include "base/alloc.h"
#include "strategies/replication.h"

/* What a message costs where nobody has measured: between threads of one process, and between tasks. */
static const double LOCAL_SECONDS = 5e-6, LOCAL_BYTES_PER_SECOND = 5e9, REMOTE_SECONDS = 5e-5, REMOTE_BYTES_PER_SECOND = 1e9;

typedef struct measuring {
  weft_replication_t *r;
  bool *reached;       /* owned; by id of the new graph */
  weft_node_t **stack; /* owned */
  int n;
  weft_map_t seen;     /* of texts in the arena */
  double seconds_each, bytes_per_second;
} measuring_t;

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for measuring a rewrite"); }

static void visit(measuring_t *k, weft_node_t *n) {
  if (n == NULL || k->reached[n->id]) return;
  k->reached[n->id] = true;
  k->stack[k->n++] = n;
}

static void mark_step(measuring_t *k) {
  const weft_prepared_t *p = &k->r->source;
  for (int i = 0; i < p->num_roots; i++) {
    if (!p->roots[i].is_init) visit(k, weft_graph_find(k->r->to, p->roots[i].node->name));
  }
  while (k->n > 0) {
    const weft_node_t *at = k->stack[--k->n];
    for (int i = 0; i < at->num_inputs; i++) visit(k, at->inputs[i].node);
    for (int i = 0; i < at->num_controls; i++) visit(k, at->controls[i]);
  }
}

static weft_status_t *add(measuring_t *k, weft_str_t from, weft_str_t to, weft_str_t what, int64_t bytes, int64_t messages) {
  weft_cost_t *cost = &k->r->out->cost;
  cost->messages += messages;
  if (bytes > 0) cost->bytes += bytes;
  return weft_rewrite_crossing(k->r->out, from, to, what, bytes);
}

static weft_status_t *measure_edge(measuring_t *k, weft_output_t from, const weft_node_t *to) {
  if (weft_str_eq(from.node->requested_device, to->requested_device)) return NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%.*s:%d ", WEFT_STR_ARGS(from.node->name), from.index);
  weft_strbuf_append(&b, to->requested_device);
  weft_str_t key = b.failed ? weft_str_of(NULL, 0) : weft_arena_str(&k->r->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (key.data == NULL) return no_memory();
  void *old = NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put(&k->seen, key, k, &old));
  if (old != NULL) return NULL;
  int64_t bytes = weft_static_bytes_of(from);
  k->r->out->cost.seconds += k->seconds_each + (bytes > 0 ? (double)bytes / k->bytes_per_second : 0);
  return add(k, from.node->requested_device, to->requested_device, from.node->name, bytes, 1);
}

static weft_status_t *measure_sum(measuring_t *k, int number) {
  weft_replication_t *r = k->r;
  int64_t n = r->n, whole = weft_static_bytes_of(r->sums[number]->inputs[0]);
  int64_t bytes = whole < 0 ? -1 : 2 * (n - 1) * whole / n;
  if (!k->reached[r->sums[number]->id]) return NULL;
  r->out->cost.seconds +=
      2.0 * (double)(n - 1) * k->seconds_each + (bytes > 0 ? (double)bytes / k->bytes_per_second : 0);
  for (int i = 0; i < r->n; i++) {
    WEFT_RETURN_IF_ERROR(add(k, r->o->devices[i], r->o->devices[(i + 1) % r->n], r->sum_names[number], bytes, 2 * (n - 1)));
  }
  return NULL;
}

static weft_str_t task_part(weft_str_t device) {
  ptrdiff_t at = -1;
  for (size_t i = 0; i + 8 <= device.length && at < 0; i++) {
    if (memcmp(device.data + i, "/device:", 8) == 0) at = (ptrdiff_t)i;
  }
  return at < 0 ? device : weft_str_of(device.data, (size_t)at);
}

static void choose_link(measuring_t *k, const weft_cluster_view_t *c) {
  bool is_local = true;
  for (int i = 1; i < k->r->n; i++) {
    is_local = is_local && weft_str_eq(task_part(k->r->o->devices[i]), task_part(k->r->o->devices[0]));
  }
  k->seconds_each = is_local ? LOCAL_SECONDS : c != NULL && c->link_seconds > 0 ? c->link_seconds : REMOTE_SECONDS;
  k->bytes_per_second = is_local                                      ? LOCAL_BYTES_PER_SECOND
                        : c != NULL && c->link_bytes_per_second > 0 ? c->link_bytes_per_second
                                                                    : REMOTE_BYTES_PER_SECOND;
}

static weft_status_t *measure_all(measuring_t *k) {
  weft_replication_t *r = k->r;
  for (int i = 0; i < r->num_sums; i++) WEFT_RETURN_IF_ERROR(measure_sum(k, i));
  for (int id = 0; id < r->to->num_nodes; id++) {
    const weft_node_t *n = r->to->nodes[id];
    for (int i = 0; n != NULL && k->reached[id] && i < n->num_inputs; i++) WEFT_RETURN_IF_ERROR(measure_edge(k, n->inputs[i], n));
  }
  for (int id = 0; id < r->source.graph->num_nodes; id++) {
    const weft_node_t *n = r->source.graph->nodes[id];
    if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0 || r->o->variables != WEFT_VARIABLES_MIRRORED) continue;
    const weft_attr_t *shape = weft_node_attr(n, "shape");
    int64_t count = shape != NULL && shape->shape != NULL ? weft_shape_count(shape->shape) : -1;
    if (count > 0)
      r->out->cost.bytes_per_replica += count * (int64_t)weft_dtype_size(weft_node_attr_type(n, "dtype"));
  }
  return NULL;
}

weft_status_t *weft_replication_measure(weft_replication_t *r, const weft_cluster_view_t *cluster) {
  size_t n = (size_t)r->to->num_nodes + 1;
  measuring_t k = {.r = r, .reached = weft_calloc(n, sizeof *k.reached), .stack = weft_calloc(n, sizeof(*k.stack))};
  weft_status_t *s = k.reached == NULL || k.stack == NULL ? no_memory() : NULL;
  if (s == NULL) {
    choose_link(&k, cluster);
    mark_step(&k);
    s = measure_all(&k);
  }
  weft_map_deinit(&k.seen);
  weft_free(k.reached);
  weft_free(k.stack);
  return s;
}
