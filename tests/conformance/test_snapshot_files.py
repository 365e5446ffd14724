"""Data sets of the files of snapshots: what many writers write, seen while they do, and shards as data sets."""

import contextlib
import os

import numpy as np
import pytest
import tensorflow as tf

from pipelines import D
from pipelines_raw import R, STRING, kinds, of
from support import local_session, session, v1
from test_iterators import pipeline_threads, wait_for_the_end_of_pipeline_threads

ELEMENTS = 12
SCALAR = tf.TensorSpec([], tf.int64)


@pytest.fixture(params=["TensorFlow", "Weft"])
def connect(request, cluster):
    """Opens a session of a graph at one of the two."""
    return local_session if request.param == "TensorFlow" else lambda graph: session(cluster.master, graph)


@pytest.fixture
def weft(cluster):
    return lambda graph: session(cluster.master, graph)


def drain(sess, element, n=1000):
    seen = []
    with contextlib.suppress(tf.errors.OutOfRangeError):
        for _ in range(n):
            seen.append(tuple(np.asarray(part).tolist() for part in tf.nest.flatten(sess.run(element))))
    return seen


def through(connect, build, n=1000):
    """What a pass in a session of its own gives, `n` elements of it at most."""
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(build())
        element = iterator.get_next()
        with connect(graph) as sess:
            sess.run(iterator.initializer)
            return drain(sess, element, n)


class Pass:
    """An iterator with a saver of its state, in a graph of its own."""

    def __init__(self, connect, build):
        self.connect, self.graph = connect, tf.Graph()
        with self.graph.as_default():
            self.iterator = v1.data.make_initializable_iterator(build())
            self.element = self.iterator.get_next()
            self.saver = v1.train.Saver([tf.data.experimental.make_saveable_from_iterator(self.iterator)])

    @contextlib.contextmanager
    def begin(self, state=None):
        with self.connect(self.graph) as sess:
            sess.run(self.iterator.initializer)
            if state:
                self.saver.restore(sess, state)
            yield sess

    def save(self, sess, path):
        return self.saver.save(sess, path, write_meta_graph=False)


# ---- data sets of shards ----


@pytest.mark.weft_only
def test_data_sets_are_the_elements_of_a_nested_one(weft):
    """TensorFlow keeps no reference to them, and dies."""

    def nested():
        shards = [D.range(3), D.range(10, 14), D.range(0)]
        inputs = [s._variant_tensor for s in shards]
        return of(R.SnapshotNestedDatasetReader(inputs=inputs, **kinds()), tf.data.DatasetSpec(SCALAR)).flat_map(lambda s: s)

    assert [e[0] for e in through(weft, nested)] == [0, 1, 2, 10, 11, 12, 13]


# ---- snapshots of many writers ----


def write_chunk(path, name, values):
    os.makedirs(f"{path}/chunks", exist_ok=True)
    with tf.io.TFRecordWriter(f"{path}/chunks/{name}") as w:
        for v in values:
            w.write(tf.make_tensor_proto(v, tf.int64).SerializeToString())


def chunk_names(path):
    return of(R.ListSnapshotChunksDataset(snapshot_path=str(path), **kinds(STRING)), STRING)


def names_in(connect, path):
    return [os.path.basename(e[0].decode()) for e in through(connect, lambda: chunk_names(path))]


CHUNKS = ["chunk_0_0_2", "chunk_10_0_1", "chunk_2_0_1", "chunk_0_10_1", "chunk_0_2_3", "chunk_1_2_3", "chunk_0_1_1__x.tmp"]


def test_chunks_come_by_number_and_stream(connect, tmp_path):
    for name in CHUNKS:
        write_chunk(tmp_path, name, [1])
    (tmp_path / "DONE").write_bytes(b"")
    assert names_in(connect, tmp_path) == ["chunk_0_0_2", "chunk_2_0_1", "chunk_10_0_1", "chunk_0_2_3", "chunk_1_2_3", "chunk_0_10_1"]


def test_chunks_are_read(connect, tmp_path):
    for i in range(3):
        write_chunk(tmp_path, f"chunk_{i}_0_2", [2 * i, 2 * i + 1])
    (tmp_path / "DONE").write_bytes(b"")

    def read():
        return chunk_names(tmp_path).flat_map(lambda f: of(R.SnapshotChunkDataset(chunk_file=f, compression="", **kinds()), SCALAR))

    assert [e[0] for e in through(connect, read)] == list(range(6))


