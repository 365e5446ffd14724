"""Every op that has a spec, in many random cases: values, errors, gradients and inferred shapes are TensorFlow's.

    tests/conformance/run tests/conformance/test_properties.py --cases=200             # all cases of all ops
    tests/conformance/run tests/conformance/test_properties.py -k "Bucketize-" --cases=200
    tests/conformance/run tests/conformance/test_properties.py -k Bucketize- --case=17  # this one alone, with its inputs
    tests/conformance/run tests/conformance/test_properties.py --cases=200 --record=F  # for verified.py

Specs are in properties/*.py, a file for each file of ops/*.def; draw.py says what they draw from.
"""

import importlib
import pkgutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry, ops as tf_ops, tensor_util

import properties
from draw import SPECS, Draw, Program
from opcase import compare_all
from support import assert_same, local_session, session
from weft_graph import Failure, WeftGraphs

for _module in pkgutil.iter_modules(properties.__path__):
    importlib.import_module(f"properties.{_module.name}")

NO_KERNEL = ("No OpKernel was registered", "do not yet support")


def drawn(op, numbers):
    """{number: case}, of those that TensorFlow's client builds."""
    cases = {}
    for number in numbers:
        case = SPECS[op](Draw(op, number))
        if isinstance(case, Program):
            cases[number] = case
            continue
        case.name = f"case {number}"
        try:
            with tf.Graph().as_default():
                case.build()
        except (ValueError, TypeError):
            continue  # the client refuses it: no server sees such a node
        cases[number] = case
    return cases


def run_program(case, make_session):
    """What each step gave: values or an error."""
    results = []
    with tf.Graph().as_default() as graph:
        steps = case.build()
        with make_session(graph) as sess:
            for fetches, feeds in steps:
                try:
                    results.append(case.seen(tf.nest.flatten(sess.run(fetches, feeds))))
                except tf.errors.OpError as e:
                    results.append(e)
    return results


def is_lacking(want):
    return isinstance(want, tf.errors.UnimplementedError) or any(t in getattr(want, "message", "") for t in NO_KERNEL)


def without_infinities(value):
    """Complex numbers that are not finite are all the same: how infinities multiply is the compiler's choice."""
    if np.asarray(value).dtype.kind != "c":
        return value
    return np.where(np.isfinite(value), value, np.asarray(np.nan, np.asarray(value).dtype))


def said(error):
    """What the kernel said, without the lines that say where the node was made."""
    return error.message.rsplit("\nNode:", 1)[-1][-400:]


def difference(got, want, case, tolerance=None):
    """Why one result is not the other; "" if it is. `tolerance`: not the case's."""
    rtol, atol = tolerance or (case.rtol, case.atol)
    if is_lacking(want):
        return ""  # TensorFlow has no kernel for this dtype or attribute
    if isinstance(want, Exception):
        if type(got) is type(want):
            return ""
        answer = f"{type(got).__name__}: {said(got)}" if isinstance(got, Exception) else f"the values {got}"
        return f"{type(want).__name__} expected ({said(want)}), not {answer}"
    if isinstance(got, Exception):
        return f"{type(got).__name__}: {said(got)}"
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    try:
        for i, (g, w) in enumerate(zip(got, want)):
            if w is not None:
                assert_same(without_infinities(g), without_infinities(w), rtol=rtol, atol=atol, what=f"output {i}")
    except AssertionError as e:
        return str(e)
    return ""


def told(case):
    """The case, for a reader."""
    if isinstance(case, Program):
        return "a program"
    with np.printoptions(threshold=60, precision=9):
        inputs = ", ".join(f"{np.asarray(v).dtype if not isinstance(v, list) else 'list'} {v!r}" for v in case.inputs)
    return f"{inputs} {case.attrs}"


def compare(op, numbers, target):
    """[(number, case, difference)] of the cases that differ, and how many were compared."""
    cases = drawn(op, numbers)
    single = {n: c for n, c in cases.items() if not isinstance(c, Program)}
    answers = compare_all(list(single.values()), target) if single else {}
    wrong = []
    for number, case in cases.items():
        if isinstance(case, Program):
            want = run_program(case, local_session)
            got = run_program(case, lambda g: session(target, g))
            pairs = [(f"step {i}: ", g, w) for i, (g, w) in enumerate(zip(got, want))]
        else:
            pairs = [("", *answers[case.name])]
        for where, g, w in pairs:
            text = difference(g, w, case)
            if text:
                wrong.append((number, case, where + text))
                break
    return wrong, len(cases)


