"""Graphs of many hands: optimizers and schedules by hand, adversaries, physics, statistics, reinforcement, recommenders."""

import numpy as np
import tensorflow as tf

from graphs import ITEM, SEQ, T, USER, WEIGHT, X, Y, classifier, cross_entropy, dense, graph, mlp, v1, variable

ACTION, REWARD = Y, T[:, 0].copy()
COUNTS = np.random.RandomState(5).poisson(2.0, len(X)).astype("f")
DONE = (WEIGHT == 0).astype("f")


# ---- updates by hand ----


@graph
def accumulated_by_where(t):
    """Gradients of four steps added up, without a conditional: what is applied is chosen by tf.where."""
    _, _, logits, loss = classifier(t)
    step = v1.train.get_or_create_global_step()
    every = tf.equal(tf.math.floormod(step, 4), 3)
    ops = []
    for v in v1.trainable_variables():
        g = tf.gradients(loss, v)[0]
        sums = v1.get_variable(v.op.name + "_sums", initializer=tf.zeros(v.shape), trainable=False)
        with tf.control_dependencies([loss]):
            total = sums + g
            use = tf.cast(every, tf.float32)
            ops += [v1.assign_sub(v, use * 0.2 * total / 4), v1.assign(sums, (1 - use) * total)]
    with tf.control_dependencies(ops):
        count = v1.assign_add(step, 1)
    t.train(loss, count)


@graph
def sharpness_aware(t):
    """SAM: weights are moved up the gradient, the gradient is taken there, weights move from where they were."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = [variable("w", (8, 6)), variable("b", (6,)), variable("v", (6, 4))]

    def loss(w, b, v):
        return cross_entropy(tf.matmul(tf.tanh(tf.matmul(x, w) + b), v), y)

    first = loss(*w)
    g = tf.gradients(first, w)
    norm = tf.linalg.global_norm(g)
    moved = [a + 0.05 * b / (norm + 1e-12) for a, b in zip(w, g)]
    second = loss(*moved)
    g2 = tf.gradients(second, moved)
    t.fetch(second=second, norm=norm)
    t.train(first, v1.train.MomentumOptimizer(0.1, 0.9).apply_gradients(zip(g2, w)))


@graph
def orthogonalized_momentum(t):
    """Muon: the momentum of each matrix goes through five rounds of Newton-Schulz."""
    _, _, _, loss = classifier(t)
    ops = []
    for v in v1.trainable_variables():
        g = tf.gradients(loss, v)[0]
        m = v1.get_variable(v.op.name + "/m", initializer=tf.zeros(v.shape), trainable=False)
        new = m.assign(0.9 * m + g)
        u = new
        if len(v.shape) == 2:
            u = new / (tf.norm(new) + 1e-7)
            for _ in range(3):
                a = tf.matmul(u, u, transpose_a=True)
                u = 1.5 * u - 0.5 * tf.matmul(u, a)
        ops.append(v.assign_sub(0.05 * u))
    t.train(loss, *ops)


@graph
def factored_second_moments(t):
    """Adafactor: rows and columns of squared gradients, update clipped by its root mean square, relative step."""
    _, _, _, loss = classifier(t)
    step = tf.cast(v1.train.get_or_create_global_step(), tf.float32) + 1
    beta = 1 - tf.pow(step, -0.8)
    ops = []
    for v in v1.trainable_variables():
        g = tf.gradients(loss, v)[0]
        sq = tf.square(g) + 1e-12
        if len(v.shape) == 2:
            r = v1.get_variable(v.op.name + "_r", initializer=np.zeros(v.shape[0], "f"), trainable=False)
            c = v1.get_variable(v.op.name + "_c", initializer=np.zeros(v.shape[1], "f"), trainable=False)
            nr, nc = v1.assign(r, beta * r + (1 - beta) * tf.reduce_mean(sq, 1)), v1.assign(c, beta * c + (1 - beta) * tf.reduce_mean(sq, 0))
            u = g * tf.math.rsqrt(nr / tf.reduce_mean(nr))[:, None] * tf.math.rsqrt(nc)[None]
        else:
            s = v1.get_variable(v.op.name + "_s", initializer=np.zeros(v.shape, "f"), trainable=False)
            u = g * tf.math.rsqrt(v1.assign(s, beta * s + (1 - beta) * sq))
        u /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(u**2)))
        rate = tf.minimum(1e-2, 1 / tf.sqrt(step)) * tf.maximum(1e-3, tf.sqrt(tf.reduce_mean(tf.square(v))))
        ops.append(v1.assign_sub(v, rate * u))
    with tf.control_dependencies(ops):
        count = v1.assign_add(v1.train.get_global_step(), 1)
    t.train(loss, count)


@graph
def private_gradients(t):
    """DP-SGD of a linear model: the gradient of each row is clipped by its norm, noise comes from a stateless seed."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, b = variable("w", (8, 4)), variable("b", (4,))
    step = v1.train.get_or_create_global_step()
    p = tf.nn.softmax(tf.matmul(x, w) + b)
    d = p - tf.one_hot(y, 4)
    per_row = tf.einsum("bi,bo->bio", x, d)
    norm = tf.sqrt(tf.reduce_sum(per_row**2, [1, 2]) + tf.reduce_sum(d**2, 1))
    scale = tf.minimum(1.0, 1.0 / norm)
    n = tf.cast(tf.shape(x)[0], tf.float32)
    noise = tf.random.stateless_normal([8, 4], tf.stack([tf.cast(step, tf.int32), 3]), dtype=tf.float32)
    gw = (tf.einsum("bio,b->io", per_row, scale) + 0.1 * noise) / n
    gb = tf.reduce_sum(d * scale[:, None], 0) / n
    t.fetch(clipped=tf.reduce_mean(tf.cast(norm > 1.0, tf.float32)), norms=norm)
    loss = -tf.reduce_mean(tf.math.log(tf.reduce_sum(p * tf.one_hot(y, 4), 1)))
    t.train(loss, v1.train.GradientDescentOptimizer(0.2).apply_gradients([(gw, w), (gb, b)], global_step=step))