def test_a_snapshot_without_chunks_is_empty(connect, tmp_path):
    (tmp_path / "DONE").write_bytes(b"")
    assert names_in(connect, tmp_path) == []


def test_an_empty_path_of_chunks_is_refused(connect, tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="snapshot_path is required"):
        names_in(connect, "")


@pytest.mark.parametrize(
    "text, error",
    [
        ('code: CANCELLED message: "stopped"', tf.errors.CancelledError),
        ("code: 15\nmessage: 'a disk is \\'full\\''", tf.errors.DataLossError),
        ("code: OK", tf.errors.InternalError),
        ("", tf.errors.InternalError),
    ],
)
def test_the_failure_of_the_writers_is_that_of_the_reader(connect, tmp_path, text, error):
    write_chunk(tmp_path, "chunk_0_0_1", [1])
    (tmp_path / "ERROR").write_text(text)
    with pytest.raises(error):
        names_in(connect, tmp_path)


@pytest.mark.weft_only
def test_a_damaged_failure_names_its_file(weft, tmp_path):
    (tmp_path / "ERROR").write_text("code: {")
    with pytest.raises(tf.errors.InvalidArgumentError, match="ERROR:1:"):
        names_in(weft, tmp_path)


def test_chunks_that_come_later_are_listed(connect, tmp_path):
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(chunk_names(tmp_path))
        element = iterator.get_next()
        with connect(graph) as sess:
            sess.run(iterator.initializer)
            write_chunk(tmp_path, "chunk_5_5_1", [1])
            assert sess.run(element).endswith(b"chunk_5_5_1")
            write_chunk(tmp_path, "chunk_0_0_1", [1])
            write_chunk(tmp_path, "chunk_1_0_1", [1])
            assert sess.run(element).endswith(b"chunk_0_0_1")
            (tmp_path / "DONE").write_bytes(b"")
            assert [os.path.basename(e[0]) for e in drain(sess, element)] == [b"chunk_1_0_1"]


@pytest.mark.weft_only
def test_a_wait_for_chunks_ends_with_its_step(cluster, tmp_path):
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(chunk_names(tmp_path))
        element = iterator.get_next()
        with session(cluster.master, graph) as sess:
            sess.run(iterator.initializer)
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(element, options=v1.RunOptions(timeout_in_ms=300))


@pytest.mark.weft_only
def test_closing_the_session_ends_a_wait_for_chunks(own_cluster, tmp_path):
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(chunk_names(tmp_path).prefetch(1))
        element = iterator.get_next()
        with session(own_cluster.master, graph) as sess:
            sess.run(iterator.initializer)
            write_chunk(tmp_path, "chunk_0_0_1", [1])
            assert sess.run(element).endswith(b"chunk_0_0_1")
            assert pipeline_threads(own_cluster) == 2
    wait_for_the_end_of_pipeline_threads(own_cluster)


def test_a_list_of_chunks_goes_on(weft, tmp_path):
    folder = tmp_path / "s"
    for i in range(5):
        write_chunk(folder, f"chunk_0_{i}_1", [1])
    (folder / "DONE").write_bytes(b"")
    p = Pass(weft, lambda: chunk_names(folder))
    with p.begin() as sess:
        drain(sess, p.element, 2)
        state = p.save(sess, str(tmp_path / "state"))
        want = drain(sess, p.element)
    with p.begin(state) as sess:
        assert drain(sess, p.element) == want
    assert len(want) == 3


# ---- a data set that is saved as it is gone through ----


def test_a_data_set_that_is_saved_goes_on(weft, tmp_path):
    """SaveDatasetV2, whose folder has no hash."""
    path = str(tmp_path / "s")
    shard = tf.function(lambda x: x % 3).get_concrete_function(SCALAR)

    def saved():
        return of(R.SaveDatasetV2(input_dataset=D.range(ELEMENTS)._variant_tensor, path=path, shard_func_other_args=[], shard_func=shard, **kinds()), SCALAR)

    p = Pass(weft, saved)
    with p.begin() as sess:
        drain(sess, p.element, 5)
        state = p.save(sess, str(tmp_path / "state"))
        drain(sess, p.element, 2)
    with p.begin(state) as sess:
        assert len(drain(sess, p.element)) == ELEMENTS - 5
    load = lambda: D.load(path, element_spec=SCALAR)  # noqa: E731
    for read in (weft, local_session):
        assert sorted(e[0] for e in through(read, load)) == list(range(ELEMENTS))
