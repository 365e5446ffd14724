"""Graphs of many hands: vision, attention, flows, contrastive and pairwise losses, recommenders, statistics over the batch."""

import numpy as np
import tensorflow as tf

from graphs import IDS, IMAGE, LENGTH, SEQ, T, USER, X, Y, conv, cross_entropy, dense, graph, layer_norm, mlp, v1, variable

SMALL = IMAGE * 0.5


# ---- vision ----


@graph
def squeeze_excite(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 4, "a", activation=tf.nn.relu)
    s = dense(dense(tf.reduce_mean(h, [1, 2]), 2, "down", tf.nn.relu), 4, "up", tf.sigmoid)
    h = h * tf.reshape(s, [-1, 1, 1, 4])
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def dilated_by_space_to_batch(t):
    """As tf.nn.with_space_to_batch writes a dilated convolution: the batch is four times as long inside."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    w = variable("w", (3, 3, 2, 4))
    h = tf.space_to_batch(x, [2, 2], [[2, 2], [2, 2]])
    h = tf.nn.conv2d(h, w, 1, "VALID")
    h = tf.nn.relu(tf.batch_to_space(h, [2, 2], [[0, 0], [0, 0]]))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def u_net(t):
    """Down and up again with skips; the up-sampling's size comes from tf.shape."""
    x = t.rows("x", IMAGE)
    mask = t.rows("mask", (IMAGE[..., :1] > 0.3).astype("f"))
    a = conv(x, 4, "a", activation=tf.nn.relu)
    b = conv(tf.nn.max_pool2d(a, 2, 2, "SAME"), 6, "b", activation=tf.nn.relu)
    up = tf.nn.conv2d_transpose(b, variable("up", (2, 2, 4, 6)), tf.stack([tf.shape(b)[0], 8, 8, 4]), 2, "SAME")
    logits = conv(tf.concat([a, up], 3), 1, "c")
    bce = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=mask, logits=logits))
    p = tf.sigmoid(logits)
    dice = 1 - (2 * tf.reduce_sum(p * mask) + 1) / (tf.reduce_sum(p) + tf.reduce_sum(mask) + 1)
    t.minimize(bce + dice, optimizer=v1.train.AdamOptimizer(0.02), dice=dice)


@graph
def pixel_shuffle(t):
    """Super-resolution with sub-pixel convolution; the signal-to-noise ratio of the batch is fetched."""
    x = t.rows("x", SMALL)
    low = tf.nn.avg_pool2d(x, 2, 2, "VALID")
    high = tf.nn.depth_to_space(conv(conv(low, 6, "a", activation=tf.nn.relu), 8, "b"), 2)
    mse = tf.reduce_mean(tf.square(high - x))
    t.minimize(tf.reduce_mean(tf.abs(high - x)), 0.2, psnr=-10 * tf.math.log(mse) / tf.math.log(10.0), per_image=tf.reduce_mean(tf.square(high - x), [1, 2, 3]))


