/* services/master_codec.c - the tables of MasterService's messages: number, kind, name, member. */
#include "services/master_codec.h"

const weft_message_type_t weft_nothing_type = {"message without fields", NULL, 0};

static const weft_field_t create_session[] = {
    {1, WEFT_FIELD_BYTES, "graph_def", offsetof(weft_create_session_msg_t, graph_def)},
    {2, WEFT_FIELD_BYTES, "config", offsetof(weft_create_session_msg_t, config)},
    {3, WEFT_FIELD_TEXT, "target", offsetof(weft_create_session_msg_t, target)},
    {1001, WEFT_FIELD_TEXT, "weft_client", offsetof(weft_create_session_msg_t, client)},
};
const weft_message_type_t weft_create_session_type =
    WEFT_MESSAGE_TYPE("CreateSessionRequest", create_session);

static const weft_field_t create_session_response[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_create_session_response_msg_t, session)},
    {2, WEFT_FIELD_I64, "graph_version", offsetof(weft_create_session_response_msg_t, version)},
    {1001, WEFT_FIELD_TEXT, "master_task", offsetof(weft_create_session_response_msg_t, master_task)},
};
const weft_message_type_t weft_create_session_response_type =
    WEFT_MESSAGE_TYPE("CreateSessionResponse", create_session_response);

static const weft_field_t extend_session[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_extend_session_msg_t, session)},
    {2, WEFT_FIELD_BYTES, "graph_def", offsetof(weft_extend_session_msg_t, graph_def)},
    {3, WEFT_FIELD_I64, "current_graph_version", offsetof(weft_extend_session_msg_t, version)},
};
const weft_message_type_t weft_extend_session_type =
    WEFT_MESSAGE_TYPE("ExtendSessionRequest", extend_session);

static const weft_field_t extend_session_response[] = {
    {4, WEFT_FIELD_I64, "new_graph_version", offsetof(weft_extend_session_response_msg_t, version)},
};
const weft_message_type_t weft_extend_session_response_type =
    WEFT_MESSAGE_TYPE("ExtendSessionResponse", extend_session_response);

static const weft_field_t run_step[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_run_step_msg_t, session)},
    {2, WEFT_FIELD_NAMED_TENSORS, "feed", offsetof(weft_run_step_msg_t, feeds)},
    {3, WEFT_FIELD_TEXTS, "fetch", offsetof(weft_run_step_msg_t, fetches)},
    {4, WEFT_FIELD_TEXTS, "target", offsetof(weft_run_step_msg_t, targets)},
    {5, WEFT_FIELD_BYTES, "options", offsetof(weft_run_step_msg_t, options)},
    {6, WEFT_FIELD_TEXT, "partial_run_handle", offsetof(weft_run_step_msg_t, partial_run_handle)},
    {7, WEFT_FIELD_BOOL, "store_errors_in_response_body", offsetof(weft_run_step_msg_t, errors_in_body)},
    {8, WEFT_FIELD_I64, "request_id", offsetof(weft_run_step_msg_t, request_id)},
};
const weft_message_type_t weft_run_step_type = WEFT_MESSAGE_TYPE("RunStepRequest", run_step);

static const weft_field_t run_step_response[] = {
    {1, WEFT_FIELD_NAMED_TENSORS, "tensor", offsetof(weft_run_step_response_msg_t, tensors)},
    {2, WEFT_FIELD_BYTES, "metadata", offsetof(weft_run_step_response_msg_t, metadata)},
    {3, WEFT_FIELD_I64, "status_code", offsetof(weft_run_step_response_msg_t, code)},
    {4, WEFT_FIELD_TEXT, "status_error_message", offsetof(weft_run_step_response_msg_t, message)},
};
const weft_message_type_t weft_run_step_response_type =
    WEFT_MESSAGE_TYPE("RunStepResponse", run_step_response);

