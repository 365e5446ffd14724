"""Cases of matrix products, convolutions, pooling, normalisation, losses and their gradients."""

import itertools

import numpy as np
import tensorflow as tf

from opcase import C, dtypes_of
from support import sample

F = tf.float32
I32 = np.int32


def x(*shape, dtype=F, seed=0):
    return sample(dtype, shape, seed)


def products():
    for dtype in dtypes_of("MatMul"):
        yield C("MatMul", x(3, 4, dtype=dtype), x(4, 2, dtype=dtype, seed=1), label=dtype.name)
    for ta, tb in itertools.product((False, True), repeat=2):
        a, b = x(*((5, 3) if ta else (3, 5))), x(*((2, 5) if tb else (5, 2)), seed=1)
        for dtype in (F, tf.float64, tf.complex64):
            yield C(
                "MatMul",
                a.astype(dtype.as_numpy_dtype),
                b.astype(dtype.as_numpy_dtype),
                transpose_a=ta,
                transpose_b=tb,
                label=f"{dtype.name}-{'t' if ta else 'n'}{'t' if tb else 'n'}",
            )
    for m, k, n in ((1, 1, 1), (1, 64, 1), (130, 70, 50), (0, 3, 2), (2, 3, 0), (2, 0, 3), (1, 300, 17), (33, 1, 9)):
        yield C("MatMul", x(m, k), x(k, n, seed=1), label=f"{m}x{k}x{n}", rtol=1e-4, atol=1e-4)
    yield C("MatMul", x(2, 3), x(2, 3), label="mismatch")
    yield C("MatMul", x(3), x(3, 1), label="rank1")
    yield C("MatMul", x(1, 2, 3), x(1, 3, 2), label="rank3")
    for op in ("BatchMatMul", "BatchMatMulV2"):
        yield C(op, x(2, 3, 4), x(2, 4, 5, seed=1))
        yield C(op, x(2, 4, 3), x(2, 5, 4, seed=1), adj_x=True, adj_y=True, label="adjoint")
    yield C("BatchMatMulV2", x(2, 1, 3, 4), x(5, 4, 2, seed=1), label="broadcast")
    for op, more in (("BiasAdd", {}), ("BiasAddV1", {})):
        for dtype in dtypes_of(op, among=[tf.float16, F, tf.float64, tf.int32, tf.int64]):
            yield C(op, x(2, 3, 4, dtype=dtype), x(4, dtype=dtype, seed=1), label=dtype.name, **more)
        yield C(op, x(2, 3), x(2), label="mismatch")
        yield C(op, x(0, 3), x(3), label="empty")
    yield C("BiasAdd", x(2, 3, 4, 5), x(3), data_format="NCHW", label="NCHW")
    yield C("BiasAddGrad", x(2, 3, 4))
    yield C("BiasAddGrad", x(2, 3, 4, 5), data_format="NCHW", label="NCHW")
    yield C("BiasAddGrad", x(0, 3), label="empty")


CONVOLUTIONS = {
    "same": ((2, 5, 6, 3), (3, 3, 3, 4), dict(strides=[1, 1, 1, 1], padding="SAME")),
    "valid": ((2, 5, 6, 3), (3, 2, 3, 4), dict(strides=[1, 1, 1, 1], padding="VALID")),
    "stride2-same": ((1, 6, 6, 2), (3, 3, 2, 3), dict(strides=[1, 2, 2, 1], padding="SAME")),
    "stride2-same-odd": ((1, 7, 5, 2), (2, 2, 2, 3), dict(strides=[1, 2, 2, 1], padding="SAME")),
    "stride-over-kernel": ((1, 7, 7, 2), (1, 1, 2, 3), dict(strides=[1, 3, 3, 1], padding="SAME")),
    "unequal-strides": ((1, 8, 8, 1), (3, 3, 1, 2), dict(strides=[1, 2, 1, 1], padding="VALID")),
    "dilated": ((1, 9, 9, 2), (3, 3, 2, 2), dict(strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1])),
    "dilated-valid": (
        (1, 9, 9, 2),
        (3, 3, 2, 2),
        dict(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 3, 2, 1]),
    ),
    "explicit": (
        (1, 5, 5, 2),
        (3, 3, 2, 2),
        dict(strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 2, 1, 0, 3, 0, 0]),
    ),
    "one-by-one": ((2, 4, 4, 5), (1, 1, 5, 7), dict(strides=[1, 1, 1, 1], padding="VALID")),
    "whole": ((2, 4, 4, 3), (4, 4, 3, 2), dict(strides=[1, 1, 1, 1], padding="VALID")),
    "empty-batch": ((0, 5, 5, 2), (3, 3, 2, 2), dict(strides=[1, 1, 1, 1], padding="SAME")),
    "larger": ((4, 28, 28, 3), (5, 5, 3, 8), dict(strides=[1, 1, 1, 1], padding="SAME")),
}


