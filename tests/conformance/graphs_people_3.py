"""Graphs of many hands: reinforcement, recommenders, rows moved about, state kept per row, functions of TensorFlow 2."""

import numpy as np
import tensorflow as tf

from graphs import IDS, ITEM, LENGTH, SEQ, T, TAGS, USER, WEIGHT, X, Y, accuracy, batch_norm, cross_entropy, dense, graph, layer_norm, mlp, v1, variable

ACTION, REWARD = Y, T[:, 0].copy()
DONE = (WEIGHT == 0).astype("f")
CLICK = (ITEM % 2).astype("f")


# ---- reinforcement ----


@graph
def soft_actor_critic(t):
    """Two critics, a squashed Gaussian actor with seeded noise, a trained temperature, soft targets in one step."""
    s, a, r, s2, d = t.rows("s", X), t.rows("a", np.tanh(T)), t.rows("r", REWARD), t.rows("s2", X[::-1].copy()), t.rows("d", DONE)

    def actor(z, seed):
        with v1.variable_scope("actor", reuse=v1.AUTO_REUSE):
            mu, ls = tf.split(dense(dense(z, 6, "h", tf.tanh), 4, "o"), 2, 1)
        ls = tf.clip_by_value(ls, -2, 1)
        u = mu + tf.exp(ls) * tf.random.normal(tf.shape(mu), seed=seed)
        lp = tf.reduce_sum(-0.5 * ((u - mu) / tf.exp(ls)) ** 2 - ls - 0.919, 1)
        return tf.tanh(u), lp - tf.reduce_sum(tf.math.log(1 - tf.tanh(u) ** 2 + 0.1), 1)

    def critic(z, u, name):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            return dense(dense(tf.concat([z, u], 1), 6, "h", tf.tanh), 1, "o")[:, 0]

    log_alpha = v1.get_variable("log_alpha", initializer=np.float32(-1))
    alpha = tf.exp(log_alpha)
    a2, lp2 = actor(s2, 1)
    q1, q2 = critic(s, a, "q1"), critic(s, a, "q2")
    goal = r + 0.9 * (1 - d) * (tf.minimum(critic(s2, a2, "t1"), critic(s2, a2, "t2")) - alpha * lp2)
    critics = tf.reduce_mean((q1 - tf.stop_gradient(goal)) ** 2) + tf.reduce_mean((q2 - tf.stop_gradient(goal)) ** 2)
    a1, lp1 = actor(s, 2)
    acting = tf.reduce_mean(tf.stop_gradient(alpha) * lp1 - tf.minimum(critic(s, a1, "q1"), critic(s, a1, "q2")))
    heat = -tf.reduce_mean(log_alpha * tf.stop_gradient(lp1 - 2.0))

    def of(*names):
        return [v for v in v1.trainable_variables() if v.name.startswith(names)]

    opt = v1.train.GradientDescentOptimizer(0.02)
    pairs_q, pairs_a, pairs_t = (opt.compute_gradients(*p) for p in ((critics, of("q1", "q2")), (acting, of("actor")), (heat, [log_alpha])))
    with tf.control_dependencies([g for g, _ in pairs_q + pairs_a + pairs_t]):
        train_q = opt.apply_gradients(pairs_q)
    with tf.control_dependencies([train_q]):
        train_a, train_t = opt.apply_gradients(pairs_a), opt.apply_gradients(pairs_t)
    with tf.control_dependencies([train_a, train_t]):
        soft = [v1.assign(b, 0.9 * b + 0.1 * a.read_value()) for a, b in zip(of("q1", "q2"), of("t1", "t2"))]
    t.fetch(entropy=-tf.reduce_mean(lp1), alpha=alpha)
    t.train(critics + acting, *soft)


@graph
def delayed_twin_critics(t):
    """TD3: the actor and the targets move every second step, in v1.cond; smoothing noise is clipped."""
    s, a, r, s2 = t.rows("s", X), t.rows("a", np.tanh(T)), t.rows("r", REWARD), t.rows("s2", X[::-1].copy())

    def net(z, n, name, out=None):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            return dense(dense(z, 5, "h", tf.tanh), n, "o", out)

    step = v1.train.get_or_create_global_step()
    noise = tf.clip_by_value(tf.random.truncated_normal(tf.shape(a), stddev=0.2, seed=6), -0.3, 0.3)
    a2 = tf.clip_by_value(net(s2, 2, "actor_t", tf.tanh) + noise, -1, 1)
    goal = r[:, None] + 0.9 * tf.minimum(*[net(tf.concat([s2, a2], 1), 1, f"q{i}_t") for i in (1, 2)])
    qs = [net(tf.concat([s, a], 1), 1, f"q{i}") for i in (1, 2)]
    critics = tf.add_n([v1.losses.huber_loss(tf.stop_gradient(goal), q) for q in qs])
    acting = -tf.reduce_mean(net(tf.concat([s, net(s, 2, "actor", tf.tanh)], 1), 1, "q1"))
    vs = v1.trainable_variables()
    online = [v for v in vs if "_t/" not in v.name]
    mapped = {v.op.name: v for v in vs}
    twins = [(v, mapped[v.op.name.split("/")[0] + "_t/" + v.op.name.split("/", 1)[1]]) for v in online]
    opt = v1.train.GradientDescentOptimizer(0.05)
    q_vars, a_vars = [v for v in online if v.name[0] == "q"], [v for v in online if v.name[0] == "a"]
    pairs_q, grads = opt.compute_gradients(critics, q_vars), tf.gradients(acting, a_vars)
    with tf.control_dependencies(grads + [g for g, _ in pairs_q]):
        train = opt.apply_gradients(pairs_q, global_step=step)

    def move():
        with tf.control_dependencies([opt.apply_gradients(zip(grads, a_vars))]):
            return tf.group(*[v1.assign_sub(b, 0.1 * (b - a.read_value())) for a, b in twins])

    with tf.control_dependencies([train]):
        late = v1.cond(tf.equal(step.read_value() % 2, 0), move, tf.no_op)
    t.train(critics, late)


