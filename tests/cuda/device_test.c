/* tests/cuda/device_test.c - devices, memory, copies and failures of the CUDA device, on the fake driver. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/cuda/launch.h"
#include "device/cuda/options.h"
#include "tests/cuda/rig.h"
#include "tests/runner.h"

static const WEFT_DeviceType *const type = &weft_cuda_device_type;

/* ---- which devices there are ---- */

static void trial_describe(void *arg) {
  (void)arg;
  weft_rig_library();
  int num = 0;
  TRIAL_OK(type->count(&(WEFT_DeviceOptions){.size = sizeof(WEFT_DeviceOptions), .visible = "1,0"}, &num));
  TRIAL(num == 2);
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, &(WEFT_DeviceOptions){.size = sizeof(WEFT_DeviceOptions), .visible = "1,0"}, 0));
  WEFT_DeviceDescription d = {.size = sizeof d};
  type->describe(b.device, &d);
  TRIAL_SAYS(strcmp(d.physical,
                    "device: 1, name: NVIDIA Fake, pci bus id: ffff:02:00.0, compute capability: 9.0") == 0,
             d.physical);
  TRIAL(strcmp(d.allocator, "GPU_0_bfc") == 0);
  TRIAL(d.memory_limit == (INT64_C(3) << 30) - (INT64_C(1800) << 20));
  TRIAL(d.numa_node == -1);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void devices_are_described_as_tensorflow_does(void) { RUNS(trial_describe, "devices=2,memory=3g"); }

static void trial_unavailable(const char *text) {
  weft_rig_library();
  int num = 7;
  for (int i = 0; i < 2; i++) { /* the second answer is the same */
    TRIAL_FAILURE(type->count(NULL, &num), WEFT_UNAVAILABLE, text);
    TRIAL(num == 7);
  }
}
static void trial_no_driver(void *arg) { (void)arg, trial_unavailable("NVIDIA's driver was not found"); }
static void trial_no_device(void *arg) { (void)arg, trial_unavailable("no NVIDIA GPU is visible"); }
static void trial_old(void *arg) { (void)arg, trial_unavailable("supports CUDA 11.8, and 1"); }
static void trial_stub(void *arg) { (void)arg, trial_unavailable("LD_LIBRARY_PATH"); }
static void trial_mismatch(void *arg) { (void)arg, trial_unavailable("different versions"); }
static void trial_other(void *arg) { (void)arg, trial_unavailable("has no cuInit: the driver is too old"); }

static void a_driver_that_cannot_be_used_says_why(void) {
  RUNS_ON(trial_no_driver, "", "/nowhere/libcuda.so.1");
  RUNS(trial_no_device, "devices=0");
  RUNS(trial_old, "version=11080");
  RUNS(trial_stub, "fail=cuInit@1:34");
  RUNS(trial_mismatch, "fail=cuInit@1:803");
  RUNS_ON(trial_other, "", "libm.so.6");
}

static void trial_capability(void *arg) {
  (void)arg;
  weft_rig_library();
  int num = 7;
  TRIAL_OK(type->count(NULL, &num));
  TRIAL(num == 0);
  TRIAL(strstr(weft_test_host_logged(), "Ignoring visible gpu device 0 with compute capability 7.5") != NULL);
}

static void old_cards_are_ignored(void) { RUNS(trial_capability, "capability=75"); }

