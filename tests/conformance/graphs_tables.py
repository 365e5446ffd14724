"""Recommenders, reinforcement learning, experts, meta-learning, indices."""

import numpy as np
import tensorflow as tf

from graphs import IDS, ITEM, LENGTH, SEQ, T, USER, WEIGHT, X, Y, accuracy, cross_entropy, dense, graph, mlp, v1, variable

RATING = (np.sin(USER * 1.3 + ITEM * 0.7) + 1).astype("f")
ACTION, REWARD = Y, T[:, 0].copy()
DONE = (WEIGHT == 0).astype("f")


@graph
def matrix_factorization(t):
    user, item, rating = t.rows("user", USER), t.rows("item", ITEM), t.rows("rating", RATING)
    u, v = tf.nn.embedding_lookup(variable("users", (12, 4)), user), tf.nn.embedding_lookup(variable("items", (15, 4)), item)
    bu, bv = tf.gather(variable("user_bias", (12,)), user), tf.gather(variable("item_bias", (15,)), item)
    mean = v1.get_variable("mean", initializer=np.float32(0))
    p = tf.reduce_sum(u * v, 1) + bu + bv + mean
    loss = tf.reduce_mean(tf.square(p - rating)) + 0.02 * (tf.nn.l2_loss(u) + tf.nn.l2_loss(v)) / 10.0
    t.minimize(loss, 0.2, rmse=tf.sqrt(tf.reduce_mean(tf.square(p - rating))))


@graph
def matrix_factorization_resource_adam(t):
    user, item, rating = t.rows("user", USER), t.rows("item", ITEM), t.rows("rating", RATING)
    with v1.variable_scope("t", use_resource=True):
        u, v = tf.nn.embedding_lookup(variable("users", (12, 4)), user), tf.nn.embedding_lookup(variable("items", (15, 4)), item)
    t.minimize(tf.reduce_mean(tf.square(tf.reduce_sum(u * v, 1) - rating)), optimizer=v1.train.AdamOptimizer(0.02))


@graph
def bpr(t):
    """One table looked up twice: positive and negative items."""
    user, good, bad = t.rows("user", USER), t.rows("good", ITEM), t.rows("bad", ((ITEM + 4) % 15).astype("i4"))
    items = variable("items", (15, 4))
    u = tf.nn.embedding_lookup(variable("users", (12, 4)), user)
    d = tf.reduce_sum(u * (tf.nn.embedding_lookup(items, good) - tf.nn.embedding_lookup(items, bad)), 1)
    t.minimize(-tf.reduce_mean(tf.math.log_sigmoid(d)), optimizer=v1.train.AdagradOptimizer(0.2), auc=tf.reduce_mean(tf.cast(d > 0, tf.float32)))


