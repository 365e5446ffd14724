"""Rows of compare_ops beyond the shapes of models (--wide): each kernel family with several element types, and with the shapes that a loop likes
least: narrow rows, few columns, short runs, single elements. What is far above the others here is a loop that lacks a case.

No op of a row is checked for its place in a model, so these families have no bar of their means.
"""

import numpy as np
import tensorflow as tf
from rows import BOOL, B, D, F, H, I, L, U, nn, raw, values


def elementwise():
    for dt in (F, D, H, B):
        for name, f in {
            "exp": tf.exp, "log": tf.math.log, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "erf": tf.math.erf, "sqrt": tf.sqrt, "rsqrt": tf.math.rsqrt, "square": tf.square, "abs": tf.abs,
            "neg": tf.negative, "relu": nn.relu, "relu6": nn.relu6, "elu": nn.elu, "selu": nn.selu, "softplus": tf.math.softplus, "softsign": nn.softsign, "leaky relu": nn.leaky_relu, "floor": tf.floor, "ceil": tf.math.ceil, "round": tf.round, "rint": tf.math.rint,
            "log1p": tf.math.log1p, "expm1": tf.math.expm1, "reciprocal": tf.math.reciprocal, "sign": tf.sign, "sin": tf.sin, "cos": tf.cos, "tan": tf.tan, "asin": lambda x: tf.asin(x*0.5) , "atan": tf.atan, "sinh": tf.sinh, "cosh": tf.cosh, "asinh": tf.asinh, "isnan": tf.math.is_nan, "isfinite": tf.math.is_finite,
            "lgamma": tf.math.lgamma, "digamma": tf.math.digamma, "erfc": tf.math.erfc, "erfinv": lambda x: tf.math.erfinv(x*0.8), "ndtri": lambda x: tf.math.ndtri(x*0.8),
        }.items():
            yield f"{name} {dt}", f, [(dt, [512, 1024])]
        for name, f in {"add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "div": tf.divide, "maximum": tf.maximum, "minimum": tf.minimum, "pow": tf.pow, "greater": tf.greater, "equal": tf.equal, "sqdiff": tf.math.squared_difference, "floordiv": tf.math.floordiv, "floormod": tf.math.floormod, "atan2": tf.atan2, "divnonan": tf.math.divide_no_nan, "xlogy": tf.math.xlogy,
            "tanh grad": lambda x, y: raw.TanhGrad(y=x, dy=y), "sigmoid grad": lambda x, y: raw.SigmoidGrad(y=x, dy=y), "rsqrt grad": lambda x, y: raw.RsqrtGrad(y=x, dy=y), "relu6 grad": lambda x, y: raw.Relu6Grad(gradients=x, features=y), "elu grad": lambda x, y: raw.EluGrad(gradients=x, outputs=y), "softplus grad": lambda x, y: raw.SoftplusGrad(gradients=x, features=y)}.items():
            yield f"{name} {dt}", f, [(dt, [512, 1024]), (dt, [512, 1024])]
        yield f"mul row {dt}", tf.multiply, [(dt, [512, 1024]), (dt, [1024])]
        yield f"mul column {dt}", tf.multiply, [(dt, [512, 1024]), (dt, [512, 1])]
        yield f"mul middle {dt}", tf.multiply, [(dt, [64, 32, 256]), (dt, [64, 1, 256])]
        yield f"mul outer {dt}", tf.multiply, [(dt, [512, 1]), (dt, [1, 1024])]
        yield f"mul narrow row {dt}", tf.multiply, [(dt, [131072, 3]), (dt, [3])]
        yield f"mul narrow column {dt}", tf.multiply, [(dt, [131072, 4]), (dt, [131072, 1])]
        yield f"addn {dt}", lambda *x: tf.add_n(x), [(dt, [512, 1024])] * 5
        yield f"select {dt}", lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y), [(BOOL, [512, 1024]), (dt, [512, 1024]), (dt, [512, 1024])]
        yield f"clip {dt}", lambda x: tf.clip_by_value(x, tf.cast(0.2, x.dtype), tf.cast(0.8, x.dtype)), [(dt, [512, 1024])]
        yield f"bias {dt}", nn.bias_add, [(dt, [512, 1024]), (dt, [1024])]
        yield f"add tiny {dt}", tf.add, [(dt, [4]), (dt, [4])]
    for dt in (I, L, U, "int16", "int8"):
        for name, f in {"add": tf.add, "mul": tf.multiply, "floordiv": tf.math.floordiv, "floormod": tf.math.floormod, "maximum": tf.maximum, "less": tf.less, "equal": tf.equal, "and": tf.bitwise.bitwise_and}.items():
            yield f"{name} {dt}", f, [("positive:90" if dt == I else dt, [512, 1024]), ("positive:90" if dt == I else dt, [512, 1024])] if "floor" not in name or dt == I else [(dt, [512, 1024]), (dt, [512, 1024])]
        yield f"abs {dt}", (tf.abs if dt != U else tf.identity), [(dt, [512, 1024])]
    yield "not", tf.logical_not, [(BOOL, [512, 1024])]
    yield "logical and", tf.logical_and, [(BOOL, [512, 1024])] * 2
    types = (F, D, H, B, I, L, U, BOOL, "int8", "int16")
    for a in types:
        for b in types:
            if a != b:
                yield f"cast {a} {b}", lambda x, b=b: tf.cast(x, b), [(a, [512, 1024])]


