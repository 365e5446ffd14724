"""Speaks to a server below TensorFlow's client: requests of one's own making, right or wrong.

TensorFlow's wheel has no Python classes for the messages of master.proto and worker.proto. Those that the
tests need are described here and made at run time from the classes that it has.
"""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import device_attributes_pb2, graph_pb2, step_stats_pb2, tensor_pb2  # noqa: F401 (fills the pool)
from tensorflow.core.protobuf import config_pb2, named_tensor_pb2

_T = descriptor_pb2.FieldDescriptorProto
_KINDS = {"string": _T.TYPE_STRING, "int64": _T.TYPE_INT64, "int32": _T.TYPE_INT32, "bool": _T.TYPE_BOOL}

# message: "number name kind" per field; "*" before the kind means repeated
MESSAGES = {
    "CreateSessionRequest": "1 graph_def GraphDef, 2 config ConfigProto, 3 target string",
    "CreateSessionResponse": "1 session_handle string, 2 graph_version int64",
    "ExtendSessionRequest": "1 session_handle string, 2 graph_def GraphDef, 3 current_graph_version int64",
    "ExtendSessionResponse": "4 new_graph_version int64",
    "RunStepRequest": "1 session_handle string, 2 feed *NamedTensorProto, 3 fetch *string, 4 target *string,"
    "5 options RunOptions, 6 partial_run_handle string, 7 store_errors_in_response_body bool,"
    "8 request_id int64",
    "RunStepResponse": "1 tensor *NamedTensorProto, 2 metadata RunMetadata, 3 status_code int32,"
    "4 status_error_message string",
    "CloseSessionRequest": "1 session_handle string",
    "CloseSessionResponse": "",
    "ListDevicesRequest": "1 session_handle string",
    "ListDevicesResponse": "1 local_device *DeviceAttributes, 2 remote_device *DeviceAttributes",
    "RunCallableRequest": "1 session_handle string, 2 handle int64, 3 feed *TensorProto, 4 request_id int64",
    "RunCallableResponse": "1 fetch *TensorProto",
    "GetStatusRequest": "",
    "GetStatusResponse": "1 device_attributes *DeviceAttributes",
    "RunGraphRequest": "1 graph_handle string, 2 step_id int64, 8 session_handle string,"
    "10 create_worker_session_called bool",
    "RunGraphResponse": "",
    "RecvTensorRequest": "1 step_id int64, 2 rendezvous_key string, 7 request_id int64",
    "RecvTensorResponse": "1 tensor TensorProto, 2 is_dead bool",
    "LoggingRequest": "1 enable_rpc_logging bool, 2 clear bool, 3 fetch_step_id *int64, 4 disable_rpc_logging bool",
    "LabeledStepStats": "1 step_id int64, 2 step_stats StepStats",
    "LoggingResponse": "1 step *LabeledStepStats",
    "TracingRequest": "",
    "TracingResponse": "",
}


def _make():
    file = descriptor_pb2.FileDescriptorProto(name="conformance_wire.proto", package="conformance", syntax="proto3")
    file.dependency.extend(
        m.DESCRIPTOR.name
        for m in (graph_pb2, tensor_pb2, config_pb2, named_tensor_pb2, device_attributes_pb2, step_stats_pb2)
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in filter(None, fields.split(",")):
            number, field_name, kind = field.split()
            label = _T.LABEL_REPEATED if kind.startswith("*") else _T.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            added = message.field.add(name=field_name, number=int(number), label=label)
            if kind in _KINDS:
                added.type = _KINDS[kind]
            else:
                package = ".conformance." if kind in MESSAGES else ".tensorflow."
                added.type, added.type_name = _T.TYPE_MESSAGE, package + kind
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName("conformance." + n)) for n in MESSAGES}


CLASSES = _make()
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Peer:
    """A channel to one server. call("RunStep", fetch=["x:0"]) sends one request."""

    def __init__(self, target):
        self.channel = grpc.insecure_channel(target.removeprefix("grpc://"), OPTIONS)

    def call_bytes(self, service, method, data, timeout=60):
        """Sends any bytes; gives the response's bytes, or raises grpc.RpcError."""
        return self.channel.unary_unary(f"/tensorflow.{service}/{method}")(data, timeout=timeout)

    def call(self, method, service="MasterService", timeout=60, **fields):
        request = CLASSES[method + "Request"](**fields)
        response = CLASSES[method + "Response"]()
        response.ParseFromString(self.call_bytes(service, method, request.SerializeToString(), timeout))
        return response

    def close(self):
        self.channel.close()