@graph
def partitioned_table(t):
    """A partitioner cuts the table into three variables."""
    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    table = v1.get_variable("table", [20, 5], initializer=v1.truncated_normal_initializer(seed=4), partitioner=v1.fixed_size_partitioner(3))
    h = tf.reduce_mean(v1.nn.embedding_lookup(table, ids), 1)
    t.minimize(cross_entropy(dense(h, 4, "out"), y), optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def partitioned_div(t):
    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    with v1.variable_scope("p", partitioner=v1.fixed_size_partitioner(2), use_resource=True):
        table = v1.get_variable("table", [20, 5], initializer=v1.truncated_normal_initializer(seed=4))
    h = tf.reduce_sum(v1.nn.embedding_lookup(table, ids, partition_strategy="div"), 1)
    t.minimize(cross_entropy(dense(h, 4, "out"), y), 0.2)


@graph
def partitioned_dense(t):
    """A partitioned matrix that is used whole: the parts are concatenated."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = v1.get_variable("w", [8, 4], initializer=v1.glorot_uniform_initializer(seed=4), partitioner=v1.fixed_size_partitioner(2))
    t.minimize(cross_entropy(tf.matmul(x, tf.convert_to_tensor(w)), y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def wide_and_deep(t):
    x, user, item, rating = t.rows("x", X), t.rows("user", USER), t.rows("item", ITEM), t.rows("rating", RATING)
    cross = (user * 15 + item) % 32
    wide = tf.gather(variable("crossed", (32, 1)), cross)
    deep = tf.concat([x, tf.gather(variable("users", (12, 3)), user), tf.gather(variable("items", (15, 3)), item)], 1)
    p = (wide + dense(dense(deep, 6, "a", tf.nn.relu), 1, "b"))[:, 0]
    t.minimize(v1.losses.sigmoid_cross_entropy(tf.cast(rating > 1, tf.float32), p), optimizer=v1.train.FtrlOptimizer(0.1))


@graph
def factorization_machine(t):
    ids, y = t.rows("ids", IDS), t.rows("y", (T[:, 0] > 0).astype("f"))
    v, w = tf.nn.embedding_lookup(variable("v", (20, 4)), ids), tf.nn.embedding_lookup(variable("w", (20,)), ids)
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1), 1)
    p = tf.reduce_sum(w, 1) + second
    t.minimize(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=p)), optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def deep_interest(t):
    """Attention over a history of items with a mask; the item's table is the history's."""
    history, length, item, rating = t.rows("history", (IDS % 15).astype("i4")), t.rows("length", LENGTH), t.rows("item", ITEM), t.rows("rating", RATING)
    table = variable("items", (15, 4))
    h, q = tf.nn.embedding_lookup(table, history), tf.nn.embedding_lookup(table, item)
    both = tf.concat([h, tf.tile(q[:, None, :], [1, 6, 1])], 2)
    score = tf.squeeze(dense(dense(both, 5, "a", tf.sigmoid), 1, "b", bias=False), 2)
    score = tf.where(tf.sequence_mask(length, 6), score, tf.ones_like(score) * -1e9)
    pooled = tf.reduce_sum(tf.nn.softmax(score)[:, :, None] * h, 1)
    p = dense(tf.concat([pooled, q], 1), 1, "out")[:, 0]
    t.minimize(tf.reduce_mean(tf.square(p - rating)), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def embedding_bag_segments(t):
    """Ids in rows flattened, embedded and summed by row with unsorted_segment_sum."""
    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    n = tf.shape(ids)[0]
    flat = tf.reshape(ids, [-1])
    rows = tf.reshape(tf.tile(tf.range(n)[:, None], [1, 6]), [-1])
    bag = tf.math.unsorted_segment_sum(tf.nn.embedding_lookup(variable("table", (20, 5)), flat), rows, n)
    t.minimize(cross_entropy(dense(tf.ensure_shape(bag, [None, 5]), 4, "out"), y))


@graph
def embedding_bag_sparse(t):
    """embedding_lookup_sparse over a SparseTensor made of the rows."""
    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    sparse = tf.sparse.from_dense(ids)
    bag = tf.nn.embedding_lookup_sparse(variable("table", (20, 5)), sparse, None, combiner="mean")
    t.minimize(cross_entropy(dense(tf.ensure_shape(bag, [None, 5]), 4, "out"), y), optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def sampled_softmax_fed(t):
    """The negative classes are fed."""
    user, item = t.rows("user", USER), t.rows("item", ITEM)
    t.constants["negatives"] = np.array([1, 3, 8, 11], "i4")
    negatives = v1.placeholder(tf.int32, [4], name="negatives")
    u = tf.nn.embedding_lookup(variable("users", (12, 4)), user)
    w = variable("w", (15, 4))
    true = tf.reduce_sum(u * tf.nn.embedding_lookup(w, item), 1, keepdims=True)
    logits = tf.concat([true, tf.matmul(u, tf.nn.embedding_lookup(w, negatives), transpose_b=True)], 1)
    t.minimize(cross_entropy(logits, tf.zeros_like(item)), 0.2)


@graph
def word2vec(t):
    """Skip-gram with negatives drawn from the batch's own contexts, rolled by one row."""
    center, context = t.rows("center", USER), t.rows("context", ITEM)
    c, o = tf.nn.embedding_lookup(variable("in", (12, 4)), center), tf.nn.embedding_lookup(variable("out", (15, 4)), context)
    good = tf.reduce_sum(c * o, 1)
    bad = tf.reduce_sum(c * tf.roll(o, 1, 0), 1)
    t.minimize(tf.reduce_mean(tf.nn.softplus(-good) + tf.nn.softplus(bad)), 0.3)


@graph
def sampled_bias_correction(t):
    """Two towers with in-batch negatives, logits corrected by the items' frequency in the batch, no own duplicates."""
    user, item = t.rows("user", USER), t.rows("item", ITEM)
    u, v = tf.nn.embedding_lookup(variable("users", (12, 4)), user), tf.nn.embedding_lookup(variable("items", (15, 4)), item)
    same = tf.cast(tf.equal(item[:, None], item[None, :]), tf.float32)
    logits = tf.matmul(u, v, transpose_b=True) - tf.math.log(tf.reduce_sum(same, 0))[None, :]
    labels = tf.linalg.diag(tf.ones_like(tf.reduce_sum(u, 1)))
    logits -= (same - labels) * 1e9
    t.minimize(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)), 0.3)


