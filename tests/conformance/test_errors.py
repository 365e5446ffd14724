"""Errors: the right class, the name of the node, and a session that goes on afterwards."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from support import PS, W1, fails, session, v1

Invalid = tf.errors.InvalidArgumentError


@pytest.mark.parametrize("device", ["", PS, W1])
def test_an_unfed_placeholder(cluster, graph, device):
    with tf.device(device):
        x = v1.placeholder(tf.float32, [3], name="hungry")
        y = tf.square(x)
    with session(cluster.master, graph) as sess:
        with fails(
            Invalid,
            "You must feed a value for placeholder tensor 'hungry' with dtype float and shape [3]",
            op="hungry",
        ):
            sess.run(y)
        assert sess.run(y, {x: [1.0, 2.0, 3.0]}).tolist() == [1.0, 4.0, 9.0]


def test_an_uninitialized_variable(cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.Variable(1.0, use_resource=use_resource, name="fresh")
    with session(cluster.master, graph) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError) as caught:
            sess.run(v + 1.0)
        assert "uninitialized" in caught.value.message
        assert "fresh" in caught.value.message
        assert caught.value.op.type == "ReadVariableOp" if use_resource else "fresh" in caught.value.op.name


# name: (a function of placeholders that makes a node "bad", feeds that break it, a part of the message)
AT_RUN_TIME = {
    "add": (lambda x, y: tf.add(x, y, name="bad"), [1.0, 2.0], [1.0, 2.0, 3.0], "incompatible shapes: [2] vs. [3]"),
    "matmul": (
        lambda x, y: tf.raw_ops.MatMul(a=x, b=y, name="bad"),
        np.ones((2, 3)),
        np.ones((2, 3)),
        "size-incompatible",
    ),
    "matmul_rank": (
        lambda x, y: tf.raw_ops.MatMul(a=x, b=y, name="bad"),
        np.ones(3),
        np.ones((3, 1)),
        "has different ndims: [3] vs. [3,1]",
    ),
    "concat": (lambda x, y: tf.concat([x, y], 0, name="bad"), np.ones((1, 2)), np.ones((1, 3)), "concat"),
    "reshape": (
        lambda x, y: tf.reshape(x, tf.cast(y, tf.int32), name="bad"),
        np.ones(6),
        [4.0],
        "input to reshape is a tensor with 6 values",
    ),
    "gather": (
        lambda x, y: tf.raw_ops.GatherV2(params=x, indices=tf.cast(y, tf.int32), axis=0, name="bad"),
        [1.0, 2.0],
        [0.0, 2.0],
        "indices[1] = 2 is not in [0, 2)",
    ),
    "gather_negative": (
        lambda x, y: tf.raw_ops.GatherV2(params=x, indices=tf.cast(y, tf.int32), axis=0, name="bad"),
        [1.0, 2.0],
        [-1.0],
        "-1 is not in [0, 2)",
    ),
    "slice": (lambda x, y: tf.slice(x, [1], tf.cast(y, tf.int32), name="bad"), [1.0, 2.0], [2.0], "size"),
    "split": (
        lambda x, y: tf.raw_ops.Split(axis=tf.cast(y, tf.int32), value=x, num_split=2, name="bad")[0],
        np.ones((3,)),
        0.0,
        "split",
    ),
    "transpose": (
        lambda x, y: tf.transpose(x, tf.cast(y, tf.int32), name="bad"),
        np.ones((2, 2)),
        [0.0, 0.0],
        "is missing from",
    ),
    "labels": (
        lambda x, y: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=x, labels=tf.cast(y, tf.int32), name="bad"
        )[0],
        np.ones((2, 3)),
        [0.0, 3.0],
        "outside the valid range",
    ),
    "bias": (lambda x, y: tf.raw_ops.BiasAdd(value=x, bias=y, name="bad"), np.ones((2, 3)), [1.0, 2.0], "bias"),
    "pack": (lambda x, y: tf.stack([x, y], name="bad"), [1.0], [1.0, 2.0], "shapes of all inputs must match"),
    "check": (lambda x, y: tf.debugging.check_numerics(x / y, "oh no", name="bad"), 1.0, 0.0, "oh no"),
    "segments": (
        lambda x, y: tf.raw_ops.UnsortedSegmentSum(
            data=x, segment_ids=tf.cast(y, tf.int32), num_segments=2, name="bad"
        ),
        [1.0, 2.0],
        [0.0, 2.0],
        "out of range",
    ),
    "topk": (
        lambda x, y: tf.raw_ops.TopKV2(input=x, k=tf.cast(y, tf.int32), name="bad")[0],
        [1.0, 2.0],
        3.0,
        "input must have at least k columns",
    ),
}


@pytest.mark.parametrize("device", ["", W1], ids=["here", "there"])
@pytest.mark.parametrize("name", AT_RUN_TIME)
def test_what_only_shows_at_run_time(cluster, graph, name, device):
    make, a, b, text = AT_RUN_TIME[name]
    x, y = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
    with tf.device(device):
        z = make(x, y)
    with session(cluster.master, graph) as sess:
        for _ in range(2):
            with fails(Invalid, text, op="bad"):
                sess.run(z, {x: a, y: b})
        assert sess.run(x * 2.0, {x: 4.0}) == 8.0  # the session goes on


R = tf.raw_ops


def to_dense(indices, shape, **attrs):
    return lambda: R.SparseToDense(
        sparse_indices=fed(np.int64(indices)),
        output_shape=fed(np.int64(shape)),
        sparse_values=1.0,
        default_value=0.0,
        name="bad",
        **attrs,
    )


def part(strings, pos, unit="BYTE"):
    return lambda: R.Substr(input=fed(strings), pos=fed(np.int32(pos)), len=fed(np.ones_like(pos, np.int32)), unit=unit, name="bad")


def fed(value):
    return v1.placeholder_with_default(value, None)


# a node "bad", and the line of the message that says what is wrong
TEXTS = {
    "repeated": (to_dense([[0, 1], [0, 1]], [2, 2]), "indices[1] = [0,1] is repeated"),
    "order": (to_dense([[1, 1], [0, 1]], [2, 2]), "indices[1] = [0,1] is out of order. Many sparse ops require sorted"),
    "outside": (to_dense([[0, -1]], [2, 2]), "indices[0] = [0,-1] is out of bounds: need 0 <= index < [2,2]"),
    "outside_vector": (to_dense([0, 9], [4]), "indices[1] = [9] is out of bounds: need 0 <= index < [4]"),
    "outside_unordered": (
        to_dense([[0, 9]], [2, 2], validate_indices=False),
        "Indices are not valid (out of bounds).  Shape: [2,2]",
    ),
    "part": (part(["abc", "a"], [1, 3]), "pos 3 out of range for string b'a' at index 1"),
    "part_rows": (part([["abcd"], ["x"]], [1, 3]), "pos 3 out of range for string b'x' at index (1, 1)"),
    "part_each": (part([["a", "b"], ["cc", "d"]], 2), "pos 2 out of range for string b'a' at index 0"),
    "part_text": (part(["abc", "a"], [1, 3], "UTF8_CHAR"), "pos 3 out of range for string at index 1"),
    "part_text_rows": (
        part([["aaaa", "b"], ["cc", "d"], ["e", "f"]], [0, 3], "UTF8_CHAR"),
        "pos 3 out of range for string at index 0",
    ),
    "base64": (lambda: R.DecodeBase64(input=fed("YQ==="), name="bad"), "Invalid character found in base64."),
    "base64_length": (
        lambda: R.DecodeBase64(input=fed("YWJjY"), name="bad"),
        "Base64 string length cannot be 1 modulo 4.",
    ),
    "raw": (
        lambda: R.DecodeRaw(bytes=fed(["abcd", "ab"]), out_type=tf.int8, name="bad"),
        "but element 1 has size 4 != 2",
    ),
    "padded": (
        lambda: R.DecodePaddedRaw(input_bytes=fed("abcd"), fixed_length=fed(-1), out_type=tf.float32, name="bad"),
        "fixed_length (-1) must be a multiple of the size of out_type (4)",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_an_error(cluster, graph, name):
    make, text = TEXTS[name]
    bad = make()
    with session(cluster.master, graph) as sess:
        with fails(Invalid, text, op="bad"):
            sess.run(bad)


@pytest.mark.parametrize("op_name", ["FloorDiv", "FloorMod", "Mod", "Div"])
def test_integer_division_by_zero(cluster, graph, op_name):
    x = v1.placeholder(tf.int32)
    z = getattr(tf.raw_ops, op_name)(x=tf.constant([4, 5]), y=x, name="bad")
    with session(cluster.master, graph) as sess:
        with fails(Invalid, "division by zero", op="bad"):
            sess.run(z, {x: [2, 0]})


def test_truncating_division_by_zero_is_an_internal_error(cluster, graph):
    x = v1.placeholder(tf.int32)
    z = tf.raw_ops.TruncateDiv(x=tf.constant([4, 5]), y=x, name="bad")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InternalError, op="bad"):
            sess.run(z, {x: [2, 0]})


def test_unknown_names_are_not_found(cluster, graph):
    x = v1.placeholder(tf.float32, name="x")
    y = tf.identity(x, name="y")
    with session(cluster.master, graph) as sess:
        sess.run(y, {x: 1.0})
        for fetch, feed, target in (
            ("absent:0", {}, None),
            ("y:5", {"x:0": 1.0}, None),
            (None, {}, "absent"),
            ("y:0", {"stranger:0": 1.0}, None),
        ):
            with pytest.raises((tf.errors.NotFoundError, Invalid)):
                run_raw(sess, feed, [fetch] if fetch else [], [target] if target else [])
        assert sess.run(y, {x: 2.0}) == 2.0


def run_raw(sess, feeds, fetches, targets):
    """A callable goes to the server with whatever names one puts in: the client does not check them."""
    options = config_pb2.CallableOptions()
    options.feed.extend(feeds)
    options.fetch.extend(fetches)
    options.target.extend(targets)
    run = sess._make_callable_from_options(options)
    return run(*[np.float32(v) for v in feeds.values()])


def test_nothing_to_run_is_refused(cluster, graph):
    tf.constant(1)
    with session(cluster.master, graph) as sess:
        with pytest.raises(Invalid):
            run_raw(sess, {}, [], [])


def test_a_dead_tensor_cannot_be_fetched(cluster, graph):
    p = v1.placeholder(tf.bool, [])
    no, yes = tf.raw_ops.Switch(data=tf.constant(1.0), pred=p)
    no, yes = tf.identity(no), tf.identity(yes)
    with session(cluster.master, graph) as sess:
        assert sess.run(yes, {p: True}) == 1.0
        with pytest.raises((Invalid, tf.errors.InternalError)):
            sess.run(no, {p: True})
        assert sess.run(no, {p: False}) == 1.0


@pytest.mark.weft_only
def test_an_op_without_a_kernel_fails_the_steps_that_need_it(cluster, graph):
    bad = tf.raw_ops.InfeedDequeue(dtype=tf.float32, shape=[2])
    ok = tf.constant(1)
    with session(cluster.master, graph) as sess:
        assert sess.run(ok) == 1
        with pytest.raises(Invalid) as caught:
            sess.run([ok, bad])
        assert "No OpKernel was registered to support Op 'InfeedDequeue'" in caught.value.message
        assert sess.run(ok) == 1


@pytest.mark.weft_only
def test_abort_ends_the_step_and_no_server(cluster, graph):
    """TensorFlow's server would end, and the steps of all its clients with it."""
    with tf.device(W1):
        abort = tf.raw_ops.Abort(error_msg="as planned", name="stop")
        leave = tf.raw_ops.Abort(error_msg="as planned", exit_without_error=True)
        with tf.control_dependencies([leave]):
            after = tf.constant(2)
    with session(cluster.master, graph) as sess, session(cluster.master, graph) as other:
        with fails(tf.errors.AbortedError, "Abort_op intentional failure; as planned", op="stop"):
            sess.run(abort)
        assert sess.run(after) == 2
        assert other.run(after) == 2