@graph
def categorical_dqn(t):
    """C51: the projection of the target distribution by neighbouring atoms."""
    s, a, r, s2, d = t.rows("s", X), t.rows("a", ACTION), t.rows("r", REWARD), t.rows("s2", X[::-1].copy()), t.rows("d", DONE)
    atoms = tf.linspace(-1.0, 1.0, 7)
    b = tf.shape(s)[0]
    number = tf.range(b)

    def net(z, name):
        with v1.variable_scope(name):
            return tf.reshape(dense(dense(z, 6, "h", tf.nn.relu), 28, "o"), [-1, 4, 7])

    logits = tf.gather_nd(net(s, "online"), tf.stack([number, a], 1))
    p2 = tf.nn.softmax(net(s2, "target"))
    best = tf.argmax(tf.reduce_sum(p2 * atoms, 2), 1, output_type=tf.int32)
    p2 = tf.gather_nd(p2, tf.stack([number, best], 1))
    z = tf.clip_by_value(r[:, None] + 0.9 * (1 - d)[:, None] * atoms, -1, 1)
    weight = tf.clip_by_value(1 - tf.abs(z[:, None, :] - atoms[None, :, None]) * 3, 0, 1)
    m = tf.stop_gradient(tf.reduce_sum(weight * p2[:, None, :], 2))
    ce = tf.nn.softmax_cross_entropy_with_logits(labels=m, logits=logits)
    t.minimize(tf.reduce_mean(ce), 0.2, priorities=ce)


@graph
def quantile_dqn(t):
    """QR-DQN: each quantile against each target, Huber; importance weights are divided by the batch's largest."""
    s, a, r, s2, w = t.rows("s", X), t.rows("a", ACTION), t.rows("r", REWARD), t.rows("s2", X[::-1].copy()), t.rows("w", WEIGHT + 0.1)

    def net(z, name):
        with v1.variable_scope(name):
            return tf.reshape(dense(dense(z, 6, "h", tf.nn.relu), 20, "o"), [-1, 4, 5])

    q = tf.reduce_sum(net(s, "online") * tf.one_hot(a, 4)[..., None], 1)
    n = net(s2, "target")
    best = tf.argmax(tf.reduce_mean(n, 2), 1)
    goal = tf.stop_gradient(r[:, None] + 0.9 * tf.reduce_sum(n * tf.one_hot(best, 4)[..., None], 1))
    u = goal[:, None] - q[..., None]
    huber = tf.where(tf.abs(u) < 1.0, 0.5 * u**2, tf.abs(u) - 0.5)
    tau = (np.arange(5, dtype="f") + 0.5) / 5
    rho = tf.abs(tau[None, :, None] - tf.cast(u < 0, tf.float32)) * huber
    per_row = tf.reduce_sum(tf.reduce_mean(rho, 2), 1)
    weight = tf.pow(w, -0.5)
    weight /= tf.reduce_max(weight)
    t.minimize(tf.reduce_mean(weight * per_row), 0.2, td=tf.reduce_mean(tf.abs(u), [1, 2]))