def reductions():
    for dt in (F, D, H, B, I, L, U, "int16"):
        for name, f in {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min, "prod": tf.reduce_prod}.items():
            if name in ("mean", "prod") and dt in (I, L, U, "int16"):
                continue
            for label, axis, shape in (("all", None, [512, 1024]), ("rows", 1, [512, 1024]), ("columns", 0, [512, 1024]), ("narrow rows", 1, [65536, 8]), ("rows 3", 1, [131072, 3]), ("narrow columns", 0, [65536, 8]), ("columns 3", 0, [131072, 3]), ("middle", 1, [64, 32, 256]), ("outer inner", [0, 2], [64, 32, 256]), ("image", [1, 2], [8, 56, 56, 32]), ("nchw", [0, 2, 3], [8, 32, 56, 56]), ("rows 64", 1, [8192, 64])):
                yield f"{name} {label} {dt}", lambda x, f=f, axis=axis: f(x, axis), [(dt, shape)]
    for dt in (F, D, H, I):
        yield f"argmax rows {dt}", lambda x: tf.argmax(x, 1), [(dt, [512, 1000])]
        yield f"argmax narrow {dt}", lambda x: tf.argmax(x, 1), [(dt, [16384, 10])]
        yield f"argmax columns {dt}", lambda x: tf.argmax(x, 0), [(dt, [512, 1000])]
        yield f"cumsum rows {dt}", lambda x: tf.cumsum(x, 1), [(dt, [512, 1024])]
        yield f"cumsum columns {dt}", lambda x: tf.cumsum(x, 0), [(dt, [512, 1024])]
        yield f"cumprod {dt}", lambda x: tf.math.cumprod(x, 1), [(dt, [512, 1024])]
        yield f"top 5 {dt}", lambda x: nn.top_k(x, 5)[0], [(dt, [256, 1000])]
        yield f"top 100 {dt}", lambda x: nn.top_k(x, 100)[0], [(dt, [64, 10000])]
        yield f"bias grad {dt}", lambda x: raw.BiasAddGrad(out_backprop=x), [(dt, [8, 56, 56, 32])]
    yield "bias grad nchw", lambda x: raw.BiasAddGrad(out_backprop=x, data_format="NCHW"), [(F, [8, 32, 56, 56])]
    yield "all", lambda x: tf.reduce_all(x, 1), [(BOOL, [512, 1024])]
    yield "any all", lambda x: tf.reduce_any(x), [(BOOL, [512, 1024])]
    yield "l2 loss", nn.l2_loss, [(F, [512, 1024])]
    yield "norm", lambda x: raw.EuclideanNorm(input=x, axis=[1]), [(F, [512, 1024])]
    yield "logsumexp", lambda x: tf.reduce_logsumexp(x, 1), [(F, [512, 1024])]
    yield "variance", lambda x: tf.math.reduce_variance(x, 1), [(F, [512, 1024])]
    yield "in top k", lambda x, i: nn.in_top_k(i, x, 5), [(F, [512, 1000]), ("ids:1000", [512])]
    yield "cumulative logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), [(F, [256, 256])]


