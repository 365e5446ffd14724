/* master/client_graph.c - prune while copying: only what is reachable from fetches and targets is cloned.
 *
 * A walk backwards from the roots marks nodes; it stops at fed outputs. Then
 * the marked nodes are cloned, and inputs from fed outputs are wired to their
 * _Recv. The session's graph is only read, so many signatures can be built at once.
 */
#include "master/client_graph.h"

#include "base/alloc.h"
#include "graph/function.h"
#include "rendezvous/rendezvous.h"

typedef struct fed_value {
  weft_output_t from; /* in the full graph */
  weft_output_t by;   /* in the full graph: of a tensor connection; node NULL for a feed */
  weft_str_t name;
  weft_node_t *recv;      /* in the new graph */
  struct fed_value *next; /* of the same node */
} fed_value_t;

typedef struct client_graph_build {
  const weft_graph_t *full;
  const weft_signature_t *signature;
  const weft_session_device_t *client;
  const weft_kernel_support_t *kernels; /* NULL: nothing is checked */
  weft_graph_t *g;
  weft_node_t **clones; /* by id of the full graph; NULL: not needed */
  bool *is_needed;      /* by id */
  const weft_node_t **stack;
  int top;
  fed_value_t *feds; /* feeds, then connections */
  int num_feds;
  weft_map_t fed_nodes; /* node id of the full graph -> fed_value_t chain */
} client_graph_build_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a step's graph"); }

static weft_node_t *find_node(const weft_graph_t *full, weft_str_t text, int *index) {
  weft_str_t name;
  return weft_tensor_name_parse(text, &name, index) ? weft_graph_find(full, name) : NULL;
}

static weft_status_t *find_feed(const weft_graph_t *full, weft_str_t text, weft_output_t *out) {
  int index;
  weft_node_t *n = find_node(full, text, &index);
  if (n == NULL)
    return WEFT_ERROR(NOT_FOUND, "FeedInputs: unable to find feed output %.*s", WEFT_STR_ARGS(text));
  if (index >= n->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "FeedInputs: %.*s should have output index < %d", WEFT_STR_ARGS(text),
                      n->num_outputs);
  }
  *out = (weft_output_t){n, index};
  return NULL;
}

/* "^name" is a control output, which has no value. */
static weft_status_t *not_a_tensor(const weft_node_t *n) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Attempt to add output -1 of %.*s not in range [0, %d) to node with type _Send. Node: {{node %.*s}}",
      WEFT_STR_ARGS(n->name), n->num_outputs, WEFT_STR_ARGS(n->name));
}

static weft_status_t *find_fetch(const weft_graph_t *full, weft_str_t text, weft_output_t *out) {
  int index;
  if (text.length > 1 && text.data[0] == '^') {
    const weft_node_t *controlled = weft_graph_find(full, weft_str_of(text.data + 1, text.length - 1));
    if (controlled != NULL) return not_a_tensor(controlled);
  }
  weft_node_t *n = find_node(full, text, &index);
  if (n == NULL) return WEFT_ERROR(NOT_FOUND, "FetchOutputs node %.*s: not found", WEFT_STR_ARGS(text));
  *out = (weft_output_t){n, index};
  if ((n->flags & WEFT_OP_UNREGISTERED) != 0) return NULL; /* refused for what it is, not for its outputs */
  if (n->num_outputs == 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Tried to fetch data for '%.*s', which produces no output.  To run to a node but not fetch any data, "
        "pass '%.*s' as an argument to the 'target_node_names' argument of the Session::Run API.",
        WEFT_STR_ARGS(text), WEFT_STR_ARGS(text));
  }
  if (index >= n->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "FetchOutputs %.*s: output index too large, must be < %d",
                      WEFT_STR_ARGS(text), n->num_outputs);
  }
  return NULL;
}

