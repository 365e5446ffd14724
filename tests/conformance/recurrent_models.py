"""Recurrent nets as people write them, each a function that makes a loss from placeholders of its own.

`inputs(name)` gives a placeholder whose first dimension is the batch: `tokens` [?, 6], `lengths` [?], `features` [?, 5, 3],
`label` [?], `tags` [?, 6], `target` [?, 4], `state` [?, 5].
"""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

v1 = tf.compat.v1
ROWS, WORDS, CLASSES = 36, 20, 4
rng = np.random.RandomState(11)
DATA = {
    "tokens": rng.randint(1, WORDS, (ROWS, 6)).astype("i4"),
    "lengths": rng.randint(1, 7, ROWS).astype("i4"),
    "features": rng.randn(ROWS, 5, 3).astype("f"),
    "label": rng.randint(0, CLASSES, ROWS).astype("i4"),
    "tags": rng.randint(0, CLASSES, (ROWS, 6)).astype("i4"),
    "target": rng.randint(1, WORDS, (ROWS, 4)).astype("i4"),
    "state": rng.randn(ROWS, 5).astype("f"),
}


def start(shape, seed):
    return (np.random.RandomState(seed).randn(*shape) * 0.3).astype("f")


def variable(name, shape, seed):
    return v1.get_variable(name, initializer=start(shape, seed))


def init():
    """An initializer for cells, which name their weights themselves."""
    return v1.random_uniform_initializer(-0.4, 0.4, seed=5)


def classify(h, y, units=5):
    logits = tf.matmul(h, variable("out", (units, CLASSES), 3)) + variable("out_b", (CLASSES,), 4)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def embed(ids, name="table", width=3):
    return tf.nn.embedding_lookup(variable(name, (WORDS, width), 1), ids)


# ---- dynamic_rnn: cells ----


def basic_rnn(inputs):
    _, h = v1.nn.dynamic_rnn(cells.BasicRNNCell(5), inputs("features"), dtype=tf.float32)
    return classify(h, inputs("label"))


def lstm(inputs):
    _, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), inputs("features"), dtype=tf.float32)
    return classify(s.h, inputs("label"))


def lstm_peepholes(inputs):
    cell = cells.LSTMCell(5, use_peepholes=True, num_proj=4, cell_clip=2.0)
    out, _ = v1.nn.dynamic_rnn(cell, inputs("features"), dtype=tf.float32)
    return classify(out[:, -1], inputs("label"), 4)


def gru(inputs):
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), inputs("features"), dtype=tf.float32)
    return classify(tf.reduce_mean(out, 1), inputs("label"))


def embedded(inputs):
    _, h = v1.nn.dynamic_rnn(cells.BasicRNNCell(5), embed(inputs("tokens")), dtype=tf.float32)
    return classify(h, inputs("label"))


def embedded_lstm_lengths(inputs):
    _, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), embed(inputs("tokens")), inputs("lengths"), dtype=tf.float32)
    return classify(s.h, inputs("label"))


def embedded_gru_swap(inputs):
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(inputs("tokens")), inputs("lengths"), dtype=tf.float32,
                               swap_memory=True, parallel_iterations=1)
    return classify(out[:, -1], inputs("label"))


def dense_before(inputs):
    x = tf.nn.relu(tf.tensordot(inputs("features"), variable("w0", (3, 4), 1), 1) + variable("b0", (4,), 2))
    _, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), x, dtype=tf.float32)
    return classify(s.h, inputs("label"))


def dense_before_reshaped(inputs):
    x = tf.matmul(tf.reshape(inputs("features"), [-1, 3]), variable("w0", (3, 4), 1))
    _, h = v1.nn.dynamic_rnn(cells.GRUCell(5), tf.reshape(x, [-1, 5, 4]), dtype=tf.float32)
    return classify(h, inputs("label"))


def stacked(inputs):
    many = cells.MultiRNNCell([cells.BasicLSTMCell(5), cells.GRUCell(4)])
    _, s = v1.nn.dynamic_rnn(many, embed(inputs("tokens")), inputs("lengths"), dtype=tf.float32)
    return classify(s[-1], inputs("label"), 4)


