/* Loops that run as loops give what scheduled ones give: random graphs, both ways. */
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/executor/graphs.h"
#include "tests/runner.h"

enum { THREADS = 3, GRAPHS = 800, RUNS = 4, ARGS = 3, MOST_VALUES = 12, MOST_DEPTH = 3 };

/* ---- random graphs ---- */

typedef struct maker {
  harness_t *h;
  uint64_t random;
  int num_names, num_loops;
  bool may_fail, may_cost;
} maker_t;

static uint32_t below(maker_t *m, uint32_t n) { /* splitmix64 by Sebastiano Vigna, public domain */
  uint64_t z = (m->random += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ (z >> 31)) % n);
}

static const char *name(maker_t *m) {
  static char text[32];
  snprintf(text, sizeof text, "n%d", m->num_names++);
  return text;
}

/* Values of one frame and branch, from which nodes may be made. `gate`: what keeps a constant in the frame.
 */
typedef struct values {
  weft_output_t all[MOST_VALUES];
  int n;
  weft_node_t *gate; /* NULL: at the top level */
} values_t;

static weft_output_t any(maker_t *m, const values_t *v) { return v->all[below(m, (uint32_t)v->n)]; }

static void keep(maker_t *m, values_t *v, weft_output_t o) {
  v->all[v->n < MOST_VALUES ? v->n++ : (int)below(m, MOST_VALUES)] = o;
}

static weft_output_t op(maker_t *m, const char *kind, int n, weft_output_t a, weft_output_t b) {
  return out0(add_op(m->h, kind, name(m), n, (weft_output_t[]){a, b}));
}

static weft_output_t constant(maker_t *m, const values_t *v, int32_t value) {
  weft_node_t *c = add_const(m->h, name(m), value);
  if (v->gate != NULL) add_control(m->h, v->gate, c);
  return out0(c);
}

static void add_some(maker_t *m, values_t *v, int depth);

/* A value of `v` that waits for a node of `before`, dead or alive, by a ControlTrigger. */
static weft_output_t triggered(maker_t *m, const values_t *v, const values_t *before) {
  weft_node_t *trigger = add_op(m->h, "ControlTrigger", name(m), 0, NULL);
  add_control(m->h, any(m, before).node, trigger);
  const weft_output_t value = any(m, v), copy = out0(add_op(m->h, "Identity", name(m), 1, &value));
  add_control(m->h, trigger, copy.node);
  return copy;
}

/* Two sides of a predicate, and what is left of either. */
static void add_branch(maker_t *m, values_t *v, int depth) {
  const weft_output_t pred = op(m, "Less", 2, any(m, v), constant(m, v, (int32_t)below(m, 40) - 10));
  const weft_output_t taken[2] = {any(m, v), any(m, v)};
  values_t sides[2] = {{.n = 0}, {.n = 0}};
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < 2; i++)
      keep(m, &sides[side], out(add_op(m->h, "Switch", name(m), 2, (weft_output_t[]){taken[i], pred}), side));
    sides[side].gate = add_op(m->h, "Identity", name(m), 1, &sides[side].all[0]);
    add_some(m, &sides[side], depth + 1);
  }
  for (int i = 0; i < 2; i++)
    keep(m, v, out0(add_merge(m->h, name(m), any(m, &sides[0]), any(m, &sides[1]))));
  if (below(m, 3) == 0) keep(m, v, triggered(m, v, &sides[below(m, 2)]));
}

typedef struct variable {
  weft_node_t *merge, *branch, *exit;
} variable_t;

static variable_t carry(maker_t *m, const char *frame, weft_output_t start, int parallel) {
  weft_node_t *enter = add_enter(m->h, name(m), start, frame, false, parallel);
  return (variable_t){.merge = add_merge(m->h, name(m), out0(enter), out0(enter))};
}

