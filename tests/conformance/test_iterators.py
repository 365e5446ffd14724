"""Iterators in the graph: made, initialised, fed by name, shared, saved and restored, cancelled, closed."""

import contextlib
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops.snapshot import legacy_snapshot
from tensorflow.python.ops import gen_dataset_ops

import pipelines_files as files
import test_datasets
from support import W1, session, v1

D = tf.data.Dataset


@pytest.fixture(autouse=True)
def ops_are_noted(request):
    """For verified.py: the ops of a test that has passed."""
    graph = request.getfixturevalue("graph") if "graph" in request.fixturenames else None
    failed = request.session.testsfailed
    yield
    if graph is not None and request.session.testsfailed == failed:
        test_datasets.note_ops(request, graph.as_graph_def(), "test_iterators")


@pytest.fixture(params=["TensorFlow", "Weft"])
def connect(request, cluster):
    """How a session on either is made: each test states what both do."""
    if request.param == "TensorFlow":
        return lambda graph: v1.Session("", graph=graph)
    return lambda graph: session(cluster.master, graph)


def drain(sess, fetch, feed=None):
    out = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            out.append(sess.run(fetch, feed))
    return out


def test_a_one_shot_iterator_gives_its_elements_once(connect, graph):
    element = v1.data.make_one_shot_iterator(D.range(5).map(lambda x: x * 2)).get_next()
    with connect(graph) as sess:
        assert drain(sess, element) == [0, 2, 4, 6, 8]
        for _ in range(3):  # the end stays the end
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                sess.run(element)


def test_an_iterator_that_is_not_initialised_says_so(connect, graph):
    element = v1.data.make_initializable_iterator(D.range(5)).get_next()
    with connect(graph) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            sess.run(element)


def test_an_initialiser_begins_anew_at_any_time(connect, graph):
    size = v1.placeholder(tf.int64, [])
    iterator = v1.data.make_initializable_iterator(D.range(size))
    element = iterator.get_next()
    with connect(graph) as sess:
        sess.run(iterator.initializer, {size: 10})
        assert [sess.run(element) for _ in range(3)] == [0, 1, 2]
        sess.run(iterator.initializer, {size: 2})
        assert drain(sess, element) == [0, 1]
        sess.run(iterator.initializer, {size: 3})
        assert drain(sess, element) == [0, 1, 2]


def test_a_reinitialisable_iterator_goes_through_other_data_sets(connect, graph):
    first, second = D.range(4), D.range(10, 13).map(lambda x: -x)
    iterator = v1.data.Iterator.from_structure(v1.data.get_output_types(first), v1.data.get_output_shapes(first))
    element = iterator.get_next()
    to_first, to_second = iterator.make_initializer(first), iterator.make_initializer(second)
    with connect(graph) as sess:
        for _ in range(2):
            sess.run(to_first)
            assert drain(sess, element) == [0, 1, 2, 3]
            sess.run(to_second)
            assert drain(sess, element) == [-10, -11, -12]


def test_a_fed_handle_chooses_the_iterator(connect, graph):
    handle = v1.placeholder(tf.string, [])
    element = v1.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    training = v1.data.make_one_shot_iterator(D.range(100))
    validation = v1.data.make_initializable_iterator(D.range(1000, 1003))
    with connect(graph) as sess:
        train, check = sess.run([training.string_handle(), validation.string_handle()])
        assert [sess.run(element, {handle: train}) for _ in range(3)] == [0, 1, 2]
        for _ in range(2):
            sess.run(validation.initializer)
            assert drain(sess, element, {handle: check}) == [1000, 1001, 1002]
        assert sess.run(element, {handle: train}) == 3


def test_a_handle_that_is_none_is_refused(connect, graph):
    handle = v1.placeholder(tf.string, [])
    element = v1.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    with connect(graph) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(element, {handle: b"no handle"})


def test_an_iterator_of_other_elements_is_refused(connect, graph):
    handle = v1.placeholder(tf.string, [])
    element = v1.data.Iterator.from_string_handle(handle, tf.float32, []).get_next()
    other = v1.data.make_one_shot_iterator(D.range(3))
    with connect(graph) as sess:
        name = sess.run(other.string_handle())
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(element, {handle: name})


