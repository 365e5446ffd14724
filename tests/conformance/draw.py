"""Random cases of the property tests: what a spec draws its inputs and attributes from.

A spec (properties/*.py) is a function of a Draw that returns one case of its op, another one for each draw. The
same op and number give the same case, whatever else runs.
"""

import zlib

import ml_dtypes
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

from opcase import dtypes_of
from support import ALL_DTYPES

SPECS = {}  # op: its spec


def spec(*ops):
    """Makes the function below the spec of these ops; d.op says which of them a case is wanted of. A case (no program)
    of an op that TensorFlow took out is run in a graph that is old enough for it."""

    def note(function):
        for op in ops:
            assert op not in SPECS, f"{op} has two specs"
            SPECS[op] = lambda d: of_its_time(function(d))
        return function

    return note


class Program:
    """A case of several steps, for ops with state: build() adds nodes to the current graph and returns a list of
    (fetches, feeds), which are run one after another in one session. A step that fails does not end it. `alike`: a
    case of the op alone, whose inferred shapes are compared. `seen`: makes of a step's values what is compared.
    """

    def __init__(self, op, build, rtol=None, atol=None, alike=None, seen=list):
        self.op, self.build, self.rtol, self.atol, self.alike, self.seen = op, build, rtol, atol, alike, seen


def made_by(version, case, steps=1):
    """A program that runs a case (or a program) of an op that later versions of TensorFlow refuse, as a graph of that version."""

    def build():
        old = tf.compat.v1.GraphDef()
        old.versions.producer = version
        tf.import_graph_def(old)  # makes the whole graph one of that version
        if isinstance(case, Program):
            return case.build()
        outs, feeds = case.build()
        return [(outs, feeds)] * steps

    return Program(case.op, build, case.rtol, case.atol)


def of_its_time(case):
    removed = op_def_registry.get(case.op).deprecation.version
    return made_by(removed - 1, case) if removed and not isinstance(case, Program) else case


def unlisted(op, **arguments):
    """The node of an op that raw_ops does not list."""
    return op_def_library._apply_op_helper(op, name="internal", **arguments)[2]


class Draw:
    def __init__(self, op, number):
        self.op, self.number = op, number
        self.rng = np.random.default_rng(zlib.crc32(f"{op} {number}".encode()))

    # ---- plain choices ----
    def one(self, *values):
        return values[self.rng.integers(len(values))]

    def int(self, low, high):
        """low <= result <= high"""
        return int(self.rng.integers(low, high + 1))

    def real(self, low=0.0, high=1.0):
        return float(self.rng.uniform(low, high))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def dtype(self, attr="T", among=ALL_DTYPES):
        """One of the dtypes for which stock TensorFlow has the op on the CPU."""
        return self.one(*dtypes_of(self.op, attr, among))

    # ---- shapes ----
    def shape(self, min_rank=0, max_rank=5, max_dim=5, zero=0.05):
        """Each dimension is 1 to max_dim, and 0 with probability `zero`."""
        rank = self.int(min_rank, max_rank)
        return tuple(0 if self.chance(zero) else self.int(1, max_dim) for _ in range(rank))

    def dim(self, high=5, zero=0.05):
        return 0 if self.chance(zero) else self.int(1, high)

    def broadcast(self, n=2, wrong=0.05, **of_shape):
        """n shapes that broadcast together, but for a chance of `wrong`."""
        whole = self.shape(**of_shape)
        shapes = []
        for _ in range(n):
            part = tuple(1 if self.chance(0.25) else s for s in whole)
            shapes.append(part[self.int(0, len(part)) :] if self.chance(0.4) else part)
        if self.chance(wrong):
            shapes[-1] = self.shape(**of_shape)
        return shapes

    def axis(self, rank, wrong=0.05):
        """-rank to rank-1, but for a chance of `wrong`."""
        return self.one(rank, rank + 7, -rank - 1) if rank == 0 or self.chance(wrong) else self.int(-rank, rank - 1)

    # ---- values ----
    def values(self, dtype, shape=(), low=None, high=None, special=0.15):
        """An array; with probability `special`, NaN, infinities, denormals and extremes are among the values.

        `low` and `high` bound ordinary values: -4 to 4 if not given, small numbers for integers.
        """
        dtype = tf.as_dtype(dtype)
        shape = tuple(shape)
        n = int(np.prod(shape, dtype=np.int64))
        rng = self.rng
        if dtype == tf.string:
            return self.texts(shape)
        if dtype == tf.bool:
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.is_complex:
            part = tf.float32 if dtype == tf.complex64 else tf.float64
            re, im = (self.values(part, shape, low, high, special) for _ in range(2))
            return np.asarray(re + 1j * im).astype(dtype.as_numpy_dtype)
        if dtype.is_integer or dtype.is_quantized:
            np_type = dtype.as_numpy_dtype
            if dtype.is_quantized:
                np_type = {"qint8": np.int8, "quint8": np.uint8, "qint16": np.int16, "quint16": np.uint16, "qint32": np.int32}[dtype.name]
            info = np.iinfo(np_type)
            bottom = max(info.min, -20 if low is None else low)
            top = min(info.max, 20 if high is None else high)
            flat = rng.integers(bottom, top, n, dtype=np.int64, endpoint=True).astype(np_type)
            extremes = [info.min, info.max, 0, 1]
        else:
            np_type = dtype.as_numpy_dtype
            bottom, top = (-4.0 if low is None else low), (4.0 if high is None else high)
            flat = rng.uniform(bottom, top, n).astype(np_type)
            if self.chance(0.3):
                flat = np.round(flat.astype(np.float64)).astype(np_type)
            info = ml_dtypes.finfo(np_type)
            extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(info.tiny), float(info.tiny) / 8, float(info.max), -float(info.max)]
        if n and self.chance(special):
            extremes = [e for e in extremes if (low is None or not e < low) and (high is None or not e > high)]
            for i in rng.integers(n, size=max(1, n // 4)):
                flat[i] = np.asarray(extremes[rng.integers(len(extremes))]).astype(np_type)
        return flat.reshape(shape)

    def texts(self, shape=(), words=None):
        """Byte strings: words, numbers, empty ones, unicode, zero bytes, bytes that are no UTF-8."""
        words = words or ["", "a", "abc", "Hello World", "é", "日本語", "-12", "3.5", "a,b;c", "  x ", b"\x00z", b"\xff\xfe", "straße", "q" * 40]
        n = int(np.prod(shape, dtype=np.int64))
        picked = [words[i] for i in self.rng.integers(len(words), size=n)]
        a = np.empty(n, object)
        a[:] = [w.encode() if isinstance(w, str) else w for w in picked]
        return a.reshape(shape)

    def indices(self, n, shape=(), dtype=tf.int32, wrong=0.05):
        """0 to n-1; with probability `wrong` one of them lies outside."""
        np_type = tf.as_dtype(dtype).as_numpy_dtype
        a = self.rng.integers(0, max(n, 1), shape).astype(np_type)
        if a.size and (n == 0 or self.chance(wrong)):
            a = np.asarray(a)
            a.flat[self.rng.integers(a.size)] = self.one(n, -1, np.iinfo(np_type).max, np.iinfo(np_type).min)
        return np.asarray(a)
