"""LMDB databases, as data sets and by a reader.

TensorFlow 2.19 has the ops and answers UNIMPLEMENTED; these are Weft's. tests/io:lmdb_test has all forms of databases, beside
liblmdb, which has also written the two files here.
"""

import os

import pytest
import tensorflow as tf

from pipelines import D
from pipelines_raw import R, of
from support import session, v1
from test_snapshot_files import Pass, drain, through, weft  # noqa: F401: a fixture

TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../io/testdata")
ENTRIES = os.path.join(TESTDATA, "entries.mdb")
PAIR = (tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.string))
LARGE = bytes(i % 256 for i in range(10000))
WANT = [(b"key %03d" % i, LARGE if i == 50 else b"value %d of a hundred, and so on" % (i * i)) for i in range(100)]
DUPLICATES = [(b"few", b"%04d" % i) for i in range(3)] + [(b"many", b"%04d" % i) for i in range(3, 400)] + [(b"one", b"1")]
pytestmark = pytest.mark.weft_only


def entries_of(names, op="LMDBDataset"):
    return of(getattr(R, op)(filenames=names, output_types=[tf.string] * 2, output_shapes=[[]] * 2), PAIR)


def entries(*paths, **options):
    return entries_of([str(p) for p in paths], **options)


def damaged(tmp_path, change):
    with open(ENTRIES, "rb") as f:
        data = bytearray(f.read())
    changed = change(data)
    data = data if changed is None else changed
    (tmp_path / "damaged.mdb").write_bytes(data)
    return str(tmp_path / "damaged.mdb")


@pytest.mark.parametrize("op", ["LMDBDataset", "ExperimentalLMDBDataset"])
def test_a_database_is_a_data_set(weft, op):
    assert through(weft, lambda: entries(ENTRIES, op=op)) == WANT


def test_databases_come_one_after_the_other(weft):
    assert through(weft, lambda: entries(ENTRIES, os.path.join(TESTDATA, "duplicates.mdb"), ENTRIES)) == WANT + DUPLICATES + WANT


def test_a_directory_has_a_database(weft, tmp_path):
    (tmp_path / "data.mdb").write_bytes(open(ENTRIES, "rb").read())
    assert through(weft, lambda: entries(tmp_path)) == WANT
    assert os.listdir(tmp_path) == ["data.mdb"]  # no lock


def test_no_database_at_all(weft):
    assert through(weft, lambda: entries_of(tf.zeros([0], tf.string))) == []


def test_databases_are_mapped_and_read_by_turns(weft):
    paths = [ENTRIES, os.path.join(TESTDATA, "duplicates.mdb")]

    def build():
        d = D.from_tensor_slices(paths).interleave(entries_of, cycle_length=2, num_parallel_calls=2)
        return d.map(lambda k, v: (k, tf.strings.length(v)))

    assert sorted(through(weft, build)) == sorted((k, len(v)) for k, v in WANT + DUPLICATES)


@pytest.mark.parametrize("at", [0, 1, 49, 50, 51, 100, 101, 150, 200])
def test_a_pass_goes_on(weft, tmp_path, at):
    p = Pass(weft, lambda: entries(ENTRIES, ENTRIES))
    with p.begin() as sess:
        drain(sess, p.element, at)
        state = p.save(sess, str(tmp_path / "state"))
        drain(sess, p.element, 7)
    with p.begin(state) as sess:
        assert drain(sess, p.element) == (WANT + WANT)[at:]


# ---- errors ----


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda d: d[:0], "MDB_INVALID: File is not an LMDB file"),
        (lambda d: d[:4200], "MDB_INVALID: File is not an LMDB file"),
        (lambda d: b"no database of anything" * 999, "MDB_INVALID: File is not an LMDB file"),
        (lambda d: d[: 3 * 4096], r"MDB_PAGE_NOTFOUND: Requested page not found \(page \d+\)"),
        (lambda d: d.__setitem__(slice(20, 21), b"\x09"), r"MDB_VERSION_MISMATCH: Database environment version mismatch \(page 0\)"),
    ],
)
def test_a_damaged_database_is_an_invalid_argument(weft, tmp_path, change, words):
    path = damaged(tmp_path, change)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"damaged.mdb: {words}"):
        through(weft, lambda: entries(path))


def test_damage_in_the_middle_comes_after_what_is_before_it(weft, tmp_path):
    """The page in front of the last, a leaf, has a number of another."""
    path = damaged(tmp_path, lambda d: d.__setitem__(slice(4096 * 3, 4096 * 3 + 1), b"\x33"))
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(entries(path))
        element = iterator.get_next()
        with weft(graph) as sess:
            sess.run(iterator.initializer)
            seen = []
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"MDB_CORRUPTED: Located page was wrong type \(page 3\)"):
                while True:
                    seen.append(sess.run(element))
            assert seen == WANT[: len(seen)]
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(element)


def test_a_database_that_is_not_there(weft, tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="nothing/data.mdb; No such file or directory"):
        through(weft, lambda: entries(tmp_path / "nothing"))


def test_file_names_are_a_scalar_or_a_vector(weft):
    with pytest.raises(tf.errors.InvalidArgumentError, match="`filenames` must be a scalar or a vector."):
        through(weft, lambda: entries_of([[ENTRIES]]))


# ---- the reader ----


class Reading:
    def __init__(self, *paths):
        self.reader = v1.LMDBReader()
        self.queue = v1.FIFOQueue(9, tf.string)
        self.fill = [self.queue.enqueue_many([list(paths)]), self.queue.close()]


def test_a_reader_gives_keys_and_values(cluster, graph):
    r = Reading(ENTRIES, ENTRIES)
    one, many = r.reader.read(r.queue), r.reader.read_up_to(r.queue, 30)
    counts = [r.reader.num_records_produced(), r.reader.num_work_units_completed()]
    with session(cluster.master, graph) as sess:
        for op in r.fill:
            sess.run(op)
        assert tuple(sess.run(one)) == WANT[0]
        seen = [WANT[0]]
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                seen += list(zip(*(part.tolist() for part in sess.run(many))))
        assert seen == WANT + WANT
        assert sess.run(counts) == [200, 2]


def test_a_reader_is_reset(cluster, graph):
    r = Reading(ENTRIES, ENTRIES)
    one, reset = r.reader.read(r.queue), r.reader.reset()
    with session(cluster.master, graph) as sess:
        for op in r.fill:
            sess.run(op)
        for _ in range(3):
            sess.run(one)
        sess.run(reset)
        assert tuple(sess.run(one)) == WANT[0]


def test_a_reader_of_a_damaged_database_fails(cluster, graph, tmp_path):
    r = Reading(damaged(tmp_path, lambda d: d[:4200]), ENTRIES)
    one = r.reader.read(r.queue)
    with session(cluster.master, graph) as sess:
        for op in r.fill:
            sess.run(op)
        with pytest.raises(tf.errors.InvalidArgumentError, match="MDB_INVALID"):
            sess.run(one)


def test_a_place_in_a_database_is_not_serialized(cluster, graph):
    r = Reading(ENTRIES)
    with session(cluster.master, graph) as sess, pytest.raises(tf.errors.UnimplementedError):
        sess.run(r.reader.serialize_state())
