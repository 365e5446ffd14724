"""Pipelines whose elements are written to disk in the first pass and read in the next ones, for test_datasets."""

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops.snapshot import legacy_snapshot
from tensorflow.python.ops import gen_experimental_dataset_ops as ops

import pipelines_files as files
from pipelines import D, pipeline
from pipelines_raw import of


def in_order(shards):
    return shards.flat_map(lambda s: s)


def by_turns(shards):
    return shards.interleave(lambda s: s, cycle_length=2, block_length=2)


def snapshot(d, name="snapshot", **options):
    """In a folder of its own for each program and each of the two."""
    return d.snapshot(files.fresh(name), **options)


def named(d, path, hash, compression="", shard=lambda *x: tf.constant(0, tf.int64), reader=in_order):
    """A snapshot in <path>/<hash>, for either to write and the other to read."""
    nested = tf.data.DatasetSpec(tf.data.DatasetSpec(d.element_spec))
    readers = tf.function(lambda shards: reader(shards)._variant_tensor).get_concrete_function(nested)
    shards = tf.function(shard).get_concrete_function(*tf.nest.flatten(d.element_spec))
    variant = ops.snapshot_dataset_v2(
        d._variant_tensor,
        path,
        readers.captured_inputs,
        shards.captured_inputs,
        compression=compression,
        hash_valid=True,
        hash=hash,
        reader_func=readers,
        shard_func=shards,
        output_types=[s.dtype for s in tf.nest.flatten(d.element_spec)],
        output_shapes=[s.shape for s in tf.nest.flatten(d.element_spec)],
    )
    return of(variant, d.element_spec)


# ---- what is written and read ----

for compression in (None, "", "GZIP", "SNAPPY", "AUTO", "ZLIB", "of another kind"):
    pipeline(lambda c=compression: snapshot(files.pairs(), compression=c), name=f"snapshot_{compression}")


@pipeline
def snapshot_of_numbers():
    return snapshot(D.range(17))


@pipeline(may_be_empty=True)
def snapshot_of_nothing():
    return snapshot(D.range(0))


@pipeline
def snapshot_of_one():
    return snapshot(D.from_tensors(np.arange(6, dtype=np.float32).reshape(2, 3)))


def every_dtype():
    dtypes = [np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64, np.bool_, np.complex64]
    parts = tuple(np.arange(10).reshape(5, 2).astype(t) for t in dtypes)
    return D.from_tensor_slices(parts).map(lambda *x: (*x, tf.cast(x[5], tf.bfloat16), tf.strings.as_string(x[2])))


@pipeline
def snapshot_of_every_dtype():
    return snapshot(every_dtype())


@pipeline
def snapshot_of_a_structure():
    return snapshot(D.range(9).map(lambda x: {"a": x, "b": (tf.strings.as_string(x), tf.range(x))}))


@pipeline
def snapshot_of_large_elements():
    """TensorFlow cannot read those again that it has written with Snappy."""
    return snapshot(D.range(4).map(lambda x: tf.fill([90000 * tf.cast(x, tf.int32)], x)), compression="GZIP")


@pipeline
def snapshot_of_batches():
    return snapshot(D.range(20).batch(3), compression="GZIP").unbatch()


@pipeline
def snapshot_of_records():
    return snapshot(files.tfrecords("plain.tfrecord", "plain.tfrecord")).map(tf.strings.length)


@pipeline
def snapshot_of_a_shuffled_input():
    """The later passes give what the first one gave."""
    return snapshot(D.range(15).shuffle(5, seed=4), shard_func=lambda x: tf.constant(0, tf.int64))


# ---- shards ----


@pipeline
def snapshot_shards_in_order():
    return snapshot(files.pairs(), shard_func=lambda x, y: x[0] % 3, reader_func=in_order)


@pipeline
def snapshot_shards_by_turns():
    return snapshot(files.pairs(), shard_func=lambda x, y: x[0] % 3, reader_func=by_turns)


@pipeline
def snapshot_shards_of_any_number():
    return snapshot(D.range(9), shard_func=lambda x: x * 7 - 20, reader_func=in_order)


@pipeline
def snapshot_with_captured_tensors():
    k, n = tf.constant(2, tf.int64), tf.constant(5, tf.int64)
    return snapshot(D.range(9), shard_func=lambda x: x % k, reader_func=lambda shards: shards.flat_map(lambda s: s.take(n)))


@pipeline
def snapshot_read_in_part():
    return snapshot(D.range(20), shard_func=lambda x: x % 4, reader_func=lambda shards: shards.take(2).flat_map(lambda s: s))


@pipeline
def snapshot_read_and_changed():
    return snapshot(D.range(8), shard_func=lambda x: x % 2, reader_func=lambda shards: shards.flat_map(lambda s: s.map(lambda x: -x)))


@pipeline
def snapshot_shuffled_when_read():
    return snapshot(D.range(30), shard_func=lambda x: x % 3, reader_func=lambda shards: shards.shuffle(3, seed=5).interleave(lambda s: s, cycle_length=3))


# ---- passes ----


