"""Data sets as graphs: DatasetToGraph, DatasetFromGraph, DatasetFingerprint, for every program of pipelines*.py.

A graph that one writes, the other runs; what may not be written, because it depends on state, is the same on both.
"""

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.ops import gen_dataset_ops
from tensorflow.python.ops import gen_experimental_dataset_ops as experimental

import pipelines
import pipelines_files  # noqa: F401: its programs join pipelines.ALL
import pipelines_raw  # noqa: F401
import pipelines_snapshots  # noqa: F401
from support import session, v1
from test_datasets import in_any_order, note_ops, passes_of, rest, same

IGNORE, FAIL = 1, 2  # external_state_policy
SUITE = "test_dataset_graphs"
# Whose data sets are of one process or of one pass: files that the first pass makes, a handle by whose name TensorFlow's next
# session of this process finds nothing, or something.
NOT_FOR_OTHERS = re.compile("in_one_file|snapshot|StatsAggregator|ThreadPoolDataset")


def pytest_generate_tests(metafunc):
    """A third of the programs; --cases=200: all of them."""
    if "program_name" in metafunc.fixturenames:
        every = 1 if metafunc.config.getoption("--cases") >= 200 else 3
        metafunc.parametrize("program_name", sorted(pipelines.ALL)[::every])


def oracle(graph):
    """TensorFlow without folding of constants: DatasetFromGraph is declared to be without state, and of a constant text it would
    be folded to a constant data set, which cannot be one."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return v1.Session(graph=graph, config=config)


def initialize(sess):
    sess.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])


def build(program):
    """The program's data set and its graph as text, in the default graph."""
    v1.set_random_seed(77)
    data = program.build()
    return data, gen_dataset_ops.dataset_to_graph_v2(data._variant_tensor, external_state_policy=IGNORE)


def elements_of(sess, variant, spec, passes):
    """The elements of so many passes through the data set in a tensor."""
    iterator = v1.data.make_initializable_iterator(dataset_ops._VariantDataset(variant, spec))
    return passes_of(sess, iterator, iterator.get_next(), passes)


def is_of_the_oracle(error):
    """TensorFlow fails at itself: it makes a node with inputs that the node's op has not."""
    return "Failed to build" in error.message


def cannot_be_written(program):
    with tf.Graph().as_default() as graph:
        _, text = build(program)
        with oracle(graph) as sess:
            initialize(sess)
            try:
                sess.run(text)
            except tf.errors.OpError as e:
                return is_of_the_oracle(e)
    return False


def as_it_is(make_session, program):
    with tf.Graph().as_default() as graph:
        data, _ = build(program)
        with make_session(graph) as sess:
            initialize(sess)
            return elements_of(sess, data._variant_tensor, data.element_spec, 2)


def there_and_back(make_session, program):
    """To a graph and back in one step, where resources are still there."""
    with tf.Graph().as_default() as graph:
        data, text = build(program)
        back = experimental.dataset_from_graph(text)
        with make_session(graph) as sess:
            initialize(sess)
            return elements_of(sess, back, data.element_spec, 2)


def write(make_session, program):
    """The text, or the error's name; and what its elements are."""
    with tf.Graph().as_default() as graph:
        data, text = build(program)
        with make_session(graph) as sess:
            initialize(sess)
            try:
                return sess.run(text), data.element_spec
            except tf.errors.OpError as e:
                return type(e).__name__, data.element_spec


def read(make_session, text, spec):
    with tf.Graph().as_default() as graph:
        given = v1.placeholder(tf.string, [])
        variant = experimental.dataset_from_graph(given)
        iterator = v1.data.make_initializable_iterator(dataset_ops._VariantDataset(variant, spec))
        element = iterator.get_next()
        with make_session(graph) as sess:
            try:
                sess.run(iterator.initializer, {given: text})
            except tf.errors.OpError as e:
                return [f"initializer: {type(e).__name__}"]
            return rest(sess, element)


