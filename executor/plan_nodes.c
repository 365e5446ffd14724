/* executor/plan_nodes.c - turns each node of the graph into rows of the plan.
 *
 * First every node gets its kernel, kind and input slots; then the edges, which
 * the graph keeps at consumers, are turned round: counted, then filled in, in
 * the order of consumers, so that rows come out sorted by consumer; a second
 * pass sorts the few rows of nodes with several outputs by output.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/transfer.h"
#include "executor/commands.h"
#include "kernels/state.h"
#include "ops/updates.h"

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_NO_MEMORY("compiling node %s", n->name.data);
}

static uint16_t flags_of(const weft_node_t *n) {
  uint16_t f = 0;
  if (n->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) f |= NODE_RUNS_DEAD;
  if (n->flags & WEFT_OP_CONTROL_TRIGGER) f |= NODE_TRIGGER;
  if (n->flags & WEFT_OP_UNINIT_OK) f |= NODE_UNINIT_OK;
  if (n->flags & WEFT_OP_ENTER) f |= NODE_ENTER;
  if (n->flags & WEFT_OP_EXIT) f |= NODE_EXIT;
  if (n->flags & WEFT_OP_NEXT_ITERATION) f |= NODE_NEXT_ITERATION;
  if (n->flags & (WEFT_OP_SWITCH | WEFT_OP_RECV)) f |= NODE_MAY_LACK_OUTPUT;
  if (n->flags & (WEFT_OP_COMMUNICATION | WEFT_OP_RECV | WEFT_OP_SEND)) f |= NODE_COMMUNICATION;
  if ((n->flags & WEFT_OP_ENTER) && weft_node_attr_bool(n, "is_constant", false)) f |= NODE_CONST_ENTER;
  for (int i = 0; i < n->num_inputs; i++) {
    weft_output_t from = n->inputs[i];
    if (weft_dtype_is_ref(from.node->output_types[from.index])) f |= NODE_REF_INPUT;
  }
  return f;
}

static node_kind_t kind_of(const weft_plan_options_t *o, const weft_node_t *n, const weft_device_t *d,
                           const weft_kernel_t *k) {
  if (n->flags & (WEFT_OP_NOOP | WEFT_OP_CONTROL_TRIGGER)) return NODE_NOOP;
  if ((n->flags & WEFT_OP_MERGE) && n->num_outputs == 2) return NODE_MERGE;
  if ((n->flags & WEFT_OP_CONST) && n->num_inputs == 0 && n->num_outputs == 1) {
    const weft_attr_t *value = weft_node_attr(n, "value");
    if (value != NULL && value->kind == WEFT_ATTR_TENSOR && !value->is_list && value->tensor != NULL)
      return NODE_CONST;
  }
  if (k != NULL && k->forwards && n->num_inputs == 1 && n->num_outputs == 1) return NODE_FORWARD;
  if (k != NULL && k->compute_async != NULL && (k->compute == NULL || weft_plan_spans_memories(o)))
    return NODE_ASYNC;
  return d->compute != NULL ? NODE_QUEUE : NODE_SYNC;
}

static weft_status_t *add_key(plan_builder_t *b, const weft_node_t *n, weft_str_t *keys, int *count) {
  const weft_attr_t *from = weft_node_attr(n, "send_device"), *to = weft_node_attr(n, "recv_device"),
                    *name = weft_node_attr(n, "tensor_name"),
                    *incarnation = weft_node_attr(n, "send_device_incarnation");
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_key_print(&text, from->s, (uint64_t)incarnation->i, to->s, name->s, 0, 0);
  keys[*count] = weft_arena_str(&b->plan->arena, weft_str_of(text.data, text.length));
  const bool ok = !text.failed && keys[*count].data != NULL;
  weft_strbuf_deinit(&text);
  if (!ok) return no_memory(n);
  ++*count;
  return NULL;
}

/* Notes the key of a node that receives in each step, from another device. */
static weft_status_t *add_receive(plan_builder_t *b, const weft_node_t *n, const plan_frame_t *f) {
  weft_plan_receives_t *r = &b->plan->receives;
  if ((n->flags & WEFT_OP_RECV) == 0 || f != &b->plan->frames[0]) return NULL;
  if (weft_node_attr_bool(n, "client_terminated", false)) return NULL;
  return add_key(b, n, r->keys, &r->n);
}

