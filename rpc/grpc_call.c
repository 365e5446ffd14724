/* rpc/grpc_call.c - one call that gRPC brings.
 *
 * Its states, and the holders of the object (`refs`) in each:
 *
 *   1. weft_rpc_call_await   asks gRPC for the next call of a method.              gRPC holds the object by
 * `arrived`
 *   2. on_arrived            a call is here, with its payload; the next is awaited. The handler's and the
 * closing operation's references are made, the closing operation (`closed`) is started.
 *   3. handler               runs on the loop thread, keeps the call as long as it likes.   handler holds one
 *      on_closed             the call is over, or the peer went away: cancels.              `closed` gives
 * its one back
 *   4. reply, fail           first metadata, message and status go out in one operation (`answered`), which
 * takes the handler's reference over.
 *   5. on_answered           they are on their way.                                        gives it back
 *   6. the last reference    frees the object, and tells a server that waits for its end.
 *
 * on_closed may come before, during or after 4. When the server stops, step 1 ends with ok == false.
 */
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/arguments.h"
#include "rpc/call.h"
#include "rpc/slices.h"

typedef struct grpc_served {
  weft_rpc_call_t base;
  weft_rpc_tag_t arrived, closed, answered;
  atomic_int refs;
  grpc_call *call; /* owned; NULL until step 2 */
  grpc_metadata_array metadata;
  grpc_call_details details; /* of a call of an unknown method */
  gpr_timespec deadline;
  grpc_byte_buffer *payload; /* owned until the request is made of it */
  weft_unread_answer_t unread;
  char *peer;       /* owned by gpr; NULL until asked for */
  int is_cancelled; /* written by gRPC before on_closed */
} grpc_served_t;

static void call_unref(grpc_served_t *c) {
  if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  weft_rpc_intake_t *intake = c->base.method->intake;
  weft_message_destroy(c->base.request);
  grpc_byte_buffer_destroy(c->payload);
  weft_canceller_release(c->base.canceller);
  gpr_free(c->peer);
  grpc_metadata_array_destroy(&c->metadata);
  grpc_call_details_destroy(&c->details);
  if (c->call != NULL) grpc_call_unref(c->call);
  weft_free(c);
  weft_rpc_intake_leave(intake);
}

static void on_answered(weft_rpc_tag_t *tag, bool ok) {
  (void)ok; /* false: the peer went away */
  grpc_served_t *c = (grpc_served_t *)(void *)((char *)tag - offsetof(grpc_served_t, answered));
  weft_unread_remove(c->base.method->intake->unread, &c->unread);
  call_unref(c);
}

static void on_closed(weft_rpc_tag_t *tag, bool ok) {
  (void)ok; /* always true */
  grpc_served_t *c = (grpc_served_t *)(void *)((char *)tag - offsetof(grpc_served_t, closed));
  if (c->is_cancelled) weft_canceller_cancel(c->base.canceller);
  call_unref(c);
}

/* Ends a call with what the operations of `ops` send. Takes the handler's reference:
 * once the batch has started, the call may be gone. */
static void answer(grpc_served_t *c, const grpc_op *ops, size_t num_ops) {
  weft_message_t *request = c->base.request;
  c->base.request = NULL;
  grpc_call *impl = c->call;
  weft_rpc_tag_arm(&c->answered); /* from here on the call may be gone */
  grpc_call_error error = grpc_call_start_batch(impl, ops, num_ops, &c->answered, NULL);
  weft_message_destroy(request); /* a large feed need not wait until the answer is read */
  if (error == GRPC_CALL_OK) return;
  weft_log(WEFT_LOG_ERROR, "rpc: cannot answer %s: %s", c->base.method->path,
           grpc_call_error_to_string(error));
  grpc_call_cancel(c->call, NULL);
  weft_unread_remove(c->base.method->intake->unread, &c->unread);
  call_unref(c);
}

static const char *peer_of(weft_rpc_call_t *base) {
  grpc_served_t *c = (grpc_served_t *)(void *)base;
  if (c->peer == NULL) c->peer = grpc_call_get_peer(c->call);
  return c->peer == NULL ? "unknown" : c->peer;
}

static int64_t deadline_of(weft_rpc_call_t *base) {
  const grpc_served_t *c = (grpc_served_t *)(void *)base;
  gpr_timespec future = gpr_inf_future(c->deadline.clock_type);
  if (gpr_time_cmp(c->deadline, future) >= 0) return INT64_MAX;
  gpr_timespec left = gpr_time_sub(c->deadline, gpr_now(c->deadline.clock_type));
  if (left.tv_sec > INT64_MAX / 2000000000) return INT64_MAX;
  if (left.tv_sec < -INT32_MAX) return 0;
  return weft_clock_ns() + left.tv_sec * 1000000000 + left.tv_nsec;
}

static void reply(weft_rpc_call_t *base, weft_message_t *response) {
  grpc_served_t *c = (grpc_served_t *)(void *)base;
  const size_t bytes = weft_message_bytes(response);
  weft_status_t *s = NULL;
  if (bytes >= WEFT_UNREAD_SMALL)
    s = weft_unread_add(base->method->intake->unread, &c->unread, c->call, peer_of(base), bytes);
  if (s != NULL) {
    weft_message_destroy(response);
    weft_rpc_fail(base, s);
    return;
  }
  grpc_byte_buffer *buffer = weft_message_to_buffer(response);
  weft_message_destroy(response);
  grpc_op ops[3];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = buffer;
  ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
  answer(c, ops, 3);
  grpc_byte_buffer_destroy(buffer); /* gRPC has its own references to the slices */
}

