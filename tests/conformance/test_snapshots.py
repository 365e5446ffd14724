"""Snapshots on disk: which pass writes and which reads, states in the middle, damaged files, what the other has written."""

import contextlib
import glob
import os
import shutil

import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops.snapshot import legacy_snapshot

import pipelines_files as files
from pipelines import D
from pipelines_snapshots import by_turns, in_order, named
from support import local_session, session, v1
from test_iterators import wait_for_the_end_of_pipeline_threads
from test_snapshot_files import Pass, connect, drain, through, weft  # noqa: F401: fixtures

HASH = 12345
ELEMENTS = 12
COMPRESSIONS = ["", "GZIP", "SNAPPY"]


def words(n=ELEMENTS):
    return D.range(n).map(lambda x: (x, tf.strings.as_string(x)))


def by_thirds(x, *_):
    return x % 3


def numbers_of(elements):
    return sorted(e[0] for e in elements)


def parts(path):
    return sorted(glob.glob(f"{path}/*/*/*.shard/*.snapshot"))


def is_final_of(folder):
    with open(f"{folder}/snapshot.metadata", "rb") as f:
        return f.read().endswith(b"\xc0\x3e\x01")


def is_final(path):
    return is_final_of(f"{path}/{HASH}")


# ---- what one has written the other reads ----


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shard", [None, by_thirds])
@pytest.mark.parametrize("reader", [in_order, by_turns])
@pytest.mark.parametrize("writer", ["Weft", "TensorFlow"])
def test_a_snapshot_is_read_by_the_other(weft, tmp_path, writer, compression, shard, reader):
    """The second one has another input: what it gives comes from the snapshot."""
    path = str(tmp_path)
    first, second = (weft, local_session) if writer == "Weft" else (local_session, weft)
    more = {"shard": shard} if shard else {}
    assert len(through(first, lambda: named(words(), path, HASH, compression, **more))) == ELEMENTS
    read = [through(c, lambda: named(words(2), path, HASH, compression, reader=reader)) for c in (first, second)]
    assert numbers_of(read[0]) == list(range(ELEMENTS))
    assert read[1] == read[0]


@pytest.mark.parametrize("hash", [1, 2**63 - 1, -1, -(2**63)])
def test_a_hash_is_the_name_of_the_directory(connect, tmp_path, hash):
    through(connect, lambda: named(words(), str(tmp_path), hash))
    assert os.listdir(tmp_path) == [str(hash % 2**64)]


# ---- which pass writes ----


def test_a_later_session_reads_what_the_first_pass_wrote(connect, tmp_path):
    """The input is gone by then."""
    source = str(tmp_path / "source")
    with tf.io.TFRecordWriter(source) as w:
        for i in range(7):
            w.write(b"%d" % i)
    shards = {"shard_func": lambda _: tf.constant(0, tf.int64)}
    first = through(connect, lambda: tf.data.TFRecordDataset(source).snapshot(str(tmp_path / "s"), **shards))
    os.remove(source)
    assert through(connect, lambda: tf.data.TFRecordDataset(source).snapshot(str(tmp_path / "s"), **shards)) == first
    assert len(first) == 7


CHANGED = {
    "an input": lambda n: D.range(n).map(lambda x: x * 2),
    "a captured tensor": lambda n: D.range(6).map(lambda x: x * tf.constant(n, tf.int64)),
    "a batch": lambda n: D.range(6).repeat(2).batch(n).map(tf.reduce_sum),
    "the names of files": lambda n: files.fixed(*["fixed.bin"] * n, record_bytes=4).map(lambda x: tf.cast(tf.strings.length(x), tf.int64)),
}


@pytest.mark.parametrize("what", sorted(CHANGED))
def test_pipelines_that_differ_do_not_share_a_snapshot(connect, tmp_path, what):
    shards = {"shard_func": lambda _: tf.constant(0, tf.int64)}
    for n in (2, 3, 2):
        want = through(connect, lambda n=n: CHANGED[what](n))
        assert through(connect, lambda n=n: CHANGED[what](n).snapshot(str(tmp_path), **shards)) == want
    assert len(os.listdir(tmp_path)) == 2


