/* Loops and conditionals: which values live, which die, and that everything ends. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "tests/executor/graphs.h"
#include "tests/runner.h"

enum { THREADS = 3 };

/* Every test runs on one thread and on several. */
static void each_way(void (*test)(harness_t *h)) {
  for (int threads = 0; threads <= THREADS; threads += THREADS) {
    harness_t h;
    harness_init(&h, threads);
    test(&h);
    harness_deinit(&h);
  }
}

static void must_run(harness_t *h) {
  weft_status_t *s = harness_run(h);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
  weft_status_free(s);
}

typedef struct loop {
  weft_node_t *enter, *merge, *cond, *branch, *next, *exit; /* of the counter */
  weft_node_t *limit, *one;
} loop_t;

/* for (i = start; i < limit; i++); `name` is the frame's. */
static loop_t counting_loop(harness_t *h, const char *name, weft_output_t start, weft_output_t limit,
                            int parallel) {
  char text[8][64];
  const char *parts[8] = {"enter", "limit", "one", "merge", "less", "cond", "switch", "add"};
  for (int i = 0; i < 8; i++) snprintf(text[i], sizeof text[i], "%s/%s", name, parts[i]);
  char next[64], exit[64], one[64];
  snprintf(next, sizeof next, "%s/next", name);
  snprintf(exit, sizeof exit, "%s/exit", name);
  snprintf(one, sizeof one, "%s/one_value", name);
  loop_t l;
  l.enter = add_enter(h, text[0], start, name, false, parallel);
  l.limit = add_enter(h, text[1], limit, name, true, parallel);
  l.one = add_enter(h, text[2], out0(add_const(h, one, 1)), name, true, parallel);
  l.merge = add_merge(h, text[3], out0(l.enter), out0(l.enter));
  weft_node_t *less = add_op(h, "Less", text[4], INPUTS(out0(l.merge), out0(l.limit)));
  l.cond = add_op(h, "LoopCond", text[5], INPUTS(out0(less)));
  l.branch = add_op(h, "Switch", text[6], INPUTS(out0(l.merge), out0(l.cond)));
  weft_node_t *sum = add_op(h, "Add", text[7], INPUTS(out(l.branch, 1), out0(l.one)));
  l.next = add_op(h, "NextIteration", next, INPUTS(out0(sum)));
  weft_graph_set_input(l.merge, 1, out0(l.next));
  l.exit = add_op(h, "Exit", exit, INPUTS(out(l.branch, 0)));
  return l;
}

/* Carries another value through the loop, from `start` on; returns the Switch. *merge and *exit are for the
 * caller. */
static weft_node_t *carry(harness_t *h, const loop_t *l, const char *name, const char *frame,
                          weft_output_t start, weft_node_t **merge, weft_node_t **exit) {
  char text[4][64];
  const char *parts[4] = {"enter", "merge", "switch", "exit"};
  for (int i = 0; i < 4; i++) snprintf(text[i], sizeof text[i], "%s/%s", name, parts[i]);
  weft_node_t *enter = add_enter(h, text[0], start, frame, false, 10);
  *merge = add_merge(h, text[1], out0(enter), out0(enter));
  weft_node_t *branch = add_op(h, "Switch", text[2], INPUTS(out0(*merge), out0(l->cond)));
  *exit = add_op(h, "Exit", text[3], INPUTS(out(branch, 0)));
  return branch;
}

static void count(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 1000)), 10);
  int r = add_fetch(h, out0(l.exit));
  for (int i = 0; i < 3; i++) {
    must_run(h);
    CU_ASSERT_EQUAL(result(h, r), 1000);
  }
}
static void loops_count(void) { each_way(count); }

static void none(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "five", 5)), out0(add_const(h, "n", 5)), 10);
  int r = add_fetch(h, out0(l.exit));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 5);
}
static void loops_may_run_zero_times(void) { each_way(none); }

static void one_at_a_time(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 100)), 1);
  /* A slow value: its NextIterations come late, so that the counter's are parked. */
  weft_node_t *merge, *exit;
  weft_node_t *branch = carry(h, &l, "slow", "loop", out0(add_const(h, "start", 1)), &merge, &exit);
  weft_node_t *neg = add_op(h, "Neg", "neg", INPUTS(out(branch, 1)));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "slow/next", INPUTS(out0(neg)))));
  int a = add_fetch(h, out0(l.exit)), b = add_fetch(h, out0(exit));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, a), 100);
  CU_ASSERT_EQUAL(result(h, b), 1);
}
static void parallel_iterations_may_be_one(void) { each_way(one_at_a_time); }