@graph
def generalized_advantage(t):
    """Advantages by an unrolled scan over time, normalised over all rows and times, a clipped value loss."""
    s, a, r = t.rows("s", SEQ), t.rows("a", TAGS), t.rows("r", SEQ[:, :, 0].copy())
    h = dense(s, 6, "h", tf.tanh)
    logits, v = dense(h, 3, "pi"), dense(h, 1, "v")[..., 0]
    vt = tf.unstack(tf.stop_gradient(v), axis=1)
    adv, out = tf.zeros_like(vt[0]), []
    for i in reversed(range(5)):
        adv = r[:, i] + 0.9 * vt[i + 1] - vt[i] + 0.9 * 0.95 * adv
        out.append(adv)
    adv = tf.stack(out[::-1], 1)
    goal = adv + tf.stack(vt[:-1], 1)
    m, var = tf.nn.moments(tf.reshape(adv, [-1]), [0])
    adv = (adv - m) / tf.sqrt(var + 1e-8)
    lp = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a[:, :-1], logits=logits[:, :-1])
    old = t.rows("old", (-1.1 + 0.1 * SEQ[:, :5, 1]).astype("f"))
    ratio = tf.exp(lp - old)
    pg = -tf.reduce_mean(tf.minimum(ratio * adv, tf.clip_by_value(ratio, 0.8, 1.2) * adv))
    p = tf.nn.softmax(logits)
    entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.nn.log_softmax(logits), -1))
    vl = tf.reduce_mean((v[:, :-1] - goal) ** 2)
    unexplained = tf.math.reduce_variance(goal - v[:, :-1]) / tf.math.reduce_variance(goal)
    opt = v1.train.RMSPropOptimizer(0.01, decay=0.99, epsilon=1e-3)
    gs, vs = zip(*opt.compute_gradients(pg + 0.5 * vl - 0.01 * entropy))
    gs, norm = tf.clip_by_global_norm(gs, 0.5)
    t.fetch(unexplained=unexplained, kl=tf.reduce_mean(old - lp), clipped=tf.reduce_mean(tf.cast(tf.abs(ratio - 1) > 0.2, tf.float32)), norm=norm)
    t.train(pg + 0.5 * vl, opt.apply_gradients(zip(gs, vs)))


@graph
def v_trace(t):
    """IMPALA: clipped importance weights, the correction by tf.scan backwards over time-major values."""
    s, a, r = t.rows("s", SEQ), t.rows("a", TAGS), t.rows("r", SEQ[:, :, 1].copy())
    h = dense(s, 6, "h", tf.tanh)
    logits, v = dense(h, 3, "pi"), dense(h, 1, "v")[..., 0]
    lp = tf.transpose(-tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=logits))
    v = tf.transpose(v)
    rho = tf.stop_gradient(tf.minimum(1.0, tf.exp(lp + 1.1)))
    nxt = tf.concat([v[1:], v[-1:]], 0)
    delta = rho * (tf.transpose(r) + 0.9 * nxt - v)
    acc = tf.scan(lambda c, e: e[0] + 0.9 * e[1] * c, (tf.stop_gradient(delta), rho), tf.zeros_like(v[0]), reverse=True, parallel_iterations=1)
    vs = tf.stop_gradient(acc + v)
    pg = tf.stop_gradient(rho * (tf.transpose(r) + 0.9 * tf.concat([vs[1:], v[-1:]], 0) - v))
    t.minimize(-tf.reduce_sum(lp * pg) / 30 + 0.5 * tf.reduce_sum((vs - v) ** 2) / 30, 0.02)


@graph
def advantage_weighted(t):
    """AWR with a softmax over the batch as weights; curiosity by a fixed random net, divided by its running spread."""
    s, a, r = t.rows("s", X), t.rows("a", ACTION), t.rows("r", REWARD)
    v = dense(dense(s, 6, "v", tf.tanh), 1, "vo")[:, 0]
    fixed = tf.tanh(tf.matmul(s, variable("fixed", (8, 4), 1.0, trainable=False)))
    curious = tf.reduce_mean((dense(s, 4, "predict") - fixed) ** 2, 1)
    spread = v1.get_variable("spread", initializer=np.float32(1), trainable=False)
    now = v1.assign(spread, 0.9 * spread + 0.1 * tf.math.reduce_std(tf.stop_gradient(curious)))
    goal = r + 0.1 * tf.stop_gradient(curious) / now
    w = tf.stop_gradient(tf.nn.softmax((goal - v) / 0.5, axis=0))
    lp = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=mlp(s))
    t.minimize(-tf.reduce_sum(w * lp) + tf.reduce_mean((goal - v) ** 2) + tf.reduce_mean(curious), 0.1, effective=1 / tf.reduce_sum(w**2))


# ---- recommenders ----


@graph
def deep_fm(t):
    """Fields with offsets into one table; first order, pairs, a net with dropout by a fed rate and batch norm."""
    fields = t.rows("fields", np.stack([USER, ITEM + 12, TAGS[:, 0] + 27], 1).astype("i4"))
    y, keep = t.rows("y", CLICK), t.whole("keep", np.float32(0.2))
    v = tf.nn.embedding_lookup(variable("v", (30, 4)), fields)
    first = tf.reduce_sum(tf.nn.embedding_lookup(variable("w", (30, 1)), fields), [1, 2])
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1), 1)
    h = tf.reshape(v, [-1, 12])
    h = tf.nn.relu(batch_norm(dense(h, 6, "d", bias=False), "bn"))
    h = v1.nn.dropout(h, rate=keep, seed=12)
    logit = first + second + tf.reshape(dense(h, 1, "o"), [-1])
    loss = v1.losses.log_loss(y, tf.sigmoid(logit)) + 0.001 * tf.nn.l2_loss(v)
    t.minimize(loss, optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def dlrm(t):
    """Dense and sparse towers, the lower triangle of their products by boolean_mask of a constant."""
    dense_in, user, item, y = t.rows("dense_in", X), t.rows("user", USER), t.rows("item", ITEM), t.rows("y", CLICK)
    d = dense(dense(dense_in, 6, "b1", tf.nn.relu), 4, "b2", tf.nn.relu)
    e = [tf.gather(variable("u", (12, 4)), user), tf.gather(variable("i", (15, 4)), item), tf.gather(variable("h", (5, 4)), (user * 7 + item) % 5)]
    z = tf.stack([d] + e, 1)
    pairs = tf.matmul(z, z, transpose_b=True)
    low = np.tril(np.ones((4, 4), bool), -1)
    flat = tf.reshape(tf.boolean_mask(pairs, low, axis=1), [-1, 6])
    logit = dense(tf.concat([d, flat], 1), 1, "top")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y[:, None], logits=logit))
    t.minimize(loss, optimizer=v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001))