def residual(inputs):
    many = cells.MultiRNNCell([cells.ResidualWrapper(cells.GRUCell(3)) for _ in range(2)])
    out, _ = v1.nn.dynamic_rnn(many, embed(inputs("tokens")), dtype=tf.float32)
    return classify(out[:, -1], inputs("label"), 3)


def time_major(inputs):
    x = tf.transpose(embed(inputs("tokens")), [1, 0, 2])
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), x, inputs("lengths"), dtype=tf.float32, time_major=True)
    return classify(out[-1], inputs("label"))


def fed_state(inputs):
    _, h = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(inputs("tokens")), initial_state=inputs("state"))
    return classify(h, inputs("label"))


def zero_state(inputs):
    cell, x = cells.BasicLSTMCell(5), embed(inputs("tokens"))
    _, s = v1.nn.dynamic_rnn(cell, x, initial_state=cell.zero_state(tf.shape(x)[0], tf.float32))
    return classify(s.h, inputs("label"))


def learned_state(inputs):
    x = embed(inputs("tokens"))
    first = tf.tile(variable("first", (1, 5), 6), [tf.shape(x)[0], 1])
    _, h = v1.nn.dynamic_rnn(cells.GRUCell(5), x, initial_state=first)
    return classify(h, inputs("label"))


def bidirectional(inputs):
    _, (f, b) = v1.nn.bidirectional_dynamic_rnn(
        cells.GRUCell(5), cells.GRUCell(5), embed(inputs("tokens")), inputs("lengths"), dtype=tf.float32)
    return classify(tf.concat([f, b], 1), inputs("label"), 10)


def bidirectional_plain(inputs):
    (f, b), _ = v1.nn.bidirectional_dynamic_rnn(
        cells.BasicLSTMCell(5), cells.BasicLSTMCell(4), inputs("features"), dtype=tf.float32)
    return classify(tf.reduce_max(tf.concat([f, b], 2), 1), inputs("label"), 9)


def static(inputs):
    steps = tf.unstack(embed(inputs("tokens")), 6, 1)
    out, _ = v1.nn.static_rnn(cells.BasicLSTMCell(5), steps, dtype=tf.float32)
    return classify(out[-1], inputs("label"))


def static_lengths(inputs):
    steps = tf.unstack(embed(inputs("tokens")), 6, 1)
    _, s = v1.nn.static_rnn(cells.GRUCell(5), steps, dtype=tf.float32, sequence_length=inputs("lengths"))
    return classify(s, inputs("label"))


def static_bidirectional(inputs):
    steps = tf.unstack(inputs("features"), 5, 1)
    out, _, _ = v1.nn.static_bidirectional_rnn(cells.GRUCell(5), cells.GRUCell(5), steps, dtype=tf.float32)
    return classify(out[-1], inputs("label"), 10)


def last_relevant(inputs):
    """The output at each row's own last step, by gather_nd over a range of rows."""
    lengths = inputs("lengths")
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(inputs("tokens")), lengths, dtype=tf.float32)
    at = tf.stack([tf.range(tf.shape(out)[0]), lengths - 1], 1)
    return classify(tf.gather_nd(out, at), inputs("label"))


def last_relevant_flat(inputs):
    lengths = inputs("lengths")
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(inputs("tokens")), lengths, dtype=tf.float32)
    at = tf.range(tf.shape(out)[0]) * tf.shape(out)[1] + (lengths - 1)
    return classify(tf.gather(tf.reshape(out, [-1, 5]), at), inputs("label"))


# ---- taggers ----


def tag_loss(out, inputs, units, lengths=None):
    w = variable("tag", (units, CLASSES), 7)
    logits = tf.reshape(tf.matmul(tf.reshape(out, [-1, units]), w), [-1, 6, CLASSES])
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=inputs("tags"), logits=logits)
    if lengths is None:
        return tf.reduce_mean(each)
    mask = tf.sequence_mask(lengths, 6, dtype=tf.float32)
    return tf.reduce_sum(each * mask) / tf.reduce_sum(mask)


