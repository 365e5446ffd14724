/* tests/fuzz/rpc_decode_fuzz.c - what masters and workers read off the wire: RecvTensor and RecvTensors both
 * ways, RunStep, RunGraph.
 */
#include "base/alloc.h"
#include "rpc/message_reader.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    /* RunStepRequest, RunGraphRequest, RecvTensorResponse, MakeCallableRequest as protobuf's own library
       writes them */
    WEFT_FUZZ_BYTES(
        "\x0a\x03"
        "abc\x12\x11\x0a\x03x:0\x12\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x00\x40\x1a\x03y:0\x1a\x03z:1"
        "\x22\x04init\x2a\x12\x08\x03\x10\xdc\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x01"
        "\x32\x01\x37\x38\x01\x40\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    WEFT_FUZZ_BYTES("\x0a\x02g1\x10\x94\xb4\xe4\xf4\xcb\x03\x1a\x10\x0a\x02k0\x12\x0a\x08\x01\x12\x00\x22\x04"
                    "\x00\x00\x80\x3f"
                    "\x22\x02k1\x22\x02k2\x2a\x02\x18\x01\x30\x01\x42\x01s\x48\x01\x50\x01\x58\x63"),
    WEFT_FUZZ_BYTES("\x0a\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x60\x40\x18\x4d"),
    WEFT_FUZZ_BYTES("\x10\x01\x18\x4d\x0a\x0e\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01"
                    "a\x42\x01"
                    "b\x28\x01"),
    WEFT_FUZZ_BYTES("\x08\x07\x12\x03key\x32\x3b\x0a\x27type.googleapis.com/"
                    "weft.LocalTransport\x12\x10\x0a\x04host\x11\x01"
                    "\x02\x03\x04\x05\x06\x07\x08\x20\x01\x38\x05"),
    WEFT_FUZZ_BYTES("\x0a\x01s\x12\x2c\x0a\x03"
                    "a:0\x12\x03"
                    "b:0\x1a\x01t\x22\x02\x10\x09\x2a\x0a\x0a\x03p:0\x12\x03q:0\x32\x0d\x0a\x03"
                    "a:0\x12\x06/cpu:0\x18\x04"),
    /* RecvTensorsRequest and RecvTensorsResponse */
    WEFT_FUZZ_BYTES("\x08\x07\x10\x63\x1a\x02k0\x1a\x02k1"),
    WEFT_FUZZ_BYTES(
        "\x0a\x02\x00\x02\x12\x02\x00\x01\x18\x4d\x22\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x60\x40"),
    WEFT_FUZZ_END,
};

typedef union any_struct {
  weft_run_step_request_msg_t run_step;
  weft_run_step_response_msg_t run_step_response;
  weft_run_callable_request_msg_t run_callable;
  weft_make_callable_request_msg_t make_callable;
  weft_callable_options_msg_t callable_options;
  weft_run_graph_request_msg_t run_graph;
  weft_run_graph_response_msg_t run_graph_response;
  weft_recv_tensor_request_msg_t recv_tensor;
  weft_recv_tensor_response_msg_t recv_tensor_response;
  weft_recv_tensors_request_msg_t recv_tensors;
  weft_recv_tensors_response_msg_t recv_tensors_response;
} any_struct_t;

static const weft_message_type_t *const types[] = {
    &weft_run_step_request_type,      &weft_run_step_response_type,     &weft_run_callable_request_type,
    &weft_make_callable_request_type, &weft_callable_options_type,      &weft_run_graph_request_type,
    &weft_run_graph_response_type,    &weft_recv_tensor_request_type,   &weft_recv_tensor_response_type,
    &weft_recv_tensors_request_type,  &weft_recv_tensors_response_type,
};

/* The bytes in pieces of `step`. NULL without memory. */
static weft_message_t *cut(const uint8_t *data, size_t size, size_t step) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  for (size_t at = 0; at < size && s == NULL; at += step) {
    size_t n = size - at < step ? size - at : step;
    s = weft_message_append(m, weft_str_of((const char *)data + at, n));
  }
  weft_fuzz_check(s == NULL, "a message cannot be made");
  return m;
}

/* What was read can be written, and reads back to the same bytes. */
static void check_there_and_back(const weft_message_type_t *type, const void *decoded) {
  weft_message_t *first = NULL, *second = NULL;
  weft_arena_t arena = WEFT_ARENA_INIT;
  any_struct_t again;
  memset(&again, 0, sizeof again);
  weft_str_t a, b;
  weft_status_t *s = weft_fields_encode(type, decoded, &first);
  if (s == NULL) s = weft_fields_decode(type, first, &arena, &again);
  if (s == NULL) s = weft_fields_encode(type, &again, &second);
  if (s == NULL) s = weft_message_flatten(first, &a);
  if (s == NULL) s = weft_message_flatten(second, &b);
  weft_fuzz_check(s == NULL && weft_str_eq(a, b), "a message changes when it is written and read");
  weft_fields_release(type, &again);
  weft_message_destroy(first);
  weft_message_destroy(second);
  weft_arena_deinit(&arena);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  size_t step = size > 0 ? (size_t)data[size - 1] % 24 + 1 : 1; /* the cuts come from the input, too */
  weft_message_t *whole = cut(data, size, size + 1), *pieces = cut(data, size, step);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    any_struct_t one, other;
    memset(&one, 0, sizeof one);
    memset(&other, 0, sizeof other);
    weft_status_t *a = weft_fields_decode(types[i], whole, &arena, &one);
    weft_status_t *b = weft_fields_decode(types[i], pieces, &arena, &other);
    weft_fuzz_check(weft_status_code(a) == weft_status_code(b), "cuts change what a message is");
    if (a == NULL) check_there_and_back(types[i], &other);
    weft_local_transport_msg_t local;
    memset(&local, 0, sizeof local);
    if (types[i] == &weft_recv_tensor_request_type)
      (void)weft_local_transport_from_any(one.recv_tensor.transport_options, &arena, &local);
    weft_status_free(a);
    weft_status_free(b);
    weft_fields_release(types[i], &one);
    weft_fields_release(types[i], &other);
    weft_arena_deinit(&arena);
  }
  weft_message_destroy(whole);
  weft_message_destroy(pieces);
}