/* Marks the node if a client feeds or fetches by it. */
static weft_status_t *add_client_edge(plan_builder_t *b, const weft_node_t *n, const weft_device_t *d,
                                      const plan_frame_t *f, plan_node_t *out) {
  weft_client_edges_t *e = &b->plan->client_edges;
  const bool is_recv = weft_str_is(n->op->name, "_Recv"), is_send = weft_str_is(n->op->name, "_Send");
  if ((!is_recv && !is_send) || f != &b->plan->frames[0] || d->space != NULL) return NULL;
  if (!weft_node_attr_bool(n, "client_terminated", false)) return NULL;
  if (is_recv && out->kind == NODE_ASYNC) {
    out->flags |= NODE_FEED;
    out->aux = (uint32_t)e->num_feeds;
    return add_key(b, n, e->feeds, &e->num_feeds);
  }
  if (is_send && out->kind == NODE_SYNC) {
    out->flags |= NODE_FETCH;
    out->aux = (uint32_t)e->num_fetches;
    return add_key(b, n, e->fetches, &e->num_fetches);
  }
  return NULL;
}

/* Does the node give the same handle in each step? One that waits for something may have to follow a deletion
 * in its own step. */
static bool lasts(const plan_builder_t *b, const weft_node_t *n, const weft_device_t *d,
                  const plan_frame_t *f, const plan_node_t *out) {
  if ((n->flags & WEFT_OP_VARIABLE) == 0 || out->kind != NODE_SYNC || n->num_inputs + n->num_controls > 0)
    return false;
  if (n->num_outputs != 1 || n->output_types[0] != WEFT_RESOURCE || f != &b->plan->frames[0]) return false;
  const weft_attr_t *name = weft_node_attr(n, "shared_name");
  return d == b->plan->device && name != NULL && name->kind == WEFT_ATTR_STRING &&
         !weft_str_is(name->s, WEFT_ANONYMOUS_VARIABLE);
}

/* Gives the node its places in its frame's block. */
static void place_in_frame(plan_builder_t *b, const weft_node_t *n, plan_node_t *out, plan_frame_t *f) {
  weft_exec_plan_t *p = b->plan;
  out->num_inputs = (uint32_t)n->num_inputs;
  out->num_outputs = (uint32_t)n->num_outputs;
  f->num_slots += out->num_inputs;
  if ((out->kind == NODE_SYNC || out->kind == NODE_QUEUE) && n->num_outputs > SCRATCH_OUTPUTS) {
    out->flags |= NODE_BIG_OUTPUTS;
    f->num_slots += out->num_outputs;
  }
  if (out->kind == NODE_COMMANDS) f->num_slots += weft_commands_extra_slots(&p->commands[out->extra]);
  if (out->kind == NODE_MERGE) out->extra = f->num_merges++;
  if (out->kind == NODE_ASYNC) {
    p->has_async = true;
    out->extra = (uint32_t)(f->async_bytes / ASYNC_UNIT);
    f->async_bytes += async_op_bytes((uint32_t)n->num_outputs);
  }
  if (out->kind == NODE_SYNC && !(n->flags & (WEFT_OP_CHEAP | WEFT_OP_SEND))) {
    out->flags |= NODE_COSTLY;
    out->extra = f->num_tasks++;
    out->aux = p->num_costs++;
  }
  if (out->flags & NODE_EXIT) out->extra = f->num_exits++;
  if (out->flags & NODE_NEXT_ITERATION) out->extra = f->num_next++;
}

