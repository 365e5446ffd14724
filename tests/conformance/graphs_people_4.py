"""Graphs of many hands: batches of fixed size, placeholders without a shape, consecutive rows as groups, odd types."""

import numpy as np
import tensorflow as tf

from graphs import IMAGE, ITEM, SEQ, T, USER, WEIGHT, X, Y, accuracy, batch_norm, classifier, conv, cross_entropy, dense, graph, mlp, v1, variable

EVEN = 36  # rows that come in pairs: batches of 10, 10, 10 and 6


def shapeless(t, name, array):
    """tf.placeholder(dtype) and no more."""
    t.feeds[name] = array[: t.size.rows]
    return v1.placeholder(array.dtype, name=name)


# ---- placeholders ----


@graph
def placeholders_without_shapes(t):
    """Neither x nor y has a shape; the layer sets it, as TF1 scripts did."""
    x, y = shapeless(t, "x", X), shapeless(t, "y", Y)
    h = tf.tanh(tf.matmul(x, variable("w", (8, 6))) + variable("b", (6,)))
    logits = tf.matmul(h, variable("v", (6, 4)))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits))
    t.minimize(loss, 0.2)


@graph
def scalars_without_shapes(t):
    """keep_prob and rate are placeholders without a shape beside a batch with one."""
    x, y = t.rows("x", X), t.rows("y", Y)
    t.constants["keep"], t.constants["rate"] = np.float32(0.8), np.float32(0.1)
    keep, rate = v1.placeholder(tf.float32, name="keep"), v1.placeholder(tf.float32, name="rate")
    h = v1.nn.dropout(dense(x, 6, "h", tf.nn.relu), keep_prob=keep, seed=8)
    t.minimize(cross_entropy(dense(h, 4, "o"), y), optimizer=v1.train.AdamOptimizer(rate * 0.1))


@graph
def images_without_shapes(t):
    """set_shape after the fact, labels as one-hot floats without a shape."""
    x, y = shapeless(t, "x", IMAGE.reshape(len(X), -1)), shapeless(t, "y", np.eye(4, dtype="f")[Y])
    image = tf.reshape(x, [-1, 8, 8, 2])
    h = tf.reduce_mean(conv(image, 4, "c", activation=tf.nn.relu), [1, 2])
    loss = -tf.reduce_mean(tf.reduce_sum(y * tf.math.log(tf.nn.softmax(dense(h, 4, "o")) + 1e-8), axis=1))
    right = tf.equal(tf.argmax(dense(h, 4, "o2"), 1), tf.argmax(y, 1))
    t.minimize(loss, 0.2, accuracy=tf.reduce_mean(tf.cast(right, "float")))


@graph
def defaults_for_rows(t):
    """Everything comes through placeholder_with_default."""
    t.feeds["x"], t.feeds["y"] = X[: t.size.rows], Y[: t.size.rows]
    x, y = v1.placeholder_with_default(X[:1], [None, 8], "x"), v1.placeholder_with_default(Y[:1], [None], "y")
    training = v1.placeholder_with_default(True, [], "training")
    h = dense(x, 6, "h")
    h = v1.cond(training, lambda: v1.nn.dropout(h, rate=0.3, seed=2), lambda: tf.identity(h))
    t.minimize(cross_entropy(dense(tf.nn.relu(h), 4, "o"), y), 0.1)


@graph
def data_in_the_graph(t):
    """The data is a constant and a variable; only row numbers are fed."""
    rows = t.rows("rows", np.random.RandomState(3).permutation(len(X)).astype("i4"))
    data, labels = tf.constant(X), v1.get_variable("labels", initializer=Y, trainable=False)
    t.minimize(cross_entropy(mlp(tf.gather(data, rows)), tf.gather(labels, rows)), 0.2)


