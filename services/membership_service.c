/* services/membership_service.c - weft.MembershipService: requests from the wire to the coordination
 * service, and back. */
#include "rpc/service.h"
#include "services/membership_methods.h"
#include "services/messages.h"
#include "services/remote_coordination.h"

static weft_coordination_t *service_of(const weft_served_t *s) { return s->service; }

/* ---- beats and watches ---- */

static weft_coordination_caller_t caller_of(weft_served_t *s) {
  const weft_beat_request_msg_t *m = s->request;
  return (weft_coordination_caller_t){m->task,
                                      m->incarnation,
                                      m->epoch,
                                      m->lost_service,
                                      m->is_leaving,
                                      m->secret,
                                      weft_str(weft_rpc_call_peer(s->call))};
}

static void beat(weft_served_t *s) {
  weft_beat_response_msg_t response = {0};
  const weft_coordination_caller_t caller = caller_of(s);
  weft_status_t *status = weft_coordination_beat(service_of(s), &caller, &response.epoch);
  weft_served_answer(s, status, &weft_beat_response_type, &response);
}

/* The cluster state as messages in the call's arena. */
static weft_status_t *encode_members(weft_served_t *s, const weft_member_t *members, int n,
                                     weft_texts_t *out) {
  bool ok = true;
  for (int i = 0; ok && i < n; i++) {
    weft_member_msg_t m = {members[i].task,      members[i].incarnation,     members[i].state,
                           members[i].silent_ms, (int64_t)members[i].losses, members[i].has_left};
    ok = weft_texts_add_message(out, &s->arena, &weft_member_type, &m);
  }
  return ok ? NULL : WEFT_NO_MEMORY("the state of a cluster of %d tasks", n);
}

static void on_watched(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                       int n) {
  weft_served_t *s = arg;
  weft_watch_response_msg_t response = {.epoch = epoch};
  if (status == NULL) status = encode_members(s, members, n, &response.member);
  weft_served_answer(s, status, &weft_watch_response_type, &response);
}

static void watch(weft_served_t *s) {
  const weft_beat_request_msg_t *m = s->request;
  const weft_coordination_caller_t caller = caller_of(s);
  weft_coordination_watch(service_of(s), &caller, m->timeout_ms, weft_served_canceller(s), on_watched, s);
}

/* ---- keys and values ---- */

static void on_value(void *arg, weft_status_t *status, weft_str_t value) {
  weft_served_t *s = arg;
  weft_store_response_msg_t response = {value};
  weft_served_answer(s, status, &weft_store_response_type, &response);
}

static void ask(weft_served_t *s) {
  const weft_store_request_msg_t *m = s->request;
  weft_store_request_t r = {.op = (weft_store_op_t)s->method->tag,
                            .key = m->key,
                            .value = m->value,
                            .expected = m->expected,
                            .delta = m->delta,
                            .timeout_ms = m->timeout_ms,
                            .size = m->size};
  weft_store_ask(weft_coordination_store(service_of(s)), &r, weft_served_canceller(s), on_value, s);
}

static const weft_service_method_t methods[] = {
    {WEFT_METHOD_OF(WEFT_MEMBERSHIP_METHOD("Beat"), beat_request, beat)},
    {WEFT_METHOD_OF(WEFT_MEMBERSHIP_METHOD("Watch"), beat_request, watch)},
#define WEFT_STORE_METHOD(name, op) \
  {WEFT_METHOD_OF(WEFT_MEMBERSHIP_METHOD(name), store_request, ask), .tag = (op)},
    WEFT_STORE_METHODS
#undef WEFT_STORE_METHOD
};

weft_status_t *weft_membership_service_register(weft_coordination_t *k, weft_rpc_server_t *s) {
  return weft_service_register(s, methods, sizeof methods / sizeof methods[0], k);
}
