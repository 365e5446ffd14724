"""Specs of dead and live values, frames and references: ops/control_flow.def.

Left out: fetches of dead values, which sessions of one process and of servers refuse with other codes; Abort, of which TensorFlow's process ends: test_errors.py has it; graphs whose frames do not
fit together, which each runtime refuses in its own place.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec, unlisted

raw = tf.raw_ops
v1 = tf.compat.v1
EVERY = (tf.float32, tf.float64, tf.half, tf.int8, tf.int32, tf.int64, tf.uint8, tf.bool, tf.complex64, tf.string)


def port_of(value):
    return v1.placeholder(value.dtype if value.dtype != object else tf.string)


def any_value(d):
    return d.values(d.one(*EVERY), d.shape(max_rank=3))


@spec("Switch", "Merge")
def switch_and_merge(d):
    """One of the two outputs is alive."""
    value, pred = any_value(d), d.chance(0.5)
    where = np.asarray(pred) if d.chance(0.95) else np.asarray([pred])

    def build():
        x, p = port_of(value), v1.placeholder(tf.bool)
        no, yes = raw.Switch(data=x, pred=p)
        merged, index = raw.Merge(inputs=[tf.identity(no), tf.identity(yes)])
        feeds = {x: value, p: where}
        return [([merged, index], feeds), (yes if pred else no, feeds), ([merged, index], {**feeds, p: np.logical_not(where)})]

    return Program(d.op, build)


@spec("_SwitchN")
def switch_n(d):
    value, n = any_value(d), d.int(1, 4)
    index = d.int(0, n - 1) if d.chance(0.7) else d.one(-1, n, 100)

    def build():
        x, i = port_of(value), v1.placeholder(tf.int32)
        outs = unlisted("_SwitchN", data=x, output_index=i, num_outs=n).outputs
        merged, which = raw.Merge(inputs=[tf.identity(o) for o in outs])
        return [([merged, which], {x: value, i: index})]

    return Program(d.op, build)


@spec("Enter", "Exit", "NextIteration", "LoopCond")
def frames(d):
    """A loop by hand: a counter, a value that grows, and a constant."""
    limit, value = d.int(0, 6), d.values(tf.float32, d.shape(max_rank=2), special=0)
    parallel = d.one(1, 2, 10)
    scalar = d.chance(0.95)

    def build():
        x, n = v1.placeholder(tf.float32), v1.placeholder(tf.int32)

        def enter(t, constant=False):
            return raw.Enter(data=t, frame_name="frame", is_constant=constant, parallel_iterations=parallel)

        i, v, last = enter(tf.constant(0)), enter(x), enter(n, True)
        i, _ = raw.Merge(inputs=[i, i])
        v, _ = raw.Merge(inputs=[v, v])
        go = raw.LoopCond(input=raw.Less(x=i, y=last))
        i_out, i_in = raw.Switch(data=i, pred=go)
        v_out, v_in = raw.Switch(data=v, pred=go)
        with tf.control_dependencies([i_in]):
            one, two = tf.constant(1), tf.constant(2.0)
        i.op._update_input(1, raw.NextIteration(data=i_in + one))
        v.op._update_input(1, raw.NextIteration(data=v_in * two))
        return [([raw.Exit(data=i_out), raw.Exit(data=v_out)], {x: value, n: limit if scalar else [limit]})]

    return Program(d.op, build)


@spec("ControlTrigger")
def control_trigger(d):
    """Runs also behind a dead value."""
    pred = d.chance(0.5)

    def build():
        p = v1.placeholder(tf.bool)
        no, yes = raw.Switch(data=1.0, pred=p)
        with tf.control_dependencies([tf.identity(no), tf.identity(yes)]):
            trigger = raw.ControlTrigger()
        with tf.control_dependencies([trigger]):
            after = tf.constant(5)
        return [(after, {p: pred})]

    return Program(d.op, build)


# ---- references ----


def variable(d, name, value):
    return v1.get_variable(f"{name}_{d.op}_{d.number}", value.shape, value.dtype if value.dtype != object else tf.string, trainable=False, use_resource=False, initializer=v1.zeros_initializer() if value.dtype != object else v1.constant_initializer(""))


REFERENCED = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)


@spec("RefSwitch", "RefMerge", "RefIdentity", "RefSelect")
def references(d):
    """What is written through the reference that comes out is in the variable behind it."""
    dtype = d.one(*REFERENCED)
    shape = d.shape(max_rank=2)
    values = [d.values(dtype, shape) for _ in range(3)]
    pred, index = d.chance(0.5) or d.op == "RefSwitch", d.int(0, 1) if d.chance(0.9) else d.one(-1, 2)
    has_value = d.chance(0.85)

    def build():
        a, b = (variable(d, n, v) for n, v in zip("ab", values))
        p, i = v1.placeholder(tf.bool), v1.placeholder(tf.int32)
        if d.op == "RefSelect":
            out = raw.RefSelect(index=i, inputs=[a._ref(), b._ref()])
        elif d.op == "RefIdentity":
            out = raw.RefIdentity(input=a._ref())
        else:
            no, yes = raw.RefSwitch(data=a._ref(), pred=p)
            out = raw.RefMerge(inputs=[raw.RefIdentity(input=no), raw.RefIdentity(input=yes)])[0] if d.op == "RefMerge" else yes
        write = v1.assign(out, values[2])
        feeds = {p: pred, i: index}
        steps = [([v1.assign(a, values[0]).op, v1.assign(b, values[1]).op], {})] if has_value else []
        return steps + [(tf.identity(out), feeds), (write.op, feeds), ([tf.identity(a), tf.identity(b)], {})]

    return Program(d.op, build)


@spec("RefEnter", "RefExit", "RefNextIteration")
def reference_frames(d):
    """A reference goes into a frame, around once, and out."""
    value = d.values(d.one(*REFERENCED), d.shape(max_rank=2))
    rounds = d.int(0, 3)

    def build():
        a = variable(d, "a", value)
        n = v1.placeholder(tf.int32)
        i = raw.Enter(data=tf.constant(0), frame_name="refs")
        r = raw.RefEnter(data=a._ref(), frame_name="refs")
        last = raw.Enter(data=n, frame_name="refs", is_constant=True)
        i, _ = raw.Merge(inputs=[i, i])
        r, _ = raw.RefMerge(inputs=[r, r])
        go = raw.LoopCond(input=raw.Less(x=i, y=last))
        i_out, i_in = raw.Switch(data=i, pred=go)
        r_out, r_in = raw.RefSwitch(data=r, pred=go)
        with tf.control_dependencies([i_in]):
            one = tf.constant(1)
        i.op._update_input(1, raw.NextIteration(data=i_in + one))
        r.op._update_input(1, raw.RefNextIteration(data=r_in))
        return [(v1.assign(a, value).op, {}), ([raw.Exit(data=i_out), tf.identity(raw.RefExit(data=r_out))], {n: rounds})]

    return Program(d.op, build)
