/* tests/cuda/fences_test.c - what fences order, on streams that are late, and that each wait is needed.
 *
 * A chain of copies and kernels runs many times. With all of its waits the result is right each time; without
 * one of them it is wrong within a number of rounds. The same is shown of two promises inside the device: the
 * mark of a block that is given out again, and the bytes of a pinned buffer.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/launch.h"
#include "tests/cuda/rig.h"
#include "tests/runner.h"

enum { N = 2048, ROUNDS = 60, MUTANT_ROUNDS = 400 };

typedef enum left_out {
  NOTHING,
  COMPUTE_AFTER_COPY_IN,
  COPY_OUT_AFTER_COMPUTE,
  COPY_IN_AFTER_COMPUTE, /* into a block that a kernel still uses */
  HOST_AFTER_COPY_OUT,
  COPY_IN_AFTER_PEER, /* before the device that it copies from has computed */
  NUM_LEFT_OUT
} left_out_t;

static const WEFT_DeviceType *const type = &weft_cuda_device_type;
static const int IN = WEFT_QUEUE_COPIES_IN, OUT = WEFT_QUEUE_COPIES_OUT, COMPUTE = WEFT_QUEUE_COMPUTE;

static void *block(weft_rig_t *r, bool waits) {
  uint64_t after = 0;
  void *p = type->allocate(r->device, N * sizeof(int), &after);
  TRIAL(p != NULL);
  if (after != 0 && waits) type->wait(r->queues[IN], r->queues[COMPUTE], after);
  return p;
}

/* Values go to device a, get 1 added, go to device b, get 2 added, and come back. Is the result right? */
static bool run_chain(weft_rig_t *a, weft_rig_t *b, left_out_t mutation, int round, int *in, int *out) {
  for (int i = 0; i < N; i++) in[i] = round * 7 + i;
  void *x = block(a, mutation != COPY_IN_AFTER_COMPUTE);
  TRIAL_OK(type->copy(a->queues[IN], NULL, in, a->device, x, N * sizeof(int)));
  const uint64_t arrived = weft_rig_mark(a, IN);
  if (mutation != COMPUTE_AFTER_COPY_IN) type->wait(a->queues[COMPUTE], a->queues[IN], arrived);
  TRIAL_OK(weft_rig_add(a, "one", x, N, 1));
  const uint64_t added = weft_rig_mark(a, COMPUTE);
  void *y = block(b, mutation != COPY_IN_AFTER_COMPUTE);
  if (mutation != COPY_IN_AFTER_PEER) type->wait(b->queues[IN], a->queues[COMPUTE], added);
  TRIAL_OK(type->copy(b->queues[IN], a->device, x, b->device, y, N * sizeof(int)));
  type->wait(a->queues[COMPUTE], b->queues[IN], weft_rig_mark(b, IN)); /* x is used until then */
  type->wait(b->queues[COMPUTE], b->queues[IN], b->marks[IN]);
  TRIAL_OK(weft_rig_add(b, "two", y, N, 2));
  const uint64_t summed = weft_rig_mark(b, COMPUTE);
  if (mutation != COPY_OUT_AFTER_COMPUTE) type->wait(b->queues[OUT], b->queues[COMPUTE], summed);
  TRIAL_OK(type->copy(b->queues[OUT], b->device, y, NULL, out, N * sizeof(int)));
  const uint64_t there = weft_rig_mark(b, OUT);
  type->wait(b->queues[COMPUTE], b->queues[OUT], there);
  for (int i = 0; mutation == COPY_IN_AFTER_COMPUTE && i < 12;
       i++) { /* work that uses the block until late */
    TRIAL_OK(weft_rig_add(a, "late", x, N, 1000));
  }
  type->deallocate(a->device, x, N * sizeof(int), weft_rig_mark(a, COMPUTE));
  type->deallocate(b->device, y, N * sizeof(int), weft_rig_mark(b, COMPUTE));
  if (mutation != HOST_AFTER_COPY_OUT) TRIAL_OK(weft_rig_await(b, WEFT_QUEUE_COPIES_OUT, there));
  bool right = true;
  for (int i = 0; i < N; i++) right = right && __atomic_load_n(&out[i], __ATOMIC_RELAXED) == in[i] + 3;
  /* Before the next round the host's bytes are not used any more. */
  TRIAL_OK(weft_rig_await(a, WEFT_QUEUE_COPIES_IN, arrived));
  TRIAL_OK(weft_rig_await(b, WEFT_QUEUE_COPIES_OUT, there));
  return right;
}

