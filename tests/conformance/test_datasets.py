"""Pipelines in the graph: element for element what TensorFlow makes, order and errors included, in several passes.

pipelines*.py have the programs. Each is built in a graph and run on both; a pass ends with the end of the sequence or with
an error, which is compared by its class; after an error the iterator is asked on.
"""

import contextlib
import os
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_dataset_ops

import pipelines
import pipelines_files
import pipelines_raw  # noqa: F401: its programs join pipelines.ALL
import pipelines_snapshots  # noqa: F401
import random_pipelines
from support import local_session, session, v1

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../ops/dataset.def"), encoding="utf-8") as records:
    OPS = set(re.findall(r'^WEFT_OP\("(\w+)"', records.read(), re.M))  # of pipelines
MAX_ELEMENTS = 200
ERRORS_PER_PASS = 5


def plain(value):
    """A value of an element as lists, so that differences show."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, v1.SparseTensorValue):
        return ("sparse", value.indices.tolist(), value.values.tolist(), value.dense_shape.tolist())
    if isinstance(value, tf.compat.v1.ragged.RaggedTensorValue):
        return ("ragged", value.to_list())
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def passes_of(sess, iterator, element, passes):
    """What so many passes give; the name of an error in place of one that does not begin."""
    seen = []
    for _ in range(passes):
        try:
            sess.run(iterator.initializer)
            seen.append(rest(sess, element))
        except tf.errors.OpError as e:
            seen.append([f"initializer: {type(e).__name__}"])
    return seen


def run(make_session, program, passes):
    """What the passes give: elements, and the names of errors."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(77)
        iterator = v1.data.make_initializable_iterator(program.build())
        element = iterator.get_next()
        inits = [v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()]
        with make_session(graph) as sess:
            sess.run(inits)
            return passes_of(sess, iterator, element, passes)


def same(got, want, where=""):
    """Compares nested lists with arrays in them."""
    assert type(got) is type(want), f"{where}: {got!r} instead of {want!r}"
    if isinstance(want, dict):
        assert got.keys() == want.keys(), where
        for k in want:
            same(got[k], want[k], f"{where}.{k}")
    elif isinstance(want, (list, tuple)):
        for i, (a, b) in enumerate(zip(got, want)):
            same(a, b, f"{where}[{i}]")
        assert len(got) == len(want), f"{where}: {len(got)} instead of {len(want)}"
    elif isinstance(want, np.ndarray) and want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6, err_msg=where)
    elif isinstance(want, np.ndarray):
        np.testing.assert_array_equal(got, want, err_msg=where)
        assert got.dtype == want.dtype, where
    else:
        is_near = isinstance(want, (float, np.floating)) and np.isclose(got, want, rtol=2e-5, atol=2e-6, equal_nan=True)
        assert got == want or is_near, f"{where}: {got!r} instead of {want!r}"


def note_ops(request, graph_def, suite):
    """For verified.py: the ops of pipelines that a program has shown to be TensorFlow's."""
    path = request.config.getoption("--record")
    if not path:
        return
    nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
    ops = sorted({n.op for n in nodes} & OPS)
    with open(path, "a", encoding="utf-8") as f:
        f.writelines(f"{op} suite {suite}\n" for op in ops)


def in_any_order(passes):
    return [sorted(each, key=repr) for each in passes]


@pytest.mark.parametrize("name", sorted(pipelines.ALL))
def test_pipelines_give_the_same_elements(cluster, request, name):
    program = pipelines.ALL[name]
    want = run(local_session, program, program.passes)
    got = run(lambda graph: session(cluster.master, graph), program, program.passes)
    if program.any_order:
        want, got = in_any_order(want), in_any_order(got)
    assert any(want) or program.may_be_empty, "the program makes no element"
    same(got, want)
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(program.build()).get_next()
        note_ops(request, graph.as_graph_def(), "test_datasets")


def pytest_generate_tests(metafunc):
    if "random_case" in metafunc.fixturenames:
        one = metafunc.config.getoption("--case")
        metafunc.parametrize("random_case", [one] if one is not None else range(3 * metafunc.config.getoption("--cases")))


def test_random_pipelines_give_the_same_elements(cluster, random_case):
    """--cases=N runs 3 * N of them, --case=K only one."""
    program = pipelines.Program(lambda: random_pipelines.build(random_case)[0])
    want = run(local_session, program, 2)
    got = run(lambda graph: session(cluster.master, graph), program, 2)
    with tf.Graph().as_default():
        stages = random_pipelines.build(random_case)[1]
    same(got, want, " > ".join(stages))


def rest(sess, element):
    """What an iterator has still to give, at most MAX_ELEMENTS; errors by their names."""
    seen, errors = [], 0
    while len(seen) < MAX_ELEMENTS and errors < ERRORS_PER_PASS:
        try:
            seen.append(plain(sess.run(element)))
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.OpError as e:
            errors += 1
            seen.append(type(e).__name__)
        except UnicodeDecodeError:  # TensorFlow's client, of a text that quotes an example it cannot parse
            errors += 1
            seen.append("InvalidArgumentError")
    return seen


