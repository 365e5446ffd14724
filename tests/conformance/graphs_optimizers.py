"""Optimizers, schedules, clipping, averages: how updates are made."""

import numpy as np
import tensorflow as tf

from graphs import T, X, Y, accuracy, classifier, cross_entropy, dense, graph, mlp, v1, variable

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adagrad_da": lambda: v1.train.AdagradDAOptimizer(0.1, v1.train.get_or_create_global_step()),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(1.0),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "rmsprop_centered": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01),
    "proximal_sgd": lambda: v1.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.001),
    "proximal_adagrad": lambda: v1.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
}


def with_optimizer(name, use_resource):
    def build(t):
        _, y, logits, loss = classifier(t, use_resource=use_resource)
        t.minimize(loss, optimizer=OPTIMIZERS[name](), accuracy=accuracy(logits, y))

    return build


for _i, _name in enumerate(OPTIMIZERS):
    graph(with_optimizer(_name, _i % 2 == 0), name="optimizer_" + _name)
for _name in ("sgd", "adam"):
    graph(with_optimizer(_name, _name == "adam"), name=f"optimizer_{_name}_{'resource' if _name == 'adam' else 'ref'}")


def gradients(loss):
    variables = v1.trainable_variables()
    return tf.gradients(loss, variables), variables


def slots(variables, *names):
    return [[v1.get_variable(f"{v.op.name}/{n}", initializer=np.zeros(v.shape, "f"), trainable=False, use_resource=True) for n in names] for v in variables]


def adam_like(t, update, rate=0.01):
    """Keras' way: resource variables, an update function of slots, iterations counted at the end."""
    _, _, _, loss = classifier(t, use_resource=True)
    grads, variables = gradients(loss)
    step = v1.train.get_or_create_global_step()
    k = tf.cast(step, tf.float32) + 1
    ops = []
    for g, v, (m, s) in zip(grads, variables, slots(variables, "m", "v")):
        ops += update(g, v, m, s, k, rate)
    with tf.control_dependencies(ops):
        done = step.assign_add(1)
    t.fetch(iterations=done)
    t.train(loss, done)


@graph
def optimizer_adamax(t):
    def update(g, v, m, u, k, rate):
        m_t = m.assign(0.9 * m + 0.1 * g)
        u_t = u.assign(tf.maximum(0.999 * u, tf.abs(g)))
        return [v.assign_sub(rate / (1 - tf.pow(0.9, k)) * m_t / (u_t + 1e-7))]

    adam_like(t, update)


@graph
def optimizer_nadam(t):
    def update(g, v, m, s, k, rate):
        u, u1 = 0.9 * (1 - 0.5 * tf.pow(0.96, k)), 0.9 * (1 - 0.5 * tf.pow(0.96, k + 1))
        m_t, s_t = m.assign(0.9 * m + 0.1 * g), s.assign(0.999 * s + 0.001 * g * g)
        m_hat = u1 * m_t / (1 - tf.pow(0.9, k + 1)) + (1 - u) * g / (1 - tf.pow(0.9, k))
        return [v.assign_sub(rate * m_hat / (tf.sqrt(s_t / (1 - tf.pow(0.999, k))) + 1e-7))]

    adam_like(t, update)


@graph
def optimizer_lion(t):
    def update(g, v, m, s, k, rate):
        change = tf.sign(0.9 * m + 0.1 * g)
        with tf.control_dependencies([change]):
            kept = m.assign(0.99 * m + 0.01 * g)
        with tf.control_dependencies([kept]):
            return [v.assign_sub(rate * (change + 0.01 * v)), s.assign_add(tf.abs(change))]

    adam_like(t, update, 0.001)