static const weft_field_t run_options[] = {
    {1, WEFT_FIELD_I64, "trace_level", offsetof(weft_run_options_fields_t, trace_level)},
    {2, WEFT_FIELD_I64, "timeout_in_ms", offsetof(weft_run_options_fields_t, timeout_ms)},
    {5, WEFT_FIELD_BOOL, "output_partition_graphs",
     offsetof(weft_run_options_fields_t, output_partition_graphs)},
    {8, WEFT_FIELD_BYTES, "experimental", offsetof(weft_run_options_fields_t, experimental)},
};
static const weft_field_t run_options_experimental[] = {
    {1, WEFT_FIELD_I64, "collective_graph_key",
     offsetof(weft_run_options_experimental_t, collective_graph_key)},
};
static const weft_message_type_t experimental_type =
    WEFT_MESSAGE_TYPE("RunOptions.Experimental", run_options_experimental);
const weft_message_type_t weft_run_options_type = WEFT_MESSAGE_TYPE("RunOptions", run_options);

static const weft_field_t partial_run_setup[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_partial_run_setup_msg_t, session)},
    {2, WEFT_FIELD_TEXTS, "feed", offsetof(weft_partial_run_setup_msg_t, feeds)},
    {3, WEFT_FIELD_TEXTS, "fetch", offsetof(weft_partial_run_setup_msg_t, fetches)},
    {4, WEFT_FIELD_TEXTS, "target", offsetof(weft_partial_run_setup_msg_t, targets)},
    {5, WEFT_FIELD_I64, "request_id", offsetof(weft_partial_run_setup_msg_t, request_id)},
};
const weft_message_type_t weft_partial_run_setup_type =
    WEFT_MESSAGE_TYPE("PartialRunSetupRequest", partial_run_setup);

static const weft_field_t partial_run_setup_response[] = {
    {1, WEFT_FIELD_TEXT, "partial_run_handle", offsetof(weft_partial_run_setup_response_msg_t, handle)},
};
const weft_message_type_t weft_partial_run_setup_response_type =
    WEFT_MESSAGE_TYPE("PartialRunSetupResponse", partial_run_setup_response);

static const weft_field_t session[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_session_msg_t, session)},
};
const weft_message_type_t weft_close_session_type = WEFT_MESSAGE_TYPE("CloseSessionRequest", session);
const weft_message_type_t weft_list_devices_type = WEFT_MESSAGE_TYPE("ListDevicesRequest", session);

static const weft_field_t hold_client[] = {
    {1, WEFT_FIELD_TEXT, "client", offsetof(weft_hold_client_msg_t, client)},
};
const weft_message_type_t weft_hold_client_type = WEFT_MESSAGE_TYPE("HoldClientRequest", hold_client);

static const weft_field_t list_devices_response[] = {
    {1, WEFT_FIELD_MESSAGES, "local_device", offsetof(weft_list_devices_response_msg_t, local)},
    {2, WEFT_FIELD_MESSAGES, "remote_device", offsetof(weft_list_devices_response_msg_t, remote)},
};
const weft_message_type_t weft_list_devices_response_type =
    WEFT_MESSAGE_TYPE("ListDevicesResponse", list_devices_response);

static const weft_field_t reset[] = {
    {1, WEFT_FIELD_TEXTS, "container", offsetof(weft_reset_msg_t, containers)},
    {2, WEFT_FIELD_TEXTS, "device_filters", offsetof(weft_reset_msg_t, filters)},
};
const weft_message_type_t weft_reset_type = WEFT_MESSAGE_TYPE("ResetRequest", reset);

static const weft_field_t make_callable[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_make_callable_msg_t, session)},
    {2, WEFT_FIELD_BYTES, "options", offsetof(weft_make_callable_msg_t, options)},
    {3, WEFT_FIELD_I64, "request_id", offsetof(weft_make_callable_msg_t, request_id)},
};
const weft_message_type_t weft_make_callable_type = WEFT_MESSAGE_TYPE("MakeCallableRequest", make_callable);

