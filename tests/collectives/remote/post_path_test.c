/* tests/collectives/remote/post_path_test.c - small collectives of several tasks on one host, all in this
 * process: by posts, and with the same results as by other ways. */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collectives/link_counters.h"
#include "tests/collectives/remote/tasks_testing.h"
#include "tests/runner.h"

/* ---- calls ---- */

typedef struct part {
  cluster_t *cluster;
  weft_tensor_t *in, *out;
  int num_done; /* guarded by the cluster's mu */
  weft_status_t *status;
  pthread_t thread;              /* of a call that keeps its thread */
  bool has_thread;               /* and it is to be joined */
  bool is_posting, has_returned; /* guarded by the cluster's mu */
  task_t *task;
  weft_collective_t call;
  weft_canceller_t *canceller;
  char device[96];
  int targets[MAX_TASKS];
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

/* What all ranks of a collective do; each has its own rows, where they differ. */
typedef struct collective_case {
  weft_collective_kind_t kind;
  weft_dtype_t dtype;
  weft_reduction_t reduction;
  bool is_mean, takes_input;
  bool waits;     /* in odd steps, too */
  int64_t count;  /* elements of a rank's tensor */
  int64_t ragged; /* rank i has i * ragged rows more */
  int more;       /* added to each element */
  weft_collective_algorithm_t algorithm;
} collective_case_t;

static void fill(weft_tensor_t *t, int rank, int more) {
  for (int64_t i = 0; i < t->count; i++) {
    const int v = (int)((i * 7 + rank * 13) % 101) - 50 + more;
    if (t->dtype == WEFT_F32) ((float *)t->data)[i] = (float)v / 3.0f * (i % 5 == 0 ? 1e-4f : 1.0f);
    if (t->dtype == WEFT_F64) ((double *)t->data)[i] = v / 7.0;
    if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = v;
    if (t->dtype == WEFT_I8) ((int8_t *)t->data)[i] = (int8_t)v;
    if (t->dtype == WEFT_BF16) ((uint16_t *)t->data)[i] = (uint16_t)(0x3f80 + v);
  }
}

static void note(part_t *p, bool *what) {
  weft_mutex_lock(&p->cluster->mu);
  *what = true;
  weft_cond_broadcast(&p->cluster->changed);
  weft_mutex_unlock(&p->cluster->mu);
}

static _Thread_local part_t *calling; /* of this thread */
static void note_post(void) {
  if (calling != NULL) note(calling, &calling->is_posting);
}

static void *make_call(void *arg) {
  part_t *p = calling = arg;
  weft_collectives_run(p->task->collectives, &p->call, p->canceller, on_done, p);
  note(p, &p->has_returned);
  return NULL;
}

/* Returns when the call waits for others, or has returned. */
static void call_on_a_thread(part_t *p) {
  CU_ASSERT_EQUAL_FATAL(pthread_create(&p->thread, NULL, make_call, p), 0);
  p->has_thread = true;
  weft_mutex_lock(&p->cluster->mu);
  while (!p->is_posting && !p->has_returned)
    weft_cond_wait(&p->cluster->changed, &p->cluster->mu); /* woken by note() */
  weft_mutex_unlock(&p->cluster->mu);
}

static void join(part_t *p) {
  if (p->has_thread) pthread_join(p->thread, NULL);
  p->has_thread = false;
}

/* Calls of even steps keep their threads until they are done: each has its own. */
static void begin(cluster_t *c, const collective_case_t *k, int rank, int64_t step, int64_t key,
                  weft_canceller_t *canceller, part_t *p) {
  const int root = 1;
  *p = (part_t){.cluster = c, .task = &c->tasks[rank % c->num_tasks], .canceller = canceller};
  snprintf(p->device, sizeof p->device, "%s/device:CPU:%d", p->task->name, rank / c->num_tasks);
  for (int i = 0; i < c->size; i++) p->targets[i] = i == 0 ? -1 : i - 1; /* the last rank gets none */
  const bool gives = (k->kind != WEFT_BROADCAST && k->kind != WEFT_SCATTER) || rank == root;
  weft_collective_t call = {.kind = k->kind,
                            .name = WEFT_STR("it"),
                            .device = weft_str(p->device),
                            .step_id = step,
                            .group_key = 1,
                            .instance_key = key,
                            .group_size = c->size,
                            .rank = rank,
                            .reduction = k->reduction,
                            .is_mean = k->is_mean,
                            .root = root,
                            .is_source = rank == root,
                            .dtype = k->dtype,
                            .shape = weft_shape_vector(k->count + k->ragged * rank),
                            .targets = k->kind == WEFT_PERMUTE ? p->targets : NULL,
                            .takes_input = k->takes_input,
                            .waits = k->waits || step % 2 == 0,
                            .algorithm = k->algorithm,
                            .timeout_ms = 60000};
  if (k->kind == WEFT_SCATTER && gives) call.shape = weft_shape_vector(k->count * c->size);
  if (gives && k->kind != WEFT_BARRIER) {
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(k->dtype, &call.shape, NULL, &p->in));
    fill(p->in, rank, k->more);
    call.input = p->in;
  }
  p->call = call;
  if (call.waits) {
    call_on_a_thread(p);
  } else {
    weft_collectives_run(p->task->collectives, &p->call, canceller, on_done, p);
  }
}

