/* executor/serial.c - runs a loop as a loop: the steps of its program one after the other, on one thread.
 *
 * The slots of one iteration's block hold what steps wait for; no step counts it, because what comes before
 * it in the program has run. A variable's value is parked in the frame, as between scheduled iterations,
 * while the condition runs. Constants and invariants stay in their slots from iteration to iteration
 * ("lasting"): the plan or the frame holds a reference of its own, so that no kernel finds such a value to be
 * its own and writes into it. The words of the block tell which guards are live; a Switch sets those of its
 * sides.
 *
 * One thread is not always best. Between two iterations the costs that kernels were measured to have tell
 * whether several threads would be faster: if what an iteration costs is much more than what leads from one
 * to the next, other work could be done beside that. Such a loop goes on as a scheduled frame, where it is.
 * So does a loop whose nodes are recorded, from the beginning, and one that is dead.
 *
 * The results are those of a scheduled frame. Source of the semantics: TensorFlow's executor, as restated in
 * the reference, 3.9.
 */
#include "executor/serial.h"

#include "base/clock.h"
#include "resources/resource.h"

enum {
  LOOK_EVERY = 64,          /* steps, after which a program looks whether the step was cancelled */
  TRY_EVERY = 64,           /* a heavy loop begins serially now and then, to be measured anew */
  WORTH_THREADS_NS = 10000, /* so much must be left for other threads in an iteration */
};

typedef struct serial_loop {
  runner_t *r;
  frame_t *frame;
  plan_frame_t *plan;
  const serial_program_t *program;
  iteration_t *it;           /* of the frame: the one that runs */
  iteration_t *parent;       /* in which the gate is */
  struct serial_loop *outer; /* that runs `parent`; NULL: `parent` is scheduled */
  bool lacks_lasting;        /* a kernel took a lasting value out of its slot */
} serial_loop_t;

/* ---- values ---- */

static inline weft_value_t *slot_in(const serial_loop_t *s, uint32_t slot) { return slot_of(s->it, slot); }

static inline bool is_lasting(const serial_loop_t *s, uint32_t slot) {
  return s->program->lasting[slot - s->plan->first_slot];
}

/* Moves outputs along their routes. Those that no route takes stay. */
static inline void hand_on(serial_loop_t *s, route_range_t range, weft_value_t *outputs) {
  const serial_route_t *route = s->program->routes + range.begin, *end = s->program->routes + range.end;
  for (; route < end; route++) {
    weft_value_t *from = &outputs[route->output];
    if (value_is_none(from)) continue; /* the other side of a Switch */
    if (route + 1 == end || route[1].output != route->output) {
      *slot_in(s, route->slot) = *from;
      *from = (weft_value_t){NULL, NULL};
    } else {
      *slot_in(s, route->slot) = value_retain(*from);
    }
  }
}

static inline void hand_on_copies(serial_loop_t *s, route_range_t range, weft_value_t v) {
  const serial_route_t *route = s->program->routes + range.begin, *end = s->program->routes + range.end;
  for (; route < end; route++) *slot_in(s, route->slot) = value_retain(v);
}

/* A variable's value; none is left. */
static inline void hand_on_all(serial_loop_t *s, route_range_t range, weft_value_t *v) {
  if (range.begin == range.end) {
    value_release(v);
    return;
  }
  hand_on_copies(s, (route_range_t){range.begin, range.end - 1}, *v);
  *slot_in(s, s->program->routes[range.end - 1].slot) = *v;
  *v = (weft_value_t){NULL, NULL};
}

/* Fills the slots of values that last, where these are not yet, or not any more. */
static void hand_on_lasting(serial_loop_t *s) {
  const serial_program_t *p = s->program;
  for (uint32_t i = 0; i < p->num_constants; i++) {
    const serial_constant_t *c = &p->constants[i];
    const weft_value_t v = c->is_invariant ? s->frame->invariants[c->index].value
                                           : (weft_value_t){.tensor = s->r->plan->consts[c->index]};
    for (uint32_t k = c->routes.begin; k < c->routes.end; k++) {
      weft_value_t *slot = slot_in(s, p->routes[k].slot);
      if (value_is_none(slot)) *slot = value_retain(v);
    }
  }
  s->lacks_lasting = false;
}