static void add_loop(maker_t *m, values_t *v, int depth) {
  char frame[32];
  variable_t vars[4];
  const int n = 1 + (int)below(m, 3), parallel = below(m, 3) == 0 ? 1 : 10;
  snprintf(frame, sizeof frame, "loop%d", m->num_loops++);
  vars[0] = carry(m, frame, constant(m, v, 0), parallel); /* counts */
  for (int i = 1; i <= n; i++) vars[i] = carry(m, frame, any(m, v), parallel);
  values_t before = {.gate = vars[0].merge}, body = {.n = 0};
  for (int i = 0; i <= n; i++) keep(m, &before, out0(vars[i].merge));
  const weft_output_t limit =
      out0(add_enter(m->h, name(m), constant(m, v, (int32_t)below(m, 7)), frame, true, parallel));
  const weft_output_t outside = out0(add_enter(m->h, name(m), any(m, v), frame, true, parallel));
  keep(m, &before, outside);
  if (below(m, 2) == 0) add_some(m, &before, MOST_DEPTH);
  const weft_output_t cond = out0(
      add_op(m->h, "LoopCond", name(m), 1, (weft_output_t[]){op(m, "Less", 2, out0(vars[0].merge), limit)}));
  /* Now and then a variable ends by itself, before the loop or after it. */
  weft_output_t other = cond;
  if (below(m, 6) == 0)
    other = op(m, "Less", 2, out0(vars[0].merge), constant(m, &before, (int32_t)below(m, 7)));
  for (int i = 0; i <= n; i++) {
    vars[i].branch =
        add_op(m->h, "Switch", name(m), 2, (weft_output_t[]){out0(vars[i].merge), i == n ? other : cond});
    vars[i].exit = add_op(m->h, "Exit", name(m), 1, (weft_output_t[]){out(vars[i].branch, 0)});
    keep(m, &body, out(vars[i].branch, 1));
  }
  body.gate = add_op(m->h, "Identity", name(m), 1, &body.all[0]);
  weft_node_t *invariant = add_op(m->h, "Identity", name(m), 1, &outside);
  add_control(m->h, body.gate, invariant);
  keep(m, &body, out0(invariant));
  const weft_output_t one = constant(m, &body, 1);
  const weft_output_t next = op(m, "Add", 2, out(vars[0].branch, 1), one);
  add_some(m, &body, depth + 1);
  const uint32_t is_triggered = below(m, 8); /* 1: what runs before the body waits for it, then */
  if (is_triggered < 2) keep(m, &body, triggered(m, is_triggered == 1 ? &before : &body, &body));
  for (int i = 0; i <= n; i++) {
    weft_output_t value = i == 0 ? next : any(m, &body);
    if (i == n && other.node != cond.node) value = op(m, "Add", 2, out(vars[i].branch, 1), one);
    weft_graph_set_input(vars[i].merge, 1, out0(add_op(m->h, "NextIteration", name(m), 1, &value)));
    keep(m, v, out0(vars[i].exit));
  }
}

static void add_some(maker_t *m, values_t *v, int depth) {
  const int n = 1 + (int)below(m, 4);
  for (int i = 0; i < n; i++) {
    const uint32_t kind = below(m, 16);
    if (kind < 4 && depth < MOST_DEPTH) {
      add_loop(m, v, depth);
    } else if (kind < 6 && depth < MOST_DEPTH) {
      add_branch(m, v, depth);
    } else if (kind < 8) {
      keep(m, v, op(m, "Square", 1, any(m, v), any(m, v)));
    } else if (kind < 9 && m->may_fail) {
      keep(m, v, op(m, "Abs", 1, any(m, v), any(m, v)));
    } else if (kind < 10 && m->may_cost) {
      keep(m, v, op(m, "Mul", 2, any(m, v), any(m, v)));
    } else if (kind < 11) {
      keep(m, v, op(m, "Identity", 1, any(m, v), any(m, v)));
    } else if (kind < 12) {
      keep(m, v, constant(m, v, (int32_t)below(m, 9) - 4));
    } else {
      keep(m, v, op(m, "Add", 2, any(m, v), any(m, v)));
    }
  }
}

