"""Specs of element by element arithmetic, comparisons, choices and reductions: ops/math.def, and activations of ops/nn.def."""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C


def loose(dtype, factor=1):
    """Tolerance of functions that TensorFlow approximates in vectors."""
    name = tf.as_dtype(dtype).name
    r = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 1e-4, "float64": 1e-9, "complex128": 1e-9}.get(name, 0)
    return {"rtol": r * factor, "atol": r * factor}


SMOOTH = ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Digamma", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Lgamma", "Log", "Log1p"]
SMOOTH += ["Ndtri", "Rsqrt", "Sigmoid", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "Elu", "Selu", "Softplus", "Softsign", "Inv", "Reciprocal"]
EXACT = ["Abs", "Ceil", "Conj", "Floor", "IsFinite", "IsInf", "IsNan", "LogicalNot", "Neg", "Rint", "Round", "Sign", "Square", "Relu", "Relu6"]


@spec(*SMOOTH)
def smooth(d):
    dtype = d.dtype()
    is_complex = tf.as_dtype(dtype).is_complex
    # Of complex numbers infinities and branch cuts are each library's own; large angles are, too.
    special = 0 if is_complex or d.op in ("Lgamma", "Digamma", "Ndtri") else 0.15
    low, high = (-4, 4)
    if d.op in ("Log", "Log1p", "Sqrt", "Rsqrt", "Digamma", "Lgamma", "Inv", "Reciprocal", "Acosh") and d.chance(0.7):
        low = 0.1 if tf.as_dtype(dtype).is_floating else 1
    x = d.values(dtype, d.shape(), low=low, high=high, special=special)
    if d.op in ("Sin", "Cos", "Tan") and tf.as_dtype(dtype).is_floating:
        x = np.where(np.abs(x.astype(np.float64)) > 100, np.asarray(1, x.dtype), x)
    if d.op == "Digamma":
        x = np.abs(x)  # its gradient is Polygamma, which TensorFlow extends to the left of 0 in a way of its own
    tol = loose(dtype, 4 if d.op in ("Erfinv", "Ndtri", "Digamma", "Lgamma", "Tan") or is_complex else 1)
    return C(d.op, x, **tol)


@spec(*EXACT)
def exact(d):
    if d.op == "LogicalNot":
        return C(d.op, d.values(tf.bool, d.shape()))
    dtype = d.dtype()
    if d.op == "Round" and not tf.as_dtype(dtype).is_floating:
        dtype = tf.float32  # of integers TensorFlow's kernel gives 0
    return C(d.op, d.values(dtype, d.shape()))


@spec("Angle", "ComplexAbs", "Imag", "Real")
def parts(d):
    dtype = d.one(tf.complex64, tf.complex128)
    attr = {"Tout": tf.float32 if dtype == tf.complex64 else tf.float64}
    return C(d.op, d.values(dtype, d.shape(), special=0), **loose(dtype), **attr)


@spec("Complex")
def complex_of(d):
    dtype = d.one(tf.float32, tf.float64)
    a, b = d.broadcast()
    return C(d.op, d.values(dtype, a), d.values(dtype, b), Tout=tf.complex64 if dtype == tf.float32 else tf.complex128)


BINARY = ["Add", "AddV2", "Div", "DivNoNan", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "RealDiv", "SquaredDifference", "Sub"]
BINARY += ["TruncateDiv", "TruncateMod", "Xdivy", "Xlog1py", "Xlogy", "Atan2", "Pow"]


@spec(*BINARY)
def binary(d):
    dtype = d.dtype()
    kind = tf.as_dtype(dtype)
    a, b = d.broadcast()
    divides = any(w in d.op for w in ("Div", "Mod", "div"))
    special = 0 if kind.is_complex or d.op in ("FloorMod", "FloorDiv", "Mod", "TruncateMod", "TruncateDiv", "Pow") else 0.15
    x, y = d.values(dtype, a, special=special), d.values(dtype, b, special=special)
    if d.op == "Pow":
        if kind.is_integer:
            # Of exponents below 0 the code depends on the shapes; high powers overflow.
            x, y = d.values(dtype, a, low=-3, high=3, special=0), d.values(dtype, b, low=0, high=4, special=0)
        else:
            x = np.abs(x) if not kind.is_complex else x
    if d.op in ("Xdivy", "Xlogy", "Xlog1py") and dtype == tf.bfloat16:  # is a denormal 0? In TensorFlow's vectors, and not elsewhere
        x = np.where(np.abs(x.astype(np.float64)) < 1.2e-38, np.asarray(0, x.dtype), x)
    if divides and kind.is_integer and not d.chance(0.1):
        y = np.where(y == 0, np.asarray(1, y.dtype), y)
        if not kind.is_unsigned:  # the smallest number by -1 ends TensorFlow's process
            x = np.where(x == np.iinfo(x.dtype).min, np.asarray(0, x.dtype), x)
    if divides and kind.is_floating and "Floor" in d.op or d.op in ("Mod", "TruncateMod", "TruncateDiv") and kind.is_floating:
        y = np.where(np.abs(y.astype(np.float64)) < 0.1, np.asarray(1, y.dtype), y)  # a rounding decides about whole quotients
    return C(d.op, x, y, **loose(dtype, 4 if kind.is_complex else 1))