def log_probability(logits, action):
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)


@graph
def policy_gradient(t):
    """Advantages are normalised by the batch's moments."""
    x, action, reward = t.rows("x", X), t.rows("action", ACTION), t.rows("reward", REWARD)
    mean, var = tf.nn.moments(reward, [0])
    advantage = (reward - mean) / (tf.sqrt(var) + 1e-8)
    logits = mlp(x)
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), 1))
    t.minimize(-tf.reduce_mean(log_probability(logits, action) * advantage) - 0.01 * entropy, entropy=entropy)


@graph
def policy_gradient_masked(t):
    """Episodes of different lengths: a masked mean over [rows, time]."""
    seq, length = t.rows("seq", SEQ), t.rows("length", LENGTH)
    action, reward = t.rows("action", (IDS % 3).astype("i4")), t.rows("reward", SEQ[:, :, 0].copy())
    mask = tf.sequence_mask(length, 6, dtype=tf.float32)
    returns = tf.cumsum(reward * mask, 1, reverse=True)
    baseline = tf.reduce_sum(returns * mask) / tf.reduce_sum(mask)
    logp = log_probability(dense(dense(seq, 5, "a", tf.tanh), 3, "b"), action)
    value = tf.reduce_sum(tf.square(returns - 1.0) * mask) / tf.reduce_sum(mask)
    t.minimize(value - tf.reduce_sum(logp * mask * tf.stop_gradient(returns - baseline)) / tf.reduce_sum(mask), 0.05, baseline=baseline)


def ppo(t):
    x, action, reward, old = t.rows("x", X), t.rows("action", ACTION), t.rows("reward", REWARD), t.rows("old", (-1.3 + 0.1 * REWARD).astype("f"))
    ratio = tf.exp(log_probability(mlp(x), action) - old)
    loss = -tf.reduce_mean(tf.minimum(ratio * reward, tf.clip_by_value(ratio, 0.8, 1.2) * reward))
    kl = tf.reduce_mean(tf.math.log(ratio))
    t.minimize(loss, optimizer=v1.train.AdamOptimizer(0.01), kl=kl, clipped=tf.reduce_mean(tf.cast(tf.abs(ratio - 1) > 0.2, tf.float32)))


graph(ppo)