@graph
def projected_conflicts(t):
    """PCGrad: gradients of two tasks are projected off each other where they disagree."""
    x, y, r = t.rows("x", X), t.rows("y", Y), t.rows("r", T)
    h = dense(x, 6, "trunk", tf.tanh)
    losses = [cross_entropy(dense(h, 4, "a"), y), tf.reduce_mean((dense(h, 2, "b") - r) ** 2)]
    shared = [v for v in v1.trainable_variables() if v.name.startswith("trunk")]
    flat = [tf.concat([tf.reshape(g, [-1]) for g in tf.gradients(loss, shared)], 0) for loss in losses]
    dot = tf.reduce_sum(flat[0] * flat[1])
    a = flat[0] - tf.minimum(dot, 0.0) / tf.reduce_sum(flat[1] ** 2) * flat[1]
    b = flat[1] - tf.minimum(dot, 0.0) / tf.reduce_sum(flat[0] ** 2) * flat[0]
    parts = tf.split(a + b, [int(np.prod(v.shape)) for v in shared])
    pairs = [(tf.reshape(p, v.shape), v) for p, v in zip(parts, shared)]
    heads = [v for v in v1.trainable_variables() if v not in shared]
    pairs += list(zip(tf.gradients(tf.add_n(losses), heads), heads))
    t.fetch(cosine=dot / (tf.norm(flat[0]) * tf.norm(flat[1])))
    t.train(tf.add_n(losses), v1.train.GradientDescentOptimizer(0.1).apply_gradients(pairs))


@graph
def balanced_gradients(t):
    """GradNorm: weights of the tasks are trained on the norms of their gradients."""
    x, y, r = t.rows("x", X), t.rows("y", Y), t.rows("r", T)
    h = dense(x, 6, "trunk", tf.tanh)
    losses = tf.stack([cross_entropy(dense(h, 4, "a"), y), tf.reduce_mean((dense(h, 2, "b") - r) ** 2)])
    weights = v1.get_variable("weights", initializer=np.ones(2, "f"))
    shared = v1.trainable_variables()[0]
    norms = tf.stack([tf.norm(tf.gradients(weights[i] * losses[i], shared)[0]) for i in range(2)])
    ratio = losses / tf.constant([1.4, 0.6])
    goal = tf.stop_gradient(tf.reduce_mean(norms) * tf.pow(ratio / tf.reduce_mean(ratio), 0.5))
    balance = tf.reduce_sum(tf.abs(norms - goal))
    nets = [v for v in v1.trainable_variables() if v is not weights]
    opt = v1.train.GradientDescentOptimizer(0.05)
    pairs = list(zip(tf.gradients(tf.reduce_sum(tf.stop_gradient(weights) * losses), nets), nets))
    pairs.append((tf.gradients(balance, weights)[0], weights))
    train = opt.apply_gradients(pairs)
    with tf.control_dependencies([train]):
        rescale = v1.assign(weights, 2 * weights.read_value() / tf.reduce_sum(weights.read_value()))
    t.fetch(norms=norms)
    t.train(tf.reduce_sum(losses), rescale)