static void ahead(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 99)), 4);
  weft_node_t *merge, *exit;
  weft_node_t *branch = carry(h, &l, "slow", "loop", out0(add_const(h, "start", 7)), &merge, &exit);
  weft_node_t *neg = add_op(h, "Neg", "neg", INPUTS(out(branch, 1)));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "slow/next", INPUTS(out0(neg)))));
  int a = add_fetch(h, out0(l.exit)), b = add_fetch(h, out0(exit));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, a), 99);
  CU_ASSERT_EQUAL(result(h, b), -7);
}
static void a_fast_value_runs_ahead_of_a_slow_one(void) { each_way(ahead); }

/* sum = 0; for (i = 0; i < 5; i++) for (j = 0; j < 7; j++) sum++ */
static void nested(harness_t *h) {
  weft_node_t *zero = add_const(h, "zero", 0);
  loop_t outer = counting_loop(h, "outer", out0(zero), out0(add_const(h, "n", 5)), 10);
  weft_node_t *merge, *exit;
  weft_node_t *sum = carry(h, &outer, "sum", "outer", out0(zero), &merge, &exit);
  /* The inner loop counts from sum to sum + 7. */
  weft_node_t *seven = add_enter(h, "seven/enter", out0(add_const(h, "seven", 7)), "outer", true, 10);
  weft_node_t *end = add_op(h, "Add", "end", INPUTS(out(sum, 1), out0(seven)));
  weft_node_t *i_enter = add_enter(h, "inner/enter", out(sum, 1), "inner", false, 10);
  weft_node_t *i_limit = add_enter(h, "inner/limit", out0(end), "inner", true, 10);
  weft_node_t *i_one = add_enter(h, "inner/one", out0(outer.one), "inner", true, 10);
  weft_node_t *i_merge = add_merge(h, "inner/merge", out0(i_enter), out0(i_enter));
  weft_node_t *i_less = add_op(h, "Less", "inner/less", INPUTS(out0(i_merge), out0(i_limit)));
  weft_node_t *i_cond = add_op(h, "LoopCond", "inner/cond", INPUTS(out0(i_less)));
  weft_node_t *i_branch = add_op(h, "Switch", "inner/switch", INPUTS(out0(i_merge), out0(i_cond)));
  weft_node_t *i_add = add_op(h, "Add", "inner/add", INPUTS(out(i_branch, 1), out0(i_one)));
  weft_graph_set_input(i_merge, 1, out0(add_op(h, "NextIteration", "inner/next", INPUTS(out0(i_add)))));
  weft_node_t *i_exit = add_op(h, "Exit", "inner/exit", INPUTS(out(i_branch, 0)));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "sum/next", INPUTS(out0(i_exit)))));
  int r = add_fetch(h, out0(exit)), c = add_fetch(h, out0(outer.exit));
  for (int i = 0; i < 3; i++) {
    must_run(h);
    CU_ASSERT_EQUAL(result(h, r), 35);
    CU_ASSERT_EQUAL(result(h, c), 5);
  }
}
static void loops_nest(void) { each_way(nested); }

/* Runs the same plan with the predicate as an argument. */
static void set_arg(harness_t *h, int i, int32_t value) {
  weft_tensor_release(h->args[i]);
  h->args[i] = NULL;
  weft_status_t *s = weft_tensor_scalar(WEFT_I32, &value, &h->args[i]);
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static void branches(harness_t *h) {
  weft_node_t *arg = add_arg(h, "arg", 0), *ten = add_const(h, "ten", 10);
  weft_node_t *pred = add_op(h, "Less", "pred", INPUTS(out0(arg), out0(ten)));
  weft_node_t *sw = add_op(h, "Switch", "switch", INPUTS(out0(arg), out0(pred)));
  weft_node_t *yes = add_op(h, "Square", "yes", INPUTS(out(sw, 1)));
  weft_node_t *no = add_op(h, "Identity", "no", INPUTS(out(sw, 0)));
  weft_node_t *merge = add_merge(h, "merge", out0(no), out0(yes));
  int r = add_fetch(h, out0(merge)), index = add_fetch(h, out(merge, 1)), dead = add_fetch(h, out0(no));
  set_arg(h, 0, 3);
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 9);
  CU_ASSERT_EQUAL(result(h, index), 1);
  CU_ASSERT_PTR_NULL(h->results[dead]);
  set_arg(h, 0, 12);
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 12);
  CU_ASSERT_EQUAL(result(h, index), 0);
  CU_ASSERT_EQUAL(result(h, dead), 12);
}
static void merge_takes_the_live_branch(void) { each_way(branches); }