@graph
def spatial_transformer(t):
    """Bilinear sampling as people write it: gather_nd with a column of batch numbers."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    shape = tf.shape(x)
    theta = tf.reshape(dense(tf.reshape(x, [-1, 128]), 6, "loc"), [-1, 2, 3]) * 0.1 + np.array([[1, 0, 0], [0, 1, 0]], "f")
    grid = np.stack([g.ravel() for g in np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8))] + [np.ones(64)]).astype("f")
    at = tf.matmul(theta, tf.tile(grid[None], [shape[0], 1, 1]))
    px, py = (at[:, 0] + 1.03) * 3.5, (at[:, 1] + 1.03) * 3.5
    x0, y0 = tf.floor(px), tf.floor(py)
    number = tf.tile(tf.reshape(tf.range(shape[0]), [-1, 1]), [1, 64])

    def pixel(ix, iy):
        ix, iy = (tf.clip_by_value(tf.cast(i, tf.int32), 0, 7) for i in (ix, iy))
        return tf.gather_nd(x, tf.stack([number, iy, ix], 2))

    wa, wb, wc, wd = (x0 + 1 - px) * (y0 + 1 - py), (x0 + 1 - px) * (py - y0), (px - x0) * (y0 + 1 - py), (px - x0) * (py - y0)
    out = wa[..., None] * pixel(x0, y0) + wb[..., None] * pixel(x0, y0 + 1) + wc[..., None] * pixel(x0 + 1, y0) + wd[..., None] * pixel(x0 + 1, y0 + 1)
    h = conv(tf.reshape(out, [-1, 8, 8, 2]), 4, "c", activation=tf.nn.relu)
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def spatial_transformer_flat(t):
    """The same sampling, by indices into the flattened batch (the well-known STN code of 2016)."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    batch = tf.shape(x)[0]
    shift = tf.tanh(dense(tf.reshape(x, [-1, 128]), 2, "loc")) * 0.4
    px = tf.reshape(tf.clip_by_value(tf.constant(np.tile(np.arange(8.0), 8).astype("f"))[None] + shift[:, :1], 0, 6.99), [-1])
    py = tf.constant(np.repeat(np.arange(8), 8).astype("i4"))
    base = tf.reshape(tf.tile(tf.expand_dims(tf.range(batch) * 64, 1), [1, 64]), [-1])
    row = base + tf.tile(py, [batch]) * 8
    x0 = tf.cast(tf.floor(px), tf.int32)
    flat = tf.reshape(x, [-1, 2])
    frac = tf.expand_dims(px - tf.cast(x0, tf.float32), 1)
    out = (1 - frac) * tf.gather(flat, row + x0) + frac * tf.gather(flat, row + x0 + 1)
    h = conv(tf.reshape(out, tf.stack([batch, 8, 8, 2])), 4, "c", activation=tf.nn.relu)
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def vision_patches(t):
    """A vision transformer: patches by reshape and transpose, a class token tiled over the batch."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    b = tf.shape(x)[0]
    p = tf.reshape(tf.transpose(tf.reshape(x, [b, 2, 4, 2, 4, 2]), [0, 1, 3, 2, 4, 5]), [b, 4, 32])
    h = dense(p, 6, "embed")
    h = tf.concat([tf.tile(variable("cls", (1, 1, 6)), [b, 1, 1]), h], 1) + variable("pos", (1, 5, 6))
    n = layer_norm(h, "ln")
    q, k, v = (tf.transpose(tf.reshape(dense(n, 6, s, bias=s != "k"), [b, 5, 2, 3]), [0, 2, 1, 3]) for s in "qkv")
    a = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.sqrt(3.0).astype("f"))
    h = h + dense(tf.reshape(tf.transpose(tf.matmul(a, v), [0, 2, 1, 3]), [b, 5, 6]), 6, "o")
    t.minimize(cross_entropy(dense(layer_norm(h, "ln2")[:, 0], 4, "head"), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def window_attention(t):
    """Swin: windows become rows of a longer batch; cyclic shift by tf.roll along height and width."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.roll(conv(x, 4, "in"), [-2, -2], [1, 2])
    w = tf.reshape(tf.transpose(tf.reshape(h, [-1, 2, 4, 2, 4, 4]), [0, 1, 3, 2, 4, 5]), [-1, 16, 4])
    a = tf.nn.softmax(tf.matmul(dense(w, 4, "q"), dense(w, 4, "k", bias=False), transpose_b=True) * 0.5 + variable("bias", (16, 16)))
    w = tf.matmul(a, dense(w, 4, "v"))
    h = tf.reshape(tf.transpose(tf.reshape(w, [-1, 2, 2, 4, 4, 4]), [0, 1, 3, 2, 4, 5]), [-1, 8, 8, 4])
    h = tf.roll(h, [2, 2], [1, 2])
    t.minimize(cross_entropy(dense(tf.reduce_mean(tf.nn.gelu(h), [1, 2]), 4, "out"), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def mixer(t):
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    h = x
    for i in range(2):
        m = tf.transpose(layer_norm(h, f"n{i}"), [0, 2, 1])
        h = h + tf.transpose(dense(dense(m, 4, f"t1{i}", tf.nn.gelu), 6, f"t2{i}"), [0, 2, 1])
        h = h + dense(dense(layer_norm(h, f"m{i}"), 4, f"c1{i}", tf.nn.gelu), 5, f"c2{i}")
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, 1), 4, "out"), y))


@graph
def capsules(t):
    """Dynamic routing, three rounds; routing logits live for one step."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)

    def squash(s):
        n = tf.reduce_sum(tf.square(s), -1, keepdims=True)
        return n / (1 + n) * s / tf.sqrt(n + 1e-7)

    w = variable("w", (1, 6, 4, 3, 5))
    u = tf.squeeze(tf.matmul(tf.tile(w, [tf.shape(x)[0], 1, 1, 1, 1]), tf.tile(x[:, :, None, :, None], [1, 1, 4, 1, 1])), 4)
    b = tf.zeros([tf.shape(x)[0], 6, 4, 1])
    u_stop = tf.stop_gradient(u)
    for i in range(3):
        c = tf.nn.softmax(b, 2)
        v = squash(tf.reduce_sum(c * (u if i == 2 else u_stop), 1, keepdims=True))
        b += tf.reduce_sum((u if i == 2 else u_stop) * v, -1, keepdims=True)
    length = tf.sqrt(tf.reduce_sum(tf.square(v), -1)[:, 0] + 1e-8)
    one = tf.one_hot(y, 4)
    loss = one * tf.square(tf.maximum(0.0, 0.9 - length)) + 0.5 * (1 - one) * tf.square(tf.maximum(0.0, length - 0.1))
    t.minimize(tf.reduce_mean(tf.reduce_sum(loss, 1)), 0.5)


@graph
def stochastic_depth(t):
    """A coin for each image (seeded), and images flipped by another."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    b = tf.shape(x)[0]
    flip = tf.random.uniform([b], seed=5) < 0.5
    x = tf.where(tf.reshape(flip, [-1, 1, 1, 1]), tf.reverse(x, [2]), x)
    h = conv(x, 4, "in")
    for i in range(2):
        keep = tf.floor(0.8 + tf.random.uniform([b, 1, 1, 1], seed=7 + i))
        h = h + conv(tf.nn.relu(h), 4, f"r{i}") * keep / 0.8
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def image_standardized(t):
    """tf.image.per_image_standardization and total variation as a penalty, ssim as what is fetched."""
    x = t.rows("x", SMALL)
    z = tf.image.per_image_standardization(x)
    h = conv(conv(z, 4, "a", activation=tf.nn.elu), 2, "b")
    tv = tf.reduce_mean(tf.image.total_variation(h))
    t.minimize(tf.reduce_mean(tf.square(h - z)) + 0.001 * tv, tv=tv, psnr=tf.reduce_mean(tf.image.psnr(h, z, 4.0)))


