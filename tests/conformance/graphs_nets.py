"""Normalisations, convolutions, attention, autoencoders, adversarial nets."""

import numpy as np
import tensorflow as tf

from graphs import IDS, IMAGE, LENGTH, SEQ, T, X, Y, accuracy, batch_norm, conv, cross_entropy, dense, graph, layer_norm, v1, variable


@graph
def batch_norm_dense(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    h = tf.nn.relu(batch_norm(dense(x, 6, "a", bias=False), "bn"))
    t.minimize(cross_entropy(dense(h, 4, "b"), y), optimizer=v1.train.MomentumOptimizer(0.05, 0.9))


@graph
def batch_norm_images(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.nn.relu(batch_norm(conv(x, 3, "a", bias=False), "bn"))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "b"), y))


@graph
def batch_norm_fused(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.nn.relu(batch_norm(conv(x, 3, "a", bias=False), "bn", fused=True))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "b"), y), optimizer=v1.train.MomentumOptimizer(0.05, 0.9))


@graph
def batch_norm_fused_deep(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = x
    for i in range(3):
        h = tf.nn.relu(batch_norm(conv(h, 4, f"c{i}", stride=1 + i % 2, bias=False), f"bn{i}", fused=True))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "b"), y))


@graph
def batch_norm_by_switch(t):
    """Training or not by a fed boolean; statistics in a cond."""
    x, y = t.rows("x", X), t.rows("y", Y)
    training = t.whole("training", np.bool_(True))
    h = dense(x, 6, "a")
    mean, var = v1.get_variable("mean", [6], initializer=v1.zeros_initializer(), trainable=False), v1.get_variable("var", [6], initializer=v1.ones_initializer(), trainable=False)
    m, v = tf.nn.moments(h, [0])

    def train():
        with tf.control_dependencies([v1.assign(mean, 0.9 * mean + 0.1 * m), v1.assign(var, 0.9 * var + 0.1 * v)]):
            return tf.identity(m), tf.identity(v)

    m, v = v1.cond(training, train, lambda: (mean.read_value(), var.read_value()))
    h = tf.nn.batch_normalization(h, m, v, variable("beta", (6,)), variable("gamma", (6,)), 1e-3)
    t.minimize(cross_entropy(dense(tf.nn.relu(h), 4, "b"), y), 0.05)


