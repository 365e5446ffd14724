"""Cases of the differential op test: one op, its inputs, its attributes; and how to run them two ways.

A case is written C("Sum", x, [0, 1], keep_dims=True): the inputs in the order of the op's definition, the
attributes by name. Inputs are fed through placeholders of unknown shape, so that kernels do the work and no
client-side shape check or constant folding does it for them. What local TensorFlow answers, a value or an
error, is what the servers must answer.
"""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_library, op_def_registry

from support import ALL_DTYPES, local_session, session, v1

SEEN = {}  # label of every case made so far: ids must be unique


class Case:
    """One op with inputs and attributes.

    `rtol` and `atol` replace the dtype's tolerance; `outputs` says how many outputs have defined values. Where
    TensorFlow's gradient is no measure, `has_gradient` is False; `gradient_tolerance` (rtol, atol) is that of gradients
    where it is another one.
    """

    has_gradient = True
    gradient_tolerance = None

    def __init__(self, op, inputs, attrs, label, rtol, atol, outputs):
        self.op, self.inputs, self.attrs = op, inputs, attrs
        self.rtol, self.atol, self.outputs = rtol, atol, outputs
        name = f"{op}-{label}" if label else op
        SEEN[name] = SEEN.get(name, 0) + 1
        self.name = name if SEEN[name] == 1 else f"{name}-{SEEN[name]}"

    def build(self):
        """Adds the op to the current graph; returns its outputs, flat, and the feeds it needs."""
        feeds, arguments = {}, {}
        definition = op_def_registry.get(self.op)
        for arg, value in zip(definition.input_arg, self.inputs, strict=True):
            is_list = bool(arg.number_attr or arg.type_list_attr)
            ports = []
            for part in value if is_list else [value]:
                if callable(part):  # a node of the graph, for inputs whose shape or value the client must know
                    part = part()
                if isinstance(part, tf.Tensor):
                    ports.append(part)
                    continue
                part = as_input(part, arg)
                port = v1.placeholder(tf.string if part.dtype == object else part.dtype)
                feeds[port] = part
                ports.append(port)
            arguments[arg.name] = ports if is_list else ports[0]
        attrs = {**defaults_of(definition), **self.attrs}
        name = self.op[1:] if self.op.startswith("_") else None  # an op's own name is no node's then
        out = op_def_library.apply_op(self.op, name=name, **arguments, **attrs)
        if isinstance(out, tf.Operation):
            return [out], feeds
        return tf.nest.flatten(out)[: self.outputs], feeds


def defaults_of(definition):
    """The default attributes of an op that its inputs do not decide."""
    inferred = {n for a in definition.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}
    values = {}
    for attr in definition.attr:
        kind = attr.default_value.WhichOneof("value")
        if attr.name in inferred or kind is None:
            continue
        value = getattr(attr.default_value, kind)
        if kind == "list":
            value = list(next((v for _, v in value.ListFields()), []))
        values[attr.name] = tf.as_dtype(value) if kind == "type" else value
    return values


def as_input(value, arg):
    """An array of the dtype that the op's definition wants, where that is fixed; int32 for plain integers."""
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        return np.asarray(value, object)
    if arg.type:
        return array.astype(tf.as_dtype(arg.type).as_numpy_dtype)
    if isinstance(value, (int, list, tuple)):
        if array.size == 0 or array.dtype == np.int64:
            return array.astype(np.int32)
        if array.dtype == np.float64:
            return array.astype(np.float32)
    return array


def C(op, *inputs, label="", rtol=None, atol=None, outputs=None, **attrs):
    return Case(op, inputs, attrs, label, rtol, atol, outputs)


def dtypes_of(op, attr="T", among=ALL_DTYPES):
    """The dtypes of `among` for which stock TensorFlow has the op on the CPU."""
    definition = op_def_registry.get(op)
    allowed = next(a for a in definition.attr if a.name == attr).allowed_values.list.type
    registered = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type == "CPU":
            types = [t for c in kernel.constraint if c.name == attr for t in c.allowed_values.list.type]
            registered.update(types or [d.as_datatype_enum for d in ALL_DTYPES])
    return [d for d in among if d.as_datatype_enum in registered and (not allowed or d.as_datatype_enum in allowed)]


def run_together(sess, built):
    """Runs many cases in one step; {name: list of values}."""
    feeds = {}
    for _, _, f in built:
        feeds.update(f)
    values = sess.run([outs for _, outs, _ in built], feeds)
    return {c.name: v for (c, _, _), v in zip(built, values)}


def run_alone(sess, outs, feeds):
    """The values of one case, or the class of the error it ended with."""
    try:
        return sess.run(outs, feeds)
    except tf.errors.OpError as e:
        return e


def evaluate(cases, make_session, expected=None):
    """{name: values or error} of cases that share a graph; cases expected to fail run alone."""
    with tf.Graph().as_default() as g:
        built = [(c, *c.build()) for c in cases]
    good = [b for b in built if expected is None or not isinstance(expected[b[0].name], Exception)]
    results = {}
    with make_session(g) as sess:
        if good:
            try:
                results.update(run_together(sess, good))
            except tf.errors.OpError:
                pass
        for case, outs, feeds in built:
            if case.name not in results:
                results[case.name] = run_alone(sess, outs, feeds)
    return results


def compare_all(cases, target):
    """{name: (servers' answer, local answer)} of all cases of one op."""
    want = evaluate(cases, local_session)
    if len(cases) > 1:
        # One dtype without a kernel spoils the session of all: those that failed get one of their own.
        for case in [c for c in cases if isinstance(want[c.name], Exception)]:
            want.update(evaluate([case], local_session))
    got = evaluate(cases, lambda g: session(target, g), want)
    for case in cases:
        # One case may spoil the session of all, say by a dtype that is not there: give each its own.
        if isinstance(got[case.name], Exception) and not isinstance(want[case.name], Exception) and len(cases) > 1:
            got.update(evaluate([case], lambda g: session(target, g), want))
    return {c.name: (got[c.name], want[c.name]) for c in cases}