@graph
def cut_and_pool(t):
    """Pools of the whole graph: max_pool_with_argmax, LRN, separable convolution, crelu."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.nn.separable_conv2d(x, variable("dw", (3, 3, 2, 2)), variable("pw", (1, 1, 4, 4)), [1, 1, 1, 1], "SAME")
    h = tf.nn.local_response_normalization(tf.nn.crelu(h), 2, 1.0, 0.1, 0.5)
    h, where = tf.nn.max_pool_with_argmax(h, 2, 2, "SAME")
    t.minimize(cross_entropy(dense(tf.reshape(h, [tf.shape(x)[0], 128]), 4, "out"), y), where=tf.reduce_max(where))


# ---- attention ----


@graph
def relative_shift_attention(t):
    """Transformer-XL: the shift by pad and reshape, with the batch in front."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    h = dense(x, 6, "in")
    q, k, v = (tf.reshape(dense(h, 6, s, bias=False), [-1, 6, 2, 3]) for s in "qkv")
    r = tf.reshape(dense(tf.constant(np.sin(np.arange(36).reshape(6, 6) * 0.7).astype("f")), 6, "r", bias=False), [6, 2, 3])
    u, w = variable("u", (2, 3)), variable("w", (2, 3))
    ac = tf.einsum("bind,bjnd->bnij", q + u, k)
    bd = tf.einsum("bind,jnd->bnij", q + w, r)
    s = tf.shape(bd)
    bd = tf.pad(bd, [[0, 0], [0, 0], [0, 0], [1, 0]])
    bd = tf.reshape(tf.reshape(bd, [s[0], s[1], s[3] + 1, s[2]])[:, :, 1:], s)
    bias = (1.0 - tf.linalg.band_part(tf.ones([6, 6]), -1, 0)) * -1e9
    a = tf.nn.softmax((ac + bd) / np.sqrt(3.0).astype("f") + bias)
    h = h + dense(tf.reshape(tf.einsum("bnij,bjnd->bind", a, v), [-1, 6, 6]), 6, "o")
    t.minimize(cross_entropy(dense(h[:, -1], 4, "out"), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def rotary_attention(t):
    x, y, n = t.rows("x", SEQ), t.rows("y", Y), t.rows("n", LENGTH)
    h = dense(x, 8, "in")
    angle = np.arange(6)[:, None] * (0.3 ** np.arange(4))[None]
    cos, sin = np.cos(angle).astype("f"), np.sin(angle).astype("f")

    def rotate(z):
        a, b = tf.split(z, 2, -1)
        return tf.concat([a * cos - b * sin, a * sin + b * cos], -1)

    q, k, v = rotate(dense(h, 8, "q")), rotate(dense(h, 8, "k", bias=False)), dense(h, 8, "v")
    mask = tf.sequence_mask(n, 6)
    s = tf.matmul(q, k, transpose_b=True) / 2.83
    s = tf.where(tf.tile(mask[:, None, :], [1, 6, 1]), s, tf.fill(tf.shape(s), -1e9))
    h = tf.matmul(tf.nn.softmax(s), v)
    m = tf.cast(mask, tf.float32)[..., None]
    h = tf.reduce_sum(h * m, 1) / tf.reduce_sum(m, 1)
    t.minimize(cross_entropy(dense(h, 4, "out"), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def bucketed_bias_decoder(t):
    """T5: a table of biases by buckets of distance; tied output embedding, label smoothing, tokens weighted."""
    ids = t.rows("ids", IDS)
    table = variable("table", (20, 8))
    h = tf.gather(table, ids[:, :-1]) * 2.83
    distance = tf.range(5)[None, :] - tf.range(5)[:, None]
    bucket = tf.where(distance < -2, tf.fill([5, 5], 3), tf.abs(distance))
    bias = tf.transpose(tf.gather(variable("bias", (5, 2)), bucket), [2, 0, 1])[None]
    q, k, v = (tf.transpose(tf.reshape(dense(h, 8, s, bias=s != "k"), [-1, 5, 2, 4]), [0, 2, 1, 3]) for s in "qkv")
    s = tf.matmul(q, k, transpose_b=True) + bias - 1e9 * tf.cast(distance > 0, tf.float32)
    h = h + dense(tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(s), v), [0, 2, 1, 3]), [-1, 5, 8]), 8, "o")
    logits = tf.einsum("btd,vd->btv", h, table)
    target = ids[:, 1:]
    w = tf.cast(tf.not_equal(target, 0), tf.float32)
    ce = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(target, 20, 0.9, 0.1 / 19), logits=logits)
    loss = tf.reduce_sum(ce * w) / tf.reduce_sum(w)
    t.minimize(loss, optimizer=v1.train.AdamOptimizer(0.01), perplexity=tf.exp(loss), tokens=tf.reduce_sum(w))


@graph
def set_attention(t):
    """Set transformer: learned inducing points attend to the row's elements; masked deep sets beside it."""
    x, y, n = t.rows("x", SEQ), t.rows("y", Y), t.rows("n", LENGTH)
    mask = tf.sequence_mask(n, 6, tf.float32)
    points = variable("points", (3, 5))
    s = tf.einsum("kd,bjd->bkj", points, dense(x, 5, "key")) - 1e9 * (1 - mask)[:, None]
    h = tf.reshape(tf.einsum("bkj,bjd->bkd", tf.nn.softmax(s), x), [-1, 15])
    pooled = tf.reduce_max(dense(x, 5, "phi", tf.nn.relu) * mask[..., None], 1)
    t.minimize(cross_entropy(dense(tf.concat([h, pooled], 1), 4, "out"), y))


