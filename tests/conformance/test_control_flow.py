"""Conditions, loops and functions, in the style of version 1 and in the functional style."""

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W0, W1, assert_same, fails, on_both, session, v1


def run_with(cluster, graph, fetch, feeds):
    with session(cluster.master, graph) as sess:
        return [sess.run(fetch, f) for f in feeds]


def test_control_dependencies_order_side_effects(cluster, graph, use_resource):
    v = v1.Variable(1.0, use_resource=use_resource)
    double = v1.assign(v, v * 2.0).op
    with tf.control_dependencies([double]):
        add = v1.assign_add(v, 3.0).op
    with tf.control_dependencies([add]):
        last = tf.identity(v.value() if not use_resource else v.read_value())
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert [sess.run(last) for _ in range(3)] == [5.0, 13.0, 29.0]


def test_control_edges_cross_tasks(cluster, graph):
    with tf.device(PS):
        v = v1.Variable(0.0, use_resource=True)
        add = v.assign_add(1.0, read_value=False)
    with tf.device(W1), tf.control_dependencies([add]):
        gate = tf.no_op()
    with tf.device(PS), tf.control_dependencies([gate]):
        read = v.read_value()
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert [sess.run(read) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_group_and_tuple(cluster, graph):
    v = v1.Variable([0, 0], use_resource=True)
    both = v1.group(v.assign_add([1, 0], read_value=False), v.assign_add([0, 1], read_value=False))
    a, b = v1.tuple([tf.constant(1), tf.constant(2)], control_inputs=[both])
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(both)
        assert sess.run([a, b]) == [1, 2]
        assert sess.run(v).tolist() == [2, 2]


def test_cond_takes_one_branch(cluster, graph, control_flow):
    x = v1.placeholder(tf.float32, [])
    y = v1.cond(x > 0.0, lambda: x * 2.0, lambda: x - 1.0)
    assert run_with(cluster, graph, y, [{x: 3.0}, {x: -3.0}]) == [6.0, -4.0]


def test_the_other_branch_has_no_side_effect(cluster, graph, control_flow):
    v = v1.Variable(0.0, use_resource=True)
    p = v1.placeholder(tf.bool, [])

    def bump(by):
        with tf.control_dependencies([v.assign_add(by, read_value=False)]):
            return tf.constant(by)

    y = v1.cond(p, lambda: bump(1.0), lambda: bump(100.0))
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert [sess.run(y, {p: b}) for b in (True, False, True)] == [1.0, 100.0, 1.0]
        assert sess.run(v) == 102.0


def test_nested_conds_of_several_outputs(cluster, graph, control_flow):
    x = v1.placeholder(tf.int32, [])

    def inner():
        return v1.cond(x > 10, lambda: (x, tf.constant("big")), lambda: (-x, tf.constant("middle")))

    y = v1.cond(x > 0, inner, lambda: (tf.constant(0), tf.constant("small")))
    got = run_with(cluster, graph, y, [{x: 11}, {x: 5}, {x: -1}])
    assert [(int(a), b) for a, b in got] == [(11, b"big"), (-5, b"middle"), (0, b"small")]


def test_case_and_switch_case(cluster, graph, control_flow):
    x = v1.placeholder(tf.int32, [])
    y = v1.case([(x < 0, lambda: tf.constant(-1)), (x > 9, lambda: tf.constant(9))], default=lambda: x)
    z = tf.switch_case(x, [lambda: tf.constant(10), lambda: tf.constant(11)], default=lambda: tf.constant(12))
    got = run_with(cluster, graph, [y, z], [{x: -5}, {x: 50}, {x: 1}, {x: 0}])
    assert got == [[-1, 12], [9, 12], [1, 11], [0, 10]]


def test_while_counts(cluster, graph, control_flow):
    n = v1.placeholder(tf.int32, [])
    i, total = v1.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i), [0, 0])
    got = run_with(cluster, graph, [i, total], [{n: 0}, {n: 1}, {n: 100}])
    assert got == [[0, 0], [1, 0], [100, 4950]]


@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_iterations_in_parallel_give_the_same(cluster, graph, control_flow, parallel):
    y = v1.while_loop(
        lambda i, a: i < 50,
        lambda i, a: (i + 1, a * 1.01 + tf.cast(i, tf.float32)),
        [tf.constant(0), tf.constant(1.0)],
        parallel_iterations=parallel,
    )
    want = 1.0
    for i in range(50):
        want = np.float32(np.float32(want) * np.float32(1.01) + np.float32(i))
    assert run_with(cluster, graph, y, [{}])[0][1] == pytest.approx(want, rel=1e-6)


def test_nested_loops(cluster, graph, control_flow):
    def outer(i, t):
        _, t = v1.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + j * i), [0, t])
        return i + 1, t

    y = v1.while_loop(lambda i, t: i < 8, outer, [0, 0])
    want = sum(j * i for i in range(8) for j in range(i))
    assert run_with(cluster, graph, y, [{}])[0][1] == want


