"""Specs of candidate samplers: ops/sampler.def.

A sampler goes on from step to step, so that each case is a session with several. Left out: more different classes than
have a weight, which TensorFlow tries for minutes to draw before it ends the process.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C


def classes(d, range_max, num_true):
    rows = d.dim(5, 0.1)
    x = d.values(tf.int64, (rows, num_true), low=0, high=range_max - 1, special=0)
    if x.size and d.chance(0.06):
        x.flat[d.int(0, x.size - 1)] = d.one(-1, range_max, 2**62, -(2**63))
    if d.chance(0.05):
        x = d.one(x[:, :-1], x.reshape(-1), x[None])
    return x


def repeated(d, op, attrs, make):
    """The op in three steps of one session."""

    def build():
        port = tf.compat.v1.placeholder(tf.int64)
        y = getattr(tf.raw_ops, op)(true_classes=port, **attrs)
        return [(list(y), {port: make()}) for _ in range(3)]

    return Program(op, build)


def sampler(d, range_max, extra, drawable=None):
    num_true = d.int(1, 3)
    unique = d.chance(0.5)
    attrs = dict(num_true=num_true, num_sampled=d.int(1, 12), unique=unique, seed=d.one(1, 7, -3, 2**40), seed2=d.one(0, 5, 2**33 + 1), **extra)
    if unique and range_max is not None and d.chance(0.9):
        attrs["num_sampled"] = d.int(1, min(range_max, 12))
    if unique and drawable is not None and (range_max or 0) >= attrs["num_sampled"]:
        attrs["num_sampled"] = min(attrs["num_sampled"], max(drawable, 1))
        attrs["unique"] = drawable > 0
    made = [classes(d, attrs["num_sampled"] if range_max is None else range_max, num_true) for _ in range(3)]
    it = iter(made * 4)
    return repeated(d, d.op, attrs, lambda: next(it))


@spec("AllCandidateSampler")
def all_classes(d):
    return sampler(d, None, {})


@spec("UniformCandidateSampler", "LogUniformCandidateSampler")
def distribution(d):
    range_max = d.one(1, 2, 3, 8, 13, 100, 2**31, 2**40 + 5, 2**62, d.int(1, 1000))
    if range_max > 2**40 and d.op.startswith("Log"):
        range_max = 2**40
    return sampler(d, range_max, {"range_max": range_max})


@spec("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler")
def learned(d):
    range_max = d.one(1, 2, 3, 8, 13, 100, d.int(1, 1000))
    return sampler(d, range_max, {"range_max": range_max})


def weights(d, n):
    return [float(np.float32(d.one(d.real(0, 1), d.real(0, 100), 1.0, 5.0))) for _ in range(n)]


@spec("FixedUnigramCandidateSampler")
def fixed(d):
    n = d.int(1, 20)
    reserved = d.one(0, 0, 1, 2)
    shards = d.one(1, 1, 1, 2, 3)
    extra = dict(num_reserved_ids=reserved, num_shards=shards, shard=d.int(0, shards - 1), distortion=d.one(1.0, 1.0, 0.75, 0.0, 2.0))
    ours = len([i for i in range(reserved) if i % shards == extra["shard"]])
    range_max = ours + len([i for i in range(ours, ours + n) if i % shards == extra["shard"]])
    if d.chance(0.1):
        range_max += d.one(1, 2**31)
    extra["range_max"] = max(range_max, 1)
    values = weights(d, n)
    if d.chance(0.4):
        extra["vocab_file"] = vocabulary(d, values)
    else:
        extra["unigrams"] = values
    if d.chance(0.03):
        extra.pop("unigrams", None)
    return sampler(d, extra["range_max"], extra, range_max - ours if range_max == extra["range_max"] else 0)


def vocabulary(d, values):
    """A file; the servers of a test run on this machine."""
    ends = d.one("\n", "\r\n")
    lines = [f"{d.one('', 'word,', 'a,b,')}{v}{d.one('', '', ' ')}" for v in values]
    if d.chance(0.1):
        lines.insert(d.int(0, len(lines)), d.one("", "word", "1,", "3,x"))
    name = os.path.join(tempfile.gettempdir(), f"weft_vocabulary_{d.number}.csv")
    with open(name, "w", newline="") as f:
        f.write(ends.join(lines) + d.one("", ends))
    return d.one(name, name, name, name, name, name + ".none")


@spec("ComputeAccidentalHits")
def hits(d):
    num_true = d.int(1, 4)
    x = d.values(tf.int64, (d.dim(6, 0.1), num_true), low=-3, high=12, special=0.1)
    sampled = d.values(tf.int64, (d.dim(10, 0.1),), low=-3, high=12, special=0.1)
    if d.chance(0.06):
        x = d.one(x[:, :-1], x.reshape(-1), x[None])
    if d.chance(0.05):
        sampled = sampled[None]
    return C(d.op, x, sampled, num_true=num_true, seed=d.int(0, 3))
