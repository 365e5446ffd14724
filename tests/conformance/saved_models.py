"""SavedModels as people write them: each function writes one into a folder, and says what its signatures are fed.

It returns a dict from a tuple of tags to a list of (signature, {input: value}).
"""

import os

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SERVE = ("serve",)
MODELS = {}


def model(f):
    MODELS[f.__name__] = f
    return f


def rng():
    return np.random.RandomState(7)


def numbers(*shape):
    return rng().randn(*shape).astype(np.float32)


def words_file(name="words.txt", words=("the", "quick", "brown", "fox")):
    import tempfile

    folder = tempfile.mkdtemp()
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(words) + "\n")
    return path


# ---- version 1: graphs, collections, savers ----


def dense(x, units, name):
    with v1.variable_scope(name):
        w = v1.get_variable("w", [x.shape[-1], units], initializer=v1.random_normal_initializer(seed=3))
        b = v1.get_variable("b", [units], initializer=v1.constant_initializer(0.25))
        return tf.nn.bias_add(tf.matmul(x, w), b)


def simple_save(folder, resource):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable_scope().set_use_resource(resource)
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        y = tf.nn.softmax(dense(tf.nn.relu(dense(x, 8, "hidden")), 4, "out"))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"features": x}, {"scores": y, "best": tf.argmax(y, -1)})
    return {SERVE: [("serving_default", {"features": numbers(5, 3)}), ("serving_default", {"features": numbers(0, 3)})]}


@model
def v1_reference_variables(folder):
    return simple_save(folder, False)


@model
def v1_resource_variables(folder):
    return simple_save(folder, True)


@model
def v1_no_variables(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], name="x")
        v1.saved_model.simple_save(session, folder, {"x": x}, {"half_plus_two": x / 2 + 2})
    return {SERVE: [("serving_default", {"x": np.float32(8)})]}


@model
def v1_text(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        y = dense(x, 2, "d")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(folder)
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "predict")
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save(as_text=True)
    return {SERVE: [("serving_default", {"x": numbers(3, 2)})]}


@model
def v1_several_tags(folder):
    """One model for training and two for serving, of which one has other ops; the variables are shared."""
    info, build = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
    builder = v1.saved_model.Builder(folder)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2])
        y = dense(x, 2, "d")
        step = v1.train.get_or_create_global_step()
        loss = tf.reduce_mean(tf.square(y))
        with tf.control_dependencies([v1.train.AdamOptimizer(0.1).minimize(loss, step)]):
            done = tf.identity(loss)
        session.run(v1.global_variables_initializer())
        signatures = {"train": build({"x": info(x)}, {"loss": info(done)}, "train")}
        builder.add_meta_graph_and_variables(session, ["train", "gpu"], signatures)
    for tags, scale in ((["serve"], 1.0), (["serve", "gpu"], 2.0)):
        with tf.Graph().as_default(), v1.Session():
            x = v1.placeholder(tf.float32, [None, 2])
            y = scale * dense(x, 2, "d")
            builder.add_meta_graph(tags, {"serving_default": build({"x": info(x)}, {"y": info(y)}, "predict")})
    builder.save()
    return {
        SERVE: [("serving_default", {"x": numbers(3, 2)})],
        ("gpu", "serve"): [("serving_default", {"x": numbers(3, 2)})],
        ("gpu", "train"): [("train", {"x": numbers(3, 2)})] * 3,
    }


def save_with_assets(folder, make, main_op=None, legacy=None):
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs, value = make()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(folder)
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()}, "predict"
        )
        assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
        more = {"main_op": v1.tables_initializer()} if legacy is None else {"legacy_init_op": v1.tables_initializer()}
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, assets_collection=assets, **more)
        builder.save()
    return {SERVE: [("serving_default", value)]}


def vocabulary(words):
    """Ids of words by a file, beside a variable."""
    text = v1.placeholder(tf.string, [None], name="text")
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 2
    )
    weights = v1.get_variable("weights", [6, 3], initializer=v1.random_uniform_initializer(seed=1))
    ids = table.lookup(text)
    return {"text": text}, {"ids": ids, "rows": tf.gather(weights, ids)}, {"text": np.array([b"fox", b"the", b"zebra"], object)}


