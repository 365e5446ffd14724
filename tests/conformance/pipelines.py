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


# ---- batches of other kinds ----


@pipeline
def padded():
    return D.range(1, 10).map(lambda x: tf.range(x)).padded_batch(4)


@pipeline
def padded_to_shapes():
    return D.range(1, 7).map(lambda x: (tf.fill([x, 2], x), tf.strings.as_string(tf.range(x)))).padded_batch(
        3, padded_shapes=([8, 3], [None]), padding_values=(tf.constant(-1, tf.int64), "pad"), drop_remainder=True
    )


@pipeline
def padded_too_small():
    return D.range(1, 7).map(lambda x: tf.range(x)).padded_batch(2, padded_shapes=[3])


@pipeline
def padded_of_another_rank():
    return D.range(2).map(lambda x: tf.reshape(tf.range(4), tf.concat([tf.fill([x], tf.constant(2, tf.int64)), [-1]], 0))).padded_batch(
        2, padded_shapes=[None]
    )


@pipeline
def unbatched():
    return D.from_tensor_slices((np.arange(24, dtype="f").reshape(4, 3, 2), np.arange(12).reshape(4, 3))).unbatch()


@pipeline
def unbatched_of_many_sizes():
    return D.range(6).map(lambda x: tf.range(x)).unbatch()


@pipeline
def rebatched():
    return D.range(20).batch(6).rebatch(4)


@pipeline
def rebatched_by_turns():
    return D.range(23).batch(6).rebatch([4, 0, 3], drop_remainder=False)


@pipeline
def rebatched_without_remainder():
    return D.range(23).batch(6).rebatch([5, 2], drop_remainder=True)


@pipeline
def ragged_batches():
    return D.range(1, 8).map(lambda x: tf.range(x)).ragged_batch(3)


@pipeline
def sparse_batches():
    return D.range(1, 8).map(lambda x: tf.range(x)).apply(tf.data.experimental.dense_to_sparse_batch(3, [10]))


@pipeline
def map_and_batch():
    return D.range(20).apply(tf.data.experimental.map_and_batch(lambda x: (x, x * x), 6, num_parallel_calls=3))


@pipeline
def map_and_batch_without_remainder():
    return D.range(20).apply(tf.data.experimental.map_and_batch(lambda x: x + 1, 6, drop_remainder=True))


@pipeline
def batched_in_parallel():
    return D.range(20).batch(3, num_parallel_calls=2, deterministic=True)


# ---- windows and groups ----


@pipeline
def windows():
    return D.range(11).window(3).flat_map(lambda w: w.batch(3))


@pipeline
def windows_that_overlap():
    return D.range(11).window(4, shift=2, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(4))


@pipeline
def windows_far_apart():
    return D.range(17).window(2, shift=5).flat_map(lambda w: w.map(lambda x: x * 10))


@pipeline
def windows_of_pairs():
    return D.from_tensor_slices((np.arange(9), np.arange(9) * 1.5)).window(4, shift=3).flat_map(lambda a, b: D.zip((a.batch(4), b.batch(4))))


@pipeline
def next_values():
    x = D.range(12)
    return x.window(5, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(5)).map(lambda w: (w[:-1], w[-1]))


@pipeline
def grouped_by_window():
    return D.range(23).group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), window_size=4)


@pipeline
def grouped_by_windows_of_many_sizes():
    return D.range(40).group_by_window(lambda x: x % 4, lambda key, w: w.map(lambda x: x + key * 100), window_size_func=lambda key: key + 2)


@pipeline
def bucketed():
    sizes = [3, 9, 1, 7, 4, 4, 12, 2, 8, 5, 6, 1, 10]
    return (
        D.from_tensor_slices(sizes)
        .map(lambda n: tf.range(n))
        .bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4, 8], [3, 2, 2])
    )


@pipeline
def grouped_by_reducer():
    mean = tf.data.experimental.Reducer(
        lambda _: (0.0, 0.0), lambda s, x: (s[0] + tf.cast(x, tf.float32), s[1] + 1), lambda s, n: s / n
    )
    return D.range(20).apply(tf.data.experimental.group_by_reducer(lambda x: x % 6, mean))


@pipeline
def scanned():
    return D.range(10).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, (s, x)))


@pipeline
def scanned_with_pairs():
    return D.range(8).scan((tf.constant(0, tf.int64), tf.constant(1, tf.int64)), lambda s, x: ((s[1], s[0] + s[1]), s[0]))