def layout():
    for dt in (F, D, H, U, L):
        for name, perm, shape in (("2-D", [1, 0], [1000, 700]), ("NHWC", [0, 3, 1, 2], [8, 56, 56, 32]), ("NCHW", [0, 2, 3, 1], [8, 32, 56, 56]), ("nhwc3", [0, 3, 1, 2], [8, 96, 96, 3]), ("nchw3", [0, 2, 3, 1], [8, 3, 96, 96]), ("heads", [0, 2, 1, 3], [16, 64, 12, 64]), ("last two", [0, 2, 1], [32, 128, 128]), ("reverse", [2, 1, 0], [64, 64, 128]), ("5-D", [0, 3, 1, 4, 2], [4, 16, 16, 16, 32])):
            yield f"transpose {name} {dt}", lambda x, p=perm: tf.transpose(x, p), [(dt, shape)]
        yield f"concat rows {dt}", lambda x, y: tf.concat([x, y], 0), [(dt, [512, 512])] * 2
        yield f"concat columns {dt}", lambda x, y: tf.concat([x, y], 1), [(dt, [2048, 128])] * 2
        yield f"concat narrow {dt}", lambda x, y: tf.concat([x, y], 1), [(dt, [65536, 3])] * 2
        yield f"concat many {dt}", lambda *x: tf.concat(x, 1), [(dt, [512, 32])] * 26
        yield f"split columns {dt}", lambda x: tf.split(x, 4, 1), [(dt, [512, 1024])]
        yield f"split narrow {dt}", lambda x: tf.split(x, 4, 1), [(dt, [65536, 8])]
        yield f"unstack {dt}", lambda x: tf.identity_n(tf.unstack(x, axis=1)), [(dt, [1024, 16, 32])]  # TensorFlow computes what has a consumer
        yield f"stack {dt}", lambda x, y: tf.stack([x, y], 1), [(dt, [512, 512])] * 2
        yield f"stack last {dt}", lambda x, y: tf.stack([x, y], -1), [(dt, [512, 512])] * 2
        yield f"slice {dt}", lambda x: tf.slice(x, [16, 16], [400, 900]), [(dt, [512, 1024])]
        yield f"strided slice {dt}", lambda x: x[:, ::2], [(dt, [512, 1024])]
        yield f"strided slice 3 {dt}", lambda x: x[::2, 1::3], [(dt, [512, 1024])]
        yield f"reverse slice {dt}", lambda x: x[:, ::-1], [(dt, [512, 1024])]
        yield f"column {dt}", lambda x: x[:, 5], [(dt, [8192, 64])]
        yield f"pad {dt}", lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), [(dt, [8, 56, 56, 32])]
        yield f"pad last {dt}", lambda x: tf.pad(x, [[0, 0], [2, 2]]), [(dt, [4096, 100])]
        yield f"mirror pad {dt}", lambda x: tf.pad(x, [[0, 0], [2, 2], [2, 2], [0, 0]], "REFLECT"), [(dt, [4, 64, 64, 16])]
        yield f"mirror pad symmetric {dt}", lambda x: tf.pad(x, [[1, 1], [2, 2]], "SYMMETRIC"), [(dt, [512, 512])]
        yield f"tile {dt}", lambda x: tf.tile(x, [4, 2]), [(dt, [256, 256])]
        yield f"tile last {dt}", lambda x: tf.tile(x, [1, 8]), [(dt, [8192, 8])]
        yield f"broadcast {dt}", lambda x: tf.broadcast_to(x, [512, 1024]), [(dt, [1024])]
        yield f"broadcast column {dt}", lambda x: tf.broadcast_to(x, [512, 1024]), [(dt, [512, 1])]
        yield f"reverse {dt}", lambda x: tf.reverse(x, [1]), [(dt, [512, 1024])]
        yield f"reverse rows {dt}", lambda x: tf.reverse(x, [0]), [(dt, [512, 1024])]
        yield f"roll {dt}", lambda x: tf.roll(x, 3, 1), [(dt, [512, 1024])]
        yield f"fill {dt}", lambda x: tf.fill([512, 1024], tf.reshape(x, [])), [(dt, [1])]
        yield f"space to depth {dt}", lambda x: nn.space_to_depth(x, 2), [(dt, [8, 64, 64, 32])] if dt in (F, H, U) else [(F, [8, 64, 64, 32])]
        yield f"depth to space {dt}", lambda x: nn.depth_to_space(x, 2), [(dt, [8, 32, 32, 64])] if dt in (F, H, U) else [(F, [8, 32, 32, 64])]
        yield f"space to batch {dt}", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), [(dt, [8, 64, 64, 16])]
        yield f"diag {dt}", lambda x: tf.linalg.diag(x), [(dt, [32, 128])]
        yield f"diag part {dt}", lambda x: tf.linalg.diag_part(x), [(dt, [32, 128, 128])]
        yield f"band part {dt}", lambda x: tf.linalg.band_part(x, -1, 0), [(dt, [32, 128, 128])]
        yield f"zeros like {dt}", tf.zeros_like, [(dt, [512, 1024])]
        yield f"reverse sequence {dt}", lambda x, n: tf.reverse_sequence(x, n, 1), [(dt, [64, 128, 64]), ("positive:127", [64])]
    yield "one hot", lambda x: tf.one_hot(x, 1000), [("ids:1000", [1024])]
    yield "one hot narrow", lambda x: tf.one_hot(x, 10), [("ids:10", [65536])]
    yield "one hot first", lambda x: tf.one_hot(x, 100, axis=0), [("ids:100", [4096])]
    yield "range", lambda: tf.range(tf.constant(1000000)), []
    yield "linspace", lambda: tf.linspace(0.0, 1.0, 1000000), []
    yield "mirror pad grad", lambda x: raw.MirrorPadGrad(input=x, paddings=[[0, 0], [2, 2], [2, 2], [0, 0]], mode="REFLECT"), [(F, [4, 68, 68, 16])]
    yield "strided slice grad", lambda x: raw.StridedSliceGrad(shape=[512, 1024], begin=[0, 0], end=[512, 1024], strides=[1, 2], dy=x), [(F, [512, 512])]
    yield "extract patches", lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"), [(F, [4, 32, 32, 16])]