def test_a_cond_in_a_loop_and_a_loop_in_a_cond(cluster, graph, control_flow):
    p = v1.placeholder(tf.bool, [])

    def body(i, t):
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: t + i, lambda: t - 1)

    def looped():
        return v1.while_loop(lambda i, t: i < 10, body, [0, 0])[1]

    y = v1.cond(p, looped, lambda: tf.constant(-7))
    assert run_with(cluster, graph, y, [{p: True}, {p: False}]) == [15, -7]


def test_a_loop_changes_shapes(cluster, graph, control_flow):
    y = v1.while_loop(
        lambda i, x: i < 4,
        lambda i, x: (i + 1, tf.concat([x, x], 0)),
        [tf.constant(0), tf.constant([1])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    assert run_with(cluster, graph, y, [{}])[0][1].tolist() == [1] * 16


def test_gradients_through_cond_and_loop(cluster, control_flow):
    def build(_):
        x = v1.placeholder(tf.float32, [3])
        branch = v1.cond(tf.reduce_sum(x) > 0.0, lambda: tf.square(x), lambda: x * 3.0)
        _, power = v1.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x + tf.sin(a)), [tf.constant(0), x])
        grads = v1.gradients(branch, x) + v1.gradients(power, x)
        return lambda sess: [sess.run(grads, {x: v}) for v in ([1.0, 2.0, -0.5], [-1.0, -2.0, 0.5])]

    got, want = on_both(cluster, build)
    for g, w in zip(sum(got, []), sum(want, [])):
        assert_same(g, w)


def test_gradients_of_nested_loops(cluster):
    was_v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:

        def build(_):
            x = v1.placeholder(tf.float32, [])

            def outer(i, a):
                _, a = v1.while_loop(lambda j, a: j < 2, lambda j, a: (j + 1, a * x), [tf.constant(0), a])
                return i + 1, a + x

            _, y = v1.while_loop(lambda i, a: i < 3, outer, [tf.constant(0), x])
            grad = v1.gradients(y, x)[0]
            return lambda sess: sess.run([y, grad], {x: 1.5})

        got, want = on_both(cluster, build)
    finally:
        if was_v2:
            v1.enable_control_flow_v2()
    for g, w in zip(got, want):
        assert_same(g, w)


def test_v2_cond_gradient(cluster, control_flow):
    def build(_):
        x = v1.placeholder(tf.float32, [])
        y = v1.cond(x > 0.0, lambda: x * x, lambda: -x)
        grad = v1.gradients(y, x)[0]
        return lambda sess: [sess.run(grad, {x: 3.0}), sess.run(grad, {x: -3.0})]

    got, want = on_both(cluster, build)
    assert got == want == [6.0, -1.0]


def test_a_loop_over_two_tasks(cluster, graph):
    """Tensors go to the other worker and back in every iteration."""
    was_v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:

        def body(i, a):
            with tf.device(W1):
                b = a * 2.0
            with tf.device(W0):
                return i + 1, b + 1.0

        with tf.device(W0):
            n = v1.placeholder(tf.int32, [])
            y = v1.while_loop(lambda i, a: i < n, body, [tf.constant(0), tf.constant(1.0)])[1]
    finally:
        if was_v2:
            v1.enable_control_flow_v2()
    assert run_with(cluster, graph, y, [{n: k} for k in (0, 1, 5, 20)]) == [1.0, 3.0, 63.0, 2.0**21 - 1.0]


def test_nested_loops_over_three_tasks(cluster, graph):
    was_v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:

        def inner(j, a):
            with tf.device(PS):
                return j + 1, a + 1.0

        def outer(i, a):
            with tf.device(W1):
                a = v1.while_loop(lambda j, a: j < 3, inner, [tf.constant(0), a * 2.0])[1]
            return i + 1, a

        with tf.device(W0):
            y = v1.while_loop(lambda i, a: i < 4, outer, [tf.constant(0), tf.constant(0.0)])[1]
    finally:
        if was_v2:
            v1.enable_control_flow_v2()
    assert run_with(cluster, graph, y, [{}, {}]) == [45.0, 45.0]


def test_a_cond_over_two_tasks(cluster, graph, control_flow):
    x = v1.placeholder(tf.float32, [])

    def there():
        with tf.device(W1):
            return tf.square(x)

    def elsewhere():
        with tf.device(PS):
            return tf.negative(x)

    y = v1.cond(x > 0.0, there, elsewhere)
    assert run_with(cluster, graph, y, [{x: 4.0}, {x: -4.0}]) == [16.0, 4.0]


