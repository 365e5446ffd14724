"""TensorFlow's collective operations, run by stock clients: within one graph, over tasks and devices, and between graphs
of clients that know nothing of each other. Results are compared with numpy."""

import itertools
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from cluster import Cluster
from conftest import LIVE
from support import assert_same, fails, is_in_time, sample, session, v1

R = tf.raw_ops
WORKERS, CPUS = 4, 2
_keys = itertools.count(100)  # a group keeps its members for ever, so every test has groups of its own
FLOATS = [tf.float16, tf.float32, tf.float64]
TYPES = FLOATS + [tf.int32, tf.int64]


def start(maker, directory, workers=WORKERS, cpus=CPUS):
    return Cluster(maker, str(directory), ps=0, workers=workers, cpus=cpus).start()


@pytest.fixture(scope="module")
def wide(maker, tmp_path_factory):
    """Four workers of two CPU devices each, for collectives that succeed."""
    cluster = start(maker, tmp_path_factory.mktemp("collectives"))
    LIVE.append(cluster)
    yield cluster
    LIVE.remove(cluster)
    cluster.stop()


@pytest.fixture
def fragile(maker, tmp_path):
    """A cluster of the test's own: after a failure stock servers have to be started again."""
    cluster = start(maker, tmp_path, workers=2)
    LIVE.append(cluster)
    yield cluster
    LIVE.remove(cluster)
    cluster.stop()


def member(i, layout):
    """The device of member i: on a task of its own, all on one task, or two to a task."""
    return {
        "tasks": f"/job:worker/task:{i}/device:CPU:0",
        "devices": f"/job:worker/task:0/device:CPU:{i}",
        "both": f"/job:worker/task:{i // 2}/device:CPU:{i % 2}",
    }[layout]


LAYOUTS = [("tasks", 2), ("tasks", 3), ("tasks", 4), ("devices", 2), ("both", 4), ("both", 7)]
layouts = pytest.mark.parametrize("layout,n", LAYOUTS, ids=[f"{name}-{n}" for name, n in LAYOUTS])


def reduce_v1(x, n, group, instance, merge="Add", final="Id", **more):
    return R.CollectiveReduce(
        input=x, group_size=n, group_key=group, instance_key=instance, merge_op=merge, final_op=final, subdiv_offsets=[0], **more
    )


def reduce_v2(x, n, group, instance, merge="Add", final="Id", **more):
    return R.CollectiveReduceV2(
        input=x, group_size=n, group_key=group, instance_key=instance, merge_op=merge, final_op=final, ordering_token=[], **more
    )


FORMS = {"v1": reduce_v1, "v2": reduce_v2}


def run_group(target, n, layout, build, feeds=(), graph_key=0, **more):
    """One graph with a member per device; build(i) makes member i's result. Returns all results."""
    g = tf.Graph()
    with g.as_default():
        outputs = []
        for i in range(n):
            with tf.device(member(i, layout)):
                outputs.append(build(i))
        with session(target, g, **more) as sess:
            options = v1.RunOptions(experimental=v1.RunOptions.Experimental(collective_graph_key=graph_key))
            return sess.run(outputs, options=options)


def constants(dtype, n, shape, low=1):
    if dtype.is_floating:
        return [sample(dtype, shape, i) for i in range(n)]
    return [np.random.RandomState(i).randint(low, 5, shape).astype(dtype.as_numpy_dtype) for i in range(n)]


@pytest.mark.parametrize("form", FORMS)
@layouts
def test_sums_over_a_group(wide, layout, n, form):
    group = next(_keys)
    values = constants(tf.float32, n, [5, 3])
    got = run_group(wide.master, n, layout, lambda i: FORMS[form](tf.constant(values[i]), n, group, 1))
    for g in got:
        assert_same(g, np.sum(values, axis=0), rtol=1e-5)
        assert g.tobytes() == got[0].tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("merge", ["Add", "Mul", "Min", "Max"])
