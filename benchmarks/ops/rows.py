"""The rows of compare_ops: an op on the shapes that models have, as a function of placeholders.

A row is (family, name, function, [(dtype, shape), ...]). Values are uniform in [0.1, 1.1) for floats, 1 to 99 for integers
where the row does not say more ("ids:50": below 50).
"""

import numpy as np
import tensorflow as tf

F, D, H, B, I, L, U, BOOL = "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"
raw, nn = tf.raw_ops, tf.nn


def elementwise():
    image, hidden = [64, 56, 56, 32], [4096, 1024]
    for name, f in {
        "exp": tf.exp, "log": tf.math.log, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "erf": tf.math.erf, "sin": tf.sin, "sqrt": tf.sqrt, "rsqrt": tf.math.rsqrt,
        "square": tf.square, "abs": tf.abs, "neg": tf.negative, "relu": nn.relu, "relu6": nn.relu6, "elu": nn.elu, "softplus": tf.math.softplus, "floor": tf.floor,
        "log1p": tf.math.log1p, "reciprocal": tf.math.reciprocal, "sign": tf.sign, "isnan": tf.math.is_nan,
    }.items():  # fmt: skip
        yield name, f, [(F, hidden)]
    for name in ("exp", "tanh", "sigmoid", "log"):
        yield f"{name} double", getattr(tf.math, name), [(D, [1024, 1024])]
    yield "exp half", tf.exp, [(H, [1024, 1024])]
    for name, f in {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "div": tf.divide, "maximum": tf.maximum, "pow": tf.pow, "greater": tf.greater, "squared difference": tf.math.squared_difference,
    }.items():  # fmt: skip
        yield name, f, [(F, hidden), (F, hidden)]
        if name in ("add", "mul", "div"):
            yield f"{name} row", f, [(F, hidden), (F, [1024])]
            yield f"{name} column", f, [(F, hidden), (F, [4096, 1])]
            yield f"{name} scalar", f, [(F, hidden), (F, [])]
            yield f"{name} small", f, [(F, [64, 64]), (F, [64, 64])]
    yield "add int32", tf.add, [(I, hidden), (I, hidden)]
    yield "add int64", tf.add, [(L, hidden), (L, hidden)]
    yield "floormod int32", tf.math.floormod, [(I, [1024, 1024]), ("positive:9", [1024, 1024])]
    yield "select", lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y), [(BOOL, hidden), (F, hidden), (F, hidden)]
    yield "bias add", nn.bias_add, [(F, image), (F, [32])]
    yield "relu grad", lambda x, y: raw.ReluGrad(gradients=x, features=y), [(F, hidden), (F, hidden)]
    yield "addn 4", lambda *x: tf.add_n(x), [(F, [1024, 1024])] * 4
    yield "clip", lambda x: tf.clip_by_value(x, 0.2, 0.8), [(F, hidden)]
    for a, b in ((F, H), (H, F), (F, B), (B, F), (F, I), (I, F), (F, D), (U, F), (BOOL, F), (L, I)):
        yield f"cast {a} {b}", lambda x, b=b: tf.cast(x, b), [(a, hidden)]


def reductions():
    for name, f in {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max, "prod": tf.reduce_prod}.items():
        yield f"{name} all", f, [(F, [4096, 1024])]
        yield f"{name} rows", lambda x, f=f: f(x, 1), [(F, [4096, 1024])]
        yield f"{name} columns", lambda x, f=f: f(x, 0), [(F, [4096, 1024])]
    yield "sum middle", lambda x: tf.reduce_sum(x, 1), [(F, [64, 256, 256])]
    yield "sum image", lambda x: tf.reduce_sum(x, [0, 1, 2]), [(F, [32, 56, 56, 64])]
    yield "sum int32", lambda x: tf.reduce_sum(x, 1), [(I, [4096, 1024])]
    yield "sum half", lambda x: tf.reduce_sum(x, 1), [(H, [1024, 1024])]
    yield "any", lambda x: tf.reduce_any(x, 1), [(BOOL, [4096, 1024])]
    yield "argmax rows", lambda x: tf.argmax(x, 1), [(F, [4096, 1000])]
    yield "argmax columns", lambda x: tf.argmax(x, 0), [(F, [1000, 1024])]
    yield "l2 loss", nn.l2_loss, [(F, [4096, 1024])]
    yield "cumsum", lambda x: tf.cumsum(x, 1), [(F, [1024, 1024])]
    yield "top 5", lambda x: nn.top_k(x, 5)[0], [(F, [256, 1000])]
    yield "bias add grad", lambda x: raw.BiasAddGrad(out_backprop=x), [(F, [64, 56, 56, 32])]