def gathers():
    for dt in (F, D, H, L):
        yield f"gather rows {dt}", lambda x, i: tf.gather(x, i), [(dt, [50000, 64]), ("ids:50000", [8192])]
        yield f"gather narrow {dt}", lambda x, i: tf.gather(x, i), [(dt, [100000, 4]), ("ids:100000", [65536])]
        yield f"gather scalars {dt}", lambda x, i: tf.gather(x, i), [(dt, [100000]), ("ids:100000", [65536])]
        yield f"gather columns {dt}", lambda x, i: tf.gather(x, i, axis=1), [(dt, [1024, 1024]), ("ids:1024", [256])]
        yield f"gather batch {dt}", lambda x, i: tf.gather(x, i, batch_dims=1), [(dt, [256, 256]), ("ids:256", [256, 64])]
        yield f"gather middle {dt}", lambda x, i: tf.gather(x, i, axis=1), [(dt, [64, 128, 64]), ("ids:128", [64])]
        yield f"gather nd {dt}", lambda x, i: tf.gather_nd(x, i), [(dt, [256, 256, 16]), ("ids:256", [8192, 2])]
        yield f"gather nd scalars {dt}", lambda x, i: tf.gather_nd(x, i), [(dt, [256, 256]), ("ids:256", [65536, 2])]
        yield f"scatter nd {dt}", lambda i, x: tf.scatter_nd(tf.reshape(i, [-1, 1]), x, [50000, 32]), [("ids:50000", [8192]), (dt, [8192, 32])]
        yield f"scatter nd scalars {dt}", lambda i, x: tf.scatter_nd(i, x, [256, 256]), [("ids:256", [65536, 2]), (dt, [65536])]
        yield f"tensor scatter update {dt}", lambda t, i, x: tf.tensor_scatter_nd_update(t, i, x), [(dt, [4096, 64]), ("ids:4096", [1024, 1]), (dt, [1024, 64])]
        yield f"tensor scatter add {dt}", lambda t, i, x: tf.tensor_scatter_nd_add(t, i, x), [(dt, [4096, 64]), ("ids:4096", [1024, 1]), (dt, [1024, 64])]
        yield f"unsorted segment sum {dt}", lambda x, i: tf.math.unsorted_segment_sum(x, i, 1000), [(dt, [8192, 64]), ("ids:1000", [8192])]
        yield f"unsorted segment sum narrow {dt}", lambda x, i: tf.math.unsorted_segment_sum(x, i, 1000), [(dt, [65536]), ("ids:1000", [65536])]
        yield f"unsorted segment max {dt}", lambda x, i: tf.math.unsorted_segment_max(x, i, 1000), [(dt, [8192, 64]), ("ids:1000", [8192])]
        yield f"segment sum {dt}", lambda x: tf.math.segment_sum(x, np.repeat(np.arange(512, dtype=np.int32), 16)), [(dt, [8192, 64])]
        yield f"segment mean {dt}", lambda x: tf.math.segment_mean(x, np.repeat(np.arange(512, dtype=np.int32), 16)), [(dt, [8192, 64])]
        yield f"segment max {dt}", lambda x: tf.math.segment_max(x, np.repeat(np.arange(512, dtype=np.int32), 16)), [(dt, [8192, 64])]
        yield f"sort {dt}", tf.sort, [(dt, [128, 1024])]
        yield f"where {dt}", lambda x: tf.where(x > tf.cast(0.6, x.dtype)), [(dt, [512, 1024])]
        yield f"boolean mask {dt}", lambda x: tf.boolean_mask(x, x[:, 0] > tf.cast(0.6, x.dtype)), [(dt, [8192, 64])]
        yield f"dynamic partition {dt}", lambda x, i: tf.dynamic_partition(x, i, 4), [(dt, [8192, 64]), ("ids:4", [8192])]
        yield f"dynamic stitch {dt}", lambda x, y: tf.dynamic_stitch([np.arange(0, 8192, 2), np.arange(1, 8192, 2)], [x, y]), [(dt, [4096, 64])] * 2
    for dt in (F, D):
        yield f"sparse segment sum {dt}", lambda x, i: tf.sparse.segment_sum(x, i, np.repeat(np.arange(512, dtype=np.int32), 16)), [(dt, [50000, 64]), ("ids:50000", [8192])]
        yield f"sparse segment mean {dt}", lambda x, i: tf.sparse.segment_mean(x, i, np.repeat(np.arange(512, dtype=np.int32), 16)), [(dt, [50000, 64]), ("ids:50000", [8192])]
        yield f"sparse segment mean grad {dt}", lambda x, i: raw.SparseSegmentMeanGrad(grad=x, indices=i, segment_ids=np.repeat(np.arange(512, dtype=np.int32), 16), output_dim0=50000), [(dt, [512, 64]), ("ids:50000", [8192])]
    for dt in ("ids:5000", "ids:100000"):
        yield f"unique {dt}", lambda x: tf.unique(x)[0], [(dt, [65536])]
    yield "unique counts", lambda x: tf.unique_with_counts(x)[2], [("ids:5000", [65536])]
    yield "bincount", lambda x: tf.math.bincount(x, minlength=1000, maxlength=1000), [("ids:1000", [65536])]
    for dt in (F, D, I, L):
        yield f"histogram {dt}", lambda x: tf.histogram_fixed_width(x, tf.constant([0, 1], x.dtype)), [(dt, [65536])]
    for dt in (F, D, I, L):
        sorted_rows = np.sort(values(dt, [16, 1000], np.random.default_rng(3)), 1)
        yield f"searchsorted {dt}", lambda y, x=sorted_rows: tf.searchsorted(x, y), [(dt, [16, 1000])]
        yield f"searchsorted right {dt}", lambda y, x=sorted_rows: tf.searchsorted(x, y, "right"), [(dt, [16, 1000])]
    yield "list diff", lambda x, y: raw.ListDiff(x=x, y=y)[0], [("ids:5000", [20000]), ("ids:5000", [5000])]
    yield "sparse dense matmul", lambda i, v, b: tf.sparse.sparse_dense_matmul(tf.SparseTensor(tf.cast(i, tf.int64), v, [1000, 1000]), b), [("ids:1000", [20000, 2]), (F, [20000]), (F, [1000, 64])]
    for dt in (F, D, U, L):
        yield f"sparse to dense {dt}", lambda i, v: raw.SparseToDense(sparse_indices=i, output_shape=[1000, 1000], sparse_values=v, default_value=tf.zeros([], v.dtype), validate_indices=False), [("ids:1000", [20000, 2]), (dt, [20000])]
        yield f"sparse to dense vector {dt}", lambda i, v: raw.SparseToDense(sparse_indices=i, output_shape=[1000], sparse_values=v, default_value=tf.ones([], v.dtype), validate_indices=False), [("ids:1000", [20000]), (dt, [20000])]
        yield f"sparse to dense in order {dt}", lambda v: raw.SparseToDense(sparse_indices=np.arange(20000).reshape(-1, 1), output_shape=[20000], sparse_values=v, default_value=tf.zeros([], v.dtype), validate_indices=True), [(dt, [20000])]
    yield "embedding sparse", lambda x, i: nn.embedding_lookup(x, i), [(F, [50000, 32]), ("ids:50000", [512, 20])]