@pipeline(passes=4)
def snapshot_that_is_never_whole():
    return snapshot(D.range(20)).take(5)


@pipeline
def snapshot_repeated():
    return snapshot(D.range(6), shard_func=lambda x: tf.constant(0, tf.int64)).repeat(3)


@pipeline
def snapshot_of_a_snapshot():
    return snapshot(snapshot(D.range(7), "below").map(lambda x: x * 2), "above")


@pipeline
def snapshots_in_one_folder():
    """Two pipelines that differ in a number have directories of their own."""
    folder = files.fresh("shared")
    one = D.range(6).map(lambda x: x + 1).snapshot(folder)
    return D.zip((one, D.range(6).map(lambda x: x + 2).snapshot(folder)))


@pipeline
def snapshot_of_a_text_in_a_function():
    folder = files.fresh("shared")
    one = D.range(4).map(lambda x: "one").snapshot(folder)
    return D.zip((one, D.range(4).map(lambda x: "two").snapshot(folder)))


@pipeline
def snapshot_ahead():
    return snapshot(D.range(20).map(lambda x: x + 1, num_parallel_calls=2)).prefetch(4)


# ---- errors ----


@pipeline
def snapshot_of_an_input_that_fails():
    d = D.range(8).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 3, tf.float32), "bad"))
    return snapshot(d, shard_func=lambda x: tf.constant(0, tf.int64))


def rebatched_and_failing():
    bad = D.range(12).batch(3).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x // 4, tf.float32), "bad"))
    return bad.rebatch(2)


@pipeline
def rebatch_that_fails_is_not_at_its_end():
    return rebatched_and_failing().enumerate()


@pipeline
def snapshot_of_a_rebatch_that_fails():
    return snapshot(rebatched_and_failing(), shard_func=lambda x: tf.constant(0, tf.int64))


@pipeline
def snapshot_of_a_damaged_input():
    return snapshot(files.tfrecords("bad-data.tfrecord"), shard_func=lambda x: tf.constant(0, tf.int64))


@pipeline
def snapshot_shard_func_that_fails():
    return snapshot(D.range(8), shard_func=lambda x: 12 // (x - 3), reader_func=in_order)


@pipeline
def snapshot_shard_func_of_another_dtype():
    return snapshot(D.range(8), shard_func=lambda x: tf.cast(x, tf.int32))


# ---- the first kind ----


def legacy(d, **options):
    return d.apply(legacy_snapshot(files.fresh("legacy"), **options))


for compression in (None, "GZIP", "SNAPPY"):
    pipeline(lambda c=compression: legacy(files.pairs(), compression=c), name=f"legacy_snapshot_{compression}")
    pipeline(lambda c=compression: legacy(every_dtype(), compression=c), name=f"legacy_snapshot_of_every_dtype_{compression}")
    pipeline(lambda c=compression: legacy(D.range(9), compression=c, shard_size_bytes=20), name=f"legacy_snapshot_of_small_files_{compression}")
    pipeline(lambda c=compression: legacy(D.range(3).map(lambda x: tf.fill([70000], x)), compression=c), name=f"legacy_snapshot_of_large_elements_{compression}")
for mode in ("auto", "write", "passthrough"):
    pipeline(lambda m=mode: legacy(D.range(5), mode=m), name=f"legacy_snapshot_mode_{mode}")
pipeline(lambda: legacy(D.range(5), mode="read"), name="legacy_snapshot_read_without_one", may_be_empty=True)
pipeline(lambda: legacy(D.range(5), mode="often"), name="legacy_snapshot_of_another_mode", may_be_empty=True)
pipeline(lambda: legacy(D.range(5), compression="ZLIB"), name="legacy_snapshot_of_another_compression", may_be_empty=True)
pipeline(lambda: legacy(D.range(5), pending_snapshot_expiry_seconds=0), name="legacy_snapshot_that_is_never_pending", may_be_empty=True)
pipeline(lambda: legacy(D.range(0)), name="legacy_snapshot_of_nothing", may_be_empty=True)
pipeline(lambda: legacy(D.range(1)), name="legacy_snapshot_of_one")
pipeline(lambda: legacy(D.range(20), snapshot_name="a name").batch(3), name="legacy_snapshot_by_name")
pipeline(lambda: legacy(D.range(20)).take(5), name="legacy_snapshot_that_is_never_whole")
pipeline(lambda: legacy(D.range(6)).take(6), name="legacy_snapshot_taken_to_its_end")
pipeline(lambda: legacy(D.range(9).shuffle(5, seed=1)), name="legacy_snapshot_of_a_shuffled_input")
pipeline(lambda: legacy(D.range(20), num_reader_threads=3, reader_buffer_size=4, shard_size_bytes=30), name="legacy_snapshot_read_by_many", any_order=True)
pipeline(lambda: legacy(D.range(20), num_writer_threads=3, writer_buffer_size=4), name="legacy_snapshot_written_by_many", any_order=True)
pipeline(lambda: legacy(D.range(20), shuffle_on_read=True, shuffle_seed=2, shard_size_bytes=30), name="legacy_snapshot_shuffled", any_order=True)
