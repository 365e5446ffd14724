"""tests/ops/testdata/registry.txt: every op as TensorFlow prints it. The names are the source."""
import re

import tensorflow as tf

HERE = "tests/ops/testdata"


def printed(name):
    """What the message about a node with inputs and attributes that no op has says of the op."""
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="c", op="Placeholder").attr["dtype"].type = tf.resource.as_datatype_enum
    graph.node.add(name="n", op=name, input=["c"] * 40)
    with tf.Graph().as_default():
        try:
            tf.import_graph_def(graph, name="")
        except ValueError as e:
            return re.search(r"Op<name=.*>(?=; NodeDef: |$)", str(e))[0]
    raise ValueError(name + " was imported")


def make(root, out):
    names = re.findall(r"^Op<name=(\w+);", (root / HERE / "registry.txt").read_text(), re.M)
    (out / HERE / "registry.txt").write_text("".join(printed(n) + "\n" for n in names))