def test_a_loop_reads_and_writes_a_variable(cluster, graph, control_flow):
    with tf.device(PS):
        v = v1.Variable(0, use_resource=True)

    def body(i):
        with tf.control_dependencies([v.assign_add(i, read_value=False)]):
            return i + 1

    loop = v1.while_loop(lambda i: i < 10, body, [tf.constant(0)], parallel_iterations=1)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(loop)
        sess.run(loop)
        assert sess.run(v) == 90


def test_reference_variables_in_a_cond(cluster, graph, control_flow):
    if control_flow == "v2":
        pytest.skip("functional conditions take no reference variables")
    v = v1.Variable(5.0, use_resource=False)
    p = v1.placeholder(tf.bool, [])
    y = v1.cond(p, lambda: v1.assign_add(v, 1.0) + 0.0, lambda: v + 0.0)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert [sess.run(y, {p: b}) for b in (True, False, True)] == [6.0, 6.0, 7.0]


def test_raw_switch_and_merge(cluster, graph):
    p = v1.placeholder(tf.bool, [])
    no, yes = tf.raw_ops.Switch(data=tf.constant(3.0), pred=p)
    merged = tf.raw_ops.Merge(inputs=[no * 10.0, yes * 100.0])
    got = run_with(cluster, graph, merged, [{p: True}, {p: False}])
    assert [(float(a), int(b)) for a, b in got] == [(300.0, 1), (30.0, 0)]


def test_reference_switch_and_merge(cluster, graph):
    """A reference goes through one branch, is merged, and is written through."""
    v = v1.Variable(5.0, use_resource=False, name="v")
    p = v1.placeholder(tf.bool, [])
    no, yes = tf.raw_ops.RefSwitch(data=v._ref(), pred=p)
    merged = tf.raw_ops.RefMerge(inputs=[tf.raw_ops.RefIdentity(input=no), tf.raw_ops.RefIdentity(input=yes)])
    write = tf.raw_ops.AssignAdd(ref=merged.output, value=1.0).op
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert sess.run(merged.value_index, {p: True}) == 1
        sess.run(write, {p: True})
        sess.run(write, {p: False})
        assert sess.run(v) == 7.0


def test_functions_are_called(cluster, graph):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.float32)], autograph=False)
    def hypotenuse(a, b):
        return tf.sqrt(a * a + b * b), a + b

    @tf.function(autograph=False)
    def twice(a):
        return hypotenuse(a, a)[0] + hypotenuse(a, 0.0)[1]

    x = v1.placeholder(tf.float32, [])
    y = hypotenuse(x, 4.0)
    z = twice(x)
    with session(cluster.master, graph) as sess:
        (a, b), c = sess.run([y, z], {x: 3.0})
    assert (a, b) == (5.0, 7.0)
    assert c == pytest.approx(3.0 * 2**0.5 + 3.0)


def test_functions_with_side_effects_and_gradients(cluster):
    def build(_):
        w = tf.Variable([1.0, 2.0])

        @tf.function(autograph=False)
        def loss(x):
            w.assign_add([1.0, 1.0])
            return tf.reduce_sum(w * x)

        x = v1.placeholder(tf.float32, [2])
        y = loss(x)
        grad = v1.gradients(y, x)[0]

        def steps(sess):
            sess.run(w.initializer)
            out = [sess.run([y, grad], {x: [1.0, 10.0]}) for _ in range(2)]
            return out + [sess.run(w)]

        return steps

    got, want = on_both(cluster, build)
    for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
        assert_same(g, w)


def test_autograph_functions_hold_conditions_and_loops(cluster, graph):
    @tf.function
    def collatz(n):
        steps = 0
        while n > 1:
            if tf.equal(n % 2, 0):
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    x = v1.placeholder(tf.int32, [])
    y = collatz(x)
    assert run_with(cluster, graph, y, [{x: 1}, {x: 6}, {x: 27}]) == [0, 8, 111]


def test_errors_in_branches_and_bodies_name_the_node(cluster, graph, control_flow):
    x = v1.placeholder(tf.int32, [])
    y = v1.while_loop(lambda i: i < 5, lambda i: tf.math.floordiv(i + 10, x) + i, [tf.constant(0)])
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "division by zero"):
            sess.run(y, {x: 0})
        assert sess.run(y, {x: 2}) == 5


def test_assert_passes_and_fails(cluster, graph, control_flow):
    x = v1.placeholder(tf.int32, [])
    with tf.control_dependencies([v1.Assert(x > 0, ["x is", x], name="positive")]):
        y = tf.identity(x)
    with session(cluster.master, graph) as sess:
        assert sess.run(y, {x: 1}) == 1
        with fails(tf.errors.InvalidArgumentError, "assertion failed: [x is] [-1]"):
            sess.run(y, {x: -1})


# ---- what gradients of version 2 keep: lists and optionals, their zeros and sums ----

raw = tf.raw_ops