@model
def v1_vocabulary_main_op(folder):
    return save_with_assets(folder, lambda: vocabulary(words_file()))


@model
def v1_vocabulary_legacy_init_op(folder):
    return save_with_assets(folder, lambda: vocabulary(words_file()), legacy=True)


@model
def v1_two_assets(folder):
    def make():
        inputs, outputs, value = vocabulary(words_file("a.txt"))
        back = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                words_file("b.txt", ("zero", "one", "two", "three")), tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
            ),
            "?",
        )
        return inputs, {**outputs, "back": back.lookup(outputs["ids"])}, value

    return save_with_assets(folder, make)


@model
def v1_parses_examples(folder):
    """As estimators export: serialized Examples in."""

    def make():
        text = v1.placeholder(tf.string, [None], name="examples")
        parsed = v1.parse_example(
            text, {"a": tf.io.FixedLenFeature([2], tf.float32), "w": tf.io.VarLenFeature(tf.string)}
        )
        table = v1.feature_column  # noqa: F841 - the columns below are what estimators use
        columns = [
            tf.feature_column.numeric_column("a", [2]),
            tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_vocabulary_list("w", ["x", "y"]), 3),
        ]
        layer = v1.feature_column.input_layer(parsed, columns)
        examples = []
        for a, w in (([1, 2], [b"x", b"y"]), ([3, 4], []), ([5, 6], [b"q"])):
            example = tf.train.Example()
            example.features.feature["a"].float_list.value.extend(a)
            example.features.feature["w"].bytes_list.value.extend(w)
            examples.append(example.SerializeToString())
        return {"examples": text}, {"scores": dense(layer, 2, "linear")}, {"examples": np.array(examples, object)}

    return save_with_assets(folder, make)


