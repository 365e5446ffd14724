"""Specs of arithmetic: ops/math.def.

Left out: NaNs where TensorFlow sorts (NthElement); ranges whose width overflows, which make TensorFlow's HistogramFixedWidth
write where it should not; the smallest numbers of K, Y and Expint, and the largest of Expint and Spence, where what TensorFlow
divides by becomes zero or infinite; Y1 at 0, which has no number in float; Zeta of float left of 0, of which TensorFlow adds up
too few terms; the derivative of Igamma by x at 0; and Betainc's gradient by a scalar x, which TensorFlow forms only if a has as
many elements.
"""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C

from properties.arithmetic import loose


@spec("Cumsum", "Cumprod")
def cumulate(d):
    dtype, shape = d.dtype(), d.shape()
    return C(d.op, d.values(dtype, shape), d.axis(len(shape)), exclusive=d.chance(0.3), reverse=d.chance(0.3))


@spec("CumulativeLogsumexp")
def cumulative_logsumexp(d):
    dtype, shape = d.dtype(), d.shape()
    x = d.values(dtype, shape, special=0)
    if x.size and d.chance(0.1):
        x.flat[d.int(0, x.size - 1)] = -np.inf
    axis = d.one(np.int32, np.int64)(d.axis(len(shape)))
    if d.chance(0.03):
        axis = axis.reshape(1)
    case = C(d.op, x, axis, exclusive=d.chance(0.3), reverse=d.chance(0.3), **loose(dtype, 4))
    case.has_gradient = not np.isinf(x.astype(np.float64)).any()
    return case


# ---- bits ----


