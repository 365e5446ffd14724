/* coordinator/per_worker.c - what each worker has of its own: streams of elements, resources. */
#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"
#include "coordinator/impl.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("per-worker values"); }

/* ---- life ---- */

static void empty(weft_co_own_t *o) {
  if (o->generator.destroy != NULL) o->generator.destroy(o->generator.self);
  o->generator = (WEFT_Generator){NULL, NULL, NULL};
  for (int i = 0; i < o->num_outputs; i++) weft_tensor_release(o->outputs[i]);
  weft_free(o->outputs);
  o->outputs = NULL;
  o->num_outputs = 0;
  weft_status_free(o->error);
  o->error = NULL;
}

static void destroy(WEFT_PerWorker *p) {
  WEFT_Coordinator *c = p->coordinator;
  for (int i = 0; p->own != NULL && i < c->num_workers; i++) empty(&p->own[i]);
  weft_free(p->own);
  weft_closure_release(p->maker);
  weft_free(p);
  weft_coordinator_release(c);
}

void weft_per_worker_release(WEFT_PerWorker *p) {
  if (p == NULL) return;
  WEFT_Coordinator *c = p->coordinator;
  weft_mutex_lock(&c->mu);
  WEFT_PerWorker **at = &c->per_workers;
  while (*at != NULL && *at != p) at = &(*at)->next;
  bool is_listed = *at == p;
  p->refs--;
  bool is_last = p->refs == (is_listed ? 1 : 0);
  if (is_last && is_listed) *at = p->next; /* only the list refers to it */
  weft_mutex_unlock(&c->mu);
  if (is_last) destroy(p);
}

void WEFT_DeletePerWorker(WEFT_PerWorker *value) { weft_per_worker_release(value); }

/* With two references: the caller's and the list's. */
static weft_status_t *create(WEFT_Coordinator *c, WEFT_PerWorker **out) {
  WEFT_PerWorker *p = weft_calloc(1, sizeof *p);
  weft_co_own_t *own = weft_calloc((size_t)c->num_workers, sizeof *own);
  if (p == NULL || own == NULL) {
    weft_free(p);
    weft_free(own);
    return no_memory();
  }
  p->refs = 1;
  p->coordinator = weft_coordinator_retain(c);
  p->own = own;
  *out = p;
  return NULL;
}

/* From now on the workers build it. */
static void publish(WEFT_PerWorker *p) {
  WEFT_Coordinator *c = p->coordinator;
  weft_mutex_lock(&c->mu);
  WEFT_PerWorker **at = &c->per_workers;
  while (*at != NULL) at = &(*at)->next;
  *at = p;
  p->refs++;
  for (int i = 0; i < c->num_workers; i++) p->own[i].must_build = true;
  weft_cond_broadcast(&c->work);
  weft_mutex_unlock(&c->mu);
}

WEFT_PerWorker *WEFT_CreatePerWorkerDataset(WEFT_Coordinator *c, WEFT_DatasetFn open, void *user,
                                            TF_Status *status) {
  WEFT_PerWorker *p = NULL;
  if (!weft_client_end(status, create(c, &p))) return NULL;
  p->open = open;
  p->user = user;
  publish(p);
  return p;
}

WEFT_PerWorker *WEFT_CreatePerWorkerResource(WEFT_Coordinator *c, WEFT_BuildFn build, void *user,
                                             TF_Status *status) {
  WEFT_PerWorker *p = NULL;
  if (!weft_client_end(status, create(c, &p))) return NULL;
  p->maker = WEFT_NewClosure(c, build, user, NULL, status);
  if (p->maker == NULL) {
    weft_per_worker_release(p);
    return NULL;
  }
  publish(p);
  return p;
}

WEFT_RemoteState WEFT_PerWorkerState(WEFT_PerWorker *p, int worker) {
  WEFT_Coordinator *c = p->coordinator;
  if (worker < 0 || worker >= c->num_workers) return WEFT_REMOTE_ABORTED;
  weft_mutex_lock(&c->mu);
  WEFT_RemoteState state = p->own[worker].state;
  weft_mutex_unlock(&c->mu);
  return state;
}

/* ---- on a worker's thread ---- */

static weft_status_t *open_stream(WEFT_PerWorker *p, weft_co_worker_t *w) {
  weft_co_own_t *o = &p->own[w->index];
  TF_Status *status = TF_NewStatus();
  const WEFT_InputContext x = {w->coordinator->num_workers, w->index, 1};
  if (status == NULL) return no_memory();
  p->open(&x, p->user, &o->generator, status);
  weft_status_t *s = NULL;
  if (TF_GetCode(status) != TF_OK) {
    s = weft_status_from_wire((int)TF_GetCode(status), TF_Message(status), strlen(TF_Message(status)));
    o->generator = (WEFT_Generator){NULL, NULL, NULL};
  } else if (o->generator.next == NULL) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "a dataset function has given no generator");
  }
  TF_DeleteStatus(status);
  return s;
}

weft_status_t *weft_per_worker_build(WEFT_PerWorker *p, weft_co_worker_t *w, weft_canceller_t *canceller) {
  weft_co_own_t *o = &p->own[w->index];
  empty(o);
  if (p->open != NULL) return open_stream(p, w);
  return weft_co_session_run(w, p->maker, NULL, 0, 0, canceller, &o->outputs, &o->num_outputs);
}

static weft_status_t *next_element(weft_co_own_t *o, weft_tensor_t **tensors, int max, int *n) {
  TF_Tensor *boxes[WEFT_CO_MAX_ELEMENT] = {NULL};
  TF_Status *status = TF_NewStatus();
  weft_status_t *s = NULL;
  if (status == NULL) return no_memory();
  int room = max < WEFT_CO_MAX_ELEMENT ? max : WEFT_CO_MAX_ELEMENT;
  int got = o->generator.next(o->generator.self, boxes, room, status);
  if (TF_GetCode(status) != TF_OK)
    s = weft_status_from_wire((int)TF_GetCode(status), TF_Message(status), strlen(TF_Message(status)));
  if (s == NULL && (got < 0 || got > room))
    s = WEFT_ERROR(INVALID_ARGUMENT, "a dataset gave an element of %d tensors", got);
  for (int i = 0; i < room; i++) {
    if (s == NULL && i < got && boxes[i] == NULL)
      s = WEFT_ERROR(INVALID_ARGUMENT, "tensor %d of a dataset's element is NULL", i);
    if (s == NULL && i < got) s = weft_client_tensor_get(boxes[i], &tensors[*n]);
    if (s == NULL && i < got) (*n)++;
    if (boxes[i] != NULL) TF_DeleteTensor(boxes[i]);
  }
  TF_DeleteStatus(status);
  return s;
}

weft_status_t *weft_per_worker_value(WEFT_PerWorker *p, int worker, weft_tensor_t **tensors, int max,
                                     int *n) {
  weft_co_own_t *o = &p->own[worker];
  if (o->error != NULL) return weft_status_clone(o->error);
  if (p->open != NULL) return next_element(o, tensors + 0, max - *n, n);
  if (o->num_outputs > max - *n) return WEFT_ERROR(INVALID_ARGUMENT, "a call has more than %d tensors", max);
  for (int i = 0; i < o->num_outputs; i++) tensors[(*n)++] = weft_tensor_retain(o->outputs[i]);
  return NULL;
}