def test_a_data_set_goes_through_its_graph(cluster, request, program_name):
    program = pipelines.ALL[program_name]

    def remote(graph):
        return session(cluster.master, graph)

    if cannot_be_written(program):
        same(there_and_back(remote, program), as_it_is(oracle, program), "there and back")
        return
    want = there_and_back(oracle, program)
    got = there_and_back(remote, program)
    if program.any_order or program_name == "raw ShuffleDatasetV2":  # whose seeds are behind the handle alone
        want, got = in_any_order(want), in_any_order(got)
    same(got, want, "there and back")
    text, spec = write(oracle, program)
    mine, _ = write(remote, program)
    assert isinstance(mine, bytes) == isinstance(text, bytes), f"{mine!r} instead of {text!r}"
    if not isinstance(text, bytes):
        assert mine == text
        return
    if NOT_FOR_OTHERS.search(program_name):
        return
    if program_name == "raw ShuffleDatasetV2":
        return
    want = [read(oracle, text, spec)]
    for writer, reader, what in ((mine, oracle, "TensorFlow runs Weft's"), (text, remote, "Weft runs TensorFlow's")):
        got = [read(reader, writer, spec)]
        same(in_any_order(got) if program.any_order else got, in_any_order(want) if program.any_order else want, what)
    written = graph_pb2.GraphDef.FromString(mine)
    assert [n.input[0] for n in written.node if n.op == "_Retval"] == [[n.name for n in written.node if n.op != "_Retval"][-1]]
    with tf.Graph().as_default() as graph:
        experimental.dataset_from_graph(build(program)[1])
        note_ops(request, graph.as_graph_def(), SUITE)


def reason(error):
    """The class of an error and the words behind "graph: "."""
    said = re.search(r"input pipeline graph: (.*)", error.message)
    return f"{type(error).__name__}: {said.group(1).split(' [[')[0] if said else ''}"