static bool wait_for(part_t *p) {
  const int64_t deadline = weft_clock_ns() + INT64_C(30000000000);
  weft_mutex_lock(&p->cluster->mu);
  while (p->num_done == 0 && weft_cond_wait_until(&p->cluster->changed, &p->cluster->mu, deadline)) {
  }
  const bool is_done = p->num_done == 1;
  weft_mutex_unlock(&p->cluster->mu);
  CU_ASSERT_TRUE_FATAL(is_done);
  return is_done;
}

static void end_parts(cluster_t *c, int64_t step, part_t *parts) {
  for (int i = 0; i < c->n; i++) weft_collectives_end_step(c->tasks[i].collectives, step, NULL);
  for (int i = 0; i < c->size; i++) join(&parts[i]);
  for (int i = 0; i < c->size; i++) {
    weft_status_free(parts[i].status);
    weft_tensor_release(parts[i].in);
    weft_tensor_release(parts[i].out);
  }
}

/* All take part; `parts` have the outputs. */
static void run(cluster_t *c, const collective_case_t *k, int64_t step, int64_t key, part_t *parts) {
  for (int i = 0; i < c->size; i++) { /* in another order each time */
    const int rank = (i + (int)step) % c->size;
    begin(c, k, rank, step, key, NULL, &parts[rank]);
  }
  for (int i = 0; i < c->size; i++) {
    wait_for(&parts[i]);
    if (parts[i].status != NULL) fprintf(stderr, "rank %d: %s\n", i, weft_status_message(parts[i].status));
    CU_ASSERT_PTR_NULL(parts[i].status);
  }
}