@graph
def random_features_attention(t):
    """Performer: features by a fixed random matrix, causal sums by cumsum over time."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    h = dense(x, 6, "in", tf.tanh)
    p = variable("projection", (6, 8), 1.0, trainable=False)

    def features(z):
        return tf.exp(tf.matmul(tf.reshape(z, [-1, 6]), p) - tf.reduce_sum(tf.reshape(z, [-1, 6]) ** 2, 1, keepdims=True) / 2)

    q, k = (tf.reshape(features(dense(h, 6, s)), [-1, 6, 8]) for s in "qk")
    kv = tf.cumsum(tf.einsum("btf,btd->btfd", k, dense(h, 6, "v")), 1)
    z = tf.einsum("btf,btf->bt", q, tf.cumsum(k, 1))
    h = tf.einsum("btf,btfd->btd", q, kv) / z[..., None]
    t.minimize(cross_entropy(dense(h[:, 5], 4, "out"), y), 0.05)


@graph
def pointer_network(t):
    """Teacher forcing through an unrolled decoder; the targets are the order of the elements by size."""
    x = t.rows("x", SEQ)
    target = t.rows("target", np.argsort(SEQ[:, :, 0], 1)[:, :4].astype("i4"))
    e = dense(x, 6, "encoder", tf.tanh)
    state = tf.reduce_mean(e, 1)
    taken = tf.zeros_like(x[:, :, 0])
    losses = []
    for i in range(4):
        with v1.variable_scope("step", reuse=v1.AUTO_REUSE):
            s = tf.reduce_sum(variable("v", (6,)) * tf.tanh(dense(e, 6, "w1") + dense(state, 6, "w2")[:, None]), 2) - 1e6 * taken
            losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, i], logits=s))
            one = tf.one_hot(target[:, i], 6)
            taken += one
            state = dense(tf.concat([state, tf.reduce_sum(e * one[..., None], 1)], 1), 6, "cell", tf.tanh)
    t.minimize(tf.reduce_mean(tf.add_n(losses)), optimizer=v1.train.AdamOptimizer(0.02))


@graph
def memory_network(t):
    """End-to-end memory with position encoding and adjacent sharing of tables."""
    story, query, y = t.rows("story", np.stack([IDS, IDS[:, ::-1]], 1)), t.rows("query", IDS[:, :3]), t.rows("y", Y)
    tables = [variable(f"e{i}", (20, 5)) for i in range(3)]
    enc = np.fromfunction(lambda j, k: (1 - (j + 1) / 6) - (k + 1) / 5 * (1 - 2 * (j + 1) / 6), (6, 5)).astype("f")
    u = tf.reduce_sum(tf.nn.embedding_lookup(tables[0], query), 1)
    for a, c in zip(tables, tables[1:]):
        m = tf.reduce_sum(tf.nn.embedding_lookup(a, story) * enc, 2)
        p = tf.nn.softmax(tf.reduce_sum(m * tf.expand_dims(u, 1), 2))
        o = tf.reduce_sum(tf.reduce_sum(tf.nn.embedding_lookup(c, story) * enc, 2) * p[..., None], 1)
        u = u + o
    optimizer = v1.train.GradientDescentOptimizer(0.05)
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(u, 4, "out")))
    pairs = [(tf.clip_by_norm(g, 4.0), v) for g, v in optimizer.compute_gradients(loss)]
    t.train(loss, optimizer.apply_gradients(pairs))


@graph
def gated_residual_wavenet(t):
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    h, skips = dense(x, 4, "in"), 0.0
    for i, d in enumerate((1, 2)):
        padded = tf.pad(h, [[0, 0], [d, 0], [0, 0]])
        z = dense(padded[:, :-d], 8, f"past{i}", bias=False) + tf.nn.conv1d(h, variable(f"w{i}", (1, 4, 8)), 1, "VALID")
        a, b = tf.split(z, 2, 2)
        z = tf.tanh(a) * tf.sigmoid(b)
        skips = skips + dense(z, 6, f"skip{i}")
        h = h + dense(z, 4, f"res{i}")
    t.minimize(cross_entropy(dense(tf.nn.relu(skips)[:, -1], 4, "out"), y))


@graph
def highway_gates(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    h = x
    for i in range(4):
        gate = tf.sigmoid(tf.matmul(h, variable(f"wg{i}", (8, 8))) - 1.0)
        h = gate * tf.nn.relu(tf.matmul(h, variable(f"w{i}", (8, 8)))) + (1 - gate) * h
    t.minimize(cross_entropy(dense(h, 4, "out"), y))


@graph
def film_hypernet(t):
    """Weights made for each row by a network, applied with batch matmul."""
    x, y = t.rows("x", X), t.rows("y", Y)
    context = dense(x, 5, "context", tf.tanh)
    w = tf.reshape(dense(context, 8 * 6, "w"), [-1, 8, 6])
    h = tf.squeeze(tf.matmul(x[:, None], w), 1)
    scale, shift = tf.unstack(tf.reshape(dense(context, 12, "film"), [-1, 2, 6]), axis=1)
    t.minimize(cross_entropy(dense(tf.nn.relu(h * (1 + scale) + shift), 4, "out"), y), 0.05)


# ---- flows, latent variables ----


@graph
def masked_autoregressive(t):
    """MADE: masks on the weights."""
    x = t.rows("x", X)
    m0, m1 = np.arange(8), np.arange(10) % 7
    a = tf.constant((m1[None] >= m0[:, None]).astype("f"))
    b = tf.constant((m0[None] > m1[:, None]).astype("f"))
    h = tf.nn.relu(tf.matmul(x, variable("w", (8, 10)) * a) + variable("b", (10,)))
    mu, alpha = tf.matmul(h, variable("wm", (10, 8)) * b), tf.tanh(tf.matmul(h, variable("wa", (10, 8)) * b))
    u = (x - mu) * tf.exp(-alpha)
    t.minimize(tf.reduce_mean(tf.reduce_sum(0.5 * u**2 + alpha + 0.919, 1)), 0.05, bits=tf.reduce_mean(alpha) / np.float32(np.log(2)))


@graph
def planar_flow(t):
    x, e = t.rows("x", X), t.rows("e", X[::-1, :3].copy())
    mu, logvar = tf.split(dense(x, 6, "enc"), 2, 1)
    z = mu + tf.exp(0.5 * logvar) * e
    logdet = 0.0
    for i in range(3):
        u, w, b = variable(f"u{i}", (3, 1)), variable(f"w{i}", (3, 1)), variable(f"b{i}", (1,))
        uw = tf.reduce_sum(u * w)
        u_hat = u + (tf.nn.softplus(uw) - 1 - uw) * w / tf.reduce_sum(w**2)
        a = tf.tanh(tf.matmul(z, w) + b)
        logdet += tf.math.log(tf.abs(1 + tf.matmul((1 - a**2) * tf.transpose(w), u_hat)) + 1e-6)
        z = z + a * tf.transpose(u_hat)
    recon = tf.reduce_sum((dense(z, 8, "dec") - x) ** 2, 1)
    kl = tf.reduce_sum(-0.5 * logvar - 0.5 * e**2 + 0.5 * z**2, 1) - tf.squeeze(logdet, 1)
    t.minimize(tf.reduce_mean(recon + kl), 0.01, kl=tf.reduce_mean(kl))


@graph
def iwae(t):
    """Samples in front of the batch: [K, B, d]; the bound is a logsumexp over K."""
    x = t.rows("x", X)
    mu, logvar = tf.split(dense(x, 6, "enc"), 2, 1)
    e = tf.random.normal(tf.concat([[5], tf.shape(mu)], 0), seed=9)
    z = mu + tf.exp(logvar / 2) * e
    xr = dense(dense(z, 6, "h", tf.tanh), 8, "dec")
    lw = -0.5 * tf.reduce_sum((xr - x) ** 2, -1) + 0.5 * tf.reduce_sum(e**2 + logvar - z**2, -1)
    bound = tf.reduce_logsumexp(lw, 0) - np.float32(np.log(5))
    ess = 1 / tf.reduce_sum(tf.nn.softmax(lw, 0) ** 2, 0)
    t.minimize(-tf.reduce_mean(bound), 0.02, ess=tf.reduce_mean(ess))


@graph
def gumbel_autoencoder(t):
    """Straight-through Gumbel softmax; the temperature falls with the step."""
    x = t.rows("x", X)
    step = v1.train.get_or_create_global_step()
    tau = tf.maximum(0.5, v1.train.exponential_decay(1.0, step, 5, 0.9, staircase=True))
    logits = tf.reshape(dense(x, 12, "enc"), [-1, 3, 4])
    g = -tf.math.log(-tf.math.log(tf.random.uniform(tf.shape(logits), 1e-4, 1.0 - 1e-4, seed=3)))
    soft = tf.nn.softmax((logits + g) / tau)
    hard = tf.one_hot(tf.argmax(soft, -1), 4)
    z = tf.stop_gradient(hard - soft) + soft
    recon = tf.reduce_mean((dense(tf.reshape(z, [-1, 12]), 8, "dec") - x) ** 2)
    q = tf.nn.softmax(logits)
    kl = tf.reduce_mean(tf.reduce_sum(q * tf.math.log(q * 4 + 1e-9), [1, 2]))
    usage = tf.reduce_mean(hard, 0)
    t.minimize(recon + 0.05 * kl, 0.1, tau=tau, entropy=-tf.reduce_sum(usage * tf.math.log(usage + 1e-6)))


@graph
def total_correlation_vae(t):
    """beta-TCVAE: the aggregate posterior is estimated by all pairs of the batch."""
    x, e = t.rows("x", X), t.rows("e", X[::-1, :3].copy())
    mu, logvar = tf.split(dense(x, 6, "enc"), 2, 1)
    z = mu + tf.exp(logvar / 2) * e
    d = -0.5 * ((z[:, None] - mu[None]) ** 2 * tf.exp(-logvar)[None] + logvar[None] + 1.8379)
    n = tf.cast(tf.shape(x)[0], tf.float32)
    log_qz = tf.reduce_logsumexp(tf.reduce_sum(d, 2), 1) - tf.math.log(n * 37)
    log_prod = tf.reduce_sum(tf.reduce_logsumexp(d, 1) - tf.math.log(n * 37), 1)
    tc = tf.reduce_mean(log_qz - log_prod)
    kl = 0.5 * tf.reduce_mean(tf.reduce_sum(mu**2 + tf.exp(logvar) - logvar - 1, 1))
    recon = tf.reduce_mean(tf.reduce_sum((dense(z, 8, "dec") - x) ** 2, 1))
    t.minimize(recon + kl + 2 * tc, 0.02, tc=tc)


@graph
def codebook_averages(t):
    """VQ-VAE whose codebook follows averages of counts and sums, with Laplace smoothing."""
    x = t.rows("x", X)
    z = dense(x, 3, "enc")
    book, count, total = variable("book", (3, 6), trainable=False), v1.get_variable("count", initializer=np.ones(6, "f"), trainable=False), variable("book2", (3, 6), trainable=False)
    d = tf.reduce_sum(z**2, 1, keepdims=True) - 2 * tf.matmul(z, book) + tf.reduce_sum(book**2, 0, keepdims=True)
    i = tf.argmin(d, 1, output_type=tf.int32)
    one = tf.one_hot(i, 6)
    q = tf.nn.embedding_lookup(tf.transpose(book.read_value()), i)
    commit = tf.reduce_mean((tf.stop_gradient(q) - z) ** 2)
    st = z + tf.stop_gradient(q - z)
    recon = tf.reduce_mean((dense(st, 8, "dec") - x) ** 2)
    average = tf.reduce_mean(one, 0)
    opt = v1.train.AdamOptimizer(0.02).minimize(recon + 0.25 * commit)
    with tf.control_dependencies([opt, st]):
        new_count = v1.assign(count, 0.9 * count + 0.1 * tf.reduce_sum(one, 0))
        new_total = v1.assign(total, 0.9 * total + 0.1 * tf.matmul(z, one, transpose_a=True))
        n = tf.reduce_sum(new_count)
        update = v1.assign(book, new_total / ((new_count + 1e-5) / (n + 6e-5) * n)[None])
    t.fetch(perplexity=tf.exp(-tf.reduce_sum(average * tf.math.log(average + 1e-10))), codes=i)
    t.train(recon + 0.25 * commit, update)


# ---- contrastive, pairwise, over the batch ----


@graph
def swapped_prototypes(t):
    """SwAV: three rounds of Sinkhorn over the batch's scores."""
    a, b = t.rows("a", X), t.rows("b", (X + 0.1).astype("f"))
    w = tf.nn.l2_normalize(variable("prototypes", (5, 4)), 0)

    def scores(x):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            return tf.matmul(tf.nn.l2_normalize(dense(x, 5, "h"), 1), w)

    def sinkhorn(s):
        q = tf.transpose(tf.exp(tf.stop_gradient(s) / 0.5))
        q /= tf.reduce_sum(q)
        for _ in range(3):
            q /= tf.reduce_sum(q, 1, keepdims=True) * 4
            q /= tf.reduce_sum(q, 0, keepdims=True) * tf.cast(tf.shape(q)[1], tf.float32)
        return tf.transpose(q) * tf.cast(tf.shape(q)[1], tf.float32)

    sa, sb = scores(a), scores(b)
    loss = -tf.reduce_mean(tf.reduce_sum(sinkhorn(sa) * tf.nn.log_softmax(sb / 0.3) + sinkhorn(sb) * tf.nn.log_softmax(sa / 0.3), 1)) / 2
    t.minimize(loss, 0.1)


