"""Specs of optionals, maps of tensors, composite tensors, stacks, and arrays of old versions: ops/list.def.

None of these values leaves a step: a case makes one by some operations and looks at it by others, each in a step of its
own that makes it anew. The order of a map's keys is not defined: they are compared sorted. A stack is looked
at behind a pop: TensorFlow drops pushes that no pop follows. An array is closed without a write in front: TensorFlow
drops writes of which no value is read.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from support import v1

R = tf.raw_ops
NUMBERS = (tf.float32, tf.float32, tf.float32, tf.float64, tf.int32, tf.int64, tf.complex64, tf.float16, tf.string, tf.bool)


class Making:
    """What a case builds in: placeholders with their values, and steps."""

    def __init__(self, d):
        self.d, self.feeds, self.steps, self.sources = d, {}, [], []

    def feed(self, value):
        value = np.asarray(value)
        port = v1.placeholder(tf.string if value.dtype == object else value.dtype)
        self.feeds[port] = value
        if value.dtype.kind in "fc":
            self.sources.append(port)
        return port

    def look(self, *fetches):
        self.steps.append((list(fetches), self.feeds))

    def grads(self, y):
        """A step with the gradients of a number made of y."""
        if not (y.dtype.is_floating or y.dtype.is_complex) or not self.sources:
            return
        try:
            grads = [g for g in tf.gradients(y * tf.cast(1.5, y.dtype), self.sources) if g is not None]
        except (LookupError, ValueError, TypeError, NotImplementedError):
            return
        if grads:
            self.look(*[tf.convert_to_tensor(g) for g in grads])


def program(function):
    """Makes a spec of function(d, m), which builds into m; for both runtimes with the same draws."""

    def make(d):
        state = d.rng.bit_generator.state

        def build():
            d.rng.bit_generator.state = state
            m = Making(d)
            function(d, m)
            return m.steps

        return Program(d.op, build)

    return make


# ---- optionals ----


@spec("OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone")
@program
def optional(d, m):
    values = [m.feed(d.values(d.one(*NUMBERS), d.shape(max_rank=2))) for _ in range(d.int(1, 3))]
    made = R.OptionalNone() if d.op == "OptionalNone" or d.chance(0.1) else R.OptionalFromValue(components=values)
    types = [v.dtype for v in values]
    shapes = [tf.TensorShape(m.feeds[v].shape) if d.chance(0.4) else tf.TensorShape(None) for v in values]
    if d.chance(0.1):
        types, shapes = d.one((types[::-1], shapes), (types + [tf.float32], shapes + [tf.TensorShape(None)]), (types, [tf.TensorShape([9])] * len(types)))
    m.look(R.OptionalHasValue(optional=made))
    out = R.OptionalGetValue(optional=made, output_types=types, output_shapes=shapes)
    m.look(*out)
    for y in out:
        m.grads(y)


# ---- maps ----


@spec("EmptyTensorMap", "TensorMapErase", "TensorMapHasKey", "TensorMapInsert", "TensorMapLookup", "TensorMapSize", "TensorMapStackKeys")
@program
def tensor_map(d, m):
    key_dtype, value_dtype = d.one(tf.int32, tf.int64, tf.string, tf.float32, tf.bool), d.one(*NUMBERS)
    key_shape, shape = d.one((), (), (2,), (0,)), d.shape(max_rank=2, max_dim=3)

    def key():
        front = key_shape if d.chance(0.97) else (1, *key_shape)
        return m.feed(d.texts(front, ["a", "b", ""]) if key_dtype == tf.string else d.values(key_dtype, front, low=0, high=2, special=0.05))

    made = R.EmptyTensorMap()
    keys = []
    for _ in range(d.int(0, 4)):
        k = d.one(*keys) if keys and d.chance(0.3) else key()
        if d.chance(0.8):
            keys.append(k)
            made = R.TensorMapInsert(input_handle=made, key=k, value=m.feed(d.values(value_dtype, shape)))
        else:
            made = R.TensorMapErase(input_handle=made, key=k, value_dtype=value_dtype)
    m.look(R.TensorMapSize(input_handle=made))
    some = [d.one(*keys) if keys and d.chance(0.8) else key() for _ in range(2)]
    m.look(*[R.TensorMapHasKey(input_handle=made, key=k) for k in some])
    for k in some:
        y = R.TensorMapLookup(input_handle=made, key=k, value_dtype=value_dtype)
        m.look(y)
    if key_dtype != tf.bool:
        stacked = R.TensorMapStackKeys(input_handle=made, key_dtype=key_dtype if d.chance(0.95) else tf.int16)
        if stacked.dtype == tf.string:
            order = tf.argsort(tf.strings.to_hash_bucket_fast(tf.strings.reduce_join(stacked, axis=-1) if key_shape else stacked, 2**60))
            m.look(tf.shape(stacked), tf.size(order))
        else:
            m.look(tf.shape(stacked), tf.sort(tf.reshape(stacked, [-1])))


# ---- composite tensors ----


def metadata(type_class, rest=b""):
    inner = bytes([8, type_class]) + rest
    return bytes([10, len(inner)]) + inner


@spec("CompositeTensorVariantFromComponents", "CompositeTensorVariantToComponents")
@program
def composite(d, m):
    values = [m.feed(d.values(d.one(*NUMBERS), d.shape(max_rank=2))) for _ in range(d.int(0, 3))]
    first = d.one(1, 3, 5)
    made = R.CompositeTensorVariantFromComponents(components=values, metadata=metadata(first) if d.chance(0.95) else d.one(b"\xff", b"\x0a\x05"))
    types = [v.dtype for v in values]
    if d.chance(0.1):
        types = d.one(types + [tf.float32], types[1:], [tf.int16] * len(types))
    out = R.CompositeTensorVariantToComponents(encoded=made, metadata=metadata(first if d.chance(0.95) else 2), Tcomponents=types)
    m.look(*(out if types else [out]))


# ---- stacks ----


@spec("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "Stack", "StackPush", "StackPop", "StackClose")
@program
def stack(d, m):
    v2 = "V2" if d.op.endswith("V2") else ""
    dtype = d.one(*NUMBERS)
    name = d.one("", "s")
    if v2:
        handle = R.StackV2(max_size=m.feed(np.int32(d.one(-1, -1, 1, 2) if d.chance(0.97) else [1, 2])), elem_type=dtype, stack_name=name)
    else:
        handle = R.Stack(elem_type=dtype, stack_name=name)
    done, fetches, depth = [], [], 0
    turns = d.int(1, 6)
    for i in range(turns + 1):
        with tf.control_dependencies(done):
            if i < turns and (depth == 0 and d.chance(0.95) or d.chance(0.5)):
                with tf.control_dependencies(None):
                    x = m.feed(d.values(dtype if d.chance(0.97) else tf.int16, d.shape(max_rank=2)))
                out = getattr(R, "StackPush" + v2)(handle=handle, elem=x, swap_memory=d.chance(0.2))
                depth += 1
            elif i == turns or d.chance(0.95):
                out = getattr(R, "StackPop" + v2)(handle=handle, elem_type=dtype)
                depth -= 1
            else:
                out = getattr(R, "StackClose" + v2)(handle=handle)
        fetches.append(out)
        done = [out]
    m.look(*fetches)


# ---- arrays ----


@spec("TensorArrayV2", "TensorArrayWriteV2", "TensorArrayReadV2", "TensorArrayGatherV2", "TensorArrayScatterV2", "TensorArraySizeV2", "TensorArrayCloseV2", "TensorArrayConcatV2", "TensorArraySplitV2", "TensorArrayGradV2")
def tensor_array_v2(d):
    """Graphs of a version that still had it: the client makes no node of it, so its definition is written."""
    return old_array(d, "V2")


@spec("TensorArray", "TensorArrayWrite", "TensorArrayRead", "TensorArrayGather", "TensorArrayScatter", "TensorArraySize", "TensorArrayClose", "TensorArrayConcat", "TensorArraySplit", "TensorArrayPack", "TensorArrayUnpack")
def tensor_array_v1(d):
    return old_array(d, "")


def node(graph, op, name, *inputs, **attrs):
    n = graph.node.add(op=op, name=name, input=inputs)
    for key, value in attrs.items():
        if isinstance(value, tf.DType):
            n.attr[key].type = value.as_datatype_enum
        elif isinstance(value, bool):
            n.attr[key].b = value
        else:
            n.attr[key].CopyFrom(value)
    return name


def old_array(d, version):
    state = d.rng.bit_generator.state

    def build():
        d.rng.bit_generator.state = state
        dtype = d.one(tf.float32, tf.int32, tf.float64)
        element = d.shape(max_rank=2, max_dim=3, zero=0)
        n = d.int(1, 3)
        definition = v1.GraphDef()
        definition.versions.producer = 10

        def const(name, value):
            value = np.asarray(value)
            attr = v1.AttrValue(tensor=tf.make_tensor_proto(value))
            return node(definition, "Const", name, dtype=tf.as_dtype(value.dtype), value=attr)

        node(definition, "TensorArray" + version, "array", const("size", np.int32(n)), dtype=dtype, dynamic_size=d.chance(0.5), clear_after_read=d.chance(0.5))
        rows = const("rows", d.values(dtype, (n, *element), special=0))
        flow = const("flow", np.float32(0))
        how = d.one("Write", "Scatter", "Split", "Unpack" if version == "" else "Scatter")
        if how == "Write":
            row = const("row", d.values(dtype, element, special=0))
            for i in range(n if d.chance(0.9) else n + 1):
                flow = node(definition, "TensorArrayWrite" + version, f"write{i}", "array", const(f"i{i}", np.int32(i)), row, flow, T=dtype)
        elif how == "Scatter":
            flow = node(definition, "TensorArrayScatter" + version, "scatter", "array", const("places", np.arange(n, dtype=np.int32)[::-1].copy()), rows, flow, T=dtype)
        elif how == "Split":
            flow = node(definition, "TensorArraySplit" + version, "split", "array", rows, const("lengths", np.ones(n, np.int64)), flow, T=dtype)
        else:
            flow = node(definition, "TensorArrayUnpack", "unpack", "array", rows, flow, T=dtype)
        looks = [node(definition, "TensorArraySize" + version, "look_size", "array", flow)]
        looks.append(node(definition, "TensorArrayRead" + version, "look_read", "array", const("at", np.int32(d.int(0, n))), flow, dtype=dtype))
        looks.append(node(definition, "TensorArrayGather" + version, "look_gather", "array", const("all", np.arange(n, dtype=np.int32)), flow, dtype=dtype))
        looks.append(node(definition, "TensorArrayConcat" + version, "look_concat", "array", flow, dtype=dtype))
        if version == "":
            looks.append(node(definition, "TensorArrayPack", "look_pack", "array", flow, dtype=dtype))
        else:
            source = v1.AttrValue(s=b"gradients")
            node(definition, "TensorArrayGradV2", "grad", "array", flow, source=source)
            one = node(definition, "TensorArrayWriteV2", "grad_write", "grad", const("where", np.int32(0)), const("dy", d.values(dtype, (1, *element) if how == "Split" else element, special=0)), flow, T=dtype)
            looks.append(node(definition, "TensorArrayReadV2", "look_grad", "grad", "where", one, dtype=dtype))
        closed = node(definition, "TensorArrayClose" + version, "close", "array")
        tf.import_graph_def(definition, name="")
        graph = v1.get_default_graph()
        return [(graph.get_tensor_by_name(name + ":0"), {}) for name in looks] + [(graph.get_operation_by_name(closed), {})]

    return Program(d.op, build)
