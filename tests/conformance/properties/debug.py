"""Specs of the debugger's ops: ops/debug.def.

Left out: dumps to URLs, which test_debugger.py reads back, and CheckPinned with a GPU. Of DumpTensor, whose file is whole when the session
has ended, only the file beside it is compared; test_debugger.py reads the tensors. TensorFlow ends the process if it cannot write.
"""

import tempfile

import numpy as np
import tensorflow as tf

from draw import Program, spec, unlisted
from opcase import C

raw = tf.raw_ops
v1 = tf.compat.v1
EVERY = (tf.float32, tf.float64, tf.half, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string)


def any_value(d):
    return d.values(d.one(*EVERY), d.shape())


@spec("CheckNumericsV2")
def check_numerics(d):
    case = C(d.op, d.values(d.dtype(), d.shape(), special=0.3), message=d.one("", "m", "%s"))
    return case


@spec("CheckPinned", "Copy", "CopyHost", "DebugGradientIdentity")
def identity(d):
    case = C(d.op, any_value(d))
    case.has_gradient = False  # the client looks its own debugger up
    return case


@spec("DebugIdentityV2")
def identity_v2(d):
    return C(d.op, any_value(d), debug_urls=["ftp://x"] if d.chance(0.05) else [])


def tensor_name(d):
    return d.one("a", "a:0", "scope/a:3") if d.chance(0.9) else d.one("", "a:b", "a:0:1", ":", "a:-1", "a:99999999999")


def urls(d):
    return ["ftp://x"] if d.chance(0.03) else []


@spec("DebugIdentity", "DebugIdentityV3")
def watched(d):
    return C(d.op, any_value(d), tensor_name=tensor_name(d), device_name=d.one("", "/job:a/device:CPU:0"), debug_urls=urls(d))


@spec("DebugNanCount")
def nan_count(d):
    return C(d.op, d.values(d.dtype(), d.shape(), special=0.4), tensor_name=tensor_name(d), debug_urls=urls(d))


@spec("DebugNumericSummary")
def numeric_summary(d):
    bounds = dict(lower_bound=d.one(-np.inf, -1.0, 0.0), upper_bound=d.one(np.inf, 1.0, 2.5), mute_if_healthy=d.chance(0.3))
    return C(d.op, d.values(d.dtype(), d.shape(), special=0.3), tensor_name=tensor_name(d), debug_urls=urls(d), **bounds)


@spec("DebugNumericSummaryV2")
def numeric_summary_v2(d):
    mode = d.one(2, 3, 4, 5, 8) if d.chance(0.95) else d.one(-1, 0, 1, 6, 7, 9)
    number = d.one(-1, 0, 7, 2**24) if d.chance(0.95) else d.one(2**24 + 1, 2**53 + 1, 2**62)
    return C(d.op, d.values(d.dtype(), d.shape(max_rank=7, max_dim=3), special=0.3), output_dtype=d.one(tf.float32, tf.float64), tensor_debug_mode=mode, tensor_id=number)


@spec("DebugGradientRefIdentity")
def ref_identity(d):
    dtype = d.one(tf.float32, tf.int32, tf.string, tf.bool)
    value = d.values(dtype, d.shape())
    has_value = d.chance(0.8)

    def build():
        variable = raw.VariableV2(shape=value.shape, dtype=dtype, shared_name=f"watched{d.number}")
        y = raw.DebugGradientRefIdentity(input=variable)
        steps = [(tf.compat.v1.assign(variable, value).op, {})] if has_value else []
        return steps + [(tf.identity(y), {})]

    return Program(d.op, build)


@spec("DumpTensor")
def dump(d):
    value = any_value(d)
    attrs = dict(file_name="t.pb", enabled=d.chance(0.8), func_name=d.one("", "f"), node_name=d.one("", "scope/node"))

    def build():
        folder = tempfile.mkdtemp() + "/new"
        x = v1.placeholder(tf.string if value.dtype == object else value.dtype)
        y = unlisted(d.op, tensor_data=x, log_dir_path=folder, **attrs)
        with tf.control_dependencies([y]):
            beside = tf.io.read_file(folder + "/quant_unit.pb")
        return [(beside, {x: value})] * 2

    return Program(d.op, build)
