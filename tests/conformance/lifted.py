"""A tf.function and the variables it captures as a v1 graph: what Keras 3 makes runs in a session, on any server."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class Lifted:
    """Nodes of a tf.function in the current graph: `inputs`, `outputs`, `control`, and `initialise` for its variables."""

    def __init__(self, function, *specs):
        concrete = function.get_concrete_function(*specs)
        inner = concrete.graph
        self.variables = {}
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
                mapped[port.name] = self.variable(handles[id(external)])
            else:
                mapped[port.name] = tf.constant(external.numpy())
        names = [t.name for t in concrete.outputs if isinstance(t, tf.Tensor)]
        names += [o.name for o in inner.control_outputs]
        found = tf.import_graph_def(inner.as_graph_def(), input_map=mapped, return_elements=names, name="")
        self.outputs = [f for f in found if isinstance(f, tf.Tensor)]
        self.control = [f for f in found if not isinstance(f, tf.Tensor)]
        self.initialise = tf.group(*(init for _, init in self.variables.values()))

    def variable(self, v):
        """The handle of a variable of the same kind, which starts at the value that `v` has now."""
        if id(v) not in self.variables:
            with tf.init_scope():
                value = v.numpy()
            name = f"variable_{len(self.variables)}"
            handle = tf.raw_ops.VarHandleOp(dtype=v.dtype, shape=v.shape, shared_name=name, name=name)
            start = tf.constant(np.asarray(value), v.dtype)
            self.variables[id(v)] = handle, tf.raw_ops.AssignVariableOp(resource=handle, value=start)
        return self.variables[id(v)][0]
