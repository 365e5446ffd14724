/* executor/frame_memory.c - the blocks that runs, frames and iterations lie in.
 *
 * They are recycled: an iteration's block within its frame, a frame's (with its
 * spare iterations) within the plan, a run's within the plan. So a loop in steady
 * state allocates nothing, and neither does a step.
 */
#include "base/alloc.h"
#include "executor/step.h"

iteration_t *weft_iteration_layout(run_t *run, frame_t *frame, const plan_frame_t *f, char *block) {
  iteration_t *it = (iteration_t *)(void *)block;
  it->run = run;
  it->frame = frame;
  it->first_node = f->first_node;
  it->first_slot = f->first_slot;
  it->words = (atomic_uint *)(void *)(block + sizeof *it);
  it->sides = (atomic_uint *)(void *)(block + f->sides_at);
  it->links = (ready_t *)(void *)(block + f->links_at);
  it->tasks = (task_t *)(void *)(block + f->tasks_at);
  it->async = block + f->async_at;
  it->children = (frame_t **)(void *)(block + f->children_at);
  it->slots = (weft_value_t *)(void *)(block + f->slots_at);
  return it;
}

static weft_status_t *no_memory(const plan_frame_t *f) {
  return WEFT_NO_MEMORY("frame '%.*s'", WEFT_STR_ARGS(f->name));
}

weft_status_t *weft_frame_add_spare(run_t *run, frame_t *f) {
  char *block = weft_calloc(1, f->plan->bytes);
  if (block == NULL) return no_memory(f->plan);
  iteration_t *it = weft_iteration_layout(run, f, f->plan, block);
  weft_mutex_lock(&f->mu);
  it->next = f->free;
  f->free = it;
  weft_mutex_unlock(&f->mu);
  return NULL;
}

void weft_iteration_clear(iteration_t *it) {
  for (uint32_t i = 0; i < it->frame->plan->num_slots; i++) {
    if (!value_is_none(&it->slots[i])) value_release(&it->slots[i]);
  }
}

void weft_frame_free(frame_t *f) {
  if (f == NULL) return;
  for (iteration_t *next; f->free != NULL; f->free = next) {
    next = f->free->next;
    weft_free(f->free);
  }
  weft_free(f->invariants);
  weft_free(f->parked);
  weft_free(f->dead_exits);
  weft_mutex_deinit(&f->mu);
  weft_free(f);
}

weft_status_t *weft_frame_new(run_t *run, plan_frame_t *plan, frame_t **out) {
  weft_exec_plan_t *p = run->plan;
  weft_mutex_lock(&p->mu);
  frame_t *f = plan->free;
  if (f != NULL) plan->free = f->next;
  weft_mutex_unlock(&p->mu);
  if (f != NULL) {
    for (iteration_t *it = f->free; it != NULL; it = it->next) it->run = run;
    *out = f;
    return NULL;
  }
  f = weft_calloc(1, sizeof *f);
  if (f == NULL) return no_memory(plan);
  f->plan = plan;
  weft_mutex_init(&f->mu);
  f->invariants = weft_calloc(plan->num_invariants, sizeof *f->invariants);
  f->parked = weft_calloc(plan->num_next, sizeof *f->parked);
  f->dead_exits = weft_calloc(plan->num_exits, sizeof *f->dead_exits);
  weft_status_t *s = NULL;
  if (f->invariants == NULL || f->parked == NULL || f->dead_exits == NULL) s = no_memory(plan);
  if (s == NULL) s = weft_frame_add_spare(run, f);
  if (s != NULL) {
    weft_frame_free(f);
    return s;
  }
  *out = f;
  return NULL;
}

void weft_frame_recycle(run_t *run, frame_t *f) {
  for (uint32_t i = 0; i < f->plan->num_invariants; i++) {
    value_release(&f->invariants[i].value);
    f->invariants[i].present = false;
  }
  for (uint32_t i = 0; i < f->plan->num_next; i++) {
    value_release(&f->parked[i].value);
    f->parked[i].present = false;
  }
  f->num_parked = 0;
  for (iteration_t *next; f->oldest != NULL; f->oldest = next) { /* only after a failure */
    next = f->oldest->next;
    weft_iteration_clear(f->oldest);
    f->oldest->next = f->free;
    f->free = f->oldest;
  }
  f->newest = NULL;
  plan_frame_t *plan = (plan_frame_t *)f->plan;
  weft_mutex_lock(&run->plan->mu);
  f->next = plan->free;
  plan->free = f;
  weft_mutex_unlock(&run->plan->mu);
}

void weft_frames_clear(run_t *run) {
  for (frame_t *next, *f = run->frames; f != NULL; f = next) {
    next = f->next;
    weft_frame_recycle(run, f);
  }
  run->frames = NULL;
}

/* ---- runs ---- */

static run_t *run_new(weft_exec_plan_t *p) {
  const size_t drains_at = (sizeof(run_t) + 15) & ~(size_t)15;
  const size_t header = (drains_at + p->num_queues * sizeof(weft_fence_waiter_t) + 15) & ~(size_t)15;
  size_t bytes;
  if (!weft_add_size(header, p->frames[0].bytes, &bytes)) return NULL;
  char *block = weft_calloc(1, bytes);
  if (block == NULL) return NULL;
  run_t *run = (run_t *)(void *)block;
  weft_mutex_init(&run->mu);
  weft_mutex_init(&run->top.mu);
  run->top.plan = &p->frames[0];
  run->drains = (weft_fence_waiter_t *)(void *)(block + drains_at);
  run->root = weft_iteration_layout(run, &run->top, &p->frames[0], block + header);
  return run;
}

void weft_run_free(run_t *run) {
  if (run->has_lasting) weft_iteration_clear(run->root);
  weft_mutex_deinit(&run->top.mu);
  weft_mutex_deinit(&run->mu);
  weft_free(run);
}

run_t *weft_run_take(weft_exec_plan_t *p) {
  weft_mutex_lock(&p->mu);
  run_t *run = p->free_runs;
  if (run != NULL) {
    p->free_runs = run->next_free;
    p->num_free_runs--;
  }
  weft_mutex_unlock(&p->mu);
  return run != NULL ? run : run_new(p);
}

void weft_run_recycle(weft_exec_plan_t *p, run_t *run) {
  weft_mutex_lock(&p->mu);
  bool keep = p->num_free_runs < MAX_FREE_RUNS;
  if (keep) {
    run->next_free = p->free_runs;
    p->free_runs = run;
    p->num_free_runs++;
  }
  weft_mutex_unlock(&p->mu);
  if (!keep) weft_run_free(run);
}
