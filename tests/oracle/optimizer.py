"""tests/kernels/testdata/optimizer.txt: what TensorFlow's optimizer ops leave in a variable and its slots, in float64. A line's op, attributes and scalars are the
source; the tensors are those of tests/kernels/optimizer_test.c."""
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import one_op
import text

HERE = "tests/kernels/testdata"
v1 = tf.compat.v1
INITIAL = [[1, -2, .5, 3, -.25, .0625], [.5, .25, .5, .1, .4, .3], [.3, .6, .2, .9, .4, 1.1], [.35, .05, .6, .15, .8, .45]]
GRADIENT = np.reshape([.5, -1, 2, .25, -.75, 1.5], [3, 2])
ROWS = [2, 0, 2]


def values(line):
    op, attrs, scalars, _ = line.split("|")
    definition = op_def_registry.get("Resource" + op)
    rest = iter(map(float, scalars.split()))
    with tf.Graph().as_default() as graph:
        variables, inputs = [], []
        for arg in definition.input_arg:
            if arg.type == tf.resource.as_datatype_enum:
                variables.append(v1.Variable(np.reshape(INITIAL[len(variables)], [3, 2]), use_resource=True, dtype=tf.float64))
                inputs.append(variables[-1].handle)
            elif arg.name in ("grad", "delta"):
                inputs.append(tf.constant(GRADIENT))
            elif arg.name == "indices":
                inputs.append(tf.constant(ROWS))
            elif arg.type == tf.int64.as_datatype_enum:
                inputs.append(tf.constant(5, tf.int64))  # the step
            else:
                inputs.append(tf.constant(next(rest), tf.float64))
        update = one_op.node(graph, "Resource" + op, text.attribute_words(attrs), inputs)
        with v1.Session(config=one_op.config()) as sess:
            sess.run(v1.global_variables_initializer())
            sess.run(update)
            return " ".join("%.10g" % x for v in sess.run(variables) for x in v.reshape(-1))


def make(root, out):
    lines = (root / HERE / "optimizer.txt").read_text().split("\n")
    (out / HERE / "optimizer.txt").write_text("\n".join(l if not l or l.startswith("#") else l.rsplit("|", 1)[0] + "|" + values(l) for l in lines))
