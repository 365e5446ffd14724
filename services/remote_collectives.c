/* services/remote_collectives.c - RecvBuf, CompleteGroup and CompleteInstance over gRPC: the asking and the
 * answering end. */
#include "services/remote_collectives.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "services/collective_codec.h"

#define METHOD(name) "/tensorflow.WorkerService/" name

/* ---- asking ---- */

typedef struct group_query {
  weft_worker_client_t *worker; /* retained */
  weft_rpc_channel_t *channel;  /* the worker's */
  const char *path;
  union {
    weft_buf_fn *buf;
    weft_group_fn *group;
    weft_instance_fn *instance;
  } fn;
  void *arg;
  int64_t request_id;
  int64_t began_ns, limit_ms; /* of CompleteGroup */
} group_query_t;

static group_query_t *question_new(weft_worker_client_t *w, weft_rpc_channel_t *channel, const char *path,
                                   void *arg) {
  group_query_t *q = weft_calloc(1, sizeof *q);
  if (q != NULL)
    *q =
        (group_query_t){.worker = weft_worker_client_retain(w), .channel = channel, .path = path, .arg = arg};
  return q;
}

static void question_free(group_query_t *q) {
  weft_worker_client_release(q->worker);
  weft_free(q);
}

static weft_status_t *no_memory(const char *path) { return WEFT_NO_MEMORY("calling %s", path); }

static weft_status_t *name_peer(const group_query_t *q, weft_status_t *s) {
  if (s == NULL) return NULL;
  weft_status_t *named =
      weft_status_new(weft_status_code(s), __FILE__, __LINE__,
                      "%s\nAdditional GRPC error information from remote target %.*s while calling %s",
                      weft_status_message(s), WEFT_STR_ARGS(q->worker->task), q->path);
  weft_status_free(s);
  return named;
}

static void ask(group_query_t *q, weft_status_t *s, const weft_message_type_t *type, const void *request,
                const weft_rpc_options_t *o, weft_rpc_done_fn *answered) {
  weft_message_t *m = NULL;
  if (s == NULL) s = weft_fields_encode(type, request, &m);
  if (s != NULL) {
    answered(q, s, NULL);
  } else {
    weft_rpc_call(q->channel, q->path, m, o, answered, q);
  }
}

static void on_acknowledged(void *arg, weft_status_t *status, weft_message_t *response) {
  group_query_t *q = arg;
  weft_status_free(status); /* the peer forgets in time without it */
  weft_message_destroy(response);
  question_free(q);
}

static void acknowledge(const group_query_t *q) {
  group_query_t *ack = question_new(q->worker, q->channel, METHOD("MarkRecvFinished"), NULL);
  weft_mark_recv_finished_request_msg_t request = {q->request_id};
  weft_rpc_options_t o = {.timeout_ms = 10000};
  if (ack != NULL) ask(ack, NULL, &weft_mark_recv_finished_request_type, &request, &o, on_acknowledged);
}

static void on_buf(void *arg, weft_status_t *status, weft_message_t *response) {
  group_query_t *q = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_buf_reader_t r;
  status = name_peer(q, status);
  if (status == NULL) status = weft_buf_reader_init(&r, response, &arena);
  if (status == NULL && r.require_ack) acknowledge(q);
  q->fn.buf(q->arg, status, status == NULL ? &r.buf : NULL);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  question_free(q);
}

void weft_remote_recv_buf(weft_worker_client_t *w, weft_rpc_channel_t *channel, const weft_buf_request_t *r,
                          weft_canceller_t *canceller, weft_buf_fn *fn, void *arg) {
  group_query_t *q = question_new(w, channel, METHOD("RecvBuf"), arg);
  if (q == NULL) {
    fn(arg, no_memory(METHOD("RecvBuf")), NULL);
    return;
  }
  q->fn.buf = fn;
  q->request_id = r->request_id;
  weft_recv_buf_request_msg_t request = {.step_id = r->step_id,
                                         .num_bytes = r->bytes,
                                         .request_id = r->request_id,
                                         .src_incarnation = (int64_t)r->src_incarnation,
                                         .buf_rendezvous_key = r->key,
                                         .src_device = r->src_device,
                                         .dst_device = r->dst_device};
  weft_rpc_options_t o = {.canceller = canceller};
  ask(q, NULL, &weft_recv_buf_request_type, &request, &o, on_buf);
}

/* The leader's deadline is earlier than this call's: if this call times out, the leader does not answer. */
static weft_status_t *name_silent_leader(const group_query_t *q, weft_status_t *s) {
  const bool is_ours = q->limit_ms > 0 && weft_clock_ns() - q->began_ns >= q->limit_ms * 1000000;
  if (weft_status_code(s) != WEFT_DEADLINE_EXCEEDED || !is_ours) return s;
  weft_status_free(s);
  return WEFT_ERROR(DEADLINE_EXCEEDED,
                    "%.*s, the leader of collective groups, has not answered for %lld ms: is it running?",
                    WEFT_STR_ARGS(q->worker->task), (long long)q->limit_ms);
}

