/* collectives/plan.c - finds what must wait for what.
 *
 * Invariant: `accesses` holds, for every byte that was touched, the last action that wrote
 * it and those that read it since. A write that covers an older access replaces it: an action that waits for
 * the write waits for that one, too. So the list is as long as the buffers have pieces, not as long as the
 * plan.
 */
#include "collectives/plan.h"

#include "base/alloc.h"

typedef struct weft_plan_access {
  weft_region_t region;
  int action;
  bool is_write;
} access_t;

weft_coll_plan_t *weft_collective_plan_retain(weft_coll_plan_t *p) {
  if (p != NULL) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}

void weft_collective_plan_release(weft_coll_plan_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  weft_free(p->actions);
  weft_free(p->after);
  weft_free(p);
}

/* Room for one more; false without memory. */
static bool grow(void **items, int count, int *max, size_t size) {
  if (count < *max) return true;
  const int more = *max == 0 ? 32 : *max * 2;
  void *p = weft_realloc(*items, (size_t)more, size);
  if (p == NULL) return false;
  *items = p;
  *max = more;
  return true;
}

static bool overlap(const weft_planner_t *p, weft_region_t a, weft_region_t b) {
  const bool is_same = a.buffer == b.buffer ||
                       (p->input_is_output && a.buffer != WEFT_PLAN_SCRATCH && b.buffer != WEFT_PLAN_SCRATCH);
  return is_same && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static bool covers(weft_region_t outer, weft_region_t inner) {
  return outer.at <= inner.at && inner.at + inner.bytes <= outer.at + outer.bytes;
}

static void add_edge(weft_planner_t *p, int before, int after) {
  if (before == after) return;
  if (!grow((void **)&p->edges, p->num_edges, &p->max_edges, 2 * sizeof *p->edges)) {
    p->failed = true;
    return;
  }
  p->edges[2 * p->num_edges] = before;
  p->edges[2 * p->num_edges + 1] = after;
  p->num_edges++;
}

static void touch(weft_planner_t *p, int action, weft_region_t r, bool is_write) {
  if (r.bytes == 0 || p->failed) return;
  int kept = 0;
  for (int i = 0; i < p->num_accesses; i++) {
    const access_t a = p->accesses[i];
    const bool meets = overlap(p, a.region, r);
    if (meets && (is_write || a.is_write)) add_edge(p, a.action, action);
    const bool is_replaced = meets && is_write && covers(r, a.region) && a.action != action;
    if (!is_replaced) p->accesses[kept++] = a;
  }
  p->num_accesses = kept;
  if (!grow((void **)&p->accesses, p->num_accesses, &p->max_accesses, sizeof *p->accesses)) {
    p->failed = true;
    return;
  }
  p->accesses[p->num_accesses++] = (access_t){r, action, is_write};
}

static int add(weft_planner_t *p, weft_action_t a) {
  if (p->failed || !grow((void **)&p->actions, p->num_actions, &p->max_actions, sizeof *p->actions)) {
    p->failed = true;
    return -1;
  }
  const int i = p->num_actions++;
  p->actions[i] = a;
  touch(p, i, a.from, false);
  touch(p, i, a.other, false);
  touch(p, i, a.to, true);
  return i;
}

int weft_plan_pass(weft_planner_t *p) { return p->next_pass++; }

weft_region_t weft_plan_scratch(weft_planner_t *p, size_t bytes) {
  const weft_region_t r = {WEFT_PLAN_SCRATCH, p->scratch_bytes, bytes};
  size_t end = 0;
  if (bytes > SIZE_MAX - 63 || !weft_add_size(p->scratch_bytes, (bytes + 63) / 64 * 64, &end)) {
    p->failed = true;
    return (weft_region_t){WEFT_PLAN_SCRATCH, 0, 0};
  }
  p->scratch_bytes = end;
  return r;
}

void weft_plan_send(weft_planner_t *p, int to_rank, int pass, int field, weft_region_t from) {
  if (from.bytes == 0) return;
  add(p,
      (weft_action_t){.kind = WEFT_ACTION_SEND, .peer = to_rank, .pass = pass, .field = field, .from = from});
}

void weft_plan_recv(weft_planner_t *p, int from_rank, int pass, int field, weft_region_t to) {
  if (to.bytes == 0) return;
  add(p,
      (weft_action_t){.kind = WEFT_ACTION_RECV, .peer = from_rank, .pass = pass, .field = field, .to = to});
}

void weft_plan_recv_reduce(weft_planner_t *p, int from_rank, int pass, int field, weft_region_t to,
                           weft_region_t mine, bool is_final) {
  if (to.bytes == 0) return;
  add(p, (weft_action_t){.kind = WEFT_ACTION_RECV_REDUCE,
                         .is_final = is_final && p->is_mean,
                         .peer = from_rank,
                         .pass = pass,
                         .field = field,
                         .to = to,
                         .from = mine});
}

void weft_plan_copy(weft_planner_t *p, weft_region_t to, weft_region_t from) {
  const bool is_same = to.at == from.at &&
                       (to.buffer == from.buffer || (p->input_is_output && to.buffer != WEFT_PLAN_SCRATCH &&
                                                     from.buffer != WEFT_PLAN_SCRATCH));
  if (to.bytes == 0 || is_same) return;
  add(p, (weft_action_t){.kind = WEFT_ACTION_COPY, .to = to, .from = from});
}

void weft_plan_reduce(weft_planner_t *p, weft_region_t to, weft_region_t a, weft_region_t b, bool is_final) {
  if (to.bytes == 0) return;
  add(p,
      (weft_action_t){
          .kind = WEFT_ACTION_REDUCE, .is_final = is_final && p->is_mean, .to = to, .from = a, .other = b});
}

void weft_plan_zero(weft_planner_t *p, weft_region_t to) {
  if (to.bytes > 0) add(p, (weft_action_t){.kind = WEFT_ACTION_ZERO, .to = to});
}

void weft_plan_signal(weft_planner_t *p, int to_rank, int pass) {
  const int n = p->num_actions;
  const int i = add(p, (weft_action_t){.kind = WEFT_ACTION_SEND, .peer = to_rank, .pass = pass});
  for (int before = 0; before < n && i >= 0; before++) {
    if (p->actions[before].kind != WEFT_ACTION_SEND) add_edge(p, before, i);
  }
}

void weft_plan_await(weft_planner_t *p, int from_rank, int pass) {
  add(p, (weft_action_t){.kind = WEFT_ACTION_RECV, .peer = from_rank, .pass = pass});
}

static size_t bound(const weft_planner_t *p, weft_region_t r, int i, int n) {
  const size_t count = r.bytes / p->element; /* floor(count*i/n) without overflow */
  return (count / (size_t)n * (size_t)i + count % (size_t)n * (size_t)i / (size_t)n) * p->element;
}

weft_region_t weft_plan_parts(const weft_planner_t *p, weft_region_t r, int i, int j, int n) {
  const size_t from = bound(p, r, i, n), to = bound(p, r, j, n);
  return (weft_region_t){r.buffer, r.at + from, to - from};
}

weft_region_t weft_plan_part(const weft_planner_t *p, weft_region_t r, int i, int n) {
  return weft_plan_parts(p, r, i, i + 1, n);
}

int weft_plan_fields(const weft_planner_t *p, size_t bytes) {
  enum { MOST = 64 }; /* more in flight than any link holds, and the plan stays short */
  const size_t n = p->field_bytes == 0 ? 1 : (bytes + p->field_bytes / 2) / p->field_bytes;
  return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

weft_status_t *weft_plan_finish(weft_planner_t *p, weft_coll_plan_t **out) {
  weft_status_t *s = NULL;
  weft_coll_plan_t *plan = weft_calloc(1, sizeof *plan);
  if (plan != NULL) {
    atomic_init(&plan->refs, 1);
    plan->after = weft_calloc((size_t)p->num_edges + 1, sizeof *plan->after);
  }
  if (plan == NULL || plan->after == NULL || p->failed) {
    s = WEFT_NO_MEMORY("planning a collective of %d ranks", p->size);
    goto done;
  }
  for (int e = 0; e < p->num_edges; e++) {
    p->actions[p->edges[2 * e]].num_after++;
    p->actions[p->edges[2 * e + 1]].num_before++;
  }
  int at = 0;
  for (int i = 0; i < p->num_actions; i++) {
    p->actions[i].first_after = at;
    at += p->actions[i].num_after;
    p->actions[i].num_after = 0;
  }
  for (int e = 0; e < p->num_edges; e++) {
    weft_action_t *before = &p->actions[p->edges[2 * e]];
    plan->after[before->first_after + before->num_after++] = p->edges[2 * e + 1];
  }
  plan->actions = p->actions;
  plan->num_actions = p->num_actions;
  plan->scratch_bytes = p->scratch_bytes;
  plan->input_is_output = p->input_is_output;
  p->actions = NULL;
  *out = plan;
  plan = NULL;
done:
  weft_collective_plan_release(plan);
  weft_planner_deinit(p);
  return s;
}

void weft_planner_deinit(weft_planner_t *p) {
  weft_free(p->actions);
  weft_free(p->accesses);
  weft_free(p->edges);
  p->actions = NULL;
  p->accesses = NULL;
  p->edges = NULL;
}