@graph
def optimizer_lamb(t):
    def update(g, v, m, s, k, rate):
        m_t, s_t = m.assign(0.9 * m + 0.1 * g), s.assign(0.999 * s + 0.001 * g * g)
        r = m_t / (1 - tf.pow(0.9, k)) / (tf.sqrt(s_t / (1 - tf.pow(0.999, k))) + 1e-6) + 0.01 * v
        w_norm, r_norm = tf.norm(v), tf.norm(r)
        ratio = tf.where(tf.greater(w_norm, 0), tf.where(tf.greater(r_norm, 0), w_norm / r_norm, 1.0), 1.0)
        return [v.assign_sub(rate * ratio * r)]

    adam_like(t, update)


@graph
def optimizer_lars(t):
    _, _, _, loss = classifier(t)
    opt = v1.train.MomentumOptimizer(0.5, 0.9)
    pairs = []
    for g, v in opt.compute_gradients(loss):
        w_norm, g_norm = tf.norm(v), tf.norm(g)
        trust = tf.where(w_norm > 0, 0.02 * w_norm / (g_norm + 1e-4 * w_norm + 1e-8), 1.0)
        pairs.append((trust * (g + 1e-4 * v), v))
        t.fetch(**{f"trust_{len(pairs)}": trust})
    t.train(loss, opt.apply_gradients(pairs, global_step=v1.train.get_or_create_global_step()))


@graph
def adamw_after_gradients(t):
    """Decay that is bound to the gradients by control edges alone, as DecoupledWeightDecayExtension does."""
    _, _, _, loss = classifier(t)
    opt = v1.train.AdamOptimizer(0.01)
    pairs = opt.compute_gradients(loss)
    with tf.control_dependencies([g for g, _ in pairs]):
        decays = [v.assign_sub(0.01 * v.read_value(), use_locking=True) for _, v in pairs]
    with tf.control_dependencies(decays):
        train = opt.apply_gradients(pairs, global_step=v1.train.get_or_create_global_step())
    t.train(loss, train)


@graph
def adamw_before_resource(t):
    """The same with resource variables; the decay follows the loss."""
    _, _, _, loss = classifier(t, use_resource=True)
    opt = v1.train.AdamOptimizer(0.01)
    pairs = opt.compute_gradients(loss)
    grads = [tf.identity(g) for g, _ in pairs]
    with tf.control_dependencies(grads + [loss]):
        decays = [v.assign_sub(0.02 * v) for _, v in pairs]
    with tf.control_dependencies(decays):
        train = opt.apply_gradients(zip(grads, [v for _, v in pairs]), global_step=v1.train.get_or_create_global_step())
    t.train(loss, train)


@graph
def lookahead(t):
    """Slow weights, moved every five steps."""
    _, _, _, loss = classifier(t, use_resource=True)
    step = v1.train.get_or_create_global_step()
    fast = v1.trainable_variables()
    slow = [v1.Variable(v.initial_value, name=v.op.name + "/slow", trainable=False, use_resource=True) for v in fast]
    train = v1.train.GradientDescentOptimizer(0.2).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        def sync():
            ops = []
            for f, s in zip(fast, slow):
                s_new = s.assign(s + 0.5 * (f - s))
                ops.append(f.assign(s_new))
            return tf.group(*ops)

        done = v1.cond(tf.equal(step.read_value() % 5, 0), sync, tf.no_op)
    t.train(loss, done)


@graph
def moving_average(t):
    x, y, logits, loss = classifier(t)
    step = v1.train.get_or_create_global_step()
    train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
    ema = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
    with tf.control_dependencies([train]):
        done = ema.apply(v1.trainable_variables())
    t.fetch(sum_of_logits=tf.reduce_sum(logits))
    t.train(loss, done)


@graph
def moving_average_of_loss(t):
    """The smoothed loss that people print."""
    _, _, _, loss = classifier(t)
    ema = tf.train.ExponentialMovingAverage(0.8, zero_debias=True)
    averages = ema.apply([loss])
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=v1.train.get_or_create_global_step())
    with tf.control_dependencies([train, averages]):
        smoothed = tf.identity(ema.average(loss))
    t.fetch(smoothed=smoothed)
    t.train(loss, train, averages)


