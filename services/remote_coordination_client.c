/* services/remote_coordination_client.c - the coordination service of another task, over a channel.
 */
#include "base/alloc.h"
#include "services/membership_methods.h"
#include "services/messages.h"
#include "services/remote_coordination.h"

static const char *const store_paths[WEFT_STORE_NUM_OPS] = {
#define WEFT_STORE_METHOD(name, op) [op] = WEFT_MEMBERSHIP_METHOD(name),
    WEFT_STORE_METHODS
#undef WEFT_STORE_METHOD
};

/* An answer may come this much later than asked for, before the service counts as hanging. */
enum { SLACK_MS = 5000, COME_UP_MS = 30000 };

typedef struct remote_coordination_client {
  weft_coordination_client_t base;
  weft_rpc_channel_t *channel; /* retained */
} remote_client_t;

/* One call in flight. */
typedef struct coordination_call {
  const char *path;
  weft_str_t target; /* the channel's, which outlives its calls */
  union {
    weft_beat_fn *beat;
    weft_cluster_state_fn *roll;
    weft_value_fn *value;
  } fn;
  void *arg;
} coordination_call_t;

static remote_client_t *of(weft_coordination_client_t *c) { return (remote_client_t *)c; }

static weft_status_t *no_memory(const char *path) { return WEFT_NO_MEMORY("calling %s", path); }

static weft_status_t *encode(coordination_call_t **out, remote_client_t *c, const char *path,
                             const weft_message_type_t *type, const void *request,
                             weft_message_t **out_message) {
  coordination_call_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory(path);
  weft_status_t *s = weft_fields_encode(type, request, out_message);
  if (s != NULL) {
    weft_free(p);
    return s;
  }
  p->path = path;
  p->target = weft_rpc_channel_target(c->channel);
  *out = p;
  return NULL;
}

static weft_status_t *decode(weft_status_t *status, weft_message_t *response, const weft_message_type_t *type,
                             weft_arena_t *arena, void *out) {
  return status != NULL ? status : weft_fields_decode(type, response, arena, out);
}

/* ---- beats ---- */

static void on_beaten(void *arg, weft_status_t *status, weft_message_t *response) {
  coordination_call_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_beat_response_msg_t m = {0};
  status = decode(status, response, &weft_beat_response_type, &arena, &m);
  p->fn.beat(p->arg, status, m.epoch);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  weft_free(p);
}

static void beat(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
                 weft_canceller_t *canceller, weft_beat_fn *fn, void *arg) {
  weft_beat_request_msg_t request = {.task = caller->task,
                                     .incarnation = caller->incarnation,
                                     .epoch = caller->epoch,
                                     .lost_service = caller->lost_service,
                                     .is_leaving = caller->is_leaving,
                                     .secret = caller->secret};
  weft_message_t *m = NULL;
  coordination_call_t *p = NULL;
  weft_status_t *s = encode(&p, of(c), WEFT_MEMBERSHIP_METHOD("Beat"), &weft_beat_request_type, &request, &m);
  if (s != NULL) {
    fn(arg, s, 0);
    return;
  }
  p->fn.beat = fn;
  p->arg = arg;
  weft_rpc_options_t o = {.timeout_ms = timeout_ms, .canceller = canceller};
  weft_rpc_call(of(c)->channel, p->path, m, &o, on_beaten, p);
}

/* ---- watches ---- */

static weft_status_t *decode_members(const weft_watch_response_msg_t *m, weft_arena_t *arena,
                                     weft_member_t **out) {
  weft_member_t *members = weft_arena_calloc(arena, (size_t)m->member.n + 1, sizeof *members);
  if (members == NULL) return no_memory(WEFT_MEMBERSHIP_METHOD("Watch"));
  for (int i = 0; i < m->member.n; i++) {
    weft_member_msg_t one = {.state = 0};
    WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_member_type, m->member.items[i], arena, &one));
    if (one.state < WEFT_MEMBER_UNKNOWN || one.state > WEFT_MEMBER_LOST) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%.*s is said to be in state %lld", WEFT_STR_ARGS(one.task),
                        (long long)one.state);
    }
    members[i] = (weft_member_t){one.task,      one.incarnation,      (weft_member_state_t)one.state,
                                 one.silent_ms, (uint64_t)one.losses, one.has_left};
  }
  *out = members;
  return NULL;
}