/* A value out of its slot; of a lasting one a reference. */
static inline weft_value_t take(const serial_loop_t *s, uint32_t slot) {
  weft_value_t *in = slot_in(s, slot), v = *in;
  if (is_lasting(s, slot)) return value_retain(v);
  *in = (weft_value_t){NULL, NULL};
  return v;
}

/* The inputs of a step go, but for those that last. */
static inline void release_inputs(serial_loop_t *s, const plan_node_t *n, weft_value_t *in) {
  const bool *lasting = s->program->lasting + (n->first_slot - s->plan->first_slot);
  for (uint32_t i = 0; i < n->num_inputs; i++) {
    if (!value_is_none(&in[i])) {
      if (!lasting[i]) value_release(&in[i]);
    } else if (lasting[i]) {
      s->lacks_lasting = true;
    }
  }
}

/* ---- guards ---- */

static inline bool is_live(const serial_loop_t *s, uint32_t guard) {
  return guard == 0 || atomic_load_explicit(&s->it->words[guard], memory_order_relaxed) != 0;
}

/* The sides that a Switch has chosen between; `outputs` NULL: it is dead itself. */
static void choose(serial_loop_t *s, const serial_step_t *step, const weft_value_t *outputs) {
  const uint32_t n = s->r->plan->nodes[step->node].num_outputs;
  for (uint32_t i = 0; i < n; i++) {
    const bool live = outputs != NULL && !value_is_none(&outputs[i]);
    atomic_store_explicit(&s->it->words[step->sides + i], live, memory_order_relaxed);
  }
}

/* ---- steps ---- */

static bool run_inner(serial_loop_t *s, uint32_t gate);

/* The step's guard is not live. What came from outside the branch goes. */
static void skip_step(serial_loop_t *s, const serial_step_t *step) {
  const weft_exec_plan_t *p = s->r->plan;
  const plan_node_t *n = &p->nodes[step->node];
  if (n->kind == NODE_LOOP) {
    const plan_frame_t *inner = &p->frames[n->aux];
    for (int i = 0; i < inner->num_enters; i++) {
      const plan_node_t *enter = &p->nodes[inner->enters[i]];
      release_inputs(s, enter, slot_in(s, enter->first_slot));
    }
    return;
  }
  release_inputs(s, n, slot_in(s, n->first_slot));
  if (step->sides != 0) choose(s, step, NULL);
}

/* Takes the one input that is live. */
static void run_merge(serial_loop_t *s, const serial_step_t *step) {
  const plan_node_t *n = &s->r->plan->nodes[step->node];
  const uint32_t *guards = s->program->merge_guards + (n->first_slot - s->plan->first_slot);
  weft_value_t out[2] = {{NULL, NULL}, {NULL, NULL}};
  int32_t index = 0;
  while (index + 1 < (int32_t)n->num_inputs && !is_live(s, guards[index])) index++; /* one side is */
  out[0] = take(s, n->first_slot + (uint32_t)index);
  release_inputs(s, n, slot_in(s, n->first_slot));
  weft_status_t *status =
      n->flags & NODE_INDEX_USED ? weft_tensor_scalar(WEFT_I32, &index, &out[1].tensor) : NULL;
  if (status != NULL) {
    weft_node_fail(s->r, step->node, NULL, status);
  } else {
    hand_on(s, step->routes, out);
  }
  values_release(out, 2); /* those that nothing reads */
}

static bool run_kernel(serial_loop_t *s, const serial_step_t *step) {
  runner_t *r = s->r;
  const plan_node_t *n = &r->plan->nodes[step->node];
  weft_value_t *in = slot_in(s, n->first_slot);
  weft_value_t *out = n->flags & NODE_BIG_OUTPUTS ? in + n->num_inputs : r->scratch;
  const weft_kernel_node_t *failed = NULL;
  weft_status_t *status = NULL;
  if (n->flags & NODE_REF_INPUT) status = weft_node_read_references(r->plan, step->node, in);
  if (status == NULL) status = weft_node_compute(r, s->it, step->node, false, in, out, &failed);
  release_inputs(s, n, in);
  if (status == NULL) status = weft_node_check_outputs(r->plan, step->node, out);
  if (status != NULL) {
    values_release(out, n->num_outputs);
    weft_node_fail(r, step->node, failed, status);
    return false;
  }
  if (step->sides != 0) choose(s, step, out);
  hand_on(s, step->routes, out);
  values_release(out, n->num_outputs); /* those that nothing reads */
  return true;
}

