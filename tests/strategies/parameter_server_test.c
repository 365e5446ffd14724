/* Parameter servers: what goes where, and that training is right in every mode. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"
#include "tests/strategies/parameter_server_testing.h"

static void must(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static const weft_ps_model_t mlp = {.dtype = WEFT_F32, .optimizer = WEFT_PS_SGD, .inputs = 32, .hidden = 64, .classes = 10,
                                    .rate = 0.1};

/* Local training: the graph as it is, on one task. */
static void train_locally(const weft_graph_t *g, const weft_ps_model_t *m, int steps, int rows, double *losses,
                          weft_ps_cluster_t *c) {
  weft_ps_start(c, g, NULL, 0, 1);
  for (int i = 0; i < steps; i++) {
    weft_ps_batch_t b = weft_ps_batch(m, (int64_t)i * rows, rows);
    must(weft_ps_step(c, 0, &b, 0, &losses[i]));
    weft_ps_batch_drop(&b);
  }
}

static void same_variables(weft_ps_cluster_t *a, weft_ps_cluster_t *b, double tolerance) {
  static const char *const names[] = {"w0/read:0", "b0/read:0", "w1/read:0", "w2/read:0", "b2/read:0"};
  for (int i = 0; i < 5; i++) {
    weft_tensor_t *x = weft_ps_value(a, names[i]), *y = weft_ps_value(b, names[i]);
    double d = weft_ps_distance(x, y);
    if (!(d <= tolerance)) printf("\n    %s differs by %g\n", names[i], d);
    CU_ASSERT_TRUE(d <= tolerance);
    weft_tensor_release(x);
    weft_tensor_release(y);
  }
}

/* T-PS1-2 */
static void one_worker_equals_local_training_bitwise(void) {
  static const char *const modes[] = {"", "mode=sync,split=0", "mode=sync", "mode=ssp,staleness=0", "placement=bytes,caching"};
  for (int i = 0; i < 5; i++) {
    for (int v = 0; v < 6; v++) {
      enum { STEPS = 8 };
      double local[STEPS], served[STEPS];
      weft_ps_model_t m = mlp;
      m.resources = v % 2 != 0;
      m.optimizer = (weft_ps_optimizer_t)(v / 2);
      weft_graph_t *g = weft_ps_model_graph(&m);
      weft_ps_cluster_t one, two;
      train_locally(g, &m, STEPS, 16, local, &one);
      weft_ps_start(&two, g, modes[i], 2, 1);
      for (int k = 0; k < STEPS; k++) {
        weft_ps_batch_t b = weft_ps_batch(&m, (int64_t)k * 16, 16);
        weft_status_t *s = weft_ps_step(&two, 0, &b, 0, &served[k]);
        must(s);
        if (two.r.num_lanes > 1) must(weft_ps_step(&two, 1, NULL, 0, NULL));
        weft_ps_batch_drop(&b);
        if (local[k] != served[k]) printf("\n    %s, case %d, step %d: %.9g for %.9g", modes[i], v, k, served[k], local[k]);
        CU_ASSERT_EQUAL(local[k], served[k]);
      }
      same_variables(&one, &two, 0);
      weft_ps_stop(&one);
      weft_ps_stop(&two);
      weft_graph_destroy(g);
    }
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"one_worker_equals_local_training_bitwise", one_worker_equals_local_training_bitwise},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("parameter_server", tests);
}