def test_the_first_of_many_failures_wins_and_the_step_ends(cluster, graph):
    x = v1.placeholder(tf.int32)
    outs = []
    for i, device in enumerate([PS, W1, ""] * 5):
        with tf.device(device):
            outs.append(tf.math.floordiv(i, x, name=f"bad{i}"))
    with session(cluster.master, graph) as sess:
        for _ in range(10):
            with pytest.raises(Invalid) as caught:
                sess.run(outs, {x: 0})
            assert caught.value.op.name.startswith("bad")
        assert len(sess.run(outs, {x: 1})) == 15


def test_a_failed_step_frees_those_that_wait(cluster, graph):
    """One task fails while another waits in a queue that stays empty: the step ends at once."""
    with tf.device(PS):
        waiting = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]]).dequeue()
    x = v1.placeholder(tf.int32)
    with tf.device(W1):
        bad = tf.math.floordiv(1, x, name="bad")
    with session(cluster.master, graph) as sess:
        with fails(Invalid, "division by zero", op="bad"):
            sess.run([waiting, bad], {x: 0})


def test_long_messages_arrive(cluster, graph):
    text = "reason " * 300
    with tf.control_dependencies([v1.Assert(v1.placeholder(tf.bool), [text], name="claim")]):
        y = tf.constant(1)
    with session(cluster.master, graph) as sess:
        with fails(Invalid, "reason reason"):
            sess.run(y, {"Placeholder:0": False})