static void make(harness_t *h, uint64_t seed, int threads, bool only_schedules) {
  harness_init(h, threads);
  h->only_schedules = only_schedules;
  maker_t m = {.h = h, .random = seed, .may_fail = seed % 3 == 0, .may_cost = seed % 4 == 0};
  values_t v = {.n = 0};
  for (int i = 0; i < ARGS; i++) {
    const int32_t value = (int32_t)below(&m, 50) - 10;
    weft_status_t *s = weft_tensor_scalar(WEFT_I32, &value, &h->args[i]);
    CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
    keep(&m, &v, out0(add_arg(h, name(&m), i)));
  }
  add_loop(&m, &v, 0);
  add_some(&m, &v, 0);
  for (int i = v.n > 6 ? v.n - 6 : 0; i < v.n; i++) add_fetch(h, v.all[i]);
}

/* What a step ended with. */
typedef struct outcome {
  char message[256];
  int32_t results[MAX_RESULTS];
} outcome_t;

static outcome_t run(harness_t *h) {
  outcome_t o = {.message = ""};
  weft_status_t *s = harness_run(h);
  if (s != NULL) snprintf(o.message, sizeof o.message, "%s", weft_status_message(s));
  weft_status_free(s);
  for (int i = 0; i < h->num_results && o.message[0] == '\0'; i++) o.results[i] = result(h, i);
  return o;
}

/* Which of several failures comes first is not determined. */
static bool are_equal(const outcome_t *a, const outcome_t *b, int num_results) {
  if ((a->message[0] == '\0') != (b->message[0] == '\0')) return false;
  return a->message[0] != '\0' ||
         memcmp(a->results, b->results, (size_t)num_results * sizeof a->results[0]) == 0;
}

static void random_graphs_agree(void) {
  int num_failed = 0, num_ok = 0;
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
    harness_t h;
    make(&h, seed, 0, true);
    const outcome_t want = run(&h);
    harness_deinit(&h);
    num_failed += want.message[0] != '\0';
    num_ok += want.message[0] == '\0';
    make(&h, seed, seed % 2 == 0 ? THREADS : 0, false);
    for (int i = 0; i < RUNS; i++) { /* the first one is scheduled: costs are known from the second on */
      const outcome_t got = run(&h);
      if (!are_equal(&want, &got, h.num_results))
        fprintf(stderr, "graph %d: '%s', not '%s'\n", (int)seed, got.message, want.message);
      CU_ASSERT_TRUE(are_equal(&want, &got, h.num_results));
    }
    harness_deinit(&h);
  }
  CU_ASSERT_TRUE(num_failed > GRAPHS / 50);
  CU_ASSERT_TRUE(num_ok > GRAPHS / 2);
}

/* ---- several steps of one plan ---- */

enum { STEPS = 20 };

typedef struct stepper {
  harness_t *h;
  const outcome_t *want;
  int num_different;
} stepper_t;

static void *step_on(void *arg) {
  stepper_t *s = arg;
  for (int i = 0; i < STEPS; i++) {
    weft_tensor_t *results[MAX_RESULTS] = {NULL};
    weft_run_options_t o = {.step = {.id = i + 1,
                                     .args = s->h->args,
                                     .num_args = MAX_RESULTS,
                                     .results = results,
                                     .num_results = MAX_RESULTS},
                            .run_inline = true};
    weft_status_t *status = weft_plan_run_sync(s->h->plan, &o);
    bool is_same = (status == NULL) == (s->want->message[0] == '\0');
    for (int k = 0; k < s->h->num_results; k++) {
      const int32_t got = results[k] == NULL ? INT32_MIN : *(const int32_t *)results[k]->data;
      is_same = is_same && (status != NULL || got == s->want->results[k]);
    }
    for (int k = 0; k < MAX_RESULTS; k++) weft_tensor_release(results[k]);
    weft_status_free(status);
    s->num_different += !is_same;
  }
  return NULL;
}