def test_elements_of_one_step_come_in_the_order_of_its_control_edges(connect, graph):
    iterator = v1.data.make_one_shot_iterator(D.range(20))
    first = iterator.get_next()
    with tf.control_dependencies([first]):
        second = iterator.get_next()
    with connect(graph) as sess:
        assert [sess.run([first, second]) for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]


def test_optional_elements_end_without_an_error(connect, graph):
    iterator = v1.data.make_initializable_iterator(D.range(2))
    optional = tf.data.experimental.get_next_as_optional(iterator)
    value = tf.cond(optional.has_value(), optional.get_value, lambda: tf.constant(-1, tf.int64))
    with connect(graph) as sess:
        sess.run(iterator.initializer)
        assert [sess.run(value) for _ in range(4)] == [0, 1, -1, -1]


def test_an_iterator_with_a_shared_name_is_one_for_all_sessions(cluster, graph):
    iterator = v1.data.make_initializable_iterator(D.range(10), shared_name="shared_by_sessions")
    element = iterator.get_next()
    with session(cluster.master, graph) as one, session(cluster.master, graph) as other:
        one.run(iterator.initializer)
        assert [one.run(element), other.run(element), one.run(element)] == [0, 1, 2]


def test_a_pipeline_runs_where_its_device_is(cluster, graph):
    with tf.device(W1):
        x = v1.get_variable("offset", initializer=tf.constant(100, tf.int64))
        iterator = v1.data.make_initializable_iterator(D.range(3).map(lambda i: i + 1).prefetch(2))
        element = iterator.get_next() + x
    with session(cluster.master, graph) as sess:
        sess.run([x.initializer, iterator.initializer])
        assert drain(sess, element) == [101, 102, 103]


def test_a_map_reads_variables_and_tables(connect, graph):
    v = v1.get_variable("v", initializer=tf.constant([1.0, 2.0, 4.0]), use_resource=True)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([b"a", b"b"], tf.constant([7, 8], tf.int64)), -1)
    d = D.from_tensor_slices((np.arange(3), [b"b", b"x", b"a"])).map(lambda i, w: (tf.gather(v, i), table.lookup(w)))
    iterator = v1.data.make_initializable_iterator(d)
    element, tables = iterator.get_next(), v1.tables_initializer()
    with connect(graph) as sess:
        sess.run([v.initializer, tables])
        sess.run(iterator.initializer)
        got = drain(sess, element)
        assert [(float(a), int(b)) for a, b in got] == [(1.0, 8), (2.0, -1), (4.0, 7)]


# ---- state ----

