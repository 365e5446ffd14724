/* executor/node_run.c - runs one node: inputs, kernel, checks of what it made. */
#include "base/clock.h"
#include "device/queue.h"
#include "executor/commands.h"
#include "tensor/memory_holders.h"

/* Hands `outputs` on and gives up the node's hold on its iteration. Afterwards `outputs` are all zero. */
static void hand_on(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *outputs, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  if (n->flags & NODE_CROSSES) {
    weft_frame_cross(r, it, node, &outputs[0], is_dead);
    return;
  }
  uint32_t num_ready = weft_deliver(r, it, node, outputs, is_dead);
  if (!is_dead) values_release(outputs, n->num_outputs); /* those without a consumer */
  if (it->frame->parent == NULL || num_ready == 1) return;
  if (num_ready == 0) {
    weft_iteration_release(r, it, 1);
  } else {
    weft_iteration_hold(r, it, num_ready - 1);
  }
}

/* The failure when input `input` of a node refers to a variable without a value. */
static weft_status_t *uninitialized(const weft_exec_plan_t *p, uint32_t node, uint32_t input) {
  uint32_t slot = p->nodes[node].first_slot + input, from = 0;
  const plan_edge_t *e = p->edges;
  while (e->slot != slot) e++; /* every input has its edge */
  while (p->edges + p->nodes[from + 1].first_edge <= e) from++;
  weft_str_t name = p->setups[from].node.name;
  if (e->output == 0) {
    return WEFT_ERROR(FAILED_PRECONDITION, "Attempting to use uninitialized value %.*s", WEFT_STR_ARGS(name));
  }
  return WEFT_ERROR(FAILED_PRECONDITION, "Attempting to use uninitialized value %.*s:%u", WEFT_STR_ARGS(name),
                    e->output);
}

weft_status_t *weft_node_read_references(const weft_exec_plan_t *p, uint32_t node, weft_value_t *in) {
  const plan_node_t *n = &p->nodes[node];
  const weft_kernel_node_t *seen = &p->setups[node].node;
  for (uint32_t i = 0; i < n->num_inputs; i++) {
    weft_variable_t *v = in[i].ref;
    if (v == NULL) continue;
    bool wants_value = !weft_dtype_is_ref(seen->input_types[i]);
    if (!wants_value && (n->flags & NODE_UNINIT_OK)) continue;
    weft_tensor_t *now = weft_variable_read(v);
    if (now == NULL) return uninitialized(p, node, i);
    if (wants_value) {
      in[i] = (weft_value_t){.tensor = now};
      weft_object_release(&v->object);
    } else {
      weft_tensor_release(now);
    }
  }
  return NULL;
}

weft_status_t *weft_node_check_outputs(const weft_exec_plan_t *p, uint32_t node, const weft_value_t *out) {
  const plan_node_t *n = &p->nodes[node];
  const weft_kernel_node_t *seen = &p->setups[node].node;
  for (uint32_t i = 0; i < n->num_outputs; i++) {
    int want = seen->output_types[i];
    if (out[i].ref == NULL && out[i].tensor != NULL && (int)out[i].tensor->dtype == want) continue;
    if (out[i].ref != NULL) {
      if (weft_dtype_is_ref(want)) continue;
      return WEFT_ERROR(INTERNAL, "Output %u of {{node %s}} is a reference, but its declared type is %s", i,
                        seen->name.data, weft_dtype_name(want));
    }
    bool is_needed = false;
    if (out[i].tensor == NULL && !(n->flags & NODE_MAY_LACK_OUTPUT)) {
      const plan_edge_t *e = p->edges + n->first_edge, *end = p->edges + n[1].first_edge;
      while (e < end && e->output != i) e++;
      is_needed = e < end;
    }
    WEFT_RETURN_IF_ERROR(weft_kernel_node_check(seen, (int)i, out[i].tensor, is_needed));
  }
  return NULL;
}

void weft_node_fail(runner_t *r, uint32_t node, const weft_kernel_node_t *failed, weft_status_t *s) {
  weft_run_fail(r->run, s, failed != NULL ? failed : &r->plan->setups[node].node,
                (r->plan->nodes[node].flags & NODE_COMMUNICATION) != 0);
}

static void fill_ctx(weft_kernel_ctx_t *c, runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in,
                     weft_value_t *out, bool is_dead) {
  c->node = &r->plan->setups[node].node;
  c->state = r->plan->instances[node].state;
  c->inputs = in;
  c->outputs = out;
  c->step = &r->run->step;
  c->device = c->node->device;
  c->queue = c->device->compute;
  c->frame_id = it->frame->id;
  c->iteration = it->number;
  c->is_dead = is_dead;
  c->failed = NULL;
}

/* The device's queue goes on when the kernel's inputs are there. */
static void wait_for_inputs(const weft_kernel_ctx_t *c, uint32_t num_inputs) {
  for (uint32_t i = 0; i < num_inputs; i++) {
    if (c->inputs[i].tensor != NULL) weft_queue_wait(c->queue, c->inputs[i].tensor->fence);
  }
}

