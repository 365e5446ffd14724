"""`weft submit` of training graphs that read their data by an iterator: under every strategy the losses of one device.

Nothing is fed; a run ends without an error when its data do.
"""

import json
import random
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from support import v1

pytestmark = pytest.mark.weft_only
BATCH, ROWS = 8, 44  # the last of six batches has four rows


def element(i):
    x = tf.cast(4 * i + tf.range(4), tf.float32) % 7.0 / 7.0
    return i, x, tf.reduce_sum(x * [1.0, -2.0, 3.0, 0.5], keepdims=True) + 0.25


def pipeline(drops):
    rows = tf.data.Dataset.range(ROWS, output_type=tf.int32).shuffle(16, seed=3).map(element)
    return rows.batch(BATCH, drop_remainder=drops).prefetch(2)


def long_pipeline():
    """Several epochs, with a stage of each kind that holds elements back or makes them ahead."""
    rows = tf.data.Dataset.range(8).interleave(lambda i: tf.data.Dataset.range(1000 * i, 1000 * i + 700), cycle_length=3, num_parallel_calls=2)
    rows = rows.map(lambda i: element(tf.cast(i, tf.int32)), num_parallel_calls=2)
    return rows.shuffle(50, seed=5).batch(BATCH).cache().repeat(3).prefetch(4)


def unsavable_pipeline():
    """Elements come from a function that has a state of its own."""
    spec = tf.nest.flatten(pipeline(False).unbatch().element_spec)

    def function(fn, **takes):
        return tf.function(fn, input_signature=list(takes.values())).get_concrete_function()

    state = tf.TensorSpec([], tf.int64)
    made = tf.raw_ops.GeneratorDataset(
        init_func_other_args=[],
        next_func_other_args=[],
        finalize_func_other_args=[],
        init_func=function(lambda: tf.constant(3, tf.int64)),
        next_func=function(lambda n: element(tf.cast(n, tf.int32)), n=state),
        finalize_func=function(lambda n: n, n=state),
        output_types=[s.dtype for s in spec],
        output_shapes=[s.shape for s in spec],
    )
    return tf.data.experimental.from_variant(made, tuple(spec)).batch(BATCH)


def build(kind, drops=False, make=None):
    """A graph with the nodes init, data, train, loss and rows."""
    g = tf.Graph()
    with g.as_default():
        rows = pipeline(drops) if make is None else make()
        once = kind == "one_shot"
        iterator = v1.data.make_one_shot_iterator(rows) if once else v1.data.make_initializable_iterator(rows)
        index, x, y = iterator.get_next()
        tf.identity(index, name="rows")
        w = v1.get_variable("w", [4, 1], initializer=v1.constant_initializer(0.25))
        b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y), name="loss")
        tf.group(v1.train.MomentumOptimizer(0.1, 0.5).minimize(loss), name="train")
        tf.group(v1.global_variables_initializer(), name="init")
        tf.group(tf.no_op() if once else iterator.initializer, name="data")
    return g


def one_device(g):
    told = []
    with v1.Session(graph=g) as sess:
        sess.run("init")
        sess.run("data")
        while True:
            try:
                told.append(sess.run(["loss:0", "train"])[0])
            except tf.errors.OutOfRangeError:
                return told


