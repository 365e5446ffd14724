/* tests/cuda/each_call_test.c - each function of the driver fails at each of its calls, and each allocation:
 * all ends, and nothing is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "tests/cuda/rig.h"
#include "tests/runner.h"

static const WEFT_DeviceType *const type = &weft_cuda_device_type;

/* Whatever comes, it ends, with failures that have a text. */
static void keep(WEFT_Failure *f, int *num) {
  if (f == NULL) return;
  TRIAL(weft_test_host.failure_code(f) != 0 && weft_test_host.failure_message(f)[0] != '\0');
  weft_test_host.failure_free(f);
  ++*num;
}

/* What lies at x of `from` is read by `to` as if it were another process's (own=1). */
static void share(weft_rig_t *from, weft_rig_t *to, void *x, int *failures) {
  const WEFT_DeviceSharing *sharing = weft_cuda_device_type.sharing;
  unsigned char reader[WEFT_DEVICE_ID_BYTES];
  WEFT_SharedMemory memory = {.size = sizeof memory};
  const void *at = NULL;
  size_t bytes = 0;
  uint64_t after = 0;
  if (to->device == NULL) return;
  WEFT_Failure *f = sharing->identify(to->device, reader);
  if (f == NULL) f = sharing->export_memory(from->device, x, reader, &memory);
  if (f == NULL) f = sharing->import_memory(to->device, memory.handle, &at, &bytes);
  keep(f, failures);
  if (at == NULL) return;
  void *y = weft_cuda_device_type.allocate(to->device, 64, &after);
  if (y != NULL) {
    keep(weft_cuda_device_type.copy(to->queues[WEFT_QUEUE_COPIES_IN], to->device,
                                    (const char *)at + memory.offset, to->device, y, 64),
         failures);
    keep(weft_rig_await(to, WEFT_QUEUE_COPIES_IN, weft_rig_mark(to, WEFT_QUEUE_COPIES_IN)), failures);
    weft_cuda_device_type.deallocate(to->device, y, 64, 0);
  }
  sharing->forget_memory(to->device, at);
}

static int use_everything(void) {
  static int in[40000], out[40000];
  int failures = 0, num = 0;
  weft_rig_t a = {0}, b = {0};
  uint64_t after = 0;
  keep(type->count(NULL, &num), &failures);
  keep(weft_rig_open(&a, NULL, 0), &failures);
  keep(weft_rig_open(&b, NULL, 1), &failures);
  if (a.device != NULL) {
    void *x = type->allocate(a.device, sizeof in, &after), *pinned = type->host_allocate(a.device, 4096);
    failures += (x == NULL) + (pinned == NULL);
    if (x != NULL) {
      keep(type->copy(a.queues[WEFT_QUEUE_COPIES_IN], NULL, in, a.device, x, sizeof in), &failures);
      keep(type->copy(a.queues[WEFT_QUEUE_COPIES_IN], NULL, in, a.device, x, 64), &failures);
      type->wait(a.queues[WEFT_QUEUE_COMPUTE], a.queues[WEFT_QUEUE_COPIES_IN],
                 weft_rig_mark(&a, WEFT_QUEUE_COPIES_IN));
      keep(weft_rig_add(&a, "sum", x, 16, 1), &failures);
      WEFT_KernelContext c = {a.device, "fill"};
      keep(weft_cuda_fill(&c, x, 0, 64), &failures);
      static weft_cuda_function_t add = WEFT_CUDA_FUNCTION("weft_fake_add");
      int64_t n = 4;
      int v = 4;
      keep(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 64 << 10},
                            (void *[]){&x, &n, &v}),
           &failures);
      void *graph = NULL;
      WEFT_Failure *f = type->capture_begin(a.queues[WEFT_QUEUE_COMPUTE]);
      const bool captures = f == NULL;
      keep(f, &failures);
      if (captures) {
        keep(weft_rig_add(&a, "sum", x, 16, 1), &failures);
        keep(weft_cuda_copy(&c, x, &v, sizeof v), &failures);
        keep(type->capture_end(a.queues[WEFT_QUEUE_COMPUTE], &graph), &failures);
      }
      if (graph != NULL) keep(type->replay(a.queues[WEFT_QUEUE_COMPUTE], graph), &failures);
      type->graph_destroy(graph);
      const uint64_t computed = weft_rig_mark(&a, WEFT_QUEUE_COMPUTE);
      (void)type->has_passed(a.queues[WEFT_QUEUE_COMPUTE], computed);
      type->wait(a.queues[WEFT_QUEUE_COPIES_OUT], a.queues[WEFT_QUEUE_COMPUTE], computed);
      keep(type->copy(a.queues[WEFT_QUEUE_COPIES_OUT], a.device, x, NULL, out, sizeof out), &failures);
      keep(weft_rig_await(&a, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(&a, WEFT_QUEUE_COPIES_OUT)), &failures);
      void *y = b.device == NULL ? NULL : type->allocate(b.device, 64, &after);
      if (y != NULL) {
        (void)type->reaches(a.device, b.device);
        type->wait(b.queues[WEFT_QUEUE_COPIES_IN], a.queues[WEFT_QUEUE_COMPUTE], computed);
        keep(type->copy(b.queues[WEFT_QUEUE_COPIES_IN], a.device, x, b.device, y, 64), &failures);
        keep(weft_rig_await(&b, WEFT_QUEUE_COPIES_IN, weft_rig_mark(&b, WEFT_QUEUE_COPIES_IN)), &failures);
        type->deallocate(b.device, y, 64, 0);
      }
      share(&a, &b, x, &failures);
      type->deallocate(a.device, x, sizeof in, computed);
    }
    type->host_deallocate(a.device, pinned, 4096);
  }
  weft_rig_close(&b);
  weft_rig_close(&a);
  return failures;
}