@model
def v1_partitioned_variables(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", [7, 3], partitioner=v1.fixed_size_partitioner(3), initializer=v1.random_normal_initializer(seed=2))
        x = v1.placeholder(tf.int64, [None])
        y = tf.nn.embedding_lookup(w, x)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    return {SERVE: [("serving_default", {"x": np.arange(7)})]}


@model
def v1_control_flow(folder):
    """Switch and Merge, a while loop with frames."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [None])
        v = v1.get_variable("v", [], initializer=v1.constant_initializer(1.5))
        n = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * v + x), [0, x])[1]
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: n + 1, lambda: n - v)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    v1.enable_control_flow_v2()
    return {SERVE: [("serving_default", {"x": numbers(3)}), ("serving_default", {"x": -np.abs(numbers(3))})]}


@model
def v1_sparse(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.sparse_placeholder(tf.float32, [None, 4])
        w = v1.get_variable("w", [4, 2], initializer=v1.random_normal_initializer(seed=2))
        y = tf.sparse.sparse_dense_matmul(x, w)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    value = {"x": (np.array([[0, 1], [2, 3]]), np.array([1, 2], np.float32), np.array([3, 4]))}
    return {SERVE: [("serving_default", value)]}


# ---- version 2: objects, functions ----


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(numbers(3, 2), name="w")
        self.b = tf.Variable([1.0, -1.0], name="b")
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def __call__(self, x):
        return {"y": tf.matmul(x, self.w) + self.b}


@model
def module_plain(folder):
    m = Affine()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": numbers(4, 3)})]}


@model
def module_no_variables(folder):
    class Double(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x")])
        def __call__(self, x):
            return {"y": x + x}

    m = Double()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": numbers(2, 2)})]}


@model
def module_two_signatures_with_state(folder):
    """A signature that counts how often it is run, one that tells."""

    class Counter(Affine):
        @tf.function(input_signature=[tf.TensorSpec([], tf.int64, "by")])
        def add(self, by):
            return {"count": self.count.assign_add(by)}

        @tf.function(input_signature=[])
        def read(self):
            return {"count": self.count.read_value()}

    m = Counter()
    tf.saved_model.save(m, folder, {"add": m.add, "read": m.read, "serving_default": m.__call__})
    by = {"by": np.int64(5)}
    return {SERVE: [("read", {}), ("add", by), ("add", by), ("read", {}), ("serving_default", {"x": numbers(1, 3)})]}


@model
def module_training_step(folder):
    class Trained(Affine):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 2], tf.float32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, self.w) + self.b - y))
            for v, g in zip((self.w, self.b), tape.gradient(loss, (self.w, self.b))):
                v.assign_sub(0.1 * g)
            self.count.assign_add(1)
            return {"loss": loss}

    m = Trained()
    tf.saved_model.save(m, folder, {"train": m.train, "serving_default": m.__call__})
    batch = {"x": numbers(4, 3), "y": numbers(4, 2)}
    return {SERVE: [("train", batch)] * 3 + [("serving_default", {"x": numbers(2, 3)})]}


@model
def module_control_flow(folder):
    class Loops(tf.Module):
        def __init__(self):
            super().__init__()
            self.scale = tf.Variable(1.25)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")])
        def __call__(self, x, n):
            total = tf.zeros_like(x)
            for i in tf.range(n):
                if tf.reduce_sum(total) > 10.0:
                    total -= x
                else:
                    total += self.scale * x * tf.cast(i, tf.float32)
            parts = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            for k in tf.range(3):
                parts = parts.write(k, total + tf.cast(k, tf.float32))
            return {"y": parts.stack(), "case": tf.switch_case(n % 3, [lambda: 1.0, lambda: 2.0, lambda: 3.0])}

    m = Loops()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": np.abs(numbers(3)), "n": np.int32(n)}) for n in (0, 1, 8)]}


@model
def module_vocabulary_asset(folder):
    class Lookup(tf.Module):
        def __init__(self):
            super().__init__()
            self.file = tf.saved_model.Asset(words_file())
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    self.file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
                ),
                -1,
            )
            self.rows = tf.Variable(numbers(4, 2))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def __call__(self, text):
            ids = self.table.lookup(text)
            return {"ids": ids, "rows": tf.gather(self.rows, tf.maximum(ids, 0))}

    m = Lookup()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"text": np.array([b"brown", b"?", b"the"], object)})]}


@model
def module_mutable_tables(folder):
    """Tables whose contents are in the checkpoint."""

    class Tables(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
            self.dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, -1.0, 0, -2)
            self.table.insert(tf.constant(["a", "b"]), tf.constant([10, 20], tf.int64))
            self.dense.insert(tf.constant([3, 4], tf.int64), tf.constant([0.5, 1.5]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def look(self, text):
            return {"found": self.table.lookup(text), "size": self.table.size(), "dense": self.dense.lookup(tf.constant([3, 4, 5], tf.int64))}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def add(self, text):
            self.table.insert(text, tf.cast(tf.strings.length(text), tf.int64))
            return {"size": self.table.size()}

    m = Tables()
    tf.saved_model.save(m, folder, {"look": m.look, "add": m.add})
    text = {"text": np.array([b"a", b"ccc"], object)}
    return {SERVE: [("look", text), ("add", text), ("look", text)]}


@model
def module_ragged_inside(folder):
    class Words(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def __call__(self, text):
            words = tf.strings.split(text)
            return {"counts": words.row_lengths(), "upper": tf.strings.upper(words).to_tensor("-"), "join": tf.strings.reduce_join(words, -1)}

    m = Words()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"text": np.array([b"the quick fox", b"", b"a b"], object)})]}


@model
def module_ragged_and_sparse_inputs(folder):
    class Composite(tf.Module):
        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
        def ragged(self, r):
            return {"sums": tf.reduce_sum(r, 1), "doubled": (r * 2).values}

        @tf.function(input_signature=[tf.SparseTensorSpec([None, 4], tf.float32)])
        def sparse(self, s):
            return {"dense": tf.sparse.to_dense(s)}

    m = Composite()
    tf.saved_model.save(m, folder, {"ragged": m.ragged, "sparse": m.sparse})
    return {
        SERVE: [
            ("ragged", {"r": np.array([1, 2, 3]), "r_1": np.array([0, 2, 2, 3])}),
            ("sparse", {"s": np.array([[0, 1], [2, 3]]), "s_1": np.array([1, 2], np.float32), "s_2": np.array([3, 4])}),
        ]
    }


@model
def module_random(folder):
    """Stateless random numbers, a Generator's state in the checkpoint."""

    class Random(tf.Module):
        def __init__(self):
            super().__init__()
            self.generator = tf.random.Generator.from_seed(11)

        @tf.function(input_signature=[tf.TensorSpec([2], tf.int32, "seed")])
        def __call__(self, seed):
            return {"fixed": tf.random.stateless_normal([3], seed), "next": self.generator.uniform([2])}

    m = Random()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"seed": np.array([1, 2], np.int32)})] * 2}