@graph
def line_search(t):
    """The loss at five step sizes; the best of them is taken."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = [variable("w", (8, 6)), variable("v", (6, 4))]

    def loss(a, b):
        return cross_entropy(tf.matmul(tf.tanh(tf.matmul(x, a)), b), y)

    here = loss(*w)
    g = tf.gradients(here, w)
    rates = tf.constant([0.0, 0.05, 0.2, 0.5, 1.0])
    there = tf.stack([loss(*[a - rates[i] * b for a, b in zip(w, g)]) for i in range(5)])
    best = rates[tf.argmin(there)]
    t.fetch(best=best, there=there)
    t.train(here, *[v1.assign_sub(a, best * b) for a, b in zip(w, g)])


@graph
def polyak_steps(t):
    """The step size is the loss over the squared norm of its gradient; weights are averaged in pairs."""
    _, _, _, loss = classifier(t)
    vs = v1.trainable_variables()
    gs = tf.gradients(loss, vs)
    rate = tf.minimum(0.3, loss / (v1.global_norm(gs) ** 2 + 1e-8))
    ops = [v1.assign_sub(v, rate * g) for v, g in zip(vs, gs)]
    step = v1.train.get_or_create_global_step()
    kept = [v1.get_variable(v.op.name + "/mean", initializer=tf.zeros(v.shape), trainable=False) for v in vs]
    with tf.control_dependencies(ops):
        n = tf.cast(v1.assign_add(step, 1), tf.float32)
        means = []
        for v, mean in zip(vs, kept):
            means.append(v1.assign_add(mean, (v.read_value() - mean) / n))
    t.fetch(rate=rate)
    t.train(loss, *means)


@graph
def adaptive_clipping(t):
    """AGC: each unit's gradient against each unit's weight; sign descent for the bias."""
    _, _, _, loss = classifier(t, activation=tf.nn.relu)
    opt = v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    pairs = []
    for g, v in opt.compute_gradients(loss):
        if len(v.shape) == 2:
            wn, gn = tf.norm(v, axis=0, keepdims=True), tf.norm(g, axis=0, keepdims=True)
            g = tf.where(gn > 0.05 * tf.maximum(wn, 1e-3), g * 0.05 * wn / tf.maximum(gn, 1e-6), g)
        pairs.append((g, v))
    t.train(loss, opt.apply_gradients(pairs))


@graph
def newton_by_conjugate_gradients(t):
    """Hessian-free: three rounds of conjugate gradients with products of the Hessian."""
    x, y = t.rows("x", X.astype("d")), t.rows("y", Y)
    w = variable("w", (8, 4), dtype="d")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w))) + 0.05 * tf.reduce_sum(w**2)
    g = tf.gradients(loss, w)[0]

    def product(p):
        return tf.gradients(tf.reduce_sum(g * tf.stop_gradient(p)), w)[0]

    d, r = tf.zeros_like(g), -g
    p = r
    for _ in range(3):
        hp = product(p)
        rr = tf.reduce_sum(r * r)
        alpha = rr / (tf.reduce_sum(p * hp) + 1e-12)
        d, r = d + alpha * p, r - alpha * hp
        p = r + tf.reduce_sum(r * r) / (rr + 1e-12) * p
    t.train(loss, w.assign_add(0.5 * d))


@graph
def diagonal_fisher(t):
    """Natural gradient with a running diagonal of squared gradients, elastic pull to old weights (EWC)."""
    _, _, _, loss = classifier(t)
    ops, penalty = [], 0.0
    vs = v1.trainable_variables()
    old = [v1.get_variable(v.op.name + "_old", initializer=tf.zeros(v.shape), trainable=False) for v in vs]
    fisher = [v1.get_variable(v.op.name + "_f", initializer=tf.ones(v.shape), trainable=False) for v in vs]
    for v, o, f in zip(vs, old, fisher):
        penalty += tf.reduce_sum(f * tf.square(v - o))
    total = loss + 0.01 * penalty
    for v, g, f in zip(vs, tf.gradients(total, vs), fisher):
        nf = v1.assign(f, 0.95 * f + 0.05 * tf.square(g))
        ops.append(v1.assign_sub(v, 0.1 * g / (tf.sqrt(nf) + 0.1)))
    t.train(total, *ops)


@graph
def proximal_lasso(t):
    """Soft thresholding after the step, and the share of zeros fetched."""
    x, y = t.rows("x", X), t.rows("y", T)
    w = variable("w", (8, 2))
    loss = tf.reduce_sum((tf.matmul(x, w) - y) ** 2) / (2 * tf.cast(tf.shape(x)[0], tf.float32))
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([train]):
        now = w.read_value()
        shrunk = v1.assign(w, tf.sign(now) * tf.maximum(tf.abs(now) - 0.01, 0))
    t.fetch(zeros=tf.math.zero_fraction(shrunk))
    t.train(loss, shrunk)


@graph
def warm_restarts_case(t):
    """The learning rate by tf.case of the step, momentum from another table; the step is an int32 variable of its own."""
    _, _, _, loss = classifier(t)
    step = v1.get_variable("my_step", initializer=np.int32(0), trainable=False)
    rate = v1.case([(step < 5, lambda: tf.constant(0.01)), (step < 12, lambda: 0.1 * (1 + tf.cos(tf.cast(step, tf.float32)))), (step < 20, lambda: 0.05 + loss * 0.01)], default=lambda: tf.constant(0.02))
    t.fetch(rate=rate)
    t.train(loss, v1.train.MomentumOptimizer(rate, v1.train.piecewise_constant(step, [10, 20], [0.5, 0.7, 0.9])).minimize(loss, global_step=step))


@graph
def rollback_of_bad_steps(t):
    """A step is taken only if the batch's loss is below 1.2 times the running loss: v1.cond around the optimizer."""
    _, _, _, loss = classifier(t)
    running = v1.get_variable("running", initializer=np.float32(1.5), trainable=False)
    skipped = v1.get_variable("skipped", initializer=np.int32(0), trainable=False)
    vs = [v for v in v1.trainable_variables()]
    gs = tf.gradients(loss, vs)
    opt = v1.train.GradientDescentOptimizer(0.3)
    good = loss < 1.05 * running
    step = v1.cond(good, lambda: tf.group(opt.apply_gradients(zip(gs, vs)), tf.no_op()), lambda: tf.group(v1.assign_add(skipped, 1)))
    with tf.control_dependencies([good]):
        average = v1.assign(running, 0.8 * running + 0.2 * loss)
    t.train(loss, step, average)


