"""Specs of lists, optionals, maps of tensors, composite tensors, stacks, and arrays of all versions: ops/list.def.

None of these values leaves a step: a case makes one by some operations and looks at it by others, each in a step of its
own that makes it anew. The order of a map's keys is not defined: they are compared sorted. A stack is looked
at behind a pop: TensorFlow drops pushes that no pop follows. An old array is closed without a write in front: TensorFlow
drops writes of which no value is read.

Left out, because TensorFlow's process ends or reads outside of a tensor: gaps that TensorListScatterIntoExistingList
leaves behind a list's end, and elements of another shape than the list's that it puts there; gradients of a gather at
indices outside of a list; the concatenation of a gradient's array whose forward array was not split.
"""

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import list_ops  # noqa: F401, its gradients

from draw import Program, spec
from support import ALL_DTYPES, v1

R = tf.raw_ops
NUMBERS = (tf.float32, tf.float32, tf.float32, tf.float64, tf.int32, tf.int64, tf.complex64, tf.float16, tf.string, tf.bool)


def ints(values):
    return np.asarray(values, np.int32)


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


# ---- lists ----


class List:
    def __init__(self, d, m):
        self.d, self.m = d, m
        self.dtype = d.one(*NUMBERS) if d.chance(0.7) else d.one(*ALL_DTYPES)
        self.element = d.shape(max_rank=2, max_dim=3, zero=0.03)
        self.n = 0
        self.is_odd = False  # has a wrong shape been given?

    def value(self, *front):
        return self.m.feed(self.d.values(self.dtype, tuple(front) + self.element, special=0.05))

    def shape(self, exact=0.6):
        """The element shape, or what is known of it, or a wrong one."""
        d = self.d
        if d.chance(0.04):
            self.is_odd = True
            return self.m.feed(np.asarray(d.one([7], [1, 2, 3], [-1], [-2]), np.int32))
        if d.chance(exact):
            return self.m.feed(np.asarray(self.element, np.int32))
        if d.chance(0.5):
            return self.m.feed(np.int32(-1))
        return self.m.feed(np.asarray([-1 if d.chance(0.5) else s for s in self.element], np.int32))

    def number(self, x):
        return self.m.feed(np.int32(x))

    def index(self):
        d = self.d
        return d.one(-1, self.n, self.n + 3) if self.n == 0 or d.chance(0.05) else d.int(0, self.n - 1)

    def make(self, how=None):
        d = self.d
        how = how or d.one("EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListFromTensor", "TensorListScatter", "TensorListScatterV2", "TensorListSplit")
        if how == "EmptyTensorList":
            return R.EmptyTensorList(element_shape=self.shape(), max_num_elements=self.number(d.one(-1, -1, 2, 0)), element_dtype=self.dtype)
        if how == "TensorListReserve":
            self.n = d.int(0, 4)
            return R.TensorListReserve(element_shape=self.shape(), num_elements=self.number(self.n if d.chance(0.97) else -1), element_dtype=self.dtype)
        if how == "TensorListFromTensor":
            self.n = d.dim(4)
            return R.TensorListFromTensor(tensor=self.value(self.n), element_shape=self.shape())
        if how == "TensorListSplit":
            lengths = [d.int(0, 2) for _ in range(d.int(1, 3))]
            rows = sum(lengths) + (d.one(1, -1) if d.chance(0.04) else 0)
            self.n = len(lengths)
            tensor = self.value(max(rows, 0))
            shape = self.m.feed(np.asarray([-1, *self.element], np.int32)) if d.chance(0.8) else self.m.feed(np.int32(-1))
            return R.TensorListSplit(tensor=tensor, element_shape=shape, lengths=self.m.feed(np.asarray(lengths, np.int64)))
        self.n = d.int(1, 4)
        k = d.int(1, self.n)
        places = d.rng.permutation(self.n)[:k].astype(np.int32)
        if d.chance(0.04):
            places[0] = -1
        args = dict(tensor=self.value(k), indices=self.m.feed(places), element_shape=self.shape())
        if how == "TensorListScatter":
            self.n = int(places.max()) + 1
            return R.TensorListScatter(**args)
        return R.TensorListScatterV2(num_elements=self.number(d.one(-1, self.n, self.n)), **args)

    def change(self, handle, how=None):
        d = self.d
        how = how or d.one("TensorListPushBack", "TensorListPushBack", "TensorListSetItem", "TensorListSetItem", "TensorListResize", "TensorListPopBack", "TensorListScatterIntoExistingList", "TensorListConcatLists", "TensorListPushBackBatch")
        if how == "TensorListPushBack":
            self.n += 1
            return R.TensorListPushBack(input_handle=handle, tensor=self.value())
        if how == "TensorListSetItem":
            at, resizes = self.index(), d.chance(0.3)
            return R.TensorListSetItem(input_handle=handle, index=self.number(max(at, 0) if resizes else at), item=self.value(), resize_if_index_out_of_bounds=resizes)
        if how == "TensorListResize":
            self.n = d.int(0, 5)
            return R.TensorListResize(input_handle=handle, size=self.number(self.n if d.chance(0.97) else -1))
        if how == "TensorListPopBack":
            out, item = R.TensorListPopBack(input_handle=handle, element_shape=self.shape(), element_dtype=self.dtype)
            self.n = max(self.n - 1, 0)
            self.m.look(item)
            self.m.grads(item)
            return out
        if how == "TensorListScatterIntoExistingList" and not self.is_odd:  # the shapes are not compared
            # without gaps behind the end, which TensorFlow fills with tensors of floats
            places = np.asarray([self.n + i if self.n == 0 or d.chance(0.1) else d.int(0, self.n - 1) for i in range(d.int(1, 3))], np.int32)
            places = places[: np.argmax(places > self.n)] if (places > self.n).any() else places
            self.n = max([self.n, *(int(p) + 1 for p in places)])
            return R.TensorListScatterIntoExistingList(input_handle=handle, tensor=self.value(len(places)), indices=self.m.feed(places))
        if how == "TensorListConcatLists":
            other = R.TensorListFromTensor(tensor=self.value(2), element_shape=self.shape())
            self.n += 2
            return R.TensorListConcatLists(input_a=handle, input_b=other, element_dtype=self.dtype)
        self.n += 1
        both = R.TensorListPushBackBatch(input_handles=tf.stack([handle, handle]), tensor=self.value(2))
        return both[0]

    def look(self, handle, how=None):
        d, m = self.d, self.m
        how = how or d.one("TensorListStack", "TensorListStack", "TensorListGather", "TensorListGetItem", "TensorListLength", "TensorListElementShape", "TensorListConcat", "TensorListConcatV2")
        if how == "TensorListStack":
            out = R.TensorListStack(input_handle=handle, element_shape=self.shape(), element_dtype=self.dtype, num_elements=d.one(-1, -1, self.n, 2))
        elif how == "TensorListGather":
            places = np.asarray([self.index() for _ in range(d.int(0, 3))], np.int32)
            out = R.TensorListGather(input_handle=handle, indices=m.feed(places), element_shape=self.shape(), element_dtype=self.dtype)
            if places.size and not 0 <= places.min() <= places.max() < self.n:  # TensorFlow's process ends in the gradient
                return m.look(out)
        elif how == "TensorListGetItem":
            out = R.TensorListGetItem(input_handle=handle, index=self.number(self.index()), element_shape=self.shape(), element_dtype=self.dtype)
        elif how == "TensorListLength":
            return m.look(R.TensorListLength(input_handle=handle))
        elif how == "TensorListElementShape":
            return m.look(R.TensorListElementShape(input_handle=handle, shape_type=d.one(tf.int32, tf.int64)))
        elif how == "TensorListConcat":
            shape = [None, *self.element[1:]] if self.element and d.chance(0.7) else None
            out, lengths = R.TensorListConcat(input_handle=handle, element_dtype=self.dtype, element_shape=shape)
            m.look(out, lengths)
            return m.grads(out)
        else:
            shape = m.feed(np.asarray([-1, *self.element[1:]], np.int32)) if self.element and d.chance(0.7) else m.feed(np.int32(-1))
            leading = m.feed(np.asarray([d.int(0, 2) for _ in range(d.int(0, 2))], np.int64))
            out, lengths = R.TensorListConcatV2(input_handle=handle, element_shape=shape, leading_dims=leading, element_dtype=self.dtype)
            m.look(out, lengths)
            return m.grads(out)
        m.look(out)
        return m.grads(out)


