"""Recurrent nets of every flavour, loops, conditions, functions."""

import tensorflow as tf

from graphs import (IDS, LENGTH, SEQ, TAGS, X, Y, BasicCell, GRUCell, LSTMCell, ResidualCell, StackedCell, accuracy, cross_entropy, dense,
                    graph, layer_norm, v1, variable)

CELLS = {"basic": BasicCell, "gru": GRUCell, "lstm": LSTMCell}


def hidden(state):
    return state.h if hasattr(state, "h") else state


def dynamic(cell, with_length):
    def build(t):
        seq, y = t.rows("seq", SEQ), t.rows("y", Y)
        length = t.rows("length", LENGTH) if with_length else None
        _, state = v1.nn.dynamic_rnn(CELLS[cell](5, "cell"), seq, sequence_length=length, dtype=tf.float32)
        logits = dense(hidden(state), 4, "out")
        t.minimize(cross_entropy(logits, y), accuracy=accuracy(logits, y))

    return build


for _cell in CELLS:
    graph(dynamic(_cell, False), name=f"dynamic_rnn_{_cell}")
    graph(dynamic(_cell, True), name=f"dynamic_rnn_{_cell}_lengths")
    graph(dynamic(_cell, True), name=f"dynamic_rnn_{_cell}_v2", v2=True)


def static(cell):
    def build(t):
        seq, y = t.rows("seq", SEQ), t.rows("y", Y)
        outputs, _ = v1.nn.static_rnn(CELLS[cell](5, "cell"), tf.unstack(seq, axis=1), dtype=tf.float32)
        t.minimize(cross_entropy(dense(outputs[-1], 4, "out"), y), optimizer=v1.train.AdamOptimizer(0.01))

    return build


for _cell in CELLS:
    graph(static(_cell), name=f"static_rnn_{_cell}")


