/* services/worker_codec.c - the tables of WorkerService's messages: number, kind, name, member. */
#include "services/worker_codec.h"

const weft_message_type_t weft_empty_type = {"message without fields", NULL, 0};

static const weft_field_t get_status_response[] = {
    {1, WEFT_FIELD_MESSAGES, "device_attributes", offsetof(weft_get_status_response_msg_t, devices)},
};
const weft_message_type_t weft_get_status_response_type =
    WEFT_MESSAGE_TYPE("GetStatusResponse", get_status_response);

static const weft_field_t create_worker_session[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_create_worker_session_msg_t, session)},
    {2, WEFT_FIELD_BYTES, "server_def", offsetof(weft_create_worker_session_msg_t, server_def)},
    {3, WEFT_FIELD_BOOL, "isolate_session_state", offsetof(weft_create_worker_session_msg_t, isolate)},
    {5, WEFT_FIELD_TEXT, "master_task", offsetof(weft_create_worker_session_msg_t, master_task)},
    {6, WEFT_FIELD_I64, "master_incarnation", offsetof(weft_create_worker_session_msg_t, master_incarnation)},
};
const weft_message_type_t weft_create_worker_session_type =
    WEFT_MESSAGE_TYPE("CreateWorkerSessionRequest", create_worker_session);

static const weft_field_t delete_worker_session[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_delete_worker_session_msg_t, session)},
};
const weft_message_type_t weft_delete_worker_session_type =
    WEFT_MESSAGE_TYPE("DeleteWorkerSessionRequest", delete_worker_session);

static const weft_field_t register_graph[] = {
    {1, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_register_graph_msg_t, session)},
    {2, WEFT_FIELD_BYTES, "graph_def", offsetof(weft_register_graph_msg_t, graph_def)},
    {6, WEFT_FIELD_BOOL, "create_worker_session_called", offsetof(weft_register_graph_msg_t, has_session)},
};
const weft_message_type_t weft_register_graph_type =
    WEFT_MESSAGE_TYPE("RegisterGraphRequest", register_graph);

static const weft_field_t register_graph_response[] = {
    {1, WEFT_FIELD_TEXT, "graph_handle", offsetof(weft_graph_handle_msg_t, handle)},
};
const weft_message_type_t weft_register_graph_response_type =
    WEFT_MESSAGE_TYPE("RegisterGraphResponse", register_graph_response);

static const weft_field_t deregister_graph[] = {
    {1, WEFT_FIELD_TEXT, "graph_handle", offsetof(weft_deregister_graph_msg_t, handle)},
    {2, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_deregister_graph_msg_t, session)},
    {3, WEFT_FIELD_BOOL, "create_worker_session_called", offsetof(weft_deregister_graph_msg_t, has_session)},
};
const weft_message_type_t weft_deregister_graph_type =
    WEFT_MESSAGE_TYPE("DeregisterGraphRequest", deregister_graph);

static const weft_field_t run_graph[] = {
    {1, WEFT_FIELD_TEXT, "graph_handle", offsetof(weft_run_graph_msg_t, handle)},
    {2, WEFT_FIELD_I64, "step_id", offsetof(weft_run_graph_msg_t, step_id)},
    {3, WEFT_FIELD_NAMED_TENSORS, "send", offsetof(weft_run_graph_msg_t, sends)},
    {4, WEFT_FIELD_TEXTS, "recv_key", offsetof(weft_run_graph_msg_t, recv_keys)},
    {5, WEFT_FIELD_BYTES, "exec_opts", offsetof(weft_run_graph_msg_t, exec_opts)},
    {6, WEFT_FIELD_BOOL, "is_partial", offsetof(weft_run_graph_msg_t, is_partial)},
    {7, WEFT_FIELD_BOOL, "is_last_partial_run", offsetof(weft_run_graph_msg_t, is_last_partial)},
    {8, WEFT_FIELD_TEXT, "session_handle", offsetof(weft_run_graph_msg_t, session)},
    {9, WEFT_FIELD_BOOL, "store_errors_in_response_body", offsetof(weft_run_graph_msg_t, errors_in_body)},
    {10, WEFT_FIELD_BOOL, "create_worker_session_called", offsetof(weft_run_graph_msg_t, has_session)},
    {11, WEFT_FIELD_I64, "request_id", offsetof(weft_run_graph_msg_t, request_id)},
};
const weft_message_type_t weft_run_graph_type = WEFT_MESSAGE_TYPE("RunGraphRequest", run_graph);