def refusal(make_session, program):
    """Why a data set that depends on state is not written; "" if it is."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(77)
        variant = program.build()._variant_tensor
        text = gen_dataset_ops.dataset_to_graph_v2(variant, external_state_policy=FAIL)
        with make_session(graph) as sess:
            initialize(sess)
            try:
                sess.run(text)
                return ""
            except tf.errors.OpError as e:
                return "" if is_of_the_oracle(e) else reason(e)


def test_state_outside_of_a_graph_is_refused(cluster, program_name):
    program = pipelines.ALL[program_name]
    want = refusal(oracle, program)
    got = refusal(lambda graph: session(cluster.master, graph), program)
    if "NonSerializable" in want:  # whose own name Weft does not say: there it is the data set that it is made of
        want, got = want.split("DatasetOp", 1)[1], got.split("DatasetOp", 1)[1]
    assert got == want


@pytest.mark.parametrize("policy", [0, 1, 2])
@pytest.mark.parametrize("old", [False, True])
def test_random_functions_by_policy(cluster, request, policy, old):
    program = pipelines.Program(lambda: tf.data.Dataset.range(3).map(lambda x: tf.random.uniform([]) + tf.cast(x, tf.float32)))

    def seen(make_session):
        with tf.Graph().as_default() as graph:
            variant = program.build()._variant_tensor
            if old:
                text = gen_dataset_ops.dataset_to_graph(variant, allow_stateful=policy != FAIL)
            else:
                text = gen_dataset_ops.dataset_to_graph_v2(variant, external_state_policy=policy)
            note_ops(request, graph.as_graph_def(), SUITE)
            with make_session(graph) as sess:
                try:
                    return len(sess.run(text)) > 0
                except tf.errors.OpError as e:
                    return reason(e)

    assert seen(lambda graph: session(cluster.master, graph)) == seen(oracle)


def fingerprints(make_session, names):
    """Numbers of data sets; None where there is none."""
    seen = {}
    for name in names:
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(77)
            number = gen_dataset_ops.dataset_fingerprint(pipelines.ALL[name].build()._variant_tensor)
            with make_session(graph) as sess:
                initialize(sess)
                try:
                    seen[name] = int(sess.run(number))
                except tf.errors.OpError:
                    seen[name] = None
    return seen


def test_fingerprints_tell_data_sets_apart(cluster, request):
    """Two programs have the same number where they have the same with TensorFlow, and each always its own."""
    names = [n for n in sorted(pipelines.ALL)[::4] if not n.startswith("raw ")]  # of which many change nothing

    def remote(graph):
        return session(cluster.master, graph)

    want, got, again = fingerprints(oracle, names), fingerprints(remote, names), fingerprints(remote, names)
    for a in names:
        if want[a] is None or got[a] is None:
            continue
        for b in names:
            if want[b] is not None and got[b] is not None and want[a] != want[b]:
                assert got[a] != got[b], (a, b)
    # What draws its seeds anew, or reads a new file, is another data set each time, for both.
    assert sum(got[n] == again[n] for n in names) >= 0.8 * len(names)
    with tf.Graph().as_default() as graph:
        gen_dataset_ops.dataset_fingerprint(tf.data.Dataset.range(3)._variant_tensor)
        note_ops(request, graph.as_graph_def(), SUITE)


def test_a_fingerprint_does_not_depend_on_names(cluster):
    """The same pipeline behind other nodes, of other names and in another order of definition."""

    def pipeline():
        return tf.data.Dataset.range(9).map(lambda x: tf.where(x > 3, x * 2, x)).filter(lambda x: x < 12).batch(2)

    def number(before, scope):
        with tf.Graph().as_default() as graph, v1.name_scope(scope):
            for _ in range(before):
                tf.data.Dataset.range(2).map(lambda x: x + 1)
            value = gen_dataset_ops.dataset_fingerprint(pipeline()._variant_tensor)
            with session(cluster.master, graph) as sess:
                return sess.run(value)

    assert number(0, "a") == number(3, "b") == number(1, "c/d")


CHANGES = {
    "source": lambda: tf.data.Dataset.range(10).map(lambda x: x * 2),
    "constant": lambda: tf.data.Dataset.range(9).map(lambda x: x * 3),
    "op": lambda: tf.data.Dataset.range(9).map(lambda x: x + 2),
    "attribute": lambda: tf.data.Dataset.range(9).map(lambda x: x * 2, num_parallel_calls=2),
    "order": lambda: tf.data.Dataset.range(9).map(lambda x: 2 - x),
    "swapped": lambda: tf.data.Dataset.range(9).map(lambda x: x - 2),
    "results": lambda: tf.data.Dataset.range(9).map(lambda x: (x * 2, x)),
    "swapped results": lambda: tf.data.Dataset.range(9).map(lambda x: (x, x * 2)),
    "branch": lambda: tf.data.Dataset.range(9).map(lambda x: tf.cond(x > 2, lambda: x * 2, lambda: x)),
    "other branch": lambda: tf.data.Dataset.range(9).map(lambda x: tf.cond(x > 2, lambda: x * 2, lambda: -x)),
    "stage": lambda: tf.data.Dataset.range(9).map(lambda x: x * 2).prefetch(1),
    "captured": lambda: tf.data.Dataset.range(9).map(lambda x, y=np.int64(5): x * y),
}


def test_every_change_of_a_pipeline_changes_its_fingerprint(cluster):
    numbers = {}
    for name, pipeline in CHANGES.items():
        with tf.Graph().as_default() as graph:
            value = gen_dataset_ops.dataset_fingerprint(pipeline()._variant_tensor)
            with session(cluster.master, graph) as sess:
                numbers[name] = int(sess.run(value))
    assert len(set(numbers.values())) == len(CHANGES), numbers


def spoiled():
    """Texts that are no graph of a data set."""
    with tf.Graph().as_default() as graph:
        data = tf.data.Dataset.range(5).map(lambda x: x * 2)
        with oracle(graph) as sess:
            text = sess.run(gen_dataset_ops.dataset_to_graph_v2(data._variant_tensor))
    good = graph_pb2.GraphDef.FromString(text)

    def changed(change):
        g = graph_pb2.GraphDef()
        g.CopyFrom(good)
        change(g)
        return g.SerializeToString()

    def unknown_op(g):
        g.node[0].op = "NoSuchOp"

    def no_such_input(g):
        g.node[-2].input[0] = "nothing"

    def no_library(g):
        g.library.Clear()

    def circle(g):
        g.node[-2].input[0] = g.node[-2].name

    def twice(g):
        g.node.add().CopyFrom(g.node[0])

    def tensor(g):
        g.node[-1].input[0] = g.node[0].name
        g.node[-1].attr["T"].type = g.node[0].attr["dtype"].type

    return {
        "empty": b"",
        "no proto": b"\xff\xff\xff",
        "cut": text[: len(text) // 2],
        "no result": changed(lambda g: g.node.pop()),
        "unknown op": changed(unknown_op),
        "no such input": changed(no_such_input),
        "no library": changed(no_library),
        "circle": changed(circle),
        "twice": changed(twice),
        "a tensor": changed(tensor),
    }


@pytest.mark.parametrize("name", sorted(spoiled()))
def test_what_is_no_graph_of_a_data_set_is_refused(cluster, name):
    spec = tf.TensorSpec([], tf.int64)
    got = read(lambda graph: session(cluster.master, graph), spoiled()[name], spec)
    assert got and str(got[0]).startswith("initializer: "), got
    if name not in ("empty", "no result", "a tensor"):  # with which TensorFlow reads beyond what there is
        assert got == read(oracle, spoiled()[name], spec)


def test_functions_of_a_graph_come_before_those_of_the_caller(cluster):
    """A text brings another body for a function that the caller's graph has as well."""

    def result(make_session):
        with tf.Graph().as_default() as graph:
            data = tf.data.Dataset.range(5).map(lambda x: x * 2)
            with oracle(graph) as sess:
                text = graph_pb2.GraphDef.FromString(sess.run(gen_dataset_ops.dataset_to_graph_v2(data._variant_tensor)))
            for f in text.library.function:
                for n in f.node_def:
                    if n.op == "Const":
                        n.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(7, tf.int64))
            given = v1.placeholder(tf.string, [])
            theirs = dataset_ops._VariantDataset(experimental.dataset_from_graph(given), data.element_spec)
            iterators = [v1.data.make_initializable_iterator(d) for d in (data, theirs)]
            elements = [i.get_next() for i in iterators]
            with make_session(graph) as sess:
                for i in iterators:
                    sess.run(i.initializer, {given: text.SerializeToString()})
                return [sess.run(elements) for _ in range(3)]

    want = [[0, 0], [2, 7], [4, 14]]
    assert result(lambda graph: session(cluster.master, graph)) == want
    assert result(oracle) == want


