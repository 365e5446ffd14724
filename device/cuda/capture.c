/* device/cuda/capture.c - captures and graphs, over the recordings that queue.c sends work to. */
#include "device/cuda/capture.h"

#include "base/alloc.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

static const char CAPTURE[] = "a capture", REPLAY[] = "a replay";

typedef struct cuda_graph {
  weft_cuda_recording_t recording; /* first; its stream is gone when it is a graph */
  weft_cuda_queue_t *queue;
  CUgraphExec exec;
} cuda_graph_t;

static void free_graph(void *arg, void *p) {
  (void)arg;
  cuda_graph_t *g = p;
  if (g->exec != NULL) (void)weft_cuda_driver.cuGraphExecDestroy(g->exec);
  weft_cuda_recording_deinit(&g->recording);
  weft_free(g);
}

WEFT_Failure *weft_cuda_capture_begin(void *queue) {
  weft_cuda_queue_t *q = queue;
  WEFT_Failure *f = weft_cuda_queue_begin(q, CAPTURE);
  if (f != NULL) return f;
  cuda_graph_t *g = weft_calloc(1, sizeof *g);
  if (g == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: %s", CAPTURE);
  g->queue = q;
  weft_cuda_recording_t *r = &g->recording;
  if (!weft_cuda_queue_record(q, r)) {
    weft_free(g);
    return weft_cuda_host->failure(WEFT_FAILED_PRECONDITION, "this thread captures already");
  }
  CUresult result = weft_cuda_driver.cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS)
    result = weft_cuda_driver.cuStreamBeginCapture(r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (result == CUDA_SUCCESS) return NULL;
  (void)weft_cuda_queue_stop_recording(q);
  f = weft_cuda_queue_check(q, result, CAPTURE);
  free_graph(NULL, g);
  return f;
}

WEFT_Failure *weft_cuda_capture_end(void *queue, void **out_graph) {
  weft_cuda_queue_t *q = queue;
  weft_cuda_recording_t *r = weft_cuda_queue_stop_recording(q);
  if (r == NULL) return weft_cuda_host->failure(WEFT_FAILED_PRECONDITION, "this thread does not capture");
  cuda_graph_t *g = (cuda_graph_t *)(void *)r;
  CUgraph graph = NULL;
  CUresult result = weft_cuda_driver.cuStreamEndCapture(r->stream, &graph);
  WEFT_Failure *f = NULL;
  if (result == CUDA_SUCCESS && r->refused != NULL) {
    f = weft_cuda_host->failure(WEFT_FAILED_PRECONDITION, "%s cannot have %s", CAPTURE, r->refused);
  } else if (result == CUDA_SUCCESS) {
    result = weft_cuda_driver.cuGraphInstantiate(&g->exec, graph, 0);
  }
  if (graph != NULL) (void)weft_cuda_driver.cuGraphDestroy(graph);
  if (f == NULL) f = weft_cuda_queue_check(q, result, CAPTURE);
  if (f != NULL) {
    free_graph(NULL, g);
    return f;
  }
  (void)weft_cuda_driver.cuStreamDestroy(r->stream); /* nothing ever ran on it */
  r->stream = NULL;
  *out_graph = g;
  return NULL;
}

WEFT_Failure *weft_cuda_graph_replay(void *queue, void *graph) {
  weft_cuda_queue_t *q = queue;
  const cuda_graph_t *g = graph;
  WEFT_Failure *f = weft_cuda_queue_begin(q, REPLAY);
  if (f != NULL) return f;
  if (g->recording.first[0] != '\0') weft_cuda_queue_note(q, g->recording.first);
  if (g->recording.last[0] != '\0') weft_cuda_queue_note(q, g->recording.last);
  return weft_cuda_queue_check(q, weft_cuda_driver.cuGraphLaunch(g->exec, weft_cuda_queue_stream(q)), REPLAY);
}

void weft_cuda_graph_destroy(void *graph) {
  cuda_graph_t *g = graph;
  if (g != NULL) weft_cuda_queue_retire(g->queue, free_graph, NULL, g);
}