def submit(maker, path, *args):
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train", "--fetch", "loss", "--json"]
    done = subprocess.run([*command, *args], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["done"] and "error" not in lines[-1]
    return lines


def steps(*args):
    return [line["fetches"] for line in submit(*args) if line.get("done") is False]


def fetches_of(lines):
    return [line["fetches"] for line in lines if line.get("done") is False]


def losses(*args):
    return [step["loss"] for step in steps(*args)]


LOCAL = ["mirrored:2", "mirrored:3", "data_parallel:2", "central_storage:2", "parameter_server:mode=sync,workers=3"]


@pytest.mark.parametrize("kind,drops", [("initialised", False), ("initialised", True), ("one_shot", False)])
def test_losses_are_those_of_one_device(maker, tmp_path, kind, drops):
    g = build(kind, drops)
    want, path = one_device(g), tmp_path / "graph.pb"
    assert len(want) == (5 if drops else 6)
    path.write_bytes(g.as_graph_def().SerializeToString())
    np.testing.assert_allclose(losses(maker, path), want, rtol=1e-5)
    for strategy in LOCAL:
        np.testing.assert_allclose(losses(maker, path, "--strategy", strategy), want, rtol=1e-5, err_msg=strategy)


@pytest.mark.parametrize("strategy", ["parameter_server:mode=sync", "multi_worker_mirrored"])
def test_on_servers(maker, cluster, tmp_path, unique, strategy):
    g = build("initialised", False)
    want, path = one_device(g), tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--container", unique, "--strategy", strategy]
    for _ in range(2):  # the second run initialises what the first left at its end
        np.testing.assert_allclose(losses(maker, path, *more), want, rtol=1e-5)
    np.testing.assert_allclose(losses(maker, path, *more, "--steps", "3"), want[:3], rtol=1e-5)


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("options", ["mode=async", "mode=ssp,staleness=1"])
def test_workers_with_batches_of_their_own_read_parts_of_the_data(maker, cluster, tmp_path, unique, options, kind):
    path = tmp_path / "graph.pb"
    path.write_bytes(build(kind).as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--strategy", f"parameter_server:{options}", "--fetch", "rows"]
    for i in range(2):
        told = steps(maker, path, *more, "--container", f"{unique}.{i if kind == 'one_shot' else 0}")
        rows = [r for step in told for r in step["rows"]]
        assert len(told) >= 3 and len(set(rows)) == len(rows) and set(rows) <= set(range(ROWS))
        assert len(rows) == ROWS  # the others go on when one part has ended


def short_pipeline():
    """Four batches for three workers."""
    return tf.data.Dataset.range(29, output_type=tf.int32).map(element).batch(BATCH)


@pytest.mark.parametrize("options", ["mode=async", "mode=ssp,staleness=0", "mode=ssp,staleness=2"])
def test_saves_come_while_one_worker_has_ended(maker, tmp_path, options):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", make=short_pipeline).as_graph_def().SerializeToString())
    want = [r for step in steps(maker, path, "--fetch", "rows") for r in step["rows"]]
    more = ["--strategy", f"parameter_server:{options},workers=3", "--fetch", "rows", "--save", str(tmp_path / "model"), "--save-every", "2"]
    lines = submit(maker, path, *more)
    assert sorted(r for line in lines if line.get("done") is False for r in line["fetches"]["rows"]) == sorted(want)
    assert any("saved" in line for line in lines)


def parts_of(folder, sizes):
    """A function that makes batches of 4 out of files with so many lines each, which are the parts of workers."""
    names, at = [], 0
    for i, size in enumerate(sizes):
        names.append(str(folder / f"{i}.txt"))
        (folder / f"{i}.txt").write_text("".join(f"{n}\n" for n in range(at, at + size)))
        at += size
    number = lambda line: element(tf.strings.to_number(line, tf.int32))
    return lambda: tf.data.TextLineDataset(names).map(number).batch(4)


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("sizes", [[4, 60, 60], [60, 4, 8], [60, 20, 4], [0, 0, 60], [20, 20, 20]])
@pytest.mark.parametrize("options", ["mode=async", "mode=ssp,staleness=0", "mode=ssp,staleness=2"])
def test_a_worker_whose_data_end_leaves_its_steps_to_the_others(maker, tmp_path, options, sizes, saves):
    path, all_steps = tmp_path / "graph.pb", sum(sizes) // 4
    path.write_bytes(build("initialised", make=parts_of(tmp_path, sizes)).as_graph_def().SerializeToString())
    more = ["--strategy", f"parameter_server:{options},workers=3", "--fetch", "rows"]
    if saves:
        more += ["--save", str(tmp_path / "model"), "--save-every", "3"]
    for num_steps in (all_steps - 1, all_steps, all_steps + 5):
        lines = submit(maker, path, *more, "--steps", str(num_steps))
        rows = [r for line in lines if line.get("done") is False for r in line["fetches"]["rows"]]
        assert lines[-1]["step"] == min(num_steps, all_steps) == len(rows) // 4
        assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("options", ["mode=async", "mode=ssp,staleness=1"])
def test_a_resumed_job_makes_the_steps_of_workers_without_data(maker, tmp_path, options):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", make=parts_of(tmp_path, [4, 60, 40])).as_graph_def().SerializeToString())
    more = ["--strategy", f"parameter_server:{options},workers=3", "--fetch", "rows", "--save", str(tmp_path / "model"), "--steps"]
    rows = [r for steps_done in ("9", "17", "26") for step in steps(maker, path, *more, steps_done, *([] if steps_done == "9" else ["--resume"])) for r in step["rows"]]
    assert sorted(rows) == list(range(104))


def policied(policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return pipeline(False).with_options(options)


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("policy,times", [(tf.data.experimental.AutoShardPolicy.OFF, 2), (tf.data.experimental.AutoShardPolicy.DATA, 1)])
def test_workers_share_the_data_as_its_options_say(maker, tmp_path, kind, policy, times):
    path = tmp_path / "graph.pb"
    path.write_bytes(build(kind, make=lambda: policied(policy)).as_graph_def().SerializeToString())
    told = steps(maker, path, "--strategy", "parameter_server:mode=async,workers=2", "--fetch", "rows")
    assert sorted(r for step in told for r in step["rows"]) == sorted(list(range(ROWS)) * times)


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
def test_files_that_are_demanded_must_be_there(maker, tmp_path, kind):
    path = tmp_path / "graph.pb"
    g = build(kind, make=lambda: policied(tf.data.experimental.AutoShardPolicy.FILE))
    path.write_bytes(g.as_graph_def().SerializeToString())
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train"]
    done = subprocess.run([*command, "--strategy", "parameter_server:mode=async,workers=2"], capture_output=True, text=True, timeout=90)
    assert done.returncode != 0 and "(NOT_FOUND)" in done.stderr


def reader_beside():
    """A step that reads its data, and asks a file reader whose queue is closed."""
    g = build("initialised")
    with g.as_default():
        queue = v1.FIFOQueue(3, tf.string)
        with tf.control_dependencies([queue.close()]):
            tf.identity(v1.WholeFileReader().read(queue)[1], name="file")
    return g


def test_only_the_end_of_the_data_ends_a_job_well(maker, tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(reader_beside().as_graph_def().SerializeToString())
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train", "--fetch", "file"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode != 0 and "ReaderRead" in done.stderr and "(OUT_OF_RANGE)" in done.stderr


def test_data_that_a_function_reads_end_a_job_well(maker, tmp_path):
    g = tf.Graph()
    with g.as_default():
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(3))

        @tf.function
        def take():
            return tf.raw_ops.IteratorGetNext(iterator=iterator._iterator_resource, output_types=[tf.int64], output_shapes=[[]])[0]

        tf.identity(take(), name="loss")
        tf.group(iterator.initializer, name="data")
        tf.no_op(name="init")
        tf.no_op(name="train")
    path = tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    assert losses(maker, path) == [0, 1, 2]
    told = submit(maker, path, "--steps", "2")
    assert told[-1]["input"]["devices"]["/job:localhost/replica:0/task:0/device:CPU:0"]["elements"] == 2


def check_waits(told):
    """What the last line says of the wait for data."""
    assert 0 <= told["wait_share"] <= 1 and told["wait_ms_per_step"] >= 0
    assert told["wait_share"] == max(d["wait_share"] for d in told["devices"].values())
    assert all(0 <= d["buffered_bytes"] <= d["budget_bytes"] for d in told["devices"].values())
    return {name: d["elements"] for name, d in told["devices"].items()}


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2", "parameter_server:mode=async,workers=2"])
def test_the_wait_for_data_is_told(maker, tmp_path, strategy):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", False).as_graph_def().SerializeToString())
    more = [] if strategy is None else ["--strategy", strategy]
    elements = check_waits(submit(maker, path, *more)[-1]["input"])
    assert len(elements) == (2 if "async" in str(strategy) else 1)
    assert sum(elements.values()) == 6


def test_the_wait_for_data_is_told_by_task_and_counts_from_the_job_on(maker, cluster, tmp_path, unique):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", False).as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--container", unique]
    for strategy in ["multi_worker_mirrored", "parameter_server:mode=async"]:
        for _ in range(2):  # the second job on the same iterators
            elements = check_waits(submit(maker, path, *more, "--strategy", strategy, "--steps", "4")[-1]["input"])
            assert len({name.rpartition("/device")[0] for name in elements}) == len(elements) == 2
            assert sum(elements.values()) == 4 or (strategy[0] == "m" and list(elements.values()) == [4, 4])  # rows of each batch


def test_a_trace_shows_the_wait_for_data(maker, tmp_path):
    path, trace = tmp_path / "graph.pb", tmp_path / "trace.json"
    path.write_bytes(build("initialised", False).as_graph_def().SerializeToString())
    submit(maker, path, "--steps", "3", "--trace", str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    waits = [e for e in events if e.get("cat") == "wait for input"]
    assert [e["tid"] for e in waits] == [tracks["input"]] and "IteratorGetNext" in waits[0]["args"]["label"]


def test_a_job_without_iterators_says_nothing_of_input(maker, tmp_path):
    g = tf.Graph()
    with g.as_default():
        tf.constant(1.0, name="loss")
    for name in ("init", "data", "train"):
        with g.as_default():
            tf.no_op(name=name)
    path = tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    assert "input" not in submit(maker, path)[-1]


def start(maker, path, *args):
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train", "--fetch", "loss", "--fetch", "rows", "--json"]
    return subprocess.Popen([*command, *args], stdout=subprocess.PIPE, text=True)


def kill_at(job, step):
    """Kills a job once it has told of the step. Gives all that it told, by step."""
    told = {}
    for line in job.stdout:
        line = json.loads(line)
        if line.get("done") is False:
            told[line["step"]] = line["fetches"]
        if line["step"] >= step:
            job.kill()
    job.stdout.close()
    assert job.wait() == -9
    return told


def resume(maker, path, *args):
    """Runs a job to its end. Gives the step that it went on from, and what it told."""
    job = start(maker, path, *args, "--resume")
    lines = [json.loads(line) for line in job.stdout]
    job.stdout.close()
    assert job.wait() == 0 and not any("note" in line for line in lines)
    resumed = [line["step"] for line in lines if "resumed" in line]
    return resumed[0], {line["step"]: line["fetches"] for line in lines if line.get("done") is False}


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2"])
def test_a_job_that_was_killed_goes_on_with_the_next_element(maker, tmp_path, kind, strategy):
    path, draw = tmp_path / "graph.pb", random.Random(f"{kind} {strategy}")
    path.write_bytes(build(kind, make=long_pipeline).as_graph_def().SerializeToString())
    more = [] if strategy is None else ["--strategy", strategy]
    job = start(maker, path, *more, "--steps", "900")
    want = [json.loads(line)["fetches"] for line in job.stdout]
    job.stdout.close()
    assert job.wait() == 0 and len(want) == 901
    more += ["--save", str(tmp_path / "model"), "--save-every", str(draw.randint(20, 60)), "--steps", "900"]
    told = kill_at(start(maker, path, *more), draw.randint(100, 300))
    for at in (draw.randint(350, 500), None):  # killed, killed again, to the end
        if at is not None:
            told.update(kill_at(start(maker, path, *more, "--resume"), at))
        else:
            first, rest = resume(maker, path, *more)
            assert min(rest) == first + 1 and first >= 300
            told.update(rest)
    assert sorted(told) == list(range(1, 901))
    assert [told[i]["rows"] for i in sorted(told)] == [step["rows"] for step in want[:-1]]
    np.testing.assert_allclose([told[i]["loss"] for i in sorted(told)], [step["loss"] for step in want[:-1]], rtol=1e-5)


@pytest.mark.parametrize("strategy", ["parameter_server:mode=sync", "multi_worker_mirrored"])
def test_a_job_on_servers_that_was_killed_goes_on(maker, cluster, tmp_path, unique, strategy):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", make=long_pipeline).as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--strategy", strategy, "--steps", "200"]
    want = steps(maker, path, *more, "--fetch", "rows", "--container", unique + ".whole")
    more += ["--container", unique, "--save", str(tmp_path / "model"), "--save-every", "17"]
    told = kill_at(start(maker, path, *more), 60)
    first, rest = resume(maker, path, *more)
    told.update(rest)
    assert first >= 51 and min(rest) == first + 1
    assert [told[i]["rows"] for i in range(1, 201)] == [step["rows"] for step in want]
    np.testing.assert_allclose([told[i]["loss"] for i in range(1, 201)], [step["loss"] for step in want], rtol=1e-5)


@pytest.mark.parametrize("end", [6, 7, 8, 13])
def test_a_round_that_was_broken_is_repeated_with_its_elements(maker, tmp_path, end):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", make=long_pipeline).as_graph_def().SerializeToString())
    more = ["--strategy", "mirrored:2,accumulate=3", "--fetch", "rows", "--steps"]
    want = steps(maker, path, *more, "18")
    more = ["--save", str(tmp_path / "model"), *more]
    steps(maker, path, *more, str(end))
    told = steps(maker, path, *more, "18", "--resume")
    assert [step["rows"] for step in told] == [step["rows"] for step in want[end - end % 3 :]]
    np.testing.assert_allclose([step["loss"] for step in told], [step["loss"] for step in want[end - end % 3 :]], rtol=1e-5)


def test_workers_that_run_apart_go_on_with_their_own_parts(maker, cluster, tmp_path, unique):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised").as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--container", unique, "--strategy", "parameter_server:mode=async"]
    more += ["--save", str(tmp_path / "model"), "--fetch", "rows"]
    rows = [r for step in steps(maker, path, *more, "--steps", "3") for r in step["rows"]]
    rows += [r for step in steps(maker, path, *more, "--steps", "4", "--resume") for r in step["rows"]]
    assert len(set(rows)) == len(rows) == 4 * BATCH or len(rows) == 4 * BATCH - 4


def test_a_meta_graph_goes_on_in_the_middle_of_its_data(maker, tmp_path):
    path, g = tmp_path / "graph.meta", build("initialised", make=long_pipeline)
    with g.as_default():
        v1.train.export_meta_graph(str(path))
    want = steps(maker, path, "--fetch", "rows", "--steps", "9")
    more = ["--fetch", "rows", "--save", str(tmp_path / "model"), "--steps"]
    assert steps(maker, path, *more, "4") + steps(maker, path, *more, "9", "--resume") == want


def drawn(i, seed=5):
    """An element of a number that is drawn, also a row of a random batch."""
    return element(tf.random.uniform([], maxval=1 << 20, dtype=tf.int32, seed=seed) + 0 * i)


def in_branches(i):
    return tf.cond(tf.equal(i % 3, 0), lambda: drawn(i, 7), lambda: drawn(i, 8))


DRAWING = {
    "a map": lambda rows: rows.map(drawn).batch(4),
    "a map, made ahead": lambda rows: rows.map(drawn).batch(4).prefetch(3),
    "a parallel map of one call": lambda rows: rows.map(drawn, num_parallel_calls=1).batch(4).prefetch(2),
    "a branch": lambda rows: rows.map(in_branches).shuffle(6, seed=1).batch(4),
    "data sets of elements": lambda rows: rows.flat_map(lambda i: tf.data.Dataset.range(3).map(lambda k: drawn(tf.cast(k, tf.int32)))).batch(4),
    "a filter": lambda rows: rows.filter(lambda i: tf.random.uniform([], seed=2) < 0.7).map(drawn).batch(4),
    "several kinds": lambda rows: rows.map(lambda i: element(tf.cast(tf.random.poisson([], 50.0, seed=1) + 9 * tf.random.gamma([], 2.0, seed=2) + tf.random.shuffle(tf.range(9.0), seed=3)[0] + 5 * tf.random.truncated_normal([], seed=4), tf.int32))).batch(4),
    "a scan": lambda rows: rows.scan(0, lambda s, i: (s + 1, s + tf.random.uniform([], maxval=99, dtype=tf.int32, seed=4))).map(element).batch(4),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("what", DRAWING)
def test_random_numbers_of_a_pipeline_go_on(maker, tmp_path, what, kind):
    path = tmp_path / "graph.pb"
    path.write_bytes(build(kind, make=lambda: DRAWING[what](tf.data.Dataset.range(60, output_type=tf.int32).repeat())).as_graph_def().SerializeToString())
    more = ["--fetch", "rows", "--save", str(tmp_path / "model"), "--steps"]
    want = [step["rows"] for step in steps(maker, path, "--fetch", "rows", "--steps", "40")]
    assert len({tuple(rows) for rows in want}) == 40
    told = [step["rows"] for step in steps(maker, path, *more, "7")]
    for end in ("8", "23", "40"):
        told += [step["rows"] for step in steps(maker, path, *more, end, "--resume")]
    assert told == want


def dealt():
    """A graph whose step takes elements that are dealt out to two devices, with raw ops."""
    g = tf.Graph()
    with g.as_default():
        rows = tf.data.Dataset.range(24).batch(2)
        types = {"output_types": [tf.int64], "output_shapes": [[None]]}
        handle = tf.raw_ops.MultiDeviceIterator(devices=["/cpu:0", "/cpu:0"], shared_name="dealt", container="", **types)
        begun = v1.get_local_variable("begun", [], tf.int64, initializer=v1.zeros_initializer())
        start = tf.raw_ops.MultiDeviceIteratorInit(dataset=rows._variant_tensor, multi_device_iterator=handle, max_buffer_size=2)
        tf.group(v1.assign(begun, start), name="data")
        total = v1.get_variable("total", [], tf.int64, initializer=v1.zeros_initializer())
        parts = [tf.raw_ops.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=handle, shard_num=i, incarnation_id=begun, **types)[0] for i in range(2)]
        tf.concat(parts, 0, name="rows")
        tf.identity(v1.assign_add(total, tf.reduce_sum(parts[0]) + tf.reduce_sum(parts[1])), name="loss")
        tf.group(v1.global_variables_initializer(), v1.local_variables_initializer(), name="init")
        tf.no_op(name="train")
    return g


def test_elements_that_are_dealt_out_are_counted_and_named(maker, tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(dealt().as_graph_def().SerializeToString())
    lines = submit(maker, path, "--fetch", "rows")
    assert [step["rows"] for step in fetches_of(lines)] == [list(range(i, i + 4)) for i in range(0, 24, 4)]
    assert sum(check_waits(lines[-1]["input"]).values()) == 12
    more = ["--fetch", "rows", "--save", str(tmp_path / "model"), "--steps"]
    lines = submit(maker, path, *more, "2")
    assert ["multi-device iterator" in line["note"] for line in lines if "note" in line] == [True]
    lines = submit(maker, path, *more, "4", "--resume")
    assert any("begins anew" in line.get("note", "") for line in lines)
    assert [step["rows"] for step in fetches_of(lines)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_an_iterator_that_functions_read_goes_on(maker, tmp_path):
    g = tf.Graph()
    with g.as_default():
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(9).shuffle(5, seed=1))
        total = v1.get_variable("total", [], tf.int64, initializer=v1.zeros_initializer())

        @tf.function
        def take():
            return tf.raw_ops.IteratorGetNext(iterator=iterator._iterator_resource, output_types=[tf.int64], output_shapes=[[]])[0]

        tf.identity(v1.assign_add(total, take()), name="loss")
        tf.group(iterator.initializer, name="data")
        tf.group(total.initializer, name="init")
        tf.no_op(name="train")
    path = tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    more = ["--save", str(tmp_path / "model")]
    want = losses(maker, path)
    assert want[-1] == 36
    assert losses(maker, path, *more, "--steps", "4") + losses(maker, path, *more, "--steps", "100", "--resume") == want


def test_servers_of_tensorflow_run_the_job_and_are_not_asked(maker, tmp_path):
    g, server = build("initialised"), v1.train.Server.create_local_server()
    path = tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    lines = submit(maker, path, "--master", server.target, "--save", str(tmp_path / "model"))
    np.testing.assert_allclose([line["fetches"]["loss"] for line in lines if line.get("done") is False], one_device(g), rtol=1e-5)
    assert "input" not in lines[-1]


def test_an_iterator_that_cannot_be_saved_is_named_once(maker, tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", make=unsavable_pipeline).as_graph_def().SerializeToString())
    more = ["--save", str(tmp_path / "model"), "--save-every", "1", "--steps"]
    lines = submit(maker, path, *more, "3")
    assert ["cannot be saved" in line["note"] for line in lines if "note" in line] == [True]
    lines = submit(maker, path, *more, "5", "--resume")
    notes = [line["note"] for line in lines if "note" in line]
    assert len(notes) == 2 and "begins anew: the checkpoint has no state of it" in notes[0] and lines[-1]["step"] == 5


def test_another_pipeline_under_the_same_name_begins_anew(maker, tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised").as_graph_def().SerializeToString())
    more = ["--save", str(tmp_path / "model"), "--fetch", "rows", "--steps"]
    submit(maker, path, *more, "2")
    path.write_bytes(build("initialised", make=long_pipeline).as_graph_def().SerializeToString())
    lines = submit(maker, path, *more, "4", "--resume")
    assert ["begins anew" in line["note"] for line in lines if "note" in line] == [True]
    assert [len(line["fetches"]["rows"]) for line in lines if line.get("done") is False] == [BATCH, BATCH]
