"""The layers of networks.py in TensorFlow: graphs for the C API, with constants (inference) or variables (training).

Images are NHWC; even strides pad on both sides, as tf.keras.applications do.
"""

import os

import networks
import numpy as np
import tensorflow as tf

v1, nn = tf.compat.v1, tf.nn


class Layers:
    """`weights` has the values by name and grows by those that are asked for first."""

    def __init__(self, is_training, weights, rng):
        self.is_training, self.weights, self.rng = is_training, weights, rng
        self.initial = {}  # what is fed when variables are initialised
        self.updates = []  # moving averages
        self.made = {}

    def weight(self, name, kind, shape, trainable=True):
        if name in self.made:
            return self.made[name]
        if name not in self.weights:
            self.weights[name] = (kind, networks.initial_value(kind, shape, self.rng))
        value = self.weights[name][1]
        if self.is_training:
            fed = v1.placeholder(tf.float32, value.shape, name=f"{name}_initial")
            self.initial[fed.op.name] = value
            made = v1.Variable(fed, trainable=trainable, use_resource=True, name=name)
        else:
            made = tf.constant(value, name=name)
        self.made[name] = made
        return made

    def padded(self, x, kernel, stride):
        """The image and the padding that is left to the op."""
        if stride == 1 or kernel == 1:
            return x, "SAME"
        side = [(kernel - 1) // 2] * 2
        return tf.pad(x, [[0, 0], side, side, [0, 0]]), "VALID"

    def conv(self, x, filters, kernel, stride, name, bias=False):
        w = self.weight(name, "conv", [kernel, kernel, x.shape[-1], filters])
        x, padding = self.padded(x, kernel, stride)
        y = nn.conv2d(x, w, stride, padding)
        return nn.bias_add(y, self.weight(f"{name}_bias", "zeros", [filters])) if bias else y

    def depthwise(self, x, kernel, stride, name):
        w = self.weight(name, "depthwise", [kernel, kernel, x.shape[-1], 1])
        x, padding = self.padded(x, kernel, stride)
        return nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding)

    def batch_norm(self, x, name, epsilon):
        channels = [x.shape[-1]]
        scale, offset = self.weight(f"{name}_scale", "ones", channels), self.weight(f"{name}_offset", "zeros", channels)
        mean, variance = self.weight(f"{name}_mean", "zeros", channels, False), self.weight(f"{name}_variance", "ones", channels, False)
        if not self.is_training:
            return v1.nn.fused_batch_norm(x, scale, offset, mean, variance, epsilon, is_training=False)[0]
        y, batch_mean, batch_variance = v1.nn.fused_batch_norm(x, scale, offset, epsilon=epsilon, is_training=True)
        self.updates += [mean.assign_sub((mean - batch_mean) * 0.1), variance.assign_sub((variance - batch_variance) * 0.1)]
        return y

    relu, relu6, silu, sigmoid, tanh = map(staticmethod, (nn.relu, nn.relu6, nn.silu, tf.sigmoid, tf.tanh))

    def gelu(self, x, exact):
        return nn.gelu(x, approximate=not exact)

    def max_pool(self, x):
        return nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")  # of values that are not negative

    def image_mean(self, x, keep=False):
        return tf.reduce_mean(x, [1, 2], keepdims=keep)

    def channels(self, x):
        return x.shape[-1]

    def dense(self, x, units, name):
        w, b = self.weight(name, "dense", [x.shape[-1], units]), self.weight(f"{name}_bias", "zeros", [units])
        flat = x if len(x.shape) == 2 else tf.reshape(x, [-1, x.shape[-1]])
        y = nn.bias_add(tf.matmul(flat, w), b)
        return y if len(x.shape) == 2 else tf.reshape(y, [*x.shape[:-1], units])

    def product_transposed(self, x, w):
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), w, transpose_b=True)
        return tf.reshape(y, [*x.shape[:-1], w.shape[0]])

    def layer_norm(self, x, name, epsilon):
        size = [x.shape[-1]]
        scale, offset = self.weight(f"{name}_scale", "ones", size), self.weight(f"{name}_offset", "zeros", size)
        mean, variance = nn.moments(x, -1, keepdims=True)
        return nn.batch_normalization(x, mean, variance, offset, scale, epsilon)

    def table(self, name, rows, size):
        return self.weight(name, "table", [rows, size])

    def lookup(self, ids, table):
        return nn.embedding_lookup(table, ids)

    def split(self, x, parts):
        return tf.split(x, parts, -1)

    def concat(self, parts):
        return tf.concat(parts, -1)

    def attention(self, q, k, v, heads, mask=None, causal=False):
        batch, length, hidden = q.shape

        def by_head(x):
            return tf.transpose(tf.reshape(x, [batch, length, heads, hidden // heads]), [0, 2, 1, 3])

        scores = tf.matmul(by_head(q), by_head(k), transpose_b=True) * (heads / hidden) ** 0.5
        if mask is not None:
            scores += (1.0 - tf.cast(mask, tf.float32))[:, None, None, :] * -1e9
        if causal:
            scores += np.triu(np.full([length, length], -1e9, np.float32), 1)
        y = tf.matmul(nn.softmax(scores), by_head(v))
        return tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [batch, length, hidden])

    def lstm(self, x, units, name):
        batch, length, size = x.shape
        w, u = self.weight(name, "dense", [size, 4 * units]), self.weight(f"{name}_recurrent", "dense", [units, 4 * units])
        b = self.weight(f"{name}_bias", "zeros", [4 * units])
        steps = tf.TensorArray(tf.float32, length).unstack(tf.transpose(x, [1, 0, 2]))
        outputs = tf.TensorArray(tf.float32, length)

        def body(t, h, c, out):
            i, f, g, o = tf.split(nn.bias_add(tf.matmul(steps.read(t), w) + tf.matmul(h, u), b), 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            return t + 1, h, c, out.write(t, h)

        zeros = tf.zeros([batch, units])
        *_, outputs = tf.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros, outputs], maximum_iterations=length)
        y = tf.transpose(outputs.stack(), [1, 0, 2])
        y.set_shape([batch, length, units])
        return y

    def pair_products(self, vectors):
        z = tf.stack(vectors, 1)
        rows, columns = np.tril_indices(len(vectors), -1)
        products = tf.reshape(tf.matmul(z, z, transpose_b=True), [-1, len(vectors) ** 2])
        return tf.gather(products, rows * len(vectors) + columns, axis=1)


def loss(kind, logits, labels):
    if kind == "click":
        return tf.reduce_mean(nn.sigmoid_cross_entropy_with_logits(labels, logits))
    return tf.reduce_mean(nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def write(model, batch, is_training, weights, folder):
    """The graph in `folder`, as session.py loads it. `weights`: see Layers."""
    rng = np.random.default_rng(7)
    inputs, labels = model.data(rng, batch)
    if is_training:
        inputs["labels"] = labels
    with tf.Graph().as_default() as graph:
        net = Layers(is_training, weights, rng)
        fed = {name: v1.placeholder(value.dtype, value.shape, name=name) for name, value in inputs.items()}
        out = model.network(net, *(x for name, x in fed.items() if name != "labels"))
        if is_training:
            out = loss(model.loss, out, fed["labels"])
            with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.01).minimize(out), *net.updates]):
                tf.no_op(name="done")
            tf.group(v1.global_variables_initializer(), name="initial")
        tf.identity(out, name="answer")
    paths = {name: os.path.join(folder, f"{name}.{kind}") for name, kind in (("graph", "pb"), ("feeds", "npz"), ("initial_feeds", "npz"))}
    with open(paths["graph"], "wb") as f:
        f.write(graph.as_graph_def().SerializeToString())
    np.savez(paths["feeds"], **inputs)
    np.savez(paths["initial_feeds"], **net.initial)
    return {**paths, "targets": ["done"] if is_training else [], "initial": ["initial"] if is_training else [], "fetch": "answer"}
