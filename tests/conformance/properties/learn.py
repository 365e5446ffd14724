"""Specs of solvers and clustering: ops/learn.def.

Left out: what depends on the order in which SdcaOptimizer takes its examples, which is random: examples share no feature here.
Fewer than no neighbours, which end TensorFlow's process.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C
from properties.arithmetic import loose

v1 = tf.compat.v1


@spec("IsotonicRegression")
def isotonic(d):
    pairs = {tf.float16: tf.float16, tf.bfloat16: tf.bfloat16, tf.float32: tf.float32, tf.float64: tf.float64}
    pairs |= {tf.int8: tf.float32, tf.int16: tf.float32, tf.int32: tf.float64, tf.int64: tf.float64}
    dtype = d.one(*pairs)
    case = C(d.op, d.values(dtype, d.shape(max_rank=3), special=0), output_dtype=pairs[dtype], **loose(pairs[dtype], 4))
    case.has_gradient = False  # TensorFlow's needs a matrix of known shape
    return case


@spec("KMC2ChainInitialization")
def chain(d):
    distances = np.abs(d.values(tf.float32, (d.int(0, 30),), special=0.2))
    seed = np.int64(d.one(0, 1, -1, 2**40 + 3, d.int(0, 10**6)))
    if d.chance(0.08):
        distances, seed = d.one((distances.reshape(1, -1), seed), (distances, seed.reshape(1)))
    return C(d.op, distances, seed)


@spec("KmeansPlusPlusInitialization")
def plus_plus(d):
    n, width = d.int(1, 12) if d.chance(0.97) else 0, d.dim()
    points = np.round(d.values(tf.float32, (n, width), low=-8, high=8, special=0))
    distinct = max(1, len({tuple(p) for p in points.tolist()}))
    wanted = np.int64(d.int(1, distinct) if d.chance(0.93) else d.one(0, -1, n + 1))
    seed = np.int64(d.int(0, 10**6))
    retries = np.int64(d.one(0, 1, 3, -1))
    if d.chance(0.06):
        points, wanted, seed, retries = d.one((points.reshape(-1), wanted, seed, retries), (points, wanted.reshape(1), seed, retries), (points, wanted, seed, retries.reshape(1)))
    return C(d.op, points, wanted, seed, retries)


@spec("NearestNeighbors")
def nearest(d):
    width = d.dim()
    points = d.values(tf.float32, (d.dim(6), width), special=0)
    centres = d.values(tf.float32, (d.dim(8), width if d.chance(0.95) else d.dim()), special=0)
    k = np.int64(d.one(0, 1, 1, 2, 3, 20))
    if d.chance(0.06):
        points, centres, k = d.one((points.reshape(-1), centres, k), (points, centres.reshape(-1), k), (points, centres, k.reshape(1)))
    return C(d.op, points, centres, k, rtol=1e-4, atol=1e-4)


@spec("SdcaFprint")
def fprint(d):
    def one():
        return d.rng.integers(0, 256, d.one(d.int(0, 40), d.int(0, 500)), dtype=np.uint8).tobytes()

    n = d.int(0, 8)
    a = np.empty(n, object)
    a[:] = [one() for _ in range(n)]
    return C(d.op, a if d.chance(0.95) else a.reshape(1, -1))


LOSSES = ["logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss", "poisson_loss"]


def labels_of(d, loss, n):
    if loss in ("squared_loss", "poisson_loss"):
        labels = d.values(tf.float32, (n,), low=0.5, high=4, special=0)
    else:
        labels = d.rng.integers(0, 2, n).astype(np.float32)
    if n and d.chance(0.08):
        labels[d.int(0, n - 1)] = d.one(-1, 2)
    return labels


def states_of(d, loss, labels):
    """Dual variables within the domain of the loss, and losses of no importance."""
    dual = np.where(labels == 0, -1, labels) * d.real(0.1, 0.9)
    return np.stack([dual, labels, labels, labels], 1).astype(np.float32)


@spec("SdcaOptimizer", "SdcaOptimizerV2")
def sdca(d):
    loss, n = d.one(*LOSSES), d.int(1, 4)
    has_dense = n == 1 and d.chance(0.7)  # a dense feature is shared by all examples
    num_sparse = d.int(0 if has_dense else 1, 2)
    num_values = d.int(0, num_sparse)
    labels = labels_of(d, loss, n)
    examples, features, values, indices, weights = [], [], [], [], []
    for g in range(num_sparse):
        counts = [d.int(0, 3) for _ in range(n)]
        total = sum(counts)
        names = d.rng.permutation(total + 3)
        examples.append(np.repeat(np.arange(n), counts).astype(np.int64))
        features.append(names[:total].astype(np.int64))
        if g < num_values:
            values.append(d.values(tf.float32, (total,), special=0))
        present = d.rng.permutation(total + 3)[: total + 3 if d.chance(0.95) else total]
        indices.append(present.astype(np.int64))
        weights.append(d.values(tf.float32, (len(present),), low=-1, high=1, special=0))
        if total > 1 and examples[-1][0] == examples[-1][1] and d.chance(0.1):
            features[-1][0] = features[-1][1]
    dense = [d.values(tf.float32, (n, d.int(1, 4)), special=0) for _ in range(d.int(1, 2) if has_dense else 0)]
    dense_weights = [d.values(tf.float32, (x.shape[1],), low=-1, high=1, special=0) for x in dense]
    example_weights = d.values(tf.float32, (n,), low=0.2, high=2, special=0)
    state = states_of(d, loss, labels)
    if d.chance(0.05):
        state = d.one(state[:, :3], state[1:], state.reshape(-1))
    if d.chance(0.03):
        labels = labels[1:]
    attrs = {"adaptative" if d.op == "SdcaOptimizer" else "adaptive": n == 1 and d.chance(0.4)}
    attrs |= {"loss_type": loss, "l1": d.one(0.0, 0.1), "l2": d.one(1.0, 0.5, 2.0), "num_loss_partitions": d.int(1, 3), "num_inner_iterations": 1}
    inputs = [examples, features, values, dense, example_weights, labels, indices, weights, dense_weights, state]

    def build():
        outs, feeds = C(d.op, *inputs, **attrs).build()
        return [(outs, {port: np.array(value) for port, value in feeds.items()})]  # TensorFlow writes into the state that it is fed

    return Program(d.op, build, rtol=1e-3, atol=1e-3)


@spec("SdcaShrinkL1")
def shrink(d):
    shapes = [d.shape(max_rank=2) for _ in range(d.int(1, 3))]
    starts = [d.values(tf.float32, s, low=-1, high=1, special=0.2) for s in shapes]
    starts = [np.where(np.isnan(s), np.float32(0), s) for s in starts]
    l1, l2, is_initialized = d.one(0.0, 0.1, 0.5), d.one(1.0, 0.5), d.chance(0.95)

    def build():
        variables = [v1.Variable(s, use_resource=False, name=f"shrunk{d.number}_{i}") for i, s in enumerate(starts)]
        shrunk = tf.raw_ops.SdcaShrinkL1(weights=[v._ref() for v in variables], l1=l1, l2=l2)
        steps = [(v1.global_variables_initializer(), {})] if is_initialized else []
        return [*steps, (shrunk, {}), ([v.value() for v in variables], {})]

    return Program(d.op, build)
