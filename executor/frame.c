/* executor/frame.c - loops: frames, their iterations, and the ops that cross them.
 *
 *   Enter          finds or makes the child frame of this iteration and delivers into its iteration 0;
 *                  a constant one into every iteration, present and future
 *   NextIteration  delivers into the next iteration, which it begins if need be; when `max_parallel` of them
 * are under way the value is parked until the oldest has ended; dead values stop here Exit           delivers
 * into the iteration of the parent that the frame belongs to; of dead Exits only those of the last iteration
 * count, and only when the frame has ended
 *
 * An iteration ends when it has no holds (step.h); iterations end in order. A
 * frame ends with its last iteration. Source of the semantics: TensorFlow's
 * propagator state, as restated in the reference, 3.9.
 */
#include "executor/step.h"

static void unlink_frame(run_t *run, frame_t *f) {
  weft_mutex_lock(&run->mu);
  if (f->prev != NULL) f->prev->next = f->next;
  if (f->prev == NULL) run->frames = f->next;
  if (f->next != NULL) f->next->prev = f->prev;
  weft_mutex_unlock(&run->mu);
}

static void link_frame(run_t *run, frame_t *f) {
  weft_mutex_lock(&run->mu);
  f->prev = NULL;
  f->next = run->frames;
  if (f->next != NULL) f->next->prev = f;
  run->frames = f;
  weft_mutex_unlock(&run->mu);
}

/* ---- iterations ---- */

/* Begins the next iteration in the frame's first spare block. One hold is the previous iteration's (or, for
 * iteration 0, the Enters'). */
static iteration_t *begin_iteration_locked(frame_t *f) WEFT_REQUIRES(f->mu) {
  const plan_frame_t *plan = f->plan;
  iteration_t *it = f->free;
  f->free = it->next;
  it->next = NULL;
  it->number = f->newest == NULL ? f->first_number : f->newest->number + 1;
  atomic_store_explicit(&it->holds, 1, memory_order_relaxed);
  memcpy((void *)it->words, it->run->plan->words + plan->first_node, plan->num_nodes * sizeof(uint32_t));
  memset((void *)it->sides, 0, plan->num_merges * sizeof(uint32_t));
  memset(it->children, 0, (size_t)plan->num_children * sizeof(frame_t *));
  if (f->oldest == NULL) {
    f->oldest = it; /* `newest`, if any, has just ended: it may even be this block */
  } else {
    f->newest->next = it;
  }
  f->newest = it;
  f->num_iterations++;
  memset(f->dead_exits, 0, plan->num_exits);
  return it;
}

void weft_deliver_into(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead) {
  uint32_t num_ready = weft_deliver(r, it, node, v, is_dead);
  value_release(v); /* if nothing consumes it */
  if (it->frame->parent != NULL && num_ready > 0) weft_iteration_hold(r, it, num_ready);
}

static void deliver_kept(runner_t *r, iteration_t *it, uint32_t node, const kept_value_t *kept) {
  weft_value_t copy = value_retain(kept->value);
  weft_deliver_into(r, it, node, &copy, kept->is_dead);
}

/* Begins an iteration with the values that wait for it. There must be a spare block. */
static void advance_locked(runner_t *r, frame_t *f) WEFT_REQUIRES(f->mu) {
  const plan_frame_t *plan = f->plan;
  iteration_t *it = begin_iteration_locked(f);
  for (uint32_t i = 0; i < plan->num_next; i++) {
    if (!f->parked[i].present) continue;
    weft_value_t v = f->parked[i].value;
    f->parked[i] = (kept_value_t){.present = false};
    weft_deliver_into(r, it, plan->nexts[i], &v, false);
  }
  f->num_parked = 0;
  for (uint32_t i = 0; i < plan->num_invariants; i++) {
    if (f->invariants[i].present) deliver_kept(r, it, plan->invariants[i], &f->invariants[i]);
  }
}

/* The frame's last iteration has ended: dead Exits reach the parent. Returns the iteration that thereby loses
 * a hold. */
static iteration_t *end_frame(runner_t *r, frame_t *f) {
  iteration_t *parent = f->parent;
  frame_t *parent_frame = parent->frame;
  for (uint32_t i = 0; i < f->plan->num_exits; i++) {
    weft_value_t none = {NULL, NULL};
    if (f->dead_exits[i]) weft_deliver_into(r, parent, f->plan->exits[i], &none, true);
  }
  runner_lock(r, parent_frame);
  parent->children[f->plan->ordinal] = NULL;
  runner_unlock(r, parent_frame);
  unlink_frame(r->run, f);
  weft_frame_recycle(r->run, f);
  return parent_frame->parent == NULL ? NULL : parent;
}

/* `it` has no holds any more. Returns the iteration that loses a hold by its end, or NULL. */
static iteration_t *end_iteration(runner_t *r, iteration_t *it) {
  frame_t *f = it->frame;
  weft_iteration_clear(it);
  runner_lock(r, f);
  f->oldest = it->next; /* iterations end in order, so it was the oldest */
  f->num_iterations--;
  it->next = f->free;
  f->free = it;
  if (f->oldest == NULL && f->num_parked == 0) {
    f->newest = NULL;
  } else if (f->num_parked > 0) {
    advance_locked(r, f);
  }
  iteration_t *next = f->oldest;
  runner_unlock(r, f);
  return next != NULL ? next : end_frame(r, f);
}

void weft_iteration_release(runner_t *r, iteration_t *it, uint32_t n) {
  while (it != NULL) {
    uint32_t left;
    if (r->is_alone) {
      left = atomic_load_explicit(&it->holds, memory_order_relaxed) - n;
      atomic_store_explicit(&it->holds, left, memory_order_relaxed);
    } else {
      left = atomic_fetch_sub_explicit(&it->holds, n, memory_order_acq_rel) - n;
    }
    if (left > 0) return;
    it = end_iteration(r, it);
    n = 1;
  }
}