PIPELINES = {
    "range": lambda: D.range(20),
    "map": lambda: D.range(20).map(lambda x: x * 3),
    "parallel map": lambda: D.range(20).map(lambda x: x * 3, num_parallel_calls=3),
    "shuffle": lambda: D.range(20).shuffle(6, seed=5),
    "shuffle repeat": lambda: D.range(7).shuffle(4, seed=5).repeat(3),
    "batch": lambda: D.range(20).batch(3),
    "prefetch": lambda: D.range(20).map(lambda x: x + 1).prefetch(4),
    "filter": lambda: D.range(40).filter(lambda x: tf.equal(x % 2, 0)),
    "flat map": lambda: D.range(7).flat_map(lambda x: D.range(x)),
    "interleave": lambda: D.range(7).interleave(lambda x: D.from_tensors(x).repeat(4), cycle_length=3, block_length=2),
    "parallel interleave": lambda: D.range(7).interleave(lambda x: D.from_tensors(x).repeat(4), cycle_length=3, num_parallel_calls=2),
    "concatenate": lambda: D.range(6).concatenate(D.range(100, 114)),
    "zip": lambda: D.zip((D.range(20), D.range(100, 120).map(lambda x: -x))).map(lambda a, b: a + b),
    "skip take": lambda: D.range(40).skip(3).take(20),
    "shard": lambda: D.range(60).shard(3, 1),
    "scan": lambda: D.range(20).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s)),
    "unbatch": lambda: D.range(20).batch(6).unbatch(),
    "rebatch": lambda: D.range(40).batch(6).rebatch([4, 1]),
    "window": lambda: D.range(20).window(4, shift=1).flat_map(lambda w: w.batch(4)),
    "group by window": lambda: D.range(30).group_by_window(lambda x: x % 3, lambda k, w: w.map(lambda x: x + 100 * k), 4),
    "random": lambda: D.random(seed=3).take(20),
    "sample": lambda: D.sample_from_datasets([D.range(10), D.range(100, 110)], [0.5, 0.5], seed=4),
    "unique": lambda: D.range(60).map(lambda x: x // 2 % 17).unique(),
    "slices": lambda: D.from_tensor_slices(np.arange(20)),
    "cache": lambda: D.range(20).cache(),
    "take while": lambda: D.range(90).take_while(lambda x: x < 20),
    "records": lambda: files.tfrecords("plain.tfrecord"),
    "packed records": lambda: files.tfrecords("packed.tfrecord.gz", compression_type="GZIP"),
    "large records": lambda: files.tfrecords("large.tfrecord", "plain.tfrecord").map(tf.strings.length),
    "records by turns": lambda: D.list_files(files.path("shards/part-*"), shuffle=False).interleave(tf.data.TFRecordDataset, cycle_length=3),
    "lines": lambda: files.lines("lines/part-0.txt", "text.txt", "lines/part-1.txt", "lines/part-2.txt"),
    "packed lines": lambda: files.lines("text.txt.gz", "text.txt.gz", "text.txt.gz", compression_type="GZIP"),
    "fixed": lambda: files.fixed("fixed.bin", record_bytes=3, header_bytes=4, footer_bytes=4),
    "packed fixed": lambda: files.fixed("fixed.bin.gz", record_bytes=3, header_bytes=4, footer_bytes=4, compression_type="GZIP"),
    "csv": lambda: files.csv("numbers.csv", [tf.int32, tf.int64, tf.float64, tf.string]).map(lambda a, b, c, d: d),
    "examples in batches": lambda: files.parsed({"age": files.OF_PERSON["age"]}, files.tfrecords("people/part-0.tfrecord").batch(1).repeat(3), num_parallel_calls=3).map(lambda x: x["age"]),
    "rows": lambda: files.rows("SELECT i FROM t", tf.int64).map(lambda i: i),
    "cache on file": lambda: D.range(20).cache(files.fresh("cache")),
    "snapshot": lambda: D.range(20).map(lambda x: x + 1).snapshot(files.fresh("snapshot")),
    "snapshot ahead": lambda: D.range(20).snapshot(files.fresh("snapshot"), shard_func=lambda x: tf.constant(0, tf.int64)).prefetch(2),
    "legacy snapshot": lambda: D.range(20).map(lambda x: x + 1).apply(legacy_snapshot(files.fresh("snapshot"), compression="SNAPPY")),
    "loaded": lambda: files.loaded(files.save_once("saved-plain", files.pairs), files.PAIRS, reader_func=lambda shards: shards.flat_map(lambda s: s)).map(lambda x, y: x).repeat(3),
}


def draw(_):
    return tf.random.uniform([])


def show(x):
    with tf.control_dependencies([tf.print(x)]):
        return tf.identity(x)


def twice(first, second):
    """A hundred elements by one function, and a hundred by another."""
    return D.range(100).map(first).concatenate(D.range(100).map(second))


# Where a step stands in them, and whether functions of what is read there have state. They are long, since TensorFlow reads ahead.
DRAWING = {
    "map": (lambda: D.range(100).map(draw), 2, True),
    "seeded": (lambda: D.range(100).map(lambda x: tf.random.uniform([], seed=3)), 2, True),
    "parallel map": (lambda: D.range(100).map(draw, num_parallel_calls=2).prefetch(2), 2, True),
    "before others": (lambda: D.range(300).map(draw).batch(2).shuffle(3).map(lambda x: x + 1), 2, True),
    "filter": (lambda: D.range(100).filter(lambda x: draw(x) >= 0.0), 2, True),
    "scan": (lambda: D.range(100).scan(0.0, lambda s, x: (s, draw(x))), 2, True),
    "flat map": (lambda: D.range(100).flat_map(lambda i: D.range(100).map(draw)), 2, True),
    "interleave": (lambda: D.range(100).interleave(lambda i: D.range(100).map(draw)), 2, True),
    "in a branch": (lambda: D.range(100).map(lambda x: tf.cond(x > 3, lambda: draw(x), lambda: 0.0)), 2, True),
    "first part": (lambda: twice(draw, lambda x: 1.0), 2, True),
    "second part": (lambda: twice(lambda x: 1.0, draw), 105, True),
    "second part, to come": (lambda: twice(lambda x: 1.0, draw), 2, False),
    "no function": (lambda: D.range(100).shuffle(3), 2, False),
    "pure": (lambda: D.range(100).map(lambda x: x + 1), 2, False),
    "printing": (lambda: D.range(100).map(show), 2, False),
    "random source": (lambda: D.random().take(100), 2, False),
}


