"""Pipelines of ops that today's tf.data does not make but graphs have: older versions and the names of experiments."""

import os

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

import pipelines_files as files
from pipelines import ALL, Program

D = tf.data.Dataset
R = tf.raw_ops
I64 = tf.int64
SCALAR = tf.TensorSpec([], I64)


def i64(x):
    return tf.constant(x, I64)


def of(variant, spec=SCALAR):
    """The data set in a variant, whose elements are as `spec` says."""
    return dataset_ops._VariantDataset(variant, spec)


def kinds(spec=SCALAR):
    flat = tf.nest.flatten(spec)
    return {"output_types": [s.dtype for s in flat], "output_shapes": [s.shape for s in flat]}


def numbers(n=20):
    return D.range(n)._variant_tensor


def function(f, *specs):
    return tf.function(f).get_concrete_function(*specs)


def unoptimized():
    """TensorFlow's optimizer cannot write some of these ops as a graph."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


def raw(name, build, **options):
    ALL[name] = Program(lambda: build().with_options(unoptimized()), **options)


BATCH = tf.TensorSpec([None], I64)

# What takes one data set and gives its elements.
for op, more in {
    "BytesProducedStatsDataset": {"tag": "t"},
    "ExperimentalBytesProducedStatsDataset": {"tag": "t"},
    "LatencyStatsDataset": {"tag": "t"},
    "ExperimentalLatencyStatsDataset": {"tag": "t"},
    "MaxIntraOpParallelismDataset": {"max_intra_op_parallelism": i64},
    "ExperimentalMaxIntraOpParallelismDataset": {"max_intra_op_parallelism": i64},
    "PrivateThreadPoolDataset": {"num_threads": i64},
    "ExperimentalPrivateThreadPoolDataset": {"num_threads": i64},
    "NonSerializableDataset": {},
    "ExperimentalNonSerializableDataset": {},
    "ModelDataset": {},
    "OptimizeDataset": {"optimizations": []},
    "OptimizeDatasetV2": {"optimizations_enabled": [], "optimizations_disabled": [], "optimizations_default": []},
    "IgnoreErrorsDataset": {},
    "ExperimentalIgnoreErrorsDataset": {},
    "SleepDataset": {"sleep_microseconds": i64},
    "ExperimentalSleepDataset": {"sleep_microseconds": i64},
    "ExperimentalUniqueDataset": {},
    "FinalizeDataset": {},
}.items():

    def same_elements(op=op, more=more):
        args = {k: v(2) if callable(v) else tf.constant(v, tf.string) for k, v in more.items()}
        return of(getattr(R, op)(input_dataset=numbers(), **args, **kinds()))

    raw(f"raw {op}", same_elements)


def raw_batch():
    return of(R.BatchDataset(input_dataset=numbers(), batch_size=i64(6), **kinds(BATCH)), BATCH)


def raw_padded():
    d = D.range(1, 8).map(tf.range)._variant_tensor
    spec = tf.TensorSpec([None, None], I64)
    made = R.PaddedBatchDataset(input_dataset=d, batch_size=i64(3), padded_shapes=[i64([-1])], padding_values=[i64(-7)], output_shapes=[spec.shape])
    return of(made, spec)


raw("raw BatchDataset", raw_batch)
raw("raw PaddedBatchDataset", raw_padded)

for op in ("RebatchDataset", "ExperimentalRebatchDataset"):
    raw(f"raw {op}", lambda op=op: of(getattr(R, op)(input_dataset=D.range(23).batch(7)._variant_tensor, num_replicas=i64(3), **kinds(BATCH)), BATCH))
for op in ("UnbatchDataset", "ExperimentalUnbatchDataset"):
    raw(f"raw {op}", lambda op=op: of(getattr(R, op)(input_dataset=D.range(23).batch(7)._variant_tensor, **kinds())))
for op in ("SlidingWindowDataset", "ExperimentalSlidingWindowDataset"):
    raw(
        f"raw {op}",
        lambda op=op: of(getattr(R, op)(input_dataset=numbers(17), window_size=i64(4), window_shift=i64(3), window_stride=i64(2), **kinds(BATCH)), BATCH),
    )


def sliding_with_remainder():
    args = dict(window_size=i64(4), window_shift=i64(3), window_stride=i64(2), drop_remainder=False)
    return of(R.SlidingWindowDataset(input_dataset=numbers(17), **args, **kinds(BATCH)), BATCH)


raw("raw SlidingWindowDataset with remainder", sliding_with_remainder)


def sliding_over_failures(size, shift, stride, drop_remainder):
    def checked(x):
        with tf.control_dependencies([tf.debugging.assert_none_equal(x % 4, i64(1))]):
            return tf.identity(x)

    args = dict(window_size=i64(size), window_shift=i64(shift), window_stride=i64(stride), drop_remainder=drop_remainder)
    return of(R.SlidingWindowDataset(input_dataset=D.range(14).map(checked)._variant_tensor, **args, **kinds(BATCH)), BATCH)


for window in ((2, 1, 1, True), (3, 2, 1, True), (2, 3, 1, False), (2, 1, 2, True), (4, 2, 1, False)):
    raw(f"raw SlidingWindowDataset over failures {window}", lambda window=window: sliding_over_failures(*window))


# ---- shuffles ----


def shuffles(op, **more):
    def build():
        args = {k: v() for k, v in more.items()}
        return of(getattr(R, op)(input_dataset=numbers(), buffer_size=i64(7), **args, **kinds()))

    return build


def seeds():
    return R.AnonymousSeedGenerator(seed=i64(3), seed2=i64(5), reshuffle=True)[0]


raw("raw ShuffleDatasetV3", shuffles("ShuffleDatasetV3", seed=lambda: i64(3), seed2=lambda: i64(4), seed_generator=lambda: R.DummySeedGenerator()), passes=1)
raw("raw ShuffleDatasetV3 of a generator", shuffles("ShuffleDatasetV3", seed=lambda: i64(3), seed2=lambda: i64(4), seed_generator=seeds), passes=1)
raw("raw ShuffleDatasetV2", shuffles("ShuffleDatasetV2", seed_generator=seeds), passes=1)
raw("raw ShuffleAndRepeatDataset", shuffles("ShuffleAndRepeatDataset", seed=lambda: i64(3), seed2=lambda: i64(4), count=lambda: i64(3)))
raw(
    "raw ShuffleAndRepeatDatasetV2",
    shuffles("ShuffleAndRepeatDatasetV2", seed=lambda: i64(3), seed2=lambda: i64(4), count=lambda: i64(3), seed_generator=lambda: R.DummySeedGenerator()),
    passes=1,
)


# ---- functions ----


def mapped(op, **more):
    def build():
        f = function(lambda x: x * 3 + 1, SCALAR)
        args = {k: v() for k, v in more.items()}
        return of(getattr(R, op)(input_dataset=numbers(), other_arguments=[], f=f, **args, **kinds()))

    return build


raw("raw ParallelMapDataset", mapped("ParallelMapDataset", num_parallel_calls=lambda: tf.constant(3)))


def to_batches(op):
    def build():
        f = function(lambda x: x * 3 + 1, SCALAR)
        made = getattr(R, op)(input_dataset=numbers(), other_arguments=[], batch_size=i64(6), num_parallel_calls=i64(2), drop_remainder=False, f=f, **kinds(BATCH))
        return of(made, BATCH)

    return build


raw("raw ExperimentalMapAndBatchDataset", to_batches("ExperimentalMapAndBatchDataset"))


def inner(**more):
    def build(op):
        f = function(lambda x: D.from_tensors(x).repeat(x % 4 + 1)._variant_tensor, SCALAR)
        args = {k: v() for k, v in more.items()}
        return of(getattr(R, op)(input_dataset=numbers(9), other_arguments=[], cycle_length=i64(3), block_length=i64(2), f=f, **args, **kinds()))

    return build


PARALLEL = inner(num_parallel_calls=lambda: i64(2))
LEGACY = inner(sloppy=lambda: tf.constant(False), buffer_output_elements=lambda: i64(2), prefetch_input_elements=lambda: i64(1))
raw("raw ParallelInterleaveDatasetV2", lambda: PARALLEL("ParallelInterleaveDatasetV2"))
raw("raw ParallelInterleaveDatasetV3", lambda: PARALLEL("ParallelInterleaveDatasetV3"))
raw("raw ParallelInterleaveDataset", lambda: LEGACY("ParallelInterleaveDataset"))
raw("raw ExperimentalParallelInterleaveDataset", lambda: LEGACY("ExperimentalParallelInterleaveDataset"))


def predicate(op, f, **more):
    def build():
        args = {k: v() for k, v in more.items()}
        return of(getattr(R, op)(input_dataset=numbers(), other_arguments=[], predicate=function(f, SCALAR), **args, **kinds()))

    return build


raw("raw ExperimentalTakeWhileDataset", predicate("ExperimentalTakeWhileDataset", lambda x: x < 7))
raw("raw ParallelFilterDataset", predicate("ParallelFilterDataset", lambda x: x % 3 < 1, num_parallel_calls=lambda: i64(2)))


def raw_scan():
    f = function(lambda s, x: (s + x, s * 2), SCALAR, SCALAR)
    return of(R.ExperimentalScanDataset(input_dataset=numbers(), initial_state=[i64(1)], other_arguments=[], f=f, **kinds()))


def raw_groups():
    key, size = function(lambda x: x % 3, SCALAR), function(lambda k: k + 2, SCALAR)
    reduce = function(lambda k, w: of(w).map(lambda x: x * 10 + k)._variant_tensor, SCALAR, tf.TensorSpec([], tf.variant))
    args = dict(key_func_other_arguments=[], reduce_func_other_arguments=[], window_size_func_other_arguments=[])
    return of(R.ExperimentalGroupByWindowDataset(input_dataset=numbers(), key_func=key, reduce_func=reduce, window_size_func=size, **args, **kinds()))


def raw_reducer():
    args = {f"{f}_func_other_arguments": [] for f in ("key", "init", "reduce", "finalize")}
    functions = dict(
        key_func=function(lambda x: x % 4, SCALAR),
        init_func=function(lambda k: k * 100, SCALAR),
        reduce_func=function(lambda s, x: s + x, SCALAR, SCALAR),
        finalize_func=function(lambda s: -s, SCALAR),
    )
    return of(R.GroupByReducerDataset(input_dataset=numbers(), **args, **functions, **kinds()))


raw("raw ExperimentalScanDataset", raw_scan)
raw("raw ExperimentalGroupByWindowDataset", raw_groups)
raw("raw GroupByReducerDataset", raw_reducer)


# ---- choices, sources ----


def raw_directed(op):
    return lambda: of(getattr(R, op)(selector_input_dataset=D.from_tensor_slices(i64([0, 1, 1, 0, 1]))._variant_tensor, data_input_datasets=[numbers(), D.range(100, 103)._variant_tensor], **kinds()))


def raw_fastest(op):
    return lambda: of(getattr(R, op)(input_datasets=[numbers(), numbers()], num_experiments=2, **kinds()))


for op in ("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset"):
    raw(f"raw {op}", raw_directed(op))
for op in ("ChooseFastestDataset", "ExperimentalChooseFastestDataset"):
    raw(f"raw {op}", raw_fastest(op))
raw("raw ExperimentalRandomDataset", lambda: of(R.ExperimentalRandomDataset(seed=i64(4), seed2=i64(2), **kinds())).take(9))
raw("raw SamplingDataset", lambda: of(R.SamplingDataset(input_dataset=numbers(40), rate=tf.constant(0.4), seed=i64(4), seed2=i64(2), **kinds())))
raw("raw ListDataset", lambda: of(R.ListDataset(tensors=[i64(4), i64(9), i64(-1)], **kinds())))


def raw_sparse_slices():
    spec = (tf.TensorSpec([None, 1], I64), tf.TensorSpec([None], tf.float32), tf.TensorSpec([1], I64))
    return of(R.SparseTensorSliceDataset(indices=i64([[0, 1], [2, 0], [2, 3]]), values=tf.constant([1.0, 2.0, 3.0]), dense_shape=i64([4, 5])), spec)


raw("raw SparseTensorSliceDataset", raw_sparse_slices)


def raw_sparse_batches(op):
    def build():
        d = D.range(1, 8).map(tf.range)._variant_tensor
        made = getattr(R, op)(input_dataset=d, batch_size=i64(3), row_shape=i64([10]), output_types=[tf.variant], output_shapes=[[3]])
        return of(made, tf.TensorSpec([3], tf.variant)).map(lambda v: R.DeserializeSparse(serialized_sparse=v, dtype=I64))

    return build


raw("raw ExperimentalDenseToSparseBatchDataset", raw_sparse_batches("ExperimentalDenseToSparseBatchDataset"))


# ---- shards ----

for policy in (-1, 0, 2):
    for op in ("AutoShardDataset", "ExperimentalAutoShardDataset"):
        raw(
            f"raw {op} policy {policy}",
            lambda op=op, policy=policy: of(
                getattr(R, op)(input_dataset=D.range(20).batch(3).prefetch(2)._variant_tensor, num_workers=i64(3), index=i64(1), auto_shard_policy=policy, **kinds(BATCH)), BATCH
            ),
        )

for workers in (1, 2):
    for replicas in (0, 2, 3):
        for policy in (-1, 0, 2):
            raw(
                f"raw AutoShardDataset of parts, {workers} workers, {replicas} replicas, policy {policy}",
                lambda workers=workers, replicas=replicas, policy=policy: of(
                    R.AutoShardDataset(
                        input_dataset=R.RebatchDatasetV2(
                            input_dataset=D.range(28).batch(8)._variant_tensor, batch_sizes=[i64(4), i64(4)], drop_remainder=False, **kinds(BATCH)
                        ),
                        num_workers=i64(workers),
                        index=i64(0),
                        auto_shard_policy=policy,
                        num_replicas=replicas,
                        **kinds(BATCH),
                    ),
                    BATCH,
                ),
            )


# ---- files ----

STRING = tf.TensorSpec([], tf.string)


def names(*of_files):
    return tf.constant([files.path(f) for f in of_files])


def raw_csv(op):
    spec = (tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.string))

    def build():
        args = dict(compression_type="", buffer_size=i64(40), header=False, field_delim=",", use_quote_delim=True, na_value="", select_cols=i64([0, 3]))
        defaults = [tf.constant([], tf.int32), tf.constant(["-"])]
        return of(getattr(R, op)(filenames=names("numbers.csv", "numbers.csv"), record_defaults=defaults, **args, output_shapes=[[], []]), spec)

    return build


raw("raw CSVDataset", raw_csv("CSVDataset"))
raw("raw ExperimentalCSVDataset", raw_csv("ExperimentalCSVDataset"))
raw("raw ExperimentalSqlDataset", lambda: of(R.ExperimentalSqlDataset(driver_name="sqlite", data_source_name=files.path("t.sqlite"), query="SELECT i FROM t", **kinds())))
raw("raw ExperimentalMatchingFilesDataset", lambda: of(R.ExperimentalMatchingFilesDataset(patterns=names("shards/*-[12].tfrecord", "plain.*")), STRING))
raw(
    "raw FixedLengthRecordDataset",
    lambda: of(R.FixedLengthRecordDataset(filenames=names("fixed.bin", "fixed.bin"), header_bytes=i64(4), record_bytes=i64(12), footer_bytes=i64(4), buffer_size=i64(5)), STRING),
)
for offset in (0, 24, 9, 1 << 40):
    raw(
        f"raw TFRecordDatasetV2 from {offset}",
        lambda offset=offset: of(R.TFRecordDatasetV2(filenames=names("plain.tfrecord", "plain.tfrecord"), compression_type="", buffer_size=i64(100), byte_offsets=i64([0, offset])), STRING),
    )


def snapshot_shard():
    """The folder of a shard that Dataset.save has written."""
    saved = files.path(files.save_once("saved-plain", files.pairs))
    folders = [folder for folder, _, found in os.walk(saved) if any(f.endswith(".snapshot") for f in found)]
    return folders[0]


def shard_of(start):
    """In a function: TensorFlow takes the op for a constant, and cannot write one."""
    more = dict(compression="", version=2, **kinds(files.PAIRS))
    return D.from_tensors(snapshot_shard()).flat_map(lambda f: of(R.SnapshotDatasetReader(shard_dir=f, start_index=i64(start), **more), files.PAIRS))


def chunk():
    folder = snapshot_shard()
    file = next(f for f in sorted(os.listdir(folder)) if f.endswith(".snapshot"))
    path = D.from_tensors(os.path.join(folder, file))
    return path.flat_map(lambda f: of(R.SnapshotChunkDataset(chunk_file=f, compression="", **kinds(files.PAIRS)), files.PAIRS))


for start in (0, 3):
    raw(f"raw SnapshotDatasetReader from {start}", lambda start=start: shard_of(start))
raw("raw SnapshotChunkDataset", chunk)
raw("raw SaveDatasetV2", lambda: of(R.SaveDatasetV2(input_dataset=numbers(), path=files.fresh("saved-v2"), shard_func_other_args=[], shard_func=function(lambda x: i64(0), SCALAR), **kinds())))


# ---- resources ----


def pooled(handle, op):
    def build():
        pool = getattr(R, handle)(num_threads=2, display_name="pool")
        return of(getattr(R, op)(input_dataset=D.range(20).map(lambda x: x + 1, num_parallel_calls=2)._variant_tensor, thread_pool=pool, **kinds()))

    return build


def cached(cache):
    return lambda: of(R.CacheDatasetV2(input_dataset=numbers(), filename="", cache=cache(), **kinds()))


def counted(handle, op):
    return lambda: of(getattr(R, op)(input_dataset=numbers(), stats_aggregator=getattr(R, handle)(), tag="t", counter_prefix="p", **kinds()))


raw("raw SetStatsAggregatorDataset", counted("StatsAggregatorHandle", "SetStatsAggregatorDataset"))
raw("raw SetStatsAggregatorDataset of a new handle", counted("StatsAggregatorHandleV2", "SetStatsAggregatorDataset"))
raw("raw ExperimentalSetStatsAggregatorDataset", counted("ExperimentalStatsAggregatorHandle", "ExperimentalSetStatsAggregatorDataset"))
raw("raw ThreadPoolDataset", pooled("ThreadPoolHandle", "ThreadPoolDataset"))
raw("raw ExperimentalThreadPoolDataset", pooled("ExperimentalThreadPoolHandle", "ExperimentalThreadPoolDataset"))
raw("raw CacheDatasetV2", cached(R.DummyMemoryCache))
raw("raw CacheDatasetV2 of a cache", cached(lambda: R.AnonymousMemoryCache()[0]), passes=1)

for index in (0, 19, 20, -1):
    raw(f"raw GetElementAtIndex {index}", lambda index=index: D.from_tensors(R.GetElementAtIndex(dataset=numbers(), index=i64(index), **kinds())[0]))


# ---- compressed elements ----

PARTS = (tf.TensorSpec([], I64), tf.TensorSpec([2, None], tf.float32), tf.TensorSpec([None], tf.string), tf.TensorSpec([0], tf.bool))


def compressed(spec, elements=5):
    """Elements that are compressed, and taken out as `spec` says."""
    parts = D.range(elements).map(lambda i: (i, tf.fill([2, i], 0.5), tf.repeat(tf.strings.as_string(i), i), tf.zeros([0], tf.bool)))
    small = parts.map(lambda *x: R.CompressElement(components=list(x)))
    return small.shuffle(4, seed=3).map(lambda v: tuple(R.UncompressElement(compressed=v, **kinds(spec))))


raw("raw CompressElement", lambda: compressed(PARTS))
raw("raw UncompressElement of fewer parts", lambda: compressed(PARTS[:2]))
raw("raw UncompressElement of other types", lambda: compressed((PARTS[1], PARTS[0], *PARTS[2:])))
raw("raw UncompressElement of a data set", lambda: D.range(2).window(1).map(lambda w: R.UncompressElement(compressed=w._variant_tensor, **kinds(SCALAR))[0]))


# ---- examples ----


def numbered(i):
    features = {"a": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, i + 1])), "b": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 2] * (i % 3)))}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def parsed(op, b, **more):
    """Feature `a` is dense, `b` is sparse or, as `more` says, ragged."""
    strings = D.from_tensor_slices([numbered(i) for i in range(7)]).batch(3)
    spec = {"a": tf.TensorSpec([None, 2], I64), "b": b}
    variants = tf.TensorSpec([] if isinstance(b, tf.RaggedTensorSpec) else [3], tf.variant)
    made = {"dense_keys": ["a"], "dense_shapes": [[2]], "sparse_keys": ["b"], "sparse_types": [tf.float32], **more}
    kind = kinds((spec["a"], variants))
    return of(getattr(R, op)(input_dataset=strings._variant_tensor, num_parallel_calls=i64(2), dense_defaults=[i64([7, 7])], **made, **kind), spec)


SPARSE = tf.SparseTensorSpec([None, None], tf.float32)
RAGGED = tf.RaggedTensorSpec([None, None], tf.float32, row_splits_dtype=tf.int32)
AS_RAGGED = {"ragged_keys": ["b"], "ragged_value_types": [tf.float32], "ragged_split_types": [tf.int32], "sparse_keys": [], "sparse_types": []}

for op in ("ExperimentalParseExampleDataset", "ParseExampleDataset", "ParseExampleDatasetV2"):
    raw(f"raw {op} sparse", lambda op=op: parsed(op, SPARSE))
    if not op.startswith("Exp"):
        raw(f"raw {op} ragged", lambda op=op: parsed(op, RAGGED, **AS_RAGGED))
    for reason, more in {
        "twice the same key": {"sparse_keys": ["a"]},
        "another shape": {"dense_shapes": [[1]]},
        "an unknown shape": {"dense_shapes": [[2, None]]},
    }.items():
        raw(f"raw {op} {reason}", lambda op=op, more=more: parsed(op, SPARSE, **more))


# ---- what a data set says ----


def said():
    d = D.range(20).batch(4, drop_remainder=True)
    options = tf.data.Options()
    options.deterministic = True
    kept = R.GetOptions(input_dataset=d.with_options(options)._variant_tensor)
    wrapped = R.UnwrapDatasetVariant(input_handle=R.WrapDatasetVariant(input_handle=d._variant_tensor))
    made = (R.ExperimentalDatasetCardinality(input_dataset=wrapped), R.ComputeBatchSize(input_dataset=d._variant_tensor), tf.strings.length(kept) > 0)
    return D.from_tensors(made)


raw("raw questions", said)


def sizes():
    """What ComputeBatchSize says of data sets of many kinds."""
    rows = D.range(40)
    batches = rows.batch(3)
    asked = [
        *(rows, batches, batches.prefetch(2), batches.unbatch(), batches.batch(2), rows.padded_batch(4), batches.map(lambda x: x), rows.batch(3, drop_remainder=True).map(lambda x: x)),
        *(D.zip((batches, batches)), D.zip((batches, rows.batch(4))), batches.concatenate(batches), batches.concatenate(rows.batch(4)), batches.interleave(D.from_tensors)),
        *(batches.filter(lambda x: True).repeat().take(3).skip(1).shuffle(3).cache().shard(2, 0), D.from_tensor_slices(tf.ones([4, 3])), rows.batch(6, num_parallel_calls=2)),
        *(batches.take_while(lambda x: True), batches.with_options(tf.data.Options()), batches.rebatch(4), rows.window(3).flat_map(lambda w: w.batch(3))),
    ]
    return D.from_tensors(tf.stack([R.ComputeBatchSize(input_dataset=d._variant_tensor) for d in asked]))


raw("raw batch sizes", sizes)
