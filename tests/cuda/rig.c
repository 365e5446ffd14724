/* tests/cuda/rig.c - trials in child processes, and the small steps that they are made of. */
#include "tests/cuda/rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutex.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"

static const char FAKE[] = "tests/cuda/fake/libcuda_fake.so";
static int report = -1; /* a trial's pipe to its parent */

/* ---- trials ---- */

void weft_trial_fails(const char *file, int line, const char *claim, const char *text) {
  char message[2048];
  const int length = snprintf(message, sizeof message, "%s:%d: %s %.1500s", file, line, claim, text);
  (void)!write(report, message, length < (int)sizeof message ? (size_t)length : sizeof message - 1);
  _exit(1);
}

void weft_trial_ok(WEFT_Failure *f, const char *file, int line) {
  if (f != NULL) weft_trial_fails(file, line, "a failure:", weft_test_host.failure_message(f));
}

void weft_trial_failure(WEFT_Failure *f, int code, const char *text, const char *file, int line) {
  if (f == NULL) {
    weft_trial_fails(file, line, "no failure, but there should be:", text);
    return;
  }
  if (weft_test_host.failure_code(f) != code || strstr(weft_test_host.failure_message(f), text) == NULL) {
    weft_trial_fails(file, line, text, weft_test_host.failure_message(f));
  }
  weft_test_host.failure_free(f);
}

const char *weft_trial(void (*fn)(void *arg), void *arg, const char *options, const char *driver) {
  static char message[2048];
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) return "no process";
  if (child == 0) {
    close(ends[0]);
    report = ends[1];
    setenv("WEFT_FAKE_CUDA", options, 1);
    setenv("WEFT_CUDA_DRIVER", driver == NULL ? FAKE : driver, 1);
    alarm(WEFT_TRIAL_SECONDS);
    fn(arg);
    exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; length + 1 < sizeof message &&
                  (n = read(ends[0], message + length, sizeof message - 1 - length)) > 0;) {
    length += (size_t)n;
  }
  message[length] = '\0';
  close(ends[0]);
  int how = 0;
  waitpid(child, &how, 0);
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0 && length == 0) return NULL;
  if (length == 0) snprintf(message, sizeof message, "the trial ended with status %#x", (unsigned)how);
  return message;
}

/* ---- the fake ---- */

/* A function of the library that the device has opened. */
static void *function(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen(FAKE, RTLD_NOW | RTLD_LOCAL);
  void *found = library == NULL ? NULL : dlsym(library, name);
  TRIAL(found != NULL);
  return found;
}

weft_fake_cuda_live_t weft_rig_live(void) {
  weft_fake_cuda_live_t live;
  weft_fake_cuda_live_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_LIVE);
  fn(&live);
  return live;
}

void weft_rig_hold(int kinds) {
  weft_fake_cuda_hold_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_HOLD);
  fn(kinds);
}

int weft_rig_trace(weft_fake_cuda_done_t *out, int max) {
  weft_fake_cuda_trace_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_TRACE);
  return fn(out, max);
}

void weft_rig_settle(void) {
  weft_fake_cuda_settle_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_SETTLE);
  fn();
}

void weft_rig_break(int device, int result) {
  weft_fake_cuda_break_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_BREAK);
  fn(device, result);
}

long weft_rig_calls(const char *name) {
  weft_fake_cuda_calls_fn *fn;
  *(void **)&fn = function(WEFT_FAKE_CUDA_CALLS);
  return fn(name);
}

void weft_rig_is_clean(void) {
  const weft_fake_cuda_live_t l = weft_rig_live();
  char text[512];
  snprintf(
      text, sizeof text,
      "contexts %d modules %d streams %d events %d allocations %d pinned %d graphs %d imports %d faults %ld: "
      "%s",
      l.contexts, l.modules, l.streams, l.events, l.allocations, l.pinned, l.graphs, l.imports, l.faults,
      l.fault);
  TRIAL_SAYS(
      l.contexts + l.modules + l.streams + l.events + l.allocations + l.pinned + l.graphs + l.imports == 0 &&
          l.faults == 0,
      text);
}