@graph
def bytes_and_doubles(t):
    """Images as uint8, labels as int64, weights as double: casts everywhere."""
    x, y, w = t.rows("x", (np.abs(IMAGE) * 60).astype("u1")), t.rows("y", Y.astype("i8")), t.rows("w", WEIGHT.astype("d"))
    h = conv(tf.cast(x, tf.float32) / 255.0, 4, "c", activation=tf.nn.relu)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(tf.reduce_max(h, [1, 2]), 4, "o"))
    loss = tf.reduce_sum(tf.cast(ce, tf.float64) * w) / tf.reduce_sum(w)
    mean = tf.reduce_mean(tf.cast(x, tf.int32), 0)
    t.minimize(tf.cast(loss, tf.float32), 0.2, brightest=tf.reduce_max(x), total=tf.reduce_sum(tf.cast(x, tf.int64)), mean=tf.reduce_max(mean))


@graph
def complex_embeddings(t):
    """ComplEx: products of complex numbers, a phase rotation."""
    a, r, b, y = t.rows("a", USER), t.rows("r", (USER % 3).astype("i4")), t.rows("b", ITEM), t.rows("y", (2 * (ITEM % 2) - 1).astype("f"))
    e = tf.complex(variable("re", (15, 4)), variable("im", (15, 4)))
    q = tf.complex(tf.cos(variable("phase", (3, 4))), tf.sin(variable("phase2", (3, 4))))
    s = tf.gather(e, a) * tf.gather(q, r) * tf.math.conj(tf.gather(e, b))
    score = tf.math.real(tf.reduce_sum(s, 1))
    mean = tf.reduce_mean(s, 0)
    t.minimize(tf.reduce_mean(tf.nn.softplus(-y * score)) + 0.1 * tf.reduce_sum(tf.abs(mean)), 0.2)


@graph
def strings_of_rows(t):
    """Ids as strings and back, a key joined from two columns, rows chosen by a pattern."""
    user, item, y = t.rows("user", USER), t.rows("item", ITEM), t.rows("y", Y)
    key = tf.strings.join([tf.strings.as_string(user), tf.strings.as_string(item)], "_")
    digits = tf.strings.regex_replace(key, "_", "")
    number = tf.cast(tf.strings.to_number(digits, tf.float32), tf.int32) % 20
    star = tf.cast(tf.strings.regex_full_match(key, ".*[02468]"), tf.float32)
    h = tf.gather(variable("table", (20, 4)), number) * (1 + star)[:, None]
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.2, numbers=number)


# ---- rows in groups ----


@graph
def generalized_end_to_end(t):
    """GE2E: rows come in pairs of one speaker; reshape([-1, 2, d]) groups consecutive rows."""
    x = t.rows("x", X[:EVEN])
    e = tf.reshape(tf.nn.l2_normalize(dense(x, 4, "e"), 1), [-1, 2, 4])
    c = tf.nn.l2_normalize(tf.reduce_mean(e, 1), 1)
    n = tf.shape(c)[0]
    w, b = v1.get_variable("w", initializer=np.float32(3)), v1.get_variable("b", initializer=np.float32(-1))
    s = tf.matmul(tf.reshape(e, [-1, 4]), c, transpose_b=True) * w + b
    label = tf.reshape(tf.tile(tf.range(n)[:, None], [1, 2]), [-1])
    t.minimize(cross_entropy(s, label), 0.05)


@graph
def pairs_by_reshape(t):
    """RankNet on rows 2i and 2i+1."""
    x, y = t.rows("x", X[:EVEN]), t.rows("y", T[:EVEN])
    s = tf.reshape(dense(dense(x, 5, "h", tf.tanh), 1, "o"), [-1, 2])
    r = tf.reshape(y[:, 0], [-1, 2])
    target = tf.cast(r[:, 0] > r[:, 1], tf.float32)
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=s[:, 0] - s[:, 1])), 0.2)


@graph
def triples_by_shape(t):
    """Groups of three rows, their number computed from tf.shape: [n // 3, 3, d]; rows that are left over are dropped."""
    x, y = t.rows("x", X), t.rows("y", T)
    n = tf.shape(x)[0] // 3
    z = tf.reshape(dense(x, 4, "z", tf.tanh)[: n * 3], [n, 3, 4])
    r = tf.reshape(y[: 3 * n, 0], tf.stack([n, 3]))
    p = tf.nn.softmax(tf.reduce_sum(z, 2))
    t.minimize(-tf.reduce_mean(tf.reduce_sum(p * tf.nn.softmax(r), 1)), 0.3, groups=n)