def test_every_type_and_reduction(wide, dtype, merge):
    n, group = 3, next(_keys)
    values = constants(dtype, n, [7])
    want = {"Add": np.sum, "Mul": np.prod, "Min": np.min, "Max": np.max}[merge](np.stack(values), axis=0)
    got = run_group(wide.master, n, "tasks", lambda i: reduce_v2(tf.constant(values[i]), n, group, 1, merge))
    for g in got:
        assert_same(g, want.astype(dtype.as_numpy_dtype), rtol=1e-2 if dtype == tf.float16 else None)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_means(wide, dtype):
    n, group = 4, next(_keys)
    values = constants(dtype, n, [6])
    total = np.sum(np.stack(values), axis=0)
    want = total / n if dtype.is_floating else total // n
    got = run_group(wide.master, n, "tasks", lambda i: reduce_v1(tf.constant(values[i]), n, group, 1, final="Div"))
    for g in got:
        assert_same(g, want.astype(dtype.as_numpy_dtype), rtol=1e-2 if dtype == tf.float16 else None)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 1023, (1 << 18) + 3])
def test_every_size(wide, count):
    n, group = 4, next(_keys)
    values = [np.arange(count, dtype=np.float32) * (i + 1) for i in range(n)]
    got = run_group(wide.master, n, "tasks", lambda i: reduce_v2(tf.constant(values[i]), n, group, 1))
    for g in got:
        np.testing.assert_allclose(g, np.sum(values, axis=0), rtol=1e-6)


def test_scalars_and_one_member(wide):
    group = next(_keys)
    got = run_group(wide.master, 2, "tasks", lambda i: reduce_v1(tf.constant(float(i + 1)), 2, group, 1))
    assert got == [3.0, 3.0]
    alone = next(_keys)
    assert run_group(wide.master, 1, "tasks", lambda i: reduce_v2(tf.constant([4.0, 5.0]), 1, alone, 1))[0].tolist() == [4.0, 5.0]


@layouts
def test_gathers_in_order_of_devices(wide, layout, n):
    group = next(_keys)
    values = [np.full([2, 3], i, np.float32) for i in range(n)]
    build = [
        lambda i: R.CollectiveGather(
            input=values[i], group_size=n, group_key=group, instance_key=1, shape=[2 * n, 3], communication_hint="auto"
        ),
        lambda i: R.CollectiveGatherV2(input=values[i], group_size=n, group_key=group, instance_key=2, ordering_token=[]),
    ]
    for each in build:
        for g in run_group(wide.master, n, layout, each):
            assert_same(g, np.concatenate(values))


@layouts
def test_broadcasts_from_any_member(wide, layout, n):
    value = sample(tf.float32, [4, 2])
    for source in {0, n - 1}:
        group = next(_keys)

        def first(i):
            keys = {"group_size": n, "group_key": group, "instance_key": 1, "shape": [4, 2]}
            if i == source:
                return R.CollectiveBcastSend(input=value, **keys)
            return R.CollectiveBcastRecv(T=tf.float32, **keys)

        def second(i):
            keys = {"group_size": n, "group_key": group, "instance_key": 2}
            if i == source:
                return R.CollectiveBcastSendV2(input=value, **keys)
            return R.CollectiveBcastRecvV2(T=tf.float32, shape=[4, 2], **keys)

        for build in (first, second):
            for g in run_group(wide.master, n, layout, build):
                assert_same(g, value, exact=True)


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.int64, tf.float16, tf.float64], ids=lambda d: d.name)
def test_broadcasts_of_every_type(wide, dtype):
    group, value = next(_keys), sample(dtype, [3])
    keys = {"group_size": 2, "group_key": group, "instance_key": 1, "shape": [3]}
    got = run_group(
        wide.master,
        2,
        "tasks",
        lambda i: R.CollectiveBcastSend(input=value, **keys) if i else R.CollectiveBcastRecv(T=dtype, **keys),
    )
    for g in got:
        assert_same(g, value, exact=True)


