"""Cases of elementwise, comparing and reducing ops."""

import numpy as np
import tensorflow as tf

from opcase import C, dtypes_of
from support import sample

INF, NAN = np.inf, np.nan
EDGES = np.array([-INF, -100.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 7.0, 80.0, INF, NAN])

UNARY = """Neg Abs Sign Square Sqrt Rsqrt Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh
Atanh Sigmoid Erf Erfc Erfinv Ndtri Lgamma Digamma Reciprocal Inv Floor Ceil Rint Round Relu Relu6 Elu Selu Softplus Softsign
LeakyRelu IsNan IsInf IsFinite ZerosLike OnesLike Identity Snapshot StopGradient PreventGradient L2Loss""".split()

BINARY = """AddV2 Add Sub Mul Div RealDiv FloorDiv TruncateDiv FloorMod Mod TruncateMod Pow Maximum Minimum
SquaredDifference DivNoNan MulNoNan Xdivy Xlogy Xlog1py Atan2 Equal NotEqual Less LessEqual Greater GreaterEqual""".split()

NO_BROADCAST = """SigmoidGrad TanhGrad ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad LeakyReluGrad
SqrtGrad RsqrtGrad ReciprocalGrad InvGrad ApproximateEqual""".split()

DIVISIONS = {"Div", "RealDiv", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod"}
SHAPE_PAIRS = {
    "same": ((2, 3), (2, 3)),
    "broadcast": ((3, 1), (1, 4)),
    "scalar": ((), (5,)),
    "empty": ((0, 2), (1, 2)),
    "rank5": ((2, 1, 3, 1, 2), (1, 2, 1, 2, 1)),
    "row": ((4, 3), (3,)),
}
LOOSE = {"Lgamma": 1e-4, "Digamma": 1e-4, "Tan": 1e-4, "Pow": 1e-4, "Sinh": 1e-4, "Cosh": 1e-4, "Atanh": 1e-4}


def values_for(dtype, op):
    """Edge values for real floating point; small numbers elsewhere."""
    if dtype.is_floating:
        return EDGES.astype(dtype.as_numpy_dtype)
    if dtype == tf.string:
        return np.array([b"", b"a", b"\0x"], object)
    if dtype.is_integer and op in ("Abs", "Neg", "Square", "Relu", "Relu6", "Sign"):
        return np.array([dtype.min, dtype.max, 0, 1, 5, 7], dtype.as_numpy_dtype)
    return sample(dtype, (7,), 5)


def unary():
    for op in UNARY:
        for dtype in dtypes_of(op):
            if op == "Round" and dtype.is_integer:
                continue  # stock TensorFlow 2.19 answers 0 to every integer; its own Python never sends this op for them
            loose = LOOSE.get(op) if dtype in (tf.float32, tf.complex64) else None
            yield C(op, values_for(dtype, op), label=dtype.name, rtol=loose)
            if dtype in (tf.float32, tf.int32):
                yield C(op, sample(dtype, (0, 3)), label=f"{dtype.name}-empty")
                yield C(op, sample(dtype, ()), label=f"{dtype.name}-scalar", rtol=loose)
                yield C(op, np.abs(sample(dtype, (3, 40, 5), 9)), label=f"{dtype.name}-large", rtol=loose)
    yield C("LogicalNot", [True, False])
    yield C("LeakyRelu", EDGES.astype(np.float32), alpha=0.01, label="alpha")
    yield C("CheckNumerics", np.float32([1.0, 2.0]), message="m", label="fine")
    yield C("CheckNumerics", np.float32([1.0, NAN]), message="m", label="nan")
    yield C("CheckNumerics", np.float64([1.0, INF]), message="m", label="inf")


def operands(dtype, op, shapes):
    a, b = sample(dtype, shapes[0], 1), sample(dtype, shapes[1], 2)
    if op in DIVISIONS and not dtype.is_floating and not dtype.is_complex:
        b = np.where(b == 0, np.asarray(3, b.dtype), b)
    if op == "Pow":
        a = np.asarray(np.abs(a) % 5).astype(a.dtype) if dtype.is_integer else np.abs(a).astype(a.dtype)
        b = np.asarray(np.abs(b) % 4).astype(b.dtype) if dtype.is_integer else b
    if op in ("Xlogy", "Xlog1py"):
        b = np.abs(b).astype(b.dtype)
    return a, b


def binary():
    for op in BINARY:
        for dtype in dtypes_of(op):
            loose = LOOSE.get(op) if dtype in (tf.float32, tf.complex64) else None
            pairs = SHAPE_PAIRS if dtype in (tf.float32, tf.int32) else {"broadcast": SHAPE_PAIRS["broadcast"]}
            for label, shapes in pairs.items():
                yield C(op, *operands(dtype, op, shapes), label=f"{dtype.name}-{label}", rtol=loose)
            if dtype.is_floating:
                edges = EDGES.astype(dtype.as_numpy_dtype)
                yield C(op, edges[:, None], edges[None, :], label=f"{dtype.name}-edges", rtol=loose)
        yield C(op, np.ones(2, np.float32), np.ones(3, np.float32), label="mismatch")
        if op in DIVISIONS:
            yield C(op, np.int32([7, -7, 7, -7, 0]), np.int32([3, 3, -3, -3, 5]), label="signs")
            yield C(op, np.int32([1, 2]), np.int32([1, 0]), label="by-zero")
    for op in ("LogicalAnd", "LogicalOr"):
        yield C(op, np.array([[True], [False]]), np.array([[True, False]]), label="broadcast")
        yield C(op, np.zeros((0,), bool), np.array(True), label="empty")
    yield C("Pow", np.int32([2]), np.int32([-1]), label="negative")
    for op in ("Equal", "NotEqual"):
        yield C(op, np.array([b"a", b"b"], object), np.array([b"a", b"c"], object), label="string")
        yield C(op, np.ones(2, np.float32), np.ones(3, np.float32), incompatible_shape_error=False, label="lenient")
    for op in NO_BROADCAST:
        for dtype in dtypes_of(op):
            edges = EDGES[1:-2].astype(dtype.as_numpy_dtype) if dtype.is_floating else sample(dtype, (14,), 4)
            yield C(op, edges, edges[::-1].copy(), label=dtype.name)
            if dtype.is_floating:
                edges = EDGES.astype(dtype.as_numpy_dtype)
                yield C(op, np.repeat(edges, len(edges)), np.tile(edges, len(edges)), label=f"{dtype.name}-pairs")
            yield C(op, edges[:0], edges[:0], label=f"{dtype.name}-empty")
    yield C("ApproximateEqual", np.float32([1.0, 2.0]), np.float32([1.05, 2.2]), tolerance=0.1, label="tolerance")
    x = EDGES.astype(np.float32)
    yield C("ClipByValue", x, np.float32(-1.0), np.float32(2.0), label="scalars")
    yield C("ClipByValue", np.int32([1, 5, 9]), np.int32([2, 2, 2]), np.int32([4, 6, 8]), label="arrays")
    for n in (1, 2, 3, 9):
        yield C("AddN", [sample(tf.float32, (2, 3), i) for i in range(n)], label=f"{n}")
    yield C("AddN", [sample(tf.int64, (4,), i) for i in range(3)], label="int64")
    yield C("AddN", [np.ones(2, np.float32), np.ones(3, np.float32)], label="mismatch")


AXES = {"none": [], "first": [0], "last": [-1], "two": [0, 2], "all": [0, 1, 2]}


def reductions():
    for op in ("Sum", "Prod", "Mean", "Max", "Min", "EuclideanNorm"):
        for dtype in dtypes_of(op):
            if op == "EuclideanNorm" and not (dtype.is_floating or dtype.is_complex):
                continue
            x = sample(dtype, (2, 3, 4), 3)
            if op == "Prod":
                x = x % np.asarray(3, x.dtype) if dtype.is_integer else x
            axes = AXES if dtype in (tf.float32, tf.int32) else {"two": AXES["two"]}
            for label, axis in axes.items():
                yield C(op, x, np.int32(axis), label=f"{dtype.name}-{label}")
        f = sample(tf.float32, (3, 5), 8)
        yield C(op, f, np.int64([1]), keep_dims=True, label="keep")
        yield C(op, f, np.int32(0), label="scalar-axis")
        yield C(op, f[:0], np.int32([0]), label="over-empty")
        yield C(op, f[:0], np.int32([1]), label="empty-result")
        yield C(op, np.float32(3.0), np.int32([]), label="of-scalar")
        yield C(op, np.float32([1.0, NAN, INF]), np.int32([0]), label="nan")
        yield C(
            op,
            sample(tf.float32, (300, 700), 2) / 10.0 if op != "Prod" else np.full((30, 70), 1.001, np.float32),
            np.int32([0, 1]),
            label="large",
            rtol=1e-4,
            atol=1e-3,
        )
        yield C(op, f, np.int32([2]), label="axis-out-of-range")
        yield C(op, f, np.int32([0, 0]), label="axis-twice")
    for op in ("All", "Any"):
        b = np.array([[True, False, True], [True, True, True]])
        for label, axis in (("first", [0]), ("last", [1]), ("all", [0, 1]), ("none", [])):
            yield C(op, b, np.int32(axis), label=label, keep_dims=label == "last")
        yield C(op, b[:0], np.int32([0]), label="over-empty")
    for op in ("ArgMax", "ArgMin"):
        for dtype in dtypes_of(op):
            yield C(op, sample(dtype, (4, 5), 6), np.int32(1), label=dtype.name)
        yield C(op, np.float32([[1, 3, 3], [2, 2, 1]]), np.int32(-1), output_type=tf.int32, label="ties")
        yield C(op, np.float32([1, NAN, 3]), np.int32(0), label="nan")
        for dtype in [d for d in dtypes_of(op) if d.is_floating]:
            lowest, kind = float(dtype.min), dtype.as_numpy_dtype
            rows = [[NAN, 1, 3, 2], [NAN, -1, -3, NAN], [NAN] * 4, [-INF] * 4, [INF] * 4, [NAN, -INF, -INF, INF], [-INF, lowest, NAN, lowest], [INF, -lowest, NAN, -lowest]]
            yield C(op, np.array(rows).astype(kind), np.int32(1), label=f"nan-first-{dtype.name}")
            yield C(op, np.array(rows).T.astype(kind), np.int32(0), label=f"nan-first-columns-{dtype.name}")
            yield C(op, np.array([NAN, *range(-600, 600), INF, INF]).astype(kind), np.int32(0), label=f"nan-first-long-{dtype.name}")
        yield C(op, np.zeros((0, 3), np.float32), np.int32(0), label="empty")
        yield C(op, np.zeros((2, 3), np.float32), np.int32(2), label="axis-out-of-range")
    for op in ("SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"):
        rows, ids = np.float32([[NAN, 1], [2, NAN], [3, -INF], [NAN, NAN], [NAN, 4], [5, NAN], [0, 0]]), np.int32([0, 0, 0, 1, 2, 2, 3])
        yield C(op, rows, ids, *([np.int32(5)] if op.startswith("Unsorted") else []), label="nan")
    for op in ("Cumsum", "Cumprod"):
        for exclusive in (False, True):
            for reverse in (False, True):
                yield C(
                    op,
                    sample(tf.float32, (3, 4), 7),
                    np.int32(1),
                    exclusive=exclusive,
                    reverse=reverse,
                    label=f"{'exclusive' if exclusive else 'plain'}-{'reverse' if reverse else 'forward'}",
                )
        yield C(op, np.int32([[1, 2], [3, 4]]), np.int32(-2), label="int")
        yield C(op, np.zeros((0, 2), np.float32), np.int32(0), label="empty")
        yield C(op, np.zeros((2,), np.float32), np.int32(1), label="axis-out-of-range")


def casts():
    def values(dtype):
        if dtype == tf.bool:
            return np.array([True, False])
        v = np.array([0, 1, 2.7, 100] + ([] if dtype.is_unsigned else [-1.5, -7])).astype(dtype.as_numpy_dtype)
        return v

    kinds = dtypes_of("Cast", "SrcT")
    kinds = [d for d in kinds if d != tf.string]
    for src in kinds:
        for dst in kinds:
            v = values(src)
            if dst.is_unsigned and not src.is_integer and src != tf.bool:
                v = v[:4]  # a negative float has no unsigned value: undefined in C++
            if src.is_complex and not dst.is_complex:
                v = np.abs(v).astype(v.dtype)
            yield C("Cast", v, DstT=dst, label=f"{src.name}-{dst.name}")
    # One at a time: TensorFlow's vectors saturate, its loops over what is left do not.
    for src in (np.float16, np.float32, np.float64):
        for dst in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64):
            for value in (-6, 300, -300, 70000, 5e9, -5e9, 1e19, 1e20, -1e20, NAN):
                with np.errstate(over="ignore"):
                    yield C("Cast", np.array([value], src), DstT=dst, label=f"{np.dtype(src)}-{dst.name}-{value}")
    yield C("Cast", np.float32([1.00390625, 3.14159, -1e38]), DstT=tf.bfloat16, Truncate=True, label="truncate")
    yield C("Cast", np.float32([65520.0, 1e-8, NAN, INF]), DstT=tf.float16, label="to-half-edges")
    yield C("Cast", np.float64([1.00390625, 1e300]), DstT=tf.float32, label="to-float-edges")
    yield C("Bitcast", np.float32([1.0, -0.0, NAN]), type=tf.int32, label="same-size")
    yield C("Bitcast", np.int32([[1, 2]]), type=tf.int16, label="smaller")
    yield C("Bitcast", np.uint8([[1, 2, 3, 4], [5, 6, 7, 8]]), type=tf.float32, label="larger")
    yield C("Bitcast", np.uint8([1, 2, 3]), type=tf.int32, label="does-not-fit")