@pytest.mark.parametrize("policy", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(DRAWING))
def test_state_of_functions_is_refused_where_asked(cluster, graph, name, policy):
    make, at, has_state = DRAWING[name]
    iterator = v1.data.make_initializable_iterator(make())
    element = iterator.get_next()
    state = gen_dataset_ops.serialize_iterator(iterator._iterator_resource, external_state_policy=policy)
    moved = gen_dataset_ops.deserialize_iterator(iterator._iterator_resource, state)
    with session(cluster.master, graph) as sess:
        sess.run(iterator.initializer)
        for _ in range(at):
            sess.run(element)
        if policy == 2 and has_state:
            with pytest.raises(tf.errors.FailedPreconditionError, match="RandomUniform is stateful."):
                sess.run(moved)
        else:
            sess.run(moved)
        sess.run(element)  # the iterator is not harmed


@pytest.mark.parametrize("at", [0, 1, 5, 13])
@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_a_saved_iterator_goes_on_where_it_was(cluster, graph, name, at):
    iterator = v1.data.make_initializable_iterator(PIPELINES[name]())
    element = iterator.get_next()
    state = gen_dataset_ops.serialize_iterator(iterator._iterator_resource)
    key = dict(key=tf.constant(1, tf.int64), indices=[0], dtypes=[tf.variant], shared_name="states")
    keep = tf.raw_ops.MapStage(values=[state], **key)
    restore = gen_dataset_ops.deserialize_iterator(iterator._iterator_resource, tf.raw_ops.MapUnstage(**key)[0])
    with session(cluster.master, graph) as sess:
        sess.run(iterator.initializer)
        for _ in range(min(at, 6) if "batch" in name else at):
            sess.run(element)
        sess.run(keep)
        want = [np.asarray(x).tolist() for x in drain(sess, element)]
        sess.run(restore)
        got = [np.asarray(x).tolist() for x in drain(sess, element)]
        assert want and got == want


def test_an_iterator_is_saved_with_a_checkpoint(cluster, graph, tmp_path):
    iterator = v1.data.make_initializable_iterator(D.range(12).shuffle(5, seed=2).batch(2))
    element = iterator.get_next()
    v = v1.get_variable("v", initializer=1.0)
    v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(iterator))
    saver = v1.train.Saver()
    with session(cluster.master, graph) as sess:
        sess.run([iterator.initializer, v.initializer])
        sess.run(element)
        path = saver.save(sess, str(tmp_path / "model"))
        want = [x.tolist() for x in drain(sess, element)]
    with session(cluster.master, graph) as sess:
        sess.run(iterator.initializer)
        saver.restore(sess, path)
        assert [x.tolist() for x in drain(sess, element)] == want


# ---- ends ----


class Blocked:
    """A step that waits for an element which will not come: the queue behind it stays empty. `waits` ends when it does."""

    def __init__(self, prefetches):
        self.queue = tf.queue.FIFOQueue(3, [tf.int32], shapes=[[]])
        begun = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[]])

        def wait(_):
            with tf.control_dependencies([begun.enqueue(0)]):
                return self.queue.dequeue()

        d = D.range(100).map(wait)
        self.iterator = v1.data.make_initializable_iterator(d.prefetch(2) if prefetches else d)
        self.element, self.waits = self.iterator.get_next(), begun.dequeue()
        self.error = None

    def run(self, sess, **options):
        try:
            sess.run(self.element, **options)
        except Exception as e:  # what ended it is looked at by the test
            self.error = e


@pytest.mark.parametrize("prefetches", [False, True])
def test_a_deadline_ends_the_step_and_not_the_pipeline(cluster, graph, prefetches):
    b = Blocked(prefetches)
    put = b.queue.enqueue(7)
    with session(cluster.master, graph) as sess:
        sess.run(b.iterator.initializer)
        start = time.monotonic()
        b.run(sess, options=v1.RunOptions(timeout_in_ms=300))
        assert isinstance(b.error, tf.errors.DeadlineExceededError)
        assert time.monotonic() - start < 5
        sess.run(put)
        assert sess.run(b.element) == 7  # the element of the step that has ended


