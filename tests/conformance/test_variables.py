"""Variables of both kinds: initialised, assigned, read, scattered into, and shared between sessions."""

import numpy as np
import pytest
import tensorflow as tf

from support import ALL_DTYPES, PS, W1, assert_same, fails, on_both, sample, session, v1


def variable(value, use_resource, name="v", **kwargs):
    return v1.Variable(value, use_resource=use_resource, name=name, **kwargs)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
def test_every_dtype_can_be_kept(cluster, graph, use_resource, dtype):
    first, second = sample(dtype, (2, 3), 1), sample(dtype, (2, 3), 2)
    with tf.device(PS):
        v = variable(tf.constant(first), use_resource)
    x = v1.placeholder(dtype, [2, 3])
    assign = v1.assign(v, x)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert_same(sess.run(v), first, exact=True)
        sess.run(assign.op, {x: second})
        assert_same(sess.run(v), second, exact=True)


def test_assign_gives_the_new_value(cluster, graph, use_resource):
    v = variable([1.0, 2.0], use_resource)
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        assert sess.run(v1.assign(v, [5.0, 6.0])).tolist() == [5.0, 6.0]
        assert sess.run(v1.assign_add(v, [1.0, 1.0])).tolist() == [6.0, 7.0]
        assert sess.run(v1.assign_sub(v, [2.0, 2.0])).tolist() == [4.0, 5.0]


def test_variables_outlive_their_session(cluster, graph, use_resource):
    with tf.device(PS):
        v = variable(1.0, use_resource)
    add = v1.assign_add(v, 1.0).op
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(add)
    with session(cluster.master, graph) as sess:
        sess.run(add)
    with session(cluster.target("worker", 1), graph) as sess:  # another master, the same ps
        sess.run(add)
        assert sess.run(v) == 4.0


def test_two_graphs_share_a_variable_by_name(cluster, unique, use_resource):
    values = []
    for start in (1.0, None):
        with tf.Graph().as_default() as g, g.container(unique), tf.device(PS):
            v = variable(7.0, use_resource, name="shared")
            with session(cluster.master, g) as sess:
                if start is not None:
                    sess.run(v.initializer)
                values.append(sess.run(v))
    assert values == [7.0, 7.0]


def test_containers_keep_equal_names_apart(cluster, unique, use_resource):
    for i in range(2):
        with tf.Graph().as_default() as g, g.container(f"{unique}.{i}"):
            v = variable(float(i), use_resource, name="same")
            with session(cluster.master, g) as sess:
                sess.run(v.initializer)
    for i in range(2):
        with tf.Graph().as_default() as g, g.container(f"{unique}.{i}"):
            v = variable(9.0, use_resource, name="same")
            with session(cluster.master, g) as sess:
                assert sess.run(v) == float(i)


def test_isolated_sessions_do_not_share_state(cluster, graph, use_resource):
    v = variable(1.0, use_resource)
    with session(cluster.master, graph, isolate_session_state=True) as sess:
        sess.run(v.initializer)
        assert sess.run(v) == 1.0
    with session(cluster.master, graph, isolate_session_state=True) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)


def test_initialisation_is_reported(cluster, graph, use_resource):
    with tf.device(PS):
        a, b = variable(1.0, use_resource, "a"), variable(2.0, use_resource, "b")
    missing = v1.report_uninitialized_variables([a, b])
    with session(cluster.master, graph) as sess:
        assert sorted(sess.run(missing).tolist()) == [b"a", b"b"]
        sess.run(b.initializer)
        assert sess.run(missing).tolist() == [b"a"]
        assert sess.run([v1.is_variable_initialized(a), v1.is_variable_initialized(b)]) == [False, True]
        sess.run(a.initializer)
        assert sess.run(missing).tolist() == []