def output_shape(op, shapes, attrs):
    with tf.Graph().as_default():
        return getattr(tf.raw_ops, op)(**{k: tf.zeros(s) for k, s in shapes.items()}, **attrs).shape.as_list()


def convolutions():
    loose = dict(rtol=1e-4, atol=1e-4)
    for label, (image, kernel, attrs) in CONVOLUTIONS.items():
        out = output_shape("Conv2D", dict(input=image, filter=kernel), attrs)
        yield C("Conv2D", x(*image), x(*kernel, seed=1), label=label, **attrs, **loose)
        yield C("Conv2DBackpropInput", I32(image), x(*kernel, seed=1), x(*out, seed=2), label=label, **attrs, **loose)
        yield C("Conv2DBackpropFilter", x(*image), I32(kernel), x(*out, seed=2), label=label, **attrs, **loose)
    image, kernel, attrs = CONVOLUTIONS["same"]
    for dtype in dtypes_of("Conv2D", among=[tf.float16, tf.bfloat16, tf.float64, tf.int32]):
        yield C("Conv2D", x(*image, dtype=dtype), x(*kernel, dtype=dtype, seed=1), label=dtype.name, **attrs)
    for label, kernel in (("no-filters", (1, 1, 1, 1, 0)), ("no-window", (1, 0, 1, 1, 1))):
        for n in (1, 0):
            yield C("Conv3D", x(n, 2, 2, 2, 1), x(*kernel), strides=[1] * 5, padding="SAME", label=f"{label}-{n}")
    yield C("Conv2D", x(1, 2, 2, 1), x(1, 1, 1, 0), strides=[1] * 4, padding="SAME", label="no-filters")
    yield C("Conv2D", x(1, 5, 5, 3), x(3, 3, 2, 4), strides=[1, 1, 1, 1], padding="SAME", label="depth-mismatch")
    yield C("Conv2D", x(5, 5, 3), x(3, 3, 3, 4), strides=[1, 1, 1, 1], padding="SAME", label="rank3")
    yield C("Conv2D", x(1, 2, 2, 1), x(3, 3, 1, 1), strides=[1, 1, 1, 1], padding="VALID", label="kernel-too-large")
    yield C(
        "Conv2DBackpropInput",
        I32([1, 5, 5, 2]),
        x(3, 3, 2, 4),
        x(1, 9, 9, 4),
        strides=[1, 1, 1, 1],
        padding="SAME",
        label="mismatch",
    )


POOLS = {
    "valid": ((2, 6, 6, 3), 2, 2, "VALID"),
    "same": ((1, 5, 5, 2), 2, 2, "SAME"),
    "overlap": ((1, 7, 7, 2), 3, 2, "SAME"),
    "overlap-valid": ((1, 7, 7, 2), 3, 1, "VALID"),
    "stride-over-kernel": ((1, 6, 6, 1), 1, 2, "SAME"),
    "empty": ((0, 4, 4, 1), 2, 2, "SAME"),
}


def pools():
    for label, (shape, k, s, padding) in POOLS.items():
        attrs = dict(ksize=[1, k, k, 1], strides=[1, s, s, 1], padding=padding)
        out = output_shape("AvgPool", dict(value=shape), attrs)
        image = x(*shape)
        yield C("MaxPool", image, label=label, **attrs)
        yield C("AvgPool", image, label=label, **attrs)
        yield C("AvgPoolGrad", I32(shape), x(*out, seed=2), label=label, **attrs)
        with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
            pooled = sess.run(tf.raw_ops.MaxPool(input=image, **attrs))
        yield C("MaxPoolGrad", image, pooled, x(*out, seed=2), label=label, **attrs)
    attrs = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    for dtype in dtypes_of("MaxPool", among=[tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.int64]):
        yield C("MaxPool", x(1, 4, 4, 2, dtype=dtype), label=dtype.name, **attrs)
    for dtype in dtypes_of("AvgPool", among=[tf.float16, tf.float64]):
        yield C("AvgPool", x(1, 4, 4, 2, dtype=dtype), label=dtype.name, **attrs)
    yield C("MaxPool", np.float32([np.nan, 1, 2, 3]).reshape(1, 2, 2, 1), label="nan", **attrs)
    yield C("MaxPool", x(4, 4, 1), label="rank3", **attrs)
    yield C("MaxPool", x(1, 1, 1, 1), label="kernel-too-large", **attrs)
    ties = np.float32([1, 1, 1, 1]).reshape(1, 2, 2, 1)
    yield C("MaxPoolGrad", ties, ties[:, :1, :1], np.float32([[[[5]]]]), label="ties", **attrs)