@graph
def crossed_and_compressed(t):
    """DCN's cross layers and xDeepFM's compressed interactions."""
    ids, y = t.rows("ids", IDS), t.rows("y", CLICK)
    e = tf.nn.embedding_lookup(variable("table", (20, 4)), ids)
    x0 = tf.reshape(e, [-1, 24])
    xl = x0
    for i in range(2):
        xl = x0 * tf.matmul(xl, variable(f"cw{i}", (24, 1))) + variable(f"cb{i}", (24,)) + xl
    h, pooled = e, []
    for i in range(2):
        z = tf.einsum("bhd,bmd->bhmd", h, e)
        h = tf.einsum("bhmd,hmk->bkd", z, variable(f"k{i}", (int(h.shape[1]), 6, 3)))
        pooled.append(tf.reduce_sum(h, 2))
    logit = dense(tf.concat([xl] + pooled, 1), 1, "o")[:, 0]
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit)), 0.05)


@graph
def gated_tasks(t):
    """MMoE for click and conversion (ESMM's product), conversion counted on clicked rows only."""
    x, click, buy = t.rows("x", X), t.rows("click", CLICK), t.rows("buy", CLICK * (WEIGHT > 0.2))
    experts = tf.stack([dense(x, 4, f"e{i}", tf.nn.relu) for i in range(3)], 1)
    out = []
    for name in ("click", "buy"):
        gate = tf.nn.softmax(dense(x, 3, "g" + name))
        out.append(dense(tf.reduce_sum(experts * gate[..., None], 1), 1, "o" + name)[:, 0])
    ctr, cvr = tf.sigmoid(out[0]), tf.sigmoid(out[1])
    loss = v1.losses.log_loss(click, ctr) + v1.losses.log_loss(buy, ctr * cvr)
    clicked = tf.boolean_mask(cvr, click > 0.5)
    t.minimize(loss, 0.2, conversion=tf.reduce_mean(clicked), calibration=tf.reduce_sum(ctr) / tf.reduce_sum(click))


@graph
def session_negatives(t):
    """GRU4Rec: the other rows' items are the negatives, BPR-max with softmax weights over the batch."""
    x, item = t.rows("x", SEQ), t.rows("item", ITEM)
    h = dense(tf.reduce_sum(x, 1), 4, "h", tf.tanh)
    e, b = tf.nn.embedding_lookup(variable("items", (15, 4)), item), tf.nn.embedding_lookup(variable("bias", (15,)), item)
    s = tf.matmul(h, e, transpose_b=True) + b
    good = tf.linalg.diag_part(s)
    others = s - 1e4 * tf.eye(tf.shape(s)[0])
    w = tf.nn.softmax(others, 1)
    loss = -tf.reduce_mean(tf.math.log(tf.reduce_sum(w * tf.sigmoid(good[:, None] - s), 1) + 1e-9)) + 0.1 * tf.reduce_mean(tf.reduce_sum(w * s**2, 1))
    t.minimize(loss, optimizer=v1.train.AdagradOptimizer(0.1), rank=tf.reduce_mean(tf.reduce_sum(tf.cast(s > good[:, None], tf.float32), 1)))


@graph
def self_attentive_sequences(t):
    """SASRec: a causal mask, padding by zero ids, one fed negative for each position, an L2 penalty on what was looked up."""
    ids = t.rows("ids", IDS)
    pos, neg = t.rows("pos", np.roll(IDS, -1, 1)), t.rows("neg", (IDS + 7) % 20)
    table = variable("items", (20, 6))
    table = tf.concat([tf.zeros([1, 6]), table[1:]], 0)
    mask = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., None]
    h = (tf.nn.embedding_lookup(table, ids) * 2.45 + tf.gather(variable("position", (6, 6)), tf.tile(tf.range(6)[None], [tf.shape(ids)[0], 1]))) * mask
    s = tf.matmul(dense(h, 6, "q"), dense(h, 6, "k", bias=False), transpose_b=True) / 2.45
    tril = tf.linalg.LinearOperatorLowerTriangular(tf.ones_like(s[0])).to_dense()
    causal = tf.tile(tf.expand_dims(tril, 0), [tf.shape(ids)[0], 1, 1])
    s = tf.where(tf.equal(causal, 0), tf.ones_like(s) * (-(2.0**32) + 1), s)
    a = tf.nn.softmax(s) * tf.sign(tf.abs(tf.reduce_sum(h, -1)))[:, :, None]
    h = layer_norm(tf.matmul(a, dense(h, 6, "v")) + h, "ln") * mask
    flat = tf.reshape(h, [tf.shape(ids)[0] * 6, 6])
    flat_pos, flat_neg = tf.reshape(pos, [-1]), tf.reshape(neg, [-1])
    lp, ln = (tf.reduce_sum(tf.nn.embedding_lookup(table, i) * flat, -1) for i in (flat_pos, flat_neg))
    target = tf.reshape(tf.cast(tf.not_equal(flat_pos, 0), tf.float32), [tf.shape(ids)[0] * 6])
    loss = tf.reduce_sum(-tf.math.log(tf.sigmoid(lp) + 1e-24) * target - tf.math.log(1 - tf.sigmoid(ln) + 1e-24) * target) / tf.reduce_sum(target)
    auc = tf.reduce_sum(((tf.sign(lp - ln) + 1) / 2) * target) / tf.reduce_sum(target)
    t.minimize(loss, 0.05, auc=auc)


