/* jobs/safepoint.c - which loop may start another run. */
#include "jobs/safepoint.h"

#include "base/alloc.h"

weft_status_t *weft_job_safepoint_init(weft_job_safepoint_t *g, const weft_job_plan_t *plan, int64_t first) {
  bool has_update = false;
  *g = (weft_job_safepoint_t){.num_loops = plan->num_loops, .first = first, .pause_at = INT64_MAX};
  g->loops = weft_calloc((size_t)plan->num_loops + 1, sizeof *g->loops);
  if (g->loops == NULL) return WEFT_NO_MEMORY("%d loops", plan->num_loops);
  for (int i = 0; i < plan->num_loops; i++) {
    g->loops[i].is_update = plan->loops[i].is_update;
    has_update = has_update || plan->loops[i].is_update;
  }
  g->kind = has_update && !plan->in_step         ? WEFT_SAFEPOINT_UPDATE
            : has_update || plan->num_loops == 1 ? WEFT_SAFEPOINT_IN_STEP
            : plan->loops_wait                   ? WEFT_SAFEPOINT_BOUND
                                                 : WEFT_SAFEPOINT_FREE;
  return NULL;
}

void weft_job_safepoint_deinit(weft_job_safepoint_t *g) {
  weft_free(g->loops);
  g->loops = NULL;
}

static int64_t most_started(const weft_job_safepoint_t *g) {
  int64_t most = 0;
  for (int i = 0; i < g->num_loops; i++) {
    bool counts = g->kind != WEFT_SAFEPOINT_UPDATE || g->loops[i].is_update;
    if (counts && g->loops[i].started > most) most = g->loops[i].started;
  }
  return most;
}

static int64_t all_started(const weft_job_safepoint_t *g) {
  int64_t n = 0;
  for (int i = 0; i < g->num_loops; i++) n += g->loops[i].started;
  return n;
}

bool weft_job_safepoint_may_start(const weft_job_safepoint_t *g, int loop, int64_t done) {
  const struct weft_job_safepoint_loop *l = &g->loops[loop];
  switch (g->kind) {
    case WEFT_SAFEPOINT_FREE: return g->first + all_started(g) < g->pause_at;
    case WEFT_SAFEPOINT_BOUND: return done < g->pause_at || l->started < most_started(g);
    case WEFT_SAFEPOINT_UPDATE: return !l->is_update || g->first + l->started < g->pause_at;
    default: return g->first + l->started < g->pause_at;
  }
}

bool weft_job_safepoint_is_still(const weft_job_safepoint_t *g, int64_t done) {
  if (g->pause_at > done) return false;
  for (int i = 0; i < g->num_loops; i++) {
    const struct weft_job_safepoint_loop *l = &g->loops[i];
    bool changes = g->kind != WEFT_SAFEPOINT_UPDATE || l->is_update;
    if (changes && !l->has_ended && (l->is_busy || weft_job_safepoint_may_start(g, i, done))) return false;
  }
  return true;
}

void weft_job_safepoint_stop_soon(weft_job_safepoint_t *g, int64_t done, int64_t round) {
  int64_t at = g->kind == WEFT_SAFEPOINT_BOUND  ? done
               : g->kind == WEFT_SAFEPOINT_FREE ? g->first + all_started(g)
                                                : g->first + most_started(g);
  int64_t over = round > 1 ? (at - g->first) % round : 0;
  at += over == 0 ? 0 : round - over;
  if (at < g->pause_at) g->pause_at = at;
}