def dqn(t, in_cond):
    x, action, reward, after, done = t.rows("x", X), t.rows("action", ACTION), t.rows("reward", REWARD), t.rows("after", np.roll(X, 1, 0)), t.rows("done", DONE)
    with v1.variable_scope("online"):
        q = mlp(x)
    with v1.variable_scope("target"):
        q_next = mlp(after)
    online, target = v1.trainable_variables("online"), v1.trainable_variables("target")
    goal = tf.stop_gradient(reward + 0.9 * (1 - done) * tf.reduce_max(q_next, 1))
    taken = tf.reduce_sum(q * tf.one_hot(action, 4), 1)
    loss = v1.losses.huber_loss(goal, taken)
    step = v1.train.get_or_create_global_step()
    train = v1.train.RMSPropOptimizer(0.01).minimize(loss, global_step=step, var_list=online)
    with tf.control_dependencies([train]):
        def copy():
            return tf.group(*[v1.assign(b, a.read_value()) for a, b in zip(online, target)])

        done = v1.cond(tf.equal(step.read_value() % 4, 0), copy, tf.no_op) if in_cond else tf.group(
            *[v1.assign(b, 0.95 * b.read_value() + 0.05 * a.read_value()) for a, b in zip(online, target)])
    t.fetch(q=tf.reduce_mean(taken))
    t.train(loss, done)


graph(lambda t: dqn(t, True), name="dqn_copy_in_cond")
graph(lambda t: dqn(t, False), name="dqn_soft_copy")


@graph
def dqn_double_dueling(t):
    x, action, reward, after = t.rows("x", X), t.rows("action", ACTION), t.rows("reward", REWARD), t.rows("after", np.roll(X, 1, 0))

    def net(v, name):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            h = dense(v, 6, "h", tf.nn.relu)
            a = dense(h, 4, "advantage")
            return dense(h, 1, "value") + a - tf.reduce_mean(a, 1, keepdims=True)

    best = tf.argmax(net(after, "online"), 1, output_type=tf.int32)
    n = tf.shape(x)[0]
    following = tf.gather_nd(net(after, "target"), tf.stack([tf.range(n), best], 1))
    taken = tf.gather_nd(net(x, "online"), tf.stack([tf.range(n), action], 1))
    error = tf.stop_gradient(reward + 0.9 * following) - taken
    op = v1.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(tf.square(error)), var_list=v1.trainable_variables("online"))
    t.fetch(priorities=tf.abs(error))
    t.train(tf.reduce_mean(tf.square(error)), op)


@graph
def actor_critic(t):
    x, action, reward = t.rows("x", X), t.rows("action", ACTION), t.rows("reward", REWARD)
    h = dense(x, 6, "h", tf.tanh)
    value, logits = dense(h, 1, "value")[:, 0], dense(h, 4, "policy")
    advantage = reward - value
    actor = -tf.reduce_mean(log_probability(logits, action) * tf.stop_gradient(advantage))
    critic = tf.reduce_mean(tf.square(advantage))
    opt = v1.train.RMSPropOptimizer(0.01, 0.99)
    grads, variables = zip(*opt.compute_gradients(actor + 0.5 * critic))
    grads, norm = tf.clip_by_global_norm(grads, 0.5)
    t.fetch(actor=actor, critic=critic, norm=norm, explained=1 - tf.reduce_mean(tf.square(advantage)) / (tf.math.reduce_variance(reward) + 0.1))
    t.train(actor + 0.5 * critic, opt.apply_gradients(zip(grads, variables), global_step=v1.train.get_or_create_global_step()))


@graph
def ddpg(t):
    """The critic's gradient with respect to the action goes on into the actor (grad_ys)."""
    x, action, reward = t.rows("x", X), t.rows("action", T), t.rows("reward", REWARD)
    with v1.variable_scope("actor"):
        policy = dense(dense(x, 5, "a", tf.nn.relu), 2, "b", tf.tanh)

    def critic(a):
        with v1.variable_scope("critic", reuse=v1.AUTO_REUSE):
            return dense(dense(tf.concat([x, a], 1), 5, "a", tf.nn.relu), 1, "b")[:, 0]

    q_loss = tf.reduce_mean(tf.square(critic(action) - reward))
    q_grad = tf.gradients(critic(policy), policy)[0]
    variables = v1.trainable_variables("actor")
    a_grads = tf.gradients(policy, variables, -q_grad / tf.cast(tf.shape(x)[0], tf.float32))
    opt = v1.train.GradientDescentOptimizer(0.05)
    c_grads = opt.compute_gradients(q_loss, v1.trainable_variables("critic"))
    with tf.control_dependencies([g for g, _ in c_grads] + a_grads):
        train = opt.apply_gradients(c_grads + list(zip(a_grads, variables)))
    t.train(q_loss, train)