@graph
def transport_loss(t):
    """Sinkhorn distance between the batch and a second one: a [B, B] plan, ten rounds."""
    x, z = t.rows("x", X[:, :3].copy()), t.rows("z", T)
    fake = dense(dense(z, 6, "g", tf.tanh), 3, "o")
    c = tf.reduce_sum((x[:, None] - fake[None]) ** 2, 2)
    n = tf.cast(tf.shape(x)[0], tf.float32)
    f, g = tf.zeros_like(x[:, 0]), tf.zeros_like(z[:, 0])
    for _ in range(6):
        f = -tf.reduce_logsumexp((g[None] - c), 1) + tf.math.log(1 / n)
        g = -tf.reduce_logsumexp((f[:, None] - c), 0) + tf.math.log(1 / n)
    plan = tf.exp(f[:, None] + g[None] - c)
    t.minimize(tf.reduce_sum(plan * c), 0.05, mass=tf.reduce_sum(plan))


@graph
def supervised_contrastive(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    z = tf.nn.l2_normalize(dense(dense(x, 6, "h", tf.nn.relu), 4, "z"), 1)
    s = tf.matmul(z, z, transpose_b=True) / 0.5
    s -= tf.stop_gradient(tf.reduce_max(s, 1, keepdims=True))
    not_self = 1.0 - tf.eye(tf.shape(x)[0])
    mask = tf.cast(tf.equal(y[:, None], y[None]), tf.float32) * not_self
    logp = s - tf.math.log(tf.reduce_sum(tf.exp(s) * not_self, 1, keepdims=True))
    loss = -tf.math.divide_no_nan(tf.reduce_sum(mask * logp, 1), tf.reduce_sum(mask, 1))
    t.minimize(tf.reduce_mean(loss), 0.05)


@graph
def multi_similarity(t):
    """Mining by the hardest positive and negative of each row of the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = tf.nn.l2_normalize(dense(x, 4, "z"), 1)
    s = tf.matmul(z, tf.transpose(z))
    same = tf.equal(tf.expand_dims(y, 0), tf.expand_dims(y, 1))
    pos = tf.logical_and(same, tf.logical_not(tf.cast(tf.linalg.diag(tf.ones_like(y)), tf.bool)))
    neg = tf.logical_not(same)
    hardest_neg = tf.reduce_max(tf.where(neg, s, -tf.ones_like(s)), 1, keepdims=True)
    hardest_pos = tf.reduce_min(tf.where(pos, s, tf.ones_like(s)), 1, keepdims=True)
    pos_mined = tf.cast(tf.logical_and(pos, s - 0.1 < hardest_neg), tf.float32)
    neg_mined = tf.cast(tf.logical_and(neg, s + 0.1 > hardest_pos), tf.float32)
    p = tf.math.log(1 + tf.reduce_sum(tf.exp(-2 * (s - 0.5)) * pos_mined, 1)) / 2
    n = tf.math.log(1 + tf.reduce_sum(tf.exp(10 * (s - 0.5)) * neg_mined, 1)) / 10
    t.minimize(tf.reduce_mean(p + n), 0.1, mined=tf.reduce_sum(pos_mined) + tf.reduce_sum(neg_mined))


@graph
def rolled_negatives(t):
    """The negative of a row is the next row of the batch."""
    u, i = t.rows("u", X), t.rows("i", SEQ[:, 0].copy())
    a, b = dense(u, 4, "u", tf.tanh), dense(i, 4, "i", tf.tanh)
    good = tf.reduce_sum(a * b, 1)
    bad = [tf.reduce_sum(a * tf.roll(b, k, 0), 1) for k in (1, 2)]
    loss = tf.add_n([tf.reduce_mean(tf.nn.softplus(n - good)) for n in bad])
    t.minimize(loss, 0.2)


@graph
def mixup_reversed(t):
    """Mixup of each row with its mirror image in the batch; the weight is fed."""
    x, y, lam = t.rows("x", X), t.rows("y", Y), t.whole("lam", np.float32(0.7))
    one = tf.one_hot(y, 4)
    mixed = lam * x + (1 - lam) * tf.reverse(x, [0])
    target = lam * one + (1 - lam) * one[::-1]
    t.minimize(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=mlp(mixed))), 0.2)


@graph
def ohem_ratio(t):
    """The hardest 70 % of the batch: k is computed from tf.shape."""
    x, y = t.rows("x", X), t.rows("y", Y)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    k = tf.cast(tf.cast(tf.shape(ce)[0], tf.float32) * 0.7, tf.int32)
    hard, _ = tf.nn.top_k(ce, k)
    t.minimize(tf.reduce_mean(hard), 0.2, easiest=tf.reduce_min(hard))


@graph
def percentile_clipped(t):
    """Losses above the batch's 80th percentile (by sort) count as that much; median and spread of it normalise."""
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.reduce_sum(tf.abs(dense(dense(x, 6, "h", tf.tanh), 2, "o") - y), 1)
    s = tf.sort(tf.stop_gradient(e))
    n = tf.shape(s)[0]
    high, median = tf.gather(s, (n * 4) // 5), s[n // 2]
    mad = tf.sort(tf.abs(s - median))[n // 2] + 1e-3
    t.minimize(tf.reduce_mean(tf.minimum(e, high)) / mad, 0.01, high=high, median=median)


@graph
def auc_surrogate(t):
    """All positives against all negatives of the batch, by boolean_mask."""
    x, y = t.rows("x", X), t.rows("y", Y)
    s = tf.squeeze(dense(dense(x, 6, "h", tf.nn.relu), 1, "o", bias=False), 1)
    pos, neg = tf.boolean_mask(s, y < 2), tf.boolean_mask(s, y >= 2)
    d = tf.expand_dims(pos, 1) - tf.expand_dims(neg, 0)
    t.minimize(tf.reduce_mean(tf.square(tf.maximum(0.0, 1 - d))), 0.1, auc=tf.reduce_mean(tf.cast(d > 0, tf.float32)))


@graph
def lambda_rank(t):
    """Pairs of the batch that have one query, weighted by the change of NDCG: ranks by argsort twice."""
    x, q, y = t.rows("x", X), t.rows("q", (USER % 3).astype("i4")), t.rows("y", Y)
    s = tf.reshape(dense(dense(x, 6, "h", tf.nn.relu), 1, "o"), [-1])
    gain = tf.pow(2.0, tf.cast(y, tf.float32)) - 1
    same = tf.equal(q[:, None], q[None])
    better = tf.logical_and(same, y[:, None] > y[None])
    rank = tf.cast(tf.argsort(tf.argsort(s, direction="DESCENDING")), tf.float32)
    discount = 1 / tf.math.log(rank + 2.0)
    delta = tf.abs((gain[:, None] - gain[None]) * (discount[:, None] - discount[None]))
    pair = tf.nn.softplus(-(s[:, None] - s[None])) * tf.stop_gradient(delta) * tf.cast(better, tf.float32)
    t.minimize(tf.reduce_sum(pair) / (tf.reduce_sum(tf.cast(better, tf.float32)) + 1e-6), 0.1)


@graph
def soft_spearman(t):
    x, y = t.rows("x", X), t.rows("y", T)
    s, r = tf.reshape(dense(x, 1, "o", tf.tanh), [-1]), y[:, 0]

    def rank(v, tau):
        return tf.reduce_sum(tf.sigmoid((v[:, None] - v[None]) / tau), 1)

    a, b = rank(s, 0.3), rank(r, 0.01)
    a, b = a - tf.reduce_mean(a), b - tf.reduce_mean(b)
    rho = tf.reduce_sum(a * b) / (tf.norm(a) * tf.norm(b) + 1e-6)
    t.minimize(1 - rho, 0.1, rho=rho)


@graph
def distance_correlation(t):
    """Doubly centred distances of the batch."""
    x, y = t.rows("x", X), t.rows("y", T)

    def centred(z):
        d = tf.sqrt(tf.reduce_sum((z[:, None] - z[None]) ** 2, 2) + 1e-4)
        return d - tf.reduce_mean(d, 0, keepdims=True) - tf.reduce_mean(d, 1, keepdims=True) + tf.reduce_mean(d)

    a, b = centred(dense(x, 3, "z", tf.tanh)), centred(y)
    t.minimize(-tf.reduce_mean(a * b) / tf.sqrt(tf.reduce_mean(a * a) * tf.reduce_mean(b * b)), 0.2)


@graph
def vicreg(t):
    a, b = t.rows("a", X), t.rows("b", (X * 0.9).astype("f"))

    def net(x):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            return dense(dense(x, 6, "h", tf.nn.relu), 4, "z")

    za, zb = net(a), net(b)
    n = tf.cast(tf.shape(za)[0], tf.float32)
    loss = 5 * v1.losses.mean_squared_error(za, zb)
    for z in (za, zb):
        z = z - tf.reduce_mean(z, 0)
        std = tf.sqrt(tf.reduce_sum(z**2, 0) / (n - 1) + 1e-4)
        cov = tf.matmul(z, z, transpose_a=True) / (n - 1)
        loss += tf.reduce_mean(tf.nn.relu(1 - std)) + (tf.reduce_sum(cov**2) - tf.reduce_sum(tf.linalg.diag_part(cov) ** 2)) / 4
    t.minimize(loss, 0.05)


@graph
def iterated_whitening(t):
    """Decorrelated batch norm: the inverse root of the batch's covariance by Newton's iteration, running mean kept."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 4, "a", bias=False)
    mean = tf.reduce_mean(h, 0, keepdims=True)
    c = h - mean
    sigma = tf.matmul(c, c, transpose_a=True) / tf.cast(tf.shape(h)[0], tf.float32) + 0.1 * tf.eye(4)
    trace = tf.linalg.trace(sigma)
    p, s = tf.eye(4), sigma / trace
    for _ in range(4):
        p = 1.5 * p - 0.5 * tf.matmul(tf.matmul(tf.matmul(p, p), p), s)
    moving = variable("moving", (1, 4), 0.0, trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, moving.assign(0.9 * moving + 0.1 * mean))
    t.minimize(cross_entropy(dense(tf.matmul(c, p / tf.sqrt(trace)), 4, "o"), y), 0.1, trace=trace)


@graph
def deep_embedded_clustering(t):
    """DEC: the target distribution divides by the batch's cluster frequencies."""
    x = t.rows("x", X)
    z, centres = dense(x, 3, "enc", tf.tanh), variable("centres", (4, 3))
    q = 1 / (1 + tf.reduce_sum((z[:, None] - centres) ** 2, 2))
    q /= tf.reduce_sum(q, 1, keepdims=True)
    p = q**2 / tf.reduce_sum(q, 0)
    p = tf.stop_gradient(tf.transpose(tf.transpose(p) / tf.reduce_sum(p, 1)))
    t.minimize(tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p / q), 1)), 0.5, assigned=tf.argmax(q, 1))


