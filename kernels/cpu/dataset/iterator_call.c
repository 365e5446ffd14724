/* kernels/cpu/dataset/iterator_call.c - iterators call functions: on their own threads, as far as that goes;
 * one that waits for the result, or many at once. */
#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/cpu/dataset/traversal.h"

/* A call under way. Its arguments are retained. */
typedef struct fn_call {
  void (*done)(void *arg, weft_status_t *status, weft_tensor_t **results);
  void *arg;
  int num_args;
  weft_tensor_t *args[];
} fn_call_t;

static void ended(void *arg, weft_status_t *status, weft_tensor_t **results) {
  fn_call_t *c = arg;
  weft_element_release(c->args, c->num_args);
  c->done(c->arg, status, results);
  weft_free(c);
}

/* One of its data set's functions, or another's that the pass is made for. */
static weft_status_t *callee_of(weft_iterator_t *it, const weft_dataset_fn_t *fn, weft_callee_t **out) {
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && it->of->fns[i] != NULL; i++) {
    if (it->of->fns[i] != fn) continue;
    *out = it->place->callees[i];
    return NULL;
  }
  return weft_traversal_callee(it->traversal, fn->callee, out);
}

static void start(weft_iterator_t *it, const weft_dataset_fn_t *fn, weft_tensor_t *const *args, int num_args,
                  int num_results, void (*done)(void *arg, weft_status_t *status, weft_tensor_t **results),
                  void *arg) {
  const int n = num_args + fn->num_captured;
  weft_callee_t *callee = NULL;
  weft_status_t *s = callee_of(it, fn, &callee);
  fn_call_t *c = s == NULL ? weft_malloc(sizeof *c + (size_t)n * sizeof(weft_tensor_t *)) : NULL;
  if (c == NULL) {
    done(arg, s != NULL ? s : WEFT_NO_MEMORY("calling a data set's function"), NULL);
    return;
  }
  *c = (fn_call_t){.done = done, .arg = arg, .num_args = n};
  for (int i = 0; i < n; i++)
    c->args[i] = weft_tensor_retain(i < num_args ? args[i] : fn->captured[i - num_args]);
  const weft_function_call_t call = {.args = c->args,
                                     .num_args = n,
                                     .num_results = num_results,
                                     .canceller = it->canceller,
                                     .runs_here = true,
                                     .done = ended,
                                     .arg = c};
  weft_callee_run(callee, &call);
}

void weft_iterator_call_async(weft_iterator_t *it, const weft_dataset_fn_t *fn, weft_tensor_t *const *args,
                              int num_args, int num_results,
                              void (*done)(void *arg, weft_status_t *status, weft_tensor_t **results),
                              void *arg) {
  start(it, fn, args, num_args, num_results, done, arg);
}

/* ---- with a thread that waits ---- */

typedef struct waiter {
  weft_mutex_t mu;
  weft_cond_t has_ended;
  bool is_done; /* guarded by mu, as what follows */
  weft_status_t *status;
  weft_tensor_t **results;
  int num_results;
} waiter_t;

static void wake(void *arg, weft_status_t *status, weft_tensor_t **results) {
  waiter_t *w = arg;
  weft_mutex_lock(&w->mu);
  w->status = status;
  for (int i = 0; status == NULL && i < w->num_results; i++) {
    w->results[i] = results[i];
    results[i] = NULL;
  }
  w->is_done = true;
  weft_cond_signal(&w->has_ended);
  weft_mutex_unlock(&w->mu);
}

weft_status_t *weft_iterator_call(weft_iterator_t *it, const weft_dataset_fn_t *fn,
                                  weft_tensor_t *const *args, int num_args, weft_tensor_t **results,
                                  int num_results) {
  waiter_t w = {.results = results, .num_results = num_results};
  weft_mutex_init(&w.mu);
  weft_cond_init(&w.has_ended);
  start(it, fn, args, num_args, num_results, wake, &w);
  weft_mutex_lock(&w.mu);
  while (!w.is_done) weft_cond_wait(&w.has_ended, &w.mu);
  weft_mutex_unlock(&w.mu);
  weft_cond_deinit(&w.has_ended);
  weft_mutex_deinit(&w.mu);
  return w.status;
}

weft_status_t *weft_iterator_ask(weft_iterator_t *it, const weft_dataset_fn_t *fn, weft_tensor_t *const *args,
                                 int num_args, const char *what, bool *out) {
  weft_tensor_t *answer = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, fn, args, num_args, &answer, 1));
  weft_status_t *s = NULL;
  if (answer->dtype != WEFT_BOOL || answer->count != 1)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s must return a scalar bool.", what);
  if (s == NULL) *out = *(const bool *)answer->data;
  weft_tensor_release(answer);
  return s;
}