static bool is_same(const weft_tensor_t *a, const weft_tensor_t *b) {
  if (a == NULL || b == NULL) return a == b;
  return a->bytes == b->bytes && weft_shape_eq(&a->shape, &b->shape) &&
         (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static int64_t received(cluster_t *c, int from, int to) {
  return weft_link_counters_sum(weft_remote_transport_counters(c->tasks[to].transport),
                                weft_str(c->tasks[from].name), weft_str(c->tasks[to].name),
                                WEFT_TRAFFIC_COLLECTIVE)
      .messages;
}

/* ---- tests ---- */

/* Reductions in the ring's order have the ring's bits; all else is moved. A reduction at a root is the same
 * as one at all. */
static void check_as_by_calls(int num_tasks, int n) {
  static const collective_case_t cases[] = {
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 1},
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 0},
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 16384, .is_mean = true},
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 16384, .is_mean = true, .takes_input = true},
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 100003, .takes_input = true}, /* two rounds */
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 250001, .reduction = WEFT_REDUCE_MAX},
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 300001,
       .takes_input = true}, /* by reading in memory, as two below */
      {WEFT_ALL_REDUCE, WEFT_F32, .count = 300007, .is_mean = true},
      {WEFT_ALL_REDUCE, WEFT_BF16, .count = 600001, .reduction = WEFT_REDUCE_MAX, .takes_input = true},
      {WEFT_ALL_REDUCE, WEFT_F64, .count = 777, .reduction = WEFT_REDUCE_PROD},
      {WEFT_ALL_REDUCE, WEFT_BF16, .count = 9999},
      {WEFT_ALL_REDUCE, WEFT_I8, .count = 130001, .is_mean = true},
      {WEFT_ALL_REDUCE, WEFT_I32, .count = 3, .reduction = WEFT_REDUCE_MIN},
      {WEFT_REDUCE, WEFT_I32, .count = 5000},
      {WEFT_REDUCE, WEFT_I32, .count = 5000, .takes_input = true},
      {WEFT_REDUCE_SCATTER, WEFT_F32, .count = 1003, .is_mean = true},
      {WEFT_REDUCE_SCATTER, WEFT_BF16, .count = 4},
      {WEFT_BROADCAST, WEFT_F32, .count = 5000},
      {WEFT_BROADCAST, WEFT_F32, .count = 0},
      {WEFT_SCATTER, WEFT_F32, .count = 77},
      {WEFT_GATHER, WEFT_F32, .count = 10, .ragged = 3},
      {WEFT_ALL_GATHER, WEFT_I8, .count = 10, .ragged = 3},
      {WEFT_ALL_GATHER, WEFT_F64, .count = 0, .ragged = 1000},
      {WEFT_ALL_TO_ALL, WEFT_F32, .count = 60},
      {WEFT_PERMUTE, WEFT_F32, .count = 11},
      {WEFT_BARRIER, WEFT_F32},
  };
  cluster_t near, far;
  cluster_setup(&near, num_tasks, false);
  cluster_setup(&far, num_tasks, true);
  near.size = far.size = n;
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
    const int times = cases[i].count > 200000 ? 1 : 3;
    for (int again = 0; again < times;
         again++) { /* agreed by the leader; from memory; and its thread looks */
      const int64_t step = 1 + 3 * i + again;
      collective_case_t other = cases[i];
      if (other.kind == WEFT_ALL_REDUCE || other.kind == WEFT_REDUCE_SCATTER)
        other.algorithm = WEFT_ALGORITHM_RING;
      part_t a[MAX_TASKS], b[MAX_TASKS];
      const int64_t before = received(&near, 0, 1);
      run(&near, &cases[i], step, i, a);
      run(&far, &other, step, i, b);
      for (int rank = 0; rank < n; rank++) {
        const bool ok = is_same(a[rank].out, b[rank].out);
        if (!ok) fprintf(stderr, "case %d of %d ranks, rank %d differs\n", i, n, rank);
        CU_ASSERT_TRUE(ok);
      }
      const int64_t messages = received(&near, 0, 1) - before;
      CU_ASSERT_TRUE(num_tasks < n || messages <= (cases[i].count * n > 65536 ? 2 : 1) ||
                     cases[i].count > 250001); /* a ring's or tree's would be more */
      end_parts(&near, step, a);
      end_parts(&far, step, b);
    }
  }
  cluster_teardown(&near);
  cluster_teardown(&far);
}
static void two_ranks_get_what_calls_give(void) { check_as_by_calls(2, 2); }
static void four_ranks_get_what_calls_give(void) { check_as_by_calls(4, 4); }
static void ranks_of_one_task_get_what_calls_give(void) {
  check_as_by_calls(2, 4);
  check_as_by_calls(3, 5);
}
static void five_ranks_get_what_calls_give(void) { check_as_by_calls(5, 5); }