static weft_status_t *prepare_kernel(plan_builder_t *b, const weft_node_t *n, uint32_t number,
                                     const weft_kernel_t *k) {
  weft_exec_plan_t *p = b->plan;
  weft_kernel_setup_t seen;
  weft_plan_describe(b, n, p->setups[number].node.device, k, &seen);
  plan_node_t *node = &p->nodes[number];
  const bool has_kernel = node->kind == NODE_SYNC || node->kind == NODE_QUEUE || node->kind == NODE_ASYNC;
  if (!has_kernel) seen.num_attrs = 0; /* what the executor does itself reads no attribute */
  weft_plan_setup_set(&seen, &p->setups[number]);
  p->instances[number].kernel = k;
  if (seen.num_attrs == 0 && k != NULL && k->prepare == NULL) return NULL;
  if (!has_kernel) return NULL;
  bool share = (n->flags & WEFT_OP_STATEFUL) && b->plan->segment != NULL && k->prepare != NULL &&
               !(n->flags & (WEFT_OP_SEND | WEFT_OP_RECV | WEFT_OP_ARG | WEFT_OP_RETVAL));
  weft_status_t *s = NULL;
  if (share) {
    s = weft_op_segment_instance(p->segment, k, &seen, &p->instances[number],
                                 &p->setups[number].shares_state);
  } else if (k->prepare != NULL) {
    s = k->prepare(&seen, &p->instances[number].state);
  }
  return weft_status_attach_node(s, n->name);
}

static weft_status_t *find_gradients(plan_builder_t *b) {
  b->feeds_update = weft_calloc((size_t)b->graph->num_nodes + 1, sizeof *b->feeds_update);
  if (b->feeds_update == NULL) return WEFT_NO_MEMORY("compiling a plan of %u nodes", b->plan->num_nodes);
  for (uint32_t i = 0; i < b->plan->num_nodes; i++) {
    const weft_node_t *n = b->order[i];
    weft_updates_t u = {.op = n->op, .n = (n->flags & WEFT_OP_UPDATE) != 0, .num_inputs = n->num_inputs};
    if (weft_str_is(n->op->name, "_WeftUpdates"))
      WEFT_RETURN_IF_ERROR(weft_updates_read(n->attrs, n->num_attrs, &u));
    const int gradient = u.op->update_grad_input;
    for (int k = 0; k < u.n && gradient >= 0 && gradient < u.num_inputs; k++) {
      const weft_output_t from = n->inputs[k * u.num_inputs + gradient];
      const found_commands_t *in = weft_command_buffers_find(b->buffers, from.node);
      b->feeds_update[in == NULL ? from.node->id : in->outputs[from.index].node->id] = true;
    }
  }
  return NULL;
}

static void add_queue(weft_exec_plan_t *p, weft_queue_t *q) {
  uint32_t i = 0;
  while (i < p->num_queues && p->queues[i] != q) i++;
  p->queues[i] = q;
  if (i == p->num_queues) p->num_queues++;
}

static weft_status_t *add_node(plan_builder_t *b, uint32_t number, plan_frame_t *f) {
  weft_exec_plan_t *p = b->plan;
  const weft_node_t *n = b->order[number];
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_plan_find_device(b->options, n, &d));
  p->setups[number].node.device = d;
  const weft_kernel_t *k = weft_plan_find_kernel(b->options, n, d);
  plan_node_t *out = &p->nodes[number];
  const found_commands_t *commands =
      weft_command_buffers_find(b->buffers, n); /* a _WeftCommands of anyone else's has no kernel */
  out->kind = (uint8_t)(commands != NULL ? NODE_COMMANDS : kind_of(b->options, n, d, k));
  if (k == NULL && (out->kind == NODE_SYNC || out->kind == NODE_QUEUE))
    return weft_kernel_missing(n->op, n->name, n->attrs, n->num_attrs);
  if (out->kind == NODE_COMMANDS) {
    out->extra = p->num_commands;
    WEFT_RETURN_IF_ERROR(weft_commands_compile(b, commands, &p->commands[p->num_commands++]));
  }
  if (out->kind == NODE_QUEUE || out->kind == NODE_COMMANDS) add_queue(p, d->compute);
  out->flags = flags_of(n);
  if (lasts(b, n, d, f, out)) out->flags |= NODE_LASTS;
  out->first_slot = f->first_slot + f->num_slots;
  place_in_frame(b, n, out, f);
  WEFT_RETURN_IF_ERROR(add_client_edge(b, n, d, f, out));
  WEFT_RETURN_IF_ERROR(add_receive(b, n, f));
  if (out->kind == NODE_CONST) {
    const bool is_host = k != NULL && weft_kernel_is_host(k->host_outputs, 0);
    out->extra = p->num_consts;
    WEFT_RETURN_IF_ERROR(weft_tensor_at_sync(weft_node_attr(n, "value")->tensor, is_host ? NULL : d->space,
                                             &p->consts[p->num_consts]));
    p->num_consts++;
  }
  bool is_merge = out->kind == NODE_MERGE;
  p->words[number] = (uint32_t)n->num_controls + (is_merge ? 1 : (uint32_t)n->num_inputs);
  return prepare_kernel(b, n, number, k);
}

