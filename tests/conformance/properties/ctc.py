"""Specs of connectionist temporal classification: ops/ctc.def.

Sums of probabilities are rounded to float in either type, so results in double differ as much as in float. Left out:
no steps or no classes at all, and labels that are all blank in a single step, where TensorFlow reads or writes beyond
its buffers.
"""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C


def lengths(d, batch, time):
    n = np.asarray([d.int(0, time) if d.chance(0.4) else time for _ in range(batch)], np.int32)
    if batch and d.chance(0.05):
        n[d.int(0, batch - 1)] = d.one(-1, time + 1, np.iinfo(np.int32).max, np.iinfo(np.int32).min)
    if d.chance(0.05):
        n = d.one(n[:-1], n.reshape(-1, 1), np.concatenate([n, n]))
    return n


def labels(d, batch, time, classes):
    """Indices and values of a sparse matrix of labels."""
    indices, values = [], []
    for b in range(batch):
        count = d.int(1, max(1, d.one(time, time // 2, time, time + 1)))
        if d.chance(0.03):
            count = 0
        first = d.one(0, 0, 0, 2)
        indices += [(b, first + k) for k in range(count)]
        row = [d.int(0, max(classes - 2, 0)) for _ in range(count)]
        if d.chance(0.15) and count > 1:
            row[-1] = classes - 1
        if d.chance(0.03) and count:
            row[d.int(0, count - 1)] = d.one(-1, classes - 1, classes, np.iinfo(np.int32).max, np.iinfo(np.int32).min)
        values += row
    return np.asarray(indices, np.int64).reshape(-1, 2), np.asarray(values, np.int32)


def spoiled(d, indices, values):
    if len(indices) and d.chance(0.1):
        i = d.int(0, len(indices) - 1)
        indices[i, d.int(0, 1)] = d.one(-1, 0, 1, 1000, 2**40, np.iinfo(np.int64).min)
    if d.chance(0.05):
        return d.one((indices[:-1], values), (indices, values[:-1]), (indices, values.reshape(-1, 1)), (indices.reshape(-1), values), (np.concatenate([indices, indices], 1), values))
    return indices, values


@spec("CTCLoss")
def loss(d):
    dtype, time, batch, classes = d.dtype(), d.int(2, 7), d.int(1, 4), d.int(1, 6)
    if d.chance(0.03):
        batch = 0
    x = d.values(dtype, (time, batch, classes), low=-6, high=6)
    if d.chance(0.03):
        x = x[0]
    indices, values = spoiled(d, *labels(d, batch, time, classes))
    n = lengths(d, batch, time)
    n = np.where(n == 1, 2, n).astype(np.int32)
    attrs = {k: d.chance(0.4) for k in ("preprocess_collapse_repeated", "ctc_merge_repeated", "ignore_longer_outputs_than_inputs")}
    return C(d.op, x, indices, values, n, rtol=2e-5, atol=2e-5, **attrs)


def predictions(d):
    time, batch, classes = (d.dim(6, zero=0.02), d.dim(4, zero=0.02), d.dim(5, zero=0.02))
    x = d.values(d.dtype(), (time, batch, classes), low=-4, high=4)
    if d.chance(0.03):
        x = x[0] if time else x[None]
    return x, lengths(d, batch, time), classes


@spec("CTCGreedyDecoder")
def greedy(d):
    x, n, classes = predictions(d)
    blank = d.one(-1, 0, classes - 1, -classes) if d.chance(0.9) else d.one(classes, -classes - 1, 2**31 - 1)
    return C(d.op, x, n, merge_repeated=d.chance(0.5), blank_index=blank)


@spec("CTCBeamSearchDecoder")
def beam(d):
    x, n, _ = predictions(d)
    width = d.one(1, 2, 3, 5, 20, 100)
    if d.chance(0.15):
        x = d.values(d.dtype(), (d.int(3, 9), 2, d.int(3, 12)), low=-2, high=2)
        n = np.full(2, len(x), np.int32)
        width = d.one(17, 40, 200)
    return C(d.op, x, n, beam_width=width, top_paths=d.one(1, 1, 2, 3, min(width, 4)), merge_repeated=d.chance(0.5), rtol=2e-5, atol=2e-5)
