"""One node of TensorFlow from text; and its kernel, run without a client-side check of shapes or a rewrite of the graph that would do its work."""
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import rewriter_config_pb2  # noqa: F401: ConfigProto's rewrite_options
from tensorflow.python.framework import op_def_registry

import text

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_control_flow_v2()


def config():
    c = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    c.graph_options.optimizer_options.opt_level = -1
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    return c


def proto(value, kind):
    """The AttrValue of a value as text.attribute reads it."""
    a = attr_value_pb2.AttrValue()
    if kind.startswith("list("):
        a.list.SetInParent()
        for v in value:
            one = proto(v, kind[5:-1])
            field = one.WhichOneof("value")
            repeated, item = getattr(a.list, field), getattr(one, field)
            repeated.add().CopyFrom(item) if field == "shape" else repeated.append(item)
        return a
    if kind == "type":
        a.type = value.as_datatype_enum
    elif kind == "shape":
        a.shape.CopyFrom(value.as_proto())
    else:
        setattr(a, {"int": "i", "float": "f", "bool": "b", "string": "s"}[kind], value)
    return a


def arguments(definition, words, count):
    """Of each of `count` inputs: its argument, and its place in it. A list has the length that its attribute says, or what the others leave."""
    lists = [a for a in definition.input_arg if a.number_attr or a.type_list_attr]
    found = []
    for arg in definition.input_arg:
        n = 1
        if arg in lists:
            n = int(words[arg.number_attr]) if arg.number_attr in words else (count - len(definition.input_arg) + len(lists)) // len(lists)
        found += [(arg, k) for k in range(n)]
    return found


def node(graph, op, words, inputs):
    """A node "n" with the inputs given, flat. Attributes are those in `words`, those that the inputs decide, and the defaults."""
    definition = op_def_registry.get(op)
    attrs = {a.name: proto(text.attribute(words[a.name], a.type), a.type) for a in definition.attr if a.name in words}
    for (arg, k), tensor in zip(arguments(definition, words, len(inputs)), inputs):
        dtype = tensor.dtype.base_dtype.as_datatype_enum
        if arg.type_attr and arg.type_attr not in attrs:
            attrs[arg.type_attr] = attr_value_pb2.AttrValue(type=dtype)
        if arg.number_attr and arg.number_attr not in words:
            attrs[arg.number_attr] = attr_value_pb2.AttrValue(i=k + 1)
        if arg.type_list_attr and arg.type_list_attr not in words:
            if k == 0:
                attrs[arg.type_list_attr] = attr_value_pb2.AttrValue()
            attrs[arg.type_list_attr].list.type.append(dtype)
    for a in definition.attr:
        if a.name not in attrs and a.HasField("default_value"):
            attrs[a.name] = a.default_value
        elif a.name not in attrs and a.type == "int":  # the length of a list that is empty
            attrs[a.name] = attr_value_pb2.AttrValue(i=0)
    types = [t.dtype if arg.is_ref else t.dtype.base_dtype for (arg, _), t in zip(arguments(definition, words, len(inputs)), inputs)]
    return graph._create_op_internal(op, inputs, None, types, "n", attrs, definition)


def run(op, attrs, inputs, times=1):
    """`times` runs of one node: for each, its outputs as (array, dtype), or the error it ends with, which is the last."""
    with tf.Graph().as_default() as graph:
        feeds = {v1.placeholder(tf.as_dtype(a.dtype) if a.dtype != object else tf.string): a for a in inputs}
        try:
            made = node(graph, op, text.attribute_words(attrs), list(feeds))
        except (ValueError, TypeError) as e:
            return [e]
        results = []
        with v1.Session(config=config()) as sess:
            for _ in range(times):
                try:
                    values = sess.run(list(made.outputs) or made, feeds)
                except tf.errors.OpError as e:
                    return results + [e]
                results.append([(v, o.dtype) for v, o in zip(values or [], made.outputs)])
        return results