static weft_memory_holder_t as_holder(const weft_kernel_ctx_t *c) {
  return (weft_memory_holder_t){WEFT_HELD_BY_NODE, c->node->name};
}

static void start_async(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  async_op_t *op = (async_op_t *)(void *)(it->async + (size_t)n->extra * ASYNC_UNIT);
  fill_ctx(&op->ctx, r, it, node, in, op->outputs, is_dead);
  op->ctx.done = r->run->async_done;
  op->it = it;
  op->node = node;
  (void)weft_node_begin(r, node, in, &op->begin);
  op->status = NULL;
  r->is_alone = false;
  atomic_fetch_add_explicit(&r->run->tasks, 1, memory_order_relaxed);
  const weft_kernel_t *kernel = r->plan->instances[node].kernel;
  if (op->ctx.device->space == NULL) {
    kernel->compute_async(&op->ctx);
    return;
  }
  const weft_memory_holder_t before = weft_memory_hold_for(as_holder(&op->ctx));
  kernel->compute_async(&op->ctx); /* `op` may be gone afterwards */
  (void)weft_memory_hold_for(before);
}

/* A kernel has ended: its inputs go, its outputs are checked and handed on. `begin` is NULL if nothing is
 * recorded. */
static void complete(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in, weft_value_t *out,
                     const node_begin_t *begin, const weft_kernel_node_t *failed, weft_status_t *s) {
  const plan_node_t *n = &r->plan->nodes[node];
  values_release(in, n->num_inputs);
  if (s == NULL) s = weft_node_check_outputs(r->plan, node, out);
  if (begin != NULL) weft_step_record(r->run->recorder, &r->plan->setups[node], begin, out);
  if (s != NULL || weft_run_dropped(r->run)) {
    values_release(out, n->num_outputs);
    if (s != NULL) weft_node_fail(r, node, failed, s);
    return;
  }
  hand_on(r, it, node, out, false);
}

void weft_node_finish_async(runner_t *r, async_op_t *op, weft_status_t *status) {
  if (op->ctx.queue != NULL)
    weft_node_set_fences(op->ctx.queue, op->outputs, r->plan->nodes[op->node].num_outputs);
  complete(r, op->it, op->node, op->ctx.inputs, op->outputs, r->run->recorder != NULL ? &op->begin : NULL,
           op->ctx.failed, status);
}

/* A thread that was descheduled in between makes one sample thousands of times too long: no sample more than
 * doubles the estimate. */
void weft_node_learn_cost(atomic_uint *cost, int64_t ns) {
  uint32_t old = atomic_load_explicit(cost, memory_order_relaxed) >> COST_COUNT_BITS;
  int64_t sample = ns >= COST_UNKNOWN_NS ? COST_UNKNOWN_NS - 1 : ns < 0 ? 0 : ns;
  int64_t now = old == COST_UNKNOWN_NS  ? sample
                : sample < (int64_t)old ? ((int64_t)old + sample) / 2
                                        : (3 * (int64_t)old + sample) / 4;
  if (now > 2 * (int64_t)old + 100) now = 2 * (int64_t)old + 100;
  atomic_store_explicit(cost, cost_counted((uint32_t)now << COST_COUNT_BITS), memory_order_relaxed);
}

weft_status_t *weft_node_compute(runner_t *r, iteration_t *it, uint32_t node, bool is_dead, weft_value_t *in,
                                 weft_value_t *out, const weft_kernel_node_t **failed) {
  weft_exec_plan_t *p = r->plan;
  const plan_node_t *n = &p->nodes[node];
  atomic_uint *cost = n->flags & NODE_COSTLY ? &p->costs[n->aux] : NULL;
  bool measure = false;
  if (cost != NULL) {
    uint32_t old = atomic_load_explicit(cost, memory_order_relaxed);
    measure = (old & COST_COUNT_MASK) == 0;
    atomic_store_explicit(cost, cost_counted(old), memory_order_relaxed);
  }
  int64_t start_ns = measure ? weft_clock_ns() : 0;
  weft_kernel_ctx_t c;
  fill_ctx(&c, r, it, node, in, out, is_dead);
  weft_status_t *s = p->instances[node].kernel->compute(&c);
  if (measure) {
    weft_node_learn_cost(cost, weft_clock_ns() - start_ns);
  }
  *failed = c.failed;
  return s;
}

static void run_sync(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  weft_value_t *out = n->flags & NODE_BIG_OUTPUTS ? in + n->num_inputs : r->scratch;
  const weft_kernel_node_t *failed = NULL;
  node_begin_t storage;
  const node_begin_t *begin = weft_node_begin(r, node, in, &storage);
  weft_status_t *s = weft_node_compute(r, it, node, is_dead, in, out, &failed);
  complete(r, it, node, in, out, begin, failed, s);
}

static void run_queue(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  weft_value_t *out = n->flags & NODE_BIG_OUTPUTS ? in + n->num_inputs : r->scratch;
  node_begin_t storage;
  const node_begin_t *begin = weft_node_begin(r, node, in, &storage);
  weft_kernel_ctx_t c;
  fill_ctx(&c, r, it, node, in, out, is_dead);
  wait_for_inputs(&c, n->num_inputs);
  const weft_memory_holder_t before = weft_memory_hold_for(as_holder(&c));
  weft_status_t *s = r->plan->instances[node].kernel->compute(&c);
  (void)weft_memory_hold_for(before);
  weft_node_set_fences(c.queue, out, n->num_outputs);
  complete(r, it, node, in, out, begin, c.failed, s);
}