/* ---- crossing ---- */

/* The parent's id and iteration and the frame's name, mixed: reference, 3.7. */
uint64_t weft_frame_id(const iteration_t *parent, const plan_frame_t *f) {
  uint64_t parts[3] = {parent->frame->id, (uint64_t)parent->number, f->name_hash};
  uint64_t id = parts[2];
  for (int i = 1; i >= 0; i--)
    id = parts[i] ^ (id + UINT64_C(0x9e3779b97f4a7800) + (parts[i] << 10) + (parts[i] >> 4));
  return id;
}

/* The child frame that an Enter of `it` enters; made by the first one. */
static weft_status_t *find_child(runner_t *r, iteration_t *it, const plan_node_t *n, frame_t **out) {
  run_t *run = r->run;
  plan_frame_t *plan = &r->plan->frames[n->aux];
  frame_t **place = &it->children[plan->ordinal];
  weft_mutex_lock(&it->frame->mu);
  frame_t *f = *place;
  weft_mutex_unlock(&it->frame->mu);
  if (f != NULL) {
    *out = f;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_frame_new(run, plan, &f));
  f->parent = it;
  f->id = weft_frame_id(it, plan);
  f->pending_enters = plan->num_enters;
  f->num_iterations = 0;
  f->first_number = 0;
  weft_mutex_lock(&f->mu);
  begin_iteration_locked(f);
  weft_mutex_unlock(&f->mu);
  weft_mutex_lock(&it->frame->mu);
  frame_t *other = *place;
  if (other == NULL) *place = f;
  weft_mutex_unlock(&it->frame->mu);
  if (other != NULL) {
    weft_frame_recycle(run, f);
    *out = other;
    return NULL;
  }
  if (it->frame->parent != NULL) weft_iteration_hold(r, it, 1);
  link_frame(run, f);
  *out = f;
  return NULL;
}

weft_status_t *weft_frame_enter(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead) {
  const plan_node_t *n = &r->plan->nodes[node];
  frame_t *f = NULL;
  WEFT_RETURN_IF_ERROR(find_child(r, it, n, &f));
  weft_mutex_lock(&f->mu);
  iteration_t *first = f->oldest; /* iteration 0 lives until the last Enter has come */
  if (n->flags & NODE_CONST_ENTER) {
    kept_value_t *kept = &f->invariants[n->extra];
    *kept = (kept_value_t){*v, true, is_dead};
    *v = (weft_value_t){NULL, NULL};
    for (iteration_t *each = f->oldest; each != NULL; each = each->next) deliver_kept(r, each, node, kept);
  } else {
    weft_deliver_into(r, first, node, v, is_dead);
  }
  bool is_last = --f->pending_enters == 0;
  weft_mutex_unlock(&f->mu);
  if (is_last) weft_iteration_release(r, first, 1);
  return NULL;
}

void weft_frame_continue(runner_t *r, frame_t *f, int64_t number) {
  iteration_t *parent = f->parent;
  f->pending_enters = 0;
  f->num_iterations = 0;
  f->first_number = number;
  runner_lock(r, parent->frame);
  parent->children[f->plan->ordinal] = f;
  runner_unlock(r, parent->frame);
  if (parent->frame->parent != NULL) weft_iteration_hold(r, parent, 1);
  link_frame(r->run, f);
  runner_lock(r, f);
  advance_locked(r, f);
  iteration_t *first = f->oldest;
  runner_unlock(r, f);
  weft_iteration_release(r, first, 1); /* what the Enters would hold */
}

static weft_status_t *next_iteration(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v,
                                     bool is_dead) {
  if (is_dead) return NULL;
  if (weft_canceller_is_cancelled(r->run->step.canceller))
    return WEFT_ERROR(CANCELLED, "Loop execution was cancelled.");
  frame_t *f = it->frame;
  runner_lock(r, f);
  while (it == f->newest && f->num_iterations < f->plan->max_parallel && f->free == NULL) {
    runner_unlock(r, f);
    WEFT_RETURN_IF_ERROR(weft_frame_add_spare(r->run, f));
    runner_lock(r, f);
  }
  if (it == f->newest && f->num_iterations >= f->plan->max_parallel) {
    f->parked[r->plan->nodes[node].extra] = (kept_value_t){.value = *v, .present = true};
    f->num_parked++;
    *v = (weft_value_t){NULL, NULL};
  } else {
    if (it == f->newest) advance_locked(r, f);
    weft_deliver_into(r, it->next, node, v, false);
  }
  runner_unlock(r, f);
  return NULL;
}

static void exit_frame(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead) {
  frame_t *f = it->frame;
  if (!is_dead) {
    weft_deliver_into(r, f->parent, node, v, false);
    return;
  }
  runner_lock(r, f);
  if (it == f->newest) f->dead_exits[r->plan->nodes[node].extra] = true;
  runner_unlock(r, f);
}

void weft_frame_cross(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead) {
  uint16_t flags = r->plan->nodes[node].flags;
  weft_status_t *s = NULL;
  if (flags & NODE_ENTER) {
    s = weft_frame_enter(r, it, node, v, is_dead);
  } else if (flags & NODE_NEXT_ITERATION) {
    s = next_iteration(r, it, node, v, is_dead);
  } else {
    exit_frame(r, it, node, v, is_dead);
  }
  value_release(v);
  if (s != NULL) {
    weft_run_fail(r->run, s, &r->plan->setups[node].node, false);
    return;
  }
  if (it->frame->parent != NULL) weft_iteration_release(r, it, 1);
}