# ---- adversaries, scores, physics ----


@graph
def virtual_adversarial(t):
    """VAT: one power iteration for the direction of each row, then a KL divergence."""
    x, y, d = t.rows("x", X), t.rows("y", Y), t.rows("d", X[::-1].copy())

    def net(z):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            return mlp(z)

    logits = net(x)
    p = tf.stop_gradient(tf.nn.softmax(logits))

    def kl(z):
        return tf.reduce_mean(tf.reduce_sum(p * (tf.nn.log_softmax(tf.stop_gradient(logits)) - tf.nn.log_softmax(net(z))), 1))

    d = 0.5 * tf.nn.l2_normalize(d, 1)
    g = tf.stop_gradient(tf.gradients(kl(x + d), d)[0])
    lds = kl(x + 0.3 * tf.nn.l2_normalize(g, 1))
    t.minimize(cross_entropy(logits, y) + lds, 0.2)


@graph
def projected_attack(t):
    """Adversarial training: three steps of the sign of the input's gradient inside a box."""
    x, y = t.rows("x", X), t.rows("y", Y)

    def net(z):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            return mlp(z)

    z = x
    for _ in range(3):
        g = tf.gradients(tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=net(z))), z)[0]
        z = tf.stop_gradient(tf.clip_by_value(z + 0.05 * tf.tanh(g * 5), x - 0.1, x + 0.1))
    t.minimize(0.5 * (cross_entropy(net(x), y) + cross_entropy(net(z), y)), 0.2, moved=tf.norm(z - x))


@graph
def reversed_gradients(t):
    """Domain-adversarial training: tf.custom_gradient turns the sign; the domain is a fed label."""
    x, y, domain = t.rows("x", X), t.rows("y", Y), t.rows("domain", (USER % 2).astype("f"))

    @tf.custom_gradient
    def turn(z):
        return tf.identity(z), lambda g: -0.3 * g

    h = dense(x, 6, "h", tf.tanh)
    d = tf.squeeze(dense(turn(h), 1, "d"), -1)
    adv = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=domain, logits=d))
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(h, 4, "o"))
    t.minimize(tf.reduce_sum(ce * (1 - domain)) / tf.maximum(tf.reduce_sum(1 - domain), 1) + adv, 0.2)


@graph
def coral_alignment(t):
    """Covariances of source and target rows, chosen from one batch by boolean_mask."""
    x, y, domain = t.rows("x", X), t.rows("y", Y), t.rows("domain", USER < 6)
    h = dense(x, 5, "h", tf.tanh)

    def covariance(z):
        n = tf.cast(tf.shape(z)[0], tf.float32)
        m = tf.matmul(tf.ones([1, tf.shape(z)[0]]), z)
        return (tf.matmul(z, z, transpose_a=True) - tf.matmul(m, m, transpose_a=True) / n) / (n + 1.0)

    coral = tf.reduce_sum((covariance(tf.boolean_mask(h, domain)) - covariance(tf.boolean_mask(h, tf.logical_not(domain)))) ** 2) / 100.0
    t.minimize(cross_entropy(dense(h, 4, "o"), y) + 10 * coral, 0.2, coral=coral)