static void options_are_checked_in_tensorflows_words(void) {
  static const int two[] = {2, 0}, three[] = {3};
  static const int64_t bytes[] = {100, 200, 300};
  static const struct {
    WEFT_DeviceOptions o;
    int code;
    const char *text; /* of the failure, or "physical:limit/parts ..." of the devices */
  } cases[] = {
      {{.visible = ""}, 0, "0:0/1 1:0/1 2:0/1 "},
      {{.visible = "2,0"}, 0, "2:0/1 0:0/1 "},
      {{.visible = "0,abc"},
       WEFT_INVALID_ARGUMENT,
       "Could not parse entry in 'visible_device_list': 'abc'. visible_device_list = 0,abc"},
      {{.visible = "0,"}, WEFT_INVALID_ARGUMENT, "Could not parse entry in 'visible_device_list': ''"},
      {{.visible = "99999999999999999999"}, WEFT_INVALID_ARGUMENT, "Could not parse entry"},
      {{.visible = "100"},
       WEFT_INVALID_ARGUMENT,
       "'visible_device_list' listed an invalid Device id '100' but visible device count is 3"},
      {{.visible = "-1"}, WEFT_INVALID_ARGUMENT, "listed an invalid Device id '-1'"},
      {{.visible = "0,0"}, WEFT_INVALID_ARGUMENT, "visible_device_list contained a duplicate entry: 0,0"},
      {{.memory_fraction = 1.5}, WEFT_INVALID_ARGUMENT, "per_process_gpu_memory_fraction is 1.5"},
      {{.num_split = 1, .num_logical = three, .logical_bytes = bytes},
       0,
       "0:100/3 0:200/3 0:300/3 1:0/1 2:0/1 "},
      {{.num_per_device = 2}, 0, "0:0/2 0:0/2 1:0/2 1:0/2 2:0/2 2:0/2 "},
      {{.visible = "1", .num_per_device = 3}, 0, "1:0/3 1:0/3 1:0/3 "},
      {{.visible = "2,1", .num_split = 2, .num_logical = two, .logical_bytes = bytes},
       0,
       "2:100/2 2:200/2 1:0/1 "},
      {{.memory_fraction = 0.1, .num_split = 1, .num_logical = three, .logical_bytes = bytes},
       WEFT_INVALID_ARGUMENT,
       "It's invalid to set per_process_gpu_memory_fraction"},
      {{.num_split = 4, .num_logical = two, .logical_bytes = bytes},
       WEFT_UNKNOWN,
       "Not enough GPUs to create virtual devices. num_gpus_to_use: 3 #virtual_devices: 4"},
      {{.visible = "0,1", .num_split = 1, .num_logical = three, .logical_bytes = bytes},
       WEFT_INVALID_ARGUMENT,
       "The number of GPUs in visible_device_list doesn't match"},
  };
  static const bool usable[] = {true, true, true};
  weft_cuda_host = &weft_test_host;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_cuda_choice_t c[WEFT_CUDA_MAX_LOGICAL];
    int num = 0;
    char text[256] = "";
    WEFT_Failure *f = weft_cuda_choose(&cases[i].o, 3, usable, c, &num);
    CU_ASSERT_EQUAL(weft_test_host.failure_code(f), cases[i].code);
    for (int k = 0; f == NULL && k < num; k++) {
      const size_t at = strlen(text);
      snprintf(text + at, sizeof text - at, "%d:%d/%d ", c[k].physical, (int)c[k].limit_bytes, c[k].parts);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(f == NULL ? text : weft_test_host.failure_message(f), cases[i].text));
    weft_test_host.failure_free(f);
  }
  const WEFT_DeviceOptions half = {.memory_fraction = 0.5};
  CU_ASSERT_EQUAL(weft_cuda_memory_limit(&half, 1000, 3000, 9), 1500);
  CU_ASSERT_EQUAL(weft_cuda_memory_limit(NULL, (size_t)1 << 30, (size_t)4 << 30, 9), (1 << 30) - (225 << 20));
  CU_ASSERT_EQUAL(weft_cuda_memory_limit(NULL, (size_t)8 << 30, (size_t)9 << 30, 8),
                  (INT64_C(8) << 30) - (1536 << 20));
  CU_ASSERT_EQUAL(weft_cuda_memory_limit(NULL, 1000, 3000, 9), 1000);
}