def test_devices_of_functions_are_stripped(cluster):
    def functions(make_session, strips):
        with tf.Graph().as_default() as graph:

            def body(x):
                with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
                    return x + 1

            variant = tf.data.Dataset.range(3).map(body)._variant_tensor
            text = gen_dataset_ops.dataset_to_graph_v2(variant, strip_device_assignment=strips)
            with make_session(graph) as sess:
                g = graph_pb2.GraphDef.FromString(sess.run(text))
        return sorted({n.device for f in g.library.function for n in f.node_def})

    for strips in (False, True):
        assert functions(lambda graph: session(cluster.master, graph), strips) == functions(oracle, strips)


def test_a_sharded_data_set_is_written_with_its_shard(cluster):
    def rows(make_session, index):
        with tf.Graph().as_default() as graph:
            data = tf.data.Dataset.range(10).batch(2)
            shard = experimental.auto_shard_dataset(
                data._variant_tensor, num_workers=2, index=index, auto_shard_policy=2, **data._flat_structure
            )
            back = experimental.dataset_from_graph(gen_dataset_ops.dataset_to_graph_v2(shard))
            with make_session(graph) as sess:
                return elements_of(sess, back, data.element_spec, 1)

    for index in range(2):
        same(rows(lambda graph: session(cluster.master, graph), index), rows(oracle, index))