static void on_group(void *arg, weft_status_t *status, weft_message_t *response) {
  group_query_t *q = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_complete_group_response_msg_t body = {.group_key = 0};
  weft_group_t *group = NULL;
  status = name_peer(q, name_silent_leader(q, status));
  if (status == NULL)
    status = weft_fields_decode(&weft_complete_group_response_type, response, &arena, &body);
  if (status == NULL) status = weft_group_from_msg(&body, &group);
  q->fn.group(q->arg, status, group);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  question_free(q);
}

void weft_remote_worker_complete_group(weft_worker_client_t *w, weft_rpc_channel_t *channel,
                                       const weft_group_request_t *r, weft_canceller_t *canceller,
                                       weft_group_fn *fn, void *arg) {
  group_query_t *q = question_new(w, channel, METHOD("CompleteGroup"), arg);
  if (q == NULL) {
    fn(arg, no_memory(METHOD("CompleteGroup")), NULL);
    return;
  }
  q->fn.group = fn;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_complete_group_request_msg_t request;
  weft_status_t *s = weft_group_request_to_msg(r, &arena, &request);
  /* Tasks start in any order: the call waits for a leader that is not there yet, but not for one that is
   * lost. The leader's own deadline comes first. */
  const int64_t timeout_ms = r->timeout_ms > INT32_MAX ? INT32_MAX : r->timeout_ms;
  q->limit_ms = timeout_ms <= 0 ? 0 : timeout_ms + timeout_ms / 4 + 100;
  q->began_ns = weft_clock_ns();
  weft_rpc_options_t o = {
      .wait_for_ready = true, .ends_at_loss = true, .canceller = canceller, .timeout_ms = q->limit_ms};
  ask(q, s, &weft_complete_group_request_type, &request, &o, on_group);
  weft_arena_deinit(&arena);
}

static void on_instance(void *arg, weft_status_t *status, weft_message_t *response) {
  group_query_t *q = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_complete_instance_response_msg_t body = {0, 0};
  status = name_peer(q, status);
  if (status == NULL)
    status = weft_fields_decode(&weft_complete_instance_response_type, response, &arena, &body);
  if (status == NULL && (body.source_rank < -1 || body.source_rank > INT32_MAX)) {
    status = WEFT_ERROR(INVALID_ARGUMENT, "CompleteInstanceResponse: source_rank %lld",
                        (long long)body.source_rank);
  }
  q->fn.instance(q->arg, status, (int)body.source_rank);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  question_free(q);
}

void weft_remote_worker_complete_instance(weft_worker_client_t *w, weft_rpc_channel_t *channel,
                                          const weft_instance_request_t *r, weft_canceller_t *canceller,
                                          weft_instance_fn *fn, void *arg) {
  group_query_t *q = question_new(w, channel, METHOD("CompleteInstance"), arg);
  if (q == NULL) {
    fn(arg, no_memory(METHOD("CompleteInstance")), -1);
    return;
  }
  q->fn.instance = fn;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_complete_instance_request_msg_t request;
  weft_status_t *s = weft_instance_to_msg(r, &arena, &request);
  weft_rpc_options_t o = {.canceller = canceller};
  ask(q, s, &weft_complete_instance_request_type, &request, &o, on_instance);
  weft_arena_deinit(&arena);
}

/* ---- answering ---- */

static void answer_buf(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  weft_served_t *s = arg;
  weft_message_t *m = NULL;
  if (status == NULL) status = weft_buf_to_message(buf, &m);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply_message(s, m);
  }
}

void weft_serve_recv_buf(weft_worker_client_t *w, weft_served_t *s) {
  const weft_recv_buf_request_msg_t *m = s->request;
  weft_buf_request_t r = {.step_id = m->step_id,
                          .request_id = m->request_id,
                          .key = m->buf_rendezvous_key,
                          .src_device = m->src_device,
                          .dst_device = m->dst_device,
                          .bytes = m->num_bytes,
                          .src_incarnation = (uint64_t)m->src_incarnation};
  w->ops->recv_buf(w, &r, weft_served_canceller(s), answer_buf, s);
}

static void answer_group(void *arg, weft_status_t *status, weft_group_t *group) {
  weft_served_t *s = arg;
  weft_complete_group_response_msg_t response = {.group_key = 0};
  if (status == NULL) status = weft_group_to_msg(group, &s->arena, &response);
  weft_served_answer(s, status, &weft_complete_group_response_type, &response);
  weft_group_release(group);
}

void weft_serve_complete_group(weft_worker_client_t *w, weft_served_t *s) {
  weft_group_request_t r;
  weft_status_t *status = weft_group_request_from_msg(s->request, &s->arena, &r);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    w->ops->complete_group(w, &r, weft_served_canceller(s), answer_group, s);
  }
}

static void answer_instance(void *arg, weft_status_t *status, int source_rank) {
  weft_served_t *s = arg;
  const weft_complete_instance_request_msg_t *m = s->request;
  weft_complete_instance_response_msg_t response = {m->instance_key, source_rank};
  weft_served_answer(s, status, &weft_complete_instance_response_type, &response);
}

void weft_serve_complete_instance(weft_worker_client_t *w, weft_served_t *s) {
  weft_instance_request_t r;
  weft_status_t *status = weft_instance_from_msg(s->request, &r);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    w->ops->complete_instance(w, &r, weft_served_canceller(s), answer_instance, s);
  }
}
