/* T-COL-5: collectives of many threads, in any order, meet by their keys. */
#include <sched.h>
#include <stdio.h>

#include "tests/collectives/world.h"
#include "tests/runner.h"

enum { RANKS = 4, MANY = 100 };

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void shuffle(int *order, int n, uint32_t *state) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    const int j = (int)(next_random(state) % (uint32_t)(i + 1)), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
}

static float value(int rank, int which, int64_t i) { return (float)((rank + 1) * 1000 + which + i % 7); }

typedef struct rank_job {
  world_t *w;
  int rank;
  int64_t first_key;
  uint32_t random;
  weft_tensor_t *in[MANY];
  result_t out[MANY];
} rank_job_t;

static weft_collective_t call_of(const rank_job_t *job, int which) {
  const int64_t count = which % 10 == 0 ? 50000 : 1 + which * 3; /* some are cut in pieces for the pool */
  weft_collective_t c = world_call(job->w, job->rank, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(count));
  c.instance_key = job->first_key + which;
  c.algorithm = (weft_collective_algorithm_t)(which % 6);
  return c;
}

static void *submit_all(void *arg) {
  rank_job_t *job = arg;
  int order[MANY];
  shuffle(order, MANY, &job->random);
  for (int k = 0; k < MANY; k++) {
    const int which = order[k];
    weft_collective_t c = call_of(job, which);
    c.input = job->in[which];
    world_start(job->w, job->rank, &c, NULL, &job->out[which]);
  }
  return NULL;
}

static void any_order_on_any_rank(void) {
  world_t w;
  world_init(&w, RANKS, 2, false, NULL);
  static rank_job_t jobs[RANKS];
  for (int round = 0; round < 4; round++) { /* the second round of each pair knows its instances */
    for (int r = 0; r < RANKS; r++) {
      jobs[r] = (rank_job_t){
          .w = &w, .rank = r, .first_key = 1 + round / 2 * MANY, .random = (uint32_t)(round * 17 + r)};
      for (int k = 0; k < MANY; k++) {
        const weft_collective_t c = call_of(&jobs[r], k);
        CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &c.shape, NULL, &jobs[r].in[k]));
        for (int64_t i = 0; i < jobs[r].in[k]->count; i++) ((float *)jobs[r].in[k]->data)[i] = value(r, k, i);
      }
    }
    pthread_t threads[RANKS];
    for (int r = 0; r < RANKS; r++)
      CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, submit_all, &jobs[r]), 0);
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    int wrong = 0;
    for (int r = 0; r < RANKS; r++) {
      for (int k = 0; k < MANY; k++) {
        result_t *o = &jobs[r].out[k];
        world_wait(&w, o);
        if (o->status != NULL) fprintf(stderr, "%s\n", weft_status_message(o->status));
        CU_ASSERT_PTR_NULL_FATAL(o->status);
        for (int64_t i = 0; i < o->output->count; i++) {
          float want = 0;
          for (int q = 0; q < RANKS; q++) want += value(q, k, i); /* exact: small whole numbers */
          wrong += ((const float *)o->output->data)[i] != want;
        }
      }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    for (int r = 0; r < RANKS; r++) {
      for (int k = 0; k < MANY; k++) {
        result_deinit(&jobs[r].out[k]);
        weft_tensor_release(jobs[r].in[k]);
      }
      weft_collectives_end_step(w.collectives[r], w.next_step, NULL);
    }
    w.next_step++;
    CU_ASSERT_EQUAL(weft_local_hub_num_waiting(w.hub), 0);
  }
  world_deinit(&w);
}

/* ---- races of failures with everything else ---- */

typedef struct stopper {
  world_t *w;
  int what; /* 0: cancels; 1: kills; 2: ends the step; 3: lost task */
  weft_canceller_t *canceller;
  uint32_t random;
} stopper_t;

