"""The models of compare_models, each written once against a few layers: layers_tensorflow.py and layers_torch.py carry them out.

Sizes are the published ones; weights are random, the same for all makers. There is no dropout: it would make every maker's
step another one. `net` has the layers; what it is given and returns are images or sequences with the batch first.

  resnet50        He et al. 2015, with the stride in the 3x3 convolution ("v1.5"), 224x224, 25.6 million parameters
  mobilenet_v2    Sandler et al. 2018, width 1, 224x224, 3.5 million
  efficientnet_b0 Tan and Le 2019, 224x224, 5.3 million
  bert_base       Devlin et al. 2018, sequences of 128, classes of pairs, 109 million
  gpt2_small      Radford et al. 2019, sequences of 128, 124 million
  lstm            the "medium" language model of Zaremba et al. 2014: two layers of 650, 35 steps, 20 million
  wide_deep       Cheng et al. 2016: a linear model beside 1024-512-256 over embeddings of 32; Criteo's 13 + 26 features
  dlrm            Naumov et al. 2019: 13-512-256-64-16, dot products of 27 vectors, 512-256-1

Tables of wide_deep and dlrm have 20,000 and 40,000 rows a feature: a look-up costs the same in larger ones, once both are
larger than the caches.
"""

import collections

import numpy as np

IMAGE, SEQUENCE, WORDS = 224, 128, 35
BERT_WORDS, GPT2_WORDS, LSTM_WORDS = 30522, 50257, 10000
DENSE_FEATURES, FEATURES, WIDE_ROWS, DLRM_ROWS = 13, 26, 20000, 40000


def resnet50(net, image):
    def convolved(x, filters, kernel, stride, name):
        return net.batch_norm(net.conv(x, filters, kernel, stride, name), f"{name}_bn", 1e-5)

    x = net.max_pool(net.relu(convolved(image, 64, 7, 2, "stem")))
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(blocks):
            stride, name = 2 if stage > 0 and i == 0 else 1, f"stage{stage}_block{i}"
            shortcut = x if i > 0 else convolved(x, 4 * filters, 1, stride, f"{name}_shortcut")
            y = net.relu(convolved(x, filters, 1, 1, f"{name}_a"))
            y = net.relu(convolved(y, filters, 3, stride, f"{name}_b"))
            x = net.relu(convolved(y, 4 * filters, 1, 1, f"{name}_c") + shortcut)
    return net.dense(net.image_mean(x), 1000, "classes")


def mobilenet_v2(net, image):
    def convolved(x, filters, kernel, stride, name):
        return net.batch_norm(net.conv(x, filters, kernel, stride, name), f"{name}_bn", 1e-3)

    x = net.relu6(convolved(image, 32, 3, 2, "stem"))
    for stage, (expansion, filters, blocks, first_stride) in enumerate(
        ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    ):
        for i in range(blocks):
            stride, name, channels = first_stride if i == 0 else 1, f"stage{stage}_block{i}", net.channels(x)
            y = x if expansion == 1 else net.relu6(convolved(x, channels * expansion, 1, 1, f"{name}_expand"))
            y = net.relu6(net.batch_norm(net.depthwise(y, 3, stride, f"{name}_depthwise"), f"{name}_depthwise_bn", 1e-3))
            y = convolved(y, filters, 1, 1, f"{name}_project")
            x = x + y if stride == 1 and channels == filters else y
    return net.dense(net.image_mean(net.relu6(convolved(x, 1280, 1, 1, "head"))), 1000, "classes")


