"""python/weft_export.py: models of Keras, functions and v1 graphs as training files, and trained weights back.

Each model is trained by Keras and, from its file, by `weft submit`: losses and metrics of every step, and predictions
with the weights that came back, are alike.
"""

import json
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import v1

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import weft_export  # noqa: E402

L = keras.layers
STEPS, BATCH = 6, 8
MODELS, OPTIMIZERS = {}, {}
pytestmark = pytest.mark.weft_only


@pytest.fixture
def weft(weft_command):
    return weft_command


@pytest.fixture(autouse=True)
def eager():
    """Other suites switch TensorFlow's first behaviour on; these models are made as people make them."""
    with tf.__internal__.eager_context.eager_mode():
        yield
    keras.backend.clear_session()


def model(make):
    MODELS[make.__name__] = make
    return make


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def classes(n, k, seed=1):
    return np.random.default_rng(seed + n).integers(0, k, n)


ROWS = STEPS * BATCH

# ---- models: each function returns one that is compiled, and its data (x, y[, sample_weight]) ----


def compiled(m, *args, **kwargs):
    m.compile(*args, **kwargs)
    return m


@model
def regression():
    return compiled(keras.Sequential([L.Input((5,)), L.Dense(4, "tanh"), L.Dense(1)]), "sgd", "mse", metrics=["mae"]), (numbers(ROWS, 5), numbers(ROWS, 1))


@model
def convolution_with_state():
    m = keras.Sequential([L.Input((8, 8, 3)), L.Conv2D(4, 3, activation="relu"), L.BatchNormalization(), L.MaxPooling2D(), L.Flatten(), L.Dropout(0.3, seed=5), L.Dense(3, "softmax")])
    return compiled(m, keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]), (numbers(ROWS, 8, 8, 3), classes(ROWS, 3))


@model
def two_inputs_two_outputs():
    a, b = L.Input((4,), name="a"), L.Input((3,), dtype="int32", name="b")
    x = L.Dense(5, "gelu")(L.concatenate([a, L.GlobalAveragePooling1D()(L.Embedding(10, 5)(b))]))
    m = keras.Model({"a": a, "b": b}, {"price": L.Dense(1, name="price")(x), "kind": L.Dense(3, name="kind")(x)})
    m.compile("adam", loss={"price": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}, loss_weights={"price": 0.5, "kind": 2.0},
              metrics={"kind": ["accuracy"], "price": ["mae"]})  # fmt: skip
    x = {"a": numbers(ROWS, 4), "b": np.random.default_rng(3).integers(0, 10, (ROWS, 3)).astype(np.int32)}
    return m, (x, {"price": numbers(ROWS, 1), "kind": classes(ROWS, 3)})


@model
def subclass():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.attention, self.drop, self.out = L.MultiHeadAttention(2, 4), L.Dropout(0.2, seed=1), L.Dense(2)

        def call(self, x, training=False):
            return self.out(self.drop(self.attention(x, x), training=training))

    return compiled(Net(), "rmsprop", "mse"), (numbers(ROWS, 3, 8), numbers(ROWS, 3, 2))


@model
def step_of_its_own():
    class Net(keras.Model):
        def train_step(self, data):
            x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.abs(self(x, training=True) - y)) + 0.01 * tf.add_n([tf.reduce_sum(w**2) for w in self.trainable_weights])
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
            return {"own": loss}

    x = L.Input((5,))
    return compiled(Net(x, L.Dense(1)(x)), "adam", "mse"), (numbers(ROWS, 5), numbers(ROWS, 1))


@model
def recurrent():
    m = keras.Sequential([L.Input((None,), dtype="int32"), L.Embedding(20, 6, mask_zero=True), L.Bidirectional(L.LSTM(4, return_sequences=True)), L.GRU(3), L.Dense(1, "sigmoid")])
    x = np.random.default_rng(7).integers(0, 20, (ROWS, 5)).astype(np.int32)
    return compiled(m, "adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc"), keras.metrics.Precision(name="p")]), (x, classes(ROWS, 2)[:, None])


