"""Specs of ragged tensors: ops/ragged.def.

Splits that lead TensorFlow outside of its memory are not drawn: that end beyond the values or do not ascend where it
trusts them.
"""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C
from properties.sparse import Chain

HUGE = 2**62


def splits_of(d, rows, total, dtype=np.int64):
    """Row splits of `rows` rows with `total` values."""
    cuts = np.sort(d.rng.integers(0, total + 1, max(rows - 1, 0)))
    return np.concatenate([[0], cuts, [total]] if rows else [[0]]).astype(dtype)


def nested(d, rank, dtype=np.int64, max_rows=4, max_total=8):
    """Nested splits, outermost first, and how many values they need."""
    rows, out = d.dim(max_rows, 0.1), []
    for _ in range(rank):
        total = d.int(0, max_total) if rows else 0
        out.append(splits_of(d, rows, total, dtype))
        rows = total
    return out, rows


def spoiled(d, splits, how=("start", "order", "empty", "end")):
    """One thing wrong with one of them."""
    splits = list(splits)
    i = d.int(0, len(splits) - 1)
    s = splits[i].copy()
    what = d.one(*how)
    if what == "start":
        s[0] = d.one(1, -1)
    elif what == "order" and len(s) > 2:
        s[1] = s[-1] + d.int(1, 3)
    elif what == "empty":
        s = s[:0]
    elif what == "end":
        s[-1] += d.int(3, 9)
    elif what == "rank":
        s = s.reshape(-1, 1)
    splits[i] = s
    return splits