def layout():
    for name, perm, shape in (
        ("2-D", [1, 0], [2048, 2048]), ("NHWC to NCHW", [0, 3, 1, 2], [32, 56, 56, 64]), ("NCHW to NHWC", [0, 2, 3, 1], [32, 64, 56, 56]),
        ("heads", [0, 2, 1, 3], [16, 128, 12, 64]), ("last two", [0, 2, 1], [64, 128, 256]), ("reverse", [2, 1, 0], [64, 128, 256]),
    ):  # fmt: skip
        yield f"transpose {name}", lambda x, p=perm: tf.transpose(x, p), [(F, shape)]
    yield "concat rows", lambda x, y: tf.concat([x, y], 0), [(F, [2048, 512])] * 2
    yield "concat columns", lambda x, y: tf.concat([x, y], 1), [(F, [4096, 256])] * 2
    yield "split columns", lambda x: tf.split(x, 4, 1), [(F, [4096, 1024])]
    yield "stack", lambda x, y: tf.stack([x, y], 1), [(F, [1024, 1024])] * 2
    yield "slice", lambda x: tf.slice(x, [16, 16], [2000, 900]), [(F, [4096, 1024])]
    yield "strided slice", lambda x: x[:, ::2], [(F, [4096, 1024])]
    yield "pad", lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), [(F, [32, 56, 56, 64])]
    yield "tile", lambda x: tf.tile(x, [4, 2]), [(F, [512, 512])]
    yield "broadcast", lambda x: tf.broadcast_to(x, [4096, 1024]), [(F, [1024])]
    yield "reverse", lambda x: tf.reverse(x, [1]), [(F, [1024, 1024])]
    yield "one hot", lambda x: tf.one_hot(x, 1000), [("ids:1000", [4096])]
    yield "fill", lambda x: tf.fill([4096, 1024], tf.reshape(x, [])), [(F, [1])]
    yield "space to depth", lambda x: nn.space_to_depth(x, 2), [(F, [16, 64, 64, 32])]


def gathers():
    yield "gather rows", lambda x, i: tf.gather(x, i), [(F, [50000, 128]), ("ids:50000", [8192])]
    yield "gather narrow", lambda x, i: tf.gather(x, i), [(F, [100000, 8]), ("ids:100000", [65536])]
    yield "gather columns", lambda x, i: tf.gather(x, i, axis=1), [(F, [1024, 1024]), ("ids:1024", [256])]
    yield "gather nd", lambda x, i: tf.gather_nd(x, i), [(F, [256, 256, 16]), ("ids:256", [8192, 2])]
    yield "scatter nd", lambda i, x: tf.scatter_nd(tf.reshape(i, [-1, 1]), x, [50000, 64]), [("ids:50000", [8192]), (F, [8192, 64])]
    yield "unsorted segment sum", lambda x, i: tf.math.unsorted_segment_sum(x, i, 1000), [(F, [16384, 64]), ("ids:1000", [16384])]
    yield "segment sum", lambda x: tf.math.segment_sum(x, np.repeat(np.arange(1024, dtype=np.int32), 16)), [(F, [16384, 64])]
    yield "unique", lambda x: tf.unique(x)[0], [("ids:5000", [65536])]
    yield "where", lambda x: tf.where(x > 0.6), [(F, [1024, 1024])]
    yield "boolean mask", lambda x: tf.boolean_mask(x, x[:, 0] > 0.6), [(F, [8192, 128])]
    yield "dynamic partition", lambda x, i: tf.dynamic_partition(x, i, 4), [(F, [16384, 64]), ("ids:4", [16384])]
    yield "sort", tf.sort, [(F, [256, 1024])]