static void trial_chain(void *arg) {
  const left_out_t mutation = *(left_out_t *)arg;
  weft_rig_library();
  weft_rig_t a, b;
  TRIAL_OK(weft_rig_open(&a, NULL, 0));
  TRIAL_OK(weft_rig_open(&b, NULL, 1));
  int *in = type->host_allocate(a.device, N * sizeof *in),
      *out = type->host_allocate(b.device, N * sizeof *out);
  TRIAL(in != NULL && out != NULL);
  int right = 0, round = 0;
  for (; round < (mutation == NOTHING ? ROUNDS : MUTANT_ROUNDS); round++) {
    const bool good = run_chain(&a, &b, mutation, round, in, out);
    right += good;
    if (mutation != NOTHING && !good) break;
  }
  TRIAL(mutation == NOTHING ? right == ROUNDS : right < MUTANT_ROUNDS);
  type->host_deallocate(a.device, in, N * sizeof *in);
  type->host_deallocate(b.device, out, N * sizeof *out);
  weft_rig_close(&a);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

#if defined(__SANITIZE_THREAD__)
enum { NUM_TRIED = NOTHING + 1 }; /* the sanitizer finds the mutants' races by itself */
#else
enum { NUM_TRIED = NUM_LEFT_OUT };
#endif

static void each_wait_is_needed(void) {
  for (int m = 0; m < NUM_TRIED; m++) {
    for (int seed = 1; seed < (m == NOTHING ? 6 : 2); seed++) {
      char options[64];
      snprintf(options, sizeof options, "devices=2,late_us=100,seed=%d", seed);
      left_out_t mutation = (left_out_t)m;
      const char *wrong = weft_trial(trial_chain, &mutation, options, NULL);
      if (wrong != NULL) fprintf(stderr, "mutation %d: %s\n", m, wrong);
      CU_ASSERT_PTR_NULL(wrong);
    }
  }
}

/* ---- the order of callbacks ---- */

enum { WAITERS = 40 };

typedef struct counted_waiter {
  WEFT_FenceWaiter w; /* first */
  int *num_called;    /* atomic */
  int place;          /* among those called */
} counted_waiter_t;

static void count(WEFT_FenceWaiter *w, WEFT_Failure *failure) {
  counted_waiter_t *c = (counted_waiter_t *)(void *)w;
  if (failure == NULL) c->place = __atomic_add_fetch(c->num_called, 1, __ATOMIC_ACQ_REL);
  weft_test_host.failure_free(failure);
}

static void trial_order(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  counted_waiter_t w[WAITERS];
  int num_called = 0;
  uint64_t after;
  void *x = type->allocate(r.device, 4096, &after);
  weft_rig_hold(1);
  for (int i = 0; i < WAITERS; i++) {
    TRIAL_OK(weft_rig_add(&r, "sum", x, 1024, 1));
    weft_rig_mark(&r, WEFT_QUEUE_COMPUTE);
  }
  const int events = weft_rig_live().events;
  for (int i = 0; i < WAITERS; i++) { /* the last first; one event is behind them all */
    const uint64_t value = (uint64_t)(WAITERS - i);
    w[i] = (counted_waiter_t){.w = {.value = value, .fn = count}, .num_called = &num_called};
    type->when(r.queues[COMPUTE], &w[i].w);
    TRIAL(!type->has_passed(r.queues[COMPUTE], value));
  }
  TRIAL(weft_rig_live().events == events + 1);
  TRIAL(__atomic_load_n(&num_called, __ATOMIC_ACQUIRE) == 0);
  /* What comes later does not hold up the fences before it. */
  TRIAL_OK(weft_rig_add(&r, "sum", x, 1024, 1));
  const uint64_t last = weft_rig_mark(&r, WEFT_QUEUE_COMPUTE);
  weft_rig_hold(0);
  TRIAL_OK(weft_rig_await(&r, WEFT_QUEUE_COMPUTE, last));
  TRIAL(__atomic_load_n(&num_called, __ATOMIC_ACQUIRE) == WAITERS);
  for (int i = 0; i < WAITERS; i++) TRIAL(w[i].place == WAITERS - i); /* by their fences */
  TRIAL(type->has_passed(r.queues[COMPUTE], last));
  type->when(r.queues[COMPUTE], &w[0].w); /* has passed: at once */
  TRIAL(num_called == WAITERS + 1);
  weft_rig_close(&r);
  weft_rig_is_clean();
}

/* A device that is closed calls all waiters first. */
static void trial_close(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  uint64_t after;
  void *x = type->allocate(r.device, 4096, &after);
  counted_waiter_t w[WAITERS];
  int num_called = 0;
  for (int i = 0; i < WAITERS; i++) {
    TRIAL_OK(weft_rig_add(&r, "sum", x, 1024, 1));
    const uint64_t value = weft_rig_mark(&r, WEFT_QUEUE_COMPUTE);
    w[i] = (counted_waiter_t){.w = {.value = value, .fn = count}, .num_called = &num_called};
    type->when(r.queues[COMPUTE], &w[i].w);
  }
  weft_rig_close(&r);
  TRIAL(num_called == WAITERS);
  weft_rig_is_clean();
}

static void waiters_are_called_once_in_the_order_of_their_fences(void) {
  const char *wrong = weft_trial(trial_order, NULL, "late_us=50", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
  wrong = weft_trial(trial_close, NULL, "late_us=50", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

/* ---- many threads ---- */

typedef struct busy {
  weft_rig_t *rig;
  int index, wrong;
} busy_t;

/* Each thread has blocks of its own; marks and fences are shared. */
static void *keep_busy(void *arg) {
  busy_t *t = arg;
  weft_rig_t *r = t->rig;
  int in[256], out[256];
  for (int round = 0; round < 40; round++) {
    uint64_t after = 0;
    for (int i = 0; i < 256; i++) in[i] = t->index * 1000 + round + i;
    memset(out, 0, sizeof out);
    void *x = type->allocate(r->device, sizeof in, &after);
    if (x == NULL) return NULL;
    if (after != 0) type->wait(r->queues[IN], r->queues[COMPUTE], after);
    TRIAL_OK(type->copy(r->queues[IN], NULL, in, r->device, x, sizeof in));
    type->wait(r->queues[COMPUTE], r->queues[IN], weft_rig_mark(r, WEFT_QUEUE_COPIES_IN));
    TRIAL_OK(weft_rig_add(r, "sum", x, 256, 5));
    type->wait(r->queues[OUT], r->queues[COMPUTE], weft_rig_mark(r, WEFT_QUEUE_COMPUTE));
    TRIAL_OK(type->copy(r->queues[OUT], r->device, x, NULL, out, sizeof out));
    const uint64_t there = weft_rig_mark(r, WEFT_QUEUE_COPIES_OUT);
    type->wait(r->queues[COMPUTE], r->queues[OUT], there);
    type->deallocate(r->device, x, sizeof in, weft_rig_mark(r, WEFT_QUEUE_COMPUTE));
    if (round % 3 == 0) (void)type->has_passed(r->queues[OUT], there);
    TRIAL_OK(weft_rig_await(r, WEFT_QUEUE_COPIES_OUT, there));
    for (int i = 0; i < 256; i++) t->wrong += out[i] != in[i] + 5;
  }
  return NULL;
}

static void trial_threads(void *arg) {
  (void)arg;
  enum { THREADS = 6 };
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  pthread_t threads[THREADS];
  busy_t busy[THREADS];
  for (int i = 0; i < THREADS; i++) {
    busy[i] = (busy_t){&r, i, 0};
    TRIAL(pthread_create(&threads[i], NULL, keep_busy, &busy[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) TRIAL(busy[i].wrong == 0);
  weft_rig_close(&r);
  weft_rig_is_clean();
}

static void threads_share_the_queues(void) {
  const char *wrong = weft_trial(trial_threads, NULL, "late_us=30", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

static const CU_TestInfo tests[] = {
    {"each wait is needed", each_wait_is_needed},
    {"waiters are called once, in the order of their fences",
     waiters_are_called_once_in_the_order_of_their_fences},
    {"threads share the queues", threads_share_the_queues},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("CUDA fences", tests); }