def test_many_in_one_step_in_any_order(wide):
    n, group, count = 4, next(_keys), 40
    values = np.random.RandomState(0).randn(count, n, 11).astype(np.float32)
    g = tf.Graph()
    with g.as_default():
        outputs = {}
        for i in range(n):
            with tf.device(member(i, "tasks")):
                before = []
                for k in np.random.RandomState(i).permutation(count):  # each member launches in an order of its own
                    with tf.control_dependencies(before):
                        started = tf.constant(values[k, i])
                    outputs[k, i] = reduce_v2(started, n, group, int(k) + 1)
                    before = [started]
        with session(wide.master, g) as sess:
            got = sess.run(outputs)
    for (k, _), value in got.items():
        np.testing.assert_allclose(value, values[k].sum(axis=0), rtol=1e-4, atol=1e-5)


def test_several_groups_at_once(wide):
    evens, odds = next(_keys), next(_keys)
    got = run_group(
        wide.master, 4, "tasks", lambda i: reduce_v2(tf.constant([10.0**i]), 2, odds if i % 2 else evens, 1)
    )
    assert [float(g[0]) for g in got] == [101.0, 1010.0, 101.0, 1010.0]


@pytest.mark.parametrize("shapes", [1, pytest.param(4, marks=pytest.mark.weft_only)])  # stock instances keep their first shape
def test_steps_of_one_session(wide, shapes):
    n, group = 3, next(_keys)
    g = tf.Graph()
    with g.as_default():
        x = v1.placeholder(tf.float32, [None])
        outputs = []
        for i in range(n):
            with tf.device(member(i, "tasks")):
                outputs.append(reduce_v2(x * float(i + 1), n, group, 1))
        with session(wide.master, g) as sess:
            for step in range(20):
                length = step % shapes + 1
                for got in sess.run(outputs, {x: [1.0 * step] * length}):
                    assert got.tolist() == [6.0 * step] * length
            call = sess.make_callable(outputs, [x])
            assert call([2.0])[2].tolist() == [12.0]


def test_a_variable_trained_alike_everywhere(wide):
    """Between replicas of a model: each has a gradient of its own, all have one sum."""
    n, group, rate = 4, next(_keys), 0.25
    g = tf.Graph()
    with g.as_default():
        variables, updates = [], []
        for i in range(n):
            with tf.device(member(i, "tasks")):
                v = v1.get_variable(f"v{i}", [], initializer=v1.constant_initializer(8.0))
                gradient = tf.gradients(tf.square(v - float(i)), v)[0]
                mean = reduce_v2(gradient, n, group, 1, final="Div")
                updates.append(v1.assign_sub(v, rate * mean))
                variables.append(v)
        with session(wide.master, g) as sess:
            sess.run(v1.global_variables_initializer())
            for _ in range(60):
                sess.run(updates)
            got = sess.run(variables)
    assert len({x.tobytes() for x in got}) == 1
    np.testing.assert_allclose(got[0], 1.5, rtol=1e-5)


@pytest.mark.weft_only  # stock sessions know no collective by these names, and crash or refuse
def test_all_to_all_and_reduce_scatter(wide):
    n, group = 4, next(_keys)
    values = [np.arange(8, dtype=np.float32).reshape(4, 2) + 100 * i for i in range(n)]
    got = run_group(
        wide.master,
        n,
        "tasks",
        lambda i: R.CollectiveAllToAllV2(input=values[i], group_size=n, group_key=group, instance_key=1, ordering_token=[]),
    )
    for j, g in enumerate(got):
        assert_same(g, np.stack([values[i][j] for i in range(n)]))
    got = run_group(
        wide.master,
        n,
        "tasks",
        lambda i: R.CollectiveReduceScatterV2(
            input=values[i], group_size=n, group_key=group, instance_key=2, ordering_token=[], merge_op="Add", final_op="Div"
        ),
    )
    for j, g in enumerate(got):
        assert_same(g, np.mean(values, axis=0)[j : j + 1])


@pytest.mark.weft_only
def test_communicators(wide):
    n, group = 4, next(_keys)
    order = [2, 0, 3, 1]
    none = np.zeros([0], np.int32)
    values = [np.arange(4, dtype=np.float32) + 10 * i for i in range(n)]

    def build(i):
        made = R.CollectiveInitializeCommunicator(group_key=group, rank=order[i], group_size=n)
        total = R.CollectiveReduceV3(input=values[i], communicator=made, group_assignment=none, reduction="Add")
        with tf.control_dependencies([total]):
            turned = R.CollectiveAllToAllV3(input=tf.constant(values[i]), communicator=made, group_assignment=none)
        return total, turned

    for i, (total, turned) in enumerate(run_group(wide.master, n, "tasks", build)):
        assert_same(total, np.sum(values, axis=0))
        assert turned.tolist() == [float(values[order.index(r)][order[i]]) for r in range(n)]