static void all_dead(harness_t *h) {
  weft_node_t *x = add_const(h, "x", 1);
  weft_node_t *sw = add_op(h, "Switch", "switch", INPUTS(out0(x), out0(add_bool(h, "no", false))));
  weft_node_t *a = add_op(h, "Identity", "a", INPUTS(out(sw, 1)));
  weft_node_t *b = add_op(h, "Identity", "b", INPUTS(out(sw, 1)));
  weft_node_t *merge = add_merge(h, "merge", out0(a), out0(b));
  weft_node_t *after = add_const(h, "after", 5);
  add_control(h, merge, after);
  weft_node_t *trigger = add_op(h, "ControlTrigger", "trigger", 0, NULL);
  add_control(h, merge, trigger);
  weft_node_t *lives = add_const(h, "lives", 6);
  add_control(h, trigger, lives);
  int r = add_fetch(h, out0(merge)), dead = add_fetch(h, out0(after)), alive = add_fetch(h, out0(lives));
  must_run(h);
  CU_ASSERT_PTR_NULL(h->results[r]);
  CU_ASSERT_PTR_NULL(h->results[dead]);
  CU_ASSERT_EQUAL(result(h, alive), 6);
}
static void deadness_passes_control_edges_but_not_triggers(void) { each_way(all_dead); }

static void dead_control(harness_t *h) {
  weft_node_t *x = add_const(h, "x", 1);
  weft_node_t *sw = add_op(h, "Switch", "switch", INPUTS(out0(x), out0(add_bool(h, "no", false))));
  weft_node_t *dead = add_op(h, "Identity", "dead", INPUTS(out(sw, 1)));
  weft_node_t *merge = add_merge(h, "merge", out0(dead), out(sw, 0));
  add_control(h, dead, merge);
  int r = add_fetch(h, out0(merge));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 1);
}
static void a_dead_control_input_does_not_kill_a_merge(void) { each_way(dead_control); }

static void two_live(harness_t *h) {
  weft_node_t *merge = add_merge(h, "merge", out0(add_const(h, "a", 4)), out0(add_const(h, "b", 4)));
  int r = add_fetch(h, out0(merge));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 4);
}
static void the_first_of_two_live_inputs_wins(void) { each_way(two_live); }

static void dead_loop(harness_t *h) {
  weft_node_t *x = add_const(h, "x", 0);
  weft_node_t *sw = add_op(h, "Switch", "switch", INPUTS(out0(x), out0(add_bool(h, "no", false))));
  loop_t l = counting_loop(h, "loop", out(sw, 1), out0(add_const(h, "n", 3)), 10);
  weft_node_t *done = add_const(h, "done", 1);
  add_control(h, l.exit, done);
  weft_node_t *merge = add_merge(h, "merge", out0(l.exit), out(sw, 0));
  int r = add_fetch(h, out0(merge)), e = add_fetch(h, out0(l.exit)), d = add_fetch(h, out0(done));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 0);
  CU_ASSERT_PTR_NULL(h->results[e]);
  CU_ASSERT_PTR_NULL(h->results[d]);
  CU_ASSERT_EQUAL(atomic_load(&test_runs), 0);
}
static void a_loop_in_an_untaken_branch_is_dead(void) { each_way(dead_loop); }

/* In the loop, an Exit behind a conditional: it is live in the iteration in which i is 3, dead in all others.
 */
static void cond_in_loop(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 6)), 10);
  weft_node_t *merge, *exit;
  weft_node_t *acc = carry(h, &l, "acc", "loop", out0(add_const(h, "start", 100)), &merge, &exit);
  weft_node_t *three = add_enter(h, "three/enter", out0(add_const(h, "three", 3)), "loop", true, 10);
  weft_node_t *pred = add_op(h, "Less", "pred", INPUTS(out(l.branch, 1), out0(three)));
  weft_node_t *sw = add_op(h, "Switch", "if/switch", INPUTS(out(acc, 1), out0(pred)));
  weft_node_t *plus = add_op(h, "Add", "if/plus", INPUTS(out(sw, 1), out0(l.one)));
  weft_node_t *join = add_merge(h, "if/merge", out(sw, 0), out0(plus));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "acc/next", INPUTS(out0(join)))));
  int r = add_fetch(h, out0(exit));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 103);
}
static void conditionals_work_inside_loops(void) { each_way(cond_in_loop); }

