"""Specs of shapes, slices, gathers and layouts: ops/array.def.

Left out: rows scattered into a tensor without elements, which TensorFlow refuses and which a replica without rows needs;
a SplitV whose axis is not known, for which
TensorFlow infers shapes of the last one; bands of diagonals set in matrices that are known in part, which
TensorFlow refuses; diagonals of unknown length, from which TensorFlow makes
matrices of no rows; what Empty leaves in memory without `init`; positions of the last dimension of a Bitcast to a type of another size;
bounds of slices so far outside that TensorFlow's own arithmetic wraps around.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec, unlisted
from opcase import C
from support import ALL_DTYPES

INDEX = (tf.int32, tf.int64)


def ints(values, dtype=np.int32):
    return np.asarray(values, dtype)


def constant(value):
    """As a constant of the graph."""
    return lambda: tf.constant(value)


def fresh(value):
    """As a tensor of the step's own: TensorFlow's kernel writes into what it gets, be it the caller's array."""
    return lambda: tf.raw_ops.DeepCopy(x=tf.constant(value))


def index_type(d):
    return d.one(np.int32, np.int64)


def any_dtype(d):
    return d.one(*ALL_DTYPES)


def hostile(d, value):
    """Now and then a size or position that no tensor has."""
    return d.one(-1, -2, 2**31 - 1, -(2**31), 1000) if d.chance(0.04) else value


# ---- shapes ----


@spec("Shape", "Size")
def shape_of(d):
    return C(d.op, d.values(any_dtype(d), d.shape()), out_type=d.one(*INDEX))


@spec("Rank", "OnesLike", "ZerosLike")
def like(d):
    return C(d.op, d.values(any_dtype(d) if d.op != "OnesLike" else d.dtype(), d.shape()))


@spec("ShapeN")
def shapes_of(d):
    dtype = any_dtype(d)
    return C(d.op, [d.values(dtype, d.shape()) for _ in range(d.int(1, 4))], out_type=d.one(*INDEX))