def test_groups_by_assignment(wide):
    base = next(_keys)
    next(_keys)
    got = run_group(
        wide.master,
        4,
        "tasks",
        lambda i: R.CollectiveAssignGroupV2(group_assignment=[[0, 2], [3, 1]], device_index=i, base_key=base),
    )
    assert [(g.group_size, g.group_key) for g in got] == [(2, base), (2, base + 1), (2, base), (2, base + 1)]


# ---- between graphs: a client per member, each with a master of its own ----


def between(cluster, n, build, steps, graph_key, feeds=None, options=None):
    """Runs n clients at once, client i at worker i; returns their results by client and step. A failure is returned, too."""
    results = [[] for _ in range(n)]

    def client(i):
        g = tf.Graph()
        with g.as_default(), tf.device(f"/job:worker/task:{i}"):
            x = v1.placeholder(tf.float32, None)
            y = build(i, x)
        more = v1.RunOptions(experimental=v1.RunOptions.Experimental(collective_graph_key=graph_key))
        if options is not None:
            more.MergeFrom(options)
        with session(cluster.target("worker", i), g) as sess:
            for step in range(steps):
                try:
                    results[i].append(sess.run(y, {x: feeds(i, step) if feeds else [float(i + step)]}, options=more))
                except tf.errors.OpError as e:
                    results[i].append(e)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50)
    assert not any(t.is_alive() for t in threads), "a client hangs"
    return results


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [2, 3])
def test_clients_that_know_nothing_of_each_other_agree(wide, n, form):
    group, key = next(_keys), next(_keys)
    results = between(wide, n, lambda i, x: FORMS[form](x, n, group, 1), 15, key)
    for i in range(n):
        for step, got in enumerate(results[i]):
            assert not isinstance(got, Exception), f"client {i}, step {step}: {got}"
            assert got.tolist() == [sum(k + step for k in range(n))]


@pytest.mark.parametrize("form", FORMS)
def test_clients_without_a_key_have_that_of_their_graph(wide, form):
    n, group, instance = 3, next(_keys), next(_keys)
    results = between(wide, n, lambda i, x: FORMS[form](x, n, group, instance), 6, 0)
    for i in range(n):
        for step, got in enumerate(results[i]):
            assert not isinstance(got, Exception), f"client {i}, step {step}: {got}"
            assert got.tolist() == [sum(k + step for k in range(n))]


def test_clients_with_several_collectives_and_steps_of_other_lengths(wide):
    n, group, key = 3, next(_keys), next(_keys)

    def build(i, x):
        time.sleep(0.1 * i)
        total = reduce_v2(x, n, group, 1)
        least = reduce_v2(x, n, group, 2, merge="Min")
        keys = {"group_size": n, "group_key": group, "instance_key": 3, "shape": [1]}
        said = R.CollectiveBcastSend(input=tf.reshape(x, [1]), **keys) if i == 1 else R.CollectiveBcastRecv(T=tf.float32, **keys)
        return [total, least, said, R.CollectiveGatherV2(input=x, group_size=n, group_key=group, instance_key=4, ordering_token=[])]

    results = between(wide, n, build, 10, key)
    for i in range(n):
        for step, got in enumerate(results[i]):
            assert not isinstance(got, Exception), f"client {i}, step {step}: {got}"
            total, least, said, all_of_them = [x.tolist() for x in got]
            assert (total, least, said) == ([3.0 + 3 * step], [float(step)], [1.0 + step])
            assert all_of_them == [float(k + step) for k in range(n)]


# ---- what goes wrong ----


def test_shapes_that_differ_are_refused(fragile):
    group = next(_keys)
    with fails(tf.errors.InvalidArgumentError, "shape"):
        run_group(fragile.master, 2, "tasks", lambda i: reduce_v2(tf.zeros([3 + i]), 2, group, 1))


