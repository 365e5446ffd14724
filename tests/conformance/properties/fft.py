"""Specs of Fourier transforms: ops/fft.def."""

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C

TOLERANCE = {tf.complex64: {"rtol": 1e-4, "atol": 2e-4}, tf.complex128: {"rtol": 1e-10, "atol": 1e-11}}


def rank_of(op):
    return int(op[-2]) if op[-1] == "D" else 1


def values(d, dtype, shape):
    """A transform that has a NaN or an infinity in it has them everywhere, or is one: which, is the algorithm's choice."""
    return d.values(dtype, shape, special=0)


def inner(d, rank, zero=0.0):
    return tuple(d.one(d.dim(9, zero=zero), d.dim(20, zero=zero), d.one(32, 37, 60) if rank == 1 else 4) for _ in range(rank))


@spec("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D")
def complex_transform(d):
    dtype, rank = d.one(tf.complex64, tf.complex128), rank_of(d.op)
    shape = (*d.shape(max_rank=2, max_dim=3), *inner(d, rank, zero=0.03))
    if d.chance(0.05):
        shape = d.shape(max_rank=rank - 1) if d.chance(0.7) else shape + (1,) * (7 - rank)
    return C(d.op, values(d, dtype, shape), **TOLERANCE[dtype])


def lengths(d, dims, rank, to_real):
    """No longer than the input, but for a chance; and not 0, with which TensorFlow ends its process."""
    n = [d.int(1, s) for s in dims]
    if to_real:
        n[-1] = d.one(max(1, 2 * dims[-1] - 2), 2 * dims[-1] - 1, d.int(1, 2 * dims[-1] - 1))
    elif d.chance(0.5):
        n = list(dims)
    if d.chance(0.1):
        n[d.int(0, rank - 1)] = d.one(-1, 100, 2**31 - 1)
    return np.asarray(n, np.int32)


@spec("RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")
def real_transform(d):
    single, rank, to_real = d.chance(0.5), rank_of(d.op), d.op[0] == "I"
    wide = tf.complex64 if single else tf.complex128
    real = tf.float32 if single else tf.float64
    dims = inner(d, rank)
    n = lengths(d, dims, rank, to_real)
    shape = (*d.shape(max_rank=2, max_dim=3, zero=0 if d.op == "RFFT2D" else 0.05), *dims)  # TensorFlow's gradient fails
    if d.chance(0.03):
        shape = d.shape(max_rank=rank - 1)
    if d.chance(0.04):
        n = d.one(n[:-1], np.append(n, np.int32(2)), n.reshape(1, -1))
    attrs = {"Treal": real} if to_real else {"Tcomplex": wide}
    if d.chance(0.03):
        attrs = {"Treal": tf.float64 if single else tf.float32} if to_real else {"Tcomplex": tf.complex128 if single else tf.complex64}
    return C(d.op, values(d, wide if to_real else real, shape), n, **attrs, **TOLERANCE[wide])