EINSUMS = {
    "ab,bc->ac": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "btd,dhk->bthk": ((2, 3, 4), (4, 2, 3)),
    "bqhd,bkhd->bhqk": ((2, 3, 2, 4), (2, 5, 2, 4)),
    "bqhd,hdm->bqm": ((2, 3, 2, 4), (2, 4, 3)),
    "i,j->ij": ((3,), (4,)),
    "i,i->": ((3,), (3,)),
    "ab,cd->c": ((2, 3), (4, 5)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
    "...a,a->...": ((2, 3, 4), (4,)),
    "ii->i": ((3, 3),),
    "i->ii": ((3,),),
    "ii->": ((3, 3),),
    "abc->cb": ((2, 3, 4),),
    "ab->": ((0, 3),),
    "iab,bi->ia": ((2, 3, 4), (4, 2)),
    "aab,b->a": ((3, 3, 2), (2,)),
    "ab...,b...->a...": ((2, 3, 1), (3, 4)),
}


def einsums():
    for equation, shapes in EINSUMS.items():
        for dtype in (tf.float32, tf.float64, tf.complex64, tf.int32):
            operands_of = [sample(dtype, s, i) for i, s in enumerate(shapes)]
            yield C("Einsum", operands_of, equation=equation, label=f"{equation}-{dtype.name}", rtol=1e-4)
    yield C("Einsum", [sample(tf.float32, (2, 3)), sample(tf.float32, (4, 3))], equation="ab,bc->ac", label="other-size")
    yield C("Einsum", [sample(tf.float32, (2, 3))], equation="abc->a", label="other-rank")


def cases():
    yield from einsums()
    yield from unary()
    yield from binary()
    yield from reductions()
    yield from casts()