static void trial_logical(void *arg) {
  (void)arg;
  weft_rig_library();
  static const int two = 2;
  static const int64_t bytes[] = {1 << 20, 2 << 20};
  const WEFT_DeviceOptions o = {
      .size = sizeof o, .visible = "0", .num_split = 1, .num_logical = &two, .logical_bytes = bytes};
  weft_rig_t a, b;
  TRIAL_OK(weft_rig_open(&a, &o, 0));
  TRIAL_OK(weft_rig_open(&b, &o, 1));
  TRIAL(weft_rig_live().contexts == 1 && a.device->physical == b.device->physical);
  TRIAL(type->reaches(a.device, b.device));
  uint64_t after;
  TRIAL(type->allocate(a.device, (1 << 20) + 1, &after) == NULL);
  void *x = type->allocate(a.device, 4096, &after), *y = type->allocate(b.device, (1 << 20) + 1, &after);
  TRIAL(x != NULL && y != NULL);
  /* From one to the other, in the one context. */
  int in[1024], out[1024];
  for (int i = 0; i < 1024; i++) in[i] = i;
  TRIAL_OK(type->copy(a.queues[WEFT_QUEUE_COPIES_IN], NULL, in, a.device, x, sizeof in));
  type->wait(b.queues[WEFT_QUEUE_COPIES_IN], a.queues[WEFT_QUEUE_COPIES_IN],
             weft_rig_mark(&a, WEFT_QUEUE_COPIES_IN));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_IN], a.device, x, b.device, y, sizeof in));
  type->wait(b.queues[WEFT_QUEUE_COPIES_OUT], b.queues[WEFT_QUEUE_COPIES_IN],
             weft_rig_mark(&b, WEFT_QUEUE_COPIES_IN));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_OUT], b.device, y, NULL, out, sizeof out));
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(&b, WEFT_QUEUE_COPIES_OUT)));
  TRIAL(memcmp(in, out, sizeof in) == 0);
  TRIAL(weft_rig_calls("cuMemcpyPeerAsync") == 0);
  type->deallocate(a.device, x, 4096, 0);
  type->deallocate(b.device, y, (1 << 20) + 1, 0);
  weft_rig_close(&a);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void logical_devices_share_a_context(void) { RUNS(trial_logical, "devices=2,late_us=100"); }

/* ---- copies ---- */

