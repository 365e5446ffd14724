/* services/master_codec.h - the messages of tensorflow.MasterService as plain structs.
 *
 * Source: TensorFlow's master.proto, and CallableOptions and RunOptions of config.proto; only the fields that
 * we read or write.
 */
#ifndef WEFT_SERVICES_MASTER_CODEC_H_
#define WEFT_SERVICES_MASTER_CODEC_H_

#include "master/master_client.h"
#include "rpc/fields.h"

/* Responses without fields. */
typedef struct weft_nothing_msg {
  char unused;
} weft_nothing_msg_t;
extern const weft_message_type_t weft_nothing_type;

typedef struct weft_create_session_msg {
  weft_str_t graph_def, config, target, client; /* client: ours; other masters skip it */
} weft_create_session_msg_t;
extern const weft_message_type_t weft_create_session_type;

typedef struct weft_create_session_response_msg {
  weft_str_t session;
  int64_t version;
  weft_str_t master_task; /* Weft's own */
} weft_create_session_response_msg_t;
extern const weft_message_type_t weft_create_session_response_type;

typedef struct weft_extend_session_msg {
  weft_str_t session, graph_def;
  int64_t version;
} weft_extend_session_msg_t;
extern const weft_message_type_t weft_extend_session_type;

typedef struct weft_extend_session_response_msg {
  int64_t version;
} weft_extend_session_response_msg_t;
extern const weft_message_type_t weft_extend_session_response_type;

typedef struct weft_run_step_msg {
  weft_str_t session, partial_run_handle, options;
  weft_tensors_t feeds;
  weft_texts_t fetches, targets;
  bool errors_in_body;
  int64_t request_id;
} weft_run_step_msg_t;
extern const weft_message_type_t weft_run_step_type;

typedef struct weft_run_step_response_msg {
  weft_tensors_t tensors;
  weft_str_t metadata, message;
  int64_t code;
} weft_run_step_response_msg_t;
extern const weft_message_type_t weft_run_step_response_type;

typedef struct weft_run_options_fields {
  int64_t trace_level, timeout_ms;
  bool output_partition_graphs;
  weft_str_t experimental; /* weft_run_options_experimental_t */
} weft_run_options_fields_t;
typedef struct weft_run_options_experimental {
  int64_t collective_graph_key;
} weft_run_options_experimental_t;
extern const weft_message_type_t weft_run_options_type;

typedef struct weft_partial_run_setup_msg {
  weft_str_t session;
  weft_texts_t feeds, fetches, targets;
  int64_t request_id;
} weft_partial_run_setup_msg_t;
extern const weft_message_type_t weft_partial_run_setup_type;

typedef struct weft_partial_run_setup_response_msg {
  weft_str_t handle;
} weft_partial_run_setup_response_msg_t;
extern const weft_message_type_t weft_partial_run_setup_response_type;

typedef struct weft_session_msg { /* CloseSession, ListDevices */
  weft_str_t session;
} weft_session_msg_t;
extern const weft_message_type_t weft_close_session_type;
extern const weft_message_type_t weft_list_devices_type;

typedef struct weft_hold_client_msg { /* weft.MasterService: ours; the answer has no fields */
  weft_str_t client;
} weft_hold_client_msg_t;
extern const weft_message_type_t weft_hold_client_type;
#define WEFT_HOLD_CLIENT_METHOD "/weft.MasterService/HoldClient"

typedef struct weft_list_devices_response_msg {
  weft_texts_t local, remote; /* DeviceAttributes */
} weft_list_devices_response_msg_t;
extern const weft_message_type_t weft_list_devices_response_type;

typedef struct weft_reset_msg {
  weft_texts_t containers, filters;
} weft_reset_msg_t;
extern const weft_message_type_t weft_reset_type;

typedef struct weft_make_callable_msg {
  weft_str_t session, options;
  int64_t request_id;
} weft_make_callable_msg_t;
extern const weft_message_type_t weft_make_callable_type;

typedef struct weft_callable_options_msg {
  weft_texts_t feeds, fetches, targets, connections, feed_devices, fetch_devices;
  weft_str_t run_options;
} weft_callable_options_msg_t;
extern const weft_message_type_t weft_callable_options_type;

typedef struct weft_connection_msg {
  weft_str_t from, to;
} weft_connection_msg_t;
extern const weft_message_type_t weft_connection_type;

typedef struct weft_callable_handle_msg { /* MakeCallableResponse, ReleaseCallable */
  weft_str_t session;
  int64_t handle;
} weft_callable_handle_msg_t;
extern const weft_message_type_t weft_make_callable_response_type;
extern const weft_message_type_t weft_release_callable_type;

typedef struct weft_run_callable_msg {
  weft_str_t session;
  int64_t handle, request_id;
  weft_tensors_t feeds;
} weft_run_callable_msg_t;
extern const weft_message_type_t weft_run_callable_type;

typedef struct weft_run_callable_response_msg {
  weft_tensors_t fetches;
  weft_str_t metadata;
} weft_run_callable_response_msg_t;
extern const weft_message_type_t weft_run_callable_response_type;

/* RunOptions, both ways. */
WEFT_MUST_CHECK weft_status_t *weft_run_options_from_bytes(weft_str_t bytes, weft_arena_t *arena,
                                                           weft_run_options_msg_t *out);
void weft_run_options_to_bytes(const weft_run_options_msg_t *o, weft_strbuf_t *out);

#endif /* WEFT_SERVICES_MASTER_CODEC_H_ */
