"""Specs of calls of functions: ops/function.def.

Each case is a program with functions of its own. Left out: what FakeParam gives, which is never read; _Arg and _Retval of
graphs that no function is; _Send, _Recv and their kin, which only partitions hold.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec, unlisted

raw = tf.raw_ops
v1 = tf.compat.v1

UNARY = (lambda x: x + 1, lambda x: x * x, lambda x: -x, lambda x: x - x, lambda x: tf.reduce_sum(x) + x, lambda x: tf.reshape(tf.reshape(x, [-1]), tf.shape(x)))


def concrete(f, *types):
    """A function of tensors of these dtypes and any shapes, in the current graph."""
    return tf.function(f, autograph=False).get_concrete_function(*(tf.TensorSpec(None, t) for t in types))


def arguments(d):
    dtype = d.one(tf.float32, tf.float64, tf.int32, tf.int64)
    return dtype, [d.values(dtype, d.shape(max_rank=2, max_dim=3), special=0) for _ in range(2)]


def body(d, wrong=0.06):
    """Of two tensors, two results; sometimes one that fails for what it is given."""
    a, b = d.one(*UNARY), d.one(*UNARY)
    swap = d.chance(0.3)

    def f(x, y):
        results = (b(y), a(x)) if swap else (a(x), b(y))
        return tuple(tf.identity(r) for r in results)

    def failing(x, y):
        return tf.reshape(x, [7, 11]), y

    return failing if d.chance(wrong) else f


def conditions(d):
    return d.one(True, False, np.int32(0), np.int32(3), 0.5, 0.0, "", "text", np.asarray([], np.float32), np.asarray([1.0, 0.0], np.float32))


@spec("If", "StatelessIf", "_If")
def if_op(d):
    dtype, values = arguments(d)
    cond = conditions(d)
    then, otherwise = body(d), body(d)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        c = tf.constant(cond)
        attrs = dict(cond=c, input=ports, Tout=[dtype] * 2, then_branch=concrete(then, dtype, dtype), else_branch=concrete(otherwise, dtype, dtype))
        y = unlisted("_If", **attrs).outputs if d.op == "_If" else getattr(raw, d.op)(**attrs)
        feeds = dict(zip(ports, values))
        return [(list(y), feeds), (y[1], feeds)]

    return Program(d.op, build)


@spec("Case", "StatelessCase")
def case_op(d):
    dtype, values = arguments(d)
    index = d.int(0, 2) if d.chance(0.8) else d.one(-1, 3, 100, -(2**31))
    branches = [body(d) for _ in range(d.int(1, 3))]

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        i = v1.placeholder(tf.int32)
        y = getattr(raw, d.op)(branch_index=i, input=ports, Tout=[dtype] * 2, branches=[concrete(b, dtype, dtype) for b in branches])
        return [(list(y), {i: index, **dict(zip(ports, values))})]

    return Program(d.op, build)


@spec("While", "StatelessWhile", "_While")
def while_op(d):
    dtype, values = arguments(d)
    times = d.int(0, 4)
    step = body(d, wrong=0.03)
    numeric = d.chance(0.3)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]

        def cond(i, x, y):
            return times - i if numeric else i < times

        def one(i, x, y):
            a, b = step(x, y)
            return i + 1, a, b

        functions = dict(cond=concrete(cond, tf.int32, dtype, dtype), body=concrete(one, tf.int32, dtype, dtype))
        inputs = [tf.constant(0), *ports]
        y = unlisted("_While", input=inputs, **functions).outputs if d.op == "_While" else getattr(raw, d.op)(input=inputs, **functions)
        return [(list(y), dict(zip(ports, values)))]

    return Program(d.op, build)


@spec("For")
def for_op(d):
    dtype, values = arguments(d)
    start, limit, delta = d.int(-3, 3), d.int(-4, 4), d.one(1, 1, 2, -1, -2, 0)
    if d.chance(0.6):
        start, limit = (min(start, limit), max(start, limit)) if delta > 0 else (max(start, limit), min(start, limit))
    step = body(d, wrong=0.03)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        numbers = [v1.placeholder(tf.int32) for _ in range(3)]

        def one(i, x, y):
            a, b = step(x, y)
            return a + tf.cast(i, dtype), b

        y = raw.For(start=numbers[0], limit=numbers[1], delta=numbers[2], input=ports, body=concrete(one, tf.int32, dtype, dtype))
        return [(list(y), {**dict(zip(numbers, (start, limit, delta))), **dict(zip(ports, values))})]

    return Program(d.op, build)


@spec("PartitionedCall", "StatefulPartitionedCall")
def call(d):
    dtype, values = arguments(d)
    f = body(d)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        y = getattr(raw, d.op)(args=ports, Tout=[dtype] * 2, f=concrete(f, dtype, dtype))
        return [(list(y), dict(zip(ports, values)))]

    return Program(d.op, build)


@spec("RemoteCall")
def remote_call(d):
    dtype, values = arguments(d)
    f = body(d)
    target, is_computed = d.one("/cpu:0", "/device:CPU:0", ""), d.one(True, False)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        with tf.device("/cpu:0"):
            where = target or "/device:CPU:0"
            if is_computed:
                where = v1.placeholder_with_default(where, [])
            y = raw.RemoteCall(target=where, args=ports, Tout=[dtype] * 2, f=concrete(f, dtype, dtype))
        return [(list(y), dict(zip(ports, values)))]

    return Program(d.op, build)


@spec("SymbolicGradient")
def symbolic_gradient(d):
    dtype = d.one(tf.float32, tf.float64)
    x, y = (d.values(dtype, (2, 3), special=0) for _ in range(2))
    a, b = d.one(*UNARY[:4]), d.one(*UNARY[:4])

    def build():
        ports = [v1.placeholder(dtype) for _ in range(4)]
        f = concrete(lambda p, q: (a(p) * q, b(q)), dtype, dtype)
        g = raw.SymbolicGradient(input=ports, Tout=[dtype] * 2, f=f)
        dys = [np.ones((2, 3), dtype.as_numpy_dtype), np.full((2, 3), 2, dtype.as_numpy_dtype)]
        return [(list(g), dict(zip(ports, [x, y, *dys])))]

    return Program(d.op, build, 1e-5, 1e-6)


@spec("FakeParam")
def fake_param(d):
    dtype = d.one(tf.float32, tf.int64, tf.bool, tf.complex64)
    shape = d.one(None, [], [2, 3], [None, 2], [0])

    def build():
        return [(tf.shape(raw.FakeParam(dtype=dtype, shape=shape)), {})]

    return Program(d.op, build)


@spec("_ArrayToList", "_ListToArray")
def lists(d):
    dtype = d.one(tf.float32, tf.int32, tf.string)
    values = [d.values(dtype, d.shape(max_rank=2)) for _ in range(d.int(1, 3))]

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        if d.op == "_ArrayToList":
            y = unlisted(d.op, input=ports, out_types=[dtype] * len(values)).outputs
        else:
            y = unlisted(d.op, input=ports, T=dtype, N=len(values)).outputs
        return [(list(y), dict(zip(ports, values)))]

    return Program(d.op, build)


def results(d, dtype):
    """A function of a row and a captured tensor, and the shapes of its results for rows of that rank, as far as they are known."""
    a, b = d.one(*UNARY[:4]), d.one(*UNARY[:4])
    kind = d.one("same", "same", "sum", "wide", "grows", "fails", "types")

    def f(x, c):
        if kind == "sum":
            return tf.reduce_sum(x) + c, b(x)
        if kind == "wide":
            return tf.stack([a(x), b(x)]), tf.identity(c)
        if kind == "grows":  # another shape for each row
            return tf.range(tf.cast(tf.reduce_sum(x), tf.int32)), b(x)
        if kind == "fails":
            return tf.reshape(x, [7, 11]), b(x)
        if kind == "types":
            return tf.cast(x, tf.complex128), b(x)
        return a(x) + c, b(x)

    return f


@spec("MapDefun")
def map_defun(d):
    dtype = d.one(tf.float32, tf.float64, tf.int32, tf.int64)
    rows = d.int(1, 5) if d.chance(0.9) else 0
    row = d.shape(max_rank=3, max_dim=3)
    x = d.values(dtype, (rows, *row), special=0)
    if d.chance(0.05):
        x = d.values(dtype, special=0)
    captured = d.values(dtype, (), special=0)
    f = results(d, dtype)
    shape = d.one(None, [None] * len(row), list(row), list(row), [*row, 1])
    parallel = d.one(0, 1, 3)
    second = None if d.chance(0.7) else d.values(dtype, (rows + d.one(0, 0, 1), 2), special=0)

    def build():
        port, more, c = (v1.placeholder(dtype) for _ in range(3))
        arguments = [port] if second is None else [port, more]
        g = f if second is None else lambda p, q, r: (f(p, r)[0], tf.concat([q, q], 0))
        y = raw.MapDefun(
            arguments=arguments,
            captured_inputs=[c],
            output_types=[dtype] * 2,
            output_shapes=[shape, None if rows > 0 or second is None else [4]],
            f=concrete(g, *[dtype] * (len(arguments) + 1)),
            max_intra_op_parallelism=parallel,
        )
        feeds = {port: x, c: captured}
        if second is not None:
            feeds[more] = second
        return [(list(y), feeds), (y[1], feeds)]

    return Program(d.op, build)