def random():
    yield "uniform", lambda: tf.random.uniform([1024, 1024]), []
    yield "normal", lambda: tf.random.normal([1024, 1024]), []
    yield "truncated normal", lambda: tf.random.truncated_normal([1024, 1024]), []
    yield "stateless uniform", lambda: tf.random.stateless_uniform([1024, 1024], [1, 2]), []
    yield "uniform int", lambda: tf.random.uniform([1024, 1024], 0, 100, tf.int32), []


def products():
    for m, k, n in (
        (1, 1024, 1024), (1, 4096, 1024), (8, 1024, 1024), (16, 768, 3072), (32, 784, 512), (64, 512, 512), (128, 1024, 4096), (128, 768, 768), (256, 256, 256),
        (512, 512, 512), (1024, 1024, 1024), (2048, 768, 768), (4096, 64, 64), (1024, 1024, 1), (100, 100, 100), (33, 127, 65), (64, 10, 64),
    ):  # fmt: skip
        yield f"{m}x{k}x{n}", tf.matmul, [(F, [m, k]), (F, [k, n])]
    for m, k, n in ((128, 1024, 4096), (512, 512, 512), (64, 512, 512)):
        yield f"{m}x{k}x{n} transposed b", lambda x, y: tf.matmul(x, y, transpose_b=True), [(F, [m, k]), (F, [n, k])]
        yield f"{m}x{k}x{n} transposed a", lambda x, y: tf.matmul(x, y, transpose_a=True), [(F, [k, m]), (F, [k, n])]
    for b, m, k, n in ((192, 128, 64, 128), (192, 128, 128, 64), (64, 32, 32, 32), (16, 256, 256, 256)):
        yield f"batch {b} {m}x{k}x{n}", tf.matmul, [(F, [b, m, k]), (F, [b, k, n])]
    yield "double 512", tf.matmul, [(D, [512, 512])] * 2
    yield "bfloat16 512", tf.matmul, [(B, [512, 512])] * 2
    yield "einsum attention", lambda q, k: tf.einsum("bqhd,bkhd->bhqk", q, k), [(F, [16, 128, 12, 64])] * 2


CONVOLUTIONS = (  # image, filter, stride: of ResNet-50, MobileNet, EfficientNet, VGG, an MNIST CNN
    ([8, 224, 224, 3], [7, 7, 3, 64], 2), ([8, 56, 56, 64], [1, 1, 64, 64], 1), ([8, 56, 56, 64], [3, 3, 64, 64], 1), ([8, 56, 56, 64], [1, 1, 64, 256], 1),
    ([8, 28, 28, 128], [3, 3, 128, 128], 1), ([8, 28, 28, 512], [1, 1, 512, 128], 1), ([8, 14, 14, 256], [3, 3, 256, 256], 1), ([8, 14, 14, 1024], [1, 1, 1024, 256], 1),
    ([8, 7, 7, 512], [3, 3, 512, 512], 1), ([1, 56, 56, 64], [3, 3, 64, 64], 1), ([1, 112, 112, 32], [1, 1, 32, 16], 1), ([1, 224, 224, 3], [3, 3, 3, 32], 2),
    ([64, 28, 28, 1], [5, 5, 1, 32], 1), ([64, 14, 14, 32], [5, 5, 32, 64], 1),
)  # fmt: skip


