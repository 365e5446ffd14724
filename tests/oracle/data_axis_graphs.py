"""tests/sharding/testdata/data/*.pb: the training graphs on which the analysis of the data axis is checked, as TensorFlow makes them for one device.

Each graph has targets "init" and "train"; initial values are constants, so that a copy of the graph starts like the first.
"""
import numpy as np
import tensorflow.compat.v1 as tf

HERE = "tests/sharding/testdata/data"
tf.disable_eager_execution()
tf.disable_control_flow_v2()
D = tf.float64


def build(directory, name, model, resource):
    np.random.seed(0)
    (tf.enable_resource_variables if resource else tf.disable_resource_variables)()
    with tf.Graph().as_default() as g:
        roots = [r.op if isinstance(r, tf.Tensor) else r for r in model()]
        with g.control_dependencies(roots):
            tf.no_op("train")
        tf.global_variables_initializer()
        (directory / (name + ".pb")).write_bytes(g.as_graph_def().SerializeToString(deterministic=True))


def var(name, shape, dtype=D):
    values = np.random.RandomState(sum(map(ord, name))).randn(*shape) * 0.3
    return tf.get_variable(name, initializer=values.astype(dtype.as_numpy_dtype))


def dense(x, n, name, act=None):
    y = tf.matmul(x, var(name + "_w", [int(x.shape[-1]), n], x.dtype)) + var(name + "_b", [n], x.dtype)
    return act(y) if act else y


def inputs(k=6):
    return tf.placeholder(D, [None, k], "x"), tf.placeholder(tf.int32, [None], "y")


def sgd():
    return tf.train.GradientDescentOptimizer(0.1)


def adam():
    return tf.train.AdamOptimizer(0.01)


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def mlp(opt, sums=False, reg=False, clip=False, bn=False):
    def model():
        x, y = inputs()
        h = dense(x, 8, "h", None if bn else tf.nn.tanh)
        update = []
        if bn:  # by moments: the statistics of the whole batch
            m, v = tf.nn.moments(h, [0])
            moving = tf.get_variable("moving", initializer=np.zeros(8), trainable=False)
            update = [tf.assign_sub(moving, (moving - m) * 0.1)]
            h = tf.nn.relu(tf.nn.batch_normalization(h, m, v, var("beta", [8]), var("gamma", [8]), 1e-3))
        o = dense(h, 3, "o")
        xe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o)
        loss = tf.reduce_sum(xe) if sums else tf.reduce_mean(xe)
        if reg:
            loss += 0.01 * sum(tf.nn.l2_loss(v) for v in tf.trainable_variables())
        step = tf.train.get_or_create_global_step()
        if clip:
            pairs = opt().compute_gradients(loss)
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.5)
            train = opt().apply_gradients(zip(clipped, [v for _, v in pairs]), global_step=step)
        else:
            train = opt().minimize(loss, global_step=step)
        right = tf.equal(tf.argmax(o, 1, output_type=tf.int32), y)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        summary = tf.summary.scalar("loss_summary", tf.cast(loss, tf.float32))
        return [loss, train, accuracy, summary, tf.nn.softmax(o)] + update

    return model


def conv():
    f = tf.float32
    x, y = tf.placeholder(f, [None, 8, 8, 1], "x"), tf.placeholder(f, [None, 3], "y")
    c = tf.nn.conv2d(x, var("c", [3, 3, 1, 4], f), [1, 1, 1, 1], "SAME")
    c = tf.nn.relu(tf.nn.bias_add(c, var("cb", [4], f)))
    p = tf.nn.max_pool(c, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    p = tf.nn.avg_pool(p, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    o = dense(tf.reshape(p, [-1, 16]), 3, "o")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=o))
    return [loss, adam().minimize(loss)]


def depthwise():
    f = tf.float32
    x, y = tf.placeholder(f, [None, 6, 6, 2], "x"), tf.placeholder(f, [None, 3], "y")
    c = tf.nn.depthwise_conv2d(x, var("c", [3, 3, 2, 2], f), [1, 1, 1, 1], "VALID")
    c = tf.nn.lrn(tf.pad(tf.nn.elu(c), [[0, 0], [1, 1], [1, 1], [0, 0]]), 2)
    o = dense(tf.reduce_mean(c, [1, 2]), 3, "o")
    loss = tf.reduce_mean(tf.reduce_sum(tf.square(o - y), 1))
    return [loss, sgd().minimize(loss)]