@graph
def neighbours_in_batch(t):
    """DGCNN with the rows of the batch as points: the three nearest rows are gathered, edges pooled."""
    x, y = t.rows("x", X), t.rows("y", Y)
    d = tf.reduce_sum(x**2, 1, keepdims=True) - 2 * tf.matmul(x, x, transpose_b=True) + tf.transpose(tf.reduce_sum(x**2, 1, keepdims=True))
    _, near = tf.nn.top_k(-d, 3)
    edge = tf.concat([tf.tile(x[:, None], [1, 3, 1]), tf.gather(x, near) - x[:, None]], 2)
    h = tf.reduce_max(dense(edge, 6, "e", tf.nn.leaky_relu), 1)
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.1)


@graph
def label_propagation(t):
    """Affinities of the batch, labels spread over them in three rounds."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = dense(x, 4, "z", tf.tanh)
    w = tf.exp(-tf.reduce_sum((z[:, None] - z[None]) ** 2, 2)) * (1 - tf.eye(tf.shape(x)[0]))
    d = tf.math.rsqrt(tf.reduce_sum(w, 1) + 1e-6)
    s = d[:, None] * w * d[None]
    known = tf.one_hot(y, 4)
    f = known
    for _ in range(3):
        f = 0.7 * tf.matmul(s, f) + 0.3 * known
    p = f / tf.reduce_sum(f, 1, keepdims=True)
    t.minimize(-tf.reduce_mean(tf.reduce_sum(known * tf.math.log(p + 1e-6), 1)), 0.1)


@graph
def kernel_ridge(t):
    """A [B, B] kernel and its solution by steepest descent, in double precision."""
    x, y = t.rows("x", X.astype("d")), t.rows("y", T.astype("d"))
    scale = v1.get_variable("scale", initializer=np.float64(0.5))
    k = tf.exp(-tf.exp(scale) * 0.1 * tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))
    a = tf.zeros_like(y)
    for _ in range(5):
        r = y - tf.matmul(k, a) - 0.5 * a
        a += 0.2 * r
    t.minimize(tf.reduce_mean((tf.matmul(k, a) - y) ** 2), 0.3)