@pytest.mark.parametrize("prefetches", [False, True])
def test_closing_the_session_ends_a_pipeline_that_waits(cluster, graph, prefetches):
    b = Blocked(prefetches)
    sess = session(cluster.master, graph)
    sess.run(b.iterator.initializer)
    thread = threading.Thread(target=b.run, args=(sess,), daemon=True)
    thread.start()
    sess.run(b.waits)
    sess.close()
    thread.join(30)
    assert not thread.is_alive() and isinstance(b.error, (tf.errors.CancelledError, tf.errors.AbortedError))


def test_an_error_names_the_node_and_the_element(cluster, graph):
    d = D.range(10).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 3, tf.float32), "a bad number", name="the_check"))
    element = v1.data.make_one_shot_iterator(d).get_next()
    with session(cluster.master, graph) as sess:
        for _ in range(3):
            sess.run(element)
        with pytest.raises(tf.errors.InvalidArgumentError, match="a bad number(.|\n)*the_check(.|\n)*element 3 of Iterator::Root::Map"):
            sess.run(element)


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


def test_many_passes_take_no_more_memory(cluster, graph):
    x = np.ones([64, 4096], "f")
    d = D.from_tensor_slices(x).shuffle(32, seed=1).map(lambda a: a * 2, num_parallel_calls=2).batch(8).prefetch(2)
    iterator = v1.data.make_initializable_iterator(d)
    element = iterator.get_next()
    total = tf.reduce_sum(element)

    def resident():
        return sum(resident_bytes(s.process.pid) for s in cluster.servers.values())

    with session(cluster.master, graph) as sess:
        seen = []
        for _ in range(20):
            sess.run(iterator.initializer)
            assert sum(drain(sess, total)) == 2 * 64 * 4096
            seen.append(resident())
    assert min(seen[10:]) - max(seen[2:8]) < 8 << 20, seen


def test_a_loop_over_a_data_set_in_a_function(connect, graph):
    @tf.function
    def total(n):
        sum_of, count = tf.constant(0, tf.int64), tf.constant(0)
        for x in D.range(n).map(lambda x: x * x):
            if x > 50:
                break
            sum_of += x
            count += 1
        return sum_of, count

    n = v1.placeholder(tf.int64, [])
    result = total(n)
    with connect(graph) as sess:
        assert sess.run(result, {n: 4}) == (14, 4)
        assert sess.run(result, {n: 100}) == (140, 8)
        assert sess.run(result, {n: 0}) == (0, 0)


def pipeline_threads(cluster):
    """How many threads of passes and of stages that run ahead the servers have."""
    count = 0
    for server in cluster.servers.values():
        for thread in os.listdir(f"/proc/{server.process.pid}/task"):
            with contextlib.suppress(OSError):  # it ends
                with open(f"/proc/{server.process.pid}/task/{thread}/comm", encoding="utf-8") as f:
                    count += f.read().strip() in ("weft-pass", "weft-ahead")
    return count


def wait_for_the_end_of_pipeline_threads(cluster):
    deadline = time.monotonic() + 30
    while pipeline_threads(cluster) > 0:
        assert time.monotonic() < deadline, pipeline_threads(cluster)
        time.sleep(0.05)  # looks at /proc


@pytest.mark.weft_only  # the names of threads
def test_closed_sessions_leave_no_threads(own_cluster):
    """Each session is closed in the middle of its pass, with stages that run ahead."""
    for i in range(10):
        with tf.Graph().as_default() as g:
            d = D.range(10**6).map(lambda x: x + 1, num_parallel_calls=2).shuffle(50, seed=i).batch(4).prefetch(3)
            d = d.interleave(lambda b: D.from_tensor_slices(b), cycle_length=2, num_parallel_calls=2)
            iterator = v1.data.make_initializable_iterator(d)
            element = iterator.get_next()
            with session(own_cluster.master, g) as sess:
                sess.run(iterator.initializer)
                for _ in range(5):
                    sess.run(element)
                assert pipeline_threads(own_cluster) > 0
    wait_for_the_end_of_pipeline_threads(own_cluster)