static void loop_in_cond(harness_t *h) {
  weft_node_t *arg = add_arg(h, "arg", 0), *two = add_const(h, "two", 2);
  weft_node_t *pred = add_op(h, "Less", "pred", INPUTS(out0(arg), out0(two)));
  weft_node_t *sw = add_op(h, "Switch", "switch", INPUTS(out0(arg), out0(pred)));
  loop_t l = counting_loop(h, "loop", out(sw, 1), out0(add_const(h, "n", 50)), 3);
  weft_node_t *merge = add_merge(h, "merge", out(sw, 0), out0(l.exit));
  int r = add_fetch(h, out0(merge));
  for (int i = 0; i < 6; i++) {
    set_arg(h, 0, i);
    must_run(h);
    CU_ASSERT_EQUAL(result(h, r), i < 2 ? 50 : i);
  }
}
static void loops_work_inside_conditionals(void) { each_way(loop_in_cond); }

/* The inner loop runs only when i < 2; otherwise its Exit is dead and the other branch counts. */
static void nested_cond(harness_t *h) {
  weft_node_t *zero = add_const(h, "zero", 0);
  loop_t outer = counting_loop(h, "outer", out0(zero), out0(add_const(h, "n", 4)), 2);
  weft_node_t *merge, *exit;
  weft_node_t *sum = carry(h, &outer, "sum", "outer", out0(zero), &merge, &exit);
  weft_node_t *two = add_enter(h, "two/enter", out0(add_const(h, "two", 2)), "outer", true, 10);
  weft_node_t *ten = add_enter(h, "ten/enter", out0(add_const(h, "ten", 10)), "outer", true, 10);
  weft_node_t *pred = add_op(h, "Less", "pred", INPUTS(out(outer.branch, 1), out0(two)));
  weft_node_t *sw = add_op(h, "Switch", "if", INPUTS(out(sum, 1), out0(pred)));
  weft_node_t *end = add_op(h, "Add", "end", INPUTS(out(sw, 1), out0(ten)));
  weft_node_t *i_enter = add_enter(h, "inner/enter", out(sw, 1), "inner", false, 10);
  weft_node_t *i_limit = add_enter(h, "inner/limit", out0(end), "inner", true, 10);
  weft_node_t *i_one = add_enter(h, "inner/one", out0(outer.one), "inner", true, 10);
  weft_node_t *i_merge = add_merge(h, "inner/merge", out0(i_enter), out0(i_enter));
  weft_node_t *i_less = add_op(h, "Less", "inner/less", INPUTS(out0(i_merge), out0(i_limit)));
  weft_node_t *i_cond = add_op(h, "LoopCond", "inner/cond", INPUTS(out0(i_less)));
  weft_node_t *i_branch = add_op(h, "Switch", "inner/switch", INPUTS(out0(i_merge), out0(i_cond)));
  weft_node_t *i_add = add_op(h, "Add", "inner/add", INPUTS(out(i_branch, 1), out0(i_one)));
  weft_graph_set_input(i_merge, 1, out0(add_op(h, "NextIteration", "inner/next", INPUTS(out0(i_add)))));
  weft_node_t *i_exit = add_op(h, "Exit", "inner/exit", INPUTS(out(i_branch, 0)));
  weft_node_t *other = add_op(h, "Add", "other", INPUTS(out(sw, 0), out0(outer.one)));
  weft_node_t *join = add_merge(h, "join", out0(other), out0(i_exit));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "sum/next", INPUTS(out0(join)))));
  int r = add_fetch(h, out0(exit));
  for (int i = 0; i < 3; i++) {
    must_run(h);
    CU_ASSERT_EQUAL(result(h, r), 22);
  }
}
static void a_dead_inner_loop_gives_way_to_the_other_branch(void) { each_way(nested_cond); }

