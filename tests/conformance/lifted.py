"""A tf.function and the variables it captures as a v1 graph: what Keras 3 makes runs in a session, on any server."""

import itertools

import tensorflow as tf
from tensorflow.python.eager import context

v1 = tf.compat.v1


def value_of(eager):
    with context.eager_mode():
        return eager.numpy()


class Variables:
    """Of one graph, for all functions that are lifted into it; `initialise` gives them the values that they had."""

    count = itertools.count()  # servers keep variables from one session to the next: no name comes twice

    def __init__(self):
        self.made = {}

    def handle(self, v):
        if id(v) not in self.made:
            value = value_of(v)
            name = f"lifted_{next(Variables.count)}"
            handle = tf.raw_ops.VarHandleOp(dtype=v.dtype, shape=v.shape, shared_name=name, name=name)
            self.made[id(v)] = handle, tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value, v.dtype))
        return self.made[id(v)][0]

    def initialise(self):
        return tf.group(*(init for _, init in self.made.values()))


class Lifted:
    """Nodes of a tf.function in the current graph: `inputs`, `outputs` and `control`."""

    def __init__(self, function, variables, *specs):
        with context.eager_mode():
            concrete = function.get_concrete_function(*specs)
        inner = concrete.graph
        self.inputs, mapped = [], {}
        captured = {internal.name: external for external, internal in inner.captures}
        handles = {id(v.handle): v for v in inner.variables}
        for port in inner.inputs:
            if port.name not in captured:
                mapped[port.name] = v1.placeholder(port.dtype, port.shape)
                self.inputs.append(mapped[port.name])
                continue
            external = captured[port.name]
            if external.dtype == tf.resource:
                mapped[port.name] = variables.handle(handles[id(external)])
            else:
                mapped[port.name] = tf.constant(value_of(external))
        names = [t.name for t in concrete.outputs if isinstance(t, tf.Tensor)]
        names += [o.name for o in inner.control_outputs]
        found = tf.import_graph_def(inner.as_graph_def(), input_map=mapped, return_elements=names, name="")
        self.outputs = [f for f in found if isinstance(f, tf.Tensor)]
        self.control = [f for f in found if not isinstance(f, tf.Tensor)]