@graph
def odd_numbers_of_columns(t):
    """The batch's elements written as rows of another length."""
    x = t.rows("x", X[:EVEN])
    h = tf.reshape(dense(x, 6, "h", tf.tanh), [-1, 4])
    t.minimize(tf.reduce_mean((dense(h, 4, "o") - tf.reshape(x[:, :6], [-1, 4])) ** 2), 0.2, std=tf.math.reduce_std(h, 0))


@graph
def ghost_batch_norm(t):
    """Two virtual batches, each with statistics of its own; the moving mean is that of both."""
    x, y = t.rows("x", X[:EVEN]), t.rows("y", Y[:EVEN])
    h = tf.reshape(dense(x, 6, "a", bias=False), [2, -1, 6])
    m, v = tf.nn.moments(h, [1], keepdims=True)
    moving = v1.get_variable("moving", initializer=np.zeros(6, "f"), trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign(moving, 0.9 * moving + 0.1 * tf.reduce_mean(m, [0, 1])))
    h = tf.reshape((h - m) * tf.math.rsqrt(v + 1e-3), [-1, 6])
    t.minimize(cross_entropy(dense(tf.nn.relu(h), 4, "o"), y), 0.1)


@graph
def minibatch_stddev(t):
    """Progressive GAN: the spread within groups of two rows as one more feature map."""
    x, y = t.rows("x", IMAGE[:EVEN]), t.rows("y", (Y[:EVEN] % 2).astype("f"))
    h = conv(x, 3, "a", activation=tf.nn.leaky_relu)
    s = h.shape
    g = tf.reshape(h, [2, -1, s[1], s[2], s[3]])
    g -= tf.reduce_mean(g, 0, keepdims=True)
    g = tf.sqrt(tf.reduce_mean(tf.square(g), 0) + 1e-8)
    g = tf.tile(tf.reduce_mean(g, [1, 2, 3], keepdims=True), [2, s[1], s[2], 1])
    h = conv(tf.concat([h, g], 3), 3, "b", activation=tf.nn.leaky_relu)
    logit = dense(tf.reduce_mean(h, [1, 2]), 1, "o")[:, 0]
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit)), 0.1)


@graph
def towers_by_hand(t):
    """Two towers by tf.split of the batch, gradients averaged as in the CIFAR-10 tutorial."""
    x, y = t.rows("x", X[:EVEN]), t.rows("y", Y[:EVEN])
    opt = v1.train.MomentumOptimizer(0.2, 0.9)
    grads, losses = [], []
    for a, b in zip(tf.split(x, 2), tf.split(y, 2)):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            losses.append(cross_entropy(mlp(a), b))
        grads.append(opt.compute_gradients(losses[-1], v1.trainable_variables()))
    pairs = []
    for both in zip(*grads):
        pairs.append((tf.reduce_mean(tf.concat([tf.expand_dims(g, 0) for g, _ in both], 0), 0), both[0][1]))
    t.train(tf.add_n(losses) / 2, opt.apply_gradients(pairs))


@graph
def towers_by_shape(t):
    """The same with sizes from tf.shape, which do not divide: SplitV."""
    x, y = t.rows("x", X), t.rows("y", Y)
    n = tf.shape(x)[0]
    sizes = tf.stack([n // 2, n - n // 2])
    losses = []
    for a, b in zip(tf.split(x, sizes, num=2), tf.split(y, sizes, num=2)):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            losses.append(tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=b, logits=mlp(tf.ensure_shape(a, [None, 8])))))
    t.minimize(tf.add_n(losses) / tf.cast(n, tf.float32), 0.2)


