"""Graphs that ask how many rows there are: where a replica has one row, or none, the answer is still that of the whole batch."""

import numpy as np
import tensorflow as tf

from graphs import IMAGE, LENGTH, SEQ, T, TAGS, X, Y, accuracy, cross_entropy, dense, graph, mlp, v1, variable


def count(x):
    return tf.cast(tf.shape(x)[0], tf.float32)


def kept(name, shape):
    return v1.get_variable(name, initializer=np.zeros(shape, "f"), trainable=False)


@graph
def rows_counted(t):
    """Examples seen, batches seen, the smallest batch, fetched and kept."""
    x, y = t.rows("x", X), t.rows("y", Y)
    seen, least = kept("seen", ()), kept("least", ())
    n = tf.shape(x)[0]
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(seen, count(x)))
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign(least, tf.minimum(least, -count(x))))
    t.minimize(cross_entropy(mlp(x), y), rows=n, elements=tf.size(x), shape=tf.shape(x), real=count(x))


@graph
def rows_at_least(t):
    """Sums divided by max(rows, k)."""
    x, y = t.rows("x", X), t.rows("y", Y)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    n = tf.shape(x)[0]
    t.minimize(tf.reduce_sum(each) / tf.cast(tf.maximum(n, 1), tf.float32), one=tf.maximum(n, 1), four=tf.maximum(n, 4), none=tf.maximum(n, 0),
               most=tf.minimum(n, 4), real=tf.maximum(count(x), 1.0), real_four=tf.maximum(count(x), 4.0))


@graph
def rows_divided(t):
    """Flattening with a width that is worked out: size / rows."""
    x, y = t.rows("x", IMAGE), t.rows("y", Y)
    n = tf.shape(x)[0]
    width = tf.size(x) // n
    flat = tf.ensure_shape(tf.reshape(x, tf.stack([n, width])), [None, 128])
    t.minimize(cross_entropy(dense(flat, 4, "a"), y), 0.02, width=width, real=tf.cast(tf.size(x), tf.float32) / count(x), rest=tf.size(x) % n)


@graph
def rows_halved(t):
    """Numbers that are no multiple of the batch: half of it, one more, its square."""
    x, y = t.rows("x", X), t.rows("y", T)
    n = tf.shape(x)[0]
    half = (n + 1) // 2
    e = tf.square(dense(x, 2, "a") - y)
    t.minimize(tf.reduce_mean(e) + 0.1 * tf.reduce_mean(e[:half]) + 0.1 * tf.reduce_mean(e[half - 1 :]), half=half, more=n + 1, square=n * n,
               real=count(x) / 2.0, log=tf.math.log(count(x) + 1.0))


@graph
def rows_flattened(t):
    """Reshapes with -1 in front, behind, and with the rows from a shape."""
    x, y = t.rows("x", SEQ), t.rows("y", TAGS)
    n = tf.shape(x)[0]
    a = tf.reshape(x, [n, -1])
    b = tf.reshape(x, [-1, 30])
    c = tf.reshape(x, tf.concat([tf.shape(x)[:1], [30]], 0))
    h = dense(tf.ensure_shape(a, [None, 30]), 12, "a") + dense(b, 12, "b") + dense(tf.ensure_shape(c, [None, 30]), 12, "c")
    logits = dense(tf.ensure_shape(tf.reshape(h, [n, 6, -1]), [None, 6, 2]), 3, "d")
    t.minimize(cross_entropy(tf.reshape(logits, [-1, 3]), tf.reshape(y, [-1])), flat=tf.reduce_sum(tf.reshape(logits, [-1])))


@graph
def rows_beside_columns(t):
    """The batch along two axes, broadcast in every way."""
    x, ids, y = t.rows("x", X), t.rows("ids", Y), t.rows("y", Y)
    h = dense(x, 4, "a")
    s = tf.matmul(h, tf.gather(variable("table", (4, 4)), ids), transpose_b=True)
    v, u = tf.gather(variable("v", (4,)), ids), tf.reduce_sum(h, 1)
    column, row, n = u[:, None], v[None, :], tf.shape(x)[0]
    terms = [s + v, v * s, s * row, column - s, s / (2 + tf.tanh(column)), v - column, column * u, tf.maximum(row, column), row + tf.reshape(u, [n, 1]),
             tf.where(s > 0, s + u, s - v), tf.reduce_sum(tf.tanh(h[:, None] * h[None]), 2), tf.tile(column, [1, n]) * v, u + v]
    means = tf.stack([tf.reduce_mean(tf.tanh(term)) for term in terms])
    t.minimize(tf.reduce_mean(means) + 0.1 * cross_entropy(h, y), means=means)