@graph
def running_normalizer(t):
    """Observations are normalised by running moments that are updated with the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    count, mean, m2 = (v1.get_variable(n, initializer=i, trainable=False, use_resource=True) for n, i in
                       (("count", np.float32(1)), ("mean", np.zeros(8, "f")), ("m2", np.ones(8, "f"))))
    c, m, s = count.read_value(), mean.read_value(), m2.read_value()
    n = tf.cast(tf.shape(x)[0], tf.float32)
    batch_mean, batch_var = tf.nn.moments(x, [0])
    delta = batch_mean - m
    total = c + n
    new_mean, new_m2 = m + delta * n / total, s + batch_var * n + tf.square(delta) * c * n / total
    loss = cross_entropy(mlp((x - m) / tf.sqrt(s / c + 1e-3)), y)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([c, m, s, loss]):
        ops = [count.assign(total), mean.assign(new_mean), m2.assign(new_m2)]
    t.train(loss, train, *ops)


@graph
def maml(t):
    """An inner step on the support rows, the outer loss behind it: gradients of gradients."""
    xs, ys, xq, yq = t.rows("xs", X), t.rows("ys", T), t.rows("xq", np.roll(X, 2, 0)), t.rows("yq", np.roll(T, 2, 0))
    w = [variable("w0", (8, 5)), variable("w1", (5, 2))]

    def loss(x, y, w):
        return tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w[0])), w[1]) - y))

    inner = loss(xs, ys, w)
    fast = [v - 0.1 * g for v, g in zip(w, tf.gradients(inner, w))]
    t.minimize(loss(xq, yq, fast), 0.05, inner=inner)


@graph
def maml_first_order(t):
    xs, ys = t.rows("xs", X), t.rows("ys", Y)
    w = variable("w", (8, 4), use_resource=True)
    fast = w.read_value()
    for _ in range(2):
        fast = fast - 0.2 * tf.stop_gradient(tf.gradients(cross_entropy(tf.matmul(xs, fast), ys), fast)[0])
    t.minimize(cross_entropy(tf.matmul(xs, fast), ys), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def maml_per_row(t):
    """Each row is a task of its own: map_fn with an inner gradient."""
    seq, target = t.rows("seq", SEQ), t.rows("target", SEQ[:, :, 0].copy())
    w = variable("w", (5, 1))

    def task(pair):
        x, y = pair
        inner = tf.reduce_mean(tf.square(tf.matmul(x[:3], w)[:, 0] - y[:3]))
        fast = w - 0.1 * tf.gradients(inner, w)[0]
        return tf.reduce_mean(tf.square(tf.matmul(x[3:], fast)[:, 0] - y[3:]))

    losses = tf.map_fn(task, (seq, target), dtype=tf.float32)
    t.minimize(tf.reduce_mean(losses), 0.05)


@graph
def hessian_vector(t):
    """A step along the gradient, scaled by the curvature in its direction."""
    x, y = t.rows("x", X), t.rows("y", T)
    w = variable("w", (8, 2), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w)) - y))
    g = tf.gradients(loss, w)[0]
    hv = tf.gradients(tf.reduce_sum(g * tf.stop_gradient(g)), w)[0]
    rate = tf.reduce_sum(g * g) / (tf.abs(tf.reduce_sum(g * hv)) + 1e-3)
    t.fetch(rate=rate)
    t.train(loss, w.assign_sub(tf.minimum(rate, 0.2) * g))


def experts(x, n=3):
    return tf.stack([dense(dense(x, 5, f"e{i}", tf.nn.relu), 4, f"o{i}") for i in range(n)], 1)


@graph
def mixture_of_experts(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    gate = tf.nn.softmax(dense(x, 3, "gate"))
    t.minimize(cross_entropy(tf.reduce_sum(experts(x) * gate[:, :, None], 1), y), load=tf.reduce_mean(gate, 0))


@graph
def experts_top_k(t):
    """Two experts of each row, and a loss that balances them over the batch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = dense(x, 3, "gate")
    values, index = tf.math.top_k(logits, 2)
    gate = tf.reduce_sum(tf.one_hot(index, 3) * tf.nn.softmax(values)[:, :, None], 1)
    importance = tf.reduce_sum(gate, 0)
    load = tf.reduce_mean(tf.cast(gate > 0, tf.float32), 0)
    mean, var = tf.nn.moments(importance, [0])
    balance = var / (tf.square(mean) + 1e-6) + 3 * tf.reduce_sum(load * tf.reduce_mean(tf.nn.softmax(logits), 0))
    t.minimize(cross_entropy(tf.reduce_sum(experts(x) * gate[:, :, None], 1), y) + 0.05 * balance, balance=balance, load=load)