@graph
def group_robust(t):
    """Group DRO: losses of groups by unsorted_segment_sum, weights of groups are a variable updated in the loss's path."""
    x, y, group = t.rows("x", X), t.rows("y", Y), t.rows("group", (USER % 3).astype("i4"))
    q = v1.get_variable("q", initializer=np.full(3, 1 / 3, "f"), trainable=False)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    count = tf.math.unsorted_segment_sum(tf.ones_like(ce), group, 3)
    per_group = tf.math.unsorted_segment_sum(ce, group, 3) / tf.maximum(count, 1.0)
    new = q * tf.exp(0.1 * tf.stop_gradient(per_group))
    q_now = v1.assign(q, new / tf.reduce_sum(new))
    t.minimize(tf.reduce_sum(tf.stop_gradient(q_now) * per_group), 0.2, groups=per_group, smallest=tf.math.unsorted_segment_mean(ce, group, 4))


@graph
def invariant_risk(t):
    """IRM: the squared gradient of each environment's loss with respect to a dummy scale."""
    x, y, env = t.rows("x", X), t.rows("y", Y), t.rows("env", (USER % 2).astype("i4"))
    logits = mlp(x)
    loss = penalty = 0.0
    for e in range(2):
        at = tf.where(tf.equal(env, e))[:, 0]
        scale = tf.constant(1.0)
        r = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.gather(y, at), logits=tf.gather(logits, at) * scale))
        loss, penalty = loss + r, penalty + tf.gradients(r, scale)[0] ** 2
    t.minimize(loss + penalty, 0.1, penalty=penalty)


@graph
def demographic_parity(t):
    x, y, group = t.rows("x", X), t.rows("y", Y), t.rows("group", (ITEM % 2).astype("i4"))
    logit = dense(dense(x, 6, "h", tf.nn.relu), 1, "o")[:, 0]
    p = tf.sigmoid(logit)
    a, b = tf.dynamic_partition(p, group, 2)
    gap = tf.abs(tf.reduce_mean(a) - tf.reduce_mean(b))
    target = tf.cast(y > 1, tf.float32)
    cov = tf.reduce_mean((tf.cast(group, tf.float32) - tf.reduce_mean(tf.cast(group, tf.float32))) * p)
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logit)) + gap + cov**2, 0.2)


@graph
def mutual_information(t):
    """MINE: pairs broken by a seeded shuffle of the batch; the gradient's bias is corrected by a running average."""
    x, y = t.rows("x", X), t.rows("y", T)

    def score(a, b):
        with v1.variable_scope("t", reuse=v1.AUTO_REUSE):
            return dense(dense(tf.concat([a, b], 1), 6, "h", tf.nn.elu), 1, "o")

    joint, broken = score(x, y), score(x, tf.random.shuffle(y, seed=4))
    e = tf.reduce_mean(tf.exp(broken))
    average = v1.get_variable("average", initializer=np.float32(1), trainable=False)
    now = v1.assign(average, 0.9 * average + 0.1 * e)
    bound = tf.reduce_mean(joint) - tf.math.log(e)
    loss = -(tf.reduce_mean(joint) - e / tf.stop_gradient(now))
    t.minimize(loss, 0.05, pairs=bound + 1)


@graph
def sliced_score_matching(t):
    x, v = t.rows("x", X), t.rows("v", X[::-1].copy())
    s = dense(dense(x, 8, "h", tf.tanh), 8, "o")
    sv = tf.reduce_sum(s * v, 1)
    g = tf.gradients(tf.reduce_sum(sv), x)[0]
    t.minimize(tf.reduce_mean(tf.reduce_sum(g * v, 1) + 0.5 * sv**2), 0.02)


@graph
def diffusion(t):
    """Denoising with fed time steps: alphas gathered from a table, sinusoids of time, a running average of weights."""
    x, n, e = t.rows("x", X), t.rows("n", (USER % 10).astype("i4")), t.rows("e", X[::-1].copy())
    alphas = tf.constant(np.cumprod(1 - np.linspace(1e-3, 0.2, 10)).astype("f"))
    a = tf.gather(alphas, n)[:, None]
    noisy = tf.sqrt(a) * x + tf.sqrt(1 - a) * e
    freq = tf.exp(-np.float32(np.log(100)) * tf.range(4, dtype=tf.float32) / 4)
    angle = tf.cast(n, tf.float32)[:, None] * freq[None]
    time = tf.concat([tf.sin(angle), tf.cos(angle)], -1)
    h = dense(tf.concat([noisy, time], 1), 10, "h", tf.nn.swish)
    loss = tf.reduce_mean(tf.reduce_sum((dense(h, 8, "o") - e) ** 2, 1) * tf.minimum(a[:, 0] / (1 - a[:, 0]), 5.0))
    step = v1.train.get_or_create_global_step()
    train = v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    ema = v1.train.ExponentialMovingAverage(0.9, num_updates=step)
    with tf.control_dependencies([train]):
        average = ema.apply(v1.trainable_variables())
    t.train(loss, average)