def random():
    for dt in (tf.float32, tf.float64, tf.float16, tf.bfloat16):
        yield f"uniform {dt.name}", lambda dt=dt: tf.random.uniform([512, 1024], dtype=dt), []
        yield f"normal {dt.name}", lambda dt=dt: tf.random.normal([512, 1024], dtype=dt), []
        yield f"truncated {dt.name}", lambda dt=dt: tf.random.truncated_normal([512, 1024], dtype=dt), []
        yield f"stateless normal {dt.name}", lambda dt=dt: tf.random.stateless_normal([512, 1024], [1, 2], dtype=dt), []
    yield "uniform int64", lambda: tf.random.uniform([512, 1024], 0, 100, tf.int64), []
    yield "gamma", lambda x: tf.random.gamma([16], x), [(F, [4096])]
    yield "poisson", lambda x: tf.random.poisson([16], x), [(F, [4096])]
    yield "multinomial", lambda x: tf.random.categorical(x, 4), [(F, [512, 1000])]
    yield "shuffle", tf.random.shuffle, [(F, [4096, 64])]
    yield "dropout", lambda x: nn.dropout(x, 0.3), [(F, [512, 1024])]


def products():
    for dt in (F, D, H, B):
        for m, k, n in ((1, 512, 512), (4, 512, 512), (32, 512, 512), (128, 256, 128), (256, 256, 256), (512, 512, 1), (4096, 16, 16), (16, 4096, 16), (7, 7, 7)):
            yield f"{m}x{k}x{n} {dt}", tf.matmul, [(dt, [m, k]), (dt, [k, n])]
            yield f"{m}x{k}x{n} {dt} tb", lambda x, y: tf.matmul(x, y, transpose_b=True), [(dt, [m, k]), (dt, [n, k])]
            yield f"{m}x{k}x{n} {dt} ta", lambda x, y: tf.matmul(x, y, transpose_a=True), [(dt, [k, m]), (dt, [k, n])]
        for b, m, k, n in ((64, 32, 32, 32), (256, 8, 8, 8), (16, 128, 64, 128), (16, 128, 64, 1)):
            yield f"batch {b} {m}x{k}x{n} {dt}", tf.matmul, [(dt, [b, m, k]), (dt, [b, k, n])]
    yield "int32 128", tf.matmul, [(I, [128, 128])] * 2
    yield "cross", lambda x, y: tf.linalg.cross(x, y), [(F, [65536, 3])] * 2
    yield "cholesky", lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + 10.0 * tf.eye(64)), [(F, [8, 64, 64])]