def test_snapshots_of_other_compressions_do_not_meet(connect, tmp_path):
    for compression in ("GZIP", None, "SNAPPY", "GZIP", None):
        seen = through(connect, lambda c=compression: D.range(7).snapshot(str(tmp_path), compression=c))
        assert numbers_of(seen) == list(range(7))
    assert len(os.listdir(tmp_path)) == 3


def test_names_in_the_graph_do_not_matter(connect, tmp_path):
    def build(scope):
        with v1.name_scope(scope):
            return D.range(7).map(lambda x: x + 1).snapshot(str(tmp_path))

    assert through(connect, lambda: build("a")) == through(connect, lambda: build("b"))
    assert len(os.listdir(tmp_path)) == 1


def test_a_pass_that_ends_early_is_not_read(connect, tmp_path):
    path = str(tmp_path)
    through(connect, lambda: named(words(), path, HASH), 5)
    assert not is_final(path)
    assert len(through(connect, lambda: named(words(3), path, HASH))) == 3
    assert is_final(path)


@pytest.mark.weft_only
def test_closing_the_session_ends_the_writing(own_cluster, tmp_path):
    path = str(tmp_path)
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(named(words(10**6), path, HASH, shard=by_thirds).prefetch(2))
        element = iterator.get_next()
        with session(own_cluster.master, graph) as sess:
            sess.run(iterator.initializer)
            drain(sess, element, 5)
    wait_for_the_end_of_pipeline_threads(own_cluster)
    assert not is_final(path)
    assert glob.glob(f"{path}/*/*") == [f"{path}/{HASH}/snapshot.metadata"]


def test_two_passes_at_once_write_two_runs(connect, tmp_path):
    path = str(tmp_path)
    with tf.Graph().as_default() as graph:
        iterators = [v1.data.make_initializable_iterator(named(words(), path, HASH)) for _ in range(2)]
        elements = [i.get_next() for i in iterators]
        with connect(graph) as sess:
            sess.run([i.initializer for i in iterators])
            for element in elements:
                drain(sess, element, 3)
            assert [len(drain(sess, element)) for element in elements] == [ELEMENTS - 3] * 2
    assert len(glob.glob(f"{path}/*/*/")) == 2
    assert numbers_of(through(connect, lambda: named(words(1), path, HASH))) == list(range(ELEMENTS))


# ---- states ----