@graph
def langevin_energy(t):
    """Contrastive divergence: negatives come from ten noisy steps down the energy's gradient."""
    x, start, e = t.rows("x", X), t.rows("start", X[::-1].copy()), t.rows("e", SEQ.reshape(len(X), -1)[:, :24].reshape(-1, 3, 8).copy())

    def energy(z):
        with v1.variable_scope("e", reuse=v1.AUTO_REUSE):
            return tf.reduce_sum(dense(dense(z, 6, "h", tf.nn.softplus), 1, "o"), 1) + 0.05 * tf.reduce_sum(z**2, 1)

    z = start
    for i in range(3):
        z = z - 0.1 * tf.gradients(tf.reduce_sum(energy(z)), z)[0] + 0.05 * e[:, i]
    z = tf.stop_gradient(z)
    pos, neg = energy(x), energy(z)
    t.minimize(tf.reduce_mean(tf.nn.softplus(pos - neg)) + 0.01 * tf.reduce_mean(pos**2 + neg**2), 0.05)


@graph
def hamiltonian(t):
    x, dx = t.rows("x", X[:, :4].copy()), t.rows("dx", X[:, 4:].copy())
    h = tf.reduce_sum(dense(dense(x, 8, "h", tf.tanh), 1, "o"))
    dh = tf.gradients(h, x)[0]
    q, p = tf.split(dh, 2, 1)
    t.minimize(tf.reduce_mean((tf.concat([p, -q], 1) - dx) ** 2), 0.1)


@graph
def physics_informed(t):
    """Second derivatives with respect to inputs, boundary rows by a mask, coefficient learned."""
    x, u0, w = t.rows("x", X[:, :2].copy()), t.rows("u0", T[:, :1].copy()), t.rows("w", WEIGHT)
    a, b = x[:, :1], x[:, 1:]
    nu = v1.get_variable("nu", initializer=np.float32(0.1))
    u = dense(dense(tf.concat([a, b], 1), 8, "h", tf.tanh), 1, "o")
    ua, ub = tf.gradients(u, [a, b])
    uaa = tf.gradients(ua, a)[0]
    f = ub + u * ua - nu * uaa
    edge = tf.cast(w[:, None] > 0.5, tf.float32)
    loss = tf.reduce_mean(f**2) + tf.reduce_sum(edge * (u - u0) ** 2) / (tf.reduce_sum(edge) + 1e-6)
    t.minimize(loss, 0.05)


# ---- statistics ----