@graph
def accumulated_in_cond(t):
    """Gradients are added up over three steps and applied in a cond."""
    _, _, _, loss = classifier(t)
    step = v1.train.get_or_create_global_step()
    opt = v1.train.MomentumOptimizer(0.1, 0.9)
    pairs = opt.compute_gradients(loss)
    sums = [v1.get_variable(v.op.name + "/sum", initializer=np.zeros(v.shape, "f"), trainable=False) for _, v in pairs]
    with tf.control_dependencies([v1.assign_add(s, g) for s, (g, _) in zip(sums, pairs)]):
        count = v1.assign_add(step, 1)

    def apply():
        done = opt.apply_gradients([(s / 3.0, v) for s, (_, v) in zip(sums, pairs)])
        with tf.control_dependencies([done]):
            return tf.group(*[v1.assign(s, tf.zeros_like(s)) for s in sums])

    with tf.control_dependencies([count]):
        done = v1.cond(tf.equal(count % 3, 0), apply, tf.no_op)
    t.fetch(count=count)
    t.train(loss, done)


@graph
def accumulated_in_cond_resource(t):
    _, _, _, loss = classifier(t, use_resource=True)
    step = v1.train.get_or_create_global_step()
    opt = v1.train.AdamOptimizer(0.01)
    pairs = opt.compute_gradients(loss)
    sums = [v1.get_variable(v.op.name + "/sum", initializer=np.zeros(v.shape, "f"), trainable=False, use_resource=True) for _, v in pairs]
    with tf.control_dependencies([s.assign_add(g) for s, (g, _) in zip(sums, pairs)]):
        count = tf.identity(v1.assign_add(step, 1))

    def apply():
        done = opt.apply_gradients([(s / 2.0, v) for s, (_, v) in zip(sums, pairs)])
        with tf.control_dependencies([done]):
            return tf.group(*[s.assign(tf.zeros_like(s)) for s in sums])

    done = v1.cond(tf.equal(count % 2, 0), apply, tf.no_op)
    t.train(loss, done)


SCHEDULES = {
    "exponential": lambda s: v1.train.exponential_decay(0.2, s, 5, 0.8, staircase=True),
    "piecewise": lambda s: v1.train.piecewise_constant(s, [5, 12], [0.2, 0.1, 0.05]),
    "polynomial": lambda s: v1.train.polynomial_decay(0.2, s, 20, 0.01, power=0.5, cycle=True),
    "cosine": lambda s: v1.train.cosine_decay(0.2, s, 25),
    "cosine_restarts": lambda s: v1.train.cosine_decay_restarts(0.2, s, 7),
    "inverse_time": lambda s: v1.train.inverse_time_decay(0.2, s, 4, 0.5),
    "natural_exp": lambda s: v1.train.natural_exp_decay(0.2, s, 4, 0.3),
    "noam": lambda s: 0.3 * tf.minimum(tf.math.rsqrt(tf.cast(s, tf.float32) + 1), (tf.cast(s, tf.float32) + 1) * 8 ** -1.5),
    "warmup": lambda s: tf.cond(s < 10, lambda: 0.02 * (tf.cast(s, tf.float32) + 1), lambda: v1.train.exponential_decay(0.2, s - 10, 5, 0.5)),
}


def with_schedule(name):
    def build(t):
        _, _, _, loss = classifier(t)
        step = v1.train.get_or_create_global_step()
        rate = tf.convert_to_tensor(SCHEDULES[name](step))
        t.minimize(loss, optimizer=v1.train.MomentumOptimizer(rate, 0.9), rate=0, rate_fetched=rate)

    return build


for _name in SCHEDULES:
    graph(with_schedule(_name), name="schedule_" + _name)


