/* tests/collectives/remote/agreement_test.c - ranks of several tasks that do in a later step something else
 * than was agreed. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/collectives/remote/tasks_testing.h"
#include "tests/runner.h"

enum { SMALL = 8, LARGE = 100000 };

/* ---- calls ---- */

typedef struct part {
  cluster_t *cluster;
  weft_collective_t call;
  weft_tensor_t *in, *out;
  int num_done; /* guarded by the cluster's mu */
  weft_status_t *status;
} part_t;

static void on_done(void *arg, weft_status_t *status, weft_tensor_t *output) {
  part_t *p = arg;
  weft_mutex_lock(&p->cluster->mu);
  p->num_done++;
  p->status = status;
  p->out = output;
  weft_cond_broadcast(&p->cluster->changed);
  weft_mutex_unlock(&p->cluster->mu);
}

/* Rank `rank`'s part in a broadcast of `count` numbers in a step. Without a root: sources say so. */
static void begin(cluster_t *c, int rank, int64_t step, int root, bool is_source, int64_t count, part_t *p) {
  weft_shape_t shape = weft_shape_vector(count);
  *p = (part_t){.cluster = c,
                .call = {.kind = WEFT_BROADCAST,
                         .name = WEFT_STR("it"),
                         .device = weft_str(c->tasks[rank].device),
                         .step_id = step,
                         .group_key = 1,
                         .instance_key = 1,
                         .group_size = c->n,
                         .rank = rank,
                         .root = root,
                         .is_source = is_source && root < 0,
                         .dtype = WEFT_F32,
                         .shape = shape}};
  if (is_source) {
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &p->in));
    for (int64_t i = 0; i < count; i++) ((float *)p->in->data)[i] = (float)(rank + 1);
    p->call.input = p->in;
  }
  weft_collectives_run(c->tasks[rank].collectives, &p->call, NULL, on_done, p);
}

/* False if it has not ended well within the time that any test may take. */
static bool wait_for(part_t *p) {
  int64_t deadline = weft_clock_ns() + INT64_C(10000000000);
  weft_mutex_lock(&p->cluster->mu);
  while (p->num_done == 0 && weft_cond_wait_until(&p->cluster->changed, &p->cluster->mu, deadline)) {
  }
  bool is_done = p->num_done == 1;
  weft_mutex_unlock(&p->cluster->mu);
  CU_ASSERT_TRUE(is_done);
  return is_done;
}

static void end_step(cluster_t *c, int64_t step, part_t *parts) {
  for (int i = 0; i < c->n; i++) weft_collectives_end_step(c->tasks[i].collectives, step, NULL);
  for (int i = 0; i < c->n; i++) {
    wait_for(&parts[i]);
    weft_status_free(parts[i].status);
    weft_tensor_release(parts[i].in);
    weft_tensor_release(parts[i].out);
  }
}

/* All take part in a broadcast from `source`, and get its values. */
static void agree(cluster_t *c, int64_t step, int root, int source, int64_t count) {
  part_t parts[MAX_TASKS];
  for (int i = 0; i < c->n; i++) begin(c, i, step, root, i == source, count, &parts[i]);
  for (int i = 0; i < c->n; i++) {
    bool ok = wait_for(&parts[i]) && parts[i].status == NULL && parts[i].out != NULL &&
              ((const float *)parts[i].out->data)[count - 1] == (float)(source + 1);
    if (!ok)
      fprintf(stderr, "rank %d: %s\n", i,
              parts[i].status == NULL ? "wrong" : weft_status_message(parts[i].status));
    CU_ASSERT_TRUE(ok);
  }
  end_step(c, step, parts);
}

/* The rank fails at once, and its message holds both texts. */
static void check_refused(part_t *p, const char *one, const char *other) {
  bool ok = wait_for(p) && weft_status_code(p->status) == WEFT_INVALID_ARGUMENT &&
            strstr(weft_status_message(p->status), one) != NULL &&
            strstr(weft_status_message(p->status), other) != NULL;
  if (!ok)
    fprintf(stderr, "rank %d: %s\n", p->call.rank,
            p->status == NULL ? "no error" : weft_status_message(p->status));
  CU_ASSERT_TRUE(ok);
}

/* ---- tests ---- */

/* The old source begins before or after the new one. */
static void check_two_sources(int n, bool only_rpc, int64_t count) {
  for (int order = 0; order < 2; order++) {
    cluster_t c;
    part_t parts[MAX_TASKS];
    cluster_setup(&c, n, only_rpc);
    agree(&c, 10, -1, 0, count);
    agree(&c, 11, -1, 0, count);
    for (int k = 0; k < n; k++) {
      int i = order == 0 ? k : n - 1 - k;
      begin(&c, i, 12, -1, i == 0 || i == n - 1, count, &parts[i]);
    }
    check_refused(&parts[n - 1], "two sources", "/job:w/replica:0/task:0/device:CPU:0");
    end_step(&c, 12, parts);
    cluster_teardown(&c);
  }
}

static void a_second_source_in_a_later_step_is_refused_at_once(void) {
  for (int n = 2; n <= MAX_TASKS; n++) {
    check_two_sources(n, false, SMALL);
    check_two_sources(n, false, LARGE);
    check_two_sources(n, true, SMALL);
  }
}

/* A rank that only receives wants another shape than the source, which is done when its bytes are on their
 * way. */
static void check_other_shape(bool only_rpc, int odd) {
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_setup(&c, 3, only_rpc);
  agree(&c, 10, 0, 0, SMALL);
  agree(&c, 11, 0, 0, SMALL);
  for (int i = 0; i < 3; i++) begin(&c, i, 12, 0, i == 0, i == odd ? SMALL + 1 : SMALL, &parts[i]);
  check_refused(&parts[odd], "[8]", "[9]");
  end_step(&c, 12, parts);
  cluster_teardown(&c);
}

static void another_shape_in_a_later_step_is_refused_at_once(void) {
  for (int odd = 0; odd < 3; odd++) {
    check_other_shape(false, odd);
    check_other_shape(true, odd);
  }
}

static void the_source_may_move_if_all_say_so(void) {
  for (int only_rpc = 0; only_rpc < 2; only_rpc++) {
    cluster_t c;
    cluster_setup(&c, 2, only_rpc != 0);
    agree(&c, 10, -1, 0, SMALL);
    agree(&c, 11, -1, 0, SMALL);
    agree(&c, 12, -1, 1, SMALL);
    agree(&c, 13, -1, 1, SMALL);
    agree(&c, 14, -1, 0, LARGE);
    cluster_teardown(&c);
  }
}

static const CU_TestInfo tests[] = {
    {"a second source in a later step is refused at once",
     a_second_source_in_a_later_step_is_refused_at_once},
    {"another shape in a later step is refused at once", another_shape_in_a_later_step_is_refused_at_once},
    {"the source may move if all say so", the_source_may_move_if_all_say_so},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("agreement", tests); }