@graph
def convolutional_gan(t):
    """DCGAN with its constant batch: output shapes, labels and noise are all of ten rows; both optimizers in turn."""
    x, z = t.rows("x", IMAGE, 10), t.rows("z", X, 10)

    def generator(n):
        with v1.variable_scope("g"):
            h = tf.nn.relu(batch_norm(tf.reshape(dense(n, 2 * 2 * 4, "l", bias=False), [10, 2, 2, 4]), "bn"))
            h = tf.nn.conv2d_transpose(h, variable("g/w1", (3, 3, 3, 4)), [10, 4, 4, 3], [1, 2, 2, 1])
            return tf.tanh(tf.nn.conv2d_transpose(tf.nn.relu(h), variable("g/w2", (3, 3, 2, 3)), [10, 8, 8, 2], [1, 2, 2, 1]))

    def discriminator(i, reuse):
        with v1.variable_scope("d", reuse=reuse):
            h = tf.nn.leaky_relu(conv(i, 3, "c", stride=2))
            return dense(tf.reshape(h, [10, -1]), 1, "o")

    fake = generator(z)
    real_logit, fake_logit = discriminator(x, False), discriminator(fake, True)

    def ce(logits, label):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones([10, 1]) * label, logits=logits))

    d_loss, g_loss = ce(real_logit, 0.9) + ce(fake_logit, 0.0), ce(fake_logit, 1.0)
    vs = v1.trainable_variables()
    opt = v1.train.GradientDescentOptimizer(0.1)
    d_pairs = opt.compute_gradients(d_loss, [v for v in vs if v.name.startswith("d/")])
    g_pairs = opt.compute_gradients(g_loss, [v for v in vs if v.name.startswith("g/")])
    with tf.control_dependencies([g for g, _ in d_pairs + g_pairs] + v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_d = opt.apply_gradients(d_pairs)
    with tf.control_dependencies([train_d]):
        train_g = opt.apply_gradients(g_pairs)
    t.train(d_loss + g_loss, train_g)


@graph
def rows_one_by_one(t):
    """A constant batch taken apart with tf.unstack, each row with its own little graph."""
    x, y = t.rows("x", X, 10), t.rows("y", Y, 10)
    w, v = variable("w", (8, 6)), variable("v", (6, 4))
    losses = []
    for a, b in zip(tf.unstack(x), tf.unstack(y)):
        h = tf.tanh(tf.linalg.matvec(w, a, transpose_a=True))
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=b, logits=tf.linalg.matvec(v, h, transpose_a=True)))
    t.minimize(tf.reduce_mean(tf.stack(losses)), 0.2, hardest=tf.argmax(tf.stack(losses)))


@graph
def first_and_last_rows(t):
    """The first row of the batch is an anchor; the last is held out."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = dense(x, 4, "z", tf.tanh)
    anchor, rest = z[:1], z[1:-1]
    d = tf.reduce_sum((rest - anchor) ** 2, 1)
    t.minimize(tf.reduce_mean(tf.nn.softplus(-d)) + cross_entropy(dense(z[:-1], 4, "o"), y[:-1]), 0.1, last=z[-1], first=tf.gather(z, 0))


@graph
def all_triplets(t):
    """tf.where of a [B, B, B] mask, gather_nd of distances: as many triplets as there are."""
    x, y = t.rows("x", X), t.rows("y", (Y % 2).astype("i4"))
    z = tf.nn.l2_normalize(dense(x, 4, "z"), 1)
    d = tf.sqrt(tf.maximum(2 - 2 * tf.matmul(z, z, transpose_b=True), 1e-4))
    same = tf.equal(y[:, None], y[None])
    other = tf.logical_not(tf.eye(tf.shape(y)[0], dtype=tf.bool))
    mask = tf.logical_and(tf.logical_and(same, other)[:, :, None], tf.logical_not(same)[:, None, :])
    at = tf.where(mask)
    a, p, n = tf.unstack(at, axis=1)
    gap = tf.gather_nd(d, tf.stack([a, p], 1)) - tf.gather_nd(d, tf.stack([a, n], 1)) + 0.2
    hard = tf.boolean_mask(gap, gap > 0)
    t.minimize(tf.reduce_sum(hard) / (tf.cast(tf.size(hard), tf.float32) + 1e-6), 0.1, triplets=tf.shape(at)[0], active=tf.size(hard))


@graph
def pairs_above_the_diagonal(t):
    """Each unordered pair of the batch once, by boolean_mask of a band; both sides gathered."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = dense(x, 3, "z", tf.tanh)
    n = tf.shape(x)[0]
    upper = tf.cast(tf.linalg.band_part(tf.ones([n, n]), 0, -1) - tf.eye(n), tf.bool)
    i, j = tf.meshgrid(tf.range(n), tf.range(n), indexing="ij")
    i, j = tf.boolean_mask(i, upper), tf.boolean_mask(j, upper)
    d = tf.reduce_sum((tf.gather(z, i) - tf.gather(z, j)) ** 2, 1)
    same = tf.cast(tf.equal(tf.gather(y, i), tf.gather(y, j)), tf.float32)
    t.minimize(tf.reduce_mean(same * d + (1 - same) * tf.nn.relu(1 - d)), 0.2, pairs=tf.size(d))