@graph
def hierarchical_softmax(t):
    """Paths and codes of a tree as constant tables; the loss of a row is a sum along its path."""
    x, y = t.rows("x", X), t.rows("y", ITEM)
    path = np.array([[0, 1 + (i >> 3), 3 + (i >> 2), 7 + (i >> 1)] for i in range(16)], "i4")[:15]
    code = np.array([[(i >> k) & 1 for k in (3, 2, 1, 0)] for i in range(16)], "f")[:15]
    h = dense(x, 5, "h", tf.tanh)
    node = tf.nn.embedding_lookup(variable("nodes", (15, 5)), tf.gather(path, y))
    logit = tf.squeeze(tf.matmul(node, h[:, :, None]), [2])
    loss = tf.reduce_mean(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.gather(code, y), logits=logit), 1))
    t.minimize(loss, optimizer=v1.train.AdagradOptimizer(0.2))


@graph
def adaptive_softmax(t):
    """A head, and a tail for the rows whose word is rare (boolean_mask twice)."""
    x, y = t.rows("x", X), t.rows("y", ITEM)
    h = dense(x, 6, "h", tf.tanh)
    rare = y >= 5
    head = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.where(rare, tf.fill(tf.shape(y), 5), y), logits=dense(h, 6, "head"))
    tail = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.boolean_mask(y, rare) - 5, logits=dense(dense(tf.boolean_mask(h, rare), 3, "p", bias=False), 10, "tail"))
    n = tf.cast(tf.size(y), tf.float32)
    t.minimize((tf.reduce_sum(head) + tf.reduce_sum(tail)) / n, 0.2, tail=tf.reduce_sum(tail))


@graph
def noise_contrastive(t):
    """NCE by hand: seeded negatives shared by the batch, and others for each row, log-uniform by exponent."""
    x, y = t.rows("x", X), t.rows("y", ITEM)
    h = dense(x, 4, "h", tf.tanh)
    w, b = variable("w", (15, 4)), variable("b", (15,))
    shared = tf.random.uniform([6], 0, 15, tf.int32, seed=21)
    u = tf.random.uniform([tf.shape(x)[0], 3], seed=22)
    own = tf.cast(tf.exp(u * np.float32(np.log(15.0))) - 1, tf.int32)
    good = tf.reduce_sum(tf.gather(w, y) * h, 1) + tf.gather(b, y)
    bad = tf.matmul(h, tf.gather(w, shared), transpose_b=True) + tf.gather(b, shared)
    bad2 = tf.einsum("bd,bkd->bk", h, tf.gather(w, own)) + tf.gather(b, own)
    loss = tf.nn.softplus(-good) + tf.reduce_sum(tf.nn.softplus(bad), 1) / 6 + tf.reduce_sum(tf.nn.softplus(bad2), 1) / 3
    t.minimize(tf.reduce_mean(loss), optimizer=v1.train.AdamOptimizer(0.02), unigram=own)


@graph
def interaction_graph(t):
    """The batch's users and items as a graph: an adjacency by scatter_nd, two rounds of messages between all nodes."""
    user, item, y = t.rows("user", USER), t.rows("item", ITEM), t.rows("y", CLICK)
    u, v = variable("u", (12, 4)), variable("v", (15, 4))
    a = tf.scatter_nd(tf.stack([user, item], 1), tf.ones_like(y), [12, 15])
    a = a / (tf.sqrt(tf.reduce_sum(a, 1, keepdims=True) * tf.reduce_sum(a, 0, keepdims=True)) + 1e-3)
    for _ in range(2):
        u, v = u + tf.matmul(a, v), v + tf.matmul(a, u, transpose_a=True)
    logit = tf.reduce_sum(tf.gather(u, user) * tf.gather(v, item), 1)
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit)), 0.1, degree=tf.reduce_max(a))


# ---- rows moved about ----


