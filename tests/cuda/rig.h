/* tests/cuda/rig.h - devices of the CUDA library on the fake driver, each trial in a process of its own.
 *
 * A driver is opened once in a process, and what it does is said by a variable before that. So a trial is a
 * function in a child process: a check that fails ends it, and its text becomes the parent's.
 */
#ifndef WEFT_TESTS_CUDA_RIG_H_
#define WEFT_TESTS_CUDA_RIG_H_

#include <stdbool.h>

#include "device/cuda/device.h"
#include "tests/cuda/fake/fake.h"
#include "tests/cuda/host.h"

/* A trial, or a process that it begins, that lasts longer has gone wrong. Most take a second; a sanitizer on
 * a machine that is busy with other work takes a minute. */
enum { WEFT_TRIAL_SECONDS = 300 };

/* Runs fn(arg) with WEFT_FAKE_CUDA = options and WEFT_CUDA_DRIVER = driver (NULL: the fake). Returns what
 * went wrong, valid until the next trial; NULL: nothing. */
const char *weft_trial(void (*fn)(void *arg), void *arg, const char *options, const char *driver);

/* In a trial: ends it if the claim is false. */
#define TRIAL(claim) ((claim) ? (void)0 : weft_trial_fails(__FILE__, __LINE__, #claim, ""))
#define TRIAL_SAYS(claim, text) ((claim) ? (void)0 : weft_trial_fails(__FILE__, __LINE__, #claim, text))
void weft_trial_fails(const char *file, int line, const char *claim, const char *text);
/* Frees `f`; the trial fails if it is one. */
#define TRIAL_OK(f) weft_trial_ok(f, __FILE__, __LINE__)
void weft_trial_ok(WEFT_Failure *f, const char *file, int line);
/* `f` has that code and that text in it; frees it. */
#define TRIAL_FAILURE(f, code, text) weft_trial_failure(f, code, text, __FILE__, __LINE__)
void weft_trial_failure(WEFT_Failure *f, int code, const char *text, const char *file, int line);

/* Runs a trial as a test: what it says is printed. */
#define RUNS(fn, options) RUNS_ON(fn, options, NULL)
#define RUNS_ON(fn, options, driver)                           \
  do {                                                         \
    const char *wrong = weft_trial(fn, NULL, options, driver); \
    if (wrong != NULL) fprintf(stderr, "%s\n", wrong);         \
    CU_ASSERT_PTR_NULL(wrong);                                 \
  } while (0)

/* A device with its three queues and their marks. */
typedef struct weft_rig {
  weft_cuda_device_t *device;
  void *queues[3];
  volatile uint64_t marks[3];
} weft_rig_t;

void weft_rig_library(void); /* opens it, before anything else */
WEFT_Failure *weft_rig_open(weft_rig_t *b, const WEFT_DeviceOptions *o, int ordinal);
void weft_rig_close(weft_rig_t *b);
uint64_t weft_rig_mark(weft_rig_t *b, WEFT_QueueKind kind);
/* Waits on the host for a fence. */
WEFT_Failure *weft_rig_await(weft_rig_t *b, WEFT_QueueKind kind, uint64_t value);
/* x[0..n) += v on the compute queue, as node `node`. */
WEFT_Failure *weft_rig_add(weft_rig_t *b, const char *node, void *x, int64_t n, int v);
WEFT_Failure *weft_rig_fault(weft_rig_t *b, const char *node);

/* The fake's. */
weft_fake_cuda_live_t weft_rig_live(void);
void weft_rig_hold(int kinds);
int weft_rig_trace(weft_fake_cuda_done_t *out, int max);
void weft_rig_settle(void);
void weft_rig_break(int device, int result);
long weft_rig_calls(const char *function);
/* The trial fails if anything is left, or if a device would have been harmed. */
void weft_rig_is_clean(void);

#endif /* WEFT_TESTS_CUDA_RIG_H_ */