def numbers_of(request, share=1):
    one = request.config.getoption("--case")
    return [one] if one is not None else range(max(1, int(request.config.getoption("--cases") * share)))


def report(request, kind, op, wrong, count):
    """Fails the test if cases differ, and shows some of them; else notes, for verified.py, how many agree."""
    note = request.config.getoption("--record")
    if note and request.config.getoption("--case") is None:
        with open(note, "a", encoding="utf-8") as f:
            f.write(f"{op} {kind} {0 if wrong else count}\n")
    if wrong:
        lines = [f"case {n}: {told(c)[:1500]}\n    {text[:800]}" for n, c, text in wrong[:4]]
        pytest.fail(f"{op}: {len(wrong)} of {count} cases differ\n" + "\n".join(lines), pytrace=False)


@pytest.mark.parametrize("op", sorted(SPECS), ids=lambda op: op + "-")
def test_values(cluster, request, op):
    wrong, count = compare(op, numbers_of(request), cluster.master)
    assert count or request.config.getoption("--case") is not None, f"TensorFlow's client refuses all cases of {op}"
    report(request, "values", op, wrong, count)


# ---- gradients ----


def has_gradient(op):
    """Does TensorFlow's Python register one?"""
    try:
        return tf_ops.gradient_registry.lookup(op) is not None
    except LookupError:
        return False


def is_differentiable(tensor):
    return tensor.dtype.is_floating or tensor.dtype.is_complex


class Differentiated:
    """A case with the gradients that TensorFlow's client adds, in the current graph; `grads` is None if it adds none."""

    def __init__(self, case, number):
        outs, self.feeds = case.build()
        self.case, self.number = case, number
        self.ys = [y for y in outs if isinstance(y, tf.Tensor) and is_differentiable(y)]
        self.xs = [x for x in self.feeds if is_differentiable(x)]
        self.dys = [tf.compat.v1.placeholder(y.dtype) for y in self.ys]
        self.forward = tf.compat.v1.get_default_graph().as_graph_def()
        self.grads = None
        if self.ys and self.xs:
            grads = tf.gradients(self.ys, self.xs, self.dys)
            if any(g is not None for g in grads):
                self.grads = [None if g is None else tf.convert_to_tensor(g) for g in grads]

    def answers(self, sess):
        """The gradients' values; None where there is none, or where the op itself fails."""
        rng = np.random.default_rng(self.number)
        try:
            values = sess.run(self.ys, self.feeds)
        except tf.errors.OpError:
            return None
        for dy, y in zip(self.dys, values):
            self.feeds[dy] = np.asarray(rng.uniform(-1, 1, np.shape(y))).astype(y.dtype)
        return run_gradients(sess, self.grads, self.feeds)


def run_gradients(sess, grads, feeds):
    try:
        values = iter(sess.run([g for g in grads if g is not None], feeds))
    except tf.errors.OpError as e:
        return e
    return [None if g is None else next(values) for g in grads]


def as_zeros(got, want):
    """Pairs of gradients; one that is not there is zero."""
    for g, w in zip(got, want):
        if g is not None or w is not None:
            yield np.zeros_like(w) if g is None else g, np.zeros_like(g) if w is None else w


def gradient_difference(got, want, case):
    if isinstance(got, Exception) or isinstance(want, Exception):
        return difference(got, want, case)
    pairs = list(as_zeros(got, want))
    return difference([g for g, _ in pairs], [w for _, w in pairs], case, case.gradient_tolerance)


def own_gradients(d, graphs):
    """The gradients of the same case that Weft's C API adds, computed by TensorFlow."""

    def place(tensor):
        return tensor.op.name, tensor.value_index

    graph_def, places = graphs.gradients(d.forward.SerializeToString(), *([place(t) for t in part] for part in (d.ys, d.xs, d.dys)))
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def), name="")
        grads = [None if p is None else graph.get_tensor_by_name("%s:%d" % p) for p in places]
        feeds = {graph.get_tensor_by_name(k.name): v for k, v in d.feeds.items()}
        with local_session(graph) as sess:
            return run_gradients(sess, grads, feeds)