@pytest.mark.parametrize("goes_on", [0, 4, ELEMENTS])
@pytest.mark.parametrize("at", [0, 1, 5, ELEMENTS - 1, ELEMENTS])
def test_a_pass_that_is_restored_writes_the_rest(weft, tmp_path, at, goes_on):
    """`goes_on`: how many elements the first pass has given after its state was saved; they are not written twice."""
    path = str(tmp_path / "s")
    p = Pass(weft, lambda: named(words(), path, HASH, shard=by_thirds))
    with p.begin() as sess:
        first = drain(sess, p.element, at)
        state = p.save(sess, str(tmp_path / "state"))
        drain(sess, p.element, goes_on)
    with p.begin(state) as sess:
        rest = drain(sess, p.element)
    assert numbers_of(first + rest) == list(range(ELEMENTS))
    assert is_final(path)
    for read in (weft, local_session):
        assert numbers_of(through(read, lambda: named(words(1), path, HASH))) == list(range(ELEMENTS))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_pass_is_saved_again_and_again(weft, tmp_path, compression):
    path, state = str(tmp_path / "s"), None
    p = Pass(weft, lambda: named(words(), path, HASH, compression, shard=by_thirds))
    seen = []
    for i in range(ELEMENTS // 2):
        with p.begin(state) as sess:
            seen += drain(sess, p.element, 2)
            state = p.save(sess, str(tmp_path / f"state{i}"))
    with p.begin(state) as sess:
        assert drain(sess, p.element) == []
    assert numbers_of(seen) == list(range(ELEMENTS))
    for read in (weft, local_session):
        assert numbers_of(through(read, lambda: named(words(1), path, HASH, compression))) == list(range(ELEMENTS))


@pytest.mark.parametrize("at", [0, 1, 5, ELEMENTS])
@pytest.mark.parametrize("reader", [in_order, by_turns])
def test_a_pass_that_reads_goes_on(weft, tmp_path, at, reader):
    path = str(tmp_path / "s")
    through(weft, lambda: named(words(), path, HASH, shard=by_thirds))
    p = Pass(weft, lambda: named(words(1), path, HASH, reader=reader))
    with p.begin() as sess:
        drain(sess, p.element, at)
        state = p.save(sess, str(tmp_path / "state"))
        want = drain(sess, p.element)
    with p.begin(state) as sess:
        assert drain(sess, p.element) == want


def test_a_state_of_another_pipeline_is_refused(weft, tmp_path):
    path = str(tmp_path / "s")
    one = Pass(weft, lambda: named(words(), path, HASH))
    with one.begin() as sess:
        drain(sess, one.element, 3)
        state = one.save(sess, str(tmp_path / "state"))
    other = Pass(weft, lambda: named(words(), path, HASH + 1))
    with pytest.raises(tf.errors.DataLossError, match="Dataset has changed"), other.begin(state):
        pass


@pytest.mark.parametrize("missing", ["metadata", "part"])
def test_a_state_whose_files_are_gone_is_refused(weft, tmp_path, missing):
    path = str(tmp_path / "s")
    p = Pass(weft, lambda: named(words(), path, HASH))
    with p.begin() as sess:
        drain(sess, p.element, 3)
        state = p.save(sess, str(tmp_path / "state"))
    os.remove(parts(path)[0] if missing == "part" else f"{path}/{HASH}/snapshot.metadata")
    with pytest.raises(tf.errors.DataLossError, match="is gone" if missing == "part" else "does not exist any more"), p.begin(state):
        pass


# ---- failures ----


@contextlib.contextmanager
def damaged(path, change):
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(change(data))
    yield


def flip(at):
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE = {
    "a bit of the first length": flip(3),
    "a bit of the first data": flip(14),
    "a bit of the last checksum": flip(-1),
    "cut in the last data": lambda d: d[:-6],
    "no TFRecord": lambda d: b"no record of anything, but long enough" * 9,
    "a length of 2**63": lambda d: b"\xff" * 7 + b"\x7f" + d[8:],
}


@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_a_damaged_part_is_a_loss_of_data(connect, tmp_path, what):
    path = str(tmp_path)
    through(connect, lambda: named(words(), path, HASH))
    with damaged(parts(path)[0], DAMAGE[what]), pytest.raises(tf.errors.DataLossError):
        through(connect, lambda: named(words(1), path, HASH))


@pytest.mark.weft_only
@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_the_error_names_the_file_and_the_element(weft, tmp_path, what):
    path = str(tmp_path)
    through(weft, lambda: named(words(), path, HASH))
    part = parts(path)[0]
    with damaged(part, DAMAGE[what]), pytest.raises(tf.errors.DataLossError) as e:
        through(weft, lambda: named(words(1), path, HASH))
    element = ELEMENTS - 1 if "last" in what else 0
    assert f"element {element} of {part}" in e.value.message


@pytest.mark.weft_only
@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff",
        b"\x12\xff\xff\xff\xff\x0f123",
        b"\x12\x05../..\x20\x02\xc0\x3e\x01",  # a run outside the directory, which TensorFlow follows
    ],
)
def test_damaged_metadata_are_a_loss_of_data(weft, tmp_path, data):
    """TensorFlow says INTERNAL of most."""
    os.makedirs(tmp_path / str(HASH))
    (tmp_path / str(HASH) / "snapshot.metadata").write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match="snapshot.metadata"):
        through(weft, lambda: named(words(), str(tmp_path), HASH))