def test_initial_values_may_depend_on_other_variables(cluster, graph, use_resource):
    a = variable(3.0, use_resource, "a")
    b = variable(a * 2.0, use_resource, "b")
    with session(cluster.master, graph) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(b.initializer)
        sess.run(a.initializer)
        sess.run(b.initializer)
        assert sess.run([a, b]) == [3.0, 6.0]


def test_a_variable_without_fixed_shape_changes_shape(cluster, graph, use_resource):
    v = variable([1.0], use_resource, validate_shape=False, shape=None if not use_resource else tf.TensorShape(None))
    x = v1.placeholder(tf.float32)
    change = v1.assign(v, x, validate_shape=False)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(change.op, {x: [[1.0, 2.0], [3.0, 4.0]]})
        assert sess.run(v).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_variable_on_the_ps_is_read_by_both_workers(cluster, graph, use_resource):
    with tf.device(PS):
        v = variable(np.arange(6, dtype=np.float32).reshape(2, 3), use_resource)
    sums = []
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            sums.append(tf.reduce_sum(v * (task + 1.0)))
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert sess.run(sums) == [15.0, 30.0]


def test_reads_before_and_after_an_update_are_ordered_by_control_edges(cluster, graph):
    v = variable(1.0, True)
    before = v.read_value()
    with tf.control_dependencies([before]):
        add = v.assign_add(10.0, read_value=False)
    with tf.control_dependencies([add]):
        after = v.read_value()
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert sess.run([before, after]) == [1.0, 11.0]
        assert sess.run([before, after]) == [11.0, 21.0]


def reads_of(w, x):
    """Nodes that read the variable where it is, by themselves and with other nodes behind them."""
    reference = w._ref() if hasattr(w, "_ref") else w
    reads = []
    with tf.device(PS):
        for read in reference, w.read_value(), tf.identity(tf.reshape(w, [3])):  # of one buffer
            reads += [read * read, tf.reduce_sum(tf.tanh(read + 1.0) * 2.0), tf.reduce_sum(read)]
            reads += [tf.matmul(tf.reshape(read * 2.0, [1, -1]), tf.reshape(x, [-1, 1]))]
            reads += [tf.matmul(tf.reshape(read, [1, -1]), tf.reshape(x, [-1, 1]))]
    return reads


UPDATES = {
    "descent": lambda: v1.train.GradientDescentOptimizer(0.5),
    "momentum": lambda: v1.train.MomentumOptimizer(0.5, 0.9),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.5),
    "adam": lambda: v1.train.AdamOptimizer(0.5),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.5),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.5),
    "assign": None,
    "scatter": None,
}


@pytest.mark.parametrize("is_update_first", [False, True], ids=["reads_first", "update_first"])
@pytest.mark.parametrize("name", UPDATES)
def test_references_are_read_before_the_step_updates_them(cluster, graph, name, is_update_first):
    with tf.device(PS):
        w = variable([1.0, 2.0, 3.0], False)
    x = v1.placeholder(tf.float32, [3])
    reads = [] if is_update_first else reads_of(w, x)
    if name == "assign":
        update = v1.assign_add(w, x).op
    elif name == "scatter":
        update = v1.scatter_add(w, [0, 1, 2], x).op
    else:
        update = UPDATES[name]().apply_gradients([(tf.identity(x), w)])
    reads = reads or reads_of(w, x)
    feeds = {x: np.array([0.5, -0.25, 1.0], np.float32)}
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        for step in range(25):
            before = sess.run(reads, feeds)
            assert all(np.array_equal(a, b) for a, b in zip(before, sess.run([update] + reads, feeds)[1:])), step


def cond_of(w, x):
    return v1.cond(x[0] < 1.0, lambda: w * x, lambda: tf.nn.relu(w) + x)


def nested_cond_of(w, x):
    return v1.cond(x[0] < 1.0, lambda: v1.cond(x[1] < 0.0, lambda: w * 2.0, lambda: w * 3.0), lambda: w - x)


def loop_of(w, x):
    start = [tf.constant(0), x]
    return v1.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * 0.5 + w * tf.cast(i, tf.float32)], start)[1]