@graph
def rnn_after_embedding(t):
    ids, y, length = t.rows("ids", IDS), t.rows("y", Y), t.rows("length", LENGTH)
    e = tf.nn.embedding_lookup(variable("table", (20, 5)), ids)
    _, state = v1.nn.dynamic_rnn(LSTMCell(4, "cell"), e, sequence_length=length, dtype=tf.float32)
    t.minimize(cross_entropy(dense(state.h, 4, "out"), y), optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def rnn_after_dense(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    h = dense(seq, 4, "in", tf.nn.relu)
    _, state = v1.nn.dynamic_rnn(GRUCell(5, "cell"), h, dtype=tf.float32)
    t.minimize(cross_entropy(dense(state, 4, "out"), y))


@graph
def rnn_last_relevant(t):
    """The output at each row's length is gathered."""
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    outputs, _ = v1.nn.dynamic_rnn(GRUCell(5, "cell"), seq, sequence_length=length, dtype=tf.float32)
    last = tf.gather_nd(outputs, tf.stack([tf.range(tf.shape(seq)[0]), length - 1], 1))
    t.minimize(cross_entropy(dense(last, 4, "out"), y))


@graph
def rnn_stacked(t):
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    cell = StackedCell([LSTMCell(5, "a"), ResidualCell(GRUCell(5, "b"))])
    outputs, _ = v1.nn.dynamic_rnn(cell, seq, sequence_length=length, dtype=tf.float32)
    t.minimize(cross_entropy(dense(tf.reduce_mean(outputs, 1), 4, "out"), y))


@graph
def rnn_time_major(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    outputs, _ = v1.nn.dynamic_rnn(GRUCell(5, "cell"), tf.transpose(seq, [1, 0, 2]), time_major=True, dtype=tf.float32)
    t.minimize(cross_entropy(dense(outputs[-1], 4, "out"), y))


@graph
def rnn_learned_start(t):
    """The first state is a variable, tiled over the batch."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    start = tf.tile(variable("start", (1, 5)), [tf.shape(seq)[0], 1])
    _, state = v1.nn.dynamic_rnn(BasicCell(5, "cell"), seq, initial_state=start)
    t.minimize(cross_entropy(dense(state, 4, "out"), y))


@graph
def tagger(t):
    """A tagger: a loss for each time step, masked by lengths."""
    ids, tags, length = t.rows("ids", IDS), t.rows("tags", TAGS), t.rows("length", LENGTH)
    e = tf.nn.embedding_lookup(variable("table", (20, 5)), ids)
    outputs, _ = v1.nn.dynamic_rnn(GRUCell(5, "cell"), e, sequence_length=length, dtype=tf.float32)
    logits = tf.reshape(dense(tf.reshape(outputs, [-1, 5]), 3, "out"), [-1, 6, 3])
    mask = tf.sequence_mask(length, 6, dtype=tf.float32)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    t.minimize(tf.reduce_sum(each * mask) / tf.reduce_sum(mask), right=tf.reduce_sum(mask * tf.cast(tf.equal(tf.argmax(logits, 2, output_type=tf.int32), tags), tf.float32)))


@graph
def bidirectional(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    _, (fw, bw) = v1.nn.bidirectional_dynamic_rnn(GRUCell(4, "fw"), GRUCell(4, "bw"), seq, dtype=tf.float32)
    t.minimize(cross_entropy(dense(tf.concat([fw, bw], 1), 4, "out"), y), optimizer=v1.train.RMSPropOptimizer(0.01))


@graph
def bidirectional_lengths(t):
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    outputs, _ = v1.nn.bidirectional_dynamic_rnn(BasicCell(4, "fw"), BasicCell(4, "bw"), seq, sequence_length=length, dtype=tf.float32)
    t.minimize(cross_entropy(dense(tf.reduce_max(tf.concat(outputs, 2), 1), 4, "out"), y))


@graph
def bidirectional_static(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    outputs, _, _ = v1.nn.static_bidirectional_rnn(LSTMCell(4, "fw"), LSTMCell(4, "bw"), tf.unstack(seq, axis=1), dtype=tf.float32)
    t.minimize(cross_entropy(dense(tf.add_n(outputs), 4, "out"), y))


@graph
def language_model(t):
    """Next words with tied weights and a perplexity that is fetched."""
    ids = t.rows("ids", IDS)
    table = variable("table", (20, 5))
    outputs, _ = v1.nn.dynamic_rnn(LSTMCell(5, "cell"), tf.nn.embedding_lookup(table, ids[:, :-1]), dtype=tf.float32)
    logits = tf.matmul(tf.reshape(outputs, [-1, 5]), table, transpose_b=True)
    loss = cross_entropy(logits, tf.reshape(ids[:, 1:], [-1]))
    opt = v1.train.AdamOptimizer(0.01)
    grads, variables = zip(*opt.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(grads, 0.5)
    t.fetch(perplexity=tf.exp(loss), norm=norm)
    t.train(loss, opt.apply_gradients(zip(clipped, variables)))


@graph
def seq2seq(t):
    """Encoder and decoder with teacher forcing; the decoder is a loop of its own with Luong attention."""
    source, target, length = t.rows("source", IDS), t.rows("target", TAGS), t.rows("length", LENGTH)
    memory, state = v1.nn.dynamic_rnn(GRUCell(5, "encoder"), tf.nn.embedding_lookup(variable("in", (20, 4)), source), sequence_length=length, dtype=tf.float32)
    mask = (1 - tf.sequence_mask(length, 6, dtype=tf.float32)) * -1e9
    inputs = tf.nn.embedding_lookup(variable("out", (3, 4)), tf.concat([tf.zeros_like(target[:, :1]), target[:, :-1]], 1))
    inputs = tf.transpose(inputs, [1, 0, 2])
    cell, w = GRUCell(5, "decoder"), variable("attention", (5, 5))

    def step(i, h, array):
        h, _ = cell(inputs[i], h)
        score = tf.reduce_sum(memory * tf.matmul(h, w)[:, None, :], 2) + mask
        context = tf.reduce_sum(memory * tf.nn.softmax(score)[:, :, None], 1)
        return i + 1, h, array.write(i, tf.concat([h, context], 1))

    outputs = v1.while_loop(lambda i, *_: i < 6, step, (0, state, tf.TensorArray(tf.float32, 6)))[2].stack()
    logits = dense(tf.transpose(outputs, [1, 0, 2]), 3, "logits")
    t.minimize(cross_entropy(logits, target), optimizer=v1.train.AdamOptimizer(0.01))


def scan(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w, u = variable("w", (5, 4)), variable("u", (4, 4))
    h = tf.scan(lambda h, x: tf.tanh(tf.matmul(x, w) + tf.matmul(h, u)), tf.transpose(seq, [1, 0, 2]), tf.zeros([tf.shape(seq)[0], 4]))
    t.minimize(cross_entropy(dense(h[-1], 4, "out"), y))


def map_time(t):
    """map_fn over time steps."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w = variable("w", (5, 4))
    h = tf.map_fn(lambda x: tf.tanh(tf.matmul(x, w)), tf.transpose(seq, [1, 0, 2]))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, 0), 4, "out"), y))