/* `bytes` of the host's memory go to a device, get 1 added, and come back. */
static void round_trip(weft_rig_t *b, int *in, int *out, size_t bytes) {
  uint64_t after;
  void *x = type->allocate(b->device, bytes, &after);
  TRIAL(x != NULL);
  if (after != 0) type->wait(b->queues[WEFT_QUEUE_COPIES_IN], b->queues[WEFT_QUEUE_COMPUTE], after);
  for (size_t i = 0; i < bytes / sizeof *in; i++) in[i] = (int)i * 3;
  TRIAL_OK(type->copy(b->queues[WEFT_QUEUE_COPIES_IN], NULL, in, b->device, x, bytes));
  type->wait(b->queues[WEFT_QUEUE_COMPUTE], b->queues[WEFT_QUEUE_COPIES_IN],
             weft_rig_mark(b, WEFT_QUEUE_COPIES_IN));
  TRIAL_OK(weft_rig_add(b, "sum", x, (int64_t)(bytes / sizeof *in), 1));
  type->wait(b->queues[WEFT_QUEUE_COPIES_OUT], b->queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(b, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(type->copy(b->queues[WEFT_QUEUE_COPIES_OUT], b->device, x, NULL, out, bytes));
  TRIAL_OK(weft_rig_await(b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(b, WEFT_QUEUE_COPIES_OUT)));
  size_t wrong = 0;
  for (size_t i = 0; i < bytes / sizeof *in; i++) wrong += out[i] != (int)i * 3 + 1;
  TRIAL(wrong == 0);
  type->deallocate(b->device, x, bytes, b->marks[WEFT_QUEUE_COMPUTE]);
}

static void trial_copies(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  static const size_t sizes[] = {4, 4096, 64 << 10, (64 << 10) + 4, 4 << 20, (9 << 20) + 12};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int *in = weft_malloc(sizes[i]), *out = weft_calloc(1, sizes[i]);
    TRIAL(in != NULL && out != NULL);
    round_trip(&b, in, out, sizes[i]);
    weft_free(in);
    weft_free(out);
    in = type->host_allocate(b.device, sizes[i]); /* pinned */
    out = type->host_allocate(b.device, sizes[i]);
    TRIAL(in != NULL && out != NULL);
    const long functions = weft_rig_calls("cuLaunchHostFunc");
    round_trip(&b, in, out, sizes[i]);
    TRIAL(weft_rig_calls("cuLaunchHostFunc") == functions); /* by the device alone */
    type->host_deallocate(b.device, in, sizes[i]);
    type->host_deallocate(b.device, out, sizes[i]);
  }
  weft_rig_close(&b);
  weft_rig_is_clean(); /* and no copy of pageable memory by the driver */
}

static void bytes_come_back_from_pageable_and_pinned_memory(void) {
  RUNS(trial_copies, "late_us=300,seed=3");
}

/* The pieces of a copy of 5 MiB, of the halves `kind`, in order; the trial fails if they are not 5 of 1 MiB
 * on one stream. */
static void halves(const weft_fake_cuda_done_t *done, int n, char kind, weft_fake_cuda_done_t out[5]) {
  int num = 0;
  for (int i = 0; i < n; i++) {
    if (done[i].kind != kind) continue;
    TRIAL(num < 5 && (num == 0 || done[i].stream == out[0].stream));
    TRIAL(kind == 'h' || done[i].bytes == 1 << 20);
    out[num++] = done[i];
  }
  TRIAL(num == 5);
}

/* arg: which way. While the one kind of halves is held up, the other fills two buffers; and no buffer is
 * filled again before it is empty. */
static void trial_overlap(void *arg) {
  const bool is_out = arg != NULL;
  const WEFT_QueueKind kind = is_out ? WEFT_QUEUE_COPIES_OUT : WEFT_QUEUE_COPIES_IN;
  enum { BYTES = 5 << 20 };
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  uint64_t after;
  char *host = weft_calloc(1, BYTES), *x = type->allocate(b.device, BYTES, &after);
  const char fills = is_out ? 'c' : 'h', empties = is_out ? 'h' : 'c';
  weft_rig_hold(is_out ? WEFT_FAKE_HOLD_HOST : WEFT_FAKE_HOLD_COPIES);
  TRIAL_OK(type->copy(b.queues[kind], is_out ? b.device : NULL, is_out ? x : host, is_out ? NULL : b.device,
                      is_out ? host : x, BYTES)); /* returns, though nothing can be done */
  const uint64_t copied = weft_rig_mark(&b, kind);
  weft_rig_settle();
  static weft_fake_cuda_done_t done[64];
  TRIAL(weft_rig_trace(done, 64) == 2 && done[0].kind == fills && done[1].kind == fills);
  TRIAL(!type->has_passed(b.queues[kind], copied));
  weft_rig_hold(0);
  TRIAL_OK(weft_rig_await(&b, kind, copied));
  weft_fake_cuda_done_t filled[5], emptied[5];
  const int n = weft_rig_trace(done, 64);
  halves(done, n, fills, filled);
  halves(done, n, empties, emptied);
  TRIAL(filled[0].stream != emptied[0].stream);
  TRIAL(filled[1].end < emptied[0].begin); /* the second buffer was filled before the first was emptied */
  for (int i = 0; i < 5; i++) {
    TRIAL(filled[i].end < emptied[i].begin);
    TRIAL(i < 2 || emptied[i - 2].end < filled[i].begin);
  }
  type->deallocate(b.device, x, BYTES, 0);
  weft_free(host);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void the_halves_of_a_pageable_copy_overlap(void) {
  static char out;
  const char *wrong = weft_trial(trial_overlap, NULL, "late_us=20", NULL);
  if (wrong == NULL) wrong = weft_trial(trial_overlap, &out, "late_us=20", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

static void trial_peers(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t a, b;
  TRIAL_OK(weft_rig_open(&a, NULL, 0));
  TRIAL_OK(weft_rig_open(&b, NULL, 1));
  const int expected = strstr(getenv("WEFT_FAKE_CUDA"), "peers=0") == NULL;
  TRIAL(type->reaches(a.device, b.device) == expected && type->reaches(a.device, b.device) == expected);
  uint64_t after;
  int out[256] = {0};
  void *x = type->allocate(a.device, sizeof out, &after), *y = type->allocate(b.device, sizeof out, &after);
  WEFT_KernelContext c = {a.device, "fill"};
  TRIAL_OK(weft_cuda_fill(&c, x, 0, sizeof out));
  TRIAL_OK(weft_rig_add(&a, "sum", x, 256, 42));
  type->wait(b.queues[WEFT_QUEUE_COPIES_IN], a.queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(&a, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_IN], a.device, x, b.device, y, sizeof out));
  type->wait(b.queues[WEFT_QUEUE_COPIES_OUT], b.queues[WEFT_QUEUE_COPIES_IN],
             weft_rig_mark(&b, WEFT_QUEUE_COPIES_IN));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_OUT], b.device, y, NULL, out, sizeof out));
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(&b, WEFT_QUEUE_COPIES_OUT)));
  for (int i = 0; i < 256; i++) TRIAL(out[i] == 42);
  TRIAL(weft_rig_calls("cuMemcpyPeerAsync") == 1);
  type->deallocate(a.device, x, sizeof out, 0);
  type->deallocate(b.device, y, sizeof out, 0);
  weft_rig_close(&a);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void devices_copy_from_each_other(void) {
  RUNS(trial_peers, "devices=2,late_us=300");
  RUNS(trial_peers, "devices=2,late_us=300,peers=0");
}