def embedding(opt):
    def model():
        ids, y = tf.placeholder(tf.int32, [None, 2], "ids"), tf.placeholder(D, [None], "y")
        e = tf.reshape(tf.nn.embedding_lookup(var("emb", [7, 4]), ids), [-1, 8])
        loss = tf.reduce_mean(tf.square(tf.squeeze(dense(e, 1, "o")) - y))
        return [loss, opt().minimize(loss)]

    return model


def rnn():
    x, y = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(D, [None, 4], "y")
    wx, wh = var("wx", [3, 4]), var("wh", [4, 4])
    steps = tf.TensorArray(D, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def body(t, h, out):
        h = tf.tanh(tf.matmul(steps.read(t), wx) + tf.matmul(h, wh))
        return t + 1, h, out.write(t, h)

    state = [0, tf.zeros([tf.shape(x)[0], 4], D), tf.TensorArray(D, 5)]
    _, h, out = tf.while_loop(lambda t, h, o: t < 5, body, state)
    loss = tf.reduce_mean(tf.square(h - y)) + tf.reduce_mean(tf.square(out.stack()))
    return [loss, momentum().minimize(loss)]


def rnn_of_lengths():
    x, y = tf.placeholder(D, [None, None, 3], "x"), tf.placeholder(D, [None, 4], "y")
    n = tf.placeholder(tf.int32, [None], "n")
    wx, wh = var("wx", [3, 4]), var("wh", [4, 4])
    turned = tf.transpose(x, [1, 0, 2])
    steps, longest = tf.TensorArray(D, tf.shape(turned)[0]).unstack(turned), tf.reduce_max(n)

    def body(t, h):
        new = tf.tanh(tf.matmul(steps.read(t), wx) + tf.matmul(h, wh))
        return t + 1, tf.where(t < n, new, h)

    _, h = tf.while_loop(lambda t, h: t < longest, body, [0, tf.zeros([tf.shape(x)[0], 4], D)])
    loss = tf.reduce_mean(tf.square(h - y))
    return [loss, sgd().minimize(loss)]


def rnn_masked():
    """Steps of all rows are picked out by a mask: the gradient that comes back to the loop is whole on all replicas."""
    x, n = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(tf.int32, [None], "n")
    wx, wh = var("wx", [3, 4]), var("wh", [4, 4])
    turned = tf.transpose(x, [1, 0, 2])
    steps, outputs = tf.TensorArray(D, 5).unstack(turned), tf.TensorArray(D, 5)
    zeros = tf.zeros([tf.shape(x)[0], 4], D)

    def body(t, h, outputs):
        new = tf.tanh(tf.matmul(steps.read(t), wx) + tf.matmul(h, wh))
        return t + 1, tf.where(t < n, new, h), outputs.write(t, tf.where(t < n, new, zeros))

    _, _, outputs = tf.while_loop(lambda t, *_: t < 5, body, [0, zeros, outputs])
    picked = tf.boolean_mask(tf.transpose(outputs.stack(), [1, 0, 2]), tf.sequence_mask(n, 5))
    loss = tf.reduce_mean(tf.square(picked - 0.5))
    return [loss, sgd().minimize(loss)]


def misc():
    x, y = inputs()
    h = tf.nn.dropout(dense(x, 8, "h", tf.nn.relu), rate=0.0)
    a, b = tf.split(h, 2, 1)
    h = tf.concat([a * b, a - b, tf.ones_like(a)], 1)
    h = h - tf.reduce_max(h, axis=1, keepdims=True)
    h = h / tf.cast(tf.shape(x)[0], D)
    h = tf.stop_gradient(tf.reduce_sum(h, 0, keepdims=True)) * 0.1 + h
    o = dense(h, 3, "o")
    xe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o)
    w = tf.cast(y, D) + 1.0
    loss = tf.reduce_sum(xe * w) / tf.reduce_sum(w)  # a mean by weights
    alike = tf.nn.softmax(tf.matmul(h, h, transpose_b=True))  # each example with each
    loss += tf.reduce_mean(tf.matmul(alike, o) ** 2)
    top = tf.reduce_mean(tf.cast(tf.nn.in_top_k(tf.cast(o, tf.float32), y, 2), tf.float32))
    seen = tf.get_variable("seen", initializer=np.int32(0), trainable=False)
    count = tf.assign_add(seen, tf.shape(x)[0])
    return [loss, tf.train.RMSPropOptimizer(0.01).minimize(loss), top, count, tf.reduce_max(x[:, 0]), x[:, 0]]