def optional(*values):
    return raw.OptionalFromValue(components=[tf.constant(v) for v in values])


def value_of(o, *types):
    return raw.OptionalGetValue(optional=o, output_types=list(types), output_shapes=[None] * len(types))


def list_of(*rows):
    return raw.TensorListFromTensor(tensor=tf.constant(rows, tf.float32), element_shape=tf.constant([2]))


def stack_of(l):
    return raw.TensorListStack(input_handle=l, element_shape=tf.constant([2]), element_dtype=tf.float32)


SUMS = {
    "optional": lambda: value_of(optional([1.0, 2.0], 7), tf.float32, tf.int32),
    "has": lambda: [raw.OptionalHasValue(optional=o) for o in (raw.OptionalNone(), optional(1.0))],
    "optional zeros": lambda: value_of(tf.zeros_like(optional([1.0, 2.0], 7)), tf.float32, tf.int32),
    "no zeros": lambda: raw.OptionalHasValue(optional=tf.zeros_like(raw.OptionalNone())),
    "optional sum": lambda: value_of(tf.add_n([optional(1.5), optional(2.0), optional(4.0)]), tf.float32),
    "no sum": lambda: raw.OptionalHasValue(optional=tf.add_n([raw.OptionalNone(), raw.OptionalNone()])),
    "list zeros": lambda: stack_of(tf.zeros_like(list_of([1, 2], [3, 4]))),
    "list sum": lambda: stack_of(tf.add_n([list_of([1, 2], [3, 4]), list_of([5, 6], [7, 8])])),
    "one alone": lambda: stack_of(tf.add_n([list_of([1, 2])])),
    "optional of a list": lambda: stack_of(
        value_of(tf.add_n([optional_of(list_of([1, 2])), optional_of(tf.zeros_like(list_of([3, 4])))]), tf.variant)[0]),
}
MISTAKES = {
    "nothing to get": lambda: value_of(raw.OptionalNone(), tf.float32),
    "another type": lambda: value_of(optional(1.0), tf.int32),
    "more than one": lambda: value_of(optional(1.0, 2.0), tf.float32),
    "another shape": lambda: raw.OptionalGetValue(optional=optional([1.0, 2.0]), output_types=[tf.float32], output_shapes=[[3]]),
    "something and nothing": lambda: tf.add_n([raw.OptionalNone(), optional(1.0)]),
    "lengths": lambda: tf.add_n([list_of([1, 2]), list_of([1, 2], [3, 4])]),
    "no optional": lambda: raw.OptionalHasValue(optional=list_of([1, 2])),
}


def optional_of(tensor):
    return raw.OptionalFromValue(components=[tensor])


@pytest.mark.parametrize("name", SUMS)
def test_lists_and_optionals_have_zeros_and_sums(cluster, name):
    def build(_):
        made = SUMS[name]()
        return lambda sess: sess.run(made)

    got, want = on_both(cluster, build)
    tf.nest.map_structure(assert_same, got, want)


@pytest.mark.parametrize("name", MISTAKES)
def test_lists_and_optionals_that_differ_are_refused(cluster, name):
    def build(_):
        made = MISTAKES[name]()
        op = made[0].op if isinstance(made, list) else made.op

        def steps(sess):
            with pytest.raises(tf.errors.OpError) as caught:
                sess.run(op)
            said = [line for line in caught.value.message.splitlines() if line and not line.startswith(("Graph exec", "Detected", " ", "Node:", "From "))]
            return type(caught.value), said[0].split(" [[")[0]

        return steps

    got, want = on_both(cluster, build)
    assert got == want


@pytest.mark.weft_only  # a stock server's stack is at its end
def test_lists_nested_a_hundred_thousand_deep(cluster, graph):
    """Each round puts the list so far into a new one; it is dropped, and zeros of it are refused."""
    raw = tf.raw_ops

    def empty(dtype):
        return raw.EmptyTensorList(element_shape=tf.constant([], tf.int32), max_num_elements=tf.constant(-1), element_dtype=dtype)

    depth = v1.placeholder(tf.int32, [])
    _, nested = v1.while_loop(
        lambda i, x: i < depth,
        lambda i, x: (i + 1, raw.TensorListPushBack(input_handle=empty(tf.variant), tensor=x)),
        [tf.constant(0), empty(tf.float32)],
        parallel_iterations=1,
    )
    length = raw.TensorListLength(input_handle=nested)
    zeros = raw.TensorListLength(input_handle=tf.raw_ops.ZerosLike(x=nested))
    with session(cluster.master, graph) as s:
        assert s.run(length, {depth: 100000}) == 1
        assert s.run(zeros, {depth: 500}) == 1
        with fails(tf.errors.InvalidArgumentError, "nested more than 1000 deep"):
            s.run(zeros, {depth: 100000})
        assert s.run(length, {depth: 3}) == 1