/* Many at one time, each rank in another order: more than there is room for. */
static void many_at_once_in_any_order(void) {
  enum { N = 4, AT_ONCE = 700, COUNT = 8000 };
  static const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = COUNT};
  cluster_t c;
  cluster_setup(&c, N, false);
  part_t(*parts)[N] = weft_calloc(AT_ONCE, sizeof *parts);
  for (int rank = 0; rank < N; rank++) {
    for (int i = 0; i < AT_ONCE; i++) {
      static const int strides[N] = {1, 3, 9, 699}; /* have no divisor in common with AT_ONCE */
      const int which = (i * strides[rank] + rank * 100) % AT_ONCE;
      begin(&c, &k, rank, 3, which, NULL, &parts[which][rank]);
    }
  }
  for (int i = 0; i < AT_ONCE; i++) {
    for (int rank = 0; rank < N; rank++) {
      wait_for(&parts[i][rank]);
      if (parts[i][rank].status != NULL) fprintf(stderr, "%s\n", weft_status_message(parts[i][rank].status));
      CU_ASSERT_PTR_NULL(parts[i][rank].status);
      CU_ASSERT_TRUE(is_same(parts[i][rank].out, parts[0][0].out));
    }
  }
  for (int i = AT_ONCE; i-- > 0;) end_parts(&c, 3, parts[i]);
  weft_free(parts);
  cluster_teardown(&c);
}

static void check_cancelled(int64_t count) {
  const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = count, .takes_input = true};
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_setup(&c, 3, false);
  run(&c, &k, 100, 1, parts);
  end_parts(&c, 100, parts);
  for (int64_t step = 1; step <= 6; step++) {
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    begin(&c, &k, 0, step, 1, step % 3 == 0 ? NULL : canceller, &parts[0]);
    begin(&c, &k, 1, step, 1, NULL, &parts[1]);
    if (step % 3 != 0) {
      weft_canceller_cancel(canceller);
      wait_for(&parts[0]);
      CU_ASSERT_EQUAL(weft_status_code(parts[0].status), WEFT_CANCELLED);
      CU_ASSERT_TRUE(wait_for(&parts[1]) && parts[1].status != NULL);
      begin(&c, &k, 2, step, 1, NULL, &parts[2]);
      CU_ASSERT_TRUE(wait_for(&parts[2]) && parts[2].status != NULL);
    } else { /* and the group works on */
      begin(&c, &k, 2, step, 1, NULL, &parts[2]);
      for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(wait_for(&parts[i]) && parts[i].status == NULL);
    }
    end_parts(&c, step, parts);
    weft_canceller_release(canceller);
  }
  cluster_teardown(&c);
}
static void a_cancelled_rank_ends_all(void) {
  check_cancelled(100);
  check_cancelled(300000);
}

static void a_rank_that_ends_its_step_ends_all(void) {
  static const collective_case_t k = {WEFT_BROADCAST, WEFT_F32, .count = 100};
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_setup(&c, 3, false);
  run(&c, &k, 1, 1, parts);
  end_parts(&c, 1, parts);
  for (int i = 0; i < 2; i++) begin(&c, &k, i, 2, 1, NULL, &parts[i]);
  weft_status_t *why = WEFT_ERROR(DATA_LOSS, "no good");
  weft_collectives_end_step(c.tasks[0].collectives, 2, why);
  weft_status_free(why);
  for (int i = 0; i < 2; i++) CU_ASSERT_TRUE(wait_for(&parts[i]) && parts[i].status != NULL);
  parts[2] = (part_t){.cluster = &c};
  end_parts(&c, 2, parts);
  cluster_teardown(&c);
}