@graph
def shuffled_statistics(t):
    """MoCo's shuffled batch norm: rows shuffled (seeded), normalised, put back by the inverse permutation."""
    x, y = t.rows("x", X), t.rows("y", Y)
    order = tf.random.shuffle(tf.range(tf.shape(x)[0]), seed=17)
    h = batch_norm(dense(tf.gather(x, order), 6, "h", bias=False), "bn")
    h = tf.gather(tf.nn.relu(h), tf.math.invert_permutation(order))
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.1)


@graph
def switched_normalization(t):
    """Batch, layer and instance statistics mixed by a softmax."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 4, "c", bias=False)
    bm, bv = tf.nn.moments(h, [0, 1, 2], keepdims=True)
    im, iv = tf.nn.moments(h, [1, 2], keepdims=True)
    lm, lv = tf.nn.moments(h, [1, 2, 3], keepdims=True)
    a, b = tf.nn.softmax(variable("a", (3,))), tf.nn.softmax(variable("b", (3,)))
    m, v = a[0] * bm + a[1] * im + a[2] * lm, b[0] * bv + b[1] * iv + b[2] * lv
    h = tf.nn.relu((h - m) / tf.sqrt(v + 1e-3))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "o"), y), 0.1)


@graph
def noisy_layers(t):
    """Noise of several shapes: for each row and step of time, one mask for all steps, for weights, for the batch as a whole."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    h = x + tf.random.normal(tf.shape(x), stddev=0.1, seed=1)
    h = tf.nn.dropout(h, 0.3, noise_shape=[tf.shape(x)[0], 1, 5], seed=2)
    w = variable("w", (5, 6))
    h = tf.tensordot(h, w + tf.random.normal([5, 6], stddev=0.05, seed=3), 1)
    h = h * (1 + 0.1 * tf.random.uniform([], seed=4)) + tf.random.truncated_normal([1, 6, 6], stddev=0.1, seed=5)
    t.minimize(cross_entropy(dense(tf.reduce_mean(tf.nn.relu(h), 1), 4, "o"), y), 0.1)


@graph
def framed_signal(t):
    """A spectrogram by tf.signal.frame and products with constant cosines, log-mel and deltas."""
    x, y = t.rows("x", IMAGE.reshape(len(X), -1)[:, :32].copy()), t.rows("y", Y)
    f = tf.signal.frame(x, 8, 4) * np.hanning(8).astype("f")
    k = np.outer(np.arange(8), np.arange(5)) * 2 * np.pi / 8
    power = tf.tensordot(f, tf.constant(np.cos(k).astype("f")), 1) ** 2 + tf.tensordot(f, tf.constant(np.sin(k).astype("f")), 1) ** 2
    mel = tf.math.log(dense(power, 4, "mel", tf.nn.softplus) + 1e-3)
    delta = mel[:, 1:] - mel[:, :-1]
    h = tf.concat([tf.reduce_mean(mel, 1), tf.reduce_max(delta, 1)], 1)
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.05)


