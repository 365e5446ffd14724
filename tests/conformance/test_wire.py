"""The protocol below the client: what a server answers to requests that no well-behaved client sends."""

import contextlib
import random

import grpc
import numpy as np
import pytest
import tensorflow as tf

from support import session, v1
from wire import Peer

Code = grpc.StatusCode


@pytest.fixture
def peer(cluster):
    p = Peer(cluster.master)
    yield p
    p.close()


@contextlib.contextmanager
def refused(*codes, contains=""):
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() in codes, f"{caught.value.code()} {caught.value.details()}"
    assert contains in caught.value.details(), caught.value.details()


def graph_of(build):
    with tf.Graph().as_default() as g:
        build()
    return g.as_graph_def()


def add_graph():
    x = v1.placeholder(tf.float32, name="x")
    tf.add(x, 1.0, name="y")


def feed(name, value):
    return [dict(name=name, tensor=tf.make_tensor_proto(np.float32(value)))]


def open_session(peer, build=add_graph, **config):
    return peer.call("CreateSession", graph_def=graph_of(build), config=v1.ConfigProto(**config)).session_handle


def still_serves(peer):
    handle = open_session(peer)
    out = peer.call("RunStep", session_handle=handle, feed=feed("x:0", 1.0), fetch=["y:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 2.0
    peer.call("CloseSession", session_handle=handle)


def test_a_session_from_beginning_to_end(peer):
    handle = open_session(peer)
    assert handle
    out = peer.call("RunStep", session_handle=handle, feed=feed("x:0", [1.0, 2.0]), fetch=["y:0"])
    assert [t.name for t in out.tensor] == ["y:0"]
    assert tf.make_ndarray(out.tensor[0].tensor).tolist() == [2.0, 3.0]
    more = v1.GraphDef(versions=graph_of(add_graph).versions)
    more.node.add(name="z", op="Neg", input=["y"]).attr["T"].type = 1
    assert peer.call("ExtendSession", session_handle=handle, graph_def=more).new_graph_version == 1
    out = peer.call("RunStep", session_handle=handle, feed=feed("x:0", 1.0), fetch=["z:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == -2.0
    peer.call("CloseSession", session_handle=handle)
    with refused(Code.ABORTED, contains=handle):
        peer.call("CloseSession", session_handle=handle)


@pytest.mark.parametrize("method", ["ExtendSession", "RunStep", "CloseSession", "RunCallable"])
def test_unknown_sessions_are_aborted(peer, method):
    with refused(Code.ABORTED, contains="Session 0123456789abcdef is not found"):
        peer.call(method, session_handle="0123456789abcdef")


def test_devices_of_an_unknown_session_and_of_none(peer):
    with refused(Code.INVALID_ARGUMENT):
        peer.call("ListDevices", session_handle="0123456789abcdef")
    found = peer.call("ListDevices")
    assert {d.name for d in [*found.local_device, *found.remote_device]} >= {
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:1/device:CPU:0",
    }


def test_errors_of_a_step_go_where_the_client_wants_them(peer):
    handle = open_session(peer)
    with refused(Code.INVALID_ARGUMENT, contains="You must feed a value for placeholder tensor 'x'"):
        peer.call("RunStep", session_handle=handle, fetch=["y:0"])
    out = peer.call("RunStep", session_handle=handle, fetch=["y:0"], store_errors_in_response_body=True)
    assert out.status_code == tf.errors.INVALID_ARGUMENT
    assert "{{node x}}" in out.status_error_message


@pytest.mark.parametrize(
    "fields,code",
    [
        (dict(fetch=["absent:0"]), Code.NOT_FOUND),
        (dict(target=["absent"]), Code.NOT_FOUND),
        (dict(fetch=["y:7"], feed=feed("x:0", 1.0)), Code.INVALID_ARGUMENT),
        (dict(fetch=["y:0"], feed=feed("absent:0", 1.0)), Code.NOT_FOUND),
        (dict(), Code.INVALID_ARGUMENT),
        (dict(fetch=["y:0"], feed=feed("y:0", 1.0)), Code.INVALID_ARGUMENT),
    ],
    ids=["fetch", "target", "port", "feed", "nothing", "fed-and-fetched"],
)
def test_wrong_names_in_a_step(peer, fields, code):
    handle = open_session(peer)
    with refused(code):
        peer.call("RunStep", session_handle=handle, **fields)
    out = peer.call("RunStep", session_handle=handle, feed=feed("x:0", 1.0), fetch=["y:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 2.0


def test_a_request_received_twice_is_aborted(peer):
    handle = open_session(peer)
    number = random.getrandbits(60) + 1
    fields = dict(session_handle=handle, feed=feed("x:0", 1.0), fetch=["y:0"])
    peer.call("RunStep", request_id=number, **fields)
    with refused(Code.ABORTED, contains="received twice"):
        peer.call("RunStep", request_id=number, **fields)
    for _ in range(2):
        peer.call("RunStep", request_id=0, **fields)


def test_extensions_are_checked(peer):
    handle = open_session(peer)
    same = graph_of(add_graph)
    with refused(Code.INVALID_ARGUMENT, contains="x"):
        peer.call("ExtendSession", session_handle=handle, graph_def=same)
    with refused(Code.ABORTED, contains="Current version is"):
        peer.call("ExtendSession", session_handle=handle, graph_def=same, current_graph_version=5)


def broken(change):
    definition = graph_of(add_graph)
    change(definition)
    return definition


def node(definition, name, op, *inputs, **types):
    n = definition.node.add(name=name, op=op, input=inputs)
    for key, value in types.items():
        n.attr[key].type = value
    return n


def huge(definition):
    n = node(definition, "huge", "Const", dtype=1)
    n.attr["value"].tensor.dtype = 1
    for _ in range(3):
        n.attr["value"].tensor.tensor_shape.dim.add(size=2**40)


def short(definition):
    n = node(definition, "short", "Const", dtype=1)
    n.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.zeros(10, np.float32)))
    n.attr["value"].tensor.tensor_content = b"abc"


BROKEN = {
    "dangling-input": (lambda d: node(d, "n", "Neg", "ghost", T=1), "ghost"),
    "dangling-control": (lambda d: node(d, "n", "NoOp", "^ghost"), "ghost"),
    "no-such-output": (lambda d: node(d, "n", "Neg", "y:3", T=1), "n"),
    "too-many-inputs": (lambda d: node(d, "n", "Neg", "x", "x", T=1), "n"),
    "missing-attr": (lambda d: node(d, "n", "Neg", "x"), "T"),
    "wrong-dtype": (lambda d: node(d, "n", "Neg", "x", T=3), "n"),
    "same-name-twice": (lambda d: node(d, "x", "NoOp"), "x"),
    "bad-name": (lambda d: node(d, "no good!", "NoOp"), "no good!"),
    "reserved-name": (lambda d: node(d, "_mine", "NoOp"), "_mine"),
    "cycle": (lambda d: (node(d, "a", "Neg", "b", T=1), node(d, "b", "Neg", "a", T=1)), ""),
    "control-before-data": (lambda d: node(d, "n", "Neg", "^x", "x", T=1), ""),
    "bad-device": (lambda d: setattr(node(d, "n", "NoOp"), "device", "%%%"), "%%%"),
}
LATE = {
    "unknown-op": lambda d: node(d, "n", "NoSuchOp"),
    "dtype-not-allowed": lambda d: node(d, "n", "Neg", "x", T=7),
    "too-few-inputs": lambda d: node(d, "n", "Add", "x", T=1),
    "huge-constant": huge,
    "short-constant": short,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused_with_the_culprit(peer, name):
    change, text = BROKEN[name]
    with refused(Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED, contains=text):
        peer.call("CreateSession", graph_def=broken(change))
    still_serves(peer)


@pytest.mark.parametrize(
    "name",
    [
        "unknown-op",
        "dtype-not-allowed",
        "too-few-inputs",
        "short-constant",
        pytest.param("huge-constant", marks=pytest.mark.weft_only),  # a stock server dies of it
    ],
)
def test_what_a_server_may_notice_only_when_it_runs_the_node(peer, name):
    definition = broken(LATE[name])
    with refused(Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.RESOURCE_EXHAUSTED, Code.INTERNAL):
        handle = peer.call("CreateSession", graph_def=definition).session_handle
        peer.call("RunStep", session_handle=handle, feed=feed("x:0", 1.0), target=[definition.node[-1].name])
    still_serves(peer)


def test_a_graph_for_newer_readers_only_is_refused(peer):
    definition = graph_of(add_graph)
    definition.versions.min_consumer = 10**6
    with refused(Code.INVALID_ARGUMENT, contains="1000000"):
        peer.call("CreateSession", graph_def=definition)


def test_bytes_that_are_no_message(peer):
    methods = [
        ("MasterService", m)
        for m in (
            "CreateSession",
            "ExtendSession",
            "RunStep",
            "CloseSession",
            "Reset",
            "PartialRunSetup",
            "ListDevices",
            "MakeCallable",
            "RunCallable",
        )
    ]
    for service, method in methods:
        for data in (b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab"):
            with pytest.raises(grpc.RpcError) as caught:
                peer.call_bytes(service, method, data)
            assert caught.value.code() != Code.DEADLINE_EXCEEDED, method
    still_serves(peer)


def test_a_truncated_graph(peer):
    data = b"\x0a" + bytes([127]) + graph_of(add_graph).SerializeToString()[:100]
    with pytest.raises(grpc.RpcError):
        peer.call_bytes("MasterService", "CreateSession", data)
    still_serves(peer)


def test_unknown_fields_and_methods(peer):
    handle = peer.call_bytes("MasterService", "ListDevices", b"\xfa\x7f\x03abc\x98\x06\x05")
    assert handle is not None
    with refused(Code.UNIMPLEMENTED):
        peer.call_bytes("MasterService", "MakeCoffee", b"")


@pytest.mark.parametrize("change", ["size", "dtype", "content", "string"])
def test_bad_feeds_are_refused(peer, change):
    handle = open_session(peer)
    t = tf.make_tensor_proto(np.float32([1, 2, 3]))
    t.tensor_content = np.float32([1, 2, 3]).tobytes()
    t.ClearField("float_val")
    if change == "size":
        t.tensor_shape.dim[0].size = -4
    elif change == "dtype":
        t.dtype = 77
    elif change == "content":
        t.tensor_content = b"12345"
    else:
        t.dtype = tf.string.as_datatype_enum
        t.tensor_content = b"\xff\xff\xff\xff\x0f"
    with refused(Code.INVALID_ARGUMENT, Code.INTERNAL):
        peer.call("RunStep", session_handle=handle, feed=[dict(name="x:0", tensor=t)], fetch=["y:0"])
    still_serves(peer)


def test_feeds_of_another_dtype_are_refused(peer):
    handle = open_session(peer)
    with refused(Code.INTERNAL, contains="Output 0 of type int64 does not match declared output type float for node {{node _recv_x_0}}"):
        peer.call(
            "RunStep",
            session_handle=handle,
            fetch=["y:0"],
            feed=[dict(name="x:0", tensor=tf.make_tensor_proto(np.int64(1)))],
        )
    still_serves(peer)


def test_a_worker_tells_its_devices(cluster):
    for (job, task), server in cluster.servers.items():
        p = Peer(cluster.target(job, task))
        devices = p.call("GetStatus", service="WorkerService").device_attributes
        p.close()
        assert server.name + "/device:CPU:0" in [d.name for d in devices]
        assert all(d.incarnation and d.device_type for d in devices)


def test_a_worker_refuses_what_it_does_not_know(peer):
    with refused(Code.ABORTED, Code.NOT_FOUND, Code.INVALID_ARGUMENT):
        peer.call(
            "RunGraph", service="WorkerService", graph_handle="nothing", session_handle="0123456789abcdef", step_id=1
        )
    with refused(Code.INVALID_ARGUMENT):
        peer.call("RecvTensor", service="WorkerService", step_id=7, rendezvous_key="no key at all")
    still_serves(peer)


def test_a_receive_without_a_send_can_be_cancelled(peer):
    key = (
        "/job:worker/replica:0/task:0/device:CPU:0;0000000000000001;"
        "/job:worker/replica:0/task:1/device:CPU:0;edge;0:0"
    )
    with pytest.raises(grpc.RpcError) as caught:
        peer.call(
            "RecvTensor", service="WorkerService", step_id=random.getrandbits(50), rendezvous_key=key, timeout=0.5
        )
    assert caught.value.code() in (Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.CANCELLED)
    still_serves(peer)


def test_sessions_survive_the_trouble_of_others(cluster, peer, graph):
    x = v1.placeholder(tf.float32)
    y = x * 2.0
    with session(cluster.master, graph) as sess:
        for name in ("dangling-input", "cycle", "wrong-dtype"):
            with pytest.raises(grpc.RpcError):
                peer.call("CreateSession", graph_def=broken(BROKEN[name][0]))
            assert sess.run(y, {x: 4.0}) == 8.0


def test_a_workers_log_answers_for_the_steps_asked_for(peer):
    log = dict(method="Logging", service="WorkerService")
    assert not peer.call(enable_rpc_logging=True, **log).step
    found = peer.call(fetch_step_id=[5, 5_000_000_000], **log).step
    assert {s.step_id for s in found} <= {5, 5_000_000_000}
    assert not any(s.step_stats.dev_stats for s in found)
    assert not peer.call(clear=True, disable_rpc_logging=True, **log).step
    with refused(Code.INTERNAL, Code.INVALID_ARGUMENT):
        peer.call_bytes("WorkerService", "Logging", b"\x1a\xff\xff\xff\xff\x0f")


@pytest.mark.weft_only
def test_tracing_is_accepted(peer):
    peer.call("Tracing", service="WorkerService")


def state_graph():
    v = v1.Variable(1.0, use_resource=False, name="v")
    v1.assign_add(v, 1.0, name="more")
    tf.no_op(name="nothing")


def test_a_variable_is_no_place_for_a_feed(peer):
    handle = open_session(peer, state_graph, isolate_session_state=True)
    peer.call("RunStep", session_handle=handle, target=["v/Assign"])
    out = peer.call("RunStep", session_handle=handle, feed=feed("v:0", 7.0), fetch=["v/read:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 7.0
    with refused(
        Code.INVALID_ARGUMENT,
        contains="Input 0 of node more was passed float from _recv_v_0:0 incompatible with expected float_ref.",
    ):
        peer.call("RunStep", session_handle=handle, feed=feed("v:0", 7.0), fetch=["more:0"])


def test_a_fetched_reference_is_a_value(peer):
    handle = open_session(peer, state_graph, isolate_session_state=True)
    with refused(Code.FAILED_PRECONDITION, contains="Attempting to use uninitialized value v"):
        peer.call("RunStep", session_handle=handle, fetch=["v:0"])
    peer.call("RunStep", session_handle=handle, target=["v/Assign"])
    assert tf.make_ndarray(peer.call("RunStep", session_handle=handle, fetch=["v:0"]).tensor[0].tensor) == 1.0


@pytest.mark.parametrize("target", ["nothing", "^nothing", "v/Assign:0", "v/Assign:9"])
def test_targets_may_be_written_as_inputs_are(peer, target):
    handle = open_session(peer, state_graph)
    assert not peer.call("RunStep", session_handle=handle, target=[target, target]).tensor


def test_a_session_lists_all_devices_as_local_and_a_master_its_own(peer):
    every = {f"/job:{j}/replica:0/task:{t}/device:CPU:0" for j, t in (("ps", 0), ("worker", 0), ("worker", 1))}
    found = peer.call("ListDevices", session_handle=open_session(peer))
    assert {d.name for d in found.local_device} == every and not found.remote_device
    found = peer.call("ListDevices")
    assert [d.name for d in found.local_device] == ["/job:worker/replica:0/task:0/device:CPU:0"]
    assert {d.name for d in found.remote_device} == every - {"/job:worker/replica:0/task:0/device:CPU:0"}


@pytest.mark.parametrize(
    "filters,others",
    [
        (["/job:ps"], {"/job:ps/replica:0/task:0/device:CPU:0"}),
        (["/job:worker/task:1", "/job:absent"], {"/job:worker/replica:0/task:1/device:CPU:0"}),
        (["/device:GPU:0"], set()),
        (["/job:ps/device:GPU:0"], set()),
    ],
)
def test_filters_choose_tasks_and_devices(peer, filters, others):
    handle = peer.call("CreateSession", config=v1.ConfigProto(device_filters=filters)).session_handle
    names = {d.name for d in peer.call("ListDevices", session_handle=handle).local_device}
    assert names == others | {"/job:worker/replica:0/task:0/device:CPU:0"}


def test_an_empty_graph_can_be_filled_later(peer):
    handle = peer.call("CreateSession", graph_def=v1.GraphDef()).session_handle
    with refused(Code.NOT_FOUND, contains="FetchOutputs node y:0: not found"):
        peer.call("RunStep", session_handle=handle, fetch=["y:0"])
    assert peer.call("ExtendSession", session_handle=handle, graph_def=graph_of(add_graph)).new_graph_version == 1
    out = peer.call("RunStep", session_handle=handle, feed=feed("x:0", 1.0), fetch=["y:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 2.0


def test_extensions_of_other_versions_are_taken(peer):
    for producer in (0, 20, 10**6):
        handle = open_session(peer)
        more = v1.GraphDef()
        more.node.add(name="z", op="NoOp")
        more.versions.producer = producer
        assert peer.call("ExtendSession", session_handle=handle, graph_def=more).new_graph_version == 1
        peer.call("RunStep", session_handle=handle, target=["z"])
    more.versions.min_consumer = 10**6
    with refused(Code.INVALID_ARGUMENT, contains="GraphDef min consumer version 1000000 above current version"):
        peer.call("ExtendSession", session_handle=open_session(peer), graph_def=more)


def test_per_session_threads_are_refused(peer):
    pool = v1.ConfigProto()
    pool.session_inter_op_thread_pool.add()
    for config in (pool, v1.ConfigProto(use_per_session_threads=True)):
        with refused(Code.INVALID_ARGUMENT, contains="Distributed session does not support session thread pool options."):
            peer.call("CreateSession", config=config)


RESTARTED = b"type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted"


@contextlib.contextmanager
def restarted(contains):
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() == Code.ABORTED
    assert contains in caught.value.details()
    assert dict(caught.value.trailing_metadata())["grpc-status-details-bin"] == b"\n\x4e\n\x4a" + RESTARTED + b"\x12\x00"


def test_a_worker_that_may_have_been_restarted_says_so(peer):
    worker = dict(service="WorkerService")
    with restarted('Session handle is not found: gone. Possibly this worker ("/job:worker/replica:0/task:0") just restarted.'):
        run = dict(graph_handle="g", step_id=3, session_handle="gone", create_worker_session_called=True)
        peer.call("RunGraph", **run, **worker)
    device = peer.call("GetStatus", **worker).device_attributes[0].name
    other = "/job:worker/replica:0/task:1/device:CPU:0"
    with restarted("RecvTensor expects a different device incarnation: 1 vs. "):
        peer.call("RecvTensor", step_id=7, rendezvous_key=f"{device};{1:016x};{other};edge;0:0", **worker)
    with refused(Code.INVALID_ARGUMENT, contains="/device:GPU:9 unknown device."):
        key = f"/job:worker/replica:0/task:0/device:GPU:9;{1:016x};{other};edge;0:0"
        peer.call("RecvTensor", step_id=7, rendezvous_key=key, **worker)
    with refused(Code.ABORTED, contains="Graph handle is not found: g"):
        peer.call("RunGraph", graph_handle="g", step_id=3, **worker)
