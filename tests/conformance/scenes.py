"""The files that README.md, docs/ and the examples of `--help` speak of, made small: SCENES has what each text finds."""

import os
import sys

import numpy as np
import tensorflow as tf

from documents import REPO

ROWS = 96


def tfrecords(folder, name, number, feature):
    for shard in range(number):
        with tf.io.TFRecordWriter(str(folder / f"{name}-{shard}.tfrecord")) as writer:
            for _ in range(ROWS):
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature())).SerializeToString())


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def bytes_of(text):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))


def from_tensorflow(folder):
    rng = np.random.default_rng(1)
    np.save(folder / "images.npy", rng.random((ROWS, 28, 28, 1), np.float32))
    np.save(folder / "labels.npy", rng.integers(0, 10, ROWS))
    np.save(folder / "tokens.npy", rng.integers(0, 100, (ROWS, 32)).astype(np.int32))
    words = ["good", "bad", "long", "film", "play", "never", "always"]
    lines = [f"{rng.integers(0, 2)}\t{' '.join(rng.choice(words, rng.integers(1, 9)))}" for _ in range(ROWS)]
    (folder / "reviews.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tfrecords(
        folder, "ratings", 2, lambda: {**{k: bytes_of(f"{k} {rng.integers(0, 20)}") for k in ("user", "film")}, "rating": floats(rng.random())}
    )
    keras_model(folder)


def keras_model(folder):
    """model.pb of three numbers a row, its data in arrays, TFRecords and a CSV."""
    sys.path.insert(0, os.path.join(REPO, "python"))
    import keras
    import weft_export

    rng = np.random.default_rng(2)
    model = keras.Sequential([keras.layers.Input((3,), name="x"), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    weft_export.export(model, str(folder / "model.pb"))
    for name in ("", "test_"):
        x = rng.random((ROWS, 3), np.float32)
        np.save(folder / f"{name}x.npy", x)
        np.save(folder / f"{name}y.npy", x.sum(1, keepdims=True))
    tfrecords(folder, "train", 2, lambda: {"x": floats(*rng.random(3)), "y": floats(rng.random())})
    rows = [f"{a:.3f},{b:.3f},{c:.3f},{a + b + c:.3f}" for a, b, c in rng.random((ROWS, 3))]
    (folder / "people.csv").write_text("\n".join(["age,income,height,spent", *rows]) + "\n", encoding="utf-8")


def v1_graph(path, inputs, loss_of):
    """A graph file of TensorFlow 1 with `init`, `train`, `loss`; inputs: name -> (dtype, shape)."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(3)
        loss = tf.identity(loss_of(*[v1.placeholder(dtype, [None, *shape], name) for name, (dtype, shape) in inputs.items()]), "loss")
        v1.train.GradientDescentOptimizer(0.05).minimize(loss, name="train")
        v1.global_variables_initializer()
        tf.io.write_graph(graph, str(path.parent), path.name, as_text=path.suffix == ".pbtxt")


def pictures_loss(images, labels):
    v1 = tf.compat.v1
    x = tf.reshape(images, [-1, 64])
    with v1.variable_scope("conv1"):
        w = v1.get_variable("w", [64, 10], initializer=v1.random_normal_initializer(stddev=0.1))
        b = v1.get_variable("b", [10], initializer=v1.zeros_initializer())
        logits = x @ w + b
    tf.argmax(logits, -1, name="predictions")
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def numbers_loss(x, y):
    v1 = tf.compat.v1
    return tf.reduce_mean(tf.square(x @ v1.get_variable("w", [3, 1], initializer=v1.ones_initializer()) - y))


def tokens_loss(ids, labels):
    v1 = tf.compat.v1
    table = v1.get_variable("table", [50, 8], initializer=v1.random_normal_initializer())
    logits = tf.reduce_mean(tf.gather(table, ids), 1) @ v1.get_variable("w", [8, 10], initializer=v1.random_normal_initializer())
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def digits(folder):
    for name in ("digits.pb", "graph.pb", "graph.pbtxt"):
        v1_graph(folder / name, {"images": (tf.float32, [8, 8]), "labels": (tf.int32, [])}, pictures_loss)
    v1_graph(folder / "transformer.pb", {"ids": (tf.int32, [6]), "labels": (tf.int32, [])}, tokens_loss)
    rng = np.random.default_rng(3)
    for name in ("images", "test"):
        np.save(folder / f"{name}.npy", rng.random((ROWS, 8, 8), np.float32))
    np.save(folder / "labels.npy", rng.integers(0, 10, ROWS, np.int32))


def numbers(folder):
    v1_graph(folder / "graph.pb", {"x": (tf.float32, [3]), "y": (tf.float32, [1])}, numbers_loss)
    rng = np.random.default_rng(4)
    np.save(folder / "x.npy", rng.random((ROWS, 3), np.float32))
    np.save(folder / "y.npy", rng.random((ROWS, 1), np.float32))


class Served(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones([3, 1]))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def predict(self, x):
        return {"y": x @ self.w}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string, "text")])
    def echo(self, text):
        return {"text": tf.strings.upper(text)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")])
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ self.w - y))
        self.w.assign_sub(0.05 * tape.gradient(loss, self.w))
        return {"loss": loss}


def a_sum(folder):
    with tf.Graph().as_default() as graph:
        x, y = (tf.compat.v1.placeholder(tf.float32, [], name) for name in "xy")
        tf.add(x, y, "sum")
        tf.io.write_graph(graph, str(folder), "add.pbtxt")


def served(folder):
    numbers(folder)
    m = Served()
    tf.saved_model.save(m, str(folder / "model_dir"), signatures={"serving_default": m.predict, "echo": m.echo, "train": m.train})


def served_model(folder):
    served(folder)
    keras_model(folder)


def served_graph(folder):
    served(folder)
    digits(folder)


def everything(folder):
    served_graph(folder)
    from_tensorflow(folder)
    digits(folder)
    a_sum(folder)


SCENES = {
    "README.md": everything,
    "docs/clusters.md": keras_model,
    "docs/from_tensorflow.md": from_tensorflow,
    "docs/saved_models.md": served,
    "docs/tensorboard.md": numbers,
    "weft inspect": everything,
    "weft ops": keras_model,
    "weft run": served_model,
    "weft submit": everything,
}