static fed_value_t *fed_of(const client_graph_build_t *b, weft_output_t o) {
  if (b->num_feds == 0) return NULL;
  fed_value_t *f = weft_map_get_u64(&b->fed_nodes, (uint64_t)o.node->id);
  while (f != NULL && f->from.index != o.index) f = f->next;
  return f;
}

static weft_status_t *add_fed(client_graph_build_t *b, weft_str_t name, const weft_str_t *by) {
  fed_value_t *f = &b->feds[b->num_feds];
  f->name = name;
  WEFT_RETURN_IF_ERROR(find_feed(b->full, name, &f->from));
  if (by != NULL) {
    int index;
    weft_node_t *n = find_node(b->full, *by, &index);
    if (n == NULL || index >= n->num_outputs) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Requested tensor connection from unknown node: \"%.*s\".",
                        WEFT_STR_ARGS(name));
    }
    f->by = (weft_output_t){n, index};
  }
  if (fed_of(b, f->from) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Endpoint \"%.*s\" fed more than once.", WEFT_STR_ARGS(name));
  }
  f->next = weft_map_get_u64(&b->fed_nodes, (uint64_t)f->from.node->id);
  b->num_feds++;
  return weft_map_put_u64(&b->fed_nodes, (uint64_t)f->from.node->id, f, NULL);
}

static weft_status_t *add_feds(client_graph_build_t *b) {
  const weft_signature_t *s = b->signature;
  b->feds = weft_calloc((size_t)s->num_feeds + (size_t)s->num_connections, sizeof *b->feds);
  if (b->feds == NULL) return no_memory();
  for (int i = 0; i < s->num_feeds; i++) WEFT_RETURN_IF_ERROR(add_fed(b, s->feeds[i], NULL));
  for (int i = 0; i < s->num_connections; i++) {
    WEFT_RETURN_IF_ERROR(add_fed(b, s->connections_to[i], &s->connections_from[i]));
  }
  return NULL;
}

/* ---- what is needed ---- */

static void need(client_graph_build_t *b, const weft_node_t *n) {
  if (b->is_needed[n->id]) return;
  b->is_needed[n->id] = true;
  b->stack[b->top++] = n; /* each node is pushed once: num_nodes is room enough */
}

static void need_output(client_graph_build_t *b, weft_output_t o) {
  fed_value_t *f = fed_of(b, o);
  if (f == NULL) {
    need(b, o.node);
  } else if (f->by.node != NULL) {
    need(b, f->by.node);
  }
}

/* A node that waits for a fed placeholder waits for what replaces it: the placeholder never runs. NULL: not a
 * fed placeholder. */
static fed_value_t *fed_placeholder(const client_graph_build_t *b, weft_node_t *n) {
  return (n->flags & WEFT_OP_PLACEHOLDER) == 0 ? NULL : fed_of(b, (weft_output_t){n, 0});
}

static void need_control(client_graph_build_t *b, weft_node_t *n) {
  if (fed_placeholder(b, n) == NULL) {
    need(b, n);
  } else {
    need_output(b, (weft_output_t){n, 0});
  }
}

/* All that are missing are named at once. */
static weft_status_t *need_targets(client_graph_build_t *b) {
  weft_strbuf_t missing = WEFT_STRBUF_INIT;
  const weft_signature_t *s = b->signature;
  for (int i = 0; i < s->num_targets; i++) {
    weft_str_t name = s->targets[i];
    int index; /* of no meaning: a node runs as a whole */
    if (name.length > 1 && name.data[0] == '^') name = weft_str_of(name.data + 1, name.length - 1);
    weft_node_t *n = find_node(b->full, name, &index);
    if (n != NULL) need(b, n);
    if (n == NULL) weft_strbuf_printf(&missing, "%.*s ", WEFT_STR_ARGS(s->targets[i]));
  }
  weft_status_t *status = NULL;
  if (missing.failed) status = no_memory();
  if (status == NULL && missing.length > 0) {
    status = WEFT_ERROR(NOT_FOUND, "PruneForTargets: Some target nodes not found: %s", missing.data);
  }
  weft_strbuf_deinit(&missing);
  return status;
}