static void run_commands(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in) {
  const plan_node_t *n = &r->plan->nodes[node];
  const weft_commands_t *c = &r->plan->commands[n->extra];
  weft_value_t *scratch = in + c->num_values, *out = scratch + c->most_inputs;
  commands_run_t x = {.step = &r->run->step,
                      .recorder = r->run->recorder,
                      .frame_id = it->frame->id,
                      .iteration = it->number,
                      .values = in,
                      .scratch = scratch,
                      .outputs = out};
  weft_status_t *s = weft_commands_run(c, &x);
  if (s != NULL) {
    weft_run_fail(r->run, s, x.failed != NULL ? x.failed : &r->plan->setups[node].node, false);
  } else if (weft_run_dropped(r->run)) {
    values_release(out, n->num_outputs);
  } else {
    hand_on(r, it, node, out, false);
  }
}

weft_status_t *weft_node_merge(const plan_node_t *n, weft_value_t *in, weft_value_t *out, bool *out_is_live) {
  uint32_t live = 0;
  while (live < n->num_inputs && value_is_none(&in[live])) live++;
  *out_is_live = live < n->num_inputs;
  if (!*out_is_live) return NULL;
  int32_t index = (int32_t)live;
  if (n->flags & NODE_INDEX_USED) WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &index, &out[1].tensor));
  out[0] = in[live];
  in[live] = (weft_value_t){NULL, NULL};
  return NULL;
}

/* Kinds whose result takes no kernel. */
static void run_built_in(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in) {
  const plan_node_t *n = &r->plan->nodes[node];
  weft_value_t *out = r->scratch;
  weft_status_t *s = NULL;
  bool is_live = true; /* a Merge is run when its inputs are settled, and not if it is dead */
  node_begin_t storage;
  const node_begin_t *begin = weft_node_begin(r, node, in, &storage);
  switch ((node_kind_t)n->kind) {
    case NODE_CONST: out[0].tensor = weft_tensor_retain(r->plan->consts[n->extra]); break;
    case NODE_FORWARD:
      out[0] = in[0];
      in[0] = (weft_value_t){NULL, NULL};
      break;
    case NODE_MERGE: s = weft_node_merge(n, in, out, &is_live); break;
    case NODE_NOOP:
    case NODE_SYNC:
    case NODE_QUEUE:
    case NODE_COMMANDS:
    case NODE_LOOP:
    case NODE_ASYNC: break;
  }
  if (begin != NULL) weft_step_record(r->run->recorder, &r->plan->setups[node], begin, out);
  if (s != NULL) {
    values_release(in, n->num_inputs);
    weft_node_fail(r, node, NULL, s);
    return;
  }
  hand_on(r, it, node, out, false);
}

/* A value that a client feeds or fetches, without the rendezvous. */
static void run_client_edge(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *in, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  weft_value_t *out = r->scratch;
  node_begin_t storage;
  const node_begin_t *begin = weft_node_begin(r, node, in, &storage);
  if (n->flags & NODE_FEED) {
    out[0].tensor = r->run->feeds[n->aux];
    r->run->feeds[n->aux] = NULL;
  } else if (!is_dead) {
    r->run->fetches[n->aux] = in[0].tensor;
    in[0].tensor = NULL;
  }
  complete(r, it, node, in, out, begin, NULL, NULL);
}

void weft_node_run(runner_t *r, iteration_t *it, uint32_t node, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  if (n->flags & NODE_TRIGGER) is_dead = false;
  weft_value_t *in = it->slots + (n->first_slot - it->first_slot);
  if (is_dead && !(n->flags & NODE_RUNS_DEAD)) {
    values_release(in, n->num_inputs);
    hand_on(r, it, node, r->scratch, true);
    return;
  }
  if (n->flags & NODE_REF_INPUT) {
    weft_status_t *s = weft_node_read_references(r->plan, node, in);
    if (s != NULL) {
      values_release(in, n->num_inputs);
      weft_node_fail(r, node, NULL, s);
      return;
    }
  }
  if ((n->flags & NODE_CLIENT) != 0 && r->run->feeds != NULL) {
    run_client_edge(r, it, node, in, is_dead);
    return;
  }
  switch ((node_kind_t)n->kind) {
    case NODE_SYNC: run_sync(r, it, node, in, is_dead); break;
    case NODE_QUEUE: run_queue(r, it, node, in, is_dead); break;
    case NODE_COMMANDS: run_commands(r, it, node, in); break;
    case NODE_LOOP: weft_serial_run(r, it, node, is_dead); break;
    case NODE_ASYNC: start_async(r, it, node, in, is_dead); break;
    case NODE_NOOP:
    case NODE_CONST:
    case NODE_FORWARD:
    case NODE_MERGE: run_built_in(r, it, node, in); break;
  }
}