@model
def module_dtypes(folder):
    names = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "complex64", "complex128"]

    class Kinds(tf.Module):
        def __init__(self):
            super().__init__()
            self.all = [tf.Variable(tf.cast([0, 1, 2], n), name=n) for n in names] + [tf.Variable([b"a", b"", b"\xff\0z"], name="text")]

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "i")])
        def __call__(self, i):
            return {v.name[:-2]: v[i] for v in self.all}

    m = Kinds()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"i": np.int32(i)}) for i in range(3)]}


@model
def module_dataset_like_map(folder):
    """map_fn, vectorized_map, gradients inside."""

    class Maps(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(2.0)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
        def __call__(self, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.sin(x) * self.v)
            return {"slow": tf.map_fn(lambda r: r * self.v, x), "grad": tape.gradient(y, x), "fast": tf.vectorized_map(lambda r: tf.reduce_sum(r), x)}

    m = Maps()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": numbers(3, 2)})]}


# ---- Keras ----


def export_keras(m, folder):
    m.export(folder, verbose=False)


@model
def keras_sequential(folder):
    tf.keras.utils.set_random_seed(1)
    L = tf.keras.layers
    m = tf.keras.Sequential(
        [L.Input((8, 8, 1)), L.Conv2D(4, 3, activation="relu"), L.BatchNormalization(), L.MaxPooling2D(), L.Flatten(), L.Dropout(0.5), L.Dense(3, activation="softmax")]
    )
    export_keras(m, folder)
    return {SERVE: [("serving_default", {0: numbers(2, 8, 8, 1)})]}


@model
def keras_functional(folder):
    tf.keras.utils.set_random_seed(2)
    L = tf.keras.layers
    a, b = L.Input((4,), name="a"), L.Input((3,), dtype="int32", name="b")
    e = L.GlobalAveragePooling1D()(L.Embedding(10, 5)(b))
    x = L.Dense(5, activation="gelu")(L.concatenate([a, e]))
    m = tf.keras.Model([a, b], {"one": L.Dense(1)(x), "two": L.LayerNormalization()(x)})
    export_keras(m, folder)
    return {SERVE: [("serving_default", {"a": numbers(2, 4), "b": np.array([[1, 2, 3], [9, 0, 4]], np.int32)})]}


@model
def keras_lstm(folder):
    tf.keras.utils.set_random_seed(3)
    L = tf.keras.layers
    m = tf.keras.Sequential([L.Input((None, 3)), L.Bidirectional(L.LSTM(4, return_sequences=True)), L.GRU(3), L.Dense(2)])
    export_keras(m, folder)
    return {SERVE: [("serving_default", {0: numbers(2, 5, 3)})]}


@model
def keras_subclass(folder):
    tf.keras.utils.set_random_seed(4)

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.attention = tf.keras.layers.MultiHeadAttention(2, 4)
            self.out = tf.keras.layers.Dense(2)

        def call(self, x):
            return self.out(self.attention(x, x))

    m = Net()
    m(numbers(2, 3, 8))
    export_keras(m, folder)
    return {SERVE: [("serving_default", {0: numbers(2, 3, 8)})]}


@model
def keras_text(folder):
    """Text in, a vocabulary in a lookup layer."""
    L = tf.keras.layers
    vectorize = L.TextVectorization(vocabulary=["the", "fox", "dog"], output_sequence_length=4)
    embedding = L.Embedding(6, 3)

    class Text(tf.Module):
        def __init__(self):
            super().__init__()
            self.vectorize, self.embedding = vectorize, embedding

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def __call__(self, text):
            ids = self.vectorize(text)
            return {"ids": ids}

    m = Text()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"text": np.array([b"The fox!", b"a dog, the dog", b""], object)})]}