@spec("Reshape")
def reshape(d):
    shape = d.shape()
    n = int(np.prod(shape))
    target = [n]
    while d.chance(0.5) and len(target) < 5:
        k = d.one(*[k for k in (1, 2, 3, 4, 5) if target[-1] % k == 0])
        target[-1:] = [k, target[-1] // k]
    if d.chance(0.4) and target:
        target[d.int(0, len(target) - 1)] = -1
    if d.chance(0.1):
        target = [hostile(d, int(t)) for t in target] + d.one([], [-1], [2])
    return C(d.op, d.values(any_dtype(d), shape), ints(target, index_type(d)))


@spec("ExpandDims")
def expand_dims(d):
    shape = d.shape()
    return C(d.op, d.values(any_dtype(d), shape), index_type(d)(d.axis(len(shape) + 1)))


@spec("Squeeze")
def squeeze(d):
    shape = tuple(1 if d.chance(0.4) else n for n in d.shape())
    ones = [i - (len(shape) if d.chance(0.3) else 0) for i, n in enumerate(shape) if n == 1 and d.chance(0.6)]
    if shape and d.chance(0.06):
        ones.append(d.one(0, len(shape), -len(shape) - 1))
    return C(d.op, d.values(any_dtype(d), shape), squeeze_dims=ones)


@spec("BroadcastTo")
def broadcast_to(d):
    shape, whole = d.broadcast(wrong=0.08)
    target = list(np.broadcast_shapes(shape, whole)) if d.chance(0.8) and all(a == b or 1 in (a, b) for a, b in zip(shape[::-1], whole[::-1])) else list(whole)
    x, sizes = d.values(any_dtype(d), shape), ints([hostile(d, n) for n in target], index_type(d))
    if d.chance(0.05):
        sizes = sizes.dtype.type(d.int(-1, 3))  # one size is no shape
    return C(d.op, x, sizes)


@spec("BroadcastArgs", "BroadcastGradientArgs")
def broadcast_args(d):
    a, b = d.broadcast(wrong=0.1)
    dtype = index_type(d)
    return C(d.op, ints(a, dtype), ints(b, dtype))


@spec("EnsureShape")
def ensure_shape(d):
    shape = d.shape()
    wanted = [None if d.chance(0.3) else hostile(d, n) for n in shape]
    wanted = tf.TensorShape(None) if d.chance(0.1) else tf.TensorShape([n if n is None or 0 <= n < 2000 else 7 for n in wanted])
    return C(d.op, d.values(any_dtype(d), shape), shape=wanted)


@spec("InvertPermutation")
def invert_permutation(d):
    perm = d.rng.permutation(d.dim(6))
    if perm.size and d.chance(0.15):
        perm[d.int(0, perm.size - 1)] = d.one(-1, perm.size, 0)
    return C(d.op, perm.astype(index_type(d)).reshape(d.one(perm.shape, perm.shape, perm.shape, (1, *perm.shape))))


# ---- new tensors ----


@spec("Fill")
def fill(d):
    return C(d.op, ints([hostile(d, n) if d.chance(0.1) else n for n in d.shape()], index_type(d)), d.values(any_dtype(d), d.one((), (), (), (), (1,))))


@spec("Empty")
def empty(d):
    return C(d.op, ints([n if d.chance(0.97) else -1 for n in d.shape()]), dtype=d.one(*[t for t in ALL_DTYPES if t != tf.string]), init=True)


@spec("Range")
def span(d):
    dtype = d.one(np.int32, np.int64, np.float32, np.float64)
    start, limit = d.int(-5, 5), d.int(-5, 12)
    delta = d.one(1, 2, 3, -1, -2, 0) if limit >= start else d.one(-1, -2, -3, 1)
    return C(d.op, dtype(start), dtype(limit), dtype(delta if np.issubdtype(dtype, np.integer) or not delta else delta * 0.7))


@spec("LinSpace")
def linspace(d):
    dtype = d.dtype().as_numpy_dtype
    return C(d.op, dtype(d.real(-3, 3)), dtype(d.real(-3, 3)), index_type(d)(d.one(1, 2, 3, 7, 0, -1)), rtol=2e-2 if dtype == tf.bfloat16.as_numpy_dtype else None)


@spec("OneHot")
def one_hot(d):
    shape, dtype = d.shape(max_rank=3), any_dtype(d)
    depth = hostile(d, d.int(0, 5)) if d.chance(0.3) else d.int(0, 5)
    depth = depth if depth < 1000 else 3
    kind = d.one(tf.int32, tf.int64, tf.uint8, tf.int8)
    indices = d.indices(max(depth, 1), shape, kind, wrong=0 if kind == tf.uint8 else 0.3)
    return C(d.op, indices, np.int32(depth), d.values(dtype), d.values(dtype), axis=d.one(-1, d.axis(len(shape) + 1)))


@spec("Diag", "DiagPart")
def diag(d):
    shape = d.shape(max_rank=3, max_dim=3)
    dtype = d.dtype()
    if d.op == "DiagPart":
        shape = d.one(shape * 2, shape * 2, shape * 2, shape)
    return C(d.op, d.values(dtype, shape))


# ---- slices and moves ----


@spec("Slice")
def part(d):
    shape, dtype = d.shape(), index_type(d)
    begin = [hostile(d, d.int(0, n)) for n in shape]
    size = [d.one(-1, hostile(d, d.int(0, max(n - b, 0)))) for n, b in zip(shape, begin)]
    if d.chance(0.04):
        begin = begin + [0]
    return C(d.op, d.values(any_dtype(d), shape), ints(begin, dtype), ints(size, dtype))


def sliced(d, shape):
    """begin, end, strides, masks for a tensor of this shape."""
    begin, end, strides, masks = [], [], [], {k: 0 for k in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}
    at, has_ellipsis = 0, False
    while at < len(shape) and d.chance(0.85) and len(begin) < 8:
        bit = 1 << len(begin)
        n = shape[at]
        begin.append(d.int(-n - 1, n + 1))
        end.append(d.int(-n - 1, n + 1))
        strides.append(d.one(1, 1, 1, 2, -1, -2, 3))
        how = d.int(0, 9)
        if how == 0 and not has_ellipsis:
            masks["ellipsis_mask"] |= bit
            has_ellipsis = True
            at = min(len(shape), at + d.int(0, 2))
            continue
        if how == 1:
            masks["new_axis_mask"] |= bit
            continue
        if how == 2:
            masks["shrink_axis_mask"] |= bit
            strides[-1] = 1 if d.chance(0.95) else -1
            begin[-1] = d.int(-n, max(n - 1, 0)) if d.chance(0.95) else n + 3
        masks["begin_mask"] |= bit * d.chance(0.3)
        masks["end_mask"] |= bit * d.chance(0.3)
        at += 1
    if d.chance(0.03):
        begin, end, strides = begin + [0] * 3, end + [1] * 3, strides + [1] * 3
    if strides and d.chance(0.02):
        strides[0] = 0
    return begin, end, strides, masks


def result_of_slice(x, begin, end, strides, masks):
    """The shape that TensorFlow gives the slice; None if it gives none."""
    try:
        with tf.Graph().as_default():
            out = tf.raw_ops.StridedSlice(input=tf.zeros(x), begin=begin, end=end, strides=strides, **masks)
            return tuple(out.shape.as_list())
    except (ValueError, TypeError):
        return None


@spec("StridedSlice")
def strided_slice(d):
    shape, dtype = d.shape(), index_type(d)
    begin, end, strides, masks = sliced(d, shape)
    return C(d.op, d.values(any_dtype(d), shape), ints(begin, dtype), ints(end, dtype), ints(strides, dtype), **masks)


@spec("StridedSliceGrad")
def strided_slice_grad(d):
    shape, dtype = d.shape(max_rank=4), index_type(d)
    begin, end, strides, masks = sliced(d, shape)
    dy = result_of_slice(shape, begin, end, strides, masks)
    if dy is None or d.chance(0.04):
        dy = d.shape(max_rank=2)
    return C(d.op, ints(shape, dtype), ints(begin, dtype), ints(end, dtype), ints(strides, dtype), d.values(any_dtype(d), dy), **masks)


@spec("TensorStridedSliceUpdate")
def strided_slice_update(d):
    shape, dtype = d.shape(max_rank=4), index_type(d)
    begin, end, strides, masks = sliced(d, shape)
    value = result_of_slice(shape, begin, end, strides, masks)
    if value is None:
        value = ()
    if d.chance(0.3):
        value = tuple(1 if d.chance(0.4) else n for n in value)[d.int(0, len(value)) if d.chance(0.3) else 0 :]
    kind = any_dtype(d)
    return C(d.op, d.values(kind, shape), ints(begin, dtype), ints(end, dtype), ints(strides, dtype), d.values(kind, value), **masks)


@spec("Transpose", "ConjugateTranspose")
def transpose(d):
    shape = d.shape(max_rank=6, max_dim=4)
    perm = d.rng.permutation(len(shape))
    if perm.size and d.chance(0.06):
        perm[0] = d.one(-1, len(shape), perm[-1])
    if d.chance(0.06):
        perm = perm[:1].reshape(d.one((), (1, 1))) if perm.size else perm.reshape(0, 1)
    return C(d.op, d.values(any_dtype(d), shape), perm.astype(index_type(d)))


@spec("Reverse")
def reverse(d):
    shape = d.shape()
    dims = d.rng.random(len(shape) if d.chance(0.95) else len(shape) + 1) < 0.5
    return C(d.op, d.values(d.dtype(), shape), dims)


@spec("ReverseV2")
def reverse_v2(d):
    shape = d.shape()
    axes = [d.axis(len(shape)) for i in range(len(shape)) if d.chance(0.4)]
    return C(d.op, d.values(d.dtype(), shape), ints(axes, index_type(d)))


@spec("ReverseSequence")
def reverse_sequence(d):
    shape = d.shape(min_rank=2, max_rank=4)
    seq, batch = d.rng.permutation(len(shape))[:2]
    lengths = d.rng.integers(0, shape[seq] + 1, shape[batch]).astype(index_type(d))
    if lengths.size and d.chance(0.06):
        lengths[0] = d.one(-1, shape[seq] + 1)
    return C(d.op, d.values(d.dtype(), shape), lengths, seq_dim=int(seq), batch_dim=int(batch if d.chance(0.95) else seq))


@spec("Roll")
def roll(d):
    shape = d.shape(min_rank=1 if d.chance(0.97) else 0)
    dtype = index_type(d)
    if d.chance(0.4):
        return C(d.op, d.values(any_dtype(d), shape), dtype(d.int(-9, 9)), dtype(d.axis(len(shape))))
    n = d.int(0, 3)
    return C(d.op, d.values(any_dtype(d), shape), ints(d.rng.integers(-9, 9, n), dtype), ints([d.axis(len(shape)) for _ in range(n if d.chance(0.97) else n + 1)], dtype))


@spec("Tile")
def tile(d):
    shape = d.shape(max_rank=4, max_dim=4)
    times = [hostile(d, d.int(0, 3)) if d.chance(0.1) else d.int(0, 3) for _ in shape]
    times = [t if t < 1000 else 2 for t in times]
    if d.chance(0.1):
        rank = d.int(9, 12)
        shape, times = [d.int(1, 2) for _ in range(rank)], [d.one(1, 1, 2) for _ in range(rank)]
    case = C(d.op, d.values(d.dtype(), shape), ints(times if d.chance(0.97) else times + [1], index_type(d)))
    case.has_gradient = len(shape) <= 8  # TensorFlow's gradient reshapes to twice the rank; Weft's tensors have up to 16 dimensions
    return case


@spec("Pad", "PadV2")
def pad(d):
    shape, dtype = d.shape(max_rank=5, max_dim=4), any_dtype(d)
    pads = d.rng.integers(0, 3, (len(shape) if d.chance(0.96) else len(shape) + 1, 2))
    if pads.size and d.chance(0.03):
        pads[0, 0] = -1
    rest = [d.values(dtype)] if d.op == "PadV2" else []
    return C(d.op, d.values(dtype, shape), pads.astype(index_type(d)), *rest)


@spec("MirrorPad")
def mirror_pad(d):
    shape, mode = d.shape(max_rank=5, max_dim=4), d.one("REFLECT", "SYMMETRIC")
    room = 1 if mode == "REFLECT" else 0
    pads = [[d.int(0, max(0, n - room)) for _ in range(2)] for n in shape]
    if pads and d.chance(0.06):
        pads[0][0] = d.one(-1, shape[0] + 1)
    return C(d.op, d.values(any_dtype(d), shape), np.asarray(pads, index_type(d)).reshape(-1, 2), mode=mode)


@spec("MirrorPadGrad")
def mirror_pad_grad(d):
    inner, mode = d.shape(max_rank=4, max_dim=4, zero=0), d.one("REFLECT", "SYMMETRIC")
    room = 1 if mode == "REFLECT" else 0
    pads = [[d.int(0, max(0, n - room)) for _ in range(2)] for n in inner]
    shape = [n + a + b for n, (a, b) in zip(inner, pads)]
    dtype = d.dtype()
    loose = {"rtol": 0.1, "atol": 0.1} if dtype == tf.bfloat16 else {}  # TensorFlow adds up in the type itself
    x = d.values(dtype, shape)
    if not dtype.is_integer:  # what sums of the largest numbers give depends on their order
        x = np.where(np.isfinite(x) & (np.abs(x) > 1e4), np.ones_like(x), x)
    return C(d.op, x, np.asarray(pads, index_type(d)).reshape(-1, 2), mode=mode, **loose)


# ---- joins and splits ----


def joined(d, dtype):
    """Tensors that differ along one axis, and the axis."""
    shape = d.shape(min_rank=1, max_rank=4)
    axis = d.int(0, len(shape) - 1)
    parts = [d.values(dtype, [*shape[:axis], d.dim(4), *shape[axis + 1 :]]) for _ in range(d.int(2, 4))]
    if d.chance(0.04):
        parts[-1] = d.values(dtype, d.shape())
    return parts, axis if d.chance(0.95) else d.axis(len(shape), wrong=1), len(shape)


@spec("Concat")
def concat(d):
    parts, axis, _ = joined(d, any_dtype(d))
    return C(d.op, np.int32(axis), parts)


@spec("ConcatV2")
def concat_v2(d):
    parts, axis, rank = joined(d, any_dtype(d))
    return C(d.op, parts, index_type(d)(axis - rank if d.chance(0.3) else axis))


@spec("ConcatOffset")
def concat_offset(d):
    dtype = index_type(d)
    shape = list(d.shape(min_rank=1, max_rank=4))
    axis = d.int(0, len(shape) - 1)
    shapes = [ints([*shape[:axis], d.dim(4), *shape[axis + 1 :]], dtype) for _ in range(d.int(2, 4))]
    if d.chance(0.05):
        shapes[-1] = ints(d.shape(min_rank=1), dtype)
    return C(d.op, np.int32(axis if d.chance(0.95) else -1), shapes)


@spec("ParallelConcat")
def parallel_concat(d):
    dtype, n, row = d.dtype(), d.int(1, 4), d.shape(max_rank=3)
    values = [constant(d.values(dtype, (1, *row))) for _ in range(n)]
    return C(d.op, values, shape=(n, *row))


@spec("_ParallelConcatStart", "_ParallelConcatUpdate")
def rows_in_place(d):
    """What ParallelConcat is rewritten to: every row of what begins without values is set."""
    dtype, n, row = d.dtype("dtype" if d.op.endswith("Start") else "T"), d.int(1, 4), d.shape(max_rank=3)
    values = [d.values(dtype, (1, *row)) for _ in range(n)]
    order = d.rng.permutation(n)
    wrong = d.one((1, *row, 2), (2, *row)) if d.chance(0.05) else None

    def build():
        y, feeds = unlisted("_ParallelConcatStart", shape=(n, *row), dtype=dtype).outputs[0], {}
        for i in order:
            port = tf.compat.v1.placeholder(dtype)
            feeds[port] = values[i] if wrong is None or i else np.zeros(wrong, values[i].dtype)
            y = unlisted("_ParallelConcatUpdate", value=y, update=port, loc=i).outputs[0]
        return [(y, feeds)]

    return Program(d.op, build)


@spec("Pack")
def pack(d):
    dtype, shape = any_dtype(d), d.shape(max_rank=4)
    parts = [d.values(dtype, shape) for _ in range(d.int(1, 4))]
    if d.chance(0.04):
        parts.append(d.values(dtype, d.shape(max_rank=3)))
    return C(d.op, parts, axis=d.axis(len(shape) + 1))


@spec("Unpack")
def unpack(d):
    shape = d.shape(min_rank=1)
    axis = d.axis(len(shape))
    num = shape[axis] if -len(shape) <= axis < len(shape) else 2
    return C(d.op, d.values(any_dtype(d), shape), num=num if d.chance(0.95) else num + 1, axis=axis)


@spec("Split")
def split(d):
    n = d.int(1, 4)
    shape = list(d.shape(min_rank=1, max_rank=4))
    axis = d.int(0, len(shape) - 1)
    shape[axis] = n * d.int(0, 3) if d.chance(0.95) else n + 1
    return C(d.op, np.int32(axis - (len(shape) if d.chance(0.3) else 0) if d.chance(0.96) else len(shape)), d.values(any_dtype(d), shape), num_split=n)


@spec("SplitV")
def split_v(d):
    """TensorFlow reads the size of any axis where there is one piece."""
    sizes = [d.int(0, 3) for _ in range(d.int(1, 4) if d.chance(0.97) else 300)]
    shape = list(d.shape(min_rank=1, max_rank=4))
    axis = d.int(0, len(shape) - 1)
    shape[axis] = sum(sizes)
    given = list(sizes)
    if d.chance(0.3):
        given[d.int(0, len(given) - 1)] = -1
    if d.chance(0.06):
        given[0] = d.one(-3, 7, -1)
    return C(d.op, d.values(any_dtype(d), shape), ints(given, index_type(d)), constant(np.int32(axis if d.chance(0.96) else d.one(-1, len(shape) if len(sizes) > 1 else 0))), num_split=len(sizes))


@spec("DynamicPartition")
def dynamic_partition(d):
    shape = d.shape()
    outer = d.int(0, len(shape))
    return C(d.op, d.values(any_dtype(d), shape), d.indices(3, shape[:outer]), num_partitions=3)


@spec("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(d):
    dtype, inner = any_dtype(d), d.shape(max_rank=2)
    shapes = [d.shape(max_rank=2, max_dim=3) for _ in range(d.int(1, 3))]
    counts = [int(np.prod(s)) for s in shapes]
    order = d.rng.permutation(sum(counts)).astype(np.int32)  # every place is given: others are not defined
    indices = [order[sum(counts[:i]) : sum(counts[: i + 1])].reshape(s) for i, s in enumerate(shapes)]
    if indices[0].size and d.chance(0.05):
        indices[0] = np.full_like(indices[0], -1)
    return C(d.op, indices, [d.values(dtype, (*s, *inner)) for s in shapes])


# ---- gathers and scatters ----


@spec("Gather")
def gather(d):
    shape = d.shape(min_rank=1, max_rank=4)
    return C(d.op, d.values(any_dtype(d), shape), d.indices(shape[0], d.shape(max_rank=2), d.one(*INDEX)), validate_indices=True)


@spec("GatherV2")
def gather_v2(d):
    batch = d.shape(max_rank=2, max_dim=3) if d.chance(0.3) else ()
    shape = (*batch, *d.shape(min_rank=1, max_rank=3))
    axis = d.int(len(batch), len(shape) - 1)
    indices = d.indices(shape[axis], (*batch, *d.shape(max_rank=2)), d.one(*INDEX))
    return C(d.op, d.values(any_dtype(d), shape), indices, index_type(d)(axis - len(shape) if d.chance(0.3) else axis), batch_dims=len(batch))


def coordinates(d, shape, dtype=None):
    """Indices of elements or parts of a tensor of this shape, and how many of its dimensions they name."""
    depth = d.int(1, len(shape)) if shape else 0
    lead = d.shape(max_rank=2, max_dim=4)
    columns = [d.indices(n, lead, dtype or d.one(*INDEX), wrong=0.03) for n in shape[:depth]]
    kind = columns[0].dtype if columns else np.int32
    return (np.stack([c.astype(kind) for c in columns], -1) if columns else np.zeros((*lead, 0), kind)), lead, depth


@spec("GatherNd")
def gather_nd(d):
    shape = d.shape(min_rank=1, max_rank=4)
    indices, _, _ = coordinates(d, shape)
    policy = d.one("", "", "ERROR", "IGNORE")
    return C(d.op, d.values(any_dtype(d), shape), indices, bad_indices_policy=policy)


@spec("ScatterNd")
def scatter_nd(d):
    shape = d.shape(min_rank=1, max_rank=4, zero=0)
    indices, lead, depth = coordinates(d, shape)
    dtype = d.one(*[t for t in ALL_DTYPES if t != tf.string])
    updates = d.values(dtype, (*lead, *shape[depth:]) if d.chance(0.96) else d.shape(), special=0)
    return C(d.op, indices, updates, ints(shape, indices.dtype), bad_indices_policy=d.one("", "", "ERROR", "IGNORE"), atol=2e-2 if dtype in (tf.float16, tf.bfloat16) else None)


@spec("TensorScatterAdd", "TensorScatterSub", "TensorScatterUpdate", "TensorScatterMax", "TensorScatterMin", "ScatterNdNonAliasingAdd")
def tensor_scatter(d):
    shape, dtype = d.shape(min_rank=1, max_rank=4, zero=0), d.dtype()
    indices, lead, depth = coordinates(d, shape)
    if d.op == "TensorScatterUpdate" and indices.size:  # a place that two rows name gets either
        flat = np.unique(indices.reshape(-1, indices.shape[-1]), axis=0)
        indices, lead = flat, (len(flat),)
    updates = d.values(dtype, (*lead, *shape[depth:]) if d.chance(0.96) else d.shape(), special=0)
    policy = {} if d.op == "ScatterNdNonAliasingAdd" else {"bad_indices_policy": d.one("", "", "ERROR", "IGNORE")}
    return C(d.op, d.values(dtype, shape, special=0), indices, updates, **policy, atol=5e-2 if dtype in (tf.float16, tf.bfloat16) else None)


@spec("InplaceAdd", "InplaceSub", "InplaceUpdate")
def inplace(d):
    shape = d.shape(min_rank=1, max_rank=3)
    n = d.dim(4)
    dtype = d.one(*[t for t in ALL_DTYPES if t != tf.string or d.op == "InplaceUpdate"])
    rows = d.values(dtype, (n, *shape[1:]) if d.chance(0.95) else d.shape(max_rank=3), special=0)
    index = d.rng.integers(-4, 9, n).astype(np.int32) if d.chance(0.96) else np.int32(0)
    return C(d.op, fresh(d.values(dtype, shape, special=0)), index, rows, atol=2e-2 if dtype in (tf.float16, tf.bfloat16) else None)


# ---- places ----


@spec("LowerBound", "UpperBound")
def sorted_bound(d):
    dtype, n = d.dtype(), d.dim()
    rows = np.sort(d.values(dtype, (n, d.dim(9)), low=-5, high=5, special=0).astype(np.float64)).astype(tf.as_dtype(dtype).as_numpy_dtype)
    values = d.values(dtype, (n if d.chance(0.95) else d.dim(), d.dim()), low=-6, high=6)
    if d.chance(0.06):
        rows, values = d.one((rows.reshape(-1), values), (rows, values.reshape(-1)), (rows.reshape(1, *rows.shape), values))
    return C(d.op, rows, values, out_type=d.one(*INDEX))


@spec("UnravelIndex")
def unravel_index(d):
    dtype = index_type(d)
    dims = ints([d.int(1, 6) for _ in range(d.int(0, 5))], dtype)
    if dims.size and d.chance(0.1):
        dims[d.int(0, dims.size - 1)] = d.one(0, -1, np.iinfo(dtype).max, 2**31 - 1)
    total = max(1, int(np.clip(np.prod(dims.astype(np.float64)), 1, 1000)))
    low = -total if d.chance(0.1) else 0
    indices = d.rng.integers(low, total + (d.chance(0.05)), d.one((), (d.dim(),), (d.dim(),))).astype(dtype)
    if d.chance(0.05):
        indices, dims = d.one((indices.reshape(1, -1), dims), (indices, dims.reshape(1, -1)))
    return C(d.op, np.asarray(indices), dims)


# ---- sets of values ----


def without_minus_zero(x):
    """Whole numbers: whether half's two zeros meet depends on TensorFlow's hash table."""
    if not tf.as_dtype(x.dtype).is_floating:
        return x
    return (np.round(x.astype(np.float32)) + 0.0).astype(x.dtype)


@spec("Unique", "UniqueWithCounts")
def unique(d):
    x = d.values(any_dtype(d), (d.dim(12),) if d.chance(0.96) else d.shape(), low=-2, high=2, special=0)
    return C(d.op, without_minus_zero(x), out_idx=d.one(*INDEX))


@spec("UniqueV2", "UniqueWithCountsV2")
def unique_v2(d):
    shape = d.shape(min_rank=1, max_rank=3, max_dim=4)
    x = d.rng.integers(0, 2, shape).astype(d.one(np.int32, np.int64, np.float32, np.uint8))
    axis = [] if len(shape) == 1 and d.chance(0.6) else [d.axis(len(shape))]
    return C(d.op, x, ints(axis, index_type(d)), out_idx=d.one(*INDEX))


@spec("ListDiff")
def list_diff(d):
    dtype = any_dtype(d)
    x, y = (d.values(dtype, (d.dim(8),) if d.chance(0.97) else d.shape(), low=-2, high=2, special=0) for _ in range(2))
    return C(d.op, without_minus_zero(x), without_minus_zero(y), out_idx=d.one(*INDEX))


@spec("Where")
def where(d):
    return C(d.op, d.values(d.dtype(), d.shape(), low=-1, high=1))


# ---- blocks ----


def blocked(d):
    n = d.int(1, 3)
    return n, [d.int(1, 3) for _ in range(n)], d.shape(max_rank=2, max_dim=3)


@spec("SpaceToBatchND")
def space_to_batch(d):
    n, block, rest = blocked(d)
    pads = d.rng.integers(0, 3, (n, 2))
    space = [b * d.int(1, 3) - int(p.sum()) if d.chance(0.95) else 1 for b, p in zip(block, pads)]
    space = [s if s >= 0 else s + b * -(s // b) for s, b in zip(space, block)]
    if d.chance(0.04):
        pads[0, 0] = -1
    return C(d.op, d.values(any_dtype(d), (d.dim(3), *space, *rest)), constant(ints(block, index_type(d))), constant(pads.astype(index_type(d))))


@spec("BatchToSpaceND")
def batch_to_space(d):
    n, block, rest = blocked(d)
    space = [d.int(1, 3) for _ in range(n)]
    crops = np.array([[d.int(0, s * b // 2) for _ in range(2)] for s, b in zip(space, block)])
    if d.chance(0.05):
        crops[0, 0] = d.one(-1, 20)
    batch = int(np.prod(block)) * d.int(1, 2) + (1 if d.chance(0.04) else 0)
    return C(d.op, d.values(any_dtype(d), (batch, *space, *rest)), constant(ints(block, index_type(d))), constant(crops.astype(index_type(d))))


@spec("SpaceToDepth", "DepthToSpace")
def space_to_depth(d):
    b = d.int(2, 3)
    up = d.op == "DepthToSpace"
    h, w, c = (d.int(1, 3) for _ in range(3))
    shape = (d.dim(3), h, w, c * b * b) if up else (d.dim(3), h * b, w * b, c)
    if d.chance(0.06):
        shape = (*shape[:-1], shape[-1] + 1) if up else (shape[0], shape[1] + 1, *shape[2:])
    return C(d.op, d.values(any_dtype(d), shape), block_size=b, data_format="NHWC")


@spec("Bitcast")
def bitcast(d):
    dtype = d.one(*[t for t in ALL_DTYPES if t not in (tf.string, tf.bool)])
    to = d.one(*[t for t in ALL_DTYPES if t not in (tf.string, tf.bool)])
    shape = d.shape(max_rank=3)
    if to.size > dtype.size and d.chance(0.9):
        shape = (*shape, to.size // dtype.size)
    return C(d.op, d.values(dtype, shape, special=0), type=to)


# ---- diagonals ----


def diagonal_bounds(d, rows, columns):
    low = d.int(-rows + 1, columns - 1) if rows > 0 and columns > 0 else 0
    high = d.int(low, columns - 1) if columns > low else low
    if d.chance(0.5):
        high = low
    if d.chance(0.04):
        low, high = d.one((high + 1, low), (rows + columns, rows + columns), (-9, -9))
    return low, high


def width_of(low, high, rows, columns):
    """The longest diagonal between two."""
    return min(rows + min(high, 0), columns - max(low, 0))


def alignment(d):
    return {"align": d.one("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")} if d.op.endswith("V3") else {}


def bounds_input(d, low, high):
    return np.int32(low) if low == high and d.chance(0.5) else ints([low, high])


@spec("MatrixDiag", "BatchMatrixDiag")
def matrix_diag(d):
    return C(d.op, d.values(any_dtype(d), d.shape(min_rank=1 if d.chance(0.97) else 0, max_rank=3)))


@spec("MatrixDiagPart", "BatchMatrixDiagPart")
def matrix_diag_part(d):
    return C(d.op, d.values(any_dtype(d), d.shape(min_rank=2 if d.chance(0.97) else 0, max_rank=4)))


@spec("MatrixSetDiag", "BatchMatrixSetDiag")
def matrix_set_diag(d):
    shape, dtype = d.shape(min_rank=2 if d.chance(0.97) else 1, max_rank=4), any_dtype(d)
    diagonal = (*shape[:-2], min(shape[-2:])) if d.chance(0.95) else d.shape(min_rank=1)
    return C(d.op, d.values(dtype, shape), d.values(dtype, diagonal))


@spec("MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part_v2(d):
    shape, dtype = d.shape(min_rank=2, max_rank=4, zero=0.03), any_dtype(d)
    low, high = diagonal_bounds(d, *shape[-2:])
    return C(d.op, d.values(dtype, shape), bounds_input(d, low, high), d.values(dtype), **alignment(d))


@spec("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_v2(d):
    shape, dtype = d.shape(min_rank=2, max_rank=4, zero=0.03), any_dtype(d)
    low, high = diagonal_bounds(d, *shape[-2:])
    width = max(width_of(low, high, *shape[-2:]), 0)
    diagonal = (*shape[:-2], *([high - low + 1] if high > low else []), width)
    if d.chance(0.04):
        diagonal = tuple(n + d.int(0, 1) for n in diagonal)  # of another rank TensorFlow's process ends
    return C(d.op, constant(d.values(dtype, shape)), d.values(dtype, diagonal), bounds_input(d, low, high), **alignment(d))


@spec("MatrixDiagV2", "MatrixDiagV3")
def matrix_diag_v2(d):
    dtype = any_dtype(d)
    rows, columns = d.int(1, 5), d.int(1, 5)
    low, high = diagonal_bounds(d, rows, columns)
    width = max(width_of(low, high, rows, columns), 1)
    diagonal = (*d.shape(max_rank=2), *([max(high - low + 1, 1)] if high > low else []), width)
    given = [np.int32(n) if d.chance(0.6) else np.int32(-1) for n in (rows, columns)]
    return C(d.op, constant(d.values(dtype, diagonal)), bounds_input(d, low, high), *given, d.values(dtype), **alignment(d))