static void trial_constants(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  WEFT_KernelContext c = {b.device, "constants"};
  TRIAL(weft_cuda_num_processors(&c) == 4);
  uint64_t after;
  int out[512];
  char *x = type->allocate(b.device, sizeof out, &after);
  for (int i = 0; i < 512; i++) { /* many, without a fence between: buffers go back meanwhile */
    int few = i;
    TRIAL_OK(weft_cuda_copy(&c, x + i * 4, &few, sizeof few));
    few = -1;
    if (i % 16 == 0) weft_rig_mark(&b, WEFT_QUEUE_COMPUTE);
  }
  TRIAL_OK(weft_cuda_copy(&c, x, x + 1024, 1024)); /* within the device */
  TRIAL_OK(weft_cuda_copy(&c, x, NULL, 0));
  TRIAL_OK(weft_cuda_fill(&c, NULL, 1, 0));
  type->wait(b.queues[WEFT_QUEUE_COPIES_OUT], b.queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(&b, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(type->copy(b.queues[WEFT_QUEUE_COPIES_OUT], b.device, x, NULL, out, sizeof out));
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(&b, WEFT_QUEUE_COPIES_OUT)));
  for (int i = 0; i < 512; i++) TRIAL(out[i] == (i < 256 ? i + 256 : i));
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void few_bytes_of_the_host_are_copied_at_once(void) { RUNS(trial_constants, "late_us=20"); }

/* ---- failures ---- */

static void trial_illegal(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  uint64_t after;
  void *x = type->allocate(b.device, 4096, &after);
  TRIAL_OK(weft_rig_add(&b, "early", x, 16, 1));
  const uint64_t good = weft_rig_mark(&b, WEFT_QUEUE_COMPUTE);
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COMPUTE, good));
  weft_rig_hold(1);
  TRIAL_OK(weft_rig_add(&b, "model/dense/AddV2", x, 16, 1));
  TRIAL_OK(weft_rig_fault(&b, "model/dense/Relu"));
  const uint64_t bad = weft_rig_mark(&b, WEFT_QUEUE_COMPUTE);
  TRIAL(!type->has_passed(b.queues[WEFT_QUEUE_COMPUTE], bad));
  type->wait(b.queues[WEFT_QUEUE_COPIES_OUT], b.queues[WEFT_QUEUE_COMPUTE], bad);
  weft_rig_hold(0);
  TRIAL_FAILURE(
      weft_rig_await(&b, WEFT_QUEUE_COMPUTE, bad), WEFT_INTERNAL,
      "kernels since the last one that is known to be done: 'model/dense/AddV2', 'model/dense/Relu': "
      "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered");
  /* For good, and for what waits for it; what has passed has passed. */
  TRIAL(!type->has_passed(b.queues[WEFT_QUEUE_COMPUTE], bad));
  TRIAL(type->has_passed(b.queues[WEFT_QUEUE_COMPUTE], good));
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COMPUTE, good));
  TRIAL_FAILURE(weft_rig_await(&b, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(&b, WEFT_QUEUE_COPIES_OUT)),
                WEFT_INTERNAL, "model/dense/Relu");
  TRIAL_FAILURE(weft_rig_add(&b, "later", x, 16, 1), WEFT_INTERNAL, "model/dense/Relu");
  weft_rig_close(&b);
  const weft_fake_cuda_live_t l = weft_rig_live();
  TRIAL(l.contexts + l.streams + l.events + l.modules + l.allocations + l.pinned == 0);
}