/* What a client feeds or fetches. False: the run has failed. */
static bool run_client_edge(serial_loop_t *s, const serial_step_t *step) {
  run_t *run = s->r->run;
  const plan_node_t *n = &s->r->plan->nodes[step->node];
  if (n->flags & NODE_FETCH) {
    weft_status_t *status = NULL;
    if (n->flags & NODE_REF_INPUT)
      status = weft_node_read_references(s->r->plan, step->node, slot_in(s, n->first_slot));
    if (status == NULL) {
      run->fetches[n->aux] = take(s, n->first_slot).tensor;
    } else {
      weft_node_fail(s->r, step->node, NULL, status);
    }
    return status == NULL;
  }
  weft_value_t v = {.tensor = run->feeds[n->aux]};
  run->feeds[n->aux] = NULL;
  hand_on(s, step->routes, &v);
  value_release(&v); /* if nothing reads it */
  return true;
}

/* False: the step was cancelled, or has failed elsewhere. */
static bool may_go_on(const serial_loop_t *s) {
  run_t *run = s->r->run;
  if (weft_canceller_is_cancelled(run->step.canceller) && !atomic_load(&run->fate.is_committed))
    weft_run_fail(run, WEFT_ERROR(CANCELLED, "Step was cancelled."), NULL, false);
  return !weft_run_dropped(run);
}

/* False: the run has failed. */
static bool run_steps(serial_loop_t *s, uint32_t begin, uint32_t end) {
  const serial_step_t *first = s->program->steps + begin, *step = first, *last = s->program->steps + end;
  for (; step < last; step++) {
    const plan_node_t *n = &s->r->plan->nodes[step->node];
    if ((size_t)(step - first) % LOOK_EVERY == LOOK_EVERY - 1 && !may_go_on(s)) return false;
    if (!is_live(s, step->guard)) {
      skip_step(s, step);
    } else if (n->flags & NODE_CLIENT) {
      if (!run_client_edge(s, step)) return false;
    } else if (n->kind == NODE_SYNC || n->kind == NODE_FORWARD) {
      if (!run_kernel(s, step)) return false;
    } else if (n->kind == NODE_LOOP) {
      if (!run_inner(s, step->node)) return false;
    } else {
      run_merge(s, step);
    }
  }
  return !weft_run_dropped(s->r->run);
}

/* ---- is one thread best? ---- */

/* What a node of an iteration costs that is worth a thread; 0 where it is not. */
static uint32_t cost_of(const weft_exec_plan_t *p, const plan_node_t *n) {
  if (!(n->flags & NODE_COSTLY)) return 0;
  const uint32_t ns = node_cost_ns(p, n);
  return ns == COST_UNKNOWN_NS || ns <= COSTLY_NS ? 0 : ns;
}

static void end_by(iteration_t *it, uint32_t node, uint32_t ns) {
  atomic_uint *end = word_of(it, node);
  if (atomic_load_explicit(end, memory_order_relaxed) < ns)
    atomic_store_explicit(end, ns, memory_order_relaxed);
}

static void end_consumers_by(const weft_exec_plan_t *p, iteration_t *it, uint32_t node, uint32_t ns) {
  const plan_node_t *n = &p->nodes[node];
  for (uint32_t e = n->first_edge; e < n[1].first_edge; e++) end_by(it, p->edges[e].to & ~TO_MERGE, ns);
  for (uint32_t c = n->first_control; c < n[1].first_control; c++) end_by(it, p->controls[c] & ~TO_MERGE, ns);
}

