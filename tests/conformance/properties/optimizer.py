"""Specs of optimizers: ops/optimizer.def. A variable and its slots take two updates, of which one may be refused."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from draw import Program, spec

v1 = tf.compat.v1
OPS = [op for op in sorted(dir(tf.raw_ops)) if "Apply" in op and not op.startswith("Accumulator") and "AccumulatorApply" not in op]
# What keeps roots and quotients away from where the last bit of a sum decides: slots are not negative, rates are small.
POSITIVE = {"accum", "accum_update", "ms", "mg", "v", "vhat", "gradient_squared_accumulator"}
RATES = {"lr", "alpha", "rho", "beta1", "beta2", "beta1_power", "beta2_power", "momentum", "beta", "sign_decay", "logbase"}


def small(d, dtype, shape, low, high):
    return d.values(dtype, shape, low=low, high=high, special=0)


def scalar(d, name, dtype):
    if name == "lr" and d.chance(0.05):
        return small(d, dtype, (2,), 0.1, 0.9)  # others end TensorFlow's process
    if name == "lr_power":
        return np.asarray(d.one(-0.5, -0.25, -0.8), tf.as_dtype(dtype).as_numpy_dtype)
    if name in ("l1", "l2", "lr", "l2_shrinkage") and d.chance(0.03):
        return np.asarray(-0.5 if d.op.endswith("ApplyFtrl") or d.op.endswith("ApplyFtrlV2") else d.one(0, -0.5), tf.as_dtype(dtype).as_numpy_dtype)
    low, high = (0.1, 0.9) if name in RATES else (0.01, 0.2)
    return np.asarray(d.real(low, high)).astype(tf.as_dtype(dtype).as_numpy_dtype)


@spec(*OPS)
def apply(d):
    definition = op_def_registry.get(d.op)
    # A rounding decides the sign of a small sum, and that half the step: not of the short types.
    dtype = d.dtype(among=[tf.float32, tf.float64]) if "Sign" in d.op else d.dtype()
    is_sparse, is_ref = "Sparse" in d.op, not d.op.startswith("Resource")
    shape = d.shape(min_rank=1 if is_sparse else 0, max_rank=3, zero=0.02)
    rows = d.dim(4) if is_sparse else None
    index_type = d.one(tf.int32, tf.int64)
    bools = {a.name: d.chance(0.5) for a in definition.attr if a.type == "bool"}
    starts, feeds = [], [{}, {}]
    for arg in definition.input_arg:
        if arg.type == tf.resource.as_datatype_enum or arg.is_ref:
            low, high = (0.2, 2) if arg.name in POSITIVE else (-2, 2)
            if arg.name in ("mg", "ms") and "Centered" in d.op:
                low, high = {"mg": (-0.2, 0.2), "ms": (0.5, 2)}[arg.name]
            # Of these two TensorFlow does not look at the shape.
            other = d.shape(min_rank=1, max_rank=2) if len(starts) and arg.name not in ("accum_update", "vhat") and d.chance(0.02) else shape
            starts.append(small(d, dtype, other, low, high))
    grad_shape = (rows, *shape[1:]) if is_sparse else shape
    if d.chance(0.05):  # of a sparse op other ranks end TensorFlow's process
        grad_shape = (d.dim(4), *shape[1:]) if is_sparse else d.shape(max_rank=3)
    for feed in feeds:
        for arg in definition.input_arg:
            if arg.name == "grad":
                feed["grad"] = d.values(dtype, grad_shape, low=-2, high=2, special=0)
            elif arg.name == "indices":
                # TensorFlow applies what comes before a wrong index: nothing is looked at behind it.
                feed["indices"] = d.indices(shape[0], (rows,), index_type, wrong=0.1 if feed is feeds[-1] else 0)
            elif arg.name == "global_step":
                feed["global_step"] = np.int64(d.int(1, 9))
            elif not arg.is_ref and arg.type != tf.resource.as_datatype_enum:
                feed[arg.name] = scalar(d, arg.name, dtype)

    def build():
        variables = [v1.Variable(v1.placeholder_with_default(s, None), use_resource=not is_ref, name=f"{d.op}_{d.number}_{i}", dtype=dtype, validate_shape=False) for i, s in enumerate(starts)]
        ports, left = {}, list(variables)
        for arg in definition.input_arg:
            if arg.is_ref:
                ports[arg.name] = left.pop(0)._ref()
            elif arg.type == tf.resource.as_datatype_enum:
                ports[arg.name] = left.pop(0).handle
            else:
                ports[arg.name] = v1.placeholder(feeds[0][arg.name].dtype)
        step = getattr(tf.raw_ops, d.op)(**ports, **bools)
        step = step.op if isinstance(step, tf.Tensor) else step
        with tf.control_dependencies([step]):
            values = [v.read_value() for v in variables]
        steps = [(tf.group(*(v.initializer for v in variables)), {})]
        for feed in feeds:
            steps.append((values, {ports[k]: x for k, x in feed.items()}))
        return steps

    tolerance = {"float16": (0.02, 0.02), "bfloat16": (0.1, 0.1), "float32": (1e-4, 1e-5), "complex64": (1e-3, 1e-4)}.get(tf.as_dtype(dtype).name, (1e-9, 1e-9))
    return Program(d.op, build, *tolerance)