@model
def keras_trained(folder):
    """A model that was trained, with its optimizer's variables, and that can go on."""
    tf.keras.utils.set_random_seed(5)

    class Trainer(tf.Module):
        def __init__(self):
            super().__init__()
            self.net = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)])
            self.optimizer = tf.keras.optimizers.Adam(0.05)
            self.optimizer.build(self.net.trainable_variables)
            self.all = [v.value for v in self.net.variables + self.optimizer.variables]

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.net(x, training=True) - y))
            self.optimizer.apply(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables)
            return {"loss": loss}

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
        def serve(self, x):
            return {"y": self.net(x)}

    m = Trainer()
    for _ in range(2):
        m.train(tf.constant(numbers(4, 3)), tf.constant(numbers(4, 1)))
    tf.saved_model.save(m, folder, {"train": m.train, "serving_default": m.serve})
    return {SERVE: [("train", {"x": numbers(4, 3), "y": numbers(4, 1)})] * 3 + [("serving_default", {"x": numbers(2, 3)})]}


# ---- more of both ----


@model
def v1_stripped_defaults(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 6, 6, 2])
        k = v1.get_variable("k", [3, 3, 2, 4], initializer=v1.random_normal_initializer(seed=4))
        y = tf.nn.max_pool2d(tf.nn.conv2d(x, k, 1, "SAME"), 2, 2, "VALID")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(folder)
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "predict")
        builder.add_meta_graph_and_variables(session, ["serve"], {"image": signature}, strip_default_attrs=True)
        builder.save()
    return {SERVE: [("image", {"x": numbers(2, 6, 6, 2)})]}