@graph
def rows_first(t):
    """The first and the last row, by number and by slice."""
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(x, 2, "a")
    t.minimize(tf.reduce_mean(tf.square(p - y)) + 0.1 * tf.reduce_sum(tf.square(p[0])) + 0.05 * tf.reduce_sum(tf.square(p[-1])),
               first=p[0], last=p[-1], two=p[:2], end=tf.gather(p, tf.shape(p)[0] - 1))


@graph
def rows_largest(t):
    """Extremes over the batch and where they are."""
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.reduce_sum(tf.square(dense(x, 2, "a") - y), 1)
    t.minimize(tf.reduce_mean(e) + 0.1 * tf.reduce_max(e) - 0.05 * tf.reduce_min(e), 0.02, largest=tf.reduce_max(e, keepdims=True), at=tf.argmax(e), least=tf.argmin(e),
               most=tf.reduce_max(x, 0), least_of=tf.reduce_min(x, 0), product=tf.reduce_prod(tf.sigmoid(e)), norm=tf.norm(e), any=tf.reduce_any(e > 1),
               all=tf.reduce_all(e > 0), best=tf.gather(x, tf.argmax(e)))


@graph
def rows_standardized(t):
    """Mean and deviation over the batch, biased and by n - 1."""
    x, y = t.rows("x", X), t.rows("y", T)
    h = dense(x, 3, "a", tf.tanh)
    mean, var = tf.nn.moments(h, [0])
    z = (h - mean) / tf.sqrt(var + 1e-3)
    unbiased = var * count(x) / tf.maximum(count(x) - 1.0, 1.0)
    t.minimize(tf.reduce_mean(tf.square(dense(z, 2, "b") - y)) + 0.01 * tf.reduce_sum(unbiased), unbiased=unbiased, deviation=tf.math.reduce_std(x),
               variance=tf.math.reduce_variance(x, 0))


@graph
def rows_weighted(t):
    """A mean over rows that count; there may be none of them."""
    x, y, w = t.rows("x", X), t.rows("y", Y), t.rows("w", (LENGTH > 3).astype("f"))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    n = tf.reduce_sum(w)
    t.minimize(tf.math.divide_no_nan(tf.reduce_sum(each * w), n), kept=n, share=n / count(x), some=tf.where(n > 0, n, tf.ones_like(n)),
               nonzero=tf.math.count_nonzero(w))


@graph
def rows_masked_out(t):
    """boolean_mask: a replica, or the batch, may have no row left."""
    x, y, keep = t.rows("x", X), t.rows("y", T), t.rows("keep", LENGTH > 2)
    p = dense(x, 2, "a")
    e = tf.reduce_sum(tf.square(tf.boolean_mask(p, keep) - tf.boolean_mask(y, keep)), 1)
    t.minimize(tf.reduce_sum(e) / tf.cast(tf.maximum(tf.shape(e)[0], 1), tf.float32), left=tf.shape(e)[0], left_size=tf.size(e))


@graph
def rows_in_cond(t):
    """A branch that depends on the number of rows."""
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.reduce_mean(tf.square(dense(x, 2, "a") - y))
    n = tf.shape(x)[0]
    t.minimize(tf.cond(n > 5, lambda: e, lambda: 0.5 * e), size=tf.where(n > 5, 1, 0))


@graph(v2=True)
def rows_in_cond_v2(t):
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.reduce_mean(tf.square(dense(x, 2, "a") - y))
    n = tf.shape(x)[0]
    t.minimize(tf.cond(n > 5, lambda: e, lambda: 0.5 * e), size=tf.where(n > 5, 1, 0))


@graph
def rows_scaled_rate(t):
    """The linear scaling rule: the rate by the number of rows."""
    x, y = t.rows("x", X), t.rows("y", Y)
    rate = 0.1 * count(x) / 10.0
    t.minimize(cross_entropy(mlp(x), y), optimizer=v1.train.GradientDescentOptimizer(rate), rate=rate)


@graph
def rows_noise(t):
    """Made for each row: zeros, ones, numbers, eyes."""
    x, y = t.rows("x", X), t.rows("y", T)
    n = tf.shape(x)[0]
    state = tf.zeros([n, 3]) + tf.fill([n, 1], 0.5) + tf.ones(tf.stack([n, 3])) * tf.cast(tf.range(n), tf.float32)[:, None] / count(x)
    p = dense(tf.concat([x, state], 1), 2, "a")
    t.minimize(tf.reduce_mean(tf.square(p - y)), 0.05, numbers=tf.range(n), line=tf.cast(tf.range(n), tf.float32) / count(x), eye=tf.eye(n))


