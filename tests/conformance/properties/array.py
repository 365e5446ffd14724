"""Specs of places in tensors: ops/array.def."""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C


@spec("LowerBound", "UpperBound")
def sorted_bound(d):
    dtype, n = d.dtype(), d.dim()
    rows = np.sort(d.values(dtype, (n, d.dim(9)), low=-5, high=5, special=0).astype(np.float64)).astype(tf.as_dtype(dtype).as_numpy_dtype)
    values = d.values(dtype, (n if d.chance(0.95) else d.dim(), d.dim()), low=-6, high=6)
    if d.chance(0.06):
        rows, values = d.one((rows.reshape(-1), values), (rows, values.reshape(-1)), (rows.reshape(1, *rows.shape), values))
    return C(d.op, rows, values, out_type=d.one(tf.int32, tf.int64))


@spec("UnravelIndex")
def unravel_index(d):
    dtype = d.one(np.int32, np.int64)
    dims = np.asarray([d.int(1, 6) for _ in range(d.int(0, 5))], dtype)
    if dims.size and d.chance(0.1):
        dims[d.int(0, dims.size - 1)] = d.one(0, -1, np.iinfo(dtype).max, 2**31 - 1)
    total = max(1, int(np.clip(np.prod(dims.astype(np.float64)), 1, 1000)))
    low = -total if d.chance(0.1) else 0
    indices = d.rng.integers(low, total + (d.chance(0.05)), d.one((), (d.dim(),), (d.dim(),))).astype(dtype)
    if d.chance(0.05):
        indices, dims = d.one((indices.reshape(1, -1), dims), (indices, dims.reshape(1, -1)))
    return C(d.op, np.asarray(indices), dims)