static const weft_field_t executor_opts[] = {
    {3, WEFT_FIELD_BOOL, "record_timeline", offsetof(weft_executor_opts_msg_t, record_timeline)},
    {4, WEFT_FIELD_BOOL, "record_partition_graphs",
     offsetof(weft_executor_opts_msg_t, record_partition_graphs)},
};
const weft_message_type_t weft_executor_opts_type =
    WEFT_MESSAGE_TYPE("RunGraphRequest.exec_opts", executor_opts);

static const weft_field_t run_graph_response[] = {
    {1, WEFT_FIELD_NAMED_TENSORS, "recv", offsetof(weft_run_graph_response_msg_t, recvs)},
    {2, WEFT_FIELD_BYTES, "step_stats", offsetof(weft_run_graph_response_msg_t, step_stats)},
    {4, WEFT_FIELD_MESSAGES, "partition_graph", offsetof(weft_run_graph_response_msg_t, partition_graphs)},
    {5, WEFT_FIELD_I64, "status_code", offsetof(weft_run_graph_response_msg_t, code)},
    {6, WEFT_FIELD_TEXT, "status_error_message", offsetof(weft_run_graph_response_msg_t, message)},
};
const weft_message_type_t weft_run_graph_response_type =
    WEFT_MESSAGE_TYPE("RunGraphResponse", run_graph_response);

static const weft_field_t cleanup_graph[] = {
    {1, WEFT_FIELD_I64, "step_id", offsetof(weft_step_msg_t, step_id)},
};
const weft_message_type_t weft_cleanup_graph_type = WEFT_MESSAGE_TYPE("CleanupGraphRequest", cleanup_graph);

static const weft_field_t cleanup_all[] = {
    {1, WEFT_FIELD_TEXTS, "container", offsetof(weft_cleanup_all_msg_t, containers)},
};
const weft_message_type_t weft_cleanup_all_type = WEFT_MESSAGE_TYPE("CleanupAllRequest", cleanup_all);

static const weft_field_t recv_tensor[] = {
    {1, WEFT_FIELD_I64, "step_id", offsetof(weft_recv_tensor_msg_t, step_id)},
    {2, WEFT_FIELD_TEXT, "rendezvous_key", offsetof(weft_recv_tensor_msg_t, key)},
    {6, WEFT_FIELD_BYTES, "transport_options", offsetof(weft_recv_tensor_msg_t, transport_options)},
    {7, WEFT_FIELD_I64, "request_id", offsetof(weft_recv_tensor_msg_t, request_id)},
};
const weft_message_type_t weft_recv_tensor_type = WEFT_MESSAGE_TYPE("RecvTensorRequest", recv_tensor);

/* The tensor comes last: its bytes are then the message's tail, and can be received where they belong. */
static const weft_field_t recv_tensor_response[] = {
    {2, WEFT_FIELD_BOOL, "is_dead", offsetof(weft_recv_tensor_response_msg_t, is_dead)},
    {3, WEFT_FIELD_I64, "send_start_micros", offsetof(weft_recv_tensor_response_msg_t, send_start_micros)},
    {4, WEFT_FIELD_BYTES, "transport_options", offsetof(weft_recv_tensor_response_msg_t, transport_options)},
    {5, WEFT_FIELD_BOOL, "require_ack", offsetof(weft_recv_tensor_response_msg_t, require_ack)},
    {1, WEFT_FIELD_TENSOR, "tensor", offsetof(weft_recv_tensor_response_msg_t, tensor)},
};
const weft_message_type_t weft_recv_tensor_response_type =
    WEFT_MESSAGE_TYPE("RecvTensorResponse", recv_tensor_response);

static const weft_field_t mark_recv_finished[] = {
    {1, WEFT_FIELD_I64, "request_id", offsetof(weft_mark_recv_finished_msg_t, request_id)},
};
const weft_message_type_t weft_mark_recv_finished_type =
    WEFT_MESSAGE_TYPE("MarkRecvFinishedRequest", mark_recv_finished);

static const weft_field_t recv_buf[] = {
    {1, WEFT_FIELD_I64, "step_id", offsetof(weft_recv_buf_msg_t, step_id)},
    {2, WEFT_FIELD_TEXT, "buf_rendezvous_key", offsetof(weft_recv_buf_msg_t, key)},
    {3, WEFT_FIELD_I64, "num_bytes", offsetof(weft_recv_buf_msg_t, num_bytes)},
    {8, WEFT_FIELD_TEXT, "src_device", offsetof(weft_recv_buf_msg_t, src_device)},
    {9, WEFT_FIELD_TEXT, "dst_device", offsetof(weft_recv_buf_msg_t, dst_device)},
    {10, WEFT_FIELD_I64, "request_id", offsetof(weft_recv_buf_msg_t, request_id)},
    {11, WEFT_FIELD_I64, "src_incarnation", offsetof(weft_recv_buf_msg_t, src_incarnation)},
};
const weft_message_type_t weft_recv_buf_type = WEFT_MESSAGE_TYPE("RecvBufRequest", recv_buf);