@spec("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
def compare(d):
    dtype = d.dtype()
    a, b = d.broadcast()
    x, y = d.values(dtype, a, low=-2, high=2), d.values(dtype, b, low=-2, high=2)
    if d.op in ("Equal", "NotEqual"):
        return C(d.op, x, y, incompatible_shape_error=d.chance(0.7))
    return C(d.op, x, y)


@spec("LogicalAnd", "LogicalOr")
def logical(d):
    a, b = d.broadcast()
    return C(d.op, d.values(tf.bool, a), d.values(tf.bool, b))


@spec("ApproximateEqual")
def nearly(d):
    dtype, shape = d.dtype(), d.shape()
    x = d.values(dtype, shape)
    y = x if d.chance(0.3) else d.values(dtype, shape)
    return C(d.op, x, y, tolerance=d.one(1e-5, 0.5, 2.0))


@spec("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "EluGrad", "SeluGrad", "ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad")
def gradients_of(d):
    """The numbers of SigmoidGrad and TanhGrad are not so large that a product of two overflows: the order of TensorFlow's
    product is another for the elements that fill a vector register, and it rounds each product of two halves."""
    dtype, shape = d.dtype(), d.shape()
    special = 0 if tf.as_dtype(dtype).is_complex else 0.05
    x, y = d.values(dtype, shape, special=special), d.values(dtype, shape, special=special)
    if d.chance(0.05):
        y = d.values(dtype, d.shape())
    if d.op in ("SigmoidGrad", "TanhGrad"):
        x, y = (np.where(np.isfinite(v) & (np.abs(v) > 100), np.asarray(1, v.dtype), v) for v in (x, y))
    if tf.as_dtype(dtype).is_complex:
        x = np.where(x == 0, np.asarray(1, x.dtype), x)  # what a division by 0 gives is each library's own
    attrs = {"alpha": d.one(0.2, 0.0, 1.5)} if d.op == "LeakyReluGrad" else {}
    return C(d.op, x, y, **attrs, **loose(dtype, 4))


@spec("LeakyRelu")
def leaky(d):
    dtype = d.dtype("T")
    return C(d.op, d.values(dtype, d.shape()), alpha=d.one(0.2, 0.0, 1.0, 1.5, -0.5))


@spec("Cast")
def cast(d):
    kinds = [tf.bool, tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64, tf.float16, tf.bfloat16, tf.float32, tf.float64]
    kinds += [tf.complex64, tf.complex128]
    src, dst = d.one(*kinds), d.one(*kinds)
    x = d.values(src, d.shape(), special=0.2 if not (dst.is_integer and (src.is_floating or src.is_complex)) else 0)
    if dst.is_unsigned and not src.is_integer and src != tf.bool:
        x = np.abs(x).astype(src.as_numpy_dtype)  # others are undefined
    if src.is_integer and dst == tf.float16:
        x = np.clip(x, *(0 if src.is_unsigned else -100, 100)).astype(src.as_numpy_dtype)
    return C(d.op, x, DstT=dst, Truncate=d.chance(0.1) and dst.is_floating and src.is_floating)


REDUCTIONS = ["Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"]


@spec(*REDUCTIONS)
def reduction(d):
    dtype, shape = d.dtype(), d.shape()
    kind = tf.as_dtype(dtype)
    n = d.int(0, len(shape))
    axes = list(d.rng.permutation(len(shape))[:n])
    axes = [int(a) - (len(shape) if d.chance(0.3) else 0) for a in axes]
    if d.chance(0.05):
        axes = axes + [d.one(len(shape), -len(shape) - 1, 0, 0)]
    low, high = (-2, 2) if d.op == "Prod" else (None, None)
    special = 0.1 if d.op in ("Max", "Min") and kind.is_integer else 0.05
    x = d.values(dtype, shape, low=low, high=high, special=special if not kind.is_complex else 0)
    if d.op in ("Sum", "Mean", "Prod", "EuclideanNorm") and kind.is_floating:
        x = np.where(np.isfinite(x) & (np.abs(x.astype(np.float64)) > 1e4), np.asarray(1, x.dtype), x)  # the order of a sum decides
    index = d.one(np.int32, np.int64)
    many = max(1, int(np.prod(shape)))
    tol = loose(dtype, 2 + many**0.5)
    if axes and len(axes) == 1 and d.chance(0.5):
        return C(d.op, x, index(axes[0]), keep_dims=d.chance(0.4), **tol)
    return C(d.op, x, np.asarray(axes, index), keep_dims=d.chance(0.4), **tol)


@spec("All", "Any")
def of_truth(d):
    shape = d.shape()
    axes = [int(a) for a in d.rng.permutation(len(shape))[: d.int(0, len(shape))]]
    return C(d.op, d.values(tf.bool, shape), np.asarray(axes, d.one(np.int32, np.int64)), keep_dims=d.chance(0.4))


@spec("ArgMax", "ArgMin")
def arg(d):
    dtype, shape = d.dtype(), d.shape()
    x = d.values(dtype, shape, special=0.4) if d.chance(0.5) else d.values(dtype, shape, low=-3, high=3, special=0)
    return C(d.op, x, d.one(np.int32, np.int64)(d.axis(len(shape))), output_type=d.one(tf.int32, tf.int64))


@spec("AddN")
def add_many(d):
    dtype, shape, n = d.dtype(), d.shape(), d.int(1, 4)
    values = [d.values(dtype, shape, special=0) for _ in range(n)]
    if n > 1 and d.chance(0.05):
        values[-1] = d.values(dtype, d.shape())
    return C(d.op, values, **loose(dtype, 4))


@spec("Select")
def select(d):
    dtype, shape = d.one(*ANY), d.shape()
    which = d.values(tf.bool, d.one(shape, shape, shape[:1], (), d.shape()))
    return C(d.op, which, d.values(dtype, shape), d.values(dtype, shape if d.chance(0.95) else d.shape()))


ANY = [tf.bool, tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64, tf.float16, tf.bfloat16, tf.float32, tf.float64]
ANY += [tf.complex64, tf.complex128, tf.string]


@spec("SelectV2")
def select_v2(d):
    dtype = d.one(*ANY)
    a, b, c = d.broadcast(3)
    return C(d.op, d.values(tf.bool, a), d.values(dtype, b), d.values(dtype, c))


@spec("ClipByValue")
def clip(d):
    dtype, shape = d.dtype(), d.shape()
    bounds = d.one((), (), shape, d.shape())
    case = C(d.op, d.values(dtype, shape), d.values(dtype, bounds, special=0), d.values(dtype, bounds, special=0))
    if dtype in (tf.float16, tf.bfloat16):  # that of a scalar bound is a sum of many, which TensorFlow adds up in half
        case.gradient_tolerance = (0.05, 0.05)
    return case


@spec("Polygamma")
def polygamma(d):
    dtype = d.dtype()
    a, b = d.broadcast()
    order = np.asarray(d.rng.integers(1, 5, a)).astype(tf.as_dtype(dtype).as_numpy_dtype)
    return C(d.op, order, d.values(dtype, b, low=0.6, high=4, special=0), **loose(dtype, 20))


@spec("Bincount")
def bincount(d):
    dtype = d.dtype(among=[tf.int32, tf.int64, tf.float32, tf.float64])
    shape = d.shape(max_rank=2)
    weights = d.values(dtype, d.one(shape, (0,), shape, d.shape(max_rank=2)), special=0)
    return C(d.op, d.values(tf.int32, shape, low=-1 if d.chance(0.1) else 0, high=9, special=0), np.int32(d.one(0, 3, 8, -1, 10)), weights, **loose(dtype, 4))


@spec("Softmax", "LogSoftmax")
def softmax(d):
    dtype = d.dtype()
    return C(d.op, d.values(dtype, d.shape(), special=0), **loose(dtype, 10))


@spec("L2Loss")
def l2(d):
    dtype = d.dtype()
    return C(d.op, d.values(dtype, d.shape(), special=0), **loose(dtype, 20))


@spec("BiasAdd", "BiasAddV1")
def bias(d):
    dtype, shape = d.dtype(), d.shape(min_rank=1)
    size = shape[-1] if d.chance(0.95) else d.dim()
    return C(d.op, d.values(dtype, shape), d.values(dtype, (size,)))


@spec("BiasAddGrad")
def bias_grad(d):
    dtype, shape = d.dtype(), d.shape(min_rank=1)
    return C(d.op, d.values(dtype, shape, special=0), **loose(dtype, 4 + max(1, int(np.prod(shape))) ** 0.5))


@spec("SoftmaxCrossEntropyWithLogits")
def cross_entropy(d):
    dtype = d.dtype()
    a, b = d.broadcast(2, wrong=0.05, min_rank=2, max_rank=2, zero=0)
    case = C(d.op, d.values(dtype, a, special=0), np.abs(d.values(dtype, b, special=0)), **loose(dtype, 20))
    case.has_gradient = a == b  # TensorFlow's has the shape of the loss
    return case


@spec("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(d):
    dtype = d.dtype()
    n, k = d.dim(), d.int(1, 6)
    labels = d.rng.integers(0, k, n if d.chance(0.95) else n + 1).astype(d.one(np.int32, np.int64))
    return C(d.op, d.values(dtype, (n, k), special=0), labels, **loose(dtype, 20))
