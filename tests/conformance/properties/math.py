"""Specs of arithmetic: ops/math.def."""

from draw import spec
from opcase import C


@spec("Cumsum", "Cumprod")
def cumulate(d):
    dtype, shape = d.dtype(), d.shape()
    return C(d.op, d.values(dtype, shape), d.axis(len(shape)), exclusive=d.chance(0.3), reverse=d.chance(0.3))