/* The trailer by which TensorFlow's masters know that a peer was restarted: a GrpcPayloadContainer
 * {map<string, bytes> payloads = 1} with one entry, whose value is an empty message. */
static const char restarted_payload[] =
    "\x0a\x4e\x0a\x4a"
    "type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted"
    "\x12\x00";

static void fail(weft_rpc_call_t *base, weft_status_t *status) {
  grpc_served_t *c = (grpc_served_t *)(void *)base;
  char message[WEFT_STATUS_WIRE_BYTES +
               1]; /* it travels in HTTP/2 trailers, for which peers keep little room */
  size_t length = weft_status_copy_text(weft_status_message(status), message, sizeof message);
  grpc_slice text = grpc_slice_from_copied_buffer(message, length);
  grpc_op ops[2];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[1].data.send_status_from_server.status = (grpc_status_code)weft_status_code(status);
  ops[1].data.send_status_from_server.status_details = &text;
  grpc_metadata trailers[2];
  memset(trailers, 0, sizeof trailers);
  trailers[0].key = grpc_slice_from_static_string(WEFT_RPC_ANSWERED);
  trailers[0].value = grpc_slice_from_static_string("1");
  trailers[1].key = grpc_slice_from_static_string("grpc-status-details-bin");
  trailers[1].value = grpc_slice_from_static_buffer(restarted_payload, sizeof restarted_payload - 1);
  ops[1].data.send_status_from_server.trailing_metadata = trailers;
  ops[1].data.send_status_from_server.trailing_metadata_count = weft_status_is_restarted(status) ? 2 : 1;
  answer(c, ops, 2);
  grpc_slice_unref(text);
  weft_status_free(status);
}

/* Step 2, after the books are in order: the request, the canceller, the operation that tells of the end. */
static weft_status_t *accept_call(grpc_served_t *c) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  op.data.recv_close_on_server.cancelled = &c->is_cancelled;
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  weft_rpc_tag_arm(&c->closed);
  grpc_call_error error = grpc_call_start_batch(c->call, &op, 1, &c->closed, NULL);
  if (error != GRPC_CALL_OK) {
    call_unref(c);
    return WEFT_ERROR(INTERNAL, "cannot watch a call of %s: %s", c->base.method->path,
                      grpc_call_error_to_string(error));
  }
  grpc_byte_buffer *payload = c->payload;
  c->payload = NULL;
  if (c->base.method->registered != NULL && payload == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s was called without a message", c->base.method->path);
  return weft_message_from_buffer(payload, &c->base.request);
}

static void on_arrived(weft_rpc_tag_t *tag, bool ok) {
  grpc_served_t *c = (grpc_served_t *)(void *)((char *)tag - offsetof(grpc_served_t, arrived));
  if (!ok) { /* the server stops */
    call_unref(c);
    return;
  }
  weft_rpc_call_await(c->base.method);
  weft_status_t *s = NULL;
  c->base.canceller = weft_canceller_create(NULL); /* before on_closed can come */
  if (c->base.canceller == NULL) s = WEFT_NO_MEMORY("accepting %s", c->base.method->path);
  if (s == NULL) s = accept_call(c);
  if (s != NULL) {
    weft_rpc_fail(&c->base, s);
  } else if (c->base.method->registered == NULL) {
    weft_str_t path = weft_str_of((const char *)GRPC_SLICE_START_PTR(c->details.method),
                                  GRPC_SLICE_LENGTH(c->details.method));
    if (path.length > 200) path.length = 200;
    weft_rpc_fail(&c->base,
                  WEFT_ERROR(UNIMPLEMENTED, "no method '%.*s' is served here", WEFT_STR_ARGS(path)));
  } else {
    c->base.method->fn(c->base.method->arg, &c->base);
  }
}

static const weft_rpc_call_ops_t call_ops = {
    .peer = peer_of, .deadline_ns = deadline_of, .reply = reply, .fail = fail};

void weft_rpc_call_await(weft_rpc_method_t *method) {
  weft_rpc_intake_t *in = method->intake;
  if (!weft_rpc_intake_enter(in)) return;
  grpc_served_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) {
    weft_log(WEFT_LOG_ERROR, "rpc: out of memory while waiting for a call of %s", method->path);
    weft_rpc_intake_leave(in);
    return;
  }
  c->base.ops = &call_ops;
  c->arrived.done = on_arrived;
  c->closed.done = on_closed;
  c->answered.done = on_answered;
  c->base.method = method;
  c->deadline = gpr_inf_future(GPR_CLOCK_REALTIME);
  grpc_metadata_array_init(&c->metadata);
  grpc_call_details_init(&c->details);
  atomic_init(&c->refs, 1);
  weft_rpc_tag_arm(&c->arrived);
  grpc_call_error error =
      method->registered != NULL
          ? grpc_server_request_registered_call(in->impl, method->registered, &c->call, &c->deadline,
                                                &c->metadata, &c->payload, in->queue, in->queue, &c->arrived)
          : grpc_server_request_call(in->impl, &c->call, &c->details, &c->metadata, in->queue, in->queue,
                                     &c->arrived);
  if (error != GRPC_CALL_OK) {
    weft_log(WEFT_LOG_ERROR, "rpc: cannot wait for calls of %s: %s", method->path,
             grpc_call_error_to_string(error));
    call_unref(c);
  }
}
