"""Specs of images: ops/image.def."""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C

# ---- resizing ----


def bent(d, shape, p=0.03):
    """The shape, or with probability p another rank or a dimension of another size."""
    shape = list(shape)
    if d.chance(p):
        return d.one(shape[:-1], shape + [2], [], [0 if i == d.int(0, len(shape) - 1) else s for i, s in enumerate(shape)])
    return shape


def image_shape(d, high=7):
    return [d.dim(3), d.dim(high, zero=0.02), d.dim(high, zero=0.02), d.one(1, 3, 4, d.dim(9, zero=0.02))]


def size(d, high=9):
    if d.chance(0.06):
        return d.one(np.int32([0, 3]), np.int32([3, -1]), np.int32([-1, -1]), np.int32([3]), np.int32([[3, 3]]), np.int32([3, 3, 3]), np.int32(3))
    return np.int32([d.int(1, high), d.int(1, high)])


def resize_attrs(d, half=True):
    attrs = {"align_corners": d.chance(0.3)}
    if half:
        attrs["half_pixel_centers"] = d.chance(0.4) and (not attrs["align_corners"] or d.chance(0.1))
    return attrs


# TensorFlow sums the products of a pixel in another order, so that what cancels out differs by the rounding of the terms.
TERMS = {"rtol": 1e-5, "atol": 1e-4}


def tame(x):
    """Without numbers whose products overflow: where they do depends on the order of the steps."""
    return np.where(np.abs(x.astype(np.float64)) > 1e30, np.asarray(2, x.dtype), x) if x.dtype.kind in "fV" else x


@spec("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor", "ResizeArea")
def resize(d):
    x = d.values(d.dtype(), bent(d, image_shape(d)))
    to = size(d, 20 if d.chance(0.2) else 9)
    if d.chance(0.1) and x.ndim == 4:
        to = np.int32(x.shape[1:3])
    if d.chance(0.03):
        to = np.int32([1, 2000])
    exact = d.op == "ResizeNearestNeighbor"
    return C(d.op, x if exact else tame(x), to, **({} if exact else TERMS), **resize_attrs(d, d.op != "ResizeArea"))


@spec("ResizeBilinearGrad", "ResizeBicubicGrad")
def resize_grad(d):
    x = image_shape(d)
    dy = [x[0], d.dim(9, zero=0.02), d.dim(9, zero=0.02), x[3]]
    dtype = d.dtype()
    # Half sums are kept in single precision and rounded once; the order of the terms is the same.
    return C(d.op, tame(d.values(tf.float32, bent(d, dy))), d.values(dtype, bent(d, x)), **({"atol": 1e-2} if dtype.size == 2 else TERMS), **resize_attrs(d))


@spec("ResizeNearestNeighborGrad")
def resize_nearest_grad(d):
    dy = [d.dim(3), d.dim(9, zero=0.02), d.dim(9, zero=0.02), d.dim(9, zero=0.02)]
    return C(d.op, d.values(d.dtype(), bent(d, dy)), size(d), **resize_attrs(d))


# ---- colour ----


def pixels(d, dtype, min_rank):
    """Colours: with equal channels, grey, black, outside of [0, 1]."""
    shape = d.shape(min_rank - 1, min_rank + 1) + (3,)
    x = d.values(dtype, shape, low=0, high=1, special=0) if d.chance(0.7) else d.values(dtype, shape, special=0)
    if d.chance(0.3) and x.size:
        x[..., 1] = x[..., d.one(0, 2)]
    if d.chance(0.2):
        x = np.round(x.astype(np.float64) * 2).astype(x.dtype) / np.asarray(2, x.dtype)
    if d.chance(0.05):
        x = d.one(x[..., :2], x.reshape(-1), x[..., None])
    return x


@spec("RGBToHSV", "HSVToRGB")
def colour_space(d):
    dtype = d.dtype()
    # Half types: each step is rounded, and a difference of one rounding may be as large as a hue of almost grey.
    return C(d.op, pixels(d, dtype, 1), **({"rtol": 2e-2, "atol": 2e-2} if dtype.size == 2 else {}))


@spec("AdjustHue", "AdjustSaturation", "AdjustContrastv2")
def adjust(d):
    """Infinities are left out: TensorFlow adds turns to a hue for ever."""
    x = pixels(d, tf.float32, 3)
    if d.op == "AdjustContrastv2" and d.chance(0.7):
        x = d.values(tf.float32, d.shape(3, 5, zero=0.03))
        x = np.where(np.abs(x) > 1e30, np.float32(2), x)
    by = np.float32(d.one(0, 0.5, 1, -0.3, -1, d.real(-3, 3), d.real(-3, 3)))
    if d.chance(0.04):
        by = np.float32([0.5])
    return C(d.op, x, by, rtol=2e-5, atol=2e-5)
