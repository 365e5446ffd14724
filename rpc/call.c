/* rpc/call.c - what handlers ask of a call, and how many calls there are. */
#include "rpc/call.h"

bool weft_rpc_intake_enter(weft_rpc_intake_t *in) {
  weft_mutex_lock(&in->mu);
  bool ok = in->is_open;
  if (ok) in->num_calls++;
  weft_mutex_unlock(&in->mu);
  return ok;
}

void weft_rpc_intake_leave(weft_rpc_intake_t *in) {
  weft_mutex_lock(&in->mu);
  in->num_calls--;
  if (in->num_calls == 0) weft_cond_broadcast(&in->changed);
  weft_mutex_unlock(&in->mu);
}

const void *weft_rpc_call_row(const weft_rpc_call_t *call) { return call->method->row; }
weft_message_t *weft_rpc_call_request(weft_rpc_call_t *call) { return call->request; }
weft_canceller_t *weft_rpc_call_canceller(weft_rpc_call_t *call) { return call->canceller; }
const char *weft_rpc_call_peer(weft_rpc_call_t *call) { return call->ops->peer(call); }
int64_t weft_rpc_call_deadline_ns(weft_rpc_call_t *call) { return call->ops->deadline_ns(call); }
void weft_rpc_call_expect_more(weft_rpc_call_t *call) {
  if (call->ops->expect_more != NULL) call->ops->expect_more(call);
}
bool weft_rpc_call_was_looked_for(weft_rpc_call_t *call) {
  return call->ops->was_looked_for != NULL && call->ops->was_looked_for(call);
}
void weft_rpc_reply(weft_rpc_call_t *call, weft_message_t *response) { call->ops->reply(call, response); }
void weft_rpc_fail(weft_rpc_call_t *call, weft_status_t *status) { call->ops->fail(call, status); }
