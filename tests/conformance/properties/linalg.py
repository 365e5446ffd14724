"""Specs of linear algebra: ops/linalg.def.

Matrices are mostly well conditioned: what rounding does to others is not defined. Signs and phases of vectors
are compared as they are: they are those of Eigen for matrices of up to 15 columns.
"""

import numpy as np
import tensorflow as tf

from draw import Program, made_by, spec
from opcase import C

LOOSE = {"rtol": 5e-3, "atol": 4e-3}
TIGHT = {"rtol": 1e-5, "atol": 1e-5}
HALF = {"rtol": 3e-2, "atol": 5e-2}


def tolerance(dtype):
    return HALF if dtype == tf.float16 else TIGHT if dtype in (tf.float64, tf.complex128) else LOOSE


def batch(d):
    return d.shape(max_rank=2, max_dim=3)


def values(d, dtype, shape):
    """Random numbers, now and then with a NaN or an infinity."""
    a = d.values(dtype, shape, special=0)
    if a.size and d.chance(0.04):
        a = a.copy()
        a.flat[d.int(0, a.size - 1)] = d.one(np.nan, np.inf, -np.inf)
    return a


def square(d, dtype, lead, n, singular=0.08):
    """Mostly far from singular; else singular in some plain way. Without NaN: whether Eigen takes one among the pivots
    for singular depends on how its loops are vectorised."""
    a = d.values(dtype, (*lead, n, n), special=0)
    if not a.size:
        return a
    how = d.rng.random()
    if how < singular:
        a = a.copy()
        kind = d.int(0, 2)
        if kind == 0:
            a[...] = 0
        elif kind == 1:
            a[..., d.int(0, n - 1), :] = 0
        else:
            a[..., :, d.int(0, n - 1)] = 0
        return a
    if how < 0.8:
        perm = np.eye(n)[d.rng.permutation(n)]
        return (a + (8 * perm)).astype(a.dtype)
    return a


def malformed(d, shape, wrong=0.04):
    """Another shape, with a chance of `wrong`."""
    if not d.chance(wrong):
        return shape
    kind = d.int(0, 3)
    if kind == 0:
        return shape[1:]
    if kind == 1:
        return (*shape, 2)
    if kind == 2 and shape:
        return (*shape[:-1], shape[-1] + 1)
    return d.one((), (3,), (2, 2))


def dim(d, high=6):
    return d.dim(high, zero=0.06)


@spec("MatrixDeterminant", "LogMatrixDeterminant", "MatrixInverse", "Lu", "BatchMatrixDeterminant", "BatchMatrixInverse")
def of_square(d):
    dtype, n = d.dtype(), dim(d)
    if d.chance(0.05):
        return C(d.op, d.values(dtype, malformed(d, (*batch(d), n, n), 1.0), special=0))
    if d.chance(0.03):
        n = d.int(50, 130)
    a = square(d, dtype, batch(d) if n < 50 else (), n)
    attrs = {}
    if d.op.endswith("MatrixInverse"):
        attrs["adjoint"] = d.chance(0.4)
    if d.op == "Lu":
        attrs["output_idx_type"] = d.one(tf.int32, tf.int64)
    return C(d.op, a, **attrs, **tolerance(dtype))


