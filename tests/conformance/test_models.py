"""Whole models with the inputs that people have: feature columns, Examples, sparse and ragged rows, sampled losses.

Each trains for 50 steps on a worker, with its variables on the parameter server, and on stock TensorFlow: the losses are the same.
"""

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W0, local_session, session, v1

STEPS = 50
ROWS = 8
MODELS = {}
WORDS = [b"red", b"green", b"blue", b"black", b"", "größe".encode()]


def model(build):
    """Marks a builder: it returns the loss and a function that gives the feeds of a step from a random generator."""
    MODELS[build.__name__] = build
    return build


def dense(x, units, name, activation=None):
    with v1.variable_scope(name):
        w = v1.get_variable("w", [x.shape[-1], units], initializer=v1.glorot_uniform_initializer(seed=3))
        b = v1.get_variable("b", [units], initializer=v1.zeros_initializer())
    y = tf.matmul(x, w) + b
    return activation(y) if activation else y


def cross_entropy(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def binary(logits, labels):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=tf.reshape(logits, [-1])))


# ---- Examples ----


def feature(value):
    value = list(value)
    if value and isinstance(value[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if value and isinstance(value[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def examples(rng):
    """Serialized rows: numbers, a word, lists of words and ids of any length, some missing, and a label."""
    rows = []
    for _ in range(ROWS):
        age, ids = float(rng.uniform(18, 80)), [int(i) for i in rng.integers(0, 50, rng.integers(0, 6))]
        features = {
            "age": feature([age]),
            "scores": feature(float(s) for s in rng.normal(size=3)),
            "colour": feature([WORDS[rng.integers(len(WORDS))]]),
            "label": feature([int(age > 45)]),
        }
        if rng.random() < 0.8:
            features["tags"] = feature(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 5)))
        if ids:
            features["ids"] = feature(ids)
            features["weights"] = feature(float(rng.uniform(0.1, 1)) for _ in ids)
        rows.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return np.array(rows, object)


def example_input():
    port = v1.placeholder(tf.string, [None])
    return port, lambda rng: {port: examples(rng)}


def columns():
    c = tf.feature_column
    age = c.numeric_column("age", normalizer_fn=lambda x: (x - 50.0) / 20.0)
    buckets = c.bucketized_column(c.numeric_column("age"), [25.0, 35.0, 50.0, 65.0])
    colour = c.categorical_column_with_vocabulary_list("colour", [w.decode() for w in WORDS[:4]], num_oov_buckets=2)
    tags = c.categorical_column_with_hash_bucket("tags", 11)
    ids = c.categorical_column_with_identity("ids", 50)
    weighted = c.weighted_categorical_column(ids, "weights")
    crossed = c.crossed_column([buckets, "colour"], 23)
    return age, c.numeric_column("scores", shape=3), buckets, colour, tags, ids, weighted, crossed


def parsed(port, all_columns):
    spec = tf.feature_column.make_parse_example_spec(all_columns)
    spec["label"] = tf.io.FixedLenFeature([], tf.int64)
    return v1.parse_example(port, spec)


@model
def feature_columns_linear():
    port, feeds = example_input()
    age, scores, buckets, colour, tags, ids, weighted, crossed = columns()
    wide = [age, scores, buckets, colour, tags, weighted, crossed]
    features = parsed(port, wide)
    logits = v1.feature_column.linear_model(features, wide)
    return binary(logits, tf.cast(features["label"], tf.float32)), feeds


@model
def feature_columns_deep():
    c = tf.feature_column
    port, feeds = example_input()
    age, scores, buckets, colour, tags, ids, weighted, crossed = columns()

    def embedded(column, combiner):
        return c.embedding_column(column, 4, combiner, initializer=v1.truncated_normal_initializer(stddev=0.3, seed=5))

    deep = [age, scores, buckets, c.indicator_column(colour), embedded(tags, "mean"), embedded(weighted, "sum"), embedded(crossed, "sqrtn")]
    features = parsed(port, deep)
    x = v1.feature_column.input_layer(features, deep)
    logits = dense(dense(x, 16, "a", tf.nn.relu), 1, "b")
    return binary(logits, tf.cast(features["label"], tf.float32)), feeds


@model
def wide_and_deep():
    c = tf.feature_column
    port, feeds = example_input()
    age, scores, buckets, colour, tags, ids, weighted, crossed = columns()
    table = c.embedding_column(ids, 6, initializer=v1.truncated_normal_initializer(stddev=0.3, seed=5))
    wide, deep = [buckets, crossed, tags], [age, scores, table, c.indicator_column(colour)]
    features = parsed(port, wide + deep)
    logits = v1.feature_column.linear_model(features, wide)
    x = v1.feature_column.input_layer(features, deep)
    logits += dense(dense(x, 12, "a", tf.nn.relu), 1, "b")
    return binary(logits, tf.cast(features["label"], tf.float32)), feeds


@model
def ragged_examples():
    port, feeds = example_input()
    spec = {
        "ids": tf.io.RaggedFeature(tf.int64),
        "tags": tf.io.RaggedFeature(tf.string),
        "scores": tf.io.FixedLenFeature([3], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    features = tf.io.parse_example(port, spec)
    table = v1.get_variable("table", [50, 4], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2), use_resource=True)
    hashed = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, features["tags"], 50)
    rows = tf.concat([features["ids"], hashed], 1)
    vectors = tf.ragged.map_flat_values(tf.nn.embedding_lookup, table, rows)
    total = tf.reduce_sum(vectors, 1)
    longest = tf.reduce_max(tf.cast(rows.row_lengths(), tf.float32))
    x = tf.concat([total, features["scores"], tf.fill([tf.shape(total)[0], 1], longest)], 1)
    return binary(dense(tf.reshape(x, [-1, 8]), 1, "a"), tf.cast(features["label"], tf.float32)), feeds


@model
def sparse_examples():
    port, feeds = example_input()
    spec = {
        "bag": tf.io.SparseFeature("ids", "weights", tf.float32, 50),
        "tags": tf.io.VarLenFeature(tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    features = tf.io.parse_example(port, spec)
    w = v1.get_variable("w", [50, 6], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
    table = v1.get_variable("table", [31, 6], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=4))
    tags = features["tags"]
    ids = tf.SparseTensor(tags.indices, tf.strings.to_hash_bucket_strong(tags.values, 31, [1, 2]), tags.dense_shape)
    x = tf.sparse.sparse_dense_matmul(features["bag"], w) + tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean")
    return binary(dense(tf.nn.tanh(x), 1, "a"), tf.cast(features["label"], tf.float32)), feeds


@model
def vocabulary_tables():
    """Words to ids by a table on the parameter server, counted words by a mutable one."""
    port = v1.placeholder(tf.string, [None, 5])
    label = v1.placeholder(tf.int32, [None])
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer([w.decode() for w in WORDS], list(range(len(WORDS))), tf.string, tf.int64), 3
    )
    vectors = v1.get_variable("table", [len(WORDS) + 3, 6], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
    x = tf.reduce_mean(tf.nn.embedding_lookup(vectors, table.lookup(port)), 1)
    words = WORDS + [b"other", b"words"]

    def feeds(rng):
        chosen = rng.integers(0, len(words), (ROWS, 5))
        return {port: np.array([[words[i] for i in row] for row in chosen], object), label: (chosen[:, 0] % 3).astype("i4")}

    return cross_entropy(dense(x, 3, "a"), label), feeds


# ---- recommenders and sampled losses ----


@model
def dlrm():
    """Bottom tower, embeddings, products of all pairs, top tower."""
    numbers = v1.placeholder(tf.float32, [None, 5])
    ids = v1.placeholder(tf.int64, [None, 3])
    label = v1.placeholder(tf.float32, [None])
    bottom = dense(dense(numbers, 12, "a", tf.nn.relu), 6, "b", tf.nn.relu)
    vectors = [bottom]
    for i in range(3):
        table = v1.get_variable(f"table{i}", [40, 6], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=i + 1))
        vectors.append(tf.nn.embedding_lookup(table, ids[:, i]))
    stacked = tf.stack(vectors, 1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    mask = tf.linalg.band_part(tf.ones([4, 4]), -1, 0) - tf.linalg.band_part(tf.ones([4, 4]), 0, 0)
    pairs = tf.reshape(tf.boolean_mask(products, tf.cast(mask, tf.bool), axis=1), [-1, 6])
    logits = dense(dense(tf.concat([bottom, pairs], 1), 8, "c", tf.nn.relu), 1, "d")

    def feeds(rng):
        x = rng.normal(size=(ROWS, 5)).astype("f")
        return {numbers: x, ids: rng.integers(0, 40, (ROWS, 3)), label: (x[:, 0] > 0).astype("f")}

    return binary(logits, label), feeds


def skip_gram(loss):
    center, context = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [None, 1])
    table = v1.get_variable("table", [60, 8], initializer=v1.random_uniform_initializer(-1, 1, seed=1))
    w = v1.get_variable("w", [60, 8], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
    b = v1.get_variable("b", [60], initializer=v1.zeros_initializer())

    def feeds(rng):
        c = rng.integers(0, 60, ROWS)
        return {center: c, context: ((c + rng.integers(1, 4, ROWS)) % 60)[:, None]}

    return tf.reduce_mean(loss(w, b, context, tf.nn.embedding_lookup(table, center))), feeds


@model
def nce():
    return skip_gram(lambda w, b, y, x: tf.nn.nce_loss(w, b, y, x, num_sampled=7, num_classes=60))


@model
def sampled_softmax():
    return skip_gram(lambda w, b, y, x: tf.nn.sampled_softmax_loss(w, b, y, x, num_sampled=7, num_classes=60, seed=12))


@model
def learned_unigram_softmax():
    def loss(w, b, y, x):
        sampled = tf.random.learned_unigram_candidate_sampler(y, 1, 9, True, 60, seed=4)
        return v1.nn.sampled_softmax_loss(w, b, y, x, 9, 60, sampled_values=sampled)

    return skip_gram(loss)


@model
def fixed_unigram_nce():
    def loss(w, b, y, x):
        sampled = tf.random.fixed_unigram_candidate_sampler(y, 1, 9, True, 60, unigrams=[1.0 + i % 7 for i in range(60)], seed=4)
        return v1.nn.nce_loss(w, b, y, x, 9, 60, sampled_values=sampled)

    return skip_gram(loss)


# ---- speech and text ----


def speech(loss):
    x = v1.placeholder(tf.float32, [None, 12, 5])
    labels, lengths = v1.placeholder(tf.int32, [None, 3]), v1.placeholder(tf.int32, [None])
    logits = tf.reshape(dense(dense(tf.reshape(x, [-1, 5]), 10, "a", tf.nn.tanh), 7, "b"), [-1, 12, 7])

    def feeds(rng):
        return {
            x: rng.normal(size=(ROWS, 12, 5)).astype("f"),
            labels: rng.integers(1, 6, (ROWS, 3)).astype("i4"),
            lengths: rng.integers(8, 13, ROWS).astype("i4"),
        }

    return tf.reduce_mean(loss(logits, labels, lengths)), feeds


@model
def ctc():
    def loss(logits, labels, lengths):
        at = tf.where(tf.greater(labels, 0))
        sparse = tf.SparseTensor(at, tf.gather_nd(labels, at) - 1, tf.shape(labels, tf.int64))
        return v1.nn.ctc_loss(sparse, tf.transpose(logits, [1, 0, 2]), lengths, ignore_longer_outputs_than_inputs=True)

    return speech(loss)


@model
def ctc_dense_labels():
    def loss(logits, labels, lengths):
        return tf.nn.ctc_loss(labels, logits, tf.fill([tf.shape(labels)[0]], 3), lengths, logits_time_major=False, blank_index=0)

    return speech(loss)


@model
def text_bag():
    """Lines of text: split, lower case, n-grams, hashed, averaged."""
    text, label = v1.placeholder(tf.string, [None]), v1.placeholder(tf.int32, [None])
    words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(text), r"[^a-z ]", ""))
    grams = tf.strings.ngrams(words, [1, 2])
    ids = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, grams, 97)
    table = v1.get_variable("table", [97, 8], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
    x = tf.nn.embedding_lookup_sparse(table, ids.to_sparse(), None, combiner="sqrtn")
    vocabulary = ["The", "cat", "sat!", "on", "a", "mat,", "Dogs", "ran", "far;", "away"]

    def feeds(rng):
        lines = [rng.integers(0, len(vocabulary), rng.integers(2, 9)) for _ in range(ROWS)]
        return {
            text: np.array([" ".join(vocabulary[i] for i in line).encode() for line in lines], object),
            label: np.array([line[0] % 3 for line in lines], "i4"),
        }

    return cross_entropy(dense(x, 3, "a"), label), feeds


@model
def attention_einsum():
    """Multi-head attention as Einsum, as Keras' layers write it."""
    x, label = v1.placeholder(tf.float32, [None, 6, 8]), v1.placeholder(tf.int32, [None])

    def kernel(name, shape):
        return v1.get_variable(name, shape, initializer=v1.glorot_uniform_initializer(seed=8))

    q, k, v = (tf.einsum("abc,cde->abde", x, kernel(n, [8, 2, 4])) for n in "qkv")
    scores = tf.nn.softmax(tf.einsum("aecd,abcd->acbe", k, q * 0.5))
    y = tf.einsum("acbe,aecd->abcd", scores, v)
    y = tf.einsum("abcd,cde->abe", y, kernel("o", [2, 4, 8]))

    def feeds(rng):
        return {x: rng.normal(size=(ROWS, 6, 8)).astype("f"), label: rng.integers(0, 3, ROWS).astype("i4")}

    return cross_entropy(dense(tf.reduce_mean(y + x, 1), 3, "a"), label), feeds


@model
def volumes():
    """Convolution and pooling in three dimensions."""
    x, label = v1.placeholder(tf.float32, [None, 6, 6, 6, 2]), v1.placeholder(tf.int32, [None])
    w = v1.get_variable("w", [3, 3, 3, 2, 4], initializer=v1.glorot_uniform_initializer(seed=8))
    w2 = v1.get_variable("w2", [2, 2, 2, 3, 4], initializer=v1.glorot_uniform_initializer(seed=9))
    y = tf.nn.relu(tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME"))
    y = tf.nn.max_pool3d(y, 2, 2, "VALID")
    y = tf.nn.conv3d_transpose(y, w2, [tf.shape(x)[0], 6, 6, 6, 3], 2)
    y = tf.nn.avg_pool3d(y, 3, 3, "VALID")

    def feeds(rng):
        return {x: rng.normal(size=(ROWS, 6, 6, 6, 2)).astype("f"), label: rng.integers(0, 3, ROWS).astype("i4")}

    return cross_entropy(dense(tf.reshape(y, [-1, 24]), 3, "a"), label), feeds


@model
def augmented_images():
    """Random flips, contrast, brightness, hue and crops in the graph, with their seeds."""
    x, label = v1.placeholder(tf.float32, [ROWS, 10, 10, 3]), v1.placeholder(tf.int32, [ROWS])
    y = tf.image.random_flip_left_right(x, seed=1)
    y = tf.image.random_contrast(y, 0.5, 1.5, seed=2)
    y = tf.image.random_brightness(y, 0.3, seed=3)
    y = tf.image.random_hue(y, 0.2, seed=4)
    y = tf.image.random_saturation(y, 0.5, 1.5, seed=5)
    y = v1.random_crop(y, [ROWS, 8, 8, 3], seed=6)
    y = tf.image.resize(y, [6, 6])
    w = v1.get_variable("w", [3, 3, 3, 4], initializer=v1.glorot_uniform_initializer(seed=8))
    y = tf.nn.relu(tf.nn.conv2d(y, w, 1, "SAME"))

    def feeds(rng):
        return {x: rng.uniform(size=(ROWS, 10, 10, 3)).astype("f"), label: rng.integers(0, 3, ROWS).astype("i4")}

    return cross_entropy(dense(tf.reduce_mean(y, [1, 2]), 3, "a"), label), feeds


@model
def quantisation_aware():
    """Fake quantisation of weights and activations."""
    x, label = v1.placeholder(tf.float32, [None, 6]), v1.placeholder(tf.int32, [None])
    w = v1.get_variable("w", [6, 8], initializer=v1.glorot_uniform_initializer(seed=8))
    low = v1.get_variable("low", [], initializer=v1.constant_initializer(-1.0))
    high = v1.get_variable("high", [], initializer=v1.constant_initializer(1.0))
    h = tf.nn.relu(tf.matmul(x, tf.quantization.fake_quant_with_min_max_vars(w, low, high)))
    h = tf.quantization.fake_quant_with_min_max_args(h, 0, 4)

    def feeds(rng):
        return {x: rng.normal(size=(ROWS, 6)).astype("f"), label: rng.integers(0, 3, ROWS).astype("i4")}

    return cross_entropy(dense(h, 3, "a"), label), feeds


@model
def gaussian_mixture():
    """Cholesky, triangular solves and determinants in the loss."""
    x = v1.placeholder(tf.float32, [None, 3])
    factor = v1.get_variable("factor", [2, 3, 3], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
    mean = v1.get_variable("mean", [2, 3], initializer=v1.truncated_normal_initializer(stddev=1, seed=3))
    covariance = tf.matmul(factor, factor, transpose_b=True) + 0.5 * tf.eye(3)
    lower = tf.linalg.cholesky(covariance)
    centred = tf.transpose(x[None] - mean[:, None], [0, 2, 1])
    solved = tf.linalg.triangular_solve(lower, centred)
    logs = -0.5 * tf.reduce_sum(tf.square(solved), 1) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)), 1)[:, None]
    logs -= 0.1 * tf.linalg.logdet(covariance)[:, None]

    def feeds(rng):
        return {x: (rng.normal(size=(ROWS, 3)) * [1, 2, 0.5]).astype("f")}

    return -tf.reduce_mean(tf.reduce_logsumexp(logs, 0)), feeds


@model
def spectral():
    """A short-time Fourier transform in the model."""
    x, label = v1.placeholder(tf.float32, [None, 64]), v1.placeholder(tf.int32, [None])
    filters = v1.get_variable("filters", [64], initializer=v1.ones_initializer())
    s = tf.abs(tf.signal.stft(x * filters, 16, 8, 16))

    def feeds(rng):
        return {x: rng.normal(size=(ROWS, 64)).astype("f"), label: rng.integers(0, 3, ROWS).astype("i4")}

    return cross_entropy(dense(tf.reshape(tf.math.log1p(s), [-1, 7 * 9]), 3, "a"), label), feeds


# ---- the test ----

OPTIMIZERS = [
    lambda: v1.train.AdagradOptimizer(0.1),
    lambda: v1.train.AdamOptimizer(0.02),
    lambda: v1.train.FtrlOptimizer(0.1),
    lambda: v1.train.MomentumOptimizer(0.05, 0.9),
]


def losses(graph, make_session, train, loss, feeds):
    rng = np.random.default_rng(5)
    with make_session(graph) as sess:
        sess.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return [sess.run([loss, train], feeds(rng))[0] for _ in range(STEPS)]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_fifty_steps_give_the_same_losses(cluster, name):
    make = OPTIMIZERS[sorted(MODELS).index(name) % len(OPTIMIZERS)]
    with tf.Graph().as_default() as local:
        v1.set_random_seed(7)
        loss, feeds = MODELS[name]()
        train = make().minimize(loss)
        want = losses(local, local_session, train, loss, feeds)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(7)
        with v1.device(v1.train.replica_device_setter(ps_device=PS, worker_device=W0, ps_tasks=1)):
            loss, feeds = MODELS[name]()
            train = make().minimize(loss)
        got = losses(graph, lambda g: session(cluster.master, g), train, loss, feeds)
    assert np.isfinite(want).all()
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