@spec("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
def bits(d):
    dtype = d.dtype()
    a, b = d.broadcast()
    low = -3 if d.chance(0.2) else 0
    return C(d.op, d.values(dtype, a, low=-200, high=200, special=0.5), d.values(dtype, b, low=low, high=70, special=0.2))


@spec("Invert", "PopulationCount")
def bits_of_one(d):
    return C(d.op, d.values(d.dtype(), d.shape(), low=-200, high=200, special=0.5))


@spec("NextAfter")
def next_after(d):
    dtype = d.dtype()
    a, b = d.broadcast()
    case = C(d.op, d.values(dtype, a, special=0.4), d.values(dtype, b, special=0.4), rtol=0, atol=0)
    case.gradient_tolerance = (1e-5, 1e-6)  # sums, where they are broadcast
    return case


@spec("ToBool")
def to_bool(d):
    kinds = [tf.bool, tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.string]
    return C(d.op, d.values(d.one(*kinds), d.one((), (), d.shape()), low=-1, high=1))


# ---- counts, order ----


@spec("Bucketize")
def bucketize(d):
    dtype = d.dtype()
    boundaries = sorted(np.round(d.values(tf.float32, (d.int(0, 8),), special=0.1), 2).tolist(), key=lambda v: (np.isnan(v), v))
    if d.chance(0.05):
        boundaries = boundaries[::-1]
    return C(d.op, d.values(dtype, d.shape(), special=0.3), boundaries=boundaries)


@spec("DenseBincount")
def dense_bincount(d):
    index = d.one(np.int32, np.int64)
    shape = d.shape(max_rank=2 if d.chance(0.97) else 3)
    dtype = d.dtype(among=[tf.int32, tf.int64, tf.float32, tf.float64])
    arr = d.rng.integers(-1 if d.chance(0.05) else 0, 9, shape).astype(index)
    size = np.asarray(d.one(0, 3, 8, 10, 10, -1 if d.chance(0.2) else 4), index)
    if d.chance(0.03):
        size = size.reshape(1)
    weights = d.values(dtype, d.one(shape, shape, (0,), (0, 3), d.shape(max_rank=2)), special=0)
    return C(d.op, np.asarray(arr), size, weights, binary_output=d.chance(0.3), **loose(dtype, 4))


@spec("HistogramFixedWidth")
def histogram_fixed_width(d):
    dtype = d.dtype(among=[tf.int32, tf.int64, tf.float32, tf.float64])
    low = d.int(-5, 3)
    bounds = np.asarray([low, low + (d.int(1, 9) if d.chance(0.95) else d.int(-1, 0))]).astype(dtype.as_numpy_dtype)
    if d.chance(0.05):
        bounds = d.one(bounds[:1], bounds.reshape(1, 2), bounds[0])
    values = d.values(dtype, d.shape(), special=0)
    if values.size and dtype.is_floating and d.chance(0.2):
        values.flat[d.int(0, values.size - 1)] = d.one(np.inf, -np.inf, 1e30, np.nan)
    nbins = np.int32(d.one(1, 2, 5, 10, 100) if d.chance(0.95) else d.one(0, -1))
    return C(d.op, values, bounds, nbins if d.chance(0.97) else nbins.reshape(1), dtype=d.one(tf.int32, tf.int64))


@spec("NthElement")
def nth_element(d):
    dtype, shape = d.dtype(), d.shape(min_rank=0 if d.chance(0.05) else 1, max_dim=9)
    last = shape[-1] if shape else 1
    n = np.int32(d.int(0, max(0, last - 1)) if d.chance(0.93) else d.one(last, -1))
    x = d.values(dtype, shape)
    if tf.as_dtype(dtype).is_floating:
        x = np.where(np.isnan(x), np.asarray(1, x.dtype), x)
    return C(d.op, x, n if d.chance(0.97) else n.reshape(1), reverse=d.chance(0.5))


# ---- special functions ----

BESSEL = ["BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"]
INTEGRALS = ["Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence"]


def moderate(x, op):
    """Without the numbers for which TensorFlow's own are the machine's: see above."""
    name = tf.as_dtype(x.dtype).name
    size = np.abs(x.astype(np.float64))
    tiny = 1e-3 if name == "float16" else 1e-30 if name == "float32" else 1e-290
    bad = size > 50 if op[:-1] in ("BesselJ", "BesselY") or op.startswith("Fresnel") or name == "float16" else size > 1e30
    if op[6:7] in ("K", "Y") or op == "Expint":
        bad |= (size < tiny) & ((size > 0) | (op == "BesselY1"))
    return np.where(bad & np.isfinite(size), np.asarray(1, x.dtype), x)


@spec(*BESSEL, *INTEGRALS)
def special(d):
    dtype = d.dtype()
    low, high = d.one((-4, 4), (0, 3), (0.1, 40), (-20, 20))
    x = moderate(d.values(dtype, d.shape(), low=low, high=high, special=0.2), d.op)
    case = C(d.op, x, **loose(dtype, 10))
    case.has_gradient = bool(np.isfinite(x.astype(np.float64)).all() and (x > 0).all())
    return case


@spec("Igamma", "Igammac", "IgammaGradA")
def incomplete_gamma(d):
    dtype = d.dtype()
    shapes = d.broadcast()
    high = d.one(3, 3, 30)
    a, x = (d.values(dtype, s, low=0.05, high=high, special=0) for s in shapes)
    case = C(d.op, a, x, **loose(dtype, 20))
    for v in (a, x):
        if v.size and d.chance(0.15):
            v.flat[d.int(0, v.size - 1)] = d.one(0, -1, np.nan, np.inf)
            case.has_gradient = False
    return case


@spec("Betainc")
def betainc(d):
    dtype = d.dtype()
    shape = d.shape()
    shapes = [shape if d.chance(0.7) else () for _ in range(3)]
    if d.chance(0.05):
        shapes[d.int(0, 2)] = d.shape()
    a, b = (d.values(dtype, s, low=0.05, high=d.one(2, 10), special=0) for s in shapes[:2])
    x = d.values(dtype, shapes[2], low=0, high=1, special=0)
    case = C(d.op, a, b, x, **loose(dtype, 20))
    case.has_gradient = len(set(shapes)) == 1  # the client's reshapes what it added up for a scalar wrongly
    for v in (a, b, x):
        if v.size and d.chance(0.1):
            v.flat[d.int(0, v.size - 1)] = d.one(0, 1, 2, -1, np.nan)
            case.has_gradient = False
    return case


@spec("Zeta")
def zeta(d):
    dtype = d.dtype()
    a, b = d.broadcast()
    s = d.values(dtype, a, low=0.5 if d.chance(0.2) else 1.1, high=12, special=0)
    q = d.values(dtype, b, low=-7 if dtype == tf.float64 and d.chance(0.3) else 0, high=10, special=0)
    if d.chance(0.3):
        s = np.round(s)
    for v in (s, q):
        if v.size and d.chance(0.1):
            v.flat[d.int(0, v.size - 1)] = d.one(0, 1, 2, -1, np.nan)
    return C(d.op, s, q, **loose(dtype, 20))


# ---- sums, segments ----


@spec("AccumulateNV2")
def accumulate(d):
    """TensorFlow has no kernel of it: only shapes are compared."""
    dtype, shape = d.one(tf.float32, tf.int32), d.shape()
    return C(d.op, [d.values(dtype, shape) for _ in range(d.int(1, 3))], shape=shape)


def segment_tolerance(dtype):
    return loose(dtype, 10)


def segmented(d, dtype, shape):
    """Data of which sums and products neither overflow nor depend on their order much."""
    kind = tf.as_dtype(dtype)
    special = 0 if kind.is_complex else 0.1
    x = d.values(dtype, shape, low=-2, high=2, special=special if "Max" in d.op or "Min" in d.op else 0)
    return x


@spec("SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum")
def segment(d):
    dtype, shape = d.dtype(), d.shape(min_rank=0 if d.chance(0.03) else 1, max_dim=6)
    n = shape[0] if shape else 1
    ids = np.sort(d.rng.integers(0, d.int(1, 5), n)).astype(d.one(np.int32, np.int64))
    if d.chance(0.08) and n:
        ids = d.one(ids[::-1].copy(), ids - 2, ids[1:], ids.reshape(1, -1))
    case = C(d.op, segmented(d, dtype, shape), ids, **segment_tolerance(dtype))
    return case


@spec("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum")
def unsorted_segment(d):
    dtype, shape = d.dtype(), d.shape(max_dim=4)
    prefix = shape[: d.int(0, len(shape))]
    segments = d.int(1, 5)
    ids = np.asarray(d.rng.integers(-1 if d.chance(0.3) else 0, segments, prefix)).astype(d.one(np.int32, np.int64))
    if ids.size and d.chance(0.05):
        ids.flat[d.int(0, ids.size - 1)] = d.one(segments, np.iinfo(ids.dtype).max)
    num = np.asarray(segments if d.chance(0.95) else d.one(0, -1), d.one(np.int32, np.int64))
    if d.chance(0.04):
        ids, num = d.one((ids.reshape(1, *ids.shape), num), (ids, num.reshape(1)))
    return C(d.op, segmented(d, dtype, shape), ids, num, **segment_tolerance(dtype))


EQUATIONS = ["ab,bc->ac", "ab,ab->", "ab->ba", "ab->", "ab->a", "a,b->ab", "abc,acd->abd", "abc,cb->a", "ab,b->a", "aab->b", "aa->a", "abcb->ca", ",ab->ab", "a,a->a"]
EQUATIONS += ["...ab,...bc->...ac", "...a,a->...", "...->...", "a...b,b->...a", "...a->a...", "ab,cd->abcd", "ab...,bc...->ac...", "abc,cde->abde", "...aa->...a", "a->aa"]


@spec("Einsum")
def einsum(d):
    dtype, equation = d.dtype(), d.one(*EQUATIONS)
    sizes = {letter: d.dim(4) for letter in "abcde"}
    whole = d.shape(max_rank=2, max_dim=3)
    inputs = []
    for labels in equation.split("->")[0].split(","):
        if "..." in labels:
            front, back = labels.split("...")
            part = tuple(1 if d.chance(0.2) else s for s in whole)
            shape = (*(sizes[c] for c in front), *part[d.int(0, len(part)) if d.chance(0.3) else 0 :], *(sizes[c] for c in back))
        else:
            shape = tuple(sizes[c] for c in labels)
        if d.chance(0.03):
            shape = d.shape(max_rank=4)
        inputs.append(d.values(dtype, shape, special=0))
    return C(d.op, inputs, equation=equation, **loose(dtype, 20))


@spec("SobolSample")
def sobol(d):
    dim = np.int32(d.one(1, 2, 3, 8, 40, d.int(1, 300)) if d.chance(0.9) else d.one(0, -1, 21200, 21201))
    num = np.int32(d.int(1, 40) if d.chance(0.95) else d.one(0, -1))
    skip = np.int32(d.one(0, 0, 1, 7, 1000, 2**29) if d.chance(0.95) else d.one(-1, 2**31 - 1))
    if d.chance(0.04):
        dim = dim.reshape(1)
    return C(d.op, dim, num, skip, dtype=d.one(tf.float32, tf.float64), rtol=1e-6, atol=0)
