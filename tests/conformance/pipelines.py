"""Pipelines as people write them, for test_datasets. A program returns a data set; TensorFlow's answer is the right one."""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

D = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE
ALL = {}


@dataclasses.dataclass
class Program:
    build: typing.Callable
    passes: int = 3
    any_order: bool = False  # TensorFlow does not define the order
    may_be_empty: bool = False


def pipeline(function=None, name=None, **options):
    """Marks a function that returns a data set; a nameless one needs a name."""

    def note(f):
        ALL[name or f.__name__] = Program(f, **options)
        return f

    return note(function) if function else note


# ---- sources ----


@pipeline
def range_up():
    return D.range(3, 20, 4)


@pipeline
def range_down():
    return D.range(5, -6, -3)


@pipeline(may_be_empty=True)
def range_empty():
    return D.range(5, 5)


@pipeline
def range_int32():
    return D.range(7, output_type=tf.int32)


@pipeline
def range_float():
    return D.range(7, output_type=tf.float32)


@pipeline
def tensors():
    return D.from_tensors((np.arange(6, dtype="f").reshape(2, 3), b"text", [True, False]))


@pipeline
def slices():
    return D.from_tensor_slices({"a": np.arange(12, dtype="f").reshape(4, 3), "b": [b"w", b"x", b"", b"z"], "c": np.arange(4)})


@pipeline
def slices_nested():
    return D.from_tensor_slices(((np.arange(3), np.ones([3, 2])), {"x": [[1], [2], [3]]}))


# ---- choosing and joining ----


@pipeline
def take():
    return D.range(10).take(4)


@pipeline
def take_all():
    return D.range(4).take(-1)


@pipeline
def skip():
    return D.range(10).skip(7)


@pipeline
def repeat():
    return D.range(3).repeat(4)


@pipeline
def repeat_forever():
    return D.range(3).repeat().take(11)


@pipeline(may_be_empty=True)
def repeat_nothing_forever():
    return D.range(0).repeat()


@pipeline
def shard():
    return D.range(11).shard(3, 1)


@pipeline
def concatenate():
    return D.range(3).concatenate(D.range(10, 12)).concatenate(D.range(0)).concatenate(D.range(5, 6))


@pipeline
def zipped():
    return D.zip((D.range(5), D.range(10, 20), D.from_tensor_slices([b"a", b"b", b"c"])))


# ---- functions ----


@pipeline
def mapped():
    return D.range(6).map(lambda x: (x * x, tf.strings.as_string(x)))


@pipeline
def mapped_in_parallel():
    return D.range(50).map(lambda x: x * 2 + 1, num_parallel_calls=4)


@pipeline
def mapped_with_autotune():
    return D.range(50).map(lambda x: tf.reduce_sum(tf.range(x)), num_parallel_calls=AUTOTUNE)


@pipeline(any_order=True)
def mapped_in_any_order():
    return D.range(50).map(lambda x: x + 1, num_parallel_calls=4, deterministic=False)


@pipeline
def filtered():
    return D.range(20).filter(lambda x: tf.equal(x % 3, 1))


@pipeline
def flat_mapped():
    return D.range(5).flat_map(lambda x: D.range(x).map(lambda y: x * 10 + y))


@pipeline
def interleaved():
    return D.range(6).interleave(lambda x: D.from_tensors(x).repeat(x), cycle_length=3, block_length=2)


@pipeline
def captured():
    table = tf.constant([5, 7, 9], tf.int64)
    offset = tf.constant(100, tf.int64)
    return D.range(3).map(lambda x: tf.gather(table, x) + offset)


@pipeline
def errors_in_a_map():
    return D.range(5).map(lambda x: tf.debugging.check_numerics(tf.where(tf.equal(x, 2), np.float32("nan"), 1.0), "bad") + tf.cast(x, tf.float32))


@pipeline
def errors_in_a_parallel_map():
    return D.range(5).map(
        lambda x: tf.debugging.check_numerics(tf.where(tf.equal(x, 2), np.float32("nan"), 1.0), "bad") + tf.cast(x, tf.float32), num_parallel_calls=2
    )


@pipeline
def conditions_and_loops():
    def f(x):
        y = tf.while_loop(lambda i, a: i < x, lambda i, a: (i + 1, a + i), [tf.constant(0, tf.int64), tf.constant(0, tf.int64)])[1]
        return tf.cond(tf.equal(x % 2, 0), lambda: y, lambda: -y)

    return D.range(8).map(f)


# ---- order ----


@pipeline
def shuffled():
    return D.range(40).shuffle(7, seed=3)


@pipeline
def shuffled_whole():
    return D.range(40).shuffle(100, seed=5)


@pipeline
def shuffled_the_same_each_time():
    return D.range(20).shuffle(8, seed=3, reshuffle_each_iteration=False).repeat(2)


@pipeline
def shuffled_then_repeated():
    return D.range(12).shuffle(5, seed=11).repeat(3)


@pipeline
def repeated_then_shuffled():
    return D.range(12).repeat(3).shuffle(7, seed=11)


@pipeline
def shuffled_twice():
    return D.range(30).shuffle(5, seed=1).map(lambda x: x * 3).shuffle(9, seed=2)


@pipeline
def shuffled_with_the_graphs_seed():
    return D.range(30).shuffle(10)


# ---- batches ----


@pipeline
def batched():
    return D.range(10).batch(4)


@pipeline
def batched_without_remainder():
    return D.range(10).batch(4, drop_remainder=True)


@pipeline
def batched_whole():
    return D.from_tensor_slices((np.arange(20, dtype="f").reshape(10, 2), [b"x"] * 10)).batch(10**9)


@pipeline
def batches_of_batches():
    return D.range(30).batch(3).batch(4)


@pipeline
def batches_that_do_not_fit():
    return D.range(1, 9).map(lambda x: tf.range(x // 3)).batch(3)


@pipeline
def prefetched():
    return D.range(20).map(lambda x: x + 1).prefetch(3)


@pipeline
def prefetched_with_autotune():
    return D.range(20).batch(3).prefetch(AUTOTUNE)


@pipeline
def the_usual_way():
    x = np.arange(200, dtype="f").reshape(50, 4)
    return (
        D.from_tensor_slices((x, np.arange(50)))
        .shuffle(20, seed=4)
        .map(lambda a, b: (a / 2, tf.one_hot(b % 5, 5)), num_parallel_calls=AUTOTUNE)
        .batch(8)
        .repeat(2)
        .prefetch(AUTOTUNE)
    )
