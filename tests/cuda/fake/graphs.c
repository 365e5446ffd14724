/* tests/cuda/fake/graphs.c - captures of streams, and graphs.
 *
 * A stream that captures keeps what it gets in a list; a graph is such a list, and a launch gives the stream
 * a copy of it. What CUDA forbids meanwhile spoils the capture, and its end says so.
 *
 * Source: CUDA C++ Programming Guide, "Prohibited and Unhandled Operations"; the notes of the functions in
 * cuda.h.
 */
#include <stdlib.h>

#include "tests/cuda/fake/machine.h"

struct CUgraph_st {
  fake_work_t *first;
};

struct CUgraphExec_st {
  CUcontext context;
  fake_work_t *first;
};

static void free_work(fake_work_t *w) {
  for (fake_work_t *next; w != NULL; w = next) {
    next = w->next;
    free(w->closure);
    free(w);
  }
}

/* NULL: no memory. */
static fake_work_t *copy_work(const fake_work_t *w) {
  fake_work_t *copy = malloc(sizeof *copy);
  if (copy == NULL) return NULL;
  *copy = *w;
  copy->next = NULL;
  if (w->kind != FAKE_KERNEL) return copy;
  copy->closure = w->kernel->copy(w->closure);
  if (copy->closure != NULL) return copy;
  free(copy);
  return NULL;
}

/* Appends copies of a list to *out; false: no memory. */
static bool copy_all(const fake_work_t *w, fake_work_t **out) {
  while (*out != NULL) out = &(*out)->next;
  for (; w != NULL; w = w->next) {
    *out = copy_work(w);
    if (*out == NULL) return false;
    out = &(*out)->next;
  }
  return true;
}

/* ---- for the other functions ---- */

CUresult fake_capture_spoil(CUstream s, CUresult r) {
  s->capture = FAKE_SPOILT;
  return r;
}

CUresult fake_capture_unsafe(void) {
  for (CUstream s = fake.streams; s != NULL; s = s->next) {
    if (s->capture != FAKE_NO_CAPTURE && pthread_equal(s->captor, pthread_self()))
      return fake_capture_spoil(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

CUresult fake_capture_add(CUstream s, const fake_work_t *w) {
  if (s->capture == FAKE_SPOILT) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (w->kind == FAKE_RECORD) { /* only for streams that join the capture, which no caller of ours has */
    w->event->captured = s;
    fake_event_release(w->event);
    return CUDA_SUCCESS;
  }
  if (w->kind == FAKE_WAIT) {
    const bool is_ours = w->event->captured == s;
    fake_event_release(w->event);
    return is_ours ? CUDA_SUCCESS : fake_capture_spoil(s, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (w->kind == FAKE_KERNEL && w->kernel->copy == NULL) {
    fake_fault("%s cannot be captured by the fake driver", w->kernel->name);
    free(w->closure);
    return fake_capture_spoil(s, CUDA_ERROR_NOT_SUPPORTED);
  }
  fake_work_t *copy = malloc(sizeof *copy);
  if (copy == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *copy = *w;
  copy->next = NULL;
  fake_work_t **at = &s->captured;
  while (*at != NULL) at = &(*at)->next;
  *at = copy;
  return CUDA_SUCCESS;
}

void fake_capture_drop(CUstream s) {
  free_work(s->captured);
  s->captured = NULL;
  s->capture = FAKE_NO_CAPTURE;
}

/* ---- the functions ---- */

FAKE_EXPORT CUresult CUDAAPI cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
  FAKE_BEGIN(cuStreamBeginCapture, true);
  if (s->capture != FAKE_NO_CAPTURE) return fake_end(CUDA_ERROR_ILLEGAL_STATE);
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    fake_fault("a capture that calls of other threads spoil, or that hides unsafe ones");
  s->capture = FAKE_CAPTURES;
  s->captor = pthread_self();
  return fake_end(CUDA_SUCCESS);
}

FAKE_EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream s, CUgraph *out) {
  *out = NULL;
  const CUresult begun = fake_begin("cuStreamEndCapture", true);
  if (begun != CUDA_SUCCESS) { /* a capture that fails at its end has ended, too */
    pthread_mutex_lock(&fake.mu);
    fake_capture_drop(s);
    pthread_mutex_unlock(&fake.mu);
    return begun;
  }
  if (s->capture == FAKE_NO_CAPTURE) return fake_end(CUDA_ERROR_ILLEGAL_STATE);
  if (!pthread_equal(s->captor, pthread_self())) {
    return fake_end(fake_capture_spoil(s, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
  }
  CUgraph g = s->capture == FAKE_SPOILT ? NULL : calloc(1, sizeof *g);
  const CUresult r = s->capture == FAKE_SPOILT ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                     : g == NULL               ? CUDA_ERROR_OUT_OF_MEMORY
                                               : CUDA_SUCCESS;
  if (g != NULL) {
    g->first = s->captured;
    s->captured = NULL;
    fake.live.graphs++;
  }
  fake_capture_drop(s);
  *out = g;
  return fake_end(r);
}

FAKE_EXPORT CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  FAKE_BEGIN(cuGraphInstantiate, true);
  (void)flags;
  CUgraphExec x = calloc(1, sizeof *x);
  if (x == NULL || !copy_all(g->first, &x->first)) {
    if (x != NULL) free_work(x->first);
    free(x);
    return fake_end(CUDA_ERROR_OUT_OF_MEMORY);
  }
  x->context = fake_current();
  fake.live.graphs++;
  *out = x;
  return fake_end(CUDA_SUCCESS);
}

FAKE_EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec x, CUstream s) {
  FAKE_BEGIN(cuGraphLaunch, true);
  fake_work_t *all = NULL;
  if (x->context != s->context || s->capture != FAKE_NO_CAPTURE) {
    fake_fault("a graph of another context, or in a capture");
    return fake_end(CUDA_ERROR_INVALID_VALUE);
  }
  if (!copy_all(x->first, &all)) {
    free_work(all);
    return fake_end(CUDA_ERROR_OUT_OF_MEMORY);
  }
  for (fake_work_t *next; all != NULL; all = next) {
    next = all->next;
    all->next = NULL;
    fake_stream_add(s, all);
  }
  return fake_end(CUDA_SUCCESS);
}

FAKE_EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph g) {
  FAKE_BEGIN(cuGraphDestroy, false);
  fake.live.graphs--;
  free_work(g->first);
  free(g);
  return fake_end(CUDA_SUCCESS);
}

FAKE_EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec x) {
  FAKE_BEGIN(cuGraphExecDestroy, false);
  fake.live.graphs--;
  free_work(x->first);
  free(x);
  return fake_end(CUDA_SUCCESS);
}