def test_rows_that_differ_are_refused(fragile):
    group = next(_keys)
    with fails(tf.errors.InvalidArgumentError, "shape"):
        run_group(
            fragile.master,
            2,
            "tasks",
            lambda i: R.CollectiveGatherV2(
                input=tf.zeros([3 + i, 2]), group_size=2, group_key=group, instance_key=1, ordering_token=[]
            ),
        )


@pytest.mark.weft_only  # of stock servers, some clients are told only that the collectives were aborted
def test_clients_whose_shapes_differ_are_all_refused(fragile):
    group, key = next(_keys), next(_keys)
    results = between(
        fragile, 2, lambda i, x: reduce_v2(x, 2, group, 1), 1, key, feeds=lambda i, step: np.zeros([2 + i], np.float32)
    )
    for i in range(2):
        assert isinstance(results[i][0], tf.errors.InvalidArgumentError), results[i][0]
        assert "shape" in results[i][0].message.lower()
        assert "[2]" in results[i][0].message and "[3]" in results[i][0].message


@pytest.mark.parametrize("form", FORMS)
def test_a_member_that_does_not_come(fragile, form):
    group = next(_keys)
    began = time.monotonic()
    with fails(tf.errors.DeadlineExceededError, "timed out waiting for other workers"):
        run_group(fragile.master, 1, "tasks", lambda i: FORMS[form](tf.zeros([2]), 2, group, 1, timeout_seconds=1.0))
    took = time.monotonic() - began
    assert took > 0.9 and is_in_time(took, 10)


@pytest.mark.parametrize("has_key", [True, False])
def test_a_client_that_does_not_come_and_no_time_limit(fragile, has_key):
    group, key = next(_keys), next(_keys) if has_key else 0
    with fails(tf.errors.DeadlineExceededError):
        build = lambda i: reduce_v2(tf.zeros([2]), 2, group, 1)  # noqa: E731
        run_group(fragile.master, 1, "tasks", build, graph_key=key, timeout_ms=1500)


@pytest.mark.weft_only  # stock servers have to be started again
def test_after_a_failure_life_goes_on(fragile):
    group, other = next(_keys), next(_keys)
    for _ in range(2):
        with fails(tf.errors.InvalidArgumentError, "shape"):
            run_group(fragile.master, 2, "tasks", lambda i: reduce_v2(tf.zeros([3 + i]), 2, group, 1))
        for key in (group, other):
            got = run_group(fragile.master, 2, "tasks", lambda i: reduce_v2(tf.constant([1.0 + i]), 2, key, 1))
            assert [g.tolist() for g in got] == [[3.0], [3.0]]


@pytest.mark.weft_only
def test_clients_go_on_after_a_failure(fragile):
    group, key = next(_keys), next(_keys)

    def feeds(i, step):
        return np.ones([2 + (i if step == 1 else 0)], np.float32)

    results = between(fragile, 2, lambda i, x: reduce_v2(x, 2, group, 1), 4, key, feeds)
    for i in range(2):
        assert isinstance(results[i][1], tf.errors.InvalidArgumentError), results[i][1]
        for step in (0, 2, 3):
            assert not isinstance(results[i][step], Exception), f"client {i}, step {step}: {results[i][step]}"
            assert results[i][step].tolist() == [2.0, 2.0]


@pytest.mark.weft_only  # a stock client waits for a worker that comes back
def test_a_member_that_dies(fragile):
    group = next(_keys)
    g = tf.Graph()
    with g.as_default():
        with tf.device(member(0, "tasks")):
            first = reduce_v2(tf.zeros([2]), 2, group, 1)
        with tf.device(member(1, "tasks")):
            never = v1.placeholder_with_default(0, [])
            queue = tf.queue.FIFOQueue(1, [tf.float32], [[2]])
            second = reduce_v2(queue.dequeue(), 2, group, 1)
            del never
    caught = []

    def run():
        try:
            sess.run([first, second])
        except tf.errors.OpError as e:
            caught.append((e, time.monotonic()))

    with session(fragile.master, g) as sess:
        t = threading.Thread(target=run)
        t.start()
        time.sleep(1.0)
        killed = time.monotonic()
        fragile.kill("worker", 1)
        t.join(60)
    assert caught, "the step hangs"
    assert isinstance(caught[0][0], (tf.errors.UnavailableError, tf.errors.AbortedError)), caught[0][0]
    assert is_in_time(caught[0][1] - killed, 2)


