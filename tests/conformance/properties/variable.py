"""Specs of variables, by reference and by handle: ops/variable.def.

Each case is a session of several steps, which ends with what the variable holds. Left out: what a scatter with a bad
index has written before it fails (TensorFlow writes the rows in front of it, here nothing is written); integers
divided by 0 or by -1, and indices of ResourceGather with other batch dimensions than the variable, with both of which
TensorFlow's process ends; complex quotients of what is not finite; a VarHandleOp
without a shared_name, which in TensorFlow has the empty name, and here the node's; and shapes, which are of handles.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C
from support import local_session

INTS = (tf.int32, tf.int64)


def add(op, *inputs, **attrs):
    """A node of the op; its first output, or the node itself."""
    return C(op, *inputs, **attrs).build()[0][0]


def is_handle(op):
    return op.startswith("Resource") or op.endswith("VariableOp") or op == "VariableShape" or op.startswith("VarIs")


class Held:
    """A variable in the current graph, made by `op`."""

    def __init__(self, op, dtype, shape=None, **attrs):
        self.dtype, self.by_handle = dtype, op == "VarHandleOp"
        self.node = add(op, dtype=dtype, shape=shape, **attrs)

    def assign(self, value, check=False):
        return add("AssignVariableOp" if self.by_handle else "Assign", self.node, value, validate_shape=check)

    def read(self):
        return add("ReadVariableOp", self.node, dtype=self.dtype) if self.by_handle else add("Identity", self.node)

    def is_initialized(self):
        return add("VarIsInitializedOp" if self.by_handle else "IsVariableInitialized", self.node)

    def set(self, value):
        """The step that gives it a value, which nothing else holds."""
        port = tf.compat.v1.placeholder(tf.string if value.dtype == object else value.dtype)
        return [self.assign(port)], {port: value.copy()}


def held(d, dtype, shape=None):
    """The variable of a case, of the kind that the op takes."""
    return Held("VarHandleOp" if is_handle(d.op) else "VariableV2", dtype, shape, shared_name=f"{d.op} {d.number}")


def program(d, held_type, value, inputs, reads=True, **attrs):
    """The op on a variable of that value (None: it has none), once for each of `inputs`, and what is left of it."""

    def build():
        v = held(d, held_type, None if value is None else value.shape)
        steps = [] if value is None else [v.set(value)]
        read = v.read()
        outs, feeds = C(d.op, v.node, *inputs[0], **attrs).build()
        for x in inputs:
            steps.append((outs, dict(zip(feeds, x))))
            if reads:
                steps.append((read, {}))
        return steps

    return Program(d.op, build)


def number(d, attr, **of_shape):
    dtype = d.dtype(attr)
    return dtype, d.shape(**of_shape)


def others(d, shape, wrong=0.06):
    """The shape, or one that does not fit."""
    return d.one((*shape, 2), shape[1:], (7,)) if d.chance(wrong) else shape


# ---- whole values ----


@spec("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
def assign_add(d):
    dtype, shape = number(d, "dtype" if is_handle(d.op) else "T")
    value = None if d.chance(0.06) else d.values(dtype, shape)
    return program(d, dtype, value, [[d.values(dtype, others(d, shape))] for _ in range(3)])


@spec("Assign", "AssignVariableOp")
def assign(d):
    dtype, shape = number(d, "dtype" if is_handle(d.op) else "T")
    check = d.chance(0.5)
    declared = d.one(None, None, shape, [None] * len(shape))
    steps = [d.values(dtype, others(d, shape, 0.25)) for _ in range(3)]

    def build():
        v = held(d, dtype, declared)
        port = tf.compat.v1.placeholder(dtype)
        op, read = v.assign(port, check), v.read()
        return [(read, {})] + [step for x in steps for step in (([op], {port: x}), (read, {}))]

    return Program(d.op, build)


@spec("ReadVariableOp", "VarIsInitializedOp", "IsVariableInitialized", "VariableShape")
def look(d):
    dtype = d.one(tf.float32, tf.int64, tf.string, tf.bool, tf.half)
    value = d.values(dtype, d.shape())
    attrs = {"VariableShape": {"out_type": d.one(*INTS)}, "ReadVariableOp": {"dtype": dtype}}.get(d.op, {})

    def build():
        v = held(d, dtype, value.shape)
        out = add(d.op, v.node, **attrs)
        return [(out, {}), v.set(value), (out, {})]

    return Program(d.op, build)


@spec("DestroyResourceOp", "DisableCopyOnRead")
def destroy(d):
    value = d.values(tf.float32, d.shape())
    attrs = {"ignore_lookup_error": d.chance(0.5)} if d.op == "DestroyResourceOp" else {}
    early = d.chance(0.5)

    def build():
        v = Held("VarHandleOp", tf.float32, shared_name=f"{d.op} {d.number}")
        op, alive = add(d.op, v.node, **attrs), v.is_initialized()
        steps = [(op, {})] if early else []
        return [*steps, v.set(value), (op, {}), (alive, {}), (v.read(), {}), (op, {}), v.set(value), (v.read(), {})]

    return Program(d.op, build)


@spec("CountUpTo", "ResourceCountUpTo")
def count_up_to(d):
    dtype = d.one(*INTS)
    top = np.iinfo(dtype.as_numpy_dtype).max
    limit = d.one(0, 3, 5, -2, top)
    value = np.asarray(d.one(limit - 2, limit - 1, limit, -5), dtype.as_numpy_dtype)
    value = None if d.chance(0.06) else value
    attrs = {"T": dtype} if is_handle(d.op) else {}
    return program(d, dtype, value, [[]] * 3, limit=limit, **attrs)


@spec("VarHandleOp", "VariableV2", "Variable")
def holder(d):
    """Two nodes, which are the same variable if container and name are the same; names that are none."""
    dtype = d.one(tf.float32, tf.int32, tf.string)
    value, other = d.values(dtype, (2,)), d.values(dtype, (2,))
    containers = ["", "", "box", "a.b/c_d-e", "9lives", "_x", "-x", "/x", "a b", "é", "a:b", "box/", "BOX", ".x", "a\n"]
    shared = ["shared", "shared", "_x", "with space", "a/b:0", "é", "-"]
    shared = [f"{name} {d.op} {d.number}" for name in shared] + [""] * (d.op != "VarHandleOp")
    made = [dict(container=d.one(*containers), shared_name=d.one(*shared)) for _ in range(2)]
    for attrs in made:
        if attrs["shared_name"] == "":
            attrs["container"] = f"{d.op}{d.number}"  # where no other case has a node of that name
    if d.chance(0.5):
        made[1] = made[0]

    def build():
        both = [Held(d.op, dtype, [2], **attrs) for attrs in made]
        steps = []
        for v, x in zip(both, (value, other)):
            steps += [(v.is_initialized(), {}), v.set(x), (v.read(), {})]
        return [*steps, (both[0].read(), {})]

    return Program(d.op, build)


@spec("TemporaryVariable", "DestroyTemporaryVariable")
def temporary(d):
    dtype, shape = d.one(tf.float32, tf.int64, tf.string, tf.complex64, tf.bool), d.shape()
    value = d.values(dtype, others(d, shape, 0.1))
    name = d.one("", "t")
    other = d.one(*[name or "TemporaryVariable"] * 3, "u")

    def build():
        v = add("TemporaryVariable", shape=list(shape), dtype=dtype, var_name=name)
        port = tf.compat.v1.placeholder(dtype)
        out = add("DestroyTemporaryVariable", add("Assign", v, port), var_name=other)
        return [(out, {port: value})] * 2

    return Program(d.op, build)


# ---- rows ----


def update_values(d, dtype, shape):
    if "Div" in d.op and (dtype.is_integer or dtype.is_complex):
        return d.values(dtype, shape, low=1, high=9, special=0)
    return d.values(dtype, shape)


@spec(*(f"{kind}Scatter{what}" for kind in ("", "Resource") for what in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")))
def scatter(d):
    attr = "dtype" if is_handle(d.op) else "T"
    dtype, index = d.dtype(attr), d.one(*INTS)
    shape = d.shape(min_rank=0 if d.chance(0.03) and not is_handle(d.op) else 1, max_rank=4)
    rows = shape[0] if shape else 1
    value = None if d.chance(0.05) else update_values(d, dtype, shape)
    wrong = d.chance(0.12) and 0 not in shape

    def inputs():
        at = d.shape(max_rank=3)
        indices = d.indices(rows, at, index, wrong=0.6 if wrong else 0)
        if not wrong and not rows:
            indices = indices.reshape(-1)[:0]
        whole = (*indices.shape, *shape[1:])
        updates = () if d.chance(0.2) else others(d, whole, 0.4 if wrong else 0)
        return [indices, update_values(d, dtype, updates)]

    return program(d, dtype, value, [inputs() for _ in range(1 if wrong else 3)], reads=not wrong)


@spec(*(f"{kind}ScatterNd{what}" for kind in ("", "Resource") for what in ("Add", "Sub", "Update")), "ResourceScatterNdMax", "ResourceScatterNdMin", "ScatterNdMax", "ScatterNdMin")
def scatter_nd(d):
    dtype, index = d.dtype("T"), d.one(*INTS)
    shape = d.shape(min_rank=1, max_rank=4)
    value = None if d.chance(0.05) else d.values(dtype, shape)
    attrs, wrong = {}, d.chance(0.15)
    if d.chance(0.3):
        attrs["bad_indices_policy"] = d.one("", "DEFAULT", "ERROR", "IGNORE" if not wrong else "", "none" if d.chance(0.2) else "")

    def inputs():
        at, depth = d.shape(max_rank=2), d.int(0 if d.chance(0.1) else 1, len(shape))
        n = int(np.prod(at, dtype=np.int64))
        columns = [d.rng.integers(0, max(s, 1), n) for s in shape[:depth]]
        indices = np.stack(columns, -1).reshape(*at, depth) if depth else np.zeros((*at, 0), np.int64)
        if indices.size and (wrong or 0 in shape[:depth]):
            indices.flat[d.int(0, indices.size - 1)] = d.one(-1, 7, 2**31 - 1, -(2**31))
        updates = d.values(dtype, others(d, (*at, *shape[depth:]), 0.4 if wrong else 0))
        return [indices.astype(index.as_numpy_dtype), updates]

    hostile = wrong or 0 in shape
    return program(d, dtype, value, [inputs() for _ in range(1 if hostile else 3)], reads=not hostile, **attrs)


@spec("ResourceGather")
def gather(d):
    dtype, shape = number(d, "dtype", min_rank=1, max_rank=4)
    index = d.one(*INTS)
    batch = d.one(0, 0, 0, min(1, max(len(shape) - 1, 0)))
    value = None if d.chance(0.05) else d.values(dtype, shape)

    def inputs():
        at = d.shape(max_rank=3)
        if batch > 0:
            at = (*shape[:batch], *at)
        return [d.indices(shape[batch] if len(shape) > max(batch, 0) else 1, at, index)]

    return program(d, dtype, value, [inputs() for _ in range(3)], dtype=dtype, batch_dims=batch)


@spec("ResourceGatherNd")
def gather_nd(d):
    dtype, shape = number(d, "dtype", min_rank=1, max_rank=4)
    index = d.one(*INTS)
    value = None if d.chance(0.05) else d.values(dtype, shape)

    def inputs():
        at, depth = d.shape(max_rank=2), d.int(0, len(shape) + (1 if d.chance(0.05) else 0))
        n = int(np.prod(at, dtype=np.int64))
        columns = [d.rng.integers(0, max(s, 1), n) for s in (*shape, 1)[:depth]]
        indices = np.stack(columns, -1).reshape(*at, depth) if depth else np.zeros((*at, 0), np.int64)
        if indices.size and d.chance(0.08):
            indices.flat[d.int(0, indices.size - 1)] = d.one(-1, 7, 2**31 - 1, -(2**31))
        return [indices.astype(index.as_numpy_dtype)]

    return program(d, dtype, value, [inputs() for _ in range(3)], dtype=dtype)


@spec("StridedSliceAssign", "ResourceStridedSliceAssign")
def assign_slice(d):
    dtype, shape = number(d, "T", min_rank=1, max_rank=3)
    index = d.one(*INTS)
    n = d.int(0, len(shape))
    begin, end = ([d.int(-s - 1, s + 1) for s in shape[:n]] for _ in range(2))
    step = [d.one(1, 1, 2, -1, -2, 0 if d.chance(0.05) else 1) for _ in range(n)]
    masks = {m: d.int(0, 2**n - 1) if d.chance(0.3) else 0 for m in ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask")}
    masks["ellipsis_mask"] = 1 << d.int(0, n - 1) if n and d.chance(0.1) else 0
    try:
        with tf.Graph().as_default(), local_session() as sess:
            outs, feeds = C("StridedSlice", np.zeros(shape), *(np.asarray(v, np.int64) for v in (begin, end, step)), **masks).build()
            part = sess.run(outs, feeds)[0].shape
    except (tf.errors.OpError, ValueError):
        part = shape
    value = None if d.chance(0.05) else d.values(dtype, shape)
    inputs = [[np.asarray(v, index.as_numpy_dtype) for v in (begin, end, step)] + [d.values(dtype, others(d, part))] for _ in range(2)]
    return program(d, dtype, value, inputs, **masks)
