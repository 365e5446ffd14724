"""Specs of sparse tensors and matrices: ops/sparse.def.

A shape whose number of elements overflows ends TensorFlow's process in some kernels, as do coordinates outside in
those that trust them: such cases are drawn only where TensorFlow answers. Its strong hash of dense columns reads
where their key is not aligned, which ends it, too.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C
from support import ALL_DTYPES, v1

HUGE = 2**62


def coordinates(d, shape, n, ordered=0.85, repeated=0.1):
    """n or fewer coordinates of elements, in order, or not, or with repetitions."""
    size = int(np.prod(shape, dtype=object)) if 0 not in shape else 0
    n = min(n, size)
    flat = d.rng.choice(size, n, replace=False) if n else np.zeros(0, np.int64)
    if d.chance(ordered):
        flat = np.sort(flat)
    if n and d.chance(repeated):
        flat[d.int(0, n - 1)] = flat[d.int(0, n - 1)]
    if not shape:
        return np.zeros((n, 0), np.int64)
    return np.stack(np.unravel_index(flat.astype(np.int64), shape), 1).astype(np.int64).reshape(n, len(shape))


def spoil(d, indices, values, shape, outside=True, sizes=True):
    """One thing wrong with a sparse tensor: no coordinates outside, no negative sizes, where TensorFlow would crash."""
    what = d.int(0, 9)
    n, rank = indices.shape
    if what == 0 and n and rank and outside:
        indices = indices.copy()
        indices[d.int(0, n - 1), d.int(0, rank - 1)] = d.one(-1, 7, 100, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    elif what == 1:
        values = values.reshape(-1, 1)
    elif what == 2:
        values = np.concatenate([values, values[:1] if n else d.values(tf.as_dtype(values.dtype) if values.dtype != object else tf.string, (1,))])
    elif what == 3:
        shape = np.append(shape, 3).astype(np.int64)
    elif what == 4:
        indices = indices.reshape(-1)
    elif what == 5 and rank:
        shape = shape[1:]
    elif what == 6:
        shape = shape.reshape(1, -1)
    elif what == 7:
        values = values.reshape(()) if values.size == 1 else values[:-1]
    elif what == 8 and rank and sizes:
        shape = shape.copy()
        shape[d.int(0, rank - 1)] = d.one(-1, 0)
    elif what == 9:
        indices = indices.reshape(n, rank, 1)
    return indices, values, shape


def sparse(d, dtype, shape=None, wrong=0.1, ordered=0.85, repeated=0.1, outside=True, sizes=True, min_rank=1, max_rank=4, max_n=8, max_dim=5, **of_values):
    """Indices, values, shape."""
    shape = d.shape(min_rank, max_rank, max_dim) if shape is None else tuple(shape)
    indices = coordinates(d, shape, d.int(0, max_n), ordered, repeated)
    values = d.values(dtype, (len(indices),), **of_values)
    parts = indices, values, np.asarray(shape, np.int64)
    return spoil(d, *parts, outside, sizes) if d.chance(wrong) else parts


@spec("SparseToDense")
def to_dense(d):
    dtype, index = d.dtype(), d.one(np.int32, np.int64)
    indices, values, shape = sparse(d, dtype)
    if indices.ndim == 2 and indices.shape[1] == 1 and d.chance(0.5):
        indices = indices.reshape(-1)
        if indices.size == 1 and d.chance(0.5):
            indices = indices.reshape(())
    if d.chance(0.15):
        values = d.values(dtype)
    if d.chance(0.03):
        shape = np.asarray([HUGE] * max(2, len(shape)) if shape.ndim else HUGE, np.int64)
    default = d.values(dtype, () if d.chance(0.95) else (1,))
    info = np.iinfo(index)
    return C(d.op, np.clip(indices, info.min, info.max).astype(index), np.clip(shape, info.min, info.max).astype(index), values, default, validate_indices=d.chance(0.7))


@spec("SparseReshape")
def reshape(d):
    shape = d.shape(0, 4, 6)
    size = int(np.prod(shape))
    indices, _, old = sparse(d, tf.float32, shape)
    new, left = [], size
    for _ in range(d.int(0, 3)):
        divisors = [k for k in range(1, left + 1) if left % k == 0] or [0]
        new.append(d.one(*divisors))
        left = left // new[-1] if new[-1] else 0
    new.append(left)
    if d.chance(0.4):
        new[d.int(0, len(new) - 1)] = -1
    if d.chance(0.15):
        new[d.int(0, len(new) - 1)] = d.one(-1, -2, 7, 0, HUGE)
    if d.chance(0.05):
        old = np.asarray([HUGE] * max(1, d.int(1, 3)), np.int64)
    if d.chance(0.05):
        new = [new]
    return C(d.op, indices, old, np.asarray(new, np.int64))


@spec("SparseReorder")
def reorder(d):
    dtype = d.dtype()
    indices, values, shape = sparse(d, dtype, ordered=0.3, repeated=0.0, wrong=0.15, min_rank=0)
    if d.chance(0.05):
        shape = np.asarray([HUGE] * len(shape), np.int64) if shape.ndim == 1 else shape
    return C(d.op, indices, values, shape)


@spec("SparseFillEmptyRows")
def fill_empty_rows(d):
    dtype = d.dtype()
    indices, values, shape = sparse(d, dtype, ordered=0.7)
    if d.chance(0.03) and shape.ndim == 1 and shape.size:
        shape = shape.copy()
        shape[0] = d.one(-1, HUGE)
    return C(d.op, indices, values, shape, d.values(dtype, () if d.chance(0.95) else (1,)))


@spec("SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad")
def fill_empty_rows_grad(d):
    dtype, n = d.dtype(), d.int(0, 8)
    index = d.indices(n, (d.int(0, 6),), tf.int64)
    if d.chance(0.05):
        index = index.reshape(-1, 1)
    return C(d.op, index, d.values(dtype, (n,) if d.chance(0.95) else (n, 1)))


@spec("RaggedFillEmptyRows")
def ragged_fill_empty_rows(d):
    dtype, rows, n = d.dtype(), d.int(0, 6), d.int(0, 8)
    index = d.indices(rows, (n,), tf.int64)
    if d.chance(0.7):
        index = np.sort(index)
    values = d.values(dtype, (n + d.chance(0.04),))
    if d.chance(0.03):
        values = values.reshape(-1, 1)
    if d.chance(0.03):
        index = index.reshape(-1, 1)
    rows = np.asarray(rows if d.chance(0.97) else d.one(-1, HUGE), np.int64)
    return C(d.op, index, values, rows if d.chance(0.95) else rows.reshape(1), d.values(dtype, () if d.chance(0.95) else (1,)))


@spec("SparseTensorDenseMatMul")
def dense_matmul(d):
    dtype, index = d.dtype(), d.one(np.int32, np.int64)
    m, k, n = d.dim(6), d.dim(6), d.dim(40) if d.chance(0.3) else d.dim(6)
    adjoint_a, adjoint_b = d.chance(0.4), d.chance(0.4)
    indices, values, shape = sparse(d, dtype, (k, m) if adjoint_a else (m, k), special=0.05, sizes=False)
    if d.chance(0.05):
        k += 1
    b = d.values(dtype, (n, k) if adjoint_b else (k, n), special=0.05)
    if d.chance(0.04):
        b = b.reshape(-1)
    if d.chance(0.03) and shape.shape == (2,):
        shape = shape.copy()
        shape[0 if adjoint_a else 1] = d.one(-1, HUGE)
    info = np.iinfo(index)
    return C(d.op, np.clip(indices, info.min, info.max).astype(index), values, shape, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


@spec("SparseTensorDenseAdd")
def tensor_dense_add(d):
    dtype, index = d.dtype(), d.one(np.int32, np.int64)
    shape = d.shape(1, 4)
    indices, values, dims = sparse(d, dtype, shape, ordered=0.5)
    if d.chance(0.05):
        shape = d.shape(1, 4)
    info = np.iinfo(index)
    return C(d.op, np.clip(indices, info.min, info.max).astype(index), values, np.clip(dims, info.min, info.max).astype(index), d.values(dtype, shape))


def pair(d, dtype, wrong=0.1, **more):
    """Two sparse tensors of one shape, mostly."""
    shape = d.shape(1, 4, 4)
    a = sparse(d, dtype, shape, wrong=wrong / 2, ordered=0.95, repeated=0.05, **more)
    b = sparse(d, dtype, d.shape(1, 4, 4) if d.chance(0.04) else shape, wrong=wrong / 2, ordered=0.95, repeated=0.05, **more)
    if d.chance(0.2) and a[0].ndim == 2:
        b = a[0], d.values(dtype, a[1].shape), b[2]
    return a, b


@spec("SparseAdd")
def add(d):
    dtype = d.dtype()
    a, b = pair(d, dtype)
    real = {tf.complex64: tf.float32, tf.complex128: tf.float64}.get(dtype, dtype)
    threshold = d.values(real, low=0, high=4) if d.chance(0.7) else d.values(real, () if d.chance(0.9) else (1,))
    return C(d.op, *a, *b, threshold)


@spec("SparseAddGrad")
def add_grad(d):
    dtype = d.dtype()
    shape = d.shape(1, 3, 3)
    a, b = (coordinates(d, shape, d.int(0, 6), 0.95, 0.05) for _ in range(2))
    total = np.unique(np.concatenate([a, b]), axis=0)
    total = total[d.rng.random(len(total)) < 0.8]
    dy = d.values(dtype, (len(total) + d.chance(0.05),))
    if d.chance(0.04):
        total = total.reshape(-1)
    if d.chance(0.04):
        dy = dy.reshape(-1, 1)
    if d.chance(0.04):
        a = np.concatenate([a, a], 1)
    return C(d.op, dy, a, b, total)


@spec("SparseSparseMaximum", "SparseSparseMinimum")
def of_two(d):
    a, b = pair(d, d.dtype(), special=0.0)
    return C(d.op, *a, *b)


@spec("SparseConcat")
def concat(d):
    dtype, shape, n = d.dtype(), list(d.shape(1, 4, 4)), d.int(2, 4)
    axis = d.axis(len(shape))
    parts = []
    for _ in range(n):
        if -len(shape) <= axis < len(shape):
            shape[axis] = d.dim(4)
        if d.chance(0.02):
            shape[0] += 1
        parts.append(sparse(d, dtype, shape, repeated=0.0, wrong=0.03, outside=False))
    return C(d.op, *([p[k] for p in parts] for k in range(3)), concat_dim=axis)


@spec("SparseSplit")
def split(d):
    dtype, shape = d.dtype(), d.shape(1, 4, 8)
    axis = d.axis(len(shape))
    num = d.int(1, shape[axis]) if -len(shape) <= axis < len(shape) and shape[axis] and d.chance(0.9) else d.int(1, 9)
    return C(d.op, np.asarray(axis if d.chance(0.97) else [axis], np.int64), *sparse(d, dtype, shape), num_split=num)


@spec("SparseSlice")
def cut(d):
    dtype, shape = d.dtype(), d.shape(1, 4, 8)
    start = np.asarray([d.int(0, s) for s in shape], np.int64)
    size = np.asarray([d.int(0, s) for s in shape], np.int64)
    if d.chance(0.15):
        start[d.int(0, len(shape) - 1)] = d.one(-1, -5, 100, HUGE, np.iinfo(np.int64).max)
    if d.chance(0.15):
        size[d.int(0, len(shape) - 1)] = d.one(-1, -5, 100, HUGE)
    if d.chance(0.03):
        start = start[1:]
    if d.chance(0.03):
        size = size.reshape(1, -1)
    return C(d.op, *sparse(d, dtype, shape), start, size)


@spec("SparseSliceGrad")
def cut_grad(d):
    dtype, shape = d.dtype(), d.shape(1, 3, 4)
    index = coordinates(d, shape, d.int(0, 8), 1.0, 0.0)
    start = np.asarray([d.int(0, 1) for _ in shape], np.int64)
    out = index[np.all(index >= start, axis=1)] - start
    if d.chance(0.1) and len(out):
        out = out.copy()
        out[d.int(0, len(out) - 1), 0] += d.one(1, -1, 7)
    if d.chance(0.04):
        start = start[1:]
    dy = d.values(dtype, (len(out) + d.chance(0.04),))
    if d.chance(0.03):
        out = out.reshape(-1)
    if d.chance(0.03):
        dy = dy.reshape(-1, 1)
    return C(d.op, dy, index, start, out)


@spec("SparseSoftmax")
def softmax(d):
    return C(d.op, *sparse(d, d.dtype(), d.shape(2 if d.chance(0.95) else 1, 4), repeated=0.0, special=0.0, sizes=False))


@spec("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse")
def reduce(d):
    dtype, shape = d.dtype(), d.shape(1, 4)
    axes = [d.axis(len(shape), 0.02) for _ in range(d.int(0, len(shape) + 1))]
    if d.chance(0.2):
        axes = axes[0] if axes else 0
    special = 0.0 if "Max" in d.op or dtype.is_complex else 0.15
    axes = np.asarray(axes, np.int32) if d.chance(0.97) else np.asarray([[0]], np.int32)
    return C(d.op, *sparse(d, dtype, shape, special=special, repeated=0.05), axes, keep_dims=d.chance(0.4))


@spec("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def cwise(d):
    dtype, shape = d.dtype(), d.shape(1 if d.chance(0.97) else 0, 5 if d.chance(0.95) else 6)
    dense = tuple(1 if d.chance(0.25) else s for s in shape)[d.int(0, len(shape)) if d.chance(0.4) else 0 :]
    if d.chance(0.08):
        dense = d.shape(0, 4)
    values = d.values(dtype, dense)
    special = 0.15
    if d.op.endswith("Div") and dtype.is_integer:  # the lowest number by -1 ends TensorFlow's process
        special = 0.0
        if d.chance(0.6):
            values = np.where(values == 0, 1, values).astype(values.dtype)
    return C(d.op, *sparse(d, dtype, shape, special=special), values)


def segments(d, least=0):
    """Data, indices, ids in ascending order, and how many segments."""
    dtype, shape = d.dtype(), d.shape(1, 3, 5)
    index, ids = d.dtype("Tidx"), d.dtype("Tsegmentids")
    least = max(least, int(dtype.is_floating))  # of floats there is one: the gradient of none is what TensorFlow finds in memory
    n, num = d.int(least, 12), d.int(1, 6)
    values = np.sort(d.rng.integers(0, num, n)).astype(ids.as_numpy_dtype)
    if d.chance(0.06) and n:
        values[d.int(0, n - 1)] = d.one(-1, num, num + 5)
    indices = d.indices(shape[0], (n + d.chance(0.03),), index, wrong=0.04)
    return d.values(dtype, shape, special=0.05), indices, values, num


@spec("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def segment(d):
    return C(d.op, *segments(d)[:3])


@spec("SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments")
def sized_segment(d):
    data, indices, ids, num = segments(d)
    num = np.asarray(d.one(num, num, num, num + 3, num - 1, -1) if d.chance(0.95) else [num], d.dtype("Tnumsegments").as_numpy_dtype)
    return C(d.op, data, indices, ids, num, sparse_gradient=d.chance(0.3))


@spec("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGradV2", "SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2")
def segment_grad(d):
    rows, (grad, _, ids, num) = d.int(1, 8), segments(d, least=1)  # of none TensorFlow leaves the result as it finds it
    grad = d.values(tf.as_dtype(grad.dtype), (num, *grad.shape[1:]), special=0.05)
    indices = d.indices(rows, ids.shape, d.dtype("Tidx"), wrong=0.04)
    return C(d.op, grad, indices, ids, np.asarray(rows if d.chance(0.95) else d.one(-1, 0), np.int32))


@spec("SparseBincount")
def bincount(d):
    index, dtype = d.dtype("Tidx").as_numpy_dtype, d.dtype()
    indices, values, shape = sparse(d, tf.as_dtype(index), d.shape(1, 3, 4), low=0, high=8, special=0.0, sizes=False)
    if values.size and indices.ndim == 2 and indices.shape[1] == 1 and d.chance(0.05):  # in a matrix TensorFlow trusts them
        values = values.copy()
        values.flat[d.int(0, values.size - 1)] = d.one(-1, np.iinfo(index).max)
    weights = d.values(dtype, values.shape) if d.chance(0.6) else d.values(dtype, (0,))
    size = np.asarray(d.int(0, 9) if d.chance(0.95) else -1, index)
    return C(d.op, indices, values, shape, size if d.chance(0.97) else size.reshape(1), weights, binary_output=d.chance(0.3))


@spec("SparseCountSparseOutput", "DenseCountSparseOutput")
def count(d):
    dtype, out = d.dtype(), d.dtype("output_type")
    attrs = dict(minlength=d.one(-1, 0, 4, 20), maxlength=d.one(-1, 0, 4, 20), binary_output=d.chance(0.3))
    low = -1 if d.chance(0.05) else 0
    if d.op == "DenseCountSparseOutput":
        data = [d.values(dtype, d.shape(1, 2) if d.chance(0.95) else d.shape(0, 3), low, 8, special=0.03)]
    else:
        data = list(sparse(d, dtype, d.shape(1, 3, 4), low=low, high=8, special=0.03))
    values = data[0] if len(data) == 1 else data[1]
    weights = d.values(out, values.shape if d.chance(0.95) else (3,)) if d.chance(0.6) else d.values(out, (0,))
    return C(d.op, *data, weights, **attrs)


@spec("SparseMatMul")
def hinted_matmul(d):
    a_type, b_type = d.dtype("Ta"), d.dtype("Tb")
    transpose_a, transpose_b, a_sparse, b_sparse = (d.chance(0.5) for _ in range(4))
    zero = 0.0 if a_sparse or b_sparse else 0.1  # blocks without rows are no blocks
    m, n, k = d.dim(40, zero), d.dim(40, zero), d.dim(40, 0.1)

    def operand(dtype, shape, transposed):
        values = d.values(dtype, shape, special=0.05)
        values = np.where(d.rng.random(shape) < 0.4, values, np.zeros((), values.dtype))
        return values.T.copy() if transposed else values

    a, b = operand(a_type, (m, k), transpose_a), operand(b_type, (k + d.chance(0.04), n), transpose_b)
    if d.chance(0.03):
        a = a.reshape(1, *a.shape)
    if d.chance(0.03):
        b = b.reshape(-1)
    return C(d.op, a, b, transpose_a=transpose_a, transpose_b=transpose_b, a_is_sparse=a_sparse, b_is_sparse=b_sparse, atol=1e-4)


# ---- sets ----


def operation(d):
    return d.one("a-b", "b-a", "intersection", "union", "a-B", "Union") if d.chance(0.97) else "xor"


def set_values(d, dtype, shape):
    return d.texts(shape, ["", "a", "b", "ab", b"\xff", "q" * 40]) if dtype == tf.string else d.values(dtype, shape, -3, 3, special=0.1)


def set_shape(d):
    return d.shape(2, 4, 4) if d.chance(0.95) else d.shape(0, 2)


def dense_set(d, dtype, shape):
    shape = (*shape[:-1], d.dim(5)) if shape else ()
    if d.chance(0.04):
        shape = set_shape(d)
    return set_values(d, dtype, shape)


def sparse_set(d, dtype, shape, validates):
    """Coordinates below 0 that nothing validates are places outside of the memory of SetSize."""
    shape = (*shape[:-1], d.dim(5)) if shape else ()
    indices = coordinates(d, shape, d.int(0, 8), 0.9, 0.05)
    parts = indices, set_values(d, dtype, (len(indices),)), np.asarray(shape, np.int64)
    return spoil(d, *parts, outside=validates, sizes=validates) if d.chance(0.1) else parts


@spec("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")
def set_operation(d):
    dtype, shape, validates = d.dtype(), set_shape(d), d.chance(0.7)
    other = shape if d.chance(0.95) else set_shape(d)
    a = [dense_set(d, dtype, shape)] if d.op.startswith("Dense") else sparse_set(d, dtype, shape, validates)
    b = [dense_set(d, dtype, other)] if d.op.startswith("DenseToDense") else sparse_set(d, dtype, other, validates)
    return C(d.op, *a, *b, set_operation=operation(d), validate_indices=validates)


@spec("SetSize")
def set_size(d):
    validates = d.chance(0.7)
    return C(d.op, *sparse_set(d, d.dtype(), set_shape(d), validates), validate_indices=validates)


# ---- serialized, and in maps ----


def bare(d, dtype, shape=None, wrong=0.1, **more):
    """A sparse tensor without the sizes and coordinates that TensorFlow looks at nowhere."""
    return sparse(d, dtype, shape, wrong=wrong, repeated=0.0, **more)


@spec("SerializeSparse")
def serialize(d):
    """To strings, or to variants and back."""
    if d.chance(0.5):
        return C(d.op, *bare(d, d.one(*ALL_DTYPES), min_rank=0))
    return Chain(d.op, *variant_round(d, d.one(tf.float32, tf.int64, tf.string)))


@spec("SerializeManySparse")
def serialize_many(d):
    return C(d.op, *sparse(d, d.dtype(), d.shape(2 if d.chance(0.95) else 1, 4), sizes=False))


def protos_of(d, indices, values, shape):
    """Three strings; now and then one of them is no tensor."""
    texts = [tf.make_tensor_proto(part).SerializeToString() for part in (indices, values, shape)]
    if d.chance(0.04):
        i = d.int(0, 2)
        texts[i] = d.one(b"", b"\xff", texts[i][:-1], texts[(i + 1) % 3])
    return texts


@spec("DeserializeSparse", "DeserializeManySparse")
def deserialize(d):
    dtype = d.one(tf.float32, tf.int64, tf.string, tf.bool, tf.complex64, tf.int8)
    many = d.op == "DeserializeManySparse"
    leads = (d.dim(4),) if many else d.shape(0, 2, 3)
    rank, rows = d.int(1, 3), []
    for _ in range(int(np.prod(leads, dtype=int))):
        shape = d.shape(rank, rank, 4) if d.chance(0.98) else d.shape(1, 3)
        rows.append(protos_of(d, *bare(d, dtype, shape, wrong=0.03, outside=False, sizes=False)))
    text = np.empty((len(rows), 3), object)
    for i, row in enumerate(rows):
        text[i] = row
    text = text.reshape(*leads, 3)
    if d.chance(0.03):
        text = text[..., :2]
    wanted = dtype if d.chance(0.97) else tf.float64
    return C(d.op, text, dtype=wanted)


@spec("AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap")
def tensors_map(d):
    """Tensors go into a map, in several steps, and come out in an order of their own."""
    dtype, rank, many = d.one(tf.float32, tf.int64, tf.string, tf.complex128), d.int(1, 3), d.chance(0.5)
    added = []
    for _ in range(d.int(1, 3)):
        shape = d.shape(rank + many, rank + many, 4)
        added.append(bare(d, dtype, shape, wrong=0.08, outside=many, sizes=False))
    taken = [d.rng.integers(0, 6, d.dim(4)).astype(np.int64) for _ in range(d.int(1, 3))]
    name, raw = f"map{d.number}{d.op}", tf.raw_ops

    def build():
        add = raw.AddManySparseToTensorsMap if many else raw.AddSparseToTensorsMap
        parts = [v1.placeholder(t) for t in (tf.int64, dtype, tf.int64)]
        handles = add(sparse_indices=parts[0], sparse_values=parts[1], sparse_shape=parts[2], shared_name=name)
        which = v1.placeholder(tf.int64)
        out = raw.TakeManySparseFromTensorsMap(sparse_handles=which, dtype=dtype, shared_name=name)
        steps = [(handles, dict(zip(parts, values))) for values in added]
        return steps + [(list(out), {which: numbers}) for numbers in taken]

    return Program(d.op, build)


class Chain:
    """A case of several ops, for those whose operands are variants: fed with what `feeds` has; build_outputs makes
    of the placeholders what is fetched."""

    has_gradient = True
    gradient_tolerance = None

    def __init__(self, op, feeds, build_outputs, rtol=None, atol=None):
        self.op, self.inputs, self.attrs = op, feeds, {}
        self.name, self.rtol, self.atol = op, rtol, atol
        self.build_outputs = build_outputs

    def build(self):
        ports = [v1.placeholder(tf.string if v.dtype == object else v.dtype) for v in self.inputs]
        outs = self.build_outputs(*ports)
        return list(outs), dict(zip(ports, self.inputs))


def variant_round(d, dtype):
    """SerializeSparse and DeserializeSparse by way of variants."""
    leads = d.shape(0, 2, 3, 0.0)
    count = int(np.prod(leads, dtype=int))
    rank, shared = d.int(1, 3), d.chance(0.5)
    parts = [bare(d, dtype, d.shape(rank, rank, 4, 0.0), wrong=0.0) for _ in range(1 if shared else count)]

    def build(*ports):
        rows = [tf.raw_ops.SerializeSparse(sparse_indices=ports[3 * i], sparse_values=ports[3 * i + 1], sparse_shape=ports[3 * i + 2], out_type=tf.variant) for i in range(len(ports) // 3)]
        rows = rows * count if shared else rows
        box = tf.reshape(tf.stack(rows) if count > 1 else rows[0], (*leads, 3))
        return tf.raw_ops.DeserializeSparse(serialized_sparse=box, dtype=dtype)

    return [p for part in parts for p in part], build


# ---- matrices in compressed rows ----


def csr_shape(d, zero=0.0):
    return d.shape(2, 3, 5, zero)


def csr(port, shape, indices):
    """The variant of a placeholder's elements; its shape is known whatever the placeholder's is."""
    return tf.raw_ops.DenseToCSRSparseMatrix(dense_input=tf.reshape(port, shape), indices=indices)


def csr_operand(d, dtype, shape, special=0.0):
    """A dense array and which of its elements are in the matrix, in order."""
    picked = d.rng.random(shape) < d.one(0.0, 0.3, 0.5, 1.0)
    return d.values(dtype, shape, special=special), np.argwhere(picked).astype(np.int64).reshape(-1, len(shape))


@spec("DenseToCSRSparseMatrix", "CSRSparseMatrixToDense", "CSRSparseMatrixToSparseTensor", "SparseMatrixNNZ", "CSRSparseMatrixComponents", "SparseMatrixTranspose")
def csr_parts(d):
    dtype, shape = d.one(tf.float32, tf.float64, tf.complex64, tf.complex128), csr_shape(d, 0.05)
    dense, indices = csr_operand(d, dtype, shape, 0.1)
    if d.chance(0.05) and len(indices):
        indices[d.int(0, len(indices) - 1), -1] = d.one(7, -1)
    index, conjugate = d.int(0, shape[0] - 1 if len(shape) == 3 and shape[0] else 0), d.chance(0.5)
    if d.chance(0.05):
        index = d.one(-1, 9)

    def build(port):
        m, raw = csr(port, shape, indices), tf.raw_ops
        if d.op == "SparseMatrixNNZ":
            return [raw.SparseMatrixNNZ(sparse_matrix=m)]
        if d.op == "CSRSparseMatrixComponents":
            return raw.CSRSparseMatrixComponents(csr_sparse_matrix=m, index=index, type=dtype)
        if d.op == "CSRSparseMatrixToSparseTensor":
            return raw.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=dtype)
        if d.op == "SparseMatrixTranspose":
            m = raw.SparseMatrixTranspose(input=m, conjugate=conjugate, type=dtype)
        return [raw.CSRSparseMatrixToDense(sparse_input=m, type=dtype)]

    return Chain(d.op, [dense], build)


@spec("SparseTensorToCSRSparseMatrix")
def sparse_to_csr(d):
    dtype, shape = d.dtype(), csr_shape(d, 0.05)
    indices, values, dims = sparse(d, dtype, shape, wrong=0.05, ordered=1.0, repeated=0.0, sizes=False)
    if indices.ndim != 2 or values.ndim != 1 or dims.ndim != 1 or len(indices) != len(values) or indices.shape[1] != len(dims):
        indices, values, dims = indices.reshape(-1, len(shape))[:0], values.reshape(-1)[:0], np.asarray(shape, np.int64)

    def build(i, v):
        fixed = tf.reshape(i, (-1, len(shape)))
        m = tf.raw_ops.SparseTensorToCSRSparseMatrix(indices=fixed, values=tf.reshape(v, (-1,)), dense_shape=tf.constant(dims))
        return [tf.raw_ops.CSRSparseMatrixToDense(sparse_input=m, type=dtype), *tf.raw_ops.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=dtype)]

    return Chain(d.op, [indices, values], build)


def matmul_flags(d, letter):
    return d.one({}, {f"transpose_{letter}": True}, {f"adjoint_{letter}": True})


def operand_shape(batch, rows, columns, flags):
    return (*batch, columns, rows) if flags else (*batch, rows, columns)


@spec("SparseMatrixMatMul", "SparseMatrixSparseMatMul")
def csr_matmul(d):
    dtype, batch = d.one(tf.float32, tf.float64, tf.complex64, tf.complex128), d.shape(0, 1, 3, 0.0)
    m, k, n = d.int(1, 6), d.int(1, 6), d.int(1, 6)
    of_a, of_b = matmul_flags(d, "a"), matmul_flags(d, "b")
    a_shape, b_shape = operand_shape(batch, m, k, of_a), operand_shape(batch, k, n, of_b)
    a, a_indices = csr_operand(d, dtype, a_shape)
    b, b_indices = csr_operand(d, dtype, b_shape)
    output = dict(transpose_output=d.chance(0.3), conjugate_output=d.chance(0.3))

    def build(pa, pb):
        raw, left = tf.raw_ops, csr(pa, a_shape, a_indices)
        if d.op == "SparseMatrixMatMul":
            return [raw.SparseMatrixMatMul(a=left, b=tf.reshape(pb, b_shape), **of_a, **of_b, **output)]
        product = raw.SparseMatrixSparseMatMul(a=left, b=csr(pb, b_shape, b_indices), type=dtype, **of_a, **of_b)
        return [raw.CSRSparseMatrixToDense(sparse_input=product, type=dtype), raw.SparseMatrixNNZ(sparse_matrix=product)]

    return Chain(d.op, [a, b], build)


# ---- crosses ----


def cross_column(d, of_text):
    """Values of a column: strings or int64s."""
    if d.chance(of_text):
        return lambda n: d.texts(n, ["", "a", "bc", b"\xff\x00", "x" * 30])
    return lambda n: d.values(tf.int64, n, special=0.1)


def cross_inputs(d, of_text):
    """Indices, values, shapes of sparse columns; dense columns."""
    rows = d.dim(4, 0.1)
    indices, values, shapes, dense = [], [], [], []
    for _ in range(d.int(0, 2)):
        shape = (rows if d.chance(0.98) else 2, d.int(1, 4))
        part = sparse(d, tf.int64, shape, wrong=0.03, repeated=0.05, sizes=False)
        indices.append(part[0])
        values.append(cross_column(d, of_text)(part[1].shape))
        shapes.append(part[2])
    for _ in range(d.int(0 if indices else 1, 2)):
        shape = (rows if d.chance(0.98) else 3, d.dim(3, 0.1)) if d.chance(0.97) else (rows,)
        dense.append(cross_column(d, of_text)(shape))
    return indices, values, shapes, dense


@spec("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def cross(d):
    of_text = d.one(0.5, 1.0)
    indices, values, shapes, dense = cross_inputs(d, of_text)
    inputs = [indices, values, shapes, dense]
    if d.op == "SparseCrossV2":
        return C(d.op, *inputs, np.asarray(d.one("_X_", "", "*"), object) if d.chance(0.97) else np.asarray(["_"], object))
    if d.op == "SparseCrossHashed":
        salt = d.values(tf.int64, (2,) if d.chance(0.97) else (3,), special=0.3)
        return C(d.op, *inputs, np.asarray(d.one(0, 1, 10, 2**40, -3), np.int64), np.asarray(not dense and d.chance(0.6)), salt)
    out = d.one(tf.int64, tf.string)
    inner = tf.string if of_text == 1.0 and d.chance(0.9) else tf.int64
    attrs = dict(hashed_output=out == tf.int64, num_buckets=d.one(0, 1, 100), hash_key=d.one(0, 956888297470, -7), out_type=out, internal_type=inner)
    return C(d.op, *inputs, **attrs)


@spec("SparseMatrixSparseCholesky")
def csr_cholesky(d):
    """Symmetric matrices that are positive definite, mostly; only a permutation will do."""
    dtype, batch, n = d.one(tf.float32, tf.float64, tf.complex64, tf.complex128), d.shape(0, 1, 3, 0.0), d.int(1, 7)
    shape = (*batch, n, n)
    part = d.values(dtype, shape, special=0.0)
    picked = d.rng.random(shape) < d.one(0.1, 0.3, 1.0)
    picked = picked | np.swapaxes(picked, -1, -2) | np.eye(n, dtype=bool)
    dense = ((part + np.conj(np.swapaxes(part, -1, -2))) * picked + 12 * n * np.eye(n)).astype(part.dtype)
    if d.chance(0.06):
        dense = (dense - 20 * n * np.eye(n)).astype(part.dtype)
    indices = np.argwhere(picked).astype(np.int64)
    order = np.stack([d.rng.permutation(n) for _ in range(int(np.prod(batch, dtype=int)))]).astype(np.int32).reshape(*batch, n)

    def build(port, p):
        factor = tf.raw_ops.SparseMatrixSparseCholesky(input=csr(port, shape, indices), permutation=tf.reshape(p, order.shape), type=dtype)
        return [tf.raw_ops.CSRSparseMatrixToDense(sparse_input=factor, type=dtype), tf.raw_ops.SparseMatrixNNZ(sparse_matrix=factor)]

    return Chain(d.op, [dense, order], build)


@spec("SparseMatrixOrderingAMD")
def csr_ordering(d):
    """Which of several good orders it is, is the implementation's; in each, every row is there once, and the factor
    of an arrow with its corner first has no fill."""
    batch, n = d.shape(0, 1, 3, 0.0), d.int(1, 12)
    shape = (*batch, n, n)
    dense, indices = csr_operand(d, tf.float32, shape if d.chance(0.95) else (*batch, n, n + 1))
    wide = max(n, 4)  # of smaller ones TensorFlow takes each row for a dense one
    arrow = np.eye(wide, dtype=np.float32) * (wide + 1)
    arrow[0, :] = arrow[:, 0] = wide + 1
    corners = np.argwhere(arrow).astype(np.int64)

    def build(port, other):
        order = tf.raw_ops.SparseMatrixOrderingAMD(input=csr(port, dense.shape, indices))
        m = csr(other, (wide, wide), corners)
        of_arrow = tf.raw_ops.SparseMatrixOrderingAMD(input=m)
        heavy = csr(other + tf.eye(wide) * 2.0 * wide * wide, (wide, wide), corners)
        factor = tf.raw_ops.SparseMatrixSparseCholesky(input=heavy, permutation=of_arrow, type=tf.float32)
        return [tf.sort(order, axis=-1), tf.raw_ops.SparseMatrixNNZ(sparse_matrix=factor)]

    return Chain(d.op, [dense, arrow], build)