def test_empty_metadata_are_not_final(connect, tmp_path):
    os.makedirs(tmp_path / str(HASH))
    (tmp_path / str(HASH) / "snapshot.metadata").write_bytes(b"")
    assert len(through(connect, lambda: named(words(), str(tmp_path), HASH))) == ELEMENTS
    assert is_final(str(tmp_path))


def test_a_shard_without_its_first_part_is_not_found(connect, tmp_path):
    path = str(tmp_path)
    through(connect, lambda: named(words(), path, HASH))
    os.remove(parts(path)[0])
    with pytest.raises(tf.errors.NotFoundError):
        through(connect, lambda: named(words(), path, HASH))


@pytest.mark.parametrize("path, error", [("file", tf.errors.FailedPreconditionError), ("/proc/no/such", tf.errors.NotFoundError)])
def test_a_folder_that_cannot_be_made(connect, tmp_path, path, error):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(error):
        through(connect, lambda: named(words(), str(tmp_path / path), HASH))


@pytest.mark.weft_only
def test_files_that_cannot_be_written_end_the_pass(weft, tmp_path):
    """The run's folder is taken away under it: each later element fails, and the metadata do not become final."""
    path = str(tmp_path)
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(named(words(), path, HASH))
        element = iterator.get_next()
        with weft(graph) as sess:
            sess.run(iterator.initializer)
            drain(sess, element, 3)
            shutil.rmtree(glob.glob(f"{path}/*/*/")[0])
            for _ in range(3):
                with pytest.raises(tf.errors.NotFoundError):
                    drain(sess, element)
            assert not is_final(path)
            sess.run(iterator.initializer)
            assert len(drain(sess, element)) == ELEMENTS
    assert is_final(path)


@pytest.mark.weft_only
def test_a_reader_func_of_other_elements_is_refused(weft, tmp_path):
    path = str(tmp_path)
    through(weft, lambda: named(words(), path, HASH))
    with pytest.raises(tf.errors.InvalidArgumentError):
        through(weft, lambda: named(words(), path, HASH, reader=lambda shards: shards.flat_map(lambda s: s.map(lambda x, y: (y, x)))))


# ---- the first kind ----


def old(n, path, name="x", **options):
    return words(n).apply(legacy_snapshot(path, snapshot_name=name, **options))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("size", [1 << 30, 60])
@pytest.mark.parametrize("writer", ["Weft", "TensorFlow"])
def test_an_old_snapshot_is_read_by_the_other(weft, tmp_path, writer, compression, size):
    path = str(tmp_path)
    first, second = (weft, local_session) if writer == "Weft" else (local_session, weft)
    want = through(first, lambda: old(ELEMENTS, path, compression=compression, shard_size_bytes=size))
    for reader in (first, second):
        assert through(reader, lambda: old(2, path, compression=compression, shard_size_bytes=size)) == want
    assert len(want) == ELEMENTS


def test_an_old_snapshot_that_is_pending_is_passed_through(connect, tmp_path):
    path = str(tmp_path)
    through(connect, lambda: old(ELEMENTS, path), 3)
    assert len(through(connect, lambda: old(5, path))) == 5
    assert len(through(connect, lambda: old(7, path))) == 7
    assert not is_final_of(f"{path}/custom-x")


@pytest.mark.weft_only
def test_an_old_snapshot_is_written_anew(weft, tmp_path):
    """TensorFlow adds to the files of the same name."""
    path = str(tmp_path)
    through(weft, lambda: old(ELEMENTS, path, shard_size_bytes=60))
    assert len(through(weft, lambda: old(4, path, mode="write"))) == 4
    assert len(through(weft, lambda: old(9, path))) == 4