@spec("RaggedRange")
def ragged_range(d):
    dtype, rows = d.dtype(), d.dim(4)
    scalar = [d.chance(0.3) for _ in range(3)]
    shapes = [() if s else (rows + d.chance(0.02),) for s in scalar]
    if d.chance(0.02):
        shapes[d.int(0, 2)] = (1, 1)
    starts, limits, deltas = (d.values(dtype, s, -20, 20, special=0.0) for s in shapes)
    if d.chance(0.9):
        deltas = np.where(deltas == 0, 1, deltas).astype(deltas.dtype)
        if dtype.is_floating:
            deltas = np.where(np.abs(deltas) < 0.05, 0.5, deltas).astype(deltas.dtype)
    if d.chance(0.15):
        part = d.int(0, 2)
        extremes = [np.nan, np.inf, -np.inf, 1e30] if dtype.is_floating else [np.iinfo(dtype.as_numpy_dtype).max // 4, 0]
        which = [starts, limits, deltas][part]
        if which.size and (dtype.is_floating or part == 2):
            which.flat[d.int(0, which.size - 1)] = d.one(*extremes)
    return C(d.op, starts, limits, deltas, Tsplits=d.dtype("Tsplits"))


@spec("RaggedGather")
def gather(d):
    dtype, split, rank = d.dtype("Tvalues"), d.dtype("Tsplits").as_numpy_dtype, d.int(1, 3)
    splits, total = nested(d, rank, split)
    if d.chance(0.1):
        splits = spoiled(d, splits, ("order", "empty", "end") if rank == 1 else ("order", "empty"))
    extra = d.dim(3, 0.0) if d.chance(0.2) else 0
    shape = d.shape(0, 2, 3)
    indices = d.indices(max(len(splits[0]) - 1, 0), d.shape(0, 3, 3), d.dtype("Tindices"))
    values = d.values(dtype, (total + extra, *shape))
    return C(d.op, splits, values, indices, OUTPUT_RAGGED_RANK=max(0, rank + indices.ndim - 1))


@spec("RaggedTensorToSparse")
def to_sparse(d):
    splits, total = nested(d, d.int(1, 3), d.dtype("Tsplits").as_numpy_dtype)
    if d.chance(0.15):
        splits = spoiled(d, splits)
    values = d.values(d.dtype(), (total, *d.shape(0, 2, 3)) if d.chance(0.95) else (total + 1,))
    return C(d.op, splits, values)


@spec("RaggedTensorToTensor")
def to_tensor(d):
    dtype, index, rank = d.dtype(), d.dtype("Tindex").as_numpy_dtype, d.int(1, 3)
    splits, total = nested(d, rank, index)
    inner = d.shape(0, 2, 3)
    parts, types = [], []
    with_ids = d.chance(0.4)
    for i, s in enumerate(splits):
        if with_ids and (i == 0 or d.chance(0.6)):
            if i == 0:
                parts.append(np.asarray(len(s) - 1 if d.chance(0.93) else d.one(0, -3, len(s) + 2), index))
                types.append("FIRST_DIM_SIZE")
            ids = np.repeat(np.arange(len(s) - 1), np.diff(s)).astype(index)
            if ids.size and d.chance(0.05):
                ids[-1] = d.one(-1, len(s) - 1, len(s) + 4)
            parts.append(ids)
            types.append("VALUE_ROWIDS")
        else:
            parts.append(s)
            types.append("ROW_SPLITS")
    if d.chance(0.06):
        i = d.int(0, len(parts) - 1)
        if types[i] == "ROW_SPLITS":
            parts[i] = spoiled(d, [parts[i]], ("start", "empty"))[0]
    if d.chance(0.04):
        types[d.int(0, len(types) - 1)] = d.one("ROW_LENGTHS", "FIRST_DIM_SIZE", "VALUE_ROWIDS", "ELSE")
    widths = [len(splits[0]) - 1] + [int(max(np.diff(s), default=0)) for s in splits]
    shape = [d.one(-1, -1, w, w + 2, max(w - 1, 0)) for w in widths] + [d.one(-1, n) for n in inner]
    if d.chance(0.06):
        shape[d.int(0, len(shape) - 1)] = d.one(-2, 0, 9)
    if d.chance(0.03):
        shape = shape[1:]
    shape = np.asarray(shape if d.chance(0.8) else -1 if d.chance(0.95) else 3, d.dtype("Tshape").as_numpy_dtype)
    # TensorFlow compares the default's dimensions with the values' from the left, and broadcasts them from the right.
    default = d.values(dtype, d.one((), inner, tuple(d.one(1, n) for n in inner)) if d.chance(0.95) else (*inner, 2))
    return C(d.op, shape, d.values(dtype, (total, *inner)), default, parts, row_partition_types=types)


@spec("RaggedBincount")
def bincount(d):
    index, dtype = d.dtype("Tidx").as_numpy_dtype, d.dtype()
    (splits,), total = nested(d, 1)
    if d.chance(0.12):
        (splits,) = spoiled(d, [splits])
    values = d.rng.integers(0, 9, total).astype(index)
    if total and d.chance(0.05):
        values[d.int(0, total - 1)] = d.one(-1, np.iinfo(index).max, np.iinfo(index).min)
    weights = d.values(dtype, (total,)) if d.chance(0.6) else d.values(dtype, (0,))
    size = np.asarray(d.int(0, 9) if d.chance(0.95) else -1, index)
    return C(d.op, splits, values, size if d.chance(0.97) else size.reshape(1), weights, binary_output=d.chance(0.3))


@spec("RaggedCountSparseOutput")
def count(d):
    dtype, out = d.dtype(), d.dtype("output_type")
    (splits,), total = nested(d, 1)
    if d.chance(0.12):
        (splits,) = spoiled(d, [splits], ("start", "order", "end"))
    values = d.rng.integers(0, 9, total).astype(dtype.as_numpy_dtype)
    if total and d.chance(0.05):
        values[d.int(0, total - 1)] = d.one(-1, 10**9)
    weights = d.values(out, (total + d.chance(0.05),)) if d.chance(0.6) else d.values(out, (0,))
    return C(d.op, splits, values, weights, minlength=d.one(-1, 0, 4, 20), maxlength=d.one(-1, 0, 4, 20), binary_output=d.chance(0.3))


@spec("RaggedCross")
def cross(d):
    """Splits of another type than the result's end TensorFlow's process."""
    rows, split = d.dim(4, 0.1), d.one(np.int32, np.int64)
    order, ragged_values, ragged_splits, indices, values, shapes, dense = "", [], [], [], [], [], []

    def column(shape):
        return d.texts(shape, ["", "a", "bc", b"\xff\x00", "x" * 30]) if d.chance(0.5) else d.values(tf.int64, shape, special=0.1)

    for _ in range(d.int(1, 3)):
        kind, n = d.one("R", "S", "D"), rows if d.chance(0.98) else rows + 1
        order += kind
        if kind == "R":
            total = d.int(0, 6) if n else 0
            splits = splits_of(d, n, total, split)
            if d.chance(0.06):
                (splits,) = spoiled(d, [splits], ("start", "order", "end"))
            ragged_values.append(column((total,)))
            ragged_splits.append(splits)
        elif kind == "S":
            flat = np.sort(d.rng.choice(n * 3, d.int(0, min(n * 3, 5)), replace=False)) if n else np.zeros(0, int)
            indices.append(np.stack([flat // 3, flat % 3], 1).astype(np.int64).reshape(-1, 2))
            values.append(column((len(flat),)))
            shapes.append(np.asarray([n, 3], np.int64))
        else:
            dense.append(column((n, d.dim(3, 0.1)) if d.chance(0.97) else (n,)))
    if d.chance(0.04):
        order = d.one(order[:-1], order + "R", "X" * len(order), "R" * len(order))

    return C(
        d.op, ragged_values, ragged_splits, indices, values, shapes, dense,
        input_order=order, hashed_output=True, num_buckets=d.one(0, 1, 100), hash_key=d.one(0, 956888297470, -7),
        out_values_type=d.one(tf.int64, tf.string), out_row_splits_type=tf.as_dtype(split),
    )


@spec("RaggedTensorToVariant", "RaggedTensorFromVariant", "RaggedTensorToVariantGradient")
def variant(d):
    """There and back. A batch of more than one dimension has splits of TensorFlow's own making."""
    dtype, split = d.one(tf.float32, tf.float64, tf.int64, tf.string, tf.complex64), d.one(tf.int32, tf.int64)
    rank = d.int(0, 3)
    batched = rank > 0 and d.chance(0.6)
    splits, total = nested(d, rank, split.as_numpy_dtype)
    values = d.values(dtype, (total if rank else d.dim(4), *d.shape(0, 2, 3, 0.0)), special=0.05)
    ragged = d.one(-1, rank - 1 if batched else rank)
    wanted = split if d.chance(0.97) else tf.int64
    picked = d.rng.integers(0, max(len(splits[0]) - 1, 1), d.shape(1, 2, 3, 0.0)) if batched and d.chance(0.4) and len(splits[0]) > 1 else None

    def build(port, *ports):
        box = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[tf.reshape(p, (-1,)) for p in ports], rt_dense_values=tf.reshape(port, values.shape), batched_input=batched)
        out_rank = rank
        if picked is not None:
            box = tf.gather(box, picked)
            out_rank = rank - 1 + picked.ndim
        splits_out, values_out = tf.raw_ops.RaggedTensorFromVariant(encoded_ragged=box, input_ragged_rank=ragged, output_ragged_rank=out_rank, Tvalues=dtype, Tsplits=wanted)
        return [*splits_out, values_out]

    return Chain(d.op, [values, *splits], build)
