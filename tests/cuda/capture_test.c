/* tests/cuda/capture_test.c - captures and replays of the CUDA device, on the fake driver. */
#include <pthread.h>
#include <stdio.h>

#include "device/cuda/launch.h"
#include "tests/cuda/rig.h"
#include "tests/runner.h"

static const WEFT_DeviceType *const type = &weft_cuda_device_type;
static const WEFT_QueueKind COMPUTE = WEFT_QUEUE_COMPUTE;

static int first_of(weft_rig_t *b, void *x) {
  int out = 0;
  type->wait(b->queues[WEFT_QUEUE_COPIES_OUT], b->queues[COMPUTE], weft_rig_mark(b, COMPUTE));
  TRIAL_OK(type->copy(b->queues[WEFT_QUEUE_COPIES_OUT], b->device, x, NULL, &out, sizeof out));
  TRIAL_OK(weft_rig_await(b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(b, WEFT_QUEUE_COPIES_OUT)));
  return out;
}

/* Another thread goes on with the queue. */
static void *add_hundred(void *arg) {
  void **both = arg;
  weft_rig_t *b = both[0];
  TRIAL_OK(weft_rig_add(b, "other", both[1], 1, 100));
  TRIAL_OK(weft_rig_await(b, COMPUTE, weft_rig_mark(b, COMPUTE)));
  return NULL;
}

static void trial_capture(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  uint64_t after;
  int *x = type->allocate(b.device, 4096, &after);
  WEFT_KernelContext c = {b.device, "five"};
  int five = 5;
  void *graph = NULL;
  TRIAL_OK(weft_cuda_fill(&c, x, 0, 4096));
  TRIAL_OK(weft_rig_add(&b, "warm", x, 1, 1000)); /* loads the modules */
  TRIAL_OK(weft_cuda_copy(&c, x + 1, &five, sizeof five));
  TRIAL_OK(type->capture_begin(b.queues[COMPUTE]));
  TRIAL_FAILURE(type->capture_begin(b.queues[COMPUTE]), WEFT_FAILED_PRECONDITION, "captures already");
  TRIAL_OK(weft_cuda_fill(&c, x, 0, sizeof *x));
  TRIAL_OK(weft_rig_add(&b, "model/first", x, 1, 1));
  TRIAL_OK(weft_rig_add(&b, "model/second", x, 1, 2));
  TRIAL_OK(weft_cuda_copy(&c, x + 1, &five, sizeof five)); /* its pinned bytes stay with the graph */
  five = 6;
  TRIAL_OK(weft_rig_add(&b, "model/third", x, 1, 4));
  TRIAL(!type->has_passed(b.queues[COMPUTE], weft_rig_mark(&b, COMPUTE))); /* the driver is not asked */
  pthread_t other;
  TRIAL(pthread_create(&other, NULL, add_hundred, (void *[]){&b, x}) == 0);
  pthread_join(other, NULL);
  TRIAL_OK(type->capture_end(b.queues[COMPUTE], &graph));
  TRIAL_FAILURE(type->capture_end(b.queues[COMPUTE], &graph), WEFT_FAILED_PRECONDITION, "does not capture");
  TRIAL(first_of(&b, x) == 1100); /* nothing of it has run */
  const long launches = weft_rig_calls("cuLaunchKernel");
  for (int i = 0; i < 50; i++) {
    TRIAL_OK(weft_cuda_fill(&c, x + 1, 0, sizeof *x));
    TRIAL_OK(type->replay(b.queues[COMPUTE], graph));
    weft_rig_mark(&b, COMPUTE);
  }
  TRIAL(weft_rig_calls("cuLaunchKernel") == launches && weft_rig_calls("cuGraphLaunch") == 50);
  TRIAL_OK(weft_rig_add(&b, "later", x, 1, 10));
  TRIAL(first_of(&b, x) == 17 && first_of(&b, x + 1) == 5);
  TRIAL_OK(type->replay(b.queues[COMPUTE], graph));
  type->graph_destroy(graph); /* with a replay under way */
  type->graph_destroy(NULL);
  TRIAL(first_of(&b, x) == 7);
  type->deallocate(b.device, x, 4096, b.marks[COMPUTE]);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void what_is_captured_runs_when_it_is_replayed(void) { RUNS(trial_capture, "late_us=50"); }

/* Each ends the capture with a failure, and what was recorded before has not run. */
static void trial_refused(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(
      weft_rig_open(&b, &(WEFT_DeviceOptions){.size = sizeof(WEFT_DeviceOptions), .allow_growth = 1}, 0));
  uint64_t after;
  int *x = type->allocate(b.device, 4096, &after), value = 1;
  WEFT_KernelContext c = {b.device, "refused"};
  void *graph = NULL;
  TRIAL_OK(weft_cuda_fill(&c, x, 0, 4096));
  TRIAL_OK(weft_cuda_copy(&c, x + 1, &value, sizeof value));
  /* a kernel that is the first of all: its modules are loaded */
  TRIAL_OK(type->capture_begin(b.queues[COMPUTE]));
  TRIAL_FAILURE(weft_rig_add(&b, "cold", x, 1, 1), WEFT_INTERNAL, "");
  TRIAL_FAILURE(type->capture_end(b.queues[COMPUTE], &graph), WEFT_INTERNAL, "a capture on GPU:0 (compute)");
  TRIAL_OK(weft_rig_add(&b, "warm", x, 1, 1000));
  /* memory of the driver */
  TRIAL_OK(type->capture_begin(b.queues[COMPUTE]));
  TRIAL_OK(weft_rig_add(&b, "sum", x, 1, 1));
  TRIAL(type->allocate(b.device, 32 << 20, &after) == NULL);
  TRIAL_FAILURE(type->capture_end(b.queues[COMPUTE], &graph), WEFT_INTERNAL, "a capture on GPU:0 (compute)");
  /* another queue, which writes behind the fill */
  type->wait(b.queues[WEFT_QUEUE_COPIES_IN], b.queues[COMPUTE], weft_rig_mark(&b, COMPUTE));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_IN], NULL, &value, b.device, x + 2, sizeof value));
  const uint64_t copied = weft_rig_mark(&b, WEFT_QUEUE_COPIES_IN);
  TRIAL_OK(type->capture_begin(b.queues[COMPUTE]));
  weft_rig_hold(WEFT_FAKE_HOLD_ALL); /* it has not passed */
  type->wait(b.queues[COMPUTE], b.queues[WEFT_QUEUE_COPIES_IN], copied + 1);
  weft_rig_hold(0);
  TRIAL_OK(weft_rig_add(&b, "sum", x, 1, 1));
  TRIAL_FAILURE(type->capture_end(b.queues[COMPUTE], &graph), WEFT_FAILED_PRECONDITION,
                "a capture cannot have a wait for another queue");
  TRIAL(first_of(&b, x) == 1000); /* and the queue goes on */
  TRIAL(graph == NULL);
  TRIAL(type->allocate(b.device, 32 << 20, &after) != NULL);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void what_a_capture_forbids_ends_it(void) { RUNS(trial_refused, ""); }

