/* tools/submit/gate.c - which lane may start another run. */
#include "tools/submit/gate.h"

#include "base/alloc.h"

weft_status_t *weft_gate_init(weft_gate_t *g, const weft_run_plan_t *plan, int64_t first) {
  bool has_update = false;
  *g = (weft_gate_t){.num_lanes = plan->num_lanes, .first = first, .pause_at = INT64_MAX};
  g->lanes = weft_calloc((size_t)plan->num_lanes + 1, sizeof *g->lanes);
  if (g->lanes == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for %d lanes", plan->num_lanes);
  for (int i = 0; i < plan->num_lanes; i++) {
    g->lanes[i].is_update = plan->lanes[i].is_update;
    has_update = has_update || plan->lanes[i].is_update;
  }
  g->kind = has_update && !plan->in_step         ? WEFT_GATE_UPDATE
            : has_update || plan->num_lanes == 1 ? WEFT_GATE_IN_STEP
            : plan->lanes_wait                   ? WEFT_GATE_BOUND
                                                 : WEFT_GATE_FREE;
  return NULL;
}

void weft_gate_deinit(weft_gate_t *g) {
  weft_free(g->lanes);
  g->lanes = NULL;
}

static int64_t most_started(const weft_gate_t *g) {
  int64_t most = 0;
  for (int i = 0; i < g->num_lanes; i++) {
    bool counts = g->kind != WEFT_GATE_UPDATE || g->lanes[i].is_update;
    if (counts && g->lanes[i].started > most) most = g->lanes[i].started;
  }
  return most;
}

static int64_t all_started(const weft_gate_t *g) {
  int64_t n = 0;
  for (int i = 0; i < g->num_lanes; i++) n += g->lanes[i].started;
  return n;
}

bool weft_gate_may_start(const weft_gate_t *g, int lane, int64_t done) {
  const struct weft_gate_lane *l = &g->lanes[lane];
  switch (g->kind) {
    case WEFT_GATE_FREE: return g->first + all_started(g) < g->pause_at;
    case WEFT_GATE_BOUND: return done < g->pause_at || l->started < most_started(g);
    case WEFT_GATE_UPDATE: return !l->is_update || g->first + l->started < g->pause_at;
    default: return g->first + l->started < g->pause_at;
  }
}

bool weft_gate_is_still(const weft_gate_t *g, int64_t done) {
  if (g->pause_at > done) return false;
  for (int i = 0; i < g->num_lanes; i++) {
    const struct weft_gate_lane *l = &g->lanes[i];
    bool changes = g->kind != WEFT_GATE_UPDATE || l->is_update;
    if (changes && !l->has_ended && (l->is_busy || weft_gate_may_start(g, i, done))) return false;
  }
  return true;
}

void weft_gate_stop_soon(weft_gate_t *g, int64_t done, int64_t round) {
  int64_t at = g->kind == WEFT_GATE_BOUND  ? done
               : g->kind == WEFT_GATE_FREE ? g->first + all_started(g)
                                           : g->first + most_started(g);
  int64_t over = round > 1 ? (at - g->first) % round : 0;
  at += over == 0 ? 0 : round - over;
  if (at < g->pause_at) g->pause_at = at;
}