def tagger(inputs):
    out, _ = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), embed(inputs("tokens")), dtype=tf.float32)
    return tag_loss(out, inputs, 5)


def masked_tagger(inputs):
    lengths = inputs("lengths")
    (f, b), _ = v1.nn.bidirectional_dynamic_rnn(
        cells.GRUCell(5), cells.GRUCell(5), embed(inputs("tokens")), lengths, dtype=tf.float32)
    return tag_loss(tf.concat([f, b], -1), inputs, 10, lengths)


def boolean_masked_tagger(inputs):
    lengths = inputs("lengths")
    out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(inputs("tokens")), lengths, dtype=tf.float32)
    logits = tf.tensordot(out, variable("tag", (5, CLASSES), 7), 1)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=inputs("tags"), logits=logits)
    return tf.reduce_mean(tf.boolean_mask(each, tf.sequence_mask(lengths, 6)))


def language_model(inputs):
    tokens = inputs("tokens")
    table = variable("table", (WORDS, 5), 1)
    out, _ = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.nn.embedding_lookup(table, tokens[:, :-1]), dtype=tf.float32)
    logits = tf.matmul(tf.reshape(out, [-1, 5]), table, transpose_b=True)
    wanted = tf.reshape(tokens[:, 1:], [-1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits))


# ---- sequence to sequence ----


def seq_loss(logits, target):
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    return tf.reduce_mean(tf.reduce_sum(each, 1))


def go_before(target):
    return tf.concat([tf.fill([tf.shape(target)[0], 1], 0), target[:, :-1]], 1)


def seq2seq(inputs):
    target = inputs("target")
    table = variable("table", (WORDS, 3), 1)
    with v1.variable_scope("encoder"):
        _, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.nn.embedding_lookup(table, inputs("tokens")),
                                 inputs("lengths"), dtype=tf.float32)
    with v1.variable_scope("decoder"):
        out, _ = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.nn.embedding_lookup(table, go_before(target)), initial_state=s)
    return seq_loss(tf.tensordot(out, variable("proj", (5, WORDS), 8), 1), target)


def seq2seq_reversed(inputs):
    target = inputs("target")
    with v1.variable_scope("encoder"):
        _, h = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(tf.reverse_sequence(inputs("tokens"), inputs("lengths"), 1)),
                                 inputs("lengths"), dtype=tf.float32)
    with v1.variable_scope("decoder"):
        out, _ = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(go_before(target)), initial_state=tf.tanh(h))
    return seq_loss(tf.tensordot(out, variable("proj", (5, WORDS), 8), 1), target)


def attention(inputs):
    """A decoder that looks at all encoder outputs in every step, in a raw while loop."""
    target, tokens = inputs("target"), inputs("tokens")
    with v1.variable_scope("encoder"):
        memory, h = v1.nn.dynamic_rnn(cells.GRUCell(5), embed(tokens), inputs("lengths"), dtype=tf.float32)
    mask = tf.sequence_mask(inputs("lengths"), 6, dtype=tf.float32)
    words = tf.transpose(embed(go_before(target), "decoder_table"), [1, 0, 2])
    keys = tf.tensordot(memory, variable("wa", (5, 5), 9), 1)
    w, u = variable("w", (8, 5), 10), variable("u", (5, 5), 12)

    def step(h, word):
        score = tf.reduce_sum(keys * tf.expand_dims(h, 1), 2) + (1 - mask) * -1e9
        context = tf.reduce_sum(memory * tf.expand_dims(tf.nn.softmax(score), 2), 1)
        return tf.tanh(tf.matmul(tf.concat([word, context], 1), w) + tf.matmul(h, u))

    out = tf.transpose(tf.scan(step, words, initializer=h), [1, 0, 2])
    return seq_loss(tf.tensordot(out, variable("proj", (5, WORDS), 8), 1), target)


