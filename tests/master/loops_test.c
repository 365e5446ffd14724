/* Loops and conditionals whose nodes are on several tasks, run for real; the graphs and results are
 * TensorFlow's. */
#include <stdio.h>

#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

typedef struct loop {
  const char *name;
  double out;
} loop_t;

static const loop_t loops[] = {
    {"body_elsewhere", 2037}, {"cond_elsewhere", 22}, {"nested", 615}, {"captured", 93}, {"conditional", 8},
    {"cond_in_loop", 62},     {"gradient", 13.5},     {"never", 7},    {"controls", 9},
};
enum { NUM_LOOPS = sizeof loops / sizeof loops[0], TIMES = 20 };

static weft_strbuf_t read_graph(const char *name) {
  char path[256], block[4096];
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  snprintf(path, sizeof path, "tests/master/testdata/%s.pb", name);
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(&b, weft_str_of(block, n));
  fclose(f);
  return b;
}

static bool open_loop(weft_test_cluster_t *c, const char *name, weft_test_session_t *s) {
  weft_strbuf_t def = read_graph(name);
  weft_status_t *status = weft_test_open_bytes(
      weft_test_cluster_master(c, 1), weft_str_of(def.data, def.length), "allow_soft_placement: true", s);
  bool ok = status == NULL;
  weft_test_expect(status, WEFT_OK, "");
  weft_strbuf_deinit(&def);
  return ok;
}

static void loops_over_tasks_compute_what_tensorflow_does(void) {
  weft_test_cluster_t *c = weft_test_cluster_usual();
  for (int i = 0; i < NUM_LOOPS; i++) {
    weft_test_session_t s;
    if (!open_loop(c, loops[i].name, &s)) continue;
    for (int k = 0; k < TIMES; k++) {
      double got = weft_test_fetch(&s, "out:0");
      CU_ASSERT_DOUBLE_EQUAL(got, loops[i].out, 1e-6);
      if (got < loops[i].out - 1e-6 || got > loops[i].out + 1e-6)
        printf("\n    %s: %g, not %g\n", loops[i].name, got, loops[i].out);
    }
    weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  }
  CU_ASSERT_EQUAL(weft_test_cluster_steps(c), 0);
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  weft_test_cluster_destroy(c);
}

static void steps_of_a_loop_do_not_disturb_each_other(void) {
  enum { STEPS = 30 };
  static weft_test_step_t steps[STEPS];
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s;
  if (open_loop(c, "nested", &s)) {
    for (int i = 0; i < STEPS; i++) weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}}, &steps[i]);
    for (int i = 0; i < STEPS; i++) {
      weft_test_expect(weft_test_step_wait(&steps[i]), WEFT_OK, "");
      if (steps[i].num_fetches == 1)
        CU_ASSERT_DOUBLE_EQUAL(*(const float *)steps[i].fetches[0]->data, 615, 1e-6);
      weft_test_step_deinit(&steps[i]);
    }
  }
  weft_test_cluster_destroy(c);
}

static void the_branch_not_taken_is_dead_on_every_task(void) {
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s;
  if (open_loop(c, "conditional", &s)) {
    const bool no = false;
    weft_tensor_t *t = NULL;
    double out = 0;
    weft_test_expect(weft_tensor_scalar(WEFT_BOOL, &no, &t), WEFT_OK, "");
    weft_test_expect(
        weft_test_run(&s, &(weft_test_run_t){.feeds = {"p:0"}, .tensors = {t}, .fetches = {"out:0"}}, &out),
        WEFT_OK, "");
    CU_ASSERT_EQUAL(out, 3);
    weft_tensor_release(t);
  }
  weft_test_cluster_destroy(c);
}

static void a_loop_ends_when_its_step_is_cancelled(void) {
  weft_test_cluster_t *c = weft_test_cluster_usual();
  weft_test_session_t s;
  if (open_loop(c, "body_elsewhere", &s)) {
    weft_test_step_t k;
    weft_test_cluster_hang(c, 2, WEFT_TEST_RECV_TENSOR,
                           true); /* what the others want of task 2 never comes */
    weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}, .options = {.timeout_ms = 100}}, &k);
    weft_test_expect(weft_test_step_wait(&k), WEFT_DEADLINE_EXCEEDED, "");
    weft_test_step_deinit(&k);
    weft_test_cluster_hang(c, 2, WEFT_TEST_RECV_TENSOR, false);
    CU_ASSERT_DOUBLE_EQUAL(weft_test_fetch(&s, "out:0"), 2037, 1e-6);
  }
  weft_test_cluster_destroy(c);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"loops_over_tasks_compute_what_tensorflow_does", loops_over_tasks_compute_what_tensorflow_does},
      {"steps_of_a_loop_do_not_disturb_each_other", steps_of_a_loop_do_not_disturb_each_other},
      {"the_branch_not_taken_is_dead_on_every_task", the_branch_not_taken_is_dead_on_every_task},
      {"a_loop_ends_when_its_step_is_cancelled", a_loop_ends_when_its_step_is_cancelled},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("loops", tests);
}
