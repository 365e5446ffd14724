/* coordinator/worker_context.h - the inputs and results of a build function. */
#ifndef WEFT_COORDINATOR_WORKER_CONTEXT_H_
#define WEFT_COORDINATOR_WORKER_CONTEXT_H_

#include "coordinator/impl.h"

typedef struct weft_co_texts {
  weft_str_t *items; /* owned */
  int n, capacity;
} weft_co_texts_t;

/* On the stack of the thread that calls the build function. */
struct WEFT_WorkerContext {
  const WEFT_Coordinator *coordinator;
  int worker, num_guards;
  weft_arena_t arena; /* of the texts */
  weft_co_texts_t inputs, outputs, targets;
  TF_Output id;           /* oper NULL: not requested */
  weft_status_t *failure; /* owned; the first of those that the functions cannot report */
};

void weft_worker_context_init(WEFT_WorkerContext *x, const WEFT_Coordinator *c, int worker);
void weft_worker_context_deinit(WEFT_WorkerContext *x);
/* Copies the names to out and its arena. Errors: what could not be reported before. */
WEFT_MUST_CHECK weft_status_t *weft_worker_context_take(WEFT_WorkerContext *x, weft_co_graph_t *out);

#endif /* WEFT_COORDINATOR_WORKER_CONTEXT_H_ */
