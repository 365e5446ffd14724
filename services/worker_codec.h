/* services/worker_codec.h - the messages of tensorflow.WorkerService as plain structs.
 *
 * Source: TensorFlow's worker.proto and device_attributes.proto; only the fields that we read or write.
 */
#ifndef WEFT_SERVICES_WORKER_CODEC_H_
#define WEFT_SERVICES_WORKER_CODEC_H_

#include "rpc/fields.h"
#include "worker/worker_client.h"

/* Requests and responses without fields. */
typedef struct weft_empty_msg {
  char unused;
} weft_empty_msg_t;
extern const weft_message_type_t weft_empty_type;

typedef struct weft_get_status_response_msg {
  weft_texts_t devices; /* DeviceAttributes */
} weft_get_status_response_msg_t;
extern const weft_message_type_t weft_get_status_response_type;

typedef struct weft_create_worker_session_msg {
  weft_str_t session, server_def, master_task;
  bool isolate;
  int64_t master_incarnation;
} weft_create_worker_session_msg_t;
extern const weft_message_type_t weft_create_worker_session_type;

typedef struct weft_delete_worker_session_msg {
  weft_str_t session;
} weft_delete_worker_session_msg_t;
extern const weft_message_type_t weft_delete_worker_session_type;

typedef struct weft_register_graph_msg {
  weft_str_t session, graph_def;
  bool has_session; /* create_worker_session_called */
} weft_register_graph_msg_t;
extern const weft_message_type_t weft_register_graph_type;

typedef struct weft_graph_handle_msg {
  weft_str_t handle;
} weft_graph_handle_msg_t;
extern const weft_message_type_t weft_register_graph_response_type;

typedef struct weft_deregister_graph_msg {
  weft_str_t handle, session;
  bool has_session;
} weft_deregister_graph_msg_t;
extern const weft_message_type_t weft_deregister_graph_type;

typedef struct weft_run_graph_msg {
  weft_str_t handle, session, exec_opts;
  int64_t step_id, request_id;
  weft_tensors_t sends;
  weft_texts_t recv_keys;
  bool is_partial, is_last_partial, errors_in_body, has_session;
} weft_run_graph_msg_t;
extern const weft_message_type_t weft_run_graph_type;

typedef struct weft_executor_opts_msg {
  bool record_timeline, record_partition_graphs;
} weft_executor_opts_msg_t;
extern const weft_message_type_t weft_executor_opts_type;

typedef struct weft_run_graph_response_msg {
  weft_tensors_t recvs;
  weft_str_t step_stats;
  weft_texts_t partition_graphs;
  int64_t code;
  weft_str_t message;
} weft_run_graph_response_msg_t;
extern const weft_message_type_t weft_run_graph_response_type;

typedef struct weft_step_msg {
  int64_t step_id;
} weft_step_msg_t;
extern const weft_message_type_t weft_cleanup_graph_type;

typedef struct weft_cleanup_all_msg {
  weft_texts_t containers;
} weft_cleanup_all_msg_t;
extern const weft_message_type_t weft_cleanup_all_type;

typedef struct weft_recv_tensor_msg {
  int64_t step_id, request_id;
  weft_str_t key, transport_options; /* the latter: google.protobuf.Any */
} weft_recv_tensor_msg_t;
extern const weft_message_type_t weft_recv_tensor_type;

typedef struct weft_recv_tensor_response_msg {
  weft_tensor_t *tensor;
  weft_str_t transport_options;
  bool is_dead, require_ack;
  int64_t send_start_micros;
} weft_recv_tensor_response_msg_t;
extern const weft_message_type_t weft_recv_tensor_response_type;

typedef struct weft_mark_recv_finished_msg {
  int64_t request_id;
} weft_mark_recv_finished_msg_t;
extern const weft_message_type_t weft_mark_recv_finished_type;

typedef struct weft_recv_buf_msg {
  int64_t step_id, num_bytes, request_id, src_incarnation;
  weft_str_t key, src_device, dst_device;
} weft_recv_buf_msg_t;
extern const weft_message_type_t weft_recv_buf_type;

/* Numbers from 1001 on are Weft's own; TensorFlow skips them. */
typedef struct weft_complete_group_msg {
  int64_t group_key, group_size;
  weft_str_t device_type, device; /* the latter: DeviceAttributes */
  int64_t rank_plus_1, timeout_ms;
} weft_complete_group_msg_t;
extern const weft_message_type_t weft_complete_group_type;
typedef struct weft_complete_group_response_msg {
  int64_t group_key, group_size, num_tasks;
  weft_str_t device_type, communicator_key;
  weft_texts_t devices;                                        /* DeviceAttributes, by rank */
  uint64_t near_alpha_s, near_byte_s, far_alpha_s, far_byte_s; /* bits of doubles */
} weft_complete_group_response_msg_t;
extern const weft_message_type_t weft_complete_group_response_type;

typedef struct weft_complete_instance_msg {
  weft_str_t name, shape, device_type, device;
  int64_t type, data_type, group_key, group_size, instance_key, step_id;
  bool is_source;
  int64_t rank_plus_1, kind_plus_1, reduction, algorithm, root_plus_1, timeout_ms;
  bool is_mean;
  uint64_t details;
} weft_complete_instance_msg_t;
extern const weft_message_type_t weft_complete_instance_type;
typedef struct weft_complete_instance_response_msg {
  int64_t instance_key, source_rank;
} weft_complete_instance_response_msg_t;
extern const weft_message_type_t weft_complete_instance_response_type;

typedef struct weft_get_step_sequence_msg {
  weft_i64s_t graph_keys;
} weft_get_step_sequence_msg_t;
extern const weft_message_type_t weft_get_step_sequence_type;
typedef struct weft_step_sequence_msg {
  int64_t graph_key, next_step_id;
} weft_step_sequence_msg_t;
extern const weft_message_type_t weft_step_sequence_type;
typedef struct weft_get_step_sequence_response_msg {
  weft_texts_t sequences; /* StepSequence */
} weft_get_step_sequence_response_msg_t;
extern const weft_message_type_t weft_get_step_sequence_response_type;

/* Sent between Weft's workers in RecvTensor's transport_options: how to transfer without gRPC on one host.
 * TensorFlow's workers do not send it and ignore it. */
#define WEFT_LOCAL_TRANSPORT_URL "type.googleapis.com/weft.LocalTransport"
typedef struct weft_local_transport_msg {
  weft_str_t host; /* of the receiver: weft_local_link_host() */
  uint64_t link;   /* that the receiver has; 0: none yet */
  weft_str_t name; /* of the sender's socket, for a receiver without link */
  bool is_on_link; /* the tensor comes over the link, under the number request_id */
} weft_local_transport_msg_t;
extern const weft_message_type_t weft_local_transport_type;
/* Appends a google.protobuf.Any that holds `m`. */
void weft_local_transport_to_any(const weft_local_transport_msg_t *m, weft_strbuf_t *out);
/* False if `any` is something else, or nothing. */
bool weft_local_transport_from_any(weft_str_t any, weft_arena_t *arena, weft_local_transport_msg_t *out);

#endif /* WEFT_SERVICES_WORKER_CODEC_H_ */
