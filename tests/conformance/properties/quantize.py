"""Specs of quantised arithmetic: ops/quantize.def.

QuantizeAndDequantize cannot be tested here: TensorFlow's client refuses it since version 22 of graphs.

Fused ops of which TensorFlow's CPU kernel does nothing unless oneDNN rewrites the graph have no kernel here, either.

Left out: ranges that are NaN or infinite, and NaN where a range is that of the values: what is left of them depends on
how many elements fill a vector register. So does what operands give that both broadcast. """

import numpy as np
import tensorflow as tf
from tensorflow.core.util.quantization.uniform_quant_ops_attr_pb2 import UniformQuantizedConvolutionDimensionNumbersAttr

from draw import spec
from opcase import C

QUANTIZED = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]


def f32(value):
    return np.asarray(value, np.float32)


def quantized(d, dtype, shape, special=0.3):
    """Any integers of the type."""
    base = np.dtype(dtype.as_numpy_dtype)[0]
    info = np.iinfo(base)
    wide = d.chance(0.6)
    x = d.values(dtype, shape, low=info.min if wide else None, high=info.max if wide else None, special=special)
    return x.astype(base).view(dtype.as_numpy_dtype)


def convertible(x):
    """Without the integers that TensorFlow converts to a float beyond int32, and that to int32."""
    base = x.view(x.dtype[0])
    return np.where(np.abs(base.astype(np.float64)) >= 2147483584, 1, base).astype(base.dtype).view(x.dtype)


def bounds(d, wrong=0.02):
    """The ends of a range, mostly with zero in it."""
    if d.chance(0.6):
        low, high = -d.real(0, 8), d.real(0, 8)
    else:
        low, high = d.one((0, 1), (-1, 1), (-6, 6), (0, 255), (-128, 127), (-3, 0), (1, 2), (-5, -2), (0, 0), (2, 2), (-1e-3, 1e-3), (0, 1e6), (-1e4, 1e5), (0.1, 0.1000001))
    if d.chance(wrong):
        low, high = high, low
    return np.float32(low), np.float32(high)


def scalar(d, value, wrong=0.01):
    """As a float scalar, or rarely with a dimension."""
    return f32(value) if d.chance(1 - wrong) else f32([value])


def range_scalars(d):
    low, high = bounds(d)
    return scalar(d, low), scalar(d, high)


def channel_bounds(d, n, wrong=0.03):
    pairs = [bounds(d, 0.01) for _ in range(n)]
    low, high = f32([p[0] for p in pairs]).reshape(n), f32([p[1] for p in pairs]).reshape(n)
    if d.chance(wrong):
        low, high = d.one((low[:-1], high), (low, high[:-1]), (low.reshape(-1, 1), high), (low, np.concatenate([high, high])))
    return low, high


# ---- imitations ----


def bits(d):
    return {"num_bits": d.int(2, 16) if d.chance(0.95) else d.one(1, 0, -1, 17, 32, 2**31 - 1), "narrow_range": d.chance(0.4)}


def near(d, shape, low, high, special=0.15):
    """Values within and beyond the range, some of them in the middle between two steps."""
    span = max(float(high) - float(low), 1e-3)
    x = d.values(tf.float32, shape, low=None, special=special)
    return np.where(np.abs(x) <= 4, np.float32(low) + x * np.float32(span) / 3, x).astype(np.float32)


@spec("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxArgsGradient")
def fake_quant_args(d):
    low, high = bounds(d)
    shape = d.shape()
    x = near(d, shape, low, high)
    attrs = dict(min=float(low), max=float(high), **bits(d))
    if d.op == "FakeQuantWithMinMaxArgs":
        return C(d.op, x, **attrs)
    other = shape if d.chance(0.95) else d.shape()
    return C(d.op, d.values(tf.float32, other), x, **attrs)


