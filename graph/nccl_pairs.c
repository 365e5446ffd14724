/* graph/nccl_pairs.c - NcclReduce and NcclBroadcast become one node on each of their devices.
 *
 *   NcclReduce(a on GPU:0, b on GPU:1) on GPU:0
 *     _NcclReduceRecv(a) on GPU:0, _NcclReduceSend(b) on GPU:1
 *   NcclBroadcast(a) on GPU:0, used on GPU:0 and GPU:1
 *     _NcclBroadcastSend(a) on GPU:0, where `a` itself is used; _NcclBroadcastRecv(Shape(a)) on GPU:1
 *
 * The nodes find each other by shared_name, the name of the node that they replace. What is used on a device
 * of another type or task is sent there like any other tensor.
 *
 * Source: TensorFlow's nccl/nccl_rewrite.cc.
 */
#include "base/alloc.h"
#include "graph/passes.h"

/* "/job:a/task:0/device:GPU:1" up to the number: equal for devices of one type in one task. */
static weft_str_t kind_of_place(const weft_node_t *n) {
  const weft_str_t device = n->assigned_device;
  const ptrdiff_t at = weft_str_rfind(device, ':');
  return at < 0 ? device : weft_str_of(device.data, (size_t)at);
}

static bool is_same_device(const weft_node_t *a, const weft_node_t *b) {
  return a->assigned_device.data == b->assigned_device.data;
}

static bool is_near(const weft_node_t *a, const weft_node_t *b) {
  return weft_str_eq(kind_of_place(a), kind_of_place(b));
}

/* What the nodes that replace `old` have in common. */
typedef struct pair_maker {
  weft_graph_t *g;
  weft_node_t *old;
  int num_devices;
} pair_maker_t;

/* A node "OLDsuffix" where `at` is, with the attributes of a member. */
static weft_status_t *add_member(const pair_maker_t *m, const char *op, const char *suffix,
                                 weft_output_t input, const weft_node_t *at, weft_node_t **out) {
  const weft_attr_t *reduction = weft_node_attr(m->old, "reduction");
  const weft_named_attr_t attrs[] = {
      {WEFT_STR("T"), *weft_node_attr(m->old, "T")},
      {WEFT_STR("num_devices"), {.kind = WEFT_ATTR_INT, .i = m->num_devices}},
      {WEFT_STR("shared_name"), {.kind = WEFT_ATTR_STRING, .s = m->old->name}},
      {WEFT_STR("reduction"), reduction == NULL ? (weft_attr_t){.kind = WEFT_ATTR_NONE} : *reduction}};
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s%s", WEFT_STR_ARGS(m->old->name), suffix);
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(m->g, weft_str_of(name.data, name.length)),
                                 .op = weft_str(op),
                                 .device = m->old->requested_device,
                                 .inputs = &input,
                                 .num_inputs = 1,
                                 .attrs = attrs,
                                 .num_attrs = reduction == NULL ? 3 : 4};
  weft_status_t *s = name.failed || spec.name.data == NULL
                         ? WEFT_NO_MEMORY("replacing %.*s", WEFT_STR_ARGS(m->old->name))
                         : weft_graph_add(m->g, &spec, out);
  weft_strbuf_deinit(&name);
  if (s == NULL) (*out)->assigned_device = at->assigned_device;
  return s;
}

static weft_status_t *copy_controls(const pair_maker_t *m, weft_node_t *to) {
  for (int i = 0; i < m->old->num_controls; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(m->g, m->old->controls[i], to));
  return NULL;
}

/* Puts `by` in the place of m->old as an input, or as a node to wait for. */
static weft_status_t *replace(const pair_maker_t *m, const weft_fanout_edge_t *e, weft_output_t by) {
  int at = -1;
  if (e->input >= 0) {
    weft_graph_set_input(e->to, e->input, by);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_graph_find_control(m->g, e->to, m->old, &at));
  return weft_graph_replace_control(m->g, e->to, at, by.node);
}

/* ---- a reduction ---- */

static weft_status_t *pair_reduce(weft_graph_t *g, weft_node_t *n, const weft_fanout_t *f) {
  const pair_maker_t m = {.g = g, .old = n, .num_devices = n->num_inputs};
  weft_node_t *recv = NULL, *send = NULL;
  int own = 0;
  while (own < n->num_inputs && !is_same_device(n->inputs[own].node, n)) own++;
  if (own == n->num_inputs)
    return WEFT_ERROR(INVALID_ARGUMENT, "No input tensor uses the same device as the NcclReduce op %.*s",
                      WEFT_STR_ARGS(n->name));
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if (i == own) continue;
    if (!is_near(from, n))
      return WEFT_ERROR(INVALID_ARGUMENT, "NcclReduce %.*s is on %.*s, but its input %d is on %.*s",
                        WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->assigned_device), i,
                        WEFT_STR_ARGS(from->assigned_device));
    WEFT_RETURN_IF_ERROR(add_member(&m, "_NcclReduceSend", "/Send", n->inputs[i], from, &send));
    WEFT_RETURN_IF_ERROR(copy_controls(&m, send));
  }
  WEFT_RETURN_IF_ERROR(add_member(&m, "_NcclReduceRecv", "/Recv", n->inputs[own], n, &recv));
  WEFT_RETURN_IF_ERROR(copy_controls(&m, recv));
  for (int k = f->begin[n->id]; k < f->begin[n->id + 1]; k++)
    WEFT_RETURN_IF_ERROR(replace(&m, &f->edges[k], (weft_output_t){recv, 0}));
  weft_graph_remove(g, n);
  return NULL;
}