/* Tables of the nodes that a frame must find by ordinal. */
static weft_status_t *add_frame_tables(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    plan_node_t *n = &p->nodes[i];
    if (!(n->flags & NODE_ENTER)) continue;
    n->aux = (uint32_t)b->entered[b->order[i]->id];
    if (n->flags & NODE_CONST_ENTER) n->extra = p->frames[n->aux].num_invariants++;
  }
  for (int f = 0; f < p->num_frames; f++) {
    plan_frame_t *frame = &p->frames[f];
    frame->invariants = weft_arena_calloc(&p->arena, frame->num_invariants, sizeof(uint32_t));
    frame->nexts = weft_arena_calloc(&p->arena, frame->num_next, sizeof(uint32_t));
    frame->exits = weft_arena_calloc(&p->arena, frame->num_exits, sizeof(uint32_t));
    if (frame->invariants == NULL || frame->nexts == NULL || frame->exits == NULL)
      return no_memory(b->order[0]);
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    const plan_node_t *n = &p->nodes[i];
    plan_frame_t *own = &p->frames[b->frame_of[b->order[i]->id]];
    if (n->flags & NODE_CONST_ENTER) p->frames[n->aux].invariants[n->extra] = i;
    if (n->flags & NODE_NEXT_ITERATION) own->nexts[n->extra] = i;
    if (n->flags & NODE_EXIT) own->exits[n->extra] = i;
  }
  return NULL;
}

static int by_output(const void *a, const void *b) {
  const plan_edge_t *x = a, *y = b;
  if (x->output != y->output) return x->output < y->output ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

static weft_status_t *count_edges(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  uint64_t edges = 0, controls = 0;
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    const weft_node_t *n = b->order[i];
    edges += (uint64_t)n->num_inputs;
    controls += (uint64_t)n->num_controls;
    for (int k = 0; k < n->num_inputs; k++) p->nodes[b->number[n->inputs[k].node->id] + 1].first_edge++;
    for (int k = 0; k < n->num_controls; k++) p->nodes[b->number[n->controls[k]->id] + 1].first_control++;
  }
  if (edges >= UINT32_MAX || controls >= UINT32_MAX)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a plan of too many edges");
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    p->nodes[i + 1].first_edge += p->nodes[i].first_edge;
    p->nodes[i + 1].first_control += p->nodes[i].first_control;
  }
  p->edges = weft_calloc((size_t)edges, sizeof *p->edges);
  p->controls = weft_calloc((size_t)controls, sizeof *p->controls);
  if (p->edges == NULL || p->controls == NULL) return WEFT_NO_MEMORY("compiling a plan's edges");
  return NULL;
}

