"""The fused ops that only TensorFlow's own passes make, and that stock TensorFlow has no kernels of outside of these, against the ops that they stand for."""

import numpy as np
import pytest
import tensorflow as tf

from opcase import C
from support import local_session, session

pytestmark = pytest.mark.weft_only

ACTIVATIONS = {
    "": lambda v: v,
    "Relu": tf.nn.relu,
    "Relu6": tf.nn.relu6,
    "Elu": tf.nn.elu,
    "LeakyRelu": lambda v: tf.nn.leaky_relu(v, 0.3),
}


def values(*shape, low=-2.0):
    return np.random.default_rng(sum(shape)).uniform(low, 2, shape).astype(np.float32)


def check(cluster, case, reference):
    with tf.Graph().as_default() as graph, session(cluster.master, graph) as sess:
        outs, feeds = case.build()
        got = sess.run(outs, feeds)
    with tf.Graph().as_default() as graph, local_session(graph) as sess:
        want = sess.run(*reference())
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_depthwise_conv(cluster, activation, padding):
    x, f, bias = values(2, 5, 6, 3), values(3, 2, 3, 2), values(6)
    attrs = {"strides": [1, 2, 2, 1], "padding": padding}
    case = C("_FusedDepthwiseConv2dNative", x, f, [bias], fused_ops=["BiasAdd", activation][: 1 + bool(activation)], leakyrelu_alpha=0.3, **attrs)
    check(cluster, case, lambda: ([ACTIVATIONS[activation](tf.nn.depthwise_conv2d(x, f, **attrs) + bias)],))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv3d(cluster, activation, padding):
    x, f, bias = values(2, 4, 5, 6, 3), values(2, 3, 2, 3, 4), values(4)
    attrs = {"strides": [1, 2, 2, 2, 1], "padding": padding}
    case = C("_FusedConv3D", x, f, [bias], fused_ops=["BiasAdd", activation][: 1 + bool(activation)], leakyrelu_alpha=0.3, **attrs)
    check(cluster, case, lambda: ([ACTIVATIONS[activation](tf.nn.conv3d(x, f, **attrs) + bias)],))


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize(("activation", "has_side"), [("Identity", False), ("Relu", False), ("Relu", True)])
def test_batch_norm(cluster, activation, has_side, is_training):
    x, side, scale, offset = values(2, 3, 4, 3), values(2, 3, 4, 3) + 1, values(3), values(3)
    statistics = [values(0 if is_training else 3, low=0.1) for _ in range(2)]
    attrs = {"epsilon": 0.01, "is_training": is_training}
    case = C("_FusedBatchNormEx", x, scale, offset, *statistics, [side] if has_side else [], activation_mode=activation, outputs=3, **attrs)

    def reference():
        out, feeds = C("FusedBatchNormV3", x, scale, offset, *statistics, **attrs).build()
        y = out[0] + side if has_side else out[0]
        return [tf.nn.relu(y) if activation == "Relu" else y, *out[1:3]], feeds

    check(cluster, case, reference)