def condition_of(w, x):
    return v1.while_loop(lambda a: tf.reduce_sum(w + a) < 40.0, lambda a: [a + 1.0], [x])


def nested_loop_of(w, x):
    def body(i, a):
        return [i + 1, a + loop_of(w, a) + v1.cond(i < 1, lambda: w * a, lambda: tf.stop_gradient(w))]

    return v1.while_loop(lambda i, a: i < 3, body, [tf.constant(0), x])[1]


def merged_of(w, x):
    return v1.cond(x[0] < 1.0, lambda: tf.identity(w), lambda: tf.reshape(w, [3])) * x


def rows_of(w, x):
    parts = [w[0:2], tf.split(w, 3)[1], tf.slice(w, [1], [2]), tf.concat([tf.reshape(w, [1, 3])], 0)]
    return [tf.tanh(part) + 1.0 for part in parts]


def on_worker(read):
    def reads(w, x):
        with tf.device(W1):
            return read(w, x)

    return reads


def received_of(w, x):
    """A reader that waits for another task, as the update does not."""
    with tf.device(W1):
        far = tf.tanh(tf.matmul(tf.ones([200, 200]), tf.ones([200, 200])))[0, :3] + x
    return w * far


CONTROLLED_READS = {
    "cond": cond_of,
    "nested cond": nested_cond_of,
    "cond of a value": lambda w, x: cond_of(tf.identity(w), x),
    "merged": merged_of,
    "loop": loop_of,
    "condition of a loop": condition_of,
    "nested loop": nested_loop_of,
    "loop in a cond": lambda w, x: v1.cond(x[0] < 1.0, lambda: loop_of(w, x), lambda: x),
    "stop_gradient": lambda w, x: tf.stop_gradient(w) * x,
    "prevent_gradient": lambda w, x: tf.raw_ops.PreventGradient(input=w) * x,
    "check_numerics": lambda w, x: v1.check_numerics(w, "bad") * x,
    "identity_n": lambda w, x: tf.identity_n([w, x])[0] * x,
    "same cast": lambda w, x: tf.raw_ops.Cast(x=w, DstT=tf.float32) * x,
    "rows": rows_of,
    "on a worker": on_worker(lambda w, x: [w * 2.0, tf.reduce_sum(w)]),
    "a value on a worker": lambda w, x: on_worker(lambda w, x: w * x)(tf.identity(w), x),
    "a cond on a worker": on_worker(cond_of),
    "a loop on a worker": on_worker(loop_of),
    "behind a receive": received_of,
}


@pytest.mark.weft_only
@pytest.mark.parametrize("is_update_first", [False, True], ids=["reads_first", "update_first"])
@pytest.mark.parametrize("update", ["descent", "adam", "assign", "constant"])
@pytest.mark.parametrize("name", CONTROLLED_READS)
def test_references_are_read_behind_control_flow(cluster, graph, control_flow, name, update, is_update_first):
    """What is fetched beside an update is of the variable before it, whatever the reader is behind."""
    x = v1.placeholder(tf.float32, [3])
    with tf.device(PS):
        w = variable([1.0, 2.0, 3.0], False)
        reads = None if is_update_first else CONTROLLED_READS[name](w, x)
        if update in ("assign", "constant"):
            change = v1.assign_add(w, x if update == "assign" else tf.ones([3])).op
        else:
            change = UPDATES[update]().apply_gradients([(x + 0.0, w)])
        reads = CONTROLLED_READS[name](w, x) if reads is None else reads
    reads = tf.nest.flatten(reads)
    feeds = [{x: np.array(value, np.float32)} for value in ([0.5, -0.25, 1.0], [0.5, 0.25, -1.0], [1.5, 0.25, 1.0])]
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        for step in range(21):
            before = sess.run(reads, feeds[step % 3])
            beside = sess.run([change] + reads, feeds[step % 3])[1:]
            assert all(np.array_equal(a, b) for a, b in zip(before, beside)), step