@graph
def schedule_fed_table(t):
    """The rates of all steps are fed as a vector, of a length that is not known, and indexed by the step."""
    _, _, _, loss = classifier(t)
    step = v1.train.get_or_create_global_step()
    t.constants["rates"] = np.linspace(0.3, 0.01, 40).astype("f")
    table = v1.placeholder(tf.float32, [40], name="rates")
    rate = tf.gather(table, tf.minimum(step, 39))
    t.minimize(loss, optimizer=v1.train.GradientDescentOptimizer(rate), rate_fetched=rate)


@graph
def rate_fed(t):
    _, _, _, loss = classifier(t)
    rate = t.whole("learning_rate", np.float32(0.2))
    t.minimize(loss, optimizer=v1.train.MomentumOptimizer(rate, 0.9), rate_fetched=rate * 2)


@graph
def plateau(t):
    """The rate falls when the mean loss does not: a variable that depends on the batch, without a gradient."""
    _, _, _, loss = classifier(t)
    best, rate = v1.get_variable("best", initializer=np.float32(10), trainable=False), v1.get_variable("rate", initializer=np.float32(0.2), trainable=False)
    old = tf.identity(rate.read_value())
    train = v1.train.GradientDescentOptimizer(old).minimize(loss)
    with tf.control_dependencies([train]):
        falls = v1.assign(rate, tf.where(loss < best, old, old * 0.9))
        with tf.control_dependencies([falls]):
            done = v1.assign(best, tf.minimum(best, loss))
    t.fetch(rate_used=old, best_loss=done)
    t.train(loss, done)


@graph
def group_with_step(t):
    """tf.group(train, global_step.assign(global_step + 1)): nothing but the group binds the counter."""
    _, _, _, loss = classifier(t)
    step = v1.train.get_or_create_global_step()
    train = v1.train.AdamOptimizer(0.01).minimize(loss)
    t.train(loss, train, step.assign(step + 1))


@graph
def group_with_step_resource(t):
    _, _, _, loss = classifier(t, use_resource=True)
    count = v1.get_variable("count", initializer=np.int64(0), trainable=False, use_resource=True)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    t.train(loss, train, count.assign(count + 1))


@graph
def counters(t):
    """Rows and batches counted with assign_add, and fetched."""
    x, _, _, loss = classifier(t)
    rows = v1.get_variable("rows_seen", initializer=np.int64(0), trainable=False)
    total = v1.get_variable("loss_sum", initializer=np.float32(0), trainable=False, use_resource=True)
    seen = v1.assign_add(rows, tf.shape(x, out_type=tf.int64)[0])
    summed = total.assign_add(loss * tf.cast(tf.shape(x)[0], tf.float32))
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    t.fetch(seen=seen, summed=summed)
    t.train(loss, train, seen, summed)


CLIPS = {
    "value": lambda g: [tf.clip_by_value(x, -0.05, 0.05) for x in g],
    "norm": lambda g: [tf.clip_by_norm(x, 0.1) for x in g],
    "global_norm": lambda g: tf.clip_by_global_norm(g, 0.2)[0],
    "average_norm": lambda g: [v1.clip_by_average_norm(x, 0.01) for x in g],
    "by_hand": lambda g: [x * tf.minimum(1.0, 0.2 / (tf.linalg.global_norm(g) + 1e-6)) for x in g],
}


def with_clip(name):
    def build(t):
        _, _, _, loss = classifier(t)
        opt = v1.train.MomentumOptimizer(0.1, 0.9)
        grads, variables = zip(*opt.compute_gradients(loss))
        clipped = CLIPS[name](grads)
        t.fetch(norm=tf.linalg.global_norm(grads), clipped_norm=tf.linalg.global_norm(clipped), first_norm=tf.norm(grads[0]))
        t.train(loss, opt.apply_gradients(zip(clipped, variables), global_step=v1.train.get_or_create_global_step()))

    return build