static const weft_field_t callable_options[] = {
    {1, WEFT_FIELD_TEXTS, "feed", offsetof(weft_callable_options_msg_t, feeds)},
    {2, WEFT_FIELD_TEXTS, "fetch", offsetof(weft_callable_options_msg_t, fetches)},
    {3, WEFT_FIELD_TEXTS, "target", offsetof(weft_callable_options_msg_t, targets)},
    {4, WEFT_FIELD_BYTES, "run_options", offsetof(weft_callable_options_msg_t, run_options)},
    {5, WEFT_FIELD_MESSAGES, "tensor_connection", offsetof(weft_callable_options_msg_t, connections)},
    {6, WEFT_FIELD_MESSAGES, "feed_devices", offsetof(weft_callable_options_msg_t, feed_devices)},
    {7, WEFT_FIELD_MESSAGES, "fetch_devices", offsetof(weft_callable_options_msg_t, fetch_devices)},
};
const weft_message_type_t weft_callable_options_type =
    WEFT_MESSAGE_TYPE("MakeCallableRequest.options", callable_options);

static const weft_field_t connection[] = {
    {1, WEFT_FIELD_TEXT, "from_tensor", offsetof(weft_connection_msg_t, from)},
    {2, WEFT_FIELD_TEXT, "to_tensor", offsetof(weft_connection_msg_t, to)},
};
const weft_message_type_t weft_connection_type = WEFT_MESSAGE_TYPE("TensorConnection", connection);

static const weft_field_t make_callable_response[] = {
    {1, WEFT_FIELD_I64, "handle", offsetof(weft_callable_handle_msg_t, handle)},
};
const weft_message_type_t weft_make_callable_response_type =
    WEFT_MESSAGE_TYPE("MakeCallableResponse", make_callable_response);

static const weft_field_t release_callable[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_callable_handle_msg_t, session)},
    {2, WEFT_FIELD_I64, "handle", offsetof(weft_callable_handle_msg_t, handle)},
};
const weft_message_type_t weft_release_callable_type =
    WEFT_MESSAGE_TYPE("ReleaseCallableRequest", release_callable);

static const weft_field_t run_callable[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_run_callable_msg_t, session)},
    {2, WEFT_FIELD_I64, "handle", offsetof(weft_run_callable_msg_t, handle)},
    {3, WEFT_FIELD_TENSORS, "feed", offsetof(weft_run_callable_msg_t, feeds)},
    {4, WEFT_FIELD_I64, "request_id", offsetof(weft_run_callable_msg_t, request_id)},
};
const weft_message_type_t weft_run_callable_type = WEFT_MESSAGE_TYPE("RunCallableRequest", run_callable);

static const weft_field_t run_callable_response[] = {
    {1, WEFT_FIELD_TENSORS, "fetch", offsetof(weft_run_callable_response_msg_t, fetches)},
    {2, WEFT_FIELD_BYTES, "metadata", offsetof(weft_run_callable_response_msg_t, metadata)},
};
const weft_message_type_t weft_run_callable_response_type =
    WEFT_MESSAGE_TYPE("RunCallableResponse", run_callable_response);

weft_status_t *weft_run_options_from_bytes(weft_str_t bytes, weft_arena_t *arena,
                                           weft_run_options_msg_t *out) {
  weft_run_options_fields_t fields = {.trace_level = 0};
  weft_run_options_experimental_t experimental = {0};
  *out = (weft_run_options_msg_t){.trace_level = 0};
  if (bytes.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_run_options_type, bytes, arena, &fields));
  if (fields.experimental.length > 0) {
    WEFT_RETURN_IF_ERROR(
        weft_fields_decode_bytes(&experimental_type, fields.experimental, arena, &experimental));
  }
  *out = (weft_run_options_msg_t){(int)(int32_t)fields.trace_level, fields.timeout_ms,
                                  fields.output_partition_graphs, experimental.collective_graph_key};
  return NULL;
}

void weft_run_options_to_bytes(const weft_run_options_msg_t *o, weft_strbuf_t *out) {
  weft_run_options_experimental_t experimental = {o->collective_graph_key};
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  if (o->collective_graph_key != 0) weft_fields_encode_bytes(&experimental_type, &experimental, &bytes);
  weft_run_options_fields_t fields = {o->trace_level, o->timeout_ms, o->output_partition_graphs,
                                      weft_str_of(bytes.data, bytes.length)};
  weft_fields_encode_bytes(&weft_run_options_type, &fields, out);
  if (bytes.failed) out->failed = true;
  weft_strbuf_deinit(&bytes);
}