/* ---- devices ---- */

void weft_rig_library(void) {
  static const WEFT_DeviceKernel none[] = {{0}};
  static const WEFT_DeviceKernel *const tables[] = {none, NULL};
  static const unsigned char image[8] = {0}; /* not looked into */
  static const weft_cuda_fatbin_t fatbins[] = {{"first", image}, {"second", image}, {NULL, NULL}};
  static const WEFT_DeviceLibrary *library; /* found by the leak checker */
  WEFT_Failure *f = NULL;
  library = weft_cuda_library_open(&weft_test_host, tables, fatbins, NULL, &f);
  TRIAL_OK(f);
  TRIAL(library != NULL && library->device == &weft_cuda_device_type);
}

WEFT_Failure *weft_rig_open(weft_rig_t *b, const WEFT_DeviceOptions *o, int ordinal) {
  void *device = NULL;
  *b = (weft_rig_t){0};
  WEFT_Failure *f = weft_cuda_device_type.open(o, ordinal, &device);
  b->device = device;
  for (int k = 0; k < 3 && f == NULL; k++) {
    f = weft_cuda_device_type.queue(device, (WEFT_QueueKind)k, &b->marks[k], &b->queues[k]);
  }
  if (f != NULL) weft_rig_close(b);
  return f;
}

void weft_rig_close(weft_rig_t *b) {
  if (b->device != NULL) weft_cuda_device_type.close(b->device);
  b->device = NULL;
}

uint64_t weft_rig_mark(weft_rig_t *b, WEFT_QueueKind kind) {
  return __atomic_add_fetch(&b->marks[kind], 1, __ATOMIC_ACQ_REL);
}

typedef struct rig_waiter {
  WEFT_FenceWaiter w; /* first */
  weft_mutex_t mu;
  weft_cond_t changed;
  bool done;
  WEFT_Failure *failure;
} rig_waiter_t;

static void passed(WEFT_FenceWaiter *w, WEFT_Failure *failure) {
  rig_waiter_t *b = (rig_waiter_t *)(void *)w;
  weft_mutex_lock(&b->mu);
  b->failure = failure;
  b->done = true;
  weft_cond_signal(&b->changed);
  weft_mutex_unlock(&b->mu);
}

WEFT_Failure *weft_rig_await(weft_rig_t *b, WEFT_QueueKind kind, uint64_t value) {
  rig_waiter_t w = {.w = {.value = value, .fn = passed}};
  weft_mutex_init(&w.mu);
  weft_cond_init(&w.changed);
  weft_cuda_device_type.when(b->queues[kind], &w.w);
  weft_mutex_lock(&w.mu);
  while (!w.done) weft_cond_wait(&w.changed, &w.mu);
  weft_mutex_unlock(&w.mu);
  weft_cond_deinit(&w.changed);
  weft_mutex_deinit(&w.mu);
  return w.failure;
}

WEFT_Failure *weft_rig_add(weft_rig_t *b, const char *node, void *x, int64_t n, int v) {
  static weft_cuda_function_t add = WEFT_CUDA_FUNCTION("weft_fake_add");
  WEFT_KernelContext c = {b->device, node};
  return weft_cuda_launch(&c, &add, &(weft_cuda_geometry_t){{1, 1, 1}, {32, 1, 1}, 0},
                          (void *[]){&x, &n, &v});
}

WEFT_Failure *weft_rig_fault(weft_rig_t *b, const char *node) {
  static weft_cuda_function_t fault = WEFT_CUDA_FUNCTION("weft_fake_fault");
  WEFT_KernelContext c = {b->device, node};
  void *x = NULL;
  return weft_cuda_launch(&c, &fault, &(weft_cuda_geometry_t){{1, 1, 1}, {1, 1, 1}, 0}, (void *[]){&x});
}
