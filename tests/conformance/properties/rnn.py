"""Specs of recurrent cells and layers: ops/rnn.def.

Left out: a cell whose operands have too few dimensions, peepholes or gradients of another shape than the state, and
a longest sequence below 0 or above the number of steps. TensorFlow does not check them before it reads, and ends the
process or reads beyond the buffer; its gradients are not defined where there are no cells or no batch. A layer's gates behind its longest
sequence are not defined, so layers are run to their end where all results are looked at.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C, as_input, op_def_registry


def sizes(d, zero=0.05):
    return d.dim(5, zero), d.dim(4, zero), d.dim(4, zero)


def lstm_inputs(d, dtype, batch, n, cell, special=0.1):
    """cs_prev, h_prev, w, wci, wcf, wco, b"""
    shapes = [(batch, cell), (batch, cell), (n + cell, 4 * cell), (cell,), (cell,), (cell,), (4 * cell,)]
    return [d.values(dtype, s, low=-2, high=2, special=special) for s in shapes]


def spoiled(d, inputs, among, p=0.1):
    """With a small chance, one of the inputs has a dimension of another length."""
    if d.chance(p):
        i = d.one(*among)
        x = np.asarray(inputs[i])
        axis = d.int(0, x.ndim - 1)
        shape = list(x.shape)
        shape[axis] += d.one(1, 4)
        inputs[i] = d.values(x.dtype, shape)
    return inputs


def clip(d):
    return d.one(3.0, 0.0, -1.0, 0.25, 1e-3, 50.0)


@spec("LSTMBlockCell")
def lstm_cell(d):
    dtype, (batch, n, cell) = d.dtype(), sizes(d)
    inputs = [d.values(dtype, (batch, n)), *lstm_inputs(d, dtype, batch, n, cell)]
    inputs = spoiled(d, inputs, (0, 1, 2, 3, 7))
    if d.chance(0.03):
        inputs[d.one(4, 5, 6)] = d.values(dtype, (1, cell))
    return C(d.op, *inputs, use_peephole=d.chance(0.5), cell_clip=clip(d), forget_bias=d.one(1.0, 0.0, -0.5, 7.0), label="")


@spec("LSTMBlockCellGrad")
def lstm_cell_grad(d):
    dtype, (batch, n, cell) = d.dtype(), sizes(d)
    inputs = [d.values(dtype, (batch, n)), *lstm_inputs(d, dtype, batch, n, cell)]
    inputs += [d.values(dtype, (batch, cell), low=-1, high=1) for _ in range(8)]
    return C(d.op, *spoiled(d, inputs, (0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15)), use_peephole=d.chance(0.5))


def layer_inputs(d, dtype, time, zero=0.05):
    batch, n, cell = sizes(d, zero)
    return [np.int64(time), d.values(dtype, (time, batch, n)), *lstm_inputs(d, dtype, batch, n, cell)], batch, cell


def bias(d):
    return {"forget_bias": d.one(1.0, 0.0, -0.5)} if d.op == "BlockLSTM" else {}


@spec("BlockLSTM", "BlockLSTMV2")
def lstm_layer(d):
    dtype, time = d.dtype(), d.dim(5)
    inputs, batch, cell = layer_inputs(d, dtype, time)
    attrs = dict(use_peephole=d.chance(0.5), cell_clip=clip(d), **bias(d))
    if d.chance(0.2) and time:
        inputs[0] = np.int64(d.int(0, time - 1))
        return undifferentiated(d, inputs, attrs)
    if not batch or not cell:
        return undifferentiated(d, inputs, attrs)
    if d.chance(0.05):
        inputs[0] = np.asarray([time])
    elif d.chance(0.1):
        i = d.int(1, 8)
        inputs[i] = d.values(dtype, d.shape(max_rank=4))
    return C(d.op, *spoiled(d, inputs, range(2, 9)), **attrs)


def undifferentiated(d, inputs, attrs):
    """Of the steps behind the longest sequence only states have values."""

    def build():
        definition = op_def_registry.get(d.op)
        ports = [tf.compat.v1.placeholder(as_input(v, a).dtype) for v, a in zip(inputs, definition.input_arg)]
        y = getattr(tf.raw_ops, d.op)(**dict(zip([a.name for a in definition.input_arg], ports)), **attrs)
        n = int(inputs[0])
        fetches = [y.cs, y.h, *(getattr(y, name)[:n] for name in ("i", "f", "o", "ci", "co"))]
        return [(fetches, dict(zip(ports, inputs)))]

    return Program(d.op, build)


@spec("BlockLSTMGrad", "BlockLSTMGradV2")
def lstm_layer_grad(d):
    dtype, time = d.dtype(), d.dim(4)
    inputs, batch, cell = layer_inputs(d, dtype, time, zero=0)
    inputs += [d.values(dtype, (time, batch, cell), low=-1, high=1) for _ in range(9)]
    if d.chance(0.3):
        inputs[0] = np.int64(d.int(0, time)) if d.chance(0.8) else np.asarray([time])
    if d.chance(0.1):
        i = d.int(1, 8)
        inputs[i] = d.values(dtype, (1,) * (np.asarray(inputs[i]).ndim + 1))
    return C(d.op, *inputs, use_peephole=d.chance(0.5), rtol=4e-5 if dtype == tf.float32 else 2e-2, atol=4e-6 if dtype == tf.float32 else 2e-2)


def gru_inputs(d, dtype, has_cells=False):
    batch, n, cell = sizes(d)
    cell = max(cell, 1) if has_cells else cell
    shapes = [(batch, n), (batch, cell), (n + cell, 2 * cell), (n + cell, cell), (2 * cell,), (cell,)]
    return [d.values(dtype, s, low=-2, high=2, special=0.1) for s in shapes], batch, cell


@spec("GRUBlockCell")
def gru_cell(d):
    dtype = d.dtype()
    inputs, _, _ = gru_inputs(d, dtype)
    if d.chance(0.1):
        inputs[d.int(0, 5)] = d.values(dtype, d.shape(max_rank=3))
    return C(d.op, *spoiled(d, inputs, range(6), 0.05 if all(i.ndim for i in inputs) else 0))


@spec("GRUBlockCellGrad")
def gru_cell_grad(d):
    dtype = d.dtype()
    inputs, batch, cell = gru_inputs(d, dtype, has_cells=True)
    inputs += [d.values(dtype, (batch, cell), low=-1, high=1) for _ in range(4)]
    if d.chance(0.1):
        inputs[d.int(0, 9)] = d.values(dtype, d.shape(max_rank=3))
    return C(d.op, *spoiled(d, inputs, range(10), 0.05 if all(i.ndim for i in inputs) else 0))
