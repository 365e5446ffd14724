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

static void beat(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_beat_request_type, sizeof(weft_beat_request_msg_t));
  if (s == NULL) return;
  weft_beat_response_msg_t response = {0};
  const weft_coordination_caller_t caller = caller_of(s);
  weft_status_t *status = weft_coordination_beat(service_of(s), &caller, &response.epoch);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply(s, &weft_beat_response_type, &response);
  }
}

/* The cluster state as messages in the call's arena. */
static weft_status_t *encode_members(weft_served_t *s, const weft_member_t *members, int n,
                                     weft_texts_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  bool ok = true;
  for (int i = 0; ok && i < n; i++) {
    weft_member_msg_t m = {members[i].task,      members[i].incarnation,     members[i].state,
                           members[i].silent_ms, (int64_t)members[i].losses, members[i].has_left};
    text.length = 0;
    weft_fields_encode_bytes(&weft_member_type, &m, &text);
    weft_str_t copy = weft_arena_str(&s->arena, weft_str_of(text.data, text.length));
    ok = !text.failed && copy.data != NULL && weft_texts_add(out, &s->arena, copy);
  }
  weft_strbuf_deinit(&text);
  return ok ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the state of a cluster of %d tasks", n);
}

static void on_watched(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                       int n) {
  weft_served_t *s = arg;
  weft_watch_response_msg_t response = {.epoch = epoch};
  if (status == NULL) status = encode_members(s, members, n, &response.member);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply(s, &weft_watch_response_type, &response);
  }
}

static void watch(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_beat_request_type, sizeof(weft_beat_request_msg_t));
  if (s == NULL) return;
  const weft_beat_request_msg_t *m = s->request;
  const weft_coordination_caller_t caller = caller_of(s);
  weft_coordination_watch(service_of(s), &caller, m->timeout_ms, weft_served_canceller(s), on_watched, s);
}

/* ---- keys and values ---- */

static void on_value(void *arg, weft_status_t *status, weft_str_t value) {
  weft_served_t *s = arg;
  weft_store_response_msg_t response = {value};
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply(s, &weft_store_response_type, &response);
  }
}

static void ask(void *service, weft_rpc_call_t *call, weft_store_op_t op) {
  weft_served_t *s = weft_serve(call, service, &weft_store_request_type, sizeof(weft_store_request_msg_t));
  if (s == NULL) return;
  const weft_store_request_msg_t *m = s->request;
  weft_store_request_t r = {.op = op,
                            .key = m->key,
                            .value = m->value,
                            .expected = m->expected,
                            .delta = m->delta,
                            .timeout_ms = m->timeout_ms,
                            .size = m->size};
  weft_store_ask(weft_coordination_store(service_of(s)), &r, weft_served_canceller(s), on_value, s);
}

static void set(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_SET); }
static void get(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_GET); }
static void add(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_ADD); }
static void compare_set(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_COMPARE_SET); }
static void delete_key(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_DELETE); }
static void barrier(void *k, weft_rpc_call_t *c) { ask(k, c, WEFT_STORE_BARRIER); }

weft_status_t *weft_membership_service_register(weft_coordination_t *k, weft_rpc_server_t *s) {
  static weft_rpc_handler_fn *const handlers[WEFT_STORE_NUM_OPS] = {
      [WEFT_STORE_SET] = set,           [WEFT_STORE_GET] = get,
      [WEFT_STORE_ADD] = add,           [WEFT_STORE_COMPARE_SET] = compare_set,
      [WEFT_STORE_DELETE] = delete_key, [WEFT_STORE_BARRIER] = barrier,
  };
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(s, WEFT_MEMBERSHIP_METHOD("Beat"), beat, k));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(s, WEFT_MEMBERSHIP_METHOD("Watch"), watch, k));
  for (int i = 0; i < WEFT_STORE_NUM_OPS; i++) {
    WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(s, weft_store_paths[i], handlers[i], k));
  }
  return NULL;
}