@graph
def neighbours_in_order(t):
    """The batch sorted by a score; smoothness of neighbours in that order."""
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(dense(x, 5, "h", tf.tanh), 2, "o")
    order = tf.argsort(y[:, 0])
    q = tf.gather(p, order)
    rough = tf.reduce_mean(tf.square(q[1:] - q[:-1]))
    t.minimize(tf.reduce_mean((p - y) ** 2) + 0.1 * rough, 0.1, rough=rough)


@graph
def even_and_odd_rows(t):
    """Rows 0, 2, 4, … against rows 1, 3, 5, … of the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = tf.nn.l2_normalize(dense(x, 4, "z"), 1)
    n = tf.shape(z)[0] // 2
    a, b = z[::2][:n], z[1::2][:n]
    same = tf.cast(tf.equal(y[::2][:n], y[1::2][:n]), tf.float32)
    d = tf.reduce_sum((a - b) ** 2, 1)
    t.minimize(tf.reduce_mean(same * d + (1 - same) * tf.square(tf.maximum(0.0, 1 - tf.sqrt(d + 1e-4)))), 0.2)


@graph
def halves_of_the_batch(t):
    """The first half supports, the second is asked: prototypes by one-hot products."""
    x, y = t.rows("x", X), t.rows("y", Y)
    z = dense(dense(x, 6, "h", tf.nn.relu), 4, "z")
    half = tf.shape(x)[0] // 2
    one = tf.one_hot(y[:half], 4)
    proto = tf.matmul(one, z[:half], transpose_a=True) / (tf.reduce_sum(one, 0)[:, None] + 1.0)
    d = tf.reduce_sum((z[half:, None] - proto) ** 2, 2)
    t.minimize(cross_entropy(-d, y[half:]), 0.1, accuracy=accuracy(-d, y[half:]))


@graph
def best_rows_only(t):
    """Two rounds of choosing: the eight rows of largest loss... of those whose label is not 0."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    keep = tf.where(tf.not_equal(y, 0))[:, 0]
    logits, y = tf.gather(logits, keep), tf.gather(y, keep)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    k = tf.minimum(3, tf.size(ce))
    _, at = tf.nn.top_k(ce, k)
    again = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.gather(y, at), logits=tf.gather(logits, at))
    t.minimize(tf.reduce_sum(again) / 3, 0.1)


@graph
def users_of_the_batch(t):
    """Unique users of the batch are looked up once, their rows averaged, the mean sent back to each row."""
    user, x, y = t.rows("user", USER), t.rows("x", X), t.rows("y", Y)
    unique, back, count = tf.unique_with_counts(user)
    e = tf.nn.embedding_lookup(variable("users", (12, 4)), unique)
    mean = tf.math.unsorted_segment_sum(dense(x, 4, "h", tf.tanh), back, tf.size(unique)) / tf.cast(count, tf.float32)[:, None]
    h = tf.gather(e + mean, back)
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.2, users=tf.size(unique))


@graph
def bags_of_segments(t):
    """Multiple-instance learning: rows belong to bags (sorted), bags are pooled by segment_max, mean and softmax attention."""
    x, bag, y = t.rows("x", X), t.rows("bag", (np.arange(len(X)) // 3 % 4).astype("i4")), t.rows("y", Y)
    order = tf.argsort(bag, stable=True)
    x, bag, y = tf.gather(x, order), tf.gather(bag, order), tf.gather(y, order)
    h = dense(x, 5, "h", tf.tanh)
    a = tf.exp(dense(h, 1, "a"))
    total = tf.math.segment_sum(a, bag)
    pooled = tf.math.segment_sum(h * a, bag) / (total + 1e-6)
    z = tf.concat([pooled, tf.math.segment_max(h, bag), tf.math.segment_mean(h, bag)], 1)
    label = tf.math.segment_max(y, bag)
    t.minimize(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=dense(z, 4, "o"))), 0.2)


@graph
def running_sums_over_rows(t):
    """Isotonic-like: cumsum over the batch in both directions, exclusive and reverse, with gradients."""
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(x, 2, "p", tf.nn.softplus)
    a, b = tf.cumsum(p, 0, exclusive=True), tf.cumsum(p, 0, reverse=True)
    c = tf.math.cumprod(tf.sigmoid(p) + 0.3, 0)
    t.minimize(tf.reduce_mean((a - tf.cumsum(y, 0)) ** 2) * 0.01 + tf.reduce_mean(b) * 0.01 + tf.reduce_mean((c - y) ** 2), 0.05)


@graph
def ragged_rows(t):
    """Ragged tensors from lengths: means of rows, a table, values through a net."""
    ids, n, y = t.rows("ids", IDS), t.rows("n", LENGTH), t.rows("y", Y)
    ragged = tf.RaggedTensor.from_tensor(ids, lengths=n)
    e = tf.RaggedTensor.from_row_splits(dense(tf.nn.embedding_lookup(variable("table", (20, 4)), ragged.values), 4, "h", tf.tanh), ragged.row_splits)
    h = tf.reduce_sum(e, 1) / tf.cast(n, tf.float32)[:, None]
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.3)


