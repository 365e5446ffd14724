"""Specs of constants, placeholders, identities and checks: ops/graph.def.

Left out: what Print and PrintV2 write, which is not theirs to return; and Placeholder without a feed whose value
TensorFlow's client asks for itself.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C

raw = tf.raw_ops
v1 = tf.compat.v1
EVERY = (tf.float32, tf.float64, tf.half, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string)


def any_value(d, **of_shape):
    return d.values(d.one(*EVERY), d.shape(**of_shape))


@spec("Identity", "DeepCopy", "Snapshot", "StopGradient")
def identity(d):
    return C(d.op, any_value(d))


@spec("PreventGradient")
def prevent_gradient(d):
    case = C(d.op, any_value(d), message=d.one("", "no"))
    case.has_gradient = False  # asking for it is an error
    return case


@spec("IdentityN")
def identity_n(d):
    return C(d.op, [any_value(d) for _ in range(d.int(1, 4))])


@spec("CheckNumerics")
def check_numerics(d):
    return C(d.op, d.values(d.dtype(), d.shape(), special=0.3), message=d.one("", "m", "100%"))


@spec("Const")
def const(d):
    """The value as its proto holds it: content, or typed fields whose last element is repeated."""
    dtype = d.one(*EVERY)
    value = d.values(dtype, d.shape())
    if d.chance(0.4) and value.size:
        value = np.broadcast_to(value.flat[0], value.shape)

    def build():
        return [([tf.constant(value, dtype)], {})]

    return Program(d.op, build)


@spec("Placeholder", "PlaceholderV2")
def placeholder(d):
    dtype = d.one(*EVERY)
    shape = d.shape(max_rank=3)
    declared = d.one(None, list(shape), [None] * len(shape)) if d.chance(0.9) else d.one([7], [])
    feed = d.values(dtype, shape)
    is_fed = d.chance(0.85)

    def build():
        if d.op == "PlaceholderV2":
            from properties.reader import old_versions

            old_versions()
        x = getattr(raw, d.op)(dtype=dtype, shape=declared if declared is not None or d.op == "Placeholder" else [])
        y = tf.identity(x)
        # The client refuses a feed of another shape itself.
        fits = x.shape.is_compatible_with(feed.shape)
        return [(y, {x: feed} if is_fed and fits else {})]

    return Program(d.op, build)


@spec("PlaceholderWithDefault")
def placeholder_with_default(d):
    value = any_value(d, max_rank=3)
    case = C(d.op, value, shape=d.one(None, list(value.shape), [None] * value.ndim))
    return case


@spec("Assert")
def assert_that(d):
    condition = np.asarray(d.chance(0.5)) if d.chance(0.95) else np.asarray([True])
    # The client can read an error in UTF-8 alone.
    data = [v if v.dtype != object else d.texts(v.shape, ["", "a", "b c"]) for v in (any_value(d) for _ in range(d.int(1, 3)))]
    return C(d.op, condition, data, summarize=d.one(3, 0, -1, 100))


@spec("Print")
def print_values(d):
    return C(d.op, any_value(d, max_rank=2), [any_value(d, max_rank=2) for _ in range(d.int(0, 2))], message="", first_n=d.one(0, 0, 1, -1), summarize=d.one(3, 0, -1))


@spec("PrintV2")
def print_v2(d):
    text = d.texts(() if d.chance(0.9) else (2,), ["", "quiet"])
    return C(d.op, text, output_stream=d.one("stderr", "log(info)") if d.chance(0.9) else "nowhere", end="\n")


@spec("NoOp")
def no_op(d):
    return Program(d.op, lambda: [(raw.NoOp(), {})])