static void a_kernel_that_fails_names_the_nodes(void) { RUNS(trial_illegal, ""); }

/* Names of one letter each, of different lengths. */
static void *launch_many(void *arg) {
  weft_rig_t *b = arg;
  static atomic_int num;
  const int letter = atomic_fetch_add(&num, 1);
  char name[128];
  for (int i = 0; i < 300; i++) {
    const int length = 1 + (i * 7 + letter * 13) % 120;
    memset(name, 'a' + letter, (size_t)length);
    name[length] = '\0';
    TRIAL_OK(weft_rig_add(b, name, NULL, 0, 0));
  }
  return NULL;
}

static void trial_notes(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  pthread_t threads[4];
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  weft_rig_hold(WEFT_FAKE_HOLD_ALL);
  for (int i = 0; i < 4; i++) TRIAL(pthread_create(&threads[i], NULL, launch_many, &b) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  TRIAL_OK(weft_rig_fault(&b, "zzz"));
  weft_rig_hold(0);
  WEFT_Failure *f = weft_rig_await(&b, WEFT_QUEUE_COMPUTE, weft_rig_mark(&b, WEFT_QUEUE_COMPUTE));
  TRIAL(f != NULL);
  const char *at = strchr(weft_test_host.failure_message(f), '\'');
  int num = 0;
  for (; at != NULL && at[1] >= 'a' && at[1] <= 'z'; num++) {
    const size_t length = strspn(at + 1, (char[]){at[1], '\0'});
    TRIAL_SAYS(length <= 95 && (at[1 + length] == '\'' || at[1 + length] == ':'), at);
    at = strstr(at + 1 + length, ", '");
    at = at == NULL ? NULL : at + 2;
  }
  TRIAL(num > 2);
  weft_test_host.failure_free(f);
  weft_rig_close(&b);
}

static void names_of_nodes_on_many_threads_stay_whole(void) { RUNS(trial_notes, ""); }

static void trial_lost(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t a, b, c;
  TRIAL_OK(weft_rig_open(&a, NULL, 0));
  TRIAL_OK(weft_rig_open(&b, NULL, 1));
  TRIAL_OK(weft_rig_open(&c, NULL, 2));
  uint64_t after;
  void *x = type->allocate(a.device, 4096, &after), *y = type->allocate(c.device, 4096, &after);
  weft_rig_hold(1);
  TRIAL_OK(weft_rig_add(&a, "sum", x, 16, 1));
  const uint64_t bad = weft_rig_mark(&a, WEFT_QUEUE_COMPUTE);
  type->wait(b.queues[WEFT_QUEUE_COMPUTE], a.queues[WEFT_QUEUE_COMPUTE], bad);
  weft_rig_break(0, CUDA_ERROR_UNKNOWN);
  weft_rig_hold(0);
  TRIAL_FAILURE(weft_rig_await(&a, WEFT_QUEUE_COMPUTE, bad), WEFT_UNAVAILABLE, "Xid");
  TRIAL_FAILURE(weft_rig_await(&b, WEFT_QUEUE_COMPUTE, weft_rig_mark(&b, WEFT_QUEUE_COMPUTE)),
                WEFT_UNAVAILABLE, "GPU:0 (compute)"); /* it waited for the lost one */
  TRIAL_OK(weft_rig_add(&c, "sum", y, 16, 1));
  TRIAL_OK(weft_rig_await(&c, WEFT_QUEUE_COMPUTE, weft_rig_mark(&c, WEFT_QUEUE_COMPUTE)));
  TRIAL(type->allocate(a.device, 4096, &after) != NULL); /* of the region that is there; no work can use it */
  weft_rig_close(&a);
  weft_rig_close(&b);
  weft_rig_close(&c);
  const weft_fake_cuda_live_t l = weft_rig_live();
  TRIAL(l.contexts + l.streams + l.events + l.modules + l.allocations + l.pinned == 0);
}

static void a_lost_device_is_unavailable_and_others_go_on(void) { RUNS(trial_lost, "devices=3"); }

/* The stream of a queue that waits for a lost one goes on. Its fence does not pass, also where nothing has
 * asked the lost one: that of c waits for it by way of b. */
static void trial_worthless(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t a, b, c;
  TRIAL_OK(weft_rig_open(&a, NULL, 0));
  TRIAL_OK(weft_rig_open(&b, NULL, 1));
  TRIAL_OK(weft_rig_open(&c, NULL, 2));
  uint64_t after;
  void *x = type->allocate(a.device, 4096, &after), *y = type->allocate(c.device, 4096, &after);
  weft_rig_hold(WEFT_FAKE_HOLD_ALL);
  TRIAL_OK(weft_rig_add(&a, "sum", x, 16, 1));
  type->wait(b.queues[WEFT_QUEUE_COMPUTE], a.queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(&a, WEFT_QUEUE_COMPUTE));
  type->wait(c.queues[WEFT_QUEUE_COMPUTE], b.queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(&b, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(weft_rig_add(&c, "copy", y, 16, 1));
  const uint64_t bad = weft_rig_mark(&c, WEFT_QUEUE_COMPUTE);
  TRIAL(type->has_passed(c.queues[WEFT_QUEUE_COMPUTE], bad) == 0);
  weft_rig_break(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  weft_rig_hold(0);
  weft_rig_settle();
  TRIAL(type->has_passed(c.queues[WEFT_QUEUE_COMPUTE], bad) == 0);
  TRIAL_FAILURE(weft_rig_await(&c, WEFT_QUEUE_COMPUTE, bad), WEFT_INTERNAL, "GPU:0 (compute)");
  weft_rig_close(&a);
  weft_rig_close(&b);
  weft_rig_close(&c);
}

static void what_waited_for_a_lost_device_does_not_pass(void) { RUNS(trial_worthless, "devices=3"); }

static void note_failure(WEFT_FenceWaiter *w, WEFT_Failure *f) {
  (void)w;
  TRIAL_FAILURE(f, WEFT_ABORTED, "given up");
}

/* A queue is poisoned while its thread sleeps for an event, and the event is done later. */
static void trial_poisoned(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t a;
  TRIAL_OK(weft_rig_open(&a, NULL, 0));
  uint64_t after;
  void *x = type->allocate(a.device, 4096, &after);
  weft_rig_hold(WEFT_FAKE_HOLD_ALL);
  TRIAL_OK(weft_rig_add(&a, "sum", x, 16, 1));
  const uint64_t value = weft_rig_mark(&a, WEFT_QUEUE_COMPUTE);
  WEFT_FenceWaiter w = {.value = value, .fn = note_failure};
  type->when(a.queues[WEFT_QUEUE_COMPUTE], &w);
  while (weft_rig_calls("cuEventSynchronize") == 0) sched_yield();
  weft_cuda_queue_poison(a.queues[WEFT_QUEUE_COMPUTE], weft_cuda_host->failure(WEFT_ABORTED, "given up"));
  weft_rig_hold(0);
  weft_rig_settle();
  for (int i = 0; i < 1000; i++) { /* the thread wakes up meanwhile */
    sched_yield();
    TRIAL(weft_cuda_queue_passed(a.queues[WEFT_QUEUE_COMPUTE]) < value);
  }
  weft_rig_close(&a);
}

static void a_fence_of_a_poisoned_queue_never_passes(void) { RUNS(trial_poisoned, ""); }

static void trial_exhausted(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  uint64_t after;
  void *x = type->allocate(b.device, 10 << 20, &after);
  TRIAL(x != NULL);
  TRIAL(type->allocate(b.device, (size_t)1 << 30, &after) == NULL);
  const char *log = weft_test_host_logged();
  TRIAL_SAYS(
      strstr(
          log,
          "1 Allocator (GPU_0_bfc) ran out of memory trying to allocate 1073741824 bytes: limit 300941312, "
          "reserved 300941312, in use 10485760 in 1 blocks, peak 10485760, largest free block 290455552") !=
          NULL,
      log);
  type->deallocate(b.device, x, 10 << 20, 0);
  weft_rig_close(&b);
  weft_rig_is_clean();
}

static void used_up_memory_says_what_is_in_use(void) { RUNS(trial_exhausted, "memory=512m"); }

static void trial_launch(void *arg) {
  (void)arg;
  weft_rig_library();
  weft_rig_t b;
  TRIAL_OK(weft_rig_open(&b, NULL, 0));
  static weft_cuda_function_t none = WEFT_CUDA_FUNCTION("weft_no_such_kernel"),
                              add = WEFT_CUDA_FUNCTION("weft_fake_add");
  WEFT_KernelContext c = {b.device, "node"};
  uint64_t after;
  void *x = type->allocate(b.device, 4096, &after);
  int64_t n = 16;
  int v = 1;
  void *args[] = {&x, &n, &v};
  TRIAL_FAILURE(weft_cuda_launch(&c, &none, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 0}, args),
                WEFT_NOT_FOUND, "no kernel weft_no_such_kernel");
  TRIAL_FAILURE(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {2048, 1, 1}, 0}, args),
                WEFT_INTERNAL, "weft_fake_add on GPU:0 (compute): CUDA_ERROR_INVALID_VALUE");
  TRIAL_OK(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 100 << 10}, args));
  TRIAL_FAILURE(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 300 << 10}, args),
                WEFT_INTERNAL, "CUDA_ERROR_INVALID_VALUE");
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COMPUTE, weft_rig_mark(&b, WEFT_QUEUE_COMPUTE))); /* not poisoned */
  const long looked_up = weft_rig_calls("cuModuleGetFunction"), events = weft_rig_live().events;
  for (int i = 0; i < 100; i++) {
    TRIAL_OK(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 0}, args));
    weft_rig_mark(&b, WEFT_QUEUE_COMPUTE);
  }
  TRIAL(weft_rig_calls("cuModuleGetFunction") == looked_up &&
        weft_rig_live().events == events); /* no fence was asked for */
  weft_rig_close(&b);
  TRIAL_OK(weft_rig_open(&b, NULL, 0)); /* the function is looked up anew, and works */
  c.device = b.device;
  args[0] = &x;
  x = type->allocate(b.device, 4096, &after);
  TRIAL_OK(weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 0}, args));
  TRIAL_OK(weft_rig_await(&b, WEFT_QUEUE_COMPUTE, weft_rig_mark(&b, WEFT_QUEUE_COMPUTE)));
  weft_rig_close(&b);
  const weft_fake_cuda_live_t l = weft_rig_live();
  TRIAL(l.contexts + l.streams + l.events + l.modules + l.allocations + l.pinned == 0);
}