static long calls[64];

/* How often each function is called when none fails: told through a pipe as the trial's text. */
static void trial_count(void *arg) {
  (void)arg;
  weft_rig_library();
  TRIAL(use_everything() == 0);
  weft_rig_is_clean();
  char text[1024] = "counts";
  static const char *const names[] = {
#define AS_TEXT(x) #x
#define WEFT_CUDA_CALL(name) AS_TEXT(name),
#include "device/cuda/driver.def"
#undef WEFT_CUDA_CALL
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t at = strlen(text);
    snprintf(text + at, sizeof text - at, " %ld", weft_rig_calls(names[i]));
  }
  weft_trial_fails("", 0, "", text);
}

/* Functions that give something back: when they fail, what is left is the driver's. */
static const char GIVES_BACK[] =
    "cuDevicePrimaryCtxRelease_v2 cuMemFree_v2 cuMemFreeHost cuStreamDestroy_v2 "
    "cuEventDestroy_v2 cuModuleUnload cuGraphDestroy cuGraphExecDestroy cuIpcCloseMemHandle";

static void trial_failing(void *arg) {
  const bool may_leave = arg != NULL;
  weft_rig_library();
  (void)use_everything();
  const weft_fake_cuda_live_t l = weft_rig_live();
  char text[300];
  snprintf(text, sizeof text,
           "contexts %d modules %d streams %d events %d allocations %d pinned %d graphs %d imports %d",
           l.contexts, l.modules, l.streams, l.events, l.allocations, l.pinned, l.graphs, l.imports);
  if (may_leave) _exit(0); /* without the leak checker: what is left is the fake's */
  TRIAL_SAYS(
      l.contexts + l.modules + l.streams + l.events + l.allocations + l.pinned + l.graphs + l.imports == 0,
      text);
}

static void each_failing_call_ends_and_leaves_nothing(void) {
  static const char *const names[] = {
#define WEFT_CUDA_CALL(name) AS_TEXT(name),
#include "device/cuda/driver.def"
#undef WEFT_CUDA_CALL
  };
  enum { NUM = sizeof names / sizeof *names, MOST = 12 };
  static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN};
  const char *text = weft_trial(trial_count, NULL, "devices=2,own=1", NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(text);
  text = strstr(text, "counts");
  CU_ASSERT_PTR_NOT_NULL_FATAL(text);
  char *at = (char *)(uintptr_t)text + strlen("counts");
  for (int i = 0; i < NUM; i++) calls[i] = strtol(at, &at, 10);
  int trials = 0, wrong = 0;
  for (int i = 0; i < NUM; i++) {
    if (strncmp(names[i], "cuGetError", 10) == 0) continue; /* texts, which do not fail */
    CU_ASSERT(calls[i] > 0);
    if (calls[i] == 0) fprintf(stderr, "%s is never called\n", names[i]);
    for (long n = 1; n <= calls[i] && n <= MOST; n++) {
      for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        char options[160];
        snprintf(options, sizeof options, "devices=2,own=1,fail=%s@%ld:%d", names[i], n, codes[k]);
        const bool may_leave =
            strstr(GIVES_BACK, names[i]) != NULL || strcmp(names[i], "cuCtxSetCurrent") == 0;
        const char *failed = weft_trial(trial_failing, may_leave ? (void *)options : NULL, options, NULL);
        if (failed != NULL && wrong++ < 10) fprintf(stderr, "%s: %s\n", options, failed);
        trials++;
      }
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(trials > 300);
}

static void trial_allocations(void *arg) {
  (void)arg;
  weft_rig_library();
  for (long n = 0;; n++) {
    weft_fault_arm(n);
    (void)use_everything();
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    const weft_fake_cuda_live_t l = weft_rig_live();
    TRIAL(l.contexts + l.modules + l.streams + l.events + l.allocations + l.pinned + l.graphs + l.imports ==
          0);
    if (!fired) break;
    TRIAL(n < 2000);
  }
}

static void each_failing_allocation_ends_and_leaves_nothing(void) {
  RUNS(trial_allocations, "devices=2,own=1");
}

static const CU_TestInfo tests[] = {
    {"each failing call ends and leaves nothing", each_failing_call_ends_and_leaves_nothing},
    {"each failing allocation ends and leaves nothing", each_failing_allocation_ends_and_leaves_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("CUDA, each call", tests); }
