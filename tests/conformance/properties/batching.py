"""Specs of requests that are joined to batches: ops/batching.def.

Each case is a program whose requests are placeholders' values, so that nothing is computed before it runs. Requests of one step that are
joined fill their batch: then it does not depend on the time how many are in it. Which of them is the last is left to chance, in
TensorFlow too, so that only what is the same for any order is compared. Numbers of requests are random: compared is where they stand.

Left out: functions with more results than the node has outputs (TensorFlow says INTERNAL, Weft INVALID_ARGUMENT); batch indices of another
rank than 2, and with negative numbers of rows, on which TensorFlow aborts; allowed sizes that are not positive.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec

raw = tf.raw_ops
v1 = tf.compat.v1
DTYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.string, tf.complex64, tf.uint8)
LONG = 20_000_000  # microseconds: never, in a test


def concrete(f, *types):
    return tf.function(f, autograph=False).get_concrete_function(*(tf.TensorSpec(None, t) for t in types))


def own(d, what=""):
    """The name of something of this case alone: servers keep it."""
    return f"{d.op}_{d.number}{what}"


def sizes(d, most):
    """Allowed sizes that end with `most`, mostly."""
    if d.chance(0.5):
        return []
    some = sorted({d.int(1, max(1, most)) for _ in range(d.int(0, 2))} | {most})
    if d.chance(0.1):
        some = some[::-1] if d.chance(0.5) else [*some, most + 1]
    return some


def options(d, most, **more):
    chosen = dict(
        num_batch_threads=d.one(1, 1, 3) if d.chance(0.95) else d.one(0, -1),
        max_batch_size=most,
        batch_timeout_micros=d.one(0, 500) if d.chance(0.97) else -1,
        max_enqueued_batches=d.one(1, 10) if d.chance(0.95) else 0,
        allowed_batch_sizes=sizes(d, most),
        batching_queue=d.one("", "q"),
        **{d.one("shared_name", "name"): own(d)},
    )
    return {**chosen, **more}


def inputs(d, rows):
    """Some values of `rows` rows; sometimes one of another number, or a scalar."""
    values = [d.values(t := d.one(*DTYPES), (rows, *d.shape(max_rank=2, max_dim=3))) for _ in range(d.int(1, 3))]
    if d.chance(0.05):
        values[-1] = d.values(t, (rows + 1,))
    return values


def ports_of(values):
    return [v1.placeholder(tf.as_dtype(np.asarray(v).dtype) if np.asarray(v).dtype.kind not in "OSU" else tf.string) for v in values]


def without_numbers(values):
    """What Batch gave, but for the request's number."""
    *joined, index, number = values
    index = np.asarray(index)
    where = index[:, 1:] if index.ndim == 2 else index
    return [*joined, where, index[:, 0] == number if index.ndim == 2 else index, np.shape(number)]


@spec("Batch")
def batch(d):
    rows = d.int(0, 4)
    values = inputs(d, rows)
    attrs = options(d, d.int(max(1, rows - 1), rows + 2), grad_timeout_micros=100)

    def build():
        ports = ports_of(values)
        y = raw.Batch(in_tensors=ports, **attrs)
        return [([*y.batched_tensors, y.batch_index, y.id], dict(zip(ports, values)))] * 2

    return Program(d.op, build, seen=without_numbers)


def body(d):
    """Of the first of some tensors; the others are given back. It shows how many rows are in the batch."""
    wrong = d.one("scalar", "short", "fails") if d.chance(0.12) else ""

    def f(x, *others):
        size = tf.shape(x)[:1]
        if wrong == "scalar":
            return (size[0], *others)
        if wrong == "short":
            return (size, *others)
        if wrong == "fails":
            return (tf.reshape(x, [7, 11, 13]), *others)
        return (tf.tile(size, size), *(tf.identity(o) for o in others))

    return f