@graph
def repeated_by_length(t):
    """Length regulator: each row's frames are repeated as often as it says, the flat frames are the loss's."""
    x, n, y = t.rows("x", X), t.rows("n", LENGTH), t.rows("y", Y)
    h = tf.repeat(dense(x, 4, "h", tf.tanh), n, axis=0)
    labels = tf.repeat(y, n)
    t.minimize(cross_entropy(dense(h, 4, "o"), labels), 0.3, frames=tf.shape(h)[0])


@graph
def weighted_moments_over_rows(t):
    x, y, w = t.rows("x", X), t.rows("y", Y), t.rows("w", WEIGHT)
    h = dense(x, 5, "h", bias=False)
    m, v = tf.nn.weighted_moments(h, [0], w[:, None] + 0.1)
    count, s, sq, _ = tf.nn.sufficient_statistics(h, [0])
    m2, v2 = tf.nn.normalize_moments(count, s, sq, None)
    z = (h - m) * tf.math.rsqrt(v + 1e-3) + (h - m2) * tf.math.rsqrt(v2 + 1e-3)
    t.minimize(cross_entropy(dense(z, 4, "o"), y), 0.1)


@graph
def rate_of_the_batch_size(t):
    """The learning rate follows tf.shape(x)[0]; batches that are short take another branch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    n = tf.shape(x)[0]
    loss = cross_entropy(mlp(x), y)
    loss = v1.cond(n < 10, lambda: loss * 0.5 + 1.0, lambda: loss)
    rate = 0.1 * tf.sqrt(tf.cast(n, tf.float32) / 10)
    t.minimize(loss, optimizer=v1.train.MomentumOptimizer(rate, 0.5), rate_now=rate)


@graph
def flattened_percentile(t):
    """All elements of the batch flattened: sorted, the 90th percentile clips, top_k sparsifies."""
    x = t.rows("x", X)
    h = dense(x, 6, "h", tf.nn.relu)
    flat = tf.reshape(h, [-1])
    k = tf.size(flat) // 4
    threshold = tf.reduce_min(tf.nn.top_k(flat, k, sorted=False)[0])
    h = h * tf.stop_gradient(tf.cast(h >= threshold, tf.float32))
    t.minimize(tf.reduce_mean((dense(h, 8, "o") - x) ** 2), 0.1, threshold=threshold)


@graph
def checked_everywhere(t):
    """tf.debugging and v1.Print in the path, asserts on batch values as control dependencies."""
    x, y = t.rows("x", X), t.rows("y", Y)
    checks = [v1.assert_less(y, 4), v1.assert_rank(x, 2), v1.assert_equal(tf.shape(x)[0], tf.shape(y)[0], data=[tf.shape(x), tf.shape(y)]), tf.debugging.Assert(tf.reduce_all(tf.math.is_finite(x)), [x], summarize=3)]
    with tf.control_dependencies([c for c in checks if c is not None]):
        x = tf.identity(x)
    h = tf.debugging.check_numerics(mlp(x), "logits")
    loss = tf.debugging.check_numerics(cross_entropy(h, y), "loss")
    loss = v1.Print(loss, [loss, tf.shape(x)], "loss: ", first_n=1)
    t.minimize(loss, 0.2)


# ---- state kept per row or per class ----


@graph
def instance_memory(t):
    """Each sample has a row of a bank, by a fed number; it is moved towards the new feature after the step."""
    x, number = t.rows("x", X), t.rows("number", np.arange(len(X)).astype("i4"))
    bank = v1.get_variable("bank", initializer=(np.random.RandomState(4).randn(len(X), 4) * 0.3).astype("f"), trainable=False)
    z = tf.nn.l2_normalize(dense(x, 4, "z"), 1)
    old = tf.gather(bank, number)
    s = tf.matmul(z, bank, transpose_b=True) / 0.5
    train = v1.train.GradientDescentOptimizer(0.2).minimize(cross_entropy(s, number))
    with tf.control_dependencies([train]):
        update = v1.scatter_update(bank, number, tf.nn.l2_normalize(0.5 * old + 0.5 * z, 1))
    t.train(cross_entropy(s, number), update)


@graph
def temporal_memory(t):
    """TGN: a user's state goes through a gate and back into its row; a user may come twice, the last wins."""
    user, x, y = t.rows("user", USER), t.rows("x", X), t.rows("y", Y)
    memory = v1.get_variable("memory", initializer=np.zeros((12, 4), "f"), trainable=False, use_resource=True)
    m = tf.gather(memory, user)
    z = tf.sigmoid(dense(tf.concat([m, x], 1), 4, "z"))
    new = z * m + (1 - z) * dense(tf.concat([m, x], 1), 4, "c", tf.tanh)
    train = v1.train.GradientDescentOptimizer(0.2).minimize(cross_entropy(dense(new, 4, "o"), y))
    with tf.control_dependencies([train, new]):
        update = memory.scatter_update(tf.IndexedSlices(new, user))
    t.train(cross_entropy(dense(new, 4, "o2"), y), update)