@graph
def experts_dispatched(t):
    """Rows are sent to their expert with dynamic_partition and come back with dynamic_stitch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    probabilities = tf.nn.softmax(dense(x, 3, "gate"))
    choice = tf.argmax(probabilities, 1, output_type=tf.int32)
    n = tf.shape(x)[0]
    parts, places = tf.dynamic_partition(x, choice, 3), tf.dynamic_partition(tf.range(n), choice, 3)
    out = tf.dynamic_stitch(places, [dense(p, 4, f"e{i}") for i, p in enumerate(parts)])
    out = tf.ensure_shape(tf.reshape(out, [n, 4]), [None, 4]) * tf.reduce_max(probabilities, 1)[:, None]
    t.minimize(cross_entropy(out, y), 0.2)


@graph
def experts_capacity(t):
    """Switch routing with a capacity: places by a cumulative sum over the batch, dispatch by einsum."""
    x, y = t.rows("x", X), t.rows("y", Y)
    p = tf.nn.softmax(dense(x, 3, "gate"))
    mask = tf.one_hot(tf.argmax(p, 1), 3)
    place = tf.cumsum(mask, 0, exclusive=True) * mask
    mask *= tf.cast(place < 4, tf.float32)
    dispatch = mask[:, :, None] * tf.one_hot(tf.cast(place, tf.int32), 4)
    sent = tf.einsum("bd,bec->ecd", x, dispatch)
    done = tf.einsum("ecd,edo->eco", sent, variable("w", (3, 8, 4)))
    out = tf.einsum("bec,eco->bo", dispatch * tf.reduce_sum(p * mask, 1)[:, None, None], done)
    t.minimize(cross_entropy(out, y), 0.2, dropped=tf.reduce_sum(1 - tf.reduce_sum(mask, 1)))


@graph
def gather_scatter(t):
    """gather_nd by row, scatter_nd into classes."""
    x, y = t.rows("x", X), t.rows("y", Y)
    n = tf.shape(x)[0]
    logits = mlp(x)
    logp = tf.nn.log_softmax(logits)
    picked = tf.gather_nd(logp, tf.stack([tf.range(n), y], 1))
    counts = tf.scatter_nd(y[:, None], tf.ones_like(picked), [4])
    t.minimize(-tf.reduce_mean(picked), counts=counts, accuracy=accuracy(logits, y))


@graph
def batch_gather(t):
    seq, y, length = t.rows("seq", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    h = dense(seq, 4, "a", tf.tanh)
    last = tf.squeeze(tf.gather(h, (length - 1)[:, None], batch_dims=1), 1)
    t.minimize(cross_entropy(last, y))


@graph
def scatter_rows(t):
    """tensor_scatter_nd_add within each row."""
    x, y = t.rows("x", X), t.rows("y", Y)
    n = tf.shape(x)[0]
    logits = mlp(x)
    index = tf.stack([tf.range(n), y], 1)
    margin = tf.tensor_scatter_nd_sub(logits, index, tf.fill([n], 0.3))
    t.minimize(cross_entropy(margin, y))


@graph
def partition_and_stitch(t):
    """Rows of two kinds go through two layers."""
    x, y = t.rows("x", X), t.rows("y", Y)
    kind = tf.cast(x[:, 0] > 0, tf.int32)
    a, b = tf.dynamic_partition(x, kind, 2)
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), kind, 2)
    h = tf.dynamic_stitch(places, [dense(a, 4, "a"), dense(b, 4, "b", tf.tanh)])
    t.minimize(cross_entropy(tf.ensure_shape(h, [None, 4]), y))


@graph
def sorted_rows(t):
    """Sorted features of each row (a set's), and the batch sorted by loss."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(tf.sort(x, axis=1))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    ranked = tf.sort(each, direction="DESCENDING")
    t.minimize(tf.reduce_mean(ranked * tf.cast(tf.range(tf.shape(ranked)[0]) < 6, tf.float32)), ranked=ranked)


@graph
def segments(t):
    """Means and maxima of groups within the batch."""
    x, y, group = t.rows("x", X), t.rows("y", T), t.rows("group", (np.arange(37) % 10 // 3).astype("i4"))
    p = dense(x, 2, "a")
    mean, top = tf.math.segment_mean(p, group), tf.math.segment_max(p, group)
    want = tf.math.segment_mean(y, group)
    t.minimize(tf.reduce_mean(tf.square(mean - want)) + 0.1 * tf.reduce_mean(tf.square(top)), 0.05)


@graph
def segment_sums(t):
    """Losses and counts of the batch by class."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    sums = tf.math.unsorted_segment_sum(each, y, 4)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(each), y, 4)
    t.minimize(tf.reduce_mean(sums / tf.maximum(counts, 1)), balanced=sums)


@graph
def cumulative(t):
    """Cumulative sums along time and along the batch."""
    seq, y = t.rows("seq", SEQ), t.rows("y", T[:, 0].copy())
    h = dense(tf.cumsum(seq, 1), 3, "a", tf.tanh)
    p = dense(tf.reduce_mean(h, 1), 1, "b")[:, 0]
    t.minimize(tf.reduce_mean(tf.square(tf.cumsum(p) - tf.cumsum(y))), 0.005, last=tf.cumsum(p)[-1])


@graph
def permuted_batch(t):
    """mixup with the batch reversed."""
    x, y = t.rows("x", X), t.rows("y", Y)
    mixed = 0.7 * x + 0.3 * tf.reverse(x, [0])
    labels = 0.7 * tf.one_hot(y, 4) + 0.3 * tf.reverse(tf.one_hot(y, 4), [0])
    t.minimize(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=mlp(mixed))))


@graph
def split_batch(t):
    """The batch's first rows are labelled, the others are not."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    labelled = cross_entropy(logits[:4], y[:4])
    p = tf.nn.softmax(logits[4:])
    t.minimize(labelled - 0.1 * tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p + 1e-6), 1)))