def normalisation():
    for dt in (F, D, H, B):
        for c in (2, 10, 33, 64, 100, 256, 1000):
            n = 262144 // c
            yield f"softmax {c} {dt}", nn.softmax, [(dt, [n, c])]
            yield f"log softmax {c} {dt}", nn.log_softmax, [(dt, [n, c])]
            yield f"cross entropy {c} {dt}", lambda x, y: nn.softmax_cross_entropy_with_logits(y, x), [(dt, [n, c])] * 2
            yield f"sparse cross entropy {c} {dt}", lambda x, y: nn.sparse_softmax_cross_entropy_with_logits(y, x), [(dt, [n, c]), (f"ids:{c}", [n])]
        yield f"layer norm {dt}", lambda x, g: (x - tf.reduce_mean(x, -1, keepdims=True)) * tf.math.rsqrt(tf.math.reduce_variance(x, -1, keepdims=True) + tf.cast(1e-5, x.dtype)) * g, [(dt, [512, 768]), (dt, [768])]
    for dt in (F, H):
        yield f"lrn {dt}", nn.lrn, [(dt, [8, 28, 28, 64])]
        yield f"lrn grad {dt}", lambda x: raw.LRNGrad(input_grads=x, input_image=x, output_image=x), [(dt, [8, 28, 28, 64])]
        yield f"l2 normalize {dt}", lambda x: tf.math.l2_normalize(x, 1), [(dt, [2048, 128])]
    yield "sigmoid cross entropy", lambda x, y: nn.sigmoid_cross_entropy_with_logits(y, x), [(F, [512, 1024])] * 2
    yield "resize bilinear", lambda x: tf.compat.v1.image.resize_bilinear(x, [64, 64]), [(F, [8, 32, 32, 16])]
    yield "resize nearest", lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, [64, 64]), [(F, [8, 32, 32, 16])]
    yield "resize bilinear grad", lambda x, y: raw.ResizeBilinearGrad(grads=x, original_image=y), [(F, [8, 64, 64, 16]), (F, [8, 32, 32, 16])]
    yield "crop and resize", lambda x: tf.image.crop_and_resize(x, np.array([[0, 0, 1, 1]] * 16, np.float32), np.zeros(16, np.int32), [32, 32]), [(F, [1, 64, 64, 16])]
    yield "adjust contrast", lambda x: tf.image.adjust_contrast(x, 0.5), [(F, [4, 64, 64, 3])]
    yield "rgb to hsv", tf.image.rgb_to_hsv, [(F, [4, 128, 128, 3])]
    yield "fake quant", lambda x: tf.quantization.fake_quant_with_min_max_args(x), [(F, [512, 1024])]
    yield "fft", tf.signal.rfft, [(F, [64, 1024])]