@pytest.mark.parametrize("taken", [0, 1, 3, 7])
def test_random_pipelines_go_on_from_their_state(cluster, graph, random_case, taken):
    """The state of an iterator, after so many elements, makes another one give the same rest."""
    v1.set_random_seed(77)
    data, stages = random_pipelines.build(random_case)
    one, other = v1.data.make_initializable_iterator(data), v1.data.make_initializable_iterator(data)
    first, second = one.get_next(), other.get_next()
    moved = gen_dataset_ops.deserialize_iterator(other._iterator_resource, gen_dataset_ops.serialize_iterator(one._iterator_resource))
    with session(cluster.master, graph) as sess:
        try:
            sess.run([one.initializer, other.initializer])
        except tf.errors.OpError:
            return  # there is no pipeline: test_random_pipelines_give_the_same_elements compares the error
        for _ in range(taken):
            with contextlib.suppress(tf.errors.OpError):
                sess.run(first)
        sess.run(moved)
        want = rest(sess, first)
        same(rest(sess, second), want, " > ".join(stages))


def test_each_iterator_draws_numbers_of_its_own(cluster):
    def drawn(make_session):
        with tf.Graph().as_default() as graph:
            data = tf.data.Dataset.range(4).map(lambda x: tf.random.uniform([], seed=4))
            a, b = v1.data.make_initializable_iterator(data), v1.data.make_initializable_iterator(data)
            either = v1.data.Iterator.from_structure(tf.float32, [])
            other = either.make_initializer(data.map(lambda x: -x)), either.make_initializer(data)
            ask_a, ask_b, ask = a.get_next(), b.get_next(), either.get_next()
            with make_session(graph) as sess:
                steps = (a.initializer, ask_a, ask_a, b.initializer, ask_b, ask_a, a.initializer, ask_a, ask_b,
                         other[0], ask, ask, other[1], ask, ask_b, other[0], ask)  # fmt: skip
                return [sess.run(s) for s in steps]

    assert drawn(lambda graph: session(cluster.master, graph)) == drawn(local_session)


def elements(sess, element):
    """What an iterator gives until it ends."""
    seen = []
    while True:
        try:
            seen.append(plain(sess.run(element)))
        except tf.errors.OutOfRangeError:
            return seen


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_saved_data_set_is_loaded_by_the_other(cluster, tmp_path, compression, sharded):
    path = str(tmp_path / "saved")
    options = {"shard_func": lambda x, y: x[0] % 2} if sharded else {}
    with tf.Graph().as_default() as graph, session(cluster.master, graph) as sess:
        sess.run(pipelines_files.pairs().save(path, compression=compression, **options))
    with tf.Graph().as_default() as graph, local_session(graph) as sess:
        read = tf.data.Dataset.load(path, element_spec=pipelines_files.PAIRS, compression=compression)
        iterator = v1.data.make_initializable_iterator(read)
        sess.run(iterator.initializer)
        got = elements(sess, iterator.get_next())
    with tf.Graph().as_default() as graph, local_session(graph) as sess:
        iterator = v1.data.make_initializable_iterator(pipelines_files.pairs())
        sess.run(iterator.initializer)
        same(sorted(got, key=repr), sorted(elements(sess, iterator.get_next()), key=repr))


@pytest.mark.parametrize("writer", ["weft", "tensorflow"])
def test_a_cache_on_file_is_read_by_the_other(cluster, tmp_path, writer):
    """The second one has another input: what it gives comes from the cache."""
    path = str(tmp_path / "cache")
    seen = {}
    for maker in ([writer] + [m for m in ("weft", "tensorflow") if m != writer]):
        with tf.Graph().as_default() as graph, session(cluster.master, graph) if maker == "weft" else local_session(graph) as sess:
            d = pipelines_files.pairs() if maker == writer else pipelines_files.pairs().take(2)
            iterator = v1.data.make_initializable_iterator(d.cache(path))
            sess.run(iterator.initializer)
            seen[maker] = elements(sess, iterator.get_next())
    same(seen["weft"], seen["tensorflow"])
    assert len(seen["weft"]) == 7


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records_that_are_written_are_read(cluster, tmp_path, compression):
    path = str(tmp_path / "records")
    values = [b"a", b"", b"x" * 300000, b"last"]
    with tf.Graph().as_default() as graph, session(cluster.master, graph) as sess:
        d = tf.data.Dataset.from_tensor_slices(values)
        sess.run(tf.raw_ops.DatasetToTFRecord(input_dataset=d._variant_tensor, filename=path, compression_type=compression))
    kind = {"": v1.io.TFRecordCompressionType.NONE, "GZIP": v1.io.TFRecordCompressionType.GZIP, "ZLIB": v1.io.TFRecordCompressionType.ZLIB}[compression]
    assert list(v1.io.tf_record_iterator(path, v1.io.TFRecordOptions(kind))) == values