PATTERNS = r"""
    a a* a+? a?? (a)(b) (?:a|b) (?P<n>a) (?<n>a) (?i)A (?i:A) (?-i)a (?s).b (?U)a+ (?im-s:a) [ab] [^ab] [a-b] []a] [[:alpha:]] [[:^alpha:]]
    [[:foo:]] [\d] [\pL] \d \D \w \W \s \S \b \B \A \z \Z \Q.\E \Qa \pL \p{L} \p{Greek} \PL \x61 \x{61} \141 \1 (a)\1 \0 \8 \a \f \t \n \r \v
    \K \R \X \h \H \N \G \C \E \e \cA \k<n> \g1 \y \. \- \_ \é a{2} a{2,} a{2,3} a{,3} a{3,2} a{1000} a{1001} a{0,1001} (a{40}){40} (a{10}){100}
    ((a{10}){10}){11} a{ a{x} a{1 {1} ** a** a*+ a++ a?+ a{2}+ a{2}{3} + ? (*) |a a| || () (|a) (a ) a) ((a) [a \ (?=b) (?!b) (?<=a)b (?<!a)b (?>a)
    (?|a) (?#c)a (?R) (?1) (?P>n) (?P=n) (?(1)a) (?C) (?x)a (?n)a (*ACCEPT) (*UTF)a ^a$ (?i (?P<n (?P<>a) (?P<n>a)(?P<n>b) [z-a] [a-\d] [b-]
    ^* $? a$+ \b* (?i)* a(?i)* a*(?i)* a\Q\E* a{01} a{99999999999} (?P<1n>a) (?P<é>a) (?P<a-b>a) [\w-.] [\d-z] [[.a.]] [[=a=]] [:alpha:] [a&&b] [\Q]\E] [\S] [
    [^ [a- [\ [[:alpha: [[:alpha:] \p \pé \p{L \p{greek} \p{Grek} \p{Cn} \p{L&} \p{} \P{^L} \pC \x \x{ \x{41 \x{} \x4 \x{d800} \x{110000} \18 (?-) (?i-) (?i--s)
    (?: (?P<n> (?ié) (?P (?<=b) a) ((((a)) a{1001}? a{2,1}? (a{2}){600}? (a{1000,}){1} (a{0,2}){501} (?:(?:a{10}){10}){11}
""".split()


def test_patterns_are_those_of_re2(cluster, graph):
    """What RE2 refuses, and PCRE2 knows, is refused in RE2's words; what it takes means the same."""
    pattern = v1.placeholder(tf.string, [])
    matches = tf.raw_ops.RegexFullMatch(input=["a", "aa", "ab", "b"], pattern=pattern)

    def told(sess):
        for text in PATTERNS:
            try:
                yield text, sess.run(matches, {pattern: text}).tolist()
            except Invalid as e:
                yield text, e.message.rpartition("Invalid pattern: ")[2].partition("\n")[0]
            except ValueError:  # TensorFlow's client takes "[[:foo:]]" in the message for a node
                yield text, "refused"

    with session(cluster.master, graph) as sess, v1.Session(graph=graph) as own:
        got, want = dict(told(sess)), dict(told(own))
    assert {p: (got[p], want[p]) for p in want if got[p] != want[p]} == {}