def cond():
    x, y = inputs()
    l = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(x, 3, "o")))
    loss = tf.cond(l > 1.0, lambda: l * 2, lambda: l + 1)
    return [loss, sgd().minimize(loss)]


def attention():
    x, y = tf.placeholder(D, [None, 4, 6], "x"), tf.placeholder(tf.int32, [None], "y")
    q, k, v = (tf.tensordot(x, var(n, [6, 6]), 1) for n in ("q", "k", "v"))
    heads = [tf.transpose(tf.reshape(t, [tf.shape(x)[0], 4, 2, 3]), [0, 2, 1, 3]) for t in (q, k, v)]
    s = tf.nn.softmax(tf.matmul(heads[0], heads[1], transpose_b=True) / np.sqrt(3.0))
    out = tf.reshape(tf.transpose(tf.matmul(s, heads[2]), [0, 2, 1, 3]), [-1, 4, 6])
    h = out + x
    m, s2 = tf.nn.moments(h, [-1], keepdims=True)  # layer normalisation
    h = (h - m) * tf.rsqrt(s2 + 1e-5) * var("scale", [6])
    h = tf.matmul(h, var("e", [1, 6, 5]))
    o = dense(h[:, -1, :], 3, "o")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o))
    return [loss, adam().minimize(loss)]


def metrics():
    x, y = inputs()
    o = dense(x, 3, "o")
    xe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o)
    mask = tf.cast(tf.not_equal(y, 0), D)
    loss = tf.reduce_sum(xe * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)
    right = tf.cast(tf.equal(tf.argmax(o, 1, output_type=tf.int32), y), D)
    total, count = (tf.get_variable(n, initializer=np.float64(0), trainable=False) for n in ("total", "count"))
    updates = [tf.assign_add(total, tf.reduce_sum(right)), tf.assign_add(count, tf.cast(tf.size(right), D))]
    average = tf.train.ExponentialMovingAverage(0.9)
    worst, _ = tf.nn.top_k(xe, 1)  # over the batch
    picked = tf.boolean_mask(x, tf.greater(y, 0))
    share = tf.cast(tf.shape(picked)[0], D) / tf.cast(tf.shape(x)[0], D)
    norm = tf.linalg.l2_normalize(x, 1) + tf.linalg.l2_normalize(x, 0)
    loss += tf.reduce_mean(norm) * 0.1 + 0.01 * tf.reduce_mean(worst)
    rate = tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 2, 0.9)
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=tf.train.get_global_step())
    with tf.control_dependencies([train]):
        averaged = average.apply(tf.trainable_variables())
    return [train, averaged, share, tf.reduce_max(picked), tf.shape(x), tf.cumsum(x, 1)] + updates


def losses():
    x, y = inputs()
    o = dense(x, 3, "o")
    hot = tf.one_hot(y, 3, dtype=D)
    of32 = [
        tf.losses.hinge_loss(tf.cast(hot, tf.float32), tf.cast(o, tf.float32)),
        tf.losses.sparse_softmax_cross_entropy(y, o, weights=0.5),
        tf.losses.mean_squared_error(hot, tf.sigmoid(o)),
        tf.losses.absolute_difference(hot, o, weights=0.5),
        tf.losses.huber_loss(hot, o),
        tf.losses.sigmoid_cross_entropy(hot, o),
        tf.losses.log_loss(hot, tf.nn.softmax(o)),
        tf.losses.cosine_distance(tf.nn.l2_normalize(hot, 1), tf.nn.l2_normalize(o, 1), axis=1),
    ]
    loss = tf.add_n([tf.cast(l, D) for l in of32])
    picked = tf.gather_nd(o, tf.stack([tf.range(tf.shape(y)[0]), y], 1))  # the logit of the label
    loss -= 0.1 * tf.reduce_mean(picked)
    loss += 0.1 * tf.reduce_mean(tf.where(y > 0, tf.reduce_sum(o, 1), tf.zeros_like(picked)))
    return [loss, adam().minimize(loss)]