def normalisation():
    image = x(3, 4, 5, 2) * 2.0 + 1.0
    scale, offset, mean, variance = (
        np.float32([1.5, 0.5]),
        np.float32([0.1, -1]),
        x(2, seed=3),
        np.float32([0.7, 2.0]),
    )
    none = np.zeros(0, np.float32)
    loose = dict(rtol=1e-4, atol=1e-4)
    for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        yield C(op, image, scale, offset, none, none, is_training=True, epsilon=0.01, label="training", **loose)
        yield C(op, image, scale, offset, mean, variance, is_training=False, label="inference", outputs=3, **loose)
        yield C(
            op,
            image,
            scale,
            offset,
            mean,
            variance,
            is_training=True,
            exponential_avg_factor=0.3,
            label="moving",
            **loose,
        )
        yield C(op, image, np.float32([1.0]), offset, none, none, label="mismatch")
    back = x(3, 4, 5, 2, seed=7)
    saved = image.mean((0, 1, 2)), image.var((0, 1, 2))
    for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
        more = [none] if op.endswith("V3") else []
        yield C(op, back, image, scale, *saved, *more, is_training=True, epsilon=0.01, label="training", **loose)
        yield C(op, back, image, scale, mean, variance, *more, is_training=False, label="inference", **loose)
    yield C("LRN", x(2, 3, 3, 7), depth_radius=2, bias=1.5, alpha=0.3, beta=0.6)
    yield C(
        "LRNGrad",
        x(1, 2, 2, 5, seed=1),
        x(1, 2, 2, 5),
        np.abs(x(1, 2, 2, 5, seed=2)) + 0.5,
        depth_radius=2,
        alpha=0.3,
        **loose,
    )


def losses():
    for op in ("Softmax", "LogSoftmax"):
        for dtype in dtypes_of(op):
            yield C(op, x(3, 5, dtype=dtype), label=dtype.name)
        yield C(op, np.float32([[1000, 1001], [-1000, -1001]]), label="large-values")
        yield C(op, np.float32([[-np.inf, -np.inf], [0, -np.inf]]), label="infinite")
        yield C(op, x(2, 3, 4), label="rank3")
        yield C(op, x(0, 3), label="empty")
        yield C(op, x(), label="scalar")
    labels = np.abs(x(3, 5, seed=4))
    labels /= labels.sum(1, keepdims=True)
    for dtype in dtypes_of("SoftmaxCrossEntropyWithLogits"):
        kind = dtype.as_numpy_dtype
        yield C("SoftmaxCrossEntropyWithLogits", x(3, 5, dtype=dtype), labels.astype(kind), label=dtype.name)
    yield C("SoftmaxCrossEntropyWithLogits", x(3, 5), labels[:1], label="broadcast")
    yield C("SoftmaxCrossEntropyWithLogits", x(0, 5), labels[:0], label="empty")
    yield C("SoftmaxCrossEntropyWithLogits", x(3, 5), labels[:, :4], label="mismatch")
    for kind in (I32, np.int64):
        yield C("SparseSoftmaxCrossEntropyWithLogits", x(3, 5), kind([0, 4, 2]), label=kind.__name__)
    yield C("SparseSoftmaxCrossEntropyWithLogits", x(3, 5), I32([0, 5, 2]), label="out-of-range")
    yield C("SparseSoftmaxCrossEntropyWithLogits", x(3, 5), I32([0, 1]), label="mismatch")
    yield C("SparseSoftmaxCrossEntropyWithLogits", x(0, 5), I32([]), label="empty")
    for dtype in dtypes_of("TopKV2"):
        yield C("TopKV2", x(2, 6, dtype=dtype), I32(3), label=dtype.name)
    yield C("TopKV2", np.float32([2, 5, 5, 1, 5]), I32(4), label="ties")
    yield C("TopKV2", x(3), I32(0), label="none")
    yield C("TopKV2", x(3), I32(4), label="too-many")
    yield C("TopKV2", x(3), I32(-1), label="negative")
    predictions = np.float32([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [np.nan, 1, 0], [0.2, 0.3, 0.5]])
    yield C("InTopK", predictions, I32([1, 1, 1, 0]), k=1)
    yield C("InTopKV2", predictions, I32([2, 0, 0, 5]), I32(2))


def cases():
    yield from products()
    yield from convolutions()
    yield from pools()
    yield from normalisation()
    yield from losses()