@graph
def beam_fetched(t):
    """A net is trained while a beam search over its steps is fetched: flattened top_k, parents by offsets."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 6, "h", tf.tanh)
    steps = [tf.matmul(h, variable(f"s{i}", (6, 4), 1.0)) for i in range(3)]
    scores = tf.zeros([tf.shape(x)[0], 1])
    path = None
    for s in steps:
        total = scores[:, :, None] + tf.nn.log_softmax(s)[:, None]
        scores, at = tf.nn.top_k(tf.reshape(total, [tf.shape(x)[0], -1]), 2)
        parent, token = at // 4, at % 4
        path = token[..., None] if path is None else tf.concat([tf.gather(path, parent, batch_dims=1), token[..., None]], 2)
    t.minimize(tf.add_n([cross_entropy(s, y) for s in steps]), 0.1, path=path, best=scores[:, 0])


@graph
def scores_of_the_batch(t):
    """Confusion matrix, macro F1, Matthews' coefficient and nearest-neighbour accuracy of each batch are fetched."""
    x, y, logits, loss = classifier(t)
    p = tf.argmax(logits, 1, output_type=tf.int32)
    c = tf.math.confusion_matrix(y, p, 4, dtype=tf.float32)
    tp = tf.linalg.diag_part(c)
    f1 = tf.math.divide_no_nan(2 * tp, tf.reduce_sum(c, 0) + tf.reduce_sum(c, 1))
    d = tf.reduce_sum((x[:, None] - x[None]) ** 2, 2) + 1e6 * tf.eye(tf.shape(x)[0])
    near = tf.gather(y, tf.argmin(d, 1))
    t.minimize(loss, 0.2, confusion=c, f1=tf.reduce_mean(f1), nearest=tf.reduce_mean(tf.cast(tf.equal(near, y), tf.float32)), top2=tf.reduce_mean(tf.cast(tf.math.in_top_k(y, logits, 2), tf.float32)), wrong=tf.reduce_sum(tf.where(tf.not_equal(p, y))))


# ---- derivatives ----


@graph(v2=True)
def vectorized_rows(t):
    """tf.vectorized_map over the rows of the batch."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    w = variable("w", (5, 4), use_resource=True)
    h = tf.vectorized_map(lambda r: tf.reduce_max(tf.tanh(tf.matmul(r, w)), 0), x)
    t.minimize(cross_entropy(dense(tf.ensure_shape(h, [None, 4]), 4, "o"), y), 0.2)


@graph
def hessian_of_the_loss(t):
    """tf.hessians of a vector of weights (a while loop inside), a damped Newton step by Richardson iteration."""
    x, y = t.rows("x", X[:, :3].copy()), t.rows("y", T[:, 0].copy())
    w = variable("w", (3,))
    loss = tf.reduce_mean(tf.math.log(tf.cosh(tf.linalg.matvec(x, w) - y))) + 0.05 * tf.reduce_sum(w**2)
    h, g = tf.hessians(loss, w)[0], tf.gradients(loss, w)[0]
    d = g
    for _ in range(4):
        d += 0.3 * (g - tf.linalg.matvec(h, d) - 0.5 * d)
    t.train(loss, v1.assign_sub(w, 0.5 * d))


@graph
def jacobian_of_each_row(t):
    """The whole Jacobian of each row, output by output; its norm is a penalty."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    jacobian = tf.stack([tf.gradients(tf.reduce_sum(logits[:, i]), x)[0] for i in range(4)], 1)
    t.minimize(cross_entropy(logits, y) + 0.05 * tf.reduce_mean(tf.reduce_sum(jacobian**2, [1, 2])), 0.2, jacobian=jacobian)


@graph
def scan_along_the_batch(t):
    """The batch is a sequence: a state is carried from row to row."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, u = variable("w", (8, 4)), variable("u", (4, 4))
    h = tf.scan(lambda c, r: tf.tanh(r + tf.linalg.matvec(u, c, transpose_a=True)), tf.matmul(x, w), tf.zeros([4]))
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.2)


@graph
def rows_without_a_loss(t):
    """Only a part of the fetches is trained on; row-wise outputs of other dtypes are fetched beside it."""
    x, y, logits, loss = classifier(t)
    p = tf.nn.softmax(logits)
    t.minimize(loss, 0.2, p=p, label=tf.argmax(p, 1), sure=tf.reduce_max(p, 1) > 0.5, order=tf.argsort(p[:, 0]), sorted=tf.sort(p[:, 0]), sums=tf.cumsum(p, 0), unique=tf.unique(y)[0], text=tf.strings.as_string(y))
