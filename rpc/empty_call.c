/* rpc/empty_call.c - a server and a client of one method without a message's content. */
#include "rpc/empty_call.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define METHOD "/weft.Floor/Empty"

enum { WARM_UP = 200, LOOK_NS = 40000 };

static grpc_channel_args *arguments(void) {
  static grpc_arg table[] = {
      {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_MINIMAL_STACK, .value.integer = 1},
  };
  static grpc_channel_args args = {sizeof table / sizeof table[0], table};
  return &args;
}

/* ---- the server ---- */

typedef struct empty_server {
  grpc_server *server;
  grpc_completion_queue *queue;
  void *method;
} empty_server_t;

/* Answers one call: it has come with its message; the answer and the end go in one batch. */
static void answer(const empty_server_t *s, grpc_call *call, grpc_byte_buffer *nothing) {
  int cancelled = 0;
  const grpc_op ops[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = nothing},
      {.op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server.status = GRPC_STATUS_OK},
      {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled},
  };
  if (grpc_call_start_batch(call, ops, sizeof ops / sizeof ops[0], call, NULL) == GRPC_CALL_OK)
    (void)grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  grpc_call_unref(call);
}

static void *serve(void *arg) {
  const empty_server_t *s = arg;
  grpc_byte_buffer *nothing = grpc_raw_byte_buffer_create(NULL, 0);
  for (;;) {
    grpc_call *call = NULL;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload = NULL;
    gpr_timespec deadline;
    grpc_metadata_array_init(&metadata);
    if (grpc_server_request_registered_call(s->server, s->method, &call, &deadline, &metadata, &payload,
                                            s->queue, s->queue, NULL) != GRPC_CALL_OK)
      return NULL;
    grpc_event e = grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    if (e.success != 0) answer(s, call, nothing);
    grpc_byte_buffer_destroy(payload);
    grpc_metadata_array_destroy(&metadata);
  }
}

weft_status_t *weft_rpc_empty_call_serve(int to, int until) {
  static empty_server_t s;
  pthread_t thread;
  char end;
  grpc_init();
  s.queue = grpc_completion_queue_create_for_next(NULL);
  s.server = grpc_server_create(arguments(), NULL);
  s.method =
      grpc_server_register_method(s.server, METHOD, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
  grpc_server_register_completion_queue(s.server, s.queue, NULL);
  grpc_server_credentials *open = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(s.server, "127.0.0.1:0", open);
  grpc_server_credentials_release(open);
  if (port == 0) return WEFT_ERROR(INTERNAL, "gRPC finds no free port");
  grpc_server_start(s.server);
  if (pthread_create(&thread, NULL, serve, &s) != 0) return WEFT_ERROR(INTERNAL, "cannot start a thread");
  if (write(to, &port, sizeof port) == (ssize_t)sizeof port) (void)!read(until, &end, 1);
  return NULL;
}

/* ---- the client ---- */

static void await(grpc_completion_queue *queue, void *tag) {
  int64_t until = weft_clock_ns() + LOOK_NS;
  while (weft_clock_ns() < until) {
    if (grpc_completion_queue_pluck(queue, tag, gpr_inf_past(GPR_CLOCK_REALTIME), NULL).type ==
        GRPC_OP_COMPLETE)
      return;
  }
  grpc_completion_queue_pluck(queue, tag, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

static grpc_status_code call_once(grpc_channel *channel, grpc_completion_queue *queue, void *method,
                                  grpc_byte_buffer *nothing) {
  grpc_metadata_array initial, trailing;
  grpc_byte_buffer *received = NULL;
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  grpc_slice details = grpc_empty_slice();
  grpc_metadata_array_init(&initial);
  grpc_metadata_array_init(&trailing);
  grpc_call *call = grpc_channel_create_registered_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, method,
                                                        gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  const grpc_op ops[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA, .flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = nothing},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received},
      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
       .data.recv_status_on_client = {.trailing_metadata = &trailing,
                                      .status = &code,
                                      .status_details = &details}},
  };
  if (grpc_call_start_batch(call, ops, sizeof ops / sizeof ops[0], call, NULL) == GRPC_CALL_OK)
    await(queue, call);
  grpc_byte_buffer_destroy(received);
  grpc_metadata_array_destroy(&initial);
  grpc_metadata_array_destroy(&trailing);
  grpc_slice_unref(details);
  grpc_call_unref(call);
  return code;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

weft_status_t *weft_rpc_empty_call_measure(int port, int num_calls, double *out_ns) {
  char target[32];
  int64_t *ns = weft_calloc((size_t)num_calls, sizeof *ns);
  if (ns == NULL) return WEFT_NO_MEMORY("%d times", num_calls);
  snprintf(target, sizeof target, "127.0.0.1:%d", port);
  grpc_init();
  grpc_channel_credentials *open = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, open, arguments());
  grpc_channel_credentials_release(open);
  grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
  void *method = grpc_channel_register_call(channel, METHOD, NULL, NULL);
  grpc_byte_buffer *nothing = grpc_raw_byte_buffer_create(NULL, 0);
  grpc_status_code code = GRPC_STATUS_OK;
  for (int i = -WARM_UP; i < num_calls && code == GRPC_STATUS_OK; i++) {
    int64_t began = weft_clock_ns();
    code = call_once(channel, queue, method, nothing);
    if (i >= 0) ns[i] = weft_clock_ns() - began;
  }
  grpc_byte_buffer_destroy(nothing);
  grpc_channel_destroy(channel);
  grpc_completion_queue_shutdown(queue);
  grpc_completion_queue_destroy(queue);
  grpc_shutdown();
  qsort(ns, (size_t)num_calls, sizeof *ns, compare);
  const int64_t median = ns[num_calls / 2];
  *out_ns = (double)median;
  weft_free(ns);
  return code == GRPC_STATUS_OK ? NULL
                                : WEFT_ERROR(UNAVAILABLE, "an empty call ended with code %d", (int)code);
}