MAKES = ("EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListScatter", "TensorListScatterV2", "TensorListSplit")
CHANGES = ("TensorListPushBack", "TensorListSetItem", "TensorListResize", "TensorListPopBack", "TensorListScatterIntoExistingList", "TensorListConcatLists", "TensorListPushBackBatch")
LOOKS = ("TensorListStack", "TensorListGather", "TensorListGetItem", "TensorListLength", "TensorListElementShape", "TensorListConcat", "TensorListConcatV2")


@spec(*MAKES, *CHANGES, *LOOKS)
@program
def tensor_list(d, m):
    x = List(d, m)
    handle = x.make(d.op if d.op in MAKES else None)
    for _ in range(d.int(0, 3)):
        handle = x.change(handle)
    if d.op in CHANGES:
        handle = x.change(handle, d.op)
    x.look(handle, d.op if d.op in LOOKS else None)
    x.look(handle)


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
    if any(s.rank == 1 and s[0] == 9 for s in shapes):
        return  # a wrong one: TensorFlow makes the gradient's zeros of what it says, and does not ask the optional
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


# ---- arrays of the third version ----


class Array:
    """An array and the operations on it, one behind the other; `flow` is behind the last."""

    def __init__(self, d, m):
        self.d, self.m = d, m
        self.dtype = d.one(*NUMBERS)
        self.element = d.shape(max_rank=2, max_dim=3, zero=0.03)
        self.n = d.int(0, 4)
        self.dynamic = d.chance(0.4)
        known = d.one([None] * len(self.element), self.element) if d.chance(0.6) else None
        attrs = dict(dtype=self.dtype, element_shape=known, dynamic_size=self.dynamic, clear_after_read=d.chance(0.5))
        size = np.int32(self.n) if d.chance(0.97) else d.one(np.int32(-1), np.asarray([self.n], np.int32))
        self.handle, self.flow = R.TensorArrayV3(size=m.feed(size), identical_element_shapes=d.chance(0.4), tensor_array_name=d.one("", "name"), **attrs)
        self.source = self.handle
        self.written = []  # indices
        self.is_gradient, self.is_spread = False, False

    def value(self, *front):
        shape = (*front, *self.element) if self.d.chance(0.97) else self.d.shape(max_rank=2, max_dim=3)
        return self.m.feed(self.d.values(self.dtype if self.d.chance(0.98) else tf.int8, shape, special=0.05))

    def index(self):
        d = self.d
        return d.one(-1, self.n, self.n + 2) if self.n == 0 or d.chance(0.08) else d.int(0, self.n - 1)

    def places(self):
        """Each once, mostly."""
        d = self.d
        if self.n == 0 or d.chance(0.1):
            return ints([self.index() for _ in range(d.int(0, 3))])
        return d.rng.permutation(self.n)[: d.int(0, self.n)].astype(np.int32)

    def grow(self, n):
        if self.dynamic and n > self.n:
            self.n = n

    def write(self):
        at = self.index()
        if self.written and self.d.chance(0.1):
            at = self.d.one(*self.written)
        self.flow = R.TensorArrayWriteV3(handle=self.handle, index=self.m.feed(np.int32(at) if self.d.chance(0.97) else ints([at])), value=self.value(), flow_in=self.flow)
        self.written.append(at)
        self.grow(at + 1)

    def scatter(self):
        places = self.places()
        rows = len(places) if self.d.chance(0.97) else len(places) + 1
        self.flow = R.TensorArrayScatterV3(handle=self.handle, indices=self.m.feed(places), value=self.value(rows), flow_in=self.flow)
        self.written += list(places)
        self.grow(max([0, *(int(p) + 1 for p in places)]))

    def split(self):
        d = self.d
        n = self.n if d.chance(0.9) else self.n + d.one(1, -1)
        lengths = np.asarray([d.int(0, 2) for _ in range(max(n, 0))], np.int64)
        rows = int(lengths.sum()) + (1 if d.chance(0.03) else 0)
        tail = self.element[1:] if self.element and d.chance(0.5) else self.element
        value = self.m.feed(d.values(self.dtype, (rows, *tail), special=0.05))
        self.flow = R.TensorArraySplitV3(handle=self.handle, value=value, lengths=self.m.feed(lengths), flow_in=self.flow)
        self.written += list(range(n))
        self.grow(n)
        self.is_spread = self.is_spread or n > 0

    def read(self):
        out = R.TensorArrayReadV3(handle=self.handle, index=self.m.feed(np.int32(self.index())), flow_in=self.flow, dtype=self.kind())
        self.m.look(out)

    def kind(self):
        return self.dtype if self.d.chance(0.98) else tf.int8

    def known(self, shape):
        """What an attribute says of it."""
        d = self.d
        return None if d.chance(0.4) else [None if d.chance(0.3) else s for s in shape] if d.chance(0.95) else [7]

    def gather(self):
        out = R.TensorArrayGatherV3(handle=self.handle, indices=self.m.feed(self.places()), flow_in=self.flow, dtype=self.kind(), element_shape=self.known(self.element))
        self.m.look(out)

    def concat(self):
        if self.is_gradient and not self.is_spread:  # TensorFlow's process ends
            return self.size()
        self.m.look(*R.TensorArrayConcatV3(handle=self.handle, flow_in=self.flow, dtype=self.kind(), element_shape_except0=self.known(self.element[1:])))

    def size(self):
        self.m.look(R.TensorArraySizeV3(handle=self.handle, flow_in=self.flow))

    def close(self):
        with tf.control_dependencies([self.flow]):
            closed = R.TensorArrayCloseV3(handle=self.handle)
        if self.d.chance(0.5):
            with tf.control_dependencies([closed]):
                self.flow = tf.identity(self.flow)
        else:
            self.m.look(closed)

    def gradient(self, with_shape=None):
        """From here on the case works on the array of the gradient."""
        with_shape = self.d.chance(0.4) if with_shape is None else with_shape
        args = dict(handle=self.handle, flow_in=self.flow, source=self.d.one("gradients", "g"))
        if with_shape:
            front = self.d.shape(max_rank=2, max_dim=2, zero=0)
            self.element = (*front, *self.element)
            self.handle, self.flow = R.TensorArrayGradWithShape(shape_to_prepend=self.m.feed(np.asarray(front, np.int32)), **args)
        else:
            self.handle, self.flow = R.TensorArrayGradV3(**args)
        self.is_gradient, self.dynamic = True, False