def map_rows(t):
    """map_fn over the rows of the batch: as many trips as rows."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w = variable("w", (5, 4))
    h = tf.map_fn(lambda x: tf.reduce_max(tf.tanh(tf.matmul(x, w)), 0), seq)
    t.minimize(cross_entropy(dense(tf.ensure_shape(h, [None, 4]), 4, "out"), y))


def while_fixed(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 8), use_resource=True)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, x))[1]
    t.minimize(cross_entropy(dense(h, 4, "out"), y))


def while_collected(t):
    """A loop over time steps that writes a TensorArray."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w = variable("w", (5, 4), use_resource=True)
    steps = tf.transpose(seq, [1, 0, 2])

    def body(i, total, array):
        total = tf.tanh(tf.matmul(steps[i], w) + 0.5 * total)
        return i + 1, total, array.write(i, total)

    array = v1.while_loop(lambda i, *_: i < 6, body, (0, tf.zeros([tf.shape(seq)[0], 4]), tf.TensorArray(tf.float32, 6, element_shape=[None, 4])))[2]
    t.minimize(cross_entropy(dense(tf.reduce_sum(array.stack(), 0), 4, "out"), y))


def cond_by_step(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    step = v1.train.get_or_create_global_step()
    w = variable("w", (8, 4), use_resource=True)
    logits = tf.cond(tf.equal(step % 2, 0), lambda: tf.matmul(x, w), lambda: tf.tanh(tf.matmul(x, w * 0.5)))
    t.minimize(cross_entropy(logits, y))


def cond_by_batch(t):
    """A condition on a mean of the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 4), use_resource=True)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w))
    loss = tf.cond(tf.reduce_mean(x[:, 0]) > 0, lambda: tf.reduce_mean(each), lambda: 0.5 * tf.reduce_mean(tf.square(each)))
    t.minimize(loss)


for _f in (scan, map_time, map_rows, while_fixed, while_collected, cond_by_step, cond_by_batch):
    graph(_f)
    graph(_f, name=_f.__name__ + "_v2", v2=True)


@graph
def fixed_point(t):
    """A loop whose number of trips depends on the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    a = tf.stop_gradient(v1.while_loop(lambda s: tf.reduce_mean(tf.abs(s)) > 0.3, lambda s: 0.8 * s, (x,)))
    t.minimize(cross_entropy(dense(a, 4, "out"), y))


@graph
def rnn_flat_index(t):
    """The same with a flat index, as old code has it."""
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    outputs, _ = v1.nn.dynamic_rnn(BasicCell(5, "cell"), seq, sequence_length=length, dtype=tf.float32)
    index = tf.range(0, tf.shape(outputs)[0]) * 6 + (length - 1)
    last = tf.gather(tf.reshape(outputs, [-1, 5]), index)
    t.minimize(cross_entropy(dense(last, 4, "out"), y))


@graph
def tagger_bidirectional(t):
    ids, tags, length = t.rows("ids", IDS), t.rows("tags", TAGS), t.rows("length", LENGTH)
    e = tf.nn.embedding_lookup(variable("table", (20, 5)), ids)
    (fw, bw), _ = v1.nn.bidirectional_dynamic_rnn(LSTMCell(4, "fw"), LSTMCell(4, "bw"), e, sequence_length=length, dtype=tf.float32)
    logits = dense(tf.concat([fw, bw], 2), 3, "out")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    t.minimize(tf.reduce_mean(tf.boolean_mask(each, tf.sequence_mask(length, 6))))


@graph
def seq2seq_raw_rnn(t):
    """tf.nn.raw_rnn feeds what it emitted back; its rounds end when all rows of the batch have ended."""
    source, target = t.rows("source", IDS), t.rows("target", TAGS)
    _, state = v1.nn.dynamic_rnn(GRUCell(5, "encoder"), tf.nn.embedding_lookup(variable("in", (20, 4)), source), dtype=tf.float32)
    cell, w = GRUCell(5, "decoder"), variable("w", (5, 4))
    n = tf.shape(source)[0]

    def loop(time, output, cell_state, _):
        if output is None:
            return tf.zeros([n], tf.bool), tf.zeros([n, 4]), state, None, None
        return tf.fill([n], time >= 6), tf.matmul(output, w), cell_state, output, None

    outputs = v1.nn.raw_rnn(cell, loop)[0].stack()
    logits = dense(tf.transpose(tf.reshape(outputs, [6, -1, 5]), [1, 0, 2]), 3, "logits")
    t.minimize(cross_entropy(logits, target))


@graph(v2=True)
def tf_function(t):
    """A model in tf.function: PartitionedCall with a variable captured."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, b = variable("w", (8, 5), use_resource=True), variable("b", (5,), use_resource=True)

    @tf.function(autograph=False)
    def layer(v):
        return tf.nn.relu(tf.matmul(v, w) + b)

    t.minimize(cross_entropy(dense(layer(x), 4, "out", use_resource=True), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph(v2=True)
def autograph_loop(t):
    """tf.function with a Python loop made a While."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w = variable("w", (5, 4), use_resource=True)

    @tf.function
    def run(s):
        h = tf.zeros([tf.shape(s)[0], 4])
        for i in tf.range(6):
            h = tf.tanh(tf.matmul(s[:, i], w) + 0.5 * h)
            h.set_shape([None, 4])
        return h

    t.minimize(cross_entropy(dense(run(seq), 4, "out", use_resource=True), y))


@graph
def temporal_convolution(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    h = seq
    for i in range(2):
        h = tf.pad(h, [[0, 0], [2, 0], [0, 0]])
        h = tf.nn.relu(tf.nn.conv1d(h, variable(f"k{i}", (3, 5, 5)), 1, "VALID"))
    t.minimize(cross_entropy(dense(h[:, -1], 4, "out"), y))


@graph
def rnn_layer_norm_attention(t):
    """Self-attentive pooling over a recurrent net's outputs."""
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    outputs, _ = v1.nn.dynamic_rnn(GRUCell(5, "cell"), seq, sequence_length=length, dtype=tf.float32)
    h = layer_norm(outputs, "norm")
    score = tf.squeeze(dense(dense(h, 4, "a", tf.tanh), 1, "b", bias=False), -1)
    score += (1.0 - tf.sequence_mask(length, 6, dtype=tf.float32)) * -1e9
    pooled = tf.squeeze(tf.matmul(tf.expand_dims(tf.nn.softmax(score), 1), h), 1)
    t.minimize(cross_entropy(dense(pooled, 4, "out"), y))


# ---- loops that need all rows in every round; conditionals that keep different things ----


def until_small(t):
    """The number of trips depends on the batch, and gradients go back through the loop."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 8), use_resource=True)
    a = v1.while_loop(lambda s: tf.reduce_max(tf.abs(s)) > 0.2, lambda s: 0.6 * tf.tanh(tf.matmul(s, w)), (x,))
    t.minimize(cross_entropy(dense(a + x, 4, "out"), y))


def centred_rnn(t):
    """The state is centred over the batch in every step, and kept in an array."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w, u = variable("w", (SEQ.shape[2], 5), use_resource=True), variable("u", (5, 5), use_resource=True)
    steps = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(seq, [1, 0, 2]))
    kept = tf.TensorArray(tf.float32, 6)

    def body(i, h, kept):
        h = tf.tanh(tf.matmul(steps.read(i), w) + tf.matmul(h, u))
        h -= tf.reduce_mean(h, 0, keepdims=True)
        return i + 1, h, kept.write(i, h)

    _, h, kept = v1.while_loop(lambda i, *_: i < 6, body, (0, tf.zeros([tf.shape(seq)[0], 5]), kept))
    each = tf.reduce_mean(tf.transpose(kept.stack(), [1, 0, 2]), 1)
    t.minimize(cross_entropy(dense(each + h, 4, "out"), y))


def decode_until_all_end(t):
    """Greedy decoding that ends when every row has said the end; the loss is made of what it said."""
    x, y = t.rows("x", X), t.rows("y", Y)
    table, w, out = variable("table", (5, 8)), variable("w", (8, 8)), variable("o", (8, 5))

    def body(i, word, h, ended, total):
        h = tf.tanh(tf.matmul(h, w) + tf.nn.embedding_lookup(table, word))
        logits = tf.matmul(h, out)
        total += tf.where(ended, tf.zeros_like(total), tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        word = tf.argmax(logits, 1, output_type=tf.int32)
        return i + 1, word, h, tf.logical_or(ended, tf.equal(word, 4)), total

    n = tf.shape(x)[0]
    start = (0, tf.zeros([n], tf.int32), x, tf.zeros([n], tf.bool), tf.zeros([n]))
    total = v1.while_loop(lambda i, _w, _h, ended, _t: tf.logical_and(i < 5, tf.logical_not(tf.reduce_all(ended))), body, start)[4]
    t.minimize(tf.reduce_mean(total))


def sinkhorn(t):
    """Rows and columns of a matrix over the batch, scaled by turns."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 4, "h", tf.tanh)
    cost = tf.reduce_sum(tf.square(h[:, None] - h[None]), 2)

    def body(i, k):
        k /= tf.reduce_sum(k, 0, keepdims=True)
        return i + 1, k / tf.reduce_sum(k, 1, keepdims=True)

    plan = v1.while_loop(lambda i, _: i < 4, body, (0, tf.exp(-cost)))[1]
    t.minimize(cross_entropy(dense(tf.matmul(plan, h), 4, "out"), y) + 0.1 * tf.reduce_mean(plan * cost))


def normalised_in_loop(t):
    """Batch statistics in a loop whose trips are known."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 8), use_resource=True)

    def body(i, h):
        mean, var = tf.nn.moments(tf.matmul(h, w), [0])
        return i + 1, tf.nn.relu((tf.matmul(h, w) - mean) * v1.rsqrt(var + 0.1))

    h = v1.while_loop(lambda i, _: i < 3, body, (0, x))[1]
    t.minimize(cross_entropy(dense(h, 4, "out"), y))


def dropped_in_loop(t):
    """Seeded noise for rows in a loop that runs whole."""
    x, y = t.rows("x", X), t.rows("y", Y)

    def body(i, h):
        h += 0.1 * tf.random.stateless_normal(tf.shape(h), [3, i])
        return i + 1, h - tf.reduce_mean(h, 0)

    h = v1.while_loop(lambda i, _: i < 3, body, (0, dense(x, 5, "a", tf.tanh)))[1]
    t.minimize(cross_entropy(dense(h, 4, "out"), y))


def cond_of_rows_and_weights(t):
    """Branches whose gradients need rows in one and weights in the other."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, step = variable("w", (8, 4), use_resource=True), v1.train.get_or_create_global_step()
    logits = tf.cond(tf.equal(step % 2, 0), lambda: tf.tanh(x @ w), lambda: x @ (w * tf.nn.softplus(w)) + 0.1)
    t.minimize(cross_entropy(logits, y))


def case_of_step(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    w, step = variable("w", (8, 4), use_resource=True), v1.train.get_or_create_global_step()
    ways = [lambda: x @ w, lambda: tf.tanh(x @ w), lambda: tf.nn.relu(x) @ w * 0.5]
    t.minimize(cross_entropy(tf.switch_case(tf.cast(step % 4, tf.int32), ways), y))


def centred_lstm_stacks(t):
    """Two loops of three layers, with many lists between the loops and their gradients."""
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    n, tops = tf.shape(seq)[0], []
    for k in range(2):
        cells = [LSTMCell(5, f"cell_{k}_{i}") for i in range(3)]

        def body(i, *state, cells=cells):
            h, after = seq[:, 1] * 0.5, []
            for c, cell in enumerate(cells):
                h, (memory, _) = cell(h, state[2 * c : 2 * c + 2])
                after += [memory - tf.reduce_mean(memory, 0, keepdims=True), h]
            return (i + 1, *after)

        zeros = [tf.zeros([n, 5]) for _ in range(6)]
        tops.append(v1.while_loop(lambda i, *_: i < 4, body, (0, *zeros))[-1])
    t.minimize(cross_entropy(dense(tf.concat(tops, 1), 4, "out"), y))


for _f in (until_small, centred_lstm_stacks, centred_rnn, decode_until_all_end, sinkhorn, normalised_in_loop, dropped_in_loop, cond_of_rows_and_weights, case_of_step):
    graph(_f)
    graph(_f, name=_f.__name__ + "_v2", v2=True)


@graph
def rows_kept(t):
    """A variable keeps the last batch as it was."""
    x, y = t.rows("x", X), t.rows("y", Y)
    memory = v1.Variable(tf.zeros([1, 8]), validate_shape=False, trainable=False, use_resource=False, name="memory")
    before = tf.ensure_shape(tf.reduce_mean(memory, 0, keepdims=True), [1, 8])
    h = tf.tanh(dense(x + before, 8, "h"))
    with tf.control_dependencies([before]):
        keep = v1.assign(memory, tf.stop_gradient(h), validate_shape=False)
    loss = cross_entropy(dense(h, 4, "out"), y)
    t.train(loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss), keep)


@graph
def rows_fixed(t):
    """A shape that fixes a number of rows that is not the batch's."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 6, "h", tf.tanh)
    halves = tf.reshape(h, [2, -1])
    t.minimize(cross_entropy(dense(h, 4, "out"), y) + tf.reduce_mean(tf.square(tf.reduce_sum(halves, 1))) * 0.01)