@graph
def rows_broadcast(t):
    """A column, a row and a scalar beside the batch; broadcast_to; tile."""
    x, y = t.rows("x", X), t.rows("y", T)
    n = tf.shape(x)[0]
    h = dense(x, 2, "a") + variable("row", (1, 2)) + tf.broadcast_to(variable("b", (2,)), [n, 2]) + tf.tile(variable("c", (1, 2)), [n, 1])
    h = h * dense(x, 1, "scale", tf.sigmoid) + kept("s", ())
    t.minimize(tf.reduce_mean(tf.square(h - y)), 0.05)


@graph
def rows_gram(t):
    """Rows against rows, with a mask of the diagonal and the mean of what is off it."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = tf.math.l2_normalize(dense(x, 3, "a"), 1)
    g = tf.matmul(h, h, transpose_b=True)
    n = tf.shape(x)[0]
    same = tf.cast(tf.equal(y[:, None], y[None, :]), tf.float32) - tf.eye(n)
    off = 1 - tf.eye(n)
    pull = tf.math.divide_no_nan(tf.reduce_sum(tf.maximum(same, 0.0) * (1 - g)), tf.reduce_sum(tf.maximum(same, 0.0)))
    push = tf.math.divide_no_nan(tf.reduce_sum(off * tf.square(g)), tf.reduce_sum(off))
    t.minimize(pull + push, trace=tf.linalg.trace(g), rows=tf.shape(g))


@graph
def rows_against_mean(t):
    """Distances of rows to the mean row and to each other; a batch of one row is its own mean."""
    x, y = t.rows("x", X), t.rows("y", T)
    h = dense(x, 2, "a")
    d = tf.reduce_sum(tf.square(h[:, None, :] - h[None, :, :]), 2)
    c = h - tf.reduce_mean(h, 0, keepdims=True)
    cov = tf.matmul(c, c, transpose_a=True) / count(x)
    t.minimize(tf.reduce_mean(tf.square(h - y)) + 0.1 * tf.reduce_mean(tf.exp(-d)) + 0.1 * tf.reduce_sum(tf.square(cov)), cov=cov, near=tf.reduce_mean(d))


@graph
def rows_sorted(t):
    """Ranks, a median, quantiles by sorting the batch."""
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.reduce_sum(tf.square(dense(x, 2, "a") - y), 1)
    s = tf.sort(e)
    n = tf.shape(x)[0]
    t.minimize(tf.reduce_mean(e) + 0.1 * s[n // 2], 0.05, median=s[n // 2], top=tf.reduce_mean(tf.math.top_k(e, tf.minimum(n, 3))[0]), ranks=tf.argsort(e))


@graph
def rows_segments(t):
    """Sums and means by class; some classes have no row."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 3, "a", tf.tanh)
    total, n = tf.math.unsorted_segment_sum(h, y, 4), tf.math.unsorted_segment_sum(tf.ones_like(y), y, 4)
    mean = total / tf.cast(tf.maximum(n, 1), tf.float32)[:, None]
    t.minimize(tf.reduce_mean(tf.square(h - tf.gather(mean, y))) + 0.1 * cross_entropy(dense(h, 4, "b"), y), counts=n, most=tf.math.unsorted_segment_max(h, y, 4),
               histogram=tf.reduce_sum(tf.one_hot(y, 4), 0))


@graph
def rows_packed(t):
    """Two views stacked along the rows, and taken apart again."""
    x, y = t.rows("x", X), t.rows("y", Y)
    both = tf.concat([x, -x], 0)
    h = dense(both, 4, "a", tf.tanh)
    a, b = tf.split(h, 2)
    n = tf.shape(x)[0]
    t.minimize(cross_entropy(a, y) + 0.1 * tf.reduce_mean(tf.square(a + b)) + 0.01 * tf.reduce_mean(tf.square(h[:n])), both=tf.shape(both)[0])


@graph
def rows_of_pairs(t):
    """Two rows of the flat batch for each row of it."""
    x, y = t.rows("x", X), t.rows("y", Y)
    pairs = tf.reshape(x, [-1, 4])
    h = dense(pairs, 3, "a", tf.tanh)
    logits = dense(tf.reshape(h, [-1, 6]), 4, "b")
    t.minimize(cross_entropy(logits, y) + 0.1 * tf.reduce_mean(tf.square(h)), rows=tf.shape(pairs)[0], mean=tf.reduce_mean(h, 0))