ARRAY_OPERATIONS = {
    "TensorArrayWriteV3": Array.write,
    "TensorArrayScatterV3": Array.scatter,
    "TensorArraySplitV3": Array.split,
    "TensorArrayReadV3": Array.read,
    "TensorArrayGatherV3": Array.gather,
    "TensorArrayConcatV3": Array.concat,
    "TensorArraySizeV3": Array.size,
    "TensorArrayCloseV3": Array.close,
    "TensorArrayGradV3": lambda a: a.gradient(False),
    "TensorArrayGradWithShape": lambda a: a.gradient(True),
}


@spec("TensorArrayV3", *ARRAY_OPERATIONS)
@program
def tensor_array(d, m):
    a = Array(d, m)
    writes = [Array.write, Array.write, Array.scatter, Array.split]
    reads = [Array.read, Array.read, Array.gather, Array.concat, Array.size]
    d.one(*writes)(a)
    for _ in range(d.int(0, 3)):
        d.one(*writes, *reads, Array.gradient if d.chance(0.5) else Array.write, Array.close if d.chance(0.1) else Array.write)(a)
    ARRAY_OPERATIONS.get(d.op, Array.write)(a)
    for _ in range(d.int(1, 3)):
        d.one(*reads)(a)


# ---- arrays of old versions ----