static void launches_are_checked_and_record_nothing(void) { RUNS(trial_launch, ""); }

static const CU_TestInfo tests[] = {
    {"devices are described as TensorFlow does", devices_are_described_as_tensorflow_does},
    {"a driver that cannot be used says why", a_driver_that_cannot_be_used_says_why},
    {"old cards are ignored", old_cards_are_ignored},
    {"options are checked in TensorFlow's words", options_are_checked_in_tensorflows_words},
    {"logical devices share a context", logical_devices_share_a_context},
    {"bytes come back from pageable and pinned memory", bytes_come_back_from_pageable_and_pinned_memory},
    {"the halves of a pageable copy overlap", the_halves_of_a_pageable_copy_overlap},
    {"devices copy from each other", devices_copy_from_each_other},
    {"few bytes of the host are copied at once", few_bytes_of_the_host_are_copied_at_once},
    {"a kernel that fails names the nodes", a_kernel_that_fails_names_the_nodes},
    {"names of nodes on many threads stay whole", names_of_nodes_on_many_threads_stay_whole},
    {"a lost device is unavailable and others go on", a_lost_device_is_unavailable_and_others_go_on},
    {"what waited for a lost device does not pass", what_waited_for_a_lost_device_does_not_pass},
    {"a fence of a poisoned queue never passes", a_fence_of_a_poisoned_queue_never_passes},
    {"used up memory says what is in use", used_up_memory_says_what_is_in_use},
    {"launches are checked and record nothing", launches_are_checked_and_record_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("CUDA device", tests); }