@graph
def class_prototypes_moved(t):
    """Running means of classes: sums by unsorted_segment, only classes of the batch move; the loss reads them after."""
    x, y = t.rows("x", X), t.rows("y", Y)
    proto = variable("proto", (4, 3), trainable=False)
    z = dense(x, 3, "z", tf.tanh)
    n = tf.math.unsorted_segment_sum(tf.ones_like(y, tf.float32), y, 4)[:, None]
    mean = tf.math.divide_no_nan(tf.math.unsorted_segment_sum(z, y, 4), n)
    now = v1.assign(proto, tf.where(tf.tile(n > 0, [1, 3]), 0.8 * proto + 0.2 * mean, proto))
    d = tf.reduce_sum((z[:, None] - tf.stop_gradient(now)) ** 2, 2)
    t.minimize(cross_entropy(-d, y), 0.1)


@graph
def history_ring(t):
    """The last four losses in a ring written by slices, a plateau rule on their mean; maxima by scatter_max."""
    x, y, user = t.rows("x", X), t.rows("y", Y), t.rows("user", USER)
    loss = cross_entropy(mlp(x), y)
    step = v1.train.get_or_create_global_step()
    ring = v1.get_variable("ring", initializer=np.full(4, 1.4, "f"), trainable=False)
    worst = v1.get_variable("worst", initializer=np.zeros(12, "f"), trainable=False)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x[:, :4])
    mean = tf.reduce_mean(ring.read_value())
    rate = tf.where(loss < mean, 0.2, 0.1)
    train = v1.train.GradientDescentOptimizer(rate).minimize(loss)
    with tf.control_dependencies([train, mean]):
        write = v1.scatter_update(ring, tf.cast(step % 4, tf.int32), loss)
        high = v1.scatter_max(worst, user, ce)
    with tf.control_dependencies([write, high]):
        count = v1.assign_add(step, 1)
    t.fetch(rate=rate)
    t.train(loss, count)


@graph
def previous_batch_kept(t):
    """A variable without a fixed shape keeps the batch's features for the next step."""
    x, y = t.rows("x", X), t.rows("y", Y)
    kept = tf.Variable(np.zeros((1, 3), "f"), shape=tf.TensorShape([None, 3]), trainable=False, name="kept")
    z = dense(x, 3, "z", tf.tanh)
    s = tf.matmul(z, kept.read_value(), transpose_b=True)
    loss = cross_entropy(dense(z, 4, "o"), y) + 0.1 * tf.reduce_mean(tf.nn.softplus(s))
    train = v1.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.control_dependencies([train, loss]):
        keep = kept.assign(z)
    t.train(loss, keep)


# ---- functions ----


@graph(v2=True)
def traced_layers(t):
    """tf.function called twice, variables captured; gradients go through the calls."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 8), use_resource=True)

    @tf.function
    def layer(z, scale):
        return tf.tanh(tf.matmul(z, w) * scale) + tf.reduce_mean(z, 0, keepdims=True)

    h = layer(layer(x, 1.0), 0.5)
    t.minimize(cross_entropy(dense(h, 4, "o", use_resource=True), y), 0.2)


@graph(v2=True)
def traced_step(t):
    """The whole step in one function, as a saved training signature has it: tape, clipping, assigns."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w, b = variable("w", (8, 4), use_resource=True), variable("b", (4,), use_resource=True)
    m = v1.get_variable("m", initializer=np.zeros((8, 4), "f"), trainable=False, use_resource=True)

    @tf.function
    def step(a, c):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=c, logits=tf.matmul(a, w) + b))
            loss += 0.01 * tf.reduce_sum(w**2)
        gw, gb = tape.gradient(loss, [w, b])
        (gw, gb), norm = tf.clip_by_global_norm([gw, gb], 0.5)
        m.assign(0.9 * m + gw)
        w.assign_sub(0.2 * m)
        b.assign_sub(0.2 * gb)
        return loss, norm

    loss, norm = step(x, y)
    t.fetch(norm=norm)
    t.train(loss, loss.op)


@graph(v2=True)
def custom_gradient_function(t):
    """A straight-through estimator inside a tf.function with a recomputed gradient."""
    x, y = t.rows("x", X), t.rows("y", Y)

    @tf.custom_gradient
    def quantize(z):
        return tf.round(z * 4) / 4, lambda g: g * tf.cast(tf.abs(z) < 1, tf.float32)

    @tf.function
    def body(z):
        return quantize(tf.tanh(z))

    t.minimize(cross_entropy(dense(body(dense(x, 6, "h")), 4, "o"), y), 0.2)


@graph(v2=True)
def trees_of_functions(t):
    """Functions inside functions, one with a loop of fixed length, one with a branch on a fed boolean."""
    x, y, training = t.rows("x", X), t.rows("y", Y), t.whole("training", np.bool_(True))
    w = variable("w", (8, 8), use_resource=True)

    @tf.function
    def inner(z):
        for _ in tf.range(3):
            z = z + 0.1 * tf.tanh(tf.matmul(z, w))
        return z

    @tf.function
    def outer(z, flag):
        z = inner(z)
        return tf.cond(flag, lambda: z * 2.0, lambda: z)

    t.minimize(cross_entropy(dense(outer(x, training), 4, "o", use_resource=True), y), 0.1)
