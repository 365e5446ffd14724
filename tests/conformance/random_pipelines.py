"""Pipelines drawn at random, for test_datasets: a source, then some transformations, each fit for the elements before it.

Left out is what TensorFlow itself crashes on, or never ends: a shard of what fails, and errors ignored behind a wrong cardinality. A
case is a function of its number alone. Numbers are whole or halves, so that sums are exact in any order.
"""

import random

import numpy as np
import tensorflow as tf

D = tf.data.Dataset
SEED = 20251125
STAGES = []


def stage(fits=lambda d: True):
    """Marks a function (draw, data set) -> data set, and for which data sets it can be used."""

    def note(f):
        STAGES.append((fits, f))
        return f

    return note


# ---- elements ----


def leaves(d):
    return tf.nest.flatten(d.element_spec)


def all_tensors(d):
    return all(type(s) is tf.TensorSpec for s in leaves(d))


def has_static_shapes(d):
    return all_tensors(d) and all(s.shape.is_fully_defined() for s in leaves(d))


def is_single(d):
    return type(d.element_spec) is tf.TensorSpec


def is_scalar(d):
    return is_single(d) and d.element_spec.shape.rank == 0


def has_rows(d):
    """Without rows of size zero, on which TensorFlow's unbatch crashes."""
    return all_tensors(d) and all(s.shape.rank is not None and s.shape.rank > 0 and 0 not in s.shape.as_list() for s in leaves(d))


def has_ranks(d):
    return all_tensors(d) and all(s.shape.rank is not None for s in leaves(d))


def number(parts):
    """An int64 that depends on all of the element's values."""
    total = tf.constant(0, tf.int64)
    for part in tf.nest.flatten(parts):
        if isinstance(part, tf.RaggedTensor):
            part = part.flat_values
        if isinstance(part, tf.SparseTensor):
            part = part.values
        if part.dtype == tf.string:
            part = tf.strings.length(part)
        total += tf.cast(tf.reduce_sum(tf.cast(part, tf.float32) * 2), tf.int64) + tf.size(part, tf.int64)
    return total


def arguments(parts):
    """The element of which a function with *parts gets the components."""
    return parts[0] if len(parts) == 1 else parts


# ---- sources ----


def array(draw, rows):
    shape = [rows] + [draw.randint(0, 3) for _ in range(draw.randint(0, 2))]
    kind = draw.choice(["i8", "i4", "f4", "f8", "b", "u1", "S"])
    values = np.array([draw.randint(0, 20) for _ in range(int(np.prod(shape)))], dtype="i8").reshape(shape)
    if kind == "S":
        return np.array([b"w" * v for v in values.ravel()], dtype=object).reshape(shape)
    if kind == "b":
        return values % 2 == 0
    return values.astype(kind) / 2 if kind[0] == "f" else values.astype(kind)


def source(draw):
    rows = draw.choice([0, 1, 2, 5, 7, 10, 13])
    kind = draw.randrange(6)
    if kind == 0:
        return D.range(draw.randint(-3, 3), draw.randint(4, 20), draw.randint(1, 4))
    if kind == 1:
        return D.from_tensors(array(draw, draw.randint(1, 4))).repeat(draw.randint(0, 5))
    if kind == 2:
        return D.random(seed=draw.randint(1, 9)).take(rows).map(lambda x: x % 100)
    if kind == 3:
        return D.from_tensor_slices({"a": array(draw, rows), "b": array(draw, rows)})
    if kind == 4:
        return D.from_tensor_slices((array(draw, rows), (array(draw, rows), array(draw, rows))))
    return D.from_tensor_slices(array(draw, rows))


# ---- transformations ----


@stage()
def take(draw, d):
    return d.take(draw.randint(-1, 8))


@stage()
def skip(draw, d):
    return d.skip(draw.randint(-1, 4) if draw.random() < 0.2 else draw.randint(0, 4))


@stage()
def repeat(draw, d):
    return d.repeat(draw.randint(0, 3))


@stage()
def shuffle(draw, d):
    return d.shuffle(draw.randint(1, 9), seed=draw.randint(0, 5), reshuffle_each_iteration=draw.choice([True, False, None]))


@stage()
def prefetch(draw, d):
    return d.prefetch(draw.randint(0, 3))


@stage()
def cache(draw, d):
    return d.cache()


@stage()
def enumerate_(draw, d):
    return d.enumerate(draw.randint(0, 5))


@stage(has_static_shapes)
def batch(draw, d):
    return d.batch(draw.randint(1, 4), drop_remainder=draw.random() < 0.4)


@stage(all_tensors)
def batch_of_any_shape(draw, d):
    """Shapes that differ in a batch are an error."""
    return d.batch(draw.randint(1, 3), num_parallel_calls=draw.choice([None, 2]), deterministic=True)


@stage(has_ranks)
def padded_batch(draw, d):
    return d.padded_batch(draw.randint(1, 4), drop_remainder=draw.random() < 0.4)


@stage(lambda d: all_tensors(d) and not any(s.dtype == tf.bool for s in leaves(d)))
def ragged_batch(draw, d):
    return d.ragged_batch(draw.randint(1, 4), drop_remainder=draw.random() < 0.3)


@stage(has_rows)
def unbatch(draw, d):
    return d.unbatch()


@stage(has_static_shapes)
def rebatch(draw, d):
    return d.batch(draw.randint(1, 3)).rebatch(draw.randint(1, 4), drop_remainder=draw.random() < 0.3)