@pytest.mark.weft_only
def test_closing_the_session_ends_a_query(own_cluster, graph):
    """A stage runs ahead into a query without an end."""
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT 5 UNION ALL SELECT count(*) FROM n"
    iterator = v1.data.make_initializable_iterator(files.rows(endless, tf.int64).prefetch(1))
    element = iterator.get_next()
    with session(own_cluster.master, graph) as sess:
        sess.run(iterator.initializer)
        assert sess.run(element) == (5,)
        assert pipeline_threads(own_cluster) == 2
    wait_for_the_end_of_pipeline_threads(own_cluster)


def test_a_killed_worker_ends_the_step_that_waits_for_its_pipeline(own_cluster):
    with tf.Graph().as_default() as g:
        with tf.device(W1):
            b = Blocked(True)
        with session(own_cluster.master, g) as sess:
            sess.run(b.iterator.initializer)
            thread = threading.Thread(target=b.run, args=(sess,), daemon=True)
            thread.start()
            sess.run(b.waits)
            began = time.monotonic()
            own_cluster.kill("worker", 1)
            thread.join(30)
            assert not thread.is_alive() and isinstance(b.error, (tf.errors.UnavailableError, tf.errors.AbortedError))
            assert time.monotonic() - began < 10


@pytest.mark.parametrize("prefetches", [False, True])
def test_a_server_that_stops_does_not_wait_for_a_pipeline(own_cluster, prefetches):
    with tf.Graph().as_default() as g:
        with tf.device(W1):
            b = Blocked(prefetches)
        with session(own_cluster.master, g) as sess:
            sess.run(b.iterator.initializer)
            thread = threading.Thread(target=b.run, args=(sess,), daemon=True)
            thread.start()
            sess.run(b.waits)
            code, seconds = own_cluster.servers["worker", 1].stop()
            thread.join(30)
            assert not thread.is_alive() and code == 0 and seconds < 10


