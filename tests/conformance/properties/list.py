"""Specs of optionals, maps of tensors and composite tensors: ops/list.def.

None of these values leaves a step: a case makes one by some operations and looks at it by others, each in a step of its
own that makes it anew. The order of a map's keys is not defined: they are compared sorted.
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