static void *stop(void *arg) {
  stopper_t *s = arg;
  for (uint32_t i = next_random(&s->random) % 4000; i > 0; i--) sched_yield();
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "stopped");
  if (s->what == 0) weft_canceller_cancel(s->canceller);
  if (s->what == 1) weft_local_hub_kill(s->w->hub, weft_str(s->w->tasks[2]));
  if (s->what == 2) weft_collectives_end_step(s->w->collectives[2], s->w->next_step, why);
  for (int r = 0; r < RANKS && s->what == 3; r++) {
    if (r != 2) weft_collectives_lost_task(s->w->collectives[r], weft_str(s->w->tasks[2]), why);
  }
  weft_status_free(why);
  return NULL;
}

typedef struct starter {
  world_t *w;
  int rank;
  weft_collective_t calls[8];
  result_t out[8];
  weft_canceller_t *canceller;
} starter_t;

static void *start_some(void *arg) {
  starter_t *s = arg;
  for (int k = 0; k < 8; k++)
    world_start(s->w, s->rank, &s->calls[k], s->rank == 2 ? s->canceller : NULL, &s->out[k]);
  return NULL;
}

static void failures_race_with_everything(void) {
  for (int seed = 0; seed < 80; seed++) {
    world_t w;
    world_init(&w, RANKS, seed % 3, false, NULL);
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    static starter_t starters[RANKS];
    const weft_shape_t shape = weft_shape_vector(4096);
    weft_tensor_t *in = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &in));
    memset(in->data, 0, in->bytes);
    for (int r = 0; r < RANKS; r++) {
      starters[r] = (starter_t){.w = &w, .rank = r, .canceller = canceller};
      for (int k = 0; k < 8; k++) {
        weft_collective_t c = world_call(&w, r, k % 2 == 0 ? WEFT_ALL_REDUCE : WEFT_REDUCE, WEFT_F32, shape);
        c.root = k % 2 == 0 ? -1 : k % RANKS;
        c.algorithm = (weft_collective_algorithm_t)((seed + k) % 6);
        c.instance_key = k + 1;
        c.input = in;
        c.timeout_ms = seed % 5 == 0 ? 20000 : 0;
        starters[r].calls[k] = c;
      }
    }
    stopper_t stopper = {&w, seed % 4, canceller, (uint32_t)seed};
    pthread_t threads[RANKS + 1];
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[RANKS], NULL, stop, &stopper), 0);
    for (int r = 0; r < RANKS; r++)
      CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, start_some, &starters[r]), 0);
    for (int r = 0; r <= RANKS; r++) pthread_join(threads[r], NULL);
    /* Where the group was never formed, the others wait for rank 2, as they must: now they are told, too. */
    for (int r = 0; r < RANKS; r++) weft_collectives_end_step(w.collectives[r], w.next_step, NULL);
    for (int r = 0; r < RANKS; r++) {
      for (int k = 0; k < 8; k++) {
        world_wait(&w, &starters[r].out[k]);
        result_deinit(&starters[r].out[k]);
      }
    }
    CU_ASSERT_EQUAL(weft_local_hub_num_waiting(w.hub), 0);
    weft_tensor_release(in);
    world_deinit(&w);
    weft_canceller_release(canceller);
  }
}

static void destroying_ends_what_goes_on(void) {
  world_t w;
  world_init(&w, 3, 1, false, NULL);
  result_t out[2];
  for (int r = 0; r < 2; r++) {
    weft_collective_t c = world_call(&w, r, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
    world_start(&w, r, &c, NULL, &out[r]);
  }
  world_deinit(&w);
  for (int r = 0; r < 2; r++) {
    CU_ASSERT_EQUAL(out[r].calls, 1);
    CU_ASSERT_EQUAL(weft_status_code(out[r].status), WEFT_CANCELLED);
    result_deinit(&out[r]);
  }
}

static const CU_TestInfo tests[] = {
    {"any order on any rank", any_order_on_any_rank},
    {"failures race with everything", failures_race_with_everything},
    {"destroying ends what goes on", destroying_ends_what_goes_on},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("concurrency", tests); }