static weft_status_t *mark(client_graph_build_t *b) {
  const weft_signature_t *s = b->signature;
  for (int i = 0; i < s->num_fetches; i++) {
    weft_output_t from;
    WEFT_RETURN_IF_ERROR(find_fetch(b->full, s->fetches[i], &from));
    if (fed_of(b, from) != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%.*s is both fed and fetched.", WEFT_STR_ARGS(s->fetches[i]));
    }
    need_output(b, from);
  }
  WEFT_RETURN_IF_ERROR(need_targets(b));
  while (b->top > 0) {
    const weft_node_t *n = b->stack[--b->top];
    if (b->kernels != NULL && n->assigned_device.length == 0) return b->kernels->missing(n);
    for (int i = 0; i < n->num_inputs; i++) need_output(b, n->inputs[i]);
    for (int i = 0; i < n->num_controls; i++) need_control(b, n->controls[i]);
  }
  return NULL;
}

/* ---- the new graph ---- */

void weft_client_key(weft_strbuf_t *out, const weft_session_device_t *client, weft_str_t tensor) {
  weft_key_print(out, client->attributes.name, client->attributes.incarnation, client->attributes.name,
                 tensor, 0, 0);
}

/* Adds "_recv_<node>_<index>" or "_send_<node>_<index>". */
static weft_status_t *add_transfer(client_graph_build_t *b, const char *op, const char *prefix,
                                   weft_str_t tensor, weft_output_t o, int dtype, const weft_output_t *input,
                                   weft_node_t **out) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%s%.*s_%d", prefix, WEFT_STR_ARGS(o.node->name), o.index);
  weft_str_t unique =
      name.failed ? (weft_str_t){NULL, 0} : weft_graph_unique_name(b->g, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  weft_str_t device = weft_graph_intern(b->g, b->client->attributes.name);
  if (unique.data == NULL || device.data == NULL) return no_memory();
  weft_named_attr_t attrs[] = {
      {WEFT_STR("tensor_name"), {.kind = WEFT_ATTR_STRING, .s = tensor}},
      {WEFT_STR("send_device"), {.kind = WEFT_ATTR_STRING, .s = device}},
      {WEFT_STR("recv_device"), {.kind = WEFT_ATTR_STRING, .s = device}},
      {WEFT_STR("send_device_incarnation"),
       {.kind = WEFT_ATTR_INT, .i = (int64_t)b->client->attributes.incarnation}},
      {WEFT_STR("client_terminated"), {.kind = WEFT_ATTR_BOOL, .b = true}},
      {input == NULL ? WEFT_STR("tensor_type") : WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = dtype}},
  };
  weft_node_spec_t spec = {.name = unique,
                           .op = weft_str(op),
                           .device = device,
                           .inputs = input,
                           .num_inputs = input == NULL ? 0 : 1,
                           .attrs = attrs,
                           .num_attrs = 6};
  WEFT_RETURN_IF_ERROR(weft_graph_add(b->g, &spec, out));
  (*out)->assigned_device = device;
  return NULL;
}

static weft_status_t *clone_needed(client_graph_build_t *b) {
  WEFT_RETURN_IF_ERROR(weft_graph_create(&b->g));
  weft_function_library_release(b->g->library);
  b->g->library = weft_function_library_retain(b->full->library);
  b->g->producer = b->full->producer;
  b->g->min_consumer = b->full->min_consumer;
  int num_needed = 0;
  for (int i = 0; i < b->full->num_nodes; i++) num_needed += b->is_needed[i];
  WEFT_RETURN_IF_ERROR(weft_graph_reserve(b->g, num_needed));
  for (int i = 0; i < b->full->num_nodes; i++) {
    if (b->is_needed[i])
      WEFT_RETURN_IF_ERROR(weft_graph_clone_node(b->g, b->full, b->full->nodes[i], &b->clones[i]));
  }
  for (int i = 0; i < b->num_feds; i++) {
    fed_value_t *f = &b->feds[i];
    if (f->by.node != NULL) continue;
    int dtype = weft_dtype_base(f->from.node->output_types[f->from.index]);
    WEFT_RETURN_IF_ERROR(add_transfer(b, "_Recv", "_recv_", f->name, f->from, dtype, NULL, &f->recv));
  }
  return NULL;
}