/* A rank whose step is over has done its part: the root goes on waiting for the others. */
static void a_rank_that_is_done_may_end_its_step(void) {
  static const collective_case_t k = {WEFT_BROADCAST, WEFT_F32, .count = 100};
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_setup(&c, 3, false);
  run(&c, &k, 1000, 1, parts);
  end_parts(&c, 1000, parts);
  for (int64_t step = 1; step <= 200; step++) {
    for (int i = 0; i < 3; i++) begin(&c, &k, i, step, 1, NULL, &parts[i]);
    for (int i = 2; i >= 0; i--) { /* the root, rank 1, in between */
      wait_for(&parts[i]);
      if (parts[i].status != NULL) fprintf(stderr, "%d: %s\n", i, weft_status_message(parts[i].status));
      CU_ASSERT_PTR_NULL(parts[i].status);
      weft_collectives_end_step(c.tasks[i].collectives, step, NULL);
    }
    end_parts(&c, step, parts);
  }
  cluster_teardown(&c);
}

/* Another shape on one rank: INVALID_ARGUMENT on all, first time and later. */
static void ranks_that_differ_are_told(void) {
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_setup(&c, 3, false);
  for (int64_t step = 1; step <= 3; step++) {
    const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = 100},
                            other = {WEFT_ALL_REDUCE, WEFT_F32, .count = step == 2 ? 100 : 99};
    for (int i = 0; i < 3; i++) begin(&c, i == 1 ? &other : &k, i, step, step == 1 ? 1 : 2, NULL, &parts[i]);
    for (int i = 0; i < 3; i++) {
      wait_for(&parts[i]);
      CU_ASSERT_EQUAL(weft_status_code(parts[i].status), step == 2 ? WEFT_OK : WEFT_INVALID_ARGUMENT);
    }
    end_parts(&c, step, parts);
  }
  cluster_teardown(&c);
}

/* A task that is gone: at once, with its name, on all other ranks; whatever they do at that moment. */
static void check_lost(int64_t count) {
  const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = count};
  for (int moment = 0; moment < 3; moment++) {
    cluster_t c;
    part_t parts[MAX_TASKS];
    cluster_setup(&c, 3, false);
    run(&c, &k, 1, 1, parts);
    end_parts(&c, 1, parts);
    begin(&c, &k, 0, 2, 1, NULL, &parts[0]);
    if (moment > 0) begin(&c, &k, 1, 2, 1, NULL, &parts[1]);
    weft_collectives_destroy(c.tasks[2].collectives);
    weft_remote_transport_stop(c.tasks[2].transport);
    c.tasks[2].transport->ops->destroy(c.tasks[2].transport);
    c.n = 2;
    parts[2] = (part_t){.cluster = &c};
    if (moment == 0) begin(&c, &k, 1, 2, 1, NULL, &parts[1]);
    for (int i = 0; i < 2; i++) {
      wait_for(&parts[i]);
      CU_ASSERT_EQUAL(weft_status_code(parts[i].status), WEFT_UNAVAILABLE);
      CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(parts[i].status), "/task:2"));
    }
    end_parts(&c, 2, parts);
    cluster_teardown(&c);
  }
}
static void a_lost_task_ends_all(void) {
  check_lost(100);
  check_lost(300000);
}

/* ---- a task that is lost behind its part ---- */

/* Keeps the pool's threads until it is let go, so that nothing is read there. */
typedef struct hold {
  cluster_t *cluster;
  int num_held;
  bool is_over; /* guarded by the cluster's mu, as above */
} hold_t;

static void stay(void *arg) {
  hold_t *h = arg;
  weft_mutex_lock(&h->cluster->mu);
  h->num_held++;
  weft_cond_broadcast(&h->cluster->changed);
  while (!h->is_over) weft_cond_wait(&h->cluster->changed, &h->cluster->mu); /* woken by let_go() */
  h->num_held--;
  weft_cond_broadcast(&h->cluster->changed);
  weft_mutex_unlock(&h->cluster->mu);
}

static void hold_pool(cluster_t *c, hold_t *h) {
  *h = (hold_t){.cluster = c};
  for (int i = 0; i < CLUSTER_THREADS; i++) CU_ASSERT_TRUE_FATAL(weft_thread_pool_submit(c->pool, stay, h));
  weft_mutex_lock(&c->mu);
  while (h->num_held < CLUSTER_THREADS) weft_cond_wait(&c->changed, &c->mu); /* woken by stay() */
  weft_mutex_unlock(&c->mu);
}