@spec("Cholesky", "BatchCholesky")
def cholesky(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    if d.chance(0.05):
        return C(d.op, d.values(dtype, d.one((*lead, n, n + 1), (n,), ())))
    if d.chance(0.03):
        n, lead = d.int(40, 90), ()
    a = d.values(dtype, (*lead, n, n), special=0)
    a = (a @ np.conj(np.swapaxes(a, -1, -2)) + 0.5 * np.eye(n)).astype(a.dtype)
    if d.chance(0.5) and n > 1:  # above the diagonal nothing is read
        a = np.where(np.triu(np.ones((n, n), bool), 1), np.asarray(np.nan if d.chance(0.3) else 7, a.dtype), a)
    if n == 1 and d.chance(0.3):  # not positive definite: where n is more, TensorFlow leaves the upper triangle as it was
        a = d.values(dtype, a.shape)
    return C(d.op, a, **tolerance(dtype))


@spec("CholeskyGrad", "BatchCholeskyGrad")
def cholesky_grad(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    l = d.values(dtype, (*lead, n, n), special=0)
    l = (np.tril(l) + 5 * np.eye(n)).astype(l.dtype)
    if d.chance(0.4):
        l = (l + np.triu(np.full((n, n), 3.0), 1)).astype(l.dtype)
    return C(d.op, l, values(d, dtype, malformed(d, l.shape)), **tolerance(dtype))


@spec("MatrixSolve", "BatchMatrixSolve")
def solve(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    rhs = malformed(d, (*lead, n, dim(d, 4)))
    if d.chance(0.04):
        return C(d.op, d.values(dtype, malformed(d, (*lead, n, n), 1.0), special=0), d.values(dtype, rhs))
    return C(d.op, square(d, dtype, lead, n), values(d, dtype, rhs), adjoint=d.chance(0.4), **tolerance(dtype))


@spec("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(d):
    dtype, n = d.dtype(), dim(d)
    lead_a, lead_b = d.broadcast(2, max_rank=2, max_dim=3)
    a = square(d, dtype, lead_a, n, singular=0.03)
    a = (a + 8 * np.eye(n)).astype(a.dtype) if d.chance(0.95) else a
    if d.chance(0.04):
        a = d.values(dtype, malformed(d, a.shape, 1.0))
    b = values(d, dtype, malformed(d, (*lead_b, n, dim(d, 4))))
    return C(d.op, a, b, lower=d.chance(0.5), adjoint=d.chance(0.4), **tolerance(dtype))


@spec("BandedTriangularSolve")
def banded_solve(d):
    """No more bands than rows: TensorFlow reads outside of its matrix then."""
    dtype, n = d.dtype(), d.int(1, 6)
    lead_a, lead_b = d.broadcast(2, max_rank=2, max_dim=3)
    bands = d.int(1, n)
    a = d.values(dtype, (*lead_a, bands, n), special=0)
    lower = d.chance(0.5)
    if a.size:
        a[..., 0 if lower else -1, :] += 9
        if d.chance(0.06):
            a[..., 0 if lower else -1, d.int(0, n - 1)] = 0
    b = values(d, dtype, malformed(d, (*lead_b, n, dim(d, 4))))
    return C(d.op, a, b, lower=lower, adjoint=d.chance(0.4), **tolerance(dtype))


@spec("MatrixSolveLs", "BatchMatrixSolveLs")
def solve_ls(d):
    dtype, m, n, lead = d.dtype(), d.int(1, 6), d.int(1, 6), batch(d)  # TensorFlow gives what is without rows no value
    fast = d.chance(0.5)
    a = values(d, dtype, (*lead, m, n)) if fast else d.values(dtype, (*lead, m, n), special=0)  # a NaN among pivots: as in square()
    a = (a + 6 * np.eye(m, n)).astype(a.dtype)
    if not fast and a.size and d.chance(0.3):  # of lower rank
        a[..., d.int(0, n - 1)] = a[..., d.int(0, n - 1)]
    if d.chance(0.04):
        a = d.values(dtype, malformed(d, a.shape, 1.0))
    rhs = values(d, dtype, malformed(d, (*lead, m, dim(d, 4))))
    l2 = np.asarray(d.one(0.0, 0.0, 0.1, 2.5, -1.0 if d.chance(0.2) else 0.0, np.nan if d.chance(0.2) else 1.0))
    return C(d.op, a, rhs, l2 if d.chance(0.97) else l2.reshape(1), fast=fast, **tolerance(dtype))


@spec("Qr")
def qr(d):
    dtype, lead = d.dtype(), batch(d)
    shape = (*lead, dim(d), dim(d))
    if d.chance(0.04):
        shape = malformed(d, shape, 1.0)
    if d.chance(0.03):
        shape = (d.int(20, 70), d.int(20, 70))
    a = values(d, dtype, shape)
    if a.ndim >= 2 and a.size and a.shape[-1] < 20:
        a = (a + 5 * np.eye(*a.shape[-2:])).astype(a.dtype)
    return C(d.op, a, full_matrices=d.chance(0.5), **tolerance(dtype))


@spec("Svd", "BatchSvd")
def svd(d):
    dtype, lead = d.dtype(), batch(d)
    shape = (*lead, dim(d), dim(d))
    if d.chance(0.04):
        return C(d.op, d.values(dtype, malformed(d, shape, 1.0)))
    compute_uv = d.chance(0.7)
    if d.chance(0.05):
        shape, compute_uv = (d.int(12, 40), d.int(12, 40)), False
    a = values(d, dtype, shape)
    if a.size:  # singular values that are not close to each other
        k = np.arange(1, min(shape[-2:]) + 1)
        a[..., range(len(k)), range(len(k))] += (8 * k).astype(a.dtype)
    full = d.chance(0.3) and abs(shape[-1] - shape[-2]) < 2
    return C(d.op, a, compute_uv=compute_uv, full_matrices=full, outputs=3 if compute_uv else 1, **tolerance(dtype))


def projections(vectors):
    """Of each column: the same for both of its signs, of which rounding chooses now and then."""
    return np.einsum("...ik,...jk->...kij", vectors, vectors)


@spec("BatchSelfAdjointEigV2")
def batch_self_adjoint_eig(d):
    case = made_by(12, self_adjoint_eig(d))
    case.seen = lambda values: [values[0], *map(projections, values[1:])]
    return case


@spec("SelfAdjointEigV2")
def self_adjoint_eig(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    if d.chance(0.05):
        return C(d.op, d.values(dtype, malformed(d, (*lead, n, n), 1.0)))
    if d.chance(0.05):
        n, lead = d.int(10, 15), ()  # of more, rounding decides on the signs
    a = values(d, dtype, (*lead, n, n))
    if d.chance(0.6):
        a = ((a + np.conj(np.swapaxes(a, -1, -2))) / 2).astype(a.dtype)
    a = (a + np.diag(3.0 * d.rng.permutation(n))).astype(a.dtype)
    compute_v = d.chance(0.7)  # else TensorFlow gives v no value
    return C(d.op, a, compute_v=compute_v, outputs=2 if compute_v else 1, **tolerance(dtype))


@spec("SelfAdjointEig", "BatchSelfAdjointEig")
def packed_eig(d):
    """Eigenvalues in the first row, vectors below."""
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    if d.chance(0.05):
        return C(d.op, d.values(dtype, malformed(d, (*lead, n, n), 1.0)))
    a = values(d, dtype, (*lead, n, n))
    if d.chance(0.6):
        a = ((a + np.swapaxes(a, -1, -2)) / 2).astype(a.dtype)
    a = (a + np.diag(3.0 * d.rng.permutation(n))).astype(a.dtype)
    case = made_by(10, C(d.op, a, **tolerance(dtype)))
    case.seen = lambda values: [values[0][..., :1, :], projections(values[0][..., 1:, :])]
    return case


@spec("Eig")
def eig(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    wide = tf.complex64 if dtype in (tf.float32, tf.complex64) else tf.complex128
    if d.chance(0.02):  # there is no such kernel
        wide = tf.complex64 if wide == tf.complex128 else tf.complex128
    if d.chance(0.05):
        return C(d.op, d.values(dtype, (*lead, n, n + 1)), Tout=wide)
    a = values(d, dtype, (*lead, n, n))
    # eigenvalues of different size: two of the same may change places
    a = (a + np.diag(9.0 * (1 + np.arange(n)))).astype(a.dtype)
    compute_v = d.chance(0.7)
    if not dtype.is_complex and np.isfinite(a).all():
        return real_eig(a, wide, compute_v)
    return C(d.op, a, compute_v=compute_v, outputs=2 if compute_v else 1, Tout=wide, **tolerance(dtype))


def real_eig(a, wide, compute_v):
    """In whatever order the eigenvalues of a real matrix come: their sum, that of their squares, and what is left of
    A v - v e."""

    def build():
        matrix = tf.compat.v1.placeholder(a.dtype)
        e, v = tf.raw_ops.Eig(input=matrix, compute_v=compute_v, Tout=wide)
        fetches = [tf.reduce_sum(e, -1), tf.reduce_sum(e * e, -1), tf.shape(e)]
        if compute_v:
            fetches += [tf.linalg.matmul(tf.cast(matrix, wide), v) - v * tf.expand_dims(e, -2), tf.reduce_sum(tf.abs(v) ** 2, -2)]
        return [(fetches, {matrix: a})]

    return Program("Eig", build, **(TIGHT if wide == tf.complex128 else {"rtol": 1e-3, "atol": 2e-2}))


@spec("MatrixSquareRoot", "MatrixLogarithm", "MatrixExponential")
def of_eigenvalues(d):
    dtype, n, lead = d.dtype(), dim(d), batch(d)
    if d.chance(0.05):
        return C(d.op, d.values(dtype, malformed(d, (*lead, n, n), 1.0)))
    a = d.values(dtype, (*lead, n, n), special=0)
    a = (a + (4 + 4 * d.rng.random()) * np.eye(n)).astype(a.dtype)  # no eigenvalue is negative
    return C(d.op, a, **tolerance(dtype))


@spec("TridiagonalSolve")
def tridiagonal_solve(d):
    dtype, n, lead = d.dtype(), d.int(1, 6), batch(d)  # of none, TensorFlow's gradient is malformed
    diagonals = values(d, dtype, malformed(d, (*lead, 3, n)))
    if diagonals.ndim >= 2 and diagonals.size and diagonals.shape[-2] == 3:
        if d.chance(0.8):
            diagonals[..., 1, :] += 7
        if d.chance(0.1):
            diagonals[..., 1, d.int(0, diagonals.shape[-1] - 1)] = 0
        if d.chance(0.04):
            diagonals[...] = 0
    rhs = values(d, dtype, malformed(d, (*lead, n, dim(d, 4))))
    pivoting = d.chance(0.6)
    return C(d.op, diagonals, rhs, partial_pivoting=pivoting, perturb_singular=d.chance(0.4) and (pivoting or d.chance(0.2)), **tolerance(dtype))


@spec("TridiagonalMatMul")
def tridiagonal_product(d):
    dtype, n, lead = d.dtype(), d.dim(6), batch(d)
    n = max(n, 1)  # TensorFlow reads outside of a matrix without rows
    diagonals = [d.values(dtype, malformed(d, (*lead, 1, n), 0.03)) for _ in range(3)]
    return C(d.op, *diagonals, d.values(dtype, malformed(d, (*lead, n, dim(d, 4)), 0.03)), **tolerance(dtype))


@spec("Cross")
def cross(d):
    dtype = d.dtype()
    shape = (*d.shape(max_rank=4), 3)
    shape = malformed(d, shape, 0.1)
    high = {"low": -100, "high": 100} if dtype.is_integer and d.chance(0.3) else {}
    return C(d.op, d.values(dtype, shape, **high), d.values(dtype, shape if d.chance(0.95) else malformed(d, shape, 1.0), **high))


@spec("MatrixBandPart", "BatchMatrixBandPart")
def band_part(d):
    dtype, index = d.dtype(), d.one(tf.int32, tf.int64)
    shape = malformed(d, (*batch(d), dim(d), dim(d)))
    low, high = (np.asarray(d.one(-1, 0, 1, 2, d.int(-3, 7)), index.as_numpy_dtype) for _ in range(2))
    return C(d.op, d.values(dtype, shape), low if d.chance(0.97) else low.reshape(1), high)


@spec("MatMul")
def matmul(d):
    dtype, m, k, n = d.dtype(), dim(d), dim(d), dim(d)
    flip_a, flip_b = d.chance(0.4), d.chance(0.4)
    a = d.values(dtype, malformed(d, (k, m) if flip_a else (m, k)), special=0)
    b = d.values(dtype, malformed(d, (n, k) if flip_b else (k, n)), special=0)
    return C(d.op, a, b, transpose_a=flip_a, transpose_b=flip_b)


@spec("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(d):
    m, k, n = dim(d), dim(d), dim(d)
    lead_a, lead_b = (batch(d),) * 2 if d.op == "BatchMatMul" else d.broadcast(2, max_rank=2, max_dim=3)
    adj_x, adj_y, attrs = d.chance(0.4), d.chance(0.4), {}
    if d.op == "BatchMatMulV3":
        a_type = b_type = d.dtype("Ta", among=[t for t in (tf.bfloat16, tf.float32, tf.float64, tf.int16, tf.int32, tf.int64, tf.complex64, tf.complex128)])
        attrs["Tout"] = a_type
        if d.chance(0.2):
            a_type, b_type, attrs["Tout"] = d.one(tf.int8, tf.uint8), d.one(tf.int8, tf.uint8), tf.int32
    else:
        a_type = b_type = d.dtype()
    a = d.values(a_type, malformed(d, (*lead_a, *((k, m) if adj_x else (m, k)))), special=0)
    b = d.values(b_type, malformed(d, (*lead_b, *((n, k) if adj_y else (k, n)))), special=0)
    return C(d.op, a, b, adj_x=adj_x, adj_y=adj_y, **attrs)