BAD = {
    "group_size": (lambda: reduce_v2(tf.zeros([2]), 0, 1, 1), "group_size must be positive integer but got 0"),
    "group_size_v1": (lambda: reduce_v1(tf.zeros([2]), 0, 1, 1), "group_size must be positive integer but got 0"),
    "size_vector": (lambda: reduce_v2(tf.zeros([2]), [2], 1, 1), "Unexpected dimensions on input group_size, got [1]"),
    "group_vector": (lambda: reduce_v2(tf.zeros([2]), 2, [1], 1), "Unexpected dimensions on input group_key, got [1]"),
    "instance_vector": (lambda: reduce_v2(tf.zeros([2]), 2, 1, [1, 2]), "Unexpected dimensions on input instance_key, got [2]"),
    "assignment": (
        lambda: R.CollectiveAssignGroupV2(group_assignment=[1, 2], device_index=1, base_key=1).group_key,
        "group_assignment must be a 2-d Tensor, but received tensor of shape: [2]",
    ),
    "index": (
        lambda: R.CollectiveAssignGroupV2(group_assignment=[[0, 1]], device_index=[1], base_key=1).group_key,
        "device_index must be a scalar, but received tensor of shape: [1]",
    ),
    "not_assigned": (
        lambda: R.CollectiveAssignGroupV2(group_assignment=[[0, 1]], device_index=9, base_key=1).group_key,
        "device_index 9 is not found in group_assignment Tensor<type: int32 shape: [1,2] values: [0 1]>",
    ),
    "rank": (
        lambda: R.CollectiveInitializeCommunicator(group_key=1, rank=5, group_size=2),
        "rank must be less than group size but got 5 >= 2",
    ),
    "negative_rank": (
        lambda: R.CollectiveInitializeCommunicator(group_key=1, rank=-1, group_size=2),
        "rank must be non-negative integer but got -1",
    ),
    "dimension": (
        lambda: R.CollectiveBcastRecvV2(
            T=tf.float32, group_size=2, group_key=1, instance_key=1, shape=v1.placeholder_with_default([-1], [1]), timeout_seconds=5
        ),
        "Dimension -1 must be >= 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(wide, graph, case):
    build, message = BAD[case]
    with tf.device(member(0, "tasks")):
        y = build()
    with session(wide.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, message):
            sess.run(y.op)


def test_a_declared_shape_must_be_the_inputs(fragile):
    keys = {"group_size": 2, "group_key": next(_keys), "instance_key": 1, "shape": [4]}
    with fails(tf.errors.InternalError, "Declared shape of op sends: Broadcast(1) does not match shape of input"):
        run_group(
            fragile.master,
            2,
            "tasks",
            lambda i: R.CollectiveBcastRecv(T=tf.float32, **keys) if i else R.CollectiveBcastSend(input=tf.zeros([3]), name="sends", **keys),
        )


@pytest.mark.weft_only
def test_a_second_source_is_refused_whatever_was_before(fragile):
    keys = {"group_size": 2, "group_key": next(_keys), "instance_key": 1, "shape": [3]}
    send = lambda n: R.CollectiveBcastSend(input=tf.ones([n]), **keys)  # noqa: E731
    receive = lambda: R.CollectiveBcastRecv(T=tf.float32, **keys)  # noqa: E731
    for _ in range(2):
        got = run_group(fragile.master, 2, "devices", lambda i: receive() if i else send(3))
        assert [g.tolist() for g in got] == [[1.0] * 3] * 2
        with fails(tf.errors.InternalError, "does not match shape of input"):
            run_group(fragile.master, 2, "devices", lambda i: receive() if i else send(2))
        with fails(tf.errors.InvalidArgumentError, "two sources"):
            run_group(fragile.master, 2, "devices", lambda i: send(3), timeout_ms=8000)
