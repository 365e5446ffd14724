"""Specs of what a session keeps, of locks and handles: ops/session.def.

Left out: handles that are known, which test_sessions.py has: a program cannot feed what it fetched. The time, which is another one each time; a file of the shape of ImmutableConst that
TensorFlow's client folds into a constant of bytes that are no bool; RemoteCall to tasks that only one side has.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from draw import Program, spec, unlisted
from opcase import C

FOLDER = Path(tempfile.mkdtemp(prefix="weft-session-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

raw = tf.raw_ops
v1 = tf.compat.v1
ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
EVERY = (tf.float32, tf.float64, tf.half, tf.bfloat16, tf.int8, tf.int32, tf.int64, tf.uint8, tf.uint64, tf.bool, tf.complex64, tf.string)


@spec("GetSessionTensor", "DeleteSessionTensor")
def session_tensor(d):
    """Of a handle that the session does not know."""
    handle = d.texts(() if d.chance(0.9) else (2,), ["", "a;0;/job:localhost/replica:0/task:0/device:CPU:0"])
    attrs = {"dtype": d.one(*EVERY)} if d.op == "GetSessionTensor" else {}
    return C(d.op, handle, **attrs)


@spec("GetSessionHandle")
def session_handle(d):
    """The handle is "node;number;device": the number counts what the session keeps, the device is the task's."""
    value, name = d.values(d.one(*EVERY), d.shape()), d.one("a", "scope/b")

    def build():
        handle = raw.GetSessionHandle(value=tf.constant(value), name=name)
        parts = tf.strings.split([handle], ";")
        return [([parts.flat_values[0], tf.size(parts.flat_values), tf.strings.regex_full_match(handle, ".*;/job:.*/device:CPU:0")], {})] * 2

    return Program(d.op, build)


@spec("GetSessionHandleV2")
def session_handle_v2(d):
    value = d.values(d.one(*EVERY), d.shape())

    def build():
        handle = raw.GetSessionHandleV2(value=tf.constant(value))
        return [(tf.shape(v1.placeholder_with_default(handle, None)), {})]

    return Program(d.op, build)


@spec("GuaranteeConst")
def guarantee_const(d):
    return C(d.op, d.values(d.one(*EVERY), d.shape()))


@spec("ImmutableConst")
def immutable_const(d):
    dtype = d.one(tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.complex64, tf.half)
    shape = d.shape(max_rank=3, max_dim=3)
    path = FOLDER / f"{d.number}"
    size = int(np.prod(shape)) * dtype.size
    path.write_bytes(np.resize(d.values(dtype, (max(1, int(np.prod(shape))),), special=0), max(1, int(np.prod(shape)))).tobytes()[: max(size, 1)] + (b"more" if d.chance(0.2) else b""))
    if d.chance(0.05) and size:
        path.write_bytes(path.read_bytes()[:-1][: size - 1])
    name = str(path) if d.chance(0.95) else d.one(str(FOLDER / "missing"), str(FOLDER), "")
    if d.chance(0.03):
        dtype = tf.string
    return C(d.op, dtype=dtype, shape=shape, memory_region_name=name)


@spec("Timestamp")
def timestamp(d):
    return Program(d.op, lambda: [([raw.Timestamp() > 1.7e9, tf.shape(raw.Timestamp())], {})])


@spec("Fact")
def fact(d):
    return C(d.op)


@spec("DeviceIndex")
def device_index(d):
    names = [d.one("CPU", "GPU", "TPU", "cpu") for _ in range(d.int(0, 3))]
    return C(d.op, device_names=names)


@spec("SyncDevice")
def sync_device(d):
    return Program(d.op, lambda: [(raw.SyncDevice(), {})])


@spec("MutexV2", "MutexLock", "ConsumeMutexLock")
def mutex(d):
    """Steps take and give back a lock, in one step several times, one behind the other."""
    times, rounds, wrong = d.int(1, 3), d.int(1, 3), d.chance(0.1)
    shared = d.one("", "lock")

    def build():
        handle = raw.MutexV2(shared_name=shared)
        counter = v1.get_variable("counter", [], tf.int32, v1.zeros_initializer(), use_resource=True)
        after = []
        for _ in range(times):
            with tf.control_dependencies(after):
                lock = raw.MutexLock(mutex=handle)
            with tf.control_dependencies([lock]):
                added = counter.assign_add(1)
            with tf.control_dependencies([added]):
                after = [raw.ConsumeMutexLock(mutex_lock=lock)]
        steps = [(counter.initializer, {})] + [(after[0], {})] * rounds + [(counter.read_value(), {})]
        if wrong:
            steps.append((raw.ConsumeMutexLock(mutex_lock=raw.EmptyTensorList(element_shape=-1, max_num_elements=1, element_dtype=tf.int32)), {}))
        return steps

    return Program(d.op, build)


@spec("IsResourceHandleRefCounting", "MakeWeakResourceHandle")
def handles(d):
    kind = d.one("named", "anonymous", "queue", "mutex")
    weak = d.chance(0.5) or d.op == "MakeWeakResourceHandle"

    def build():
        if kind in ("named", "anonymous"):
            handle = raw.VarHandleOp(dtype=tf.float32, shape=[2], shared_name=ANONYMOUS if kind == "anonymous" else "named")
        else:
            handle = raw.FIFOQueueV2(component_types=[tf.int32]) if kind == "queue" else raw.MutexV2(shared_name="weak")
        source = handle
        if weak:
            handle = unlisted("MakeWeakResourceHandle", handle=handle).outputs[0]
        steps = [(unlisted("IsResourceHandleRefCounting", handle=handle).outputs[0], {})]
        if kind == "named":
            write = raw.AssignVariableOp(resource=source, value=[1.0, 2.0])
            steps += [(write, {}), (raw.ReadVariableOp(resource=handle, dtype=tf.float32), {})]
        if kind == "queue":
            steps += [(raw.QueueSizeV2(handle=handle), {})]
        return steps

    return Program(d.op, build)


@spec("Send", "Recv", "_HostSend", "_HostRecv")
def send_recv(d):
    value = d.values(d.one(*EVERY), d.shape())
    device = "/job:worker/replica:0/task:0/device:CPU:0"

    def build():
        x = v1.placeholder(value.dtype if value.dtype != object else tf.string)
        where = dict(tensor_name="it", send_device=device, send_device_incarnation=1, recv_device=device)
        with tf.device("/cpu:0"):
            if d.op.startswith("_"):
                sent = unlisted("_HostSend", tensor=x, client_terminated=False, **where)
                got = unlisted("_HostRecv", tensor_type=x.dtype, client_terminated=False, **where).outputs[0]
            else:
                sent = raw.Send(tensor=x, **where)
                got = raw.Recv(tensor_type=x.dtype, **where)
        return [([got, sent], {x: value})]

    return Program(d.op, build)