@spec("BatchFunction")
def batch_function(d):
    if d.chance(0.4):
        return d.one(joined, joined, left)(d)
    rows = d.int(0, 5)
    values = inputs(d, rows)
    splits = d.chance(0.4)
    most = d.int(max(1, rows - 1), rows + 2)
    attrs = options(d, most, enable_large_batch_splitting=splits)
    if splits and d.chance(0.7):
        attrs["allowed_batch_sizes"] = sorted({d.int(1, most) for _ in range(2)})
    if d.chance(0.2):
        attrs.update(low_priority_max_batch_size=2, low_priority_batch_timeout_micros=10, low_priority_allowed_batch_sizes=[2], low_priority_max_enqueued_batches=3)
    attrs.update(mixed_priority_policy=d.one("low_priority_padding_with_max_batch_size", "priority_isolation", "priority_merge"))
    f = body(d)
    captured = d.values(tf.float32, d.shape(max_rank=1)) if d.chance(0.3) else None

    def build():
        ports = ports_of(values)
        more = [] if captured is None else [v1.placeholder(tf.float32)]
        g = f if captured is None else lambda x, *o: (*f(x, *o[:-1])[:-1], f(x, *o[:-1])[-1]) if o else f(x)
        feeds = dict(zip(ports, values))
        if more:
            feeds[more[0]] = captured
        y = raw.BatchFunction(in_tensors=ports, captured_tensors=more, Tout=[tf.int32, *(p.dtype for p in ports[1:])], f=concrete(g, *(p.dtype for p in [*ports, *more])), **attrs)
        return [(list(y), feeds)] * 2

    return Program(d.op, build)


def joined(d):
    """Two or three requests of a step that fill a batch."""
    shape = d.shape(max_rank=2, max_dim=3)
    values = [d.values(tf.float32, (d.int(1, 3), *shape), special=0) for _ in range(d.int(2, 3))]
    if d.chance(0.1):
        values[0] = d.values(tf.float32, (len(values[0]), *shape, 2), special=0)
    most = sum(len(v) for v in values)
    padded = most + d.one(0, 0, 2)
    fails = d.chance(0.1)

    def build():
        ports = [v1.placeholder(tf.float32) for _ in values]

        def f(x, c):
            rows = tf.shape(x)[0]
            return (tf.reshape(x, [77]) if fails else x + c, tf.zeros([rows], tf.int32) + rows)

        g = concrete(f, tf.float32, tf.float32)
        ys = [
            raw.BatchFunction(
                in_tensors=[p],
                captured_tensors=[tf.constant(2.0)],
                Tout=[tf.float32, tf.int32],
                f=g,
                num_batch_threads=1,
                max_batch_size=padded,
                batch_timeout_micros=LONG if padded == most else 300_000,
                allowed_batch_sizes=[padded],
                shared_name=own(d),
            )
            for p in ports
        ]
        return [([t for y in ys for t in y], dict(zip(ports, values)))] * 2

    return Program(d.op, build)


def left(d):
    """Requests of one size whose batch gets old: what is more than an allowed size may be left to the next one."""
    rows, n = d.int(1, 2), d.int(2, 4)
    allowed = [rows * d.int(1, n), rows * n + d.int(1, 3)]
    policy = d.one("BATCH_DOWN", "BATCH_DOWN", "PAD_UP", "MINIMIZE_TPU_COST_PER_REQUEST")
    splits = d.chance(0.7)

    def build():
        ports = [v1.placeholder(tf.float32, [rows]) for _ in range(n)]
        f = concrete(lambda x: tf.zeros([tf.shape(x)[0]], tf.int32) + tf.shape(x)[0], tf.float32)
        same = dict(
            num_batch_threads=1,
            max_batch_size=allowed[-1],
            batch_timeout_micros=200_000,
            allowed_batch_sizes=allowed,
            enable_large_batch_splitting=splits,
            batch_padding_policy=policy,
            shared_name=own(d),
        )
        ys = [raw.BatchFunction(in_tensors=[p], captured_tensors=[], Tout=[tf.int32], f=f, **same)[0] for p in ports]
        return [(ys, {p: np.full(rows, i) for i, p in enumerate(ports)})]

    return Program(d.op, build, seen=lambda sizes: [sorted(map(tuple, sizes))])


@spec("Unbatch")
def unbatch(d):
    return d.one(through_batch, from_hand)(d)