@model
def v1_functions(folder):
    """Calls of functions in a graph of version 1."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])

        @tf.function
        def inner(t):
            return tf.sin(t) * 2

        @tf.function
        def outer(t):
            return inner(t) + inner(t + 1)

        v = v1.get_variable("v", [], initializer=v1.constant_initializer(0.5), use_resource=True)
        y = outer(x) * v
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    return {SERVE: [("serving_default", {"x": numbers(4)})]}


@model
def v1_local_tables_and_strings(folder):
    def make():
        text = v1.placeholder(tf.string, [None], name="text")
        parts = tf.strings.split(tf.strings.lower(text), " ").to_tensor("")
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([5, 6], tf.int64)), -1)
        bucket = tf.strings.to_hash_bucket_fast(parts, 11)
        v1.get_variable("unused", [1])
        return {"text": text}, {"parts": parts, "found": table.lookup(parts), "bucket": bucket}, {"text": np.array([b"A b", b"c"], object)}

    return save_with_assets(folder, make)


@model
def v1_assets_are_shared(folder):
    """One file for two tables."""

    def make():
        path = words_file()
        inputs, outputs, value = vocabulary(path)
        again = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(path, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE), "?"
        )
        return inputs, {**outputs, "back": again.lookup(outputs["ids"])}, value

    return save_with_assets(folder, make)


@model
def module_same_names(folder):
    """Variables that have one name."""

    class Twins(tf.Module):
        def __init__(self):
            super().__init__()
            self.a = tf.Variable([1.0, 2.0], name="w")
            self.b = tf.Variable([3.0], name="w")
            self.c = [tf.Variable(float(i), name="w") for i in range(3)]

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x")])
        def __call__(self, x):
            return {"a": self.a * x, "b": self.b * x, "c": tf.stack([v.read_value() for v in self.c]) * x}

    m = Twins()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": np.float32(2)})]}


@model
def module_large_constant(folder):
    class Large(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "i")])
        def __call__(self, i):
            return {"rows": tf.gather(tf.constant(numbers(1 << 12, 64)), i)}

    m = Large()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"i": np.array([0, 4095], np.int32)})]}


@model
def module_pictures(folder):
    """As served: encoded pictures in, scores out."""

    class Pictures(tf.Module):
        def __init__(self):
            super().__init__()
            self.k = tf.Variable(numbers(3, 3, 3, 2))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "png")])
        def __call__(self, png):
            def one(text):
                return tf.image.resize(tf.image.convert_image_dtype(tf.io.decode_png(text, 3), tf.float32), [8, 8])

            pictures = tf.map_fn(one, png, fn_output_signature=tf.TensorSpec([8, 8, 3], tf.float32))
            return {"scores": tf.reduce_mean(tf.nn.conv2d(pictures, self.k, 1, "SAME"), [1, 2])}

    m = Pictures()
    tf.saved_model.save(m, folder, m.__call__)
    pictures = [tf.io.encode_png(rng().randint(0, 255, (h, 9, 3)).astype(np.uint8)).numpy() for h in (5, 12)]
    return {SERVE: [("serving_default", {"png": np.array(pictures, object)})]}


@model
def module_nested_calls(folder):
    """Functions with captured values in functions, a loop and a condition in them, gradients across all."""

    class Nested(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(1.5)
            self.w = tf.Variable(numbers(2, 2))

        @tf.function
        def step(self, h):
            return tf.cond(tf.reduce_sum(h) > 0, lambda: tf.tanh(tf.matmul(h, self.w)), lambda: h * self.v)

        @tf.function
        def roll(self, h):
            return tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, self.step(s)), (0, h))[1]

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "h")])
        def __call__(self, h):
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(self.roll(h))
            return {"y": y, **dict(zip(("dv", "dw"), tape.gradient(y, (self.v, self.w), unconnected_gradients="zero")))}

    m = Nested()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"h": numbers(1, 2)}), ("serving_default", {"h": -np.abs(numbers(2, 2))})]}


@model
def module_list_of_signature_outputs(folder):
    class Several(tf.Module):
        def __init__(self):
            super().__init__()
            self.n = tf.Variable([1, 2, 3])

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "k"), tf.TensorSpec([None], tf.int32, "more")])
        def __call__(self, k, more):
            return {f"o{i}": self.n[i] + k for i in range(3)} | {"more": tf.sort(more), "size": tf.size(more)}

    m = Several()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"k": np.int32(1), "more": np.array([3, 1, 2], np.int32)})]}


@model
def keras_preprocessing(folder):
    """Lookups, normalisation, buckets and hashes in the model."""
    L = tf.keras.layers

    class Features(tf.Module):
        def __init__(self):
            super().__init__()
            self.scale = L.Normalization(mean=[1.0, 2.0], variance=[4.0, 9.0])
            self.buckets = L.Discretization([0.0, 1.0])
            self.one_hot = L.CategoryEncoding(3, "multi_hot")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.string, "s")])
        def __call__(self, x, s):
            ids = self.buckets(x)
            return {"scaled": self.scale(x), "ids": ids, "hot": self.one_hot(ids), "hashed": tf.strings.to_hash_bucket_strong(s, 7, [1, 2])}

    m = Features()
    tf.saved_model.save(m, folder, m.__call__)
    return {SERVE: [("serving_default", {"x": numbers(3, 2), "s": np.array([b"a", b"b", b""], object)})]}


@model
def keras_residual(folder):
    tf.keras.utils.set_random_seed(6)
    L = tf.keras.layers
    i = L.Input((12, 12, 3))
    x = L.Conv2D(8, 3, padding="same", use_bias=False)(i)
    for stride in (1, 2):
        y = L.BatchNormalization()(L.SeparableConv2D(8, 3, stride, "same")(L.ReLU(6.0)(x)))
        x = L.Add()([L.Conv2D(8, 1, stride)(x), y])
    m = tf.keras.Model(i, L.Dense(5, activation="softmax")(L.GlobalAveragePooling2D()(L.Dropout(0.2)(x))))
    export_keras(m, folder)
    return {SERVE: [("serving_default", {0: numbers(2, 12, 12, 3)})]}


@model
def keras_train_function(folder):
    """What fit() runs: the model's own train_step, with its optimizer, loss and metrics."""
    tf.keras.utils.set_random_seed(7)
    net = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
    net.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    net.optimizer.build(net.trainable_variables)

    class Trainer(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = net.compute_loss(x, y, net(x, training=True), training=True)
            net.optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
            return {"loss": loss}

    m = Trainer()
    m.net = net
    m.all = [v.value for v in net.variables + net.optimizer.variables + [v for k in net.metrics for v in k.variables]]
    tf.saved_model.save(m, folder, {"train": m.train})
    return {SERVE: [("train", {"x": numbers(4, 3), "y": numbers(4, 1)})] * 4}