def lstm():
    f = tf.float32
    x, y = tf.placeholder(f, [None, 6, 3], "x"), tf.placeholder(tf.int32, [None], "y")
    n = tf.placeholder(tf.int32, [None], "n")
    k, b = var("kernel", [3 + 4, 16], f), var("bias", [16], f)
    rows = tf.shape(x)[0]
    steps, out = tf.TensorArray(f, 6).unstack(tf.transpose(x, [1, 0, 2])), tf.TensorArray(f, 6)

    def body(t, c, h, o):
        i, j, g, u = tf.split(tf.matmul(tf.concat([steps.read(t), h], 1), k) + b, 4, 1)
        c2 = c * tf.sigmoid(g + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h2 = tf.tanh(c2) * tf.sigmoid(u)
        done = t > n + 2
        o = o.write(t, tf.where(done, tf.zeros_like(h2), h2))
        return t + 1, tf.where(done, c, c2), tf.where(done, h, h2), o

    zeros = tf.zeros([rows, 4], f)
    _, _, h, o = tf.while_loop(lambda t, *_: t < 6, body, [0, zeros, zeros, out], swap_memory=False)
    seq = tf.transpose(o.stack(), [1, 0, 2])
    seq.set_shape([None, 6, 4])
    logits = dense(tf.reshape(seq, [-1, 4]), 3, "o")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(tf.tile(y[:, None], [1, 6]), [-1]), logits=logits)
    loss = tf.reduce_mean(tf.reduce_sum(tf.reshape(each, [-1, 6]), 1)) + tf.reduce_mean(h)
    pairs = adam().compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
    return [loss, adam().apply_gradients(zip(clipped, [v for _, v in pairs]))]


def maps():
    x, y = inputs()
    w = var("w", [6])
    each = tf.map_fn(lambda row: tf.reduce_sum(row * w), x)  # a loop over the rows of the batch
    sums = tf.scan(lambda a, b: a + b, tf.transpose(tf.tanh(x)))
    loss = tf.reduce_mean(tf.square(each - tf.cast(y, D))) + tf.reduce_mean(sums)
    return [loss, sgd().minimize(loss)]


def norms():
    f = tf.float32
    x, y = tf.placeholder(f, [None, 4, 4, 3], "x"), tf.placeholder(f, [None, 2], "y")
    h = tf.nn.conv2d(x, var("c", [3, 3, 3, 4], f), [1, 1, 1, 1], "SAME")
    m, v = tf.nn.moments(h, [0, 1, 2])
    h = tf.nn.batch_normalization(h, m, v, var("beta", [4], f), var("gamma", [4], f), 1e-3)
    mean, var_ = tf.nn.moments(h, [1, 2], keepdims=True)  # instance normalisation
    h = tf.nn.leaky_relu((h - mean) * tf.rsqrt(var_ + 1e-3))
    h = tf.transpose(h, [0, 3, 1, 2])
    o = dense(tf.reshape(tf.transpose(h, [0, 2, 3, 1]), [tf.shape(h)[0], 64]), 2, "o")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(y), logits=o))
    return [loss, momentum().minimize(loss)]


def gan():
    x, z = tf.placeholder(D, [None, 4], "x"), tf.placeholder(D, [None, 3], "z")
    fake = dense(z, 4, "g", tf.nn.tanh)
    both = tf.concat([x, fake], 0)  # two batches one behind the other
    o = dense(tf.nn.relu(dense(both, 5, "d1")), 1, "d2")
    real, made = tf.split(o, 2)
    loss = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(made))
    return [loss, sgd().minimize(loss)]