static weft_output_t source(const client_graph_build_t *b, weft_output_t o) {
  fed_value_t *f = fed_of(b, o);
  if (f == NULL) return (weft_output_t){b->clones[o.node->id], o.index};
  if (f->by.node == NULL) return (weft_output_t){f->recv, 0};
  return (weft_output_t){b->clones[f->by.node->id], f->by.index};
}

/* A feed is a value: a node that writes through a reference cannot be given one. */
static weft_status_t *check_reference(const fed_value_t *f, const weft_node_t *n, int input) {
  int want = n->input_types[input];
  if (!weft_dtype_is_ref(want)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Input %d of node %.*s was passed %s from %.*s:0 incompatible with expected %s_ref.",
                    input, WEFT_STR_ARGS(n->name), weft_dtype_name(weft_dtype_base(want)),
                    WEFT_STR_ARGS(f->recv->name), weft_dtype_name(weft_dtype_base(want)));
}

/* A connection that brings another type than its consumer takes. */
static weft_status_t *check_type(const client_graph_build_t *b, const weft_node_t *n, int input) {
  weft_output_t from = n->inputs[input];
  const fed_value_t *f = fed_of(b, from);
  if (f != NULL && f->by.node == NULL) return check_reference(f, n, input);
  if (f == NULL) return NULL;
  int got = weft_dtype_base(f->by.node->output_types[f->by.index]),
      want = weft_dtype_base(n->input_types[input]);
  if (got == want) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Input %d of node %.*s was passed %s from _identity_%.*s_%d:0 incompatible with expected %s.", input,
      WEFT_STR_ARGS(n->name), weft_dtype_name(got), WEFT_STR_ARGS(from.node->name), from.index,
      weft_dtype_name(want));
}

/* A connection from behind what it feeds: no node could ever run. */
static weft_status_t *check_cycles(const client_graph_build_t *b) {
  if (b->signature->num_connections == 0) return NULL;
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(b->g, &order);
  weft_free(order);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  weft_status_free(s);
  const fed_value_t *f = &b->feds[b->signature->num_feeds];
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Requested Tensor connection between nodes \"%.*s\" and \"%.*s\" would create a cycle.",
                    WEFT_STR_ARGS(f->from.node->name), WEFT_STR_ARGS(f->by.node->name));
}

static weft_status_t *wire(client_graph_build_t *b) {
  for (int i = 0; i < b->full->num_nodes; i++) {
    const weft_node_t *n = b->full->nodes[i];
    weft_node_t *clone = b->clones[i];
    if (clone == NULL) continue;
    for (int k = 0; k < n->num_inputs; k++) {
      WEFT_RETURN_IF_ERROR(check_type(b, n, k));
      weft_graph_set_input(clone, k, source(b, n->inputs[k]));
    }
    for (int k = 0; k < n->num_controls; k++) {
      weft_node_t *from = n->controls[k];
      bool is_replaced = fed_placeholder(b, from) != NULL;
      weft_node_t *wait_for = is_replaced ? source(b, (weft_output_t){from, 0}).node : b->clones[from->id];
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(b->g, wait_for, clone));
    }
  }
  for (int i = 0; i < b->signature->num_fetches; i++) {
    weft_output_t from;
    WEFT_RETURN_IF_ERROR(find_fetch(b->full, b->signature->fetches[i], &from));
    weft_output_t input = source(b, from);
    weft_node_t *send;
    int dtype = weft_dtype_base(from.node->output_types[from.index]);
    WEFT_RETURN_IF_ERROR(
        add_transfer(b, "_Send", "_send_", b->signature->fetches[i], from, dtype, &input, &send));
  }
  return NULL;
}