/* ---- a broadcast ---- */

/* Is the edge's consumer one that gets the tensor by the broadcast? */
static bool is_far_member(const weft_fanout_edge_t *e, const weft_node_t *n) {
  return e->input >= 0 && !is_same_device(e->to, n) && is_near(e->to, n);
}

/* Its device has a consumer in an earlier edge. */
static bool is_repeated(const weft_fanout_t *f, int k, const weft_node_t *n) {
  for (int i = f->begin[n->id]; i < k; i++) {
    if (is_far_member(&f->edges[i], n) && is_same_device(f->edges[i].to, f->edges[k].to)) return true;
  }
  return false;
}

static weft_status_t *add_shape(const pair_maker_t *m, weft_output_t input, weft_node_t **out) {
  const weft_named_attr_t out_type = {WEFT_STR("out_type"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_I32}};
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s/Shape", WEFT_STR_ARGS(m->old->name));
  const weft_node_spec_t spec = {.name = weft_graph_unique_name(m->g, weft_str_of(name.data, name.length)),
                                 .op = WEFT_STR("Shape"),
                                 .device = m->old->requested_device,
                                 .inputs = &input,
                                 .num_inputs = 1,
                                 .attrs = &out_type,
                                 .num_attrs = 1};
  weft_status_t *s = name.failed || spec.name.data == NULL
                         ? WEFT_NO_MEMORY("replacing %.*s", WEFT_STR_ARGS(m->old->name))
                         : weft_graph_add(m->g, &spec, out);
  weft_strbuf_deinit(&name);
  if (s == NULL) (*out)->assigned_device = m->old->assigned_device;
  return s;
}

/* One receiver for each far device. */
static weft_status_t *add_receivers(const pair_maker_t *m, const weft_fanout_t *f, weft_node_t *shape) {
  weft_node_t *n = m->old, *recv = NULL;
  for (int k = f->begin[n->id]; k < f->begin[n->id + 1]; k++) {
    if (!is_far_member(&f->edges[k], n) || is_repeated(f, k, n)) continue;
    WEFT_RETURN_IF_ERROR(
        add_member(m, "_NcclBroadcastRecv", "/Recv", (weft_output_t){shape, 0}, f->edges[k].to, &recv));
    for (int i = k; i < f->begin[n->id + 1]; i++) {
      if (is_far_member(&f->edges[i], n) && is_same_device(f->edges[i].to, recv))
        WEFT_RETURN_IF_ERROR(replace(m, &f->edges[i], (weft_output_t){recv, 0}));
    }
  }
  return NULL;
}

static weft_status_t *pair_broadcast(weft_graph_t *g, weft_node_t *n, const weft_fanout_t *f) {
  const weft_output_t input = n->inputs[0];
  pair_maker_t m = {.g = g, .old = n, .num_devices = 1};
  weft_node_t *send = input.node, *shape = NULL;
  for (int k = f->begin[n->id]; k < f->begin[n->id + 1]; k++)
    m.num_devices += is_far_member(&f->edges[k], n) && !is_repeated(f, k, n);
  if (m.num_devices > 1) {
    WEFT_RETURN_IF_ERROR(add_member(&m, "_NcclBroadcastSend", "/Send", input, n, &send));
    WEFT_RETURN_IF_ERROR(copy_controls(&m, send));
    WEFT_RETURN_IF_ERROR(add_shape(&m, input, &shape));
    WEFT_RETURN_IF_ERROR(add_receivers(&m, f, shape));
  }
  for (int k = f->begin[n->id]; k < f->begin[n->id + 1]; k++) {
    const weft_fanout_edge_t *e = &f->edges[k];
    if (is_far_member(e, n)) continue;
    WEFT_RETURN_IF_ERROR(replace(&m, e, e->input >= 0 ? input : (weft_output_t){send, 0}));
    if (m.num_devices == 1) WEFT_RETURN_IF_ERROR(copy_controls(&m, e->to));
  }
  weft_graph_remove(g, n);
  return NULL;
}

weft_status_t *weft_pass_pair_nccl(weft_graph_t *g) {
  weft_status_t *s = NULL;
  for (int id = 0; s == NULL && id < g->num_nodes; id++) {
    weft_node_t *n = g->nodes[id];
    const bool is_reduce = n != NULL && n->op->collective == WEFT_OP_WHOLE_REDUCE;
    if (!is_reduce && (n == NULL || n->op->collective != WEFT_OP_WHOLE_BROADCAST)) continue;
    weft_fanout_t f; /* anew for each: what replaced one may be the next one's consumer */
    WEFT_RETURN_IF_ERROR(weft_fanout_build(g, &f));
    s = is_reduce ? pair_reduce(g, n, &f) : pair_broadcast(g, n, &f);
    weft_fanout_deinit(&f);
  }
  return s;
}