@graph
def self_organizing_map(t):
    """Updates without gradients: each row pulls its winner and the winner's neighbours."""
    x = t.rows("x", X)
    book = variable("map", (5, 8), trainable=False)
    d = tf.reduce_sum(tf.math.squared_difference(x[:, None, :], book[None]), 2)
    winner = tf.argmin(d, 1)
    near = tf.exp(-tf.square(tf.cast(tf.range(5), tf.float32)[None, :] - tf.cast(winner, tf.float32)[:, None]))
    change = tf.matmul(near, x, transpose_a=True) - tf.reduce_sum(near, 0)[:, None] * book
    t.fetch(winner=winner)
    t.train(tf.reduce_mean(tf.reduce_min(d, 1)), v1.assign_add(book, 0.02 * change))


@graph
def k_means(t):
    """A step of k-means: sums and counts by cluster."""
    x = t.rows("x", X)
    centers = variable("centers", (3, 8), trainable=False, use_resource=True)
    c = centers.read_value()
    d = tf.reduce_sum(tf.math.squared_difference(x[:, None, :], c[None]), 2)
    cluster = tf.argmin(d, 1)
    sums, counts = tf.math.unsorted_segment_sum(x, cluster, 3), tf.math.unsorted_segment_sum(tf.ones_like(x[:, :1]), cluster, 3)
    t.fetch(counts=counts)
    t.train(tf.reduce_mean(tf.reduce_min(d, 1)), centers.assign(tf.where(tf.tile(counts, [1, 8]) > 0, 0.5 * c + 0.5 * sums / tf.maximum(counts, 1), c)))


