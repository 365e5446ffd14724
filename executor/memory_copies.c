/* executor/memory_copies.c - puts copies into a graph where an edge joins two memories.
 *
 * A node's inputs and outputs lie in the memory of its device, but for those that its kernel wants in the
 * host's, and for strings, handles and variants, which always lie there. An output that is wanted in another
 * memory is copied once for all its consumers there. References are not copied: their ends are on one device.
 *
 * What a _Send sends to another task is not copied: it is copied when that task asks for it, and in parts if
 * they can be sent one by one. Likewise a _Recv from another task gives a tensor in the memory of its device,
 * if all its consumers want it there: it may come in parts.
 *
 * A Merge knows its loop by the Enter and the NextIteration that it gets its values from, so those move to
 * its device, and the copy stands before them.
 */
#include "base/alloc.h"
#include "device/device_name.h"
#include "executor/plan.h"

/* Copies of one output. */
typedef struct copy {
  weft_output_t of;
  const weft_memory_space_t *space;
  weft_node_t *node;
  struct copy *next; /* of the same node */
} copy_t;

typedef struct copier {
  weft_graph_t *g;
  const weft_plan_options_t *o;
  weft_device_t *host; /* the device of nodes that copy to the host's memory */
  copy_t **copies;     /* owned; by the producer's id */
  int num_nodes;       /* before there are copies */
  bool *to_device;     /* owned; by id: a _Recv whose output lies in its device's memory */
  weft_arena_t arena;
} copier_t;

bool weft_plan_spans_memories(const weft_plan_options_t *o) {
  bool spans = o->device->space != NULL;
  for (int i = 0; i < o->num_devices && !spans; i++) spans = o->devices[i]->space != NULL;
  return spans;
}

static bool is_reference(int dtype) { return weft_dtype_is_ref(dtype); }

/* Where an argument lies; is_host: as the kernel's row says. */
static const weft_memory_space_t *space_of(const weft_device_t *d, int dtype, bool is_host) {
  if (d->space == NULL || !weft_dtype_is_plain(weft_dtype_base(dtype))) return NULL;
  return is_host ? NULL : d->space;
}

static weft_status_t *space_of_output(copier_t *c, const weft_node_t *n, int i,
                                      const weft_memory_space_t **out) {
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_plan_find_device(c->o, n, &d));
  const weft_kernel_t *k = d->space == NULL ? NULL : weft_plan_find_kernel(c->o, n, d);
  const bool is_host = k != NULL && weft_kernel_is_host(k->host_outputs, i) && !c->to_device[n->id];
  *out = space_of(d, n->output_types[i], is_host);
  return NULL;
}

static weft_status_t *space_of_input(copier_t *c, const weft_node_t *n, int i,
                                     const weft_memory_space_t **out) {
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_plan_find_device(c->o, n, &d));
  const weft_kernel_t *k = d->space == NULL ? NULL : weft_plan_find_kernel(c->o, n, d);
  *out = space_of(d, n->input_types[i], k != NULL && weft_kernel_input_is_host(k, i, n->num_inputs));
  return NULL;
}

static weft_status_t *make_copy(copier_t *c, weft_output_t of, const weft_memory_space_t *space,
                                weft_node_t **out) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s/_copy_to_%s", WEFT_STR_ARGS(of.node->name),
                     space == NULL ? "host" : "device");
  weft_str_t unique =
      name.failed ? weft_str_of(NULL, 0) : weft_graph_unique_name(c->g, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  if (unique.data == NULL) return WEFT_NO_MEMORY("copying the output of %s", of.node->name.data);
  const weft_node_spec_t spec = {
      .name = unique, .op = WEFT_STR("_WeftMemoryCopy"), .inputs = &of, .num_inputs = 1};
  WEFT_RETURN_IF_ERROR(weft_graph_add(c->g, &spec, out));
  (*out)->assigned_device = space == NULL ? c->host->name : space->device->name;
  return NULL;
}

static weft_status_t *copy_of(copier_t *c, weft_output_t of, const weft_memory_space_t *space,
                              weft_node_t **out) {
  copy_t **at = &c->copies[of.node->id];
  for (; *at != NULL; at = &(*at)->next) {
    if ((*at)->of.index != of.index || (*at)->space != space) continue;
    *out = (*at)->node;
    return NULL;
  }
  copy_t *copy = weft_arena_calloc(&c->arena, 1, sizeof *copy);
  if (copy == NULL) return WEFT_NO_MEMORY("copying the output of %s", of.node->name.data);
  WEFT_RETURN_IF_ERROR(make_copy(c, of, space, out));
  *copy = (copy_t){.of = of, .space = space, .node = *out};
  *at = copy;
  return NULL;
}

/* Its Enter and NextIteration come to where the Merge is. */
static weft_status_t *gather_loop(copier_t *c, const weft_node_t *merge) {
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_plan_find_device(c->o, merge, &d));
  for (int i = 0; i < merge->num_inputs; i++) {
    weft_node_t *from = merge->inputs[i].node;
    if ((from->flags & (WEFT_OP_ENTER | WEFT_OP_NEXT_ITERATION)) != 0) from->assigned_device = d->name;
  }
  return NULL;
}