@spec("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsGradient")
def fake_quant_vars(d):
    low, high = bounds(d)
    shape = d.shape()
    x = near(d, shape, low, high)
    low, high = scalar(d, low), scalar(d, high)
    if d.op == "FakeQuantWithMinMaxVars":
        return C(d.op, x, low, high, **bits(d))
    other = shape if d.chance(0.95) else d.shape()
    return C(d.op, d.values(tf.float32, other, special=0.05), x, low, high, atol=1e-5, **bits(d))


@spec("FakeQuantWithMinMaxVarsPerChannel", "FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant_channels(d):
    shape = d.shape(min_rank=1, max_rank=4)
    low, high = channel_bounds(d, shape[-1])
    x = near(d, shape, -2, 2)
    if d.op == "FakeQuantWithMinMaxVarsPerChannel":
        return C(d.op, x, low, high, **bits(d))
    other = shape if d.chance(0.95) else d.shape(min_rank=1)
    return C(d.op, d.values(tf.float32, other, special=0.05), x, low, high, atol=1e-5, **bits(d))


def simulated(d, **attrs):
    dtype = d.dtype()
    axis = -1 if d.chance(0.6) else d.int(0, 3)
    shape = d.shape(min_rank=0 if axis == -1 else axis + 1, max_rank=4)
    if d.chance(0.03):
        axis = d.one(-2, -5, 4, 2**31 - 2)
    given = d.chance(0.6)
    x = d.values(dtype, shape, special=0.15 if given else 0)
    n = shape[axis] if 0 <= axis < len(shape) else 3
    low, high = bounds(d) if axis == -1 else channel_bounds(d, n)
    np_type = dtype.as_numpy_dtype
    return x, np.asarray(low, np_type), np.asarray(high, np_type), axis, given


@spec("QuantizeAndDequantize")
def quantize_and_dequantize(d):
    x = d.values(d.dtype(), d.shape(max_rank=4))
    low, high = d.real(-5, 1), d.real(-1, 5)
    num = d.int(1, 16) if d.chance(0.9) else d.one(0, -1, 30, 61, 62, 63, 64)
    return C(d.op, x, signed_input=d.chance(0.6), num_bits=num, range_given=d.chance(0.5), input_min=low, input_max=high)


@spec("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def quantize_and_dequantize_v2(d):
    x, low, high, axis, given = simulated(d)
    num = d.int(1, 16) if d.chance(0.9) else d.one(0, -1, 30, 61, 62, 63, 64)
    return C(d.op, x, low, high, signed_input=d.chance(0.6), num_bits=num, range_given=given, round_mode=d.one("HALF_TO_EVEN", "HALF_UP"), narrow_range=d.chance(0.4), axis=axis)


@spec("QuantizeAndDequantizeV3")
def quantize_and_dequantize_v3(d):
    x, low, high, axis, given = simulated(d)
    num = np.int32(d.int(1, 16) if d.chance(0.9) else d.one(0, -1, 30, 61, 62, 63, 64))
    return C(d.op, x, low, high, num if d.chance(0.97) else num.reshape(1), signed_input=d.chance(0.6), range_given=given, narrow_range=d.chance(0.4), axis=axis)


@spec("QuantizeAndDequantizeV4Grad")
def quantize_and_dequantize_grad(d):
    x, low, high, axis, _ = simulated(d)
    shape = x.shape if d.chance(0.95) else d.shape()
    return C(d.op, d.values(x.dtype, shape), x, low, high, axis=axis)


# ---- to integers and back ----


def sliced(d):
    """A shape, an axis, and a range for each slice."""
    axis = -1 if d.chance(0.6) else d.int(0, 3)
    shape = d.shape(min_rank=0 if axis == -1 else axis + 1, max_rank=4)
    if d.chance(0.03):
        axis = d.one(-2, -5, 4, 2**31 - 2)
    n = shape[axis] if 0 <= axis < len(shape) else 3
    return shape, axis, *(range_scalars(d) if axis == -1 else channel_bounds(d, n))


@spec("QuantizeV2")
def quantize_v2(d):
    dtype = d.dtype(among=QUANTIZED)
    shape, axis, low, high = sliced(d)
    x = d.values(tf.float32, shape, low=-9, high=9)
    if low.ndim == 0:
        x = near(d, shape, low, high, special=0.2)
    x = np.where(np.isnan(x), np.float32(0), x)  # which integer NaN becomes is undefined
    if dtype == tf.qint32:
        x = np.minimum(x, np.float32(-1e-3))  # so is what the end of a range becomes, which lies beyond int32
    mode = d.one("MIN_COMBINED", "MIN_FIRST", "SCALED")
    rounding = "HALF_TO_EVEN" if d.chance(0.5 if mode == "SCALED" else 0.05) else "HALF_AWAY_FROM_ZERO"
    return C(d.op, x, low, high, T=dtype, mode=mode, round_mode=rounding, narrow_range=d.chance(0.4), axis=axis, ensure_minimum_range=d.one(0.01, 0.01, 0.5, 0.0))


@spec("Dequantize")
def dequantize(d):
    dtype = d.dtype(among=QUANTIZED)
    shape, axis, low, high = sliced(d)
    out = d.one(tf.float32, tf.float32, tf.bfloat16)
    mode = d.one("MIN_COMBINED", "MIN_FIRST", "SCALED") if out == tf.float32 or d.chance(0.1) else "MIN_COMBINED"
    return C(d.op, convertible(quantized(d, dtype, shape)), low, high, mode=mode, narrow_range=d.chance(0.4), axis=axis, dtype=out)


# ---- ranges ----


@spec("QuantizeDownAndShrinkRange", "RequantizationRange")
def shrink_range(d):
    low, high = range_scalars(d)
    attrs = {"out_type": tf.quint8} if d.op == "QuantizeDownAndShrinkRange" else {}
    return C(d.op, quantized(d, tf.qint32, d.shape()), low, high, **attrs)


@spec("Requantize")
def requantize(d):
    low, high = range_scalars(d)
    to = range_scalars(d)
    return C(d.op, quantized(d, tf.qint32, d.shape()), low, high, *to, out_type=d.one(tf.quint8, tf.qint8))


def image(d):
    return tuple(d.dim(4, 0.03) for _ in range(4)) if d.chance(0.97) else d.shape(min_rank=1)


@spec("RequantizationRangePerChannel")
def requantization_range_per_channel(d):
    shape = image(d)
    low, high = channel_bounds(d, shape[-1], wrong=0)
    return C(d.op, convertible(quantized(d, tf.qint32, shape)), low, high, clip_value_max=d.one(6.0, 1e30, 0.5))


@spec("RequantizePerChannel")
def requantize_per_channel(d):
    shape = tuple(d.int(1, 4) for _ in range(4))
    low, high = channel_bounds(d, shape[-1], wrong=0)
    to = -d.real(0.1, 8), d.real(0, 8)
    return C(d.op, quantized(d, tf.qint32, shape), low, high, f32(to[0]), f32(to[1]), out_type=d.one(tf.qint8, tf.quint8))


# ---- values that move ----


@spec("QuantizedConcat")
def concat(d):
    dtype = d.dtype(among=QUANTIZED)
    n = d.int(2, 4)
    shape = d.shape(min_rank=1, max_rank=4)
    axis = d.int(0, len(shape) - 1)
    parts = []
    for _ in range(n):
        part = list(shape)
        part[axis] = d.dim(4)
        if d.chance(0.02):
            part = d.shape(min_rank=1, max_rank=4)
        parts.append(quantized(d, dtype, part))
    ranges = [bounds(d, 0) for _ in range(n)]
    if d.chance(0.2):
        ranges = ranges[:1] * n
    axis = np.int32(axis if d.chance(0.96) else d.one(-1, len(shape), 100, -9))
    return C(d.op, axis if d.chance(0.97) else axis.reshape(1), parts, [scalar(d, r[0]) for r in ranges], [scalar(d, r[1]) for r in ranges])


@spec("QuantizedReshape")
def reshape(d):
    shape = d.shape(max_rank=4)
    n = int(np.prod(shape))
    to = d.one((n,), (1, n), (n, 1), (-1,), shape[::-1], (-1, 1), (1, -1, 1))
    if d.chance(0.05):
        to = d.one((n + 1,), (-1, -1), (-2, n), (2**31 - 1, 2**31 - 1))
    low, high = range_scalars(d)
    return C(d.op, quantized(d, d.dtype(among=QUANTIZED), shape), np.asarray(to, d.one(np.int32, np.int64)), low, high)


# ---- arithmetic ----


def small(d, dtype, shape):
    """Integers of 8 bits, of the whole range."""
    return quantized(d, dtype, shape, special=0.3)


@spec("QuantizedAdd", "QuantizedMul")
def pair(d):
    whole = d.shape(min_rank=1, max_rank=4)
    other = d.one(whole, whole, (), (1,), whole[-1:], whole[d.int(0, len(whole)) :])
    if d.chance(0.1):
        other = tuple(1 if d.chance(0.4) else s for s in whole)
    if d.chance(0.03):
        other = d.shape()
    shapes = [whole, other]
    if d.chance(0.5):
        shapes.reverse()
    x, y = (small(d, tf.quint8, s) for s in shapes)
    if not defined_pair(*shapes):
        y = small(d, tf.quint8, shapes[0])
    rx, ry = range_scalars(d), range_scalars(d)
    return C(d.op, x, y, *rx, *ry, Toutput=tf.qint32)


def defined_pair(a, b):
    """Where both operands broadcast TensorFlow leaves a part of the result as it was."""
    try:
        n = int(np.prod(np.broadcast_shapes(a, b)))
    except ValueError:
        return True
    return n <= max(int(np.prod(a)), int(np.prod(b)))


@spec("QuantizedBiasAdd")
def bias_add(d):
    dtype = d.one(tf.quint8, tf.qint8)
    shape = d.shape(min_rank=2, max_rank=4)
    shape = (*shape[:-1], max(1, shape[-1]))
    bias = (shape[-1],) if d.chance(0.96) else d.one((shape[-1] + 1,), (1, shape[-1]))
    if d.chance(0.03):
        shape = shape[:1]
    return C(d.op, small(d, dtype, shape), small(d, dtype, bias), *range_scalars(d), *range_scalars(d), out_type=tf.qint32)


@spec("QuantizedRelu", "QuantizedRelu6")
def relu(d):
    dtype = d.one(tf.quint8, tf.qint32)
    return C(d.op, quantized(d, dtype, d.shape()), *range_scalars(d), out_type=dtype)


# ---- layers ----


@spec("QuantizedAvgPool", "QuantizedMaxPool")
def pool(d):
    k = [d.int(1, 3), d.int(1, 3)]
    strides = [d.int(1, 3), d.int(1, 3)]
    shape = (d.dim(3, 0.03), d.int(1, 7), d.int(1, 7), d.dim(4, 0.03))
    outer = [1, 1]
    if d.chance(0.05):
        outer[d.int(0, 1)] = 2
    if d.chance(0.03):
        shape = shape[:3]
    padding = d.one("SAME", "VALID")
    return C(d.op, small(d, d.one(tf.quint8, tf.qint8), shape), *range_scalars(d), ksize=[outer[0], *k, 1], strides=[1, *strides, outer[1]], padding=padding)


@spec("QuantizedMatMul")
def matmul(d):
    m, k, n = (d.int(1, 6) for _ in range(3))
    ta, tb = d.chance(0.4), d.chance(0.4)
    a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    if d.chance(0.04):
        b = d.one((b[0] + 1, b[1]), (*b, 1), b[:1])
    return C(d.op, small(d, tf.quint8, a), small(d, tf.quint8, b), *range_scalars(d), *range_scalars(d), transpose_a=ta, transpose_b=tb)


def range_with_zero(d):
    """Windows of QuantizedConv2D that reach beyond the image see a zero, which must be an integer of the type."""
    low, high = bounds(d, 0)
    low, high = min(low, np.float32(0)), max(high, np.float32(0.5))
    return scalar(d, low), scalar(d, high)


@spec("QuantizedConv2D")
def conv2d(d):
    k = [d.int(1, 3), d.int(1, 3)]
    s = d.int(1, 3)
    strides = [1, s, s if d.chance(0.95) else s + 1, 1]
    shape = (d.int(1, 3), d.int(3, 7), d.int(3, 7), d.int(1, 4))
    depth = shape[3] if d.chance(0.95) else shape[3] + 1
    return C(d.op, small(d, tf.quint8, shape), small(d, tf.quint8, (*k, depth, d.int(1, 4))), *range_with_zero(d), *range_with_zero(d), out_type=tf.qint32, strides=strides, padding=d.one("SAME", "VALID"))


@spec("QuantizedBatchNormWithGlobalNormalization")
def batch_norm(d):
    shape = tuple(d.dim(4, 0.02) for _ in range(3)) + (d.int(1, 4),)
    parts = []
    for _ in range(4):
        channels = (shape[3],) if d.chance(0.99) else d.one((shape[3], 1), (shape[3] + 1,))
        low, high = bounds(d, 0)
        parts += [small(d, tf.quint8, channels), scalar(d, abs(low) if len(parts) == 3 else low), scalar(d, abs(low) + abs(high) if len(parts) == 3 else high)]
    if d.chance(0.02):
        shape = shape[1:]
    return C(d.op, small(d, tf.quint8, shape), *range_scalars(d), *parts, out_type=tf.qint32, variance_epsilon=d.one(1e-3, 0.1), scale_after_normalization=d.chance(0.6))


@spec("QuantizedInstanceNorm")
def instance_norm(d):
    shape = tuple(d.int(1, 4) for _ in range(4))
    low, high = bounds(d)
    given = {"output_range_given": d.chance(0.4), "given_y_min": float(low), "given_y_max": float(high)}
    return C(d.op, small(d, tf.quint8, shape), *range_scalars(d), variance_epsilon=d.one(1e-5, 1e-2), min_separation=d.one(1e-3, 0.5), **given)


# ---- uniform quantisation ----


def scale(d):
    return d.one(0.5, 1.0, 0.1, 2.0, 3e-3, d.real(0.01, 4)) if d.chance(0.98) else d.one(0.0, -1.0, 1e-30, 1e30)


def scales(d, shape, axis, zero=None):
    """One scale and zero point, or one of each slice."""
    low, high = (-8, 8) if zero is None else zero
    if axis == -1:
        s, z = f32(scale(d)), np.int32(d.int(low, high))
    else:
        n = shape[axis] if axis < len(shape) else 2
        s, z = f32([scale(d) for _ in range(n)]), np.asarray([d.int(low, high) for _ in range(n)], np.int32)
    if d.chance(0.02):
        s = s.reshape(*s.shape, 1)
    return s, np.asarray(z)


def uniform_axis(d, rank):
    return -1 if rank == 0 or d.chance(0.5) else d.int(0, rank - 1) if d.chance(0.97) else rank


def limits(d, name="quantization", narrow=True):
    low, high = d.one((-128, 127), (-127, 127), (-10, 20), (-1000, 1000), (-(2**31), 2**31 - 1)) if not narrow else d.one((-128, 127), (-127, 127), (-10, 20))
    return {f"{name}_min_val": low, f"{name}_max_val": high}


@spec("UniformQuantize")
def uniform_quantize(d):
    dtype = d.one(tf.qint8, tf.qint32)
    shape = d.shape(max_rank=4)
    axis = uniform_axis(d, len(shape))
    x = d.values(tf.float32, shape, low=-30, high=30)
    return C(d.op, x, *scales(d, shape, axis), Tout=dtype, quantization_axis=axis, **limits(d, narrow=dtype == tf.qint8))


@spec("UniformDequantize")
def uniform_dequantize(d):
    shape = d.shape(max_rank=4)
    axis = uniform_axis(d, len(shape))
    return C(d.op, quantized(d, d.one(tf.qint8, tf.qint32), shape), *scales(d, shape, axis), Tout=tf.float32, quantization_axis=axis, **limits(d))


@spec("UniformRequantize")
def uniform_requantize(d):
    shape = d.shape(max_rank=4)
    axis = uniform_axis(d, len(shape))
    out_axis = axis if d.chance(0.6) else -1
    if d.chance(0.5):
        axis, out_axis = out_axis, axis
    if d.chance(0.02):
        axis, out_axis = 0, 1
    attrs = dict(input_quantization_axis=axis, output_quantization_axis=out_axis, **limits(d, "input_quantization"), **limits(d, "output_quantization"))
    return C(d.op, convertible(quantized(d, d.one(tf.qint8, tf.qint32), shape)), *scales(d, shape, axis), *scales(d, shape, out_axis), Tout=tf.qint8, **attrs)


@spec("UniformQuantizedClipByValue")
def uniform_clip(d):
    shape = d.shape(max_rank=4)
    axis = uniform_axis(d, len(shape))
    s, z = scales(d, shape, axis)
    low, high = (quantized(d, tf.qint32, s.shape if d.chance(0.98) else (3,)) for _ in range(2))
    return C(d.op, quantized(d, tf.qint32, shape), low, high, s, z, quantization_axis=axis, **limits(d))


@spec("UniformQuantizedAdd")
def uniform_add(d):
    shape = d.shape(min_rank=1, max_rank=4, zero=0.02)
    lhs, rhs = shape, tuple(1 if d.chance(0.2) else s for s in shape)
    if d.chance(0.1):
        rhs = shape[-1:]
    if d.chance(0.5):
        lhs, rhs = rhs, lhs
    axis = [-1, -1, -1]
    if len(lhs) == len(rhs) and d.chance(0.5):
        axis = [d.int(0, len(lhs) - 1)] * 3
        if d.chance(0.3):
            axis[1] = -1
        if d.chance(0.3):
            axis[2] = -1
    out = np.broadcast_shapes(lhs, rhs)
    if axis[2] >= 0 and axis[1] < 0 and rhs[axis[2]] > out[axis[2]]:
        axis = [-1, -1, -1]
    attrs = {f"{n}_quantization_axis": a for n, a in zip(("lhs", "rhs", "output"), axis)}
    for n in ("lhs", "rhs", "output"):
        attrs.update(limits(d, f"{n}_quantization", narrow=False))
    parts = [scales(d, s, a) for s, a in zip((lhs, rhs, out), axis)]
    if any(s.size and float(np.max(np.abs(s))) > 100 or 0 < float(np.min(s, initial=1)) < 1e-6 for s, _ in parts):
        parts = [(np.ones_like(s), z) for s, z in parts]  # such scales give sums that int32 has not, which are undefined
    x, y = (d.values(tf.int32, s, low=-(10**6), high=10**6, special=0).view(tf.qint32.as_numpy_dtype) for s in (lhs, rhs))
    return C(d.op, x, y, *parts[0], *parts[1], *parts[2], **attrs)


def product_attrs(d, rhs_axis, out_axis):
    attrs = {"lhs_quantization_axis": -1 if d.chance(0.98) else 0, "rhs_quantization_axis": rhs_axis, "output_quantization_axis": out_axis}
    for n in ("lhs", "rhs", "output"):
        attrs.update(limits(d, f"{n}_quantization", narrow=n != "output"))
    return attrs


@spec("UniformQuantizedDot", "UniformQuantizedDotHybrid")
def uniform_dot(d):
    m, k, n = d.dim(5, 0.03), d.int(1, 6), d.dim(5, 0.03)
    rhs_shape = (k, n) if d.chance(0.97) else d.one((k + 1, n), (k, n, 1))
    axis = d.one(-1, 1)
    rhs = quantized(d, tf.qint8, rhs_shape)
    rhs_scales = scales(d, rhs_shape, axis, (-3, 3))
    if d.op == "UniformQuantizedDotHybrid":
        x = d.values(tf.float32, (m, k), special=0)
        return C(d.op, x, rhs, *rhs_scales, Tout=tf.float32, rhs_quantization_axis=axis, **limits(d, "rhs_quantization"))
    out_axis = axis if d.chance(0.6) else -1
    out = scales(d, (m, n), out_axis)
    return C(d.op, quantized(d, tf.qint8, (m, k)), rhs, *scales(d, (), -1), *rhs_scales, *out, Tout=tf.qint32, **product_attrs(d, axis, out_axis))


@spec("UniformQuantizedConvolution", "UniformQuantizedConvolutionHybrid")
def uniform_conv(d):
    space = d.int(1, 3)
    fg, bg = d.one((1, 1), (1, 1), (2, 1), (1, 2), (3, 1))
    ic, oc, n = d.int(1, 3), d.int(1, 2) * fg * bg, d.int(1, 2) * bg
    k = [d.int(1, 3) for _ in range(space)]
    sizes = [d.int(1, 6) for _ in range(space)]
    numbers = UniformQuantizedConvolutionDimensionNumbersAttr()
    perms = [list(range(space + 2)) for _ in range(3)]
    if d.chance(0.5):
        perms = [[int(v) for v in d.rng.permutation(space + 2)] for _ in range(3)]
        (numbers.input_batch_dimension, numbers.input_feature_dimension), numbers.input_spatial_dimensions[:] = perms[0][:2], perms[0][2:]
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension), numbers.kernel_spatial_dimensions[:] = perms[1][:2], perms[1][2:]
        (numbers.output_batch_dimension, numbers.output_feature_dimension), numbers.output_spatial_dimensions[:] = perms[2][:2], perms[2][2:]
    lhs_shape, rhs_shape = placed(perms[0], [n, ic * fg, *sizes]), placed(perms[1], [oc, ic, *k])
    if d.chance(0.03):
        rhs_shape[d.int(0, space + 1)] += 1
    padding = d.one("SAME", "VALID", "EXPLICIT")
    attrs = {
        "window_strides": [d.int(1, 3) for _ in range(space)] if d.chance(0.6) else [],
        "padding": padding if d.chance(0.98) else "ALL",
        "explicit_padding": [d.int(0, 2) for _ in range(2 * space)] if padding == "EXPLICIT" else [],
        "lhs_dilation": [d.int(1, 2) for _ in range(space)] if d.chance(0.3) else [],
        "rhs_dilation": [d.int(1, 2) for _ in range(space)] if d.chance(0.3) else [],
        "feature_group_count": fg,
        "batch_group_count": bg,
        "dimension_numbers": numbers.SerializeToString() if d.chance(0.98) else b"\xff\xff",
    }
    if d.chance(0.03):
        attrs[d.one("window_strides", "lhs_dilation", "rhs_dilation")] = d.one([0] * space, [1] * (space + 1))
    rhs_axis = -1 if d.chance(0.5) else perms[1][0]
    rhs = quantized(d, tf.qint8, rhs_shape)
    rhs_scales = scales(d, rhs_shape, rhs_axis, (-3, 3))
    if d.op == "UniformQuantizedConvolutionHybrid":
        x = d.values(tf.float32, lhs_shape, special=0)
        return C(d.op, x, rhs, *rhs_scales, Tout=tf.float32, rhs_quantization_axis=rhs_axis, **limits(d, "rhs_quantization"), **attrs)
    sliced = rhs_axis != -1 and d.chance(0.6)
    out = scales(d, rhs_shape, rhs_axis if sliced else -1)
    return C(d.op, quantized(d, tf.qint8, lhs_shape), rhs, *scales(d, (), -1), *rhs_scales, *out, Tout=tf.qint32, **product_attrs(d, rhs_axis, perms[2][1] if sliced else -1), **attrs)


def placed(perm, sizes):
    shape = [0] * len(perm)
    for dim, size in zip(perm, sizes):
        shape[dim] = size
    return shape