static const weft_field_t complete_group[] = {
    {1, WEFT_FIELD_I64, "group_key", offsetof(weft_complete_group_msg_t, group_key)},
    {2, WEFT_FIELD_I64, "group_size", offsetof(weft_complete_group_msg_t, group_size)},
    {3, WEFT_FIELD_TEXT, "device_type", offsetof(weft_complete_group_msg_t, device_type)},
    {6, WEFT_FIELD_BYTES, "device_attributes", offsetof(weft_complete_group_msg_t, device)},
    {1001, WEFT_FIELD_I64, "rank", offsetof(weft_complete_group_msg_t, rank_plus_1)},
    {1002, WEFT_FIELD_I64, "timeout_ms", offsetof(weft_complete_group_msg_t, timeout_ms)},
};
const weft_message_type_t weft_complete_group_type =
    WEFT_MESSAGE_TYPE("CompleteGroupRequest", complete_group);

static const weft_field_t complete_group_response[] = {
    {1, WEFT_FIELD_I64, "group_key", offsetof(weft_complete_group_response_msg_t, group_key)},
    {2, WEFT_FIELD_I64, "group_size", offsetof(weft_complete_group_response_msg_t, group_size)},
    {3, WEFT_FIELD_TEXT, "device_type", offsetof(weft_complete_group_response_msg_t, device_type)},
    {4, WEFT_FIELD_I64, "num_tasks", offsetof(weft_complete_group_response_msg_t, num_tasks)},
    {7, WEFT_FIELD_BYTES, "communicator_key", offsetof(weft_complete_group_response_msg_t, communicator_key)},
    {8, WEFT_FIELD_MESSAGES, "device_attributes", offsetof(weft_complete_group_response_msg_t, devices)},
    {1001, WEFT_FIELD_FIXED64, "near_alpha_s", offsetof(weft_complete_group_response_msg_t, near_alpha_s)},
    {1002, WEFT_FIELD_FIXED64, "near_byte_s", offsetof(weft_complete_group_response_msg_t, near_byte_s)},
    {1003, WEFT_FIELD_FIXED64, "far_alpha_s", offsetof(weft_complete_group_response_msg_t, far_alpha_s)},
    {1004, WEFT_FIELD_FIXED64, "far_byte_s", offsetof(weft_complete_group_response_msg_t, far_byte_s)},
};
const weft_message_type_t weft_complete_group_response_type =
    WEFT_MESSAGE_TYPE("CompleteGroupResponse", complete_group_response);

static const weft_field_t complete_instance[] = {
    {1, WEFT_FIELD_TEXT, "name", offsetof(weft_complete_instance_msg_t, name)},
    {2, WEFT_FIELD_I64, "type", offsetof(weft_complete_instance_msg_t, type)},
    {3, WEFT_FIELD_I64, "data_type", offsetof(weft_complete_instance_msg_t, data_type)},
    {4, WEFT_FIELD_BYTES, "shape", offsetof(weft_complete_instance_msg_t, shape)},
    {5, WEFT_FIELD_I64, "group_key", offsetof(weft_complete_instance_msg_t, group_key)},
    {6, WEFT_FIELD_I64, "group_size", offsetof(weft_complete_instance_msg_t, group_size)},
    {7, WEFT_FIELD_I64, "instance_key", offsetof(weft_complete_instance_msg_t, instance_key)},
    {8, WEFT_FIELD_TEXT, "device_type", offsetof(weft_complete_instance_msg_t, device_type)},
    {10, WEFT_FIELD_TEXT, "device", offsetof(weft_complete_instance_msg_t, device)},
    {11, WEFT_FIELD_BOOL, "is_source", offsetof(weft_complete_instance_msg_t, is_source)},
    {12, WEFT_FIELD_I64, "step_id", offsetof(weft_complete_instance_msg_t, step_id)},
    {1001, WEFT_FIELD_I64, "rank", offsetof(weft_complete_instance_msg_t, rank_plus_1)},
    {1002, WEFT_FIELD_I64, "kind", offsetof(weft_complete_instance_msg_t, kind_plus_1)},
    {1003, WEFT_FIELD_I64, "reduction", offsetof(weft_complete_instance_msg_t, reduction)},
    {1004, WEFT_FIELD_BOOL, "is_mean", offsetof(weft_complete_instance_msg_t, is_mean)},
    {1005, WEFT_FIELD_I64, "algorithm", offsetof(weft_complete_instance_msg_t, algorithm)},
    {1006, WEFT_FIELD_I64, "root", offsetof(weft_complete_instance_msg_t, root_plus_1)},
    {1007, WEFT_FIELD_FIXED64, "details", offsetof(weft_complete_instance_msg_t, details)},
    {1008, WEFT_FIELD_I64, "timeout_ms", offsetof(weft_complete_instance_msg_t, timeout_ms)},
};
const weft_message_type_t weft_complete_instance_type =
    WEFT_MESSAGE_TYPE("CompleteInstanceRequest", complete_instance);