def test_elements_are_dealt_out_to_devices(connect, graph):
    from tensorflow.python.data.ops import multi_device_iterator_ops  # the only maker of these ops

    dealt = multi_device_iterator_ops.MultiDeviceIterator(D.range(7), ["/cpu:0", "/cpu:0"], prefetch_buffer_size=0)
    first, second = dealt.get_next()
    with connect(graph) as sess:
        sess.run(dealt.initializer)
        assert [sess.run([first, second]) for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run([first, second])


# ---- ops that only older graphs and other clients have ----

ELEMENTS = {"output_types": [tf.int64], "output_shapes": [[]]}


def in_turn(*makers):
    """What each makes, one after the other in a step."""
    made = []
    for make in makers:
        with tf.control_dependencies(made[-1:]):
            made.append(make())
    return made


@pytest.mark.parametrize("op", ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"])
def test_an_iterator_without_a_name_lives_for_a_step(connect, graph, op):
    made = getattr(tf.raw_ops, op)(**ELEMENTS)
    handle = made[0] if op.endswith("V2") else made
    _, first, second, device, old_device = in_turn(
        lambda: tf.raw_ops.MakeIterator(dataset=D.range(5, 9)._variant_tensor, iterator=handle),
        lambda: tf.raw_ops.IteratorGetNextSync(iterator=handle, **ELEMENTS)[0],
        lambda: tf.raw_ops.IteratorGetNext(iterator=handle, **ELEMENTS)[0],
        lambda: tf.raw_ops.IteratorGetDevice(resource=handle),
        lambda: tf.raw_ops.ExperimentalIteratorGetDevice(resource=handle),
    )
    with tf.control_dependencies([first, second, device, old_device]):
        end = tf.raw_ops.DeleteIterator(handle=handle, deleter=made[1]) if op.endswith("V2") else tf.no_op()
    with connect(graph) as sess:
        for _ in range(2):
            a, b, *names, _ = sess.run([first, second, device, old_device, end])
            assert (a, b) == (5, 6)
            assert all(n.endswith(b"CPU:0") for n in names)


def test_an_iterator_of_the_first_version(connect, graph):
    handle = tf.raw_ops.Iterator(shared_name="old", container="", **ELEMENTS)
    begin = tf.raw_ops.MakeIterator(dataset=D.range(2)._variant_tensor, iterator=handle)
    name = tf.raw_ops.IteratorToStringHandle(resource_handle=handle)
    fed = v1.placeholder(tf.string, [])
    named = tf.raw_ops.IteratorFromStringHandle(string_handle=fed, **ELEMENTS)
    element = tf.raw_ops.IteratorGetNextSync(iterator=named, **ELEMENTS)[0]
    other = tf.raw_ops.IteratorFromStringHandle(string_handle=fed, output_types=[tf.string], output_shapes=[[]])
    of_other = tf.raw_ops.IteratorGetNext(iterator=other, output_types=[tf.string], output_shapes=[[]])[0]
    with connect(graph) as sess:
        sess.run(begin)
        feed = {fed: sess.run(name)}
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(of_other, feed)
        assert drain(sess, element, feed) == [0, 1]


@pytest.mark.parametrize("op", ["AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIteratorV3"])
def test_elements_are_dealt_out_without_a_name(connect, graph, op):
    made = getattr(tf.raw_ops, op)(devices=["/cpu:0", "/cpu:0"], **ELEMENTS)
    handle = made if op.endswith("V3") else made[0]
    begun = tf.raw_ops.MultiDeviceIteratorInit(dataset=D.range(3, 9)._variant_tensor, multi_device_iterator=handle, max_buffer_size=1)
    shards = [lambda i=i: tf.raw_ops.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=handle, shard_num=i, incarnation_id=begun, **ELEMENTS)[0] for i in (0, 1, 1, 0)]
    elements = in_turn(*shards)
    with tf.control_dependencies(elements):
        end = tf.no_op() if op.endswith("V3") else tf.raw_ops.DeleteMultiDeviceIterator(multi_device_iterator=handle, iterators=[], deleter=made[1])
    with connect(graph) as sess:
        for _ in range(2):
            assert sess.run([*elements, end])[:4] == [3, 4, 6, 5]


def test_dummies_stand_for_resources(connect, graph):
    with connect(graph) as sess:
        sess.run([tf.raw_ops.DummyIterationCounter().op, tf.raw_ops.DummyMemoryCache().op, tf.raw_ops.DummySeedGenerator().op])


def test_what_has_no_name_is_deleted(cluster, graph):
    """TensorFlow refuses each: the first two as not owned, and the last, since its kernel reads an input that the op lacks."""
    cache, of_cache = tf.raw_ops.AnonymousMemoryCache()
    seeds, of_seeds = tf.raw_ops.AnonymousSeedGenerator(seed=1, seed2=2, reshuffle=True)
    random, of_random = tf.raw_ops.AnonymousRandomSeedGenerator(seed=1, seed2=2)
    shuffled = test_datasets.pipelines_raw.shuffles("ShuffleDatasetV2", seed_generator=lambda: random)()
    ends = [
        tf.raw_ops.DeleteMemoryCache(handle=cache, deleter=of_cache),
        tf.raw_ops.DeleteSeedGenerator(handle=seeds, deleter=of_seeds),
        tf.raw_ops.DeleteRandomSeedGenerator(handle=random, deleter=of_random),
    ]
    iterator = v1.data.make_initializable_iterator(shuffled)
    element = iterator.get_next()
    with session(cluster.master, graph) as sess:
        sess.run(ends)
        sess.run(iterator.initializer)
        assert sorted(drain(sess, element)) == list(range(20))


@pytest.mark.parametrize("op", ["DatasetToTFRecord", "ExperimentalDatasetToTFRecord"])
def test_elements_are_written_as_records(connect, graph, tmp_path, op):
    path = str(tmp_path / "records")
    values = [b"one", b"", b"three"]
    write = getattr(tf.raw_ops, op)(input_dataset=D.from_tensor_slices(values)._variant_tensor, filename=path, compression_type="")
    with connect(graph) as sess:
        sess.run(write)
    assert list(v1.io.tf_record_iterator(path)) == values


def test_a_data_set_is_saved_by_a_step(connect, graph, tmp_path):
    path = str(tmp_path / "saved")
    shard = tf.function(lambda x: tf.constant(0, tf.int64)).get_concrete_function(tf.TensorSpec([], tf.int64))
    write = tf.raw_ops.SaveDataset(input_dataset=D.range(6)._variant_tensor, path=path, shard_func_other_args=[], shard_func=shard)
    with connect(graph) as sess:
        sess.run(write)
    assert sum(f.endswith(".snapshot") for _, _, found in os.walk(path) for f in found) == 1