static void trial_faulty(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  uint64_t after;
  int *x = type->allocate(b.device, 4096, &after);
  void *graph = NULL;
  TRIAL_OK(weft_rig_add(&b, "warm", x, 1, 1));
  TRIAL_OK(weft_rig_await(&b, COMPUTE, weft_rig_mark(&b, COMPUTE)));
  TRIAL_OK(type->capture_begin(b.queues[COMPUTE]));
  TRIAL_OK(weft_rig_add(&b, "model/first", x, 1, 1));
  TRIAL_OK(weft_rig_fault(&b, "model/fault"));
  TRIAL_OK(weft_rig_add(&b, "model/last", x, 1, 1));
  TRIAL_OK(type->capture_end(b.queues[COMPUTE], &graph));
  TRIAL_OK(type->replay(b.queues[COMPUTE], graph));
  TRIAL_FAILURE(weft_rig_await(&b, COMPUTE, weft_rig_mark(&b, COMPUTE)), WEFT_INTERNAL,
                "'model/first', 'model/last': CUDA_ERROR_ILLEGAL_ADDRESS");
  TRIAL_FAILURE(type->replay(b.queues[COMPUTE], graph), WEFT_INTERNAL, "model/first");
  TRIAL_FAILURE(type->capture_begin(b.queues[COMPUTE]), WEFT_INTERNAL, "model/first");
  type->graph_destroy(graph);
  weft_rig_close(&b);
  const weft_fake_cuda_live_t l = weft_rig_live();
  TRIAL(l.contexts + l.streams + l.events + l.modules + l.allocations + l.pinned + l.graphs + l.imports == 0);
}

static void a_graph_that_fails_names_its_ends(void) { RUNS(trial_faulty, ""); }

static const CU_TestInfo tests[] = {
    {"what is captured runs when it is replayed", what_is_captured_runs_when_it_is_replayed},
    {"what a capture forbids ends it", what_a_capture_forbids_ends_it},
    {"a graph that fails names its ends", a_graph_that_fails_names_its_ends},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("CUDA captures", tests); }