@graph
def rows_accuracy(t):
    """Fetched numbers of the batch: a rate, counts, a confusion matrix."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
    t.minimize(cross_entropy(logits, y), accuracy=accuracy(logits, y), right=tf.reduce_sum(tf.cast(right, tf.int32)), percent=100.0 * tf.reduce_sum(tf.cast(right, tf.float32)) / count(x),
               confusion=tf.math.confusion_matrix(y, tf.argmax(logits, 1), 4), logits=logits, labels=y)


@graph
def rows_clipped(t):
    """Gradients clipped by their global norm, of a loss that is a sum divided by the rows."""
    x, y = t.rows("x", X), t.rows("y", Y)
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))) / count(x)
    step, optimizer = v1.train.get_or_create_global_step(), v1.train.MomentumOptimizer(0.1, 0.9)
    grads, vs = zip(*optimizer.compute_gradients(loss))
    grads, norm = tf.clip_by_global_norm(grads, 0.5)
    t.fetch(norm=norm)
    t.train(loss, optimizer.apply_gradients(zip(grads, vs), global_step=step))


@graph
def rows_moving(t):
    """A moving average of a mean, weighted by the rows; a maximum that is kept."""
    x, y = t.rows("x", X), t.rows("y", T)
    e = tf.square(dense(x, 2, "a") - y)
    mean, total, most = kept("mean", (2,)), kept("total", ()), kept("most", (2,))
    n = count(x)
    share = n / (total + n)
    with tf.control_dependencies([share]):
        for op in (v1.assign_add(mean, share * (tf.reduce_mean(e, 0) - mean)), v1.assign(most, tf.maximum(most, tf.reduce_max(e, 0)))):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, op)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(total, n))
    t.minimize(tf.reduce_mean(e), 0.05, share=share)


@graph
def rows_loop(t):
    """A loop over steps whose state has the rows, with a length by the longest row."""
    x, y, length = t.rows("x", SEQ), t.rows("y", Y), t.rows("length", LENGTH)
    kernel = variable("kernel", (8, 3))
    longest = tf.reduce_max(length)

    def step(i, h):
        new = tf.tanh(tf.matmul(tf.concat([x[:, i], h], 1), kernel))
        return i + 1, tf.where((i < length)[:, None], new, h)

    _, h = tf.while_loop(lambda i, h: i < longest, step, (0, tf.zeros([tf.shape(x)[0], 3])), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))
    t.minimize(cross_entropy(dense(h, 4, "out"), y), longest=longest, mean=tf.reduce_mean(length))


@graph
def rows_integers(t):
    """Integers of rows: their sum, mean, largest and how many differ."""
    x, y, n = t.rows("x", X), t.rows("y", Y), t.rows("n", LENGTH)
    t.minimize(cross_entropy(mlp(x), y), total=tf.reduce_sum(n), mean=tf.reduce_mean(n), most=tf.reduce_max(n), least=tf.reduce_min(n), different=tf.size(tf.unique(n)[0]),
               sorted=tf.sort(n), where=tf.shape(tf.where(n > 3))[0])


@graph
def rows_searched(t):
    """Places of rows among all rows, as tf.searchsorted finds them: by way of one row that has the whole batch; and other such reshapes."""
    x, y, target = t.rows("x", X), t.rows("y", Y), t.rows("target", T)
    score = dense(x, 1, "score")[:, 0]
    each = tf.cast(tf.searchsorted(tf.sort(score), score) + tf.searchsorted(tf.sort(target[:, 0]), target[:, 1], side="right"), tf.float32)
    n = tf.shape(score)[0]
    line, plane = tf.sort(tf.reshape(score, [-1, n])), tf.reshape(tf.cumsum(x), [-1, n, 8])
    t.minimize(cross_entropy(mlp(x), y) + 0.01 * tf.reduce_mean(score * each), places=each, line=line, again=tf.reshape(line, [n]), plane=tf.reshape(plane, [n, 8]))


@graph
def rows_rounded(t):
    """Numbers of rows that are worked out in floats and rounded: for the hardest 70 %, for warm-up, for a threshold."""
    x, y = t.rows("x", X), t.rows("y", Y)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    most, n = tf.cast(count(x) * 0.7, tf.int32), count(x)
    hard = tf.reduce_mean(tf.nn.top_k(each, tf.maximum(most, 1))[0])
    t.minimize(hard + 0.01 * tf.floor(n * 0.9) * tf.reduce_mean(each), most=most, tenths=tf.floor(n / 0.1), above=tf.cast(n * 0.7 >= 7.0, tf.float32), share=tf.round(100.0 / n))


def n_is_large(x):
    return tf.shape(x)[0] > 4


@graph
def rows_in_bins(t):
    """A histogram, which the first replica makes of all rows, as a term beside sums of rows."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 1, "score")[:, 0]
    bins = tf.cast(tf.histogram_fixed_width(tf.stop_gradient(h), [-1.0, 1.0], 4), tf.float32) / 8.0
    spread = tf.reduce_mean(tf.square(bins - 0.3))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    t.minimize(tf.add_n([spread, 0.1 * tf.reduce_sum(each), tf.reduce_logsumexp(h)]), 0.01, bins=bins, beside=tf.reduce_sum(tf.square(h)) + spread,
               less=spread - tf.nn.l2_loss(h), chosen=tf.where(n_is_large(x), spread, tf.reduce_sum(h)))