def pools():
    f = tf.float32
    x, y = tf.placeholder(f, [None, 6, 6, 2], "x"), tf.placeholder(f, [None, 3], "y")
    h = tf.pad(x * var("s", [2], f), [[0, 0], [1, 1], [2, 2], [0, 0]], "REFLECT")
    h, at = tf.nn.max_pool_with_argmax(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.transpose(h, [0, 2, 3, 1], conjugate=True)
    norm = tf.stop_gradient(tf.math.reduce_euclidean_norm(h, [1, 2], keepdims=True)) + 1.0
    bits = tf.cast(tf.bitcast(h, tf.int32) // 2**24, f)
    o = dense(tf.reshape(h / norm + 0.01 * bits, [-1, 40]), 3, "o")
    loss = tf.reduce_mean(tf.square(o - y)) + 1e-4 * tf.reduce_mean(tf.cast(at, f))
    return [loss, sgd().minimize(loss)]


def lists():
    """Elements of lists taken and put by their indices, as control flow of TensorFlow 2 has it."""
    x, y = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(D, [None, 3], "y")
    raw, w = tf.raw_ops, var("w", [3])
    shape = tf.constant([-1, 3])
    turned = tf.transpose(x, [1, 0, 2])
    steps = raw.TensorListScatterV2(tensor=turned, indices=[4, 2, 0, 1, 3], element_shape=shape, num_elements=5)
    some = raw.TensorListGather(input_handle=steps, indices=[0, 3, 3], element_shape=shape, element_dtype=D)
    h = tf.tanh(tf.ensure_shape(some, [3, None, 3]) * w)
    back = raw.TensorListScatterIntoExistingList(input_handle=steps, tensor=h, indices=[1, 0, 4])
    every = raw.TensorListStack(input_handle=back, element_shape=shape, element_dtype=D, num_elements=5)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(every, 0) - y))
    return [loss, momentum().minimize(loss)]


def negatives():
    """Each row beside all others of the batch; labels are the rows' numbers."""
    x, y = inputs()
    a, b = dense(x, 4, "a"), dense(x, 4, "b", tf.tanh)
    rows, n = tf.range(tf.shape(x)[0]), tf.shape(x)[0]
    xe = tf.nn.sparse_softmax_cross_entropy_with_logits
    logits = tf.matmul(a, b, transpose_b=True)
    loss = tf.reduce_mean(xe(labels=rows, logits=logits) + xe(labels=rows, logits=tf.transpose(logits)))
    own = tf.matmul(b, b, transpose_b=True) - tf.one_hot(rows, n, dtype=D) * 9.0
    loss += tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(rows, n, dtype=D), logits=tf.concat([logits, own], 1)[:, :n] + own))
    same = tf.cast(tf.equal(y[:, None], y[None, :]), D)
    loss += tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=same / tf.reduce_sum(same, 1, keepdims=True), logits=own))
    hits = tf.reduce_mean(tf.cast(tf.math.in_top_k(tf.cast(logits, tf.float32), rows, 2), D))
    return [loss, hits, momentum().minimize(loss)]
def random():
    """Numbers for rows: every replica draws its own of one sequence."""
    x, y = inputs()
    n = tf.shape(x)[0]
    h = tf.nn.dropout(dense(x, 7, "h", tf.nn.tanh), rate=0.4, seed=3)
    h += tf.nn.dropout(h, rate=0.3, seed=4, noise_shape=[n, 1])
    h += tf.random_normal(tf.shape(h), dtype=D, seed=5) + tf.truncated_normal([n, 7], dtype=D, seed=6)
    h += tf.random_normal([7], dtype=D, seed=7)
    wide = tf.reshape(tf.random_uniform([3 * n, 7], dtype=D, seed=8), [-1, 3, 7])
    late = tf.transpose(tf.random_normal([2, n, 7], dtype=D, seed=9), [1, 0, 2])
    h += tf.reduce_mean(wide, 1) + tf.reduce_sum(late, 1)
    drawn = tf.multinomial(dense(x, 5, "p"), 3, seed=10)
    ids = tf.random_uniform([n], 0, 7, tf.int32, seed=11)
    h += tf.one_hot(ids, 7, dtype=D) + tf.reduce_sum(tf.one_hot(drawn, 7, dtype=D), 1)
    h += tf.cast(tf.random.stateless_normal(tf.shape(h), [1, 2]), D) * tf.random.shuffle(h, seed=12)
    xe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(h, 3, "o"))
    loss = tf.reduce_mean(xe)
    return [loss, momentum().minimize(loss)]