static void on_watched(void *arg, weft_status_t *status, weft_message_t *response) {
  coordination_call_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_watch_response_msg_t m = {.epoch = 0};
  weft_member_t *members = NULL;
  status = decode(status, response, &weft_watch_response_type, &arena, &m);
  if (status == NULL) status = decode_members(&m, &arena, &members);
  p->fn.roll(p->arg, status, m.epoch, members, status == NULL ? m.member.n : 0);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  weft_free(p);
}

static void watch(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
                  weft_canceller_t *canceller, weft_cluster_state_fn *fn, void *arg) {
  weft_beat_request_msg_t request = {caller->task,  caller->incarnation,  caller->epoch,
                                     timeout_ms,    caller->lost_service, false,
                                     caller->secret};
  weft_message_t *m = NULL;
  coordination_call_t *p = NULL;
  weft_status_t *s =
      encode(&p, of(c), WEFT_MEMBERSHIP_METHOD("Watch"), &weft_beat_request_type, &request, &m);
  if (s != NULL) {
    fn(arg, s, 0, NULL, 0);
    return;
  }
  p->fn.roll = fn;
  p->arg = arg;
  weft_rpc_options_t o = {.timeout_ms = timeout_ms + SLACK_MS, .canceller = canceller};
  weft_rpc_call(of(c)->channel, p->path, m, &o, on_watched, p);
}

/* ---- keys and values ---- */

static void on_value(void *arg, weft_status_t *status, weft_message_t *response) {
  coordination_call_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_store_response_msg_t m = {{NULL, 0}};
  status = decode(status, response, &weft_store_response_type, &arena, &m);
  p->fn.value(p->arg, status, status == NULL ? m.value : WEFT_STR(""));
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  weft_free(p);
}

static void ask(weft_coordination_client_t *c, const weft_store_request_t *r, weft_canceller_t *canceller,
                weft_value_fn *fn, void *arg) {
  weft_store_request_msg_t request = {.key = r->key,
                                      .value = r->value,
                                      .expected = r->expected,
                                      .delta = r->delta,
                                      .timeout_ms = r->timeout_ms,
                                      .size = r->size};
  weft_message_t *m = NULL;
  coordination_call_t *p = NULL;
  weft_status_t *s = encode(&p, of(c), store_paths[r->op], &weft_store_request_type, &request, &m);
  if (s != NULL) {
    fn(arg, s, WEFT_STR(""));
    return;
  }
  p->fn.value = fn;
  p->arg = arg;
  int64_t timeout_ms = r->timeout_ms > INT32_MAX - COME_UP_MS ? INT32_MAX : r->timeout_ms + COME_UP_MS;
  weft_rpc_options_t o = {.wait_for_ready = true, .timeout_ms = timeout_ms, .canceller = canceller};
  weft_rpc_call(of(c)->channel, p->path, m, &o, on_value, p);
}

static void destroy(weft_coordination_client_t *c) {
  weft_rpc_channel_release(of(c)->channel);
  weft_free(c);
}

weft_status_t *weft_remote_coordination_client_create(weft_rpc_channel_t *channel,
                                                      weft_coordination_client_t **out) {
  static const weft_coordination_client_ops_t ops = {
      .beat = beat, .watch = watch, .ask = ask, .destroy = destroy};
  remote_client_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a membership client");
  *c = (remote_client_t){{&ops}, weft_rpc_channel_retain(channel)};
  *out = &c->base;
  return NULL;
}