def greedy_decoder(inputs):
    """Feeds back what it has chosen; the loss is made from the logits of each step, inside the loop."""
    target = inputs("target")
    table = variable("table", (WORDS, 3), 1)
    _, h = v1.nn.dynamic_rnn(cells.GRUCell(5), tf.nn.embedding_lookup(table, inputs("tokens")), dtype=tf.float32)
    cell, w = cells.GRUCell(5, kernel_initializer=init()), variable("proj", (5, WORDS), 8)
    cell.build((None, 3))

    def body(t, word, h, loss):
        _, h = cell(tf.nn.embedding_lookup(table, word), h)
        logits = tf.matmul(h, w)
        loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, t], logits=logits))
        return t + 1, tf.argmax(logits, 1, tf.int32), h, loss

    first = tf.zeros([tf.shape(target)[0]], tf.int32)
    with v1.variable_scope("loop"):
        return v1.while_loop(lambda t, *_: t < 4, body, (0, first, h, 0.0))[3] / 4


# ---- loops by hand ----


def raw_rnn(inputs):
    x, lengths = tf.transpose(embed(inputs("tokens")), [1, 0, 2]), inputs("lengths")
    ta = tf.TensorArray(tf.float32, 6).unstack(x)
    cell = cells.BasicLSTMCell(5)

    def step(time, output, state, _):
        done = time >= lengths
        following = state if output is not None else cell.zero_state(tf.shape(lengths)[0], tf.float32)
        word = tf.cond(tf.reduce_all(done), lambda: tf.zeros([tf.shape(lengths)[0], 3]), lambda: ta.read(time))
        return done, word, following, output, None

    out, s, _ = v1.nn.raw_rnn(cell, step)
    return classify(s.h, inputs("label")) + 0.1 * tf.reduce_mean(tf.square(out.stack()))


def scan(inputs):
    w, u = variable("w", (3, 5), 1), variable("u", (5, 5), 2)
    x = tf.transpose(inputs("features"), [1, 0, 2])
    h = tf.scan(lambda h, xt: tf.tanh(tf.matmul(xt, w) + tf.matmul(h, u)), x, initializer=tf.zeros([tf.shape(x)[1], 5]))
    return classify(h[-1], inputs("label"))


def scan_embedded(inputs):
    u = variable("u", (5, 5), 2)
    x = tf.transpose(embed(inputs("tokens"), width=5), [1, 0, 2])
    h = tf.scan(lambda h, xt: tf.tanh(xt + tf.matmul(h, u)), x, initializer=tf.zeros_like(x[0]))
    return classify(tf.reduce_mean(h, 0), inputs("label"))


def foldl(inputs):
    u = variable("u", (5, 5), 2)
    x = tf.transpose(embed(inputs("tokens"), width=5), [1, 0, 2])
    return classify(tf.foldl(lambda h, xt: tf.tanh(xt + tf.matmul(h, u)), x, initializer=tf.zeros_like(x[0])), inputs("label"))


def foldr(inputs):
    u = variable("u", (5, 5), 2)
    x = tf.transpose(embed(inputs("tokens"), width=5), [1, 0, 2])
    return classify(tf.foldr(lambda h, xt: tf.tanh(xt + tf.matmul(h, u)), x, initializer=tf.zeros_like(x[0])), inputs("label"))


def map_steps(inputs):
    """map_fn over time: rows lie inside of each element."""
    w = variable("w", (3, 5), 1)
    x = tf.transpose(embed(inputs("tokens")), [1, 0, 2])
    return classify(tf.reduce_sum(tf.map_fn(lambda xt: tf.tanh(tf.matmul(xt, w)), x), 0), inputs("label"))


def map_rows(inputs):
    """map_fn over the batch: each element is a row."""
    w = variable("w", (3, 5), 1)
    h = tf.map_fn(lambda row: tf.reduce_max(tf.tanh(tf.matmul(row, w)), 0), inputs("features"))
    return classify(h, inputs("label"))


def map_rows_embedded(inputs):
    w = variable("w", (3, 5), 1)
    h = tf.map_fn(lambda row: tf.reduce_max(tf.tanh(tf.matmul(row, w)), 0), embed(inputs("tokens")))
    return classify(h, inputs("label"))