@pipeline
def taken_while():
    return D.range(20).take_while(lambda x: x * x < 50)


@pipeline
def unique():
    return D.from_tensor_slices([3, 1, 3, 2, 1, 5]).unique()


@pipeline
def unique_words():
    return D.from_tensor_slices([b"a", b"b", b"a", b"", b"c", b""]).unique()


@pipeline
def enumerated():
    return D.from_tensor_slices([b"x", b"y", b"z"]).enumerate(start=5)


# ---- random ----


@pipeline
def random_numbers():
    return D.random(seed=4).take(10)


@pipeline
def random_numbers_each_time_anew():
    return D.random(seed=4, rerandomize_each_iteration=True).take(5).repeat(2)


@pipeline
def sampled_from_data_sets():
    return D.sample_from_datasets([D.range(10), D.range(100, 110), D.range(1000, 1010)], weights=[0.5, 0.3, 0.2], seed=8)


@pipeline
def sampled_until_one_is_empty():
    return D.sample_from_datasets([D.range(4), D.range(100, 130)], weights=[0.5, 0.5], seed=3, stop_on_empty_dataset=True)


@pipeline
def chosen_from_data_sets():
    return D.choose_from_datasets([D.range(3), D.range(10, 20)], D.from_tensor_slices(np.array([0, 1, 1, 0, 0, 0, 1])), stop_on_empty_dataset=False)


@pipeline
def rejection_resampled():
    return D.range(60).map(lambda x: x % 2).rejection_resample(lambda x: tf.cast(x, tf.int32), [0.3, 0.7], initial_dist=[0.5, 0.5], seed=5)


@pipeline
def random_ops_in_a_map():
    return D.range(8).map(lambda x: tf.random.stateless_uniform([2], seed=[x, 3]))


def draw(*_):
    return tf.random.uniform([], seed=4)


def used_twice(join):
    def make():
        data = D.range(4).map(draw)
        return join(data)

    return make


# Numbers with a seed begin anew with each pass, and go on within it.
DRAWS = {
    "map": lambda: D.range(4).map(draw),
    "parallel map": lambda: D.range(4).map(draw, num_parallel_calls=1),
    "filter": lambda: D.range(12).filter(lambda x: draw() > 0.5),
    "flat_map": lambda: D.range(3).flat_map(lambda x: D.range(2).map(draw)),
    "interleave": lambda: D.range(3).interleave(lambda x: D.range(2).map(draw), cycle_length=2),
    "scan": lambda: D.range(4).scan(0.0, lambda s, x: (s + draw(), s)),
    "take_while": lambda: D.range(9).take_while(lambda x: draw() < 0.9),
    "group_by_window": lambda: D.range(8).group_by_window(lambda x: tf.cast(draw() * 2, tf.int64), lambda k, d: d.batch(2), window_size=2),
    "repeat": lambda: D.range(3).map(draw).repeat(3),
    "cache": lambda: D.range(3).map(draw).cache().repeat(2),
    "concatenate": lambda: D.range(3).map(draw).concatenate(D.range(3).map(draw)).repeat(2),
    "reduce": lambda: D.from_tensors(0).map(lambda _: D.range(4).map(draw).reduce(0.0, lambda a, b: a + b * draw())).repeat(2),
    "two inputs that are one": used_twice(lambda d: D.zip((d, d.skip(1)))),
    "one behind itself": used_twice(lambda d: d.concatenate(d.map(lambda x: -x)).repeat(2)),
    "elements used twice": lambda: D.range(2).flat_map(lambda x: used_twice(lambda d: D.zip((d, d)))()),
    "a function": lambda: D.range(3).map(tf.function(draw)),
    "while": lambda: D.range(3).map(lambda x: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + draw()), [0, 0.0])[1]),
    "case": lambda: D.range(6).map(lambda x: tf.switch_case(tf.cast(x % 2, tf.int32), [draw, lambda: -draw()])),
    "shuffle": lambda: D.range(4).map(lambda x: tf.random.shuffle(tf.range(5), seed=3)),
    "gamma": lambda: D.range(3).map(lambda x: tf.random.gamma([2], 1.5, seed=3)),
    "distorted box": lambda: D.range(3).map(lambda x: tf.image.sample_distorted_bounding_box([9, 9, 3], [[[0.0, 0.0, 1.0, 1.0]]], seed=2)),
}
for where, make in DRAWS.items():
    pipeline(make, name=f"numbers drawn in {where}")