/* Other threads would have to have much to do beside what leads from one iteration to the next. */
bool weft_serial_is_heavy(const run_t *run, const plan_frame_t *f, iteration_t *it) {
  const weft_exec_plan_t *p = run->plan;
  uint64_t total = 0;
  uint32_t carried = 0;
  bool is_heavy_inside = false;
  if (run->pool == NULL || weft_thread_pool_size(run->pool) < 2) return false;
  memset((void *)it->words, 0, f->num_nodes * sizeof(uint32_t));
  for (uint32_t i = 0; i < f->num_order; i++) {
    const uint32_t node = f->order[i];
    const plan_node_t *n = &p->nodes[node];
    const uint32_t own = cost_of(p, n),
                   before = atomic_load_explicit(word_of(it, node), memory_order_relaxed);
    const uint32_t ns = before > UINT32_MAX - own ? UINT32_MAX : before + own;
    total += own;
    if (((n->flags & NODE_NEXT_ITERATION) || f->max_parallel == 1) && ns > carried) carried = ns;
    if (n->kind == NODE_LOOP) {
      const plan_frame_t *inner = &p->frames[n->aux];
      is_heavy_inside =
          is_heavy_inside || atomic_load_explicit(&inner->heavy_starts, memory_order_relaxed) > 0;
      for (uint32_t x = 0; x < inner->num_exits; x++) end_consumers_by(p, it, inner->exits[x], ns);
    } else if (!(n->flags & NODE_CROSSES)) {
      end_consumers_by(p, it, node, ns);
    }
  }
  return is_heavy_inside ||
         (total > (uint64_t)carried + WORTH_THREADS_NS && total > (uint64_t)carried + carried / 4);
}

/* ---- iterations ---- */

/* The failure of a Switch whose predicate is no scalar, in its kernel's words. */
static void fail_by_switch(serial_loop_t *s, weft_value_t pred) {
  runner_t *r = s->r;
  const weft_kernel_node_t *failed = NULL;
  weft_value_t in[2] = {value_retain(pred), value_retain(pred)};
  weft_status_t *status = weft_node_compute(r, s->it, s->program->a_switch, false, in, r->scratch, &failed);
  values_release(in, 2);
  values_release(r->scratch, 2);
  if (status == NULL) status = WEFT_ERROR(INVALID_ARGUMENT, "The predicate of a loop must be a scalar bool");
  weft_node_fail(r, s->program->a_switch, failed, status);
}

/* Reads what the LoopCond would pass on. False: the run has failed. */
static bool read_condition(serial_loop_t *s, bool *out_goes_on) {
  const uint32_t cond = s->program->cond;
  if (weft_canceller_is_cancelled(s->r->run->step.canceller)) {
    weft_node_fail(s->r, cond, NULL, WEFT_ERROR(CANCELLED, "Loop execution was cancelled."));
    return false;
  }
  weft_value_t v = take(s, s->r->plan->nodes[cond].first_slot);
  const bool is_scalar = v.tensor != NULL && v.tensor->dtype == WEFT_BOOL && v.tensor->shape.rank == 0;
  if (is_scalar) {
    *out_goes_on = *(const bool *)v.tensor->data;
  } else {
    fail_by_switch(s, v);
  }
  value_release(&v);
  return is_scalar;
}

/* The values of variables leave the loop. */
static void leave(serial_loop_t *s) {
  for (uint32_t x = 0; x < s->plan->num_exits; x++) {
    weft_value_t v = value_retain(s->frame->parked[s->program->variable_of_exit[x]].value);
    if (s->outer == NULL) {
      weft_deliver_into(s->r, s->parent, s->plan->exits[x], &v, false);
    } else {
      hand_on_all(s->outer, s->program->exit_routes[x], &v);
    }
  }
}

typedef enum loop_end { LOOP_ENDED, LOOP_FAILED, LOOP_IS_HEAVY } loop_end_t;

static loop_end_t run_iterations(serial_loop_t *s) {
  const serial_program_t *p = s->program;
  const uint32_t num_variables = s->plan->num_next;
  kept_value_t *variables = s->frame->parked;
  int64_t next_look = 1;
  hand_on_lasting(s);
  for (;; s->it->number++) {
    bool goes_on = false;
    if (s->it->number == next_look) {
      const bool heavy = weft_serial_is_heavy(s->r->run, s->plan, s->it); /* no guard is in use */
      atomic_store_explicit(&s->plan->heavy_starts, heavy, memory_order_relaxed);
      if (heavy && s->outer == NULL) return LOOP_IS_HEAVY; /* else the outer loop will see it */
      next_look *= 2;
    }
    for (uint32_t i = 0; i < num_variables; i++)
      hand_on_copies(s, p->variables[i].to_cond, variables[i].value);
    if (!run_steps(s, 0, p->num_cond) || !read_condition(s, &goes_on)) return LOOP_FAILED;
    if (!goes_on) {
      leave(s);
      return LOOP_ENDED;
    }
    for (uint32_t i = 0; i < num_variables; i++) hand_on_all(s, p->variables[i].to_body, &variables[i].value);
    if (!run_steps(s, p->num_cond, p->num_steps)) return LOOP_FAILED;
    for (uint32_t i = 0; i < num_variables; i++) variables[i].value = take(s, p->variables[i].next_slot);
    if (s->lacks_lasting) hand_on_lasting(s);
  }
}