def map_two_rows(inputs):
    w = variable("w", (3, 5), 1)
    h = tf.map_fn(lambda r: tf.reduce_sum(tf.tanh(tf.matmul(r[0], w)), 0) * tf.cast(r[1], tf.float32),
                  (inputs("features"), inputs("lengths")), fn_output_signature=tf.float32)
    return classify(h, inputs("label"))


def longest(inputs):
    """As many rounds as the longest row has steps: data decide, of all rows."""
    lengths, x = inputs("lengths"), embed(inputs("tokens"))
    w, u = variable("w", (3, 5), 9), variable("u", (5, 5), 2)

    def body(t, h):
        new = tf.tanh(tf.matmul(x[:, t], w) + tf.matmul(h, u))
        return t + 1, tf.where(tf.expand_dims(t < lengths, 1), new, h)

    h = v1.while_loop(lambda t, _: t < tf.reduce_max(lengths), body, (0, tf.zeros([tf.shape(lengths)[0], 5])))[1]
    return classify(h, inputs("label"))


def until_all_done(inputs):
    lengths, x = inputs("lengths"), embed(inputs("tokens"))
    u = variable("u", (5, 5), 2)
    longest = tf.reduce_max(lengths)

    def body(t, h):
        return t + 1, tf.where(tf.expand_dims(t < lengths, 1), tf.tanh(x[:, t] @ variable_w + h @ u), h)

    variable_w = variable("w", (3, 5), 9)
    h = v1.while_loop(lambda t, _: t < longest, body, (0, tf.zeros([tf.shape(lengths)[0], 5])), swap_memory=True)[1]
    return classify(h, inputs("label"))


def loss_in_loop(inputs):
    """Each step adds the mean of its own loss."""
    tags, x = inputs("tags"), embed(inputs("tokens"))
    w, u, o = variable("w", (3, 5), 9), variable("u", (5, 5), 2), variable("o", (5, CLASSES), 3)

    def body(t, h, loss):
        h = tf.tanh(x[:, t] @ w + h @ u)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags[:, t], logits=h @ o)
        return t + 1, h, loss + tf.reduce_mean(each)

    return v1.while_loop(lambda t, *_: t < 6, body, (0, tf.zeros([tf.shape(x)[0], 5]), 0.0))[2] / 6


def sum_in_loop(inputs):
    tags, x = inputs("tags"), embed(inputs("tokens"))
    w, u, o = variable("w", (3, 5), 9), variable("u", (5, 5), 2), variable("o", (5, CLASSES), 3)

    def body(t, h, total):
        h = tf.tanh(x[:, t] @ w + h @ u)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags[:, t], logits=h @ o)
        return t + 1, h, total + tf.reduce_sum(each)

    total = v1.while_loop(lambda t, *_: t < 6, body, (0, tf.zeros([tf.shape(x)[0], 5]), 0.0))[2]
    return total / tf.cast(tf.size(tags), tf.float32)


def cond_in_loop(inputs):
    x = embed(inputs("tokens"))
    w, u = variable("w", (3, 5), 9), variable("u", (5, 5), 2)

    def body(t, h):
        new = tf.cond(tf.equal(t % 2, 0), lambda: tf.tanh(x[:, t] @ w + h @ u), lambda: tf.nn.relu(x[:, t] @ w) + 0.5 * h)
        return t + 1, new

    return classify(v1.while_loop(lambda t, _: t < 6, body, (0, tf.zeros([tf.shape(x)[0], 5])))[1], inputs("label"))


def loop_in_cond(inputs):
    x = embed(inputs("tokens"))
    step = v1.train.get_or_create_global_step()

    def run(name):
        with v1.variable_scope(name):
            return v1.nn.dynamic_rnn(cells.GRUCell(5, kernel_initializer=init()), x, dtype=tf.float32)[1]

    h = tf.cond(tf.equal(step % 2, 0), lambda: run("even"), lambda: run("odd"))
    return classify(h, inputs("label"))


