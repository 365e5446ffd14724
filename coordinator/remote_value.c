/* coordinator/remote_value.c - results that come later. */
#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"
#include "coordinator/impl.h"

WEFT_RemoteValue *weft_remote_value_create(void) {
  WEFT_RemoteValue *v = weft_calloc(1, sizeof *v);
  if (v == NULL) return NULL;
  atomic_init(&v->refs, 1);
  weft_mutex_init(&v->mu);
  weft_cond_init(&v->ended);
  v->state = WEFT_REMOTE_NOT_READY;
  return v;
}

void weft_remote_value_release(WEFT_RemoteValue *v) {
  if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  for (int i = 0; i < v->num_outputs; i++) weft_tensor_release(v->outputs[i]);
  weft_free(v->outputs);
  weft_status_free(v->error);
  weft_cond_deinit(&v->ended);
  weft_mutex_deinit(&v->mu);
  weft_free(v);
}

void weft_remote_value_fail(WEFT_RemoteValue *v, weft_status_t *status) {
  weft_mutex_lock(&v->mu);
  v->state = WEFT_REMOTE_ABORTED;
  v->error = status;
  weft_cond_broadcast(&v->ended);
  weft_mutex_unlock(&v->mu);
}

void weft_remote_value_deliver(WEFT_RemoteValue *v, weft_tensor_t **outputs, int n) {
  weft_mutex_lock(&v->mu);
  v->outputs = outputs;
  v->num_outputs = n;
  v->state = WEFT_REMOTE_READY;
  weft_cond_broadcast(&v->ended);
  weft_mutex_unlock(&v->mu);
}

WEFT_RemoteState WEFT_RemoteValueState(WEFT_RemoteValue *v) {
  weft_mutex_lock(&v->mu);
  WEFT_RemoteState state = v->state;
  weft_mutex_unlock(&v->mu);
  return state;
}

int WEFT_RemoteValueNumOutputs(WEFT_RemoteValue *v) {
  return WEFT_RemoteValueState(v) == WEFT_REMOTE_READY ? v->num_outputs : -1;
}

static weft_status_t *fetch(WEFT_RemoteValue *v, TF_Tensor **out, int n) {
  weft_mutex_lock(&v->mu);
  /* Woken by fail() or deliver(), one of which every call reaches, at the latest when its coordinator is
   * deleted. */
  while (v->state == WEFT_REMOTE_NOT_READY) weft_cond_wait(&v->ended, &v->mu);
  bool is_aborted = v->state == WEFT_REMOTE_ABORTED;
  weft_mutex_unlock(&v->mu);
  if (is_aborted) return weft_status_clone(v->error); /* constant from now on */
  if (n < 0 || n > v->num_outputs)
    return WEFT_ERROR(INVALID_ARGUMENT, "%d outputs are wanted of a call that has %d", n, v->num_outputs);
  for (int i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(weft_client_tensor_new(weft_tensor_retain(v->outputs[i]), &out[i]));
  }
  return NULL;
}

void WEFT_Fetch(WEFT_RemoteValue *v, TF_Tensor **out, int n, TF_Status *status) {
  for (int i = 0; i < n; i++) out[i] = NULL;
  if (weft_client_end(status, fetch(v, out, n))) return;
  for (int i = 0; i < n; i++) {
    if (out[i] != NULL) TF_DeleteTensor(out[i]);
    out[i] = NULL;
  }
}

void WEFT_RemoteValueRelease(WEFT_RemoteValue *v) { weft_remote_value_release(v); }
