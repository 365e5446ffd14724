/* tests/tools/gate_test.c - lanes come to a stop where they should, and always. */
#include "tools/submit/gate.h"

#include "tests/runner.h"

enum { LANES = 4, STEPS = 60 };

typedef struct game { /* Lanes that run by chance, under the rules of a kind of plan. */
  weft_run_plan_t plan;
  weft_run_lane_t lanes[LANES];
  weft_gate_t gate;
  int64_t finished[LANES], done;
  int64_t quota; /* of each lane */
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
  for (int i = 0; i < g->plan.num_lanes; i++) {
    sum += g->finished[i];
    if (g->finished[i] < least) least = g->finished[i];
  }
  return g->gate.kind == WEFT_GATE_FREE || g->gate.kind == WEFT_GATE_BOUND ? sum
         : g->gate.kind == WEFT_GATE_UPDATE ? g->finished[g->plan.num_lanes - 1]
                                            : least;
}

/* A run in progress can end unless it waits for slower lanes. */
static bool can_finish(const game_t *g, int lane, int64_t staleness) {
  if (!g->gate.lanes[lane].is_busy) return false;
  for (int i = 0; i < g->plan.num_lanes; i++) {
    bool waits = g->gate.kind == WEFT_GATE_BOUND || g->gate.kind == WEFT_GATE_IN_STEP;
    bool is_behind = g->finished[i] + staleness < g->finished[lane] && !g->gate.lanes[i].has_ended;
    if (waits && i != lane && is_behind) return false;
    if (g->gate.kind == WEFT_GATE_IN_STEP && g->gate.lanes[i].started < g->gate.lanes[lane].started &&
        !g->gate.lanes[i].has_ended)
      return false;
  }
  return true;
}

/* One move of some lane; false: no lane can move. */
static bool move(game_t *g, int64_t staleness) {
  int n = g->plan.num_lanes, from = (int)(chance(g) % (uint32_t)n);
  for (int k = 0; k < n; k++) {
    int i = (from + k) % n;
    struct weft_gate_lane *l = &g->gate.lanes[i];
    if (l->has_ended) continue;
    if (can_finish(g, i, staleness)) {
      l->is_busy = false;
      g->finished[i]++;
      g->done = steps_done(g);
      if (g->finished[i] == g->quota) l->has_ended = true;
      return true;
    }
    if (!l->is_busy && weft_gate_may_start(&g->gate, i, g->done)) {
      l->is_busy = true;
      l->started++;
      return true;
    }
  }
  return false;
}

static void play(bool has_update, bool in_step, bool waits, int lanes, int64_t every, int64_t staleness,
                 bool by_clock) {
  for (uint32_t seed = 1; seed <= 50; seed++) {
    game_t g = {.state = seed, .quota = STEPS};
    g.plan = (weft_run_plan_t){.lanes = g.lanes,
                               .num_lanes = lanes,
                               .in_step = in_step,
                               .lanes_wait = waits};
    g.lanes[lanes - 1].is_update = has_update;
    CU_ASSERT_PTR_NULL_FATAL(weft_gate_init(&g.gate, &g.plan, 0));
    if (!by_clock) g.gate.pause_at = every;
    bool goes_on = true;
    while (goes_on) {
      if (by_clock && g.gate.pause_at == INT64_MAX && chance(&g) % 20 == 0)
        weft_gate_stop_soon(&g.gate, g.done, every);
      if (weft_gate_is_still(&g.gate, g.done)) {
        for (int i = 0; i < lanes; i++)
          CU_ASSERT_TRUE(!g.gate.lanes[i].is_busy ||
                         (g.gate.kind == WEFT_GATE_UPDATE && !g.lanes[i].is_update));
        bool is_exact = g.gate.kind != WEFT_GATE_BOUND;
        CU_ASSERT_TRUE(is_exact ? g.done == g.gate.pause_at : g.done >= g.gate.pause_at);
        if (g.gate.kind == WEFT_GATE_IN_STEP) CU_ASSERT_EQUAL(g.done % every, 0);
        g.pauses++;
        g.gate.pause_at = by_clock ? INT64_MAX : g.done - g.done % every + every;
      }
      goes_on = move(&g, staleness);
    }
    for (int i = 0; i < lanes; i++) CU_ASSERT_EQUAL(g.finished[i], STEPS); /* no lane waits for ever */
    CU_ASSERT_TRUE(g.pauses > 1);
    weft_gate_deinit(&g.gate);
  }
}

static void one_lane_stops_at_each_multiple(void) { play(false, false, false, 1, 7, 0, false); }
static void lanes_in_step_stop_after_the_same_step(void) { play(true, true, false, 3, 7, 0, false); }
static void free_lanes_stop_at_exactly_that_many_runs(void) {
  play(false, false, false, 3, 7, 0, false);
}
static void lanes_that_wait_for_each_other_do_not_lock(void) {
  for (int64_t staleness = 0; staleness < 4; staleness++)
    play(false, false, true, 4, 7, staleness, false);
}
static void only_updates_stop_where_workers_may_be_late(void) {
  play(true, false, false, 3, 7, 0, false);
}
static void the_clock_stops_them_as_soon_as_it_can(void) {
  play(false, false, false, 1, 4, 0, true); /* at the end of a round of four */
  play(true, true, false, 3, 1, 0, true);
  play(false, false, false, 3, 1, 0, true);
  play(false, false, true, 3, 1, 1, true);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"one lane stops at each multiple", one_lane_stops_at_each_multiple},
      {"lanes in step stop after the same step", lanes_in_step_stop_after_the_same_step},
      {"free lanes stop at exactly that many runs", free_lanes_stop_at_exactly_that_many_runs},
      {"lanes that wait for each other do not lock", lanes_that_wait_for_each_other_do_not_lock},
      {"only updates stop where workers may be late", only_updates_stop_where_workers_may_be_late},
      {"the clock stops them as soon as it can", the_clock_stops_them_as_soon_as_it_can},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("gate", tests);
}