static void let_go(hold_t *h) {
  weft_mutex_lock(&h->cluster->mu);
  h->is_over = true;
  weft_cond_broadcast(&h->cluster->changed);
  while (h->num_held > 0) weft_cond_wait(&h->cluster->changed, &h->cluster->mu); /* woken by stay() */
  weft_mutex_unlock(&h->cluster->mu);
}

static void end_last_task(cluster_t *c) {
  task_t *t = &c->tasks[--c->n];
  weft_collectives_destroy(t->collectives);
  weft_remote_transport_stop(t->transport);
  t->transport->ops->destroy(t->transport);
}

static void tell_loss(const cluster_t *c, int told, int lost) {
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "lost the connection to %s", c->tasks[lost].name);
  weft_collectives_lost_task(c->tasks[told].collectives, weft_str(c->tasks[lost].name), why);
  weft_status_free(why);
}

/* All bytes are there, but not read yet, when the task that posted last is gone: the others end well. */
static void what_is_posted_outlives_its_task(void) {
  static const collective_case_t cases[] = {
      /* one round, whose bytes are read on the pool; none that begins with an exchange of counts */
      {WEFT_PERMUTE, WEFT_F32, .count = 200000},
      {WEFT_ALL_TO_ALL, WEFT_F32, .count = 262143, .takes_input = true},
      {WEFT_REDUCE_SCATTER, WEFT_F32, .count = 262143},
  };
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
    cluster_t c;
    hold_t h;
    part_t before[MAX_TASKS], parts[MAX_TASKS];
    cluster_setup(&c, 3, false);
    run(&c, &cases[i], 1, 1, before);
    hold_pool(&c, &h);
    for (int rank = 0; rank < 3; rank++) {
      collective_case_t k = cases[i];
      k.waits = rank == 2;
      begin(&c, &k, rank, 3, 1, NULL, &parts[rank]);
    }
    wait_for(&parts[2]); /* which has read on its thread */
    end_last_task(&c);
    for (int rank = 0; rank < 2; rank++) tell_loss(&c, rank, 2);
    let_go(&h);
    for (int rank = 0; rank < 3; rank++) {
      wait_for(&parts[rank]);
      if (parts[rank].status != NULL) fprintf(stderr, "%s\n", weft_status_message(parts[rank].status));
      CU_ASSERT_PTR_NULL(parts[rank].status);
      CU_ASSERT_TRUE(is_same(parts[rank].out, before[rank].out));
    }
    end_parts(&c, 1, before);
    end_parts(&c, 3, parts);
    begin(&c, &cases[i], 0, 5, 1, NULL, &parts[0]); /* and the next one fails */
    wait_for(&parts[0]);
    CU_ASSERT_EQUAL(weft_status_code(parts[0].status), WEFT_UNAVAILABLE);
    parts[1] = parts[2] = (part_t){.cluster = &c};
    end_parts(&c, 5, parts);
    cluster_teardown(&c);
  }
}

/* The lost task has posted, but another one has not: the loss ends all, and by its name. */
static void what_is_not_all_posted_ends_with_a_loss(void) {
  static const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = 1000};
  for (int64_t step = 3; step <= 5; step += 2) {
    cluster_t c;
    part_t parts[MAX_TASKS];
    cluster_setup(&c, 3, false);
    run(&c, &k, 1, 1, parts);
    end_parts(&c, 1, parts);
    begin(&c, &k, 0, step, 1, NULL, &parts[0]);
    begin(&c, &k, 2, step, 1, NULL, &parts[2]);
    tell_loss(&c, 0, 2);
    begin(&c, &k, 1, step, 1, NULL, &parts[1]);
    for (int rank = 0; rank < 3; rank++) {
      wait_for(&parts[rank]);
      CU_ASSERT_EQUAL(weft_status_code(parts[rank].status), WEFT_UNAVAILABLE);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(parts[0].status), "/task:2"));
    end_parts(&c, step, parts);
    cluster_teardown(&c);
  }
}