@stage()
def filter_(draw, d):
    n = draw.randint(2, 3)
    return d.filter(lambda *parts: tf.equal(number(parts) % n, 0))


@stage()
def map_to_number(draw, d):
    calls = draw.choice([None, 2, 3])
    return d.map(lambda *parts: number(parts), num_parallel_calls=calls, deterministic=True if calls else None)


@stage()
def map_beside(draw, d):
    calls = draw.choice([None, 2])
    return d.map(lambda *parts: (arguments(parts), number(parts)), num_parallel_calls=calls, deterministic=True if calls else None)


@stage()
def map_to_ragged_length(draw, d):
    n = draw.randint(1, 5)
    return d.map(lambda *parts: tf.range(number(parts) % n))


@stage()
def map_that_fails(draw, d):
    n = draw.randint(2, 5)

    def checked(*parts):
        with tf.control_dependencies([tf.debugging.assert_none_equal(number(parts) % n, tf.constant(1, tf.int64))]):
            return tf.identity(number(parts))

    d = d.map(checked)
    return d.ignore_errors() if draw.random() < 0.6 else d


@stage()
def map_with_a_condition(draw, d):
    return d.map(lambda *parts: tf.cond(tf.greater(number(parts), 9), lambda: number(parts) * 2, lambda: -number(parts)))


@stage()
def map_with_a_loop(draw, d):
    steps = draw.randint(0, 4)

    def many(*parts):
        return tf.while_loop(lambda i, s: i < steps, lambda i, s: (i + 1, s + tf.cast(i, tf.int64)), [tf.constant(0), number(parts)])[1]

    return d.map(many)


@stage()
def flat_map(draw, d):
    n = draw.randint(1, 3)
    return d.flat_map(lambda *parts: D.from_tensors(arguments(parts)).repeat(number(parts) % n))


@stage()
def interleave(draw, d):
    calls = draw.choice([None, 2])
    return d.interleave(
        lambda *parts: D.range(number(parts) % 4).map(lambda i: (i, number(parts))),
        cycle_length=draw.randint(1, 4),
        block_length=draw.randint(1, 3),
        num_parallel_calls=calls,
        deterministic=True if calls else None,
    )


@stage()
def zip_(draw, d):
    n = draw.randint(0, 4)
    return D.zip((d, d.skip(n)))


@stage()
def concatenate(draw, d):
    return d.concatenate(d.take(draw.randint(0, 3)))


@stage(has_static_shapes)
def windows(draw, d):
    size = draw.randint(1, 4)
    w = d.map(lambda *parts: number(parts)).window(size, draw.randint(1, 3), draw.randint(1, 2), draw.random() < 0.5)
    return w.flat_map(lambda x: x.batch(size))


@stage()
def scan(draw, d):
    return d.scan(tf.constant(0, tf.int64), lambda s, *parts: (s + number(parts), (arguments(parts), s)))


@stage()
def take_while(draw, d):
    n = draw.randint(5, 60)
    return d.take_while(lambda *parts: number(parts) < n)


@stage(lambda d: is_scalar(d) and d.element_spec.dtype in (tf.int32, tf.int64, tf.string))
def unique(draw, d):
    return d.unique()


@stage(has_static_shapes)
def group_by_window(draw, d):
    n, size = draw.randint(1, 3), draw.randint(1, 4)
    return d.group_by_window(lambda *parts: number(parts) % n, lambda key, group: group.batch(size), window_size=size)


@stage(lambda d: is_single(d) and d.element_spec.shape.rank == 1)
def bucket(draw, d):
    return d.bucket_by_sequence_length(
        lambda x: tf.size(x), [2, 4], [draw.randint(1, 3) for _ in range(3)], drop_remainder=draw.random() < 0.3, no_padding=False
    )


@stage()
def choose(draw, d):
    choices = D.from_tensor_slices(np.array([draw.randint(0, 1) for _ in range(draw.randint(0, 9))], "i8"))
    return D.choose_from_datasets([d, d.skip(1)], choices, stop_on_empty_dataset=draw.random() < 0.5)


@stage()
def sample(draw, d):
    return D.sample_from_datasets([d, d.take(3)], [0.3, 0.7], seed=draw.randint(0, 9), stop_on_empty_dataset=draw.random() < 0.5)


@stage()
def reduce(draw, d):
    total = d.reduce(tf.constant(0, tf.int64), lambda s, *parts: s + number(parts))
    return D.from_tensors(total).concatenate(D.range(2))


@stage()
def cardinality(draw, d):
    return D.from_tensors(d.cardinality()).concatenate(D.range(1))


@stage()
def drawn_numbers(draw, d):
    seeds = draw.randint(0, 9)
    return d.map(lambda *parts: (arguments(parts), tf.random.stateless_uniform([2], [seeds, number(parts)], 0, 100, tf.int32)))


# ---- a case ----


def build(case):
    """A data set, and the names of its stages."""
    draw = random.Random(SEED + case)
    d, names = source(draw), []
    for _ in range(draw.randint(1, 7)):
        fitting = [f for fits, f in STAGES if fits(d)]
        f = draw.choice(fitting)
        try:
            d = f(draw, d)
        except (TypeError, ValueError):  # what Python refuses is no pipeline
            continue
        names.append(f.__name__)
    if draw.random() < 0.1:
        d = d.apply(tf.data.experimental.assert_cardinality(draw.randint(0, 8)))
    return d, names