static void steps_on_one_plan_run_at_once(void) {
  for (uint64_t seed = 4; seed <= 60; seed += 4) {
    harness_t h;
    make(&h, seed, THREADS, false);
    const outcome_t want = run(&h);
    stepper_t steppers[2] = {{.h = &h, .want = &want}, {.h = &h, .want = &want}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
      CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, step_on, &steppers[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(steppers[0].num_different + steppers[1].num_different, 0);
    harness_deinit(&h);
  }
}

/* ---- a loop that is worth more than one thread ---- */

/* Squares of the counter, by two costly nodes that nothing needs in the next iteration but their sum. */
static void heavy_loops_use_the_pool(void) {
  harness_t h;
  harness_init(&h, THREADS);
  maker_t m = {.h = &h};
  values_t v = {.n = 0};
  variable_t counter = carry(&m, "loop", constant(&m, &v, 0), 10),
             sum = carry(&m, "loop", constant(&m, &v, 0), 10);
  const weft_output_t limit = out0(add_enter(&h, name(&m), constant(&m, &v, 40), "loop", true, 10));
  const weft_output_t one = out0(add_enter(&h, name(&m), constant(&m, &v, 1), "loop", true, 10));
  const weft_output_t cond = op(&m, "LoopCond", 1, op(&m, "Less", 2, out0(counter.merge), limit), one);
  const weft_output_t i = out(add_op(&h, "Switch", "i", 2, (weft_output_t[]){out0(counter.merge), cond}), 1);
  weft_node_t *branch = add_op(&h, "Switch", "sum", 2, (weft_output_t[]){out0(sum.merge), cond});
  const weft_output_t both = op(&m, "Add", 2, op(&m, "Mul", 2, i, i), op(&m, "Mul", 2, i, i));
  const weft_output_t nexts[2] = {op(&m, "Add", 2, i, one), op(&m, "Add", 2, out(branch, 1), both)};
  weft_graph_set_input(counter.merge, 1, op(&m, "NextIteration", 1, nexts[0], one));
  weft_graph_set_input(sum.merge, 1, op(&m, "NextIteration", 1, nexts[1], one));
  const int r = add_fetch(&h, op(&m, "Exit", 1, out(branch, 0), one));
  weft_step_recorder_t recorder;
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(&h));
  bool were_several = false;
  for (int k = 0; k < 50 && !were_several; k++) { /* the first steps learn what nodes cost */
    weft_step_recorder_init(&recorder);
    weft_run_options_t o = harness_options(&h);
    o.recorder = &recorder;
    weft_status_t *s = weft_plan_run_sync(h.plan, &o);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
    weft_status_free(s);
    CU_ASSERT_EQUAL(result(&h, r), 2 * 39 * 40 * 79 / 6);
    for (size_t n = 1; n < recorder.count; n++)
      were_several = were_several || recorder.stats[n].thread != recorder.stats[0].thread;
    weft_step_recorder_deinit(&recorder);
  }
  CU_ASSERT_TRUE(were_several);
  harness_deinit(&h);
}

/* ---- memory ---- */

/* Two steps of a new plan: the first is scheduled but for its loops. */
static weft_status_t *compile_and_run_twice(harness_t *h) {
  weft_plan_release(h->plan);
  h->plan = NULL;
  WEFT_RETURN_IF_ERROR(harness_compile(h));
  weft_status_t *s = NULL;
  for (int i = 0; i < 2 && s == NULL; i++) {
    for (int k = 0; k < MAX_RESULTS; k++) {
      weft_tensor_release(h->results[k]);
      h->results[k] = NULL;
    }
    weft_run_options_t o = {.step = {.id = i + 1,
                                     .args = h->args,
                                     .num_args = MAX_RESULTS,
                                     .results = h->results,
                                     .num_results = MAX_RESULTS},
                            .run_inline = true};
    s = weft_plan_run_sync(h->plan, &o);
  }
  return s;
}

static void every_failing_allocation_is_reported(void) {
  harness_t h;
  make(&h, 8, 0, false);
  const outcome_t want = run(&h);
  long n = 0;
  CU_ASSERT_STRING_EQUAL_FATAL(want.message, "");
  WEFT_FAIL_EACH_ALLOCATION(n, s, compile_and_run_twice(&h));
  CU_ASSERT_TRUE(n > 100);
  for (int i = 0; i < h.num_results; i++) CU_ASSERT_EQUAL(result(&h, i), want.results[i]);
  harness_deinit(&h);
}

static const CU_TestInfo tests[] = {
    {"random graphs agree", random_graphs_agree},
    {"steps on one plan run at once", steps_on_one_plan_run_at_once},
    {"heavy loops use the pool", heavy_loops_use_the_pool},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("serial", tests); }