def through_batch(d):
    """Requests joined by Batch and taken apart again."""
    shape = d.shape(max_rank=2, max_dim=3)
    dtype = d.one(*DTYPES)
    values = [d.values(dtype, (d.int(1, 3), *shape)) for _ in range(d.int(1, 3))]
    most = sum(len(v) for v in values)

    def build():
        ports = [v1.placeholder(dtype) for _ in values]
        ys = []
        for p in ports:
            b = raw.Batch(in_tensors=[p], num_batch_threads=1, max_batch_size=most, batch_timeout_micros=LONG, grad_timeout_micros=LONG, allowed_batch_sizes=[most], shared_name=own(d, "b"))
            ys.append(raw.Unbatch(batched_tensor=b.batched_tensors[0], batch_index=b.batch_index, id=b.id, timeout_micros=LONG, shared_name=own(d, "u")))
        return [(ys, dict(zip(ports, values)))] * 2

    return Program(d.op, build)


def indices(d, keys, rows):
    """Where the rows of each key are in a batch of `rows` rows or a few less."""
    cuts = sorted(d.int(0, rows) for _ in range(len(keys)))
    begin = [0, *cuts[:-1]]
    return np.asarray([[k, b, e] for k, b, e in zip(keys, begin, cuts)], np.int64).reshape(-1, 3)


def from_hand(d):
    """One step leaves a tensor for the next; keys that are not there; wrong shapes."""
    rows = d.int(2, 5)
    data = d.values(d.one(*DTYPES[:5]), (rows, *d.shape(max_rank=2, max_dim=3)))
    index = indices(d, [5, -7], rows)
    trouble = d.one("late", "again", "scalar", "index", "rows", "sum") if d.chance(0.4) else ""
    if trouble == "index":
        index = index[:, :2]
    if trouble == "rows":
        index = np.concatenate([index] * 3)
    if trouble == "sum":
        index[1, 2] += rows
    nothing = np.zeros((0, 3), np.int64)

    def build():
        x, i, number = v1.placeholder(tf.as_dtype(data.dtype)), v1.placeholder(tf.int64), v1.placeholder(tf.int64)
        y = raw.Unbatch(batched_tensor=x, batch_index=i, id=number, timeout_micros=2000 if trouble == "late" else LONG, shared_name=own(d, "u"))
        first = np.int64(9 if trouble == "late" else 5)
        steps = [(y, {x: data, i: index, number: [first] if trouble == "scalar" else first})]
        if trouble in ("", "again"):
            steps.append((y, {x: data, i: index if trouble == "again" else nothing, number: np.int64(-7)}))
        return steps

    return Program(d.op, build)


@spec("UnbatchGrad")
def unbatch_grad(d):
    shape = d.shape(max_rank=2, max_dim=3)
    dtype = d.one(*DTYPES[:5])
    grads = [d.values(dtype, (d.int(0, 3), *shape)) for _ in range(d.int(1, 3))]
    trouble = d.one("scalar", "empty", "index", "twice", "shape", "key") if d.chance(0.3) else ""
    keys = list(range(3, 3 + len(grads)))
    index = np.asarray([[k, 0, 1] for k in keys], np.int64)
    data = d.values(dtype, (2,))
    if trouble == "empty":
        index = index[:0]
    if trouble == "index":
        index = index[:, :2]
    if trouble == "key":  # a number twice
        index = np.concatenate([index, index[:1]])
    if trouble == "shape":
        grads[-1] = grads[-1][..., None]

    def build():
        steps, feeds, ys = [], {}, []
        for at, (key, grad) in enumerate(zip(keys, grads)):
            x, i, g, number = v1.placeholder(dtype), v1.placeholder(tf.int64), v1.placeholder(dtype), v1.placeholder(tf.int64)
            ys.append(raw.UnbatchGrad(original_input=x, batch_index=i, grad=g, id=number, shared_name=own(d, "u")))
            fed = {x: data if at == 0 else data[:0], i: index if at == 0 else index[:0], g: grad, number: [np.int64(key)] if trouble == "scalar" else np.int64(key)}
            feeds.update(fed)
            if at > 0 and trouble:
                steps.append((ys[-1], fed))
        if not trouble:
            return [(ys, feeds)] * 2
        first = dict(list(feeds.items())[:4])
        return [*steps, *(steps if trouble == "twice" else []), (ys[0], first)]

    return Program(d.op, build)
