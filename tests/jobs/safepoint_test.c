/* tests/jobs/safepoint_test.c - worker loops come to a stop where they should, and always. */
#include "jobs/safepoint.h"

#include "tests/runner.h"

enum { LOOPS = 4, STEPS = 60 };

typedef struct game { /* Loops that run by chance, under the rules of a kind of plan. */
  weft_job_plan_t plan;
  weft_job_loop_t loops[LOOPS];
  weft_job_safepoint_t safepoint;
  int64_t finished[LOOPS], done;
  int64_t quota; /* of each loop */
  uint32_t state;
  int pauses;
} game_t;

static uint32_t chance(game_t *g) {
  g->state = g->state * 1664525u + 1013904223u;
  return g->state >> 8;
}

/* Steps that are complete, by the kind. */
static int64_t steps_done(const game_t *g) {
  int64_t least = INT64_MAX, sum = 0;
  for (int i = 0; i < g->plan.num_loops; i++) {
    sum += g->finished[i];
    if (g->finished[i] < least) least = g->finished[i];
  }
  return g->safepoint.kind == WEFT_SAFEPOINT_FREE || g->safepoint.kind == WEFT_SAFEPOINT_BOUND ? sum
         : g->safepoint.kind == WEFT_SAFEPOINT_UPDATE ? g->finished[g->plan.num_loops - 1]
                                                      : least;
}

/* A run in progress can end unless it waits for slower loops. */
static bool can_finish(const game_t *g, int loop, int64_t staleness) {
  if (!g->safepoint.loops[loop].is_busy) return false;
  for (int i = 0; i < g->plan.num_loops; i++) {
    bool waits = g->safepoint.kind == WEFT_SAFEPOINT_BOUND || g->safepoint.kind == WEFT_SAFEPOINT_IN_STEP;
    bool is_behind = g->finished[i] + staleness < g->finished[loop] && !g->safepoint.loops[i].has_ended;
    if (waits && i != loop && is_behind) return false;
    if (g->safepoint.kind == WEFT_SAFEPOINT_IN_STEP &&
        g->safepoint.loops[i].started < g->safepoint.loops[loop].started && !g->safepoint.loops[i].has_ended)
      return false;
  }
  return true;
}

/* One move of some loop; false: no loop can move. */
static bool move(game_t *g, int64_t staleness) {
  int n = g->plan.num_loops, from = (int)(chance(g) % (uint32_t)n);
  for (int k = 0; k < n; k++) {
    int i = (from + k) % n;
    struct weft_job_safepoint_loop *l = &g->safepoint.loops[i];
    if (l->has_ended) continue;
    if (can_finish(g, i, staleness)) {
      l->is_busy = false;
      g->finished[i]++;
      g->done = steps_done(g);
      if (g->finished[i] == g->quota) l->has_ended = true;
      return true;
    }
    if (!l->is_busy && weft_job_safepoint_may_start(&g->safepoint, i, g->done)) {
      l->is_busy = true;
      l->started++;
      return true;
    }
  }
  return false;
}

static void play(bool has_update, bool in_step, bool waits, int loops, int64_t every, int64_t staleness,
                 bool by_clock) {
  for (uint32_t seed = 1; seed <= 50; seed++) {
    game_t g = {.state = seed, .quota = STEPS};
    g.plan = (weft_job_plan_t){.loops = g.loops, .num_loops = loops, .in_step = in_step, .loops_wait = waits};
    g.loops[loops - 1].is_update = has_update;
    CU_ASSERT_PTR_NULL_FATAL(weft_job_safepoint_init(&g.safepoint, &g.plan, 0));
    if (!by_clock) g.safepoint.pause_at = every;
    bool goes_on = true;
    while (goes_on) {
      if (by_clock && g.safepoint.pause_at == INT64_MAX && chance(&g) % 20 == 0)
        weft_job_safepoint_stop_soon(&g.safepoint, g.done, every);
      if (weft_job_safepoint_is_still(&g.safepoint, g.done)) {
        for (int i = 0; i < loops; i++)
          CU_ASSERT_TRUE(!g.safepoint.loops[i].is_busy ||
                         (g.safepoint.kind == WEFT_SAFEPOINT_UPDATE && !g.loops[i].is_update));
        bool is_exact = g.safepoint.kind != WEFT_SAFEPOINT_BOUND;
        CU_ASSERT_TRUE(is_exact ? g.done == g.safepoint.pause_at : g.done >= g.safepoint.pause_at);
        if (g.safepoint.kind == WEFT_SAFEPOINT_IN_STEP) CU_ASSERT_EQUAL(g.done % every, 0);
        g.pauses++;
        g.safepoint.pause_at = by_clock ? INT64_MAX : g.done - g.done % every + every;
      }
      goes_on = move(&g, staleness);
    }
    for (int i = 0; i < loops; i++) CU_ASSERT_EQUAL(g.finished[i], STEPS); /* no loop waits for ever */
    CU_ASSERT_TRUE(g.pauses > 1);
    weft_job_safepoint_deinit(&g.safepoint);
  }
}

static void one_loop_stops_at_each_multiple(void) { play(false, false, false, 1, 7, 0, false); }
static void loops_in_step_stop_after_the_same_step(void) { play(true, true, false, 3, 7, 0, false); }
static void free_loops_stop_at_exactly_that_many_runs(void) { play(false, false, false, 3, 7, 0, false); }
static void loops_that_wait_for_each_other_do_not_lock(void) {
  for (int64_t staleness = 0; staleness < 4; staleness++) play(false, false, true, 4, 7, staleness, false);
}
static void only_updates_stop_where_workers_may_be_late(void) { play(true, false, false, 3, 7, 0, false); }
static void the_clock_stops_them_as_soon_as_it_can(void) {
  play(false, false, false, 1, 4, 0, true); /* at the end of a round of four */
  play(true, true, false, 3, 1, 0, true);
  play(false, false, false, 3, 1, 0, true);
  play(false, false, true, 3, 1, 1, true);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"one loop stops at each multiple", one_loop_stops_at_each_multiple},
      {"loops in step stop after the same step", loops_in_step_stop_after_the_same_step},
      {"free loops stop at exactly that many runs", free_loops_stop_at_exactly_that_many_runs},
      {"loops that wait for each other do not lock", loops_that_wait_for_each_other_do_not_lock},
      {"only updates stop where workers may be late", only_updates_stop_where_workers_may_be_late},
      {"the clock stops them as soon as it can", the_clock_stops_them_as_soon_as_it_can},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("safepoint", tests);
}