@spec("TensorArrayV2", "TensorArrayWriteV2", "TensorArrayReadV2", "TensorArrayGatherV2", "TensorArrayScatterV2", "TensorArraySizeV2", "TensorArrayCloseV2", "TensorArrayConcatV2", "TensorArraySplitV2", "TensorArrayGradV2")
def tensor_array_v2(d):
    """Graphs of a version that still had it: the client makes no node of it, so its definition is written."""
    return old_array(d, "V2")


@spec("TensorArray", "TensorArrayWrite", "TensorArrayRead", "TensorArrayGather", "TensorArrayScatter", "TensorArraySize", "TensorArrayClose", "TensorArrayConcat", "TensorArraySplit", "TensorArrayPack", "TensorArrayUnpack", "TensorArrayGrad")
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
        if version == "V2" or d.op == "TensorArrayGrad":
            source = v1.AttrValue(s=b"gradients")
            node(definition, "TensorArrayGrad" + version, "grad", "array", flow, source=source)
            one = node(definition, "TensorArrayWrite" + version, "grad_write", "grad", const("where", np.int32(0)), const("dy", d.values(dtype, (1, *element) if how == "Split" else element, special=0)), flow, T=dtype)
            looks.append(node(definition, "TensorArrayRead" + version, "look_grad", "grad", "where", one, dtype=dtype))
        closed = node(definition, "TensorArrayClose" + version, "close", "array")
        tf.import_graph_def(definition, name="")
        graph = v1.get_default_graph()
        return [(graph.get_tensor_by_name(name + ":0"), {}) for name in looks] + [(graph.get_operation_by_name(closed), {})]

    return Program(d.op, build)
