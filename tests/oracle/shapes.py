"""tests/ops/testdata/shapes.txt: shapes as TensorFlow infers them. A line's op, attributes and inputs are the source; its outcome is made here."""
import re

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import one_op
import text

HERE = "tests/ops/testdata"
v1 = tf.compat.v1


def type_of(definition, words, arg, k):
    """The dtype of the k-th tensor of an argument."""
    if arg.type:
        return tf.as_dtype(arg.type)
    if arg.type_list_attr:
        return text.DTYPES[words[arg.type_list_attr][1:-1].split()[k]]
    attr = next(a for a in definition.attr if a.name == arg.type_attr)
    return text.DTYPES[words[arg.type_attr]] if arg.type_attr in words else tf.as_dtype(attr.default_value.type)


def port(written, dtype, is_ref):
    """An input: "[2]=3,2" is a constant, "[2,?]" a placeholder; a resource is a handle to a float variable of that shape."""
    shape, _, values = written.partition("=")
    shape = text.shape(shape)
    if dtype == tf.resource:
        return v1.Variable(v1.placeholder(tf.float32, shape), use_resource=True, validate_shape=shape.is_fully_defined()).handle
    if is_ref:
        return tf.raw_ops.VariableV2(shape=shape, dtype=dtype)
    if "=" in written:
        return tf.constant(np.array([float(v) if dtype.is_floating else int(v) for v in values.split(",") if v], dtype.as_numpy_dtype).reshape(shape.as_list()))
    return v1.placeholder(dtype, shape)


def outcome(line):
    op, attrs, inputs, _ = line.split("|", 3)
    definition = op_def_registry.get(op)
    words = dict(w.split("=", 1) for w in attrs.split(";") if w)
    written = inputs.split(";") if inputs else []
    with tf.Graph().as_default() as graph:
        ports = [port(w, type_of(definition, words, arg, k), arg.is_ref)
                 for w, (arg, k) in zip(written, one_op.arguments(definition, words, len(written)))]
        try:
            node = one_op.node(graph, op, words, ports)
        except ValueError as e:
            return "error " + re.split(r" for '(?:\{\{node )?n\b", str(e))[0].replace("\n", "\\n")
    return "ok " + ";".join("?" if t.shape.rank is None else "[%s]" % ",".join("?" if d is None else str(d) for d in t.shape) for t in node.outputs)


def make(root, out):
    lines = (root / HERE / "shapes.txt").read_text().split("\n")
    (out / HERE / "shapes.txt").write_text("\n".join(l if not l or l.startswith("#") else l.rsplit("|", 1)[0] + "|" + outcome(l) for l in lines))