@pytest.fixture(scope="module")
def graphs(request):
    library = WeftGraphs(request.config.getoption("--weft"))
    yield library
    library.stop()


@pytest.mark.parametrize("op", sorted(op for op in SPECS if has_gradient(op)), ids=lambda op: op + "-")
def test_gradients(cluster, request, graphs, op):
    """Of TensorFlow's client, computed by the servers; and Weft's own, computed by TensorFlow."""
    wrong, count = [], 0
    for number, case in drawn(op, numbers_of(request, 0.25)).items():
        if isinstance(case, Program) or not case.has_gradient:
            continue
        with tf.Graph().as_default() as graph:
            try:
                d = Differentiated(case, number)
            except (LookupError, ValueError, TypeError, NotImplementedError):
                continue  # the client cannot differentiate such a node
            if d.grads is None:
                continue
            with local_session(graph) as sess:
                want = d.answers(sess)
            if want is None or is_lacking(want):
                continue
            count += 1
            with session(cluster.master, graph) as sess:
                text = gradient_difference(run_gradients(sess, d.grads, d.feeds), want, case)
            if text:
                wrong.append((number, case, "by the servers: " + text))
                continue
            try:
                text = gradient_difference(own_gradients(d, graphs), want, case)
            except Failure as e:
                text = str(e)
            if text:
                wrong.append((number, case, "Weft's own: " + text))
    report(request, "gradients", op, wrong, count)


# ---- shapes ----


def with_partial_shapes(graph_def, feeds, rng):
    """Replaces placeholders by ones that know more of their shape, or by constants."""
    for node in graph_def.node:
        value = feeds.get(node.name + ":0")
        if value is None:
            continue
        how = rng.integers(4)
        if how == 3 and value.size <= 64:
            node.op = "Const"
            dtype = node.attr["dtype"].type
            node.attr.clear()
            node.attr["dtype"].type = dtype
            node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype))
        elif how:
            dims = [-1 if how == 2 and rng.random() < 0.4 else d for d in value.shape]
            node.attr["shape"].shape.CopyFrom(tf.TensorShape([None if d < 0 else d for d in dims]).as_proto())


def tensorflow_shapes(graph_def, outputs):
    """As WeftGraphs.shapes(); None if TensorFlow refuses the graph."""
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
        except ValueError:
            return None
        shapes = [graph.get_tensor_by_name("%s:%d" % p).shape for p in outputs]
    return [None if s.rank is None else s.as_list() for s in shapes]


@pytest.mark.parametrize("op", sorted(SPECS), ids=lambda op: op + "-")
def test_shapes(request, graphs, op):
    """With inputs whose shapes are known, or in part, or not at all, or whose values are known."""
    wrong, count = [], 0
    for number, case in drawn(op, numbers_of(request)).items():
        case = case.alike if isinstance(case, Program) else case
        if case is None:
            continue
        with tf.Graph().as_default() as graph:
            outs, feeds = case.build()
        if not op_def_registry.get(op).output_arg:
            continue
        graph_def = graph.as_graph_def()
        with_partial_shapes(graph_def, {k.name: v for k, v in feeds.items()}, np.random.default_rng(number))
        outputs = [(o.op.name, o.value_index) for o in outs]
        want = tensorflow_shapes(graph_def, outputs)
        count += 1
        try:
            got = graphs.shapes(graph_def.SerializeToString(), outputs)
        except Failure as e:
            got = e
        if isinstance(got, Failure):
            text = "" if want is None else f"refused: {got}; shapes {want} expected"
        else:
            text = "" if got == want else f"shapes {got} instead of {'a refusal' if want is None else want}"
        if text:
            shapes = [str(n.attr["shape"].shape).replace("\n", " ") if n.op == "Placeholder" else n.op for n in graph_def.node]
            wrong.append((number, case, f"{text}; nodes: {shapes}"))
    report(request, "shapes", op, wrong, count)