def flat_rows():
    """Rows of [batch * time] chosen by number and by mask, behind a loop: their gradients are sums over the whole batch."""
    x, y = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(tf.int32, [None], "y")
    w, n = var("w", [3, 3]), tf.shape(x)[0]
    h = tf.scan(lambda h, v: tf.tanh(tf.matmul(v, w) + 0.5 * h), tf.transpose(x, [1, 0, 2]), tf.zeros([n, 3], D))
    out, length = tf.transpose(h, [1, 0, 2]), 1 + y
    last = tf.gather(tf.reshape(out, [-1, 3]), tf.range(n) * 5 + length - 1)
    kept = tf.boolean_mask(tf.reduce_sum(tf.square(out), 2), tf.sequence_mask(length, 5))
    loss = tf.reduce_mean(tf.square(last)) + tf.reduce_mean(kept)
    return [loss, momentum().minimize(loss)]


def writes():
    """Rows of a batch written into a tensor of [time, batch, n] at a step, and taken from it."""
    x, y = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(D, [None, 3], "y")
    w, n = var("w", [3, 3]), tf.shape(x)[0]
    buffer = tf.raw_ops.Empty(shape=tf.stack([4, n, 3]), dtype=D, init=True)
    h = tf.tanh(tf.tensordot(x, w, 1))
    buffer = tf.tensor_scatter_nd_update(buffer, [[1], [3]], tf.transpose(h[:, :2], [1, 0, 2]))
    buffer = tf.tensor_scatter_nd_add(buffer, [[3]], h[:, 2][None])
    buffer = tf.tensor_scatter_nd_sub(buffer, [[0]], tf.expand_dims(h[:, 3], 0))
    taken = tf.gather_nd(buffer, [[3], [1], [0]])
    counts = tf.scatter_nd([[1], [2]], tf.stack([h[:, 0], h[:, 4]]), tf.stack([4, n, 3]))
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(taken, 0) + counts[2] - y))
    return [loss, momentum().minimize(loss)]


def whole_loops():
    """Loops that need all rows in every round: they run whole on every replica."""
    x, y = tf.placeholder(D, [None, 5, 3], "x"), tf.placeholder(D, [None, 3], "y")
    w, n = var("w", [3, 3]), tf.shape(x)[0]
    steps = tf.TensorArray(D, 5).unstack(tf.transpose(x, [1, 0, 2]))
    kept = tf.TensorArray(D, 5)

    def body(t, h, kept):
        h = tf.tanh(tf.matmul(steps.read(t), w) + h - tf.reduce_mean(h, 0, keepdims=True))
        return t + 1, h, kept.write(t, h)

    _, last, kept = tf.while_loop(lambda t, *_: t < 5, body, (0, tf.zeros([n, 3], D), kept))
    shrunk = tf.while_loop(lambda s: tf.reduce_max(tf.abs(s)) > 0.1, lambda s: 0.7 * s, (last,))
    loss = tf.reduce_mean(tf.square(last + kept.gather([1, 3])[0] - y)) + tf.reduce_mean(tf.square(shrunk))
    return [loss, momentum().minimize(loss)]


def kept_rows():
    """A variable that keeps the last batch, and shapes that fix a number of rows."""
    x, y = inputs()
    memory = tf.Variable(tf.zeros([1, 6], D), validate_shape=False, trainable=False, name="memory")
    before = tf.ensure_shape(tf.reduce_mean(memory, 0, keepdims=True), [1, 6])
    h = tf.tanh(dense(x + before, 6, "h"))
    halves = tf.reshape(h, [3, -1])
    xe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(h, 3, "o"))
    loss = tf.reduce_mean(xe) + tf.reduce_mean(tf.square(tf.reduce_sum(halves, 1)))
    with tf.control_dependencies([before]):
        keep = tf.assign(memory, tf.stop_gradient(h), validate_shape=False)
    return [loss, keep, momentum().minimize(loss)]