static void late_invariant(harness_t *h) {
  weft_node_t *late =
      add_op(h, "Neg", "late", INPUTS(out0(add_const(h, "minus", -5)))); /* ends on another thread */
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 20)), 10);
  weft_node_t *five = add_enter(h, "five", out0(late), "loop", true, 10);
  weft_node_t *merge, *exit;
  weft_node_t *acc = carry(h, &l, "acc", "loop", out0(add_const(h, "start", 0)), &merge, &exit);
  weft_node_t *sum = add_op(h, "Add", "sum", INPUTS(out(acc, 1), out0(five)));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "acc/next", INPUTS(out0(sum)))));
  int r = add_fetch(h, out0(exit)), c = add_fetch(h, out0(l.exit));
  for (int i = 0; i < 20; i++) {
    must_run(h);
    CU_ASSERT_EQUAL(result(h, r), 100);
    CU_ASSERT_EQUAL(result(h, c), 20);
  }
}
static void constant_enters_may_come_late(void) { each_way(late_invariant); }

static void costly(harness_t *h) {
  enum { VALUES = 4 };
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 30)), 3);
  int r[VALUES];
  for (int i = 0; i < VALUES; i++) {
    char name[3][32];
    snprintf(name[0], sizeof name[0], "v%d", i);
    snprintf(name[1], sizeof name[1], "mul%d", i);
    snprintf(name[2], sizeof name[2], "v%d/next", i);
    weft_node_t *merge, *exit;
    weft_node_t *branch = carry(h, &l, name[0], "loop", out0(add_const(h, name[1], i)), &merge, &exit);
    snprintf(name[1], sizeof name[1], "loop_mul%d", i);
    weft_node_t *product = add_op(h, "Mul", name[1], INPUTS(out(branch, 1), out0(l.one)));
    weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", name[2], INPUTS(out0(product)))));
    r[i] = add_fetch(h, out0(exit));
  }
  for (int i = 0; i < 3; i++) {
    must_run(h);
    for (int k = 0; k < VALUES; k++) CU_ASSERT_EQUAL(result(h, r[k]), k);
  }
}
static void costly_nodes_of_a_loop_run_on_several_threads(void) { each_way(costly); }

static void keys(harness_t *h) {
  /* Each iteration sends i and receives it: the keys of iterations differ. */
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", 10)), 4);
  add_send(h, "send", "x", out(l.branch, 1));
  weft_node_t *recv = add_recv(h, "recv", "x");
  add_control(h, l.branch, recv);
  weft_node_t *merge, *exit;
  weft_node_t *acc = carry(h, &l, "acc", "loop", out0(add_const(h, "start", 0)), &merge, &exit);
  weft_node_t *sum = add_op(h, "Add", "sum", INPUTS(out(acc, 1), out0(recv)));
  weft_graph_set_input(merge, 1, out0(add_op(h, "NextIteration", "acc/next", INPUTS(out0(sum)))));
  int r = add_fetch(h, out0(exit));
  must_run(h);
  CU_ASSERT_EQUAL(result(h, r), 45);
}
static void each_iteration_has_keys_of_its_own(void) { each_way(keys); }

typedef struct keyed {
  weft_rendezvous_t base;
  char last[512];
} keyed_t;

static weft_status_t *note_key(weft_rendezvous_t *r, weft_key_t key, weft_tensor_t *t, bool is_dead) {
  (void)t;
  (void)is_dead;
  snprintf(((keyed_t *)r)->last, sizeof((keyed_t *)r)->last, "%.*s", WEFT_STR_ARGS(key.text));
  return NULL;
}
static void no_recv(weft_rendezvous_t *r, weft_key_t key, weft_canceller_t *c, weft_recv_fn *fn, void *arg) {
  (void)r;
  (void)key;
  (void)c;
  fn(arg, WEFT_ERROR(INTERNAL, "not here"), NULL, false);
}
static void no_abort(weft_rendezvous_t *r, const weft_status_t *why) {
  (void)r;
  (void)why;
}
static void no_destroy(weft_rendezvous_t *r) { (void)r; }