/* Counts first, so that first_edge[i + 1] is where row i ends; then fills each row from its own cursor. */
static weft_status_t *add_edges(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  WEFT_RETURN_IF_ERROR(count_edges(b));
  uint32_t *edge_at = weft_calloc(p->num_nodes, sizeof *edge_at),
           *control_at = weft_calloc(p->num_nodes, sizeof *edge_at);
  if (edge_at == NULL || control_at == NULL) {
    weft_free(edge_at);
    weft_free(control_at);
    return WEFT_NO_MEMORY("compiling a plan's edges");
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    edge_at[i] = p->nodes[i].first_edge;
    control_at[i] = p->nodes[i].first_control;
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    const weft_node_t *n = b->order[i];
    uint32_t to = i | (p->nodes[i].kind == NODE_MERGE ? TO_MERGE : 0);
    for (int k = 0; k < n->num_inputs; k++) {
      uint32_t from = b->number[n->inputs[k].node->id];
      uint32_t output = (uint32_t)n->inputs[k].index;
      p->edges[edge_at[from]++] = (plan_edge_t){to, p->nodes[i].first_slot + (uint32_t)k, output};
      if (p->nodes[from].kind == NODE_MERGE && output == 1) p->nodes[from].flags |= NODE_INDEX_USED;
    }
    for (int k = 0; k < n->num_controls; k++) p->controls[control_at[b->number[n->controls[k]->id]]++] = to;
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    uint32_t first = p->nodes[i].first_edge, n = p->nodes[i + 1].first_edge - first;
    if (n > 1 && p->nodes[i].num_outputs > 1) qsort(&p->edges[first], n, sizeof *p->edges, by_output);
  }
  weft_free(edge_at);
  weft_free(control_at);
  return NULL;
}

/* How many nodes have one of `flags`. */
static size_t count_nodes(const plan_builder_t *b, uint64_t flags) {
  size_t count = 0;
  for (uint32_t i = 0; i < b->plan->num_nodes; i++) count += (b->order[i]->flags & flags) != 0;
  return count;
}

const weft_client_edges_t *weft_plan_client_edges(const weft_exec_plan_t *p) { return &p->client_edges; }
const weft_plan_receives_t *weft_plan_receives(const weft_exec_plan_t *p) { return &p->receives; }

weft_status_t *weft_plan_add_nodes(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  p->nodes = weft_calloc((size_t)p->num_nodes + 1, sizeof *p->nodes);
  p->words = weft_calloc(p->num_nodes, sizeof *p->words);
  p->setups = weft_calloc(p->num_nodes, sizeof *p->setups);
  p->instances = weft_calloc(p->num_nodes, sizeof *p->instances);
  p->consts = weft_calloc(count_nodes(b, WEFT_OP_CONST), sizeof(*p->consts));
  p->commands = weft_calloc(b->buffers == NULL ? 0 : (size_t)b->buffers->num_buffers, sizeof *p->commands);
  p->queues = weft_arena_calloc(&p->arena, (size_t)b->options->num_devices + 1, sizeof *p->queues);
  p->client_edges.feeds = weft_arena_calloc(&p->arena, count_nodes(b, WEFT_OP_RECV) + 1, sizeof(weft_str_t));
  p->client_edges.fetches =
      weft_arena_calloc(&p->arena, count_nodes(b, WEFT_OP_SEND) + 1, sizeof(weft_str_t));
  p->receives.keys = weft_arena_calloc(&p->arena, count_nodes(b, WEFT_OP_RECV) + 1, sizeof(weft_str_t));
  if (p->client_edges.feeds == NULL || p->client_edges.fetches == NULL || p->receives.keys == NULL)
    return WEFT_NO_MEMORY("compiling a plan of %u nodes", p->num_nodes);
  if (p->queues == NULL || p->nodes == NULL || p->words == NULL || p->setups == NULL ||
      p->instances == NULL || p->consts == NULL || p->commands == NULL) {
    return WEFT_NO_MEMORY("compiling a plan of %u nodes", p->num_nodes);
  }
  WEFT_RETURN_IF_ERROR(find_gradients(b));
  uint32_t slots = 0;
  for (int f = 0; f < p->num_frames; f++) {
    plan_frame_t *frame = &p->frames[f];
    frame->first_slot = slots;
    for (uint32_t i = 0; i < frame->num_nodes; i++)
      WEFT_RETURN_IF_ERROR(add_node(b, frame->first_node + i, frame));
    if (slots > UINT32_MAX - frame->num_slots)
      return WEFT_ERROR(RESOURCE_EXHAUSTED, "a plan of too many inputs");
    slots += frame->num_slots;
  }
  WEFT_RETURN_IF_ERROR(add_frame_tables(b));
  return add_edges(b);
}