def pools():
    for dt in (F, D, H, B):
        for name, shape in (("64", [8, 28, 28, 64]), ("24", [8, 28, 28, 24]), ("3", [8, 64, 64, 3]), ("1", [8, 128, 128, 1])):
            yield f"max pool {name} {dt}", lambda x: nn.max_pool2d(x, 3, 2, "SAME"), [(dt, shape)]
            yield f"avg pool {name} {dt}", lambda x: nn.avg_pool2d(x, 3, 2, "SAME"), [(dt, shape)]
            yield f"max pool with argmax {name} {dt}", lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"), [(dt, shape)]
            yield f"max pool grad {name} {dt}", lambda x, y: raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"), [(dt, shape), (dt, [8, shape[1] // 2, shape[2] // 2, shape[3]])]
            places = np.arange(8 * shape[1] // 2 * shape[2] // 2 * shape[3], dtype=np.int64).reshape([8, shape[1] // 2, shape[2] // 2, shape[3]]) * 4
            yield f"max pool grad with argmax {name} {dt}", lambda x, y, i=places: raw.MaxPoolGradWithArgmax(input=x, grad=y, argmax=i, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", include_batch_in_index=True), [(dt, shape), (dt, list(places.shape))]
        for channels in (32, 3):
            image, filter_, args = (dt, [4, 32, 32, channels]), (dt, [3, 3, channels]), {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
            yield f"dilation {channels} {dt}", lambda x, f, a=args: raw.Dilation2D(input=x, filter=f, **a), [image, filter_]
            yield f"dilation input grad {channels} {dt}", lambda x, f, a=args: raw.Dilation2DBackpropInput(input=x, filter=f, out_backprop=x, **a), [image, filter_]
            yield f"dilation filter grad {channels} {dt}", lambda x, f, a=args: raw.Dilation2DBackpropFilter(input=x, filter=f, out_backprop=x, **a), [image, filter_]


def strings():
    rng = np.random.default_rng(3)
    numbers = {"float": [repr(float(v)) for v in rng.standard_normal(5000)], "short": [f"{v:.3f}" for v in rng.standard_normal(5000)], "integer": [str(v) for v in rng.integers(-(10**6), 10**6, 5000)]}
    for name, texts in numbers.items():
        for dt in (tf.float32, tf.float64) + ((tf.int32, tf.int64) if name == "integer" else ()):
            yield f"string to number {name} {dt.name}", lambda t=texts, dt=dt: tf.strings.to_number(tf.constant(t), dt), []
    for dt in (F, D, I, L, BOOL):
        yield f"as string {dt}", tf.strings.as_string, [(dt, [5000])]
    yield "as string shortest", lambda x: tf.strings.as_string(x, shortest=True), [(F, [5000])]
    yield "as string precision", lambda x: tf.strings.as_string(x, precision=3), [(F, [5000])]


def transforms():
    for real in (F, D):
        for n in (64, 100, 256, 1000, 1024, 4096):
            rows_ = 65536 // n
            yield f"rfft {n} {real}", tf.signal.rfft, [(real, [rows_, n])]
            yield f"irfft {n} {real}", lambda x, n=n: tf.signal.irfft(tf.complex(x, x), [n]), [(real, [rows_, n // 2 + 1])]
            yield f"fft {n} {real}", lambda x: tf.signal.fft(tf.complex(x, x)), [(real, [rows_, n])]
        yield f"fft2d {real}", lambda x: tf.signal.fft2d(tf.complex(x, x)), [(real, [4, 64, 64])]
        yield f"rfft2d {real}", tf.signal.rfft2d, [(real, [4, 64, 64])]
        yield f"irfft2d {real}", lambda x: tf.signal.irfft2d(tf.complex(x, x)), [(real, [4, 64, 33])]
        yield f"rfft3d {real}", tf.signal.rfft3d, [(real, [2, 16, 32, 32])]


FAMILIES = {f.__name__: (f, 1.0, 1.1) for f in (elementwise, reductions, layout, gathers, random, products, normalisation, pools, strings, transforms)}