/* ---- a loop ---- */

/* The frame, with its first iteration's block; nothing else sees it. */
static weft_status_t *begin_loop(serial_loop_t *s) {
  frame_t *f = NULL;
  WEFT_RETURN_IF_ERROR(weft_frame_new(s->r->run, s->plan, &f));
  f->parent = s->parent;
  f->id = weft_frame_id(s->parent, s->plan);
  f->oldest = f->newest = NULL;
  s->frame = f;
  s->it = f->free;
  f->free = s->it->next;
  s->it->next = NULL;
  s->it->number = 0;
  return NULL;
}

/* The loop's `i`-th Enter hands its value in. Consumes it. */
static void enter(serial_loop_t *s, int i, weft_value_t v) {
  const plan_node_t *n = &s->r->plan->nodes[s->plan->enters[i]];
  kept_value_t *place = n->flags & NODE_CONST_ENTER ? &s->frame->invariants[n->extra]
                                                    : &s->frame->parked[s->program->variable_of_enter[i]];
  *place = (kept_value_t){.value = v, .present = true};
}

/* Runs a loop whose Enters have come. False: the run has failed. */
static bool run_loop(serial_loop_t *s) {
  const loop_end_t end = run_iterations(s);
  const int64_t number = s->it->number;
  weft_iteration_clear(s->it);
  s->it->next = s->frame->free;
  s->frame->free = s->it;
  if (end == LOOP_IS_HEAVY) {
    weft_frame_continue(s->r, s->frame, number);
  } else {
    weft_frame_recycle(s->r->run, s->frame);
  }
  return end != LOOP_FAILED;
}

/* A loop inside of `s`. */
static bool run_inner(serial_loop_t *s, uint32_t gate) {
  weft_exec_plan_t *p = s->r->plan;
  plan_frame_t *plan = &p->frames[p->nodes[gate].aux];
  serial_loop_t inner = {.r = s->r, .plan = plan, .program = plan->program, .parent = s->it, .outer = s};
  weft_status_t *status = begin_loop(&inner);
  if (status != NULL) {
    weft_node_fail(s->r, gate, NULL, status);
    return false;
  }
  for (int i = 0; i < plan->num_enters; i++) enter(&inner, i, take(s, p->nodes[plan->enters[i]].first_slot));
  return run_loop(&inner);
}

/* ---- the top level ---- */

/* Has something been deleted since the handles were looked up? Then they are looked up anew. */
static void drop_old_handles(serial_loop_t *s) {
  run_t *run = s->r->run;
  const serial_program_t *p = s->program;
  if (p->num_handles == 0) return;
  const uint64_t now = weft_resource_generation(s->r->plan->device->resources);
  if (run->has_lasting && run->generation == now) return;
  for (uint32_t i = 0; i < p->num_handles; i++) {
    for (uint32_t k = p->handles[i].routes.begin; k < p->handles[i].routes.end; k++)
      value_release(slot_in(s, p->routes[k].slot));
  }
  run->generation = now;
  run->lacks_lasting = true;
}

static bool has_all(const serial_loop_t *s, route_range_t range) {
  for (uint32_t k = range.begin; k < range.end; k++) {
    if (value_is_none(slot_in(s, s->program->routes[k].slot))) return false;
  }
  return true;
}

/* Fills the slots of a handle. False: the run has failed. */
static bool make_handle(serial_loop_t *s, const serial_step_t *step) {
  runner_t *r = s->r;
  const weft_kernel_node_t *failed = NULL;
  weft_value_t *out = r->scratch;
  weft_status_t *status = weft_node_compute(r, s->it, step->node, false, out, out, &failed);
  if (status == NULL) status = weft_node_check_outputs(r->plan, step->node, out);
  if (status != NULL) {
    weft_node_fail(r, step->node, failed, status);
  } else {
    for (uint32_t k = step->routes.begin; k < step->routes.end; k++) {
      weft_value_t *slot = slot_in(s, s->program->routes[k].slot);
      if (value_is_none(slot)) *slot = value_retain(*out);
    }
  }
  value_release(out);
  return status == NULL;
}