for _name in CLIPS:
    graph(with_clip(_name), name="clip_" + _name)


@graph
def clip_sparse(t):
    """A global norm of dense gradients and of IndexedSlices."""
    from graphs import IDS  # noqa: PLC0415

    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    table = variable("table", (20, 5))
    logits = dense(tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1), 4, "out")
    loss = cross_entropy(logits, y)
    opt = v1.train.AdagradOptimizer(0.1)
    grads, variables = zip(*opt.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(grads, 0.1)
    t.fetch(norm=norm)
    t.train(loss, opt.apply_gradients(zip(clipped, variables), global_step=v1.train.get_or_create_global_step()))


@graph
def gradient_centralized(t):
    _, _, _, loss = classifier(t)
    opt = v1.train.GradientDescentOptimizer(0.1)
    pairs = [(g - tf.reduce_mean(g, 0, keepdims=True) if len(g.shape) > 1 else g, v) for g, v in opt.compute_gradients(loss)]
    t.train(loss, opt.apply_gradients(pairs, global_step=v1.train.get_or_create_global_step()))


@graph
def loss_scaled(t):
    """Dynamic loss scaling, in float32 for the arithmetic's sake."""
    _, _, _, loss = classifier(t)
    scale = v1.get_variable("scale", initializer=np.float32(128), trainable=False, use_resource=True)
    used = scale.read_value()
    opt = v1.train.GradientDescentOptimizer(0.1)
    pairs = [(g / used, v) for g, v in opt.compute_gradients(loss * used)]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g, _ in pairs])
    train = v1.cond(finite, lambda: opt.apply_gradients(pairs), tf.no_op)
    with tf.control_dependencies([train]):
        done = scale.assign(tf.where(finite, used * 1.1, used * 0.5))
    t.fetch(finite=finite, scale_used=used)
    t.train(loss, done)


@graph
def gradient_noise_free_second_order(t):
    """A penalty on the gradient's norm: gradients of gradients."""
    x, y = t.rows("x", X), t.rows("y", T)
    h = dense(dense(x, 6, "a", tf.tanh), 2, "b")
    loss = tf.reduce_mean(tf.square(h - y))
    grads = tf.gradients(loss, v1.trainable_variables())
    penalty = tf.add_n([tf.reduce_sum(tf.square(g)) for g in grads])
    t.minimize(loss + 0.1 * penalty, 0.05, penalty=penalty)


@graph
def weights_projected(t):
    """Weights are kept in a ball after each update (max_norm constraint)."""
    _, _, _, loss = classifier(t)
    train = v1.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=v1.train.get_or_create_global_step())
    with tf.control_dependencies([train]):
        ops = [v1.assign(v, tf.clip_by_norm(v.read_value(), 1.0, axes=[0])) for v in v1.trainable_variables()]
    t.train(loss, *ops)


@graph
def double_precision(t):
    x, y = t.rows("x", X.astype("d")), t.rows("y", Y)
    logits = tf.matmul(tf.tanh(tf.matmul(x, variable("w0", (8, 6), dtype="d"))), variable("w1", (6, 4), dtype="d", use_resource=True))
    t.minimize(cross_entropy(logits, y), optimizer=v1.train.AdamOptimizer(0.01))


@graph
def two_optimizers_by_scope(t):
    """Embedding-like and dense parts with optimizers of their own (wide and deep)."""
    x, y = t.rows("x", X), t.rows("y", Y)
    with v1.variable_scope("wide"):
        wide = dense(x, 4, "linear")
    with v1.variable_scope("deep"):
        deep = mlp(x)
    loss = cross_entropy(wide + deep, y)
    step = v1.train.get_or_create_global_step()
    a = v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=v1.trainable_variables("wide"))
    b = v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=v1.trainable_variables("deep"))
    with tf.control_dependencies([a, b]):
        done = v1.assign_add(step, 1)
    t.fetch(step=done)
    t.train(loss, done)