@pytest.mark.weft_only
def test_prefixes_of_old_snapshots(weft, tmp_path):
    """Files are written under one and read under another; in between they are moved to where the metadata are."""
    path, written, read = (str(tmp_path / name) for name in ("s", "written", "read"))
    want = through(weft, lambda: old(ELEMENTS, path, writer_path_prefix=written))
    shutil.copytree(f"{written}{path}/custom-x/custom", f"{path}/custom-x/custom")
    shutil.move(f"{written}{path}", f"{read}{path}")
    assert through(weft, lambda: old(2, path, reader_path_prefix=read)) == want


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("goes_on", [0, 4, ELEMENTS])
@pytest.mark.parametrize("at", [0, 1, 5, ELEMENTS - 1, ELEMENTS])
@pytest.mark.parametrize("name", ["x", ""])
def test_an_old_pass_that_is_restored_writes_the_rest(weft, tmp_path, at, goes_on, compression, name):
    path = str(tmp_path / "s")
    p = Pass(weft, lambda: old(ELEMENTS, path, name, compression=compression))
    with p.begin() as sess:
        first = drain(sess, p.element, at)
        state = p.save(sess, str(tmp_path / "state"))
        drain(sess, p.element, goes_on)
    with p.begin(state) as sess:
        rest = drain(sess, p.element)
    assert numbers_of(first + rest) == list(range(ELEMENTS))
    if name and (at > 0 or goes_on != 4):  # else the snapshot was pending when the pass began
        for read in (weft, local_session):
            assert numbers_of(through(read, lambda: old(1, path, name, compression=compression))) == list(range(ELEMENTS))


@pytest.mark.parametrize("at", [0, 1, 5, ELEMENTS])
def test_an_old_pass_that_reads_goes_on(weft, tmp_path, at):
    path = str(tmp_path / "s")
    through(weft, lambda: old(ELEMENTS, path, shard_size_bytes=60))
    p = Pass(weft, lambda: old(1, path, shard_size_bytes=60, shuffle_on_read=True))
    with p.begin() as sess:
        drain(sess, p.element, at)
        state = p.save(sess, str(tmp_path / "state"))
        want = drain(sess, p.element)
    with p.begin(state) as sess:
        got = drain(sess, p.element)
    assert got == want or at == 0  # which has chosen no order yet


OLD_DAMAGE = {  # there are no checksums, and all of a gzip stream that is cut short comes before its end
    "half of it": (lambda d: d[: len(d) // 2], COMPRESSIONS),
    "another head": (lambda d: b"\xff" * 8 + d[8:], COMPRESSIONS),
    "cut at the end": (lambda d: d[:-3], ["", "SNAPPY"]),
    "cut in the first length": (lambda d: d[:3], ["", "SNAPPY"]),
    "another tag": (flip(8), ["", "SNAPPY"]),
    "a length of 2**62": (lambda d: d[:7] + b"\x40" + d[8:], ["", "SNAPPY"]),
}


@pytest.mark.weft_only
@pytest.mark.parametrize("what, compression", [(what, c) for what, (_, kinds) in OLD_DAMAGE.items() for c in kinds])
def test_a_damaged_file_of_an_old_snapshot_is_a_loss_of_data(weft, tmp_path, what, compression):
    """TensorFlow takes what is cut short for the end, and says INTERNAL of some."""
    path = str(tmp_path)
    through(weft, lambda: old(ELEMENTS, path, compression=compression))
    file = glob.glob(f"{path}/custom-x/custom/*.snapshot")[0]
    with damaged(file, OLD_DAMAGE[what][0]), pytest.raises(tf.errors.DataLossError, match="custom-x/custom/00000000.snapshot"):
        through(weft, lambda: old(1, path, compression=compression))


@pytest.mark.weft_only
def test_an_old_pass_that_ends_early_leaves_no_files(own_cluster, tmp_path):
    path = str(tmp_path)
    through(lambda graph: session(own_cluster.master, graph), lambda: old(10**6, path, shard_size_bytes=30), 5)
    wait_for_the_end_of_pipeline_threads(own_cluster)
    assert glob.glob(f"{path}/*/*") == [f"{path}/custom-x/snapshot.metadata"]