# ---- errors and checks ----


@pipeline
def errors_ignored():
    return D.range(6).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 3, tf.float32), "bad")).ignore_errors()


@pipeline
def cardinality_asserted():
    return D.range(20).filter(lambda x: x < 5).apply(tf.data.experimental.assert_cardinality(5))


@pipeline
def cardinality_wrong():
    return D.range(20).filter(lambda x: x < 5).apply(tf.data.experimental.assert_cardinality(7))


@pipeline
def cardinality_too_small():
    return D.range(20).filter(lambda x: x < 5).apply(tf.data.experimental.assert_cardinality(3))


# ---- interleaved ----


@pipeline
def interleaved_in_parallel():
    return D.range(7).interleave(lambda x: D.from_tensors(x).repeat(x + 1), cycle_length=3, block_length=2, num_parallel_calls=3)


@pipeline
def interleaved_with_autotune():
    return D.range(7).interleave(lambda x: D.range(x * 10, x * 10 + 4).map(lambda y: y + 1), cycle_length=4, num_parallel_calls=AUTOTUNE, deterministic=True)


@pipeline
def interleaved_the_old_way():
    return D.range(7).apply(
        tf.data.experimental.parallel_interleave(lambda x: D.from_tensors(x).repeat(x + 1), cycle_length=3, block_length=2, prefetch_input_elements=1)
    )


@pipeline
def filtered_in_parallel():
    return D.range(30).filter(lambda x: tf.equal(x % 4, 2))


# ---- values from whole data sets ----


@pipeline
def reduced():
    total = D.range(10).reduce(tf.constant(0, tf.int64), lambda s, x: s + x)
    return D.range(3).map(lambda x: x + total)


@pipeline
def reduced_inside():
    return D.range(1, 6).map(lambda n: D.range(n).map(lambda x: x * x).reduce(tf.constant(0, tf.int64), lambda s, x: s + x))


@pipeline
def single_element():
    return D.range(4).map(lambda x: D.from_tensors((x, x + 1)).get_single_element())


@pipeline
def single_element_of_many():
    return D.range(3).map(lambda x: D.range(x).get_single_element())


@pipeline
def cardinalities():
    made = [D.range(7), D.range(7).batch(2), D.range(7).repeat(), D.range(7).filter(lambda x: x > 1), D.range(7).skip(3).take(9), D.range(7).shard(3, 0)]
    made += [D.zip((D.range(3), D.range(5))), D.range(3).concatenate(D.range(4)), D.range(9).window(2, shift=3), D.range(6).shuffle(3).repeat(4), D.range(3).batch(2).unbatch()]
    return D.from_tensors(tuple(tf.data.experimental.cardinality(d) for d in made))


@pipeline
def nested_structures():
    return D.from_tensor_slices({"a": (np.arange(4), [b"x"] * 4), "b": {"c": np.ones([4, 2], "f")}}).batch(3)


@pipeline
def sparse_elements():
    return D.from_tensor_slices(tf.sparse.from_dense(np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0], [4, 5, 6]], "f"))).map(
        lambda s: tf.sparse.to_dense(tf.SparseTensor(s.indices, s.values * 2, s.dense_shape))
    )


@pipeline
def sparse_elements_batched():
    return D.range(5).map(lambda x: tf.sparse.from_dense(tf.one_hot(x, 6))).batch(2)


@pipeline
def ragged_elements():
    return D.from_tensor_slices(tf.ragged.constant([[1, 2], [], [3], [4, 5, 6]])).map(lambda r: r + 1)


@pipeline
def optional_elements():
    def last_of(n):
        d = D.range(n)
        return d.reduce(tf.constant(-1, tf.int64), lambda _, x: x)

    return D.range(4).map(last_of)


@pipeline
def options_kept():
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = 2
    options.autotune.ram_budget = 100
    options.experimental_optimization.apply_default_optimizations = False
    return D.range(30).map(lambda x: x + 1, num_parallel_calls=3).with_options(options).batch(4).prefetch(8)


@pipeline
def elements_by_index():
    d = D.range(10).map(lambda x: x * x)
    return D.from_tensors((tf.data.experimental.at(d, 0), tf.data.experimental.at(d, 7)))