@graph
def memory_bank(t):
    """A bank of the rows' features, written by scatter_update at fed places (instance discrimination)."""
    x, place = t.rows("x", X), t.rows("place", np.arange(37).astype("i4"))
    bank = variable("bank", (37, 4), trainable=False)
    f = tf.nn.l2_normalize(dense(x, 4, "a"), 1)
    logits = tf.matmul(f, tf.identity(bank.read_value()), transpose_b=True) / 0.5
    loss = cross_entropy(logits, place)
    train = v1.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.control_dependencies([train, logits]):
        kept = v1.scatter_update(bank, place, f)
    t.train(loss, kept)


@graph
def queue_of_negatives(t):
    """MoCo: a queue of keys in a variable, moved by the batch's."""
    x = t.rows("x", X)
    with v1.variable_scope("q"):
        q = tf.nn.l2_normalize(dense(x, 4, "a"), 1)
    with v1.variable_scope("k"):
        k = tf.stop_gradient(tf.nn.l2_normalize(dense(x + 0.1, 4, "a"), 1))
    queue = variable("queue", (12, 4), trainable=False, use_resource=True)
    old = queue.read_value()
    logits = tf.concat([tf.reduce_sum(q * k, 1, keepdims=True), tf.matmul(q, old, transpose_b=True)], 1)
    loss = cross_entropy(logits, tf.zeros([tf.shape(x)[0]], tf.int32))
    train = v1.train.GradientDescentOptimizer(0.2).minimize(loss, var_list=v1.trainable_variables("q"))
    with tf.control_dependencies([train]):
        pushed = queue.assign(tf.concat([k, old], 0)[:12])
        moved = [v1.assign(b, 0.9 * b.read_value() + 0.1 * a.read_value()) for a, b in zip(v1.trainable_variables("q"), v1.trainable_variables("k"))]
    t.train(loss, pushed, *moved)


@graph
def collaborative_autoencoder(t):
    """Sparse ratings as one-hot rows; a loss over those that are there."""
    ids, w = t.rows("ids", IDS), t.rows("weight", WEIGHT)
    x = tf.reduce_max(tf.one_hot(ids, 20), 1)
    p = dense(dense(x, 4, "a", tf.tanh), 20, "b")
    each = tf.reduce_sum(tf.square(p - x) * x, 1) * w
    t.minimize(tf.math.divide_no_nan(tf.reduce_sum(each), tf.reduce_sum(w)), 0.05)


@graph
def conditional_random_field(t):
    """The forward algorithm, unrolled; a transition matrix is learned."""
    seq, tags, length = t.rows("seq", SEQ), t.rows("tags", (IDS % 3).astype("i4")), t.rows("length", LENGTH)
    unary, transitions = dense(seq, 3, "unary"), variable("transitions", (3, 3))
    alpha = unary[:, 0]
    score = tf.reduce_sum(unary[:, 0] * tf.one_hot(tags[:, 0], 3), 1)
    for i in range(1, 6):
        inside = tf.cast(length > i, tf.float32)[:, None]
        new = tf.reduce_logsumexp(alpha[:, :, None] + transitions[None], 1) + unary[:, i]
        alpha = inside * new + (1 - inside) * alpha
        pair = tf.gather(tf.reshape(transitions, [-1]), tags[:, i - 1] * 3 + tags[:, i])
        score += inside[:, 0] * (pair + tf.reduce_sum(unary[:, i] * tf.one_hot(tags[:, i], 3), 1))
    t.minimize(tf.reduce_mean(tf.reduce_logsumexp(alpha, 1) - score), 0.05)