def nested(inputs):
    """For each time step three rounds of an inner loop."""
    x = embed(inputs("tokens"), width=5)
    u = variable("u", (5, 5), 2)

    def outer(t, h):
        inner = v1.while_loop(lambda k, _: k < 3, lambda k, g: (k + 1, tf.tanh(g @ u + 0.1 * x[:, t])), (0, h))
        return t + 1, inner[1]

    return classify(v1.while_loop(lambda t, _: t < 6, outer, (0, tf.zeros_like(x[:, 0])))[1], inputs("label"))


def nested_arrays(inputs):
    x = embed(inputs("tokens"), width=5)
    u = variable("u", (5, 5), 2)
    seq = tf.transpose(x, [1, 0, 2])

    def outer(h, xt):
        return tf.scan(lambda g, k: tf.tanh(g @ u + k * xt), tf.constant([0.1, 0.2, 0.3]), initializer=h)[-1]

    return classify(tf.scan(outer, seq, initializer=tf.zeros_like(seq[0]))[-1], inputs("label"))


def dropout_free_stack(inputs):
    """Three dynamic_rnns one upon the other."""
    h = embed(inputs("tokens"))
    for i in range(3):
        with v1.variable_scope(f"layer_{i}"):
            h, _ = v1.nn.dynamic_rnn(cells.GRUCell(4), h, inputs("lengths"), dtype=tf.float32)
    return classify(h[:, 0], inputs("label"), 4)


def convolved(inputs):
    x = tf.nn.conv1d(embed(inputs("tokens")), variable("k", (3, 3, 4), 9), 1, "SAME")
    _, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.nn.relu(x), inputs("lengths"), dtype=tf.float32)
    return classify(s.h, inputs("label"))


def siamese(inputs):
    """One cell over two sequences."""
    cell, table = cells.GRUCell(5), variable("table", (WORDS, 3), 1)
    with v1.variable_scope("side") as scope:
        _, a = v1.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, inputs("tokens")), inputs("lengths"), dtype=tf.float32)
        scope.reuse_variables()
        _, b = v1.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, inputs("target")), dtype=tf.float32)
    near = tf.exp(-tf.reduce_sum(tf.abs(a - b), 1))
    return tf.reduce_mean(tf.square(near - tf.cast(inputs("label") > 1, tf.float32)))


def state_penalty(inputs):
    out, s = v1.nn.dynamic_rnn(cells.BasicLSTMCell(5), embed(inputs("tokens")), dtype=tf.float32)
    slow = tf.reduce_mean(tf.square(out[:, 1:] - out[:, :-1]))
    return classify(s.h, inputs("label")) + 0.1 * slow + 0.01 * tf.add_n([tf.nn.l2_loss(v) for v in v1.trainable_variables()])


def normalised(inputs):
    """Layer normalisation in the cell."""
    x, u = tf.transpose(embed(inputs("tokens"), width=5), [1, 0, 2]), variable("u", (5, 5), 2)
    gain = v1.get_variable("gain", initializer=np.ones(5, "f"))

    def step(h, xt):
        a = xt + h @ u
        mean, var = tf.nn.moments(a, [1], keepdims=True)
        return tf.tanh((a - mean) * tf.math.rsqrt(var + 1e-3) * gain)

    return classify(tf.scan(step, x, initializer=tf.zeros_like(x[0]))[-1], inputs("label"))


# ---- Keras layers ----


def keras(layer, units, **more):
    """Of TensorFlow's own copy of Keras: its loops follow the kind of control flow that is on."""
    from tensorflow.python.keras.layers import recurrent

    return getattr(recurrent, layer)(units, recurrent_initializer="glorot_uniform", **more)


def keras_gru(inputs):
    return tag_loss(keras("GRU", 5, return_sequences=True)(embed(inputs("tokens"))), inputs, 5)


def keras_lstm(inputs):
    return classify(keras("LSTM", 5)(embed(inputs("tokens"))), inputs("label"))


def keras_masked(inputs):
    mask = tf.sequence_mask(inputs("lengths"), 6)
    return classify(keras("LSTM", 5)(embed(inputs("tokens")), mask=mask), inputs("label"))