@graph
def layer_normed(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    t.minimize(cross_entropy(dense(tf.nn.relu(layer_norm(dense(x, 6, "a"), "ln")), 4, "b"), y))


@graph
def rms_norm(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 6, "a")
    h = h * tf.math.rsqrt(tf.reduce_mean(tf.square(h), -1, keepdims=True) + 1e-6) * variable("scale", (6,))
    t.minimize(cross_entropy(dense(h, 4, "b"), y))


@graph
def group_norm(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 4, "a")
    shape = tf.shape(h)
    g = tf.reshape(h, [shape[0], shape[1], shape[2], 2, 2])
    m, v = tf.nn.moments(g, [1, 2, 4], keepdims=True)
    h = tf.reshape((g - m) * tf.math.rsqrt(v + 1e-5), shape) * variable("gamma", (4,)) + variable("beta", (4,))
    h = tf.ensure_shape(h, [None, 8, 8, 4])
    t.minimize(cross_entropy(dense(tf.reduce_mean(tf.nn.relu(h), [1, 2]), 4, "b"), y))


@graph
def instance_norm(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 4, "a")
    m, v = tf.nn.moments(h, [1, 2], keepdims=True)
    h = tf.nn.batch_normalization(h, m, v, None, variable("gamma", (4,)), 1e-3)
    t.minimize(cross_entropy(dense(tf.reduce_max(h, [1, 2]), 4, "b"), y))


@graph
def weight_norm(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    w, g = variable("w", (8, 6)), variable("g", (6,))
    h = tf.tanh(tf.matmul(x, tf.nn.l2_normalize(w, 0) * g))
    t.minimize(cross_entropy(dense(h, 4, "b"), y))


@graph
def spectral_norm(t):
    """One power iteration in each step; u is a variable."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, u = variable("w", (8, 6)), variable("u", (1, 6), trainable=False)
    v_hat = tf.nn.l2_normalize(tf.matmul(u, w, transpose_b=True))
    u_hat = tf.nn.l2_normalize(tf.matmul(v_hat, w))
    u_hat, v_hat = tf.stop_gradient(u_hat), tf.stop_gradient(v_hat)
    sigma = tf.matmul(tf.matmul(v_hat, w), u_hat, transpose_b=True)
    with tf.control_dependencies([u.assign(u_hat)]):
        w_bar = w / sigma
    t.minimize(cross_entropy(dense(tf.nn.relu(tf.matmul(x, w_bar)), 4, "b"), y), sigma=sigma)


@graph
def batch_renorm(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 5, "a")
    moving_mean, moving_std = variable("mm", (5,), 0.0, trainable=False), v1.get_variable("ms", initializer=np.ones(5, "f"), trainable=False)
    old_mean, old_std = tf.identity(moving_mean.read_value()), tf.identity(moving_std.read_value())
    m, v = tf.nn.moments(h, [0])
    s = tf.sqrt(v + 1e-3)
    r = tf.stop_gradient(tf.clip_by_value(s / old_std, 0.5, 2))
    d = tf.stop_gradient(tf.clip_by_value((m - old_mean) / old_std, -1, 1))
    for moving, old, new in ((moving_mean, old_mean, m), (moving_std, old_std, s)):
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign(moving, 0.9 * old + 0.1 * new))
    t.minimize(cross_entropy(dense(tf.nn.relu((h - m) / s * r + d), 4, "b"), y))


@graph
def cnn(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.nn.max_pool2d(conv(x, 4, "a", activation=tf.nn.relu), 2, 2, "SAME")
    h = tf.nn.avg_pool2d(conv(h, 4, "b", activation=tf.nn.relu, padding="VALID"), 2, 1, "SAME")
    logits = dense(tf.reshape(h, [-1, 16]), 4, "out")
    t.minimize(cross_entropy(logits, y), optimizer=v1.train.AdamOptimizer(0.01), accuracy=accuracy(logits, y), predictions=tf.nn.softmax(logits))


@graph
def cnn_flatten_by_shape(t):
    """tf.reshape(h, [tf.shape(h)[0], -1])"""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 3, "a", stride=2, activation=tf.nn.elu)
    flat = tf.ensure_shape(tf.reshape(h, [tf.shape(h)[0], -1]), [None, 48])
    t.minimize(cross_entropy(dense(flat, 4, "out"), y))


@graph
def residual(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(x, 4, "in")
    for i in range(2):
        h = h + conv(tf.nn.relu(conv(tf.nn.relu(h), 4, f"a{i}")), 4, f"b{i}")
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y), 0.05)


@graph
def depthwise(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = tf.nn.depthwise_conv2d(x, variable("d", (3, 3, 2, 2)), [1, 1, 1, 1], "SAME")
    h = tf.nn.relu6(conv(h, 5, "point", size=1))
    scale = tf.sigmoid(dense(dense(tf.reduce_mean(h, [1, 2]), 3, "s1", tf.nn.relu), 5, "s2"))
    h = h * scale[:, None, None, :]
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, [1, 2]), 4, "out"), y))


@graph
def transposed_convolution(t):
    """A segmentation net: down, up, a loss per pixel."""
    x = t.rows("x", IMAGE)
    labels = t.rows("labels", (IMAGE[:, :, :, 0] > 0).astype("i4"))
    h = conv(x, 4, "down", stride=2, activation=tf.nn.relu)
    shape = tf.shape(x)
    up = tf.nn.conv2d_transpose(h, variable("up", (3, 3, 2, 4)), tf.stack([shape[0], 8, 8, 2]), 2)
    logits = tf.concat([up, x], 3)
    t.minimize(cross_entropy(conv(logits, 2, "out", size=1), labels), iou=tf.reduce_mean(tf.cast(logits > 0, tf.float32)))


@graph
def space_to_depth(t):
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    h = conv(tf.nn.space_to_depth(x, 2), 4, "a", activation=tf.nn.relu)
    h = tf.nn.depth_to_space(h, 2)
    t.minimize(cross_entropy(dense(tf.reduce_max(h, [1, 2]), 4, "out"), y))


def attention(q, k, v, mask=None):
    s = tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(int(q.shape[-1])))
    return tf.matmul(tf.nn.softmax(s if mask is None else s + mask), v)


def multi_head(x, y, name, mask=None, heads=2, size=6):
    def split(a):
        return tf.transpose(tf.reshape(a, [-1, tf.shape(a)[1], heads, size // heads]), [0, 2, 1, 3])

    with v1.variable_scope(name):
        q, k, v = split(dense(x, size, "q")), split(dense(y, size, "k", bias=False)), split(dense(y, size, "v"))
        h = tf.transpose(attention(q, k, v, mask), [0, 2, 1, 3])
        return dense(tf.reshape(h, [-1, tf.shape(x)[1], size]), int(x.shape[-1]), "o")


@graph
def transformer_classifier(t):
    ids, y, length = t.rows("ids", IDS), t.rows("y", Y), t.rows("length", LENGTH)
    h = tf.nn.embedding_lookup(variable("table", (20, 6)), ids) + variable("position", (6, 6))
    mask = (1 - tf.sequence_mask(length, 6, dtype=tf.float32))[:, None, None, :] * -1e9
    for i in range(2):
        h = layer_norm(h + multi_head(h, h, f"a{i}", mask), f"n{i}")
        h = layer_norm(h + dense(dense(h, 8, f"f{i}", tf.nn.gelu), 6, f"g{i}"), f"m{i}")
    logits = dense(h[:, 0], 4, "out")
    t.minimize(cross_entropy(logits, y), 0.05)


@graph
def transformer_decoder(t):
    """A causal language model with label smoothing and a masked mean."""
    ids, length = t.rows("ids", IDS), t.rows("length", np.maximum(LENGTH, 2))
    h = tf.nn.embedding_lookup(variable("table", (20, 6)), ids) + variable("position", (6, 6))
    mask = (1 - tf.linalg.band_part(tf.ones([6, 6]), -1, 0)) * -1e9
    h = h + multi_head(layer_norm(h, "n"), layer_norm(h, "n2"), "a", mask)
    h = h + dense(dense(layer_norm(h, "m"), 8, "f", tf.nn.relu), 6, "g")
    logits = dense(h, 20, "out")[:, :-1]
    smooth = tf.one_hot(ids[:, 1:], 20) * 0.9 + 0.1 / 20
    each = tf.nn.softmax_cross_entropy_with_logits(labels=smooth, logits=logits)
    w = tf.sequence_mask(length - 1, 5, dtype=tf.float32)
    t.minimize(tf.reduce_sum(each * w) / tf.reduce_sum(w), optimizer=v1.train.AdamOptimizer(0.01), tokens=tf.reduce_sum(w))


@graph
def transformer_einsum(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    w = {n: variable("w" + n, (5, 2, 3)) for n in "qkv"}
    q, k, v = (tf.einsum("btd,dhk->bthk", seq, w[n]) for n in "qkv")
    a = tf.nn.softmax(tf.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(3)))
    h = tf.einsum("bqhd,hdm->bqm", tf.einsum("bhqk,bkhd->bqhd", a, v), variable("wo", (2, 3, 5)))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h + seq, 1), 4, "out"), y))


@graph
def linear_attention(t):
    seq, y = t.rows("seq", SEQ), t.rows("y", Y)
    q, k, v = (dense(seq, 4, n) for n in "qkv")
    q, k = tf.nn.elu(q) + 1, tf.nn.elu(k) + 1
    kv = tf.einsum("btk,btv->bkv", k, v)
    z = 1 / (tf.einsum("btk,bk->bt", q, tf.reduce_sum(k, 1)) + 1e-6)
    h = tf.einsum("btk,bkv,bt->btv", q, kv, z)
    t.minimize(cross_entropy(dense(tf.reduce_max(h, 1), 4, "out"), y))


@graph
def autoencoder(t):
    x = t.rows("x", X)
    code = dense(dense(x, 6, "a", tf.nn.relu), 3, "code")
    p = dense(dense(code, 6, "b", tf.nn.relu), 8, "c")
    t.minimize(tf.reduce_mean(tf.square(p - x)), optimizer=v1.train.AdamOptimizer(0.01), code=code)


@graph
def sparse_autoencoder(t):
    """KL divergence of the mean activation over the batch."""
    x = t.rows("x", X)
    h = dense(x, 6, "a", tf.sigmoid)
    rho = tf.reduce_mean(h, 0)
    kl = tf.reduce_sum(0.1 * tf.math.log(0.1 / rho) + 0.9 * tf.math.log(0.9 / (1 - rho)))
    t.minimize(tf.reduce_mean(tf.reduce_sum(tf.square(dense(h, 8, "b") - x), 1)) + 0.1 * kl, 0.02, kl=kl)


@graph
def denoising_autoencoder(t):
    """Noise that is fed."""
    x, noise = t.rows("x", IMAGE), t.rows("noise", 0.1 * IMAGE[::-1].copy())
    h = conv(conv(x + noise, 4, "a", stride=2, activation=tf.nn.relu), 8, "b")
    t.minimize(tf.reduce_mean(tf.abs(tf.nn.depth_to_space(h, 2) - x)), 0.05)


@graph
def contractive_autoencoder(t):
    """The Jacobian of the code in closed form."""
    x = t.rows("x", X)
    w = variable("w", (8, 4))
    h = tf.sigmoid(tf.matmul(x, w))
    jacobian = tf.reduce_sum(tf.square(h * (1 - h)) @ tf.reduce_sum(tf.square(w), 0)[:, None], 1)
    t.minimize(tf.reduce_mean(tf.reduce_sum(tf.square(tf.matmul(h, w, transpose_b=True) - x), 1) + 0.1 * jacobian), 0.02)


@graph
def vae(t):
    """Noise by a stateless op whose seed counts steps."""
    x = t.rows("x", X)
    step = v1.train.get_or_create_global_step()
    h = dense(x, 6, "a", tf.nn.relu)
    mean, log_var = dense(h, 3, "mean"), dense(h, 3, "log_var")
    noise = tf.random.stateless_normal(tf.shape(mean), [7, tf.cast(step, tf.int32)])
    z = mean + tf.exp(0.5 * log_var) * noise
    p = dense(dense(z, 6, "b", tf.nn.relu), 8, "c")
    kl = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), 1)
    rec = tf.reduce_sum(tf.square(p - x), 1)
    t.minimize(tf.reduce_mean(rec + 0.5 * kl), 0.01, kl=tf.reduce_mean(kl), reconstruction=tf.reduce_mean(rec), z=z)


@graph
def vae_fed_noise(t):
    x, noise = t.rows("x", X), t.rows("noise", X[:, :3].copy())
    h = dense(x, 6, "a", tf.nn.softplus)
    mean, log_var = tf.split(dense(h, 6, "code"), 2, 1)
    p = dense(mean + tf.exp(0.5 * log_var) * noise, 8, "c")
    kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), 1))
    t.minimize(tf.reduce_mean(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(x), logits=p), 1)) + kl, 0.02)


@graph
def vq_vae(t):
    """A codebook looked up by the nearest entry, straight-through gradients."""
    x = t.rows("x", X)
    book = variable("book", (6, 3))
    e = dense(x, 3, "encode")
    d = tf.reduce_sum(tf.square(e), 1, keepdims=True) - 2 * tf.matmul(e, book, transpose_b=True) + tf.reduce_sum(tf.square(book), 1)
    index = tf.argmin(d, 1)
    q = tf.gather(book, index)
    loss = tf.reduce_mean(tf.square(dense(e + tf.stop_gradient(q - e), 8, "decode") - x))
    loss += tf.reduce_mean(tf.square(q - tf.stop_gradient(e))) + 0.25 * tf.reduce_mean(tf.square(tf.stop_gradient(q) - e))
    use = tf.reduce_mean(tf.one_hot(index, 6), 0)
    t.minimize(loss, perplexity=tf.exp(-tf.reduce_sum(use * tf.math.log(use + 1e-10))), index=index)


def gan_parts(t):
    x, z = t.rows("x", X), t.rows("z", T)
    with v1.variable_scope("g"):
        fake = dense(dense(z, 6, "a", tf.nn.relu), 8, "b")

    def judge(v):
        with v1.variable_scope("d", reuse=v1.AUTO_REUSE):
            return dense(dense(v, 6, "a", tf.nn.leaky_relu), 1, "b")

    return x, fake, judge


def sigmoid_loss(logits, one):
    labels = tf.ones_like(logits) if one else tf.zeros_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


@graph
def gan_one_step(t):
    """Both updates from the same gradients."""
    x, fake, judge = gan_parts(t)
    d_loss = sigmoid_loss(judge(x), True) + sigmoid_loss(judge(fake), False)
    g_loss = sigmoid_loss(judge(fake), True)
    opt_d, opt_g = v1.train.AdamOptimizer(0.01, beta1=0.5), v1.train.AdamOptimizer(0.01, beta1=0.5)
    d, g = opt_d.compute_gradients(d_loss, v1.trainable_variables("d")), opt_g.compute_gradients(g_loss, v1.trainable_variables("g"))
    with tf.control_dependencies([a for a, _ in d + g]):
        ops = [opt_d.apply_gradients(d), opt_g.apply_gradients(g)]
    t.fetch(d_loss=d_loss)
    t.train(g_loss, *ops)


@graph
def gan_one_after_the_other(t):
    """The generator's update sees the discriminator after its own."""
    x, fake, _ = gan_parts(t)

    def judge(v, w):
        return tf.matmul(tf.nn.leaky_relu(tf.matmul(v, w[0])), w[1])

    w = [variable("d/w0", (8, 6), use_resource=True), variable("d/w1", (6, 1), use_resource=True)]
    d_loss = sigmoid_loss(judge(x, w), True) + sigmoid_loss(judge(fake, w), False)
    d_train = v1.train.GradientDescentOptimizer(0.1).minimize(d_loss, var_list=w)
    with tf.control_dependencies([d_train]):
        g_loss = sigmoid_loss(judge(fake, [v.read_value() for v in w]), True)
    g_train = v1.train.GradientDescentOptimizer(0.1).minimize(g_loss, var_list=v1.trainable_variables("g"))
    t.fetch(d_loss=d_loss)
    t.train(g_loss, g_train)


@graph
def gan_alternating(t):
    """The discriminator in four steps of five, the generator in the fifth."""
    x, fake, judge = gan_parts(t)
    step = v1.train.get_or_create_global_step()
    d_loss = sigmoid_loss(judge(x), True) + sigmoid_loss(judge(fake), False)
    g_loss = sigmoid_loss(judge(fake), True)
    opt = v1.train.GradientDescentOptimizer(0.1)
    d, g = opt.compute_gradients(d_loss, v1.trainable_variables("d")), opt.compute_gradients(g_loss, v1.trainable_variables("g"))
    count = tf.identity(step.read_value())
    with tf.control_dependencies([a for a, _ in d + g] + [count]):
        train = v1.cond(tf.equal(count % 5, 4), lambda: opt.apply_gradients(g), lambda: opt.apply_gradients(d))
    with tf.control_dependencies([train]):
        done = v1.assign_add(step, 1)
    t.fetch(g_loss=g_loss)
    t.train(d_loss, done)


@graph
def wgan_gp(t):
    """A penalty on the critic's gradient with respect to its input."""
    x, fake, judge = gan_parts(t)
    mixed = 0.3 * x + 0.7 * fake
    grad = tf.gradients(judge(mixed), mixed)[0]
    penalty = tf.reduce_mean(tf.square(tf.sqrt(tf.reduce_sum(tf.square(grad), 1) + 1e-6) - 1))
    d_loss = tf.reduce_mean(judge(fake)) - tf.reduce_mean(judge(x)) + penalty
    g_loss = -tf.reduce_mean(judge(fake))
    opt = v1.train.AdamOptimizer(0.005, beta1=0.5)
    d, g = opt.compute_gradients(d_loss, v1.trainable_variables("d")), opt.compute_gradients(g_loss, v1.trainable_variables("g"))
    with tf.control_dependencies([a for a, _ in d + g]):
        train = opt.apply_gradients(d + g)
    t.fetch(penalty=penalty, g_loss=g_loss)
    t.train(d_loss, train)


@graph
def wgan_clipped(t):
    x, fake, judge = gan_parts(t)
    loss = tf.reduce_mean(judge(fake)) - tf.reduce_mean(judge(x))
    train = v1.train.RMSPropOptimizer(0.01).minimize(loss, var_list=v1.trainable_variables("d"))
    with tf.control_dependencies([train]):
        clips = [v1.assign(v, tf.clip_by_value(v.read_value(), -0.2, 0.2)) for v in v1.trainable_variables("d")]
    t.train(loss, *clips)


@graph
def minibatch_discrimination(t):
    """Each row beside all others: a feature made of distances within the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    m = tf.reshape(dense(x, 6, "m"), [-1, 3, 2])
    d = tf.reduce_sum(tf.abs(m[:, None] - m[None]), 3)
    near = tf.reduce_sum(tf.exp(-d), 1)
    t.minimize(cross_entropy(dense(tf.concat([x, near], 1), 4, "out"), y), 0.05)


@graph
def normalizing_flow(t):
    """Affine couplings; a log determinant."""
    x = t.rows("x", X)
    log_det = 0.0
    for i in range(2):
        a, b = tf.split(x, 2, 1)
        s, m = tf.split(dense(dense(a, 6, f"h{i}", tf.nn.relu), 8, f"o{i}"), 2, 1)
        s = tf.tanh(s)
        x, log_det = tf.concat([b * tf.exp(s) + m, a], 1), log_det + tf.reduce_sum(s, 1)
    t.minimize(tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(x), 1) - log_det), 0.02)


@graph
def mixture_density(t):
    x, y = t.rows("x", X), t.rows("y", T[:, :1].copy())
    pi, mu, s = tf.split(dense(dense(x, 6, "a", tf.tanh), 9, "b"), 3, 1)
    log = tf.nn.log_softmax(pi) - 0.5 * tf.square((y - mu) * tf.exp(-s)) - s
    t.minimize(-tf.reduce_mean(tf.reduce_logsumexp(log, 1)), 0.05)


@graph
def fixed_batch(t):
    """Placeholders of a fixed batch: [10, 8]. The strategy must be told that they are batches."""
    t.options = "batch=x+y"
    x, y = t.rows("x", X, batch=10), t.rows("y", Y, batch=10)
    t.minimize(cross_entropy(dense(dense(x, 6, "a", tf.tanh), 4, "b"), y))


@graph
def neural_ode(t):
    """Runge-Kutta steps, unrolled."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 8))

    def f(v):
        return tf.tanh(tf.matmul(v, w))

    h = x
    for _ in range(2):
        k1 = f(h)
        k2 = f(h + 0.25 * k1)
        k3 = f(h + 0.25 * k2)
        h = h + 0.5 / 6 * (k1 + 2 * k2 + 2 * k3 + f(h + 0.5 * k3))
    t.minimize(cross_entropy(dense(h, 4, "out"), y))


@graph
def graph_convolution(t):
    """Dense adjacency matrices, one for each row."""
    adjacency = t.rows("adjacency", (np.abs(SEQ[:, :5, :5]) > 0.8).astype("f"))
    features, y = t.rows("features", SEQ[:, :5].copy()), t.rows("y", Y)
    a = adjacency + tf.constant(np.eye(5, dtype="f"))
    degree = tf.reduce_sum(a, 2, keepdims=True)
    h = features
    for i in range(2):
        h = tf.nn.relu(dense(tf.matmul(a / degree, h), 5, f"g{i}"))
    t.minimize(cross_entropy(dense(tf.reduce_mean(h, 1), 4, "out"), y))