class Positions(L.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(6, 8), name="table")

    def call(self, x):
        return x + self.table


@model
def transformer():
    x = L.Input((6,), dtype="int32")
    h = Positions()(L.Embedding(30, 8)(x))
    h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True))
    h = L.LayerNormalization()(h + L.Dense(8)(L.Dense(16, "relu")(h)))
    m = keras.Model(x, L.Dense(30)(h))
    ids = np.random.default_rng(9).integers(0, 30, (ROWS, 6)).astype(np.int32)
    return compiled(m, keras.optimizers.AdamW(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]), (ids, np.roll(ids, -1, 1))


@model
def weighted_samples():
    m = keras.Sequential([L.Input((5,)), L.Dense(3, "softmax")])
    m.compile("sgd", "categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
    return m, (numbers(ROWS, 5), np.eye(3, dtype=np.float32)[classes(ROWS, 3)], np.random.default_rng(2).random(ROWS).astype(np.float32))


@model
def losses_of_layers():
    m = keras.Sequential([L.Input((5,)), L.Dense(4, kernel_regularizer="l2", bias_regularizer=keras.regularizers.L1(0.1)), L.ActivityRegularization(0.01), L.Dense(1)])
    return compiled(m, "adam", "huber"), (numbers(ROWS, 5), numbers(ROWS, 1))


@model
def prepared_numbers():
    scale = L.Normalization()
    scale.adapt(numbers(100, 4) * 3 + 1)
    x = L.Input((4,))
    h = L.concatenate([scale(x), L.CategoryEncoding(4, output_mode="one_hot")(L.Discretization([-1.0, 0.0, 1.0])(x[:, :1]))])
    return compiled(keras.Model(x, L.Dense(1)(h)), "adam", "mse"), (numbers(ROWS, 4), numbers(ROWS, 1))


@model
def frozen_base():
    base = keras.Sequential([L.Input((6,)), L.Dense(5, "relu"), L.BatchNormalization()])
    base.trainable = False
    x = L.Input((6,))
    return compiled(keras.Model(x, L.Dense(2)(base(x, training=False))), "adam", "mse"), (numbers(ROWS, 6), numbers(ROWS, 2))


@model
def half_precision():
    with keras.DTypePolicy("mixed_bfloat16") if hasattr(keras.DTypePolicy, "__enter__") else _null():
        m = keras.Sequential([L.Input((5,)), L.Dense(8, "relu", dtype="mixed_bfloat16"), L.Dense(1, dtype="float32")])
    return compiled(m, "adam", "mse"), (numbers(ROWS, 5), numbers(ROWS, 1))


class _null:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


TABLES = {}  # the same optimizers, on rows of tables


def optimizer(name, *args, **kwargs):
    def made():
        schedule = {k: v() if callable(v) else v for k, v in kwargs.items()}
        return getattr(keras.optimizers, name)(*[a() if callable(a) else a for a in args], **schedule)

    def dense():
        m = keras.Sequential([L.Input((5,)), L.Dense(4, "relu"), L.Dense(3, "softmax")])
        return compiled(m, made(), "sparse_categorical_crossentropy"), (numbers(ROWS, 5), classes(ROWS, 3))

    def table():
        """One table is looked up twice, another once; rows repeat within a batch, and few of them are seen."""
        a, b, c = (L.Input((), dtype="int32", name=n) for n in "abc")
        shared, own = L.Embedding(20, 3), L.Embedding(7, 3)
        joined = L.Concatenate()([L.Multiply()([shared(a), own(b)]), shared(c)])
        m = keras.Model({"a": a, "b": b, "c": c}, L.Dense(3, "softmax")(joined))
        rows = {n: classes(ROWS, k, seed).astype(np.int32) for n, k, seed in (("a", 9, 2), ("b", 7, 3), ("c", 20, 4))}
        return compiled(m, made(), "sparse_categorical_crossentropy"), (rows, classes(ROWS, 3))

    key = " ".join([name, *kwargs, *["schedule" for a in args if callable(a)]])
    OPTIMIZERS[key], TABLES[key] = dense, table


schedules = keras.optimizers.schedules
optimizer("SGD", 0.1)
optimizer("SGD", 0.1, momentum=0.9, nesterov=True)
optimizer("SGD", lambda: schedules.PiecewiseConstantDecay([2, 4], [0.2, 0.1, 0.05]))
optimizer("Adam", lambda: schedules.CosineDecay(0.1, 6, warmup_target=0.2, warmup_steps=2), amsgrad=True)
optimizer("Adam", 0.05, clipnorm=0.1)
optimizer("Adam", 0.05, global_clipnorm=0.1)
optimizer("Adam", 0.05, clipvalue=0.01)
optimizer("Adam", 0.05, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3)
optimizer("SGD", 0.1, gradient_accumulation_steps=2)
optimizer("AdamW", lambda: schedules.ExponentialDecay(0.1, 2, 0.5), weight_decay=0.01)
optimizer("RMSprop", 0.01, momentum=0.9, centered=True)
optimizer("Adagrad", 0.1)
optimizer("Adadelta", 1.0)
optimizer("Adamax", 0.05)
optimizer("Nadam", 0.05)
optimizer("Ftrl", 0.1, l1_regularization_strength=0.01)
optimizer("Lion", 0.01)
optimizer("Adafactor", 0.05)

# ---- training them ----


def batches(data):
    for at in range(0, ROWS, BATCH):
        yield tf.nest.map_structure(lambda a: a[at : at + BATCH], data)


def trained_by_keras(m, data):
    told = []
    for batch in batches(data):
        m.reset_metrics()
        told.append({k: float(v) for k, v in m.train_on_batch(*batch, return_dict=True).items()})
    return told


def by_name(m, data):
    """The arrays, by the names of the file's inputs."""
    x = data[0]
    found = dict(x) if isinstance(x, dict) else {"x": x}
    found.update(data[1] if isinstance(data[1], dict) else {"y": data[1]})
    if len(data) > 2:
        found["sample_weight"] = data[2]
    return found


def feeds(directory, arrays):
    args = []
    for name, a in arrays.items():
        np.save(directory / f"{name}.npy", a)
        args += ["--feed", f"{name}={name}.npy"]
    return args


def steps_of(out):
    return [line["fetches"] for line in map(json.loads, out.splitlines()) if "fetches" in line and not line.get("done")]


def same(told, wanted, rtol, what):
    assert len(told) == len(wanted), what
    for step, (t, w) in enumerate(zip(told, wanted)):
        for name, value in w.items():
            assert abs(t[name] - value) <= rtol * max(1.0, abs(value)), f"{what}: {name} of step {step + 1} is {t[name]} instead of {value}"


def fresh(make):
    keras.utils.set_random_seed(4)
    return make()


def check_trained(weft, tmp_path, make, strategy, rtol=2e-4):
    m, data = fresh(make)
    entries = weft_export.export(m, tmp_path / "model.pb", data=data)
    assert set(entries) == {"train", "evaluate", "predict"}
    wanted = trained_by_keras(m, data)
    args = feeds(tmp_path, by_name(m, data))
    out = weft("submit", "model.pb", *args, "--batch", str(BATCH), "--steps", str(STEPS), "--save", "trained", "--json", *strategy)
    same(steps_of(out), wanted, rtol, "training")
    keras.utils.set_random_seed(99)
    other, _ = make()
    if not other.built:
        other(tf.nest.map_structure(lambda a: a[:1], data[0]))
    assert weft_export.load(tmp_path / "model.pb", tmp_path / "trained", other) == STEPS
    x = tf.nest.map_structure(lambda a: a[:BATCH], data[0])
    for got, want in zip(tf.nest.flatten(other(x, training=False)), tf.nest.flatten(m(x, training=False))):
        np.testing.assert_allclose(got, want, rtol=50 * rtol, atol=50 * rtol)
    if other.optimizer.built and type(m).train_step is keras.Model.train_step:
        assert int(other.optimizer.iterations) == int(m.optimizer.iterations)
    return m, data


ONE, MIRRORED, SYNC = [], ["--strategy", "mirrored:2"], ["--strategy", "parameter_server:mode=sync,workers=2"]


@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_train_as_in_keras(weft, tmp_path, name, strategy):
    check_trained(weft, tmp_path, MODELS[name], strategy, 2e-2 if name == "half_precision" else 2e-4)


@pytest.mark.parametrize("strategy", [ONE, MIRRORED], ids=["one", "mirrored"])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_step_as_in_keras(weft, tmp_path, name, strategy):
    check_trained(weft, tmp_path, OPTIMIZERS[name], strategy)


@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_optimizers_step_on_rows_of_tables_as_in_keras(weft, tmp_path, name, strategy):
    check_trained(weft, tmp_path, TABLES[name], strategy)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_evaluation_and_predictions_are_those_of_keras(weft, tmp_path, name):
    m, data = fresh(MODELS[name])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    args = feeds(tmp_path, by_name(m, data))
    batch = ["--batch", str(BATCH), "--steps", str(STEPS), "--json"]
    told = steps_of(weft("submit", "model.pb", "--signature", "evaluate", *args, *batch))[-1]
    rtol = 2e-2 if name == "half_precision" else 1e-4
    same([told], [m.evaluate(*data[:2], sample_weight=data[2] if len(data) > 2 else None, batch_size=BATCH, verbose=0, return_dict=True)], rtol, "evaluation")
    inputs = [a for pair in zip(args[::2], args[1::2]) for a in pair if pair[1].split("=")[0] in (data[0] if isinstance(data[0], dict) else {"x"})]
    outputs = weft_export.export(m, tmp_path / "model.pb", data=data)["predict"][1]
    weft("submit", "model.pb", "--signature", "predict", *inputs, *[a for o in outputs for a in ("--save-fetch", f"{o}={o}.out.npy")])
    want = m(data[0], training=False)
    want = want if isinstance(want, dict) else {outputs[0]: want}
    for o in outputs:
        np.testing.assert_allclose(np.load(tmp_path / f"{o}.out.npy"), want[o], rtol=50 * rtol, atol=50 * rtol)


@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
@pytest.mark.parametrize("name", ["regression", "two_inputs_two_outputs", "weighted_samples", "recurrent"])
def test_a_data_set_becomes_part_of_the_file(weft, tmp_path, name, strategy):
    m, data = fresh(MODELS[name])
    data_set = tf.data.Dataset.from_tensor_slices(data).shuffle(20, seed=3).batch(BATCH)
    entries = weft_export.export(m, tmp_path / "model.pb", data=data_set, evaluate_data=tf.data.Dataset.from_tensor_slices(data).batch(BATCH))
    assert entries["train"][0] == [] == entries["evaluate"][0]
    evaluated = m.evaluate(*data[:2], sample_weight=data[2] if len(data) > 2 else None, batch_size=BATCH, verbose=0, return_dict=True)
    same(steps_of(weft("submit", "model.pb", "--signature", "evaluate", "--json"))[-1:], [evaluated], 1e-4, "evaluation")
    wanted = []
    for batch in data_set:
        m.reset_metrics()
        wanted.append({k: float(v) for k, v in m.train_on_batch(*batch, return_dict=True).items()})
    same(steps_of(weft("submit", "model.pb", "--json", *strategy)), wanted, 2e-4, "training")


class Copies(keras.Model):
    """Its labels are its inputs, and its loss is in its step."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = L.Dense(3, "tanh"), L.Dense(5)

    def call(self, x):
        return self.out(self.hidden(x))

    def train_step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - x) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
        return {"apart": loss}


@pytest.mark.parametrize("loss", [None, "mse"])
def test_a_step_of_its_own_needs_no_loss_and_no_labels(weft, tmp_path, loss):
    """model.evaluate fails in Keras, so the file has no such entry."""
    keras.utils.set_random_seed(4)
    m, x = Copies(), numbers(ROWS, 5)
    m.compile("adam", loss)
    entries = weft_export.export(m, tmp_path / "model.pb", data=x)
    assert entries == {"train": (["x"], ["apart", "train"]), "predict": (["x"], ["predictions"])}
    wanted = [{"apart": v} for v in (m.fit(batch, batch_size=BATCH, verbose=0).history["apart"][0] for batch in batches(x))]
    args = [*feeds(tmp_path, {"x": x}), "--batch", str(BATCH), "--steps", str(STEPS), "--json"]
    same(steps_of(weft("submit", "model.pb", *args)), wanted, 2e-4, "training")


def test_losses_that_layers_add_need_no_other_and_no_labels(weft, tmp_path):
    class Small(L.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_mean(x**2))
            return x

    keras.utils.set_random_seed(4)
    m, x = keras.Sequential([L.Input((5,)), L.Dense(3), Small()]), numbers(ROWS, 5)
    m.compile("adam")
    assert set(weft_export.export(m, tmp_path / "model.pb")) == {"train", "evaluate", "predict"}
    wanted = trained_by_keras(m, (x,))
    args = [*feeds(tmp_path, {"x": x}), "--batch", str(BATCH), "--steps", str(STEPS), "--json"]
    same(steps_of(weft("submit", "model.pb", *args)), wanted, 2e-4, "training")


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_data_sets_of_ragged_and_sparse_tensors(weft, tmp_path, kind):
    table = tf.Variable(tf.linspace(1.0, 2.0, 5)[:, None])
    if kind == "ragged":
        rows = tf.ragged.constant([[1, 2], [3], [0, 1, 2], [4]], dtype=tf.int64)
    else:
        rows = tf.sparse.from_dense(np.eye(4, 5, dtype=np.float32))

    @tf.function
    def train(parts, weight):
        if kind == "ragged":
            each = tf.reduce_sum(tf.gather(table, parts)[..., 0], 1)
        else:
            each = tf.sparse.sparse_dense_matmul(parts, table)[:, 0]
        loss = tf.reduce_mean(each * weight)
        table.assign_add(tf.fill([5, 1], 0.1 * loss))
        return loss

    data_set = tf.data.Dataset.from_tensor_slices((rows, numbers(4))).batch(2)
    weft_export.export(train, tmp_path / "step.pb", data=data_set)
    wanted = [{"loss": float(train(*batch))} for batch in data_set]
    same(steps_of(weft("submit", "step.pb", "--json")), wanted, 1e-4, "training")


WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"]


def texts(n):
    rng = np.random.default_rng(5)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(n)]


def text_model(**mode):
    vectorize = L.TextVectorization(max_tokens=20, **mode)
    vectorize.adapt(WORDS)
    x = L.Input((), dtype="string", name="text")
    h = vectorize(x)
    h = L.LSTM(4)(L.Embedding(20, 6, mask_zero=True)(h)) if mode.get("output_mode", "int") == "int" else L.Dense(4, "tanh")(h)
    return compiled(keras.Model(x, L.Dense(1, "sigmoid")(h)), "adam", "binary_crossentropy", metrics=["accuracy"])


def lookup_model():
    genre, user = L.Input((), dtype="string", name="genre"), L.Input((), dtype="int64", name="user")
    h = L.concatenate([L.Embedding(6, 3)(L.StringLookup(vocabulary=WORDS[:4])(genre)), L.Embedding(8, 3)(L.IntegerLookup(vocabulary=[3, 5, 9], num_oov_indices=2)(user)),
                       L.HashedCrossing(16, output_mode="one_hot")((genre, user))])  # fmt: skip
    return compiled(keras.Model({"genre": genre, "user": user}, L.Dense(1)(h)), "adagrad", "mse")


@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
@pytest.mark.parametrize("kind", ["ids", "multi hot", "tf idf", "lookups"])
def test_texts_and_their_tables_come_along(weft, tmp_path, kind, strategy):
    keras.utils.set_random_seed(6)
    labels = classes(ROWS, 2)[:, None].astype(np.float32)
    if kind == "lookups":
        m = lookup_model()
        rows = ({"genre": np.array([t.split()[0] for t in texts(ROWS)]), "user": np.random.default_rng(1).integers(0, 12, ROWS)}, labels)
    else:
        m = text_model(**{"ids": dict(output_sequence_length=5), "multi hot": dict(output_mode="multi_hot"), "tf idf": dict(output_mode="count")}[kind])
        rows = (np.array(texts(ROWS)), labels)
    data_set = tf.data.Dataset.from_tensor_slices(rows).batch(BATCH)
    weft_export.export(m, tmp_path / "model.pb", data=data_set)
    wanted = []
    for batch in data_set:
        m.reset_metrics()
        wanted.append({k: float(v) for k, v in m.train_on_batch(*batch, return_dict=True).items()})
    same(steps_of(weft("submit", "model.pb", "--json", *strategy)), wanted, 2e-4, "training")


def test_each_worker_has_its_tables_and_its_part_of_the_data(weft, tmp_path):
    """Strategies whose workers take batches of their own. Where an update takes gradients of several, it may be told before
    any of their losses, and the last rows of one may lack those of another."""
    m = lookup_model()
    rows = ({"genre": np.array([t.split()[0] for t in texts(ROWS)]), "user": np.arange(ROWS) % 12}, numbers(ROWS, 1))
    weft_export.export(m, tmp_path / "model.pb", data=tf.data.Dataset.from_tensor_slices(rows).batch(BATCH))
    for options in ("mode=async", "mode=async,workers=3", "mode=ssp", "mode=sync,backup=1", "mode=sync,split=false", "mode=sync,split=false,ps=2,shards=fixed:2"):
        told = steps_of(weft("submit", "model.pb", "--json", "--strategy", f"parameter_server:{options}"))
        assert np.isfinite([step["loss"] for step in told if step["loss"] is not None]).all(), options
        assert 1 <= len(told) <= STEPS if options.startswith("mode=sync") else len(told) == STEPS, options


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = tf.Variable(numbers(5, 1), name="w"), tf.Variable([0.0], name="b")

    def loss(self, x, y):
        return tf.reduce_mean((x @ self.w + self.b - y) ** 2)

    @tf.function
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(x, y)
        for v, g in zip([self.w, self.b], tape.gradient(loss, [self.w, self.b])):
            v.assign_sub(0.1 * g)
        return {"loss": loss}

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.float32, "x")])
    def predict(self, x):
        return x @ self.w + self.b


@pytest.mark.parametrize("how", ["example", "signature", "data set"])
@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
def test_functions_are_training_steps(weft, tmp_path, how, strategy):
    m, data = Linear(), (numbers(ROWS, 5), numbers(ROWS, 1))
    step, given = m.train, None
    if how == "example":
        given = data
    elif how == "data set":
        given = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    else:
        step = tf.function(m.train.python_function, input_signature=[tf.TensorSpec([None, 5], tf.float32), tf.TensorSpec([None, 1], tf.float32)])
    entries = weft_export.export(step, tmp_path / "step.pb", data=given, predict=m.predict)
    assert entries["train"][1] == ["loss", "train"] and entries["predict"][0] == ["x"]
    wanted = [{"loss": float(m.train(*map(tf.constant, batch))["loss"])} for batch in batches(data)]
    args = [] if how == "data set" else [*feeds(tmp_path, dict(zip(entries["train"][0], data))), "--batch", str(BATCH), "--steps", str(STEPS)]
    same(steps_of(weft("submit", "step.pb", *args, "--save", "trained", "--json", *strategy)), wanted, 1e-4, "training")
    other = Linear()
    assert weft_export.load(tmp_path / "step.pb", tmp_path, other) == STEPS
    np.testing.assert_allclose(other.w, m.w, rtol=1e-4, atol=1e-5)


def test_a_function_names_the_owners_of_its_variables(weft, tmp_path):
    """Those of a model and of an optimizer; without that they are known by their names, if these differ."""
    def parts():
        keras.utils.set_random_seed(4)
        net = keras.Sequential([L.Input((5,)), L.Dense(4, use_bias=False), L.BatchNormalization(), L.Dense(1)])
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build(net.trainable_variables)

        @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")])
        def train(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(x, training=True) - y) ** 2)
            optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
            return loss

        return net, optimizer, train

    data = numbers(ROWS, 5), numbers(ROWS, 1)
    net, optimizer, train = parts()
    weft_export.export(train, tmp_path / "step.pb", model=net, optimizer=optimizer)
    for batch in batches(data):
        train(*map(tf.constant, batch))
    args = [*feeds(tmp_path, dict(zip("xy", data))), "--batch", str(BATCH), "--steps", str(STEPS)]
    weft("submit", "step.pb", *args, "--save", "trained", "--strategy", "mirrored:2")
    other, its_optimizer, _ = parts()
    weft_export.load(tmp_path / "step.pb", tmp_path / "trained", other, its_optimizer)
    for a, b in zip([*other.variables, *its_optimizer.variables], [*net.variables, *optimizer.variables]):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=a.path)
    only_dense = tf.Module()
    only_dense.w = tf.Variable(tf.zeros([5, 1]), name="w")
    m = Linear()
    weft_export.export(m.train, tmp_path / "linear.pb", data=data)
    weft("submit", "linear.pb", *args, "--save", "linear")
    weft_export.load(tmp_path / "linear.pb", tmp_path / "linear", only_dense)
    assert np.any(only_dense.w.numpy() != 0)


@pytest.mark.parametrize("strategy", [ONE, MIRRORED, SYNC], ids=["one", "mirrored", "sync"])
@pytest.mark.parametrize("resources", [False, True])
def test_v1_graphs_get_entries(weft, tmp_path, strategy, resources):
    x_data, y_data = numbers(ROWS, 5), numbers(ROWS, 1)
    with tf.Graph().as_default() as g:
        x, y = v1.placeholder(tf.float32, [None, 5], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        w = v1.get_variable("w", initializer=numbers(5, 1), use_resource=resources)
        loss = tf.reduce_mean((x @ w - y) ** 2)
        train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, v1.train.get_or_create_global_step())
        prediction = tf.identity(x @ w, name="prediction")
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            wanted = [{"loss": float(sess.run([loss, train], {x: a, y: b})[0])} for a, b in batches((x_data, y_data))]
    entries = weft_export.export(g, tmp_path / "g.pb", train={"train": train, "loss": loss}, predict={"answer": "prediction:0"})
    assert entries == {"train": (["x", "y"], ["train", "loss"]), "predict": (["x"], ["answer"])}
    args = [*feeds(tmp_path, {"x": x_data, "y": y_data}), "--batch", str(BATCH), "--steps", str(STEPS), "--json"]
    same(steps_of(weft("submit", "g.pb", *args, *strategy)), wanted, 1e-4, "training")


def test_a_file_is_one_of_tensorflow_too(tmp_path):
    """Its graph, signatures and saver are used by a stock session."""
    m, data = fresh(MODELS["convolution_with_state"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    wanted = trained_by_keras(m, data)
    meta = v1.MetaGraphDef.FromString((tmp_path / "model.pb").read_bytes())
    train, begin = meta.signature_def["train"], meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
    with tf.Graph().as_default(), v1.Session() as sess:
        saver = v1.train.import_meta_graph(meta)
        sess.run(begin)
        told = []
        for x, y in batches(data):
            feed = {train.inputs["x"].name: x, train.inputs["y"].name: y}
            fetches = {k: train.outputs[k].name for k in ("loss", "accuracy")}
            told.append(sess.run([fetches, train.outputs["train"].name], feed)[0])
        same(told, wanted, 2e-4, "training")
        saver.save(sess, str(tmp_path / "model"), global_step=STEPS)
    other, _ = fresh(MODELS["convolution_with_state"])
    weft_export.load(tmp_path / "model.pb", tmp_path / "model", other)
    np.testing.assert_allclose(other(data[0], training=False), m(data[0], training=False), atol=1e-3)


def test_large_values_are_in_a_file_of_their_own(weft, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(weft_export, "IN_GRAPH_BYTES", 64)
    m, data = fresh(MODELS["regression"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    assert "--restore" in capsys.readouterr().out
    wanted = trained_by_keras(m, data)
    args = [*feeds(tmp_path, by_name(m, data)), "--batch", str(BATCH), "--steps", str(STEPS), "--json"]
    same(steps_of(weft("submit", "model.pb", "--restore", "model.pb.values", *args)), wanted, 2e-4, "training")


def test_a_function_without_variables_needs_no_saver(weft, tmp_path):
    step = tf.function(lambda x: {"mean": tf.reduce_mean(x)}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    weft_export.export(step, tmp_path / "step.pb")
    (told,) = steps_of(weft("submit", "step.pb", *feeds(tmp_path, {"x": np.float32([1, 2, 6])}), "--batch", "3", "--steps", "1", "--json"))
    assert told == {"mean": 3}


# ---- what is refused, and how it is said ----


def test_mistakes_are_told(tmp_path):
    path = tmp_path / "model.pb"
    plain = keras.Sequential([L.Input((5,)), L.Dense(1)])
    with pytest.raises(ValueError, match="compile the model"):
        weft_export.export(plain, path)
    with pytest.raises(TypeError, match="a compiled Keras model, a tf.function or a tf.Graph is wanted, not int"):
        weft_export.export(3, path)
    with pytest.raises(ValueError, match=r'give train=\{"train": op'):
        weft_export.export(tf.Graph(), path)
    with pytest.raises(ValueError, match="which inputs has train"):
        weft_export.export(Linear().train, path)
    numbers_of = [tf.TensorSpec([None], tf.float32, "x")]
    for python in (tf.numpy_function, tf.py_function):
        with pytest.raises(ValueError, match="train calls Python"):
            weft_export.export(tf.function(lambda x, call=python: tf.reduce_sum(call(lambda a: a, [x], tf.float32)), input_signature=numbers_of), path)
    made = tf.data.Dataset.from_generator(lambda: iter([1.0]), output_signature=tf.TensorSpec([], tf.float32)).batch(1)
    with pytest.raises(ValueError, match="the data set of train calls Python"):
        weft_export.export(tf.function(tf.reduce_sum), path, data=made)
    writer = tf.summary.create_file_writer(str(tmp_path / "log"))

    @tf.function(input_signature=numbers_of)
    def shows(x):
        with writer.as_default():
            tf.summary.scalar("mean", tf.reduce_mean(x), step=1)
        return tf.reduce_mean(x)

    with pytest.raises(ValueError, match="train writes tf.summary"):
        weft_export.export(shows, path)
    assert not path.exists()
    m, data = fresh(MODELS["regression"])
    with pytest.raises(ValueError, match="data has 4 parts"):
        weft_export.export(m, path, data=(*data, data[1], data[1]))
    weft_export.export(m, path, data=data)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        weft_export.load(path, tmp_path / "nothing", m)
    wider = compiled(keras.Sequential([L.Input((5,)), L.Dense(6, "tanh"), L.Dense(1)]), "sgd", "mse")
    v1.train.Checkpoint  # noqa: B018 - there is one
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "c"), tensor_names=["a"], shape_and_slices=[""], tensors=[tf.zeros([])])
    with pytest.raises(ValueError, match="has shape"):
        weft_export.load(path, tmp_path / "c", wider)
    deeper = compiled(keras.Sequential([L.Input((5,)), L.Dense(4), L.Dense(4), L.Dense(1)]), "sgd", "mse")
    with pytest.raises(ValueError, match="variables of the model"):
        weft_export.load(path, tmp_path / "c", deeper)