def convolutions():
    for shape, kernel, stride in CONVOLUTIONS:
        out = [shape[0], -(-shape[1] // stride), -(-shape[2] // stride), kernel[3]]
        label = f"{'x'.join(map(str, shape))} by {'x'.join(map(str, kernel))}/{stride}"
        yield label, lambda x, w, s=stride: nn.conv2d(x, w, s, "SAME"), [(F, shape), (F, kernel)]
        if shape[3] > 3:
            yield f"{label} input grad", lambda w, y, n=shape, s=stride: nn.conv2d_transpose(y, w, n, s, "SAME"), [(F, kernel), (F, out)]
        yield (
            f"{label} filter grad",
            lambda x, y, k=kernel, s=stride: raw.Conv2DBackpropFilter(input=x, filter_sizes=k, out_backprop=y, strides=[1, s, s, 1], padding="SAME"),
            [(F, shape), (F, out)],
        )
    for shape, stride in (([8, 112, 112, 32], 1), ([8, 56, 56, 128], 2), ([8, 14, 14, 512], 1)):
        yield f"depthwise {'x'.join(map(str, shape))}/{stride}", lambda x, w, s=stride: nn.depthwise_conv2d(x, w, [1, s, s, 1], "SAME"), [(F, shape), (F, [3, 3, shape[3], 1])]
    yield "3-D", lambda x, w: nn.conv3d(x, w, [1] * 5, "SAME"), [(F, [2, 16, 32, 32, 16]), (F, [3, 3, 3, 16, 32])]


def normalisation():
    yield "max pool", lambda x: nn.max_pool2d(x, 3, 2, "SAME"), [(F, [8, 112, 112, 64])]
    yield "max pool 2x2", lambda x: nn.max_pool2d(x, 2, 2, "VALID"), [(F, [64, 28, 28, 32])]
    yield "avg pool", lambda x: nn.avg_pool2d(x, 2, 2, "VALID"), [(F, [8, 56, 56, 128])]
    yield "max pool grad", lambda x, y, d: raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=d, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"), [(F, [64, 28, 28, 32]), (F, [64, 14, 14, 32]), (F, [64, 14, 14, 32])]  # fmt: skip
    yield "avg pool grad", lambda d: raw.AvgPoolGrad(orig_input_shape=[8, 56, 56, 128], grad=d, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"), [(F, [8, 28, 28, 128])]  # fmt: skip
    per_channel = [(F, [64])] * 4
    yield "batch norm training", lambda x, s, o, m, v: raw.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m[:0], variance=v[:0], is_training=True)[0], [(F, [32, 56, 56, 64]), *per_channel]
    yield "batch norm", lambda x, s, o, m, v: raw.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, is_training=False)[0], [(F, [32, 56, 56, 64]), *per_channel]
    yield "batch norm grad", lambda y, x, s, m, v: raw.FusedBatchNormGradV3(y_backprop=y, x=x, scale=s, reserve_space_1=m, reserve_space_2=v, reserve_space_3=m[:0], is_training=True)[0], [(F, [32, 56, 56, 64])] * 2 + per_channel[:3]  # fmt: skip
    yield "softmax 1000", nn.softmax, [(F, [1024, 1000])]
    yield "softmax 128", nn.softmax, [(F, [24576, 128])]
    yield "softmax 10", nn.softmax, [(F, [16384, 10])]
    yield "log softmax", nn.log_softmax, [(F, [1024, 1000])]
    yield "cross entropy", lambda x, y: nn.softmax_cross_entropy_with_logits(y, x), [(F, [1024, 1000])] * 2
    yield "sparse cross entropy", lambda x, y: nn.sparse_softmax_cross_entropy_with_logits(y, x), [(F, [1024, 1000]), ("ids:1000", [1024])]
    yield "layer norm", lambda x, g: (x - tf.reduce_mean(x, -1, keepdims=True)) * tf.math.rsqrt(tf.math.reduce_variance(x, -1, keepdims=True) + 1e-5) * g, [(F, [2048, 768]), (F, [768])]
    yield "lrn", nn.lrn, [(F, [8, 28, 28, 64])]
    yield "resize bilinear", lambda x: tf.compat.v1.image.resize_bilinear(x, [128, 128]), [(F, [8, 64, 64, 16])]


FAMILIES = {  # name: rows, bars of the geometric mean and of the worst row
    "elementwise": (elementwise, 0.7, 1.1),
    "reductions": (reductions, 0.7, 1.1),
    "layout": (layout, 0.7, 1.1),
    "gathers": (gathers, 0.7, 1.1),
    "random": (random, 0.7, 1.1),
    "products": (products, 1.0, 1.1),
    "convolutions": (convolutions, 1.0, 1.3),
    "normalisation": (normalisation, 0.8, 1.1),
}


def values(dtype, shape, rng):
    kind, _, limit = dtype.partition(":")
    if kind in ("ids", "positive"):
        return rng.integers(kind == "positive", int(limit), shape).astype(np.int32)
    if kind == BOOL:
        return rng.random(shape) < 0.5
    if kind in (I, L, U, "int8", "int16"):
        return rng.integers(1, 100, shape).astype(kind)
    return (rng.random(shape) + 0.1).astype(F if kind == B else kind)