@graph
def evidential(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    step = v1.train.get_or_create_global_step()
    one = tf.one_hot(y, 4)
    alpha = tf.nn.softplus(mlp(x)) + 1
    s = tf.reduce_sum(alpha, 1, keepdims=True)
    nll = tf.reduce_sum(one * (tf.math.digamma(s) - tf.math.digamma(alpha)), 1)
    a = one + (1 - one) * alpha
    sa = tf.reduce_sum(a, 1, keepdims=True)
    kl = tf.math.lgamma(sa)[:, 0] - tf.reduce_sum(tf.math.lgamma(a), 1) - 1.7918 + tf.reduce_sum((a - 1) * (tf.math.digamma(a) - tf.math.digamma(sa)), 1)
    weight = tf.minimum(1.0, tf.cast(step, tf.float32) / 10)
    t.minimize(tf.reduce_mean(nll + weight * kl), 0.1, uncertainty=tf.reduce_mean(4 / s))


@graph
def negative_binomial(t):
    """A regression of counts with an offset and a learned spread; zero-inflated."""
    x, y, off = t.rows("x", X), t.rows("y", COUNTS), t.rows("off", WEIGHT)
    eta = dense(x, 2, "eta")
    mu, zero = tf.exp(tf.clip_by_value(eta[:, 0] + off, -3, 3)), eta[:, 1]
    r = tf.exp(v1.get_variable("logr", initializer=np.float32(0.5)))
    nb = tf.math.lgamma(y + r) - tf.math.lgamma(r) - tf.math.lgamma(y + 1) + r * tf.math.log(r / (r + mu)) + y * tf.math.log(mu / (r + mu))
    with_zero = tf.reduce_logsumexp(tf.stack([tf.math.log_sigmoid(zero), tf.math.log_sigmoid(-zero) + nb], 1), 1)
    ll = tf.where(y < 0.5, with_zero, tf.math.log_sigmoid(-zero) + nb)
    t.minimize(-tf.reduce_mean(ll), optimizer=v1.train.AdamOptimizer(0.03), ll=ll)


@graph
def ordinal(t):
    """Cumulative logits with ordered cut points (cumsum of softplus)."""
    x, y = t.rows("x", X), t.rows("y", Y)
    cuts = tf.cumsum(tf.concat([variable("first", (1,)), tf.nn.softplus(variable("gaps", (2,)))], 0))
    c = tf.sigmoid(cuts[None] - dense(x, 1, "o", bias=False))
    b = tf.shape(x)[0]
    c = tf.concat([tf.zeros([b, 1]), c, tf.ones([b, 1])], 1)
    p = c[:, 1:] - c[:, :-1]
    at = tf.stack([tf.range(b), y], 1)
    t.minimize(-tf.reduce_mean(tf.math.log(tf.gather_nd(p, at) + 1e-6)), 0.2)


@graph
def cox_with_ties(t):
    """Partial likelihood: the batch sorted by time, running logsumexp by cumsum from the end; concordance fetched."""
    x, time, event = t.rows("x", X), t.rows("time", np.round(np.abs(T[:, 0]) * 5).astype("f")), t.rows("event", (WEIGHT > 0).astype("f"))
    risk = dense(dense(x, 6, "h", tf.nn.selu), 1, "o")[:, 0]
    order = tf.argsort(time, direction="DESCENDING", stable=True)
    r, e, s = tf.gather(risk, order), tf.gather(event, order), tf.gather(time, order)
    top = tf.reduce_max(r)
    running = tf.math.log(tf.cumsum(tf.exp(r - top)) + 1e-8) + top
    loss = -tf.reduce_sum((r - running) * e) / (tf.reduce_sum(e) + 1e-6)
    pairs = tf.cast(s[:, None] < s[None], tf.float32) * e[:, None]
    concordant = tf.reduce_sum(pairs * tf.cast(r[:, None] > r[None], tf.float32)) / (tf.reduce_sum(pairs) + 1e-6)
    t.minimize(loss, 0.05, concordance=concordant)


@graph
def crps_of_ensemble(t):
    x, y = t.rows("x", X), t.rows("y", T)
    members = tf.stack([tf.matmul(dense(x, 4, f"h{i}", tf.tanh), variable(f"o{i}", (4, 2))) for i in range(4)], 1)
    skill = tf.reduce_mean(tf.abs(members - y[:, None]))
    spread = tf.reduce_mean(tf.abs(members[:, :, None] - members[:, None]))
    t.minimize(skill - 0.5 * spread, 0.2, sigma=tf.math.reduce_std(members), variance=tf.math.reduce_variance(members, 1))


@graph
def mixture_by_online_em(t):
    """No gradients: responsibilities, and running sums of them."""
    x = t.rows("x", X[:, :3].copy())
    pi, mu, var = v1.get_variable("pi", initializer=np.full(4, 0.25, "f")), variable("mu", (4, 3), 1.0), v1.get_variable("var", initializer=np.ones((4, 3), "f"))
    ll = tf.math.log(pi)[None] - 0.5 * tf.reduce_sum((x[:, None] - mu[None]) ** 2 / var[None] + tf.math.log(var)[None], 2)
    total = tf.reduce_logsumexp(ll, 1)
    r = tf.exp(ll - total[:, None])
    n = tf.reduce_sum(r, 0) + 0.1
    m = tf.matmul(r, x, transpose_a=True) / n[:, None]
    s = tf.einsum("bk,bkd->kd", r, (x[:, None] - mu[None]) ** 2) / n[:, None] + 0.1
    with tf.control_dependencies([m, s]):
        ops = [v1.assign(pi, 0.9 * pi + 0.1 * n / tf.reduce_sum(n)), v1.assign(mu, 0.9 * mu + 0.1 * m), v1.assign(var, 0.9 * var + 0.1 * s)]
    t.train(-tf.reduce_mean(total), *ops)


@graph
def factorized_by_multiplication(t):
    """Non-negative factors: multiplicative updates of the shared one, the rows' own by unrolled rounds."""
    x = t.rows("x", np.abs(X))
    w = v1.get_variable("w", initializer=np.random.RandomState(2).rand(3, 8).astype("f") + 0.1, use_resource=True)
    now = w.read_value()
    h = tf.ones([tf.shape(x)[0], 3])
    for _ in range(4):
        h *= tf.matmul(x, now, transpose_b=True) / (tf.matmul(tf.matmul(h, now), now, transpose_b=True) + 1e-6)
    factor = tf.matmul(h, x, transpose_a=True) / (tf.matmul(tf.matmul(h, h, transpose_a=True), now) + 1e-6)
    t.train(tf.nn.l2_loss(x - tf.matmul(h, now)), w.assign(now * tf.sqrt(factor)))


@graph
def principal_components(t):
    """Oja's rule, with Gram-Schmidt after each step; the batch is centred by a running mean with a counter."""
    x = t.rows("x", X)
    w, mean, seen = variable("w", (8, 3)), v1.get_variable("mean", initializer=np.zeros(8, "f")), v1.get_variable("seen", initializer=np.float32(0))
    n = tf.cast(tf.shape(x)[0], tf.float32)
    new_seen = v1.assign_add(seen, n)
    new_mean = v1.assign_add(mean, tf.reduce_sum(x - mean.read_value(), 0) / new_seen)
    c = x - new_mean
    y = tf.matmul(c, w)
    moved = w + 0.05 * (tf.matmul(c, y, transpose_a=True) / n - tf.matmul(w, tf.linalg.band_part(tf.matmul(y, y, transpose_a=True) / n, 0, -1)))
    columns = []
    for i in range(3):
        v = moved[:, i]
        for u in columns:
            v -= tf.tensordot(u, v, 1) * u
        columns.append(v / tf.norm(v))
    loss = tf.reduce_mean(tf.reduce_sum((c - tf.matmul(y, w, transpose_b=True)) ** 2, 1))
    with tf.control_dependencies([loss]):
        moved = w.assign(tf.stack(columns, 1))
    t.train(loss, moved)


@graph
def restricted_boltzmann(t):
    """One step of contrastive divergence; coins are seeded, updates are written with assign_add."""
    x = t.rows("x", (X > 0).astype("f"))
    w, a, b = variable("w", (8, 5)), variable("a", (8,), 0.0), variable("b", (5,), 0.0)

    def coin(p, seed):
        return tf.nn.relu(tf.sign(p - tf.random.uniform(tf.shape(p), seed=seed)))

    ph = tf.sigmoid(tf.matmul(x, w) + b)
    v = tf.sigmoid(tf.matmul(coin(ph, 1), w, transpose_b=True) + a)
    ph2 = tf.sigmoid(tf.matmul(v, w) + b)
    n = tf.cast(tf.shape(x)[0], tf.float32)
    ops = [w.assign_add(0.2 * (tf.matmul(x, ph, transpose_a=True) - tf.matmul(v, ph2, transpose_a=True)) / n), a.assign_add(0.2 * tf.reduce_mean(x - v, 0)), b.assign_add(0.2 * tf.reduce_mean(ph - ph2, 0))]
    t.train(tf.reduce_mean((x - v) ** 2), *ops)


@graph
def radial_basis(t):
    """Centres follow the batch by winner-take-all, widths by the distances between centres."""
    x, y = t.rows("x", X), t.rows("y", Y)
    c = variable("centres", (6, 8), 1.0, trainable=False)
    d = tf.reduce_sum((x[:, None] - c) ** 2, 2)
    near = tf.one_hot(tf.argmin(d, 1), 6)
    between = tf.reduce_mean(tf.reduce_sum((c[:, None] - c[None]) ** 2, 2))
    loss = cross_entropy(dense(tf.exp(-d / between), 4, "o"), y)
    train = v1.train.GradientDescentOptimizer(0.3).minimize(loss)
    move = tf.matmul(near, x, transpose_a=True) - tf.reduce_sum(near, 0)[:, None] * c
    with tf.control_dependencies([train, move]):
        moved = v1.assign_add(c, 0.05 * move)
    t.train(loss, moved)


@graph
def soft_tree(t):
    """A neural decision forest: routing probabilities by a loop over depth, leaves updated by the batch's sums."""
    x, y = t.rows("x", X), t.rows("y", Y)
    pi = v1.get_variable("pi", initializer=np.full((8, 4), 0.25, "f"), trainable=False)
    d = tf.sigmoid(dense(x, 7, "d"))
    mu = tf.ones_like(d[:, :1])
    for level in range(3):
        s = d[:, 2**level - 1 : 2 ** (level + 1) - 1]
        mu = tf.reshape(tf.stack([mu * s, mu * (1 - s)], 2), [-1, 2 ** (level + 1)])
    p = tf.matmul(mu, pi)
    one = tf.one_hot(y, 4)
    py = tf.reduce_sum(p * one, 1, keepdims=True)
    loss = -tf.reduce_mean(tf.math.log(py + 1e-8))
    new = tf.einsum("bl,bc->lc", mu / py, one) * pi
    train = v1.train.AdagradOptimizer(0.3).minimize(loss)
    with tf.control_dependencies([train, new]):
        leaves = v1.assign(pi, (new + 1e-3) / tf.reduce_sum(new + 1e-3, 1, keepdims=True))
    t.train(loss, leaves)


@graph
def class_counts(t):
    """Naive Bayes beside a net: counts by scatter_add of rows, class weights from the running counts in the loss."""
    x, y = t.rows("x", X), t.rows("y", Y)
    counts = v1.get_variable("counts", initializer=np.ones(4, "f"), trainable=False)
    sums = v1.get_variable("sums", initializer=np.zeros((4, 8), "f"), trainable=False)
    now = v1.scatter_add(counts, y, tf.ones_like(x[:, 0]))
    means = v1.scatter_add(sums, y, x) / now[:, None]
    weight = tf.gather(tf.reduce_sum(now) / (4 * now), y)
    logits = mlp(x) - 0.1 * tf.reduce_sum((x[:, None] - means) ** 2, 2)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    t.minimize(tf.reduce_mean(ce * tf.stop_gradient(weight)), 0.1, frequency=tf.reduce_sum(tf.one_hot(y, 4, dtype=tf.int32), 0))