static void begin_in_pair(cluster_t *c, int64_t group, int task, int rank, part_t *p) {
  *p = (part_t){.cluster = c, .task = &c->tasks[task]};
  p->call = (weft_collective_t){.kind = WEFT_BARRIER,
                                .name = WEFT_STR("it"),
                                .device = weft_str(p->task->device),
                                .step_id = 3,
                                .group_key = group,
                                .instance_key = 1,
                                .group_size = 2,
                                .rank = rank,
                                .root = -1,
                                .dtype = WEFT_F32,
                                .shape = weft_shape_vector(0)};
  weft_collectives_run(p->task->collectives, &p->call, NULL, on_done, p);
}

/* A task is reported lost after its group is complete and before its link stands, so that there is no link to
 * break; then the link stands, and the other rank posts. The task that is lost never does. */
static void a_loss_that_came_before_the_link_ends_what_is_posted_later(void) {
  enum { TOLD = 1, LOST = 2, OTHER = 3 };
  cluster_t c;
  hold_t h = {.cluster = &c};
  part_t parts[2], others[2];
  cluster_setup(&c, 4, false);
  for (int i = 0; i < 2; i++) begin_in_pair(&c, 11, i == 0 ? TOLD : OTHER, i, &others[i]);
  for (int i = 0; i < 2; i++) CU_ASSERT_TRUE(wait_for(&others[i]) && others[i].status == NULL);
  c.tasks[TOLD].on_lost_arg = &h; /* the links of TOLD stay where they are */
  c.tasks[TOLD].on_lost = stay;
  end_last_task(&c);
  weft_mutex_lock(&c.mu);
  while (h.num_held == 0) weft_cond_wait(&c.changed, &c.mu); /* woken by stay() */
  weft_mutex_unlock(&c.mu);
  c.tasks[TOLD].on_lost = NULL;
  cluster_stop_posts(&c.tasks[LOST]);
  for (int i = 0; i < 2; i++) begin_in_pair(&c, 12, i == 0 ? TOLD : LOST, i, &parts[i]);
  tell_loss(&c, TOLD, LOST);
  let_go(&h);
  wait_for(&parts[0]);
  CU_ASSERT_EQUAL(weft_status_code(parts[0].status), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(parts[0].status), "/task:2"));
  cluster_end_stopped(&c.tasks[LOST], WEFT_ERROR(CANCELLED, "the test ends"));
  wait_for(&parts[1]);
  for (int i = 0; i < 2; i++) {
    weft_status_free(parts[i].status);
    weft_status_free(others[i].status);
    weft_tensor_release(parts[i].out);
    weft_tensor_release(others[i].out);
  }
  cluster_teardown(&c);
}

/* A task comes back as another process, which posts under the same names: none takes a post of the time
 * before for a new one. */
static void a_task_that_is_started_again_posts_anew(void) {
  collective_case_t k = {WEFT_ALL_REDUCE, WEFT_I32, .count = 100};
  cluster_t c;
  cluster_setup(&c, 3, false);
  for (k.more = 0; k.more < 8; k.more++) {
    part_t parts[MAX_TASKS];
    run(&c, &k, 2, 1, parts); /* task 2 is the first one to post */
    for (int rank = 0; rank < 3; rank++) {
      CU_ASSERT_EQUAL(((const int32_t *)parts[rank].out->data)[0], 3 * k.more - 150 + 13 + 26);
      join(&parts[rank]);
      weft_tensor_release(parts[rank].in);
      weft_tensor_release(parts[rank].out);
    }
    end_last_task(&c);
    for (int rank = 0; rank < 2; rank++) tell_loss(&c, rank, 2);
    cluster_start(&c, c.n++, false);
  }
  cluster_teardown(&c);
}