def efficientnet_b0(net, image):
    def convolved(x, filters, kernel, stride, name):
        return net.batch_norm(net.conv(x, filters, kernel, stride, name), f"{name}_bn", 1e-3)

    x = net.silu(convolved(image, 32, 3, 2, "stem"))
    for stage, (expansion, filters, blocks, first_stride, kernel) in enumerate(
        ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))
    ):
        for i in range(blocks):
            stride, name, channels = first_stride if i == 0 else 1, f"stage{stage}_block{i}", net.channels(x)
            y = x if expansion == 1 else net.silu(convolved(x, channels * expansion, 1, 1, f"{name}_expand"))
            y = net.silu(net.batch_norm(net.depthwise(y, kernel, stride, f"{name}_depthwise"), f"{name}_depthwise_bn", 1e-3))
            squeezed = net.silu(net.conv(net.image_mean(y, True), max(1, channels // 4), 1, 1, f"{name}_squeeze", bias=True))
            y = y * net.sigmoid(net.conv(squeezed, net.channels(y), 1, 1, f"{name}_excite", bias=True))
            y = convolved(y, filters, 1, 1, f"{name}_project")
            x = x + y if stride == 1 and channels == filters else y
    return net.dense(net.image_mean(net.silu(convolved(x, 1280, 1, 1, "head"))), 1000, "classes")


def bert_base(net, ids, mask, layers=12, hidden=768, heads=12):
    x = net.lookup(ids, net.table("words", BERT_WORDS, hidden))
    x = x + net.table("positions", 512, hidden)[:SEQUENCE] + net.table("segments", 2, hidden)[0]
    x = net.layer_norm(x, "embedded", 1e-12)
    for i in range(layers):
        q, k, v = (net.dense(x, hidden, f"layer{i}_{part}") for part in ("query", "key", "value"))
        y = net.dense(net.attention(q, k, v, heads, mask=mask), hidden, f"layer{i}_out")
        x = net.layer_norm(x + y, f"layer{i}_norm_a", 1e-12)
        y = net.dense(net.gelu(net.dense(x, 4 * hidden, f"layer{i}_wide"), exact=True), hidden, f"layer{i}_narrow")
        x = net.layer_norm(x + y, f"layer{i}_norm_b", 1e-12)
    return net.dense(net.tanh(net.dense(x[:, 0], hidden, "pooled")), 2, "classes")


def gpt2_small(net, ids, layers=12, hidden=768, heads=12):
    words = net.table("words", GPT2_WORDS, hidden)
    x = net.lookup(ids, words) + net.table("positions", 1024, hidden)[:SEQUENCE]
    for i in range(layers):
        y = net.layer_norm(x, f"layer{i}_norm_a", 1e-5)
        q, k, v = net.split(net.dense(y, 3 * hidden, f"layer{i}_qkv"), 3)
        x = x + net.dense(net.attention(q, k, v, heads, causal=True), hidden, f"layer{i}_out")
        y = net.layer_norm(x, f"layer{i}_norm_b", 1e-5)
        x = x + net.dense(net.gelu(net.dense(y, 4 * hidden, f"layer{i}_wide"), exact=False), hidden, f"layer{i}_narrow")
    x = net.layer_norm(x if net.is_training else x[:, -1], "last", 1e-5)
    return net.product_transposed(x, words)


def lstm(net, ids, layers=2, units=650):
    x = net.lookup(ids, net.table("words", LSTM_WORDS, units))
    for i in range(layers):
        x = net.lstm(x, units, f"layer{i}")
    return net.dense(x if net.is_training else x[:, -1], LSTM_WORDS, "next")


def wide_deep(net, dense, ids):
    parts, wide = [dense], net.dense(dense, 1, "wide_dense")
    for i in range(FEATURES):
        parts.append(net.lookup(ids[:, i], net.table(f"deep{i}", WIDE_ROWS, 32)))
        wide = wide + net.lookup(ids[:, i], net.table(f"wide{i}", WIDE_ROWS, 1))
    x = net.concat(parts)
    for units in (1024, 512, 256):
        x = net.relu(net.dense(x, units, f"deep_{units}"))
    return wide + net.dense(x, 1, "deep_out")


def dlrm(net, dense, ids):
    x = dense
    for units in (512, 256, 64, 16):
        x = net.relu(net.dense(x, units, f"bottom_{units}"))
    vectors = [x] + [net.lookup(ids[:, i], net.table(f"table{i}", DLRM_ROWS, 16)) for i in range(FEATURES)]
    y = net.concat([x, net.pair_products(vectors)])
    for units in (512, 256):
        y = net.relu(net.dense(y, units, f"top_{units}"))
    return net.dense(y, 1, "click")


# ---- what is fed: values of the inputs, then of the labels ----


def images(rng, batch):
    return {"image": rng.random((batch, IMAGE, IMAGE, 3), np.float32)}, rng.integers(0, 1000, batch, np.int32)


def pairs(rng, batch):
    mask = np.ones([batch, SEQUENCE], np.int32)
    mask[:, SEQUENCE - SEQUENCE // 8 :] = 0
    return {"ids": rng.integers(0, BERT_WORDS, (batch, SEQUENCE), np.int32), "mask": mask}, rng.integers(0, 2, batch, np.int32)


def text(length, words):
    def make(rng, batch):
        return {"ids": rng.integers(0, words, (batch, length), np.int32)}, rng.integers(0, words, (batch, length), np.int32)

    return make


def clicks(rows):
    def make(rng, batch):
        features = {"dense": rng.random((batch, DENSE_FEATURES), np.float32), "ids": rng.integers(0, rows, (batch, FEATURES), np.int32)}
        return features, rng.integers(0, 2, (batch, 1)).astype(np.float32)

    return make


# loss: of `classes` (labels are their numbers) or of a `click` (labels are 0 or 1)
Model = collections.namedtuple("Model", "network data training_batch loss")
MODELS = {
    "resnet50": Model(resnet50, images, 8, "classes"),
    "mobilenet_v2": Model(mobilenet_v2, images, 8, "classes"),
    "efficientnet_b0": Model(efficientnet_b0, images, 8, "classes"),
    "bert_base": Model(bert_base, pairs, 2, "classes"),
    "gpt2_small": Model(gpt2_small, text(SEQUENCE, GPT2_WORDS), 2, "classes"),
    "lstm": Model(lstm, text(WORDS, LSTM_WORDS), 20, "classes"),
    "wide_deep": Model(wide_deep, clicks(WIDE_ROWS), 128, "click"),
    "dlrm": Model(dlrm, clicks(DLRM_ROWS), 128, "click"),
}


def initial_value(kind, shape, rng):
    """A weight's value: as wide as keeps activations of one size through the layers."""
    if kind in ("zeros", "ones"):
        return np.full(shape, float(kind == "ones"), np.float32)
    fan_in = shape[-1] if kind == "table" else int(np.prod(shape[:2])) if kind == "depthwise" else int(np.prod(shape[:-1]))
    gain = {"conv": 2.0, "depthwise": 2.0, "dense": 1.0, "table": 1.0}[kind]
    value = rng.standard_normal(shape, np.float32)
    value *= (gain / fan_in) ** 0.5
    return value