def moved():
    """Ops of which the factor notation says all: rows moved, cut, turned, chosen and contracted, beside weights and beside sums."""
    x, y = tf.placeholder(D, [None, 4, 6], "x"), tf.placeholder(tf.int32, [None], "y")
    w, b = var("w", [6, 6]), var("b", [6])
    h = tf.tanh(tf.nn.bias_add(tf.einsum("bti,ij->btj", x, w), b))
    h = tf.reverse(tf.roll(h, 2, 2), [1]) + tf.reverse_sequence(h, 1 + y, seq_axis=1, batch_axis=0)
    h = tf.pad(h, [[0, 0], [1, 0], [0, 2]], constant_values=0.5)[:, 1:, :6] + tf.pad(h, [[0, 0], [1, 1], [0, 0]], "REFLECT")[:, 2:]
    a, c = tf.split(tf.transpose(h, [2, 0, 1]), [2, 4], 0)
    steps = tf.unstack(tf.transpose(c, [1, 2, 0]), axis=1)
    late = tf.cumsum(steps[0] * steps[3], axis=1, reverse=True) + tf.cumprod(steps[1], axis=1)
    rows = tf.compat.v1.where(y > 0, late, steps[2])
    rows = tf.where(tf.math.argmax(rows, 1) > 1, rows[:, 0], rows[:, 1])[:, None] * rows
    rows = tf.tensor_scatter_nd_add(tf.transpose(rows), [[1]], tf.reduce_sum(a, 2)[:1])
    gram = tf.matmul(rows, rows, transpose_b=True)  # over the batch
    both = tf.matmul(gram, tf.einsum("tb,ub->tu", rows, rows ** 2))  # a product of parts
    running = tf.cumsum(tf.transpose(rows), axis=0)  # over the batch, in its order
    text = tf.strings.to_number(tf.strings.join([tf.as_string(y), ".5"]), tf.float64)
    loss = tf.nn.l2_loss(h) + tf.reduce_mean(both) + tf.reduce_sum(running * tf.transpose(rows)) + tf.reduce_sum(text[:, None] * tf.transpose(rows))
    loss += tf.reduce_sum(tf.math.segment_sum(tf.transpose(gram), [0, 0, 1, 1])[0]) + tf.reduce_sum(tf.math.unsorted_segment_sum(h[:, 0], y, 3)[1])
    return [loss, tf.ensure_shape(rows, [4, None]), gram, momentum().minimize(loss * 0.01)]


MODELS = {
    "mlp": (mlp(sgd), False),
    "mlp_adam": (mlp(adam), True),
    "sum": (mlp(momentum, sums=True), False),
    "sumreg": (mlp(sgd, sums=True, reg=True), True),
    "clip": (mlp(adam, clip=True, reg=True), False),
    "bn": (mlp(sgd, bn=True), False),
    "conv": (conv, False),
    "convr": (conv, True),
    "depthwise": (depthwise, True),
    "emb": (embedding(sgd), False),
    "embr": (embedding(adam), True),
    "embm": (embedding(momentum), False),
    "rnn": (rnn, False),
    "rnnr": (rnn, True),
    "dyn": (rnn_of_lengths, True),
    "masked": (rnn_masked, True),
    "misc": (misc, True),
    "moved": (moved, False),
    "cond": (cond, False),
    "attention": (attention, True),
    "metrics": (metrics, True),
    "losses": (losses, True),
    "lstm": (lstm, True),
    "maps": (maps, True),
    "norms": (norms, True),
    "gan": (gan, False),
    "pools": (pools, True),
    "lists": (lists, True),
    "negatives": (negatives, True),
    "flat_rows": (flat_rows, True),
    "writes": (writes, True),
    "whole_loops": (whole_loops, True),
    "kept_rows": (kept_rows, False),
    "random": (random, True),
}


def make(root, out):
    for name, (model, resource) in MODELS.items():
        build(out / HERE, name, model, resource)