static const weft_field_t complete_instance_response[] = {
    {1, WEFT_FIELD_I64, "instance_key", offsetof(weft_complete_instance_response_msg_t, instance_key)},
    {2, WEFT_FIELD_I64, "source_rank", offsetof(weft_complete_instance_response_msg_t, source_rank)},
};
const weft_message_type_t weft_complete_instance_response_type =
    WEFT_MESSAGE_TYPE("CompleteInstanceResponse", complete_instance_response);

static const weft_field_t get_step_sequence[] = {
    {1, WEFT_FIELD_I64S, "graph_key", offsetof(weft_get_step_sequence_msg_t, graph_keys)},
};
const weft_message_type_t weft_get_step_sequence_type =
    WEFT_MESSAGE_TYPE("GetStepSequenceRequest", get_step_sequence);

static const weft_field_t step_sequence[] = {
    {1, WEFT_FIELD_I64, "graph_key", offsetof(weft_step_sequence_msg_t, graph_key)},
    {2, WEFT_FIELD_I64, "next_step_id", offsetof(weft_step_sequence_msg_t, next_step_id)},
};
const weft_message_type_t weft_step_sequence_type = WEFT_MESSAGE_TYPE("StepSequence", step_sequence);

static const weft_field_t get_step_sequence_response[] = {
    {1, WEFT_FIELD_MESSAGES, "step_sequence", offsetof(weft_get_step_sequence_response_msg_t, sequences)},
};
const weft_message_type_t weft_get_step_sequence_response_type =
    WEFT_MESSAGE_TYPE("GetStepSequenceResponse", get_step_sequence_response);

static const weft_field_t local_transport[] = {
    {1, WEFT_FIELD_TEXT, "host", offsetof(weft_local_transport_msg_t, host)},
    {2, WEFT_FIELD_FIXED64, "link", offsetof(weft_local_transport_msg_t, link)},
    {3, WEFT_FIELD_TEXT, "name", offsetof(weft_local_transport_msg_t, name)},
    {4, WEFT_FIELD_BOOL, "is_on_link", offsetof(weft_local_transport_msg_t, is_on_link)},
};
const weft_message_type_t weft_local_transport_type = WEFT_MESSAGE_TYPE("LocalTransport", local_transport);

typedef struct any_msg {
  weft_str_t url, value;
} any_msg_t;
static const weft_field_t any[] = {
    {1, WEFT_FIELD_TEXT, "type_url", offsetof(any_msg_t, url)},
    {2, WEFT_FIELD_BYTES, "value", offsetof(any_msg_t, value)},
};
static const weft_message_type_t any_type = WEFT_MESSAGE_TYPE("Any", any);

void weft_local_transport_to_any(const weft_local_transport_msg_t *m, weft_strbuf_t *out) {
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  weft_fields_encode_bytes(&weft_local_transport_type, m, &value);
  any_msg_t wrapped = {WEFT_STR(WEFT_LOCAL_TRANSPORT_URL), weft_str_of(value.data, value.length)};
  weft_fields_encode_bytes(&any_type, &wrapped, out);
  if (value.failed) out->failed = true;
  weft_strbuf_deinit(&value);
}

bool weft_local_transport_from_any(weft_str_t bytes, weft_arena_t *arena, weft_local_transport_msg_t *out) {
  any_msg_t wrapped = {{NULL, 0}, {NULL, 0}};
  if (bytes.length == 0) return false;
  weft_status_t *s = weft_fields_decode_bytes(&any_type, bytes, arena, &wrapped);
  bool ok = s == NULL && weft_str_is(wrapped.url, WEFT_LOCAL_TRANSPORT_URL);
  if (ok) s = weft_fields_decode_bytes(&weft_local_transport_type, wrapped.value, arena, out);
  ok = ok && s == NULL;
  weft_status_free(s); /* not for us: the tensor goes its ordinary way */
  return ok;
}