/* Fills the slots of what lasts from step to step, where they are empty. False: the run has failed. */
static bool begin_top(serial_loop_t *s) {
  run_t *run = s->r->run;
  const serial_program_t *p = s->program;
  drop_old_handles(s);
  const bool is_complete = run->has_lasting && !run->lacks_lasting;
  run->has_lasting = true;
  if (is_complete) return true;
  hand_on_lasting(s);
  for (uint32_t i = 0; i < p->num_handles; i++) {
    if (!has_all(s, p->handles[i].routes) && !make_handle(s, &p->handles[i])) return false;
  }
  return true;
}

void weft_serial_run_top(runner_t *r) {
  run_t *run = r->run;
  plan_frame_t *top = &r->plan->frames[0];
  serial_loop_t s = {.r = r, .frame = &run->top, .plan = top, .program = top->program, .it = run->root};
  if (!may_go_on(&s) || !begin_top(&s)) return;
  (void)run_steps(&s, 0, s.program->num_steps);
  run->lacks_lasting = s.lacks_lasting;
}

/* ---- a gate of a scheduled iteration ---- */

static bool starts_serially(const run_t *run, plan_frame_t *plan) {
  if (run->recorder != NULL) return false;
  if (atomic_load_explicit(&plan->heavy_starts, memory_order_relaxed) == 0) return true;
  return atomic_fetch_add_explicit(&plan->heavy_starts, 1, memory_order_relaxed) % TRY_EVERY == 0;
}

/* The frame is scheduled: its Enters run as they do without a gate. */
static bool begin_frame(runner_t *r, iteration_t *it, const plan_frame_t *plan, bool is_dead) {
  bool is_dead_by_control = is_dead;
  for (int i = 0; i < plan->num_enters; i++) {
    if (value_is_none(slot_of(it, r->plan->nodes[plan->enters[i]].first_slot))) is_dead_by_control = false;
  }
  for (int i = 0; i < plan->num_enters; i++) {
    const uint32_t node = plan->enters[i];
    weft_value_t *slot = slot_of(it, r->plan->nodes[node].first_slot), v = *slot;
    *slot = (weft_value_t){NULL, NULL};
    if (is_dead_by_control) value_release(&v);
    node_begin_t storage;
    const node_begin_t *begin = weft_node_begin(r, node, &v, &storage);
    if (begin != NULL) weft_step_record(r->run->recorder, &r->plan->setups[node], begin, &v);
    weft_status_t *s = weft_frame_enter(r, it, node, &v, value_is_none(&v));
    value_release(&v);
    if (s == NULL) continue;
    weft_node_fail(r, node, NULL, s);
    return false;
  }
  return true;
}

void weft_serial_run(runner_t *r, iteration_t *it, uint32_t gate, bool is_dead) {
  weft_exec_plan_t *p = r->plan;
  plan_frame_t *plan = &p->frames[p->nodes[gate].aux];
  serial_loop_t s = {.r = r, .plan = plan, .program = plan->program, .parent = it};
  bool goes_on;
  if (is_dead || !starts_serially(r->run, plan)) {
    goes_on = begin_frame(r, it, plan, is_dead);
  } else {
    const int64_t start_ns = weft_clock_ns();
    weft_status_t *status = begin_loop(&s);
    if (status != NULL) {
      weft_node_fail(r, gate, NULL, status);
      return;
    }
    for (int i = 0; i < plan->num_enters; i++) {
      weft_value_t *slot = slot_of(it, p->nodes[plan->enters[i]].first_slot);
      enter(&s, i, *slot);
      *slot = (weft_value_t){NULL, NULL};
    }
    goes_on = run_loop(&s);
    weft_node_learn_cost(&p->costs[plan->cost], weft_clock_ns() - start_ns);
  }
  if (goes_on && it->frame->parent != NULL) weft_iteration_release(r, it, 1);
}