def test_a_partial_run_updates_a_reference_before_a_reader_has_its_feed(cluster, graph):
    w = variable([1.0, 2.0, 3.0], False)
    x, y = v1.placeholder(tf.float32, [3]), v1.placeholder(tf.float32, [3])
    read = w * x
    change = tf.identity(v1.assign_add(w, y)) + 0.0
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        run = sess.partial_run_setup([change, read], [x, y])
        assert sess.partial_run(run, change, {y: [1.0, 1.0, 1.0]}).tolist() == [2.0, 3.0, 4.0]
        assert sess.partial_run(run, read, {x: [2.0, 2.0, 2.0]}).tolist() == [4.0, 6.0, 8.0]


SCATTERS = [
    "scatter_update",
    "scatter_add",
    "scatter_sub",
    "scatter_mul",
    "scatter_div",
    "scatter_min",
    "scatter_max",
]


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_equal_the_oracle(cluster, use_resource, name):
    def build(place):
        with place(PS):
            v = variable(np.arange(1, 9, dtype=np.float32).reshape(4, 2), use_resource)
        index, update = v1.placeholder(tf.int32), v1.placeholder(tf.float32)
        op = getattr(v1, name)(v, index, update)

        def steps(sess):
            sess.run(v.initializer)
            out = []
            for indices, updates in (
                ([3, 0], [[2.0, 5.0], [4.0, 0.5]]),
                ([1, 1], [[2.0, 3.0], [2.5, 7.0]]),
                ([], np.zeros((0, 2))),
                ([2], [[1.0, 1.0]]),
            ):
                sess.run(op.op if hasattr(op, "op") else op, {index: indices, update: updates})
                out.append(sess.run(v))
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 4 is not in \[0, 4\)"):  # with row 3 written
                sess.run(op.op if hasattr(op, "op") else op, {index: [3, 4, 0], update: [[3.0, 0.5], [1.0, 1.0], [2.0, 2.0]]})
            out.append(sess.run(v))
            return out

        return steps

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, what=name)


@pytest.mark.parametrize("name", ["scatter_nd_update", "scatter_nd_add", "scatter_nd_sub"])
def test_scatter_nds_equal_the_oracle(cluster, use_resource, name):
    def build(place):
        with place(PS):
            v = variable(np.zeros((3, 2), np.float32), use_resource)
        op = getattr(v1, name)(v, [[0, 1], [2, 0], [1, 1]], [1.0, 2.0, 3.0])

        def steps(sess):
            sess.run(v.initializer)
            sess.run(op.op)
            sess.run(op.op)
            return sess.run(v)

        return steps

    got, want = on_both(cluster, build)
    assert_same(got, want)


