/* benchmarks/ops/steps.c - steps one after the other through TensorFlow's C API, timed, the caller in C.
 *
 * session.py loads this beside the library that it measures, whose functions it hands over: nothing is
 * linked. A call by ctypes costs some 3 µs, more than a small step.
 */
#include <stdint.h>
#include <time.h>

#include "include/tensorflow/c/c_api.h"

typedef struct step_call {
  void (*run)(TF_Session *, const TF_Buffer *run_options, const TF_Output *feeds, TF_Tensor *const *values,
              int num_feeds, const TF_Output *fetches, TF_Tensor **fetched, int num_fetches,
              const TF_Operation *const *targets, int num_targets, TF_Buffer *run_metadata, TF_Status *);
  void (*delete_tensor)(TF_Tensor *);
  TF_Code (*code)(const TF_Status *);
  TF_Session *session;
  const TF_Output *feeds;
  TF_Tensor *const *values;
  const TF_Output *fetch; /* NULL: nothing is fetched */
  const TF_Operation *const *targets;
  TF_Status *status;
  int num_feeds, num_targets;
} step_call_t;

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Steps of `c` for `seconds`, at least one: how many, or -1 if one failed, as its status says. *wall_s: what
 * they took. On the calling thread. */
extern int64_t run_steps(const step_call_t *c, double seconds, double *wall_s);
__attribute__((visibility("default"))) int64_t run_steps(const step_call_t *c, double seconds,
                                                         double *wall_s) {
  const double began = seconds_now();
  int64_t n = 0;
  do {
    TF_Tensor *fetched = NULL;
    c->run(c->session, NULL, c->feeds, c->values, c->num_feeds, c->fetch, &fetched, c->fetch == NULL ? 0 : 1,
           c->targets, c->num_targets, NULL, c->status);
    if (c->code(c->status) != TF_OK) return -1;
    if (fetched != NULL) c->delete_tensor(fetched);
    n++;
    *wall_s = seconds_now() - began;
  } while (*wall_s < seconds);
  return n;
}