def keras_bidirectional(inputs):
    f = keras("GRU", 5)(embed(inputs("tokens")))
    b = keras("GRU", 5, go_backwards=True)(embed(inputs("tokens"), "table_b"))
    return classify(tf.concat([f, b], 1), inputs("label"), 10)


def conditional(inputs):
    x, w = embed(inputs("tokens")), variable("w", (3, 5), 1)
    step = v1.train.get_or_create_global_step()
    h = tf.cond(tf.equal(step % 3, 0), lambda: tf.tanh(x[:, 0] @ w), lambda: tf.nn.relu(x[:, 1] @ w) + 0.1)
    return classify(h, inputs("label"))


def conditional_nested(inputs):
    x, w = embed(inputs("tokens")), variable("w", (3, 5), 1)
    step = v1.train.get_or_create_global_step()

    def other():
        return tf.cond(tf.equal(step % 3, 1), lambda: tf.tanh(x[:, 1] @ w * 0.5), lambda: tf.reduce_max(x, 1) @ w)

    h = tf.cond(tf.equal(step % 3, 0), lambda: tf.tanh(x[:, 0] @ w), other)
    return classify(h, inputs("label"))


def switch_case(inputs):
    x, w = embed(inputs("tokens")), variable("w", (3, 5), 1)
    step = v1.train.get_or_create_global_step()
    h = tf.switch_case(tf.cast(step % 3, tf.int32), [lambda: x[:, 0] @ w, lambda: tf.tanh(x[:, 1] @ w), lambda: x[:, 2] @ w * 0.3])
    return classify(h, inputs("label"))


def data_conditional(inputs):
    """The branch depends on all rows together."""
    x, w = embed(inputs("tokens")), variable("w", (3, 5), 1)
    h = tf.cond(tf.reduce_mean(tf.cast(inputs("lengths"), tf.float32)) > 3.5, lambda: tf.tanh(x[:, 0] @ w), lambda: x[:, 1] @ w)
    return classify(h, inputs("label"))


def simple_while(inputs):
    x, w = embed(inputs("tokens"), width=5), variable("w", (5, 5), 1)
    h = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h @ w)), (0, x[:, 0]))[1]
    return classify(h, inputs("label"))


def shared_weights_in_loop(inputs):
    """The loop's weights come out of a computation, and are used after it, too."""
    x, base = embed(inputs("tokens"), width=5), variable("w", (5, 5), 1)
    w = tf.nn.l2_normalize(base, 0)
    h = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h @ w)), (0, x[:, 0]))[1]
    return classify(h @ w, inputs("label"))


MODELS = [v for v in list(globals().values()) if callable(v) and getattr(v, "__module__", "") == __name__
          and v.__code__.co_varnames[: v.__code__.co_argcount] == ("inputs",)]


def build(model, v2=False, clips=True, optimizer=None):
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    used = set()
    with tf.Graph().as_default() as g:
        made = {name: v1.placeholder(d.dtype, [None, *d.shape[1:]], name=name) for name, d in DATA.items()}

        def inputs(name):
            used.add(name)
            return made[name]

        v1.set_random_seed(1)
        with v1.variable_scope("net", initializer=init()):
            loss = model(inputs)
        loss = tf.identity(loss, name="loss")
        step = v1.train.get_or_create_global_step()
        opt = optimizer() if optimizer is not None else v1.train.MomentumOptimizer(0.1, 0.9)
        pairs = [(grad, v) for grad, v in opt.compute_gradients(loss) if grad is not None]
        if clips:
            grads, variables = zip(*pairs)
            pairs = list(zip(tf.clip_by_global_norm(grads, 1.0)[0], variables))
        train = opt.apply_gradients(pairs, global_step=step, name="train")
        with tf.control_dependencies([train]):
            every = [tf.reshape(v.read_value(), [-1]) for v in v1.global_variables() if v.dtype.base_dtype == tf.float32]
            tf.concat(every, 0, name="after")
        tf.group(v1.global_variables_initializer(), name="init")
    return g, sorted(used)