/* Does a _Send or _Recv join two tasks? */
static bool joins_tasks(const weft_node_t *n) {
  const weft_attr_t *from = weft_node_attr(n, "send_device"), *to = weft_node_attr(n, "recv_device"),
                    *to_client = weft_node_attr(n, "client_terminated");
  if (from == NULL || to == NULL || to_client == NULL || to_client->b) return false;
  return !weft_str_eq(weft_device_task_part(from->s), weft_device_task_part(to->s));
}

static bool leaves_task(const weft_node_t *n) { return weft_str_is(n->op->name, "_Send") && joins_tasks(n); }
static bool enters_task(const weft_node_t *n) { return weft_str_is(n->op->name, "_Recv") && joins_tasks(n); }

/* Its input may lie in any memory. */
static bool takes_any(const weft_node_t *n, int i) { return i == 0 && leaves_task(n); }

static weft_status_t *join_memories(copier_t *c, weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_memory_space_t *from = NULL, *to = NULL;
    if (is_reference(n->input_types[i]) || takes_any(n, i)) continue;
    WEFT_RETURN_IF_ERROR(space_of_input(c, n, i, &to));
    WEFT_RETURN_IF_ERROR(space_of_output(c, n->inputs[i].node, n->inputs[i].index, &from));
    if (from == to) continue;
    weft_node_t *copy = NULL;
    WEFT_RETURN_IF_ERROR(copy_of(c, n->inputs[i], to, &copy));
    weft_graph_set_input(n, i, (weft_output_t){copy, 0});
  }
  return NULL;
}

/* Finds what is received for devices alone. */
static weft_status_t *mark_received(copier_t *c) {
  weft_node_t *const *nodes = c->g->nodes;
  for (int i = 0; i < c->num_nodes; i++) {
    weft_device_t *d = NULL;
    if (nodes[i] == NULL || !enters_task(nodes[i])) continue;
    WEFT_RETURN_IF_ERROR(weft_plan_find_device(c->o, nodes[i], &d));
    c->to_device[i] = d->space != NULL && weft_dtype_is_plain(weft_dtype_base(nodes[i]->output_types[0]));
  }
  for (int i = 0; i < c->num_nodes; i++) {
    for (int k = 0; nodes[i] != NULL && k < nodes[i]->num_inputs; k++) {
      const weft_node_t *from = nodes[i]->inputs[k].node;
      const weft_memory_space_t *to = NULL;
      weft_device_t *d = NULL;
      if (!c->to_device[from->id] || takes_any(nodes[i], k)) continue;
      WEFT_RETURN_IF_ERROR(weft_plan_find_device(c->o, from, &d));
      WEFT_RETURN_IF_ERROR(space_of_input(c, nodes[i], k, &to));
      if (to != d->space) c->to_device[from->id] = false;
    }
  }
  const weft_attr_t yes = {.kind = WEFT_ATTR_BOOL, .b = true};
  for (int i = 0; i < c->num_nodes; i++) {
    if (c->to_device[i]) WEFT_RETURN_IF_ERROR(weft_graph_set_attr(c->g, nodes[i], WEFT_RECV_TO_DEVICE, &yes));
  }
  return NULL;
}

static weft_status_t *insert(copier_t *c) {
  const int num_nodes = c->g->num_nodes; /* copies come behind them */
  c->num_nodes = num_nodes;
  c->host = c->o->device->space == NULL ? c->o->device : NULL;
  for (int i = 0; i < c->o->num_devices && c->host == NULL; i++) {
    if (c->o->devices[i]->space == NULL) c->host = c->o->devices[i];
  }
  if (c->host == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "a plan on %.*s needs a device of the host, too",
                      WEFT_STR_ARGS(c->o->device->name));
  c->copies = weft_calloc((size_t)num_nodes + 1, sizeof *c->copies);
  c->to_device = weft_calloc((size_t)num_nodes + 1, sizeof *c->to_device);
  if (c->copies == NULL || c->to_device == NULL)
    return WEFT_NO_MEMORY("the copies of a graph of %d nodes", num_nodes);
  for (int i = 0; i < num_nodes; i++) {
    if (c->g->nodes[i] != NULL && (c->g->nodes[i]->flags & WEFT_OP_MERGE) != 0)
      WEFT_RETURN_IF_ERROR(gather_loop(c, c->g->nodes[i]));
  }
  WEFT_RETURN_IF_ERROR(mark_received(c));
  for (int i = 0; i < num_nodes; i++) {
    if (c->g->nodes[i] != NULL) WEFT_RETURN_IF_ERROR(join_memories(c, c->g->nodes[i]));
  }
  return NULL;
}

weft_status_t *weft_plan_insert_copies(const weft_plan_options_t *o, weft_graph_t *g) {
  copier_t c = {.g = g, .o = o, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = insert(&c);
  weft_free(c.copies);
  weft_free(c.to_device);
  weft_arena_deinit(&c.arena);
  return s;
}