@pytest.mark.parametrize("name", ["scatter_nd_update", "scatter_nd_add", "scatter_nd_sub"])
def test_scatter_nds_write_all_places_in_range(cluster, use_resource, name):
    def build(place):
        with place(PS):
            v = variable(np.ones((3, 2), np.float32), use_resource)
        op = getattr(v1, name)(v, [[0, 1], [2, 2], [2, 0], [-1, 1], [1, 1]], [1.0, 2.0, 3.0, 4.0, 5.0])

        def steps(sess):
            sess.run(v.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[3\] = \[-1, 1\] does not index into"):
                sess.run(op.op)
            return sess.run(v)

        return steps

    got, want = on_both(cluster, build)
    assert_same(got, want)


@pytest.mark.parametrize("shape", [(7,), (3,), (1,), (2, 2), (3, 1, 2)])
@pytest.mark.parametrize("name", ["scatter_update", "scatter_add"])
def test_scatters_of_wrong_shapes_fail_alike(cluster, use_resource, name, shape):
    def build(place):
        with place(PS):
            v = variable(np.ones((5, 2), np.float32), use_resource)
        update = v1.placeholder(tf.float32)
        op = getattr(v1, name)(v, v1.placeholder_with_default([0, 1, 2], None), update)

        def steps(sess):
            sess.run(v.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(op.op if hasattr(op, "op") else op, {update: np.ones(shape)})
            return next(line for line in caught.value.message.splitlines() if "updates" in line)

        return steps

    got, want = on_both(cluster, build)
    assert want in got


def test_gathers_from_a_variable(cluster, graph, use_resource):
    with tf.device(PS):
        v = variable(np.arange(12, dtype=np.float32).reshape(4, 3), use_resource)
    rows = tf.gather(v, [3, 0, 3])
    cells = tf.gather_nd(v, [[1, 2], [0, 0]])
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert sess.run(rows)[:, 0].tolist() == [9.0, 0.0, 9.0]
        assert sess.run(cells).tolist() == [5.0, 0.0]


def test_count_up_to_ends_with_out_of_range(cluster, graph, use_resource):
    v = variable(0, use_resource)
    count = v1.count_up_to(v, 2)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert [sess.run(count), sess.run(count)] == [0, 1]
        with fails(tf.errors.OutOfRangeError, "2"):
            sess.run(count)


def test_strided_assignment_to_a_slice(cluster, graph, use_resource):
    v = variable(np.zeros(5, np.float32), use_resource)
    write = v[1:4:2].assign([1.0, 2.0])
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(write.op)
        assert sess.run(v).tolist() == [0.0, 1.0, 0.0, 2.0, 0.0]


def test_partitioned_variables_make_one_whole(cluster, graph, use_resource):
    with v1.variable_scope("p", partitioner=v1.fixed_size_partitioner(2), use_resource=use_resource):
        v = v1.get_variable("w", [5, 2], initializer=v1.random_uniform_initializer(seed=3))
    looked_up = v1.nn.embedding_lookup(v, [0, 3, 1, 4], partition_strategy="div")
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        rows, whole = sess.run([looked_up, tf.convert_to_tensor(v)])
    assert whole.shape == (5, 2)
    assert_same(rows, whole[[0, 3, 1, 4]], exact=True)


def test_destroyed_resource_variables_are_gone(cluster, graph):
    v = variable(1.0, True)
    destroy = tf.raw_ops.DestroyResourceOp(resource=v.handle, ignore_lookup_error=False)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(destroy)
        with fails(tf.errors.NotFoundError):
            sess.run(destroy)
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)


def test_variable_shape_of_a_handle(cluster, graph):
    v = variable(np.zeros((3, 5), np.float32), True)
    shape = tf.raw_ops.VariableShape(input=v.handle)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert sess.run(shape).tolist() == [3, 5]


def test_temporary_variables_live_for_one_step(cluster, graph):
    tmp = tf.raw_ops.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="tmp")
    final = tf.raw_ops.DestroyTemporaryVariable(
        ref=v1.assign_add(v1.assign(tmp, [1.0, 2.0]), [3.0, 4.0]), var_name="tmp"
    )
    with session(cluster.master, graph) as sess:
        for _ in range(3):
            assert sess.run(final).tolist() == [4.0, 6.0]


def test_a_variable_on_another_worker(cluster, graph, use_resource):
    with tf.device(W1):
        v = variable([1.0, 2.0], use_resource)
        add = v1.assign_add(v, [1.0, 1.0]).op
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        for _ in range(5):
            sess.run(add)
        assert sess.run(v).tolist() == [6.0, 7.0]


def test_variables_of_the_oldest_form(cluster, graph):
    """The op Variable, where a scalar shape means any shape."""
    v = tf.raw_ops.Variable(shape=[], dtype=tf.float32, container="", shared_name="")
    init = v1.assign(v, [1.0, 2.0], validate_shape=False)
    with session(cluster.master, graph) as sess:
        sess.run(init.op)
        assert sess.run(v1.assign_add(v, [1.0, 1.0])).tolist() == [2.0, 3.0]