static void frame_ids_are_tensorflows(void) {
  static const weft_rendezvous_ops_t ops = {note_key, no_recv, no_abort, no_destroy};
  keyed_t r = {.base = {.ops = &ops, .refs = 1}};
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *enter = add_enter(&h, "enter", out0(add_const(&h, "x", 1)), "while/while_context", false, 10);
  add_send(&h, "send", "x", out0(enter));
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(&h));
  weft_run_options_t o = harness_options(&h);
  o.step.rendezvous = &r.base;
  weft_status_t *s = weft_plan_run_sync(h.plan, &o);
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_STRING_EQUAL(r.last,
                         "/job:localhost/replica:0/task:0/device:CPU:0;0000000000000001;"
                         "/job:localhost/replica:0/task:0/device:CPU:0;x;18186195969791715286:0");
  harness_deinit(&h);
}

static void failing_loop(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "start", -50)), out0(add_const(h, "n", 50)), 10);
  add_op(h, "Abs", "abs", INPUTS(out(l.branch, 1)));
  weft_status_t *s = harness_run(h);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "negative\n\t [[{{node abs}}]]");
  weft_status_free(s);
  s = harness_run(h); /* and again on recycled memory */
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
}
static void a_failure_inside_a_loop_ends_the_step(void) { each_way(failing_loop); }

static void *cancel_soon(void *arg) {
  /* The loop is under way when it has run a while. */
  while (atomic_load(&test_runs) < 1000) sched_yield();
  weft_canceller_cancel(arg);
  return NULL;
}

static void endless(harness_t *h) {
  loop_t l = counting_loop(h, "loop", out0(add_const(h, "zero", 0)), out0(add_const(h, "n", INT32_MAX)), 10);
  add_fetch(h, out0(l.exit));
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(h));
  weft_run_options_t o = harness_options(h);
  pthread_t t;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel_soon, o.step.canceller), 0);
  weft_status_t *s = weft_plan_run_sync(h->plan, &o);
  pthread_join(t, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  CU_ASSERT_TRUE(weft_status_is_derived(s));
  weft_status_free(s);
}
static void cancelling_stops_an_endless_loop(void) { each_way(endless); }

static void inputs_from_different_frames_are_refused(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *x = add_const(&h, "x", 1);
  weft_node_t *enter = add_enter(&h, "enter", out0(x), "f", false, 10);
  add_op(&h, "Add", "bad", INPUTS(out0(enter), out0(x)));
  weft_status_t *s = harness_compile(&h);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_STRING_EQUAL(
      weft_status_message(s),
      "{{node bad}} has inputs from different frames. The input {{node enter}} is in frame 'f'. The "
      "input {{node x}} is in frame ''.");
  weft_status_free(s);
  harness_deinit(&h);
}

static void exits_outside_loops_are_refused(void) {
  harness_t h;
  harness_init(&h, 0);
  add_op(&h, "Exit", "exit", INPUTS(out0(add_const(&h, "x", 1))));
  weft_status_t *s = harness_compile(&h);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  harness_deinit(&h);
}

static const CU_TestInfo tests[] = {
    {"loops count", loops_count},
    {"loops may run zero times", loops_may_run_zero_times},
    {"parallel_iterations may be one", parallel_iterations_may_be_one},
    {"a fast value runs ahead of a slow one", a_fast_value_runs_ahead_of_a_slow_one},
    {"loops nest", loops_nest},
    {"Merge takes the live branch", merge_takes_the_live_branch},
    {"deadness passes control edges but not triggers", deadness_passes_control_edges_but_not_triggers},
    {"a dead control input does not kill a Merge", a_dead_control_input_does_not_kill_a_merge},
    {"the first of two live inputs wins", the_first_of_two_live_inputs_wins},
    {"a loop in an untaken branch is dead", a_loop_in_an_untaken_branch_is_dead},
    {"conditionals work inside loops", conditionals_work_inside_loops},
    {"loops work inside conditionals", loops_work_inside_conditionals},
    {"a dead inner loop gives way to the other branch", a_dead_inner_loop_gives_way_to_the_other_branch},
    {"constant Enters may come late", constant_enters_may_come_late},
    {"costly nodes of a loop run on several threads", costly_nodes_of_a_loop_run_on_several_threads},
    {"each iteration has keys of its own", each_iteration_has_keys_of_its_own},
    {"frame ids are TensorFlow's", frame_ids_are_tensorflows},
    {"a failure inside a loop ends the step", a_failure_inside_a_loop_ends_the_step},
    {"cancelling stops an endless loop", cancelling_stops_an_endless_loop},
    {"inputs from different frames are refused", inputs_from_different_frames_are_refused},
    {"Exits outside loops are refused", exits_outside_loops_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("frames", tests); }