/* Ranks that are cancelled at any moment of a large one, while others read in their memory. */
static void a_rank_may_fail_while_others_read_its_memory(void) {
  static const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = 300000, .takes_input = true};
  cluster_t c;
  part_t parts[MAX_TASKS];
  unsigned seed = 5;
  cluster_setup(&c, 4, false);
  run(&c, &k, 1000, 1, parts);
  end_parts(&c, 1000, parts);
  for (int64_t step = 1; step <= 20; step++) {
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    for (int i = 0; i < 4; i++)
      begin(&c, &k, i, 2 * step + 1, 1, i == step % 4 ? canceller : NULL, &parts[i]);
    seed = seed * 1664525u + 1013904223u;
    for (unsigned looks = (seed >> 16) % 3000; looks > 0; looks--)
      (void)weft_canceller_is_cancelled(canceller);
    weft_canceller_cancel(canceller);
    for (int i = 0; i < 4; i++) {
      wait_for(&parts[i]);
      const weft_code_t code = weft_status_code(parts[i].status);
      CU_ASSERT_TRUE(code == WEFT_OK || code == WEFT_CANCELLED || code == WEFT_ABORTED);
    }
    end_parts(&c, 2 * step + 1, parts);
    weft_canceller_release(canceller);
  }
  run(&c, &k, 2000, 1, parts);
  for (int i = 1; i < 4; i++) CU_ASSERT_TRUE(is_same(parts[i].out, parts[0].out));
  end_parts(&c, 2000, parts);
  cluster_teardown(&c);
}

/* One task has no segment: all go another way, and none waits. */
static void without_a_segment_it_goes_another_way(void) {
  static const collective_case_t k = {WEFT_ALL_REDUCE, WEFT_F32, .count = 1000};
  cluster_t c;
  part_t parts[MAX_TASKS];
  cluster_open(&c, 3);
  for (int i = 0; i < 3; i++) {
    if (i == 1) setenv("WEFT_SHARED_COLLECTIVES", "0", 1);
    cluster_start(&c, i, false);
    unsetenv("WEFT_SHARED_COLLECTIVES");
  }
  for (int64_t step = 1; step <= 4; step++) {
    run(&c, &k, step, 1, parts);
    for (int i = 1; i < 3; i++) CU_ASSERT_TRUE(is_same(parts[i].out, parts[0].out));
    end_parts(&c, step, parts);
  }
  cluster_teardown(&c);
}

static const CU_TestInfo tests[] = {
    {"two ranks get what calls give", two_ranks_get_what_calls_give},
    {"four ranks get what calls give", four_ranks_get_what_calls_give},
    {"five ranks get what calls give", five_ranks_get_what_calls_give},
    {"ranks of one task get what calls give", ranks_of_one_task_get_what_calls_give},
    {"many at once in any order", many_at_once_in_any_order},
    {"a cancelled rank ends all", a_cancelled_rank_ends_all},
    {"a rank that ends its step ends all", a_rank_that_ends_its_step_ends_all},
    {"a rank that is done may end its step", a_rank_that_is_done_may_end_its_step},
    {"ranks that differ are told", ranks_that_differ_are_told},
    {"a lost task ends all", a_lost_task_ends_all},
    {"what is posted outlives its task", what_is_posted_outlives_its_task},
    {"what is not all posted ends with a loss", what_is_not_all_posted_ends_with_a_loss},
    {"a loss that came before the link ends what is posted later",
     a_loss_that_came_before_the_link_ends_what_is_posted_later},
    {"a task that is started again posts anew", a_task_that_is_started_again_posts_anew},
    {"a rank may fail while others read its memory", a_rank_may_fail_while_others_read_its_memory},
    {"without a segment it goes another way", without_a_segment_it_goes_another_way},
    CU_TEST_INFO_NULL,
};

int main(void) {
  cluster_observe_posts(note_post);
  unsetenv("WEFT_SHARED_COLLECTIVES");
  return weft_run_tests("post_path", tests);
}