weft_status_t *weft_client_graph_build(const weft_graph_t *full, const weft_signature_t *signature,
                                       const weft_session_device_t *client,
                                       const weft_kernel_support_t *kernels, weft_graph_t **out) {
  if (signature->num_fetches == 0 && signature->num_targets == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  }
  size_t n = (size_t)full->num_nodes + 1;
  client_graph_build_t b = {
      .full = full, .signature = signature, .client = client, .kernels = kernels, .fed_nodes = WEFT_MAP_INIT};
  b.clones = weft_calloc(n, sizeof(weft_node_t *));
  b.is_needed = weft_calloc(n, sizeof *b.is_needed);
  b.stack = weft_calloc(n, sizeof(weft_node_t *));
  weft_status_t *s = b.clones == NULL || b.is_needed == NULL || b.stack == NULL ? no_memory() : NULL;
  if (s == NULL) s = add_feds(&b);
  if (s == NULL) s = mark(&b);
  if (s == NULL) s = clone_needed(&b);
  if (s == NULL) s = wire(&b);
  if (s == NULL) s = check_cycles(&b);
  if (s == NULL) {
    *out = b.g;
    b.g = NULL;
  }
  weft_graph_destroy(b.g);
  weft_map_deinit(&b.fed_nodes);
  weft_free(b.feds);
  weft_free(b.clones);
  weft_free(b.is_needed);
  weft_free(b.stack);
  return s;
}

/* Needs an output; a feed must have been fed. */
static weft_status_t *need_fed(client_graph_build_t *b, weft_output_t o, const bool *is_fed) {
  const fed_value_t *f = fed_of(b, o);
  if (f != NULL && !is_fed[f - b->feds]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Fetch %.*s can't be computed from the feeds that have been fed so far.",
                      WEFT_STR_ARGS(f->name));
  }
  need_output(b, o);
  return NULL;
}

weft_status_t *weft_client_graph_check_fetch(const weft_graph_t *full, weft_str_t fetch,
                                             const weft_str_t *feeds, const bool *is_fed, int num_feeds) {
  size_t n = (size_t)full->num_nodes + 1;
  weft_signature_t signature = {.feeds = feeds, .num_feeds = num_feeds};
  client_graph_build_t b = {.full = full, .signature = &signature, .fed_nodes = WEFT_MAP_INIT};
  b.is_needed = weft_calloc(n, sizeof *b.is_needed);
  b.stack = weft_calloc(n, sizeof(weft_node_t *));
  weft_output_t from = {NULL, 0};
  weft_status_t *s = b.is_needed == NULL || b.stack == NULL ? no_memory() : add_feds(&b);
  if (s == NULL) s = find_fetch(full, fetch, &from);
  if (s == NULL) s = need_fed(&b, from, is_fed);
  while (s == NULL && b.top > 0) {
    const weft_node_t *at = b.stack[--b.top];
    for (int i = 0; s == NULL && i < at->num_inputs; i++) s = need_fed(&b, at->inputs[i], is_fed);
    for (int i = 0; s == NULL && i < at->num_controls; i++) {
      bool is_replaced = fed_placeholder(&b, at->controls[i]) != NULL;
      if (is_replaced) s = need_fed(&b, (weft_output_t){at->controls[i], 0}, is_fed);
      if (!is_replaced) need(&b, at->controls[i]);
    }
  }
  weft_map_deinit(&b.fed_nodes);
  weft_free(b.feds);
  weft_free(b.is_needed);
  weft_free(b.stack);
  return s;
}
